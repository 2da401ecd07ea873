"""Output of a command: results on stdout, as text or as JSON.

Notes, progress and errors on stderr.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from regfactor.core.loop import Iterate, relative

SECONDS_BETWEEN_UPDATES = 0.1  # of a progress bar


class Console:
    """The output of one command."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.record: dict[str, Any] = {}
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        """Print a line of text, unless JSON was asked for."""
        if not self.as_json:
            print(text)

    def lines(self, pairs: list[tuple[str, str]]) -> None:
        """Print pairs of a heading and a text, in two columns."""
        width = max((len(a) for a, _ in pairs), default=0) + 2
        for a, b in pairs:
            self.say(f"  {a:<{width}}{b}")

    def note(self, text: str) -> None:
        """Print a note on stderr, once."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"note: {text}", file=sys.stderr)

    def error(self, text: str, code: int) -> None:
        """Print why nothing was written."""
        print(f"regfactor: {text}", file=sys.stderr)
        if self.as_json:
            print(json.dumps({"error": text, "exit": code}))

    def finish(self, code: int) -> None:
        """Print the record if JSON was asked for."""
        if self.as_json:
            print(
                json.dumps(
                    plain({**self.record, "notes": self.notes, "exit": code}),
                    allow_nan=False,
                )
            )

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
