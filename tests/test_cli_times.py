"""Series, and the times of their rows in all the ways in which people write them."""

import numpy as np
import pandas as pd
import pytest
from console import cells, command, refused, series  # noqa: F401


def test_series_are_forecast(series):  # noqa: F811
    model = series.with_name("m.skops")
    assert "  times    month" in command("forecast", series, "--horizon", 1).out
    done = command("forecast", series, "--horizon", 10, "--json", "--save", model, "--force")
    assert done.code == 0, done
    said = pd.read_csv(series.with_name("shop.forecast.csv"))
    truth = pd.read_csv(series.with_name("new.csv"))
    assert list(said["month"]) == list(truth["month"])
    inside = [
        truth[c].between(said[f"{c}_lower"], said[f"{c}_upper"]).mean() for c in ("sales", "visits")
    ]
    assert np.mean(inside) >= 0.8 and done.record["tried"]["within"] > 0.6
    assert np.abs(said["sales"] - truth["sales"]).mean() < 6
    assert command("score", model, series.with_name("new.csv")).code == 0
    assert pd.read_csv(series.with_name("new.score.csv"))["month"][0] == "2019-07-01"


def test_series_that_are_forecast_no_better_than_by_their_last_value_are_named(series):  # noqa: F811
    rng, t = np.random.default_rng(0), np.arange(80)
    wave, stair = (
        10 * np.sin(t / 2) + rng.normal(size=80),
        10.0 * (t // 20) + 0.1 * rng.normal(size=80),
    )
    pd.DataFrame({"wave": wave, "stair": stair}).to_csv(series, index=False)
    done = command("forecast", series, "--horizon", 8, "--json")
    tried = done.record["tried"]
    pairs = zip(tried["mase_by_series"], tried["naive_mase_by_series"], strict=True)
    worse = [n for n, (a, b) in zip(done.record["series"], pairs, strict=True) if a >= b]
    report = series.with_name("shop.forecast.html").read_text(encoding="utf-8")
    assert worse and f"No smaller for {', '.join(worse)}." in report, done


def days(form):
    return pd.date_range("2020-01-01", periods=80).strftime(form)


def quarters(between):
    return [f"{1990 + i // 4}{between}{i % 4 + 1}" for i in range(80)]


@pytest.mark.parametrize(
    ("change", "first", "note"),
    [
        (lambda f: f.drop(index=[5, 40]), "2018-09-01", "2 times"),
        (lambda f: f.sample(frac=1, random_state=0), "2018-09-01", "order"),
        (lambda f: f.assign(month=quarters("Q")), "2010Q1", ""),
        (lambda f: f.assign(month=quarters("-Q")), "2010-Q1", ""),
        (
            lambda f: f.assign(month=quarters("-q")).sample(frac=1, random_state=0),
            "2010-Q1",
            "order",
        ),
        (lambda f: f.assign(month=pd.to_datetime(f["month"]).dt.strftime("%b %Y")), "Sep 2018", ""),
        (
            lambda f: f.assign(month=pd.to_datetime(f["month"]).dt.strftime("%B %Y")),
            "September 2018",
            "",
        ),
        (lambda f: f.assign(month=[f"May {1900 + i}" for i in range(80)]), "May 1980", ""),
        (lambda f: f.assign(month=np.arange(1900, 1980)), "1980", ""),
        (lambda f: f.assign(month=f["month"].str[:7]), "2018-09", ""),
        (lambda f: f.drop(columns="month"), "81", "No column holds the times of the rows"),
        (
            lambda f: f.assign(month=[f"shop {i}" for i in range(80)]),
            "81",
            "No column holds the times of the rows",
        ),
        (
            lambda f: f.assign(month=pd.date_range("2020-01-01", periods=80)).drop(index=[5, 6]),
            "2020-03-21",
            "2 times",
        ),
        (lambda f: f.assign(month=days("%d.%m.%Y")), "21.03.2020", ""),
        (lambda f: f.assign(month=days("%m/%d/%Y")), "03/21/2020", ""),
        (
            lambda f: f.assign(month=days("%d/%m/%Y")).sample(frac=1, random_state=0),
            "21/03/2020",
            "order",
        ),
        (lambda f: f.assign(month=days("%Y/%m/%d %H:%M")), "2020/03/21 00:00", ""),
        (
            lambda f: f.assign(month=pd.to_datetime(f["month"]).dt.strftime("%m/%d/%Y")),
            "09/01/2018",
            "",
        ),
    ],
)
def test_times_of_all_sorts(series, change, first, note):  # noqa: F811
    frame = change(pd.read_csv(series))
    frame.to_csv(series, index=False)
    done = command("forecast", series, "--horizon", 2, "--force")
    assert done.code == 0 and note in done.err, done
    assert cells(series.with_name("shop.forecast.csv")).iloc[0, 0] == first


@pytest.mark.parametrize(
    "times",
    [
        [*range(0, 158, 2), 157],
        list(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(80) ** 2, "D")),
    ],
)
def test_times_without_a_rule_are_refused_unless_they_are_ignored(series, times):  # noqa: F811
    pd.read_csv(series).assign(month=times).to_csv(series, index=False)
    done = command("forecast", series, "--time", "month")
    refused(done, "'month' follow no rule", "--resample D", "--ignore month")
    assert command("forecast", series, "--ignore", "month", "--horizon", 1).code == 0
    assert cells(series.with_name("shop.forecast.csv")).iloc[0, 0] == "81"


