"""Certificates: a bound never exceeds the optimum, and solutions agree with a conic solver and with plain numpy."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from reference import (
    HUBER,
    N_FIRST,
    SIGMA,
    Problem,
    loss_gradient,
    loss_value,
    optimum,
    trace_certificate,
)

import catalogue
from catalogue import rng
from regfactor.core.factors import Factors
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import (
    Absolute,
    Censored,
    Huber,
    Logistic,
    Poisson,
    SmoothedL1,
    Squared,
    Stacked,
)
from regfactor.maps import Lags
from regfactor.norms import L1, L2, Blocks, LInf
from regfactor.penalties import Columns, Rows, Trace, TwoView
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import solve
from regfactor.testing import draws
from regfactor.testing.laws import frozen

LOSSES = {
    "squared": Squared(),
    "huber": Huber(HUBER),
    "smoothed_l1": SmoothedL1(SIGMA),
    "logistic": Logistic(),
    "poisson": Poisson(),
    "absolute": Absolute(),
    "mixed": Stacked(((slice(0, N_FIRST), Squared()), (slice(N_FIRST, None), Logistic()))),
}
GAUGES = {
    "trace": lambda problem: Trace(),
    "rows_2": lambda problem: Rows(L2()),
    "rows_inf": lambda problem: Rows(LInf()),
    "rows_1": lambda problem: Rows(L1()),
    "columns_2": lambda problem: Columns(L2()),
    "two_view": lambda problem: TwoView(N_FIRST, problem.bounds),
}
FACTOR_NORMS = {  # on the columns of codes and on the rows of components
    "trace": lambda problem: (L2(), L2()),
    "rows_2": lambda problem: (L1(), L2()),
    "rows_inf": lambda problem: (L1(), LInf()),
    "rows_1": lambda problem: (L1(), L1()),
    "columns_2": lambda problem: (L2(), L1()),
    "two_view": lambda problem: (L2(), Blocks(N_FIRST, bounds=problem.bounds)),
}
ALPHA = {"rows_1": 0.3}

# every loss with every gauge; missing entries, weights and intercepts take turns so that each pair of them meets
PROBLEMS = [
    Problem(
        loss,
        gauge,
        ALPHA.get(gauge, 0.8),
        (i + j) % 2 == 1,
        j % 3 == 1,
        (i + j) // 2 % 2 == 1,
        seed=i,
    )
    for i, loss in enumerate(LOSSES)
    for j, gauge in enumerate(GAUGES)
]
PROBLEMS += [
    Problem(
        "squared", "trace", 0.8, missing=True, weighted=True, intercept=True, shape=(12, 11), seed=7
    ),
    Problem(
        "squared",
        "two_view",
        1.5,
        bounds=(0.5, 2.0),
        missing=True,
        intercept=True,
        shape=(12, 11),
        seed=8,
    ),
    Problem("smoothed_l1", "two_view", 2.0, bounds=(2.0, 0.5), weighted=True, seed=9),
    Problem("logistic", "trace", 0.3, missing=True, seed=10),
    Problem("poisson", "trace", 2.0, intercept=True, seed=11),
    # just below the largest alpha; and dual points all of whose singular values are equal
    Problem("smoothed_l1", "rows_2", 2.6427620630635182, intercept=True, shape=(6, 7), seed=683563),
    Problem(
        "squared",
        "two_view",
        0.27092024251642344,
        intercept=True,
        shape=(9, 8),
        bounds=(0.7, 1.6),
        seed=451465,
    ),
]
SMOOTH = [problem for problem in PROBLEMS if problem.loss != "absolute"]
TRACE = [problem for problem in SMOOTH if problem.gauge == "trace" and problem.loss != "mixed"]
FEW = [
    PROBLEMS[k] for k in (0, 1, 5, 8, 14, 18, 23, 24, 27, 41, 42, 43)
]  # a cross-section for the dearer laws
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=str)
every_smooth_problem = pytest.mark.parametrize("problem", SMOOTH, ids=str)
some_problems = pytest.mark.parametrize("problem", FEW, ids=str)


def convex(problem):
    """The same problem in the words of the library."""
    design = Design.intercept(problem.shape[0]) if problem.intercept else None
    data = Data.of(problem.X, LOSSES[problem.loss], weights=problem.weights)
    return Convex(data, GAUGES[problem.gauge](problem), problem.alpha, design=design)


def squared(X, gauge, alpha, **options):
    return Convex(Data.of(np.asarray(X, float), Squared(), **options), gauge, alpha)


def tight(problem, **options):
    return solve(problem, tol=1e-7, max_iter=3000, **options)


@cache
def solved(problem):
    """The tight solution of a reference problem, shared by the laws that only look at it."""
    return tight(convex(problem))


def assert_proven(problem, solution, gap=1e-6):
    """The objective is that of the returned factors, the bound is below it, and they all but meet."""
    point = solution.point
    assert solution.objective == pytest.approx(
        problem.objective(point.factors, point.coefficients), rel=1e-9, abs=1e-12
    )
    scale = max(abs(solution.objective), 1e-3 * abs(problem.null_objective()))
    assert -1e-12 * scale <= solution.objective - solution.bound <= gap * scale
    assert solution.gap == pytest.approx(solution.objective - solution.bound, abs=1e-12 * scale)


# --- against the conic solver -----------------------------------------------------------------------------------------


@every_problem
def test_solutions_agree_with_the_conic_solver(problem):
    value, _, _ = optimum(problem)
    ours, solution = convex(problem), solved(problem)
    slack = 1e-5 * max(abs(value), 1e-2 * problem.null_scale)
    assert solution.objective == pytest.approx(value, abs=slack)
    assert solution.bound <= value + slack
    assert_proven(ours, solution, gap=1e-5)


@every_problem
def test_the_factors_of_a_solution_cost_what_their_product_is_worth(problem):
    gauge, factors = convex(problem).gauge, solved(problem).point.factors
    assert gauge.cost(factors) == pytest.approx(gauge.value(factors.dense()), rel=1e-8)
    on_codes, on_components = FACTOR_NORMS[problem.gauge](problem)
    assert on_components.value(factors.C).max(initial=0) <= 1 + 1e-9
    assert on_codes.value(factors.codes.T).sum() == pytest.approx(
        gauge.value(factors.dense()), rel=1e-8
    )


@pytest.mark.parametrize("problem", TRACE, ids=str)
def test_gaps_are_found_again_by_plain_numpy(problem):
    solution = solve(convex(problem), tol=1e-9, max_iter=5000)
    Z = solution.point.factors.dense()
    b = solution.point.coefficients if problem.intercept else np.zeros((1, problem.shape[1]))
    objective, bound = trace_certificate(problem, Z, b)
    paid = np.linalg.norm(solution.point.factors.codes, axis=0) @ np.linalg.norm(
        solution.point.factors.C, axis=1
    )
    scale = max(abs(objective), 1e-2 * problem.null_scale)
    assert solution.objective == pytest.approx(
        loss_value(problem, Z + b) + problem.alpha * paid, rel=1e-10
    )
    assert solution.objective == pytest.approx(objective, abs=1e-9 * scale)
    assert objective - bound <= 1e-3 * scale  # the scaled gradient is a first-order certificate
    assert solution.bound <= optimum(problem)[0] + 1e-6 * scale
    assert solution.bound >= bound - 1e-6 * scale


# --- bounds from any dual point ---------------------------------------------------------------------------------------


@every_problem
def test_no_dual_point_gives_a_bound_above_the_optimum(problem):
    value, Z, b = optimum(problem)
    ours = convex(problem)
    slack = 1e-6 * max(abs(value), problem.null_scale)
    random = rng(1)
    points = [scale * random.normal(size=problem.shape) for scale in (1e-6, 0.1, 1.0, 30.0, 1e8)]
    points += [
        np.zeros(problem.shape),
        np.ones(problem.shape),
        np.outer(np.ones(problem.shape[0]), rng(2).normal(size=problem.shape[1])),
    ]
    points += [ours.data.value_and_gradient(Z + b)[1], -ours.data.value_and_gradient(Z + b)[1]]
    for Y in points:
        assert ours.bound(frozen(Y)).value <= value + slack


@every_problem
def test_dual_points_of_easier_duals_are_cut_back(problem):
    """Optimal dual points of problems with a larger dual set: a bound that forgets a constraint overshoots here."""
    value, _, _ = optimum(problem)
    ours = convex(problem)
    slack = 1e-6 * max(abs(value), problem.null_scale)
    easier = [replace(problem, alpha=2 * problem.alpha), replace(problem, intercept=False)]
    easier += [replace(problem, missing=False), replace(problem, weighted=False)]
    for other in easier:
        _, Z, b = optimum(other)
        assert ours.bound(loss_gradient(other, Z + b)).value <= value + slack


@every_smooth_problem
def test_the_gradient_at_the_optimum_proves_it(problem):
    value, Z, _ = optimum(problem)
    ours = convex(problem)
    _, G, _ = ours.evaluate(Z)
    assert ours.bound(G).value == pytest.approx(
        value, abs=1e-3 * max(abs(value), problem.null_scale)
    )


@every_problem
def test_no_factors_have_an_objective_below_a_bound(problem):
    ours = convex(problem)
    value, _, _ = optimum(problem)
    slack = 1e-6 * max(abs(value), problem.null_scale)
    random = rng(3)
    n, d = problem.shape
    for rank in (1, 3, 8):
        factors = Factors(0.5 * random.normal(size=(n, rank)), 0.5 * random.normal(size=(rank, d)))
        free = random.normal(size=(1, d)) if problem.intercept else None
        objective = ours.objective(factors, free)
        assert objective >= value - slack
        assert (
            ours.bound(ours.data.value_and_gradient(factors.dense())[1]).value <= objective + slack
        )


@every_smooth_problem
def test_the_best_offsets_are_taken_where_none_are_given(problem):
    ours = convex(problem)
    random = rng(4)
    factors = Factors(
        0.3 * random.normal(size=(problem.shape[0], 2)), random.normal(size=(2, problem.shape[1]))
    )
    best = ours.objective(factors)
    assert best <= ours.objective(factors, ours.evaluate(factors.dense())[2]) + 1e-9
    if problem.intercept:
        for _ in range(5):
            assert best <= ours.objective(factors, random.normal(size=(1, problem.shape[1]))) + 1e-9


# --- evaluation -------------------------------------------------------------------------------------------------------


@every_smooth_problem
def test_evaluation_gives_the_loss_and_its_slope(problem):
    ours = convex(problem)
    Z = 0.7 * rng(5).normal(size=problem.shape)
    value, G, B = ours.evaluate(Z)
    assert value == pytest.approx(
        loss_value(problem, Z + (B if problem.intercept else 0)), rel=1e-9
    )
    assert (B is None) == (not problem.intercept)
    step = 1e-4
    for direction in np.random.default_rng(6).normal(size=(5, *problem.shape)):
        ahead, behind = (
            ours.evaluate(Z + step * direction)[0],
            ours.evaluate(Z - step * direction)[0],
        )
        assert (G * direction).sum() == pytest.approx(
            (ahead - behind) / (2 * step), rel=1e-5, abs=1e-5
        )


@every_smooth_problem
def test_a_gradient_is_blind_at_missing_and_balanced_under_an_intercept(problem):
    ours = convex(problem)
    _, G, _ = ours.evaluate(rng(7).normal(size=problem.shape))
    assert not G[problem.entry_weights == 0].any()
    if problem.intercept:
        np.testing.assert_allclose(G.sum(axis=0), 0, atol=1e-6)


@every_problem
def test_data_are_a_loss_and_its_conjugate(problem):
    data = convex(problem).data
    Z = 0.7 * rng(8).normal(size=problem.shape)
    value, G = data.value_and_gradient(Z)
    assert data.shape == problem.shape
    assert value == pytest.approx(data.value(Z), rel=1e-12)
    assert value == pytest.approx(loss_value(problem, Z), rel=1e-12)
    inside = (1 - 1e-9) * G  # a gradient at the edge of the domain may round to the other side
    assert value + data.conjugate(inside) == pytest.approx((Z * inside).sum(), abs=1e-6)
    assert data.value(Factors(np.eye(problem.shape[0]), Z)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "loss", [SmoothedL1(0.2), Poisson(), Stacked(((slice(0, 2), Squared()), ([2, 3], Logistic())))]
)
def test_a_prox_takes_its_weight_by_table_column_row_or_entry(loss):
    random = rng(9)
    X, A = (random.random((6, 4)) < 0.5).astype(float), random.normal(size=(6, 4))
    X[0, 1] = X[3, 3] = np.nan
    data = Data.of(X, loss)
    for weight in (0.7, random.random(4) + 0.1, random.random((6, 1)) + 0.1):
        by_entry = data.prox(A, np.broadcast_to(weight, A.shape))
        np.testing.assert_allclose(data.prox(A, weight), by_entry, rtol=1e-12)
        stationary = data.gradient(by_entry) + weight * (by_entry - A)
        np.testing.assert_allclose(stationary, 0, atol=1e-10)


def test_a_dual_point_at_a_missing_entry_is_infeasible():
    X = np.array([[1.0, np.nan], [0.0, 2.0]])
    data = Data.of(X, Squared())
    assert data.conjugate(np.array([[0.1, 0.2], [0.3, 0.4]])) == np.inf
    assert np.isfinite(data.conjugate(np.array([[0.1, 0.0], [0.3, 0.4]])))


def test_weights_of_rows_repeat_rows():
    random = rng(9)
    X, Z = random.normal(size=(4, 3)), random.normal(size=(4, 3))
    weighted = Data.of(X, Huber(), weights=np.array([1.0, 2.0, 0.0, 3.0]))
    index = [0, 1, 1, 3, 3, 3]
    assert weighted.value(Z) == pytest.approx(Data.of(X[index], Huber()).value(Z[index]))


def test_an_offset_shifts_the_predictor():
    random = rng(10)
    X, Z, offset = (
        random.poisson(2.0, (4, 3)).astype(float),
        random.normal(size=(4, 3)),
        random.normal(size=(4, 3)),
    )
    data = Data.of(X, Poisson(), offset=offset)
    plain = Data.of(X, Poisson())
    value, G = data.value_and_gradient(Z)
    assert value == pytest.approx(plain.value(Z + offset))
    assert value + data.conjugate(G) == pytest.approx((Z * G).sum(), abs=1e-9)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Absolute()], ids=str)
def test_the_data_are_not_touched(loss):
    X = (rng(11).random((6, 5)) < 0.5).astype(float)
    X[0, 1] = np.nan
    X, weights = frozen(X), frozen(rng(12).uniform(0.5, 2.0, (6, 5)))
    problem = Convex(Data.of(X, loss, weights=weights), Trace(), 0.3, design=Design.intercept(6))
    before = X.copy(), weights.copy()
    solve(problem)
    problem.bound(frozen(np.ones((6, 5))))
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(weights, before[1])


@pytest.mark.parametrize(
    ("X", "loss", "weights"),
    [
        (np.array([[1.0, -1.0]]), Poisson(), None),
        (np.array([[0.0, 2.0]]), Logistic(), None),
        (np.array([[1.0, np.inf]]), Squared(), None),
        (np.array([[np.nan, np.nan]]), Squared(), None),
        (np.array([[1.0, 2.0]]), Squared(), np.array([[1.0, -1.0]])),
        (np.array([[1.0, 2.0]]), Squared(), np.array([[1.0, np.nan]])),
        (np.array([[1.0, 2.0]]), Squared(), np.array([1.0, 1.0, 1.0])),
    ],
    ids=[
        "negative-count",
        "class-two",
        "infinite",
        "nothing-observed",
        "negative-weight",
        "nan-weight",
        "wrong-shape",
    ],
)
def test_illegal_data_are_refused(X, loss, weights):
    with pytest.raises(ValueError):
        Data.of(X, loss, weights=weights)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, np.nan, np.inf])
def test_an_illegal_strength_is_refused_before_the_first_iteration(alpha):
    with pytest.raises(ValueError, match="alpha"):
        solve(squared(np.eye(3), Trace(), alpha))


# --- the largest alpha ------------------------------------------------------------------------------------------------


@every_problem
def test_beyond_the_largest_alpha_nothing_is_left(problem):
    ours = convex(problem)
    edge = ours.alpha_max()
    assert edge > 0
    above = replace(ours, alpha=1.01 * edge)
    solution = solve(above, tol=1e-6)
    assert not solution.point.factors.dense().any()
    scale = max(abs(solution.objective), 1e-3 * problem.null_scale)
    assert solution.objective == pytest.approx(above.null_objective(), rel=1e-9)
    assert abs(solution.gap) <= 1e-7 * scale


@every_smooth_problem
def test_below_the_largest_alpha_something_is_left(problem):
    ours = convex(problem)
    below = replace(ours, alpha=0.9 * ours.alpha_max())
    solution = tight(below)
    assert solution.objective < below.null_objective() - 1e-9 * problem.null_scale
    assert solution.point.factors.rank > 0


def test_the_largest_alpha_is_the_polar_of_the_gradient_at_nothing():
    X = rng(13).normal(size=(6, 4))
    assert squared(X, Trace(), 1.0).alpha_max() == pytest.approx(np.linalg.norm(X, 2))
    assert squared(X, Rows(L2()), 1.0).alpha_max() == pytest.approx(np.linalg.norm(X, axis=1).max())
    assert squared(X, Columns(LInf()), 1.0).alpha_max() == pytest.approx(
        np.abs(X).sum(axis=0).max()
    )
    centered = Convex(Data.of(X, Squared()), Trace(), 1.0, design=Design.intercept(6))
    assert centered.alpha_max() == pytest.approx(np.linalg.norm(X - X.mean(axis=0), 2))
    assert centered.null_objective() == pytest.approx(((X - X.mean(axis=0)) ** 2).sum() / 2)


# --- every loss of the catalogue --------------------------------------------------------------------------------------

WHOLE_LINE = [
    name
    for name, loss in catalogue.LOSSES.items()
    if name not in catalogue.COMPOSITE
    and np.isinf([loss.link_domain.low, loss.link_domain.high]).all()
]


def drawn(name, intercept):
    """A catalogued loss on drawn data with a missing entry and weights; row losses are complete."""
    loss = catalogue.LOSSES[name]
    X = draws.draw_data(loss, rng(60), (9, 4))
    weights = None
    limits = None
    if isinstance(loss, Censored):
        limits = np.stack([X["low"], X["high"]])
        X = np.where(limits[0] == limits[1], limits[0], np.nan)
        limits[:, 4, 2] = [-np.inf, np.inf]
    if loss.rowwise:
        X[:4] = np.eye(4)  # every class occurs: an intercept stays finite
    else:
        X[4, 2] = np.nan
        weights = rng(61).uniform(0.5, 2.0, X.shape)
    design = Design.intercept(9) if intercept else None
    data = Data.of(X, loss, weights=weights, limits=limits)
    return Convex(data, Trace(), 0.4, design=design)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("name", WHOLE_LINE)
def test_bounds_stay_below_objectives_for_every_loss(name, intercept):
    problem = drawn(name, intercept)
    random = rng(62)
    bounds = [
        problem.bound(scale * random.normal(size=(9, 4))).value
        for scale in (0.01, 0.3, 1.0, 10.0, 1e6)
    ]
    objectives = [problem.null_objective()]
    for size in (0.1, 0.5, 1.0):
        factors = Factors(size * random.normal(size=(9, 2)), random.normal(size=(2, 4)))
        objectives.append(
            problem.objective(factors, random.normal(size=(1, 4)) if intercept else None)
        )
    assert max(bounds) <= min(objectives) + 1e-9 * abs(min(objectives))
    assert np.isfinite(max(bounds))


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("name", WHOLE_LINE)
def test_every_loss_is_solved_with_a_proof(name, intercept):
    problem = drawn(name, intercept)
    solution = solve(problem, tol=1e-5, max_iter=3000)
    assert_proven(problem, solution, gap=1e-4)


@pytest.mark.parametrize("name", ["kl", "gamma"])
def test_a_restricted_link_is_reported_before_the_first_iteration(name):
    X = draws.draw_data(catalogue.LOSSES[name], rng(63), (5, 4)) + 0.1
    with pytest.raises(UnsupportedProblem):
        solve(Convex(Data.of(X, catalogue.LOSSES[name]), Trace(), 0.4))


# --- exact oracles ----------------------------------------------------------------------------------------------------


def test_singular_values_are_thresholded():
    problem = squared(np.diag([3.0, 1.0]), Trace(), 2.0)
    solution = tight(problem)
    np.testing.assert_allclose(solution.point.factors.dense(), np.diag([1.0, 0.0]), atol=1e-6)
    assert solution.objective == pytest.approx(4.5)
    assert_proven(problem, solution)


def soft(S, t):
    return np.sign(S) * np.maximum(np.abs(S) - t, 0)


def thresholded(X, t):
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return (U * soft(s, t)) @ Vt


@pytest.mark.parametrize(
    ("gauge", "expected"),
    [
        (Trace(), lambda X, t: thresholded(X, t)),
        (Trace(scale=2.0), lambda X, t: thresholded(X, t / 2)),
        (Rows(L1()), soft),
        (Rows(L2()), lambda X, t: X * np.maximum(1 - t / np.linalg.norm(X, axis=1), 0)[:, None]),
        (Columns(L2()), lambda X, t: X * np.maximum(1 - t / np.linalg.norm(X, axis=0), 0)),
    ],
    ids=["trace", "trace_halved", "rows_1", "rows_2", "columns_2"],
)
def test_complete_tables_under_squared_loss_have_closed_solutions(gauge, expected):
    X = rng(14).normal(size=(7, 5))
    problem = squared(X, gauge, 0.9)
    solution = tight(problem)
    np.testing.assert_allclose(solution.point.factors.dense(), expected(X, 0.9), atol=1e-6)
    assert_proven(problem, solution)


def test_centering_is_an_intercept_under_squared_loss():
    X = rng(15).normal(size=(8, 5)) + 3
    solution = tight(Convex(Data.of(X, Squared()), Trace(), 0.7, design=Design.intercept(8)))
    np.testing.assert_allclose(
        solution.point.factors.dense(), thresholded(X - X.mean(axis=0), 0.7), atol=1e-5
    )
    np.testing.assert_allclose(
        solution.point.coefficients, X.mean(axis=0, keepdims=True), atol=1e-5
    )


def test_two_views_shrink_the_diagonal_matrix_together():
    problem = squared(np.diag([3.0, 4.0]), TwoView(1), 1.0)
    solution = tight(problem)
    np.testing.assert_allclose(solution.point.factors.dense(), np.diag([2.4, 3.2]), atol=2e-3)
    assert solution.objective == pytest.approx(4.5, rel=1e-6)
    assert_proven(problem, solution)


def test_a_second_view_inside_the_first_is_kept_whole():
    random = rng(16)
    A, _ = np.linalg.qr(random.normal(size=(12, 2)))
    X1, X2 = 3 * A @ random.normal(size=(2, 4)), 0.1 * A @ random.normal(size=(2, 3))
    assert np.linalg.svd(X1, compute_uv=False)[1] > 1
    problem = squared(np.hstack([X1, X2]), TwoView(4), 1.0)
    solution = tight(problem)
    expected = np.hstack([thresholded(X1, 1.0), X2])
    gauge = TwoView(4)
    assert gauge.eta(expected) == pytest.approx(1, abs=1e-6)
    exact = problem.objective(gauge.recover(expected))
    assert problem.bound(expected - problem.data.terms[0].x).value == pytest.approx(exact, rel=1e-9)
    assert solution.objective == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(solution.point.factors.dense(), expected, atol=5e-3)
    assert_proven(problem, solution)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 2.0)])
def test_an_unobserved_second_view_leaves_a_single_view(bounds):
    X = rng(17).normal(size=(9, 6))
    X[:, 3:] = np.nan
    problem = squared(X, TwoView(3, bounds), 0.6)
    solution = tight(problem)
    single = squared(X[:, :3], Trace(), 0.6 / bounds[0])
    exact = single.objective(Trace().recover(thresholded(X[:, :3], 0.6 / bounds[0])))
    assert solution.objective == pytest.approx(exact, rel=1e-6)
    assert_proven(problem, solution)


def test_a_fixed_weight_bounds_two_views_from_below():
    X = rng(18).normal(size=(9, 6))
    two = tight(squared(X, TwoView(3, (0.5, 2.0)), 0.6))
    for eta in (0.25 / 4.25, 0.3, 0.9):
        fixed = squared(X, TwoView(3, (0.5, 2.0)).at(eta, 6), 0.6)
        solution = tight(fixed)
        assert_proven(fixed, solution)
        assert solution.bound <= two.objective * (1 + 1e-9)


def test_huber_is_squared_loss_with_the_outliers_eliminated():
    problem = Problem("huber", "trace", 0.8, missing=True, seed=21)
    ours = convex(problem)
    solution = tight(ours)
    Z = solution.point.factors.dense()
    residual = np.where(np.isnan(problem.X), 0, problem.filled - Z)
    S = soft(residual, HUBER)
    explicit = (
        ((residual - S) ** 2).sum() / 2 + HUBER * np.abs(S).sum() + 0.8 * np.linalg.norm(Z, "nuc")
    )
    assert S.any()
    assert solution.objective == pytest.approx(explicit, rel=1e-9)


def test_smoothed_l1_is_a_rescaled_huber_problem():
    X = Problem("smoothed_l1", "trace", 1.0, seed=22).X
    first = tight(Convex(Data.of(X, SmoothedL1(SIGMA)), Trace(), 0.8))
    second = tight(Convex(Data.of(X, Huber(SIGMA)), Trace(), 0.8 * SIGMA))
    assert first.objective == pytest.approx(second.objective / SIGMA, rel=1e-6)


def test_exact_pursuit_finds_a_low_rank_matrix_under_gross_errors():
    random = rng(23)
    L = random.normal(size=(40, 2)) @ random.normal(size=(2, 30))
    X = L + 10 * (random.random(L.shape) < 0.05) * random.choice([-1, 1], L.shape)
    problem = Convex(Data.of(X, Absolute()), Trace(), np.sqrt(40.0))
    solution = tight(problem)
    assert np.linalg.norm(solution.point.factors.dense() - L) <= 1e-4 * np.linalg.norm(L)
    assert_proven(problem, solution, gap=1e-5)


def test_weights_multiply_the_loss():
    X = rng(24).normal(size=(8, 5))
    doubled = tight(squared(X, Trace(), 1.6, weights=np.full((8, 5), 2.0)))
    plain = tight(squared(X, Trace(), 0.8))
    assert doubled.objective == pytest.approx(2 * plain.objective, rel=1e-6)


def test_a_missing_entry_is_an_entry_of_weight_zero():
    X = rng(25).normal(size=(8, 5))
    hidden = rng(26).random(X.shape) < 0.3
    missing = tight(squared(np.where(hidden, np.nan, X), Trace(), 0.8))
    zeros = tight(squared(X, Trace(), 0.8, weights=1.0 - hidden))
    assert missing.objective == pytest.approx(zeros.objective, rel=1e-6)


# --- shapes and symmetries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gauge", [Trace(), Rows(L2()), Columns(L2()), Rows(LInf()), Columns(L1())], ids=str
)
@pytest.mark.parametrize("loss", [Squared(), Huber(HUBER)], ids=str)
def test_the_transposed_problem_has_the_transposed_solution(gauge, loss):
    X = rng(27).normal(size=(8, 5))
    problem = Convex(Data.of(X, loss), gauge, 0.6)
    there, back = tight(problem), tight(problem.T)
    assert back.objective == pytest.approx(there.objective, rel=1e-6)
    assert problem.T.alpha_max() == pytest.approx(problem.alpha_max(), rel=1e-9)
    if loss == Squared():
        np.testing.assert_allclose(
            back.point.factors.dense(), there.point.factors.dense().T, atol=1e-4
        )


@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=str)
def test_transposed_problems_with_missing_and_weights_have_the_same_value(loss):
    random = rng(28)
    X = (random.random((8, 5)) < 0.5).astype(float)
    X[random.random(X.shape) < 0.2] = np.nan
    problem = Convex(Data.of(X, loss, weights=random.uniform(0.5, 2, X.shape)), Trace(), 0.3)
    Z = random.normal(size=(8, 5))
    assert problem.T.data.value(Z.T) == pytest.approx(problem.data.value(Z))
    assert tight(problem.T).objective == pytest.approx(tight(problem).objective, rel=1e-6)


@pytest.mark.parametrize(
    "gauge", [Trace(), Rows(L2()), Columns(L2()), Rows(LInf()), TwoView(1)], ids=str
)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("loss", [Squared(), Logistic(), SmoothedL1(SIGMA)], ids=str)
def test_single_rows_and_columns_are_solved(gauge, shape, loss):
    X = np.linspace(0.1, 0.9, 5)[: max(shape)].reshape(shape)
    problem = Convex(Data.of(X, loss), gauge, 0.05)
    assert_proven(problem, tight(problem))


@pytest.mark.parametrize("intercept", [False, True])
def test_constant_and_empty_columns_are_solved(intercept):
    X = rng(29).normal(size=(7, 4))
    X[:, 1], X[:, 2], X[3] = 2.0, np.nan, np.nan
    design = Design.intercept(7) if intercept else None
    problem = Convex(Data.of(X, Squared()), Trace(), 0.5, design=design)
    assert_proven(problem, tight(problem))


def test_ridged_designs_are_proven_too():
    random = rng(30)
    X, D = random.normal(size=(9, 4)), random.normal(size=(9, 2))
    problem = Convex(
        Data.of(X, Squared()), Trace(), 0.5, design=Design(D, ridge=np.array([0.0, 0.7]))
    )
    solution = tight(problem)
    B = solution.point.coefficients
    Z = solution.point.factors.dense()
    explicit = (
        ((Z + D @ B - X) ** 2).sum() / 2 + 0.35 * (B[1] ** 2).sum() + 0.5 * np.linalg.norm(Z, "nuc")
    )
    assert solution.objective == pytest.approx(explicit, rel=1e-9)
    assert_proven(problem, solution)
    for Y in rng(31).normal(size=(5, 9, 4)):
        assert problem.bound(Y).value <= solution.objective


def test_lagged_problems_are_proven_too():
    random = rng(32)
    X = random.normal(size=(15, 2))
    problem = Convex(
        Data.of(X, Squared()),
        Trace(),
        1.0,
        map=Lags(1),
        design=Design(random.normal(size=(15, 2)), 0.5),
    )
    solution = tight(problem)
    assert solution.point.factors.shape == (16, 4)
    assert_proven(problem, solution)
    for Y in rng(33).normal(size=(5, 15, 2)):
        assert problem.bound(Y).value <= solution.objective


# --- the course of a solution -----------------------------------------------------------------------------------------


@some_problems
def test_a_solution_is_a_good_start(problem):
    ours = convex(problem)
    first = solved(problem)
    again = tight(ours, start=first.point)
    assert again.objective <= first.objective + 1e-6 * max(abs(first.objective), problem.null_scale)
    assert again.n_iter <= max(first.n_iter, 5)


@every_problem
def test_the_bound_never_falls_on_the_way(problem):
    bounds = [record.bound for record in solved(problem).history]
    assert (np.diff(bounds[1:]) >= 0).all() if np.isinf(bounds[0]) else (np.diff(bounds) >= 0).all()
    assert solved(problem).bound == bounds[-1]


@some_problems
def test_small_certificates_are_rigorous(problem):
    assert solved(problem).rigorous


@some_problems
def test_solving_twice_gives_the_same_answer(problem):
    first, second = solved(problem), tight(convex(problem))
    np.testing.assert_array_equal(first.point.factors.dense(), second.point.factors.dense())
    assert (first.objective, first.bound) == (second.objective, second.bound)


@some_problems
def test_a_looser_tolerance_is_met_by_an_honest_gap(problem):
    value, _, _ = optimum(problem)
    solution = solve(convex(problem), tol=1e-2)
    slack = 1e-6 * max(abs(value), problem.null_scale)
    assert solution.bound - slack <= value <= solution.objective + slack
    assert solution.relative_gap <= 1e-2


def test_an_unfinished_solution_says_so_and_stays_honest():
    problem = Problem("smoothed_l1", "two_view", 0.8, missing=True, seed=3)
    value, _, _ = optimum(problem)
    solution = solve(convex(problem), tol=1e-12, max_iter=2)
    assert solution.n_iter <= 10  # solvers certify every few iterations
    assert solution.relative_gap > 1e-12
    assert "max_iter" in solution.status.message
    assert solution.bound <= value * (1 + 1e-6)
    assert solution.objective >= value * (1 - 1e-6)


def test_float32_data_are_solved_in_float32_and_judged_in_float64():
    X = rng(34).normal(size=(8, 5)).astype(np.float32)
    solution = solve(Convex(Data.of(X, Huber()), Trace(), 0.8), tol=1e-4)
    assert solution.point.factors.dense().dtype == np.float32
    exact = tight(Convex(Data.of(X.astype(float), Huber()), Trace(), 0.8))
    assert solution.objective == pytest.approx(exact.objective, rel=1e-3)
    assert solution.bound <= exact.objective * (1 + 1e-9)
