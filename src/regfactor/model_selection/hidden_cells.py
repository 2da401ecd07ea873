"""Errors of filled cells: known cells are hidden, filled, and compared with the truth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.core.params import Array, frozen
from regfactor.fitting.fallback import fit_or_default

HIDDEN_SHARE = 0.1  # of the observed cells
MIN_CELLS = 5  # of a column, hidden and left, from which on its error means something
MAX_ROWS = 5_000


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


def hide_and_fill(X: Any, imputer: Any, random_state: int) -> HiddenCells:
    """Hide a tenth of the known cells of a frame, fit a clone with the chosen strength, compare.

    Parameters
    ----------
    X : pandas.DataFrame
    imputer : fitted estimator with `complete`, `codes_` and `alpha_`
    random_state : int

    Returns
    -------
    HiddenCells
    """
    random = np.random.default_rng(random_state)
    if len(X) > MAX_ROWS:
        X = X.iloc[np.sort(random.choice(len(X), MAX_ROWS, replace=False))]
    known = X.notna().to_numpy()
    hidden = known & (random.random(X.shape) < HIDDEN_SHARE)
    kept = known & ~hidden
    usable = []
    for j in range(X.shape[1]):
        if _is_usable(X.iloc[:, j], kept[:, j], hidden[:, j]):
            usable.append(j)
        else:
            hidden[:, j] = False
    if not usable:
        return HiddenCells(0, {})
    masked = X.mask(hidden)
    # the trace norm of a sample grows with the root of its size
    alpha = imputer.alpha_ * np.sqrt(len(X) / len(imputer.codes_))
    again = clone(imputer).set_params(alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the trial fit; the final one reports its own
        fit_or_default(again, masked)
        filled = again.complete(masked)
    columns = {}
    for j in usable:
        columns[str(X.columns[j])] = _column_error(
            X.iloc[:, j],
            masked.iloc[:, j],
            filled.iloc[:, j],
            hidden[:, j],
        )
    return HiddenCells(int(hidden.sum()), columns)


def _is_usable(column: Any, kept: Array, hidden: Array) -> bool:
    if kept.sum() < MIN_CELLS or hidden.sum() < MIN_CELLS:
        return False
    return bool(column[kept].nunique() >= 2)


def _column_error(truth: Any, known: Any, filled: Any, at: Array) -> ColumnError:
    """Return the errors of one column in its hidden cells."""
    n_cells = int(at.sum())
    if truth.dtype.kind == "f":
        error = np.sqrt(np.mean((truth[at] - filled[at]) ** 2))
        simple_error = np.sqrt(np.mean((truth[at] - known.mean()) ** 2))
        return ColumnError(float(error), float(simple_error), n_cells)
    most_frequent = known.mode().iloc[0]
    error = np.mean(truth[at].astype(object) != filled[at].astype(object))
    simple_error = np.mean(truth[at].astype(object) != most_frequent)
    return ColumnError(float(error), float(simple_error), n_cells)
