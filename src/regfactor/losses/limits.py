"""-log P(low <= z + e <= high) for noise e of a given deviation, normal or logistic.

Losses are in the unit of (z - x)^2 / 2, which is the variance of the noise times a negative log
density: f(z) = -s^2 log P. They are convex, since both densities are log-concave. All methods take
vectors in float64; a limit may be infinite, but not both of an entry.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, xlogy

from regfactor.core.params import EPS, Array

MAX_STEPS = 200  # of Newton's method or bisection; both end long before
LARGEST = 1e150  # predictors, whose squares do not overflow
LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
TAIL = 1e4  # deviations, beyond which the variance of a tail is below rounding
# nodes and weights for intervals in which the density is nearly an exponential
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True)
class Root:
    """A root of an increasing function, its value there, and the ends of the bracket left."""

    z: Array
    value: Array
    low: Array
    high: Array


def increasing_root(
    function: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    tolerance: Array,
) -> Root:
    """Solve g(z) = 0 entry by entry, for increasing g with g(low) <= 0 <= g(high).

    `function` returns g and its derivative. A Newton step is taken if it stays inside the bracket
    and the residual has halved since the last one; otherwise the bracket is bisected.
    """
    z = (low + high) / 2
    last = np.full_like(z, np.inf)
    value, slope = function(z)
    for _ in range(MAX_STEPS):
        low = np.where(value < 0, z, low)
        high = np.where(value > 0, z, high)
        size = np.abs(value)
        done = (size <= tolerance) | (high - low <= 2 * EPS * np.abs(z))
        if done.all():
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = z - value / slope
        trusted = (newton > low) & (newton < high) & (size <= last / 2)
        last = np.where(trusted, size, last)
        bisected = (low + high) / 2
        step = np.where(trusted, newton, bisected)
        z = np.where(done, z, step)
        value, slope = function(z)
    return Root(z, value, low, high)


@dataclass(frozen=True)
class EntryLimits(abc.ABC):
    """The loss of entries within limits under noise of deviation `scale`."""

    scale: float
    curvature: ClassVar[float]  # the largest second derivative

    @abc.abstractmethod
    def value(self, z: Array, low: Array, high: Array) -> Array:
        """-s^2 log P."""

    @abc.abstractmethod
    def gradient(self, z: Array, low: Array, high: Array) -> Array:
        """Return the first derivative in z."""

    @abc.abstractmethod
    def hessian(self, z: Array, low: Array, high: Array) -> Array:
        """Return the second derivative in z."""

    @abc.abstractmethod
    def inverse_gradient(self, y: Array, low: Array, high: Array) -> Array:
        """Return the z of gradient y, infinite at an end of the domain of the conjugate."""

    @abc.abstractmethod
    def conjugate(self, y: Array, low: Array, high: Array) -> Array:
        """Return sup_z y z - f(z), for y in its domain, rounded up."""

    @property
    @abc.abstractmethod
    def steepest(self) -> float:
        """The largest derivative, infinite if there is none."""

    def dual_domain(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the smallest and the largest derivative."""
        least = np.where(np.isinf(low), 0.0, -self.steepest)
        most = np.where(np.isinf(high), 0.0, self.steepest)
        return least, most


class NormalLimits(EntryLimits):
    """Normal noise. The gradient is z - E[x | low <= x <= high], the step of an EM algorithm."""

    curvature = 1.0
    steepest = np.inf

    def value(self, z: Array, low: Array, high: Array) -> Array:
        return -(self.scale**2) * self._moments(z, low, high).log_share

    def gradient(self, z: Array, low: Array, high: Array) -> Array:
        return -self.scale * self._moments(z, low, high).mean

    def hessian(self, z: Array, low: Array, high: Array) -> Array:
        return self._moments(z, low, high).missing_variance

    def _moments(self, z: Array, low: Array, high: Array) -> TruncatedMoments:
        z = np.clip(z, -LARGEST, LARGEST)
        first = (low - z) / self.scale
        last = (high - z) / self.scale
        width = (high - low) / self.scale
        return truncated_moments(first, last, width)

    def inverse_gradient(self, y: Array, low: Array, high: Array) -> Array:
        return self._inverse(y, low, high).z

    def conjugate(self, y: Array, low: Array, high: Array) -> Array:
        found = self._inverse(y, low, high)
        z = np.where(np.isfinite(found.z), found.z, 0.0)
        loss = self.value(z, low, high)
        # f*(y) <= y z - f(z) + (y - f'(z)) (z* - z), and the bracket holds the maximizer z*
        residual = np.abs(found.value) + 8 * EPS * (np.abs(y) + self.scale)
        product = y * z
        rounding = 4 * EPS * (np.abs(product) + loss)
        missed = residual * (found.high - found.low) + rounding
        largest = product - loss + missed
        return np.where(np.isfinite(found.z), largest, 0.0)

    def _inverse(self, y: Array, low: Array, high: Array) -> Root:
        """Return the z of gradient y, with residuals and brackets of z."""
        z = np.empty_like(y)
        value = np.zeros_like(y)
        left = np.empty_like(y)
        right = np.empty_like(y)
        both = np.isfinite(low) & np.isfinite(high)
        if both.any():
            inner = self._between(y[both], low[both], high[both])
            z[both] = inner.z
            value[both] = inner.value
            left[both] = inner.low
            right[both] = inner.high
        one = ~both
        if one.any():
            above = np.isfinite(high[one])
            sign = np.where(above, 1.0, -1.0)
            limit = np.where(above, high[one], low[one])
            level = sign * y[one] / self.scale
            tail = inverse_hazard(np.maximum(level, 0.0))
            z[one] = limit + sign * self.scale * tail.z
            value[one] = self.scale * tail.value
            left[one] = 0.0
            right[one] = self.scale * (tail.high - tail.low)
        return Root(z, value, left, right)

    def _between(self, y: Array, low: Array, high: Array) -> Root:
        """Solve z - E[x | low <= x <= high] = y, whose root lies in [y + low, y + high]."""

        def excess(z: Array) -> tuple[Array, Array]:
            found = self._moments(z, low, high)
            return -self.scale * found.mean - y, found.missing_variance

        tolerance = 2 * EPS * (np.abs(y) + self.scale)
        return increasing_root(excess, y + low, y + high, tolerance)


