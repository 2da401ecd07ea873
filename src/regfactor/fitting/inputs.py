"""Tables and weights as an estimator receives them: turned into floats, or refused by column."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_array,
    validate_data,
)

from regfactor.core.linalg import column_range, is_sparse, summed
from regfactor.core.params import Array, as_floats, frozen, is_option, warn
from regfactor.fitting.columns import ArrayTable, as_table, unmasked
from regfactor.fitting.containers import densified, refuse_no_table
from regfactor.fitting.labels import require_same_rows
from regfactor.fitting.schema import AUTO, LABELS, Schema, places
from regfactor.fitting.units import ROUNDING_SPREAD, bounds_influence, entry_deviations
from regfactor.losses import Loss, Squared, by_columns
from regfactor.problems.checks import IllegalValues, check_weights

FLOATS = (np.float64, np.float32)  # in which tables are kept; others become the first
WORDS = (
    "If the others are numbers, correct that cell or mark it as missing (NaN). If they are "
    "categories, leave the column out or turn it into numbers, as by pandas.get_dummies(X); "
    "SubspaceImputer, ConvexSubspace and FactorModel take it by loss='auto', AutoImputer and "
    "AutoMixture in a DataFrame."
)
DATES = "Turn it into a number, such as days since the first, or leave it out."
OBJECTS = "Turn it into one number a cell, or leave it out."
COMPLETE = (
    "fill the missing entries before, by SubspaceImputer(loss='auto', alpha='auto') for instance, "
    "or leave these rows out"
)
# names of types, one a line, that are no real numbers
OTHER_TYPES = re.compile("^(date|time|period|duration|complex)", re.MULTILINE)
# sizes whose squares, and sums of them, neither overflow nor underflow
LARGEST = {8: 1e150, 4: 1e18}
SMALLEST = {8: 1e-150, 4: 1e-18}
# spread of a column, relative to its size, below which float64 cannot resolve a gap of 1e-4
PRECISE_SPREAD = 1e-11
SMALL_TABLE = 16_384  # numbers, whose range one reduction finds as fast
QUANTILE_ROWS = 1000
SAMPLED_ROWS = 1000  # whose quartiles show whether a column has entries that may be far off
# interquartile ranges beyond a quartile; half of those of a gross error, since they are of a sample
FAR_RANGES = 50.0
LOST_SHARE = 1e-6  # of a deviation, within which rows are not distinguished


def schema_of(
    X: Any,
    loss: Any,
    scale: bool = False,
    sample_weight: Any = None,
) -> Schema | None:
    """Return how a mixed table becomes numbers; None for numbers whose losses are all stated."""
    if is_sparse(X):  # numbers of one type
        return None
    framed = not isinstance(X, np.ndarray) and _is_frame(X)
    if framed:
        _refuse_empty(X)
    if isinstance(loss, str):
        open_losses = loss == AUTO
    else:
        open_losses = _leaves_losses_open(loss, X)
    if open_losses and not framed:
        _refuse_empty(ArrayTable(X).array)
    labels = False
    if hasattr(X, "columns"):
        labels = any(cells.kind in LABELS for cells in as_table(X).columns())
    if not open_losses and not labels:
        return None
    rows = None
    if sample_weight is not None:
        rows = row_weights(np.empty((_num_samples(X), 0)), sample_weight)
    return Schema.of(X, loss, scale, rows)


def _leaves_losses_open(loss: Any, X: Any) -> bool:
    """Return whether losses by columns leave that of some column to what the column holds."""
    groups = by_columns(loss)
    if groups is None:
        return False
    if any(is_option(part, AUTO) for _, part in groups):
        return True
    names = as_table(X).names
    stated = {j for columns, _ in groups for j in places(columns, names)}
    return len(stated) < len(names)


def _refuse_empty(X: Any, name: str = "X") -> None:
    """Raise for a table without rows or columns."""
    if not all(X.shape):
        raise ValueError(
            f"{name} has {X.shape[0]} rows and {X.shape[1]} columns: found {X.shape[0]} sample(s) "
            f"and {X.shape[1]} feature(s) (shape={X.shape}) while a minimum of 1 is required.",
        )


def as_float_table(estimator: Any, X: Any, schema: Schema | None, reset: bool) -> Any:
    """Return a table as floats: an array with NaN, or a CSR array, where entries are missing."""
    if schema is not None:
        as_table(X)  # raises for what is no table at all
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        encoded = schema.encode(X)
        check_sizes(encoded, schema.feature_names, reset)
        return encoded
    X = validated(
        estimator,
        X,
        accept_sparse="csr",
        ensure_all_finite="allow-nan",
        reset=reset,
        every_column=True,
    )
    if is_sparse(X):
        return _observed(X, estimator.sparse_zeros)
    return np.asarray(X)


def _observed(X: Any, zeros: str) -> Any:
    """Return a sparse table without stored NaN; a dense one if every entry is observed."""
    if zeros == "observed":
        return X.toarray()
    X = _without_nan(X)
    if X.nnz == np.prod(X.shape):
        return X.toarray()
    return X


def check_sizes(
    X: Any,
    names: Sequence[Any] | None,
    fitting: bool,
    every_column: bool = True,
    table: str = "X",
) -> None:
    """Raise for columns too large or small to be squared; warn of those far from zero in a fit.

    Without `every_column`, as where columns are not divided by their deviations, small columns are
    legal next to one that is not.
    """
    if not X.shape[0]:
        return
    if is_sparse(X):
        high = X.nanmax(axis=0).toarray().ravel()
        low = X.nanmin(axis=0).toarray().ravel()
    elif X.size > SMALL_TABLE:
        low, high = column_range(X)
    else:
        low = np.fmin.reduce(X, axis=0, initial=np.inf)
        high = np.fmax.reduce(X, axis=0, initial=-np.inf)
    sizes = np.maximum(np.abs(high), np.abs(low))
    sizes[low > high] = 0  # of a column without an observed entry
    bytes_ = X.dtype.itemsize
    illegal = sizes > LARGEST[bytes_]
    small = (sizes > 0) & (sizes < SMALLEST[bytes_])
    if fitting and (every_column or sizes.max() < SMALLEST[bytes_]):
        illegal |= small  # new rows may be small in a column that is not
    if illegal.any():
        j = int(illegal.argmax())
        raise ValueError(
            f"Column {_name(names, j)!r} of {table} holds values of size {sizes[j]:.3g}, whose "
            f"squares {X.dtype} cannot hold; scale it, for instance by its standard deviation.",
        )
    if not fitting or bytes_ < 8:
        return
    spread = high - low
    varies = spread > ROUNDING_SPREAD * sizes
    far = varies & (spread < PRECISE_SPREAD * sizes)
    if far.any():
        j = int(far.argmax())
        warn(
            f"Column {_name(names, j)!r} of {table} varies by {spread[j]:.2g} around "
            f"{high[j]:.2g}, which loses precision to cancellation; subtract its mean first.",
        )


def check_outlying_entries(
    X: Any,
    weights: Array,
    names: Sequence[Any] | None,
    table: str = "X",
) -> None:
    """Raise where an entry is so far from all others that these coincide once standardized.

    The middle 80 % of a column then lie within a millionth of its deviation, which is at least
    range / sqrt(2 n). Columns whose middle is constant, such as indicators, and sparse tables,
    which are not standardized, are not concerned, nor are rows of weight zero. Quantiles are
    those of a thousand rows.
    """
    if is_sparse(X):
        return
    counted = np.flatnonzero(weights)
    n_rows = len(counted)
    if n_rows < X.shape[0]:
        X = X[counted]
    some = np.sort(X[:: -(-n_rows // QUANTILE_ROWS)], axis=0)  # NaN come last
    counts = np.count_nonzero(~np.isnan(some), axis=0)
    trimmed = np.maximum(counts // 10, 1)
    columns = np.arange(X.shape[1])
    low = some[np.minimum(trimmed, len(some) - 1), columns]
    high = some[np.maximum(counts - 1 - trimmed, 0), columns]
    middle = high - low
    varies = middle > ROUNDING_SPREAD * np.maximum(np.abs(high), np.abs(low))
    reach = np.fmax.reduce(X, axis=0) - np.fmin.reduce(X, axis=0)
    with np.errstate(over="ignore"):
        lost = varies & (middle < LOST_SHARE * (reach / np.sqrt(2.0 * n_rows)))
    if lost.any():
        j = int(lost.argmax())
        i = int(np.nanargmax(np.abs(X[:, j] - low[j])))
        raise ValueError(
            f"Row {counted[i]} holds {X[i, j]:.3g} in column {_name(names, j)!r} of {table}, most "
            f"of which lies between {low[j]:.3g} and {high[j]:.3g}: next to it the other rows "
            "cannot be told apart. Mark an erroneous entry as missing by NaN, or transform the "
            "column, for instance to logarithms or ranks."
        )


def _name(names: Sequence[Any] | None, j: int) -> Any:
    if names is None:
        return j
    return names[j]


def _na_as_nan(X: Any) -> Any:
    """Return an array of objects with NaN for the missing value of pandas, which is no number."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, np.ndarray) or X.dtype != object:
        return X
    missing = np.frompyfunc(lambda value: value is pandas.NA, 1, 1)(X).astype(bool)
    if not missing.any():
        return X
    return np.where(missing, np.nan, X)


