"""What estimators on two tables of the same rows share: the door, centring, whitening, linear predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from regfactor._linalg import gram, is_sparse, leading_vectors, thin_svd
from regfactor._params import Array
from regfactor.estimators.certificate import Uncertified
from regfactor.estimators.door import row_weights

EPS = float(np.finfo(np.float64).eps)
MOST_CONDITION = 3e4  # of a factor of a Gram matrix: beyond it the squares lose too many digits


@dataclass(frozen=True, eq=False)
class Shifted:
    """S - u m' of a sparse S: a table about its mean that is never formed."""

    S: Any
    u: Array
    m: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return int(self.S.shape[0]), int(self.S.shape[1])

    @property
    def T(self) -> Shifted:
        """Return the transpose."""
        return Shifted(self.S.T.tocsr(), self.m, self.u)

    def __matmul__(self, A: Array) -> Array:
        return np.asarray(self.S @ A - np.outer(self.u, self.m @ A))

    def gram(self) -> Array:
        """Return the inner products of the columns."""
        cross = np.outer(self.S.T @ self.u, self.m)
        return gram(self.S) - cross - cross.T + (self.u @ self.u) * np.outer(self.m, self.m)


@dataclass(frozen=True, eq=False)
class Centered:
    """A table about its weighted mean, columns divided by their deviation and rows times the root of their weight."""

    values: Any
    mean: Array
    deviation: Array

    @classmethod
    def of(
        cls, X: Any, weights: Array | None, center: bool = True, scale: bool = False, overwrite: bool = False
    ) -> Centered:
        """Sums are in float64; a column that varies by no more than its rounding is constant and becomes zero."""
        X = X.astype(np.float64, copy=False)
        if is_sparse(X):
            return cls._of_sparse(X, np.ones(X.shape[0]) if weights is None else weights, center, scale)
        total = float(len(X) if weights is None else weights.sum())
        share = np.full(len(X), 1 / total) if weights is None else weights / total
        mean = share @ X if center else np.zeros(X.shape[1])
        values = np.subtract(X, mean, out=X if overwrite else None)
        if center:  # what rounding left of the mean of many rows, which would make a constant column vary
            rest = share @ values
            mean += rest
            values -= rest
        if weights is not None:
            values *= np.sqrt(weights)[:, None]
        deviation = np.sqrt(np.einsum("ij,ij->j", values, values) / (total - 1 if total > 1 else total))
        constant = deviation <= 4 * EPS * np.abs(mean)
        if center and constant.any():
            values[:, constant] = 0
        deviation = np.where(constant, 1.0, deviation) if scale else np.ones(X.shape[1])
        if scale:
            values *= 1 / deviation
        return cls(values, mean, deviation)

    def part(self, columns: slice) -> Centered:
        """Return some of the columns."""
        return Centered(self.values[:, columns], self.mean[columns], self.deviation[columns])

    @classmethod
    def _of_sparse(cls, X: Any, w: Array, center: bool, scale: bool) -> Centered:
        total, p = float(w.sum()), X.shape[1]
        stored = np.repeat(w, np.diff(X.indptr))
        absent = np.maximum(total - np.bincount(X.indices, stored, minlength=p), 0)
        mean = np.zeros(p)
        for _ in range(2 if center else 0):  # the second time takes off the rounding of the first
            left = np.bincount(X.indices, stored * (X.data - mean[X.indices]), minlength=p)
            mean = mean + (left - absent * mean) / total
        squares = np.bincount(X.indices, stored * np.square(X.data - mean[X.indices]), minlength=p)
        deviation = np.sqrt((squares + absent * np.square(mean)) / (total - 1 if total > 1 else total))
        varies = (deviation > 4 * EPS * np.abs(mean)) if center else np.ones(p, bool)
        deviation = np.where(varies & (deviation > 0), deviation, 1.0) if scale else np.ones(p)
        root, share = np.sqrt(w), varies / deviation
        S = scipy.sparse.csr_array((X.data * share[X.indices] * np.sqrt(stored), X.indices, X.indptr), X.shape)
        return cls(Shifted(S, root, mean * share), mean, deviation)


def side_by_side(X: Any, Y: Array, weights: Array | None, scale: bool) -> tuple[list[Centered], Array | None]:
    """Return both tables centered, and where X is dense the array that holds them: one product gives all of theirs."""
    if is_sparse(X):
        return [Centered.of(T, weights, scale=scale) for T in (X, Y)], None
    both = Centered.of(np.hstack([X, Y], dtype=np.float64), weights, scale=scale, overwrite=True)
    p = X.shape[1]
    return [both.part(slice(p)), both.part(slice(p, None))], both.values


def standardized(X: Any, mean: Array, deviation: Array | float, rotations: Array) -> Array:
    """Return (X - mean) / deviation times rotations; a sparse X is not made dense."""
    if is_sparse(X):
        turned = rotations / np.reshape(deviation, (-1, 1))
        return np.asarray(X @ turned - mean @ turned)
    return np.asarray(((X - mean) / deviation) @ rotations)


