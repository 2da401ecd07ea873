"""Entries of which some are known as numbers and others only by limits: below, above, between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regfactor.core.params import Array, choose, is_option, require_positive
from regfactor.losses.base import Loss, float_type
from regfactor.losses.limits import NOISES, EntryLimits
from regfactor.losses.robust import Huber, Squared


@dataclass
class Censored(Loss):
    """(z - x)^2 / 2 where x is known, else -s^2 log P(low <= z + e <= high) for noise e.

    Data are cells (`as_cells`); a plain number is a known one. The noise e has deviation s = scale
    and is normal or logistic, so that the loss is convex. Its unit is that of the squared loss,
    which is s^2 times a negative log density: entries of both kinds are of one likelihood. As s
    tends to zero, that of a limit tends to half the squared distance from the interval.

    Estimators of one table find scale="auto" from the table; the loss itself needs a number.
    """

    loss: Loss = field(default_factory=Squared)
    noise: str = "gaussian"
    scale: Any = "auto"
    of_residual = True
    proximable = False  # its Newton steps for each entry would cost more than they gain

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Squared | Huber):
            raise ValueError(
                f"Censored takes the losses Squared() and Huber(), whose unit is that of limits, "
                f"got {self.loss!r}."
            )
        part = choose(self.noise, NOISES, "noise")
        if not is_option(self.scale, "auto"):
            require_positive(self, scale=self.scale)
        self.curvature = max(self.loss.curvature, part.curvature)

    @property
    def limits(self) -> EntryLimits:
        """The loss of entries that are known by limits."""
        if isinstance(self.scale, str):
            raise ValueError(
                "scale='auto' of Censored is found by ConvexSubspace, SubspaceImputer and "
                "FactorModel; give scale a number here."
            )
        return NOISES[self.noise](float(self.scale))

    def value(self, z: Array, x: Array) -> Array:
        return self._by_kind(z, x, self.loss.value, self.limits.value)

    def gradient(self, z: Array, x: Array) -> Array:
        return self._by_kind(z, x, self.loss.gradient, self.limits.gradient)

    def hessian(self, z: Array, x: Array) -> Array:
        return self._by_kind(z, x, self.loss.hessian, self.limits.hessian)

    def inverse_gradient(self, y: Array, x: Array) -> Array:
        return self._by_kind(y, x, self.loss.inverse_gradient, self.limits.inverse_gradient)

    def conjugate(self, y: Array, x: Array) -> Array:
        low, high = self.dual_domain(x)
        outside = (y < low) | (y > high)
        inside = np.clip(y, low, high).astype(float_type(x), copy=False)
        value = self._by_kind(inside, x, self.loss.conjugate, self.limits.conjugate)
        return np.where(outside, np.inf, value).astype(value.dtype, copy=False)

    def dual_domain(self, x: Array) -> tuple[Array | float, Array | float]:
        ends = self.loss.dual_domain(x)
        if x.dtype.names is None:
            return ends
        known = x["low"] == x["high"]
        bounds = self.limits.dual_domain(x["low"], x["high"])
        return np.where(known, ends[0], bounds[0]), np.where(known, ends[1], bounds[1])

    def feasible(self, y: Array, x: Array) -> Array:
        low, high = self.dual_domain(x)
        return np.asarray(np.clip(y, low, high), np.result_type(y, float_type(x)))

    def predict(self, z: Array) -> Array:
        return self.loss.predict(z)

    def legal(self, x: Array) -> Array:
        if x.dtype.names is None:
            return self.loss.legal(x)
        bounded = np.isfinite(x["low"]) | np.isfinite(x["high"])
        return np.asarray((x["low"] <= x["high"]) & bounded)

    def _by_kind(
        self,
        z: Array,
        x: Array,
        of_numbers: Callable[[Array, Array], Array],
        of_limits: Callable[[Array, Array, Array], Array],
    ) -> Array:
        """Return one function of known entries and another of those within limits."""
        if x.dtype.names is None:
            return of_numbers(z, x)
        z = np.broadcast_to(z, x.shape)
        known = x["low"] == x["high"]
        out = np.array(of_numbers(z, np.where(known, x["low"], 0)), copy=True)
        at = ~known
        if at.any():
            low = x["low"][at].astype(np.float64)
            high = x["high"][at].astype(np.float64)
            out[at] = of_limits(z[at].astype(np.float64), low, high)
        return out
