"""Dates in the forms in which people write them, read alike or refused."""

import numpy as np
import pandas as pd
import pytest

from regfactor.cli.errors import BadInput
from regfactor.cli.times import parsed_times, spelled

DAYS = pd.date_range("2024-01-29", periods=40, freq="D")
MONTHS = pd.date_range("2024-01-01", periods=15, freq="MS")
FORMS = [
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%Y%m%d",
    "%d.%m.%Y %H:%M",
]


def column(words):
    numbers = all(word.isdigit() for word in words)
    return pd.Series([float(w) for w in words]) if numbers else pd.Series(words, dtype=object)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("days", [DAYS, MONTHS], ids=["days", "months"])
def test_forms_of_dates_are_read_and_written_alike(form, days):
    words = list(days.strftime(form))
    index, found = parsed_times(column(words), "day")
    assert (index == days).all()
    assert spelled(index, found) == words


def test_weeks_of_the_year_begin_on_monday():
    words = ["2020-W52", "2020-W53", "2021-W01", "2021-W02"]
    index, form = parsed_times(column(words), "week")
    assert (np.diff(index) == np.timedelta64(7, "D")).all() and index[0] == pd.Timestamp(
        2020, 12, 21
    )
    assert spelled(index, form) == words
    with pytest.raises(BadInput, match=r"weeks, but row 2 holds '2021-W53'"):
        parsed_times(column(["2021-W52", "2021-W53", "2022-W01"]), "week")


def test_days_and_months_that_can_change_places_are_refused():
    words = [f"01/{month:02d}/2024" for month in range(1, 9)]  # months, or the days of January
    with pytest.raises(BadInput, match="day or with the month first"):
        parsed_times(column(words), "day")
    words = [f"01/{m:02d}/{y}" for y in (2023, 2024) for m in range(1, 13)]
    index, form = parsed_times(column(words), "day")
    assert form == "%d/%m/%Y" and len(set(index.month)) == 12


def test_mixed_forms_are_refused_with_their_row():
    with pytest.raises(BadInput, match=r"row 3 holds '31.01.2024'"):
        parsed_times(column(["2024-01-29", "2024-01-30", "31.01.2024", "2024-02-01"]), "day")


def test_summer_time_is_one_time_by_its_offsets():
    local = pd.date_range("2024-10-27", periods=5, freq="h", tz="Europe/Berlin")
    index, _ = parsed_times(column([t.isoformat() for t in local]), "hour")
    assert (np.diff(index) == np.timedelta64(1, "h")).all()
