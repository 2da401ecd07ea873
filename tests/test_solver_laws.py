"""Laws of every solver on every problem of the catalogue that it accepts."""

import dataclasses
from functools import cache

import pytest

from catalogue import NOT_BY_DEFAULT, PROBLEMS, SOLVER_TOL, SOLVERS, STARTS
from regfactor.solvers import solve
from regfactor.testing import BrokenLaw
from regfactor.testing import solvers as laws_of_solvers

every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_problem = pytest.mark.parametrize("problem", PROBLEMS)


def accepts(solver, problem):
    """Whether `solve` would take this solver for the problem."""
    return laws_of_solvers.accepts(SOLVERS[solver].solver, PROBLEMS[problem])


@cache
def run(solver, problem):
    """The run of a solver on a problem."""
    case = SOLVERS[solver]
    start = STARTS.get(problem)
    return laws_of_solvers.run_solver(
        case.solver, PROBLEMS[problem], SOLVER_TOL, start=start, descends=case.descends
    )


@every_solver
def test_a_solver_has_a_problem_to_be_tried_on(solver):
    assert any(accepts(solver, problem) for problem in PROBLEMS), (
        f"add a problem that {solver} accepts to PROBLEMS in tests/catalogue.py"
    )


@every_problem
@every_solver
def test_what_a_solver_does_not_accept_is_refused_before_any_work(solver, problem):
    if not accepts(solver, problem):
        laws_of_solvers.require_refusal(SOLVERS[solver].solver, PROBLEMS[problem])


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name not in NOT_BY_DEFAULT])
def test_a_problem_is_solved_by_default(problem):
    solution = solve(PROBLEMS[problem], start=STARTS.get(problem))
    assert solution.status.converged
    assert solution.solver in SOLVERS


@pytest.mark.parametrize("law", laws_of_solvers.LAWS, ids=lambda law: law.__name__)
@every_solver
def test_law(solver, law):
    for problem in filter(lambda name: accepts(solver, name), PROBLEMS):
        try:
            law(run(solver, problem))
        except BrokenLaw as error:
            pytest.fail(f"{problem}: {error}")


@every_problem
def test_solvers_agree(problem):
    optimal = [name for name, case in SOLVERS.items() if case.optimal and accepts(name, problem)]
    least = min(run(name, problem).solution.objective for name in optimal)
    for name in optimal:
        found = dataclasses.replace(run(name, problem), expected=least)
        laws_of_solvers.solution_is_optimal(found)
        laws_of_solvers.bounds_are_honest(found)


@pytest.mark.parametrize("solver", [name for name, case in SOLVERS.items() if not case.optimal])
def test_a_local_solver_stays_above_the_optimum(solver):
    for problem in filter(lambda name: accepts(solver, name), PROBLEMS):
        exact = [name for name, case in SOLVERS.items() if case.optimal and accepts(name, problem)]
        bound = max(run(name, problem).solution.bound for name in exact)
        assert run(solver, problem).solution.objective >= bound - 1e-9 * abs(bound), problem
