"""The columns of a table of any type: their kinds, their encoding as numbers and the way back."""

from __future__ import annotations

import abc
import enum
import numbers
import reprlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen, is_number, warn
from regfactor.fitting.containers import refuse_arrow, refuse_no_table
from regfactor.losses import Loss
from regfactor.losses.margin import Margin

MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})  # of values that mark a missing entry


class Kind(enum.Enum):
    """Kinds of columns; strings are labels in no order, EMPTY has neither a type nor a value."""

    NUMBER = "numeric"
    BOOLEAN = "boolean"
    ORDERED = "ordered"
    UNORDERED = "unordered"
    TEXT = "text"
    EMPTY = "empty"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value,)  # skops asks for this one, not for __reduce_ex__


@frozen
class Cells:
    """One column as numbers, NaN where missing; of levels, the numbers are their positions."""

    name: Any
    kind: Kind
    values: Array
    levels: tuple[Any, ...] = ()

    @property
    def missing(self) -> Array:
        """Mask of the cells that are missing."""
        return np.isnan(self.values)


class ColumnTable(abc.ABC):
    """A table of named columns, read as numbers and written back with missing entries filled."""

    names: list[Any]

    @abc.abstractmethod
    def cells(self, j: int) -> Cells:
        """Return column j; raise for a type that no loss can take."""

    def columns(self) -> list[Cells]:
        """Return all columns."""
        return [self.cells(j) for j in range(len(self.names))]

    @abc.abstractmethod
    def filled(self, fills: Mapping[int, Array]) -> Any:
        """Return a table of the same type with the missing entries of column j set to fills[j]."""


def as_table(X: Any) -> ColumnTable:
    """Return a pandas or polars frame, or anything that numpy takes, as a table."""
    if not hasattr(X, "columns"):
        return ArrayTable(X)
    refuse_no_table(X)
    refuse_arrow(X)
    if hasattr(X, "iloc"):
        return PandasTable(X)
    return PolarsTable(X)


def unmasked(X: Any) -> Any:
    """Return what is masked in an array of numpy as NaN; anything else as it is."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if np.any(X.mask):
        kind = X.dtype if X.dtype.kind in "fO" else float
        return np.ma.filled(X.astype(kind), np.nan)
    return X.data


class ArrayTable(ColumnTable):
    """An array; columns of objects are looked at one by one."""

    def __init__(self, X: Any) -> None:
        refuse_no_table(X)
        array = np.asarray(unmasked(X))
        if array.dtype.kind in "US" and not hasattr(X, "dtype"):
            # numpy turned numbers next to strings into strings
            array = np.asarray(X, dtype=object)
        if array.ndim != 2:
            raise ValueError(
                f"Expected a table with rows and columns, got {array.ndim} dimensions. Reshape "
                "your data: X.reshape(1, -1) is one row."
            )
        if array.dtype.kind == "c":
            raise ValueError(
                "Complex data not supported: column 0 and all others hold complex numbers. Use "
                "real and imaginary parts as two columns."
            )
        self.array = array
        self.names = list(range(array.shape[1]))

    def cells(self, j: int) -> Cells:
        column = self.array[:, j]
        letter = self.array.dtype.kind
        if letter in "biuf":
            return _of_numbers(j, column, letter == "b")
        if letter not in "OUS":
            raise _refusal(j, self.array.dtype, letter)
        return _of_objects(j, column.astype(object))

    def filled(self, fills: Mapping[int, Array]) -> Array:
        out = self.array.copy()
        for j, values in fills.items():
            missing = self.cells(j).missing
            out[missing, j] = _as_stored(values, out.dtype, out[~missing, j])
        return out


class PandasTable(ColumnTable):
    """A pandas frame: a categorical column is ordered if its type is."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names = list(frame.columns)

    def cells(self, j: int) -> Cells:
        name = self.names[j]
        series = _dense(self.frame.iloc[:, j])
        letter = getattr(series.dtype, "kind", "O")
        if _is_categorical(series.dtype):
            kind = Kind.ORDERED if series.dtype.ordered else Kind.UNORDERED
            codes = series.cat.codes.to_numpy().astype(float)
            codes[codes < 0] = np.nan
            return Cells(name, kind, codes, tuple(series.dtype.categories))
        if letter == "f":
            values = series.to_numpy(dtype=_numpy_type(series.dtype), na_value=np.nan)
            return _of_numbers(name, values)
        if letter in "biu":
            return _of_numbers(name, series.to_numpy(dtype=float, na_value=np.nan), letter == "b")
        if letter != "O":
            raise _refusal(name, series.dtype, letter)
        return _of_objects(name, series.to_numpy(dtype=object))

    def filled(self, fills: Mapping[int, Array]) -> Any:
        out = self.frame.copy()
        for j, values in fills.items():
            series = _dense(self.frame.iloc[:, j]).copy()
            missing = series.isna().to_numpy()
            if _is_categorical(series.dtype):
                known = set(series.cat.categories)
                new = [v for v in dict.fromkeys(values) if v not in known and not is_missing(v)]
                series = series.cat.add_categories(new)
            else:
                observed = series.to_numpy(dtype=object)[~missing]
                values = _as_stored(values, _numpy_type(series.dtype), observed)
            series.iloc[np.flatnonzero(missing)] = values
            out.isetitem(j, series)
        return out


