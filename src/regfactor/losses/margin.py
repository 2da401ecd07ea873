"""Losses of the margin m = x z for x in {-1, +1}."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array, require_positive
from regfactor.losses.base import Interval, Loss


class Margin(Loss):
    """f(z; x) = h(x z) with -1 <= h' <= 0; predicts the sign."""

    domain = Interval(-1, 1, low_closed=True, high_closed=True)

    def legal(self, x: Array) -> Array:
        return np.abs(x) == 1

    @property
    def domain_text(self) -> str:
        return "{-1, +1}"

    def dual_domain(self, x: Array) -> tuple[Array, Array]:
        return np.minimum(-x, 0), np.maximum(-x, 0)

    def predict(self, z: Array) -> Array:
        return np.where(z >= 0, 1, -1).astype(z.dtype)


@dataclass
class Hinge(Margin):
    """max(0, 1 - m)."""

    smooth = False

    def value(self, z: Array, x: Array) -> Array:
        return np.maximum(1 - x * z, 0)

    def gradient(self, z: Array, x: Array) -> Array:
        return np.where(x * z < 1, -x, 0)

    def hessian(self, z: Array, x: Array) -> Array:
        m = x * z
        curvature = np.where(m == 1, np.inf, 0)
        return curvature.astype(m.dtype)

    def conjugate(self, y: Array, x: Array) -> Array:
        u = -x * y
        legal = (u >= 0) & (u <= 1)
        return np.where(legal, -u, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + np.zeros_like(y)

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        m = x * a
        raised = np.minimum(m + 1 / w, 1)
        return x * np.where(m >= 1, m, raised)

    def smoothed(self, sigma: float) -> Loss:
        return SmoothedHinge(sigma)


@dataclass
class SmoothedHinge(Margin):
    """max over 0 <= u <= 1 of u (1 - m) - gamma u^2 / 2."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, gamma=self.gamma)
        self.curvature = 1 / self.gamma

    def _u(self, z: Array, x: Array) -> Array:
        shortfall = 1 - x * z
        return np.clip(shortfall / self.gamma, 0, 1)

    def value(self, z: Array, x: Array) -> Array:
        u = self._u(z, x)
        shortfall = 1 - x * z
        return u * shortfall - self.gamma * u * u / 2

    def gradient(self, z: Array, x: Array) -> Array:
        return -x * self._u(z, x)

    def hessian(self, z: Array, x: Array) -> Array:
        u = (1 - x * z) / self.gamma
        curved = (u >= 0) & (u <= 1)
        return curved.astype(np.result_type(z, x)) / self.gamma

    def conjugate(self, y: Array, x: Array) -> Array:
        u = -x * y
        legal = (u >= 0) & (u <= 1)
        cost = -u + self.gamma * u * u / 2
        return np.where(legal, cost, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + self.gamma * y

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        m = x * a
        step = (1 - m) / (self.gamma + 1 / w)
        u = np.clip(step, 0, 1)
        return x * (m + u / w)


@dataclass
class SquaredHinge(Margin):
    """max(0, 1 - m)^2."""

    curvature = 2.0

    def value(self, z: Array, x: Array) -> Array:
        return np.square(np.maximum(1 - x * z, 0))

    def gradient(self, z: Array, x: Array) -> Array:
        return -2 * x * np.maximum(1 - x * z, 0)

    def hessian(self, z: Array, x: Array) -> Array:
        m = x * z
        return 2 * (m <= 1).astype(m.dtype)

    def conjugate(self, y: Array, x: Array) -> Array:
        v = -x * y
        cost = -v + v * v / 4
        return np.where(v >= 0, cost, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return x + y / 2

    def dual_domain(self, x: Array) -> tuple[Array, Array]:
        low = np.where(x > 0, -np.inf, 0)
        high = np.where(x > 0, 0, np.inf)
        return low, high

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        m = x * a
        shortfall = np.maximum(1 - m, 0)
        return x * (m + 2 * shortfall / (w + 2))
