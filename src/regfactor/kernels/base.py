"""The role of a kernel: inner products of rows in a feature space, and features that have them."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import EPS, Array, Params


class Kernel(Params, abc.ABC):
    """k(x, y), the inner product of two rows in a feature space; holds parameters and no data."""

    @abc.abstractmethod
    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        """Return k between the rows of X and the reference rows Y; by default Y is X.

        `prepared` is the result of `prepare(Y)`, for calls with several X and the same Y.
        """

    def prepare(self, Y: Any) -> Any:
        """Return what `gram(X, Y)` computes from Y alone, or None."""
        return None

    def resolved(self, X: Any) -> Self:
        """Return the kernel with the parameters that depend on training rows X as numbers."""
        return self

    def features(self, X: Any) -> Array:
        """Return R with R R' = gram(X); directions of non-positive eigenvalue are dropped."""
        K = self.gram(X)
        values, vectors = scipy.linalg.eigh(K.astype(np.float64, copy=False), check_finite=False)
        keep = values > len(K) * EPS * abs(values).max(initial=0.0)
        roots = np.sqrt(values[keep][::-1])
        return np.asarray(vectors[:, keep][:, ::-1] * roots, K.dtype)


def about_mean(Y: Any, X: Any = None) -> tuple[Any, Any]:
    """Return references Y and rows X minus the mean of the references; sparse tables unchanged.

    Distances stay the same, but computed by |x|^2 - 2 x'y + |y|^2 they would lose all precision to
    cancellation far from the origin.
    """
    if X is not None and np.shape(X)[1] != np.shape(Y)[1]:
        raise ValueError(
            f"Rows have {np.shape(X)[1]} columns and the reference rows {np.shape(Y)[1]}; "
            "the numbers must agree."
        )
    if is_sparse(Y) or is_sparse(X):
        return Y, X
    mean = np.mean(Y, axis=0, dtype=np.float64).astype(float_type(Y))
    if X is not None:
        X = np.asarray(X) - mean
    return np.asarray(Y) - mean, X


def sparse_rows(values: Array, places: Array, n: int) -> scipy.sparse.csr_array:
    """Return the sparse matrix of n columns whose rows have these values at these places."""
    ends = np.arange(0, values.size + 1, values.shape[-1])
    shape = (len(ends) - 1, n)
    return scipy.sparse.csr_array((values.ravel(), places.ravel(), ends), shape=shape)


def float_type(X: Any) -> Any:
    """Return float32 for float32 tables, float64 for all others."""
    if getattr(X, "dtype", None) == np.float32:
        return np.float32
    return np.float64
