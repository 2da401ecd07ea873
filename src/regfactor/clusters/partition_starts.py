"""Partitions from which EM of a mixture starts: k-means on several scalings of the rows, and Ward.

Whitened principal components matter most: in them a direction that separates clusters weighs as
much as one along which all clusters are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans

from regfactor.core.params import Array

KMEANS_STARTS = 3
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
    return np.asarray(first.argsort().argsort()[places], dtype=np.int64)


def of_transformed(
    Y: Array,
    weights: Array,
    k: int,
    random: np.random.RandomState,
) -> Iterator[Array]:
    """Yield labels of complete transformed rows."""
    yield kmeans(Y, weights, k, random)
    scores = principal_scores(Y, weights)
    for q in sorted({min(max(k - 1, 1), scores.shape[1]), min(2 * k, scores.shape[1])}):
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
        yield kmeans(np.sqrt(X / np.where(totals > 0, totals, 1.0)), weights, k, random)


def kmeans(Y: Array, weights: Array, k: int, random: np.random.RandomState) -> Array:
    """Return labels by k-means."""
    seed = random.randint(2**31 - 1)
    model = KMeans(k, n_init=KMEANS_STARTS, random_state=seed)
    return np.asarray(model.fit(Y, sample_weight=weights).labels_, dtype=np.int64)


def principal_scores(Y: Array, weights: Array) -> Array:
    """Return the scores of rows on their principal components that are not constant."""
    centered = Y - weights @ Y / weights.sum()
    U, values, _ = np.linalg.svd(centered, full_matrices=False)
    kept = values > 1e-6 * max(values[0], 1e-300)
    return np.asarray(U[:, kept] * values[kept])


def as_responsibilities(labels: Array, k: int) -> Array:
    """Return labels as responsibilities of 0 and 1."""
    return np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)
