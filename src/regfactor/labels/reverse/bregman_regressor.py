"""Forward prediction of targets through a transfer: generalized linear models and kernel forms."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np

from regfactor.core.loop import Solution
from regfactor.core.params import Array, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.parameters import parametrized
from regfactor.fitting.targets import Targets, check_range
from regfactor.labels.reverse.transfer_regressor import (
    MAHALANOBIS,
    TRANSFER_CONSTRAINTS,
    RegressionInputs,
    TransferRegressor,
)
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import as_transfer
from regfactor.problems.forward import Forward


@parametrized
class BregmanRegressor(TransferRegressor):
    r"""min over W, b of sum_i l_i [F(x_i W + b) - y_i.(x_i W + b)] + alpha/2 |W|^2.

    Predictions are f(x W + b), f = F'. The matching loss of a transfer f is convex: with "identity"
    this is ridge regression, with "sigmoid" logistic, with "exp" Poisson and with "softmax"
    multinomial regression; several targets share nothing but softmax. With a kernel, x W is
    k(x, .) A and the penalty alpha/2 tr(A'KA). Losses are summed, l_i are the sample weights.

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
        Relative change of the objective at which Newton's method ends; a few more steps then
        refine the coefficients to full precision.
    time_limit : float, optional
        Seconds for the whole fit.
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

    See Also
    --------
    ReverseRegressor : Learns from rows without targets too.

    Notes
    -----
    Newton's method finds the optimum of this smooth convex problem without a lower bound, so there
    is no duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = BregmanRegressor("exp", alpha=0.0).fit(X, 2.0 ** X[:, 0])
    >>> model.predict([[4.0]]).round(6)
    array([16.])
    """

    _parameter_constraints = TRANSFER_CONSTRAINTS
    _locally = False
    _no_certificate = (
        "Newton's method finds the optimum of its smooth convex problem without a lower bound"
    )

    transfer: Any = "identity"
    alpha: float = 0.1
    kernel: Any = None
    _: KW_ONLY
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def _transfer(self) -> Potential:
        if is_option(self.transfer, MAHALANOBIS):
            raise ValueError(
                "transfer='mahalanobis' is a metric of the inputs, which forward prediction does "
                "not reconstruct; for targets it is the same as 'identity'. Use that, or "
                "ReverseRegressor."
            )
        potential = as_transfer(self.transfer)
        if np.isfinite([potential.domain.low, potential.domain.high]).any():
            raise ValueError(
                f"transfer={potential} takes only x W in {potential.domain}; use one that takes "
                "all numbers."
            )
        return potential

    def _check_targets(self, targets: Targets, weights: Array, potential: Potential) -> None:
        if np.isnan(targets.table).any():
            raise ValueError(
                "Input y contains NaN. ReverseRegressor learns from rows without targets."
            )
        check_range(targets, potential)

    def _state(self, inputs: RegressionInputs) -> Forward:
        inputs.forward.check(inputs.targets.names)
        return inputs.forward.problem

    def _publish(
        self,
        choice: Choice[Forward],
        solution: Solution[Any],
        inputs: RegressionInputs,
        run: Run,
    ) -> Solution[Any]:
        W = solution.point.coefficients
        return replace(solution, objective=self._publish_forward(inputs.forward, W, inputs))
