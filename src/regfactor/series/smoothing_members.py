"""Gains of exponential smoothing: a grid over the part of the model that is not convex."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from regfactor.core.params import Array, frozen

SHARE_WITH_TREND = 0.4  # of the prior
LEVEL_GAINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
LEVEL_GAINS_WITH_TREND = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
SLOPE_GAINS = (0.0, 0.03, 0.1, 0.3)
DAMPINGS = (0.85, 0.95, 1.0)
SEASON_GAINS = (0.0, 0.05, 0.15, 0.35, 0.7)  # of what the level leaves
FEW_LEVEL_GAINS = (0.05, 0.2, 0.5, 0.9)
FEW_SEASON_GAINS = (0.0, 0.2, 0.7)  # fixed, slow, and so fast that last year counts most
GAP_LEVEL_GAINS = (0.05, 0.2, 0.5, 1.0)
GAP_SLOPES = ((0.03, 0.95), (0.1, 1.0), (0.3, 1.0), (0.8, 1.0))  # gain and damping


@frozen
class Gains:
    """Members of a smoothing bank: gains of level, slope and season, damping, and priors.

    All arrays have the shape (n_members,).
    """

    level: Array
    slope: Array
    damping: Array
    season: Array
    trend: Array
    log_prior: Array

    def __len__(self) -> int:
        return len(self.level)

    @staticmethod
    def of(rows: Sequence[tuple[float, float, float, float]], trend: Sequence[bool]) -> Gains:
        """Return members from rows of (level, slope, damping, season)."""
        level, slope, damping, season = np.array(rows).T
        with_trend = np.array(trend)
        return Gains(level, slope, damping, season, with_trend, np.zeros(len(rows)))

    def responses(self, season: int, horizon: int) -> Array:
        """Return the effects of an innovation 0..horizon - 1 steps later, (n_members, horizon).

        psi_j = alpha + beta (phi + ... + phi^j) + gamma at whole seasons, psi_0 = 1.
        """
        steps = np.arange(1, horizon)
        damped = np.cumsum(self.damping[:, None] ** steps, axis=1)
        psi = self.level[:, None] + self.slope[:, None] * damped
        if season > 1:
            psi = psi + self.season[:, None] * (steps % season == 0)
        return np.concatenate([np.ones((len(self), 1)), psi], axis=1)


def all_gains(seasonal: bool) -> Gains:
    """Return the members without a season, or those with one."""
    plain: list[tuple[float, float, float]] = [(level, 0.0, 0.0) for level in LEVEL_GAINS]
    trended = [
        (level, slope, damping)
        for level, slope, damping in itertools.product(
            LEVEL_GAINS_WITH_TREND, SLOPE_GAINS, DAMPINGS
        )
        if slope <= level
    ]
    return _crossed(plain, trended, SEASON_GAINS if seasonal else None)


def level_gains(seasonal: bool) -> Gains:
    """Return the members without a trend."""
    plain: list[tuple[float, float, float]] = [(level, 0.0, 0.0) for level in LEVEL_GAINS]
    return _crossed(plain, [], SEASON_GAINS if seasonal else None)


def few_gains(seasonal: bool) -> Gains:
    """Return a small bank, by which seasons and logarithms are chosen."""
    plain: list[tuple[float, float, float]] = [(level, 0.0, 0.0) for level in FEW_LEVEL_GAINS]
    trended = [(level, 0.03, 0.95) for level in FEW_LEVEL_GAINS]
    return _crossed(plain, trended, FEW_SEASON_GAINS if seasonal else None)


def gap_gains(seasonal: bool) -> Gains:
    """Return the bank by which gaps are filled, with slopes that may change as fast as levels."""
    plain: list[tuple[float, float, float]] = [(level, 0.0, 0.0) for level in GAP_LEVEL_GAINS]
    trended = [
        (level, slope, damping)
        for level, (slope, damping) in itertools.product(GAP_LEVEL_GAINS, GAP_SLOPES)
        if slope <= level
    ]
    return _crossed(plain, trended, FEW_SEASON_GAINS if seasonal else None)


def _crossed(
    plain: list[tuple[float, float, float]],
    trended: list[tuple[float, float, float]],
    season_gains: Sequence[float] | None,
) -> Gains:
    """Return levels and trends with each gain of a season, equal members once."""
    rows: dict[tuple[float, float, float, float, bool], None] = {}
    for group, trend in ((plain, False), (trended, True)):
        for level, slope, damping in group:
            for share in season_gains or (0.0,):
                rows[level, slope, damping, share * (1 - level), trend] = None
    return Gains.of([row[:4] for row in rows], [row[4] for row in rows])


def with_prior(groups: Sequence[Gains]) -> list[Gains]:
    """Return groups of members with their prior, of which those with a trend have a fixed share."""
    trend = np.concatenate([group.trend for group in groups])
    share = np.where(
        trend,
        SHARE_WITH_TREND / max(trend.sum(), 1),
        (1 - SHARE_WITH_TREND) / max((~trend).sum(), 1),
    )
    found = []
    start = 0
    for group in groups:
        part = np.log(share[start : start + len(group)])
        found.append(
            Gains(group.level, group.slope, group.damping, group.season, group.trend, part)
        )
        start += len(group)
    return found
