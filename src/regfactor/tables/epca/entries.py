"""The entries of a table as they are held, all of them or the stored ones alone, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.problems.layout import Dense, Pattern


@dataclass(frozen=True, eq=False)
class Entries:
    """Data and weights of a table where its layout has them: n x d arrays, or vectors of a sparse table's entries.

    Holes of an array are zeros of weight zero.
    """

    layout: Dense | Pattern
    x: Array
    w: Array

    @staticmethod
    def of(table: Any, weights: Any = None) -> Entries:
        """Return the entries of a table under weights of its shape; None: all one."""
        if is_sparse(table):
            if weights is None:
                w = np.ones_like(table.data)
            else:
                w = np.asarray(weights.data, table.dtype)
            return Entries(Pattern.of(table), table.data, w)
        seen = ~np.isnan(table)
        w = np.asarray(seen if weights is None else np.where(seen, weights, 0), table.dtype)
        return Entries(Dense(table.shape), np.where(seen, table, 0), w)

    @property
    def seen(self) -> Array:
        """Which entries have weight, as zeros and ones."""
        return (self.w > 0).astype(self.w.dtype)

    @property
    def count(self) -> int:
        """How many entries have weight."""
        return int(np.count_nonzero(self.w))

    @property
    def whole(self) -> Entries:
        """The same entries as n x d arrays."""
        if isinstance(self.layout, Dense):
            return self
        x, w = (self.layout.matrix(part).toarray() for part in (self.x, self.w))
        return Entries(Dense(self.layout.shape), x, w)

    @property
    def rows(self) -> Array:
        """The row of each entry that has weight."""
        if isinstance(self.layout, Dense):
            return np.nonzero(self.w)[0]
        return self.layout.rows[self.w > 0]


def at_entries(layout: Dense | Pattern, numbers: Array) -> Array:
    """Return a number for each row (n x 1), or for each place of the table, at the entries that a layout holds."""
    every = np.broadcast_to(numbers, layout.shape)
    if isinstance(layout, Dense):
        return every
    return every[layout.rows, layout.indices]
