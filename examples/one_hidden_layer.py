"""One hidden layer without local optima: inputs and targets as two views of one hidden table.

A network of one linear hidden layer predicts through few hidden quantities. As a two-view factor
model, with inputs and targets as the views, it is convex: no start, no learning rate, a certificate.
What it gives up is that hidden units are nonlinear. Compared with scikit-learn's MLPRegressor of
tanh units, over ten starts: on a linear truth, where ridge regression is as good and the network
has the wrong units, and on a nonlinear one, where two views end between ridge and the best start.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import TwoViewSubspace

INPUTS, TARGETS, HIDDEN, ROWS, STARTS = 20, 10, 3, 150, 10
TRUTHS = {"linear": lambda H: H, "nonlinear": np.tanh}


def draw(kind: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets that share a few hidden quantities, in the same world for all seeds."""
    world = np.random.default_rng(0)
    on_inputs = world.normal(size=(HIDDEN, INPUTS))
    on_targets = world.normal(size=(HIDDEN, TARGETS))
    rng = np.random.default_rng(seed)
    H = 1.5 * rng.normal(size=(rows, HIDDEN))
    X = H @ on_inputs + rng.normal(size=(rows, INPUTS))
    return X, TRUTHS[kind](2 * H) @ on_targets + rng.normal(size=(rows, TARGETS))


def errors(kind: str) -> tuple[float, float, np.ndarray, float]:
    """Mean squared errors on new rows: two views, ridge, networks; and the gap of the two views."""
    X, Y = draw(kind, ROWS, 1)
    X_new, Y_new = draw(kind, 2000, 2)

    def error(predicted: np.ndarray) -> float:
        return float(np.square(predicted - Y_new).mean())

    views = TwoViewSubspace().fit(X, Y)
    ridge = RidgeCV(np.geomspace(1e-2, 1e4, 25)).fit(X, Y)
    networks = []
    for start in range(STARTS):
        network = MLPRegressor(
            hidden_layer_sizes=HIDDEN,
            activation="tanh",
            alpha=1.0,
            solver="lbfgs",
            max_iter=2000,
            random_state=start,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not all starts converge
            network.fit(X, Y)
        networks.append(error(network.predict(X_new)))
    predicted = views.predict_view(X1=X_new)
    return error(predicted), error(ridge.predict(X_new)), np.array(networks), views.relative_gap_


def example() -> tuple[str, Any]:
    """Compare on both truths."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    findings = []
    for place, kind in enumerate(TRUTHS):
        views, ridge, networks, gap = errors(kind)
        first = place == 0
        axes.scatter(
            np.full(STARTS, place),
            networks,
            color="tab:orange",
            label=f"network of {HIDDEN} units, {STARTS} starts" if first else None,
        )
        axes.scatter(
            place - 0.15, views, marker="D", color="tab:blue", label="two views" if first else None
        )
        axes.scatter(
            place + 0.15, ridge, marker="s", color="tab:gray", label="ridge" if first else None
        )
        findings.append(
            f"{kind}: two views {views:.2f} (relative gap {gap:.0e}), ridge {ridge:.2f}, networks "
            f"{networks.min():.2f} to {networks.max():.2f} by their start"
        )
    axes.set(
        xticks=range(len(TRUTHS)),
        xticklabels=[f"{kind} truth" for kind in TRUTHS],
        ylabel="mean squared error of new rows",
        yscale="log",
    )
    axes.legend(frameon=False)
    return (". ".join(findings) + "."), figure


if __name__ == "__main__":
    show(__file__, example)
