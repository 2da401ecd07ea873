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

    classifier: Any
    n_classes: int

    def energies(self, rows: Any) -> Array:
        """Return an energy for each row and class."""
        if hasattr(self.classifier, "predict_proba"):
            found = np.asarray(self.classifier.predict_proba(rows))
            return np.log(np.maximum(found, SMALLEST_PROBABILITY))
        found = np.asarray(self.classifier.decision_function(rows), dtype=np.float64)
        if found.ndim == 1:
            return np.column_stack([np.zeros(len(found)), found])
        return found


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
        models = [self._model(labeled_rows, data, in_use) for in_use in data.in_use]
        energies = np.array([model.energies(labeled_rows) for model in models])
        model = models[0]
        return self._fitted(model, model.energies(self.given_rows), data.held_out(energies))

    def _model(self, labeled_rows: Any, data: LabeledRows, in_use: Array) -> ClassifierEnergies:
        machine = clone(self.classifier)
        if has_fit_parameter(machine, "sample_weight"):
            rows, codes = np.nonzero(data.label_shares * in_use[:, None])
            weights = data.label_shares[rows, codes] * data.label_weights[rows]
            options = {} if np.all(weights == 1) else {"sample_weight": weights}
        else:
            rows = np.flatnonzero(in_use)
            codes = data.label_shares[rows].argmax(axis=1)
            options = {}
        try:
            machine.fit(labeled_rows[rows], self.classes[codes], **options)
        except (TypeError, ValueError) as error:
            error.add_note(f"This is the member {self.name!r}, fitted to {len(rows)} labeled rows.")
            raise
        return ClassifierEnergies(machine, data.n_classes)
