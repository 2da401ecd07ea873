"""Banks of the automatic forecaster against dense linear algebra, plain loops and peers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp, softmax
from scipy.stats import multivariate_t
from sklearn.linear_model import Ridge

from regfactor.series.autoregression_bank import (
    AutoregressionBank,
    AutoregressionState,
    LagModel,
    Priors,
    fitted_blocks,
)
from regfactor.series.bank import BankFit, SeriesTable, Units
from regfactor.series.gap_filling import MAX_CELLS, filled_gaps, fit_cells, gap_groups
from regfactor.series.phase_means import SEASONS
from regfactor.series.pooled_forecast import calibration_factor
from regfactor.series.ridge_evidence import RidgePosterior
from regfactor.series.rolling_origins import RollingOrigins, default_horizon
from regfactor.series.season_evidence import best_season, log_gains, season_gains
from regfactor.series.smoothing_bank import (
    ErrorSums,
    SmoothingBank,
    SmoothingGroup,
    fit_group,
    fit_smoothing,
    smoothing_groups,
)
from regfactor.series.smoothing_filter import SmoothingFilter
from regfactor.series.smoothing_members import Gains, all_gains, few_gains, gap_gains
from regfactor.series.volatility import local_variances
from regfactor.series.weights import explosive_members, without

NO_UNITS = Units(np.zeros(1), np.ones(1))


def full_sample(n_rows, horizon=6):
    return RollingOrigins(np.array([n_rows]), horizon)


def table_of(values, season=1, origins=None, inputs=None):
    values = np.asarray(values, dtype=float)
    if origins is None:
        origins = full_sample(len(values))
    if inputs is None:
        inputs = np.zeros((len(values), 0))
    return SeriesTable(values, inputs, season, origins)


def evidence_constant(n):
    """What the evidence leaves out of Student's density of n outcomes."""
    return gammaln((n + 1) / 2) - gammaln(1 / 2) - n / 2 * np.log(np.pi)


def t_log_density(x, covariance):
    """Student's density: sigma^2 has one pseudo-observation of size one, and is integrated out."""
    n = len(x)
    return multivariate_t(np.zeros(n), covariance, df=1).logpdf(x) - evidence_constant(n)


# ---------------------------------------------------------------- ridge evidence


@pytest.mark.parametrize("seed", range(3))
def test_ridge_evidence_is_the_marginal_likelihood(seed):
    rng = np.random.default_rng(seed)
    n = 15
    D = rng.normal(size=(n, 4))
    Y = rng.normal(size=(n, 2))
    S = np.array([0.3, 0.0, 2.0, 1.0])
    log_scales = np.array([0.0, 1.7])
    found = RidgePosterior.of(D.T @ D, D.T @ Y, np.square(Y).sum(axis=0), S)
    covariance = np.eye(n) + D @ np.diag(S**2) @ D.T
    np.testing.assert_allclose(found.log_determinant, np.linalg.slogdet(covariance)[1])
    quadratic = np.einsum("ij,ij->j", Y, np.linalg.solve(covariance, Y))
    np.testing.assert_allclose(found.squares, quadratic)
    evidence = found.log_evidence(n, log_scales)
    for j in range(2):
        dense = t_log_density(Y[:, j], covariance) - n * log_scales[j]
        np.testing.assert_allclose(evidence[j], dense)
    np.testing.assert_allclose(found.variances(n), (quadratic + 1) / (n + 1))
    assert np.all(found.coefficients[1] == 0)
    used = S > 0
    ridge = Ridge(alpha=1, fit_intercept=False).fit(D[:, used] * S[used], Y)
    np.testing.assert_allclose(found.coefficients[used], S[used, None] * ridge.coef_.T)


def test_ridge_of_many_problems_is_that_of_each():
    rng = np.random.default_rng(0)
    D = rng.normal(size=(5, 12, 3))
    y = rng.normal(size=(5, 12, 1))
    gram = D.transpose(0, 2, 1) @ D
    cross = D.transpose(0, 2, 1) @ y
    squares = np.square(y).sum(axis=1)
    S = rng.uniform(0.1, 2, size=(5, 3))
    together = RidgePosterior.of(gram, cross, squares, S)
    for i in range(5):
        alone = RidgePosterior.of(gram[i], cross[i], squares[i], S[i])
        np.testing.assert_allclose(together.coefficients[i], alone.coefficients)
        np.testing.assert_allclose(together.squares[i], alone.squares)
        np.testing.assert_allclose(together.log_determinant[i], alone.log_determinant)


# ---------------------------------------------------------------- smoothing


def smoothing_loop(y, gains, level, slope, seasons, first=0):
    """The recursion of section 3 of the specification, one member and one series."""
    alpha, beta, phi, gamma = gains
    season = len(seasons)
    S = list(seasons)
    errors = []
    for t, x in enumerate(y, start=first):
        e = x - level - phi * slope - S[t % season]
        if season > 1:
            S[t % season] += gamma * e
        level, slope = level + phi * slope + alpha * e, phi * slope + beta * e
        errors.append(e)
    return np.array(errors), level, slope, np.array(S)


def means_ahead(level, slope, seasons, phi, time, horizon):
    found = []
    for h in range(1, horizon + 1):
        damped = sum(phi**i for i in range(1, h + 1))
        found.append(level + damped * slope + seasons[(time + h - 1) % len(seasons)])
    return np.array(found)


def psi_weights(gains, season, n):
    alpha, beta, phi, gamma = gains
    psi = [1.0]
    for j in range(1, n):
        damped = sum(phi**i for i in range(1, j + 1))
        psi.append(alpha + beta * damped + gamma * (season > 1 and j % season == 0))
    return np.array(psi)


def member(gains, i):
    return gains.level[i], gains.slope[i], gains.damping[i], gains.season[i]


def test_members_are_those_of_the_specification():
    assert len(all_gains(seasonal=False)) == 82
    assert len(all_gains(seasonal=True)) + 82 == 440
    assert len(few_gains(seasonal=False)) + len(few_gains(seasonal=True)) == 32
    for season in (1, 12):
        groups = smoothing_groups(season)
        prior = np.exp(np.concatenate([group.gains.log_prior for group in groups]))
        trend = np.concatenate([group.gains.trend for group in groups])
        np.testing.assert_allclose([prior[trend].sum(), prior[~trend].sum()], [0.4, 0.6])
        np.testing.assert_allclose(np.ptp(prior[trend]), 0, atol=1e-15)
        np.testing.assert_allclose(np.ptp(prior[~trend]), 0, atol=1e-15)
    gains = all_gains(seasonal=False)
    assert np.all(gains.slope <= gains.level)
    rows = set(zip(gains.level, gains.slope, gains.damping, gains.trend, strict=True))
    assert len(rows) == 82


