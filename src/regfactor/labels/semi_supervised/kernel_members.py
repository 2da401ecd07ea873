"""Members of the pool of regressors: kernels on representations, and what each of them assumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.evidence_kernel import (
    LINEAR,
    MIXED,
    SMOOTH,
    EvidenceKernel,
    KernelForm,
    Mode,
    TargetRows,
)
from regfactor.labels.semi_supervised.kernel_posterior import (
    MAX_EXACT_ROWS,
    KernelPosterior,
    exact_posterior,
    inducing_posterior,
)
from regfactor.labels.semi_supervised.representations import (
    COLUMNS,
    CONSTANT,
    FACTORS,
    RANK_FACTORS,
    RANKS,
    Representation,
    Representations,
)

CONSTANT_TARGET = 1e-13  # spread of a target, relative to its size, up to which it is constant
TEMPERING = 0.5  # the power of evidences and importance ratios that weights are
SMALLEST_DRAWN_DEVIATION = 1.0  # tau from which parameters are drawn around the mode


@dataclass(frozen=True)
class KernelDesign:
    """A member before it has data: its kernel, on a representation, and what these assume."""

    name: str
    representation: Representation
    form: KernelForm
    assumes: str


DESIGNS = (
    KernelDesign(
        "constant",
        Representation(CONSTANT),
        KernelForm(LINEAR, 1.0),
        "the inputs tell nothing about the target",
    ),
    KernelDesign(
        "columns linear",
        Representation(COLUMNS),
        KernelForm(LINEAR, 1.0),
        "linear in the columns, most of which count",
    ),
    KernelDesign(
        "few columns linear",
        Representation(COLUMNS),
        KernelForm(LINEAR, 2.0),
        "linear in the columns, few of which count",
    ),
    KernelDesign(
        "columns mixed",
        Representation(COLUMNS),
        KernelForm(MIXED, 1.0),
        "linear and smooth in the columns, most of which count",
    ),
    KernelDesign(
        "few columns mixed",
        Representation(COLUMNS),
        KernelForm(MIXED, 2.0),
        "linear and smooth in the columns, few of which count",
    ),
    KernelDesign(
        "columns smooth",
        Representation(COLUMNS),
        KernelForm(SMOOTH, 1.0),
        "smooth in the columns, most of which count",
    ),
    KernelDesign(
        "few columns smooth",
        Representation(COLUMNS),
        KernelForm(SMOOTH, 2.0),
        "smooth in the columns, few of which count",
    ),
    KernelDesign(
        "few ranks mixed",
        Representation(RANKS),
        KernelForm(MIXED, 2.0),
        "linear and smooth in the ranks of columns, few of which count",
    ),
    KernelDesign(
        "factors linear",
        Representation(FACTORS, 2.0),
        KernelForm(LINEAR, 0.5),
        "linear in the main directions in which rows differ",
    ),
    KernelDesign(
        "factors mixed",
        Representation(FACTORS, 2.0),
        KernelForm(MIXED, 0.5),
        "linear and smooth in the main directions in which rows differ",
    ),
    KernelDesign(
        "rank factors linear",
        Representation(RANK_FACTORS, 2.0),
        KernelForm(LINEAR, 0.5),
        "linear in the main directions in which ranks differ",
    ),
    KernelDesign(
        "rank factors mixed",
        Representation(RANK_FACTORS, 2.0),
        KernelForm(MIXED, 0.5),
        "linear and smooth in the main directions in which ranks differ",
    ),
    KernelDesign(
        "all directions smooth",
        Representation(FACTORS, -0.5),
        KernelForm(SMOOTH, 0.5),
        "smooth in all directions, minor ones too",
    ),
    KernelDesign(
        "all directions linear",
        Representation(FACTORS, -1.0),
        KernelForm(LINEAR, 0.5),
        "linear in all directions alike, whatever the rows do in them",
    ),
)


@frozen
class TargetColumn:
    """One target: the rows that have it, its values there in units of their deviation, weights."""

    positions: Array
    values: Array
    weights: Array
    center: float
    scale: float

    @staticmethod
    def of(column: Array, table: Any, weights: Array) -> TargetColumn:
        """Return the target of a column that is NaN in the rows of a table without it.

        Equal rows with equal targets become one of their total weight: weights then act as
        repetition counts, and no row is predicted from its own copy when it is left out.
        """
        positions = np.flatnonzero(~np.isnan(column))
        known = column[positions]
        counts = weights[positions]
        if not is_sparse(table) and len(np.unique(known)) < len(known):
            cells = np.column_stack([table[positions], known])
            _, first, group = np.unique(cells, axis=0, return_index=True, return_inverse=True)
            counts = np.bincount(group.ravel(), weights=counts)
            order = np.argsort(first)
            first = first[order]
            return TargetColumn.of_known(positions[first], known[first], counts[order])
        return TargetColumn.of_known(positions, known, counts)

    @staticmethod
    def of_known(positions: Array, known: Array, counts: Array) -> TargetColumn:
        """Return the target of rows at positions that all have it.

        Weights below one on average are relative ones, as of shares that sum to one.
        """
        counts = counts * max(1.0, len(counts) / float(counts.sum()))
        center = float(np.average(known, weights=counts))
        deviations = known - center
        size = float(np.abs(deviations).max())
        scale = 1.0
        if size > CONSTANT_TARGET * np.abs(known).max():
            # divided by their size first, so that no square overflows
            scale = size * float(np.sqrt(np.average(np.square(deviations / size), weights=counts)))
        return TargetColumn(positions, deviations / scale, counts, center, scale)

    def part(self, chosen: Array) -> TargetColumn:
        """Return the target as if only the chosen ones of its rows had it."""
        values = self.in_units(self.values[chosen])
        return TargetColumn.of_known(self.positions[chosen], values, self.weights[chosen])

    def in_units(self, values: Array) -> Array:
        """Return values in the units of the target."""
        return self.center + self.scale * values

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The least and greatest value."""
        return float(self.values.min()), float(self.values.max())

    def inducing(self) -> Array:
        """Return some of the rows, spread evenly over the values, where there are many."""
        if len(self.values) <= MAX_EXACT_ROWS:
            return np.arange(len(self.values))
        order = np.argsort(self.values, kind="stable")
        spread = np.linspace(0, len(order) - 1, MAX_EXACT_ROWS).round().astype(int)
        return np.sort(order[spread])


