"""Covariates of rows in exponential-family PCA: oracles, equivalences, laws of new rows, errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from regfactor import ExponentialFamilyPCA
from regfactor.losses import Logistic, Poisson
from regfactor.tables.epca import blocked_inputs

FAMILIES = ["gaussian", "bernoulli", "binomial", "poisson", "negative_binomial", "multinomial"]
EXACT = {"tol": 1e-11, "max_iter": 20_000}


def drawn(family, n=60, d=8, gaps=0.2, seed=0):
    """A table that depends on a batch and a dose, and these."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"batch": random.choice(["u", "v", "w"], n), "dose": random.normal(40, 10, n)}
    )
    z = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) / 2
    z += regressors(frame) @ (random.normal(size=(3, d)) * np.array([[1.0], [1.0], [0.03]]))
    z -= z.mean(axis=0)
    mean = 1 / (1 + np.exp(-z))
    rate = np.exp(np.minimum(z, 4.0))
    X = {
        "gaussian": lambda: z + 0.3 * random.normal(size=z.shape),
        "bernoulli": lambda: (random.random(z.shape) < mean).astype(float),
        "binomial": lambda: random.binomial(4, mean).astype(float),
        "poisson": lambda: random.poisson(rate).astype(float),
        "negative_binomial": lambda: random.poisson(rate * random.gamma(2, 0.5, z.shape)) * 1.0,
        "multinomial": lambda: random.poisson(3 * rate).astype(float),
    }[family]()
    return np.where(random.random(z.shape) < gaps, np.nan, X), frame


def regressors(frame):
    return np.column_stack(
        [frame["batch"] == "v", frame["batch"] == "w", frame["dose"]],
    ).astype(float)


def model(family, k=2, **options):
    return ExponentialFamilyPCA(k, family, trials=4 if family == "binomial" else 1, **options)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_convex_form_agrees_with_cvxpy(family, fit_intercept):
    cp = pytest.importorskip("cvxpy")
    X, frame = drawn(family, 14, 5)
    D = (frame[["dose"]].to_numpy() - 40) / 10
    seen = ~np.isnan(X)
    x = np.where(seen, X, 0)
    full = np.hstack([np.ones((14, 1)), D]) if fit_intercept else D
    Z = cp.Variable(X.shape)
    P = Z + full @ cp.Variable((full.shape[1], 5))
    loss = {"bernoulli": Logistic(), "poisson": Poisson()}[family]
    cumulant = cp.logistic(P) if family == "bernoulli" else cp.exp(P)
    cost = cp.sum(cp.multiply(seen, cumulant - cp.multiply(x, P)))
    at_zero = cumulant_at_zero(family) * seen.sum()
    constant = float((loss.value(np.zeros_like(x), x) * seen).sum()) - at_zero
    oracle = cp.Problem(cp.Minimize(cost + 0.7 * cp.normNuc(Z)))
    oracle.solve(solver="CLARABEL")
    fit = model(family, None, alpha=0.7, fit_intercept=fit_intercept, tol=1e-6, max_iter=5000)
    fit.fit(X, covariates=D)
    assert fit.objective_ == pytest.approx(oracle.value + constant, rel=1e-5)
    assert fit.relative_gap_ <= 1e-6 and fit.certificate_.rigorous


