"""Least squares support vector machine: kernel ridge regression with a free offset."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from regfactor.comparisons.base import KernelMachine
from regfactor.comparisons.basis import basis_of
from regfactor.comparisons.targets import KnownTargets
from regfactor.comparisons.transductive import weighted_ridge
from regfactor.core.params import Array
from regfactor.fitting.parameters import FINITE_POSITIVE, parametrized
from regfactor.kernels import Precomputed


@parametrized
class LeastSquaresSVM(MultiOutputMixin, RegressorMixin, KernelMachine):
    """min over f = h + b of sum_labeled (y_i - f(x_i))^2 + ridge |h|_K^2.

    Suykens & Vandewalle (1999): f(x) = sum_i k(x, x_i) a_i + b over labeled rows with (K + ridge I)
    a + 1 b = y and 1'a = 0. Rows without a target are predicted and otherwise ignored.

    Parameters
    ----------
    ridge : float, default=1.0
        Strength > 0 of the norm in the space of the kernel.
    kernel : str, Kernel or callable, default="rbf"
        "linear", "rbf", "poly", "precomputed" (X is then the square kernel matrix), a part of
        `regfactor.kernels`, or a function of two tables.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel; rules for gamma are applied to the labeled rows.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        Targets of all training rows, the given ones kept.
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        With a linear kernel; `dual_coef_` of the labeled rows with others.
    intercept_ : float or ndarray
    objective_ : float
        Summed over outputs.

    See Also
    --------
    SNFRegressorCV : Averages such machines with latent models.
    sklearn.kernel_ridge.KernelRidge : Without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import LeastSquaresSVM
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> y = [0.0, np.nan, np.nan, np.nan, 2.0]
    >>> LeastSquaresSVM(1e-6, "linear").fit(X, y).transduction_.round(3)
    array([0. , 0.5, 1. , 1.5, 2. ])
    """

    _parameter_constraints = {"ridge": [FINITE_POSITIVE]}

    ridge: float = 1.0
    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0

    def _solve(self, X: Any, given: KnownTargets) -> Array:
        labeled = np.flatnonzero(~np.isnan(given.Y).all(axis=1))
        kernel = self._kernel().resolved(X[labeled])
        if isinstance(kernel, Precomputed):
            basis = basis_of(X, kernel, None, False, None)
            place = labeled
        else:
            basis = basis_of(X[labeled], kernel, None, False, None)
            place = np.arange(len(labeled))
        c = np.zeros((basis.table.shape[1], given.Y.shape[1]))
        b = np.zeros(given.Y.shape[1])
        loss = 0.0
        for rows, columns in given.patterns():
            at = place[np.searchsorted(labeled, rows)]
            Y = given.Y[np.ix_(rows, columns)]
            weights = np.full(len(at), 1 / self.ridge)
            c[:, columns], b[columns] = weighted_ridge(basis, at, Y, weights, intercept=True)
            residual = Y - basis.table[at] @ c[:, columns] - b[columns]
            loss += float(np.square(residual).sum())
        self._publish(basis, c, b, given, X.dtype)
        self.objective_ = loss + self.ridge * basis.norm(c)
        return self._expansion(X, self._coef) + self._offset
