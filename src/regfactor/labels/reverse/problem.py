"""Reverse prediction: inputs reconstructed from targets, of which some are unknown and free."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen
from regfactor.losses import potentials
from regfactor.losses.potentials import Dual, Entropy, Potential
from regfactor.problems.base import Problem

ZERO_OBJECTIVE = 1e-10  # share of the null objective below which an objective counts as zero


@frozen
class ReversePoint:
    """Targets Z, components U (with an intercept the offset is their last row) and covariance S."""

    targets: Array
    components: Array
    covariance: Array | None = None


@frozen
class Reverse(Problem[ReversePoint]):
    """sum_i w_i D_F*(z_i U || f(x_i)), z_i = y_i where a target is known.

    D_F*(t || f(x)) = F(x) + F*(t) - x.t (White & Schuurmans 2012, eq. 26). With an intercept z_i is
    followed by a one. With a `prior` A (identity only) residuals are measured by S^-1, S their
    covariance, and W (log det S + tr S^-1 A)/2 is added, W = sum w: S = (weighted residual
    covariance) + A is then its minimum.
    """

    X: Array
    Y: Array  # NaN: free
    weights: Array
    potential: Potential
    intercept: bool = False
    prior: Array | None = None
    solvers = ("regfactor.labels.reverse.alternating:ReverseAlternating",)

    def check(self) -> None:
        if self.on_simplex and not self.intercept and not self.known.all():
            raise ValueError(
                "Under softmax the rows of targets must keep their sum: leave the last column of "
                "free targets out, and use an intercept in its place."
            )

    @property
    def floor(self) -> float:
        """The smallest scale against which changes of the objective are measured."""
        return ZERO_OBJECTIVE * self.null

    @cached_property
    def conjugate(self) -> Potential:
        """F* as an elementwise potential; that of softmax less the sum of the row, which is one."""
        if self.on_simplex:
            return Entropy()
        return Dual(self.potential)

    def conjugate_curvature(self, T: Array, x: Array) -> Array:
        """Return F*'' at T for a known x = f^-1(T): roots and logarithms are most of the work."""
        if self.on_simplex:
            return self.conjugate.hessian(T)
        return 1 / self.potential.hessian(x)

    @property
    def is_identity(self) -> bool:
        """Whether reconstructions are compared by squared distances."""
        return isinstance(self.potential, potentials.Identity)

    @property
    def on_simplex(self) -> bool:
        """Whether each row of z U must sum to one."""
        return isinstance(self.potential, potentials.Softmax)

    @property
    def bounded(self) -> bool:
        """Whether z U must stay inside an interval."""
        return bool(np.isfinite([self.potential.range.low, self.potential.range.high]).any())

    @cached_property
    def known(self) -> Array:
        """True where a target is given."""
        return ~np.isnan(self.Y)

    @property
    def given(self) -> Array:
        """True for rows with a given target."""
        return np.asarray(self.known.any(axis=1))

    @cached_property
    def labeled(self) -> Array:
        """True for rows of positive weight with a given target."""
        return self.given & (self.weights > 0)

    @cached_property
    def input_potentials(self) -> Array:
        """F(x_i) of every row."""
        return self.potential.value(self.X).sum(axis=1)

    @cached_property
    def _mean(self) -> Array:
        return self.weights @ self.X / self.weights.sum()

    @cached_property
    def null(self) -> float:
        """The least objective without targets, sum w D_F(x_i || mean): the scale of all others."""
        at_mean = self.weights.sum() * self.potential.value(self._mean[None]).sum()
        return float(max(self.weights @ self.input_potentials - at_mean, 0.0))

    def finite_transfer(self, X: Array) -> Array:
        """Return f(x), for infinite ones a number beyond the others: a start needs numbers."""
        found = self.potential.transfer(X)
        finite = np.isfinite(found)
        if finite.all():
            return found
        low = found.min(where=finite, initial=0.0) - 1
        high = found.max(where=finite, initial=0.0) + 1
        return np.clip(found, low, high)

    @cached_property
    def size(self) -> float:
        """The size of the numbers that are subtracted in the objective, for its rounding."""
        crossed = np.abs(self.X * self.finite_transfer(self.X)).sum(axis=1)
        return float(self.weights @ (np.abs(self.input_potentials) + crossed))

    def design(self, Z: Array) -> Array:
        """Return the rows [z_i, 1], or z_i without an intercept."""
        if self.intercept:
            return np.column_stack([Z, np.ones(len(Z))])
        return Z

    def reconstruction(self, point: ReversePoint) -> Array:
        """Return z_i U of every row."""
        return self.design(point.targets) @ point.components

    def projection(self, point: ReversePoint) -> Array:
        """Return A with x A = argmin_z |x - z U|, in the metric of the residuals, up to an offset.

        Only under the identity transfer.
        """
        U = point.components[: self.Y.shape[1]]
        if point.covariance is None:
            return np.linalg.pinv(U)
        scaled = scipy.linalg.solve(point.covariance, U.T, assume_a="pos")
        return scaled @ np.linalg.pinv(U @ scaled)

    def inside(self, T: Array) -> Array:
        """Return which entries of z U lie in the interior of the domain of F*."""
        allowed = self.potential.range
        return (T > allowed.low) & (T < allowed.high) & np.isfinite(T)

    def divergences(self, T: Array) -> Array:
        """Return D_F*(t_i || f(x_i)) of every row, infinite outside the domain."""
        if self.is_identity:  # without the cancellation of the general form
            return np.square(self.X - T).sum(axis=1) / 2
        legal = self.inside(T)
        conjugates = self.conjugate.value(np.where(legal, T, 0.5))
        D = self.input_potentials + float(self.on_simplex) + (conjugates - self.X * T).sum(axis=1)
        return np.where(legal.all(axis=1), np.maximum(D, 0), np.inf)

    def objective(self, point: ReversePoint) -> float:
        """Return the objective; rows of weight zero do not count."""
        T = self.reconstruction(point)
        if point.covariance is None or self.prior is None:
            counted = self.weights > 0
            return float(self.weights[counted] @ self.divergences(T)[counted])
        root = scipy.linalg.cholesky(point.covariance, lower=True, check_finite=False)
        R = scipy.linalg.solve_triangular(
            root,
            (self.X - T).T,
            lower=True,
            check_finite=False,
        )
        log_determinant = 2 * float(np.log(np.diag(root)).sum())
        scaled = scipy.linalg.cho_solve((root, True), self.prior, check_finite=False)
        penalty = float(np.trace(scaled))
        distances = self.weights @ np.square(R).sum(axis=0)
        return float(distances + self.weights.sum() * (log_determinant + penalty)) / 2

    @property
    def change_scale(self) -> float | None:
        """The scale of changes under a covariance, whose log determinant has no natural zero."""
        if self.prior is None:
            return None
        return float(self.weights.sum()) * self.X.shape[1] / 2

    def covariance(self, Z: Array, U: Array) -> Array | None:
        """Return the S that minimizes the objective for given Z and U; None without a prior."""
        if self.prior is None:
            return None
        R = self.X - self.design(Z) @ U
        own = R.T @ (self.weights[:, None] * R) / self.weights.sum()
        return own + self.prior
