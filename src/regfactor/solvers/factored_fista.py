"""Convex problems through factors: proximal steps on low rank + sparse matrices, never formed.

Proximal gradient (FISTA with restarts) in the space of Z, with Z, its momentum and its gradient
held as factors and entries. Each singular value thresholding is one subspace iteration on a block
of directions that is carried from step to step. It begins with alternating ridge regressions, which
come near in few sweeps but grow small atoms only slowly; proximal steps find those, and with them
the exact rank and the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.linalg import GRAM_LIMIT, is_below, orthonormal
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.penalties import Trace
from regfactor.problems import Bound, Convex
from regfactor.problems.convex import LARGE_TABLE
from regfactor.problems.gradient_operator import LARGEST_EIGH, GradientOperator
from regfactor.solvers.admm import spectrum
from regfactor.solvers.base import Solver
from regfactor.solvers.sweeps import first_atoms, sweep

HUGE_TABLE = 10_000_000  # entries from which on no other solver is considered
# alpha over the Euclidean norm of the gradient at zero, below which nearly all ranks are used
WEAK_ALPHA = 1e-3
FEW_MISSING = 0.3  # share of missing entries up to which ADMM may still be faster
MANY_MISSING = 0.2  # share of missing entries from which on only the observed ones are held
# first step in units of 1 / mean curvature: a mask acts on incoherent matrices like its density
FIRST_STEP = 0.6
REPRESENTATIVE_ENTRIES = 100  # entries in a row that represent all of them
CURVATURE_DECAY = 0.95  # of the greatest curvature met, in each step
MAX_SWEEPS = 6  # at the start
SMALLEST_DECREASE = 1e-2  # relative decrease of the objective below which sweeps end
MAX_LIMITED_SWEEPS = 50  # the same where the rank is limited, and they end by the tolerance
# of the decrease of a sweep to that of the one before, from which that of later ones is foreseen
SMALLEST_RATIO = 0.5
LARGEST_RATIO = 0.95
SMALLEST_SINGLE_TOL = 1e-5  # changes below it are lost to rounding in single precision
# dual norm over alpha, from which on a limit of the rank rather than slow sweeps is the reason
BINDING = 1.1
# of the first atoms: losses with an exponential do not allow large predictors
MAX_HALVINGS = 30
SAMPLE_ROWS = 50_000  # rows of a tall table on which the sweeps begin
SPARE_DIRECTIONS = 8  # directions carried in addition to those of the atoms
MARGIN = 0.99  # share of the tolerance that is aimed at; the rest is for rounding
MAX_ROUNDING = 50  # rounding errors that a rise of the objective may be
# relative rise of the objective that in single precision may come from rounding of the step
SMALL_RISE = 1e-3
PATIENCE = 10  # examinations without a decrease of the objective after which it has converged
SINGLE_PATIENCE = 2  # the same in single precision, after which double precision goes on


def _obstacle(problem: Convex) -> str | None:
    """Return what a problem lacks for proximal steps in factors, None if it has all."""
    if not isinstance(problem.gauge, Trace):
        return f"the gauge Trace(), not {problem.gauge}"
    if problem.map.diagonal is None:
        return f"a map that multiplies entries, not {problem.map}"
    if problem.data.rowwise:
        return "elementwise losses, not one that couples whole rows"
    if not problem.data.smooth:
        return (
            "a smooth loss (the absolute and hinge losses have kinks; huber, smoothed_l1, "
            "smoothed_hinge have none)"
        )
    return None


def is_mostly_missing(problem: Convex) -> bool:
    """Return whether a dense table is large, with many missing entries."""
    data = problem.data
    if problem.sparse or len(data.terms) > 1 or np.prod(data.shape) < LARGE_TABLE:
        return False
    return bool(data.observed.mean() <= 1 - MANY_MISSING)


def splits_better(problem: Convex) -> bool:
    """Return whether ADMM is faster even on a large table.

    It is for losses with a prox in closed form and few missing entries, and for a penalty so weak
    that the rank will be full.
    """
    data = problem.data
    residual = all(t.loss.of_residual for t in data.terms)
    closed = residual and data.proximable and not data.quadratic
    if closed and data.observed.mean() > 1 - FEW_MISSING:
        return True
    weak = problem.alpha < WEAK_ALPHA * problem.gradient_operator(problem.null_dual).frobenius
    return weak and bool(np.prod(data.shape) < HUGE_TABLE)


@dataclass
class FactoredFista(Solver):
    """Accelerated proximal gradient in factors for the trace norm, with a proof of gap `tol`."""

    tol: float = 1e-4
    max_rank: int | None = None
    every: int = 3
    random_state: Any = 0
    sparse = True

    solves = Convex
    from_limits = ("tol", "max_rank", "random_state")

    def check(self, problem: Convex) -> None:
        why = _obstacle(problem)
        if why is not None:
            remedy = ""
            if problem.sparse:
                remedy = "; a sparse table has no other solver: give it as a dense one with NaN"
            raise UnsupportedProblem(f"FactoredFista needs {why}{remedy}.")

    def suits(self, problem: Convex) -> bool:
        return self.accepts(problem) and not splits_better(self.prepare(problem))

    def prepare(self, problem: Convex) -> Convex:
        """Return a large problem with many missing entries on its observed entries alone."""
        if is_mostly_missing(problem) and self.accepts(problem):
            return problem.compact
        return problem

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with a bound whenever one can be proven."""
        descent = Descent(problem, start, self)
        if descent.swept and descent.limit_binds():
            yield descent.examine()
        while True:
            for _ in range(self.every):
                descent.step()
            found = descent.examine()
            done = found.settled or descent.exhausted or found.bound > -np.inf
            if descent.single and done and not found.rank_limited:
                descent.refine()
                found = descent.examine()
            yield found


