"""A standardized table, divided into parts with held-out entries and the table itself."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.auto_imputer.held_out import hold_out
from regfactor.tables.auto_imputer.stages import CascadeData, Part
from regfactor.tables.auto_imputer.variables import Standardization

N_FOLDS = 3
MAX_FOLD_ROWS = 3000  # of which weights and intervals are found
MAX_GLOBAL_ROWS = 4000  # to which distributions are fitted
MAX_COEFFICIENTS = 20_000_000  # of missing on observed entries, which are kept for all rows


def cascade_data(Z: Array, weights: Array, layout: Standardization, seed: int) -> CascadeData:
    """Return the parts of a table; folds of a long one have fewer rows."""
    random = np.random.default_rng(seed)
    n_rows = len(Z)
    rows = np.arange(n_rows)
    if n_rows > MAX_FOLD_ROWS:
        rows = np.sort(random.choice(n_rows, MAX_FOLD_ROWS, replace=False))
    truth = Z[rows]
    parts = []
    for mask in hold_out(truth, layout.variables, N_FOLDS, random):
        if mask.any():
            masked = np.where(mask, np.nan, truth)
            parts.append(Part(masked, truth, weights[rows], mask, np.arange(len(rows))))
    local = _local_rows(Z, random)
    if local is not None:
        Z = Z[local]
        weights = weights[local]
    chosen = np.arange(len(Z))
    if len(Z) > MAX_GLOBAL_ROWS:
        chosen = np.sort(random.choice(len(Z), MAX_GLOBAL_ROWS, replace=False))
    parts.append(Part(Z, Z, weights, np.zeros(Z.shape, dtype=bool), chosen))
    return CascadeData(parts, layout, seed)


def _local_rows(Z: Array, random: np.random.Generator) -> Array | None:
    """Return the rows that kernels and forests are fitted to; None for all of them."""
    n_rows, n_columns = Z.shape
    per_row = max(float(np.isnan(Z).sum(axis=1).mean()), 1.0) * max(n_columns, 1)
    most = int(MAX_COEFFICIENTS / per_row)
    if n_rows <= most:
        return None
    return np.asarray(np.sort(random.choice(n_rows, max(most, 200), replace=False)))
