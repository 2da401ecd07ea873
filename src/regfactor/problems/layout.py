"""How the entries of a table are held.

All of them in an array, or the observed ones of a sparse table in a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.sparse

from regfactor.core.factors import Factors
from regfactor.core.linalg import gram, solve_columns
from regfactor.core.params import Array, frozen
from regfactor.engine.kernels import KERNELS, SparseRows, gram_of_rows, predict_entries, solve_rows

BLOCK_ELEMENTS = 500_000  # numbers of a dense block of rows, which should stay in the cache
# columns up to which a Gram matrix is summed over dense blocks, which needs no second copy
MAX_BLOCK_GRAM = 1000
MIN_BLOCK_VECTORS = 4  # vectors multiplied at once from which on dense blocks are faster
# share of observed entries from which on dense blocks of rows are faster than gathering
MIN_BLOCK_DENSITY = 0.06
# share of observed entries up to which the compiled product of factors is faster than either
MAX_KERNEL_DENSITY = 0.25
# the same for a Gram matrix, against sums over dense blocks of rows
MAX_GRAM_DENSITY = 0.2


@dataclass(frozen=True)
class Dense:
    """Entries are an n x d array; missing ones have weight zero."""

    shape: tuple[int, int]
    sparse = False

    @property
    def T(self) -> Dense:
        """The layout of the transposed array."""
        return Dense(self.shape[::-1])

    def entries(self, Z: Any) -> Array:
        """Return Z at the entries of the table."""
        if isinstance(Z, Factors):
            return Z.dense()
        return Z

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

    def spread_rows(self, rows: Array) -> Array:
        """Return a number for each row as a number for each entry, up to broadcasting."""
        return rows[:, None]

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        return D.T @ entries

    def apply(self, D: Array, B: Array) -> Array:
        """D @ B at the entries."""
        return D @ B

    def times(self, entries: Array, B: Array) -> Array:
        """Return the matrix of entries times B."""
        return entries @ B

    def gram(self, entries: Array) -> Array:
        """Return the Gram matrix of the columns of the matrix of entries, in float64.

        Its upper triangle counts.
        """
        return gram(entries)

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        # the few pairs first: up to 1.6 times as fast
        return (pairs.T @ entries[:, block]).T

    def solve_columns(
        self,
        D: Array,
        h: Array,
        ridge: Array,
        gradient: Array,
    ) -> Array:
        """(D' diag(h_j) D + diag(ridge)) step_j = gradient_j, solved for every column j."""
        return solve_columns(D, h, ridge, gradient, self)


@frozen
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

    def only(self, kept: Array) -> Pattern:
        """Return the pattern of some of the entries."""
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr].astype(self.indptr.dtype)
        return Pattern(indptr, self.indices[kept], self.shape)

    def of_rows(self, rows: Array) -> tuple[Pattern, Array]:
        """Return the pattern of some rows, and where their entries stand in this one."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(self.indptr.dtype)
        places = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return Pattern(indptr, self.indices[places], (len(rows), self.shape[1])), places

    @property
    def density(self) -> float:
        """The share of entries that are stored."""
        return len(self.indices) / max(self.shape[0] * self.shape[1], 1)

    @property
    def dense(self) -> bool:
        """Whether dense blocks of rows are faster than gathering entry by entry."""
        return self.density >= MIN_BLOCK_DENSITY

    def entries(self, Z: Any) -> Array:
        """Return Z (factors, a matrix of this pattern, or entries) at the stored entries."""
        if isinstance(Z, Factors):
            if self.dense and (KERNELS.module is None or self.density > MAX_KERNEL_DENSITY):
                return self._from_blocks(Z)
            return predict_entries(self.checked_rows, Z.codes, Z.C.T)
        if isinstance(Z, np.ndarray):
            return Z
        return Z.data

    @cached_property
    def checked_rows(self) -> SparseRows:
        """The rows as kernels take them."""
        return SparseRows.of(self.indptr, self.indices, self.shape)

    @cached_property
    def _checked_columns(self) -> SparseRows:
        """The columns as kernels take them."""
        indptr, rows, _ = self._by_columns
        return SparseRows.of(indptr, rows, self.shape[::-1])

    def solve_columns(
        self,
        D: Array,
        h: Array,
        ridge: Array,
        gradient: Array,
    ) -> Array:
        """(D' diag(h_j) D + diag(ridge)) step_j = gradient_j, solved for every column j."""
        if KERNELS.module is None:
            return solve_columns(D, h, ridge, gradient, self)
        order = self._by_columns[2]
        return solve_rows(self._checked_columns, h[order], D, ridge, gradient.T).T

    def _from_blocks(self, F: Factors) -> Array:
        """Multiply dense blocks of rows and take what is stored."""
        out = np.empty(len(self.indices), np.result_type(F.Phi, F.C))
        for rows, part in self._row_blocks:
            np.take(F.codes[rows] @ F.C, self._places[part], out=out[part])
        return out

    @property
    def _height(self) -> int:
        """The number of rows of a dense block."""
        return max(BLOCK_ELEMENTS // self.shape[1], 1)

    @cached_property
    def _row_blocks(self) -> list[tuple[slice, slice]]:
        """Blocks of rows that are small enough to be held densely, and their entries."""
        starts = range(0, self.shape[0], self._height)
        blocks = [slice(start, min(start + self._height, self.shape[0])) for start in starts]
        return [(rows, slice(self.indptr[rows.start], self.indptr[rows.stop])) for rows in blocks]

    @cached_property
    def _places(self) -> Array:
        """Where each entry stands in the dense block of its rows."""
        return self._places_of(slice(None))

    def _places_of(self, part: slice) -> Array:
        rows = (self.rows[part] % self._height).astype(np.intp)
        return rows * self.shape[1] + self.indices[part]

    def _filled(self, entries: Array) -> Iterator[tuple[slice, Array]]:
        """Yield dense blocks of rows with the entries in place and zeros elsewhere.

        All use the same memory, so that each is valid until the next.
        """
        height = min(self._height, self.shape[0])
        filled = np.zeros((height, self.shape[1]), entries.dtype)
        flat = filled.ravel()
        for rows, part in self._row_blocks:
            # kept in memory only for tables that are always multiplied in this way
            if self.dense:
                places = self._places[part]
            else:
                places = self._places_of(part)
            flat[places] = entries[part]
            yield rows, filled[: rows.stop - rows.start]
            flat[places] = 0

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

    def spread_rows(self, rows: Array) -> Array:
        """Return a number for each row as a number for each entry."""
        return rows[self.rows]

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        if self.dense and D.shape[1] >= MIN_BLOCK_VECTORS:
            return self._summed(entries, lambda rows, filled: D[rows].T @ filled)
        return (self.matrix(entries).T @ D).T

    def apply(self, D: Array, B: Array) -> Array:
        """D @ B at the entries."""
        if D.shape[1] == 1:  # an intercept needs no product
            return D[self.rows, 0] * B[0][self.indices]
        return self.entries(Factors(D, B))

    def times(self, entries: Array, B: Array) -> Array:
        """Return the matrix of entries times B."""
        if not self.dense or B.shape[1] < MIN_BLOCK_VECTORS:
            return self.matrix(entries) @ B
        out = np.empty((self.shape[0], B.shape[1]), np.result_type(entries, B))
        for rows, filled in self._filled(entries):
            np.matmul(filled, B, out=out[rows])
        return out

    def gram(self, entries: Array) -> Array:
        """Return the Gram matrix of the columns of the matrix of entries, in float64.

        Its upper triangle counts.
        """
        if KERNELS.module is not None and self.density <= MAX_GRAM_DENSITY:
            return gram_of_rows(self.checked_rows, entries)
        if not self.dense and self.shape[1] > MAX_BLOCK_GRAM:
            return gram(self.matrix(entries))
        total = np.zeros((self.shape[1], self.shape[1]), order="F")
        for _, filled in self._filled(entries.astype(np.float64, copy=False)):
            total = scipy.linalg.blas.dsyrk(
                1.0,
                filled.T,
                beta=1.0,
                c=total,
                overwrite_c=True,
            )
        return total

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        if self.dense:
            return self._summed(entries, lambda rows, filled: pairs[rows].T @ filled[:, block]).T
        if len(range(*block.indices(self.shape[1]))) == self.shape[1]:
            return self.matrix(entries).T @ pairs
        indptr, rows, order = self._by_columns
        part = slice(indptr[block.start], indptr[min(block.stop, self.shape[1])])
        columns = indptr[block.start : min(block.stop, self.shape[1]) + 1] - indptr[block.start]
        height = len(columns) - 1
        weights = scipy.sparse.csr_array(
            (entries[order[part]], rows[part], columns),
            shape=(height, self.shape[0]),
        )
        return weights @ pairs

    def row_grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over columns, weighted by the entries of a block of rows."""
        if self.dense and len(range(*block.indices(self.shape[0]))) == self.shape[0]:
            return self.times(entries, pairs)
        pointers = self.indptr[block.start : block.stop + 1]
        part = slice(pointers[0], pointers[-1])
        shape = (len(pointers) - 1, self.shape[1])
        weights = scipy.sparse.csr_array(
            (entries[part], self.indices[part], pointers - pointers[0]),
            shape=shape,
        )
        return weights @ pairs

    def _summed(self, entries: Array, of: Callable[[slice, Array], Array]) -> Array:
        """Sum a function of the dense blocks of rows."""
        return np.asarray(sum(of(rows, filled) for rows, filled in self._filled(entries)))

    @cached_property
    def _by_columns(self) -> tuple[Array, Array, Array]:
        """The pattern by columns: pointers, rows, and the position of each entry in this one."""
        positions = np.arange(len(self.indices), dtype=self.indices.dtype)
        by_columns = self.matrix(positions).tocsc()
        return by_columns.indptr, by_columns.indices, by_columns.data

    @cached_property
    def T(self) -> TransposedPattern:
        """The same entries, in the same order, seen as the transposed table."""
        return TransposedPattern(self)


@frozen
class TransposedPattern:
    """A pattern seen as that of the transposed table; entries stay in the order of the pattern."""

    pattern: Pattern
    sparse = True

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the transposed table."""
        return self.pattern.shape[::-1]

    @property
    def T(self) -> Pattern:
        """The pattern itself."""
        return self.pattern

    @property
    def rows(self) -> Array:
        """The row of each entry."""
        return self.pattern.indices

    def entries(self, Z: Any) -> Array:
        """Return Z (factors, or entries already) at the stored entries."""
        return self.pattern.entries(Z.T if isinstance(Z, Factors) else Z)

    def matrix(self, entries: Array) -> Any:
        """Return entries as a sparse matrix."""
        return self.pattern.matrix(entries).T

    def column_sums(self, entries: Array) -> Array:
        """Sum over rows, in float64."""
        return self.pattern.row_sums(entries)

    def row_sums(self, entries: Array) -> Array:
        """Sum over columns, in float64."""
        return self.pattern.column_sums(entries)

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry."""
        return self.pattern.spread_rows(columns)

    def spread_rows(self, rows: Array) -> Array:
        """Return a number for each row as a number for each entry."""
        return self.pattern.spread(rows)

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        return self.pattern.times(entries, D).T

    def apply(self, D: Array, B: Array) -> Array:
        """D @ B at the entries."""
        return self.pattern.entries(Factors(B.T, D.T))

    def times(self, entries: Array, B: Array) -> Array:
        """Return the matrix of entries times B."""
        return self.pattern.adjoint(B, entries).T

    def gram(self, entries: Array) -> Array:
        """Return the Gram matrix of the columns of the matrix of entries, in float64.

        Its upper triangle counts.
        """
        return gram(self.matrix(entries))

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        return self.pattern.row_grams(entries, pairs, block)

    def solve_columns(
        self,
        D: Array,
        h: Array,
        ridge: Array,
        gradient: Array,
    ) -> Array:
        """(D' diag(h_j) D + diag(ridge)) step_j = gradient_j, solved for every column j."""
        if KERNELS.module is None:
            return solve_columns(D, h, ridge, gradient, self)
        return solve_rows(self.pattern.checked_rows, h, D, ridge, gradient.T).T


Layout = Dense | Pattern | TransposedPattern
