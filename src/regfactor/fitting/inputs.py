"""Tables and weights at the door of an estimator: dense, sparse or mixed, turned into numbers or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from regfactor.core.linalg import is_sparse, summed
from regfactor.core.params import Array, as_floats, choose, warn
from regfactor.fitting.columns import as_table, unmasked
from regfactor.fitting.schema import AUTO, LABELS, Schema, places
from regfactor.losses import by_columns
from regfactor.problems.checks import IllegalValues, check_weights

ZEROS = {"missing": "missing", "observed": "observed"}
WORDS = "Leave it out or turn it into numbers; SubspaceImputer, ConvexSubspace and FactorModel take it by loss='auto'."
DATES = "Turn it into a number, such as days since the first, or leave it out."
HOLES = "fill the holes before, by SubspaceImputer(loss='auto', alpha='auto') for instance, or leave these rows out"


def schema_of(X: Any, loss: Any) -> Schema | None:
    """Return how a mixed table becomes numbers; None for numbers under losses that are stated for all columns."""
    if is_sparse(X):
        return None
    if _waits(loss, X) or (
        hasattr(X, "columns") and any(c.kind in LABELS for c in as_table(X).columns())
    ):
        return Schema.of(X, loss)
    return None


def _waits(loss: Any, X: Any) -> bool:
    """Whether some column's loss is left to what the column holds."""
    if isinstance(loss, str):
        return loss == AUTO
    groups = by_columns(loss)
    if groups is None:
        return False
    if any(isinstance(part, str) and part == AUTO for _, part in groups):
        return True
    names = as_table(X).names
    return len({j for columns, _ in groups for j in places(columns, names)}) < len(names)


def as_float_table(estimator: Any, X: Any, schema: Schema | None, reset: bool) -> Any:
    """Return a table as floats: an array with NaN at holes, or a CSR array whose absent entries are holes."""
    if schema is not None:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        return schema.encode(X)
    zeros = choose(estimator.sparse_zeros, ZEROS, "sparse_zeros")
    X = validated(
        estimator,
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan",
        reset=reset,
    )
    if not is_sparse(X):
        return np.asarray(X)
    if zeros == "observed":
        return X.toarray()
    X = _without_nan(X)
    # what is stored whole is a dense table
    if X.nnz == np.prod(X.shape):
        return X.toarray()
    return X


def _without_nan(X: Any) -> Any:
    """Return a CSR array with no NaN stored."""
    seen = ~np.isnan(X.data)
    if not seen.all():
        rows, columns = X.nonzero() if X.data.all() else X.tocoo().coords
        X = scipy.sparse.csr_array((X.data[seen], (rows[seen], columns[seen])), shape=X.shape)
    return X


def row_weights(X: Any, sample_weight: Any) -> Array | None:
    """Return the weights of rows, None where all are one."""
    if sample_weight is None:
        return None
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
    weights = np.asarray(entry_weight, X.dtype)
    if schema is not None and weights.ndim == 2 and weights.shape[1] == len(schema.codecs):
        weights = schema.spread(weights)
    if weights.shape != X.shape:
        raise ValueError(
            f"entry_weight has shape {weights.shape}, the table {X.shape}; they must agree.",
        )
    check_weights(weights, ~np.isnan(X), "entry_weight")
    return weights


def _stored_weights(X: Any, entry_weight: Any) -> Any:
    """Return the weights of the stored entries of a sparse table, from a sparse or a dense table of weights."""
    if np.shape(entry_weight) != X.shape:
        raise ValueError(
            f"entry_weight has shape {np.shape(entry_weight)}, the table {X.shape}; they must agree.",
        )
    rows, columns = X.tocoo().coords
    sparse = is_sparse(entry_weight)
    if sparse:
        values = scipy.sparse.csr_array(entry_weight)[rows, columns]
    else:
        values = np.asarray(entry_weight)[rows, columns]
    return scipy.sparse.csr_array(
        (np.asarray(values, X.dtype).ravel(), X.indices, X.indptr),
        shape=X.shape,
    )


def validated(estimator: Any, *tables: Any, remedy: str = HOLES, **options: Any) -> Any:
    """Return tables as scikit-learn's `validate_data` does, sparse ones with every place stored once.

    An error says which column holds a word or a date, and who takes holes; what is masked is one.
    """
    tables = tuple(unmasked(table) for table in tables)
    for table, name in zip(tables, "Xy", strict=False):
        if _holds_dates(table):  # which scikit-learn takes for numbers where there is nothing else
            refuse_words(table, name)
    try:
        found = validate_data(estimator, *tables, **options)
        X, *rest = found if isinstance(found, tuple) else (found,)
        X = summed(X) if is_sparse(X) else X
        if rest:
            return (X, *rest)
        return X
    except (TypeError, ValueError) as error:
        hole = re.match(r"Input (\w+) contains NaN", str(error))
        if hole is not None:
            raise ValueError(
                f"{hole[0]}, and {type(estimator).__name__} wants complete rows: {remedy}.",
            ) from None
        if isinstance(error, TypeError) or "string to float" in str(error):
            for table, name in zip(tables, "Xy", strict=False):
                refuse_words(table, name)
        raise


