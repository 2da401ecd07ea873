"""Output of a command: results on stdout, as text or as JSON.

Notes, progress and errors on stderr.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from regfactor.cli.errors import visible
from regfactor.core.loop import Iterate, relative

SECONDS_BETWEEN_UPDATES = 0.1  # of a progress bar


class Console:
    """The output of one command."""

    def __init__(self, as_json: bool = False, verbose: bool = False) -> None:
        self.as_json = as_json
        self.verbose = verbose
        self.record: dict[str, Any] = {}
        self.notes: list[str] = []
        self.for_table = False  # whether standard output is for the table alone
        self.lost = ""  # why standard output cannot be written

    def say(self, text: str) -> None:
        """Print a line of text, unless JSON was asked for."""
        if self.as_json:
            return
        if self.for_table:
            _to_stderr(visible(text))
        else:
            self.out(visible(text) + "\n")

    def detail(self, text: str) -> None:
        """Print a line of text if --verbose was given."""
        if self.verbose:
            self.say(text)

    def out(self, text: str) -> None:
        """Write to standard output; if nobody reads it any more, the work goes on."""
        if self.lost:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self.lost = "closed"
            _silence_stdout()
        except OSError as error:
            self.lost = error.strerror or str(error)
            _silence_stdout()

    def lines(self, pairs: list[tuple[str, str]]) -> None:
        """Print pairs of a heading and a text, in two columns."""
        width = max((len(a) for a, _ in pairs), default=0) + 2
        for a, b in pairs:
            self.say(f"  {a:<{width}}{b}")

    def note(self, text: str) -> None:
        """Print a note on stderr, once."""
        if text not in self.notes:
            self.notes.append(text)
            _to_stderr(f"note: {visible(text)}")

    def error(self, text: str, code: int) -> None:
        """Print why nothing was written."""
        _to_stderr(f"regfactor: {visible(text)}")
        if self.as_json:
            self.out(json.dumps({"error": text, "exit": code}) + "\n")

    def finish(self, code: int) -> None:
        """Print the record if JSON was asked for."""
        if self.as_json:
            record = plain({**self.record, "notes": self.notes, "exit": code})
            self.out(json.dumps(record, allow_nan=False) + "\n")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[Iterate[Any]], None]]:
        """Show a progress bar; the callback updates it with objective and gap."""
        if not sys.stderr.isatty():
            yield _silent
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what)
            yield _ProgressCallback(what, lambda text: bar.update(task, description=text))


def is_piped() -> bool:
    """Whether standard output goes to another program."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _to_stderr(text: str) -> None:
    """Write a line to standard error; if that is closed, it is dropped."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _silence_stdout() -> None:
    """Let what is still in the buffer of standard output go nowhere, also at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _ProgressCallback:
    """A callback that shows objective and gap at intervals."""

    def __init__(self, what: str, tell: Callable[[str], None]) -> None:
        self.what = what
        self.tell = tell
        self.last = 0.0
        self.best = -math.inf
        self.steps = 0

    def __call__(self, it: Iterate[Any]) -> None:
        self.best = max(self.best, it.bound)
        self.steps = self.steps + it.steps
        if time.monotonic() - self.last < SECONDS_BETWEEN_UPDATES:
            return
        self.last = time.monotonic()
        gap = relative(it.objective - self.best, it.objective, 0.0)
        shown = f", relative gap {gap:.1e}" if math.isfinite(gap) else ""
        self.tell(f"{self.what}: step {self.steps}, objective {it.objective:.6g}{shown}")


def _silent(it: Iterate[Any]) -> None:
    """Show nothing."""


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
