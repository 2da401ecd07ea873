"""Laws of every solver on every problem of the catalogue that it accepts."""

from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse

from catalogue import NOT_BY_DEFAULT, PROBLEMS, SOLVER_TOL, SOLVERS, STARTS
from regfactor.core.loop import Status
from regfactor.core.params import UnsupportedProblem
from regfactor.solvers import solve

every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_problem = pytest.mark.parametrize("problem", PROBLEMS)
ROUNDING = 1e-12  # relative, of an objective


def arrays(part):
    """Every array that a problem or a point holds."""
    if isinstance(part, np.ndarray):
        yield part
    elif scipy.sparse.issparse(part):
        yield from (part.data, part.indices, part.indptr)
    elif isinstance(part, tuple | list):
        for element in part:
            yield from arrays(element)
    elif is_dataclass(part) and not isinstance(part, type):
        for field in fields(part):
            yield from arrays(getattr(part, field.name))


def accepts(solver, problem):
    """Whether `solve` would take this solver for the problem."""
    found = SOLVERS[solver].solver
    stated = PROBLEMS[problem]
    return found.accepts(stated) and (found.sparse or not stated.sparse)


@cache
def run(solver, problem):
    """The solution of a problem by a solver, and all iterates; arrays of the problem are read-only."""
    stated = PROBLEMS[problem]
    for array in arrays(stated):
        array.setflags(write=False)
    iterates = []
    solution = solve(
        stated,
        solver=SOLVERS[solver].solver,
        tol=SOLVER_TOL,
        max_iter=20_000,
        start=STARTS.get(problem),
        callback=iterates.append,
    )
    return solution, iterates


@every_solver
def test_a_solver_has_a_problem_to_be_tried_on(solver):
    assert any(accepts(solver, problem) for problem in PROBLEMS), "add one to PROBLEMS"


@every_problem
@every_solver
def test_what_a_solver_does_not_accept_is_refused_before_any_work(solver, problem):
    if accepts(solver, problem):
        return
    seen = []
    with pytest.raises(UnsupportedProblem):
        solve(PROBLEMS[problem], solver=SOLVERS[solver].solver, callback=seen.append)
    assert not seen


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name not in NOT_BY_DEFAULT])
def test_a_problem_is_solved_by_default(problem):
    solution = solve(PROBLEMS[problem], start=STARTS.get(problem))
    assert solution.status.converged
    assert solution.solver in SOLVERS


@every_solver
def test_a_solver_converges_and_never_claims_more_than_it_has(solver):
    for problem in filter(lambda name: accepts(solver, name), PROBLEMS):
        solution, iterates = run(solver, problem)
        objectives = [iterate.objective for iterate in iterates]
        slack = 1e-9 * max(abs(solution.objective), PROBLEMS[problem].floor)
        assert solution.status.converged, (problem, solution.status)
        assert np.isfinite(objectives).all(), problem
        assert all(iterate.bound <= iterate.objective + slack for iterate in iterates), problem
        assert solution.bound <= solution.objective + slack, problem
        last_stage = [it.objective for it in iterates if it.stage == iterates[-1].stage]
        assert solution.objective <= min(last_stage) + slack, problem
        if solution.status is Status.CERTIFIED:
            assert solution.relative_gap <= SOLVER_TOL, problem


@pytest.mark.parametrize("solver", [name for name, case in SOLVERS.items() if case.descends])
def test_the_objective_never_increases(solver):
    for problem in filter(lambda name: accepts(solver, name), PROBLEMS):
        iterates = run(solver, problem)[1]
        for before, after in zip(iterates, iterates[1:], strict=False):
            if before.stage == after.stage:
                size = max(abs(before.objective), PROBLEMS[problem].floor)
                assert after.objective <= before.objective + ROUNDING * size, problem


@every_problem
def test_solvers_agree(problem):
    optimal = [name for name, case in SOLVERS.items() if case.optimal and accepts(name, problem)]
    found = {name: run(name, problem)[0].objective for name in optimal}
    assert found
    least = min(found.values())
    size = max(abs(least), PROBLEMS[problem].floor)
    # each is within its tolerance; those without a bound end at a change of as much
    assert max(found.values()) - least <= 3e-6 * size, found


@pytest.mark.parametrize("solver", [name for name, case in SOLVERS.items() if not case.optimal])
def test_a_local_solver_stays_above_the_optimum(solver):
    for problem in filter(lambda name: accepts(solver, name), PROBLEMS):
        exact = [name for name, case in SOLVERS.items() if case.optimal and accepts(name, problem)]
        bound = max(run(name, problem)[0].bound for name in exact)
        assert run(solver, problem)[0].objective >= bound - 1e-9 * abs(bound), problem
