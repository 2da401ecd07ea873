"""The least squares support vector machine: kernel ridge regression with a free offset, on labeled rows alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.base import MultiOutputMixin, RegressorMixin

from regfactor.comparisons.base import KernelMachine
from regfactor.comparisons.basis import Basis, basis_of
from regfactor.comparisons.targets import TARGETS, known
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, require_positive
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import Precomputed, as_kernel


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

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import LeastSquaresSVM
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> LeastSquaresSVM(1e-6, "linear").fit(X, [0.0, np.nan, np.nan, np.nan, 2.0]).transduction_.round(3)
    array([0. , 0.5, 1. , 1.5, 2. ])
    """

    def __init__(
        self,
        ridge: float = 1.0,
        kernel: Any = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
    ) -> None:
        self.ridge = ridge
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to the rows that have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.

        Returns
        -------
        self
        """
        require_positive(self, ridge=self.ridge)
        with all_or_nothing(self):
            X = self._inputs(X, reset=True)
            given = known(y, X, None, TARGETS)
            labeled = np.flatnonzero(~np.isnan(given.Y).all(axis=1))
            kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0)
            pairwise = isinstance(kernel, Precomputed)
            kernel = kernel.resolved(X[labeled])
            basis = basis_of(X if pairwise else X[labeled], kernel, None, False, None)
            place = labeled if pairwise else np.arange(len(labeled))
            c = np.zeros((basis.table.shape[1], given.Y.shape[1]))
            b = np.zeros(given.Y.shape[1])
            loss = 0.0
            for rows, columns in given.patterns():
                at = place[np.searchsorted(labeled, rows)]
                Y = given.Y[np.ix_(rows, columns)]
                c[:, columns], b[columns] = _ridge(basis, at, Y, self.ridge)
                loss += float(np.square(Y - basis.table[at] @ c[:, columns] - b[columns]).sum())
            self._publish(basis, c, b, given, X.dtype)
            self.objective_ = loss + self.ridge * basis.norm(c)
            self.transduction_ = given.completed(
                self._expansion(X, self._coef) + self._offset,
                X.dtype,
            )
        return self


def _ridge(basis: Basis, rows: Array, Y: Array, ridge: float) -> tuple[Array, Array]:
    """Return coefficients in a basis, and offsets."""
    T = basis.table[rows]
    c = np.zeros((basis.table.shape[1], Y.shape[1]))
    T = T.toarray() if is_sparse(T) else np.asarray(T)
    if basis.dual:
        A = T[:, rows] + ridge * np.eye(len(rows))
        solved = scipy.linalg.solve(
            A,
            np.column_stack([Y, np.ones(len(rows))]),
            assume_a="pos",
            check_finite=False,
        )
        e = solved[:, -1]
        b = solved[:, :-1].sum(axis=0) / e.sum()
        c[rows] = solved[:, :-1] - np.outer(e, b)
        return c, b
    mean = T.mean(axis=0)
    center = T - mean
    if len(rows) < T.shape[1]:
        A = center @ center.T + ridge * np.eye(len(rows))
        c = center.T @ scipy.linalg.solve(A, Y - Y.mean(axis=0), assume_a="pos", check_finite=False)
    else:
        A = center.T @ center + ridge * np.eye(T.shape[1])
        c = scipy.linalg.solve(
            A,
            center.T @ (Y - Y.mean(axis=0)),
            assume_a="pos",
            check_finite=False,
        )
    return c, Y.mean(axis=0) - mean @ c
