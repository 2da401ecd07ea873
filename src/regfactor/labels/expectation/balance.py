"""Offsets that give predictions a stated balance of classes: the p-step on decision values, cooled to zero."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.expectation.problem import Statements
from regfactor.labels.expectation.pstep import Dual, expected_labels

COOLINGS = 30
STRENGTH = 1e9  # of the balance, in units of a row's spread: exact but for rounding
ACCURACY = 1e-6


def matching_offsets(F: Array, weights: Array, shares: Array) -> Array:
    """Return what to add to each column of F, so that the shares of classes among its rows are as given.

    One column decides between two classes by its sign; several by the largest.
    """
    total = float(weights.sum())
    if F.shape[1] == 1:
        order = np.argsort(-F[:, 0], kind="stable")
        ranked = F[order, 0]
        mass = np.cumsum(weights[order])
        wanted = int(np.argmin(np.abs(np.concatenate([[0.0], mass]) - shares[1] * total)))
        above = ranked[wanted - 1] if wanted else ranked[0] + 1
        below = ranked[wanted] if wanted < len(ranked) else ranked[-1] - 1
        return np.array([-(above + below) / 2])
    spread = float(np.ptp(F)) or 1.0
    k = F.shape[1]
    u = len(F)
    balance = Statements(
        np.full((u, 1), 1 / total),
        np.zeros(k, int),
        np.arange(k),
        shares,
        np.zeros(k),
        np.full(k, STRENGTH * spread),
    )
    gamma = np.zeros(k)
    for cooling in range(COOLINGS):
        gamma = expected_labels(Dual(F, weights, balance, spread / 2**cooling), gamma, ACCURACY)[1]
        shifted = F + gamma / total
        found = np.bincount(shifted.argmax(axis=1), weights, k) / total
        if np.abs(found - shares).max() * total < weights.max():  # as near as whole rows allow
            break
    return gamma / total
