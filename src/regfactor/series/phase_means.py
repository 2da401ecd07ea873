"""Seasons whose phases differ in their changes, by an F test of normal scores."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import f as f_distribution
from scipy.stats import rankdata

from regfactor.core.params import Array, frozen
from regfactor.series.bank import LONG_SEASON

SEASONS = (4, 5, 6, 7, 12, 24, 48, 52, 96, 168)
MAX_CANDIDATES = 5  # those with the largest differences between phases
MIN_SEASONS = 2  # that a series must hold
MIN_LONG_SEASONS = 4


def promising_seasons(values: Array, expected: int = 1) -> list[int]:
    """Return the seasons whose phases differ in their changes, the clearest first.

    A season that no F test sees (F < 1 in all series) has no evidence either, and is not fitted.
    Long ones fit cycles of few rounds too, so that series must hold more of them, unless dates let
    expect them.
    """
    n_rows = len(values)
    changes = normal_scores(np.diff(values, axis=0))
    found = []
    for season in SEASONS:
        least = MIN_SEASONS
        if season > LONG_SEASON and season != expected:
            least = MIN_LONG_SEASONS
        if least * season > n_rows:
            continue
        best = 0.0
        for column in changes.T:
            best = min(best, log_p_value(column, season))
        if best < 0:
            found.append((best, season))
    return [season for _, season in sorted(found)[:MAX_CANDIDATES]]


def normal_scores(changes: Array) -> Array:
    """Return normal quantiles of the ranks of each column, in which a few spikes count little."""
    scores = np.full(changes.shape, np.nan)
    for column, own in zip(changes.T, scores.T, strict=True):
        known = ~np.isnan(column)
        own[known] = ndtri((rankdata(column[known]) - 0.5) / max(known.sum(), 1))
    return scores


def log_p_value(changes: Array, season: int, shorter: int = 1) -> float:
    """Return the log p value of means of phases that repeat after a shorter season already.

    It is 0 if F < 1.
    """
    known = np.flatnonzero(~np.isnan(changes))
    values = changes[known]
    full = _PhaseMeans.of(values, known % season, season)
    nested = _PhaseMeans.of(values, known % shorter, shorter)
    n_more = full.n_phases - nested.n_phases
    freedom = len(values) - full.n_phases
    if freedom < 1 or n_more < 1:
        return 0.0
    within = max(full.squares, 1e-12 * nested.squares)
    between = nested.squares - full.squares
    if nested.squares == 0 or between / n_more <= within / freedom:
        return 0.0
    statistic = between / n_more / (within / freedom)
    return float(f_distribution.logsf(statistic, n_more, freedom))


@frozen
class _PhaseMeans:
    """Squares that are left by the means of phases, and the number of phases with values."""

    squares: float
    n_phases: int

    @staticmethod
    def of(values: Array, phases: Array, season: int) -> _PhaseMeans:
        counts = np.bincount(phases, minlength=season)
        sums = np.bincount(phases, values, minlength=season)
        means = sums / np.maximum(counts, 1)
        squares = float(np.square(values - means[phases]).sum())
        return _PhaseMeans(squares, int((counts > 0).sum()))
