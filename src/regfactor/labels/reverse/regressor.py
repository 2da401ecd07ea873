"""Semi-supervised regression by reverse prediction: inputs are reconstructed from targets, given or free."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from regfactor.core.loop import Solution, run
from regfactor.core.params import Array, require_not_negative, warn
from regfactor.fitting.inputs import row_weights
from regfactor.fitting.rollback import all_or_nothing
from regfactor.fitting.targets import Linear, Targets, Task, check_range, positive_features
from regfactor.labels.reverse.alternating import NoHalfSpace, reverse_iterates
from regfactor.labels.reverse.bregman_regressor import MAHALANOBIS, TransferRegressor, check_numbers
from regfactor.labels.reverse.problem import Reverse
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import as_transfer
from regfactor.solvers.glm_newton import forward_iterates

SHRINKAGE = 1e-3  # of the covariance towards the mean variance
EDGE = 1e-8  # share of the mean of z U below which its least entry is at the edge of the domain
NOISE = 1e-10  # share of the null objective below which the objective is taken as zero


class ReverseRegressor(TransferRegressor):
    r"""min over U, Z of mean_labeled D(y_i U || f(x_i)) + mu mean_unlabeled D(z_i U || f(x_i)), D = D_F*, f = F'.

    Targets that are not given (NaN) are free: each row without a target, and single targets of a
    row, are those from which the inputs are best rebuilt. The means are weighted by the sample
    weights; a row with some target given is labeled. The objective is not convex in both; the fit
    alternates from the supervised solution and never rises.

    New rows are predicted by the forward model f(x W + b) of the completed targets, which minimizes
    sum_i v_i [F(x_i W + b) - z_i.(x_i W + b)] + alpha/2 |W|^2 with v_i = 1 on labeled rows and mu
    T_l/T_u on the others; free targets outside the range of f count there as the nearest number in
    it. With mu = 0 it is `BregmanRegressor` on the labeled rows.

    Parameters
    ----------
    transfer : str or Potential, default="identity"
        As in `BregmanRegressor`; given targets must lie in its range, for "exp" above zero.
        "mahalanobis" is "identity" with residuals of the inputs measured by their own covariance,
        which is fitted too (shrunk, and with its log determinant in the objective). "softmax" needs
        rows of targets that sum to one, and has its own intercept.
    unlabeled_weight : float, default=0.1
        mu >= 0.
    alpha : float, default=0.1
        Strength of the ridge in the forward model.
    kernel : str, Kernel or callable, optional
        The rows of the kernel matrix of all training rows are then rebuilt in place of the inputs.
    fit_intercept : bool, default=False
        Whether z_i U, and the forward model, have an offset: set it unless inputs and targets are
        centered. Without it "exp" and "sigmoid" need all labeled rows of targets in an open half
        space.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative change of the objective at which the alternation ends.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Not used: nothing is drawn.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    imputed_ : ndarray of shape (n_samples, n_targets)
        Z: given targets, and what was found for the others.
    transduction_ : ndarray of the shape of y
        The same.
    components_ : ndarray of shape (n_targets, n_features)
        U.
    offset_ : ndarray of shape (n_features,)
        The offset of z U; zero without an intercept.
    coef_, intercept_ : ndarray
        W and b of the forward model.
    objective_ : float
    status_ : Status
    n_iter_ : int
    history_ : list of Record
    solver_ : str

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ReverseRegressor
    >>> y = np.array([1.0, 2.0, 3.0, 4.0])
    >>> X = np.column_stack([y, -y, 2 * y])
    >>> model = ReverseRegressor().fit(X, [1.0, 2.0, np.nan, np.nan])
    >>> model.transduction_.round(6)
    array([1., 2., 3., 4.])
    """

    _why = "targets and reconstruction are found in turn, and the model"

    def __init__(
        self,
        transfer: Any = "identity",
        unlabeled_weight: float = 0.1,
        alpha: float = 0.1,
        kernel: Any = None,
        fit_intercept: bool = False,
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.transfer = transfer
        self.unlabeled_weight = unlabeled_weight
        self.alpha = alpha
        self.kernel = kernel
        self.fit_intercept = fit_intercept
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            check_numbers(self)
            require_not_negative(self, unlabeled_weight=self.unlabeled_weight)
            potential, shrinkage = _reverse_transfer(self.transfer)
            X = self._numbers(X, reset=True)
            targets = Targets.of(y, X)
            Y = targets.table
            weights = row_weights(X, sample_weight)
            if weights is None:
                weights = np.ones(len(X))
            else:
                weights = weights.astype(np.float64)
            _check_labels(targets, weights)
            check_range(targets, potential, positive=isinstance(potential, potentials.Exp))
            table, kernel = self._table(X)
            _check_inputs(table, potential)
            closed = isinstance(potential, potentials.Softmax)
            inner = Reverse(
                table,
                Y[:, :-1] if closed else Y,
                self._balanced(Y, weights),
                potential,
                self.fit_intercept or closed,
                shrinkage,
            )
            solution = self._alternated(inner)
            Z, U, offset = _parts(inner, solution)
            Z = np.where(
                np.isnan(Y),
                Z,
                Y,
            )  # under softmax the last given share is one minus the others, up to rounding
            features = table if kernel is None else positive_features(table)
            model = self._forward(
                features,
                Z,
                inner.weights * weights[inner.given].sum(),
                potential,
                targets.names,
            )
            self._publish_forward(
                X,
                kernel,
                potential,
                model if kernel is None else model.dual(features),
                targets.flat,
            )
            self.imputed_ = Z.astype(np.result_type(targets.dtype, X))
            self.transduction_ = self.imputed_.reshape(targets.shape)
            self.components_ = U.astype(X.dtype)
            self.offset_ = offset.astype(X.dtype)
            self.objective_ = solution.objective
            self.status_ = solution.status
            self.n_iter_ = solution.n_iter
            self.history_ = solution.history
            self.solver_ = "Alternating"
        return self

    def _balanced(self, Y: Array, weights: Array) -> Array:
        """Return the weight of each row in the objective: shares of the labeled, mu times shares of the others."""
        labeled = ~np.isnan(Y).all(axis=1)
        others = weights[~labeled].sum()
        return np.where(
            labeled,
            weights / weights[labeled].sum(),
            weights * (self.unlabeled_weight / others if others > 0 else 0.0),
        )

    def _alternated(self, problem: Reverse) -> Solution[Any]:
        try:
            solution = self._run(reverse_iterates(problem), floor=NOISE * problem.null)
        except NoHalfSpace as error:
            raise ValueError(
                "The labeled rows of targets lie in no open half space: no U has all y_i U inside the range "
                f"{problem.potential.range} of transfer={self.transfer!r}. Use fit_intercept=True.",
            ) from error
        T = solution.point.factors.dense()[problem.weights > 0]
        if problem.bounded:
            inner = np.minimum(T - problem.potential.range.low, problem.potential.range.high - T)
            if inner.min() < EDGE * inner.mean():
                warn(
                    f"Some z_i U lies at the edge of the range {problem.potential.range} of the transfer, where the "
                    "fit is unstable; another transfer may suit these inputs better.",
                )
        return solution

    def _forward(
        self,
        features: Array,
        Z: Array,
        weights: Array,
        potential: Potential,
        names: list[str],
    ) -> Linear:
        """Return the forward model of the completed targets; an imputed one counts as the nearest in the range."""
        edge = potential.range
        inside = np.clip(Z, edge.low, edge.high)
        if isinstance(potential, potentials.Softmax):
            inside = inside / inside.sum(axis=1, keepdims=True)
        task = Task(features, inside, weights, potential, self.alpha, self.fit_intercept)
        task.check(names)
        return task.model(
            run(forward_iterates(task.problem), tol=NOISE, max_iter=1000).point.factors.C,
        )


def _parts(problem: Reverse, solution: Solution[Any]) -> tuple[Array, Array, Array]:
    """Return Z, U and the offset; under softmax the last target is what is left to one, and its row is the offset."""
    k = problem.Y.shape[1]
    F = solution.point.factors
    Z = F.codes[:, :k]
    U = F.C[:k]
    if problem.closed:
        return (
            np.column_stack([Z, 1 - Z.sum(axis=1)]),
            np.vstack([U + F.C[k], F.C[k]]),
            np.zeros(U.shape[1]),
        )
    return Z, U, F.C[k] if problem.intercept else np.zeros(U.shape[1])


def _reverse_transfer(transfer: Any) -> tuple[Potential, float | None]:
    if isinstance(transfer, str) and transfer == MAHALANOBIS:
        return potentials.Identity(), SHRINKAGE
    return as_transfer(transfer), None


def _check_labels(targets: Targets, weights: Array) -> None:
    given = (~np.isnan(targets.table) & (weights > 0)[:, None]).any(axis=0)
    if not given.all():
        name = targets.names[int(np.argmin(given))]
        raise ValueError(
            f"Input y contains NaN in every row of positive weight of target column {name}: there is nothing to learn "
            "it from. Give at least one value, or leave the column out.",
        )


def _check_inputs(X: Array, potential: Potential) -> None:
    legal = potential.domain.contains(X)
    if not legal.all():
        raise ValueError(
            f"Input column {int(np.argmin(legal.all(axis=0)))} holds numbers outside {potential.domain}, the inputs "
            f"that {potential} takes. Choose another transfer, or transform the inputs.",
        )
