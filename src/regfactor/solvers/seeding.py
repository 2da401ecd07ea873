"""First centers and labels: rows far from each other (k-means++), random rows, known clusters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.problems.clusters import FREE, Clustering, ClusterPoint, Clusters, row_blocks
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.problems.observed_clusters import ObservedClusters
from regfactor.solvers.kernel_steps import MAX_NEGATIVE
from regfactor.solvers.row_steps import dense

# share by which a row on the boundary of the domain is moved towards the mean to be a center
INWARD_SHARE = 0.25
Distances = Callable[[Array], Array]  # of all rows from some chosen rows, n x chosen


def first_point(problem: Clustering, random: np.random.RandomState) -> ClusterPoint:
    """Return the start that known clusters give, or k-means++ without any."""
    if isinstance(problem, KernelClusters):
        labels = known_labels(problem, random)
        if problem.sharpness is None:
            return ClusterPoint(labels=labels)
        memberships = problem.memberships(labels)
        memberships[labels == FREE] = 1 / problem.n_clusters
        return ClusterPoint(memberships=memberships)
    if isinstance(problem, ObservedClusters):
        centers = spread_observed_rows(problem, random)
    else:
        assert isinstance(problem, Clusters)
        centers = known_means(problem, random)
    shares = np.full(problem.n_clusters, 1 / problem.n_clusters)
    return ClusterPoint(centers, shares=shares)


def random_rows(problem: Clusters, random: np.random.RandomState) -> Array:
    """Return different rows, drawn by their weights."""
    n = problem.X.shape[0]
    k = problem.n_clusters
    w = problem.weights
    if w is None:
        return inner_rows(problem, random.choice(n, k, replace=False))
    too_few = bool(np.count_nonzero(w) < k)
    return inner_rows(problem, random.choice(n, k, replace=too_few, p=w / w.sum()))


def spread_rows(problem: Clusters, random: np.random.RandomState) -> Array:
    """Return rows drawn by their divergence from those before (Arthur & Vassilvitskii 2007)."""

    def distances(chosen: Array) -> Array:
        return distances_from(problem, inner_rows(problem, chosen))

    chosen = spread(distances, problem.X.shape[0], problem.weights, problem.n_clusters, random)
    return inner_rows(problem, chosen)


def inner_rows(problem: Clusters | ObservedClusters, chosen: Array) -> Array:
    """Return rows as centers, moved towards the mean where the domain has a closed boundary.

    A zero of a single row of counts would keep out of its cluster every row without that zero.
    """
    if isinstance(problem, ObservedClusters):
        rows = problem.filled[chosen]
    else:
        rows = dense(problem.X[chosen])
    domain = problem.divergence.domain
    if domain.low_closed or domain.high_closed:
        return rows + INWARD_SHARE * (problem.anchor - rows)
    return rows


def spread_observed_rows(problem: ObservedClusters, random: np.random.RandomState) -> Array:
    """Return rows by k-means++ over observed entries, completed by the mean of the rows."""

    def distances(chosen: Array) -> Array:
        return problem.distances(inner_rows(problem, chosen))

    n = len(problem.X)
    chosen = spread(distances, n, problem.weights, problem.n_clusters, random)
    return inner_rows(problem, chosen)


def random_observed_rows(problem: ObservedClusters, random: np.random.RandomState) -> Array:
    """Return different rows, drawn by their weights, completed by the mean of the rows."""
    w = problem.row_weights
    too_few = bool(np.count_nonzero(w) < problem.n_clusters)
    chosen = random.choice(
        len(w),
        problem.n_clusters,
        replace=too_few,
        p=w / w.sum(),
    )
    return inner_rows(problem, chosen)


def known_means(problem: Clusters, random: np.random.RandomState) -> Array:
    """Return means of rows of known clusters, and for other clusters free rows far from all.

    With no known cluster at all it is k-means++.
    """
    w = problem.row_weights
    k = problem.n_clusters
    sums = np.zeros((k, problem.X.shape[1]))
    masses = np.zeros(k)
    if problem.codes is not None:
        known_rows = np.flatnonzero(problem.codes != FREE)
        for some, X in row_blocks(problem.X, among=known_rows):
            codes = problem.codes[some]
            places = codes, np.arange(len(some))
            sums += scipy.sparse.csr_array((w[some], places), (k, len(some))) @ X
            masses += np.bincount(codes, w[some], minlength=k)
    if not masses.any():
        return spread_rows(problem, random)
    centers = sums / np.where(masses > 0, masses, 1)[:, None]
    known = masses > 0
    if known.all():
        return centers
    closest = distances_from(problem, centers[known]).min(axis=1)
    assert problem.free is not None
    usable = problem.free & (w > 0)
    if not usable.any():  # free rows count nothing, and are placed all the same
        usable = problem.free
    for j in np.flatnonzero(~known):
        farthest = int(np.where(usable, closest, -1).argmax())
        centers[j] = inner_rows(problem, np.array([farthest]))[0]
        closest = np.minimum(closest, distances_from(problem, centers[j : j + 1])[:, 0])
    return centers


def spread_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by the nearest of rows chosen by k-means++ in feature space."""

    def distances(chosen: Array) -> Array:
        return kernel_distances(problem, chosen)

    chosen = spread(distances, len(problem.scale), problem.mass, problem.n_clusters, random)
    return distances(chosen).argmin(axis=1).astype(np.int32)


