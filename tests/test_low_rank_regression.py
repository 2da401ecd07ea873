"""Trace-norm regression, under any loss and with missing targets, against other solvers."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from regfactor import FactorModel, ReducedRankRegression
from regfactor.maps import LeftProduct
from regfactor.penalties import Trace

LOSSES = ("squared", "huber", "logistic", "poisson", "gamma_log")
EXACT = {"tol": 1e-9, "max_iter": 50_000}


def sample(loss="squared", n=25, p=4, m=3, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 1.0
    Z = X @ np.outer(rng.normal(size=p), rng.normal(size=m)) / 2
    Y = Z + 0.3 * rng.normal(size=Z.shape)
    if loss == "logistic":
        Y = (Y > 0).astype(float)
    if loss == "poisson":
        Y = rng.poisson(np.exp(Z)).astype(float)
    if loss == "gamma_log":
        Y = np.exp(Z) * rng.gamma(3.0, 1 / 3.0, size=Z.shape)
    Y[rng.random(Y.shape) < missing] = np.nan
    return X, Y


def by_cvxpy(cp, loss, X, Y, alpha, fit_intercept):
    seen = ~np.isnan(Y)
    B = cp.Variable((X.shape[1], Y.shape[1]))
    P = X @ B
    b = cp.Variable((1, Y.shape[1]))
    if fit_intercept:
        P = P + np.ones((len(X), 1)) @ b
    rows, columns = np.nonzero(seen)
    z = P[rows, columns]
    y = Y[rows, columns]
    costs = {
        "squared": cp.square(z - y) / 2,
        "huber": cp.huber(z - y, 1.0) / 2,
        "logistic": cp.logistic(z) - cp.multiply(y, z),
        "poisson": cp.exp(z) - cp.multiply(y, z),
        "gamma_log": cp.multiply(y, cp.exp(-z)) + z,
    }
    objective = cp.sum(costs[loss]) + alpha * cp.normNuc(B)
    value = cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")
    return value, B.value


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_agrees_with_cvxpy(loss, fit_intercept):
    cp = pytest.importorskip("cvxpy")
    X, Y = sample(loss)
    model = ReducedRankRegression(None, 2.0, loss=loss, fit_intercept=fit_intercept, **EXACT).fit(
        X, Y
    )
    value, B = by_cvxpy(cp, loss, X, Y, 2.0, fit_intercept)
    assert model.relative_gap_ <= 1e-9
    assert model.gap_ >= -1e-9 * abs(value)
    assert model.objective_ == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(model.coef_.T, B, atol=2e-3)


def test_the_certificate_is_that_of_a_factor_model():
    X, Y = sample(missing=0.0)
    ours = ReducedRankRegression(None, 1.0, fit_intercept=False, **EXACT).fit(X, Y)
    other = FactorModel(gauge=Trace(), alpha=1.0, map=LeftProduct(X), **EXACT).fit(Y)
    assert ours.objective_ == pytest.approx(other.objective_, rel=1e-8)
    assert ours.rank_ == len(other.components_)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_weights_act_as_repetition_counts(loss):
    X, Y = sample(loss)
    counts = np.arange(25) % 3
    model = ReducedRankRegression(None, 1.5, loss=loss, **EXACT)
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


def test_predictions_are_means_and_codes_predict():
    X, Y = sample("poisson", n=60)
    model = ReducedRankRegression(None, 1.0, loss="poisson").fit(X, Y)
    predictors = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.predict(X), np.exp(predictors))
    codes = model.transform(X)
    mean = model._mean @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(codes @ model.components_ + mean, predictors, atol=1e-9)
    np.testing.assert_allclose(
        model.components_ @ model.components_.T, np.eye(model.rank_), atol=1e-9
    )
    sparse = clone(model).fit(scipy.sparse.csr_array(X), Y)
    np.testing.assert_allclose(sparse.coef_, model.coef_, atol=1e-9)


def test_the_strength_is_chosen_and_free_of_units():
    X, Y = sample(n=80, p=8, m=6, missing=0.1)
    model = ReducedRankRegression(None, random_state=0).fit(X, Y)
    assert model.alpha_ in model.alphas_
    assert len(model.alphas_) == len(model.validation_loss_)
    assert model.alpha_ < model.alpha_max_
    other = ReducedRankRegression(None, random_state=0).fit(1e3 * X, 1e-2 * Y)
    np.testing.assert_allclose(
        other.predict(1e3 * X), 1e-2 * model.predict(X), rtol=1e-3, atol=1e-5
    )
    seen = ~np.isnan(Y)
    error = np.square(model.predict(X) - Y)[seen].mean()
    assert error < 0.5 * np.nanvar(Y, axis=0).mean()


def test_one_target_and_many_entries():
    X, Y = sample(n=2500, p=6, m=5)
    model = ReducedRankRegression(None, 5.0).fit(X, Y)
    assert model.relative_gap_ <= 1e-4
    one = ReducedRankRegression(None, 5.0).fit(X, Y[:, 0])
    assert one.predict(X).shape == (2500,)
    assert np.isscalar(one.intercept_)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (ReducedRankRegression(2, loss="logistic"), None, "rank=None"),
        (ReducedRankRegression(None, 1.0), "inf", "y contains infinity"),
        (ReducedRankRegression(None, 1.0), "empty", "Column 1 of y has no target"),
        (ReducedRankRegression(None, 1.0), "short", "for each of the 25 rows"),
        (ReducedRankRegression(None, 0.0), None, "alpha must be a positive"),
        (ReducedRankRegression(None, loss="logistic"), None, "Logistic"),
    ],
)
def test_bad_input_is_refused(model, change, message):
    X, Y = sample(missing=0.0)
    if change == "inf":
        Y[0, 0] = np.inf
    if change == "empty":
        Y[:, 1] = np.nan
    if change == "short":
        Y = Y[:7]
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
