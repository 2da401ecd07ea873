"""Penalties on one factor: functions of its entries, rows or atoms."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from regfactor.core.linalg import soft
from regfactor.core.params import Array, Params, UnsupportedProblem
from regfactor.norms import L2, MAX_BISECTIONS, Norm


class Penalty(Params, abc.ABC):
    """A function of one factor.

    `rowwise` penalties are sums over rows, so that rows can be scored alone; `entrywise` ones are
    sums over entries, so that either side of the factor can be updated alone.
    """

    rowwise: bool = True
    entrywise: bool = False
    # the weights r of a penalty sum_j r_j a_ij^2 / 2, one or one for each column; None for others
    ridge: Any = None

    @abc.abstractmethod
    def rows(self, A: Array) -> Array:
        """Return the penalty of each row; infinite outside a set."""

    def value(self, A: Array) -> float:
        """Return the penalty of the whole factor."""
        return float(self.rows(A).sum(dtype=np.float64))


class Proximable(Penalty):
    """The ability to step: a prox."""

    @abc.abstractmethod
    def prox(self, A: Array, t: float | Array) -> Array:
        """Return argmin_B t penalty(B) + |B - A|^2 / 2; t is a number or one per row."""


class Smooth(Penalty):
    """The ability to be differentiated."""

    @abc.abstractmethod
    def gradient(self, A: Array) -> Array:
        """Return the derivative with respect to every entry."""


@dataclass
class Free(Proximable, Smooth):
    """No penalty."""

    entrywise = True
    ridge = 0.0

    def rows(self, A: Array) -> Array:
        return np.zeros(len(A))

    def prox(self, A: Array, t: float | Array) -> Array:
        return A

    def gradient(self, A: Array) -> Array:
        return np.zeros_like(A)


@dataclass
class SquaredL2(Proximable, Smooth):
    """|A|_F^2 / 2."""

    entrywise = True
    ridge = 1.0

    def rows(self, A: Array) -> Array:
        return np.square(A).sum(axis=1) / 2

    def prox(self, A: Array, t: float | Array) -> Array:
        return np.asarray(A / (1 + _per_row(t)), A.dtype)

    def gradient(self, A: Array) -> Array:
        return A


@dataclass
class Lasso(Proximable):
    """Sum of |a|."""

    entrywise = True

    def rows(self, A: Array) -> Array:
        return np.abs(A).sum(axis=1)

    def prox(self, A: Array, t: float | Array) -> Array:
        return soft(A, _per_row(t))


@dataclass
class PowerPenalty(Proximable):
    """(1/p) sum_j weight_j |a_ij|^p: the cost of a row under a norm of codes, other rows fixed."""

    p: float = 2.0
    weights: Any = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.p < np.inf:
            raise ValueError(f"PowerPenalty needs 1 <= p < inf, got {self.p!r}.")
        if np.any(np.asarray(self.weights) < 0):
            raise ValueError("PowerPenalty needs weights >= 0.")
        self.ridge = self.weights if self.p == 2 else None

    def rows(self, A: Array) -> Array:
        return (self.weights * np.abs(A) ** self.p).sum(axis=1) / self.p

    def prox(self, A: Array, t: float | Array) -> Array:
        cost = _per_row(t) * np.asarray(self.weights)
        if self.p == 1:
            return soft(A, cost)
        if self.p == 2:
            return np.asarray(A / (1 + cost), A.dtype)
        size = np.abs(A)
        low = np.zeros_like(size)
        high = size
        # u + cost u^(p-1) = |a| has one root in [0, |a|]
        for _ in range(MAX_BISECTIONS):
            u = (low + high) / 2
            above = u + cost * u ** (self.p - 1) > size
            low = np.where(above, low, u)
            high = np.where(above, u, high)
        return np.asarray(np.sign(A) * (low + high) / 2, A.dtype)


@dataclass
class AtomNorms(Penalty):
    """Sum over atoms of the norm of a column of codes (thesis, eq. 4.4)."""

    norm: Norm = field(default_factory=L2)
    rowwise = False

    def rows(self, A: Array) -> NoReturn:
        raise UnsupportedProblem(f"{self} couples the rows of a factor.")

    def value(self, A: Array) -> float:
        return float(self.norm.value(A.T).sum())


def _per_row(t: float | Array) -> float | Array:
    if isinstance(t, np.ndarray) and t.ndim == 1:
        return t[:, None]
    return t