@dataclass(frozen=True)
class TruncatedMoments:
    """log P(a <= e <= b) of a standard normal e, its mean there, and 1 - its variance there."""

    log_share: Array
    mean: Array
    missing_variance: Array


def truncated_moments(a: Array, b: Array, width: Array) -> TruncatedMoments:
    """Return the moments of standard normal numbers between a and b = a + width, far tails too.

    The interval is mirrored to lie on the right. With the hazard h(t) = phi(t) / Phi(-t) and the
    ratio r = Phi(-b) / Phi(-a) of the tails, the mean is (h(a) - r h(b)) / (1 - r). Of a narrow
    interval the differences cancel, and a quadrature takes their place; its width is given, since
    b - a has the rounding of both.
    """
    mirrored = a + b < 0
    near = np.where(mirrored, -b, a)
    far = np.where(mirrored, -a, b)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        log_tail = log_ndtr(-near)
        ratio = np.exp(log_ndtr(-far) - log_tail)
        inside = 1 - ratio
        bounded = ratio > 0
        first = hazard(near) / inside
        last = hazard(far) * ratio / inside
        last = np.where(bounded, last, 0.0)
        log_share = log_tail + np.log1p(-ratio)
        mean = first - last
        at_far = np.where(bounded, far * last, 0.0)
        missing = mean * mean - near * first + at_far
    missing = np.clip(missing, 0.0, 1.0)
    missing = np.where(near > TAIL, 1.0, missing)
    narrow = width * (1 + np.abs(near)) < 1
    if narrow.any():
        found = _narrow_moments(near[narrow], width[narrow] / 2)
        log_share[narrow] = found.log_share
        mean[narrow] = found.mean
        missing[narrow] = found.missing_variance
    mean = np.where(mirrored, -mean, mean)
    return TruncatedMoments(log_share, mean, missing)


def _narrow_moments(a: Array, half: Array) -> TruncatedMoments:
    """phi(m) times the integral of exp(-m t - t^2/2) over half the width on both sides of m."""
    middle = a + half
    t = half[:, None] * NODES
    exponent = -middle[:, None] * t - t * t / 2
    density = np.exp(exponent)
    total = density @ NODE_WEIGHTS
    mean = density @ (NODE_WEIGHTS * NODES) / total
    square = density @ (NODE_WEIGHTS * NODES**2) / total
    variance = half * half * (square - mean * mean)
    with np.errstate(divide="ignore"):
        log_share = np.log(half * total)
    log_share = log_share - middle * middle / 2 - LOG_ROOT_TWO_PI
    return TruncatedMoments(log_share, middle + half * mean, 1 - variance)


