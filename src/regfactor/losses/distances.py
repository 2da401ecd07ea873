"""What a divergence D(x, m) >= 0 between rows and centers promises; squared, Mahalanobis and city-block distances.

An affine one is stated relative to an anchor a, in practice the mean of the data, by the
three-point identity

    D(x || m) = D(x || a) + D(a || m) - <x - a, f(m) - f(a)>,

whose terms stay small where the data lie far from the origin. So all rows are compared with all
centers by one matrix product.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from regfactor.core.linalg import is_sparse, stored_by_all
from regfactor.core.params import Array, Interval, Params, require_positive
from regfactor.losses.sums import apply_to_rows, row_sums, subtract_row

ROUNDED = 64 * float(
    np.finfo(np.float64).eps,
)  # of a mean: what adding up its rows may leave of a constant column
# units of rounding of the widest column that one computed from it, such as an empty component, may
# hold
MIXED = 16


class Divergence(Params, abc.ABC):
    """D(x, m) of rows x and centers m; zero where they are equal."""

    @property
    def domain(self) -> Interval:
        """Where each number of a row may lie."""
        return Interval()

    def reach(self, dtype: Any) -> Interval:
        """Where each number of a row in some precision may lie, so that its divergences are numbers in it too."""
        return self.domain

    @property
    def additive(self) -> bool:
        """Whether rows may be sparse everywhere: F is a sum of one function over columns, known at zero too."""
        return False

    @abc.abstractmethod
    def between(self, X: Array, M: Array, anchor: Array, base: Array | None = None) -> Array:
        """D(x_i, m_j) of all pairs, in float64; `base` is D(x_i || a) where that is known (X may then be sparse)."""

    @abc.abstractmethod
    def paired(self, X: Array, M: Array) -> Array:
        """D(x_i, m_i) of rows and a center for each, in float64: whatever other rows there are, far away or not."""

    def tally(self, X: Array, w: Array | None, anchor: Array, far: bool = False) -> Array:
        """What a block of rows adds to that from which `total` and `refitted` follow; `far` from the origin or not."""
        return np.zeros(())

    def without_rounding(self, tally: Array, anchor: Array, mass: float, eps: float) -> Array:
        """Return the tally of all rows, in which what is rounding of the data alone is nothing."""
        return tally

    def total(self, tally: Array) -> float:
        """Return the sum of w D(x || a) where D is affine, zero where costs are added up row by row."""
        return 0.0

    def spread(self, variances: Array) -> Array:
        """Return the variances beside which means of columns are large or small: where units count, the largest."""
        return np.asarray(variances.max())

    @property
    def parameters(self) -> Array | None:
        """What `refitted` fits; most divergences have nothing to fit."""
        return None

    def refitted(self, tally: Array, moved: Array, masses: Array) -> Self:
        """Return the divergence with its own parameters fitted to clusters of means a + moved."""
        return self

    def at(self, parameters: Array | None) -> Self:
        """Return the divergence at parameters that were fitted before."""
        return self

    def extra(self, mass: float) -> float:
        """What the parameters add to the objective of rows of a total weight."""
        return 0.0

    @property
    def volume(self) -> float:
        """Minus the logarithm by which the parameters scale exp(-D) as a density."""
        return 0.0


class Affine(Divergence):
    """A divergence that is affine in x up to a term that does not depend on m: what all Bregman divergences are."""

    @abc.abstractmethod
    def base(self, X: Array, anchor: Array) -> Array:
        """D(x_i || a) of every row, in float64."""

    @abc.abstractmethod
    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        """f(m_j) - f(a), and D(a || m_j)."""

    def between(self, X: Array, M: Array, anchor: Array, base: Array | None = None) -> Array:
        f, c = self.links(M, anchor)
        if is_sparse(X):
            D = np.asarray(X @ -f.T) + f @ anchor
        else:
            D = (X - anchor) @ -f.T
        D += c
        D += (self.base(X, anchor) if base is None else base)[:, None]
        return np.maximum(D, 0, out=D)

    @abc.abstractmethod
    def values(self, X: Array) -> Array:
        """F(x_i) of every row, in the precision of the data."""

    def paired(self, X: Array, M: Array) -> Array:
        return self.values(X - M)  # of a quadratic F

    def curved(self, X: Array) -> Array:
        """F(x_i) of every row up to some affine function of x, which sums to the same over rows and over their mean."""
        return self.values(X)

    def tally(self, X: Array, w: Array | None, anchor: Array, far: bool = False) -> Array:
        # of D(x || a) the sum of F(x) - F(a) is left where a is the mean; far from the origin its
        # digits cancel
        if far:
            base = self.base(X, anchor)
        else:
            base = self.curved(X) - float(self.curved(anchor[None])[0])
        return np.asarray(base.sum(dtype=np.float64) if w is None else w @ base)

    def total(self, tally: Array) -> float:
        return float(tally)


@dataclass
class SquaredDistance(Affine):
    """D = |x - m|^2 / 2: k-means."""

    @property
    def additive(self) -> bool:
        return True

    def base(self, X: Any, anchor: Array) -> Array:
        if not is_sparse(X):
            return self.values(X - anchor)
        # what is absent is a away; nothing is in columns that all rows store, as data far from zero
        # do
        away = np.where(stored_by_all(X), 0, anchor)
        stored = np.square(X.data - anchor[X.indices]) - np.square(away[X.indices])
        return np.maximum(row_sums(X, stored) + away @ away, 0) / 2

    def values(self, X: Array) -> Array:
        return apply_to_rows(lambda rows: np.einsum("ij,ij->i", rows, rows) / 2, X)

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        f = M - anchor
        return f, np.einsum("ij,ij->i", f, f) / 2


@dataclass
class Mahalanobis(Affine):
    """D = (x - m)' S^-1 (x - m) / 2 with S, the covariance within clusters, fitted too.

    The objective is sum w D + W/2 (log det S + tr V S^-1): the log-det keeps S from growing for
    ever, and the trace, V the diagonal of shrinkage times the variances of the columns (`scale`),
    keeps it invertible, whatever their units. Its minimizer for given clusters is S = (scatter
    within) / W + V, so that every step lowers it.
    """

    shrinkage: float = 1e-3
    covariance: Array | None = None
    scale: float | Array = 1.0

    def __post_init__(self) -> None:
        require_positive(self, shrinkage=self.shrinkage)
        if not (np.isfinite(self.scale) & (np.asarray(self.scale) > 0)).all():
            raise ValueError(f"Mahalanobis needs scale > 0 and finite, got {self.scale!r}.")

    def base(self, X: Array, anchor: Array) -> Array:
        return self.values(X - anchor)

    def values(self, X: Array) -> Array:
        Y = scipy.linalg.solve_triangular(self._root, X.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", Y, Y) / 2)

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        moved = M - anchor
        f = scipy.linalg.cho_solve((self._root, True), moved.T, check_finite=False).T
        return f, np.einsum("ij,ij->i", f, moved) / 2

    def tally(self, X: Array, w: Array | None, anchor: Array, far: bool = False) -> Array:
        # the scatter, from which D follows for any S; over all rows it is about the mean, not what
        # stands for that here
        origin = anchor.astype(X.dtype)
        Y = subtract_row(X, origin)
        off = anchor - origin
        Y = Y if w is None else Y * np.sqrt(w)[:, None]
        return Y.T @ Y - (len(X) if w is None else w.sum()) * np.outer(off, off)

    def without_rounding(self, tally: Array, anchor: Array, mass: float, eps: float) -> Array:
        squares = np.diag(tally)
        own = (ROUNDED + 2 * eps) * anchor
        widest = (ROUNDED + MIXED * eps) * np.sqrt(squares.max() / mass)
        varies = squares > mass * np.square(np.maximum(np.abs(own), widest))
        return np.where(varies & varies[:, None], tally, 0.0)

    def spread(self, variances: Array) -> Array:
        mean = float(variances.mean())  # a constant column has no unit of its own
        if mean > 0:
            return np.where(variances > 0, variances, mean)
        return np.ones(len(variances))

    def total(self, tally: Array) -> float:
        return (
            float(np.trace(scipy.linalg.cho_solve((self._root, True), tally, check_finite=False)))
            / 2
        )

    @property
    def parameters(self) -> Array | None:
        return self.covariance

    def refitted(self, tally: Array, moved: Array, masses: Array) -> Self:
        mass = masses.sum()
        scale = self.spread(np.diag(tally) / mass)
        S = (tally - (moved.T * masses) @ moved) / mass
        S[np.diag_indices_from(S)] += self.shrinkage * scale
        return replace(self, covariance=S, scale=scale)

    def at(self, parameters: Array | None) -> Self:
        return replace(self, covariance=parameters)

    def extra(self, mass: float) -> float:
        inverse = scipy.linalg.cho_solve(
            (self._root, True),
            np.eye(len(self._root)),
            check_finite=False,
        )
        shrunk = self.shrinkage * float((self.scale * np.diag(inverse)).sum())
        return mass * (self.volume + shrunk / 2)

    @property
    def volume(self) -> float:
        return float(np.log(np.diag(self._root)).sum())  # log det S / 2

    @cached_property
    def _root(self) -> Array:
        assert self.covariance is not None, "refitted() gives the covariance"
        return np.asarray(scipy.linalg.cholesky(self.covariance, lower=True, check_finite=False))


@dataclass
class Manhattan(Divergence):
    """D = sum |x - m|: k-medians. Not a Bregman divergence; the best center is the median of each column."""

    def between(self, X: Array, M: Array, anchor: Array, base: Array | None = None) -> Array:
        return np.asarray(cdist(X, M, "cityblock"))

    def paired(self, X: Array, M: Array) -> Array:
        return np.asarray(np.abs(X - M).sum(axis=1))
