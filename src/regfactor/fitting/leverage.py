"""How well the observed entries of a row determine its codes: posterior covariances of codes.

At codes phi of least cost, sum_j w_j f((phi C + b)_j; x_j) + (1/2) sum_k r_k phi_k^2 has the
Hessian A = sum_j w_j f''_j c_j c_j' + diag(r). In units of the dispersion of the loss its inverse
is the covariance of the codes: exactly for the squared loss, by Laplace's method for others. The
leverage c_j' A^-1 c_j of a column is the variance of its predictor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.problems import Data
from regfactor.problems.layout import Dense, Pattern

BLOCK_ELEMENTS = 4_000_000  # numbers of k x k matrices that are held at once
# beyond these, columns times squared rank and rows times that, widths follow the noise alone
MAX_PAIRS = 20_000_000
MAX_PRODUCTS = 2e10
TINY_RIDGE = 1e-8  # of a penalty that is no ridge, relative to the mean curvature


@dataclass(frozen=True)
class HeldOutEntries:
    """Entries that a fit did not see: column, datum, predictor, leverage in the fit, and row."""

    rows: Array
    columns: Array
    x: Array
    z: Array
    leverage: Array

    def with_numbers(self) -> HeldOutEntries:
        """Return the entries whose datum is a number; others are known by limits alone."""
        known = ~np.isnan(self.x)
        if known.all():
            return self
        return HeldOutEntries(
            self.rows[known],
            self.columns[known],
            self.x[known],
            self.z[known],
            self.leverage[known],
        )

    @staticmethod
    def stacked(parts: list[HeldOutEntries]) -> HeldOutEntries:
        """Return the entries of several fits as those of one."""
        return HeldOutEntries(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.x for part in parts]),
            np.concatenate([part.z for part in parts]),
            np.concatenate([part.leverage for part in parts]),
        )


def code_covariances(data: Data, P: Array, C: Array, strengths: Array) -> Iterator[Any]:
    """Yield blocks of rows with the covariances of their codes, in units of the dispersion.

    `P` are predictors by entries, `strengths` the ridge of each code.
    """
    k = len(C)
    n = data.shape[0]
    curvature = data.hessian(P)
    curvature = np.where(np.isfinite(curvature), curvature, 0).astype(np.float64)
    pairs = np.einsum("kj,lj->jkl", C, C, dtype=np.float64).reshape(C.shape[1], k * k)
    floor = TINY_RIDGE * max(float(curvature.mean()) if curvature.size else 0.0, 1e-12)
    ridge = np.diag(np.maximum(strengths, floor))
    height = max(BLOCK_ELEMENTS // max(k * k, 1), 1)
    for start in range(0, n, height):
        rows = np.arange(start, min(start + height, n))
        part = data.of_rows(rows)
        stretch = _entries_of_rows(data, curvature, rows)
        grams = part.layout.times(stretch, pairs).reshape(len(rows), k, k)
        yield rows, np.linalg.inv(grams + ridge)


def leverages(data: Data, P: Array, C: Array, strengths: Array) -> Array:
    """Return the leverage of every cell of the rows of a table, observed or not."""
    n, d = data.shape
    out = np.zeros((n, d))
    if not len(C) or _is_too_large(data, C):
        return out
    k = len(C)
    pairs = np.einsum("kj,lj->jkl", C, C, dtype=np.float64).reshape(d, k * k)
    for rows, covariances in code_covariances(data, P, C, strengths):
        out[rows] = covariances.reshape(len(rows), k * k) @ pairs.T
    return out


def leverages_at(
    data: Data,
    P: Array,
    C: Array,
    strengths: Array,
    cells: tuple[Array, Array],
) -> Array:
    """Return the leverage of some cells, given by their rows and columns."""
    rows, columns = cells
    out = np.zeros(len(rows))
    if not len(C) or _is_too_large(data, C):
        return out
    order = np.argsort(rows, kind="stable")
    for block, covariances in code_covariances(data, P, C, strengths):
        first, last = np.searchsorted(rows[order], [block[0], block[-1] + 1])
        here = order[first:last]
        loadings = C[:, columns[here]].T.astype(np.float64)
        moved = np.einsum("ikl,il->ik", covariances[rows[here] - block[0]], loadings)
        out[here] = (moved * loadings).sum(axis=1)
    return out


def _is_too_large(data: Data, C: Array) -> bool:
    """Return whether covariances of codes would take too much memory or time."""
    pairs = C.shape[1] * len(C) ** 2
    return pairs > MAX_PAIRS or float(pairs) * data.shape[0] > MAX_PRODUCTS


def _entries_of_rows(data: Data, entries: Array, rows: Array) -> Array:
    """Return the entries of some consecutive rows, in the layout of these rows alone."""
    if isinstance(data.layout, Dense):
        return entries[rows]
    assert isinstance(data.layout, Pattern)
    stretch = slice(data.layout.indptr[rows[0]], data.layout.indptr[rows[-1] + 1])
    return entries[stretch]


def places_of(data: Data) -> tuple[Array, Array]:
    """Return rows and columns of the observed entries."""
    if isinstance(data.layout, Pattern):
        return data.layout.rows, data.layout.indices
    rows, columns = np.nonzero(data.observed)
    return rows, columns


def values_at(data: Data, entries: Array, cells: tuple[Array, Array]) -> Array:
    """Return an array of entries at the places of `places_of`, as a vector."""
    if isinstance(data.layout, Pattern):
        return entries
    return np.asarray(entries[cells])
