"""Choice of what the data decide: orders, season, ridge, shrinkage, and missing values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array, frozen
from regfactor.series.arma.criteria import Criterion, bic
from regfactor.series.arma.missing_cells import cell_posterior
from regfactor.series.arma.model import Series, Varma, regressors
from regfactor.series.arma.problem import ArmaProblem, FittedModel, MinnesotaRidge, Specification
from regfactor.series.bank import N_WAVES, season_waves
from regfactor.series.ridge_evidence import RidgePosterior
from regfactor.solvers.base import solve_within

SHRINKAGES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # the first is ridge VAR
TIGHTNESSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MIN_NOISE = 1e-6  # variance of errors relative to that of the series
FREE_DEVIATION = 1e3  # of the intercept in the evidence, in deviations of errors
SELECTION_TOL = 1e-3
VALIDATION_SHARE = 0.25  # of the rows, on which shrinkages are compared
MAX_COMPLETIONS = 4  # rounds of fitting and replacing missing entries


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


@frozen
class Orders:
    """Differences, lags, the season (1 for none) and how many of its waves a model has."""

    d: int
    p: int
    season: int = 1
    n_waves: int = N_WAVES

    def waves(self, rows: Array) -> Array:
        """Return the waves of the season at given rows."""
        return season_waves(self.season, rows, self.n_waves)


def choose_orders(
    levels: Array,
    U: Array,
    candidates: Sequence[Orders],
    fewer_lags: bool,
    specification: Specification,
    clock: Clock,
    criterion: Criterion = bic,
) -> Orders:
    """Return the orders of least criterion among least-squares VARs.

    With `fewer_lags` a candidate is tried with all numbers of lags up to its own. All are fitted to
    the rows that the largest order leaves. Errors of differences are those of levels, so that they
    compare.
    """
    most = max(orders.d + max(orders.p, specification.exog_lags) for orders in candidates)
    n_rows = len(levels) - most
    best = candidates[0]
    least = np.inf
    for orders in candidates:
        if clock.expired and np.isfinite(least):
            break
        scores = _scores_of_orders(levels, U, orders, specification, n_rows, criterion)
        if not fewer_lags:
            scores[: orders.p] = np.inf
        p = int(np.argmin(scores))
        if scores[p] < least:
            least = scores[p]
            best = replace(orders, p=p)
    return best


def _scores_of_orders(
    levels: Array,
    U: Array,
    orders: Orders,
    specification: Specification,
    n_rows: int,
    criterion: Criterion,
) -> Array:
    """Return the criterion of 0, 1, ..., p lags, from one factorization of all regressors.

    It is infinite where there are fewer than two rows for each regressor.
    """
    X = np.diff(levels, n=orders.d, axis=0)
    n = X.shape[1]
    rows = regressors(X, U[orders.d :], orders.p, specification.exog_lags, specification.intercept)[
        -n_rows:
    ]
    n_lagged = orders.p * n
    waves = orders.waves(np.arange(len(levels) - n_rows, len(levels)))
    Q = np.linalg.qr(np.concatenate([rows[:, n_lagged:], waves, rows[:, :n_lagged]], axis=1))[0]
    n_first = rows.shape[1] - n_lagged + waves.shape[1]
    Y = X[-n_rows:]
    left = Y - Q[:, :n_first] @ (Q[:, :n_first].T @ Y)
    scores = np.full(orders.p + 1, np.inf)
    for p in range(orders.p + 1):
        n_coefficients = n_first + p * n
        if p > 0:
            if 2 * n_coefficients > n_rows:
                break
            block = Q[:, n_coefficients - n : n_coefficients]
            left = left - block @ (block.T @ left)
        elif 2 * n_first > n_rows and orders.season > 1:
            break
        _, log_det = np.linalg.slogdet(left.T @ left / n_rows)
        scores[p] = criterion(float(log_det), n_rows, n, n_coefficients)
    return scores


def best_minnesota(problem: ArmaProblem) -> MinnesotaRidge:
    """Return the prior of largest evidence, with W = 0.

    The evidence is that of `RidgePosterior`, summed over series.
    """
    specification = problem.specification
    best = MinnesotaRidge(1.0, False, 1.0)
    if problem.design is None:
        return best
    largest = -np.inf
    X = (problem.series.X - problem.units.center) / problem.units.spread
    n_series = X.shape[1]
    D = problem.design.D
    start = len(X) - len(D)
    noise = _noise(D, X[start:])
    gram = D.T @ D
    n_inputs = D.shape[1] - specification.intercept - specification.p * n_series
    walks = [False]
    if specification.d == 0 and specification.p > 0:
        walks.append(True)
    for walk, tightness in itertools.product(walks, TIGHTNESSES):
        ridge = MinnesotaRidge(tightness, walk, noise)
        Y = X[start:]
        if walk:
            Y = Y - X[start - 1 : -1]
        deviations = 1 / np.sqrt(ridge.strengths(specification.p, n_series, n_inputs))
        if specification.intercept:
            deviations = np.append(deviations, FREE_DEVIATION)
        posterior = RidgePosterior.of(
            gram,
            D.T @ Y,
            np.square(Y).sum(axis=0),
            deviations,
        )
        evidence = float(posterior.log_evidence(len(D), np.zeros(n_series)).sum())
        if evidence > largest:
            largest = evidence
            best = ridge
    return best


def _noise(D: Array, Y: Array) -> float:
    """Return the mean variance of least-squares errors of standardized series, at most 1."""
    free = len(D) - D.shape[1]
    if free <= 0:
        return 1.0
    left = Y - D @ np.linalg.lstsq(D, Y, rcond=None)[0]
    return float(np.clip(np.square(left).sum() / (free * Y.shape[1]), MIN_NOISE, 1.0))


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


def completed(
    problem: ArmaProblem,
    missing: Array,
    shrinkage: float,
    max_radius: float | None,
    clock: Clock,
) -> ArmaProblem:
    """Return the problem of a series whose missing entries are replaced by their expected values.

    Fitting and the smoother of `cell_posterior` take turns, from straight lines on.
    """
    sigma: Array | None = None
    for _ in range(MAX_COMPLETIONS):
        if clock.expired:
            break
        candidate = problem.shrunk(shrinkage)
        fitted = FittedModel.of(candidate, solve_roughly(candidate, clock), max_radius)
        series = problem.series
        seen = np.where(missing, np.nan, series.levels)
        if sigma is None:
            residuals = series.X[fitted.model.start :] - fitted.predicted
            sigma = residuals.T @ residuals / len(residuals)
        # inputs before the first difference have no effect
        U = np.concatenate([np.zeros((problem.specification.d, series.U.shape[1])), series.U])
        cells = cell_posterior(fitted.model, seen, U, sigma)
        sigma = cells.innovations
        problem = ArmaProblem.of(
            Series.of(cells.means, U, problem.specification.d), problem.specification
        )
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
