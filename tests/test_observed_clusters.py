"""Missing entries and kernels in BregmanKMeans and BregmanMixture; collapsed fits."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from regfactor import BregmanKMeans, BregmanMixture
from regfactor.core.loop import Limits
from regfactor.core.params import UnsupportedProblem
from regfactor.losses.divergences import DIVERGENCES
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.observed_clusters import ObservedClusters
from regfactor.solvers.base import solve_within

SEPARABLE = sorted(name for name, part in DIVERGENCES.items() if part.separable)
WHOLE_ROWS = sorted(set(DIVERGENCES) - set(SEPARABLE))


def blobs(name, n=90, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    Z = rng.normal(0, 2, (3, d))[y] + 0.5 * rng.normal(size=(n, d))
    if name == "kl":
        return rng.poisson(np.exp(Z / 2 + 1)).astype(float), y
    if name == "itakura_saito":
        return np.exp(Z), y
    if name == "bernoulli":
        return (Z > 0).astype(float), y
    return Z, y


def with_gaps(X, share=0.2, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def test_separable_divergences_are_known():
    assert {"squared", "kl", "itakura_saito", "bernoulli", "absolute"} <= set(SEPARABLE)
    assert {"mahalanobis", "softmax"} <= set(WHOLE_ROWS)


@pytest.mark.parametrize("name", SEPARABLE)
def test_divergences_are_sums_over_observed_entries(name):
    X, _ = blobs(name)
    divergence = DIVERGENCES[name]
    gaps = with_gaps(X)
    problem = ObservedClusters(gaps, None, divergence, 3)
    M = divergence.centers(X, np.random.default_rng(0).dirichlet(np.ones(3), len(X)))
    found = problem.distances(M)
    expected = np.zeros_like(found)
    for c in range(X.shape[1]):
        seen = ~np.isnan(gaps[:, c])
        for j, m in enumerate(M):
            centers = np.full((seen.sum(), 1), m[c])
            expected[seen, j] += divergence.paired(gaps[seen][:, [c]], centers)
    np.testing.assert_allclose(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize("sharpness", [None, 0.7])
def test_with_nothing_missing_it_is_the_same_problem(name, sharpness):
    X, _ = blobs(name)
    w = np.random.default_rng(2).uniform(0.5, 2, len(X))
    divergence = DIVERGENCES[name]
    start = ClusterPoint(X[:3] * 0.9 + 0.1 * X.mean(axis=0), shares=np.full(3, 1 / 3))
    limits = Limits(max_iter=500, tol=1e-10)
    whole = solve_within(Clusters(X, w, divergence, 3, None, sharpness), limits, start)
    observed = solve_within(ObservedClusters(X, w, divergence, 3, None, sharpness), limits, start)
    assert observed.objective == pytest.approx(whole.objective, rel=1e-6)
    np.testing.assert_allclose(observed.point.centers, whole.point.centers, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", SEPARABLE)
def test_kmeans_and_mixtures_take_missing_entries(name):
    X, y = blobs(name)
    gaps = with_gaps(X)
    gaps[4] = np.nan
    hard = BregmanKMeans(3, divergence=name, n_init=5, random_state=0).fit(gaps)
    history = [step.objective for step in hard.history_] if hasattr(hard, "history_") else []
    assert all(b <= a * (1 + 1e-9) + 1e-9 for a, b in zip(history, history[1:], strict=False))
    np.testing.assert_array_equal(hard.predict(gaps), hard.labels_)
    D = hard.transform(gaps)
    assert hard.inertia_ == pytest.approx(D.min(axis=1).sum(), rel=1e-6)
    assert hard.score(gaps) == pytest.approx(-hard.inertia_, rel=1e-6)
    assert np.isfinite(hard.cluster_centers_).all()
    seen = np.arange(len(y)) != 4
    assert adjusted_rand_score(y[seen], hard.labels_[seen]) > 0.6
    soft = BregmanMixture(3, divergence=name, random_state=0).fit(gaps)
    shares = soft.predict_proba(gaps)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares[4], soft.weights_)
    assert adjusted_rand_score(y[seen], soft.predict(gaps)[seen]) > 0.6
    assert np.isfinite(soft.score_samples(gaps)).all()


@pytest.mark.parametrize("estimator", [BregmanKMeans, BregmanMixture])
def test_new_rows_may_have_missing_entries_after_a_fit_on_whole_ones(estimator):
    X, y = blobs("squared")
    model = estimator(3, random_state=0, n_init=5).fit(X)
    assert adjusted_rand_score(model.predict(X), model.predict(with_gaps(X, 0.1))) > 0.9
    weights = np.random.default_rng(0).integers(1, 3, len(X))
    gaps = with_gaps(X)
    a = estimator(3, random_state=0, n_init=5).fit(gaps, sample_weight=weights)
    b = estimator(3, random_state=0, n_init=5).fit(np.repeat(gaps, weights, axis=0))
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-3)


@pytest.mark.parametrize("estimator", [BregmanKMeans, BregmanMixture])
def test_what_needs_whole_rows_refuses_missing_entries(estimator):
    gaps = with_gaps(blobs("squared")[0])
    for options in ({"divergence": "mahalanobis"}, {"kernel": "rbf"}):
        with pytest.raises(ValueError, match="NaN"):
            estimator(3, **options).fit(gaps)
    gaps[:, 2] = np.nan
    with pytest.raises(ValueError, match="Column 2 has no observed entry"):
        estimator(3).fit(gaps)
    counts = with_gaps(blobs("kl")[0])
    counts[1, 1] = -1
    with pytest.raises(ValueError, match="Negative values in data"):
        estimator(3, divergence="kl").fit(counts)
    with pytest.raises(UnsupportedProblem, match="whole rows"):
        ObservedClusters(gaps, None, DIVERGENCES["mahalanobis"], 2).check()


def rings(n=160, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 0, 0.3, 3.0) + 0.1 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def test_a_linear_kernel_gives_the_mixture_of_rows():
    X, _ = blobs("squared")
    rows = BregmanMixture(3, sharpness=1.5, random_state=0).fit(X)
    kernel = BregmanMixture(3, sharpness=1.5, kernel="linear", random_state=0).fit(X)
    assert kernel.objective_ == pytest.approx(rows.objective_, rel=1e-5)
    order = np.argsort(rows.weights_)
    np.testing.assert_allclose(np.sort(kernel.weights_), rows.weights_[order], atol=1e-3)
    np.testing.assert_allclose(
        kernel.score_samples(X[:9]), rows.score_samples(X[:9]), atol=1e-2, rtol=1e-3
    )
    given = BregmanMixture(3, sharpness=1.5, kernel="precomputed", random_state=0).fit(X @ X.T)
    assert given.objective_ == pytest.approx(rows.objective_, rel=1e-5)
    assert adjusted_rand_score(given.predict(X @ X.T), rows.predict(X)) == 1
    assert not hasattr(kernel, "means_")


def test_a_kernel_mixture_parts_rings():
    X, y = rings()
    model = BregmanMixture(2, kernel="rbf", gamma=1.0, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.predict(X)) > 0.9
    assert adjusted_rand_score(y, BregmanMixture(2, random_state=0).fit_predict(X)) < 0.5
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(UnsupportedProblem, match="divergence='squared'"):
        BregmanMixture(2, divergence="kl", kernel="rbf").fit(np.abs(X))


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"gaps": True}])
def test_a_collapsed_fit_gives_a_warning(options):
    X = np.random.default_rng(0).normal(size=(80, 3))
    if options.pop("gaps", False):
        X = with_gaps(X, 0.1)
    with pytest.warns(UserWarning, match="as good as one cluster"):
        BregmanMixture(3, sharpness=1e-3, random_state=0, **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BregmanMixture(3, sharpness=50.0, random_state=0, **options).fit(X)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"divergence": "mahalanobis"}])
def test_more_components_than_distinct_rows_part_these_with_a_warning(options):
    rows = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    y = np.random.default_rng(0).integers(0, 3, 40)
    model = BregmanMixture(5, random_state=0, **options)
    with pytest.warns(ConvergenceWarning, match=r"only 3 distinct rows.*n_components=5"):
        model.fit(rows[y])
    assert adjusted_rand_score(y, model.predict(rows[y])) == 1
    assert np.isfinite(model.score_samples(rows[y])).all()
    shares = model.predict_proba(rows[y])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    hard = BregmanKMeans(5, random_state=0, **options)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\)"):
        assert adjusted_rand_score(y, hard.fit_predict(rows[y])) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BregmanMixture(3, random_state=0, **options).fit(rows[y])
