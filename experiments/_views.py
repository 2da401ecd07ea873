"""What the experiments on two views share: CPU clocks, objectives over time, signal to noise, tables of means."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments._runner import Record
from regfactor import datasets
from regfactor.core.loop import Iterate

PRECISION = 6  # digits of what is kept
_load = functools.cache(datasets.load)


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return CPU seconds and the result of a call."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


class Watch:
    """A callback that notes the CPU time and the best objective of every iterate, and stops at a limit."""

    def __init__(self, limit: float = np.inf) -> None:
        self.limit, self.seconds, self.objectives = limit, list[float](), list[float]()
        self.start = time.process_time()

    def __call__(self, it: Iterate) -> bool:
        self.seconds.append(time.process_time() - self.start)
        self.objectives.append(min([it.objective, *self.objectives[-1:]]))
        return self.seconds[-1] >= self.limit

    def at(self, seconds: float) -> float | None:
        """Return the best objective by then, None before the first iterate."""
        reached = np.searchsorted(self.seconds, seconds, side="right") - 1
        return None if reached < 0 else self.objectives[reached]

    def reaches(self, objective: float) -> float | None:
        """Return when an objective was reached, None where it never was."""
        below = np.flatnonzero(np.asarray(self.objectives) <= objective)
        return self.seconds[below[0]] if len(below) else None


def signal_to_noise(clean: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Return the squared norm of the clean views over that of what is wrong (thesis, 5.4)."""
    wrong = sum(float(np.square(c - f).sum()) for c, f in zip(clean, found, strict=True))
    return sum(float(np.square(c).sum()) for c in clean) / max(wrong, 1e-300)


def rounded(value: Any) -> Any:
    """Return floats with a few digits, so that results stay readable.

    Everything inside lists and dicts too.
    """
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return (
        float(f"{float(value):.{PRECISION}g}") if isinstance(value, float | np.floating) else value
    )


def results(done: dict[str, Record], **wanted: Any) -> list[dict[str, Any]]:
    """Return the results of the cells that match."""
    return [
        record["result"]
        for record in done.values()
        if "result" in record and all(record["cell"].get(k) == v for k, v in wanted.items())
    ]


def mean(values: Iterable[Any]) -> dict[str, Any] | None:
    """Return mean, standard error and number of those values that are there; None where none is."""
    found = np.array([v for v in values if v is not None], float)
    if not len(found):
        return None
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None
    return rounded({"mean": float(found.mean()), "standard_error": error, "n": len(found)})


def shown(value: dict[str, Any] | None, digits: int = 3) -> str:
    """Return a mean as text, with its standard error."""
    if value is None:
        return "-"
    error = value["standard_error"]
    return f"{value['mean']:.{digits}g}" + ("" if error is None else f" ± {error:.1g}")


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


def verdicts(sentences: Iterable[str]) -> str:
    """Return the last section of a report: what the numbers above say, each sentence computed from them."""
    return "## Verdicts\n\n" + "\n".join(f"- {sentence}" for sentence in sentences)


def better(first: Sequence[float], second: Sequence[float]) -> str:
    """Say in how many pairs the first is lower, and whether the mean difference is beyond two standard errors."""
    difference = np.asarray(second) - np.asarray(first)
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.inf
    clear = "clear" if abs(difference.mean()) > 2 * error else "within noise"
    return (
        f"lower in {(difference > 0).sum()} of {len(difference)}, mean difference "
        f"{difference.mean():.3g} ({clear})"
    )


class Labeled(NamedTuple):
    """A data set of table 6.5 and 6.6: rows of length one, classes 0 and 1."""

    X: np.ndarray
    y: np.ndarray


COLLECTIONS = {
    "COIL": "ssl_coil2",
    "WBC": "wbc_complete",
    "BCI": "ssl_bci",
    "IONOSPHERE": "ionosphere",
    "G241N": "ssl_g241n",
}
SYNTHETIC = "SYNTHETIC"


def labeled_rows(name: str, seed: int) -> Labeled:
    """Return a data set as the thesis has it; only the synthetic one depends on the seed.

    Rows are centered and divided by their norm. The thesis does not say so in 6.2, but its numbers
    do: what STAGE has at mu = 10, where nothing is learned, is log 2 + 5/d in every column, which
    is the mean loss of rows of length one.
    """
    if name == SYNTHETIC:
        X, y, *_ = datasets.make_low_rank_labels(400, 20, 4, noise=0.1, random_state=seed)
        return Labeled(datasets.normalize_rows(X), y)
    table = _load(COLLECTIONS[name])
    X = np.asarray(table.data, float)
    # the sample's number is one of the ten columns, all scaled to [-1, 1], as the authors have it
    if name == "WBC":
        X = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    return Labeled(datasets.normalize_rows(X), np.unique(table.target, return_inverse=True)[1])
