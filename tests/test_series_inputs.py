"""Inputs whose future is known: names and dates are checked, and features of the calendar, holidays and events are right."""

import sys
from datetime import date
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import regfactor
from regfactor import AutoForecaster, RegularizedARMA
from regfactor.series.calendar_features import Calendar, CalendarRows


@pytest.fixture(scope="module")
def shop():
    """Sales by day that follow a price, with a dip on the first of each month."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2023-01-01", periods=150, freq="D", name="day")
    inputs = pd.DataFrame(
        {"price": rng.normal(size=150), "promo": rng.normal(size=150)}, index=days
    )
    sold = 50 + 5 * inputs["price"] - 20 * (days.day == 1) + rng.normal(size=150)
    return pd.DataFrame({"sold": sold}), inputs


# ---------------------------------------------------------------- exog


def test_columns_are_found_by_name_and_rows_by_date(shop):
    sold, inputs = shop
    model = AutoForecaster(season=1).fit(sold[:140], exog=inputs)  # further rows are left alone
    assert model.input_names_ == ["price", "promo"]
    plain = model.forecast(5, exog=inputs[140:145].to_numpy())
    turned = inputs[["promo", "price"]].iloc[::-1]
    np.testing.assert_array_equal(model.forecast(5, exog=turned).mean, plain.mean)
    single = AutoForecaster(season=1).fit(sold[:140], exog=inputs["price"])
    assert single.forecast(2, exog=inputs["price"]).mean.shape == (2, 1)


def test_what_is_not_known_of_the_future_is_named(shop):
    sold, inputs = shop
    model = AutoForecaster(season=1).fit(sold[:140], exog=inputs[:140])
    with pytest.raises(
        ValueError, match=r"2 inputs, 'price', 'promo'; .* 5 rows \(2023-05-21 .* to 2023-05-25"
    ):
        model.forecast(5)
    with pytest.raises(ValueError, match=r"no column 'promo'.*it has 'price'"):
        model.forecast(5, exog=inputs[["price"]])
    with pytest.raises(ValueError, match=r"column 'extra', with which the model was not fitted"):
        model.forecast(5, exog=inputs.assign(extra=1))
    with pytest.raises(ValueError, match="no row for 2023-05-31 00:00:00 and 1 more times"):
        model.forecast(12, exog=inputs)
    gap = inputs.copy()
    gap.iloc[[141, 143], 1] = np.nan
    with pytest.raises(ValueError, match=r"'promo', rows 2023-05-22 00:00:00, 2023-05-24"):
        model.forecast(5, exog=gap)
    with pytest.raises(ValueError, match=r"'promo', rows 2023-05-22 00:00:00, 2023-05-24"):
        model.simulate(5, exog=gap)
    with pytest.raises(ValueError, match="several rows at 2023-05-21"):
        model.forecast(5, exog=inputs.iloc[[140, 140, 141, 142, 143, 144]])
    with pytest.raises(ValueError, match="PeriodIndex"):
        model.forecast(5, exog=inputs.to_period())
    with pytest.raises(ValueError, match=r"Column 'promo'.*get_dummies"):
        AutoForecaster().fit(sold, exog=inputs.assign(promo="yes"))
    with pytest.raises(ValueError, match="no row for 2023-05-21 00:00:00 and 1 more"):
        model.update(sold[140:142], exog=inputs[:100].shift(500, freq="D"))


def test_updates_and_simulations_take_inputs(shop):
    sold, inputs = shop
    model = AutoForecaster(season=1).fit(sold[:130], exog=inputs)
    model.update(sold[130:140], exog=inputs)
    paths = model.simulate(3, n_paths=4, exog=inputs, random_state=0)
    assert paths.shape == (4, 3, 1)
    table = pl.DataFrame({"day": list(inputs.index.date), "price": inputs["price"].to_numpy()})
    table = table.with_columns(promo=pl.Series(inputs["promo"].to_numpy()))
    np.testing.assert_allclose(
        model.forecast(3, exog=table).mean, model.forecast(3, exog=inputs).mean
    )


# ---------------------------------------------------------------- calendar


def columns(calendar, index):
    return Calendar.of(calendar).fitted(index).columns(index)


def test_features_of_days():
    days = pd.date_range("2024-02-26", periods=9, freq="D")
    found = columns(["day_of_week", "month", "weekend", "month_start", "month_end"], days)
    assert [name for name in found if name.startswith("day_of_week")] == [
        f"day_of_week_{day}" for day in range(1, 7)
    ]
    np.testing.assert_array_equal(found["day_of_week_1"], [0, 1, 0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(found["month_3"], [0, 0, 0, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(found["weekend"], [0, 0, 0, 0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(found["month_end"], [0, 0, 0, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(found["month_start"], [0, 0, 0, 0, 1, 0, 0, 0, 0])


def test_hours_are_local():
    hours = pd.date_range("2024-03-31", periods=6, freq="h", tz="Europe/Berlin")
    found = columns("hour", hours)
    np.testing.assert_array_equal(found["hour_3"], [0, 0, 1, 0, 0, 0])  # there is no hour 2
    assert not found["hour_2"].any()


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-01-01", periods=3, freq="MS"),
        pd.date_range("2024-01-31", periods=3, freq="ME"),
        pd.period_range("2024-01", periods=3, freq="M"),
        pd.DatetimeIndex(["2024-01-01", "2024-02-01", "2024-03-01"]),
    ],
)
def test_months_hold_their_days(index):
    found = columns(
        ["working_days", "days_in_month", {"sale": ["2024-02-29", date(2024, 3, 1)]}], index
    )
    np.testing.assert_array_equal(found["working_days"], [23, 21, 21])
    np.testing.assert_array_equal(found["days_in_month"], [31, 29, 31])
    np.testing.assert_array_equal(found["sale"], [0, 1, 1])


def test_weeks_end_on_sundays_and_begin_on_mondays():
    for start, rule in (("2024-01-07", "W-SUN"), ("2024-01-01", "W-MON")):
        rows = CalendarRows.of(pd.date_range(start, periods=2, freq=rule))
        np.testing.assert_array_equal(
            rows.first_days, np.array(["2024-01-01", "2024-01-08"], dtype="M8[D]")
        )
        np.testing.assert_array_equal(
            rows.last_days, np.array(["2024-01-07", "2024-01-14"], dtype="M8[D]")
        )


def test_events_of_hours_hold_all_day():
    hours = pd.date_range("2024-11-28 22:00", periods=5, freq="h")
    np.testing.assert_array_equal(columns({"sale": "2024-11-29"}, hours)["sale"], [0, 0, 1, 1, 1])


def test_an_event_is_learned_and_foreseen(shop):
    sold, _ = shop
    firsts = [f"2023-{month:02d}-01" for month in range(1, 7)]
    model = AutoForecaster(season=1, calendar=["weekend", {"first": firsts}]).fit(sold)
    ahead = model.forecast(4).to_frame()["sold"]  # until 3 June
    assert ahead["2023-06-01"] < ahead["2023-05-31"] - 10
    assert ahead["2023-06-02"] > ahead["2023-06-01"] + 10
    earlier = AutoForecaster(season=1, calendar=["weekend", {"first": firsts}]).fit(sold[:140])
    earlier.update(sold[140:])
    assert earlier.forecast(4).to_frame()["sold"]["2023-06-01"] < ahead["2023-05-31"] - 10
    paths = model.simulate(2, n_paths=200, random_state=0).mean(axis=0).ravel()
    assert paths[1] < paths[0] - 10
    found = model.backtest(sold, horizon=10, n_origins=2)
    blind = AutoForecaster(season=1).backtest(sold, horizon=10, n_origins=2)
    assert found.scores("AutoForecaster")["RMSSE"] <= blind.scores("AutoForecaster")["RMSSE"] * 1.1


def test_models_with_a_calendar_are_saved(shop, tmp_path):
    pytest.importorskip("skops")
    sold, _ = shop
    model = AutoForecaster(season=1, calendar=["weekend", {"sale": "2023-05-31"}]).fit(sold)
    regfactor.save(model, tmp_path / "model.skops")
    again = regfactor.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.forecast(3).mean, model.forecast(3).mean)


def test_bad_calendars_are_refused(shop):
    sold, _ = shop
    with pytest.raises(ValueError, match=r"no feature 'weekday'; it has hour, day_of_week"):
        AutoForecaster(calendar="weekday").fit(sold)
    with pytest.raises(ValueError, match="needs the dates of the rows"):
        AutoForecaster(calendar="month").fit(sold.to_numpy())
    with pytest.raises(ValueError, match="'hour' is the same in all rows, each of 1 days"):
        AutoForecaster(calendar="hour").fit(sold)
    months = pd.Series(np.arange(30.0), pd.period_range("2020-01", periods=30, freq="M"))
    with pytest.raises(ValueError, match="'day_of_week' is the same in all rows, each of 31 days"):
        AutoForecaster(calendar="day_of_week").fit(months)
    with pytest.raises(ValueError, match="Event 'sale' has 'soon'"):
        AutoForecaster(calendar={"sale": "soon"}).fit(sold)
    with pytest.raises(ValueError, match="Event 'sale' has no dates"):
        AutoForecaster(calendar={"sale": []}).fit(sold)
    with pytest.raises(ValueError, match="words and dicts"):
        AutoForecaster(calendar=[3]).fit(sold)
    with pytest.raises(ValueError, match="calendar"):
        AutoForecaster(calendar=3).fit(sold)
    with pytest.raises(ValueError, match="both have a column 'weekend'"):
        inputs = pd.DataFrame({"weekend": 1.0}, index=sold.index)
        AutoForecaster(calendar="weekend").fit(sold, exog=inputs)


# ---------------------------------------------------------------- holidays


def fake_holidays(country, subdiv=None, years=()):
    if country != "XX":
        raise NotImplementedError(f"Country {country} not available")
    found = {date(year, 1, 1): "New Year" for year in years}
    found |= {date(year, 5, 1): "May Day" for year in years}
    if subdiv == "N":
        found |= {date(year, 5, 4): "North Day" for year in years}
    return found


@pytest.fixture
def package(monkeypatch):
    """The one function of the package that is used."""
    monkeypatch.setitem(sys.modules, "holidays", SimpleNamespace(country_holidays=fake_holidays))


def test_holidays_by_place(package):
    days = pd.date_range("2024-04-30", periods=6, freq="D")
    np.testing.assert_array_equal(columns("holidays:XX", days)["holiday_XX"], [0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(
        columns("holidays:XX-N", days)["holiday_XX-N"], [0, 1, 0, 0, 1, 0]
    )
    each = columns("each_holiday:XX-N", days)
    assert list(each) == ["May Day", "North Day"]
    months = pd.period_range("2024-04", periods=3, freq="M")  # 4 May is a Saturday
    np.testing.assert_array_equal(columns("holidays:XX-N", months)["holiday_XX-N"], [0, 1, 0])
    ahead = Calendar.of("each_holiday:XX").fitted(days)
    assert list(ahead.columns(pd.date_range("2025-01-01", periods=2))) == ["May Day"]


def test_holidays_that_are_unknown(package, shop):
    with pytest.raises(ValueError, match="no place 'QQ'"):
        AutoForecaster(calendar="holidays:QQ").fit(shop[0])


def test_without_the_package_one_sentence_says_what_to_do(monkeypatch, shop):
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(ImportError, match=r"needs holidays: .*\[holidays\]"):
        AutoForecaster(calendar="holidays:DE").fit(shop[0])


def test_the_package_as_it_is():
    pytest.importorskip("holidays", reason="holidays is not installed")
    days = pd.date_range("2024-12-24", periods=4, freq="D")
    np.testing.assert_array_equal(columns("holidays:DE-BY", days)["holiday_DE-BY"], [0, 1, 1, 0])
    assert "Labor Day" in columns("each_holiday:US", pd.date_range("2024-09-01", periods=3))
    with pytest.raises(ValueError, match="no place 'DE-XX'"):
        columns("holidays:DE-XX", days)


def test_inputs_of_the_convex_model_are_found_by_name_and_date(shop):
    sold, inputs = shop
    model = RegularizedARMA(p=1, q=0, d=0, season=1).fit(sold[:140], exog=inputs)
    plain = model.forecast(5, exog=inputs[140:145].to_numpy()).mean
    turned = inputs[["promo", "price"]].iloc[::-1]
    np.testing.assert_array_equal(model.forecast(5, exog=turned).mean, plain)
    with pytest.raises(ValueError, match="no row for 2023-05-31"):
        model.forecast(12, exog=inputs)
    with pytest.raises(ValueError, match="no column 'promo'"):
        model.simulate(3, exog=inputs[["price"]])
    model.update(sold[140:142], exog=inputs)
    assert model.forecast(3, exog=inputs).to_frame().index[0] == sold.index[142]
