"""The joint criterion of reverse prediction: a part of the loss is estimated from all rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.labels.reverse.alternating import supervised_start
from regfactor.labels.reverse.problem import Reverse, ReversePoint
from regfactor.labels.reverse.reconstruction import ColumnTask
from regfactor.problems.base import Problem


@frozen
class JointReverse(Problem[ReversePoint]):
    """mean_labeled D(y_i U || z*_i U) + mean_all D(z*_i U || f(x_i)), D = D_F* (thesis, eq. 6.2).

    z*_i U is the point of the span of U next to f(x_i). By the Pythagorean theorem of affine sets
    the first part is D(y_i U || f(x_i)) - B_i with B_i = D(z*_i U || f(x_i)), so that the criterion
    is sum_i l_i D(y_i U || f(x_i)) + sum_i (a_i - l_i) B_i, with l and a the shares of the labeled
    and of all rows. B_i is a minimum over z, and its gradient that at z*_i: U stands nowhere in the
    second argument of a divergence. The span is affine where f takes all numbers as values.

    `model` has the rows, their targets and weights.
    """

    model: Reverse
    solvers = ("regfactor.labels.reverse.joint_descent:JointDescent",)

    def check(self) -> None:
        model = self.model
        model.check()
        if model.bounded or model.on_simplex or model.prior is not None:
            raise ValueError(
                "The joint criterion needs a transfer that takes all numbers as values (identity, "
                f"kl, cube, relaxed_sigmoid), got {model.potential}. Use criterion='reverse'."
            )
        partly = np.flatnonzero(model.given & ~model.known.all(axis=1))
        if len(partly):
            raise ValueError(
                f"Input y misses some targets of row {int(partly[0])}, but not all: the joint "
                "criterion takes rows with all targets or none. Use criterion='reverse'."
            )

    @property
    def floor(self) -> float:
        """The smallest scale against which changes of the objective are measured."""
        return self.model.floor

    @cached_property
    def all_shares(self) -> Array:
        """a: the share of each row in the weight of all."""
        return self.model.weights / self.model.weights.sum()

    @cached_property
    def labeled_shares(self) -> Array:
        """l: the share of each row in the weight of labeled rows, zero for the others."""
        counted = self.model.weights * self.model.labeled
        return counted / counted.sum()

    @cached_property
    def supervised(self) -> ReversePoint:
        """The components fitted to labeled rows, with the free targets that are best for them."""
        return supervised_start(self.model)

    @cached_property
    def _without_targets(self) -> Reverse:
        return replace(self.model, Y=np.full_like(self.model.Y, np.nan))

    def projections(self, U: Array) -> Array:
        """Return z* of every row."""
        model = self.model
        every = np.ones(len(model.X), bool)
        task = ColumnTask.of_targets(self._without_targets, U, every, None)
        if model.is_identity:
            return np.linalg.lstsq(task.D, task.X - task.offset, rcond=None)[0].T
        mean = self.labeled_shares @ np.where(model.known, model.Y, 0)
        start = np.repeat(mean[:, None], len(model.X), axis=1)
        return task.minimized(task.best_start(start, mean)).T

    def value_and_gradient(self, U: Array) -> tuple[float, Array]:
        """Return the criterion and its gradient in the components."""
        Z = self.projections(U)
        given = np.where(self.model.known, self.model.Y, Z)
        value, gradient = self._weighted(self.labeled_shares, given, U)
        rest, slope = self._weighted(self.all_shares - self.labeled_shares, Z, U)
        return value + rest, gradient + slope

    def _weighted(self, weights: Array, Z: Array, U: Array) -> tuple[float, Array]:
        """Return sum_i weights_i D(z_i U || f(x_i)) and its gradient in U."""
        model = self.model
        counted = weights != 0
        D = model.design(Z)[counted]
        w = weights[counted]
        rows = replace(model, X=model.X[counted], Y=model.Y[counted], weights=w)
        T = D @ U
        residuals = model.conjugate.transfer(T) - rows.X
        return float(w @ rows.divergences(T)), D.T @ (w[:, None] * residuals)

    def completed(self, U: Array) -> ReversePoint:
        """Return components with the given targets, and z* of the other rows."""
        return ReversePoint(np.where(self.model.known, self.model.Y, self.projections(U)), U)

    def objective(self, point: ReversePoint) -> float:
        """Return the criterion, which follows from the components."""
        return self.value_and_gradient(point.components)[0]
