"""Newton's method for the reconstruction of inputs: many columns at once, none of which leaves the domain of F*."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from regfactor.core.batched_newton import solve_columns
from regfactor.core.params import Array
from regfactor.labels.reverse.problem import Reverse
from regfactor.problems.layout import Dense
from regfactor.solvers.glm_newton import EPS, solve_semidefinite

STEEPEST = 1e8  # the second derivative of |t|^(4/3) is infinite at zero
HUGE = 1e100
SHORT = 0.9  # share of the way to the boundary that a start goes at most
STEPS = 50
HALVINGS = 30
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Held:
    """The layout of a Newton step in which some entries of B are held; see regfactor.core.batched_newton."""

    free: Array

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry, up to broadcasting."""
        return columns

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries, zero at what is held."""
        return np.where(self.free, D.T @ entries, 0)

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows for a block of columns; what is held meets only itself."""
        G = entries[:, block].T @ pairs
        free = self.free[:, block]
        first, second = np.triu_indices(len(free))
        typical = G[:, first == second].mean(axis=1)
        G = np.where((free[first] & free[second]).T, G, 0)
        G[:, first == second] += np.where(free, 0, typical).T
        return G


@dataclass(frozen=True, eq=False)
class Columns:
    """sum w [F*(t) - x t] over each column of t = D B + offset, to be minimized over the free entries of B."""

    problem: Reverse
    D: Array
    X: Array
    w: Array
    offset: Array
    free: Array

    @staticmethod
    def of_rows(problem: Reverse, U: Array, rows: Array, S: Array | None) -> Columns:
        """Return the task of finding Z: D = U'. Under a covariance S coordinates are such that it is the identity."""
        k = problem.Y.shape[1]
        D = np.ascontiguousarray(U[:k].T)
        X = np.ascontiguousarray(problem.X[rows].T)
        offset = U[k][:, None] if problem.intercept else np.zeros((len(D), 1))
        if S is not None:
            root = scipy.linalg.cholesky(S, lower=True, check_finite=False)
            D, X, offset = (
                scipy.linalg.solve_triangular(root, a, lower=True) for a in (D, X, offset)
            )
        return Columns(problem, D, X, np.ones((1, 1)), offset, ~problem.known[rows].T)

    @staticmethod
    def of_columns(problem: Reverse, D: Array, X: Array, w: Array) -> Columns:
        """Return the task of finding U: D = [Z, 1]."""
        return Columns(
            problem,
            D,
            X,
            w[:, None],
            np.zeros((1, 1)),
            np.ones((D.shape[1], X.shape[1]), bool),
        )

    @property
    def layout(self) -> Dense | Held:
        """How Newton's method may move."""
        if self.free.all():
            return Dense(self.X.shape)
        return Held(self.free)

    def only(self, kept: Array) -> Columns:
        """Return the task of some columns."""
        return replace(self, X=self.X[:, kept], free=self.free[:, kept])

    def values(self, B: Array) -> Array:
        """Return the value of each column, inf outside the domain or within rounding of its edge."""
        T = self.D @ B + self.offset
        legal = self.problem.inside(T)
        if (
            self.problem.bounded
        ):  # where t is what rounding leaves of larger numbers, another order of sums leaves less
            noise = (len(B) + 8) * EPS * (np.abs(self.D) @ np.abs(B) + np.abs(self.offset))
            legal &= self.problem.inside(T - noise) & self.problem.inside(T + noise)
        T = np.where(legal, T, inner_point(self.problem))
        values = (self.w * (self.problem.conjugate.value(T) - self.X * T)).sum(axis=0)
        return np.where(legal.all(axis=0), values, np.inf)

    def _sizes(self, B: Array) -> tuple[Array, Array]:
        """Return the size of the terms of each column, and of a typical one: what rounding is measured by; and F(x).

        The terms at t = f(x) count too, since their sum is F(x): where all t are tiny beside it,
        what a step could gain is lost in the divergence.
        """
        sizes = np.zeros(self.X.shape[1])
        for T in (self.D @ B + self.offset, self.problem.potential.transfer(self.X.T).T):
            T = np.where(self.problem.inside(T), T, inner_point(self.problem))
            parts = self.w * self.problem.conjugate.value(T), self.w * self.X * T
            sizes += (np.abs(parts[0]) + np.abs(parts[1])).sum(axis=0)
        return np.asarray(sizes + sizes.mean()), (parts[1] - parts[0]).sum(axis=0)

    def derivatives(self, B: Array) -> tuple[Array, Array]:
        """Return the gradient and the second derivative in each entry of t; B is inside the domain."""
        T = self.D @ B + self.offset
        x = self.problem.conjugate.transfer(T)
        with np.errstate(divide="ignore", over="ignore"):
            h = np.minimum(self.problem.curvature(T, x), HUGE if self.problem.bounded else STEEPEST)
        return self.w * (x - self.X), self.w * h

    def minimized(self, B: Array, enough: float = 0.0) -> Array:
        """Return the minimum of every column by damped Newton steps; a column that begins outside the domain stays.

        A column is done when its last step gained no more than rounding, or than `enough` of its
        divergence. One step is taken at least, so that an alternation goes on.
        """
        B, values = B.copy(), self.values(B)
        left = np.flatnonzero(np.isfinite(values))
        ridge = np.zeros(len(B))
        scale, own = self._sizes(B)
        for _ in range(STEPS):
            if not len(left):
                break
            task = self.only(left)
            g, h = task.derivatives(B[:, left])
            slope = task.layout.adjoint(self.D, g)
            step = solve_columns(self.D, h, ridge, slope, task.layout)
            fall = (slope * step).sum(axis=0)
            B[:, left], values[left], moved = task.searched(
                B[:, left],
                values[left],
                step,
                fall,
                scale[left],
            )
            left = left[
                moved & (fall > np.maximum(8 * EPS * scale[left], enough * (own + values)[left]))
            ]
        return B

    def settled(self, B: Array) -> Array:
        """Return B after plain Newton steps that values are too coarse to judge, where they halve the slope."""
        values = self.values(B)
        if not np.isfinite(values).all():
            return B
        slope = self._slope(B)
        for _ in range(3):
            step = solve_columns(
                self.D,
                self.derivatives(B)[1],
                np.zeros(len(B)),
                slope,
                self.layout,
            )
            found = self.values(B - step)
            inside = np.isfinite(found)
            new = np.where(inside, B - step, B)
            after = self._slope(new)
            good = inside & (np.abs(after).max(axis=0) < np.abs(slope).max(axis=0) / 2)
            good &= found <= values + ROUNDING * np.abs(values)
            if not good.any():
                break
            B = np.where(good, new, B)
            slope = np.where(good, after, slope)
        return B

    def _slope(self, B: Array) -> Array:
        return self.layout.adjoint(self.D, self.derivatives(B)[0])

    def searched(
        self,
        B: Array,
        values: Array,
        step: Array,
        fall: Array,
        scale: Array,
    ) -> tuple[Array, Array, Array]:
        """Halve the steps of columns until each lowers its value, up to rounding; return which columns moved."""
        new = B.copy()
        values = values.copy()
        short = np.arange(B.shape[1])
        length = self._reach(B, step)
        for _ in range(HALVINGS):
            trial = B[:, short] - length[short] * step[:, short]
            found = self.only(short).values(trial)
            # a step that promises less than rounding cannot be judged by values; the model is then
            # exact enough
            slack = (
                np.where(fall[short] <= ROUNDING * scale[short], ROUNDING, 4 * EPS) * scale[short]
            )
            good = found <= values[short] - 1e-4 * length[short] * fall[short] + slack
            new[:, short[good]] = trial[:, good]
            values[short[good]] = found[good]
            short = short[~good]
            if not len(short):
                break
            length[short] /= 2
        moved = np.ones(B.shape[1], bool)
        moved[short] = False
        return new, values, moved

    def _reach(self, B: Array, step: Array) -> Array:
        """Return for each column the length of the whole step, or of most of it up to the edge of the domain."""
        if not self.problem.bounded:
            return np.ones(B.shape[1])
        T = self.D @ B + self.offset
        room = within(self.problem, T, T - self.D @ step)
        return np.where(room > 0, room, 1.0)

    def started(self, B: Array, mean: Array) -> Array:
        """Return for each column the best of B, the mean, and what solves f(x) = t on the way from there."""
        mean = np.where(self.free, mean[:, None], B)
        f = self.problem.potential.transfer(self.X.T).T
        wanted = np.where(self.free, np.linalg.lstsq(self.D, f - self.offset, rcond=None)[0], B)
        if self.problem.bounded:
            share = within(self.problem, self.D @ mean + self.offset, self.D @ wanted + self.offset)
            wanted = mean + share * (wanted - mean)
        trials = np.stack([B, wanted, mean])
        values = np.stack([self.values(trial) for trial in trials])
        return np.take_along_axis(trials, values.argmin(axis=0)[None, None], axis=0)[0]


