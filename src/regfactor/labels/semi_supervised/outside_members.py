"""Regressors of scikit-learn as members of a pool, judged by targets that they were not given."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.kernel_members import RepresentedTable, TargetColumn

N_FOLDS = 5


def folds_of(column: TargetColumn) -> Array:
    """Return the fold of each row with a target; every fold holds small and large targets."""
    n_folds = min(N_FOLDS, len(column.values))
    folds = np.empty(len(column.values), int)
    folds[np.argsort(column.values, kind="stable")] = np.arange(len(folds)) % n_folds
    return folds


@frozen
class OutsideFit:
    """A regressor fitted to one target, and predictions of it in folds that it was not given.

    Predictions are in units of the deviation of the target.
    """

    regressor: Any
    held_out: Array


@frozen
class FittedOutsideMember:
    """A regressor with a fit for each target."""

    name: str
    assumes: str
    fits: list[OutsideFit]


@frozen
class OutsideMember:
    """A regressor that is fitted to the rows with targets as they were given."""

    name: str
    regressor: Any
    table: RepresentedTable
    columns: list[TargetColumn]

    def fit(self) -> FittedOutsideMember:
        """Return the regressor fitted to each target, and without each fold of it."""
        assumes = f"{type(self.regressor).__name__}; rows without targets are not used"
        try:
            fits = [self._fit(column) for column in self.columns]
        except (TypeError, ValueError) as error:
            n_rows = min(len(column.values) for column in self.columns)
            raise ValueError(
                f"The member {self.name!r} failed ({n_rows} rows with targets, fewer in folds): "
                f"{error}"
            ) from error
        return FittedOutsideMember(self.name, assumes, fits)

    def _fit(self, column: TargetColumn) -> OutsideFit:
        folds = folds_of(column)
        held_out = np.zeros(len(folds))
        rows = self.table.table[column.positions]
        for fold in range(folds.max() + 1):
            test = folds == fold
            if not test.all():
                held_out[test] = self._fitted(rows, column, ~test).predict(rows[test])
        if not np.isfinite(held_out).all():
            raise ValueError("predictions of held-out rows are not finite")
        return OutsideFit(self._fitted(rows, column, np.ones(len(folds), bool)), held_out)

    def _fitted(self, rows: Any, column: TargetColumn, chosen: Array) -> Any:
        regressor = clone(self.regressor)
        options = {}
        weights = column.weights[chosen]
        if has_fit_parameter(regressor, "sample_weight") and (weights != 1).any():
            options["sample_weight"] = weights
        return regressor.fit(rows[chosen], column.values[chosen], **options)
