"""Do unlabeled rows help? One table where they do, and one where they hurt.

Both tables have two classes, 20 columns, and 16 labels in 600 rows. In the first a class is one
cluster, as the model assumes, and the unlabeled rows show where it lies. In the second each class
is two clusters, and the structure of the unlabeled rows does not separate the classes.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ReverseClassifier
from regfactor.model_selection import compare_with_supervised

ROWS, COLUMNS, LABELS, DRAWS = 600, 20, 16, 30
TABLES = {
    "one cluster per class": ((-1.3, 1.3), 0.0),
    "two clusters per class": ((-1.3, 1.3), 7.0),
}


def draw(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, all classes, and the classes of which most are hidden (-1)."""
    (left, right), apart = TABLES[name]
    rng = np.random.default_rng(seed)
    y = np.arange(ROWS) % 2
    side = rng.choice([-0.5, 0.5], ROWS)
    # with two clouds the second column parts both classes alike, and much farther than the first
    # parts the classes
    X = rng.normal(size=(ROWS, COLUMNS))
    X[:, :2] += np.column_stack([np.where(y == 0, left, right), apart * side])
    seen = np.full(ROWS, -1)
    labeled = np.concatenate(
        [rng.choice(np.flatnonzero(y == c), LABELS // 2, replace=False) for c in (0, 1)]
    )
    seen[labeled] = y[labeled]
    return X, y, seen


def accuracies(name: str, seed: int) -> tuple[float, float]:
    """Return the accuracy on hidden labels without and with the unlabeled rows."""
    X, y, seen = draw(name, seed)
    hidden, labeled = seen == -1, seen != -1
    alone = ReverseClassifier().fit(X[labeled], y[labeled]).predict(X[hidden])
    semi = ReverseClassifier().fit(X, seen).transduction_[hidden]
    return float((alone == y[hidden]).mean()), float((semi == y[hidden]).mean())


def example() -> tuple[str, Any]:
    """Compare over many draws, and test on the labels of one draw."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    lines = []
    for place, name in enumerate(TABLES):
        X, _, seen = draw(name, 0)
        semi = ReverseClassifier().fit(X, seen)
        axes[place].scatter(*X[:, :2].T, c=semi.transduction_, cmap="coolwarm", s=6, alpha=0.5)
        for c, marker in ((0, "s"), (1, "^")):
            axes[place].scatter(*X[seen == c, :2].T, marker=marker, c="black", s=28)
        axes[place].scatter(
            *semi.cluster_centers_[:, :2].T, marker="x", c="gold", s=90, linewidths=3
        )
        axes[place].set(title=name, xlabel="first two columns", xticks=[], yticks=[])
        found = np.array([accuracies(name, seed) for seed in range(DRAWS)])
        axes[2].plot([0, 1], found.T, color=f"C{place}", alpha=0.25)
        axes[2].plot([0, 1], found.mean(axis=0), "o-", color=f"C{place}", label=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of folds without a label of some class
            result = compare_with_supervised(ReverseClassifier(), X, seen, cv=4)
        lines.append(
            f"{name}: accuracy {found[:, 0].mean():.3f} by labels alone, {found[:, 1].mean():.3f} "
            f"with the unlabeled rows, better in {(found[:, 1] > found[:, 0]).sum()} of {DRAWS} "
            f"draws.\n  Verdict from the {LABELS} labels of the first draw: {result.verdict}"
        )
    axes[2].set(
        xticks=[0, 1],
        xticklabels=["labels alone", "with unlabeled rows"],
        title="accuracy on hidden labels",
    )
    axes[2].legend(frameon=False, loc="lower left")
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
