"""sum_ij f_ij((D B)_ij) + ridge: damped Newton for all columns of B at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from regfactor.core.linalg import EntryLayout
from regfactor.core.line_search import backtrack_each
from regfactor.core.loop import Clock
from regfactor.core.params import Array

# evaluate(B) -> the value of each column; gradient and second derivative in each entry of D @ B
Evaluate = Callable[[Array], tuple[Array, Array, Array]]
# value, gradient and second derivative in each entry of D @ B
Expansion = tuple[Array, Array, Array]

MAX_NEWTON_STEPS = 200
# The first share of the majorizing curvature that is added where a step fails, as on flat parts.
FIRST_DAMPING = 1e-3
DAMPING_FACTOR = 8
# Damping from which on even a tiny step does not lower the value: only rounding is left.
MAX_DAMPING = 1e6
VALUE_ROUNDING = 1e-13  # relative
SUFFICIENT_SHARE = 0.1  # of the decrease that the quadratic model predicts
# Relative rise of a column that is rounding, by the size of a number in bytes.
ALLOWED_RISE = {8: 1e-12, 4: 1e-5}
SHORTENING = 0.3
MAX_SHORTENINGS = 11


class SummingLayout(EntryLayout, Protocol):
    """A layout that sums entries, too."""

    def column_sums(self, entries: Array) -> Array:
        """Sum over rows, in float64."""
        ...


def newton_step(
    g: Array,
    h: Array,
    D: Array,
    B: Array,
    ridge: Array,
    layout: EntryLayout,
) -> Array:
    """Return B after one plain Newton step: the minimum, where the losses are quadratic."""
    gradient = layout.adjoint(D, g) + ridge[:, None] * B
    return B - layout.solve_columns(D, h, ridge, gradient)


def minimize_columns(
    evaluate: Evaluate,
    D: Array,
    B: Array,
    ridge: Array,
    majorant: Array,
    layout: EntryLayout,
    clock: Clock | None = None,
) -> Array:
    """F_j(b_j) = sum_i f_ij(d_i b_j) + sum_k ridge_k b_kj^2 / 2: minimize it for every column j.

    No F_j is ever raised. `ridge` has a number for each row of B; `majorant` bounds each second
    derivative (infinite where nothing does). A column has converged when the decrease that a step
    predicts is within rounding; when the time of a clock is up, columns stay where they are.
    """
    accuracy = 4 * float(np.finfo(B.dtype).eps)
    damping = np.zeros(B.shape[1], B.dtype)  # Levenberg-Marquardt, separate in every column
    values, g, h = _with_ridge(evaluate, B, ridge)
    for _ in range(MAX_NEWTON_STEPS):
        if clock is not None and clock.expired:
            break
        gradient = layout.adjoint(D, g) + ridge[:, None] * B
        damped = h
        if damping.any():
            bound = np.where(np.isfinite(majorant), majorant, h)
            damped = h + layout.spread(damping) * bound
        step = layout.solve_columns(D, damped, ridge, gradient)
        predicted = (gradient * step).sum(axis=0) / 2
        # a column that is fitted perfectly has no scale of its own
        scale = np.abs(values) + np.abs(values).mean()
        movable = damping < MAX_DAMPING
        # of a large coefficient, a step may be less than its rounding
        moved = (B - step != B).any(axis=0)
        active = (predicted > accuracy * scale) & movable & moved
        if not active.any():
            # below what values can show, but the last step doubles the precision of the gradient
            return np.where(np.isfinite(step) & movable, B - step, B)
        trial = np.where(active, B - step, B)
        new, g_new, h_new = _with_ridge(evaluate, trial, ridge)
        lowered = new <= values - np.where(active, SUFFICIENT_SHARE * predicted, 0)
        # a step within rounding of the value cannot be judged by it; the model is exact enough
        # then, unless damping is what made the step so short
        rounding = VALUE_ROUNDING * scale
        within = (predicted <= rounding) & (new <= values + rounding)
        accepted = lowered | within
        trusted = lowered | (within & (damping < FIRST_DAMPING))
        raised = np.maximum(DAMPING_FACTOR * damping, FIRST_DAMPING)
        changed = np.where(trusted, damping / DAMPING_FACTOR, raised)
        damping = np.where(movable, changed, damping)
        if accepted.all():
            B = trial
            values = new
            g = g_new
            h = h_new
            continue
        B = np.where(accepted, trial, B)
        values = np.where(accepted, new, values)
        taken = layout.spread(accepted)
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
    """Return B after one Newton step in every column, and the expansion there.

    A step that raises its column is shortened. `at` is the expansion at B: the one that tests a
    step of one factor serves the next step of the other.
    """
    values, g, h = at
    step = layout.solve_columns(
        D,
        h,
        ridge,
        layout.adjoint(D, g) + ridge[:, None] * B,
    )
    step = np.where(np.isfinite(step), step, 0)
    costs = layout.column_sums(values) + _ridge_costs(B, ridge)
    allowed = costs + ALLOWED_RISE[B.dtype.itemsize] * np.abs(costs)
    lengths = np.ones(B.shape[1], B.dtype)
    trial = B
    new = at

    def accepts(searched: Array, tried: Array) -> Array:
        nonlocal trial, new
        lengths[searched] = tried
        trial = B - lengths * step
        new = expand(trial)
        costs = layout.column_sums(new[0]) + _ridge_costs(trial, ridge)
        return (costs <= allowed)[searched]

    _, failed = backtrack_each(accepts, lengths, factor=SHORTENING, max_attempts=MAX_SHORTENINGS)
    if len(failed):
        accepts(failed, np.zeros(len(failed), B.dtype))
    return trial, new


def _with_ridge(evaluate: Evaluate, B: Array, ridge: Array) -> tuple[Array, Array, Array]:
    values, g, h = evaluate(B)
    return values + _ridge_costs(B, ridge), g, h


def _ridge_costs(B: Array, ridge: Array) -> Array:
    return (ridge[:, None] * B * B).sum(axis=0, dtype=np.float64) / 2
