"""The forward model f(x W + b) that either regressor predicts with."""

from __future__ import annotations

import abc
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen, warn
from regfactor.fitting.base import Estimator
from regfactor.fitting.inputs import validated, weights_of_all_rows
from regfactor.fitting.parameters import FINITE_NON_NEGATIVE, RUN_CONSTRAINTS
from regfactor.fitting.targets import ForwardModel, LinearModel, Targets, positive_features
from regfactor.kernels import Kernel, as_kernel, is_pairwise
from regfactor.losses import potentials
from regfactor.losses.exponentials import MAX_EXPONENT
from regfactor.losses.potentials import Potential

MAHALANOBIS = "mahalanobis"
TRANSFER_CONSTRAINTS: dict[str, list[Any]] = {
    **RUN_CONSTRAINTS,
    "alpha": [FINITE_NON_NEGATIVE],
    "fit_intercept": ["boolean"],
}


@frozen
class RegressionInputs:
    """Rows, targets and weights, and what the forward model needs to know of the parameters.

    `table` is the rows themselves or, with a kernel, its matrix.
    """

    X: Array
    targets: Targets
    weights: Array
    potential: Potential
    table: Array
    kernel: Kernel | None
    alpha: float
    fit_intercept: bool

    @cached_property
    def features(self) -> Array:
        """The columns that the forward model is linear in."""
        if self.kernel is None:
            return self.table
        return positive_features(self.table)

    @cached_property
    def forward(self) -> ForwardModel:
        """The forward model of the given targets."""
        Y = self.targets.table
        return ForwardModel(
            self.features,
            Y,
            self.weights,
            self.potential,
            self.alpha,
            self.fit_intercept,
        )


class TransferRegressor(MultiOutputMixin, RegressorMixin, Estimator):
    """A regressor that predicts f(x W + b), on features or on a kernel with the training rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows with targets, or of which some have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            In the range of the transfer; for `ReverseRegressor`, NaN where a target is not known.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @abc.abstractmethod
    def _transfer(self) -> Potential:
        """Return the potential F of the transfer f = F'."""

    @abc.abstractmethod
    def _check_targets(self, targets: Targets, weights: Array, potential: Potential) -> None:
        """Raise for targets that this regressor cannot be fitted to."""

    def _read(self, X: Any, y: Any, sample_weight: Any) -> RegressionInputs:
        potential = self._transfer()
        X = self._as_array(X, reset=True)
        targets = Targets.of(y, X)
        weights = weights_of_all_rows(X, sample_weight)
        self._check_targets(targets, weights, potential)
        kernel = None
        table = X
        if self.kernel is not None:
            kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0).resolved(X)
            table = kernel.gram(X)
        table = table.astype(np.float64, copy=False)
        return RegressionInputs(
            X,
            targets,
            weights,
            potential,
            table,
            kernel,
            self.alpha,
            self.fit_intercept,
        )

    def _as_array(self, X: Any, reset: bool) -> Array:
        X = validated(self, X, accept_sparse="csr", reset=reset)
        if is_sparse(X):
            return X.toarray()
        return X

    def _publish_forward(self, forward: ForwardModel, W: Array, inputs: RegressionInputs) -> float:
        """Set what `predict` reads from a forward model; return its objective."""
        model = forward.linear(W)
        if inputs.kernel is not None:
            model = model.dual(inputs.features)
        self._publish_linear(model, inputs)
        return model.objective

    def _publish_linear(self, model: LinearModel, inputs: RegressionInputs) -> None:
        """Set what `predict` reads, in scikit-learn's shapes."""
        X = inputs.X
        self.coef_ = model.coef.T.astype(X.dtype)
        self.intercept_ = model.intercept.astype(X.dtype)
        if inputs.targets.flat:
            self.coef_ = self.coef_[0]
            self.intercept_ = self.intercept_[0]
        self._potential = inputs.potential
        self._kernel = inputs.kernel
        self._references = None if inputs.kernel is None else X
        if inputs.kernel is None:
            self._prepared = None
        else:
            self._prepared = inputs.kernel.prepare(X)

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
        X = self._as_array(X, reset=False)
        if self._kernel is not None:
            X = self._kernel.gram(X, self._references, self._prepared)
        return self._predicted(X)

    def _predicted(self, table: Array) -> Array:
        """Return the targets of rows, or of rows of a kernel matrix."""
        Z = table @ self.coef_.T + self.intercept_
        if isinstance(self._potential, potentials.Exp) and Z.max(initial=0.0) > MAX_EXPONENT:
            warn(
                "Some rows lie so far outside the training rows that exp(x W) exceeds "
                f"exp({MAX_EXPONENT:g}), at which it is cut off; scale the inputs as in the "
                "training rows, or raise alpha."
            )
        return np.asarray(self._potential.transfer(Z), table.dtype)

    def __sklearn_tags__(self) -> Tags:
        """Declare that sparse tables are accepted, and whether the kernel is a square matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags
