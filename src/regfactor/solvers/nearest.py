"""Which center is nearest: all rows against all centers by matrix products over blocks of rows.

Scores <x, f_j> - c_j stand centers by rows in a block that stays in the cache, so that their maxima
are taken along the axis that vectorizes.
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
from regfactor.problems.clusters import ENTRIES, Clusters, blocks, readable_blocks, small_blocks

MANY = 128  # centers from which on a row of scores is long enough to be searched as it stands
HUGE = 1e37  # up to here nothing overflows in float32
# scores or entries of a block that stays in the cache, and its rows: no powers of two, or rows of
# scores meet there
SCORED = 500_000
LEAST = 500
MOST = 20_000
# rows of a small product, and numbers of centers where these are quick
TILE = 250
SMALLEST = 300
LARGEST = 4000
LOST = (
    1 / 3
)  # power of the rounding: a sum of that share of what it is the difference of has two thirds of its digits
VANISHING = 2.0**-60  # covers what underflows in float32


@dataclass(frozen=True, eq=False)
class Centers:
    """Centers and a divergence by which rows are compared with them."""

    divergence: Divergence
    M: Array
    anchor: Array
    far: bool = False

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
        """Return the sum of divergences: the objective, or row by row where rows far away have taken its digits.

        The objective is the divergence from a single center less what the others gain, two numbers
        of the size of the largest row.
        """
        if value > float(np.finfo(problem.X.dtype).eps) ** LOST * self.divergence.total(
            problem.tally,
        ):
            return value
        own = self.own(problem.X, labels)
        return float(own.sum() if problem.weights is None else problem.weights @ own)

    def nearest(
        self,
        X: Any,
        w: Array | None = None,
        sizes: Array | None = None,
    ) -> tuple[Array, float]:
        """Return the label of every row, and the sum of w (D(x || anchor) - D(x || own center)).

        With `sizes`, the |x| of rows in float64, scores are taken in float32, and again in float64
        for rows whose label that leaves in doubt. Labels are the same, twice as fast; the sum is
        not to be had so, but by `gain`.
        """
        if not isinstance(self.divergence, Affine):
            return self._nearest_of_all(X, w)
        f, c = self.links
        origin = self._origin(X) if self.far else None
        c = c + f @ (self.anchor if origin is None else self.anchor - origin)
        c[self.repeated] = np.inf  # BLAS may round the scores of equal centers differently
        doubt = None if sizes is None or self.far else Doubt.of(f, c, sizes)
        dtype = X.dtype if doubt is None else np.float32
        self._check_finite(
            X,
            float(np.minimum(c, 0).sum()),
        )  # a center may be infinitely far, but c no NaN
        labels = np.empty(X.shape[0], np.int32)
        search = _by_columns if len(f) < MANY and not is_sparse(X) else _by_rows
        gain = search(X, (f.astype(dtype), c.astype(dtype), origin), w, labels, doubt)
        self._check_finite(X, gain)
        return labels, gain

    def gain(self, sums: Array, masses: Array) -> float:
        """Return the sum of w (D(x || anchor) - D(x || own center)) from sums of the rows of each center."""
        f, c = self.links
        return float(np.vdot(f, sums - masses[:, None] * self.anchor) - c @ masses)

    @cached_property
    def links(self) -> tuple[Array, Array]:
        """f(m_j) - f(anchor), and D(anchor || m_j)."""
        assert isinstance(self.divergence, Affine)
        return self.divergence.links(self.M, self.anchor)

    def _check_finite(self, X: Any, number: float) -> None:
        if not np.isfinite(number):
            wider = "" if X.dtype == np.float64 else ", or use float64"
            raise ValueError(
                f"{named(self.divergence)} overflows on these data in {X.dtype}; scale them down{wider}.",
            )

    def _origin(self, X: Any) -> Array:
        """Return what is taken off rows far from zero: the anchor; of sparse rows in columns that all of them store."""
        origin = self.anchor.astype(X.dtype)
        if is_sparse(X):
            return np.where(stored_by_all(X), origin, 0)
        return origin

    @cached_property
    def repeated(self) -> Array:
        """Places of centers that stand before: no row is given to them."""
        first: dict[bytes, int] = {}
        places = [
            first.setdefault(row.tobytes(), j) for j, row in enumerate(self.M + 0.0)
        ]  # zero has one sign
        return np.flatnonzero(np.asarray(places) < np.arange(len(places)))

    def _nearest_of_all(self, X: Any, w: Array | None) -> tuple[Array, float]:
        labels = np.empty(X.shape[0], np.int32)
        cost = 0.0
        for at, block in small_blocks(X):
            D = self.divergence.between(block, self.M, self.anchor)
            labels[at] = D.argmin(axis=1)
            least = D.min(axis=1)
            cost += float(least.sum() if w is None else w[at] @ least)
        return labels, -cost


@dataclass(frozen=True, eq=False)
class Doubt:
    """How far apart scores in float32 must be to decide for a row in float64, and what decides where they are not.

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
        """Return the doubt about scores <x, f_j> - c_j of rows of these sizes; None if they might overflow."""
        unit = (f.shape[1] + 8) * float(np.finfo(np.float32).eps) / 2
        steepest = float(np.linalg.norm(f, axis=1).max())
        highest = float(np.abs(c[c < np.inf]).max(initial=0.0))
        farthest = float(sizes.max())
        if not max(farthest, steepest, farthest * steepest + highest) < HUGE:
            return None
        slope = 2 * unit * (steepest + VANISHING)
        return cls(f, c, sizes, slope, slope * VANISHING + 2 * unit * highest)

    def slack(self, at: slice) -> Array:
        """Twice the bound, of every row of a block."""
        return self.slope * self.sizes[at] + self.least

    def settle(self, block: Array, rows: Array, labels: Array) -> None:
        """Write the labels of some rows of a block."""
        if len(rows):
            labels[rows] = (block[rows] @ self.f.T - self.c).argmax(axis=1)


