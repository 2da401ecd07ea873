"""What is known of rows besides their numbers: limits of missing entries, and covariates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from regfactor.core.linalg import is_sparse
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen, is_option
from regfactor.fitting.columns import Kind, Number, as_table
from regfactor.fitting.inputs import ColumnUnits
from regfactor.fitting.noise import noise_deviation
from regfactor.fitting.schema import Schema
from regfactor.losses import Censored, Huber, Loss, Squared, Stacked

NUMBERS = (Kind.NUMBER, Kind.BOOLEAN, Kind.EMPTY)
RANK_TOL = 1e-9  # relative singular value below which covariates depend on each other


@frozen
class Known:
    """Limits of missing entries, in tables like X, and covariates of its rows, as users give them.

    None where there are none.
    """

    lower: Any = None
    upper: Any = None
    covariates: Any = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing but the numbers is known."""
        return self.lower is None and self.upper is None and self.covariates is None


NOTHING = Known()


@frozen
class RowsToScore:
    """Rows in the units of a problem: a table, limits of its entries, what is added to predictors.

    Limits are of shape (2, n_samples, n_features), infinite where they are open; offsets are those
    of the columns, or of all entries.
    """

    table: Any
    limits: Array | None
    offset: Array


def read_limits(X: Array, known: Known, names: list[Any], is_number: Array) -> Array:
    """Return lower and upper limits of the missing entries of X, infinite where they are open.

    Raise, with row and column, for limits of columns that hold no numbers, limits that contradict
    each other, and entries outside of their limits.
    """
    if is_sparse(X):
        raise ValueError(
            "lower and upper are for dense tables: give X as an array or a frame with NaN where an "
            "entry is missing."
        )
    low = _side(known.lower, X.shape, "lower", -np.inf, names, is_number)
    high = _side(known.upper, X.shape, "upper", np.inf, names, is_number)
    crossed = low > high
    if crossed.any():
        i, j = np.argwhere(crossed)[0].tolist()
        raise ValueError(
            f"Row {i} has lower={low[i, j]:g} above upper={high[i, j]:g} in column {names[j]!r}. "
            "Correct one of them, or leave both open by NaN."
        )
    outside = (X < low) | (X > high)
    if outside.any():
        i, j = np.argwhere(outside)[0].tolist()
        raise ValueError(
            f"Row {i} holds {X[i, j]:g} in column {names[j]!r}, outside of its limits "
            f"({low[i, j]:g}, {high[i, j]:g}). Correct the entry or its limits, or mark the entry "
            "as missing."
        )
    observed = ~np.isnan(X)
    return np.stack([np.where(observed, -np.inf, low), np.where(observed, np.inf, high)])


def _side(
    values: Any,
    shape: tuple[int, int],
    what: str,
    is_open: float,
    names: list[Any],
    is_number: Array,
) -> Array:
    """Return limits on one side, infinite where they are open."""
    if values is None:
        return np.full(shape, is_open)
    given = as_table(values)
    rows = _num_samples(values)
    if (rows, len(given.names)) != shape:
        raise ValueError(
            f"{what} has {rows} rows and {len(given.names)} columns, X {shape[0]} and {shape[1]}: "
            "it must be a table like X, with NaN where there is no limit."
        )
    numbered = list(range(shape[1]))
    if given.names != names and numbered not in (given.names, names):
        raise ValueError(f"The columns of {what} are {given.names}, those of X {names}.")
    out = np.empty(shape)
    for j in numbered:
        cells = given.cells(j)
        if cells.kind not in NUMBERS:
            raise ValueError(f"Column {names[j]!r} of {what} must hold numbers, or NaN.")
        out[:, j] = np.where(np.isfinite(cells.values), cells.values, is_open)
        bounded = np.isfinite(out[:, j])
        if bounded.any() and not is_number[j]:
            i = int(bounded.argmax())
            raise ValueError(
                f"Row {i} has {what}={out[i, j]:g} in column {names[j]!r}, which holds categories: "
                "limits are for columns of numbers."
            )
    return out


