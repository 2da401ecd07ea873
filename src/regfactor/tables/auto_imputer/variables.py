"""Variables of a table as standardized columns: numbers, two values, categories as blocks."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.fitting.columns import Cells, Codec, Kind, LineCodec, Number, OneHotCodec, as_table
from regfactor.fitting.gross_errors import GrossErrors
from regfactor.fitting.schema import LABELS, Schema, refuse_prose
from regfactor.losses import Squared

CONSTANT_SPREAD = 1e-12  # of a column, relative to its size, up to which it is constant


class VariableKind(enum.Enum):
    """Kinds of variables, by what their standardized columns mean."""

    NUMBER = "number"
    BINARY = "two values"
    CATEGORY = "category"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value,)  # skops asks for this one, not for __reduce_ex__


@frozen
class Variable:
    """A variable and its standardized columns; categories have one for each level."""

    kind: VariableKind
    columns: Array

    @property
    def is_number(self) -> bool:
        """Whether it is a number of more than two values."""
        return self.kind is VariableKind.NUMBER


def label_schema(X: Any) -> Schema | None:
    """Return how a frame with categories, strings or truth values becomes numbers.

    None for tables of numbers. A category of two levels is one column of 0 and 1, one of more
    levels a block of such columns.
    """
    if not hasattr(X, "columns"):
        return None
    columns = as_table(X).columns()
    if all(cells.kind is Kind.NUMBER for cells in columns):
        return None
    codecs = tuple(_codec(cells) for cells in columns)
    width = sum(len(codec.features) for codec in codecs)
    return Schema(codecs, Squared(), np.ones(width))


def _codec(cells: Cells) -> Codec:
    if cells.kind not in LABELS:
        return Number(cells.name, cells.kind, Squared())
    refuse_prose(cells)
    seen = np.unique(cells.values[~cells.missing]).astype(int)
    levels = tuple(cells.levels[j] for j in seen)
    if len(levels) > 2:
        return OneHotCodec(cells.name, cells.kind, Squared(), levels)
    return LineCodec(cells.name, cells.kind, Squared(), levels or cells.levels[:1])


def one_hot_blocks(E: Array) -> list[Array]:
    """Return the columns of each variable of a table of numbers.

    Adjacent columns of 0 and 1 that are missing together, and of which one is 1 in every row that
    is not, are the levels of one category.
    """
    n_columns = E.shape[1]
    missing = np.isnan(E)
    binary = np.all(missing | (E == 0) | (E == 1), axis=0)
    same = np.zeros(n_columns, dtype=bool)
    same[1:] = np.all(missing[:, 1:] == missing[:, :-1], axis=0)
    blocks = []
    start = 0
    while start < n_columns:
        stop = start + 1
        width = 1
        total = E[:, start]
        while stop < n_columns and binary[start] and binary[stop] and same[stop]:
            total = total + E[:, stop]
            stop += 1
            if np.nanmax(total, initial=0) > 1:
                break
            if np.all(missing[:, start] | (total == 1)):
                width = stop - start
                break
        blocks.append(np.arange(start, start + width))
        start += width
    return blocks


@frozen
class Standardization:
    """Encoded columns that vary as (x - center) / scale, and what fills the others.

    A block of levels has one scale, the root of the sum of its variances, so that rare levels
    do not count more than frequent ones.

    Attributes
    ----------
    kept : array of int
        Encoded columns that vary.
    center, scale : array of shape (n_kept,)
    constants : array of shape (n_encoded,)
        The constant of each column; NaN where nothing was observed.
    counts : array of shape (n_encoded,)
        Weight of the observed entries of each column.
    low, high : array of shape (n_kept,)
        Range of the observed entries, standardized.
    gross : GrossErrors
        Limits of the encoded columns, beyond which an entry is taken for a gross error.
    variances : array of shape (n_kept,)
        Of the standardized columns.
    variables : list of Variable
        With columns among those kept.
    owners : array of shape (n_kept,)
        The variable of each kept column.
    """

    kept: Array
    center: Array
    scale: Array
    constants: Array
    counts: Array
    low: Array
    high: Array
    gross: GrossErrors
    variances: Array
    variables: list[Variable]
    owners: Array

    @staticmethod
    def of(E: Array, weights: Array, blocks: list[Array]) -> Standardization:
        """Return the standardization of an encoded table."""
        gross = GrossErrors.fit(E)
        E = np.where(gross.find(E), np.nan, E)
        observed = ~np.isnan(E)
        totals = weights @ observed
        known = np.maximum(totals, np.finfo(float).tiny)
        filled = np.where(observed, E, 0.0)
        center = weights @ filled / known
        deviation = np.where(observed, E - center, 0.0)
        variance = weights @ np.square(deviation) / known
        varies = np.sqrt(variance) > CONSTANT_SPREAD * np.maximum(
            np.abs(center), np.abs(filled).max(axis=0, initial=0)
        )
        varies &= totals > 0
        variables = []
        owners = []
        scale = np.sqrt(variance)
        n_kept = 0
        for block in blocks:
            inner = block[varies[block]]
            if not len(inner):
                continue
            kind = _kind_of(E[:, inner])
            scale[inner] = np.sqrt(variance[inner].sum())
            variables.append(Variable(kind, np.arange(n_kept, n_kept + len(inner))))
            owners.extend([len(variables) - 1] * len(inner))
            n_kept += len(inner)
        kept = np.flatnonzero(varies)
        Z = (E[:, kept] - center[kept]) / scale[kept]
        return Standardization(
            kept=kept,
            center=center[kept],
            scale=scale[kept],
            constants=np.where(totals > 0, center, np.nan),
            counts=totals,
            low=np.fmin.reduce(Z, axis=0, initial=np.inf),
            high=np.fmax.reduce(Z, axis=0, initial=-np.inf),
            gross=gross,
            variances=variance[kept] / np.square(scale[kept]),
            variables=variables,
            owners=np.array(owners, dtype=int),
        )

    def apply(self, E: Array) -> Array:
        """Return encoded rows as standardized columns.

        Gross errors are taken for missing. Entries further than one observed range outside of that
        range count as if they were there: linear models would carry them on without limit.
        """
        E = np.where(self.gross.find(E), np.nan, E)
        Z = (E[:, self.kept] - self.center) / self.scale
        reach = self.high - self.low
        return np.clip(Z, self.low - reach, self.high + reach)

    def invert(self, Z: Array) -> Array:
        """Return standardized columns as encoded ones, the others by their constants."""
        out = np.tile(self.constants, (len(Z), 1))
        out[:, self.kept] = Z * self.scale + self.center
        return out


def _kind_of(block: Array) -> VariableKind:
    if block.shape[1] > 1:
        return VariableKind.CATEGORY
    x = block[~np.isnan(block)]
    if np.all((x == x.min()) | (x == x.max())):
        return VariableKind.BINARY
    return VariableKind.NUMBER
