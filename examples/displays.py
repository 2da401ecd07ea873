"""Displays of fitted models: six of them in one figure.

Each panel is one call of `from_estimator` on a small generated problem.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import (
    BregmanKMeans,
    ConvexSubspace,
    ExpectationSVC,
    RegularizedARMA,
    ReverseClassifier,
    TwoViewSubspace,
    plots,
)
from regfactor.constraints import class_balance, region
from regfactor.datasets import make_varma

AHEAD = 16


def series(ax: Any, rng: np.random.Generator) -> None:
    """A fan chart, and the actual values."""
    X = make_varma(160, 2, p=1, q=1, random_state=3)
    model = RegularizedARMA(p=1, q=1).fit(X[:-AHEAD])
    plots.ForecastDisplay.from_estimator(
        model, horizon=AHEAD, actual=X[-AHEAD:], columns=[0], ax=ax
    )


def evidence(ax: Any, rng: np.random.Generator) -> None:
    """The effect of unlabeled rows."""
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 20)) + np.outer(2 * y - 1, np.arange(20) == 0) * 1.5
    plots.EvidenceDisplay.from_estimator(
        ReverseClassifier(), X, np.where(np.arange(400) < 30, y, -1), cv=6, ax=ax
    )


def statements(ax: Any, rng: np.random.Generator) -> None:
    """Stated and predicted shares; the last statement is false."""
    kind = rng.choice(["cat", "dog", "owl"], 240, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(240, 2)) + 4 * np.column_stack([kind == "dog", kind == "owl"])
    heavy = region(X[:, 0] > 3, {"dog": 0.95}, name="the heavy")
    winged = region(X[:, 1] > 3, {"owl": 0.6}, name="the winged")
    stated = [class_balance({"cat": 0.5, "dog": 0.3, "owl": 0.2}), heavy, winged]
    plots.ConstraintDisplay.from_estimator(
        ExpectationSVC(stated, C=None).fit(X, np.full(240, None)), ax=ax
    )


def views(ax: Any, rng: np.random.Generator) -> None:
    """The agreement of two views."""
    shared = rng.normal(size=(150, 2)) * [2, 1]
    X1, X2 = (shared @ rng.normal(size=(2, d)) + rng.normal(size=(150, d)) for d in (12, 8))
    plots.TwoViewDisplay.from_estimator(TwoViewSubspace(alpha=12.0).fit(X1, X2), X1, X2, ax=ax)


def clusters(ax: Any, rng: np.random.Generator) -> None:
    """Where clusters lie."""
    X = rng.poisson(np.repeat([[9, 1, 1, 3], [1, 9, 1, 3], [2, 2, 8, 3]], 70, axis=0)).astype(float)
    plots.ClusterDisplay.from_estimator(
        BregmanKMeans(3, divergence="kl", random_state=0).fit(X), X, ax=ax
    )


def strength(ax: Any, rng: np.random.Generator) -> None:
    """The loss of held-out entries over strengths."""
    X = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(150, 20))
    plots.PathDisplay.from_estimator(
        ConvexSubspace(alpha="auto", scale=False, rule="1se", random_state=0).fit(X), ax=ax
    )


def example() -> tuple[str, Any]:
    """Draw them all."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 2, figsize=(12, 11), layout="constrained")
    panels = (series, evidence, statements, views, clusters, strength)
    for ax, panel in zip(axes.flat, panels, strict=True):
        panel(ax, np.random.default_rng(0))
    names = ", ".join(name for name in plots.__all__ if name != "Display")
    return f"regfactor.plots has {len(plots.__all__) - 1} displays: {names}.", figure


if __name__ == "__main__":
    show(__file__, example)
