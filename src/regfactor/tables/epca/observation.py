"""How the entries of a table depend on predictors: data of a family, exposures, mean responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.losses import Gamma, Loss, Multinomial, Poisson
from regfactor.problems import Data
from regfactor.problems.layout import Pattern
from regfactor.tables.epca.entries import Entries, WeightedTable, at_entries
from regfactor.tables.epca.families import check_values

# Weight of a missing entry under a loss that restricts the predictor, as a share of the mean
# weight of an entry.
PLACEHOLDER_WEIGHT = 1e-3
# Entries whose sums are formed together: fresh memory costs more than the arithmetic.
BLOCK_ELEMENTS = 2**16
MIN_BLOCK_ROWS = 16
EMPTY_ROW_TOTAL = 0.5  # in place of the total of a row without a count, in units of a count
NO_DIVISION_BY_ZERO = 1e-300


@frozen
class ObservationModel:
    """A family, and what a training table shows of its columns.

    A row of counts given their total is a row of Poisson counts with a free level, which has the
    same likelihood and separates entries.

    Attributes
    ----------
    loss : Loss
    means : ndarray of shape (n_features,)
        Means of the columns of the training table.
    totals : bool
        Whether totals of rows are exposures.
    unit : float
        What a count of one is: one, or where data are smaller the mean of the positive.
    weight : float
        Mean weight of an observed entry where entries have weights.
    """

    loss: Loss
    means: Array
    totals: bool = False
    unit: float = 1.0
    weight: float = 1.0

    @staticmethod
    def of(training: WeightedTable, loss: Loss, totals: bool) -> ObservationModel:
        """Return the model of a training table."""
        total, weight, observed, positive = _column_statistics(training)
        if not weight.any():
            raise ValueError(
                "Every entry of the table is missing or has weight zero; there is nothing to fit."
            )
        overall = total.sum() / max(weight.sum(), NO_DIVISION_BY_ZERO)
        means = np.where(weight > 0, total / np.where(weight > 0, weight, 1), overall)
        unit = 1.0
        if positive.any():
            unit = min(1.0, float(total.sum() / positive.sum()))
        mean_weight = float(weight.sum() / max(observed.sum(), NO_DIVISION_BY_ZERO))
        return ObservationModel(loss, means, totals, unit, mean_weight)

    @property
    def fitted(self) -> Loss:
        """The loss of single entries that is minimized."""
        if isinstance(self.loss, Multinomial):
            return Poisson()
        return self.loss

    def exposure(self, given: WeightedTable) -> Array:
        """log(total of a row / total that the means of its observed columns would make).

        Where an offset is given, it is taken off: the total counts all of the row's exposure.
        """
        held = given.entries
        total = held.layout.row_sums(held.observed * held.x)
        weights = held.observed
        level = np.zeros(len(total))
        if given.offset is not None:
            # relative to the highest observed offset of the row, so that no exponential overflows
            added = at_entries(held.layout, given.offset)
            level[:] = given.offset.min(axis=1)
            np.maximum.at(level, held.observed_rows, added[held.w > 0])
            relative = np.minimum(added - at_entries(held.layout, level[:, None]), 0)
            weights = held.observed * np.exp(relative)
        expected = held.layout.times(weights, self.means[:, None])[:, 0]
        known = expected > 0
        ratio = np.maximum(total, EMPTY_ROW_TOTAL * self.unit) / np.where(known, expected, 1)
        found = np.where(known, np.log(ratio), 0) - level
        return found.astype(held.x.dtype)

    def offset(self, given: WeightedTable) -> Array | None:
        """Return what is added to the predictors: the offset given and the exposures."""
        if not self.totals:
            return given.offset
        exposure = self.exposure(given)[:, None]
        if given.offset is None:
            return exposure
        return given.offset + exposure

    def data(self, given: WeightedTable) -> Data:
        """Return the data of a table, checked against the family."""
        if isinstance(self.loss, Gamma):
            return self._with_placeholders(given)
        table = given.table
        check_values(self.loss, table)
        offset = self.offset(given)
        weights = given.entry_weights
        if isinstance(self.loss, Multinomial):
            weights = _without_empty_rows(given)
        if not is_sparse(table):
            return Data.of(table, self.fitted, weights, offset)
        data = Data.of_sparse(table, self.fitted, weights)
        if offset is None:
            return data
        term = replace(data.terms[0], offset=at_entries(Pattern.of(table), offset))
        return replace(data, terms=(term,))

    def _with_placeholders(self, given: WeightedTable) -> Data:
        """Return data whose missing entries are means of little weight.

        Predictors then stay in the link domain there too.
        """
        held = given.entries.dense
        weighted = given.entry_weights is not None
        observed = held.w > 0
        check_values(self.loss, np.where(observed, held.x, np.nan))
        if observed.all():
            return Data.of(held.x, self.loss, held.w if weighted else None)
        x = np.where(observed, held.x, self.means).astype(held.x.dtype)
        placeholder = PLACEHOLDER_WEIGHT
        if weighted:
            placeholder *= self.weight
        return Data.of(x, self.loss, np.where(observed, held.w, placeholder))

    def response(self, Z: Array, table: Any) -> Array:
        """Return the means of the entries of a table at its predictors.

        The level of a row of "multinomial" is known by its counts: a row without any has none in
        its missing entries either, and a row without an observed entry has the mean total.
        """
        if not isinstance(self.loss, Multinomial):
            return self.predict(Z)
        held = Entries.of(table)
        counts = held.layout.row_sums(held.observed * held.x)
        known = held.layout.row_sums(held.observed) > 0
        total = np.where(known, 0, self.means.sum())
        means = np.where(
            (counts > 0)[:, None],
            self.fitted.predict(Z),
            total[:, None] * self.predict(Z),
        )
        return means.astype(table.dtype)

    def predict(self, Z: Array) -> Array:
        """Return the means at predictors; the shares of a row of counts."""
        if isinstance(self.loss, Gamma):
            Z = np.minimum(Z, -(np.finfo(Z.dtype).tiny ** 0.25))
        return self.loss.predict(Z)


def _column_statistics(training: WeightedTable) -> Array:
    """Return for each column the sums of w x, of w, of [w > 0] and of w [x > 0], over rows."""
    table = training.table
    weights = training.entry_weights
    n, d = table.shape
    D = training.weights[:, None]
    height = n if is_sparse(table) else max(BLOCK_ELEMENTS // d, MIN_BLOCK_ROWS)
    sums = np.zeros((4, d))
    for start in range(0, n, height):
        block = slice(start, start + height)
        held = Entries.of(table[block], None if weights is None else weights[block])
        positive = np.where(held.x > 0, held.w, 0)
        for k, part in enumerate((held.w * held.x, held.w, held.observed, positive)):
            sums[k] += held.layout.adjoint(D[block], part)[0]
    return sums


def _without_empty_rows(given: WeightedTable) -> Any:
    """Return weights of entries, zero in rows without a count: any shares have likelihood one."""
    held = given.entries
    counted = held.layout.row_sums(held.observed * held.x) > 0
    if counted.all() or not counted.any():
        return given.entry_weights
    w = held.w * at_entries(held.layout, counted[:, None])
    if is_sparse(given.table):
        return held.layout.matrix(w)
    return w
