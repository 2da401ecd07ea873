"""Missing values of series, from both sides by exponential smoothing, with their variances."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array, frozen
from regfactor.series.bank import MemberPaths, SeriesTable, Units
from regfactor.series.ridge_evidence import ridge_covariance
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.season_evidence import few_groups
from regfactor.series.smoothing_bank import SmoothingFit, SmoothingGroup, fit_group

N_HIDING_ROUNDS = 3
HIDDEN_EVERY = 10
MIN_KEPT_LENGTHS = 4  # a hidden block and three times as many cells that stay
MIN_BLOCKS = 6  # that a series must hold of the length that is hidden
SHORT_GAP = 2
PRIOR_CELLS = 6.0  # that agree with the deviations, next to those that calibrate them


@frozen
class FilledSeries:
    """Series without gaps, and the variances of the values that were filled, else 0."""

    means: Array
    variances: Array


@frozen
class OneSide:
    """Predictions of missing values from one side: means, error variances, noise in these."""

    means: Array
    variances: Array
    noise: Array


def filled_gaps(values: Array, season: int) -> FilledSeries:
    """Return series whose missing values are predicted from both sides.

    Parameters
    ----------
    values : array of shape (n_rows, n_series)
        In units of their changes.
    season : int
    """
    means = values.copy()
    variances = np.zeros(values.shape)
    for series in np.flatnonzero(np.isnan(values).any(axis=0)):
        column = values[:, series]
        missing = np.flatnonzero(np.isnan(column))
        before = _from_left(column, season)
        after = _from_left(column[::-1], season)
        turned = OneSide(after.means[::-1], after.variances[::-1], after.noise[::-1])
        filled, unknown = _combined(before, turned)
        means[missing, series] = filled[missing]
        variances[missing, series] = unknown[missing]
    return FilledSeries(means, variances)


def hidden_cell_factors(values: Array, season: int) -> Array:
    """Return factors of the deviations of missing cells, by which they agree with hidden cells.

    Single cells of the observed ones are hidden in turn, and, where there are longer gaps, blocks
    as long as the longest, of at most a sixth of the rows. Few errors are pooled with those of the
    other series, and with a prior of agreement.
    """
    lengths = gap_lengths(values)
    single = _hidden_factor(values, season, 1)
    factors = np.broadcast_to(single, values.shape)
    longest = min(int(lengths.max(initial=0)), len(values) // MIN_BLOCKS)
    if longest <= SHORT_GAP:
        return factors
    blocks = np.maximum(_hidden_factor(values, season, longest), single)
    return np.where(lengths > SHORT_GAP, blocks, factors)


def gap_lengths(values: Array) -> Array:
    """Return the lengths of the gaps in which cells lie, 0 where they are observed."""
    lengths = np.zeros(values.shape, dtype=int)
    for series, missing in enumerate(np.isnan(values).T):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            lengths[start:end, series] = end - start
    return lengths


def _hidden_factor(values: Array, season: int, length: int) -> Array:
    """Return the factor of each series from hidden blocks of a length, in three rounds."""
    totals = np.zeros(values.shape[1])
    counts = np.zeros(values.shape[1])
    observed = ~np.isnan(values)
    cycle = max(HIDDEN_EVERY, MIN_KEPT_LENGTHS * length)
    order = np.cumsum(observed, axis=0)
    for shift in range(N_HIDING_ROUNDS):
        place = (order + shift * cycle // N_HIDING_ROUNDS) % cycle
        hidden = observed & (place >= 1) & (place <= length) & (order > length)
        seen = np.where(hidden, np.nan, values)
        if np.isnan(seen).all(axis=0).any():
            continue
        filled = filled_gaps(seen, season)
        errors = np.square(values - filled.means) / np.where(hidden, filled.variances, 1)
        totals += np.where(hidden, errors, 0).sum(axis=0) / length
        counts += hidden.sum(axis=0) / length
    pooled = (PRIOR_CELLS + totals.sum()) / (PRIOR_CELLS + counts.sum())
    squared = (PRIOR_CELLS * pooled + totals) / (PRIOR_CELLS + counts)
    return np.sqrt(squared)


def _combined(before: OneSide, after: OneSide) -> tuple[Array, Array]:
    """Weigh both sides by the precision of the state; the noise of an observation is in both."""
    tiny = 1e-9
    of_before = np.maximum(before.variances - before.noise, tiny)
    of_after = np.maximum(after.variances - after.noise, tiny)
    precision = 1 / of_before + 1 / of_after
    means = (before.means / of_before + after.means / of_after) / precision
    noise = np.minimum(before.noise, after.noise)
    return means, 1 / precision + noise


def _from_left(column: Array, season: int) -> OneSide:
    """Return predictions of all missing values of a series from the rows before.

    Rows before the first observed value have an unbounded variance.
    """
    n_rows = len(column)
    values = column[:, None]
    missing = np.isnan(column)
    origins = RollingOrigins(np.array([n_rows]), 1)
    table = SeriesTable(values, np.zeros((n_rows, 0)), season, origins)
    units = Units(np.zeros(1), np.ones(1))
    groups = few_groups(season)
    fits = [fit_group(group, table, units) for group in groups]
    scores = [
        fit.log_evidence[-1, :, 0] + group.gains.log_prior
        for fit, group in zip(fits, groups, strict=True)
    ]
    weights = softmax(np.concatenate(scores))
    means = np.zeros(n_rows)
    squares = np.zeros(n_rows)
    noise = np.zeros(n_rows)
    start = 0
    for fit, group in zip(fits, groups, strict=True):
        share = weights[start : start + len(group.gains)]
        start += len(group.gains)
        run = _gap_predictions(fit, group, column)
        variance = fit.variances[-1, :, 0]
        means += share @ run.means
        squares += share @ (np.square(run.means) + variance[:, None] * run.variances)
        noise += share @ (variance * (1 - group.gains.level))
    variances = squares - np.square(means)
    first = int(np.argmax(~missing))
    variances[:first] = np.inf
    return OneSide(means, variances, noise)


def _gap_predictions(fit: SmoothingFit, group: SmoothingGroup, column: Array) -> MemberPaths:
    """Return means and variances of missing values, of shape (n_members, n_rows).

    Variances are in those of innovations, and include what is not known of the initial state.
    """
    n_free = group.n_free
    unknown = ridge_covariance(fit.gram, group.deviations(0))
    smoother = group.start(n_free + 1)
    row = np.zeros(n_free + 1)
    means = np.zeros((len(group.gains), len(column)))
    variances = np.ones(means.shape)
    first = int(np.argmax(~np.isnan(column)))
    for time in range(first, len(column)):
        if np.isnan(column[time]):
            ahead = smoother.forecast(time, 1)[:, 0]
            by_state = ahead[:, :n_free]
            means[:, time] = ahead[:, n_free] + np.einsum(
                "mk,mk->m", by_state, fit.initial[:, :, 0]
            )
            of_state = np.einsum("mk,mkl,ml->m", by_state, unknown, by_state)
            variances[:, time] = smoother.error_variance() + of_state
            smoother.skip()
        else:
            row[n_free] = column[time]
            smoother.advance(row, time)
    return MemberPaths(means, variances)
