"""Learning from expectations: the oracles of p-step, f-step and annealing, against independent solvers."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import expit, logit, xlogy

from catalogue import rng
from regfactor.core.loop import Status
from regfactor.core.params import UnsupportedProblem
from regfactor.labels.expectation.annealing import Annealing, first_labels, offset_ridge
from regfactor.labels.expectation.label_expectations import (
    LabelDual,
    bounded_quasi_newton,
    expected_labels,
)
from regfactor.labels.expectation.margin_newton import (
    CenteredRows,
    LinearDecision,
    minimize_margins,
)
from regfactor.labels.expectation.problem import (
    Expectation,
    MarginLoss,
    MarginWeights,
    Statements,
    entropies,
    log_partition,
)
from regfactor.losses import Hinge, Huber, Logistic, SmoothedHinge, Squared, SquaredHinge
from regfactor.problems import Data, Factored
from regfactor.solvers.base import solve

HARD = np.inf
MARGINS = {
    "squared": MarginLoss.of(Squared()),
    "squared_hinge": MarginLoss.of(SquaredHinge()),
    "logistic": MarginLoss.of(Logistic()),
    "smoothed_hinge": MarginLoss.of(SmoothedHinge(0.5)),
    "hinge": MarginLoss.of(Hinge()),
}
every_margin = pytest.mark.parametrize("margin", MARGINS.values(), ids=MARGINS)


def stated(masks, targets, tolerance=0.0, strength=HARD, of=None):
    """Statements on shares within masks, by default on the one column of two classes."""
    A = np.column_stack([m / m.sum() for m in np.asarray(masks, float)])
    m = len(targets)
    spread = np.broadcast_to(np.asarray(tolerance, float), m).copy()
    return Statements(
        A,
        np.arange(m),
        np.zeros(m, int) if of is None else np.asarray(of),
        np.asarray(targets, float),
        spread,
        np.broadcast_to(np.asarray(strength, float), m).copy(),
    )


def solved(gains, statements, T, weights=None):
    gains = gains[:, None] if gains.ndim == 1 else gains
    weights = np.ones(len(gains)) if weights is None else weights
    dual = LabelDual(gains, weights, statements, T)
    found = expected_labels(dual, np.zeros(len(statements)))
    return found.p, found.multipliers


@pytest.mark.parametrize("r", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("T", [10.0, 1.0, 0.01])
def test_balance_without_gains_has_its_closed_form(r, T):
    u = 50
    p, gamma = solved(np.zeros(u), stated([np.ones(u)], [r]), T)
    np.testing.assert_allclose(p, r, atol=1e-9)
    np.testing.assert_allclose(gamma, u * T * logit(r), rtol=1e-6, atol=1e-8)


def test_disjoint_groups_are_apart():
    u, T, r = 60, 0.7, np.array([0.2, 0.85])
    masks = np.array([np.arange(u) < 20, (np.arange(u) >= 20) & (np.arange(u) < 50)])
    p, gamma = solved(np.zeros(u), stated(masks, r), T)
    np.testing.assert_allclose(p[:, 0], np.repeat([0.2, 0.85, 0.5], [20, 30, 10]), atol=1e-8)
    np.testing.assert_allclose(gamma, np.array([20, 30]) * T * logit(r), rtol=1e-6)


def test_a_wide_tolerance_says_nothing_and_a_narrow_one_is_used_up():
    p, gamma = solved(np.zeros(30), stated([np.ones(30)], [0.2], 0.3), 1.0)
    assert gamma[0] == 0.0
    np.testing.assert_array_equal(p, 0.5)
    p, _ = solved(np.zeros(30), stated([np.ones(30)], [0.9], 0.1), 1.0)
    np.testing.assert_allclose(p, 0.8, atol=1e-9)


def test_without_statements_p_is_the_sigmoid_of_the_gains():
    gains = rng(0).normal(size=25)
    p, _ = solved(gains, Statements.none(25), 0.3)
    np.testing.assert_allclose(p[:, 0], expit(gains / 0.3), rtol=1e-14)


def test_the_cold_limit_labels_the_rows_that_gain_most():
    gains, gamma = rng(1).normal(size=40), np.zeros(1)
    balance = stated([np.ones(40)], [0.3])
    for T in 0.5 ** np.arange(16):
        found = expected_labels(LabelDual(gains[:, None], np.ones(40), balance, T), gamma)
        gamma = found.multipliers
    np.testing.assert_allclose(found.p[:, 0], gains >= np.sort(gains)[-12], atol=1e-6)


def primal(p, gains, statements, T, strength, weights=1.0):
    """The p-step's own problem: -gains.p - T H(p) + penalties."""
    excess = statements.excess(statements.expected(p[:, None], np.ones(len(p)) * weights))
    negative_entropy = np.sum(weights * (xlogy(p, p) + xlogy(1 - p, 1 - p)))
    return (
        T * negative_entropy
        - np.sum(weights * gains * p)
        + np.sum(strength * np.square(excess)) / 2
    )


