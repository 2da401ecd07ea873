"""Transductive regression: targets from labeled neighbors, then a regression on all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions

from regfactor.comparisons.base import KernelMachine
from regfactor.comparisons.basis import MOST_FEATURES, Basis, basis_of, dense, sum_of_products
from regfactor.comparisons.graphs import conjugate_gradients
from regfactor.comparisons.targets import KnownTargets
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, warn
from regfactor.fitting.parameters import COUNT, FINITE_NON_NEGATIVE, FINITE_POSITIVE, parametrized

BLOCK_ELEMENTS = 4_000_000  # numbers of a block of rows that are held at once
# of conjugate gradients
CG_TOL = 1e-10
STEPS = 10_000


@parametrized
class TransductiveRegression(MultiOutputMixin, RegressorMixin, KernelMachine):
    r"""min over h of |h|_K^2 + (C/l) sum_i (h(x_i) - y_i)^2 + (C'/u) sum_j (h(x_j) - z_j)^2.

    i are the l labeled rows, j the u unlabeled ones. The local and global method of Cortes & Mohri
    (2007). First every unlabeled row gets an estimate z_j from labeled rows near it in the space of
    the kernel, by kernel ridge regression on these alone or by their mean; a row that has none near
    is left out, and u counts those with an estimate. Then kernel ridge regression on all rows has a
    closed form: (K + diag(1/w)) a = (y, z) with weights w = C/l and C'/u. With C' = 0 it is
    scikit-learn's KernelRidge with alpha = l/C.

    Parameters
    ----------
    C : float, default=100.0
        Weight > 0 of the mean squared error on labeled rows.
    C_unlabeled : float, default=10.0
        C' >= 0, that of the distance from the local estimates.
    kernel : str, Kernel or callable, default="rbf"
        As in `LaplacianRLS`.
    n_neighbors : int or None, default=10
        Labeled rows that an estimate is made from, at most; None for all within `radius`.
    radius : float, optional
        Labeled rows farther away than this in the space of the kernel are not near: |x - y| with a
        linear kernel, sqrt(2 - 2 k(x, y)) with a Gaussian one.
    local : {"ridge", "mean"}, default="ridge"
        How an estimate is made from the near rows.
    alpha : float, default=0.1
        Strength > 0 of the local ridge: |h|_K^2 alpha + sum_near (h(x_i) - y_i)^2.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    fit_intercept : bool, default=False
        Whether h has an offset that is not penalized; local fits then are about the mean of the
        near rows.
    landmarks, random_state : default="auto", None
        As in `LaplacianRLS`.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        Given targets, and h at the others.
    local_estimates_ : ndarray of the shape of y
        z of unlabeled rows; NaN on labeled rows and where no labeled row is near.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        With a linear kernel; `dual_coef_` of the training rows, or of the landmarks, with others.
    intercept_ : float or ndarray

    See Also
    --------
    SNFRegressor : The library's model for few targets.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import TransductiveRegression
    >>> X = np.linspace(0, 3, 31)[:, None]
    >>> y = np.where(np.arange(31) % 5 == 0, np.sin(X[:, 0]), np.nan)
    >>> model = TransductiveRegression(C=1e4, C_unlabeled=1e3, n_neighbors=4, alpha=1e-3).fit(X, y)
    >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.02)
    True
    """

    _parameter_constraints = {
        "C": [FINITE_POSITIVE],
        "C_unlabeled": [FINITE_NON_NEGATIVE],
        "alpha": [FINITE_POSITIVE],
        "local": [StrOptions({"ridge", "mean"})],
        "n_neighbors": [COUNT, None],
        "radius": [FINITE_POSITIVE, None],
        "fit_intercept": ["boolean"],
    }

    C: float = 100.0
    C_unlabeled: float = 10.0
    kernel: Any = "rbf"
    n_neighbors: int | None = 10
    _: KW_ONLY
    radius: float | None = None
    local: str = "ridge"
    alpha: float = 0.1
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    fit_intercept: bool = False
    landmarks: int | str | None = "auto"
    random_state: Any = None

    def _solve(self, X: Any, given: KnownTargets) -> Array:
        kernel = self._kernel().resolved(X)
        basis = basis_of(X, kernel, self.landmarks, False, self.random_state)
        c = np.zeros((basis.table.shape[1], given.Y.shape[1]))
        b = np.zeros(given.Y.shape[1])
        estimates = np.full_like(given.Y, np.nan)
        for rows, columns in given.patterns():
            Y = given.Y[:, columns]
            others = np.setdiff1d(np.arange(len(Y)), rows)
            if self.C_unlabeled > 0 and len(others):
                Z = self._estimates(basis, rows, others, Y[rows])
                estimates[np.ix_(others, columns)] = Z
                others = others[~np.isnan(Z[:, 0])]
                Y = np.where(np.isnan(Y), estimates[:, columns], Y)
            else:
                others = others[:0]
            used = np.concatenate([rows, others])
            weights = np.full(len(used), self.C / len(rows))
            weights[len(rows) :] = self.C_unlabeled / max(len(others), 1)
            found = weighted_ridge(basis, used, Y[used], weights, self.fit_intercept)
            c[:, columns], b[columns] = found
        self._publish(basis, c, b, given, X.dtype)
        self.local_estimates_ = estimates.reshape(given.shape).astype(X.dtype)
        return basis.table @ c + b

    def _estimates(
        self,
        basis: Basis,
        rows: Array,
        others: Array,
        Y: Array,
    ) -> Array:
        """Return z of the others from the targets Y of labeled rows, NaN where none is near."""
        k = min(self.n_neighbors or len(rows), len(rows))
        local = self._ridge if self.local == "ridge" else _mean
        reach = np.inf if self.radius is None else self.radius**2
        sizes = _sizes(basis)
        parts = []
        widest = max(len(rows), k * basis.table.shape[1], k * k)
        for batch in gen_batches(len(others), max(1, BLOCK_ELEMENTS // widest)):
            block = others[batch]
            products = _products(basis, block, rows)
            squares = np.maximum(sizes[block, None] + sizes[rows] - 2 * products, 0)
            places = np.argpartition(squares, k - 1, axis=1)[:, :k]
            near = np.take_along_axis(squares, places, axis=1) <= reach
            products = np.take_along_axis(products, places, axis=1)
            Z = local(basis, rows[places], products, near, Y[places])
            Z[~near.any(axis=1)] = np.nan
            parts.append(Z)
        return np.concatenate(parts)

    def _ridge(
        self,
        basis: Basis,
        places: Array,
        products: Array,
        near: Array,
        Y: Array,
    ) -> Array:
        """k_x (K_near + alpha I)^-1 Y_near for each row.

        What is not near has no product with anything.
        """
        grams = _local_grams(basis, places) * (near[:, :, None] & near[:, None])
        grams += self.alpha * np.eye(near.shape[1])
        if self.fit_intercept:
            mean = _mean(basis, places, products, near, Y)[:, None]
        else:
            mean = np.zeros((1, 1, 1))
        solved = np.linalg.solve(grams, (Y - mean) * near[..., None])
        return np.einsum("ij,ijk->ik", products * near, solved) + mean[:, 0]


def _mean(
    basis: Basis,
    places: Array,
    products: Array,
    near: Array,
    Y: Array,
) -> Array:
    """Return the mean target of the near rows."""
    counts = np.maximum(near.sum(axis=1), 1)
    return (Y * near[..., None]).sum(axis=1) / counts[:, None]


def weighted_ridge(
    basis: Basis,
    rows: Array,
    Y: Array,
    weights: Array,
    intercept: bool,
) -> tuple[Array, Array]:
    """Return c, b of min |h|^2 + sum_i w_i |y_i - h(x_i) - b|^2 over some rows."""
    if basis.dual:
        S = basis.table[np.ix_(rows, rows)]
        S[np.diag_indices(len(S))] += 1 / weights
        solve = _cholesky(S)
        b = np.zeros(Y.shape[1])
        if intercept:
            ones = solve(np.ones((len(rows), 1)))[:, 0]
            b = ones @ Y / ones.sum()
        c = np.zeros((len(basis.table), Y.shape[1]))
        c[rows] = solve(Y - b)
        return c, b
    F = basis.table[rows]
    total = weights.sum()
    mean = np.zeros(Y.shape[1])
    center = np.zeros(F.shape[1])
    if intercept:
        mean = weights @ Y / total
        center = F.T @ weights / total
    c = _features_ridge(F, Y - mean, weights, center)
    return c, mean - center @ c


def _features_ridge(F: Any, Y: Array, weights: Array, center: Array) -> Array:
    """(F'WF - w center center' + I) c = F'WY, w the sum of weights; Y is centered if F is."""
    if is_sparse(F):
        WF = F.multiply(weights[:, None]).tocsr()
    elif len(F) < F.shape[1]:  # c = F'(F F' + W^-1)^-1 Y with centered F
        F = F - center
        A = F @ F.T
        A[np.diag_indices(len(A))] += 1 / weights
        return F.T @ _cholesky(A)(Y)
    else:
        WF = F * weights[:, None]
    B = WF.T @ Y
    total = weights.sum()
    if F.shape[1] <= MOST_FEATURES:
        A = dense(WF.T @ F) - total * np.outer(center, center)
        A[np.diag_indices(len(A))] += 1.0
        return _cholesky(A)(B)

    def apply(C: Array) -> Array:
        weighted = F.T @ (weights[:, None] * (F @ C))
        return C + weighted - total * np.outer(center, center @ C)

    diagonal = 1 + sum_of_products(F, WF, axis=0)
    solved = conjugate_gradients(apply, B, diagonal, CG_TOL, STEPS)
    if solved.residual > CG_TOL:
        message = (
            f"Conjugate gradients ended at a relative residual of {solved.residual:.1e}; lower C "
            "or C_unlabeled."
        )
        warn(message, ConvergenceWarning)
    return solved.X


def _cholesky(A: Array) -> Callable[[Array], Array]:
    """Return what solves A x = b."""
    factor = scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False)
    return lambda B: scipy.linalg.cho_solve(factor, B, check_finite=False)


def _sizes(basis: Basis) -> Array:
    """k(x, x) of training rows."""
    T = basis.table
    if basis.dual:
        return np.diagonal(T)
    return sum_of_products(T, T, axis=1)


def _products(basis: Basis, rows: Array, others: Array) -> Array:
    """k(x, y) of training rows."""
    if basis.dual:
        return basis.table[np.ix_(rows, others)]
    return dense(basis.table[rows] @ basis.table[others].T)


def _local_grams(basis: Basis, places: Array) -> Array:
    """Return the kernel among each row of places."""
    if basis.dual:
        return basis.table[places[:, :, None], places[:, None]]
    F = dense(basis.table[places.ravel()]).reshape(*places.shape, -1)
    return F @ F.transpose(0, 2, 1)
