"""Rows as complete dense coordinates of unit variance, learned from all rows, labeled or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.extmath import randomized_svd

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.fitting.complete_rows import RowCompletion

CONSTANT = 1e-12  # deviation of a column, relative to its size, up to which it is constant
MAX_COLUMNS = 5000  # of dense tables; wider ones and sparse ones are given by principal directions
MAX_DIRECTIONS = 200
LARGEST_COORDINATE = 1e100  # of new rows far away, whose squares would overflow
N_POWER_STEPS = 3
MAX_FITTED_ROWS = 20_000  # from which directions are found; of more, some that are spread evenly


@dataclass(frozen=True, eq=False)
class Coordinates:
    """(x - mean) factor of the columns that vary, along principal directions where they are many.

    Attributes
    ----------
    completion : RowCompletion or None
        Fills missing entries, where the fitted rows had some.
    kept : array of int
        Columns that vary.
    mean, factor : array of shape (n_kept,)
        The mean is that of observed entries; it is not subtracted from sparse rows.
    directions : array of shape (n_kept, n_directions) or None
    shift : array or None
        Subtracted after the directions, of sparse rows.
    """

    completion: RowCompletion | None
    kept: Array
    mean: Array
    factor: Array
    directions: Array | None = None
    shift: Array | None = None

    @staticmethod
    def fit(X: Any, weights: Array, scale: bool) -> Coordinates:
        """Return the coordinates of rows, weighted by repetition counts.

        With `scale`, columns are divided by their deviation, otherwise by the mean one.
        """
        if is_sparse(X):
            if X.shape[0] > MAX_FITTED_ROWS:
                some = np.linspace(0, X.shape[0] - 1, MAX_FITTED_ROWS).astype(int)
                X = X[some]
                weights = weights[some]
            return _sparse_coordinates(X, weights, scale)
        completion = None
        if np.isnan(X).any():
            completion = RowCompletion.fit(X, weights)
            X = completion.complete(X)
        shares = weights / weights.sum()
        mean = shares @ X
        deviation = np.sqrt(shares @ np.square(X - mean))
        kept = np.flatnonzero(deviation > CONSTANT * np.maximum(np.abs(X).max(axis=0), 1e-300))
        _check_varying(kept)
        deviation = deviation[kept]
        if not scale:
            deviation[:] = np.sqrt(np.mean(np.square(deviation)))
        mean = mean[kept]
        factor = 1.0 / deviation
        if len(kept) <= MAX_COLUMNS:
            return Coordinates(completion, kept, mean, factor)
        rows = (X[:, kept] - mean) * factor
        directions = _principal_directions(rows * np.sqrt(shares)[:, None])
        size = np.sqrt(shares @ np.square(rows @ directions).sum(axis=1) / directions.shape[1])
        return Coordinates(completion, kept, mean, factor, directions / size)

    def of(self, X: Any) -> Array:
        """Return the coordinates of rows."""
        if self.shift is None:
            rows = self._of_dense(X)
        else:
            rows = self._of_sparse(X)
        return np.clip(rows, -LARGEST_COORDINATE, LARGEST_COORDINATE, out=rows)

    def _of_sparse(self, X: Any) -> Array:
        """Return the coordinates of rows along directions that were found from sparse rows."""
        X = filled(scipy.sparse.csr_array(X)[:, self.kept], self.mean)
        rows: Array = X @ (self.factor[:, None] * self.directions)
        rows -= self.shift
        return rows

    def _of_dense(self, X: Any) -> Array:
        """Return the coordinates of rows, where those of the fit were dense."""
        if is_sparse(X):
            X = X.toarray()
        if self.completion is not None:
            X = self.completion.complete(X)
        X = X[:, self.kept]
        missing = np.isnan(X)
        if missing.any():  # only new rows have some: at the mean
            X = np.where(missing, self.mean, X)
        rows: Array = (X - self.mean) * self.factor
        if self.directions is None:
            return rows
        return rows @ self.directions


def _sparse_coordinates(X: Any, weights: Array, scale: bool) -> Coordinates:
    """Return the principal coordinates of sparse rows, which are never made dense.

    Columns are divided by their greatest size, so that rare ones stay small.
    """
    mean = observed_means(X, weights)
    X = filled(X, mean)
    sizes = abs(X).max(axis=0).toarray().ravel()
    kept = np.flatnonzero(sizes > 0)
    _check_varying(kept)
    sizes = sizes[kept]
    if not scale:
        sizes = np.full(len(kept), sizes.max())
    shares = weights / weights.sum()
    scaled = X[:, kept] @ scipy.sparse.diags_array(1.0 / sizes)
    directions = _principal_directions(scipy.sparse.diags_array(np.sqrt(shares)) @ scaled)
    rows = scaled @ directions
    shift = shares @ rows
    variance = shares @ np.square(rows - shift).sum(axis=1)
    if variance <= CONSTANT**2 * np.square(shift).sum():
        _check_varying(np.empty(0))
    size = np.sqrt(variance / directions.shape[1])
    return Coordinates(
        None,
        kept,
        mean[kept],
        1.0 / sizes,
        directions / size,
        shift / size,
    )


def observed_means(X: scipy.sparse.csr_array, weights: Array) -> Array:
    """Return the means of columns over entries that are not NaN; zeros are observed."""
    missing = np.isnan(X.data)
    if not missing.any():
        return weights @ X / weights.sum()
    values = scipy.sparse.csr_array((np.where(missing, 0.0, X.data), X.indices, X.indptr), X.shape)
    gaps = scipy.sparse.csr_array((missing.astype(float), X.indices, X.indptr), X.shape)
    return weights @ values / np.maximum(weights.sum() - weights @ gaps, 1e-300)


def filled(X: scipy.sparse.csr_array, mean: Array) -> scipy.sparse.csr_array:
    """Return a sparse table with stored NaN at the mean of their column."""
    missing = np.isnan(X.data)
    if not missing.any():
        return X
    entries = np.where(missing, mean[X.indices], X.data)
    return scipy.sparse.csr_array((entries, X.indices, X.indptr), X.shape)


def _principal_directions(rows: Any) -> Array:
    """Return the principal directions of a table, a column each, by random projections."""
    n_directions = min(MAX_DIRECTIONS, *rows.shape)
    found = randomized_svd(rows, n_directions, n_iter=N_POWER_STEPS, random_state=0)
    directions: Array = found[2].T
    return directions


def _check_varying(kept: Array) -> None:
    if not len(kept):
        raise ValueError(
            "All columns of X are constant, or vary by less than 1e-12 of their size; there is "
            "nothing to tell classes apart. Subtract their means if they vary."
        )
