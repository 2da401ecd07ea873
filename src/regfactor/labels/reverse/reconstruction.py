"""Damped Newton steps for many small reconstruction problems at once, inside the domain of F*."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from regfactor.core.linalg import positive_or_one, solve_columns
from regfactor.core.line_search import SUFFICIENT_DECREASE, backtrack, backtrack_each
from regfactor.core.params import EPS, Array, frozen
from regfactor.labels.reverse.problem import Reverse
from regfactor.problems.layout import Dense
from regfactor.solvers.glm_newton import POLISHING_STEPS, solve_semidefinite

MAX_CURVATURE = 1e8  # the second derivative of |t|^(4/3) is infinite at zero
MAX_BOUNDED_CURVATURE = 1e100
BOUNDARY_SHARE = 0.9  # of the way to the boundary that a step may go
MAX_NEWTON_STEPS = 50
MAX_HALVINGS = 30
ROUNDING = 1e-13


@frozen
class PartlyFixed:
    """The layout of a Newton step in which some entries of B are fixed; see core.batched_newton."""

    free: Array

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry, up to broadcasting."""
        return columns

    def adjoint(self, D: Array, entries: Array) -> Array:
        """Return D' times the matrix of entries, zero where B is fixed."""
        return np.where(self.free, D.T @ entries, 0)

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows for a block of columns, diagonal in fixed entries."""
        G = entries[:, block].T @ pairs
        free = self.free[:, block]
        first, second = np.triu_indices(len(free))
        diagonal = first == second
        typical = G[:, diagonal].mean(axis=1)
        G = np.where((free[first] & free[second]).T, G, 0)
        G[:, diagonal] += np.where(free, 0, typical).T
        return G


@frozen
class RoundingScale:
    """For each column: the size of the terms of its value, and the F(x) that its value is above."""

    size: Array
    input_potential: Array


@frozen
class SearchedColumns:
    """B and the values of its columns after a search, and which columns moved."""

    B: Array
    values: Array
    moved: Array


@frozen
class ColumnTask:
    """sum w [F*(t) - x t] over each column of t = D B + offset, for the free entries of B."""

    problem: Reverse
    D: Array
    X: Array
    w: Array
    offset: Array
    free: Array

    @staticmethod
    def of_targets(problem: Reverse, U: Array, rows: Array, S: Array | None) -> ColumnTask:
        """Return the task of finding Z: D = U', in coordinates in which a covariance S is I."""
        k = problem.Y.shape[1]
        D = np.ascontiguousarray(U[:k].T)
        X = np.ascontiguousarray(problem.X[rows].T)
        offset = np.zeros((len(D), 1))
        if problem.intercept:
            offset = U[k][:, None]
        if S is not None:
            root = scipy.linalg.cholesky(S, lower=True, check_finite=False)
            D = scipy.linalg.solve_triangular(root, D, lower=True)
            X = scipy.linalg.solve_triangular(root, X, lower=True)
            offset = scipy.linalg.solve_triangular(root, offset, lower=True)
        return ColumnTask(
            problem,
            D,
            X,
            np.ones((1, 1)),
            offset,
            ~problem.known[rows].T,
        )

    @staticmethod
    def of_components(problem: Reverse, D: Array, X: Array, w: Array) -> ColumnTask:
        """Return the task of finding U: D = [Z, 1]."""
        free = np.ones((D.shape[1], X.shape[1]), bool)
        return ColumnTask(
            problem,
            D,
            X,
            w[:, None],
            np.zeros((1, 1)),
            free,
        )

    @property
    def layout(self) -> Dense | PartlyFixed:
        """The layout of a Newton step."""
        if self.free.all():
            return Dense(self.X.shape)
        return PartlyFixed(self.free)

    def only(self, kept: Array) -> ColumnTask:
        """Return the task of some columns."""
        return replace(self, X=self.X[:, kept], free=self.free[:, kept])

    def predictor(self, B: Array) -> Array:
        """Return D B + offset."""
        return self.D @ B + self.offset

    def values(self, B: Array) -> Array:
        """Return the value of each column, inf outside the domain or within rounding of it."""
        T = self.predictor(B)
        legal = self.problem.inside(T)
        if self.problem.bounded:
            # another order of summation may leave the domain where t is a small difference
            terms = np.abs(self.D) @ np.abs(B) + np.abs(self.offset)
            noise = (len(B) + 8) * EPS * terms
            legal &= self.problem.inside(T - noise) & self.problem.inside(T + noise)
        T = np.where(legal, T, _inner_point(self.problem))
        values = (self.w * (self.problem.conjugate.value(T) - self.X * T)).sum(axis=0)
        return np.where(legal.all(axis=0), values, np.inf)

    def _rounding_scale(self, B: Array) -> RoundingScale:
        """Return the scale by which rounding of values is judged.

        The terms at t = f(x) count too, since their sum is F(x): where all t are tiny relative to
        it, what a step could gain is lost in the divergence.
        """
        sizes = np.zeros(self.X.shape[1])
        for T in (self.predictor(B), self.problem.finite_transfer(self.X.T).T):
            T = np.where(self.problem.inside(T), T, _inner_point(self.problem))
            conjugate = self.w * self.problem.conjugate.value(T)
            product = self.w * self.X * T
            sizes += (np.abs(conjugate) + np.abs(product)).sum(axis=0)
        return RoundingScale(sizes + sizes.mean(), (product - conjugate).sum(axis=0))

    def derivatives(self, B: Array) -> tuple[Array, Array]:
        """Return the first and second derivative in each entry of t; B is inside the domain."""
        T = self.predictor(B)
        x = self.problem.conjugate.transfer(T)
        largest = MAX_BOUNDED_CURVATURE if self.problem.bounded else MAX_CURVATURE
        with np.errstate(divide="ignore", over="ignore"):
            h = np.minimum(self.problem.conjugate_curvature(T, x), largest)
        return self.w * (x - self.X), self.w * h

    def minimized(self, B: Array, accuracy: float = 0.0) -> Array:
        """Return B after damped Newton steps; a column that starts outside the domain is unchanged.

        A column is done when its last step gained no more than rounding, or than `accuracy` of its
        divergence. One step is taken at least, so that an alternation goes on.
        """
        B = B.copy()
        values = self.values(B)
        scale = self._rounding_scale(B)
        ridge = np.zeros(len(B))
        active = np.flatnonzero(np.isfinite(values))
        for _ in range(MAX_NEWTON_STEPS):
            if not len(active):
                break
            task = self.only(active)
            g, h = task.derivatives(B[:, active])
            gradient = task.layout.adjoint(self.D, g)
            step = solve_columns(self.D, h, ridge, gradient, task.layout)
            decrease = (gradient * step).sum(axis=0)
            size = scale.size[active]
            found = task._line_search(B[:, active], values[active], step, decrease, size)
            B[:, active] = found.B
            values[active] = found.values
            divergence = scale.input_potential[active] + found.values
            enough = np.maximum(8 * EPS * size, accuracy * divergence)
            active = active[found.moved & (decrease > enough)]
        return B

    def polished(self, B: Array) -> Array:
        """Return B after plain Newton steps, in the columns whose gradient they halve.

        They refine B where changes of the values are too small to be judged.
        """
        values = self.values(B)
        if not np.isfinite(values).all():
            return B
        gradient = self._gradient(B)
        ridge = np.zeros(len(B))
        for _ in range(POLISHING_STEPS):
            _, h = self.derivatives(B)
            step = solve_columns(self.D, h, ridge, gradient, self.layout)
            found = self.values(B - step)
            inside = np.isfinite(found)
            refined = np.where(inside, B - step, B)
            remaining = self._gradient(refined)
            good = np.abs(remaining).max(axis=0) < np.abs(gradient).max(axis=0) / 2
            good &= inside & (found <= values + ROUNDING * np.abs(values))
            if not good.any():
                break
            B = np.where(good, refined, B)
            gradient = np.where(good, remaining, gradient)
        return B

    def _gradient(self, B: Array) -> Array:
        g, _ = self.derivatives(B)
        return self.layout.adjoint(self.D, g)

    def _line_search(
        self,
        B: Array,
        values: Array,
        step: Array,
        decrease: Array,
        size: Array,
    ) -> SearchedColumns:
        """Halve the steps of columns until each lowers its value, up to rounding."""
        B_new = B.copy()
        values_new = values.copy()
        # a predicted decrease below rounding cannot be judged by values; the model is then exact
        slack = np.where(decrease <= ROUNDING * size, ROUNDING, 4 * EPS) * size

        def accepts(columns: Array, lengths: Array) -> Array:
            trial = B[:, columns] - lengths * step[:, columns]
            found = self.only(columns).values(trial)
            required = values[columns] - SUFFICIENT_DECREASE * lengths * decrease[columns]
            good = found <= required + slack[columns]
            B_new[:, columns[good]] = trial[:, good]
            values_new[columns[good]] = found[good]
            return good

        longest = self._longest_step(B, step)
        _, rejected = backtrack_each(accepts, longest, max_attempts=MAX_HALVINGS)
        moved = np.ones(B.shape[1], bool)
        moved[rejected] = False
        return SearchedColumns(B_new, values_new, moved)

    def _longest_step(self, B: Array, step: Array) -> Array:
        """Return for each column 1, or the share of the step that stays inside the domain."""
        if not self.problem.bounded:
            return np.ones(B.shape[1])
        T = self.predictor(B)
        share = feasible_share(self.problem, T, T - self.D @ step)
        return positive_or_one(share)

    def best_start(self, B: Array, mean: Array) -> Array:
        """Return for each column the best of B, the mean, and the solution of f(x) = t.

        The last is approached from the mean as far as the domain allows.
        """
        mean = np.where(self.free, mean[:, None], B)
        f = self.problem.finite_transfer(self.X.T).T
        solution = np.linalg.lstsq(self.D, f - self.offset, rcond=None)[0]
        wanted = np.where(self.free, solution, B)
        if self.problem.bounded:
            share = feasible_share(self.problem, self.predictor(mean), self.predictor(wanted))
            wanted = mean + share * (wanted - mean)
        trials = np.stack([B, wanted, mean])
        values = np.stack([self.values(trial) for trial in trials])
        return np.take_along_axis(trials, values.argmin(axis=0)[None, None], axis=0)[0]


