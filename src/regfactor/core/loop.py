"""The one loop: draws the iterates of a solver, keeps the best point and bound, reports the end.

It knows no problem: a point is whatever the iterates of a solver hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np

from regfactor.core.params import is_count, is_number

P = TypeVar("P")  # the point of a problem
# A bound above the objective by more than this share of it cannot be explained by rounding.
CONTRADICTION = 1e-3


class Status(Enum):
    """The end of a run; its message states what to change."""

    CERTIFIED = "the duality gap is within the tolerance"
    SETTLED = "the objective no longer changes by more than the tolerance"
    STALLED = (
        "the certificate cannot be improved further in this precision; loosen tol, or scale the "
        "data"
    )
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
        """The reason for the end, and the remedy."""
        return self.value

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met or there was nothing left to do."""
        return self in (Status.CERTIFIED, Status.SETTLED, Status.RANK_LIMIT, Status.FINISHED)

    def __reduce__(self) -> tuple[Any, ...]:
        # skops asks for this one, not for __reduce_ex__
        return type(self), (self.value,)


@dataclass(frozen=True)
class Iterate(Generic[P]):
    """One complete step of a solver; its arrays are never written again.

    `settled` means that nothing is left to gain, `rank_limited` that a rank set by the user is the
    reason. A change is measured relative to `scale` where the objective has no natural zero, as a
    likelihood.
    """

    point: P
    objective: float
    bound: float = -np.inf
    rigorous: bool = True
    settled: bool = False
    rank_limited: bool = False
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
class Solution(Generic[P]):
    """The best point of a run, the best lower bound of the optimum, and how the run ended."""

    point: P
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
        """Upper bound of the distance between the objective and the global optimum."""
        return self.objective - self.bound

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective, or of `floor` where the objective is smaller."""
        return relative(self.objective - self.bound, self.objective, self.floor)


@dataclass(frozen=True)
class Limits:
    """The limits of a run, and the functions that watch it."""

    tol: float = 1e-4
    max_iter: int = 1000
    time_limit: float | None = None
    max_rank: int | None = None
    random_state: Any = 0
    callback: Callable[[Iterate[Any]], bool | None] | None = None
    progress: Callable[[Record], None] | None = None

    def check(self) -> None:
        """Raise if a limit is invalid."""
        if not is_count(self.max_iter):
            raise ValueError(f"max_iter must be a whole number >= 1, got {self.max_iter!r}.")
        if not is_number(self.tol) or not self.tol >= 0:
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}.")
        limit = self.time_limit
        if limit is not None and (not is_number(limit) or not limit >= 0):
            raise ValueError(f"time_limit must be a number >= 0 or None, got {limit!r}.")
        if self.max_rank is not None and not is_count(self.max_rank):
            raise ValueError(
                "max_rank must be a whole number >= 1, or None for no limit, got "
                f"{self.max_rank!r}."
            )


class Clock:
    """The time left of a limit that several steps of a fit share."""

    def __init__(self, time_limit: float | None) -> None:
        self.time_limit = time_limit
        self.started = time.perf_counter()

    @property
    def left(self) -> float | None:
        """Seconds that are left, never negative; None without a limit."""
        if self.time_limit is None:
            return None
        return max(self.time_limit - (time.perf_counter() - self.started), 0.0)

    def half(self) -> Clock:
        """Return a clock of half the time that is left, for one of two steps."""
        if self.left is None:
            return self
        return Clock(self.left / 2)

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.left == 0.0


def relative(gap: float, objective: float, floor: float) -> float:
    """Return a gap as a share of the objective, or of `floor` where that is larger."""
    scale = max(abs(objective), floor)
    if scale > 0:
        return gap / scale
    if gap == 0:
        return 0.0
    return np.inf


@dataclass
class _Best(Generic[P]):
    """The best point of the current stage and the best bound, and what ends a run."""

    tol: float
    floor: float
    scale: Callable[[float], float] | None
    point: P | None = None
    objective: float = np.inf
    bound: float = -np.inf
    rigorous: bool = True
    stage: int = 0
    n_iter: int = 0

    def update(self, iterate: Iterate[P]) -> Status | None:
        """Take an iterate in; return the status that it ends the run with, None to go on."""
        # another stage has another objective: the old best point is not comparable
        if iterate.stage != self.stage:
            self.stage = iterate.stage
            self.objective = np.inf
        decrease = self.objective - iterate.objective
        # of equal objectives the later one has converged further
        if self.point is None or iterate.objective <= self.objective:
            self.point = iterate.point
            self.objective = iterate.objective
        if iterate.bound > self.bound:
            self.bound = iterate.bound
            self.rigorous = iterate.rigorous
        self.n_iter += iterate.steps
        if not np.isfinite(iterate.objective):
            return Status.DIVERGED
        if self.bound > -np.inf:
            gap = self.objective - self.bound
            share = relative(gap, self.objective, self.floor)
            if share <= self.tol and (
                self.scale is None or gap <= self.tol * self.scale(self.objective)
            ):
                return Status.CERTIFIED if share > -CONTRADICTION else Status.DIVERGED
            if not iterate.settled:
                return None
            return Status.RANK_LIMIT if iterate.rank_limited else Status.STALLED
        # Without a bound the change is judged; the first iterate of a stage has none (inf).
        if iterate.scale is None:
            change = relative(abs(decrease), iterate.objective, self.floor)
        else:
            change = relative(abs(decrease), iterate.scale, 0.0)
        if iterate.settled or change <= self.tol:
            return Status.SETTLED
        return None


def run(
    iterates: Iterable[Iterate[P]],
    *,
    tol: float,
    max_iter: int,
    floor: float = 0.0,
    scale: Callable[[float], float] | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate[P]], bool | None] | None = None,
    progress: Callable[[Record], None] | None = None,
    solver: str = "",
) -> Solution[P]:
    """Draw iterates until the relative gap is at most `tol`.

    A solver that offers no bound is stopped when its objective changes by less than `tol`,
    relatively. `floor` is the smallest scale against which a gap is measured, and `scale` returns
    a smaller one than the objective itself, where there is one. Limits are checked between
    iterates, each of which may be several steps of its solver; a callback that returns a true
    value ends the run.
    """
    best: _Best[P] = _Best(tol, floor, scale)
    history: list[Record] = []
    started = time.perf_counter()
    status = Status.FINISHED
    drawn = iter(iterates)
    while True:
        try:
            iterate = next(drawn)
        except StopIteration:
            break
        except np.linalg.LinAlgError:
            # a decomposition fails where numbers have overflowed
            if best.point is None:
                raise
            status = Status.DIVERGED
            break
        ended = best.update(iterate)
        seconds = time.perf_counter() - started
        record = Record(best.n_iter, iterate.objective, best.bound, seconds, iterate.info)
        history.append(record)
        if progress is not None:
            progress(record)
        stopped = callback is not None and bool(callback(iterate))
        if ended is None and stopped:
            ended = Status.STOPPED
        if ended is None and best.n_iter >= max_iter:
            ended = Status.MAX_ITER
        if ended is None and time_limit is not None and seconds >= time_limit:
            ended = Status.TIME_LIMIT
        if ended is not None:
            status = ended
            break
    if isinstance(drawn, Generator):
        drawn.close()
    if best.point is None:
        raise ValueError("The solver offered no iterate.")
    if not np.isfinite(best.objective):
        status = Status.DIVERGED
    return Solution(
        point=best.point,
        objective=best.objective,
        bound=best.bound,
        rigorous=best.rigorous,
        status=status,
        n_iter=best.n_iter,
        history=history,
        floor=floor,
        solver=solver,
    )
