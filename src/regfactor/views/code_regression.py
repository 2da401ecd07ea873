"""One view predicted from the other by the codes of a factor model under a normal prior.

phi = argmin sum_j f((phi C + b)_j; x_j) + (t/2) phi' M^-1 phi over the entries of the given view,
with M the second moments of the codes of the fit. Where codes are correlated, the full M is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen
from regfactor.fitting.conformal import PredictionInterval, conformal_quantile
from regfactor.fitting.parameters import check_level
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.side_by_side import ViewUnits
from regfactor.losses import Loss
from regfactor.penalties import SquaredL2

# strengths t of the prior that are tried, in units of the fit
PRIOR_STRENGTHS = 10.0 ** np.arange(-4, 1.25, 0.5)
MOMENT_RIDGE = 1e-10  # of the largest second moment


def second_moment(codes: Array, rows: Array | None) -> Array:
    """Return the mean of phi phi' over rows by their weights."""
    if rows is None:
        return codes.T @ codes / len(codes)
    if len(rows) != len(codes):
        rows = rows[rows > 0]
    return (codes.T * rows) @ codes / rows.sum()


@frozen
class CodeModel:
    """Components of a factor model of two views, the moments of its codes, and the view predicted.

    `columns` are those of that view, in a table of both side by side.
    """

    loss: Loss
    components: Array
    intercept: Array
    moment: Array
    units: ViewUnits
    columns: slice

    def predict(self, table: Array, strength: float) -> Array:
        """Return one view of the rows of a table of both, in the units of the data."""
        values, vectors = scipy.linalg.eigh(self.moment, check_finite=False)
        values = np.maximum(values, MOMENT_RIDGE * max(values.max(initial=0.0), 1e-300))
        # in codes of second moment one the prior is a ridge
        C = (vectors * np.sqrt(values)).T @ self.components
        score = Scoring(self.loss, SquaredL2(), strength, self.units.column_weights)
        scaled = self.units.divide(table.astype(np.float64))
        intercept = self.intercept.astype(np.float64)
        Z = score(scaled, C, intercept) @ C + intercept
        out = np.empty_like(Z)
        for columns, loss in self.loss.parts(Z.shape[1]):
            out[:, columns] = loss.predict(Z[:, columns])
        return (out * self.units.divisor)[:, self.columns]


def best_prior(model: CodeModel, table: Array, truth: Array) -> float:
    """Return the strength of the prior that predicts held-out views best, in units of the fit."""
    scale = model.units.divisor[model.columns]
    errors = []
    for strength in PRIOR_STRENGTHS:
        differences = (model.predict(table, strength) - truth) / scale
        errors.append(np.nanmean(np.square(differences)))
    return float(PRIOR_STRENGTHS[int(np.argmin(errors))])


@frozen
class CodeRegression:
    """Predictions by codes; `residuals` are those of held-out views."""

    model: CodeModel
    strength: float
    residuals: Array

    def predict(self, X: Any) -> Array:
        """Return the other view; missing entries of X are NaN."""
        X = np.asarray(X, np.float64)
        table = np.full((len(X), len(self.model.intercept)), np.nan)
        given = np.ones(table.shape[1], bool)
        given[self.model.columns] = False
        table[:, given] = X
        return self.model.predict(table, self.strength)

    def interval(self, X: Any, level: float) -> PredictionInterval:
        """Return limits that hold for a share `level` of new rows, in each column."""
        check_level(level)
        middle = self.predict(X)
        widths = np.empty(middle.shape[1])
        for j, column in enumerate(self.residuals.T):
            widths[j] = conformal_quantile(np.abs(column[~np.isnan(column)]), level)
        return PredictionInterval(middle - widths, middle + widths)
