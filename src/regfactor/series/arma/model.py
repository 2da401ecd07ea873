"""A vector ARMA model with given coefficients: filtering, forecasting and simulation of a series that goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import Loss, Squared
from regfactor.series.arma.kalman import Memory, MovingAverage

TINY = 1e-12  # residual, in units of the spread, below which its weight is the curvature at zero


def regressors(X: Array, U: Array, p: int, lags: int, intercept: bool) -> Array:
    """Return rows [x_{t-1}, ..., x_{t-p} | u_t, ..., u_{t-lags} | 1] for every t that has its history."""
    start = max(p, lags)
    T = len(X)
    past = [X[start - i : T - i] for i in range(1, p + 1)]
    if U.shape[1]:
        inputs = [U[start - i : T - i] for i in range(lags + 1)]
    else:
        inputs = []
    ones = [np.ones((T - start, 1))] if intercept else []
    if past or inputs or ones:
        return np.hstack([*past, *inputs, *ones])
    return np.zeros((T - start, 0))


def radius(ar: Array) -> float:
    """Return the spectral radius of the companion matrix: below one, the past is forgotten."""
    p, n = ar.shape[:2]
    if not p:
        return 0.0
    companion = np.eye(p * n, k=-n)
    companion[:n] = ar.transpose(1, 0, 2).reshape(n, p * n)
    return float(np.abs(np.linalg.eigvals(companion)).max())


@dataclass(frozen=True, eq=False)
class Past:
    """What is kept of a series: its last rows and inputs, its last levels before differencing, and the filter."""

    X: Array
    U: Array
    levels: Array
    memory: Memory


@dataclass(frozen=True, eq=False)
class Varma:
    """x_t = sum_i ar_i x_{t-i} + sum_l exog_l u_{t-l} + intercept + r_t, r a moving average plus noise.

    Under a loss that is not one of residuals, this is the predictor of x_t, which the loss turns
    into a mean, after a `shift` that makes up for the innovation to come. `spread` is the unit in
    which the loss sees residuals.
    """

    ar: Array  # (p, n, n)
    exog: Array  # (lags + 1, n, k)
    intercept: Array | None
    errors: MovingAverage
    loss: Loss
    spread: Array
    d: int = 0
    shift: Array | None = None

    @property
    def start(self) -> int:
        """Return how many rows of history a row needs."""
        return max(len(self.ar), len(self.exog) - 1)

    @cached_property
    def coef(self) -> Array:
        """The coefficients by regressors, as `regressors` orders them."""
        n = self.errors.n
        rows = [*self.ar.transpose(0, 2, 1)]
        if self.exog.shape[2]:
            rows += [*self.exog.transpose(0, 2, 1)]
        if self.intercept is not None:
            rows.append(self.intercept[None])
        if rows:
            return np.vstack(rows)
        return np.zeros((0, n))

    @cached_property
    def noise(self) -> Array:
        """The variance of the noise of each series, in the units in which `errors` has its covariances."""
        zero = np.zeros(self.errors.n)
        return np.square(self.spread) / (
            self.loss.hessian(zero, zero) if self.loss.of_residual else 1.0
        )

    @cached_property
    def ma(self) -> Array:
        """Theta of the invertible innovations form."""
        return self.errors.innovations(self.noise)[0]

    def linear(self, X: Array, U: Array) -> Array:
        """Return the part of every row that comes from its history, its inputs and the intercept."""
        return (
            regressors(X, U, len(self.ar), len(self.exog) - 1, self.intercept is not None)
            @ self.coef
        )

    def working(self, z: Array, x: Array) -> tuple[Array, Array]:
        """Return x and noise under which squared loss has the gradient of the loss at the predictor z."""
        if self.loss.of_residual:
            gap = (z - x) / self.spread
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = np.where(
                    abs(gap) > TINY,
                    self.loss.gradient(gap, np.zeros_like(gap)) / gap,
                    self.loss.hessian(np.zeros_like(gap), np.zeros_like(gap)),
                )
            return x, np.square(self.spread) / weight
        bend = np.maximum(self.loss.hessian(z, x), TINY)
        return z - self.loss.gradient(z, x) / bend, 1 / bend

    def mean(self, z: Array) -> Array:
        """Return the mean of x by its predictor from the past, which does not know the innovation that is to come."""
        return self.loss.predict(z if self.shift is None else z + self.shift)

    def begin(self, X: Array, U: Array, levels: Array, fitted: Array) -> tuple[Array, Past]:
        """Return one-step predictors of all rows with history, and the past after the last; `fitted` are smoothed."""
        linear = self.linear(X, U)
        seen, noise = self.working(fitted, X[self.start :])
        errors, memory = self.errors.filter(seen - linear, noise, Memory.empty())
        return seen - errors, self._past(X, U, levels, memory)

    def advance(self, past: Past, levels: Array, U: Array) -> tuple[Array, Array, Past]:
        """Return one-step predictions of new rows, the rows with holes filled by them, and the past after the last."""
        if isinstance(self.loss, Squared) and not np.isnan(levels).any():
            return self._advance(past, levels, U)
        steps = []
        for row, inputs in zip(levels, U, strict=True):
            predicted, filled, past = self._advance(past, row[None], inputs[None])
            steps.append((predicted[0], filled[0]))
        if not steps:
            return levels, levels, past
        return np.array([s[0] for s in steps]), np.array([s[1] for s in steps]), past

    def _advance(self, past: Past, levels: Array, U: Array) -> tuple[Array, Array, Past]:
        holes = np.isnan(levels)
        U_all = np.vstack([past.U, U])
        if holes.any():  # one row
            levels = np.where(holes, self._means(past, U, 1), levels)
        new = np.diff(np.vstack([past.levels, levels]), n=self.d, axis=0)
        X_all = np.vstack([past.X, new])
        linear = self.linear(X_all, U_all)
        if isinstance(self.loss, Squared):
            errors, memory = self.errors.filter(
                new - linear,
                np.broadcast_to(self.noise, new.shape),
                past.memory,
            )
            return (
                levels - errors,
                levels,
                self._past(X_all, U_all, np.vstack([past.levels, levels]), memory),
            )
        z = linear + self.errors.forecast(past.memory, 1)
        seen, noise = self.working(z, new)
        _, memory = self.errors.filter(seen - linear, noise, past.memory)
        predicted = levels - (new - self.mean(z))
        return predicted, levels, self._past(X_all, U_all, np.vstack([past.levels, levels]), memory)

    def _past(self, X: Array, U: Array, levels: Array, memory: Memory) -> Past:
        s = self.start
        return Past(X[len(X) - s :], U[len(U) - s :], levels[len(levels) - self.d :], memory)

    def _means(self, past: Past, U: Array, horizon: int) -> Array:
        """Return the means of the next levels."""
        return self.paths(past, U, np.zeros((1, horizon, self.errors.n)))[0]

    def forecast(self, past: Past, U: Array, horizon: int) -> Array:
        """Return the means of the next rows, given their inputs."""
        return self._means(past, U, horizon)

    def paths(self, past: Past, U: Array, innovations: Array) -> Array:
        """Return levels (m, h, n) that follow the past under given innovations v."""
        m, horizon, n = innovations.shape
        r = innovations + self.errors.forecast(past.memory, horizon)
        for j, theta in enumerate(self.ma[: max(horizon - 1, 0)], start=1):
            r[:, j:] += innovations[:, :-j] @ theta.T
        X = np.concatenate([np.broadcast_to(past.X, (m, *past.X.shape)), np.zeros_like(r)], axis=1)
        U = np.vstack([past.U, U])
        s = self.start
        p = len(self.ar)
        lags = len(self.exog)
        if self.intercept is None:
            offset = np.zeros((horizon, n))
        else:
            offset = np.tile(self.intercept, (horizon, 1))
        for i in range(lags if U.shape[1] else 0):
            offset = offset + U[s - i : s - i + horizon] @ self.exog[i].T
        for t in range(horizon):
            z = r[:, t] + offset[t]
            for i in range(p):
                z = z + X[:, s + t - 1 - i] @ self.ar[i].T
            X[:, s + t] = self.mean(z)
        return integrated(X[:, s:], past.levels, self.d)

    def responses(self, horizon: int) -> Array:
        """Return Psi_0..Psi_horizon: what an innovation does to the levels so many steps later."""
        n = self.errors.n
        p = len(self.ar)
        psi = np.zeros((horizon + 1, n, n))
        psi[0] = np.eye(n)
        for h in range(1, horizon + 1):
            psi[h] = self.ma[h - 1] if h <= len(self.ma) else 0
            for i in range(min(h, p)):
                psi[h] += self.ar[i] @ psi[h - 1 - i]
        for _ in range(self.d):
            psi = np.cumsum(psi, axis=0)
        return psi

    def damped(self, factor: float) -> Varma:
        """Return the model with all companion eigenvalues multiplied by a factor: ar_i by its i-th power."""
        powers = factor ** np.arange(1, len(self.ar) + 1)
        return replace(self, ar=self.ar * powers[:, None, None])


def integrated(X: Array, levels: Array, d: int) -> Array:
    """Return the levels that follow the last levels when their d-th differences are X (m, h, n)."""
    for order in reversed(range(d)):
        last = np.diff(levels, n=order, axis=0)[-1]
        X = last + np.cumsum(X, axis=1)
    return X
