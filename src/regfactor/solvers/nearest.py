"""Which center is nearest: all rows against all centers by matrix products over blocks of rows.

Scores <x, f_j> - c_j stand centers by rows in a block that stays in the cache, so that their maxima are taken along the
axis that vectorizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from regfactor._linalg import is_sparse
from regfactor._params import Array
from regfactor.losses.divergences import Affine, Divergence, named
from regfactor.problems.clusters import BLOCK, ENTRIES, blocks, small_blocks

MANY = 128  # centers from which on a row of scores is long enough to be searched as it stands


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
        for at, block in small_blocks(X):
            out[at] = self.divergence.between(block, self.M, self.anchor)
        return out

    def own(self, X: Any, labels: Array) -> Array:
        """D(x_i, m_{z_i}) of every row and its own center."""
        out = np.empty(X.shape[0])
        for at, block in small_blocks(X):
            D = self.divergence.between(block, self.M, self.anchor)
            out[at] = np.take_along_axis(D, labels[at, None].astype(np.intp), 1)[:, 0]
        return out

    def nearest(self, X: Any, w: Array | None = None) -> tuple[Array, float]:
        """Return the label of every row, and the sum of w (D(x || anchor) - D(x || own center))."""
        if not isinstance(self.divergence, Affine):
            return self._nearest_of_all(X, w)
        f, c = self.divergence.links(self.M, self.anchor)
        origin = self.anchor.astype(X.dtype) if self.far else None
        c = c + f @ (self.anchor if origin is None else self.anchor - origin)
        f, c = f.astype(X.dtype), c.astype(X.dtype)
        labels = np.empty(X.shape[0], np.int32)
        search = _by_columns if len(f) < MANY and not is_sparse(X) else _by_rows
        gain = search(X, f, c, origin, w, labels)
        if not np.isfinite(gain):
            raise ValueError(
                f"{named(self.divergence)} overflows on these data in {X.dtype}; scale them down, or use float64."
            )
        return labels, gain

    def _nearest_of_all(self, X: Any, w: Array | None) -> tuple[Array, float]:
        labels, cost = np.empty(X.shape[0], np.int32), 0.0
        for at, block in small_blocks(X):
            D = self.divergence.between(block, self.M, self.anchor)
            labels[at] = D.argmin(axis=1)
            least = D.min(axis=1)
            cost += float(least.sum() if w is None else w[at] @ least)
        return labels, -cost


def _by_columns(X: Any, f: Array, c: Array, origin: Array | None, w: Array | None, labels: Array) -> float:
    """Label rows by blocks of scores (k x rows), in which only vectorized reductions over the short axis are made."""
    k, gain = len(f), 0.0
    (gemm,) = get_blas_funcs(("gemm",), (f,))
    fT, down, single = np.asfortranarray(f.T), -c[:, None], X.dtype == np.float32
    codes = np.arange(k, 0, -1, dtype=np.uint8)[:, None]  # k - label: of equal scores the first has the highest
    size = min(BLOCK, X.shape[0])
    D, E = np.empty((k, size), X.dtype), np.empty((k, size), bool)
    best, code = np.empty(size, X.dtype), np.empty(size, np.uint8)
    for at, block in blocks(X, BLOCK):
        if len(block) < size:  # the last block; views of the buffers would not be contiguous
            size = len(block)
            D, E, best, code = np.empty((k, size), X.dtype), np.empty((k, size), bool), best[:size], code[:size]
        block = block if origin is None else block - origin
        if single:  # numpy and scipy have a BLAS each; either is the faster one for one precision
            np.matmul(f, block.T, out=D)
            D += down
        else:
            D[...] = down
            gemm(1.0, block.T, fT, beta=1.0, c=D.T, trans_a=1, overwrite_c=1)
        np.maximum.reduce(D, axis=0, out=best)
        np.equal(D, best, out=E)
        marks = E.view(np.uint8)
        np.multiply(marks, codes, out=marks)
        np.maximum.reduce(marks, axis=0, out=code)
        np.subtract(np.int32(k), code, out=labels[at])
        gain += float(best.sum(dtype=np.float64) if w is None else w[at] @ best)
    return gain


def _by_rows(X: Any, f: Array, c: Array, origin: Array | None, w: Array | None, labels: Array) -> float:
    """Label rows by blocks of scores (rows x k), for many centers or sparse rows."""
    gain, fT, size = 0.0, np.ascontiguousarray(f.T), max(4 * ENTRIES // len(f), 64)
    for start in range(0, X.shape[0], size):
        at = slice(start, min(start + size, X.shape[0]))
        D = np.asarray((X[at] if origin is None else X[at] - origin) @ fT)
        D -= c
        found = D.argmax(axis=1)
        labels[at] = found
        best = np.take_along_axis(D, found[:, None], 1)[:, 0]
        gain += float(best.sum(dtype=np.float64) if w is None else w[at] @ best)
    return gain
