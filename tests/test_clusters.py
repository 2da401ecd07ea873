"""Clustering: centers, labels and objectives against definitions, scikit-learn, and identities of the papers."""

import itertools
import pickle
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.base import clone, is_clusterer
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import (
    DIVERGENCES as EVERY_DIVERGENCE,
)
from catalogue import (
    POTENTIALS,
    RANDOM_START,
    cases,
    rng,
)
from regfactor.clusters import mixture
from regfactor.clusters.kmeans import BregmanKMeans
from regfactor.clusters.mixture import BregmanMixture
from regfactor.clusters.normalized_cut import BregmanNormalizedCut
from regfactor.kernels import Gaussian, as_kernel
from regfactor.losses import potentials
from regfactor.losses.distances import Affine, Divergence, Mahalanobis, weighted_median
from regfactor.losses.divergences import DIVERGENCES, BregmanDivergence, as_divergence
from regfactor.losses.sums import row_values
from regfactor.problems.clusters import Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers import EM, Lloyd, nearest, solve
from regfactor.solvers.row_steps import Means, RowSteps
from regfactor.testing import divergences as laws_of_divergences
from regfactor.testing.draws import draw_potential, draw_rows, is_rowwise

NAMES = sorted(DIVERGENCES)
every_divergence = pytest.mark.parametrize("name", NAMES)


REAL = {"check_clustering": "it draws negative numbers, whatever the tags of an estimator say"}


@parametrize_with_checks(
    [
        BregmanKMeans(divergence="absolute"),
        BregmanKMeans(divergence="kl"),
        BregmanMixture(divergence="kl"),
    ],
    expected_failed_checks=lambda e: RANDOM_START | (REAL if e.divergence == "kl" else {}),
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # of checks that allow few iterations
@pytest.mark.filterwarnings("ignore:The means of all")  # of sharpness 1, whatever the table
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def rows(name, n=300, d=4, k=3, seed=0):
    """Rows in three groups, in the domain of a divergence, its boundary included."""
    random = rng(seed)
    Z = 2 * random.normal(size=(k, d))[random.integers(k, size=n)] + 0.7 * random.normal(
        size=(n, d)
    )
    domain = DIVERGENCES[name].domain
    if is_bounded(domain):
        return np.where(Z > 0, domain.high, domain.low)
    if domain.low == 0 and domain.low_closed:
        return random.poisson(np.exp(Z / 2)).astype(float)
    if domain.low == 0:
        return np.exp(Z / 2)
    return Z


def is_bounded(domain):
    return np.isfinite([domain.low, domain.high]).all()


def inner(name, X):
    """Rows away from both ends of a bounded domain."""
    domain = DIVERGENCES[name].domain
    if not is_bounded(domain):
        return X
    margin = 0.2 * (domain.high - domain.low)
    return np.clip(X, domain.low + margin, domain.high - margin)


def fits(name, X, M, **parameters):
    return BregmanKMeans(len(M), name, init=M, **({"tol": 0.0} | parameters)).fit(X)


def definition(divergence, X, M):
    """D of all pairs, from the definition of each divergence, pair by pair."""
    out = np.empty((len(X), len(M)))
    for i, j in itertools.product(range(len(X)), range(len(M))):
        out[i, j] = divergence.divergence(X[i], M[j])
    return out


@pytest.mark.parametrize("potential", [pytest.param(p, id=name) for name, p in POTENTIALS.items()])
def test_matrix_products_give_the_divergence(potential):
    X, M = draw_potential(potential, 0, (30, 4)), draw_potential(potential, 1, (5, 4))
    anchor = draw_potential(potential, 2, (20, 4)).mean(axis=0)
    D = as_divergence(potential).between(X, M, anchor)
    np.testing.assert_allclose(D, definition(potential, X, M), rtol=1e-11, atol=1e-12)
    labels, gain = nearest.Centers(as_divergence(potential), M, anchor).nearest(X)
    np.testing.assert_array_equal(labels, definition(potential, X, M).argmin(axis=1))
    base = as_divergence(potential).between(X, anchor[None], anchor)
    assert gain == pytest.approx(base.sum() - D.min(axis=1).sum(), rel=1e-10)


@pytest.mark.parametrize("potential", [pytest.param(p, id=name) for name, p in POTENTIALS.items()])
def test_sums_of_the_potential_by_short_forms_are_its_values(potential):
    X = draw_potential(potential, 3, (40, 1100))
    if potential.domain.low_closed and not isinstance(potential, potentials.MultinomialEntropy):
        X[:3, :5] = potential.domain.low
    np.testing.assert_allclose(
        row_values(potential, X), potential.value(X).sum(axis=-1), rtol=1e-12
    )


def near_ties(random, n, d, k):
    """Rows between two centers, nearer to one by a billionth of their distance, and a center that stands twice."""
    M = random.gamma(2.0, size=(k, d))
    i, j = random.integers(k, size=(2, n))
    share = 0.5 + 1e-9 * random.choice([-1, 1], size=n)[:, None]
    M[-1] = M[0]
    return share * M[i] + (1 - share) * M[j], M


def heavy_tails(random, n, d, k):
    X = random.gamma(2.0, size=(n, d)) * 10.0 ** random.uniform(-6, 6, size=(n, 1))
    return X, X[:k]


def on_the_boundary(random, n, d, k):
    """Counts, and centers with zeros, where the slope of F is cut at 708."""
    X = random.poisson(0.7, size=(n, d)).astype(float)
    return X, X[:k]


def vanishing(random, n, d, k):
    """Rows whose squares are at the end of what float32 can hold."""
    X = 1e-22 * random.gamma(2.0, size=(n, d))
    return X, X[:k]


SCORED = {
    "near ties": near_ties,
    "heavy tails": heavy_tails,
    "boundary": on_the_boundary,
    "vanishing": vanishing,
    "huge": lambda *shape: tuple(1e30 * A for A in heavy_tails(*shape)),
}


@pytest.mark.parametrize("case", SCORED)
@pytest.mark.parametrize(("d", "k"), [(3, 10), (60, 10), (3, 150)])  # both layouts of the scores
@pytest.mark.parametrize("name", ["squared", "kl"])
def test_scores_in_single_precision_never_decide_wrongly(case, d, k, name):
    X, M = SCORED[case](rng(d + k), 2000, d, k)
    anchor = X.mean(axis=0)
    centers, sizes = (
        nearest.Centers(DIVERGENCES[name], M, anchor),
        np.linalg.norm(X, axis=1).astype(np.float32),
    )
    rough, exact = centers.nearest(X, sizes=sizes)[0], centers.nearest(X)[0]
    f, c = (a.astype(np.longdouble) for a in centers.gradients)
    scores = (X - anchor).astype(np.longdouble) @ f.T - c
    lost = scores.max(axis=1) - np.take_along_axis(scores, rough[:, None].astype(np.intp), 1)[:, 0]
    size = np.abs(X) @ np.abs(f).max(axis=0) + np.abs(f @ anchor).max() + np.abs(c).max()
    assert (lost <= 1e-14 * d * size).all()
    assert (rough == exact).mean() > 0.95  # they differ where float64 cannot tell either
    doubt = nearest.Doubt.of(f.astype(float), (c + f @ anchor).astype(float), sizes)
    assert (doubt is None) == (case == "huge")
    if case == "near ties" and name == "squared":  # what single precision alone would do
        single = (
            X.astype(np.float32) @ f.astype(np.float32).T - (c + f @ anchor).astype(np.float32)
        ).argmax(axis=1)
        off = scores.max(axis=1) - np.take_along_axis(scores, single[:, None], 1)[:, 0]
        assert (off > 1e-14 * d * size).mean() > 0.01


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["squared", "kl", "absolute"])
def test_of_equal_centers_the_first_has_the_rows(name, dtype):
    X = rng(0).gamma(2.0, size=(1300, 60)).astype(dtype)
    M = X[[0, 1, 2, 1, 3, 0, 4, 5, 6, 0, 7]].astype(float)
    centers, sizes = (
        nearest.Centers(DIVERGENCES[name], M, X.mean(axis=0, dtype=float)),
        np.linalg.norm(X, axis=1),
    )
    for rows, lengths in ((X, None), (X[:7], None), (X, sizes.astype(np.float32))):
        assert set(centers.nearest(rows, sizes=lengths)[0]) <= {0, 1, 2, 4, 6, 7, 8, 10}
    assert set(centers.nearest(X)[0]) > {0, 1}


@pytest.mark.parametrize("small", [True, False], ids=["tiles", "whole"])
@pytest.mark.parametrize("n", [1, 249, 250, 1251])
def test_scores_are_the_same_by_small_products_and_by_large_ones(n, small, monkeypatch):
    monkeypatch.setattr(nearest, "likes_small_products", lambda: small)
    X, f, c = rng(0).normal(size=(n, 40)), rng(1).normal(size=(9, 40)), rng(2).normal(size=9)
    assert nearest.MIN_TILED_SIZE <= f.size <= nearest.MAX_TILED_SIZE
    out = np.full((9, n), np.nan)
    nearest.AffineScores(f, np.ascontiguousarray(f.T), c, None).write(X, out)
    np.testing.assert_allclose(out, f @ X.T - c[:, None], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_of_many_rows_and_of_those_that_change_are_exact(dtype, weighted):
    X, labels = (
        (rng(0).normal(size=(70_000, 3)) + [0, 1, 2]).astype(dtype),
        rng(1).integers(4, size=70_000),
    )
    w = rng(2).gamma(1.0, size=70_000) if weighted else None
    means, old = Means(Clusters(X, w, DIVERGENCES["squared"], 5)), None
    for changed in (
        0,
        0,
        10,
        30_000,
        65_536,
    ):  # all rows, none, some of one chunk, and so many that all are added up again
        labels = labels.astype(np.int32)
        labels[:changed] = (labels[:changed] + 1) % 4
        masses = np.bincount(labels, w, minlength=5)
        M = means(labels, old, np.full((5, 3), 7.0), masses)
        sums = np.stack(
            [
                np.bincount(labels, x if w is None else w * x, minlength=5)
                for x in X.T.astype(float)
            ],
            1,
        )
        np.testing.assert_allclose(
            M[:4], sums[:4] / masses[:4, None], atol=2e-6 if dtype == np.float32 else 1e-13
        )
        np.testing.assert_array_equal(M[4], 7.0)
        old = labels.copy()


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(DIVERGENCES[n], Affine)])
def test_the_gain_follows_from_sums(name):
    X, w = rows(name), rng(1).gamma(1.0, size=300)
    M, divergence = X[:3] * 0.5 + 0.25, DIVERGENCES[name].at(np.cov(X.T))
    centers = nearest.Centers(divergence, M, np.average(X, axis=0, weights=w))
    labels, gain = centers.nearest(X, w)
    Z = w[:, None] * (labels[:, None] == np.arange(3))
    assert centers.gain(Z.T @ X, Z.sum(axis=0)) == pytest.approx(gain, rel=1e-11)


