"""Rows with missing entries, completed by a probabilistic principal component model.

    x_i = mean + scale (W c_i + noise),    c_i ~ N(0, I),    noise ~ N(0, variance)

The loadings W and the variance are fitted by EM to the observed entries (Tipping & Bishop 1999); a
missing entry is its mean given the observed ones of its row. Estimators whose models need complete
rows use this; `ConvexSubspace` is the model of a table itself.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array, frozen

MAX_RANK = 10
MAX_FITTED_ROWS = 5000  # rows from which a model is fitted; of more, some that are spread evenly
MAX_EM_STEPS = 100
EM_TOL = 1e-3  # relative change of the noise variance
LOADING_RIDGE = 1.0  # as of one more row for each column, without a loading
SMALLEST_NOISE = 1e-6  # of the variance of a column


@frozen
class RowCompletion:
    """A fitted model of rows, which fills the missing entries of old and new ones.

    Attributes
    ----------
    mean, scale : array of shape (n_columns,)
        Zero where nothing was observed.
    loadings : array of shape (n_columns, rank)
        W.
    noise : float
        Variance of the noise, in squared units of `scale`.
    """

    mean: Array
    scale: Array
    loadings: Array
    noise: float

    @staticmethod
    def fit(X: Array, weights: Array) -> RowCompletion:
        """Return the model of the observed entries of X, rows weighted by repetition counts."""
        if len(X) > MAX_FITTED_ROWS:
            chosen = np.linspace(0, len(X) - 1, MAX_FITTED_ROWS).astype(int)
            X = X[chosen]
            weights = weights[chosen]
        observed = ~np.isnan(X)
        counts = np.maximum(weights @ observed, 1e-300)
        mean = weights @ np.where(observed, X, 0.0) / counts
        centered = np.where(observed, X - mean, 0.0)
        scale = np.sqrt(weights @ np.square(centered) / counts)
        scaled = centered / positive_or_one(scale)
        rank = max(min(MAX_RANK, X.shape[1] // 2, (len(X) - 1) // 2), 1)
        model = RowCompletion(mean, scale, _first_loadings(scaled, weights, rank), 0.5)
        for _ in range(MAX_EM_STEPS):
            before = model.noise
            model = model._step(scaled, observed, weights)
            if abs(model.noise - before) <= EM_TOL * before:
                break
        return model

    def complete(self, X: Array) -> Array:
        """Return X with its missing entries filled; X itself where none is missing."""
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        if not len(rows):
            return X
        out = X.copy()
        gaps = missing[rows]
        scaled = np.where(gaps, 0.0, X[rows] - self.mean)
        scaled /= positive_or_one(self.scale)
        codes, _ = self._codes(scaled, ~gaps)
        predicted = self.mean + self.scale * (codes @ self.loadings.T)
        out[missing] = predicted[gaps]
        return out

    def _codes(self, scaled: Array, observed: Array) -> tuple[Array, Array]:
        """Return the mean and covariance of the codes of each row given its observed entries."""
        W = self.loadings
        rank = W.shape[1]
        products = (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)
        precisions = (observed @ products).reshape(-1, rank, rank)
        precisions[:, np.arange(rank), np.arange(rank)] += self.noise
        inverses = np.linalg.inv(precisions)
        codes = np.einsum("nkl,nl->nk", inverses, scaled @ W)
        return codes, self.noise * inverses

    def _step(self, scaled: Array, observed: Array, weights: Array) -> RowCompletion:
        """Return the model after a step of EM."""
        codes, covariances = self._codes(scaled, observed)
        n, rank = codes.shape
        seconds = (codes[:, :, None] * codes[:, None, :] + covariances).reshape(n, -1)
        counted = observed * weights[:, None]
        moments = (counted.T @ seconds).reshape(-1, rank, rank)
        products = (counted * scaled).T @ codes
        ridged = moments + LOADING_RIDGE * np.eye(rank)
        loadings = np.linalg.solve(ridged, products[:, :, None])[:, :, 0]
        residual = float((counted * np.square(scaled)).sum())
        residual -= 2 * float((loadings * products).sum())
        residual += float(np.einsum("dk,dkl,dl->", loadings, moments, loadings))
        noise = max(residual / max(float(counted.sum()), 1e-300), SMALLEST_NOISE)
        return RowCompletion(self.mean, self.scale, loadings, noise)


def _first_loadings(scaled: Array, weights: Array, rank: int) -> Array:
    """Return the principal directions of rows whose missing entries are at the mean."""
    rows = scaled * np.sqrt(weights / weights.sum())[:, None]
    # the smaller of both products has all eigenvalues that are not zero
    is_wide = rows.shape[1] > rows.shape[0]
    product = rows @ rows.T if is_wide else rows.T @ rows
    size = len(product)
    values, vectors = scipy.linalg.eigh(product, subset_by_index=[size - rank, size - 1])
    if is_wide:
        return rows.T @ vectors
    return vectors * np.sqrt(np.maximum(values, 0.0))
