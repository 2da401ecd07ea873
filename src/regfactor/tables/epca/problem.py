"""Exponential-family principal components as a convex or a factored problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.params import Array
from regfactor.losses import Multinomial
from regfactor.maps import RowScale
from regfactor.penalties import SquaredL2, Trace
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.tables.epca.inputs import EpcaInputs

# Distance of the intercept of a column without a count below the others: a share of e^-50.
ABSENT_COLUMN_DEPTH = 50.0


def convex_problem(inputs: EpcaInputs, alpha: float, fit_intercept: bool) -> Convex:
    """Return the problem whose rank is left to the trace norm."""
    data = inputs.data
    if isinstance(inputs.observation.loss, Multinomial):
        data = _whole_rows(inputs, fit_intercept)
    design = design_of(data, fit_intercept, inputs.learned.regressors)
    rows = inputs.learned.row_weights
    if rows is None:
        return Convex(data, Trace(), alpha, design=design)
    scale = RowScale((rows**-0.5).astype(data.dtype))
    return Convex(data.weighted(rows), Trace(), alpha, scale, design)


def factored_problem(
    inputs: EpcaInputs,
    alpha: float,
    rank: int,
    fit_intercept: bool,
    levels: bool,
) -> Factored:
    """Return the problem at a given number of components, with or without free levels of rows."""
    data = inputs.data
    n, d = data.shape
    if rank > min(n, d):
        raise ValueError(
            f"n_components={rank} is more than min(n_samples, n_features): n_samples = {n}, "
            f"n_features = {d}."
        )
    return Factored(
        data,
        SquaredL2(),
        SquaredL2(),
        rank,
        alpha,
        row_weights=inputs.learned.row_weights,
        design=design_of(data, fit_intercept, inputs.learned.regressors),
        extra_components=np.ones((1, d), data.dtype) if levels else None,
    )


def design_of(data: Data, fit_intercept: bool, regressors: Array | None) -> Design | None:
    """Return the free terms of rows: intercepts first, then covariates."""
    D = np.ones((data.shape[0], int(fit_intercept)), data.dtype)
    if regressors is not None:
        D = np.hstack([D, regressors.astype(data.dtype)])
    if not D.shape[1]:
        return None
    return Design(D)


def _whole_rows(inputs: EpcaInputs, fit_intercept: bool) -> Data:
    """Return rows of counts under the loss that couples their entries, without a free level."""
    learned = inputs.learned
    held = learned.entries.dense
    observed = held.w > 0
    if np.any(observed.any(axis=1) != observed.all(axis=1)):
        raise ValueError(
            "family='multinomial' with n_components=None learns from rows that are observed whole "
            "or not at all: fill the missing entries, leave these rows out, or give a number of "
            "components, under which entries may be missing."
        )
    columns = counted_columns(inputs, fit_intercept)
    offset = learned.offset
    if offset is not None:
        offset = np.broadcast_to(offset, held.x.shape)[:, columns]
    weights = None
    if learned.entry_weights is not None:
        weights = held.w[:, columns]
    counts = np.where(observed, held.x, held.x.dtype.type(np.nan))
    return Data.of(counts[:, columns], inputs.observation.loss, weights, offset)


def counted_columns(inputs: EpcaInputs, fit_intercept: bool) -> Any:
    """Return the columns that a convex fit is made of.

    With intercepts the share of a column without a count is zero, which is reached only at minus
    infinity.
    """
    if not (fit_intercept and isinstance(inputs.observation.loss, Multinomial)):
        return slice(None)
    held = inputs.learned.entries
    counted = held.layout.column_sums(held.observed * held.x) > 0
    if counted.all() or not counted.any():
        return slice(None)
    return counted


def with_all_columns(point: FactorPoint, inputs: EpcaInputs) -> FactorPoint:
    """Return a point with the columns that were left out: no component, a very low intercept."""
    F = point.factors
    B = point.coefficients
    width = inputs.given.table.shape[1]
    if B is None or B.shape[1] == width:
        return point
    columns = counted_columns(inputs, fit_intercept=True)
    C = np.zeros((F.rank, width), F.C.dtype)
    C[:, columns] = F.C
    intercepts = np.full((len(B), width), B.min() - ABSENT_COLUMN_DEPTH, B.dtype)
    intercepts[:, columns] = B
    return FactorPoint(Factors(F.codes, C), intercepts)
