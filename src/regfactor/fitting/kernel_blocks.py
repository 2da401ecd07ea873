"""Clusters in the feature space of a kernel: the kernel matrix by blocks of rows, and scores of new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse, is_symmetric
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.kernels import Custom, Gaussian, Kernel, Linear, Polynomial, Precomputed, as_kernel
from regfactor.solvers.kernel_lloyd import KernelCenters, KernelClusters, row_slices

POINTWISE = (Linear, Gaussian, Polynomial, Custom)  # what k(x, y) is does not depend on other rows
HELD = (
    2**25
)  # entries of a kernel matrix that is held whole; larger ones are found again by blocks of rows
FEW = 256  # rows compared with each other where only the diagonal is wanted


@dataclass(frozen=True, eq=False)
class Implicit:
    """Centers in feature space, the training rows by which they are expressed, and whether points are phi(x)/d(x)."""

    kernel: Kernel
    X: Any
    prepared: Any  # what the kernel has found out about X
    centers: KernelCenters
    cut: bool = False
    origin: Array | None = None  # taken off new rows, as it was off the training rows

    def nearest(self, X: Any) -> tuple[Array, None]:
        """Return the label of every row."""
        return self.relative(X).argmin(axis=1).astype(np.int32), None

    def between(self, X: Any) -> Array:
        """Half the squared distance in feature space of all rows from all centers."""
        if not isinstance(self.kernel, POINTWISE):
            raise UnsupportedProblem(
                f"Distances from centers need k(x, x), which {self.kernel} does not tell of new rows; predict() works "
                "without it, and inertia_ is that of the training rows.",
            )
        D = self.relative(X) + diagonal(self.kernel, less_origin(X, self.origin))[:, None] / 2
        return np.maximum(D, 0).astype(X.dtype)

    def relative(self, X: Any) -> Array:
        """`between` without the share of the row itself, which no comparison of centers needs."""
        out = np.empty((X.shape[0], len(self.centers.masses)))
        for at in row_slices(X.shape[0], self.X.shape[0]):
            K = np.asarray(
                self.kernel.gram(less_origin(X[at], self.origin), self.X, self.prepared),
                np.float64,
            )
            if self.cut and isinstance(self.kernel, Gaussian) and not (near := K.any(axis=1)).all():
                K[~near] = self.kernel.scaled(
                    X[at][~near],
                    self.X,
                )  # affinities count beside each other alone
            inner = self.centers.inner(K)
            if self.cut:
                degrees = K @ self.centers.weights
                inner /= np.where(degrees > 0, degrees, 1)[
                    :,
                    None,
                ]  # a row with no affinity has none to any center
            out[at] = self.centers.relative(inner)
        return out


def diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of every row, for a pointwise kernel."""
    starts = range(0, X.shape[0], FEW)
    return np.concatenate(
        [np.diag(kernel.gram(X[i : i + FEW], X[i : i + FEW])) for i in starts],
    ).astype(np.float64)


def kernel_rows(kernel: Kernel, X: Any) -> tuple[Callable[[Any], Array], Array, Any]:
    """Return how rows of the kernel matrix are found, its diagonal, and what is prepared for new rows."""
    n = X.shape[0]
    prepared = kernel.prepare(X)
    if isinstance(kernel, Precomputed) and is_sparse(X):
        K = kernel.checked(X, X).astype(np.float64)
        check_symmetric(kernel, K)
        return K.__getitem__, K.diagonal(), prepared
    if isinstance(kernel, POINTWISE) and n * n > HELD:
        return (
            lambda at: kernel.gram(X[at], X, prepared).astype(np.float64, copy=False),
            diagonal(kernel, X),
            prepared,
        )
    K = np.asarray(kernel.gram(X, prepared=prepared), np.float64)
    check_symmetric(kernel, K)
    return K.__getitem__, np.diag(K), prepared


def check_symmetric(kernel: Kernel, K: Array) -> None:
    """Raise for a kernel matrix, given or by a function that is given, that is none."""
    if isinstance(kernel, Precomputed | Custom) and not is_symmetric(K):
        raise ValueError(f"The kernel matrix of {kernel} is not symmetric; use (K + K.T) / 2.")


def implicit_problem(
    X: Any,
    w: Array | None,
    k: int,
    kernel: tuple[Any, Any, Any, Any],
) -> tuple[Callable[[KernelCenters], Implicit], KernelClusters]:
    """Return k-means in the feature space of a kernel with its parameters found on the rows, and what scores rows."""
    part = as_kernel(*kernel).resolved(X)
    n = X.shape[0]
    origin = origin_of(part, X, w)
    X = less_origin(X, origin)
    rows, own, prepared = kernel_rows(part, X)
    problem = KernelClusters(rows, own, np.ones(n) if w is None else w, np.ones(n), k)
    return partial(Implicit, part, X, prepared, origin=origin), problem


def origin_of(kernel: Kernel, X: Any, w: Array | None = None) -> Array | None:
    """Return what is taken off all rows of a linear kernel: distances do not see it, but products lose digits by it."""
    if not isinstance(kernel, Linear) or is_sparse(X):
        return None
    return np.asarray(np.average(X, axis=0, weights=w), X.dtype)


def less_origin(X: Any, origin: Array | None) -> Any:
    """Return rows less an origin, where there is one."""
    if origin is None:
        return X
    return X - origin


def labels_of(init: Any, n: int, k: int) -> Array:
    """Return given labels; raise unless they are one of k for each row."""
    labels = np.asarray(init)
    if (
        labels.shape != (n,)
        or labels.dtype.kind not in "iu"
        or labels.min() < 0
        or labels.max() >= k
    ):
        raise ValueError(
            f"In the feature space of a kernel init must be a name, or hold a label from 0 to {k - 1} for each of the "
            f"{n} rows, since centers have no coordinates; got shape {labels.shape} and type {labels.dtype}.",
        )
    return labels.astype(np.int32)
