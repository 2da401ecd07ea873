"""Two views under shared codes: oracles by hand, agreement with a conic solver, missing views, the weak spots."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import RANDOM_START, rng
from regfactor.comparisons.many_views import ManyViews, MultiViewRelaxation
from regfactor.comparisons.views import LocalTwoView, SingleViewSubspace
from regfactor.core.factors import Factors
from regfactor.datasets import make_two_view
from regfactor.losses import Huber, Logistic, Poisson, SmoothedL1, Squared
from regfactor.penalties import TwoView
from regfactor.problems import Convex, Data
from regfactor.solvers import FactoredFista, solve
from regfactor.solvers.eta_search import EtaSearch
from regfactor.views.two_view import TwoViewSubspace

PLAIN = {"scale": False, "fit_intercept": False, "tol": 1e-8, "max_iter": 20_000}
EXACT = {"tol": 1e-9, "max_iter": 20_000}
COMPARATORS = [SingleViewSubspace(), LocalTwoView(), MultiViewRelaxation()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have no observed entry")
@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.filterwarnings("ignore:.*has no component")
@parametrize_with_checks(
    [clone(e) for e in COMPARATORS],
    expected_failed_checks=lambda e: RANDOM_START if isinstance(e, LocalTwoView) else {},
)
def test_scikit_learn_checks_pass_for_the_comparators(estimator, check):
    check(estimator)


def pair(seed=0, n=50, d=(6, 8), rank=3, noise=0.1):
    """Two noisy views of low rank."""
    random = rng(seed)
    codes = random.normal(size=(n, rank))
    return tuple(
        codes @ random.normal(size=(rank, k)) + noise * random.normal(size=(n, k)) for k in d
    )


def holed(X, share, seed):
    return np.where(rng(seed).random(X.shape) < share, np.nan, X)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_the_prox_of_a_diagonal_matrix_by_hand():
    model = TwoViewSubspace(1.0, loss="squared", **PLAIN).fit(
        np.array([[3.0], [0.0]]), np.array([[0.0], [4.0]])
    )
    np.testing.assert_allclose(model.codes_ @ model.components_, np.diag([2.4, 3.2]), atol=1e-5)
    assert model.objective_ == pytest.approx(4.5, rel=1e-7)
    assert model.view_weight_[0] == pytest.approx(0.36, abs=1e-4)


@pytest.mark.parametrize("strong", [0, 1])
def test_one_view_alone_decides_where_the_other_is_a_small_image_of_it(strong):
    random = rng(1)
    A = random.normal(size=(20, 2))
    views = [3 * A @ random.normal(size=(2, 5)), 0.1 * A @ random.normal(size=(2, 4))]
    views = views if strong == 0 else views[::-1]  # eta at 1, then at 0
    model = TwoViewSubspace(1.0, loss="squared", **PLAIN).fit(*views)
    U, s, Vt = np.linalg.svd(views[strong], full_matrices=False)
    found = model.denoise(*views, keep=False)
    np.testing.assert_allclose(found[strong], U * np.maximum(s - 1, 0) @ Vt, atol=1e-4)
    np.testing.assert_allclose(found[1 - strong], views[1 - strong], atol=1e-4)
    assert model.view_weight_[strong] == pytest.approx(1, abs=1e-3)
    assert model.objective_ == pytest.approx(
        2 / 2 + (s[:2] - 1).sum(), rel=1e-7
    )  # both values lose one


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 2.0)])
def test_an_unobserved_second_view_leaves_the_trace_norm_of_the_first(bounds):
    X1, X2 = pair(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = TwoViewSubspace(1.0, bounds, loss="squared", **PLAIN).fit(
            X1, np.full_like(X2, np.nan)
        )
    s = np.linalg.svd(X1, compute_uv=False)
    t = 1 / bounds[0]
    optimum = (np.minimum(s, t) ** 2 / 2 + t * np.maximum(s - t, 0)).sum()
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*has no component")
def test_from_the_largest_alpha_on_the_fit_is_zero():
    X1, X2 = pair(3)
    largest = TwoViewSubspace(1.0, loss="squared").fit(X1, X2).alpha_max_
    above, below = (TwoViewSubspace(c * largest, loss="squared").fit(X1, X2) for c in (1.0001, 0.8))
    assert above.codes_.shape == (50, 0) and above.gap_ == pytest.approx(0, abs=1e-9)
    assert below.codes_.shape[1] >= 1


# --- against a conic solver -------------------------------------------------------------------------------------------

N, D1, D2 = 12, 5, 6
LOSSES = {
    "squared": (Squared(), lambda Z, X, W: cp.sum(cp.multiply(W, cp.square(Z - X))) / 2),
    "huber": (Huber(0.7), lambda Z, X, W: cp.sum(cp.multiply(W, cp.huber(Z - X, 0.7))) / 2),
    "smoothed_l1": (
        SmoothedL1(0.2),
        lambda Z, X, W: cp.sum(cp.multiply(W, cp.huber(Z - X, 0.2))) / 0.4,
    ),
    "logistic": (
        Logistic(),
        lambda Z, X, W: cp.sum(cp.multiply(W, cp.logistic(Z) - cp.multiply(X, Z))),
    ),
    "poisson": (Poisson(), lambda Z, X, W: cp.sum(cp.multiply(W, cp.exp(Z) - cp.multiply(X, Z)))),
}
LOSSES["mixed"] = (
    (Squared(), Logistic()),
    lambda Z, X, W: (
        LOSSES["squared"][1](Z[:, :D1], X[:, :D1], W[:, :D1])
        + LOSSES["logistic"][1](Z[:, D1:], X[:, D1:], W[:, D1:])
    ),
)
SIX = list(LOSSES)


def small(name, seed):
    """A 12 x 11 table in the units of a loss, with missing entries and a row whose second view is missing."""
    random = rng(seed)
    Z = random.normal(size=(N, 2)) @ random.normal(size=(2, D1 + D2))
    X = Z + 0.3 * random.normal(size=Z.shape)
    binary = (X > 0).astype(float)
    if name == "logistic":
        X = binary
    if name == "poisson":
        X = random.poisson(np.exp(Z / 2)).astype(float)
    if name == "mixed":
        X[:, D1:] = binary[:, D1:]
    X[random.random(X.shape) < 0.15] = np.nan
    X[3, D1:] = np.nan
    return X


def conic_optimum(name, X, alpha, bounds):
    """min L(Z) + alpha/2 (tr A + s) with [[A, Z], [Z', B]] >= 0, tr B_vv <= s b_v^2."""
    W, filled = (~np.isnan(X)).astype(float), np.nan_to_num(X)
    n, d = X.shape
    M, s = cp.Variable((n + d, n + d), PSD=True), cp.Variable()
    Z, B = M[:n, n:], M[n:, n:]
    held = [
        cp.trace(B[:D1, :D1]) <= s * bounds[0] ** 2,
        cp.trace(B[D1:, D1:]) <= s * bounds[1] ** 2,
    ]
    objective = LOSSES[name][1](Z, filled, W) + alpha / 2 * (cp.trace(M[:n, :n]) + s)
    problem = cp.Problem(cp.Minimize(objective), held)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.6, 1.5)])
