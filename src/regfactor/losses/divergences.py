"""Bregman divergences of potentials, and the names of all divergences in the API.

Under a Bregman divergence D_F(x || m) the best center of any F is the mean (Banerjee et al. 2005),
and all rows are compared with all centers by one matrix product, as in `distances`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from regfactor.core.linalg import is_sparse
from regfactor.core.params import SMALLEST_NORMAL, Array, choose
from regfactor.losses import potentials
from regfactor.losses.base import Interval
from regfactor.losses.distances import Affine, Divergence, Mahalanobis, Manhattan, SquaredDistance
from regfactor.losses.exponentials import MAX_FINITE_EXPONENT, finite_exp
from regfactor.losses.potentials import Potential
from regfactor.losses.sums import apply_to_rows, row_values, x_log_x

CANCELED = 1e-4  # share of its terms below which a sum has lost too much precision
# nodes and weights of the integral of (1 - s) g(s) over [0, 1]
QUADRATURE = tuple(zip(*scipy.special.roots_sh_jacobi(4, 2, 1), strict=True))
MAX_HESSIAN_CHANGE = 0.5  # share of F'' by which it may change where these nodes are enough
# |f| at a center on the boundary of the domain, where the limit is infinite
MAX_GRADIENT = -float(np.log(SMALLEST_NORMAL))


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

    def finite_domain(self, dtype: Any) -> Interval:
        if self._is_exp:
            return Interval(high=MAX_FINITE_EXPONENT[np.dtype(dtype).itemsize])
        return self.domain

    def base(self, X: Array, anchor: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        a = anchor[None]
        gradient = self._transfer(a)[0]
        values = self.values(X)
        D = values - X @ gradient + float(gradient @ anchor - row_values(self.potential, a)[0])
        if not is_sparse(X):
            steepness = np.abs(gradient)
            size = np.abs(values) + np.abs(X) @ steepness + float(steepness @ np.abs(anchor))
            self._refine(D, size, X, np.broadcast_to(a, X.shape))
        return np.maximum(D, 0, out=D)

    @property
    def additive(self) -> bool:
        return not self.potential.rowwise and bool(self.domain.contains(np.zeros(())))

    @property
    def separable(self) -> bool:
        return not self.potential.rowwise

    def between_observed(self, X: Array, observed: Array, M: Array) -> Array:
        gradients = self._transfer(M)
        offsets = self._value(M) - gradients * M
        values = (observed * self._value(X)).sum(axis=1)
        D = values[:, None] - (observed * X) @ gradients.T - observed @ offsets.T
        return np.maximum(D, 0)

    def values(self, X: Array) -> Array:
        return apply_to_rows(partial(row_values, self.potential), X)

    def curved(self, X: Array) -> Array:
        if isinstance(self.potential, potentials.Entropy):
            return apply_to_rows(x_log_x, X)
        return self.values(X)

    def paired(self, X: Array, M: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        high = self._value(X)
        low = self._value(M)
        gradient = self._transfer(M)
        moved = X - M
        D = high - low - gradient * moved
        if self.potential.rowwise:
            return np.maximum(D.sum(axis=1), 0)
        slope = np.abs(gradient) * (np.abs(X) + np.abs(M))
        size = np.abs(high) + np.abs(low) + slope
        lost = np.abs(D) < CANCELED * size
        if lost.any():
            D[lost] = self._integral(M[lost], moved[lost], D[lost])
        return np.maximum(D, 0, out=D).sum(axis=1)

    def _refine(
        self,
        D: Array,
        size: Array,
        X: Array,
        M: Array,
    ) -> None:
        """Take D(x_i || m_i) again where a sum of terms of some size lost precision."""
        lost = np.flatnonzero(np.abs(D) < CANCELED * size)
        if len(lost):
            D[lost] = self.paired(X[lost], M[lost])

    @np.errstate(all="ignore")  # a hessian that is not finite fails the test of its change
    def _integral(self, m: Array, moved: Array, rough: Array) -> Array:
        """D(m + moved || m) as moved^2 times the integral of (1 - s) F''(m + s moved).

        Nothing cancels in it. Where F'' changes so much over s in [0, 1] that few nodes do not
        give the integral, the rough value stays.
        """
        first = self._hessian(m)
        last = self._hessian(m + moved)
        change = np.abs(last - first)
        integral = np.zeros_like(first)
        for node, weight in QUADRATURE:
            hessian = self._hessian(m + node * moved)
            change = np.maximum(change, np.abs(hessian - first))
            integral += weight * hessian
        exact = moved * (moved * integral)
        steady = (first > 0) & (change <= MAX_HESSIAN_CHANGE * first)
        return np.where(steady & np.isfinite(exact), exact, rough)

    def center_gradients(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        gradients = self._transfer(M)
        a = anchor[None]
        values = row_values(self.potential, M)
        least = float(row_values(self.potential, a)[0])
        offsets = least - values + np.einsum("ij,ij->i", gradients, M - anchor)
        products = np.einsum("ij,ij->i", np.abs(gradients), np.abs(M) + np.abs(anchor))
        size = np.abs(values) + abs(least) + products
        self._refine(offsets, size, np.broadcast_to(a, M.shape), M)
        return gradients - self._transfer(a), np.maximum(offsets, 0)

    @property
    def _is_exp(self) -> bool:
        return isinstance(self.potential, potentials.Exp)

    def _value(self, X: Array) -> Array:
        if self._is_exp:
            return finite_exp(X)
        return self.potential.value(X)

    def _hessian(self, X: Array) -> Array:
        if self._is_exp:
            return finite_exp(X)
        return self.potential.hessian(X)

    def _transfer(self, M: Array) -> Array:
        if self._is_exp:
            return finite_exp(M)
        if self.domain.low_closed and self.domain.low == 0:
            M = np.maximum(M, SMALLEST_NORMAL)
        transfer = self.potential.transfer(M)
        return np.nan_to_num(transfer, posinf=MAX_GRADIENT, neginf=-MAX_GRADIENT)


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


TRANSFERS_OF_ROWS = (
    "sigmoid",
    "softmax",
    "exp",
    "cube",
    "relaxed_sigmoid",
    "mahalanobis",
    "kl",
)
TRANSFER_DIVERGENCES = {name: DIVERGENCES[name] for name in TRANSFERS_OF_ROWS}
TRANSFER_DIVERGENCES["identity"] = DIVERGENCES["squared"]


def named(divergence: Divergence) -> str:
    """Return a divergence as a user writes it: by its name where it has one."""
    for name, part in DIVERGENCES.items():
        if part is divergence:
            return f"divergence={name!r}"
    return str(divergence)


def as_divergence(divergence: Any) -> Divergence:
    """Return the divergence that a string, a potential or a part names."""
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
            f"divergence must be a part, not its class: write {divergence.__name__}()."
        )
    raise ValueError(
        "divergence must be a string or a Potential such as losses.potentials.Exp(), "
        f"got {divergence!r}."
    )
