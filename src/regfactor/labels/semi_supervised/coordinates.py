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
        if is_sparse(X):
            if self.directions is None or self.shift is None:
                X = X.toarray()
            else:
                scaled = self.factor[:, None] * self.directions
                return X[:, self.kept] @ scaled - self.shift
        if self.shift is not None:
            X = scipy.sparse.csr_array(np.nan_to_num(X))
            return self.of(X)
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
    if not variance > 0:
        _check_varying(np.empty(0))
    size = np.sqrt(variance / directions.shape[1])
    return Coordinates(
        None,
        kept,
        np.zeros(len(kept)),
        1.0 / sizes,
        directions / size,
        shift / size,
    )


def _principal_directions(rows: Any) -> Array:
    """Return the principal directions of a table, a column each, by random projections."""
    n_directions = min(MAX_DIRECTIONS, *rows.shape)
    found = randomized_svd(rows, n_directions, n_iter=N_POWER_STEPS, random_state=0)
    directions: Array = found[2].T
    return directions


def _check_varying(kept: Array) -> None:
    if not len(kept):
        raise ValueError("All columns of X are constant; there is nothing to tell classes apart.")
