"""Members of a pool of classifiers: energies of classes, and how they become probabilities."""

from __future__ import annotations

import abc
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array, frozen
from regfactor.fitting.calibration import inverse_temperature
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows


class ClassModel(abc.ABC):
    """A fitted member: parameters, and the energies of new rows.

    Attributes
    ----------
    takes_given_rows : bool
        Whether it takes rows as the user gave them, not their coordinates.
    """

    takes_given_rows: ClassVar[bool] = False

    @abc.abstractmethod
    def energies(self, rows: Any) -> Array:
        """Return an energy for each row and class; the largest one is the most likely."""


@frozen
class FittedMember:
    """A fitted member, with energies of the rows it was fitted to.

    `held_out` are the energies of labeled rows by fits that did not use their labels, which chose
    the inverse temperature. `class_shares` are those of its predictions of unlabeled rows.
    """

    name: str
    assumes: str
    uses_unlabeled: bool
    temperature: float
    model: ClassModel
    energies: Array
    held_out: Array
    class_shares: Array

    @cached_property
    def held_out_proba(self) -> Array:
        """Probabilities of labeled rows by fits that did not use their labels."""
        found: Array = softmax(self.temperature * self.held_out, axis=1)
        return found


@frozen
class ClassMember(abc.ABC):
    """A model of classes, stated with its data.

    Energies are multiplied by an inverse temperature before they become probabilities: one of
    `temperatures`, near `usual_temperature` where labels are few.
    """

    name: ClassVar[str]
    assumes: ClassVar[str]
    uses_unlabeled: ClassVar[bool] = True
    temperatures: ClassVar[tuple[float, ...]]
    usual_temperature: ClassVar[float]

    data: LabeledRows

    @abc.abstractmethod
    def fit(self) -> FittedMember:
        """Return the fitted member."""

    def _fitted(self, model: ClassModel, energies: Array, held_out: Array) -> FittedMember:
        temperature = inverse_temperature(
            held_out,
            self.data.label_shares,
            self.data.label_weights,
            self.usual_temperature,
            np.array(self.temperatures),
        )
        return FittedMember(
            self.name,
            self.assumes,
            self.uses_unlabeled,
            temperature,
            model,
            energies,
            held_out,
            self._predicted_shares(energies),
        )

    def _predicted_shares(self, energies: Array) -> Array:
        """Return the shares of classes among predictions of unlabeled rows."""
        data = self.data
        codes = energies[data.unlabeled].argmax(axis=1)
        weights = data.weights[data.unlabeled]
        counts = np.bincount(codes, weights=weights, minlength=data.n_classes)
        return counts / max(counts.sum(), np.finfo(float).tiny)