def minimized_on_sum(task: Columns, U: Array) -> Array:
    """Minimize over U with given sums over columns, which softmax needs: Newton steps with a multiplier for them."""
    m = task.D.shape[1]
    D = task.D
    pairs = (D[:, :, None] * D[:, None, :]).reshape(len(D), -1)
    values = task.values(U)
    for _ in range(STEPS):
        g, h = task.derivatives(U)
        H = (h.T @ pairs).reshape(-1, m, m)
        H += (m * EPS * np.trace(H, axis1=1, axis2=2))[:, None, None] * np.eye(m)
        inverse = np.linalg.inv(H)
        slope = D.T @ g
        free = np.einsum("jab,bj->aj", inverse, slope)
        multiplier = solve_semidefinite(inverse.sum(axis=0), free.sum(axis=1)[:, None])
        step = free - np.einsum("jab,b->aj", inverse, multiplier[:, 0])
        step -= step.mean(axis=1, keepdims=True)
        fall = float(np.vdot(slope, step))
        length = 1.0
        for _ in range(HALVINGS):
            found = task.values(U - length * step)
            if found.sum() <= values.sum() - 1e-4 * length * fall + 4 * EPS * np.abs(values).sum():
                break
            length /= 2
        else:
            return U
        U = U - length * step
        values = found
        if fall <= 8 * EPS * np.abs(values).sum():
            break
    return U


def inner_point(problem: Reverse) -> float:
    """Return a number inside the domain of F*."""
    low = problem.potential.range.low
    high = problem.potential.range.high
    if np.isfinite(low) and np.isfinite(high):
        return float(low + high) / 2
    if np.isfinite(low):
        return float(low + 1)
    return float(high - 1 if np.isfinite(high) else 1.0)


def within(problem: Reverse, center: Array, wanted: Array) -> Array:
    """Return for each column the share of the way from inside to a wanted point: all of it, or most up to the edge."""
    low = problem.potential.range.low
    high = problem.potential.range.high
    way = wanted - center
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(
            way > 0,
            (high - center) / way,
            np.where(way < 0, (low - center) / way, np.inf),
        ).min(axis=0)
    # a wanted point at the very edge counts as beyond it: its F* has no derivative there
    return np.where(room > 1 + 1e-9, 1.0, SHORT * np.minimum(room, 1.0))
