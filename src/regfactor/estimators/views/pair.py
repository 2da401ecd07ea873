"""Two tables of the same rows about their means: products of their columns, whiteners, canonical directions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor._linalg import gram, is_sparse, leading_vectors, thin_svd
from regfactor._params import Array

Units = tuple[Array, Array]  # means and deviations of the columns of a table
EPS = float(np.finfo(np.float64).eps)
MOST_CONDITION = 3e4  # of a factor of a Gram matrix: beyond it the squares lose too many digits
BLOCK = 1024  # rows: a block of both tables fits into cache


@dataclass(frozen=True, eq=False)
class Shifted:
    """S - u m' of a sparse S: a table about its mean that is never formed."""

    S: Any
    u: Array
    m: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return int(self.S.shape[0]), int(self.S.shape[1])

    @property
    def T(self) -> Shifted:
        """Return the transpose."""
        return Shifted(self.S.T.tocsr(), self.m, self.u)

    def __matmul__(self, A: Array) -> Array:
        return np.asarray(self.S @ A - np.outer(self.u, self.m @ A))

    def gram(self) -> Array:
        """Return the inner products of the columns."""
        cross = np.outer(self.S.T @ self.u, self.m)
        return gram(self.S) - cross - cross.T + (self.u @ self.u) * np.outer(self.m, self.m)


@dataclass(frozen=True, eq=False)
class Centered:
    """A table about its weighted mean, columns divided by their deviation and rows times the root of their weight."""

    values: Any
    mean: Array
    deviation: Array

    @classmethod
    def of(cls, X: Any, weights: Array | None, center: bool = True, scale: bool = False) -> Centered:
        """Sums are in float64; a column that varies by no more than its rounding is constant and becomes zero."""
        X = X.astype(np.float64, copy=False)
        if is_sparse(X):
            return cls._of_sparse(X, np.ones(X.shape[0]) if weights is None else weights, center, scale)
        total = float(len(X) if weights is None else weights.sum())
        share = np.full(len(X), 1 / total) if weights is None else weights / total
        mean = share @ X if center else np.zeros(X.shape[1])
        values = X - mean
        if center:  # what rounding left of the mean of many rows, which would make a constant column vary
            rest = share @ values
            mean += rest
            values -= rest
        if weights is not None:
            values *= np.sqrt(weights)[:, None]
        deviation = np.sqrt(np.einsum("ij,ij->j", values, values) / (total - 1 if total > 1 else total))
        constant = deviation <= 4 * EPS * np.abs(mean)
        if center and constant.any():
            values[:, constant] = 0
        deviation = np.where(constant, 1.0, deviation) if scale else np.ones(X.shape[1])
        if scale:
            values *= 1 / deviation
        return cls(values, mean, deviation)

    @property
    def units(self) -> Units:
        """Return the means and deviations of the columns."""
        return self.mean, self.deviation

    @classmethod
    def _of_sparse(cls, X: Any, w: Array, center: bool, scale: bool) -> Centered:
        total, p = float(w.sum()), X.shape[1]
        stored = np.repeat(w, np.diff(X.indptr))
        absent = np.maximum(total - np.bincount(X.indices, stored, minlength=p), 0)
        mean = np.zeros(p)
        for _ in range(2 if center else 0):  # the second time takes off the rounding of the first
            left = np.bincount(X.indices, stored * (X.data - mean[X.indices]), minlength=p)
            mean = mean + (left - absent * mean) / total
        squares = np.bincount(X.indices, stored * np.square(X.data - mean[X.indices]), minlength=p)
        deviation = np.sqrt((squares + absent * np.square(mean)) / (total - 1 if total > 1 else total))
        varies = (deviation > 4 * EPS * np.abs(mean)) if center else np.ones(p, bool)
        deviation = np.where(varies & (deviation > 0), deviation, 1.0) if scale else np.ones(p)
        root, share = np.sqrt(w), varies / deviation
        S = scipy.sparse.csr_array((X.data * share[X.indices] * np.sqrt(stored), X.indices, X.indptr), X.shape)
        return cls(Shifted(S, root, mean * share), mean, deviation)


