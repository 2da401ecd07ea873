"""A fan chart: the past of a series, its forecast, and prediction intervals."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import BLUE, INK, VERMILION, Display, drawn_from, position, word
from regfactor.series.forecast import Forecast

LEVELS = (0.5, 0.8, 0.95)
PAST_HORIZONS = 4  # of the past that are drawn
MAX_STACKED_PANELS = 4
LABEL_DISTANCE = 11.0  # points


class ForecastDisplay(Display):
    """The past of each series, the mean forecast, and prediction intervals; a panel for each.

    Parameters
    ----------
    past : array-like of shape (n_past, n_series)
    mean : array-like of shape (horizon, n_series)
    limits : dict of level to pair of array-like, optional
        Lower and upper limits of the same shape as the means, such as {0.8: (lower, upper)}.
    past_times, times : array-like, optional
        Numbers or datetime64; by default 0, 1, 2, ..., the forecast following the past.
    names : list of str, optional
        Names of the series.
    actual : array-like of shape (n_observed, n_series), optional
        Values observed later, drawn as points.

    Attributes
    ----------
    ax_ : Axes, or array of them
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import RegularizedARMA
    >>> from regfactor.plots import ForecastDisplay
    >>> t = np.arange(80)
    >>> x = np.sin(t / 3) + 0.1 * np.random.default_rng(0).normal(size=80)
    >>> model = RegularizedARMA(p=2, q=1).fit(x)
    >>> display = ForecastDisplay.from_estimator(model, horizon=12)
    """

    def __init__(
        self,
        past: Any,
        mean: Any,
        limits: dict[float, tuple[Any, Any]] | None = None,
        past_times: Any = None,
        times: Any = None,
        names: Sequence[str] | None = None,
        actual: Any = None,
    ) -> None:
        self.past = _table(past)
        self.mean = _table(mean)
        self.limits = {}
        for level, (low, high) in (limits or {}).items():
            self.limits[level] = (_table(low), _table(high))
        n = len(self.past)
        horizon, m = self.mean.shape
        self.past_times = np.arange(n) if past_times is None else np.asarray(past_times)
        self.times = np.arange(n, n + horizon) if times is None else np.asarray(times)
        if names is None:
            names = [f"x{j}" for j in range(m)]
        self.names = [str(name) for name in names]
        self.actual: Array | None = None
        counts = {self.past.shape[1], m, len(self.names)}
        if actual is not None:
            self.actual = _table(actual)[:horizon]
            counts.add(self.actual.shape[1])
        if len(counts) > 1:
            raise ValueError(
                "past, mean, names and actual must be of the same series, "
                f"got {sorted(counts)} of them."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        horizon: int = 12,
        levels: Sequence[float] = LEVELS,
        exog: Any = None,
        actual: Any = None,
        history: int | None = None,
        columns: Sequence[Any] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the forecast of a fitted RegularizedARMA.

        Parameters
        ----------
        estimator : fitted RegularizedARMA
        X : table, optional
            The series until now, to be drawn; by default the rows that were fitted. Give it after
            `update`.
        horizon : int, default=12
        levels : sequence of float, default=(0.5, 0.8, 0.95)
            Coverage of the intervals; () for models without intervals.
        exog : array-like of shape (horizon, n_inputs), optional
        actual : table, optional
            Values observed later.
        history : int, optional
            Number of past rows to draw; by default four times the horizon.
        columns : sequence of str or int, optional
            Series to draw; by default all.
        ax : Axes, or array of as many as there are series, optional

        Returns
        -------
        ForecastDisplay
        """
        forecast = drawn_from(cls, estimator, "forecast", "Use RegularizedARMA.")
        forecasts = {level: forecast(horizon, exog, level) for level in levels}
        first = next(iter(forecasts.values())) if forecasts else forecast(horizon, exog)
        past, past_times, times = _past(estimator, X, first)
        if history is None:
            history = PAST_HORIZONS * horizon
        if not history >= 1:
            raise ValueError(f"history must be a number of rows >= 1, got {history!r}.")
        names = [str(name) for name in first.times.names]
        chosen = list(range(len(names)))
        if columns is not None:
            chosen = [position(column, names) for column in columns]
        limits = {}
        for level, made in forecasts.items():
            limits[level] = (made.lower[:, chosen], made.upper[:, chosen])
        if actual is not None:
            actual = _table(actual)[:, chosen]
        display = cls(
            past[-history:][:, chosen],
            first.mean[:, chosen],
            limits,
            past_times[-history:],
            times,
            [names[c] for c in chosen],
            actual,
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, or array of as many as there are series, optional
            One is divided.

        Returns
        -------
        ForecastDisplay
        """
        m = self.mean.shape[1]
        flat = np.size(ax) == m > 1  # as many axes as series, in any arrangement
        columns = 1
        if m > MAX_STACKED_PANELS and not flat:
            columns = int(np.ceil(np.sqrt(m / 2)))
        rows = -(-m // columns)
        width = 6.4 / columns if columns < 3 else 3.0
        height = 3.4 if m == 1 else 1.9
        axes = self._panels(ax, rows, columns, (width, height), sharex=True)
        for panel in axes.flat[m:]:
            panel.set_axis_off()
        for j, panel in enumerate(axes.flat[:m]):
            self._draw(panel, j)
            lowest = flat or j + columns >= m
            panel.tick_params(labelbottom=lowest)
            # dates need no label
            if lowest and self.times.dtype.kind != "M":
                panel.set_xlabel("time")
        return self

    def _draw(self, ax: Any, j: int) -> None:
        # the fan begins at the last observed value, if there is one
        x = self.times
        if len(self.past):
            x = np.concatenate([self.past_times[-1:], self.times])
        start = self.past[-1:, j]
        for level in sorted(self.limits, reverse=True):
            low, high = (np.concatenate([start, values[:, j]]) for values in self.limits[level])
            ax.fill_between(x, low, high, color=BLUE, alpha=0.16, linewidth=0, label=f"{level:.0%}")
        ax.plot(self.past_times, self.past[:, j], color=INK, linewidth=1.3, label="past")
        mean = np.concatenate([start, self.mean[:, j]])
        ax.plot(x, mean, color=BLUE, linewidth=1.6, label="forecast")
        if self.actual is not None:
            times = self.times[: len(self.actual)]
            look = {"color": VERMILION, "markersize": 3}
            ax.plot(times, self.actual[:, j], "o", label="actual", **look)
        ax.set_ylabel(self.names[j])
        ax.margins(x=0.01)
        if x.dtype.kind == "M":
            dates = importlib.import_module("matplotlib.dates")
            locator = dates.AutoDateLocator(minticks=3, maxticks=7)
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        if j == 0:
            self._label(ax, j)

    def _label(self, ax: Any, j: int) -> None:
        """Name the intervals at their upper ends, and the points, without overlap."""
        ends = [("mean", self.mean[-1, j], BLUE)]
        for level, (_, upper) in self.limits.items():
            ends.append((f"{level:.0%}", upper[-1, j], BLUE))
        if self.actual is not None and len(self.actual) == len(self.times):
            ends.append(("actual", self.actual[-1, j], VERMILION))
        ends.sort(key=lambda end: -end[1])
        ax.set_ylim(ax.get_ylim())  # positions below are in pixels
        points = 72 / ax.figure.dpi
        highest = np.inf
        look = {"fontsize": 8, "va": "center", "annotation_clip": False}
        for text, y, color in ends:
            height = ax.transData.transform((0, y))[1] * points
            moved = min(height, highest)
            offset = (6, moved - height)
            word(ax, self.times[-1], y, text, color=color, xytext=offset, **look)
            highest = moved - LABEL_DISTANCE


def _past(estimator: Any, X: Any, forecast: Forecast) -> tuple[Array, Array, Array]:
    """Return past rows, their times, and those of the forecast: all numbers, or all dates."""
    if X is None:
        fitted = estimator.predict()
        rows = np.asarray(fitted, float) + estimator.residuals_
        index = getattr(fitted, "index", None)
        end = len(rows) + estimator.d_ + max(estimator.p_, estimator.exog_lags)
    else:
        rows = _table(X)
        index = getattr(X, "index", None)
        end = forecast.times.length
    past = _numbers(index)
    if past is not None:
        times = _numbers(forecast.times.future(len(forecast)))
        if times is not None:
            return rows, past, times
    past = np.arange(end - len(rows), end)
    return rows, past, forecast.times.length + np.arange(len(forecast))


def _numbers(index: Any) -> Array | None:
    """Return an index as numbers or dates; None if it is neither."""
    if index is None:
        return None
    if hasattr(index, "to_timestamp") and index.dtype.kind == "O":
        index = index.to_timestamp()
    values = np.asarray(index)
    if values.dtype.kind in "iufM":
        return values
    return None


def _table(values: Any) -> Array:
    values = np.asarray(values, float)
    if values.ndim == 1:
        return values[:, None]
    return values
