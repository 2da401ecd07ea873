"""The arguments of a fit to a large sparse table whose absent entries are zeros."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.fitting.inputs import validated
from regfactor.losses import Binomial, Logistic, Loss, NegativeBinomial, Poisson
from regfactor.problems import Data
from regfactor.tables.epca.count_blocks import CountBlocks, row_blocks
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.families import check_values
from regfactor.tables.epca.inputs import EpcaInputs
from regfactor.tables.epca.observation import ObservationModel

# Entries from which on a sparse table is not made dense.
MAX_DENSE_ELEMENTS = 2**21
# Losses whose predictors are unrestricted, so that a start from zero counts is legal.
BLOCKED_LOSSES = (Poisson, NegativeBinomial, Logistic, Binomial)


def is_large_sparse(X: Any, sparse_zeros: str) -> bool:
    """Return whether a table is sparse, its zeros are observed, and it is too large to be dense."""
    if not is_sparse(X) or sparse_zeros != "observed":
        return False
    n, d = X.shape
    return n * d > MAX_DENSE_ELEMENTS


def takes_blocks(loss: Loss, offset: Any, table: Any) -> bool:
    """Return whether a large sparse table is fitted block by block under a loss and an offset."""
    by_row = offset is None or np.ndim(offset) == 1 or np.shape(offset)[1:] == (1,)
    if is_sparse(table) and np.isnan(table.data).any():
        return False
    return isinstance(loss, BLOCKED_LOSSES) and by_row


def as_sparse_table(estimator: Any, X: Any, reset: bool) -> Any:
    """Return a sparse table as a CSR array of floats; raise for what is no such table."""
    return validated(
        estimator,
        X,
        accept_sparse="csr",
        ensure_all_finite="allow-nan",
        reset=reset,
        every_column=True,
    )


def dense_blocks(
    table: Any,
    offset: Array | None,
    regressors: Array | None = None,
) -> Iterator[WeightedTable]:
    """Yield the rows of a sparse table whose absent entries are zeros, as dense tables."""
    for rows in row_blocks(table.shape):
        yield WeightedTable(
            table[rows].toarray(),
            offset=None if offset is None else offset[rows],
            regressors=None if regressors is None else regressors[rows],
        )


@frozen
class BlockedInputs:
    """A sparse table of which only blocks of rows become dense."""

    table: Any
    row_weights: Array | None
    given_offset: Array | None  # n x 1
    observation: ObservationModel
    names: list[Any] | None
    exposure: Array  # of rows; zeros where totals are no exposures
    regressors: Array | None = None  # of all rows
    kernel = None

    @staticmethod
    def of(
        table: Any,
        row_weights: Array | None,
        offset: Array | None,
        loss: Loss,
        totals: bool,
        names: list[Any] | None,
        regressors: Array | None = None,
    ) -> BlockedInputs:
        """Return the checked arguments of a fit."""
        check_values(Poisson() if isinstance(loss, NegativeBinomial) else loss, table)
        observation = _observed(table, row_weights, loss, totals)
        exposure = np.zeros(table.shape[0], table.dtype)
        if totals:
            parts = [observation.exposure(rows) for rows in dense_blocks(table, offset)]
            exposure = np.concatenate(parts)
        return BlockedInputs(
            table,
            row_weights,
            offset,
            observation,
            names,
            exposure,
            regressors,
        )

    @property
    def offset_given(self) -> bool:
        """Whether predictors have an offset that `fit` was given."""
        return self.given_offset is not None

    @property
    def offset(self) -> Array | None:
        """What is added to the predictors of rows."""
        if not self.observation.totals:
            return self.given_offset
        if self.given_offset is None:
            return self.exposure[:, None]
        return self.given_offset + self.exposure[:, None]

    @property
    def counted(self) -> Any:
        """The rows that are learned from; those of weight zero are only scored."""
        if self.row_weights is None:
            return slice(None)
        return self.row_weights > 0

    @property
    def weights(self) -> Array:
        """The weights of all rows."""
        if self.row_weights is None:
            return np.ones(self.table.shape[0])
        return self.row_weights

    def counts(self, every_row: bool) -> CountBlocks:
        """Return all rows without their weights, or those that are learned from with them."""
        if every_row or self.row_weights is None:
            return CountBlocks(
                self.table,
                self.observation.loss,
                self.offset,
                regressors=self.regressors,
            )
        counted = self.counted
        offset = None if self.offset is None else self.offset[counted]
        return CountBlocks(
            self.table[counted],
            self.observation.loss,
            offset,
            self.row_weights[counted],
            None if self.regressors is None else self.regressors[counted],
        )

    def some_rows(self, rows: Array) -> EpcaInputs:
        """Return some rows as the arguments of a fit to a dense table."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        offset = None if self.offset is None else self.offset[rows]
        regressors = None if self.regressors is None else self.regressors[rows]
        given = WeightedTable(self.table[rows].toarray(), weights, None, offset, regressors)
        observation = ObservationModel(
            self.observation.loss,
            self.observation.means,
            unit=self.observation.unit,
        )
        data: Data = observation.data(given)
        return EpcaInputs(given, given, observation, data, None, self.names)


def _observed(
    table: Any,
    row_weights: Array | None,
    loss: Loss,
    totals: bool,
) -> ObservationModel:
    """Return what a sparse table shows of its columns, all entries of which are observed."""
    n, d = table.shape
    weights = np.ones(n) if row_weights is None else row_weights
    total = np.asarray(table.T @ weights)
    stored = np.repeat(weights, np.diff(table.indptr))
    positive = float(stored @ (table.data > 0))
    unit = 1.0
    if positive > 0:
        unit = min(1.0, float(total.sum()) / positive)
    return ObservationModel(loss, total / weights.sum(), totals, unit)
