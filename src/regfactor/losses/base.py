"""The role of a loss: f(z; x) of a predictor z and a datum x, convex in z, summed elsewhere."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array, Params, UnsupportedProblem

EVERYTHING = slice(None)
MAX_NEWTON_STEPS = 100


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers: where data or predictors may lie."""

    low: float = -np.inf
    high: float = np.inf
    low_closed: bool = False
    high_closed: bool = False

    def contains(self, x: Array) -> Array:
        """Return whether each number is inside; infinities and NaN never are."""
        above = x >= self.low if self.low_closed else x > self.low
        below = x <= self.high if self.high_closed else x < self.high
        return np.asarray(above & below & np.isfinite(x))

    def __str__(self) -> str:
        left = "[" if self.low_closed else "("
        right = "]" if self.high_closed else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


def cell_type(dtype: Any) -> np.dtype[Any]:
    """Return the type of a cell: its limits, which are equal where its number is known."""
    return np.dtype([("low", dtype), ("high", dtype)])


def as_cells(low: Array, high: Array) -> Array:
    """Return cells between limits, minus and plus infinity where they are open."""
    cells = np.empty(low.shape, cell_type(low.dtype))
    cells["low"] = low
    cells["high"] = high
    return cells


def float_type(x: Array) -> np.dtype[Any]:
    """Return the precision of data, numbers or cells."""
    if x.dtype.names is None:
        return x.dtype
    return x["low"].dtype


def in_precision(x: Array, dtype: Any) -> Array:
    """Return data, numbers or cells, in another precision."""
    if x.dtype.names is not None:
        dtype = cell_type(dtype)
    return x.astype(dtype, copy=False)


def numbers_of(x: Array) -> Array:
    """Return data as numbers: of a cell known by limits NaN."""
    if x.dtype.names is None:
        return x
    return np.where(x["low"] == x["high"], x["low"], np.nan)


class Loss(Params, abc.ABC):
    """A convex loss f(z; x), elementwise on arrays of any shape.

    A loss holds parameters and no data. A concrete loss states `value`, `gradient`, `hessian`,
    `conjugate` (in the first argument, infinite outside its domain) and `inverse_gradient`; the
    laws in the tests hold for all of them. Rowwise losses couple the last axis: their value is
    spread over the row so that its sum is the row's loss.
    """

    domain: Interval = Interval()
    link_domain: Interval = Interval()
    # whether the predictor may be any real number: follows from the link domain
    unbounded: bool = True
    smooth: bool = True
    rowwise: bool = False
    proximable: bool = True
    # a function of z - x: offsets of the data do not matter to its scale
    of_residual: bool = False
    curvature: float = np.inf

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.unbounded = bool(np.isinf(cls.link_domain.low) and np.isinf(cls.link_domain.high))

    @abc.abstractmethod
    def value(self, z: Array, x: Array) -> Array:
        """f(z; x)."""

    @abc.abstractmethod
    def gradient(self, z: Array, x: Array) -> Array:
        """df/dz, or a subgradient."""

    @abc.abstractmethod
    def hessian(self, z: Array, x: Array) -> Array:
        """d2f/dz2 (a rowwise loss: its diagonal; infinite at a kink)."""

    def expand(
        self,
        z: Array,
        x: Array,
        value: Array,
        gradient: Array,
        hessian: Array,
    ) -> None:
        """Write value, gradient and hessian to the last three; overridden where they share work."""
        value[...] = self.value(z, x)
        gradient[...] = self.gradient(z, x)
        hessian[...] = self.hessian(z, x)

    @abc.abstractmethod
    def conjugate(self, y: Array, x: Array) -> Array:
        """Return sup_z y z - f(z; x), infinite where it has no finite value."""

    @abc.abstractmethod
    def inverse_gradient(self, y: Array, x: Array) -> Array:
        """Return the z with gradient y: where the supremum in the conjugate is attained."""

    @abc.abstractmethod
    def dual_domain(self, x: Array) -> tuple[Array | float, Array | float]:
        """Return the ends of the domain of the conjugate: the smallest and largest derivative."""

    def feasible(self, y: Array, x: Array) -> Array:
        """Return y moved into the domain of the conjugate."""
        low, high = self.dual_domain(x)
        return np.asarray(np.clip(y, low, high), np.result_type(y, x))

    def prox(self, a: Array, w: Array | float, x: Array) -> Array:
        """Return argmin_z f(z; x) + (w/2) (z - a)^2 by a safeguarded Newton iteration."""
        if not self.proximable:
            raise UnsupportedProblem(f"{self} has no elementwise prox; use the solver Fista.")
        return prox_by_newton(self, a, w, x)

    def smoothed(self, sigma: float) -> Loss:
        """Return a smooth loss that approaches this one as sigma falls to zero."""
        return self

    def predict(self, z: Array) -> Array:
        """Return the expected datum of a predictor z, in the units of the data."""
        return z

    def legal(self, x: Array) -> Array:
        """Return a mask of the data that this loss accepts."""
        return self.domain.contains(x)

    @property
    def domain_text(self) -> str:
        """The legal data, as shown in error messages."""
        return str(self.domain)

    def parts(self, d: int) -> list[tuple[Any, Loss]]:
        """Return pairs (columns, loss) that cover d columns."""
        return [(EVERYTHING, self)]


def prox_by_newton(loss: Loss, a: Array, w: Array | float, x: Array) -> Array:
    """Solve f'(z) + w (z - a) = 0 for every entry.

    The root lies between a and a - f'(a)/w. A Newton step is taken only if it stays inside the
    bracket and the residual has halved since the last one; otherwise the bracket is bisected.
    (Plain bracketed Newton cycles between the ends for the logistic loss with small w and large
    |a|.)
    """
    dtype = np.result_type(a, x)
    w = np.maximum(np.asarray(w, dtype), np.finfo(dtype).tiny)
    ends = _inner_ends(loss.link_domain, dtype)
    a = np.clip(a, *ends)
    gradient = loss.gradient(a, x)
    other = np.clip(a - gradient / w, *ends)
    low = np.minimum(a, other)
    high = np.maximum(a, other)
    z = a
    residual = gradient
    last = np.full_like(a, np.inf)
    eps = 4 * np.finfo(dtype).eps
    noise = eps * (2 * np.abs(x) + w * np.abs(a))
    for _ in range(MAX_NEWTON_STEPS):
        low = np.where(residual < 0, z, low)
        high = np.where(residual > 0, z, high)
        size = np.abs(residual)
        newton = z - residual / (loss.hessian(z, x) + w)
        trusted = (newton > low) & (newton < high) & (size <= last / 2)
        moved = np.where(trusted, newton, (low + high) / 2)
        last = np.where(trusted, size, last)
        # the sign of a residual of the size of rounding means nothing: the entry stays in place
        rounding = noise + eps * (np.abs(gradient) + w * np.abs(z))
        done = (size <= rounding) | (high - low <= eps * np.abs(z))
        z = np.where(done, z, moved).astype(dtype, copy=False)
        if done.all():
            break
        gradient = loss.gradient(z, x)
        residual = gradient + w * (z - a)
    return z


def _inner_ends(interval: Interval, dtype: Any) -> tuple[float, float]:
    """Return finite ends of an interval, moved inwards where they do not belong to it."""
    tiny = float(np.finfo(dtype).tiny)
    huge = float(np.finfo(dtype).max) ** 0.25
    low = max(interval.low, -huge)
    high = min(interval.high, huge)
    if low == interval.low and not interval.low_closed:
        low += tiny
    if high == interval.high and not interval.high_closed:
        high -= tiny
    return low, high
