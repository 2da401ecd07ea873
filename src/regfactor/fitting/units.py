"""Deviations of columns, robust or not, with weights: the units in which a table is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses import Loss

# interquartile range of the normal distribution in units of its standard deviation
NORMAL_IQR = 1.349
# relative spread up to which a column is constant but for rounding
ROUNDING_SPREAD = 256 * np.finfo(np.float64).eps


def bounds_influence(loss: Loss) -> bool:
    """Return whether a single entry has bounded influence: the derivative of the loss is."""
    low, high = loss.dual_domain(np.zeros(1))
    return bool(np.isfinite(low).all() and np.isfinite(high).all())


def column_deviation(values: Array, weights: Array | None, robust: bool) -> float:
    """Return a deviation of the observed values of a column that is never zero.

    It is the standard deviation, or the interquartile range / 1.349 where that is asked for and
    not zero; of constants their size, and one without a value other than zero. A column of two
    values is an indicator, whose unit is their distance: in its deviation a rare level would count
    for more than a frequent one.
    """
    values = values.astype(np.float64, copy=False)
    if weights is not None:
        values = values[weights > 0]
        weights = weights[weights > 0]
    if not len(values):
        return 1.0
    size = float(np.abs(values).max())
    if size == 0:
        return 1.0
    values = values / size  # whose squares neither overflow nor underflow
    low = values.min()
    high = values.max()
    if low < high and np.all((values == low) | (values == high)):
        return size * float(high - low)
    if robust:
        low, high = quantiles(values, (0.25, 0.75), weights)
        if high - low > ROUNDING_SPREAD:
            return size * float(high - low) / NORMAL_IQR
    mean = np.average(values, weights=weights)
    deviation = float(np.sqrt(np.average(np.square(values - mean), weights=weights)))
    if deviation > ROUNDING_SPREAD:
        return size * deviation
    return size


def quantiles(values: Array, shares: Any, weights: Array | None) -> Array:
    """Return quantiles that are the same for a value of weight two and for two of weight one."""
    if weights is not None:
        weights = weights.astype(np.float64)
    return np.quantile(values, shares, weights=weights, method="inverted_cdf")


def entry_deviations(
    X: Any,
    weights: Any,
    columns: Array,
    robust: bool,
) -> Array:
    """Return the deviation of the stored or observed entries of each of some columns.

    Weights are those of entries, stored like the table, or None.
    """
    sparse = is_sparse(X)
    if sparse:
        X = X.tocsc()
        weights = None if weights is None else weights.tocsc()
    out = np.empty(len(columns))
    for k, j in enumerate(columns.tolist()):
        if sparse:
            stored = slice(X.indptr[j], X.indptr[j + 1])
            values = X.data[stored]
            here = None if weights is None else weights.data[stored]
        else:
            observed = ~np.isnan(X[:, j])
            values = X[observed, j]
            here = None if weights is None else weights[observed, j]
        out[k] = column_deviation(values, here, robust)
    return out
