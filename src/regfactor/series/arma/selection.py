"""Choice of what the data decide: the order, the shrinkage, and values in place of missing ones."""

from __future__ import annotations

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array
from regfactor.series.arma.model import Series, Varma
from regfactor.series.arma.problem import ArmaProblem, FittedModel
from regfactor.solvers.base import solve_within

SHRINKAGES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # the first is ridge VAR
SELECTION_TOL = 1e-3
VALIDATION_SHARE = 0.25  # of the rows, on which shrinkages are compared
MAX_COMPLETIONS = 5  # rounds of fitting and replacing missing entries


def largest_order(rows: int, n: int, inputs: int, lags: int) -> int:
    """Return the largest order that is tried, with at least two rows for each regressor.

    It is at most 12 (T/100)^1/4 (Schwert 1989).
    """
    if rows <= lags:
        return 0
    largest = int(12 * (rows / 100) ** 0.25)
    while largest > 0 and rows - max(largest, lags) < 2 * (largest * n + inputs + 1):
        largest -= 1
    return largest


def choose_order(problem: ArmaProblem, clock: Clock) -> int:
    """Return the order of least BIC among least-squares VARs up to that of the problem.

    All are fitted to the rows that the largest order leaves; units do not matter.
    """
    largest = problem.specification.p
    if largest == 0 or problem.design is None:
        return largest
    D = problem.design.D
    Y = problem.data.terms[0].x
    N, n = Y.shape
    others = D[:, largest * n :]
    scores: list[float] = []
    for p in range(largest + 1):
        if clock.expired and scores:
            break
        chosen = np.hstack([D[:, : p * n], others])
        residual = Y - chosen @ np.linalg.lstsq(chosen, Y, rcond=None)[0]
        _, log_det = np.linalg.slogdet(residual.T @ residual / N)
        scores.append(log_det + np.log(N) / N * n * chosen.shape[1])
    return int(np.argmin(scores))


def validation_losses(problem: ArmaProblem, max_radius: float | None, clock: Clock) -> Array:
    """Return the mean one-step loss of each shrinkage over the last quarter of the rows.

    Each model is fitted once to the rows before, and its filter then follows the series. Of a
    fit whose time is up, the shrinkages that were tried are returned.
    """
    series = problem.series
    specification = problem.specification
    start = specification.d + max(specification.p, specification.exog_lags)
    cut = max(int(len(series.levels) * (1 - VALIDATION_SHARE)), start + 2)
    head = ArmaProblem.of(series.head(cut), specification)
    losses: list[float] = []
    for shrinkage in SHRINKAGES if specification.q else SHRINKAGES[:1]:
        if clock.expired and losses:
            break
        candidate = head.shrunk(shrinkage)
        fitted = FittedModel.of(candidate, solve_roughly(candidate, clock), max_radius)
        inputs = series.U[cut - specification.d :]
        ahead = fitted.model.advance(fitted.past, series.levels[cut:], inputs)
        losses.append(mean_loss(fitted.model, ahead.predicted, ahead.completed))
    return np.array(losses)


def completed(problem: ArmaProblem, missing: Array, shrinkage: float, clock: Clock) -> ArmaProblem:
    """Return the problem of a series whose missing entries are replaced by fitted values.

    Fitting and replacing take turns. Of a differenced series the entries stay as they are: fitted
    differences do not add up to the levels after a gap.
    """
    if problem.specification.d:
        return problem
    for _ in range(MAX_COMPLETIONS):
        if clock.expired:
            break
        smoothed = problem.smoothed(solve_roughly(problem.shrunk(shrinkage), clock))
        levels = problem.series.levels.copy()
        start = len(levels) - len(smoothed)
        levels[start:] = np.where(missing[start:], smoothed, levels[start:])
        problem = ArmaProblem.of(Series.of(levels, problem.series.U), problem.specification)
    return problem


def solve_roughly(problem: ArmaProblem, clock: Clock) -> FactorPoint:
    """Return a solution that is good enough to compare models, within the time that is left."""
    limits = Limits(tol=SELECTION_TOL, time_limit=clock.left)
    return solve_within(problem, limits).point


def mean_loss(model: Varma, predicted: Array, seen: Array) -> float:
    """Return the mean loss of one-step predictions, in the units in which it was minimized."""
    if not model.loss.of_residual:
        return float(np.square(predicted - seen).mean())
    residual = (predicted - seen) / model.spread
    return float(model.loss.value(residual, np.zeros_like(residual)).mean())


def interpolated(X: Array) -> Array:
    """Return a series with missing entries on lines between neighbors, constant at the ends."""
    times = np.arange(len(X))
    out = X.copy()
    for column in out.T:
        missing = np.isnan(column)
        column[missing] = np.interp(times[missing], times[~missing], column[~missing])
    return out