def limits_of_mixed(table: Array, known: Known, schema: Schema, units: ColumnUnits) -> Array:
    """Return limits of the encoded columns of a frame, in their units."""
    originals = [codec.name for codec in schema.codecs]
    is_number = np.array([isinstance(codec, Number) for codec in schema.codecs])
    first = np.array([span.start for span in schema.spans])
    values = units.values(table)[:, first]
    found = read_limits(values, known, originals, is_number)
    limits = np.empty((2, *table.shape))
    limits[0] = -np.inf
    limits[1] = np.inf
    numbers = first[is_number]
    center = units.center[numbers]
    limits[:, :, numbers] = (found[:, :, is_number] - center) / units.unit[numbers]
    return limits


def require_limited(
    limits: Array,
    names: list[Any] | None,
    loss_parts: list[tuple[Any, Loss]],
) -> None:
    """Raise for limits in columns that had none in fit, whose noise is not known."""
    takes = np.zeros(limits.shape[2], bool)
    for at, part in loss_parts:
        takes[at] = isinstance(part, Censored)
    bounded = np.isfinite(limits).any(axis=(0, 1)) & ~takes
    if bounded.any():
        j = int(bounded.argmax())
        name = j if names is None else names[j]
        raise ValueError(
            f"Column {name!r} has limits here and had none in fit: fit with lower or upper "
            "limits in it, or with loss=Censored(scale=...).",
        )


def with_exact_limits(table: Array, limits: Array) -> tuple[Array, Array]:
    """Return a table with the entries whose two limits agree, and the limits of the others."""
    exact = limits[0] == limits[1]
    filled = np.where(exact, limits[0], table).astype(table.dtype)
    return filled, np.where(exact, np.array([-np.inf, np.inf])[:, None, None], limits)


def with_unit_limits(table: Array, limits: Array) -> Array:
    """Return a table whose columns without a number hold their limits, to find a unit of them."""
    empty = np.isnan(table).all(axis=0)
    some = np.where(np.isfinite(limits[0]), limits[0], limits[1])
    return np.where(empty & np.isfinite(some), some, table).astype(table.dtype)


def with_limits(
    loss: Loss,
    table: Array,
    limits: Array | None,
    rows: Array | None,
    offsets: bool,
) -> Loss:
    """Return a loss whose columns with limits are `Censored`, at the noise of the table.

    Under one loss for numbers, noise is of one deviation in the units of the problem: it is found
    robustly from the numbers that are known. Under the Huber loss, whose tails are linear, it is
    logistic.
    """
    width = table.shape[1]
    limited: Array = np.zeros(width, bool)
    if limits is not None:
        limited = np.asarray(np.isfinite(limits).any(axis=(0, 1)))
    if not limited.any() and not any(_is_open(part) for _, part in loss.parts(width)):
        return loss
    scale: float | None = None
    groups: list[tuple[Any, Loss]] = []
    for at, part in loss.parts(width):
        places = np.arange(width)[at]
        here = places[limited[places]]
        others = places[~limited[places]]
        if len(others) and isinstance(part, Censored) and _is_open(part):
            groups.append((others.tolist(), part.loss))
        elif len(others):
            groups.append((others.tolist(), part))
        if not len(here):
            continue
        censored = _censored(part, here)
        if _is_open(censored):
            if scale is None:
                scale = noise_deviation(table, rows, offsets)
            censored = replace(censored, scale=scale)
        groups.append((here.tolist(), censored))
    if len(groups) == 1:
        return groups[0][1]
    return Stacked(tuple(groups))


def _is_open(part: Loss) -> bool:
    return isinstance(part, Censored) and is_option(part.scale, "auto")


def _censored(part: Loss, columns: Array) -> Censored:
    if isinstance(part, Censored):
        return part
    if isinstance(part, Squared):
        return Censored(part)
    if isinstance(part, Huber):
        return Censored(part, noise="logistic")
    raise ValueError(
        f"Entries of column {columns[0]} are known by limits, which the losses 'squared', 'huber' "
        f"and Censored take, and {part} does not."
    )


