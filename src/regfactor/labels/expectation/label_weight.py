"""The weight C of labeled rows: whom left-out labels trust, the labels or the unlabeled rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Limits
from regfactor.core.params import Array, frozen
from regfactor.fitting.calibration import label_folds
from regfactor.fitting.labels import most_likely
from regfactor.labels.expectation.annealing import Annealing
from regfactor.labels.expectation.problem import Expectation
from regfactor.solvers.base import solve_within

WEIGHTS = (1.0, 3.0, 10.0, 30.0)  # that are compared, rising
MAX_LABELS = 1000  # that are left out; of more, so many spread evenly
HELD_OUT_FITS = 2


@frozen
class LabelsAlone:
    """The C at which labels alone predict each other best, and which are right when left out.

    `rows` are the labels that were left out, by their numbers among all labels.
    """

    C: float
    rows: Array
    right: Array


def select_label_weight(problem: Expectation, annealing: Annealing, limits: Limits) -> float:
    """Return C' if unlabeled rows predict left-out labels better than labels do, else more.

    Compared are fits in which all rows count alike, without half of the labels each, and the least
    squares machine of the labels alone. Where these are worse by more than a standard error, C is
    C', where better, the C of that machine, and else the smallest of WEIGHTS. More than two
    classes, each against the rest, seldom have a gap there: C is that of the labels alone.
    """
    labeled = np.flatnonzero(problem.codes >= 0)
    codes = problem.codes[labeled]
    weights = problem.weights[labeled]
    alone = labels_alone(problem.X[labeled], codes, weights, problem.n_classes)
    C = alone.C
    if problem.n_classes == 2 and problem.uses_unlabeled:
        gain = _gain_of_unlabeled(problem, labeled, alone, annealing, limits)
        if gain > 1:
            C = problem.C_unlabeled
        elif gain >= -1:
            C = WEIGHTS[0]
    return max(C, problem.C_unlabeled)


def labels_alone(X: Any, codes: Array, weights: Array, n_classes: int) -> LabelsAlone:
    """Return the C under which most labels are right when they are left out, the largest of equals.

    Labels are predicted by the least squares machine |f|^2/2 + C sum_i w_i (1 - y_i f(x_i))^2 of
    the labeled rows. With (K + 1/(2 C w)) alpha + 1 b = Y and 1'alpha = 0, alpha = P Y, the value
    without row i misses Y_i by alpha_i / P_ii.
    """
    step = -(-len(codes) // MAX_LABELS)
    rows = np.arange(0, len(codes), step)
    X = X[rows]
    codes = codes[rows]
    weights = weights[rows]
    K = X @ X.T
    if is_sparse(K):
        K = K.toarray()
    Y = 2.0 * (codes[:, None] == np.arange(n_classes)) - 1
    best = LabelsAlone(WEIGHTS[0], rows, np.zeros(len(rows), bool))
    for C in WEIGHTS:
        inverse = scipy.linalg.inv(K + np.diag(1 / (2 * C * weights)), check_finite=False)
        sums = inverse.sum(axis=0)
        P = inverse - np.outer(sums, sums / sums.sum())
        left_out = Y - P @ Y / P.diagonal()[:, None]
        right = left_out.argmax(axis=1) == codes
        if weights @ right >= weights @ best.right:
            best = LabelsAlone(C, rows, right)
    return best


def _gain_of_unlabeled(
    problem: Expectation,
    labeled: Array,
    alone: LabelsAlone,
    annealing: Annealing,
    limits: Limits,
) -> float:
    """Return how many more labels are right by fits in which rows count alike than by labels alone.

    The unit is the standard error of that number if both were equally good: the square root of the
    number of labels of which only one of the two is right. A held-out label has no weight.
    """
    codes = problem.codes[labeled]
    folds = label_folds(np.eye(problem.n_classes)[codes], HELD_OUT_FITS)
    right = np.zeros(len(labeled), bool)
    for fold in range(folds.max() + 1):
        out = folds == fold
        weights = problem.weights.copy()
        weights[labeled[out]] = 0
        alike = replace(problem, C=problem.C_unlabeled, weights=weights)
        point = solve_within(alike, limits, solver=annealing).point
        right[out] = most_likely(point.values[labeled[out]]) == codes[out]
    is_compared = folds[alone.rows] >= 0
    rows = alone.rows[is_compared]
    differences = right[rows] * 1.0 - alone.right[is_compared]
    weights = problem.weights[labeled[rows]]
    if not differences.any():
        return 0.0
    return float(weights @ differences / np.sqrt(weights @ np.square(differences)))
