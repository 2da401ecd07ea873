"""Intervals that cover a stated share of new rows, from errors on held-out labels (CV+)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.model_selection.candidates import Candidate, LabeledTask

LEVEL = 0.9
BLOCK_ELEMENTS = 4_000_000  # numbers that are held at once


@dataclass(frozen=True, eq=False)
class CrossFit:
    """A model for each fold, the labeled rows of that fold, and its predictions there."""

    models: list[Any]
    tests: list[Array]
    fold_predictions: list[Array]

    @property
    def rows(self) -> Array:
        """The labeled rows, fold by fold."""
        return np.concatenate(self.tests)

    @property
    def predictions(self) -> Array:
        """Predictions of the labeled rows by models that were not fitted to them."""
        return np.concatenate(self.fold_predictions)


def cross_fit(candidate: Candidate, X: Any, task: LabeledTask) -> CrossFit:
    """Fit a model without each fold; classifiers predict probabilities, regressors numbers."""
    models = []
    tests = []
    predictions = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trial fits; the final one reports its own
        for train, test in task.folds():
            model = candidate.fit(X[train], task.of_rows(train))
            if task.is_classification:
                predictions.append(class_probabilities(model, X[test], task))
            else:
                predictions.append(model.predict(X[test]))
            models.append(model)
            tests.append(test)
    return CrossFit(models, tests, predictions)


def correct_rows(crossed: CrossFit, task: LabeledTask) -> Array:
    """Return for each labeled row, fold by fold, whether its class was predicted."""
    classes = np.array(task.classes, dtype=object)
    predicted = classes[crossed.predictions.argmax(axis=1)]
    return predicted == task.y[crossed.rows]


def class_probabilities(model: Any, X: Any, task: LabeledTask) -> Array:
    """Return a column for each class of the task, zero for classes that the model does not know."""
    out = np.zeros((X.shape[0], len(task.classes)))
    columns = [task.classes.index(str(name)) for name in model.classes_]
    out[:, columns] = model.predict_proba(X)
    return out


@dataclass(frozen=True, eq=False)
class Intervals:
    """Lower and upper limits, one for each row."""

    lower: Array
    upper: Array

    def in_units(self, center: float, scale: float) -> Intervals:
        """Return the limits of targets that had been standardized."""
        return Intervals(self.lower * scale + center, self.upper * scale + center)


def intervals(
    crossed: CrossFit,
    task: LabeledTask,
    X: Any,
    level: float = LEVEL,
) -> Intervals | None:
    """Return limits for each row of X; None if there are too few labels for the level.

    The limits of a row are quantiles of m_k(x) -+ |y_i - m_k(x_i)| over all labeled rows i, where
    m_k is the model that was not fitted to i (CV+, Barber et al. 2021). They cover at least
    2 level - 1 of exchangeable rows, and in practice about `level` of them.
    """
    folds = zip(crossed.tests, crossed.fold_predictions, strict=True)
    errors = [np.abs(task.y[test] - predicted) for test, predicted in folds]
    n = sum(map(len, errors))
    k = int(np.floor((1 - level) * (n + 1)))
    if k < 1:
        return None
    fold_of_error = np.repeat(np.arange(len(errors)), [len(part) for part in errors])
    residuals = np.concatenate(errors)
    n_rows = X.shape[0]
    lower = np.empty(n_rows)
    upper = np.empty(n_rows)
    step = max(1, BLOCK_ELEMENTS // n)
    for start in range(0, n_rows, step):
        block = slice(start, min(start + step, n_rows))
        means = np.column_stack([model.predict(X[block]) for model in crossed.models])
        means = means[:, fold_of_error]
        lower[block] = np.partition(means - residuals, k - 1, axis=1)[:, k - 1]
        upper[block] = np.partition(means + residuals, n - k, axis=1)[:, n - k]
    return Intervals(lower, upper)
