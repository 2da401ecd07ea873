"""Choosing the shrinkage of a moving average, and detecting that there is none.

`shrinkage` is a share of the strength at which RegularizedARMA has no moving average and is a ridge
VAR. With "auto" it is chosen by one-step errors on the last quarter of the series, ridge VAR
among the candidates. Over many series with a strong moving average and without one: which value
is chosen, and does the choice help on later rows?
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import RegularizedARMA
from regfactor.datasets import make_varma

SEEN, AHEAD, SEEDS = 200, 200, 20
KINDS = {"strong moving average": (3, 0.9), "no moving average": (0, 0.0)}


def one_step(model: RegularizedARMA, rows: np.ndarray) -> float:
    """Return the share of the variance of later rows that one-step predictions leave."""
    return 1 - model.score(rows)


def compared(lags: int, radius: float) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return candidates, validation losses, and later errors relative to ridge VAR."""
    losses, ratios = [], []
    for seed in range(SEEDS):
        X = make_varma(SEEN + AHEAD, 3, 1, lags, ar_radius=0.7, ma_radius=radius, random_state=seed)
        model = RegularizedARMA(p=1, q=3, shrinkage="auto").fit(X[:SEEN])
        ridge = RegularizedARMA(p=1, q=3, shrinkage=1.0).fit(X[:SEEN])
        losses.append(model.validation_loss_ / model.validation_loss_[0])
        ratios.append(one_step(model, X[SEEN:]) / one_step(ridge, X[SEEN:]))
    return model.shrinkages_, np.array(losses), ratios


def example() -> tuple[str, Any]:
    """Compare two kinds of series."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    lines = []
    for axes, (kind, (lags, radius)) in zip(panels, KINDS.items(), strict=True):
        shrinkages, losses, ratios = compared(lags, radius)
        places = np.arange(len(shrinkages))
        axes.plot(places, losses.T, color="0.8", zorder=1)
        axes.plot(places, np.median(losses, axis=0), color="tab:red", marker="o", label="median")
        best = losses.argmin(axis=1)
        axes.plot(best, losses.min(axis=1), "x", color="black", label="chosen")
        axes.axhline(1, color="0.5", linewidth=0.8)
        axes.set(
            title=f"{kind} ({SEEDS} series)",
            xticks=places,
            xlabel="shrinkage (1: ridge VAR)",
            xticklabels=[f"{s:g}" for s in shrinkages],
        )
        axes.legend(fontsize=8)
        ahead = np.mean(np.array(ratios) < 1)
        lines.append(
            f"{kind}: ridge VAR is chosen {np.mean(best == 0):.0%} of the time; later one-step "
            f"errors are {np.median(ratios):.2f} times those of ridge VAR (median), lower in "
            f"{ahead:.0%} of the series."
        )
    panels[0].set_ylabel("one-step loss on the last quarter,\nrelative to ridge VAR")
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
