"""Regular times: the step of dates, what is wrong with them, and rows that were left out.

Dates are never taken for regular: a series whose dates repeat, go back, leave some out or follow no
rule is refused, with what to do.
"""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

import numpy as np

from regfactor.core.params import Array

CALENDAR_RULES = ("MS", "ME", "BMS", "BME", "QS", "QE", "YS", "YE")  # of no even step
MIN_SHARE = 0.5  # of the times of a rule that must have a row, for the others to be left out
MIN_BUSINESS_DAYS = 10  # none at a weekend, for these to be left out on purpose
DATE_WORDS = re.compile(
    r"(\d{4}(-?Q[1-4]|[-/.]\d{1,2}([-/.]\d{1,2}.*)?)|\d{1,2}([-/.])\d{1,2}\4\d{2,4}( .*)?)$",
    re.IGNORECASE,
)
SEASONS = {
    "ME": 12,
    "MS": 12,
    "BME": 12,
    "BMS": 12,
    "M": 12,
    "QE": 4,
    "QS": 4,
    "BQE": 4,
    "BQS": 4,
    "Q": 4,
    "W": 52,
    "7D": 52,
    "D": 7,
    "B": 5,
    "h": 24,
    "30min": 48,
    "15min": 96,
}


def is_dates(index: Any) -> bool:
    """Return whether an index holds dates or periods of pandas."""
    return type(index).__name__ in ("DatetimeIndex", "PeriodIndex")


def frequency(index: Any) -> Any:
    """Return the rule of the dates of a DatetimeIndex; None if they follow none."""
    if index.freq is not None:
        return index.freq
    if len(index) < 3:
        return None
    pandas = importlib.import_module("pandas")
    with warnings.catch_warnings():
        # pandas announces another type of the result; either type will do
        warnings.simplefilter("ignore")
        inferred = pandas.infer_freq(index)
    if inferred is not None:
        return inferred
    months = np.diff(12 * index.year + index.month)
    same_day = np.all(index.day == index.day[0]) and np.all(index.time == index.time[0])
    if same_day and months[0] > 0 and np.all(months == months[0]):
        return pandas.DateOffset(months=int(months[0]))
    return None


def season_of(index: Any) -> int:
    """Return the rows of a year, of a week of days, or of a day of hours; 1 if dates do not say."""
    if not is_dates(index):
        return 1
    rule = index.freq
    if rule is None:
        rule = frequency(index)
    if rule is None:
        return 1
    months = getattr(rule, "kwds", {}).get("months")
    if months is not None:
        return 12 // months if 12 % months == 0 else 1
    return SEASONS.get(str(getattr(rule, "freqstr", rule)).partition("-")[0], 1)


def checked_index(index: Any) -> Any:
    """Return an index whose times are in order, different and regular; raise for others."""
    if getattr(index, "nlevels", 1) > 1:
        raise ValueError(
            "X has an index of several levels. Of a table with a row for each series and time, "
            "give the levels as columns: X.reset_index()."
        )
    kind = getattr(index, "inferred_type", "")
    if kind in ("date", "datetime"):
        index = importlib.import_module("pandas").DatetimeIndex(index, name=index.name)
    if kind == "period" and not is_dates(index):
        index = importlib.import_module("pandas").PeriodIndex(index, name=index.name)
    if kind in ("string", "mixed") and _holds_date_words(index):
        raise ValueError(
            f"The index of X holds dates as words, such as {index[0]!r}. Make them dates: X.index "
            "= pd.to_datetime(X.index), with dayfirst=True where days come first, or "
            "pd.PeriodIndex(X.index, freq='Q') for quarters."
        )
    measured = kind in ("integer", "floating", "timedelta64", "timedelta")
    if not (measured or is_dates(index)) or len(index) == 0:
        return index
    refuse_missing_and_repeated(index)
    _refuse_disorder(index)
    _refuse_irregular(index)
    return index


def _holds_date_words(index: Any) -> bool:
    return all(isinstance(word, str) and DATE_WORDS.match(word.strip()) for word in index)


def refuse_missing_and_repeated(index: Any) -> None:
    """Raise for times that are missing or that several rows have."""
    if index.hasnans:
        row = int(np.argmax(index.isna()))
        raise ValueError(f"The time of row {row} is missing; give it, or leave the row out.")
    if index.is_unique:
        return
    second = int(np.argmax(index.duplicated()))
    first = int(np.argmax(index == index[second]))
    clock = ""
    if _within_days(index) and index.tz is None:
        clock = (
            " Where clocks were set back, state the time zone: "
            "X.tz_localize('Europe/Berlin', ambiguous='infer')."
        )
    raise ValueError(
        f"The time {index[second]} is that of rows {first} and {second}; a series has one row for "
        "each time. Combine them, as by X.groupby(level=0).mean(); rows of several series are a "
        f"long table, with a column that names the series.{clock}"
    )


