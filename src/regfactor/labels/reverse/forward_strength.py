"""The strength of the ridge in a forward model f(x W + b), chosen by held-out targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array
from regfactor.fitting.targets import ForwardModel
from regfactor.labels.reverse.transfer_regressor import RegressionInputs
from regfactor.solvers.base import solve_within

SHARES = (1.0, 0.1, 1e-2, 1e-3, 1e-4)  # of the mean sum of squares of a feature
FEW_SHARE = 1e-2  # where there are too few targets to hold some out
MIN_TARGETS = 4
N_FOLDS = 5
FORWARD_TOL = 1e-6
MAX_FORWARD_STEPS = 100


def select_forward_alpha(inputs: RegressionInputs, clock: Clock) -> float:
    """Return the alpha whose forward model of the labeled rows predicts held-out targets best.

    Strengths are shares of the mean sum of squares of a feature, so that units do not matter.
    """
    Y = inputs.targets.table
    rows = np.flatnonzero((inputs.weights > 0) & ~np.isnan(Y).any(axis=1))
    features = inputs.features[rows]
    weights = inputs.weights[rows]
    if not len(rows):
        features = inputs.features
        weights = inputs.weights
    size = _mean_square(features, weights, inputs.fit_intercept)
    if len(rows) < MIN_TARGETS or not size > 0:
        return FEW_SHARE * (size or 1.0)
    whole = ForwardModel(
        features,
        Y[rows],
        weights,
        inputs.potential,
        1.0,
        inputs.fit_intercept,
    )
    best = SHARES[0]
    least = np.inf
    for share in SHARES:
        error = _held_out_error(replace(whole, alpha=share * size), clock)
        if error < least:
            least = error
            best = share
    return best * size


def _mean_square(features: Array, weights: Array, centered: bool) -> float:
    """Return the weighted sum of squares of a feature, about its mean or zero, on average."""
    if centered:
        features = features - np.average(features, axis=0, weights=weights)
    return float(weights @ np.square(features).sum(axis=1) / max(features.shape[1], 1))


def _held_out_error(model: ForwardModel, clock: Clock) -> float:
    """Return the weighted squared error of targets that each fold predicts without its own."""
    folds = np.arange(len(model.Y)) % min(N_FOLDS, len(model.Y))
    error = 0.0
    for fold in np.unique(folds):
        out = folds == fold
        part = replace(
            model,
            features=model.features[~out],
            Y=model.Y[~out],
            weights=model.weights[~out],
        )
        limits = Limits(FORWARD_TOL, MAX_FORWARD_STEPS, clock.left)
        linear = part.linear(solve_within(part.problem, limits).point.coefficients)
        predicted = model.potential.transfer(model.features[out] @ linear.coef + linear.intercept)
        missed = np.square(predicted - model.Y[out]).sum(axis=1)
        error += float(model.weights[out] @ missed)
    return error
