"""A vector ARMA model with given coefficients: filter, forecasts, intervals and simulation.

The covariance of a moving average plus white noise is banded, so that its banded Cholesky factor is
the Kalman filter of all times at once: r = L u with white u, and the error of predicting r_t from
the past is L_tt u_t.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.stats

from regfactor.core.params import Array, frozen
from regfactor.losses import Loss, Squared

TINY = 1e-12  # residual, in units of the spread, below which its weight is the curvature at zero
MAX_DOUBLINGS = 60  # of cyclic reduction, which squares its error each time
DOUBLING_TOL = 1e-15
BURN_IN = 10  # first one-step errors, which have hardly any past


@frozen
class Prediction:
    """Means of the next q rows given the past, and what the past explains of their covariance."""

    means: Array  # (q, n)
    explained: Array  # (q n, q n)

    def rows(self, horizon: int) -> Array:
        """Return the means of the next rows; they are zero beyond q."""
        means = np.zeros((horizon, self.means.shape[1]))
        means[: len(self.means)] = self.means[:horizon]
        return means


@frozen
class MovingAverage:
    """r_t = m_t + noise, with E m_t m_{t-d}' = covariances[d] for d = 0..q and none beyond."""

    covariances: Array  # (q + 1, n, n)

    def filter(
        self,
        R: Array,
        noise: Array,
        past: Prediction | None = None,
    ) -> tuple[Array, Prediction]:
        """Return the errors of predicting each row of R from those before, and what follows.

        `noise` holds the variance of the noise of each entry, `past` the prediction of R from
        the rows before it; there are none by default.
        """
        q = len(self.covariances) - 1
        N, n = R.shape
        if past is None:
            past = Prediction(np.zeros((q, n)), np.zeros((q * n, q * n)))
        if N == 0:
            return R, past
        near = min(N, q)  # rows that depend on the past, and as many on which the future depends
        size = near * n
        i, j = np.tril_indices(size)
        band = self._band(noise)
        band[i - j, j] -= past.explained[i, j]
        L = scipy.linalg.cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)
        unexplained = R.copy()
        unexplained[:near] -= past.means[:near]
        u, _ = scipy.linalg.lapack.dtbtrs(L, unexplained.reshape(-1, 1), uplo="L")
        u = u.reshape(N, n)
        blocks = L.reshape(len(L), N, n)
        errors = np.zeros((N, n))
        for d in range(n):  # the diagonals of L_tt
            errors[:, d:] += blocks[d, :, : n - d] * u[:, : n - d]
        means = np.zeros((q, n))
        explained = np.zeros((q * n, q * n))
        if q == 0:
            return errors, Prediction(means, explained)

        # of fewer than q new rows, the past before them still predicts some of the next q
        kept = q * n - size
        means[: q - near] = past.means[near:]
        explained[:kept, :kept] = past.explained[size:, size:]
        cross = self._covariance(near + np.arange(q), np.arange(near))
        cross[:kept] -= past.explained[size:, :size]
        last = np.zeros((size, size))
        last[i, j] = L[i - j, N * n - size + j]
        gains = scipy.linalg.solve_triangular(last, cross.T, lower=True, check_finite=False).T
        means += (gains @ u[N - near :].ravel()).reshape(q, n)
        explained += gains @ gains.T
        return errors, Prediction(means, explained)

    def innovations(self, noise: Array) -> tuple[Array, Array]:
        """Return Theta (q, n, n) and Sigma with r_t = v_t + sum_j Theta_j v_{t-j}, E v v' = Sigma.

        The noise is steady. The next q rows given the infinite past have covariance
        X = Q - A' X^-1 A, solved by cyclic reduction (Meini 2002). The noise keeps the spectral
        density positive, so that the form is invertible.
        """
        q = len(self.covariances) - 1
        n = len(noise)
        size = q * n
        if q == 0:
            return np.zeros((0, n, n)), self.covariances[0] + np.diag(noise)
        rows = np.arange(q)
        X = self._covariance(rows, rows) + np.diag(np.tile(noise, q))
        Q = X
        A = self._covariance(rows, q + rows)
        for _ in range(MAX_DOUBLINGS):
            solved = np.linalg.solve(Q, np.hstack([A, A.T]))
            forward = A.T @ solved[:, :size]
            backward = A @ solved[:, size:]
            X = X - forward
            Q = Q - forward - backward
            A = A @ solved[:, :size]
            if np.abs(forward).max() <= DOUBLING_TOL * np.abs(X).max():
                break
        sigma = (X[:n, :n] + X[:n, :n].T) / 2
        first = np.concatenate([X[n:, :n].reshape(-1, n, n), self.covariances[q:]])
        return np.linalg.solve(sigma, first.mT).mT, sigma

    def _covariance(self, rows: Array, columns: Array) -> Array:
        """Return the covariance of rows at some times with those at others, without noise."""
        n = self.covariances.shape[1]
        lags = rows[:, None] - columns
        padded = np.concatenate([self.covariances, np.zeros((1, n, n))])
        blocks = padded[np.minimum(abs(lags), len(padded) - 1)]
        blocks = np.where((lags >= 0)[:, :, None, None], blocks, blocks.mT)
        return blocks.transpose(0, 2, 1, 3).reshape(len(rows) * n, len(columns) * n)

    def _band(self, noise: Array) -> Array:
        """Return the lower band of the covariance of consecutive rows, as LAPACK holds it."""
        N, n = noise.shape
        covariances = self.covariances[:N]
        band = np.zeros((n * len(covariances), N, n))
        i, j = np.indices((n, n)).reshape(2, -1)
        for d, covariance in enumerate(covariances):
            diagonals = d * n + i - j
            lower = diagonals >= 0
            values = covariance.ravel()[lower]
            band[diagonals[lower], : N - d, j[lower]] = values[:, None]
        band[0] += noise
        return band.reshape(len(band), N * n)


