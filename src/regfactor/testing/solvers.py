"""Laws of solvers: convergence, honest bounds, descent, agreement and refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Iterate, Solution, Status
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver, solve
from regfactor.testing.laws import (
    Law,
    check_laws,
    require,
    require_at_most,
    require_part,
)

SLACK = 1e-9  # relative, of a bound
ROUNDING = 1e-12  # relative, of an objective
AGREEMENT = 3e-6  # relative: solvers without a bound end at a change of the tolerance


@dataclass(frozen=True)
class SolverCase:
    """A run of a solver on a problem: its solution and all iterates."""

    solver: Solver
    problem: Problem[Any]
    solution: Solution[Any]
    iterates: list[Iterate[Any]]
    tol: float
    descends: bool = False
    expected: float | None = None  # the optimum, where another solver found it

    @property
    def size(self) -> float:
        """The unit of objectives: that of the solution, or the floor of the problem."""
        return max(abs(self.solution.objective), self.problem.floor)


def run_solver(
    solver: Solver,
    problem: Problem[Any],
    tol: float = 1e-7,
    max_iter: int = 20_000,
    start: Any = None,
    descends: bool = False,
    expected: float | None = None,
) -> SolverCase:
    """Return the run of a solver on a problem, whose arrays are read-only meanwhile."""
    iterates: list[Iterate[Any]] = []
    writable = [array for array in arrays(problem) if array.flags.writeable]
    for array in writable:
        array.setflags(write=False)
    try:
        solution = solve(
            problem,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            start=start,
            callback=iterates.append,
        )
    finally:
        for array in writable:
            array.setflags(write=True)
    return SolverCase(solver, problem, solution, iterates, tol, descends, expected)


def arrays(part: Any) -> Iterator[Array]:
    """Yield every array that a problem or a point holds."""
    if isinstance(part, np.ndarray):
        yield part
    elif is_sparse(part):
        yield from (part.data, part.indices, part.indptr)
    elif isinstance(part, tuple | list):
        for element in part:
            yield from arrays(element)
    elif is_dataclass(part) and not isinstance(part, type):
        for field in fields(part):
            yield from arrays(getattr(part, field.name))


def accepts(solver: Solver, problem: Problem[Any]) -> bool:
    """Return whether `solve` would take this solver for the problem."""
    return solver.accepts(problem) and (solver.sparse or not problem.sparse)


def solver_converges(case: SolverCase) -> None:
    """The run converges, and every objective is finite."""
    status = case.solution.status
    require(status.converged, f"the status is {status.name} after {len(case.iterates)} iterates")
    objectives = [iterate.objective for iterate in case.iterates]
    require(bool(np.isfinite(objectives).all()), "an objective is not finite")


def bounds_are_honest(case: SolverCase) -> None:
    """No lower bound exceeds an objective, and a certified gap is within the tolerance."""
    slack = SLACK * case.size
    for number, iterate in enumerate(case.iterates):
        what = f"lower bound of iterate {number}"
        require_at_most(iterate.bound, iterate.objective + slack, what)
    require_at_most(case.solution.bound, case.solution.objective + slack, "bound of the solution")
    if case.solution.status is Status.CERTIFIED:
        require_at_most(case.solution.relative_gap, case.tol, "certified gap")
    if case.expected is not None:
        require_at_most(
            case.solution.bound, case.expected + slack, "bound, relative to the optimum"
        )


def solution_is_the_best_iterate(case: SolverCase) -> None:
    """The solution is not worse than any iterate of the last stage."""
    last = case.iterates[-1].stage
    least = min(iterate.objective for iterate in case.iterates if iterate.stage == last)
    require_at_most(case.solution.objective, least + SLACK * case.size, "objective")


def objective_never_increases(case: SolverCase) -> None:
    """With `descends`, no objective is higher than the one before."""
    if not case.descends:
        return
    for number in range(1, len(case.iterates)):
        before = case.iterates[number - 1]
        after = case.iterates[number]
        if before.stage == after.stage:
            size = max(abs(before.objective), case.problem.floor)
            limit = before.objective + ROUNDING * size
            require_at_most(after.objective, limit, f"objective of iterate {number}")


def solution_is_optimal(case: SolverCase) -> None:
    """The objective is the lowest that is known."""
    if case.expected is None:
        return
    limit = case.expected + AGREEMENT * case.size
    require_at_most(case.solution.objective, limit, "objective")


def require_refusal(solver: Solver, problem: Problem[Any]) -> None:
    """Raise BrokenLaw unless a solver refuses a problem before any work."""
    seen: list[Iterate[Any]] = []
    try:
        solve(problem, solver=solver, callback=seen.append)
    except UnsupportedProblem:
        require(not seen, "refused after iterates were computed; raise in `check`")
        return
    require(False, f"{type(problem).__name__} was not refused")


LAWS: tuple[Law, ...] = (
    solver_converges,
    bounds_are_honest,
    solution_is_the_best_iterate,
    objective_never_increases,
    solution_is_optimal,
)


def check_solver(
    solver: Solver,
    problem: Problem[Any],
    *,
    descends: bool = False,
    optimal: bool = True,
    refuses: tuple[Problem[Any], ...] = (),
    tol: float = 1e-7,
    max_iter: int = 20_000,
    start: Any = None,
) -> None:
    """Raise BrokenLaw unless a solver keeps its laws on a problem.

    Parameters
    ----------
    solver : Solver
    problem : Problem
        A small one that it solves; it is solved by its own choice of a solver too.
    descends : bool, default=False
        Whether no iterate has a higher objective than the one before.
    optimal : bool, default=True
        Whether no other solver finds a lower objective.
    refuses : tuple of Problem, default=()
        Problems that it has to refuse before any work.
    tol, max_iter, start
        As in `solve`.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold.
    UnsupportedProblem
        If the solver does not solve the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.penalties import Trace
    >>> from regfactor.problems import Convex, Data
    >>> from regfactor.solvers import Fista
    >>> from regfactor.testing import check_solver
    >>> X = np.random.default_rng(0).normal(size=(9, 4))
    >>> check_solver(Fista(), Convex(Data.of(X, "squared"), Trace(), alpha=0.5))
    """
    require_part(solver, Solver, "check_solver")
    if not isinstance(problem, getattr(solver, "solves", Problem)):
        raise UnsupportedProblem(
            f"{type(solver).__name__} solves a {solver.solves.__name__} problem, got "
            f"{type(problem).__name__}."
        )
    expected = None
    if optimal:
        expected = solve(problem, tol=tol, max_iter=max_iter, start=start).objective
    case = run_solver(solver, problem, tol, max_iter, start, descends, expected)
    check_laws(solver, LAWS, case)
    for other in refuses:
        require_refusal(solver, other)
