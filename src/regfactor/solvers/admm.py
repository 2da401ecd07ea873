"""ADMM (Boyd et al. 2011): the prox of the loss in one half step, of the gauge in the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import GRAM_LIMIT
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties import Trace, TraceModulo
from regfactor.problems import Bound, Convex
from regfactor.solvers.base import Solver

MAX_RESIDUAL_RATIO = 3.0  # residuals further apart than this make the penalty change
MAX_PENALTY_CHANGES = 60
SPARE_COLUMNS = 5  # columns of the block beyond the rank, in which new directions grow
# steps after which the block is made exact again: what it misses is missed by the dual point too
BLOCK_LIFETIME = 40
# a block is faster than the whole matrix from so many columns on, and so many times its own
MIN_COLUMNS = 64
MIN_COLUMN_RATIO = 3
# of so many examinations, one compares the two kinds of dual point, and one looks at the loss step
EXAMINATION_PERIOD = 4
# share of the gap that the point of the loss step may leave, to be taken for the current point
MAX_GAP_LEFT = 0.25
MAX_RANK_LOSS = 0.1  # share of that gap by which the point may become worse for a lower rank


@dataclass
class Admm(Solver):
    """Over-relaxed alternating direction method of multipliers, with fading residual balancing."""

    relaxation: float = 1.6
    every: int = 5

    solves = Convex

    def check(self, problem: Convex) -> None:
        if problem.map.diagonal is None:
            raise UnsupportedProblem(
                f"Admm needs a map that multiplies entries, got {problem.map}. Use Fista."
            )
        for t in problem.data.terms:
            if not t.loss.proximable:
                raise UnsupportedProblem(
                    f"Admm needs an elementwise prox, which {t.loss} has not. Use Fista."
                )
        if not problem.gauge.proximable:
            raise UnsupportedProblem(
                f"Admm needs a gauge with a prox, which {problem.gauge} has not. Use EtaSearch."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps."""
        split = Splitting(problem, start or problem.null, self.relaxation)
        while True:
            split.advance(self.every)
            F, B, objective, bound = split.examine()
            yield Iterate(
                FactorPoint(F, B, split.dual),
                objective,
                bound.value,
                bound.rigorous,
                steps=self.every,
            )