def test_closed_forms():
    one = np.ones((1, 1))
    for name, x, m, value in [
        ("itakura_saito", 2.0, 1.0, 1 - np.log(2)),
        ("kl", 2.0, 1.0, 2 * np.log(2) - 1),
        ("cube", 0.0, 1.0, 0.75),
        ("exp", 1.0, 0.0, np.e - 2),
        ("sigmoid", 0.0, 1.5, np.log(2) - np.log1p(np.exp(1.5)) + 1.5 / (1 + np.exp(-1.5))),
        ("squared", 3.0, 1.0, 2.0),
        ("absolute", 3.0, 1.0, 2.0),
    ]:
        assert DIVERGENCES[name].between(x * one, m * one, 0.7 * one[0])[0, 0] == pytest.approx(
            value, rel=1e-13
        )


def test_softmax_divergence_does_not_see_shifts_of_rows():
    X, M = rng(0).normal(size=(20, 5)), rng(1).normal(size=(3, 5))
    softmax = DIVERGENCES["softmax"]
    shifted = softmax.between(
        X + rng(2).normal(size=(20, 1)), M + rng(3).normal(size=(3, 1)), X.mean(axis=0)
    )
    np.testing.assert_allclose(shifted, softmax.between(X, M, X.mean(axis=0)), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [3, 150])  # the two layouts of the scores
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_squared_clusters_are_those_of_scikit_learn(weighted, k, offset):
    X = rows("squared", n=4500, d=2) + offset
    w = rng(1).gamma(1.0, size=len(X)) if weighted else None
    M = X[:k]
    for tol in (0.0, 1e-3):
        theirs = KMeans(k, init=M, n_init=1, tol=tol).fit(X, sample_weight=w)
        ours = BregmanKMeans(k, init=M, tol=tol).fit(X, sample_weight=w)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-9)
        assert ours.inertia_ == pytest.approx(theirs.inertia_ / 2, rel=1e-9)
        np.testing.assert_array_equal(ours.predict(X[:50]), theirs.predict(X[:50]))
        apart = np.square(X[:50, None] - ours.cluster_centers_).sum(axis=2) / 2
        np.testing.assert_allclose(ours.transform(X[:50]), apart, rtol=1e-8, atol=1e-9)


@every_divergence
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31))
def test_the_objective_never_rises_and_is_that_of_the_labels(name, seed):
    X = rows(name, n=60, seed=seed)
    w = rng(seed).integers(0, 3, len(X)).astype(float) if seed % 2 else np.ones(len(X))
    k = min(6, len(np.unique(X[w > 0], axis=0)))  # some draws of bits have fewer different rows
    model = BregmanKMeans(k, name, init="random", n_init=1, tol=0.0, random_state=seed % 1000).fit(
        X, sample_weight=w
    )
    values = np.array([record.objective for record in model.history_])
    assert (np.diff(values) <= 1e-9 * (1 + np.abs(values[0]))).all()
    D = model.transform(X)
    assert (D >= 0).all() and np.isfinite(D).all()
    own = D[np.arange(len(X)), model.labels_]
    np.testing.assert_allclose(own, D.min(axis=1), atol=1e-9 * (1 + D.min(axis=1).max()))
    assert model.inertia_ == pytest.approx(w @ own, rel=1e-8, abs=1e-8)
    assert model.score(X, sample_weight=w) == pytest.approx(-model.inertia_, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("law", laws_of_divergences.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("divergence", cases(EVERY_DIVERGENCE))
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31))
def test_law(divergence, law, seed):
    law(laws_of_divergences.DivergenceCase(divergence, seed=seed))


class HalfSquares(Divergence):
    """The squared distance as a divergence that is not stated as affine; its center is a mean."""

    def get_params(self, deep=True):
        return {}

    def center(self, X, weights=None):
        return np.average(X, axis=0, weights=weights)

    def between(self, X, M, anchor, base=None):
        return np.square(X[:, None] - M).sum(axis=2) / 2

    def paired(self, X, M):
        return np.square(X - M).sum(axis=1) / 2


def test_a_divergence_states_its_own_center():
    X = rows("squared")
    w = rng(0).integers(0, 3, 300).astype(float)
    M = X[:3]
    own, known = (
        BregmanKMeans(3, D, init=M, tol=0.0).fit(X, sample_weight=w)
        for D in (HalfSquares(), "squared")
    )
    np.testing.assert_allclose(own.cluster_centers_, known.cluster_centers_, rtol=1e-9)
    own, known = (
        BregmanMixture(3, D, random_state=0, tol=1e-10).fit(X, sample_weight=w)
        for D in (HalfSquares(), "squared")
    )
    np.testing.assert_allclose(own.means_, known.means_, rtol=1e-6)


def test_a_divergence_without_a_center_cannot_be_stated():
    class NoCenter(Divergence):
        between = HalfSquares.between
        paired = HalfSquares.paired

    with pytest.raises(TypeError, match="center"):
        NoCenter()


@pytest.mark.parametrize("name", ["exp", "kl", "bernoulli", "cube"])
@pytest.mark.parametrize("weighted", [False, True])
def test_empty_clusters_are_given_the_same_rows_by_rough_divergences(name, weighted, monkeypatch):
    """Exact divergences of all rows took longer than all iterations of k-means."""
    X = np.clip(rng(0).random((6, 5))[rng(1).integers(6, size=900)], 0.1, 0.9)
    X += 0.05 * rng(2).random((900, 5))
    w = rng(3).integers(0, 3, 900).astype(float) if weighted else None
    M = np.vstack([X[:4], X[:4] * 0.5 + 0.01])  # nobody is nearest to the last ones
    fit = BregmanKMeans(8, name, init=M, tol=0.0).fit(X, sample_weight=w)
    exact = nearest.Centers.own
    monkeypatch.setattr(
        RowSteps, "_own_costs", lambda steps, centers, labels, count: exact(centers, X, labels)
    )
    slow = BregmanKMeans(8, name, init=M, tol=0.0).fit(X, sample_weight=w)
    assert np.bincount(fit.labels_, minlength=8).all()
    np.testing.assert_array_equal(fit.labels_, slow.labels_)
    np.testing.assert_array_equal(fit.cluster_centers_, slow.cluster_centers_)


@pytest.mark.parametrize("make", [BregmanKMeans, BregmanMixture])
def test_a_given_covariance_is_kept(make):
    X = rows("squared", n=200) @ np.diag([3.0, 1.0, 0.5, 2.0])
    S = np.cov(X.T) + 0.1
    model = make(3, Mahalanobis(covariance=S), random_state=0).fit(X)
    np.testing.assert_array_equal(model.covariance_, S)
    white = np.linalg.solve(np.linalg.cholesky(S), X.T).T
    if make is BregmanKMeans:
        plain = make(3, n_init=10, random_state=0).fit(white)
    else:
        plain = make(3, sharpness=1.0, random_state=0).fit(white)
    np.testing.assert_array_equal(model.predict(X), plain.predict(white))
    cost = 100 * np.linalg.slogdet(S)[1]  # W/2 log det S
    assert model.objective_ == pytest.approx(plain.objective_ + cost, rel=1e-9)


@pytest.mark.parametrize(
    ("S", "message"),
    [(np.eye(3), r"shape \(4, 4\)"), (-np.eye(4), "positive definite"), (np.tri(4), "symmetric")],
)
def test_a_given_covariance_is_checked(S, message):
    with pytest.raises(ValueError, match=message):
        BregmanKMeans(3, Mahalanobis(covariance=S)).fit(rows("squared"))


def test_starts_that_the_time_limit_leaves_out_are_reported():
    def wait(iterate):
        if iterate.settled:
            time.sleep(0.3)

    model = BregmanKMeans(3, init="random", n_init=5, time_limit=0.2, random_state=0, callback=wait)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(rows("squared"))
    assert model.status_.name == "TIME_LIMIT"


@pytest.mark.parametrize("sharpness", [None, 2.0])
def test_clusters_are_solved_as_any_problem(sharpness):
    X = rows("squared") + 10 * np.eye(3, 4)[np.arange(300) % 3]
    codes = np.where(np.arange(300) < 9, (np.arange(300) + 1) % 3, -1)
    free = Clusters(X, None, DIVERGENCES["squared"], 3, sharpness=sharpness)
    known = Clusters(X, None, DIVERGENCES["squared"], 3, codes, sharpness)
    solution = solve(free, random_state=1, max_iter=500)
    assert solution.solver == ("Lloyd" if sharpness is None else "EM")
    assert solution.status.converged and solution.point.centers.shape == (3, 4)
    assert solve(known).objective >= solution.objective * (1 - 1e-3)
    with pytest.raises(ValueError, match="sharpness"):
        (EM() if sharpness is None else Lloyd()).check(free)
    K = as_kernel("rbf", 0.1).gram(X)
    ones = np.ones(300)
    cut = KernelClusters(K.__getitem__, ones, ones, ones, 3, codes, sharpness)
    assert solve(cut).status.converged
    if sharpness is None:
        model = BregmanKMeans(3, init=solution.point.centers, tol=0.0).fit(X)
        assert solution.objective == pytest.approx(model.objective_, rel=1e-3)
        np.testing.assert_array_equal(solve(known).point.labels[:9], codes[:9])
        np.testing.assert_array_equal(solve(cut).point.labels[:9], codes[:9])