@frozen
class Series:
    """A series with its inputs U; X are the d-th differences of its levels."""

    levels: Array
    X: Array
    U: Array

    @staticmethod
    def of(levels: Array, U: Array, d: int = 0) -> Series:
        """Difference a series; an input belongs to the difference that ends at its time."""
        return Series(levels, np.diff(levels, n=d, axis=0), U[d:])

    def head(self, rows: int) -> Series:
        """Return the first rows."""
        differenced = rows - (len(self.levels) - len(self.X))
        return Series(self.levels[:rows], self.X[:differenced], self.U[:differenced])


def regressors(
    X: Array,
    U: Array,
    p: int,
    lags: int,
    intercept: bool,
    n_waves: int = 0,
) -> Array:
    """Return rows [x_{t-1}, ..., x_{t-p} | u_t, ..., u_{t-lags} | w_t | 1] for t with history.

    The last columns of U are waves w of a season, which have no lags.
    """
    start = max(p, lags)
    T = len(X)
    blocks = [np.zeros((T - start, 0))]
    for i in range(1, p + 1):
        blocks.append(X[start - i : T - i])
    n_inputs = U.shape[1] - n_waves
    if n_inputs:
        for i in range(lags + 1):
            blocks.append(U[start - i : T - i, :n_inputs])
    if n_waves:
        blocks.append(U[start:T, n_inputs:])
    if intercept:
        blocks.append(np.ones((T - start, 1)))
    return np.hstack(blocks)


def radius(ar: Array) -> float:
    """Return the spectral radius of the companion matrix: below one, the past is forgotten."""
    p, n = ar.shape[:2]
    if p == 0:
        return 0.0
    companion = np.eye(p * n, k=-n)
    companion[:n] = ar.transpose(1, 0, 2).reshape(n, p * n)
    return float(np.abs(np.linalg.eigvals(companion)).max())


