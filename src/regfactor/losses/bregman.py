"""f(z; x) = F(z) - x z, the matching loss of a potential F: likelihoods of exponential families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gamma as gamma_function
from scipy.special import wrightomega, xlogy

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array, require_positive
from regfactor.losses import potentials
from regfactor.losses.base import Interval, Loss
from regfactor.losses.exponentials import (
    bounded_exp,
    clip_exponent,
    clip_to_root_of_max,
    exp_with_tangent,
    expand_sigmoid,
)
from regfactor.losses.potentials import NEGATIVE, NON_NEGATIVE, POSITIVE, UNIT, Potential


class Bregman(Loss):
    """f(z; x) = F(z) - x z, all derived from the potential F; f*(y) = F*(y + x)."""

    potential: Potential

    def value(self, z: Array, x: Array) -> Array:
        return self.potential.value(z) - x * z

    def gradient(self, z: Array, x: Array) -> Array:
        return self.potential.transfer(z) - x

    def hessian(self, z: Array, x: Array) -> Array:
        return self.potential.hessian(z)

    def conjugate(self, y: Array, x: Array) -> Array:
        mean = y + x
        low = self.potential.range.low
        high = self.potential.range.high
        # rounding in y + x must not turn a point on the boundary into an infinite one
        slack = 8 * np.finfo(mean.dtype).eps * (1 + np.abs(x))
        legal = (mean >= low - slack) & (mean <= high + slack)
        values = self.potential.conjugate(np.clip(mean, low, high))
        return np.where(legal, values, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        mean = np.clip(y + x, self.potential.range.low, self.potential.range.high)
        return self.potential.inverse(mean)

    def dual_domain(self, x: Array) -> tuple[Array, Array | float]:
        return self.potential.range.low - x, self.potential.range.high - x

    def predict(self, z: Array) -> Array:
        return self.potential.transfer(z)


@dataclass
class Logistic(Bregman):
    """log(1 + e^z) - x z for x in [0, 1]; predicts the probability."""

    potential = potentials.Sigmoid()
    domain = UNIT
    curvature = 0.25

    def expand(
        self,
        z: Array,
        x: Array,
        value: Array,
        gradient: Array,
        hessian: Array,
    ) -> None:
        expand_sigmoid(z, value, gradient, hessian)
        value -= x * z
        gradient -= x


@dataclass
class Poisson(Bregman):
    """e^z - x z for counts x >= 0; predicts the rate."""

    potential = potentials.Exp()
    domain = NON_NEGATIVE

    def value(self, z: Array, x: Array) -> Array:
        return super().value(clip_to_root_of_max(z), x)

    def expand(
        self,
        z: Array,
        x: Array,
        value: Array,
        gradient: Array,
        hessian: Array,
    ) -> None:
        exponent = clip_exponent(z)
        np.exp(exponent, out=hessian)
        np.subtract(hessian, x, out=gradient)
        if exponent is z:
            np.multiply(x, z, out=value)
            np.subtract(hessian, value, out=value)
        else:
            value[...] = self.value(z, x)  # along the tangent, as in exp_with_tangent

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        return _root_of_exponential(a + x / w, w)


@dataclass
class Gamma(Bregman):
    """-log(-z) - x z for x > 0 and z < 0: gamma family, canonical link; predicts the mean -1/z."""

    potential = potentials.Dual(potentials.Burg())
    domain = POSITIVE
    link_domain = NEGATIVE

    def conjugate(self, y: Array, x: Array) -> Array:
        mean = y + x
        positive = mean > 0
        logs = np.log(np.where(positive, mean, 1))
        return np.where(positive, -logs - 1, np.inf)

    def dual_domain(self, x: Array) -> tuple[Array, float]:
        # at the open end, mean -> 0, the conjugate is infinite
        return (_open_end_margin(x) - 1) * x, np.inf

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return -1 / (y + x)

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        b = x + w * a
        root = np.sqrt(b * b + 4 * w)
        # the negative root of w z^2 - b z - 1 = 0, in the form that does not cancel
        return np.where(b > 0, -2 / (b + root), (b - root) / (2 * w))


@dataclass
class Binomial(Bregman):
    """N log(1 + e^z) - x z for x successes in N trials; predicts the expected successes."""

    trials: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, trials=self.trials)
        self.potential = potentials.Dual(potentials.BinomialEntropy(self.trials))
        self.domain = Interval(0, self.trials, low_closed=True, high_closed=True)
        self.curvature = self.trials / 4

    def expand(
        self,
        z: Array,
        x: Array,
        value: Array,
        gradient: Array,
        hessian: Array,
    ) -> None:
        expand_sigmoid(z, value, gradient, hessian)
        for part in (value, gradient, hessian):
            part *= self.trials
        value -= x * z
        gradient -= x


@dataclass
class Ordinal(Bregman):
    """sum_k log(1 + e^(z - k - 1/2)) - x z + x^2/2 for levels x = 0, 1, ...

    A logistic loss at every threshold between two levels.
    """

    levels: int = 5

    def __post_init__(self) -> None:
        if not (isinstance(self.levels, int | np.integer) and self.levels >= 2):
            raise ValueError(f"Ordinal needs a whole number of levels >= 2, got {self.levels!r}.")
        self.potential = potentials.Steps(int(self.levels))
        self.domain = Interval(0, self.levels - 1, low_closed=True, high_closed=True)
        self.curvature = (self.levels - 1) / 4

    def value(self, z: Array, x: Array) -> Array:
        return self.potential.value(z) - x * z + x * x / 2

    def conjugate(self, y: Array, x: Array) -> Array:
        return Bregman.conjugate(self, y, x) - x * x / 2

    def predict(self, z: Array) -> Array:
        return np.clip(np.ceil(z - 0.5), 0, self.levels - 1).astype(z.dtype)

    def legal(self, x: Array) -> Array:
        return self.domain.contains(x) & (x == np.round(x))

    @property
    def domain_text(self) -> str:
        return f"the whole numbers 0..{self.levels - 1}"


@dataclass
class Multinomial(Bregman):
    """N log sum e^z - <x, z> over a row of counts with total N; predicts the expected shares."""

    potential = potentials.Softmax()
    domain = NON_NEGATIVE
    rowwise = True
    proximable = False

    def value(self, z: Array, x: Array) -> Array:
        return _totals(x) * self.potential.value(z) - x * z

    def gradient(self, z: Array, x: Array) -> Array:
        return _totals(x) * self.potential.transfer(z) - x

    def hessian(self, z: Array, x: Array) -> Array:
        return _totals(x) * self.potential.hessian(z)

    def conjugate(self, y: Array, x: Array) -> Array:
        counts = y + x
        total = _totals(x)
        slack = 1e-6 if counts.dtype == np.float32 else 1e-9
        closed = np.abs(_totals(counts) - total) <= slack * (1 + total)
        legal = closed & (counts >= -slack * (1 + x))
        counts = np.maximum(counts, 0)
        shares = counts / positive_or_one(total)
        return np.where(legal, xlogy(counts, shares), np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return self.potential.inverse((y + x) / _totals(x))

    def feasible(self, y: Array, x: Array) -> Array:
        counts = np.maximum(y + x, 0)
        found = _totals(counts)
        ratio = _totals(x) / positive_or_one(found)
        return np.where(found > 0, counts * ratio - x, 0)

    def dual_domain(self, x: Array) -> tuple[Array, Array]:
        return -x, _totals(x) - x


@dataclass
class Softmax(Multinomial):
    """log sum e^z - <x, z> over a row of shares x that sum to one; predicts the probabilities."""

    domain = UNIT
    curvature = 0.5

    def legal(self, x: Array) -> Array:
        return self.domain.contains(x) & (np.abs(_totals(x) - 1) <= 1e-5)

    @property
    def domain_text(self) -> str:
        return "[0, 1] with rows that sum to one"


@dataclass
class GammaLog(Loss):
    """x e^-z + z for x > 0: the gamma family with a log link; predicts the mean e^z."""

    domain = POSITIVE

    def value(self, z: Array, x: Array) -> Array:
        return x * exp_with_tangent(-z) + z

    def gradient(self, z: Array, x: Array) -> Array:
        return 1 - x * bounded_exp(-z)

    def hessian(self, z: Array, x: Array) -> Array:
        return x * bounded_exp(-z)

    def conjugate(self, y: Array, x: Array) -> Array:
        q = 1 - y
        inside = np.maximum(q, 0)
        return np.where(q >= 0, xlogy(inside, inside / x) - q, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x / np.maximum(1 - y, 0))

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -np.inf, 1.0

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        return np.log(x) - _root_of_exponential(np.log(x) + 1 / w - a, w)

    def predict(self, z: Array) -> Array:
        return bounded_exp(z)


@dataclass
class Exponential(GammaLog):
    """x e^-z + z for waiting times x > 0 of mean e^z, which it predicts."""


@dataclass
class Weibull(Loss):
    """(x e^-z)^k + k z for x > 0 and a shape k: z is the log of the scale; predicts the mean.

    It is the loss of `GammaLog` at k z and x^k. Shapes above one mean a rising hazard, one is the
    exponential distribution.
    """

    shape: float = 2.0
    domain = POSITIVE

    def __post_init__(self) -> None:
        require_positive(self, shape=self.shape)
        self._mean = float(gamma_function(1 + 1 / self.shape))

    def value(self, z: Array, x: Array) -> Array:
        return exp_with_tangent(self._exponent(z, x)) + self.shape * z

    def gradient(self, z: Array, x: Array) -> Array:
        return self.shape * (1 - bounded_exp(self._exponent(z, x)))

    def hessian(self, z: Array, x: Array) -> Array:
        return self.shape**2 * bounded_exp(self._exponent(z, x))

    def _exponent(self, z: Array, x: Array) -> Array:
        return self.shape * (np.log(x) - z)

    def conjugate(self, y: Array, x: Array) -> Array:
        q = 1 - y / self.shape
        inside = np.maximum(q, 0)
        logs = xlogy(inside, inside) - inside * self.shape * np.log(x)
        return np.where(q >= 0, logs - q, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(x) - np.log(np.maximum(1 - y / self.shape, 0)) / self.shape

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -np.inf, float(self.shape)

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        k = self.shape
        # in v = k (log x - z): e^v + (w / k^2) v = (w / k^2) (k log x - k a) + 1
        strength = w / k**2
        v = _root_of_exponential(k * (np.log(x) - a) + 1 / strength, strength)
        return np.log(x) - v / k

    def predict(self, z: Array) -> Array:
        return self._mean * bounded_exp(z)


@dataclass
class KL(Loss):
    """x log(x/z) - x + z for x, z >= 0: z is the mean itself, as in non-negative factorization."""

    domain = NON_NEGATIVE
    link_domain = NON_NEGATIVE

    def value(self, z: Array, x: Array) -> Array:
        return xlogy(x, x) - xlogy(x, z) - x + z

    def gradient(self, z: Array, x: Array) -> Array:
        return 1 - _ratio(x, z)

    def hessian(self, z: Array, x: Array) -> Array:
        return _ratio(_ratio(x, z), z)

    def conjugate(self, y: Array, x: Array) -> Array:
        rest = np.maximum(1 - y, 0)
        return np.where(y <= 1, -xlogy(x, rest), np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return _ratio(x, 1 - y)

    def dual_domain(self, x: Array) -> tuple[float, Array]:
        # at the open end, where x > 0, the conjugate is infinite
        return -np.inf, 1 - _open_end_margin(x) * (x > 0)

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        b = w * a - 1
        root = np.sqrt(b * b + 4 * w * x)
        # two forms of the positive root of w z^2 - b z - x = 0: one is exact where the other is not
        added = (b + root) / (2 * w)
        return np.where(b > 0, added, _ratio(2 * x, root - b))


def _totals(x: Array) -> Array:
    """Return the sums of the rows, as a column."""
    return x.sum(axis=-1, keepdims=True)


def _open_end_margin(x: Array) -> Any:
    """Return the relative distance kept from an open end: 1e-12, or 4 eps of the precision of x."""
    precision = np.result_type(x, np.float32).type
    return max(precision(1e-12), 4 * np.finfo(precision).eps)


def _ratio(x: Array, z: Array) -> Array:
    """x / z with 0 / 0 = 0."""
    zero = x == 0
    with np.errstate(divide="ignore"):
        return np.where(zero, 0, x / np.where(zero & (z == 0), 1, z))


def _root_of_exponential(c: Array, w: Array | float) -> Array:
    """Return the z with e^z + w z = w c, by the Wright omega function (omega + log omega = t)."""
    t = c - np.log(w)
    omega = wrightomega(t)
    large = np.log(w) + np.log(np.where(t > 0, omega, 1))
    root = np.where(t > 0, large, c - omega)
    return root.astype(np.result_type(c))
