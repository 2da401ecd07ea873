"""Tables of series and of their inputs, as checked arrays."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
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


def require_at_least(name: str, value: object, least: int) -> None:
    """Raise unless a value is a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")


def check_level(level: object) -> None:
    """Raise unless a level is a number between 0 and 1."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
