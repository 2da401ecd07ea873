"""Dates as people write them: 2024-01-31, 31.01.2024, 01/31/24, 31 Jan 2024, 2024-Q1, 2024-W05."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np

from regfactor.cli.errors import BadInput
from regfactor.cli.tables import pandas

ISO = re.compile(r"\d{4}-\d{1,2}(-\d{1,2})?([T ].*)?$")
OFFSET = re.compile(r"\d([+-]\d{2}:?\d{2}|Z)$")
MONTH = re.compile(r"\d{4}-\d{2}$")
MONTH_FORM = "%Y-%m"
QUARTER = re.compile(r"\d{4}(-?)Q[1-4]$", re.IGNORECASE)
WEEK = re.compile(r"\d{4}(-?)W\d{2}$", re.IGNORECASE)  # of ISO 8601, from its Monday
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
NAMED = re.compile(rf"({'|'.join(f'{m[:3]}({m[3:]})?' for m in MONTHS)}) \d{{4}}$", re.IGNORECASE)
NAME = rf"({'|'.join(f'{m[:3]}({m[3:]})?' for m in MONTHS)})"
OTHER = re.compile(
    r"(\d{1,2}([./-])\d{1,2}\2\d{4}|\d{2}([./-])\d{2}\3\d{2}|\d{4}([./])\d{1,2}\4\d{1,2}"
    rf"|\d{{1,2}}[ -]{NAME}[ -](\d{{4}}|\d{{2}})|{NAME} \d{{1,2}}, \d{{4}})"
    r"( \d{1,2}:\d{2}(:\d{2})?)?$",
    re.IGNORECASE,
)
YEARS_LAST = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
YEARS_FIRST = ("%Y/%m/%d", "%Y.%m.%d")
SHORT_YEARS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%y/%m/%d")
NAMED_MONTHS = ("%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y")
FORMS = (*YEARS_LAST, *YEARS_FIRST, *SHORT_YEARS, *NAMED_MONTHS)
CLOCKS = ("", " %H:%M", " %H:%M:%S")
FIRST_DAY = 19000101  # as a number; earlier ones are amounts
LAST_DAY = 21001231


def are_dates(words: Iterable[str]) -> bool:
    """Whether all words look like dates."""
    words = list(words)
    return all(ISO.match(word) for word in words) or all(OTHER.match(word) for word in words)


def are_periods(words: Iterable[str]) -> bool:
    """Whether all words are quarters, or all are months by their names.

    Few of them may as well be categories.
    """
    words = list(words)
    return any(all(kind.match(word) for word in words) for kind in (QUARTER, NAMED, WEEK))


def are_day_numbers(values: Any) -> bool:
    """Whether whole numbers are days, such as 20240131."""
    if len(values) < 3 or values.min() < FIRST_DAY or values.max() > LAST_DAY:
        return False
    days = pandas().to_datetime([f"{v:.0f}" for v in values], format="%Y%m%d", errors="coerce")
    return bool(days.notna().all())


def parsed(values: Any, name: str, known_form: str | None = None) -> tuple[Any, str | None]:
    """Return dates as an index, and the format in which they are written (None for 2024-01-31)."""
    pd = pandas()
    known = [v for v in values if isinstance(v, str)]
    if known and all(NAMED.match(v) for v in known):
        short = [f"{v[:3]} {v[-4:]}" if isinstance(v, str) else None for v in values]
        whole = any(len(v) > len("Jan 2024") for v in known)
        return pd.DatetimeIndex(
            pd.to_datetime(short, format="%b %Y")
        ), "%B %Y" if whole else "%b %Y"
    if known and all(WEEK.match(v) for v in known):
        return _weeks(values, name, known)
    if not known or not all(OTHER.match(v) for v in known):
        # offsets of summer and winter differ, so that only one zone for all holds both
        offsets = any(OFFSET.search(word) for word in known)
        try:
            index = pd.DatetimeIndex(pd.to_datetime(values, format="ISO8601", utc=offsets))
        except (ValueError, TypeError) as error:
            raise _no_dates(values, name, known_form) from error
        return index, MONTH_FORM if known and all(MONTH.match(v) for v in known) else None
    found = []
    for form in _forms(known_form):
        index = pd.DatetimeIndex(pd.to_datetime(values, format=form, errors="coerce"))
        if index.notna().sum() == len(known):
            found.append((index, form))
    found = _in_order(found)
    if len(found) > 1:
        raise BadInput(
            f"The dates in {name!r} can be read with the day or with the month first, such as "
            f"{known[0]!r}; write them like 2024-01-31."
        )
    if not found:
        raise _no_dates(values, name, known_form)
    return found[0]


def _in_order(found: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Return the readings, day or month first, under which rows are in order at regular times.

    Where none is regular, that with the shortest steps.
    """
    pd = pandas()
    if len(found) < 2 or all(found[0][0].equals(one[0]) for one in found):
        return found[:1]
    found = [one for one in found if one[0].dropna().is_monotonic_increasing] or found
    regular = [one for one in found if _is_regular(one[0].dropna())]
    if regular:
        return regular
    longest = [one[0].dropna().to_series().diff().fillna(pd.Timedelta(0)).max() for one in found]
    return [one for one, step in zip(found, longest, strict=True) if step == min(longest)]


