"""The weight C of labeled rows, chosen by exact leave-one-out on the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array

WEIGHTS = (1.0, 3.0, 10.0, 30.0)  # that are compared, rising
MAX_LABELS = 1000  # that are left out; of more, so many spread evenly


def select_label_weight(X: Any, codes: Array, weights: Array, n_classes: int) -> float:
    """Return the C under which most labels are right when they are left out, the largest of equals.

    Labels are predicted by the least squares machine |f|^2/2 + C sum_i w_i (1 - y_i f(x_i))^2 of
    the labeled rows. With (K + 1/(2 C w)) alpha + 1 b = Y and 1'alpha = 0, alpha = P Y, the value
    without row i misses Y_i by alpha_i / P_ii.
    """
    step = -(-len(codes) // MAX_LABELS)
    X = X[::step]
    codes = codes[::step]
    weights = weights[::step]
    K = X @ X.T
    if is_sparse(K):
        K = K.toarray()
    Y = 2.0 * (codes[:, None] == np.arange(n_classes)) - 1
    best = WEIGHTS[0]
    most = -np.inf
    for C in WEIGHTS:
        inverse = scipy.linalg.inv(K + np.diag(1 / (2 * C * weights)), check_finite=False)
        sums = inverse.sum(axis=0)
        P = inverse - np.outer(sums, sums / sums.sum())
        left_out = Y - P @ Y / P.diagonal()[:, None]
        right = float(weights @ (left_out.argmax(axis=1) == codes))
        if right >= most:
            most = right
            best = C
    return best
