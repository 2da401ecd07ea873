"""The distribution of an entry given its predictor, and how it is calibrated by held-out entries.

An entry x is in the central interval of a distribution F between the quantiles Phi(-c) and Phi(c)
if and only if c >= max(-Phi^-1(F(x)), Phi^-1(F(x-))), its score; F(x-) is the probability of
smaller values. So counts and labels are calibrated like numbers: the c of an interval is a
conformal quantile of the scores of held-out entries. For a normal distribution the score is
|x - mean| / deviation.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from scipy.special import expit, ndtr, ndtri

from regfactor.core.params import Array
from regfactor.losses import (
    Binomial,
    Gamma,
    GammaLog,
    Logistic,
    Loss,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Robust,
    Weibull,
)

LARGEST_SCORE = 38.0  # ndtri of the smallest positive number
LARGEST_VARIANCE = 20.0  # of a predictor on the scale of logarithms
PROBIT = np.pi / 8  # logistic link averaged over a normal predictor (MacKay 1992)


class Predictive(abc.ABC):
    """The distributions of some entries."""

    @abc.abstractmethod
    def cdf(self, x: Array) -> tuple[Array, Array]:
        """P(X <= x) and P(X < x)."""

    @abc.abstractmethod
    def quantile(self, share: Array) -> Array:
        """Return the smallest value with P(X <= value) >= share."""

    def scores(self, x: Array) -> Array:
        """Return the c of the smallest central interval that holds each entry."""
        at, below = self.cdf(x)
        with np.errstate(divide="ignore"):
            needed = np.maximum(-ndtri(at), ndtri(below))
        return np.clip(np.nan_to_num(needed, neginf=-LARGEST_SCORE), -LARGEST_SCORE, LARGEST_SCORE)

    def limits(self, c: Any) -> tuple[Array, Array]:
        """Return the ends of the central intervals of c deviations."""
        return self.quantile(ndtr(-np.asarray(c))), self.quantile(ndtr(np.asarray(c)))


@dataclass(frozen=True)
class NormalEntries(Predictive):
    """Numbers of given means and deviations."""

    mean: Array
    deviation: Array

    def cdf(self, x: Array) -> tuple[Array, Array]:
        at = ndtr((x - self.mean) / self.deviation)
        return at, at

    def quantile(self, share: Array) -> Array:
        return self.mean + self.deviation * ndtri(share)

    def scores(self, x: Array) -> Array:
        return np.abs(x - self.mean) / self.deviation

    def limits(self, c: Any) -> tuple[Array, Array]:
        half = np.asarray(c) * self.deviation
        return self.mean - half, self.mean + half


@dataclass(frozen=True)
class ScipyEntries(Predictive):
    """A frozen distribution of scipy; `discrete` values are whole numbers."""

    distribution: Any
    discrete: bool

    def cdf(self, x: Array) -> tuple[Array, Array]:
        at = self.distribution.cdf(x)
        if self.discrete:
            return at, self.distribution.cdf(np.ceil(x) - 1)
        return at, at

    def quantile(self, share: Array) -> Array:
        values = self.distribution.ppf(np.clip(share, 0, 1))
        return np.maximum(values, 0)


def predictive(loss: Loss, z: Array, variance: Array, noise: Array) -> Predictive:
    """Return the distributions of entries.

    Parameters
    ----------
    loss : Loss
    z : array
        Predictors.
    variance : array
        Their variances: leverages, in units of the dispersion of the loss.
    noise : array
        The variance of an entry about its predictor, under losses of residuals.
    """
    while isinstance(loss, Robust):
        loss = loss.loss
    spread = np.expm1(np.minimum(variance, LARGEST_VARIANCE))  # of e^z relative to its mean
    if isinstance(loss, Poisson | NegativeBinomial):
        mean = loss.predict(z)
        excess = spread
        if isinstance(loss, NegativeBinomial):
            excess = spread + (1 + spread) / loss.theta
        theta = 1 / np.maximum(excess, 1e-9)  # counts of variance mean + excess mean^2
        return ScipyEntries(scipy.stats.nbinom(theta, theta / (theta + mean)), True)
    if isinstance(loss, Logistic | Binomial):
        trials = loss.trials if isinstance(loss, Binomial) else 1
        share = expit(z / np.sqrt(1 + PROBIT * variance))
        return ScipyEntries(scipy.stats.binom(int(trials), share), True)
    if isinstance(loss, Gamma):  # of a predictor z = -1 / mean
        mean = loss.predict(z)
        shape = 1 / (1 + 2 * variance * np.square(mean))
        return ScipyEntries(scipy.stats.gamma(shape, scale=mean / shape), False)
    if isinstance(loss, GammaLog):
        shape = 1 / (1 + 2 * spread)  # of variance mean^2 (1 + 2 spread)
        return ScipyEntries(scipy.stats.gamma(shape, scale=loss.predict(z) / shape), False)
    if isinstance(loss, Weibull):
        return ScipyEntries(scipy.stats.weibull_min(loss.shape, scale=np.exp(z)), False)
    if isinstance(loss, Ordinal):
        return NormalEntries(z, np.sqrt(1.0 + variance))
    return NormalEntries(z, np.sqrt(noise * (1 + variance)))
