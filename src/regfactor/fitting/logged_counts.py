"""Logarithms of counts that are given as counts: found by their exponentials.

Of x = log(1 + s_i n_ij) with whole n_ij, as single-cell tools normalize counts, exp(x) - 1 of a row
are whole multiples of the smallest, where that is of a single count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, warn
from regfactor.losses import NegativeBinomial, Poisson, Robust
from regfactor.losses.base import Loss

COUNT_LOSSES = (Poisson, NegativeBinomial)
MAX_ROWS = 200  # of a table that are looked at
MIN_VALUES = 4  # different ones in a row, so that multiples are no chance
MIN_ROWS = 5
LARGEST_MULTIPLE = 100.0  # beyond which rounding in single precision hides whole numbers
LARGEST_LOGARITHM = 20.0  # beyond which a count would exceed 4e8
ROUNDING = 5e-3
SHARE = 0.8  # of the rows that look like logarithms


def warn_of_logarithms(X: Any, loss: Loss) -> None:
    """Warn if a loss of counts gets a table that looks like logarithms of counts."""
    columns = _count_columns(loss, X.shape[1])
    if columns is None:
        return
    rows = np.linspace(0, X.shape[0] - 1, min(MAX_ROWS, X.shape[0])).astype(int)
    found = [_looks_logged(_positive(X, i, columns)) for i in rows]
    judged = [logged for logged in found if logged is not None]
    if len(judged) >= MIN_ROWS and np.mean(judged) >= SHARE:
        warn(
            "This loss is one of counts, and the table looks like their logarithms: exp(x) - 1 of "
            "a row are multiples of one number, as in log-normalized single cells. Give the "
            "counts, such as adata.layers['counts'], with row_offset='total' of "
            "ExponentialFamilyPCA for the totals of rows; or use loss='squared'."
        )


def _count_columns(loss: Loss, d: int) -> Array | None:
    """Return a mask of the columns under a loss of counts; None for no column."""
    counted = np.zeros(d, bool)
    for columns, part in loss.parts(d):
        inner = part.loss if isinstance(part, Robust) else part
        counted[columns] = isinstance(inner, COUNT_LOSSES)
    if counted.any():
        return counted
    return None


def _positive(X: Any, i: int, columns: Array) -> Array:
    """Return the different positive values of a row."""
    if is_sparse(X):
        stored = slice(X.indptr[i], X.indptr[i + 1])
        values = X.data[stored][columns[X.indices[stored]]]
    else:
        values = X[i, columns]
    return np.unique(values[values > 0].astype(np.float64))


def _looks_logged(values: Array) -> bool | None:
    """Return whether a row holds logarithms of counts; None for too few values to tell."""
    if len(values) < MIN_VALUES:
        return None
    are_whole = bool((values == np.rint(values)).all())
    if are_whole or values[-1] > LARGEST_LOGARITHM:
        return False
    if _are_multiples(values):  # rates of counts
        return False
    return _are_multiples(np.expm1(values))


def _are_multiples(values: Array) -> bool | None:
    """Return whether values are whole multiples of the first; None for too few to tell."""
    multiples = values / values[0]
    near = multiples[multiples <= LARGEST_MULTIPLE]
    if len(near) < MIN_VALUES:
        return None
    return bool(np.abs(near - np.rint(near)).max() <= ROUNDING)