def whitener(X: Any, ridge: float) -> tuple[Array, bool]:
    """Return A with A'(X'X + ridge I)A = I on the row space of X, and whether X'X has kept the digits of X.

    By a Cholesky factorization where it has, else by an SVD without null directions.
    """
    n, p = X.shape
    if p <= n:
        A = cholesky_whitener(X.gram() if isinstance(X, Shifted) else gram(X), ridge)
        if A is not None:
            return A, True
    if isinstance(X, Shifted):
        squares, V = _right_vectors(X)
    else:
        _, s, Vt = thin_svd(X, cut=max(n, p) * EPS)
        squares, V = np.square(s), Vt.T
    return V / np.sqrt(squares + ridge), False


def cholesky_whitener(G: Array, ridge: float) -> Array | None:
    """Return A with A'(G + ridge I)A = I, or None where the squares in G have lost too many digits."""
    L, failed = scipy.linalg.lapack.dpotrf(G + ridge * np.eye(len(G)), lower=True)
    if failed:
        return None
    inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=True)
    if failed or np.linalg.norm(L) * np.linalg.norm(inverse) >= MOST_CONDITION:
        return None
    return np.asarray(inverse.T)


def _right_vectors(X: Shifted) -> tuple[Array, Array]:
    """Return the squared singular values above rounding, and right singular vectors, by the smaller Gram matrix."""
    n, p = X.shape
    G = X.gram() if p <= n else X.T.gram()
    squares, V = scipy.linalg.eigh(G, check_finite=False)
    noise = max(n, p) * EPS * (float(np.vdot(X.S.data, X.S.data)) + float(X.u @ X.u) * float(X.m @ X.m))
    squares, V = squares[squares > noise][::-1], V[:, squares > noise][:, ::-1]
    return squares, V if p <= n else (X.T @ V) / np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Products:
    """X'X, Y'Y and X'Y of two centered tables: all that directions and regressions need of many rows."""

    within_x: Array
    within_y: Array
    across: Array

    @classmethod
    def of_dense(cls, X: Array, Y: Array, weights: Array | None, scale: bool) -> tuple[list[Units], Products]:
        """Neither table is copied as a whole; a column that varies by no more than its rounding becomes zero."""
        p, total = X.shape[1], float(len(X) if weights is None else weights.sum())
        mean, G = _about_means(X, Y, weights, total)
        deviation = np.sqrt(np.maximum(np.diag(G), 0) / (total - 1 if total > 1 else total))
        constant = deviation <= 4 * EPS * np.abs(mean)
        deviation = np.where(constant, 1.0, deviation) if scale else np.ones(len(mean))
        G *= np.outer(~constant / deviation, ~constant / deviation)
        units = [(mean[:p], deviation[:p]), (mean[p:], deviation[p:])]
        return units, cls(G[:p, :p], G[p:, p:], G[:p, p:])

    @classmethod
    def of_views(cls, X: Shifted, Y: Array) -> Products:
        """Multiply a sparse table and a dense one."""
        return cls(X.gram(), gram(Y), X.T @ Y)

    def vary(self) -> tuple[bool, bool]:
        """Return whether any column of either table does."""
        return bool(np.diag(self.within_x).any()), bool(np.diag(self.within_y).any())

    def cross(self, A: Array, B: Array) -> Array:
        """Return S'T of the scores S = XA and T = YB."""
        return np.asarray(A.T @ self.across @ B)

    def moments(self, A: Array, B: Array) -> tuple[tuple[Array, Array], Array, Array]:
        """Return (X'S, Y'T), S'T and S'Y of the scores."""
        return (self.within_x @ A, self.within_y @ B), self.cross(A, B), A.T @ self.across


