"""Forecasts of the command line: seasons and trends are seen, choices are made on rows that are not tried."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from console import command, refused

from regfactor import RegularizedARMA
from regfactor.cli.times import Clock
from regfactor.series.order_selection import (
    ArmaCandidate,
    BacktestChoice,
    Orders,
    arma_candidates,
    choose_candidate,
    evaluate_candidate,
)


def shop(rows=96, seed=0):
    """Sales by month that grow, with a sharp peak in December."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    return (150 + 2 * t) * np.where(t % 12 == 11, 1.9, 1.0) + 5 * rng.normal(size=rows)


def walk(rows=300, seed=0):
    """A level that wanders."""
    return 100 + np.random.default_rng(seed).normal(size=rows).cumsum()


@pytest.fixture
def sales(tmp_path):
    """A season in a file, with its last year in another."""
    months = pd.date_range("2012-01-01", periods=108, freq="MS", name="month")
    frame = pd.DataFrame({"sales": shop(108)}, index=months)
    frame[:96].to_csv(tmp_path / "sales.csv")
    frame[96:].to_csv(tmp_path / "new.csv")
    return tmp_path / "sales.csv"


def test_a_sharp_season_is_seen_by_the_dates(sales):
    done = command("forecast", sales, "--json")
    said, truth = (
        pd.read_csv(sales.with_name(n))["sales"] for n in ("sales.forecast.csv", "new.csv")
    )
    last = pd.read_csv(sales)["sales"].to_numpy()[-12:]
    assert said.argmax() == 11 and np.abs(said - truth).mean() < np.abs(last - truth).mean(), done
    record, report = done.record, sales.with_name("sales.forecast.html").read_text(encoding="utf-8")
    assert record["season"] == 12 and record["p"] == 13 and len(record["compared"]) == 4
    assert record["tried"]["against"] == "the last season repeated"
    assert record["tried"]["error"][0] < record["tried"]["simple"][0]
    for model in record["compared"]:
        assert model in report
    assert "lowest backtest error of 4 models on earlier rows" in report
    assert f"RegularizedARMA(p=13, d={record['d']}, season=1" in report


def test_a_season_can_be_told_where_no_date_tells_it(sales):
    pd.read_csv(sales)[["sales"]].to_csv(sales, index=False)
    bare = command("forecast", sales, "--json").record
    told = command("forecast", sales, "--json", "--season", 12, "--force").record
    assert bare["season"] is None and told["season"] == 12
    assert told["tried"]["error"][0] < bare["tried"]["error"][0] / 2
    none = command("forecast", sales, "--season", 1, "--force", "--json").record
    assert none["tried"] == bare["tried"]
    assert (
        "too few to fit a season of 40 rows"
        in command("forecast", sales, "--season", 40, "--force").err
    )


def test_lags_and_differences_can_be_told(sales):
    done = command("forecast", sales, "--lags", 3, "--difference", 1, "--json")
    assert (done.record["p"], done.record["d"], done.record["compared"]) == (3, 1, {})
    assert (
        "Taken: 3 lags of changes from row to row."
        in sales.with_name("sales.forecast.html").read_text()
    )
    changes = command("forecast", sales, "--difference", 1, "--json", "--force").record
    assert changes["d"] == 1 and all("changes" in model for model in changes["compared"])
    assert len(command("forecast", sales, "--lags", 2, "--json", "--force").record["compared"]) == 2
    assert command("forecast", sales, "--lags", 48, "--force").code == 0
    refused(
        command("forecast", sales, "--lags", 49, "--force"),
        "--lags is 49; 96 rows allow 48 at most",
    )
    assert command("forecast", sales, "--difference", 3).code == 2


def test_advice_is_in_terms_of_the_command(sales):
    frame = pd.read_csv(sales).assign(sales=1.02 ** np.arange(96) + 0.01 * shop())
    frame.to_csv(sales, index=False)
    done = command("forecast", sales, "--lags", 2, "--difference", 0)
    assert (
        "so it was damped. --difference 1 forecasts changes" in done.err
        and "max_radius" not in done.err
    ), done


def one(lags, rows=96):
    """A model that was not compared, to be tried on the last three years."""
    return BacktestChoice(ArmaCandidate(lags), {}, [rows - 12, rows - 24, rows - 36])


def test_the_choice_does_not_see_the_rows_on_which_it_is_tried():
    X = np.column_stack([shop(), walk(96)])
    found = arma_candidates(Orders(), 12, X.shape)
    other = X.copy()
    other[60:] = np.random.default_rng(1).normal(size=(36, 2))
    assert choose_candidate(found, X, 12, 0.9) == choose_candidate(found, other, 12, 0.9)
    assert choose_candidate(found, X, 12, 0.9).best.season == 12
    before = evaluate_candidate(one(2), X, 12, 0.9, 12)
    assert (
        before.n_values == 72
        and before.errors[0] != evaluate_candidate(one(2), other, 12, 0.9, 12).errors[0]
    )


def test_a_level_that_climbs_is_forecast_by_its_changes_and_noise_by_its_values():
    found, t = arma_candidates(Orders(), None, (300, 1)), np.arange(300)
    for seed in range(3):
        climbing, noise = 2 * t + walk(seed=seed), np.random.default_rng(seed).normal(size=300)
        chosen = [choose_candidate(found, x[:, None], 12, 0.9) for x in (climbing, noise)]
        assert [c.best.difference for c in chosen] == [1, 0]
        assert all(c.errors[c.best] == min(c.errors.values()) for c in chosen)


