"""Penalties on one factor: functions of its entries, rows or atoms."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from regfactor.core.linalg import root_of_power, soft
from regfactor.core.params import Array, Params, UnsupportedProblem
from regfactor.norms import L2, Norm


class Penalty(Params, abc.ABC):
    """A function of one factor.

    `rowwise` penalties are sums over rows, so that rows can be scored alone; `separable` ones are
    sums over entries, so that single entries can be held; `entrywise` ones are sums of the same
    function of all entries, so that either side of the factor can be updated alone.
    """

    rowwise: bool = True
    separable: bool = False
    entrywise: bool = False
    convex: bool = True
    non_negative: bool = False  # whether it is infinite for entries below zero
    # the weights r of a penalty sum_j r_j a_ij^2 / 2, one or one for each column; None for others
    ridge: Any = None

    @abc.abstractmethod
    def rows(self, A: Array) -> Array:
        """Return the penalty of each row; infinite outside a set."""

    def value(self, A: Array) -> float:
        """Return the penalty of the whole factor."""
        return float(self.rows(A).sum(dtype=np.float64))

    def check(self, shape: tuple[int, int]) -> None:  # noqa: B027  # most fit every factor
        """Raise if the penalty does not fit a factor of this shape."""

    def split(self) -> tuple[Smooth | None, Penalty]:
        """Return a part to descend by its gradient, and the rest, to step by its prox."""
        return None, self


class Proximable(Penalty):
    """The ability to step: a prox."""

    @abc.abstractmethod
    def prox(self, A: Array, t: float | Array) -> Array:
        """Return argmin_B t penalty(B) + |B - A|^2 / 2; t is a number or one per row."""


class Smooth(Penalty):
    """The ability to be differentiated, with a bound of the second derivative."""

    curvature: float = 0.0

    @abc.abstractmethod
    def gradient(self, A: Array) -> Array:
        """Return the derivative with respect to every entry."""


@dataclass
class Free(Proximable, Smooth):
    """No penalty."""

    separable = True
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

    separable = True
    entrywise = True
    ridge = 1.0
    curvature = 1.0

    def rows(self, A: Array) -> Array:
        return np.square(A).sum(axis=1) / 2

    def prox(self, A: Array, t: float | Array) -> Array:
        return np.asarray(A / (1 + per_row(t)), A.dtype)

    def gradient(self, A: Array) -> Array:
        return A


@dataclass
class Lasso(Proximable):
    """Sum of |a|."""

    separable = True
    entrywise = True

    def rows(self, A: Array) -> Array:
        return np.abs(A).sum(axis=1)

    def prox(self, A: Array, t: float | Array) -> Array:
        return soft(A, per_row(t))


@dataclass
class GroupLasso(Proximable):
    """Sum over rows and groups of columns of the Euclidean length; one group of all by default."""

    groups: Any = None

    def __post_init__(self) -> None:
        if self.groups is None:
            return
        places = np.concatenate([np.ravel(group) for group in self.groups])
        if len(np.unique(places)) < len(places):
            raise ValueError("GroupLasso needs groups of different columns.")

    def check(self, shape: tuple[int, int]) -> None:
        if self.groups is None:
            return
        last = max(int(np.max(group)) for group in self.groups)
        if last >= shape[1]:
            raise ValueError(f"GroupLasso has a column {last}, and the factor {shape[1]} columns.")

    def rows(self, A: Array) -> Array:
        costs = np.zeros(len(A))
        for group in self._places():
            costs += np.linalg.norm(A[:, group], axis=1)
        return costs

    def prox(self, A: Array, t: float | Array) -> Array:
        B = np.array(A)
        for group in self._places():
            B[:, group] = L2().prox(A[:, group], t)
        return B

    def _places(self) -> list[Any]:
        if self.groups is None:
            return [slice(None)]
        return [np.ravel(group) for group in self.groups]


@dataclass
class L0(Proximable):
    """Number of entries that are not zero. Not convex: fits are local."""

    separable = True
    entrywise = True
    convex = False

    def rows(self, A: Array) -> Array:
        return np.count_nonzero(A, axis=1).astype(np.float64)

    def prox(self, A: Array, t: float | Array) -> Array:
        # a nonzero entry costs t, a zero one a^2/2
        return np.where(np.square(A) > 2 * per_row(t), A, A.dtype.type(0))


@dataclass
class PowerPenalty(Proximable):
    """(1/p) sum_j weight_j |a_ij|^p: the cost of a row under a norm of codes, other rows fixed."""

    p: float = 2.0
    weights: Any = 1.0
    separable = True

    def __post_init__(self) -> None:
        if not 1 <= self.p < np.inf:
            raise ValueError(f"PowerPenalty needs 1 <= p < inf, got {self.p!r}.")
        if np.any(np.asarray(self.weights) < 0):
            raise ValueError("PowerPenalty needs weights >= 0.")
        self.ridge = self.weights if self.p == 2 else None

    def rows(self, A: Array) -> Array:
        return (self.weights * np.abs(A) ** self.p).sum(axis=1) / self.p

    def prox(self, A: Array, t: float | Array) -> Array:
        cost = per_row(t) * np.asarray(self.weights)
        if self.p == 1:
            return soft(A, cost)
        if self.p == 2:
            return np.asarray(A / (1 + cost), A.dtype)
        size = np.abs(A)
        # u + cost u^(p-1) = |a|
        if self.p > 2:
            u = root_of_power(size, 1.0, cost, self.p - 1)
        else:
            u = root_of_power(size, cost, 1.0, 1 / (self.p - 1)) ** (1 / (self.p - 1))
        return np.asarray(np.sign(A) * u, A.dtype)


@dataclass
class AtomNorms(Penalty):
    """Sum over atoms of the norm of a column of codes (thesis, eq. 4.4)."""

    norm: Norm = field(default_factory=L2)
    rowwise = False

    def rows(self, A: Array) -> NoReturn:
        raise UnsupportedProblem(f"{self} couples the rows of a factor.")

    def value(self, A: Array) -> float:
        return float(self.norm.value(A.T).sum())


def per_row(t: float | Array) -> float | Array:
    """Return a strength for each row as a column."""
    if isinstance(t, np.ndarray) and t.ndim == 1:
        return t[:, None]
    return t
