"""Inputs whose future is known: columns of the user, and features of the calendar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from regfactor.core.params import Array, frozen
from regfactor.fitting.columns import unmasked
from regfactor.fitting.inputs import refuse_words
from regfactor.series.calendar_features import Calendar
from regfactor.series.regular_times import is_dates
from regfactor.series.shapes import SeriesRows

MAX_NAMED = 5


@frozen
class KnownInputs:
    """Columns that a model was fitted with.

    Attributes
    ----------
    names : list
        Of the columns of exog.
    named : bool
        Whether exog was a frame, so that names are checked.
    calendar : Calendar
    calendar_names : list of str
    """

    names: list[Any]
    named: bool
    calendar: Calendar
    calendar_names: list[str]

    @staticmethod
    def of(exog: Any, calendar: Calendar, index: Any) -> KnownInputs:
        """Return the columns of a fit to rows with a given index."""
        names: list[Any] = []
        named = False
        if exog is not None:
            given = SeriesRows.of(exog, check=False)
            names = given.times.names
            named = given.times.kind != "numpy"
        if not calendar.features:
            return KnownInputs(names, named, calendar, [])
        fitted = calendar.fitted(index)
        own = list(fitted.columns(index))
        repeated = sorted(set(own) & set(map(str, names)))
        if repeated:
            raise ValueError(f"exog and calendar both have a column {repeated[0]!r}; rename it.")
        return KnownInputs(names, named, fitted, own)

    @property
    def all_names(self) -> list[str]:
        """Names of all inputs."""
        return [*map(str, self.names), *self.calendar_names]

    def values(self, exog: Any, index: Any, n_rows: int) -> Array:
        """Return the inputs of given rows, (n_rows, n_inputs); raise for what is not known."""
        given = self._exog(exog, index, n_rows)
        if not self.calendar_names:
            return given
        return np.column_stack([given, *self.calendar.columns(index).values()])

    def _exog(self, exog: Any, index: Any, n_rows: int) -> Array:
        if exog is None:
            if self.names:
                raise ValueError(
                    f"The model was fitted with {len(self.names)} inputs, "
                    f"{listed(self.names)}; give their values for {n_rows} rows"
                    f"{_span(index)} as exog."
                )
            return np.zeros((n_rows, 0))
        if not self.names:
            raise ValueError("The model was fitted without inputs; leave exog out.")
        rows = SeriesRows.of(exog, check=False)
        table = unmasked(self._ordered(rows))
        refuse_words(table, remedy="Make numbers of it, as by pd.get_dummies.")
        if np.ndim(table) == 1:
            table = np.reshape(np.asarray(table, dtype=float), (-1, 1))
        values = np.asarray(
            check_array(table, dtype=np.float64, input_name="exog", ensure_all_finite="allow-nan")
        )
        dated = is_dates(index) and is_dates(rows.times.index)
        if dated:
            values = _at_dates(values, rows.times.index, index)
        if values.shape != (n_rows, len(self.names)):
            raise ValueError(
                f"exog has shape {values.shape}; it needs {n_rows} rows and {len(self.names)} "
                f"columns{_span(index)}."
            )
        self._refuse_unknown(values, index if dated else range(n_rows))
        return values

    def _ordered(self, rows: SeriesRows) -> Any:
        """Return the columns in the order of the fit."""
        if not self.named or rows.times.kind == "numpy":
            return rows.table
        given = rows.times.names
        missing = [name for name in self.names if name not in given]
        if missing:
            raise ValueError(
                f"exog has no column {listed(missing)}, with which the model was fitted; it has "
                f"{listed(given)}."
            )
        extra = [name for name in given if name not in self.names]
        if extra:
            raise ValueError(
                f"exog has the column {listed(extra)}, with which the model was not fitted; leave "
                "it out."
            )
        if np.ndim(rows.table) == 1:
            return rows.table
        return rows.table[self.names]

    def _refuse_unknown(self, values: Array, labels: Any) -> None:
        unknown = ~np.isfinite(values)
        if not unknown.any():
            return
        column = int(np.argmax(unknown.any(axis=0)))
        where = np.flatnonzero(unknown[:, column])
        shown = ", ".join(str(labels[row]) for row in where[:MAX_NAMED])
        raise ValueError(
            f"exog has no finite value in column {self.names[column]!r}, rows {shown}"
            f"{', ...' if len(where) > MAX_NAMED else ''}; inputs must be known at all times. Fill "
            "them, or leave the column out."
        )


NO_INPUTS = KnownInputs([], False, Calendar(), [])


def listed(names: Sequence[Any]) -> str:
    """Return the first names, quoted."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(repr(name) for name in names[:MAX_NAMED]) + more


def _span(index: Any) -> str:
    if not is_dates(index) or len(index) == 0:
        return ""
    return f" ({index[0]} to {index[-1]})"


def _at_dates(values: Array, dates: Any, wanted: Any) -> Array:
    """Return the rows of given dates; raise for dates without one."""
    if not dates.is_unique:
        again = dates[dates.duplicated()][0]
        raise ValueError(f"exog has several rows at {again}; give one for each time.")
    if type(dates) is not type(wanted):
        raise ValueError(
            f"exog has a {type(dates).__name__} and the series a {type(wanted).__name__}; give "
            "both the same kind of times."
        )
    missing = wanted[~wanted.isin(dates)]
    if len(missing):
        more = f" and {len(missing) - 1} more times" if len(missing) > 1 else ""
        raise ValueError(f"exog has no row for {missing[0]}{more}; inputs must be known there.")
    return values[dates.get_indexer(wanted)]
