"""Forward prediction: the matching loss of a transfer f = F' between x_i W and y_i."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.problems.base import Problem


class ForwardValue(NamedTuple):
    """An objective, and the size of the terms it is the sum of, by which rounding is judged."""

    objective: float
    size: float


@frozen
class ForwardPoint:
    """The coefficients W of a forward model."""

    coefficients: Array


@frozen
class Forward(Problem[ForwardPoint]):
    """sum_i l_i F(x_i W) - <M, W> + tr(W'RW)/2.

    For M = X'LY this is sum_i l_i [F(x_i W) - y_i.x_i W] + tr(W'RW)/2: targets enter through their
    moments M alone. The minimum has X'L f(XW) + R W = M.
    """

    X: Array
    moments: Array
    weights: Array
    potential: Potential
    ridge: Array  # R, d x d
    solvers = ("regfactor.solvers.glm_newton:Newton",)

    @staticmethod
    def of(
        X: Array,
        Y: Array,
        weights: Array,
        potential: Potential,
        ridge: Array,
    ) -> Forward:
        """Return the problem of targets Y."""
        return Forward(
            X,
            X.T @ (weights[:, None] * Y),
            weights,
            potential,
            ridge,
        )

    def value(self, W: Array) -> ForwardValue:
        """Return the objective at W, and the size of its terms."""
        potential = float(self.weights @ self.potential.value(self.X @ W).sum(axis=1))
        linear = float(np.vdot(self.moments, W))
        penalty = float(np.vdot(W, self.ridge @ W)) / 2
        return ForwardValue(potential - linear + penalty, abs(potential) + abs(linear) + penalty)

    def gradient(self, W: Array) -> Array:
        """Return X'L f(XW) + R W - M."""
        predicted = self.weights[:, None] * self.potential.transfer(self.X @ W)
        return self.X.T @ predicted + self.ridge @ W - self.moments

    def hessians(self, W: Array) -> Array:
        """Return the second derivatives in each column of W; in all of W under softmax."""
        XW = self.X @ W
        if isinstance(self.potential, potentials.Softmax):
            return self._coupled_hessian(self.potential.transfer(XW))
        h = self.weights[:, None] * self.potential.hessian(XW)
        columns = [self.X.T @ (h[:, [j]] * self.X) for j in range(h.shape[1])]
        return np.stack(columns) + self.ridge

    def _coupled_hessian(self, P: Array) -> Array:
        """Return the matrix of blocks (a, b), X'L diag(p_a [a = b] - p_a p_b) X."""
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
