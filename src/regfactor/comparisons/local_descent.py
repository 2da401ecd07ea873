"""A convex problem in its factors, at a fixed rank.

Alternating descent, whose end the certificate then judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties import PowerPenalty, TwoView, UnitBall
from regfactor.problems import Convex
from regfactor.problems.design import shifted
from regfactor.solvers.base import Solver
from regfactor.solvers.updates import update_codes, update_components

SMALLEST_CODE_SHARE = 1e-9  # of the largest code, below which an atom no longer grows lighter
STEPS = 500  # proximal steps on the components of a stage that comes once


@dataclass
class Local(Solver):
    """min over k atoms of L(Phi C) + alpha sum |phi_i|, |c1_i| <= b1, |c2_i| <= b2, by turns.

    Codes are fitted under the ridge that touches sum |phi_i| from above at the last codes,
    components by projected gradient steps. From random atoms; ends when a sweep lowers the
    objective by less than `tol`.
    """

    rank: int = 1
    tol: float = 1e-4
    random_state: Any = 0
    steps: int = 10

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, TwoView):
            raise UnsupportedProblem(f"Local is for the gauge TwoView, got {problem.gauge}.")
        if not problem.data.smooth:
            raise UnsupportedProblem("Local needs a smooth loss, such as 'huber' for 'absolute'.")

    def iterates(self, problem: Convex, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield after every sweep."""
        F = self.first(problem) if start is None else start.factors
        B = problem.best_coefficients(F, None if start is None else start.coefficients)
        last = np.inf
        while True:
            F = self.sweep(problem, F, B)
            B = problem.best_coefficients(F, B)
            iterate = self.reached(problem, F, B, last)
            yield iterate
            last = iterate.objective

    def reached(
        self,
        problem: Convex,
        F: Factors,
        B: Array | None,
        last: float,
    ) -> Iterate[FactorPoint]:
        """Return an iterate, settled unless the objective has fallen enough from the last one."""
        objective = problem.objective(F, B)
        still = last - objective <= self.tol * abs(objective)
        point = FactorPoint(F, B, problem.dual_point(F, B))
        return Iterate(point, objective, settled=bool(still), rank_limited=True)

    def first(self, problem: Convex) -> Factors:
        """Return random atoms inside the bounds."""
        n, d = problem.shape
        random = np.random.default_rng(self.random_state)
        assert isinstance(problem.gauge, TwoView)
        C = random.normal(size=(self.rank, d))
        C = C / problem.gauge.norm.value(C)[:, None]
        codes = random.normal(size=(n, self.rank))
        return Factors(codes.astype(problem.data.dtype), C.astype(problem.data.dtype))

    def sweep(self, problem: Convex, F: Factors, B: Array | None) -> Factors:
        """Improve the codes, then the components."""
        assert isinstance(problem.gauge, TwoView)
        data = shifted(problem.data, problem.design, B)
        rows = problem.map.diagonal
        # a row of weight w is w equal rows, whose codes are fitted like those of one
        alone = data
        if np.ndim(rows):
            alone = data.weighted(np.square(rows).ravel())
        size = np.linalg.norm(F.codes, axis=0) * problem.gauge.norm.value(F.C)
        least = SMALLEST_CODE_SHARE * max(size.max(initial=0), 1e-300)
        ridge = PowerPenalty(2.0, 1 / np.maximum(size, least))
        codes = update_codes(
            alone,
            F.codes * rows,
            F.C,
            ridge,
            float(problem.alpha),
            self.steps,
        )
        ball = UnitBall(problem.gauge.norm)
        C = update_components(data, codes, F.C, ball, float(problem.alpha), self.steps)
        return Factors(codes / rows, C)


@dataclass
class Staged(Local):
    """The first view alone, then the components of the second with the codes held.

    What was learned first stays.
    """

    def iterates(self, problem: Convex, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield the end of both stages."""
        gauge = problem.gauge
        assert isinstance(gauge, TwoView)
        first = np.arange(problem.shape[1]) < gauge.n_first
        data = problem.data.kept(np.broadcast_to(first, problem.shape))
        alone = replace(problem, data=data, design=None)
        for it in super().iterates(alone, start):
            if it.settled:
                break
        F = it.point.factors
        B = None
        C = F.C
        ball = UnitBall(gauge.norm)
        codes = F.codes * problem.map.diagonal
        last = np.inf
        while True:
            B = problem.best_coefficients(F, B)
            iterate = self.reached(problem, F, B, last)
            yield iterate
            last = iterate.objective
            data = shifted(problem.data, problem.design, B)
            fitted = update_components(data, codes, F.C, ball, float(problem.alpha), STEPS)
            F = Factors(F.Phi, np.where(first, C, fitted))