def _is_frame(table: Any) -> bool:
    """Whether a table has names of columns and their types, as those of pandas and polars, and not of arrow."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def _holds_dates(table: Any) -> bool:
    if _is_frame(table):
        kinds = set(table.dtypes)
    else:
        kinds = {getattr(table, "dtype", "")}
    return any(str(kind).lower().startswith("date") for kind in kinds)


def refuse_words(table: Any, table_name: str = "X", remedy: str = WORDS) -> None:
    """Raise for a column that holds a word or a date, and say what to do with it; {column} is its name in `remedy`."""
    if _is_frame(table):
        columns = [(name, table[name]) for name in table.columns]
    else:
        cells = np.asarray(table)
        columns = list(enumerate(cells.T)) if cells.ndim == 2 else []
    for column, series in columns:
        plain = np.asarray(series).dtype.kind in "biuf"
        odd = None if plain else next((v for v in series if _is_odd(v)), None)
        if odd is not None:
            shown = repr(str(odd)) if isinstance(odd, str) else odd
            if isinstance(odd, str) or remedy is not WORDS:
                remedy = remedy
            else:
                remedy = DATES
            raise ValueError(
                f"Column {column!r} of {table_name} holds {shown}, which is no number. {remedy.format(column=column)}",
            )


def _is_odd(cell: Any) -> bool:
    """Whether a cell is a date, or a word that is no number."""
    if not isinstance(cell, str):
        return isinstance(cell, date | np.datetime64)
    try:
        float(cell)
    except ValueError:
        return True
    return False


def codes_of(X: Any, width: int) -> Array:
    """Return codes that are given back to a model, a row of `width` numbers each."""
    codes = np.asarray(
        check_array(
            X,
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name="codes",
        ),
    )
    if codes.shape[1] != width:
        raise ValueError(
            f"Expected codes of {width} components for each row, got {codes.shape}: give transform(X).",
        )
    return codes


def holes(X: Any) -> tuple[Array, Array]:
    """Return the rows and the columns without an observed entry."""
    if is_sparse(X):
        counts = np.diff(X.indptr), np.bincount(X.indices, minlength=X.shape[1])
        return np.flatnonzero(counts[0] == 0), np.flatnonzero(counts[1] == 0)
    missing = np.isnan(X)
    return np.flatnonzero(missing.all(axis=1)), np.flatnonzero(missing.all(axis=0))


def warn_of_empty(X: Any, names: Sequence[Any] | None = None) -> None:
    """Warn of rows and columns from which nothing can be learned; `names` are the user's, of each column of X."""
    rows, columns = holes(X)
    if len(rows):
        some = _some(rows.tolist())
        have = "row has" if len(rows) == 1 else "rows have"
        warn(f"{len(rows)} {have} no observed entry ({some}); the model cannot learn from them.")
    if len(columns):
        known = list(dict.fromkeys(j if names is None else names[j] for j in columns.tolist()))
        warn(
            f"These columns have no observed entry: {_some(known)}. The model cannot learn from them, and completes "
            "them by what a predictor of 0 means: 0 under the squared loss, the first level for categories.",
        )


def _some(names: Sequence[Any]) -> str:
    """Return the first names of a list; numbers of numpy as plain ones."""
    return ", ".join(repr(n) if isinstance(n, str) else str(n) for n in names[:5]) + (
        ", ..." if len(names) > 5 else ""
    )


def names_of(estimator: Any, schema: Schema | None, width: int) -> list[Any] | None:
    """Return the name that the user has for each column of numbers; None where some have none, as labels beside X."""
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
        raise error if names is None else error.named(names) from None


def filled(X: Any, table: Any, predicted: Array, schema: Schema | None) -> Any:
    """Return the table that the user gave with its holes filled; a sparse one becomes dense, since it has no holes."""
    if schema is not None:
        return schema.decode(predicted, X)
    if is_sparse(table):
        rows, columns = table.tocoo().coords
        whole = predicted.copy()
        whole[rows, columns] = table.data
        return whole
    missing = np.isnan(table)
    if hasattr(X, "columns"):
        return as_table(X).filled(
            {j: predicted[missing[:, j], j] for j in np.flatnonzero(missing.any(axis=0)).tolist()},
        )
    if missing.any():
        return np.where(missing, predicted, table)
    return np.array(table if is_sparse(X) else X)  # whole numbers stay so
