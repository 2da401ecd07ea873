"""Cross-validation over labeled rows; unlabeled ones always stay in training."""

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
    """Folds over labeled rows: each is tested once, and every unlabeled row is in every training set.

    Classes are dealt out evenly: in any two folds the number of rows of a class differs by at most
    one, so a class with fewer labels than folds is no error. In rows of several targets those with
    a missing one are never tested.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds; at most the number of labeled rows.
    shuffle : bool, default=False
        Whether rows are dealt out in random order.
    random_state : int, RandomState or None
        Decides the order when `shuffle` is true.
    unlabeled : object, default=None
        What marks an unlabeled row in y: by default -1, NaN, None or "". Name `float("nan")` where
        -1 is a class or a target.

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
        everything = np.arange(len(labels))
        for test in self._folds(labels[rows]):
            held = rows[np.sort(test)]
            yield np.setdiff1d(everything, held), held

    def _folds(self, given: Array) -> Iterator[Array]:
        """Yield positions among labeled rows, fold by fold."""
        given = np.array(given.tolist())  # what was held as objects for the sake of a None
        if given.ndim > 1 or (given.dtype.kind == "f" and np.any(given != np.floor(given))):
            state = self.random_state if self.shuffle else None
            yield from (
                test
                for _, test in KFold(self.n_splits, shuffle=self.shuffle, random_state=state).split(
                    given
                )
            )
            return
        order = np.arange(len(given))
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        # all rows here are labeled, whatever their value: the marker is one that none of them can
        # be
        codes = encode_labels(given, unlabeled=float("nan")).codes
        order = order[np.argsort(codes[order], kind="stable")]
        yield from (order[fold :: self.n_splits] for fold in range(self.n_splits))
