"""Numbers, yes/no columns and categories of a table, and the kind of its numbers."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from regfactor.clusters.transformations import Elementwise, Logarithm, SquareRoot, Untransformed
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.fitting.columns import Codec, Kind, Number, OneHotCodec, as_table
from regfactor.fitting.inputs import as_float_table, validated
from regfactor.fitting.schema import Schema, refuse_prose
from regfactor.losses import Squared

LABEL_KINDS = (Kind.ORDERED, Kind.UNORDERED, Kind.TEXT)
SPARSE_SHARE = 0.5  # of zeros, from which on a wide table of non-negative numbers is sparse
MAX_COLUMNS = 40  # beyond which a table is wide, and normal families see principal components
SHARED_UNITS = 0.1  # effective share of the columns in the total variance, if units are the same


class TableKind(enum.Enum):
    """What the numbers of a table are, from which transformations and families follow."""

    COUNT = "counts"
    POSITIVE = "positive numbers"
    NON_NEGATIVE = "numbers that are not negative"
    SPARSE = "mostly zeros"
    REAL = "real numbers"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value,)  # skops asks for this one, not for __reduce_ex__

    @staticmethod
    def of(X: Array) -> TableKind:
        """Return the kind of the observed entries."""
        x = X[~np.isnan(X)]
        if x.min(initial=0) < 0:
            return TableKind.REAL
        if is_wide(X) and mostly_zeros(X) and shares_units(X):
            return TableKind.SPARSE
        if (x == np.rint(x)).all():
            return TableKind.COUNT
        if (x > 0).all():
            return TableKind.POSITIVE
        return TableKind.NON_NEGATIVE

    def functions(self) -> list[Elementwise]:
        """Return the transformations that such numbers admit."""
        if self is TableKind.POSITIVE:
            return [Untransformed(), Logarithm(shifted=False)]
        if self in (TableKind.COUNT, TableKind.NON_NEGATIVE):
            return [Untransformed(), SquareRoot(), Logarithm(shifted=True)]
        return [Untransformed()]


@frozen
class Encoding:
    """A table of numbers and labels as floats, a column of 0 and 1 for each level of a label.

    Attributes
    ----------
    schema : Schema or None
        None for a table of numbers.
    is_label : array of bool of shape (n_encoded,) or None
    """

    schema: Schema | None
    is_label: Array | None

    @staticmethod
    def of(X: Any) -> Encoding:
        """Return the encoding; frames may hold categories, strings and truth values."""
        if not hasattr(X, "columns"):
            return Encoding(None, None)
        columns = as_table(X).columns()
        if not any(cells.kind in LABEL_KINDS or cells.kind is Kind.BOOLEAN for cells in columns):
            return Encoding(None, None)
        codecs: list[Codec] = []
        marks: list[bool] = []
        for cells in columns:
            if cells.kind in LABEL_KINDS:
                refuse_prose(cells)
                codecs.append(OneHotCodec(cells.name, cells.kind, Squared(), cells.levels))
            else:
                codecs.append(Number(cells.name, cells.kind, Squared(), 0.0, 1.0))
            is_number = cells.kind in (Kind.NUMBER, Kind.EMPTY)
            marks.extend([not is_number] * len(codecs[-1].features))
        schema = Schema(tuple(codecs), Squared(), np.ones(len(marks)))
        return Encoding(schema, np.array(marks))

    def read(self, estimator: Any, X: Any, reset: bool) -> Array:
        """Return the table as floats with NaN where entries are missing."""
        if self.schema is None:
            X = validated(
                estimator,
                X,
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if reset else 1,
                dtype=np.float64,
                reset=reset,
                every_column=True,
            )
            return np.asarray(X)
        return np.asarray(as_float_table(estimator, X, self.schema, reset))


@frozen
class TableLayout:
    """Which columns vary, which of them are numbers, and groups of those of 0 and 1.

    Attributes
    ----------
    numbers, bits : array of int
        Columns; constant ones are in neither.
    groups : array of int
        The group of each column of `bits`.
    kind : TableKind
        Of the numbers.
    """

    numbers: Array
    bits: Array
    groups: Array
    kind: TableKind

    @staticmethod
    def of(X: Array, is_label: Array | None) -> TableLayout:
        """Return the layout; columns of 0 and 1 are bits, but not a few among sparse counts."""
        with np.errstate(invalid="ignore"):
            low = np.nanmin(np.where(np.isnan(X), np.inf, X), axis=0)
            high = np.nanmax(np.where(np.isnan(X), -np.inf, X), axis=0)
        varies = high > low
        binary = np.all(np.isnan(X) | (X == 0) | (X == 1), axis=0)
        if is_label is None:
            is_label = np.zeros(len(binary), dtype=bool)
        others = varies & ~is_label & ~binary
        is_bit = varies & binary
        kind = TableKind.REAL
        if others.any():
            kind = TableKind.of(X[:, others])
        given = varies & ~is_label
        if kind in (TableKind.COUNT, TableKind.SPARSE) and 2 * others.sum() > given.sum():
            # among words, those that no text has twice are counts all the same
            if mostly_zeros(X[:, given]):
                is_bit = varies & is_label
                kind = TableKind.of(X[:, given])
        numbers = np.flatnonzero(varies & ~is_bit)
        bits = np.flatnonzero(is_bit)
        return TableLayout(numbers, bits, one_hot_groups(X[:, bits]), kind)


def is_wide(X: Array) -> bool:
    """Return whether normal families see principal components of the table."""
    return bool(X.shape[1] > MAX_COLUMNS)


def mostly_zeros(X: Array) -> bool:
    """Return whether more than half of the observed entries are zero."""
    return float((X == 0).sum()) > SPARSE_SHARE * float((~np.isnan(X)).sum())


def shares_units(X: Array) -> bool:
    """Return whether columns seem to have the same units, so that their variances compare.

    Of columns in different units a few large ones have nearly all of the total variance: the
    effective number of columns, (sum v)^2 / sum v^2 of variances v, is a small share of all.
    """
    variances = np.nanvar(X, axis=0)
    total = max(float(variances.sum()), SMALLEST_NORMAL)
    effective = 1 / max(float(np.square(variances / total).sum()), SMALLEST_NORMAL)
    return effective > SHARED_UNITS * len(variances)


def one_hot_groups(B: Array) -> Array:
    """Return the group of each column: adjacent columns of which one is 1 in every row."""
    n, d = B.shape
    groups = np.arange(d)
    start = 0
    while start < d:
        total = np.zeros(n)
        stop = start
        width = 1
        while stop < d:
            total = total + B[:, stop]
            stop += 1
            if np.nanmax(total, initial=0) > 1:
                break
            if (np.isnan(total) | (total == 1)).all() and (total == 1).any():
                width = stop - start
                break
        groups[start : start + width] = start
        start += width
    return np.unique(groups, return_inverse=True)[1]