def _is_regular(index: Any) -> bool:
    """Whether times follow each other in equal steps, also of months."""
    times = index.drop_duplicates()
    if len(times) < 3:
        return False
    months = np.diff(12 * times.year + times.month)
    is_monthly = len(set(times.day)) == 1 and len(set(months)) == 1
    return is_monthly or len(set(np.diff(times.asi8))) == 1


def _weeks(values: Any, name: str, known: list[str]) -> tuple[Any, str]:
    """Return weeks as their Mondays."""
    pd = pandas()
    days = [f"{v[:4]}-W{v[-2:]}-1" if isinstance(v, str) else None for v in values]
    index = pd.DatetimeIndex(pd.to_datetime(days, format="%G-W%V-%u", errors="coerce"))
    if index.notna().sum() < len(known):
        at = next(i for i, v in enumerate(values) if isinstance(v, str) and index.isna()[i])
        raise odd_cell(name, "weeks", at, values[at])
    return index, "%G-W%V" if "-" in known[0] else "%GW%V"


def odd_date(values: Any, known_form: str | None = None) -> int | None:
    """Return the position of the first word that is not a date though most are.

    None where all are, or too few.
    """
    pd = pandas()
    words = np.array([isinstance(v, str) for v in values], dtype=bool)
    kinds = (ISO, OTHER, QUARTER, NAMED)
    alike = sum(any(kind.match(v) for kind in kinds) for v in values[words])
    if alike <= words.sum() / 2:
        return None
    read = [
        pd.to_datetime(values, format=form, errors="coerce", utc=True).notna()
        for form in ("ISO8601", *_forms(known_form))
    ]
    read += [
        np.array([isinstance(v, str) and bool(kind.match(v)) for v in values])
        for kind in (QUARTER, NAMED)
    ]
    odd = words & ~max(read, key=np.sum)
    if 0 < odd.sum() < words.sum() / 2:
        return int(np.argmax(odd))
    return None


def odd_cell(name: str, held: str, at: int, value: str) -> BadInput:
    """Return what to say of the one cell that is not like the others."""
    return BadInput(
        f"Column {name!r} holds {held}, but row {at + 1} holds {value!r}. Correct it, or leave the "
        "row out."
    )


def _forms(known: str | None) -> list[str]:
    if known is None:
        return [f + c for f in FORMS for c in CLOCKS]
    return [known]


def _no_dates(values: Any, name: str, known_form: str | None) -> BadInput:
    at = odd_date(values, known_form)
    if at is not None:
        return odd_cell(name, "dates", at, values[at])
    if known_form is None:
        like = "2024-01-31 or 31.01.2024"
    else:
        like = f"{date(2024, 1, 31):{known_form}}, as in the fit"
    first = int(np.argmax(pandas().notna(values)))
    return BadInput(
        f"The time column {name!r} holds no dates of one form, like {like}; it has "
        f"{values[first]!r} in row {first + 1}. Correct them, or name another column by --time."
    )
