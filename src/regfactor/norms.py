"""Vector norms over the last axis, each with its dual, its prox and a point attaining the dual."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from regfactor.core.linalg import positive_or_one, project_l1_ball, root_of_power, soft
from regfactor.core.params import Array, Params

MAX_SECANT_STEPS = 100


class Norm(Params, abc.ABC):
    """A norm of the vectors along the last axis."""

    p: float  # exponent of an lp norm; NaN for other norms

    @abc.abstractmethod
    def value(self, V: Array) -> Array:
        """Return the norm of each vector."""

    @abc.abstractmethod
    def dual(self, G: Array) -> Array:
        """Return max <g, v> over vectors v of norm one."""

    @abc.abstractmethod
    def support(self, G: Array) -> Array:
        """Return a v of norm one with <g, v> = dual(g); zero for g = 0."""

    @abc.abstractmethod
    def prox(self, V: Array, t: float | Array) -> Array:
        """Return argmin_u t norm(u) + |u - v|^2 / 2."""

    def dual_prox(self, V: Array, t: float | Array) -> Array:
        """Return the prox of t times the dual norm: by Moreau, V minus its projection on t ball."""
        return as_norm(_dual_exponent(self.p)).prox(V, t)


@dataclass
class L1(Norm):
    """Sum of absolute values."""

    p = 1.0

    def value(self, V: Array) -> Array:
        return np.abs(V).sum(axis=-1)

    def dual(self, G: Array) -> Array:
        return np.abs(G).max(axis=-1, initial=0)

    def support(self, G: Array) -> Array:
        top = np.abs(G).argmax(axis=-1)[..., None]
        U = np.zeros_like(G)
        signs = np.sign(np.take_along_axis(G, top, axis=-1))
        np.put_along_axis(U, top, signs, axis=-1)
        return U

    def prox(self, V: Array, t: float | Array) -> Array:
        return soft(V, np.asarray(t)[..., None])


@dataclass
class L2(Norm):
    """Euclidean length."""

    p = 2.0

    def value(self, V: Array) -> Array:
        return np.linalg.norm(V, axis=-1)

    def dual(self, G: Array) -> Array:
        return self.value(G)

    def support(self, G: Array) -> Array:
        return _unit(G, self.value(G))

    def prox(self, V: Array, t: float | Array) -> Array:
        size = self.value(V)
        shrink = np.maximum(size - t, 0) / positive_or_one(size)
        return np.asarray(V * shrink[..., None], V.dtype)


@dataclass
class LInf(Norm):
    """Largest absolute value."""

    p = np.inf

    def value(self, V: Array) -> Array:
        return np.abs(V).max(axis=-1, initial=0)

    def dual(self, G: Array) -> Array:
        return np.abs(G).sum(axis=-1)

    def support(self, G: Array) -> Array:
        return np.sign(G)

    def prox(self, V: Array, t: float | Array) -> Array:
        # Moreau: the dual ball is the l1 ball
        return np.asarray(V - project_l1_ball(V, t), V.dtype)


@dataclass
class Lp(Norm):
    """(sum |v|^p)^(1/p) for 1 < p < inf."""

    p: float = 3.0

    def __post_init__(self) -> None:
        if not 1 < self.p < np.inf:
            raise ValueError(
                f"Lp needs 1 < p < inf, got {self.p!r}; use L1() or LInf() for the ends."
            )

    def value(self, V: Array) -> Array:
        return _lp(V, self.p)

    def dual(self, G: Array) -> Array:
        return _lp(G, _dual_exponent(self.p))

    def support(self, G: Array) -> Array:
        size = np.abs(G)
        scaled = _unit(size, size.max(axis=-1, initial=0))
        U = np.sign(G) * np.power(scaled, _dual_exponent(self.p) - 1)
        return _unit(U, self.value(U))

    def prox(self, V: Array, t: float | Array) -> Array:
        """Solve for the norm s of the result: each entry has u + t (u/s)^(p-1) = |v|."""
        t = np.broadcast_to(np.asarray(t, np.float64), V.shape[:-1])
        size = np.abs(V).astype(np.float64)
        rows = np.flatnonzero((self.dual(size) > t) & (t > 0))
        d = V.shape[-1]
        U = np.where((t > 0)[..., None], 0.0, size).reshape(-1, d)
        if len(rows):
            W = size.reshape(-1, d)[rows]
            U[rows] = self._shrink(W, t.reshape(-1)[rows])
        return np.asarray(np.sign(V) * U.reshape(V.shape), V.dtype)

    def _shrink(self, W: Array, t: Array) -> Array:
        """Return the prox of rows W >= 0 whose dual norm exceeds t."""

        def excess(s: Array, row: Array) -> Array:
            i = row.astype(int)
            return self.value(self._entries(W[i], t[i], s)) / s - 1

        top = self.value(W)
        rows = np.arange(len(W), dtype=float)
        find_root: Any = elementwise.find_root  # its stubs know functions of one argument only
        s = find_root(excess, (1e-12 * top, top), args=(rows,)).x
        return self._entries(W, t, s)

    def _entries(self, W: Array, t: Array, s: Array) -> Array:
        """Solve u + t (u/s)^(p-1) = w for u >= 0 in every entry."""
        length = s[..., None]
        threshold = t[..., None]
        if self.p >= 2:
            return length * root_of_power(W, length, threshold, self.p - 1)
        r = 1 / (self.p - 1)
        return length * root_of_power(W, threshold, length, r) ** r


@dataclass
class Blocks(Norm):
    """max(first(v1) / b1, second(v2) / b2) of a vector in two blocks (thesis, theorems 6 and 7)."""

    n_first: int = 1
    first: Norm = field(default_factory=L2)
    second: Norm = field(default_factory=L2)
    bounds: tuple[float, float] = (1.0, 1.0)
    p = np.nan

    def __post_init__(self) -> None:
        if min(self.bounds) <= 0 or self.n_first < 0:
            raise ValueError(
                "Blocks needs n_first >= 0 and positive bounds, "
                f"got {self.n_first!r} and {self.bounds!r}."
            )

    def _split(self, V: Array) -> tuple[Array, Array]:
        return V[..., : self.n_first], V[..., self.n_first :]

    def value(self, V: Array) -> Array:
        a, b = self._split(V)
        first, second = self.bounds
        return np.maximum(self.first.value(a) / first, self.second.value(b) / second)

    def dual(self, G: Array) -> Array:
        a, b = self._split(G)
        first, second = self.bounds
        return first * self.first.dual(a) + second * self.second.dual(b)

    def support(self, G: Array) -> Array:
        a, b = self._split(G)
        first, second = self.bounds
        return np.concatenate(
            [first * self.first.support(a), second * self.second.support(b)],
            axis=-1,
        )

    def prox(self, V: Array, t: float | Array) -> Array:
        """Solve for the threshold theta at which the dual norm of the removed part is t."""
        t = np.broadcast_to(np.asarray(t, np.float64), V.shape[:-1])
        W = V.astype(np.float64)
        size = self.dual(W)
        inside = size <= t
        rounding = 1e-14 * size
        low = np.zeros(t.shape)
        high = self.value(W)
        # the excess is convex and falls from dual(v) - t > 0 to -t: false position (Illinois)
        up = np.maximum(size - t, 0)
        down = -t
        last = np.full(t.shape, -1)
        for _ in range(MAX_SECANT_STEPS):
            theta = low + (high - low) * up / np.where(up > down, up - down, 1)
            excess = self.dual(self.dual_prox(W, theta)) - t
            if np.all(inside | (np.abs(excess) <= rounding) | (high - low <= 1e-15 * high)):
                break
            above = excess > 0
            low = np.where(above, theta, low)
            high = np.where(above, high, theta)
            # an end that stays twice loses half its weight
            weight = np.where(above == last, 0.5, 1.0)
            up = np.where(above, excess, up * weight)
            down = np.where(above, down * weight, excess)
            last = above
        shrinks = (t > 0)[..., None]
        inner = np.where(shrinks, W - self.dual_prox(W, theta), W)
        return np.asarray(np.where(inside[..., None] & shrinks, 0, inner), V.dtype)

    def dual_prox(self, V: Array, t: float | Array) -> Array:
        """Return V minus its projection on t times the unit ball, block by block."""
        a, b = self._split(V)
        first, second = self.bounds
        parts = [self.first.dual_prox(a, t * first), self.second.dual_prox(b, t * second)]
        return np.concatenate(parts, axis=-1)


def _lp(V: Array, p: float) -> Array:
    size = np.abs(V)
    top = size.max(axis=-1, initial=0)
    # scaled so that no power overflows
    unit = _unit(size, top)
    powers = np.power(unit, p).sum(axis=-1)
    return np.asarray(top * np.power(powers, 1 / p), V.dtype)


def _dual_exponent(p: float) -> float:
    """Return q with 1/p + 1/q = 1."""
    if p == 1:
        return np.inf
    if np.isinf(p):
        return 1.0
    return p / (p - 1)


def _unit(V: Array, size: Array) -> Array:
    return np.asarray(V / positive_or_one(size)[..., None], V.dtype)


def as_norm(norm: Any) -> Norm:
    """Return the lp norm of a number p (1, 2, inf or between), or a norm as it is."""
    if isinstance(norm, Norm):
        return norm
    if norm == 1:
        return L1()
    if norm == 2:
        return L2()
    if norm == np.inf:
        return LInf()
    return Lp(float(norm))
