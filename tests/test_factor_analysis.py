"""Factor analysis and probabilistic PCA: scikit-learn on complete tables, textbook EM with missing entries."""

import time
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from sklearn.decomposition import PCA
from sklearn.decomposition import FactorAnalysis as CompleteFactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from regfactor import ConvexSubspace, FactorAnalysis
from regfactor.tables.normal_likelihood import NormalTable, ParameterVector, PatternRows

EXACT = {"tol": 1e-13, "max_iter": 20_000}


def table(n=300, d=10, k=3, seed=0, least_noise=0.3):
    """Rows of k factors, a noise of each column, offsets."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(least_noise, 1.5, d)
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + noise * rng.normal(size=(n, d)) + 5


def with_missing(X, share=0.3, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def log_likelihood(X, C, b, v):
    """Log density of the observed entries, row by row, by scipy."""
    covariance = C.T @ C + np.diag(v)
    total = []
    for x in X:
        seen = ~np.isnan(x)
        if seen.any():
            normal = scipy.stats.multivariate_normal(b[seen], covariance[np.ix_(seen, seen)])
            total.append(normal.logpdf(x[seen]))
        else:
            total.append(0.0)
    return np.array(total)


def textbook_em(X, k, n_steps, tol):
    """EM row by row (Little and Rubin, chapter 11; Ghahramani and Hinton 1996), and its likelihoods."""
    n, d = X.shape
    b = np.nanmean(X, axis=0)
    v = np.nanvar(X, axis=0)
    C = np.random.default_rng(0).normal(size=(k, d)) * np.sqrt(v) / 2
    history = []
    for _ in range(n_steps):
        A = np.zeros((d, k + 1, k + 1))
        r = np.zeros((d, k + 1))
        squares = np.zeros(d)
        counts = np.zeros(d)
        likelihood = 0.0
        for x in X:
            o = np.flatnonzero(~np.isnan(x))
            Co = C[:, o]
            residual = x[o] - b[o]
            M = np.eye(k) + (Co / v[o]) @ Co.T
            S = np.linalg.inv(M)
            mean = S @ (Co / v[o]) @ residual
            quadratic = residual @ (residual / v[o]) - mean @ M @ mean
            logs = np.log(v[o]).sum() + np.linalg.slogdet(M)[1]
            likelihood -= (len(o) * np.log(2 * np.pi) + logs + quadratic) / 2
            first = np.append(mean, 1.0)
            second = np.outer(first, first)
            second[:k, :k] += S
            A[o] += second
            r[o] += x[o, None] * first
            squares[o] += x[o] ** 2
            counts[o] += 1
        history.append(likelihood)
        W = np.linalg.solve(A, r[:, :, None])[:, :, 0]
        C = W[:, :k].T
        b = W[:, k]
        v = (squares - (W * r).sum(axis=1)) / counts
        if len(history) > 1 and history[-1] - history[-2] < tol * abs(history[-1]):
            break
    return history


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_complete_tables_are_those_of_scikit_learn(k, seed):
    X = table(500, 15, k, seed, least_noise=1.0)
    ours = FactorAnalysis(k, **EXACT).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # until nothing changes
        theirs = CompleteFactorAnalysis(k, tol=0.0, max_iter=1000, svd_method="lapack").fit(X)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-6)
    size = np.abs(theirs.get_covariance()).max()
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-6 * size)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-6)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-6)
    span = np.abs(ours.transform(X).T @ theirs.transform(X)) / len(X)
    assert np.linalg.matrix_rank(span, 0.05) == k


@pytest.mark.parametrize("seed", range(3))
def test_one_noise_is_probabilistic_pca(seed):
    X = table(seed=seed)
    ours = FactorAnalysis(3, noise="shared", **EXACT).fit(X)
    theirs = PCA(3).fit(X)
    share = (len(X) - 1) / len(X)  # maximum likelihood divides by n
    assert ours.noise_variance_ == pytest.approx(share * theirs.noise_variance_, rel=1e-6)
    np.testing.assert_allclose(ours.get_covariance(), share * theirs.get_covariance(), rtol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_is_that_of_the_likelihood(shared):
    rng = np.random.default_rng(3)
    X = with_missing(table(40, 6))
    X[5] = np.nan
    problem = NormalTable(X, 2, shared, rng.uniform(0.5, 2.0, 40))
    units = ParameterVector(problem)
    at = units.pack(problem.start())
    at += 0.1 * rng.normal(size=at.shape)
    numeric = scipy.optimize.approx_fprime(at, lambda x: units.value_and_gradient(x)[0], 1e-6)
    np.testing.assert_allclose(units.value_and_gradient(at)[1], numeric, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*has no observed entry")
def test_the_objective_is_the_density_of_scipy():
    X = with_missing(table(60, 6))
    X[7] = np.nan
    model = FactorAnalysis(2).fit(X)
    expected = log_likelihood(X, model.components_, model.mean_, model.noise_variance_)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-6, atol=1e-10)
    assert model.objective_ == pytest.approx(-expected.sum(), rel=1e-7)


@pytest.mark.parametrize("seed", range(2))
def test_the_likelihood_is_no_worse_than_that_of_textbook_em_in_a_fraction_of_its_time(seed):
    X = with_missing(table(150, 8, seed=seed), seed=seed)
    started = time.process_time()
    model = FactorAnalysis(3).fit(X)
    ours = time.process_time() - started
    started = time.process_time()
    history = textbook_em(X, 3, 100, 1e-7)
    theirs = time.process_time() - started
    assert np.diff(history).min() > -1e-6
    assert -model.objective_ >= history[-1]
    print(
        f"likelihood {-model.objective_:.4f}, EM {history[-1]:.4f}; CPU share {ours / theirs:.3f}"
    )


def test_equal_patterns_are_merged_and_change_nothing():
    X = table(200, 6)
    X[50:90, 2] = np.nan
    X[120:123, :2] = np.nan
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    problem = NormalTable(X, 2, row_weights=weights)
    assert len(PatternRows.of(X, weights).rows) < 30
    model = problem.start()
    expected = weights @ log_likelihood(X, model.components, model.offsets, model.noise)
    assert problem.objective(model) == pytest.approx(-expected, rel=1e-10)


def test_the_number_of_components_is_found():
    for k in (1, 2, 4):
        X = with_missing(table(600, 12, k, seed=k), 0.1)
        model = FactorAnalysis().fit(X)
        assert model.n_components_ == k
        assert model.bic_.argmin() == k - 1


def test_missing_entries_are_filled_by_their_conditional_mean():
    X = with_missing(table(400, 8))
    model = FactorAnalysis(3).fit(X)
    covariance = model.get_covariance()
    x = X[0]
    seen = ~np.isnan(x)
    gain = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    expected = model.mean_[~seen] + gain @ (x[seen] - model.mean_[seen])
    np.testing.assert_allclose(model.complete(X[:1])[0, ~seen], expected, rtol=1e-8)
    spread = covariance[np.ix_(~seen, ~seen)] - gain @ covariance[np.ix_(seen, ~seen)]
    low, high = model.complete_interval(X[:1], level=0.9)
    half = 1.6448536 * np.sqrt(np.diag(spread))
    np.testing.assert_allclose((high - low)[0, ~seen] / 2, half, rtol=1e-6)
    np.testing.assert_array_equal(low[0, seen], x[seen])


def test_intervals_cover_the_entries_that_were_hidden():
    covered = []
    for seed in range(3):
        X = table(400, 10, seed=seed)
        hidden = with_missing(X, 0.2, seed)
        low, high = FactorAnalysis().fit(hidden).complete_interval(hidden, level=0.9)
        missing = np.isnan(hidden)
        covered.append(((low <= X) & (X <= high))[missing].mean())
    assert 0.87 <= np.mean(covered) <= 0.93


def test_noise_sets_the_strength_of_a_trace_norm():
    rng = np.random.default_rng(4)
    truth = 2 * rng.normal(size=(200, 3)) @ rng.normal(size=(3, 40))
    X = with_missing(truth + 0.5 * rng.normal(size=truth.shape), 0.2)
    noise = FactorAnalysis(noise="shared").fit(X)
    assert noise.noise_variance_ == pytest.approx(0.25, rel=0.1)
    settings = {"scale": False, "debias": False, "random_state": 0}
    given = ConvexSubspace(alpha=noise.alpha_, **settings).fit(X)
    assert len(given.components_) == 3
    chosen = ConvexSubspace(alpha="auto", **settings).fit(X)
    errors = []
    for model in (given, chosen):
        predicted = model.inverse_transform(model.codes_)
        errors.append(np.sqrt(np.square(predicted - truth).mean()))
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.filterwarnings("ignore:.*have no observed entry")
def test_empty_rows_and_columns_and_constant_ones_leave_finite_numbers():
    X = with_missing(table(50, 6))
    X[3] = np.nan
    X[:, 2] = 7.0
    X[:, 4] = np.nan
    model = FactorAnalysis(2).fit(X)
    assert np.isfinite(model.components_).all() and np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.complete(X)).all()
    np.testing.assert_allclose(model.codes_[3], 0.0, atol=1e-12)
    assert model.mean_[2] == 7.0
    assert model.objective_ == pytest.approx(-model.score_samples(X).sum())


@pytest.mark.parametrize("noise", ["columns", "shared"])
def test_units_and_precision_are_those_of_the_table(noise):
    X = with_missing(table(80, 6))
    model = FactorAnalysis(2, noise, **EXACT).fit(X)
    scaled = FactorAnalysis(2, noise, **EXACT).fit(1e6 * X)
    size = np.abs(scaled.components_).max()
    np.testing.assert_allclose(scaled.components_, 1e6 * model.components_, atol=1e-4 * size)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.codes_, rtol=1e-3, atol=1e-4)


def test_wrong_parameters_are_refused():
    X = table(20, 4)
    with pytest.raises(ValueError, match="more than the 4 columns"):
        FactorAnalysis(5).fit(X)
    with pytest.raises(ValueError, match="no observed entry"):
        FactorAnalysis().fit(np.full((4, 3), np.nan))
    with pytest.raises(AttributeError, match="learned noise"):
        FactorAnalysis(1).fit(X).gap_  # noqa: B018
