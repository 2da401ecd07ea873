"""Canonical correlation of two tables of the same rows, in closed form."""

from __future__ import annotations

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_array, check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import EPS, Array, frozen
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.inputs import FLOATS, codes_of
from regfactor.fitting.labels import require_same_rows
from regfactor.fitting.parameters import COUNT, NON_NEGATIVE, parametrized
from regfactor.views.canonical_svd import CanonicalDirections, CanonicalPoint
from regfactor.views.centered import degrees
from regfactor.views.pair import Products, TablePair
from regfactor.views.two_tables import (
    TwoTableEstimator,
    are_float_tables,
    check_table_sizes,
    standardized,
)


@frozen
class CorrelationInputs:
    """Two tables, and the products of their columns where these are finite."""

    tables: TablePair
    products: Products | None


@parametrized
class CanonicalCorrelation(TwoTableEstimator):
    """max over A, B of tr(A' Sxy B) with A'(Sxx + ridge I)A = I and B'(Syy + ridge I)B = I.

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
    objective_ : float
        Minus the trace that is maximized, in sums over rows.

    See Also
    --------
    TwoViewSubspace : Shared codes of two views with missing entries, at the global optimum.
    ReducedRankRegression : Prediction of the second view from the first.

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

    _parameter_constraints = {
        "n_components": [COUNT],
        "ridge": [NON_NEGATIVE],
        "scale": ["boolean"],
    }

    n_components: int = 2
    ridge: float = 0.0
    _: KW_ONLY
    scale: bool = True

    def _read(self, X: Any, y: Any, sample_weight: Any) -> CorrelationInputs:
        """Return both tables with their products.

        Products read every number and show whether all are finite: float arrays are validated
        only where their products are not.
        """
        if sample_weight is not None or not are_float_tables(X, y):
            tables = self._read_tables(X, y, sample_weight)
            return CorrelationInputs(tables, Products.of(tables, self.scale))
        tables = self._float_tables(X, y)
        products = Products.of(tables, self.scale)
        if products is None:
            tables = self._read_tables(X, y, None)
        elif products.any_constant():  # as are, in squares, columns of the smallest numbers
            check_table_sizes(X, y)
        return CorrelationInputs(tables, products)

    def _state(self, inputs: CorrelationInputs) -> CanonicalDirections:
        ridge = self.ridge * degrees(inputs.tables.total)
        return CanonicalDirections(
            inputs.tables,
            inputs.products,
            self.n_components,
            ridge,
            self.scale,
        )

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[CanonicalPoint],
        inputs: CorrelationInputs,
        run: Run,
    ) -> Solution[CanonicalPoint]:
        point = solution.point
        tables = point.pair.tables
        as_given = partial(np.asarray, dtype=inputs.tables.X.dtype)
        point.pair.warn_if_degenerate(len(inputs.tables.Y), choice.problem.ridge)
        x = Orthonormal.of(point.A)
        y = Orthonormal.of(point.B)
        # the largest entry of every weight of X is positive
        x_signs = _largest_signs(x.weights)
        y_signs = x_signs * np.sign(x.lengths) * np.sign(y.lengths)
        x_rotations = point.A * (x_signs / x.lengths)
        y_rotations = point.B * (y_signs / y.lengths)
        moments = tables.moments(x_rotations, y_rotations)
        x_inner = x_rotations.T @ moments.x
        y_inner = y_rotations.T @ moments.y
        x_inverse = _inverse(x_inner)
        self.x_weights_ = as_given(x.weights * x_signs)
        self.y_weights_ = as_given(y.weights * y_signs)
        self.x_rotations_ = as_given(x_rotations)
        self.y_rotations_ = as_given(y_rotations)
        self.x_loadings_ = as_given(moments.x @ x_inverse)
        self.y_loadings_ = as_given(moments.y @ _inverse(y_inner))
        # roots first: squares may underflow
        norms = _roots(x_inner) * _roots(y_inner)
        self.correlations_ = moments.cross.diagonal() / np.where(norms > 0, norms, 1.0)
        x_units = tables.x_units
        y_units = tables.y_units
        self._x_mean = as_given(x_units.mean)
        self._x_deviation = as_given(x_units.deviation)
        self._y_mean = as_given(y_units.mean)
        self._y_deviation = as_given(y_units.deviation)
        coef = x_rotations @ x_inverse @ moments.x_with_y
        coef = coef * y_units.deviation / x_units.deviation[:, None]
        self.coef_ = as_given(coef.T)
        self.intercept_ = as_given(y_units.mean - x_units.mean @ coef)
        return solution

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
        Y = None
        if y is not None:
            Y = _second_table(y, len(self.y_rotations_))
            require_same_rows(X, Y)
        x_scores = standardized(X, self._x_mean, self._x_deviation, self.x_rotations_)
        x_scores = np.asarray(x_scores, X.dtype)
        if Y is None:
            return x_scores
        y_scores = standardized(Y, self._y_mean, self._y_deviation, self.y_rotations_)
        return x_scores, np.asarray(y_scores, X.dtype)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the scores of both tables; of X alone where y is one target.

        The latter is what a pipeline expects.
        """
        self.fit(X, y, **fit_params)
        if self._one_target:
            return self.transform(X)
        return self.transform(X, y)

    def inverse_transform(self, X: Any, y: Any = None) -> Any:
        """Return scores times loadings, in the units of the training tables.

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
        x_table = X @ self.x_loadings_.T * self._x_deviation + self._x_mean
        x_table = np.asarray(x_table, X.dtype)
        if y is None:
            return x_table
        scores = _second_table(y, self._n_features_out)
        y_table = scores @ self.y_loadings_.T * self._y_deviation + self._y_mean
        return x_table, np.asarray(y_table, X.dtype)


@frozen
class Orthonormal:
    """Orthonormal Q and the diagonal of R in A = QR, of directions A.

    scikit-learn deflates a table by its scores, which leaves it blind to the directions already
    found: a weight of unit norm is a direction less its projection on those before, as in Q, and
    a direction is as long as its weight.
    """

    weights: Array
    lengths: Array

    @staticmethod
    def of(A: Array) -> Orthonormal:
        """Factor without the overhead of numpy for few columns."""
        if A.size == 0:
            return Orthonormal(A, np.ones(A.shape[1]))
        work = 64 * A.shape[1]
        factored, scales, _, _ = scipy.linalg.lapack.dgeqrf(A, lwork=work)
        Q = scipy.linalg.lapack.dorgqr(factored, scales, lwork=work)[0]
        return Orthonormal(Q, factored.diagonal())


def _largest_signs(Q: Array) -> Array:
    """Return the sign of the largest entry of every column."""
    if not Q.size:
        return np.ones(Q.shape[1])
    largest = np.abs(Q).argmax(axis=0)
    return np.sign(Q[largest, np.arange(Q.shape[1])])


def _inverse(G: Array) -> Array:
    """Return the inverse of a small Gram matrix; null directions, of constant scores, stay null."""
    if G.size == 0:
        return G
    squares, V, failed = scipy.linalg.lapack.dsyevd(G)
    if failed:
        raise np.linalg.LinAlgError("LAPACK found no eigenvalues of the products of scores.")
    kept = squares > len(G) * EPS * max(squares[-1], 0.0)
    V = V[:, kept]
    return (V / squares[kept]) @ V.T


def _roots(G: Array) -> Array:
    """Return the lengths of scores from their Gram matrix."""
    return np.sqrt(np.maximum(G.diagonal(), 0))


def _second_table(y: Any, columns: int) -> Array:
    """Return the second table, or its scores, validated."""
    Y = check_array(y, dtype=FLOATS, ensure_2d=False, input_name="y")
    if Y.ndim == 1:
        Y = Y[:, None]
    if Y.shape[1] != columns:
        raise ValueError(
            f"y has {Y.shape[1]} columns, but {columns} are expected: as many as in fit."
        )
    return Y
