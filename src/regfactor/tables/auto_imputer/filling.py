"""Encoded predictions as cells of the user's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.fitting.columns import Codec, Kind, Number, as_table
from regfactor.fitting.inputs import as_float_table, filled
from regfactor.fitting.schema import Schema
from regfactor.tables.auto_imputer.variables import label_schema, one_hot_blocks


@frozen
class TableReader:
    """How a table becomes numbers, and how filled numbers become a table again.

    Attributes
    ----------
    schema : Schema or None
        None for tables of numbers.
    blocks : list of array of int
        Encoded columns of each variable.
    names : list
        The user's name of each variable, or the positions of its columns.
    whole : array of bool of shape (n_encoded,)
        Columns whose observed entries are all whole numbers.
    """

    schema: Schema | None
    blocks: list[Array]
    names: list[Any]
    whole: Array

    @staticmethod
    def of(estimator: Any, X: Any) -> tuple[TableReader, Array]:
        """Return the reader of a table, and the table as numbers."""
        schema = label_schema(X)
        E = _read(estimator, X, schema, reset=True)
        if schema is None:
            blocks = one_hot_blocks(E)
            labels = list(getattr(estimator, "feature_names_in_", range(E.shape[1])))
            names = []
            for block in blocks:
                own = [labels[j] for j in block]
                names.append(own[0] if len(own) == 1 else tuple(own))
        else:
            blocks = [np.arange(s.start, s.stop) for s in _spans(schema)]
            names = [codec.name for codec in schema.codecs]
        return TableReader(schema, blocks, names, _are_whole(E)), E

    def read(self, estimator: Any, X: Any) -> Array:
        """Return new rows as numbers."""
        return _read(estimator, X, self.schema, reset=False)

    def levels(self, v: int) -> list[Any]:
        """Return the levels of a variable that is not a number: of one column, its two values."""
        if self.schema is not None:
            codec = self.schema.codecs[v]
            return list(getattr(codec, "levels", (False, True)))
        name = self.names[v]
        return list(name) if isinstance(name, tuple) else []

    def is_ordered(self, v: int) -> bool:
        """Return whether the levels of a variable have an order."""
        if self.schema is None:
            return True
        return self.schema.codecs[v].kind in (Kind.ORDERED, Kind.BOOLEAN, Kind.NUMBER)

    def write(self, X: Any, E: Array, predicted: Array) -> Any:
        """Return the user's table with its missing entries filled by encoded predictions."""
        dtype: Any = np.float64
        if getattr(X, "dtype", None) == np.float32:
            dtype = np.float32
        if self.schema is None and not hasattr(X, "columns"):
            if is_sparse(X) and not np.isnan(E).any():
                return E.astype(dtype)
            return filled(X, _as_given(X, E, dtype), predicted.astype(dtype))
        fills = {}
        for j, codec, at in self._columns(E.shape[1]):
            cells = as_table(X).cells(j)
            own = predicted[cells.missing][:, at]
            if len(own) and not np.isnan(own).any():
                if codec is None:
                    fills[j] = own[:, 0]
                else:
                    fills[j] = codec.decode(own)
        return as_table(X).filled(fills)

    def write_limits(
        self,
        X: Any,
        E: Array,
        limits: Array,
        sets: dict[int, Array],
    ) -> Any:
        """Return the user's table with missing numbers set to limits, labels where sets are single.

        Parameters
        ----------
        X : table
        E : array
            The same, encoded.
        limits : array of shape (n_rows, n_encoded)
            One side of the intervals; of labels in an order, the encoded outermost level.
        sets : dict of int to array of bool of shape (n_rows, n_levels)
            Prediction sets of variables whose levels have no order.
        """
        if self.schema is None:
            return self.write(X, E, limits)
        fills = {}
        for j, codec, at in self._columns(E.shape[1]):
            cells = as_table(X).cells(j)
            own = limits[cells.missing][:, at]
            if not len(own) or np.isnan(own).any():
                continue
            assert codec is not None
            fills[j] = codec.decode(own)
            if j in sets:
                several = sets[j][cells.missing].sum(axis=1) > 1
                labels = fills[j].astype(object)
                labels[several] = None
                fills[j] = labels
        return as_table(X).filled(fills)

    def _columns(self, width: int) -> Iterator[tuple[int, Codec | None, slice]]:
        if self.schema is None:
            for j in range(width):
                yield j, None, slice(j, j + 1)
            return
        for j, (codec, at) in enumerate(zip(self.schema.codecs, _spans(self.schema), strict=True)):
            yield j, codec, at


def _read(estimator: Any, X: Any, schema: Schema | None, reset: bool) -> Array:
    """Return a table as float64 with NaN where entries are missing."""
    E = as_float_table(estimator, X, schema, reset)
    if is_sparse(E):
        rows, columns = E.tocoo().coords
        dense = np.full(E.shape, np.nan)
        dense[rows, columns] = E.data
        return dense
    return np.asarray(E, dtype=np.float64)


def _as_given(X: Any, E: Array, dtype: Any) -> Array:
    """Return the table in the precision in which it was given."""
    return E.astype(dtype)


def _spans(schema: Schema) -> list[slice]:
    ends = np.cumsum([len(codec.features) for codec in schema.codecs]).tolist()
    widths = [len(codec.features) for codec in schema.codecs]
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


def _are_whole(E: Array) -> Array:
    missing = np.isnan(E)
    return np.all(missing | (E == np.rint(E)), axis=0) & ~missing.all(axis=0)


def is_plain_number(reader: TableReader, v: int) -> bool:
    """Return whether a variable is a column of numbers in the user's table."""
    if reader.schema is None:
        return len(reader.blocks[v]) == 1
    codec = reader.schema.codecs[v]
    return isinstance(codec, Number) and codec.kind is Kind.NUMBER
