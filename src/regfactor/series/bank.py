"""Banks of forecasting models: what they are fitted to, and what they found at each origin."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.rolling_origins import RollingOrigins

N_WAVES = 12  # of a season that is too long for a value of its own at each phase
SMOOTH_SEASON = 24  # from which on a season is composed of waves, short ones small by their prior
LONG_SEASON = 24
SERIES_AT_ONCE = 64  # whose members are held in memory
SMALLEST_UNIT = 1e-150  # of a series of zeros


def parts_of_series(n_series: int) -> list[slice]:
    """Return parts of the series, so few that what is found of members fits in memory."""
    starts = range(0, n_series, SERIES_AT_ONCE)
    return [slice(first, min(first + SERIES_AT_ONCE, n_series)) for first in starts]


@frozen
class SeriesTable:
    """Series on the scale on which they are modeled, and what is known of their future.

    Attributes
    ----------
    values : array of shape (n_rows, n_series)
        NaN where a value is missing.
    inputs : array of shape (n_rows, n_inputs)
        Known inputs, such as prices, holidays, or waves of a second season.
    season : int
        Number of rows after which a pattern repeats; 1 without a season.
    origins : RollingOrigins
    given : array of shape (n_rows, n_series), optional
        Values with those that models leave out, by which forecasts are judged; by default `values`.
    """

    values: Array
    inputs: Array
    season: int
    origins: RollingOrigins
    given: Array | None = None

    @property
    def judged(self) -> Array:
        """Values by which forecasts are judged."""
        if self.given is None:
            return self.values
        return self.given

    @property
    def n_series(self) -> int:
        """Number of series."""
        return int(self.values.shape[1])

    @property
    def trailing_gaps(self) -> Array:
        """Numbers of missing rows at the end of each series."""
        observed = ~np.isnan(self.values)
        return np.asarray(np.argmax(observed[::-1], axis=0))

    def of_series(self, series: slice) -> SeriesTable:
        """Return the table of some series."""
        given = self.given
        if given is not None:
            given = given[:, series]
        return SeriesTable(self.values[:, series], self.inputs, self.season, self.origins, given)

    def units(self) -> Units:
        """Return the units of the series, from the rows before the first origin."""
        return Units.of(self.values, self.origins.first)


@frozen
class Units:
    """Means and mean absolute changes of series; models work on (x - center) / scale."""

    center: Array
    scale: Array

    @staticmethod
    def of(values: Array, n_first: int) -> Units:
        """Return the units of the first rows, which are known at all origins."""
        first = values[:n_first]
        if np.isnan(first).all(axis=0).any():
            first = values  # a series that starts late has no earlier unit
        observed = ~np.isnan(first)
        center = np.where(observed, first, 0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
        scale = np.maximum(mean_change(first), 1e-3 * mean_change(values))
        return Units(center, scale)

    def standardized(self, values: Array) -> Array:
        """Return values in these units."""
        return (values - self.center) / self.scale

    def restored(self, values: Array) -> Array:
        """Return standardized values in the units of the series."""
        return self.center + self.scale * values


def mean_change(values: Array) -> Array:
    """Return the mean absolute change from each observed value to the next, never zero."""
    changes = []
    for column in values.T:
        known = column[~np.isnan(column)]
        largest = np.max(np.abs(known), initial=0.0)
        change = largest
        if len(known) > 1:
            change = np.mean(np.abs(np.diff(known)))
        changes.append(max(change, 1e-8 * largest, SMALLEST_UNIT))
    return np.array(changes)


def season_waves(season: int, rows: Array, most: int = N_WAVES) -> Array:
    """Return cosines and sines of a season at given rows, so many at most; none for 1."""
    n_waves = min(most, season // 2)
    angles = 2 * np.pi * rows[:, None] * np.arange(1, n_waves + 1) / season
    waves = [np.cos(angles), np.sin(angles)]
    if season == 2 * n_waves:  # the last sine is zero at all rows
        waves[1] = waves[1][:, :-1]
    return np.concatenate(waves, axis=1)


def further_waves(longer: int, season: int, rows: Array) -> Array:
    """Return the waves of a longer season at given rows, without those that the first one has.

    The k-th is of size 1 / k^1.5, so that equal priors prefer smooth patterns.
    """
    n_waves = min(N_WAVES, longer // 2)
    order = np.arange(1, n_waves + 1)
    own = order[(order * season) % longer != 0]
    angles = 2 * np.pi * rows[:, None] * own / longer
    return np.concatenate([np.cos(angles) / own**1.5, np.sin(angles) / own**1.5], axis=1)


def wave_deviations(season: int) -> Array:
    """Return prior deviations of the coefficients of `season_waves`, in units."""
    n_waves = min(N_WAVES, season // 2)
    order = np.arange(1, n_waves + 1)
    deviations = np.full(n_waves, 5.0)
    if season >= SMOOTH_SEASON:
        deviations = 5 / order**1.5
    sines = deviations[:-1] if season == 2 * n_waves else deviations
    return np.concatenate([deviations, sines])


@frozen
class MemberPaths:
    """Forecasts of the members of a bank from one origin.

    Attributes
    ----------
    means : array of shape (n_members, horizon, n_series)
    variances : array of the same shape
        Of the errors of each member.
    """

    means: Array
    variances: Array


class BankState(abc.ABC):
    """The members of a bank after the last row."""

    @abc.abstractmethod
    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of the members, with inputs of shape (horizon, n_inputs)."""

    @abc.abstractmethod
    def updated(self, rows: Array, inputs: Array) -> Any:
        """Return the state after more rows, NaN where values are missing; coefficients stay."""

    @abc.abstractmethod
    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series 0..horizon - 1 steps later.

        Their shape is (n_members, horizon, n_series).
        """

    @abc.abstractmethod
    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients.

        They are in variances of innovations, of a shape that broadcasts to (n_members, horizon,
        n_series).
        """


@frozen
class BankFit:
    """The members of a bank at all origins.

    Attributes
    ----------
    name : str
    assumes : str
    log_prior : array of shape (n_members,)
    log_evidence : array of shape (n_origins, n_members, n_series)
    variances : array of the same shape
        Of innovations.
    paths : array of shape (n_origins - 1, n_members, horizon, n_series)
        Forecasts from all origins but the last.
    state : BankState
        At the last origin.
    """

    name: str
    assumes: str
    log_prior: Array
    log_evidence: Array
    variances: Array
    paths: Array
    state: Any

    def of_series(self, series: slice) -> BankFit:
        """Return the members of some series; the state stays that of all."""
        return BankFit(
            self.name,
            self.assumes,
            self.log_prior,
            self.log_evidence[..., series],
            self.variances[..., series],
            self.paths[..., series],
            self.state,
        )