@pytest.mark.parametrize("season", [1, 4])
def test_errors_and_forecasts_are_those_of_a_plain_loop(season):
    rng = np.random.default_rng(1)
    gains = all_gains(seasonal=season > 1)
    y = np.cumsum(rng.normal(size=30))
    level = rng.normal(size=(len(gains), 1))
    slope = rng.normal(size=(len(gains), 1))
    seasons = rng.normal(size=(len(gains), season, 1)) * (season > 1)
    smoother = SmoothingFilter(gains, level.copy(), slope.copy(), seasons.copy())
    errors = np.array([smoother.advance(np.array([x]), t)[:, 0] for t, x in enumerate(y)])
    ahead = smoother.forecast(30, 9)
    for i in range(len(gains)):
        own = member(gains, i)
        e, last, b, S = smoothing_loop(y, own, level[i, 0], slope[i, 0], seasons[i, :, 0])
        np.testing.assert_allclose(errors[:, i], e, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            ahead[i, :, 0], means_ahead(last, b, S, own[2], 30, 9), atol=1e-8
        )
        np.testing.assert_allclose(
            gains.responses(season, 9)[i], psi_weights(own, season, 9), atol=1e-12
        )


@pytest.mark.parametrize("damping", [0.9, 1.0])
@pytest.mark.parametrize("season", [1, 4])
def test_errors_forecasts_and_variances_are_those_of_statsmodels(season, damping):
    ets = pytest.importorskip("statsmodels.tsa.exponential_smoothing.ets")
    rng = np.random.default_rng(2)
    y = 10 + np.cumsum(rng.normal(size=40))
    alpha, beta, gamma = 0.4, 0.1, 0.2
    level, slope = 9.0, 0.3
    initial = np.array([1.0, -2.0, 0.5, 0.5]) if season > 1 else np.zeros(1)
    options = {"trend": "add", "damped_trend": damping < 1}
    params = [alpha, beta]
    if season > 1:
        options |= {"seasonal": "add", "seasonal_periods": 4, "initial_seasonal": initial}
        params.append(gamma)
    if damping < 1:
        params.append(damping)
    model = ets.ETSModel(
        pd.Series(y),
        error="add",
        initialization_method="known",
        initial_level=level,
        initial_trend=slope,
        **options,
    )
    result = model.smooth(params)
    gains = Gains.of([(alpha, beta, damping, gamma if season > 1 else 0.0)], [True])
    smoother = SmoothingFilter(
        gains, np.array([[level]]), np.array([[slope]]), initial[None, :, None].copy()
    )
    errors = np.array([smoother.advance(np.array([x]), t)[0, 0] for t, x in enumerate(y)])
    np.testing.assert_allclose(errors, result.resid, atol=1e-9)
    np.testing.assert_allclose(smoother.forecast(40, 10)[0, :, 0], result.forecast(10), atol=1e-9)
    ahead = result.get_prediction(start=40, end=49)
    growth = np.cumsum(gains.responses(season, 10)[0] ** 2)
    np.testing.assert_allclose(growth * result.mse, ahead.forecast_variance, rtol=1e-9)


def test_likelihood_with_gaps_is_that_of_the_state_space_model_of_statsmodels():
    module = pytest.importorskip("statsmodels.tsa.statespace.exponential_smoothing")
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(size=30))
    y[[4, 9, 10, 11, 13, 25]] = np.nan
    model = module.ExponentialSmoothing(
        y,
        trend=True,
        damped_trend=True,
        initialization_method="known",
        initial_level=0.4,
        initial_trend=0.1,
        concentrate_scale=False,
    )
    names = {
        "smoothing_level": 0.5,
        "smoothing_trend": 0.2,
        "damping_trend": 0.9,
        "sigma2": 1.0,
    }
    result = model.smooth([names[name] for name in model.param_names])
    gains = Gains.of([(0.5, 0.2, 0.9, 0.0)], [True])
    smoother = SmoothingFilter(
        gains, np.full((1, 1), 0.4), np.full((1, 1), 0.1), np.zeros((1, 1, 1))
    )
    found = 0.0
    for t, x in enumerate(y):
        if np.isnan(x):
            smoother.skip()
            continue
        variance = smoother.error_variance()[0]
        error = smoother.advance(np.array([x]), t)[0, 0]
        found -= (np.log(2 * np.pi * variance) + error**2 / variance) / 2
    np.testing.assert_allclose(found, result.llf, rtol=1e-8)


