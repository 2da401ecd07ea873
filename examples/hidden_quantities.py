"""Few targets, many rows: when do rows without a target help a regression?

Fourteen instruments record three hidden quantities, nonlinearly and with noise; the target is one
of the three. With few targets, ridge regression on the labels alone has seen little of the fourteen
inputs, while SNFRegressor finds the hidden quantities from all rows. The other table has none: its
inputs are independent, and unlabeled rows carry no further information.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import SNFRegressor

ROWS, INPUTS, HIDDEN = 300, 14, 3
LABELS, DRAWS = (5, 10, 20, 40, 80), 8
NOISE = 0.3


def draw(hidden: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, with three hidden causes or with none, and the target."""
    rng = np.random.default_rng(seed)
    if not hidden:
        X = rng.normal(size=(ROWS, INPUTS))
        return X, X @ rng.normal(size=INPUTS) / np.sqrt(INPUTS) + NOISE * rng.normal(size=ROWS)
    Z = rng.normal(size=(ROWS, HIDDEN))
    bent = Z @ rng.normal(size=(HIDDEN, INPUTS)) + 0.2 * Z**2 @ rng.normal(size=(HIDDEN, INPUTS))
    return bent + rng.normal(size=(ROWS, INPUTS)), Z[:, 0] + NOISE * rng.normal(size=ROWS)


def errors(hidden: bool, labels: int) -> np.ndarray:
    """Return unexplained shares of variance on unlabeled rows: by all rows, by labels alone."""
    out = []
    for seed in range(DRAWS):
        X, y = draw(hidden, seed)
        seen = np.where(np.arange(ROWS) < labels, y, np.nan)
        latent = SNFRegressor(HIDDEN, target_weight=1.0).fit(X, seen).transduction_
        alone = RidgeCV(np.logspace(-2, 4, 25)).fit(X[:labels], y[:labels]).predict(X)
        out.append([np.mean(np.square(found - y)[labels:]) / y.var() for found in (latent, alone)])
    return np.array(out)


def example() -> tuple[str, Any]:
    """Compare both on both tables, over the number of labels."""
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained", sharey=True)
    lines = []
    for axes, hidden in zip(both, (True, False), strict=True):
        tables = [errors(hidden, labels) for labels in LABELS]
        for j, name in enumerate(
            ("SNFRegressor, all rows", "tuned ridge regression, labels alone")
        ):
            means = [t[:, j].mean() for t in tables]
            spread = [t[:, j].std(ddof=1) / np.sqrt(DRAWS) for t in tables]
            axes.errorbar(LABELS, means, spread, marker="o", markersize=3, label=name)
        kind = "three hidden quantities" if hidden else "independent inputs"
        axes.set(xscale="log", xlabel="labeled rows", title=kind, ylim=(0, 1.3))
        axes.set_xticks(LABELS, [str(n) for n in LABELS])
        axes.minorticks_off()
        ours, theirs = tables[1].mean(axis=0)
        lines.append(
            f"{kind}, {LABELS[1]} labels: unexplained {ours:.2f} from all rows, {theirs:.2f} from "
            "labels alone."
        )
    both[0].set_ylabel("share of variance left unexplained")
    both[0].legend(frameon=False)
    lines.append(
        "Rows without a target help where few quantities lie behind the inputs, and can hurt "
        "where none do."
    )
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
