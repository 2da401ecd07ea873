"""Variances of innovations that change over time, found by how well each memory predicts them."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array

HALF_LIVES = (np.inf, 0.5, 0.25, 0.125)  # of what is remembered, as shares of all rows
MIN_HALF_LIFE = 6.0  # rows
CONSTANT_SHARE = 0.5  # of the prior
POWER = 0.5  # of the likelihood, since errors have heavier tails than normal ones


def local_variances(sums: Array, counts: Array) -> Array:
    """Return variances at each origin relative to the mean of all rows before it.

    Squared errors between origins are predicted by means of earlier ones whose weights fall by
    half over a half-life, or do not fall. Half-lives are weighted by their predictions so far.

    Parameters
    ----------
    sums : array of shape (n_origins, n_series)
        Of squared errors of the rows since the origin before.
    counts : array of the same shape
        Numbers of these rows.
    """
    n_origins, n_series = sums.shape
    total = counts.sum(axis=0).max()
    lives = [life * total for life in HALF_LIVES if life * total >= MIN_HALF_LIFE]
    scores = np.zeros((len(lives), n_series))
    prior = np.full(len(lives), (1 - CONSTANT_SHARE) / max(len(lives) - 1, 1))
    prior[0] = CONSTANT_SHARE
    weighted = np.zeros((len(lives), n_series))
    rows = np.zeros((len(lives), n_series))
    found = np.ones((n_origins, n_series))
    for k in range(n_origins):
        if k > 0:
            expected = weighted / np.maximum(rows, 1e-300)
            expected = np.maximum(expected, 1e-300)
            fit = counts[k] * np.log(expected) + sums[k] / expected
            scores -= POWER / 2 * np.where(rows > 0, fit, 0)
        kept = 0.5 ** (counts[k] / np.array(lives)[:, None])
        within = (1 + kept) / 2  # of the weight at the end, in the mean over these rows
        weighted = kept * weighted + within * sums[k]
        rows = kept * rows + within * counts[k]
        weights = softmax(scores + np.log(prior)[:, None], axis=0)
        variances = weighted / np.maximum(rows, 1e-300)
        overall = np.maximum(variances[0], 1e-300)
        found[k] = np.where(variances[0] > 0, (weights * variances).sum(axis=0) / overall, 1)
    return found
