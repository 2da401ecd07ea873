"""Logistic regression of classes on features of rows, with a calibrated temperature."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from regfactor.core.params import Array, frozen
from regfactor.fitting.calibration import (
    NEVER_HELD_OUT,
    both_classes,
    inverse_temperature,
    label_folds,
)

MAX_STEPS = 1000


@frozen
class LogisticReadout:
    """Decision values F @ coef + intercept, one column for two classes, else one for each."""

    coef: Array
    intercept: Array

    def __call__(self, F: Array) -> Array:
        """Return the decision values of features."""
        return F @ self.coef + self.intercept

    def times(self, factor: float) -> LogisticReadout:
        """Return the readout with decision values multiplied by a number."""
        return LogisticReadout(self.coef * factor, self.intercept * factor)


def logistic_readout(F: Array, codes: Array, weights: Array) -> LogisticReadout:
    """min over W, b of sum_i w_i (-log p_i) + |W|^2 / 2, calibrated by held-out labels.

    All classes must have a label. The decision values of labels in five folds, each predicted
    without its fold, choose the temperature by which the values of the whole fit are multiplied.
    """
    shares = np.eye(int(codes.max()) + 1)[codes]
    folds = label_folds(shares)
    held = np.flatnonzero(folds != NEVER_HELD_OUT)
    whole = _regression(F, codes, weights)
    if not len(held):
        return whole
    energies = np.zeros_like(shares)
    for fold in range(folds.max() + 1):
        out = folds == fold
        part = _regression(F[~out], codes[~out], weights[~out])
        energies[out] = both_classes(part(F[out]))
    return whole.times(inverse_temperature(energies[held], shares[held], weights[held]))


def _regression(F: Array, codes: Array, weights: Array) -> LogisticReadout:
    n_features = F.shape[1]
    if not n_features:
        F = np.zeros((len(F), 1))
    model = LogisticRegression(max_iter=MAX_STEPS).fit(F, codes, sample_weight=weights)
    return LogisticReadout(model.coef_.T[:n_features], model.intercept_)
