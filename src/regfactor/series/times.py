"""The times of a series: labels of the rows and columns of the user's table."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regfactor.core.params import Array, optional
from regfactor.series.regular_times import frequency, is_dates, season_of


@dataclass(frozen=True)
class LongLayout:
    """Columns of a long table, which has a row for each series and time."""

    series: str
    time: str
    value: str


@dataclass(frozen=True)
class Times:
    """Labels of the user's table: its kind, its columns, and its index if it has one.

    Attributes
    ----------
    kind : {"numpy", "pandas", "polars"}
    names : list
        Of the series.
    index : index of pandas or None
    length : int
        Number of rows.
    time_name : str or None
        The column that held the times, where it was no index.
    whole_days : bool
        Whether this column holds days without hours, in polars.
    layout : LongLayout or None
        Of a long table.
    """

    kind: str = "numpy"
    names: list[Any] = field(default_factory=list)
    index: Any = None
    length: int = 0
    time_name: str | None = None
    whole_days: bool = False
    layout: LongLayout | None = None

    @property
    def is_plain_pandas(self) -> bool:
        """Whether the table is a frame of pandas with its times as the index."""
        return self.kind == "pandas" and self.time_name is None and self.layout is None

    @property
    def season(self) -> int:
        """Rows of the season that dates suggest; 1 where they suggest none."""
        return season_of(self.index)

    def label(self, row: int) -> Any:
        """Return the time of a row; where there are no times, the number of rows until it."""
        if self.index is None:
            return row + 1
        return self.index[row]

    def followed(self, other: Times) -> Times:
        """Return the labels after more rows, whose times must follow if they are known."""
        index = self.index
        if index is not None:
            more = self.future(other.length)
            if other.index is not None and not _counts_rows(other.index):
                _require_next(more, other.index)
                more = other.index
            index = index.append(more)
            if type(index).__name__ == "DatetimeIndex" and self.index.freq is not None:
                index = type(index)(index, freq=self.index.freq)
        return replace(self, index=index, length=self.length + other.length)

    def last(self, rows: int) -> Any:
        """Return the index of the last rows."""
        if self.index is None:
            return None
        return self.index[self.length - rows :]

    def future(self, horizon: int) -> Any:
        """Return the index of the next rows."""
        index = self.index
        if index is None or len(index) == 0:
            return range(self.length, self.length + horizon)
        pandas = importlib.import_module("pandas")
        last = index[-1]
        name = index.name
        if isinstance(index, pandas.PeriodIndex):
            return pandas.period_range(last + 1, periods=horizon, freq=index.freq, name=name)
        if isinstance(index, pandas.DatetimeIndex):
            following = pandas.date_range(last, periods=horizon + 1, freq=_frequency(index))
            return following[1:].rename(name)
        if index.dtype.kind in "fm" and len(index) > 1:
            step = last - index[-2]
            return pandas.Index([last + step * k for k in range(1, horizon + 1)], name=name)
        if index.dtype.kind not in "iu":
            return pandas.RangeIndex(self.length, self.length + horizon)
        step = 1
        if len(index) > 1:
            step = last - index[-2]
        return pandas.RangeIndex(last + step, last + step * (horizon + 1), step, name=name)

    def labeled(self, values: Array, index: Any) -> Any:
        """Return rows in the kind of table that the user gave."""
        if self.kind == "numpy":
            return values
        return self.frame({"": values}, index)

    def frame(self, parts: dict[str, Array], index: Any) -> Any:
        """Return a frame of the user's kind; of pandas for arrays.

        Parameters
        ----------
        parts : dict of str to array of shape (n_rows, n_series)
            Means and limits, by what is appended to the names of columns.
        index : index of pandas, range or None
        """
        columns: dict[Any, Any] = {}
        if self.layout is not None:
            n_rows = len(index)
            repeated = np.repeat(np.array(self.names, dtype=object), n_rows)
            columns[self.layout.series] = list(repeated)
            columns[self.layout.time] = index.append([index] * (len(self.names) - 1))
            for ending, values in parts.items():
                columns[f"{self.layout.value}{ending}"] = values.T.ravel()
        else:
            if self.time_name is not None:
                columns[self.time_name] = index
            for ending, values in parts.items():
                for name, column in zip(self.names, values.T, strict=True):
                    columns[f"{name}{ending}" if ending else name] = column
        if self.kind == "polars":
            return self._polars_frame(columns)
        pandas = optional("pandas", "Forecast.to_frame", "pip install pandas")
        if self.layout is not None or self.time_name is not None:
            return pandas.DataFrame(columns)
        return pandas.DataFrame(columns, index=index)

    def _polars_frame(self, columns: dict[Any, Any]) -> Any:
        polars = importlib.import_module("polars")
        found = {}
        for name, values in columns.items():
            if hasattr(values, "to_timestamp") or hasattr(values, "normalize"):
                found[str(name)] = self._polars_times(str(name), values)
            elif isinstance(values, list):
                found[str(name)] = polars.Series(str(name), values)
            else:
                found[str(name)] = np.asarray(values)
        return polars.DataFrame(found)

    def _polars_times(self, name: str, index: Any) -> Any:
        polars = importlib.import_module("polars")
        zone = index.tz
        if zone is not None:
            index = index.tz_convert("UTC").tz_localize(None)
        column = polars.Series(name, index.to_numpy().astype("datetime64[us]"))
        if zone is not None:
            return column.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
        if self.whole_days:
            return column.cast(polars.Date)
        return column

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.index is not None:
            state["index"] = _plain_index(self.index)
        if self.layout is not None:
            state["layout"] = [self.layout.series, self.layout.time, self.layout.value]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        index = state["index"]
        if index is not None:
            index = _pandas_index(**index)
        layout = state.get("layout")
        if layout is not None:
            layout = LongLayout(*layout)
        self.__dict__.update({**state, "index": index, "layout": layout})


def _counts_rows(index: Any) -> bool:
    """Return whether an index is the one that pandas gives to rows without any."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _require_next(expected: Any, given: Any) -> None:
    """Raise unless times of new rows are those that follow."""
    if type(expected).__name__ == "range" or len(given) == 0:
        return
    whole = getattr(expected, "dtype", None) is not None and expected.dtype.kind in "iu"
    if not (whole or is_dates(expected)):
        return
    if is_dates(given) != is_dates(expected) or type(given[0]) is not type(expected[0]):
        if not (whole and not is_dates(given)):
            raise ValueError(
                f"The new rows are at {given[0]!r}, and the series goes on at {expected[0]!r}; "
                "give them times of the same kind."
            )
    same = np.asarray(given == expected)
    if same.all():
        return
    row = int(np.argmin(same))
    raise ValueError(
        f"Row {row} of the new rows is at {given[row]}, and the series goes on at {expected[row]}. "
        "New rows must follow at once, in order; times without values are rows of NaN."
    )


