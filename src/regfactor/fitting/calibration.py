"""Probabilities of classes from energies, at a temperature that held-out labels choose."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from regfactor.core.params import Array

INVERSE_TEMPERATURES = np.geomspace(1 / 64, 64, 97)
N_FOLDS = 5
NEVER = -1  # the fold of a label that is never held out


def label_folds(codes: Array, n_folds: int = N_FOLDS) -> Array:
    """Return the fold of each label: those of a class take turns, one that is alone is never held.

    The folds follow the order of the rows, without random numbers.
    """
    folds = np.full(len(codes), NEVER)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if len(members) > 1:
            folds[members] = np.arange(len(members)) % n_folds
    return folds


def inverse_temperature(
    energies: Array,
    codes: Array,
    weights: Array,
    center: float = 1.0,
) -> float:
    r"""max over beta of sum_i w_i log softmax(beta e_i)_{y_i} - (log beta - log center)^2.

    The maximum is that of a grid. Energies are those of held-out labels, a column for each class.
    The prior keeps beta near its center where there are few of them.
    """
    if not len(codes):
        return center
    scores = []
    for beta in INVERSE_TEMPERATURES:
        logs = log_softmax(beta * energies, axis=1)
        likelihood = weights @ np.take_along_axis(logs, codes[:, None], axis=1)[:, 0]
        scores.append(likelihood - np.log(beta / center) ** 2)
    return float(INVERSE_TEMPERATURES[int(np.argmax(scores))])


def both_classes(values: Array) -> Array:
    """Return energies of two classes from a decision function of one column."""
    if values.ndim == 1:
        values = values[:, None]
    if values.shape[1] == 1:
        return np.hstack([-values / 2, values / 2])
    return values
