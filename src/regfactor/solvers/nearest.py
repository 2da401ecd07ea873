"""The nearest centers: all rows against all centers by matrix products over blocks of rows.

Scores <x, f_j> - c_j are kept centers by rows in a block that stays in the cache, so that their
maxima are taken along the axis that vectorizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.blas import likes_small_products
from regfactor.core.linalg import is_sparse, stored_by_all
from regfactor.core.params import Array
from regfactor.losses.distances import Affine, Divergence
from regfactor.losses.divergences import named
from regfactor.problems.clusters import (
    BLOCK_ENTRIES,
    ClusterPoint,
    Clusters,
    blocks,
    readable_blocks,
    small_blocks,
)

MIN_ROW_SEARCH = 128  # centers from which on a row of scores is searched as it stands
MAX_SINGLE = 1e37  # up to which nothing overflows in float32
# Scores or entries of a block that stays in the cache, and its rows: not powers of two, for which
# rows of scores would share cache lines.
BLOCK_SCORES = 500_000
MIN_BLOCK_ROWS = 500
MAX_BLOCK_ROWS = 20_000
# rows of a small product, and sizes of centers for which these are fast
TILE_ROWS = 250
MIN_TILED_SIZE = 300
MAX_TILED_SIZE = 4000
# power of the rounding: a difference of that share of its terms keeps two thirds of the precision
LOST_PRECISION = 1 / 3
UNDERFLOW = 2.0**-60  # covers what underflows in float32


@dataclass(frozen=True, eq=False)
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
        return cls(problem.divergence_at(point), point.centers, problem.anchor, problem.far)

    def between(self, X: Any) -> Array:
        """D(x_i, m_j) of all rows and centers."""
        out = np.empty((X.shape[0], len(self.M)), X.dtype)
        for at, block in readable_blocks(X, self.divergence):
            out[at] = self.divergence.between(block, self.M, self.anchor)
        return out

    def own(self, X: Any, labels: Array) -> Array:
        """D(x_i, m_{z_i}) of every row and its own center."""
        out = np.empty(X.shape[0])
        for at, block in readable_blocks(X, self.divergence):
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
        kept = float(np.finfo(problem.X.dtype).eps) ** LOST_PRECISION
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
        for rows whose label that leaves in doubt. Labels are the same, twice as fast; the sum then
        follows from `gain` only.
        """
        if not isinstance(self.divergence, Affine):
            return self._nearest_of_all(X, w)
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
        dtype = X.dtype if doubt is None else np.float32
        self._check_finite(X, float(np.minimum(c, 0).sum()))  # c may be infinite, but not NaN
        labels = np.empty(X.shape[0], np.int32)
        search = _by_columns if len(f) < MIN_ROW_SEARCH and not is_sparse(X) else _by_rows
        scores = Scores(f.astype(dtype), c.astype(dtype), origin)
        gain = search(X, scores, w, labels, doubt)
        self._check_finite(X, gain)
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

    def _check_finite(self, X: Any, number: float) -> None:
        if not np.isfinite(number):
            wider = "" if X.dtype == np.float64 else ", or use float64"
            raise ValueError(
                f"{named(self.divergence)} overflows on these data in {X.dtype}; "
                f"scale them down{wider}.",
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

    def _nearest_of_all(self, X: Any, w: Array | None) -> tuple[Array, float]:
        labels = np.empty(X.shape[0], np.int32)
        cost = 0.0
        for at, block in small_blocks(X):
            D = self.divergence.between(block, self.M, self.anchor)
            labels[at] = D.argmin(axis=1)
            cost += _weighted_sum(D.min(axis=1), w, at)
        return labels, -cost


@dataclass(frozen=True, eq=False)
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
        if not max(farthest, steepest, farthest * steepest + highest) < MAX_SINGLE:
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


@dataclass(frozen=True, eq=False)
class Scores:
    """<x - origin, f_j> - c_j, the larger the nearer; without an origin it is zero."""

    f: Array
    c: Array
    origin: Array | None


def _by_columns(
    X: Any,
    scored: Scores,
    w: Array | None,
    labels: Array,
    doubt: Doubt | None,
) -> float:
    """Label rows by blocks of scores (k x rows), with vectorized reductions over the short axis."""
    f = scored.f
    k = len(f)
    gain = 0.0
    dtype = f.dtype
    score = _scorer(f, scored.c)
    # k - label: of equal scores the first has the highest
    codes = np.arange(k, 0, -1, dtype=np.uint8)[:, None]
    size = min(max(BLOCK_SCORES // max(f.shape), MIN_BLOCK_ROWS), MAX_BLOCK_ROWS, X.shape[0])
    scores = np.empty(k * size, dtype)
    marks = np.empty(k * size, np.uint8)
    best = np.empty(size, dtype)
    code = np.empty(size, np.uint8)
    for at, block in blocks(X, size):
        n = len(block)
        E = marks[: k * n].reshape(k, n)
        rows = _less_origin(block, scored.origin)
        D = score(rows.astype(dtype, copy=False), scores[: k * n].reshape(k, n))
        top = np.maximum.reduce(D, axis=0, out=best[:n])
        if doubt is None:
            gain += _weighted_sum(top, w, at)
        else:
            top -= doubt.slack(at)
        np.greater_equal(D, top, out=E.view(bool))
        if doubt is not None:
            unsure = np.flatnonzero(np.add.reduce(E, axis=0, out=code[:n]) != 1)
        np.multiply(E, codes, out=E)
        np.subtract(np.int32(k), np.maximum.reduce(E, axis=0, out=code[:n]), out=labels[at])
        if doubt is not None:
            doubt.settle(block, unsure, labels[at])
    return gain


def _scorer(f: Array, c: Array) -> Callable[[Array, Array], Array]:
    """Return a function that writes the scores f x' - c of rows x over an array (k x rows).

    A product with rows as they are is up to three times faster than one that transposes them. Its
    scores must be transposed, which costs less where they are fewer than the entries of the rows,
    and still less a few rows at a time.
    """
    across = np.ascontiguousarray(f.T)
    lows = c[:, None]
    k, d = f.shape

    def direct(rows: Array, out: Array) -> Array:
        return np.subtract(np.matmul(f, rows.T, out=out), lows, out=out)

    def transposed(rows: Array, out: Array) -> Array:
        return np.subtract((rows @ across).T, lows, out=out)

    def tiled(rows: Array, out: Array) -> Array:
        whole = len(rows) - len(rows) % TILE_ROWS
        places = out[:, :whole].reshape(k, -1, TILE_ROWS).transpose(1, 0, 2)  # a view
        products = rows[:whole].reshape(-1, TILE_ROWS, d) @ across
        np.subtract(products.transpose(0, 2, 1), lows, out=places)
        transposed(rows[whole:], out[:, whole:])
        return out

    if d <= k:
        return direct
    if likes_small_products() and MIN_TILED_SIZE <= k * d <= MAX_TILED_SIZE:
        return tiled
    return transposed


def _less_origin(rows: Any, origin: Array | None) -> Any:
    """Return rows less an origin; of sparse ones the numbers that are stored."""
    if origin is None:
        return rows
    if not is_sparse(rows):
        return rows - origin
    moved = rows.data - origin[rows.indices]
    return scipy.sparse.csr_array((moved, rows.indices, rows.indptr), rows.shape)


def _weighted_sum(numbers: Array, w: Array | None, at: slice) -> float:
    """Return the sum, in float64, of numbers of a block of rows times their weights."""
    if w is None:
        return float(numbers.sum(dtype=np.float64))
    return float(w[at] @ numbers)


def _by_rows(X: Any, scored: Scores, w: Array | None, labels: Array, doubt: Doubt | None) -> float:
    """Label rows by blocks of scores (rows x k), for many centers or sparse rows."""
    f = scored.f
    gain = 0.0
    across = np.ascontiguousarray(f.T)
    size = max(4 * BLOCK_ENTRIES // len(f), 64)
    for start in range(0, X.shape[0], size):
        at = slice(start, min(start + size, X.shape[0]))
        rows = _less_origin(X[at], scored.origin)
        D = np.asarray(rows.astype(f.dtype, copy=False) @ across)
        D -= scored.c
        found = D.argmax(axis=1)
        labels[at] = found
        best = np.take_along_axis(D, found[:, None], 1)[:, 0]
        if doubt is None:
            gain += _weighted_sum(best, w, at)
        else:
            np.put_along_axis(D, found[:, None], -np.inf, 1)
            unsure = np.flatnonzero(D.max(axis=1) >= best - doubt.slack(at))
            doubt.settle(X[at], unsure, labels[at])
    return gain
