"""From a reverse model to the forward model with the same moments, and back (White & Schuurmans 2012, theorem 2)."""

from __future__ import annotations

import numpy as np

from regfactor.core.loop import run
from regfactor.core.params import Array
from regfactor.labels.reverse.alternating import supervised_components
from regfactor.labels.reverse.problem import Reverse
from regfactor.losses.potentials import Potential
from regfactor.problems.forward import Forward
from regfactor.solvers.glm_newton import forward_iterates, polished, solve_semidefinite


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
    X, Y, w = _arrays(X, Y, weights)
    moments = (w[:, None] * potential.inverse(Y @ U)).T @ Y
    problem = Forward(X, moments, w, potential, _matrix(ridge, X.shape[1]))
    found = run(forward_iterates(problem), tol=0.0, max_iter=1000)
    return polished(problem, found.point.factors.C)


def reverse_from_forward(
    W: Array,
    X: Array,
    Y: Array,
    potential: Potential,
    weights: Array | None = None,
    ridge: float | Array = 0.0,
) -> Array:
    """Return the U with [L f^-1(YU)]'Y = X'L f(XW) + R W: the reverse model of a forward one."""
    X, Y, w = _arrays(X, Y, weights)
    moments = X.T @ (w[:, None] * potential.transfer(X @ W)) + _matrix(ridge, X.shape[1]) @ W
    # inputs in the span of Y that have these moments; no other property of X counts
    inputs = Y @ solve_semidefinite(Y.T @ (w[:, None] * Y), moments.T)
    problem = Reverse(inputs, Y, w, potential)
    return supervised_components(problem, Y, problem.labeled)


def _arrays(X: Array, Y: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    X = np.asarray(X, np.float64)
    Y = np.asarray(Y, np.float64)
    return X, Y, np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)


def _matrix(ridge: float | Array, d: int) -> Array:
    if np.ndim(ridge) == 2:
        return np.asarray(ridge, np.float64)
    return float(np.asarray(ridge)) * np.eye(d)
