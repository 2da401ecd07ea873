"""The nearest centers: all rows against all centers by matrix products over blocks of rows.

Scores <x, f_j> - c_j are kept centers by rows in a block that stays in the cache, so that their
maxima are taken along the axis that vectorizes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.blas import likes_small_products
from regfactor.core.linalg import is_sparse, stored_by_all
from regfactor.core.params import Array, frozen
from regfactor.losses.distances import Affine, Divergence
from regfactor.losses.divergences import named
from regfactor.problems.clusters import BLOCK_ENTRIES, ClusterPoint, Clusters, row_blocks

MIN_ROW_SEARCH = 128  # centers from which on a row of scores is searched as it stands
MAX_FLOAT32 = 1e37  # up to which nothing overflows in float32
# Scores or entries of a block that stays in the cache, and its rows: not powers of two, for which
# rows of scores would share cache lines.
BLOCK_SCORES = 500_000
MIN_BLOCK_ROWS = 500
MAX_BLOCK_ROWS = 20_000
# rows of a small product, and sizes of centers for which these are fast
TILE_ROWS = 250
MIN_TILED_SIZE = 300
MAX_TILED_SIZE = 4000
# numbers of columns for which rows are multiplied as they are by a BLAS without these kernels
MIN_COPIED_COLUMNS = 32
MAX_COPIED_COLUMNS = 128
# power of the rounding: a difference of that share of its terms keeps two thirds of the precision
PRECISION_POWER = 1 / 3
UNDERFLOW = 2.0**-60  # covers what underflows in float32


@frozen
class Centers:
    """Centers and a divergence by which rows are compared with them."""

    divergence: Divergence
    M: Array
    anchor: Array
    far: bool = False

    @classmethod
    def of(cls, problem: Clusters, point: ClusterPoint) -> Centers:
        """Return the centers of a point."""
        assert point.centers is not None
        far = problem.spread.far
        return cls(problem.divergence_at(point), point.centers, problem.anchor, far)

    def between(self, X: Any) -> Array:
        """D(x_i, m_j) of all rows and centers."""
        out = np.empty((X.shape[0], len(self.M)), X.dtype)
        for at, block in row_blocks(X, keep_sparse=self.divergence.additive):
            out[at] = self.divergence.between(block, self.M, self.anchor)
        return out

    def own(self, X: Any, labels: Array) -> Array:
        """D(x_i, m_{z_i}) of every row and its own center."""
        out = np.empty(X.shape[0])
        for at, block in row_blocks(X, keep_sparse=self.divergence.additive):
            if is_sparse(block):  # compared with all centers as it stands
                D = self.divergence.between(block, self.M, self.anchor)
                out[at] = np.take_along_axis(D, labels[at, None].astype(np.intp), 1)[:, 0]
            else:
                out[at] = self.divergence.paired(block, self.M[labels[at]])
        return out

    def inertia(self, problem: Clusters, labels: Array, value: float) -> float:
        """Return the sum of divergences: `value`, or row by row where it lost precision.

        `value` is the divergence from a single center less what the others gain, two numbers of
        the size of the largest row.
        """
        kept = float(np.finfo(problem.X.dtype).eps) ** PRECISION_POWER
        if value > kept * self.divergence.total(problem.statistics):
            return value
        own = self.own(problem.X, labels)
        if problem.weights is None:
            return float(own.sum())
        return float(problem.weights @ own)

    def nearest(
        self,
        X: Any,
        w: Array | None = None,
        sizes: Array | None = None,
    ) -> tuple[Array, float]:
        """Return the label of every row, and the sum of w (D(x || anchor) - D(x || own center)).

        With `sizes`, the |x| of rows in float64, scores are taken in float32, and again in float64
        for rows whose label that leaves in doubt. Labels are the same, twice as fast; the sum is
        then NaN, and follows from `gain`.
        """
        labels = np.empty(X.shape[0], np.int32)
        if not isinstance(self.divergence, Affine):
            least = np.empty(X.shape[0])
            for at, block in row_blocks(X):
                D = self.divergence.between(block, self.M, self.anchor)
                labels[at] = D.argmin(axis=1)
                least[at] = D.min(axis=1)
            return labels, -float(least.sum() if w is None else w @ least)
        f, c = self.gradients
        origin = None
        doubt = None
        if self.far:
            origin = self._origin(X)
            c = c + f @ (self.anchor - origin)
        else:
            c = c + f @ self.anchor
        c[self.repeated] = np.inf  # BLAS may round the scores of equal centers differently
        if sizes is not None and not self.far:
            doubt = Doubt.of(f, c, sizes)
        if not np.isfinite(np.minimum(c, 0).sum()):  # c may be infinite, but not NaN
            raise self._overflow(X)
        if doubt is None:
            dtype = X.dtype
        else:
            dtype = np.dtype(np.float32)
        scores = AffineScores(
            f.astype(dtype),
            np.ascontiguousarray(f.T, dtype),
            c.astype(dtype),
            origin,
        )
        best = np.empty(X.shape[0], dtype)
        if len(f) < MIN_ROW_SEARCH and not is_sparse(X):
            _label_by_columns(X, scores, labels, best, doubt)
        else:
            _label_by_rows(X, scores, labels, best, doubt)
        if doubt is not None:
            return labels, np.nan
        gain = float(best.sum(dtype=np.float64) if w is None else w @ best)
        if not np.isfinite(gain):
            raise self._overflow(X)
        return labels, gain

    def gain(self, sums: Array, masses: Array) -> float:
        """Return the sum of w (D(x || anchor) - D(x || own center)) from the sums of rows."""
        f, c = self.gradients
        return float(np.vdot(f, sums - masses[:, None] * self.anchor) - c @ masses)

    @cached_property
    def gradients(self) -> tuple[Array, Array]:
        """f(m_j) - f(anchor), and D(anchor || m_j)."""
        assert isinstance(self.divergence, Affine)
        return self.divergence.center_gradients(self.M, self.anchor)

    def _overflow(self, X: Any) -> ValueError:
        wider = "" if X.dtype == np.float64 else ", or use float64"
        return ValueError(
            f"{named(self.divergence)} overflows on these data in {X.dtype}; "
            f"scale them down{wider}."
        )

    def _origin(self, X: Any) -> Array:
        """Return what is subtracted from rows far from zero: the anchor.

        From sparse rows only in columns that all of them store.
        """
        origin = self.anchor.astype(X.dtype)
        if is_sparse(X):
            return np.where(stored_by_all(X), origin, 0)
        return origin

    @cached_property
    def repeated(self) -> Array:
        """Places of centers equal to an earlier one: no row is given to them."""
        seen = set()
        places = []
        for j, row in enumerate(self.M + 0.0):  # so that zero has one sign
            key = row.tobytes()
            if key in seen:
                places.append(j)
            seen.add(key)
        return np.array(places, np.intp)


@frozen
class Doubt:
    """Bounds of the rounding of scores in float32, within which float64 decides.

    A product of d numbers, added up in any order, is off by at most d u |x| |f| (Higham 2002,
    section 3.1), u the unit of rounding; some more units are for what is rounded before and after
    it.
    """

    f: Array
    c: Array
    sizes: Array
    slope: float
    least: float

    @classmethod
    def of(cls, f: Array, c: Array, sizes: Array) -> Doubt | None:
        """Return the doubt about scores <x, f_j> - c_j; None if they might overflow."""
        unit = (f.shape[1] + 8) * float(np.finfo(np.float32).eps) / 2
        steepest = float(np.linalg.norm(f, axis=1).max())
        highest = float(np.abs(c[c < np.inf]).max(initial=0.0))
        farthest = float(sizes.max())
        if not max(farthest, steepest, farthest * steepest + highest) < MAX_FLOAT32:
            return None
        slope = 2 * unit * (steepest + UNDERFLOW)
        return cls(f, c, sizes, slope, slope * UNDERFLOW + 2 * unit * highest)

    def slack(self, at: slice) -> Array:
        """Twice the bound, of every row of a block."""
        return self.slope * self.sizes[at] + self.least

    def settle(self, block: Array, rows: Array, labels: Array) -> None:
        """Write the labels of some rows of a block."""
        if len(rows):
            labels[rows] = (block[rows] @ self.f.T - self.c).argmax(axis=1)


@frozen
class AffineScores:
    """<x - origin, f_j> - c_j, the larger the nearer; without an origin it is zero."""

    f: Array
    across: Array  # f', contiguous
    c: Array
    origin: Array | None

    def write(self, rows: Array, out: Array) -> None:
        """Write the scores of rows, less the origin already, over an array (k x rows).

        BLAS copies one factor of a product into its own order. Where that is the rows as they are,
        the scores must be transposed, which costs less where they are fewer than the entries of the
        rows; where the BLAS has kernels for small products it copies nothing, and a few rows at a
        time are still faster. Without these kernels, copies of long rows are as cheap transposed.
        """
        k, d = self.f.shape
        offsets = self.c[:, None]
        small_products = likes_small_products()
        if d <= k or not (small_products or MIN_COPIED_COLUMNS <= d <= MAX_COPIED_COLUMNS):
            np.subtract(np.matmul(self.f, rows.T, out=out), offsets, out=out)
            return
        tiled = 0  # rows
        if small_products and MIN_TILED_SIZE <= k * d <= MAX_TILED_SIZE:
            tiled = len(rows) - len(rows) % TILE_ROWS
            places = out[:, :tiled].reshape(k, -1, TILE_ROWS).transpose(1, 0, 2)  # a view
            products = rows[:tiled].reshape(-1, TILE_ROWS, d) @ self.across
            np.subtract(products.transpose(0, 2, 1), offsets, out=places)
        np.subtract((rows[tiled:] @ self.across).T, offsets, out=out[:, tiled:])


def _label_by_columns(
    X: Any,
    scores: AffineScores,
    labels: Array,
    best: Array,
    doubt: Doubt | None,
) -> None:
    """Label rows by blocks of scores (k x rows), with vectorized reductions over the short axis."""
    k, d = scores.f.shape
    dtype = scores.f.dtype
    # k - label: of equal scores the first has the highest
    codes = np.arange(k, 0, -1, dtype=np.uint8)[:, None]
    size = min(max(BLOCK_SCORES // max(k, d), MIN_BLOCK_ROWS), MAX_BLOCK_ROWS, X.shape[0])
    all_scores = np.empty(k * size, dtype)
    all_marks = np.empty(k * size, np.uint8)
    highest = np.empty(size, np.uint8)
    for at, block in row_blocks(X, size):
        n = len(block)
        rows = block if scores.origin is None else block - scores.origin
        D = all_scores[: k * n].reshape(k, n)
        scores.write(rows.astype(dtype, copy=False), D)
        top = np.maximum.reduce(D, axis=0, out=best[at])
        if doubt is not None:
            top -= doubt.slack(at)
        marks = all_marks[: k * n].reshape(k, n)
        np.greater_equal(D, top, out=marks.view(bool))
        if doubt is not None:
            unsure = np.flatnonzero(np.add.reduce(marks, axis=0, out=highest[:n]) != 1)
        np.multiply(marks, codes, out=marks)
        np.subtract(np.int32(k), np.maximum.reduce(marks, axis=0, out=highest[:n]), out=labels[at])
        if doubt is not None:
            doubt.settle(block, unsure, labels[at])


def _label_by_rows(
    X: Any,
    scores: AffineScores,
    labels: Array,
    best: Array,
    doubt: Doubt | None,
) -> None:
    """Label rows by blocks of scores (rows x k), for many centers or sparse rows."""
    size = max(4 * BLOCK_ENTRIES // len(scores.f), 64)
    for at, block in row_blocks(X, size, keep_sparse=True):
        if scores.origin is None:
            rows = block
        else:
            rows = _less_origin(block, scores.origin)
        D = rows.astype(scores.f.dtype, copy=False) @ scores.across
        D -= scores.c
        found = D.argmax(axis=1)
        labels[at] = found
        best[at] = np.take_along_axis(D, found[:, None], 1)[:, 0]
        if doubt is not None:
            np.put_along_axis(D, found[:, None], -np.inf, 1)
            unsure = np.flatnonzero(D.max(axis=1) >= best[at] - doubt.slack(at))
            doubt.settle(block, unsure, labels[at])


def _less_origin(rows: Any, origin: Array) -> Any:
    """Return rows less an origin; of sparse ones the numbers that are stored."""
    if not is_sparse(rows):
        return rows - origin
    moved = rows.data - origin[rows.indices]
    return scipy.sparse.csr_array((moved, rows.indices, rows.indptr), rows.shape)
