"""Unknown cells of a vector ARMA series given all others: exact means and covariances.

Innovations v are linear in the levels, v_t = sum_k Pi_k y_{t-k} - offset_t, so that unknown cells
have the normal distribution that minimizes sum_t v_t' Sigma^-1 v_t: what the Kalman smoother
returns, from one factorization. Rows to come are unknown cells too.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen
from regfactor.series.arma.model import Varma

SMALLEST_WEIGHT = 1e-10  # of a lag, beyond which later ones are left out
PRIOR_DEVIATIONS = 1e4  # of cells that no innovation depends on, in deviations of their series


@frozen
class CellPosterior:
    """Levels with unknown cells replaced by their means, their variances (else 0), and E v v'.

    The last is what EM takes for the covariance of innovations.
    """

    means: Array
    variances: Array
    innovations: Array


def innovation_weights(model: Varma, n_rows: int) -> Array:
    """Return Pi_0, Pi_1, ... with v_t = sum_k Pi_k y_{t-k}, as far as they matter."""
    n = len(model.spread)
    weights = np.zeros((len(model.ar) + 1, n, n))
    weights[0] = np.eye(n)
    weights[1:] = -model.ar
    for _ in range(model.d):  # of differences
        padded = np.zeros((len(weights) + 1, n, n))
        padded[:-1] += weights
        padded[1:] -= weights
        weights = padded
    found: list[Array] = []
    q = len(model.ma)
    for k in range(n_rows):
        if k < len(weights):
            weight = weights[k].copy()
        else:
            weight = np.zeros((n, n))
        for j in range(1, min(k, q) + 1):
            weight -= model.ma[j - 1] @ found[k - j]
        found.append(weight)
        settled = k >= len(weights) and all(
            np.abs(last).max() < SMALLEST_WEIGHT for last in found[-max(q, 1) :]
        )
        if settled:
            break
    return np.array(found)


@frozen
class CellSystem:
    """The normal distribution of unknown cells, as a ridge problem in changes of their start.

    Attributes
    ----------
    missing : array of shape (n_rows, n_series)
    start : array of the same shape
        Levels with any values at unknown cells.
    whitened : array of shape (n_innovations,)
        Innovations of the start, of variance one.
    effects : array of shape (n_innovations, n_cells)
        Of a change of each cell on these.
    factor : array of shape (n_cells, n_cells)
        L with L L' the precision of the cells.
    root : array of shape (n_series, n_series)
        Of the covariance of innovations.
    """

    missing: Array
    start: Array
    whitened: Array
    effects: Array
    factor: Array
    root: Array

    @staticmethod
    def of(model: Varma, levels: Array, U: Array, sigma: Array) -> CellSystem:
        """Return the system of the cells that are NaN; innovations before the first row are 0."""
        missing = np.isnan(levels)
        T, n = levels.shape
        first = model.start + model.d
        start = np.where(missing, np.nanmean(levels, axis=0), levels)
        errors = _innovations(model, start, U)
        root = np.linalg.cholesky(sigma + 1e-12 * np.trace(sigma) / n * np.eye(n))
        whitened = scipy.linalg.solve_triangular(root, errors.T, lower=True).T.ravel()
        weights = np.linalg.solve(root, innovation_weights(model, T))
        times, series = np.nonzero(missing)
        by_row = np.zeros((T, n, len(times)))
        for k, weight in enumerate(weights):
            later = np.flatnonzero(times + k < T)
            by_row[times[later] + k, :, later] = weight[:, series[later]].T
        effects = by_row[first:].reshape((T - first) * n, len(times))
        deviations = PRIOR_DEVIATIONS * np.maximum(np.nanstd(levels, axis=0), 1e-12)
        precision = effects.T @ effects + np.diag(1 / np.square(deviations[series]))
        factor = np.linalg.cholesky(precision)
        return CellSystem(missing, start, whitened, effects, factor, root)

    def changes(self) -> Array:
        """Return the expected changes of the cells from their start."""
        return -scipy.linalg.cho_solve((self.factor, True), self.effects.T @ self.whitened)


def cell_posterior(model: Varma, levels: Array, U: Array, sigma: Array) -> CellPosterior:
    """Return the distribution of the cells that are NaN; innovations before the first row are 0."""
    system = CellSystem.of(model, levels, U, sigma)
    missing = system.missing
    n = levels.shape[1]
    moved = system.changes()
    inverse = scipy.linalg.cho_solve((system.factor, True), np.eye(len(moved)))
    means = system.start.copy()
    means[missing] += moved
    variances = np.zeros(levels.shape)
    variances[missing] = np.diag(inverse)
    expected = (system.whitened + system.effects @ moved).reshape(-1, n)
    by_row = system.effects.reshape(len(expected), n, len(moved))
    unknown = np.einsum("tim,tjm->ij", (system.effects @ inverse).reshape(by_row.shape), by_row)
    second = system.root @ (expected.T @ expected + unknown) @ system.root.T / len(expected)
    return CellPosterior(means, variances, second)


def cell_draws(
    model: Varma,
    levels: Array,
    U: Array,
    sigma: Array,
    n_draws: int,
    random: np.random.RandomState,
) -> Array:
    """Return draws of levels with unknown cells from their joint distribution, as a first axis."""
    system = CellSystem.of(model, levels, U, sigma)
    moved = system.changes()
    normal = random.standard_normal((len(moved), n_draws))
    around = scipy.linalg.solve_triangular(system.factor, normal, lower=True, trans="T")
    drawn = np.repeat(system.start[None], n_draws, axis=0)
    drawn[:, system.missing] += moved + around.T
    return drawn


def _innovations(model: Varma, levels: Array, U: Array) -> Array:
    """Return v of all rows with history, from v = 0 before."""
    X = np.diff(levels, n=model.d, axis=0)
    left = X[model.start :] - model.linear(X, U[model.d :])
    errors = np.zeros_like(left)
    for t in range(len(left)):
        errors[t] = left[t]
        for j in range(1, min(t, len(model.ma)) + 1):
            errors[t] -= model.ma[j - 1] @ errors[t - j]
    return errors
