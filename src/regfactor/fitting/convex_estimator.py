"""Estimators of one table whose problem is convex."""

from __future__ import annotations

from typing import Any

from regfactor.core.params import Array
from regfactor.fitting.factor_estimator import FactorEstimator
from regfactor.fitting.scoring import Scoring
from regfactor.penalties import Gauge
from regfactor.problems import Convex, Factored
from regfactor.problems.convex import convex


class ConvexEstimator(FactorEstimator):
    """An estimator whose problem is convex: a loss, a gauge, maybe an intercept."""

    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring | None:
        assert isinstance(problem, Convex)
        per_row = problem.gauge.per_row(codes)
        return Scoring(self._stated_loss, per_row, problem.alpha, self._column_weights)

    def _convex(self, X: Any, rows: Array | None, entries: Any, gauge: Gauge) -> Convex:
        return convex(
            X,
            self._stated_loss,
            gauge,
            self._strength,
            rows,
            self._weighted(X, entries),
            self._intercept(X),
        )
