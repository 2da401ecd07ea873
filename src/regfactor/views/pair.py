"""Two tables of the same rows about their means: products of their columns, and whiteners."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import gram, is_sparse
from regfactor.core.params import Array, frozen, warn
from regfactor.views.centered import Centered, MeansAndDeviations, Shifted, degrees, varies
from regfactor.views.whitening import cholesky_whitener, whitener

BLOCK_ROWS = 640  # a block of both tables fits into cache
SAMPLE_ROWS = 32  # rows about whose mean the others are taken


@frozen
class TablePair:
    """Two tables of the same rows, with the weights of these rows; None where all are one."""

    X: Any
    Y: Array
    weights: Array | None

    @property
    def total(self) -> float:
        """The sum of the weights."""
        if self.weights is None:
            return float(len(self.Y))
        return float(self.weights.sum())


@frozen
class ScoreMoments:
    """X'S, Y'T, S'T and S'Y of the scores S = XA and T = YB."""

    x: Array
    y: Array
    cross: Array
    x_with_y: Array


@frozen
class Products:
    """X'X, Y'Y and X'Y of two centered tables, which is all that their directions depend on."""

    within_x: Array
    within_y: Array
    across: Array
    x_units: MeansAndDeviations
    y_units: MeansAndDeviations

    @classmethod
    def of(cls, tables: TablePair, scale: bool) -> Products | None:
        """Return the products of two tables; None where these are too wide or not finite."""
        X = tables.X
        Y = tables.Y
        if max(X.shape[1], Y.shape[1]) > len(Y):
            return None
        if not is_sparse(X):
            return cls._of_dense(tables, scale)
        x = Centered.of(X, tables.weights, scale=scale)
        y = Centered.of(Y, tables.weights, scale=scale)
        across = x.values.T @ y.values
        return cls(
            x.values.gram(),
            gram(y.values),
            across,
            x.units,
            y.units,
        )

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # seen in the squares
    def _of_dense(cls, tables: TablePair, scale: bool) -> Products | None:
        """Return the products without a copy of the tables; constant columns become zero.

        None where a number or a sum of squares is not finite.
        """
        p = tables.X.shape[1]
        total = tables.total
        mean, G = _about_means(tables, total)
        squares = np.maximum(G.diagonal(), 0)
        if not np.isfinite(squares).all():
            return None
        varied = np.sqrt(squares / degrees(total))
        kept = varies(mean, varied)
        deviation = np.where(kept, varied, 1.0)
        noise = np.hypot(mean, varied) * kept / deviation
        noise[:p] *= np.finfo(tables.X.dtype).eps
        noise[p:] *= np.finfo(tables.Y.dtype).eps
        if not scale:
            deviation = np.ones(len(mean))
        share = kept / deviation
        G *= share
        G *= share[:, None]
        return cls(
            G[:p, :p],
            G[p:, p:],
            G[:p, p:],
            MeansAndDeviations(mean[:p], deviation[:p], noise[:p]),
            MeansAndDeviations(mean[p:], deviation[p:], noise[p:]),
        )

    def vary(self) -> tuple[bool, bool]:
        """Return whether any column varies, in X and in Y."""
        return bool(self.within_x.diagonal().any()), bool(self.within_y.diagonal().any())

    def any_constant(self) -> bool:
        """Return whether some column of X or Y does not vary."""
        return not (self.within_x.diagonal().all() and self.within_y.diagonal().all())

    def cross(self, A: Array, B: Array) -> Array:
        """Return S'T of the scores S = XA and T = YB."""
        return A.T @ self.across @ B

    def moments(self, A: Array, B: Array) -> ScoreMoments:
        """Return the moments of the scores S = XA and T = YB."""
        x_with_y = A.T @ self.across
        return ScoreMoments(self.within_x @ A, self.within_y @ B, x_with_y @ B, x_with_y)