def _without_nan(X: Any) -> Any:
    """Return a CSR array with no NaN stored."""
    seen = ~np.isnan(X.data)
    if seen.all():
        return X
    rows, columns = X.tocoo().coords
    return scipy.sparse.csr_array((X.data[seen], (rows[seen], columns[seen])), shape=X.shape)


@frozen
class ColumnUnits:
    """Center c_j and unit u_j of each column: a problem is stated for (x_j - c_j) / u_j."""

    center: Array
    unit: Array

    def divide(self, table: Any) -> Any:
        """Return a table whose columns have no center in these units."""
        unit = self.unit.astype(table.dtype)
        if not is_sparse(table):
            return table / unit
        data = table.data / unit[table.indices]
        return scipy.sparse.csr_array((data, table.indices, table.indptr), table.shape)

    def components(self, C: Array) -> Array:
        """Return components of the problem in the units of the data."""
        return C * self.unit.astype(C.dtype)

    def values(self, Z: Array) -> Array:
        """Return predictions of the problem, or its offsets, in the units of the data."""
        return Z * self.unit.astype(Z.dtype) + self.center.astype(Z.dtype)


def units_of(table: Any, loss: Loss, rows: Array | None, entries: Any) -> ColumnUnits:
    """Return the units of the columns whose loss is one of residuals, and one for all others.

    Others are likelihoods of counts and labels, which have units of their own.
    """
    width = table.shape[1]
    unit = np.ones(width)
    weights = entries
    if rows is not None:
        weights = weigh_rows(table, entries, rows)
    for at, part in loss.parts(width):
        if not part.of_residual:
            continue
        if weights is None and isinstance(part, Squared) and not is_sparse(table):
            unit[at] = _deviations(table[:, at])
        else:
            places = np.arange(width)[at]
            unit[at] = entry_deviations(table, weights, places, bounds_influence(part))
    return ColumnUnits(np.zeros(width), unit)


