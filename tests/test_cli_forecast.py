"""Forecasts of the command line: what the library finds is said, and a model that lost is never shipped silently."""

import numpy as np
import pandas as pd
import pytest
from console import cells, command, refused

import regfactor
from regfactor import AutoForecaster
from regfactor.model_selection import backtest


def shop(rows=96, seed=0):
    """Sales by month that grow, with a sharp peak in December."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    return (150 + 2 * t) * np.where(t % 12 == 11, 1.9, 1.0) + 5 * rng.normal(size=rows)


@pytest.fixture
def sales(tmp_path):
    """A season in a file, with its last year in another."""
    months = pd.date_range("2012-01-01", periods=108, freq="MS", name="month")
    frame = pd.DataFrame({"sales": shop(108)}, index=months)
    frame[:96].to_csv(tmp_path / "sales.csv")
    frame[96:].to_csv(tmp_path / "new.csv")
    return tmp_path / "sales.csv"


def report_of(path):
    return path.with_name(f"{path.stem}.forecast.html").read_text(encoding="utf-8")


def test_a_sharp_season_is_found(sales):
    done = command("forecast", sales, "--json")
    said, truth = (
        pd.read_csv(sales.with_name(n))["sales"] for n in ("sales.forecast.csv", "new.csv")
    )
    last = pd.read_csv(sales)["sales"].to_numpy()[-12:]
    assert said.argmax() == 11 and np.abs(said - truth).mean() < np.abs(last - truth).mean(), done
    record = done.record
    assert record["season"] == 12 and record["tried"]["against"] == "seasonal naive"
    assert record["tried"]["beats_naive"] and record["tried"]["mase"] < 0.6


def test_the_command_says_what_the_library_finds(sales):
    record = command("forecast", sales, "--horizon", 6, "--level", 0.8, "--json").record
    series = pd.read_csv(sales, index_col="month", parse_dates=True)
    model = AutoForecaster(horizon=6)
    found = backtest(model, series, 6, 5, level=0.8)
    assert record["tried"]["mase"] == pytest.approx(float(found.scores("AutoForecaster")["MASE"]))
    assert record["tried"]["within"] == float(found.scores("AutoForecaster")["coverage 80%"])
    ahead = model.fit(series).forecast(6, level=0.8)
    written = pd.read_csv(sales.with_name("sales.forecast.csv"))
    np.testing.assert_allclose(written["sales_upper"], ahead.upper[:, 0], rtol=1e-4)
    assert list(written["month"]) == [str(day.date()) for day in ahead.to_frame().index]


def test_the_first_screen_has_the_chart_the_accuracy_and_the_coverage(sales):
    command("forecast", sales)
    report = report_of(sales)
    first = report.index("The forecast, and how it did on the past")
    assert first < report.index("<svg") < report.index("What was done")
    screen = report[first : report.index("What was done")]
    assert "the last value repeated" in screen and "the last season repeated" in screen
    assert "MASE" in screen and "coverage 90%" in screen


def test_the_code_of_the_report_gives_the_same_forecast(sales, capsys):
    command("forecast", sales, "--horizon", 3)
    code = (
        report_of(sales).partition("In Python:")[2].partition("<code>")[2].partition("</code>")[0]
    )
    names = {}
    exec(code.replace("&#x27;", "'").replace("&quot;", '"').replace("&gt;", ">"), names)
    assert "error of repeating the last value" in capsys.readouterr().out
    written = pd.read_csv(sales.with_name("sales.forecast.csv"))
    np.testing.assert_allclose(names["model"].forecast().mean[:, 0], written["sales"], rtol=1e-4)


def test_a_season_that_is_given_is_imposed(sales):
    pd.read_csv(sales)[["sales"]].to_csv(sales, index=False)
    found = command("forecast", sales, "--json").record
    assert found["season"] == 12
    none = command("forecast", sales, "--season", 1, "--force", "--json").record
    assert none["season"] == 1 and none["tried"]["against"] == "naive"
    assert none["tried"]["mase"] > found["tried"]["mase"]
    assert command("forecast", sales, "--season", 6, "--force", "--json").record["season"] == 6
    assert (
        "too few to fit a season of 60 rows"
        in command("forecast", sales, "--season", 60, "--force").err
    )


def test_a_model_that_lost_to_naive_is_not_shipped(tmp_path):
    # a value that turns around after each origin: what was learned of it misleads
    t = np.arange(60.0)
    x = np.where(t < 30, t, 30 + 0 * t) + 0.01 * np.random.default_rng(0).normal(size=60)
    x[30:] = 30 - np.repeat([0, 5, 0, 5, 0], 6)
    path = tmp_path / "walk.csv"
    pd.DataFrame({"x": x}).to_csv(path, index=False)
    done = command("forecast", path, "--horizon", 6, "--season", 1, "--json")
    assert not done.record["tried"]["beats_naive"], done.record
    assert done.record["written"] == "naive"
    assert "Written is the last value repeated: on the past nothing beat it" in done.err
    report = report_of(path)
    assert report.index("Written is the last value repeated") < report.index("What was done")
    written = pd.read_csv(tmp_path / "walk.forecast.csv")
    np.testing.assert_allclose(written["x"], x[-1], rtol=1e-4)
    assert (np.diff(written["x_upper"] - written["x_lower"]) > 0).all()
    assert "naive_forecast(series.to_numpy(float), 6, 1, [0.9])" in report


def test_fewer_than_promised_is_said_only_beyond_noise(sales):
    record = command("forecast", sales, "--level", 0.95, "--json").record
    assert record["tried"]["verdict"] == "as promised within noise"
    assert "fewer than promised" not in report_of(sales)
    assert "as promised within noise" in report_of(sales)


# ---------------------------------------------------------------- long tables


@pytest.fixture
def long(tmp_path):
    """Two shops in one column, in the order of their months."""
    months = pd.date_range("2016-01-01", periods=60, freq="MS").strftime("%Y-%m-%d")
    frame = pd.DataFrame(
        {
            "shop": ["north", "south"] * 60,
            "month": np.repeat(months, 2),
            "sold": np.column_stack([shop(60, 1), shop(60, 2)]).ravel(),
        }
    )
    frame.to_csv(tmp_path / "long.csv", index=False)
    return tmp_path / "long.csv"


def test_a_long_table_gives_a_long_forecast(long):
    done = command("forecast", long, "--horizon", 3)
    assert done.code == 0 and "the series named in 'shop'" in done.err, done
    written = pd.read_csv(long.with_name("long.forecast.csv"))
    assert list(written.columns) == ["shop", "month", "sold", "sold_lower", "sold_upper"]
    assert written["shop"].tolist() == ["north"] * 3 + ["south"] * 3
    assert written["month"].tolist() == ["2021-01-01", "2021-02-01", "2021-03-01"] * 2
    named = command("forecast", long, "--series", "shop", "--horizon", 3, "--force", "--json")
    assert named.record["series"] == ["north", "south"]
    pd.testing.assert_frame_equal(pd.read_csv(long.with_name("long.forecast.csv")), written)


def test_a_long_model_is_saved_and_scored(long):
    model = long.with_name("m.skops")
    assert command("forecast", long, "--horizon", 2, "--save", model).code == 0
    new = pd.DataFrame({"shop": ["north"], "month": ["2021-01-01"], "sold": [300.0]})
    new.to_csv(long.with_name("new.csv"), index=False)
    done = command("score", model, long.with_name("new.csv"))
    assert done.code == 0, done
    scored = cells(long.with_name("new.score.csv"))
    assert scored["month"].tolist() == ["2021-02-01", "2021-03-01"] * 2
    new.assign(shop="west").to_csv(long.with_name("odd.csv"), index=False)
    refused(command("score", model, long.with_name("odd.csv")), "'west' was not in the fit")


def test_long_tables_that_are_none(long):
    frame = pd.read_csv(long)
    pd.concat([frame, frame[:1]]).to_csv(long, index=False)
    refused(command("forecast", long), "occurs more than once", "--series")
    refused(command("forecast", long, "--series", "shop"), "'north' has several rows at 2016-01-01")
    frame.assign(price=1.5 * frame["sold"]).to_csv(long, index=False)
    refused(command("forecast", long), "one column of values", "sold, price", "--ignore")
    refused(command("forecast", long, "--series", "stor"), "no column of series 'stor'")


# ---------------------------------------------------------------- inputs


@pytest.fixture
def priced(tmp_path):
    """Sales that follow a price, which is known for five more days."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=95).strftime("%Y-%m-%d")
    price = rng.normal(size=95).round(3)
    sold = 50 + 10 * price + rng.normal(size=95)
    frame = pd.DataFrame({"day": days, "price": price, "sold": sold.round(3)})
    frame.loc[90:, "sold"] = np.nan
    frame.to_csv(tmp_path / "priced.csv", index=False)
    return tmp_path / "priced.csv"


