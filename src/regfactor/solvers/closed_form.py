"""The closed form: squared loss, nothing missing, so that the solution is one prox of the gauge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.linalg import positive_or_one
from regfactor.core.loop import Iterate
from regfactor.core.params import UnsupportedProblem
from regfactor.penalties import Columns, Rows, Trace, TraceModulo
from regfactor.problems import Convex
from regfactor.solvers.base import Solver


def has_closed_form(problem: Convex) -> bool:
    """Whether the objective is |h^1/2 (Z - X)|^2/2 + alpha |||Z||| with h that the prox allows.

    Offsets can be profiled out of the trace norm only, which no projection of Z raises.
    """
    gauge = problem.gauge
    design = problem.design
    invariant = isinstance(gauge, Trace | TraceModulo)
    if not (invariant or isinstance(gauge, Rows | Columns)) or np.ndim(gauge.scale):
        return False
    if design is not None and not (invariant and not np.any(design.strengths)):
        return False
    h = problem.row_curvature
    return h is not None and (np.ndim(h) == 0 or isinstance(gauge, Rows))


@dataclass
class ClosedForm(Solver):
    """Z = prox of the gauge at X, freed of the design: one step, certified to rounding."""

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not has_closed_form(problem):
            raise UnsupportedProblem(
                "ClosedForm needs the squared loss with every entry observed and no weights of "
                "entries, a gauge with a prox, and no design (or a free one with the trace norm). "
                "Use Admm."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield the solution."""
        h = problem.row_curvature
        assert h is not None
        # a row with nothing observed stays zero
        h = positive_or_one(h) if isinstance(h, np.ndarray) else h
        _, G, _ = problem.evaluate(np.zeros(problem.shape, problem.data.dtype))
        F = problem.gauge.prox(
            -G / (h[:, None] if isinstance(h, np.ndarray) else h),
            problem.alpha / h,
        )
        Z = F.dense()
        B = problem.best_coefficients(Z)
        bound = problem.bound(problem.dual_point(Z, B))
        yield Iterate(FactorPoint(F, B), problem.objective(F, B), bound.value, bound.rigorous)
