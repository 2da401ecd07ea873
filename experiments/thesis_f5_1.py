"""White's thesis (2014), figure 5.1: does the norm of codes prefer whole rows of zeros, or as many zeros anywhere?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments._runner import Cell, Experiment, Plan, Record
from experiments._views import markdown, results, rounded, verdicts

ROWS, COLUMNS = 50, 30
BLOCKS, MATRICES = 10, 100  # 1000 matrices in all, as in the thesis
POWERS: dict[str, float] = {"l0": 0, "l1": 1, "l2": 2, "l10": 10, "l_inf": np.inf}
SHOWN = (0, 1, 2, 4, 8, 12, 16, 25, 40, 49)
PRINTED = {
    "l0": "never below 1",
    "l1": "never below 1",
    "l2": "below 1 after 12 rows",
    "l10": "below 1 after 4 rows",
}


def norm(A: np.ndarray, p: float) -> np.ndarray:
    """Return sum over rows of the p-norm of the row, for a stack of matrices; p = 0 counts."""
    lengths = np.count_nonzero(A, axis=2) if p == 0 else np.linalg.norm(A, p, axis=2)
    return lengths.sum(axis=1)


class Figure51(Experiment):
    """Each cell is a block of random matrices, zeroed row by row, and entry by entry in a random order."""

    title = "block norms of matrices with zeroed rows and zeroed entries (White 2014, figure 5.1)"

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [{"block": i, "matrices": MATRICES} for i in range(plan.n_splits(BLOCKS))]

    def run(self, cell: Cell) -> dict[str, Any]:
        rng = np.random.default_rng(cell["block"])
        A = rng.standard_normal((cell["matrices"], ROWS, COLUMNS))
        order = np.argsort(rng.random((cell["matrices"], ROWS * COLUMNS)), axis=1).reshape(A.shape)
        found: dict[str, dict[str, list[float]]] = {
            name: {"rows": [], "entries": []} for name in POWERS
        }
        for k in range(ROWS):
            zeroed = {
                "rows": np.where(np.arange(ROWS)[:, None] < k, 0, A),
                "entries": np.where(order < k * COLUMNS, 0, A),
            }
            for name, p in POWERS.items():
                for kind, B in zeroed.items():
                    found[name][kind].append(float(norm(B, p).mean()))
        return rounded(found)

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        blocks, lines = results(done), []
        for name in POWERS:
            values = {
                kind: np.mean([block[name][kind] for block in blocks], axis=0)
                for kind in ("rows", "entries")
            }
            spread = np.std(
                [np.divide(b[name]["rows"], b[name]["entries"]) for b in blocks], axis=0, ddof=1
            )
            lines.append(
                rounded(
                    {
                        "norm": name,
                        "printed": PRINTED.get(name),
                        "matrices": len(blocks) * MATRICES,
                        "ratio": list(values["rows"] / values["entries"]),
                        "standard_error": list(spread / np.sqrt(len(blocks))),
                        "entries": list(values["entries"] / values["entries"][0]),
                    }
                )
            )
        return lines

    def report(self, summary: list[dict[str, Any]]) -> str:
        head = ["norm", "printed", *(f"{k} rows" for k in SHOWN)]
        ratios = [
            [row["norm"], row["printed"] or "-", *(f"{row['ratio'][k]:.3f}" for k in SHOWN)]
            for row in summary
        ]
        sparse = [[row["norm"], *(f"{row['entries'][k]:.3f}" for k in SHOWN)] for row in summary]
        count = summary[0]["matrices"]
        return "\n\n".join(
            [
                f"Means over {count} matrices of {ROWS} x {COLUMNS} standard normal entries. The "
                "norm is the sum over rows of the p-norm of a row, which the thesis writes with "
                "subscripts p, 1; l0 counts entries.",
                "## (a) Norm with k rows zeroed over norm with as many entries zeroed anywhere\n\n"
                + markdown(head, ratios),
                "## (b) Norm with 30 k entries zeroed anywhere, over that of the whole matrix\n\n"
                + markdown(["norm", *(f"{30 * k} zeros" for k in SHOWN)], sparse),
                verdicts(self._verdicts(summary)),
            ]
        )

    def _verdicts(self, summary: list[dict[str, Any]]) -> list[str]:
        said = []
        for row in summary:
            ratio, error = np.array(row["ratio"][1:]), np.array(row["standard_error"][1:])
            below = np.flatnonzero(ratio + 2 * error < 1)
            first = f"below 1 from k = {below[0] + 1} on" if len(below) else "never below 1"
            far = f"farthest from 1: {ratio[np.abs(ratio - 1).argmax()]:.3f}"
            said.append(f"{row['norm']}: {first} ({far}). Printed: {row['printed'] or 'nothing'}.")
        one, none = (next(row for row in summary if row["norm"] == name) for name in ("l1", "l0"))
        apart = np.abs(np.subtract(one["entries"], none["entries"])).max()
        said.append(f"(b) l1 follows l0 within {apart:.3f} at every number of zeros, as printed.")
        half = ROWS // 2 + 1
        two = next(row for row in summary if row["norm"] == "l2")
        exact = np.abs(np.array(two["ratio"][:half]) - np.sqrt(1 - np.arange(half) / ROWS)).max()
        said.append(
            "(a) for l2 follows from its formula: k rows leave (50 - k) sqrt(30), as many entries "
            "anywhere about 50 sqrt(30 (1 - k/50)), whose ratio is sqrt(1 - k/50), below 1 from "
            f"the first row on; the means up to 25 rows differ from it by at most {exact:.3f}. "
            "Thresholds of 12 and 4 rows, as printed, are "
            f"{'not ' if two['ratio'][1] < 1 else ''}found. What the thesis concludes, p >= 2 for "
            "subspaces and p = 1 for sparsity, needs no threshold."
        )
        return said

    def draw(self, summary: list[dict[str, Any]], folder: Path) -> list[Path]:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for row in summary:
            left.plot(row["ratio"], label=row["norm"])
            right.plot(row["entries"], label=row["norm"])
        left.axhline(1, color="0.8", zorder=0)
        left.set(
            xlabel="zeroed rows",
            ylabel="norm over that with zeros anywhere",
            title="whole rows or anywhere?",
        )
        right.set(
            xlabel="zeroed entries / 30",
            ylabel="norm over that of the whole matrix",
            title="zeros anywhere",
        )
        right.legend(frameon=False)
        path = folder / "thesis-f5.1.png"
        figure.savefig(path, dpi=110)
        return [path]


EXPERIMENT = Figure51()
