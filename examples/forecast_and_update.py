"""Forecasting several series, and updating the forecasts as new rows arrive.

Two series with a moving average, from which a vector ARMA model is fitted once. Its fan covers
50, 80 and 95 % of future values. New rows pass through the model's Kalman filter; nothing is fitted
again. The coverage of intervals one step ahead is then compared with their level.
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

SEEN, AHEAD, LATER, SHOWN = 200, 24, 12, 150
LEVELS = (0.95, 0.8, 0.5)
STEPS = (1, 4, 12)
SERIES = ("first series", "second series")


def fan(axes: Any, model: RegularizedARMA, start: int, series: int) -> None:
    """Draw the forecast of one series with its intervals, the wider the paler."""
    times = np.arange(start, start + AHEAD)
    for level, shade in zip(LEVELS, (0.15, 0.25, 0.35), strict=True):
        forecast = model.forecast(AHEAD, level=level)
        axes.fill_between(
            times,
            forecast.lower[:, series],
            forecast.upper[:, series],
            color="tab:red",
            alpha=shade,
            linewidth=0,
            label=f"{level:.0%}",
        )
    axes.plot(times, model.forecast(AHEAD).mean[:, series], color="tab:red", label="forecast")


def as_they_arrive(model: RegularizedARMA, rows: np.ndarray) -> tuple[float, dict[int, float]]:
    """Update with one row at a time.

    Return the share inside 90 % intervals one step ahead, and errors by steps ahead.
    """
    inside, errors = [], {h: [] for h in STEPS}
    for t in range(len(rows) - max(STEPS) + 1):
        forecast = model.forecast(max(STEPS), level=0.9)
        inside.append((forecast.lower[0] <= rows[t]) & (rows[t] <= forecast.upper[0]))
        for h in STEPS:
            errors[h].append(np.square(rows[t + h - 1] - forecast.mean[h - 1]).mean())
        model.update(rows[t][None])
    return float(np.mean(inside)), {h: float(np.sqrt(np.mean(e))) for h, e in errors.items()}


def example() -> tuple[str, Any]:
    """Forecast, update with new rows, forecast again."""
    import matplotlib.pyplot as plt

    X = make_varma(SEEN + 300, 2, p=1, q=2, ar_radius=0.95, ma_radius=0.8, random_state=1)
    model = RegularizedARMA(p=1, q=2).fit(X[:SEEN])
    figure, panels = plt.subplots(
        2, 2, figsize=(10, 5), sharex=True, sharey="row", layout="constrained"
    )
    for column, start in enumerate((SEEN, SEEN + LATER)):
        if start > SEEN:
            model.update(X[SEEN:start])
        for series, axes in enumerate(panels[:, column]):
            fan(axes, model, start, series)
            axes.plot(np.arange(SHOWN, start), X[SHOWN:start, series], color="black", label="seen")
            axes.plot(
                np.arange(start, start + AHEAD),
                X[start : start + AHEAD, series],
                ":",
                color="black",
                label="actual",
            )
            axes.axvline(start - 0.5, color="0.7", linewidth=0.8)
        panels[0, column].set_title(
            "fitted to 200 rows" if column == 0 else f"{LATER} rows later, not fitted again"
        )
    for axes, name in zip(panels[:, 0], SERIES, strict=True):
        axes.set_ylabel(name)
    panels[1, 0].set_xlabel("time")
    panels[1, 1].set_xlabel("time")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    share, errors = as_they_arrive(RegularizedARMA(p=1, q=2).fit(X[:SEEN]), X[SEEN:])
    steps = ", ".join(f"{error:.2f} at {h} steps" for h, error in errors.items())
    lines = [
        f"Fitted once to {SEEN} rows: relative gap {model.relative_gap_:.1e}, spectral radius "
        f"{model.radius_:.2f}.",
        f"The next {len(X) - SEEN} rows as they arrive: {share:.0%} inside the 90 % intervals one "
        "step ahead.",
        f"Errors (root mean square): {steps} ahead; the series deviate from their means by "
        f"{X[SEEN:].std():.2f}.",
    ]
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
