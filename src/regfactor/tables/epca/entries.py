"""Tables with weights, and their entries: all of them, or the stored ones alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.problems.layout import Dense, Pattern


@frozen
class Entries:
    """Data and weights: n x d arrays, or vectors of the stored entries of a sparse table.

    Missing entries of an array are zeros of weight zero.
    """

    layout: Dense | Pattern
    x: Array
    w: Array

    @staticmethod
    def of(table: Any, weights: Any = None) -> Entries:
        """Return the entries of a table under weights of its shape; None: all are one."""
        if is_sparse(table):
            w = np.ones_like(table.data)
            if weights is not None:
                w = np.asarray(weights.data, table.dtype)
            return Entries(Pattern.of(table), table.data, w)
        observed = ~np.isnan(table)
        if weights is None:
            w = observed
        else:
            w = np.where(observed, weights, 0)
        x = np.where(observed, table, 0)
        return Entries(Dense(table.shape), x, w.astype(table.dtype, copy=False))

    @property
    def observed(self) -> Array:
        """One for each entry that has weight, else zero."""
        return (self.w > 0).astype(self.w.dtype)

    @property
    def n_observed(self) -> int:
        """Number of entries that have weight."""
        return int(np.count_nonzero(self.w))

    @property
    def dense(self) -> Entries:
        """The same entries as n x d arrays."""
        if isinstance(self.layout, Dense):
            return self
        x = self.layout.matrix(self.x).toarray()
        w = self.layout.matrix(self.w).toarray()
        return Entries(Dense(self.layout.shape), x, w)

    @property
    def observed_rows(self) -> Array:
        """The row of each entry that has weight."""
        return self.places[0]

    @property
    def places(self) -> tuple[Array, Array]:
        """The rows and the columns of the entries that have weight."""
        if isinstance(self.layout, Dense):
            rows, columns = np.nonzero(self.w)
            return rows, columns
        observed = self.w > 0
        return self.layout.rows[observed], self.layout.indices[observed]


@frozen
class WeightedTable:
    """A table with the weights of its rows and entries, offsets of its predictors, and covariates.

    Covariates are the regressors of its rows, n x q.
    """

    table: Any
    row_weights: Array | None = None
    entry_weights: Any = None
    offset: Array | None = None
    regressors: Array | None = None

    @property
    def counted(self) -> Any:
        """The rows that are learned from; those of weight zero are only scored."""
        if self.row_weights is None:
            return slice(None)
        return self.row_weights > 0

    @property
    def learned(self) -> WeightedTable:
        """The rows that are learned from; the same object where these are all."""
        if self.row_weights is None or self.row_weights.all():
            return self
        counted = self.counted
        return WeightedTable(
            self.table[counted],
            self.row_weights[counted],
            None if self.entry_weights is None else self.entry_weights[counted],
            None if self.offset is None else self.offset[counted],
            None if self.regressors is None else self.regressors[counted],
        )

    @property
    def entries(self) -> Entries:
        """The entries of the table with their weights."""
        return Entries.of(self.table, self.entry_weights)

    @property
    def weights(self) -> Array:
        """The weights of all rows."""
        if self.row_weights is None:
            return np.ones(self.table.shape[0])
        return self.row_weights


def at_entries(layout: Dense | Pattern, values: Array) -> Array:
    """Return values of rows (n x 1) or of a whole table at the entries that a layout holds."""
    every = np.broadcast_to(values, layout.shape)
    if isinstance(layout, Dense):
        return every
    return every[layout.rows, layout.indices]
