"""Newton's method for forward prediction, and whether there is a minimum to be found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from regfactor.core.line_search import SUFFICIENT_DECREASE, backtrack
from regfactor.core.loop import Iterate
from regfactor.core.params import EPS, SMALLEST_NORMAL, Array
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.problems.forward import Forward, ForwardPoint
from regfactor.solvers.base import Solver

POLISHING_STEPS = 3
NEGLIGIBLE = 1e-9  # mean decrease along a direction of unit length that counts as zero


@dataclass
class Newton(Solver):
    """Damped Newton steps, from the start that would be the minimum if F were |.|^2/2."""

    solves = Forward

    def iterates(
        self,
        problem: Forward,
        start: ForwardPoint | None,
    ) -> Iterator[Iterate[ForwardPoint]]:
        if start is None:
            W = _quadratic_start(problem)
        else:
            W = start.coefficients
        while True:
            objective, size = problem.value(W)
            gradient = problem.gradient(W)
            step = _newton_step(problem, W, gradient)
            decrease = float(np.vdot(gradient, step))
            settled = decrease <= 4 * EPS * size
            yield Iterate(ForwardPoint(W), objective, settled=settled)
            if settled:
                return
            shortened = _line_search(problem, W, objective, step, decrease)
            if shortened is None:
                return
            W = shortened


def polished(problem: Forward, W: Array) -> Array:
    """Return W after plain Newton steps, as long as they halve the gradient.

    They refine W where changes of the objective are too small to be judged.
    """
    gradient = problem.gradient(W)
    for _ in range(POLISHING_STEPS):
        refined = W - _newton_step(problem, W, gradient)
        remaining = problem.gradient(refined)
        half = np.abs(gradient).max(initial=0.0) / 2
        if not np.abs(remaining).max(initial=0.0) < half:
            break
        W = refined
        gradient = remaining
    if isinstance(problem.potential, potentials.Softmax):  # the shortest of all equivalent W
        return W - W.mean(axis=1, keepdims=True)
    return W


def _quadratic_start(problem: Forward) -> Array:
    zero = np.zeros_like(problem.moments)
    gradient = problem.gradient(zero)
    H = problem.X.T @ (problem.weights[:, None] * problem.X) + problem.ridge
    step = solve_semidefinite(H, gradient)
    objective = problem.value(zero).objective
    shortened = _line_search(problem, zero, objective, step, float(np.vdot(gradient, step)))
    if shortened is None:
        return zero
    return shortened


def _newton_step(problem: Forward, W: Array, gradient: Array) -> Array:
    H = problem.hessians(W)
    if len(H) == 1:
        step = solve_semidefinite(H[0], gradient.T.reshape(-1, 1))
        return step.reshape(gradient.T.shape).T
    columns = [solve_semidefinite(h, gradient[:, [j]]) for j, h in enumerate(H)]
    return np.hstack(columns)


def _line_search(
    problem: Forward,
    W: Array,
    objective: float,
    step: Array,
    decrease: float,
) -> Array | None:
    """Return W after the first of ever shorter steps that lowers the objective, or None."""

    def attempt(length: float) -> Array | None:
        shortened = W - length * step
        required = objective - SUFFICIENT_DECREASE * length * decrease
        if problem.value(shortened).objective <= required:
            return shortened
        return None

    return backtrack(attempt)


def solve_semidefinite(H: Array, G: Array) -> Array:
    """Solve H S = G for a positive semidefinite H, by least squares where it is singular.

    H is scaled to a unit diagonal first.
    """
    scale = np.sqrt(np.maximum(np.diag(H), 0))
    scale[scale == 0] = 1.0
    G = G / scale[:, None]
    H = H / np.outer(scale, scale)
    H[np.diag_indices_from(H)] += len(H) * EPS
    try:
        factor = scipy.linalg.cho_factor(H, check_finite=False)
    except scipy.linalg.LinAlgError:
        S = np.linalg.pinv(H, rcond=len(H) * EPS, hermitian=True) @ G
    else:
        S = scipy.linalg.cho_solve(factor, G)
    return S / scale[:, None]


def unbounded_targets(D: Array, Y: Array, potential: Potential) -> Array:
    """Return for which targets sum_i F(d_i v) - y_i d_i v has no minimum along some direction v.

    That takes targets at the ends of the range of f, and a v by which d_i v has the sign of the end
    that y_i is at, and is zero where y_i is inside: separable classes, or a column of zeros and an
    intercept.
    """
    if isinstance(potential, potentials.Softmax):
        return np.full(Y.shape[1], _shares_separable(D, Y))
    at_high = (Y == potential.range.high).astype(float)
    at_low = Y == potential.range.low
    return np.array([separable(D, sign) for sign in (at_high - at_low).T])


def separable(D: Array, sign: Array) -> bool:
    """Return whether some v has sign_i d_i v >= 0 for all i, not zero for all.

    Where sign_i = 0, d_i v = 0 is required.
    """
    if not sign.any():
        return False
    if (sign == 0).any():
        directions = scipy.linalg.null_space(D[sign == 0])
    else:
        directions = np.eye(D.shape[1])
    return _has_nonnegative_image((sign[:, None] * D)[sign != 0] @ directions)


def _shares_separable(D: Array, Y: Array) -> bool:
    """Return whether some V has y_i.(d_i V) >= max_c (d_i V)_c for all i, not all equal."""
    n, d = D.shape
    k = Y.shape[1]
    lead = (Y[:, :, None] - np.eye(k)).transpose(0, 2, 1)  # y_i - e_c for every class c
    rows = D[:, None, :, None] * lead[:, :, None, :]
    return _has_nonnegative_image(rows.reshape(n * k, d * k))


def _has_nonnegative_image(A: Array) -> bool:
    """Return whether some v has A v >= 0 and A v != 0."""
    if not A.size:
        return False
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    A = A / np.maximum(lengths, SMALLEST_NORMAL)
    zero = np.zeros(len(A))
    found = linprog(
        -A.mean(axis=0),
        A_ub=-A,
        b_ub=zero,
        bounds=(-1, 1),
    )
    return found.x is not None and bool((A @ found.x).mean() > NEGLIGIBLE)
