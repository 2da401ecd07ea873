"""Partitions from which EM of a mixture starts: k-means on several scalings of the rows, and Ward.

Whitened principal components matter most: in them a direction that separates clusters weighs as
much as one along which all clusters are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from regfactor.core.params import SMALLEST_NORMAL, Array

KMEANS_STARTS = 3
MAX_KMEANS_STEPS = 100
MAX_WARD_ROWS = 500  # beyond which distances between all pairs cost too much


def distinct(partitions: Iterable[Array]) -> list[Array]:
    """Return partitions that differ, whatever the names of their clusters."""
    found: dict[bytes, Array] = {}
    for labels in partitions:
        renamed = by_first_row(labels)
        found.setdefault(renamed.tobytes(), renamed)
    return list(found.values())


def by_first_row(labels: Array) -> Array:
    """Return labels renamed in the order of the first rows of clusters."""
    _, first, places = np.unique(labels, return_index=True, return_inverse=True)
    ranks = first.argsort().argsort()
    return np.asarray(ranks[places], dtype=np.int64)


def of_transformed(
    Y: Array,
    weights: Array,
    k: int,
    random: np.random.RandomState,
) -> Iterator[Array]:
    """Yield labels of complete transformed rows."""
    yield kmeans(Y, weights, k, random)
    scores = principal_scores(Y, weights)
    most = scores.shape[1]
    few = min(max(k - 1, 1), most)
    many = min(2 * k, most)
    for q in sorted({few, many}):
        some = scores[:, :q]
        if q < Y.shape[1]:
            yield kmeans(some, weights, k, random)
        yield kmeans(some / some.std(axis=0), weights, k, random)
    if len(Y) <= MAX_WARD_ROWS:
        yield AgglomerativeClustering(k).fit_predict(Y)


def of_given(
    X: Array,
    weights: Array,
    k: int,
    random: np.random.RandomState,
) -> Iterator[Array]:
    """Yield labels of complete rows as they are given, and of square roots of their shares."""
    yield kmeans(X, weights, k, random)
    if X.min() >= 0:
        totals = X.sum(axis=1, keepdims=True)
        shares = X / np.where(totals > 0, totals, 1.0)
        yield kmeans(np.sqrt(shares), weights, k, random)


def kmeans(Y: Array, weights: Array, k: int, random: np.random.RandomState) -> Array:
    """Return labels by k-means, the best of three runs, which are made side by side."""
    n = len(Y)
    Y = Y - weights @ Y / weights.sum()  # products below lose precision far from zero
    seeds = [kmeans_plus_plus(Y, weights, k, random) for _ in range(KMEANS_STARTS)]
    centers = np.vstack(seeds)
    labels = np.full((n, KMEANS_STARTS), -1)
    for _ in range(MAX_KMEANS_STEPS):
        last = labels
        # |y - c|^2 less |y|^2
        lengths = np.square(centers).sum(axis=1)
        distances = lengths - 2 * (Y @ centers.T)
        distances = distances.reshape(n, KMEANS_STARTS, k)
        labels = distances.argmin(axis=2)
        if (labels == last).all():
            break
        is_member = labels[:, :, None] == np.arange(k)
        members = is_member * weights[:, None, None]
        members = members.reshape(n, KMEANS_STARTS * k)
        counts = members.sum(axis=0)
        held = np.maximum(counts, SMALLEST_NORMAL)
        means = members.T @ Y / held[:, None]
        # an empty cluster keeps its center
        centers = np.where(counts[:, None] > 0, means, centers)
    inertia = weights @ distances.min(axis=2)
    return np.asarray(labels[:, inertia.argmin()], dtype=np.int64)


def kmeans_plus_plus(
    Y: Array,
    weights: Array,
    k: int,
    random: np.random.RandomState,
) -> Array:
    """Return rows far from each other: the best of a few drawn by their squared distances.

    Arthur & Vassilvitskii 2007, greedy: of 2 + log(k) rows drawn the one that lowers the sum of
    squared distances to the nearest center most.
    """
    n_trials = 2 + int(np.log(k))
    squares = np.einsum("nd,nd->n", Y, Y)
    first = random.choice(len(Y), p=weights / weights.sum())
    chosen = [int(first)]
    nearest = _squared_distances(Y, squares, chosen)[:, 0]
    for _ in range(1, k):
        odds = np.cumsum(weights * nearest)
        drawn = random.random_sample(n_trials) * odds[-1]
        draws = np.searchsorted(odds, drawn)
        draws = np.minimum(draws, len(Y) - 1)
        distances = _squared_distances(Y, squares, draws)
        closer = np.minimum(distances, nearest[:, None])
        best = int((weights @ closer).argmin())
        chosen.append(int(draws[best]))
        nearest = closer[:, best]
    return np.asarray(Y[chosen])


def _squared_distances(Y: Array, squares: Array, places: Any) -> Array:
    """Return squared distances of all rows to some of them."""
    distances = squares[:, None] + squares[places] - 2 * (Y @ Y[places].T)
    return np.asarray(np.maximum(distances, 0.0))


def principal_scores(Y: Array, weights: Array) -> Array:
    """Return the scores of rows on their principal components that are not constant."""
    centered = Y - weights @ Y / weights.sum()
    U, values, _ = np.linalg.svd(centered, full_matrices=False)
    kept = values > 1e-6 * max(values[0], 1e-300)
    return np.asarray(U[:, kept] * values[kept])


def as_responsibilities(labels: Array, k: int) -> Array:
    """Return labels as responsibilities of 0 and 1."""
    return np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)