@frozen
class Past:
    """The end of a series: last rows, inputs and levels before differencing, errors to come."""

    X: Array
    U: Array
    levels: Array
    errors: Prediction


@frozen
class Advance:
    """One-step predictions of new rows, the rows completed by them, and the past after the last."""

    predicted: Array
    completed: Array
    past: Past


@frozen
class Varma:
    """x_t = sum_i ar_i x_{t-i} + sum_l exog_l u_{t-l} + intercept + r_t.

    r is a moving average plus noise. Under a loss that is not one of residuals, the right side is
    the predictor of x_t, which the loss turns into a mean, after a `shift` that makes up for the
    innovation to come. `spread` is the unit in which the loss measures residuals.
    """

    ar: Array  # (p, n, n)
    exog: Array  # (lags + 1, n, k)
    intercept: Array
    errors: MovingAverage
    loss: Loss
    spread: Array
    start: int  # number of earlier rows that a row needs
    d: int = 0
    shift: Array | None = None

    @cached_property
    def noise(self) -> Array:
        """The variance of the noise of each series, in the units of the covariances of `errors`."""
        variances = np.square(self.spread)
        if not self.loss.of_residual:
            return variances
        zero = np.zeros(len(self.spread))
        return np.asarray(variances / self.loss.hessian(zero, zero))

    @cached_property
    def ma(self) -> Array:
        """Theta of the invertible innovations form."""
        return self.errors.innovations(self.noise)[0]

    def linear(self, X: Array, U: Array) -> Array:
        """Return the part of every row that its history, inputs and the intercept explain."""
        start = self.start
        T = len(X)
        total = np.tile(self.intercept, (T - start, 1))
        for i, A in enumerate(self.ar, start=1):
            total += X[start - i : T - i] @ A.T
        for i, E in enumerate(self.exog):
            total += U[start - i : T - i] @ E.T
        return total

    def working(self, z: Array, x: Array) -> tuple[Array, Array]:
        """Return x and noise for which squared loss has the gradient of the loss at predictor z."""
        if not self.loss.of_residual:
            curvature = np.maximum(self.loss.hessian(z, x), TINY)
            return z - self.loss.gradient(z, x) / curvature, 1 / curvature
        residual = (z - x) / self.spread
        zero = np.zeros_like(residual)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(
                abs(residual) > TINY,
                self.loss.gradient(residual, zero) / residual,
                self.loss.hessian(zero, zero),
            )
        return x, np.square(self.spread) / weight

    def mean(self, z: Array) -> Array:
        """Return the mean of x from its predictor, which leaves out the innovation to come."""
        if self.loss.of_residual:
            return z
        if self.shift is not None:
            z = z + self.shift
        return self.loss.predict(z)

    def begin(self, series: Series, smoothed: Array) -> tuple[Array, Past]:
        """Return one-step predictors of all rows with history, and the past after the last row.

        `smoothed` are the predictors with all innovations.
        """
        seen, noise = self.working(smoothed, series.X[self.start :])
        errors, ahead = self.errors.filter(seen - self.linear(series.X, series.U), noise)
        return seen - errors, self._past(series.X, series.U, series.levels, ahead)

    def advance(self, past: Past, levels: Array, U: Array) -> Advance:
        """Let new rows pass through the filter; missing entries are completed by predictions."""
        if isinstance(self.loss, Squared) and not np.isnan(levels).any():
            return self._advance(past, levels, U)
        predicted = np.empty_like(levels)
        completed = np.empty_like(levels)
        for t in range(len(levels)):
            row = self._advance(past, levels[[t]], U[[t]])
            predicted[t] = row.predicted[0]
            completed[t] = row.completed[0]
            past = row.past
        return Advance(predicted, completed, past)

    def _advance(self, past: Past, levels: Array, U: Array) -> Advance:
        """Advance by rows without missing entries under squared loss, or by one row."""
        missing = np.isnan(levels)
        if missing.any():
            predicted = self.paths(past, U, np.zeros((1, *levels.shape)))[0]
            levels = np.where(missing, predicted, levels)
        all_levels = np.vstack([past.levels, levels])
        X = np.diff(all_levels, n=self.d, axis=0)
        all_X = np.vstack([past.X, X])
        all_U = np.vstack([past.U, U])
        linear = self.linear(all_X, all_U)
        if isinstance(self.loss, Squared):
            noise = np.broadcast_to(self.noise, X.shape)
            errors, ahead = self.errors.filter(X - linear, noise, past.errors)
        else:
            z = linear + past.errors.rows(1)
            seen, noise = self.working(z, X)
            _, ahead = self.errors.filter(seen - linear, noise, past.errors)
            errors = X - self.mean(z)
        return Advance(levels - errors, levels, self._past(all_X, all_U, all_levels, ahead))

    def _past(
        self,
        X: Array,
        U: Array,
        levels: Array,
        errors: Prediction,
    ) -> Past:
        rows = len(X) - self.start
        return Past(
            X[rows:],
            U[rows:],
            levels[len(levels) - self.d :],
            errors,
        )

    def paths(self, past: Past, U: Array, innovations: Array) -> Array:
        """Return levels (m, h, n) that follow the past under given innovations v."""
        m, horizon, n = innovations.shape
        start = self.start
        errors = innovations + past.errors.rows(horizon)
        for j, theta in enumerate(self.ma[: horizon - 1], start=1):
            errors[:, j:] += innovations[:, :-j] @ theta.T
        # Regressors of the times to come without their history, which follows step by step.
        unknown = np.zeros((start + horizon, n))
        offset = self.linear(unknown, np.vstack([past.U, U]))
        X = np.empty((m, start + horizon, n))
        X[:, :start] = past.X
        for t in range(horizon):
            z = errors[:, t] + offset[t]
            for i, A in enumerate(self.ar):
                z = z + X[:, start + t - 1 - i] @ A.T
            X[:, start + t] = self.mean(z)
        levels = X[:, start:]
        for order in reversed(range(self.d)):
            last = np.diff(past.levels, n=order, axis=0)[-1]
            levels = last + np.cumsum(levels, axis=1)
        return levels

    def responses(self, horizon: int) -> Array:
        """Return Psi_0..Psi_horizon: the effect of an innovation on the levels so much later."""
        n = len(self.spread)
        psi = np.zeros((horizon + 1, n, n))
        psi[0] = np.eye(n)
        for h in range(1, horizon + 1):
            if h <= len(self.ma):
                psi[h] = self.ma[h - 1]
            for i, A in enumerate(self.ar[:h]):
                psi[h] += A @ psi[h - 1 - i]
        for _ in range(self.d):
            psi = np.cumsum(psi, axis=0)
        return psi


def error_covariance(residuals: Array, freedom: float, q: int) -> Array:
    """Return the covariance of one-step errors, corrected for the freedom of the coefficients."""
    N = len(residuals)
    if q:
        residuals = residuals[min(BURN_IN, N // 4) :]
    left = max(1 - freedom / N, 1 / N)
    return np.asarray(residuals.T @ residuals / (len(residuals) * left))


def forecast_variances(psi: Array, sigma: Array) -> Array:
    """Return variances of forecast errors, (h, n), for innovations of covariance sigma."""
    return np.asarray(np.cumsum(np.einsum("hij,jk,hik->hi", psi, sigma, psi), axis=0))


def half_widths(variances: Array, level: float, freedom: float, N: int) -> Array:
    """Return half of the interval of each time and series.

    Student's quantile accounts for the error of the variances, and 1 + freedom / N for that of the
    coefficients one step ahead.
    """
    quantile = scipy.stats.t.ppf((1 + level) / 2, max(N - freedom, 1.0))
    return np.asarray(quantile * np.sqrt(variances * (1 + freedom / N)))
