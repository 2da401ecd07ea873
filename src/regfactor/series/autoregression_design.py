"""Regressors of autoregressions in error-correction form, and the priors of their coefficients.

The outcome is the change of a series; regressors are its last level, its last changes, those of the
other series or of their factors, waves of the season, and inputs. Every regressor made of the own
past is a combination of lags, so that each member is one polynomial of lags and one input.
"""

from __future__ import annotations

import itertools

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.bank import season_waves, wave_deviations
from regfactor.series.smoothing_bank import INPUT_DEVIATION

MAX_LAGS = 12
MAX_OTHERS = 5  # series; the past of more is taken as so many factors
N_FROM_OTHERS = 3  # last level, last two changes
LEVEL_DEVIATIONS = (0.0, 0.1, 0.5, 2.0)  # rho: 0 is a unit root
LAG_DEVIATIONS = (0.1, 0.3, 1.0)  # lambda
OTHER_SHARES = (0.1, 0.3)  # c
UNIT_ROOT_DRIFT = 0.05**0.5
TREND_SHARE = 0.2  # of the prior of members that return to a level


@frozen
class OwnLags:
    """Regressors made of the past of a series, as combinations of its lags.

    Attributes
    ----------
    combinations : array of shape (n_regressors, n_lags)
        Column i - 1 is the coefficient of lag i.
    base : array of shape (n_lags,)
        The prediction with all coefficients at zero.
    deviations : array of shape (n_regressors, 2)
        Prior deviations as multiples of rho and of lambda.
    """

    combinations: Array
    base: Array
    deviations: Array

    @staticmethod
    def of(kind: str, season: int, n_lags: int) -> OwnLags:
        """Return the regressors of a treatment of the season.

        With kind "difference" they are those of u_t = y_t - y_{t-s}, otherwise of u = y.
        """
        longest = max(n_lags, season + 1) + 1
        lags = np.eye(longest)
        rows = [lags[0]]
        shares: list[tuple[float, float]] = [(1.0, 0.0)]
        for i in range(1, n_lags + 1):
            rows.append(lags[i - 1] - lags[i])
            share = 1 / i
            if season > 1 and i >= season - 1:
                share = 0.7 if i == season else 0.3
            shares.append((0.0, share))
        if kind == "difference":
            rows += [lags[season - 1], lags[season]]
            shares += [(0.0, 0.7), (0.0, 0.4)]
        elif season > 1:
            for i in (season - 1, season, season + 1):
                if i > n_lags:
                    rows.append(lags[i - 1] - lags[i])
                    shares.append((0.0, 0.7 if i == season else 0.3))
        combinations = np.array(rows)
        base = lags[0]
        if kind == "difference":
            combinations = seasonal_difference(combinations, season)
            base = seasonal_difference(base[None], season)[0]
            base[season - 1] += 1
        return OwnLags(combinations, base, np.array(shares))

    def polynomials(self, coefficients: Array) -> Array:
        """Return coefficients of lags 1, 2, ..., for those of regressors, the own ones first."""
        return np.asarray(
            self.base + coefficients[..., : len(self.combinations)] @ self.combinations
        )


def seasonal_difference(combinations: Array, season: int) -> Array:
    """Return combinations of lags of y that are those of lags of y_t - y_{t-s}."""
    n_rows = len(combinations)
    zeros = np.zeros((n_rows, season))
    return np.concatenate([combinations, zeros], axis=1) - np.concatenate(
        [zeros, combinations], axis=1
    )


