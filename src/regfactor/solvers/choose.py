"""`solve`: choose a solver that fits the problem, run it, and say which it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.factors import Point
from regfactor.loop import Iterate, Record, Solution, Status, run
from regfactor.penalties import TwoView
from regfactor.problems import Convex, Factored
from regfactor.solvers.alternating import Alternating
from regfactor.solvers.base import Solver
from regfactor.solvers.closed import Closed, has_closed_form
from regfactor.solvers.lbfgs import Lbfgs
from regfactor.solvers.proximal import Fista
from regfactor.solvers.splitting import Admm
from regfactor.solvers.two_view import EtaSearch


def choose_solver(problem: Convex | Factored, random_state: Any = None) -> Solver:
    """Return the solver that suits a problem best."""
    if isinstance(problem, Factored):
        coupled = any(t.loss.rowwise for t in problem.data.terms)
        return Lbfgs(random_state=random_state) if coupled and problem.smooth else Alternating(random_state)
    if isinstance(problem.gauge, TwoView):
        return EtaSearch()
    if has_closed_form(problem):
        return Closed()
    proximable = all(t.loss.proximable for t in problem.data.terms)
    return Admm() if proximable and problem.map.diagonal is not None else Fista()


def solve(
    problem: Convex | Factored,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: Point | None = None,
    solver: Solver | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate], bool | None] | None = None,
    progress: Callable[[Record], None] | None = None,
    random_state: Any = None,
) -> Solution:
    """Solve a problem: to a duality gap of `tol` where it is convex, to a standstill of `tol` where it is not."""
    problem.check()
    solver = solver or choose_solver(problem, random_state)
    solver.check(problem)
    iterates = solver.iterates(problem, start)
    if isinstance(problem, Convex):
        iterates = itertools.chain([null_iterate(problem)], iterates)
    solution = run(
        iterates,
        tol=tol,
        max_iter=max_iter,
        floor=problem.floor,
        time_limit=time_limit,
        callback=callback,
        progress=progress,
    )
    solution = replace(solution, solver=type(solver).__name__)
    return in_double(problem, solution, tol) if isinstance(problem, Convex) else solution


def null_iterate(problem: Convex) -> Iterate:
    """Return Z = 0 with its certificate, which is complete from alpha_max on."""
    null = problem.null
    assert null.dual is not None
    bound = problem.bound(null.dual)
    return Iterate(null, problem.null_objective(), bound.value, bound.rigorous, steps=0)


def in_double(problem: Convex, solution: Solution, tol: float) -> Solution:
    """Return the solution of a float32 problem with its objective, bound and status judged again in float64."""
    if problem.data.dtype == np.float64:
        return solution
    exact, point = problem.astype(np.float64), solution.point.astype(np.float64)
    duals = [exact.null.dual, point.dual, exact.dual_point(point.factors, exact.free(point.factors, point.free))]
    bounds = [exact.bound(dual) for dual in duals if dual is not None]
    best = max(bounds, key=lambda b: b.value)
    objective = exact.objective(point.factors, point.free)
    judged = replace(solution, objective=objective, bound=best.value, rigorous=best.rigorous, floor=exact.floor)
    met = judged.relative_gap <= tol
    status = solution.status if solution.status is not Status.CERTIFIED or met else Status.STALLED
    return replace(judged, status=status)