class PolarsTable(ColumnTable):
    """A polars frame: an Enum has a fixed order and is ordered, a Categorical is unordered."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names = list(frame.columns)

    def cells(self, j: int) -> Cells:
        name = self.names[j]
        series = self.frame[self.names[j]]
        match str(series.dtype).partition("(")[0]:
            case "Float32":
                return _of_numbers(name, series.to_numpy())
            case "Boolean":
                return _of_numbers(name, series.cast(float).to_numpy(), True)
            case "Enum":
                levels = tuple(series.dtype.categories.to_list())
                codes = series.to_physical().cast(float).to_numpy()
                return Cells(name, Kind.ORDERED, codes, levels)
            case "String" | "Null" | "Categorical" as kind:
                cells = _of_objects(name, np.array(series.cast(str).to_list(), dtype=object))
                if kind == "Categorical" and cells.kind is Kind.TEXT:
                    return Cells(name, Kind.UNORDERED, cells.values, cells.levels)
                return cells
        if not series.dtype.is_numeric():
            raise _refusal(name, series.dtype, "M" if series.dtype.is_temporal() else "O")
        return _of_numbers(name, series.cast(float).to_numpy())

    def filled(self, fills: Mapping[int, Array]) -> Any:
        changed = []
        for j, values in fills.items():
            series = self.frame[self.names[j]]
            missing = self.cells(j).missing
            whole = np.full(len(missing), None, object)
            whole[missing] = _as_stored(values, series.clear().to_numpy().dtype, whole[:0]).tolist()
            new = type(series)(series.name, whole.tolist())
            if str(series.dtype) != "Null":
                new = series.zip_with(type(series)(~missing), new.cast(series.dtype))
            changed.append(new)
        return self.frame.with_columns(changed)


@frozen
class Codec(abc.ABC):
    """How one column becomes numbers under a loss, and predictions become cells."""

    name: Any
    kind: Kind
    loss: Loss

    @property
    @abc.abstractmethod
    def features(self) -> list[str]:
        """The names of the encoded columns."""

    @abc.abstractmethod
    def encode(self, cells: Cells) -> Array:
        """Return an array with a row for each cell, NaN where it is missing."""

    @abc.abstractmethod
    def decode(self, predicted: Array) -> Array:
        """Return the cells that predictions represent."""


@frozen
class Number(Codec):
    """(x - center) / scale; predictions do not fall below the least that the column can hold."""

    center: float = 0.0
    scale: float = 1.0
    least: float = -np.inf

    @property
    def features(self) -> list[str]:
        return [str(self.name)]

    def encode(self, cells: Cells) -> Array:
        return ((cells.values - self.center) / self.scale)[:, None]

    def decode(self, predicted: Array) -> Array:
        return np.maximum(predicted[:, 0] * self.scale + self.center, self.least)


@frozen
class LineCodec(Codec):
    """Levels as 0, 1, ... on a line, or -1 and +1 for losses of a margin."""

    levels: tuple[Any, ...]

    @property
    def features(self) -> list[str]:
        if self.kind in (Kind.BOOLEAN, Kind.ORDERED) or len(self.levels) == 1:
            return [str(self.name)]
        return [f"{self.name}={self.levels[1]}"]

    def encode(self, cells: Cells) -> Array:
        positions = _positions(cells, self)[:, None]
        if isinstance(self.loss, Margin):
            return 2 * positions - 1
        return positions

    def decode(self, predicted: Array) -> Array:
        if isinstance(self.loss, Margin):
            positions = (predicted[:, 0] + 1) / 2
        else:
            positions = predicted[:, 0]
        return _pick(self.levels, np.clip(np.rint(positions), 0, len(self.levels) - 1))


@frozen
class OneHotCodec(Codec):
    """A column of 0 and 1 for each level, or -1 and +1 for losses of a margin.

    The most probable level is predicted.
    """

    levels: tuple[Any, ...]

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, cells: Cells) -> Array:
        positions = _positions(cells, self)[:, None]
        hot = np.where(np.isnan(positions), np.nan, positions == np.arange(len(self.levels)))
        if isinstance(self.loss, Margin):
            return 2 * hot - 1
        return hot

    def decode(self, predicted: Array) -> Array:
        return _pick(self.levels, predicted.argmax(axis=1))


@frozen
class StepCodec(Codec):
    """A column of 0 and 1 for each step between the levels that occur: whether a cell is above it.

    Each step has an offset of its own, so that levels need not be equally far apart; the median
    level is predicted.
    """

    levels: tuple[Any, ...]
    occur: tuple[int, ...]  # positions among the levels, rising

    @property
    def features(self) -> list[str]:
        return [f"{self.name}>{self.levels[j]}" for j in self.occur[:-1]]

    def encode(self, cells: Cells) -> Array:
        positions = _positions(cells, self)[:, None]
        return np.where(np.isnan(positions), np.nan, positions > np.array(self.occur[:-1]))

    def decode(self, predicted: Array) -> Array:
        return _pick(self.levels, np.array(self.occur)[(predicted > 0.5).sum(axis=1)])


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or a frame's NA."""
    if type(value).__name__ in MISSING_TYPES:
        return True
    return isinstance(value, numbers.Real) and bool(value != value)


