"""Ranges of columns, in which tables are fitted."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.fitting.units import ROUNDING_SPREAD


@frozen
class ColumnRanges:
    """The middle and half the width of the range of each column, which is mapped to [-1, 1]."""

    middle: Array
    half: Array

    @staticmethod
    def of(table: Array, scale: bool) -> ColumnRanges:
        """Return the ranges of the observed entries; without `scale`, nothing is moved."""
        width = table.shape[1]
        if not scale:
            return ColumnRanges(np.zeros(width), np.ones(width))
        low = np.fmin.reduce(table, axis=0)
        high = np.fmax.reduce(table, axis=0)
        half = (high - low) / 2
        constant = half <= ROUNDING_SPREAD * np.maximum(np.abs(low), np.abs(high))
        return ColumnRanges(low + half, np.where(constant, 1.0, half))

    def transform(self, table: Array) -> Array:
        """Return a table in units of the ranges."""
        return (table - self.middle) / self.half

    def inverse_transform(self, table: Array) -> Array:
        """Return a table that is in units of the ranges in its own."""
        return table * self.half + self.middle