def cumulant_at_zero(family):
    return np.log(2.0) if family == "bernoulli" else 1.0


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_enough_components_reach_the_certified_optimum(family):
    X, frame = drawn(family, 30, 5)
    convex = model(family, None, alpha=1.5, tol=1e-7, max_iter=5000).fit(X, covariates=frame)
    local = model(family, 5, alpha=1.5, **EXACT).fit(X, covariates=frame)
    assert local.objective_ == pytest.approx(convex.objective_, rel=1e-5)
    found, expected = (
        fit.inverse_transform(fit.codes_, covariates=frame) for fit in (local, convex)
    )
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row_offset", [None, "fit", "total"])
def test_rows_are_scored_as_they_were_fitted(family, row_offset):
    if row_offset == "total" and family not in ("poisson", "negative_binomial"):
        pytest.skip("totals are exposures of counts")
    if row_offset == "fit" and family == "multinomial":
        pytest.skip("rows of shares have free levels in any case")
    X, frame = drawn(family)
    fit = model(family, row_offset=row_offset, tol=1e-9).fit(X, covariates=frame)
    codes = fit.transform(X, covariates=frame)
    np.testing.assert_allclose(codes, fit.codes_, atol=1e-5)
    some = fit.transform(X[:7], covariates=frame[:7])
    np.testing.assert_allclose(some, codes[:7], atol=1e-6)
    assert fit.covariate_names_ == ["batch=v", "batch=w", "dose"]
    by_coefficients = (
        fit.codes_ @ fit.components_ + fit.intercept_ + regressors(frame) @ fit.covariate_coef_
    )
    offset = getattr(fit, "row_offset_", None)
    predicted = fit.inverse_transform(fit.codes_, offset, covariates=frame)
    expected = fit._observation.predict(
        by_coefficients if offset is None else by_coefficients + offset[:, None]
    )
    np.testing.assert_allclose(predicted, expected, rtol=1e-8)
    filled = fit.complete(X, covariates=frame)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert fit.score(X, covariates=frame) > model(family).fit(X).score(X) - 0.5


def test_of_a_complete_gaussian_table_the_regression_is_taken_out():
    X, frame = drawn("gaussian", gaps=0.0)
    fit = model("gaussian", alpha=0.5, **EXACT).fit(X, covariates=frame)
    full = np.hstack([np.ones((len(X), 1)), regressors(frame)])
    residuals = X - full @ np.linalg.lstsq(full, X, rcond=None)[0]
    plain = model("gaussian", alpha=0.5, fit_intercept=False, **EXACT).fit(residuals)
    np.testing.assert_allclose(
        fit.codes_ @ fit.components_, plain.codes_ @ plain.components_, atol=1e-5
    )
    assert fit.deviance_explained_ == pytest.approx(plain.deviance_explained_, abs=1e-5)


