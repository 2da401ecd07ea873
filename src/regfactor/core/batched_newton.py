"""Many small convex problems at once: batched damped Newton for the columns of B in sum_ij f_ij((D B)_ij) + ridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from regfactor.core.params import Array

# evaluate(B) -> the value of each column; gradient and second derivative in each entry of D @ B
Evaluate = Callable[[Array], tuple[Array, Array, Array]]
Expansion = tuple[
    Array,
    Array,
    Array,
]  # value, gradient and second derivative in each entry of D @ B
# first share of the majorizing curvature that is added where a Newton step fails, as on flat
# stretches
TRUST = 1e-3
ROUNDING = 1e-13
STEPS = 200
# damping at which even a tiny step no longer lowers the value: rounding is all that is left
STUCK = 1e6
SLACK = {
    8: 1e-12,
    4: 1e-5,
}  # relative rise of a column that is rounding, by the size of a number in bytes
# of a step that raises its column; the last has no length
SHORTER = 0.3
SHORTENINGS = 12
BLOCK = 4_000_000  # numbers in the Hessians that are held at once


class Layout(Protocol):
    """How entries of D @ B are held; see problems.layout."""

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry."""
        ...

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        ...

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        ...


class SummingLayout(Layout, Protocol):
    """A layout that sums entries, too."""

    def column_sums(self, entries: Array) -> Array:
        """Sum over rows, in float64."""
        ...


def newton_step(g: Array, h: Array, D: Array, B: Array, ridge: Array, layout: Layout) -> Array:
    """Return B after one plain Newton step: the minimum, where the losses are quadratic."""
    return B - solve_columns(D, h, ridge, layout.adjoint(D, g) + ridge[:, None] * B, layout)


def minimize_columns(
    evaluate: Evaluate,
    D: Array,
    B: Array,
    ridge: Array,
    majorant: Array,
    layout: Layout,
) -> Array:
    """Minimize F_j(b_j) = sum_i f_ij(d_i b_j) + sum_k ridge_k b_kj^2 / 2 for every column j; never raises any F_j.

    `ridge` has a number for each row of B; `majorant` bounds each second derivative (infinite where
    nothing does); a column is done when a step promises to lower it by no more than rounding.
    """
    accuracy = 4 * float(np.finfo(B.dtype).eps)
    damping = np.zeros(B.shape[1], B.dtype)  # Levenberg-Marquardt, apart in every column
    values, g, h = _with_ridge(evaluate, B, ridge)
    for _ in range(STEPS):
        slope = layout.adjoint(D, g) + ridge[:, None] * B
        if damping.any():
            firm = h + layout.spread(damping) * np.where(np.isfinite(majorant), majorant, h)
        else:
            firm = h
        step = solve_columns(D, firm, ridge, slope, layout)
        promise = (slope * step).sum(axis=0) / 2
        scale = (
            np.abs(values) + np.abs(values).mean()
        )  # a column that is fitted perfectly has no scale of its own
        open_ = (promise > accuracy * scale) & (damping < STUCK)
        if (
            not open_.any()
        ):  # the last step is below what values can show, but it doubles the digits of the slope
            return np.where(np.isfinite(step) & (damping < STUCK), B - step, B)
        trial = np.where(open_, B - step, B)
        new, g_new, h_new = _with_ridge(evaluate, trial, ridge)
        good = new <= values - np.where(open_, promise / 10, 0)
        # within rounding of the value a step cannot be judged by it; the model is then exact enough
        good |= (promise <= ROUNDING * scale) & (new <= values + ROUNDING * scale)
        damping = np.where(good, damping / 8, np.maximum(8 * damping, TRUST))
        if good.all():
            B = trial
            values = new
            g = g_new
            h = h_new
            continue
        B = np.where(good, trial, B)
        values = np.where(good, new, values)
        taken = layout.spread(good)
        g = np.where(taken, g_new, g)
        h = np.where(taken, h_new, h)
    return B


def improve_columns(
    expand: Callable[[Array], Expansion],
    at: Expansion,
    D: Array,
    B: Array,
    ridge: Array,
    layout: SummingLayout,
) -> tuple[Array, Expansion]:
    """Return B after one Newton step in every column, shortened where it raises the column, and the expansion there.

    `at` is the expansion at B: what tests a step of one factor serves the next step of the other.
    """
    values, g, h = at
    step = solve_columns(D, h, ridge, layout.adjoint(D, g) + ridge[:, None] * B, layout)
    step = np.where(np.isfinite(step), step, 0)
    costs = layout.column_sums(values) + _ridge_costs(B, ridge)
    most = costs + SLACK[B.dtype.itemsize] * np.abs(costs)
    length = np.ones(B.shape[1], B.dtype)
    for left in reversed(range(SHORTENINGS)):
        trial = B - length * step
        new = expand(trial)
        worse = ~(layout.column_sums(new[0]) + _ridge_costs(trial, ridge) <= most)
        if not worse.any():
            break
        length = np.where(worse, SHORTER * length if left > 1 else 0, length)
    return trial, new


def solve_columns(D: Array, h: Array, ridge: Array, slope: Array, layout: Layout) -> Array:
    """Solve (D' diag(h_j) D + diag(ridge)) step_j = slope_j for every column j."""
    m, d = slope.shape
    upper = np.triu_indices(m)
    pairs = _products(D, *upper)
    square = np.zeros((m, m), int)
    square[upper] = square.T[upper] = np.arange(
        len(upper[0]),
    )  # where each entry of H stands among the pairs
    eye = np.eye(m, dtype=D.dtype)
    step = np.empty((m, d), np.result_type(D, h))
    if not m:
        return step
    width = max(1, BLOCK // (m * m))
    for start in range(0, d, width):
        block = slice(start, start + width)
        H = (
            np.take(layout.grams(h, pairs, block), square.ravel(), axis=1).reshape(-1, m, m)
            + ridge * eye
        )
        # a direction only, not the certified problem: the jitter keeps unobserved columns solvable
        jitter = (
            np.finfo(H.dtype).eps * np.trace(H, axis1=1, axis2=2) + np.finfo(H.dtype).tiny ** 0.5
        )
        step[:, block] = np.linalg.solve(
            H + jitter[:, None, None] * eye,
            slope[:, block].T[:, :, None],
        )[:, :, 0].T
    return step


def _products(D: Array, first: Array, second: Array) -> Array:
    """Return products of columns, in stretches of rows: of a tall D they are the largest array there is."""
    out = np.empty((len(D), len(first)), D.dtype)
    height = max(1, BLOCK // max(len(first), 1))
    for start in range(0, len(D), height):
        part = D[start : start + height]
        np.multiply(part[:, first], part[:, second], out=out[start : start + height])
    return out


def _with_ridge(evaluate: Evaluate, B: Array, ridge: Array) -> tuple[Array, Array, Array]:
    values, g, h = evaluate(B)
    return values + _ridge_costs(B, ridge), g, h


def _ridge_costs(B: Array, ridge: Array) -> Array:
    return np.asarray((ridge[:, None] * B * B).sum(axis=0, dtype=np.float64) / 2)
