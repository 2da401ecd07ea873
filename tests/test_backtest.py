"""Backtests of any forecaster: scores equal their formulas, comparisons are honest, and bad input is refused."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from regfactor import AutoForecaster, RegularizedARMA
from regfactor.model_selection import backtest
from regfactor.series.backtest import naive_forecast, origin_rows


def walk(n_rows=80, n_series=1, seed=0):
    return 20 + np.random.default_rng(seed).normal(size=(n_rows, n_series)).cumsum(axis=0)


class Constant:
    """Forecasts a value that is given, with limits around it."""

    def __init__(self, value, half=None):
        self.value = value
        self.half = half

    def fit(self, X):
        self.shape = np.shape(X)[1:]
        self.last = np.asarray(X)
        return self

    def forecast(self, horizon, level=None):
        mean = np.full((horizon, *self.shape), self.value, dtype=float)
        if level is None or self.half is None:
            return mean
        half = self.half * level
        return SimpleNamespace(mean=mean, lower=mean - half, upper=mean + half)


class Truth(Constant):
    """Knows the future."""

    def forecast(self, horizon, level=None):
        n_known = len(self.last)
        mean = self.value[n_known : n_known + horizon]
        if level is None:
            return mean
        return SimpleNamespace(mean=mean, lower=mean, upper=mean)


def test_scores_equal_their_formulas():
    x = walk(60, 2)
    found = backtest(
        Constant(20.0, half=3.0), x, horizon=4, n_origins=3, level=(0.5, 0.9), season=3
    )
    assert list(found.origins) == [48, 52, 56] and found.horizon == 4
    ases = []
    squares = []
    pinballs = []
    for origin in (48, 52, 56):
        truth = x[origin : origin + 4]
        changes = x[3:origin] - x[: origin - 3]
        error = truth - 20.0
        ases.append(np.abs(error) / np.abs(changes).mean(axis=0))
        squares.append(error**2 / (changes**2).mean(axis=0))
        losses = [0.5 * np.abs(error)]
        for tail, half in ((0.25, 1.5), (0.05, 2.7)):
            for quantile, limit in ((tail, 20 - half), (1 - tail, 20 + half)):
                off = truth - limit
                losses.append(np.where(off > 0, quantile * off, (quantile - 1) * off))
        pinballs.append(np.mean(losses, axis=0) / np.abs(changes).mean(axis=0))
    row = found.to_frame().loc["Constant"]
    np.testing.assert_allclose(row["MASE"], np.mean(ases))
    np.testing.assert_allclose(row["RMSSE"], np.sqrt(np.mean(squares)))
    np.testing.assert_allclose(row["pinball"], np.mean(pinballs))
    inside = np.abs(found.actual - 20) <= 2.7
    np.testing.assert_allclose(row["coverage 90%"], inside.mean())
    by_series = found.to_frame("series").loc["Constant", "MASE"]
    np.testing.assert_allclose(by_series, np.mean(ases, axis=(0, 1)))
    assert len(found.to_frame("step").loc["naive"]) == 4
    assert list(found.to_frame("origin").loc["naive"].index) == [48, 52, 56]
    with pytest.raises(ValueError, match="by must be one of"):
        found.to_frame("month")


def test_naive_forecasts_by_hand():
    x = np.array([[1.0], [2.0], [3.0], [np.nan], [5.0], [6.0]])
    last = naive_forecast(x, 3, 1, [0.8])
    np.testing.assert_array_equal(last.mean.ravel(), [6, 6, 6])
    season = naive_forecast(x, 4, 3, [0.8])
    np.testing.assert_array_equal(season.mean.ravel(), [1, 5, 6, 1])  # row 3 is missing
    deviation = np.sqrt(np.mean([(5 - 2) ** 2, (6 - 3) ** 2]))
    width = (season.upper - season.mean)[0].ravel()
    np.testing.assert_allclose(width, 1.2815515655 * deviation * np.sqrt([1, 1, 1, 2]))


def test_origins():
    np.testing.assert_array_equal(origin_rows(100, 10, 3), [70, 80, 90])
    np.testing.assert_array_equal(
        origin_rows(100, 10, 10), [54, 58, 62, 66, 70, 74, 78, 82, 86, 90]
    )
    np.testing.assert_array_equal(origin_rows(100, 10, 3, step=2), [86, 88, 90])
    np.testing.assert_array_equal(origin_rows(8, 4, 5), [4])
    with pytest.raises(ValueError, match="8 rows.*at least 9.*shorter horizon"):
        origin_rows(8, 6, 1)


def test_knowing_the_future_beats_naive_and_ignorance_does_not():
    x = walk(60, 2)
    found = backtest(Truth(x), x, horizon=5)
    assert found.beats_naive and found.scores("Truth")["MASE"] == 0
    assert "errors 100% smaller" in found.sentences[0]
    lost = backtest(Constant(1e3, half=1.0), x, horizon=5)
    assert not lost.beats_naive
    said = str(lost)
    assert "Nothing beats the last value repeated here" in said and "exog" in said
    assert "fewer than promised" in said and "smaller from 0 of 5 origins" in said
    assert "No smaller for x0, x1." in said
    either = backtest({"good": Truth(x), "bad": Constant(0.0)}, x, horizon=5)
    assert either.best == "good" and either.beats_naive
    assert list(either.forecasts) == ["good", "bad", "naive"]


def test_coverage_below_its_level_within_noise_is_not_blamed():
    x = walk(200)
    found = backtest(AutoForecaster(season=1), x, horizon=3, n_origins=6, level=0.9)
    share = float(found.scores("AutoForecaster")["coverage 90%"])
    n_inside = round(share * 18)
    assert found.coverage_verdict("AutoForecaster", 0.9) == "as promised within noise"
    assert f"{share:.0%} of 18 values" in " ".join(found.sentences) and n_inside <= 18


def test_the_season_is_read_off_the_dates():
    months = pd.date_range("2018-01-31", periods=60, freq="ME")
    t = np.arange(60)
    y = pd.Series(10 * np.sin(2 * np.pi * t / 12) + 0.1 * walk(60)[:, 0], index=months, name="y")
    found = backtest(Constant(0.0), y, horizon=6, n_origins=2)
    assert found.season == 12 and found.best_naive == "seasonal naive"
    assert found.labels == [months[47], months[53]] and found.names == ["y"]
    assert "seasonal naive" not in backtest(Constant(0.0), y, 6, season=1).forecasts


def test_missing_values_are_not_judged():
    x = walk(60, 2)
    gap = x.copy()
    gap[50:, 0] = np.nan
    gap[[10, 57], 1] = np.nan
    found = backtest(Constant(20.0), gap, horizon=5, n_origins=2)
    scores = found.scores("Constant", (0, 1))["MASE"]
    assert np.isnan(scores[0]) and np.isfinite(scores[1])
    still = backtest(Constant(20.0), np.full(40, 3.0), horizon=3)
    assert np.isnan(still.scores("naive")["MASE"])


def test_inputs_are_given_to_fit_and_forecast():
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=90, freq="D")
    u = pd.DataFrame({"price": rng.normal(size=100)}, pd.date_range(days[0], periods=100))
    y = pd.Series(50 + 8 * u["price"][:90] + rng.normal(size=90), index=days, name="sold")
    options = {"horizon": 7, "n_origins": 3}
    blind = backtest(AutoForecaster(season=1), y, **options)
    sighted = backtest(AutoForecaster(season=1), y, exog=u.iloc[::-1], **options)
    assert sighted.scores("AutoForecaster")["MASE"] < 0.5 * blind.scores("AutoForecaster")["MASE"]
    method = AutoForecaster(season=1).backtest(y, exog=u, **options)
    np.testing.assert_allclose(
        method.forecasts["AutoForecaster"].mean, sighted.forecasts["AutoForecaster"].mean
    )
    with pytest.raises(ValueError, match="exog has no row for 2024-01-08"):
        backtest(AutoForecaster(), y, exog=u.drop(days[7]), **options)
    with pytest.raises(ValueError, match="exog has 5 rows and the series 90"):
        backtest(AutoForecaster(), y, exog=u.to_numpy()[:5], **options)


def test_long_tables_are_judged_like_wide_ones():
    months = pd.date_range("2020-01-01", periods=40, freq="MS")
    x = walk(40, 2)
    long = pd.DataFrame(
        {"unique_id": ["a"] * 40 + ["b"] * 40, "ds": [*months] * 2, "y": x.T.ravel()}
    )
    found = backtest(RegularizedARMA(1, 0), long, horizon=4, n_origins=2)
    plain = backtest(RegularizedARMA(1, 0), pd.DataFrame(x, index=months), horizon=4, n_origins=2)
    assert found.names == ["a", "b"] and found.season == 12
    np.testing.assert_allclose(
        found.forecasts["RegularizedARMA"].mean, plain.forecasts["RegularizedARMA"].mean
    )


def test_the_method_has_defaults():
    months = pd.period_range("2018-01", periods=48, freq="M")
    y = pd.Series(walk(48)[:, 0], index=months)
    found = AutoForecaster(horizon=3).backtest(y, n_origins=1)
    assert found.horizon == 3 and found.season == 12
    assert AutoForecaster(season=4).backtest(y, n_origins=1).season == 4


def test_forecasters_are_copied_and_not_fitted():
    model = RegularizedARMA(1, 0)
    backtest(model, walk(40), horizon=3, n_origins=1)
    assert not hasattr(model, "ar_")


class Sulking(Constant):
    """Refuses to be fitted to few rows."""

    def fit(self, X):
        raise RuntimeError("too few")


def test_bad_arguments_are_refused():
    x = walk(40)
    with pytest.raises(ValueError, match=r"not its class: write AutoForecaster\(\)"):
        backtest(AutoForecaster, x, 3)
    with pytest.raises(ValueError, match="method fit"):
        backtest("AutoForecaster", x, 3)
    with pytest.raises(ValueError, match=r"no method forecast\(horizon\)"):
        backtest(SimpleNamespace(fit=None), x, 3)
    with pytest.raises(ValueError, match="horizon"):
        backtest(Constant(0.0), x, 0)
    with pytest.raises(ValueError, match="n_origins"):
        backtest(Constant(0.0), x, 3, 0)
    with pytest.raises(ValueError, match="level"):
        backtest(Constant(0.0), x, 3, level=90)
    with pytest.raises(ValueError, match="names of comparisons"):
        backtest({"naive": Constant(0.0)}, x, 3)
    with pytest.raises(ValueError, match="empty"):
        backtest({}, x, 3)
    late = np.column_stack([x, np.where(np.arange(40) < 36, np.nan, 1.0)])
    with pytest.raises(ValueError, match="'x1' has no value in the first 25 rows"):
        backtest(Constant(0.0), late, 3, 5)
    with pytest.raises(RuntimeError, match="too few") as failed:
        backtest(Sulking(0.0), x, 3, 1)
    assert "In the backtest of Sulking, fitted to the first 37 rows." in failed.value.__notes__
    with pytest.raises(ValueError, match=r"shape \(3, 2\); it must be \(3, 1\)"):
        backtest(Truth(np.zeros((40, 2))), x, 3, 1)


# ---------------------------------------------------------------- other libraries


def test_models_of_statsforecast():
    models = pytest.importorskip("statsforecast.models", reason="statsforecast is not installed")
    x = walk(60, 2)
    found = backtest(models.Naive(), x, horizon=3, n_origins=2)
    np.testing.assert_allclose(
        found.forecasts["Naive"].mean, found.forecasts["naive"].mean, rtol=1e-6
    )
    assert found.forecasts["Naive"].lower.shape == (2, 2, 3, 2)


@pytest.mark.filterwarnings("ignore")
def test_forecasters_of_sktime():
    naive = pytest.importorskip("sktime.forecasting.naive", reason="sktime is not installed")
    x = pd.DataFrame(walk(60, 2), pd.period_range("2018-01", periods=60, freq="M"), ["a", "b"])
    found = backtest(naive.NaiveForecaster(strategy="last"), x, horizon=3, n_origins=2)
    np.testing.assert_allclose(
        found.forecasts["NaiveForecaster"].mean, found.forecasts["naive"].mean
    )
    assert found.forecasts["NaiveForecaster"].upper.shape == (2, 2, 3, 2)
    single = backtest(naive.NaiveForecaster(strategy="last"), x["a"].to_numpy(), 3, 1)
    np.testing.assert_allclose(
        single.forecasts["NaiveForecaster"].mean, single.forecasts["naive"].mean
    )


def test_the_season_that_was_found_is_that_of_the_seasonal_naive_forecast():
    t = np.arange(96)
    x = 10 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).normal(size=96)
    found = backtest(AutoForecaster(), x, horizon=6, n_origins=2)
    assert found.season == 12 and found.best_naive == "seasonal naive"


def test_origins_that_overlap_count_as_fewer():
    x = walk(60)
    apart = backtest(Constant(20.0, half=0.1), x, horizon=5, n_origins=5, step=5, level=0.9)
    close = backtest(Constant(20.0, half=0.1), x, horizon=5, n_origins=5, step=1, level=0.9)
    assert apart.coverage_verdict("Constant", 0.9) == "fewer than promised"
    rare = close.covered("Constant", 0.9).mean()
    n_apart = 1 + 4 / 5
    expected = rare < 0.9 - 2 * np.sqrt(0.9 * 0.1 / n_apart)
    assert (close.coverage_verdict("Constant", 0.9) == "fewer than promised") == expected
