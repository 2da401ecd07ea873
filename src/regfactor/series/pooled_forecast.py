"""The average of banks of forecasting models, with calibrated variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.params import Array, frozen
from regfactor.problems.pool import Pool
from regfactor.series.arma_bank import ArmaBank, has_arma
from regfactor.series.autoregression_bank import AutoregressionBank
from regfactor.series.bank import SeriesTable, mean_change
from regfactor.series.bank_average import AveragedBank, BankAverage
from regfactor.series.rolling_origins import RollingOrigins
from regfactor.series.smoothing_bank import SmoothingBank
from regfactor.series.theta_bank import ThetaBank, has_theta
from regfactor.series.volatility import local_variances
from regfactor.series.weights import (
    BANK_SHARPNESS,
    PastErrors,
    bank_shares,
    without,
)

MIN_CALIBRATION_ORIGINS = 3
PRIOR_ORIGINS = 6.0  # that agree with the variances, next to those that calibrate them
MAX_FACTOR = 2.0


@frozen
class ForecastPool(Pool[BankAverage]):
    """- log evidence of banks of forecasting models of the same series."""

    table: SeriesTable

    @staticmethod
    def of(table: SeriesTable) -> ForecastPool:
        """Return the pool of all banks."""
        banks: list[Any] = [
            AveragedBank.by_series(SmoothingBank, table),
            AveragedBank.of(AutoregressionBank(table)),
        ]
        if has_theta(table):
            banks.append(ThetaBank(table))
        if has_arma(table):
            banks.append(ArmaBank(table))
        return ForecastPool(banks, table)

    def loss(self, fitted: Sequence[BankAverage]) -> float:
        """Return minus the log evidence of the members of all fitted banks, summed over series."""
        scores = [fit.log_evidence for fit in fitted if fit.share is None]
        return -float(logsumexp(scores, axis=0).sum())


@frozen
class WeightedBank:
    """A bank after the last row, with the weights of its members, (n_members, n_series)."""

    name: str
    assumes: str
    state: Any
    weights: Array
    variances: Array  # of innovations, of the same shape

    @staticmethod
    def of(average: BankAverage) -> WeightedBank:
        """Return what forecasts need of the average of a bank."""
        return WeightedBank(
            average.name, average.assumes, average.state, average.weights, average.variances
        )

    def forecast(self, horizon: int, inputs: Array) -> tuple[Array, Array]:
        """Return means and variances of shape (horizon, n_series)."""
        paths = self.state.forecast(horizon, inputs)
        mean = np.einsum("mhs,ms->hs", paths.means, self.weights)
        spread = paths.variances + np.square(paths.means - mean)
        return mean, np.einsum("mhs,ms->hs", spread, self.weights)


@frozen
class PooledForecast:
    """Banks and their shares.

    Attributes
    ----------
    banks : list of WeightedBank
    shares : array of shape (n_banks, n_series)
    factor : array of shape (n_series,)
        Of deviations, by which they agree with errors from past origins.
    errors : array of shape (n_banks + 2, n_series)
        Mean squared errors from past origins: banks, their average, the last value; NaN where the
        series is too short.
    correlation : array of shape (n_series, n_series)
        Of one-step errors.
    trailing_gaps : array of shape (n_series,)
        Numbers of missing rows at the end.
    """

    banks: list[WeightedBank]
    shares: Array
    factor: Array
    errors: Array
    correlation: Array
    trailing_gaps: Array

    @staticmethod
    def of(fits: Sequence[BankAverage], table: SeriesTable) -> PooledForecast:
        """Return the average of fitted banks, first without those whose shares are given."""
        partners = [fit for fit in fits if fit.share is not None]
        if partners:
            judged = [fit for fit in fits if fit.share is None]
            return PooledForecast.of(judged, table).joined(partners)
        origins = table.origins
        truth = origins.following(table.judged)
        banks = [WeightedBank.of(fit) for fit in fits]
        n_past = len(origins.rows) - 1
        paths = np.stack([fit.means for fit in fits], axis=1)
        shares = bank_shares(paths, truth, origins, mean_change(table.values))
        shares = without(np.stack([fit.explosive for fit in fits]), shares)
        n_series = table.n_series
        pooled = PooledForecast(
            banks,
            shares[-1],
            np.ones(n_series),
            np.full((len(fits) + 2, n_series), np.nan),
            np.eye(n_series),
            table.trailing_gaps,
        )
        if n_past == 0:
            return pooled
        mean = np.einsum("obhs,obs->ohs", paths, shares[:-1])
        variance = np.zeros(mean.shape)
        for b, fit in enumerate(fits):
            between = np.square(paths[:, b] - mean)
            variance += shares[:-1, b, None] * (fit.spread + between)
        residuals = truth[:-1] - mean
        sums, rows = squared_errors(fits, shares[-1], table)
        local = local_variances(sums, rows)
        variance *= local[:-1, None]
        factor = calibration_factor(residuals, variance, origins)
        return replace(
            pooled,
            factor=factor * np.sqrt(local[-1]),
            errors=past_errors(table, paths, mean, truth),
            correlation=residual_correlation(residuals[1:, 0], variance[1:, 0]),
        )

    def joined(self, partners: Sequence[BankAverage]) -> PooledForecast:
        """Return the average with banks whose shares are given; they have no past errors."""
        banks = list(self.banks)
        shares = self.shares
        n_series = shares.shape[1]
        for fit in partners:
            taken = np.stack([partner_share(fit, bank) for bank in banks]) * shares
            shares = np.concatenate([shares - taken, taken.sum(axis=0, keepdims=True)])
            banks.append(WeightedBank.of(fit))
        unknown = np.full((len(partners), n_series), np.nan)
        errors = np.concatenate([self.errors[:-2], unknown, self.errors[-2:]])
        return replace(self, banks=banks, shares=shares, errors=errors)

    def forecast(self, horizon: int, inputs: Array) -> tuple[Array, Array]:
        """Return means and variances of shape (horizon, n_series)."""
        found = [bank.forecast(horizon, inputs) for bank in self.banks]
        means = np.stack([mean for mean, _ in found])
        variances = np.stack([variance for _, variance in found])
        mean = np.einsum("bhs,bs->hs", means, self.shares)
        spread = variances + np.square(means - mean)
        variance = np.einsum("bhs,bs->hs", spread, self.shares)
        return mean, np.square(self.factor) * variance

    def simulated(
        self,
        horizon: int,
        inputs: Array,
        n_paths: int,
        random: np.random.RandomState,
        freedom: int,
    ) -> Array:
        """Return random paths of shape (n_paths, horizon, n_series).

        A path is that of one member of each series; the same random number draws them for all, so
        that series stay together.
        """
        longest = int(self.trailing_gaps.max())
        steps = longest + horizon
        paths = [bank.state.forecast(horizon, inputs) for bank in self.banks]
        means = np.concatenate([path.means for path in paths])
        responses = np.concatenate([bank.state.responses(steps) for bank in self.banks])
        variances = np.concatenate([bank.variances for bank in self.banks])
        shared = []
        for share, bank in zip(self.shares, self.banks, strict=True):
            shared.append(share * bank.weights)
        limits = np.cumsum(np.concatenate(shared), axis=0)
        drawn = random.random_sample(n_paths)[:, None, None] * limits[-1]
        n_below = (limits[None] < drawn).sum(axis=1)
        members = np.minimum(n_below, len(limits) - 1)
        series = np.arange(means.shape[2])
        shape = (n_paths, steps, len(series))
        to_unit_variance = np.sqrt((freedom - 2) / freedom)
        innovations = random.standard_t(freedom, size=shape) * to_unit_variance
        innovations = innovations @ np.linalg.cholesky(self.correlation).T
        deviations = self.factor * np.sqrt(variances[members, series])
        innovations *= deviations[:, None]
        # innovations of a series begin with its first missing row
        innovations[:, np.arange(steps)[:, None] < longest - self.trailing_gaps] = 0
        psi = responses[members, :, series].transpose(0, 2, 1)
        errors = np.zeros(shape)
        for step in range(steps):
            errors[:, step:] += innovations[:, step, None] * psi[:, : steps - step]
        return means[members, :, series].transpose(0, 2, 1) + errors[:, longest:]

    def updated(self, rows: Array, inputs: Array) -> PooledForecast:
        """Return the forecast after more rows; weights and coefficients stay."""
        banks = [replace(bank, state=bank.state.updated(rows, inputs)) for bank in self.banks]
        observed = ~np.isnan(rows)
        ending = np.argmax(observed[::-1], axis=0)
        gaps = np.where(observed.any(axis=0), ending, self.trailing_gaps + len(rows))
        return replace(self, banks=banks, trailing_gaps=gaps)


def partner_share(partner: BankAverage, bank: WeightedBank) -> Array:
    """Return which part of the share of a bank a partner takes, of shape (n_series,).

    Within one bank it takes less where its innovations are larger: half a slope is no compromise
    for an exact line.
    """
    share = np.full(partner.weights.shape[1], partner.share)
    if partner.within is None:
        return share
    if partner.within != bank.name:
        return np.zeros_like(share)
    own = (partner.weights * partner.variances).sum(axis=0)
    of_bank = (bank.weights * bank.variances).sum(axis=0)
    return np.asarray(share * np.minimum(1, of_bank / own) ** BANK_SHARPNESS)


def squared_errors(
    fits: Sequence[BankAverage], shares: Array, table: SeriesTable
) -> tuple[Array, Array]:
    """Return sums of squared innovations between origins, and numbers of rows, of each series."""
    observed = np.cumsum(~np.isnan(table.values), axis=0)
    rows = observed[table.origins.rows - 1]
    sums = np.zeros(rows.shape)
    for fit, share in zip(fits, shares, strict=True):
        sums += share * fit.innovations * rows
    since = np.diff(sums, axis=0, prepend=0)
    rows_since = np.diff(rows, axis=0, prepend=0)
    return np.maximum(since, 0), rows_since


def calibration_factor(residuals: Array, variances: Array, origins: RollingOrigins) -> Array:
    """Return factors of deviations by which they agree with residuals from past origins.

    The first origin is left out, since shares are not known there. Origins that are nearer to each
    other than the horizon share rows, and count for less.
    """
    squares = np.square(residuals[1:]) / np.maximum(variances[1:], 1e-300)
    known = ~np.isnan(squares)
    counts = known.sum(axis=1)
    n_series = squares.shape[2]
    usable = counts > 0
    n_origins = usable.sum(axis=0)
    if np.max(n_origins, initial=0) < MIN_CALIBRATION_ORIGINS:
        return np.ones(n_series)
    sums = np.where(known, squares, 0).sum(axis=1)
    means = sums / np.maximum(counts, 1)
    ratio = means.sum(axis=0) / np.maximum(n_origins, 1)
    enough = n_origins >= MIN_CALIBRATION_ORIGINS
    pooled = ratio[enough].mean()
    ratio = np.where(enough, (ratio + pooled) / 2, pooled)
    distance = np.diff(origins.rows[:-1]).mean()
    counted = n_origins * min(1, distance / origins.horizon)
    adjusted = (PRIOR_ORIGINS + counted * ratio) / (PRIOR_ORIGINS + counted)
    return np.minimum(MAX_FACTOR, np.sqrt(adjusted))


def past_errors(table: SeriesTable, paths: Array, mean: Array, truth: Array) -> Array:
    """Return mean squared errors of banks, of their average and of the last value."""
    origins = table.origins
    past = np.arange(len(origins.rows) - 1)
    last = last_values(table.judged, origins.rows[:-1])
    naive = np.broadcast_to(last[:, None], mean.shape)
    every = np.concatenate([paths, mean[:, None], naive[:, None]], axis=1)
    errors = PastErrors(every, truth[:-1], origins)
    return errors.mean_until(len(origins.rows) - 1, past)


def last_values(values: Array, rows: Array) -> Array:
    """Return the last observed values before given rows; NaN before the first one."""
    index = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    latest = np.maximum.accumulate(index, axis=0)[rows - 1]
    found = np.take_along_axis(values, np.maximum(latest, 0), axis=0)
    return np.asarray(found)


def residual_correlation(residuals: Array, variances: Array) -> Array:
    """Return the correlation of series in one-step errors, shrunk to the identity."""
    deviations = np.sqrt(np.maximum(variances, 1e-300))
    scaled = residuals / deviations
    scaled = np.where(np.isnan(scaled), 0, scaled)
    squares = np.square(scaled).sum(axis=0)
    norms = np.sqrt(np.maximum(squares, 1e-300))
    units = scaled / norms
    n_origins = len(scaled)
    kept = n_origins / (n_origins + PRIOR_ORIGINS)
    shrunk = kept * (units.T @ units)
    np.fill_diagonal(shrunk, 1.0)
    return np.asarray(shrunk)
