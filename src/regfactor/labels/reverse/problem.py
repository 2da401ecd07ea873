"""Reverse prediction: inputs reconstructed from targets, of which some are unknown and free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from regfactor.core.factors import Factors
from regfactor.core.params import Array
from regfactor.losses import potentials
from regfactor.losses.potentials import Dual, Entropy, Potential


@dataclass(frozen=True, eq=False)
class Reverse:
    """sum_i w_i D_F*(z_i U || f(x_i)), z_i = y_i where a target is known (White & Schuurmans 2012, eq. 26).

    D_F*(t || f(x)) = F(x) + F*(t) - x.t. With an intercept z_i is followed by a one. With
    `shrinkage` (identity only) residuals are measured by S^-1, S their covariance, and W (log det S
    + s tr S^-1)/2 is added, W = sum w and s = shrinkage times the mean variance of the inputs: S =
    (weighted residual covariance) + s I is then its minimum.
    """

    X: Array
    Y: Array  # NaN: free
    weights: Array
    potential: Potential
    intercept: bool = False
    shrinkage: float | None = None

    @cached_property
    def conjugate(self) -> Potential:
        """F* as an elementwise potential; that of softmax less the sum of the row, which is one."""
        if self.closed:
            return Entropy()
        return Dual(self.potential)

    def curvature(self, T: Array, x: Array) -> Array:
        """F*'' at T, where x = f^-1(T) is at hand: roots and logarithms are most of the work."""
        if self.closed:
            return self.conjugate.hessian(T)
        return 1 / self.potential.hessian(x)

    @property
    def closed(self) -> bool:
        """Whether each row of z U must sum to one."""
        return isinstance(self.potential, potentials.Softmax)

    @property
    def bounded(self) -> bool:
        """Whether z U must stay inside an interval."""
        return bool(np.isfinite(self.potential.range.low) or np.isfinite(self.potential.range.high))

    @cached_property
    def known(self) -> Array:
        """Which targets are given."""
        return ~np.isnan(self.Y)

    @property
    def given(self) -> Array:
        """Which rows have a given target."""
        return np.asarray(self.known.any(axis=1))

    @cached_property
    def labeled(self) -> Array:
        """Which rows of positive weight have a given target."""
        return self.given & (self.weights > 0)

    @cached_property
    def own(self) -> Array:
        """F(x_i) of every row."""
        return np.asarray(self.potential.value(self.X).sum(axis=1))

    @cached_property
    def null(self) -> float:
        """Return the least objective without targets, sum w D_F(x_i || mean): the scale of all others."""
        mean = self.weights @ self.X / self.weights.sum()
        return float(
            max(
                self.weights @ self.own
                - self.weights.sum() * self.potential.value(mean[None]).sum(),
                0.0,
            ),
        )

    @cached_property
    def size(self) -> float:
        """Return the size of the numbers that are subtracted in the objective, for its rounding."""
        crossed = np.abs(self.X * self.potential.transfer(self.X)).sum(axis=1)
        return float(self.weights @ (np.abs(self.own) + crossed))

    def design(self, Z: Array) -> Array:
        """Return the rows [z_i, 1], or z_i without an intercept."""
        if self.intercept:
            return np.column_stack([Z, np.ones(len(Z))])
        return Z

    def inside(self, T: Array) -> Array:
        """Tell which entries of z U lie in the interior of the domain of F*."""
        return np.asarray(
            (T > self.potential.range.low) & (T < self.potential.range.high) & np.isfinite(T),
        )

    def divergences(self, F: Factors) -> Array:
        """D_F*(z_i U || f(x_i)) of every row, infinite outside the domain."""
        T = F.dense()
        if isinstance(self.potential, potentials.Identity):
            return (
                np.square(self.X - T).sum(axis=1) / 2
            )  # without the cancellation of the general form
        legal = self.inside(T)
        D = (
            self.own
            + float(self.closed)
            + (self.conjugate.value(np.where(legal, T, 0.5)) - self.X * T).sum(axis=1)
        )
        return np.where(legal.all(axis=1), np.maximum(D, 0), np.inf)

    def objective(self, F: Factors, S: Array | None = None) -> float:
        """Return the objective of [Z, 1] U, and of S under a shrinkage; rows of weight zero do not count."""
        counted = self.weights > 0
        if S is None:
            return float(self.weights[counted] @ self.divergences(F)[counted])
        root = scipy.linalg.cholesky(S, lower=True, check_finite=False)
        R = scipy.linalg.solve_triangular(
            root,
            (self.X - F.dense()).T,
            lower=True,
            check_finite=False,
        )
        inverse = scipy.linalg.solve_triangular(
            root,
            np.eye(len(S)),
            lower=True,
            check_finite=False,
        )
        extra = 2 * float(np.log(np.diag(root)).sum()) + self.floor_variance * float(
            np.vdot(inverse, inverse),
        )
        return float(self.weights @ np.square(R).sum(axis=0) + self.weights.sum() * extra) / 2

    @cached_property
    def floor_variance(self) -> float:
        """Return s, the variance that is added to S."""
        mean = self.weights @ self.X / self.weights.sum()
        variance = float((self.weights @ np.square(self.X - mean)).mean() / self.weights.sum())
        return (self.shrinkage or 0.0) * (variance if variance > 0 else 1.0)

    @property
    def expected(self) -> float:
        """Return the scale of the objective under a covariance, whose log determinant has its zero anywhere."""
        return float(self.weights.sum()) * self.X.shape[1] / 2

    def covariance(self, F: Factors) -> Array:
        """Return the S that minimizes the objective for given residuals."""
        R = self.X - F.dense()
        return R.T @ (
            self.weights[:, None] * R
        ) / self.weights.sum() + self.floor_variance * np.eye(R.shape[1])
