"""Linear maps from the matrix Z that a gauge penalizes to the predictors that a loss sees."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.factors import Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, Params, UnsupportedProblem


class Map(Params, abc.ABC):
    """A linear map with its adjoint and the square of its norm."""

    norm2: float
    diagonal: Any = None  # the factors, where the map is an entrywise multiplication
    rowwise: bool = False  # whether each row is mapped alone, and all rows alike

    @abc.abstractmethod
    def __call__(self, Z: Array) -> Array:
        """Return the predictors."""

    @abc.abstractmethod
    def adjoint(self, G: Array) -> Array:
        """Return the gradient with respect to Z of <G, map(Z)>."""

    def of_factors(self, F: Factors) -> Factors:
        """Return the predictors, in factors, of Z given in factors."""
        if self.diagonal is None:
            raise UnsupportedProblem(f"{self} does not keep factors; use a dense table.")
        return Factors(F.Phi * self.diagonal, F.C)

    @abc.abstractmethod
    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return the shape of Z for predictors of the given shape."""

    def check(self, shape: tuple[int, int]) -> None:  # noqa: B027  # most fit every shape
        """Raise if there are no predictors of the given shape."""


@dataclass
class Identity(Map):
    """Z itself."""

    norm2 = 1.0
    diagonal = 1.0
    rowwise = True

    def __call__(self, Z: Array) -> Array:
        return Z

    def adjoint(self, G: Array) -> Array:
        return G

    def of_factors(self, F: Factors) -> Factors:
        return F

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape


@dataclass
class RowScale(Map):
    """diag(factors) Z; with factors w^(-1/p), row weights act as counts in a norm of power p."""

    factors: Any = 1.0

    def __post_init__(self) -> None:
        self.diagonal = self.factors
        if np.ndim(self.factors):
            self.diagonal = np.asarray(self.factors)[:, None]
        self.norm2 = float(np.square(self.diagonal).max())

    def __call__(self, Z: Array) -> Array:
        return Z * np.asarray(self.diagonal, Z.dtype)

    def adjoint(self, G: Any) -> Any:
        if isinstance(G, np.ndarray):
            return G * np.asarray(self.diagonal, G.dtype)
        return scipy.sparse.diags_array(np.ravel(self.diagonal)) @ G

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape


@dataclass
class Lags(Map):
    """S(W)_t = sum_j W[time t - j, block j], j = 0..q: the last q + 1 innovations (thesis, ch. 7).

    W has q more rows than the predictors: innovations before the first time are free.
    S S* = (q + 1) I exactly.
    """

    q: int = 1

    def __post_init__(self) -> None:
        if self.q < 0:
            raise ValueError(f"Lags needs q >= 0, got {self.q!r}.")
        self.norm2 = float(self.q + 1)

    def __call__(self, Z: Array) -> Array:
        N = Z.shape[0] - self.q
        n = Z.shape[1] // (self.q + 1)
        out = Z[self.q :, :n].copy()
        for j in range(1, self.q + 1):
            out += Z[self.q - j : self.q - j + N, j * n : (j + 1) * n]
        return out

    def adjoint(self, G: Array) -> Array:
        N, n = G.shape
        W = np.zeros(self.domain(G.shape), G.dtype)
        for j in range(self.q + 1):
            W[self.q - j : self.q - j + N, j * n : (j + 1) * n] = G
        return W

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape[0] + self.q, shape[1] * (self.q + 1)


@dataclass
class LeftProduct(Map):
    """matrix @ Z: regressors times coefficients, or sums of rows as a sketch sees them."""

    matrix: Any = None

    def __post_init__(self) -> None:
        self.norm2 = _squared_norm(self, self.matrix)

    def __call__(self, Z: Array) -> Array:
        return np.asarray(self.matrix @ Z, Z.dtype)

    def adjoint(self, G: Any) -> Any:
        return np.asarray(self.matrix.T @ G, G.dtype)

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return self.matrix.shape[1], shape[1]

    def check(self, shape: tuple[int, int]) -> None:
        if self.matrix.shape[0] != shape[0]:
            raise ValueError(
                f"LeftProduct has a matrix of {self.matrix.shape[0]} rows, the table {shape[0]}."
            )


@dataclass
class RightProduct(Map):
    """Z @ matrix: sums of the columns of Z, such as regions of pixels or random projections."""

    matrix: Any = None
    rowwise = True

    def __post_init__(self) -> None:
        self.norm2 = _squared_norm(self, self.matrix)

    def __call__(self, Z: Array) -> Array:
        return np.asarray(Z @ self.matrix, Z.dtype)

    def adjoint(self, G: Any) -> Any:
        return np.asarray(G @ self.matrix.T, G.dtype)

    def of_factors(self, F: Factors) -> Factors:
        return Factors(F.Phi, self(F.C))

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape[0], self.matrix.shape[0]

    def check(self, shape: tuple[int, int]) -> None:
        if self.matrix.shape[1] != shape[1]:
            raise ValueError(
                f"RightProduct has a matrix of {self.matrix.shape[1]} columns, the table "
                f"{shape[1]}."
            )


@dataclass
class Mask(Map):
    """factors * Z, entry by entry; zeros hide entries of Z from the loss."""

    factors: Any = None

    def __post_init__(self) -> None:
        if np.ndim(self.factors) != 2 or not np.all(np.isfinite(self.factors)):
            raise ValueError("Mask needs a table of finite factors.")
        self.norm2 = float(np.square(np.asarray(self.factors, np.float64)).max())

    def __call__(self, Z: Array) -> Array:
        return Z * np.asarray(self.factors, Z.dtype)

    def adjoint(self, G: Any) -> Any:
        return G * np.asarray(self.factors, G.dtype)

    def domain(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape

    def check(self, shape: tuple[int, int]) -> None:
        if np.shape(self.factors) != tuple(shape):
            raise ValueError(f"Mask is of shape {np.shape(self.factors)}, the table of {shape}.")


def _squared_norm(part: Map, matrix: Any) -> float:
    """Return the square of the largest singular value of a matrix; raise if it is none."""
    if matrix is None or np.ndim(matrix) != 2:
        raise ValueError(f"{type(part).__name__} needs a matrix, got {np.ndim(matrix)} dimensions.")
    if matrix.shape[1] <= matrix.shape[0]:
        gram = matrix.T @ matrix
    else:
        gram = matrix @ matrix.T
    if is_sparse(gram):
        gram = gram.toarray()
    values = np.linalg.eigvalsh(np.asarray(gram, np.float64))
    return float(values[-1])
