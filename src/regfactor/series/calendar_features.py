"""Features of the calendar: days of the week, months, hours, holidays and events.

They are known at all times, so that models take them as inputs without the user's help.
"""

from __future__ import annotations

import abc
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen, install_hint, optional
from regfactor.series.regular_times import frequency, is_dates

ENDING_WEEKS = ("W-SUN", "W-SAT", "W-FRI")  # whose dates are the last days of weeks
DAY = np.timedelta64(1, "D")
DUMMIES = {
    "hour": ("hour", range(24)),
    "day_of_week": ("day_of_week", range(7)),
    "day_of_month": ("day", range(1, 32)),
    "month": ("month", range(1, 13)),
    "quarter": ("quarter", range(1, 5)),
}
MAX_STEP_DAYS = {"hour": 0, "day_of_week": 1, "day_of_month": 1, "weekend": 1, "month": 31}
HOLIDAYS = "holidays:"
EACH_HOLIDAY = "each_holiday:"
NAMES = (*DUMMIES, "weekend", "month_start", "month_end", "working_days", "days_in_month")


@frozen
class CalendarRows:
    """Rows at dates: the first time of each, and the days from the first to the last."""

    starts: Any  # DatetimeIndex, local times
    first_days: Array
    last_days: Array

    @staticmethod
    def of(index: Any) -> CalendarRows:
        """Return the days of the rows of an index of dates or periods.

        Dates of ends of months, quarters and years, and of weeks that end on Friday to Sunday, are
        the last days of their rows; other dates are the first ones.
        """
        if type(index).__name__ == "PeriodIndex":
            starts = index.start_time
            return CalendarRows(starts, _days(starts), _days(index.end_time))
        pandas = importlib.import_module("pandas")
        local = index.tz_localize(None) if index.tz is not None else index
        days = _days(local)
        rule = frequency(index)
        if rule is None or len(index) == 0:
            return CalendarRows(local, days, days)
        naive = pandas.DatetimeIndex(local.to_numpy())
        before = pandas.date_range(end=naive[0], periods=2, freq=rule)[0]
        after = pandas.date_range(naive[-1], periods=2, freq=rule)[1]
        if after - naive[-1] <= pandas.Timedelta(DAY) or _is_business(rule):
            return CalendarRows(local, days, days)
        name = str(getattr(rule, "freqstr", rule))
        if name in ENDING_WEEKS or name.partition("-")[0].endswith("E"):
            earlier = np.concatenate([[np.datetime64(before, "D")], days[:-1]])
            firsts = earlier + DAY
            return CalendarRows(pandas.DatetimeIndex(firsts), firsts, days)
        later = np.concatenate([days[1:], [np.datetime64(after, "D")]])
        return CalendarRows(local, days, later - DAY)

    @property
    def longest(self) -> int:
        """Number of days of the longest row; 0 where rows are shorter than days."""
        if len(self.starts) > 1 and bool((self.first_days[1:] == self.first_days[:-1]).any()):
            return 0
        return int((self.last_days - self.first_days).max() / DAY) + 1

    @property
    def years(self) -> list[int]:
        """The years of the rows."""
        first = int(self.first_days.min().astype("datetime64[Y]").astype(int)) + 1970
        last = int(self.last_days.max().astype("datetime64[Y]").astype(int)) + 1970
        return list(range(first, last + 1))

    def count(self, days: Array) -> Array:
        """Return how many of given days, all different, lie in each row."""
        days = np.sort(days)
        after = np.searchsorted(days, self.last_days, side="right")
        return np.asarray(after - np.searchsorted(days, self.first_days), dtype=float)


def _days(index: Any) -> Array:
    return np.asarray(index.to_numpy().astype("datetime64[D]"))


def _is_business(rule: Any) -> bool:
    return str(getattr(rule, "freqstr", rule)) in ("B", "C")


class CalendarFeature(abc.ABC):
    """Columns that follow from the dates of rows."""

    @abc.abstractmethod
    def columns(self, rows: CalendarRows) -> dict[str, Array]:
        """Return the columns by their names."""

    def fitted(self, rows: CalendarRows) -> CalendarFeature:
        """Return the feature with what it keeps of the rows of a fit."""
        return self


@frozen
class Dummies(CalendarFeature):
    """One column for each value but the first, such as the days of a week without Monday."""

    name: str

    def columns(self, rows: CalendarRows) -> dict[str, Array]:
        """Return zeros and ones."""
        attribute, values = DUMMIES[self.name]
        found = np.asarray(getattr(rows.starts, attribute))
        return {f"{self.name}_{value}": (found == value).astype(float) for value in values[1:]}


@frozen
class DayProperty(CalendarFeature):
    """One column: weekend, month_start, month_end, working_days or days_in_month."""

    name: str

    def columns(self, rows: CalendarRows) -> dict[str, Array]:
        """Return numbers of days, or zeros and ones."""
        if self.name == "weekend":
            values = np.asarray(rows.starts.day_of_week >= 5)
        elif self.name == "working_days":
            values = np.busday_count(rows.first_days, rows.last_days + DAY)
        elif self.name == "days_in_month":
            values = np.asarray(rows.starts.days_in_month)
        elif self.name == "month_start":
            values = np.asarray(rows.starts.is_month_start)
        else:
            values = np.asarray(rows.starts.is_month_end)
        return {self.name: np.asarray(values, dtype=float)}


