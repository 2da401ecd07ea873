"""The exact Gaussian filter of a moving average plus white noise, and its innovations form.

The covariance of such a series is banded, so that its banded Cholesky factor is the Kalman filter
of all times at once: r = L u with white u, and the error of predicting r_t from the past is
L_tt u_t.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen

MAX_DOUBLINGS = 60  # of cyclic reduction, which squares its error each time
DOUBLING_TOL = 1e-15


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
