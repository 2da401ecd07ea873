"""Densities of one cluster with independent columns, linear in statistics of a row.

    log p(x | j) = T(x) . eta_j - sum over observed columns c of a_jc + h(x)

An EM step is two products of matrices. A missing entry adds nothing to any of the sums, so that
the likelihood is that of the observed entries.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from regfactor.clusters.component_family import ComponentFamily
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen

VARIANCE_FLOOR = 1e-3  # of the variance of a column
PSEUDO_ROWS = 4.0  # of the pooled variance, in each cluster's own
LARGEST_RATIO = 4.0  # between an own variance and the pooled one
PRIOR_ROWS = 0.5  # of the pooled rates, in those of each cluster
LARGEST_SHAPE = 1e6
MIN_SIZE = 1e-3  # of a negative binomial distribution
NEWTON_STEPS = 3


@frozen
class Statistics:
    """T(x) of rows, with zeros where entries are missing.

    Attributes
    ----------
    values : array of shape (n_samples, n_columns)
        Rows with zeros where entries are missing.
    table : array of shape (n_samples, n_statistics)
        T.
    observed : array of shape (n_samples, n_columns) or None
        One where an entry is observed; None if all are.
    floor : array of shape (n_columns,)
        The least variance.
    constant : array of shape (n_samples,)
        The part of h that depends on no parameter.
    """

    values: Array
    table: Array
    observed: Array | None
    floor: Array
    constant: Array

    def counts(self, R: Array) -> Array:
        """Return the total responsibility of each cluster for the entries of each column."""
        if self.observed is None:
            return np.repeat(R.sum(axis=0)[:, None], self.values.shape[1], axis=1)
        return np.asarray(R.T @ self.observed)


@frozen
class LinearParameters:
    """eta and a of each cluster, the free parameters that they count as, and h of rows.

    Attributes
    ----------
    eta : array of shape (n_clusters, n_statistics)
    normalizer : array of shape (n_clusters, n_columns)
    n_parameters : float
    nuisance : array of shape (n_columns,) or None
        A parameter that clusters have in common, of which h depends.
    """

    eta: Array
    normalizer: Array
    n_parameters: float
    nuisance: Array | None = None


class LinearFamily(ComponentFamily):
    """The role of a family whose log density is linear in statistics of a row."""

    def prepare(self, Y: Array, floor: Array) -> Statistics:
        missing = np.isnan(Y)
        observed = None
        if missing.any():
            observed = (~missing).astype(float)
            Y = np.where(missing, 0.0, Y)
        return Statistics(Y, self.statistics(Y, missing), observed, floor, self.constant(Y))

    def log_density(self, rows: Any, parameters: Any) -> Array:
        scores = rows.table @ parameters.eta.T
        if rows.observed is None:
            scores -= parameters.normalizer.sum(axis=1)
        else:
            scores -= rows.observed @ parameters.normalizer.T
        return np.asarray(scores + self.base(rows, parameters.nuisance)[:, None])

    def n_parameters(self, parameters: Any) -> float:
        return float(parameters.n_parameters)

    def statistics(self, Y: Array, missing: Array) -> Array:
        """Return T of rows, whose missing entries are zeros."""
        return Y

    def constant(self, Y: Array) -> Array:
        """Return the part of h of each row that depends on no parameter."""
        return np.zeros(len(Y))

    def base(self, rows: Statistics, nuisance: Array | None) -> Array:
        """Return h of each row."""
        return rows.constant

    @abc.abstractmethod
    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters: ...


@frozen
class DiagonalGaussian(LinearFamily):
    """Normal columns, with variances that all clusters share or with own ones."""

    own: bool = False

    @property
    def name(self) -> str:
        return "own variances" if self.own else "one variance"

    @property
    def assumes(self) -> str:
        if self.own:
            return "independent normal columns, each cluster with its own variances"
        return "independent normal columns of the same variances in all clusters"

    def statistics(self, Y: Array, missing: Array) -> Array:
        return np.hstack([np.square(Y), Y])

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        d = rows.values.shape[1]
        counts = rows.counts(R)
        held = np.maximum(counts, SMALLEST_NORMAL)
        sums = R.T @ rows.table
        total = np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
        # a cluster without an entry in a column has the mean of the column
        means = sums[:, d:] / held
        means = np.where(counts > SMALLEST_NORMAL, means, sums[:, d:].sum(axis=0) / total)
        squares = np.maximum(sums[:, :d] - counts * np.square(means), 0.0)
        floor = np.maximum(rows.floor, VARIANCE_FLOOR)
        pooled = np.maximum(squares.sum(axis=0) / total, floor)
        variances = np.repeat(pooled[None], len(means), axis=0)
        n_variances = float(d)
        if self.own:
            own = (squares + PSEUDO_ROWS * pooled) / (counts + PSEUDO_ROWS)
            own = np.clip(own, pooled / LARGEST_RATIO, pooled * LARGEST_RATIO)
            variances = np.maximum(own, floor)
            n_variances += float(((counts / (counts + PSEUDO_ROWS)).sum(axis=0) - 1).clip(0).sum())
        eta = np.hstack([-0.5 / variances, means / variances])
        normalizer = 0.5 * (np.square(means) / variances + np.log(2 * np.pi * variances))
        return LinearParameters(eta, normalizer, means.size + n_variances)


@frozen
class Gamma(LinearFamily):
    """Gamma distributed columns, with a shape for each column that clusters share."""

    @property
    def name(self) -> str:
        return "gamma"

    @property
    def assumes(self) -> str:
        return "independent positive columns whose spread grows with their mean"

    def statistics(self, Y: Array, missing: Array) -> Array:
        logs = np.log(np.where(missing, 1.0, Y))
        return np.hstack([logs, Y])

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        d = rows.values.shape[1]
        counts = rows.counts(R)
        sums = R.T @ rows.table
        total = np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
        common = sums[:, d:].sum(axis=0) / total
        means = (sums[:, d:] + SMALLEST_NORMAL * common) / (counts + SMALLEST_NORMAL)
        # log shape - digamma(shape) = mean of log mean - log x, rounding added to the spread
        gap = (counts * np.log(means) - sums[:, :d]).sum(axis=0) / total
        gap = np.maximum(gap + rows.floor / 2, 1 / LARGEST_SHAPE)
        shape = gamma_shape(gap)
        eta = np.hstack([np.repeat(shape[None] - 1, len(means), axis=0), -shape / means])
        normalizer = gammaln(shape) - shape * np.log(shape) + shape * np.log(means)
        return LinearParameters(eta, normalizer, float(means.size + d))


@frozen
class Poisson(LinearFamily):
    """Poisson distributed counts."""

    @property
    def name(self) -> str:
        return "Poisson"

    @property
    def assumes(self) -> str:
        return "independent counts whose variance is their mean"

    def constant(self, Y: Array) -> Array:
        return np.asarray(-gammaln(Y + 1).sum(axis=1))

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        means = smoothed_means(rows, R)
        return LinearParameters(np.log(means), means, float(means.size))


@frozen
class NegativeBinomial(LinearFamily):
    """Counts with more variance than Poisson ones, by a size for each column that clusters share.

    With mean m and size r the variance is m + m^2/r.
    """

    @property
    def name(self) -> str:
        return "negative binomial"

    @property
    def assumes(self) -> str:
        return "independent counts that vary more than by chance"

    def base(self, rows: Statistics, nuisance: Array | None) -> Array:
        assert nuisance is not None
        terms = log_rising_factorials(rows.values, nuisance)
        if rows.observed is not None:
            terms = rows.observed * terms
        return np.asarray(terms.sum(axis=1))

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        means = smoothed_means(rows, R)
        counts = rows.counts(R)
        squares = R.sum(axis=1) @ np.square(rows.values)
        excess = squares - (counts * (np.square(means) + means)).sum(axis=0)
        expected = (counts * np.square(means)).sum(axis=0)
        sizes = np.maximum(expected / np.maximum(excess, expected / LARGEST_SHAPE), MIN_SIZE)
        eta = np.log(means) - np.log(sizes + means)
        normalizer = sizes * np.log1p(means / sizes)
        return LinearParameters(eta, normalizer, float(means.size + len(sizes)), sizes)


@frozen
class Multinomial(LinearFamily):
    """Counts given their total, which says nothing about the cluster."""

    @property
    def name(self) -> str:
        return "multinomial"

    @property
    def assumes(self) -> str:
        return "counts whose proportions, not totals, tell clusters apart"

    def base(self, rows: Statistics, nuisance: Array | None) -> Array:
        assert nuisance is not None
        mean = nuisance[0]
        size = nuisance[1]
        totals = rows.values.sum(axis=1)
        of_total = gammaln(totals + size) - gammaln(size) - size * np.log1p(mean / size)
        of_total += totals * (np.log(mean) - np.log(size + mean))
        return np.asarray(of_total + rows.constant)

    def constant(self, Y: Array) -> Array:
        # log total! of the multinomial cancels with that of the negative binomial total
        return np.asarray(-gammaln(Y + 1).sum(axis=1))

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        sums = R.T @ rows.values
        common = sums.sum(axis=0) / max(float(sums.sum()), SMALLEST_NORMAL)
        prior = PRIOR_ROWS * float(sums.sum() / max(float(R.sum()), SMALLEST_NORMAL))
        shares = (sums + prior * common) / (sums.sum(axis=1, keepdims=True) + prior)
        weights = R.sum(axis=1)
        totals = rows.values.sum(axis=1)
        mass = max(float(weights.sum()), SMALLEST_NORMAL)
        mean = max(float(weights @ totals) / mass, MIN_SIZE)
        excess = float(weights @ np.square(totals - mean)) / mass - mean
        size = max(mean**2 / max(excess, mean**2 / LARGEST_SHAPE), MIN_SIZE)
        eta = np.log(np.maximum(shares, SMALLEST_NORMAL))
        n_parameters = float(shares.size - len(shares) + 2)
        nuisance = np.array([mean, size])
        return LinearParameters(eta, np.zeros_like(eta), n_parameters, nuisance)


@frozen
class Categorical(LinearFamily):
    """Columns of 0 and 1: single bits, and groups of which one is 1 in every row.

    Attributes
    ----------
    groups : array of int of shape (n_columns,)
        The group of each column; that of a single bit has one column.
    """

    groups: Array

    @property
    def name(self) -> str:
        return "categorical"

    @property
    def assumes(self) -> str:
        return "independent categories or yes/no columns in each cluster"

    def maximize(self, rows: Any, R: Array, last: Any = None) -> LinearParameters:
        counts = rows.counts(R)
        common = (R.sum(axis=1) @ rows.values) / np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
        shares = (R.T @ rows.values + common) / (counts + 1.0)
        shares = np.clip(shares, SMALLEST_NORMAL, 1.0)
        widths = np.bincount(self.groups)[self.groups]
        is_bit = widths == 1
        rest = np.log1p(-np.minimum(np.where(is_bit, shares, 0.0), 1 - 1e-12))
        n_parameters = len(shares) * float(is_bit.sum() + ((widths - 1) / widths)[~is_bit].sum())
        return LinearParameters(np.log(shares) - rest, -rest, n_parameters)


def smoothed_means(rows: Statistics, R: Array) -> Array:
    """Return means of counts in each cluster, drawn to the common ones by a share of a row."""
    counts = rows.counts(R)
    sums = R.T @ rows.values
    common = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
    means = (sums + PRIOR_ROWS * common) / (counts + PRIOR_ROWS)
    return np.asarray(np.maximum(means, SMALLEST_NORMAL))


def log_rising_factorials(counts: Array, sizes: Array) -> Array:
    """Return log of gamma(x + r) / (gamma(r) x!) of counts x, r the size of each column.

    Of counts that are small relative to the number of rows every possible one is found once.
    """
    largest = int(counts.max(initial=0))
    if largest >= len(counts):
        return np.asarray(gammaln(counts + sizes) - gammaln(counts + 1) - gammaln(sizes))
    possible = np.arange(largest + 1.0)[:, None]
    terms = gammaln(possible + sizes) - gammaln(possible + 1) - gammaln(sizes)
    return np.take_along_axis(terms, counts.astype(np.intp), axis=0)


def gamma_shape(gap: Array) -> Array:
    """Return the shape a with log a - digamma(a) = gap, by Newton's method on 1/a."""
    shape = (3 - gap + np.sqrt(np.square(gap - 3) + 24 * gap)) / (12 * gap)
    for _ in range(NEWTON_STEPS):
        value = np.log(shape) - digamma(shape) - gap
        slope = 1 / shape - polygamma(1, shape)
        shape = 1 / (1 / shape + value / (np.square(shape) * slope))
    return np.asarray(np.clip(shape, 1 / LARGEST_SHAPE, LARGEST_SHAPE))
