"""Loops over the stored entries of a sparse table, compiled where the machine allows it.

Every function has a twin in numpy, which runs where the package was built without a compiler, where
the processor lacks the instructions, or where the environment has ``REGFACTOR_KERNELS=0``. Both
give the same numbers up to rounding.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import gram, solve_columns
from regfactor.core.params import Array, frozen
from regfactor.engine.threads import over_rows

# rounding errors of the target, below which a gradient is rounding, however small the curvature
COORDINATE_NOISE = 8
GATHERED_ELEMENTS = 2_000_000  # numbers of gathered factors that numpy holds at once


@frozen
class Kernels:
    """The compiled module, or why there is none."""

    module: Any
    reason: str = ""


def load_kernels() -> Kernels:
    """Return the compiled module, or the reason for which numpy serves in its place."""
    if os.environ.get("REGFACTOR_KERNELS") == "0":
        return Kernels(None, "REGFACTOR_KERNELS is 0")
    try:
        module = importlib.import_module("regfactor.engine._kernels")
    except ModuleNotFoundError:
        return Kernels(None, "the package was built without a compiler")
    if not module.is_supported():
        return Kernels(None, "the processor lacks AVX2, FMA or BMI2")
    return Kernels(module)


KERNELS = load_kernels()


@frozen
class SparseRows:
    """Where the rows of a table store entries, checked once: the kernels rely on it.

    Entries of row i stand at ``indptr[i]`` to ``indptr[i + 1] - 1``, in any order of columns.
    """

    indptr: Array
    columns: Array  # int32
    shape: tuple[int, int]

    @staticmethod
    def of(indptr: Array, columns: Array, shape: tuple[int, int]) -> SparseRows:
        """Return the rows; raise if an offset or a column is out of range."""
        n_rows, n_columns = shape
        if indptr.shape != (n_rows + 1,) or indptr[0] != 0 or indptr[-1] != len(columns):
            raise ValueError(
                f"A table of {n_rows} rows needs {n_rows + 1} offsets from 0 to the number of "
                f"its entries, {len(columns)}."
            )
        if np.any(np.diff(indptr) < 0):
            raise ValueError("Offsets of rows must not fall.")
        if len(columns) and not (0 <= columns.min() and columns.max() < n_columns):
            raise ValueError(f"Indices of columns must lie in 0 to {n_columns - 1}.")
        offsets = np.int32 if indptr.dtype == np.int32 else np.int64
        return SparseRows(
            np.ascontiguousarray(indptr, offsets),
            np.ascontiguousarray(columns, np.int32),
            shape,
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def rows(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over columns, weighted by the entries of a block of rows."""
        table = scipy.sparse.csr_array((entries, self.columns, self.indptr), shape=self.shape)
        return table[block] @ pairs


def predict_entries(table: SparseRows, codes: Array, components: Array) -> Array:
    """Return <codes of the row, components of the column> at every stored entry.

    Parameters
    ----------
    table : SparseRows
    codes : ndarray of shape (n_rows, rank)
    components : ndarray of shape (n_columns, rank)

    Returns
    -------
    ndarray of shape (n_entries,)
    """
    dtype = np.result_type(codes, components, np.float32)
    codes = _checked("codes", codes, len(table), dtype)
    components = _checked("components", components, table.shape[1], dtype)
    if codes.shape[1] != components.shape[1]:
        raise ValueError(
            f"codes have {codes.shape[1]} columns and components {components.shape[1]}."
        )
    if KERNELS.module is None:
        return predict_entries_numpy(table, codes, components)
    out = np.empty(len(table.columns), dtype)
    left = _padded(codes)
    right = _padded(components)

    def loop(first: int, last: int) -> None:
        KERNELS.module.entries(first, last, table.indptr, table.columns, left, right, out)

    over_rows(table.indptr, loop)
    return out


