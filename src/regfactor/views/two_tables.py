"""Estimators on two tables of the same rows, in closed form."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, as_floats
from regfactor.fitting.base import Estimator, Transformer
from regfactor.fitting.inputs import check_sizes, row_weights, validated
from regfactor.views.pair import TablePair

MISSING_REMEDY = (
    "use TwoViewSubspace, which takes missing entries and missing views, or fill them before"
)


class TwoTableEstimator(
    ClassNamePrefixFeaturesOutMixin,
    Transformer,
    MultiOutputMixin,
    RegressorMixin,
    Estimator,
):
    """An estimator of two tables: predictions are linear in X, scores by `x_rotations_`."""

    _takes_sparse = True
    _locally = False
    _no_certificate = "its global optimum is known in closed form"
    _one_target: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to two tables of the same rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The second table.
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read_tables(self, X: Any, y: Any, sample_weight: Any) -> TablePair:
        """Return both tables, validated, without the rows of weight zero."""
        if sample_weight is None and are_float_tables(X, y) and _sums_are_finite(X, y):
            check_table_sizes(X, y)
            return self._float_tables(X, y)
        X, y = validated(
            self,
            X,
            y,
            remedy=MISSING_REMEDY,
            accept_sparse="csr",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
            every_column=True,
        )
        if is_sparse(y):
            raise ValueError("A sparse y is not supported: give y.toarray().")
        Y = np.asarray(y)
        if Y.dtype != np.float32:  # whose rounding counts as that of X
            Y = Y.astype(np.float64, copy=False)
        weights = row_weights(X, sample_weight)
        self._one_target = Y.ndim == 1
        if self._one_target:
            Y = Y[:, None]
        check_sizes(Y, None, fitting=True, table="y")
        if weights is None:
            return TablePair(X, Y, None)
        counted = weights > 0
        return TablePair(X[counted], Y[counted], weights[counted].astype(np.float64))

    def _read_incomplete(self, X: Any, y: Any, sample_weight: Any) -> TablePair:
        """Return both tables; targets that are NaN are missing."""
        X = validated(
            self,
            X,
            remedy=MISSING_REMEDY,
            accept_sparse="csr",
            ensure_min_samples=2,
            every_column=True,
        )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but y is None.")
        Y = as_floats(y, "y").astype(X.dtype)
        self._one_target = Y.ndim == 1
        if self._one_target:
            Y = Y[:, None]
        if Y.ndim != 2 or len(Y) != X.shape[0] or Y.shape[1] < 1:
            raise ValueError(
                f"y must have a row of targets for each of the {X.shape[0]} rows of X, got shape "
                f"{np.shape(y)}."
            )
        if np.isinf(Y).any():
            raise ValueError("y contains infinity; targets must be finite, or NaN where missing.")
        if np.isnan(Y).all(axis=0).any():
            column = int(np.isnan(Y).all(axis=0).argmax())
            raise ValueError(f"Column {column} of y has no target: leave it out.")
        check_sizes(Y, None, fitting=True, table="y")
        weights = row_weights(X, sample_weight)
        if weights is None:
            return TablePair(X, Y, None)
        counted = weights > 0
        return TablePair(X[counted], Y[counted], weights[counted].astype(np.float64))

    def _float_tables(self, X: Array, y: Array) -> TablePair:
        """Return float arrays that need no conversion."""
        self.n_features_in_ = X.shape[1]
        self._one_target = False
        return TablePair(X, y, None)

    def _rows(self, X: Any) -> Any:
        """Return new rows of the first table, validated."""
        check_is_fitted(self)
        return validated(self, X, remedy=MISSING_REMEDY, accept_sparse="csr", reset=False)

    def predict(self, X: Any) -> Array:
        """Predict the second table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_targets), or (n_samples,) where y was one column
        without a second dimension
        """
        X = self._rows(X)
        Y = np.asarray(X @ self.coef_.T + self.intercept_, X.dtype)
        if self._one_target:
            return Y.ravel()
        return Y

    @property
    def _n_features_out(self) -> int:
        return int(self.x_rotations_.shape[1])


def check_table_sizes(X: Array, y: Array) -> None:
    """Raise, naming the column, for numbers too large or small to be squared."""
    check_sizes(X, None, fitting=True)
    check_sizes(y, None, fitting=True, table="y")


def are_float_tables(X: Any, y: Any) -> bool:
    """Return whether both are float arrays of the same rows, which need no conversion."""
    for table in (X, y):
        if type(table) is not np.ndarray or table.ndim != 2 or table.size == 0:
            return False
        if table.dtype.char not in "fd" or not table.dtype.isnative:
            return False
    return len(X) == len(y) > 1


@np.errstate(over="ignore", invalid="ignore")
def _sums_are_finite(X: Array, y: Array) -> bool:
    """Return whether the sums of all numbers are finite, as they are only if all numbers are."""
    return bool(np.isfinite(X.sum()) and np.isfinite(y.sum()))


def standardized(X: Any, mean: Array, deviation: Array | float, rotations: Array) -> Array:
    """Return (X - mean) / deviation times rotations; a sparse X is not made dense."""
    if is_sparse(X):
        turned = rotations / np.reshape(deviation, (-1, 1))
        return X @ turned - mean @ turned
    return ((X - mean) / deviation) @ rotations
