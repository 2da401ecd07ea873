"""Probabilities of classes from energies, at a temperature that held-out labels choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax

from regfactor.core.params import Array, frozen

# down to those of densities exp(-rho D) of thousands of columns, as of words
INVERSE_TEMPERATURES = np.geomspace(1 / 4096, 64, 145)
PRIOR_DEVIATION = np.sqrt(0.5)  # of the logarithm
PRIOR_DEGREES = 4.0
N_FOLDS = 5
NEVER_HELD_OUT = -1  # the fold of a label that is in every fit


class Temperature:
    """An inverse temperature, found when it is first asked for; what is saved is the number.

    Fits without some of the labels cost several times the fit with all of them, which is not
    wanted where nobody asks for probabilities.
    """

    def __init__(self, found: float | Callable[[], float]) -> None:
        self._found = found

    @property
    def value(self) -> float:
        """The number; data that it is found from are kept until then."""
        found = self._found
        if callable(found):
            found = found()
            self._found = found
        return found

    def __getstate__(self) -> dict[str, float]:
        """Return the number alone."""
        return {"_found": self.value}


def label_folds(shares: Array, n_folds: int = N_FOLDS) -> Array:
    """Return the fold of each label: 0, 1, ... in turn over the labels in the order of classes.

    `shares` are those of the classes in each label, a unit vector for a plain label. Labels of one
    class are in different folds as far as possible, and where each class has few, a fold holds out
    labels of some classes only: every fit has nearly all labels. A class with a single label keeps
    it in every fit; of a class that soft labels of one fold alone give a share to, the first of
    them is kept. No random numbers are used.
    """
    codes = shares.argmax(axis=1)
    is_held_out = np.bincount(codes, minlength=shares.shape[1])[codes] > 1
    order = np.argsort(codes, kind="stable")
    order = order[is_held_out[order]]
    folds = np.full(len(codes), NEVER_HELD_OUT)
    folds[order] = np.arange(len(order)) % n_folds
    for of_class in shares.T:
        sharing = np.flatnonzero(of_class)
        if len(sharing) and np.ptp(folds[sharing]) == 0:
            folds[sharing[0]] = NEVER_HELD_OUT
    return folds


def inverse_temperature(
    energies: Array,
    shares: Array,
    weights: Array,
    center: float = 1.0,
    grid: Array = INVERSE_TEMPERATURES,
) -> float:
    r"""max over beta of sum_i w_i s_i . log softmax(beta e_i) + log p(log beta - log center).

    The maximum is that of a grid. Energies are those of held-out labels, a column for each class,
    and s_i the shares of the classes in label i. The prior p keeps beta near its center where there
    are few of them; it is Student's, whose tails leave a beta far away to a few labels.
    """
    logs = log_softmax(grid[:, None, None] * energies, axis=2)
    likelihoods = np.einsum("bic,ic,i->b", logs, shares, weights)
    distances = np.square(np.log(grid / center) / PRIOR_DEVIATION)
    prior = -0.5 * (PRIOR_DEGREES + 1) * np.log1p(distances / PRIOR_DEGREES)
    return float(grid[np.argmax(likelihoods + prior)])


@frozen
class HeldOutEnergies:
    """Energies of held-out labels, a column for each class, and the shares of classes in them."""

    energies: Array
    shares: Array
    weights: Array

    def temperature(self, center: float) -> float:
        """Return the inverse temperature at which the labels are most likely."""
        return inverse_temperature(self.energies, self.shares, self.weights, center)

    def log_likelihood(self, temperature: float) -> float:
        """Return the log-likelihood of the labels at an inverse temperature."""
        logs = log_softmax(temperature * self.energies, axis=1)
        return float(np.einsum("ic,ic,i->", logs, self.shares, self.weights))


def both_classes(values: Array) -> Array:
    """Return energies of two classes from a decision function of one column."""
    if values.ndim == 1:
        values = values[:, None]
    if values.shape[1] == 1:
        return np.hstack([-values / 2, values / 2])
    return values