def whitener(X: Any, ridge: float, G: Array | None = None) -> tuple[Array, Array | None]:
    """Return A with A'(X'X + ridge I)A = I on the row space of X, and X'X where it has kept the digits of X.

    By a Cholesky factorization where the Gram matrix G, computed unless given, is well-conditioned, else by an SVD
    without null directions.
    """
    n, p = X.shape
    if p <= n:
        if G is None:
            G = X.gram() if isinstance(X, Shifted) else gram(X)
        L, failed = scipy.linalg.lapack.dpotrf(G + ridge * np.eye(p), lower=True)
        if not failed:
            inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=True)
            if not failed and np.linalg.norm(L) * np.linalg.norm(inverse) < MOST_CONDITION:
                return inverse.T, G
    if isinstance(X, Shifted):
        squares, V = _right_vectors(X)
    else:
        _, s, Vt = thin_svd(X, cut=max(n, p) * EPS)
        squares, V = np.square(s), Vt.T
    return V / np.sqrt(squares + ridge), None


def _right_vectors(X: Shifted) -> tuple[Array, Array]:
    """Return the squared singular values above rounding, and right singular vectors, by the smaller Gram matrix."""
    n, p = X.shape
    G = X.gram() if p <= n else X.T.gram()
    squares, V = scipy.linalg.eigh(G, check_finite=False)
    noise = max(n, p) * EPS * (float(np.vdot(X.S.data, X.S.data)) + float(X.u @ X.u) * float(X.m @ X.m))
    squares, V = squares[squares > noise][::-1], V[:, squares > noise][:, ::-1]
    return squares, V if p <= n else (X.T @ V) / np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two centered tables with their whiteners A and B, and X'X, Y'Y and X'Y where these have kept their digits."""

    X: Any
    Y: Array
    A: Array
    B: Array
    grams: tuple[Array, Array, Array] | None

    @classmethod
    def of(cls, X: Any, Y: Array, ridge: float, both: Array | None = None) -> Pair:
        """Whiten both; warn of correlations that are one by counting alone, and of tables that have none.

        `both` holds the tables side by side: one product of it costs less than three of them.
        """
        n, p = X.shape
        G = gram(both) if both is not None and max(p, Y.shape[1]) <= n else None
        own = (None, None) if G is None else (G[:p, :p], G[p:, p:])
        (A, first), (B, second) = whitener(X, ridge, own[0]), whitener(Y, ridge, own[1])
        for name, table in (("X", X), ("y", Y)):
            if not (np.any(table.m) if isinstance(table, Shifted) else np.any(table[0]) or np.any(table)):
                warnings.warn(
                    f"All columns of {name} are constant, so that it correlates with nothing and is of no use here; "
                    "predictions are the mean of y.",
                    UserWarning,
                    stacklevel=3,
                )
        if ridge == 0 and A.shape[1] and B.shape[1] and A.shape[1] + B.shape[1] >= n:
            warnings.warn(
                f"The tables have ranks {A.shape[1]} and {B.shape[1]} on {n} rows: some correlations are 1 "
                "whatever the data; set ridge > 0.",
                UserWarning,
                stacklevel=3,
            )
        if first is None or second is None:
            return cls(X, Y, A, B, None)
        return cls(X, Y, A, B, (first, second, X.T @ Y if G is None else G[:p, p:]))

    def directions(self, k: int) -> tuple[Array, Array]:
        """Return the k leading pairs of canonical directions."""
        A, B = self.A, self.B
        M = (self.X @ A).T @ (self.Y @ B) if self.grams is None else A.T @ self.grams[2] @ B
        U, V = leading_vectors(M, k)
        return A @ U, B @ V

    def moments(self, A: Array, B: Array) -> tuple[tuple[Array, Array], Array, Array]:
        """Return (X'S, Y'T), S'T and S'Y of the scores S = XA and T = YB."""
        if self.grams is None:
            S, T = self.X @ A, self.Y @ B
            return (self.X.T @ S, self.Y.T @ T), S.T @ T, S.T @ self.Y
        within_x, within_y, across = self.grams
        return (within_x @ A, within_y @ B), A.T @ across @ B, A.T @ across


class TwoTables(
    Uncertified, ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, RegressorMixin, BaseEstimator
):
    """What both share: the two tables at the door, predictions that are linear in X, scores by `x_rotations_`."""

    _locally, _why = False, "its global optimum is known in closed form"

    def _tables(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array | None]:
        """Return both tables, validated, without the rows of weight zero."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True, y_numeric=True,
            ensure_min_samples=2,
        )  # fmt: skip
        X = _summed(X) if is_sparse(X) else X
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

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return scipy.sparse.csr_array(X) if is_sparse(X) else X

    def predict(self, X: Any) -> Array:
        """Predict the second table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

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
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _summed(X: Any) -> scipy.sparse.csr_array:
    """Return a CSR array in which every place is stored once; the given one is left as it is."""
    X = scipy.sparse.csr_array(X, copy=not X.has_canonical_format)
    X.sum_duplicates()
    return X
