"""Fits to large sparse tables: choices on a sample of rows, and the codes of all rows by blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Limits, run
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Run
from regfactor.fitting.dispersion import pooled_theta
from regfactor.fitting.selection import Selection
from regfactor.losses import NegativeBinomial
from regfactor.problems import Data
from regfactor.solvers.base import solve_within
from regfactor.tables.epca.block_newton import BlockNewton
from regfactor.tables.epca.blocked_inputs import BlockedInputs
from regfactor.tables.epca.count_blocks import BlockedFactored, CountBlocks
from regfactor.tables.epca.deviance import MAX_NULL_SWEEPS, NULL_TOL
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.fitted_values import FittedValues
from regfactor.tables.epca.heldout import HeldOutSearch, alpha_max
from regfactor.tables.epca.problem import factored_problem
from regfactor.tables.epca.row_scoring import (
    FittedRows,
    RowKinds,
    RowScoring,
    free_coefficients,
    padded,
)

SAMPLE_ELEMENTS = 2**21  # entries of the rows on which strength and number of components are chosen
DISPERSION_ELEMENTS = 2**19  # entries of the rows whose dispersion is found
N_FOLDS = 4  # an entry has its mean from the other entries of its row
DISPERSION_LIMITS = Limits(tol=1e-3, max_iter=6)
N_ROUNDS = 2


def scoring_at(inputs: BlockedInputs, problem: BlockedFactored, point: FactorPoint) -> RowScoring:
    """Return the scoring of rows under the components of a point."""
    m = int(problem.levels)
    k = problem.rank
    F = padded(point.factors, k, m)
    dtype = problem.counts.dtype
    free = free_coefficients(point, inputs.regressors, dtype)
    return RowScoring(
        replace(inputs.observation, loss=problem.counts.loss),
        F.C[:k],
        free.intercept,
        np.full(k, float(problem.alpha)),
        m > 0,
        np.zeros(k + m, dtype),
        np.eye(k, dtype=dtype),
        free.slopes,
    )


def fit_blocks(inputs: BlockedInputs, problem: BlockedFactored, point: FactorPoint) -> FittedRows:
    """Return all rows scored exactly under the components of a point, then balanced with them."""
    m = int(problem.levels)
    k = problem.rank
    scoring = scoring_at(inputs, problem, point)
    n = inputs.table.shape[0]
    dtype = problem.counts.dtype
    start = np.zeros((n, k + m), dtype)
    start[inputs.counted] = padded(point.factors, k, m).codes
    codes = np.empty((n, k), dtype)
    level = np.empty(n, dtype)
    informative = np.empty(n, bool)
    inside = np.empty(n, bool)
    every = replace(inputs.counts(every_row=True), loss=problem.counts.loss)
    for rows, without_covariates in every.blocks():
        data = scoring.shifted(without_covariates, every.regressors_of(rows))
        codes[rows], level[rows] = scoring(data, start[rows])
        kinds = scoring.kinds(data)
        informative[rows] = kinds.informative
        inside[rows] = kinds.inside
    if scoring.levels and problem.fit_intercept:
        kinds = RowKinds(informative, inside)
        scoring, level = scoring.with_centered_levels(level, inputs.weights, kinds)
    scoring, components = scoring.balanced(codes, inputs.weights)
    return FittedRows(scoring, codes @ scoring.rotation, components, level)


def values_of_blocks(
    fit: FittedRows,
    inputs: BlockedInputs,
    problem: BlockedFactored,
) -> FittedValues:
    """Return the objective and the explained deviance on the rows that were learned from."""
    counts = problem.counts
    codes = fit.codes[inputs.counted].astype(np.float64)
    C = fit.components.astype(np.float64)
    level = fit.level[inputs.counted].astype(np.float64)
    loss = 0.0
    for rows, data in counts.blocks():
        Z = codes[rows] @ C + fit.intercept + level[rows, None]
        exact = fit.scoring.shifted(data.astype(np.float64), counts.regressors_of(rows))
        losses = exact.row_values(Z)
        loss += float(counts.weights[rows] @ losses)
    of_codes = counts.weights @ np.square(codes).sum(axis=1)
    squares = float(of_codes + np.square(C).sum())
    objective = loss + problem.alpha / 2 * squares
    return FittedValues(objective, _explained(counts, problem.levels, loss))


def _explained(counts: CountBlocks, levels: bool, loss: float) -> float:
    """1 - deviance / deviance of intercepts alone; zero where intercepts are perfect."""
    least = counts.infimum
    if levels or counts.offset is not None or counts.regressors is not None:
        null_problem = BlockedFactored(counts, 0, 0.0, levels=levels)
        iterates = BlockNewton().iterates(null_problem, None)
        tol = NULL_TOL[counts.dtype.itemsize]
        null = run(iterates, tol=tol, max_iter=MAX_NULL_SWEEPS).objective
    else:
        null = counts.loss_of_means
    explicable = null - least
    if explicable <= 1e-12 * abs(least):
        return 0.0
    return 1 - (loss - least) / explicable


@frozen
class SampledSearch:
    """Searches by held-out entries on a sample of rows.

    Noise has a largest singular value of order sqrt(n) + sqrt(d), and so has the best strength: one
    that is found on m rows is multiplied by (sqrt(n) + sqrt(d)) / (sqrt(m) + sqrt(d)).
    """

    sample: Any  # a Factored problem
    search: HeldOutSearch
    scale: float

    @staticmethod
    def of(inputs: BlockedInputs, problem: BlockedFactored, run: Run) -> SampledSearch:
        """Return the searches of one fit."""
        n, d = problem.counts.shape
        rows = _sampled_rows(inputs, SAMPLE_ELEMENTS, run.seed())
        some = inputs.some_rows(rows)
        of_all = np.sqrt(n) + np.sqrt(d)
        of_sample = np.sqrt(len(rows)) + np.sqrt(d)
        scale = of_all / of_sample
        sample = factored_problem(
            some,
            problem.alpha / scale,
            min(problem.rank, len(rows)),
            problem.fit_intercept,
            problem.levels,
        )
        search = HeldOutSearch.of(sample, some.learned, run)
        return SampledSearch(sample, search, float(scale))

    def strength(self, rule: str) -> Selection:
        """Choose alpha, in the units of the whole table."""
        found = self.search.strength(self.sample, rule)
        trials = []
        for trial in found.trials:
            trials.append(replace(trial, value=trial.value * self.scale))
        best = replace(found.best, value=found.best.value * self.scale)
        return replace(found, trials=trials, best=best)

    def number(self, alpha: float) -> Selection:
        """Choose the number of components at a strength of the whole table."""
        sample = replace(self.sample, alpha=alpha / self.scale)
        return self.search.number(sample)

    @property
    def alpha_max(self) -> float:
        """The strength from which on no component is left, in the units of the whole table."""
        return alpha_max(self.sample) * self.scale


def _sampled_rows(inputs: BlockedInputs, elements: int, seed: int) -> Array:
    """Return some of the rows that are learned from."""
    n, d = inputs.table.shape
    counted = np.arange(n)[inputs.counted]
    size = min(max(elements // d, 2), len(counted))
    random = np.random.default_rng(seed)
    chosen = random.choice(counted, size, replace=False)
    return np.sort(chosen)


def with_theta(
    inputs: BlockedInputs,
    problem: BlockedFactored,
    random: np.random.Generator,
) -> BlockedFactored:
    """Return the problem with the dispersion of greatest likelihood, and a start near its solution.

    The dispersion is first that about the means of columns, then that about the means of a fit with
    the last one, which for each entry of a sample of rows are found without that entry.
    """
    if not is_option(getattr(problem.counts.loss, "theta", None), "auto"):
        return problem
    rows = _sampled_rows(inputs, DISPERSION_ELEMENTS, int(random.integers(2**31 - 1)))
    x = inputs.table[rows].toarray().astype(np.float64)
    offset = None
    if inputs.offset is not None:
        offset = inputs.offset[rows].astype(np.float64)
    regressors = None
    if inputs.regressors is not None:
        regressors = inputs.regressors[rows]
    sampled = WeightedTable(x, offset=offset, regressors=regressors)
    of_columns = np.maximum(inputs.observation.means, np.finfo(float).tiny)
    means = np.broadcast_to(of_columns, x.shape)
    if offset is not None:
        means = means * np.exp(offset)
    folds = random.integers(N_FOLDS, size=x.shape)
    point = None
    for _ in range(N_ROUNDS):
        loss = NegativeBinomial(pooled_theta(x, means, np.ones_like(x)))
        problem = replace(problem, counts=replace(problem.counts, loss=loss))
        point = solve_within(problem, DISPERSION_LIMITS, point).point
        scoring = scoring_at(inputs, problem, point)
        means = _means_without(scoring, sampled, folds)
    loss = NegativeBinomial(pooled_theta(x, means, np.ones_like(x)))
    return replace(problem, counts=replace(problem.counts, loss=loss), start=point)


def _means_without(scoring: RowScoring, rows: WeightedTable, folds: Array) -> Array:
    """Return the means of entries under codes that are scored without them.

    Offsets of the rows hold their exposures already.
    """
    loss = scoring.observation.loss
    x = rows.table
    added = replace(scoring, observation=replace(scoring.observation, totals=False)).added(rows)
    means = np.empty_like(x)
    for fold in range(N_FOLDS):
        hidden = folds == fold
        shown = np.where(hidden, np.nan, x)
        data = Data.of(shown, loss, None, added)
        codes, level = scoring(data)
        Z = codes @ scoring.C + scoring.intercept + level[:, None]
        if added is not None:
            Z = Z + added
        means[hidden] = loss.predict(Z[hidden])
    return np.maximum(means, np.finfo(float).tiny)
