"""Cross-validation over labeled rows; unlabeled rows always stay in training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from regfactor.core.params import Array
from regfactor.fitting.labels import as_labels, encode_labels, is_labeled


@dataclass
class LabeledKFold:
    """Folds over labeled rows: each is tested once, all unlabeled rows are in every training set.

    Folds are stratified: the number of rows of a class differs by at most one between any two
    folds, and a class may have fewer labels than there are folds. With several targets, rows with
    a missing target are never tested.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds; at most the number of labeled rows.
    shuffle : bool, default=False
        Whether rows are shuffled first.
    random_state : int, RandomState or None
        Determines the order when `shuffle` is true.
    unlabeled : object, default=None
        The marker of an unlabeled row in y: by default -1, NaN, None or "". Set `float("nan")`
        where -1 is a class or a target.

    Examples
    --------
    >>> y = [0, 0, 1, 1, -1, -1]
    >>> for train, test in LabeledKFold(2).split(y, y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 2 4 5] [1 3]
    """

    n_splits: int = 5
    shuffle: bool = False
    random_state: Any = None
    unlabeled: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_splits, Integral) or self.n_splits < 2:
            raise ValueError(
                f"n_splits must be a whole number of at least 2, got {self.n_splits!r}."
            )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Yield the rows of training and test for every fold; groups are ignored."""
        labels = as_labels(y)
        known = is_labeled(labels, self.unlabeled)
        rows = np.flatnonzero(known if known.ndim == 1 else known.all(axis=1))
        if len(rows) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} folds need as many labeled rows; y has {len(rows)}."
            )
        all_rows = np.arange(len(labels))
        for test in self._folds(labels[rows]):
            tested = rows[np.sort(test)]
            yield np.setdiff1d(all_rows, tested), tested

    def _folds(self, given: Array) -> Iterator[Array]:
        """Yield positions among labeled rows, fold by fold."""
        given = np.array(given.tolist())  # of objects where a None was among the labels
        if given.ndim > 1 or (given.dtype.kind == "f" and np.any(given != np.floor(given))):
            state = self.random_state if self.shuffle else None
            splitter = KFold(self.n_splits, shuffle=self.shuffle, random_state=state)
            for _, test in splitter.split(given):
                yield test
            return
        order = np.arange(len(given))
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        # all rows here are labeled, whatever their value: the marker is a value that none has
        codes = encode_labels(given, unlabeled=float("nan")).codes
        order = order[np.argsort(codes[order], kind="stable")]
        for fold in range(self.n_splits):
            yield order[fold :: self.n_splits]
