"""Divergences D(x, m) >= 0 between rows and centers, and their names in the API.

Under a Bregman divergence D_F(x || m) the best center of any F is the mean, and all rows are compared with all centers
by one matrix product (Banerjee et al. 2005). Everything is stated relative to an anchor a, in practice the mean of the
data, by the three-point identity

    D(x || m) = D(x || a) + D(a || m) - <x - a, f(m) - f(a)>,

whose terms stay small where the data lie far from the origin.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.special
from scipy.spatial.distance import cdist

from regfactor._linalg import is_sparse
from regfactor._params import Array, Interval, Params, choose, require_positive
from regfactor.losses import potentials
from regfactor.losses.exponentials import LAST_EXPONENT, wide_exp
from regfactor.losses.potentials import Potential
from regfactor.losses.sums import less, over_rows, row_sums, row_values, x_log_x

TINY = float(np.finfo(np.float64).tiny)
ROUNDED = 64 * float(np.finfo(np.float64).eps)  # of a mean: what adding up its rows may leave of a constant column
MIXED = 16  # units of rounding of the widest column that one computed from it, such as an empty component, may hold
CANCELED = 1e-4  # share of the terms of a sum below which too many of its digits are lost
GAUSS = tuple(zip(*scipy.special.roots_sh_jacobi(4, 2, 1), strict=True))  # nodes and weights for 1 - s on [0, 1]
STEADY = 0.5  # share of F'' by which it may change where these are enough
STEEPEST = -float(np.log(TINY))  # |f| at a center on the boundary of the domain, where the limit is infinite


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
        D = np.asarray(X @ -f.T) + f @ anchor if is_sparse(X) else (X - anchor) @ -f.T
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
        # of D(x || a) the sum of F(x) - F(a) is left where a is the mean; far from the origin its digits cancel
        base = self.base(X, anchor) if far else self.curved(X) - float(self.curved(anchor[None])[0])
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
        # what is absent is a away; nothing is in columns that all rows store, as data far from zero do
        away = np.where(np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0], anchor, 0)
        stored = np.square(X.data - anchor[X.indices]) - np.square(away[X.indices])
        return np.maximum(row_sums(X, stored) + away @ away, 0) / 2

    def values(self, X: Array) -> Array:
        return over_rows(lambda rows: np.einsum("ij,ij->i", rows, rows) / 2, X)

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        f = M - anchor
        return f, np.einsum("ij,ij->i", f, f) / 2


@dataclass
class Mahalanobis(Affine):
    """D = (x - m)' S^-1 (x - m) / 2 with S, the covariance within clusters, fitted too.

    The objective is sum w D + W/2 (log det S + tr V S^-1): the log-det keeps S from growing for ever, and the trace, V
    the diagonal of shrinkage times the variances of the columns (`scale`), keeps it invertible, whatever their units.
    Its minimizer for given clusters is S = (scatter within) / W + V, so that every step lowers it.
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
        # the scatter, from which D follows for any S; over all rows it is about the mean, not what stands for that here
        origin = anchor.astype(X.dtype)
        Y, off = less(X, origin), anchor - origin
        Y = Y if w is None else Y * np.sqrt(w)[:, None]
        return Y.T @ Y - (len(X) if w is None else w.sum()) * np.outer(off, off)

    def without_rounding(self, tally: Array, anchor: Array, mass: float, eps: float) -> Array:
        squares = np.diag(tally)
        own, widest = (ROUNDED + 2 * eps) * anchor, (ROUNDED + MIXED * eps) * np.sqrt(squares.max() / mass)
        varies = squares > mass * np.square(np.maximum(np.abs(own), widest))
        return np.where(varies & varies[:, None], tally, 0.0)

    def spread(self, variances: Array) -> Array:
        mean = float(variances.mean())  # a constant column has no unit of its own
        return np.where(variances > 0, variances, mean) if mean > 0 else np.ones(len(variances))

    def total(self, tally: Array) -> float:
        return float(np.trace(scipy.linalg.cho_solve((self._root, True), tally, check_finite=False))) / 2

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
        inverse = scipy.linalg.cho_solve((self._root, True), np.eye(len(self._root)), check_finite=False)
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
class BregmanDivergence(Affine):
    """D_F(x || m) = F(x) - F(m) - <f(m), x - m> of a potential F.

    A center on the boundary of the domain (all zeros of a column under "kl") has f = -inf or inf. There f is cut at the
    logarithm of the smallest number: D(0 || 0) = 0 stays exact, and any x > 0 is 708 x away, huge but finite.
    """

    potential: Potential

    @property
    def domain(self) -> Interval:
        return self.potential.domain

    def reach(self, dtype: Any) -> Interval:
        if isinstance(self.potential, potentials.Exp):
            return Interval(high=LAST_EXPONENT[np.dtype(dtype).itemsize])
        return self.domain

    def base(self, X: Array, anchor: Array) -> Array:
        X, a = X.astype(np.float64, copy=False), anchor[None]
        slope, values = self._transfer(a)[0], self.values(X)
        D = values - X @ slope + float(slope @ anchor - row_values(self.potential, a)[0])
        if not is_sparse(X):
            lost = np.flatnonzero(np.abs(D) < CANCELED * np.abs(values))
            D[lost] = self.paired(X[lost], np.broadcast_to(a, (len(lost), len(anchor))))
        return np.maximum(D, 0, out=D)

    @property
    def additive(self) -> bool:
        return not self.potential.rowwise and bool(self.domain.contains(np.zeros(())))

    def values(self, X: Array) -> Array:
        return over_rows(lambda rows: row_values(self.potential, rows), X)

    def curved(self, X: Array) -> Array:
        return over_rows(x_log_x, X) if isinstance(self.potential, potentials.Entropy) else self.values(X)

    def paired(self, X: Array, M: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        high, low, link, moved = self._value(X), self._value(M), self._transfer(M), X - M
        D = high - low - link * moved
        if self.potential.rowwise:
            return np.maximum(D.sum(axis=1), 0)
        lost = np.abs(D) < CANCELED * (np.abs(high) + np.abs(low) + np.abs(link) * (np.abs(X) + np.abs(M)))
        D[lost] = self._integral(M[lost], moved[lost], D[lost])
        return np.maximum(D, 0, out=D).sum(axis=1)

    @np.errstate(all="ignore")  # what is no number is not steady
    def _integral(self, m: Array, moved: Array, rough: Array) -> Array:
        """D(m + moved || m) as moved^2 times the integral of (1 - s) F''(m + s moved), in which no digits cancel.

        Where F'' changes so much over s in [0, 1] that few nodes do not tell its integral, what is known roughly stays.
        """
        first, inner = self._slope(m), [self._slope(m + s * moved) for s, _ in GAUSS]
        change = np.max([np.abs(slope - first) for slope in (*inner, self._slope(m + moved))], axis=0)
        exact = moved * (moved * sum(weight * slope for (_, weight), slope in zip(GAUSS, inner, strict=True)))
        return np.where((first > 0) & (change <= STEADY * first) & np.isfinite(exact), exact, rough)

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        f, a = self._transfer(M), anchor[None]
        values, least = row_values(self.potential, M), float(row_values(self.potential, a)[0])
        c = least - values + np.einsum("ij,ij->i", f, M - anchor)
        lost = np.flatnonzero(np.abs(c) < CANCELED * (np.abs(values) + abs(least)))
        c[lost] = self.paired(np.broadcast_to(a, (len(lost), len(anchor))), M[lost])
        return f - self._transfer(a), np.maximum(c, 0)

    def _value(self, X: Array) -> Array:
        return wide_exp(X) if isinstance(self.potential, potentials.Exp) else self.potential.value(X)

    def _slope(self, X: Array) -> Array:
        return wide_exp(X) if isinstance(self.potential, potentials.Exp) else self.potential.slope(X)

    def _transfer(self, M: Array) -> Array:
        if isinstance(self.potential, potentials.Exp):
            return wide_exp(M)
        domain = self.potential.domain
        inside = np.maximum(M, domain.low + TINY) if domain.low_closed and domain.low == 0 else M
        return np.nan_to_num(self.potential.transfer(inside), posinf=STEEPEST, neginf=-STEEPEST)


@dataclass
class Manhattan(Divergence):
    """D = sum |x - m|: k-medians. Not a Bregman divergence; the best center is the median of each column."""

    def between(self, X: Array, M: Array, anchor: Array, base: Array | None = None) -> Array:
        return np.asarray(cdist(X, M, "cityblock"))

    def paired(self, X: Array, M: Array) -> Array:
        return np.asarray(np.abs(X - M).sum(axis=1))


DIVERGENCES: dict[str, Divergence] = {
    "squared": SquaredDistance(),
    "mahalanobis": Mahalanobis(),
    "kl": BregmanDivergence(potentials.Entropy()),
    "itakura_saito": BregmanDivergence(potentials.Burg()),
    "bernoulli": BregmanDivergence(potentials.BinomialEntropy()),
    "sigmoid": BregmanDivergence(potentials.Sigmoid()),
    "softmax": BregmanDivergence(potentials.Softmax()),
    "exp": BregmanDivergence(potentials.Exp()),
    "cube": BregmanDivergence(potentials.Cube()),
    "relaxed_sigmoid": BregmanDivergence(potentials.RelaxedSigmoid()),
    "absolute": Manhattan(),
}


def named(divergence: Divergence) -> str:
    """Return how a user writes a divergence: by its name where it has one."""
    names = [f"divergence={name!r}" for name, part in DIVERGENCES.items() if part is divergence]
    return names[0] if names else str(divergence)


def as_divergence(divergence: Any) -> Divergence:
    """Return the divergence that a string, a potential or a part stands for."""
    if isinstance(divergence, Divergence):
        return divergence
    if isinstance(divergence, potentials.Identity):
        return SquaredDistance()
    if isinstance(divergence, Potential):
        return BregmanDivergence(divergence)
    if isinstance(divergence, str):
        return choose(divergence, DIVERGENCES, "divergence")
    if isinstance(divergence, type) and issubclass(divergence, Potential | Divergence):
        raise ValueError(f"divergence must be a part, not its class: write {divergence.__name__}().")
    raise ValueError(f"divergence must be a string or a Potential such as losses.potentials.Exp(), got {divergence!r}.")