@pytest.mark.parametrize(
    ("times", "odd"),
    [
        (days("%Y-%m-%d"), "soon"),
        (days("%d.%m.%Y"), "soon"),
        (days("%Y-%m-%d"), "2020-02-31"),
        (days("%d.%m.%Y"), "31.02.2020"),
        (days("%m/%d/%Y"), "2020-01-06"),
        (quarters("-Q"), "1991-Q5"),
        ([f"May {1900 + i}" for i in range(80)], "Mai 1905"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_what_is_no_date_among_dates_is_named_with_its_row(series, times, odd, named):  # noqa: F811
    times = [*times[:5], odd, *times[6:]]
    pd.read_csv(series).assign(month=times).to_csv(series, index=False)
    done = command("forecast", series, *(["--time", "month"] if named else []))
    refused(
        done, "Column 'month' holds", f"but row 6 holds {odd!r}. Correct it, or leave the row out"
    )
    if not named:
        assert command("forecast", series, "--ignore", "month", "--horizon", 1).code == 0


def test_times_that_are_none_are_refused_by_the_first(series):  # noqa: F811
    frame = pd.read_csv(series)
    frame.assign(month=[f"week {i}" for i in range(80)]).to_csv(series, index=False)
    refused(
        command("forecast", series, "--time", "month"),
        "'month' holds no dates",
        "'week 0' in row 1",
        "--time",
    )
    times = quarters("Q")
    for odd, said in (
        ("", "'month' is empty in row 2"),
        ("soon", "holds quarters, but row 2 holds 'soon'"),
    ):
        frame.assign(month=[times[0], odd, *times[2:]]).to_csv(series, index=False)
        refused(command("forecast", series, "--time", "month"), said)


def test_dates_of_new_rows_are_read_as_those_of_the_fit(series):  # noqa: F811
    until = pd.date_range(end="2020-03-03", periods=80).strftime("%m/%d/%Y")
    frame = pd.read_csv(series).assign(month=until)
    frame.to_csv(series, index=False)
    model, new = series.with_name("m.skops"), series.with_name("new.csv")
    assert command("forecast", series, "--horizon", 2, "--save", model).code == 0
    frame[-1:].assign(month="03/04/2020").to_csv(
        new, index=False
    )  # the fourth of March, as the fit tells
    assert command("score", model, new).code == 0
    assert list(cells(new.with_name("new.score.csv"))["month"]) == ["03/05/2020", "03/06/2020"]
    frame.assign(month=quarters("-Q")).to_csv(series, index=False)
    assert command("forecast", series, "--horizon", 2, "--save", model, "--force").code == 0
    frame[-1:].assign(month="2010-Q1").to_csv(new, index=False)
    assert command("score", model, new, "--force").code == 0
    assert list(cells(new.with_name("new.score.csv"))["month"]) == ["2010-Q2", "2010-Q3"]
    frame[:12].assign(month="01/02/2020").to_csv(new, index=False)
    refused(command("forecast", new, "--force"), "can be read with the day or with the month first")