def four_statements(u=40, strength=5.0):
    random = rng(3)
    masks = random.random((4, u)) < 0.4
    return stated(masks, random.uniform(0.1, 0.9, 4), [0.0, 0.02, 0.05, 0.1], strength)


@pytest.mark.parametrize("T", [10.0, 1.0, 0.1, 0.01])
def test_there_is_no_duality_gap(T):
    gains, statements = 0.5 * rng(4).normal(size=40), four_statements()
    p, gamma = solved(gains, statements, T)
    dual = LabelDual(gains[:, None], np.ones(40), statements, T)
    above, below = (
        primal(p[:, 0], gains, statements, T, 5.0),
        -dual.at(gamma).value,
    )
    assert above - below == pytest.approx(0, abs=1e-9 * max(1, abs(below)))


def test_p_is_that_of_a_general_solver():
    gains, statements, T = 0.5 * rng(4).normal(size=40), four_statements(), 0.5
    A, r, eps = statements.features.T, statements.target, statements.tolerance

    # slacks: the penalty is that of Ap - s with s in the band
    def value(x):
        p, s = x[:40], x[40:]
        entropy = np.sum(xlogy(p, p) + xlogy(1 - p, 1 - p))
        return T * entropy - gains @ p + 2.5 * np.sum(np.square(A @ p - s))

    def slope(x):
        p, s = x[:40], x[40:]
        off = 5.0 * (A @ p - s)
        return np.concatenate([T * logit(p) - gains + A.T @ off, -off])

    box = [(1e-9, 1 - 1e-9)] * 40 + list(zip(r - eps, r + eps, strict=True))
    start = np.concatenate([np.full(40, 0.5), r])
    found = minimize(
        value,
        start,
        jac=slope,
        bounds=box,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(solved(gains, statements, T)[0][:, 0], found.x[:40], atol=2e-6)


def test_the_fallback_finds_the_same_multipliers():
    gains, statements = 0.5 * rng(4).normal(size=40), four_statements()
    dual = LabelDual(gains[:, None], np.ones(40), statements, 0.5)
    gamma = expected_labels(dual, np.zeros(4)).multipliers
    np.testing.assert_allclose(
        bounded_quasi_newton(dual, np.zeros(4), 1e-10).multipliers, gamma, atol=1e-4
    )


def test_the_unit_of_a_feature_does_not_matter():
    gains, statements = 0.5 * rng(4).normal(size=40), four_statements()
    unit = np.array([1e6, 1.0, 1e-6, 10.0])
    other = Statements(
        statements.features * unit,
        statements.feature,
        statements.column,
        statements.target * unit,
        statements.tolerance * unit,
        statements.strength / unit**2,
    )
    np.testing.assert_allclose(
        solved(gains, other, 0.3)[0], solved(gains, statements, 0.3)[0], atol=1e-7
    )


@pytest.mark.parametrize("T", [5.0, 0.5, 0.05])
def test_statements_that_cannot_hold_give_a_finite_answer(T):
    u = 30
    clash = stated([np.ones(u), np.ones(u)], [0.1, 0.9], 0.02, strength=100.0)
    p, gamma = solved(rng(5).normal(size=u), clash, T)
    assert np.isfinite(gamma).all() and np.isfinite(p).all()
    excess = clash.excess(clash.expected(p, np.ones(u)))
    np.testing.assert_allclose(np.abs(excess), 0.38, atol=0.05)
    np.testing.assert_allclose(gamma, -clash.strength * excess, rtol=1e-5)


def test_a_weight_stands_for_equal_rows_in_the_p_step():
    random, v = rng(6), np.array([1, 2, 3, 1, 4, 2])
    gains, mask = random.normal(size=6), np.array([1, 1, 0, 1, 1, 0])
    weighted = stated([mask], [0.3])
    weighted = Statements(
        mask[:, None] / (v @ mask),
        weighted.feature,
        weighted.column,
        weighted.target,
        weighted.tolerance,
        weighted.strength,
    )
    p, gamma = solved(gains, weighted, 0.4, v.astype(float))
    repeated, other = solved(np.repeat(gains, v), stated([np.repeat(mask, v)], [0.3]), 0.4)
    np.testing.assert_allclose(np.repeat(p, v, axis=0), repeated, atol=1e-8)
    np.testing.assert_allclose(gamma, other, rtol=1e-6)


def test_two_columns_of_scores_are_one():
    """Softmax over two classes equals the sigmoid of their difference."""
    gains, statements = 0.5 * rng(4).normal(size=40), four_statements()
    one, gamma = solved(gains, statements, 0.2)
    both = np.column_stack([-gains / 2, gains / 2])
    two = stated(
        (statements.features.T > 0), statements.target, statements.tolerance, 5.0, of=[1] * 4
    )
    p, other = solved(both, two, 0.2)
    np.testing.assert_allclose(p[:, 1:], one, atol=1e-10)
    np.testing.assert_allclose(other, gamma, atol=1e-8)
    np.testing.assert_allclose(log_partition(both), log_partition(gains[:, None]) - gains / 2)
    np.testing.assert_allclose(entropies(p), entropies(one), atol=1e-10)


def test_sparse_features_state_the_same():
    gains, statements = 0.5 * rng(4).normal(size=40), four_statements()
    rows = scipy.sparse.csr_array(statements.features)
    sparse = Statements(
        rows,
        statements.feature,
        statements.column,
        statements.target,
        statements.tolerance,
        statements.strength,
    )
    np.testing.assert_allclose(
        solved(gains, sparse, 0.2)[0], solved(gains, statements, 0.2)[0], atol=1e-12
    )


def test_the_hessian_is_the_derivative_of_the_slope():
    random = rng(7)
    statements = stated(
        random.random((6, 20)) < 0.5,
        random.uniform(0.1, 0.6, 6),
        strength=3.0,
        of=[0, 1, 2, 2, 1, 0],
    )
    dual = LabelDual(random.normal(size=(20, 3)), random.uniform(1, 2, 20), statements, 0.7)
    gamma, h = random.normal(size=6), 1e-6
    p = dual.at(gamma).p
    for k in range(6):
        e = h * (np.arange(6) == k)
        ends = [dual.smooth_gradient(dual.at(gamma + s * e)) for s in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), dual.hessian(p)[k], atol=1e-7)


