"""The objective of published factors, in double precision, and the deviance they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.factors import Factors
from regfactor.losses import Multinomial
from regfactor.problems import Convex, Factored
from regfactor.tables.epca.deviance import deviance_explained, level_constant, loss_of_rows
from regfactor.tables.epca.inputs import EpcaInputs
from regfactor.tables.epca.problem import counted_columns
from regfactor.tables.epca.row_scoring import FittedRows


@dataclass(frozen=True)
class FittedValues:
    """The objective, the share of the deviance explained, and a constant of the likelihood.

    The objective that a solver reports is larger by `constant`.
    """

    objective: float
    explained: float
    constant: float = 0.0


def fitted_values(
    fit: FittedRows,
    inputs: EpcaInputs,
    problem: Convex | Factored,
    fit_intercept: bool,
) -> FittedValues:
    """Return the values of a fit on the rows that were learned from."""
    learned = inputs.learned
    rows = learned.row_weights
    counted = inputs.given.counted
    data = inputs.data.astype(np.float64)
    codes = fit.codes[counted].astype(np.float64)
    C = fit.components.astype(np.float64)
    b = fit.intercept.astype(np.float64)[None]
    one = np.ones((len(codes), 1))
    level = fit.level[counted, None]
    wide = np.hstack([codes, one, level])
    Z = Factors(wide, np.vstack([C, b, np.ones_like(b)]))
    loss = loss_of_rows(fit.scoring.shifted(data, learned.regressors), Z, rows)
    observed = data
    observed_loss = loss
    if not data.unbounded:
        # missing entries hold placeholders, which explain nothing
        observed = data.kept(learned.entries.dense.w > 0)
        observed_loss = loss_of_rows(observed, Z, rows)
    explained = deviance_explained(
        observed,
        observed_loss,
        rows,
        fit.scoring.levels,
        learned.regressors,
    )
    if isinstance(problem, Convex):
        columns = counted_columns(inputs, fit_intercept)
        F = Factors(codes / problem.map.diagonal, C[:, columns])
        B = b[:, columns] if fit_intercept else None
        if fit.scoring.slopes is not None:
            B = np.vstack([b[: int(fit_intercept)], fit.scoring.slopes.astype(np.float64)])
        return FittedValues(problem.astype(np.float64).objective(F, B), explained)
    constant = 0.0
    if isinstance(inputs.observation.loss, Multinomial):
        constant = level_constant(data, rows)
    of_codes = learned.weights @ np.square(codes).sum(axis=1)
    squares = float(of_codes + np.square(C).sum())
    objective = loss - constant + problem.alpha / 2 * squares
    return FittedValues(objective, explained, constant)
