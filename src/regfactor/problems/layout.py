"""How the entries of a table are held: all of them in an array, or the observed ones of a sparse table in a vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from regfactor._params import Array
from regfactor.factors import Factors

BLOCK = 2_000_000  # numbers of a dense block of predictions, or of gathered factors, held at once
GATHER_BELOW = 0.06  # share of observed entries below which gathering rows of factors beats a dense block


@dataclass(frozen=True)
class Dense:
    """Entries are an n x d array; holes are entries of weight zero."""

    shape: tuple[int, int]
    sparse = False

    def entries(self, Z: Any) -> Array:
        """Return Z at the entries of the table."""
        return Z.dense() if isinstance(Z, Factors) else Z

    def matrix(self, entries: Array) -> Array:
        """Return entries as something that multiplies matrices."""
        return entries

    def column_sums(self, entries: Array) -> Array:
        """Sum over rows, in float64."""
        return entries.sum(axis=0, dtype=np.float64)

    def row_sums(self, entries: Array) -> Array:
        """Sum over columns, in float64."""
        return entries.sum(axis=1, dtype=np.float64)

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry, up to broadcasting."""
        return columns

    def pull(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        return np.asarray(D.T @ entries)

    def push(self, D: Array, B: Array) -> Array:
        """D @ B at the entries."""
        return np.asarray(D @ B)

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        return np.asarray(entries[:, block].T @ pairs)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Entries are a vector in the order of a CSR matrix; everything absent is unobserved."""

    indptr: Array
    indices: Array
    shape: tuple[int, int]
    sparse = True

    @staticmethod
    def of(X: Any) -> Pattern:
        """Return where a CSR matrix stores entries."""
        return Pattern(X.indptr, X.indices, X.shape)

    @cached_property
    def rows(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr))

    @property
    def density(self) -> float:
        """The share of entries that are stored."""
        return len(self.indices) / max(self.shape[0] * self.shape[1], 1)

    def entries(self, Z: Any) -> Array:
        """Return Z (factors, a matrix of this pattern, or entries already) at the stored entries."""
        if isinstance(Z, Factors):
            return self._gathered(Z) if self.density < GATHER_BELOW else self._from_blocks(Z)
        return Z if isinstance(Z, np.ndarray) else np.asarray(Z.data)

    def _gathered(self, F: Factors) -> Array:
        """Multiply rows of both factors entry by entry, in chunks."""
        Phi, Ct = np.ascontiguousarray(F.codes), np.ascontiguousarray(F.C.T)
        out = np.empty(len(self.indices), np.result_type(Phi, Ct))
        chunk = max(BLOCK // max(F.rank, 1), 1)
        for start in range(0, len(out), chunk):
            part = slice(start, start + chunk)
            # a batch of row-times-column products is one matmul, faster than einsum over gathered rows
            out[part] = np.matmul(Phi[self.rows[part], None, :], Ct[self.indices[part], :, None])[:, 0, 0]
        return out

    def _from_blocks(self, F: Factors) -> Array:
        """Multiply dense blocks of rows and take what is stored."""
        out = np.empty(len(self.indices), np.result_type(F.Phi, F.C))
        height = max(BLOCK // self.shape[1], 1)
        for start in range(0, self.shape[0], height):
            stop = min(start + height, self.shape[0])
            part = slice(self.indptr[start], self.indptr[stop])
            flat = (self.rows[part] - start).astype(np.int64) * self.shape[1] + self.indices[part]
            np.take(F.codes[start:stop] @ F.C, flat, out=out[part])
        return out

    def matrix(self, entries: Array) -> Any:
        """Return entries as a CSR matrix that shares this pattern."""
        return scipy.sparse.csr_array((entries, self.indices, self.indptr), shape=self.shape)

    def column_sums(self, entries: Array) -> Array:
        """Sum over rows, in float64."""
        return np.bincount(self.indices, weights=entries, minlength=self.shape[1])

    def row_sums(self, entries: Array) -> Array:
        """Sum over columns, in float64."""
        return np.bincount(self.rows, weights=entries, minlength=self.shape[0])

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry."""
        return columns[self.indices]

    def pull(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        return np.asarray(self.matrix(entries).T @ D).T

    def push(self, D: Array, B: Array) -> Array:
        """D @ B at the entries."""
        return self.entries(Factors(D, B))

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        indptr, rows, order = self._by_columns
        part = slice(indptr[block.start], indptr[min(block.stop, self.shape[1])])
        columns = indptr[block.start : min(block.stop, self.shape[1]) + 1] - indptr[block.start]
        height = len(columns) - 1
        weights = scipy.sparse.csr_array((entries[order[part]], rows[part], columns), shape=(height, self.shape[0]))
        return np.asarray(weights @ pairs)

    @cached_property
    def _by_columns(self) -> tuple[Array, Array, Array]:
        """The same pattern by columns: pointers, row indices, and the order in which its entries are stored here."""
        marked = scipy.sparse.csr_array(
            (np.arange(len(self.indices)), self.indices, self.indptr), shape=self.shape
        ).tocsc()
        return marked.indptr, marked.indices, marked.data

    @cached_property
    def T(self) -> tuple[Pattern, Array]:
        """The transposed pattern, and the order in which its entries are stored here."""
        indptr, rows, order = self._by_columns
        return Pattern(indptr, rows, self.shape[::-1]), order


Layout = Dense | Pattern
