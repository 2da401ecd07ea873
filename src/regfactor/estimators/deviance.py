"""The deviance of a fit, that of a model without components, and likelihoods that have no maximum."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from regfactor._params import Array
from regfactor.estimators.families import FAINT
from regfactor.factors import Factors, Point
from regfactor.loop import run
from regfactor.losses import Gamma, Loss, Squared
from regfactor.penalties import SquaredL2
from regfactor.problems import Data, Design, Factored
from regfactor.solvers.newton import newton_sweeps
from regfactor.solvers.starts import first_point

NEARLY = 1e-6  # a mean this near to the edge of its range is a likelihood that grows for ever


def null_point(problem: Factored) -> tuple[Point, float]:
    """Return the best free terms without any component, an intercept among them, and their loss."""
    design = problem.design or Design.intercept(problem.data.shape[0], problem.data.dtype)
    null = replace(problem, rank=0, alpha=0.0, design=design)
    tol = 1e-9 if problem.data.dtype == np.float64 else 1e-5  # what a sum of single numbers can show
    solution = run(newton_sweeps(null, first_point(null)), tol=tol, max_iter=200)
    return solution.point, solution.objective


def explained(data: Data, Z: Factors, value: float, rows: Array | None, levels: bool) -> float:
    """Return one minus the deviance at Z over that of the best model without components; zero where that is perfect.

    `value` is the loss at Z, taken anew without the faint observations that stand at holes.
    """
    seen = _observed_only(data)
    value = value if seen is data else loss_at(seen, Z, rows)
    if levels or seen.terms[0].offset is not None:
        beside = np.ones((1, data.shape[1])) if levels else None
        null = null_point(Factored(seen, SquaredL2(), SquaredL2(), row_weights=rows, beside=beside))[1]
    else:
        null = _loss_of_means(seen, rows)
    least = seen.infimum if rows is None else seen.weighted(rows).infimum
    most = null - least
    return 1 - (value - least) / most if most > 1e-12 * abs(least) else 0.0


def loss_at(data: Data, Z: Factors, rows: Array | None) -> float:
    """Return the loss of all rows, each as often as its weight says."""
    values = data.layout.row_sums(data.expansion(Z)[0])
    return float(values.sum() if rows is None else rows @ values)


def _observed_only(data: Data) -> Data:
    """Return the data without the faint observations that stand at holes."""
    t = data.terms[0]
    if data.unbounded or t.w is None:
        return data
    return replace(data, terms=(replace(t, w=np.where(t.w > FAINT, t.w, 0)),))


def _loss_of_means(data: Data, rows: Array | None) -> float:
    """Return the loss of the best intercepts where nothing else is added to them: -sum_j w_j F*(mean_j) + constant."""
    t, layout = data.terms[0], data.layout
    weights = data.weighted(rows).terms[0].w if rows is not None else t.w
    w = np.ones_like(t.x) if weights is None else weights
    weight, total = layout.column_sums(w), layout.column_sums(w * t.x)
    seen = weight > 0
    means = total[seen] / weight[seen]
    if isinstance(t.loss, Squared):  # centered at the datum, unlike the others
        return float((layout.column_sums(w * np.square(t.x))[seen] - weight[seen] * means**2).sum()) / 2
    return -float(weight[seen] @ t.loss.conjugate(np.zeros_like(means), means))


def warn_of_unbounded(loss: Loss, Z: Array, stacklevel: int) -> None:
    """Warn of a likelihood that grows for ever, which only a penalty can stop."""
    if isinstance(loss, Squared | Gamma):
        return
    mean, most = loss.predict(Z), loss.domain.high
    if np.any(mean < NEARLY) or (np.isfinite(most) and np.any(mean > most - NEARLY)):
        warnings.warn(
            "The likelihood is unbounded: some entries are fitted perfectly by predictors that grow for ever. Give "
            "alpha > 0; the fit is where the solver stopped.",
            UserWarning,
            stacklevel=stacklevel,
        )
