"""Tables in files, read by blocks of rows, next to the same fits in memory: CPU and memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._peers import MB, QUICK, cpu, grown, in_fresh_process, table, versions
from benchmarks.scale import (
    ABOVE_NOISE,
    BLOCK,
    COLUMNS,
    NOISE,
    PER_ROW,
    RANK,
    TOL,
    observed_columns,
    popularity,
)
from regfactor import BlockTable, ConvexSubspace

# of sparse tables with 10^5 to 10^8 entries; that of 10^7 is also fitted in memory
SPARSE_ROWS = (5_000, 50_000, 500_000, 5_000_000)
IN_MEMORY = 500_000
DENSE_ROWS, DENSE_COLUMNS = 500_000, 100
if QUICK:
    SPARSE_ROWS = (5_000, 20_000)
    IN_MEMORY = 20_000
    DENSE_ROWS = 20_000
PIECE_ROWS, DENSE_RANK, DENSE_NOISE = 50_000, 5, 0.5


def piece(n: int, V: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return some rows of U V' + noise at their observed entries, and the Gram matrix of the noise."""
    # one drawn pattern, under other columns in every stretch of rows
    pattern = observed_columns(np.full(BLOCK, PER_ROW), popularity("even"), rng)
    starts = range(0, n, BLOCK)
    parts = [rng.permutation(COLUMNS)[pattern].reshape(-1, PER_ROW) for _ in starts]
    columns = np.sort(np.concatenate(parts)[:n], axis=1).ravel().astype(np.int32)
    codes = rng.normal(size=(n, RANK))
    rows = np.repeat(np.arange(n), PER_ROW)
    values = np.empty(len(columns))
    for start in range(0, len(columns), BLOCK * PER_ROW):
        at = slice(start, start + BLOCK * PER_ROW)
        values[at] = np.einsum("ek,ek->e", codes[rows[at]], V[columns[at]])
    noise = NOISE * rng.normal(size=len(columns))
    offsets = np.arange(0, len(columns) + 1, PER_ROW)
    gram = scipy.sparse.csr_array((noise, columns, offsets), (n, COLUMNS))
    table = scipy.sparse.csr_array((values + noise, columns, offsets), (n, COLUMNS))
    return table, (gram.T @ gram).toarray()


def write(folder: Path, n: int) -> tuple[list[Path], float]:
    """Write a sparse table piece by piece; return the files and alpha. For a fresh process."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(COLUMNS, RANK)) / np.sqrt(RANK)
    paths = []
    noise = np.zeros((COLUMNS, COLUMNS))
    for start in range(0, n, PIECE_ROWS):
        rows, own = piece(min(PIECE_ROWS, n - start), V, rng)
        noise += own
        paths.append(folder / f"{n}-{start}.npz")
        scipy.sparse.save_npz(paths[-1], rows, compressed=False)
    return paths, ABOVE_NOISE * float(np.sqrt(np.linalg.eigvalsh(noise)[-1]))


def fit(source: Any, alpha: float) -> tuple[float, float, float, int]:
    """Return CPU seconds, memory, relative gap and iterations of a fit."""
    first = ConvexSubspace(alpha=0.1)
    first.fit(np.eye(5) + np.arange(5))  # what is loaded once
    first.fit(BlockTable.of(np.eye(5) + np.arange(5)))
    model = ConvexSubspace(alpha=alpha, fit_intercept=False, scale=False, tol=TOL)
    memory, (seconds, _) = grown(lambda: cpu(lambda: model.fit(source)))
    return seconds, memory, model.relative_gap_, model.n_iter_


def of_pieces(paths: list[Path], alpha: float) -> tuple[float, float, float, int]:
    """Fit sparse pieces in files."""
    return fit(BlockTable.of([LoadedPiece(path) for path in paths]), alpha)


class LoadedPiece:
    """A sparse matrix in a file, which is read when rows are taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shape = tuple(np.load(path)["shape"].tolist())

    def __getitem__(self, rows: slice) -> Any:
        return scipy.sparse.csr_array(scipy.sparse.load_npz(self.path))[rows]


def of_memory(paths: list[Path], alpha: float) -> tuple[float, float, float, int]:
    """Fit the same table in memory."""
    pieces = [scipy.sparse.csr_array(scipy.sparse.load_npz(path)) for path in paths]
    return fit(scipy.sparse.csr_array(scipy.sparse.vstack(pieces)), alpha)


def of_map(path: Path, alpha: float) -> tuple[float, float, float, int]:
    """Fit a complete table in a .npy file."""
    return fit(BlockTable.of(path), alpha)


def of_array(path: Path, alpha: float) -> tuple[float, float, float, int]:
    """Fit the same table in memory."""
    return fit(np.load(path), alpha)


def row(name: str, found: tuple[float, float, float, int], entries: int) -> list[str]:
    seconds, memory, gap, iterations = found
    per_entry = memory * MB / entries
    return [
        name,
        f"{seconds:.2f}",
        f"{1e6 * seconds / entries:.2f}",
        f"{memory:.0f}",
        f"{per_entry:.1f}",
        f"{gap:.0e}",
        f"{iterations}",
    ]


def main() -> str:
    """Write both tables to files, fit them in fresh processes and return the table."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in SPARSE_ROWS:
            paths, alpha = in_fresh_process(write, Path(folder), n)
            entries = n * PER_ROW
            name = f"sparse {n:,} x {COLUMNS}, {entries:,} entries"
            found = in_fresh_process(of_pieces, paths, alpha)
            blocks = f"{name}, {len(paths)} files"
            rows.append(row(blocks, found, entries))
            if n == IN_MEMORY:
                found = in_fresh_process(of_memory, paths, alpha)
                rows.append(row(f"{name}, in memory", found, entries))
            for path in paths:
                path.unlink()
        rng = np.random.default_rng(0)
        V = rng.normal(size=(DENSE_RANK, DENSE_COLUMNS))
        path = Path(folder) / "dense.npy"
        D = rng.normal(size=(DENSE_ROWS, DENSE_RANK)) @ V
        D += DENSE_NOISE * rng.normal(size=D.shape)
        np.save(path, D)
        del D
        alpha = 1.5 * DENSE_NOISE * (np.sqrt(DENSE_ROWS) + np.sqrt(DENSE_COLUMNS))
        entries = DENSE_ROWS * DENSE_COLUMNS
        name = f"complete {DENSE_ROWS:,} x {DENSE_COLUMNS}"
        rows.append(row(f"{name}, .npy file", in_fresh_process(of_map, path, alpha), entries))
        rows.append(row(f"{name}, in memory", in_fresh_process(of_array, path, alpha), entries))
    lines = [
        "# Tables in files",
        "",
        f"`ConvexSubspace` to a relative gap of {TOL:g}, strength 1.5 times the norm of the noise. "
        "CPU seconds on one thread; memory is the growth of the resident peak of a fresh process "
        f"during the fit, so that a table in memory is not counted. {versions()}.",
        "",
        *table("table | CPU s | us per entry | MB | bytes per entry | relative gap | passes", rows),
    ]
    return "\n".join(lines) + "\n"
