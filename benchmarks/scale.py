"""How CPU and memory grow with the rows of a sparse table, evenly and unevenly observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from benchmarks._peers import QUICK, cpu, grown, in_fresh_process, table, versions
from regfactor import ConvexSubspace, solve
from regfactor.losses import Squared
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data

PLOT = Path(__file__).parent / "results" / "scale.png"
COLUMNS, PER_ROW, RANK, NOISE, TOL = 500, 20, 10, 0.3, 1e-3
ABOVE_NOISE = (
    1.5  # alpha in units of the largest singular value of the noise on the observed entries
)
ROWS = {"even": (10**3, 10**4, 10**5, 10**6), "uneven": (10**3, 10**4, 10**5)}
LARGEST = 10**4 if QUICK else 10**6
# uneven: entries of a row ~ 1/place^0.8, so are columns
FEWEST, MOST, ROW_SLOPE, COLUMN_SLOPE = (
    3,
    400,
    0.8,
    0.8,
)
BLOCK = 5000  # rows drawn at once
# CPU seconds that a first version took for 10^6 rows, and their rank
FIRST_VERSION, FIRST_RANK = (
    76.0,
    5,
)


def row_counts(n: int, pattern: str) -> np.ndarray:
    """Return how many entries each row has: PER_ROW in the mean, in the uneven pattern by Zipf's law within limits."""
    if pattern == "even":
        return np.full(n, PER_ROW)
    law = (1.0 + np.arange(n)) ** -ROW_SLOPE

    def counts(size: float) -> np.ndarray:
        return np.clip(size * law, FEWEST, MOST)

    low, high = 0.0, MOST / law[-1]
    for _ in range(60):  # bisection for the size at which the counts add up
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() < PER_ROW * n else (low, middle)
    return np.random.default_rng(n).permutation(np.rint(counts(high)).astype(int))


def popularity(pattern: str) -> np.ndarray:
    """Return how likely each column is to be observed, up to a factor."""
    return np.ones(COLUMNS) if pattern == "even" else (1.0 + np.arange(COLUMNS)) ** -COLUMN_SLOPE


