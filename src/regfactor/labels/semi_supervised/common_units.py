"""Members that see the columns in common units: large columns count more, as for pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember


@frozen
class RescaledEnergies(ClassModel):
    """Energies of a model at rows whose columns are multiplied by factors."""

    model: ClassModel
    factors: Array

    def energies(self, rows: Any) -> Array:
        """Return an energy for each row and class."""
        return self.model.energies(rows * self.factors)


@frozen
class CommonUnitsMember(ClassMember):
    """A member fitted to columns that keep their deviations.

    Which columns matter is not known: if their units are common, the wide ones may carry the
    classes and the others noise, which standardized columns hide. Held-out labels decide.
    """

    kind: type[ClassMember]
    factors: Array  # deviation of each column, with mean square one

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the member, and how it sees the columns."""
        return f"{self.kind.name} in common units"

    def fit(self) -> FittedMember:
        """Return the fitted member, which takes standardized rows as the others do."""
        data = replace(self.data, rows=self.data.rows * self.factors)
        fitted = self.kind(data).fit()
        return replace(
            fitted,
            name=self.name,
            assumes=f"{fitted.assumes}; columns are not standardized",
            model=RescaledEnergies(fitted.model, self.factors),
        )
