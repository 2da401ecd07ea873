"""The times of a series: labels of the rows and columns of the user's table."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regfactor.core.params import Array, optional


@dataclass(frozen=True)
class Times:
    """Labels of the user's table: its kind, its columns, and its index if it has one."""

    kind: str = "numpy"
    names: list[Any] = field(default_factory=list)
    index: Any = None
    length: int = 0

    @staticmethod
    def of(X: Any) -> Times:
        """Return the labels of a pandas or polars table, or of an array."""
        length = len(X)
        if hasattr(X, "columns"):
            if hasattr(X, "iloc"):
                return Times("pandas", list(X.columns), X.index, length)
            return Times("polars", list(X.columns), None, length)
        if hasattr(X, "iloc"):
            name = "x0" if X.name is None else X.name
            return Times("pandas", [name], X.index, length)
        n = np.shape(X)[1] if np.ndim(X) > 1 else 1
        return Times("numpy", list(map("x{}".format, range(n))), None, length)

    def followed(self, X: Any) -> Times:
        """Return the labels after more rows."""
        other = Times.of(X)
        index = None
        if self.index is not None:
            more = other.index
            if more is None:
                more = self.future(other.length)
            index = self.index.append(more)
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
            freq = index.freq or _inferred_frequency(index)
            return pandas.date_range(last, periods=horizon + 1, freq=freq, name=name)[1:]
        if index.dtype.kind not in "iu":
            return pandas.RangeIndex(self.length, self.length + horizon)
        step = last - index[-2] if len(index) > 1 else 1
        return pandas.RangeIndex(last + step, last + step * (horizon + 1), step, name=name)

    def labeled(self, values: Array, index: Any) -> Any:
        """Return rows in the kind of table that the user gave."""
        if self.kind == "numpy":
            return values
        return self.frame(dict(zip(self.names, values.T, strict=True)), index)

    def frame(self, columns: dict[Any, Array], index: Any) -> Any:
        """Return a frame of the user's kind; of pandas for arrays."""
        if self.kind == "polars":
            polars = importlib.import_module("polars")
            return polars.DataFrame({str(k): np.asarray(v) for k, v in columns.items()})
        pandas = optional("pandas", "Forecast.to_frame", "pip install pandas")
        return pandas.DataFrame(columns, index=index)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.index is not None:
            state["index"] = _plain_index(self.index)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        index = state["index"]
        if index is not None:
            index = _pandas_index(**index)
        self.__dict__.update({**state, "index": index})


def _plain_index(index: Any) -> dict[str, Any]:
    """Return a pandas index as numbers and strings, which can be saved without its classes."""
    kind = type(index).__name__
    plain = {"kind": kind, "name": index.name}
    if kind == "PeriodIndex":
        return {**plain, "values": index.asi8, "freq": index.freqstr}
    if kind == "DatetimeIndex":
        zone = str(index.tz) if index.tz else None
        times = {"freq": index.freqstr, "unit": index.unit, "tz": zone}
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


def _inferred_frequency(index: Any) -> Any:
    """Return the frequency of a DatetimeIndex that does not state it."""
    freq = None
    if len(index) > 2:
        with warnings.catch_warnings():
            # pandas announces another type of the result; either type will do
            warnings.simplefilter("ignore")
            freq = importlib.import_module("pandas").infer_freq(index)
    if freq is None:
        raise ValueError(
            "The times of the series have no regular frequency, so the future has no index. Give "
            "the table a DatetimeIndex with a frequency (asfreq), or a PeriodIndex."
        )
    return freq