def _about_means(tables: TablePair, total: float) -> tuple[Array, Array]:
    """Return the means of the columns of both tables, and the products of all columns about them.

    The rows are read once, about the mean of some of them; once more, where that is so far off
    that precision is lost.
    """
    X = tables.X
    Y = tables.Y
    p = X.shape[1]
    some = slice(None, None, -(-len(X) // SAMPLE_ROWS))
    shift = np.empty(p + Y.shape[1])
    X[some].sum(axis=0, dtype=np.float64, out=shift[:p])
    Y[some].sum(axis=0, dtype=np.float64, out=shift[p:])
    shift /= len(X[some])
    sums, G = _about(shift, tables)
    rest = sums[:-1] / total
    far = 2 * rest * sums[:-1] > G.diagonal()[:-1]
    if far.any() and varies(shift, np.abs(rest))[far].any():
        shift += rest
        sums, G = _about(shift, tables)
        rest = sums[:-1] / total
    scaled = sums / np.sqrt(total)
    G = scipy.linalg.blas.dsyr(-1.0, scaled, a=G, overwrite_a=True)[:-1, :-1]
    G = G + G.T
    G.flat[:: len(G) + 1] *= 0.5
    return shift + rest, G


def _about(shift: Array, tables: TablePair) -> tuple[Array, Array]:
    """Return the sums and the products of the columns of both tables less a shift, by blocks.

    A column of ones follows these columns, so that the last column of the products holds the
    sums. Only the upper triangle of the products is filled.
    """
    X = tables.X
    p = X.shape[1]
    d = len(shift) + 1
    G = np.zeros((d, d), order="F")
    buffer = np.empty((min(BLOCK_ROWS, len(X)), d))
    ones = np.ones(len(buffer))
    shifts = np.zeros(d)
    shifts[:-1] = shift
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = buffer[: len(X[rows])]
        block[:, :p] = X[rows]
        block[:, p:-1] = tables.Y[rows]
        block[:, -1] = 1.0
        block = scipy.linalg.blas.dger(
            -1.0,
            shifts,
            ones[: len(block)],
            a=block.T,
            overwrite_a=True,
        ).T
        if tables.weights is not None:
            block *= np.sqrt(tables.weights[rows])[:, None]
        G = scipy.linalg.blas.dsyrk(
            1.0,
            block.T,
            beta=1.0,
            c=G,
            overwrite_c=True,
        )
    return G[:, -1].copy(), G


@frozen
class CenteredTables:
    """Two centered tables themselves, where products of their columns would lose precision."""

    X: Any
    Y: Array
    x_units: MeansAndDeviations
    y_units: MeansAndDeviations

    def vary(self) -> tuple[bool, bool]:
        """Return whether any column varies, in X and in Y."""
        if isinstance(self.X, Shifted):
            x_varies = bool(self.X.m.any() or self.X.S.data.any())
        else:
            x_varies = bool(np.any(self.X))
        return x_varies, bool(np.any(self.Y))

    def cross(self, A: Array, B: Array) -> Array:
        """Return S'T of the scores S = XA and T = YB."""
        return (self.X @ A).T @ (self.Y @ B)

    def moments(self, A: Array, B: Array) -> ScoreMoments:
        """Return the moments of the scores S = XA and T = YB."""
        S = self.X @ A
        T = self.Y @ B
        return ScoreMoments(
            self.X.T @ S,
            self.Y.T @ T,
            S.T @ T,
            S.T @ self.Y,
        )


@frozen
class WhitenedPair:
    """Two centered tables with whiteners A of X and B of Y."""

    A: Array
    B: Array
    tables: Products | CenteredTables

    @classmethod
    def by_products(cls, products: Products, ridge: float) -> WhitenedPair | None:
        """Whiten by Cholesky factorizations; None where these lose too much precision."""
        A = cholesky_whitener(products.within_x, ridge, products.x_units.noise)
        B = cholesky_whitener(products.within_y, ridge, products.y_units.noise)
        if A is None or B is None:
            return None
        return cls(A, B, products)

    @classmethod
    def by_tables(cls, tables: TablePair, ridge: float, scale: bool) -> WhitenedPair:
        """Whiten by singular value decompositions where products lose too much precision."""
        x = Centered.of(tables.X, tables.weights, scale=scale)
        y = Centered.of(tables.Y, tables.weights, scale=scale)
        centered = CenteredTables(x.values, y.values, x.units, y.units)
        return cls(whitener(x, ridge).A, whitener(y, ridge).A, centered)

    def warn_if_degenerate(self, n_rows: int, ridge: float) -> None:
        """Warn of constant tables, and of correlations that are one whatever the data."""
        for name, table_varies in zip("Xy", self.tables.vary(), strict=True):
            if not table_varies:
                warn(
                    f"All columns of {name} are constant, so that it correlates with nothing and "
                    "is of no use here; predictions are the mean of y."
                )
        x_rank = self.A.shape[1]
        y_rank = self.B.shape[1]
        if ridge == 0 and min(x_rank, y_rank) > 0 and x_rank + y_rank >= n_rows:
            warn(
                f"The tables have ranks {x_rank} and {y_rank} on {n_rows} rows: some correlations "
                "are 1 whatever the data; set ridge > 0."
            )
