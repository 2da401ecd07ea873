"""Convergence, choice of alpha, codes and components: four displays of one fit.

A table of 300 rows and 40 columns with three groups of rows, noise, and a third of the entries
missing. The objective and its proven lower bound meet; held-out entries choose the strength;
codes show the groups, which the model did not know.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ConvexSubspace
from regfactor.plots import CodesDisplay, ComponentsDisplay, ConvergenceDisplay, PathDisplay

ROWS, COLUMNS = 300, 40
GROUPS = np.array(["north", "south", "west"])


def draw(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The table with NaN where missing, and the group of each row.

    Columns are places along two smooth profiles.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(len(GROUPS), size=ROWS)
    place = np.linspace(0, 1, COLUMNS)
    profiles = np.stack([np.sin(2 * np.pi * place), np.cos(3 * np.pi * place)])
    centers = np.array([[2.5, 0.0], [-1.2, 2.0], [-1.2, -2.0]])
    X = (centers[group] + 0.5 * rng.normal(size=(ROWS, 2))) @ profiles + 0.8 * rng.normal(
        size=(ROWS, COLUMNS)
    )
    return np.where(rng.random(X.shape) < 1 / 3, np.nan, X), GROUPS[group]


def example() -> tuple[str, Any]:
    """Fit once, draw four times."""
    import matplotlib.pyplot as plt

    X, group = draw()
    model = ConvexSubspace(alpha="auto", scale=False, rule="1se", tol=1e-6, random_state=0).fit(X)
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    ConvergenceDisplay.from_estimator(model, ax=axes[0, 0])
    path = PathDisplay.from_estimator(model, ax=axes[0, 1])
    CodesDisplay.from_estimator(model, color=group, ax=axes[1, 0])
    ComponentsDisplay.from_estimator(model, ax=axes[1, 1])
    titles = (
        "solved? the gap closes",
        "how strong? held-out entries decide",
        "rows: groups unknown to the model",
        "components: profiles over the columns",
    )
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, loc="left", fontsize=11, weight="bold")
    lines = [
        str(model.certificate_),
        f"Strength {model.alpha_:.3g} was chosen among {len(path.candidates)}; the lowest held-out "
        f"loss was at {path.best:.3g}. {len(model.components_)} components.",
    ]
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
