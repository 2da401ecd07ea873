"""A table as blocks of rows, of which one at a time is in memory."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.blas import one_thread
from regfactor.core.linalg import is_sparse, summed
from regfactor.core.params import Array, frozen, install_hint, optional
from regfactor.engine.threads import count_threads

BLOCK_NUMBERS = 4_000_000  # numbers of a block that a table without blocks of its own is cut into
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


@frozen
class RowBlock:
    """Some consecutive rows of a table, their weights, and the function that reads them."""

    first: int
    length: int
    read: Callable[[], Any]
    weights: Array | None = None

    @property
    def rows(self) -> slice:
        """Where the rows stand in the table."""
        return slice(self.first, self.first + self.length)

    def load(self) -> Any:
        """Return the rows as floats: an array with NaN, or a CSR array, where entries are missing.

        Rows of integers become float64.
        """
        X = self.read()
        if is_sparse(X):
            X = summed(X)
            if np.isnan(X.data).any():
                X = _without_nan(X)
        else:
            X = np.asarray(X)
        if X.dtype not in FLOATS:
            X = X.astype(np.float64)
        return X


class Executor(abc.ABC):
    """How the blocks of a table are worked on."""

    @abc.abstractmethod
    def results(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Iterator[Any]:
        """Yield function(block, *shared) of every block, in their order."""

    def total(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Any:
        """Return the sum of the results, added in an order that depends on the table alone."""
        return reduce(add, self.results(function, blocks, shared))


@frozen
class InTurn(Executor):
    """One block after the other, BLAS with one thread: its products are small."""

    def results(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Iterator[Any]:
        with one_thread():
            for block in blocks:
                yield function(block, *shared)


@frozen
class Threads(Executor):
    """Blocks in several threads at once, BLAS with one thread in each.

    At most two blocks for each thread are in memory.
    """

    n_jobs: int

    def results(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Iterator[Any]:
        width = 2 * self.n_jobs
        with one_thread(), ThreadPoolExecutor(self.n_jobs) as pool:
            for start in range(0, len(blocks), width):
                some = blocks[start : start + width]
                yield from pool.map(partial(_applied, function, shared), some)


@frozen
class BlockTable:
    """A table of numbers that is read by blocks of rows, from memory or from files.

    Estimators that accept one look at each block once in every pass, so that the memory of a fit
    does not depend on the number of rows. Missing entries are NaN, or absent in sparse blocks.

    Parameters
    ----------
    blocks : tuple of RowBlock
    n_columns : int
    names : tuple of str, optional
        Names of the columns.
    executor : Executor
        How the blocks are worked on; by default one after the other.

    See Also
    --------
    BlockTable.of : From arrays, files, or a list of pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BlockTable, ConvexSubspace
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) @ np.ones((3, 5))
    >>> table = BlockTable.of(X, rows=200)
    >>> len(table.blocks)
    5
    >>> model = ConvexSubspace(alpha=1.0).fit(table)
    >>> model.transform(table).to_array().shape
    (1000, 1)
    """

    blocks: tuple[RowBlock, ...]
    n_columns: int
    names: tuple[str, ...] | None = None
    executor: Executor = InTurn()

    @staticmethod
    def of(source: Any, rows: int | None = None, n_jobs: int | None = None) -> BlockTable:
        """Return a table of blocks.

        Parameters
        ----------
        source : array, memory map, sparse matrix, zarr array, path, or list of these
            Paths are those of .npy files, which are not loaded, of Parquet files, whose row groups
            are the blocks, and of .npz files of sparse matrices; the pieces of a list are blocks.
        rows : int, optional
            Rows of a block, where the source has none of its own. By default blocks have four
            million numbers.
        n_jobs : int, optional
            Threads that work on blocks at once, -1 for all processors; results are the same for any
            number. Estimators with `n_jobs` set it too.

        Returns
        -------
        BlockTable
        """
        if rows is not None and rows < 1:
            raise ValueError(f"rows must be a whole number >= 1 or None, got {rows!r}.")
        if n_jobs is not None and n_jobs < 1 and n_jobs != -1:
            raise ValueError(f"n_jobs must be a whole number >= 1, -1 or None, got {n_jobs!r}.")
        pieces = source if isinstance(source, list | tuple) else [source]
        blocks: list[RowBlock] = []
        widths = set()
        names = None
        n_rows = 0
        for piece in pieces:
            found = _opened(piece, rows)
            widths.add(found.n_columns)
            names = found.names
            for block in found.blocks:
                blocks.append(RowBlock(n_rows + block.first, block.length, block.read))
            n_rows += found.shape[0]
        if len(widths) != 1 or not n_rows:
            raise ValueError(
                f"The blocks of a table need rows, and one number of columns; they have {n_rows} "
                f"rows and {sorted(widths)} columns."
            )
        return BlockTable(tuple(blocks), widths.pop(), names).threaded(n_jobs)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return sum(block.length for block in self.blocks), self.n_columns

    def reduce(self, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum over blocks of function(block, *shared), added in their order."""
        return self.executor.total(function, self.blocks, shared)

    def threaded(self, n_jobs: int | None) -> BlockTable:
        """Return the table with so many threads, where its blocks are else taken in turn."""
        n_threads = count_threads(n_jobs)
        if n_threads == 1 or not isinstance(self.executor, InTurn):
            return self
        return replace(self, executor=Threads(n_threads))

    def weighted(self, weights: Array) -> BlockTable:
        """Return the same table with weights of rows."""
        blocks = [replace(block, weights=weights[block.rows]) for block in self.blocks]
        return replace(self, blocks=tuple(blocks))

    def map(self, function: Callable[[Any], Any], n_columns: int) -> BlockTable:
        """Return the table of a function of each block, computed when a block is read."""
        blocks = []
        for block in self.blocks:
            read = partial(_mapped, function, block)
            blocks.append(RowBlock(block.first, block.length, read))
        return BlockTable(tuple(blocks), n_columns, None, self.executor)

    def sample(self, n_rows: int) -> Any:
        """Return at most so many rows, evenly spaced over the table, in memory."""
        step = max(-(-self.shape[0] // n_rows), 1)
        found = self.executor.results(_every, self.blocks, (step,))
        parts = [part for part in found if part.shape[0]]
        if all(map(is_sparse, parts)):
            return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
        return np.concatenate([_dense(part) for part in parts])

    def to_array(self) -> Array:
        """Return the whole table in memory, absent entries of sparse blocks as NaN."""
        return np.concatenate([_dense(block.load()) for block in self.blocks])

    def save(self, path: str | Path) -> Path:
        """Write the table to a .npy file, block by block; return its path."""
        path = Path(path)
        out: Any = None
        for block in self.blocks:
            rows = _dense(block.load())
            if out is None:
                shape = (self.shape[0], rows.shape[1])
                out = np.lib.format.open_memmap(path, "w+", rows.dtype, shape)
            out[block.rows] = rows
        out.flush()
        return path


def _applied(function: Callable[..., Any], shared: tuple[Any, ...], block: RowBlock) -> Any:
    return function(block, *shared)


def _every(block: RowBlock, step: int) -> Any:
    """Return those rows of a block whose places in the table are multiples of a step."""
    return block.load()[-block.first % step :: step]


def _mapped(function: Callable[[Any], Any], block: RowBlock) -> Any:
    return function(block.load())


def _opened(source: Any, rows: int | None) -> BlockTable:
    """Return the blocks of one source."""
    if isinstance(source, BlockTable):
        return source
    if isinstance(source, str | Path):
        return _opened_file(Path(source), rows)
    if hasattr(source, "columns") and hasattr(source, "dtypes"):
        names = tuple(map(str, source.columns))
        return _cut(np.asarray(source), rows, names)
    if is_sparse(source):
        return _cut(scipy.sparse.csr_array(source), rows)
    if not hasattr(source, "shape"):
        source = np.asarray(source)
    return _cut(source, rows)


def _opened_file(path: Path, rows: int | None) -> BlockTable:
    if path.suffix == ".npy":
        shape = np.load(path, mmap_mode="r").shape
        _check_table(shape)
        height = rows or _height(shape)
        return _blocks(shape, height, partial(_read_npy, path))
    if path.suffix == ".npz":
        return _cut(scipy.sparse.csr_array(scipy.sparse.load_npz(path)), rows)
    if path.suffix in (".parquet", ".pq"):
        parquet = optional("pyarrow.parquet", "Parquet files", install_hint("cli"))
        return _row_groups(path, parquet.ParquetFile(path))
    raise ValueError(f"{path} is no .npy, .npz or .parquet file; load it, and give arrays.")


def _row_groups(path: Path, opened: Any) -> BlockTable:
    """Return the row groups of a Parquet file as blocks."""
    blocks = []
    first = 0
    metadata = opened.metadata
    for k in range(metadata.num_row_groups):
        length = metadata.row_group(k).num_rows
        blocks.append(RowBlock(first, length, partial(_read_group, path, k)))
        first += length
    names = tuple(opened.schema_arrow.names)
    return BlockTable(tuple(blocks), len(names), names)


def _cut(X: Any, rows: int | None, names: tuple[str, ...] | None = None) -> BlockTable:
    """Return an array, which may lie in a file, cut into blocks of rows."""
    _check_table(X.shape)
    height = rows or _height(X.shape)
    chunks = getattr(X, "chunks", None)
    if rows is None and chunks:  # whole chunks are read only once
        height = max(height // int(chunks[0]), 1) * int(chunks[0])
    return _blocks(X.shape, height, partial(_read_rows, X), names)


def _blocks(
    shape: tuple[int, ...],
    height: int,
    read: Callable[[int, int], Any],
    names: tuple[str, ...] | None = None,
) -> BlockTable:
    blocks = []
    for start in range(0, shape[0], height):
        stop = min(start + height, shape[0])
        blocks.append(RowBlock(start, stop - start, partial(read, start, stop)))
    return BlockTable(tuple(blocks), int(shape[1]), names)


def _height(shape: tuple[int, ...]) -> int:
    return max(BLOCK_NUMBERS // max(int(shape[1]), 1), 1)


def _check_table(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"A table has rows and columns; got an array of shape {tuple(shape)}.")


def _read_rows(X: Any, start: int, stop: int) -> Any:
    return X[start:stop]


def _read_npy(path: Path, start: int, stop: int) -> Array:
    # opened anew, so that no page of the file stays mapped
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def _read_group(path: Path, k: int) -> Array:
    parquet = optional("pyarrow.parquet", "Parquet files", install_hint("cli"))
    group = parquet.ParquetFile(path).read_row_group(k)
    columns = [np.asarray(column.to_numpy(), np.float64) for column in group.columns]
    return np.column_stack(columns)


def _without_nan(X: Any) -> Any:
    """Return a CSR array with no NaN stored."""
    seen = ~np.isnan(X.data)
    rows, columns = X.tocoo().coords
    return scipy.sparse.csr_array((X.data[seen], (rows[seen], columns[seen])), shape=X.shape)


def _dense(X: Any) -> Array:
    """Return a block as an array, absent entries as NaN."""
    if not is_sparse(X):
        return np.asarray(X)
    whole = np.full(X.shape, np.nan, X.dtype)
    rows, columns = X.tocoo().coords
    whole[rows, columns] = X.data
    return whole