def _about_means(X: Array, Y: Array, weights: Array | None, total: float) -> tuple[Array, Array]:
    """Return the means of the columns of both tables, and the products of all columns about them, by blocks of rows."""
    p, share = X.shape[1], np.full(len(X), 1 / total) if weights is None else weights / total
    mean = np.concatenate([share @ X, share @ Y], dtype=np.float64)
    G, rest = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
    buffer = np.empty((min(BLOCK, len(X)), len(mean)))
    for start in range(0, len(X), BLOCK):
        rows = slice(start, start + BLOCK)
        block = buffer[: len(X[rows])]
        np.subtract(X[rows], mean[:p], out=block[:, :p])
        np.subtract(Y[rows], mean[p:], out=block[:, p:])
        rest += share[rows] @ block
        if weights is not None:
            block *= np.sqrt(weights[rows])[:, None]
        G += block.T @ block
    # what rounding left of the means, which would make a constant column vary
    return mean + rest, G - total * np.outer(rest, rest)


@dataclass(frozen=True, eq=False)
class Tables:
    """Two centered tables themselves, where products of their columns would lose digits."""

    X: Any
    Y: Array

    def vary(self) -> tuple[bool, bool]:
        """Return whether any column of either table does."""
        return bool(np.any(self.X.m if isinstance(self.X, Shifted) else self.X)), bool(np.any(self.Y))

    def cross(self, A: Array, B: Array) -> Array:
        """Return S'T of the scores S = XA and T = YB."""
        return np.asarray((self.X @ A).T @ (self.Y @ B))

    def moments(self, A: Array, B: Array) -> tuple[tuple[Array, Array], Array, Array]:
        """Return (X'S, Y'T), S'T and S'Y of the scores."""
        S, T = self.X @ A, self.Y @ B
        return (self.X.T @ S, self.Y.T @ T), S.T @ T, S.T @ self.Y


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables with the units of their columns, whiteners A and B, and what their scores are computed from."""

    units: list[Units]
    A: Array
    B: Array
    held: Products | Tables

    @classmethod
    def of(cls, X: Any, Y: Array, weights: Array | None, ridge: float, scale: bool) -> Pair:
        """Whiten both; warn of correlations that are one by counting alone, and of tables that have none."""
        pair = cls._by_products(X, Y, weights, ridge, scale) if max(X.shape[1], Y.shape[1]) <= len(Y) else None
        pair = pair or cls._by_tables(X, Y, weights, ridge, scale)
        for name, varies in zip("Xy", pair.held.vary(), strict=True):
            if not varies:
                warnings.warn(
                    f"All columns of {name} are constant, so that it correlates with nothing and is of no use here; "
                    "predictions are the mean of y.",
                    UserWarning,
                    stacklevel=3,
                )
        ranks = pair.A.shape[1], pair.B.shape[1]
        if ridge == 0 and min(ranks) > 0 and sum(ranks) >= len(Y):
            warnings.warn(
                f"The tables have ranks {ranks[0]} and {ranks[1]} on {len(Y)} rows: some correlations are 1 "
                "whatever the data; set ridge > 0.",
                UserWarning,
                stacklevel=3,
            )
        return pair

    @classmethod
    def _by_products(cls, X: Any, Y: Array, weights: Array | None, ridge: float, scale: bool) -> Pair | None:
        """Whiten by Cholesky factorizations, unless these lose too many digits."""
        if is_sparse(X):
            x, y = (Centered.of(T, weights, scale=scale) for T in (X, Y))
            units, products = [x.units, y.units], Products.of_views(x.values, y.values)
        else:
            units, products = Products.of_dense(X, Y, weights, scale)
        A, B = (cholesky_whitener(G, ridge) for G in (products.within_x, products.within_y))
        return None if A is None or B is None else cls(units, A, B, products)

    @classmethod
    def _by_tables(cls, X: Any, Y: Array, weights: Array | None, ridge: float, scale: bool) -> Pair:
        """Whiten by singular value decompositions where need be."""
        x, y = (Centered.of(T, weights, scale=scale) for T in (X, Y))
        (A, _), (B, _) = whitener(x.values, ridge), whitener(y.values, ridge)
        return cls([x.units, y.units], A, B, Tables(x.values, y.values))

    def directions(self, k: int) -> tuple[Array, Array]:
        """Return the k leading pairs of canonical directions."""
        U, V = leading_vectors(self.held.cross(self.A, self.B), k)
        return self.A @ U, self.B @ V
