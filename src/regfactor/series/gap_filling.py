"""Missing values of series by exponential smoothing, with their variances.

A missing value is an unknown of its own next to the initial state: one-step errors are affine in
both, so that its expectation given all rows before and after it has closed form.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array, frozen
from regfactor.series.ridge_evidence import RidgePosterior, posterior_roots
from regfactor.series.smoothing_bank import MAX_BUFFERED_ROWS, ErrorSums, SmoothingGroup
from regfactor.series.smoothing_members import gap_gains, with_prior

VALUE_DEVIATION = 1e3  # prior deviation of a missing value from its neighbors, in units
MAX_CELLS = 40  # that are unknowns of one problem; the others are passed over meanwhile
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
    groups = gap_groups(season)
    for series in np.flatnonzero(np.isnan(values).any(axis=0)):
        column = values[:, series]
        missing = np.flatnonzero(np.isnan(column))
        n_parts = -(-len(missing) // MAX_CELLS)
        for cells in np.array_split(missing, n_parts):
            found = filled_cells(column, cells, groups)
            means[cells, series] = found.means
            variances[cells, series] = found.variances
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
        padded = np.concatenate([[False], missing, [False]])
        edges = np.flatnonzero(padded[1:] != padded[:-1])
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
        variances = np.where(hidden, filled.variances, 1)
        errors = np.square(values - filled.means) / variances
        errors = np.where(hidden, errors, 0)
        totals += errors.sum(axis=0) / length
        counts += hidden.sum(axis=0) / length
    pooled = (PRIOR_CELLS + totals.sum()) / (PRIOR_CELLS + counts.sum())
    squared = (PRIOR_CELLS * pooled + totals) / (PRIOR_CELLS + counts)
    return np.sqrt(squared)


def gap_groups(season: int) -> list[SmoothingGroup]:
    """Return the members by which gaps are filled, without and with a season."""
    if season == 1:
        (plain,) = with_prior([gap_gains(seasonal=False)])
        return [SmoothingGroup(plain, 1)]
    gains = [gap_gains(seasonal=False), gap_gains(seasonal=True)]
    plain, seasonal = with_prior(gains)
    return [SmoothingGroup(plain, 1), SmoothingGroup(seasonal, season)]


def filled_cells(column: Array, cells: Array, groups: list[SmoothingGroup]) -> FilledSeries:
    """Return means and variances of some missing cells of a series, averaged over members."""
    known = np.flatnonzero(~np.isnan(column))
    guesses = np.interp(cells, known, column[known])
    scores = []
    means = []
    variances = []
    for group in groups:
        fit = fit_cells(group, column, cells, guesses)
        scores.append(fit.log_evidence + group.gains.log_prior)
        means.append(fit.means)
        variances.append(fit.variances)
    weights = softmax(np.concatenate(scores))
    of_members = np.concatenate(means)
    mean = weights @ of_members
    spread = np.concatenate(variances) + np.square(of_members - mean)
    return FilledSeries(mean, weights @ spread)


@frozen
class CellFit:
    """Members of a group: log evidence, and means and variances of cells, (n_members, n_cells)."""

    log_evidence: Array
    means: Array
    variances: Array


def fit_cells(
    group: SmoothingGroup,
    column: Array,
    cells: Array,
    guesses: Array,
) -> CellFit:
    """Return the posterior of missing cells under each member; other gaps are passed over.

    A cell is its guess plus an unknown. Unknowns have so wide a prior that the rows of the cells
    tell nothing, and only the observed rows are counted in the evidence.
    """
    n_free = group.n_free
    n_unknowns = n_free + len(cells)
    columns = np.zeros((len(column), n_unknowns + 1))
    columns[cells, n_free + np.arange(len(cells))] = 1
    columns[:, -1] = column
    columns[cells, -1] = guesses
    usable = ~np.isnan(columns[:, -1])
    wide = np.full((len(group.gains), len(cells)), VALUE_DEVIATION)
    deviations = np.concatenate([group.deviations(0), wide], axis=1)
    smoother = group.start(n_unknowns + 1)
    sums = ErrorSums.zeros(len(group.gains), n_unknowns, 1)
    for first in range(0, len(column), MAX_BUFFERED_ROWS):
        last = min(first + MAX_BUFFERED_ROWS, len(column))
        sums = sums.after(smoother, columns, usable, range(first, last))
    posterior = sums.posterior(deviations)
    n_rows = int((~np.isnan(column)).sum())
    roots = posterior_roots(sums.gram(), deviations)
    spread = np.square(roots[:, n_free:]).sum(axis=2)
    return CellFit(
        _log_evidence(posterior, sums, n_rows),
        guesses + posterior.coefficients[:, n_free:, 0],
        posterior.variances(n_rows) * spread,
    )


def _log_evidence(posterior: RidgePosterior, sums: ErrorSums, n_rows: int) -> Array:
    """Return the log evidence of the observed rows, of shape (n_members,)."""
    evidence = posterior.log_evidence(n_rows, np.zeros(1))[:, 0]
    return np.asarray(evidence - sums.log_volume / 2)
