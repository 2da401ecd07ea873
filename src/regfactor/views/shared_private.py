"""Shared and private parts of several views: the norm, and proximal steps in all parts at once.

    |||T||| = min |Z|_tr + sum_v w_v |P_v|_tr    over    T = Z + [P_1, ..., P_V]

Atoms phi c' of this norm have a component c that either runs over all views, or is zero in all
views but one. It is a norm on T, so that the problem is convex and has a certificate: a dual point
Y is feasible where |Y| <= alpha and |Y_v| <= alpha w_v in spectral norm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import spectral_norm, svd_above, thin_svd
from regfactor.core.line_search import backtrack
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties import Gauge
from regfactor.penalties.gauges import Polar
from regfactor.problems import Convex
from regfactor.solvers.base import Solver

ROUNDING = 1e-12  # relative, of the quadratic model that bounds the loss
MAX_DOUBLINGS = 200  # of a curvature that has no upper bound
N_BLOCKS = 2  # parts that every entry is a sum of


def view_slices(sizes: tuple[int, ...]) -> list[slice]:
    """Return the columns of each view, in tables with views side by side."""
    starts = np.cumsum((0, *sizes)).tolist()
    return [slice(start, end) for start, end in itertools.pairwise(starts)]


@dataclass
class SharedPrivate(Gauge):
    """min |Z|_tr + sum_v weights_v |P_v|_tr over T = Z + [P_1, ..., P_V]."""

    sizes: tuple[int, ...] = (1, 1)
    weights: tuple[float, ...] = (0.8, 0.8)
    proximable = False
    solver = "regfactor.views.shared_private:PartwiseFista"

    def __post_init__(self) -> None:
        positive = min(self.sizes) >= 1 and min(self.weights) > 0
        if len(self.sizes) != len(self.weights) or not positive:
            raise ValueError(
                f"SharedPrivate needs a positive size and weight for each view, got {self}."
            )

    def check(self, d: int) -> None:
        if sum(self.sizes) != d:
            raise ValueError(f"Views of {self.sizes} columns do not fit a table of {d} columns.")

    @property
    def slices(self) -> list[slice]:
        """The columns of each view."""
        return view_slices(self.sizes)

    def component_costs(self, C: Array) -> Array:
        """Return what components cost: whole, or as one private component for each view."""
        parts = np.zeros(len(C))
        for columns, weight in zip(self.slices, self.weights, strict=True):
            parts += weight * np.linalg.norm(C[:, columns], axis=1)
        return np.minimum(np.linalg.norm(C, axis=1), parts)

    def cost(self, F: Factors) -> float:
        return float(np.linalg.norm(F.codes, axis=0) @ self.component_costs(F.C))

    def polar(self, G: Array, k: int = 1) -> Polar:
        """Return the largest of the spectral norms of G and of G_v / weights_v."""
        values = [spectral_norm(G)]
        for columns, weight in zip(self.slices, self.weights, strict=True):
            values.append(spectral_norm(G[:, columns]) / weight)
        best = int(np.argmax(values))
        if k == 0:
            return Polar(values[best], Factors.zeros(*G.shape))
        if best == 0:
            U, _, Vt = thin_svd(G)
            return Polar(values[0], Factors(U[:, :k], Vt[:k]))
        columns = self.slices[best - 1]
        U, _, Vt = thin_svd(G[:, columns])
        C = np.zeros((min(k, len(Vt)), G.shape[1]), G.dtype)
        C[:, columns] = Vt[:k] / self.weights[best - 1]
        return Polar(values[best], Factors(U[:, :k], C))

    def shared(self, Z: Array, t: float) -> Factors:
        """Return the shared part after a proximal step: singular values less t."""
        U, s, Vt = svd_above(Z, t)
        return Factors(U * (s - t), Vt)

    def private(self, P: Array, t: float) -> Factors:
        """Return the private parts after a proximal step, with components of cost one."""
        codes = []
        components = []
        for columns, weight in zip(self.slices, self.weights, strict=True):
            U, s, Vt = svd_above(P[:, columns], t * weight)
            C = np.zeros((len(s), P.shape[1]), P.dtype)
            C[:, columns] = Vt / weight
            codes.append(U * ((s - t * weight) * weight))
            components.append(C)
        return Factors(np.hstack(codes), np.vstack(components))

    def view_of(self, C: Array) -> Array:
        """Return for each component the view that it is private to, -1 where it is shared."""
        found = np.full(len(C), -1)
        for v, columns in enumerate(self.slices):
            outside = np.ones(C.shape[1], bool)
            outside[columns] = False
            found[~C[:, outside].any(axis=1)] = v
        return found

    def value(self, Z: Array | Factors) -> NoReturn:
        raise UnsupportedProblem(
            "SharedPrivate is the minimum over all sums of parts, which no closed form gives; "
            "cost(F) bounds it from above."
        )

    def recover(self, Z: Array) -> NoReturn:
        raise UnsupportedProblem("SharedPrivate has no closed form of the parts of a sum.")

    def prox(self, W: Array, t: float | Array) -> NoReturn:
        raise UnsupportedProblem("SharedPrivate has no closed prox; use PartwiseFista.")

    def factored(self) -> NoReturn:
        raise UnsupportedProblem("No two penalties on the factors alone induce SharedPrivate.")


@dataclass
class PartwiseFista(Solver):
    """Accelerated proximal gradient steps in the shared part and all private parts at once.

    Beck & Teboulle 2009 with the gradient restart of O'Donoghue & Candes 2015. All parts have the
    same gradient, so that steps are half as long as in one part.
    """

    every: int = 5

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, SharedPrivate):
            raise UnsupportedProblem(
                f"PartwiseFista is for the gauge SharedPrivate, got {problem.gauge}."
            )
        if not problem.data.smooth:
            raise UnsupportedProblem(
                "Shared and private parts need smooth losses (the absolute and hinge losses have "
                "kinks): use 'huber' or 'smoothed_l1'."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with the dual point of the gradient."""
        state = _SharedPrivate(problem, start or problem.null)
        while True:
            for _ in range(self.every):
                state.advance()
            yield state.examine(self.every)


