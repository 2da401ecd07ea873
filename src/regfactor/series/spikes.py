"""Single values that stand out from their neighbors, where evidence speaks for leaving them out."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from regfactor.core.params import Array
from regfactor.series.bank import SeriesTable
from regfactor.series.ridge_evidence import PRIOR_WEIGHT
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.season_evidence import few_groups
from regfactor.series.smoothing_bank import fit_smoothing

N_NEIGHBORS = 2  # on each side
MIN_DEVIATIONS = 6.0  # from the median of its neighbors, of a value that may be a spike
MAX_SPIKES = 0.1  # share of the values; more are no exceptions
MAX_TIES = 0.2  # share of the most frequent value; above, as in demand, all others stand out
MIN_GAIN = 10.0  # in log evidence
MIN_ROWS = 24
NORMAL_MAD = 1.4826  # deviations of a normal variable in its median absolute deviation


def without_spikes(values: Array, inputs: Array, season: int) -> Array:
    """Return series with NaN in place of spikes.

    A spike is a value far from the median of its neighbors. Those of a series are left out where
    the evidence of a mixture is larger: a value is a spike with probability p, of a wide normal
    distribution around what the others tell, and otherwise follows the smoothing models.

    The first and the last values are judged only in a series that has other spikes, since a change
    of level looks the same there.
    """
    cleaned = values.copy()
    for series, column in enumerate(values.T):
        known = np.flatnonzero(~np.isnan(column))
        counts = np.unique(column[known], return_counts=True)[1]
        is_short = len(known) < max(MIN_ROWS, 2 * season)
        has_ties = counts.max() > MAX_TIES * len(known)
        if is_short or has_ties:
            continue
        phases = known % season
        spikes = known[inner_candidates(column[known], phases)]
        if len(spikes) and mixture_gain(column, inputs, season, spikes) > MIN_GAIN:
            cleaned[spikes, series] = np.nan
            at_ends = end_candidates(column[known], phases)
            cleaned[known[at_ends], series] = np.nan
    return cleaned


def inner_candidates(values: Array, phases: Array) -> Array:
    """Return a mask of values that stand out from both sides; none where these are many.

    Several in a row belong to a time of large changes, and are kept.
    """
    outer = standing_out(from_neighbors(values), phases)
    outer[:N_NEIGHBORS] = False
    outer[-N_NEIGHBORS:] = False
    if outer.sum() > MAX_SPIKES * len(values):
        outer[:] = False
    return without_neighbors(outer)


def end_candidates(values: Array, phases: Array) -> Array:
    """Return a mask of the first and the last values that stand out from those on one side."""
    found = np.zeros(len(values), dtype=bool)
    last = standing_out(from_past(values), phases)
    reversed_last = standing_out(from_past(values[::-1]), phases[::-1])
    first = reversed_last[::-1]
    found[-N_NEIGHBORS:] = last[-N_NEIGHBORS:]
    found[:N_NEIGHBORS] = first[:N_NEIGHBORS]
    return without_neighbors(found)


def without_neighbors(mask: Array) -> Array:
    """Return a mask of the true elements that have no true element next to them."""
    alone = mask.copy()
    alone[1:] &= ~mask[:-1]
    alone[:-1] &= ~mask[1:]
    return alone


def standing_out(left: Array, phases: Array) -> Array:
    """Return which differences are large, after the median of their phase of the season."""
    for phase in np.unique(phases):
        own = phases == phase
        left[own] -= np.median(left[own])
    size = NORMAL_MAD * np.median(np.abs(left))
    if size == 0:  # most values are the same
        return np.zeros(len(left), dtype=bool)
    return np.asarray(np.abs(left) > MIN_DEVIATIONS * size)


def from_neighbors(values: Array) -> Array:
    """Return differences from the median of the neighbors on both sides; zero at the ends."""
    width = 2 * N_NEIGHBORS + 1
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    others = np.delete(windows, N_NEIGHBORS, axis=1)
    inner = slice(N_NEIGHBORS, -N_NEIGHBORS)
    left = np.zeros(len(values))
    left[inner] = values[inner] - np.median(others, axis=1)
    return left


def from_past(values: Array) -> Array:
    """Return differences from the median of as many values before; zero at the start."""
    width = 2 * N_NEIGHBORS
    windows = np.lib.stride_tricks.sliding_window_view(values[:-1], width)
    left = np.zeros(len(values))
    left[width:] = values[width:] - np.median(windows, axis=1)
    return left


def mixture_gain(column: Array, inputs: Array, season: int, spikes: Array) -> float:
    """Return the gain in log evidence of leaving out spikes, which have a distribution of theirs.

    Their density is normal around the median of the neighbors, with the mean square found there.
    """
    cleaned = column.copy()
    cleaned[spikes] = np.nan
    both = np.column_stack([column, cleaned])
    origins = RollingOrigins(np.array([len(column)]), 1)
    table = SeriesTable(both, inputs, season, origins)
    fit = fit_smoothing(table, few_groups(season), "spikes")
    of_members = fit.log_evidence[-1] + fit.log_prior[:, None]
    evidence = logsumexp(of_members, axis=0)
    counts = (~np.isnan(both)).sum(axis=0)
    densities = evidence + evidence_constant(counts)
    known = ~np.isnan(column)
    left = np.zeros(len(column))
    left[known] = from_neighbors(column[known])
    sizes = np.square(left[spikes])
    n_spikes = len(spikes)
    log_variance = np.log(2 * np.pi * sizes.mean())
    of_spikes = -n_spikes / 2 * (log_variance + 1)
    share = (n_spikes + 0.5) / (counts[0] + 1)
    of_kinds = n_spikes * np.log(share) + counts[1] * np.log1p(-share)
    return float(densities[1] + of_spikes + of_kinds - densities[0])


def evidence_constant(n_rows: Array) -> Array:
    """Return what the evidence of n rows leaves out of the density of Student's distribution."""
    prior = PRIOR_WEIGHT / 2
    half = n_rows / 2
    gammas = gammaln(half + prior) - gammaln(prior)
    return np.asarray(gammas - half * np.log(np.pi))
