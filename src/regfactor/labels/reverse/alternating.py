"""Alternating minimization for reverse prediction: components U from targets Z, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from regfactor.core.loop import Iterate
from regfactor.core.params import EPS, Array
from regfactor.labels.reverse.problem import Reverse, ReversePoint
from regfactor.labels.reverse.reconstruction import (
    BOUNDARY_SHARE,
    ColumnTask,
    feasible_share,
    minimize_keeping_sums,
)
from regfactor.solvers.base import Solver

MIN_EDGE_SHARE = 1e-9  # of a bounded range, that a start keeps from its ends
MIN_EDGE_DISTANCE = 1e-250  # that a start keeps from the end of an unbounded range
HALF_STEP_ACCURACY = 1e-6  # share of the divergence that one half of a sweep leaves to the next
MIN_MARGIN = 1e-9  # of rows of unit length in a half space, below which it is not open


class NoHalfSpace(ValueError):
    """No U has y_i U inside the range of the transfer for all labeled rows."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "The labeled rows of targets lie in no open half space, so that no U has all y_i U "
            f"inside the range of the transfer: {reason}. Use fit_intercept=True."
        )


@dataclass
class ReverseAlternating(Solver):
    """Sweeps over components, covariance and free targets, each at its minimum for the others.

    It starts from the supervised components: to start from targets at random would discard them
    (thesis, algorithm 12).
    """

    solves = Reverse

    def iterates(
        self,
        problem: Reverse,
        start: ReversePoint | None,
    ) -> Iterator[Iterate[ReversePoint]]:
        point = supervised_start(problem) if start is None else start
        last = np.inf
        while True:
            objective = problem.objective(point)
            settled = last - objective <= 16 * EPS * problem.size
            yield Iterate(point, objective, settled=settled, scale=problem.change_scale)
            last = objective
            U = best_components(problem, point.targets, point.components)
            point = _completed(problem, point.targets, U)


def supervised_start(problem: Reverse) -> ReversePoint:
    """Return components fitted to labeled rows, with the free targets that are best for them.

    Free targets start at the column means. Under a bounded transfer all labeled rows count so
    filled, since the others must be inside too; else complete rows alone do, if they determine U.
    """
    known = problem.known
    w = (problem.weights * problem.labeled)[:, None]
    means = (w * np.where(known, problem.Y, 0)).sum(axis=0) / (w * known).sum(axis=0)
    Z = np.where(known, problem.Y, means)
    rows = problem.labeled
    complete = problem.labeled & known.all(axis=1)
    if complete.any() and not problem.bounded:
        D = problem.design(Z)[complete]
        if np.linalg.matrix_rank(D) == D.shape[1]:
            rows = complete
    return _completed(problem, Z, supervised_components(problem, Z, rows))


def _completed(problem: Reverse, Z: Array, U: Array) -> ReversePoint:
    """Return the point of components U: their covariance, then the free targets."""
    S = problem.covariance(Z, U)
    return ReversePoint(best_targets(problem, U, Z, S), U, S)


def supervised_components(problem: Reverse, Z: Array, rows: Array) -> Array:
    """Return the U that minimizes the objective of some rows."""
    D = problem.design(Z)[rows]
    X = problem.X[rows]
    w = problem.weights[rows]
    task = ColumnTask.of_components(problem, D, X, w)
    wanted = _least_squares(D, problem.finite_transfer(X), w)  # exact where there is no noise
    if problem.is_identity:
        return wanted
    if not problem.bounded:
        return task.polished(task.minimized(wanted))
    center = _interior_components(problem, D, X, w)
    if problem.on_simplex:
        # least squares has these sums already, up to rounding
        wanted += (center.sum(axis=1) - wanted.sum(axis=1))[:, None] / wanted.shape[1]
        share = feasible_share(problem, D @ center, D @ wanted).min()
        return minimize_keeping_sums(task, center + share * (wanted - center))
    share = feasible_share(problem, D @ center, D @ wanted)
    return task.polished(task.minimized(center + share * (wanted - center)))


