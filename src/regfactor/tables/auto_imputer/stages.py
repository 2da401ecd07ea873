"""The stages of the cascade as members of a pool; each is fitted without each fold, and to all."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.problems.pool import Pool
from regfactor.tables.auto_imputer.conditioning import Conditioned, DenseNormal, Normal
from regfactor.tables.auto_imputer.copula import Copula
from regfactor.tables.auto_imputer.covariance_em import fit_covariance
from regfactor.tables.auto_imputer.kernel_residuals import RIDGES
from regfactor.tables.auto_imputer.local_models import (
    FittedKernels,
    VariableForest,
    VariableKernel,
    fit_forests,
    fit_kernels,
    informative_indicators,
    predict_by_forests,
)
from regfactor.tables.auto_imputer.low_rank import (
    LowRankFit,
    LowRankStrength,
    choose_strength,
    fit_low_rank,
)
from regfactor.tables.auto_imputer.stacking import pooled_weights
from regfactor.tables.auto_imputer.variables import Standardization

WIDEST = 200  # columns up to which full covariances are formed
N_STEPS = 4  # of EM for the full covariance
N_FOLD_TREES = 14
N_TREES = 48


@frozen
class Part:
    """Rows of a table that a stage is fitted to.

    Attributes
    ----------
    Z : array of shape (n_rows, n_columns)
        Standardized, NaN where an entry is missing or held out.
    truth : array of the same shape
        The same with the entries that are held out.
    weights : array of shape (n_rows,)
    held_out : array of bool of the same shape as Z
    global_rows : array of int
        Rows that distributions are fitted to, where there are more than enough.
    """

    Z: Array
    truth: Array
    weights: Array
    held_out: Array
    global_rows: Array

    @property
    def absent(self) -> Array:
        """Missing entries of the table as it was given."""
        return np.isnan(self.truth)


@frozen
class HeldOutCells:
    """Entries that were held out of some fold: their columns, values and weights."""

    columns: Array
    truth: Array
    weights: Array


@frozen
class CascadeData:
    """Parts of a table, each with a fold of entries held out, and the table itself as the last."""

    parts: list[Part]
    layout: Standardization
    seed: int

    @property
    def folds(self) -> list[Part]:
        """The parts with entries held out."""
        return self.parts[:-1]

    @cached_property
    def held_out_cells(self) -> HeldOutCells:
        """Columns, values and weights of the entries that were held out."""
        columns = []
        weights = []
        for part in self.folds:
            rows, found = np.nonzero(part.held_out)
            columns.append(found)
            weights.append(part.weights[rows])
        return HeldOutCells(
            np.concatenate([np.empty(0, dtype=int), *columns]),
            self.held_out_of([part.truth for part in self.folds]),
            np.concatenate([np.empty(0), *weights]),
        )

    @property
    def is_wide(self) -> bool:
        """Whether there are too many columns for full covariances."""
        return len(self.layout.scale) > WIDEST

    @property
    def numbers(self) -> Array:
        """Columns that hold numbers of more than two values."""
        found = [v.columns[0] for v in self.layout.variables if v.is_number]
        return np.array(found, dtype=int)

    def held_out_of(self, tables: Sequence[Array]) -> Array:
        """Return the held-out entries of one table for each fold, in one row."""
        found = [table[part.held_out] for table, part in zip(tables, self.folds, strict=True)]
        return np.concatenate([np.empty(0), *found])


@frozen
class MemberFit:
    """A fitted member: what it predicts for the entries that were held out."""

    name: str
    assumes: str
    held_out: Array


@frozen
class Stage(abc.ABC):
    """A stage of the cascade; `outcome` is computed once, when it is first needed."""

    name: ClassVar[str]
    assumes: ClassVar[str]

    data: CascadeData

    @abc.abstractmethod
    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""

    def fit(self) -> MemberFit:
        """Return the fitted member."""
        return MemberFit(self.name, self.assumes, self.held_out_predictions())


@frozen
class FittedNormals:
    """A normal distribution of each part, and the rows of the part given what is observed."""

    normals: list[Normal]
    conditioned: list[Conditioned]

    @staticmethod
    def of(normals: list[Normal], data: CascadeData) -> FittedNormals:
        """Condition each part."""
        conditioned = []
        for normal, part in zip(normals, data.parts, strict=True):
            conditioned.append(normal.condition(part.Z))
        return FittedNormals(normals, conditioned)

    def held_out(self, data: CascadeData) -> Array:
        """Return predictions of the entries that were held out."""
        return data.held_out_of([found.filled for found in self.conditioned[:-1]])


@frozen
class LowRankStage(Stage):
    """Probabilistic principal components of the certified low-rank fit."""

    name: ClassVar[str] = "low rank"
    assumes: ClassVar[str] = "few factors and equal noise"

    @cached_property
    def strength(self) -> LowRankStrength | None:
        """Strength and noise, chosen by entries of the whole table."""
        part = self.data.parts[-1]
        rows = part.global_rows
        owners = self.data.layout.owners
        return choose_strength(part.Z[rows], part.weights[rows], owners, self.data.seed)

    @cached_property
    def fits(self) -> list[LowRankFit]:
        """The factors of each part."""
        found = []
        for part in self.data.parts:
            rows = part.global_rows
            found.append(fit_low_rank(part.Z[rows], part.weights[rows], self.strength))
        return found

    @cached_property
    def outcome(self) -> FittedNormals:
        """Distributions of the rows of each part."""
        normals: list[Normal] = []
        noise = 1.0 if self.strength is None else self.strength.noise
        for fit in self.fits:
            normal = fit.probabilistic_pca(noise, self.data.layout.variances)
            normals.append(normal if self.data.is_wide else normal.dense())
        return FittedNormals.of(normals, self.data)

    def priors(self) -> list[DenseNormal]:
        """Return the distributions to which full covariances are shrunk."""
        return [fit.prior(self.data.layout.variances).dense() for fit in self.fits]

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        return self.outcome.held_out(self.data)


@frozen
class GaussianStage(Stage):
    """A full covariance, shrunk to the low-rank one."""

    name: ClassVar[str] = "gaussian"
    assumes: ClassVar[str] = "linear relations of all columns"

    low_rank: LowRankStage

    @cached_property
    def outcome(self) -> FittedNormals:
        """Distributions of the rows of each part."""
        normals: list[Normal] = []
        for part, prior in zip(self.data.parts, self.low_rank.priors(), strict=True):
            rows = part.global_rows
            normals.append(
                fit_covariance(part.Z[rows], part.weights[rows], prior, prior.covariance, N_STEPS)
            )
        return FittedNormals.of(normals, self.data)

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        return self.outcome.held_out(self.data)


@frozen
class CopulaStage(Stage):
    """A full covariance of normal scores."""

    name: ClassVar[str] = "copula"
    assumes: ClassVar[str] = "relations that are linear in normal scores"

    gaussian: GaussianStage

    @cached_property
    def outcome(self) -> list[Copula]:
        """The copula of each part."""
        priors = self.gaussian.low_rank.priors()
        found = []
        for t, part in enumerate(self.data.parts):
            rows = part.global_rows
            start = self.gaussian.outcome.normals[t]
            assert isinstance(start, DenseNormal)
            found.append(
                Copula.fit(
                    part.Z[rows],
                    part.weights[rows],
                    self.data.numbers,
                    start,
                    priors[t].covariance,
                )
            )
        return found

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        tables = []
        for copula, part in zip(self.outcome, self.data.folds, strict=False):
            tables.append(copula.predict(part.Z))
        return self.data.held_out_of(tables)


@frozen
class KernelStage(Stage):
    """Kernel ridge regression of what the better of two distributions leaves."""

    name: ClassVar[str] = "kernel"
    assumes: ClassVar[str] = "smooth relations"

    low_rank: LowRankStage
    gaussian: GaussianStage | None

    @cached_property
    def base(self) -> FittedNormals:
        """The distributions that predict the first fold better."""
        if self.gaussian is None:
            return self.low_rank.outcome
        if not self.data.folds:
            return self.gaussian.outcome
        first = self.data.folds[0]
        errors = []
        for stage in (self.gaussian, self.low_rank):
            predicted = stage.outcome.conditioned[0].filled
            wrong = (predicted - first.truth)[first.held_out]
            errors.append(float(np.square(wrong).sum()))
        if errors[0] <= errors[1]:
            return self.gaussian.outcome
        return self.low_rank.outcome

    @cached_property
    def outcome(self) -> list[FittedKernels]:
        """Kernels of each part; the ridges are those of the first."""
        found: list[FittedKernels] = []
        for t, part in enumerate(self.data.parts):
            ridges = None
            if found:
                ridges = [_ridges(kernel) for kernel in found[0].kernels]
            found.append(
                fit_kernels(
                    part.Z,
                    part.weights,
                    self.data.layout.variables,
                    self.base.normals[t],
                    self.base.conditioned[t],
                    ridges,
                    self.data.seed,
                )
            )
        return found

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        return self.data.held_out_of([fit.rows.filled for fit in self.outcome[:-1]])


def _ridges(kernel: VariableKernel) -> tuple[float, ...]:
    if kernel.correction is None:
        return RIDGES
    return (kernel.ridge,)


@frozen
class FittedForests:
    """Forests of the whole table, and what those of the folds predict for held-out entries.

    `excess` is the variance of the latter that more trees remove.
    """

    forests: list[VariableForest]
    values: Array
    residuals: Array
    variances: Array
    excess: Array


@frozen
class ForestStage(Stage):
    """Trees on columns that the kernels filled and on their leave-one-out predictions."""

    name: ClassVar[str] = "forest"
    assumes: ClassVar[str] = "relations that change by thresholds"

    kernel: KernelStage

    @cached_property
    def outcome(self) -> FittedForests:
        """Forests, fitted to each part."""
        fits = self.kernel.outcome
        whole = self.data.parts[-1]
        indicators = informative_indicators(whole.Z, whole.absent, whole.weights, fits[-1])
        values = []
        residuals = []
        variances = []
        between = []
        forests: list[VariableForest] = []
        for t, part in enumerate(self.data.parts):
            is_whole = t == len(self.data.folds)
            forests = fit_forests(
                part.Z,
                part.absent,
                part.weights,
                fits[t],
                self.kernel.base.conditioned[t],
                indicators,
                N_TREES if is_whole else N_FOLD_TREES,
                self.data.seed + t,
            )
            if is_whole:
                break
            tables = predict_by_forests(forests, fits[t].rows, part.absent, part.held_out)
            values.append(tables.values)
            residuals.append(tables.residuals)
            variances.append(tables.variances)
            between.append(tables.between)
        return FittedForests(
            forests,
            self.data.held_out_of(values),
            self.data.held_out_of(residuals),
            self.data.held_out_of(variances),
            self.data.held_out_of(between) * (1 / N_FOLD_TREES - 1 / N_TREES),
        )

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        return self.outcome.values


@frozen
class ResidualForestStage(Stage):
    """The kernel's prediction and what the trees add to it."""

    name: ClassVar[str] = "residual forest"
    assumes: ClassVar[str] = "smooth relations with thresholds"

    forest: ForestStage

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out."""
        return self.forest.outcome.residuals


@frozen
class MeanStage(Stage):
    """The mean of each column, for tables that are too small for anything else."""

    name: ClassVar[str] = "mean"
    assumes: ClassVar[str] = "nothing, since the table is too small"

    def held_out_predictions(self) -> Array:
        """Return predictions of the entries that were held out: standardized means are zero."""
        return np.zeros(len(self.data.held_out_cells.truth))


@frozen
class CascadePool(Pool[MemberFit]):
    """Mean squared error of the average on entries that were held out."""

    data: CascadeData

    def loss(self, fitted: Sequence[MemberFit]) -> float:
        """Return the error under the weights that are best for all columns together."""
        cells = self.data.held_out_cells
        if not len(cells.truth):
            return 0.0
        predicted = np.column_stack([member.held_out for member in fitted])
        weights = pooled_weights(predicted, cells.truth, cells.weights)
        errors = np.square(cells.truth - predicted @ weights)
        return float(cells.weights @ errors / cells.weights.sum())
