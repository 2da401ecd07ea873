"""The deviance of a fit, and that of a model without components."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import xlogy

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Solution, run
from regfactor.core.params import Array
from regfactor.losses import Squared
from regfactor.penalties import SquaredL2
from regfactor.problems import Data, Design, Factored
from regfactor.solvers.newton import newton_sweeps
from regfactor.solvers.starts import column_means, first_point, loss_of_means

MAX_NULL_SWEEPS = 200
# Tolerances of the null model: smaller changes are rounding in a sum of such numbers.
NULL_TOL = {8: 1e-9, 4: 1e-5}


def null_solution(problem: Factored) -> Solution[FactorPoint]:
    """Return the best free terms of a problem without any component."""
    null = replace(problem, rank=0, alpha=0.0)
    tol = NULL_TOL[problem.data.dtype.itemsize]
    return run(newton_sweeps(null, first_point(null)), tol=tol, max_iter=MAX_NULL_SWEEPS)


def deviance_explained(
    data: Data,
    loss: float,
    rows: Array | None,
    levels: bool,
    regressors: Array | None = None,
) -> float:
    """1 - deviance / deviance of intercepts and covariates alone; zero where these are perfect.

    `loss` is that of the fit, and `levels` states whether rows have free levels.
    """
    weighted = weighted_rows(data, rows)
    if _at_ends(weighted):
        return 0.0
    if levels or regressors is not None or data.terms[0].offset is not None:
        null = null_solution(_free_terms_alone(data, rows, levels, regressors)).objective
    else:
        null = loss_of_means(weighted)
    explicable = null - weighted.infimum
    if explicable <= _rounding(weighted):
        return 0.0
    return 1 - (loss - weighted.infimum) / explicable


def weighted_rows(data: Data, rows: Array | None) -> Data:
    """Return the data with the weights of rows multiplied in."""
    if rows is None:
        return data
    return data.weighted(rows)


def _free_terms_alone(
    data: Data,
    rows: Array | None,
    levels: bool,
    regressors: Array | None,
) -> Factored:
    n, d = data.shape
    D = np.ones((n, 1), data.dtype)
    if regressors is not None:
        D = np.hstack([D, regressors.astype(data.dtype)])
    return Factored(
        data,
        SquaredL2(),
        SquaredL2(),
        row_weights=rows,
        design=Design(D),
        extra_components=np.ones((1, d)) if levels else None,
    )


def loss_of_rows(data: Data, Z: Factors, rows: Array | None) -> float:
    """Return the weighted sum of the losses of rows."""
    return _weighted_sum(data.layout.row_sums(data.expansion(Z)[0]), rows)


def level_constant(data: Data, rows: Array | None) -> float:
    """sum of N - N log N over the totals N of rows: the loss of free levels above that of shares.

    Under weights of entries the first N's are weighted, since weights act as repetition counts.
    """
    t = data.terms[0]
    if t.w is None:
        totals = data.layout.row_sums(t.x)
        weighted = totals
    else:
        totals = data.layout.row_sums((t.w > 0) * t.x)
        weighted = data.layout.row_sums(t.w * t.x)
    return _weighted_sum(weighted - xlogy(weighted, totals), rows)


def _weighted_sum(values: Array, rows: Array | None) -> float:
    if rows is None:
        return float(values.sum())
    return float(rows @ values)


def _at_ends(data: Data) -> bool:
    """Return whether every column is constant at an end of the range.

    Unbounded predictors of intercepts alone then explain everything.
    """
    weight, means = column_means(data)
    domain = data.terms[0].loss.domain
    at_end = (means <= domain.low) | (means >= domain.high)
    return bool(np.all(at_end | (weight == 0)))


def _rounding(data: Data) -> float:
    """Return a deviance that is rounding alone."""
    t = data.terms[0]
    if not isinstance(t.loss, Squared):
        return 1e-12 * abs(data.infimum)
    squares = np.square(t.x)
    if t.w is not None:
        squares = t.w * squares
    return 1e-24 * float(squares.sum())
