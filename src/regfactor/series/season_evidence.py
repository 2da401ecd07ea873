"""The season and the scale of series, by the evidence of a small bank of smoothing models."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from regfactor.core.params import Array
from regfactor.series.bank import LONG_SEASON, SMOOTH_SEASON, SeriesTable, further_waves
from regfactor.series.phase_means import (
    MIN_SEASONS,
    log_p_value,
    normal_scores,
    promising_seasons,
)
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.smoothing_bank import SmoothingGroup, fit_smoothing
from regfactor.series.smoothing_members import few_gains, with_prior

LONGER_SEASONS = {1: 365, 7: 365, 24: 168, 48: 336}  # days of a year, hours of a week
MIN_GAIN_OF_LONG_SEASON = 10.0  # in log evidence
MAX_P_VALUE = 1e-3  # of equal parts of a season that is a multiple of another one


def season_gains(values: Array, inputs: Array, expected: int = 1) -> dict[int, float]:
    """Return the gain in log evidence of each season that was compared, summed over series.

    Parameters
    ----------
    expected : int
        The season that dates suggest.
    """
    candidates = promising_seasons(values, expected)
    if not candidates:
        return {}
    origins = RollingOrigins(np.array([len(values)]), 1)
    table = SeriesTable(values, inputs, 1, origins)
    plain = logsumexp(_evidence(table, SmoothingGroup(few_gains(seasonal=False), 1)), axis=0)
    counts = (~np.isnan(values)).sum(axis=0)
    gains = {}
    for season in candidates:
        group = SmoothingGroup(few_gains(seasonal=True), season)
        gain = logsumexp(_evidence(table, group), axis=0) - plain
        enough = counts >= MIN_SEASONS * season
        gains[season] = float(np.where(enough, np.maximum(gain, 0), 0).sum())
    return gains


def best_season(gains: dict[int, float], values: Array) -> int:
    """Return the season of the largest gain; 1 if none has one.

    A multiple of a season is taken only if parts of it differ or its evidence is far larger, since
    a small gain may come from its prior alone. That of a season of waves always may.
    """
    found = 1
    largest = 0.0
    for season, gain in gains.items():
        least = MIN_GAIN_OF_LONG_SEASON if season > LONG_SEASON else 0.0
        if gain > max(largest, least):
            largest = gain
            found = season
    changes = normal_scores(np.diff(values, axis=0))
    for shorter in sorted(gains):
        if not (gains[shorter] > 0 and shorter < found and found % shorter == 0):
            continue
        clear = found < SMOOTH_SEASON and largest > gains[shorter] + MIN_GAIN_OF_LONG_SEASON
        p_values = [log_p_value(column, found, shorter) for column in changes.T]
        if not clear and min(p_values) > np.log(MAX_P_VALUE / len(p_values)):
            return shorter
    return found


def few_groups(season: int) -> list[SmoothingGroup]:
    """Return the groups of the small bank, without and with a season."""
    if season == 1:
        (plain,) = with_prior([few_gains(seasonal=False)])
        return [SmoothingGroup(plain, 1)]
    plain, seasonal = with_prior([few_gains(seasonal=False), few_gains(seasonal=True)])
    return [SmoothingGroup(plain, 1), SmoothingGroup(seasonal, season)]


def longer_season(values: Array, inputs: Array, season: int) -> int | None:
    """Return a second, longer season whose waves have evidence given the first; None if none."""
    longer = LONGER_SEASONS.get(season)
    n_rows = len(values)
    if longer is None or 2 * longer > n_rows:
        return None
    waves = further_waves(longer, season, np.arange(n_rows))
    evidences = []
    for given in (inputs, np.concatenate([inputs, waves], axis=1)):
        origins = RollingOrigins(np.array([n_rows]), 1)
        table = SeriesTable(values, given, season, origins)
        fit = fit_smoothing(table, few_groups(season), "second season")
        evidences.append(logsumexp(fit.log_evidence[-1] + fit.log_prior[:, None], axis=0))
    without, with_second = evidences
    if float(np.maximum(with_second - without, 0).sum()) > MIN_GAIN_OF_LONG_SEASON:
        return longer
    return None


def _evidence(table: SeriesTable, group: SmoothingGroup) -> Array:
    """Return the log evidence of the members of a group, of shape (n_members, n_series)."""
    return np.asarray(fit_smoothing(table, [group], "season").log_evidence[-1])


def log_gains(values: Array, inputs: Array, season: int, origins: RollingOrigins) -> Array:
    """Return what logarithms gain in log evidence, for each series; -inf where not positive.

    The evidence is that of the rows after the first origin, given those before; the Jacobian of the
    logarithm is part of it.
    """
    gains = np.full(values.shape[1], -np.inf)
    positive = np.flatnonzero(np.all((values > 0) | np.isnan(values), axis=0))
    if len(positive) == 0:
        return gains
    raw = values[:, positive]
    logs = np.log(raw)
    compared = np.unique([origins.first, origins.n_rows])
    table = SeriesTable(
        np.concatenate([raw, logs], axis=1),
        inputs,
        season,
        RollingOrigins(compared, 1),
    )
    groups = few_groups(season)
    fit = fit_smoothing(table, groups, "scale")
    evidence = logsumexp(fit.log_evidence + fit.log_prior[:, None], axis=1)
    first = 0
    if len(compared) > 1:
        evidence = evidence[-1:] - evidence[:1]
        first = origins.first
    of_raw, of_logs = np.split(evidence[-1], 2)
    gains[positive] = of_logs - of_raw - np.nansum(logs[first:], axis=0)
    return gains
