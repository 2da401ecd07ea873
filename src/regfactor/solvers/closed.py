"""The closed form: squared loss, nothing missing, so that the solution is one prox of the gauge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor._params import UnsupportedProblem
from regfactor.factors import Point
from regfactor.loop import Iterate
from regfactor.losses import Squared
from regfactor.maps import Identity
from regfactor.penalties import Trace, TwoView
from regfactor.problems import Convex
from regfactor.solvers.base import Solver


def has_closed_form(problem: Convex) -> bool:
    """Whether min |Z - X|^2/2 + alpha |||Z||| is all there is; offsets may be profiled out of the trace norm only."""
    if not problem.data.complete or not all(isinstance(t.loss, Squared) for t in problem.data.terms):
        return False
    if not isinstance(problem.map, Identity) or isinstance(problem.gauge, TwoView) or np.ndim(problem.gauge.scale):
        return False
    design = problem.design
    return design is None or (isinstance(problem.gauge, Trace) and not np.any(design.strengths))


@dataclass
class Closed(Solver):
    """Z = prox of the gauge at X, freed of the design: one step, certified to rounding."""

    def check(self, problem: Convex) -> None:
        if not has_closed_form(problem):
            raise UnsupportedProblem(
                "Closed needs the squared loss with every entry observed and no weights, a gauge with a prox, and no "
                "design (or a free one with the trace norm). Use Admm."
            )

    def iterates(self, problem: Convex, start: Point | None) -> Iterator[Iterate]:
        """Yield the solution."""
        Z = np.zeros(problem.shape, problem.data.dtype)
        target = -problem.dual_point(Z, problem.free(Z))  # X, or what is left of it outside the range of the design
        F = problem.gauge.prox(target, problem.alpha)
        Z = F.dense()
        B = problem.free(Z)
        bound = problem.bound(problem.dual_point(Z, B))
        yield Iterate(Point(F, B), problem.objective(F, B), bound.value, bound.rigorous)