def _plain_index(index: Any) -> dict[str, Any]:
    """Return a pandas index as numbers and strings, which can be saved without its classes."""
    kind = type(index).__name__
    plain = {"kind": kind, "name": index.name}
    if kind == "PeriodIndex":
        return {**plain, "values": index.asi8, "freq": index.freqstr}
    if kind == "DatetimeIndex":
        zone = str(index.tz) if index.tz else None
        freq = index.freqstr
        if freq is not None and freq.startswith("<"):  # an offset without a name is found again
            freq = None
        times = {"freq": freq, "unit": index.unit, "tz": zone}
        return {**plain, "values": index.asi8, **times}
    return {"kind": "Index", "name": index.name, "values": np.asarray(index)}


def _pandas_index(
    kind: str,
    values: Array,
    name: Any,
    freq: Any = None,
    unit: str = "ns",
    tz: Any = None,
) -> Any:
    """Return the pandas index that `_plain_index` saved."""
    pandas = importlib.import_module("pandas")
    if kind == "Index":
        return pandas.Index(values, name=name)
    if kind == "PeriodIndex":
        return pandas.PeriodIndex.from_ordinals(values, freq=freq, name=name)
    times = pandas.DatetimeIndex(values.view(f"M8[{unit}]"), name=name)
    if tz is not None:
        times = times.tz_localize("UTC").tz_convert(tz)
    return pandas.DatetimeIndex(times, freq=freq)


def _frequency(index: Any) -> Any:
    """Return the rule of dates; raise where there are too few to tell."""
    freq = frequency(index)
    if freq is None:
        raise ValueError(
            "The dates of the series are too few to tell their step, so the future has no index. "
            "Give the table a DatetimeIndex with a frequency (asfreq), or a PeriodIndex."
        )
    return freq
