"""Fan charts of forecasts, what they were worth in the past, and which seasons were found."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    VERMILION,
    Display,
    drawn_from,
    position,
    word,
)
from regfactor.series.backtest import NAIVE_WORDS, Backtest, mean_of_known
from regfactor.series.forecast import Forecast
from regfactor.series.forecast_components import ForecastComponents
from regfactor.series.shapes import SeriesRows

LEVELS = (0.5, 0.8, 0.95)
PAST_HORIZONS = 4  # of the past that are drawn
PAST_SPANS = 2  # of the time over which forecasts were tried, drawn before it
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
    >>> from regfactor import AutoForecaster
    >>> from regfactor.plots import ForecastDisplay
    >>> t = np.arange(80)
    >>> x = np.sin(t / 3) + 0.1 * np.random.default_rng(0).normal(size=80)
    >>> model = AutoForecaster().fit(x)
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
        if past_times is None:
            self.past_times = np.arange(n)
        else:
            self.past_times = np.asarray(past_times)
        if times is None:
            self.times = np.arange(n, n + horizon)
        else:
            self.times = np.asarray(times)
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
        """Draw the forecast of a fitted AutoForecaster or RegularizedARMA.

        Parameters
        ----------
        estimator : fitted AutoForecaster or RegularizedARMA
        X : table, optional
            The series until now, to be drawn; by default the rows that were fitted. Give it after
            `update` of a RegularizedARMA.
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
        forecast = drawn_from(cls, estimator, "forecast", "Use AutoForecaster.")
        forecasts = {level: forecast(horizon, exog, level) for level in levels}
        if forecasts:
            first = next(iter(forecasts.values()))
        else:
            first = forecast(horizon, exog)
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
            ax.fill_between(
                x,
                low,
                high,
                color=BLUE,
                alpha=0.16,
                linewidth=0,
                label=f"{level:.0%}",
            )
        ax.plot(
            self.past_times,
            self.past[:, j],
            color=INK,
            linewidth=1.3,
            label="past",
        )
        mean = np.concatenate([start, self.mean[:, j]])
        ax.plot(x, mean, color=BLUE, linewidth=1.6, label="forecast")
        if self.actual is not None:
            times = self.times[: len(self.actual)]
            look = {"color": VERMILION, "markersize": 3}
            ax.plot(times, self.actual[:, j], "o", label="actual", **look)
        ax.set_ylabel(self.names[j])
        ax.margins(x=0.01)
        _date_ticks(ax, x)
        if j == 0:
            self._label(ax, j)

    def _label(self, ax: Any, j: int) -> None:
        """Name the intervals at their upper ends, and the points, without overlap."""
        ends = [("mean", self.mean[-1, j], BLUE)]
        for level, (_, upper) in self.limits.items():
            ends.append((f"{level:.0%}", upper[-1, j], BLUE))
        if self.actual is not None and len(self.actual) == len(self.times):
            ends.append(("actual", self.actual[-1, j], VERMILION))
        _name_ends(ax, self.times[-1], ends)


