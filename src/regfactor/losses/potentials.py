"""Convex potentials F with transfer f = F', conjugate F* and inverse transfer.

White & Schuurmans (2012), table 3. Every Bregman loss and every Bregman divergence is derived from
one of these. The printed tables contain errors; the forms here satisfy Fenchel-Young, which the
tests check.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, xlog1py, xlogy

from regfactor.core.params import Array, Params, require_positive
from regfactor.losses.base import Interval
from regfactor.losses.exponentials import bounded_exp, clip_exponent, exp_with_tangent, softplus

POSITIVE = Interval(0, np.inf)
NON_NEGATIVE = Interval(0, np.inf, low_closed=True)
NEGATIVE = Interval(-np.inf, 0)
UNIT = Interval(0, 1, low_closed=True, high_closed=True)


class Potential(Params, abc.ABC):
    """F, f = F' (the transfer), F'', the conjugate F* and f^-1; elementwise or over rows."""

    domain: Interval = Interval()
    range: Interval = Interval()
    rowwise: bool = False

    @abc.abstractmethod
    def value(self, x: Array) -> Array:
        """F(x)."""

    @abc.abstractmethod
    def transfer(self, x: Array) -> Array:
        """f(x) = F'(x)."""

    @abc.abstractmethod
    def hessian(self, x: Array) -> Array:
        """F''(x); where F(x) - F(m) loses precision to cancellation, divergences integrate it."""

    @abc.abstractmethod
    def conjugate(self, y: Array) -> Array:
        """Return F*(y) = sup_x <x, y> - F(x)."""

    @abc.abstractmethod
    def inverse(self, y: Array) -> Array:
        """Return the x with f(x) = y."""

    def divergence(self, x: Array, m: Array) -> Array:
        """D_F(x || m) = F(x) + F*(f(m)) - <x, f(m)>, summed over the last axis.

        m lies in the interior of the domain, x possibly on its boundary.
        """
        link = self.transfer(m)
        terms = self.value(x) + (link * m - self.value(m)) - x * link
        return np.maximum(terms.sum(axis=-1), 0)


@dataclass
class Identity(Potential):
    """F = x^2 / 2."""

    def value(self, x: Array) -> Array:
        return x * x / 2

    def transfer(self, x: Array) -> Array:
        return x

    def hessian(self, x: Array) -> Array:
        return np.ones_like(x)

    def conjugate(self, y: Array) -> Array:
        return y * y / 2

    def inverse(self, y: Array) -> Array:
        return y


