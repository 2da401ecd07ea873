"""Values that are left out of forecasting models because they stand out."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t, norm

from regfactor import AutoForecaster
from regfactor.series.bank import SeriesTable
from regfactor.series.ridge_evidence import PRIOR_WEIGHT
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.season_evidence import few_groups
from regfactor.series.smoothing_bank import fit_smoothing
from regfactor.series.spikes import evidence_constant, from_past, mixture_gain, without_spikes


def no_inputs(n):
    return np.zeros((n, 0))


def walk(n=120, seed=0):
    rng = np.random.default_rng(seed)
    return 0.5 * np.cumsum(rng.normal(size=n)) + 0.5 * rng.normal(size=n)


def with_spikes(values, rows, size=12.0):
    found = values.copy()
    signs = np.where(np.arange(len(rows)) % 2, -1, 1)
    found[rows] += size * signs
    return found


@pytest.mark.parametrize("season", [1, 12])
@pytest.mark.parametrize("seed", range(3))
def test_spikes_are_found_and_nothing_else(season, seed):
    x = walk(seed=seed)
    if season > 1:
        x = x + 4 * np.random.default_rng(seed).normal(size=12)[np.arange(120) % 12]
    rows = [20, 47, 80, 101]
    spiked = with_spikes(x, rows)
    found = without_spikes(spiked[:, None], no_inputs(120), season)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), rows)
    kept = ~np.isnan(found[:, 0])
    np.testing.assert_array_equal(found[kept, 0], spiked[kept])
    clean = without_spikes(x[:, None], no_inputs(120), season)
    np.testing.assert_array_equal(clean[:, 0], x)


@pytest.mark.parametrize("kind", ["noise", "walk", "level shift", "ramp", "peaks", "few", "zeros"])
@pytest.mark.parametrize("seed", range(5))
def test_series_without_spikes_keep_all_values(kind, seed):
    rng = np.random.default_rng(seed)
    n = 120
    season = 1
    x = rng.normal(size=n)
    if kind == "walk":
        x = np.cumsum(x)
    elif kind == "level shift":
        x = x + 15 * (np.arange(n) > 60)
    elif kind == "ramp":
        x = np.arange(n) + x
    elif kind == "peaks":
        season = 12
        x = x + 20 * (np.arange(n) % 12 == 11)
    elif kind == "few":
        x = with_spikes(x[:20], [10])
    elif kind == "zeros":  # demand now and then is no exception
        x = np.where(rng.random(n) < 0.3, np.abs(x) * 20, 0)
    found = without_spikes(x[:, None], no_inputs(len(x)), season)
    assert not np.isnan(found).any()


def test_units_and_signs_do_not_matter():
    x = with_spikes(walk(), [20, 47, 80])
    both = np.column_stack([x, -1e6 * x + 1e7])
    found = np.isnan(without_spikes(both, no_inputs(120), 1))
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert found[:, 0].sum() == 3


def test_missing_values_stay_missing():
    x = with_spikes(walk(), [20, 47, 80])
    x[[0, 1, 30, 31, 32, 119]] = np.nan
    found = np.isnan(without_spikes(x[:, None], no_inputs(120), 1)[:, 0])
    expected = [0, 1, 20, 30, 31, 32, 47, 80, 119]
    np.testing.assert_array_equal(np.flatnonzero(found), expected)


def test_last_values_are_judged_where_there_are_other_spikes():
    x = walk()
    alone = with_spikes(x, [119])
    assert not np.isnan(without_spikes(alone[:, None], no_inputs(120), 1)).any()
    several = with_spikes(x, [20, 47, 80, 119])
    found = without_spikes(several[:, None], no_inputs(120), 1)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [20, 47, 80, 119])


def test_differences_from_the_past():
    x = np.array([1.0, 2.0, 3.0, 4.0, 9.0, 5.0])
    np.testing.assert_allclose(from_past(x), [0, 0, 0, 0, 9 - 2.5, 5 - 3.5])


@pytest.mark.parametrize("n", [5, 40])
def test_the_constant_of_the_evidence_is_that_of_student(n):
    """Outcomes of which nothing is known but one pseudo-observation of their size."""
    x = np.random.default_rng(1).normal(size=n)
    density = multivariate_t(np.zeros(n), np.eye(n), df=1).logpdf(x)
    evidence = -(n + PRIOR_WEIGHT) / 2 * np.log(x @ x + PRIOR_WEIGHT)
    np.testing.assert_allclose(evidence + evidence_constant(n), density, rtol=1e-10)


def test_the_gain_is_that_of_two_densities():
    x = with_spikes(walk(), [20, 47])
    spikes = np.array([20, 47])
    densities = []
    for left_out in ([], spikes):
        seen = x.copy()
        seen[left_out] = np.nan
        # in units of each series, whose logarithm is part of the evidence
        table = SeriesTable(seen[:, None], no_inputs(120), 1, RollingOrigins(np.array([120]), 1))
        fit = fit_smoothing(table, few_groups(1), "one")
        n = 120 - len(left_out)
        evidence = logsumexp(fit.log_evidence[-1, :, 0] + fit.log_prior)
        densities.append(evidence + evidence_constant(n))
    away = []
    for row in spikes:
        away.append(x[row] - np.median(x[[row - 2, row - 1, row + 1, row + 2]]))
    deviation = np.sqrt(np.mean(np.square(away)))
    p = 2.5 / 121
    of_spikes = norm(0, deviation).logpdf(away).sum()
    expected = densities[1] - densities[0] + of_spikes + 2 * np.log(p) + 118 * np.log(1 - p)
    found = mixture_gain(x, no_inputs(120), 1, spikes)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_forecasts_follow_the_usual_values():
    errors = {}
    for robust in (True, False):
        errors[robust] = []
    for seed in range(6):
        x = walk(128, seed)
        seen = with_spikes(x[:120], [15, 33, 60, 85, 110, 119])
        found = AutoForecaster(season=1).fit(seen)
        assert found.spikes_.sum() == 6
        assert "6 single values stand out" in str(found.explain())
        clean = AutoForecaster(season=1).fit(x[:120])
        errors[True].append(np.square(found.forecast(8).mean[:, 0] - x[120:]).mean())
        errors[False].append(np.square(clean.forecast(8).mean[:, 0] - x[120:]).mean())
    assert np.mean(errors[True]) < 1.3 * np.mean(errors[False])


def test_observed_values_are_returned_with_their_spikes():
    x = with_spikes(walk(), [20, 47, 80])
    model = AutoForecaster(season=1).fit(x)
    np.testing.assert_allclose(model.observed()[:, 0], x)
    np.testing.assert_allclose(model.complete()[:, 0], x)
    lower, upper = model.complete_interval()
    np.testing.assert_allclose(lower[:, 0], x)
    np.testing.assert_allclose(upper[:, 0], x)