Links = tuple[Array, Array, Array | None]  # f, c and the origin


def _by_columns(X: Any, links: Links, w: Array | None, labels: Array, doubt: Doubt | None) -> float:
    """Label rows by blocks of scores (k x rows), in which only vectorized reductions over the short axis are made."""
    f, c, origin = links
    k = len(f)
    gain = 0.0
    dtype = f.dtype
    score = _scorer(f, c)
    codes = np.arange(k, 0, -1, dtype=np.uint8)[
        :,
        None,
    ]  # k - label: of equal scores the first has the highest
    size = min(max(SCORED // max(f.shape), LEAST), MOST, X.shape[0])
    scores = np.empty(k * size, dtype)
    marks = np.empty(k * size, np.uint8)
    best = np.empty(size, dtype)
    code = np.empty(size, np.uint8)
    for at, block in blocks(X, size):
        n = len(block)
        E = marks[: k * n].reshape(k, n)
        rows = _about(block, origin)
        D = score(rows.astype(dtype, copy=False), scores[: k * n].reshape(k, n))
        top = np.maximum.reduce(D, axis=0, out=best[:n])
        if doubt is None:
            gain += float(top.sum(dtype=np.float64) if w is None else w[at] @ top)
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
    """Return what writes the scores f x' - c of rows x over an array (k x rows).

    A product with rows as they stand is up to three times faster than one that turns them. Its
    scores must be turned, which costs less where they are fewer than the entries of the rows, and
    still less a few rows at a time.
    """
    across = np.ascontiguousarray(f.T)
    lows = c[:, None]
    (k, d) = f.shape

    def turned(rows: Array, out: Array) -> Array:
        return np.subtract((rows @ across).T, lows, out=out)

    def tiled(rows: Array, out: Array) -> Array:
        whole = len(rows) - len(rows) % TILE
        places = out[:, :whole].reshape(k, -1, TILE).transpose(1, 0, 2)  # a view
        np.subtract(
            (rows[:whole].reshape(-1, TILE, d) @ across).transpose(0, 2, 1),
            lows,
            out=places,
        )
        turned(rows[whole:], out[:, whole:])
        return out

    if d <= k:
        return lambda rows, out: np.subtract(np.matmul(f, rows.T, out=out), lows, out=out)
    if likes_small_products() and SMALLEST <= k * d <= LARGEST:
        return tiled
    return turned


def _about(rows: Any, origin: Array | None) -> Any:
    """Return rows less an origin; of sparse ones the numbers that are stored."""
    if origin is None or not is_sparse(rows):
        if origin is None:
            return rows
        return rows - origin
    return scipy.sparse.csr_array(
        (rows.data - origin[rows.indices], rows.indices, rows.indptr),
        rows.shape,
    )


def _by_rows(X: Any, links: Links, w: Array | None, labels: Array, doubt: Doubt | None) -> float:
    """Label rows by blocks of scores (rows x k), for many centers or sparse rows."""
    f, c, origin = links
    gain = 0.0
    fT = np.ascontiguousarray(f.T)
    size = max(4 * ENTRIES // len(f), 64)
    for start in range(0, X.shape[0], size):
        at = slice(start, min(start + size, X.shape[0]))
        rows = _about(X[at], origin)
        D = np.asarray(rows.astype(f.dtype, copy=False) @ fT)
        D -= c
        found = D.argmax(axis=1)
        labels[at] = found
        best = np.take_along_axis(D, found[:, None], 1)[:, 0]
        if doubt is None:
            gain += float(best.sum(dtype=np.float64) if w is None else w[at] @ best)
        else:
            np.put_along_axis(D, found[:, None], -np.inf, 1)
            doubt.settle(X[at], np.flatnonzero(D.max(axis=1) >= best - doubt.slack(at)), labels[at])
    return gain
