"""From a reverse model to the forward model with the same moments, and back.

White & Schuurmans 2012, theorem 2.
"""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.reverse.alternating import supervised_components
from regfactor.labels.reverse.problem import Reverse
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.problems.forward import Forward
from regfactor.solvers.base import solve
from regfactor.solvers.glm_newton import polished, solve_semidefinite


def forward_from_reverse(
    U: Array,
    X: Array,
    Y: Array,
    potential: Potential,
    weights: Array | None = None,
    ridge: float | Array = 0.0,
) -> Array:
    """Return the W with X'L f(XW) + R W = [L f^-1(YU)]'Y: the forward model of a reverse one.

    U minimizes sum_i l_i [F*(y_i U) - x_i.y_i U]; W then minimizes sum_i l_i [F(x_i W) - y_i.x_i W]
    + tr(W'RW)/2. A number for `ridge` is R = ridge I; a kernel model has the Gram matrix K for X,
    and R = alpha K. Squared errors that are weighted before they are squared have weights l_i^2
    here.
    """
    X = np.asarray(X, np.float64)
    Y = np.asarray(Y, np.float64)
    w = _row_weights(weights, len(X))
    inputs = potential.inverse(Y @ U)
    if isinstance(potential, potentials.Softmax):  # whose inverse is free in the mean of each row
        inputs = inputs + (X - inputs).mean(axis=1, keepdims=True)
    moments = (w[:, None] * inputs).T @ Y
    problem = Forward(X, moments, w, potential, _ridge_matrix(ridge, X.shape[1]))
    return polished(problem, solve(problem, tol=0.0).point.coefficients)


def reverse_from_forward(
    W: Array,
    X: Array,
    Y: Array,
    potential: Potential,
    weights: Array | None = None,
    ridge: float | Array = 0.0,
) -> Array:
    """Return the U with [L f^-1(YU)]'Y = X'L f(XW) + R W: the reverse model of a forward one."""
    X = np.asarray(X, np.float64)
    Y = np.asarray(Y, np.float64)
    w = _row_weights(weights, len(X))
    predicted = w[:, None] * potential.transfer(X @ W)
    moments = X.T @ predicted + _ridge_matrix(ridge, X.shape[1]) @ W
    # inputs in the span of Y that have these moments; no other property of X counts
    inputs = Y @ solve_semidefinite(Y.T @ (w[:, None] * Y), moments.T)
    problem = Reverse(inputs, Y, w, potential)
    return supervised_components(problem, Y, problem.labeled)


def _row_weights(weights: Array | None, n: int) -> Array:
    if weights is None:
        return np.ones(n)
    return np.asarray(weights, np.float64)


def _ridge_matrix(ridge: float | Array, d: int) -> Array:
    if np.ndim(ridge) == 2:
        return np.asarray(ridge, np.float64)
    return float(np.asarray(ridge)) * np.eye(d)
