"""Tables in files, read by blocks of rows, next to the same fits in memory: CPU and memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._peers import MB, QUICK, cpu, grown, in_fresh_process, table, versions
from benchmarks.scale import COLUMNS, TOL, draw
from regfactor import BlockTable, ConvexSubspace

# a quarter of 10^6 x 500 with 2 x 10^7 entries and of 5 x 10^5 x 100
SPARSE_ROWS, DENSE_ROWS, DENSE_COLUMNS = (20_000, 20_000, 100) if QUICK else (250_000, 125_000, 100)
N_PIECES, DENSE_RANK, DENSE_NOISE = 10, 5, 0.5


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
        X, alpha = draw(SPARSE_ROWS, "even")
        height = SPARSE_ROWS // N_PIECES
        paths = [Path(folder) / f"{k}.npz" for k in range(N_PIECES)]
        for k, path in enumerate(paths):
            piece = X[k * height : (k + 1) * height]
            scipy.sparse.save_npz(path, piece, compressed=False)
        name = f"sparse {SPARSE_ROWS:,} x {COLUMNS}, {X.nnz:,} entries"
        entries = X.nnz
        del X
        found = in_fresh_process(of_pieces, paths, alpha)
        rows.append(row(f"{name}, {N_PIECES} blocks on disk", found, entries))
        rows.append(row(f"{name}, in memory", in_fresh_process(of_memory, paths, alpha), entries))
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
