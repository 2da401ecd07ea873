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
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.cli.errors import visible
from regfactor.core.loop import Iterate, relative

SECONDS_BETWEEN_UPDATES = 0.1  # of a progress bar
DEFAULT_TOL = 1e-4  # the relative gap at which fits end
SHORT_WORK = 2.0  # seconds before the remaining time is shown
SMALLEST_SHARE = 0.05  # of the work from which the rest is judged
RISE_OF_NEXT_FIT = 10.0  # of the gap, by which it belongs to another fit


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
    def progress(self, what: str, tol: float = DEFAULT_TOL) -> Iterator[ProgressCallback]:
        """Show a progress bar; the callback updates it with objective, gap and remaining time.

        A fit with a bound ends at the relative gap `tol`.
        """
        if not sys.stderr.isatty():
            yield ProgressCallback(what, _silent, tol)
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
            yield ProgressCallback(what, lambda text: bar.update(task, description=text), tol)


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


@dataclass
class RemainingTime:
    """The time that work still takes, if the rest goes on as what is done."""

    started: float

    def restart(self) -> None:
        """Begin anew: what follows is other work."""
        self.started = time.monotonic()

    def text(self, share: float) -> str:
        """Return the time for the rest in words; empty while it is short, or a mere guess."""
        elapsed = time.monotonic() - self.started
        if elapsed < SHORT_WORK or not SMALLEST_SHARE <= share < 1:
            return ""
        return f", about {_duration(elapsed * (1 - share) / share)} left"


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{math.ceil(seconds)} s"
    if seconds < 90:
        return f"{10 * math.ceil(seconds / 10)} s"
    if seconds < 5400:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


class ProgressCallback:
    """A callback of fits that shows objective, gap and remaining time at intervals.

    The share of the work that is done is that of the members of a pool; a gap is taken to shrink by
    the same factor in each unit of time.
    """

    def __init__(self, what: str, tell: Callable[[str], None], tol: float = DEFAULT_TOL) -> None:
        self.what = what
        self.tell = tell
        self.tol = tol
        self.last = 0.0
        self.best = -math.inf
        self.steps = 0
        self.remaining = RemainingTime(time.monotonic())
        self.first_gap = math.inf
        self.last_gap = math.inf

    def __call__(self, it: Iterate[Any]) -> None:
        if it.objective < self.best:  # of another fit
            self.best = -math.inf
        self.best = max(self.best, it.bound)
        self.steps = self.steps + it.steps
        gap = relative(it.objective - self.best, it.objective, 0.0)
        share = it.info.get("share", self._share_of_gap(gap))
        if time.monotonic() - self.last < SECONDS_BETWEEN_UPDATES:
            return
        self.last = time.monotonic()
        shown = f", relative gap {gap:.1e}" if math.isfinite(gap) else ""
        left = self.remaining.text(share)
        self.tell(f"{self.what}: step {self.steps}, objective {it.objective:.6g}{shown}{left}")

    def part(self, done: int, total: int) -> None:
        """Show that `done` of `total` equal parts of the work are done."""
        left = self.remaining.text(done / total)
        self.tell(f"{self.what}: {done} of {total}{left}")

    def _share_of_gap(self, gap: float) -> float:
        """Return the share of the way from the first gap to the tolerance, on a log scale."""
        if not 0 < gap < math.inf:
            return 0.0
        # another fit has begun: that with the next strength, say
        if self.first_gap == math.inf or gap > RISE_OF_NEXT_FIT * self.last_gap:
            self.first_gap = gap
            self.remaining.restart()
        self.last_gap = gap
        if gap <= self.tol or self.first_gap <= self.tol:
            return 1.0
        return math.log(self.first_gap / gap) / math.log(self.first_gap / self.tol)


def _silent(text: str) -> None:
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
