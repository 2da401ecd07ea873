"""Semi-supervised regression by reverse prediction: inputs are reconstructed from targets."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from regfactor.core.loop import Limits, Solution, Status
from regfactor.core.params import Array, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.parameters import AUTO, FINITE_NON_NEGATIVE, parametrized
from regfactor.fitting.ridge_readout import RidgeReadout, column_readouts
from regfactor.fitting.targets import LinearModel, Targets, check_range
from regfactor.labels.reverse.forward_strength import select_forward_alpha
from regfactor.labels.reverse.input_targets import TargetsOfInputs
from regfactor.labels.reverse.joint_criterion import JointReverse
from regfactor.labels.reverse.problem import Reverse, ReversePoint
from regfactor.labels.reverse.transfer_regressor import (
    MAHALANOBIS,
    TRANSFER_CONSTRAINTS,
    RegressionInputs,
    TransferRegressor,
)
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import as_transfer
from regfactor.solvers.base import solve_within

# of the prior of a covariance towards the mean variance, and what is added however many rows there
# are, relative to the mean variance
SHRINKAGE = 0.5
LEAST_VARIANCE = 1e-3
EDGE_SHARE = 1e-8  # of the mean distance of z U from the edge, at which its least entry is there
FORWARD_TOL = 1e-10
MAX_FORWARD_STEPS = 1000


@parametrized
class ReverseRegressor(TransferRegressor):
    r"""min over U, Z of mean_labeled D(y_i U || f(x_i)) + mu mean_unlabeled D(z_i U || f(x_i)).

    D = D_F* and f = F'. Targets that are not given (NaN) are free: each row without a target, and
    single targets of a row, are those from which the inputs are best reconstructed. The means are
    weighted by the sample weights; a row with some target given is labeled. The objective is not
    convex in both; the fit alternates from the supervised solution and never increases it.

    Targets are predicted by a forward model, `transduction_` for rows without a target too. Under
    "identity" and "mahalanobis" with `alpha="auto"` it is the ridge regression of the given targets
    on z(x), the targets from which x alone is best reconstructed, linear in x, with the strength of
    most evidence; under "kl" too, where z(x) is found by Newton steps in each row, within the range
    of the given targets and as much again on either side. Else it is f(x W + b) fitted to the
    completed targets, which minimizes
    sum_i v_i [F(x_i W + b) - z_i.(x_i W + b)] + alpha/2 |W|^2 with v_i = 1 on labeled rows and mu
    T_l/T_u on the others; free targets outside the range of f count there as the nearest number in
    it. With mu = 0 it is `BregmanRegressor` on the labeled rows.

    `criterion="joint"` minimizes over U, in place of the objective above,
    mean_labeled D(y_i U || z*_i U) + mean_all D(z*_i U || f(x_i)), z*_i U the point of the span of
    U next to f(x_i). That estimates the expected loss, counts no part of it twice and has no mu;
    v_i is then T_l over the number of rows.

    Parameters
    ----------
    transfer : str or Potential, default="identity"
        As in `BregmanRegressor`; given targets must lie in its range, for "exp" above zero.
        "mahalanobis" is "identity" with residuals of the inputs measured by their own covariance,
        which is fitted too (with its log determinant in the objective, and d + 1 rows of the
        covariance of the inputs added to it). "softmax" needs
        rows of targets that sum to one, and has its own intercept. "kl", for inputs >= 0 such as
        counts, reconstructs them by exp(z U + offset): D = x ln(x / r) - x + r, r the
        reconstruction.
    unlabeled_weight : float, default=0.1
        mu >= 0.
    alpha : float or "auto", default="auto"
        Strength of the ridge in the forward model f(x W + b). "auto" is chosen by the evidence of
        the given targets under "identity" and "mahalanobis", by held-out ones under other
        transfers; either does not depend on units.
    kernel : str, Kernel or callable, optional
        The rows of the kernel matrix of all training rows are then reconstructed in place of the
        inputs.
    fit_intercept : bool, default=True
        Whether z_i U, and the forward model, have an offset. Without it "exp" and "sigmoid" need
        all labeled rows of targets in an open half space.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative change of the objective at which the alternation ends.
    time_limit : float, optional
        Seconds for the whole fit.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Not used: nothing is drawn.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.
    criterion : {"reverse", "joint"}, default="reverse"
        "joint" needs a transfer that takes all numbers as values ("identity", "kl", "cube",
        "relaxed_sigmoid"), and rows with all targets or none; `unlabeled_weight` is not used.

    Attributes
    ----------
    imputed_ : ndarray of shape (n_samples, n_targets)
        Z: given targets, and those from which the inputs of the others are best reconstructed. It
        has no prior, and varies more than the targets where these explain little of the inputs.
    transduction_ : ndarray of the shape of y
        Given targets, and those that the forward model predicts.
    alpha_ : float
        The strength that was used; of the ridge on z(x) where that is the forward model.
    components_ : ndarray of shape (n_targets, n_features)
        U.
    offset_ : ndarray of shape (n_features,)
        The offset of z U; zero without an intercept.
    coef_, intercept_ : ndarray
        W and b of the forward model, under "kl" of the ridge on z(x).
    objective_ : float
    status_ : Status
    n_iter_ : int
    history_ : list of Record
    solver_ : str

    See Also
    --------
    BregmanRegressor : The forward model alone, on rows that all have targets.

    References
    ----------
    White & Schuurmans, "Generalized optimal reverse prediction", AISTATS 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ReverseRegressor
    >>> y = np.arange(8.0)
    >>> X = np.column_stack([y, -y, 2 * y])
    >>> model = ReverseRegressor().fit(X, np.where(y % 2, y, np.nan))
    >>> model.transduction_.round(2)
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """

    _parameter_constraints = {
        **TRANSFER_CONSTRAINTS,
        "unlabeled_weight": [FINITE_NON_NEGATIVE],
        "alpha": [FINITE_NON_NEGATIVE, AUTO],
        "criterion": [StrOptions({"reverse", "joint"})],
    }
    _no_certificate = "targets and reconstruction are found in turn, and the model"

    transfer: Any = "identity"
    unlabeled_weight: float = 0.1
    alpha: float | str = "auto"
    kernel: Any = None
    fit_intercept: bool = True
    _: KW_ONLY
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
    criterion: str = "reverse"

    @property
    def _is_mahalanobis(self) -> bool:
        return is_option(self.transfer, MAHALANOBIS)

    def _transfer(self) -> Potential:
        if self._is_mahalanobis:
            return potentials.Identity()
        return as_transfer(self.transfer)

    def _check_targets(self, targets: Targets, weights: Array, potential: Potential) -> None:
        targets.check_given(weights > 0)
        check_range(targets, potential, positive=isinstance(potential, potentials.Exp))

    def _state(self, inputs: RegressionInputs) -> Reverse | JointReverse:
        potential = inputs.potential
        _check_domain(inputs.table, potential)
        if _takes_some_inputs(potential) and not is_option(self.alpha, "auto"):
            raise ValueError(
                f"Under {potential} targets are predicted from z(x) by a ridge of most evidence; "
                "leave alpha at 'auto'."
            )
        if self.criterion == "joint":
            return self._joint(inputs)
        weights = self._balanced(inputs)
        Y = inputs.targets.table
        if isinstance(potential, potentials.Softmax):  # the last target is one minus the others
            return Reverse(inputs.table, Y[:, :-1], weights, potential, intercept=True)
        prior = None
        if self._is_mahalanobis:
            prior = _prior_covariance(inputs, weights)
        return Reverse(inputs.table, Y, weights, potential, self.fit_intercept, prior)

    def _joint(self, inputs: RegressionInputs) -> JointReverse:
        if self._is_mahalanobis:
            raise ValueError(
                "The joint criterion does not fit the covariance of transfer='mahalanobis'. Use "
                "criterion='reverse', or transfer='identity'."
            )
        shares = inputs.weights / inputs.weights.sum()
        model = Reverse(
            inputs.table,
            inputs.targets.table,
            shares,
            inputs.potential,
            self.fit_intercept,
        )
        problem = JointReverse(model)
        problem.check()
        return problem

    def _balanced(self, inputs: RegressionInputs) -> Array:
        """Return shares of the labeled rows, and mu times shares of the others, as row weights."""
        labeled = ~np.isnan(inputs.targets.table).all(axis=1)
        weights = inputs.weights.copy()
        weights[labeled] /= weights[labeled].sum()
        unlabeled = weights[~labeled].sum()
        if unlabeled > 0:
            weights[~labeled] *= self.unlabeled_weight / unlabeled
        return weights

    def _publish(
        self,
        choice: Choice[Reverse | JointReverse],
        solution: Solution[ReversePoint],
        inputs: RegressionInputs,
        run: Run,
    ) -> Solution[ReversePoint]:
        problem = choice.problem
        if isinstance(problem, JointReverse):
            problem = problem.model
        _warn_of_edge(problem, solution.point)
        Z = self._publish_reverse(problem, solution.point, inputs)
        auto = is_option(self.alpha, "auto")
        self._targets_of_inputs: TargetsOfInputs | None = None
        if auto and isinstance(inputs.potential, potentials.Identity):
            self._fit_readout(problem, solution.point, inputs)
            status = solution.status
        elif _takes_some_inputs(inputs.potential):
            self._fit_readout_of_rows(problem, solution.point, inputs)
            status = solution.status
        else:
            if auto:
                inputs = replace(inputs, alpha=select_forward_alpha(inputs, run.clock))
            self.alpha_ = inputs.alpha
            status = self._fit_forward(problem, Z, inputs, run)
        predicted = self._predicted(inputs.table).reshape(Z.shape)
        self.transduction_ = inputs.targets.completed(predicted, inputs.X.dtype)
        if solution.status.converged and not status.converged:
            return replace(solution, status=status)
        return solution

    def _publish_reverse(
        self,
        problem: Reverse,
        point: ReversePoint,
        inputs: RegressionInputs,
    ) -> Array:
        """Set targets, components and offset; return the targets in double precision.

        Under softmax the offset is the last component.
        """
        k = problem.Y.shape[1]
        Z = point.targets
        U = point.components[:k]
        offset = np.zeros(U.shape[1])
        if problem.on_simplex:
            last = point.components[k]
            Z = np.column_stack([Z, 1 - Z.sum(axis=1)])
            U = np.vstack([U + last, last])
        elif problem.intercept:
            offset = point.components[k]
        targets = inputs.targets
        # under softmax the last given share is one minus the others only up to rounding
        Z = np.where(np.isnan(targets.table), Z, targets.table)
        self.imputed_ = targets.completed(Z, inputs.X.dtype).reshape(Z.shape)
        self.components_ = U.astype(inputs.X.dtype)
        self.offset_ = offset.astype(inputs.X.dtype)
        return Z

    def _fit_readout(
        self,
        problem: Reverse,
        point: ReversePoint,
        inputs: RegressionInputs,
    ) -> None:
        """Regress the given targets on z(x) = argmin_z |x - z U - offset| (algorithm 12, line 12).

        z is one number for each target, found from the inputs alone and linear in them.
        """
        to_targets = problem.projection(point)
        readout = self._readout(inputs.table @ to_targets, inputs)
        model = LinearModel(to_targets @ readout.coef, readout.intercept, np.nan)
        self._publish_linear(model, inputs)

    def _fit_readout_of_rows(
        self,
        problem: Reverse,
        point: ReversePoint,
        inputs: RegressionInputs,
    ) -> None:
        """Regress the given targets on z(x) = argmin_z D(z U || f(x)), which is not linear in x."""
        targets = TargetsOfInputs.of(problem, point.components)
        readout = self._readout(targets(inputs.table), inputs)
        self._targets_of_inputs = targets
        model = LinearModel(readout.coef, readout.intercept, np.nan)
        self._publish_linear(model, replace(inputs, potential=potentials.Identity()))

    def _readout(self, features: Array, inputs: RegressionInputs) -> RidgeReadout:
        """Return the ridge of the given targets on features of rows, and publish its strength."""
        Y = inputs.targets.table
        used = (inputs.weights > 0) & ~np.isnan(Y).all(axis=1)
        readout = column_readouts(
            features[used],
            Y[used],
            inputs.weights[used],
            self.fit_intercept,
        )
        self.alpha_ = readout.strength
        return readout

    def _predicted(self, table: Array) -> Array:
        """Return the targets of rows, or of rows of a kernel matrix."""
        if self._targets_of_inputs is not None:
            _check_domain(table, self._targets_of_inputs.potential)
            table = self._targets_of_inputs(table.astype(np.float64)).astype(table.dtype)
        return super()._predicted(table)

    def _fit_forward(
        self,
        problem: Reverse,
        Z: Array,
        inputs: RegressionInputs,
        run: Run,
    ) -> Status:
        """Fit the forward model to the completed targets, each as the nearest in the range."""
        allowed = inputs.potential.range
        Y = np.clip(Z, allowed.low, allowed.high)
        if problem.on_simplex:
            Y = Y / Y.sum(axis=1, keepdims=True)
        weights = problem.weights * inputs.weights[problem.given].sum()
        forward = replace(inputs.forward, Y=Y, weights=weights)
        forward.check(inputs.targets.names)
        limits = Limits(FORWARD_TOL, MAX_FORWARD_STEPS, run.clock.left)
        found = solve_within(forward.problem, limits)
        self._publish_forward(forward, found.point.coefficients, inputs)
        return found.status


def _prior_covariance(inputs: RegressionInputs, weights: Array) -> Array:
    """Return what is added to the covariance of residuals: d + 1 rows of that of all inputs.

    Few labeled rows that count most do not tell a covariance of d columns; their residuals alone
    would be measured along chance directions. The covariance of all inputs, which needs no target,
    is S + U'U up to the variance of targets, and U S^-1 and U (S + U'U)^-1 are parallel.
    """
    X = inputs.table
    n_columns = X.shape[1]
    shares = inputs.weights / inputs.weights.sum()
    centered = X - shares @ X
    covariance = centered.T @ (shares[:, None] * centered)
    variance = float(np.trace(covariance)) / n_columns
    if variance == 0:
        variance = 1.0
    n_effective = float(weights.sum() ** 2 / np.square(weights).sum())
    prior_rows = (n_columns + 1) / n_effective
    added = prior_rows * SHRINKAGE + LEAST_VARIANCE
    return prior_rows * (1 - SHRINKAGE) * covariance + added * variance * np.eye(n_columns)


def _warn_of_edge(problem: Reverse, point: ReversePoint) -> None:
    """Warn where a reconstruction lies at the edge of the range of the transfer."""
    if not problem.bounded:
        return
    allowed = problem.potential.range
    T = problem.reconstruction(point)[problem.weights > 0]
    distances = np.minimum(T - allowed.low, allowed.high - T)
    if distances.min() < EDGE_SHARE * distances.mean():
        warn(
            f"Some z_i U lies at the edge of the range {allowed} of the transfer, where the fit is "
            "unstable; another transfer may suit these inputs better."
        )


def _takes_some_inputs(potential: Potential) -> bool:
    """Return whether inputs lie in an interval, so that f(x W + b) need not be defined."""
    ends = [potential.domain.low, potential.domain.high]
    return bool(np.isfinite(ends).any())


def _check_domain(X: Array, potential: Potential) -> None:
    """Raise, naming the column, for inputs outside the domain of a transfer."""
    legal = potential.domain.contains(X).all(axis=0)
    if not legal.all():
        raise ValueError(
            f"Input column {int(np.argmin(legal))} holds numbers outside {potential.domain}, the "
            f"inputs that {potential} takes. Choose another transfer, or transform the inputs."
        )