def _of_numbers(name: Any, values: Array, truth: bool = False) -> Cells:
    if truth:
        return Cells(name, Kind.BOOLEAN, values.astype(float), (False, True))
    kind = np.result_type(values, np.float32)
    if kind.itemsize > 8:  # no solver computes in more than double precision
        kind = np.dtype(np.float64)
    return Cells(name, Kind.NUMBER, values.astype(kind, copy=False))


def _of_objects(name: Any, values: Array) -> Cells:
    """Return a column of objects as what all of them are: truth values, numbers or strings."""
    seen = np.array([not is_missing(v) for v in values], bool)
    found = values[seen]
    positions = np.full(len(values), np.nan)
    if not len(found):
        return Cells(name, Kind.EMPTY, positions)
    if all(isinstance(v, bool | np.bool_) for v in found):
        positions[seen] = found.astype(float)
        return Cells(name, Kind.BOOLEAN, positions, (False, True))
    if all(is_number(v) for v in found):
        positions[seen] = found.astype(float)
        return Cells(name, Kind.NUMBER, positions)
    if not all(isinstance(v, str) for v in found):
        raise _refusal_of_objects(name, values, np.flatnonzero(seen))
    levels, positions[seen] = np.unique(found.astype(str), return_inverse=True)
    return Cells(name, Kind.TEXT, positions, tuple(levels.tolist()))


