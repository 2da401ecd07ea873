"""The result of labeling a table, for the terminal, the report and the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regfactor.cli.columns import Understood
from regfactor.cli.statements import Statement
from regfactor.cli.targets import Target
from regfactor.core.params import Array
from regfactor.model_selection.candidates import Contest
from regfactor.model_selection.cross_conformal import CrossFit, Intervals


@dataclass(frozen=True)
class Unit:
    """Center and scale by which the numbers of a regression are standardized."""

    center: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of all rows: positions of classes with their probabilities, or numbers."""

    values: Array
    probabilities: Array | None = None
    limits: Intervals | None = None


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
