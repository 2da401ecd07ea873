"""Bounds of numbers: read, checked against the table, and normal distributions that keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from regfactor.core.params import Array, choose, is_number
from regfactor.losses.limits import truncated_moments

SMALLEST_SHARE = 1e-12  # of a distribution inside its bounds, below which it is at the nearer end


def read_bounds(bounds: Any, names: list[Any], X: Array, is_number_column: Array) -> Array | None:
    """Return lower and upper bounds of the columns of a table, in its units; None without any."""
    if not bounds:
        return None
    limits = np.tile(np.array([[-np.inf], [np.inf]]), (1, X.shape[1]))
    for j, pair in bounds_by_column(bounds, names, X, is_number_column).items():
        limits[:, j] = pair
    return limits


def bounds_by_column(
    bounds: Any,
    names: list[Any],
    X: Array,
    is_number_column: Array,
) -> dict[int, tuple[float, float]]:
    """Return the lower and upper bounds that a user states, by the positions of columns.

    Raise for bounds that are none, of columns that hold no numbers, or that an entry lies outside
    of, with its row and column.
    """
    if not isinstance(bounds, Mapping):
        raise ValueError(
            "bounds is a dict of a column to its lower and upper bound, such as "
            f"{{'age': (0, 120)}}; got {bounds!r}."
        )
    found: dict[int, tuple[float, float]] = {}
    places = {name: j for j, name in enumerate(names)}
    for name, pair in bounds.items():
        j = places.get(name)
        if j is None:
            j = choose(name, {str(known): k for known, k in places.items()}, "column of bounds")
        if not is_number_column[j]:
            raise ValueError(f"bounds are for columns of numbers, and {name!r} holds categories.")
        low, high = _pair(name, pair)
        outside = (X[:, j] < low) | (X[:, j] > high)
        if outside.any():
            i = int(outside.argmax())
            raise ValueError(
                f"Row {i} holds {X[i, j]:g} in column {name!r}, outside of its bounds "
                f"({low:g}, {high:g}). Correct the entry, mark it as missing, or widen the bounds."
            )
        found[j] = (low, high)
    return found


def _pair(name: Any, pair: Any) -> tuple[float, float]:
    """Return a lower and an upper bound; None is open."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"bounds of {name!r} are a pair (lower, upper), got {pair!r}.")
    for value in pair:
        if value is not None and not (is_number(value) and not np.isnan(value)):
            raise ValueError(f"bounds of {name!r} are numbers or None, got {value!r}.")
    low = -np.inf
    if pair[0] is not None:
        low = float(pair[0])
    high = np.inf
    if pair[1] is not None:
        high = float(pair[1])
    if not low < high:
        raise ValueError(
            f"bounds of {name!r} are ({low:g}, {high:g}); the lower must be below the upper."
        )
    return low, high


def truncated_mean(mean: Array, deviation: Array, low: Array, high: Array) -> Array:
    """Return the means of normal distributions given that they lie within bounds.

    m + s (phi(a) - phi(b)) / (Phi(b) - Phi(a)) with a = (low - m) / s and b = (high - m) / s.
    """
    bounded = np.isfinite(low) | np.isfinite(high)
    out = np.array(mean, np.float64)
    m, s, a, b = np.broadcast_arrays(mean, deviation, low, high)
    s = s[bounded]
    a = (a[bounded] - m[bounded]) / s
    b = (b[bounded] - m[bounded]) / s
    out[bounded] += s * truncated_moments(a, b, b - a).mean
    return np.clip(out, low, high)


def truncated_quantile(
    mean: Array,
    deviation: Array,
    low: Array,
    high: Array,
    share: float,
) -> Array:
    """Return a quantile of normal distributions given that they lie within bounds.

    Far from the mean, where the shares of both ends vanish, it is the end that is nearer to it.
    """
    a = (low - mean) / deviation
    b = (high - mean) / deviation
    # tails are distinguished on the left, where shares are small
    mirrored = a + b > 0
    first = ndtr(np.where(mirrored, -b, a))
    last = ndtr(np.where(mirrored, -a, b))
    part = np.where(mirrored, 1 - share, share)
    inside = last - first > 0
    quantile = ndtri(np.where(inside, first + part * (last - first), 0.5))
    quantile = np.where(mirrored, -quantile, quantile)
    return np.clip(mean + deviation * quantile, low, high)


def truncated_draw(
    mean: Array,
    deviation: Array,
    bounds: Array | None,
    random: np.random.Generator,
) -> Array:
    """Return draws of normal distributions given that they lie within the bounds of columns."""
    if bounds is None:
        return mean + deviation * random.normal(size=mean.shape)
    low, high = bounds
    first = ndtr((low - mean) / deviation)
    last = ndtr((high - mean) / deviation)
    share = first + (last - first) * random.random(mean.shape)
    inside = last - first > SMALLEST_SHARE
    drawn = mean + deviation * ndtri(np.clip(np.where(inside, share, 0.5), 1e-300, 1 - 1e-16))
    return np.clip(drawn, low, high)
