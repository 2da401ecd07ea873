"""min over v, b of mean loss + |v|^2: support vector machines with an unpenalized offset."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from regfactor.core.params import Array, warn

SHORTENINGS = 40
LIBSVM_STEPS = 1000  # steps of libsvm, which moves two numbers at a time, for one of max_iter


def hinge(
    Phi: Array,
    y: Array,
    intercept: bool,
    tol: float,
    max_iter: int,
) -> tuple[Array, float, int]:
    """min mean max(0, 1 - y (Phi v + b)) + |v|^2 through its dual, a quadratic program: libsvm."""
    size = np.sqrt(2 * len(y))
    limit = LIBSVM_STEPS * max_iter
    if not intercept:  # liblinear: libsvm always has an offset
        machine = LinearSVC(
            C=1.0,
            loss="hinge",
            fit_intercept=False,
            tol=tol,
            max_iter=limit,
            random_state=0,
        )
        machine.fit(Phi / size, y)
        return machine.coef_[0] / size, 0.0, int(machine.n_iter_)
    machine = SVC(C=1.0, kernel="linear", tol=tol, max_iter=limit).fit(Phi / size, y)
    return machine.coef_[0] / size, float(machine.intercept_[0]), int(machine.n_iter_[0])


def squared_hinge(
    Phi: Array,
    y: Array,
    intercept: bool,
    tol: float,
    max_iter: int,
) -> tuple[Array, float, int]:
    """min mean max(0, 1 - y (Phi v + b))^2 + |v|^2 by Newton's method.

    A step is a least-squares fit to the rows inside the margin.
    """
    v = np.zeros(Phi.shape[1])
    b = 0.0
    slack = np.maximum(1 - y * (Phi @ v + b), 0)
    value = float(np.mean(slack**2) + v @ v)
    for steps in range(max_iter):
        inside = slack > 0
        if not inside.any():
            return v, b, steps
        target_v, target_b = _least_squares(Phi[inside], y[inside], len(y), intercept)
        step = target_v - v
        shift = target_b - b
        length = 1.0
        for _ in range(SHORTENINGS):
            trial = v + length * step
            offset = b + length * shift
            slack = np.maximum(1 - y * (Phi @ trial + offset), 0)
            new = float(np.mean(slack**2) + trial @ trial)
            if new <= value:
                break
            length /= 2
        else:
            return v, b, steps  # rounding is all that is left
        settled = value - new <= tol**2 * value and length == 1.0
        v = trial
        b = offset
        value = new
        if settled or (length == 1.0 and np.array_equal(inside, slack > 0)):
            return v, b, steps + 1
    message = "Newton's method did not reach tol; raise max_iter, or scale the inputs."
    warn(message, ConvergenceWarning)
    return v, b, max_iter


def _least_squares(Phi: Array, y: Array, alpha: float, intercept: bool) -> tuple[Array, float]:
    """min |y - Phi v - b|^2 + alpha |v|^2, in whichever of rows and columns there are fewer of."""
    center = np.zeros(Phi.shape[1])
    mean = 0.0
    if intercept:
        center = Phi.mean(axis=0)
        mean = float(y.mean())
    A = Phi - center
    r = y - mean
    wide = A.shape[1] > A.shape[0]
    G = A @ A.T if wide else A.T @ A
    G[np.diag_indices(len(G))] += alpha
    solved = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(G, check_finite=False),
        r if wide else A.T @ r,
    )
    v = A.T @ solved if wide else solved
    return v, mean - float(center @ v)
