"""The p-step: labels of unlabeled rows in expectation, from their gains and what is stated of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import fmin_l_bfgs_b

from regfactor.core.params import Array
from regfactor.labels.expectation.problem import Statements, log_partition, probabilities

STEPS = 100
HALVINGS = 40
ARMIJO = 1e-4
EXACT = 1e-9  # of a share: how far expectations may be from their optimum
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Dual:
    """T sum_j v_j log sum_c exp(s_jc / T) - target'gamma + tolerance'|gamma| + gamma^2/(2 strength), to be minimized.

    s = gains + A'gamma, and p = softmax(s / T) (spec B1, with its sign changed). An infinite
    strength is a constraint.
    """

    gains: Array
    weights: Array
    statements: Statements
    T: float

    def scores(self, gamma: Array) -> Array:
        """s / T."""
        return (self.gains + self.statements.shifts(gamma, self.gains.shape[1])) / self.T

    def value(self, gamma: Array, scores: Array) -> float:
        """Return the dual objective."""
        s = self.statements
        rest = s.tolerance @ np.abs(gamma) - s.target @ gamma + (gamma / s.strength) @ gamma / 2
        return self.T * float(self.weights @ log_partition(scores)) + float(rest)

    def smooth_slope(self, gamma: Array, p: Array) -> Array:
        """Return the derivative without that of tolerance'|gamma|."""
        s = self.statements
        return s.expected(p, self.weights) - s.target + gamma / s.strength

    def slope(self, gamma: Array, p: Array) -> Array:
        """Return the steepest one-sided derivative: zero where zero is one of them."""
        g = self.smooth_slope(gamma, p)
        eps = self.statements.tolerance
        return np.where(
            gamma != 0,
            g + eps * np.sign(gamma),
            np.sign(g) * np.maximum(np.abs(g) - eps, 0),
        )

    def hessian(self, p: Array) -> Array:
        """Return the second derivative, without that of tolerance'|gamma|."""
        s = self.statements
        return s.hessian(p, self.weights) / self.T + np.diag(1 / s.strength)


def expected_labels(dual: Dual, gamma: Array, tol: float = EXACT) -> tuple[Array, Array]:
    """Return p and the multipliers gamma, from a first guess of these, by orthant-wise Newton steps.

    A step solves for the multipliers that are not held at zero, in the orthant of their signs; what
    would leave the orthant stops at zero. Where that does not converge, bounded quasi-Newton on
    both parts of gamma does.
    """
    if not len(gamma):
        return probabilities(dual.scores(gamma)), gamma
    sizes = dual.statements.sizes
    scores = dual.scores(gamma)
    value = dual.value(gamma, scores)
    p = probabilities(scores)
    for _ in range(STEPS):
        slope = dual.slope(gamma, p)
        if np.all(np.abs(slope) <= tol * sizes):
            return p, gamma
        moved = _searched(dual, gamma, value, slope, _newton(dual, gamma, p, slope))
        if moved is None:
            break
        gamma, value, p = moved
    return _bounded(dual, gamma, tol)


def _newton(dual: Dual, gamma: Array, p: Array, slope: Array) -> Array:
    open_ = (gamma != 0) | (slope != 0)
    H = dual.hessian(p)[np.ix_(open_, open_)]
    scale = np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))  # features may have any unit
    H = H / np.outer(scale, scale)
    H[np.diag_indices(len(H))] += 64 * EPS * len(H)  # statements that repeat each other
    step = np.zeros_like(gamma)
    step[open_] = (
        -scipy.linalg.solve(H, slope[open_] / scale, assume_a="pos", check_finite=False) / scale
    )
    return step


def _searched(
    dual: Dual,
    gamma: Array,
    value: float,
    slope: Array,
    step: Array,
) -> tuple[Array, float, Array] | None:
    """Return the first of ever shorter steps that lowers the dual as its slope promises, or None."""
    orthant = np.where(gamma != 0, np.sign(gamma), -np.sign(slope))
    length = 1.0
    for _ in range(HALVINGS):
        trial = gamma + length * step
        trial = np.where(np.sign(trial) == orthant, trial, 0.0)
        promise = float(slope @ (trial - gamma))
        scores = dual.scores(trial)
        new = dual.value(trial, scores)
        if promise < 0 and new <= value + ARMIJO * promise + 8 * EPS * abs(value):
            return trial, new, probabilities(scores)
        length /= 2
    return None


def _bounded(dual: Dual, gamma: Array, tol: float) -> tuple[Array, Array]:
    """Minimize over gamma = a - b with a, b >= 0 (spec B3, the fallback), in units in which features are shares."""
    unit = 1 / dual.statements.sizes
    m = len(gamma)

    def evaluate(both: Array) -> tuple[float, Array]:
        at = unit * (both[:m] - both[m:])
        scores = dual.scores(at)
        g = unit * dual.smooth_slope(at, probabilities(scores))
        rest = float(dual.statements.tolerance @ (unit * (both[:m] + both[m:]) - np.abs(at)))
        eps = unit * dual.statements.tolerance
        return dual.value(at, scores) + rest, np.concatenate([g + eps, eps - g])

    start = np.concatenate([np.maximum(gamma, 0), np.maximum(-gamma, 0)]) / np.tile(unit, 2)
    box: list[Any] = [(0, None)] * (2 * m)
    found, _, _ = fmin_l_bfgs_b(evaluate, start, bounds=box, maxiter=2000, factr=10.0, pgtol=tol)
    gamma = unit * (found[:m] - found[m:])
    return probabilities(dual.scores(gamma)), gamma
