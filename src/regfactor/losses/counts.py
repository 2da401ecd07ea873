"""Counts that vary more than Poisson counts do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, xlogy

from regfactor.core.params import Array, is_option, require_positive
from regfactor.losses.base import Loss
from regfactor.losses.exponentials import bounded_exp, expand_sigmoid
from regfactor.losses.potentials import NON_NEGATIVE


@dataclass
class NegativeBinomial(Loss):
    """(x + theta) log(theta + e^z) - x z for counts x >= 0; predicts the mean e^z.

    The variance of a count of mean m is m + m^2 / theta. In u = z - log theta this is
    (x + theta) log(1 + e^u) - x u + theta log theta, so that all follows from the sigmoid
    p = e^u / (1 + e^u); the Poisson loss, up to a constant, is the limit of large theta.

    Estimators of one table find theta="auto" by profile likelihood; the loss itself needs a number.
    """

    theta: Any = "auto"
    domain = NON_NEGATIVE

    def __post_init__(self) -> None:
        if not is_option(self.theta, "auto"):
            require_positive(self, theta=self.theta)

    @property
    def _log_theta(self) -> float:
        if isinstance(self.theta, str):
            raise ValueError(
                "theta='auto' of NegativeBinomial is found by ConvexSubspace, SubspaceImputer, "
                "FactorModel and ExponentialFamilyPCA; give theta a number here.",
            )
        return float(np.log(self.theta))

    def value(self, z: Array, x: Array) -> Array:
        log_theta = self._log_theta
        u = z - log_theta
        constant = self.theta * log_theta
        return (x + self.theta) * np.logaddexp(0, u) - x * u + constant

    def gradient(self, z: Array, x: Array) -> Array:
        u = z - self._log_theta
        return (x + self.theta) * expit(u) - x

    def hessian(self, z: Array, x: Array) -> Array:
        u = z - self._log_theta
        return (x + self.theta) * expit(u) * expit(-u)

    def expand(
        self,
        z: Array,
        x: Array,
        value: Array,
        gradient: Array,
        hessian: Array,
    ) -> None:
        log_theta = self._log_theta
        u = z - log_theta
        expand_sigmoid(u, value, gradient, hessian)
        total = x + self.theta
        for part in (value, gradient, hessian):
            part *= total
        value -= x * u
        value += self.theta * log_theta
        gradient -= x

    def conjugate(self, y: Array, x: Array) -> Array:
        log_theta = self._log_theta
        # sup over u of (x + y) u - (x + theta) log(1 + e^u), p = (x + y) / (x + theta)
        total = x + self.theta
        slack = 8 * np.finfo(np.result_type(y, x)).eps * (1 + np.abs(x))
        legal = (y >= -x - slack) & (y <= self.theta + slack)
        p = np.clip((x + y) / total, 0, 1)
        entropy = total * (xlogy(p, p) + xlogy(1 - p, 1 - p))
        return np.where(legal, entropy + (y - self.theta) * log_theta, np.inf)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        log_theta = self._log_theta
        p = np.clip((x + y) / (x + self.theta), 0, 1)
        return logit(p) + log_theta

    def dual_domain(self, x: Array) -> tuple[Array, float]:
        return -x, self.theta

    def predict(self, z: Array) -> Array:
        return bounded_exp(z)
