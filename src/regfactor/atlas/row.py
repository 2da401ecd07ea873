"""A row of the atlas: a factor model, a classical algorithm, and the quantity in which they are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.atlas.samples import Sample
from regfactor.core.params import Array, choose
from regfactor.tables.factor_model import FactorModel

HEAD = ("algorithm", "table", "model", "equals", "compared by")


@dataclass(frozen=True)
class Row:
    """`model` fitted to `table(sample)`, of which `ours` takes a quantity that `reference` has too."""

    name: str
    seen: str  # the table in words
    table: Callable[[Sample], Array]
    model: FactorModel
    quantity: str
    ours: Callable[[FactorModel, Sample], Any]
    equals: str
    reference: Callable[[Sample], Any]
    weights: Callable[[Sample], Array] | None = None
    found: Callable[[Sample], dict[str, Any]] | None = None  # parameters that the sample decides
    note: str = ""

    def fitted(self, sample: Sample) -> FactorModel:
        """Return the model fitted to a sample."""
        weights = None if self.weights is None else self.weights(sample)
        found = {} if self.found is None else self.found(sample)
        return clone(self.model).set_params(**found).fit(self.table(sample), sample_weight=weights)

    def difference(self, sample: Sample | None = None) -> float:
        """Return the largest difference between the two sides, relative to the largest number on the right."""
        sample = sample or Sample()
        left, right = (
            np.atleast_1d(side)
            for side in (self.ours(self.fitted(sample), sample), self.reference(sample))
        )
        return float(np.abs(left - right).max() / np.abs(right).max())

    @property
    def stated(self) -> str:
        """The model by what differs from the defaults that matter: loss, norm or penalties."""
        shown = ("loss", "gauge", "on_codes", "on_components", "rank")
        defaults = FactorModel().get_params(deep=False)
        stated = {
            name: value
            for name, value in self.model.get_params(deep=False).items()
            if name in shown
        }
        parts = [f"{name}={value!r}" for name, value in stated.items() if value != defaults[name]]
        return f"FactorModel({', '.join(parts)})"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row in words, in the order of the head."""
        return self.name, self.seen, self.stated, self.equals, self.quantity


@dataclass(frozen=True)
class Stranger:
    """An algorithm that is often named with the others, and why it is no regularized factor model."""

    name: str
    reason: str


@dataclass(frozen=True)
class Atlas:
    """All rows and strangers; `atlas["PCA"]` is a row, `str(atlas)` the table."""

    rows: tuple[Row, ...]
    strangers: tuple[Stranger, ...]

    def __getitem__(self, name: str) -> Row:
        return choose(name, {row.name: row for row in self.rows}, "algorithm")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __str__(self) -> str:
        lines = [HEAD, *(row.cells for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in lines)
        others = "\n".join(f"{stranger.name}: {stranger.reason}" for stranger in self.strangers)
        return f"{body}\n\nNot members:\n{others}"

    def to_markdown(self) -> str:
        """Return the table, notes and strangers as Markdown."""
        head = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        lines = [
            f"| {row.name} | {row.seen} | `{row.stated}` | {row.equals} | {row.quantity} |"
            for row in self.rows
        ]
        notes = [f"- **{row.name}**: {row.note}" for row in self.rows if row.note]
        others = [f"- **{stranger.name}**: {stranger.reason}" for stranger in self.strangers]
        return (
            "\n".join([*head, *lines, "", "Notes:", "", *notes, "", "Not members:", "", *others])
            + "\n"
        )