def observed_columns(
    counts: np.ndarray, chances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return distinct columns for each row, one row after the other.

    The columns whose exponential clocks ring first are a sample without replacement.
    """
    clocks = rng.standard_exponential((len(counts), COLUMNS), np.float32) / chances.astype(
        np.float32
    )
    most = int(counts.max())
    first = (
        np.argpartition(clocks, most - 1, axis=1)[:, :most]
        if most < COLUMNS
        else np.argsort(clocks, axis=1)
    )
    order = np.argsort(np.take_along_axis(clocks, first, axis=1), axis=1)
    ringing = np.take_along_axis(first, order, axis=1)
    ringing[np.arange(most) >= counts[:, None]] = COLUMNS  # the last of those too late
    ringing.sort(axis=1)
    return ringing[ringing < COLUMNS].astype(np.int32)


def draw(n: int, pattern: str, rank: int = RANK) -> tuple[scipy.sparse.csr_array, float]:
    """Return a table U V'/sqrt(rank) + noise at its observed entries, and alpha."""
    rng = np.random.default_rng(0)
    counts, chances = row_counts(n, pattern), popularity(pattern)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices, clean = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    V = rng.normal(size=(COLUMNS, rank)) / np.sqrt(rank)
    for start in range(0, n, BLOCK):
        block = slice(start, min(start + BLOCK, n))
        entries = slice(indptr[block.start], indptr[block.stop])
        indices[entries] = observed_columns(counts[block], chances, rng)
        predictions = rng.normal(size=(block.stop - block.start, rank)) @ V.T
        clean[entries] = predictions[
            np.repeat(np.arange(len(predictions)), counts[block]), indices[entries]
        ]
    noise = scipy.sparse.csr_array(
        (NOISE * rng.normal(size=len(clean)), indices, indptr), (n, COLUMNS)
    )
    strongest = scipy.sparse.linalg.svds(noise, k=1, return_singular_vectors=False, rng=rng)[0]
    clean += noise.data
    return scipy.sparse.csr_array((clean, indices, indptr), (n, COLUMNS)), ABOVE_NOISE * float(
        strongest
    )


def certified(X: Any, alpha: float) -> Any:
    """Solve the problem."""
    return solve(Convex(Data.of_sparse(X, Squared()), Trace(), alpha), tol=TOL)


def fitted(X: Any, alpha: float) -> ConvexSubspace:
    """Fit the estimator."""
    return ConvexSubspace(alpha=alpha, fit_intercept=False, scale=False, tol=TOL).fit(X)


def measured(n: int, pattern: str, rank: int = RANK) -> dict[str, Any]:
    """Return what a solution took and is; for a fresh process."""
    certified(*draw(1000, pattern))  # what is loaded once is not the problem's
    X, alpha = draw(n, pattern, rank)
    memory, (seconds, solution) = grown(lambda: cpu(lambda: certified(X, alpha)))
    return {
        "entries": X.nnz,
        "alpha": alpha,
        "cpu": seconds,
        "memory": memory,
        "gap": solution.relative_gap,
        "iterations": solution.n_iter,
        "rank": solution.point.factors.rank,
        "proof": "proven" if solution.rigorous else "numerical",
        "solver": solution.solver,
    }


def measured_estimator(n: int, pattern: str) -> dict[str, float]:
    """Return what the estimator takes; for a fresh process."""
    fitted(*draw(1000, pattern))
    X, alpha = draw(n, pattern)
    memory, (seconds, _) = grown(lambda: cpu(lambda: fitted(X, alpha)))
    return {"cpu": seconds, "memory": memory}


def series(pattern: str) -> list[dict[str, Any]]:
    """Return the measurements of all sizes of a pattern, each size and route in a fresh process."""
    rows = [n for n in ROWS[pattern] if n <= LARGEST]
    return [
        {
            "n": n,
            **in_fresh_process(measured, n, pattern),
            "estimator": in_fresh_process(measured_estimator, n, pattern),
        }
        for n in rows
    ]


def slope(runs: list[dict[str, Any]]) -> float:
    """Return the power of the number of entries by which CPU grows."""
    return float(
        np.polyfit(
            np.log([run["entries"] for run in runs]), np.log([run["cpu"] for run in runs]), 1
        )[0]
    )


def row(run: dict[str, Any]) -> list[str]:
    estimator = run["estimator"]
    return [
        f"{run['n']:,}",
        f"{run['entries']:,}",
        f"{run['alpha']:.1f}",
        f"{run['cpu']:.2f} s",
        f"{1e6 * run['cpu'] / run['entries']:.2f} us",
        f"{run['memory']:.0f} MB",
        f"{run['gap']:.1e} {run['proof']}",
        f"{run['solver']}, {run['iterations']}, {run['rank']}",
        f"{estimator['cpu']:.2f} s",
        f"{estimator['memory']:.0f} MB",
    ]


def section(title: str, runs: list[dict[str, Any]]) -> list[str]:
    head = (
        "rows | entries | alpha | CPU | CPU per entry | memory | relative gap | solver, "
        "iterations, rank | estimator: CPU | memory"
    )
    return [
        f"## {title}",
        "",
        *table(head, [row(run) for run in runs]),
        "",
        f"CPU grows like entries^{slope(runs):.2f}.",
    ]


def plot(all_runs: dict[str, list[dict[str, Any]]]) -> None:
    """Draw CPU and memory over the number of entries."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, key, label in zip(
        axes, ("cpu", "memory"), ("CPU seconds", "memory beyond the data, MB"), strict=True
    ):
        for (pattern, runs), marker in zip(all_runs.items(), "os", strict=True):
            ax.loglog(
                [run["entries"] for run in runs],
                [run[key] for run in runs],
                marker=marker,
                label=pattern,
            )
        ax.set(xlabel="observed entries", ylabel=label)
        ax.grid(alpha=0.3)
    first, last = all_runs["even"][0], all_runs["even"][-1]
    entries = np.array([first["entries"], last["entries"]])
    axes[0].loglog(
        entries, last["cpu"] * entries / entries[-1], "k:", linewidth=1, label="proportional"
    )
    axes[0].legend()
    for ax in axes:
        ax.minorticks_off()
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=120)
    pyplot.close(figure)


def last_line(run: dict[str, Any]) -> list[str]:
    """Say how the largest size stands to its goals.

    The first version was measured at another rank.
    """
    if run["n"] < 10**6:
        return []
    alike = in_fresh_process(measured, run["n"], "even", FIRST_RANK)
    return [
        "",
        f"10^6 rows: {run['memory']:.0f} MB, the goal being 2000 MB. At rank {FIRST_RANK}, where a "
        f"first version took {FIRST_VERSION:.0f} CPU s, it is {alike['cpu']:.0f} s and "
        f"{alike['memory']:.0f} MB.",
    ]


def main() -> str:
    """Measure both patterns, draw the plot and return the tables."""
    runs = {pattern: series(pattern) for pattern in ROWS}
    plot(runs)
    uneven = (
        f"up to {MOST} entries in a row and columns of unequal popularity, both after Zipf's law"
    )
    lines = [
        "# Growth with the rows",
        "",
        f"{COLUMNS} columns, rank {RANK}, noise {NOISE}, to a relative gap of {TOL:g}; alpha = "
        f"{ABOVE_NOISE} x the largest singular value of the noise on the observed entries. One "
        "thread; each number from a fresh process; memory is the growth of the resident peak "
        f"after the data were made. {versions()}.",
        "",
        *section(f"Evenly: {PER_ROW} observed entries in each row", runs["even"]),
        *last_line(runs["even"][-1]),
        "",
        *section(f"Unevenly: {uneven}, {PER_ROW} entries a row in the mean", runs["uneven"]),
        "",
        "![CPU and memory over the number of observed entries](scale.png)",
    ]
    return "\n".join(lines) + "\n"
