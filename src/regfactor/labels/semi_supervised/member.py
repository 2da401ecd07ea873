"""Members of a pool of classifiers: energies of classes, and how they become probabilities."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from regfactor.core.params import Array, frozen
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

    `held_out` are the energies of labeled rows by fits that did not use their labels.
    """

    name: str
    assumes: str
    uses_unlabeled: bool
    temperatures: tuple[float, ...]
    usual_temperature: float
    model: ClassModel
    energies: Array
    held_out: Array


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
        return FittedMember(
            self.name,
            self.assumes,
            self.uses_unlabeled,
            self.temperatures,
            self.usual_temperature,
            model,
            energies,
            held_out,
        )
