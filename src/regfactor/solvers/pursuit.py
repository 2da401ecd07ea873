"""Principal component pursuit, min w |X - Z|_1 + alpha |Z|_tr, by augmented Lagrangians."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import gram, is_below
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses import Absolute
from regfactor.maps import Identity
from regfactor.penalties import Trace
from regfactor.problems import Convex
from regfactor.solvers.admm import BLOCK_LIFETIME, Thresholding, spectrum
from regfactor.solvers.base import Solver

# mu in units of alpha / |X|: its start, its growth in a step, its end
FIRST_PENALTY = 1.25
PENALTY_GROWTH = 1.5
LAST_PENALTY = 100.0
GROWING_STEPS = 12  # steps from the start to the end, in which there is nothing to prove yet
RELAXATION = 1.4
# mu is changed when the primal residual, as a multiple of the dual one, leaves these ends
MIN_RESIDUAL_RATIO = 0.5
MAX_RESIDUAL_RATIO = 5.0
# examinations of the residuals before the first change of mu; later ones take more
FIRST_PERIOD = 2
# after which eigenvalues are computed, so that a run that is cut short knows its gap
MAX_FAILED_PROOFS = 20
AIMED_SHARE = 0.99  # share of the tolerance that is aimed at; the rest is for rounding


@dataclass
class Pursuit(Solver):
    """Candes, Li, Ma & Wright 2011 by the method of Lin, Chen & Ma 2010, with a capped penalty.

    Unbounded growth freezes where recovery is hard. `tol` is the relative gap to be proven: one
    Cholesky factorization at the level that it needs takes the place of a singular value; once
    proven, a tenth of it is next.
    """

    tol: float = 1e-4
    every: int = 3

    solves = Convex
    from_limits = ("tol",)

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, Trace) or np.any(problem.gauge.scale != 1):
            raise UnsupportedProblem(
                f"Pursuit needs the gauge Trace(), got {problem.gauge}. Use Admm."
            )
        if not isinstance(problem.map, Identity) or problem.design is not None:
            raise UnsupportedProblem(
                "Pursuit takes neither a map (weights of rows) nor a design. Use Admm."
            )
        if len(problem.data.terms) > 1 or not isinstance(problem.data.terms[0].loss, Absolute):
            losses = ", ".join(str(t.loss) for t in problem.data.terms)
            raise UnsupportedProblem(
                f"Pursuit needs the loss Absolute() on all columns, got {losses}. Use Admm."
            )
        if problem.data.layout.sparse:
            raise UnsupportedProblem(
                "Pursuit needs a dense table; mark what is not observed by NaN."
            )
        w = problem.data.terms[0].w
        if w is not None and np.any((w > 0) & (w < w.max())):
            raise UnsupportedProblem(
                "Pursuit needs one weight for all entries, or zero where it is missing. Use Admm."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few steps, with the best bound that is proven so far."""
        dtype = problem.data.dtype
        if dtype == np.float64:
            exact = problem
        else:
            exact = problem.astype(np.float64)
        split = PursuitState(exact, start)
        proof = Proof(exact, self.tol)
        while True:
            steps = GROWING_STEPS if split.growing else self.every
            split.advance(steps)
            point = FactorPoint(split.factors, None, split.dual).astype(dtype)
            objective = exact.objective(point.factors.astype(np.float64))
            yield Iterate(point, objective, proof.bound_at(split, objective), steps=steps)
            split.balance(may_grow=not proof.primal_is_good)