@pytest.mark.parametrize("name", SIX)
def test_the_optimum_is_that_of_the_semidefinite_program(name, bounds):
    X = small(name, seed=SIX.index(name))
    model = TwoViewSubspace(0.6, bounds, LOSSES[name][0], D1, **PLAIN).fit(X)
    value = conic_optimum(name, X, 0.6, bounds)
    assert model.objective_ == pytest.approx(value, rel=2e-6)
    assert model.objective_ - model.gap_ <= value + 2e-6 * abs(value)
    assert model.relative_gap_ <= 1e-7


@pytest.mark.parametrize("name", SIX)
def test_factors_cost_the_norm_and_keep_the_bounds(name):
    bounds = (0.7, 1.4)
    X = small(name, seed=7)
    model = TwoViewSubspace(0.3, bounds, LOSSES[name][0], D1, **PLAIN).fit(X)
    for C, bound in zip(model.view_components_, bounds, strict=True):
        assert np.linalg.norm(C, axis=1).max() <= bound * (1 + 1e-12)
    gauge = TwoView(D1, bounds)
    size = np.linalg.norm(model.codes_, axis=0).sum()
    assert size == pytest.approx(gauge.value(model.codes_ @ model.components_), rel=1e-4)
    assert len(model.components_) == np.linalg.matrix_rank(
        model.codes_ @ model.components_, tol=1e-8
    )


