"""A regularized vector ARMA model of all series as a partner of the banks, with a fixed share."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from regfactor.core.params import Array, frozen
from regfactor.series.arma.estimator import RegularizedARMA
from regfactor.series.arma.model import forecast_variances
from regfactor.series.bank import BankState, MemberPaths, SeriesTable
from regfactor.series.bank_average import BankAverage
from regfactor.series.gap_filling import filled_gaps

SHARE = 0.15  # a share that is learned from past forecasts did not do better
MAX_SERIES = 20
MIN_ROWS = 24


def has_arma(table: SeriesTable) -> bool:
    """Return whether the model joins: it helps several series, through what they share."""
    return 1 < table.n_series <= MAX_SERIES and len(table.values) >= MIN_ROWS


@frozen
class ArmaBank:
    """A member of a pool: one convex problem for all series, with joint innovations."""

    table: SeriesTable
    name: str = "regularized ARMA"

    def fit(self) -> BankAverage:
        """Fit the model to all rows."""
        table = self.table
        values = table.values
        if np.isnan(values).any():
            units = table.units()
            filled = filled_gaps(units.standardized(values), table.season)
            values = units.restored(filled.means)
        inputs = table.inputs if table.inputs.shape[1] else None
        model = RegularizedARMA(season=table.season)
        with warnings.catch_warnings():
            # its forecasts are averaged, whether or not their last digits are certain
            warnings.simplefilter("ignore", ConvergenceWarning)
            # an iterative solver, whose last digits depend on the order in memory
            model.fit(np.ascontiguousarray(values), exog=inputs)
        state = ArmaState(model, table.trailing_gaps)
        n_series = table.n_series
        sizes = np.diag(model.sigma_)[None]
        unknown = np.full((0, table.origins.horizon, n_series), np.nan)
        return BankAverage(
            name=self.name,
            assumes="innovations that series share, and lags of all series",
            log_evidence=np.full(n_series, np.nan),
            weights=np.ones((1, n_series)),
            variances=sizes,
            means=unknown,
            spread=unknown,
            innovations=sizes,
            explosive=np.zeros(n_series, dtype=bool),
            state=state,
            share=SHARE,
        )


@frozen
class ArmaState(BankState):
    """The model after the last row."""

    model: Any
    trailing_gaps: Array

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecast of the model, steps counted from the last observed values."""
        given = inputs if inputs.shape[1] else None
        means = np.asarray(self.model.forecast(horizon, exog=given).mean)
        longest = int(self.trailing_gaps.max())
        growth = forecast_variances(
            self.model.impulse_response(longest + horizon - 1), self.model.sigma_
        )
        rows = [growth[gap : gap + horizon, j] for j, gap in enumerate(self.trailing_gaps)]
        return MemberPaths(means[None], np.stack(rows, axis=1)[None])

    def updated(self, rows: Array, inputs: Array) -> ArmaState:
        """Return the state after more rows; missing values are replaced by their forecasts."""
        given = inputs if inputs.shape[1] else None
        model = copy.copy(self.model).update(rows, exog=given)
        observed = ~np.isnan(rows)
        ending = np.argmax(observed[::-1], axis=0)
        gaps = np.where(observed.any(axis=0), ending, self.trailing_gaps + len(rows))
        return ArmaState(model, gaps)

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return zeros: the coefficients are taken for known."""
        return np.zeros((1, horizon, len(self.trailing_gaps)))

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        psi = self.model.impulse_response(horizon - 1)
        return np.diagonal(psi, axis1=1, axis2=2)[None]