class PursuitState:
    """X = Z + S by augmented Lagrangians of |S|_1 + a |Z|_tr, with the multiplier Y = mu U.

    |Y| <= 1 holds exactly. The loss is divided by its weight, and a table with more columns than
    rows is transposed. At missing entries Y is zero, and S costs nothing.
    """

    def __init__(self, problem: Convex, start: FactorPoint | None) -> None:
        term = problem.data.terms[0]
        observed = term.weights > 0
        self.weight = float(term.weights.max()) or 1.0
        self.transposed = term.x.shape[0] < term.x.shape[1]
        self.X = self._tall(np.where(observed, term.target, 0))
        self.most: float | Array = 1.0
        if not observed.all():
            self.most = self._tall(observed).astype(np.float64)
        self.a = float(problem.alpha) / self.weight
        self.svt = Thresholding.of(self.X)
        unit = self.a / (self.svt.norm or 1.0)
        self.cap = LAST_PENALTY * unit
        self.growing = start is None
        self.changes = 0
        self.mu = FIRST_PENALTY * unit if start is None else self.cap
        self.ratios: list[float] = []
        if start is None or start.dual is None:
            Y = self.X / max(1 / unit, float(np.abs(self.X).max()), 1e-300)
        else:
            Y = np.clip(self._tall(-start.dual / self.weight), -self.most, self.most)
        self.U = Y / self.mu
        if start is None:
            self.S = np.zeros_like(self.X)
        else:
            self.S = self.X - self._tall(start.factors.dense())
        self.triplets = self.X[:, :0], np.zeros(0), self.X.T[:, :0]
        # written over in every step
        self.W, self.R, self.last = (np.empty_like(self.X) for _ in range(3))

    def _tall(self, A: Array) -> Array:
        return np.ascontiguousarray(A.T if self.transposed else A)

    @property
    def factors(self) -> Factors:
        """Z in components of length one."""
        left, sizes, right = self.triplets
        if self.transposed:
            return Factors(right * sizes, np.ascontiguousarray(left.T))
        return Factors(left * sizes, np.ascontiguousarray(right.T))

    @property
    def multiplier(self) -> Array:
        """Y, clipped again so that rounding leaves it in its box."""
        return np.clip(self.mu * self.U, -self.most, self.most)

    @property
    def dual(self) -> Array:
        """Return -Y in the units and the shape of the problem."""
        return self._tall(-self.weight * self.multiplier)

    def advance(self, steps: int) -> None:
        """Take some steps, and note how the residuals of the last compare."""
        for _ in range(steps):
            W = np.subtract(self.X, self.S, out=self.W)
            W += self.U
            left, sizes, right = self.triplets = self.svt(W, self.a / self.mu)
            R = np.matmul(left * sizes, right.T, out=self.R)
            np.subtract(self.X, R, out=R)
            self._update(R)
            if self.growing:
                self._set(min(PENALTY_GROWTH * self.mu, self.cap))
                self.growing = self.mu < self.cap
        primal = float(np.linalg.norm(self.R - self.S))
        dual = float(np.linalg.norm(self.S - self.last))
        self.ratios.append(np.log(max(primal, 1e-300) / max(dual, 1e-300)))

    def _update(self, R: Array) -> None:
        """Split A = R + U, over-relaxed once mu has grown, into S and the new U.

        S is the soft threshold of A, and U what the threshold takes off.
        """
        A = self.last
        self.last = self.S
        if self.growing:
            np.add(R, self.U, out=A)
        else:
            np.multiply(R, RELAXATION, out=A)
            A += np.multiply(self.S, 1 - RELAXATION, out=self.W)
            A += self.U
        most = self.most / self.mu
        np.clip(A, -most, most, out=self.U)
        self.S = np.subtract(A, self.U, out=A)

    def balance(self, may_grow: bool) -> None:
        """Change mu, ever less and later, while one residual is the larger.

        See Boyd et al. 2011, section 3.4.
        """
        if self.growing or len(self.ratios) < FIRST_PERIOD + self.changes // 2:
            return
        ratio = float(np.exp(np.mean(self.ratios)))
        factor = 1 + 1 / (1 + 0.1 * self.changes)
        if ratio < MIN_RESIDUAL_RATIO:
            self._set(self.mu / factor)
        elif ratio > MAX_RESIDUAL_RATIO and may_grow and self.mu < self.cap:
            self._set(min(self.mu * factor, self.cap))

    def _set(self, mu: float) -> None:
        self.U *= self.mu / mu
        self.mu = mu
        self.changes = self.changes + (not self.growing)
        self.ratios.clear()


class Proof:
    """The best bound that is proven so far, and which is worth the next factorization."""

    def __init__(self, problem: Convex, tol: float) -> None:
        self.problem = problem
        self.tol = tol
        self.floor = problem.floor
        # no objective is ever negative
        self.best = np.inf
        self.bound = 0.0
        self.primal_is_good = False
        self.failures = 0

    def bound_at(self, split: PursuitState, objective: float) -> float:
        """Return the best bound, after trying for best - bound <= tol max(best, floor).

        The dual value of s Y is s <Y, X>, so that the gap needs one s <= 1, and s Y is feasible if
        |Y|_2 <= a / s.
        """
        self.best = min(self.best, objective)
        scale = max(self.best, self.floor)
        # proven, but the loop goes on: it wants more
        if self.best - self.bound <= self.tol * scale:
            self.tol /= 10
        needed = self.best - AIMED_SHARE * self.tol * scale
        Y = split.multiplier
        s = needed / (split.weight * max(float(np.vdot(Y, split.X)), 1e-300))
        self.primal_is_good = s <= 1
        if 0 < s <= 1 and is_proven(Y, split.a / s, split.svt):
            self.bound = max(self.bound, -self.problem.data.conjugate(s * split.dual))
            return self.bound
        self.failures += 1
        if self.failures % MAX_FAILED_PROOFS == 0:
            self.bound = max(self.bound, self.problem.bound(split.dual).value)
        return self.bound


def is_proven(Y: Array, level: float, svt: Thresholding) -> bool:
    """Return whether |Y|_2 <= level, tried on the block first.

    If the block passes and the proof fails, the block has missed a direction, and is made anew.
    """
    if spectrum(Y @ svt.block)[0][0] > level:
        return False
    if is_below(gram(Y), level, len(Y)):
        return True
    svt.age = BLOCK_LIFETIME
    return False
