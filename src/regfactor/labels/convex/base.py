"""Labels as a second view of the inputs: what classifier and regressor share."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Solution
from regfactor.core.params import Array, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.inputs import as_float_table, codes_of, filled, row_weights
from regfactor.fitting.parameters import POSITIVE
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.side_by_side import Units, with_missing_as_nan
from regfactor.fitting.two_view_estimator import TWO_VIEW_CONSTRAINTS, TwoViewEstimator
from regfactor.labels.convex.selection import select_by_labels
from regfactor.losses import LOSSES, Loss, as_loss
from regfactor.problems import Convex, Design

CONVEX_LABEL_CONSTRAINTS: dict[str, list[Any]] = {
    **TWO_VIEW_CONSTRAINTS,
    "loss": [StrOptions(set(LOSSES)), Loss],
    "reconstruction_loss": [StrOptions(set(LOSSES)), Loss],
    "reconstruction_weight": [POSITIVE],
}


@dataclass(frozen=True)
class LabelInputs(TableInputs):
    """Inputs and columns of labels side by side, and the labels as they were given."""

    labels: Any


@dataclass(frozen=True)
class Counts:
    """Sums of weights: of all rows, of those with a label, and of the observed entries of both."""

    rows: float
    labeled_rows: float
    inputs: float
    labels: float


class ConvexFactorEstimator(TwoViewEstimator, abc.ABC):
    """A model of inputs and labels side by side, which scores new rows by their inputs."""

    _parameter_constraints = CONVEX_LABEL_CONSTRAINTS
    _score: Scoring

    @abc.abstractmethod
    def _read_labels(self, y: Any, X: Array) -> Any:
        """Return the labels of the rows of X as they were given."""

    @abc.abstractmethod
    def _label_columns(self, labels: Any) -> Array:
        """Return the columns of labels, NaN where they are unknown."""

    @abc.abstractmethod
    def _transduced(self, labels: Any) -> Array:
        """Return the labels of all training rows, predicted where they are unknown."""

    def _read(self, X: Any, y: Any = None, sample_weight: Any = None, /) -> LabelInputs:
        self._losses = (as_loss(self.reconstruction_loss), as_loss(self.loss))
        table = self._inputs(X, reset=True)
        labels = self._read_labels(y, table)
        columns = self._label_columns(labels)
        rows = row_weights(table, sample_weight)
        self._n_first = table.shape[1]
        self._units = self._label_units(table, columns, rows)
        both = np.hstack([table, columns.astype(table.dtype)])
        return LabelInputs(**vars(TableInputs.of(both, rows, None, None)), labels=labels)

    def _label_units(self, X: Array, Y: Array, rows: Array | None) -> Units:
        """Return the weights of the entries of inputs and labels as units of their columns."""
        weights = np.ones(len(X)) if rows is None else rows
        observed = ~np.isnan(Y)
        counts = Counts(
            rows=float(weights.sum()),
            labeled_rows=float(weights[observed.any(axis=1)].sum()),
            inputs=float(weights @ (~np.isnan(X)).sum(axis=1)),
            labels=float(weights @ observed.sum(axis=1)),
        )
        if not counts.labeled_rows > 0:
            raise ValueError(
                "No row of positive weight has a label; there is nothing to learn from."
            )
        widths = [X.shape[1], Y.shape[1]]
        return Units(np.ones(sum(widths)), np.repeat(self._weights(counts), widths))

    def _weights(self, counts: Counts) -> tuple[float, float]:
        """Return the weights of an entry of the inputs and of an entry of the labels."""
        cells = counts.rows * self._n_first
        return self.reconstruction_weight / cells, 1 / counts.labeled_rows

    def _inputs(self, X: Any, reset: bool) -> Array:
        return with_missing_as_nan(as_float_table(self, X, None, reset))

    def _intercept(self, X: Any) -> Design | None:
        """Return offsets of the label columns alone."""
        if not self.fit_intercept:
            return None
        return Design(
            np.ones((X.shape[0], 1), X.dtype),
            columns=np.arange(X.shape[1]) >= self._n_first,
        )

    def _choose(self, problem: Convex, inputs: TableInputs, run: Run) -> Choice[Convex]:
        validation = self._validation(run)
        if not is_option(self.alpha, "auto"):
            return Choice(problem)
        problem.at(1.0).check()
        chosen = select_by_labels(problem, self._n_first, self.rule, validation)
        return Choice(problem.at(chosen.best.value), chosen)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: Any,
        run: Run,
    ) -> Solution[FactorPoint]:
        published = super()._publish(choice, solution, inputs, run)
        d = self._n_first
        self.label_components_ = self.components_[:, d:]
        self.components_ = np.ascontiguousarray(self.components_[:, :d])
        self.label_intercept_ = self.intercept_[d:]
        self.intercept_ = self.intercept_[:d]
        self.transduction_ = self._transduced(inputs.labels)
        return published

    def transform(self, X: Any) -> Array:
        """Return the codes of each row, scored alone by its inputs; entries may be missing.

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
        C = np.hstack([self.components_, self.label_components_]).astype(X.dtype)
        unknown = np.full((len(X), len(self.label_intercept_)), np.nan, X.dtype)
        intercept = np.concatenate([self.intercept_, self.label_intercept_]).astype(X.dtype)
        return self._score(np.hstack([X, unknown]), C, intercept)

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
        return self._losses[0].predict(codes @ self.components_ + self.intercept_)

    def complete(self, X: Any) -> Any:
        """Return the inputs with missing entries filled; type, index and columns are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        table = as_float_table(self, X, None, reset=False)
        return filled(X, table, self.inverse_transform(self.transform(X)), None)

    def _values(self, codes: Array) -> Array:
        """Return the predictors of the label columns."""
        return np.asarray(codes) @ self.label_components_ + self.label_intercept_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
