"""Forward and reverse prediction: their equivalence, regressors with and without targets, and what they refuse."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from regfactor.core.loop import Clock, Status
from regfactor.core.params import UnsupportedProblem
from regfactor.kernels import Gaussian
from regfactor.labels.reverse.alternating import (
    NoHalfSpace,
    ReverseAlternating,
    half_space,
    supervised_components,
)
from regfactor.labels.reverse.bregman_regressor import BregmanRegressor
from regfactor.labels.reverse.moments import forward_from_reverse, reverse_from_forward
from regfactor.labels.reverse.problem import Reverse
from regfactor.labels.reverse.regressor import ReverseRegressor
from regfactor.losses import potentials
from regfactor.losses.transfers import TRANSFERS
from regfactor.problems.forward import Forward
from regfactor.solvers.base import solve
from regfactor.solvers.glm_newton import POLISHING_STEPS, Newton

ELEMENTWISE = ["identity", "sigmoid", "exp", "cube", "relaxed_sigmoid"]
SIZES = {
    "identity": (30, 5),
    "cube": (20, 3),
    "exp": (5, 2),
    "sigmoid": (10, 2),
    "relaxed_sigmoid": (10, 3),
}


def published(transfer="identity", unlabeled_weight=0.1, alpha=0.1, fit_intercept=False, **more):
    """Reverse regression as published: a given ridge, and no offset unless it is asked for."""
    return ReverseRegressor(transfer, unlabeled_weight, alpha, fit_intercept=fit_intercept, **more)


@parametrize_with_checks(
    [BregmanRegressor(kernel=Gaussian(0.5)), published("mahalanobis", fit_intercept=True)]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def reverse_data(transfer, seed=0, n_labeled=20, n_free=200, noise=0.0):
    """X = f^-1(Y U + noise) with Y of the first rows given, as the papers draw it."""
    random = np.random.default_rng(seed)
    n, (d, k) = n_labeled + n_free, SIZES.get(transfer, (10, 3))
    Y, U = random.normal(size=(n, k)), random.normal(size=(k, d))
    if transfer == "exp":
        Y, U = np.exp(2 * random.normal(size=(n, k))), np.abs(U)
    if transfer == "sigmoid":
        Y, U = random.uniform(0.05, 0.95, (n, k)), random.dirichlet(np.ones(k), d).T
    if transfer == "softmax":
        Y, U = random.dirichlet(np.ones(k), n), random.dirichlet(np.ones(d), k)
    X = TRANSFERS[transfer].inverse(Y @ U)
    if transfer in ("identity", "cube"):
        X = TRANSFERS[transfer].inverse(Y @ U + noise * random.normal(size=(n, d)))
    elif noise:
        X = X + noise * random.normal(size=(n, d))
    y = Y.copy()
    y[n_labeled:] = np.nan
    return X, y, Y


def error(model, Y, y):
    return np.mean(np.square(model.imputed_ - Y)[np.isnan(y)])


# Forward and reverse prediction have the same moments


def equivalent(case, seed=0, n=40):
    """X, Y, weights and R: plain, weighted, with a ridge, or weighted with a kernel."""
    random = np.random.default_rng(seed)
    X, Y, ridge, weights = (
        random.normal(size=(n, 4)) / 2,
        random.uniform(0.1, 0.9, (n, 3)),
        0.0,
        np.ones(n),
    )
    if case in ("weighted", "kernel"):
        weights = random.uniform(0.3, 2.0, n)
    if case == "ridge":
        ridge = 0.7
    if case == "kernel":
        X = Gaussian(2.0).gram(X)
        ridge = 0.3 * X
    return X, Y, weights, ridge


def fitted_reverse(X, Y, weights, potential):
    problem = Reverse(X, Y, weights, potential)
    return supervised_components(problem, Y, problem.labeled)


def forward_fit(X, Y, weights, potential, ridge):
    """Return W recovered from U, X'L f(XW) + R W, and the forward problem of the targets."""
    R = ridge if np.ndim(ridge) else ridge * np.eye(X.shape[1])
    problem = Forward.of(X, Y, weights, potential, R)
    W = forward_from_reverse(
        fitted_reverse(X, Y, weights, potential), X, Y, potential, weights, ridge
    )
    return W, X.T @ (weights[:, None] * potential.transfer(X @ W)) + R @ W, problem


