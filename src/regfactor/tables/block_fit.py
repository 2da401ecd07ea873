"""Fits of subspaces to tables that are read by blocks of rows: the steps that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.core.factors import Factors
from regfactor.core.linalg import positive_or_one
from regfactor.core.loop import Solution
from regfactor.core.params import Array, frozen, is_option, warn
from regfactor.engine.blocks import BlockTable
from regfactor.fitting.inputs import ColumnUnits, row_weights
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.units import ROUNDING_SPREAD
from regfactor.losses import Loss, Robust, Squared
from regfactor.penalties import Trace
from regfactor.problems.block_squares import BlockPoint, BlockSquares, ColumnStatistics

SAMPLE_ROWS = 20_000  # of a table, by which the strength is chosen


@frozen
class BlockInputs:
    """A table of blocks, its problem, and the names of its columns."""

    table: BlockTable
    problem: BlockSquares
    names: list[Any] | None
    prior: float | None  # strength of the prior of the codes


@frozen
class Strengths:
    """The strength of the trace norm, and that of the prior of the codes where there is one."""

    alpha: float
    prior: float | None


def read_blocks(
    model: Any,
    table: BlockTable,
    sample_weight: Any,
    entry_weight: Any,
) -> BlockInputs:
    """Return the problem of a table of blocks, after one pass over it."""
    _check_parameters(model, entry_weight)
    read = _Rows.of(model, table, sample_weight)
    unit = np.ones(table.n_columns)
    if model.scale:
        unit = units_of(read.found)
    center = np.zeros(table.n_columns)
    if model.fit_intercept:
        center = read.found.mean / unit
    strengths = _strengths(model, read.table)
    problem = BlockSquares(
        read.table,
        unit,
        center,
        read.found.count,
        strengths.alpha,
        read.total,
        model.fit_intercept,
    )
    return read.inputs(model, problem, strengths.prior)


def read_robust_blocks(model: Any, table: BlockTable, sample_weight: Any) -> BlockInputs:
    """Return the problem of a table of blocks with outliers, after one pass over it."""
    loss = model.loss
    squared = is_option(loss, "squared") or isinstance(loss, Squared)
    if not squared or model.fit_intercept or model.sparse_zeros != "missing":
        raise ValueError(
            "A BlockTable is fitted under loss='squared', with fit_intercept=False and "
            f"sparse_zeros='missing'; got loss={loss!r}, fit_intercept={model.fit_intercept!r} and "
            f"sparse_zeros={model.sparse_zeros!r}. Use these, or fit an array."
        )
    read = _Rows.of(model, table, sample_weight)
    d = table.n_columns
    if isinstance(model.alpha, str):
        sample = read.table.sample(SAMPLE_ROWS)
        chosen = clone(model).fit(sample)
        alpha = float(chosen.alpha_ * growth(read.table, sample))
        price = float(chosen.beta_)
    else:
        alpha = float(model.alpha)
        price = alpha / np.sqrt(max(read.total, d))
    if not isinstance(model.beta, str):
        price = float(model.beta)
    zero = np.zeros(d)
    count = read.found.count
    problem = BlockSquares(read.table, zero + 1, zero, count, alpha, read.total, False, price)
    return read.inputs(model, problem, None)


@frozen
class _Rows:
    """The weighted blocks of a table, and what a pass found of their columns."""

    table: BlockTable
    found: ColumnStatistics
    total: float

    @staticmethod
    def of(model: Any, table: BlockTable, sample_weight: Any) -> _Rows:
        """Pass over a table; raise if nothing is observed."""
        table = table.threaded(model.n_jobs)
        total = float(table.shape[0])
        weights = row_weights(np.empty((table.shape[0], 0)), sample_weight)
        if weights is not None:
            total = float(weights.sum())
            table = table.weighted(weights)
        found: ColumnStatistics = table.reduce(ColumnStatistics.of_block)
        if not found.entries:
            raise ValueError("The table has no observed entry.")
        if found.empty_rows:
            warn(
                f"{found.empty_rows} rows have no observed entry; the model cannot learn from them."
            )
        return _Rows(table, found, total)

    def inputs(self, model: Any, problem: BlockSquares, prior: float | None) -> BlockInputs:
        """Return the inputs of a fit, and set what a model knows of its columns."""
        model._schema = None
        model._noise = None
        model._bounds = None
        model._column_units = ColumnUnits(np.zeros(len(problem.unit)), problem.unit)
        model.n_features_in_ = len(problem.unit)
        names = None
        if self.table.names is not None:
            names = list(self.table.names)
            model.feature_names_in_ = np.asarray(names, dtype=object)
        return BlockInputs(self.table, problem, names, prior)


def growth(table: BlockTable, sample: Any) -> float:
    """Return by how much the norm of noise of a table is larger than that of a sample of rows."""
    n, d = table.shape
    return float((np.sqrt(n) + np.sqrt(d)) / (np.sqrt(sample.shape[0]) + np.sqrt(d)))


def units_of(found: ColumnStatistics) -> Array:
    """Return the deviation of each column; of a column of two values, their distance."""
    size = np.maximum(np.abs(found.low), np.abs(found.high))
    size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    count = positive_or_one(found.count)
    deviation = np.sqrt(found.squares / count)
    with np.errstate(invalid="ignore"):
        deviation = np.where(found.two_valued, found.high - found.low, deviation)
    return np.where(deviation > ROUNDING_SPREAD * size, deviation, 1.0)


def _check_parameters(model: Any, entry_weight: Any) -> None:
    """Raise for what blocks of rows do not have yet."""
    loss = model.loss
    if not (is_option(loss, "squared") or is_option(loss, "auto") or isinstance(loss, Squared)):
        raise ValueError(
            f"A BlockTable is fitted under loss='squared', got {loss!r}. Use it, or fit an array."
        )
    if model.debias is True:
        raise ValueError(
            "A BlockTable is fitted with debias=False or 'prior', got True. Choose one of these, "
            "or fit an array."
        )
    if model.bounds or model.row_effects or entry_weight is not None:
        raise ValueError(
            "A BlockTable takes no bounds, row_effects or entry_weight. Leave them out, or fit an "
            "array."
        )
    if model.sparse_zeros != "missing":
        raise ValueError(
            "Absent entries of the blocks of a BlockTable are missing. Use sparse_zeros='missing', "
            "or give dense blocks."
        )


def _strengths(model: Any, table: BlockTable) -> Strengths:
    """Return the strengths of a fit; those that are chosen, by a sample of the rows.

    The norm of noise grows like sqrt(n) + sqrt(d), and alpha with it. The strength of a prior is
    the variance of the noise, which does not depend on the number of rows.
    """
    given = not isinstance(model.alpha, str)
    if given and not model.debias:
        return Strengths(float(model.alpha), None)
    sample = table.sample(SAMPLE_ROWS)
    grown = growth(table, sample)
    chooser = clone(model).set_params(loss="squared")
    if given:
        chooser.set_params(alpha=model.alpha / grown)
    chooser.fit(sample)
    prior = getattr(chooser, "prior_", None)
    if given:
        return Strengths(float(model.alpha), prior)
    return Strengths(float(chooser.alpha_ * grown), prior)


def publish_blocks(model: Any, solution: Solution[BlockPoint], inputs: BlockInputs) -> None:
    """Set the fitted attributes; codes of rows are those of `transform`."""
    point = solution.point
    sizes, directions = point.spectrum
    factors = Factors(np.diag(sizes), directions).canonical(2.0)
    model._components = factors.C
    model._intercept = point.b
    model._sizes = np.linalg.norm(factors.codes, axis=0)
    penalty = Trace().per_row(factors.codes)
    loss: Loss = Squared()
    if np.isfinite(inputs.problem.price):
        loss = Robust(loss, inputs.problem.price)
    model._score = Scoring(loss, penalty, inputs.problem.alpha)
    if inputs.prior is not None:
        model.prior_ = inputs.prior
        deviations = model._sizes / np.sqrt(inputs.problem.total)
        model._score = model._score.with_prior(deviations, inputs.prior)
    model._loss_parts = loss.parts(inputs.table.n_columns)
    model.alpha_ = inputs.problem.alpha
    model.alpha_max_ = inputs.problem.alpha_max()
    model.components_ = model._column_units.components(factors.C)
    model.intercept_ = model._column_units.values(point.b)
    model.singular_values_ = model._sizes
    model.scale_ = model._column_units.unit
    model._n_features_out = len(factors.C)
    model._held_out = None
    model._calibration = None
    if not len(factors.C):
        model._warn_if_empty()