class BacktestDisplay(Display):
    """Forecasts from past origins on top of what followed, and their errors by steps ahead.

    Parameters
    ----------
    backtest : Backtest
        As `regfactor.model_selection.backtest` returns it.
    past : array-like of shape (n_samples, n_series), optional
        The series, drawn behind the forecasts; by default only what followed the origins.
    times : array-like of shape (n_samples,), optional
        Numbers or datetime64 of the rows; by default 0, 1, 2, ...
    series : str or int, default=0
        Which series is drawn.

    Attributes
    ----------
    ax_ : array of Axes
        Of the forecasts and of the errors.
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoForecaster
    >>> from regfactor.model_selection import backtest
    >>> from regfactor.plots import BacktestDisplay
    >>> x = np.random.default_rng(0).normal(size=80).cumsum()
    >>> found = backtest(AutoForecaster(season=1), x, horizon=6, n_origins=3)
    >>> display = BacktestDisplay(found, x).plot()
    """

    def __init__(
        self,
        backtest: Backtest,
        past: Any = None,
        times: Any = None,
        series: Any = 0,
    ) -> None:
        self.backtest = backtest
        self.series = position(series, backtest.names)
        self.past: Array | None = None
        if past is not None:
            given = SeriesRows.of(past)
            self.past = _table(given.table)[:, self.series]
            if times is None:
                times = _numbers(given.times.index)
        n_rows = int(backtest.origins[-1]) + backtest.horizon
        if times is None:
            self.times = np.arange(n_rows)
        else:
            self.times = np.asarray(times)
        if len(self.times) < n_rows:
            raise ValueError(f"times must be of {n_rows} rows, got {len(self.times)}.")

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, or array of two, optional
            One is divided.

        Returns
        -------
        BacktestDisplay
        """
        axes = self._panels(ax, 1, 2, (5.2, 3.4))
        self._draw_forecasts(axes[0, 0])
        self._draw_errors(axes[0, 1])
        return self

    def _draw_forecasts(self, ax: Any) -> None:
        found = self.backtest
        j = self.series
        made = found.forecasts[found.best]
        if self.past is not None:
            first = int(found.origins[0])
            start = max(0, first - PAST_SPANS * (len(self.past) - first))
            recent = slice(start, len(self.past))
            ax.plot(
                self.times[recent],
                self.past[recent],
                color=INK,
                linewidth=1.1,
            )
        for k, origin in enumerate(found.origins):
            rows = np.arange(origin, origin + found.horizon)
            x = self.times[rows]
            if made.lower is not None and made.upper is not None:
                for lower, upper in zip(made.lower, made.upper, strict=True):
                    look = {"color": BLUE, "alpha": 0.16, "linewidth": 0}
                    ax.fill_between(
                        x,
                        lower[k, :, j],
                        upper[k, :, j],
                        **look,
                    )
            ax.plot(x, made.mean[k, :, j], color=BLUE, linewidth=1.6)
            if self.past is None:
                ax.plot(
                    x,
                    found.actual[k, :, j],
                    "o",
                    color=INK,
                    markersize=2.5,
                )
            ax.axvline(self.times[origin - 1], color=FAINT, linewidth=0.8, zorder=0)
        ax.set_ylabel(found.names[j])
        levels = ", ".join(f"{level:.0%}" for level in found.levels)
        shown = f" and its {levels} intervals" if made.lower is not None else ""
        ax.set_title(f"{found.best}{shown}", fontsize=9)
        _date_ticks(ax, self.times)

    def _draw_errors(self, ax: Any) -> None:
        found = self.backtest
        steps = np.arange(1, found.horizon + 1)
        colors = {"naive": INK, "seasonal naive": GREEN}
        ends = []
        for name in found.forecasts:
            errors = mean_of_known(found.scaled_errors(name)[:, :, self.series], 0)
            color = colors.get(name, BLUE if name == found.best else VERMILION)
            ax.plot(steps, errors, color=color, linewidth=1.6, marker="o", markersize=3)
            ends.append((NAIVE_WORDS.get(name, name), float(errors[-1]), color))
        ax.set_ylim(bottom=0)
        ax.set_xlabel("steps ahead")
        ax.set_ylabel("mean absolute scaled error")
        ax.set_title(f"errors from {len(found.origins)} origins", fontsize=9)
        ax.xaxis.get_major_locator().set_params(integer=True)
        _name_ends(ax, steps[-1], ends)


def _name_ends(ax: Any, x: Any, ends: list[tuple[str, float, str]]) -> None:
    """Write names at the ends of lines, without overlap."""
    ax.set_ylim(ax.get_ylim())  # positions below are in pixels
    points = 72 / ax.figure.dpi
    highest = np.inf
    look = {"fontsize": 8, "va": "center", "annotation_clip": False}
    for text, y, color in sorted(ends, key=lambda end: -end[1]):
        height = ax.transData.transform((0, y))[1] * points
        moved = min(height, highest)
        word(
            ax,
            x,
            y,
            text,
            color=color,
            xytext=(6, moved - height),
            **look,
        )
        highest = moved - LABEL_DISTANCE


class SeasonDisplay(Display):
    """Gains in log evidence of the seasons that AutoForecaster compared, the found one marked.

    Parameters
    ----------
    gains : dict of int to float
        By number of rows.
    season : int
        The one that was found; 1 for none.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoForecaster
    >>> from regfactor.plots import SeasonDisplay
    >>> t = np.arange(96)
    >>> x = np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).normal(size=96)
    >>> display = SeasonDisplay.from_estimator(AutoForecaster().fit(x))
    """

    def __init__(self, gains: dict[int, float], season: int) -> None:
        self.gains = dict(sorted(gains.items()))
        self.season = season

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None) -> Self:
        """Draw the seasons that a fitted AutoForecaster compared.

        Parameters
        ----------
        estimator : AutoForecaster fitted with season="auto"
        ax : Axes, optional

        Returns
        -------
        SeasonDisplay
        """
        gains = drawn_from(cls, estimator, "season_gains_", "Fit it with season='auto'.")
        return cls(gains, estimator.season_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        SeasonDisplay
        """
        axis = self._panels(ax)[0, 0]
        places = np.arange(len(self.gains))
        colors = [BLUE if season == self.season else "0.7" for season in self.gains]
        values = list(self.gains.values())
        axis.bar(places, values, color=colors, width=0.7)
        axis.axhline(0, color=INK, linewidth=0.8)
        axis.set_xticks(places, [str(season) for season in self.gains])
        axis.set_xlabel("rows of a season")
        axis.set_ylabel("gain in log evidence")
        if self.season in self.gains:
            at = list(self.gains).index(self.season)
            word(
                axis,
                places[at],
                max(values[at], 0),
                "found",
                color=BLUE,
                xytext=(0, 4),
                ha="center",
            )
        else:
            axis.set_title("No season was found", fontsize=9)
        return self


