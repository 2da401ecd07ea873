"""Sparse tables whose absent entries are observed zeros, read as dense blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Limits
from regfactor.core.params import Array, frozen
from regfactor.losses import Loss
from regfactor.losses.base import EVERYTHING
from regfactor.problems import Data
from regfactor.problems.base import Problem
from regfactor.problems.data import Term
from regfactor.problems.layout import Dense

# Entries of the rows that are held densely at once.
BLOCK_ELEMENTS = 2**18


def row_blocks(shape: tuple[int, int]) -> list[slice]:
    """Return the blocks of rows of a table that are held densely at once."""
    n, d = shape
    height = max(BLOCK_ELEMENTS // max(d, 1), 1)
    return [slice(start, min(start + height, n)) for start in range(0, n, height)]


@frozen
class CountBlocks:
    """L(Z) = sum over all entries of w_i f(z_ij + o_i; x_ij), x_ij = 0 where nothing is stored.

    The table is a CSR array that is never dense as a whole.
    """

    table: Any
    loss: Loss
    offset: Array | None = None  # n x 1
    row_weights: Array | None = None
    regressors: Array | None = None  # n x q, of rows

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the table."""
        n, d = self.table.shape
        return n, d

    @property
    def dtype(self) -> Any:
        """Precision of the table."""
        return self.table.dtype

    @property
    def weights(self) -> Array:
        """The weights of all rows, in float64."""
        if self.row_weights is None:
            return np.ones(self.shape[0])
        return self.row_weights.astype(np.float64)

    def regressors_of(self, rows: slice) -> Array | None:
        """The covariates of some rows."""
        if self.regressors is None:
            return None
        return self.regressors[rows]

    def blocks(self) -> Iterator[tuple[slice, Data]]:
        """Yield blocks of rows as dense data, without the weights of rows."""
        for rows in row_blocks(self.shape):
            x = self.table[rows].toarray()
            offset = None if self.offset is None else self.offset[rows]
            term = Term(self.loss, EVERYTHING, x, offset=offset)
            yield rows, Data((term,), x.shape, Dense(x.shape))

    @property
    def column_means(self) -> Array:
        """The weighted means of the columns."""
        weights = self.weights
        return np.asarray(self.table.T @ weights) / weights.sum()

    @property
    def infimum(self) -> float:
        """-L*(0): the least that L could be with a free predictor in each entry."""
        stored = np.repeat(self.weights, np.diff(self.table.indptr))
        x = self.table.data.astype(np.float64)
        of_stored = stored @ self.loss.conjugate(np.zeros_like(x), x)
        zero = np.zeros(1)
        of_zero = float(self.loss.conjugate(zero, zero)[0])
        n_zeros = self.weights.sum() * self.shape[1] - stored.sum()
        return -float(of_stored + n_zeros * of_zero)

    @property
    def loss_of_means(self) -> float:
        """The loss of the best intercepts alone, where there is no offset."""
        means = self.column_means
        least = self.loss.conjugate(np.zeros_like(means), means)
        return -float(self.weights.sum() * least.sum())


@dataclass(frozen=True, eq=False)
class BlockedFactored(Problem[FactorPoint]):
    """L(Phi C + D B + A E) + alpha/2 (sum_i w_i |phi_i|^2 + |C|^2) at a fixed rank.

    D B are free intercepts of columns and regressions on covariates, A E a free level of rows; each
    may be absent. Levels come last in the codes.
    """

    counts: CountBlocks
    rank: int
    alpha: float
    fit_intercept: bool = True
    levels: bool = False
    start: FactorPoint | None = None
    solvers = ("regfactor.tables.epca.block_newton:BlockNewton",)

    @property
    def free_terms(self) -> Array:
        """D: ones where there are intercepts, then the covariates."""
        D = np.ones((self.counts.shape[0], int(self.fit_intercept)), self.counts.dtype)
        if self.counts.regressors is None:
            return D
        return np.hstack([D, self.counts.regressors.astype(D.dtype)])

    @property
    def smallest_tol(self) -> float:
        """Tolerance below which a change cannot be distinguished from rounding of the data."""
        return float(np.finfo(self.counts.dtype).eps)

    @property
    def sparse(self) -> bool:
        """Whether only the stored entries of the table are held."""
        return True

    def candidates(self, limits: Limits) -> tuple[str, ...]:
        """Return the one solver."""
        return self.solvers

    def check(self) -> None:
        """Raise for more components than rows or columns."""
        n, d = self.counts.shape
        if self.rank > min(n, d):
            raise ValueError(
                f"n_components={self.rank} is more than min(n_samples, n_features): n_samples = "
                f"{n}, n_features = {d}."
            )