class Splitting:
    """The state of ADMM on min L(P) + alpha gauge(Q) with Z = Q e and predictors P = map(Z) = Q s.

    Z and the dual point survive a change of scale.
    """

    def __init__(self, problem: Convex, start: FactorPoint, relaxation: float) -> None:
        self.problem = problem
        self.relaxation = relaxation
        self.gauge, self.e = problem.gauge.without_column_scale()
        self.s = self.e * problem.map.diagonal
        self.F = Factors(start.factors.Phi, start.factors.C / self.e)
        self.Q = self.F.dense()
        self.B = start.coefficients
        self.W = self.Q
        # rho by the size of a Newton step from zero
        null = problem.predictor(problem.null.factors, problem.null.coefficients)
        step = problem.data.newton_displacement(null) / self.s
        size = self.gauge.polar(step, 0).value
        if size > 0:
            self.rho = float(30 * problem.alpha / size)
        else:
            self.rho = 1.0
        self.least = 0.1 * float(np.linalg.norm(step))
        self.changes = 0
        self.examined = 0
        self.use_gradient = False
        self.use_loss_step = False
        self.svt = Thresholding()
        dual = start.dual
        if dual is None:
            dual = problem.dual_point(self.Z, self.B)
        self.U = -dual * self.s / self.rho

    @property
    def Z(self) -> Array:
        """Return the current matrix, low in rank."""
        return self.Q * self.e

    @property
    def dual(self) -> Array:
        """Return the multiplier as a dual point.

        Its dual norm is at most alpha by construction of the prox.
        """
        return -self.rho * self.U / self.s

    def rescale(self, problem: Convex) -> None:
        """Go on with the same data under another scale."""
        Z = self.Z
        dual = self.dual
        self.problem = problem
        self.gauge, self.e = problem.gauge.without_column_scale()
        self.s = self.e * problem.map.diagonal
        self.Q = Z / self.e
        C, *_ = np.linalg.lstsq(self.F.Phi, self.Q, rcond=None)
        self.F = Factors(self.F.Phi, C)
        self.U = -dual * self.s / self.rho
        self.svt = Thresholding()

    def advance(self, steps: int) -> None:
        """Take some steps, then balance the residuals."""
        for _ in range(steps):
            last = self.Q
            A = self.Q - self.U
            A *= self.s
            P, self.B = self.problem.prox(A, self.rho / np.square(self.s), self.B)
            self.W = P / self.s
            relaxed = self.relaxation * self.W
            relaxed += (1 - self.relaxation) * last
            relaxed += self.U
            self.F = self._gauge_step(relaxed)
            self.Q = self.F.dense()
            self.U = relaxed - self.Q
        self._balance(self.W, last)

    def examine(self) -> tuple[Factors, Array | None, float, Bound]:
        """Return factors, free coefficients, objective and a bound at the current point."""
        F = Factors(self.F.Phi, self.F.C * self.e)
        B = self.B
        Z = F.dense()
        problem = self.problem
        smooth = problem.data.smooth
        if smooth:
            B = self.B = problem.best_coefficients(Z, B)
        objective = problem.objective(F, B)
        self.examined += 1
        both = smooth and self.examined % EXAMINATION_PERIOD == 1
        # the dual point is the multiplier or the gradient: which was better when both were tried
        if both or not self.use_gradient:
            bound = problem.bound(self.dual)
        if both or self.use_gradient:
            of_gradient = problem.bound(problem.dual_point(Z, B))
            if both:
                self.use_gradient = of_gradient.value > bound.value
            if self.use_gradient:
                bound = of_gradient
        return F, B, objective, bound

    def examine_both(self) -> tuple[Factors, Array | None, float, Bound]:
        """Return the same of the loss step where that is far nearer to the bound.

        The gauge is a trace norm.

        Under a scale of the columns far from one, what a view adds to Q lies below the threshold
        and grows there only slowly, while the loss step has it at once. In single precision that is
        lost in rounding.
        """
        F, B, objective, bound = self.examine()
        look = self.use_loss_step or self.examined % EXAMINATION_PERIOD == 2
        if self.problem.data.dtype != np.float64 or not look:
            return F, B, objective, bound
        cost = self.problem.alpha * self.problem.gauge.cost(F)
        found = self._of_loss_step(cost, B, objective, bound.value)
        self.use_loss_step = found is not None
        if found is None:
            return F, B, objective, bound
        return *found, bound

    def _of_loss_step(
        self,
        cost: float,
        B: Array | None,
        objective: float,
        bound: float,
    ) -> tuple[Factors, Array | None, float] | None:
        """Return factors, B and objective of the loss step, if it closes most of the gap.

        What it gains over Q, whose gauge costs `cost`, is at most what its loss is lower: that is
        looked at first.
        """
        problem = self.problem
        enough = bound + MAX_GAP_LEFT * (objective - bound)
        Z = self.W * self.e
        if problem.data.smooth:
            B = problem.best_coefficients(Z, B)
        loss = problem.data.value(problem.predictor(Z, B)) + problem.ridge_cost(B)
        if loss + cost > enough:
            return None
        U, s, Vt = np.linalg.svd(self.W, full_matrices=False)
        here = loss + problem.alpha * float(s.sum())
        if here > enough:
            return None
        low = 0
        high = len(s)
        most = here + MAX_RANK_LOSS * (here - bound)
        F = Factors(U * s, Vt * self.e)
        value = here
        while high - low > 1:  # fewer leading directions, as long as they are as good
            k = (low + high) // 2
            shorter = Factors(U[:, :k] * s[:k], Vt[:k] * self.e)
            at = problem.objective(shorter, B)
            if at <= most:
                high = k
                F = shorter
                value = at
            else:
                low = k
        return F, B, value

    def _gauge_step(self, W: Array) -> Factors:
        """Return the prox of the gauge; of the trace norm in the block of the last step."""
        t = float(self.problem.alpha / self.rho)
        if (
            not isinstance(self.gauge, Trace | TraceModulo)
            or W.dtype != np.float64
            or t <= GRAM_LIMIT * np.linalg.norm(W)
        ):
            return self.gauge.prox(W, t)
        if isinstance(self.gauge, TraceModulo):
            return self._step_beyond_offsets(self.gauge, W, t)
        scale = float(self.gauge.scale)
        if W.shape[0] < W.shape[1]:
            right, sizes, left = self.svt(np.ascontiguousarray(W.T), t / scale)
        else:
            left, sizes, right = self.svt(W, t / scale)
        return Factors(left * (sizes / scale), np.ascontiguousarray(right.T) * scale)

    def _step_beyond_offsets(self, gauge: TraceModulo, W: Array, t: float) -> Factors:
        V = gauge.beyond(W)
        if V.shape[0] < V.shape[1]:
            right, sizes, left = self.svt(np.ascontiguousarray(V.T), t)
        else:
            left, sizes, right = self.svt(V, t)
        return gauge.with_offsets(W, Factors(left * sizes, np.ascontiguousarray(right.T)))

    def _balance(self, W: Array, last: Array) -> None:
        if self.changes >= MAX_PENALTY_CHANGES:
            return
        # relative to the data where Q itself is nearly zero, or rho would grow without bound
        size = max(float(np.linalg.norm(W)), float(np.linalg.norm(self.Q)), self.least, 1e-300)
        primal = float(np.linalg.norm(W - self.Q)) / size
        scaled = max(float(np.linalg.norm(self.U)), 1e-300)
        dual = float(np.linalg.norm(self.Q - last)) / scaled
        if not (primal > MAX_RESIDUAL_RATIO * dual or dual > MAX_RESIDUAL_RATIO * primal):
            return
        factor = 1 + 3 / (1 + 0.4 * self.changes)
        if primal <= dual:
            factor = 1 / factor
        self.changes += 1
        self.rho = self.rho * factor
        self.U = self.U / factor


