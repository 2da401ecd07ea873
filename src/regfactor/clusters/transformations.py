"""Transformations of the numbers of a table to columns that may be normal, with their Jacobians.

    log p(x) = log p(y) + sum over observed entries of log |dy/dx|,    y = f(x),

so that likelihoods under different transformations compare.
"""

from __future__ import annotations

import abc

import numpy as np

from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.fitting.complete_rows import RowCompletion

LOG_2PI = float(np.log(2 * np.pi))
MIN_NOISE = 1e-6  # of the variance, that of the columns which principal components leave out


class Elementwise(abc.ABC):
    """A monotone function of the entries of a column."""

    name: str
    meaning: str  # of a difference between transformed entries, in plain words

    @abc.abstractmethod
    def value(self, X: Array, unit: Array) -> Array:
        """Return f(x); `unit` is the size of one count, or the least positive number."""

    @abc.abstractmethod
    def log_slope(self, X: Array, unit: Array) -> Array:
        """Return log f'(x)."""


@frozen
class Untransformed(Elementwise):
    """f(x) = x."""

    name = "numbers"
    meaning = "rows are compared by differences of the numbers as they are"

    def value(self, X: Array, unit: Array) -> Array:
        return X

    def log_slope(self, X: Array, unit: Array) -> Array:
        return np.zeros_like(X)


@frozen
class Logarithm(Elementwise):
    """f(x) = log(x + u/2) where there are zeros, else log x."""

    shifted: bool

    name = "logarithms"
    meaning = "rows are compared by ratios: twice as large is as far at any size"

    def value(self, X: Array, unit: Array) -> Array:
        return np.log(self._shifted(X, unit))

    def log_slope(self, X: Array, unit: Array) -> Array:
        return -np.log(self._shifted(X, unit))

    def _shifted(self, X: Array, unit: Array) -> Array:
        if self.shifted:
            # new rows may be smaller than all of the fit
            return np.maximum(X + unit / 2, unit / 4)
        return np.maximum(X, unit / 2)


@frozen
class SquareRoot(Elementwise):
    """f(x) = sqrt(x + 3u/8), which makes the variance of counts constant (Anscombe 1948)."""

    name = "square roots"
    meaning = "rows are compared by square roots, of which counts vary as much at any size"

    def value(self, X: Array, unit: Array) -> Array:
        return np.sqrt(np.maximum(X + 3 * unit / 8, unit / 8))

    def log_slope(self, X: Array, unit: Array) -> Array:
        return -np.log(2 * self.value(X, unit))


@frozen
class Scaled:
    """Columns in units of their deviations, y = (f(x) - center)/scale.

    Attributes
    ----------
    function : Elementwise
    unit, center, scale : array of shape (n_columns,)
    floor : array of shape (n_columns,)
        The variance of rounding, resolution^2/(2 pi), in squared units of y.
    """

    function: Elementwise
    unit: Array
    center: Array
    scale: Array
    floor: Array

    @staticmethod
    def fit(
        function: Elementwise,
        X: Array,
        weights: Array,
        unit: Array,
        resolution: Array,
        common: bool = False,
    ) -> Scaled:
        """Return the transformation of a table; `common` gives all columns one scale."""
        Y = function.value(X, unit)
        center = weighted_mean(Y, weights)
        variances = weighted_mean(np.square(Y - center), weights)
        if common:
            variances = np.full_like(variances, variances.mean())
        scale = np.sqrt(np.maximum(variances, SMALLEST_NORMAL))
        slope = np.exp(np.nanmedian(function.log_slope(X, unit), axis=0))
        floor = np.square(resolution * slope / scale) / (2 * np.pi)
        return Scaled(function, unit, center, scale, floor)

    def apply(self, X: Array) -> Array:
        """Return y, NaN where x is."""
        return np.asarray((self.function.value(X, self.unit) - self.center) / self.scale)

    def log_jacobian(self, X: Array) -> Array:
        """Return the sum of log |dy/dx| over the observed entries of each row."""
        slopes = self.function.log_slope(X, self.unit) - np.log(self.scale)
        return np.asarray(np.nansum(np.where(np.isnan(X), np.nan, slopes), axis=1))


@frozen
class Principal:
    """Scores on leading principal components, in the first `rank` of which clusters differ.

    Further components are normal and common to all clusters, and what is left is spherical normal
    noise: likelihoods of different ranks compare, as all describe the same entries. Missing entries
    are completed first by a low-rank model of the rows.
    """

    completion: RowCompletion
    center: Array
    directions: Array  # (n_columns, n_components)
    scale: Array
    noise: float
    rank: int

    @staticmethod
    def fit(Y: Array, weights: Array, rank: int, n_components: int, floor: Array) -> Principal:
        """Return the leading components of rows in units of deviations."""
        completion = RowCompletion.fit(Y, weights)
        filled = completion.complete(Y)
        center = weights @ filled / weights.sum()
        centered = (filled - center) * np.sqrt(weights / weights.sum())[:, None]
        _, values, rows = np.linalg.svd(centered, full_matrices=False)
        count = max(min(n_components, int((values > 1e-9 * values[0]).sum())), 1)
        left_out = float(np.square(values[count:]).sum()) / max(Y.shape[1] - count, 1)
        noise = max(left_out, MIN_NOISE, float(floor.mean()))
        directions = rows[:count].T
        return Principal(completion, center, directions, values[:count], noise, min(rank, count))

    @property
    def n_parameters(self) -> float:
        """Free parameters of the directions, and the variances of all that clusters share."""
        d, count = self.directions.shape
        return float(count * d - count * (count + 1) / 2 + count - self.rank + 1)

    def apply(self, Y: Array) -> tuple[Array, Array]:
        """Return scores of unit variance, and the log density of the rest of each row."""
        centered = self.completion.complete(Y) - self.center
        scores = centered @ self.directions
        d, count = self.directions.shape
        rest = np.square(centered).sum(axis=1) - np.square(scores).sum(axis=1)
        log_rest = -0.5 * np.maximum(rest, 0.0) / self.noise
        log_rest -= 0.5 * (d - count) * (LOG_2PI + np.log(self.noise))
        scores = scores / self.scale
        log_rest -= float(np.log(self.scale).sum())
        common = scores[:, self.rank :]
        log_rest -= 0.5 * (np.square(common).sum(axis=1) + common.shape[1] * LOG_2PI)
        return scores[:, : self.rank], log_rest


def weighted_mean(Y: Array, weights: Array) -> Array:
    """Return means of the observed entries of columns."""
    observed = ~np.isnan(Y)
    counts = np.maximum(weights @ observed, SMALLEST_NORMAL)
    return np.asarray(weights @ np.where(observed, Y, 0.0) / counts)


def resolutions(X: Array) -> Array:
    """Return the least difference between distinct numbers of each column."""
    least = np.zeros(X.shape[1])
    for c, column in enumerate(X.T):
        distinct = np.unique(column[~np.isnan(column)])
        if len(distinct) > 1:
            least[c] = np.diff(distinct).min()
    return least


def least_positive(X: Array) -> Array:
    """Return the least positive number of each column, one where there is none."""
    positive = np.where(X > 0, X, np.inf).min(axis=0)
    return np.where(np.isfinite(positive), positive, 1.0)