@pytest.mark.parametrize("codes", [np.zeros(3, int), np.full(300, 3), np.full(300, -2)])
def test_invalid_known_clusters_are_refused(codes):
    problem = Clusters(rows("squared"), None, DIVERGENCES["squared"], 3, codes)
    with pytest.raises(ValueError, match="codes must hold a cluster from 0 to 2"):
        solve(problem)


@every_divergence
def test_centers_are_the_best_of_their_clusters(name):
    X, w = rows(name), rng(5).integers(1, 4, 300).astype(float)
    model = BregmanKMeans(3, name, tol=0.0, random_state=0).fit(X, sample_weight=w)
    for j in range(3):
        own, mass = X[model.labels_ == j], w[model.labels_ == j]
        many = np.repeat(own, mass.astype(int), axis=0)
        if isinstance(DIVERGENCES[name], Affine):
            best = many.mean(axis=0)
        else:
            best = DIVERGENCES[name].center(many)
        np.testing.assert_allclose(model.cluster_centers_[j], best, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def has_separable_potential(name):
    part = DIVERGENCES[name]
    return isinstance(part, BregmanDivergence) and not part.potential.rowwise


@pytest.mark.parametrize("name", [*filter(has_separable_potential, NAMES)])
def test_the_objective_is_the_bregman_information(name):
    """sum_j [sum_{i in j} F(x_i) - n_j F(mean_j)]."""
    X, F = rows(name), DIVERGENCES[name].potential
    model = BregmanKMeans(3, name, tol=0.0, random_state=0).fit(X)
    information = sum(
        F.value(X[model.labels_ == j]).sum()
        - (model.labels_ == j).sum() * F.value(X[model.labels_ == j].mean(0)).sum()
        for j in range(3)
    )
    assert model.objective_ == pytest.approx(information, rel=1e-9)


@every_divergence
def test_a_weight_stands_for_equal_rows(name):
    X, w = rows(name, n=80), rng(1).integers(0, 4, 80)
    M = inner(name, X[:3] + 0.1)
    many = np.repeat(X, w, axis=0)
    a = BregmanKMeans(3, name, init=M, tol=0.0).fit(X, sample_weight=w)
    b = BregmanKMeans(3, name, init=M, tol=0.0).fit(many)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(np.repeat(a.labels_, w), b.labels_)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-8)


@every_divergence
def test_float32_stays_float32_and_agrees(name):
    X = rows(name, n=2000)
    if is_bounded(DIVERGENCES[name].domain):
        X = draw_rows(DIVERGENCES[name], 0, 2000)
    M = X[:3] * 0.5 + 0.25
    double, single = fits(name, X, M), fits(name, X.astype(np.float32), M)
    assert (
        single.cluster_centers_.dtype
        == single.transform(X[:5].astype(np.float32)).dtype
        == np.float32
    )
    assert (single.labels_ == double.labels_).mean() > 0.99
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-3)


@pytest.mark.parametrize("name", ["squared", "mahalanobis"])
@pytest.mark.parametrize("offset", [3e2, 1e4, 1e5])
def test_float32_far_from_the_origin(name, offset):
    """Of many rows too: sums of these in float32 would be off by more than the clusters are wide."""
    X = (rows("squared", n=60_000) + offset).astype(np.float32)
    M = X[[0, 1, 2]].astype(float)
    single, double = fits(name, X, M), fits(name, X.astype(float), M)
    assert (single.labels_ == double.labels_).mean() > 0.999
    np.testing.assert_allclose(
        single.cluster_centers_, double.cluster_centers_, rtol=1e-6, atol=1e-3
    )
    assert single.inertia_ == pytest.approx(double.inertia_, rel=1e-3)
    objectives = np.array([it.objective for it in single.history_])
    assert (np.diff(objectives) <= 1e-5 * abs(objectives[0])).all()


@pytest.mark.parametrize("name", ["squared", "mahalanobis"])
def test_float32_columns_of_far_units_and_weights_of_any_size(name):
    X = rng(0).normal(size=(4000, 2)) * [1e5, 1.0] + [0.0, 1e6]
    X = X.astype(np.float32)
    M = X[:3].astype(float)
    single, double = fits(name, X, M), fits(name, X.astype(float), M)
    assert single.inertia_ == pytest.approx(double.inertia_, rel=1e-3)
    w = np.full(len(X), 1e-300)
    light = BregmanKMeans(3, name, init=M, tol=0.0).fit(X, sample_weight=w)
    assert light.inertia_ / 1e-300 == pytest.approx(single.inertia_, rel=1e-3)


@every_divergence
def test_sparse_tables_are_read_with_zeros(name):
    X = rows(name)
    if not DIVERGENCES[name].domain.contains(np.zeros(1)).all():
        with pytest.raises(ValueError, match="column 0"):
            BregmanKMeans(3, name).fit(scipy.sparse.eye_array(5).tocsr())
        return
    X[rng(0).random(X.shape) < 0.5] = 0
    M = X[:3] * 0.5 + 0.25
    dense, sparse = fits(name, X, M), fits(name, scipy.sparse.csr_array(X), M)
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    assert dense.objective_ == pytest.approx(sparse.objective_, rel=1e-10)
    np.testing.assert_allclose(
        sparse.transform(scipy.sparse.csr_array(X)), dense.transform(X), atol=1e-9
    )


