"""Clusters in the feature space of a kernel, features never formed; normalized cuts are such."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.params import Array, frozen
from regfactor.problems.clusters import Clustering

BLOCK_ENTRIES = 2**21  # of a block of rows of the kernel
MAX_LENGTH = 1e300  # squared length of a point


@frozen
class KernelCenters:
    """Centers m_j = sum_i shares_ij phi(x_i) with |m_j|^2, their coordinates never formed.

    `weights` are those by which new rows have their degree.
    """

    shares: Any
    weights: Array
    masses: Array
    squares: Array

    def inner(self, K: Array) -> Array:
        """<phi(x), m_j> of rows given by their kernel with the training rows."""
        return K @ self.shares

    def relative(self, inner: Array) -> Array:
        """|s phi(x) - m_j|^2 / 2 without |s phi(x)|^2 / 2; an empty cluster is infinitely far."""
        return np.where(self.masses > 0, self.squares / 2 - inner, np.inf)

    def compact(self) -> KernelCenters:
        """Return the same centers with the shares of labels, most of them zero, as a CSR array."""
        return replace(self, shares=scipy.sparse.csr_array(self.shares))


@frozen
class KernelClusters(Clustering):
    """min over labels z of factor sum_i w_i/s_i |s_i phi(x_i) - m_{z_i}|^2 / 2 + offset.

    Centers m are the means of their clusters. s = 1 is kernel k-means with weights w. With s = 1/d
    and d = K w it is the normalized cut of K up to a constant (points phi/d of weight d; thesis,
    equation 3.25). With a sharpness it is a mixture, as `Clusters` states it.
    """

    rows: Callable[[Any], Any]  # rows of K by a slice or by places, in CSR where K is sparse
    diagonal: Array
    weights: Array
    scale: Array
    n_clusters: int
    codes: Array | None = None
    sharpness: float | None = None
    factor: float = 1.0
    offset: float = 0.0
    graph_weights: Array | None = None  # by which new rows have their degree, where not `weights`

    def check(self) -> None:
        self.check_codes(len(self.weights))

    def softened(self, sharpness: float) -> KernelClusters:
        """Return the mixture of some sharpness on the same rows."""
        return replace(self, sharpness=sharpness)

    @cached_property
    def mass(self) -> Array:
        """The weight of each point s_i phi(x_i)."""
        return self.weights / self.scale

    @cached_property
    def lengths(self) -> Array:
        """|s_i phi(x_i)|^2 / 2, bounded for rows of almost no degree."""
        with np.errstate(over="ignore"):
            return np.minimum(np.square(self.scale) * self.diagonal / 2, MAX_LENGTH)

    def products(self, V: Array) -> Array:
        """K V, by blocks of rows."""
        out = np.empty((len(self.weights), V.shape[1]))
        for at in slices_of(self.rows, len(out)):
            out[at] = self.rows(at) @ V
        return out

    def dense_rows(self, at: Any) -> Array:
        """Return some rows of K, by a slice or by places, as an array."""
        rows = self.rows(at)
        if is_sparse(rows):
            return rows.toarray()
        return rows

    def memberships(self, labels: Array) -> Array:
        """Return labels as rows of zeros and a one; of a free row all are zero."""
        return (labels[:, None] == np.arange(self.n_clusters)).astype(np.float64)

    def centers(self, memberships: Array) -> tuple[KernelCenters, Array]:
        """Return the centers of memberships, and s_i <phi(x_i), m_j>."""
        H = self.weights[:, None] * memberships
        masses = self.mass @ memberships
        full = positive_or_one(masses)
        inner = self.products(H) / full
        squares = np.einsum("ij,ij->j", H, inner) / full
        graph_weights = self.weights if self.graph_weights is None else self.graph_weights
        centers = KernelCenters(H / full, graph_weights, masses, squares)
        return centers, self.scale[:, None] * inner

    def centers_of(self, labels: Array) -> tuple[KernelCenters, Array]:
        """Return the centers of labels, and s_i <phi(x_i), m_j>."""
        return self.centers(self.memberships(labels))

    def objective(self, centers: KernelCenters) -> float:
        """Return the objective of labels with their own centers."""
        squares = (self.weights * self.scale) @ self.diagonal - centers.masses @ centers.squares
        return self.factor * float(squares) / 2 + self.offset

    def distances(self, centers: KernelCenters, inner: Array) -> Array:
        """Return |s_i phi(x_i) - m_j|^2 / 2, negative for some rows if K is indefinite."""
        return self.lengths[:, None] + centers.relative(inner)


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Yield slices of rows, of which a block of that width stays small."""
    rows = max(BLOCK_ENTRIES // max(width, 1), 16)
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def slices_of(rows: Callable[[Any], Any], n: int) -> Iterator[slice]:
    """Yield slices of the rows of a square matrix, one for all where it is sparse."""
    if is_sparse(rows(slice(0, 1))):
        return iter([slice(0, n)])
    return row_slices(n, n)
