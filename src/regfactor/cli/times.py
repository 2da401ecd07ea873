"""Times of the rows of a series: dates, quarters, counting numbers, or just their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.columns import (
    CATEGORY,
    DATE,
    FREE_TEXT,
    ID,
    IGNORED_BY_USER,
    MANY_VALUES,
    Understood,
)
from regfactor.cli.dates import QUARTER, are_day_numbers, odd_cell, odd_date, parsed
from regfactor.cli.errors import BadInput
from regfactor.cli.job import Job
from regfactor.cli.tables import pandas
from regfactor.core.params import frozen

COUNTED = "step"  # the column of times in the result, where the table has none


@frozen
class RowTimes:
    """The times of all rows of a table, and the column that they came from."""

    name: str
    index: Any
    form: str | None = None  # in which dates are written, where it is not 2024-01-31

    @property
    def is_counted(self) -> bool:
        """Whether rows are only counted, since no column holds their times."""
        return self.name == COUNTED


def times_of(job: Job, seen: Understood, wanted: str | None) -> RowTimes:
    """Return the times of rows, from the column named or from the one that looks like it."""
    n_rows = len(seen.frame)
    name = wanted or _dated(seen) or _counted(seen)
    if name is None:
        job.console.note(
            "No column holds the times of the rows, so they were read one after the other, in "
            "the order of the file, and forecasts are counted. --time names one, --season a "
            "season."
        )
        return RowTimes(COUNTED, pandas().RangeIndex(1, n_rows + 1))
    seen.table.place(name, "time column")
    index, form = parsed_times(seen.frame[name], name)
    if index.hasnans:
        raise BadInput(
            f"The time column {name!r} is empty in row {int(np.argmax(index.isna())) + 1}."
        )
    return RowTimes(name, index, form)


def _dated(seen: Understood) -> str | None:
    """Return a column of dates without missing cells.

    Raise for one that would be it but for a few cells.
    """
    whole = [c for c in seen.columns if not c.missing and c.why != IGNORED_BY_USER]
    name = next((c.name for c in whole if c.kind == DATE), None)
    for c in whole if name is None else ():
        if c.kind in (CATEGORY, ID, MANY_VALUES, FREE_TEXT):
            cells = seen.frame[c.name].to_numpy(dtype=object)
        else:
            cells = ()
        at = odd_date(cells) if len(cells) else None
        if at is not None:
            raise BadInput(
                f"{odd_cell(c.name, 'dates', at, cells[at])} If it does not hold the times of the "
                f"rows, add --ignore {c.name!r}."
            )
    return name


def _counted(seen: Understood) -> str | None:
    """Return a column of numbers that counts the rows: of years, or ignored as an identifier."""
    return next(
        (
            c.name
            for c in seen.columns
            if c.kind == ID and c.why != IGNORED_BY_USER and seen.frame[c.name].dtype.kind in "iuf"
        ),
        None,
    )


def parsed_times(cells: Any, name: str, form: str | None = None) -> tuple[Any, str | None]:
    """Return the times in a column as an index, and the form in which its dates are written."""
    pd = pandas()
    if cells.dtype.kind == "M":
        return pd.DatetimeIndex(cells), None
    values = cells.to_numpy(dtype=object)
    known = [v for v in values if isinstance(v, str)]
    if not known and cells.dtype.kind in "iuf":
        whole = cells.to_numpy(dtype=float, na_value=np.nan)
        if are_day_numbers(whole):
            days = [f"{v:.0f}" for v in whole]
            return pd.DatetimeIndex(pd.to_datetime(days, format="%Y%m%d")), "%Y%m%d"
        if np.all(whole == np.rint(whole)):
            return pd.Index(whole.astype(int)), None
        raise BadInput(
            f"The time column {name!r} holds numbers that are not whole, or none; give dates or "
            "whole numbers."
        )
    quarters = [QUARTER.match(v) for v in known]
    if sum(map(bool, quarters)) <= len(known) / 2:
        return parsed(values, name, form)
    if not all(quarters):
        odd = known[quarters.index(None)]
        raise odd_cell(name, "quarters", list(values).index(odd), odd)
    index = pd.PeriodIndex(
        [v.replace("-", "") if isinstance(v, str) else pd.NaT for v in values],
        freq="Q",
    )
    return index, "%Y-Q%q" if quarters[0] and quarters[0][1] else None


def spelled(index: Any, form: str | None) -> list[str]:
    """Return times as text, in the form of the table; days without their midnight."""
    if form is not None and hasattr(index, "strftime"):
        return list(index.strftime(form))
    words = [str(t) for t in index]
    if all(w.endswith(" 00:00:00") for w in words):
        return [w.removesuffix(" 00:00:00") for w in words]
    return words
