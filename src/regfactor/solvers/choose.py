"""`solve`: choose a solver that fits the problem, run it, and say which it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Iterate, Record, Solution, Status, check_limits, run
from regfactor.core.params import UnsupportedProblem
from regfactor.maps import Lags
from regfactor.penalties import TwoView
from regfactor.problems import Convex, Factored
from regfactor.solvers.admm import Admm
from regfactor.solvers.alternating import Alternating
from regfactor.solvers.base import Solver
from regfactor.solvers.closed_form import Closed, has_closed_form
from regfactor.solvers.douglas_rachford import DouglasRachford
from regfactor.solvers.eta_search import EtaSearch
from regfactor.solvers.factored_fista import Atoms
from regfactor.solvers.fista import Fista
from regfactor.solvers.lbfgs import Lbfgs
from regfactor.solvers.pursuit import Pursuit

LARGE = 10_000  # entries of a table from which on proximal steps in factors are the fastest
HUGE = 10_000_000  # entries from which on no other solver is thought of
# alpha over the Euclidean norm of the gradient at zero, below which nearly all ranks are used
WEAK = 1e-3
FEW_HOLES = 0.3  # share of missing entries up to which Admm may still be faster
HOLES = 0.2  # share of missing entries from which on only the observed ones are held


def choose_solver(
    problem: Convex | Factored,
    tol: float = 1e-4,
    max_rank: int | None = None,
    random_state: Any = None,
) -> Solver:
    """Return the solver that suits a problem best; a limit of the rank leaves no choice."""
    if isinstance(problem, Factored):
        coupled = any(t.loss.rowwise for t in problem.data.terms)
        if coupled and problem.smooth:
            return Lbfgs(random_state=random_state)
        return Alternating(random_state)
    if isinstance(problem.gauge, TwoView):
        return EtaSearch(tol=tol, random_state=random_state)
    if max_rank is not None or problem.data.layout.sparse:
        return Atoms(tol, max_rank, random_state=random_state)
    if has_closed_form(problem):
        return Closed()
    if accepts(Pursuit(), problem):
        return Pursuit(tol)
    if (
        np.prod(problem.data.shape) >= LARGE
        and accepts(Atoms(), problem)
        and not _splits_better(problem)
    ):
        return Atoms(tol, random_state=random_state)
    if isinstance(problem.map, Lags) and accepts(DouglasRachford(tol), problem):
        return DouglasRachford(tol)
    proximable = all(t.loss.proximable for t in problem.data.terms)
    if proximable and problem.map.diagonal is not None:
        return Admm()
    return Fista()


def accepts(solver: Solver, problem: Convex) -> bool:
    """Tell whether a solver can take a problem."""
    try:
        solver.check(problem)
    except UnsupportedProblem:
        return False
    return True


def solve(
    problem: Convex | Factored,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: FactorPoint | None = None,
    solver: Solver | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate], bool | None] | None = None,
    progress: Callable[[Record], None] | None = None,
    random_state: Any = None,
    max_rank: int | None = None,
) -> Solution:
    """Solve a problem: to a duality gap of `tol` where it is convex, to a standstill of `tol` where it is not.

    `max_rank` limits the atoms of a convex problem; its gap then tells the price.
    """
    if not isinstance(problem, Convex | Factored):
        raise UnsupportedProblem(
            "solve takes a problem, such as Convex(Data.of(X, 'squared'), Trace(), alpha=1.0) or Factored(...) of "
            f"regfactor.problems, got {type(problem).__name__}; an estimator has fit(X) instead.",
        )
    check_limits(tol, max_iter, time_limit, max_rank)
    problem.check()
    given = problem
    random_state = 0 if random_state is None else random_state
    if isinstance(problem, Convex) and isinstance(solver, Atoms | None):
        problem = prepared(problem)
    solver = solver or choose_solver(problem, tol, max_rank, random_state)
    if problem.data.layout.sparse and not solver.sparse:
        raise UnsupportedProblem(
            f"{solver} holds the whole table; give it as a dense one with NaN, or use Atoms.",
        )
    solver.check(problem)
    iterates = solver.iterates(problem, start)
    if isinstance(problem, Convex):
        iterates = itertools.chain([null_iterate(problem)], iterates)
    # a standstill is not told from rounding below the unit of the data's precision
    if isinstance(problem, Convex):
        least = 0.0
    else:
        least = float(np.finfo(problem.data.dtype).eps)
    solution = run(
        iterates,
        tol=max(tol, least),
        max_iter=max_iter,
        floor=problem.floor,
        scale=problem.scale if isinstance(problem, Convex) else None,
        time_limit=time_limit,
        callback=callback,
        progress=progress,
    )
    solution = replace(solution, solver=type(solver).__name__)
    if isinstance(problem, Convex) and solution.status is not Status.CERTIFIED:
        solution = with_last_bound(problem, solution)
    if isinstance(problem, Convex):
        solution = in_double(problem, solution, tol)
    else:
        solution = solution
    if given.data.layout is problem.data.layout:
        return solution
    return _spread(problem, solution)


def _splits_better(problem: Convex) -> bool:
    """Whether Admm is faster even on a large table.

    It is for losses with a prox in closed form and few holes, and for a penalty so weak that the
    rank will be full.
    """
    data = problem.data
    closed = all(t.loss.of_residual for t in data.terms) and not data.quadratic
    if closed and data.observed.mean() > 1 - FEW_HOLES:
        return True
    assert problem.null.dual is not None
    weak = problem.alpha < WEAK * problem.scattered(problem.null.dual).frobenius
    return weak and bool(np.prod(data.shape) < HUGE)


def prepared(problem: Convex) -> Convex:
    """Return a large problem with many holes on its observed entries alone, where a solver can take it so."""
    data = problem.data
    small = len(data.terms) > 1 or np.prod(data.shape) < LARGE
    inner = problem
    two_view = isinstance(problem.gauge, TwoView)
    if isinstance(problem.gauge, TwoView):
        inner = replace(problem, gauge=problem.gauge.at(0.5, problem.shape[1]))
    if (
        data.layout.sparse
        or small
        or not accepts(Atoms(), inner)
        or data.observed.mean() > 1 - HOLES
    ):
        return problem
    compact = replace(problem, data=data.compacted())
    if not two_view and _splits_better(compact):
        return problem
    return compact


def null_iterate(problem: Convex) -> Iterate:
    """Return Z = 0 with its certificate, which is complete from alpha_max on."""
    bound = problem.null_bound()
    return Iterate(problem.null, problem.null_objective(), bound.value, bound.rigorous, steps=0)


def _spread(problem: Convex | Factored, solution: Solution) -> Solution:
    """Return a solution on observed entries alone with its dual point spread over the whole table."""
    if solution.point.dual is None:
        return solution
    matrix: Any = problem.data.layout.matrix(solution.point.dual)
    dual = np.asarray(matrix.toarray())
    return replace(solution, point=replace(solution.point, dual=dual))


def with_last_bound(problem: Convex, solution: Solution) -> Solution:
    """Return the solution with the bound of its own dual point, which a solver that proves late may not have tried."""
    if solution.point.dual is None:
        return solution
    bound = problem.bound(solution.point.dual)
    if bound.value > solution.bound:
        return replace(solution, bound=bound.value, rigorous=bound.rigorous)
    return solution


def in_double(problem: Convex, solution: Solution, tol: float) -> Solution:
    """Return the solution of a float32 problem with its objective, bound and status judged again in float64."""
    if problem.data.dtype == np.float64:
        return solution
    exact = problem.astype(np.float64)
    point = solution.point.astype(np.float64)
    duals = [
        exact.null.dual,
        point.dual,
        exact.dual_point(point.factors, exact.best_coefficients(point.factors, point.coefficients)),
    ]
    bounds = [exact.bound(dual) for dual in duals if dual is not None]
    best = max(bounds, key=lambda b: b.value)
    objective = exact.objective(point.factors, point.coefficients)
    judged = replace(
        solution,
        objective=objective,
        bound=best.value,
        rigorous=best.rigorous,
        floor=exact.floor,
    )
    met = (
        judged.relative_gap <= tol
    )  # beside the objective itself: single numbers hold no more digits
    if solution.status is not Status.CERTIFIED or met:
        status = solution.status
    else:
        status = Status.STALLED
    return replace(judged, status=status)
