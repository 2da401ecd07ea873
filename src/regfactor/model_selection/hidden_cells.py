"""Errors of filled cells: known cells that were hidden from a fit, compared with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import frozen

MIN_CELLS = 5  # of a column, from which on its error means something


@dataclass(frozen=True)
class ColumnError:
    """The error in the hidden cells of a column, next to that of its mean or most frequent value.

    Root mean squared errors of numbers, shares of wrong values of other columns; `gain` is the
    share by which the model's error is smaller.
    """

    error: float
    simple_error: float
    n_cells: int

    @property
    def gain(self) -> float:
        """The share by which the error is smaller than without a model."""
        if self.simple_error > 0:
            return 1 - self.error / self.simple_error
        return 0.0


@frozen
class HiddenCells:
    """Errors of an imputer in hidden cells, by column."""

    n_cells: int
    columns: dict[str, ColumnError]

    @property
    def better(self) -> list[str]:
        """The columns in which the model beats the mean or the most frequent value."""
        return [name for name, column in self.columns.items() if column.gain > 0]

    @property
    def mean_gain(self) -> float:
        """The mean gain over columns."""
        return float(np.mean([column.gain for column in self.columns.values()]))

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.columns:
            return "There were too few cells to hide some and evaluate how well they are filled."
        if self.mean_gain <= 0:
            return (
                f"On {self.n_cells} known cells that were hidden, it did no better than the mean "
                "or the most frequent value of the column: the columns carry little information "
                "about each other."
            )
        return (
            f"On {self.n_cells} known cells that were hidden, errors were {self.mean_gain:.0%} "
            "smaller than those of the mean or the most frequent value, over all columns; it did "
            f"better in {len(self.better)} of {len(self.columns)}."
        )


def held_out_cells(imputer: Any) -> HiddenCells:
    """Return the errors of the entries that a fitted `AutoImputer` held out itself.

    Parameters
    ----------
    imputer : fitted AutoImputer

    Returns
    -------
    HiddenCells
    """
    columns = {}
    total = 0
    for name, found in imputer.held_out_.items():
        total += found.n_cells
        if found.n_cells >= MIN_CELLS:
            columns[str(name)] = ColumnError(found.error, found.simple_error, found.n_cells)
    return HiddenCells(total, columns)