# --- the saddle -------------------------------------------------------------------------------------------------------


def test_the_saddle_value_is_the_primal_optimum_and_concave_in_eta():
    X1, X2 = pair(4, n=40, d=(6, 6))
    X, alpha = np.hstack([X1, X2]), 1.5
    best = TwoViewSubspace(alpha, loss="squared", n_first=6, **PLAIN).fit(X)
    eta = best.view_weight_[0]

    def inner(at):
        return SingleViewSubspace(alpha, n_first=6, eta=at, **PLAIN).fit(X).objective_

    assert inner(eta) == pytest.approx(best.objective_, rel=1e-6)
    values = np.array([inner(at) for at in np.linspace(0.1, 0.9, 9)])
    assert np.all(np.diff(values, 2) < 1e-8)
    assert values.max() <= best.objective_ * (1 + 1e-7)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 2.0)])
def test_one_bound_for_both_views_never_costs_more(bounds):
    X1, X2 = pair(5)
    single, double = (
        kind(0.7, bounds, "squared", **PLAIN).fit(X1, X2)
        for kind in (SingleViewSubspace, TwoViewSubspace)
    )
    assert single.objective_ <= double.objective_ * (1 + 1e-7)
    s = np.linalg.svd(np.hstack([X1, X2]), compute_uv=False)
    t = 0.7 / np.hypot(*bounds)
    assert single.objective_ == pytest.approx(
        (np.minimum(s, t) ** 2 / 2 + t * np.maximum(s - t, 0)).sum(), rel=1e-7
    )


def test_alternating_descent_ends_above_the_optimum_and_its_certificate_says_how_far():
    X1, X2 = pair(6)
    best = TwoViewSubspace(3.0, loss="squared", **EXACT).fit(X1, X2)
    for rank in (1, 6):
        local = LocalTwoView(rank, 3.0, tol=1e-9, max_iter=5000, random_state=0).fit(X1, X2)
        assert local.objective_ >= best.objective_ * (1 - 1e-8)
        assert local.objective_ - local.gap_ <= best.objective_ * (1 + 1e-8)
        for C in local.view_components_:
            assert np.linalg.norm(C, axis=1).max() <= 1 + 1e-6
    assert local.objective_ == pytest.approx(best.objective_, rel=1e-3)


# --- views that are missing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "huber", ("squared", "logistic"), "absolute"])
def test_transform_gives_the_codes_again_with_missing_and_missing_views(loss):
    X1, X2 = pair(8)
    X2 = (X2 > 0).astype(float) if isinstance(loss, tuple) else X2
    X1, X2 = holed(X1, 0.1, 1), holed(X2, 0.1, 2)
    X1[:5], X2[5:12] = np.nan, np.nan
    tight = {"tol": 1e-6, "max_iter": 20_000} if loss == "absolute" else EXACT
    model = TwoViewSubspace(0.5, loss=loss, **tight).fit(X1, X2)
    np.testing.assert_allclose(model.transform(X1, X2), model.codes_, atol=1e-7)
    np.testing.assert_allclose(model.transform(None, X2[:5]), model.codes_[:5], atol=1e-7)
    np.testing.assert_allclose(model.transform(X1[5:12]), model.codes_[5:12], atol=1e-7)
    np.testing.assert_allclose(model.transform(X1[7:8], X2[7:8]), model.codes_[7:8], atol=1e-7)


