"""Overlapped trace norm of an n-way array, by ADMM with one copy of the array for each mode.

    min over Z, b of    sum over observed entries of f(z + b; x) + alpha sum_k |Z_(k)|_tr

Z_(k) is the unfolding of Z along mode k (Tomioka, Hayashi and Kashima 2010). For all arrays Y_k
with |Y_k(k)| <= alpha in spectral norm, alpha |Z_(k)|_tr >= <Y_k, Z>, so that the optimum is at
least -sum f*(-y; x) over the observed entries, where Y = sum_k Y_k must vanish at all others, and
sum to zero over the samples at each position, since the offsets b of positions have no penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regfactor.core.linalg import positive_or_one, spectral_norm, svd_above, thin_svd
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.losses import Loss
from regfactor.problems.base import Problem
from regfactor.problems.convex import SMALLEST_ALPHA, alpha_too_small
from regfactor.solvers.base import Solver

FLOOR_SHARE = 1e-3  # of the objective at zero, the smallest scale of a gap
THRESHOLD_SHARE = 0.2  # of the largest singular value of the data, taken from those of copies
MAX_OFFSET_STEPS = 50
OFFSET_TOL = 1e-14  # change of an offset, relative to the data
ROUNDING = 1e-12  # relative, of a dual point at the end of its domain
NEGLIGIBLE = 1e-12  # relative, of singular values that are rounding


def unfold(A: Array, mode: int) -> Array:
    """Return the matrix whose rows are the slices of an array along a mode."""
    n_columns = math.prod(A.shape[:mode]) * math.prod(A.shape[mode + 1 :])
    return np.moveaxis(A, mode, 0).reshape(A.shape[mode], n_columns)


def fold(M: Array, mode: int, shape: tuple[int, ...]) -> Array:
    """Return the array of a shape whose unfolding along a mode is M."""
    others = shape[:mode] + shape[mode + 1 :]
    return np.moveaxis(M.reshape(shape[mode], *others), 0, mode)


def multiply(A: Array, M: Array, mode: int) -> Array:
    """Return A with its fibers along a mode multiplied by M."""
    return np.moveaxis(np.tensordot(M, A, axes=(1, mode)), 0, mode)


@frozen
class TuckerPoint:
    """Z = core x_1 U_1 ... x_K U_K, U_k orthonormal; the offsets; a dual array for each mode."""

    core: Array
    factors: tuple[Array, ...]
    duals: tuple[Array, ...]
    offset: Array

    def dense(self) -> Array:
        """Return Z."""
        Z = self.core
        for mode, U in enumerate(self.factors):
            Z = multiply(Z, U, mode)
        return Z


@frozen
class DualBound:
    """A lower bound of the optimum, and the feasible dual arrays that prove it."""

    value: float
    duals: tuple[Array, ...]


@frozen
class OverlappedTrace(Problem[TuckerPoint]):
    """sum over observed entries of loss(z + b; x) + alpha sum_k |Z_(k)|_tr; NaN is missing.

    Without `intercept` the offsets b, one for each position in a sample, are zero.
    """

    X: Array
    loss: Loss
    alpha: float
    intercept: bool = False
    solvers = ("regfactor.tables.consensus_admm:ConsensusAdmm",)

    def check(self) -> None:
        if self.X.ndim < 2 or not self.observed.any():
            raise ValueError("An overlapped trace norm needs an array with observed entries.")
        if not self.loss.proximable or not self.loss.of_residual:
            raise UnsupportedProblem(
                f"Arrays are fitted under losses of the residual, which {self.loss} is not. Use "
                "'squared' or 'huber'."
            )
        if self.alpha < SMALLEST_ALPHA:
            raise ValueError(alpha_too_small(self.alpha))

    @property
    def observed(self) -> Array:
        """The places of observed entries."""
        return ~np.isnan(self.X)

    @property
    def n_modes(self) -> int:
        """The number of modes."""
        return self.X.ndim

    @property
    def floor(self) -> float:
        """A thousandth of the objective without components."""
        return FLOOR_SHARE * self.data_loss(self.at_offset(self.null_offset()))

    def at_offset(self, offset: Array) -> Array:
        """Return the predictor without components."""
        return np.zeros_like(self.X) + offset

    def data_loss(self, P: Array) -> float:
        """Return the sum of losses over the observed entries, at a predictor P = Z + b."""
        observed = self.observed
        return float(self.loss.value(P[observed], self.X[observed]).sum())

    def objective(self, point: TuckerPoint) -> float:
        """Return the objective; orthonormal factors leave the singular values to the core."""
        norms = 0.0
        if point.core.size:
            for mode in range(self.n_modes):
                singular = np.linalg.svd(unfold(point.core, mode), compute_uv=False)
                norms += float(singular.sum())
        return self.data_loss(point.dense() + point.offset) + self.alpha * norms

    def prox(self, A: Array, weight: float) -> Array:
        """Return argmin over P of the loss + weight/2 |P - A|^2."""
        observed = self.observed
        P = A.copy()
        P[observed] = self.loss.prox(A[observed], weight, self.X[observed])
        return P

    def best_offset(self, A: Array, offset: Array, weight: float = np.inf) -> Array:
        """Return argmin over b of the loss at A + b, or of its Moreau envelope of a weight.

        By reweighting: a function of the residual r of slope g lies below the parabola of curvature
        g / r that touches it at r. Under the squared loss one step is exact.
        """
        if not self.intercept:
            return offset
        observed = self.observed
        size = float(np.abs(self.X[observed]).max())
        largest = self.loss.curvature
        if weight < np.inf:
            largest = weight * largest / (weight + largest)
        for _ in range(MAX_OFFSET_STEPS):
            P = A + offset
            G = self.gradient(P)
            if weight < np.inf:
                G = weight * (P - self.prox(P, weight))
            residuals = np.where(observed, P - self.X, 0.0)
            moving = residuals != 0
            curvatures = np.where(observed, largest, 0.0)
            curvatures[moving] = G[moving] / residuals[moving]
            totals = curvatures.sum(axis=0)
            step = G.sum(axis=0) / positive_or_one(totals)
            offset = offset - step
            if np.abs(step).max() <= OFFSET_TOL * size:
                break
        return offset

    def null_offset(self) -> Array:
        """Return the best offsets without components; unseen positions take the overall center."""
        if not self.intercept:
            return np.zeros(self.X.shape[1:])
        observed = self.observed
        seen = observed.any(axis=0)
        center = np.full(self.X.shape[1:], np.nanmedian(self.X))
        center[seen] = np.nanmedian(self.X[:, seen], axis=0)
        return self.best_offset(np.zeros_like(self.X), center)

    def gradient(self, P: Array) -> Array:
        """Return the gradient of the loss, zero at missing entries."""
        observed = self.observed
        G = np.zeros_like(P)
        G[observed] = self.loss.gradient(P[observed], self.X[observed])
        return G

    def bound(self, duals: tuple[Array, ...]) -> DualBound:
        """Return the bound of dual arrays, after they are made feasible.

        Their sum is moved to zero at missing entries and, with offsets, to a mean of zero over the
        samples, by equal parts; then all are scaled into the domain of the conjugate and to
        spectral norms of at most alpha.
        """
        observed = self.observed
        total = sum(duals, np.zeros_like(self.X))
        wanted = np.zeros_like(self.X)
        low, high = self.loss.dual_domain(self.X[observed])
        wanted[observed] = np.clip(total[observed], -high, -low)
        if self.intercept:
            counts = np.maximum(observed.sum(axis=0), 1)
            means = wanted.sum(axis=0) / counts
            wanted -= np.where(observed, means, 0.0)
        shift = (wanted - total) / self.n_modes
        moved = []
        largest = 0.0
        for mode, dual in enumerate(duals):
            moved.append(dual + shift)
            largest = max(largest, spectral_norm(unfold(moved[mode], mode)))
        scale = 1.0
        if largest > self.alpha:
            scale = self.alpha / largest
        reach = float(np.abs(wanted).max())
        if scale * reach > np.max(high):  # the domains of these losses are symmetric
            scale = float(np.max(high)) / reach * (1 - ROUNDING)
        conjugate = self.loss.conjugate(-scale * wanted[observed], self.X[observed])
        return DualBound(-float(conjugate.sum()), tuple(scale * dual for dual in moved))

    def split_gradient(self) -> tuple[Array, ...]:
        """Return dual arrays of zero: the gradient in shares that make all norms equal."""
        descent = -self.gradient(self.at_offset(self.null_offset()))
        norms = np.empty(self.n_modes)
        for mode in range(self.n_modes):
            norms[mode] = spectral_norm(unfold(descent, mode))
        if not norms.all():
            return (descent,) * self.n_modes
        inverses = 1 / norms
        shares = inverses / inverses.sum()
        return tuple(share * descent for share in shares)

    @property
    def alpha_max(self) -> float:
        """A strength from which on zero is optimal: the norm of the shares of its gradient."""
        return spectral_norm(unfold(self.split_gradient()[0], 0))

    def null(self) -> TuckerPoint:
        """Return zero."""
        factors = tuple(np.zeros((size, 0)) for size in self.X.shape)
        core = np.zeros((0,) * self.n_modes)
        return TuckerPoint(core, factors, self.split_gradient(), self.null_offset())

    def first_iterates(self) -> Iterator[Iterate[TuckerPoint]]:
        """Yield zero with its certificate."""
        point = self.null()
        yield Iterate(point, self.objective(point), self.bound(point.duals).value, steps=0)


@dataclass
class ConsensusAdmm(Solver):
    """Over-relaxed ADMM on Z = W_1 = ... = W_K: the loss at Z + b, the trace norm of each W_k."""

    relaxation: float = 1.6
    every: int = 5

    solves = OverlappedTrace

    def iterates(
        self,
        problem: OverlappedTrace,
        start: TuckerPoint | None,
    ) -> Iterator[Iterate[TuckerPoint]]:
        """Yield every few steps."""
        copies = ModeCopies(problem, start or problem.null(), self.relaxation)
        while True:
            for _ in range(self.every):
                copies.step()
            yield copies.examine(self.every)


class ModeCopies:
    """The state of consensus ADMM: Z, its copies W_k, and their scaled multipliers U_k."""

    def __init__(self, problem: OverlappedTrace, start: TuckerPoint, relaxation: float) -> None:
        self.problem = problem
        self.relaxation = relaxation
        self.Z = start.dense()
        self.copies = [self.Z] * problem.n_modes
        self.bases = list(start.factors)
        self.offset = start.offset
        filled = np.where(problem.observed, problem.X - problem.null_offset(), 0.0)
        size = max(spectral_norm(unfold(filled, mode)) for mode in range(problem.n_modes))
        self.rho = 1.0
        if size > 0:
            self.rho = problem.alpha / (THRESHOLD_SHARE * size)
        self.multipliers = [dual / self.rho for dual in start.duals]

    def step(self) -> None:
        """Take the step of the loss, then those of the trace norms.

        What is left of a copy by the prox of its norm has spectral norm at most alpha / rho.
        """
        n_modes = self.problem.n_modes
        target = np.zeros_like(self.Z)
        for W, U in zip(self.copies, self.multipliers, strict=True):
            target += (W - U) / n_modes
        weight = n_modes * self.rho
        self.offset = self.problem.best_offset(target, self.offset, weight)
        self.Z = self.problem.prox(target + self.offset, weight) - self.offset
        threshold = self.problem.alpha / self.rho
        for mode in range(n_modes):
            relaxed = self.relaxation * self.Z
            relaxed += (1 - self.relaxation) * self.copies[mode]
            relaxed += self.multipliers[mode]
            left, s, right = svd_above(unfold(relaxed, mode), threshold)
            shrunk = (left * (s - threshold)) @ right
            self.bases[mode] = left
            self.copies[mode] = fold(shrunk, mode, relaxed.shape)
            self.multipliers[mode] = relaxed - self.copies[mode]

    def examine(self, steps: int) -> Iterate[TuckerPoint]:
        """Return Z on the subspaces of its copies, low in all ranks, with the bound."""
        core = self.Z
        for mode, U in enumerate(self.bases):
            core = multiply(core, U.T, mode)
        found = self.problem.bound(tuple(self.rho * U for U in self.multipliers))
        point = TuckerPoint(core, tuple(self.bases), found.duals, self.offset)
        offset = self.problem.best_offset(point.dense(), self.offset)
        point = replace(point, offset=offset)
        return Iterate(point, self.problem.objective(point), found.value, steps=steps)


def canonical(point: TuckerPoint) -> TuckerPoint:
    """Return the same Z by its higher-order SVD: each unfolding of the core has orthogonal rows."""
    core = point.core
    factors = []
    for mode, U in enumerate(point.factors):
        rotation = np.zeros((U.shape[1], 0))
        if core.size:
            left, s, _ = thin_svd(unfold(core, mode))
            rotation = left[:, s > NEGLIGIBLE * s.max()]
        core = multiply(core, rotation.T, mode)
        factors.append(U @ rotation)
    return replace(point, core=core, factors=tuple(factors))