def test_inputs_are_used(priced):
    model = priced.with_name("m.skops")
    done = command("forecast", priced, "--exog", "price", "--horizon", 5, "--save", model, "--json")
    assert done.code == 0 and done.record["inputs"] == ["price"], done
    written = pd.read_csv(priced.with_name("priced.forecast.csv"))
    price = pd.read_csv(priced)["price"][90:].to_numpy()
    assert written["day"][0] == "2024-03-31"
    assert np.corrcoef(written["sold"], price)[0, 1] > 0.95
    new = pd.DataFrame(
        {"day": ["2024-03-31", "2024-04-01"], "price": [1.0, -2.0], "sold": [60, None]}
    )
    new.to_csv(priced.with_name("new.csv"), index=False)
    assert command("score", model, priced.with_name("new.csv")).code == 0
    scored = pd.read_csv(priced.with_name("new.score.csv"))
    assert scored["day"].tolist() == ["2024-04-01"] and scored["sold"][0] < 40


def test_inputs_that_are_not_known_are_named(priced):
    refused(
        command("forecast", priced, "--exog", "price"),
        "inputs of the next 12 times",
        "5 rows after the last value",
    )
    refused(command("forecast", priced, "--exog", "prise"), "no input 'prise'", "'price'")
    refused(command("forecast", priced, "--exog", "day"), "no column of numbers")
    frame = pd.read_csv(priced)
    frame.loc[92, "price"] = np.nan
    frame.to_csv(priced, index=False)
    refused(
        command("forecast", priced, "--exog", "price", "--horizon", 5),
        "'price', rows 2024-04-02",
    )


