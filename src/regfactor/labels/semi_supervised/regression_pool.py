"""The pool of regressors as a problem, and the average of its members as a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.kernel_average import (
    SMALLEST_ERROR,
    KernelAverage,
    WeightedKernels,
    mixture,
    normalized_weights,
)
from regfactor.labels.semi_supervised.kernel_members import (
    TEMPERING,
    EvidenceMember,
    FittedEvidenceMember,
    RepresentedTable,
    TargetColumn,
)
from regfactor.labels.semi_supervised.outside_members import (
    FittedOutsideMember,
    OutsideFit,
    folds_of,
)
from regfactor.labels.semi_supervised.representations import (
    Representation,
    Representations,
    row_blocks,
)
from regfactor.problems.pool import Pool

PRIOR_ROWS = 4.0  # rows that agree with the deviations, next to those that calibrate them
FittedRegressor = FittedEvidenceMember | FittedOutsideMember


@frozen
class RegressionPool(Pool[FittedRegressor]):
    """- log evidence of the average of kernels, summed over targets."""

    table: RepresentedTable
    columns: list[TargetColumn]

    def loss(self, fitted: Sequence[FittedRegressor]) -> float:
        """Return minus the log evidence of the kernels that have been fitted."""
        kernels = [member for member in fitted if isinstance(member, FittedEvidenceMember)]
        if not kernels:
            return 0.0
        averages = kernel_averages(kernels, self.columns)
        return -sum(average.log_evidence for average in averages)


def kernel_averages(
    kernels: Sequence[FittedEvidenceMember],
    columns: list[TargetColumn],
) -> list[KernelAverage]:
    """Return the average of kernels for each target."""
    return [KernelAverage.of(kernels, t, column) for t, column in enumerate(columns)]


@frozen
class HeldOutTargets:
    """Targets as predicted without them, in units of their deviation."""

    residuals: Array
    deviations: Array
    weights: Array

    @staticmethod
    def of(column: TargetColumn, mean: Array, variance: Array) -> HeldOutTargets:
        """Return the residuals of a target from its predictions."""
        deviations = np.sqrt(np.maximum(variance, SMALLEST_ERROR))
        return HeldOutTargets(column.values - mean, deviations, column.weights)

    @property
    def scores(self) -> Array:
        """|residual| / deviation."""
        return np.abs(self.residuals) / self.deviations

    @property
    def error(self) -> float:
        """The mean squared residual."""
        return float(np.average(np.square(self.residuals), weights=self.weights))

    @property
    def inflation(self) -> float:
        """The factor of deviations under which these residuals have mean square one."""
        squares = float(self.weights @ np.square(self.scores))
        return float(np.sqrt((squares + PRIOR_ROWS) / (self.weights.sum() + PRIOR_ROWS)))


@frozen
class TargetModel:
    """The average for one target: kernels together, and each regressor from outside.

    Attributes
    ----------
    column : TargetColumn
    kernels : WeightedKernels or None
    regressors : list of fitted regressors
    weights : array of shape (1 + n_regressors,)
        Of the kernels together, where there are some, then of each regressor.
    errors : array of the same shape
        Mean squared errors of targets that they were not given.
    held_out : HeldOutTargets
    """

    column: TargetColumn
    kernels: WeightedKernels | None
    regressors: list[Any]
    weights: Array
    errors: Array
    held_out: HeldOutTargets

    @property
    def used_representations(self) -> list[Representation]:
        """The representations that the kernels need."""
        if self.kernels is None:
            return []
        return self.kernels.representations

    @property
    def n_kept(self) -> int:
        """Greatest number of rows that a kernel keeps."""
        if self.kernels is None:
            return 1
        return max(len(p.rows) for fit in self.kernels.fits for p in fit.posteriors)

    def moments(
        self,
        rows: Any,
        represented: dict[Representation, Array],
        with_variance: bool,
    ) -> tuple[Array, Array]:
        """Return the mean of the target at rows, and the variance; without it, zeros."""
        means = []
        variances = []
        if self.kernels is not None:
            mean, variance = self.kernels.moments(represented, with_variance)
            means.append(mean)
            variances.append(variance)
        first = len(means)
        for k, regressor in enumerate(self.regressors):
            predicted = np.asarray(regressor.predict(rows), np.float64).reshape(-1)
            means.append(predicted)
            variances.append(np.full(len(predicted), self.errors[first + k]))
        if len(means) == 1:
            return means[0], variances[0]
        return mixture(self.weights, np.array(means), np.array(variances))


def target_model(
    pool: RegressionPool,
    target: int,
    average: KernelAverage | None,
    outside: Sequence[OutsideFit],
) -> TargetModel:
    """Return the average for one target.

    Kernels alone are judged by exact leave-one-out. Next to regressors from outside they are judged
    as those are, by folds in which nothing was fitted to the targets.
    """
    column = pool.columns[target]
    if average is not None and not outside:
        mean, variance = average.left_out
        held_out = HeldOutTargets.of(column, mean, variance)
        weights = np.ones(1)
        return TargetModel(column, average.kept(), [], weights, weights, held_out)
    means = []
    variances = []
    if average is not None:
        means.append(_held_out_by_kernels(pool, target))
        variances.append(average.left_out[1])
    for fit in outside:
        means.append(fit.held_out)
    errors = np.square(np.array(means) - column.values) @ column.weights / column.weights.sum()
    errors = np.maximum(errors, SMALLEST_ERROR)
    for fit, error in zip(outside, errors[len(variances) :], strict=True):
        variances.append(np.full(len(fit.held_out), error))
    weights = normalized_weights(-TEMPERING * 0.5 * column.weights.sum() * np.log(errors))
    mean, variance = mixture(weights, np.array(means), np.array(variances))
    return TargetModel(
        column,
        average.kept() if average is not None else None,
        [fit.regressor for fit in outside],
        weights,
        errors,
        HeldOutTargets.of(column, mean, variance),
    )


def _held_out_by_kernels(pool: RegressionPool, target: int) -> Array:
    """Return the targets as kernels predict them that were fitted without their fold."""
    column = pool.columns[target]
    folds = folds_of(column)
    predicted = np.zeros(len(folds))
    designs = [member.design for member in pool.members if isinstance(member, EvidenceMember)]
    for fold in range(folds.max() + 1):
        test = folds == fold
        if test.all():
            continue
        part = column.part(np.flatnonzero(~test))
        fitted = [EvidenceMember(design, pool.table, [part]).fit() for design in designs]
        kernels = KernelAverage.of(fitted, 0, part).kept()
        positions = column.positions[test]
        rows = pool.table.table[positions]
        represented = pool.table.representations.of(rows, pool.table.wanted)
        mean, _ = kernels.moments(represented, with_variance=False)
        predicted[test] = (part.in_units(mean) - column.center) / column.scale
    return predicted


@frozen
class RegressionModel:
    """The averages for all targets, and what turns rows into the representations they need."""

    representations: Representations | None
    wanted: list[Representation]
    targets: list[TargetModel]

    def moments(self, X: Any, with_variance: bool = False) -> tuple[Array, Array]:
        """Return means and deviations of the targets of rows, in their units."""
        n_rows = X.shape[0]
        means = np.empty((n_rows, len(self.targets)))
        deviations = np.empty((n_rows, len(self.targets)))
        width = max(X.shape[1], *(model.n_kept for model in self.targets))
        for block in row_blocks(n_rows, width):
            rows = X[block]
            represented = {}
            if self.representations is not None:
                represented = self.representations.of(rows, self.wanted)
            for t, model in enumerate(self.targets):
                mean, variance = model.moments(rows, represented, with_variance)
                means[block, t] = model.column.in_units(mean)
                deviations[block, t] = model.column.scale * np.sqrt(variance)
        return means, deviations
