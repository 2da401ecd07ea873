"""Kernels of two rows, independent of all other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.metrics.pairwise import (
    euclidean_distances,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, require_count, require_not_negative
from regfactor.kernels import widths
from regfactor.kernels.base import Kernel, about_mean, float_type


@dataclass
class Linear(Kernel):
    """k(x, y) = x'y."""

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        return linear_kernel(X, Y)

    def features(self, X: Any) -> Array:
        if is_sparse(X):
            return X.toarray()
        return np.array(X)


@dataclass
class Gaussian(Kernel):
    """k(x, y) = exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float or str, default="scale"
        A positive number, or the rule by which `resolved` computes it from training rows: "scale"
        is 1/(n_features Var(X)) as in scikit-learn's SVC; "median" is 1/(2 s) with s the median
        squared distance between rows; "neighbors" is 1/(2 s) with s the median squared distance to
        the tenth neighbor. Unresolved, it is computed from the reference rows.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> kernel = Gaussian("median").resolved(X)
    >>> kernel
    Gaussian(gamma=0.125)
    >>> kernel.gram(X[:2], X).round(2)
    array([[1.  , 0.88, 0.32],
           [0.88, 1.  , 0.61]])
    """

    gamma: float | str = "scale"

    def __post_init__(self) -> None:
        widths.check(self, self.gamma)

    def resolved(self, X: Any) -> Self:
        return replace(self, gamma=widths.found(self.gamma, X))

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        if Y is None:
            rows, _ = about_mean(X)
            return rbf_kernel(rows, gamma=widths.found(self.gamma, X))
        gamma = widths.found(self.gamma, Y)
        Y, X = about_mean(Y, X)
        return rbf_kernel(X, Y, gamma=gamma)

    def scaled(self, X: Any, Y: Any) -> Array:
        """Return `gram(X, Y)` with each row divided by its maximum: far rows do not vanish."""
        gamma = widths.found(self.gamma, Y)
        Y, X = about_mean(Y, X)
        squares = euclidean_distances(X, Y, squared=True).astype(np.float64, copy=False)
        return np.exp(-gamma * (squares - squares.min(axis=1, keepdims=True)))


@dataclass
class Polynomial(Kernel):
    """k(x, y) = (gamma x'y + coef0)^degree, with coef0 >= 0, as an inner product requires."""

    degree: int = 3
    coef0: float = 1.0
    gamma: float | str = 1.0

    def __post_init__(self) -> None:
        widths.check(self, self.gamma)
        require_count(self, degree=self.degree)
        require_not_negative(self, coef0=self.coef0)

    def resolved(self, X: Any) -> Self:
        return replace(self, gamma=widths.found(self.gamma, X))

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        reference = X if Y is None else Y
        gamma = widths.found(self.gamma, reference)
        return polynomial_kernel(X, Y, degree=self.degree, gamma=gamma, coef0=self.coef0)


@dataclass
class Precomputed(Kernel):
    """X contains k already: one row for each row, one column for each reference row."""

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        if Y is None:
            Y = X
        if is_sparse(X):
            return self.checked(X, Y).toarray()
        return self.checked(np.array(X), Y)

    def checked(self, K: Any, Y: Any) -> Any:
        """Return the matrix unchanged; raise unless it has a column for each reference row."""
        if K.ndim != 2 or K.shape[1] != Y.shape[0]:
            raise ValueError(
                f"A precomputed kernel needs one column for each of the {Y.shape[0]} reference "
                f"rows, got shape {K.shape}: fit on the square matrix of the training rows, and "
                "score rows by their kernel against these."
            )
        return K


@dataclass
class Custom(Kernel):
    """k by a function of two tables that returns the matrix of all pairs, as for sklearn's SVC."""

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"Custom needs a function of two tables, got {self.function!r}.")

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        if Y is None:
            Y = X
        K = np.asarray(self.function(X, Y), float_type(X))
        if K.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"The kernel function returned shape {K.shape} for tables of {X.shape[0]} and "
                f"{Y.shape[0]} rows; it must return the matrix of all pairs of rows."
            )
        return K
