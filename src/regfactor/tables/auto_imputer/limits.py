"""Entries known by limits, such as "< 0.5": filled by a low-rank model that counts the limits.

Limits are those of normal noise about a low-rank table. Columns of positive numbers may be normal
in their logarithms instead: held-out entries decide, by the density of the numbers themselves.

Entries below a limit are no random ones, and the fit misses them by more than others. So the
intervals are calibrated on known numbers near the limits, which are hidden behind new limits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.fitting.conformal import conformal_quantile
from regfactor.fitting.known import Known, read_limits, with_exact_limits
from regfactor.tables.auto_imputer.filling import TableReader, is_plain_number
from regfactor.tables.subspace import ConvexSubspace

# entries with which the mean over columns counts, where logarithms are compared with numbers
POOLED_ENTRIES = 20.0
MAX_HIDDEN_SHARE = 0.25  # of the known numbers of a column, hidden behind new limits
# levels that are tried to cover a hidden number
TRIED_LEVELS = 1 - 10.0 ** -np.linspace(0.1, 6, 24)


@frozen
class Limited:
    """A table as numbers, and the limits of its missing entries.

    Attributes
    ----------
    E : array of shape (n_rows, n_encoded)
        NaN where nothing or limits are known.
    lower, upper : array of shape (n_rows, n_encoded)
        Infinite where they are open.
    """

    E: Array
    lower: Array
    upper: Array

    @staticmethod
    def of(X: Any, E: Array, known: Known, reader: TableReader) -> Limited:
        """Read limits that are given in tables like X; raise, with row and column, for bad ones."""
        first = np.array([block[0] for block in reader.blocks], int)
        n_columns = len(reader.blocks)
        numbers = np.array([is_plain_number(reader, v) for v in range(n_columns)], bool)
        values = E[:, first]
        columns = first
        if not hasattr(X, "columns"):  # limits are an array of the encoded columns too
            numbers = np.isin(np.arange(E.shape[1]), first[numbers])
            values = E
            columns = np.arange(E.shape[1])
        if len(columns) == n_columns:
            names = list(reader.names)
        else:
            names = columns.tolist()
        found = read_limits(values, known, names, numbers)
        ends = np.empty((2, *E.shape))
        ends[0] = -np.inf
        ends[1] = np.inf
        ends[:, :, columns] = found
        E, ends = with_exact_limits(E, ends)
        return Limited(E, ends[0], ends[1])

    @property
    def at(self) -> Array:
        """A mask of the entries that are known by limits."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    def positive_columns(self) -> Array:
        """Return a mask of the columns with limits whose numbers and limits are all positive."""
        limited = self.at.any(axis=0)
        numbers = np.fmin.reduce(self.E, axis=0, initial=np.inf)
        lower = np.where(np.isfinite(self.lower), self.lower, np.inf)
        upper = np.where(np.isfinite(self.upper), self.upper, np.inf)
        # a lower limit of zero is open among logarithms
        ends = np.where(self.lower == 0, self.upper, np.minimum(lower, upper))
        least = ends.min(axis=0, initial=np.inf)
        return limited & (numbers > 0) & (least > 0)

    def with_new_limits(self) -> Limited:
        """Return the same with numbers near the limits of their column hidden behind new ones."""
        E = self.E.copy()
        lower = self.lower.copy()
        upper = self.upper.copy()
        for j in np.flatnonzero(self.at.any(axis=0)).tolist():
            known = np.flatnonzero(~np.isnan(self.E[:, j]))
            order = known[np.argsort(self.E[known, j], kind="stable")]
            has_lower = np.isfinite(self.lower[:, j])
            has_upper = np.isfinite(self.upper[:, j])
            is_below = has_upper & ~has_lower
            is_above = has_lower & ~has_upper
            most = int(MAX_HIDDEN_SHARE * len(order))
            n_above = min(int(is_above.sum()), most)
            n_below = min(int(is_below.sum()), most)
            below = order[:n_below]
            above = order[len(order) - n_above :]
            if len(below):
                upper[below, j] = self.E[order[len(below)], j]
            if len(above):
                lower[above, j] = self.E[order[-len(above) - 1], j]
            E[below, j] = np.nan
            E[above, j] = np.nan
        return Limited(E, lower, upper)

    def with_logarithms(self, columns: Array) -> Limited:
        """Return the same with some columns as logarithms."""
        return Limited(
            *(_logarithms(values, columns) for values in (self.E, self.lower, self.upper))
        )


