"""The distribution of labels under stated expectations: the p-step of Bellare 2009.

Its dual is minimized by orthant-wise Newton steps.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import fmin_l_bfgs_b

from regfactor.core.line_search import SUFFICIENT_DECREASE, backtrack
from regfactor.core.params import EPS, SMALLEST_NORMAL, Array, frozen
from regfactor.labels.expectation.problem import Statements, log_partition, probabilities

MAX_NEWTON_STEPS = 100
MAX_HALVINGS = 40
EXACT = 1e-9  # of a share: how far expectations may be from their optimum


@frozen
class ExpectedLabels:
    """Multipliers of the statements, the scores s / T of the labels and the value of the dual."""

    multipliers: Array
    scores: Array
    value: float = 0.0

    @cached_property
    def p(self) -> Array:
        """The distribution of the labels of each row."""
        return probabilities(self.scores)


@frozen
class LabelDual:
    """T sum_j v_j log sum_c exp(s_jc/T) - target'g + tolerance'|g| + g^2/(2 strength), in g.

    s = gains + A'g, and p = softmax(s / T). An infinite strength
    is a constraint.
    """

    gains: Array
    weights: Array
    statements: Statements
    T: float

    def at(self, multipliers: Array) -> ExpectedLabels:
        """Return the labels under given multipliers."""
        s = self.statements
        scores = (self.gains + s.shifts(multipliers, self.gains.shape[1])) / self.T
        partition = self.T * (self.weights @ log_partition(scores))
        band = s.tolerance @ np.abs(multipliers) - s.target @ multipliers
        penalty = (multipliers / s.strength) @ multipliers / 2
        return ExpectedLabels(multipliers, scores, partition + band + penalty)

    def smooth_gradient(self, labels: ExpectedLabels) -> Array:
        """Return the derivative without that of tolerance'|g|."""
        s = self.statements
        return s.expected(labels.p, self.weights) - s.target + labels.multipliers / s.strength

    def gradient(self, labels: ExpectedLabels) -> Array:
        """Return the subgradient of least norm."""
        g = self.smooth_gradient(labels)
        signs = np.sign(labels.multipliers)
        tolerance = self.statements.tolerance
        at_zero = np.sign(g) * np.maximum(np.abs(g) - tolerance, 0)
        return np.where(signs != 0, g + tolerance * signs, at_zero)

    def hessian(self, p: Array) -> Array:
        """Return the second derivative, without that of tolerance'|g|."""
        s = self.statements
        return s.hessian(p, self.weights) / self.T + np.diag(1 / s.strength)


def expected_labels(dual: LabelDual, multipliers: Array, tol: float = EXACT) -> ExpectedLabels:
    """Return the minimizer of the dual, from a first guess of the multipliers.

    A step solves for the multipliers that are not held at zero, in the orthant of their signs; one
    that would leave the orthant stops at zero. Where that does not converge, bounded quasi-Newton
    on both parts of the multipliers does.
    """
    labels = dual.at(multipliers)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = dual.gradient(labels)
        if np.all(np.abs(gradient) <= tol * dual.statements.sizes):
            return labels
        improved = _line_search(dual, labels, gradient, _newton_step(dual, labels, gradient))
        if improved is None:
            break
        labels = improved
    return bounded_quasi_newton(dual, labels.multipliers, tol)


def _newton_step(dual: LabelDual, labels: ExpectedLabels, gradient: Array) -> Array:
    active = (labels.multipliers != 0) | (gradient != 0)
    H = dual.hessian(labels.p)[np.ix_(active, active)]
    scale = np.sqrt(np.maximum(np.diag(H), SMALLEST_NORMAL))  # features may have any unit
    H = H / np.outer(scale, scale)
    H[np.diag_indices(len(H))] += 64 * EPS * len(H)  # statements that repeat each other
    scaled = gradient[active] / scale
    step = np.zeros_like(gradient)
    step[active] = -scipy.linalg.solve(H, scaled, assume_a="pos", check_finite=False) / scale
    return step


def _line_search(
    dual: LabelDual,
    labels: ExpectedLabels,
    gradient: Array,
    step: Array,
) -> ExpectedLabels | None:
    """Return the first of ever shorter steps that lowers the dual as its gradient predicts."""
    start = labels.multipliers
    orthant = np.where(start != 0, np.sign(start), -np.sign(gradient))
    slack = 8 * EPS * abs(labels.value)

    def attempt(length: float) -> ExpectedLabels | None:
        trial = start + length * step
        trial = np.where(np.sign(trial) == orthant, trial, 0.0)
        change = gradient @ (trial - start)
        if not change < 0:
            return None
        found = dual.at(trial)
        if found.value <= labels.value + SUFFICIENT_DECREASE * change + slack:
            return found
        return None

    return backtrack(attempt, max_attempts=MAX_HALVINGS)


def bounded_quasi_newton(dual: LabelDual, multipliers: Array, tol: float) -> ExpectedLabels:
    """Minimize the dual over g = a - b with a, b >= 0, in units in which features are shares.

    This is the fallback where Newton's method fails.
    """
    unit = 1 / dual.statements.sizes
    tolerance = unit * dual.statements.tolerance
    m = len(multipliers)

    def evaluate(parts: Array) -> tuple[float, Array]:
        difference = parts[:m] - parts[m:]
        labels = dual.at(unit * difference)
        g = unit * dual.smooth_gradient(labels)
        rest = float(tolerance @ (parts[:m] + parts[m:] - np.abs(difference)))
        return labels.value + rest, np.concatenate([g + tolerance, tolerance - g])

    scaled = multipliers / unit
    start = np.concatenate([np.maximum(scaled, 0), np.maximum(-scaled, 0)])
    box: list[Any] = [(0, None)] * (2 * m)
    found, _, _ = fmin_l_bfgs_b(
        evaluate,
        start,
        bounds=box,
        maxiter=2000,
        factr=10.0,
        pgtol=tol,
    )
    return dual.at(unit * (found[:m] - found[m:]))