class _SharedPrivate:
    """The shared part Z and the private parts P of an iteration, side by side in P."""

    def __init__(self, problem: Convex, start: FactorPoint) -> None:
        gauge = problem.gauge
        assert isinstance(gauge, SharedPrivate)
        self.problem = problem
        self.gauge = gauge
        self.B = start.coefficients
        private = gauge.view_of(start.factors.C) >= 0
        codes = start.factors.codes
        self.shared = Factors(codes[:, ~private], start.factors.C[~private])
        self.private = Factors(codes[:, private], start.factors.C[private])
        self.Z = self.shared.dense()
        self.P = self.private.dense()
        self.V = self.Z  # where the next step begins
        self.W = self.P
        self.t = 1.0
        self.curvature = _first_curvature(problem)

    def advance(self) -> None:
        """Take a step with momentum; without it where it points uphill."""
        last_Z = self.Z
        last_P = self.P
        self._take_step()
        move_Z = self.Z - last_Z
        move_P = self.P - last_P
        t = self.t
        if np.vdot(self.V - self.Z, move_Z) + np.vdot(self.W - self.P, move_P) > 0:
            t = 1.0
            self.t = 1.0
        else:
            self.t = float(1 + np.sqrt(1 + 4 * t * t)) / 2
        momentum = (t - 1) / self.t
        self.V = self.Z + momentum * move_Z
        self.W = self.P + momentum * move_P

    def _take_step(self) -> None:
        problem = self.problem
        total = self.V + self.W
        value, G, self.B = problem.evaluate(total, self.B)

        def step(curvature: float) -> float | None:
            length = 1 / (N_BLOCKS * curvature)
            t = float(problem.alpha * length)
            self.shared = self.gauge.shared(self.V - length * G, t)
            self.private = self.gauge.private(self.W - length * G, t)
            self.Z = self.shared.dense()
            self.P = self.private.dense()
            self.curvature = curvature
            if np.isfinite(problem.data.curvature):
                return curvature
            move = self.Z + self.P - total
            model = value + np.vdot(G, move) + curvature / 2 * np.vdot(move, move)
            reached = problem.evaluate(self.Z + self.P, self.B)[0]
            if reached <= model + ROUNDING * abs(model):
                return curvature
            return None

        backtrack(step, self.curvature, factor=2.0, max_attempts=MAX_DOUBLINGS)

    def examine(self, steps: int) -> Iterate[FactorPoint]:
        """Return the current point, with the bound of its gradient."""
        problem = self.problem
        F = self.shared + self.private
        value, _, B = problem.evaluate(self.Z + self.P, self.B)
        dual = problem.dual_point(self.Z + self.P, B)
        bound = problem.bound(dual)
        objective = value + problem.alpha * problem.gauge.cost(F)
        return Iterate(
            FactorPoint(F, B, dual),
            objective,
            bound.value,
            bound.rigorous,
            steps=steps,
        )


def _first_curvature(problem: Convex) -> float:
    """Return the bound of the curvature, or where there is none its value at zero.

    It is taken entry by entry: the weight of a row and the scale of its codes cancel.
    """
    if np.isfinite(problem.data.curvature):
        bounds = problem.data.majorant()
    else:
        null = problem.null
        bounds = problem.data.hessian(problem.predictor(null.factors.dense(), null.coefficients))
    diagonal = problem.map.diagonal
    if diagonal is None:
        return float(bounds.max() * problem.map.norm2)
    return float((bounds * np.square(diagonal)).max())
