"""Forward prediction of targets through a transfer: generalized linear models and their kernel forms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution, run
from regfactor.core.params import Array, require_not_negative, warn
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.factor_estimator import _check_limits, _print_progress
from regfactor.fitting.inputs import row_weights, validated
from regfactor.fitting.rollback import all_or_nothing
from regfactor.fitting.targets import Linear, Targets, Task, check_range, positive_features
from regfactor.kernels import Kernel, as_kernel, is_pairwise
from regfactor.losses import potentials
from regfactor.losses.exponentials import MAX_EXPONENT
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import as_transfer
from regfactor.solvers.glm_newton import forward_iterates

MAHALANOBIS = "mahalanobis"


class TransferRegressor(Uncertified, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """What the forward model of either regressor does: f(x W + b), on features or on a kernel with training rows."""

    def predict(self, X: Any) -> Array:
        """Return the targets f(x W + b) of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = self._numbers(X, reset=False)
        if self._kernel is not None:
            X = self._kernel.gram(X, self._references, self._prepared)
        Z = X @ self.coef_.T + self.intercept_
        if isinstance(self._potential, potentials.Exp) and Z.max(initial=0.0) > MAX_EXPONENT:
            warn(
                f"Some rows lie so far outside the training rows that exp(x W) exceeds exp({MAX_EXPONENT:g}), at which "
                "it is cut off; scale the inputs alike, or raise alpha.",
            )
        return np.asarray(self._potential.transfer(Z), X.dtype)

    def _numbers(self, X: Any, reset: bool) -> Array:
        X = validated(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        if is_sparse(X):
            return X.toarray()
        return np.asarray(X)

    def _table(self, X: Array) -> tuple[Array, Kernel | None]:
        """Return the features of training rows, or their kernel matrix with the kernel."""
        if self.kernel is None:
            return X.astype(np.float64, copy=False), None
        kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0).resolved(X)
        return kernel.gram(X).astype(np.float64, copy=False), kernel

    def _publish_forward(
        self,
        X: Array,
        kernel: Kernel | None,
        potential: Potential,
        model: Linear,
        flat: bool,
    ) -> None:
        """Set what `predict` reads; coefficients have scikit-learn's shapes."""
        coef = model.coef.T.astype(X.dtype)
        intercept = model.intercept.astype(X.dtype)
        self.coef_ = coef[0] if flat else coef
        self.intercept_ = intercept[0] if flat else intercept
        self._potential = potential
        self._kernel = kernel
        self._references = None if kernel is None else X
        self._prepared = None if kernel is None else kernel.prepare(X)

    def _run(self, iterates: Any, floor: float = 0.0) -> Solution[Any]:
        solution = run(
            iterates,
            tol=self.tol,
            max_iter=self.max_iter,
            floor=floor,
            time_limit=self.time_limit,
            callback=self.callback,
            progress=_print_progress if self.verbose else None,
        )
        if not solution.status.converged:
            message = f"{type(self).__name__} did not converge: {solution.status.message}."
            warn(message, ConvergenceWarning)
        return solution

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that sparse tables are taken, and that a precomputed kernel is a square one."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags


class BregmanRegressor(TransferRegressor):
    r"""min over W, b of sum_i l_i [F(x_i W + b) - y_i.(x_i W + b)] + alpha/2 |W|^2, predicting f(x W + b), f = F'.

    The matching loss of a transfer f is convex: with "identity" this is ridge regression, with
    "sigmoid" logistic, with "exp" Poisson and with "softmax" multinomial regression; several
    targets share nothing but softmax. With a kernel, x W is k(x, .) A and the penalty alpha/2
    tr(A'KA). Losses are summed, l_i are the sample weights.

    Parameters
    ----------
    transfer : str or Potential, default="identity"
        "identity", "sigmoid" (targets in [0, 1]), "softmax" (rows of targets that sum to one),
        "exp" (targets >= 0), "cube", "relaxed_sigmoid", or a part of `losses.potentials`.
    alpha : float, default=0.1
        Strength of the ridge. With zero, targets at the ends of the range that are separable have
        no minimum, which is an error; "sigmoid" on separable classes needs alpha > 0.
    kernel : str, Kernel or callable, optional
        "linear", "rbf", "poly", "precomputed"; directions of negative eigenvalue are left out.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalized.
    max_iter : int, default=1000
        Newton steps.
    tol : float, default=1e-4
        Relative change of the objective at which Newton's method ends; its last steps then settle
        all digits.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Not used: nothing is drawn.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_features) or (n_features,)
        W; with a kernel A, which has a column for each training row.
    intercept_ : ndarray of shape (n_targets,) or float
    objective_ : float
    status_ : Status
    n_iter_ : int
    history_ : list of Record
    solver_ : str

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = BregmanRegressor("exp", alpha=0.0).fit(X, 2.0 ** X[:, 0])
    >>> model.predict([[4.0]]).round(6)
    array([16.])
    """

    _locally = False
    _why = "Newton's method finds the optimum of its smooth convex problem without a lower bound"

    def __init__(
        self,
        transfer: Any = "identity",
        alpha: float = 0.1,
        kernel: Any = None,
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.transfer = transfer
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets in the range of the transfer.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            check_numbers(self)
            potential = _forward_transfer(self.transfer)
            X = self._numbers(X, reset=True)
            targets = Targets.of(y, X)
            if np.isnan(targets.table).any():
                raise ValueError(
                    "Input y contains NaN. ReverseRegressor learns from rows without targets.",
                )
            check_range(targets, potential)
            weights = row_weights(X, sample_weight)
            if weights is None:
                weights = np.ones(len(X))
            else:
                weights = weights.astype(np.float64)
            table, kernel = self._table(X)
            features = table if kernel is None else positive_features(table)
            task = Task(features, targets.table, weights, potential, self.alpha, self.fit_intercept)
            task.check(targets.names)
            solution = self._run(forward_iterates(task.problem))
            model = task.model(solution.point.factors.C)
            self._publish_forward(
                X,
                kernel,
                potential,
                model if kernel is None else model.dual(features),
                targets.flat,
            )
            self.objective_ = model.objective
            self.status_ = solution.status
            self.n_iter_ = solution.n_iter
            self.history_ = solution.history
            self.solver_ = "Newton"
        return self


def check_numbers(estimator: Any) -> None:
    """Raise for numbers in the constructor that are none."""
    require_not_negative(estimator, alpha=estimator.alpha)
    _check_limits(estimator)


def _forward_transfer(transfer: Any) -> Potential:
    if isinstance(transfer, str) and transfer == MAHALANOBIS:
        raise ValueError(
            "transfer='mahalanobis' is a metric of the inputs, which forward prediction does not reconstruct; for "
            "targets it is the same as 'identity'. Use that, or ReverseRegressor.",
        )
    potential = as_transfer(transfer)
    if not np.isinf([potential.domain.low, potential.domain.high]).all():
        raise ValueError(
            f"transfer={potential} takes only x W in {potential.domain}; use one that takes all numbers.",
        )
    return potential