def test_a_missing_view_is_predicted_from_the_other():
    X1, X2 = pair(9, n=300, noise=0.05)
    X2 = 1000 * X2 + 5
    model = TwoViewSubspace(0.5, loss="squared").fit(X1[:200], X2[:200])
    predicted = model.predict_view(X1=X1[200:])
    error = np.linalg.norm(predicted - X2[200:]) / np.linalg.norm(X2[200:] - X2.mean(axis=0))
    assert error < 0.2
    np.testing.assert_allclose(predicted, model.denoise(X1[200:])[1])
    back = model.predict_view(X2=X2[200:])
    assert np.linalg.norm(back - X1[200:]) / np.linalg.norm(X1[200:]) < 0.2


def test_missing_views_in_training_help_to_learn_the_rest():
    X1, X2 = pair(10, n=200)
    X1, X2 = X1.copy(), X2.copy()
    truth = X2[:40].copy()
    X2[:40] = np.nan
    model = TwoViewSubspace(1.0, loss="squared").fit(X1, X2)
    first, second = model.complete(X1, X2)
    assert np.array_equal(first, X1) and np.array_equal(second[40:], X2[40:])
    assert np.linalg.norm(second[:40] - truth) / np.linalg.norm(truth) < 0.2


def test_one_view_cleans_the_other():
    X1, X2, clean1, clean2 = make_two_view(200, (20, 20), 3, random_state=0)
    model = TwoViewSubspace(10.0, loss="smoothed_l1", **{**PLAIN, "tol": 1e-4}).fit(X1, X2)
    for view, clean, noisy in zip(model.denoise(X1, X2), (clean1, clean2), (X1, X2), strict=True):
        assert np.linalg.norm(view - clean) < 0.2 * np.linalg.norm(noisy - clean)


# --- one stacked table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_first", [6, 6 / 14, list("abcdef")])
def test_a_stacked_table_is_the_same_as_two(n_first):
    X1, X2 = pair(11)
    X1, X2 = holed(X1, 0.1, 3), holed(X2, 0.1, 4)
    both = pd.DataFrame(np.hstack([X1, X2]), columns=list("abcdefghijklmn"))
    two, one = (
        TwoViewSubspace(0.5, loss="squared").fit(X1, X2),
        TwoViewSubspace(0.5, loss="squared", n_first=n_first).fit(both),
    )
    assert np.array_equal(two.codes_, one.codes_)
    assert np.array_equal(np.hstack(two.denoise(X1, X2)), one.denoise(both))
    assert np.array_equal(two.predict_view(X1=X1), one.predict_view(X1=X1))
    assert np.array_equal(one.transform(X1, X2), one.transform(both))


def test_columns_of_the_first_view_may_stand_anywhere():
    X1, X2 = pair(12)
    order = np.array([3, 0, 7, 12, 5, 9])
    both = np.empty((50, 14))
    both[:, np.sort(order)], both[:, np.setdiff1d(np.arange(14), order)] = X1, X2
    frame = pl.DataFrame(both, schema=[f"c{j}" for j in range(14)])
    model = TwoViewSubspace(0.5, loss="squared", n_first=[f"c{j}" for j in order]).fit(frame)
    two = TwoViewSubspace(0.5, loss="squared").fit(X1, X2)
    assert np.array_equal(model.codes_, two.codes_)
    np.testing.assert_array_equal(model.denoise(frame)[:, np.sort(order)], two.denoise(X1, X2)[0])


