"""Tables of series as people have them: wide or long, of numpy, pandas or polars."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen, optional
from regfactor.fitting.inputs import refuse_words, validated
from regfactor.series.regular_times import checked_index
from regfactor.series.times import LongLayout, Times

NIXTLA = ("unique_id", "ds", "y")


@frozen
class SeriesRows:
    """A wide table of series alone, and the labels with which results are given back.

    A long table, with a row for each series and time, is one whose columns are unique_id, ds and
    y, or are one of dates, one of words and one of numbers.
    """

    table: Any
    times: Times

    @staticmethod
    def of(X: Any, check: bool = True) -> SeriesRows:
        """Return the parts of a table; raise for times that are not regular, unless told not to."""
        if isinstance(X, SeriesRows):
            return X
        if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
            raise ValueError("X is a lazy frame of polars; collect it: X.collect().")
        if hasattr(X, "columns"):
            layout = long_layout(X)
            if layout is not None:
                found = _from_long(X, layout)
            elif hasattr(X, "iloc"):
                found = _from_pandas(X)
            else:
                found = _from_polars(X)
        elif hasattr(X, "iloc"):
            name = "x0" if X.name is None else X.name
            found = SeriesRows(X, Times("pandas", [name], X.index, len(X)))
        else:
            shape = (*np.shape(X), 1, 1)
            n_series = shape[1] if np.ndim(X) > 1 else 1
            names = list(map("x{}".format, range(n_series)))
            return SeriesRows(X, Times("numpy", names, None, shape[0]))
        if check and found.times.index is not None:
            return found.with_index(checked_index(found.times.index))
        return found

    def with_index(self, index: Any) -> SeriesRows:
        """Return the same rows with another index."""
        times = Times(**{**self.times.__dict__, "index": index})
        return SeriesRows(self.table, times)

    def ordered(self, names: list[Any]) -> SeriesRows:
        """Return a long table with the series of a fitted model, missing ones as NaN."""
        if self.times.layout is None:
            return self
        unknown = [name for name in self.times.names if name not in names]
        if unknown:
            raise ValueError(
                f"Series {unknown[0]!r} was not in the fit; leave it out, or fit again."
            )
        times = Times(**{**self.times.__dict__, "names": names})
        return SeriesRows(self.table.reindex(columns=names), times)


def as_series(estimator: Any, X: Any, reset: bool) -> Array:
    """Return series as a float array, NaN at missing entries; a single one may be a vector."""
    if np.ndim(X) == 1:
        if not reset and estimator.n_features_in_ > 1:
            raise ValueError(
                f"X has one dimension, but the model has {estimator.n_features_in_} series: give a "
                "table with a row for each time, also if there is only one, as S[:1] or "
                "S.iloc[:1] instead of S[0] or S.iloc[0]."
            )
        if hasattr(X, "to_frame"):
            X = X.to_frame()
        elif np.size(X):
            X = np.reshape(X, (-1, 1))
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf":
        remedy = "leave it out"
        if hasattr(X, "iloc"):
            remedy = "set it as the index, X.set_index({column!r})"
        refuse_words(X, remedy=f"If it holds the times of the rows, {remedy}; if not, correct it.")
    return np.asarray(
        validated(estimator, X, ensure_all_finite="allow-nan", reset=reset, every_column=True)
    )


def _from_pandas(X: Any) -> SeriesRows:
    """Read a wide frame; a column of dates holds the times where rows are only counted."""
    repeated = X.columns[X.columns.duplicated()]
    if len(repeated):
        raise ValueError(
            f"X has several columns named {repeated[0]!r}; give each series a name of its own."
        )
    dated = [name for name, kind in X.dtypes.items() if _is_date_type(kind)]
    if not dated:
        return SeriesRows(X, Times("pandas", list(X.columns), X.index, len(X)))
    if len(dated) > 1:
        raise ValueError(
            f"X has dates in column {dated[-1]!r} besides those in {dated[0]!r}. Keep the column "
            "of the times, and leave the other out."
        )
    if type(X.index).__name__ != "RangeIndex":
        raise ValueError(
            f"X has dates in column {dated[0]!r} besides its index. If they are the times of the "
            f"rows, make them the index: X.set_index({dated[0]!r}); if not, leave the column out."
        )
    time = dated[0]
    pandas = importlib.import_module("pandas")
    table = X.drop(columns=time)
    times = Times(
        "pandas",
        list(table.columns),
        pandas.Index(X[time]),
        len(X),
        time_name=time,
    )
    return SeriesRows(table, times)


def _from_polars(X: Any) -> SeriesRows:
    """Read a wide frame of polars; its column of dates, if any, holds the times."""
    dated = [name for name, kind in X.schema.items() if str(kind).startswith("Date")]
    if not dated:
        return SeriesRows(X, Times("polars", list(X.columns), None, len(X)))
    if len(dated) > 1:
        raise ValueError(f"X has several columns of dates: {dated}. Keep that of the times.")
    time = dated[0]
    index = _polars_index(X[time])
    table = X.drop(time)
    whole_days = str(X.schema[time]) == "Date"
    times = Times("polars", list(table.columns), index, len(X), time, whole_days)
    return SeriesRows(table, times)


def _polars_index(column: Any) -> Any:
    """Return a column of dates of polars as an index of pandas."""
    pandas = optional("pandas", "Dates of a polars frame", "pip install pandas")
    index = pandas.DatetimeIndex(column.to_numpy(), name=column.name)
    zone = getattr(column.dtype, "time_zone", None)
    if zone is None:
        return index
    if index.tz is None:
        index = index.tz_localize("UTC")
    return index.tz_convert(zone)


def long_layout(X: Any) -> LongLayout | None:
    """Return which columns of a long table are series, time and value; None for other tables."""
    names = list(X.columns)
    if set(NIXTLA) <= set(names):
        extra = [name for name in names if name not in NIXTLA]
        if extra:
            raise ValueError(
                f"A long table of unique_id, ds and y has a further column {extra[0]!r}. Inputs of "
                "a long table are taken by regfactor.nixtla.forecast; otherwise leave it out."
            )
        return LongLayout(*NIXTLA)
    if len(names) != 3:
        return None
    kinds = dict(zip(names, X.dtypes, strict=True))
    dates = [name for name in names if _is_date_type(kinds[name])]
    words = [name for name in names if _is_word_type(kinds[name])]
    if len(dates) != 1 or len(words) != 1:
        return None
    value = next(name for name in names if name not in (dates[0], words[0]))
    return LongLayout(words[0], dates[0], value)


def _is_date_type(kind: Any) -> bool:
    return str(kind).startswith(("datetime64", "period", "Date"))


def _is_word_type(kind: Any) -> bool:
    return str(kind) in ("object", "str", "string", "category", "String", "Categorical", "Enum")


def _from_long(X: Any, layout: LongLayout) -> SeriesRows:
    """Read a long table: a column for each series, in the order in which they occur."""
    pandas = optional("pandas", "A long table", "pip install pandas")
    kind = "pandas" if hasattr(X, "iloc") else "polars"
    whole_days = kind == "polars" and str(X.schema[layout.time]) == "Date"
    if kind == "polars":
        times = X[layout.time]
        if str(times.dtype).startswith("Date"):
            times = _polars_index(times)
        else:
            times = times.to_list()
        ids = X[layout.series].to_list()
        values = X[layout.value].to_numpy()
    else:
        times = X[layout.time]
        ids = X[layout.series].to_list()
        values = X[layout.value].to_numpy(dtype=float, na_value=np.nan)
    frame = pandas.DataFrame({"series": ids, "value": values})
    frame["time"] = _as_dates(pandas, pandas.Index(times), layout)
    refuse_incomplete_rows(frame, layout)
    wide = frame.pivot(index="time", columns="series", values="value")
    names = list(dict.fromkeys(ids))
    wide = wide.reindex(columns=names)
    index = wide.index.rename(layout.time)
    wide = wide.set_axis(index, axis=0)
    labels = Times(kind, names, index, len(wide), None, whole_days, layout)
    return SeriesRows(wide, labels)


def _as_dates(pandas: Any, times: Any, layout: LongLayout) -> Any:
    """Return the times of a long table as dates, periods or whole numbers."""
    if _is_date_type(times.dtype) or times.dtype.kind in "iu":
        return times
    try:
        return pandas.DatetimeIndex(pandas.to_datetime(times, format="ISO8601"))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"Column {layout.time!r} holds {times[0]!r}, which is no date; make it one by "
            "pd.to_datetime."
        ) from error


def refuse_incomplete_rows(frame: Any, layout: LongLayout) -> None:
    """Raise for rows of a long table without a series or time, and for two of the same."""
    for part, name in (("series", layout.series), ("time", layout.time)):
        missing = frame[part].isna().to_numpy()
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(f"Row {row} has no value in {name!r}; give it, or leave the row out.")
    repeated = frame.duplicated(["series", "time"]).to_numpy()
    if repeated.any():
        row = frame.iloc[int(np.argmax(repeated))]
        raise ValueError(
            f"Series {row['series']!r} has several rows at {row['time']}; combine them, as by "
            f"X.groupby([{layout.series!r}, {layout.time!r}], as_index=False).mean()."
        )