def minimize_keeping_sums(task: ColumnTask, U: Array) -> Array:
    """Minimize over U with given sums of its rows, as softmax requires.

    The Newton steps have a multiplier for each sum.
    """
    m = task.D.shape[1]
    D = task.D
    pairs = (D[:, :, None] * D[:, None, :]).reshape(len(D), -1)
    values = task.values(U)
    for _ in range(MAX_NEWTON_STEPS):
        g, h = task.derivatives(U)
        H = (h.T @ pairs).reshape(-1, m, m)
        H += (m * EPS * np.trace(H, axis1=1, axis2=2))[:, None, None] * np.eye(m)
        inverse = np.linalg.inv(H)
        gradient = D.T @ g
        unconstrained = np.einsum("jab,bj->aj", inverse, gradient)
        sums = unconstrained.sum(axis=1)[:, None]
        multiplier = solve_semidefinite(inverse.sum(axis=0), sums)
        step = unconstrained - np.einsum("jab,b->aj", inverse, multiplier[:, 0])
        step -= step.mean(axis=1, keepdims=True)
        decrease = np.vdot(gradient, step)
        slack = 4 * EPS * np.abs(values).sum()
        improved = _line_search_of_sum(task, U, step, values.sum() + slack, decrease)
        if improved is None:
            break
        U = improved
        values = task.values(U)
        if decrease <= 8 * EPS * np.abs(values).sum():
            break
    return U


