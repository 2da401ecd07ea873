"""Common parts of estimators on a kernel: inputs, the kernel expansion that predicts, tags."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.comparisons.basis import Basis
from regfactor.comparisons.targets import TARGETS, KnownTargets, known
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.fitting.base import all_or_nothing
from regfactor.fitting.inputs import validated
from regfactor.kernels import Kernel, as_kernel, is_pairwise, tag_kernel


class KernelMachine(BaseEstimator, abc.ABC):
    """f(x) = sum_i k(x, x_i) c_i + b; parameters kernel, gamma, degree, coef0 name the kernel."""

    unlabeled: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows of which some have labels or targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Classes, or targets with NaN where they are not known.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            classes = self._holds_classes()
            X = self._inputs(X, reset=True)
            given = known(y, X, self.unlabeled, classes)
            self.transduction_ = given.completed(self._solve(X, given), X.dtype)
        return self

    @abc.abstractmethod
    def _solve(self, X: Any, given: KnownTargets) -> Array:
        """Publish the solution, and return f of the training rows."""

    def _holds_classes(self) -> bool | None:
        """Return whether y holds classes; None leaves it to y."""
        return TARGETS

    def _kernel(self) -> Kernel:
        return as_kernel(self.kernel, self.gamma, self.degree, self.coef0)

    def _inputs(self, X: Any, reset: bool) -> Any:
        X = validated(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
        )
        if is_sparse(X) and is_pairwise(self.kernel):
            return X.toarray()
        return X

    def _publish(
        self,
        basis: Basis,
        c: Array,
        b: Array,
        given: KnownTargets,
        dtype: Any,
    ) -> None:
        """Set the attributes that predictions are computed from."""
        coef = basis.coefficients(c).astype(dtype)
        self._expansion = basis.expansion
        self._coef = coef
        self._offset = b.astype(dtype)
        self._given = given.empty()
        flat = given.flat and coef.shape[1] == 1
        name = "coef_" if basis.expansion.kernel is None else "dual_coef_"
        setattr(self, name, coef[:, 0] if flat else coef.T)
        self.intercept_ = self._offset[0] if flat else self._offset
        if given.classes is not None:
            self.classes_ = given.classes

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        return self._expansion(X, self._coef) + self._offset

    def predict(self, X: Any) -> Array:
        """Return the class or the targets of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With a precomputed kernel, that of every row with every training row.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        f = self._scores(X)
        return self._given.answer(f)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: sparse input if the kernel takes it, pairwise if it is precomputed."""
        tags = super().__sklearn_tags__()
        tag_kernel(tags, self.kernel)
        tags.target_tags.required = True
        return tags