def predict_entries_numpy(table: SparseRows, codes: Array, components: Array) -> Array:
    """Multiply rows of both factors entry by entry, in chunks."""
    out = np.empty(len(table.columns), codes.dtype)
    rows = table.rows
    chunk = max(GATHERED_ELEMENTS // max(codes.shape[1], 1), 1)
    for start in range(0, len(out), chunk):
        part = slice(start, start + chunk)
        left = codes[rows[part], None, :]
        right = components[table.columns[part], :, None]
        # a batch of row-times-column products is one matmul, faster than einsum
        out[part] = np.matmul(left, right)[:, 0, 0]
    return out


def solve_rows(
    table: SparseRows,
    weights: Array,
    D: Array,
    ridge: Array,
    right: Array,
) -> Array:
    """Return the solutions of (sum_e w_e d_e d_e' + diag(ridge)) x_i = right_i for all rows i.

    The sum is over the entries e of row i, and d_e is the row of D that belongs to the column of e.
    A jitter of the trace times the rounding unit keeps rows without entries solvable.

    Parameters
    ----------
    table : SparseRows
    weights : ndarray of shape (n_entries,)
        Not negative.
    D : ndarray of shape (n_columns, rank)
    ridge : ndarray of shape (rank,)
    right : ndarray of shape (n_rows, rank)

    Returns
    -------
    ndarray of shape (n_rows, rank)
    """
    dtype = np.result_type(D, weights, np.float32)
    rank = D.shape[1]
    D = _checked("D", D, table.shape[1], dtype)
    right = _checked("right", right, len(table), dtype)
    weights = np.ascontiguousarray(weights, dtype)
    ridge = np.ascontiguousarray(ridge, dtype)
    if weights.shape != table.columns.shape or ridge.shape != (rank,) or right.shape[1] != rank:
        raise ValueError(
            f"{len(table.columns)} entries and rank {rank} need as many weights, ridges and "
            f"right-hand sides; got {weights.shape}, {ridge.shape} and {right.shape}."
        )
    if KERNELS.module is None or not rank:
        return solve_rows_numpy(table, weights, D, ridge, right)
    held = _padded(D)
    solved = np.empty((len(table), held.shape[1]), dtype)
    sides = _padded(right)

    def loop(first: int, last: int) -> int:
        failed: int = KERNELS.module.solve_rows(
            first,
            last,
            table.indptr,
            table.columns,
            weights,
            held,
            ridge,
            sides,
            solved,
        )
        return failed

    failed = sum(over_rows(table.indptr, loop))
    out = solved[:, :rank]
    if failed:
        # matrices that rounding made indefinite: numpy's solver factorizes them without symmetry
        bad = np.flatnonzero(np.isnan(out).any(axis=1))
        out[bad] = solve_rows_numpy(
            *_selected(table, weights, bad),
            D,
            ridge,
            right[bad],
        )
    return out


def solve_rows_numpy(
    table: SparseRows,
    weights: Array,
    D: Array,
    ridge: Array,
    right: Array,
) -> Array:
    """Sum products of pairs of columns of D over the entries of a row, and solve in batches."""
    return solve_columns(D, weights, ridge, right.T, table).T


def gram_of_rows(table: SparseRows, values: Array) -> Array:
    """Return the Gram matrix of the columns, in float64; its upper triangle counts.

    Parameters
    ----------
    table : SparseRows
    values : ndarray of shape (n_entries,)

    Returns
    -------
    ndarray of shape (n_columns, n_columns)
    """
    values = np.ascontiguousarray(values, np.float64)
    if values.shape != table.columns.shape:
        raise ValueError(f"{len(table.columns)} entries need as many values, got {values.shape}.")
    if KERNELS.module is None:
        return gram_of_rows_numpy(table, values)
    width = table.shape[1]
    out = np.zeros((width, width))
    KERNELS.module.gram(0, len(table), table.indptr, table.columns, values, out)
    return out


def gram_of_rows_numpy(table: SparseRows, values: Array) -> Array:
    """Multiply the sparse matrices."""
    matrix = scipy.sparse.csr_array((values, table.columns, table.indptr), shape=table.shape)
    return gram(matrix)


@frozen
class EntrySums:
    """What a pass over the entries of a table adds up, all of it weighted.

    Attributes
    ----------
    squares, product, size : float
        Sums of g^2, g r and r^2.
    offsets : ndarray of shape (n_columns,)
        Sums of g.
    gram : ndarray of shape (n_columns, n_columns) or None
        Gram matrix of g; its upper triangle counts.
    equations : ndarray of shape (n_columns, width (width + 1) / 2)
        Gram matrices of D over the rows of the entries of each column, upper triangles.
    right : ndarray of shape (n_columns, width)
        Sums of x times the row of D.
    """

    squares: float
    product: float
    size: float
    offsets: Array
    gram: Array | None
    equations: Array
    right: Array


@frozen
class Residuals:
    """Numbers of the entries of a table: residuals g, r, and x which is r without outliers."""

    g: Array
    r: Array
    x: Array


def sums_of_columns(
    table: SparseRows,
    entries: Residuals,
    D: Array,
    weights: Array,
    with_gram: bool,
) -> EntrySums:
    """Return sums over the entries of a table, in float64.

    Parameters
    ----------
    table : SparseRows
    entries : Residuals
        Of shape (n_entries,) each.
    D : ndarray of shape (n_rows, width)
    weights : ndarray of shape (n_rows,)
    with_gram : bool
        Whether the Gram matrix of the residuals is wanted.

    Returns
    -------
    EntrySums
    """
    n_rows, n_columns = table.shape
    numbers = [np.ascontiguousarray(a, np.float64) for a in (entries.g, entries.r, entries.x)]
    if any(a.shape != table.columns.shape for a in numbers):
        shapes = ", ".join(str(a.shape) for a in numbers)
        raise ValueError(f"{len(table.columns)} entries need as many numbers, got {shapes}.")
    if len(D) != n_rows or weights.shape != (n_rows,):
        raise ValueError(
            f"A table of {n_rows} rows needs as many rows of D and weights; got {D.shape} and "
            f"{weights.shape}."
        )
    entries = Residuals(*numbers)
    D = np.ascontiguousarray(D, np.float64)
    weights = np.ascontiguousarray(weights, np.float64)
    if KERNELS.module is None:
        return sums_of_columns_numpy(table, entries, D, weights, with_gram)
    width = D.shape[1]
    size_of_gram = n_columns if with_gram else 0
    totals = np.zeros(3)
    offsets = np.zeros(n_columns)
    products = np.zeros((size_of_gram, size_of_gram))
    equations = np.zeros((n_columns, width * (width + 1) // 2))
    right = np.zeros((n_columns, width))
    KERNELS.module.sums_of_columns(
        table.indptr,
        table.columns,
        *numbers,
        D,
        weights,
        totals,
        offsets,
        products,
        equations,
        right,
    )
    squares, product, size = totals.tolist()
    found = products if with_gram else None
    return EntrySums(squares, product, size, offsets, found, equations, right)


def sums_of_columns_numpy(
    table: SparseRows,
    entries: Residuals,
    D: Array,
    weights: Array,
    with_gram: bool,
) -> EntrySums:
    """Multiply sparse matrices, with the pairs of some rows of D at a time."""
    w = weights[table.rows]
    g = w * entries.g
    found = None
    if with_gram:
        found = gram_of_rows_numpy(table, np.sqrt(w) * entries.g)
    of_weights = scipy.sparse.csr_array((w, table.columns, table.indptr), shape=table.shape)
    x = w * entries.x
    of_numbers = scipy.sparse.csr_array((x, table.columns, table.indptr), shape=table.shape)
    n_pairs = D.shape[1] * (D.shape[1] + 1) // 2
    equations = np.zeros((table.shape[1], n_pairs))
    height = max(GATHERED_ELEMENTS // max(n_pairs, 1), 1)
    for start in range(0, len(D), height):
        pairs = products_of_pairs(D[start : start + height])
        equations += of_weights[start : start + height].T @ pairs
    return EntrySums(
        float(np.vdot(g, entries.g)),
        float(np.vdot(g, entries.r)),
        float(np.vdot(w * entries.r, entries.r)),
        np.bincount(table.columns, weights=g, minlength=table.shape[1]),
        found,
        equations,
        of_numbers.T @ D,
    )


def coordinate_passes(H: Array, target: Array, B: Array, passes: int) -> Array:
    """Return columns that lower b'H b / 2 - target'b over b >= 0, after passes over coordinates.

    Parameters
    ----------
    H : ndarray of shape (rank, rank, 1) or (rank, rank, n_columns)
        One matrix for all columns, or one for each.
    target : ndarray of shape (rank, n_columns)
    B : ndarray of shape (rank, n_columns)
        Where to begin, not negative.
    passes : int

    Returns
    -------
    ndarray of shape (rank, n_columns)
    """
    rank, n_columns = B.shape
    squares = ((rank, rank, 1), (rank, rank, n_columns))
    if H.shape not in squares or target.shape != B.shape:
        raise ValueError(
            f"{n_columns} columns of rank {rank} need H of shape {squares[0]} or {squares[1]} and "
            f"as many targets; got {H.shape} and {target.shape}."
        )
    dtype = np.result_type(H, target, B, np.float32)
    if KERNELS.module is None or not B.size:
        return coordinate_passes_numpy(H, target, B, passes)
    out = np.array(B, dtype, order="C")
    KERNELS.module.coordinate_passes(
        np.ascontiguousarray(H, dtype),
        np.ascontiguousarray(target, dtype),
        passes,
        COORDINATE_NOISE * float(np.finfo(dtype).eps),
        smallest_curvature(dtype),
        out,
    )
    return out


def coordinate_passes_numpy(H: Array, target: Array, B: Array, passes: int) -> Array:
    """Lower one coordinate after the other, in all columns at once."""
    B = B.copy()
    diagonals = np.einsum("iin->in", H)
    curvatures = np.maximum(diagonals, smallest_curvature(H.dtype))
    noise = COORDINATE_NOISE * np.finfo(H.dtype).eps * np.abs(target)
    for _ in range(passes):
        for i in range(len(B)):
            if H.shape[2] == 1:
                gradient = H[i, :, 0] @ B
            else:
                gradient = np.einsum("kn,kn->n", H[i], B)
            gradient -= target[i]
            gradient[np.abs(gradient) <= noise[i]] = 0
            gradient /= curvatures[i]
            np.maximum(B[i] - gradient, 0, out=B[i])
    return B


@frozen
class ModelSteps:
    """Steps s of columns (rank x columns) with -gradient's, the decrease promised, and s'H s."""

    step: Array
    promise: Array
    curvature: Array


def model_steps(sums: Array, gradient: Array, B: Array, passes: int) -> ModelSteps:
    """Return steps that lower gradient's + s'H s / 2 over b + s >= 0, by passes over coordinates.

    Parameters
    ----------
    sums : ndarray of shape (rank (rank + 1) / 2, n_columns)
        Upper triangles of H, row by row: sums of `products_of_pairs`.
    gradient : ndarray of shape (rank, n_columns)
    B : ndarray of shape (rank, n_columns)
        Where to begin, not negative.
    passes : int

    Returns
    -------
    ModelSteps
    """
    rank, n_columns = B.shape
    shape = (rank * (rank + 1) // 2, n_columns)
    if sums.shape != shape or gradient.shape != B.shape:
        raise ValueError(
            f"{n_columns} columns of rank {rank} need sums of shape {shape} and as many gradients; "
            f"got {sums.shape} and {gradient.shape}."
        )
    dtype = np.result_type(sums, gradient, B, np.float32)
    if KERNELS.module is None or not B.size:
        return model_steps_numpy(sums, gradient, B, passes)
    step = np.array(B, dtype, order="C")
    promise = np.empty(n_columns, dtype)
    curvature = np.empty(n_columns, dtype)
    KERNELS.module.model_steps(
        np.ascontiguousarray(sums, dtype),
        np.ascontiguousarray(gradient, dtype),
        passes,
        COORDINATE_NOISE * float(np.finfo(dtype).eps),
        smallest_curvature(dtype),
        step,
        promise,
        curvature,
    )
    return ModelSteps(step, promise, curvature)


def model_steps_numpy(sums: Array, gradient: Array, B: Array, passes: int) -> ModelSteps:
    """Put the matrices together and pass over coordinates in all columns at once."""
    H = square_of(sums, len(B))
    target = np.einsum("kln,ln->kn", H, B) - gradient
    step = coordinate_passes_numpy(H, target, B, passes) - B
    promise = -np.einsum("kn,kn->n", step, gradient)
    return ModelSteps(step, promise, np.einsum("kn,kln,ln->n", step, H, step))


def products_of_pairs(D: Array) -> Array:
    """Return the products of all pairs of columns i <= j of D, row by row of a square."""
    first, second = np.triu_indices(D.shape[1])
    return D[:, first] * D[:, second]


def square_of(sums: Array, rank: int) -> Array:
    """Return symmetric matrices (rank x rank x columns) of upper triangles (pairs x columns)."""
    places = np.zeros((rank, rank), int)
    first, second = np.triu_indices(rank)
    places[first, second] = np.arange(len(first))
    places[second, first] = np.arange(len(first))
    return sums[places]


def smallest_curvature(dtype: Any) -> float:
    """Return the curvature of a flat coordinate.

    The coordinate then falls to zero by its gradient, or stays if that is zero.
    """
    return float(np.sqrt(np.finfo(dtype).tiny))


def _selected(table: SparseRows, weights: Array, chosen: Array) -> tuple[SparseRows, Array]:
    """Return some rows of a table and the weights of their entries."""
    counts = np.diff(table.indptr)[chosen]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    places = np.repeat(table.indptr[chosen] - indptr[:-1], counts) + np.arange(indptr[-1])
    rows = SparseRows(indptr, table.columns[places], (len(chosen), table.shape[1]))
    return rows, weights[places]


def _checked(name: str, A: Array, length: int, dtype: Any) -> Array:
    """Return a contiguous matrix of a type; raise if it has another number of rows."""
    if A.ndim != 2 or len(A) != length:
        raise ValueError(f"{name} must have {length} rows; its shape is {A.shape}.")
    return np.ascontiguousarray(A, dtype)


def _padded(A: Array) -> Array:
    """Return a matrix with columns of zeros, so that its rows are whole vectors of numbers."""
    step = KERNELS.module.PADDING // A.itemsize
    width = max(-(-A.shape[1] // step), 1) * step
    if width == A.shape[1]:
        return A
    out = np.zeros((len(A), width), A.dtype)
    out[:, : A.shape[1]] = A
    return out
