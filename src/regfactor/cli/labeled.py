"""What comes of labeling a table: said on the terminal, drawn in the report, written to the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regfactor.cli.candidates import Contest
from regfactor.cli.columns import Understood
from regfactor.cli.conformal import CrossFit
from regfactor.cli.statements import Statement
from regfactor.cli.targets import Target
from regfactor.core.params import Array


@dataclass(frozen=True, eq=False)
class Labeled:
    """All that came of it: the contest, the model, what it says of every row, and of labeled ones it had not seen."""

    seen: Understood
    target: Target
    statements: list[Statement]
    contest: Contest
    model: Any
    values: Array  # classes as positions, or numbers
    sure: Array | None  # probabilities of the classes said
    limits: tuple[Array, Array] | None
    crossed: CrossFit | None
    learned: Array  # rows that the model was fitted to
    center: float = 0.0
    scale: float = 1.0
