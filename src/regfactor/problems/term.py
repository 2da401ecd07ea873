"""A term: one loss on the observed entries of some columns, the unit of a problem's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import Loss
from regfactor.losses.base import EVERYTHING

# the value at missing entries: inside the domain of every loss, so that nothing there is infinite
FILLER = 0.5


@dataclass(frozen=True, eq=False)
class Term:
    """A loss on some columns, with data x, weights w and an offset of the predictor.

    Weights None are all one; an entry of weight zero is missing.
    """

    loss: Loss
    columns: Any
    x: Array
    w: Array | None = None
    offset: Array | None = None

    def at(self, Z: Array) -> Array:
        """Return the predictors of this term."""
        z = self.part(Z)
        if self.offset is None:
            return z
        return z + self.offset

    def part(self, entries: Array) -> Array:
        """Return the entries of this term's columns; of a sparse table, those of its stretch."""
        if self.columns is EVERYTHING:
            return entries
        return entries[..., self.columns]

    @property
    def weights(self) -> Array:
        """Return the weight of each entry."""
        if self.w is None:
            return np.ones_like(self.x)
        return np.broadcast_to(self.w, self.x.shape)

    @property
    def target(self) -> Array:
        """x - offset."""
        if self.offset is None:
            return self.x
        return self.x - self.offset

    @property
    def size(self) -> float:
        """Return the median distance of the observed data from the offset; one instead of zero."""
        distances = np.abs(self.target)
        if self.w is not None:
            distances = distances[self.w > 0]
        return float(np.median(distances)) or 1.0

    def shifted(self, by: Array) -> Term:
        """Return this term with something added to its offset."""
        if self.offset is not None:
            by = self.offset + by
        return replace(self, offset=by)

    def losses(self, z: Array) -> Array:
        """Return the weighted loss of each entry at predictors without the offset."""
        if self.offset is not None:
            z = z + self.offset
        return self.weigh(self.loss.value(self.legal(z), self.x))

    def weigh(self, values: Array) -> Array:
        """Return the values times their weights; zero where missing, whatever the value."""
        if self.w is None:
            return values
        return self.w * np.where(self.w > 0, values, 0)

    @property
    def whole_line(self) -> bool:
        """Whether the domain of L* is the whole line."""
        low, high = self.loss.dual_domain(self.x)
        return np.ndim(low) == np.ndim(high) == 0 and bool(np.isinf(low) and np.isinf(high))

    def feasible_scales(self, Y: Array, most: float) -> Array | None:
        """Return the largest s <= most of each entry such that s Y is in the domain of L*.

        None where every s will do.
        """
        if self.whole_line:
            return None
        y = self.in_units(Y)
        low, high = self.loss.dual_domain(self.x)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scales = np.where(most * y < low, low / y, most)
            return np.where(most * y > high, high / y, scales)

    def in_units(self, y: Array) -> Array:
        """Return y per unit of weight, zero at missing entries."""
        if self.w is None:
            return y
        observed = self.w > 0
        return np.where(observed, y / np.where(observed, self.w, 1), 0)

    def legal(self, z: Array) -> Array:
        """Return z with missing entries moved into the link domain."""
        if self.w is None or self.loss.unbounded:
            return z
        domain = self.loss.link_domain
        safe = domain.low + 1 if np.isfinite(domain.low) else domain.high - 1
        return np.where((self.w > 0) | domain.contains(z), z, safe)

    def stretches(self, length: int) -> tuple[Term, ...]:
        """Return the same vector of entries in stretches that share its arrays."""
        places = [slice(start, start + length) for start in range(0, self.x.size, length)]
        return tuple(replace(self.mapped(itemgetter(at)), columns=at) for at in places)

    def astype(self, dtype: Any) -> Term:
        """Return the same term in another precision."""
        return self.mapped(lambda a: a.astype(dtype, copy=False))

    def mapped(self, of: Callable[[Array], Array]) -> Term:
        """Return this term with every array replaced by a function of it."""
        w = None if self.w is None else of(self.w)
        offset = None if self.offset is None else of(self.offset)
        return Term(self.loss, self.columns, of(self.x), w, offset)