@pytest.mark.parametrize("loss", ["squared", "logistic", ("squared", "logistic")])
def test_sparse_tables_are_tables_with_missing(loss):
    X1, X2 = pair(13, n=60)
    if loss == "logistic":
        X1 = (X1 > 0).astype(float)
    X2 = X2 if loss == "squared" else (X2 > 0).astype(float)
    X1, X2 = holed(X1, 0.5, 5), holed(X2, 0.5, 6)
    stored = [
        scipy.sparse.csr_array((X[~np.isnan(X)], np.nonzero(~np.isnan(X))), shape=X.shape)
        for X in (X1, X2)
    ]
    dense, sparse = (
        TwoViewSubspace(0.5, loss=loss, tol=1e-7).fit(*views) for views in ((X1, X2), stored)
    )
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    np.testing.assert_allclose(sparse.transform(*stored), sparse.codes_, atol=1e-6)
    np.testing.assert_allclose(
        np.hstack(sparse.denoise(*stored)), np.hstack(dense.denoise(X1, X2)), atol=1e-2
    )


# --- units and weights ------------------------------------------------------------------------------------------------


def test_units_of_the_views_do_not_matter_when_they_are_scaled():
    X1, X2 = pair(14)
    plain, other = (
        TwoViewSubspace(0.5, loss="squared").fit(X1, X2),
        TwoViewSubspace(0.5, loss="squared").fit(X1, 1e6 * X2 + 3e7),
    )
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(
        other.denoise(X1, 1e6 * X2 + 3e7)[1], 1e6 * plain.denoise(X1, X2)[1] + 3e7, rtol=1e-4
    )
    np.testing.assert_allclose(plain.scale_[:6], X1.std(axis=0))


@pytest.mark.filterwarnings("ignore:.*has no component")
def test_other_losses_are_weighted_to_the_same_cost_of_constants():
    X1, X2 = pair(15)
    model = TwoViewSubspace(1e3, loss=("squared", "logistic")).fit(X1, (X2 > 0).astype(float))
    assert len(model.components_) == 0
    assert model.objective_ == pytest.approx(0.5 * (X1.size + X2.size), rel=1e-6)


def test_weights_of_rows_stand_for_repeated_rows():
    X1, X2 = pair(16)
    times = rng(0).integers(0, 3, 50)
    weighted = TwoViewSubspace(0.5, loss="squared", **EXACT).fit(X1, X2, sample_weight=times)
    repeated = TwoViewSubspace(0.5, loss="squared", **EXACT).fit(
        np.repeat(X1, times, axis=0), np.repeat(X2, times, axis=0)
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.denoise(X1, X2)[0], repeated.denoise(X1, X2)[0], atol=1e-5)


def test_the_strength_is_chosen_by_entries_held_out():
    X1, X2 = pair(17, n=100)
    model = TwoViewSubspace("auto", loss="squared", random_state=0).fit(X1, X2)
    assert model.alphas_[0] > model.alpha_ > 1e-3 * model.alpha_max_
    assert model.validation_loss_.argmin() == np.flatnonzero(model.alphas_ == model.alpha_)[0]


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_the_time_limit_bounds_the_choice_of_the_strength():
    X1, X2 = pair(17, n=400, d=(40, 40))
    with pytest.warns(ConvergenceWarning, match="time_limit ended the search"):
        model = TwoViewSubspace("auto", loss="squared", time_limit=1e-3, random_state=0).fit(X1, X2)
    assert len(model.alphas_) == 1


# --- weak spots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-3, 1e-6])
@pytest.mark.parametrize("weak", [0, 1])
def test_a_view_a_million_times_weaker_is_still_fitted(size, weak):
    views = list(pair(18))
    views[weak] = size * views[weak]
    model = TwoViewSubspace(0.5, loss="squared", scale=False, fit_intercept=False).fit(*views)
    assert model.relative_gap_ <= 1e-4
    found = model.denoise(*views)[weak]
    assert np.linalg.norm(found - views[weak]) < 0.2 * np.linalg.norm(views[weak])