@pytest.mark.parametrize("case", ["plain", "weighted", "ridge", "kernel"])
@pytest.mark.parametrize("transfer", ELEMENTWISE)
def test_forward_and_reverse_models_have_the_moments_of_the_data(transfer, case):
    X, Y, weights, ridge = equivalent(case)
    potential = TRANSFERS[transfer]
    moments = X.T @ (weights[:, None] * Y)
    U = fitted_reverse(X, Y, weights, potential)
    np.testing.assert_allclose(
        (weights[:, None] * potential.inverse(Y @ U)).T @ Y, moments, atol=1e-10
    )
    W, found, problem = forward_fit(X, Y, weights, potential, ridge)
    np.testing.assert_allclose(found, moments, atol=1e-10)
    random = np.random.default_rng(1)
    for _ in range(5):  # and it is a minimum of the objective as it is written in the papers
        assert problem.value(W)[0] <= problem.value(W + 1e-2 * random.normal(size=W.shape))[0]


@pytest.mark.parametrize("case", ["plain", "weighted", "ridge", "kernel"])
@pytest.mark.parametrize("transfer", ELEMENTWISE)
def test_the_reverse_model_comes_back_from_the_forward_one(transfer, case):
    X, Y, weights, ridge = equivalent(case, seed=2)
    potential = TRANSFERS[transfer]
    U = fitted_reverse(X, Y, weights, potential)
    W = forward_from_reverse(U, X, Y, potential, weights, ridge)
    np.testing.assert_allclose(
        reverse_from_forward(W, X, Y, potential, weights, ridge), U, atol=1e-8
    )