def _within_days(index: Any) -> bool:
    """Return whether dates have hours."""
    if type(index).__name__ != "DatetimeIndex":
        return False
    return bool((index != index.normalize()).any())


def _refuse_disorder(index: Any) -> None:
    if index.is_monotonic_increasing:
        return
    row = int(np.argmax(np.asarray(index[1:] < index[:-1]))) + 1
    raise ValueError(
        f"Rows are not in the order of their times: row {row} ({index[row]}) comes after "
        f"{index[row - 1]}. Sort them: X.sort_index()."
    )


def _refuse_irregular(index: Any) -> None:
    if len(index) < 3 or _is_regular(index):
        return
    whole = regular_grid(index)
    if whole is None:
        steps = np.diff(_numbers(index))
        shortest = index[int(steps.argmin()) + 1] - index[int(steps.argmin())]
        longest = index[int(steps.argmax()) + 1] - index[int(steps.argmax())]
        raise ValueError(
            f"The times of the series follow no rule: steps are from {shortest} to {longest}. "
            "Resample them, as by regfactor.series.regular_rows(X, freq='D', resample='mean'); if "
            "they are no times, drop them: X.reset_index(drop=True)."
        )
    left_out = whole[~whole.isin(index)]
    clock = ""
    if _within_days(index) and index.tz is None:
        clock = (
            " Where clocks were set forward, state the time zone: X.tz_localize('Europe/Berlin')."
        )
    raise ValueError(
        f"{len(left_out)} times are left out, the first is {left_out[0]}. "
        "regfactor.series.regular_rows(X) adds them as rows of missing values; if they are no "
        f"times, drop them: X.reset_index(drop=True).{clock}"
    )


def _is_regular(index: Any) -> bool:
    if type(index).__name__ == "DatetimeIndex":
        return frequency(index) is not None
    steps = np.diff(_numbers(index))
    if is_dates(index):
        return bool(np.all(steps == 1))
    return bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0))


def _numbers(index: Any) -> Array:
    """Return times as numbers whose differences are their steps."""
    if hasattr(index, "asi8"):
        return np.asarray(index.asi8)
    return np.asarray(index)


def regular_grid(index: Any) -> Any:
    """Return all times from the first to the last by the rule that most of them follow, or None."""
    pandas = importlib.import_module("pandas")
    first = index[0]
    last = index[-1]
    if isinstance(index, pandas.PeriodIndex):
        return pandas.period_range(first, last, freq=index.freq, name=index.name)
    if isinstance(index, pandas.DatetimeIndex):
        if frequency(index) is not None:
            return index
        for rule in _candidate_rules(index):
            whole = pandas.date_range(first, last, freq=rule, name=index.name)
            if index.isin(whole).all() and len(index) > MIN_SHARE * len(whole):
                return whole
        return None
    if index.dtype.kind not in "iu":
        return index if _is_regular(index) else None
    numbers = np.asarray(index)
    step = int(_most_frequent(np.diff(numbers)))
    if _would_be_sparse(numbers, step):
        return None
    whole = pandas.RangeIndex(
        int(first),
        int(last) + step,
        step,
        name=index.name,
    )
    if index.isin(whole).all() and len(index) > MIN_SHARE * len(whole):
        return whole
    return None


def _candidate_rules(index: Any) -> list[Any]:
    pandas = importlib.import_module("pandas")
    rules: list[Any] = []
    numbers = index.asi8
    n_units = int(_most_frequent(np.diff(numbers)))
    step = pandas.Timedelta(np.timedelta64(n_units, index.unit))
    weekdays_only = len(index) >= MIN_BUSINESS_DAYS and bool((index.day_of_week < 5).all())
    day = pandas.Timedelta(days=1)
    if step == day and weekdays_only:
        rules.append("B")
    if step >= 28 * day:
        rules.extend(CALENDAR_RULES)
        for months in (1, 3, 12):
            rules.append(pandas.DateOffset(months=months))
    if step % day == pandas.Timedelta(0):
        rules.append(f"{step // day}D")  # calendar days, of 23 to 25 hours
    if not _would_be_sparse(numbers, n_units):
        rules.append(step)
    return rules


def _would_be_sparse(times: Array, step: int) -> bool:
    """Return whether most times would be missing on a grid, which may not even fit into memory."""
    n_steps = (int(times[-1]) - int(times[0])) // step
    return len(times) <= MIN_SHARE * (n_steps + 1)


def _most_frequent(steps: Array) -> Any:
    values, counts = np.unique(steps, return_counts=True)
    return values[np.argmax(counts)]