# the f-step


def draw(n=60, d=5, seed=0):
    random = rng(seed)
    X = random.normal(size=(n, d)) + 3.0  # not centered
    p = random.random(n)
    return X, 0.8 * p, 0.8 * (1 - p)


@every_margin
@pytest.mark.parametrize("ridge", [0.0, 30.0])
@pytest.mark.parametrize("kind", ["direct", "conjugate", "sparse", "sparse direct"])
def test_the_f_step_finds_the_minimum(margin, kind, ridge, monkeypatch):
    X, plus, minus = draw()
    if "direct" not in kind:
        monkeypatch.setattr("regfactor.labels.expectation.margin_newton.MAX_DIRECT_FEATURES", 0)
    mean = X.mean(axis=0)
    table = (
        CenteredRows(scipy.sparse.csr_array(X), mean)
        if "sparse" in kind
        else CenteredRows(X - mean, np.zeros(5))
    )
    X = X - mean
    assert table.direct == ("direct" in kind)
    found = minimize_margins(
        table, margin, MarginWeights(plus, minus), LinearDecision.zero(*X.shape), 1e-9, ridge
    )
    np.testing.assert_allclose(found.f, X @ found.w + found.b, atol=1e-9)

    def value(theta):
        f = X @ theta[:-1] + theta[-1]
        s = margin.gradient(f, plus, minus)
        grad = np.append(theta[:-1] + X.T @ s, s.sum() + ridge * theta[-1])
        costs = theta[:-1] @ theta[:-1] + ridge * theta[-1] ** 2
        return costs / 2 + margin.value(f, plus, minus).sum(), grad

    exact = minimize(
        value, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    ).x
    np.testing.assert_allclose(np.append(found.w, found.b), exact, atol=1e-5)
    mine = value(np.append(found.w, found.b))
    assert mine[0] <= value(exact)[0] + 1e-10
    assert np.abs(mine[1]).max() < 1e-7


