"""Exponential smoothing as ridge problems: for fixed gains, errors are affine in the initial state.

The gains form a grid; the initial level, slope and season, and the coefficients of inputs, have
closed form, and so has the evidence of each member.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.bank import (
    SMOOTH_SEASON,
    BankFit,
    BankState,
    MemberPaths,
    SeriesTable,
    Units,
    season_waves,
    wave_deviations,
)
from regfactor.series.ridge_evidence import RidgePosterior, posterior_roots
from regfactor.series.smoothing_filter import SmoothingFilter
from regfactor.series.smoothing_members import Gains, all_gains, with_prior

LEVEL_DEVIATION = 100.0  # prior deviations of the initial state, in units
SLOPE_DEVIATION = 0.05**0.5
SEASON_DEVIATION = 5.0
INPUT_DEVIATION = 5.0  # of the effect of an input of deviation one
MAX_BUFFERED_ROWS = 64
MAX_MEAN_SQUARE = 1e8  # of errors by a unit initial state; those of stable members are below 1e3
UNSTABLE = 1e100  # squared errors of members whose errors grow without bound


@frozen
class SmoothingGroup:
    """Members of a bank that have the same season, 1 for none."""

    gains: Gains
    season: int

    @property
    def n_free(self) -> int:
        """Number of initial states."""
        if self.season == 1:
            return 2
        return 2 + len(self.initial_seasons)

    @property
    def initial_seasons(self) -> Array:
        """Patterns of which the first season is composed, of shape (n_patterns, season)."""
        if self.season < SMOOTH_SEASON:
            return np.eye(self.season)
        return season_waves(self.season, np.arange(self.season)).T

    def deviations(self, n_inputs: int) -> Array:
        """Return prior deviations, of shape (n_members, n_free + n_inputs)."""
        initial = [LEVEL_DEVIATION, SLOPE_DEVIATION]
        if self.season >= SMOOTH_SEASON:
            initial += list(wave_deviations(self.season))
        elif self.season > 1:
            initial += [SEASON_DEVIATION] * self.season
        row = np.array(initial + [INPUT_DEVIATION] * n_inputs)
        deviations = np.tile(row, (len(self.gains), 1))
        deviations[~self.gains.trend, 1] = 0
        return deviations

    def start(self, n_columns: int) -> SmoothingFilter:
        """Return the filter of unit initial states, followed by columns that start at zero."""
        members = len(self.gains)
        level = np.zeros((members, n_columns))
        slope = np.zeros((members, n_columns))
        seasons = np.zeros((members, self.season, n_columns))
        level[:, 0] = 1
        slope[:, 1] = 1
        if self.season > 1:
            seasons[:, :, 2 : self.n_free] = self.initial_seasons.T
        return SmoothingFilter(self.gains, level, slope, seasons)


@frozen
class SmoothingFit:
    """A group at all origins, in units: evidence, variances, paths and the final state."""

    log_evidence: Array
    variances: Array
    paths: Array
    initial: Array  # states, (n_members, n_free, n_series)
    state: SmoothingState


@frozen
class SmoothingState(BankState):
    """Members of one group after the last row, for series with the same missing rows.

    The filter has a column for each series, then one for each input, then one for each direction
    in which initial states and coefficients of inputs are unknown, of posterior deviation one.
    """

    filter: SmoothingFilter
    coefficients: Array  # of the inputs, (n_members, n_inputs, n_series)
    unknown_coefficients: Array  # of the inputs in each direction, (n_members, n_inputs, n)
    variances: Array  # of innovations, (n_members, n_series)
    units: Units
    time: int

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of the members."""
        n_series = self.variances.shape[1]
        n_inputs = inputs.shape[1]
        ahead = self.filter.forecast(self.time, horizon)
        means = ahead[:, :, :n_series]
        if n_inputs:
            by_inputs = inputs + ahead[:, :, n_series : n_series + n_inputs]
            means = means + by_inputs @ self.coefficients
        unknown = self._unknown(ahead, inputs)
        growth = self._growth(horizon) + unknown
        variances = growth[:, :, None] * self.variances[:, None, :]
        return MemberPaths(
            self.units.restored(means),
            np.square(self.units.scale) * variances,
        )

    def _unknown(self, ahead: Array, inputs: Array) -> Array:
        """Return error variances by initial states and coefficients of inputs, for each step."""
        first = self.variances.shape[1] + inputs.shape[1]
        directions = ahead[:, :, first:] + inputs @ self.unknown_coefficients
        return np.asarray(np.square(directions).sum(axis=2))

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients."""
        ahead = self.filter.forecast(self.time, horizon)
        unknown = self._unknown(ahead, inputs)
        return np.repeat(unknown[:, :, None], self.variances.shape[1], axis=2)

    def _growth(self, horizon: int) -> Array:
        """Return error variances of each step, with what gaps left unknown of the state."""
        season = self.filter.seasons.shape[1]
        psi = self.filter.gains.responses(season, horizon)
        growth = np.cumsum(np.square(psi), axis=1)
        if not self.filter.uncertain:
            return growth
        level, cross, slope = self.filter.covariance
        powers = self.filter.gains.damping[:, None] ** np.arange(1, horizon + 1)
        damped = np.cumsum(powers, axis=1)
        unknown = level[:, None] + 2 * damped * cross[:, None]
        return growth + unknown + np.square(damped) * slope[:, None]

    def updated(self, rows: Array, inputs: Array) -> SmoothingState:
        """Return the state after more rows."""
        n_directions = self.unknown_coefficients.shape[2]
        table = np.concatenate(
            [self.units.standardized(rows), -inputs, np.zeros((len(rows), n_directions))],
            axis=1,
        )
        observed = ~np.isnan(rows[:, 0])
        advanced = self.filter.copy()
        for step, row in enumerate(table):
            if observed[step]:
                advanced.advance(row, self.time + step)
            else:
                advanced.skip()
        return SmoothingState(
            advanced,
            self.coefficients,
            self.unknown_coefficients,
            self.variances,
            self.units,
            self.time + len(rows),
        )

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        psi = self.filter.gains.responses(self.filter.seasons.shape[1], horizon)
        return np.repeat(psi[:, :, None], self.variances.shape[1], axis=2)


def fit_group(group: SmoothingGroup, table: SeriesTable, units: Units) -> SmoothingFit:
    """Fit the members of a group to series with the same missing rows, at all origins."""
    values = units.standardized(table.values)
    observed = ~np.isnan(values[:, 0])
    start = int(np.argmax(observed))
    n_inputs = table.inputs.shape[1]
    n_free = group.n_free
    n_coefficients = n_free + n_inputs
    columns = np.concatenate(
        [np.zeros((len(values), n_free)), -table.inputs, values],
        axis=1,
    )
    deviations = group.deviations(n_inputs)
    horizon = table.origins.horizon
    log_scales = np.log(units.scale)
    smoother = group.start(columns.shape[1])
    sums = ErrorSums.zeros(len(group.gains), n_coefficients, table.n_series)
    evidences = []
    variances = []
    paths = []
    known = 0
    posterior = sums.posterior(deviations)
    for origin in table.origins.rows:
        for first in range(known, origin, MAX_BUFFERED_ROWS):
            last = min(first + MAX_BUFFERED_ROWS, origin)
            sums = sums.after(smoother, columns, observed, range(max(first, start), last))
        known = origin
        posterior = sums.posterior(deviations)
        evidence = posterior.log_evidence(sums.n_rows, log_scales)
        evidences.append(evidence - sums.log_volume[:, None] / 2)
        variances.append(posterior.variances(sums.n_rows))
        if origin < table.origins.n_rows:
            ahead = smoother.forecast(origin, horizon)
            future = future_inputs(table.inputs, origin, horizon)
            ahead[:, :, n_free:n_coefficients] += future
            means = ahead[:, :, n_coefficients:]
            means = means + ahead[:, :, :n_coefficients] @ posterior.coefficients
            paths.append(means)
    n_series = table.n_series
    shape = (0, len(group.gains), horizon, n_series)
    roots = posterior_roots(sums.gram(), deviations)
    return SmoothingFit(
        np.array(evidences),
        np.array(variances),
        np.array(paths).reshape(-1, *shape[1:]),
        posterior.coefficients[:, :n_free],
        final_state(group, smoother, posterior.coefficients, roots, variances[-1], units, known),
    )


def future_inputs(inputs: Array, origin: int, horizon: int) -> Array:
    """Return the inputs of the rows that follow an origin; the last ones again beyond the end."""
    rows = np.minimum(origin + np.arange(horizon), len(inputs) - 1)
    return np.asarray(inputs[rows])


def final_state(
    group: SmoothingGroup,
    smoother: SmoothingFilter,
    coefficients: Array,
    roots: Array,
    variances: Array,
    units: Units,
    time: int,
) -> SmoothingState:
    """Return the states at the estimated initial states.

    Columns are those of the series, of the inputs, and of the directions that are unknown.
    """
    n_free = group.n_free
    n_coefficients = coefficients.shape[1]
    initial = coefficients[:, :n_free]

    def combined(states: Array) -> Array:
        series = states[..., n_coefficients:] + states[..., :n_free] @ initial
        inputs = states[..., n_free:n_coefficients]
        directions = states[..., :n_coefficients] @ roots
        return np.concatenate([series, inputs, directions], axis=-1)

    merged = SmoothingFilter(
        group.gains,
        combined(smoother.level[:, None, :])[:, 0],
        combined(smoother.slope[:, None, :])[:, 0],
        combined(smoother.seasons),
    )
    merged.covariance = smoother.covariance
    merged.uncertain = smoother.uncertain
    return SmoothingState(
        merged,
        coefficients[:, n_free:],
        roots[:, n_free:],
        variances,
        units,
        time,
    )


@frozen
class ErrorSums:
    """Sums over the observed rows of products of errors, by unit coefficients and by the data.

    Attributes
    ----------
    products : array of shape (n_members, n_coefficients, n_coefficients + n_series)
        Of errors by unit coefficients with themselves and with those of the data.
    squares : array of shape (n_members, n_series)
        Of errors of the data.
    n_rows : int
    log_volume : array of shape (n_members,)
        Sum of the logs of error variances after gaps.
    """

    products: Array
    squares: Array
    n_rows: int
    log_volume: Array

    @staticmethod
    def zeros(n_members: int, n_coefficients: int, n_series: int) -> ErrorSums:
        """Return sums over no rows."""
        return ErrorSums(
            np.zeros((n_members, n_coefficients, n_coefficients + n_series)),
            np.zeros((n_members, n_series)),
            0,
            np.zeros(n_members),
        )

    @property
    def n_coefficients(self) -> int:
        """Number of unit coefficients."""
        return int(self.products.shape[1])

    def after(
        self,
        smoother: SmoothingFilter,
        columns: Array,
        observed: Array,
        rows: range,
    ) -> ErrorSums:
        """Return the sums after more rows, and move the filter over them."""
        errors = []
        log_volume = self.log_volume
        for time in rows:
            if not observed[time]:
                smoother.skip()
                continue
            if smoother.uncertain:
                variance = smoother.error_variance()
                error = smoother.advance(columns[time], time)
                error = error / np.sqrt(variance)[:, None]
                log_volume = log_volume + np.log(variance)
            else:
                error = smoother.advance(columns[time], time)
            errors.append(error)
        if not errors:
            return self
        smoother.keep_finite()
        stacked = np.array(errors).transpose(1, 0, 2)
        of_coefficients = stacked[:, :, : self.n_coefficients]
        of_data = stacked[:, :, self.n_coefficients :]
        return ErrorSums(
            self.products + of_coefficients.transpose(0, 2, 1) @ stacked,
            self.squares + np.einsum("mts,mts->ms", of_data, of_data),
            self.n_rows + len(errors),
            log_volume,
        )

    def unstable(self) -> Array:
        """Return which members have errors that grow without bound."""
        diagonal = np.diagonal(self.products, axis1=1, axis2=2)
        return np.asarray(diagonal.max(axis=1) > MAX_MEAN_SQUARE * max(self.n_rows, 1))

    def gram(self) -> Array:
        """Return the products of errors by unit coefficients; zero for unstable members."""
        gram = self.products[:, :, : self.n_coefficients]
        unstable = self.unstable()
        if unstable.any():
            gram = np.where(unstable[:, None, None], 0, gram)
        return gram

    def posterior(self, deviations: Array) -> RidgePosterior:
        """Return the coefficients z of min over z of |e0 + E z|^2 + |z / deviations|^2."""
        cross = -self.products[:, :, self.n_coefficients :]
        squares = self.squares
        unstable = self.unstable()
        if unstable.any():
            cross = np.where(unstable[:, None, None], 0, cross)
            squares = np.where(unstable[:, None], UNSTABLE, squares)
        return RidgePosterior.of(self.gram(), cross, squares, deviations)


@frozen
class SmoothingBankState(BankState):
    """The states of all groups of members and all groups of series with the same missing rows."""

    states: list[list[SmoothingState]]  # by group of series, then by group of members
    columns: list[Array]  # which series each group holds

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of all members and series."""
        means = []
        variances = []
        for group in self.states:
            paths = [state.forecast(horizon, inputs) for state in group]
            means.append(np.concatenate([path.means for path in paths]))
            variances.append(np.concatenate([path.variances for path in paths]))
        return MemberPaths(
            in_order(means, self.columns),
            in_order(variances, self.columns),
        )

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients."""
        parts = [
            np.concatenate([state.coefficient_growth(horizon, inputs) for state in group])
            for group in self.states
        ]
        return in_order(parts, self.columns)

    def updated(self, rows: Array, inputs: Array) -> SmoothingBankState:
        """Return the states after more rows."""
        states = []
        columns = []
        for group, places in zip(self.states, self.columns, strict=True):
            for part in same_missing_rows(rows[:, places]):
                chosen = [only_series(state, part) for state in group]
                mine = rows[:, places[part]]
                states.append([state.updated(mine, inputs) for state in chosen])
                columns.append(places[part])
        return SmoothingBankState(states, columns)

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        parts = [
            np.concatenate([state.responses(horizon) for state in group]) for group in self.states
        ]
        return in_order(parts, self.columns)


def only_series(state: SmoothingState, series: Array) -> SmoothingState:
    """Return the state of some of the series of a group."""
    n_series = state.variances.shape[1]
    if len(series) == n_series:
        return state
    columns = np.append(series, np.arange(n_series, state.filter.level.shape[1]))
    chosen = SmoothingFilter(
        state.filter.gains,
        state.filter.level[:, columns],
        state.filter.slope[:, columns],
        state.filter.seasons[:, :, columns],
    )
    chosen.covariance = state.filter.covariance
    chosen.uncertain = state.filter.uncertain
    return SmoothingState(
        chosen,
        state.coefficients[:, :, series],
        state.unknown_coefficients,
        state.variances[:, series],
        Units(state.units.center[series], state.units.scale[series]),
        state.time,
    )


def same_missing_rows(values: Array) -> list[Array]:
    """Return groups of columns that miss the same rows."""
    patterns: dict[bytes, list[int]] = {}
    for column, missing in enumerate(np.isnan(values).T):
        patterns.setdefault(missing.tobytes(), []).append(column)
    return [np.array(group) for group in patterns.values()]


def in_order(parts: Sequence[Array], columns: Sequence[Array]) -> Array:
    """Return parts, split along the last axis, as one array with the series in their order."""
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate(parts, axis=-1)
    return np.asarray(joined[..., np.argsort(np.concatenate(columns))])


def smoothing_groups(season: int) -> list[SmoothingGroup]:
    """Return all members, without and with a season."""
    if season == 1:
        (plain,) = with_prior([all_gains(seasonal=False)])
        return [SmoothingGroup(plain, 1)]
    plain, seasonal = with_prior([all_gains(seasonal=False), all_gains(seasonal=True)])
    return [SmoothingGroup(plain, 1), SmoothingGroup(seasonal, season)]


@frozen
class SmoothingBank:
    """Members of a pool: exponential smoothing of each series, for a grid of gains."""

    table: SeriesTable
    name: str = "smoothing"

    def fit(self) -> BankFit:
        """Fit all members at all origins."""
        return fit_smoothing(self.table, smoothing_groups(self.table.season), self.name)


def fit_smoothing(table: SeriesTable, groups: Sequence[SmoothingGroup], name: str) -> BankFit:
    """Fit groups of members to all series, those with the same missing rows together."""
    units = table.units()
    columns = same_missing_rows(table.values)
    fits = []
    for series in columns:
        part = SeriesTable(table.values[:, series], table.inputs, table.season, table.origins)
        part_units = Units(units.center[series], units.scale[series])
        fits.append([fit_group(group, part, part_units) for group in groups])

    def joined(attribute: str, axis: int) -> Array:
        parts = [
            np.concatenate([getattr(fit, attribute) for fit in group], axis=axis) for group in fits
        ]
        return in_order(parts, columns)

    return BankFit(
        name=name,
        assumes="level, slope and season that change slowly, each series alone",
        log_prior=np.concatenate([group.gains.log_prior for group in groups]),
        log_evidence=joined("log_evidence", 1),
        variances=np.square(units.scale) * joined("variances", 1),
        paths=units.restored(joined("paths", 1)),
        state=SmoothingBankState([[fit.state for fit in group] for group in fits], columns),
    )
