"""Offsets that give predictions a stated balance of classes."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.expectation.label_expectations import LabelDual, expected_labels
from regfactor.labels.expectation.problem import Statements

MAX_COOLINGS = 30
STRENGTH = 1e9  # of the balance, in units of a row's spread: exact but for rounding
ACCURACY = 1e-6


def matching_offsets(F: Array, weights: Array, shares: Array) -> Array:
    """Return offsets of the columns of F by which its rows have given shares of classes.

    One column decides between two classes by its sign; several by the largest.
    """
    if F.shape[1] == 1:
        return np.array([-_threshold(F[:, 0], weights, shares[1])])
    total = weights.sum()
    spread = float(np.ptp(F)) or 1.0
    k = F.shape[1]
    features = np.full((len(F), 1), 1 / total)
    strength = np.full(k, STRENGTH * spread)
    balance = Statements(
        features,
        np.zeros(k, int),
        np.arange(k),
        shares,
        np.zeros(k),
        strength,
    )
    multipliers = np.zeros(k)
    for cooling in range(MAX_COOLINGS):
        dual = LabelDual(F, weights, balance, spread / 2**cooling)
        multipliers = expected_labels(dual, multipliers, ACCURACY).multipliers
        winners = (F + multipliers / total).argmax(axis=1)
        found = np.bincount(winners, weights, k) / total
        if np.abs(found - shares).max() * total < weights.max():  # as near as whole rows allow
            break
    return multipliers / total


def _threshold(f: Array, weights: Array, share: float) -> float:
    """Return a value that a share of the rows, as nearly as whole rows allow, lies above."""
    order = np.argsort(-f, kind="stable")
    ranked = f[order]
    mass = np.concatenate([[0.0], np.cumsum(weights[order])])
    count = int(np.argmin(np.abs(mass - share * weights.sum())))
    padded = np.concatenate([[ranked[0] + 1], ranked, [ranked[-1] - 1]])
    return float(padded[count] + padded[count + 1]) / 2
