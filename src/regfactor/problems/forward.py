"""Forward prediction: the matching loss of a transfer f = F' between x_i W and y_i, in terms of its moments X'LY."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential


@dataclass(frozen=True, eq=False)
class Forward:
    """sum_i l_i F(x_i W) - <M, W> + tr(W'RW)/2, which for M = X'LY is sum_i l_i [F(x_i W) - y_i.x_i W] + tr(W'RW)/2.

    Targets enter through their moments M alone. The minimum has X'L f(XW) + R W = M.
    """

    X: Array
    moments: Array
    weights: Array
    potential: Potential
    ridge: Array  # R, d x d

    @staticmethod
    def of(X: Array, Y: Array, weights: Array, potential: Potential, ridge: Array) -> Forward:
        """Return the problem of targets Y."""
        return Forward(X, X.T @ (weights[:, None] * Y), weights, potential, ridge)

    def value(self, W: Array) -> tuple[float, float]:
        """Return the objective, and the size of its parts, by which rounding is judged."""
        F = float(self.weights @ self.potential.value(self.X @ W).sum(axis=1))
        pull = float(np.vdot(self.moments, W))
        penalty = float(np.vdot(W, self.ridge @ W)) / 2
        return F - pull + penalty, abs(F) + abs(pull) + penalty

    def slope(self, W: Array) -> Array:
        """Return the gradient X'L f(XW) + R W - M."""
        return (
            self.X.T @ (self.weights[:, None] * self.potential.transfer(self.X @ W))
            + self.ridge @ W
            - self.moments
        )

    def hessians(self, W: Array) -> Array:
        """Return the second derivatives in each column of W, or in all of W where the potential couples columns."""
        XW = self.X @ W
        if isinstance(self.potential, potentials.Softmax):
            return self._coupled(self.potential.transfer(XW))
        h = self.weights[:, None] * self.potential.hessian(XW)
        return np.stack([self.X.T @ (h[:, [j]] * self.X) for j in range(h.shape[1])]) + self.ridge

    def _coupled(self, P: Array) -> Array:
        """Block (a, b) is X'L diag(p_a [a = b] - p_a p_b) X."""
        k = P.shape[1]
        d = self.X.shape[1]
        H = np.empty((k, d, k, d))
        for a in range(k):
            for b in range(a, k):
                h = self.weights * P[:, a] * ((a == b) - P[:, b])
                H[a, :, b] = self.X.T @ (h[:, None] * self.X)
                H[b, :, a] = H[a, :, b]
            H[a, :, a] += self.ridge
        return H.reshape(1, k * d, k * d)