class DenseSmoothing:
    """Joint distribution of all rows of a member: y = Z z + L e, z of prior deviations S."""

    def __init__(self, gains, season, n, patterns, deviations):
        alpha, beta, phi, gamma = gains
        psi = psi_weights(gains, season, n)
        self.L = np.array([[psi[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
        damped = np.cumsum(phi ** np.arange(1, n + 1))
        seasons = patterns[np.arange(n) % season] if season > 1 else np.zeros((n, 0))
        self.Z = np.column_stack([np.ones(n), damped, seasons])
        self.noise = self.L @ self.L.T
        self.total = self.noise + self.Z @ np.diag(np.square(deviations)) @ self.Z.T


def with_gaps(n, gaps, seed):
    y = np.cumsum(np.random.default_rng(seed).normal(size=n))
    y[list(gaps)] = np.nan
    return y


GAPS = {
    "none": (),
    "one": (7,),
    "several": (3, 4, 5, 9, 11, 12, 20),
    "long": tuple(range(6, 18)),
    "second row": (1, 2),
    "end": (26, 27),
}


@pytest.mark.parametrize("gaps", GAPS)
def test_errors_after_gaps_have_the_dense_log_density(gaps):
    n = 28
    y = with_gaps(n, GAPS[gaps], 4)
    seen = np.flatnonzero(~np.isnan(y))
    gains = all_gains(seasonal=False)
    members = len(gains)
    smoother = SmoothingFilter(
        gains, np.full((members, 1), 0.3), np.full((members, 1), -0.2), np.zeros((members, 1, 1))
    )
    squares = np.zeros(members)
    logs = np.zeros(members)
    for t, x in enumerate(y):
        if np.isnan(x):
            smoother.skip()
            continue
        variance = smoother.error_variance()
        squares += smoother.advance(np.array([x]), t)[:, 0] ** 2 / variance
        logs += np.log(variance)
    for i in range(members):
        dense = DenseSmoothing(member(gains, i), 1, n, None, np.zeros(2))
        residual = (y - dense.Z @ np.array([0.3, -0.2]))[seen]
        covariance = dense.noise[np.ix_(seen, seen)]
        np.testing.assert_allclose(logs[i], np.linalg.slogdet(covariance)[1], atol=1e-8)
        quadratic = residual @ np.linalg.solve(covariance, residual)
        np.testing.assert_allclose(squares[i], quadratic, rtol=1e-8)


@pytest.mark.parametrize(
    ("season", "gaps"),
    [
        (1, "none"),
        (1, "several"),
        (1, "end"),
        (4, "none"),
        (12, "none"),
        (30, "none"),
        (24, "none"),
        (4, "long"),
    ],
)
def test_smoothing_fit_is_the_dense_posterior(season, gaps):
    """Evidence, means and variances of forecasts, with the initial state unknown.

    After gaps the filter is that of level and slope, so that it is exact where the season is fixed.
    """
    n = 28 if season < 24 else 70
    horizon = 6
    y = with_gaps(n, GAPS[gaps], 5) + 3 * np.cos(2 * np.pi * np.arange(n) / max(season, 2))
    gains = all_gains(seasonal=season > 1)
    group = SmoothingGroup(gains, season)
    fit = fit_group(group, table_of(y[:, None], season), NO_UNITS)
    seen = np.flatnonzero(~np.isnan(y))
    ahead = fit.state.forecast(horizon, np.zeros((horizon, 0)))
    if season < 24:
        patterns = np.eye(season)
        deviations = [5.0] * season * (season > 1)
    else:
        k = np.arange(1, 13)
        angles = 2 * np.pi * np.outer(np.arange(season), k) / season
        patterns = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        deviations = 2 * list(5 / k**1.5)
        if season == 24:  # the last sine is zero
            patterns = patterns[:, :-1]
            deviations = deviations[:-1]
    chosen = range(0, len(gains), 7)
    if gaps != "none" and season > 1:
        chosen = np.flatnonzero(gains.season == 0)
    for i in chosen:
        slope = 0.05**0.5 * gains.trend[i]
        own = member(gains, i)
        dense = DenseSmoothing(own, season, n + horizon, patterns, [100.0, slope, *deviations])
        total = dense.total
        now = np.ix_(seen, seen)
        evidence = t_log_density(y[seen], total[now])
        np.testing.assert_allclose(fit.log_evidence[0, i, 0], evidence, rtol=1e-6, atol=1e-6)
        later = np.arange(n, n + horizon)
        known = np.linalg.solve(total[now], y[seen])
        means = total[np.ix_(later, seen)] @ known
        np.testing.assert_allclose(ahead.means[i, :, 0], means, atol=1e-5)
        size = (y[seen] @ known + 1) / (len(seen) + 1)
        np.testing.assert_allclose(fit.variances[0, i, 0], size, rtol=1e-6)
        cross = total[np.ix_(later, seen)]
        left = total[np.ix_(later, later)] - cross @ np.linalg.solve(total[now], cross.T)
        np.testing.assert_allclose(ahead.variances[i, :, 0], size * np.diag(left), rtol=1e-5)


@pytest.mark.parametrize("missing", [False, True])
def test_members_whose_errors_grow_without_bound_get_no_weight(missing):
    x = np.cumsum(np.random.default_rng(0).normal(size=(1000, 1)), axis=0)
    if missing:
        x[500] = np.nan
    group = smoothing_groups(12)[1]
    fit = fit_group(group, table_of(x, 12), NO_UNITS)
    sums = ErrorSums.zeros(len(group.gains), group.n_free, 1)
    columns = np.concatenate([np.zeros((1000, group.n_free)), x], axis=1)
    smoother = group.start(group.n_free + 1)
    for first in range(0, 1000, 50):
        rows = range(first, first + 50)
        sums = sums.after(smoother, columns, ~np.isnan(x[:, 0]), rows)
    unstable = sums.unstable()
    assert 0 < unstable.sum() < 10
    weights = softmax(fit.log_evidence[-1, :, 0])
    assert np.all(weights[unstable] == 0)
    ahead = fit.state.forecast(6, np.zeros((6, 0)))
    assert np.all(np.isfinite(ahead.means))
    assert np.all(np.isfinite(ahead.variances))
    if missing:
        filled = filled_gaps(x, 12)
        assert abs(filled.means[500, 0] - x[[499, 501], 0].mean()) < 2


def test_a_late_start_is_the_series_without_its_missing_rows():
    rng = np.random.default_rng(6)
    y = np.cumsum(rng.normal(size=(40, 1)), axis=0) + 2 * (np.arange(40)[:, None] % 4 == 0)
    late = y.copy()
    late[:8] = np.nan  # two whole seasons, so that phases agree
    for season in (1, 4):
        group = SmoothingGroup(all_gains(seasonal=season > 1), season)
        whole = fit_group(group, table_of(late, season), NO_UNITS)
        short = fit_group(group, table_of(y[8:], season), NO_UNITS)
        np.testing.assert_allclose(whole.log_evidence, short.log_evidence, atol=1e-8)
        empty = np.zeros((5, 0))
        np.testing.assert_allclose(
            whole.state.forecast(5, empty).means, short.state.forecast(5, empty).means, atol=1e-8
        )


def test_inputs_of_smoothing_are_a_regression_with_innovations_as_errors():
    rng = np.random.default_rng(7)
    n = 30
    horizon = 5
    u = rng.normal(size=(n + horizon, 2))
    y = np.cumsum(rng.normal(size=n)) + u[:n] @ [1.5, -2.0]
    y[[5, 6, 19]] = np.nan
    seen = np.flatnonzero(~np.isnan(y))
    gains = all_gains(seasonal=False)
    table = table_of(y[:, None], inputs=u[:n])
    fit = fit_group(SmoothingGroup(gains, 1), table, NO_UNITS)
    ahead = fit.state.forecast(horizon, u[n:])
    for i in range(0, len(gains), 9):
        slope = 0.05**0.5 * gains.trend[i]
        dense = DenseSmoothing(member(gains, i), 1, n + horizon, None, [100.0, slope])
        total = dense.total + 25.0 * u @ u.T
        known = total[np.ix_(seen, seen)]
        np.testing.assert_allclose(
            fit.log_evidence[0, i, 0], t_log_density(y[seen], known), rtol=1e-6
        )
        means = total[n:][:, seen] @ np.linalg.solve(known, y[seen])
        np.testing.assert_allclose(ahead.means[i, :, 0], means, atol=1e-5)
        cross = total[n:][:, seen]
        left = total[n:, n:] - cross @ np.linalg.solve(known, cross.T)
        expected = fit.variances[0, i, 0] * np.diag(left)
        np.testing.assert_allclose(ahead.variances[i, :, 0], expected, rtol=1e-5)


def test_the_bank_at_an_origin_is_the_bank_of_its_rows():
    rng = np.random.default_rng(8)
    y = np.cumsum(rng.normal(size=(60, 2)), axis=0)
    y[10:14, 1] = np.nan
    origins = RollingOrigins(np.array([30, 41, 60]), 5)
    table = table_of(y, 4, origins)
    fit = SmoothingBank(table).fit()
    units = table.units()
    for k, rows in enumerate([30, 41, 60]):
        for j in range(2):
            part = table_of(y[:rows, [j]], 4)
            own = Units(units.center[[j]], units.scale[[j]])
            groups = [fit_group(group, part, own) for group in smoothing_groups(4)]
            evidence = np.concatenate([group.log_evidence[0, :, 0] for group in groups])
            np.testing.assert_allclose(fit.log_evidence[k, :, j], evidence, atol=1e-7)
            ahead = [group.state.forecast(5, np.zeros((5, 0))) for group in groups]
            means = np.concatenate([path.means for path in ahead])[:, :, 0]
            if k < 2:
                of_bank = fit.paths[k, :, :, j]
            else:
                of_bank = fit.state.forecast(5, np.zeros((5, 0))).means[:, :, j]
            np.testing.assert_allclose(of_bank, means, atol=1e-7)


def test_units_are_those_of_the_first_rows():
    y = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [2.0, 5.0], [102.0, 5.0]])
    units = Units.of(y, 4)
    np.testing.assert_allclose(units.center, [2.0, 5.0])
    np.testing.assert_allclose(units.scale, [1.0, 5e-8])
    y[:3, 0] = 2.0
    np.testing.assert_allclose(Units.of(y, 4).scale[0], 1e-3 * 25)
    np.testing.assert_allclose(Units.of(np.array([[np.nan], [-7.0]]), 2).scale, 7.0)


# ---------------------------------------------------------------- autoregression


class HandRegressors:
    """Regressors of section 4 of the specification, written out for one series and time.

    Everything is taken from functions y(j, t) of series and time, so that the same code serves the
    rows of the sample and forecasts.
    """

    def __init__(self, kind, season, n_lags, n_first, n_series):
        self.kind = kind
        self.season = season
        self.n_lags = n_lags
        self.n_first = n_first
        self.n_series = n_series

    def u(self, y, j, t):
        if self.kind == "difference":
            return y(j, t) - y(j, t - self.season)
        return y(j, t)

    def change(self, y, j, t):
        return self.u(y, j, t) - self.u(y, j, t - 1)

    def own(self, y, j, t):
        s = self.season
        found = [self.u(y, j, t - 1)]
        found += [self.change(y, j, t - i) for i in range(1, self.n_lags + 1)]
        if self.kind == "difference":
            found += [self.u(y, j, t - s), self.u(y, j, t - s - 1)]
        elif s > 1:
            for i in (s - 1, s, s + 1):
                if i > self.n_lags:
                    found.append(self.change(y, j, t - i))
        return found

    def own_deviations(self, rho, lag):
        s = self.season
        found = [rho]
        for i in range(1, self.n_lags + 1):
            share = 1 / i
            if s > 1 and i >= s - 1:
                share = 0.7 if i == s else 0.3
            found.append(lag * share)
        if self.kind == "difference":
            found += [0.7 * lag, 0.4 * lag]
        elif s > 1:
            for i in (s - 1, s, s + 1):
                if i > self.n_lags:
                    found.append(lag * (0.7 if i == s else 0.3))
        return found

    def waves(self):
        """Orders of cosines and of sines."""
        s = self.season
        if s > 24:
            return list(range(1, 13)), list(range(1, 13))
        cosines = list(range(1, s // 2 + 1))
        return cosines, [k for k in cosines if 2 * k < s]

    def deterministic(self, t):
        found = [1.0, t / self.n_first - 0.5]
        if self.kind == "waves":
            cosines, sines = self.waves()
            found += [np.cos(2 * np.pi * k * t / self.season) for k in cosines]
            found += [np.sin(2 * np.pi * k * t / self.season) for k in sines]
        return found

    def deterministic_deviations(self, rho, trend, drift):
        found = [1.0 if rho > 0 else 0.05**0.5 * drift, trend]
        if self.kind == "waves":
            for k in np.concatenate(self.waves()):
                found.append(5.0 if self.season <= 24 else 5 / k**1.5)
        return found

    def others(self, y, t):
        found = []
        for j in range(self.n_series):
            found += [self.u(y, j, t - 1), self.change(y, j, t - 1), self.change(y, j, t - 2)]
        return found

    def other_deviations(self, j, rho, lag, c):
        found = []
        for other in range(self.n_series):
            share = 0.0 if other == j else c
            found += [share * rho / 2, share * lag, share * lag / 2]
        return found


def before_sample(values, season):
    """The series as a function of time; its first season repeats backwards."""

    def y(j, t):
        return values[t % season, j] if t < 0 else values[t, j]

    return y


def ar_table(season, n_series, n=48, seed=9):
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(size=(n, n_series)), axis=0)
    values += 3 * rng.normal(size=(season, n_series))[np.arange(n) % season] * (season > 1)
    if n_series > 1:
        values[1:, 0] += 0.8 * values[:-1, 1]
    return table_of(values, season, RollingOrigins(np.array([30, 37, n]), 5))


def blocks_of(table):
    values = table.values
    return list(fitted_blocks(table, values, np.isnan(values), np.zeros(table.n_series)))


def n_lags_of(season, first):
    if season == 1:
        longest = 12
    else:
        longest = season - 2 if season > 3 else 2
    return min(12, max(1, first // 4), longest)


def hand_blocks(table):
    """For each block the regressors and, for each series and member, the prior deviations."""
    n_series = table.n_series
    season = table.season
    kinds = ["none"] if season == 1 else ["none", "waves", "difference"]
    found = []
    last = []
    for kind in kinds:
        by_hand = HandRegressors(kind, season, n_lags_of(season, 30), 30, n_series)
        alone = []
        with_others = []
        for rho in (0.0, 0.1, 0.5, 2.0):
            for lag in (0.1, 0.3, 1.0):
                pairs = [(0.0, 1.0), (0.0, 0.0)] if rho == 0 else [(0.0, 1.0), (1.0, 1.0)]
                for trend, drift in pairs:
                    prior = 0.25 if rho == 0 else 0.5 / 3 * (0.2 if trend else 0.8)
                    alone.append((rho, lag, 0.0, trend, drift, prior))
                for c in (0.1, 0.3):
                    with_others.append((rho, lag, c, 0.0, 1.0, 0.5 if rho == 0 else 0.5 / 3))
        found.append((by_hand, alone, "own"))
        if n_series > 1:
            found.append((by_hand, alone, "pooled"))
            last.append((by_hand, with_others, "others"))
    return found + last


CASES = [(1, 1), (1, 3), (2, 1), (4, 1), (5, 2), (7, 1), (12, 2)]


@pytest.mark.parametrize(("season", "n_series"), CASES)
def test_coefficients_are_those_of_ridge_on_regressors_by_hand(season, n_series):
    table = ar_table(season, n_series)
    y = before_sample(table.values, season)
    blocks = blocks_of(table)
    expected = hand_blocks(table)
    assert len(blocks) == len(expected)
    first = 2 if season == 1 else season + 1
    own_solutions = {}
    for block, (by_hand, members, what) in zip(blocks, expected, strict=True):
        assert len(block.priors) == 24
        prior = np.array([m[5] for m in members])
        np.testing.assert_allclose(np.exp(block.priors.log_prior), prior / prior.sum())
        for k, origin in enumerate(table.origins.rows):
            rows = range(first, origin)
            for j in range(n_series):
                D = [by_hand.own(y, j, t) + by_hand.deterministic(t) for t in rows]
                if what == "others":
                    D = [d + by_hand.others(y, t) for d, t in zip(D, rows, strict=True)]
                D = np.array(D)
                outcome = np.array([by_hand.change(y, j, t) for t in rows])
                for m in range(k, 24, 5):
                    rho, lag, c, trend, drift, _ = members[m]
                    S = by_hand.own_deviations(rho, lag)
                    n_own = len(S)
                    S = S + by_hand.deterministic_deviations(rho, trend, drift)
                    if what == "others":
                        S = S + by_hand.other_deviations(j, rho, lag, c)
                    S = np.array(S)
                    center = np.zeros(len(S))
                    if what == "pooled":
                        others = [i for i in range(n_series) if i != j]
                        solved = [own_solutions[by_hand.kind, k, i, m] for i in others]
                        center[:n_own] = np.mean(solved, axis=0)[:n_own]
                    left = outcome - D @ center
                    ridge = Ridge(alpha=1, fit_intercept=False, solver="cholesky").fit(D * S, left)
                    coefficients = center + S * ridge.coef_
                    if what == "own":
                        own_solutions[by_hand.kind, k, j, m] = coefficients
                    np.testing.assert_allclose(
                        block.coefficients[k, j, m], coefficients, rtol=1e-6, atol=1e-7
                    )
                    covariance = np.eye(len(left)) + (D * S**2) @ D.T
                    np.testing.assert_allclose(
                        block.log_evidence[k, j, m], t_log_density(left, covariance), rtol=1e-7
                    )
                    size = (left @ np.linalg.solve(covariance, left) + 1) / (len(left) + 1)
                    np.testing.assert_allclose(block.variances[k, j, m], size, rtol=1e-7)


def path_by_hand(by_hand, coefficients, table, origin, j, horizon, others):
    """Iterate the equation in regressors: own path by the member, other series on given paths."""
    y = before_sample(table.values, table.season)
    path = []

    def extended(i, t):
        if t < origin:
            return y(i, t)
        return path[t - origin] if i == j else others[t - origin, i]

    for t in range(origin, origin + horizon):
        D = by_hand.own(extended, j, t) + by_hand.deterministic(t)
        if len(coefficients) > len(D):
            D = D + by_hand.others(extended, t)
        base = extended(j, t - 1)
        if by_hand.kind == "difference":
            s = by_hand.season
            base = extended(j, t - s) + extended(j, t - 1) - extended(j, t - 1 - s)
        path.append(base + np.dot(D, coefficients))
    return np.array(path)


@pytest.mark.parametrize(("season", "n_series"), [(1, 1), (1, 3), (4, 2), (7, 1), (12, 2)])
def test_paths_are_those_of_an_iteration_by_hand(season, n_series):
    horizon = 5
    table = ar_table(season, n_series)
    units = Units(np.zeros(n_series), np.ones(n_series))
    blocks = blocks_of(table)
    models = [LagModel.of(block) for block in blocks]
    state = AutoregressionState.of(models, table, table.values, units)
    found = state.forecast(horizon, np.zeros((horizon, 0))).means
    expected = np.zeros((len(blocks), 24, horizon, n_series))
    tau = min(1, 0.1 + 12 / 48)

    def fill(b, others):
        by_hand = hand_blocks(table)[b][0]
        for j in range(n_series):
            for m in range(24):
                expected[b, m, :, j] = path_by_hand(
                    by_hand, blocks[b].coefficients[-1, j, m], table, 48, j, horizon, others
                )

    alone = [b for b, block in enumerate(blocks) if not block.with_others]
    for b in alone:
        fill(b, None)
    average = np.zeros((horizon, n_series))
    for j in range(n_series):
        scores = [tau * blocks[b].log_evidence[-1, j] + blocks[b].priors.log_prior for b in alone]
        weights = softmax(np.concatenate(scores))
        average[:, j] = weights @ np.concatenate([expected[b, :, :, j] for b in alone])
    for b, block in enumerate(blocks):
        if block.with_others:
            fill(b, average)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("season", "n_series"), [(1, 2), (4, 3), (7, 1)])
def test_paths_of_past_origins_are_those_of_their_rows(season, n_series):
    table = ar_table(season, n_series)
    fit = AutoregressionBank(table).fit()
    units = table.units()
    for k, origin in enumerate([30, 37]):
        short = SeriesTable(
            table.values[:origin],
            table.inputs[:origin],
            season,
            RollingOrigins(np.unique([30, origin]), 5),
        )
        own = AutoregressionBank(short).fit()
        np.testing.assert_allclose(short.units().scale, units.scale)
        np.testing.assert_allclose(fit.log_evidence[k], own.log_evidence[-1], rtol=1e-8)
        ahead = own.state.forecast(5, np.zeros((5, 0))).means
        np.testing.assert_allclose(fit.paths[k], ahead, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("season", "n_series"), [(1, 1), (1, 3), (4, 2)])
def test_responses_are_those_of_a_changed_last_value(season, n_series):
    table = ar_table(season, n_series)
    for bank in (AutoregressionBank, SmoothingBank):
        state = bank(table).fit().state
        none = np.zeros((8, 0))
        row = table.values[-1:] + 0.5
        for j in range(n_series):
            higher = row.copy()
            higher[0, j] += 1
            before = state.updated(row, none[:1]).forecast(8, none).means
            after = state.updated(higher, none[:1]).forecast(8, none).means
            change = (after - before)[:, :, j]
            np.testing.assert_allclose(change, state.responses(9)[:, 1:, j], atol=1e-7)
        growth = np.cumsum(np.square(state.responses(8)), axis=1)
        growth += state.coefficient_growth(8, none)
        variances = state.forecast(8, none).variances
        sizes = variances[:, 0] / growth[:, 0]
        np.testing.assert_allclose(variances, growth * sizes[:, None], rtol=1e-8)


@pytest.mark.parametrize(("season", "n_series"), [(1, 1), (1, 3), (4, 2), (12, 1)])
def test_variances_by_coefficients_are_those_of_the_delta_method(season, n_series):
    """Sensitivities by finite differences, and the dense posterior covariance."""
    table = ar_table(season, n_series)
    horizon = 7
    none = np.zeros((horizon, 0))
    state = AutoregressionBank(table).fit().state
    found = state.coefficient_growth(horizon, none)
    average = state._average_path(horizon, none)
    start = 0
    for model in state.models:
        regressors = state._regressors(model, horizon, none, average)
        n_own = model.design.n_own
        n_members = model.polynomials.shape[1]
        for m in range(0, n_members, 7):
            for j in range(n_series):
                deviations = model.deviations[j, m]
                used = np.flatnonzero(deviations > 0)
                sensitivities = []
                for k in used:
                    paths = []
                    for step in (1e-4, -1e-4):
                        polynomials = model.polynomials.copy()
                        coefficients = model.coefficients.copy()
                        if k < n_own:
                            polynomials[j, m] += step * model.design.own.combinations[k]
                        else:
                            coefficients[j, m, k - n_own] += step
                        moved = replace(model, polynomials=polynomials, coefficients=coefficients)
                        paths.append(state._path(moved, regressors)[j, m])
                    sensitivities.append((paths[0] - paths[1]) / 2e-4)
                J = np.array(sensitivities)
                precision = model.gram[j][np.ix_(used, used)] + np.diag(deviations[used] ** -2.0)
                expected = np.einsum("kh,kh->h", J, np.linalg.solve(precision, J))
                np.testing.assert_allclose(found[start + m, :, j], expected, rtol=1e-4)
        start += n_members


def test_explosive_responses_are_bounded():
    x = 1.6 ** np.arange(30.0)[:, None]
    state = AutoregressionBank(table_of(x)).fit().state
    assert np.abs(state.responses(200)).max() <= 1e3


def test_many_series_are_seen_through_five_factors_of_their_changes():
    n_series = 8
    table = ar_table(1, n_series)
    values = table.values
    block = blocks_of(table)[2]
    assert block.with_others
    changes = np.diff(values[:30], axis=0)
    changes = changes - changes.mean(axis=0)
    loadings = np.linalg.svd(changes, full_matrices=False)[2][:5].T
    y = before_sample(values, 1)
    factors = before_sample(values @ loadings, 1)
    by_hand = HandRegressors("none", 1, 7, 30, n_series)
    of_factors = HandRegressors("none", 1, 7, 30, 5)
    rows = range(2, 48)
    for j in (0, 5):
        D = [by_hand.own(y, j, t) + by_hand.deterministic(t) for t in rows]
        D = np.array([d + of_factors.others(factors, t) for d, t in zip(D, rows, strict=True)])
        outcome = np.array([by_hand.change(y, j, t) for t in rows])
        for m in (0, 9, 23):
            rho = block.priors.rho[m]
            lag = block.priors.lags[m]
            c = block.priors.others[m]
            S = by_hand.own_deviations(rho, lag) + by_hand.deterministic_deviations(rho, 0.0, 1.0)
            S = np.array(S + of_factors.other_deviations(-1, rho, lag, c))
            covariance = np.eye(len(outcome)) + (D * S**2) @ D.T
            np.testing.assert_allclose(
                block.log_evidence[-1, j, m], t_log_density(outcome, covariance), rtol=1e-7
            )


def test_rows_next_to_missing_values_have_no_weight():
    table = ar_table(1, 1)
    values = table.values.copy()
    missing = np.zeros(values.shape, dtype=bool)
    missing[[10, 11, 20]] = True
    blocks = list(fitted_blocks(table, values, missing, np.zeros(1)))
    y = before_sample(values, 1)
    by_hand = HandRegressors("none", 1, 7, 30, 1)
    rows = [t for t in range(2, 48) if t not in (10, 11, 12, 20, 21)]
    D = np.array([by_hand.own(y, 0, t) + by_hand.deterministic(t) for t in rows])
    outcome = np.array([by_hand.change(y, 0, t) for t in rows])
    priors = Priors.of(with_others=False)
    for m in range(24):
        S = by_hand.own_deviations(priors.rho[m], priors.lags[m])
        S = S + by_hand.deterministic_deviations(priors.rho[m], priors.trend[m], priors.drift[m])
        S = np.array(S)
        covariance = np.eye(len(rows)) + (D * S**2) @ D.T
        np.testing.assert_allclose(
            blocks[0].log_evidence[-1, 0, m], t_log_density(outcome, covariance), rtol=1e-7
        )


# ---------------------------------------------------------------- gaps


def test_a_gap_in_a_random_walk_is_bridged():
    rng = np.random.default_rng(10)
    walk = np.cumsum(rng.normal(size=400))
    gap = np.arange(200, 209)
    values = walk[:, None].copy()
    values[gap] = np.nan
    filled = filled_gaps(values, 1)
    line = np.interp(gap, [199, 209], walk[[199, 209]])
    k = np.arange(1, 10)
    bridge = k * (10 - k) / 10
    variances = filled.variances[gap, 0]
    assert np.all(np.abs(filled.means[gap, 0] - line) < 0.6)
    np.testing.assert_allclose(variances, bridge, rtol=0.35)
    assert np.argmax(variances) == 4
    rest = np.setdiff1d(np.arange(400), gap)
    np.testing.assert_array_equal(filled.means[rest], values[rest])
    assert np.all(filled.variances[rest] == 0)


@pytest.mark.parametrize("season", [1, 4])
@pytest.mark.parametrize("gaps", ["one", "several", "long", "second row", "end", "start"])
def test_filled_cells_have_the_dense_expectation(season, gaps):
    """Given all rows before and after, for levels, slopes and seasons that change."""
    n = 28
    cells = np.array(GAPS.get(gaps, (0, 1, 2)))
    y = with_gaps(n, cells, 21) + 3 * np.cos(np.pi * np.arange(n) / 2) * (season > 1)
    seen = np.flatnonzero(~np.isnan(y))
    gains = gap_gains(seasonal=season > 1)
    group = SmoothingGroup(gains, season)
    fit = fit_cells(group, y, cells, np.interp(cells, seen, y[seen]))
    log_densities = []
    for i in range(len(gains)):
        slope = 0.05**0.5 * gains.trend[i]
        deviations = [100.0, slope, *[5.0] * season * (season > 1)]
        dense = DenseSmoothing(member(gains, i), season, n, np.eye(season), deviations)
        known = dense.total[np.ix_(seen, seen)]
        cross = dense.total[np.ix_(cells, seen)]
        means = cross @ np.linalg.solve(known, y[seen])
        left = dense.total[np.ix_(cells, cells)] - cross @ np.linalg.solve(known, cross.T)
        size = (y[seen] @ np.linalg.solve(known, y[seen]) + 1) / (len(seen) + 1)
        np.testing.assert_allclose(fit.means[i], means, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(fit.variances[i], size * np.diag(left), rtol=2e-3)
        log_densities.append(t_log_density(y[seen], known))
    differences = fit.log_evidence - np.array(log_densities)
    np.testing.assert_allclose(differences, differences[0], atol=2e-3)


def test_many_cells_are_filled_in_parts():
    values = np.cumsum(np.random.default_rng(11).normal(size=(300, 1)), axis=0)
    values[np.random.default_rng(0).random(300) < 0.3] = np.nan
    assert np.isnan(values).sum() > MAX_CELLS
    found = filled_gaps(values, 1)
    missing = np.flatnonzero(np.isnan(values[:, 0]))
    known = np.setdiff1d(np.arange(300), missing)
    guesses = np.interp(missing, known, values[known, 0])
    (group,) = gap_groups(1)
    fit = fit_cells(group, values[:, 0], missing, guesses)
    weights = softmax(fit.log_evidence + group.gains.log_prior)
    np.testing.assert_allclose(found.means[missing, 0], weights @ fit.means, atol=1e-3)


def test_gaps_at_an_end_are_forecast_from_one_side_and_get_less_certain():
    values = np.cumsum(np.random.default_rng(12).normal(size=(100, 1)), axis=0)
    values[94:] = np.nan
    found = filled_gaps(values, 1).variances[94:, 0]
    assert np.all(np.diff(found) > 0)
    np.testing.assert_allclose(found, np.arange(1, 7), rtol=0.4)


# ---------------------------------------------------------------- weights


def random_bank(seed=13, n_series=2, n_members=4, horizon=6):
    rng = np.random.default_rng(seed)
    rows = np.array([30, 35, 37, 44, 52, 58, 80])
    origins = RollingOrigins(rows, horizon)
    values = rng.normal(size=(80, n_series))
    values[[36, 40, 41, 53], 0] = np.nan
    fit = BankFit(
        name="random",
        assumes="nothing",
        log_prior=np.log(softmax(rng.normal(size=n_members))),
        log_evidence=3 * rng.normal(size=(7, n_members, n_series)),
        variances=np.ones((7, n_members, n_series)),
        paths=rng.normal(size=(6, n_members, horizon, n_series)),
        state=None,
    )
    return fit, values, origins


def mean_square(path, values, origin, j, n_known, horizon):
    """Squared errors of the steps of a path that were known after so many rows."""
    steps = min(horizon, n_known - origin)
    errors = [path[h] - values[origin + h, j] for h in range(steps)]
    return [e**2 for e in errors if not np.isnan(e)]


def test_member_weights_are_those_of_the_specification():
    from regfactor.series.weights import member_weights

    fit, values, origins = random_bank()
    truth = origins.following(values)
    found = member_weights(fit, truth, origins, np.ones(2))
    for k, t in enumerate(origins.rows):
        for j in range(2):
            tau = min(1, 0.1 + 12 / t)
            scores = tau * fit.log_evidence[k, :, j] + fit.log_prior
            past = [q for q in range(k) if origins.rows[q] >= t / 2 - 1]
            if past:
                for m in range(4):
                    squares = []
                    for q in past:
                        squares += mean_square(
                            fit.paths[q, m, :, j], values, origins.rows[q], j, t, 6
                        )
                    known = t - origins.rows[past[0]]
                    scores[m] -= 0.15 * known / 2 * np.log(np.mean(squares))
            np.testing.assert_allclose(found[k, :, j], softmax(scores), rtol=1e-9)
    np.testing.assert_allclose(member_weights(fit, truth, origins, np.array([3.0, 0.1])), found)


def test_bank_shares_are_those_of_the_specification():
    from regfactor.series.weights import bank_shares

    fit, values, origins = random_bank()
    truth = origins.following(values)
    found = bank_shares(fit.paths, truth, origins, np.ones(2))
    np.testing.assert_allclose(found[:2], 1 / 4)
    for k in range(2, 7):
        t = origins.rows[k]
        L = np.zeros((4, 2))
        for i in range(4):
            for j in range(2):
                squares = []
                for q in range(1, k):
                    squares += mean_square(fit.paths[q, i, :, j], values, origins.rows[q], j, t, 6)
                L[i, j] = -2 * np.log(np.mean(squares))
        np.testing.assert_allclose(found[k], softmax((L + L.mean(axis=1)[:, None]) / 2, axis=0))


def test_the_factor_is_that_of_the_specification():
    rng = np.random.default_rng(14)
    residuals = 1.3 * rng.normal(size=(9, 5, 3))
    residuals[4:, 3:] = np.nan
    residuals[2, :, 1] = np.nan
    variances = rng.uniform(0.5, 2, size=residuals.shape)
    ratios = []
    counts = []
    for j in range(3):
        own = []
        for k in range(1, 9):
            steps = [h for h in range(5) if not np.isnan(residuals[k, h, j])]
            if steps:
                own.append(np.mean([residuals[k, h, j] ** 2 / variances[k, h, j] for h in steps]))
        ratios.append(np.mean(own))
        counts.append(len(own))
    c = (np.array(ratios) + np.mean(ratios)) / 2
    counts = np.array(counts)
    far = RollingOrigins(np.arange(0, 60, 6) + 20, 5)
    expected = np.minimum(2, np.sqrt((6 + counts * c) / (6 + counts)))
    np.testing.assert_allclose(calibration_factor(residuals, variances, far), expected)
    near = RollingOrigins(np.arange(0, 20, 2) + 20, 5)  # five rows apart would be independent
    counts = counts * 2 / 5
    expected = np.minimum(2, np.sqrt((6 + counts * c) / (6 + counts)))
    np.testing.assert_allclose(calibration_factor(residuals, variances, near), expected)
    np.testing.assert_array_equal(calibration_factor(100 * residuals, variances, far), 2)
    few = RollingOrigins(far.rows[:4], 5)
    np.testing.assert_array_equal(calibration_factor(residuals[:3], variances[:3], few), 1)


def local_by_hand(sums, counts):
    """Predictions of each segment's mean square by memories of earlier rows, row by row."""
    rows = [(s / n, k) for k, (s, n) in enumerate(zip(sums, counts, strict=True)) for _ in range(n)]
    lives = [np.inf] + [f * len(rows) for f in (0.5, 0.25, 0.125) if f * len(rows) >= 6]
    prior = [0.5] + [0.5 / (len(lives) - 1)] * (len(lives) - 1)

    def variance(life, until):
        past = [(value, k) for value, k in rows if k <= until]
        decay = np.array([0.5 ** (c / life) for c in np.cumsum(counts[: until + 1][::-1])])
        ends = np.concatenate([[1.0], decay])[::-1]  # weight at the start and end of segments
        weights = [(ends[k] + ends[k + 1]) / 2 for _, k in past]
        return np.average([value for value, _ in past], weights=weights)

    found = []
    scores = np.log(prior)
    for k in range(len(sums)):
        for i, life in enumerate(lives):
            if k > 0:
                expected = variance(life, k - 1)
                scores[i] -= 0.25 * (counts[k] * np.log(expected) + sums[k] / expected)
        now = np.array([variance(life, k) for life in lives])
        found.append(softmax(scores) @ now / now[0])
    return found


def test_local_variances_are_those_of_a_loop_over_rows():
    rng = np.random.default_rng(18)
    counts = np.array([[40, 5, 4, 6, 5, 5]] * 2).T
    sums = counts * rng.uniform(0.5, 2, size=(6, 2))
    sums[3:, 1] *= 9
    found = local_variances(sums, counts)
    for j in range(2):
        np.testing.assert_allclose(found[:, j], local_by_hand(sums[:, j], counts[:, j]))
    assert abs(found[-1, 0] - 1) < 0.3 < 1.5 < found[-1, 1]
    np.testing.assert_allclose(local_variances(1e6 * sums, counts), found)
    np.testing.assert_array_equal(local_variances(0 * sums, counts), 1)


def test_members_that_explode_have_no_weight():
    steps = 48
    responses = np.ones((3, steps, 2))
    responses[0, :, 0] = 1 + 5 * np.arange(steps)  # a trend of its own
    responses[1] = 1.3 ** np.arange(steps)[:, None]
    responses[2, :, 1] = 1.5 ** np.arange(steps)
    responses[0, :, 1] = 1.4 ** np.arange(steps)

    class State:
        def responses(self, horizon):
            return responses[:, :horizon]

    weights = np.array([[0.2, 0.5], [0.6, 0.25], [0.2, 0.25]])[None]
    found = without(explosive_members(State()), weights)
    np.testing.assert_allclose(found[0, :, 0], [0.5, 0, 0.5])
    np.testing.assert_allclose(found[0, :, 1], weights[0, :, 1])  # where all do


# ---------------------------------------------------------------- origins, season and log


@pytest.mark.parametrize("n_rows", [1, 5, 23, 24, 30, 48, 61, 200, 1000])
@pytest.mark.parametrize("season", [1, 4, 7, 12, 24, 52])
def test_origins_are_those_of_the_specification(n_rows, season):
    H = 10
    if season == 7:
        H = 14
    elif season > 1:
        H = min(max(season, 8), 24)
    assert default_horizon(season) == H
    low = max(n_rows // 2, 2 * season + 2 if season > 1 else 12)
    expected = [n_rows]
    if n_rows >= 24 and low < n_rows - 2:
        points = [low + i * (n_rows - 2 - low) / 15 for i in range(16)]
        expected = sorted({int(p + 1e-9) for p in points}) + [n_rows]
    found = RollingOrigins.of(n_rows, 1, season, None)
    np.testing.assert_array_equal(found.rows, expected)
    assert found.horizon == max(1, min(H, n_rows // 5))


def every_gain(values):
    """Gains of all seasons of the list, without choosing promising ones first."""
    table = table_of(values)
    plain = fit_smoothing(table, [SmoothingGroup(few_gains(seasonal=False), 1)], "plain")
    without = logsumexp(plain.log_evidence[-1], axis=0)
    gains = {}
    for q in SEASONS:
        if (2 if q <= 24 else 4) * q > len(values):
            continue
        group = SmoothingGroup(few_gains(seasonal=True), q)
        with_season = fit_smoothing(table, [group], "season").log_evidence[-1]
        gain = np.maximum(logsumexp(with_season, axis=0) - without, 0)
        counts = np.sum(~np.isnan(values), axis=0)
        gains[q] = float(gain[counts >= 2 * q].sum())
    return gains


@pytest.mark.parametrize("case", ["noise", "walk", "weak", "season 12", "season 48", "gaps"])
def test_the_season_is_that_of_the_largest_gain_of_all(case):
    rng = np.random.default_rng(15)
    n = 200
    t = np.arange(n)
    values = rng.normal(size=(n, 2))
    if case == "walk":
        values = np.cumsum(values, axis=0)
    if case == "weak":
        values[:, 0] += 0.6 * np.cos(2 * np.pi * t / 7)
    if case in ("season 12", "gaps"):
        values += 3 * np.abs(np.sin(np.pi * t / 12))[:, None]
    if case == "season 48":
        values = np.cumsum(values, axis=0) / 3 + 4 * np.sin(2 * np.pi * t / 48)[:, None]
    if case == "gaps":
        values[rng.random(values.shape) < 0.2] = np.nan
    found = season_gains(values, np.zeros((n, 0)))
    full = every_gain(values)
    for q, gain in found.items():
        np.testing.assert_allclose(gain, full[q], rtol=1e-7, atol=1e-7)
    assert best_season(found, values) == best_season(full, values)


@pytest.mark.parametrize("rows", [26, 30])
def test_a_clear_season_is_found_in_two_rounds(rows):
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        pattern = 3 * rng.normal(size=12)
        months = pattern[np.arange(rows) % 12, None] + 0.3 * rng.normal(size=(rows, 1))
        walk = np.cumsum(rng.normal(size=(rows, 1)), axis=0)
        for values in (months, walk):
            found.append(best_season(season_gains(values, np.zeros((rows, 0))), values))
    assert found == [12, 1] * 4


def test_a_long_season_of_two_rounds_is_found_where_dates_suggest_it():
    rng = np.random.default_rng(2)
    weeks = np.arange(130)
    values = 3 * np.sin(2 * np.pi * weeks / 52) + np.cos(4 * np.pi * weeks / 52)
    values = (values + 0.3 * rng.normal(size=130))[:, None]
    none = np.zeros((130, 0))
    assert 52 not in season_gains(values, none)
    assert best_season(season_gains(values, none, 52), values) == 52


def test_a_season_is_not_taken_for_its_half_where_evidence_is_clear():
    rng = np.random.default_rng(3)
    t = np.arange(96)
    pattern = np.repeat(4 * rng.normal(size=6), 2)  # of which half of the phases say little
    values = (np.where(t >= 40, pattern[t % 12], 0) + 0.5 * rng.normal(size=96))[:, None]
    assert best_season(season_gains(values, np.zeros((96, 0))), values) == 12
    gains = {6: 25.0, 12: 55.0}
    noise = rng.normal(size=(96, 1))  # in which no test sees a difference
    assert best_season(gains, noise) == 12
    assert best_season({6: 25.0, 12: 30.0}, noise) == 6
    assert best_season({24: 25.0, 48: 55.0}, noise) == 24


def test_the_gain_of_logs_has_no_units():
    rng = np.random.default_rng(16)
    growth = np.exp(np.cumsum(rng.normal(0.02, 0.1, size=(60, 1)), axis=0))
    values = np.concatenate([growth, rng.normal(50, 1, size=(60, 1))], axis=1)
    values[3:5, 0] = np.nan
    origins = RollingOrigins.of(60, 2, 1, None)
    inputs = np.zeros((60, 0))
    gains = log_gains(values, inputs, 1, origins)
    np.testing.assert_allclose(log_gains(1e4 * values, inputs, 1, origins), gains, atol=1e-6)
    assert gains[0] > 0
    values[7, 1] = 0
    assert log_gains(values, inputs, 1, origins)[1] == -np.inf
