"""The one loop: drives any solver's iterates, keeps the best point and the best bound, and says how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.params import is_count, is_number

# share of the objective by which no rounding lifts a bound above it: one of them is no number
CONTRADICTION = 1e-3


class Status(Enum):
    """How a run ended; the message says what to change."""

    CERTIFIED = "the duality gap is within the tolerance"
    SETTLED = "the objective no longer changes by more than the tolerance"
    STALLED = "the certificate cannot be improved further in this precision; loosen tol, or scale the data"
    RANK_LIMIT = "the limit of the rank holds the objective above the global optimum"
    FINISHED = "the algorithm came to its end"
    MAX_ITER = "the iteration limit was reached first; raise max_iter, or loosen tol"
    TIME_LIMIT = "the time limit was reached first; raise time_limit, or loosen tol"
    STOPPED = "the callback asked to stop"
    DIVERGED = (
        "the objective became infinite, NaN or less than its bound; raise alpha, or scale the data"
    )

    @property
    def message(self) -> str:
        """What happened, and what to do about it."""
        return self.value

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met or there was nothing left to do."""
        return self in (Status.CERTIFIED, Status.SETTLED, Status.RANK_LIMIT, Status.FINISHED)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value,)  # skops asks for this one, not for __reduce_ex__


@dataclass(frozen=True)
class Iterate:
    """One complete step of a solver; its arrays are never written again.

    `settled` says that nothing is left to gain, `limited` that a rank the user set is the reason.
    `scale` is what a change is measured against where the objective is not: a likelihood has its
    zero anywhere.
    """

    point: FactorPoint
    objective: float
    bound: float = -np.inf
    rigorous: bool = True
    settled: bool = False
    limited: bool = False
    steps: int = 1
    stage: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    scale: float | None = None


@dataclass(frozen=True)
class Record:
    """A line of the history: iteration, objective, best bound so far, seconds since the start."""

    n_iter: int
    objective: float
    bound: float
    seconds: float
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution:
    """The best point of a run, the best lower bound of the optimum, and how the run ended."""

    point: FactorPoint
    objective: float
    bound: float
    rigorous: bool
    status: Status
    n_iter: int
    history: list[Record]
    floor: float = 0.0
    solver: str = ""

    @property
    def gap(self) -> float:
        """How far the objective can at most be from the global optimum."""
        return self.objective - self.bound

    @property
    def relative_gap(self) -> float:
        """Return the gap as a share of the objective (or of `floor`, where the objective is nearly zero)."""
        return relative(self.gap, self.objective, self.floor)


def check_limits(
    tol: object,
    max_iter: object,
    time_limit: object = None,
    max_rank: object = None,
) -> None:
    """Raise for limits of a run that are none."""
    if not is_count(max_iter):
        raise ValueError(f"max_iter must be a whole number >= 1, got {max_iter!r}.")
    for name, value in {"tol": tol, "time_limit": 0 if time_limit is None else time_limit}.items():
        if not is_number(value) or not value >= 0:
            raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
    if max_rank is not None and not is_count(max_rank):
        raise ValueError(
            f"max_rank must be a whole number >= 1, or None for no limit, got {max_rank!r}.",
        )


def relative(gap: float, objective: float, floor: float) -> float:
    """Return a gap as a share of the objective, or of `floor` where that is larger."""
    scale = max(abs(objective), floor)
    if scale > 0:
        return gap / scale
    if gap == 0:
        return 0.0
    return np.inf


@dataclass
class _Tally:
    """What the loop remembers: the best point of the current stage and the best bound."""

    point: FactorPoint | None = None
    objective: float = np.inf
    bound: float = -np.inf
    rigorous: bool = True
    stage: int = 0
    n_iter: int = 0

    def take(self, it: Iterate) -> float:
        """Count an iterate in; return by how much it lowered the objective."""
        if it.stage != self.stage:  # another objective: the old best point is not comparable
            self.stage = it.stage
            self.objective = np.inf
        fall = self.objective - it.objective
        if (
            self.point is None or it.objective <= self.objective
        ):  # of equals the later has settled further
            self.point = it.point
            self.objective = it.objective
        if it.bound > self.bound:
            self.bound = it.bound
            self.rigorous = it.rigorous
        self.n_iter += it.steps
        return fall


def run(
    iterates: Iterable[Iterate],
    *,
    tol: float,
    max_iter: int,
    floor: float = 0.0,
    scale: Callable[[float], float] | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate], bool | None] | None = None,
    progress: Callable[[Record], None] | None = None,
) -> Solution:
    """Draw iterates until the relative gap is at most `tol`.

    A solver that offers no bound is stopped when its objective changes by less than `tol`,
    relatively. `floor` is the smallest scale against which a gap is measured, and `scale` a smaller
    one than the objective itself, where there is one. Limits are looked at between iterates, each
    of which may be several steps of its solver; a callback that returns something true ends the
    run.
    """
    tally = _Tally()
    history = []
    started = time.perf_counter()
    status = Status.FINISHED
    for it in iterates:
        fall = tally.take(it)
        history.append(
            Record(tally.n_iter, it.objective, tally.bound, time.perf_counter() - started, it.info),
        )
        if progress is not None:
            progress(history[-1])
        stop = callback is not None and bool(callback(it))
        ended = _ended(it, tally, fall, tol, floor, scale)
        if ended is None and stop:
            ended = Status.STOPPED
        if ended is None and tally.n_iter >= max_iter:
            ended = Status.MAX_ITER
        if ended is None and time_limit is not None and history[-1].seconds >= time_limit:
            ended = Status.TIME_LIMIT
        if ended is not None:
            status = ended
            break
    _close(iterates)
    if tally.point is None:
        raise ValueError("The solver offered no iterate.")
    if not np.isfinite(tally.objective):
        status = Status.DIVERGED
    return Solution(
        tally.point,
        tally.objective,
        tally.bound,
        tally.rigorous,
        status,
        tally.n_iter,
        history,
        floor,
    )


def _ended(
    it: Iterate,
    tally: _Tally,
    fall: float,
    tol: float,
    floor: float,
    size: Callable[[float], float] | None,
) -> Status | None:
    if not np.isfinite(it.objective):
        return Status.DIVERGED
    if tally.bound > -np.inf:
        gap = tally.objective - tally.bound
        share = relative(gap, tally.objective, floor)
        if share <= tol and (size is None or gap <= tol * size(tally.objective)):
            if share > -CONTRADICTION:
                return Status.CERTIFIED
            return Status.DIVERGED
        if it.settled:
            return Status.RANK_LIMIT if it.limited else Status.STALLED
        return None
    # no bound, no proof: the first iterate of a stage has nothing to be compared with (fall = inf)
    if it.scale is None:
        scale, floor = (it.objective, floor)
    else:
        scale, floor = (it.scale, 0.0)
    still = relative(abs(fall), scale, floor) <= tol
    if it.settled or still:
        return Status.SETTLED
    return None


def _close(iterates: Iterable[Iterate]) -> None:
    if isinstance(iterates, Iterator) and hasattr(iterates, "close"):
        iterates.close()
