"""Rows with a label and rows without one, as an estimator reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from regfactor.core.params import Array, frozen
from regfactor.fitting.labels import as_labels, as_targets, is_labeled, soft_labels

SEMI_SUPERVISED_PACKAGES = ("regfactor.", "sklearn.semi_supervised.")


@frozen
class MarkedLabels:
    """Labels or targets of all rows, the marker of those without one, and which are known.

    `known` has the shape of y: in rows of several targets single ones may be missing. Soft labels
    are the shares of classes in each row, of which `known` has one entry.
    """

    y: Array
    marker: Any
    known: Array
    is_soft: bool = False

    @staticmethod
    def of(y: Any, estimator: Any, unlabeled: Any = None) -> MarkedLabels:
        """Return the labels of y; the marker is by default that of the estimator."""
        marker = unlabeled
        if marker is None:
            marker = getattr(inner_estimator(estimator), "unlabeled", None)
        if is_regressor(estimator):
            labels = as_targets(y)
            if marker is None:
                marker = float("nan")  # any number, -1 included, is a target
        else:
            labels = as_labels(y)
        return MarkedLabels(labels, marker, is_labeled(labels, marker))

    @staticmethod
    def soft(y: Any) -> MarkedLabels:
        """Return soft labels, the shares of classes in each row; zeros or NaN without a label."""
        shares = soft_labels(y)
        return MarkedLabels(shares, None, np.asarray(shares.any(axis=1)), is_soft=True)

    @property
    def for_folds(self) -> MarkedLabels:
        """The labels by which folds are drawn: the most likely classes of soft labels."""
        if not self.is_soft:
            return self
        codes = np.where(self.known, self.y.argmax(axis=1), -1)
        return MarkedLabels(codes, -1, self.known)

    @property
    def labeled(self) -> Array:
        """Mask of the rows with a label, or with at least one target."""
        if self.known.ndim == 1:
            return self.known
        return np.asarray(self.known.any(axis=1))

    @property
    def complete(self) -> Array:
        """Mask of the rows of which every target is known."""
        if self.known.ndim == 1:
            return self.known
        return np.asarray(self.known.all(axis=1))

    def of_rows(self, rows: Array) -> Array:
        """Return the labels of some rows, of their own type, not objects, if none is missing."""
        y = self.y[rows]
        if y.dtype == object and not any(v is None or v != v for v in y.ravel()):
            return np.array(y.tolist())
        return y


def holds_soft_labels(y: Any, estimator: Any) -> bool:
    """Return whether labels of a classifier are a matrix of shares."""
    shape = np.asarray(y).shape
    return not is_regressor(estimator) and len(shape) == 2 and shape[1] > 1


def inner_estimator(estimator: Any) -> Any:
    """Return the estimator inside a pipeline, a search or a frozen estimator."""
    if isinstance(estimator, Pipeline):
        return inner_estimator(estimator.steps[-1][1])
    if isinstance(estimator, BaseSearchCV | FrozenEstimator):
        return inner_estimator(estimator.estimator)
    return estimator


def takes_unlabeled_rows(estimator: Any) -> bool:
    """Return whether an estimator is known to learn from rows without a label.

    Such are the estimators of this library and of sklearn.semi_supervised, and those with a
    parameter `unlabeled`.
    """
    inner = inner_estimator(estimator)
    if type(inner).__module__.startswith(SEMI_SUPERVISED_PACKAGES):
        return True
    return "unlabeled" in inner.get_params(deep=False)
