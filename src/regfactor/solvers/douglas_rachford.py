"""Douglas-Rachford splitting for squared loss under lags.

The quadratic step is exact, because S S* = (q + 1) I.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import GRAM_LIMIT
from regfactor.core.loop import Iterate, relative
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.maps import Identity, Lags
from regfactor.penalties import Gauge, Trace
from regfactor.problems import Convex
from regfactor.solvers.base import Solver

# penalties, free of scale: the first finds W quickly, the later one its proof
FIRST_PENALTY = 0.3
LATER_PENALTY = 0.05
SWITCH_STEP = 20
PLAIN_STEPS = 50  # before extrapolation
MAX_GROWTH = 4.0  # of the squared residual, beyond which an extrapolated point is given up
RIDGE_SHARE = 1e-9  # of the trace, on the diagonal of the extrapolation's normal equations
TIGHTENING = 0.8  # of the tolerance, once the cheap gap was met and the proof was not


@dataclass
class DouglasRachford(Solver):
    """Proximal steps of the gauge and exact steps of min_B |Y - D B - S(W)|^2/2 + ridge.

    Reflected and over-relaxed; after some steps Anderson's extrapolation takes over, with the plain
    step as safeguard.
    """

    tol: float = 1e-4
    relaxation: float = 1.7
    memory: int = 20
    every: int = 10

    solves = Convex
    from_limits = ("tol",)

    def check(self, problem: Convex) -> None:
        if not (problem.data.quadratic and problem.data.complete):
            raise UnsupportedProblem(
                "DouglasRachford needs squared loss on a table without missing entries. Use Fista."
            )
        if problem.design is not None and problem.design.columns is not None:
            raise UnsupportedProblem("DouglasRachford needs a design on all columns. Use Fista.")
        if not isinstance(problem.map, Lags | Identity):
            raise UnsupportedProblem(
                f"DouglasRachford needs a map with S S* = c I, got {problem.map}. Use Fista."
            )
        if not problem.gauge.proximable or np.ndim(problem.gauge.scale):
            raise UnsupportedProblem(
                f"DouglasRachford needs a gauge with a prox, got {problem.gauge}. Use Admm."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with a proof once the gap in closed form is small enough."""
        state = _Reflections(problem, (start or problem.null).factors, self)
        tol = self.tol
        while True:
            state.advance(self.every)
            close = state.relative_gap() <= tol
            yield state.iterate(close)
            if close:
                tol *= TIGHTENING


class _Reflections:
    """X, W = prox(X) and the residual direction r of the exact step from 2 W - X."""

    W: Array

    def __init__(self, problem: Convex, start: Factors, settings: DouglasRachford) -> None:
        self.problem = problem
        self.settings = settings
        self.Y = -problem.data.gradient(np.zeros(problem.data.shape, problem.data.dtype))
        # the ridge regression on D is Q diag(e) Q', by factorizations alone
        self.Q = np.zeros((len(self.Y), 0))
        self.e = np.zeros((0, 1))
        if problem.design is not None:
            self.Q, roots, _ = np.linalg.svd(problem.design.factors[0], full_matrices=False)
            self.e = np.minimum(np.square(roots), 1.0)[:, None]
        self.X = start.dense()
        self.taken = 0
        self.extrapolation: Extrapolation | None = None
        self.plain_step: tuple[Array, float] | None = None
        self.least = np.inf
        self.bound = -np.inf
        self._penalize(FIRST_PENALTY)

    def _penalize(self, rho: float) -> None:
        self.rho = rho
        c = self.problem.map.norm2 / rho
        left = 1 - self.e
        self.outside = 1 / (1 + c)
        self.inside = left / (1 + c * left) - self.outside

    def advance(self, steps: int) -> None:
        """Take some steps; the last leaves W, its image and r of the same point."""
        problem = self.problem
        for _ in range(steps):
            if self.taken:
                self._move()
            self.taken += 1
            if self.taken == SWITCH_STEP:  # the multiplier rho (X - W) survives
                self.X = self.W + (self.X - self.W) * (self.rho / LATER_PENALTY)
                self._penalize(LATER_PENALTY)
            self.shrunk = shrink(problem.gauge, self.X, float(problem.alpha / self.rho))
            self.W = self.shrunk.W
            self.x = self.Y - problem.map(2 * self.W - self.X)
            within = self.Q @ (self.inside * (self.Q.T @ self.x))
            self.r = (self.outside * self.x + within) / self.rho

    def _move(self) -> None:
        residual = self.problem.map.adjoint(self.r)
        residual += self.W
        residual -= self.X
        relaxed = self.X + self.settings.relaxation * residual
        if self.taken < PLAIN_STEPS:
            self.X = relaxed
            return
        size = float(np.vdot(residual, residual))
        if self.plain_step is not None and size > MAX_GROWTH * self.plain_step[1]:
            self.X = self.plain_step[0]
            self.plain_step = None
            self.extrapolation = None
            return
        self.plain_step = relaxed, size
        if self.extrapolation is None:
            self.extrapolation = Extrapolation(self.settings.memory)
        self.X = self.extrapolation(self.X, residual)

    def relative_gap(self) -> float:
        """Return the gap of the best W and the best dual point so far, in closed form."""
        problem = self.problem
        self.R = self.Y - problem.map(self.W)
        left = self.R - self.Q @ (self.e * (self.Q.T @ self.R))
        self.objective = float(np.vdot(self.R, left)) / 2 + problem.alpha * self.shrunk.cost
        self.least = min(self.least, self.objective)
        # the exact step's residual is a better dual point than that of W: rho r is what the
        # regression leaves of x'; its best multiple inside the gauge's dual ball counts
        dual = self.rho * self.r
        quadratic = float(np.vdot(self.x - problem.map.norm2 * self.r, dual))
        linear = float(np.vdot(self.Y, dual))
        norm = problem.gauge.polar(problem.map.adjoint(dual), 0).value
        bound = 0.0
        if norm > 0 and quadratic > 0:
            longest = problem.alpha / norm
            s = float(np.clip(linear / quadratic, -longest, longest))
            bound = s * linear - s * s * quadratic / 2
        if bound >= self.bound:
            self.bound = bound
            self.dual = dual
        return relative(self.least - self.bound, self.least, problem.floor)

    def iterate(self, close: bool) -> Iterate[FactorPoint]:
        """Return the point; close to the optimum, with the problem's own objective and bound."""
        found = self.shrunk
        codes = found.X @ found.kept / found.scale
        F = Factors(codes, np.ascontiguousarray(found.V.T) * found.scale)
        B = None
        if self.problem.design is not None:
            B = self.problem.design.regress(self.R)
        point = FactorPoint(F, B, -self.dual)
        steps = self.settings.every
        if not close:
            return Iterate(point, self.objective, steps=steps)
        objective = self.problem.objective(F, B)
        bound = self.problem.bound(-self.dual)
        return Iterate(point, objective, bound.value, bound.rigorous, steps=steps)


