"""Weights of members by tempered evidence and by their errors from past origins."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array
from regfactor.series.bank import BankFit, BankState
from regfactor.series.rolling_origins import RollingOrigins

ERROR_SHARE = 0.15  # of the log likelihood of errors from past origins in a member's weight
BANK_SHARPNESS = 2.0  # power of the mean squared error in a bank's share
SMALLEST_ERROR = 1e-24  # in squared units
RESPONSE_STEPS = 48  # over which the effect of an innovation must stay bounded
MAX_GROWTH = 10.0  # of that effect a step: far above that of a trend, far below an explosion


def temperature(n_rows: Array) -> Array:
    """Return the power of evidence: rows of real series tell less than independent ones."""
    return np.minimum(1, 0.1 + 12 / n_rows)


class PastErrors:
    """Squared errors of forecasts from past origins, as far as they were known at later ones.

    Parameters
    ----------
    paths : array of shape (n_past, ..., horizon, n_series)
    truth : array of shape (n_past, horizon, n_series)
        NaN where nothing was observed.
    origins : RollingOrigins
    """

    def __init__(self, paths: Array, truth: Array, origins: RollingOrigins) -> None:
        between = (1,) * (paths.ndim - truth.ndim)
        shaped = truth.reshape(len(truth), *between, *truth.shape[1:])
        known = ~np.isnan(shaped)
        residuals = paths - np.where(known, shaped, 0)
        errors = np.where(known, np.square(residuals), 0)
        self.origins = origins
        self.sums = _cumulated(errors)
        self.counts = _cumulated(known.astype(float))

    def mean_until(self, origin: int, past: Array) -> Array:
        """Return the mean over some past origins of errors known at an origin, NaN if none was.

        Its shape is (..., n_series).
        """
        rows = self.origins.rows
        steps = np.minimum(self.origins.horizon, rows[origin] - rows[past])
        total = self.sums[past, ..., steps, :].sum(axis=0)
        count = self.counts[past, ..., steps, :].sum(axis=0)
        mean = np.full(total.shape, np.nan)
        seen = np.broadcast_to(count > 0, total.shape)
        np.divide(total, count, out=mean, where=seen)
        return mean


def _cumulated(values: Array) -> Array:
    """Return sums over the first 0, 1, 2, ... steps."""
    sums = np.cumsum(values, axis=-2)
    zero = np.zeros_like(sums[..., :1, :])
    return np.concatenate([zero, sums], axis=-2)


def member_weights(fit: BankFit, truth: Array, origins: RollingOrigins, units: Array) -> Array:
    """Return the weights of members at each origin, (n_origins, n_members, n_series)."""
    rows = origins.rows
    powers = temperature(rows)[:, None, None]
    scores = powers * fit.log_evidence + fit.log_prior[:, None]
    if len(rows) > 1:
        errors = PastErrors(fit.paths, truth[:-1], origins)
        for k in range(1, len(rows)):
            past = np.flatnonzero(rows[:k] >= rows[k] / 2 - 1)
            if len(past) == 0:
                continue
            mean = errors.mean_until(k, past) / np.square(units)
            seen = (rows[k] - rows[past[0]]) / 2
            logs = np.log(np.maximum(mean, SMALLEST_ERROR))
            logs = np.where(np.isnan(logs), 0, logs)
            scores[k] -= ERROR_SHARE * seen * logs
    return np.asarray(softmax(scores, axis=1))


def explosive_members(state: BankState) -> Array:
    """Return which members have forecasts that explode, of shape (n_members, n_series).

    The effect of an innovation on a series with a slope of its own is linear in the steps.
    """
    responses = state.responses(RESPONSE_STEPS)
    largest = MAX_GROWTH * np.arange(1, RESPONSE_STEPS + 1)
    bounds = largest[:, None]
    return np.asarray(np.any((responses > bounds) | (responses < -bounds), axis=1))


def without(excluded: Array, weights: Array) -> Array:
    """Return weights that sum to one along the second axis, zero where excluded.

    They are those given where all are excluded.

    Parameters
    ----------
    excluded : array of bool of shape (n_members, n_series)
    weights : array of shape (n_origins, n_members, n_series)
    """
    kept = np.where(excluded, 0, weights)
    total = kept.sum(axis=1, keepdims=True)
    any_kept = total > 0
    normalized = kept / np.where(any_kept, total, 1)
    return np.asarray(np.where(any_kept, normalized, weights))


def bank_shares(paths: Array, truth: Array, origins: RollingOrigins, units: Array) -> Array:
    """Return the shares of banks at each origin, of shape (n_origins, n_banks, n_series).

    Half of the log share of a bank is that of the series, half the mean over all series.

    Parameters
    ----------
    paths : array of shape (n_origins - 1, n_banks, horizon, n_series)
    """
    n_origins = len(origins.rows)
    n_banks = paths.shape[1]
    n_series = truth.shape[2]
    shares = np.full((n_origins, n_banks, n_series), 1 / n_banks)
    if n_origins < 3:
        return shares
    errors = PastErrors(paths, truth[:-1], origins)
    for k in range(2, n_origins):
        past = np.arange(1, k)
        mean = errors.mean_until(k, past) / np.square(units)
        logs = -BANK_SHARPNESS * np.log(np.maximum(mean, SMALLEST_ERROR))
        logs = np.where(np.isnan(logs), 0, logs)
        pooled = (logs + logs.mean(axis=1, keepdims=True)) / 2
        shares[k] = softmax(pooled, axis=0)
    return shares