@frozen
class RepresentedTable:
    """All rows that count, and their representations, learned when they are first asked for.

    Attributes
    ----------
    table : array of shape (n_samples, n_columns), NaN where entries are missing, or CSR array
    weights : array of shape (n_samples,)
        Repetition counts, all positive.
    wanted : list of Representation
    with_targets : array of int
        Positions of the rows with some target.
    """

    table: Any
    weights: Array
    wanted: list[Representation]
    with_targets: Array

    @cached_property
    def representations(self) -> Representations:
        """What all rows, with targets or without, teach about the table."""
        return Representations.fit(self.table, self.weights, self.wanted)

    @cached_property
    def represented(self) -> dict[Representation, Array]:
        """The representations of the rows with some target."""
        return self.representations.of(self.table[self.with_targets], self.wanted)

    def target_rows(self, column: TargetColumn, representation: Representation) -> TargetRows:
        """Return the rows that have a target, as they are represented, with their targets."""
        places = np.searchsorted(self.with_targets, column.positions)
        rows = self.represented[representation][places]
        return TargetRows(rows, column.values, column.weights)


def designs_for(table: Any, designs: Sequence[KernelDesign]) -> list[KernelDesign]:
    """Return the designs that suit a table: a sparse one has no ranks."""
    if not is_sparse(table):
        return list(designs)
    return [design for design in designs if not design.representation.of_ranks]


