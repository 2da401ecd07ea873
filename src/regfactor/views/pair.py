"""Two tables of the same rows about their means: products of their columns, whiteners, canonical directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import gram, is_sparse, leading_vectors
from regfactor.core.params import Array, warn
from regfactor.views.centered import (
    EPS,
    Centered,
    Shifted,
    Units,
    deviations,
    rounding,
    varies,
)

MOST_CONDITION = 3e4  # of a factor of a Gram matrix: beyond it the squares lose too many digits
MOST_SPREAD = 1e6  # of lengths of columns, between which a projection keeps its digits
NOISE = 8  # roundings of a datum that a direction of a table may be made of
# of scores of length one, by coefficients of least norm: up to here what was left out of a table is
# null
MOVED = 1e-4
BLOCK = 640  # rows: a block of both tables fits into cache
SAMPLE = 32  # rows, about whose mean the others are taken


def whitener(table: Centered, ridge: float) -> tuple[Array, bool]:
    """Return A with A'(X'X + ridge I)A = I on the row space of X, and whether X'X has kept the digits of X.

    By a Cholesky factorization where it has, else without null directions.
    """
    X = table.values
    n, p = X.shape
    if p <= n:
        A = cholesky_whitener(X.gram() if isinstance(X, Shifted) else gram(X), ridge, table.noise)
        if A is not None:
            return A, True
    if ridge == 0:
        return _row_space(table), False
    s, V = _right_vectors(X, np.zeros(p))
    return V / np.sqrt(np.square(s) + ridge), False


def cholesky_whitener(G: Array, ridge: float, noise: Array) -> Array | None:
    """Return A with A'(G + ridge I)A = I, or None where the squares in G have lost too many digits.

    Both in units in which the columns have length one: then a small one is as good as a large one.
    """
    units = np.sqrt(np.maximum(G.diagonal(), 0) + ridge)
    if not units.all():
        return None
    scaled = G / units
    scaled /= units[:, None]
    np.fill_diagonal(scaled, 1.0)
    L, failed = scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True)
    if failed:
        return None
    inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=True, overwrite_c=True)
    if ridge:
        most = MOST_CONDITION
    else:
        most = min(MOST_CONDITION, 1 / (NOISE * float(np.linalg.norm(noise)) + EPS))
    if failed or np.sqrt(len(G)) * np.linalg.norm(inverse) >= most:  # rows of L have length one
        return None
    inverse /= units
    return np.asarray(inverse.T)


def _row_space(table: Centered) -> Array:
    """Return A in the row space of X with A'X'XA = I; its rank is judged with columns of length one.

    A column that may be all rounding is left out. Where lengths of columns are so far apart that
    leaving that space is beyond rounding, or what was taken for null is not, it is the row space of
    columns of length one.
    """
    X = table.values
    if isinstance(X, Shifted):
        squares = X.squares()
    else:
        squares = np.einsum("ij,ij->j", X, X)
    lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
    units = np.where(NOISE * table.noise < 1, lengths, np.inf)
    s, V = _right_vectors(X.over(units) if isinstance(X, Shifted) else X / units, table.noise)
    A = np.asarray(V / s / units[:, None])
    if A.shape[1] == len(A) or lengths.max() > MOST_SPREAD * lengths.min():
        return A
    Q = np.linalg.qr(V * lengths[:, None])[0]
    least = np.asarray(Q @ (Q.T @ A))
    moved = np.linalg.norm(X @ (least - A), axis=0)
    if moved.max(initial=0.0) <= MOVED:
        return least
    return A


def _right_vectors(X: Any, noise: Array) -> tuple[Array, Array]:
    """Return the singular values above rounding and above some noise in every column, and right singular vectors."""
    n, p = X.shape
    if not isinstance(X, Shifted):
        _, s, Vt = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
        keep = s > max(n, p) * EPS * s.max(initial=0.0)
        V = Vt.T
    else:
        squares, V = scipy.linalg.eigh(X.gram() if p <= n else X.T.gram(), check_finite=False)
        # rounding of a Gram matrix: that of all that was added up and taken away again
        total = float(np.vdot(X.S.data, X.S.data)) + float(X.u @ X.u) * float(X.m @ X.m)
        squares = squares[::-1]
        V = V[:, ::-1]
        keep = squares > NOISE * np.sqrt(max(n, p)) * EPS * total
        s = np.sqrt(np.maximum(squares, 0))
    s = s[keep]
    V = V[:, keep]
    V = (X.T @ V) / s if isinstance(X, Shifted) and p > n else V
    keep = s > NOISE * np.linalg.norm(noise[:, None] * V, axis=0)
    return s[keep], V[:, keep]


@dataclass(frozen=True, eq=False)
class Products:
    """X'X, Y'Y and X'Y of two centered tables: all that directions and regressions need of many rows."""

    within_x: Array
    within_y: Array
    across: Array

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # told by the squares
    def of_dense(
        cls,
        X: Array,
        Y: Array,
        weights: Array | None,
        scale: bool,
    ) -> tuple[list[Centered], Products] | None:
        """Neither table is copied as a whole; a column that varies by no more than its rounding becomes zero.

        None where a number or a sum of squares is not finite.
        """
        p = X.shape[1]
        total = float(len(X) if weights is None else weights.sum())
        mean, G = _about_means(X, Y, weights, total)
        squares = np.maximum(G.diagonal(), 0)
        if not np.isfinite(squares).all():
            return None
        varied = deviations(squares, total)
        kept = varies(mean, varied)
        deviation = np.where(kept, varied, 1.0) if scale else np.ones(len(mean))
        share = kept / deviation
        G *= share
        G *= share[:, None]
        eps = np.repeat([np.finfo(T.dtype).eps for T in (X, Y)], [p, Y.shape[1]])
        noise = eps * rounding(1.0, mean, varied)
        parts = [slice(p), slice(p, None)]
        views = [Centered(None, mean[part], deviation[part], noise[part]) for part in parts]
        return views, cls(G[:p, :p], G[p:, p:], G[:p, p:])

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
    """Return the means of the columns of both tables, and the products of all columns about them.

    The rows are read once, about the mean of some of them; once more, where that is so far off that
    digits are lost.
    """
    some = slice(None, None, -(-len(X) // SAMPLE))
    shift = np.concatenate([table[some].mean(axis=0, dtype=np.float64) for table in (X, Y)])
    sums, G = _about(shift, X, Y, weights)
    rest = sums[:-1] / total
    far = 2 * rest * sums[:-1] > G.diagonal()[:-1]
    if far.any() and varies(shift, np.abs(rest))[far].any():
        shift += rest
        sums, G = _about(shift, X, Y, weights)
        rest = sums[:-1] / total
    G = scipy.linalg.blas.dsyr(-1.0, sums / np.sqrt(total), a=G, overwrite_a=True)[:-1, :-1]
    G = G + G.T
    np.fill_diagonal(G, G.diagonal() / 2)
    return shift + rest, G


def _about(shift: Array, X: Array, Y: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return the sums and the products of the columns of both tables less a shift, by blocks of rows.

    Beside these columns stands one of ones, so that the last column of the products holds the sums.
    Of the products only the upper triangle is meant.
    """
    p = X.shape[1]
    d = len(shift) + 1
    G = np.zeros((d, d), order="F")
    buffer = np.empty((min(BLOCK, len(X)), d))
    ones = np.ones(len(buffer))
    shifts = np.append(shift, 0.0)
    for start in range(0, len(X), BLOCK):
        rows = slice(start, start + BLOCK)
        block = buffer[: len(X[rows])]
        block[:, :p] = X[rows]
        block[:, p:-1] = Y[rows]
        block[:, -1] = 1.0
        block = scipy.linalg.blas.dger(
            -1.0,
            shifts,
            ones[: len(block)],
            a=block.T,
            overwrite_a=True,
        ).T
        if weights is not None:
            block *= np.sqrt(weights[rows])[:, None]
        G = scipy.linalg.blas.dsyrk(1.0, block.T, beta=1.0, c=G, overwrite_c=True)
    return G[:, -1].copy(), G


@dataclass(frozen=True, eq=False)
class Tables:
    """Two centered tables themselves, where products of their columns would lose digits."""

    X: Any
    Y: Array

    def vary(self) -> tuple[bool, bool]:
        """Return whether any column of either table does."""
        if isinstance(self.X, Shifted):
            x = bool(self.X.m.any() or self.X.S.data.any())
        else:
            x = bool(np.any(self.X))
        return x, bool(np.any(self.Y))

    def cross(self, A: Array, B: Array) -> Array:
        """Return S'T of the scores S = XA and T = YB."""
        return np.asarray((self.X @ A).T @ (self.Y @ B))

    def moments(self, A: Array, B: Array) -> tuple[tuple[Array, Array], Array, Array]:
        """Return (X'S, Y'T), S'T and S'Y of the scores."""
        S = self.X @ A
        T = self.Y @ B
        return (self.X.T @ S, self.Y.T @ T), S.T @ T, S.T @ self.Y


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables with the units of their columns, whiteners A and B, and what their scores are computed from."""

    units: list[Units]
    A: Array
    B: Array
    held: Products | Tables

    @classmethod
    def by_products(
        cls,
        X: Any,
        Y: Array,
        weights: Array | None,
        ridge: float,
        scale: bool,
    ) -> Pair | None:
        """Whiten by Cholesky factorizations; None where these lose too many digits, or a number is not finite."""
        if max(X.shape[1], Y.shape[1]) > len(Y):
            return None
        if is_sparse(X):
            x, y = (Centered.of(T, weights, scale=scale) for T in (X, Y))
            products = Products.of_views(x.values, y.values)
        else:
            found = Products.of_dense(X, Y, weights, scale)
            if found is None:
                return None
            (x, y), products = found
        A = cholesky_whitener(products.within_x, ridge, x.noise)
        B = cholesky_whitener(products.within_y, ridge, y.noise)
        if A is None or B is None:
            return None
        return cls([x.units, y.units], A, B, products)

    @classmethod
    def by_tables(cls, X: Any, Y: Array, weights: Array | None, ridge: float, scale: bool) -> Pair:
        """Whiten by singular value decompositions where need be."""
        x, y = (Centered.of(T, weights, scale=scale) for T in (X, Y))
        (A, _) = whitener(x, ridge)
        (B, _) = whitener(y, ridge)
        return cls([x.units, y.units], A, B, Tables(x.values, y.values))

    def warn_of_nothing_learned(self, n: int, ridge: float) -> None:
        """Warn of correlations that are one by counting alone, and of constant tables, which have none."""
        for name, moves in zip("Xy", self.held.vary(), strict=True):
            if not moves:
                warn(
                    f"All columns of {name} are constant, so that it correlates with nothing and is of no use here; "
                    "predictions are the mean of y.",
                )
        ranks = self.A.shape[1], self.B.shape[1]
        if ridge == 0 and min(ranks) > 0 and sum(ranks) >= n:
            warn(
                f"The tables have ranks {ranks[0]} and {ranks[1]} on {n} rows: some correlations are 1 "
                "whatever the data; set ridge > 0.",
            )

    def directions(self, k: int) -> tuple[Array, Array]:
        """Return the k leading pairs of canonical directions."""
        U, V = leading_vectors(self.held.cross(self.A, self.B), k)
        return self.A @ U, self.B @ V
