"""Fill the holes of a corrupted table, find its gross outliers, and prove that the fit is the best there is.

300 weather stations report 24 hourly temperatures; a fifth of the readings is missing and one in thirty is nonsense.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

import numpy as np

from regfactor import RobustSubspace

GROSS = 3  # degrees


def make_table(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The readings with their holes, the true temperatures, and where the nonsense is."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24)
    shapes = np.stack([np.cos((hours - peak) * np.pi / 12) for peak in (14, 17, 4)] + [np.ones(24)])
    truth = rng.normal([5, 2, 1, 15], [2, 1, 0.5, 6], size=(300, 4)) @ shapes
    readings = truth + 0.3 * rng.normal(size=truth.shape)
    nonsense = rng.random(truth.shape) < 1 / 30
    readings[nonsense] += rng.choice([-1, 1], nonsense.sum()) * rng.uniform(15, 60, nonsense.sum())
    readings[rng.random(truth.shape) < 0.2] = np.nan
    return readings, truth, nonsense & ~np.isnan(readings)


def summary(model: RobustSubspace, readings: np.ndarray, truth: np.ndarray, nonsense: np.ndarray) -> str:
    """What was done, how good it is, and the certificate in plain words."""
    holes = np.isnan(readings)
    filled = model.complete(readings)
    by_mean = np.broadcast_to(np.nanmean(readings, axis=0), readings.shape)
    found = flagged(model)
    n, d = readings.shape
    lines = [
        f"A table of {n} stations x {d} hours, {holes.sum()} holes, {nonsense.sum()} readings that are nonsense.",
        f"Filled holes are off by {rms(filled, truth, holes):.2f} degrees (root mean square); "
        f"the mean of the hour by {rms(by_mean, truth, holes):.2f}.",
        f"{found.sum()} readings differ from the model by more than {GROSS} degrees beyond noise: "
        f"{(found & nonsense).sum()} of them are nonsense, {(nonsense & ~found).sum()} were missed.",
        f"{model.codes_.shape[1]} patterns were needed; solved by {model.solver_} in {model.n_iter_} iterations.",
        str(model.certificate_),
    ]
    return "\n".join(lines)


def flagged(model: RobustSubspace) -> np.ndarray:
    """Where an outlier is gross; the many small ones are the tails of the noise."""
    return np.abs(model.outliers_.toarray()) > GROSS


def rms(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """Root mean square error on some entries."""
    return float(np.sqrt(np.mean((guess - truth)[where] ** 2)))


def write_csv(path: Path, table: np.ndarray) -> None:
    """Write the table whole or not at all."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["station", *(f"hour_{h:02d}" for h in range(table.shape[1]))])
        writer.writerows([i, *(f"{v:.2f}" for v in row)] for i, row in enumerate(table))
    os.replace(unfinished, path)


def draw(path: Path, model: RobustSubspace, readings: np.ndarray, stations: int = 60) -> None:
    """Draw the readings, what the model makes of them, and the outliers it took out."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {
        "readings (white: missing)": (readings, "viridis", (-5, 35)),
        "model": (model.inverse_transform(model.codes_), "viridis", (-5, 35)),
        "outliers taken out": (model.outliers_.toarray(), "coolwarm", (-60, 60)),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 5), sharey=True, layout="constrained")
    for axis, (title, (values, colors, limits)) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(values[:stations], aspect="auto", cmap=colors, vmin=limits[0], vmax=limits[1])
        axis.set(title=title, xlabel="hour")
        figure.colorbar(image, ax=axis, shrink=0.8, label="degrees")
    axes[0].set_ylabel("station")
    figure.savefig(unfinished := path.with_suffix(".tmp"), format="png", dpi=110)
    plt.close(figure)
    os.replace(unfinished, path)


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for the CSV and the figure")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    readings, truth, nonsense = make_table()
    model = RobustSubspace(alpha=6.0, beta=0.6, tol=1e-6).fit(readings)
    print(summary(model, readings, truth, nonsense))
    repaired = model.complete(np.where(flagged(model), np.nan, readings))
    write_csv(out / "completed.csv", repaired)
    draw(out / "completed.png", model, readings)
    print(f"The table without holes and gross outliers: {out / 'completed.csv'}; a picture: {out / 'completed.png'}")


if __name__ == "__main__":
    main()
