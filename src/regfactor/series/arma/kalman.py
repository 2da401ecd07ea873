"""The exact Gaussian filter of a moving average plus white noise, and its invertible innovations form.

The covariance of such a series is banded, so that its banded Cholesky factor is the Kalman filter
of all times at once: r = L u with white u, and the error of predicting r_t from the past is L_tt
u_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from regfactor.core.params import Array

DOUBLINGS = 60  # of cyclic reduction, which squares its error each time
STILL = 1e-15


@dataclass(frozen=True, eq=False)
class Memory:
    """What the past says of the next q times: the last diagonal part of L and the last of u."""

    L: Array
    u: Array

    @staticmethod
    def empty() -> Memory:
        """Return the memory of nothing."""
        return Memory(np.zeros((0, 0)), np.zeros(0))


@dataclass(frozen=True, eq=False)
class MovingAverage:
    """r_t = m_t + noise, with E m_t m_{t-d}' = covariances[d] for d = 0..q and none beyond."""

    covariances: Array  # (q + 1, n, n)

    @property
    def q(self) -> int:
        """Return the last lag at which there is a covariance."""
        return len(self.covariances) - 1

    @property
    def n(self) -> int:
        """Return the number of series."""
        return self.covariances.shape[1]

    def filter(self, R: Array, noise: Array, memory: Memory) -> tuple[Array, Memory]:
        """Return the errors of predicting each row of R from the rows before it, and the memory after the last.

        `noise` holds the variance of the noise of each entry.
        """
        if not len(R):
            return R, memory
        told, across = self._told(memory, min(len(R), self.q))
        left = R.copy()
        left[: len(told)] -= told
        band = self._band(noise)
        _subtract(band, across)
        L = scipy.linalg.cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)
        u, _ = scipy.linalg.lapack.dtbtrs(L, left.reshape(-1, 1), uplo="L")
        u = u[:, 0]
        blocks = L.reshape(len(L), len(R), self.n)
        errors = np.zeros_like(left)
        for d in range(self.n):  # the diagonals of L_tt
            errors[:, d:] += blocks[d, :, : self.n - d] * u.reshape(left.shape)[:, : self.n - d]
        return errors, self._memory(L, u, across, memory)

    def forecast(self, memory: Memory, horizon: int) -> Array:
        """Return the means of the next rows given the past; zero beyond q."""
        means = np.zeros((horizon, self.n))
        told, _ = self._told(memory, min(horizon, self.q))
        means[: len(told)] = told
        return means

    def innovations(self, noise: Array) -> tuple[Array, Array]:
        """Return Theta (q, n, n) and Sigma with r_t = v_t + sum_j Theta_j v_{t-j}, E v v' = Sigma, for steady noise.

        The next q rows given the infinite past have covariance X = Q - A' X^-1 A, solved by cyclic
        reduction (Meini 2002). The noise keeps the spectral density positive, so that the form is
        invertible.
        """
        q = self.q
        n = self.n
        C = self.covariances
        if q == 0:
            return np.zeros((0, n, n)), C[0] + np.diag(noise)
        across = self._cross(q, q)
        within = self._within(q) + np.diag(np.tile(noise, q))
        X = within
        Q = within
        A = across.T
        for _ in range(DOUBLINGS):
            solved = np.linalg.solve(Q, np.hstack([A, A.T]))
            forward = A.T @ solved[:, : q * n]
            backward = A @ solved[:, q * n :]
            X = X - forward
            Q = Q - forward - backward
            A = A @ solved[:, : q * n]
            if np.abs(forward).max() <= STILL * np.abs(X).max():
                break
        sigma = (X[:n, :n] + X[:n, :n].T) / 2
        first = np.concatenate([X[n:, :n].reshape(-1, n, n), C[q:]])
        return np.linalg.solve(sigma, first.transpose(0, 2, 1)).transpose(0, 2, 1), sigma

    def _told(self, memory: Memory, rows: int) -> tuple[Array, Array]:
        """Return the means of the next rows, and their part of L below the memory's."""
        held = len(memory.u) // self.n
        if not (rows and held):
            return np.zeros((0, self.n)), np.zeros((0, 0))
        cross = self._cross(rows, held)
        across = scipy.linalg.solve_triangular(memory.L, cross.T, lower=True, check_finite=False).T
        return (across @ memory.u).reshape(rows, self.n), across

    def _cross(self, rows: int, held: int) -> Array:
        """Return the covariance of the next rows with the last held ones."""
        lags = np.arange(rows)[:, None] + held - np.arange(held)
        padded = np.concatenate([self.covariances, np.zeros((1, self.n, self.n))])
        return (
            padded[np.minimum(lags, self.q + 1)]
            .transpose(0, 2, 1, 3)
            .reshape(rows * self.n, held * self.n)
        )

    def _within(self, rows: int) -> Array:
        """Return the covariance of consecutive rows with each other, without noise; rows are at most q + 1."""
        lags = np.arange(rows)[:, None] - np.arange(rows)
        blocks = np.where(
            (lags >= 0)[:, :, None, None],
            self.covariances[abs(lags)],
            self.covariances[abs(lags)].mT,
        )
        return blocks.transpose(0, 2, 1, 3).reshape(rows * self.n, rows * self.n)

    def _band(self, noise: Array) -> Array:
        """Return the lower band of the covariance of consecutive rows, as LAPACK holds it."""
        N, n = noise.shape
        lags = min(self.q, N - 1)
        band = np.zeros((n * (lags + 1), N, n))
        a, c = (index.ravel() for index in np.indices((n, n)))
        for d in range(lags + 1):
            lower = d * n + a - c >= 0
            rows = a[lower]
            columns = c[lower]
            band[d * n + rows - columns, : N - d, columns] = self.covariances[d][rows, columns][
                :,
                None,
            ]
        band[0] += noise
        return band.reshape(len(band), N * n)

    def _memory(self, L: Array, u: Array, across: Array, memory: Memory) -> Memory:
        """Return what is kept of the last q rows, old ones among them where fewer are new."""
        size = min(len(u), self.q * self.n)
        start = len(u) - size
        i, j = np.tril_indices(size)
        new = np.zeros((size, size))
        near = i - j < len(L)
        new[i[near], j[near]] = L[(i - j)[near], start + j[near]]
        keep = min(self.q * self.n - size, len(memory.u))
        if not keep:
            return Memory(new, u[start:])
        whole = np.zeros((keep + size, keep + size))
        whole[:keep, :keep] = memory.L[-keep:, -keep:]
        whole[keep:, keep:] = new
        whole[keep:, :keep] = across[:, -keep:]
        return Memory(whole, np.concatenate([memory.u[-keep:], u]))


def _subtract(band: Array, across: Array) -> None:
    """Take across across' off the first entries of a lower band."""
    size = len(across)
    if size:
        product = across @ across.T
        i, j = np.tril_indices(size)
        near = i - j < len(band)
        band[(i - j)[near], j[near]] -= product[i[near], j[near]]