@pytest.mark.parametrize("name", ["squared", "kl", "sigmoid", "absolute"])
def test_absent_zeros_take_no_memory(name):
    X = scipy.sparse.random_array((3000, 5000), density=1e-3, rng=rng(0), format="csr")
    tracemalloc.start()
    fit = BregmanKMeans(3, name, random_state=0, max_iter=20).fit(X, sample_weight=np.arange(3000))
    fit.score(X)
    with pytest.raises(ValueError, match=f"column {X.indices[0]}: 1 of 3000 values"):
        BregmanKMeans(3, "kl").fit(
            scipy.sparse.csr_array((np.append(-1.0, X.data[1:]), X.indices, X.indptr), X.shape)
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * 3000 * 5000


@pytest.mark.parametrize("potential", [pytest.param(p, id=name) for name, p in POTENTIALS.items()])
def test_sparse_rows_are_read_as_they_stand(potential):
    divergence = as_divergence(potential)
    X, M = draw_potential(potential, 0, (30, 40)), draw_potential(potential, 1, (5, 40))
    anchor = draw_potential(potential, 2, (20, 40)).mean(axis=0)
    if not divergence.additive:
        assert is_rowwise(potential) or not potential.domain.contains(np.zeros(1)).any()
        return
    X[rng(3).random(X.shape) < 0.8] = 0
    sparse = scipy.sparse.csr_array(X)
    for of in (
        lambda Y: divergence.between(Y, M, anchor),
        divergence.values,
        lambda Y: divergence.base(Y, anchor),
    ):
        np.testing.assert_allclose(of(sparse), of(X), rtol=1e-11, atol=1e-11)
    for w in (None, rng(4).random(30)):
        assert divergence.statistics(sparse, w, anchor) == pytest.approx(
            divergence.statistics(X, w, anchor), rel=1e-11
        )
    centers, labels = nearest.Centers(divergence, M, anchor), np.arange(30) % 5
    np.testing.assert_allclose(
        centers.own(sparse, labels), centers.own(X, labels), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize(
    ("dtype", "shift", "tol"), [("float64", 1e7, 1e-7), ("float32", 1e5, 1e-4)]
)
@pytest.mark.parametrize("name", ["squared", "kl"])
def test_sparse_rows_far_from_zero_are_clustered_as_dense_ones(name, dtype, shift, tol):
    X = load_iris().data.astype(dtype)
    X[:, 0] += shift  # in every row, next to a column with many zeros
    X[:, 1] *= rng(0).random(150) < 0.3
    dense, sparse = (
        BregmanKMeans(3, name, n_init=10, random_state=0).fit(table)
        for table in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    assert sparse.inertia_ == pytest.approx(dense.inertia_, rel=tol)
    assert -sparse.score(scipy.sparse.csr_array(X)) == pytest.approx(sparse.inertia_, rel=tol)


def test_columns_far_from_zero_keep_their_digits_in_sparse_tables():
    X = rows("squared") * (rng(1).random((300, 4)) < 0.4)
    X[:, 0] += 1e8
    dense, sparse = fits("squared", X, X[:3]), fits("squared", scipy.sparse.csr_array(X), X[:3])
    np.testing.assert_allclose(
        sparse.transform(scipy.sparse.csr_array(X)), dense.transform(X), atol=1e-6
    )


@pytest.mark.parametrize("name", ["squared", "kl", "sigmoid"])
def test_no_row_is_made_dense_to_be_compared(name, monkeypatch):
    X = scipy.sparse.csr_array(rows(name) * (rng(1).random((300, 4)) < 0.4))
    fit = BregmanKMeans(3, name, random_state=0).fit(X)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", None)
    fit.transform(X)
    fit.score(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_tables_have_the_variance_of_dense_ones(weighted):
    X = rows("squared") * (rng(1).random((300, 4)) < 0.4)
    w = rng(2).random(300) if weighted else None
    dense, sparse = (
        Clusters(Y, w, as_divergence("squared"), 3) for Y in (X, scipy.sparse.csr_array(X))
    )
    assert sparse.spread.variance == pytest.approx(dense.spread.variance, rel=1e-12)


def test_numbers_outside_are_counted_in_sparse_tables():
    X = np.array([[0.0, 1.0, -2.0], [-1.0, 1.0, 0.0], [0.0, 1.0, 3.0]])
    for name in ("kl", "itakura_saito"):
        with pytest.raises(ValueError) as dense:
            BregmanKMeans(2, name).fit(X)
        with pytest.raises(ValueError) as sparse:
            BregmanKMeans(2, name).fit(scipy.sparse.csr_array(X))
        assert str(sparse.value) == str(dense.value)


def test_entries_stored_twice_are_added_up():
    X = rows("kl")
    i, j = np.nonzero(X)
    order = np.repeat(np.lexsort((j, i)), 2)
    twice = scipy.sparse.csr_array(
        (X[i, j][order] / 2, j[order], 2 * np.append(0, np.cumsum((X > 0).sum(axis=1))))
    )
    given = twice.copy()
    dense, sparse = fits("kl", X, X[:3] + 0.25), fits("kl", twice, X[:3] + 0.25)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-10)
    np.testing.assert_allclose(sparse.transform(twice), dense.transform(X), rtol=1e-9, atol=1e-9)
    assert twice.nnz == given.nnz and np.array_equal(twice.data, given.data)


def test_centers_on_the_boundary_are_exact_and_finite():
    X = np.array([[0.0, 5.0], [0.0, 6.0], [7.0, 0.0], [8.0, 0.0]])
    model = fits("kl", X, np.array([[1.0, 5.0], [5.0, 1.0]]))
    np.testing.assert_array_equal(model.cluster_centers_, [[0.0, 5.5], [7.5, 0.0]])
    D = model.transform(X)
    own = [
        5 * np.log(5 / 5.5) + 0.5,
        6 * np.log(6 / 5.5) - 0.5,
        7 * np.log(7 / 7.5) + 0.5,
        8 * np.log(8 / 7.5) - 0.5,
    ]
    np.testing.assert_allclose(D[np.arange(4), model.labels_], own, rtol=1e-9)
    assert np.isfinite(D).all() and D[0, 1] > 1000
    assert model.inertia_ == pytest.approx(sum(own))
    bits = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    model = fits("bernoulli", bits, np.array([[0.4, 0.6], [0.6, 0.4]]))
    np.testing.assert_array_equal(model.cluster_centers_, [[0.0, 1.0], [1.0, 0.0]])
    assert (
        model.inertia_ == pytest.approx(0, abs=1e-12)
        and (model.transform(bits)[[0, 2], [1, 0]] > 700).all()
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_survive_many_changes_of_labels(dtype):
    """Sums kept by differences must not turn an exact zero into rounding."""
    random = rng(0)
    X = random.gamma(0.3, size=(4000, 12)) * (random.random((4000, 12)) < 0.15)
    X[:, 0] = np.where(X[:, 1] > 0, 0.1, 0.0)
    model = BregmanKMeans(30, "kl", tol=0.0, random_state=0).fit(X.astype(dtype))
    exact = np.array([X[model.labels_ == j].mean(axis=0) for j in range(30)])
    np.testing.assert_array_equal(model.cluster_centers_ == 0, exact == 0)
    assert (
        np.isfinite(model.inertia_) and (model.cluster_centers_ >= 0).all() and (exact == 0).any()
    )


def test_empty_clusters_are_given_the_farthest_row():
    X = np.array([[0.0], [0.1], [5.0], [5.1], [20.0]])
    model = fits("squared", X, np.array([[0.0], [100.0], [5.0]]))
    assert sorted(np.bincount(model.labels_)) == [1, 2, 2]
    assert model.inertia_ == pytest.approx(2 * 0.005 / 2)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bernoulli", [0.6, 0.8, 0.5, 0.2, 0.3, 0.9, 0.2, 0, 0.6, 0.3]),
        ("bernoulli", [0.6, 0.8, 0.5, 0.2, 0.3, 1.0, 0.2, 0, 0.6, 0.3]),
        ("kl", [1, 0.7, 0.7, 0.8, 0.2, 0.3, 0.2, 0, 0.4, 0.6]),
        ("squared", [1, 0.7, 0.7, 0.8, 0.2, 0.3, 0.2, 0, 0.4, 0.6]),
        ("absolute", [1, 0.7, 0.7, 0.8, 0.2, 0.3, 0.2, 0, 0.4, 0.6]),
    ],
)
@pytest.mark.parametrize("k", [3, 5, 6, 7])
def test_no_cluster_is_empty_while_rows_lie_off_centers(name, values, k):
    """A row on the boundary is not its own first center; given away it must not leave a cluster empty."""
    column = np.array(values, float)[:, None]
    for seed, init in itertools.product(range(12), ("k-means++", "random")):
        w = None if seed % 3 else np.arange(10) % 4 + 1.0
        model = BregmanKMeans(k, name, init=init, n_init=1, random_state=seed).fit(
            column, sample_weight=w
        )
        assert np.bincount(model.labels_, minlength=k).all()
        if name in ("squared", "kl"):
            kernel = BregmanKMeans(
                k, kernel="rbf", gamma=1.0, init=init, n_init=1, random_state=seed
            ).fit(column)
            assert np.bincount(kernel.labels_, minlength=k).all()


@pytest.mark.parametrize(
    "name", ["squared", "kl", "itakura_saito", "exp", "sigmoid", "mahalanobis"]
)
def test_rounding_is_no_distance_from_a_center(name):
    """Few different rows far from the origin: refilling ends, though rounding keeps rows off their centers."""
    column = np.repeat(np.array([[1.0], [1.5], [2.0]]), 5, axis=0) + (
        1e6 if name not in ("exp", "sigmoid") else 20
    )
    with pytest.warns(ConvergenceWarning, match="distinct clusters") as told:
        model = BregmanKMeans(5, name, random_state=0).fit(column)
    assert model.status_.converged and model.n_iter_ < 50 and len(told) == 1


@every_divergence
@pytest.mark.filterwarnings("ignore:The means of all", "ignore:X has only . distinct rows")
def test_fewer_different_rows_than_clusters_is_no_crash(name):
    X = np.repeat(inner(name, rows(name, n=2)), 6, axis=0)
    distinct = len(np.unique(X, axis=0))
    with pytest.warns(
        ConvergenceWarning,
        match=rf"distinct clusters \({distinct}\) found smaller than n_clusters \(5\)",
    ):
        model = BregmanKMeans(5, name, random_state=0).fit(X)
    assert (
        model.inertia_ == pytest.approx(0, abs=1e-7) and np.isfinite(model.cluster_centers_).all()
    )
    soft = BregmanMixture(5, name, random_state=0).fit(X)
    assert np.isfinite(soft.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("name", "unit"), [("squared", 0.1), ("kl", 0.1), ("absolute", 0.1), ("sigmoid", 0.1)]
)
def test_a_mixture_says_where_its_means_coincide(name, unit):
    X = unit * load_iris().data
    with pytest.warns(
        UserWarning,
        match="means of all 3 components coincide: at sharpness=1 .*sharpness='auto'.*scale",
    ):
        BregmanMixture(3, name, 1.0, random_state=0).fit(X)
    BregmanMixture(3, name, random_state=0).fit(X)
    BregmanMixture(1, name, random_state=0).fit(X)
    BregmanMixture(3, name, random_state=0).fit(np.full((20, 2), 0.5))  # they can but coincide


def test_plus_plus_spreads_centers_and_starts_are_counted():
    X = np.repeat(np.arange(8.0) ** 3, 40)[:, None] + 1e-3 * rng(0).normal(size=(320, 1)) + 1
    for name in ("squared", "kl", "itakura_saito", "absolute"):
        model = BregmanKMeans(8, name, random_state=0).fit(X)
        assert len(set(model.labels_)) == 8 and model.inertia_ < 1
    calls = []

    def init(X, k, random_state):
        calls.append(random_state)
        return X[random_state.choice(len(X), k, replace=False)]

    for n_init, expected in (("auto", 10), (3, 3)):
        calls.clear()
        BregmanKMeans(3, init=init, n_init=n_init, random_state=0).fit(X)
        assert len(calls) == expected
    best = BregmanKMeans(8, init="random", n_init=20, random_state=0).fit(X)
    worst = BregmanKMeans(8, init="random", n_init=1, random_state=0).fit(X)
    assert best.inertia_ <= worst.inertia_


@pytest.mark.parametrize("name", ["kl", "bernoulli"])
def test_starts_from_rows_with_zeros_find_the_groups(name):
    """A row of counts has zeros that its group has not; as a center it must not keep the group out."""
    scores = []
    for seed in range(4):
        random = rng(seed)
        truth = random.integers(6, size=600)
        if name == "kl":
            Y = random.poisson(3 * np.exp(random.normal(size=(6, 20)))[truth]).astype(float)
        else:
            Y = (random.random((600, 20)) < random.beta(0.3, 0.3, size=(6, 20))[truth]).astype(
                float
            )
        scores.append(
            adjusted_rand_score(
                truth, BregmanKMeans(6, name, n_init=3, random_state=seed).fit(Y).labels_
            )
        )
    assert np.mean(scores) > 0.9


def test_weighted_medians():
    X = rng(0).normal(size=(101, 3))
    np.testing.assert_array_equal(weighted_median(X, None), np.median(X, axis=0))
    w = rng(1).integers(0, 4, 101)
    np.testing.assert_array_equal(
        weighted_median(X, w.astype(float)), weighted_median(np.repeat(X, w, axis=0), None)
    )


def test_mahalanobis_is_invariant_to_linear_maps_and_finds_stretched_clusters():
    random = rng(0)
    X = random.normal(size=(600, 2)) * [10.0, 1.0] + np.where(np.arange(600) % 2, 4.0, -4.0)[
        :, None
    ] * [0.0, 1.0]
    truth = np.arange(600) % 2
    labels = BregmanKMeans(2, "mahalanobis", n_init=5, random_state=0).fit(X).labels_
    assert max((labels == truth).mean(), (labels != truth).mean()) > 0.99
    plain = BregmanKMeans(2, n_init=5, random_state=0).fit(X).labels_
    assert max((plain == truth).mean(), (plain != truth).mean()) < 0.9
    A = np.array([[1.0, 2.0], [0.0, 0.3]])
    tight, M = Mahalanobis(shrinkage=1e-10), X[[0, 1]]
    a, b = (BregmanKMeans(2, tight, init=m, tol=0.0).fit(x) for x, m in ((X, M), (X @ A, M @ A)))
    np.testing.assert_array_equal(a.labels_, b.labels_)
    within = (
        sum((a.labels_ == j).sum() * np.cov(X[a.labels_ == j].T, bias=True) for j in range(2)) / 600
    )
    np.testing.assert_allclose(a.covariance_, within, rtol=1e-6, atol=1e-6)
    wide = BregmanKMeans(2, "mahalanobis", random_state=0).fit(
        random.normal(size=(10, 40))
    )  # singular without shrinkage
    assert np.isfinite(wide.transform(random.normal(size=(3, 40)))).all()


def test_mahalanobis_is_begun_from_ten_starts():
    X = load_wine().data
    one, ten, auto = (
        BregmanKMeans(3, "mahalanobis", n_init=n, random_state=0).fit(X) for n in (1, 10, "auto")
    )
    assert auto.objective_ == ten.objective_ < one.objective_ - 50


@pytest.mark.parametrize("unit", [0.1, 1e-2, 1e-4, 1e4])
def test_mahalanobis_does_not_depend_on_the_units_of_columns(unit):
    random, truth = rng(3), np.repeat([0, 1], 100)
    X = np.vstack([random.normal(size=(100, 2)), random.normal(size=(100, 2)) + [5.0, 0.0]])
    models = BregmanKMeans(2, "mahalanobis", n_init=20), BregmanMixture(2, "mahalanobis", n_init=5)
    for model in models:
        plain, scaled = (
            clone(model).set_params(random_state=0).fit(A) for A in (X, X * [unit, 1.0])
        )
        labels = scaled.predict(X * [unit, 1.0])
        assert max((labels == truth).mean(), (labels != truth).mean()) > 0.98
        volume = 200 * np.log(unit)  # W/2 log det of the change of units
        assert scaled.objective_ - volume == pytest.approx(plain.objective_, rel=1e-4)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e7 / 3])