@frozen
class Holidays(CalendarFeature):
    """Public holidays of a country or one of its parts, by the package `holidays`.

    In rows of several days, their number on working days.
    """

    place: str
    each: bool
    names: tuple[str, ...] = ()

    def _days_by_name(self, rows: CalendarRows) -> dict[str, Array]:
        package = optional("holidays", "Holidays in calendar=", install_hint("holidays"))
        country, _, part = self.place.partition("-")
        try:
            found = package.country_holidays(country, subdiv=part or None, years=rows.years)
        except NotImplementedError as error:
            raise ValueError(f"The package holidays has no place {self.place!r}: {error}") from None
        by_name: dict[str, list[Any]] = {}
        for day, name in found.items():
            by_name.setdefault(name, []).append(np.datetime64(day, "D"))
        return {name: np.array(days) for name, days in by_name.items()}

    def fitted(self, rows: CalendarRows) -> CalendarFeature:
        """Return the feature with the names of the holidays in the rows."""
        if not self.each:
            return self
        by_name = self._days_by_name(rows)
        seen = sorted(name for name, days in by_name.items() if rows.count(days).any())
        return Holidays(self.place, True, tuple(seen))

    def columns(self, rows: CalendarRows) -> dict[str, Array]:
        """Return one column, or one for each name."""
        by_name = self._days_by_name(rows)
        if rows.longest > 1:
            by_name = {name: days[np.is_busday(days)] for name, days in by_name.items()}
        if self.each:
            none = np.array([], dtype="datetime64[D]")
            return {name: rows.count(by_name.get(name, none)) for name in self.names}
        every = np.unique(np.concatenate(list(by_name.values())))
        return {f"holiday_{self.place}": rows.count(every)}


@frozen
class Event(CalendarFeature):
    """Days that the user names, past and future: one column."""

    name: str
    days: tuple[str, ...]

    def columns(self, rows: CalendarRows) -> dict[str, Array]:
        """Return the number of these days in each row."""
        return {self.name: rows.count(np.unique(np.array(self.days, dtype="datetime64[D]")))}


@frozen
class Calendar:
    """Features of the calendar that a model takes as inputs."""

    features: tuple[CalendarFeature, ...] = ()

    @staticmethod
    def of(stated: Any) -> Calendar:
        """Return what the parameter `calendar` states: None, a word, a dict, or several."""
        if stated is None:
            return Calendar()
        if isinstance(stated, str | Mapping):
            items = [stated]
        else:
            items = list(stated)
        features: list[CalendarFeature] = []
        for item in items:
            features.extend(_features(item))
        return Calendar(tuple(features))

    def fitted(self, index: Any) -> Calendar:
        """Return the calendar with what it keeps of the dates of a fit; raise if there are none."""
        if not self.features:
            return self
        if not is_dates(index):
            raise ValueError(
                "calendar needs the dates of the rows: give a frame with a DatetimeIndex or a "
                "PeriodIndex, or a frame of polars with a column of dates."
            )
        rows = CalendarRows.of(index)
        for feature in self.features:
            name = getattr(feature, "name", "")
            if rows.longest > MAX_STEP_DAYS.get(name, rows.longest):
                raise ValueError(
                    f"calendar feature {name!r} is the same in all rows, each of "
                    f"{rows.longest} days; leave it out."
                )
        return Calendar(tuple(feature.fitted(rows) for feature in self.features))

    def columns(self, index: Any) -> dict[str, Array]:
        """Return the columns of all features at given dates, by their names."""
        found: dict[str, Array] = {}
        if not self.features:
            return found
        rows = CalendarRows.of(index)
        for feature in self.features:
            found.update(feature.columns(rows))
        return found


def _features(item: Any) -> list[CalendarFeature]:
    """Return the features of one entry of `calendar`."""
    if isinstance(item, Mapping):
        return [_event(str(name), days) for name, days in item.items()]
    if not isinstance(item, str):
        raise ValueError(f"calendar holds words and dicts of events, got {item!r}.")
    if item in DUMMIES:
        return [Dummies(item)]
    if item in NAMES:
        return [DayProperty(item)]
    for prefix in (HOLIDAYS, EACH_HOLIDAY):
        if item.startswith(prefix) and len(item) > len(prefix):
            return [Holidays(item.removeprefix(prefix), prefix == EACH_HOLIDAY)]
    raise ValueError(
        f"calendar has no feature {item!r}; it has {', '.join(NAMES)}, 'holidays:DE' and "
        "'each_holiday:DE' with any country, and dicts of events, {'sale': ['2024-11-29']}."
    )


def _event(name: str, days: Any) -> Event:
    if isinstance(days, str) or not np.iterable(days):
        several = [days]
    else:
        several = list(days)
    try:
        known = tuple(str(np.datetime64(str(day)[:10], "D")) for day in several)
    except ValueError as error:
        raise ValueError(f"Event {name!r} has {days!r}; give dates like '2024-11-29'.") from error
    if not known:
        raise ValueError(f"Event {name!r} has no dates; give those of the past and the future.")
    return Event(name, known)