def lagged(values: Array, n_lags: int, season: int) -> Array:
    """Return the lags 1..n_lags of each row, of shape (n_series, n_rows, n_lags).

    Rows before the first are the first season repeated backwards.
    """
    repeats = -(-n_lags // season)
    before = np.tile(values[:season], (repeats, 1))[-n_lags:]
    if len(values) < season:
        before = np.tile(values[:1], (n_lags, 1))
    extended = np.concatenate([before, values])
    windows = np.lib.stride_tricks.sliding_window_view(extended[:-1], n_lags, axis=0)
    return np.asarray(windows.transpose(1, 0, 2)[:, :, ::-1])


@frozen
class Priors:
    """Members of a block: prior deviations of groups of coefficients, and their log prior."""

    rho: Array
    lags: Array
    others: Array  # 0 where other series are left out
    trend: Array
    drift: Array
    log_prior: Array

    @staticmethod
    def of(with_others: bool) -> Priors:
        """Return the members of a block with or without other series."""
        rows: list[tuple[float, float, float, float, float]] = []
        priors = []
        returning = 0.5 / (len(LEVEL_DEVIATIONS) - 1)
        for rho, lag in itertools.product(LEVEL_DEVIATIONS, LAG_DEVIATIONS):
            if with_others:
                for share in OTHER_SHARES:
                    rows.append((rho, lag, share, 0.0, 1.0))
                    priors.append(0.5 if rho == 0 else returning)
            elif rho == 0:
                for drift in (1.0, 0.0):
                    rows.append((rho, lag, 0.0, 0.0, drift))
                    priors.append(0.25)
            else:
                for trend in (0.0, 1.0):
                    rows.append((rho, lag, 0.0, trend, 1.0))
                    priors.append(returning * (TREND_SHARE if trend else 1 - TREND_SHARE))
        rho_column, lag_column, other_column, trend_column, drift_column = np.array(rows).T
        log_prior = np.log(np.array(priors) / np.sum(priors))
        return Priors(rho_column, lag_column, other_column, trend_column, drift_column, log_prior)

    def __len__(self) -> int:
        return len(self.rho)

    def intercept(self) -> Array:
        """Return the prior deviations of the intercept."""
        return np.where(self.rho > 0, 1.0, UNIT_ROOT_DRIFT * self.drift)


@frozen
class LagDesign:
    """Regressors of one treatment of the season, and what their coefficients mean.

    Columns are own lags, then inputs: intercept, time, waves, the user's inputs; then the past of
    other series, with each factor's level, last change and the change before.
    """

    kind: str
    season: int
    own: OwnLags
    n_first: int  # rows at the first origin, the unit of the time regressor
    loadings: Array  # (n_series, n_factors)
    single: bool  # whether factors are the series themselves

    @property
    def n_own(self) -> int:
        """Number of regressors made of the own past."""
        return len(self.own.combinations)

    def inputs(self, rows: Array, given: Array) -> Array:
        """Return intercept, time, waves and the given inputs at rows, of a shape (..., n)."""
        flat = rows.ravel()
        columns = [np.ones((len(flat), 1)), (flat / self.n_first - 0.5)[:, None]]
        if self.kind == "waves":
            columns.append(season_waves(self.season, flat))
        columns.append(given.reshape(len(flat), given.shape[-1]))
        joined = np.concatenate(columns, axis=1)
        return joined.reshape(*rows.shape, joined.shape[1])

    def of_others(self, values: Array) -> Array:
        """Return the regressors made of other series, from lags of shape (n_series, n_rows, L)."""
        season = self.season if self.kind == "difference" else 0
        rows = np.zeros((N_FROM_OTHERS, values.shape[-1]))
        rows[0, 0] = 1
        rows[1, :2] = (1, -1)
        rows[2, 1:3] = (1, -1)
        if season:
            rows = seasonal_difference(rows[:, : values.shape[-1] - season], season)
        combined = values @ rows.T  # (n_series, n_rows, 3)
        factors = np.einsum("nrk,nf->rfk", combined, self.loadings)
        return np.asarray(factors.reshape(values.shape[1], -1))

    @property
    def lags_of_others(self) -> int:
        """Number of lags that `of_others` needs."""
        if self.kind == "difference":
            return self.season + N_FROM_OTHERS
        return N_FROM_OTHERS

    def deviations(self, priors: Priors, n_given: int, n_series: int) -> Array:
        """Return prior deviations, of shape (n_series, n_members, n_regressors)."""
        own = np.stack([priors.rho, priors.lags], axis=1) @ self.own.deviations.T
        inputs = [priors.intercept()[:, None], priors.trend[:, None]]
        if self.kind == "waves":
            inputs.append(np.tile(wave_deviations(self.season), (len(priors), 1)))
        inputs.append(np.full((len(priors), n_given), INPUT_DEVIATION))
        columns = [own, *inputs]
        if priors.others.any():
            scales = np.stack(
                [priors.rho / 2, priors.lags, priors.lags / 2],
                axis=1,
            )
            factors = np.tile(scales, (1, self.loadings.shape[1]))
            columns.append(priors.others[:, None] * factors)
        deviations = np.concatenate(columns, axis=1)
        of_all = np.broadcast_to(deviations, (n_series, *deviations.shape))
        if not (priors.others.any() and self.single):
            return of_all
        found = of_all.copy()
        first = found.shape[2] - N_FROM_OTHERS * n_series
        for series in range(n_series):
            start = first + N_FROM_OTHERS * series
            found[series, :, start : start + N_FROM_OTHERS] = 0
        return found


def iterate(polynomials: Array, inputs: Array, past: Array) -> Array:
    """Return the next values y_t = sum_i a_i y_{t-i} + input_t of each member.

    Parameters
    ----------
    polynomials : array of shape (..., n_lags)
    inputs : array of shape (..., horizon)
    past : array that broadcasts to shape (..., n_lags)
        The last value first.

    Returns
    -------
    array of shape (..., horizon)
    """
    n_lags = polynomials.shape[-1]
    horizon = inputs.shape[-1]
    values = np.empty((*inputs.shape[:-1], n_lags + horizon))
    values[..., horizon:] = past
    for step in range(horizon):
        last = horizon - step
        window = values[..., last : last + n_lags]
        values[..., last - 1] = np.einsum("...i,...i->...", polynomials, window)
        values[..., last - 1] += inputs[..., step]
    return values[..., :horizon][..., ::-1]