def test_mahalanobis_learns_nothing_from_constant_columns(constant):
    X = rng(0).normal(size=(60, 3)) + np.where(np.arange(60) % 2, 4.0, -4.0)[:, None]
    model = BregmanKMeans(2, "mahalanobis", n_init=5, random_state=0)
    labels, wider = model.fit(X).labels_, np.column_stack([X, np.full(60, constant)])
    np.testing.assert_array_equal(model.fit(wider).labels_, labels)
    assert np.isfinite(model.objective_) and np.isfinite(model.transform(wider)).all()


# --- mixtures ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*as good as one cluster")  # at some of the sharpnesses
@every_divergence
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some draws are slow
@pytest.mark.filterwarnings("ignore:The means of all")  # at any sharpness
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31))
def test_the_objective_of_a_mixture_never_rises_and_is_that_of_its_formula(name, seed):
    X, w = rows(name, n=60, seed=seed), rng(seed).integers(0, 3, 60).astype(float)
    sharpness = float(np.exp(rng(seed).normal()))
    model = BregmanMixture(
        4, name, sharpness, tol=1e-6, max_iter=200, random_state=seed % 1000
    ).fit(X, sample_weight=w)
    values = np.array([record.objective for record in model.history_])
    assert (np.diff(values) <= 1e-9 * (1 + np.abs(values[0]))).all()
    shrunk = 0.0  # sharpness W/2 tr V S^-1
    if name == "mahalanobis":
        V = 1e-3 * np.cov(X.T, aweights=w, bias=True).diagonal()
        shrunk = sharpness * w.sum() / 2 * V @ np.linalg.inv(model.covariance_).diagonal()
    assert model.objective_ == pytest.approx(
        -w @ model.score_samples(X) + shrunk, rel=1e-7, abs=1e-7
    )
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.weights_.sum() == pytest.approx(1)


def test_poisson_mixtures_are_fitted_by_maximum_likelihood():
    """The negative log likelihood minus the objective is sum [ln x! - F(x)], whatever the parameters."""
    X, F = rows("kl", n=200), potentials.Entropy()
    constant = (gammaln(X + 1) - F.value(X)).sum()
    for max_iter in (1, 3, 200):
        model = BregmanMixture(3, "kl", 1.0, n_init=1, random_state=0, max_iter=max_iter, tol=1e-10)
        with pytest.warns(ConvergenceWarning) if max_iter < 10 else pytest.MonkeyPatch.context():
            model.fit(X)
        rates = np.maximum(model.means_, 1e-300)
        joint = np.log(model.weights_) + (
            X[:, None] * np.log(rates) - rates - gammaln(X[:, None] + 1)
        ).sum(axis=2)
        likelihood = np.logaddexp.reduce(joint, axis=1).sum()
        assert -likelihood - model.objective_ == pytest.approx(constant, rel=1e-10)
        np.testing.assert_allclose(
            model.predict_proba(X),
            np.exp(joint - np.logaddexp.reduce(joint, 1)[:, None]),
            atol=1e-9,
        )


def test_mahalanobis_mixture_is_the_gaussian_mixture_with_tied_covariance():
    X = rows("squared", n=500, d=3)
    ours = BregmanMixture(
        3, Mahalanobis(shrinkage=1e-9), tol=1e-13, max_iter=5000, random_state=0
    ).fit(X)
    theirs = GaussianMixture(
        3,
        covariance_type="tied",
        reg_covar=0,
        tol=1e-12,
        max_iter=5000,
        means_init=ours.means_,
        weights_init=ours.weights_,
        precisions_init=np.linalg.inv(ours.covariance_),
    ).fit(X)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours.covariance_, theirs.covariances_, rtol=1e-3, atol=1e-3)
    densities = theirs.score_samples(X) + 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(ours.score_samples(X), densities, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["squared", "kl", "absolute"])
def test_sharp_mixtures_are_hard_clusters(name):
    truth = np.arange(300) // 100
    X = np.abs(rows(name, seed=3)) + 25 * truth[:, None]
    hard = BregmanKMeans(3, name, tol=0.0, random_state=0).fit(X)
    assert adjusted_rand_score(truth, hard.labels_) == 1
    soft = BregmanMixture(3, name, sharpness=1e4, random_state=0).fit(X)
    np.testing.assert_array_equal(soft.predict(X), hard.predict(X))
    np.testing.assert_allclose(soft.means_, hard.cluster_centers_, rtol=1e-6)


def test_automatic_sharpness_has_no_units():
    X = rows("squared")
    a, b = (
        BregmanMixture(3, sharpness="auto", random_state=0, tol=1e-8).fit(X * s)
        for s in (1.0, 2.0**-10)  # which rounds nothing, so that both start from the same rows
    )
    assert b.sharpness_ == pytest.approx(2.0**20 * a.sharpness_, rel=1e-6)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X * 2.0**-10), atol=1e-6)
    hard = BregmanKMeans(3, random_state=0).fit(X)
    # d/2 (1 - k/n) over the mean divergence
    per_cell = X.shape[1] / 2 * (1 - 3 / len(X))
    assert a.sharpness_ == pytest.approx(per_cell * len(X) / hard.inertia_, rel=0.02)


