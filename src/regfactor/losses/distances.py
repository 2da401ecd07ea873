"""Divergences D(x, m) >= 0 between rows and centers: their role, and distances between rows.

An affine one is stated relative to an anchor a, in practice the mean of the data, by the
three-point identity

    D(x || m) = D(x || a) + D(a || m) - <x - a, f(m) - f(a)>,

whose terms stay small where the data lie far from the origin. So all rows are compared with all
centers by one matrix product.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from regfactor.core.linalg import is_sparse, stored_by_all
from regfactor.core.params import EPS, Array, Params, UnsupportedProblem, require_positive
from regfactor.losses.base import Interval
from regfactor.losses.sums import row_sums, subtract_row

# rounding that adding up rows may leave in the mean of a constant column, relative to the mean
MEAN_ROUNDING = 64 * EPS
# units of rounding of the widest column in one computed from it, such as an empty component
MIXED_ROUNDING = 16
DENSE_ENTRIES = 2**17  # of a block of columns of a sparse table that is made dense
HALF = 0.5 - 1e-12  # share of the weight at or below a median


class Divergence(Params, abc.ABC):
    """D(x, m) of rows x and centers m, zero where they are equal; it states how a center is found.

    Attributes
    ----------
    covariance : ndarray or None
        The parameter of a divergence that has one.
    adaptive : bool
        Whether `refitted` fits a parameter to the clusters.
    """

    covariance: Array | None = None
    adaptive: bool = False

    @property
    def separable(self) -> bool:
        """Whether D is a sum over columns, so that missing entries can be left out of it."""
        return False

    @property
    def domain(self) -> Interval:
        """Where each number of a row may lie."""
        return Interval()

    def finite_domain(self, dtype: Any) -> Interval:
        """Return where numbers of some precision may lie for their divergences to be finite."""
        return self.domain

    @property
    def additive(self) -> bool:
        """Whether rows may stay sparse: F is a sum of one function over columns, finite at zero."""
        return False

    @abc.abstractmethod
    def center(self, X: Any, weights: Array | None = None) -> Array:
        """Return argmin over m of sum_i w_i D(x_i, m), in float64; X may be sparse."""

    def centers(self, X: Array, weights: Array) -> Array:
        """Return the center of the rows under each column of weights."""
        return np.stack([self.center(X, w) for w in weights.T])

    @abc.abstractmethod
    def between(
        self,
        X: Array,
        M: Array,
        anchor: Array,
        base: Array | None = None,
    ) -> Array:
        """D(x_i, m_j) of all pairs, in float64; `base` is D(x_i || a) where that is known."""

    @abc.abstractmethod
    def paired(self, X: Array, M: Array) -> Array:
        """D(x_i, m_i) of rows and a center for each, in float64; no other row affects it."""

    def between_observed(self, X: Array, observed: Array, M: Array) -> Array:
        """D(x_i, m_j) of all pairs, summed over the entries where `observed` is one.

        Other entries of X may be any number of the domain.
        """
        raise UnsupportedProblem(f"{self} compares whole rows; complete missing entries first.")

    def centers_observed(self, X: Array, observed: Array, weights: Array) -> Array:
        """Return the centers of observed entries, NaN where a column of a cluster has none."""
        raise UnsupportedProblem(f"{self} compares whole rows; complete missing entries first.")

    def statistics(
        self,
        X: Array,
        w: Array | None,
        anchor: Array,
        far: bool = False,
    ) -> Array:
        """Return what a block of rows adds to that from which `total` and `refitted` follow.

        `far` means that rows lie far from the origin, where sums lose precision to cancellation.
        """
        return np.zeros(())

    def without_rounding(
        self,
        statistics: Array,
        anchor: Array,
        mass: float,
        eps: float,
    ) -> Array:
        """Return the statistics of all rows, zero where they are rounding of the data alone."""
        return statistics

    def total(self, statistics: Array) -> float:
        """Return the sum of w D(x || a) where D is affine, zero where costs are summed by row."""
        return 0.0

    def spread(self, variances: Array) -> Array:
        """Return the variances relative to which means are large: the largest, if units count."""
        return np.asarray(variances.max())

    def refitted(self, statistics: Array, moved: Array, masses: Array) -> Divergence:
        """Return the divergence with its parameter fitted to clusters of means a + moved."""
        return self

    def at(self, covariance: Array | None) -> Divergence:
        """Return the divergence at a parameter that was fitted before."""
        return self

    def parameter_cost(self, mass: float) -> float:
        """Return what the parameter adds to the objective of rows of a total weight."""
        return 0.0

    @property
    def log_normalizer(self) -> float:
        """Minus the logarithm by which the parameter scales exp(-D) as a density."""
        return 0.0


class Affine(Divergence):
    """A divergence affine in x up to a term without m, as all Bregman divergences are.

    Its best center is the mean of the rows (Banerjee et al. 2005).
    """

    def center(self, X: Any, weights: Array | None = None) -> Array:
        if weights is None:
            weights = np.ones(X.shape[0])
        mean = (weights @ X) / weights.sum()
        return np.clip(np.asarray(mean, np.float64), self.domain.low, self.domain.high)

    def centers_observed(self, X: Array, observed: Array, weights: Array) -> Array:
        masses = weights.T @ observed
        sums = weights.T @ (observed * X)
        means = np.full(sums.shape, np.nan)
        np.divide(sums, masses, out=means, where=masses > 0)
        return np.clip(means, self.domain.low, self.domain.high)

    @abc.abstractmethod
    def base(self, X: Array, anchor: Array) -> Array:
        """D(x_i || a) of every row, in float64."""

    @abc.abstractmethod
    def center_gradients(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        """f(m_j) - f(a), and D(a || m_j)."""

    def between(
        self,
        X: Array,
        M: Array,
        anchor: Array,
        base: Array | None = None,
    ) -> Array:
        gradients, offsets = self.center_gradients(M, anchor)
        if is_sparse(X):
            D = np.asarray(X @ -gradients.T) + gradients @ anchor
        else:
            D = (X - anchor) @ -gradients.T
        if base is None:
            base = self.base(X, anchor)
        D += offsets
        D += base[:, None]
        return np.maximum(D, 0, out=D)

    @abc.abstractmethod
    def values(self, X: Array) -> Array:
        """F(x_i) of every row, in the precision of the data."""

    def paired(self, X: Array, M: Array) -> Array:
        return self.values(X - M)  # of a quadratic F

    def curved(self, X: Array) -> Array:
        """F(x_i) up to an affine function of x, whose sum over rows is that over their mean."""
        return self.values(X)

    def statistics(
        self,
        X: Array,
        w: Array | None,
        anchor: Array,
        far: bool = False,
    ) -> Array:
        # Around the mean the sum of D(x || a) is that of F(x) - F(a), which cancels far away.
        if far:
            base = self.base(X, anchor)
        else:
            base = self.curved(X) - float(self.curved(anchor[None])[0])
        if w is None:
            return np.asarray(base.sum(dtype=np.float64))
        return np.asarray(w @ base)

    def total(self, statistics: Array) -> float:
        return float(statistics)


@dataclass
class SquaredDistance(Affine):
    """D = |x - m|^2 / 2: k-means."""

    additive = True
    separable = True

    def between_observed(self, X: Array, observed: Array, M: Array) -> Array:
        middle = M.mean(axis=0)
        moved = M - middle
        Y = observed * (X - middle)
        squares = np.einsum("ij,ij->i", Y, Y)[:, None] - 2 * (Y @ moved.T)
        return np.maximum(squares + observed @ np.square(moved).T, 0) / 2

    def base(self, X: Any, anchor: Array) -> Array:
        if not is_sparse(X):
            return self.values(X - anchor)
        # An absent entry is a away. Columns that all rows store, as data far from zero do, have
        # none, and are left out so that their large means do not cancel.
        away = np.where(stored_by_all(X), 0, anchor)
        stored = np.square(X.data - anchor[X.indices]) - np.square(away[X.indices])
        return np.maximum(row_sums(X, stored) + away @ away, 0) / 2

    def values(self, X: Array) -> Array:
        if is_sparse(X):
            return np.asarray(row_sums(X, np.square(X.data, dtype=np.float64)) / 2)
        return np.asarray(np.einsum("ij,ij->i", X, X) / 2)

    def center_gradients(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        moved = M - anchor
        return moved, np.einsum("ij,ij->i", moved, moved) / 2


@dataclass
class ScaledDistance(SquaredDistance):
    """D = sum_j (x_j - m_j)^2 / (2 variance_j)."""

    additive = False  # every column has its own F
    variance: Array

    def values(self, X: Array) -> Array:
        scaled = X / np.sqrt(self.variance)
        return np.asarray(np.einsum("ij,ij->i", scaled, scaled) / 2)

    def center_gradients(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        moved = M - anchor
        gradients = moved / self.variance
        return gradients, np.einsum("ij,ij->i", gradients, moved) / 2


@dataclass
class Mahalanobis(Affine):
    """D = (x - m)' S^-1 (x - m) / 2 with S given, or fitted as the covariance within clusters.

    A fitted S adds W/2 (log det S + tr V S^-1) to the objective: the log-det keeps S from growing
    without bound, and the trace, V the diagonal of shrinkage times the variances of the columns
    (`scale`), keeps it invertible, whatever their units. Its minimizer for given clusters is
    S = (scatter within) / W + V, so that every step lowers the objective. A given S adds
    W/2 log det S, a constant.
    """

    shrinkage: float = 1e-3
    covariance: Array | None = None
    scale: float | Array = 1.0

    def __post_init__(self) -> None:
        require_positive(self, shrinkage=self.shrinkage)
        if not (np.isfinite(self.scale) & (np.asarray(self.scale) > 0)).all():
            raise ValueError(f"Mahalanobis needs scale > 0 and finite, got {self.scale!r}.")
        self.adaptive = self.covariance is None

    def base(self, X: Array, anchor: Array) -> Array:
        return self.values(X - anchor)

    def values(self, X: Array) -> Array:
        Y = scipy.linalg.solve_triangular(self._root, X.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", Y, Y) / 2)

    def center_gradients(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        moved = M - anchor
        gradients = self._solve(moved.T).T
        return gradients, np.einsum("ij,ij->i", gradients, moved) / 2

    def statistics(
        self,
        X: Array,
        w: Array | None,
        anchor: Array,
        far: bool = False,
    ) -> Array:
        # The scatter, from which D follows for any S. Over all rows it is around the anchor, of
        # which rows are subtracted as rounded to their precision.
        origin = anchor.astype(X.dtype)
        Y = subtract_row(X, origin)
        mass = float(len(X))
        if w is not None:
            Y = Y * np.sqrt(w)[:, None]
            mass = w.sum()
        rounding = anchor - origin
        return Y.T @ Y - mass * np.outer(rounding, rounding)

    def without_rounding(
        self,
        statistics: Array,
        anchor: Array,
        mass: float,
        eps: float,
    ) -> Array:
        squares = np.diag(statistics)
        own = (MEAN_ROUNDING + 2 * eps) * anchor
        widest = (MEAN_ROUNDING + MIXED_ROUNDING * eps) * np.sqrt(squares.max() / mass)
        varies = squares > mass * np.square(np.maximum(np.abs(own), widest))
        return np.where(varies & varies[:, None], statistics, 0.0)

    def spread(self, variances: Array) -> Array:
        mean = float(variances.mean())  # a constant column has no unit of its own
        if mean > 0:
            return np.where(variances > 0, variances, mean)
        return np.ones(len(variances))

    def total(self, statistics: Array) -> float:
        return float(np.trace(self._solve(statistics))) / 2

    def refitted(self, statistics: Array, moved: Array, masses: Array) -> Mahalanobis:
        if self.covariance is not None:
            return self
        mass = masses.sum()
        scale = self.spread(np.diag(statistics) / mass)
        S = (statistics - (moved.T * masses) @ moved) / mass
        S[np.diag_indices_from(S)] += self.shrinkage * scale
        return FittedMahalanobis(self.shrinkage, S, scale)

    def at(self, covariance: Array | None) -> Mahalanobis:
        return replace(self, covariance=covariance)

    def parameter_cost(self, mass: float) -> float:
        return mass * self.log_normalizer

    @property
    def log_normalizer(self) -> float:
        return float(np.log(np.diag(self._root)).sum())  # log det S / 2

    @cached_property
    def _root(self) -> Array:
        assert self.covariance is not None, "refitted() gives the covariance"
        return np.asarray(scipy.linalg.cholesky(self.covariance, lower=True, check_finite=False))

    def _solve(self, B: Array) -> Array:
        """S^-1 B."""
        return np.asarray(scipy.linalg.cho_solve((self._root, True), B, check_finite=False))


def check_covariance(covariance: Array, n_features: int) -> None:
    """Raise unless a covariance of rows of so many numbers is one."""
    S = np.asarray(covariance)
    if S.shape != (n_features, n_features):
        raise ValueError(
            f"Mahalanobis needs a covariance of shape {(n_features, n_features)} for rows of "
            f"{n_features} features, got {S.shape}.",
        )
    positive = np.isfinite(S).all() and np.allclose(S, S.T) and np.linalg.eigvalsh(S)[0] > 0
    if not positive:
        raise ValueError(
            "The covariance of Mahalanobis must be symmetric and positive definite; add a small "
            "multiple of the identity, or leave it out to fit it.",
        )


@dataclass
class FittedMahalanobis(Mahalanobis):
    """`Mahalanobis` at a covariance that was fitted, and is fitted again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.adaptive = True

    def refitted(self, statistics: Array, moved: Array, masses: Array) -> Mahalanobis:
        return Mahalanobis(self.shrinkage).refitted(statistics, moved, masses)

    def parameter_cost(self, mass: float) -> float:
        inverse = self._solve(np.eye(len(self._root)))
        shrunk = self.shrinkage * float((self.scale * np.diag(inverse)).sum())
        return mass * (self.log_normalizer + shrunk / 2)


