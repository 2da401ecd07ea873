"""Intervals that hold a stated share of what comes, from errors on labeled rows that the model had not seen (CV+)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.cli.candidates import Candidate, folds
from regfactor.cli.job import quiet
from regfactor.cli.targets import CLASSIFICATION, Target
from regfactor.core.params import Array

LEVEL = 0.9
BLOCK = 4_000_000  # numbers that are held at once


@dataclass(frozen=True, eq=False)
class CrossFit:
    """A model for each fold, the labeled rows it was tried on, and what it said of them."""

    models: list[Any]
    tests: list[Array]
    said: list[Array]

    @property
    def rows(self) -> Array:
        """The labeled rows, fold by fold."""
        return np.concatenate(self.tests)

    @property
    def predictions(self) -> Array:
        """What was said of them by models that had not seen them."""
        return np.concatenate(self.said)


def cross_fit(candidate: Candidate, E: Any, y: Array, labeled: Array, target: Target) -> CrossFit:
    """Fit a model without each fold; classifiers say probabilities, regressors numbers."""
    models = []
    tests = []
    said = []
    with quiet():
        for train, test in folds(y, target):
            model = candidate.fit(E[train], y[train], labeled[train])
            said.append(
                probabilities(model, E[test], target)
                if target.task == CLASSIFICATION
                else model.predict(E[test]),
            )
            models.append(model)
            tests.append(test)
    return CrossFit(models, tests, said)


def right(crossed: CrossFit, y: Array, target: Target) -> Array:
    """Return which labeled rows, fold by fold, were given their class by models that had not seen them."""
    said = np.array([target.classes[j] for j in crossed.predictions.argmax(axis=1)], dtype=object)
    return np.asarray(said == y[crossed.rows])


def probabilities(model: Any, E: Any, target: Target) -> Array:
    """Return a column for each class of the target; one that the model never saw has none."""
    out = np.zeros((E.shape[0], len(target.classes)))
    places = [target.classes.index(str(name)) for name in model.classes_]
    out[:, places] = model.predict_proba(E)
    return out


def intervals(
    fitted: CrossFit,
    y: Array,
    E: Any,
    level: float = LEVEL,
) -> tuple[Array, Array] | None:
    """Return limits for each row of E; None where there are too few labels for the level.

    The limits of a row are quantiles of m_k(x) -+ |y_i - m_k(x_i)| over all labeled rows i, with
    m_k the model that had not seen i (CV+, Barber et al. 2021). They hold at least 2 level - 1 of
    exchangeable rows, and in practice about `level` of them.
    """
    errors = [np.abs(y[test] - said) for test, said in zip(fitted.tests, fitted.said, strict=True)]
    n = sum(map(len, errors))
    k = int(np.floor((1 - level) * (n + 1)))
    if k < 1:
        return None
    at = np.concatenate([[j] * len(e) for j, e in enumerate(errors)])
    residuals = np.concatenate(errors)
    rows = E.shape[0]
    lower = np.empty(rows)
    upper = np.empty(rows)
    step = max(1, BLOCK // n)
    for start in range(0, rows, step):
        block = slice(start, min(start + step, rows))
        means = np.column_stack([model.predict(E[block]) for model in fitted.models])[:, at]
        lower[block] = np.partition(means - residuals, k - 1, axis=1)[:, k - 1]
        upper[block] = np.partition(means + residuals, n - k, axis=1)[:, n - k]
    return lower, upper