@pytest.mark.parametrize("seed", range(4))
def test_a_tiny_alpha_with_very_unequal_bounds_is_solved(seed):
    X1, X2 = pair(seed, n=60, d=(8, 10))
    X1 = holed(X1, 0.2, seed)
    problem = Convex(Data.of(np.hstack([X1, X2]), Squared()), TwoView(8, (7.7, 0.44)), 1.0)
    solution = solve(problem.at(0.005 * problem.alpha_max()), tol=1e-5, max_iter=4000)
    assert solution.relative_gap <= 1e-5


def test_the_solver_in_factors_agrees_with_splitting():
    X1, X2 = pair(19, n=80)
    X = holed(np.hstack([X1, X2]), 0.4, 8)
    data = Data.of(X, Squared())
    split = Convex(data, TwoView(6, (0.8, 1.3)), 3.0)
    factors = replace(split, data=data.compacted())
    a, b = (solve(p, tol=1e-7, max_iter=5000, solver=EtaSearch(tol=1e-7)) for p in (split, factors))
    assert a.objective == pytest.approx(b.objective, rel=2e-7)
    assert b.relative_gap <= 1e-7 and b.rigorous
    with pytest.raises(ValueError, match="FactoredFista needs"):
        solve(split, solver=FactoredFista())


def test_a_gap_as_large_as_the_objective_is_not_called_small_without_its_scale():
    X1, X2 = (1e20 * X for X in pair(18))
    model = TwoViewSubspace(1.0, loss="squared", scale=False).fit(X1, X2)
    assert model.gap_ > 0.5 * model.objective_  # far below what rounding allows in these units
    assert model.relative_gap_ <= 1e-4
    assert "of 1e+40, a thousandth of the objective without comp" in str(model.certificate_)
    assert "thousandth" not in str(TwoViewSubspace(1.0, loss="squared").fit(*pair(18)).certificate_)


def test_single_precision_stays_single():
    X1, X2 = (X.astype(np.float32) for X in pair(20))
    model = TwoViewSubspace(0.5, loss="squared").fit(X1, X2)
    assert {a.dtype for a in (model.codes_, model.components_, *model.denoise(X1, X2))} == {
        np.dtype(np.float32)
    }
    assert model.relative_gap_ <= 1e-4


# --- more than two views ----------------------------------------------------------------------------------------------


def test_the_relaxation_is_the_two_view_problem_where_there_are_two():
    X1, X2 = pair(21)
    X = np.hstack([X1, X2])
    two = TwoViewSubspace(1.0, (0.8, 1.2), loss="squared", n_first=6, **PLAIN).fit(X)
    many = MultiViewRelaxation(
        1.0, (6, 8), (0.8, 1.2), fit_intercept=False, tol=1e-6, max_iter=5000
    ).fit(X)
    assert many.objective_ == pytest.approx(two.objective_, rel=2e-6)
    np.testing.assert_allclose(many.view_weight_, two.view_weight_, atol=1e-2)


def test_the_relaxation_names_no_remedy_that_it_refuses():
    with pytest.warns(UserWarning, match=r"below alpha_max_: lower it\.$"):
        MultiViewRelaxation(1e6).fit(np.hstack(pair(21)))


def test_three_views_are_only_relaxed():
    root = np.linalg.cholesky(3 * np.eye(3) - 1 + 1e-12 * np.eye(3)).T  # G'G = 3I - 11'
    gauge = ManyViews((1, 1, 1), (1.0, 1.0, 1.0))
    signs = np.array([[1, a, b] for a in (-1, 1) for b in (-1, 1)])
    induced = max(np.linalg.norm(root @ c) for c in signs)
    assert induced**2 == pytest.approx(8, rel=1e-9)
    assert gauge.polar(root).value ** 2 == pytest.approx(9, rel=1e-6)
    for c in signs:  # atoms cost one under either norm
        assert gauge.value(np.outer([1.0, 0.0, 0.0], c)) == pytest.approx(1, rel=1e-6)


