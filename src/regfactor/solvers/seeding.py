"""Where centers begin: rows far from each other under the divergence (k-means++), or rows at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses.distances import Divergence
from regfactor.problems.clusters import Clusters, small_blocks

INWARD = (
    0.25  # how far a row on the boundary of the domain is moved towards the mean to be a center
)
Distances = Callable[[Array], Array]  # of all rows from some chosen rows, n x chosen


def random_rows(problem: Clusters, random: np.random.RandomState) -> Array:
    """Return different rows, drawn by their weights."""
    n = problem.X.shape[0]
    k = problem.n_clusters
    w = problem.weights
    few = w is not None and bool(np.count_nonzero(w) < k)
    return inner_rows(
        problem,
        random.choice(n, k, replace=few, p=None if w is None else w / w.sum()),
    )


def spread_rows(problem: Clusters, random: np.random.RandomState) -> Array:
    """Return rows each drawn by its divergence from those before it (Arthur & Vassilvitskii 2007)."""
    divergence = problem.started

    def distances(chosen: Array) -> Array:
        return _distances(problem, divergence, inner_rows(problem, chosen))

    return inner_rows(
        problem,
        spread(distances, problem.X.shape[0], problem.weights, problem.n_clusters, random),
    )


def inner_rows(problem: Clusters, chosen: Array) -> Array:
    """Return rows as centers, moved towards the mean of all rows where data may lie on the boundary of the domain.

    A zero of a single row of counts would keep out of its cluster every row without that zero.
    """
    rows = taken(problem.X, chosen)
    domain = problem.divergence.domain
    if domain.low_closed or domain.high_closed:
        return rows + INWARD * (problem.anchor - rows)
    return rows


def spread(
    distances: Distances,
    n: int,
    w: Array | None,
    k: int,
    random: np.random.RandomState,
) -> Array:
    """Return k rows by k-means++; of a few rows drawn each time, the one that leaves the least is kept."""
    mass = np.ones(n) if w is None else w
    chosen = [_draw(mass, 1, random)[0]]
    trials = 2 + int(np.log(k))
    closest = distances(np.array(chosen))[:, 0]
    while len(chosen) < k:
        cost = mass * closest
        tried = _draw(cost if cost.sum() > 0 else mass, trials, random)
        left = distances(tried)
        np.minimum(left, closest[:, None], out=left)
        best = int((mass @ left).argmin())
        chosen.append(tried[best])
        closest = left[:, best].copy()
    return np.array(chosen)


def _draw(mass: Array, count: int, random: np.random.RandomState) -> Array:
    heaps = mass.cumsum(dtype=np.float64)
    at = np.searchsorted(heaps, random.random_sample(count) * heaps[-1], side="right")
    return np.minimum(at, np.flatnonzero(mass)[-1])  # rounding in the last heap


def _distances(problem: Clusters, divergence: Divergence, M: Array) -> Array:
    """Return D(x_i, m_j) in the precision of the data, from values of F that are found once."""
    base = problem.base(divergence)
    if is_sparse(problem.X) and base is not None:
        return divergence.between(problem.X, M, problem.anchor, base)
    out = np.empty((problem.X.shape[0], len(M)), problem.X.dtype)
    for at, X in small_blocks(problem.X):
        out[at] = divergence.between(X, M, problem.anchor, None if base is None else base[at])
    return out


def taken(X: Any, rows: Array) -> Array:
    """Return some rows as a dense array in float64."""
    some = X[rows]
    return np.asarray(some.toarray() if is_sparse(some) else some, np.float64)
