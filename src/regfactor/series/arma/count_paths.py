"""Futures of counts and of 0/1 series: each step is drawn given the steps before it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.stats import rankdata

from regfactor.core.params import Array, frozen
from regfactor.fitting.predictive import predictive
from regfactor.losses import Binomial, Logistic, NegativeBinomial, Poisson
from regfactor.series.arma.model import Past, Varma

N_PATHS = 2000
MAX_LOG_STEP = 5.0  # by which predictors may exceed the largest one seen
# losses that state a distribution of whole numbers
COUNT_LOSSES = (Poisson, NegativeBinomial, Logistic, Binomial)


@frozen
class CountNoise:
    """The distribution of a count given its predictor.

    Attributes
    ----------
    model : Varma
    variance : array of shape (n_series,)
        Of the predictor about its one-step forecast, from what one-step errors vary more than the
        distribution of the loss does.
    largest : array of shape (n_series,)
        Predictors that are not exceeded.
    noise : array of shape (n_series,)
        Mean variance of working observations, for which gains of the moving average are steady.
    """

    model: Varma
    variance: Array
    largest: Array
    noise: Array

    @staticmethod
    def of(model: Varma, predictors: Array, counts: Array, freedom: float) -> CountNoise:
        """Return the distribution that one-step predictors of the fitted rows call for."""
        loss = model.loss
        means = model.mean(predictors)
        left = max(1 - freedom / len(counts), 1 / len(counts))
        squares = np.square(counts - means) / left
        variance = np.zeros(means.shape[1])
        if isinstance(loss, Poisson | NegativeBinomial):
            # counts of variance mean + excess mean^2, as in regfactor.fitting.predictive
            excess = (squares - means).sum(axis=0) / np.square(means).sum(axis=0)
            own = 1 / loss.theta if isinstance(loss, NegativeBinomial) else 0.0
            variance = np.log1p(np.maximum((excess - own) / (1 + own), 0))
        _, noise = model.working(predictors, counts)
        return CountNoise(
            model, variance, predictors.max(axis=0) + MAX_LOG_STEP, noise.mean(axis=0)
        )

    @cached_property
    def ma(self) -> Array:
        """Effects of a working innovation on later predictors."""
        return self.model.errors.innovations(self.noise)[0]

    def paths(self, past: Past, U: Array, shares: Array) -> Array:
        """Return counts of shape (n_paths, horizon, n_series) at given shares of probability."""
        model = self.model
        n_paths, horizon, n = shares.shape
        start = model.start
        errors = np.tile(past.errors.rows(horizon), (n_paths, 1, 1))
        unknown = np.zeros((start + horizon, n))
        offset = model.linear(unknown, np.vstack([past.U, U]))
        X = np.empty((n_paths, start + horizon, n))
        X[:, :start] = past.X
        shift = 0 if model.shift is None else model.shift
        for t in range(horizon):
            z = errors[:, t] + offset[t]
            for i, A in enumerate(model.ar):
                z = z + X[:, start + t - 1 - i] @ A.T
            z = np.minimum(z, self.largest)
            entries = predictive(model.loss, z + shift, self.variance, self.variance)
            drawn = entries.quantile(shares[:, t])
            X[:, start + t] = drawn
            seen, _ = model.working(z, drawn)
            for j, theta in enumerate(self.ma[: horizon - 1 - t], start=1):
                errors[:, t + j] += (seen - z) @ theta.T
        return X[:, start:]

    def limits(self, past: Past, U: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of central intervals, of shape (horizon, n_series)."""
        uniform = np.random.default_rng(0).random((N_PATHS, len(U), len(self.variance)))
        stratified = (rankdata(uniform, axis=0) - 0.5) / N_PATHS
        paths = self.paths(past, U, stratified)
        ends = ((1 - level) / 2, (1 + level) / 2)
        lower, upper = np.quantile(paths, ends, axis=0, method="inverted_cdf")
        return lower, upper
