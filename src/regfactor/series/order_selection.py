"""Forecasts from past origins: which orders have the lowest backtest error, and how the best does.

Candidates are compared on rows before those on which the chosen one is then evaluated, so that the
evaluation is honest.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.arma.estimator import RegularizedARMA
from regfactor.series.arma.selection import interpolated
from regfactor.series.forecast import Forecast

MIN_FITTED_ROWS = 10
N_EVALUATION_ORIGINS = 3  # at the end of the series, for the chosen candidate
N_COMPARISON_ORIGINS = 8  # before them, for all candidates
MAX_FITTED_ROWS = 2000  # of a past fit, so that a long series takes no longer
MIN_SEASONS = 3  # that a series must hold before lags of a season are compared
STEP_NAMES = ("values", "changes from row to row", "changes of changes")


@dataclass(frozen=True)
class Orders:
    """Orders that are given; None where they are to be chosen."""

    lags: int | None = None
    difference: int | None = None
    season: int | None = None


@dataclass(frozen=True)
class ArmaCandidate:
    """A model with given lags, or with lags chosen by BIC (None), of values or of their changes.

    `season` is positive where the lags span one.
    """

    lags: int | None
    difference: int = 0
    season: int = 0

    def model(self) -> RegularizedARMA:
        """Return the unfitted model."""
        return RegularizedARMA(
            p="bic" if self.lags is None else self.lags,
            d=self.difference,
            season=1,
            shrinkage=0.1,
            ridge=1e-3,
        )

    @property
    def min_rows(self) -> int:
        """Smallest number of rows that it is fitted to."""
        seasonal = (MIN_SEASONS - 1) * self.season + 2
        lagged = (self.lags or 0) + self.difference + 2
        return max(MIN_FITTED_ROWS, seasonal, lagged)

    def __str__(self) -> str:
        step = STEP_NAMES[self.difference]
        if self.lags is None:
            return f"lags of {step}, as many as BIC chooses"
        lags = "1 lag" if self.lags == 1 else f"{self.lags:,} lags"
        if self.season:
            return f"{lags} of {step}, a season of {self.season} and one more"
        return f"{lags} of {step}"


@dataclass(frozen=True)
class BacktestChoice:
    """The candidate with the lowest error, and what the comparison found.

    `errors` are mean absolute errors in standard deviations of the series, empty if nothing was
    compared; `origins` are the rows from which the candidate is to be evaluated; `widening` is the
    factor by which intervals must be wider to have covered the stated share.
    """

    best: ArmaCandidate
    errors: dict[ArmaCandidate, float] = field(default_factory=dict)
    origins: list[int] = field(default_factory=list)
    widening: float = 1.0


@frozen
class Evaluation:
    """Forecasts of the end of a series: coverage of the intervals, and errors of each series.

    `naive_errors` are those of the better of two naive forecasts, described by `naive`.
    """

    n_values: int
    coverage: float
    errors: Array
    naive_errors: Array
    naive: str


def arma_candidates(
    orders: Orders,
    season: int | None,
    shape: tuple[int, ...],
) -> list[ArmaCandidate]:
    """Return lags by BIC and of a season, of values and of changes, where they are not given."""
    differences = (0, 1) if orders.difference is None else (orders.difference,)
    if orders.lags is not None:
        return [ArmaCandidate(orders.lags, difference) for difference in differences]
    found = [ArmaCandidate(None, difference) for difference in differences]
    n_rows, n_series = shape
    # one lag more than a season shows what changed since this time of the last one
    season = season or 1
    lags = season + 1
    if season > 1 and n_rows >= max(MIN_SEASONS * season, lags + lags * n_series):
        found += [ArmaCandidate(lags, difference, season) for difference in differences]
    return found


def choose_candidate(
    candidates: Sequence[ArmaCandidate],
    X: Array,
    horizon: int,
    level: float,
) -> BacktestChoice:
    """Return the candidate with the lowest error, on rows before those of the evaluation."""
    candidates, origins = _split(candidates, len(X), horizon)
    X = X[: min(origins, default=0)][-MAX_FITTED_ROWS:]
    steps = _steps_ahead(len(X), horizon)
    first = max(len(X) // 2, *(candidate.min_rows for candidate in candidates))
    if first > len(X) - steps or not _varies(X[:first]):
        return BacktestChoice(candidates[0], origins=origins)
    past = np.unique(np.linspace(first, len(X) - steps, N_COMPARISON_ORIGINS).astype(int))
    truth = _following_rows(X, past, steps)
    scale = np.nanstd(X, axis=0)
    forecasts = {}
    errors = {}
    for candidate in candidates:
        forecast = _forecasts(candidate, X, past, steps, level)
        error = np.nanmean(np.abs(truth - forecast.mean) / scale)
        forecasts[candidate] = forecast
        errors[candidate] = float(np.nan_to_num(error, nan=np.inf))
    best = min(candidates, key=lambda candidate: errors[candidate])
    return BacktestChoice(
        best,
        errors if len(candidates) > 1 else {},
        origins,
        _widening(truth, forecasts[best], level),
    )


def _widening(truth: Array, forecast: Forecast, level: float) -> float:
    """Return the factor at which intervals would have covered the share `level`, at least 1."""
    half = forecast.upper - forecast.mean
    known = ~np.isnan(truth) & (half > 0)
    if not known.any():
        return 1.0
    ratios = np.abs(truth - forecast.mean)[known] / half[known]
    return max(1.0, float(np.quantile(ratios, level)))


def widened(forecast: Forecast, factor: float) -> Forecast:
    """Return a forecast with its limits further from the mean by a factor."""
    half = factor * (forecast.upper - forecast.mean)
    return replace(forecast, lower=forecast.mean - half, upper=forecast.mean + half)


def evaluate_candidate(
    choice: BacktestChoice,
    X: Array,
    horizon: int,
    level: float,
    season: int | None,
) -> Evaluation | None:
    """Forecast the end of a series from earlier rows, and compare; None if it is too short."""
    candidate = choice.best
    steps = _steps_ahead(len(X), horizon)
    origins = [
        origin
        for origin in choice.origins
        if origin >= candidate.min_rows and _varies(X[:origin][-MAX_FITTED_ROWS:])
    ]
    if not origins:
        return None
    truth = _following_rows(X, origins, steps)
    known = ~np.isnan(truth)
    if not known.any():
        return None
    forecast = widened(_forecasts(candidate, X, origins, steps, level), choice.widening)
    naive = {"the last value repeated": _repeated_rows(X, origins, steps, 1)}
    if season is not None and 1 < season <= min(origins):
        naive["the last season repeated"] = _repeated_rows(X, origins, steps, season)
    naive_errors = {
        name: np.nanmean(np.abs(truth - values), axis=0) for name, values in naive.items()
    }
    scale = np.nanstd(X, axis=0)
    better = min(naive_errors, key=lambda name: np.nanmean(naive_errors[name] / scale))
    covered = ((truth >= forecast.lower) & (truth <= forecast.upper))[known]
    return Evaluation(
        n_values=len(covered),
        coverage=float(covered.mean()),
        errors=np.nanmean(np.abs(truth - forecast.mean), axis=0),
        naive_errors=naive_errors[better],
        naive=better,
    )


def _split(
    candidates: Sequence[ArmaCandidate],
    n_rows: int,
    horizon: int,
) -> tuple[Sequence[ArmaCandidate], list[int]]:
    """Return the candidates that can be compared, and the origins of the evaluation.

    The first half of the rows is left to fits; there are fewer origins where a season needs rows.
    """
    steps = _steps_ahead(n_rows, horizon)
    ends = [n_rows - i * steps for i in range(1, N_EVALUATION_ORIGINS + 1)]
    origins = [end for end in ends if steps and end >= n_rows // 2]
    for n_origins in range(len(origins), 0, -1):
        kept = origins[:n_origins]
        if all(_fits_before(candidate, kept[-1], horizon) for candidate in candidates):
            return candidates, kept
    if origins:
        possible = [c for c in candidates if _fits_before(c, origins[-1], horizon)]
        return possible or candidates[:1], origins
    return candidates[:1], origins


def _fits_before(candidate: ArmaCandidate, origin: int, horizon: int) -> bool:
    return candidate.min_rows <= origin - _steps_ahead(origin, horizon)


def _steps_ahead(n_rows: int, horizon: int) -> int:
    """Return how far ahead forecasts of so many rows are evaluated."""
    return min(horizon, n_rows // 5)


def _varies(past: Array) -> bool:
    """Return whether every series has values that differ."""
    if np.isnan(past).all(axis=0).any():
        return False
    return bool(np.nanstd(past, axis=0).all())


def _forecasts(
    candidate: ArmaCandidate,
    X: Array,
    origins: Sequence[int] | Array,
    steps: int,
    level: float,
) -> Forecast:
    """Return the forecasts from all origins, each by a fit to the rows before it."""
    forecasts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of past fits; the final one reports its own
        for origin in origins:
            model = candidate.model().fit(X[:origin][-MAX_FITTED_ROWS:])
            forecasts.append(model.forecast(steps, level=level))
    return Forecast(
        np.concatenate([forecast.mean for forecast in forecasts]),
        np.concatenate([forecast.lower for forecast in forecasts]),
        np.concatenate([forecast.upper for forecast in forecasts]),
        level,
    )


def _following_rows(X: Array, origins: Sequence[int] | Array, steps: int) -> Array:
    """Return the rows after each origin, one block after another."""
    return np.concatenate([X[origin : origin + steps] for origin in origins])


def _repeated_rows(X: Array, origins: Sequence[int], steps: int, n_repeated: int) -> Array:
    """Return the last rows before each origin, repeated; missing values are interpolated."""
    blocks = []
    for origin in origins:
        last = interpolated(X[:origin])[-n_repeated:]
        blocks.append(np.resize(last, (steps, X.shape[1])))
    return np.concatenate(blocks)
