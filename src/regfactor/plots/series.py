"""A fan chart: what a series did, and between which limits it is expected to go on."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import BLUE, INK, VERMILION, Display, drawn_from, position, word
from regfactor.series.arma.forecast import Forecast

LEVELS = (0.5, 0.8, 0.95)
HISTORY = 4  # horizons of the past that are drawn
STACKED = 4  # series up to which panels stand below each other
APART = 11.0  # points between labels


class ForecastDisplay(Display):
    """The past of each series, the means forecast, and bands that hold stated shares of what comes; a panel for each.

    Parameters
    ----------
    past : array-like of shape (n_past, n_series)
    mean : array-like of shape (horizon, n_series)
    limits : dict of level to pair of array-like, optional
        Lower and upper limits of the same shape as the means, such as {0.8: (lower, upper)}.
    past_times, times : array-like, optional
        Numbers or datetime64; by default 0, 1, 2, ..., the forecast following the past.
    names : list of str, optional
        Of the series.
    actual : array-like of shape (n_came, n_series), optional
        What came, drawn as points.

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
    >>> model = RegularizedARMA(p=2, q=1).fit(np.sin(t / 3) + 0.1 * np.random.default_rng(0).normal(size=80))
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
        self.limits = {
            level: (_table(low), _table(high)) for level, (low, high) in (limits or {}).items()
        }
        n, horizon, m = len(self.past), *self.mean.shape
        if past_times is None:
            self.past_times = np.arange(n)
        else:
            self.past_times = np.asarray(past_times)
        if times is None:
            self.times = np.arange(n, n + horizon)
        else:
            self.times = np.asarray(times)
        if names is None:
            self.names = [f"x{j}" for j in range(m)]
        else:
            self.names = [str(name) for name in names]
        self.actual = None if actual is None else _table(actual)[:horizon]
        wide = {self.past.shape[1], m, len(self.names)} | (
            {self.actual.shape[1]} if self.actual is not None else set()
        )
        if len(wide) > 1:
            raise ValueError(
                f"past, mean, names and actual must be of the same series, got {sorted(wide)} of them."
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
            Shares that the bands hold; () for models without intervals.
        exog : array-like of shape (horizon, n_inputs), optional
        actual : table, optional
            What came.
        history : int, optional
            How many rows of the past are drawn; by default four times the horizon.
        columns : sequence of str or int, optional
            Which series are drawn; by default all.
        ax : Axes, or array of as many as there are series, optional

        Returns
        -------
        ForecastDisplay
        """
        forecast = drawn_from(cls, estimator, "forecast", "Use RegularizedARMA.")
        made = {level: forecast(horizon, exog, level) for level in levels}
        first = next(iter(made.values())) if made else forecast(horizon, exog)
        past, past_times, times = _past(estimator, X, first)
        if history is not None and not history >= 1:
            raise ValueError(f"history must be a number of rows >= 1, got {history!r}.")
        kept = slice(-(history or HISTORY * horizon), None)
        names = [str(name) for name in first.times.names]
        chosen = [position(c, names) for c in (range(len(names)) if columns is None else columns)]
        limits = {level: (f.lower[:, chosen], f.upper[:, chosen]) for level, f in made.items()}
        came = None if actual is None else _table(actual)[:, chosen]
        return cls(
            past[kept][:, chosen],
            first.mean[:, chosen],
            limits,
            past_times[kept],
            times,
            [names[c] for c in chosen],
            came,
        ).plot(ax)

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
        columns = 1 if m <= STACKED else int(np.ceil(np.sqrt(m / 2)))
        rows = -(-m // columns)
        size = (6.4 / columns if columns < 3 else 3.0, 3.4 if m == 1 else 1.9)
        flat = np.size(ax) == m > 1  # as many axes as series, however they are arranged
        axes = self._panels(ax, m if flat else rows, 1 if flat else columns, size, sharex=True)
        for j, panel in enumerate(axes.flat):
            if j < m:
                self._draw(panel, j)
            else:
                panel.set_axis_off()
        for j, panel in enumerate(axes.flat[:m]):
            lowest = flat or j + columns >= m
            panel.tick_params(labelbottom=lowest)
            if lowest and self.times.dtype.kind != "M":  # dates say what they are
                panel.set_xlabel("time")
        return self

    def _draw(self, ax: Any, j: int) -> None:
        # the fan begins at the last value that was seen
        if len(self.past):
            x = np.concatenate([self.past_times[-1:], self.times])
        else:
            x = self.times
        start = self.past[-1:, j]
        for level in sorted(self.limits, reverse=True):
            low, high = (np.concatenate([start, values[:, j]]) for values in self.limits[level])
            ax.fill_between(x, low, high, color=BLUE, alpha=0.16, linewidth=0, label=f"{level:.0%}")
        ax.plot(self.past_times, self.past[:, j], color=INK, linewidth=1.3, label="past")
        ax.plot(
            x,
            np.concatenate([start, self.mean[:, j]]),
            color=BLUE,
            linewidth=1.6,
            label="forecast",
        )
        if self.actual is not None:
            came = self.actual[:, j]
            ax.plot(
                self.times[: len(came)],
                came,
                "o",
                color=VERMILION,
                markersize=3,
                label="actual",
            )
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
        """Name the bands at their upper ends, and the points, from the top down without overlap."""
        ends = [
            (f"{level:.0%}", self.limits[level][1][-1, j], BLUE)
            for level in sorted(self.limits, reverse=True)
        ]
        ends.append(("mean", self.mean[-1, j], BLUE))
        if self.actual is not None and len(self.actual) == len(self.times):
            ends.append(("actual", self.actual[-1, j], VERMILION))
        ends.sort(key=lambda end: -end[1])
        ax.set_ylim(ax.get_ylim())  # positions below are in pixels
        points = 72 / ax.figure.dpi
        free = np.inf
        for text, y, color in ends:
            at = ax.transData.transform((0, y))[1] * points
            put = min(at, free)
            word(
                ax,
                self.times[-1],
                y,
                text,
                color=color,
                fontsize=8,
                va="center",
                xytext=(6, put - at),
                annotation_clip=False,
            )
            free = put - APART


def _past(estimator: Any, X: Any, forecast: Forecast) -> tuple[Array, Array, Array]:
    """Return rows of the past with their times, and the times of the forecast; all as numbers, or all as dates."""
    if X is None:
        fitted = estimator.predict()
        rows = np.asarray(fitted, float) + estimator.residuals_
        index = getattr(fitted, "index", None)
        end = len(rows) + estimator.d + max(estimator.p_, estimator.exog_lags)
    else:
        rows = _table(X)
        index = getattr(X, "index", None)
        end = forecast.times.length
    past = _numbers(index)
    if past is None:
        times = None
    else:
        times = _numbers(forecast.times.future(len(forecast)))
    if past is None or times is None:
        return (
            rows,
            np.arange(end - len(rows), end),
            forecast.times.length + np.arange(len(forecast)),
        )
    return rows, past, times


def _numbers(index: Any) -> Array | None:
    """Return an index as numbers or dates; None where it is neither."""
    if index is None:
        return None
    if hasattr(index, "to_timestamp") and index.dtype.kind == "O":
        index = index.to_timestamp()
    else:
        index = index
    values = np.asarray(index)
    if values.dtype.kind in "iufM":
        return values
    return None


def _table(values: Any) -> Array:
    values = np.asarray(values, float)
    if values.ndim == 1:
        return values[:, None]
    return values
