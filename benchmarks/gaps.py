"""Series with gaps: missing values and forecasts of AutoForecaster next to state-space models of statsmodels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from statsmodels.tsa.statespace.sarimax import SARIMAX
from statsmodels.tsa.statespace.structural import UnobservedComponents

from benchmarks._peers import QUICK, table, versions
from benchmarks._series_sets import (
    Array,
    SeriesSet,
    co2_by_month,
    elnino_by_month,
    frame,
    shared,
    us_quarters,
)
from regfactor import AutoForecaster

DRAWS = range(2 if QUICK else 24)
MAX_ROWS = 160  # that are seen from an origin; origins are spread over the whole record
FIRST_ORIGIN = 0.6  # of the rows of a shorter record
LEVEL = 0.9
NORMAL_QUANTILE = 1.6448536269514722
BLOCK = 6
LATE_SHARE = 0.3  # of the rows that a series with a late start misses
MAX_STEPS = 50  # of maximum likelihood


@dataclass(frozen=True)
class Intervals:
    """Means and limits."""

    mean: Array
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Answer:
    """All cells of the past, and the next rows."""

    past: Intervals
    future: Intervals


def sets() -> dict[str, SeriesSet]:
    """Return six public sets."""
    return {
        "nile": SeriesSet(frame("nile")[["volume"]].to_numpy(float), 1, 6),
        "sunspots": SeriesSet(frame("sunspots")[["SUNACTIVITY"]].to_numpy(float), 1, 6),
        "co2, months": SeriesSet(co2_by_month(), 12, 12),
        "elnino, months": SeriesSet(elnino_by_month(), 12, 12),
        "macrodata, quarters": SeriesSet(us_quarters(), 1, 6),
        "canada_macro, quarters": SeriesSet(shared("canada_macro", 4), 1, 6),
    }


def some_cells(share: float) -> Callable[[Array, np.random.Generator], Array]:
    """Return a mask of single cells."""

    def mask(values: Array, rng: np.random.Generator) -> Array:
        return rng.random(values.shape) < share

    return mask


def block(values: Array, rng: np.random.Generator) -> Array:
    """Return a mask of six steps of every series, each somewhere else."""
    hidden = np.zeros(values.shape, dtype=bool)
    for column in hidden.T:
        start = rng.integers(2 * BLOCK, len(values) - BLOCK)
        column[start : start + BLOCK] = True
    return hidden


def late_start(values: Array, rng: np.random.Generator) -> Array:
    """Return a mask of the first rows: of all of one series, of every other one of several."""
    hidden = np.zeros(values.shape, dtype=bool)
    rows = int(LATE_SHARE * len(values)) + int(rng.integers(6))
    hidden[:rows, ::2] = True
    return hidden


GAPS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "5 % of cells": some_cells(0.05),
    "20 % of cells": some_cells(0.2),
    "six steps": block,
    "late start": late_start,
}


def ours(seen: Array, given: SeriesSet) -> Answer:
    """Return the answer of AutoForecaster, which is told nothing."""
    model = AutoForecaster().fit(seen)
    ahead = model.forecast(given.horizon, level=LEVEL)
    lower, upper = model.complete_interval(LEVEL)
    assert ahead.lower is not None and ahead.upper is not None
    return Answer(
        Intervals(np.asarray(model.complete()), np.asarray(lower), np.asarray(upper)),
        Intervals(ahead.mean, ahead.lower, ahead.upper),
    )


def by_columns(answers: list[Answer]) -> Answer:
    """Return the answers of single series side by side."""

    def joined(part: str) -> Intervals:
        found = [getattr(answer, part) for answer in answers]
        return Intervals(
            np.column_stack([one.mean for one in found]),
            np.column_stack([one.lower for one in found]),
            np.column_stack([one.upper for one in found]),
        )

    return Answer(joined("past"), joined("future"))


def around(mean: Array, variance: Array) -> Intervals:
    """Return normal intervals."""
    width = NORMAL_QUANTILE * np.sqrt(np.maximum(variance, 0))
    return Intervals(mean, mean - width, mean + width)


def state_space(make: Callable[[Array, int], Any]) -> Callable[[Array, SeriesSet], Answer]:
    """Return the answers of a model of statsmodels, its smoother's in the past."""

    def answer_one(values: Array, given: SeriesSet) -> Answer:
        result = make(values, given.season).fit(disp=False, maxiter=MAX_STEPS)
        smoothed = result.smoother_results
        Z = smoothed.design[:, :, 0] if smoothed.design.shape[2] == 1 else smoothed.design
        if Z.ndim == 3:
            signal = np.einsum("okt,kt->t", Z, smoothed.smoothed_state)
            spread = np.einsum("okt,klt,olt->t", Z, smoothed.smoothed_state_cov, Z)
        else:
            signal = (Z @ smoothed.smoothed_state)[0]
            spread = np.einsum("ok,klt,ol->t", Z, smoothed.smoothed_state_cov, Z)
        signal = signal + smoothed.obs_intercept[0]
        noise = smoothed.obs_cov[0, 0, 0]
        ahead = result.get_forecast(given.horizon)
        return Answer(
            around(signal, spread + noise),
            around(np.asarray(ahead.predicted_mean), np.asarray(ahead.var_pred_mean)),
        )

    def answer(seen: Array, given: SeriesSet) -> Answer:
        return by_columns([answer_one(column, given) for column in seen.T])

    return answer