class ForecastComponentsDisplay(Display):
    """The level, the season and the effect of inputs of a forecast, a panel for each.

    Parameters
    ----------
    components : ForecastComponents
        As `AutoForecaster.components` returns them.
    series : str or int, default=0
        Which series is drawn.

    Attributes
    ----------
    ax_ : array of Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoForecaster
    >>> from regfactor.plots import ForecastComponentsDisplay
    >>> t = np.arange(96)
    >>> x = t + 9 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).normal(size=96)
    >>> model = AutoForecaster().fit(x)
    >>> display = ForecastComponentsDisplay.from_estimator(model, horizon=24)
    """

    def __init__(self, components: ForecastComponents, series: Any = 0) -> None:
        names = [str(name) for name in components.times.names]
        j = position(series, names)
        self.name = names[j]
        parts = {
            "level": components.level[:, j],
            "season": components.season[:, j],
            "inputs": components.inputs[:, j],
        }
        # parts that are zero but for rounding are left out
        size = np.abs(parts["level"]).max()
        self.parts = {
            name: values
            for name, values in parts.items()
            if name == "level" or np.abs(values).max() > 1e-9 * size
        }
        horizon = len(components.level)
        times = _numbers(components.times.future(horizon))
        if times is None:
            times = components.times.length + np.arange(horizon)
        self.times = times

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        horizon: int = 12,
        exog: Any = None,
        series: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Draw the parts of the forecast of a fitted AutoForecaster.

        Parameters
        ----------
        estimator : fitted AutoForecaster
        horizon : int, default=12
        exog : array-like of shape (horizon, n_inputs), optional
        series : str or int, default=0
        ax : Axes, or array of as many as there are parts, optional

        Returns
        -------
        ForecastComponentsDisplay
        """
        components = drawn_from(cls, estimator, "components", "Use AutoForecaster.")
        return cls(components(horizon, exog), series).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, or array of as many as there are parts, optional
            One is divided.

        Returns
        -------
        ForecastComponentsDisplay
        """
        n_parts = len(self.parts)
        axes = self._panels(
            ax,
            n_parts,
            1,
            (6.4, 3.4 if n_parts == 1 else 1.7),
            sharex=True,
        )
        for panel, (name, values) in zip(axes.flat, self.parts.items(), strict=True):
            if name == "level":
                panel.plot(self.times, values, color=BLUE, linewidth=1.6)
            else:
                panel.axhline(0, color=INK, linewidth=0.8)
                panel.plot(self.times, values, "o-", color=BLUE, linewidth=1.2, markersize=3)
            panel.set_ylabel(name)
            _date_ticks(panel, self.times)
        axes.flat[0].set_title(f"parts of the forecast of {self.name}", fontsize=9)
        if self.times.dtype.kind != "M":
            axes.flat[-1].set_xlabel("time")
        return self


def _date_ticks(ax: Any, times: Array) -> None:
    """Label an axis of dates briefly."""
    if times.dtype.kind != "M":
        return
    dates = importlib.import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(minticks=3, maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _past(estimator: Any, X: Any, forecast: Forecast) -> tuple[Array, Array, Array]:
    """Return past rows, their times, and those of the forecast: all numbers, or all dates."""
    if X is None and hasattr(estimator, "observed"):
        X = estimator.observed()
    if X is None:
        fitted = estimator.predict()
        rows = np.asarray(fitted, float) + estimator.residuals_
        index = getattr(fitted, "index", None)
        end = len(rows) + estimator.d_ + max(estimator.p_, estimator.exog_lags)
    else:
        given = SeriesRows.of(X)
        rows = _table(given.table)
        index = given.times.index
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
    if getattr(index, "tz", None) is not None:
        index = index.tz_localize(None)
    values = np.asarray(index)
    if values.dtype.kind in "iufM":
        return values
    return None


def _table(values: Any) -> Array:
    values = np.asarray(values, float)
    if values.ndim == 1:
        return values[:, None]
    return values
