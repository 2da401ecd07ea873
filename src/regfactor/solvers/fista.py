"""Accelerated proximal gradient (FISTA) with restart and backtracking, in the space of Z."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate, Limits
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties import Gauge, Trace, TwoView
from regfactor.problems import Convex
from regfactor.solvers.base import Solver


def unscaled(gauge: Gauge) -> tuple[Gauge, Array | float]:
    """Return a gauge with a prox and the column scale e such that |||Z||| = gauge(Z / e)."""
    if isinstance(gauge, Trace) and np.ndim(gauge.scale):
        return Trace(), np.asarray(gauge.scale)
    return gauge, 1.0


@dataclass
class Fista(Solver):
    """Beck & Teboulle 2009 with the gradient restart of O'Donoghue & Candes 2015; needs a smooth loss."""

    every: int = 5

    def check(self, problem: Convex) -> None:
        if not problem.data.smooth:
            raise UnsupportedProblem(
                "Fista needs a smooth loss (the absolute and hinge losses have kinks). Use Admm.",
            )
        if isinstance(problem.gauge, TwoView):
            raise UnsupportedProblem(
                "Fista needs a gauge with a prox; TwoView has none. Use EtaSearch.",
            )

    def suits(self, problem: Convex, limits: Limits) -> bool:
        return True

    def iterates(
        self, problem: Convex, start: FactorPoint | None
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with the dual point of the gradient."""
        state = Gradients(problem, start or problem.null)
        while True:
            state.advance(self.every)
            yield state.examine(self.every)


class Gradients:
    """The state of FISTA on min L(Q e) + alpha gauge(Q); Z = Q e survives a change of scale."""

    def __init__(self, problem: Convex, start: FactorPoint) -> None:
        self.problem = problem
        self.B = start.coefficients
        self._begin(start.factors)

    def _begin(self, Z: Factors) -> None:
        self.gauge, self.e = unscaled(self.problem.gauge)
        self.F = Factors(Z.Phi, Z.C / self.e)
        self.V = self.last = self.F.dense()
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
            self.F, Q, self.B, self.curvature = _step(
                self.problem,
                self.gauge,
                self.V,
                self.e,
                self.B,
                self.curvature,
            )
            momentum = np.vdot(self.V - Q, Q - self.last)
            if momentum > 0:
                self.t, last = (1.0, 1.0)
            else:
                self.t, last = ((1 + np.sqrt(1 + 4 * self.t**2)) / 2, self.t)
            self.V = Q + ((last - 1) / self.t) * (Q - self.last)
            self.last = Q

    def examine(self, steps: int) -> Iterate[FactorPoint]:
        """Return the current point, with the bound of its gradient."""
        return _iterate(self.problem, Factors(self.F.Phi, self.F.C * self.e), self.B, steps)


def _step(
    problem: Convex,
    gauge: Gauge,
    V: Array,
    e: Array | float,
    B: Array | None,
    curvature: float,
) -> tuple[Factors, Array, Array | None, float]:
    """Take a proximal gradient step, shortened until the quadratic model is an upper bound."""
    value, G, B = problem.evaluate(V * e, B)
    G = G * e
    known = np.isfinite(problem.data.curvature)
    while True:
        F = gauge.prox(V - G / curvature, float(problem.alpha / curvature))
        Q = F.dense()
        move = Q - V
        model = value + np.vdot(G, move) + curvature / 2 * np.vdot(move, move)
        if known or problem.evaluate(Q * e, B)[0] <= model + 1e-12 * abs(model):
            return F, Q, B, curvature
        curvature *= 2


def _first_curvature(problem: Convex, e: Array | float) -> float:
    """Return the bound of the curvature, or where there is none its value at Z = 0."""
    spread = problem.map.norm2 * float(np.square(e).max())
    if np.isfinite(problem.data.curvature):
        return problem.data.curvature * spread
    null = problem.null
    return (
        float(
            problem.data.hessian(problem.predictor(null.factors.dense(), null.coefficients)).max()
        )
        * spread
    )


def _iterate(problem: Convex, F: Factors, B: Array | None, steps: int) -> Iterate[FactorPoint]:
    value, _, B = problem.evaluate(Z := F.dense(), B)
    bound = problem.bound(problem.dual_point(Z, B))
    return Iterate(
        FactorPoint(F, B),
        value + problem.alpha * problem.gauge.cost(F),
        bound.value,
        bound.rigorous,
        steps=steps,
    )