@frozen
class LimitModel:
    """A subspace that was fitted to a table with limits.

    Attributes
    ----------
    model : ConvexSubspace
    logarithms : array of bool of shape (n_encoded,)
        Columns that it was given as logarithms.
    limited : array of bool of shape (n_encoded,)
        Columns in which entries were known by limits.
    levels : array of shape (n_hidden,)
        The least level whose interval covers a number that was hidden behind a limit.
    """

    model: ConvexSubspace
    logarithms: Array
    limited: Array
    levels: Array

    @staticmethod
    def of(cells: Limited, weights: Array, random_state: int) -> LimitModel:
        """Fit the model, with logarithms of the columns in which they are nearer to normal."""
        model = ConvexSubspace(debias="prior", random_state=random_state)
        limited = np.asarray(cells.at.any(axis=0))
        found = LimitModel(model, np.zeros(len(limited), bool), limited, np.zeros(0))
        found = found.fitted(cells, weights)
        positive = cells.positive_columns()
        if positive.any():
            other = replace(found, logarithms=positive).fitted(cells, weights)
            better = positive & other.is_better_than(found, cells)
            if (better == positive).all():
                found = other
            elif better.any():
                found = replace(found, logarithms=better).fitted(cells, weights)
        return found.calibrated(cells, weights)

    def is_better_than(self, other: LimitModel, cells: Limited) -> Array:
        """Return the columns whose held-out numbers have the higher density, shrunk to the mean."""
        counts, gains = self.scores(cells)
        counts_of_other, losses = other.scores(cells)
        n = np.minimum(counts, counts_of_other)
        difference = np.where(n > 0, gains - losses, 0.0)
        mean = float(n @ difference) / max(float(n.sum()), 1.0)
        pooled = n * difference + POOLED_ENTRIES * mean
        return pooled > 0

    def calibrated(self, cells: Limited, weights: Array) -> LimitModel:
        """Return the model with the levels that cover known numbers behind new limits."""
        hidden = cells.with_new_limits()
        new = hidden.at & ~cells.at
        if not new.any():
            return self
        fitted = self.fitted(hidden, weights)
        needed = np.ones(np.count_nonzero(new))
        for level in TRIED_LEVELS[::-1].tolist():
            low, high = fitted._interval(hidden, level)
            numbers = cells.E[new]
            inside = (low[new] <= numbers) & (numbers <= high[new])
            needed = np.where(inside, level, needed)
        return replace(self, levels=np.sort(needed))

    def fitted(self, cells: Limited, weights: Array) -> LimitModel:
        """Return the model fitted to a table."""
        given = cells.with_logarithms(self.logarithms)
        model = ConvexSubspace(**self.model.get_params())
        model.fit(given.E, sample_weight=weights, lower=given.lower, upper=given.upper)
        return replace(self, model=model)

    def scores(self, cells: Limited) -> tuple[Array, Array]:
        """Return how many numbers of each column were held out, and their mean log density."""
        held = self.model._held_out
        counts = np.zeros(len(self.limited))
        densities = np.zeros(len(self.limited))
        if held is None:
            return counts, densities
        residuals = (held.x - held.z) * self.model.scale_[held.columns]
        for j in np.flatnonzero(self.limited).tolist():
            here = held.columns == j
            counts[j] = np.count_nonzero(here)
            if not counts[j]:
                continue
            variance = np.mean(np.square(residuals[here]))
            deviation = max(np.sqrt(variance), np.finfo(float).tiny)
            densities[j] = -np.log(deviation)
            if self.logarithms[j]:  # of the same numbers, whose density has the factor 1 / x
                numbers = cells.E[held.rows[here], j]
                densities[j] -= np.mean(np.log(numbers))
        return counts, densities

    def check(self, cells: Limited, names: list[Any]) -> None:
        """Raise for limits in columns that had none in fit."""
        new = cells.at.any(axis=0) & ~self.limited
        if new.any():
            raise ValueError(
                f"Column {names[int(new.argmax())]!r} has limits here and had none in fit: fit "
                "with limits in it."
            )

    def filled(self, cells: Limited) -> Array:
        """Return the table with entries that are known by limits filled, within these."""
        given = cells.with_logarithms(self.logarithms)
        values = self.model.complete(given.E, lower=given.lower, upper=given.upper)
        return self._placed(cells, values)

    def interval(self, cells: Limited, level: float) -> tuple[Array, Array]:
        """Return the table twice, with the ends of intervals between the limits of entries."""
        if len(self.levels):
            level = conformal_quantile(self.levels, level)
        return self._interval(cells, float(np.clip(level, *TRIED_LEVELS[[0, -1]])))

    def _interval(self, cells: Limited, level: float) -> tuple[Array, Array]:
        given = cells.with_logarithms(self.logarithms)
        options = {"lower": given.lower, "upper": given.upper}
        low, high = self.model.complete_interval(given.E, level, **options)
        return self._placed(cells, low), self._placed(cells, high)

    def draws(self, cells: Limited, n_draws: int, seed: int) -> list[Array]:
        """Return tables with entries that are known by limits drawn between these."""
        given = cells.with_logarithms(self.logarithms)
        options = {"lower": given.lower, "upper": given.upper}
        return [
            self._placed(cells, values)
            for values in self.model.sample(given.E, n_draws, seed, **options)
        ]

    def _placed(self, cells: Limited, values: Array) -> Array:
        exponents = np.where(self.logarithms, values, 0)
        values = np.where(self.logarithms, np.exp(exponents), values)
        values = np.clip(values, cells.lower, cells.upper)
        return np.where(cells.at, values, cells.E)


def _logarithms(values: Array, columns: Array) -> Array:
    """Return values with some columns as logarithms; open ends stay open, as does zero."""
    out = values.copy()
    part = values[:, columns]
    positive = part > 0
    logs = np.log(np.where(positive, part, 1))
    ends = np.where(np.isnan(part), np.nan, -np.inf)
    out[:, columns] = np.where(positive, logs, ends)
    return out