def components(values: Array, season: int) -> Any:
    """Return a local linear trend with a season."""
    seasonal = season if season > 1 else None
    return UnobservedComponents(values, level="lltrend", seasonal=seasonal)


def seasonal_arima(values: Array, season: int) -> Any:
    """Return ARIMA(1, 1, 1), with a season the product with ARIMA(0, 1, 1)."""
    seasonal = (0, 1, 1, season) if season > 1 else (0, 0, 0, 0)
    return SARIMAX(values, order=(1, 1, 1), seasonal_order=seasonal)


METHODS: dict[str, Callable[[Array, SeriesSet], Answer]] = {
    "AutoForecaster": ours,
    "UnobservedComponents": state_space(components),
    "SARIMAX": state_space(seasonal_arima),
}


@dataclass
class Tally:
    """Squared errors in units of mean absolute changes, and hits, of cells or of steps."""

    squares: list[Array]
    hits: list[Array]

    def add(self, found: Intervals, truth: Array, units: Array, cells: Array) -> None:
        """Add some cells."""
        self.squares.append(np.square((found.mean - truth) / units)[cells])
        self.hits.append(((found.lower <= truth) & (truth <= found.upper))[cells])

    @property
    def columns(self) -> list[str]:
        """Error and coverage."""
        if not sum(len(part) for part in self.hits):
            return ["", ""]
        error = np.sqrt(np.concatenate(self.squares).mean())
        return [f"{error:.2f}", f"{100 * np.concatenate(self.hits).mean():.0f}"]

    @property
    def coverage(self) -> float:
        """Share of truths inside."""
        return float(np.concatenate(self.hits).mean())


def measured(given: SeriesSet, gap: str, method: str) -> tuple[Tally, Tally]:
    """Return what a method found of missing cells and of the rows that follow."""
    cells = Tally([], [])
    steps = Tally([], [])
    for draw in DRAWS:
        rng = np.random.default_rng(draw)
        n_seen = min(MAX_ROWS, int(FIRST_ORIGIN * len(given.values)))
        last = len(given.values) - given.horizon
        origin = n_seen + (last - n_seen) * draw // (len(DRAWS) - 1)
        past = given.values[origin - n_seen : origin]
        truth = given.values[origin : origin + given.horizon]
        hidden = GAPS[gap](past, rng)
        seen = np.where(hidden, np.nan, past)
        found = METHODS[method](seen, given)
        units = np.abs(np.diff(past, axis=0)).mean(axis=0)
        judged = hidden.copy()
        if gap == "late start":  # nothing is known of what came before
            judged[:] = False
        cells.add(found.past, past, units, judged)
        steps.add(found.future, truth, units, np.ones(truth.shape, dtype=bool))
    return cells, steps


def main() -> str:
    """Return the tables of missing cells and of forecasts."""
    rows = []
    every: dict[str, list[float]] = {method: [] for method in METHODS}
    for name, given in sets().items():
        for gap in GAPS:
            row = [name, gap]
            for method in METHODS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of statsmodels, on starting values
                    cells, steps = measured(given, gap, method)
                row += [*cells.columns, *steps.columns]
                every[method].append(steps.coverage)
            rows.append(row)
    head = "series | gaps | " + " | ".join(
        f"{method}: cells | in % | steps | in %" for method in METHODS
    )
    means = ", ".join(f"{method} {100 * np.mean(found):.1f} %" for method, found in every.items())
    return "\n".join(
        [
            "# Series with gaps",
            "",
            f"Root mean squared errors in mean absolute changes, and how many per cent of the truths lie in {LEVEL:.0%} intervals: of missing cells, and of the rows that",
            f"follow; {len(DRAWS)} origins each over the whole record, from each of which at most {MAX_ROWS} rows are seen. The models of statsmodels (local linear trend; ARIMA(1, 1, 1)) are told the season, ours is told nothing. Cells before a late",
            "start are not judged. " + versions("statsmodels") + ".",
            "",
            *table(head, rows),
            "",
            f"Mean coverage of the rows that follow: {means}.",
        ]
    )
