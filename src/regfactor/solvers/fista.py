"""Accelerated proximal gradient (FISTA) with restart and backtracking, in the space of Z."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.line_search import backtrack
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.problems import Convex
from regfactor.solvers.base import Solver

ROUNDING = 1e-12  # relative, of the quadratic model that bounds the loss
MAX_DOUBLINGS = 200  # of a curvature that has no upper bound


@dataclass
class Fista(Solver):
    """Beck & Teboulle 2009 with the gradient restart of O'Donoghue & Candes 2015.

    It needs a smooth loss.
    """

    every: int = 5

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not problem.data.smooth:
            raise UnsupportedProblem(
                "Fista needs a smooth loss (the absolute and hinge losses have kinks). Use Admm."
            )
        if not problem.gauge.proximable:
            raise UnsupportedProblem(
                f"Fista needs a gauge with a prox, which {problem.gauge} has not. Use EtaSearch."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with the dual point of the gradient."""
        state = FistaState(problem, start or problem.null)
        while True:
            state.advance(self.every)
            yield state.examine(self.every)


class FistaState:
    """The state of FISTA on min L(Q e) + alpha gauge(Q); Z = Q e survives a change of scale."""

    def __init__(self, problem: Convex, start: FactorPoint) -> None:
        self.problem = problem
        self.B = start.coefficients
        self._begin(start.factors)

    def _begin(self, Z: Factors) -> None:
        self.gauge, self.e = self.problem.gauge.without_column_scale()
        self.F = Factors(Z.Phi, Z.C / self.e)
        self.Q = self.F.dense()
        self.V = self.Q
        self.t = 1.0
        self.curvature = _first_curvature(self.problem, self.e)

    def rescale(self, problem: Convex) -> None:
        """Go on with the same data under another scale."""
        Z = Factors(self.F.Phi, self.F.C * self.e)
        self.problem = problem
        self._begin(Z)

    def advance(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            last = self.Q
            self._take_step()
            move = self.Q - last
            t = self.t
            if np.vdot(self.V - self.Q, move) > 0:
                # momentum points uphill: restart
                t = 1.0
                self.t = 1.0
            else:
                self.t = float(1 + np.sqrt(1 + 4 * t * t)) / 2
            self.V = self.Q + ((t - 1) / self.t) * move

    def _take_step(self) -> None:
        """Take a proximal gradient step from V, shortened until the quadratic model bounds L."""
        problem = self.problem
        value, G, self.B = problem.evaluate(self.V * self.e, self.B)
        G = G * self.e

        def step(curvature: float) -> Factors | None:
            F = self.gauge.prox(self.V - G / curvature, float(problem.alpha / curvature))
            self.curvature = curvature
            self.Q = F.dense()
            if np.isfinite(problem.data.curvature):
                return F
            move = self.Q - self.V
            model = value + np.vdot(G, move) + curvature / 2 * np.vdot(move, move)
            reached = problem.evaluate(self.Q * self.e, self.B)[0]
            if reached <= model + ROUNDING * abs(model):
                return F
            return None

        found = backtrack(step, self.curvature, factor=2.0, max_attempts=MAX_DOUBLINGS)
        if found is not None:
            self.F = found

    def examine(self, steps: int) -> Iterate[FactorPoint]:
        """Return the current point, with the bound of its gradient."""
        problem = self.problem
        F = Factors(self.F.Phi, self.F.C * self.e)
        Z = F.dense()
        value, _, B = problem.evaluate(Z, self.B)
        bound = problem.bound(problem.dual_point(Z, B))
        return Iterate(
            FactorPoint(F, B),
            value + problem.alpha * problem.gauge.cost(F),
            bound.value,
            bound.rigorous,
            steps=steps,
        )


def _first_curvature(problem: Convex, e: Array | float) -> float:
    """Return the bound of the curvature, or where there is none its value at Z = 0."""
    scale = problem.map.norm2 * float(np.square(e).max())
    if np.isfinite(problem.data.curvature):
        return problem.data.curvature * scale
    null = problem.null
    predictors = problem.predictor(null.factors.dense(), null.coefficients)
    return float(problem.data.hessian(predictors).max()) * scale