def _line_search_of_sum(
    task: ColumnTask,
    U: Array,
    step: Array,
    value: float,
    decrease: float,
) -> Array | None:
    """Return U after the first of ever shorter steps that lowers the sum of all columns."""

    def attempt(length: float) -> Array | None:
        shortened = U - length * step
        required = value - SUFFICIENT_DECREASE * length * decrease
        if task.values(shortened).sum() <= required:
            return shortened
        return None

    return backtrack(attempt, max_attempts=MAX_HALVINGS)


def _inner_point(problem: Reverse) -> float:
    """Return a number inside the domain of F*."""
    low = problem.potential.range.low
    high = problem.potential.range.high
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    if np.isfinite(low):
        return low + 1
    if np.isfinite(high):
        return high - 1
    return 1.0


def feasible_share(problem: Reverse, center: Array, wanted: Array) -> Array:
    """Return for each column the share of the way from inside to a wanted point that is feasible.

    That is all of it, or most of the way up to the edge of the domain.
    """
    displacement = wanted - center
    edge = np.where(displacement > 0, problem.potential.range.high, problem.potential.range.low)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(np.abs(displacement) > 0, (edge - center) / displacement, np.inf)
    distance = distances.min(axis=0)
    # a wanted point at the very edge counts as beyond it: its F* has no derivative there
    return np.where(distance > 1 + 1e-9, 1.0, BOUNDARY_SHARE * np.minimum(distance, 1.0))
