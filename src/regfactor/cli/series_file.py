"""The series in a file: wide or long, with inputs, at regular times."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TEXT, TIMES, Understood
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job
from regfactor.cli.tables import Table, pandas
from regfactor.cli.times import RowTimes, times_of
from regfactor.core.params import frozen
from regfactor.series.regular_rows import RESAMPLING, regular_rows
from regfactor.series.regular_times import regular_grid

SERIES_OF_LONG = "names of the series"  # why a column is no series itself
NIXTLA = {"unique_id", "ds", "y"}


@frozen
class LongColumns:
    """The columns of a long table that name the series and hold their values."""

    series: str
    value: str


@frozen
class SeriesFile:
    """Series at regular times, with inputs in the past and the future.

    Attributes
    ----------
    frame : DataFrame
        A column for each series; the index holds the times until the last value.
    exog, future : DataFrame or None
        Inputs at these times, and at those that follow.
    times : RowTimes
        The column of times in the file, and how it is written.
    long : LongColumns or None
        Of a long table.
    seen : Understood
        How the columns of the file were read.
    """

    frame: Any
    exog: Any
    future: Any
    times: RowTimes
    long: LongColumns | None
    seen: Understood

    @property
    def names(self) -> list[str]:
        """Names of the series."""
        return list(self.frame.columns)


@frozen
class SeriesOptions:
    """Options of the user for a file of series."""

    time: str | None = None
    series: str | None = None
    exog: tuple[str, ...] = ()
    resample: str | None = None


def series_of(job: Job, seen: Understood, options: SeriesOptions) -> SeriesFile:
    """Read the series of a table."""
    times = times_of(job, seen, options.time)
    for name in options.exog:
        seen.table.place(name, "input")
        if name not in seen.of_kind(NUMBER, FLAG):
            raise BadInput(f"--exog {name!r} is no column of numbers; inputs must be numbers.")
    long_by = _long_by(job, seen, times, options)
    numbers = [n for n in seen.of_kind(NUMBER, FLAG) if n not in (times.name, *options.exog)]
    if long_by is None:
        seen, frame = _wide(job, seen, times, numbers)
        long = None
    else:
        seen, frame, long = _from_long(seen, times, numbers, long_by)
    inputs = _inputs(seen, times, options.exog)
    frame = _at_regular_times(job, frame, times, options.resample)
    exog = None
    future = None
    if inputs is not None:
        inputs = _at_regular_times(None, inputs, times, options.resample)
        n_known = int(np.flatnonzero(frame.notna().any(axis=1))[-1]) + 1
        frame = frame.iloc[:n_known]
        exog = inputs.iloc[:n_known]
        future = inputs.iloc[n_known:]
    job.show_columns(seen)
    return SeriesFile(frame, exog, future, times, long, seen)


def _long_by(job: Job, seen: Understood, times: RowTimes, options: SeriesOptions) -> str | None:
    """Return the column that names the series of a long table; None for a wide one."""
    if options.series is not None:
        seen.table.place(options.series, "column of series")
        return options.series
    if times.index.is_unique:
        return None
    if set(seen.table.names) >= NIXTLA:
        return "unique_id"
    found = []
    for name in seen.of_kind(CATEGORY, TEXT):
        pairs = pandas().DataFrame({"series": seen.frame[name].to_numpy(), "time": times.index})
        if not pairs.duplicated().any():
            found.append(name)
    again = times.index[times.index.duplicated()][0]
    if len(found) != 1:
        which = f"; it may be {listed(found)}" if found else ""
        raise BadInput(
            f"The time {again} occurs more than once in {times.name!r}; a series has one row for "
            f"each time. If rows are of several series, --series names the column that separates "
            f"them{which}."
        )
    job.console.note(
        f"Times repeat, so the table was read as a long one, with the series named in {found[0]!r}."
    )
    return str(found[0])


def _wide(
    job: Job, seen: Understood, times: RowTimes, numbers: list[str]
) -> tuple[Understood, Any]:
    """Return the columns of numbers that change, indexed by their times."""
    others = {n: "no number" for n in seen.of_kind(CATEGORY, TEXT)}
    seen = seen.without({**others, times.name: TIMES})
    still = [n for n in numbers if seen.frame[n].nunique() < 2]
    if still:
        job.console.note(f"Left out, since they never change: {', '.join(still)}.")
    names = [n for n in numbers if n not in still]
    if not names:
        raise BadInput(
            f"{seen.table.name} has no column of numbers that changes, so there is nothing to "
            "forecast."
        )
    flags = [n for n in names if n in seen.of_kind(FLAG)]
    if flags:
        job.console.note(
            f"Flags were forecast as series: {listed(flags)}. --ignore leaves one out; if its "
            "future is known, add rows with it and name it by --exog."
        )
    values = seen.frame[names].to_numpy(dtype=float, na_value=np.nan)
    return seen, pandas().DataFrame(values, index=times.index, columns=names)


def _from_long(
    seen: Understood,
    times: RowTimes,
    numbers: list[str],
    by: str,
) -> tuple[Understood, Any, LongColumns]:
    """Return a column for each series of a long table."""
    values = [n for n in numbers if n != by]
    if "y" in values and by == "unique_id":
        values = ["y"]
    if len(values) != 1:
        raise BadInput(
            f"A long table has one column of values, and {seen.table.name} has "
            f"{listed(values) if values else 'none'}; leave others out by --ignore, or name inputs "
            "by --exog."
        )
    pd = pandas()
    rows = pd.DataFrame(
        {
            "series": series_names(seen.table, by),
            "time": times.index,
            "value": seen.frame[values[0]].to_numpy(dtype=float, na_value=np.nan),
        }
    )
    again = rows.duplicated(["series", "time"]).to_numpy()
    if again.any():
        row = rows.iloc[int(np.argmax(again))]
        raise BadInput(f"Series {row['series']!r} has several rows at {row['time']}.")
    frame = rows.pivot(index="time", columns="series", values="value")
    frame = frame[list(dict.fromkeys(rows["series"]))].rename_axis(columns=None)
    ignored = {n: "no number" for n in seen.of_kind(CATEGORY, TEXT)}
    seen = seen.without({**ignored, by: SERIES_OF_LONG, times.name: TIMES})
    return seen, frame, LongColumns(by, values[0])


def series_names(table: Table, column: str) -> list[str]:
    """Return the names of series in a column of a long table, as they are written."""
    return [str(name).strip() for name in table.raw[column]]


def _inputs(seen: Understood, times: RowTimes, names: tuple[str, ...]) -> Any:
    """Return the inputs, one row for each time."""
    if not names:
        return None
    values = seen.frame[list(names)].to_numpy(dtype=float, na_value=np.nan)
    inputs = pandas().DataFrame(values, index=times.index, columns=list(names))
    by_time = inputs.groupby(level=0)
    differing = by_time.nunique(dropna=False) > 1
    if differing.to_numpy().any():
        name = str(differing.any().idxmax())
        raise BadInput(
            f"--exog {name!r} differs between series at the same time; inputs must be common to "
            "all. In Python, regfactor.nixtla.forecast takes inputs of each series."
        )
    return inputs[~inputs.index.duplicated()]


def _at_regular_times(job: Job | None, frame: Any, times: RowTimes, resample: str | None) -> Any:
    """Return rows in order at regular times; times without a row hold no values."""
    if resample is not None:
        rule, _, how = resample.partition(":")
        how = how or "mean"
        if how not in RESAMPLING:
            raise BadInput(f"--resample combines rows by {', '.join(RESAMPLING)}, not {how!r}.")
        return regular_rows(frame, rule, how)
    if job is not None and not frame.index.is_monotonic_increasing:
        job.console.note(f"The rows were put in the order of {times.name!r}.")
    frame = frame.sort_index()
    whole = frame.index
    if len(whole) > 2:
        whole = regular_grid(frame.index)
    if whole is None:
        raise BadInput(
            f"The times in {times.name!r} follow no rule, from {frame.index[0]} to "
            f"{frame.index[-1]}, and are not taken for regular. --resample D combines rows by day, "
            f"D:sum adds them up; --ignore {times.name} takes rows one after the other."
        )
    if job is not None and len(whole) > len(frame):
        job.console.note(
            f"{count(len(whole) - len(frame), 'time')} missing in {times.name!r}, added without "
            "values."
        )
    return regular_rows(frame)