def _refusal_of_objects(name: Any, values: Array, rows: Array) -> ValueError:
    """Return the error for a column of objects of several kinds, with the first of a rare kind."""
    kinds = [_kind_of(values[i]) for i in rows]
    most = Counter(kinds).most_common(1)[0][0]
    if most is None:
        strange = values[rows[kinds.index(None)]]
        return _refusal(name, type(strange).__name__, "M" if hasattr(strange, "year") else "O")
    row = next(i for i, kind in zip(rows, kinds, strict=True) if kind != most)
    return ValueError(
        f"Column {name!r} holds {most}, but row {row} holds {reprlib.repr(values[row])}. Correct "
        "that value, mark it as missing (NaN or None), or convert the whole column to strings if "
        "it holds categories."
    )


def _kind_of(value: Any) -> str | None:
    """Return what a column of such values would be called; None where there is no such column."""
    if isinstance(value, bool | np.bool_):
        return "truth values"
    if isinstance(value, str):
        return "strings"
    if is_number(value):
        return "numbers"
    return None


def _refusal(name: Any, dtype: Any, letter: str) -> ValueError:
    """Return the error for a column that is neither numbers nor categories."""
    if letter in "mM":
        remedy = (
            "dates and times have no loss. Turn it into a number (such as days since the first), "
            "or drop it"
        )
    else:
        remedy = "a column must hold numbers, truth values or categories. Convert or drop it"
    return ValueError(f"Column {name!r} holds values of type {dtype}: {remedy}.")


def _dense(series: Any) -> Any:
    """Return a pandas column whose common value is not stored as one that stores all."""
    if type(series.dtype).__name__ == "SparseDtype":
        return series.sparse.to_dense()
    return series


def _is_categorical(dtype: Any) -> bool:
    return hasattr(dtype, "categories") and hasattr(dtype, "ordered")


def _numpy_type(dtype: Any) -> Any:
    """Return the numpy type behind a nullable pandas type."""
    return getattr(dtype, "numpy_dtype", dtype)


def _as_stored(values: Array, dtype: Any, observed: Array) -> Array:
    """Return the nearest values in the type of a column; of objects, in that of the observed."""
    letter = getattr(dtype, "kind", "O")
    if values.dtype.kind != "f":
        return values
    objects = letter == "O" and len(observed) > 0
    if letter == "b" or (objects and all(isinstance(v, bool | np.bool) for v in observed)):
        return (values > 0.5).astype(dtype)
    if letter in "iu":
        limits = np.iinfo(dtype)
        # the largest whole number of 64 bits is no float: the next smaller one is
        largest = np.nextafter(float(limits.max), 0)
        return np.rint(np.clip(values, limits.min, largest)).astype(dtype)
    if objects and all(isinstance(v, numbers.Integral) for v in observed):
        return np.array([round(v) for v in values.tolist()], dtype=object)
    return values.astype(dtype)


def _positions(cells: Cells, codec: LineCodec | OneHotCodec | StepCodec) -> Array:
    """Return the positions of labels among the levels of the fit, NaN for unknown ones."""
    place = {level: float(j) for j, level in enumerate(codec.levels)}
    table = np.array([*(place.get(level, np.nan) for level in cells.levels), np.nan])
    codes = np.where(cells.missing, len(cells.levels), cells.values).astype(int)
    out = table[codes]
    unseen = np.unique(cells.values[np.isnan(out) & ~cells.missing]).astype(int)
    if len(unseen):
        labels = [cells.levels[j] for j in unseen[:5]]
        warn(
            f"Column {cells.name!r} has categories that were not there in fit: {labels}; they are "
            "taken for missing."
        )
    return out


def _pick(levels: tuple[Any, ...], positions: Array) -> Array:
    """Return levels by position, as objects."""
    table = np.empty(len(levels), object)
    table[:] = levels
    return table[positions.astype(int)]
