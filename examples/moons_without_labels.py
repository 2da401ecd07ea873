"""Two moons without a single label: four statements about regions take the place of labels.

Instead of labeling rows one by one, an expert states: above this line nearly all rows are of one
kind, below that line nearly all of the other. Four such shares, correct within five
points, and the shape of the data between the regions are enough. For comparison: a support vector
machine and LabelSpreading with two labels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ExpectationSVC
from regfactor.constraints import Constraint, region

SEEDS, SHOWN = range(20, 32), 20
REGIONS = {  # name: column, side, border
    "top": (1, 1, 0.6),
    "bottom": (1, -1, -0.1),
    "left": (0, -1, -0.5),
    "right": (0, 1, 1.5),
}


def inside(X: np.ndarray, name: str) -> np.ndarray:
    """Return which rows lie in a region."""
    column, side, border = REGIONS[name]
    return side * X[:, column] > side * border


def statements(X: np.ndarray, y: np.ndarray) -> list[Constraint]:
    """Return the share of the second kind in every region."""
    shares = {name: float(y[inside(X, name)].mean()) for name in REGIONS}
    return [region(inside(X, name), {0: 1 - r, 1: r}, name=name) for name, r in shares.items()]


def accuracies(seed: int) -> tuple[float, float, float]:
    """Return accuracies: four statements, two labels by SVC, two labels by LabelSpreading."""
    X, y = make_moons(200, noise=0.1, random_state=seed)
    seen = np.full(200, -1)
    stated = ExpectationSVC(statements(X, y), C=None, kernel="rbf").fit(X, seen).transduction_
    rng = np.random.default_rng(seed)
    some = np.array([rng.choice(np.flatnonzero(y == c)) for c in (0, 1)])
    seen[some] = y[some]
    supervised = SVC(gamma=15).fit(X[some], y[some]).predict(X)
    spread = LabelSpreading(gamma=30, alpha=0.99, max_iter=2000).fit(X, seen).transduction_
    return tuple(float((guess == y).mean()) for guess in (stated, supervised, spread))


def example() -> tuple[str, Any]:
    """Draw one pair of moons with what is found, and the accuracies of twelve."""
    import matplotlib.pyplot as plt

    X, y = make_moons(200, noise=0.1, random_state=SHOWN)
    model = ExpectationSVC(statements(X, y), C=None, kernel="rbf").fit(X, np.full(200, -1))
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 90)), axis=-1)
    f = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    axes[0].scatter(*X.T, c="gray", s=9)
    for name, (column, side, border) in REGIONS.items():
        line, share = (axes[0].axhline, axes[0].axvline)[1 - column], y[inside(X, name)].mean()
        line(border, color="C0", linewidth=1)
        place = {0: (border + 0.06 * side, 1.4), 1: (-1.5, border + 0.05 * side)}[column]
        axes[0].text(
            *place,
            f"{name}: {share:.0%}",
            color="C0",
            fontsize=9,
            ha={1: "left", -1: "right"}[side] if column == 0 else "left",
            va={1: "bottom", -1: "top"}[side] if column == 1 else "center",
        )
    axes[0].set(title="statements: shares of the red kind", xlim=(-1.6, 2.6), ylim=(-1.1, 1.6))
    axes[1].contourf(
        grid[..., 0],
        grid[..., 1],
        f,
        levels=np.linspace(-1.5, 1.5, 13),
        cmap="coolwarm",
        alpha=0.5,
        extend="both",
    )
    axes[1].contour(grid[..., 0], grid[..., 1], f, levels=[0], colors="black", linewidths=1)
    axes[1].scatter(*X.T, c=np.where(y == 1, "firebrick", "navy"), s=9)
    axes[1].set(title="result: f, and the true kinds", xlim=(-1.6, 2.6), ylim=(-1.1, 1.6))
    found = np.array([accuracies(seed) for seed in SEEDS])
    names = ["no label,\nfour statements", "two labels,\nSVC", "two labels,\nLabelSpreading"]
    axes[2].plot(np.arange(3), found.T, "o", color="gray", alpha=0.4, markersize=4)
    axes[2].plot(
        np.arange(3), found.mean(axis=0), "_", color="C3", markersize=40, markeredgewidth=3
    )
    axes[2].set(
        xticks=range(3),
        xticklabels=names,
        title=f"accuracy, {len(found)} draws and their mean",
        xlim=(-0.5, 2.5),
    )
    text = (
        f"No label, four statements: accuracy {found[:, 0].mean():.3f} over {len(found)} draws "
        f"(worst {found[:, 0].min():.3f}). Two labels: {found[:, 1].mean():.3f} by a support "
        f"vector machine, {found[:, 2].mean():.3f} by LabelSpreading.\nThe statements and "
        f"the results:\n{model.constraint_report_}"
    )
    return text, figure


if __name__ == "__main__":
    show(__file__, example)
