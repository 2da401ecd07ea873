"""Distributions of missing entries, calibrated by entries that a fit did not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.fitting.conformal import conformal_quantile
from regfactor.fitting.leverage import HeldOutEntries
from regfactor.fitting.predictive import Predictive, predictive
from regfactor.losses import Loss

POOLED_ENTRIES = 20.0  # scores of all columns that count next to those of a column, in entries
N_POOLED = 400  # quantiles that stand for the scores of all columns
# how much of the leverage is variance: the share under which held-out entries are likeliest
LEVERAGE_SHARES = np.concatenate([[0.0], 10.0 ** np.arange(-3.0, 0.6, 0.5)])
LARGEST_LEVERAGE = 1e3  # a row without enough entries to determine its codes has more
LARGEST_LINK_VARIANCE = 1.0  # of predictors of counts and labels, whose penalty is not their prior
MIN_ENTRIES = 10  # held out, from which on intervals are given at all


@dataclass(frozen=True)
class EntryCalibration:
    """Noise of columns, the share of the leverage that is variance, and scores of held-out entries.

    An entry of column j has variance noise_j (1 + share leverage) under a loss of residuals, and
    the distribution of the loss under others. Scores of a column are its own and, in the weight of
    20 entries, those of all columns of its kind: `pooled` are quantiles of numbers under losses of
    residuals, then of all others.
    """

    parts: list[tuple[Any, Loss]]
    noise: Array
    share: float
    scores: Array
    columns: Array
    pooled: Array

    @staticmethod
    def of(parts: list[tuple[Any, Loss]], held: HeldOutEntries, width: int) -> EntryCalibration:
        """Return what held-out entries show."""
        if len(held.x) < MIN_ENTRIES:
            raise ValueError(
                f"Intervals need at least {MIN_ENTRIES} entries that can be held out, and the "
                f"table has {len(held.x)}.",
            )
        share = _leverage_share(parts, held, width)
        noise = _noise(parts, held, share, width)
        fitted = EntryCalibration(
            parts,
            noise,
            share,
            np.empty(0),
            held.columns,
            np.empty(0),
        )
        scores = np.empty(len(held.x))
        for j in np.unique(held.columns).tolist():
            own = held.columns == j
            entries = fitted.entries(j, held.z[own], held.leverage[own])
            scores[own] = entries.scores(held.x[own])
        is_residual = _residuals(parts, held, width)
        pooled = np.stack([_quantiles(scores[is_residual]), _quantiles(scores[~is_residual])])
        return EntryCalibration(parts, noise, share, scores, held.columns, pooled)

    def entries(self, j: int, z: Array, leverage: Array) -> Predictive:
        """Return the distributions of entries of a column."""
        loss = self.loss(j)
        variance = self.share * np.minimum(leverage, LARGEST_LEVERAGE)
        if not loss.of_residual:
            variance = np.minimum(leverage, LARGEST_LINK_VARIANCE)
        return predictive(
            loss,
            z,
            variance,
            np.full(len(z), self.noise[j]),
        )

    def loss(self, j: int) -> Loss:
        """Return the loss of a column."""
        for at, part in self.parts:
            if j in np.arange(len(self.noise))[at]:
                return part
        raise ValueError(f"Column {j} has no loss.")

    def deviations(self, j: int, level: float) -> float:
        """Return how many deviations an interval of a column needs; inf if there are too few."""
        own = self.scores[self.columns == j]
        weights = np.concatenate([np.ones(len(own)), np.full(N_POOLED, POOLED_ENTRIES / N_POOLED)])
        others = self.pooled[0 if self.loss(j).of_residual else 1]
        scores = np.concatenate([own, others])
        return conformal_quantile(scores, level, weights)


def _quantiles(scores: Array) -> Array:
    """Return quantiles that stand for scores; infinite ones where there are none."""
    if not len(scores):
        return np.full(N_POOLED, np.inf)
    return np.quantile(scores, (np.arange(N_POOLED) + 0.5) / N_POOLED)


def _residuals(parts: list[tuple[Any, Loss]], held: HeldOutEntries, width: int) -> Array:
    """Return the mask of held-out entries whose loss is one of residuals."""
    of_residual = np.zeros(width, bool)
    for at, part in parts:
        of_residual[at] = part.of_residual
    return of_residual[held.columns]


def _leverage_share(parts: list[tuple[Any, Loss]], held: HeldOutEntries, width: int) -> float:
    """Return the share of the leverage under which normal residuals are likeliest."""
    own = _residuals(parts, held, width)
    if not own.any():
        return 1.0
    squares = np.square(held.x[own] - held.z[own])
    columns = held.columns[own]
    leverage = np.minimum(held.leverage[own], LARGEST_LEVERAGE)
    counts = np.bincount(columns, minlength=width)
    costs = []
    for share in LEVERAGE_SHARES:
        factor = 1 + share * leverage
        sums = np.bincount(columns, squares / factor, width)
        variance = np.maximum(sums / np.maximum(counts, 1), np.finfo(float).tiny)
        costs.append(float(np.log(factor).sum() + counts @ np.log(variance)))
    return float(LEVERAGE_SHARES[int(np.argmin(costs))])


def _noise(
    parts: list[tuple[Any, Loss]],
    held: HeldOutEntries,
    share: float,
    width: int,
) -> Array:
    """Return the variance of each column about its predictors, near that of all where few."""
    own = _residuals(parts, held, width)
    if not own.any():
        return np.ones(width)
    squares = np.square(held.x[own] - held.z[own])
    squares = squares / (1 + share * np.minimum(held.leverage[own], LARGEST_LEVERAGE))
    sums = np.bincount(held.columns[own], squares, width)
    counts = np.bincount(held.columns[own], minlength=width)
    mean = max(float(squares.mean()), np.finfo(float).tiny)
    return np.asarray((sums + POOLED_ENTRIES * mean) / (counts + POOLED_ENTRIES))
