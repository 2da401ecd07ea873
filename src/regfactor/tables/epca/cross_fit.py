"""Entries of a training table as fits without them predict them, and the leverages of entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.loop import Limits
from regfactor.core.params import Array
from regfactor.fitting.leverage import HeldOutEntries, leverages
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.problems import Convex, Data, Factored
from regfactor.solvers.base import solve_within
from regfactor.solvers.starts import first_point
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.inputs import EpcaInputs
from regfactor.tables.epca.problem import convex_problem, factored_problem
from regfactor.tables.epca.row_scoring import RowScoring, fit_rows

N_FOLDS = 4
FOLD_SHARE = 0.125  # of the entries, so that what is missing in a fold is near to what is missing
COMPARISON_LIMITS = Limits(tol=1e-3, max_iter=200)


def cross_fitted(
    inputs: EpcaInputs,
    problem: Convex | Factored,
    fit_intercept: bool,
) -> HeldOutEntries:
    """Return observed entries as fits without them predict them, some of each of four folds."""
    table = with_missing_as_nan(inputs.given.table).astype(np.float64)
    folds = np.random.default_rng(0).integers(round(1 / FOLD_SHARE), size=table.shape)
    parts = [
        _without(inputs, problem, fit_intercept, table, folds == fold) for fold in range(N_FOLDS)
    ]
    return HeldOutEntries.stacked(parts)


def _without(
    inputs: EpcaInputs,
    problem: Convex | Factored,
    fit_intercept: bool,
    table: Array,
    hidden: Array,
) -> HeldOutEntries:
    """Return hidden entries as a fit to the others predicts them."""
    given = inputs.given
    masked = WeightedTable(
        np.where(hidden, np.nan, table),
        given.row_weights,
        None if given.entry_weights is None else with_missing_as_nan(given.entry_weights),
        given.offset,
        given.regressors,
    )
    data = inputs.observation.data(masked.learned)
    part = EpcaInputs(masked, masked.learned, inputs.observation, data, None, inputs.names)
    # of as many more entries, signal is as much stronger
    alpha = problem.alpha * (1 - FOLD_SHARE)
    if isinstance(problem, Convex):
        stated: Any = convex_problem(part, alpha, fit_intercept)
        point = solve_within(stated, COMPARISON_LIMITS).point
    else:
        levels = problem.extra_components is not None
        stated = factored_problem(part, alpha, problem.rank, fit_intercept, levels)
        point = solve_within(stated, COMPARISON_LIMITS, first_point(stated)).point
    fit = fit_rows(part, stated, point, fit_intercept)
    Z = fit.codes @ fit.components + fit.intercept + fit.level[:, None]
    every = fit.scoring.data(masked)
    leverage = row_leverages(fit.scoring, every, Z)
    added = fit.scoring.added(masked)
    if added is not None:
        Z = Z + added
    rows, columns = np.nonzero(hidden & ~np.isnan(table))
    cells = rows, columns
    return HeldOutEntries(rows, columns, table[cells], Z[cells], leverage[cells])


def row_leverages(scoring: RowScoring, data: Data, Z: Array) -> Array:
    """Return the variances of predictors, without their offsets, given the entries of their row."""
    C = scoring.C.astype(np.float64)
    ridge = np.asarray(scoring.ridge, np.float64)
    if scoring.levels:
        C = np.vstack([C, np.ones((1, C.shape[1]))])
        ridge = np.append(ridge, 0.0)
    if not len(C):
        return np.zeros(data.shape)
    return leverages(data.astype(np.float64), Z.astype(np.float64), C, ridge)
