"""Newton's method for forward prediction, and whether there is a minimum to be found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.problems.forward import Forward

EPS = float(np.finfo(np.float64).eps)
HALVINGS = 60
NEGLIGIBLE = 1e-9  # of a direction of unit length along which nothing is lost


def forward_iterates(problem: Forward) -> Iterator[Iterate[FactorPoint]]:
    """Yield W after every damped Newton step, from a start that a quadratic would have as its minimum."""
    W = _start(problem)
    value, size = problem.value(W)
    while True:
        slope = problem.slope(W)
        step = _newton_step(problem, W, slope)
        fall = float(np.vdot(slope, step))
        done = fall <= 4 * EPS * size
        yield Iterate(FactorPoint(Factors(problem.X, W)), value, settled=done)
        if done:
            return
        W, value, size, moved = _searched(problem, W, step, fall)
        if not moved:
            return


def polished(problem: Forward, W: Array) -> Array:
    """Return W after plain Newton steps that values are too coarse to judge, as long as they halve the slope."""
    slope = problem.slope(W)
    for _ in range(3):
        new = W - _newton_step(problem, W, slope)
        better = problem.slope(new)
        if not np.abs(better).max(initial=0.0) < np.abs(slope).max(initial=0.0) / 2:
            break
        W = new
        slope = better
    return _centered(problem.potential, W)


def _centered(potential: Potential, W: Array) -> Array:
    """Return the W with the least norm of those that give the same softmax."""
    if isinstance(potential, potentials.Softmax):
        return W - W.mean(axis=1, keepdims=True)
    return W


def _start(problem: Forward) -> Array:
    zero = np.zeros_like(problem.moments)
    slope = problem.slope(zero)
    H = problem.X.T @ (problem.weights[:, None] * problem.X) + problem.ridge
    step = solve_semidefinite(H, slope)
    return _searched(problem, zero, step, float(np.vdot(slope, step)))[0]


def _newton_step(problem: Forward, W: Array, slope: Array) -> Array:
    H = problem.hessians(W)
    if len(H) == 1:
        return solve_semidefinite(H[0], slope.T.reshape(-1, 1)).reshape(slope.T.shape).T
    return np.hstack([solve_semidefinite(h, slope[:, [j]]) for j, h in enumerate(H)])


def _searched(
    problem: Forward,
    W: Array,
    step: Array,
    fall: float,
) -> tuple[Array, float, float, bool]:
    """Halve a step until it lowers the objective; W itself where none does."""
    value, size = problem.value(W)
    length = 1.0
    for _ in range(HALVINGS):
        new = W - length * step
        lower, new_size = problem.value(new)
        if lower <= value - 1e-4 * length * fall:
            return new, lower, new_size, True
        length /= 2
    return W, value, size, False


def solve_semidefinite(H: Array, G: Array) -> Array:
    """Solve H S = G for a positive semidefinite H, scaled to a unit diagonal; by least squares where it is singular."""
    scale = np.sqrt(np.maximum(np.diag(H), 0))
    scale[scale == 0] = 1.0
    H = H / np.outer(scale, scale)
    H[np.diag_indices_from(H)] += len(H) * EPS
    try:
        S = scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(H, check_finite=False),
            G / scale[:, None],
        )
    except scipy.linalg.LinAlgError:
        S = np.linalg.pinv(H, rcond=len(H) * EPS, hermitian=True) @ (G / scale[:, None])
    return np.asarray(S / scale[:, None])


def without_minimum(D: Array, Y: Array, potential: Potential) -> Array:
    """Tell for which targets sum_i F(d_i v) - y_i d_i v falls for ever along some direction v.

    That takes targets at the ends of the range of f, and a v by which d_i v has the sign of the end
    that y_i is at, and is zero where y_i is inside: separable classes, or a column of zeros and an
    intercept.
    """
    if isinstance(potential, potentials.Softmax):
        return np.full(Y.shape[1], _shares_separable(D, Y))
    low = potential.range.low
    high = potential.range.high
    ends = (Y == high).astype(float) - (Y == low)
    return np.array([separable(D, sign) for sign in ends.T])


def separable(D: Array, sign: Array) -> bool:
    """Whether some v has sign_i d_i v >= 0 for all i, not zero for all, and d_i v = 0 where sign_i = 0."""
    if not sign.any():
        return False
    if (sign == 0).any():
        free = scipy.linalg.null_space(D[sign == 0])
    else:
        free = np.eye(D.shape[1])
    return _falls((sign[:, None] * D)[sign != 0] @ free)


def _shares_separable(D: Array, Y: Array) -> bool:
    """Whether some V has y_i.(d_i V) >= max_c (d_i V)_c for all i, not equal to all of them."""
    (n, d) = D.shape
    k = Y.shape[1]
    lead = (Y[:, :, None] - np.eye(k)).transpose(0, 2, 1)  # y_i - e_c for every class c
    return _falls((D[:, None, :, None] * lead[:, :, None, :]).reshape(n * k, d * k))


def _falls(A: Array) -> bool:
    """Whether some v has A v >= 0 and A v != 0."""
    if not A.size:
        return False
    A = A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), np.finfo(float).tiny)
    found = linprog(-A.mean(axis=0), A_ub=-A, b_ub=np.zeros(len(A)), bounds=(-1, 1))
    return found.x is not None and bool((A @ found.x).mean() > NEGLIGIBLE)
