"""A table about its means, dense or sparse: values, units of its columns, and how much of them is rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import gram, is_sparse, stored_by_all
from regfactor.core.params import Array

Units = tuple[Array, Array]  # means and deviations of the columns of a table
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
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
        return np.asarray(self.S @ A - np.outer(self.u, self.m @ A))

    def gram(self) -> Array:
        """Return the inner products of the columns."""
        cross = np.outer(self.S.T @ self.u, self.m)
        return gram(self.S) - cross - cross.T + (self.u @ self.u) * np.outer(self.m, self.m)

    def squares(self) -> Array:
        """Return the squared lengths of the columns."""
        own = np.asarray(self.S.multiply(self.S).sum(axis=0)).ravel()
        return np.maximum(
            own - 2 * self.m * (self.S.T @ self.u) + (self.u @ self.u) * np.square(self.m),
            0,
        )

    def over(self, units: Array) -> Shifted:
        """Return the table with columns divided by units."""
        return Shifted(scipy.sparse.csr_array(self.S.multiply(1 / units)), self.u, self.m / units)


@dataclass(frozen=True, eq=False)
class Centered:
    """A table about its weighted mean, columns divided by their deviation and rows times the root of their weight.

    `noise` is the rounding of the data of a column, relative to how much they vary.
    """

    values: Any
    mean: Array
    deviation: Array
    noise: Array

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # told by deviations
    def of(
        cls,
        X: Any,
        weights: Array | None,
        center: bool = True,
        scale: bool = False,
    ) -> Centered:
        """Sums are in float64; a column that varies by no more than its rounding is constant and becomes zero."""
        eps = float(np.finfo(X.dtype).eps)
        X = X.astype(np.float64, copy=False)
        if is_sparse(X):
            return cls._of_sparse(
                X,
                np.ones(X.shape[0]) if weights is None else weights,
                center,
                scale,
                eps,
            )
        total = float(len(X) if weights is None else weights.sum())
        if weights is None:
            share = np.full(len(X), 1 / total)
        else:
            share = weights / total
        mean = share @ X if center else np.zeros(X.shape[1])
        values = X - mean
        if (
            center
        ):  # what rounding left of the mean of many rows, which would make a constant column vary
            rest = share @ values
            mean += rest
            values -= rest
        if weights is not None:
            values *= np.sqrt(weights)[:, None]
        varied = deviations(np.einsum("ij,ij->j", values, values), total)
        constant = ~varies(mean, varied)
        if center and constant.any():
            values[:, constant] = 0
        if scale:
            deviation = np.where(constant, 1.0, varied)
        else:
            deviation = np.ones(X.shape[1])
        if scale:
            values *= 1 / deviation
        return cls(values, mean, deviation, rounding(eps, mean, varied))

    @property
    def units(self) -> Units:
        """Return the means and deviations of the columns."""
        return self.mean, self.deviation

    @classmethod
    def _of_sparse(cls, X: Any, w: Array, center: bool, scale: bool, eps: float) -> Centered:
        """Shift the data themselves where a column has all of them: only there can a mean be large beside them."""
        total = float(w.sum())
        p = X.shape[1]
        stored = np.repeat(w, np.diff(X.indptr))
        full = stored_by_all(X)
        absent = np.where(
            full,
            0,
            np.maximum(total - np.bincount(X.indices, stored, minlength=p), 0),
        )
        mean = np.zeros(p)
        for _ in range(2 if center else 0):  # the second time takes off the rounding of the first
            left = np.bincount(X.indices, stored * (X.data - mean[X.indices]), minlength=p)
            mean = mean + (left - absent * mean) / total
        squares = np.bincount(X.indices, stored * np.square(X.data - mean[X.indices]), minlength=p)
        varied = deviations(squares + absent * np.square(mean), total)
        kept = varies(mean, varied) if center else np.ones(p, bool)
        if scale:
            deviation = np.where(kept & (varied > 0), varied, 1.0)
        else:
            deviation = np.ones(p)
        root = np.sqrt(w)
        share = kept / deviation
        data = (X.data - (mean * full)[X.indices]) * share[X.indices] * np.sqrt(stored)
        S = scipy.sparse.csr_array((data, X.indices, X.indptr), X.shape)
        return cls(
            Shifted(S, root, mean * share * ~full),
            mean,
            deviation,
            rounding(eps, mean, varied),
        )


def degrees(total: float) -> float:
    """Return what sums of squares over so many rows are divided by; weights that do not count rows have their sum."""
    if total >= 2:
        return total - 1
    return total


def deviations(squares: Array, total: float) -> Array:
    """Return deviations from sums of squares over so many rows."""
    if not np.isfinite(squares).all():
        raise ValueError(
            "A column has numbers so large that their squares overflow; divide it by its size.",
        )
    return np.sqrt(squares / degrees(total))


def varies(mean: Array, deviation: Array) -> Array:
    """Tell which columns vary by more than the rounding of their mean."""
    return np.asarray(deviation > 4 * EPS * np.abs(mean))


def rounding(eps: float, mean: Array, deviation: Array) -> Array:
    """Return the rounding of data relative to their deviations; zero for a constant column, which has become zero."""
    kept = varies(mean, deviation)
    return np.where(kept, eps * np.hypot(mean, deviation) / np.where(kept, deviation, 1), 0.0)
