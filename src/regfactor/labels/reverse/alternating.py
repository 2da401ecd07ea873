"""Alternating minimization for reverse prediction: components U from targets, then free targets Z from components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.labels.reverse.problem import Reverse
from regfactor.labels.reverse.reconstruction import SHORT, Columns, minimized_on_sum, within
from regfactor.losses import potentials
from regfactor.solvers.glm_newton import EPS

EDGE = 1e-9
TINY = 1e-250
ENOUGH = 1e-6  # share of the divergence that a half of a sweep leaves to the next one
MARGIN = 1e-9  # of rows of unit length in a half space, below which it is not open


class NoHalfSpace(ValueError):
    """No U has y_i U inside the range of the transfer for all labeled rows."""


def reverse_iterates(problem: Reverse) -> Iterator[Iterate[Any]]:
    """Yield supervised components with the targets that are best for them, then both after every sweep.

    Components first from targets at random would throw a supervised start away (thesis, algorithm
    12).
    """
    Z, U = supervised_start(problem)
    if problem.shrinkage is None:
        S = None
    else:
        S = problem.covariance(Factors(problem.design(Z), U))
    Z = best_targets(problem, U, Z, S)
    last = np.inf
    while True:
        F = Factors(problem.design(Z), U)
        objective = problem.objective(F, S)
        settled = last - objective <= 16 * EPS * problem.size
        yield Iterate(
            FactorPoint(F, S),
            objective,
            settled=settled,
            scale=None if S is None else problem.expected,
        )
        last = objective
        U = best_components(problem, Z, U)
        if S is not None:
            S = problem.covariance(Factors(problem.design(Z), U))
        Z = best_targets(problem, U, Z, S)


def supervised_start(problem: Reverse) -> tuple[Array, Array]:
    """Return components fitted to labeled rows, and targets inside the domain for every row of positive weight.

    Free targets begin at the column means. Under a bounded transfer all labeled rows count so
    filled, since the others must be inside too; else complete rows alone do, if they determine U.
    """
    known = problem.known
    w = problem.weights * problem.labeled
    sums = (w[:, None] * known).sum(axis=0)
    means = (w[:, None] * np.where(known, problem.Y, 0)).sum(axis=0) / sums
    Z = np.where(known, problem.Y, means)
    complete = problem.labeled & known.all(axis=1)
    D = problem.design(Z)
    enough = complete.any() and np.linalg.matrix_rank(D[complete]) == D.shape[1]
    rows = complete if enough and not problem.bounded else problem.labeled
    return Z, supervised_components(problem, Z, rows)


def supervised_components(problem: Reverse, Z: Array, rows: Array) -> Array:
    """Return the U that minimizes the objective of some rows."""
    D = problem.design(Z)[rows]
    X = problem.X[rows]
    w = problem.weights[rows]
    task = Columns.of_columns(problem, D, X, w)
    wanted = _least_squares(D, problem.potential.transfer(X), w)  # exact where there is no noise
    if not problem.bounded:
        if _is_identity(problem):
            return wanted
        return task.settled(task.minimized(wanted))
    center = _interior(problem, D, X, w)
    if problem.closed:  # what least squares finds sums to one already, up to rounding
        e = (np.arange(len(wanted)) == len(wanted) - 1).astype(float)
        wanted = wanted + ((e - wanted.sum(axis=1)) / wanted.shape[1])[:, None]
        share = within(problem, D @ center, D @ wanted).min()
        return minimized_on_sum(task, center + share * (wanted - center))
    share = within(problem, D @ center, D @ wanted)
    return task.settled(task.minimized(center + share * (wanted - center)))


def best_components(problem: Reverse, Z: Array, U: Array) -> Array:
    """Return argmin_U of the objective for given targets, from a U inside the domain."""
    counted = problem.weights > 0
    D = problem.design(Z)[counted]
    X = problem.X[counted]
    w = problem.weights[counted]
    if _is_identity(problem):
        return _least_squares(D, X, w)
    task = Columns.of_columns(problem, D, X, w)
    if problem.closed:
        return minimized_on_sum(task, U)
    return task.minimized(U, ENOUGH)


def best_targets(problem: Reverse, U: Array, Z: Array, S: Array | None = None) -> Array:
    """Return Z with every free target at its minimum for given components; rows do not meet here."""
    open_ = np.asarray(~problem.known.all(axis=1))
    if not open_.any():
        return Z
    task = Columns.of_rows(problem, U, open_, S)
    B = Z[open_].T.copy()
    if _is_identity(problem):
        alone = task.free.all(axis=0)
        B[:, alone] = np.linalg.lstsq(task.D, task.X[:, alone] - task.offset, rcond=None)[0]
        usable = np.asarray(~alone)
    else:
        B = task.started(B, _labeled_mean(problem, Z))
        # a row of weight zero can have a given target that fits no other: it stays where it is
        usable = np.isfinite(task.values(B))
    if usable.any():
        B[:, usable] = task.only(usable).minimized(B[:, usable], ENOUGH)
    Z = Z.copy()
    Z[open_] = B.T
    return Z


def half_space(Y: Array) -> Array:
    """Return the u, |u| <= 1, with the largest min_i y_i.u / |y_i|; NoHalfSpace where that is not positive."""
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    A = np.unique(Y / np.where(lengths > 0, lengths, 1), axis=0)
    n, k = A.shape
    cost = np.append(np.zeros(k), -1.0)
    found = linprog(
        cost,
        A_ub=np.column_stack([-A, np.ones(n)]),
        b_ub=np.zeros(n),
        bounds=[(-1, 1)] * k + [(None, 1)],
    )
    if found.x is None or not found.x[k] > MARGIN:
        raise NoHalfSpace("No direction u has y_i.u > 0 for all labeled rows.")
    return np.asarray(found.x[:k])


def _least_squares(D: Array, X: Array, w: Array) -> Array:
    root = np.sqrt(w)[:, None]
    return np.asarray(np.linalg.lstsq(root * D, root * X, rcond=None)[0])


def _is_identity(problem: Reverse) -> bool:
    return isinstance(problem.potential, potentials.Identity)


def _interior(problem: Reverse, D: Array, X: Array, w: Array) -> Array:
    """Return a U with D U inside the range: the mean of inputs as intercept, or a half space that holds all rows."""
    mean = _off_the_edge(problem, problem.potential.transfer((w @ X / w.sum())[None])[0])
    if problem.intercept:
        return np.vstack([np.zeros((D.shape[1] - 1, len(mean))), mean])
    if problem.potential.range.low != 0 and problem.potential.range.high != 0:
        raise NoHalfSpace("The range of the transfer does not touch zero.")
    u = half_space(D)
    t = D @ u
    scale = mean / (w @ t / w.sum())
    if problem.potential.range.low == 0:
        most = problem.potential.range.high
    else:
        most = -problem.potential.range.low
    return np.outer(u, np.clip(scale, -SHORT * most / t.max(), SHORT * most / t.max()))


def _off_the_edge(problem: Reverse, t: Array) -> Array:
    """Return a point inside the range of f, which large inputs reach in floating point."""
    low = problem.potential.range.low
    high = problem.potential.range.high
    if not np.isfinite(high - low):
        return np.clip(t, low + TINY, high - TINY)
    t = np.clip(t, low + EDGE * (high - low), high - EDGE * (high - low))
    if problem.closed:
        return t / t.sum()
    return t


def _labeled_mean(problem: Reverse, Z: Array) -> Array:
    """Return the mean of labeled targets, which is inside the domain since that is convex."""
    w = problem.weights * problem.labeled
    return np.asarray(w @ Z / w.sum())