def hazard(t: Array) -> Array:
    """phi(t) / Phi(-t), about t in the right tail and zero in the left one."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(np.sqrt(2 / np.pi) / erfcx(t / np.sqrt(2)))


def inverse_hazard(level: Array) -> Root:
    """Return t of a given hazard, minus infinity for zero; values are those of level - hazard.

    For t <= 0 the hazard lies between phi(t) and 2 phi(t), otherwise between t and t + 0.82, which
    are the brackets. Newton's method on its logarithm, of slope hazard - t, takes few steps.
    """
    positive = level > 0
    level = np.where(positive, level, 1.0)
    log_level = np.log(level)

    def left(log_density: Array) -> Array:
        half_square = -LOG_ROOT_TWO_PI - log_density
        return -np.sqrt(2 * np.maximum(half_square, 0.0))

    farthest = left(log_level - np.log(2))
    low = np.where(level < 0.79, farthest, level - 0.82)
    high = np.where(level < 0.39, left(log_level), level)
    high = np.maximum(high, low)

    def logarithm(t: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            right = hazard(np.maximum(t, -1.0))
            right = np.log(right)
        log_density = -t * t / 2 - LOG_ROOT_TWO_PI
        value = np.where(t < -1, log_density - log_ndtr(-t), right)
        slope = np.exp(value) - t
        return value - log_level, slope

    tolerance = 2 * EPS * (1 + np.abs(log_level))
    found = increasing_root(logarithm, low, high, tolerance)
    z = np.where(positive, found.z, -np.inf)
    excess = level * np.expm1(found.value)
    value = np.where(positive, excess, 0.0)
    width = np.where(positive, found.high - found.low, 0.0)
    return Root(z, value, np.zeros_like(width), width)


class LogisticLimits(EntryLimits):
    """Logistic noise of scale b = s sqrt(3) / pi, of which all is closed form.

    With u = (z - high) / b and v = (low - z) / b, -log P is log(1 + e^u) + log(1 + e^v) less the
    logarithm of 1 - e^(u + v), which does not depend on z. Its derivative is bounded.
    """

    curvature = np.pi**2 / 6

    @property
    def width(self) -> float:
        """The scale b of the noise."""
        return float(self.scale * np.sqrt(3) / np.pi)

    @property
    def steepest(self) -> float:
        """s^2 / b."""
        return self.scale**2 / self.width

    def value(self, z: Array, low: Array, high: Array) -> Array:
        over = (z - high) / self.width
        under = (low - z) / self.width
        ends = np.logaddexp(0, over) + np.logaddexp(0, under)
        return self.scale**2 * (ends - self._log_inside(low, high))

    def _log_inside(self, low: Array, high: Array) -> Array:
        """log(1 - e^(u + v))."""
        return np.log(-np.expm1((low - high) / self.width))

    def _outside(self, z: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the probabilities beyond a single limit, the upper and the lower one."""
        over = expit((z - high) / self.width)
        under = expit((low - z) / self.width)
        return over, under

    def _share(self, y: Array) -> Array:
        """Return gradients as shares of the steepest."""
        return np.clip(np.abs(y) / self.steepest, 0, 1)

    def gradient(self, z: Array, low: Array, high: Array) -> Array:
        over, under = self._outside(z, low, high)
        return self.steepest * (over - under)

    def hessian(self, z: Array, low: Array, high: Array) -> Array:
        over, under = self._outside(z, low, high)
        slopes = over * (1 - over) + under * (1 - under)
        return self.steepest / self.width * slopes

    def inverse_gradient(self, y: Array, low: Array, high: Array) -> Array:
        share = self._share(y)
        both = np.isfinite(low) & np.isfinite(high)
        with np.errstate(divide="ignore", invalid="ignore"):
            # a quadratic equation in e^t, with t the distance from the middle in units of b
            middle = np.where(both, (low + high) / 2, 0.0)
            half = np.where(both, (high - low) / (2 * self.width), 0.0)
            fallen = np.exp(-2 * half)
            first = share * (1 + fallen) / 2
            last = share * (1 - fallen) / 2
            root = np.sqrt(np.square(last) + fallen)
            log_rest = np.log1p(-share)
            away = half + np.log(first + root) - log_rest
            between = middle + np.sign(y) * self.width * away
            beyond = self.width * (np.log(share) - log_rest)
            one = np.where(np.isinf(low), high + beyond, low - beyond)
        return np.where(both, between, one)

    def conjugate(self, y: Array, low: Array, high: Array) -> Array:
        both = np.isfinite(low) & np.isfinite(high)
        share = self._share(y)
        product = y * np.where(np.isinf(low), high, low)
        entropy = xlogy(share, share) + xlogy(1 - share, 1 - share)
        out = product + self.scale**2 * entropy
        if both.any():
            out[both] = self._conjugate_between(y[both], low[both], high[both])
        size = np.abs(out) + np.abs(product)
        return out + 4 * EPS * size

    def _conjugate_between(self, y: Array, low: Array, high: Array) -> Array:
        z = self.inverse_gradient(y, low, high)
        ended = np.isinf(z)
        safe = np.where(ended, 0.0, z)
        # at the ends of its domain the conjugate is the limit of y z - f(z)
        limit = np.where(y > 0, high, low)
        at_end = limit * y + self.scale**2 * self._log_inside(low, high)
        between = y * safe - self.value(safe, low, high)
        return np.where(ended, at_end, between)


NOISES: dict[str, type[EntryLimits]] = {"gaussian": NormalLimits, "logistic": LogisticLimits}
