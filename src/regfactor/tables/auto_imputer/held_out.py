"""Entries that are held out of a table, by which members are weighed and intervals calibrated."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.auto_imputer.variables import Variable

HELD_OUT_SHARE = 0.0625  # of each variable and fold: the pattern of missing entries stays as it is
MIN_OBSERVED = 8  # entries below which none of a variable is held out


def hold_out(
    Z: Array, variables: list[Variable], n_folds: int, random: np.random.Generator
) -> list[Array]:
    """Return a mask of held-out entries for each fold; the folds are disjoint.

    Columns of one variable are held out together. A row that would lose its last entry keeps all,
    unless there is one variable only, whose entries nothing predicts.
    """
    masks = [np.zeros(Z.shape, dtype=bool) for _ in range(n_folds)]
    for variable in variables:
        rows = np.flatnonzero(~np.isnan(Z[:, variable.columns[0]]))
        if len(rows) < MIN_OBSERVED:
            continue
        size = int(np.ceil(HELD_OUT_SHARE * len(rows)))
        order = random.permutation(rows)
        for fold, mask in enumerate(masks):
            chosen = order[fold * size : (fold + 1) * size]
            mask[np.ix_(chosen, variable.columns)] = True
    if len(variables) < 2:
        return masks
    for mask in masks:
        emptied = ~(~np.isnan(Z) & ~mask).any(axis=1)
        mask[emptied] = False
    return masks
