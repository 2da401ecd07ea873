"""Files that a command writes: planned first, written under temporary names, renamed at the end."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regfactor.cli.errors import BadInput, NotWritten

Writer = Callable[[Path], object]
# remedies
ELSEWHERE = "name another folder by --out"
RENAMED = "give --save another name"
PART = ".part"  # ending of temporary names, before which the process stands that made them


@dataclass
class Outputs:
    """All files of a command: they appear together, or none does."""

    force: bool = False
    inputs: list[Path] = field(default_factory=list)  # what the command reads, and must not replace
    planned: list[Path] = field(default_factory=list)
    committed: bool = False
    _written: list[tuple[Path, Path]] = field(default_factory=list)
    # folders, which go again where nothing is written
    _made: list[Path] = field(default_factory=list)

    def plan(self, path: Path, remedy: str = ELSEWHERE) -> Path:
        """Return a path that will be written.

        Raise, with a remedy, where it must not or cannot be.
        """
        folder = path.parent
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder} is a file, not a folder; {remedy}.")
        if not folder.is_dir():
            self._make(folder, remedy)
        if path.is_dir():
            raise BadInput(f"{path} is a folder; {remedy}.")
        if path.resolve() in [other.resolve() for other in self.planned]:
            raise BadInput(f"{path} would be written twice; {remedy}.")
        self._refuse_input(path, remedy)
        self._refuse_existing(path, remedy)
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise BadInput(
                f"Nothing can be written to {folder.resolve()} ({error.strerror}); {remedy}."
            ) from error
        _remove_parts_of_the_dead(path)
        self.planned.append(path)
        return path

    def write(self, path: Path, writer: Writer) -> None:
        """Write a planned file to the disk, under a temporary name in the same folder."""
        try:
            handle, name = _temporary(path)
            os.close(handle)
            self._written.append((Path(name), path))
            writer(Path(name))
            _to_disk(name)
            os.chmod(name, 0o666 & ~_umask())
        except OSError as error:
            raise NotWritten(
                f"{path} cannot be written ({error.strerror or error}); nothing was written."
            ) from error

    def commit(self) -> list[Path]:
        """Give all files their names; an interrupt waits until that is done."""
        for _, path in self._written:
            self._refuse_existing(path)
        with _uninterrupted():
            self._replace_all()
            self.committed = True
        done = [path for _, path in self._written]
        self._written = []
        return done

    def _replace_all(self) -> None:
        """Rename all files; where one cannot be, the earlier ones come back."""
        replaced: list[tuple[Path, Path | None]] = []
        try:
            for temporary, path in self._written:
                replaced.append((path, _second_name(path)))
                os.replace(temporary, path)
        except OSError as error:
            for path, earlier in reversed(replaced):
                if earlier is not None:
                    os.replace(earlier, path)
                elif path.is_file():
                    path.unlink()
            raise NotWritten(
                f"{replaced[-1][0]} cannot be replaced ({error.strerror or error}); all files are "
                "as they were."
            ) from error
        for _, earlier in replaced:
            if earlier is not None:
                earlier.unlink(missing_ok=True)
        for folder in {path.parent for path, _ in replaced}:
            _to_disk(folder)

    def discard(self) -> None:
        """Remove what was written under temporary names, and folders that were made for it."""
        for temporary, _ in self._written:
            temporary.unlink(missing_ok=True)
        self._written = []
        for folder in self._made if not self.committed else ():
            if not any(folder.iterdir()):  # someone else may have put something there
                folder.rmdir()
        self._made = []

    def _make(self, folder: Path, remedy: str) -> None:
        """Make a folder of results inside one that exists; that of a model must be there."""
        if remedy != ELSEWHERE or not folder.parent.is_dir():
            raise BadInput(f"There is no folder {folder}; create it, or {remedy}.")
        try:
            folder.mkdir()
        except OSError as error:
            raise BadInput(
                f"The folder {folder} cannot be made ({error.strerror}); {remedy}."
            ) from error
        self._made.append(folder)

    def _refuse_input(self, path: Path, remedy: str) -> None:
        if path.exists() and any(path.samefile(given) for given in self.inputs if given.exists()):
            raise BadInput(
                f"{path} is an input, which is not replaced even with --force; {remedy}."
            )

    def _refuse_existing(self, path: Path, remedy: str = ELSEWHERE) -> None:
        if path.exists() and not self.force:
            raise BadInput(f"{path} exists already; add --force to replace it, or {remedy}.")


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back an interrupt; outside the main thread there is none to hold back."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal,
        "pthread_sigmask",
    ):
        yield
        return
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _temporary(path: Path) -> tuple[int, str]:
    """Return a new file next to another, under a name with the process that makes it."""
    return tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=f".{os.getpid()}{PART}"
    )


def _remove_parts_of_the_dead(path: Path) -> None:
    """Remove what earlier processes were writing to a file when they were killed."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
        number = name.name.removesuffix(PART).rpartition(".")[2]
        if number.isdigit() and not _is_alive(int(number)):
            with contextlib.suppress(OSError):
                name.unlink()


def _is_alive(process: int) -> bool:
    if not hasattr(os, "kill") or os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _second_name(path: Path) -> Path | None:
    """Return another name of a file that is about to be replaced; None if there is none."""
    if not path.exists():
        return None
    handle, name = _temporary(path)
    os.close(handle)
    os.unlink(name)
    try:
        os.link(path, name)
    except OSError:  # a folder without second names
        shutil.copy2(path, name)
    return Path(name)


def _to_disk(path: str | Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    flags = os.O_RDONLY
    try:
        handle = os.open(path, flags)
    except OSError:
        if Path(path).is_dir():  # Windows opens no folders
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
