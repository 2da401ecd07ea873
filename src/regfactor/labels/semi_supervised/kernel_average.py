"""The average of kernels by evidence and left-out errors, for one target.

    weight_k ~ (prior_k evidence_k)^(1/2) / (root mean squared error of left-out targets)_k

The root tempers the evidence, which trusts its own model too much; the error makes members count
less that predict another size of noise than they see. A constant has as much prior weight as all
other members together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.kernel_members import (
    TEMPERING,
    FittedEvidenceMember,
    KernelFit,
    TargetColumn,
)
from regfactor.labels.semi_supervised.representations import CONSTANT, Representation

SMALLEST_WEIGHT = 0.002  # members of less are left out
SMALLEST_ERROR = 1e-14  # squared, in units of the variance of the target


@frozen
class KernelAverage:
    """Members fitted to one target, and their weights; numbers are in units of its deviation.

    Attributes
    ----------
    column : TargetColumn
    representations : list of Representation
        Of each member.
    fits : list of KernelFit
    """

    column: TargetColumn
    representations: list[Representation]
    fits: list[KernelFit]

    @staticmethod
    def of(
        members: Sequence[FittedEvidenceMember], target: int, column: TargetColumn
    ) -> KernelAverage:
        """Return the average of fitted members for one of their targets."""
        representations = [member.design.representation for member in members]
        return KernelAverage(column, representations, [member.fits[target] for member in members])

    @cached_property
    def log_evidences(self) -> Array:
        """Log evidences of the members."""
        return np.array([fit.log_evidence for fit in self.fits])

    @cached_property
    def log_priors(self) -> Array:
        """Log prior weights of the members, up to a constant."""
        is_constant = np.array([r.kind == CONSTANT for r in self.representations])
        others = max(int((~is_constant).sum()), 1)
        return np.where(is_constant, np.log(others), 0.0)

    @cached_property
    def left_out_residuals(self) -> Array:
        """Targets minus their predictions from the others, a row for each member."""
        means = np.array([fit.left_out_means for fit in self.fits])
        return self.column.values - means

    @cached_property
    def errors(self) -> Array:
        """Mean squared left-out residual of each member."""
        squares = np.square(self.left_out_residuals) @ self.column.weights
        return np.maximum(squares / self.column.weights.sum(), SMALLEST_ERROR)

    @cached_property
    def weights(self) -> Array:
        """Weights of the members, small ones set to zero."""
        logs = TEMPERING * (self.log_evidences + self.log_priors) - 0.5 * np.log(self.errors)
        weights = normalized_weights(logs)
        weights[weights < SMALLEST_WEIGHT] = 0.0
        return weights / weights.sum()

    @cached_property
    def log_evidence(self) -> float:
        """Log evidence of the average, with the prior weights of the members."""
        logs = self.log_evidences + self.log_priors
        return float(np.logaddexp.reduce(logs) - np.logaddexp.reduce(self.log_priors))

    @cached_property
    def margins(self) -> Array:
        """How far each member may leave the range of the targets.

        One range, and more in proportion to how much less than the deviation its error is.
        """
        low, high = self.column.limits
        return (high - low) * np.maximum(1.0, 1 / np.sqrt(self.errors))

    def kept(self) -> WeightedKernels:
        """Return the members of positive weight."""
        members = np.flatnonzero(self.weights)
        return WeightedKernels(
            [self.representations[k] for k in members],
            [self.fits[k] for k in members],
            self.weights[members],
            self.column.limits,
            self.margins[members],
        )

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """Mean and variance of each target as the average of the others predicts it.

        Weights are those without the target too: its density is divided out of each evidence.
        """
        densities = np.array([fit.left_out_log_densities for fit in self.fits])
        variances = np.array([fit.left_out_variances for fit in self.fits])
        counts = self.column.weights
        squares = np.square(self.left_out_residuals) * counts
        rest = np.maximum(counts.sum() - counts, counts.min())
        errors = np.maximum(squares.sum(axis=1)[:, None] - squares, 0.0) / rest
        logs = TEMPERING * ((self.log_evidences + self.log_priors)[:, None] - densities)
        logs -= 0.5 * np.log(np.maximum(errors, SMALLEST_ERROR))
        low, high = self.column.limits
        margins = self.margins[:, None]
        means = np.clip(self.column.values - self.left_out_residuals, low - margins, high + margins)
        return mixture(normalized_weights(logs), means, variances)


@frozen
class WeightedKernels:
    """Members of positive weight as they predict; numbers are in units of the target's deviation.

    Attributes
    ----------
    representations : list of Representation
    fits : list of KernelFit
    weights : array of shape (n_members,)
    limits : tuple of two floats
        The range of the targets.
    margins : array of shape (n_members,)
        How far each member may leave it.
    """

    representations: list[Representation]
    fits: list[KernelFit]
    weights: Array
    limits: tuple[float, float]
    margins: Array

    def items(self) -> Iterator[tuple[float, Representation, KernelFit]]:
        """Yield the weight, the representation and the fit of each member."""
        return zip(self.weights.tolist(), self.representations, self.fits, strict=True)

    def moments(
        self,
        represented: dict[Representation, Array],
        with_variance: bool,
    ) -> tuple[Array, Array]:
        """Return the mean of the target at rows, and the variance of the mixture; else zeros."""
        low, high = self.limits
        means = []
        variances = []
        for k, fit in enumerate(self.fits):
            rows = represented[self.representations[k]]
            if with_variance:
                mean, variance = fit.mean_and_variance(rows)
                variances.append(variance)
            else:
                mean = fit.mean(rows)
            means.append(np.clip(mean, low - self.margins[k], high + self.margins[k]))
        if with_variance:
            return mixture(self.weights, np.array(means), np.array(variances))
        mean = self.weights @ np.array(means)
        return mean, np.zeros(len(mean))


def mixture(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Return the mean and variance of mixtures; members are rows, and weights theirs."""
    if weights.ndim == 1:
        weights = weights[:, None]
    mean = (weights * means).sum(axis=0)
    return mean, (weights * (variances + np.square(means - mean))).sum(axis=0)


def normalized_weights(logs: Array) -> Array:
    """Return weights that sum to one over the first axis, from their logarithms."""
    weights = np.exp(logs - logs.max(axis=0))
    return weights / weights.sum(axis=0)
