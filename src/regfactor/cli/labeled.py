"""The result of labeling a table, for the terminal, the report and the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from regfactor.cli.columns import Understood
from regfactor.cli.statements import Statement
from regfactor.cli.tables import Table, add_columns
from regfactor.cli.targets import Target
from regfactor.core.params import Array, frozen
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.explanation import Explanation
from regfactor.model_selection.candidates import Contest
from regfactor.model_selection.conformal import Conformal

LEVEL = 0.9  # of sets and intervals
SET_SEPARATOR = "|"


@frozen
class Predicted:
    """Predictions of rows: classes with probabilities and sets, or numbers with limits.

    Sets and limits are None where there are too few labels for them.
    """

    values: Array
    probabilities: Array | None = None
    sets: list[list[str]] | None = None
    limits: PredictionInterval | None = None

    def details(self, spelled: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the columns that a labeled table gets next to its target."""
        columns: dict[str, list[Any]] = {}
        if self.probabilities is not None:
            columns["probability"] = self.probabilities.tolist()
        if self.sets is not None:
            columns["set"] = [_joined(names, spelled) for names in self.sets]
        if self.limits is not None:
            columns["lower"] = self.limits.lower.tolist()
            columns["upper"] = self.limits.upper.tolist()
        return columns


def _joined(names: list[str], spelled: Mapping[str, Any]) -> str:
    return SET_SEPARATOR.join(str(spelled[name]) for name in names)


def predict_rows(model: Any, X: Any) -> Predicted:
    """Return the predictions of a model, with sets or limits where it is calibrated."""
    calibrated = isinstance(model, Conformal) and not model.why_not()
    if is_classifier(model):
        P = model.predict_proba(X)
        classes = np.array([str(name) for name in model.classes_], dtype=object)
        sets = None
        if calibrated:
            sets = [classes[own].tolist() for own in model.predict_set(X)]
        return Predicted(classes[P.argmax(axis=1)], P.max(axis=1), sets)
    limits = None
    if calibrated:
        limits = model.predict_interval(X)
    return Predicted(model.predict(X), limits=limits)


@frozen
class HeldOutLabels:
    """Labels in the table that the model was not fitted to, and its predictions of them.

    Predictions are probabilities of `classes`, or numbers.
    """

    y: Array
    predictions: Array
    classes: Array | None = None

    @staticmethod
    def of(model: Conformal, y: Array) -> HeldOutLabels:
        """Return the held-out labels of a calibrated model; y is what it was fitted to."""
        given = y[model.held_out_rows_]
        predictions = model.held_out_predictions_
        if is_classifier(model):
            return HeldOutLabels(given, predictions, model.classes_)
        return HeldOutLabels(given, predictions[:, 0])

    @property
    def correct(self) -> Array:
        """Whether each label was predicted."""
        assert self.classes is not None
        return self.classes[self.predictions.argmax(axis=1)] == self.y

    @property
    def errors(self) -> Array:
        """Absolute errors of a regression."""
        return np.abs(self.y - self.predictions)


@frozen
class Labeled:
    """A labeled table: the contest of models, the winner fitted, and its predictions."""

    seen: Understood
    target: Target
    statements: list[Statement]
    contest: Contest
    encoder: Any
    model: Any  # the winner, or Conformal around it
    predicted: Predicted
    held_out: HeldOutLabels | None
    learned: Array  # rows that the model was fitted to

    @property
    def winner(self) -> Any:
        """The fitted winner itself."""
        if isinstance(self.model, Conformal):
            return self.model.estimator_
        return self.model

    @property
    def explanation(self) -> Explanation | None:
        """The members of an average of models, and their shares; None for a single model."""
        if hasattr(self.winner, "explain"):
            explanation: Explanation = self.winner.explain()
            return explanation
        return None

    @property
    def why_no_limits(self) -> str:
        """Why there are no sets or intervals; empty if there are."""
        if isinstance(self.model, Conformal):
            return self.model.why_not()
        return ""


def add_labels(
    out: Any,
    target: str,
    given: Array,
    details: Mapping[str, list[Any]],
    table: Table,
) -> None:
    """Add which labels were given, and the details of the others, as columns after the target."""
    new: dict[str, Any] = {f"{target}_given": given}
    for end, values in details.items():
        cells = [table.cell(value) for value in values]
        new[f"{target}_{end}"] = [
            None if known else cell for cell, known in zip(cells, given, strict=True)
        ]
    add_columns(out, new)
