"""What estimators on two tables of the same rows share: the door, scores, linear predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.inputs import row_weights, validated

HOLES = "use TwoViewSubspace, which takes holes and whole missing views, or fill them before"


class TwoTables(
    Uncertified,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """What both share: the two tables at the door, predictions that are linear in X, scores by `x_rotations_`."""

    _locally = False
    _why = "its global optimum is known in closed form"

    def _tables(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array | None]:
        """Return both tables, validated, without the rows of weight zero."""
        X, y = validated(
            self,
            X,
            y,
            remedy=HOLES,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        if is_sparse(y):
            raise ValueError("Sparse y is not taken: give y.toarray().")
        Y = np.asarray(y)
        Y = (
            Y if Y.dtype == np.float32 else Y.astype(np.float64, copy=False)
        )  # whose rounding counts as that of X
        weights = row_weights(X, sample_weight)
        self._one_target = Y.ndim == 1
        Y = Y[:, None] if self._one_target else Y
        if weights is None:
            return X, Y, None
        counted = weights > 0
        return X[counted], Y[counted], weights[counted].astype(np.float64)

    def _as_they_are(self, X: Array, y: Array) -> tuple[Array, Array, None]:
        """Return plain arrays as `_tables` does, without looking for numbers that are not finite."""
        self.n_features_in_ = X.shape[1]
        self._one_target = False
        return X, y, None

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validated(
            self,
            X,
            remedy=HOLES,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=False,
        )

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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def are_plain(X: Any, y: Any) -> bool:
    """Whether both are arrays of floats, of the same rows, in which nothing has to be converted."""
    floats = all(
        type(T) is np.ndarray and T.ndim == 2 and T.dtype in (np.float64, np.float32)
        for T in (X, y)
    )
    return floats and len(X) == len(y) > 1 and X.size > 0 and y.size > 0


def standardized(X: Any, mean: Array, deviation: Array | float, rotations: Array) -> Array:
    """Return (X - mean) / deviation times rotations; a sparse X is not made dense."""
    if is_sparse(X):
        turned = rotations / np.reshape(deviation, (-1, 1))
        return np.asarray(X @ turned - mean @ turned)
    return np.asarray(((X - mean) / deviation) @ rotations)
