"""Forecasts of any forecaster: this library's, sktime's, or a model of statsforecast."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.core.params import Array, frozen


@frozen
class OriginForecast:
    """Means of shape (horizon, n_series), and limits with a first axis of the levels or None.

    `season` is the one that the forecaster found in the past; 1 for none.
    """

    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    season: int = 1


@frozen
class PastRows:
    """What is known at an origin: rows of the series, and inputs of these and of the next rows."""

    series: Any
    exog: Any = None
    future_exog: Any = None

    @property
    def values(self) -> Array:
        """The series as an array of shape (n_rows, n_series)."""
        return as_columns(self.series)


def as_columns(table: Any) -> Array:
    """Return a table or a vector as a float array with a column for each series."""
    values = np.asarray(table, dtype=float)
    if values.ndim == 1:
        return values[:, None]
    return values


def take_rows(table: Any, start: int, stop: int) -> Any:
    """Return the rows of an array or frame from start to before stop; None stays None."""
    if table is None:
        return None
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    if isinstance(table, list | tuple):
        table = np.asarray(table)
    return table[start:stop]


def fresh(forecaster: Any) -> Any:
    """Return an unfitted copy."""
    if hasattr(forecaster, "get_params"):
        return clone(forecaster)
    return copy.deepcopy(forecaster)


def check_forecaster(forecaster: Any) -> None:
    """Raise unless a forecast can be asked for in one of the known ways."""
    if isinstance(forecaster, type):
        raise ValueError(
            f"forecaster must be an object, not its class: write {forecaster.__name__}()."
        )
    if hasattr(forecaster, "models") and hasattr(forecaster, "cross_validation"):
        raise ValueError(
            "forecaster must be one model; of a StatsForecast, give its models by their names: "
            "backtest({str(m): m for m in sf.models}, ...)."
        )
    if not hasattr(forecaster, "fit"):
        raise ValueError(f"forecaster must have a method fit, got {forecaster!r}.")
    if not (_is_sktime(forecaster) or hasattr(forecaster, "forecast")):
        raise ValueError(
            f"{type(forecaster).__name__} has no method forecast(horizon), and predict(fh=...) of "
            "sktime neither; wrap it in a class that has."
        )


def forecast_at(
    forecaster: Any,
    past: PastRows,
    horizon: int,
    levels: Sequence[float],
) -> OriginForecast:
    """Fit a copy of a forecaster to the past, and return its forecast."""
    model = fresh(forecaster)
    if _is_sktime(model):
        return _by_sktime(model, past, horizon, levels)
    if _is_statsforecast(model):
        return _by_statsforecast(model, past, horizon, levels)
    return _by_fit_and_forecast(model, past, horizon, levels)


def _arguments(method: Any) -> set[str]:
    return set(inspect.signature(method).parameters)


def _is_sktime(model: Any) -> bool:
    return hasattr(model, "predict") and "fh" in _arguments(model.predict)


def _is_statsforecast(model: Any) -> bool:
    return hasattr(model, "forecast") and {"y", "h"} <= _arguments(model.forecast)


def _by_fit_and_forecast(
    model: Any,
    past: PastRows,
    horizon: int,
    levels: Sequence[float],
) -> OriginForecast:
    """Forecast by `fit(X, exog=)` and `forecast(horizon, exog=, level=)`."""
    fitted_with = {}
    forecast_with = {}
    if past.exog is not None:
        fitted_with = {"exog": past.exog}
        forecast_with = {"exog": past.future_exog}
    model.fit(past.series, **fitted_with)
    mean = _shaped(model.forecast(horizon, **forecast_with), past, horizon)
    season = int(getattr(model, "season_", 1))
    if not levels or "level" not in _arguments(model.forecast):
        return OriginForecast(mean, season=season)
    found = [model.forecast(horizon, level=level, **forecast_with) for level in levels]
    if any(getattr(single, "lower", None) is None for single in found):
        return OriginForecast(mean, season=season)
    lower = np.stack([_shaped(single.lower, past, horizon) for single in found])
    upper = np.stack([_shaped(single.upper, past, horizon) for single in found])
    return OriginForecast(mean, lower, upper, season)


def _by_sktime(
    model: Any,
    past: PastRows,
    horizon: int,
    levels: Sequence[float],
) -> OriginForecast:
    """Forecast by `fit(y, X, fh)`, `predict` and `predict_interval`."""
    pandas = importlib.import_module("pandas")
    y = past.series
    if not hasattr(y, "iloc"):
        y = pandas.DataFrame(past.values)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0]
    steps = list(range(1, horizon + 1))
    model.fit(y, X=past.exog, fh=steps)
    mean = _shaped(model.predict(fh=steps, X=past.future_exog), past, horizon)
    if not levels or not model.get_tag("capability:pred_int", False, raise_error=False):
        return OriginForecast(mean)
    limits = model.predict_interval(fh=steps, X=past.future_exog, coverage=list(levels))
    # columns are ordered by series, then coverage, then lower and upper
    values = np.asarray(limits, dtype=float).reshape(
        horizon,
        mean.shape[1],
        len(levels),
        2,
    )
    by_level = values.transpose(2, 0, 1, 3)
    return OriginForecast(mean, by_level[..., 0], by_level[..., 1])


def _by_statsforecast(
    model: Any,
    past: PastRows,
    horizon: int,
    levels: Sequence[float],
) -> OriginForecast:
    """Forecast each series alone by `forecast(y, h, X, X_future, level)`."""
    inputs = None
    future = None
    if past.exog is not None:
        inputs = as_columns(past.exog)
        future = as_columns(past.future_exog)
    percent = [round(100 * level, 6) for level in levels]
    percent = [int(p) if p == int(p) else p for p in percent]
    means = []
    lower = []
    upper = []
    for column in past.values.T:
        found = fresh(model).forecast(
            y=np.ascontiguousarray(column),
            h=horizon,
            X=inputs,
            X_future=future,
            level=percent or None,
        )
        means.append(found["mean"])
        if percent and f"lo-{percent[0]}" in found:
            lower.append([found[f"lo-{p}"] for p in percent])
            upper.append([found[f"hi-{p}"] for p in percent])
    mean = np.stack(means, axis=1)
    if not lower:
        return OriginForecast(mean)
    return OriginForecast(mean, np.stack(lower, axis=2), np.stack(upper, axis=2))


def _shaped(found: Any, past: PastRows, horizon: int) -> Array:
    """Return what a forecaster returned as an array of shape (horizon, n_series)."""
    if hasattr(found, "mean") and not callable(found.mean):
        found = found.mean
    values = as_columns(found)
    wanted = (horizon, past.values.shape[1])
    if values.shape != wanted:
        raise ValueError(f"The forecast has shape {values.shape}; it must be {wanted}.")
    return values