def test_squared_loss_has_its_closed_form():
    """f = K (K + I/(2C'))^-1 (2p - 1) for a centered kernel and a balanced p."""
    X, p, C = rng(1).normal(size=(30, 4)), rng(2).random(30), 0.3
    X, p = X - X.mean(axis=0), p - p.mean() + 0.5
    K = X @ X.T
    exact = K @ np.linalg.solve(K + np.eye(30) / (2 * C), 2 * p - 1)
    found = minimize_margins(
        CenteredRows(X, np.zeros(4)),
        MARGINS["squared"],
        MarginWeights(C * p, C * (1 - p)),
        LinearDecision.zero(30, 4),
        1e-12,
    )
    np.testing.assert_allclose(found.f, exact, atol=1e-12)
    assert abs(found.b) < 1e-12


def test_long_indices_are_shortened_and_the_given_table_is_left_alone():
    X = scipy.sparse.csr_array(np.where(rng(0).random((20, 6)) < 0.3, 1.0, 0.0))
    long = scipy.sparse.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )
    table, w = CenteredRows(long, np.full(6, 0.3)), rng(1).normal(size=6)
    assert table.X.indices.dtype == np.int32 and long.indices.dtype == np.int64
    np.testing.assert_allclose(table.times(w), (X.toarray() - 0.3) @ w)
    np.testing.assert_allclose(
        table.adjoint(np.arange(20.0)), (X.toarray() - 0.3).T @ np.arange(20.0)
    )


