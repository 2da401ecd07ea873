"""From a series to a vector ARMA model: its convex problem, its solution in the units of the data, and its orders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.loop import Solution
from regfactor.core.params import Array
from regfactor.losses import Loss, Squared
from regfactor.maps import Lags
from regfactor.norms import L2
from regfactor.penalties import Rows, Trace
from regfactor.problems import Convex, Data, Design
from regfactor.series.arma.kalman import MovingAverage
from regfactor.series.arma.model import Past, Varma, radius, regressors
from regfactor.solvers import Fista, solve
from regfactor.solvers.douglas_rachford import DouglasRachford

SHRINKAGES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # the first is ridge VAR
SELECTION_TOL = 1e-3
LAST_SHARE = 0.25  # of the rows, on which shrinkages are compared
GAUSSIAN_MAD = 0.6744897501960817  # median absolute deviation of a standard Gaussian
ROUNDS = 5  # of fitting and filling holes


@dataclass(frozen=True)
class Plan:
    """What is fitted: orders, strengths and the loss."""

    p: int
    q: int
    d: int
    lags: int
    intercept: bool
    ridge: float
    loss: Loss
    shocks: bool
    standardize: bool
    max_radius: float | None


@dataclass(frozen=True, eq=False)
class Series:
    """A series with its inputs; X are the d-th differences of its levels."""

    levels: Array
    X: Array
    U: Array

    @staticmethod
    def of(levels: Array, U: Array, d: int) -> Series:
        """Difference a series; an input stands beside the difference that ends at its time."""
        return Series(levels, np.diff(levels, n=d, axis=0), U[d:])

    def head(self, rows: int) -> Series:
        """Return the first rows."""
        cut = len(self.levels) - len(self.X)
        return Series(self.levels[:rows], self.X[: rows - cut], self.U[: rows - cut])


@dataclass(frozen=True, eq=False)
class Units:
    """Centers and spreads that make series and inputs comparable; `out` and `shift` turn a predictor back."""

    center: Array
    spread: Array
    u_center: Array
    u_spread: Array
    out: Array
    shift: Array

    @staticmethod
    def of(series: Series, plan: Plan) -> Units:
        """Measure mean and deviation, robustly under a robust loss; about zero where no intercept takes up the mean."""
        robust = plan.loss.of_residual and not isinstance(plan.loss, Squared)
        center, spread = (_medians if robust else _moments)(series.X, plan)
        u_center, u_spread = _moments(series.U, plan)
        if plan.loss.of_residual:
            return Units(center, spread, u_center, u_spread, spread, center)
        return Units(
            center,
            spread,
            u_center,
            u_spread,
            np.ones_like(spread),
            np.zeros_like(center),
        )


def _moments(X: Array, plan: Plan) -> tuple[Array, Array]:
    n = X.shape[1]
    if not plan.standardize:
        return np.zeros(n), np.ones(n)
    center = X.mean(axis=0) if plan.intercept else np.zeros(n)
    spread = np.sqrt(np.square(X - center).mean(axis=0))
    return center, np.where(spread > 0, spread, 1.0)


def _medians(X: Array, plan: Plan) -> tuple[Array, Array]:
    """Return the median, and the median absolute deviation in units of a Gaussian's; moments where that is zero."""
    center, spread = _moments(X, plan)
    if not plan.standardize:
        return center, spread
    center = np.median(X, axis=0) if plan.intercept else center
    deviation = np.median(np.abs(X - center), axis=0) / GAUSSIAN_MAD
    return center, np.where(deviation > 0, deviation, spread)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model with the problem it solves, how well it is solved, and what the data say in its terms."""

    model: Varma
    problem: Convex
    solution: Solution[Any]
    kappa: Array
    freedom: float
    radius: float  # as it was estimated
    scaled: bool
    predicted: Array  # one-step, of all rows with history
    smoothed: Array  # fitted with all innovations, in the units of the data
    past: Past
    shocks: Array


def stated(series: Series, plan: Plan) -> tuple[Convex, Units]:
    """Return the problem at alpha = 1: 1/2 |Y - D B - S(W)|^2 + (ridge/2) |B|^2 + alpha |||W|||, in its units."""
    units = Units.of(series, plan)
    X = (series.X - units.center) / units.spread
    U = (series.U - units.u_center) / units.u_spread
    D = regressors(X, U, plan.p, plan.lags, plan.intercept)
    Y = (X if plan.loss.of_residual else series.X)[len(X) - len(D) :]
    held = D.shape[1] - plan.intercept
    strengths = np.zeros(D.shape[1])
    strengths[:held] = plan.ridge * np.square(D[:, :held]).sum() / max(held, 1)
    design = Design(D, strengths) if D.shape[1] else None
    gauge = Rows(L2()) if plan.shocks else Trace()
    return Convex(
        Data.of(np.ascontiguousarray(Y), plan.loss),
        gauge,
        1.0,
        Lags(plan.q),
        design,
    ), units


def estimate(series: Series, plan: Plan, shrinkage: float, **limits: Any) -> Fitted:
    """Solve the problem at lam = shrinkage * lam_max, and read the model off its solution."""
    problem, units = stated(series, plan)
    strength = (
        max(shrinkage, 1.0) if plan.q == 0 else shrinkage
    )  # without lags there is nothing to innovate
    problem = problem.at(strength * problem.alpha_max() or 1.0)
    tol = limits.get("tol", SELECTION_TOL)
    fast = DouglasRachford(tol)
    solution = solve(problem, solver=fast if fast.accepts(problem) else Fista(), **limits)
    F = solution.point.factors
    B = solution.point.coefficients
    covariances = np.zeros((plan.q + 1, *2 * [series.X.shape[1]]))
    kappa = covariances if plan.shocks else lag_sums(F.dense(), plan.q)
    model = _model(B, kappa / problem.alpha, series, plan, units)
    smoothed = problem.predictor(F, B) * units.out + units.shift
    size = radius(model.ar)
    scaled = plan.max_radius is not None and plan.loss.of_residual and size > plan.max_radius
    if plan.max_radius is not None and scaled:
        model = _stabilized(model, series, plan.max_radius / size)
    predictors, past = model.begin(series.X, series.U, series.levels, smoothed)
    if not plan.loss.of_residual:
        model = replace(model, shift=_shift(predictors, series.X[model.start :], plan.loss))
    predicted = model.mean(predictors)
    freedom = 0.0 if problem.design is None else _freedom(problem.design)
    if plan.shocks:
        shocks = np.linalg.norm(F.dense()[plan.q :], axis=1)
    else:
        shocks = np.zeros(0)
    return Fitted(
        model,
        problem,
        solution,
        kappa,
        freedom,
        size,
        scaled,
        predicted,
        smoothed,
        past,
        shocks,
    )


def _shift(predictors: Array, X: Array, loss: Loss) -> Array:
    """Return what is best added to predictors: the loss of a mean over innovations is not that of a zero innovation."""
    data = Data.of(np.ascontiguousarray(X), loss, offset=predictors)
    offsets = Convex(data, Trace(), 1.0, design=Design.intercept(len(X))).null.coefficients
    assert offsets is not None
    return np.asarray(offsets[0])


def _freedom(design: Design) -> float:
    """Return the trace of D (D'D + ridge)^-1 D', the coefficients that each equation spends."""
    G = design.D.T @ design.D
    return float(
        np.einsum("ij,ji->", np.linalg.pinv(G + np.diag(design.strengths), hermitian=True), G),
    )


def lag_sums(W: Array, q: int) -> Array:
    """Return kappa_d = sum over l - j = d of the blocks (l, j) of (W'W)^1/2, d = 0..q: unique where W is not."""
    n = W.shape[1] // (q + 1)
    _, s, Vt = np.linalg.svd(W, full_matrices=False)
    K = ((Vt.T * s) @ Vt).reshape(q + 1, n, q + 1, n)
    return np.array([sum(K[j + d, :, j] for j in range(q + 1 - d)) for d in range(q + 1)])


def _model(B: Array | None, covariances: Array, series: Series, plan: Plan, units: Units) -> Varma:
    """Return the model in the units of the data."""
    n = series.X.shape[1]
    k = series.U.shape[1]
    p = plan.p
    B = np.zeros((0, n)) if B is None else B
    inputs = (plan.lags + 1) if k else 0
    ar = B[: p * n].reshape(p, n, n).transpose(0, 2, 1) * units.out[:, None] / units.spread
    exog = (
        B[p * n : p * n + inputs * k].reshape(inputs, k, n).transpose(0, 2, 1)
        * units.out[:, None]
        / units.u_spread
    )
    intercept = None
    if plan.intercept:
        intercept = (
            B[-1] * units.out
            + units.shift
            - ar.sum(axis=0) @ units.center
            - exog.sum(axis=0) @ units.u_center
        )
    errors = MovingAverage(covariances * units.out[:, None] * units.out)
    exog = exog if k else np.zeros((1, n, 0))
    return Varma(ar, exog, intercept, errors, plan.loss, units.out, plan.d)


def _stabilized(model: Varma, series: Series, factor: float) -> Varma:
    """Return the model with its roots scaled; the intercept takes up what that does to the mean."""
    damped = model.damped(factor)
    if model.intercept is None:
        return damped
    moved = (model.linear(series.X, series.U) - damped.linear(series.X, series.U)).mean(axis=0)
    return replace(damped, intercept=model.intercept + moved)


def choose_shrinkage(series: Series, plan: Plan) -> tuple[float, Array]:
    """Return the shrinkage with the least one-step loss over the last quarter, and the losses of all.

    Each model is fitted once to the rows before, and its filter then follows the series.
    """
    rows = len(series.levels)
    cut = max(int(rows * (1 - LAST_SHARE)), plan.d + max(plan.p, plan.lags) + 2)
    head = series.head(cut)
    d = plan.d
    losses = []
    for shrinkage in SHRINKAGES if plan.q else SHRINKAGES[:1]:
        fit = estimate(head, plan, shrinkage, tol=SELECTION_TOL, max_iter=1000)
        predicted, new, _ = fit.model.advance(fit.past, series.levels[cut:], series.U[cut - d :])
        losses.append(_mean_loss(fit.model, predicted, new))
    return SHRINKAGES[int(np.argmin(losses))], np.array(losses)


def _mean_loss(model: Varma, predicted: Array, seen: Array) -> float:
    """Return the mean loss of one-step predictions, in the units in which it was minimized."""
    if model.loss.of_residual:
        gap = (predicted - seen) / model.spread
        return float(model.loss.value(gap, np.zeros_like(gap)).mean())
    return float(np.square(predicted - seen).mean())


def choose_order(series: Series, lags: int, intercept: bool, largest: int) -> int:
    """Return the order of least BIC among least-squares VARs, all fitted to the rows that the largest leaves."""
    U = series.U
    n = series.X.shape[1]
    X = series.X
    D = regressors(X, U, largest, lags, intercept)
    Y = X[len(X) - len(D) :]
    rest = D[:, largest * n :]
    scores = []
    for p in range(largest + 1):
        Dp = np.hstack([D[:, : p * n], rest])
        if Dp.shape[1]:
            residual = Y - Dp @ np.linalg.lstsq(Dp, Y, rcond=None)[0]
        else:
            residual = Y
        _, size = np.linalg.slogdet(residual.T @ residual / len(Y))
        scores.append(size + np.log(len(Y)) / len(Y) * n * Dp.shape[1])
    return int(np.argmin(scores))


def largest_order(rows: int, n: int, inputs: int, lags: int) -> int:
    """Return the largest order that is tried: 12 (T/100)^1/4 (Schwert 1989), with two rows to each regressor."""
    most = int(12 * (rows / 100) ** 0.25)
    while most > 0 and rows - max(most, lags) < 2 * (most * n + inputs + 1):
        most -= 1
    return most


def interpolated(X: Array) -> Array:
    """Return the series with holes filled on straight lines between neighbors, level at the ends."""
    times = np.arange(len(X))
    out = X.copy()
    for column in out.T:
        holes = np.isnan(column)
        column[holes] = np.interp(times[holes], times[~holes], column[~holes])
    return out


def completed(levels: Array, U: Array, plan: Plan, shrinkage: float) -> Array:
    """Return the series with its holes filled by turns of fitting and replacing them by fitted values."""
    holes = np.isnan(levels)
    levels = interpolated(levels)
    rounds = (
        ROUNDS if plan.d == 0 else 0
    )  # fitted differences do not add up to the levels on the far side of a hole
    for _ in range(rounds):
        fit = estimate(
            Series.of(levels, U, plan.d),
            plan,
            shrinkage,
            tol=SELECTION_TOL,
            max_iter=1000,
        )
        start = len(levels) - len(fit.smoothed)
        levels[start:] = np.where(holes[start:], fit.smoothed, levels[start:])
    return levels
