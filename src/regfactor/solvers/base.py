"""The role of a solver, and `solve`: choose one that suits the problem, and run it.

A solver is mathematics only, handed to the loop as a stream of iterates.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from regfactor.core.loop import Clock, Iterate, Limits, P, Record, Solution, Status, run
from regfactor.core.params import Params, UnsupportedProblem, wrong_part
from regfactor.problems.base import Problem

NEVER = -1.0  # a change of the objective that no step is below
Stated = TypeVar("Stated", bound=Problem[Any])


class Solver(Params, abc.ABC):
    """Yields iterates, indefinitely or until nothing is left to do; it neither stops nor prints.

    Attributes
    ----------
    solves : type
        The kind of problem that it solves, one of those that name it.
    sparse : bool
        Whether it accepts a table of which only the observed entries are held.
    ends_itself : bool
        Whether small changes of the objective do not end its run.
    from_limits : tuple of str
        Limits of a run that are parameters of the solver, under the same names.
    """

    solves: ClassVar[type[Problem[Any]]]
    sparse: ClassVar[bool] = False
    ends_itself: ClassVar[bool] = False
    from_limits: ClassVar[tuple[str, ...]] = ()

    def check(self, problem: Any) -> None:  # noqa: B027  # many solve all problems of their kind
        """Raise UnsupportedProblem, before any work, if this solver cannot solve a problem.

        It is one of `solves`, in a layout that the solver accepts.
        """

    def accepts(self, problem: Any) -> bool:
        """Return whether this solver can solve a problem."""
        if not isinstance(problem, self.solves) or (problem.sparse and not self.sparse):
            return False
        try:
            self.check(problem)
        except UnsupportedProblem:
            return False
        return True

    # whether to take this solver before the candidates after it
    suits = accepts

    def prepare(self, problem: Any) -> Any:
        """Return an equal problem in the layout in which this solver is fast."""
        return problem

    @abc.abstractmethod
    def iterates(self, problem: Any, start: Any) -> Iterator[Iterate[Any]]:
        """Yield iterates from a start, a point of the problem or None."""


def solve(
    problem: Problem[P],
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: P | None = None,
    solver: Solver | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate[P]], bool | None] | None = None,
    progress: Callable[[Record], None] | None = None,
    random_state: Any = None,
    max_rank: int | None = None,
) -> Solution[P]:
    """Solve a problem: to a duality gap of `tol` where it has one, else to a change of `tol`.

    Parameters
    ----------
    problem : Problem
    tol : float, default=1e-4
        Relative duality gap, or relative change of the objective, at which the run ends.
    max_iter : int, default=1000
    start : point of the problem, optional
    solver : Solver, optional
        By default the first solver that suits the problem, of those it names.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.
    progress : callable, optional
        Called with every `Record` of the history.
    random_state : int, default=0
    max_rank : int, optional
        Largest number of atoms of a convex problem; the gap then shows what the limit costs.

    Returns
    -------
    Solution
    """
    if not isinstance(problem, Problem):
        raise UnsupportedProblem(
            "solve takes a problem, such as Convex(Data.of(X, 'squared'), Trace(), alpha=1.0) or "
            f"Factored(...) of regfactor.problems, got {type(problem).__name__}; an estimator has "
            "fit(X) instead.",
        )
    if solver is not None and not isinstance(solver, Solver):
        raise wrong_part("solver", solver, Solver, "regfactor.solvers.Fista()")
    limits = Limits(
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        max_rank=max_rank,
        random_state=0 if random_state is None else random_state,
        callback=callback,
        progress=progress,
    )
    limits.check()
    problem.check()
    return solve_within(problem, limits, start, solver)


def solve_within(
    problem: Problem[P],
    limits: Limits,
    start: P | None = None,
    solver: Solver | None = None,
) -> Solution[P]:
    """Solve a problem that has been checked, within limits that have been checked."""
    if solver is None:
        solver = choose_solver(problem, limits)
    if not isinstance(problem, solver.solves):
        raise UnsupportedProblem(
            f"{type(solver).__name__} solves a {solver.solves.__name__} problem, got "
            f"{type(problem).__name__}. Use one of: {', '.join(problem.solvers)}.",
        )
    if problem.sparse and not solver.sparse:
        raise UnsupportedProblem(
            f"{solver} holds the whole table; give it as a dense one with NaN, or use "
            "FactoredFista.",
        )
    solver.check(problem)
    ready = solver.prepare(problem)
    tol = max(limits.tol, ready.smallest_tol)
    if solver.ends_itself:
        tol = NEVER
    solution = run(
        itertools.chain(ready.first_iterates(), solver.iterates(ready, start)),
        tol=tol,
        max_iter=limits.max_iter,
        floor=ready.floor,
        scale=ready.gap_scale,
        time_limit=limits.time_limit,
        callback=limits.callback,
        progress=limits.progress,
        solver=type(solver).__name__,
    )
    return ready.finished(solution, limits.tol, problem)


def solve_from(
    problem: Problem[P],
    limits: Limits,
    starts: Iterable[P],
    solver: Solver | None = None,
) -> Solution[P]:
    """Return the best solution from several starts, which share the time limit.

    If the callback or the time limit ends the search before all starts were tried, the status of
    the best solution reports it.
    """
    clock = Clock(limits.time_limit)
    best: Solution[P] | None = None
    for start in starts:
        left = replace(limits, time_limit=clock.left)
        solution = solve_within(problem, left, start, solver)
        if best is None or solution.objective < best.objective:
            best = solution
        if solution.status in (Status.STOPPED, Status.TIME_LIMIT):
            best = replace(best, status=solution.status)
            break
    if best is None:
        raise ValueError("solve_from needs at least one start.")
    return best


def choose_solver(problem: Problem[Any], limits: Limits | None = None) -> Solver:
    """Return the first candidate that suits a problem, or else the last."""
    limits = limits or Limits()
    names = problem.candidates(limits)
    for name in names:
        module, _, own = name.partition(":")
        kind: type[Solver] = getattr(import_module(module), own)
        settings = {}
        for limit in kind.from_limits:
            settings[limit] = getattr(limits, limit)
        solver = kind(**settings)
        if name is names[-1] or solver.suits(problem):
            break
    return solver


def prepared(problem: Stated) -> Stated:
    """Return a problem in the layout that its solver will use."""
    ready: Stated = choose_solver(problem).prepare(problem)
    return ready
