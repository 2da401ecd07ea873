"""Exponential-family PCA: families against scipy.stats, the ridge against the trace norm, missing entries, offsets, kernels."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.special
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import COMPOSITE, LOSSES, cases
from regfactor import ConvexSubspace
from regfactor.core.loop import Status
from regfactor.losses import Binomial, Logistic, Multinomial, Poisson, Softmax
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data, Design
from regfactor.problems.layout import Dense
from regfactor.solvers import starts
from regfactor.solvers.fista import Fista
from regfactor.solvers.glm_newton import separable
from regfactor.solvers.updates import newton_rows
from regfactor.tables.epca import row_scoring
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.estimator import ExponentialFamilyPCA
from regfactor.testing.draws import draw

EXACT = {"tol": 1e-12, "max_iter": 20_000}
FAMILIES = ["gaussian", "bernoulli", "binomial", "poisson", "gamma", "multinomial"]
every_family = pytest.mark.parametrize("family", FAMILIES)


def table(family, n=40, d=12, unobserved=0.2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) / 1.5 + 0.5 * rng.normal(size=d)
    X = {
        "gaussian": lambda: z + 0.3 * rng.normal(size=z.shape),
        "bernoulli": lambda: (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float),
        "binomial": lambda: rng.binomial(4, 1 / (1 + np.exp(-z))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(z)).astype(float),
        "gamma": lambda: rng.exponential(np.exp(z / 2)) + 1e-3,
        "multinomial": lambda: np.array(
            [rng.multinomial(30, np.exp(r) / np.exp(r).sum()) for r in z]
        ).astype(float),
    }[family]()
    return np.where(rng.random(z.shape) < unobserved, np.nan, X)


def model(family, k=2, **options):
    return ExponentialFamilyPCA(k, family, trials=4 if family == "binomial" else 1, **options)


def predictors(fit, X):
    return fit._predictors(WeightedTable(X), Dense(X.shape))


CHECKED = [
    ExponentialFamilyPCA(None),
    ExponentialFamilyPCA(row_offset="fit"),
    ExponentialFamilyPCA(fit_intercept=False),
    ExponentialFamilyPCA(family="poisson", tol=1e-9),
    ExponentialFamilyPCA("auto"),
    ExponentialFamilyPCA(kernel="rbf", fit_intercept=False),
]


def exempt(estimator):
    """Weights are no repetitions where entries are held out at random, nor where rows are columns of the table too."""
    reason = (
        "held-out entries are random"
        if estimator.n_components == "auto"
        else "rows are columns of a kernel too"
    )
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(
        names if estimator.n_components == "auto" or estimator.kernel else (), reason
    )


@parametrize_with_checks(CHECKED, expected_failed_checks=exempt)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", cases(LOSSES, without=COMPOSITE))
def test_expansions_are_value_gradient_and_hessian(loss):
    z, x = draw(loss)
    out = [np.empty_like(z) for _ in range(3)]
    loss.expand(z, x, *out)
    for part, expected in zip(
        out, (loss.value(z, x), loss.gradient(z, x), loss.hessian(z, x)), strict=True
    ):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_logistic_loss_keeps_its_digits_where_a_prediction_is_sure(dtype):
    z = np.array([-60, -40, -10, -5, -0.0, 0, 5, 10, 40, 60], dtype)
    out = [np.empty_like(z) for _ in range(3)]
    Logistic().expand(z, np.zeros_like(z), *out)
    few, exact = 8 * np.finfo(dtype).eps, z.astype(np.float64)
    np.testing.assert_allclose(out[0], np.logaddexp(0, exact), rtol=few)
    np.testing.assert_allclose(out[1], 1 / (1 + np.exp(-exact)), rtol=few)
    np.testing.assert_allclose(out[2], 1 / (1 + np.exp(-exact)) / (1 + np.exp(exact)), rtol=few)


@every_family
def test_many_rows_are_scored_in_blocks_as_they_are_at_once_but_in_less_memory(family, monkeypatch):
    X, fit, found, peaks = (
        np.tile(table(family), (100, 1)),
        model(family).fit(table(family)),
        [],
        [],
    )
    for block in (1, X.size):
        monkeypatch.setattr(row_scoring, "BLOCK_ELEMENTS", block)
        tracemalloc.start()
        found.append(fit.transform(X))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    np.testing.assert_allclose(*found, rtol=1e-7, atol=1e-9)
    assert peaks[0] < 0.6 * peaks[1]


def test_few_wide_rows_are_scored_at_once(monkeypatch):
    X, counted = table("poisson", n=200), []
    fit = model("poisson").fit(X)
    monkeypatch.setattr(
        row_scoring, "BLOCK_ELEMENTS", 1
    )  # as if the rows were very wide: products of components cost the most
    monkeypatch.setattr(
        row_scoring,
        "newton_rows",
        lambda data, *rest: counted.append(data) or newton_rows(data, *rest),
    )
    fit.transform(X)
    assert [data.shape for data in counted] == [X.shape]


@every_family
def test_data_are_expanded_as_they_are_valued(family):
    fit = model(family).fit(table(family))
    data = fit._observation.data(WeightedTable(table(family)))
    Z = (
        np.minimum(predictors(fit, table(family)), -1e-3)
        if family == "gamma"
        else predictors(fit, table(family))
    )
    value, gradient, hessian = data.expansion(Z)
    np.testing.assert_allclose(value.sum(axis=1), data.row_values(Z), rtol=1e-9)
    np.testing.assert_allclose(gradient, data.gradient(Z), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(hessian, data.hessian(Z), rtol=1e-9, atol=1e-13)


@every_family
@pytest.mark.parametrize("unobserved", [0.0, 0.3])
def test_objectives_never_rise(family, unobserved):
    fit = model(family, k=3, tol=1e-10).fit(table(family, unobserved=unobserved))
    objectives = [record.objective for record in fit.history_]
    assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))
    assert fit.objective_ <= objectives[-1] + 1e-9 * abs(objectives[-1])


@pytest.mark.parametrize("unit", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("row_offset", [None, "fit"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_gamma_without_an_intercept_begins_inside_its_domain(k, row_offset, unit):
    rng = np.random.default_rng(0)
    X = rng.gamma(1, size=(30, 5)) * np.exp(rng.normal(size=(30, 1))) * unit
    fit = model("gamma", k=k, fit_intercept=False, row_offset=row_offset, tol=1e-8)
    for weights in (None, rng.gamma(0.3, size=30)):
        fit.fit(X, sample_weight=weights)
        objectives = [record.objective for record in fit.history_]
        assert fit.status_ == Status.SETTLED and np.isfinite(objectives).all()
        assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))
        level = 0.0 if row_offset is None else fit.row_offset_[:, None]
        assert (fit.codes_ @ fit.components_ + fit.intercept_ + level < 0).all()


@every_family
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"alpha": 0.1}], ids=str)
def test_transform_reproduces_the_codes_row_by_row(family, options):
    X = table(family)
    X[3] = np.nan
    with pytest.warns(UserWarning, match="no observed entry"):
        fit = model(family, **options).fit(X)
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-6 * np.abs(fit.codes_).max())
    np.testing.assert_allclose(
        fit.transform(X[5:8]), fit.codes_[5:8], atol=1e-6 * np.abs(fit.codes_).max()
    )


@every_family
def test_means_lie_in_the_range_of_the_family_at_unobserved_too(family):
    X = table(family, unobserved=0.5)
    fit = model(family, k=3, alpha=0.1).fit(X)
    full = fit.complete(X)
    assert np.isfinite(full).all()
    np.testing.assert_array_equal(full[~np.isnan(X)], X[~np.isnan(X)])
    most = {"bernoulli": 1.0, "binomial": 4.0}.get(family, np.inf)
    if family != "gaussian":
        assert (full >= 0).all() and (full <= most).all()


@every_family
def test_ridges_of_balanced_factors_are_the_trace_norm(family):
    fit = model(family, k=3).fit(table(family))
    trace = np.linalg.svd(fit.codes_ @ fit.components_, compute_uv=False).sum()
    ridges = (np.square(fit.codes_).sum() + np.square(fit.components_).sum()) / 2
    assert abs(ridges - trace) <= 1e-10 * trace


def test_weighted_rows_are_balanced_by_their_weights():
    X, weights = table("poisson"), np.arange(1, 41) / 10
    fit = model("poisson").fit(X, sample_weight=weights)
    root = np.sqrt(weights)[:, None]
    trace = np.linalg.svd(root * fit.codes_ @ fit.components_, compute_uv=False).sum()
    ridges = (np.square(root * fit.codes_).sum() + np.square(fit.components_).sum()) / 2
    assert abs(ridges - trace) <= 1e-10 * trace


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "binomial", "poisson"])
def test_enough_components_reach_the_certified_optimum(family):
    X = table(family)
    convex = model(family, k=None, alpha=2.0, tol=1e-8, max_iter=20_000).fit(X)
    assert (
        convex.relative_gap_ <= 1e-8
        and convex.alpha_max_ > 2.0
        and "global optimum" in str(convex.certificate_)
    )
    local = model(family, k=12, alpha=2.0, **EXACT).fit(X)
    assert local.objective_ == pytest.approx(convex.objective_, rel=1e-5)
    assert local.objective_ >= convex.objective_ - convex.gap_
    np.testing.assert_allclose(convex.transform(X), convex.codes_, atol=1e-5)
    with pytest.raises(AttributeError, match="no duality gap"):
        _ = local.gap_


@pytest.mark.parametrize("row_offset", [None, "fit"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gamma_scores_rows_without_information_inside_its_domain(fit_intercept, row_offset):
    rng = np.random.default_rng(0)
    X, weights = rng.gamma(1, size=(80, 12)), np.repeat([0.0, 1.0], [5, 75])
    fit = model("gamma", fit_intercept=fit_intercept, row_offset=row_offset).fit(
        X, sample_weight=weights
    )
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-6 * np.abs(fit.codes_).max())
    assert (predictors(fit, X) < 0).all()
    empty = np.full((1, 12), np.nan)
    alone, beside = fit.complete(empty), fit.complete(np.vstack([empty, X]))
    np.testing.assert_allclose(alone[0], beside[0], rtol=1e-6)
    assert (alone > 0).all() and (alone < X.max()).all()


def test_shares_have_a_convex_form_on_whole_rows():
    X = table("multinomial", unobserved=0.0)
    convex = model("multinomial", k=None, alpha=2.0, tol=1e-6, max_iter=20_000).fit(X)
    local = model("multinomial", k=12, alpha=2.0, **EXACT).fit(X)
    np.testing.assert_allclose(
        convex.inverse_transform(convex.codes_), local.inverse_transform(local.codes_), atol=2e-3
    )
    assert convex.deviance_explained_ == pytest.approx(local.deviance_explained_, abs=1e-3)
    assert convex.objective_ == pytest.approx(local.objective_, rel=1e-5)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_gaussian_components_without_a_ridge_are_the_svd(shape):
    X = np.random.default_rng(0).normal(size=shape)
    for intercept in (True, False):
        fit = model("gaussian", k=3, alpha=0.0, fit_intercept=intercept).fit(X)
        centered = X - X.mean(axis=0) * intercept
        U, s, Vt = np.linalg.svd(centered, full_matrices=False)
        np.testing.assert_allclose(
            fit.codes_ @ fit.components_, (U[:, :3] * s[:3]) @ Vt[:3], atol=1e-12
        )
        assert fit.deviance_explained_ == pytest.approx(
            1 - (s[3:] ** 2).sum() / np.square(X - X.mean(axis=0)).sum(), abs=1e-12
        )


def test_gaussian_components_under_a_ridge_are_the_svd_shrunk():
    X = np.random.default_rng(0).normal(size=(40, 12))
    fit = model("gaussian", k=3, alpha=2.0).fit(X)
    U, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(
        fit.codes_ @ fit.components_, (U[:, :3] * (s[:3] - 2)) @ Vt[:3], atol=1e-10
    )


DISTRIBUTIONS = {
    "gaussian": lambda x, mean: scipy.stats.norm.logpdf(x, mean, 1),
    "bernoulli": lambda x, mean: scipy.stats.bernoulli.logpmf(x, mean),
    "binomial": lambda x, mean: scipy.stats.binom.logpmf(x, 4, mean / 4),
    "poisson": lambda x, mean: scipy.stats.poisson.logpmf(x, mean),
    "gamma": lambda x, mean: scipy.stats.gamma.logpdf(x, 1, scale=mean),
}


@pytest.mark.parametrize("family", DISTRIBUTIONS)
def test_scores_are_mean_log_likelihoods(family):
    X = table(family)
    fit = model(family).fit(X)
    mean = fit.inverse_transform(fit.codes_)
    expected = np.nanmean(DISTRIBUTIONS[family](X, mean))
    assert fit.score(X) == pytest.approx(expected, rel=1e-9)


def test_scores_of_shares_condition_on_totals():
    X = table("multinomial", unobserved=0.0)
    fit = model("multinomial").fit(X)
    shares = fit.inverse_transform(fit.codes_)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    expected = (
        sum(scipy.stats.multinomial.logpmf(x, x.sum(), p) for x, p in zip(X, shares, strict=True))
        / X.size
    )
    assert fit.score(X) == pytest.approx(expected, rel=1e-9)


@every_family
def test_weights_stand_for_repetitions(family):
    X, weights = table(family), np.arange(40) % 3
    weighted = model(family, **EXACT).fit(X, sample_weight=weights)
    repeated = model(family, **EXACT).fit(np.repeat(X, weights, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    assert weighted.deviance_explained_ == pytest.approx(repeated.deviance_explained_, rel=1e-6)
    np.testing.assert_allclose(
        np.repeat(weighted.codes_, weights, axis=0), repeated.codes_, atol=1e-4
    )


OFFSETS = [(family, None) for family in FAMILIES]
OFFSETS += [(family, "fit") for family in FAMILIES if family != "multinomial"] + [
    ("poisson", "total")
]


@pytest.mark.parametrize(("family", "row_offset"), OFFSETS)
def test_entries_of_weight_zero_are_unobserved(family, row_offset):
    X, hidden = table(family, unobserved=0.0), np.random.default_rng(1).random((40, 12)) < 0.2
    weighted = model(family, row_offset=row_offset).fit(X, entry_weight=np.where(hidden, 0.0, 1.0))
    missing = model(family, row_offset=row_offset).fit(np.where(hidden, np.nan, X))
    np.testing.assert_allclose(weighted.components_, missing.components_, atol=1e-8)
    if row_offset is not None:
        np.testing.assert_allclose(weighted.row_offset_, missing.row_offset_, atol=1e-8)


@every_family
def test_weights_of_entries_scale_the_loss(family):
    X = table(family, unobserved=0.0)
    heavier = model(family, alpha=2.0, **EXACT).fit(X, entry_weight=np.full(X.shape, 2.0))
    assert heavier.objective_ == pytest.approx(
        2 * model(family, alpha=1.0, **EXACT).fit(X).objective_, rel=1e-6
    )


def test_shares_are_counts_with_free_levels():
    X = table("multinomial", unobserved=0.2)
    shares = model("multinomial", **EXACT).fit(X)
    counts = model("poisson", row_offset="fit", **EXACT).fit(X)
    np.testing.assert_allclose(
        shares.codes_ @ shares.components_, counts.codes_ @ counts.components_, atol=1e-6
    )
    assert shares.deviance_explained_ == pytest.approx(counts.deviance_explained_, rel=1e-8)
    assert np.average(counts.row_offset_) == pytest.approx(0, abs=1e-9)


def test_fitted_row_offsets_follow_exposures():
    rng = np.random.default_rng(0)
    X, depth = table("poisson", n=60, d=30, unobserved=0.1), rng.normal(size=60)
    deep = rng.poisson(20 * np.exp(depth)[:, None] * np.nan_to_num(X + 0.3)).astype(float)
    fit = model("poisson", row_offset="fit").fit(deep)
    assert np.corrcoef(fit.row_offset_, depth)[0, 1] > 0.9
    np.testing.assert_allclose(fit.transform(deep), fit.codes_, atol=1e-6)


def test_totals_are_exposures():
    X = table("poisson", unobserved=0.0) + 1.0
    by_total = model("poisson", row_offset="total").fit(X)
    exposure = np.log(X.sum(axis=1) / X.sum(axis=1).mean())
    np.testing.assert_allclose(by_total.row_offset_, exposure, atol=1e-12)
    given = model("poisson").fit(X, offset=exposure)
    np.testing.assert_allclose(by_total.codes_, given.codes_, atol=1e-9)
    np.testing.assert_allclose(
        by_total.transform(X[:5]), given.transform(X[:5], offset=exposure[:5]), atol=1e-9
    )
    np.testing.assert_allclose(given.transform(X, offset=exposure), given.codes_, atol=1e-8)
    mean = given.inverse_transform(given.codes_, offset=exposure)
    expected = scipy.stats.poisson.logpmf(X, mean).mean()
    assert (
        given.score(X, offset=exposure)
        == pytest.approx(expected)
        == pytest.approx(by_total.score(X))
    )


def test_rows_of_double_exposure_have_the_same_codes():
    X = table("poisson", unobserved=0.1)
    offset = np.where(np.arange(40)[:, None] % 2, np.log(2.0), 0.0) * np.ones(12)
    fit = model("poisson", fit_intercept=False, alpha=1e-4, **EXACT).fit(
        X * np.exp(offset), offset=offset
    )
    plain = model("poisson", fit_intercept=False, alpha=1e-4, **EXACT).fit(
        X, entry_weight=np.exp(offset)
    )
    np.testing.assert_allclose(
        fit.codes_ @ fit.components_, plain.codes_ @ plain.components_, atol=1e-3
    )


def test_without_a_ridge_separable_tables_are_warned_of_and_finite():
    X = np.kron(np.eye(2), np.ones((10, 6)))
    with pytest.warns(UserWarning, match="likelihood is unbounded"):
        fit = model("bernoulli", k=1, alpha=0.0).fit(X)
    assert (
        np.isfinite(fit.codes_).all()
        and np.isfinite(fit.components_).all()
        and np.isfinite(fit.intercept_).all()
    )
    sizes = []
    for alpha in (1e-3, 1e-2, 0.1):
        z = model("bernoulli", k=1, alpha=alpha, fit_intercept=False, **EXACT).fit(X)
        sizes.append(np.abs(z.codes_ @ z.components_).max())
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("unobserved", [0.0, 0.3])
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_fits_are_finite_whatever_the_seed(family, unobserved):
    for seed in range(50):
        X = table(family, n=30, d=10, unobserved=unobserved, seed=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*have no observed entry")
            fit = model(family, k=3, alpha=0.1).fit(X)
        assert np.isfinite(predictors(fit, X)).all() and 0 < fit.deviance_explained_ <= 1


HARD = {
    "constant columns": np.where(
        np.arange(8) < 3, 1.0, np.random.default_rng(0).integers(0, 2, (30, 8))
    ),
    "a row and a column of zeros": np.pad(
        np.random.default_rng(0).integers(0, 2, (30, 7)), ((1, 0), (1, 0))
    )
    * 1.0,
    "all zeros but one": np.eye(12)[:1].repeat(20, axis=0) * (np.arange(20)[:, None] == 3),
}


@pytest.mark.parametrize("X", HARD.values(), ids=HARD)
@pytest.mark.parametrize("family", ["bernoulli", "poisson", "multinomial"])
def test_hard_tables_stay_finite(family, X):
    fit = model(family).fit(X)
    assert (
        np.isfinite(fit.codes_).all()
        and np.isfinite(fit.intercept_).all()
        and np.isfinite(fit.score(X))
    )


@every_family
def test_constant_tables_keep_the_number_of_components(family):
    X = np.ones((10, 5))
    fit = model(family).fit(X)
    assert fit.codes_.shape == fit.transform(X).shape == (10, 2) and fit.components_.shape == (2, 5)
    assert np.isfinite(fit.inverse_transform(fit.codes_)).all() and np.isfinite(
        fit.deviance_explained_
    )


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_a_large_offset_ends_no_fit_early(size):
    X = table("gaussian", n=60, unobserved=0.2)
    offset = size * np.random.default_rng(1).normal(size=X.shape)
    far, near = ExponentialFamilyPCA().fit(X + offset, offset=offset), ExponentialFamilyPCA().fit(X)
    assert (
        far.objective_ == pytest.approx(near.objective_, rel=1e-8) and far.n_iter_ == near.n_iter_
    )


def test_large_counts_are_fitted_to_their_deviance():
    rng = np.random.default_rng(0)
    X = rng.poisson(
        1500 * np.exp(0.3 * rng.normal(size=(50, 2)) @ rng.normal(size=(2, 20)))
    ).astype(float)
    fit = model("poisson").fit(X)
    assert fit.deviance_explained_ > 0.99


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "gamma", "gaussian"])
def test_held_out_entries_choose_strength_and_number(family):
    X = table(family, n=80, d=30, unobserved=0.1)
    fit = model(family, k=5, alpha="auto", random_state=0).fit(X)
    assert (
        fit.alpha_ == fit.alphas_[np.argmin(fit.validation_loss_)]
        and 0 < fit.alpha_ < fit.alpha_max_
    )
    again = model(family, k=5, alpha="auto", random_state=0).fit(X)
    np.testing.assert_array_equal(fit.codes_, again.codes_)
    number = model(family, k="auto", alpha=fit.alpha_, random_state=0).fit(X)
    assert number.codes_.shape[1] == number.ranks_[np.argmin(number.validation_loss_)]
    simpler = model(family, k=5, alpha="auto", rule="1se", random_state=0).fit(X)
    assert simpler.alpha_ >= fit.alpha_


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("family", ["bernoulli", "poisson", "gaussian"])
def test_nothing_is_left_from_the_alpha_max_of_a_search_on(family, fit_intercept):
    X = table(family, n=60, unobserved=0.1)
    options = {"fit_intercept": fit_intercept, "random_state": 0}
    largest = model(family, k=2, alpha="auto", **options).fit(X).alpha_max_
    convex = model(family, k=None, alpha=1.0, tol=1e-6, max_iter=5000, **options).fit(X)
    assert largest == pytest.approx(convex.alpha_max_, rel=1e-4)
    for share, size in ((0.9, 1), (1.01, 0)):
        fit = model(family, k=2, alpha=share * largest, tol=1e-12, **options).fit(X)
        assert (np.abs(fit.codes_ @ fit.components_).max() > 1e-3) == size


def test_both_are_chosen_at_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(80, 20))
    fit = model("gaussian", k="auto", alpha="auto", random_state=0).fit(X)
    assert 2 <= fit.codes_.shape[1] <= 4
    for tried, kind, best in (
        ("alphas_", "", fit.alpha_),
        ("ranks_", "rank_", fit.codes_.shape[1]),
    ):
        loss, error = (getattr(fit, f"{kind}validation_{part}_") for part in ("loss", "error"))
        assert (
            len(loss) == len(error) == len(getattr(fit, tried))
            and getattr(fit, tried)[loss.argmin()] == best
        )


def test_the_chosen_strength_predicts_new_entries_better():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 40))
    X = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    p = 1 / (1 + np.exp(-z))

    def miss(fit):
        q = fit.inverse_transform(fit.codes_)
        return np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    auto = miss(model("bernoulli", k=3, alpha="auto", random_state=0).fit(X))
    assert auto < miss(model("bernoulli", k=3, alpha=0.1).fit(X))
    assert auto < miss(model("bernoulli", k=3, alpha=30.0).fit(X))


def test_gaussian_kernel_components_are_the_leading_eigenvectors():
    X = np.random.default_rng(0).normal(size=(20, 4))
    K = np.exp(-0.2 * np.square(X[:, None] - X[None]).sum(axis=2))
    fit = ExponentialFamilyPCA(3, alpha=0.0, kernel="rbf", gamma=0.2, fit_intercept=False).fit(X)
    values, vectors = np.linalg.eigh(K)
    expected = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    np.testing.assert_allclose(fit.codes_ @ fit.components_, expected, atol=1e-10)
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-8)
    given = ExponentialFamilyPCA(3, alpha=0.0, kernel="precomputed", fit_intercept=False).fit(K)
    np.testing.assert_allclose(given.codes_ @ given.components_, expected, atol=1e-10)
    assert fit.transform(X[:2] + 0.1).shape == (2, 3) and fit.components_.shape == (3, 20)


def test_indefinite_kernels_keep_eigenvalues_by_size():
    A = np.random.default_rng(0).normal(size=(15, 15))
    K = A + A.T
    fit = ExponentialFamilyPCA(4, alpha=0.0, kernel="precomputed", fit_intercept=False).fit(K)
    values, vectors = np.linalg.eigh(K)
    top = np.argsort(-np.abs(values))[:4]
    np.testing.assert_allclose(
        fit.codes_ @ fit.components_, (vectors[:, top] * values[top]) @ vectors[:, top].T, atol=1e-9
    )


def test_kernels_take_other_families():
    X = np.random.default_rng(0).normal(size=(40, 3))
    fit = ExponentialFamilyPCA(3, "poisson", kernel="rbf", gamma=0.5, alpha=0.01).fit(X)
    assert fit.deviance_explained_ > 0.5
    K = np.where(np.random.default_rng(1).random((40, 40)) < 0.1, np.nan, np.eye(40) + 1)
    given = ExponentialFamilyPCA(3, "poisson", kernel="precomputed").fit(K)
    np.testing.assert_allclose(given.transform(K), given.codes_, atol=1e-8)
    with pytest.raises(ValueError, match="rows without missing entries"):
        ExponentialFamilyPCA(kernel="rbf").fit(np.where(X > 2, np.nan, X))


@every_family
def test_single_precision_stays_single(family):
    X = table(family)
    fit, exact = model(family).fit(X.astype(np.float32)), model(family).fit(X)
    assert {
        a.dtype
        for a in (fit.codes_, fit.components_, fit.intercept_, fit.transform(X.astype(np.float32)))
    } == {np.dtype(np.float32)}
    assert fit.objective_ == pytest.approx(exact.objective_, rel=1e-4)


def test_absent_entries_are_zeros_unless_said_otherwise():
    X = np.nan_to_num(table("poisson"))
    sparse = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(
        model("poisson").fit(sparse).codes_, model("poisson").fit(X).codes_, atol=1e-10
    )
    unobserved = np.where(X == 0, np.nan, X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*have no observed entry")
        for offset in (None, np.linspace(0, 1, 40)):
            missing = model("poisson", sparse_zeros="missing", **EXACT).fit(sparse, offset=offset)
            dense = model("poisson", **EXACT).fit(unobserved, offset=offset)
            assert missing.objective_ == pytest.approx(dense.objective_, rel=1e-8)
            assert missing.score(sparse, offset=offset) == pytest.approx(
                dense.score(unobserved, offset=offset), rel=1e-5
            )


@pytest.mark.parametrize("k", [2, None])
def test_weighted_sparse_counts_are_a_table_with_unobserved(k):
    X, weights = (
        table("multinomial", unobserved=0.0),
        np.repeat(np.linspace(0.5, 2, 40)[:, None], 12, axis=1),
    )
    X[5:, 3], weights[:5] = 0, 0  # a column that counts nothing but in rows of weight zero
    X[-3:] = np.nan
    seen = ~np.isnan(X)
    sparse, stored = (
        scipy.sparse.csr_array((A[seen], np.nonzero(seen)), X.shape) for A in (X, weights)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*have no observed entry")
        unobserved = model("multinomial", k=k, alpha=5.0).fit(
            np.where(weights > 0, X, np.nan), entry_weight=weights
        )
        for Y, given in ((X, weights), (sparse, weights), (sparse, stored)):
            fit = model("multinomial", k=k, alpha=5.0, sparse_zeros="missing").fit(
                Y, entry_weight=given
            )
            assert fit.objective_ == pytest.approx(unobserved.objective_, rel=1e-8)
            np.testing.assert_allclose(
                fit.codes_ @ fit.components_, unobserved.codes_ @ unobserved.components_, atol=1e-6
            )


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("gaussian", {}),
        ("poisson", {"row_offset": "total"}),
        ("poisson", {"row_offset": "fit"}),
        ("multinomial", {}),
        ("bernoulli", {"alpha": 0.0}),
    ],
)
def test_absent_entries_take_no_memory(family, options):
    random, size = np.random.default_rng(0), 3000
    places = np.divmod(random.choice(size**2, 15_000, replace=False, shuffle=False), size)
    values = random.integers(2, size=15_000).astype(float), random.uniform(0.5, 2, size=15_000)
    X, weights = (scipy.sparse.csr_array((a, places), (size, size)) for a in values)
    estimator = model(family, sparse_zeros="missing", max_iter=5, **options)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = estimator.fit(X, entry_weight=weights)
    fit.transform(X)
    fit.score(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * size**2


@every_family
def test_sparse_scores_are_those_of_tables_with_unobserved(family):
    X = table(family)
    seen = ~np.isnan(X)
    sparse = scipy.sparse.csr_array((X[seen], np.nonzero(seen)), X.shape)
    dense, fit = model(family).fit(X), model(family, sparse_zeros="missing").fit(sparse)
    assert fit.score(sparse) == pytest.approx(dense.score(X), rel=1e-6)


def test_frames_and_grids_are_taken():
    X = pd.DataFrame(table("poisson"), columns=[f"c{j}" for j in range(12)])
    full = model("poisson").fit(X).complete(X)
    assert list(full.columns) == list(X.columns) and not full.isna().any().any()
    grid = GridSearchCV(model("poisson"), {"alpha": [0.1, 10.0], "n_components": [1, 2]}, cv=2).fit(
        X
    )
    assert np.isfinite(grid.best_score_)


def test_families_may_be_parts():
    X = table("binomial")
    np.testing.assert_array_equal(
        ExponentialFamilyPCA(2, Binomial(trials=4)).fit(X).codes_, model("binomial").fit(X).codes_
    )


def test_a_callback_can_stop_and_limits_are_said():
    with pytest.warns(UserWarning, match="did not converge"):
        fit = model("poisson", tol=0.0, callback=lambda it: True).fit(table("poisson"))
    assert fit.n_iter_ == 1


@pytest.mark.parametrize("weight", [1e-4, 1e4])
@pytest.mark.parametrize("unobserved", [0.0, 0.2])
def test_weights_and_strength_of_gamma_have_no_unit(unobserved, weight):
    X = table("gamma", unobserved=unobserved)
    plain = model("gamma", **EXACT).fit(X)
    scaled = model("gamma", alpha=weight, **EXACT).fit(X, entry_weight=np.full(X.shape, weight))
    Z, expected = (fit.codes_ @ fit.components_ + fit.intercept_ for fit in (scaled, plain))
    np.testing.assert_allclose(Z, expected, rtol=1e-4)
    assert scaled.objective_ == pytest.approx(weight * plain.objective_)
    assert scaled.deviance_explained_ == pytest.approx(plain.deviance_explained_, rel=1e-6)


def test_strengths_of_gamma_are_chosen_under_small_weights():
    X = table("gamma")
    plain = model("gamma", alpha="auto", random_state=0).fit(X, entry_weight=np.ones(X.shape))
    faint = model("gamma", alpha="auto", random_state=0).fit(X, entry_weight=np.full(X.shape, 1e-4))
    np.testing.assert_allclose(faint.alphas_, 1e-4 * plain.alphas_, rtol=1e-3)
    assert faint.alpha_ == pytest.approx(1e-4 * plain.alpha_, rel=1e-3)


@pytest.mark.parametrize("k", [2, "auto"])
@pytest.mark.parametrize("family", ["gamma", "poisson"])
@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (np.nan, "finite and not negative"),
        (-1.0, "finite and not negative"),
        (0.0, "entry_weight must not be zero"),
    ],
)
def test_weights_of_entries_are_refused_at_the_door(family, k, weight, says):
    X = table(family, unobserved=0.0) + 1
    with pytest.raises(ValueError, match=says):
        model(family, k=k).fit(X, entry_weight=np.full(X.shape, weight))
    if weight != 0:
        some = np.where(np.arange(X.size).reshape(X.shape) == 7, weight, 1.0)
        with pytest.raises(ValueError, match=says):
            model(family, k=k).fit(X, entry_weight=some)


def test_rows_without_a_weight_leave_nothing_to_fit():
    X, rows = table("gamma"), np.repeat([0.0, 1.0], 20)
    entries = np.repeat(1 - rows, 12).reshape(X.shape)
    for options in (
        {"X": np.full((40, 12), np.nan)},
        {"X": X, "sample_weight": rows, "entry_weight": entries},
    ):
        with pytest.raises(ValueError, match="missing"):
            model("gamma").fit(**options)


COUNTS = table("poisson", unobserved=0.0)
BAD = {
    "unknown family": (model("poison"), COUNTS, {}, "Did you mean 'poisson'"),
    "another loss": (ExponentialFamilyPCA(2, Softmax()), COUNTS, {}, "family must be one of"),
    "not binary": (
        model("bernoulli"),
        COUNTS,
        {},
        "family='bernoulli' takes .* use family='poisson'",
    ),
    "no counts": (
        model("multinomial"),
        -COUNTS,
        {},
        "Negative values in data: family='multinomial'",
    ),
    "zeros under gamma": (model("gamma"), COUNTS, {}, "family='gamma' takes"),
    "negative under gamma": (model("gamma"), -COUNTS, {}, "Negative values in data"),
    "too few trials": (ExponentialFamilyPCA(2, "binomial"), 2 * COUNTS, {}, "trials="),
    "negative and sparse": (
        model("poisson", sparse_zeros="missing"),
        scipy.sparse.csr_array(-COUNTS),
        {},
        "Negative values in data",
    ),
    "strength of a tiny table": (
        model("poisson", k=1, alpha="auto"),
        COUNTS[:3, :4],
        {},
        "too few to hold some out",
    ),
    "number of a tiny table": (
        model("poisson", k="auto"),
        COUNTS[:3, :4],
        {},
        "too few to hold some out",
    ),
    "strength of one row": (model("poisson", k=1, alpha="auto"), COUNTS[:1], {}, "n_samples = 1"),
    "strength of one column": (
        model("gamma", k=1, alpha="auto"),
        COUNTS[:, :1] + 1,
        {},
        "n_features = 1",
    ),
    "strength of few weights": (
        model("poisson", k=1, alpha="auto"),
        COUNTS,
        {"entry_weight": np.eye(40, 12)},
        "too few to hold some out",
    ),
    "negative alpha": (model("poisson", alpha=-1.0), COUNTS, {}, "'alpha' parameter .* must be"),
    "too many components": (model("poisson", k=50), COUNTS, {}, "n_features = 12"),
    "components in words": (
        model("poisson", k="all"),
        COUNTS,
        {},
        "'n_components' parameter .* must be",
    ),
    "no component": (model("poisson", k=0), COUNTS, {}, "'n_components' parameter .* must be"),
    "row offset in words": (
        model("poisson", row_offset="mean"),
        COUNTS,
        {},
        "'row_offset' parameter .* must be",
    ),
    "totals of no counts": (model("gaussian", row_offset="total"), COUNTS, {}, "row_offset='fit'"),
    "convex counts with missing entries": (
        model("multinomial", k=None),
        np.where(np.eye(*COUNTS.shape) > 0, np.nan, COUNTS),
        {},
        "give a number of comp",
    ),
    "levels twice": (model("multinomial", row_offset="fit"), COUNTS, {}, "leave row_offset=None"),
    "a truth value of components": (
        model("poisson", k=True),
        COUNTS,
        {},
        "'n_components' parameter .* must be",
    ),
    "no convex gamma": (model("gamma", k=None), COUNTS + 1, {}, "give n_components"),
    "a row that is weighted in part": (
        model("multinomial", k=None),
        COUNTS,
        {"entry_weight": np.where(COUNTS > 1, 2.0, 1.0)},
        "give weights of rows",
    ),
    "no convex levels": (
        model("poisson", k=None, row_offset="fit"),
        COUNTS,
        {},
        "give n_components",
    ),
    "offset too short": (model("poisson"), COUNTS, {"offset": [1.0]}, "offset has shape"),
    "offset infinite": (
        model("poisson"),
        COUNTS,
        {"offset": np.full(40, -np.inf)},
        "offset must be finite",
    ),
    "offset of gamma": (model("gamma"), COUNTS + 1, {"offset": np.zeros(40)}, "no log"),
    "all missing": (model("poisson"), np.full((4, 3), np.nan), {}, "missing"),
    "a rule that is none": (
        model("poisson", alpha="auto", rule="best"),
        COUNTS,
        {},
        "'rule' parameter .* must be",
    ),
    "a kernel that is none": (model("poisson", kernel="rbff"), COUNTS, {}, "Unknown kernel"),
}


@pytest.mark.parametrize(("estimator", "X", "given", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_answered_before_any_work(estimator, X, given, message):
    estimator = clone(estimator)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, **given)
    assert not [name for name in vars(estimator) if name.endswith("_") and name != "n_features_in_"]


def test_a_pass_in_strips_equals_a_pass_at_once():
    rng = np.random.default_rng(0)
    X, Z = rng.integers(0, 2, (700, 60)).astype(float), rng.normal(size=(700, 60))
    for loss in (Logistic(), Poisson()):
        data = Data.of(X, loss, rng.random(X.shape))
        for part, of in zip(
            data.expansion(Z), (data._values, data.gradient, data.hessian), strict=True
        ):
            np.testing.assert_allclose(part, of(Z), rtol=1e-9, atol=1e-13)
        assert data.infimum == pytest.approx(-data.conjugate(np.zeros_like(Z)), rel=1e-9)


def test_a_refit_forgets_what_it_does_not_set():
    X = table("poisson", n=60)
    fit = model("poisson", row_offset="fit", alpha="auto", random_state=0).fit(
        pd.DataFrame(X).add_prefix("c")
    )
    assert (
        hasattr(fit, "row_offset_")
        and hasattr(fit, "alphas_")
        and hasattr(fit, "feature_names_in_")
    )
    fit.set_params(row_offset=None, alpha=1.0).fit(X[:50])
    fresh = model("poisson").fit(X[:50])
    assert {n for n in vars(fit) if n.endswith("_")} == {n for n in vars(fresh) if n.endswith("_")}
    number = model("poisson", k="auto", random_state=0).fit(X).set_params(n_components=2).fit(X)
    assert not hasattr(number, "ranks_") and not hasattr(number, "validation_loss_")
    convex = model("poisson", k=None).fit(X).set_params(n_components=2).fit(X)
    assert not hasattr(convex, "alpha_max_")


SMALL_COUNTS = np.random.default_rng(0).poisson(
    2.0 * np.exp(table("gaussian", n=80, d=8, unobserved=0.0))
)


@pytest.mark.parametrize("options", [{}, {"row_offset": "total"}, {"row_offset": "fit"}], ids=str)
@pytest.mark.parametrize("unobserved", [0.0, 0.2])
def test_rates_in_any_unit_are_the_same_model(options, unobserved):
    hidden = np.random.default_rng(1).random(SMALL_COUNTS.shape) < unobserved
    X = np.where(hidden, np.nan, SMALL_COUNTS)
    one = model("poisson", tol=1e-8, **options).fit(X)
    for unit in (1e-3, 1e-8, 1e-12):
        scaled = model("poisson", alpha=unit, tol=1e-8, **options).fit(X * unit)
        assert scaled.deviance_explained_ == pytest.approx(one.deviance_explained_, abs=1e-4)
        strong = model("poisson", **options).fit(X * unit)
        assert strong.deviance_explained_ > -1e-6
    assert one.deviance_explained_ > 0.5


def test_small_rates_are_not_unbounded():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model("poisson", k=1, alpha=0.0).fit(1e-8 * (SMALL_COUNTS + 1))


@pytest.mark.parametrize("unobserved", [0.0, 0.2])
@pytest.mark.parametrize("options", [{}, {"row_offset": "fit"}], ids=str)
def test_the_deviance_explained_does_not_depend_on_the_origin(unobserved, options):
    X = table("gaussian", unobserved=unobserved)
    near, far = (model("gaussian", tol=1e-9, **options).fit(X + shift) for shift in (0.0, 1e8))
    assert far.deviance_explained_ == pytest.approx(near.deviance_explained_, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"row_offset": "fit"}], ids=str)
@pytest.mark.parametrize(
    "X", [np.zeros((20, 6)), np.full((20, 6), 0.1), np.full((20, 6), 1e8)], ids=["0", "0.1", "1e8"]
)
def test_nothing_is_explained_of_a_table_without_spread(X, options):
    for family in ("poisson", "gaussian"):
        assert model(family, **options).fit(X).deviance_explained_ == pytest.approx(0, abs=1e-9)
    offset = {"offset": np.linspace(0, 1, 20)} if not X.any() else {}
    assert model("bernoulli", **options).fit(
        np.minimum(X, 1), **offset
    ).deviance_explained_ == pytest.approx(0, abs=1e-9)


def test_columns_without_a_count_have_no_share():
    X = table("multinomial", unobserved=0.0)
    more = np.insert(X, [3, 7], 0, axis=1)
    for given in ({}, {"sample_weight": np.arange(40) % 3}, {"offset": np.linspace(0, 1, 40)}):
        plain, wide = (model("multinomial", k=None, alpha=2.0).fit(Y, **given) for Y in (X, more))
        assert wide.relative_gap_ <= 1e-4 and wide.objective_ == pytest.approx(
            plain.objective_, rel=1e-6
        )
        shares = wide.inverse_transform(wide.codes_)
        assert shares[:, [3, 8]].max() < 1e-12 and np.isfinite(wide.intercept_).all()
        np.testing.assert_allclose(
            np.delete(shares, [3, 8], axis=1), plain.inverse_transform(plain.codes_), atol=1e-5
        )
        assert wide.deviance_explained_ == pytest.approx(plain.deviance_explained_, rel=1e-4)
    assert model("multinomial", k=None).fit(np.zeros((8, 3))).deviance_explained_ == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_of_shares_is_the_formula(weighted):
    X, weights = table("multinomial"), np.arange(1.0, 41) if weighted else np.ones(40)
    fit = model("multinomial", **EXACT).fit(X, sample_weight=weights)
    Z = fit.codes_ @ fit.components_ + fit.intercept_
    rows = np.nansum(X, axis=1) * np.log(
        np.where(np.isnan(X), 0, np.exp(Z)).sum(axis=1)
    ) - np.nansum(X * Z, axis=1)
    ridges = weights @ np.square(fit.codes_).sum(axis=1) + np.square(fit.components_).sum()
    assert fit.objective_ == pytest.approx(weights @ rows + ridges / 2, rel=1e-9)
    assert fit.history_[-1].objective == pytest.approx(fit.objective_, rel=1e-8)


def test_without_an_intercept_the_closed_form_is_met_at_once():
    X = np.random.default_rng(0).normal(size=(40, 12))
    fit = model("gaussian", k=3, alpha=5.0, fit_intercept=False).fit(X)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(
        fit.codes_ @ fit.components_, (U[:, :3] * np.maximum(s[:3] - 5, 0)) @ Vt[:3], atol=1e-12
    )


def test_a_local_fit_points_to_the_certified_one():
    with pytest.raises(AttributeError, match="n_components=None"):
        _ = model("poisson").fit(table("poisson")).gap_


def test_a_small_table_always_has_entries_held_out():
    X = table("gaussian", n=5, d=4, unobserved=0.0)
    for seed in range(30):
        assert np.isfinite(
            model("gaussian", alpha="auto", random_state=seed).fit(X).validation_loss_
        ).all()


def test_tags_tell_which_tables_are_taken():
    tags = {family: model(family).__sklearn_tags__().input_tags for family in FAMILIES}
    assert [family for family in FAMILIES if not tags[family].positive_only] == ["gaussian"]
    assert ExponentialFamilyPCA(2, Poisson()).__sklearn_tags__().input_tags.positive_only
    rbf = model("poisson", kernel="rbf").__sklearn_tags__().input_tags
    assert not rbf.positive_only and not rbf.allow_nan
    given = model("poisson", kernel="precomputed").__sklearn_tags__().input_tags
    assert given.positive_only and given.allow_nan and given.pairwise


def test_an_offset_that_is_left_out_later_is_warned_of():
    X, offset = table("poisson"), np.linspace(-1, 1, 40)
    fit = model("poisson").fit(X, offset=offset)
    for use in (fit.transform, fit.score, fit.complete):
        use(X, offset=offset)
        with pytest.warns(UserWarning, match="offset"):
            use(X)
    fit.fit(X).transform(X)


def test_the_bound_of_shares_with_intercepts_follows_the_objective():
    """Rows and columns of its dual point are constrained; a point that is nearly feasible is made so, not given up."""
    random = np.random.default_rng(0)
    shares = np.exp(random.normal(size=(100, 2)) @ random.normal(size=(2, 20)))
    X = np.array(
        [random.multinomial(20, p) for p in shares / shares.sum(axis=1, keepdims=True)]
    ).astype(float)
    model = ExponentialFamilyPCA(None, "multinomial", alpha=2.0).fit(X)
    problem = Convex(Data.of(X, Multinomial()), Trace(), 2.0, design=Design.intercept(len(X)))
    for iterate in itertools.islice(Fista().iterates(problem, None), 5, 16):
        assert -1e-9 <= (model.objective_ - iterate.bound) / model.objective_ < 0.01


@pytest.mark.filterwarnings("ignore:.*no observed entry")
@pytest.mark.parametrize("k", [2, None])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_without_a_count_change_nothing_under_shares(k, sparse):
    random = np.random.default_rng(0)
    shares = np.exp(random.normal(size=(40, 2)) @ random.normal(size=(2, 8)))
    X = np.array(
        [random.multinomial(20, p) for p in shares / shares.sum(axis=1, keepdims=True)]
    ).astype(float)
    X[3] = np.nan
    more = np.vstack([X, np.zeros((6, 8))])
    if sparse:
        rows, columns = np.nonzero(~np.isnan(more))
        more = scipy.sparse.csr_array((more[rows, columns], (rows, columns)), shape=more.shape)
    options = {"tol": 1e-8 if k else 1e-6, "sparse_zeros": "missing"}
    few, many = (
        ExponentialFamilyPCA(k, "multinomial", **options).fit(table) for table in (X, more)
    )
    assert many.objective_ == pytest.approx(few.objective_, rel=1e-8)
    assert many.deviance_explained_ == pytest.approx(few.deviance_explained_, rel=1e-6)
    np.testing.assert_array_equal(many.codes_[40:], 0)


def test_starts_of_single_precision_are_regressed_in_double():
    y = (1e4 + np.random.default_rng(0).normal(size=(50_000, 3))).astype(np.float32)
    (means,) = starts._regressed(np.ones((len(y), 1), np.float32), None, y, Dense(y.shape))
    assert means.dtype == np.float32
    np.testing.assert_array_equal(means, y.mean(axis=0, dtype=np.float64).astype(np.float32))


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.filterwarnings("ignore:.*have no observed entry|1 row has no observed entry")
def test_a_row_of_counts_of_which_nothing_is_known_is_completed_as_the_mean_row(k):
    X = np.random.default_rng(0).multinomial(200, [0.2, 0.3, 0.1, 0.4], size=30).astype(float)
    X[5] = np.nan
    fit = ExponentialFamilyPCA(k, "multinomial").fit(X)
    np.testing.assert_allclose(fit.complete(X)[5], np.nanmean(X, axis=0), rtol=0.05)
    np.testing.assert_allclose(fit.complete(X[[5]])[0], fit.complete(X)[5])


def test_levels_of_rows_have_mean_zero_and_that_of_an_empty_row_is_zero():
    X = np.random.default_rng(0).poisson(5 * np.arange(1, 31)[:, None] * np.ones(6)).astype(float)
    X[5] = np.nan
    with pytest.warns(UserWarning, match="no observed entry"):
        fit = ExponentialFamilyPCA(1, "poisson", row_offset="fit").fit(X)
    assert fit.row_offset_[5] == 0
    assert abs(fit.row_offset_.sum()) < 1e-10


@pytest.mark.parametrize(("scale", "spread"), [(1, 1.5), (1e4, 1.0)])
def test_counts_of_very_different_sizes_are_certified(scale, spread):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = scale * rng.poisson(np.exp(spread * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 7))))
        convex = ExponentialFamilyPCA(None, "poisson", max_iter=3000).fit(X)
        assert convex.status_.name == "CERTIFIED" and -1e-9 <= convex.relative_gap_ <= 1e-4
        assert (
            convex.objective_ - convex.gap_ <= ExponentialFamilyPCA(7, "poisson").fit(X).objective_
        )


@pytest.mark.parametrize("exposure", [20.0, 30.0, 40.0])
def test_an_exposure_of_all_rows_is_taken_over_by_the_intercepts(exposure):
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6)))).astype(float)
    plain = ExponentialFamilyPCA(None, "poisson").fit(X)
    moved = ExponentialFamilyPCA(None, "poisson").fit(X, offset=np.full(30, exposure))
    assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(moved.intercept_ + exposure, plain.intercept_, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("end", [0.0, 1.0])
@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_a_row_at_an_end_of_the_range_moves_no_other_row(family, end, dtype):
    if family == "poisson" and end:
        pytest.skip("counts have no upper end")
    rng = np.random.default_rng(0)
    z = 0.5 * rng.normal(size=(20, 1)) @ rng.normal(size=(1, 5))
    X = (rng.poisson(np.exp(z + 1)) if family == "poisson" else rng.random(z.shape) < 0.5).astype(
        dtype
    )
    X = X[(X > 0).any(axis=1) & ((X < 1).any(axis=1) | (family == "poisson"))]
    fit = ExponentialFamilyPCA(1, family, row_offset="fit").fit(X)
    more = ExponentialFamilyPCA(1, family, row_offset="fit").fit(
        np.vstack([X, np.full((1, 5), end, dtype)])
    )
    np.testing.assert_allclose(more.intercept_, fit.intercept_, atol=1e-2)
    np.testing.assert_allclose(more.row_offset_[:-1].mean(), 0, atol=1e-5)


@pytest.mark.parametrize("options", [{"fit_intercept": False}, {"alpha": 0.01}], ids=str)
def test_large_counts_are_certified_in_single_precision_too(options):
    rng = np.random.default_rng(1)
    X = rng.poisson(10 * np.exp(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 1))
    double, single = (
        ExponentialFamilyPCA(None, "poisson", **options).fit(X.astype(t))
        for t in (float, np.float32)
    )
    assert single.status_.name == "CERTIFIED"
    assert single.objective_ == pytest.approx(double.objective_, rel=2e-4)


# --- likelihoods without a maximum -----------------------------------------------------------------------------------


def says_unbounded(model, X, **fit):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, **fit)
    return any("likelihood is unbounded" in str(each.message) for each in told)


def rates(n=200, d=6, seed=0):
    random = np.random.default_rng(seed)
    return random.poisson(np.exp(np.abs(random.normal(size=(n, 1))) * np.linspace(0.5, 2, d))) + 1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_column_at_an_end_of_its_range_is_told(seed):
    counts = rates(seed=seed)
    counts[:, 1] = 0
    assert says_unbounded(ExponentialFamilyPCA(1, "poisson", alpha=0.0), counts)
    assert says_unbounded(
        ExponentialFamilyPCA(1, "poisson", alpha=0.0), counts, offset=np.full(200, -16.0)
    )
    shares = np.clip(np.random.default_rng(seed).binomial(5, 0.5, (60, 6)), 1, 4).astype(float)
    shares[:, 2] = 5 * (seed % 2)
    assert says_unbounded(ExponentialFamilyPCA(1, "binomial", alpha=0.0, trials=5), shares)


@pytest.mark.parametrize(
    ("shape", "k", "rate"), [((200, 20), 1, 0.05), ((200, 30), 2, 0.1), ((100, 15), 2, 0.3)]
)
def test_factors_that_run_away_together_are_told(shape, k, rate):
    counts = np.random.default_rng(0).poisson(rate, size=shape).astype(float)
    assert says_unbounded(ExponentialFamilyPCA(k, "poisson", alpha=0.0), counts)


def test_offsets_rows_without_weight_and_unobserved_raise_no_alarm():
    X, model = rates(), ExponentialFamilyPCA(1, "poisson", alpha=0.0)
    assert not says_unbounded(model, X)
    assert not says_unbounded(model, X, offset=np.full(200, np.log(1e7)))
    assert not says_unbounded(
        model, np.vstack([X, np.zeros(6)]), sample_weight=np.append(np.ones(200), 0.0)
    )
    n = np.nan  # its likelihood has a maximum, at which one of the missing entries is e^-21
    unobserved = [
        [7, 11, 11, 8, 10],
        [9, 10, n, 45, 8],
        [3, 4, 6, n, n],
        [14, n, 6, 8, 4],
        [n, 4, 2, n, 2],
        [8, 10, 5, 2, 5],
    ]
    assert not says_unbounded(model, np.array(unobserved))


def test_what_is_told_of_answers_is_what_linear_programs_find():
    """Rows given the components, and columns given the codes and an intercept, that can be parted."""
    told = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        Z = random.normal(size=(400, 1)) @ random.normal(size=(1, 25))
        answers = (random.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
        model = ExponentialFamilyPCA(1, "bernoulli", alpha=0.0)
        told.append(says_unbounded(model, answers))
        sign, D = 2 * answers - 1, np.column_stack([model.codes_, np.ones(400)])
        parted = any(separable(model.components_.T, row) for row in sign) or any(
            separable(D, s) for s in sign.T
        )
        assert told[-1] == parted, seed
    assert 0 < sum(told) < 5


# --- what the rows of a table lack ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [{"n_components": 2}, {"n_components": None}, {"n_components": 2, "fit_intercept": False}],
)
def test_a_row_of_counts_of_which_nothing_is_known_has_the_total_of_a_mean_row(form):
    X = (
        np.random.default_rng(5)
        .multinomial(24, [0.1, 0.3, 0.1, 0.1, 0.2, 0.1, 0.1], 60)
        .astype(float)
    )
    model = ExponentialFamilyPCA(family="multinomial", **form).fit(X)
    unknown = model.complete(np.full((1, 7), np.nan))
    assert unknown.sum() == pytest.approx(24)
    np.testing.assert_allclose(
        unknown / 24, model.inverse_transform(np.zeros((1, model.codes_.shape[1]))), rtol=1e-6
    )
    empty = np.zeros((1, 7))
    empty[0, 3] = np.nan
    assert model.complete(empty).sum() == 0


def test_levels_of_rows_are_taken_back_by_the_mean_response():
    X = np.random.default_rng(0).gamma(1.0, 1.0, (50, 6))
    model = ExponentialFamilyPCA(2, "gamma", row_offset="fit").fit(X)
    mean = model.inverse_transform(model.codes_, offset=model.row_offset_)
    assert mean.shape == X.shape and (mean > 0).all()
    with pytest.raises(ValueError, match="log exposure"):
        ExponentialFamilyPCA(2, "gamma").fit(X).inverse_transform(np.zeros((1, 2)), offset=[0.1])


def test_an_exposure_is_counted_once():
    """The total of a row holds all of its exposure, what is given as an offset too."""
    random = np.random.default_rng(0)
    depth = random.normal(size=80)
    X = random.poisson(
        np.exp(depth[:, None] + 0.5 * random.normal(size=(80, 2)) @ random.normal(size=(2, 10)) + 1)
    )
    total = ExponentialFamilyPCA(2, "poisson", row_offset="total").fit(X.astype(float))
    both = ExponentialFamilyPCA(2, "poisson", row_offset="total").fit(X.astype(float), offset=depth)
    assert both.objective_ == pytest.approx(total.objective_, rel=1e-9)
    np.testing.assert_allclose(both.row_offset_, total.row_offset_ - depth, atol=1e-9)
    np.testing.assert_allclose(both.transform(X, offset=depth), total.transform(X), atol=1e-7)
    unknown = np.full((1, 10), np.nan)
    expected = total.complete(unknown)
    np.testing.assert_allclose(both.complete(unknown, offset=[np.log(1000.0)]), expected, rtol=1e-6)
    holed, offset = X.astype(float), np.repeat(depth[:, None], 10, axis=1)
    holed[0, 0], offset[0, 0] = np.nan, 800.0  # what stands at a missing entry is nothing
    plain, odd = (ExponentialFamilyPCA(2, "poisson", row_offset="total") for _ in range(2))
    plain.fit(holed), odd.fit(holed, offset=offset)
    np.testing.assert_allclose(odd.row_offset_, plain.row_offset_ - depth, atol=1e-9)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_constant_column_under_offsets_keeps_no_proof_away(family, end):
    random = np.random.default_rng(0)
    X = (
        random.poisson(3.0, (40, 5)).astype(float)
        if family == "poisson"
        else random.integers(0, 2, (40, 5)) * 1.0
    )
    X[:, 0] = 0 if family == "poisson" else end
    offset = random.normal(size=40)
    model = ExponentialFamilyPCA(None, family, alpha=2.0).fit(X, offset=offset)
    without = ExponentialFamilyPCA(None, family, alpha=2.0).fit(X[:, 1:], offset=offset)
    assert model.relative_gap_ <= 1e-4 and model.n_iter_ < 200
    assert model.objective_ == pytest.approx(without.objective_, rel=3e-4)


@pytest.mark.parametrize("level", [1e2, 1e3, 1e4, 1e5])
def test_large_counts_are_certified_by_their_deviance(level):
    """Their likelihood is a large negative number, next to which a poor fit would be near the best one."""
    random = np.random.default_rng(0)
    X = random.poisson(
        level * np.exp(0.5 * random.normal(size=(100, 2)) @ random.normal(size=(2, 12)))
    ).astype(float)
    convex = ExponentialFamilyPCA(None, "poisson", alpha=10.0).fit(X)
    ridge = ExponentialFamilyPCA(12, "poisson", alpha=10.0, tol=1e-8, max_iter=5000).fit(X)
    deviance = ridge.objective_ - (X - scipy.special.xlogy(X, X)).sum()
    assert convex.status_ is Status.CERTIFIED
    assert 0 <= convex.gap_ <= 1e-4 * deviance * 1.01
    assert convex.objective_ - ridge.objective_ <= 2e-4 * deviance


def test_counts_too_large_to_be_certified_say_by_what():
    random = np.random.default_rng(0)
    X = random.poisson(
        1e6 * np.exp(0.5 * random.normal(size=(100, 2)) @ random.normal(size=(2, 12)))
    ).astype(float)
    with pytest.warns(
        ConvergenceWarning, match="required relative to the loss above its least value"
    ):
        ExponentialFamilyPCA(None, "poisson", alpha=10.0).fit(X)


@pytest.mark.filterwarnings("ignore:ConvexSubspace has no component")
@pytest.mark.parametrize("alpha", [1.0, 10.0])
@pytest.mark.parametrize("loss", ["multinomial", "softmax"])
def test_a_column_that_is_never_chosen_keeps_no_proof_away(loss, alpha):
    random = np.random.default_rng(1)
    Z = random.normal(size=(60, 2)) @ random.normal(size=(2, 6))
    X = np.array([random.multinomial(1, np.exp(z) / np.exp(z).sum()) for z in Z]).astype(float)
    plain = ConvexSubspace(loss, alpha=alpha).fit(X)
    wider = ConvexSubspace(loss, alpha=alpha, max_iter=60).fit(np.hstack([X, np.zeros((60, 1))]))
    assert wider.status_ is Status.CERTIFIED
    assert wider.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    assert wider.intercept_[-1] < wider.intercept_[:-1].min() - 10


def test_the_time_limit_bounds_the_searches_too():
    X = table("poisson")
    with pytest.warns(ConvergenceWarning) as caught:
        fit = model("poisson", k="auto", alpha="auto", time_limit=0.0, random_state=0).fit(X)
    text = " ".join(str(warning.message) for warning in caught)
    for part in ("alpha was chosen", "n_components was chosen", "time limit was reached"):
        assert part in text
    assert fit.status_ is Status.TIME_LIMIT
    assert len(fit.alphas_) == len(fit.ranks_) == 1
    with pytest.warns(ConvergenceWarning):
        convex = model("poisson", k=None, alpha="auto", time_limit=0.0, random_state=0).fit(X)
    assert len(convex.alphas_) == 1
    assert np.isfinite(fit.codes_).all()