def _deviations(X: Array) -> Array:
    """Return the deviations of the columns of an array, as `column_deviation` of one column."""
    high = np.fmax.reduce(X, axis=0, initial=-np.inf).astype(np.float64)
    low = np.fmin.reduce(X, axis=0, initial=np.inf).astype(np.float64)
    size = np.maximum(np.abs(high), np.abs(low))
    size[(low > high) | (size == 0)] = 1.0
    observed = ~np.isnan(X)
    counts = np.maximum(observed.sum(axis=0), 1)
    scaled = np.where(observed, X, 0) / size  # whose squares neither overflow nor underflow
    mean = scaled.sum(axis=0) / counts
    squares = np.where(observed, np.square(scaled - mean), 0).sum(axis=0)
    deviation = np.sqrt(squares / counts)
    indicator = ((X == low) | (X == high) | ~observed).all(axis=0)
    deviation = np.where(indicator, high / size - low / size, deviation)
    return size * np.where(deviation > ROUNDING_SPREAD, deviation, 1.0)


def with_far_entries(X: Array) -> Array:
    """Return a mask of the columns of which some entry may lie far from the others.

    Quartiles of some rows tell which columns are worth a closer look, for which all are sorted.
    """
    step = max(len(X) // SAMPLED_ROWS, 1)
    ordered = np.sort(X[::step], axis=0)  # NaN come last
    last = np.maximum((~np.isnan(ordered)).sum(axis=0) - 1, 0)
    places = np.arange(X.shape[1])
    low = ordered[last // 4, places]
    high = ordered[last - last // 4, places]
    reach = FAR_RANGES * (high - low)
    mask: Array = np.fmax.reduce(X, axis=0) - high > reach
    mask |= low - np.fmin.reduce(X, axis=0) > reach
    return mask


def row_weights(X: Any, sample_weight: Any) -> Array | None:
    """Return the weights of rows, None where all are one."""
    if sample_weight is None:
        return None
    if type(sample_weight) is not np.ndarray:
        sample_weight = unmasked(sample_weight)  # masked ones are NaN, which are refused
    as_floats(sample_weight, "sample_weight")
    rows = np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
    if not rows.any():
        raise ValueError("All sample weights are zero; there is nothing to fit.")
    if np.all(rows == 1):
        return None
    return rows


def weights_of_all_rows(X: Any, sample_weight: Any) -> Array:
    """Return the weights of rows in float64, ones where none are given."""
    weights = row_weights(X, sample_weight)
    if weights is None:
        return np.ones(X.shape[0])
    return weights.astype(np.float64)


def entry_weights(X: Any, entry_weight: Any, schema: Schema | None) -> Any:
    """Return the weights of entries in the shape of the numbers; None where there are none."""
    if entry_weight is None:
        return None
    if is_sparse(X):
        stored = _stored_weights(X, entry_weight)
        check_weights(stored.data, np.ones(X.nnz, bool), "entry_weight")
        return stored
    weights = np.asarray(unmasked(entry_weight), X.dtype)
    if schema is not None and weights.ndim == 2 and weights.shape[1] == len(schema.codecs):
        weights = schema.spread(weights)
    if weights.shape != X.shape:
        raise ValueError(
            f"entry_weight has shape {weights.shape}, the table {X.shape}; they must agree.",
        )
    check_weights(weights, ~np.isnan(X), "entry_weight")
    return weights


def weigh_rows(X: Any, entries: Any, rows: Array) -> Any:
    """Return the weights of the entries of a table times those of its rows."""
    if not is_sparse(X):
        if entries is None:
            return np.broadcast_to(rows[:, None], X.shape)
        return rows[:, None] * entries
    weights = np.repeat(rows, np.diff(X.indptr))
    if entries is not None:
        weights = weights * entries.data
    return scipy.sparse.csr_array((weights, X.indices, X.indptr), X.shape)


def weigh_columns(X: Any, entries: Any, columns: Any) -> Any:
    """Return the weights of the entries of a table times those of its columns, or one number."""
    columns = np.broadcast_to(np.asarray(columns, X.dtype), X.shape[1])
    if not is_sparse(X):
        if entries is None:
            return np.broadcast_to(columns, X.shape)
        return columns * entries
    weights = columns[X.indices]
    if entries is not None:
        weights = weights * entries.data
    return scipy.sparse.csr_array((weights, X.indices, X.indptr), X.shape)


def _stored_weights(X: Any, entry_weight: Any) -> Any:
    """Return the weights of the stored entries of a sparse table, given as any table of weights."""
    shape = np.shape(entry_weight)
    if shape != X.shape:
        raise ValueError(f"entry_weight has shape {shape}, the table {X.shape}; they must agree.")
    rows, columns = X.tocoo().coords
    if is_sparse(entry_weight):
        values = scipy.sparse.csr_array(entry_weight)[rows, columns]
    else:
        values = np.asarray(entry_weight)[rows, columns]
    weights = np.asarray(values, X.dtype).ravel()
    return scipy.sparse.csr_array((weights, X.indices, X.indptr), shape=X.shape)


def validated(
    estimator: Any,
    *tables: Any,
    remedy: str = COMPLETE,
    dtype: Any = FLOATS,
    every_column: bool = False,
    **options: Any,
) -> Any:
    """Return tables as scikit-learn's `validate_data` does, without duplicates in sparse ones.

    An error names the column that holds a word or a date, or numbers too large or small to be
    squared (`every_column` as in `check_sizes`), and a remedy for missing entries; masked entries
    are missing.
    """
    named = dict(zip("Xy", tables, strict=False))
    for name, given in named.items():
        if type(given) is np.ndarray and given.dtype != object:
            table = given
            kinds = [given.dtype]
        else:
            refuse_no_table(given, name)
            table = _na_as_nan(densified(unmasked(given)))
            kinds = [getattr(table, "dtype", "")]
            if _is_frame(table):
                _refuse_empty(table, name)
                kinds = list(table.dtypes)
        named[name] = table
        # scikit-learn takes some of these for numbers
        if OTHER_TYPES.search("\n".join(map(str, kinds)).lower()):
            refuse_words(table, name)
    try:
        found = validate_data(estimator, *named.values(), dtype=dtype, **options)
    except OverflowError as error:
        raise ValueError(
            f"{' or '.join(named)} holds a whole number that float64 cannot hold ({error}); scale "
            "its column, or take logarithms."
        ) from None
    except (TypeError, ValueError) as error:
        missing = re.match(r"Input (\w+) contains NaN", str(error))
        if missing is not None:
            raise ValueError(
                f"{missing[0]}, and {type(estimator).__name__} requires complete rows: {remedy}.",
            ) from None
        if isinstance(error, TypeError) or re.search("string to float|a sequence", str(error)):
            for name, table in named.items():
                refuse_words(table, name)
        if "inconsistent numbers of samples" in str(error):
            require_same_rows(*named.values())
        raise
    if not isinstance(found, tuple):
        found = (found,)
    X, *rest = found
    if is_sparse(X):
        X = summed(X)
    names = getattr(estimator, "feature_names_in_", None)
    check_sizes(X, names, options.get("reset", True), every_column)
    if not rest:
        return X
    return (X, *rest)


def _is_frame(table: Any) -> bool:
    """Return whether a table names its columns and their types, as frames of pandas and polars."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def refuse_words(table: Any, table_name: str = "X", remedy: str = WORDS) -> None:
    """Raise for a cell that is no number; "{column}" in the remedy is replaced by its column."""
    if isinstance(table, np.ndarray) and table.dtype.kind in "biuf":
        return
    for column, series in _columns(table):
        cells = np.asarray(series)
        if cells.ndim == 1 and cells.dtype.kind in "biuf":
            continue
        row, odd = next(((i, cell) for i, cell in enumerate(series) if _is_odd(cell)), (0, None))
        if odd is None:
            continue
        place = table_name
        if column is not None:
            place = f"Column {column!r} of {table_name}"
        if isinstance(odd, complex | np.complexfloating):
            raise ValueError(
                f"Complex data not supported: {place} holds {odd}. Use real and imaginary parts "
                "as two columns.",
            )
        if remedy is WORDS and not isinstance(odd, str):
            remedy = DATES if _is_time(odd) else OBJECTS
        shown = " ".join(str(odd).split())
        if isinstance(odd, str):
            shown = repr(str(odd))
        raise ValueError(
            f"{place} holds {shown} in row {row}, which is no number. "
            f"{remedy.format(column=column)}",
        )


def _columns(table: Any) -> list[tuple[Any, Any]]:
    """Return the columns of a table by name or position; of one dimension the whole, unnamed."""
    if _is_frame(table):
        return [(name, table[name]) for name in table.columns]
    cells = np.asarray(table)
    if cells.ndim == 2:
        return list(enumerate(cells.T))
    return [(None, np.atleast_1d(cells))]


def _is_odd(cell: Any) -> bool:
    """Return whether a cell is neither missing nor a real number, or its text is none."""
    if isinstance(cell, complex | np.complexfloating | np.timedelta64) or _is_time(cell):
        return True
    if isinstance(cell, list | tuple | np.ndarray) or hasattr(cell, "dtypes"):
        return True
    if not isinstance(cell, str):
        return type(cell).__name__ in ("Period", "Interval", "Series")
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _is_time(cell: Any) -> bool:
    """Return whether a cell is a date, a time or a duration."""
    types = (date, timedelta, np.datetime64, np.timedelta64)
    return isinstance(cell, types) or type(cell).__name__ == "Period"


def codes_of(X: Any, width: int) -> Array:
    """Return codes that are given back to a model, a row of `width` numbers each."""
    checked = check_array(
        X,
        dtype=FLOATS,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name="codes",
    )
    codes = np.asarray(checked)
    if codes.shape[1] != width:
        raise ValueError(
            f"Expected codes of {width} components for each row, got {codes.shape}: give "
            "transform(X).",
        )
    return codes


def warn_of_empty(
    X: Any,
    names: Sequence[Any] | None = None,
    limits: Array | None = None,
) -> None:
    """Warn of rows and columns of which nothing is known; `names` are those of the columns."""
    if is_sparse(X):
        in_rows = np.diff(X.indptr)
        in_columns = np.bincount(X.indices, minlength=X.shape[1])
    else:
        observed = ~np.isnan(X)
        if limits is not None:
            observed |= np.isfinite(limits).any(axis=0)
        in_rows = observed.any(axis=1)
        in_columns = observed.any(axis=0)
    rows = np.flatnonzero(in_rows == 0).tolist()
    columns = np.flatnonzero(in_columns == 0).tolist()
    if rows:
        have = "row has" if len(rows) == 1 else "rows have"
        warn(
            f"{len(rows)} {have} no observed entry ({_some(rows)}); the model cannot learn from "
            "them.",
        )
    if columns:
        known = list(dict.fromkeys(_name(names, j) for j in columns))
        warn(
            f"These columns have no observed entry: {_some(known)}. The model cannot learn from "
            "them, and completes them by the prediction at 0: 0 under the squared loss, the first "
            "level for categories.",
        )


def _some(names: Sequence[Any]) -> str:
    """Return the first names of a list."""
    shown = [repr(name) if isinstance(name, str) else str(name) for name in names[:5]]
    if len(names) > 5:
        shown.append("...")
    return ", ".join(shown)


def names_of(estimator: Any, schema: Schema | None, width: int) -> list[Any] | None:
    """Return the user's name of each column of numbers; None where some have none."""
    if schema is not None:
        return [schema.codecs[j].name for j in schema.originals]
    names = list(getattr(estimator, "feature_names_in_", ()))
    if len(names) == width:
        return names
    return None


@contextmanager
def naming_columns_in_errors(names: Sequence[Any] | None) -> Iterator[None]:
    """Let an error on illegal values name the columns as the user does, where they have names."""
    try:
        yield
    except IllegalValues as error:
        if names is None:
            raise
        raise error.named(names) from None


def filled(X: Any, table: Any, predicted: Array) -> Any:
    """Return the user's table with its missing entries filled; a sparse one becomes dense."""
    if is_sparse(table):
        rows, columns = table.tocoo().coords
        whole = predicted.copy()
        whole[rows, columns] = table.data
        return whole
    missing = np.isnan(table)
    if hasattr(X, "columns"):
        incomplete = np.flatnonzero(missing.any(axis=0)).tolist()
        return as_table(X).filled({j: predicted[missing[:, j], j] for j in incomplete})
    if missing.any():
        return np.where(missing, predicted, table)
    if is_sparse(X):
        return np.array(table)
    return np.array(X)  # integers stay integers
