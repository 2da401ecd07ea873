"""What the rows of a table are given, and their codes under fixed components of an exponential family."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.params import Array
from regfactor.fitting.canonical import canonical_factors
from regfactor.losses import Gamma, Multinomial
from regfactor.penalties import PowerPenalty
from regfactor.problems import Convex, Data, Factored
from regfactor.solvers.updates import newton_rows
from regfactor.tables.epca.families import Reading
from regfactor.tables.epca.inputs import Given

ENTRIES = (
    100_000  # of the rows that are scored at once, so that what is computed on the way stays cached
)
ROWS = 256  # that are scored at once at least: products of components are formed for every block


@dataclass(frozen=True, eq=False)
class RowFit:
    """min over phi and a level of sum_j w f((phi C)_j + level + b_j + offset_j; x_j) + sum_i ridge_i phi_i^2 / 2.

    Codes are phi @ turn: the components that are published are balanced with the codes of all rows,
    those that rows are scored by are the ones for which the codes are exact. At the optimum both
    are the same.
    """

    reading: Reading
    C: Array
    intercept: Array
    ridge: Array
    levels: bool
    first: Array  # codes, and the level if there are levels, at which every predictor is legal
    turn: Array

    def __call__(self, data: Data, start: Array | None = None) -> tuple[Array, Array]:
        """Return phi @ turn and the level of each row; a row of which nothing is known has zeros."""
        n = data.shape[0]
        step = max(ENTRIES // max(data.shape[1], 1), ROWS)
        if data.layout.sparse or n <= step:
            return self._of_block(data, start)
        blocks = [slice(first, first + step) for first in range(0, n, step)]
        found = [
            self._of_block(data.of_rows(rows), None if start is None else start[rows])
            for rows in blocks
        ]
        codes, levels = zip(*found, strict=True)
        return np.concatenate(codes), np.concatenate(levels)

    def _of_block(self, data: Data, start: Array | None) -> tuple[Array, Array]:
        """Return codes and levels of one block of rows."""
        (n, d) = data.shape
        dtype = data.dtype
        k = len(self.C)
        m = int(self.levels)
        if not k + m:
            return np.zeros((n, 0), dtype), np.zeros(n, dtype)
        if start is None:
            begin = np.broadcast_to(self.first, (n, k + m))
        else:
            begin = start
        C = np.vstack([self.C, np.ones((m, d))]).astype(dtype)
        penalty = PowerPenalty(2.0, np.concatenate([self.ridge, np.zeros(m)]))
        shifted = data.shifted(np.ones((n, 1), dtype), self.intercept.astype(dtype)[None])
        found = newton_rows(shifted, begin.astype(dtype), C, penalty, 1.0)
        found = np.where(self._known(data)[:, None], found, 0)
        return found[:, :k] @ self.turn.astype(dtype), found[:, k:].sum(axis=1)

    def about_mean(self, data: Data, level: Array, weights: Array) -> tuple[RowFit, Array]:
        """Return the same scoring with levels about their mean, which intercepts take over, and these levels.

        A row of which nothing is known keeps its level of zero. One that lies wholly at an end of
        the range has a level without bound, which is left out of the mean.
        """
        t = data.terms[0]
        sums = data.layout.row_sums
        seen = np.ones_like(t.x) if t.w is None else t.w > 0
        ends = t.loss.domain.low, t.loss.domain.high
        weights = weights * (sums(seen * (t.x > ends[0])) > 0) * (sums(seen * (t.x < ends[1])) > 0)
        if not weights.any():
            return self, level
        k = len(self.C)
        mean = np.average(level, weights=weights).astype(level.dtype)
        first = np.append(self.first[:k], self.first[k:] - mean)
        level = np.where(self._known(data), level - mean, 0)
        return replace(self, intercept=self.intercept + mean, first=first), level

    def _known(self, data: Data) -> Array:
        """Tell which rows have an observed entry; of shares nothing is known from a row without a count."""
        t = data.terms[0]
        shares = isinstance(self.reading.loss, Multinomial)
        return np.asarray(data.layout.row_sums(t.weights * t.x if shares else t.weights) > 0)

    def balanced(self, codes: Array, weights: Array) -> tuple[RowFit, Array]:
        """Return the same scoring with codes and components balanced, and those components.

        Rows of weight w count w times in the balance. The turn T solves C = T C_new, whose rows are
        orthogonal.
        """
        root = np.sqrt(weights)[:, None].astype(self.C.dtype)
        k = len(self.C)
        F = rebalance(Factors(codes * root, self.C))
        size = np.square(F.C).sum(axis=1)
        kept = size > np.finfo(F.C.dtype).eps * size.max(initial=0)
        C, turn = np.zeros_like(self.C), np.zeros((k, k), self.C.dtype)
        C[: kept.sum()] = F.C[kept]
        turn[:, : kept.sum()] = self.C @ (F.C[kept] / size[kept, None]).T
        sign = np.sign(np.take_along_axis(C, np.abs(C).argmax(axis=1)[:, None], axis=1))
        return replace(self, turn=turn * sign.T), C * sign


def row_fit(
    given: Given,
    reading: Reading,
    problem: Convex | Factored,
    point: FactorPoint,
) -> tuple[RowFit, Array]:
    """Return how rows are scored under the components of a point, and its codes as a start."""
    if isinstance(problem, Factored):
        m = 0 if problem.extra_components is None else len(problem.extra_components)
        k = problem.rank
        F = _padded(point.factors, k, m)
        codes = F.codes
        ridge = np.full(k, float(problem.alpha))
    else:
        F = canonical_factors(point.factors, problem.gauge.power)
        codes = F.codes * problem.map.diagonal
        m = int(isinstance(reading.loss, Multinomial))
        k = F.rank
        # the ridge under which training rows have their codes again: that of the trace norm, p = 2
        ridge = problem.alpha / np.linalg.norm(F.codes, axis=0)
    dtype = given.table.dtype
    first = np.zeros(k + m, dtype)
    if isinstance(
        reading.loss,
        Gamma,
    ):  # the link domain is convex: the mean of legal rows is legal
        first += codes.mean(axis=0)
    start = np.tile(first, (given.table.shape[0], 1))
    start[given.counted, : codes.shape[1]] = codes
    if point.coefficients is None:
        intercept = np.zeros(F.shape[1], dtype)
    else:
        intercept = point.coefficients[0].astype(dtype)
    return RowFit(reading, F.C[:k], intercept, ridge, m > 0, first, np.eye(k, dtype=dtype)), start


def _padded(F: Factors, k: int, m: int) -> Factors:
    """Return k atoms, of zeros where the balance has removed some, and the last m."""
    have = F.rank - m
    codes = np.zeros((F.shape[0], k), F.C.dtype)
    C = np.zeros((k, F.shape[1]), F.C.dtype)
    codes[:, :have] = F.codes[:, :have]
    C[:have] = F.C[:have]
    return Factors(np.hstack([codes, F.codes[:, have:]]), np.vstack([C, F.C[have:]]))
