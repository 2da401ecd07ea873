"""Regression of one table on another by coefficients of limited rank, in closed form."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from regfactor.core.linalg import thin_svd
from regfactor.core.params import Array, require_count, require_not_negative
from regfactor.fitting.rollback import all_or_nothing
from regfactor.views.centered import Centered
from regfactor.views.pair import whitener
from regfactor.views.two_tables import TwoTables, standardized


class ReducedRankRegression(TwoTables):
    """min over B of rank at most `rank` and b of |Y - X B - 1 b'|_F^2 / 2 + (alpha/2) |B|_F^2.

    In closed form: the ridge regression projected on the leading right singular vectors of its fit.
    With rank at least the number of targets it is least squares, or ridge regression as in
    scikit-learn. A sparse X, absent entries zeros, is centered without being made dense, but a fit
    holds up to six dense arrays of n_features x min(n_samples, n_features) numbers; of its
    directions, in columns of length one, those count as null whose singular value is less than
    about 1e-6 of the largest. So do, in any table, those that rounding made.

    Parameters
    ----------
    rank : int, default=2
        Most rank of the coefficients.
    alpha : float, default=0.0
        Multiplies the squared norm of the coefficients. With 0, coefficients of a table without
        full column rank are those of least norm.
    fit_intercept : bool, default=True
        Whether there are offsets b, which are not penalized.

    Attributes
    ----------
    coef_ : array of shape (n_targets, n_features), or (n_features,) for one target
        B', which is components_' x_rotations_'.
    intercept_ : array of shape (n_targets,), or a float
        b.
    x_rotations_ : array of shape (n_features, rank)
        Codes are X, about its mean, times these.
    components_ : array of shape (rank, n_targets)
        Orthonormal rows: predictions are codes times these, plus the mean of y.
    objective_ : float
        The objective at the solution.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ReducedRankRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ np.outer([1.0, 0.0, -1.0, 0.5], [1.0, 2.0, 0.0]) + 0.1 * rng.normal(size=(200, 3))
    >>> model = ReducedRankRegression(rank=1).fit(X, Y)
    >>> model.coef_[1].round(1) + 0.0
    array([ 2.,  0., -2.,  1.])
    >>> int(np.linalg.matrix_rank(model.coef_))
    1
    """

    def __init__(self, rank: int = 2, alpha: float = 0.0, *, fit_intercept: bool = True):
        self.rank = rank
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows.

        Returns
        -------
        The estimator itself.
        """
        with all_or_nothing(self):
            require_count(self, rank=self.rank)
            require_not_negative(self, alpha=self.alpha)
            X, Y, weights = self._tables(X, y, sample_weight)
            x, y = (Centered.of(table, weights, center=self.fit_intercept) for table in (X, Y))
            A, squared = whitener(x, self.alpha)
            # B = A U s V' with A'X'Y = U s V': the fit of the ridge regression, in an orthonormal
            # basis, truncated
            U, s, Vt = thin_svd(
                A.T @ (x.values.T @ y.values) if squared else (x.values @ A).T @ y.values,
            )
            k = min(self.rank, len(s))
            rotations = A @ (U[:, :k] * s[:k])
            components = Vt[:k]
            coef = rotations @ components
            residual = y.values - x.values @ coef
            self.objective_ = (
                float(np.vdot(residual, residual) + self.alpha * np.vdot(coef, coef)) / 2
            )
            self._mean = x.mean.astype(X.dtype)
            self.x_rotations_ = rotations.astype(X.dtype)
            self.components_ = components.astype(X.dtype)
            offsets = y.mean - x.mean @ coef
            self.coef_: Array = (coef[:, 0] if self._one_target else coef.T).astype(X.dtype)
            self.intercept_: Any = (
                float(offsets[0]) if self._one_target else offsets.astype(X.dtype)
            )
        return self

    def transform(self, X: Any) -> Array:
        """Return the codes, which predict the targets by `components_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, rank)
        """
        X = self._rows(X)
        return np.asarray(standardized(X, self._mean, 1.0, self.x_rotations_), X.dtype)
