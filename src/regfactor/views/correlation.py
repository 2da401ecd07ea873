"""Canonical correlation of two tables of the same rows, in closed form."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from regfactor.core.params import Array, require_count, require_not_negative
from regfactor.fitting.inputs import codes_of
from regfactor.fitting.rollback import all_or_nothing
from regfactor.views.centered import EPS, degrees
from regfactor.views.pair import Pair
from regfactor.views.two_tables import TwoTables, are_plain, standardized


class CanonicalCorrelation(TwoTables):
    """max over A, B of tr(A' Sxy B) with A'(Sxx + ridge I)A = I and B'(Syy + ridge I)B = I: canonical correlation.

    S are the covariances of both tables, whose columns are standardized with `scale`. In closed
    form, by one singular value decomposition. Attributes and their scales and signs are those of
    scikit-learn's `CCA`, except that `predict` is the least squares prediction from the scores of
    X; `CCA` takes the scores of X for those of y. A sparse X, absent entries zeros, is centered
    without being made dense, but a fit holds up to six dense arrays of n_features x min(n_samples,
    n_features) numbers; of its directions, in columns of length one, those count as null whose
    singular value is less than about 1e-6 of the largest. So do, in any table, those that rounding
    made.

    Parameters
    ----------
    n_components : int, default=2
        Most pairs of directions; fewer where a table has less rank.
    ridge : float, default=0.0
        In units of a column's variance. With 0, null directions of a table are left out.
    scale : bool, default=True
        Whether columns are divided by their standard deviations.

    Attributes
    ----------
    correlations_ : array of shape (n_components,)
        Correlations of the training scores of X with those of y.
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Orthonormal bases of the directions, one after the other.
    x_rotations_, y_rotations_ : arrays of the same shapes
        The directions: scores are the standardized table times these.
    x_loadings_, y_loadings_ : arrays of the same shapes
        Regressions of a table's columns on its scores.
    coef_ : array of shape (n_targets, n_features)
    intercept_ : array of shape (n_targets,)

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import CanonicalCorrelation
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=(500, 1))
    >>> X, Y = shared + rng.normal(size=(500, 3)), shared + rng.normal(size=(500, 4))
    >>> CanonicalCorrelation(n_components=2).fit(X, Y).correlations_.round(2)
    array([0.78, 0.09])
    """

    def __init__(self, n_components: int = 2, ridge: float = 0.0, *, scale: bool = True):
        self.n_components = n_components
        self.ridge = ridge
        self.scale = scale

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the directions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            The second table.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows.

        Returns
        -------
        The estimator itself.
        """
        with all_or_nothing(self):
            require_count(self, n_components=self.n_components)
            require_not_negative(self, ridge=self.ridge)
            pair, dtype = self._pair(X, y, sample_weight)
            self._publish(pair, _as_weights(*pair.directions(self.n_components)), dtype)
        return self

    def _pair(self, X: Any, y: Any, sample_weight: Any) -> tuple[Pair, Any]:
        """Return the whitened tables and the type of their numbers.

        Products read every number, and tell along the way whether all are finite: plain arrays are
        looked through at the door only where these do not serve.
        """
        plain = sample_weight is None and are_plain(X, y)
        if plain:
            x, Y, weights = self._as_they_are(X, y)
        else:
            x, Y, weights = self._tables(X, y, sample_weight)
        ridge = self.ridge * degrees(float(len(Y) if weights is None else weights.sum()))
        pair = Pair.by_products(x, Y, weights, ridge, self.scale)
        if pair is None and plain:
            self._tables(x, Y, None)  # refuses what is not finite
        pair = pair or Pair.by_tables(x, Y, weights, ridge, self.scale)
        pair.warn_of_nothing_learned(len(Y), ridge)
        return pair, x.dtype

    def _publish(self, pair: Pair, found: list[tuple[Array, Array]], dtype: Any) -> None:
        """Set the fitted attributes."""
        ((x_mean, x_deviation), (y_mean, y_deviation)) = pair.units
        (A, B) = (rotations for _, rotations in found)
        loadings, cross, predicted = pair.held.moments(A, B)
        inner = [rotations.T @ own for rotations, own in zip((A, B), loadings, strict=True)]
        inverses = [_inverse(each) for each in inner]
        for view, (weights, rotations), own, inverse in zip(
            "xy",
            found,
            loadings,
            inverses,
            strict=True,
        ):
            setattr(self, f"{view}_weights_", weights.astype(dtype))
            setattr(self, f"{view}_rotations_", rotations.astype(dtype))
            setattr(self, f"{view}_loadings_", (own @ inverse).astype(dtype))
        self._x, self._y = (
            (mean.astype(dtype), deviation.astype(dtype)) for mean, deviation in pair.units
        )
        lengths = [
            np.sqrt(np.maximum(each.diagonal(), 0)) for each in inner
        ]  # roots first: squares may underflow
        norms = lengths[0] * lengths[1]
        self.correlations_ = np.diag(cross) / np.where(norms > 0, norms, 1.0)
        coef = A @ inverses[0] @ predicted * y_deviation / x_deviation[:, None]
        self.coef_ = coef.T.astype(dtype)
        self.intercept_ = (y_mean - x_mean @ coef).astype(dtype)

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the scores of X, and those of y where it is given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets), optional

        Returns
        -------
        array of shape (n_samples, n_components), or a pair of them
        """
        X = self._rows(X)
        Y = None if y is None else _second(y, len(self.y_rotations_))
        check_consistent_length(X, Y)
        x_scores = np.asarray(standardized(X, *self._x, self.x_rotations_), X.dtype)
        if Y is None:
            return x_scores
        return (x_scores, np.asarray(standardized(Y, *self._y, self.y_rotations_), X.dtype))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return both scores where y is a table; those of X where y is one target, as a pipeline wants it."""
        self.fit(X, y, **fit_params)
        if self._one_target:
            return self.transform(X)
        return self.transform(X, y)

    def inverse_transform(self, X: Any, y: Any = None) -> Any:
        """Return the tables that scores stand for: scores times loadings, in the units of the training tables.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores of X.
        y : array-like of shape (n_samples, n_components), optional
            Scores of y.

        Returns
        -------
        array of shape (n_samples, n_features), or a pair of tables
        """
        check_is_fitted(self)
        X = codes_of(X, self._n_features_out)
        first = np.asarray(X @ self.x_loadings_.T * self._x[1] + self._x[0], X.dtype)
        if y is None:
            return first
        return first, np.asarray(
            _second(y, self._n_features_out) @ self.y_loadings_.T * self._y[1] + self._y[0],
            X.dtype,
        )


