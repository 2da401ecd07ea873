"""Fill missing entries of a corrupted table, find gross outliers, and certify the optimum.

300 weather stations report 24 hourly temperatures; a fifth of the readings is missing and one in
thirty is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import RobustSubspace

GROSS = 3  # degrees


def make_table(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The readings with missing ones, the true temperatures, and the places of wrong readings."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24)
    shapes = np.stack([np.cos((hours - peak) * np.pi / 12) for peak in (14, 17, 4)] + [np.ones(24)])
    truth = rng.normal([5, 2, 1, 15], [2, 1, 0.5, 6], size=(300, 4)) @ shapes
    readings = truth + 0.3 * rng.normal(size=truth.shape)
    nonsense = rng.random(truth.shape) < 1 / 30
    readings[nonsense] += rng.choice([-1, 1], nonsense.sum()) * rng.uniform(15, 60, nonsense.sum())
    readings[rng.random(truth.shape) < 0.2] = np.nan
    return readings, truth, nonsense & ~np.isnan(readings)


def summary(
    model: RobustSubspace, readings: np.ndarray, truth: np.ndarray, nonsense: np.ndarray
) -> str:
    """Results, errors, and the certificate in plain words."""
    missing = np.isnan(readings)
    filled = model.complete(readings)
    by_mean = np.broadcast_to(np.nanmean(readings, axis=0), readings.shape)
    found = flagged(model)
    n, d = readings.shape
    lines = [
        f"A table of {n} stations x {d} hours, {missing.sum()} missing entries, {nonsense.sum()} "
        "wrong readings.",
        f"The RMS error of filled entries is {rms(filled, truth, missing):.2f} degrees; "
        f"that of the mean of the hour {rms(by_mean, truth, missing):.2f}.",
        f"{found.sum()} readings differ from the model by more than {GROSS} degrees beyond noise: "
        f"{(found & nonsense).sum()} of them are wrong, {(nonsense & ~found).sum()} were missed.",
        f"{model.codes_.shape[1]} patterns were needed; solved by {model.solver_} in "
        f"{model.n_iter_} iterations.",
        str(model.certificate_),
    ]
    return "\n".join(lines)


def flagged(model: RobustSubspace) -> np.ndarray:
    """Where an outlier is gross; the many small ones are the tails of the noise."""
    return np.abs(model.outliers_.toarray()) > GROSS


def rms(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """Root mean square error on some entries."""
    return float(np.sqrt(np.mean((guess - truth)[where] ** 2)))


def draw(model: RobustSubspace, readings: np.ndarray, stations: int = 60) -> Figure:
    """Draw the readings, their reconstruction, and the outliers."""
    panels = {
        "readings (white: missing)": (readings, "viridis", (-5, 35)),
        "model": (model.inverse_transform(model.codes_), "viridis", (-5, 35)),
        "outliers removed": (model.outliers_.toarray(), "coolwarm", (-60, 60)),
    }
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, (title, (values, colors, limits)) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(
            values[:stations], aspect="auto", cmap=colors, vmin=limits[0], vmax=limits[1]
        )
        axis.set(title=title, xlabel="hour")
        figure.colorbar(image, ax=axis, shrink=0.8, label="degrees")
    axes[0].set_ylabel("station")
    return figure


def example() -> tuple[str, Figure]:
    """Fit the readings, summarize the results, and draw them."""
    readings, truth, nonsense = make_table()
    model = RobustSubspace(alpha=6.0, beta=0.6, tol=1e-6).fit(readings)
    return summary(model, readings, truth, nonsense), draw(model, readings)


if __name__ == "__main__":
    show(__file__, example)
