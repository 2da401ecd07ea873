"""Exponential smoothing with half the slope of a straight line, as a partner of smoothing models.

The theta method averages the line and exponential smoothing of twice the series less the line. It
is a fixed compromise where evidence between members with and without a slope is thin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.bank import BankState, MemberPaths, SeriesTable, parts_of_series
from regfactor.series.bank_average import BankAverage
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.smoothing_bank import SmoothingBank, SmoothingGroup, fit_smoothing
from regfactor.series.smoothing_members import level_gains, with_prior

SHARE = 0.3  # of that of the smoothing bank; a share learned by its own errors did not do better
SLOPE_SHARE = 0.5
MIN_ROWS = 6  # with which a line is fitted


def has_theta(table: SeriesTable) -> bool:
    """Return whether the member joins: every series needs enough values for a line."""
    return bool((~np.isnan(table.values)).sum(axis=0).min() >= MIN_ROWS)


@frozen
class ThetaBank:
    """Members of a pool: smoothing without a trend of the series less half of their lines."""

    table: SeriesTable
    name: str = "theta"

    def fit(self) -> BankAverage:
        """Fit the members to all rows."""
        n_series = self.table.n_series
        parts = [self._average(self.table.of_series(part)) for part in parts_of_series(n_series)]
        return BankAverage.joined(parts)

    def _average(self, table: SeriesTable) -> BankAverage:
        slopes = SLOPE_SHARE * line_slopes(table.values)
        n_rows = len(table.values)
        rest = table.values - slopes * np.arange(n_rows)[:, None]
        origins = RollingOrigins(np.array([n_rows]), table.origins.horizon)
        levels = SeriesTable(rest, table.inputs, table.season, origins)
        fit = fit_smoothing(levels, theta_groups(table.season), self.name)
        average = BankAverage.of(fit, levels)
        return replace(
            average,
            assumes="half the slope of a line, a level and a season that change slowly",
            state=ThetaState(average.state, slopes, n_rows),
            share=SHARE,
            within=SmoothingBank.name,
        )


def theta_groups(season: int) -> list[SmoothingGroup]:
    """Return the members without a trend, without and with a season."""
    if season == 1:
        (plain,) = with_prior([level_gains(seasonal=False)])
        return [SmoothingGroup(plain, 1)]
    plain, seasonal = with_prior([level_gains(seasonal=False), level_gains(seasonal=True)])
    return [SmoothingGroup(plain, 1), SmoothingGroup(seasonal, season)]


def line_slopes(values: Array) -> Array:
    """Return the slope of the least-squares line of the observed values of each series."""
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0)
    times = np.where(observed, np.arange(len(values))[:, None], 0)
    centered = np.where(observed, times - times.sum(axis=0) / counts, 0)
    products = (centered * np.where(observed, values, 0)).sum(axis=0)
    return np.asarray(products / np.square(centered).sum(axis=0))


@frozen
class ThetaState(BankState):
    """The members after the last row, and the slopes that were taken off the series."""

    levels: Any
    slopes: Array
    time: int

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of the members."""
        paths = self.levels.forecast(horizon, inputs)
        return MemberPaths(paths.means + self._lines(horizon), paths.variances)

    def _lines(self, n_rows: int) -> Array:
        """Return what the slopes add in the next rows, of shape (n_rows, n_series)."""
        return self.slopes * (self.time + np.arange(n_rows))[:, None]

    def updated(self, rows: Array, inputs: Array) -> ThetaState:
        """Return the state after more rows."""
        levels = self.levels.updated(rows - self._lines(len(rows)), inputs)
        return ThetaState(levels, self.slopes, self.time + len(rows))

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        return np.asarray(self.levels.responses(horizon))

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients."""
        return np.asarray(self.levels.coefficient_growth(horizon, inputs))