def _as_weights(A: Array, B: Array) -> list[tuple[Array, Array]]:
    """Return (weights, rotations) of both tables as scikit-learn scales them.

    Deflating a table by its scores leaves it blind to the directions already found, so a weight of
    unit norm is a direction less its projection on those before: Gram-Schmidt. Its largest entry in
    X is positive.
    """
    pairs = []
    for directions in (A, B):
        Q, lengths = _qr(directions)
        pairs.append((Q * np.sign(lengths), directions / np.abs(lengths)))
    Q = pairs[0][0]
    if Q.size:
        signs = np.sign(Q[np.abs(Q).argmax(axis=0), np.arange(Q.shape[1])])
    else:
        signs = np.ones(Q.shape[1])
    return [(weights * signs, rotations * signs) for weights, rotations in pairs]


def _qr(A: Array) -> tuple[Array, Array]:
    """Return Q and the diagonal of R in A = QR: numpy's takes longer to begin than a few columns need."""
    if A.size == 0:
        return A, np.ones(A.shape[1])
    work = 64 * A.shape[1]
    factored, scales, _, _ = scipy.linalg.lapack.dgeqrf(A, lwork=work)
    return scipy.linalg.lapack.dorgqr(factored, scales, lwork=work)[0], factored.diagonal()


def _inverse(G: Array) -> Array:
    """Return the inverse of a small Gram matrix; its null directions, of scores that do not vary, stay so."""
    if G.size == 0:
        return G
    squares, V, failed = scipy.linalg.lapack.dsyevd(G)
    if failed:
        raise np.linalg.LinAlgError("LAPACK found no eigenvalues of the products of scores.")
    kept = squares > len(G) * EPS * squares.max(initial=0.0)
    V = V[:, kept]
    return np.asarray((V / squares[kept]) @ V.T)


def _second(y: Any, columns: int) -> Array:
    """Return the second table, or its scores, validated."""
    Y = check_array(y, dtype=[np.float64, np.float32], ensure_2d=False, input_name="y")
    Y = Y[:, None] if Y.ndim == 1 else Y
    if Y.shape[1] != columns:
        raise ValueError(
            f"y has {Y.shape[1]} columns, but {columns} are expected: as many as in fit.",
        )
    return Y
