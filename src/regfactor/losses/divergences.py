"""Bregman divergences of potentials, and the names of all divergences in the API.

Under a Bregman divergence D_F(x || m) the best center of any F is the mean (Banerjee et al. 2005),
and all rows are compared with all centers by one matrix product, as `distances` tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, Interval, choose
from regfactor.losses import potentials
from regfactor.losses.distances import Affine, Divergence, Mahalanobis, Manhattan, SquaredDistance
from regfactor.losses.exponentials import MAX_FINITE_EXPONENT, finite_exp
from regfactor.losses.potentials import Potential
from regfactor.losses.sums import apply_to_rows, row_values, x_log_x

TINY = float(np.finfo(np.float64).tiny)
CANCELED = 1e-4  # share of the terms of a sum below which too many of its digits are lost
GAUSS = tuple(
    zip(*scipy.special.roots_sh_jacobi(4, 2, 1), strict=True),
)  # nodes and weights for 1 - s on [0, 1]
STEADY = 0.5  # share of F'' by which it may change where these are enough
STEEPEST = -float(
    np.log(TINY),
)  # |f| at a center on the boundary of the domain, where the limit is infinite


@dataclass
class BregmanDivergence(Affine):
    """D_F(x || m) = F(x) - F(m) - <f(m), x - m> of a potential F.

    A center on the boundary of the domain (all zeros of a column under "kl") has f = -inf or inf.
    There f is cut at the logarithm of the smallest number: D(0 || 0) = 0 stays exact, and any x > 0
    is 708 x away, huge but finite.
    """

    potential: Potential

    @property
    def domain(self) -> Interval:
        return self.potential.domain

    def reach(self, dtype: Any) -> Interval:
        if isinstance(self.potential, potentials.Exp):
            return Interval(high=MAX_FINITE_EXPONENT[np.dtype(dtype).itemsize])
        return self.domain

    def base(self, X: Array, anchor: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        a = anchor[None]
        slope = self._transfer(a)[0]
        values = self.values(X)
        D = values - X @ slope + float(slope @ anchor - row_values(self.potential, a)[0])
        if not is_sparse(X):
            size = (
                np.abs(values) + np.abs(X) @ np.abs(slope) + float(np.abs(slope) @ np.abs(anchor))
            )
            self._refine(D, size, X, np.broadcast_to(a, X.shape))
        return np.maximum(D, 0, out=D)

    @property
    def additive(self) -> bool:
        return not self.potential.rowwise and bool(self.domain.contains(np.zeros(())))

    def values(self, X: Array) -> Array:
        return apply_to_rows(lambda rows: row_values(self.potential, rows), X)

    def curved(self, X: Array) -> Array:
        if isinstance(self.potential, potentials.Entropy):
            return apply_to_rows(x_log_x, X)
        return self.values(X)

    def paired(self, X: Array, M: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        high = self._value(X)
        low = self._value(M)
        link = self._transfer(M)
        moved = X - M
        D = high - low - link * moved
        if self.potential.rowwise:
            return np.maximum(D.sum(axis=1), 0)
        lost = np.abs(D) < CANCELED * (
            np.abs(high) + np.abs(low) + np.abs(link) * (np.abs(X) + np.abs(M))
        )
        if lost.any():
            D[lost] = self._integral(M[lost], moved[lost], D[lost])
        return np.maximum(D, 0, out=D).sum(axis=1)

    def _refine(self, D: Array, size: Array, X: Array, M: Array) -> None:
        """Take D(x_i || m_i) again where a sum of terms of some size has lost its digits."""
        lost = np.flatnonzero(np.abs(D) < CANCELED * size)
        if len(lost):
            D[lost] = self.paired(X[lost], M[lost])

    @np.errstate(all="ignore")  # what is no number is not steady
    def _integral(self, m: Array, moved: Array, rough: Array) -> Array:
        """D(m + moved || m) as moved^2 times the integral of (1 - s) F''(m + s moved), in which no digits cancel.

        Where F'' changes so much over s in [0, 1] that few nodes do not tell its integral, what is
        known roughly stays.
        """
        first = self._slope(m)
        inner = [self._slope(m + s * moved) for s, _ in GAUSS]
        change = np.max(
            [np.abs(slope - first) for slope in (*inner, self._slope(m + moved))],
            axis=0,
        )
        exact = moved * (
            moved * sum(weight * slope for (_, weight), slope in zip(GAUSS, inner, strict=True))
        )
        return np.where((first > 0) & (change <= STEADY * first) & np.isfinite(exact), exact, rough)

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        f = self._transfer(M)
        a = anchor[None]
        values = row_values(self.potential, M)
        least = float(row_values(self.potential, a)[0])
        c = least - values + np.einsum("ij,ij->i", f, M - anchor)
        size = (
            np.abs(values)
            + abs(least)
            + np.einsum("ij,ij->i", np.abs(f), np.abs(M) + np.abs(anchor))
        )
        self._refine(c, size, np.broadcast_to(a, M.shape), M)
        return f - self._transfer(a), np.maximum(c, 0)

    def _value(self, X: Array) -> Array:
        if isinstance(self.potential, potentials.Exp):
            return finite_exp(X)
        return self.potential.value(X)

    def _slope(self, X: Array) -> Array:
        if isinstance(self.potential, potentials.Exp):
            return finite_exp(X)
        return self.potential.hessian(X)

    def _transfer(self, M: Array) -> Array:
        if isinstance(self.potential, potentials.Exp):
            return finite_exp(M)
        domain = self.potential.domain
        if domain.low_closed and domain.low == 0:
            inside = np.maximum(M, domain.low + TINY)
        else:
            inside = M
        return np.nan_to_num(self.potential.transfer(inside), posinf=STEEPEST, neginf=-STEEPEST)


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
    if names:
        return names[0]
    return str(divergence)


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
        raise ValueError(
            f"divergence must be a part, not its class: write {divergence.__name__}().",
        )
    raise ValueError(
        f"divergence must be a string or a Potential such as losses.potentials.Exp(), got {divergence!r}.",
    )