@pytest.mark.parametrize("case", ["plain", "weighted", "ridge", "kernel"])
def test_shares_keep_their_sum_from_forward_to_reverse_and_back(case):
    X, Y, weights, ridge = equivalent(case, seed=3)
    Y = Y / Y.sum(axis=1, keepdims=True)
    softmax = TRANSFERS["softmax"]
    U = fitted_reverse(X, Y, weights, softmax)
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    W, found, problem = forward_fit(X, Y, weights, softmax, ridge)
    np.testing.assert_allclose(found, X.T @ (weights[:, None] * Y), atol=1e-10)
    back = reverse_from_forward(W, X, Y, softmax, weights, ridge)
    np.testing.assert_allclose((Y @ back).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(back, U, atol=1e-7)
    random = np.random.default_rng(1)
    for _ in range(5):
        assert problem.value(W)[0] <= problem.value(W + 1e-2 * random.normal(size=W.shape))[0]


def test_least_squares_models_follow_from_each_other_in_closed_form():
    random = np.random.default_rng(0)
    X, Y, a = random.normal(size=(30, 5)), random.normal(size=(30, 3)), 0.4
    K, L = Gaussian(0.5).gram(X), random.uniform(0.5, 2.0, 30)
    identity = potentials.Identity()
    U = np.linalg.solve(Y.T @ Y, Y.T @ X)
    np.testing.assert_allclose(
        forward_from_reverse(U, X, Y, identity, ridge=a),
        np.linalg.solve(X.T @ X + a * np.eye(5), U.T @ Y.T @ Y),
        atol=1e-12,
    )
    # errors weighted before they are squared: L^2, and the recovery has K^-1 (erratum 23)
    B = np.linalg.solve(Y.T @ (L[:, None] ** 2 * Y), Y.T @ (L[:, None] ** 2 * K))
    A = forward_from_reverse(B, K, Y, identity, weights=L**2, ridge=a * K)
    left = L[:, None] ** 2 * K + a * np.eye(30)
    np.testing.assert_allclose(A, np.linalg.solve(left, L[:, None] ** 2 * Y), atol=1e-8)
    np.testing.assert_allclose(
        A, np.linalg.solve(left, np.linalg.solve(K, B.T @ Y.T @ (L[:, None] ** 2 * Y))), atol=1e-8
    )


# The forward model


def forward_data(seed=0, n=60, d=6):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return X, X @ random.normal(size=(d, 3)) * 0.4 + 1, random.uniform(0.2, 2.0, n), random


@pytest.mark.parametrize("alpha", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("shape", [(60, 6), (20, 50)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_identity_is_ridge_regression(alpha, shape, fit_intercept):
    X, Y, w, random = forward_data(n=shape[0], d=shape[1])
    Y = Y + 0.3 * random.normal(size=Y.shape)
    ours = BregmanRegressor(alpha=alpha, fit_intercept=fit_intercept).fit(X, Y, w)
    ridge = Ridge(alpha=alpha, solver="svd", fit_intercept=fit_intercept)
    theirs = (ridge if alpha else LinearRegression(fit_intercept=fit_intercept)).fit(X, Y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-10)


def test_identity_with_a_kernel_is_kernel_ridge():
    X, Y, w, _ = forward_data()
    ours = BregmanRegressor(alpha=0.5, kernel="rbf", gamma=0.3, fit_intercept=False).fit(X, Y, w)
    theirs = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.3).fit(X, Y, w)
    np.testing.assert_allclose(ours.coef_.T, theirs.dual_coef_, atol=1e-10)
    np.testing.assert_allclose(ours.predict(X + 0.1), theirs.predict(X + 0.1), atol=1e-10)


def test_exp_is_poisson_regression():
    X, Y, w, random = forward_data()
    y = random.poisson(np.exp(Y[:, 0] / 2))
    theirs = PoissonRegressor(alpha=2 / w.sum(), tol=1e-12, solver="newton-cholesky").fit(X, y, w)
    np.testing.assert_allclose(
        BregmanRegressor("exp", alpha=2.0).fit(X, y, w).coef_, theirs.coef_, atol=1e-8
    )


def test_sigmoid_and_softmax_are_logistic_regression():
    X, Y, w, random = forward_data()
    labels = np.argmax(Y + random.normal(size=Y.shape), axis=1)
    for transfer, y, targets in (
        ("sigmoid", labels > 0, labels > 0),
        ("softmax", labels, np.eye(3)[labels]),
    ):
        theirs = LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky").fit(X, y, w)
        ours = BregmanRegressor(transfer, alpha=2.0).fit(X, targets, w)
        np.testing.assert_allclose(np.atleast_2d(ours.coef_), theirs.coef_, atol=1e-7)
        shares = theirs.predict_proba(X)
        np.testing.assert_allclose(
            ours.predict(X), shares[:, 1] if transfer == "sigmoid" else shares, atol=1e-7
        )


@pytest.mark.parametrize("transfer", [*ELEMENTWISE, "softmax"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_every_transfer_finds_a_stationary_point(transfer, kernel):
    X, Y, w, _ = forward_data()
    potential = TRANSFERS[transfer]
    Y = potential.transfer(Y) if transfer != "identity" else Y
    model = BregmanRegressor(transfer, alpha=0.3, kernel=kernel, gamma=0.2).fit(X, Y, w)
    residual = w[:, None] * (model.predict(X) - Y)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-8)
    # X'L(f(XW) - Y) + ridge W = 0; with a kernel K (L(f - Y) + ridge A) = 0
    left = residual if kernel else X.T @ residual
    np.testing.assert_allclose(left + 0.3 * model.coef_.T, 0, atol=1e-7)


def test_a_linear_kernel_is_no_kernel():
    X, Y, w, _ = forward_data()
    Y = np.exp(Y)
    plain, kernel = (
        BregmanRegressor("exp", kernel=kernel).fit(X, Y, w) for kernel in (None, "linear")
    )
    np.testing.assert_allclose(kernel.coef_ @ X, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(kernel.predict(X), plain.predict(X), rtol=1e-8)
    square = BregmanRegressor("exp", kernel="precomputed").fit(X @ X.T, Y, w)
    np.testing.assert_allclose(square.predict(X[:5] @ X.T), plain.predict(X[:5]), rtol=1e-8)


def test_separable_classes_need_a_ridge():
    X, _, _, random = forward_data()
    y = (X[:, 0] > 0).astype(float)
    for transfer, Y in (("sigmoid", y), ("softmax", np.eye(2)[y.astype(int)])):
        with pytest.raises(ValueError, match=r"separated.*alpha > 0"):
            BregmanRegressor(transfer, alpha=0.0).fit(X, Y)
        assert BregmanRegressor(transfer, alpha=1e-3).fit(X, Y).score(X, Y) > 0.9
    mixed = random.permutation(y)
    assert np.isfinite(BregmanRegressor("sigmoid", alpha=0.0).fit(X, mixed).coef_).all()
    with pytest.raises(ValueError, match="no finite intercept"):
        BregmanRegressor("exp").fit(X, np.zeros(len(X)))
    assert np.isfinite(
        BregmanRegressor("exp", fit_intercept=False).fit(X, np.zeros(len(X))).coef_
    ).all()


def test_far_rows_are_cut_off_with_a_warning():
    X, Y, _, _ = forward_data()
    model = BregmanRegressor("exp").fit(X, np.exp(Y[:, 0]))
    with pytest.warns(UserWarning, match="cut"):
        assert np.isfinite(model.predict(1e6 * X)).all()


# The reverse model


@pytest.mark.parametrize("transfer", ELEMENTWISE)
@pytest.mark.parametrize("seed", range(3))
def test_noise_free_targets_are_found_exactly(transfer, seed):
    X, y, Y = reverse_data(transfer, seed)
    for intercept in (False, True):
        assert error(published(transfer, fit_intercept=intercept).fit(X, y), Y, y) < 1e-20


def test_noise_free_shares_are_found_under_softmax():
    X, y, Y = reverse_data("softmax")
    model = published("softmax").fit(X + np.random.default_rng(0).normal(size=(len(X), 1)), y)
    assert error(model, Y, y) < 1e-14
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    np.testing.assert_allclose(model.imputed_.sum(axis=1), 1)


@pytest.mark.parametrize("transfer", [*ELEMENTWISE, "softmax", "mahalanobis"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_objective_never_rises(transfer, missing):
    X, y, _ = reverse_data("identity" if transfer == "mahalanobis" else transfer, noise=0.1)
    if missing and transfer != "softmax":
        gone = np.random.default_rng(0).random(y.shape) < missing
        gone[:5] = False
        y = np.where(gone, np.nan, y)
    model = published(transfer, unlabeled_weight=1.0, tol=1e-6).fit(X, y)
    objectives = np.array([record.objective for record in model.history_])
    assert len(objectives) > 2
    assert (np.diff(objectives) <= 1e-12 * np.abs(objectives[:-1])).all()
    assert model.objective_ == objectives.min()
    np.testing.assert_array_equal(model.imputed_[~np.isnan(y)], y[~np.isnan(y)])
    assert np.isfinite(model.imputed_).all()


@pytest.mark.parametrize("transfer", [*ELEMENTWISE, "mahalanobis"])
def test_a_fit_has_the_objective_that_is_documented(transfer):
    kind = "identity" if transfer == "mahalanobis" else transfer
    X, y, _ = reverse_data(kind, noise=0.05)
    mu, potential = 0.7, TRANSFERS[kind]
    model = published(transfer, unlabeled_weight=mu).fit(X, y)
    T = model.imputed_ @ model.components_ + model.offset_
    if transfer != "mahalanobis":
        D = potential.divergence(X, potential.inverse(T))
        assert model.objective_ == pytest.approx(D[:20].mean() + mu * D[20:].mean(), rel=1e-6)
        # each free row is at its minimum: U (f^-1(z U) - x)' = 0; a cube root moves by 1e-3 within 1e-9 of zero
        slopes = (potential.inverse(T) - X)[20:] @ model.components_.T
        np.testing.assert_allclose(
            slopes, 0, atol=1e-2 if kind == "cube" else 1e-6 * np.abs(X).sum(axis=1).max()
        )


@pytest.mark.parametrize("transfer", ["identity", "exp"])
def test_unit_weights_are_a_weight_of_unlabeled_over_labeled(transfer):
    X, y, _ = reverse_data(transfer, n_free=30, noise=0.1)
    model = published(transfer, unlabeled_weight=30 / 20, tol=1e-3).fit(X, y)
    potential = TRANSFERS[transfer]
    D = potential.divergence(X, potential.inverse(model.imputed_ @ model.components_))
    assert 20 * model.objective_ == pytest.approx(D.sum())
    step = fitted_reverse(
        X, model.imputed_, np.ones(50), potential
    )  # the next step in U, each row counted once
    assert (
        0
        <= D.sum() - potential.divergence(X, potential.inverse(model.imputed_ @ step)).sum()
        < 2e-3 * D.sum()
    )


def test_without_weight_unlabeled_rows_are_predicted_from_the_supervised_model():
    X, y, _ = reverse_data("cube", noise=0.1)
    model = published("cube", unlabeled_weight=0.0).fit(X, y)
    alone = published("cube").fit(X[:20], y[:20])
    np.testing.assert_allclose(model.components_, alone.components_, rtol=1e-7)
    supervised = BregmanRegressor("cube", fit_intercept=False).fit(X[:20], y[:20])
    np.testing.assert_allclose(model.coef_, supervised.coef_, rtol=1e-6)
    np.testing.assert_allclose(alone.predict(X), supervised.predict(X), rtol=1e-6)


@pytest.mark.parametrize(("transfer", "noise"), [("identity", 1.0), ("cube", 0.5)])
def test_unlabeled_rows_help_where_labels_are_few(transfer, noise):
    def mean_error(mu):
        sets = [reverse_data(transfer, seed, n_labeled=8, noise=noise) for seed in range(8)]
        return np.mean([error(published(transfer, mu).fit(X, y), Y, y) for X, y, Y in sets])

    assert mean_error(0.1) < 0.9 * mean_error(0.0)


def test_a_covariance_of_residuals_helps_where_noise_is_correlated():
    errors = {"identity": [], "mahalanobis": []}
    for seed in range(5):
        random = np.random.default_rng(seed)
        Y = random.normal(size=(300, 2))
        X = Y @ random.normal(size=(2, 8)) + random.normal(size=(300, 8)) @ random.normal(
            size=(8, 8)
        )
        y = np.where(np.arange(300)[:, None] < 20, Y, np.nan)
        for transfer, found in errors.items():
            found.append(error(published(transfer).fit(X, y), Y, y))
    assert np.median(errors["mahalanobis"]) < np.median(errors["identity"]) / 2


def test_single_missing_targets_are_free():
    X, y, Y = reverse_data("identity", n_free=0, noise=1e-3)
    gone = np.random.default_rng(0).random(y.shape) < 0.2
    gone[:6] = False
    model = published(tol=1e-10).fit(X, np.where(gone, np.nan, y))
    np.testing.assert_allclose(model.imputed_[gone], Y[gone], atol=1e-2)
    np.testing.assert_array_equal(model.imputed_[~gone], y[~gone])
    # each is where its own row is rebuilt best, the others held
    residual = X - model.imputed_ @ model.components_
    np.testing.assert_allclose((residual @ model.components_.T)[gone], 0, atol=1e-10)


def test_a_fit_is_repeated_exactly_and_by_its_own_result():
    X, y, _ = reverse_data("cube", noise=0.1, n_free=30)
    model = published("cube", unlabeled_weight=1.5, tol=1e-7).fit(X, y)
    first = model.imputed_.copy()
    np.testing.assert_array_equal(model.fit(X, y).imputed_, first)
    again = published("cube").fit(X, first)  # all rows labeled, each counted once as before
    np.testing.assert_allclose(again.components_, model.components_, atol=1e-3)


@pytest.mark.parametrize("transfer", ["identity", "cube", "exp"])
def test_a_weight_stands_for_equal_rows(transfer):
    X, y, _ = reverse_data(transfer, n_labeled=10, n_free=15, noise=0.1)
    weights = np.arange(25) % 3
    model = published(transfer, tol=1e-6)
    weighted = clone(model).fit(X, y, weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5)
    np.testing.assert_allclose(
        np.repeat(weighted.imputed_, weights, axis=0), repeated.imputed_, rtol=1e-5
    )


def test_a_kernel_is_rebuilt_row_by_row():
    X, y, _ = reverse_data("cube", noise=0.1, n_free=40)
    K = Gaussian(0.05).gram(X)
    model = published("cube", kernel="rbf", gamma=0.05).fit(X, y)
    square = published("cube", kernel="precomputed").fit(K, y)
    table = published("cube").fit(K, y)
    assert model.components_.shape == (3, 60)
    np.testing.assert_allclose(model.imputed_, table.imputed_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X[:7]), square.predict(K[:7]), rtol=1e-6)


# What is refused, and what is never returned


def test_targets_outside_the_range_are_named():
    X, y, _ = reverse_data("exp")
    for value in (0.0, -1.0):
        bad = y.copy()
        bad[3, 1] = value
        for intercept in (False, True):
            with pytest.raises(ValueError, match="'weight' holds"):
                published("exp", fit_intercept=intercept).fit(
                    X, pd.DataFrame(bad, columns=["height", "weight"])
                )
    with pytest.raises(ValueError, match=r"column 1 holds -1.*identity"):
        BregmanRegressor("exp").fit(X[:20], bad[:20])
    with pytest.raises(ValueError, match="column 0 holds 2"):
        published("sigmoid").fit(X[:3], [0.5, 2.0, np.nan])
    with pytest.raises(ValueError, match="sum to one"):
        published("softmax").fit(X[:2], [[0.5, 0.2], [0.5, 0.5]])


def test_positive_targets_outside_a_half_space_need_an_intercept():
    X, y, _ = reverse_data("exp")
    with pytest.raises(NoHalfSpace):
        half_space(np.random.default_rng(0).normal(size=(20, 2)))
    assert (half_space(y[:20]) @ y[:20].T > 0).all()
    # the range of sigmoid takes zeros, which no half space holds
    z = np.where(np.arange(20) < 10, 0.0, 0.7)
    with pytest.raises(ValueError, match=r"half space.*fit_intercept=True"):
        published("sigmoid").fit(X[:20], z)
    assert np.isfinite(published("sigmoid", fit_intercept=True).fit(X[:20], z).coef_).all()


def test_labels_and_numbers_are_checked():
    X, y, _ = reverse_data("identity")
    with pytest.raises(ValueError, match="target column 2"):
        published().fit(X, np.where(np.arange(5) == 2, np.nan, y))
    with pytest.raises(ValueError, match="NaN"):
        BregmanRegressor().fit(X, y)
    for wrong in (
        {"alpha": -1.0},
        {"unlabeled_weight": -0.1},
        {"transfer": "expo"},
        {"max_iter": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            published(**wrong).fit(X, y)
    with pytest.raises(ValueError, match="ReverseRegressor"):
        BregmanRegressor("mahalanobis").fit(X[:20], y[:20])


def test_the_end_of_a_run_is_told():
    X, y, _ = reverse_data("identity", noise=1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        published(unlabeled_weight=3.0, max_iter=2, tol=0.0).fit(X, y)
    seen = []
    model = published(unlabeled_weight=3.0, callback=lambda it: seen.append(it.objective)).fit(X, y)
    assert len(seen) == model.n_iter_ == len(model.history_)


def test_problems_are_solved_by_the_solvers_they_name():
    X, y, _ = reverse_data("cube", noise=0.1, n_free=30)
    problem = Reverse(X, y, np.full(50, 1 / 50), TRANSFERS["cube"])
    found = solve(problem, tol=1e-6)
    assert found.objective == problem.objective(found.point)
    again = solve(problem, tol=1e-6, start=found.point)
    assert again.n_iter <= 2 and again.objective <= found.objective
    model = published("cube", unlabeled_weight=30 / 20, tol=1e-6).fit(X, y)
    assert model.solver_ == found.solver == ReverseAlternating.__name__
    assert model.objective_ == pytest.approx(found.objective * 50 / 20)
    forward = Forward.of(X[:20], y[:20], np.ones(20), TRANSFERS["cube"], 0.1 * np.eye(20))
    assert BregmanRegressor().fit(X[:20], y[:20]).solver_ == solve(forward).solver == "Newton"
    for solver, other in ((Newton(), problem), (ReverseAlternating(), forward)):
        with pytest.raises(UnsupportedProblem, match=type(other).__name__):
            solve(other, solver=solver)
    free_shares = Reverse(X, y, np.ones(50), TRANSFERS["softmax"])
    with pytest.raises(ValueError, match="use an intercept"):
        solve(free_shares)


def test_the_time_limit_bounds_the_forward_model_too(monkeypatch):
    X, y, _ = reverse_data("exp", noise=0.1)
    counts = []
    original = Forward.hessians

    def counted(problem, W):
        counts.append(1)
        return original(problem, W)

    monkeypatch.setattr(Forward, "hessians", counted)
    published("exp", unlabeled_weight=1.0).fit(X, y)
    without = len(counts)
    counts.clear()
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = published("exp", unlabeled_weight=1.0, time_limit=0.0).fit(X, y)
    assert model.status_ is Status.TIME_LIMIT and model.n_iter_ == 1
    assert len(counts) <= 1 + POLISHING_STEPS < without
    monkeypatch.setattr(Clock, "left", property(lambda clock: 0.0))  # no time after the alternation
    with pytest.warns(ConvergenceWarning, match="time limit"):
        assert published("exp").fit(X, y).status_ is Status.TIME_LIMIT


def test_parameters_are_checked_once(monkeypatch):
    X, y, _ = reverse_data("identity")
    checked = []
    for name in ("regfactor.fitting.base.check_parameters", "regfactor.core.loop.Limits.check"):
        monkeypatch.setattr(name, checked.append)
    BregmanRegressor().fit(X[:20], y[:20])
    published().fit(X, y)
    assert [type(model) for model in checked] == [BregmanRegressor, ReverseRegressor]


@pytest.mark.parametrize("model", [BregmanRegressor(), published()])
def test_targets_that_are_no_real_numbers_are_refused(model):
    X = np.arange(6.0).reshape(3, 2)
    dates = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-05"])
    for y in (dates, pd.Series(dates), dates.to_numpy(), (dates - dates[0]).to_numpy()):
        with pytest.raises(ValueError, match=r"dates or durations .* days since"):
            model.fit(X, y)
    for y in ([1 + 2j, 2.0, 3.0], np.ones((3, 2), complex)):
        with pytest.raises(ValueError, match="Complex data not supported: y holds"):
            model.fit(X, y)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    transfer=st.sampled_from([*ELEMENTWISE, "mahalanobis"]),
    intercept=st.booleans(),
    k=st.integers(1, 3),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_nothing_is_ever_nan(seed, transfer, intercept, k, scale):
    random = np.random.default_rng(seed)
    n, d = random.integers(2, 25), random.integers(1, 6)
    X, Y = scale * random.normal(size=(n, d)), random.normal(size=(n, k))
    Y = {"exp": np.exp(Y), "sigmoid": np.clip(Y, 0, 1)}.get(transfer, Y)
    y = np.where(random.random((n, k)) < 0.5, np.nan, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = published(transfer, fit_intercept=intercept, max_iter=30).fit(X, y)
        except ValueError as refused:
            assert any(
                word in str(refused)
                for word in ("half space", "target column", "no finite intercept")
            )
            return
        T = model.imputed_ @ model.components_ + model.offset_
        numbers = [
            model.imputed_,
            model.components_,
            model.coef_,
            model.predict(X),
            [model.objective_],
        ]
    assert all(np.isfinite(a).all() for a in numbers)
    counted = T if transfer in ("exp", "sigmoid") else np.ones(1)
    assert (counted > 0).all() and (transfer != "sigmoid" or (counted < 1).all())


# As scikit-learn has it


def test_shapes_and_kinds_of_tables_are_kept():
    X, y, _ = reverse_data("identity", noise=0.1)
    one = y[:, 0]
    for made in (BregmanRegressor(), published()):
        rows = slice(0, 20) if isinstance(made, BregmanRegressor) else slice(None)
        assert clone(made).fit(X[rows], one[rows]).predict(X).shape == (220,)
        assert clone(made).fit(X[rows], one[rows, None]).predict(X).shape == (220, 1)
        frame = clone(made).fit(pd.DataFrame(X[rows]), pd.DataFrame(y[rows]))
        other = clone(made).fit(pl.DataFrame(X[rows]).to_numpy(), pl.DataFrame(y[rows]))
        stored = clone(made).fit(scipy.sparse.csr_array(X[rows]), y[rows])
        np.testing.assert_allclose(frame.predict(pd.DataFrame(X)), other.predict(X))
        np.testing.assert_allclose(stored.predict(X), other.predict(X))
        small = clone(made).fit(X[rows].astype(np.float32), y[rows].astype(np.float32))
        assert small.coef_.dtype == small.predict(X.astype(np.float32)).dtype == np.float32
    model = published().fit(X, one)
    assert model.transduction_.shape == one.shape and model.imputed_.shape == (220, 1)


def test_transfers_can_be_searched():
    X, Y, _, _ = forward_data()
    y = Y[:, 0] ** 3
    search = GridSearchCV(
        BregmanRegressor(), {"transfer": ["identity", "cube"], "alpha": [0.01, 1.0]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"transfer": "cube", "alpha": 0.01}
    assert BregmanRegressor(potentials.RelaxedSigmoid(0.5)).fit(X, Y).score(X, Y) > 0.8


# --- the defaults -----------------------------------------------------------------------------------------------------


def shifted_line(seed=0, n=120, d=6, labels=15, noise=1.0):
    """Inputs about a line in the direction of targets of mean 50, and their first targets."""
    random = np.random.default_rng(seed)
    y = 50 + 3 * random.normal(size=n)
    X = np.outer(y - 50, random.normal(size=d)) / 3 + noise * random.normal(size=(n, d)) + 7
    return X, y, np.where(np.arange(n) < labels, y, np.nan)


def test_targets_far_from_zero_are_predicted_by_default():
    X, y, seen = shifted_line()
    model = ReverseRegressor().fit(X, seen)
    hidden = np.isnan(seen)
    assert np.mean((model.transduction_ - y)[hidden] ** 2) < 0.5 * y.var()
    assert np.mean((published().fit(X, seen).predict(X) - y)[hidden] ** 2) > y.var()


@pytest.mark.parametrize("transfer", ["identity", "mahalanobis"])
def test_the_default_forward_model_is_a_ridge_on_what_inputs_say_of_targets(transfer):
    """transduction_ = regression of the given targets on z(x), not z(x) itself."""
    X, y, seen = shifted_line(1)
    model = ReverseRegressor(transfer, tol=1e-10).fit(X, seen)
    S = np.eye(X.shape[1])
    if transfer == "mahalanobis":
        centered = X - model.imputed_ @ model.components_ - model.offset_
        labeled = np.where(np.isnan(seen), 0.1 / np.isnan(seen).sum(), 1 / (~np.isnan(seen)).sum())
        scatter = (centered * (labeled / labeled.sum())[:, None]).T @ centered
        # d + 1 rows of the covariance of all inputs, shrunk by half, and a thousandth
        rows = (X.shape[1] + 1) * np.square(labeled).sum() / labeled.sum() ** 2
        inputs = np.cov(X.T, bias=True)
        S = scatter + 0.5 * rows * inputs
        S += (0.5 * rows + 1e-3) * np.trace(inputs) / X.shape[1] * np.eye(X.shape[1])
    u = model.components_[0]
    weights = np.linalg.solve(S, u)
    z = (X - model.offset_) @ weights / (u @ weights)
    given = ~np.isnan(seen)
    slope, intercept = np.polyfit(z, model.predict(X), 1)
    np.testing.assert_allclose(slope * z + intercept, model.predict(X), rtol=1e-4)
    least = np.polyfit(z[given], seen[given], 1)[0]
    assert 0.5 * least < slope < least  # shrunk
    np.testing.assert_allclose(model.transduction_[~given], model.predict(X)[~given])
    np.testing.assert_array_equal(model.transduction_[given], seen[given])
    if transfer == "identity":
        np.testing.assert_allclose(model.imputed_[~given, 0], z[~given], rtol=1e-6)


@pytest.mark.parametrize("transfer", ["identity", "cube", "sigmoid"])
def test_the_default_strength_does_not_depend_on_units(transfer):
    X, y, seen = shifted_line(2)
    seen = (seen - 50) / 20
    if transfer == "sigmoid":
        seen = expit(seen)
    X = (X - 7) / 3
    one = ReverseRegressor(transfer).fit(X, seen)
    if transfer == "identity":
        other = ReverseRegressor(transfer).fit(1e3 * X + 5, 100 * seen - 3)
        np.testing.assert_allclose(
            other.transduction_, 100 * one.transduction_ - 3, rtol=1e-5, atol=1e-5
        )
    assert one.alpha_ > 0
    assert np.isfinite(one.transduction_).all()


def test_a_default_forward_model_takes_kernels_several_targets_and_weights():
    X, y, seen = shifted_line(3)
    Y = np.column_stack([seen, np.where(np.isnan(seen), np.nan, X[:, 0])])
    Y[0, 1] = np.nan
    model = ReverseRegressor(kernel="rbf").fit(X, Y)
    assert model.predict(X).shape == model.transduction_.shape == Y.shape
    times = np.random.default_rng(4).integers(1, 3, len(y))
    weighted = ReverseRegressor(tol=1e-9).fit(X, seen, times)
    repeated = ReverseRegressor(tol=1e-9).fit(np.repeat(X, times, axis=0), np.repeat(seen, times))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)


def test_a_covariance_of_many_columns_is_not_told_by_few_targets():
    """A prior from all inputs keeps z(x) from lying along chance directions of the labeled rows."""
    X, y = load_diabetes(return_X_y=True)
    X = X / X.std(axis=0)
    errors = []
    for seed in range(6):
        labeled = np.random.default_rng(seed).permutation(len(y))[:17]
        seen = np.full(len(y), np.nan)
        seen[labeled] = y[labeled]
        model = ReverseRegressor("mahalanobis").fit(X, seen)
        errors.append(np.mean((model.transduction_ - y) ** 2) / y.var())
    assert max(errors) < 1.1


# -------------------------------------------------------------- counts


def counts(n=120, d=6, seed=0):
    """Poisson inputs with means exp(y U + 1)."""
    random = np.random.default_rng(seed)
    y = random.normal(size=n)
    X = random.poisson(np.exp(np.outer(y, random.normal(size=d)) + 1)).astype(float)
    return X, y


def test_under_kl_components_of_known_targets_are_poisson_regressions():
    X, y = counts()
    model = ReverseRegressor("kl").fit(X, y)
    for column in range(X.shape[1]):
        expected = PoissonRegressor(alpha=0, tol=1e-10).fit(y[:, None], X[:, column])
        np.testing.assert_allclose(model.components_[0, column], expected.coef_[0], atol=1e-4)
        np.testing.assert_allclose(model.offset_[column], expected.intercept_, atol=1e-4)


def test_under_kl_predictions_are_a_ridge_on_targets_that_reconstruct_a_row_best():
    X, y = counts(n=300)
    seen = np.where(np.arange(300) < 40, y, np.nan)
    model = ReverseRegressor("kl").fit(X, seen)
    u = model.components_[0]
    z = []
    for x in X[:20]:

        def loss(value, x=x):
            means = np.exp(value * u + model.offset_)
            return np.sum(means - x * np.log(means))

        z.append(minimize_scalar(loss).x)
    predicted = model.predict(X[:20])
    slope, intercept = np.polyfit(z, predicted, 1)
    np.testing.assert_allclose(slope * np.array(z) + intercept, predicted, atol=1e-3)
    errors = [
        np.mean((ReverseRegressor(transfer).fit(X, seen).transduction_ - y)[40:] ** 2)
        for transfer in ("kl", "identity")
    ]
    assert errors[0] < errors[1]


def test_under_kl_rows_of_zeros_have_finite_targets():
    X, y = counts()
    X[[0, 60]] = 0.0
    X[:, 5] = 0.0
    seen = np.where(np.arange(len(y)) < 20, y, np.nan)
    model = ReverseRegressor("kl").fit(X, seen)
    assert np.isfinite(model.transduction_).all()
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match="outside"):
        model.predict(X - 1)
    with pytest.raises(ValueError, match="leave alpha"):
        ReverseRegressor("kl", alpha=1.0).fit(X, seen)
