"""Bounds of filled numbers: checked against the table, and distributions truncated by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.auto_imputer.calibration import ErrorScores
from regfactor.tables.auto_imputer.filling import TableReader, is_plain_number
from regfactor.tables.truncation import bounds_by_column

N_NODES = 64  # quantiles by which a truncated distribution is averaged


def read_bounds(bounds: Any, reader: TableReader, E: Array) -> Array:
    """Return the lower and upper bound of each encoded column; columns of counts begin at zero."""
    limits = np.tile(np.array([[-np.inf], [np.inf]]), (1, E.shape[1]))
    counts = reader.whole & (np.fmin.reduce(E, axis=0, initial=np.inf) >= 0)
    limits[0, counts] = 0.0
    if bounds is None:
        return limits
    first = np.array([block[0] if len(block) else 0 for block in reader.blocks], int)
    numbers = np.array([is_plain_number(reader, v) for v in range(len(first))], bool)
    given = bounds_by_column(bounds, list(reader.names), E[:, first], numbers)
    for v, pair in given.items():
        limits[:, first[v]] = pair
    return limits


def truncated_means(
    means: Array, deviations: Array, scores: ErrorScores, low: float, high: float
) -> Array:
    """Return the means of distributions that do not leave their bounds.

    mean + sigma * residual, residuals distributed as those of held-out entries; where the bounds
    cut nothing off, the mean stays as it is.
    """
    residuals = scores.quantiles((np.arange(N_NODES) + 0.5) / N_NODES)
    nodes = means[:, None] + deviations[:, None] * residuals
    inside = (nodes >= low) & (nodes <= high)
    counts = inside.sum(axis=1)
    kept = np.where(inside, nodes, 0.0).sum(axis=1) / np.maximum(counts, 1)
    shifted = means + (kept - nodes.mean(axis=1))
    cut = (counts > 0) & (counts < N_NODES)
    return np.clip(np.where(cut, shifted, means), low, high)


def truncated_draws(
    means: Array,
    deviations: Array,
    shares: Array,
    scores: ErrorScores,
    low: float,
    high: float,
) -> Array:
    """Return quantiles of distributions that do not leave their bounds, at given shares."""
    grid = (np.arange(4 * N_NODES) + 0.5) / (4 * N_NODES)
    residuals = scores.quantiles(grid)
    below = np.interp(
        (low - means) / deviations,
        residuals,
        grid,
        left=0.0,
        right=1.0,
    )
    until = np.interp(
        (high - means) / deviations,
        residuals,
        grid,
        left=0.0,
        right=1.0,
    )
    shares = below + shares * (until - below)
    return np.clip(means + deviations * scores.quantiles(shares), low, high)
