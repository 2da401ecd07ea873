"""What a kernel promises: inner products of rows in some feature space, with features that have them."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
import scipy.linalg

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, Params


class Kernel(Params, abc.ABC):
    """k(x, y), the inner product of two rows in a feature space; holds parameters and no data."""

    @abc.abstractmethod
    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        """Return k between the rows of X and the reference rows Y; without Y, those of X among themselves.

        `prepared` is what `prepare(Y)` returned, where several X meet the same Y.
        """

    def prepare(self, Y: Any) -> Any:
        """Return what `gram(X, Y)` has to find out about Y alone; None where that is nothing."""
        return None

    def resolved(self, X: Any) -> Self:
        """Return the kernel with numbers in place of the parameters that are found on training rows X."""
        return self

    def features(self, X: Any) -> Array:
        """Return R with R R' = gram(X); directions of non-positive eigenvalue are dropped."""
        K = self.gram(X)
        values, vectors = scipy.linalg.eigh(K.astype(np.float64, copy=False), check_finite=False)
        keep = values > len(K) * np.finfo(np.float64).eps * abs(values).max(initial=0.0)
        return np.asarray(vectors[:, keep][:, ::-1] * np.sqrt(values[keep][::-1]), K.dtype)


def about_mean(Y: Any, X: Any = None) -> tuple[Any, Any]:
    """Return references Y and rows X less the mean of the references; a sparse one leaves both as they are.

    Distances do not see it, but where |x|^2 - 2 x'y + |y|^2 is their square they lose all digits
    far from the origin.
    """
    if X is not None and np.shape(X)[1] != np.shape(Y)[1]:
        raise ValueError(
            f"Rows have {np.shape(X)[1]} columns, the reference rows {np.shape(Y)[1]}; they must agree."
        )
    if is_sparse(Y) or is_sparse(X):
        return Y, X
    mean = np.mean(Y, axis=0, dtype=np.float64).astype(kind(Y))
    return np.asarray(Y) - mean, None if X is None else np.asarray(X) - mean


def kind(X: Any) -> Any:
    """float32 for float32, float64 for everything else."""
    if getattr(X, "dtype", None) == np.float32:
        return np.float32
    return np.float64