@dataclass
class Sigmoid(Potential):
    """F = log(1 + e^x), f = sigmoid: real data, means in [0, 1]."""

    range = UNIT

    def value(self, x: Array) -> Array:
        return softplus(x)

    def transfer(self, x: Array) -> Array:
        return expit(x)

    def hessian(self, x: Array) -> Array:
        return expit(x) * expit(-x)

    def conjugate(self, y: Array) -> Array:
        return xlogy(y, y) + xlogy(1 - y, 1 - y)

    def inverse(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(y) - np.log1p(-y)


@dataclass
class Softmax(Potential):
    """F = log sum e^x over a row (spread evenly), f = softmax; constant shifts change nothing."""

    range = UNIT
    rowwise = True

    def value(self, x: Array) -> Array:
        total = logsumexp(x, axis=-1, keepdims=True)
        return np.broadcast_to(total / x.shape[-1], x.shape)

    def transfer(self, x: Array) -> Array:
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    def hessian(self, x: Array) -> Array:
        p = self.transfer(x)
        return p * (1 - p)

    def conjugate(self, y: Array) -> Array:
        return xlogy(y, y)

    def inverse(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(y) - np.log(y[..., -1:])


@dataclass
class Exp(Potential):
    """F = f = e^x: real data, positive means."""

    range = NON_NEGATIVE

    def value(self, x: Array) -> Array:
        return exp_with_tangent(x)

    def transfer(self, x: Array) -> Array:
        return bounded_exp(x)

    def hessian(self, x: Array) -> Array:
        return bounded_exp(x)

    def conjugate(self, y: Array) -> Array:
        tiny = np.finfo(np.result_type(np.asarray(y), np.float32)).tiny
        # NaN below zero, like xlogy, which takes five times as long
        with np.errstate(invalid="ignore"):
            return y * np.log(y + tiny) - y

    def inverse(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(y)


@dataclass
class Cube(Potential):
    """F = x^4 / 4, f = x^3."""

    def value(self, x: Array) -> Array:
        return np.square(x * x) / 4

    def transfer(self, x: Array) -> Array:
        return x * x * x

    def hessian(self, x: Array) -> Array:
        return 3 * x * x

    def conjugate(self, y: Array) -> Array:
        root = np.cbrt(np.abs(y))
        return 3 * np.square(root * root) / 4

    def inverse(self, y: Array) -> Array:
        return np.cbrt(y)


@dataclass
class RelaxedSigmoid(Potential):
    """F = (|x| + theta) log(1 + |x|/theta) - |x|: f grows like a logarithm on both sides."""

    theta: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, theta=self.theta)

    def value(self, x: Array) -> Array:
        size = np.abs(x)
        return (size + self.theta) * np.log1p(size / self.theta) - size

    def transfer(self, x: Array) -> Array:
        return np.sign(x) * np.log1p(np.abs(x) / self.theta)

    def hessian(self, x: Array) -> Array:
        return 1 / (np.abs(x) + self.theta)

    def conjugate(self, y: Array) -> Array:
        size = clip_exponent(np.abs(y))
        return self.theta * (np.expm1(size) - size)

    def inverse(self, y: Array) -> Array:
        return np.sign(y) * self.theta * np.expm1(clip_exponent(np.abs(y)))


@dataclass
class Dual(Potential):
    """The conjugate as a potential of its own: F* with transfer f^-1."""

    potential: Potential

    def __post_init__(self) -> None:
        self.domain = self.potential.range
        self.range = self.potential.domain
        self.rowwise = self.potential.rowwise

    def value(self, x: Array) -> Array:
        return self.potential.conjugate(x)

    def transfer(self, x: Array) -> Array:
        return self.potential.inverse(x)

    def hessian(self, x: Array) -> Array:
        return 1 / self.potential.hessian(self.potential.inverse(x))

    def conjugate(self, y: Array) -> Array:
        return self.potential.value(y)

    def inverse(self, y: Array) -> Array:
        return self.potential.transfer(y)


@dataclass
class Entropy(Potential):
    """F = x ln x - x: Kullback-Leibler divergence, Poisson data."""

    domain = NON_NEGATIVE

    def value(self, x: Array) -> Array:
        return xlogy(x, x) - x

    def transfer(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x)

    def hessian(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1 / x

    def conjugate(self, y: Array) -> Array:
        return bounded_exp(y)

    def inverse(self, y: Array) -> Array:
        return bounded_exp(y)


@dataclass
class Burg(Potential):
    """F = -a ln x + a ln a - a: Itakura-Saito divergence, gamma data of shape a."""

    shape: float = 1.0
    domain = POSITIVE
    range = NEGATIVE

    def __post_init__(self) -> None:
        require_positive(self, shape=self.shape)

    def value(self, x: Array) -> Array:
        a = self.shape
        return -a * np.log(x) + a * float(np.log(a)) - a

    def transfer(self, x: Array) -> Array:
        return -self.shape / x

    def hessian(self, x: Array) -> Array:
        return self.shape / (x * x)

    def conjugate(self, y: Array) -> Array:
        return -self.shape * np.log(-y)

    def inverse(self, y: Array) -> Array:
        return -self.shape / y


@dataclass
class BinomialEntropy(Potential):
    """F = x ln(x/N) + (N-x) ln((N-x)/N): binomial data of N trials; Bernoulli for N = 1."""

    trials: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, trials=self.trials)
        self.domain = Interval(0, self.trials, low_closed=True, high_closed=True)

    def value(self, x: Array) -> Array:
        N = self.trials
        return xlogy(x, x / N) + xlog1py(N - x, -x / N)

    def transfer(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x) - np.log(self.trials - x)

    def hessian(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1 / x + 1 / (self.trials - x)

    def conjugate(self, y: Array) -> Array:
        return self.trials * softplus(y)

    def inverse(self, y: Array) -> Array:
        return self.trials * expit(y)


@dataclass
class MultinomialEntropy(Potential):
    """F = sum x ln x on rows that sum to one: multinomial proportions."""

    domain = UNIT
    rowwise = True

    def value(self, x: Array) -> Array:
        return xlogy(x, x)

    def transfer(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x) - np.log(x[..., -1:])

    def hessian(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1 / x

    def conjugate(self, y: Array) -> Array:
        return Softmax().value(y)

    def inverse(self, y: Array) -> Array:
        return Softmax().transfer(y)


@dataclass
class Steps(Potential):
    """F = sum_k log(1 + e^(x - k - 1/2)), k < levels - 1: a soft step at each threshold."""

    levels: int = 5

    def __post_init__(self) -> None:
        self.range = Interval(0, self.levels - 1, low_closed=True, high_closed=True)

    @property
    def thresholds(self) -> Array:
        """Points between one level and the next."""
        return np.arange(self.levels - 1) + 0.5

    def value(self, x: Array) -> Array:
        return self._sum_over_thresholds(softplus, x)

    def transfer(self, x: Array) -> Array:
        return self._sum_over_thresholds(expit, x)

    def hessian(self, x: Array) -> Array:
        return self._sum_over_thresholds(Sigmoid().hessian, x)

    def conjugate(self, y: Array) -> Array:
        inside = (y > 0) & (y < self.levels - 1)
        x = np.where(inside, self.inverse(np.where(inside, y, 0.5)), 0.0)
        # at the upper end, the limit of (levels - 1) x - F(x)
        at_ends = np.where(y > 0, self.thresholds.sum(), 0.0)
        return np.where(inside, x * y - self.value(x), at_ends).astype(y.dtype)

    def inverse(self, y: Array) -> Array:
        with np.errstate(divide="ignore"):
            center = np.log(y) - np.log(self.levels - 1 - y)
        low = center + self.thresholds[0]
        high = center + self.thresholds[-1]
        # f increases and the bracket is a few units long: its 2^-60 is below rounding
        for _ in range(60):
            middle = (low + high) / 2
            above = self.transfer(middle) > y
            low = np.where(above, low, middle)
            high = np.where(above, middle, high)
        return np.asarray((low + high) / 2, np.result_type(y))

    def _sum_over_thresholds(self, function: Callable[[Array], Array], x: Array) -> Array:
        total = np.zeros_like(x)
        for threshold in self.thresholds:
            total += function(x - x.dtype.type(threshold))
        return total
