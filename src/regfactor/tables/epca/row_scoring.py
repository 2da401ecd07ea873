"""Codes of rows under fixed components, and a fit in which every row is scored so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.params import Array, frozen
from regfactor.losses import Gamma, Multinomial
from regfactor.penalties import PowerPenalty
from regfactor.problems import Convex, Data, Factored
from regfactor.solvers.updates import newton_rows
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.inputs import EpcaInputs
from regfactor.tables.epca.observation import ObservationModel
from regfactor.tables.epca.problem import with_all_columns

# Entries of the rows that are scored at once, so that intermediate arrays stay cached.
BLOCK_ELEMENTS = 100_000
# At least so many rows at once: products of components are formed for every block.
MIN_BLOCK_ROWS = 256


@frozen
class RowKinds:
    """Which rows have information, and which of them do not lie wholly at one end of the range."""

    informative: Array
    inside: Array


@frozen
class RowScoring:
    """min over phi, level of sum_j w f((phi C)_j + level + b_j + o_j; x_j) + sum ridge phi^2 / 2.

    Offsets o_j of a row are part of the data, what its covariates add too.

    Codes are phi @ rotation: published components are balanced with the codes of all rows, while
    rows are scored by those for which the codes are exact. At the optimum both are the same.
    `start` holds codes, and the level if there are levels, at which every predictor is legal.
    """

    observation: ObservationModel
    C: Array
    intercept: Array
    ridge: Array
    levels: bool
    start: Array
    rotation: Array
    slopes: Array | None = None  # coefficients of covariates

    def data(self, rows: WeightedTable) -> Data:
        """Return the data of rows, at what their covariates add to the predictors."""
        return self.shifted(self.observation.data(rows), rows.regressors)

    def added(self, rows: WeightedTable) -> Array | None:
        """Return what is added to the predictors of rows: offsets, exposures, and covariates."""
        offset = self.observation.offset(rows)
        if self.slopes is None or rows.regressors is None:
            return offset
        by_covariates = rows.regressors.astype(rows.table.dtype) @ self.slopes
        if offset is None:
            return by_covariates
        return offset + by_covariates

    def shifted(self, data: Data, regressors: Array | None) -> Data:
        """Return data at what covariates add to the predictors."""
        if self.slopes is None or regressors is None:
            return data
        return data.shifted(regressors.astype(data.dtype), self.slopes.astype(data.dtype))

    def __call__(self, data: Data, start: Array | None = None) -> tuple[Array, Array]:
        """Return phi @ rotation and the level of each row; zeros for a row without information."""
        n, d = data.shape
        height = max(BLOCK_ELEMENTS // max(d, 1), MIN_BLOCK_ROWS)
        if data.layout.sparse or n <= height:
            return self._score_block(data, start)
        codes = []
        levels = []
        for first in range(0, n, height):
            rows = slice(first, first + height)
            begin = None if start is None else start[rows]
            block_codes, block_levels = self._score_block(data.of_rows(rows), begin)
            codes.append(block_codes)
            levels.append(block_levels)
        return np.concatenate(codes), np.concatenate(levels)

    def _score_block(self, data: Data, start: Array | None) -> tuple[Array, Array]:
        """Return codes and levels of one block of rows."""
        n, d = data.shape
        dtype = data.dtype
        k = len(self.C)
        m = int(self.levels)
        if not k + m:
            return np.zeros((n, 0), dtype), np.zeros(n, dtype)
        if start is None:
            start = np.broadcast_to(self.start, (n, k + m))
        C = np.vstack([self.C, np.ones((m, d))]).astype(dtype)
        penalty = PowerPenalty(2.0, np.concatenate([self.ridge, np.zeros(m)]))
        shifted = data.shifted(np.ones((n, 1), dtype), self.intercept.astype(dtype)[None])
        found = newton_rows(shifted, start.astype(dtype), C, penalty, 1.0)
        found = np.where(self.kinds(data).informative[:, None], found, 0)
        codes = found[:, :k] @ self.rotation.astype(dtype)
        return codes, found[:, k:].sum(axis=1)

    def with_centered_levels(
        self,
        level: Array,
        weights: Array,
        rows: RowKinds,
    ) -> tuple[RowScoring, Array]:
        """Return the same scoring with levels of mean zero, and these levels.

        Intercepts take over the mean. A row without information keeps its level of zero. One that
        lies wholly at an end of the range has an unbounded level, which is left out of the mean.
        """
        weights = weights * rows.inside
        if not weights.any():
            return self, level
        k = len(self.C)
        mean = np.average(level, weights=weights).astype(level.dtype)
        start = np.append(self.start[:k], self.start[k:] - mean)
        centered = np.where(rows.informative, level - mean, 0)
        return replace(self, intercept=self.intercept + mean, start=start), centered

    def kinds(self, data: Data) -> RowKinds:
        """Return which rows have an observed entry (of shares, a count), and which a finite level.

        The level of a row that lies wholly at one end of the range is unbounded.
        """
        t = data.terms[0]
        information = t.weights
        if isinstance(self.observation.loss, Multinomial):
            information = t.weights * t.x
        if t.w is None:
            observed = np.ones_like(t.x)
        else:
            observed = t.w > 0
        above = data.layout.row_sums(observed * (t.x > t.loss.domain.low)) > 0
        below = data.layout.row_sums(observed * (t.x < t.loss.domain.high)) > 0
        return RowKinds(data.layout.row_sums(information) > 0, above & below)

    def balanced(self, codes: Array, weights: Array) -> tuple[RowScoring, Array]:
        """Return the same scoring with codes and components balanced, and those components.

        Weights act as repetition counts of rows. The rotation T solves C = T C_new, whose rows
        are orthogonal.
        """
        root = np.sqrt(weights)[:, None].astype(self.C.dtype)
        k = len(self.C)
        F = rebalance(Factors(codes * root, self.C))
        size = np.square(F.C).sum(axis=1)
        kept = size > np.finfo(F.C.dtype).eps * size.max(initial=0)
        n_kept = int(kept.sum())
        C = np.zeros_like(self.C)
        C[:n_kept] = F.C[kept]
        rotation = np.zeros((k, k), self.C.dtype)
        rotation[:, :n_kept] = self.C @ (F.C[kept] / size[kept, None]).T
        largest = np.abs(C).argmax(axis=1)[:, None]
        sign = np.sign(np.take_along_axis(C, largest, axis=1))
        return replace(self, rotation=rotation * sign.T), C * sign


@frozen
class FittedRows:
    """The codes and levels of all rows, and the scoring and components that they belong to."""

    scoring: RowScoring
    codes: Array
    components: Array
    level: Array

    @property
    def intercept(self) -> Array:
        """The offsets of the columns."""
        return self.scoring.intercept


def fit_rows(
    inputs: EpcaInputs,
    problem: Convex | Factored,
    point: FactorPoint,
    fit_intercept: bool,
) -> FittedRows:
    """Return all rows scored exactly under the components of a point, then balanced with them."""
    given = inputs.given
    scoring, start = _scoring_at(inputs, problem, with_all_columns(point, inputs))
    if inputs.learned is given:
        data = scoring.shifted(inputs.data, given.regressors)
    else:
        data = scoring.data(given)
    codes, level = scoring(data, start)
    if scoring.levels and fit_intercept:
        scoring, level = scoring.with_centered_levels(level, given.weights, scoring.kinds(data))
    if isinstance(problem, Convex):
        return FittedRows(scoring, codes, scoring.C, level)
    scoring, components = scoring.balanced(codes, given.weights)
    return FittedRows(scoring, codes @ scoring.rotation, components, level)


def _scoring_at(
    inputs: EpcaInputs,
    problem: Convex | Factored,
    point: FactorPoint,
) -> tuple[RowScoring, Array]:
    """Return the scoring under the components of a point, and its codes as a start."""
    loss = inputs.observation.loss
    table = inputs.given.table
    if isinstance(problem, Factored):
        m = 0 if problem.extra_components is None else len(problem.extra_components)
        k = problem.rank
        F = padded(point.factors, k, m)
        codes = F.codes
        ridge = np.full(k, float(problem.alpha))
    else:
        F = point.factors.canonical(problem.gauge.power)
        m = int(isinstance(loss, Multinomial))
        k = F.rank
        codes = F.codes * problem.map.diagonal
        # the ridge under which training rows have their codes again: that of the trace norm, p = 2
        ridge = problem.alpha / np.linalg.norm(F.codes, axis=0)
    first = np.zeros(k + m, table.dtype)
    if isinstance(loss, Gamma):
        # the link domain is convex: the mean of legal rows is legal
        first += codes.mean(axis=0)
    start = np.tile(first, (table.shape[0], 1))
    start[inputs.given.counted, : codes.shape[1]] = codes
    free = free_coefficients(point, inputs.given.regressors, table.dtype)
    rotation = np.eye(k, dtype=table.dtype)
    scoring = RowScoring(
        inputs.observation,
        F.C[:k],
        free.intercept,
        ridge,
        m > 0,
        first,
        rotation,
        free.slopes,
    )
    return scoring, start


@frozen
class FreeCoefficients:
    """Offsets of the columns, zero where there is no intercept, and coefficients of covariates."""

    intercept: Array
    slopes: Array | None


def free_coefficients(
    point: FactorPoint,
    regressors: Array | None,
    dtype: Any,
) -> FreeCoefficients:
    """Return the free coefficients of a point: intercepts, if any, come first."""
    B = np.zeros((0, point.factors.shape[1]), dtype)
    if point.coefficients is not None:
        B = point.coefficients.astype(dtype)
    n_slopes = 0
    if regressors is not None:
        n_slopes = regressors.shape[1]
    n_intercepts = len(B) - n_slopes
    # the sum of one intercept, or of none
    intercept = B[:n_intercepts].sum(axis=0)
    return FreeCoefficients(intercept, B[n_intercepts:] if n_slopes else None)


def padded(F: Factors, k: int, m: int) -> Factors:
    """Return k atoms, zero where the balance has removed some, and the last m."""
    have = F.rank - m
    codes = np.zeros((F.shape[0], k + m), F.C.dtype)
    codes[:, :have] = F.codes[:, :have]
    codes[:, k:] = F.codes[:, have:]
    C = np.zeros((k + m, F.shape[1]), F.C.dtype)
    C[:have] = F.C[:have]
    C[k:] = F.C[have:]
    return Factors(codes, C)
