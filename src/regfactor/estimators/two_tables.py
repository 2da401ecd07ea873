"""What estimators on two tables of the same rows share: the door, centring, whitening, linear predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from regfactor._linalg import gram, is_sparse, thin_svd
from regfactor._params import Array
from regfactor.estimators.door import row_weights

EPS = float(np.finfo(np.float64).eps)
MOST_CONDITION = 3e4  # of a factor of a Gram matrix: beyond it the squares lose too many digits


@dataclass(frozen=True, eq=False)
class Centered:
    """A table about its weighted mean, columns divided by their deviation and rows times the root of their weight."""

    values: Array
    mean: Array
    deviation: Array

    @classmethod
    def of(cls, X: Array, weights: Array | None, center: bool = True, scale: bool = False) -> Centered:
        """Sums are in float64; a column that varies by no more than its rounding is constant and becomes zero."""
        X = X.astype(np.float64, copy=False)
        mean = np.average(X, axis=0, weights=weights) if center else np.zeros(X.shape[1])
        values = X - mean if weights is None else (X - mean) * np.sqrt(weights)[:, None]
        total = float(len(X) if weights is None else weights.sum())
        deviation = np.sqrt(np.einsum("ij,ij->j", values, values) / (total - 1 if total > 1 else total))
        if center:
            values[:, deviation <= 4 * EPS * np.abs(mean)] = 0
        deviation = np.where(deviation > 4 * EPS * np.abs(mean), deviation, 1.0) if scale else np.ones(X.shape[1])
        if scale:
            values /= deviation
        return cls(values, mean, deviation)


def whitener(X: Array, ridge: float) -> tuple[Array, Array | None]:
    """Return A with A'(X'X + ridge I)A = I on the row space of X, and X'X where it has kept the digits of X.

    By a Cholesky factorization where the Gram matrix is well-conditioned, else by an SVD without null directions.
    """
    n, p = X.shape
    if p <= n:
        G = gram(X)
        L, failed = scipy.linalg.lapack.dpotrf(G + ridge * np.eye(p), lower=True)
        if not failed:
            inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=True)
            if not failed and np.linalg.norm(L) * np.linalg.norm(inverse) < MOST_CONDITION:
                return inverse.T, G
    _, s, Vt = thin_svd(X, cut=max(n, p) * EPS)
    return Vt.T / np.sqrt(np.square(s) + ridge), None


@dataclass(frozen=True, eq=False)
class Pair:
    """Two centered tables with their whiteners A and B, and X'X, Y'Y and X'Y where these have kept their digits."""

    X: Array
    Y: Array
    A: Array
    B: Array
    grams: tuple[Array, Array, Array] | None

    @classmethod
    def of(cls, X: Array, Y: Array, ridge: float) -> Pair:
        """Whiten both; warn of correlations that are one by counting alone."""
        (A, first), (B, second) = whitener(X, ridge), whitener(Y, ridge)
        if ridge == 0 and A.shape[1] + B.shape[1] >= len(X):
            warnings.warn(
                f"The tables have ranks {A.shape[1]} and {B.shape[1]} on {len(X)} rows: some correlations are 1 "
                "whatever the data; set ridge > 0.",
                UserWarning,
                stacklevel=3,
            )
        return cls(X, Y, A, B, None if first is None or second is None else (first, second, X.T @ Y))

    def directions(self, k: int) -> tuple[Array, Array]:
        """Return the k leading pairs of canonical directions."""
        A, B = self.A, self.B
        M = (self.X @ A).T @ (self.Y @ B) if self.grams is None else A.T @ self.grams[2] @ B
        U, _, Vt = scipy.linalg.svd(M, full_matrices=False, check_finite=False)
        return A @ U[:, :k], B @ Vt[:k].T

    def moments(self, A: Array, B: Array) -> tuple[tuple[Array, Array], Array, Array]:
        """Return (X'S, Y'T), S'T and S'Y of the scores S = XA and T = YB."""
        if self.grams is None:
            S, T = self.X @ A, self.Y @ B
            return (self.X.T @ S, self.Y.T @ T), S.T @ T, S.T @ self.Y
        within_x, within_y, across = self.grams
        return (within_x @ A, within_y @ B), A.T @ across @ B, A.T @ across


class TwoTables(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """What both share: the two tables at the door, predictions that are linear in X, scores by `x_rotations_`."""

    def _tables(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array | None]:
        """Return both tables, validated, without the rows of weight zero."""
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        if is_sparse(y):
            raise ValueError("Sparse y is not taken: give y.toarray().")
        Y = np.asarray(y, np.float64)
        weights = row_weights(X, sample_weight)
        self._one_target = Y.ndim == 1
        Y = Y[:, None] if self._one_target else Y
        if weights is None:
            return X, Y, None
        counted = weights > 0
        return X[counted], Y[counted], weights[counted].astype(np.float64)

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def predict(self, X: Any) -> Array:
        """Predict the second table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_targets), or (n_samples,) where y was one column without a second dimension
        """
        X = self._rows(X)
        Y = np.asarray(X @ self.coef_.T + self.intercept_, X.dtype)
        return Y.ravel() if self._one_target else Y

    @property
    def _n_features_out(self) -> int:
        return int(self.x_rotations_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
