"""Kernel matrices by blocks of rows, and scores of new rows by centers in feature space."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse, is_symmetric, positive_or_one
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.kernels import Custom, Gaussian, Kernel, Linear, Polynomial, Precomputed
from regfactor.problems.kernel_clusters import KernelCenters, row_slices, slices_of

POINTWISE = (Linear, Gaussian, Polynomial, Custom)  # k(x, y) does not depend on other rows
MAX_HELD_ENTRIES = 2**25  # of a kernel matrix that is held whole; larger ones are found by blocks
DIAGONAL_ROWS = 256  # compared with each other where only the diagonal is wanted


@frozen
class KernelRows:
    """The training rows in feature space: rows of K, its diagonal, and what scores new rows."""

    kernel: Kernel
    X: Any
    prepared: Any  # what the kernel found out about X
    rows: Callable[[Any], Any]
    diagonal: Array
    origin: Array | None = None  # subtracted from rows

    def scoring(self, centers: KernelCenters, cut: bool = False) -> ImplicitCenters:
        """Return what compares new rows with centers."""
        return ImplicitCenters(self.kernel, self.X, self.prepared, centers, cut, self.origin)


@frozen
class ImplicitCenters:
    """Centers in feature space with the training rows by which they are expressed.

    With `cut` points are phi(x)/d(x), d the degree.
    """

    kernel: Kernel
    X: Any
    prepared: Any
    centers: KernelCenters
    cut: bool = False
    origin: Array | None = None

    def nearest(self, X: Any) -> tuple[Array, None]:
        """Return the label of every row."""
        return self.relative(X).argmin(axis=1).astype(np.int32), None

    def between(self, X: Any) -> Array:
        """Half the squared distance in feature space of all rows from all centers."""
        if not isinstance(self.kernel, POINTWISE):
            raise UnsupportedProblem(
                f"Distances from centers need k(x, x), which {self.kernel} does not give for new "
                "rows; predict() works without it, and inertia_ is that of the training rows."
            )
        own = diagonal(self.kernel, less_origin(X, self.origin))
        return np.maximum(self.relative(X) + own[:, None] / 2, 0).astype(X.dtype)

    def relative(self, X: Any) -> Array:
        """`between` without the share of the row itself, which no comparison of centers needs."""
        out = np.empty((X.shape[0], len(self.centers.masses)))
        for at in row_slices(X.shape[0], self.X.shape[0]):
            rows = less_origin(X[at], self.origin)
            K = np.asarray(self.kernel.gram(rows, self.X, self.prepared), np.float64)
            if self.cut:
                out[at] = self._relative_by_degree(X[at], K)
            else:
                out[at] = self.centers.relative(self.centers.inner(K))
        return out

    def _relative_by_degree(self, X: Any, K: Array) -> Array:
        """`relative` of points phi(x)/d(x)."""
        distant = ~K.any(axis=1)
        if isinstance(self.kernel, Gaussian) and distant.any():
            # Affinities count only relative to each other.
            K[distant] = self.kernel.scaled(X[distant], self.X)
        degrees = K @ self.centers.weights
        inner = self.centers.inner(K)
        inner /= positive_or_one(degrees)[:, None]
        return self.centers.relative(inner)


def diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of every row, for a pointwise kernel."""
    parts = []
    for start in range(0, X.shape[0], DIAGONAL_ROWS):
        rows = X[start : start + DIAGONAL_ROWS]
        parts.append(np.diag(kernel.gram(rows, rows)))
    return np.concatenate(parts).astype(np.float64)


def kernel_rows(kernel: Kernel, X: Any, origin: Array | None = None) -> KernelRows:
    """Return the rows of a kernel whose parameters are numbers, held whole where they are few."""
    n = X.shape[0]
    X = less_origin(X, origin)
    prepared = kernel.prepare(X)
    if isinstance(kernel, Precomputed) and is_sparse(X):
        K = kernel.checked(X, X).astype(np.float64)
        own = K.diagonal()
    elif isinstance(kernel, POINTWISE) and n * n > MAX_HELD_ENTRIES:
        rows = partial(_gram_rows, kernel, X, prepared)
        return KernelRows(kernel, X, prepared, rows, diagonal(kernel, X), origin)
    else:
        K = np.asarray(kernel.gram(X, prepared=prepared), np.float64)
        own = np.diag(K)
    check_symmetric(kernel, K)
    return KernelRows(kernel, X, prepared, K.__getitem__, own, origin)


def _gram_rows(kernel: Kernel, X: Any, prepared: Any, at: Any) -> Array:
    return kernel.gram(X[at], X, prepared).astype(np.float64, copy=False)


def check_symmetric(kernel: Kernel, K: Array) -> None:
    """Raise if a kernel matrix, given or by a function that is given, is not symmetric."""
    if isinstance(kernel, Precomputed | Custom) and not is_symmetric(K):
        raise ValueError(f"The kernel matrix of {kernel} is not symmetric; use (K + K.T) / 2.")


def check_affinities(K: Any, first: int = 0) -> None:
    """Raise if an affinity is negative; `first` is the number of the first row."""
    if K.min() < 0:
        i, j = np.unravel_index(int(K.argmin()), K.shape)
        raise ValueError(
            f"Affinities must not be negative; that of rows {first + int(i)} and {int(j)} is "
            f"{K.min():g}. Use 'rbf', or 'poly' of an even degree; a linear kernel is not an "
            "affinity."
        )


def degrees_of(rows: Callable[[Any], Any], weights: Array) -> Array:
    """Return K w; raise if an affinity is negative or a row has none."""
    n = len(weights)
    degrees = np.empty(n)
    for at in slices_of(rows, n):
        K = rows(at)
        check_affinities(K, at.start)
        degrees[at] = K @ weights
    if not (degrees > 0).all():
        isolated = int(np.argmin(degrees))
        raise ValueError(
            f"Row {isolated} has no affinity to any row, so it has no degree; remove it, or lower "
            "gamma."
        )
    return degrees


def origin_of(kernel: Kernel, X: Any, w: Array | None = None) -> Array | None:
    """Return what is subtracted from all rows of a linear kernel, whose products lose precision.

    Distances do not depend on it.
    """
    if not isinstance(kernel, Linear) or is_sparse(X):
        return None
    return np.asarray(np.average(X, axis=0, weights=w), X.dtype)


def less_origin(X: Any, origin: Array | None) -> Any:
    """Return rows less an origin, where there is one."""
    if origin is None:
        return X
    return X - origin


def check_labels(init: Any, n: int, k: int) -> Array:
    """Return given labels; raise unless they are one of k for each row."""
    labels = np.asarray(init)
    whole = labels.shape == (n,) and labels.dtype.kind in "iu"
    if not whole or labels.min() < 0 or labels.max() >= k:
        raise ValueError(
            "In the feature space of a kernel init must be a name, or hold a label from 0 to "
            f"{k - 1} for each of the {n} rows, since centers have no coordinates; got shape "
            f"{labels.shape} and type {labels.dtype}."
        )
    return labels.astype(np.int32)
