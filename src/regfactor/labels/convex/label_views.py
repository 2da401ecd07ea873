"""What prediction by labels as a second view shares: inputs beside targets, weights, rows scored by their inputs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, is_option, require_positive
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.inputs import as_float_table, codes_of, filled, row_weights
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import Selection
from regfactor.fitting.side_by_side import Units, with_holes
from regfactor.labels.convex.strength import select_by_labels
from regfactor.losses import Loss, as_loss
from regfactor.problems import Convex, Design, Factored
from regfactor.views.two_view import TwoViewEstimator


class ConvexFactorEstimator(TwoViewEstimator):
    """What classifier and regressor share: inputs beside targets, weights, scoring of new rows by their inputs."""

    def _fit_labels(self, X: Any, Y: Array, sample_weight: Any) -> Self:
        """Fit to inputs and a table of targets with NaN where they are not known."""
        rows = row_weights(X, sample_weight)
        w = np.ones(len(X)) if rows is None else rows
        labeled = ~np.isnan(Y).all(axis=1)
        n = float(w.sum())
        d = X.shape[1]
        labels = float(w[labeled].sum())
        if not labels > 0:
            raise ValueError(
                "No row of positive weight has a label; there is nothing to learn from.",
            )
        self._n_first = d
        seen = float(w @ (~np.isnan(X)).sum(axis=1)), float(w @ (~np.isnan(Y)).sum(axis=1))
        weights = self._weights(n * d, labels, seen)
        self._units = Units(np.ones(d + Y.shape[1]), np.repeat(weights, [d, Y.shape[1]]))
        self._fit_table(np.hstack([X, Y.astype(X.dtype)]), rows, None)
        self._publish_views()
        self.label_components_ = self.components_[:, d:]
        self.components_ = np.ascontiguousarray(self.components_[:, :d])
        self.label_intercept_ = self.intercept_[d:]
        self.intercept_ = self.intercept_[:d]
        return self

    def _weights(
        self,
        cells: float,
        labels: float,
        seen: tuple[float, float],
    ) -> tuple[float, float]:
        """Return the weights of an entry of the inputs and of the labels; `seen` counts those that are observed."""
        return self.reconstruction_weight / cells, 1 / labels

    def _check(self) -> tuple[Loss, Loss]:
        """Raise for parameters that are none; return the losses of inputs and targets."""
        _check_limits(self)
        self._bounds()
        self._check_weight()
        return as_loss(self.reconstruction_loss), as_loss(self.loss)

    def _check_weight(self) -> None:
        require_positive(self, reconstruction_weight=self.reconstruction_weight)

    def _inputs(self, X: Any, reset: bool) -> Array:
        return with_holes(as_float_table(self, X, None, reset))

    def _intercept(self, X: Any) -> Design | None:
        """Return offsets of the label columns alone."""
        if not self.fit_intercept:
            return None
        return Design(
            np.ones((X.shape[0], 1), X.dtype),
            columns=np.arange(X.shape[1]) >= self._n_first,
        )

    def _chosen(
        self,
        problem: Convex | Factored,
        random: np.random.Generator,
    ) -> tuple[Selection | None, Convex | Factored]:
        """Return the problem at the strength that labels held out chose, where it is left to them."""
        if not is_option(self.alpha, "auto"):
            return None, problem
        assert isinstance(problem, Convex)
        problem.at(1.0).check()
        chosen = select_by_labels(problem, self._n_first, self.rule, random)
        return chosen, problem.at(chosen.best.value)

    def transform(self, X: Any) -> Array:
        """Return the codes of each row, scored alone by its inputs; holes (NaN) are allowed.

        An unlabeled training row has its `codes_` again; those of a labeled one were fitted to its
        label too.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_atoms)
        """
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        score = self._score
        d = self._n_first
        assert isinstance(score, Scoring)
        C = np.hstack([self.components_, self.label_components_]).astype(X.dtype)
        table = np.hstack([X, np.full((len(X), C.shape[1] - d), np.nan, X.dtype)])
        intercept = np.concatenate([self.intercept_, self.label_intercept_]).astype(X.dtype)
        return np.asarray(score(table, C, intercept))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows by their inputs."""
        return self.fit(X, y, **fit_params).transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """Return the inputs that codes predict.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_atoms)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = codes_of(X, len(self.components_))
        return np.asarray(self._losses[0].predict(codes @ self.components_ + self.intercept_))

    def complete(self, X: Any) -> Any:
        """Return the inputs with their holes filled by the model; type, index and columns are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        return filled(
            X,
            as_float_table(self, X, None, reset=False),
            self.inverse_transform(self.transform(X)),
            None,
        )

    def _values(self, codes: Array) -> Array:
        """Return the predictors of the label columns."""
        return np.asarray(codes @ self.label_components_ + self.label_intercept_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
