"""Rows as points of a surface: neighbors, and orthonormal frames of the tangent spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from regfactor.core.params import Array, frozen, is_number

DISTANCES_MEGABYTES = 64
BLOCK_ELEMENTS = 2_000_000  # numbers of neighborhoods that are held at once


@frozen
class Tangents:
    """Neighbors of each row (n, k), without itself, and a frame (n, d, m).

    The frame is made of principal components of the row and its neighbors.
    """

    places: Array
    frames: Array

    @staticmethod
    def of(X: Array, n_neighbors: int, dimension: int) -> Tangents:
        """Return the tangent spaces of the rows of X."""
        n, d = X.shape
        k = min(n_neighbors, n - 1)
        with config_context(working_memory=DISTANCES_MEGABYTES):
            places = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
        frames = np.empty((n, d, dimension))
        for rows in gen_batches(n, max(BLOCK_ELEMENTS // (k * d), 1)):
            around = np.concatenate([X[rows, None], X[places[rows]]], axis=1)
            around -= around.mean(axis=1, keepdims=True)
            frames[rows] = _leading(around, dimension)
        return Tangents(places, frames)

    def coordinates(self, X: Array, rows: slice) -> Array:
        """Return the neighbors of some rows in their frames, relative to them, (rows, k, m)."""
        return (X[self.places[rows]] - X[rows, None]) @ self.frames[rows]

    def steps(self, differences: Array, rows: Array, slopes: Array) -> Array:
        """Return the changes from some rows over differences, by slopes (rows, m, targets)."""
        return np.einsum("nd,ndm,nmt->nt", differences, self.frames[rows], slopes, optimize=True)


def check_dimension(dimension: Any, n_features: int, n_rows: int) -> int:
    """Return the dimension of a surface; raise for one that the rows cannot have."""
    if not is_number(dimension) or int(dimension) != dimension or dimension < 1:
        raise ValueError(f"dimension must be a whole number >= 1, got {dimension!r}.")
    return min(int(dimension), n_features, n_rows - 1)


def _leading(around: Array, dimension: int) -> Array:
    """Return the leading principal directions of each neighborhood, by its smaller Gram matrix."""
    count, k, d = around.shape
    if d <= k:
        vectors = np.linalg.eigh(around.transpose(0, 2, 1) @ around)[1]
        return vectors[:, :, ::-1][:, :, :dimension]
    vectors = np.linalg.svd(around, full_matrices=False)[2].transpose(0, 2, 1)
    out = np.zeros((count, d, dimension))
    out[:, :, : min(vectors.shape[2], dimension)] = vectors[:, :, :dimension]
    return out
