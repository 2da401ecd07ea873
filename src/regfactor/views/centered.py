"""A table about its column means, dense or sparse, with units and rounding of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import gram, is_sparse, stored_by_all
from regfactor.core.params import EPS, Array, frozen


@frozen
class Shifted:
    """S - u m' of a sparse S: a table about its mean that is never formed."""

    S: Any
    u: Array
    m: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return int(self.S.shape[0]), int(self.S.shape[1])

    @property
    def T(self) -> Shifted:
        """Return the transpose."""
        return Shifted(self.S.T.tocsr(), self.m, self.u)

    def __matmul__(self, A: Array) -> Array:
        return self.S @ A - np.outer(self.u, self.m @ A)

    def gram(self) -> Array:
        """Return the inner products of the columns."""
        cross = np.outer(self.S.T @ self.u, self.m)
        subtracted = (self.u @ self.u) * np.outer(self.m, self.m)
        return gram(self.S) - cross - cross.T + subtracted

    def squares(self) -> Array:
        """Return the squared lengths of the columns."""
        own = self.S.multiply(self.S).sum(axis=0)
        cross = self.m * (self.S.T @ self.u)
        subtracted = (self.u @ self.u) * np.square(self.m)
        return np.maximum(own - 2 * cross + subtracted, 0)

    def over(self, units: Array) -> Shifted:
        """Return the table with columns divided by units."""
        return Shifted(scipy.sparse.csr_array(self.S.multiply(1 / units)), self.u, self.m / units)


@frozen
class MeansAndDeviations:
    """Means of the columns of a table, and the deviations by which they are divided.

    `noise` is the rounding of the data of a column relative to how much they vary.
    """

    mean: Array
    deviation: Array
    noise: Array


@frozen
class Centered:
    """A table about its weighted mean, in units of its columns, rows times roots of weights."""

    values: Any
    units: MeansAndDeviations

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # reported by deviations
    def of(
        cls,
        X: Any,
        weights: Array | None,
        center: bool = True,
        scale: bool = False,
    ) -> Centered:
        """Return a table about its mean, with sums in float64.

        A column that varies by no more than its rounding is constant and becomes zero.
        """
        eps = float(np.finfo(X.dtype).eps)
        X = X.astype(np.float64, copy=False)
        if is_sparse(X):
            if weights is None:
                weights = np.ones(X.shape[0])
            return cls._of_sparse(X, weights, center, scale, eps)
        if weights is None:
            total = len(X)
            share = np.full(len(X), 1 / total)
        else:
            total = weights.sum()
            share = weights / total
        mean = np.zeros(X.shape[1])
        if center:
            mean = share @ X
        values = X - mean
        if center:
            # rounding of the mean of many rows would make a constant column vary
            rest = share @ values
            mean += rest
            values -= rest
        if weights is not None:
            values *= np.sqrt(weights)[:, None]
        varied = deviations(np.einsum("ij,ij->j", values, values), total)
        constant = ~varies(mean, varied)
        if center and constant.any():
            values[:, constant] = 0
        deviation = np.ones(X.shape[1])
        if scale:
            deviation = np.where(constant, 1.0, varied)
            values *= 1 / deviation
        return cls(values, MeansAndDeviations(mean, deviation, rounding(eps, mean, varied)))

    @classmethod
    def _of_sparse(
        cls,
        X: Any,
        w: Array,
        center: bool,
        scale: bool,
        eps: float,
    ) -> Centered:
        """Return a sparse table about its mean.

        Columns without absent entries are shifted themselves: only there can a mean be large
        relative to the deviation.
        """
        total = w.sum()
        p = X.shape[1]
        stored = np.repeat(w, np.diff(X.indptr))
        full = stored_by_all(X)
        absent = np.maximum(total - np.bincount(X.indices, stored, minlength=p), 0)
        absent = np.where(full, 0, absent)
        mean = np.zeros(p)
        if center:
            for _ in range(2):  # the second time removes the rounding of the first
                left = np.bincount(X.indices, stored * (X.data - mean[X.indices]), minlength=p)
                mean = mean + (left - absent * mean) / total
        squares = np.bincount(X.indices, stored * np.square(X.data - mean[X.indices]), minlength=p)
        varied = deviations(squares + absent * np.square(mean), total)
        kept = np.ones(p, bool)
        if center:
            kept = varies(mean, varied)
        deviation = np.ones(p)
        if scale:
            deviation = np.where(kept & (varied > 0), varied, 1.0)
        share = kept / deviation
        centered = X.data - (mean * full)[X.indices]
        data = centered * share[X.indices] * np.sqrt(stored)
        S = scipy.sparse.csr_array((data, X.indices, X.indptr), X.shape)
        return cls(
            Shifted(S, np.sqrt(w), mean * share * ~full),
            MeansAndDeviations(mean, deviation, rounding(eps, mean, varied)),
        )


def degrees(total: float) -> float:
    """Return the divisor of sums of squares over rows of this total weight.

    It is one less than the number of rows; weights whose sum is below two do not count rows.
    """
    if total >= 2:
        return total - 1
    return total


def deviations(squares: Array, total: float) -> Array:
    """Return deviations from sums of squares over rows of this total weight."""
    return np.sqrt(squares / degrees(total))


def varies(mean: Array, deviation: Array) -> Array:
    """Return whether columns vary by more than the rounding of their mean."""
    return deviation > 4 * EPS * np.abs(mean)


def rounding(eps: float, mean: Array, deviation: Array) -> Array:
    """Return the rounding of data relative to their deviations; zero for a constant column."""
    kept = varies(mean, deviation)
    return np.where(kept, eps * np.hypot(mean, deviation) / np.where(kept, deviation, 1), 0.0)