def test_holidays(priced):
    pytest.importorskip("holidays", reason="holidays is not installed")
    frame = pd.read_csv(priced)[:90][["day", "sold"]]
    frame.to_csv(priced, index=False)
    done = command("forecast", priced, "--holidays", "DE", "--json")
    assert done.code == 0 and done.record["inputs"] == ["holiday_DE"], done
    refused(command("forecast", priced, "--holidays", "QQ", "--force"), "no place 'QQ'")


# ---------------------------------------------------------------- times


def test_irregular_times_are_refused_or_resampled_on_request(sales):
    frame = pd.read_csv(sales)
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.uniform(0, 40, 96).cumsum(), "h")
    frame.assign(month=times.strftime("%Y-%m-%d %H:%M:%S")).to_csv(sales, index=False)
    refused(command("forecast", sales), "follow no rule", "--resample D", "--ignore month")
    done = command("forecast", sales, "--resample", "2D:sum", "--horizon", 3)
    assert done.code == 0, done
    days = pd.to_datetime(pd.read_csv(sales.with_name("sales.forecast.csv"))["month"])
    assert (days.diff().dropna() == pd.Timedelta("2D")).all()
    refused(command("forecast", sales, "--resample", "D:all", "--force"), "by mean, sum")


def test_new_rows_must_follow(sales):
    model = sales.with_name("m.skops")
    assert command("forecast", sales, "--save", model).code == 0
    assert command("score", model, sales.with_name("new.csv")).code == 0
    refused(command("score", model, sales, "--force"), "goes on at 2020-01-01")
    assert regfactor.load(model).season_ == 12


def test_offsets_of_summer_and_winter(tmp_path):
    hours = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin")
    path = tmp_path / "hours.csv"
    x = np.random.default_rng(0).normal(size=60).round(3)
    pd.DataFrame({"at": [hour.isoformat() for hour in hours], "x": x}).to_csv(path, index=False)
    done = command("forecast", path, "--horizon", 2, "--season", 1)
    assert done.code == 0, done
    first = pd.to_datetime(pd.read_csv(tmp_path / "hours.forecast.csv")["at"], utc=True)[0]
    assert first - hours[-1] == pd.Timedelta("1h")


def test_series_that_begin_late_are_not_tried(tmp_path):
    rng = np.random.default_rng(0)
    x = np.where(np.arange(60) < 40, np.nan, rng.normal(size=60).round(3))
    path = tmp_path / "late.csv"
    pd.DataFrame({"late": x, "whole": rng.normal(size=60).round(3)}).to_csv(path, index=False)
    done = command("forecast", path, "--horizon", 2, "--season", 1, "--json")
    assert "values begin late: late." in done.err and done.record["tried"]["steps"] == 2
    assert len(done.record["tried"]["mase_by_series"]) == 1


def test_numbers_name_series_as_they_are_written(tmp_path):
    path = tmp_path / "long.csv"
    months = pd.date_range("2020-01-01", periods=20, freq="MS").strftime("%Y-%m")
    ids = np.repeat(["0012", "1234567"], 20)
    values = np.random.default_rng(0).normal(size=40).round(3)
    pd.DataFrame({"unique_id": ids, "ds": [*months] * 2, "y": values}).to_csv(path, index=False)
    model = tmp_path / "m.skops"
    done = command("forecast", path, "--horizon", 1, "--season", 1, "--save", model)
    assert done.code == 0, done
    assert cells(tmp_path / "long.forecast.csv")["unique_id"].tolist() == ["0012", "1234567"]
    new = pd.DataFrame({"unique_id": ["1234567"], "ds": ["2021-09"], "y": [0.5]})
    new.to_csv(tmp_path / "new.csv", index=False)
    assert command("score", model, tmp_path / "new.csv").code == 0
    assert cells(tmp_path / "new.score.csv")["ds"].tolist() == ["2021-10", "2021-10"]
    refused(command("forecast", path, "--holidays", "DE", "--time", "y", "--force"), "not whole")


def test_holidays_need_dates(sales):
    pd.read_csv(sales)[["sales"]].to_csv(sales, index=False)
    refused(command("forecast", sales, "--holidays", "DE"), "--holidays needs dates", "--time")
