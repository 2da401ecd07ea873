"""One loss on the observed entries of some columns.

The unit of which the data of a problem are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import Loss
from regfactor.losses.base import EVERYTHING

FILLER = (
    0.5  # stands at holes: inside the domain of every loss, so that nothing there is ever infinite
)


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
    def size(self) -> float:
        """Return the median distance of the observed data from the offset; one instead of zero."""
        away = np.abs(self.x if self.offset is None else self.x - self.offset)
        return float(np.median(away if self.w is None else away[self.w > 0])) or 1.0

    def losses(self, z: Array) -> Array:
        """Return the weighted loss of each entry at predictors without the offset."""
        z = z if self.offset is None else z + self.offset
        return self.weigh(self.loss.value(self.legal(z), self.x))

    def weigh(self, values: Array) -> Array:
        """Return the values times their weights; at a hole zero, whatever the value."""
        if self.w is None:
            return values
        return self.w * np.where(self.w > 0, values, 0)

    @property
    def whole_line(self) -> bool:
        """Whether the domain of L* is."""
        return all(
            np.ndim(end) == 0 and bool(np.isinf(end)) for end in self.loss.dual_domain(self.x)
        )

    def feasible_scales(self, Y: Array, most: float) -> Array | None:
        """Return the largest s <= most of each entry such that s Y is in the domain of L*.

        None: all of them are.
        """
        if self.whole_line:
            return None
        y = self.in_units(Y)
        low, high = (np.broadcast_to(end, y.shape) for end in self.loss.dual_domain(self.x))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.where(most * y > high, high / y, np.where(most * y < low, low / y, most))

    def in_units(self, y: Array) -> Array:
        """Return y per unit of weight, zero at holes."""
        if self.w is None:
            return y
        return np.where(self.w > 0, y / np.where(self.w > 0, self.w, 1), 0)

    def legal(self, z: Array) -> Array:
        """Return z with missing entries moved into the link domain."""
        inside = self.loss.link_domain
        if self.w is None or self.loss.unbounded:
            return z
        safe = inside.low + 1 if np.isfinite(inside.low) else inside.high - 1
        return np.where((self.w > 0) | inside.contains(z), z, safe)

    def stretches(self, length: int) -> tuple[Term, ...]:
        """Return the same vector of entries in stretches that share its arrays."""
        places = [slice(start, start + length) for start in range(0, self.x.size, length)]
        return tuple(replace(self.mapped(itemgetter(at)), columns=at) for at in places)

    def astype(self, dtype: Any) -> Term:
        """Return the same term in another precision."""
        return self.mapped(lambda a: a.astype(dtype, copy=False))

    def mapped(self, of: Callable[[Array], Array]) -> Term:
        """Return this term with every array replaced by a function of it."""
        w, offset = (None if a is None else of(a) for a in (self.w, self.offset))
        return Term(self.loss, self.columns, of(self.x), w, offset)
