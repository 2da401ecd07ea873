"""Columns brought to a common scale before a fit, and its components back to their units."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import EPS, Array, frozen
from regfactor.losses import Loss, Squared

NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
ROUNDING = 64 * EPS  # share of the largest number below which a deviation is rounding


@frozen
class Scaling:
    """(x - center) / divisor for each column."""

    center: Array
    divisor: Array

    @staticmethod
    def none(width: int) -> Scaling:
        """Return a scaling that changes nothing."""
        return Scaling(np.zeros(width), np.ones(width))

    def __call__(self, table: Array) -> Array:
        """Return a table in the scale of the fit, in its precision."""
        return (table - self.center.astype(table.dtype)) / self.divisor.astype(table.dtype)


def scaling_of(table: Array, loss: Loss, weights: Array, centered: bool) -> Scaling:
    """Return the location and deviation of each column, NaN left out.

    These are mean and standard deviation under the squared loss, median and interquartile range
    under other losses of the residual. Any other loss has a scale of its own.
    """
    scaling = Scaling.none(table.shape[1])
    if not loss.of_residual:
        return scaling
    moments = _mean_and_deviation if isinstance(loss, Squared) else _median_and_range
    for j in range(table.shape[1]):
        used = ~np.isnan(table[:, j]) & (weights > 0)
        if not used.any():
            continue
        values = table[used, j].astype(np.float64)
        location, deviation = moments(values, weights[used])
        if centered:
            scaling.center[j] = location
        if deviation > ROUNDING * np.abs(values).max():
            scaling.divisor[j] = deviation
    return scaling


def _mean_and_deviation(values: Array, weights: Array) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average(np.square(values - mean), weights=weights)))


def _median_and_range(values: Array, weights: Array) -> tuple[float, float]:
    """Return the median and the interquartile range, or the deviation where that is zero."""
    low, median, high = np.quantile(
        values,
        (0.25, 0.5, 0.75),
        weights=weights,
        method="inverted_cdf",
    )
    deviation = (high - low) / NORMAL_IQR
    if not deviation > 0:
        deviation = _mean_and_deviation(values, weights)[1]
    return float(median), float(deviation)