@dataclass
class Manhattan(Divergence):
    """D = sum |x - m|: k-medians. The best center is the median of each column."""

    separable = True

    def between_observed(self, X: Array, observed: Array, M: Array) -> Array:
        sums = [(observed * np.abs(X - m)).sum(axis=1) for m in M]
        return np.stack(sums, axis=1)

    def centers_observed(self, X: Array, observed: Array, weights: Array) -> Array:
        order = X.argsort(axis=0)
        medians = [weighted_median(X, w[:, None] * observed, order) for w in weights.T]
        return np.where(weights.T @ observed > 0, np.stack(medians), np.nan)

    def center(self, X: Any, weights: Array | None = None) -> Array:
        center = np.empty(X.shape[1])
        for at, columns in _dense_columns(X):
            center[at] = weighted_median(columns, weights)
        return center

    def centers(self, X: Array, weights: Array) -> Array:
        order = X.argsort(axis=0)
        return np.stack([weighted_median(X, w, order) for w in weights.T])

    def between(
        self,
        X: Array,
        M: Array,
        anchor: Array,
        base: Array | None = None,
    ) -> Array:
        return np.asarray(cdist(X, M, "cityblock"))

    def paired(self, X: Array, M: Array) -> Array:
        return np.asarray(np.abs(X - M).sum(axis=1))


def weighted_median(X: Array, w: Array | None, order: Array | None = None) -> Array:
    """Return the least number of each column with half of the weight at or below it.

    Weights are of rows or of entries; `order` sorts the columns, where that is known.
    """
    if w is None:
        middle = (len(X) - 1) // 2
        return np.partition(X, middle, axis=0)[middle].astype(np.float64)
    if order is None:
        order = X.argsort(axis=0)
    weights = np.broadcast_to(w.reshape(len(X), -1), X.shape)
    below = np.take_along_axis(weights, order, axis=0).cumsum(axis=0)
    at = (below >= below[-1] * HALF).argmax(axis=0)
    columns = np.arange(X.shape[1])
    return X[order[at, columns], columns].astype(np.float64)


def _dense_columns(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield columns as dense arrays: all at once, of a sparse table a few."""
    if not is_sparse(X):
        yield slice(None), X
        return
    X = X.tocsc()
    width = max(DENSE_ENTRIES // X.shape[0], 16)
    for start in range(0, X.shape[1], width):
        at = slice(start, start + width)
        yield at, X[:, at].toarray()