@frozen
class CovariateCodes:
    """How covariates become regressors: numbers in units of their deviation, labels as indicators.

    A label has an indicator for each of its levels in `fit` but the first.
    """

    names: list[Any]
    levels: list[tuple[Any, ...] | None]
    features: list[str]
    center: Array
    unit: Array

    @staticmethod
    def of(covariates: Any, X: Any, with_intercept: bool) -> CovariateCodes:
        """Read the levels and units of covariates of X; raise if they depend on each other."""
        n = X.shape[0]
        table = as_table(covariates)
        levels: list[tuple[Any, ...] | None] = []
        features = []
        for cells in table.columns():
            if cells.kind in NUMBERS:
                levels.append(None)
                features.append(str(cells.name))
                continue
            seen = np.unique(cells.values[~cells.missing]).astype(int).tolist()
            kept = tuple(cells.levels[k] for k in seen)
            levels.append(kept)
            features += [f"{cells.name}={level}" for level in kept[1:]]
        width = len(features)
        plain = CovariateCodes(table.names, levels, features, np.zeros(width), np.ones(width))
        D = plain.encode(covariates, n)
        unit = D.std(axis=0)
        center = np.zeros(width)
        if with_intercept:
            center = D.mean(axis=0)
        size = np.abs(D).max(axis=0, initial=0)
        constant = unit <= RANK_TOL * size
        if with_intercept and constant.any():
            name = features[int(constant.argmax())]
            raise ValueError(
                f"Covariate {name!r} is constant, which the intercept is already: leave it out."
            )
        unit = np.where(constant, np.maximum(size, SMALLEST_NORMAL), unit)
        found = replace(plain, center=center, unit=unit)
        _require_independent(found.encode(covariates, n), features)
        return found

    def encode(self, covariates: Any, n: int) -> Array:
        """Return the regressors of rows; raise for other columns, missing numbers, new levels."""
        if covariates is None:
            raise ValueError(
                f"The model was fitted with the covariates {self.names}: pass covariates=... for "
                "these rows too."
            )
        table = as_table(covariates)
        rows = _num_samples(covariates)
        if rows != n:
            raise ValueError(f"covariates have {rows} rows, X has {n}.")
        numbered = list(range(len(self.names)))
        if table.names != self.names and numbered not in (table.names, self.names):
            raise ValueError(f"The covariates are {table.names}, in fit they were {self.names}.")
        blocks = [self._column(table.cells(j), self.levels[j]) for j in numbered]
        D = np.hstack([np.zeros((n, 0)), *blocks])
        return (D - self.center) / self.unit

    def _column(self, cells: Any, levels: tuple[Any, ...] | None) -> Array:
        bad = ~np.isfinite(cells.values)
        if bad.any():
            raise ValueError(
                f"Covariate {cells.name!r} is missing or infinite in row {int(bad.argmax())}: fill "
                "it, or leave the row out."
            )
        if levels is None:
            if cells.kind not in NUMBERS:
                raise ValueError(f"Covariate {cells.name!r} held numbers in fit, now labels.")
            return np.asarray(cells.values, np.float64)[:, None]
        words = [cells.levels[int(k)] for k in cells.values]
        unknown = [i for i, word in enumerate(words) if word not in levels]
        if unknown:
            raise ValueError(
                f"Covariate {cells.name!r} is {words[unknown[0]]!r} in row {unknown[0]}, a level "
                f"that it did not have in fit: {list(levels)}."
            )
        positions = np.array([levels.index(word) for word in words])
        return (positions[:, None] == np.arange(1, len(levels))).astype(np.float64)

    def coefficients(self, B: Array) -> Array:
        """Return coefficients of the regressors as those of the covariates."""
        return B / self.unit[:, None].astype(B.dtype)

    def intercept(self, B: Array) -> Array:
        """Return what coefficients of the regressors add to the intercept, where these are zero."""
        return -(self.center / self.unit).astype(B.dtype) @ B


def _require_independent(D: Array, features: list[str]) -> None:
    """Raise for regressors of which one is a combination of the others."""
    if not D.shape[1]:
        raise ValueError("covariates need at least one column with two different values.")
    s = np.linalg.svd(D, compute_uv=False)
    if D.shape[1] > D.shape[0] or s[-1] <= RANK_TOL * s[0]:
        raise ValueError(
            f"The covariates {features} depend on each other in these {D.shape[0]} rows: leave out "
            "those that follow from others."
        )
