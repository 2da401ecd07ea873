"""The deviance of a fit, and that of a model without components."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import xlogy

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import run
from regfactor.core.params import Array
from regfactor.losses import Squared
from regfactor.penalties import SquaredL2
from regfactor.problems import Data, Design, Factored
from regfactor.solvers.newton import newton_sweeps
from regfactor.solvers.starts import column_means, first_point, loss_of_means


def null_point(problem: Factored) -> tuple[FactorPoint, float]:
    """Return the best free terms without any component, and their loss."""
    null = replace(problem, rank=0, alpha=0.0)
    tol = (
        1e-9 if problem.data.dtype == np.float64 else 1e-5
    )  # what a sum of single numbers can show
    solution = run(newton_sweeps(null, first_point(null)), tol=tol, max_iter=200)
    return solution.point, solution.objective


def explained(data: Data, value: float, rows: Array | None, levels: bool) -> float:
    """Return one minus the deviance at a value over the least of intercepts alone, zero where that is perfect."""
    whole = data if rows is None else data.weighted(rows)
    if _at_ends(whole):
        return 0.0
    if levels or data.terms[0].offset is not None:
        extra_components = np.ones((1, data.shape[1])) if levels else None
        design = Design.intercept(data.shape[0], data.dtype)
        problem = Factored(
            data,
            SquaredL2(),
            SquaredL2(),
            row_weights=rows,
            design=design,
            extra_components=extra_components,
        )
        null = null_point(problem)[1]
    else:
        null = loss_of_means(whole)
    most = null - whole.infimum
    if most > _rounding(whole):
        return 1 - (value - whole.infimum) / most
    return 0.0


def loss_at(data: Data, Z: Factors, rows: Array | None) -> float:
    """Return the loss of all rows, each as often as its weight says."""
    values = data.layout.row_sums(data.expansion(Z)[0])
    return float(values.sum() if rows is None else rows @ values)


def level_constant(data: Data, rows: Array | None) -> float:
    """Return what counts with a free level for each row cost more than shares do: sum of N - N log N over totals N.

    Under weights of entries the first N's are weighted, so that a row of weight w counts w times.
    """
    t = data.terms[0]
    totals = data.layout.row_sums(t.x if t.w is None else (t.w > 0) * t.x)
    weighted = totals if t.w is None else data.layout.row_sums(t.w * t.x)
    values = weighted - xlogy(weighted, totals)
    return float(values.sum() if rows is None else rows @ values)


def _at_ends(data: Data) -> bool:
    """Whether every column is constant at an end of the range: predictors without bound then explain all."""
    (weight, means) = column_means(data)
    domain = data.terms[0].loss.domain
    return bool(np.all((weight == 0) | (means <= domain.low) | (means >= domain.high)))


def _rounding(data: Data) -> float:
    """Return a deviance that is rounding alone."""
    t = data.terms[0]
    if not isinstance(t.loss, Squared):
        return 1e-12 * abs(data.infimum)
    squares = np.square(t.x)
    return 1e-24 * float((squares if t.w is None else t.w * squares).sum())
