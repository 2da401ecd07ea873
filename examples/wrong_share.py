"""The effect of a wrong stated share, and how to detect sensitivity to it without labels.

Two groups, of which the second makes up 30 % of the rows, and four labels. The share is stated
correctly, and with increasing error. `constraint_sensitivity` refits with the stated share moved
and counts the predictions that change: it cannot detect that a share is wrong, but it shows how
much depends on it, and needs no label.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ExpectationSVC
from regfactor.constraints import class_balance
from regfactor.model_selection.sensitivity import constraint_sensitivity

ROWS, COLUMNS, TRUE, DRAWS = 400, 10, 0.3, 4
STATED = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
TABLES = {"groups well apart": 4.0, "groups that overlap": 2.0}


def draw(apart: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, kinds, and the kinds of which all but four are hidden."""
    rng = np.random.default_rng(seed)
    y = (rng.random(ROWS) < TRUE).astype(int)
    X = rng.normal(size=(ROWS, COLUMNS))
    X[:, 0] += apart * y
    seen = np.full(ROWS, -1)
    for c in (0, 1):
        seen[rng.permutation(np.flatnonzero(y == c))[:2]] = c
    return X, y, seen


def accuracy(apart: float, share: float, seed: int) -> float:
    """Return the accuracy on rows without a label, with a stated share of the second kind."""
    X, y, seen = draw(apart, seed)
    model = ExpectationSVC(class_balance({0: 1 - share, 1: share}), C=None).fit(X, seen)
    return float((model.transduction_ == y)[seen < 0].mean())


def example() -> tuple[str, Any]:
    """Draw accuracy against the stated share, and how many predictions move when it is moved."""
    import matplotlib.pyplot as plt

    warnings.filterwarnings("ignore", message=".*stated expectations do not hold")
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.8), layout="constrained")
    lines, shifts = [], (-0.2, -0.1, 0.1, 0.2)
    for place, (name, apart) in enumerate(TABLES.items()):
        found = np.array([[accuracy(apart, r, seed) for seed in range(DRAWS)] for r in STATED])
        axes[0].plot(STATED, found, color=f"C{place}", alpha=0.2)
        axes[0].plot(STATED, found.mean(axis=1), "o-", color=f"C{place}", label=name)
        X, _, seen = draw(apart, 0)
        model = ExpectationSVC(class_balance({0: 1 - TRUE, 1: TRUE}), C=None)
        result = constraint_sensitivity(model, X, seen, shifts)
        moved = np.array(sorted([(TRUE, 0.0), *((1 - s.tried, s.moved) for s in result.shifts)]))
        axes[1].plot(*moved.T, "o-", color=f"C{place}", label=name)
        right, wrong = found[STATED == TRUE].mean(), found[STATED == 0.5].mean()
        lines.append(
            f"{name}: accuracy {right:.3f} with the true share of {TRUE:g}, {wrong:.3f} with 0.5 "
            f"stated.\n  constraint_sensitivity, no label needed: {result.verdict}"
        )
    X, y, seen = draw(TABLES["groups that overlap"], 0)
    models = {
        r: ExpectationSVC(class_balance({0: 1 - r, 1: r}), C=None).fit(X, seen) for r in (TRUE, 0.6)
    }
    for r, model in models.items():
        f = model.decision_function(X)
        axes[2].hist(
            f, bins=40, histtype="step", label=f"stated {r:g}: {np.mean(f > 0):.0%} positive"
        )
    axes[2].axvline(0, color="black", linewidth=0.8)
    axes[0].axvline(TRUE, color="black", linewidth=0.8)
    axes[0].set(
        xlabel="stated share of the second kind (true: line)",
        title="accuracy on rows without a label",
    )
    axes[1].set(
        xlabel="share tried instead of 0.3", title="predictions that change", ylim=(0, None)
    )
    axes[2].set(xlabel="f", title="overlapping groups: where f puts the rows")
    axes[2].set_ylim(0, 1.35 * axes[2].get_ylim()[1])
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
