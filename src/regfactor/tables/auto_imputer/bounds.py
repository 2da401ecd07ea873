"""Bounds of filled numbers: checked against the table, and distributions truncated by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regfactor.core.params import Array, choose, is_number
from regfactor.tables.auto_imputer.calibration import Scores
from regfactor.tables.auto_imputer.filling import TableReader, is_plain_number

N_NODES = 64  # quantiles by which a truncated distribution is averaged


def read_bounds(bounds: Any, reader: TableReader, E: Array) -> Array:
    """Return the lower and upper bound of each encoded column; columns of counts begin at zero."""
    limits = np.tile(np.array([[-np.inf], [np.inf]]), (1, E.shape[1]))
    counts = reader.whole & (np.fmin.reduce(E, axis=0, initial=np.inf) >= 0)
    limits[0, counts] = 0.0
    if bounds is None:
        return limits
    if not isinstance(bounds, Mapping):
        raise ValueError(
            "bounds is a dict of a column to its lower and upper bound, such as "
            f"{{'age': (0, 120)}}; got {bounds!r}."
        )
    positions = {name: v for v, name in enumerate(reader.names)}
    for name, pair in bounds.items():
        v = positions.get(name)
        if v is None:
            v = choose(name, {str(known): v for known, v in positions.items()}, "column of bounds")
        if not is_plain_number(reader, v):
            raise ValueError(f"bounds are for columns of numbers, and {name!r} holds categories.")
        low, high = _pair(name, pair)
        j = int(reader.blocks[v][0])
        outside = (E[:, j] < low) | (E[:, j] > high)
        if outside.any():
            i = int(outside.argmax())
            raise ValueError(
                f"Row {i} holds {E[i, j]:g} in column {name!r}, outside of its bounds "
                f"({low:g}, {high:g}). Correct the entry, mark it as missing, or widen the bounds."
            )
        limits[:, j] = low, high
    return limits


def _pair(name: Any, pair: Any) -> tuple[float, float]:
    """Return a lower and an upper bound; None is open."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"bounds of {name!r} are a pair (lower, upper), got {pair!r}.")
    for value in pair:
        if value is not None and not (is_number(value) and not np.isnan(value)):
            raise ValueError(f"bounds of {name!r} are numbers or None, got {value!r}.")
    low = -np.inf if pair[0] is None else float(pair[0])
    high = np.inf if pair[1] is None else float(pair[1])
    if not low < high:
        raise ValueError(
            f"bounds of {name!r} are ({low:g}, {high:g}); the lower must be below the upper."
        )
    return low, high


def truncated_means(
    means: Array, deviations: Array, scores: Scores, low: float, high: float
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
    scores: Scores,
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