@frozen
class Spot:
    """Z in factors with orthonormal components, map(Z) at the entries, B, loss and objective."""

    F: Factors
    mapped: Array
    B: Array | None
    value: float
    objective: float


@frozen
class Mix:
    """A weighted sum of matrices in factors, multiplied and never formed."""

    parts: tuple[Factors, ...]
    weights: tuple[float, ...]

    def __matmul__(self, B: Array) -> Array:
        return sum(F.Phi @ (w * (F.C @ B)) for F, w in zip(self.parts, self.weights, strict=True))

    def adjoint(self, Y: Array) -> Array:
        """Return the transpose times Y."""
        return sum(
            F.C.T @ (w * (F.Phi.T @ Y)) for F, w in zip(self.parts, self.weights, strict=True)
        )


def inner_product(A: Factors, B: Factors) -> float:
    """Return <A, B> of matrices in factors, without forming them, summed in float64.

    Lengths of moves and the sign of a turn are differences of such products. In single precision
    rounding decides them, and momentum is lost at nearly every step.
    """
    A = A.astype(np.float64)
    B = B.astype(np.float64)
    return float(np.vdot(A.Phi.T @ B.Phi, A.C @ B.C.T))


class Descent:
    """The state: best spot and the one before, block of directions, step and momentum."""

    def __init__(self, problem: Convex, start: FactorPoint | None, solver: FactoredFista) -> None:
        self.problem = problem
        self.solver = solver
        self.dtype = problem.data.dtype
        self.e = problem.gauge.scale
        self.alpha = float(problem.alpha)
        self.random = np.random.default_rng(solver.random_state)
        self.curvature = self._mean_curvature(start or problem.null)
        self.steepest = self.curvature / self._first_step()
        self.tau = 1 / self.steepest
        self.t = 1.0
        self.momentum = 0.0
        self.swept = False
        self.now = self.last = self._begin(start)
        self.known = np.full((2, 2), inner_product(self.now.F, self.now.F))
        self.block = self._topped(self.now.F.C.T, self.now.F.rank)
        self.exhausted = False
        self.examined = 0
        self.stalled = 0
        self.examined_at = self.now.objective

    @property
    def single(self) -> bool:
        """Whether steps are taken in single precision."""
        return bool(self.problem.data.dtype == np.float32)

    @property
    def rounding(self) -> float:
        """Return the relative rise of the objective that may be rounding."""
        return MAX_ROUNDING * float(np.finfo(self.problem.data.dtype).eps)

    @np.errstate(over="ignore", invalid="ignore")  # a step too far is taken back
    def step(self) -> None:
        """Take one proximal gradient step, or shorten it where the objective rises."""
        b = self.momentum
        now = self.now
        last = self.last
        if b:
            ahead = Mix((now.F, last.F), (1 + b, -b))
        else:
            ahead = Mix((now.F,), (1.0,))
        mapped = _beyond(now.mapped, last.mapped, b)
        if now.B is None or last.B is None:
            B = None
        else:
            B = _beyond(now.B, last.B, b)
        value, g = self.problem.data.value_and_gradient(self.problem.predictor_from(mapped, B))
        F, self.block = self._threshold(ahead, self.problem.gradient_operator(g))
        new = self._spot(F, B)
        products = self._products(F)
        move = np.array([1, -(1 + b), b])
        curvature = self._curvature_along(
            new,
            value + self.problem.ridge_cost(B),
            g,
            mapped,
            float(move @ products @ move),
        )
        if not new.objective <= now.objective * (1 + self.rounding):
            self.exhausted = new.objective <= now.objective * (1 + SMALL_RISE)
            self._fall_back(curvature)
            return
        self._lengthen(curvature)
        self._accelerate(turned=float(move @ products @ (1, -1, 0)) < 0)
        self.last = now
        self.now = new
        self.known = products[:2, :2]

    def rescale(self, problem: Convex) -> None:
        """Go on from the current point with the same data under another scale of the gauge."""
        now = self.now
        block = self.block
        curvature = self.curvature
        ratio = np.asarray(self.e / problem.gauge.scale)
        self.problem = problem
        self.e = problem.gauge.scale
        F = self._unit(Factors(now.F.codes, now.F.C * ratio))
        self.block = orthonormal(block * ratio[:, None])
        self.curvature = self._mean_curvature(FactorPoint(Factors(F.Phi, F.C * self.e), now.B))
        self.steepest *= self.curvature / curvature
        self.tau *= curvature / self.curvature
        self._restart(F, now.B)

    def _restart(self, F: Factors, B: Array | None) -> None:
        """Begin at a point without momentum."""
        self.now = self.last = self._spot(F, B)
        self.known = np.full((2, 2), inner_product(F, F))
        self.t = 1.0
        self.momentum = 0.0
        self.stalled = 0
        self.examined_at = self.now.objective

    def refine(self) -> None:
        """Go on in double precision: objectives in single precision are too coarse for a proof."""
        now = self.now
        self.problem = self.problem.astype(np.float64)
        self.block = orthonormal(self.block.astype(np.float64))
        B = None
        if now.B is not None:
            B = now.B.astype(np.float64)
        self._restart(self._unit(now.F.astype(np.float64)), B)

    def examine(self) -> Iterate[FactorPoint]:
        """Return the current point, with a bound if one that meets the tolerance is proven."""
        problem = self.problem
        now = self.now
        Y = problem.feasible(problem.data.gradient(self.problem.predictor_from(now.mapped, now.B)))
        bound = self._bound(Y)
        decrease = self.examined_at - now.objective
        self.examined_at = now.objective
        limited = self.solver.max_rank is not None and now.F.rank >= self.solver.max_rank
        least = 1e-15
        patience = PATIENCE
        if limited:  # no gap closes then
            least = self.solver.tol
            patience = 1
        elif self.single:
            least = float(np.finfo(np.float32).eps)
            patience = SINGLE_PATIENCE
        if decrease <= least * abs(now.objective):
            self.stalled += 1
        else:
            self.stalled = 0
        F = Factors(now.F.Phi, now.F.C * self.e)
        refined = self.problem.data.dtype != self.dtype
        return Iterate(
            FactorPoint(F, now.B, Y).astype(self.dtype),
            now.objective,
            bound.value,
            bound.rigorous,
            self.stalled >= patience,
            limited,
            self.solver.every,
            stage=int(refined),
            info={"rank": F.rank, "step": self.tau * self.curvature},
        )

    def limit_binds(self) -> bool:
        """Whether the rank is at its limit and directions outside are far stronger than alpha."""
        now = self.now
        if self.solver.max_rank is None or now.F.rank < self.solver.max_rank:
            return False
        problem = self.problem
        Y = problem.data.gradient(problem.predictor_from(now.mapped, now.B))
        norm = problem.gradient_operator(problem.feasible(Y)).norm(self.block[:, -1])
        return bool(norm > BINDING * self.alpha)

    def _bound(self, Y: Array) -> Bound:
        """Return the bound that meets the tolerance if its level can be proven, else none.

        A block that is carried on can miss directions along which the dual point is too large. The
        Gram matrix that was formed to test the level has them; where it is small it is looked at
        once before there is hope.
        """
        now = self.now
        G = self.problem.gradient_operator(Y)
        problem = self.problem
        size = problem.gap_scale(now.objective)
        rounding = MAX_ROUNDING * float(np.finfo(self.dtype).eps)
        tol = self.solver.tol
        gap = max(MARGIN * tol - rounding, 0.5 * tol) * size
        level = problem.level(Y, now.objective - gap)
        self.examined += 1
        hopeful = level > 0 and np.linalg.norm(G @ self.block, 2) <= level
        if not hopeful and (self.examined > 1 or min(G.shape) > LARGEST_EIGH):
            return Bound(-np.inf, True)
        if not G.provable:
            return Bound(problem.dual_value(self.alpha / G.norm(self.block[:, 0]), Y), False)
        gram = G.gram
        if hopeful and is_below(gram, level, max(G.shape)):
            return Bound(problem.dual_value(self.alpha / level, Y), True)
        block = G.directions(gram, min(self.block.shape[1], len(gram)), self.random)
        self.block = block.astype(self.block.dtype)
        return Bound(-np.inf, True)

    @np.errstate(over="ignore", invalid="ignore")
    def _begin(self, start: FactorPoint | None) -> Spot:
        """Return the result of alternating sweeps, or the start itself where that is better."""
        if start is None or not start.factors.rank:
            null = self.problem.null
            swept = self._swept(self._atoms_of_gradient(), null.coefficients)
            if np.isfinite(swept.objective):
                return swept
            return self._spot(null.factors, null.coefficients)
        F = Factors(start.factors.codes, start.factors.C / self.e)
        given = self._spot(self._unit(F), start.coefficients)
        swept = self._swept(rebalance(given.F), given.B)
        if swept.objective < given.objective:
            return swept
        return given

    def _atoms_of_gradient(self) -> Factors:
        """Return leading directions of the gradient at zero, short enough to lower the loss."""
        G = self.problem.gradient_operator(self.problem.null_dual.astype(np.float32))
        F = first_atoms(G, self.alpha, self.curvature, self.solver.max_rank, self.random)
        if np.isfinite(self.problem.data.curvature):
            return F
        for _ in range(MAX_HALVINGS):
            if self._spot(F, self.problem.null.coefficients).value <= self.problem.null_objective():
                break
            F = 0.5 * F
        return F

    def _swept(self, F: Factors, B: Array | None) -> Spot:
        """Return the spot to which sweeps lead, in single precision: it is only a start."""
        problem = self.problem.astype(np.float32)
        point = FactorPoint(F, B).astype(np.float32)
        n = problem.data.shape[0]
        most = MAX_SWEEPS
        # components of a tall table are those of a part of it
        if problem.data.layout.sparse and n > 4 * SAMPLE_ROWS:
            rows = np.sort(self.random.choice(n, SAMPLE_ROWS, replace=False))
            F = Factors(point.factors.codes[rows], point.factors.C)
            part = FactorPoint(F, point.coefficients)
            part = self._sweeps(problem.of_rows(rows), part, MAX_SWEEPS)
            most = 1
            F = Factors(np.zeros((n, part.factors.rank), np.float32), part.factors.C)
            point = FactorPoint(F, part.coefficients)
        point = self._sweeps(problem, point, most).astype(self.problem.data.dtype)
        return self._spot(self._unit(point.factors), point.coefficients)

    def _sweeps(self, problem: Convex, point: FactorPoint, most: int) -> FactorPoint:
        self.swept = False
        before = np.inf
        last = np.inf
        enough = SMALLEST_DECREASE
        # sweeps are all that is needed where no atoms have to be found
        limited = self.solver.max_rank is not None
        if limited:
            most = MAX_LIMITED_SWEEPS
            enough = min(SMALLEST_DECREASE, self.solver.tol)
        for _ in range(most):
            F, B = sweep(problem, point.factors, point.coefficients, self.e, problem.alpha)
            point = FactorPoint(F, B)
            after = problem.objective(Factors(F.Phi, F.C * self.e), B)
            if not after < np.inf:
                break
            decrease = before - after
            left = decrease
            if limited and np.isfinite(last):
                left = remaining_decrease(decrease, last)
            if np.isfinite(before) and not left > enough * before:
                self.swept = limited and enough >= SMALLEST_SINGLE_TOL
                break
            last = decrease
            before = after
        return point

    def _unit(self, F: Factors) -> Factors:
        """Return the factors U S and V' of Z = U S V', as many as are allowed."""
        P, S = np.linalg.qr(F.C.T)
        Q, R = np.linalg.qr(F.codes)
        U, s, Vt = np.linalg.svd(R @ S.T)
        k = self.solver.max_rank
        return Factors((Q @ U[:, :k]) * s[:k], np.ascontiguousarray(Vt[:k] @ P.T))

    def _products(self, F: Factors) -> Array:
        """Return the inner products of a new, the current and the last Z."""
        now = self.now.F
        last = self.last.F
        products = np.empty((3, 3))
        products[0] = inner_product(F, F)
        products[0, 1:] = inner_product(F, now)
        products[1:, 1:] = self.known[0, 0]
        if last is not now:
            products[0, 2] = inner_product(F, last)
            products[1:, 1:] = self.known
        products[1:, 0] = products[0, 1:]
        return products

    def _threshold(self, V: Mix, G: GradientOperator) -> tuple[Factors, Array]:
        """Return the prox of the trace norm at V - tau G in the block, and the next block."""
        tau = self.tau
        block = self.block
        left = V @ block
        left -= tau * (G @ block)
        if block.shape[1] == len(block) and self.solver.max_rank is None:
            found = self._threshold_all(left)
            if found is not None:
                return found
        left = orthonormal(left, overwrite=True)
        right = V.adjoint(left) - tau * G.adjoint(left)
        Q, R = np.linalg.qr(right)
        U, s, Vt = np.linalg.svd(R.T)
        k = int((s > tau * self.alpha).sum())
        if self.solver.max_rank is not None:
            k = min(k, self.solver.max_rank)
        basis = Q @ Vt.T
        codes = (left @ U[:, :k]) * (s[:k] - tau * self.alpha)
        return Factors(codes, np.ascontiguousarray(basis[:, :k].T)), self._topped(basis, k)

    def _threshold_all(self, W: Array) -> tuple[Factors, Array] | None:
        """Return the prox of W in all directions by its Gram matrix, None if that is inexact."""
        t = self.tau * self.alpha
        if W.dtype != np.float64 or not t > GRAM_LIMIT * np.linalg.norm(W):
            return None
        values, T = spectrum(W)
        k = int((values > t).sum())
        basis = orthonormal(self.block @ T)
        F = Factors(W @ (T[:, :k] * (1 - t / values[:k])), np.ascontiguousarray(basis[:, :k].T))
        return F, self._topped(basis, k)

    def _topped(self, basis: Array, atoms: int) -> Array:
        """Return a basis with more directions than atoms, random ones where there are too few."""
        width = min(atoms + SPARE_DIRECTIONS + atoms // 4, *self.problem.shape)
        if basis.shape[1] >= width:
            return np.ascontiguousarray(basis[:, :width])
        more = self.random.normal(size=(len(basis), width - basis.shape[1])).astype(basis.dtype)
        return orthonormal(np.hstack([basis, more]))

    def _spot(self, F: Factors, B: Array | None) -> Spot:
        mapped = self._mapped(F)
        B = self.problem.coefficients_step(mapped, B)
        value = self.problem.data.value(
            self.problem.predictor_from(mapped, B)
        ) + self.problem.ridge_cost(B)
        size = float(np.linalg.norm(F.codes, axis=0).sum(dtype=np.float64))
        return Spot(F, mapped, B, value, value + self.alpha * size)

    def _curvature_along(
        self,
        new: Spot,
        value: float,
        g: Array,
        mapped: Array,
        length: float,
    ) -> float:
        """Return the curvature of the loss along the move just made, of a given squared length."""
        excess = new.value - value - float(np.vdot(g, new.mapped - mapped))
        if not np.isfinite(excess):
            return 4 * self.steepest
        smallest = max(1e-12, self.rounding) * abs(value)
        if length > self.rounding * self.known[0, 0] and excess > smallest:
            return 2 * excess / length
        # Both are differences lost to cancellation. In single precision that begins long before the
        # end, and steps would be too long or too short from there on.
        self.exhausted = True
        return self.steepest if self.single else 0.0

    def _lengthen(self, curvature: float) -> None:
        """Set the step by the greatest curvature met, which decays slowly."""
        self.steepest = max(curvature, CURVATURE_DECAY * self.steepest)
        self.tau = min(0.95 / self.steepest, 1.2 * self.tau)

    def _fall_back(self, curvature: float) -> None:
        """Restart from the best spot; if there was no momentum, with a shorter step."""
        if not self.momentum:
            self.steepest *= 2
        self.steepest = max(curvature, self.steepest)
        self.tau = min(0.9 / self.steepest, self.tau)
        self.t = 1.0
        self.momentum = 0.0
        self.last = self.now

    def _accelerate(self, turned: bool) -> None:
        """Set the momentum of the next step; none after a turn (O'Donoghue & Candes 2015)."""
        t = 1.0 if turned else self.t
        self.t = float(1 + np.sqrt(1 + 4 * t * t)) / 2
        self.momentum = (t - 1) / self.t

    def _first_step(self) -> float:
        """Return a step in units of 1 / mean curvature, shorter for few entries in a row."""
        data = self.problem.data
        seen = sum(t.x.size if t.w is None else np.count_nonzero(t.w) for t in data.terms)
        return float(min(FIRST_STEP, seen / max(data.shape) / REPRESENTATIVE_ENTRIES))

    def _mean_curvature(self, point: FactorPoint) -> float:
        """Return the mean curvature of the loss over all entries, at least a tenth of its bound."""
        data = self.problem.data
        F = Factors(point.factors.codes, point.factors.C / self.e)
        h = data.hessian(self.problem.predictor_from(self._mapped(F), point.coefficients))
        total = float(h.sum(dtype=np.float64))
        most = float(data.majorant().sum(dtype=np.float64))
        scale = float(np.mean(np.square(self.e)) * np.mean(np.square(self.problem.map.diagonal)))
        cells = float(np.prod(self.problem.shape))
        if np.isfinite(most):
            total = max(total, most / 10)
        return max(total, 0.0) / cells * scale

    def _mapped(self, F: Factors) -> Array:
        return self.problem.mapped(Factors(F.Phi, F.C * self.e))


def remaining_decrease(decrease: float, last: float) -> float:
    """Return what later sweeps will gain if each gains the same share of what the last gained."""
    ratio = min(max(decrease / last, SMALLEST_RATIO), LARGEST_RATIO)
    return decrease * ratio / (1 - ratio)


def _beyond(now: Array, last: Array, share: float) -> Array:
    """Return now + share (now - last), with a single new array."""
    if share == 0:
        return now
    out = now - last
    out *= share
    out += now
    return out
