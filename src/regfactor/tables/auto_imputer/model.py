"""The fitted cascade: members' predictions of the missing entries of any rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.tables.auto_imputer.conditioning import Conditioned, Normal
from regfactor.tables.auto_imputer.copula import Copula
from regfactor.tables.auto_imputer.local_models import (
    VariableForest,
    VariableKernel,
    fill_by_kernels,
    predict_by_forests,
)

BLOCK_ELEMENTS = 10_000_000  # numbers that are held at once


@frozen
class Predictions:
    """What members predict for the missing entries of rows, in standardized units.

    Attributes
    ----------
    members : array of shape (n_members, n_rows, n_columns)
        Observed entries are as they were.
    variances : array of shape (n_measures, n_rows, n_columns)
        Measures of how far a prediction may be off: the variance under the distribution, and in
        the leaves of trees where there are some.
    """

    members: Array
    variances: Array


@frozen
class Cascade:
    """The stages as they were fitted to the whole table; None where there is none.

    Attributes
    ----------
    names : list of str
        Members that are averaged.
    normals : dict of str to Normal
        The distributions among the members.
    copula : Copula or None
    base : Normal
        The distribution that kernels correct, and from which variances are taken.
    kernels : list of VariableKernel
    forests : list of VariableForest
    """

    names: list[str]
    normals: dict[str, Normal]
    copula: Copula | None
    base: Normal
    kernels: list[VariableKernel]
    forests: list[VariableForest]

    def blocks(self, Z: Array) -> Iterator[slice]:
        """Yield slices of rows that are predicted together."""
        step = max(BLOCK_ELEMENTS // max(Z.shape[1] ** 2, 1), 1)
        for first in range(0, len(Z), step):
            yield slice(first, first + step)

    def predict(self, Z: Array) -> Predictions:
        """Return what members predict for the missing entries of a block of rows."""
        missing = np.isnan(Z)
        base = self.base.condition(Z)
        tables: dict[str, Any] = {}
        for name, normal in self.normals.items():
            if normal is self.base:
                tables[name] = base.filled
            else:
                tables[name] = normal.condition(Z).filled
        if self.copula is not None:
            tables["copula"] = self.copula.predict(Z)
        measures = [base_variances(base, missing)]
        if self.kernels:
            rows = fill_by_kernels(Z, self.kernels, base)
            tables["kernel"] = rows.filled
        if self.forests:
            found = predict_by_forests(self.forests, rows, missing, missing)
            tables["forest"] = found.values
            tables["residual forest"] = found.residuals
            measures.append(found.variances)
        members = np.array([tables[name] for name in self.names])
        return Predictions(members, np.array(measures))


def base_variances(conditioned: Conditioned, wanted: Array) -> Array:
    """Return the variances of wanted entries given the observed, zeros elsewhere."""
    out = np.zeros(wanted.shape)
    for j in np.flatnonzero(wanted.any(axis=0)).tolist():
        rows = wanted[:, j]
        out[rows, j] = conditioned.variances(np.array([j]))[rows, 0]
    return out