def test_one_factorization_serves_as_long_as_curvatures_stay(monkeypatch):
    import scipy.linalg

    calls, original = [], scipy.linalg.cho_factor
    monkeypatch.setattr(
        scipy.linalg, "cho_factor", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    X, random = rng(1).normal(size=(30, 4)), rng(2)
    table, machine = CenteredRows(X, np.zeros(4)), LinearDecision.zero(30, 4)
    for _ in range(5):
        p = random.random(30)
        machine = minimize_margins(
            table, MARGINS["squared"], MarginWeights(0.3 * p, 0.3 * (1 - p)), machine, 1e-10
        )
    assert len(calls) == 1


@every_margin
def test_margins_are_consistent(margin):
    f, plus, minus, h = np.linspace(-2.05, 2.05, 24), rng(0).random(24), rng(1).random(24), 1e-6
    ends = [margin.value(f + s * h, plus, minus) for s in (1, -1)]
    np.testing.assert_allclose(
        margin.gradient(f, plus, minus), (ends[0] - ends[1]) / (2 * h), atol=1e-6
    )
    ends = [margin.gradient(f + s * h, plus, minus) for s in (1, -1)]
    np.testing.assert_allclose(
        margin.hessian(f, plus, minus), (ends[0] - ends[1]) / (2 * h), atol=1e-5
    )
    one, zero = np.ones(24), np.zeros(24)
    wanted = margin.value(f, zero, one) - margin.value(f, one, zero)
    np.testing.assert_allclose(margin.advantage(f), wanted, atol=1e-12)
    assert (np.diff(margin.advantage(f)) > 0).all()
    np.testing.assert_allclose(margin.value(f, one, zero), margin.value(-f, zero, one))


def test_squared_is_the_squared_hinge_near_zero_and_others_are_refused():
    f, plus, minus = np.linspace(-0.9, 0.9, 7), np.full(7, 0.3), np.full(7, 0.7)
    np.testing.assert_allclose(
        MARGINS["squared"].value(f, plus, minus), MARGINS["squared_hinge"].value(f, plus, minus)
    )
    with pytest.raises(ValueError, match="use 'squared_hinge'"):
        MarginLoss.of(Huber())


# annealing


def problem(X, codes, margin="squared_hinge", statements=None, C=0.05, k=2, C_unlabeled=None):
    u = int((codes < 0).sum())
    statements = Statements.none(u) if statements is None else statements
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.square(X).sum(axis=1)))
    own = C if C_unlabeled is None else C_unlabeled
    return Expectation(
        X, np.zeros(X.shape[1]), codes, np.ones(len(codes)), k, MARGINS[margin], C, own, statements
    )


@pytest.mark.parametrize("margin", ["squared", "squared_hinge", "logistic"])
def test_above_the_critical_temperature_equal_shares_are_stable_and_below_they_split(margin):
    X, C = rng(3).normal(size=(80, 3)) * [3.0, 1.0, 0.5], 0.3
    balance = stated([np.ones(80)], [0.5])
    task = problem(X, np.full(80, -1), margin, balance, C)
    top = np.linalg.eigvalsh(task.X @ task.X.T)[-1]
    squares = margin != "logistic"
    critical = 2 * C * top / (top + 1 / (2 * C)) if squares else C * top / (top + 4 / C)
    assert critical < task.first_temperature
    direction = np.linalg.svd(task.X, full_matrices=False)[0][:, 0]
    table = CenteredRows(task.X, task.mean)
    for factor, grows in ((1.05, False), (0.95, True)):
        p = 0.5 + 1e-4 * direction[:, None]
        for _ in range(150):
            weights = MarginWeights(C * p[:, 0], C * (1 - p[:, 0]))
            machine = minimize_margins(
                table, task.margin, weights, LinearDecision.zero(80, 3), 1e-12
            )
            p = solved(task.gains(machine.f[:, None]), balance, factor * critical)[0]
        size = np.linalg.norm(p - 0.5) / 1e-4
        assert (size > 50) if grows else (size < 0.1)


