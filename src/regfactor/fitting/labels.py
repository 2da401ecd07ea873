"""Labels and targets: markers of unlabeled rows, classes as codes, targets with NaN."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _num_samples

from regfactor.core.params import Array, is_number, warn
from regfactor.fitting.columns import is_missing, unmasked

REMEDY = (
    "Name the marker: unlabeled=-1, or unlabeled=float('nan') when -1 is a class "
    "(None counts as NaN)"
)
SEQUENCES = (list, tuple, set, dict, np.ndarray)
COMPARABLE_KINDS = ("iuf", "US", "b")  # of numpy's types
SUM_TOL = 1e-6  # by which shares of a soft label may miss 1


@dataclass(frozen=True)
class Labels:
    """Classes, sorted or as they were named, and the position of each row's class, or -1."""

    classes: Array
    codes: Array

    @property
    def labeled(self) -> Array:
        """Whether each row has a label."""
        return self.codes >= 0

    def one_hot(self, dtype: Any = np.float64) -> Array:
        """Return a row of the unit matrix for each labeled row, zeros for each unlabeled one."""
        return (self.codes[:, None] == np.arange(len(self.classes))).astype(dtype)


def is_labeled(y: Any, unlabeled: Any = None) -> Array:
    """Return whether each entry of y is a label or target.

    -1, NaN, None and "" mark missing ones; where `unlabeled` is given, only that does. Numbers that
    are not whole are targets of a regression, where -1 is a value like any other. The result has
    the shape of y: in rows of several targets single ones may be missing.
    """
    y = as_labels(y)
    missing = np.zeros(y.shape, bool)
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype == object:
        missing = _missing_objects(y)
    if unlabeled is not None and not is_missing(unlabeled):
        if missing.any():
            raise ValueError(
                f"y holds NaN or None next to the marker unlabeled={unlabeled!r}. {REMEDY}.",
            )
        return ~_equal(y, unlabeled)
    if unlabeled is not None or y.ndim > 1 or _is_continuous(y[~missing]):
        return ~missing
    marked = _equal(y, -1)
    if marked.any() and missing.any():
        raise ValueError(
            f"y holds both -1 and NaN or None, and either may mark unlabeled rows. {REMEDY}.",
        )
    return ~(marked | missing | _equal(y, ""))


def encode_labels(y: Any, unlabeled: Any = None, classes: Iterable[Any] | None = None) -> Labels:
    """Return the classes of y and the class of every row.

    `classes` names all classes, including those without a labeled row.
    """
    y = as_labels(y)
    if y.ndim != 1:
        raise ValueError(f"y must hold one label for each row, got an array of shape {y.shape}.")
    labeled = is_labeled(y, unlabeled)
    given = y[labeled]
    if _is_continuous(given):
        odd = next(value for value in given if not float(value).is_integer())
        raise ValueError(
            f"Unknown label type: continuous. y holds {odd!r}; classes are whole numbers or "
            "strings.",
        )
    if given.dtype == object:
        if len({isinstance(value, str) for value in given}) > 1:
            raise ValueError("y mixes strings and numbers as labels; use one kind.")
        given = np.array(given.tolist())
    if given.dtype.kind == "f" and np.isinf(given).any():
        raise ValueError("y holds infinity, which is not a class.")
    found, positions = np.unique(given, return_inverse=True)
    codes = np.full(len(y), -1)
    if classes is not None:
        known = distinct_classes(classes)
        codes[labeled] = _places_among(known, found.tolist())[positions]
        return Labels(known, codes)
    codes[labeled] = positions
    if unlabeled is None and found.tolist() == [1] and _equal(y, -1).any():
        raise ValueError(
            "y holds only 1 and -1, and -1 marks unlabeled rows, which leaves one class. "
            f"{REMEDY}.",
        )
    # numpy makes it of the marker -1 among strings; where "1" is the only other class, it is one
    if unlabeled is None and "-1" in found.tolist() and found.tolist() != ["-1", "1"]:
        warn(
            "The string '-1' in y is taken for a class: among strings, unlabeled rows are None, "
            "NaN or ''. If it marks unlabeled rows, set unlabeled='-1'; if it is a class, set "
            "unlabeled=''.",
        )
    return Labels(found, codes)


def distinct_classes(classes: Iterable[Any]) -> Array:
    """Return the classes that are named, each once."""
    known = np.asarray(list(classes))
    if known.ndim != 1 or len(set(known.tolist())) < len(known):
        raise ValueError(f"classes must name each class once, got {classes!r}.")
    return known


def soft_labels(y: Any) -> Array:
    """Return the shares of classes in each row's label, zeros in rows without a label."""
    shares = np.array(unmasked(y), dtype=np.float64)
    shares[np.isnan(shares).all(axis=1)] = 0.0
    sums = shares.sum(axis=1)
    legal = (shares >= 0).all(axis=1) & ((sums == 0) | (np.abs(sums - 1) <= SUM_TOL))
    if not legal.all():
        row = int(legal.argmin())
        raise ValueError(
            f"Row {row} of y holds {shares[row].tolist()}; soft labels are shares >= 0 of the "
            "classes that sum to 1, or zeros (or NaN) where a row has no label."
        )
    return shares


def _places_among(known: Array, found: list[Any]) -> Array:
    """Return the positions of found labels among known classes."""
    place = {label: j for j, label in enumerate(known.tolist())}
    strange = [label for label in found if label not in place]
    if strange:
        raise ValueError(f"y holds labels that are not among classes={known.tolist()}: {strange}.")
    return np.array([place[label] for label in found], int)


