"""Losses of the residual z - x, and `Robust`, which makes any loss ignore gross outliers."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

import numpy as np

from regfactor.core.linalg import soft
from regfactor.core.params import Array, require_positive
from regfactor.losses.base import Loss


class Residual(Loss):
    """f(z; x) = h(z - x), so that f*(y) = h*(y) + x y."""

    of_residual = True

    @abc.abstractmethod
    def penalty(self, r: Array) -> Array:
        """h(r)."""

    @abc.abstractmethod
    def penalty_conjugate(self, y: Array) -> Array:
        """h*(y) inside its domain; outside of it anything, without a warning."""

    def value(self, z: Array, x: Array) -> Array:
        return self.penalty(z - x)

    def conjugate(self, y: Array, x: Array) -> Array:
        low, high = self.dual_domain(x)
        value = self.penalty_conjugate(y) + x * y
        inside = (y >= low) & (y <= high)
        if inside.all():
            return value
        return np.where(inside, value, np.inf)


@dataclass
class Squared(Loss):
    """(z - x)^2 / 2."""

    of_residual = True
    curvature = 1.0

    def value(self, z: Array, x: Array) -> Array:
        r = z - x
        return r * r / 2

    def gradient(self, z: Array, x: Array) -> Array:
        return z - x

    def hessian(self, z: Array, x: Array) -> Array:
        return np.ones_like(z)

    def conjugate(self, y: Array, x: Array) -> Array:
        return y * y / 2 + x * y

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return y + x

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -np.inf, np.inf

    def feasible(self, y: Array, x: Array) -> Array:
        return y

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        return x + (a - x) * (w / (1 + w))


@dataclass
class Huber(Residual):
    """r^2/2 for |r| <= delta, delta |r| - delta^2/2 beyond, with r = z - x."""

    delta: float = 1.0
    curvature = 1.0

    def __post_init__(self) -> None:
        require_positive(self, delta=self.delta)

    def penalty(self, r: Array) -> Array:
        inner = np.clip(r, -self.delta, self.delta)
        return inner * (r - inner / 2)

    def gradient(self, z: Array, x: Array) -> Array:
        return np.clip(z - x, -self.delta, self.delta)

    def hessian(self, z: Array, x: Array) -> Array:
        return (np.abs(z - x) <= self.delta).astype(np.result_type(z, x))

    def penalty_conjugate(self, y: Array) -> Array:
        return y * y / 2

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return y + x

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -self.delta, self.delta

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        return a - np.clip((a - x) / (1 + w), -self.delta / w, self.delta / w)


@dataclass
class SmoothedL1(Residual):
    """r^2 / (2 sigma) for |r| <= sigma, |r| - sigma/2 beyond, with r = z - x."""

    sigma: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, sigma=self.sigma)
        self.curvature = 1 / self.sigma

    def penalty(self, r: Array) -> Array:
        inner = np.clip(r, -self.sigma, self.sigma)
        return inner * (r - inner / 2) / self.sigma

    def gradient(self, z: Array, x: Array) -> Array:
        return np.clip((z - x) / self.sigma, -1, 1)

    def hessian(self, z: Array, x: Array) -> Array:
        r = z - x
        inside = np.abs(r) <= self.sigma
        return inside.astype(r.dtype) / self.sigma

    def penalty_conjugate(self, y: Array) -> Array:
        return self.sigma * y * y / 2

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + self.sigma * y

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -1.0, 1.0

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        # in place: new memory would cost as much as the arithmetic
        moved = a - x
        moved /= 1 + self.sigma * w
        np.clip(moved, -1 / w, 1 / w, out=moved)
        return np.subtract(a, moved, out=moved)


@dataclass
class Absolute(Residual):
    """|z - x|."""

    smooth = False

    def penalty(self, r: Array) -> Array:
        return np.abs(r)

    def gradient(self, z: Array, x: Array) -> Array:
        return np.sign(z - x)

    def hessian(self, z: Array, x: Array) -> Array:
        curvature = np.where(z == x, np.inf, 0)
        return curvature.astype(np.result_type(z, x))

    def penalty_conjugate(self, y: Array) -> Array:
        return np.zeros_like(y)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + np.zeros_like(y)

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -1.0, 1.0

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        return x + soft(a - x, 1 / w)

    def smoothed(self, sigma: float) -> Loss:
        return SmoothedL1(sigma)


@dataclass
class Quantile(Residual):
    """(1 - level) r for r >= 0 and -level r below, with r = z - x: z estimates a quantile of x.

    A positive sigma smooths the kink: r^2 / (2 sigma) between -level sigma and (1 - level) sigma,
    which is the Moreau envelope.
    """

    level: float = 0.5
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"The level of Quantile must lie between 0 and 1, got {self.level!r}.")
        if not 0 <= self.sigma < np.inf:
            raise ValueError(f"sigma of Quantile must not be negative, got {self.sigma!r}.")
        self.smooth = self.sigma > 0
        self.curvature = 1 / self.sigma if self.smooth else np.inf

    def penalty(self, r: Array) -> Array:
        above = 1 - self.level
        inner = np.clip(r, -self.level * self.sigma, above * self.sigma)
        outer = r - inner
        sides = np.where(outer > 0, above * outer, -self.level * outer)
        if not self.smooth:
            return sides
        return sides + inner * inner / (2 * self.sigma)

    def gradient(self, z: Array, x: Array) -> Array:
        r = z - x
        if self.smooth:
            return np.clip(r / self.sigma, -self.level, 1 - self.level)
        sides = np.where(r > 0, 1 - self.level, -self.level)
        return np.where(r == 0, 0, sides).astype(r.dtype)

    def hessian(self, z: Array, x: Array) -> Array:
        r = z - x
        if not self.smooth:
            curvature = np.where(r == 0, np.inf, 0)
            return curvature.astype(r.dtype)
        low = -self.level * self.sigma
        high = (1 - self.level) * self.sigma
        inside = (r >= low) & (r <= high)
        return inside.astype(r.dtype) / self.sigma

    def penalty_conjugate(self, y: Array) -> Array:
        return self.sigma * y * y / 2

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + self.sigma * y

    def dual_domain(self, x: Array) -> tuple[float, float]:
        return -self.level, 1 - self.level

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        moved = (a - x) / (1 + self.sigma * w)
        low = -self.level / w
        high = (1 - self.level) / w
        return a - np.clip(moved, low, high)

    def smoothed(self, sigma: float) -> Loss:
        return Quantile(self.level, sigma)


@dataclass
class Robust(Loss):
    """min_s loss(z + s; x) + beta |s|: outliers s cost beta a unit, gradients are clipped at beta.

    The outlier s is never formed (thesis, corollary 4). With the squared loss this is the Huber
    loss.
    """

    loss: Loss = field(default_factory=Squared)
    beta: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, beta=self.beta)
        if not isinstance(self.loss, Loss) or self.loss.rowwise:
            raise ValueError(f"Robust wraps an elementwise Loss, got {self.loss!r}.")
        self.domain = self.loss.domain
        self.link_domain = self.loss.link_domain
        self.unbounded = self.loss.unbounded
        self.smooth = self.loss.smooth
        self.curvature = self.loss.curvature
        self.of_residual = self.loss.of_residual

    def explained(self, z: Array, x: Array) -> Array:
        """Return z + s: the predictor without the outlier."""
        gradient = self.loss.gradient(z, x)
        outlying = np.abs(gradient) > self.beta
        clipped = np.clip(gradient, -self.beta, self.beta)
        edge = np.where(outlying, clipped, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(outlying, self.loss.inverse_gradient(edge, x), z)

    def value(self, z: Array, x: Array) -> Array:
        kept = self.explained(z, x)
        outliers = np.abs(z - kept)
        return self.loss.value(kept, x) + self.beta * outliers

    def gradient(self, z: Array, x: Array) -> Array:
        gradient = self.loss.gradient(z, x)
        return np.clip(gradient, -self.beta, self.beta)

    def hessian(self, z: Array, x: Array) -> Array:
        gradient = self.loss.gradient(z, x)
        inside = np.abs(gradient) <= self.beta
        return np.where(inside, self.loss.hessian(z, x), 0)

    def conjugate(self, y: Array, x: Array) -> Array:
        legal = np.abs(y) <= self.beta
        return np.where(legal, self.loss.conjugate(y, x), np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return self.loss.inverse_gradient(y, x)

    def dual_domain(self, x: Array) -> tuple[Array, Array]:
        low, high = self.loss.dual_domain(x)
        return np.maximum(low, -self.beta), np.minimum(high, self.beta)

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        step = a - self.loss.prox(a, w, x)
        longest = self.beta / w
        return a - np.clip(step, -longest, longest)

    def smoothed(self, sigma: float) -> Loss:
        return Robust(self.loss.smoothed(sigma), self.beta)

    def predict(self, z: Array) -> Array:
        return self.loss.predict(z)

    def legal(self, x: Array) -> Array:
        return self.loss.legal(x)

    @property
    def domain_text(self) -> str:
        return self.loss.domain_text