def test_a_season_of_few_years_is_compared_where_less_is_tried():
    for rows, tried in ((48, 1), (60, 2), (96, 3)):
        X = shop(rows)[:, None]
        found = choose_candidate(arma_candidates(Orders(), 12, X.shape), X, 12, 0.9)
        assert found.best.season == 12 and len(found.origins) == tried, rows


def test_what_is_too_short_is_not_compared():
    X = shop(36)[:, None]
    assert all(
        c.season == 0
        for c in choose_candidate(arma_candidates(Orders(), 12, X.shape), X, 12, 0.9).errors
    )
    assert choose_candidate(
        arma_candidates(Orders(), 12, (10, 1)), X[:10], 12, 0.9
    ) == BacktestChoice(ArmaCandidate(None), {}, [8, 6])
    assert (
        evaluate_candidate(BacktestChoice(ArmaCandidate(None), {}, [8, 6]), X[:10], 12, 0.9, 12)
        is None
    )
    assert (
        len(arma_candidates(Orders(), 12, (96, 20))) == 2
    )  # more coefficients of a season than rows
    still = np.vstack([np.ones((60, 1)), X])
    assert choose_candidate(arma_candidates(Orders(), 12, still.shape), still, 12, 0.9).errors == {}


def test_the_past_of_a_long_series_takes_no_longer(monkeypatch):
    rows = []
    fit = RegularizedARMA.fit
    monkeypatch.setattr(RegularizedARMA, "fit", lambda self, X: rows.append(len(X)) or fit(self, X))
    X = np.random.default_rng(0).normal(size=(5000, 1))
    assert (
        evaluate_candidate(
            choose_candidate([ArmaCandidate(1)], X, 12, 0.9), X, 12, 0.9, None
        ).n_values
        == 36
    )
    assert max(rows) == 2000 and len(rows) == 11


def test_the_better_simple_forecast_is_compared_with():
    X = np.tile(np.arange(12.0), 10)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(120, 1))
    assert evaluate_candidate(one(1, 120), X, 12, 0.9, 12).naive == "the last season repeated"
    assert (
        evaluate_candidate(one(1, 300), walk()[:, None], 12, 0.9, 12).naive
        == "the last value repeated"
    )
    X[100:105] = np.nan
    tried = evaluate_candidate(one(13, 120), X, 12, 0.9, 12)
    assert tried.n_values == 31 and np.isfinite(tried.naive_errors).all()


@pytest.mark.parametrize(
    ("rule", "season"),
    [
        ("MS", 12),
        ("ME", 12),
        ("QS-OCT", 4),
        ("W-MON", 52),
        ("7D", 52),
        ("D", 7),
        ("B", 5),
        ("h", 24),
        ("YS", None),
    ],
)
def test_seasons_are_read_off_the_times(rule, season):
    index = pd.date_range("2020-01-01", periods=9, freq=rule)
    assert Clock("t", index, np.arange(9)).season == season
    assert Clock("t", pd.RangeIndex(9), np.arange(9)).season is None
    assert Clock("t", pd.period_range("2020Q1", periods=9, freq="Q"), np.arange(9)).season == 4


def growing(rows=200, seed=0):
    """A wave whose errors grow as it does, which no model of ours expects."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    return np.exp(t / 40 + 0.3 * np.sin(t / 4) + 0.1 * rng.normal(size=rows))[:, None]


def test_intervals_are_widened_as_errors_on_earlier_rows_ask_for():
    for seed in range(3):
        X = growing(seed=seed)
        found = choose_candidate([ArmaCandidate(3)], X, 12, 0.9)
        assert found.widening > 1.1 and found.errors == {}
        as_is, wider = (
            evaluate_candidate(c, X, 12, 0.9, None) for c in (replace(found, widening=1.0), found)
        )
        assert wider.coverage > as_is.coverage and np.array_equal(wider.errors, as_is.errors)
    noise = np.random.default_rng(0).normal(size=(200, 1))
    assert choose_candidate([ArmaCandidate(1)], noise, 12, 0.9).widening < 1.1
    assert choose_candidate([ArmaCandidate(1)], np.zeros((200, 1)), 12, 0.9).widening == 1.0


def test_a_saved_model_keeps_its_wider_intervals(tmp_path):
    path, model, new = tmp_path / "s.csv", tmp_path / "m.skops", tmp_path / "new.csv"
    frame = pd.DataFrame({"x": growing(101)[:, 0]})
    frame[:100].to_csv(path, index=False)
    frame[100:].to_csv(new, index=False)
    done = command(
        "forecast", path, "--lags", 3, "--difference", 0, "--horizon", 5, "--save", model, "--json"
    )
    assert done.record["widening"] > 1.1 and command("score", model, new).code == 0
    widths = [
        np.subtract(made["x_upper"], made["x_lower"])
        for made in (pd.read_csv(tmp_path / n) for n in ("s.forecast.csv", "new.score.csv"))
    ]
    np.testing.assert_allclose(*widths, rtol=1e-3)
    assert (
        f"by a factor of {done.record['widening']:.3g} more"
        in (tmp_path / "s.forecast.html").read_text()
    )