@frozen
class KernelFit:
    """A kernel fitted to one target: its evidence, and posteriors whose shares sum to one."""

    log_evidence: float
    posteriors: list[KernelPosterior]
    shares: Array

    @cached_property
    def left_out_means(self) -> Array:
        """Targets as predicted from the others."""
        means = [posterior.left_out.means for posterior in self.posteriors]
        return self.shares @ np.array(means)

    @cached_property
    def left_out_variances(self) -> Array:
        """Variances of the targets as predicted from the others."""
        means = np.array([posterior.left_out.means for posterior in self.posteriors])
        variances = np.array([posterior.left_out.variances for posterior in self.posteriors])
        return self.shares @ (variances + np.square(means - self.left_out_means))

    @cached_property
    def left_out_log_densities(self) -> Array:
        """Log densities of the targets given the others."""
        densities = [posterior.left_out.log_densities for posterior in self.posteriors]
        return self.shares @ np.array(densities)

    def mean(self, rows: Array) -> Array:
        """Return the mean of the target at rows."""
        means = [posterior.mean(rows) for posterior in self.posteriors]
        return self.shares @ np.array(means)

    def mean_and_variance(self, rows: Array) -> tuple[Array, Array]:
        """Return the mean and the variance of the target at rows."""
        moments = [posterior.mean_and_variance(rows) for posterior in self.posteriors]
        means = np.array([mean for mean, _ in moments])
        variances = np.array([variance for _, variance in moments])
        mean = self.shares @ means
        return mean, self.shares @ (variances + np.square(means - mean))


@frozen
class FittedEvidenceMember:
    """A member with a fit for each target."""

    design: KernelDesign
    fits: list[KernelFit]


@frozen
class EvidenceMember:
    """A kernel on a representation, and the rows that it is fitted to.

    With `n_draws`, parameters are drawn around the mode where the targets choose relevances.
    """

    design: KernelDesign
    table: RepresentedTable
    columns: list[TargetColumn]
    n_draws: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        """The name by which weights and scores are reported."""
        return self.design.name

    def fit(self) -> FittedEvidenceMember:
        """Return the posterior and the evidence for each target."""
        return FittedEvidenceMember(self.design, [self._fit(column) for column in self.columns])

    def _fit(self, column: TargetColumn) -> KernelFit:
        rows = self.table.target_rows(column, self.design.representation)
        inducing = column.inducing()
        some = rows
        if len(inducing) < len(rows.rows):
            some = TargetRows(rows.rows[inducing], rows.targets[inducing], rows.weights[inducing])
        kernel = EvidenceKernel(self.design.form, some)
        mode = kernel.mode()
        thetas = [mode.theta]
        shares = np.ones(1)
        if self.n_draws and self.design.form.relevance_deviation >= SMALLEST_DRAWN_DEVIATION:
            thetas, shares = draws_around(kernel, mode, self.n_draws, self.seed)
        posteriors = []
        for theta in thetas:
            if some is rows:
                posteriors.append(exact_posterior(kernel, theta, mode))
            else:
                at = kernel.form.named(theta, kernel.width)
                posteriors.append(inducing_posterior(at, rows, some.rows))
        return KernelFit(mode.log_evidence, posteriors, shares)


def draws_around(
    kernel: EvidenceKernel,
    mode: Mode,
    n_draws: int,
    seed: int,
) -> tuple[list[Array], Array]:
    """Return antithetic draws from Laplace's Gaussian, and their tempered importance weights."""
    random = np.random.default_rng(seed)
    half = random.normal(size=((n_draws + 1) // 2, len(mode.theta)))
    normal = np.vstack([half, -half])[:n_draws]
    factor = scipy.linalg.cholesky(mode.precision, lower=True)
    offsets = scipy.linalg.solve_triangular(factor, normal.T, lower=True, trans="T").T
    thetas = [kernel.within_bounds(mode.theta + offset) for offset in offsets]
    values = np.array([kernel.value_and_gradient(theta)[0] for theta in thetas])
    log_ratios = 0.5 * np.square(normal).sum(axis=1) - values
    shares = np.exp(TEMPERING * (log_ratios - log_ratios.max()))
    return thetas, shares / shares.sum()