@dataclass
class Thresholding:
    """Singular value thresholding in a block of right singular vectors kept between steps.

    W has at least as many rows as columns, and t is at least a millionth of its norm: a Gram
    matrix loses singular values that are much smaller.
    """

    age: int = BLOCK_LIFETIME
    block: Any = None
    norm: float = 0.0

    @staticmethod
    def of(X: Array) -> Thresholding:
        """Return the thresholding whose first matrices are multiples of X."""
        values, V = spectrum(X)
        norm = float(values[0])
        k = int((values > norm / 3).sum())
        return Thresholding(0, V[:, : k + SPARE_COLUMNS], norm)

    def __call__(self, W: Array, t: float) -> tuple[Array, Array, Array]:
        """Return left vectors, values - t and right vectors of the singular values of W above t."""
        self.age += 1
        exact = True
        fresh = self.age < BLOCK_LIFETIME
        if fresh and W.shape[1] >= max(MIN_COLUMNS, MIN_COLUMN_RATIO * self.block.shape[1]):
            Q, _ = np.linalg.qr(W.T @ (W @ self.block))
            values, T = spectrum(W @ Q)
            V = Q @ T
            # else the block may be too narrow for all that is above t
            exact = not values[-2] <= t
        if exact:
            self.age = 0
            values, V = spectrum(W)
        k = int((values > t).sum())
        self.block = V[:, : k + SPARE_COLUMNS]
        values = values[:k]
        V = V[:, :k]
        return W @ (V / values), values - t, V


def spectrum(W: Array) -> tuple[Array, Array]:
    """Return the singular values of a W with no more columns than rows, and its right vectors."""
    squares, V = np.linalg.eigh(W.T @ W)
    values = np.sqrt(np.maximum(squares[::-1], 0))
    return values, np.ascontiguousarray(V[:, ::-1])
