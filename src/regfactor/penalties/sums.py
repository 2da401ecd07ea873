"""Sums of penalties on one factor, and the prox of those sums that have one in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.linalg import soft
from regfactor.core.params import Array, UnsupportedProblem, require_positive
from regfactor.norms import L2
from regfactor.penalties.factor import (
    L0,
    Free,
    GroupLasso,
    Lasso,
    Penalty,
    PowerPenalty,
    Proximable,
    Smooth,
    per_row,
)
from regfactor.penalties.graphs import GraphLaplacian
from regfactor.penalties.sets import Cardinality, NonNegative, UnitBall


@dataclass
class Sum(Proximable):
    """sum_i weights_i penalty_i: elastic net, sparse groups, graph Laplacian with l1, ...

    Ridges, l1 norms, signs and at most one other penalty have a common prox: they are applied in
    this order, which is exact where the last one only shrinks rows (`GroupLasso`, `UnitBall`) or
    keeps their largest entries (`L0`, `Cardinality`), or where there is neither an l1 norm nor a
    sign. A `GraphLaplacian` is descended by its gradient.
    """

    parts: tuple[Penalty, ...] = ()
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Penalty) for part in self.parts):
            raise ValueError(f"Sum needs penalties, got {self.parts!r}.")
        if self.weights is not None and len(self.weights) != len(self.parts):
            raise ValueError(
                f"Sum has {len(self.parts)} penalties and {len(self.weights)} weights."
            )
        for weight in self._weights:
            require_positive(self, weight=weight)
        self.rowwise = all(part.rowwise for part in self.parts)
        self.separable = all(part.separable for part in self.parts)
        self.entrywise = all(part.entrywise for part in self.parts)
        self.convex = all(part.convex for part in self.parts)
        self.non_negative = any(part.non_negative for part in self.parts)
        if all(part.ridge is not None for part in self.parts):
            self.ridge = self._ridge
        self._last = self._last_part()

    @property
    def _weights(self) -> tuple[float, ...]:
        if self.weights is None:
            return (1.0,) * len(self.parts)
        return self.weights

    @property
    def _terms(self) -> list[tuple[float, Penalty]]:
        return list(zip(self._weights, self.parts, strict=True))

    @property
    def _ridge(self) -> Any:
        return sum(weight * part.ridge for weight, part in self._terms if part.ridge is not None)

    def check(self, shape: tuple[int, int]) -> None:
        for part in self.parts:
            part.check(shape)

    def rows(self, A: Array) -> Array:
        costs = np.zeros(len(A))
        for weight, part in self._terms:
            costs = costs + weight * part.rows(A)
        return costs

    def value(self, A: Array) -> float:
        return sum(weight * part.value(A) for weight, part in self._terms)

    def prox(self, A: Array, t: float | Array) -> Array:
        graphs, _ = self.split()
        if graphs is not None:
            raise UnsupportedProblem(f"{self} has no closed prox; see split().")
        given: Array = np.asarray(per_row(t), A.dtype)
        shrink = 1 + given * np.asarray(self._ridge, A.dtype)
        B: Array = np.asarray(A / shrink, A.dtype)
        # the strength of a row is the same in all columns, but for ridges of columns
        left: Array = np.asarray(given / shrink)
        for weight, part in self._terms:
            if _is_l1(part):
                B = soft(B, weight * left * np.asarray(getattr(part, "weights", 1.0), A.dtype))
        if self.non_negative:
            B = np.maximum(B, 0)
        if self._last is None:
            return B
        weight, part = self._last
        strength: Array = np.asarray(weight * left)
        if isinstance(part, L0):
            return np.where(np.square(B) > 2 * strength, B, B.dtype.type(0))
        if strength.ndim:
            strength = strength[:, 0]
        assert isinstance(part, Proximable)
        return part.prox(B, strength)

    def split(self) -> tuple[Smooth | None, Penalty]:
        graphs = [term for term in self._terms if isinstance(term[1], GraphLaplacian)]
        if not graphs:
            return None, self
        others = [term for term in self._terms if not isinstance(term[1], GraphLaplacian)]
        rest: Penalty = Free()
        if others:
            rest = Sum(tuple(part for _, part in others), tuple(weight for weight, _ in others))
        return SmoothSum(graphs), rest

    def _last_part(self) -> tuple[float, Penalty] | None:
        """Return the one part whose prox comes last; raise if there is no common prox."""
        firsts = []
        lasts = []
        for weight, part in self._terms:
            if isinstance(part, GraphLaplacian) or part.ridge is not None:
                continue
            if _is_l1(part) or isinstance(part, NonNegative):
                firsts.append(part)
            else:
                lasts.append((weight, part))
        if not lasts:
            return None
        weight, last = lasts[0]
        known = isinstance(last, Proximable) and len(lasts) == 1
        keeps_order = isinstance(last, GroupLasso | L0 | Cardinality) or (
            isinstance(last, UnitBall) and isinstance(last.norm, L2)
        )
        # one ridge for a row, since a last part sees the whole row
        even = np.ndim(self._ridge) == 0 or last.entrywise
        if known and even and (keeps_order or not firsts):
            return weight, last
        names = " + ".join(map(str, self.parts))
        raise UnsupportedProblem(
            f"{names} has no common prox: besides ridges, l1 norms, signs and a GraphLaplacian a "
            "sum may hold one of GroupLasso(), UnitBall(L2()), L0() and Cardinality(). The rules "
            "are in regfactor/penalties/sums.py."
        )


class SmoothSum(Smooth):
    """Weighted graph penalties as one, with value, gradient and a bound of the curvature."""

    def __init__(self, terms: list[tuple[float, Any]]) -> None:
        self.terms = terms
        self.rowwise = all(part.rowwise for _, part in terms)
        self.curvature = sum(weight * part.curvature for weight, part in terms)

    def value(self, A: Array) -> float:
        """Return the sum of the penalties of the factor."""
        return sum(weight * part.value(A) for weight, part in self.terms)

    def rows(self, A: Array) -> Array:
        """Return the sum of the penalties of each row."""
        return sum((weight * part.rows(A) for weight, part in self.terms), np.zeros(len(A)))

    def gradient(self, A: Array) -> Array:
        """Return the derivative with respect to every entry."""
        return sum((weight * part.gradient(A) for weight, part in self.terms), np.zeros_like(A))


def _is_l1(part: Penalty) -> bool:
    return isinstance(part, Lasso) or (isinstance(part, PowerPenalty) and part.p == 1)
