"""A row of the atlas: a factor model, a classical algorithm, and a quantity that agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.atlas.samples import Sample
from regfactor.core.params import Array, choose, text_table
from regfactor.norms import L1
from regfactor.penalties import AtomNorms, Free, Lasso, NonNegative, OneHot
from regfactor.tables.factor_model import FactorModel

HEADER = ("algorithm", "table", "model", "equals", "compared by")
STATED_PARAMETERS = ("loss", "gauge", "on_codes", "on_components", "rank", "map", "fit_intercept")
STATED_BY_SAMPLE = ("known_codes", "known_components", "alpha")  # as numbers of the sample
OTHER_MODELS = "other than one product"
CODES = (
    "free",
    "ridge, or a norm of Z",
    "sparse",
    "non-negative",
    "one of k",
    "known",
    OTHER_MODELS,
)
LOSS_KINDS = {
    "squared": "squared",
    "absolute": "robust or margin",
    "smoothed_hinge": "robust or margin",
}


@dataclass(frozen=True)
class Row:
    """`model` fitted to `table(sample)`: its quantity `ours` equals that of the `reference`."""

    name: str
    seen: str  # the table in words
    table: Callable[[Sample], Array]
    model: Any  # a FactorModel, or another estimator for the reason `why`
    quantity: str
    ours: Callable[[Any, Sample], Any]
    equals: str
    reference: Callable[[Sample], Any]
    weights: Callable[[Sample], Array] | None = None
    found: Callable[[Sample], dict[str, Any]] | None = None  # parameters that the sample decides
    note: str = ""
    why: str = ""  # FactorModel cannot state this algorithm

    def fitted(self, sample: Sample) -> Any:
        """Return the model fitted to a sample."""
        model = clone(self.model)
        if self.found is not None:
            model.set_params(**self.found(sample))
        if self.weights is None:
            return model.fit(self.table(sample))
        return model.fit(self.table(sample), sample_weight=self.weights(sample))

    def difference(self, sample: Sample | None = None) -> float:
        """Return the largest difference of both sides, relative to the largest reference value."""
        sample = sample or Sample()
        ours = np.asarray(self.ours(self.fitted(sample), sample))
        reference = np.asarray(self.reference(sample))
        return float(np.abs(ours - reference).max() / np.abs(reference).max())

    @property
    def stated(self) -> str:
        """The model by its loss, norm, penalties and rank, where they are not the defaults."""
        if not isinstance(self.model, FactorModel):
            return f"{type(self.model).__name__}"
        defaults = FactorModel().get_params(deep=False)
        parts = []
        for name, value in self.model.get_params(deep=False).items():
            if name in STATED_PARAMETERS and repr(value) != repr(defaults[name]):
                parts.append(f"{name}={value!r}")
        if self.found is not None:
            found = self.found(Sample())
            parts += [f"{name}=..." for name in STATED_BY_SAMPLE if name in found]
        return f"FactorModel({', '.join(parts)})"

    @property
    def codes(self) -> str:
        """The constraints on the codes, one of `CODES`."""
        if not isinstance(self.model, FactorModel):
            return OTHER_MODELS
        given = {}
        if self.found is not None:
            given = self.found(Sample())
        penalty = self.model.on_codes
        if "known_codes" in given and not isinstance(penalty, OneHot):
            return "known"
        match penalty:
            case Free():
                return "free"
            case OneHot():
                return "one of k"
            case NonNegative():
                return "non-negative"
            case Lasso() | AtomNorms(norm=L1()):
                return "sparse"
            case _:
                return "ridge, or a norm of Z"

    @property
    def loss(self) -> str:
        """The kind of the loss, one of `LOSS_KINDS`."""
        kind = getattr(self.model, "loss", getattr(self.model, "divergence", "squared"))
        if not isinstance(kind, str):
            return "different columns"
        return LOSS_KINDS.get(kind, "exponential family")

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row, in the order of the header."""
        return self.name, self.seen, self.stated, self.equals, self.quantity


@dataclass(frozen=True)
class Stranger:
    """An algorithm that is often listed with the others but is no regularized factor model."""

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
        lines = text_table([HEADER, *(row.cells for row in self.rows)])
        others = [f"{stranger.name}: {stranger.reason}" for stranger in self.strangers]
        return "\n".join([*lines, "", "Not members:", *others])

    def to_markdown(self) -> str:
        """Return the table, notes and strangers as Markdown."""
        lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
        for row in self.rows:
            name, table, model, equals, quantity = row.cells
            lines.append(f"| {name} | {table} | `{model}` | {equals} | {quantity} |")
        lines += ["", "Notes:", ""]
        lines += [f"- **{row.name}**: {row.note}" for row in self.rows if row.note]
        lines += ["", "Not stated by `FactorModel`, but by another estimator, and why:", ""]
        lines += [f"- **{row.name}**: {row.why}" for row in self.rows if row.why]
        lines += ["", "Not members:", ""]
        lines += [f"- **{stranger.name}**: {stranger.reason}" for stranger in self.strangers]
        return "\n".join([*lines, ""])
