"""Non-negative weights of members from entries that were held out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from regfactor.core.params import Array

PRIOR_CELLS = 600.0  # entries that speak for the weights of all columns, next to those of a column
HUBER_RATIO = 2.0  # residuals beyond this many root mean squares count less, as in Huber's loss
N_REWEIGHTINGS = 4
JITTER = 1e-6  # relative to the mean square of the predictions


def pooled_weights(predicted: Array, truth: Array, cell_weights: Array) -> Array:
    """min over w >= 0 of sum c h(y - P w), h Huber's loss; weights need not sum to one.

    Values are standardized, so that a sum below one shrinks to the mean of a column. Under squares
    one wild entry, which no member foresees, would decide.
    """
    n_members = predicted.shape[1]
    if not len(truth):
        return np.full(n_members, 1 / n_members)
    center = np.zeros(n_members)
    found = _solve(predicted, truth, cell_weights, center, 0.0)
    for _ in range(N_REWEIGHTINGS):
        counted = huber_weights(truth - predicted @ found, cell_weights)
        found = _solve(predicted, truth, counted, center, 0.0)
    return found


def huber_weights(residuals: Array, cell_weights: Array) -> Array:
    """Return the weights of entries, lower for those whose residuals are large."""
    total = cell_weights.sum()
    sizes = np.abs(residuals)
    if not total > 0 or not sizes.any():
        return cell_weights
    limit = HUBER_RATIO * np.sqrt(cell_weights @ np.square(residuals) / total)
    # the scale is that of the entries that count fully
    usual = sizes <= limit
    limit = HUBER_RATIO * np.sqrt(
        cell_weights[usual] @ np.square(residuals[usual]) / cell_weights[usual].sum()
    )
    return cell_weights * np.minimum(1.0, limit / np.maximum(sizes, 1e-300))


def column_weights(predicted: Array, truth: Array, cell_weights: Array, pooled: Array) -> Array:
    """min over w >= 0 of sum c (y - P w)^2 + k (tr(P'CP) / (m n_members)) |w - w0|^2.

    w0 are the weights of all columns, m is the number of entries and k = 600.
    """
    total = cell_weights.sum()
    if not total > 0:
        return pooled
    return _solve(predicted, truth, cell_weights, pooled, PRIOR_CELLS / total)


def _solve(
    predicted: Array, truth: Array, cell_weights: Array, center: Array, strength: float
) -> Array:
    weighted = predicted * cell_weights[:, None]
    moments = weighted.T @ predicted
    size = np.trace(moments) / len(center)
    if not size > 0:
        return center
    ridge = (strength + JITTER) * size
    factor = np.linalg.cholesky(moments + ridge * np.eye(len(center)))
    right = np.linalg.solve(factor, weighted.T @ truth + strength * size * center)
    return np.asarray(nnls(factor.T, right)[0])
