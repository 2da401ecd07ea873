"""Series at irregular times, brought to regular ones on request."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from regfactor.series.regular_times import (
    frequency,
    is_dates,
    refuse_missing_and_repeated,
    regular_grid,
)
from regfactor.series.shapes import SeriesRows

RESAMPLING = ("mean", "sum", "last", "first", "median", "min", "max")


def regular_rows(X: Any, freq: Any = None, resample: str | None = None) -> Any:
    """Return rows at regular times: in order, with rows of NaN at times that were left out.

    Parameters
    ----------
    X : frame, or series of pandas
        With its times as the index or as a column of dates, or a long table.
    freq : str or offset of pandas, optional
        Rule of the times, such as "D", "B", "MS" or "h"; by default the one that most times follow.
    resample : {"mean", "sum", "last", "first", "median", "min", "max"}, optional
        How rows that fall between two times of the rule are combined. By default all times must be
        of the rule.

    Returns
    -------
    frame or series like X

    Examples
    --------
    >>> import pandas as pd
    >>> from regfactor.series import regular_rows
    >>> days = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"])
    >>> regular_rows(pd.Series([3.0, 4.0, 6.0, 7.0], index=days)).to_list()
    [3.0, 4.0, nan, 6.0, 7.0]
    """
    if resample is not None and resample not in RESAMPLING:
        raise ValueError(f"resample must be one of {RESAMPLING} or None, got {resample!r}.")
    given = SeriesRows.of(X, check=False)
    index = given.times.index
    if index is None:
        raise ValueError("X has no times: give them as the index, or as a column of dates.")
    table = given.table
    if not hasattr(table, "iloc"):
        table = importlib.import_module("pandas").DataFrame(table.to_dict(as_series=False))
    table = table.set_axis(index, axis=0).sort_index()
    if resample is None:
        found = _with_missing_rows(table, freq)
    else:
        found = _resampled(table, freq, resample)
    if given.times.is_plain_pandas:
        return found
    times = replace(given.times, index=found.index, length=len(found))
    return times.labeled(found.to_numpy(), found.index)


def _with_missing_rows(table: Any, freq: Any) -> Any:
    """Insert rows of NaN at the times of a rule that were left out."""
    index = table.index
    refuse_missing_and_repeated(index)
    if freq is None:
        whole = index if len(index) < 3 else regular_grid(index)
        if whole is None:
            raise ValueError(
                "The times follow no rule that most of them have in common; state one, and how "
                "rows are combined, as freq='D', resample='mean'."
            )
    elif type(index).__name__ == "DatetimeIndex":
        pandas = importlib.import_module("pandas")
        whole = pandas.date_range(
            index[0],
            index[-1],
            freq=freq,
            name=index.name,
        )
    else:
        raise ValueError("freq is the rule of dates, and the times of X are none.")
    outside = index[~index.isin(whole)]
    if len(outside):
        raise ValueError(
            f"{len(outside)} times are not of the rule {freq!r}, the first is {outside[0]}. "
            f"Combine rows by resample='mean', or another of {', '.join(RESAMPLING)}."
        )
    found = table.reindex(whole)
    if type(whole).__name__ == "DatetimeIndex" and whole.freq is None:
        found.index = importlib.import_module("pandas").DatetimeIndex(whole, freq=frequency(whole))
    return found


def _resampled(table: Any, freq: Any, resample: str) -> Any:
    """Combine the rows between the times of a rule; times without a row are missing."""
    if not is_dates(table.index):
        raise ValueError("Only rows at dates are resampled, and the times of X are none.")
    if freq is None:
        raise ValueError("State the rule by which rows are combined, as freq='D' or freq='MS'.")
    groups = table.resample(freq)
    if resample == "sum":
        return groups.sum(min_count=1)
    return getattr(groups, resample)()
