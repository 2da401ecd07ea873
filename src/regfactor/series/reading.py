"""Tables of series and of their inputs, as checked arrays."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from regfactor.core.params import Array, is_number
from regfactor.fitting.columns import unmasked
from regfactor.fitting.inputs import refuse_words


def as_series(estimator: Any, X: Any, reset: bool) -> Array:
    """Return series as a float array, NaN at missing entries; a single one may be a vector."""
    if np.ndim(X) == 1:
        if not reset and estimator.n_features_in_ > 1:
            raise ValueError(
                f"X has one dimension, but the model has {estimator.n_features_in_} series: give a "
                "table with a row for each time, also if there is only one, as S[:1] or "
                "S.iloc[:1] instead of S[0] or S.iloc[0]."
            )
        if hasattr(X, "to_frame"):
            X = X.to_frame()
        elif np.size(X):
            X = np.reshape(X, (-1, 1))
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf":
        remedy = "leave it out"
        if hasattr(X, "iloc"):
            remedy = "set it as the index, X.set_index({column!r})"
        refuse_words(X, remedy=f"If it holds the times of the rows, {remedy}; if not, correct it.")
    if isinstance(X, np.ma.MaskedArray):
        X = unmasked(X)
    return np.asarray(
        validate_data(
            estimator,
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            reset=reset,
        )
    )


def as_inputs(exog: Any, rows: int, expected: int | None = None) -> Array:
    """Return the inputs of so many rows; `expected` is the number of inputs of a fitted model."""
    if exog is None:
        if expected:
            raise ValueError(
                f"The model was fitted with {expected} inputs; give their values for {rows} rows "
                "as exog."
            )
        return np.zeros((rows, 0))
    if expected == 0:
        raise ValueError("The model was fitted without inputs; leave exog out.")
    if np.ndim(exog) == 1:
        exog = np.reshape(np.asarray(exog, dtype=float), (-1, 1))
    names = list(getattr(exog, "columns", range(np.shape(exog)[1])))
    U = np.asarray(
        check_array(exog, dtype=np.float64, input_name="exog", ensure_all_finite="allow-nan")
    )
    if len(U) != rows or (expected is not None and U.shape[1] != expected):
        columns = "any number of" if expected is None else expected
        raise ValueError(f"exog has shape {U.shape}; it needs {rows} rows and {columns} columns.")
    unknown = ~np.isfinite(U)
    if unknown.any():
        column = int(np.argmax(unknown.any(axis=0)))
        where = np.flatnonzero(unknown[:, column])
        shown = ", ".join(map(str, where[:5]))
        raise ValueError(
            f"exog has no finite value in column {names[column]!r}, rows {shown}"
            f"{', ...' if len(where) > 5 else ''}; inputs must be known at all times. Fill them, "
            "or leave the column out."
        )
    return U


def require_at_least(name: str, value: object, least: int) -> None:
    """Raise unless a value is a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")


def check_level(level: object) -> None:
    """Raise unless a level is a number between 0 and 1."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
