"""Estimators of two tables side by side under one set of codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Solution
from regfactor.core.params import is_number
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, FactorEstimator, TableInputs
from regfactor.fitting.side_by_side import ViewUnits
from regfactor.losses import Loss
from regfactor.penalties import TwoView
from regfactor.problems import Convex
from regfactor.solvers.eta_search import with_slack_used

TWO_VIEW_CONSTRAINTS: dict[str, list[Any]] = {
    **TABLE_CONSTRAINTS,
    "bounds": [list, tuple, np.ndarray],
    "fit_intercept": ["boolean"],
}


class TwoViewEstimator(FactorEstimator):
    """A model of two tables side by side: one gauge, a loss and a unit for each view.

    `_read` of a concrete estimator sets the number of columns of the first view, the losses and
    the units.
    """

    _n_first: int
    _losses: tuple[Loss, Loss]
    _units: ViewUnits

    @property
    def _gauge(self) -> TwoView:
        return TwoView(self._n_first, self._bounds())

    def _bounds(self) -> tuple[float, float]:
        """Return the bounds of the components in both views; raise unless they are two numbers."""
        if len(self.bounds) != 2 or not all(is_number(bound) for bound in self.bounds):
            raise ValueError(
                "bounds must be a pair of positive numbers, one for each view, "
                f"got {self.bounds!r}."
            )
        return float(self.bounds[0]), float(self.bounds[1])

    def _state(self, inputs: TableInputs) -> Convex:
        return self._convex(inputs, self._gauge)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        problem = choice.problem
        if isinstance(problem.gauge, TwoView):
            solution = replace(solution, point=with_slack_used(problem, solution.point))
        published = super()._publish(choice, solution, inputs, run)
        C = self.components_
        self.view_components_ = [C[:, : self._n_first], C[:, self._n_first :]]
        eta = self._eta(Factors(self.codes_, C))
        self.view_weight_ = np.array([eta, 1 - eta])
        return published

    def _eta(self, F: Factors) -> float:
        """Return the weight of the first view at which the norm of factors is attained."""
        if F.rank:
            return self._gauge.eta(F)
        first, second = self._bounds()
        return first**2 / (first**2 + second**2)
