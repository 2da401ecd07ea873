"""Classifiers of scikit-learn as members of a pool, judged by the same held-out labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember

SMALLEST_PROBABILITY = 1e-6


@frozen
class ClassifierEnergies(ClassModel):
    """Logarithms of the probabilities of a classifier, or its decision function."""

    takes_given_rows = True

    name: str
    classifier: Any
    classes: Array

    def energies(self, rows: Any) -> Array:
        """Return an energy for each row and class; a class it was not given has the smallest."""
        if hasattr(self.classifier, "predict_proba"):
            found = np.asarray(self.classifier.predict_proba(rows), dtype=np.float64)
            shares = self._of_all_classes(found, np.zeros((len(found), 1)))
            return np.log(np.maximum(shares, SMALLEST_PROBABILITY))
        found = np.asarray(self.classifier.decision_function(rows), dtype=np.float64)
        if found.ndim == 1:
            found = np.column_stack([np.zeros(len(found)), found])
        return self._of_all_classes(found, found.min(axis=1, keepdims=True))

    def _of_all_classes(self, found: Array, others: Array) -> Array:
        """Return numbers of the classifier's classes in the order of all, `others` elsewhere."""
        columns = [self.classes.tolist().index(label) for label in self.classifier.classes_]
        if found.shape[1] != len(columns) or not np.isfinite(found).all():
            raise ValueError(
                f"The member {self.name!r} must return a finite number for each of its "
                f"{len(columns)} classes; change its parameters, or leave it out."
            )
        energies = np.repeat(others, len(self.classes), axis=1)
        energies[:, columns] = found
        return energies


@frozen
class ClassifierMember(ClassMember):
    """A classifier that is fitted to the labeled rows as they were given."""

    uses_unlabeled = False
    temperatures = (0.25, 0.5, 1.0, 2.0, 4.0)
    usual_temperature = 1.0

    given_name: str
    classifier: Any
    given_rows: Any
    classes: Array

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name that the user gave."""
        return self.given_name

    @property
    def assumes(self) -> str:  # type: ignore[override]
        """The class of the classifier."""
        return f"{type(self.classifier).__name__}; unlabeled rows are not used"

    def fit(self) -> FittedMember:
        """Return the classifier fitted to all labels, and without each fold of them."""
        data = self.data
        labeled_rows = self.given_rows[data.labeled]
        try:
            models = [self._model(labeled_rows, data, in_use) for in_use in data.in_use]
            of_labels = np.array([model.energies(labeled_rows) for model in models])
            energies = models[0].energies(self.given_rows)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The member {self.name!r} failed ({len(data.labeled)} labeled rows, fewer in "
                f"folds): {error}"
            ) from error
        return self._fitted(models[0], energies, data.held_out(of_labels))

    def _model(self, labeled_rows: Any, data: LabeledRows, in_use: Array) -> ClassifierEnergies:
        machine = clone(self.classifier)
        if has_fit_parameter(machine, "sample_weight"):
            rows, codes = np.nonzero(data.label_shares * in_use[:, None])
            weights = data.label_shares[rows, codes] * data.label_weights[rows]
            options = {}
            if not np.all(weights == 1):
                options = {"sample_weight": weights}
        else:
            rows = np.flatnonzero(in_use)
            codes = data.label_shares[rows].argmax(axis=1)
            options = {}
        machine.fit(labeled_rows[rows], self.classes[codes], **options)
        return ClassifierEnergies(self.name, machine, self.classes)