def test_the_relaxed_norm_is_below_every_factorization():
    random = rng(22)
    gauge = ManyViews((2, 3, 2), (0.7, 1.0, 1.3))
    Phi, C = random.normal(size=(9, 3)), random.normal(size=(3, 7))
    best = gauge.recover(Phi @ C)
    np.testing.assert_allclose(best.dense(), Phi @ C, atol=1e-10)
    assert gauge.cost(best) == pytest.approx(gauge.value(Phi @ C), rel=1e-5)
    assert gauge.value(Phi @ C) <= gauge.cost(Factors(Phi, C)) * (1 + 1e-9)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "views", "message"),
    [
        (TwoViewSubspace(loss="squared"), (np.ones((4, 3)), None), "n_first"),
        (
            TwoViewSubspace(loss="squared", n_first=3),
            (np.ones((4, 3)), None),
            "both views need some",
        ),
        (
            TwoViewSubspace(loss="squared", bounds=(1.0, -1.0)),
            (np.ones((4, 3)), np.ones((4, 2))),
            "bounds",
        ),
        (
            TwoViewSubspace(loss="squared", bounds=1.0),
            (np.ones((4, 3)), np.ones((4, 2))),
            "'bounds' parameter",
        ),
        (
            TwoViewSubspace(loss="squared", bounds=(1.0,)),
            (np.ones((4, 3)), np.ones((4, 2))),
            "pair",
        ),
        (TwoViewSubspace(loss=("squared",)), (np.ones((4, 3)), np.ones((4, 2))), "pair"),
        (TwoViewSubspace(loss="squared"), (np.ones((4, 3)), np.ones((5, 2))), "inconsistent"),
        (TwoViewSubspace(loss="squared", alpha=0.0), (np.ones((4, 3)), np.ones((4, 2))), "alpha"),
        (SingleViewSubspace(eta=1.0), (np.ones((4, 3)), np.ones((4, 2))), "eta"),
        (LocalTwoView(rank=0), (np.ones((4, 3)), np.ones((4, 2))), "rank"),
        (MultiViewRelaxation(sizes=(1, 1)), (np.ones((4, 3)), None), "columns"),
        (MultiViewRelaxation("auto"), (np.ones((4, 3)), None), "'alpha' parameter of MultiView"),
    ],
)
def test_what_cannot_be_fitted_is_refused(model, views, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*views)


def test_views_that_are_not_given_are_asked_for():
    X1, X2 = pair(23)
    model = TwoViewSubspace(2.0, loss="squared").fit(X1, X2)
    for call in (
        lambda: model.predict_view(),
        lambda: model.predict_view(X1, X2),
        lambda: model.transform(None),
    ):
        with pytest.raises(ValueError, match="X1 and X2"):
            call()
    with pytest.raises(ValueError, match="8 features"):
        model.transform(X1, X2[:, 1:])


def test_a_fit_that_is_cut_short_tells_its_gap():
    X1, X2 = pair(24)
    with pytest.warns(ConvergenceWarning, match="Relative gap"):
        TwoViewSubspace(0.1, loss="squared", max_iter=1, tol=1e-12).fit(X1, X2)


def test_generated_views_share_their_codes():
    X1, X2, clean1, clean2 = make_two_view(100, (12, 9), 4, random_state=0)
    assert np.linalg.matrix_rank(np.hstack([clean1, clean2])) == 4
    changed = np.mean(np.hstack([X1 != clean1, X2 != clean2]))
    assert 0.03 < changed < 0.07
    assert np.abs(X1).max() <= 5 * max(np.abs(clean1).max(), np.abs(clean2).max())
    assert np.array_equal(X1, make_two_view(100, (12, 9), 4, random_state=0).X1)


@pytest.mark.filterwarnings("ignore:.*has no component")
@pytest.mark.parametrize("noise", [0.0, 1e-14])
def test_constant_views_are_not_scaled_by_their_rounding(noise):
    X = 3 + noise * np.random.default_rng(0).normal(size=(20, 4))
    model = TwoViewSubspace(loss="squared", n_first=2).fit(X)
    assert model.status_.converged
    np.testing.assert_allclose(model.denoise(X), X, atol=1e-12)
