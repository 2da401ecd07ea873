"""Dates are never taken for regular: what is wrong is named with its remedy, and the future has the right index."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from regfactor import AutoForecaster, RegularizedARMA
from regfactor.series import regular_rows
from regfactor.series.regular_times import frequency, regular_grid, season_of
from regfactor.series.shapes import SeriesRows


def values(n_rows, seed=0):
    return 50 + np.random.default_rng(seed).normal(size=n_rows).cumsum()


def series(index):
    return pd.Series(values(len(index)), index=index, name="sales")


def bare(index):
    """The same times without their frequency, as a file gives them."""
    return pd.DatetimeIndex(list(index))


@pytest.fixture(scope="module")
def cheap():
    """A model of which only the times matter here."""
    return RegularizedARMA(p=0, q=0, d=1)


RULES = {
    "ME": ("2023-01-31", ["2024-05-31", "2024-06-30"]),
    "MS": ("2023-01-01", ["2024-05-01", "2024-06-01"]),
    "QE-DEC": ("2020-03-31", ["2024-03-31", "2024-06-30"]),
    "W-SUN": ("2023-12-03", ["2024-03-24", "2024-03-31"]),
    "B": ("2024-01-01", ["2024-01-23", "2024-01-24"]),
    "D": ("2024-02-13", ["2024-02-29", "2024-03-01"]),
    "YS-JAN": ("2000-01-01", ["2016-01-01", "2017-01-01"]),
    "BME": ("2023-01-31", ["2024-05-31", "2024-06-28"]),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_future_of_dates_without_a_frequency(rule, cheap):
    start, expected = RULES[rule]
    index = bare(pd.date_range(start, periods=16, freq=rule))
    made = cheap.fit(series(index)).forecast(2).to_frame()
    assert list(made.index) == list(map(pd.Timestamp, expected))


def test_the_same_day_of_each_month(cheap):
    index = pd.DatetimeIndex([f"2024-{month:02d}-15" for month in range(1, 13)])
    made = cheap.fit(series(index)).forecast(2).to_frame()
    assert list(made.index) == [pd.Timestamp("2025-01-15"), pd.Timestamp("2025-02-15")]
    assert season_of(index) == 12


@pytest.mark.parametrize("date", ["2024-03-30", "2024-10-26"])
def test_hours_and_days_over_a_change_of_clocks(date, cheap):
    hours = bare(pd.date_range(date, periods=40, freq="h", tz="Europe/Berlin"))
    made = cheap.fit(series(hours)).forecast(2).to_frame()
    assert made.index[0] - hours[-1] == pd.Timedelta("1h")
    assert str(made.index.tz) == "Europe/Berlin"
    days = bare(pd.date_range(date, periods=10, freq="D", tz="Europe/Berlin") - pd.Timedelta("5D"))
    days = bare(pd.date_range(days[0].normalize(), periods=10, freq="D"))
    made = cheap.fit(series(days)).forecast(3).to_frame()
    assert all(time.hour == 0 for time in made.index)
    assert [time.date() for time in made.index] == [
        (days[-1] + pd.DateOffset(days=step)).date() for step in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "freq, season",
    [("M", 12), ("Q", 4), ("D", 7), ("h", 24), ("W-SUN", 52), ("B", 5), ("Y", 1)],
)
@pytest.mark.filterwarnings("ignore:Period with BDay:FutureWarning")
@pytest.mark.filterwarnings("ignore:PeriodDtype:FutureWarning")
def test_periods(freq, season, cheap):
    index = pd.period_range("2020-01-01", periods=12, freq=freq, name="when")
    made = cheap.fit(series(index)).forecast(2).to_frame()
    assert list(made.index) == [index[-1] + 1, index[-1] + 2]
    assert made.index.name == "when" and season_of(index) == season


# ---------------------------------------------------------------- mistakes on purpose

DAYS = pd.date_range("2024-01-01", periods=30, freq="D")


def shuffled(index):
    return index[np.random.default_rng(0).permutation(len(index))]


MISTAKES = {
    "shuffled": (shuffled(DAYS), r"order of their times: row \d+ .*X.sort_index\(\)"),
    "newest first": (DAYS[::-1], r"row 1 \(2024-01-29 00:00:00\) comes after 2024-01-30"),
    "repeated": (DAYS[:20].append(DAYS[19:29]), r"2024-01-20.* rows 19 and 20.*groupby\(level=0\)"),
    "left out": (DAYS.delete([5, 6]), r"2 times are left out, the first is 2024-01-06.*regular_r"),
    "no rule": (
        pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-09", "2024-02-20", "2024-02-23"]),
        r"no rule: steps are from 1 days .* to 42 days.*resample='mean'",
    ),
    "missing": (DAYS[:10].append(pd.DatetimeIndex([None])), "time of row 10 is missing"),
    "a month left out": (
        pd.date_range("2020-01-01", periods=24, freq="MS").delete(7),
        "1 times are left out, the first is 2020-08-01",
    ),
    "a holiday left out": (
        pd.date_range("2024-01-01", periods=40, freq="B").delete(12),
        "1 times are left out, the first is 2024-01-17",
    ),
    "a quarter left out": (
        pd.period_range("2019Q1", periods=20, freq="Q").delete(4),
        "1 times are left out, the first is 2020Q1",
    ),
    "a year left out": (pd.Index([2001, 2002, 2003, 2005, 2006]), "the first is 2004"),
    "words": (
        pd.Index([f"2024-01-{day:02d}" for day in range(1, 31)]),
        r"as words.*pd.to_datetime",
    ),
    "quarters as words": (pd.Index([f"{year}Q1" for year in range(1990, 2020)]), "PeriodIndex"),
    "clocks set back": (
        pd.date_range("2024-10-27", periods=8, freq="h", tz="Europe/Berlin").tz_localize(None),
        r"tz_localize\('Europe/Berlin', ambiguous='infer'\)",
    ),
    "clocks set forward": (
        pd.date_range("2024-03-31", periods=8, freq="h", tz="Europe/Berlin").tz_localize(None),
        r"1 times are left out, the first is 2024-03-31 02:00.*tz_localize",
    ),
    "two levels": (pd.MultiIndex.from_product([["a", "b"], DAYS[:15]]), r"reset_index\(\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_irregular_times_are_refused_with_the_remedy(mistake, cheap):
    index, said = MISTAKES[mistake]
    for model in (AutoForecaster(), cheap):
        with pytest.raises(ValueError, match=said):
            model.fit(series(index))


def test_words_that_are_no_dates_only_name_rows(cheap):
    index = pd.Index([f"row {j}" for j in range(20)])
    assert list(cheap.fit(series(index)).forecast(2).to_frame().index) == [20, 21]


def test_new_rows_must_follow(cheap):
    y = series(pd.date_range("2024-01-01", periods=40, freq="D"))
    model = cheap.fit(y[:30])
    with pytest.raises(ValueError, match="is at 2024-02-02.*goes on at 2024-01-31.*rows of NaN"):
        model.update(y[32:35])
    with pytest.raises(ValueError, match="is at 2024-01-10"):
        model.update(y[9:12])
    with pytest.raises(ValueError, match="same kind"):
        model.update(y[30:33].to_period())
    assert model.forecast(1).to_frame().index[0] == y.index[30]
    assert model.update(y[30:33]).forecast(1).to_frame().index[0] == y.index[33]
    assert (
        model.update(y[33:35].reset_index(drop=True)).forecast(1).to_frame().index[0] == y.index[35]
    )


# ---------------------------------------------------------------- brought to regular times


def test_left_out_rows_become_missing_values():
    days = pd.date_range("2024-01-01", periods=30, freq="D")
    y = series(days)
    gap = y.drop(days[[5, 6, 20]])
    found = regular_rows(gap.iloc[::-1])
    pd.testing.assert_index_equal(found.index, days, check_names=False)
    assert found.isna().sum() == 3 and found.name == "sales"
    pd.testing.assert_series_equal(found.dropna(), gap, check_freq=False)
    quarters = pd.DataFrame({"a": values(8)}, pd.period_range("2020Q1", periods=8, freq="Q"))
    assert regular_rows(quarters.drop(quarters.index[3]))["a"].isna().tolist() == [
        j == 3 for j in range(8)
    ]
    years = pd.Series([1.0, 2, 4, 5], index=[2001, 2002, 2004, 2005])
    assert regular_rows(years).index.tolist() == [2001, 2002, 2003, 2004, 2005]
    business = series(pd.date_range("2024-01-01", periods=20, freq="B"))
    assert frequency(regular_rows(business.drop(business.index[7])).index) == "B"


def test_resampling_is_only_on_request():
    times = pd.DatetimeIndex(["2024-01-01 05:00", "2024-01-01 20:00", "2024-01-03 07:30"])
    y = pd.Series([1.0, 3.0, 10.0], index=times)
    np.testing.assert_array_equal(regular_rows(y, "D", "mean"), [2.0, np.nan, 10.0])
    np.testing.assert_array_equal(regular_rows(y, "D", "sum"), [4.0, np.nan, 10.0])
    with pytest.raises(ValueError, match="not of the rule 'D', the first is 2024-01-01 20:00"):
        regular_rows(y, "D")
    with pytest.raises(ValueError, match="follow no rule"):
        regular_rows(y)
    with pytest.raises(ValueError, match="State the rule"):
        regular_rows(y, resample="mean")
    with pytest.raises(ValueError, match="one of .*'mean'"):
        regular_rows(y, "D", resample="average")
    with pytest.raises(ValueError, match="occurs|is that of rows 0 and 1"):
        regular_rows(pd.Series([1.0, 2.0], index=times[[0, 0]]))
    with pytest.raises(ValueError, match="no times"):
        regular_rows(values(5))


def test_tables_of_all_shapes_are_made_regular():
    days = pd.date_range("2024-01-01", periods=6, freq="D").delete(2)
    long = pd.DataFrame({"unique_id": ["a"] * 5 + ["b"] * 5, "ds": [*days, *days], "y": range(10)})
    found = regular_rows(long)
    assert list(found.columns) == ["unique_id", "ds", "y"] and len(found) == 12
    assert found["y"].isna().sum() == 2
    polars = pl.DataFrame({"day": [d.date() for d in days], "a": values(5)})
    found = regular_rows(polars)
    assert found.schema["day"] == pl.Date and len(found) == 6
    assert np.isnan(found["a"].to_numpy()).sum() == 1


# ---------------------------------------------------------------- shapes


def wide(n_rows=40):
    index = pd.date_range("2021-01-01", periods=n_rows, freq="MS", name="month")
    return pd.DataFrame({"a": values(n_rows, 1), "b": values(n_rows, 2)}, index=index)


def long_of(frame, names=("unique_id", "ds", "y")):
    series_name, time, value = names
    melted = (
        frame.rename_axis(time).reset_index().melt(time, var_name=series_name, value_name=value)
    )
    return melted[[series_name, time, value]]


def test_long_tables_give_long_forecasts():
    frame = wide()
    plain = AutoForecaster(season=1).fit(frame).forecast(3, level=0.9)
    for names in (("unique_id", "ds", "y"), ("shop", "date", "sold")):
        long = long_of(frame, names).sample(frac=1, random_state=0)
        ahead = AutoForecaster(season=1).fit(long).forecast(3, level=0.9).to_frame()
        assert list(ahead.columns) == [*names, f"{names[2]}_lower", f"{names[2]}_upper"]
        found = ahead.pivot(index=names[1], columns=names[0], values=names[2])[["a", "b"]]
        np.testing.assert_allclose(found, plain.mean, rtol=1e-6)
        assert list(found.index) == list(plain.to_frame().index)


def test_series_of_a_long_table_that_start_late_have_missing_values():
    long = long_of(wide())[12:]
    rows = SeriesRows.of(long)
    assert rows.table["a"].isna().sum() == 12 and rows.table["b"].notna().all()
    model = AutoForecaster(season=1).fit(long)
    new = pd.DataFrame({"unique_id": ["b"], "ds": [pd.Timestamp("2024-05-01")], "y": [50.0]})
    model.update(new)
    assert model.forecast(1).to_frame()["ds"].iloc[0] == pd.Timestamp("2024-06-01")
    with pytest.raises(ValueError, match="'c' was not in the fit"):
        model.update(new.assign(unique_id="c", ds=pd.Timestamp("2024-06-01")))


def test_bad_long_tables_are_refused():
    long = long_of(wide())
    with pytest.raises(ValueError, match=r"'b' has several rows at 2021-01-01.*groupby"):
        AutoForecaster().fit(pd.concat([long, long[long.unique_id == "b"]]))
    with pytest.raises(ValueError, match=r"Row 3 has no value in 'ds'"):
        AutoForecaster().fit(long.assign(ds=long.ds.where(long.index != 3)))
    with pytest.raises(ValueError, match="which is no date"):
        AutoForecaster().fit(long.assign(ds="soon"))
    with pytest.raises(ValueError, match="further column 'price'.*nixtla"):
        AutoForecaster().fit(long.assign(price=1.0))
    without = long[long.ds != pd.Timestamp("2022-05-01")]
    with pytest.raises(ValueError, match="left out, the first is 2022-05-01"):
        AutoForecaster().fit(without)


def test_polars_with_a_column_of_dates():
    frame = wide()
    plain = AutoForecaster(season=1).fit(frame).forecast(2, level=(0.5, 0.9))
    dates = [day.date() for day in frame.index]
    table = pl.DataFrame({"a": frame["a"].to_numpy(), "when": dates, "b": frame["b"].to_numpy()})
    model = AutoForecaster(season=1).fit(table)
    made = model.forecast(2, level=(0.5, 0.9)).to_frame()
    assert made.columns[:3] == ["when", "a", "b"] and made.schema["when"] == pl.Date
    assert made["when"].to_list() == [day.date() for day in plain.to_frame().index]
    np.testing.assert_allclose(made.select("a", "b").to_numpy(), plain.mean)
    np.testing.assert_allclose(made["b_upper_90"].to_numpy(), plain.upper[1, :, 1])
    assert model.complete().columns == ["when", "a", "b"]
    with pytest.raises(ValueError, match="order of their times"):
        AutoForecaster().fit(table.reverse())
    with pytest.raises(ValueError, match="collect"):
        AutoForecaster().fit(table.lazy())


def test_polars_time_zones_and_long_tables():
    hours = pd.date_range("2024-10-26", periods=48, freq="h", tz="Europe/Berlin")
    column = pl.Series("at", hours.tz_convert("UTC").tz_localize(None).to_numpy())
    column = column.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    table = pl.DataFrame({"at": column, "a": values(48)})
    made = RegularizedARMA(p=0, q=0, d=1).fit(table).forecast(2).to_frame()
    assert made.schema["at"].time_zone == "Europe/Berlin"
    assert made["at"][0] - column[-1] == pd.Timedelta("1h").to_pytimedelta()
    long = pl.DataFrame(
        {
            "series": ["a"] * 20 + ["b"] * 20,
            "day": [day.date() for day in DAYS[:20]] * 2,
            "value": values(40),
        }
    )
    made = RegularizedARMA(p=0, q=0, d=1).fit(long).forecast(2).to_frame()
    assert made.columns == ["series", "day", "value"] and made.schema["day"] == pl.Date
    assert made["series"].to_list() == ["a", "a", "b", "b"]


def test_a_column_of_dates_in_a_pandas_frame():
    frame = wide().reset_index()
    made = RegularizedARMA(p=0, q=0, d=1).fit(frame).forecast(2).to_frame()
    assert list(made.columns) == ["month", "a", "b"]
    assert made["month"].tolist() == list(pd.date_range("2024-05-01", periods=2, freq="MS"))
    with pytest.raises(ValueError, match="dates in column 'other'"):
        RegularizedARMA(p=0, q=0, d=1).fit(frame.assign(other=frame["month"]))


def test_other_kinds_of_times(cheap):
    stamps = pd.Index(list(DAYS), dtype=object)
    assert cheap.fit(series(stamps)).forecast(1).to_frame().index[0] == pd.Timestamp("2024-01-31")
    days = pd.Index([day.date() for day in DAYS], dtype=object)
    assert cheap.fit(series(days)).forecast(1).to_frame().index[0] == pd.Timestamp("2024-01-31")
    seconds = pd.Index(0.1 * np.arange(20))
    assert cheap.fit(series(seconds)).forecast(2).to_frame().index.tolist() == pytest.approx(
        [2.0, 2.1]
    )
    spans = pd.timedelta_range("1s", periods=10, freq="s")
    assert cheap.fit(series(spans)).forecast(1).to_frame().index[0] == pd.Timedelta("11s")
    for index in (seconds, spans):
        with pytest.raises(ValueError, match="order of their times"):
            cheap.fit(series(index[::-1]))
        with pytest.raises(ValueError, match="follow no rule"):
            cheap.fit(series(index.delete(4)))


@pytest.mark.parametrize(
    "index",
    [
        pd.DatetimeIndex(["1999-01-01", "2000-01-01", "2000-01-02", "2263-01-01"]),
        pd.Index([-313, 0, 1, 3458764513820540928]),
    ],
    ids=["centuries", "whole numbers"],
)
def test_times_that_are_too_far_apart_for_a_grid_follow_no_rule(index):
    assert regular_grid(index) is None
