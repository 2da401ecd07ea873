"""Times of the rows of a series: dates, quarters, counting numbers, or just their order."""

from __future__ import annotations

from dataclasses import replace
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
from regfactor.cli.dates import QUARTER, odd_cell, odd_date, parsed
from regfactor.cli.errors import BadInput
from regfactor.cli.job import Job
from regfactor.cli.tables import pandas
from regfactor.core.params import frozen
from regfactor.series.times import Times

CALENDAR = ("MS", "ME", "QS", "QE", "YS", "YE")  # rules of dates that have no even step
SEASON = {
    "MS": 12,
    "ME": 12,
    "M": 12,
    "QS": 4,
    "QE": 4,
    "Q": 4,
    "W": 52,
    "7D": 52,
    "D": 7,
    "B": 5,
    "h": 24,
}
REGULAR = 0.5  # share of the most frequent step from which other steps are gaps


@frozen
class Clock:
    """The index of the rows, in order, and the column that it came from."""

    name: str
    index: Any
    order: Any  # which row of the table stands at each time, -1 at a gap
    form: str | None = None  # in which dates are written, where it is not 2024-01-31

    def ahead(self, horizon: int) -> Any:
        """Return the times that follow."""
        return Times("pandas", [], self.index, len(self.index)).future(horizon)

    @property
    def season(self) -> int | None:
        """Number of rows in a year, in a week of days, or in a day of hours.

        None where the times do not tell.
        """
        return SEASON.get((getattr(self.index, "freqstr", None) or "").partition("-")[0])


def clock_of(job: Job, seen: Understood, wanted: str | None) -> Clock:
    """Return the times of a series, from the column named or from the one that looks like it."""
    pd = pandas()
    rows = len(seen.frame)
    name = wanted or _dated(seen) or _counted(seen)
    if name is None:
        job.console.note(
            "No column holds the times of the rows, so they were read one after the other, in "
            "the order of the file, and forecasts are counted. --time names one, --season a "
            "season."
        )
        return Clock("step", pd.RangeIndex(1, rows + 1), np.arange(rows))
    seen.table.place(name, "time column")
    index, form = parsed_times(seen.frame[name], name)
    if index.hasnans:
        raise BadInput(
            f"The time column {name!r} is empty in row {int(np.argmax(index.isna())) + 1}."
        )
    if not index.is_unique:
        raise BadInput(
            f"The time {index[index.duplicated()][0]} occurs more than once in {name!r}; a series "
            "has one row for each time."
        )
    order = np.argsort(index)
    if np.any(np.diff(order) < 0):
        job.console.note(f"The rows were put in the order of {name!r}.")
    return replace(_regular(job, name, index[order], order), form=form)


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
        (c.name for c in seen.columns if c.kind == ID and seen.frame[c.name].dtype.kind in "iuf"),
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


def _regular(job: Job, name: str, index: Any, order: Any) -> Clock:
    """Return a clock without gaps: missing rows become empty ones.

    Where there is no rule, rows are counted.
    """
    pd = pandas()
    rows = len(index)
    if isinstance(index, pd.DatetimeIndex):
        freq = pd.infer_freq(index) if rows > 2 else None
        if freq is not None:
            return Clock(name, pd.DatetimeIndex(index, freq=freq), order)
        for rule in CALENDAR:
            whole = pd.date_range(index[0], index[-1], freq=rule)
            if index.isin(whole).all() and rows > REGULAR * len(whole):
                return _with_gaps(job, name, index, whole, order)
        steps = pd.Series(index[1:] - index[:-1])
        common = steps.mode().iloc[0] if len(steps) else None
        if (
            common is None
            or (steps == common).mean() < REGULAR
            or (steps % common != pd.Timedelta(0)).any()
        ):
            return _counted_rows(job, name, order)
        whole = pd.date_range(index[0], index[-1], freq=common)
    elif isinstance(index, pd.PeriodIndex):
        whole = pd.period_range(index[0], index[-1], freq=index.freq)
    else:
        step = 1
        if rows > 1:
            step = int(pd.Series(np.diff(index)).mode().iloc[0])
        if (np.diff(index) % step).any():
            return _counted_rows(job, name, order)
        whole = pd.RangeIndex(int(index[0]), int(index[-1]) + step, step)
    if len(whole) > 10 * rows:
        raise BadInput(f"The times in {name!r} leave more gaps than rows; is {index[-1]} right?")
    return _with_gaps(job, name, index, whole, order)


def _counted_rows(job: Job, name: str, order: Any) -> Clock:
    """Return a clock that counts the rows, since their times follow no rule."""
    job.console.note(
        f"The times in {name!r} follow no rule, so rows were taken one after the other, and "
        "forecasts are counted."
    )
    return Clock("step", pandas().RangeIndex(1, len(order) + 1), order)


def _with_gaps(job: Job, name: str, index: Any, whole: Any, order: Any) -> Clock:
    """Return a clock of all times, of which some have no row."""
    rows = len(index)
    places = index.get_indexer(whole)
    if len(whole) > rows:
        job.console.note(
            f"{len(whole) - rows} times are missing in {name!r}; they were added as rows without "
            "values."
        )
    return Clock(name, whole, np.where(places >= 0, np.asarray(order)[places], -1))
