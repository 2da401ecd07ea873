"""Constraints on one factor: zero inside a set, infinite outside, with its projection as prox."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

import numpy as np

from regfactor.core.linalg import project_simplex
from regfactor.core.params import Array, require_count
from regfactor.norms import L2, Norm
from regfactor.penalties.factor import Proximable

TOLERANCE = 1e-6  # rounding in a projection must not make its own result infeasible


class Constraint(Proximable):
    """The indicator of a set of rows."""

    @abc.abstractmethod
    def violation(self, A: Array) -> Array:
        """Return the distance of each row from the set in some norm; at most zero inside."""

    @abc.abstractmethod
    def project(self, A: Array) -> Array:
        """Return the nearest point of the set."""

    def rows(self, A: Array) -> Array:
        return np.where(self.violation(A) <= TOLERANCE, 0.0, np.inf)

    def prox(self, A: Array, t: float | Array) -> Array:
        return self.project(A)


@dataclass
class NonNegative(Constraint):
    """Every entry >= 0."""

    separable = True
    entrywise = True
    non_negative = True

    def violation(self, A: Array) -> Array:
        return -A.min(axis=1, initial=0)

    def project(self, A: Array) -> Array:
        return np.maximum(A, 0)


@dataclass
class Simplex(Constraint):
    """Rows of shares: non-negative, summing to one."""

    non_negative = True

    def violation(self, A: Array) -> Array:
        below = -A.min(axis=1, initial=0)
        return np.maximum(below, np.abs(A.sum(axis=1) - 1))

    def project(self, A: Array) -> Array:
        return project_simplex(A)


@dataclass
class OneHot(Constraint):
    """Rows with a single one: hard assignment to an atom. Not convex."""

    convex = False
    non_negative = True

    def violation(self, A: Array) -> Array:
        return np.abs(A - self.project(A)).max(axis=1, initial=0)

    def project(self, A: Array) -> Array:
        return np.eye(A.shape[1], dtype=A.dtype)[A.argmax(axis=1)]


@dataclass
class UnitBall(Constraint):
    """Every row (an atom of the components) has norm at most one."""

    norm: Norm = field(default_factory=L2)

    def violation(self, A: Array) -> Array:
        return self.norm.value(A) - 1

    def project(self, A: Array) -> Array:
        return A - self.norm.dual_prox(A, 1.0)


@dataclass
class Cardinality(Constraint):
    """At most `count` entries of each row are not zero. Not convex: fits are local."""

    count: int = 1
    convex = False

    def __post_init__(self) -> None:
        require_count(self, count=self.count)

    def violation(self, A: Array) -> Array:
        return np.count_nonzero(A, axis=1) - self.count

    def project(self, A: Array) -> Array:
        if self.count >= A.shape[1]:
            return A
        largest = np.argpartition(-np.abs(A), self.count - 1, axis=1)[:, : self.count]
        kept = np.zeros_like(A)
        np.put_along_axis(kept, largest, np.take_along_axis(A, largest, axis=1), axis=1)
        return kept