def random_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by the nearest of rows chosen at random."""
    chosen = random.permutation(np.flatnonzero(problem.weights > 0))[: problem.n_clusters]
    return kernel_distances(problem, chosen).argmin(axis=1).astype(np.int32)


def known_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return known clusters, and for each other cluster the free row farthest from all centers.

    With no known cluster at all it is k-means++. Other rows are -1.
    """
    if problem.free is None or problem.free.all():
        return spread_labels(problem, random)
    assert problem.codes is not None
    labels = problem.codes.astype(np.int32)
    weights = problem.weights if problem.graph_weights is None else problem.graph_weights
    known = labels[problem.weights > 0]
    for j in np.setdiff1d(np.arange(problem.n_clusters), known):
        centers, inner = problem.centers_of(labels)
        closest = np.maximum(problem.distances(centers, inner), 0).min(axis=1)
        usable = (labels == FREE) & (weights > 0)
        labels[np.where(usable, closest, -1).argmax()] = j
    return labels


def kernel_distances(problem: KernelClusters, chosen: Array) -> Array:
    """Return halves of the squared distances from chosen rows.

    Under an indefinite K some are negative; all are then raised until no other row is nearer than
    a row is to itself.
    """
    s = problem.scale
    lengths = problem.lengths
    inner = problem.dense_rows(chosen).T * s[:, None] * s[chosen]
    D = lengths[:, None] + lengths[chosen] - inner
    least = float(D.min())
    if least < -MAX_NEGATIVE * np.abs(inner).max():
        D -= 2 * least
    D[chosen, np.arange(len(chosen))] = 0
    return np.maximum(D, 0)


def distances_from(problem: Clusters, M: Array) -> Array:
    """Return D(x_i, m_j) in the precision of the data, from values of F that are found once."""
    divergence = problem.started
    base = problem.base(divergence)
    if is_sparse(problem.X) and base is not None:
        return divergence.between(problem.X, M, problem.anchor, base)
    out = np.empty((problem.X.shape[0], len(M)), problem.X.dtype)
    for at, X in row_blocks(problem.X):
        block_base = None if base is None else base[at]
        out[at] = divergence.between(X, M, problem.anchor, block_base)
    return out


def spread(
    distances: Distances,
    n: int,
    w: Array | None,
    k: int,
    random: np.random.RandomState,
) -> Array:
    """Return k rows by k-means++; of a few rows drawn each time the best is kept."""
    mass = np.ones(n) if w is None else w
    chosen = [_draw(mass, 1, random)[0]]
    trials = 2 + int(np.log(k))
    closest = distances(np.array(chosen))[:, 0]
    while len(chosen) < k:
        cost = mass * closest
        if not cost.sum() > 0:
            cost = mass
        tried = _draw(cost, trials, random)
        left = distances(tried)
        np.minimum(left, closest[:, None], out=left)
        best = int((mass @ left).argmin())
        chosen.append(tried[best])
        closest = left[:, best].copy()
    return np.array(chosen)


def _draw(mass: Array, count: int, random: np.random.RandomState) -> Array:
    below = mass.cumsum(dtype=np.float64)
    at = np.searchsorted(below, random.random_sample(count) * below[-1], side="right")
    return np.minimum(at, np.flatnonzero(mass)[-1])  # rounding in the last sum