@pytest.mark.parametrize("margin", ["squared_hinge", "logistic", "squared", "hinge"])
@pytest.mark.parametrize("k", [2, 3])
def test_the_objective_falls_at_every_temperature(margin, k):
    random = rng(k)
    y = np.arange(90) % k
    X = random.normal(size=(90, 4)) + 4.0 * np.eye(4)[y]
    codes = np.where(np.arange(90) < 2 * k, y, -1)
    u = 90 - 2 * k
    of = [0] if k == 2 else [0, 1, 2]
    balance = Statements(
        np.full((u, 1), 1 / u),
        np.zeros(len(of), int),
        np.array(of),
        np.full(len(of), 1 / k),
        np.full(len(of), 0.02),
        np.full(len(of), 1e3),
    )
    task = problem(X, codes, margin, balance, 0.1, k)
    stages = {}
    for it in Annealing().iterates(task, None):
        stages.setdefault(it.stage, []).append(it.objective)
        assert np.isfinite(it.objective)
        np.testing.assert_allclose(
            it.point.values, task.X @ it.point.coefficients + it.point.offsets, atol=1e-8
        )
    assert len(stages) > 7
    for values in stages.values():
        assert np.all(np.diff(values) <= 1e-9 * np.abs(values[0]))
    winners = it.point.values.argmax(axis=1) if k > 2 else it.point.values[:, 0] > 0
    assert np.mean(winners == y) > 0.95


def test_a_problem_is_solved_by_the_solver_it_names_down_to_the_last_temperature():
    X, y = rng(0).normal(size=(60, 3)), np.arange(60) % 2
    X[:, 0] += 4.0 * y
    task = problem(X, np.where(np.arange(60) < 4, y, -1))
    drawn = list(Annealing(1e-2).iterates(task, None))
    found = solve(task, tol=1e-2)  # changes within a temperature are smaller, and do not end it
    assert found.solver == "Annealing" and found.status is Status.FINISHED
    assert found.n_iter == len(drawn) and found.objective == drawn[-1].objective
    weights = task.margin_weights(found.point.labels)
    heat = drawn[-1].info["temperature"] * task.free_weights @ entropies(found.point.labels)
    assert found.objective == pytest.approx(task.objective(found.point, weights, heat))
    with pytest.raises(UnsupportedProblem, match="Expectation problem"):
        solve(Factored(Data.of(X, "squared")), solver=Annealing())


def test_without_cooling_it_begins_cold_and_without_unlabeled_rows_there_is_nothing_to_cool():
    X, codes = rng(0).normal(size=(20, 3)), np.where(np.arange(20) < 4, np.arange(20) % 2, -1)
    task = problem(X, codes)
    all_, last = Annealing().temperatures(task), Annealing(cooling=False).temperatures(task)
    assert (
        all_[0] == pytest.approx(3 * 0.05)
        and all_[-1] > 5e-3 * 0.05 >= all_[-1] / 1.5
        and last == all_[-1:]
    )
    assert Annealing().temperatures(problem(X, np.arange(20) % 2)) == []
    assert Annealing().temperatures(problem(X, codes, C_unlabeled=0.0)) == []
    assert first_labels(problem(X, codes, C_unlabeled=0.0)).p.shape == (16, 1)


def test_the_offset_waits_for_the_first_direction_of_the_kernel():
    """n / (LATER k1): the constant is one more feature, with half the largest eigenvalue."""
    X = rng(0).normal(size=(40, 3)) * [5.0, 1.0, 1.0]
    task = problem(X, np.full(40, -1))
    table = CenteredRows(task.X, task.mean)
    top = np.linalg.eigvalsh(task.X.T @ task.X)[-1]
    assert offset_ridge(task, table) == pytest.approx(40 / (0.5 * top), rel=1e-3)
    sparse = CenteredRows(scipy.sparse.csr_array(task.X + 2.0), np.full(3, 2.0))
    assert sparse.largest_eigenvalue(np.ones(40)) == pytest.approx(top, rel=1e-3)
    assert offset_ridge(problem(X, np.arange(40) % 2), table) == 0.0


def test_starting_temperatures_are_those_of_the_specification():
    X, codes = rng(0).normal(size=(20, 3)), np.full(20, -1)
    starts = {name: problem(X, codes, name, C=0.1).first_temperature / 0.1 for name in MARGINS}
    wanted = {"squared": 3, "squared_hinge": 3, "logistic": 1.5, "smoothed_hinge": 10, "hinge": 10}
    assert starts == pytest.approx(wanted)
