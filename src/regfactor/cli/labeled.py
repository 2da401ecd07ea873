"""The result of labeling a table, for the terminal, the report and the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regfactor.cli.columns import Understood
from regfactor.cli.statements import Statement
from regfactor.cli.tables import Table, add_columns
from regfactor.cli.targets import Target
from regfactor.core.params import Array
from regfactor.model_selection.candidates import Contest
from regfactor.model_selection.cross_conformal import CrossFit, Intervals


@dataclass(frozen=True)
class Unit:
    """Center and scale by which the numbers of a regression are standardized."""

    center: float = 0.0
    scale: float = 1.0

    def restore(self, values: Array) -> Array:
        """Return standardized numbers in the units of the table."""
        return values * self.scale + self.center


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of all rows: positions of classes with their probabilities, or numbers."""

    values: Array
    probabilities: Array | None = None
    limits: Intervals | None = None

    @property
    def details(self) -> dict[str, Array]:
        """Columns that a labeled table gets next to its target."""
        if self.probabilities is not None:
            return {"probability": self.probabilities}
        if self.limits is not None:
            return {"lower": self.limits.lower, "upper": self.limits.upper}
        return {}


@dataclass(frozen=True, eq=False)
class Labeled:
    """A labeled table: the contest of models, the winner fitted, and its predictions."""

    seen: Understood
    target: Target
    statements: list[Statement]
    contest: Contest
    model: Any
    predicted: Predicted
    crossed: CrossFit | None
    learned: Array  # rows that the model was fitted to
    unit: Unit


def add_labels(
    out: Any,
    target: str,
    given: Array,
    details: Mapping[str, Array],
    table: Table,
) -> None:
    """Add which labels were given, and the details of the others, as columns after the target."""
    new: dict[str, Any] = {f"{target}_given": given}
    for end, values in details.items():
        cells = [table.cell(float(v)) for v in values]
        new[f"{target}_{end}"] = [
            None if known else cell for cell, known in zip(cells, given, strict=True)
        ]
    add_columns(out, new)