def best_components(problem: Reverse, Z: Array, U: Array) -> Array:
    """Return argmin_U of the objective for given targets, from a U inside the domain."""
    counted = problem.weights > 0
    D = problem.design(Z)[counted]
    X = problem.X[counted]
    w = problem.weights[counted]
    if problem.is_identity:
        return _least_squares(D, X, w)
    task = ColumnTask.of_components(problem, D, X, w)
    if problem.on_simplex:
        return minimize_keeping_sums(task, U)
    return task.minimized(U, HALF_STEP_ACCURACY)


def best_targets(problem: Reverse, U: Array, Z: Array, S: Array | None) -> Array:
    """Return Z with every free target at its minimum for given components, each row on its own."""
    incomplete = np.asarray(~problem.known.all(axis=1))
    if not incomplete.any():
        return Z
    task = ColumnTask.of_targets(problem, U, incomplete, S)
    B = Z[incomplete].T.copy()
    if problem.is_identity:
        unlabeled = task.free.all(axis=0)
        differences = task.X[:, unlabeled] - task.offset
        B[:, unlabeled] = np.linalg.lstsq(task.D, differences, rcond=None)[0]
        improvable = np.asarray(~unlabeled)
    else:
        B = task.best_start(B, _labeled_mean(problem, Z))
        # a row of weight zero can have a given target that fits no other: it is left unchanged
        improvable = np.isfinite(task.values(B))
    if improvable.any():
        B[:, improvable] = task.only(improvable).minimized(B[:, improvable], HALF_STEP_ACCURACY)
    Z = Z.copy()
    Z[incomplete] = B.T
    return Z


def half_space(Y: Array) -> Array:
    """Return the u, |u| <= 1, with the largest min_i y_i.u / |y_i|, which must be positive."""
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    A = np.unique(Y / lengths, axis=0)
    n, k = A.shape
    # over (u, margin): the largest margin <= y_i.u / |y_i|
    cost = np.append(np.zeros(k), -1.0)
    excess = np.column_stack([-A, np.ones(n)])
    bounds = [(-1, 1)] * k + [(None, 1)]
    found = linprog(cost, A_ub=excess, b_ub=np.zeros(n), bounds=bounds)
    if found.x is None or not found.x[k] > MIN_MARGIN:
        raise NoHalfSpace("no direction u has y_i.u > 0 for all of them")
    return found.x[:k]


def _least_squares(D: Array, X: Array, w: Array) -> Array:
    root = np.sqrt(w)[:, None]
    return np.linalg.lstsq(root * D, root * X, rcond=None)[0]


def _interior_components(problem: Reverse, D: Array, X: Array, w: Array) -> Array:
    """Return a U with D U inside the range.

    That is the mean of the inputs as intercept, or in every row where targets sum to one; else a
    direction of targets in which all rows lie on one side.
    """
    mean = _inside_range(problem, problem.potential.transfer((w @ X / w.sum())[None])[0])
    if problem.intercept:
        return np.vstack([np.zeros((D.shape[1] - 1, len(mean))), mean])
    if problem.on_simplex:
        return np.tile(mean, (D.shape[1], 1))
    low = problem.potential.range.low
    high = problem.potential.range.high
    if low != 0 and high != 0:
        raise NoHalfSpace(f"{problem.potential.range} does not touch zero")
    direction = half_space(D)
    t = D @ direction
    width = high if low == 0 else -low
    longest = BOUNDARY_SHARE * width / t.max()
    lengths = np.clip(mean / (w @ t / w.sum()), -longest, longest)
    return np.outer(direction, lengths)


def _inside_range(problem: Reverse, t: Array) -> Array:
    """Return a point inside the range of f, whose ends large inputs reach in floating point."""
    low = problem.potential.range.low
    high = problem.potential.range.high
    if not np.isfinite(high - low):
        return np.clip(t, low + MIN_EDGE_DISTANCE, high - MIN_EDGE_DISTANCE)
    distance = MIN_EDGE_SHARE * (high - low)
    t = np.clip(t, low + distance, high - distance)
    if problem.on_simplex:
        return t / t.sum()
    return t


def _labeled_mean(problem: Reverse, Z: Array) -> Array:
    """Return the mean of labeled targets, which is inside the domain since that is convex."""
    w = problem.weights * problem.labeled
    return w @ Z / w.sum()
