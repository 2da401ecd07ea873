"""The exact Gaussian filter of a moving average plus white noise, and its innovations form.

The covariance of such a series is banded, so that its banded Cholesky factor is the Kalman filter
of all times at once: r = L u with white u, and the error of predicting r_t from the past is
L_tt u_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from regfactor.core.params import Array

MAX_DOUBLINGS = 60  # of cyclic reduction, which squares its error each time
DOUBLING_TOL = 1e-15


@dataclass(frozen=True, eq=False)
class Memory:
    """What predicts the next q times: the last diagonal block of L and the last entries of u."""

    L: Array
    u: Array


NO_MEMORY = Memory(np.zeros((0, 0)), np.zeros(0))


@dataclass(frozen=True, eq=False)
class MovingAverage:
    """r_t = m_t + noise, with E m_t m_{t-d}' = covariances[d] for d = 0..q and none beyond."""

    covariances: Array  # (q + 1, n, n)

    @property
    def q(self) -> int:
        """The last lag at which there is a covariance."""
        return len(self.covariances) - 1

    @property
    def n(self) -> int:
        """Number of series."""
        return self.covariances.shape[1]

    def filter(self, R: Array, noise: Array, memory: Memory) -> tuple[Array, Memory]:
        """Return the errors of predicting each row of R from those before, and the memory after.

        `noise` holds the variance of the noise of each entry.
        """
        if not len(R):
            return R, memory
        means, across = self._predict(memory, min(len(R), self.q))
        left = R.copy()
        left[: len(means)] -= means
        L = self._band(noise)
        _subtract_square(L, across)
        L = scipy.linalg.cholesky_banded(L, overwrite_ab=True, lower=True, check_finite=False)
        solved, _ = scipy.linalg.lapack.dtbtrs(L, left.reshape(-1, 1), uplo="L")
        u = solved.reshape(left.shape)
        blocks = L.reshape(len(L), *left.shape)
        errors = np.zeros_like(left)
        for d in range(self.n):  # the diagonals of L_tt
            kept = self.n - d
            errors[:, d:] += blocks[d, :, :kept] * u[:, :kept]
        return errors, self._remember(L, solved[:, 0], across, memory)

    def forecast(self, memory: Memory, horizon: int) -> Array:
        """Return the means of the next rows given the past; zero beyond q."""
        means = np.zeros((horizon, self.n))
        near, _ = self._predict(memory, min(horizon, self.q))
        means[: len(near)] = near
        return means

    def innovations(self, noise: Array) -> tuple[Array, Array]:
        """Return Theta (q, n, n) and Sigma with r_t = v_t + sum_j Theta_j v_{t-j}, E v v' = Sigma.

        The noise is steady. The next q rows given the infinite past have covariance
        X = Q - A' X^-1 A, solved by cyclic reduction (Meini 2002). The noise keeps the spectral
        density positive, so that the form is invertible.
        """
        n = self.n
        size = self.q * n
        if size == 0:
            return np.zeros((0, n, n)), self.covariances[0] + np.diag(noise)
        X = self._within(self.q) + np.diag(np.tile(noise, self.q))
        Q = X
        A = self._cross(self.q, self.q).T
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
        first = np.concatenate([X[n:, :n].reshape(-1, n, n), self.covariances[self.q :]])
        return np.linalg.solve(sigma, first.transpose(0, 2, 1)).transpose(0, 2, 1), sigma

    def _predict(self, memory: Memory, rows: int) -> tuple[Array, Array]:
        """Return the means of the next rows, and their part of L below the memory's."""
        held = len(memory.u) // self.n
        if rows == 0 or held == 0:
            return np.zeros((0, self.n)), np.zeros((0, 0))
        cross = self._cross(rows, held)
        across = scipy.linalg.solve_triangular(memory.L, cross.T, lower=True, check_finite=False).T
        return (across @ memory.u).reshape(rows, self.n), across

    def _cross(self, rows: int, held: int) -> Array:
        """Return the covariance of the next rows with the last held ones."""
        lags = np.arange(rows)[:, None] + held - np.arange(held)
        padded = np.concatenate([self.covariances, np.zeros((1, self.n, self.n))])
        return _unblocked(padded[np.minimum(lags, self.q + 1)])

    def _within(self, rows: int) -> Array:
        """Return the covariance of at most q + 1 consecutive rows, without noise."""
        lags = np.arange(rows)[:, None] - np.arange(rows)
        blocks = self.covariances[abs(lags)]
        later = (lags >= 0)[:, :, None, None]
        return _unblocked(np.where(later, blocks, blocks.mT))

    def _band(self, noise: Array) -> Array:
        """Return the lower band of the covariance of consecutive rows, as LAPACK holds it."""
        N, n = noise.shape
        lags = min(self.q, N - 1)
        band = np.zeros((n * (lags + 1), N, n))
        rows, columns = np.indices((n, n)).reshape(2, -1)
        for d in range(lags + 1):
            diagonals = d * n + rows - columns
            lower = diagonals >= 0
            i = rows[lower]
            j = columns[lower]
            band[diagonals[lower], : N - d, j] = self.covariances[d][i, j][:, None]
        band[0] += noise
        return band.reshape(len(band), N * n)

    def _remember(self, L: Array, u: Array, across: Array, memory: Memory) -> Memory:
        """Return the memory of the last q rows, which include old ones if fewer are new."""
        size = min(len(u), self.q * self.n)
        start = len(u) - size
        i, j = np.tril_indices(size)
        near = i - j < len(L)
        i = i[near]
        j = j[near]
        new = np.zeros((size, size))
        new[i, j] = L[i - j, start + j]
        keep = min(self.q * self.n - size, len(memory.u))
        if keep == 0:
            return Memory(new, u[start:])
        whole = np.zeros((keep + size, keep + size))
        whole[:keep, :keep] = memory.L[-keep:, -keep:]
        whole[keep:, keep:] = new
        whole[keep:, :keep] = across[:, -keep:]
        return Memory(whole, np.concatenate([memory.u[-keep:], u]))


def _unblocked(blocks: Array) -> Array:
    """Return the matrix of blocks (rows, columns, n, n)."""
    rows, columns, n, _ = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(rows * n, columns * n)


def _subtract_square(band: Array, across: Array) -> None:
    """Subtract across across' from the first entries of a lower band."""
    if not len(across):
        return
    product = across @ across.T
    i, j = np.tril_indices(len(across))
    near = i - j < len(band)
    i = i[near]
    j = j[near]
    band[i - j, j] -= product[i, j]