@pytest.mark.parametrize(
    ("name", "sharpness", "expected"),
    [("squared", 1.0, 1), ("mahalanobis", "auto", 1), ("squared", "auto", 10)],
)
def test_a_time_limit_covers_the_starts_of_a_mixture_unless_its_sharpness_needs_all(
    name, sharpness, expected, monkeypatch
):
    starts, hard = [], mixture._hard
    monkeypatch.setattr(mixture, "_hard", lambda *args: starts.append(args) or hard(*args))
    model = BregmanMixture(3, name, sharpness, n_init=10, time_limit=0.0, tol=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(rows("squared"))
    assert len(starts) == expected


# --- kernels and cuts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_clusters_are_those_of_explicit_features(weighted):
    X = rows("squared", n=120)
    w = rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    kernel = Gaussian(0.1)
    R = kernel.features(X)
    first = rng(0).integers(3, size=len(X))
    implicit = BregmanKMeans(3, kernel=kernel, init=first).fit(X, sample_weight=w)
    M = np.array(
        [
            np.average(R[first == j], axis=0, weights=None if w is None else w[first == j])
            for j in range(3)
        ]
    )
    explicit = (
        fits("squared", R, M)
        if w is None
        else BregmanKMeans(3, init=M, tol=0.0).fit(R, sample_weight=w)
    )
    np.testing.assert_array_equal(implicit.labels_, explicit.labels_)
    assert implicit.inertia_ == pytest.approx(explicit.inertia_, rel=1e-8)
    np.testing.assert_allclose(implicit.transform(X), explicit.transform(R), atol=1e-7)
    np.testing.assert_array_equal(implicit.predict(X), implicit.labels_)
    values = [record.objective for record in implicit.history_]
    assert (np.diff(values) <= 1e-9).all()


def test_kernel_matrices_may_be_given_or_found_by_blocks(monkeypatch):
    X, new = rows("squared", n=90), rows("squared", n=20, seed=4)
    kernel = as_kernel("rbf", 0.2)
    whole = BregmanKMeans(3, kernel="rbf", gamma=0.2, random_state=0).fit(X)
    given = BregmanKMeans(3, kernel="precomputed", random_state=0).fit(kernel.gram(X))
    function = BregmanKMeans(3, kernel=kernel.gram, random_state=0).fit(X)
    monkeypatch.setattr("regfactor.fitting.kernel_blocks.MAX_HELD_ENTRIES", 10)
    monkeypatch.setattr("regfactor.problems.kernel_clusters.BLOCK_ENTRIES", 1000)
    blocks = BregmanKMeans(3, kernel="rbf", gamma=0.2, random_state=0).fit(X)
    for other in (given, function, blocks):
        np.testing.assert_array_equal(other.labels_, whole.labels_)
        assert other.inertia_ == pytest.approx(whole.inertia_)
    np.testing.assert_array_equal(given.predict(kernel.gram(new, X)), whole.predict(new))
    linear = BregmanKMeans(3, kernel="linear", random_state=0).fit(X)
    np.testing.assert_allclose(
        linear.transform(new),
        definition(
            potentials.Identity(),
            new,
            np.array([X[linear.labels_ == j].mean(axis=0) for j in range(3)]),
        ),
        atol=1e-8,
    )
    with pytest.raises(ValueError, match=r"k\(x, x\)"):
        given.transform(kernel.gram(new, X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_linear_kernels_keep_their_digits_far_from_the_origin(dtype):
    offset = 1e8 if dtype is np.float64 else 1e3
    X = (rows("squared", n=90) + offset).astype(dtype)
    w = rng(0).integers(0, 3, 90).astype(float)
    first = rng(1).integers(3, size=90)
    far = BregmanKMeans(3, kernel="linear", init=first).fit(X, sample_weight=w)
    near = BregmanKMeans(3, kernel="linear", init=first).fit(
        (X - dtype(offset)).astype(float), sample_weight=w
    )
    np.testing.assert_array_equal(far.labels_, near.labels_)
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-5)
    np.testing.assert_array_equal(far.predict(X), near.predict(X.astype(float) - offset))
    np.testing.assert_allclose(
        far.transform(X), near.transform(X.astype(float) - offset), rtol=1e-3, atol=1e-3
    )
    assert BregmanKMeans(90, kernel="linear", random_state=0).fit(X).inertia_ >= 0


@pytest.mark.parametrize(
    "model", [BregmanKMeans(3, kernel="rbf"), BregmanNormalizedCut(3)], ids=["k-means", "cut"]
)
def test_gaussian_kernels_part_seconds_of_an_epoch(model):
    X = 1.7e9 + np.repeat([0.0, 8.0, 16.0], 30)[:, None] + rng(0).normal(size=(90, 1))
    far, near = (clone(model).set_params(n_init=3, random_state=0).fit(A) for A in (X, X - 1.7e9))
    np.testing.assert_array_equal(far.labels_, near.labels_)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-6)
    np.testing.assert_array_equal(far.predict(X), far.labels_)


def test_rows_of_a_kernel_as_features_are_another_model():
    X = rows("squared", n=60)
    K = Gaussian(0.1).gram(X)
    features = BregmanKMeans(3, "kl", random_state=0).fit(K)
    assert features.cluster_centers_.shape == (3, 60)
    with pytest.raises(ValueError, match=r"needs divergence='squared'.*\.gram\(X\)"):
        BregmanKMeans(3, "kl", kernel="rbf").fit(X)


def normalized_cut(K, labels):
    total = 0.0
    for j in set(labels):
        inside = labels == j
        total += K[np.ix_(inside, ~inside)].sum() / K[inside].sum()
    return total


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31))
def test_cuts_are_weighted_kernel_clusters_up_to_a_constant(seed):
    random = rng(seed)
    X, k = random.normal(size=(25, 2)), 3
    K = Gaussian(0.5).gram(X)
    d, labels = K.sum(axis=1), np.concatenate([[0, 1, 2], random.integers(k, size=22)])
    R = Gaussian(0.5).features(X) / d[:, None]
    M = np.array([np.average(R[labels == j], axis=0, weights=d[labels == j]) for j in range(k)])
    inertia = (d * np.square(R - M[labels]).sum(axis=1)).sum()
    assert inertia - normalized_cut(K, labels) == pytest.approx(
        (np.diag(K) / d).sum() - k, abs=1e-10
    )
    model = BregmanNormalizedCut(k, "precomputed", init=labels).fit(K)
    assert model.history_[0].objective == pytest.approx(normalized_cut(K, labels), abs=1e-10)
    assert model.objective_ == pytest.approx(normalized_cut(K, model.labels_), abs=1e-10)
    assert (np.diff([record.objective for record in model.history_]) <= 1e-10).all()
    np.testing.assert_array_equal(model.predict(K), model.labels_)


def test_cuts_separate_rings_and_new_rows_follow(monkeypatch):
    random = rng(0)
    angle, truth = random.uniform(0, 2 * np.pi, 400), np.arange(400) % 2
    X = (1 + 2 * truth)[:, None] * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    ) + 0.1 * random.normal(size=(400, 2))
    model = BregmanNormalizedCut(2, gamma=8.0, random_state=0).fit(X)
    same = model.labels_[0] == truth[0]
    np.testing.assert_array_equal(model.labels_ == truth, np.full(400, same))
    np.testing.assert_array_equal(model.predict(X * 1.02), model.labels_)
    monkeypatch.setattr(
        "regfactor.clusters.spectral.MAX_DENSE_ROWS", 100
    )  # eigenvectors by iteration
    large = BregmanNormalizedCut(2, gamma=8.0, random_state=0).fit(np.repeat(X, 3, axis=0))
    np.testing.assert_array_equal(
        large.labels_[::3] == truth, np.full(400, large.labels_[0] == truth[0])
    )
    weighted = BregmanNormalizedCut(2, gamma=8.0, random_state=0).fit(
        X, sample_weight=np.full(400, 3.0)
    )
    assert weighted.objective_ == pytest.approx(large.objective_, rel=1e-9)


def test_a_small_kernel_is_scaled_and_not_multiplied_for_its_eigenvectors(monkeypatch):
    X, widths, products = rows("squared", n=60), [], KernelClusters.products
    monkeypatch.setattr(
        KernelClusters,
        "products",
        lambda problem, V: widths.append(V.shape[1]) or products(problem, V),
    )
    BregmanNormalizedCut(3, random_state=0).fit(X)
    assert set(widths) == {3}