@frozen
class Shrunk:
    """The prox of a gauge: the matrix W, its cost, and its factors X kept / scale and scale V'."""

    W: Array
    cost: float
    X: Array
    kept: Array
    V: Array
    scale: Any = 1.0


def shrink(gauge: Gauge, X: Array, t: float) -> Shrunk:
    """Return the prox of the gauge at X.

    Of the trace norm by one eigendecomposition and one product.
    """
    size = gauge.scale
    if isinstance(gauge, Trace) and X.shape[0] >= X.shape[1]:
        G = X.T @ X
        info = 0
        if G.dtype == np.float64:  # LAPACK's own call costs half of numpy's
            squares, V, info = scipy.linalg.lapack.dsyevd(G, lower=1, overwrite_a=1)
        else:
            squares, V = np.linalg.eigh(G)
        if info:
            raise np.linalg.LinAlgError(
                "The eigenvalues of a Gram matrix did not converge; scale the data."
            )
        cut = t / size
        if cut * cut > GRAM_LIMIT**2 * squares[-1]:  # else the Gram matrix has lost what is cut
            first = int(squares.searchsorted(cut * cut, side="right"))
            s = np.sqrt(squares[first:])
            V = V[:, first:]
            kept = V * (1 - cut / s)
            return Shrunk(
                X @ (kept @ V.T),
                float((s - cut).sum()) / size,
                X,
                kept,
                V,
                size,
            )
    F = gauge.prox(X, t)
    return Shrunk(
        F.dense(),
        gauge.cost(F),
        F.codes,
        np.eye(F.rank, dtype=X.dtype),
        F.C.T,
    )


class Extrapolation:
    """Anderson's combination of recent steps, of least residual if the map were linear."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.held = 0
        self.place = 0
        self.last: tuple[Array, Array] | None = None

    def __call__(self, X: Array, residual: Array) -> Array:
        """Return the next point from X and the residual of its plain step."""
        f = residual.ravel()
        g = (X + residual).ravel()
        if self.last is None:
            # half the traffic; what they change is exact
            self.changes = np.zeros((2, self.memory, f.size), np.float32)
            self.products = np.zeros((self.memory, self.memory))
        else:
            self._remember(f - self.last[0], g - self.last[1])
        self.last = f, g
        if not self.held:
            return X + residual
        k = self.held
        products = self.products[:k, :k]
        firm = products + (RIDGE_SHARE * np.trace(products) + np.finfo(f.dtype).tiny) * np.eye(k)
        weights = np.linalg.solve(firm, self.changes[0, :k] @ f.astype(np.float32)).astype(
            np.float32
        )
        return (g - weights @ self.changes[1, :k]).reshape(X.shape)

    def _remember(self, df: Array, dg: Array) -> None:
        at = self.place
        self.changes[0, at] = df
        self.changes[1, at] = dg
        self.held = min(self.held + 1, self.memory)
        self.place = (at + 1) % self.memory
        row = self.changes[0, : self.held] @ self.changes[0, at]
        self.products[at, : self.held] = self.products[: self.held, at] = row
