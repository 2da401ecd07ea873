"""Forecasts from past origins, compared with what followed and with naive forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from regfactor.core.params import Array, frozen, optional
from regfactor.fitting.parameters import check_level, require_at_least
from regfactor.series.any_forecaster import (
    OriginForecast,
    PastRows,
    as_columns,
    check_forecaster,
    forecast_at,
    take_rows,
)
from regfactor.series.regular_times import is_dates
from regfactor.series.shapes import SeriesRows
from regfactor.series.times import Times

LEVELS = (0.8, 0.95)
N_ORIGINS = 5
MIN_ROWS = 3  # that are known at an origin
NAIVE = "naive"
SEASONAL_NAIVE = "seasonal naive"
NAIVE_WORDS = {NAIVE: "the last value repeated", SEASONAL_NAIVE: "the last season repeated"}
NOISE = 2.0  # standard errors within which a coverage agrees with its level
MAX_NAMED_SERIES = 5


@frozen
class PastForecasts:
    """Forecasts of one model from all origins.

    Attributes
    ----------
    mean : array of shape (n_origins, horizon, n_series)
    lower, upper : array of shape (n_levels, n_origins, horizon, n_series), or None
    """

    mean: Array
    lower: Array | None = None
    upper: Array | None = None

    @staticmethod
    def of(found: Sequence[OriginForecast]) -> PastForecasts:
        """Return forecasts that were made one origin after another."""
        mean = np.stack([one.mean for one in found])
        lower = [one.lower for one in found if one.lower is not None]
        upper = [one.upper for one in found if one.upper is not None]
        if len(lower) < len(found):
            return PastForecasts(mean)
        return PastForecasts(mean, np.stack(lower, axis=1), np.stack(upper, axis=1))


@frozen
class Backtest:
    """What forecasts from past origins were worth; its `str` is a table and plain sentences.

    Attributes
    ----------
    names : list of str
        Of the series.
    forecasts : dict of str to PastForecasts
        Of each forecaster by its name, and of "naive" and "seasonal naive".
    actual : ndarray of shape (n_origins, horizon, n_series)
        What followed; NaN where it is missing.
    origins : ndarray of int of shape (n_origins,)
        Numbers of rows known at each origin.
    labels : list
        The last known time at each origin; the number of rows where there are no times.
    levels : tuple of float
    season : int
        Rows of the season of "seasonal naive" and of the scale of errors; 1 for none.
    scale : ndarray of shape (n_origins, n_series)
        Mean absolute change over a season in the rows known at each origin.
    squared_scale : ndarray of shape (n_origins, n_series)
        The mean squared one.
    """

    names: list[str]
    forecasts: dict[str, PastForecasts]
    actual: Array
    origins: Array
    labels: list[Any]
    levels: tuple[float, ...]
    season: int
    scale: Array
    squared_scale: Array

    @property
    def horizon(self) -> int:
        """Number of steps ahead."""
        return int(self.actual.shape[1])

    @property
    def forecasters(self) -> list[str]:
        """Names of the forecasters, without the naive ones."""
        return [name for name in self.forecasts if name not in NAIVE_WORDS]

    def scaled_errors(self, name: str) -> Array:
        """Return absolute errors over `scale`, whose mean is the MASE, like `actual`."""
        errors = np.abs(self.actual - self.forecasts[name].mean)
        return np.asarray(errors / self.scale[:, None])

    def squared_errors(self, name: str) -> Array:
        """Return squared errors over `squared_scale`; the root of their mean is the RMSSE."""
        errors = np.square(self.actual - self.forecasts[name].mean)
        return np.asarray(errors / self.squared_scale[:, None])

    def pinball_losses(self, name: str) -> Array | None:
        """Return scaled pinball losses, averaged over the mean and the limits; None without them.

        Over many levels this is half the continuous ranked probability score.
        """
        made = self.forecasts[name]
        if made.lower is None or made.upper is None:
            return None
        losses = [0.5 * np.abs(self.actual - made.mean)]
        for level, lower, upper in zip(self.levels, made.lower, made.upper, strict=True):
            tail = (1 - level) / 2
            losses.append(_pinball(self.actual - lower, tail))
            losses.append(_pinball(self.actual - upper, 1 - tail))
        return np.asarray(np.mean(losses, axis=0) / self.scale[:, None])

    def covered(self, name: str, level: float) -> Array | None:
        """Return 1 where the interval of a level holds what followed, else 0; NaN if missing."""
        made = self.forecasts[name]
        if made.lower is None or made.upper is None:
            return None
        at = self.levels.index(level)
        inside = (made.lower[at] <= self.actual) & (self.actual <= made.upper[at])
        return np.where(np.isnan(self.actual), np.nan, inside)

    def scores(self, name: str, axis: Any = None) -> dict[str, Array]:
        """Return the scores of a forecaster by their names, averaged over axes of `actual`."""
        pinball = self.pinball_losses(name)
        found = {
            "MASE": mean_of_known(self.scaled_errors(name), axis),
            "RMSSE": np.sqrt(mean_of_known(self.squared_errors(name), axis)),
            "pinball": np.nan * mean_of_known(self.actual, axis),
        }
        if pinball is not None:
            found["pinball"] = mean_of_known(pinball, axis)
        for level in self.levels:
            inside = self.covered(name, level)
            key = f"coverage {level:.0%}"
            found[key] = np.nan * found["MASE"]
            if inside is not None:
                found[key] = mean_of_known(inside, axis)
        return found

    def to_frame(self, by: str | None = None) -> Any:
        """Return scores as a pandas frame, a row for each forecaster.

        Parameters
        ----------
        by : "series", "origin", "step" or None, default=None
            What rows are split by.

        Returns
        -------
        DataFrame
        """
        pandas = optional("pandas", "Backtest.to_frame", "pip install pandas")
        if by is None:
            rows = {name: self.scores(name) for name in self.forecasts}
            return pandas.DataFrame.from_dict(rows, orient="index")
        groups: dict[str, tuple[tuple[int, int], Any]] = {
            "series": ((0, 1), self.names),
            "origin": ((1, 2), self.labels),
            "step": ((0, 2), range(1, self.horizon + 1)),
        }
        if by not in groups:
            raise ValueError(f"by must be one of {sorted(groups)} or None, got {by!r}.")
        axis, keys = groups[by]
        frames = {}
        for name in self.forecasts:
            frames[name] = pandas.DataFrame(self.scores(name, axis), index=pandas.Index(keys))
        return pandas.concat(frames, names=["forecaster", by])

    @property
    def best_naive(self) -> str:
        """The naive forecast of the smaller error."""
        names = [name for name in self.forecasts if name in NAIVE_WORDS]
        return min(names, key=lambda name: float(self.scores(name)["MASE"]))

    @property
    def best(self) -> str:
        """The forecaster of the smallest error, naive ones left out."""
        return min(self.forecasters, key=lambda name: float(self.scores(name)["MASE"]))

    @property
    def beats_naive(self) -> bool:
        """Whether a forecaster has smaller errors than both naive forecasts."""
        best = self.scores(self.best)["MASE"]
        return bool(best < self.scores(self.best_naive)["MASE"])

    def worse_series(self, name: str) -> list[str]:
        """Return the series that the better naive forecast predicts as well or better."""
        ours = self.scores(name, (0, 1))["MASE"]
        naive = self.scores(self.best_naive, (0, 1))["MASE"]
        return [series for series, a, b in zip(self.names, ours, naive, strict=True) if a >= b]

    @property
    def sentences(self) -> list[str]:
        """What was found, in plain words."""
        found = []
        for name in self.forecasters:
            found.append(self._accuracy(name))
            found.extend(self._coverage(name))
        if not self.beats_naive:
            found.append(
                f"Nothing beats {NAIVE_WORDS[self.best_naive]} here: use that, look for inputs "
                "that explain the changes (exog), or forecast sums over longer times."
            )
        return found

    def _accuracy(self, name: str) -> str:
        ours = float(self.scores(name)["MASE"])
        naive = float(self.scores(self.best_naive)["MASE"])
        by_origin = self.scores(name, (1, 2))["MASE"] < self.scores(self.best_naive, (1, 2))["MASE"]
        size = "as large as"
        if ours < naive:
            size = f"{1 - ours / naive:.0%} smaller than"
        elif naive == 0 < ours:
            size = "larger than"
        elif ours > naive:
            size = f"{ours / naive - 1:.0%} larger than"
        if size.startswith("0%"):
            size = "as large as"
        words = (
            f"{name}: errors {size} those of {NAIVE_WORDS[self.best_naive]} "
            f"(MASE {ours:.3g} against {naive:.3g}), smaller from {int(by_origin.sum())} of "
            f"{len(self.origins)} origins."
        )
        worse = self.worse_series(name)
        if len(self.names) > 1 and worse:
            more = len(worse) - MAX_NAMED_SERIES
            rest = f" and {more} more" if more > 0 else ""
            words += f" No smaller for {', '.join(worse[:MAX_NAMED_SERIES])}{rest}."
        return words

    def _coverage(self, name: str) -> list[str]:
        found = []
        for level in self.levels:
            inside = self.covered(name, level)
            if inside is None:
                continue
            share = float(mean_of_known(inside))
            found.append(
                f"{name}: {share:.0%} of {int(np.isfinite(inside).sum())} values within the "
                f"{level:.0%} intervals, {self.coverage_verdict(name, level)}."
            )
        return found

    def coverage_verdict(self, name: str, level: float) -> str:
        """Return whether intervals hold fewer or more values than promised, beyond noise.

        Values from one origin are alike, so that an origin of a series counts as one value, and
        origins that overlap as fewer.
        """
        inside = self.covered(name, level)
        if inside is None:
            return "without intervals"
        blocks = mean_of_known(inside, 1)
        share = float(mean_of_known(inside))
        span = (self.origins[-1] - self.origins[0]) / self.horizon + 1
        overlap = min(1.0, span / len(self.origins))
        n_blocks = overlap * float(np.isfinite(blocks).sum())
        noise = NOISE * np.sqrt(level * (1 - level) / max(n_blocks, 1))
        if share < level - noise:
            return "fewer than promised"
        if share > level + noise:
            return "more than promised"
        return "as promised within noise"

    def __str__(self) -> str:
        width = max(len(name) for name in self.forecasts)
        columns = list(self.scores(self.best))
        lines = [
            f"{len(self.origins)} origins, {self.horizon} steps ahead, {len(self.names)} series",
            " " * width + "".join(f"{column:>14}" for column in columns),
        ]
        for name in self.forecasts:
            values = self.scores(name).values()
            cells = ("-" if np.isnan(value) else f"{value:.3f}" for value in values)
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
        return "\n".join([*lines, *self.sentences])


def backtest(
    forecaster: Any,
    series: Any,
    horizon: int,
    n_origins: int = N_ORIGINS,
    *,
    exog: Any = None,
    level: float | Sequence[float] = LEVELS,
    season: int | None = None,
    step: int | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> Backtest:
    """Forecast from past origins by fits to the rows before, and compare with what followed.

    Parameters
    ----------
    forecaster : object with fit and forecast, or dict of such by name
        This library's, one of sktime, or a model of statsforecast. Copies are fitted.
    series : array-like or frame of shape (n_samples, n_series), or a long table
        NaN marks a missing value, which is not judged.
    horizon : int
        Steps ahead.
    n_origins : int, default=5
        Fewer are used where the series is too short; the last one is `horizon` rows before the
        end, and at least half of the rows are known at the first.
    exog : array-like of shape (n_samples, n_inputs), optional
        Inputs whose future is known at each origin.
    level : float in (0, 1) or sequence of such, default=(0.8, 0.95)
        Of intervals, for forecasters that have them.
    season : int, optional
        Rows of a season, 1 for none; by default that of the dates, or where these have none, the
        one that the forecaster found.
    step : int, optional
        Rows between origins; by default `horizon`, or less where the series is short.
    callback : callable, optional
        Called after each origin with the number of those that are done, and of all.

    Returns
    -------
    Backtest
        A table by `to_frame()` or `print`; `sentences` in plain words; `beats_naive`.

    See Also
    --------
    regfactor.plots.BacktestDisplay : Draws the forecasts and errors.

    Notes
    -----
    Errors are divided by the mean absolute change over a season in the rows known at the origin
    (MASE), or are the root of squared ones over squared changes (RMSSE) [1]_. Limits are judged by
    the pinball loss in the same units, and by their coverage.

    References
    ----------
    .. [1] Hyndman and Koehler, "Another look at measures of forecast accuracy", IJF 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoForecaster
    >>> from regfactor.model_selection import backtest
    >>> months = np.arange(72)
    >>> noise = np.random.default_rng(0).normal(size=72)
    >>> sales = 100 + months + 20 * np.sin(2 * np.pi * months / 12) + noise
    >>> found = backtest(AutoForecaster(), sales, horizon=6, n_origins=2, season=12)
    >>> found.beats_naive
    True
    """
    given = _named(forecaster)
    for single in given.values():
        check_forecaster(single)
    require_at_least("horizon", horizon, 1)
    require_at_least("n_origins", n_origins, 1)
    levels = _levels(level)
    given_rows = SeriesRows.of(series)
    times = given_rows.times
    table = _with_times(given_rows)
    values = as_columns(given_rows.table)
    if season is not None:
        require_at_least("season", season, 1)
    origins = origin_rows(len(values), horizon, n_origins, step)
    _require_past(values, times, int(origins[0]))
    inputs = _aligned(exog, times, len(values))
    found: dict[str, list[OriginForecast]] = {name: [] for name in given}
    for n_done, origin in enumerate(origins, 1):
        past = PastRows(
            take_rows(table, 0, origin),
            take_rows(inputs, 0, origin),
            take_rows(inputs, origin, origin + horizon),
        )
        for name, single in given.items():
            found[name].append(_forecast_of(name, single, past, horizon, levels))
        if callback is not None:
            callback(n_done, len(origins))
    forecasts = {name: PastForecasts.of(made) for name, made in found.items()}
    if season is None:
        season = _season_of(times, found)
    pasts = [values[:origin] for origin in origins]
    forecasts[NAIVE] = PastForecasts.of([naive_forecast(p, horizon, 1, levels) for p in pasts])
    if 1 < season <= origins[0]:
        made = [naive_forecast(past, horizon, season, levels) for past in pasts]
        forecasts[SEASONAL_NAIVE] = PastForecasts.of(made)
    else:
        season = 1
    changes = [_scale_changes(past, values, season) for past in pasts]
    return Backtest(
        names=[str(name) for name in times.names],
        forecasts=forecasts,
        actual=np.stack([values[origin : origin + horizon] for origin in origins]),
        origins=origins,
        labels=[times.label(int(origin) - 1) for origin in origins],
        levels=levels,
        season=season,
        scale=np.stack([mean_of_known(np.abs(change), 0) for change in changes]),
        squared_scale=np.stack([mean_of_known(np.square(change), 0) for change in changes]),
    )


def _require_past(values: Array, times: Times, first: int) -> None:
    """Raise for a series that has no value before the first origin."""
    empty = np.isnan(values[:first]).all(axis=0)
    if empty.any():
        name = times.names[int(np.argmax(empty))]
        raise ValueError(
            f"Series {name!r} has no value in the first {first} rows, which are known at the first "
            "origin. Leave it out, or choose fewer origins or a shorter horizon."
        )


def _with_times(rows: SeriesRows) -> Any:
    """Return a wide table whose index holds the times where there are any."""
    index = rows.times.index
    if index is None:
        return rows.table
    table = rows.table
    if not hasattr(table, "iloc"):
        pandas = optional("pandas", "A backtest of dates", "pip install pandas")
        table = pandas.DataFrame(table.to_numpy(), columns=rows.times.names)
    return table.set_axis(index, axis=0)


def _aligned(exog: Any, times: Times, n_rows: int) -> Any:
    """Return inputs with a row for each row of the series."""
    if exog is None:
        return None
    given = SeriesRows.of(exog, check=False)
    inputs = _with_times(given)
    if is_dates(times.index) and is_dates(given.times.index):
        missing = times.index[~times.index.isin(given.times.index)]
        if len(missing):
            raise ValueError(f"exog has no row for {missing[0]}; inputs must be known there.")
        return inputs.loc[times.index]
    if len(inputs) != n_rows:
        raise ValueError(
            f"exog has {len(inputs)} rows and the series {n_rows}; give a row for each time."
        )
    return inputs


def _season_of(times: Times, found: dict[str, list[OriginForecast]]) -> int:
    """Return the season of the dates, else the one that was found at the last origin."""
    if times.season > 1:
        return times.season
    return max(made[-1].season for made in found.values())


def _named(forecaster: Any) -> dict[str, Any]:
    if not isinstance(forecaster, Mapping):
        return {type(forecaster).__name__: forecaster}
    if not forecaster:
        raise ValueError("forecaster is empty; give at least one.")
    reserved = set(NAIVE_WORDS) & set(forecaster)
    if reserved:
        raise ValueError(f"{sorted(reserved)} are names of comparisons; give another name.")
    return {str(name): single for name, single in forecaster.items()}


def _levels(level: Any) -> tuple[float, ...]:
    if np.iterable(level) and not isinstance(level, str):
        levels = tuple(level)
    else:
        levels = (level,)
    for single in levels:
        check_level(single)
    return tuple(sorted({float(single) for single in levels}))


def _forecast_of(
    name: str,
    forecaster: Any,
    past: PastRows,
    horizon: int,
    levels: tuple[float, ...],
) -> OriginForecast:
    """Return a forecast; an error says from which origin."""
    try:
        return forecast_at(forecaster, past, horizon, levels)
    except Exception as error:
        error.add_note(f"In the backtest of {name}, fitted to the first {len(past.values)} rows.")
        raise


def origin_rows(n_rows: int, horizon: int, n_origins: int, step: int | None = None) -> Array:
    """Return the numbers of rows that are known at each origin, in ascending order."""
    last = n_rows - horizon
    if last < MIN_ROWS:
        raise ValueError(
            f"The series has {n_rows} rows; a backtest of {horizon} steps needs at least "
            f"{horizon + MIN_ROWS}. Choose a shorter horizon."
        )
    first = min(last, max(MIN_ROWS, n_rows // 2))
    if step is None:
        step = horizon
        if n_origins > 1:
            step = max(1, min(horizon, (last - first) // (n_origins - 1)))
    require_at_least("step", step, 1)
    origins = last - step * np.arange(n_origins)[::-1]
    return np.asarray(origins[origins >= first])


def naive_forecast(
    past: Array,
    horizon: int,
    season: int,
    levels: Sequence[float],
) -> OriginForecast:
    """Repeat the last season, a single row for season 1, with Gaussian limits.

    The variance is the mean squared change over a season in the past, times the number of seasons
    ahead. Missing values are those of the season before.

    Parameters
    ----------
    past : ndarray of shape (n_rows, n_series)
        NaN marks a missing value.
    horizon : int
        Number of rows ahead.
    season : int
        Rows of a season; 1 repeats the last row.
    levels : sequence of float
        Shares of the values that lie within the limits.

    Returns
    -------
    OriginForecast
        `mean` of shape (horizon, n_series), and `lower`, `upper` with a first axis of the levels.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.series import naive_forecast
    >>> naive_forecast(np.array([[1.0], [2.0], [1.0], [3.0]]), 3, 2, [0.9]).mean.ravel()
    array([1., 3., 1.])
    """
    last = _last_season(past, season)
    mean = np.resize(last, (horizon, past.shape[1]))
    changes = past[season:] - past[:-season]
    variance = mean_of_known(np.square(changes), 0)
    n_seasons = np.arange(horizon) // season + 1
    deviation = np.sqrt(np.where(np.isnan(variance), 0, variance) * n_seasons[:, None])
    quantiles = norm.ppf((1 + np.array(levels)) / 2)[:, None, None]
    return OriginForecast(mean, mean - quantiles * deviation, mean + quantiles * deviation)


def _last_season(past: Array, season: int) -> Array:
    """Return the last observed value at each phase of a season, (season, n_series)."""
    n_rows, n_series = past.shape
    n_seasons = -(-n_rows // season)
    padded = np.full((n_seasons * season, n_series), np.nan)
    padded[len(padded) - n_rows :] = past
    folded = padded.reshape(n_seasons, season, n_series)
    last = _last_observed(folded)
    overall = _last_observed(past)
    return np.where(np.isnan(last), overall, last)


def _last_observed(values: Array) -> Array:
    """Return the last value along the first axis that is not NaN."""
    known = ~np.isnan(values)
    at = len(values) - 1 - np.argmax(known[::-1], axis=0)
    return np.asarray(np.take_along_axis(values, at[None], axis=0)[0])


def _scale_changes(past: Array, values: Array, season: int) -> Array:
    """Return changes over a season; of all rows for a series that is constant in the past."""
    changes = past[season:] - past[:-season]
    still = ~np.any(np.nan_to_num(changes) != 0, axis=0)
    if not still.any():
        return changes
    every = values[season:] - values[:-season]
    found = np.full(every.shape, np.nan)
    found[: len(changes), ~still] = changes[:, ~still]
    found[:, still] = np.where(every[:, still] == 0, np.nan, every[:, still])
    return found


def _pinball(error: Array, quantile: float) -> Array:
    return np.asarray(np.maximum(quantile * error, (quantile - 1) * error))


def mean_of_known(values: Array, axis: Any = None) -> Array:
    """Return the mean of finite values along axes; NaN where there is none."""
    known = np.isfinite(values)
    total = np.where(known, values, 0).sum(axis=axis)
    counts = known.sum(axis=axis)
    return np.asarray(np.where(counts > 0, total / np.maximum(counts, 1), np.nan))
