"""Dates as people write them: 2024-01-31, 31.01.2024, 31/01/2024 or 01/31/2024, with a time of day or without."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any

from regfactor.cli.errors import BadInput

ISO = re.compile(r"\d{4}-\d{1,2}(-\d{1,2})?([T ].*)?$")
OTHER = re.compile(r"(\d{1,2}([./-])\d{1,2}\2\d{4}|\d{4}([./])\d{1,2}\3\d{1,2})( \d{1,2}:\d{2}(:\d{2})?)?$")
FORMS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d")
CLOCKS = ("", " %H:%M", " %H:%M:%S")


def are_dates(words: Iterable[str]) -> bool:
    """Whether all words look like dates."""
    words = list(words)
    return all(ISO.match(word) for word in words) or all(OTHER.match(word) for word in words)


def parsed(values: Any, name: str, known_form: str | None = None) -> tuple[Any, str | None]:
    """Return dates as an index, and the form in which they are written (None for 2024-01-31), where it is not known."""
    pd = importlib.import_module("pandas")
    known = [v for v in values if isinstance(v, str)]
    if not known or not all(OTHER.match(v) for v in known):
        return pd.DatetimeIndex(pd.to_datetime(values, format="ISO8601")), None
    found = []
    forms = [f + c for f in FORMS for c in CLOCKS] if known_form is None else [known_form]
    for form in forms:
        index = pd.DatetimeIndex(pd.to_datetime(values, format=form, errors="coerce"))
        if index.notna().sum() == len(known):
            found.append((index, form))
    if len(found) > 1:  # the day or the month first: a series stands in order, and has no longer steps than it must
        found = [one for one in found if one[0].dropna().is_monotonic_increasing] or found
        longest = [one[0].dropna().to_series().diff().fillna(pd.Timedelta(0)).max() for one in found]
        found = [one for one, step in zip(found, longest, strict=True) if step == min(longest)]
    if len(found) > 1:
        raise BadInput(f"The dates in {name!r} can be read with the day or with the month first, such as {known[0]!r}; "
                       "write them like 2024-01-31.")  # fmt: skip
    if not found:
        raise ValueError(f"{known[0]!r} and the others follow no single form")
    return found[0]
