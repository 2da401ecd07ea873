"""Matrices in .npz files of numpy and of scipy, as tables."""

from __future__ import annotations

import importlib
import io
import zipfile
from typing import Any

import numpy as np

from regfactor.cli.errors import BadInput, listed
from regfactor.core.params import Array

SPARSE = frozenset({"format", "shape", "data"})  # entries of scipy.sparse.save_npz
MAX_CELLS = 5e7
MAX_UNPACKED = 2**32


def read_arrays(content: bytes, absent: str | None, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return the matrix of an archive as columns x0, x1, ..., its vectors by name, and notes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MAX_UNPACKED:
            raise BadInput(f"{name} unpacks to {size / 2**30:.1f} GB, too much for a table.")
        with np.load(io.BytesIO(content), allow_pickle=False) as loaded:
            arrays = {key: loaded[key] for key in loaded.files}
    except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise BadInput(
            f"{name} is no archive of plain arrays: {str(error).rstrip('.')}."
        ) from error
    if set(arrays) >= SPARSE:
        return _sparse(content, absent, name)
    return _dense(arrays, name)


def _dense(arrays: dict[str, Array], name: str) -> tuple[Any, tuple[str, ...]]:
    tables = {key: a for key, a in arrays.items() if a.ndim == 2}
    own = "X" if "X" in tables else next(iter(tables), None)
    if own is None or (len(tables) > 1 and own != "X"):
        shapes = {key: a.shape for key, a in arrays.items()}
        raise BadInput(
            f"{name} needs one two-dimensional array, called X where there are others; it has "
            f"{shapes}."
        )
    X = tables[own]
    if X.dtype.kind not in "biufUS":
        raise BadInput(
            f"The array {own!r} of {name} holds {X.dtype}; it must hold numbers or strings."
        )
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    vectors = {key: a for key, a in arrays.items() if a.ndim == 1 and len(a) == len(X)}
    others = [f"{key} {a.shape}" for key, a in arrays.items() if key != own and key not in vectors]
    notes = (f"Of {name} only {own} and vectors of its length are read, without {listed(others)}.",)
    pd = importlib.import_module("pandas")
    return pd.DataFrame(columns | vectors), notes if others else ()


def _sparse(content: bytes, absent: str | None, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return a sparse matrix as a table; the user states what entries that are not stored are."""
    sparse = importlib.import_module("scipy.sparse")
    try:
        X = sparse.load_npz(io.BytesIO(content))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        raise BadInput(f"{name} is no sparse matrix: {str(error).rstrip('.')}.") from error
    n_cells = X.shape[0] * X.shape[1]
    if absent not in ("zero", "missing"):
        share = X.nnz / max(n_cells, 1)
        raise BadInput(
            f"{name} holds a sparse matrix with {share:.1%} of its entries stored; the others are "
            "zeros, as in counts of words, or missing, as in ratings: add --absent zero or "
            "--absent missing."
        )
    if n_cells > MAX_CELLS:
        raise BadInput(
            f"{name} holds {X.shape[0]:,} x {X.shape[1]:,} entries, too many for a table; in "
            "Python, ConvexSubspace and others take sparse matrices as they are."
        )
    dense = np.zeros(X.shape)
    if absent == "missing":
        dense = np.full(X.shape, np.nan)
    entries = X.tocoo()
    dense[entries.row, entries.col] = entries.data
    columns = {f"x{j}": dense[:, j] for j in range(X.shape[1])}
    pd = importlib.import_module("pandas")
    return pd.DataFrame(columns), (f"Entries that are not stored were read as {absent}.",)
