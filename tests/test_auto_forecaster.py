"""The automatic forecaster: its laws, what it finds in simulated series, and what it refuses."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import regfactor
from regfactor import AutoForecaster, RegularizedARMA
from regfactor.series.autoregression_bank import AutoregressionBank
from regfactor.series.bank import SeriesTable
from regfactor.series.gap_filling import gap_lengths
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.smoothing_bank import fit_group, smoothing_groups
from regfactor.series.smoothing_members import LEVEL_GAINS
from regfactor.series.theta_bank import ThetaBank


def walks(n=80, n_series=3, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(n, n_series)), axis=0)


def monthly(n=96, season=12, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    pattern = 3 * rng.normal(size=season)
    return 20 + 0.05 * t + pattern[t % season] + noise * rng.normal(size=n)


def limits(forecast):
    return np.stack([forecast.mean, forecast.lower, forecast.upper])


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("season", [1, 12])
def test_forecasts_follow_units_and_shifts(season):
    X = walks()
    X[20:23, 1] = np.nan
    scale = np.array([1e12, 0.01, 250.0])
    shift = np.array([0.0, 5.0, -300.0])
    first = limits(AutoForecaster(season, log=False).fit(X).forecast(6, level=0.9))
    other = AutoForecaster(season, log=False).fit(scale * X + shift).forecast(6, level=0.9)
    np.testing.assert_allclose((limits(other) - shift) / scale, first, atol=1e-5)


def test_small_units_change_little():
    X = walks(n_series=1)
    first = limits(AutoForecaster(log=False).fit(X).forecast(6, level=0.9))
    small = limits(AutoForecaster(log=False).fit(1e-12 * X).forecast(6, level=0.9))
    np.testing.assert_allclose(1e12 * small, first, atol=1e-5)


def test_logged_forecasts_follow_units():
    X = np.exp(0.1 * walks() + 2)
    first = limits(AutoForecaster(log=True).fit(X).forecast(6, level=0.9))
    other = limits(AutoForecaster(log=True).fit(1e6 * X).forecast(6, level=0.9))
    np.testing.assert_allclose(other / 1e6, first, rtol=1e-6)


@pytest.mark.parametrize("n_series", [3, 8])
def test_the_order_of_series_does_not_matter(n_series):
    X = walks(n_series=n_series)
    order = np.random.default_rng(1).permutation(n_series)
    first = AutoForecaster(log=False).fit(X)
    other = AutoForecaster(log=False).fit(X[:, order])
    expected = limits(first.forecast(5, level=0.8))[:, :, order]
    np.testing.assert_allclose(limits(other.forecast(5, level=0.8)), expected, atol=1e-7)
    np.testing.assert_allclose(other.weights_, first.weights_[:, order], atol=1e-8)


def test_refit_clone_pickle_and_saving_keep_forecasts(tmp_path):
    X = walks()
    X[-2:, 0] = np.nan
    model = AutoForecaster(season=4, horizon=5, random_state=3).fit(X)
    first = limits(model.forecast(7, level=0.9))
    np.testing.assert_array_equal(limits(model.fit(X).forecast(7, level=0.9)), first)
    copy = clone(model)
    assert {**copy.get_params()} == {**model.get_params()}
    np.testing.assert_array_equal(limits(copy.fit(X).forecast(7, level=0.9)), first)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(limits(again.forecast(7, level=0.9)), first)
    regfactor.save(model, tmp_path / "model")
    loaded = regfactor.load(tmp_path / "model")
    np.testing.assert_array_equal(limits(loaded.forecast(7, level=0.9)), first)
    np.testing.assert_array_equal(loaded.simulate(3, 4), model.simulate(3, 4))


def test_horizon_is_by_default_about_a_season():
    X = monthly()
    assert len(AutoForecaster(season=12).fit(X).forecast()) == 12
    assert len(AutoForecaster(season=12, horizon=3).fit(X).forecast()) == 3


@pytest.mark.parametrize("season", [1, 4])
def test_shorter_forecasts_are_the_beginning_of_longer_ones(season):
    model = AutoForecaster(season).fit(walks())
    long = limits(model.forecast(30, level=0.9))
    short = limits(model.forecast(4, level=0.9))
    np.testing.assert_allclose(short, long[:, :4], rtol=1e-9)


def test_intervals_are_nested_in_level():
    model = AutoForecaster().fit(walks())
    found = model.forecast(8, level=(0.5, 0.8, 0.95))
    assert found.lower.shape == (3, 8, 3)
    assert np.all(np.diff(found.lower, axis=0) < 0)
    assert np.all(np.diff(found.upper, axis=0) > 0)
    assert np.all((found.lower < found.mean) & (found.mean < found.upper))
    single = model.forecast(8, level=0.8)
    np.testing.assert_allclose(found.lower[1], single.lower)


def test_intervals_are_wider_after_a_gap():
    X = walks(100, 1)
    gap = X.copy()
    gap[-8:] = np.nan
    full = AutoForecaster(1).fit(X).forecast(5, level=0.9)
    later = AutoForecaster(1).fit(gap).forecast(5, level=0.9)
    assert np.all(later.upper - later.lower > 1.2 * (full.upper - full.lower))


# ---------------------------------------------------------------- update


@pytest.mark.parametrize("season", [1, 4, (4, 12)])
@pytest.mark.parametrize("missing", [False, True])
def test_updates_in_one_go_and_row_by_row_agree(season, missing):
    X = walks(70, 2)
    if missing:
        X[62:65, 0] = np.nan
        X[69, 1] = np.nan
    at_once = AutoForecaster(season).fit(X[:60]).update(X[60:])
    by_row = AutoForecaster(season).fit(X[:60])
    for row in X[60:]:
        by_row.update(row[None])
    first = limits(at_once.forecast(6, level=0.9))
    np.testing.assert_allclose(limits(by_row.forecast(6, level=0.9)), first, atol=1e-8)


def test_updating_is_filtering_with_fixed_parameters():
    """States of the smoothing bank after more rows, from a plain recursion of each member."""
    X = walks(70, 1)
    model = AutoForecaster(1, log=False).fit(X[:60])
    (group,) = model._pooled.banks[0].state.states
    (state,) = group
    gains = state.filter.gains
    level = state.filter.level[:, 0].copy()
    slope = state.filter.slope[:, 0].copy()
    for x in (X[60:, 0] - state.units.center[0]) / state.units.scale[0]:
        carried = level + gains.damping * slope
        error = x - carried
        level = carried + gains.level * error
        slope = gains.damping * slope + gains.slope * error
    model.update(X[60:])
    ((later,),) = model._pooled.banks[0].state.states
    np.testing.assert_allclose(later.filter.level[:, 0], level, atol=1e-8)
    np.testing.assert_allclose(later.filter.slope[:, 0], slope, atol=1e-8)


@pytest.mark.parametrize("season", [1, 4, 30])
@pytest.mark.parametrize("missing", [False, True])
def test_updated_states_are_those_of_one_filter_over_all_rows(season, missing):
    """Initial states and coefficients stay; the filter passes over old and new rows at once."""
    X = walks(140, 1)
    if missing:
        X[[30, 31, 50, 122, 123, 124], 0] = np.nan
    origins = RollingOrigins(np.array([120]), 5)
    short = SeriesTable(X[:120], np.zeros((120, 0)), season, origins)
    units = short.units()
    for group in smoothing_groups(season):
        fit = fit_group(group, short, units)
        later = fit.state.updated(X[120:], np.zeros((20, 0)))
        whole = group.start(group.n_free + 1)
        for t, x in enumerate(units.standardized(X)[:, 0]):
            if np.isnan(x):
                whole.skip()
            else:
                whole.advance(np.append(np.zeros(group.n_free), x), t)
        z = fit.initial[:, :, 0]
        level = whole.level[:, -1] + np.sum(whole.level[:, :-1] * z, axis=1)
        slope = whole.slope[:, -1] + np.sum(whole.slope[:, :-1] * z, axis=1)
        pattern = whole.seasons[..., -1] + np.einsum("msk,mk->ms", whole.seasons[..., :-1], z)
        np.testing.assert_allclose(later.filter.level[:, 0], level, atol=1e-8)
        np.testing.assert_allclose(later.filter.slope[:, 0], slope, atol=1e-8)
        np.testing.assert_allclose(later.filter.seasons[..., 0], pattern, atol=1e-8)
        np.testing.assert_allclose(later.filter.covariance, whole.covariance, atol=1e-8)


@pytest.mark.parametrize("season", [1, 4])
def test_updated_autoregressions_look_back_to_the_new_rows(season):
    X = walks(90, 3)
    origins = RollingOrigins(np.array([80]), 5)
    none = np.zeros((10, 0))
    short = SeriesTable(X[:80], np.zeros((80, 0)), season, origins)
    state = AutoregressionBank(short).fit().state
    longer = SeriesTable(X, np.zeros((90, 0)), season, RollingOrigins(np.array([90]), 5))
    values = short.units().standardized(X)
    rows = len(state.values)
    expected = replace(state, values=values[-rows:], time=90)
    assert longer.trailing_gaps.max() == 0
    found = state.updated(X[80:], none)
    np.testing.assert_allclose(
        found.forecast(7, none[:7]).means, expected.forecast(7, none[:7]).means, atol=1e-8
    )


def test_updates_take_inputs():
    rng = np.random.default_rng(2)
    u = rng.normal(size=(80, 1))
    x = 5 * u + 0.1 * rng.normal(size=(80, 1))
    model = AutoForecaster(1).fit(x[:60], exog=u[:60]).update(x[60:75], exog=u[60:75])
    found = model.forecast(5, exog=u[75:])
    np.testing.assert_allclose(found.mean, 5 * u[75:], atol=0.6)


# ---------------------------------------------------------------- simulated series


@pytest.mark.parametrize("persistence", [1.0, 0.7])
def test_intervals_cover_what_they_promise(persistence):
    rng = np.random.default_rng(3)
    n_series = 120
    hits = []
    for _ in range(n_series):
        e = rng.normal(size=110)
        x = np.zeros(110)
        for t in range(1, 110):
            x[t] = persistence * x[t - 1] + e[t]
        found = AutoForecaster(1, log=False).fit(x[:100]).forecast(10, level=0.95)
        inside = (found.lower[:, 0] <= x[100:]) & (x[100:] <= found.upper[:, 0])
        hits.append(inside.mean())
    assert 0.90 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize("season", [4, 7, 12, 24])
@pytest.mark.parametrize("seed", range(3))
def test_a_season_is_found(season, seed):
    model = AutoForecaster().fit(monthly(6 * season, season, seed))
    assert model.season_ == season
    assert model.season_gains_[season] == max(model.season_gains_.values())


@pytest.mark.parametrize("seed", range(5))
def test_no_season_is_found_where_there_is_none(seed):
    noise = np.random.default_rng(seed).normal(size=120)
    assert AutoForecaster().fit(noise).season_ == 1
    assert AutoForecaster().fit(np.cumsum(noise)).season_ == 1


@pytest.mark.parametrize("seed", range(3))
def test_logs_are_taken_of_growth_and_not_of_noise(seed):
    e = np.random.default_rng(seed).normal(size=(100, 2))
    growth = np.exp(0.05 * np.arange(100) + 0.1 * np.cumsum(e[:, 0]))
    level = 5 + e[:, 1]
    model = AutoForecaster(1).fit(np.column_stack([growth, level]))
    np.testing.assert_array_equal(model.log_, [True, False])


def test_positive_stays_positive_and_counts_not_negative():
    rng = np.random.default_rng(4)
    growth = np.exp(np.cumsum(0.3 * rng.normal(size=100)))
    counts = rng.poisson(0.7, size=100)
    found = AutoForecaster(log=True).fit(growth)
    assert np.all(found.forecast(20, level=0.99).lower > 0)
    assert np.all(found.simulate(20, 50, random_state=0) > 0)
    found = AutoForecaster().fit(counts)
    ahead = found.forecast(20, level=0.99)
    assert np.all(ahead.lower >= 0)
    assert np.all(found.simulate(20, 50, random_state=0) >= 0)


def test_the_effect_of_an_input_is_recovered():
    rng = np.random.default_rng(5)
    u = rng.normal(size=(130, 2))
    x = np.cumsum(0.3 * rng.normal(size=130)) + u @ [3.0, 0.0]
    model = AutoForecaster(1).fit(x[:120], exog=u[:120])
    base = model.forecast(10, exog=u[120:]).mean
    more = model.forecast(10, exog=u[120:] + [1.0, 0.0]).mean
    other = model.forecast(10, exog=u[120:] + [0.0, 1.0]).mean
    np.testing.assert_allclose((more - base)[0], 3.0, atol=0.3)
    np.testing.assert_allclose(other - base, 0.0, atol=0.3)


def test_several_seasons():
    t = np.arange(24 * 7 * 3)
    rng = np.random.default_rng(6)
    x = 5 * np.sin(2 * np.pi * t / 24) + 3 * np.cos(2 * np.pi * t / 168)
    model = AutoForecaster((168, 24)).fit(x[:-24] + 0.2 * rng.normal(size=len(t) - 24))
    assert model.season_ == 24
    assert list(model.seasons_) == [24, 168]
    error = model.forecast(24).mean[:, 0] - x[-24:]
    assert np.sqrt(np.mean(error**2)) < 0.5


# ---------------------------------------------------------------- simulate


def test_simulated_paths():
    X = walks(100, 2)
    model = AutoForecaster(1).fit(X)
    paths = model.simulate(6, 2000, random_state=0)
    assert paths.shape == (2000, 6, 2)
    np.testing.assert_array_equal(paths, model.simulate(6, 2000, random_state=0))
    assert np.any(paths != model.simulate(6, 2000, random_state=1))
    found = model.forecast(6, level=0.8)
    width = found.upper - found.lower
    low, middle, high = np.quantile(paths, [0.1, 0.5, 0.9], axis=0)
    assert np.all(np.abs(middle - found.mean) < 0.1 * width)
    assert np.all(np.abs((high - low) / width - 1) < 0.25)


def test_simulated_paths_after_a_gap():
    X = walks(100, 1)
    X[-8:] = np.nan
    model = AutoForecaster(1).fit(X)
    found = model.forecast(8, level=0.8)
    low, high = np.quantile(model.simulate(8, 2000, random_state=0), [0.1, 0.9], axis=0)
    ratio = (high - low) / (found.upper - found.lower)
    assert np.all(np.abs(ratio - 1) < 0.25)


# ---------------------------------------------------------------- missing values


def test_complete_keeps_observed_values_and_covers_hidden_ones():
    rng = np.random.default_rng(7)
    X = np.cumsum(rng.normal(size=(150, 6)), axis=0)
    X[:, 3:] = np.exp(0.1 * X[:, 3:])
    hidden = rng.random(X.shape) < 0.2
    hidden[60:66, 2] = True
    seen = np.where(hidden, np.nan, X)
    model = AutoForecaster(1).fit(seen)
    filled = model.complete()
    lower, upper = model.complete_interval(0.9)
    for table in (filled, lower, upper):
        np.testing.assert_array_equal(table[~hidden], X[~hidden])
        assert np.all(np.isfinite(table))
    assert np.all((lower <= filled) & (filled <= upper))
    inside = (lower <= X) & (X <= upper)
    assert 0.83 <= inside[hidden].mean() <= 0.97


@pytest.mark.parametrize("case", ["late", "middle", "end", "many", "one cell", "one more"])
def test_missing_values_anywhere(case):
    X = walks(80, 2)
    rng = np.random.default_rng(8)
    if case == "late":
        X[:55, 0] = np.nan
    elif case == "middle":
        X[30:45, 0] = np.nan
    elif case == "end":
        X[70:, 0] = np.nan
    elif case == "many":
        X[rng.random(X.shape) < 0.3] = np.nan
    elif case == "one cell":
        X[:40, 0] = np.nan
        X[41:, 0] = np.nan
    else:
        X[2:, 0] = np.nan
    model = AutoForecaster().fit(X)
    found = limits(model.forecast(10, level=0.9))
    assert np.all(np.isfinite(found))
    assert np.all(found[1] < found[2])
    assert np.all(np.isfinite(model.complete()))
    assert np.all(np.isfinite(model.simulate(4, 10, random_state=0)))


# ---------------------------------------------------------------- edge cases


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_rows", [1, 2, 3, 10])
@pytest.mark.parametrize("n_series", [1, 3, 8])
def test_few_rows(n_rows, n_series):
    X = walks(n_rows, n_series) + 5
    found = AutoForecaster().fit(X).forecast(200, level=0.9)
    assert found.mean.shape == (200, n_series)
    assert np.all(np.isfinite(limits(found)))
    assert np.all(found.lower < found.upper)
    if n_rows == 1:
        np.testing.assert_allclose(found.mean, np.repeat(X, 200, axis=0), rtol=1e-3)


@pytest.mark.parametrize("value", [0.0, 7.0, -3e5])
def test_constant_series(value):
    found = AutoForecaster().fit(np.full(60, value)).forecast(5, level=0.9)
    np.testing.assert_allclose(limits(found), value, atol=1e-5 * max(1, abs(value)))


def test_exact_lines_and_periods_go_on():
    t = np.arange(70.0)
    found = AutoForecaster().fit(3 + 2 * t[:60]).forecast(10).mean[:, 0]
    np.testing.assert_allclose(found, 3 + 2 * t[60:], rtol=0.02)
    x = np.array([1.0, 5.0, -2.0, 4.0, 0.0, 7.0, 3.0])[np.arange(70) % 7]
    model = AutoForecaster().fit(x[:60])
    assert model.season_ == 7
    np.testing.assert_allclose(model.forecast(10).mean[:, 0], x[60:], atol=0.1)


def test_one_spike():
    x = np.random.default_rng(9).normal(size=100)
    x[50] = 1e6
    found = AutoForecaster().fit(x).forecast(5, level=0.9)
    assert np.all(np.isfinite(limits(found)))
    assert np.all(np.abs(found.mean) < 2e5)


def test_many_series_and_duplicates():
    X = walks(60, 15)
    X = np.concatenate([X, X], axis=1)
    model = AutoForecaster(1).fit(X)
    found = limits(model.forecast(200, level=0.9))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[:, :, :15], found[:, :, 15:], atol=1e-6)
    assert np.all(np.isfinite(model.simulate(5, 3, random_state=0)))


def test_only_the_last_thousand_rows_are_used():
    x = walks(1200, 1)
    other = x.copy()
    other[:200] = 1e3
    first = AutoForecaster(1).fit(x).forecast(3).mean
    np.testing.assert_array_equal(AutoForecaster(1).fit(other).forecast(3).mean, first)


# ---------------------------------------------------------------- tables


def test_tables_of_pandas():
    X = walks(60, 2)
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    plain = AutoForecaster().fit(X).forecast(4, level=0.9)
    model = AutoForecaster().fit(pd.DataFrame(X, index=days, columns=["a", "b"]))
    frame = model.forecast(4, level=0.9).to_frame()
    assert list(frame.columns[:2]) == ["a", "b"]
    assert list(frame.index) == list(pd.date_range(days[-1], periods=5, freq="D")[1:])
    np.testing.assert_array_equal(frame[["a", "b"]], plain.mean)
    np.testing.assert_array_equal(frame["b_upper"], plain.upper[:, 1])
    months = pd.period_range("2019-01", periods=60, freq="M")
    model = AutoForecaster().fit(pd.Series(X[:, 0], index=months, name="sales"))
    frame = model.forecast(2).to_frame()
    assert list(frame.index) == list(pd.period_range("2024-01", periods=2, freq="M"))
    assert list(frame.columns) == ["sales"]
    assert list(model.complete().index) == list(months)


def test_tables_of_polars_and_single_precision():
    polars = pytest.importorskip("polars")
    X = walks(60, 2)
    plain = AutoForecaster().fit(X).forecast(4)
    model = AutoForecaster().fit(polars.DataFrame({"a": X[:, 0], "b": X[:, 1]}))
    frame = model.forecast(4).to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == ["a", "b"]
    np.testing.assert_array_equal(frame.to_numpy(), plain.mean)
    single = AutoForecaster().fit(X.astype(np.float32)).forecast(4)
    assert single.mean.dtype == np.float32
    np.testing.assert_allclose(single.mean, plain.mean, atol=1e-3)


# ---------------------------------------------------------------- errors


def broken(value):
    X = walks(40, 2)
    X[3, 1] = value
    return X


def test_bad_series_are_refused():
    empty = walks(40, 2)
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="Column 1.*no observed value"):
        AutoForecaster().fit(empty)
    with pytest.raises(ValueError, match=r"[Ii]nf"):
        AutoForecaster().fit(broken(np.inf))
    words = pd.DataFrame({"a": walks(40, 1)[:, 0], "b": ["x"] * 40})
    with pytest.raises(ValueError, match="b"):
        AutoForecaster().fit(words)
    with pytest.raises(ValueError, match=r"log=True.*column 1"):
        AutoForecaster(log=True).fit(np.abs(broken(0.0)))
    with pytest.raises(ValueError):
        AutoForecaster().fit(np.zeros((0, 2)))


@pytest.mark.parametrize("season", [0, -3, "weekly", 2.5, (24, 0), (7, "x"), ()])
def test_bad_seasons_are_refused(season):
    with pytest.raises(ValueError, match="season"):
        AutoForecaster(season).fit(walks(40, 1))


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, "x"])
def test_bad_horizons_are_refused(horizon):
    model = AutoForecaster().fit(walks(40, 1))
    with pytest.raises(ValueError, match="horizon"):
        model.forecast(horizon)
    with pytest.raises(ValueError, match="horizon"):
        model.simulate(horizon)
    with pytest.raises(ValueError, match="horizon"):
        AutoForecaster(horizon=horizon).fit(walks(40, 1))


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, np.nan, (0.5, 2), "x"])
def test_bad_levels_are_refused(level):
    model = AutoForecaster().fit(walks(40, 1))
    with pytest.raises(ValueError, match="level"):
        model.forecast(3, level=level)


def test_bad_inputs_are_refused():
    X = walks(40, 1)
    u = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["price", "holiday"])
    gap = u.copy()
    gap.loc[[4, 9], "holiday"] = np.nan
    with pytest.raises(ValueError, match=r"'holiday', rows 4, 9"):
        AutoForecaster().fit(X, exog=gap)
    with pytest.raises(ValueError, match="40 rows"):
        AutoForecaster().fit(X, exog=u[:30])
    model = AutoForecaster().fit(X, exog=u)
    with pytest.raises(ValueError, match=r"2 inputs.*5 rows"):
        model.forecast(5)
    with pytest.raises(ValueError, match=r"no column 'holiday'"):
        model.forecast(5, exog=u[["price"]][:5])
    with pytest.raises(ValueError, match=r"5 rows and 2 columns"):
        model.forecast(5, exog=u.to_numpy()[:5, :1])
    with pytest.raises(ValueError, match=r"5 rows"):
        model.forecast(5, exog=u[:4])
    with pytest.raises(ValueError, match=r"'holiday', rows 4"):
        model.forecast(5, exog=gap[:5])
    with pytest.raises(ValueError, match="without inputs"):
        AutoForecaster().fit(X).forecast(3, exog=u[:3])


def test_bad_updates_are_refused_and_change_nothing():
    X = np.exp(0.1 * walks(60, 2))
    model = AutoForecaster(log=True).fit(X)
    first = model.forecast(3).mean
    with pytest.raises(ValueError, match="Column 1.*logarithm"):
        model.update(np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError):
        model.update(np.ones((2, 3)))
    with pytest.raises(ValueError):
        model.update(np.array([[np.inf, 1.0]]))
    np.testing.assert_array_equal(model.forecast(3).mean, first)


# ---------------------------------------------------------------- the partner of the banks


def test_several_series_have_an_arma_model_with_a_fixed_share():
    X = walks(60, 2)
    model = AutoForecaster(1, log=False).fit(X)
    assert model.members_ == ["smoothing", "autoregression", "theta", "regularized ARMA"]
    np.testing.assert_allclose(model.weights_[3], 0.15)
    part = model.weights_[2] / (model.weights_[0] + model.weights_[2])
    assert np.all((0.2 < part) & (part <= 0.3))
    np.testing.assert_allclose(model.weights_.sum(axis=0), 1)
    assert np.isnan(model.scores_[2:]).all()
    assert "regularized ARMA" in str(model.explain())
    assert "nan: a fixed weight" in str(model.explain())
    none = np.zeros((5, 0))
    parts = [bank.forecast(5, none) for bank in model._pooled.banks]
    means = np.stack([mean for mean, _ in parts])
    variances = np.stack([variance for _, variance in parts])
    shares = model.weights_[:, None]
    mean = (shares * means).sum(axis=0)
    spread = (shares * (variances + (means - mean) ** 2)).sum(axis=0)
    found = model.forecast(5, level=0.9)
    np.testing.assert_allclose(found.mean, mean)
    half = model._quantiles(np.array([0.9]))[0] * model.factor_ * np.sqrt(spread)
    np.testing.assert_allclose(found.upper - found.mean, half)
    alone = regfactor.RegularizedARMA(season=1).fit(X).forecast(5)
    np.testing.assert_allclose(means[3], alone.mean)
    assert len(AutoForecaster(1).fit(X[:, :1]).members_) == 3
    assert len(AutoForecaster(1).fit(walks(40, 21)).members_) == 3


@pytest.mark.parametrize("missing", [False, True])
def test_theta_members_average_a_line_and_smoothing_of_twice_the_series_less_it(missing):
    """The two theta lines, each extrapolated by a plain loop."""
    x = 3 + 0.4 * np.arange(30) + walks(30, 1)[:, 0]
    if missing:
        x[:5] = np.nan
    table = SeriesTable(x[:, None], np.zeros((30, 0)), 1, RollingOrigins(np.array([30]), 4))
    state = ThetaBank(table).fit().state
    seen = np.flatnonzero(~np.isnan(x))
    slope, start = np.polyfit(seen, x[seen], 1)
    line = start + slope * np.arange(34)
    found = state.forecast(4, np.zeros((4, 0))).means[:, :, 0]
    for gain, means in zip(LEVEL_GAINS, found, strict=True):
        # errors of smoothing are affine in the first level, found by least squares
        errors = []
        levels = []
        for level, data in ((0.0, 2 * x - line[:30]), (1.0, np.zeros(30))):
            own = []
            for t in seen:
                own.append(data[t] - level)
                level += gain * own[-1]
            errors.append(np.array(own))
            levels.append(level)
        first = -(errors[0] @ errors[1]) / (errors[1] @ errors[1])
        smoothed = levels[0] + first * levels[1]
        np.testing.assert_allclose(means, (line[30:] + smoothed) / 2, rtol=1e-3)
    after = state.updated(x[25:, None], np.zeros((5, 0)))
    assert after.forecast(2, np.zeros((2, 0))).means.shape == (10, 2, 1)
    longer = state.forecast(6, np.zeros((6, 0))).means
    expected = state.updated(np.full((2, 1), np.nan), np.zeros((2, 0)))
    np.testing.assert_allclose(expected.forecast(4, np.zeros((4, 0))).means, longer[:, 2:])


def test_the_arma_model_is_updated_with_the_banks():
    X = walks(70, 2)
    X[64:66, 0] = np.nan
    model = AutoForecaster(1, log=False).fit(X[:60])
    before = model._pooled.banks[3].state
    model.update(X[60:])
    expected = regfactor.RegularizedARMA(season=1).fit(X[:60]).update(X[60:]).forecast(4).mean
    state = model._pooled.banks[3].state
    np.testing.assert_allclose(state.forecast(4, np.zeros((4, 0))).means[0], expected)
    kept = regfactor.RegularizedARMA(season=1).fit(X[:60]).forecast(4).mean
    np.testing.assert_allclose(before.forecast(4, np.zeros((4, 0))).means[0], kept)


# ---------------------------------------------------------------- calibrated gaps


def test_lengths_of_gaps():
    values = np.ones((8, 2))
    values[[0, 1, 4, 6, 7], 0] = np.nan
    np.testing.assert_array_equal(gap_lengths(values)[:, 0], [2, 2, 0, 0, 1, 0, 2, 2])
    np.testing.assert_array_equal(gap_lengths(values)[:, 1], 0)


def test_limits_of_long_gaps_hold_where_neighbors_do_not_tell():
    """A cycle, which smoothing does not know: single cells are easy, blocks are not."""
    rng = np.random.default_rng(10)
    hits = []
    for _ in range(12):
        x = np.zeros(200)
        for t in range(2, 200):
            x[t] = 1.6 * x[t - 1] - 0.9 * x[t - 2] + rng.normal()
        seen = x.copy()
        seen[[100, 101, 102, 103, 104, 105, 150, 151, 152, 153, 154, 155]] = np.nan
        lower, upper = AutoForecaster(1, log=False).fit(seen).complete_interval(0.9)
        inside = (lower[:, 0] <= x) & (x <= upper[:, 0])
        hits.append(inside[np.isnan(seen)].mean())
    assert 0.82 <= np.mean(hits) <= 0.99


@pytest.mark.parametrize("n_series", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_hundreds_of_series(n_series):
    rng = np.random.default_rng(11)
    factors = np.cumsum(rng.normal(size=(40, 3)), axis=0)
    X = factors @ rng.normal(size=(3, n_series)) + rng.normal(size=(40, n_series))
    model = AutoForecaster(1, log=False).fit(X[:36])
    found = model.forecast(4, level=0.9)
    assert found.mean.shape == (4, n_series)
    inside = (found.lower <= X[36:]) & (X[36:] <= found.upper)
    assert 0.8 <= inside.mean() <= 0.99
    naive = np.sqrt(np.mean((X[36:] - X[35]) ** 2))
    assert np.sqrt(np.mean((X[36:] - found.mean) ** 2)) < 1.1 * naive


def test_solving_origins_one_by_one_changes_nothing(monkeypatch):
    X = walks(60, 3)
    first = limits(AutoForecaster(4).fit(X).forecast(5, level=0.9))
    monkeypatch.setattr("regfactor.series.autoregression_bank.MAX_ELEMENTS", 1)
    np.testing.assert_allclose(
        limits(AutoForecaster(4).fit(X).forecast(5, level=0.9)), first, rtol=1e-9
    )


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_spikes_and_periods_in_any_unit(scale):
    x = np.array([1.0, 5.0, -2.0, 4.0])[np.arange(48) % 4]
    model = AutoForecaster().fit(scale * x[:44])
    np.testing.assert_allclose(model.forecast(4).mean[:, 0] / scale, x[44:], atol=0.15)
    spike = np.zeros(48)
    spike[20] = scale
    found = limits(AutoForecaster().fit(spike).forecast(4, level=0.9)) / scale
    assert np.all(np.isfinite(found))
    assert np.all(np.abs(found[0]) < 0.2)


@pytest.mark.parametrize("log", [False, "auto"])
def test_one_jump_at_the_end_of_a_quiet_series_does_not_explode(log):
    rng = np.random.default_rng(0)
    X = 3 + 0.1 * rng.normal(size=50)
    X[-1] = 100
    model = AutoForecaster(log=log).fit(X)
    ahead = model.forecast(12, level=0.9)
    assert np.all((ahead.mean > 0) & (ahead.mean < 150))
    if not log:
        assert np.all(ahead.upper < 2000)


def test_series_of_one_name_are_refused():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="several columns named 'a'; give each"):
        AutoForecaster().fit(X)
    with pytest.raises(ValueError, match="several columns named 'a'"):
        RegularizedARMA(p=1).fit(X)


def odd_series(rng, n):
    """Series of kinds that break forecasters, each followed by what comes next."""
    t = np.arange(n)
    noise = rng.normal(size=n)
    walk = np.cumsum(noise)
    months = (3 * rng.normal(size=12))[t % 12]
    return {
        "late shift": noise + 20 * (t >= n - 20),
        "intermittent": rng.poisson(2, n) * (rng.random(n) < 0.2),
        "zeros, then values": np.where(t < 20, 0, 5 + noise),
        "values, then zeros": np.where(t < 20, 5 + noise, 0),
        "constant stretches": np.repeat(5 * rng.normal(size=n // 10 + 1), 10)[:n],
        "dropouts": np.where(rng.random(n) < 0.05, 0, 50 + walk),
        "growth": np.exp(0.03 * t + 0.05 * walk),
        "negative growth": -np.exp(0.02 * t + 0.05 * walk),
        "heavy tails": np.cumsum(rng.standard_t(1.5, n)),
        "short season": months + 0.3 * noise,
        "rounded": np.round(walk / 3),
        "far from zero": 1e6 + walk,
    }


@pytest.mark.parametrize("kind", odd_series(np.random.default_rng(0), 42))
def test_odd_series_are_forecast_about_as_well_as_by_their_last_values(kind):
    errors = []
    naive = []
    for seed in range(4):
        values = odd_series(np.random.default_rng(seed), 42)[kind]
        past, future = values[:30], values[30:]
        unit = np.sqrt(np.square(np.diff(past)).mean()) + 1e-9
        found = AutoForecaster().fit(past).forecast(12).mean[:, 0]
        repeated = [np.full(12, past[-1])]
        if kind == "short season":
            repeated.append(past[-12:])
        errors.append(np.sqrt(np.square(found - future).mean()) / unit)
        naive.append(min(np.sqrt(np.square(last - future).mean()) / unit for last in repeated))
    assert np.mean(errors) < 1.5 * np.mean(naive) + 0.1
