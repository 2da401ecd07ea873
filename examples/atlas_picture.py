"""The atlas in one figure: classical algorithms as factor models, and how exactly they agree.

Rows are algorithms, grouped by the constraints on the factors; the bar is the difference between
the factor model and the reference, computed here on random data.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import atlas

SEEDS = 3
COLORS = {"free factors": "tab:blue", "penalized factors": "tab:orange", "hard codes": "tab:green"}


def kind(row: atlas.Row) -> str:
    """Return the constraints on the factors."""
    if "OneHot" in row.stated:
        return "hard codes"
    return "free factors" if "on_codes=Free()" in row.stated else "penalized factors"


def example() -> tuple[str, Any]:
    """Compute both sides of every row."""
    import matplotlib.pyplot as plt

    rows = sorted(atlas.table().rows, key=lambda row: list(COLORS).index(kind(row)), reverse=True)
    differences = [max(row.difference(atlas.Sample(seed)) for seed in range(SEEDS)) for row in rows]
    figure, axes = plt.subplots(figsize=(9, 11), layout="constrained")
    axes.barh(
        [row.name for row in rows],
        np.maximum(differences, 1e-16),
        color=[COLORS[kind(row)] for row in rows],
    )
    for place, (row, difference) in enumerate(zip(rows, differences, strict=True)):
        axes.text(
            2 * max(difference, 1e-16),
            place,
            f"{row.seen}  =  {row.equals}",
            va="center",
            fontsize=7,
        )
    axes.set(
        xscale="log", xlim=(1e-16, 1), xlabel=f"largest relative difference over {SEEDS} samples"
    )
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
    axes.legend(handles, COLORS, loc="lower right", frameon=False)
    worst = rows[int(np.argmax(differences))]
    return (
        f"{len(rows)} algorithms, largest difference {max(differences):.1e} ({worst.name}).",
        figure,
    )


if __name__ == "__main__":
    show(__file__, example)