def test_cuts_under_other_divergences_weigh_rows_by_degree():
    X = rows("kl", n=100)
    model = BregmanNormalizedCut(3, divergence="kl", random_state=0).fit(X)
    d = as_kernel("rbf", "median").resolved(X).gram(X).sum(axis=1)
    np.testing.assert_allclose(model.degrees_, d)
    same = [BregmanKMeans(3, "kl", n_init=10, random_state=0).fit(X, sample_weight=d)]
    assert model.objective_ == pytest.approx(same[0].objective_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


# --- as estimators ----------------------------------------------------------------------------------------------------

X = rows("squared", n=40)
BAD = {
    "negative counts": (
        BregmanKMeans(2, "kl"),
        -np.eye(3),
        r"^Negative values in data: divergence='kl' cannot.*column 0: 1 of 3 values.*real numbers",
    ),
    "negative probabilities": (
        BregmanMixture(2, "bernoulli"),
        -np.eye(3),
        "^Negative values in data: divergence='bern",
    ),
    "zeros": (BregmanKMeans(2, "itakura_saito"), np.eye(3), r"\(0, inf\).*'kl'"),
    "probabilities": (
        BregmanMixture(2, "bernoulli"),
        2 * np.eye(3),
        r"^divergence='bernoulli' cannot take this data.*\[0, 1\]",
    ),
    "proportions": (BregmanKMeans(2, potentials.MultinomialEntropy()), np.eye(3) / 2, "sum to one"),
    "unknown divergence": (BregmanKMeans(2, "squard"), X, "Did you mean 'squared'"),
    "divergence a class": (BregmanKMeans(2, potentials.Exp), X, r"write Exp\(\)"),
    "divergence a number": (BregmanKMeans(2, 3), X, "divergence must be"),
    "no clusters": (
        BregmanKMeans(0),
        X,
        "'n_clusters' parameter of BregmanKMeans must be an int in the range",
    ),
    "too many clusters": (BregmanKMeans(50), X, "n_samples=40 should be >= n_clusters=50"),
    "too many components": (BregmanMixture(50), X, "n_components=50"),
    "starts": (BregmanKMeans(2, n_init="many"), X, "'n_init' parameter of BregmanKMeans must be"),
    "starts from given centers": (
        BregmanKMeans(2, init=X[:2], n_init=-3),
        X,
        "'n_init' parameter of BregmanKMeans must be",
    ),
    "starts from given labels": (
        BregmanNormalizedCut(2, init=np.arange(40) % 2, n_init="many"),
        X,
        "or 'auto'",
    ),
    "no starts": (BregmanMixture(2, n_init=0), X, "'n_init' parameter of BregmanMixture must be"),
    "unknown start": (BregmanKMeans(2, init="k-means+"), X, "Did you mean 'k-means\\+\\+'"),
    "shape of centers": (BregmanKMeans(2, init=np.ones((3, 4))), X, "2 centers of 4 features"),
    "missing entries in centers": (
        BregmanKMeans(2, init=[[1, 2, 3, 4], [1, np.nan, 3, 4]]),
        X,
        "center 1 has nan in column 1",
    ),
    "words for centers": (
        BregmanKMeans(2, init=[["a", "b", "c", "d"]] * 2),
        X,
        "init must hold numbers",
    ),
    "centers outside": (
        BregmanKMeans(2, "kl", init=-np.ones((2, 3))),
        np.eye(3),
        "^Negative values in init: divergence='kl' cannot take this init",
    ),
    "labels": (BregmanKMeans(2, kernel="rbf", init=np.ones((3, 4))), X, "a label from 0 to 1"),
    "sharpness": (
        BregmanMixture(2, sharpness=-1.0),
        X,
        "'sharpness' parameter of BregmanMixture must be",
    ),
    "sharpness of each": (
        BregmanMixture(2, sharpness=np.array([1.0, 2.0])),
        X,
        "'sharpness' parameter of BregmanMixture must be",
    ),
    "limits": (BregmanKMeans(2, max_iter=0), X, "'max_iter' parameter of BregmanKMeans must be"),
    "callback": (
        BregmanMixture(2, callback=3),
        X,
        "'callback' parameter of BregmanMixture must be",
    ),
    "negative affinities": (BregmanNormalizedCut(2, "linear"), X, "must not be negative.*linear"),
    "lonely rows": (
        BregmanNormalizedCut(2, "precomputed"),
        np.diag([1.0, 1.0, 0.0]),
        "Row 2 has no affinity",
    ),
    "no rows": (
        BregmanNormalizedCut(2, "precomputed", divergence="kl"),
        np.eye(3),
        "no rows to compare",
    ),
    "not symmetric": (
        BregmanNormalizedCut(2, "precomputed"),
        np.triu(np.ones((3, 3))),
        "not symmetric",
    ),
}


@pytest.mark.parametrize(("low", "high"), [(290, 300), (400, 410), (680, 690)])
def test_exponentials_part_large_numbers(low, high):
    rng = np.random.default_rng(0)
    near, labels = rng.normal(size=(100, 2)) * 0.1, np.repeat([0, 1], 50)
    X = near + np.array([low, high])[labels, None]
    model = BregmanKMeans(2, "exp", random_state=0).fit(X)
    assert len(set(zip(model.labels_, labels, strict=True))) == 2
    centers = np.array([X[labels == j].mean(axis=0) for j in (0, 1)])
    rest = np.exp(near - (centers - [[low], [high]])[labels]) - 1 - (X - centers[labels])
    assert model.inertia_ == pytest.approx((np.exp(centers)[labels] * rest).sum(), rel=1e-6)


def test_exponentials_that_are_no_numbers_are_refused():
    X = np.linspace(80, 100, 40)[:, None]
    assert np.isfinite(BregmanKMeans(2, "exp", random_state=0).fit(X).inertia_)
    with pytest.raises(
        ValueError, match=r"divergence='exp' cannot take.*\(-inf, 85\).*column 0: 30 of 40"
    ):
        BregmanKMeans(2, "exp", random_state=0).fit(X.astype(np.float32))
    with pytest.raises(ValueError, match="Give float64"):
        BregmanKMeans(2, "exp", random_state=0).fit(X.astype(np.float32))
    with pytest.raises(
        ValueError, match=r"divergence='exp' cannot take.*\(-inf, 700\).*column 0: 4 of 40.*Divide"
    ):
        BregmanKMeans(2, "exp", random_state=0).fit(np.linspace(600, 710, 40)[:, None])


@pytest.mark.parametrize("weight", [1e-320, 1e-200, 1e200])
@pytest.mark.parametrize("divergence", ["squared", "exp"])
def test_weights_out_of_range_are_refused_by_cuts(divergence, weight):
    model = BregmanNormalizedCut(2, divergence=divergence)
    with pytest.raises(ValueError, match="divide the weights by their mean"):
        model.fit(X, sample_weight=np.full(40, weight))


@pytest.mark.parametrize(("model", "X", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_answered_before_any_work(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not [
        name for name in vars(model) if name.endswith("_") and name not in ("n_features_in_",)
    ]


@pytest.mark.parametrize("model", [BregmanKMeans(3), BregmanMixture(3), BregmanNormalizedCut(3)])
def test_limits_progress_and_callbacks(model, capsys):
    seen = []
    stopped = clone(model).set_params(
        callback=lambda it: seen.append(it.objective) or True, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped.fit(X)
    assert len(seen) == 1
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        clone(model).set_params(time_limit=0.0, random_state=0, tol=0.0).fit(X)
    assert capsys.readouterr() == ("", "")
    fit = clone(model).set_params(verbose=1, random_state=0).fit(X)
    assert "objective" in capsys.readouterr().err
    assert (
        fit.status_.converged and fit.n_iter_ >= 1 and fit.history_[-1].objective == fit.objective_
    )
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize("model", [BregmanKMeans(3), BregmanMixture(3), BregmanNormalizedCut(3)])
def test_a_local_search_has_no_gap_and_says_so(model):
    fit = clone(model).set_params(random_state=0).fit(X)
    for name in ("gap_", "relative_gap_", "certificate_"):
        with pytest.raises(
            AttributeError, match=f"{type(model).__name__} was solved locally.*no duality gap"
        ):
            getattr(fit, name)
        with pytest.raises(NotFittedError):
            getattr(clone(model), name)


def test_iterates_hold_labels_and_centers():
    points = []
    model = BregmanKMeans(3, random_state=0, callback=lambda it: points.append(it.point)).fit(X)
    np.testing.assert_array_equal(points[-1].labels, model.labels_)
    np.testing.assert_array_equal(points[-1].centers, model.cluster_centers_)
    assert points[-1].shares is None and points[-1].covariance is None


def test_a_second_fit_leaves_nothing_of_the_first():
    model = BregmanKMeans(3, "mahalanobis", random_state=0).fit(X)
    model.set_params(divergence="squared").fit(X)
    assert not hasattr(model, "covariance_")
    model.set_params(kernel="rbf").fit(X)
    assert not hasattr(model, "cluster_centers_")


@pytest.mark.parametrize("make", [BregmanKMeans, BregmanMixture, BregmanNormalizedCut])
@pytest.mark.parametrize("divergence", ["squard", potentials.Exp, 3])
def test_what_is_no_divergence_is_shown_and_refused_by_fit(make, divergence):
    model = make(divergence=divergence)
    assert make.__name__ in model._repr_html_() and make.__name__ in repr(model)
    assert is_clusterer(model) == (make is not BregmanMixture)
    with pytest.raises(ValueError, match="divergence"):
        model.fit(X)


@pytest.mark.parametrize("make", [BregmanKMeans, BregmanMixture, BregmanNormalizedCut])
def test_tags_tell_which_divergences_take_no_negative_number(make):
    told = [
        name for name in NAMES if make(divergence=name).__sklearn_tags__().input_tags.positive_only
    ]
    assert told == [name for name in NAMES if DIVERGENCES[name].domain.low >= 0]
    assert "kl" in told and "squared" not in told


def test_frames_in_and_out():
    frame = pd.DataFrame(X, columns=list("abcd"), index=range(5, 45))
    out = BregmanKMeans(2, random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["bregmankmeans0", "bregmankmeans1"] and out.index.equals(
        frame.index
    )


def test_parts_are_divergences():
    Y = rows("itakura_saito")
    a = BregmanKMeans(3, potentials.Burg(shape=2.0), random_state=0).fit(Y)
    b = BregmanKMeans(3, "itakura_saito", random_state=0).fit(Y)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.inertia_ == pytest.approx(2 * b.inertia_)
    assert as_divergence(potentials.Identity()) == DIVERGENCES["squared"]
    shares = rng(0).dirichlet(np.ones(4), 50) * (np.arange(4) != 3)
    shares /= shares.sum(
        axis=1, keepdims=True
    )  # the last column, to which the transfer refers, is all zero
    model = BregmanKMeans(
        3, BregmanDivergence(potentials.MultinomialEntropy()), random_state=0
    ).fit(shares)
    M = model.cluster_centers_[:, :3]
    kl = np.array([[np.sum(x * np.log(x / m)) for m in M] for x in shares[:, :3]])
    np.testing.assert_allclose(model.transform(shares), kl, atol=1e-9)


@pytest.mark.parametrize("name", ["squared", "bernoulli", "cube", "kl"])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_rows_that_lie_on_their_centers_are_told_apart_in_any_units(name, size):
    X = size * np.repeat(rng(1).random((3, 4)), 20, axis=0)
    model = BregmanMixture(3, name, "auto", random_state=0).fit(X)
    assert model.objective_ == pytest.approx(60 * np.log(3), rel=1e-3)
    assert (model.predict_proba(X).max(axis=1) > 0.99).all()


@pytest.mark.parametrize("size", [1e-5, 1e5])
def test_a_mixture_with_a_covariance_stops_where_it_does_in_other_units(size):
    X = rows("squared", n=120) + 3 * (np.arange(120) % 2)[:, None]
    a, b = (BregmanMixture(2, "mahalanobis", random_state=0).fit(s * X) for s in (1.0, size))
    assert a.n_iter_ == b.n_iter_
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(size * X), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cut_places_rows_beyond_all_affinities(dtype):
    X = np.vstack([rng(0).normal(size=(30, 2)) + c for c in ((0, 0), (9, 0), (0, 9))]).astype(dtype)
    model = BregmanNormalizedCut(3, random_state=0).fit(X)
    far = np.array([[1e3, 0], [0, 1e3], [-1e3, -1e3]], dtype)
    np.testing.assert_array_equal(model.predict(far), model.labels_[[30, 60, 0]])


def relative_entropy(x, m):
    t = (x - m) / m
    return m * ((1 + t) * np.log1p(t) - t)


CLOSE = {  # center, deviation, and D in a form in which no digits cancel
    "kl": (1e6, 2.0, relative_entropy),
    "itakura_saito": (1e6, 2.0, lambda x, m: (x - m) / m - np.log1p((x - m) / m)),
    "exp": (5.0, 1e-5, lambda x, m: np.exp(m) * (np.expm1(x - m) - (x - m))),
    "cube": (1e3, 1e-2, lambda x, m: np.square(x - m) * (x * x + 2 * x * m + 3 * m * m) / 4),
    "sigmoid": (
        10.0,
        1e-4,
        lambda x, m: np.log1p(np.expm1(x - m) / (1 + np.exp(-m))) - (x - m) / (1 + np.exp(-m)),
    ),
    "relaxed_sigmoid": (1e6, 2.0, lambda x, m: relative_entropy(1 + x, 1 + m)),
    "bernoulli": (0.5, 1e-6, lambda x, m: relative_entropy(x, m) + relative_entropy(1 - x, 1 - m)),
}


@pytest.mark.parametrize("name", CLOSE)
def test_divergences_between_neighbors_keep_their_digits(name):
    mean, deviation, exact = CLOSE[name]
    P = mean + 3 * deviation * rng(0).normal(size=(3, 4))
    X = P[rng(1).integers(3, size=300)] + deviation * rng(2).normal(size=(300, 4))
    model = BregmanKMeans(3, name, random_state=0).fit(X)
    D = exact(
        X.astype(np.longdouble), model.cluster_centers_[model.labels_].astype(np.longdouble)
    ).sum(axis=1)
    np.testing.assert_allclose(
        DIVERGENCES[name].paired(X, model.cluster_centers_[model.labels_]), D, rtol=1e-9
    )
    assert -model.score(X) == pytest.approx(float(D.sum()), rel=1e-11)
    assert model.inertia_ == pytest.approx(float(D.sum()), rel=1e-7)


@pytest.mark.parametrize(
    ("potential", "x", "m", "exact"),
    [
        (
            potentials.Exp(),
            600.00001,
            600.0,
            np.exp(600.0) * 5.0000166667e-11,
        ),  # bounded elsewhere beyond 300
        (potentials.Sigmoid(), -800.0, 1e7, 800.0),  # F'' vanishes at both ends, and not between
        (potentials.Steps(4), -800.0, 1e7, 3 * 800 + 4.5),
        (
            potentials.Entropy(),
            1.0001e160,
            1e160,
            1e160 * 4.99983334e-9,
        ),  # whose squares are no numbers
        (potentials.Entropy(), 1.0001e-160, 1e-160, 1e-160 * 4.99983334e-9),
        (potentials.Burg(), 1.0001e160, 1e160, 4.99966669e-9),
        (potentials.Burg(), 1.0001e-170, 1e-170, 4.99966669e-9),
        (potentials.BinomialEntropy(), 1.2151e-14, 1.2159e-14, 2.632e-21),
        (
            potentials.Entropy(),
            np.e * (1 + 1e-6),
            np.e,
            np.e * 0.49999983333e-12,
        ),  # where F is zero
        (potentials.Burg(), (1 + 1e-6) / np.e, 1 / np.e, 0.49999966667e-12),
    ],
)
def test_divergences_of_numbers_at_the_ends_of_what_there_is(potential, x, m, exact):
    D = BregmanDivergence(potential).paired(np.array([[x]]), np.array([[m]]))[0]
    rough = m < 1e-10 or m > 1e10  # where the data or F'' have not all digits
    assert D == pytest.approx(exact, rel=1e-3 if rough else 1e-7, abs=0)


@pytest.mark.parametrize(("name", "zero"), [("kl", np.e), ("itakura_saito", 1 / np.e)])
def test_clusters_where_the_potential_is_zero_are_told_apart(name, zero):
    """Rows of one sum, about where F is zero: its sums over columns cancel, and their terms do not."""
    truth = np.repeat([0, 1, 2], 100)
    z = np.array([0.0, 1.0, 3.0])[truth] + 0.05 * rng(0).normal(size=300)
    X = zero * (1 + 1e-7 * np.c_[z - z.mean(), z.mean() - z])
    model = BregmanKMeans(3, name, n_init=5, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1
    D = CLOSE[name][2](
        X.astype(np.longdouble), model.cluster_centers_[model.labels_].astype(np.longdouble)
    )
    assert model.inertia_ == pytest.approx(float(D.sum()), rel=1e-4)


def test_weights_that_single_precision_takes_for_nothing_have_means():
    X = np.repeat([[0.0, 1.0], [5.0, 6.0]], 50, axis=0).astype(np.float32) + rng(0).normal(
        size=(100, 2)
    ).astype("f")
    w = np.repeat([1.0, 1e-50], 50)
    model = BregmanKMeans(2, init=X[[0, 99]]).fit(X, sample_weight=w)
    np.testing.assert_allclose(
        model.cluster_centers_[1], X[model.labels_ == 1].mean(axis=0), rtol=1e-5
    )


def test_a_divergence_over_a_steep_slope_is_no_quadrature():
    """F'' of the logistic potential falls by e^20 from 30 to 50, where D is a millionth of a millionth of F."""
    D = DIVERGENCES["sigmoid"].paired(np.array([[50.0]]), np.array([[30.0]]))[0]
    assert D == pytest.approx(19 * np.exp(-30.0), rel=2e-2)


@pytest.mark.parametrize(
    ("name", "large"),
    [
        ("squared", 1e7),
        ("squared", 1e9),
        ("exp", 40.0),
        ("exp", 100.0),
        ("cube", 1e4),
        ("kl", 1e15),
        ("absolute", 1e15),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_far_away_costs_the_inertia_no_digits(name, large, weighted):
    """A cluster of its own, which costs nothing: the inertia is that of the others."""
    X = np.abs(rng(0).normal(size=(60, 3)))
    X[0, 0] = large
    weight = (
        2.0 ** rng(1).integers(0, 3, size=60) if weighted else np.ones(60)
    )  # its mean is the row itself
    model = BregmanKMeans(3, name, random_state=0).fit(
        X, sample_weight=weight if weighted else None
    )
    assert np.sum(model.labels_ == model.labels_[0]) == 1
    rest = np.arange(60) > 0
    D = as_divergence(name).between(X[rest], model.cluster_centers_, X[rest].mean(axis=0))
    expected = weight[rest] @ D[np.arange(59), model.labels_[rest]]
    assert model.inertia_ == pytest.approx(expected, rel=1e-9)
    assert model.objective_ == model.inertia_
    assert model.score(X, sample_weight=weight) == pytest.approx(-expected, rel=1e-9)


@every_divergence
def test_divergences_in_pairs_are_those_of_all_pairs(name):
    X = rows(name, n=40)
    part = as_divergence(name)
    part = part.refitted(40 * np.cov(X.T), np.zeros((1, X.shape[1])), np.array([40.0]))
    M = X[::-1] * 0.5 + X.mean(axis=0) * 0.5
    D = part.between(X, M, X.mean(axis=0))
    np.testing.assert_allclose(part.paired(X, M), np.diag(D), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("units", [[1.0, 1e3, 1e-3], [1.0, 1e6, 1e-6], [1e-5, 1e5, 1.0]])
def test_mahalanobis_clusters_have_no_units_however_far_apart_they_are(units):
    X = rng(0).normal(size=(200, 3))
    for estimator in (
        BregmanKMeans(3, "mahalanobis", random_state=0),
        BregmanMixture(3, "mahalanobis", random_state=0),
    ):
        plain, scaled = clone(estimator).fit(X), clone(estimator).fit(X * units)
        np.testing.assert_allclose(
            scaled.covariance_, plain.covariance_ * np.outer(units, units), rtol=1e-8
        )
        shift = 200 * np.log(units).sum()
        assert scaled.objective_ == pytest.approx(plain.objective_ + shift, rel=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_column_does_not_part_mahalanobis_clusters(constant, dtype):
    X = rng(0).normal(size=(200, 3)).astype(dtype)
    wide = np.column_stack([X, np.full(200, constant, dtype)])
    plain, with_constant = (
        BregmanKMeans(3, "mahalanobis", random_state=0).fit(T) for T in (X, wide)
    )
    assert adjusted_rand_score(plain.labels_, with_constant.labels_) == 1
    np.testing.assert_allclose(with_constant.inertia_, plain.inertia_, rtol=1e-4)


def test_centers_are_means_where_the_objective_no_longer_shows_it():
    """One cluster of exponentials is so large that float64 hides what the others gain."""
    random = np.random.default_rng(0)
    random.normal(size=(300, 2))
    X = 20 * random.normal(size=(300, 2))
    model = BregmanKMeans(8, "exp", random_state=0, tol=0).fit(X)
    for j in range(8):
        np.testing.assert_allclose(
            model.cluster_centers_[j], X[model.labels_ == j].mean(axis=0), rtol=1e-9
        )


def test_a_merged_mixture_without_units_is_not_sent_to_what_has_none():
    X = rng(0).normal(size=(200, 20))
    with pytest.warns(UserWarning, match=r"coincide.*Give a larger one"):
        BregmanMixture(3, "mahalanobis", sharpness=0.05, random_state=0).fit(X)


@pytest.mark.parametrize(("name", "noise"), [("squared", 13), ("mahalanobis", 0)])
def test_automatic_sharpness_counts_columns(name, noise):
    """Many columns do not merge the components, as they do if a row counts as one number."""
    X, y = load_wine(return_X_y=True)
    X = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), rng(0).normal(size=(178, noise))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parted = BregmanMixture(3, name, random_state=0).fit(X)
    assert adjusted_rand_score(parted.predict(X), y) > 0.8
    with pytest.warns(UserWarning, match="coincide"):
        BregmanMixture(3, name, 2 / X.shape[1] * parted.sharpness_, random_state=0).fit(X)


def test_an_automatic_mixture_of_rows_without_clusters_warns_of_its_collapse(monkeypatch):
    monkeypatch.setattr(mixture, "MERGED", 1e9)  # below which means coincide
    X = rng(0).normal(size=(200, 2))
    with pytest.warns(UserWarning, match=r"coincide.*may have no clusters; give sharpness="):
        BregmanMixture(2, random_state=0).fit(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_of_rounding_do_not_part_mahalanobis_clusters(dtype):
    """As the components beyond the rank of a table are."""
    for seed in range(4):
        random = rng(seed)
        groups = random.integers(0, 3, 300)
        L = np.array([[0, 0], [5, 0], [0, 5.0]])[groups] + random.normal(size=(300, 2))
        X = PCA(10).fit_transform((L @ random.normal(size=(2, 12))).astype(dtype))
        for estimator in (BregmanKMeans(3, "mahalanobis"), BregmanMixture(3, "mahalanobis")):
            found = estimator.set_params(random_state=0).fit(X).predict(X)
            assert adjusted_rand_score(found, groups) > 0.85
