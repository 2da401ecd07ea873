"""One view predicted from another: leave-one-out against refits, stacking, missing entries."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from regfactor import ReducedRankRegression, TwoViewSubspace
from regfactor.views.smoothers import (
    Directions,
    Shrinkage,
    SmoothedTable,
    Smoother,
    best_shrinkage,
    smoother,
    stacking_weights,
)
from regfactor.views.stacked_ridge import stacked_ridge


def rng(seed):
    return np.random.default_rng(seed)


def pair(seed=0, n=120, d=(6, 4), noise=0.3):
    """Two views of three shared codes."""
    random = rng(seed)
    codes = random.normal(size=(n, 3))
    first, second = (
        codes @ random.normal(size=(3, k)) + noise * random.normal(size=(n, k)) for k in d
    )
    return first, second


def centered_targets(Y, root):
    weights = np.square(root)
    return SmoothedTable(
        root[:, None] * (Y - weights @ Y / weights.sum()), root, 1.0, centered=True
    )


@pytest.mark.parametrize(("n", "d"), [(20, 4), (10, 30)])
def test_leave_one_out_is_that_of_refits(n, d):
    random = rng(n)
    X = random.normal(size=(n, d))
    Y = random.normal(size=(n, 2)) + X[:, :2]
    weights = random.uniform(0.5, 2.0, n)
    strength = 0.7
    root = np.sqrt(weights)
    targets = centered_targets(Y, root)
    mean = weights @ X / weights.sum()
    found = smoother(
        "ridge", Directions.of(root[:, None] * (X - mean), targets), 1.0, targets, strength
    )
    for i in range(n):
        others = np.arange(n) != i
        refit = Ridge(strength).fit(X[others], Y[others], sample_weight=weights[others])
        expected = root[i] * (Y[i] - refit.predict(X[i : i + 1])[0])
        np.testing.assert_allclose(found.residuals[i], expected, rtol=1e-8)
    whole = Ridge(strength).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(found.coefficients, whole.coef_.T, atol=1e-8)


def test_stacking_weights_are_the_best_of_the_simplex():
    random = rng(3)
    targets = SmoothedTable(np.zeros((40, 2)), np.ones(40), 1.0, centered=True)
    common = random.normal(size=(40, 2))
    nothing = Directions.of(np.zeros((40, 1)), targets)
    smoothers = []
    for size in (0.3, 0.5, 0.4, 3.0):
        residuals = common + size * random.normal(size=(40, 2))
        smoothers.append(Smoother("", nothing, 0.0, np.zeros(0), residuals))
    weights = stacking_weights(smoothers, targets)
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)

    def error(w):
        return float(
            np.square(sum(a * s.residuals for a, s in zip(w, smoothers, strict=True))).sum()
        )

    best = minimize(
        error,
        np.full(4, 0.25),
        method="SLSQP",
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    )
    assert error(weights) == pytest.approx(best.fun, rel=1e-6)


def test_shrinkage_is_kept_only_where_it_predicts_better():
    random = rng(5)
    n, q = 200, 12
    X = random.normal(size=(n, 20))
    weak = X @ np.outer(random.normal(size=20), random.normal(size=q)) * 0.3
    Y = weak + random.normal(size=(n, q))
    targets = centered_targets(Y, np.ones(n))
    found = smoother("ridge", Directions.of(X - X.mean(axis=0), targets), 1.0, targets, 1e-3)
    assert best_shrinkage(found.residuals, targets) > 0
    strong = centered_targets(X[:, :q] + 0.01 * random.normal(size=(n, q)), np.ones(n))
    found = smoother("ridge", Directions.of(X - X.mean(axis=0), strong), 1.0, strong, 1e-3)
    assert best_shrinkage(found.residuals, strong) == 0
    fit = random.normal(size=(9, 3)) * [4.0, 2.0, 0.1]
    s = np.linalg.svd(fit, compute_uv=False)
    shrunk = np.linalg.svd(Shrinkage.of(fit, 0.25)(fit), compute_uv=False)
    np.testing.assert_allclose(shrunk, s * np.maximum(1 - (0.25 * s[0] / s) ** 2, 0), atol=1e-12)


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (1, 4), (4, 1)])
def test_shrinkages_by_several_tau_are_those_of_a_full_decomposition(shape):
    fit = rng(7).normal(size=shape) * np.geomspace(1, 1e-3, shape[1])
    new = rng(8).normal(size=(5, shape[1]))
    _, s, Vt = np.linalg.svd(fit, full_matrices=False)
    taus = (0.0, 0.02, 0.4)
    for tau, shrinkage in zip(taus, Shrinkage.of_each(fit, taus), strict=True):
        expected = new
        if tau > 0:
            factors = np.maximum(1 - (tau * s[0] / s) ** 2, 0)
            expected = new @ (Vt.T * factors) @ Vt
        np.testing.assert_allclose(shrinkage(new), expected, atol=1e-10)
    nothing = Shrinkage.of(np.zeros(shape), 0.4)
    np.testing.assert_array_equal(nothing(new), np.zeros_like(new))


def test_a_function_that_is_not_linear_is_learned_by_kernels():
    random = rng(7)
    X = random.normal(size=(300, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * random.normal(size=(300, 2))
    model = TwoViewSubspace().fit(X[:200], Y[:200])
    linear = TwoViewSubspace(regression="linear").fit(X[:200], Y[:200])
    spread = Y[200:].var(axis=0).sum()
    errors = [np.mean((m.predict_view(X1=X[200:]) - Y[200:]) ** 2) * 2 for m in (model, linear)]
    assert errors[0] < 0.25 * spread < 0.7 * spread < errors[1]


def test_the_linear_regression_is_that_of_reduced_rank_regression():
    X, Y = pair(8)
    X = X * [1, 10, 100, 1e-3, 1, 1]
    one = ReducedRankRegression().fit(X, Y)
    two = TwoViewSubspace(regression="linear").fit(X, Y)
    np.testing.assert_allclose(one.predict(X), two.predict_view(X1=X), rtol=1e-8)
    assert one.rank_ == len(one.components_) <= 4
    codes = one.transform(X)
    np.testing.assert_allclose(codes @ one.components_ + Y.mean(axis=0), one.predict(X), rtol=1e-8)
    units = ReducedRankRegression().fit(1e3 * X, 1e-6 * Y)
    np.testing.assert_allclose(units.predict(1e3 * X), 1e-6 * one.predict(X), rtol=1e-6)


@pytest.mark.parametrize("options", [{"rank": 2}, {"alpha": 3.0}, {"fit_intercept": False}])
def test_one_of_rank_and_strength_may_be_chosen(options):
    X, Y = pair(9)
    model = ReducedRankRegression(**options).fit(X, Y)
    assert model.rank_ <= options.get("rank", 4)
    assert np.linalg.matrix_rank(model.coef_) == model.rank_
    error = np.square(model.predict(X) - Y).sum()
    assert error < 0.3 * np.square(Y - Y.mean(axis=0)).sum()
    if options.get("alpha"):
        ridge = Ridge(3.0).fit(X, Y)
        assert np.square(model.predict(X) - ridge.predict(X)).mean() < 0.01
    assert model.loo_error_ > np.square(model.predict(X) - Y).mean()


@pytest.mark.parametrize("regression", ["auto", "linear", "codes"])
@pytest.mark.parametrize("target", [0, 1])
def test_views_are_predicted_in_both_directions_with_missing_entries(regression, target):
    views = [view.copy() for view in pair(10, n=250)]
    truth = views[target][200:].copy()
    training = [view[:200].copy() for view in views]
    random = rng(11)
    for view in training:
        view[random.random(view.shape) < 0.1] = np.nan
    training[0][:15] = np.nan  # several blocks of missing views
    training[1][30:50] = np.nan
    training[1][120:130] = np.nan
    new = views[1 - target][200:].copy()
    new[random.random(new.shape) < 0.1] = np.nan
    model = TwoViewSubspace(regression=regression, random_state=0).fit(*training)
    given = {"X2" if target == 0 else "X1": new}
    found = model.predict_view(**given)
    assert found.shape == truth.shape and np.isfinite(found).all()
    assert np.mean((found - truth) ** 2) < 0.25 * truth.var()
    lower, upper = model.predict_view(**given, level=0.8)
    np.testing.assert_allclose((lower + upper) / 2, found)
    covered = np.mean((lower <= truth) & (truth <= upper))
    assert 0.7 < covered < 0.93


def test_intervals_cover_their_level():
    X, Y = pair(12, n=700)
    model = TwoViewSubspace().fit(X[:300], Y[:300])
    for level in (0.5, 0.9):
        limits = model.predict_view(X1=X[300:], level=level)
        covered = np.mean((limits.lower <= Y[300:]) & (Y[300:] <= limits.upper))
        assert covered == pytest.approx(level, abs=0.05)
    nothing = model.predict_view(X1=np.full((1, 6), np.nan), level=0.9)
    known = model.predict_view(X1=X[300:301], level=0.9)
    assert np.all(nothing.upper - nothing.lower > known.upper - known.lower)


def test_a_missing_entry_of_a_new_row_is_read_off_the_others():
    X, Y = pair(13, n=300, noise=0.1)
    model = TwoViewSubspace().fit(X[:200], Y[:200])
    holed = X[200:].copy()
    holed[:, 2] = np.nan
    close = np.mean((model.predict_view(X1=holed) - Y[200:]) ** 2)
    assert close < 0.1 * Y[200:].var()
    empty = model.predict_view(X1=np.full((2, 6), np.nan))
    np.testing.assert_allclose(empty, np.broadcast_to(Y[:200].mean(axis=0), (2, 4)), atol=0.3)


def test_weights_of_rows_count_in_the_regression():
    X, Y = pair(14)
    weights = np.where(np.arange(len(X)) < 60, 1.0, 0.0)
    Z = Y.copy()
    Z[60:] = 100.0  # rows of weight zero
    weighted = stacked_ridge(X, Z, weights)
    np.testing.assert_allclose(weighted.predict(X), stacked_ridge(X[:60], Y[:60]).predict(X))


def test_views_without_a_common_row_are_an_error_of_the_prediction_alone():
    X, Y = pair(15)
    X, Y = X.copy(), Y.copy()
    X[:60] = np.nan
    Y[60:] = np.nan
    model = TwoViewSubspace().fit(X, Y)
    with pytest.raises(ValueError, match="No row has entries of both views"):
        model.predict_view(X1=X[60:])
    with pytest.raises(ValueError, match="Fewer than two rows"):
        TwoViewSubspace(regression="codes").fit(X, Y).predict_view(X1=X[60:])
    first, second = model.complete(X, Y)
    assert np.isfinite(first).all() and np.isfinite(second).all()


def test_views_of_one_column_constant_columns_and_few_rows():
    random = rng(16)
    x = random.normal(size=(14, 1))
    X = np.hstack([2 * x + 0.1 * random.normal(size=(14, 1)), np.full((14, 1), 3.0)])
    Y = np.hstack([x, np.full((14, 1), -7.0)])
    model = TwoViewSubspace().fit(X, Y)
    found = model.predict_view(X1=X)
    np.testing.assert_allclose(found[:, 1], -7.0)
    assert np.mean((found[:, 0] - x[:, 0]) ** 2) < 0.1 * x.var()
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.predict_view(X1=X, level=90)
    one = TwoViewSubspace().fit(x, X[:, :1])
    assert one.predict_view(X2=X[:, :1]).shape == (14, 1)


def test_predictions_of_a_binary_view_stay_in_its_range():
    X, Y = pair(17)
    model = TwoViewSubspace(loss=("auto", "logistic")).fit(X, (Y > 0).astype(float))
    found = model.predict_view(X1=5 * X)
    assert found.min() >= 0 and found.max() <= 1
    assert np.mean((model.predict_view(X1=X) > 0.5) == (Y > 0)) > 0.85


def test_no_array_of_rows_by_rows_is_formed_for_many_rows(monkeypatch):
    random = rng(18)
    X = random.normal(size=(5200, 3))
    Y = X @ random.normal(size=(3, 2)) + random.normal(size=(5200, 2))
    model = stacked_ridge(X, Y)
    assert not model.kernels
    assert all(name.startswith("linear") for name in model.weights)
