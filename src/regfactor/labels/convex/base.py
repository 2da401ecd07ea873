"""Labels as a second view of the inputs: what classifier and regressor share."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Solution
from regfactor.core.params import Array, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.inputs import as_float_table, codes_of, filled, row_weights
from regfactor.fitting.parameters import AUTO, POSITIVE, NumberInterval
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.side_by_side import ViewUnits, joint_loss, with_missing_as_nan
from regfactor.fitting.two_view_estimator import TWO_VIEW_CONSTRAINTS, TwoViewEstimator
from regfactor.labels.convex.scaling import Scaling, scaling_of
from regfactor.labels.convex.selection import Readout, select_by_labels, select_share
from regfactor.losses import LOSSES, Loss, as_loss
from regfactor.penalties import Trace
from regfactor.problems import Convex, Design
from regfactor.problems.convex import convex

# by how much inputs pull harder than labels at zero under reconstruction_weight="auto"
PULL_RATIO = 5.0

CONVEX_LABEL_CONSTRAINTS: dict[str, list[Any]] = {
    **TWO_VIEW_CONSTRAINTS,
    "loss": [StrOptions(set(LOSSES)), Loss],
    "reconstruction_loss": [StrOptions(set(LOSSES)), Loss],
    "reconstruction_weight": [POSITIVE],
}
CONVEX_FACTOR_CONSTRAINTS: dict[str, list[Any]] = {
    **CONVEX_LABEL_CONSTRAINTS,
    "alpha_share": [NumberInterval(Real, 0, 1, closed="right"), AUTO],
    "reconstruction_weight": [POSITIVE, AUTO],
    "alpha": [POSITIVE, AUTO, None],
    "scale": ["boolean"],
    "readout": [StrOptions({"regression", "components"})],
}


@dataclass(frozen=True)
class LabelInputs(TableInputs):
    """Inputs and columns of labels side by side, and the labels as they were given.

    The table is in the scale of the fit.
    """

    labels: Any

    @property
    def weights(self) -> Array:
        """The weights of all rows, zero where they are not learned from."""
        weights = np.ones(len(self.table))
        if self.rows is not None:
            weights[~self.counted] = 0.0
            weights[self.counted] = self.rows
        return weights


@dataclass(frozen=True)
class Counts:
    """Sums of weights: of all rows, of those with a label, and of the observed entries of both."""

    rows: float
    labeled_rows: float
    inputs: float
    labels: float


class ConvexFactorEstimator(TwoViewEstimator, abc.ABC):
    """A model of inputs and labels side by side, which scores new rows by their inputs."""

    _parameter_constraints = CONVEX_FACTOR_CONSTRAINTS
    _score: Scoring
    # the ridge regression whose evidence chooses alpha_share
    _judge: Readout
    _readout: Any = None

    @abc.abstractmethod
    def _read_labels(self, y: Any, X: Array) -> Any:
        """Return the labels of the rows of X as they were given."""

    @abc.abstractmethod
    def _label_columns(self, labels: Any) -> Array:
        """Return the columns of labels, NaN where they are unknown."""

    @abc.abstractmethod
    def _fitted_readout(self, features: Array, inputs: LabelInputs) -> Any:
        """Return the regression of the known labels on features; None to use the components."""

    @abc.abstractmethod
    def _transduced(self, values: Array, labels: Any) -> Array:
        """Return the labels of all training rows, predicted by values where they are unknown."""

    @abc.abstractmethod
    def _is_constant(self, values: Array) -> bool:
        """Return whether the same is predicted for all rows of values."""

    def _read(self, X: Any, y: Any = None, sample_weight: Any = None, /) -> LabelInputs:
        self._losses = (as_loss(self.reconstruction_loss), as_loss(self.loss))
        table = self._inputs(X, reset=True)
        labels = self._read_labels(y, table)
        columns = self._label_columns(labels)
        rows = row_weights(table, sample_weight)
        self._n_first = table.shape[1]
        columns = columns.astype(table.dtype)
        self._scalings = self._column_scalings(table, columns, rows)
        table = self._scalings[0](table)
        columns = self._scalings[1](columns)
        self._units = self._label_units(table, columns, rows)
        both = np.hstack([table, columns])
        return LabelInputs.of(
            both,
            joint_loss(self._losses, self._n_first),
            rows,
            columns=self._units.column_weights,
            offset_columns=np.arange(both.shape[1]) >= self._n_first,
            names=None,
            labels=labels,
        )

    def _column_scalings(
        self,
        X: Array,
        Y: Array,
        rows: Array | None,
    ) -> tuple[Scaling, Scaling]:
        """Return the scales of the columns of inputs and of labels."""
        if not self.scale:
            return Scaling.none(X.shape[1]), Scaling.none(Y.shape[1])
        weights = np.ones(len(X)) if rows is None else rows
        return (
            scaling_of(X, self._losses[0], weights, centered=True),
            scaling_of(Y, self._losses[1], weights, self.fit_intercept),
        )

    def _label_units(self, X: Array, Y: Array, rows: Array | None) -> ViewUnits:
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
        input_weight, label_weight = self._weights(counts)
        if is_option(self.reconstruction_weight, "auto"):
            pull = self._pull(Y, self._losses[1], rows, label_weight, self.fit_intercept)
            input_pull = self._pull(X, self._losses[0], rows, input_weight, intercept=False)
            first, second = self._gauge.bounds
            if pull > 0 and input_pull > 0:
                input_weight *= PULL_RATIO * second * pull / (first * input_pull)
        self.reconstruction_weight_ = input_weight * counts.rows * self._n_first
        widths = [X.shape[1], Y.shape[1]]
        weights = np.repeat([input_weight, label_weight], widths)
        return ViewUnits(np.ones(sum(widths)), weights)

    def _pull(
        self,
        view: Array,
        loss: Loss,
        rows: Array | None,
        weight: float,
        intercept: bool,
    ) -> float:
        """Return the spectral norm of the gradient of a weighted view at zero."""
        if rows is not None:
            view = view[rows > 0]
            rows = rows[rows > 0]
        design = None
        if intercept:
            design = Design.intercept(len(view), view.dtype)
        entries = np.full(view.shape, weight, view.dtype)
        return convex(view, loss, Trace(), 1.0, rows, entries, design).alpha_max()

    def _weights(self, counts: Counts) -> tuple[float, float]:
        """Return the weights of an entry of the inputs and of an entry of the labels."""
        weight = 1.0
        if not is_option(self.reconstruction_weight, "auto"):
            weight = float(self.reconstruction_weight)
        return weight / (counts.rows * self._n_first), 1 / counts.labeled_rows

    def _inputs(self, X: Any, reset: bool) -> Array:
        return with_missing_as_nan(as_float_table(self, X, None, reset))

    @property
    def _strength(self) -> float:
        if self.alpha is None:
            return 1.0
        return super()._strength

    def _choose(self, problem: Convex, inputs: Any, run: Run) -> Choice[Convex]:
        validation = self._validation(run, run.seed())
        if self.alpha is None:
            return Choice(problem.at(self._share(inputs) * (problem.alpha_max() or 1.0)))
        if not is_option(self.alpha, "auto"):
            return Choice(problem)
        problem.at(1.0).check()
        chosen = select_by_labels(problem, self._n_first, self.rule, validation)
        return Choice(problem.at(chosen.best.value), chosen)

    def _share(self, inputs: LabelInputs) -> float:
        """Return the share of alpha_max that was given, or that labels choose."""
        if not is_option(self.alpha_share, "auto"):
            return float(self.alpha_share)
        X = inputs.learned[:, : self._n_first]
        Y = inputs.learned[:, self._n_first :].astype(np.float64)
        weights = inputs.weights[inputs.counted]
        return select_share(X, Y, weights, type(self)._judge)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: Any,
        run: Run,
    ) -> Solution[FactorPoint]:
        published = super()._publish(choice, solution, inputs, run)
        self._fitted = (self.components_, self.intercept_)
        self._publish_in_units()
        self._readout = None
        values = self._values(self.codes_)
        if self.readout == "regression":
            values = self._regressed(inputs)
        self.transduction_ = self._transduced(values, inputs.labels)
        if self._labels_differ(inputs):
            self._warn_if_constant(values)
        return published

    def _publish_in_units(self) -> None:
        """Set components and intercepts of both views in the units of the data."""
        C, intercept = self._fitted
        d = self._n_first
        inputs, labels = self._scalings
        dtype = C.dtype
        self.components_ = C[:, :d] * inputs.divisor.astype(dtype)
        self.label_components_ = C[:, d:] * labels.divisor.astype(dtype)
        self.intercept_ = inputs.center.astype(dtype) + intercept[:d]
        offsets = labels.center + labels.divisor * intercept[d:]
        self.label_intercept_ = offsets.astype(dtype)
        self.view_components_ = [self.components_, self.label_components_]
        self.alpha_share_ = self.alpha_ / (self.alpha_max_ or 1.0)

    def _regressed(self, inputs: LabelInputs) -> Array:
        """Fit the regression of labels on codes by inputs alone; return its values of all rows."""
        codes = self._codes_of_inputs(inputs.table[:, : self._n_first]).astype(np.float64)
        self._feature_map = _feature_map(self._fitted[0][:, : self._n_first], codes, inputs.weights)
        features = codes @ self._feature_map
        self._readout = self._fitted_readout(features, inputs)
        return self._values(codes)

    def _warn_if_empty(self) -> None:
        """Leave it to the warning of constant predictions, which is more general."""

    def _labels_differ(self, inputs: LabelInputs) -> bool:
        """Return whether labels of positive weight differ, so that a constant is not right."""
        labels = inputs.table[inputs.weights > 0, self._n_first :]
        high = np.fmax.reduce(labels, axis=0, initial=-np.inf)
        low = np.fmin.reduce(labels, axis=0, initial=np.inf)
        return bool(np.any(high > low))

    def _warn_if_constant(self, values: Array) -> None:
        """Warn of a fit that predicts the same for all rows."""
        if len(values) < 2 or not self._is_constant(values):
            return
        reason = "labels do not follow the inputs at this strength"
        if not len(self.components_):
            reason = "it has no component, since alpha is not below alpha_max_"
        warn(
            f"{type(self).__name__} predicts the same for every row: {reason}. Lower alpha_share "
            "(or alpha), give more labels, or use another model."
        )

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
        return self._codes_of_inputs(self._scalings[0](self._inputs(X, reset=False)))

    def _codes_of_inputs(self, X: Array) -> Array:
        """Return the codes of inputs in the scale of the fit."""
        C, intercept = self._fitted
        unknown = np.full((len(X), len(intercept) - self._n_first), np.nan, X.dtype)
        return self._score(
            np.hstack([X, unknown]),
            C.astype(X.dtype),
            intercept.astype(X.dtype),
        )

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
        return filled(X, table, self.inverse_transform(self.transform(X)))

    def _values(self, codes: Array) -> Array:
        """Return the predictors of the labels: by regression on the codes, or by components."""
        if self._readout is not None:
            return self._readout(np.asarray(codes) @ self._feature_map).astype(self.codes_.dtype)
        return np.asarray(codes) @ self.label_components_ + self.label_intercept_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _feature_map(C: Array, codes: Array, weights: Array) -> Array:
    """Return a map of codes to features with the lengths and angles of reconstructed inputs.

    With C' = Q R the rows of codes R' have the inner products of those of codes C. They are divided
    by one number, so that the variance of an input is one on average.
    """
    _, R = np.linalg.qr(C.T.astype(np.float64))
    features = codes @ R.T
    mean = np.average(features, axis=0, weights=weights)
    variance = np.average(np.square(features - mean), axis=0, weights=weights).sum()
    size = np.sqrt(variance / max(C.shape[1], 1))
    return R.T / (size or 1.0)