def test_covariates_alone_explain_nothing_in_addition_to_themselves():
    X, frame = drawn("poisson")
    D = regressors(frame)[:, 2:]
    fit = model("poisson", alpha=1e3, **EXACT).fit(X, covariates=D)
    assert abs(fit.deviance_explained_) < 1e-4
    # the same regressions by Newton's method for each column
    scaled = np.hstack([np.ones((len(X), 1)), (D - 40) / 10])
    for j in range(3):
        seen = ~np.isnan(X[:, j])
        b = np.zeros(2)
        for _ in range(50):
            mean = np.exp(scaled[seen] @ b)
            step = scaled[seen].T @ (mean - X[seen, j])
            b -= np.linalg.solve((scaled[seen].T * mean) @ scaled[seen], step)
        assert fit.covariate_coef_[0, j] == pytest.approx(b[1] / 10, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "bernoulli"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_by_blocks_is_that_to_the_dense_table(monkeypatch, family, weighted):
    monkeypatch.setattr(blocked_inputs, "MAX_DENSE_ELEMENTS", 0)
    monkeypatch.setattr("regfactor.tables.epca.count_blocks.BLOCK_ELEMENTS", 100)
    X, frame = drawn(family, gaps=0.0)
    weights = None
    if weighted:
        weights = np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
    options = {"alpha": 0.7, "tol": 1e-11, "max_iter": 3000}
    if family == "poisson":
        options["row_offset"] = "total"
    part = family
    if family == "negative_binomial":
        from regfactor.losses import NegativeBinomial

        part = NegativeBinomial(2.0)
    dense = ExponentialFamilyPCA(2, part, **options)
    dense.fit(X, sample_weight=weights, covariates=frame)
    blocks = ExponentialFamilyPCA(2, part, **options)
    table = scipy.sparse.csr_array(X)
    blocks.fit(table, sample_weight=weights, covariates=frame)
    assert blocks.solver_ == "BlockNewton" != dense.solver_
    assert blocks.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    assert blocks.deviance_explained_ == pytest.approx(dense.deviance_explained_, abs=1e-6)
    offset = getattr(dense, "row_offset_", None)
    found, expected = (
        fit.inverse_transform(fit.codes_, offset, covariates=frame) for fit in (blocks, dense)
    )
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_allclose(blocks.transform(table, covariates=frame), blocks.codes_, atol=1e-6)
    # coefficients of levels without a count are unbounded, which rows that were not learned show
    learned = np.ones(len(X), bool) if weights is None else weights > 0
    scores = [
        fit.score(given[learned], covariates=frame[learned])
        for fit, given in ((blocks, table), (dense, X))
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_choices_on_a_sample_of_rows_know_covariates(monkeypatch):
    monkeypatch.setattr(blocked_inputs, "MAX_DENSE_ELEMENTS", 0)
    X, frame = drawn("negative_binomial", 120, 20, gaps=0.0)
    fit = model("negative_binomial", "auto", alpha="auto", random_state=0)
    fit.fit(scipy.sparse.csr_array(X), covariates=frame)
    assert fit.theta_ > 0 and 0 < fit.alpha_ <= fit.alpha_max_
    assert fit.covariate_coef_.shape == (3, 20)


@pytest.mark.parametrize("k", [2, None])
def test_weights_act_as_repetition_counts(k):
    X, frame = drawn("poisson", 40)
    counts = np.random.default_rng(1).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), counts)
    options = {"alpha": 1.0, "tol": 1e-9, "max_iter": 5000}
    weighted = model("poisson", k, **options).fit(
        X, sample_weight=counts, covariates=frame[["dose"]]
    )
    repeated = model("poisson", k, **options).fit(X[rows], covariates=frame[["dose"]].iloc[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.covariate_coef_, repeated.covariate_coef_, atol=1e-4)


def test_limits_of_cells_follow_covariates():
    X, frame = drawn("poisson", 150, 8, seed=2)
    hidden = np.random.default_rng(5).random(X.shape) < 0.15
    observed = np.where(hidden, np.nan, X)
    fit = model("poisson", random_state=0).fit(observed, covariates=frame)
    low, high = fit.complete_interval(observed, 0.9, covariates=frame)
    known = hidden & ~np.isnan(X)
    inside = ((low <= X) & (X <= high))[known]
    assert 0.84 < inside.mean() <= 1.0
    without = model("poisson").fit(observed).complete_interval(observed, 0.9)
    assert (high - low)[known].mean() < (without[1] - without[0])[known].mean()


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"family": "gamma"}, lambda c: c, "not for family='gamma'"),
        ({"kernel": "rbf"}, lambda c: c, "kernels"),
        ({}, lambda c: c[:-1], "covariates have 59 rows, X has 60"),
        ({}, lambda c: c.assign(years=c["dose"] * 2), "depend on each other"),
        ({}, lambda c: c.assign(dose=np.nan), "'dose' is missing"),
    ],
)
def test_covariates_that_cannot_be_used_are_refused(options, change, message):
    X, frame = drawn("poisson", gaps=0.0)
    with pytest.raises(ValueError, match=message):
        ExponentialFamilyPCA(**options).fit(X + 1, covariates=change(frame))


def test_new_rows_need_the_covariates_of_the_fit():
    X, frame = drawn("poisson")
    fit = model("poisson").fit(X, covariates=frame)
    with pytest.raises(ValueError, match="pass covariates"):
        fit.transform(X)
    with pytest.raises(ValueError, match="a level that it did not have in fit"):
        fit.complete(X, covariates=frame.assign(batch="z"))
    with pytest.raises(ValueError, match="fitted without covariates"):
        model("poisson").fit(X).score(X, covariates=frame)
    again = fit.fit(X)
    assert not hasattr(again, "covariate_coef_")
