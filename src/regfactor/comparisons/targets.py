"""Known labels and targets: classes as signs for machines, or targets with missing entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from regfactor.core.params import Array, frozen
from regfactor.fitting.labels import (
    Labels,
    as_labels,
    as_targets,
    encode_labels,
    is_labeled,
    most_likely,
    require_same_rows,
)
from regfactor.fitting.targets import Targets

CLASSES = True
TARGETS = False


@frozen
class KnownTargets:
    """Y with NaN where it is unknown: targets, or -1 and 1 for each class (for one of two)."""

    Y: Array
    shape: tuple[int, ...]
    classes: Array | None = None
    dtype: Any = np.float64

    @property
    def flat(self) -> bool:
        """Return whether answers are a vector."""
        return len(self.shape) == 1

    def patterns(self) -> Iterator[tuple[Array, Array]]:
        """Rows that are known, with the columns that are known in just these."""
        seen = ~np.isnan(self.Y)
        kinds, which = np.unique(seen, axis=1, return_inverse=True)
        for j in range(kinds.shape[1]):
            yield np.flatnonzero(kinds[:, j]), np.flatnonzero(which.ravel() == j)

    def empty(self) -> KnownTargets:
        """Return the encoding of answers, without the rows."""
        return replace(self, Y=self.Y[:0])

    def answer(self, f: Array) -> Array:
        """Return classes or targets from values f of rows."""
        if self.classes is None:
            if self.flat:
                return f[:, 0]
            return f
        return self.classes[most_likely(f)]

    def completed(self, f: Array, dtype: Any) -> Array:
        """Return answers for all rows, those that are known as they were given."""
        if self.classes is None:
            return (
                np.where(np.isnan(self.Y), f, self.Y)
                .astype(np.result_type(self.dtype, dtype))
                .reshape(self.shape)
            )
        labeled = ~np.isnan(self.Y[:, 0])
        return self.answer(np.where(labeled[:, None], self.Y, f))


def known(y: Any, X: Any, unlabeled: Any, classes: bool | None) -> KnownTargets:
    """Return the known part of y for the rows of X.

    `classes` None leaves it to y whether it holds classes or targets.
    """
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    classes = _holds_classes(y, unlabeled) if classes is None else classes
    if classes:
        return _sides(y, X, unlabeled)
    return _targets(y, X, unlabeled)


def _holds_classes(y: Any, unlabeled: Any) -> bool:
    array = as_labels(y)
    if array.ndim > 1:
        return False
    labeled = is_labeled(array, unlabeled)
    if array.dtype == object:
        numbers = np.array(array[labeled].tolist())
    else:
        numbers = array[labeled]
    if numbers.dtype.kind != "f":
        return True
    if not np.all(numbers == np.floor(numbers)):
        return False
    if not labeled.all() or 2 * len(np.unique(numbers)) > len(numbers):
        raise ValueError(
            "y holds floats that are all whole numbers, which may be classes or targets. Say "
            "which: task='classification' or task='regression'."
        )
    return True


def _sides(y: Any, X: Any, unlabeled: Any) -> KnownTargets:
    labels = labels_of(y, X, unlabeled)
    Y = 2 * labels.one_hot() - 1
    Y[~labels.labeled] = np.nan
    if Y.shape[1] == 2:
        Y = Y[:, 1:]
    return KnownTargets(Y, (len(Y),), labels.classes)


def labels_of(y: Any, X: Any, unlabeled: Any) -> Labels:
    """Return the labels of the rows of X, of at least two classes."""
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        y = column_or_1d(array, warn=True)
    labels = encode_labels(y, unlabeled)
    require_same_rows(X, labels.codes)
    if len(labels.classes) < 2:
        raise ValueError(
            f"A classifier needs labeled rows of at least two classes, got {len(labels.classes)} "
            "class."
        )
    return labels


def _targets(y: Any, X: Any, unlabeled: Any) -> KnownTargets:
    targets = Targets.of(y, X)
    Y = targets.table
    if unlabeled is not None:
        Y = np.where(is_labeled(as_targets(y), unlabeled).reshape(Y.shape), Y, np.nan)
    empty = np.isnan(Y).all(axis=0)
    if empty.any():
        name = targets.names[int(np.argmax(empty))]
        raise ValueError(
            f"Input y contains NaN in every row of target column {name}: there is nothing to learn "
            "it from. Give at least one value, or leave the column out."
        )
    return KnownTargets(Y, targets.shape, None, targets.dtype)
