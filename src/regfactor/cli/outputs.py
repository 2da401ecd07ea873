"""Files that a command writes: planned first, written under temporary names, renamed at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regfactor.cli.errors import BadInput

Writer = Callable[[Path], object]
# remedies
ELSEWHERE = "name another folder by --out"
RENAMED = "give --save another name"


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
        self.planned.append(path)
        return path

    def write(self, path: Path, writer: Writer) -> None:
        """Write a planned file under a temporary name in the same folder."""
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        self._written.append((Path(name), path))
        writer(Path(name))
        os.chmod(name, 0o666 & ~_umask())

    def commit(self) -> list[Path]:
        """Give all files their names; an interrupt waits until that is done."""
        for _, path in self._written:
            self._refuse_existing(path)
        with _uninterrupted():
            for temporary, path in self._written:
                os.replace(temporary, path)
            self.committed = True
        done = [path for _, path in self._written]
        self._written = []
        return done

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
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