def as_targets(y: Any) -> Array:
    """Return the targets of a regression as floats, NaN where they are missing; float32 stays."""
    _check_kind(np.asarray(y).dtype)
    y = as_labels(y)
    if y.dtype == object:
        y = np.where(_missing_objects(y), np.nan, y)
    if y.ndim not in (1, 2):
        raise ValueError(
            f"y must hold one row of targets for each row, got an array of shape {y.shape}.",
        )
    try:
        targets = y.astype(np.float32 if y.dtype == np.float32 else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"y must hold numbers, with NaN where a target is missing: {error}",
        ) from error
    if np.isinf(targets).any():
        raise ValueError("y holds infinity; a missing target is NaN.")
    return targets


def as_labels(y: Any) -> Array:
    """Return y as an array, a single column as a vector; strings and None in a list stay apart."""
    if y is None:
        raise ValueError(
            "y is missing: this needs labels or targets, with unlabeled rows marked in y.",
        )
    if isinstance(y, np.ma.MaskedArray):
        y = _unmasked_labels(y)
    array = np.asarray(y)
    if array.dtype.kind in "US" and isinstance(y, list | tuple):
        # numpy would spell a NaN among strings as "nan"
        array = np.asarray(y, dtype=object)
    if array.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: y holds complex numbers. Name the classes by strings or "
            "whole numbers.",
        )
    if array.dtype == object:
        several = next((cell for cell in array.flat if isinstance(cell, SEQUENCES)), None)
        if several is not None:
            raise ValueError(f"y holds {several!r}: give one label or target for each row.")
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    return array


def _unmasked_labels(y: Any) -> Any:
    """Return labels or targets with NaN among floats, None among others, where they are masked."""
    if not isinstance(y, np.ma.MaskedArray):
        return y
    masked = np.ma.getmaskarray(y)
    if not masked.any():
        return y.data
    if y.dtype.kind == "f":
        return np.ma.filled(y, np.nan)
    labels = y.data.astype(object)
    labels[masked] = None
    return labels


def labels_of_rows(y: Any, X: Any, estimator: Any) -> Array:
    """Return one label, or marker, for each row of X."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None.",
        )
    if np.asarray(y).ndim == 2:
        y = column_or_1d(_unmasked_labels(y), warn=True)
    y = as_labels(y)
    if _num_samples(X) != _num_samples(y):
        require_same_rows(X, y)
    return y


def require_same_rows(X: Any, y: Any, names: tuple[str, str] = ("X", "y")) -> None:
    """Raise unless two tables, or a table and its labels or targets, have as many rows."""
    rows = _num_samples(X)
    others = _num_samples(y)
    first, second = names
    if rows != others:
        remedy = f"Give {second} one row for each row of {first}"
        if named_alike(X, y):
            remedy += f", as by {second}.reindex({first}.index), NaN where it has none"
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {first} has "
            f"{rows} rows and {second} {others}. {remedy}."
        )
    require_same_order(X, y, names)


def require_same_order(X: Any, y: Any, names: tuple[str, str] = ("X", "y")) -> None:
    """Raise for frames whose rows have the same names in another order: rows go by position."""
    if not named_alike(X, y) or X.index.equals(y.index):
        return
    if len(X.index) != len(y.index) or not (X.index.is_unique and y.index.is_unique):
        return
    if X.index.isin(y.index).all():
        first, second = names
        raise ValueError(
            f"The rows of {first} and {second} have the same index in another order. Give "
            f"{second}.reindex({first}.index), or, if they are in the same order, "
            f"{second}.set_axis({first}.index)."
        )


def named_alike(*tables: Any) -> bool:
    """Return whether the rows of all tables have names, as in frames and series of pandas."""
    return all(hasattr(table, "iloc") and hasattr(table, "index") for table in tables)


def most_likely(scores: Array) -> Array:
    """Return the code of the class with the largest score; one column decides by its sign."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(int)
    return scores.argmax(axis=1)


def _check_kind(dtype: Any) -> None:
    """Raise for complex numbers, and for dates, which numpy would turn into nanoseconds."""
    if dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: y holds complex numbers. Use their real and imaginary "
            "parts as two target columns.",
        )
    if dtype.kind in "mM":
        raise ValueError(
            f"y holds dates or durations ({dtype}), and targets are numbers. Convert them first, "
            "for instance to days since the first date.",
        )


def _missing_objects(y: Array) -> Array:
    return np.array([is_missing(value) for value in y.ravel()], bool).reshape(y.shape)


def _equal(y: Array, marker: Any) -> Array:
    """Return where y equals a marker of the same kind.

    Numbers do not equal strings, nor booleans numbers.
    """
    if y.dtype != object:
        for kinds in COMPARABLE_KINDS:
            if y.dtype.kind in kinds and np.asarray(marker).dtype.kind in kinds:
                return y == marker
        return np.zeros(y.shape, bool)
    numeric = is_number(marker)
    hits = [is_number(v) == numeric and not is_missing(v) and bool(v == marker) for v in y.ravel()]
    return np.array(hits, bool).reshape(y.shape)


def _is_continuous(values: Array) -> bool:
    """Return whether some entry is a number that is not whole."""
    if values.dtype == object:
        values = np.array([float(v) for v in values if is_number(v)])
    return values.dtype.kind == "f" and bool(np.any(values != np.floor(values)))
