"""Classes of rows by their centers: nearest ones, probabilities, and the start of a mixture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.loop import Limits
from regfactor.core.params import Array, frozen, warn
from regfactor.fitting.kernel_blocks import ImplicitCenters
from regfactor.kernels import Kernel
from regfactor.losses.distances import ScaledDistance
from regfactor.problems.clusters import FREE, ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.base import solve_within
from regfactor.solvers.em import soft_start
from regfactor.solvers.nearest import Centers
from regfactor.solvers.steps import log_joint

DIAGONAL_ITERATIONS = 9  # before a covariance is fitted
# share of labeled rows, of those right before, below which soft classes have merged
MERGED = 0.8


@frozen
class KernelFeatures:
    """The rows of a kernel matrix as features of new rows."""

    kernel: Kernel
    X: Any
    prepared: Any

    def __call__(self, X: Any) -> Array:
        return np.ascontiguousarray(self.kernel.gram(X, self.X, self.prepared))


@frozen
class ClassCenters:
    """Centers of classes with what turns divergences into probabilities.

    `prior` is None where rows are assigned hard. With `features` of a kernel, these are found
    before rows are compared with centers.
    """

    centers: Centers | ImplicitCenters
    sharpness: float
    prior: Array | None
    features: KernelFeatures | None = None

    def nearest(self, X: Any) -> Array:
        """Return the place of the most probable class of each row."""
        if self.prior is not None:
            return self.log_joint(X).argmax(axis=1)
        if self.features is not None:
            X = self.features(X)
        return self.centers.nearest(X)[0]

    def log_joint(self, X: Any) -> Array:
        """log p_j - sharpness D(x, m_j), up to a term of the row."""
        if isinstance(self.centers, ImplicitCenters):
            D = self.centers.relative(X)
            D -= D.min(axis=1, keepdims=True)
        else:
            if self.features is not None:
                X = self.features(X)
            D = self.centers.between(X).astype(np.float64, copy=False)
        prior = self.prior
        if prior is None:
            prior = np.full(D.shape[1], 1 / D.shape[1])
        return log_joint(D, prior, self.sharpness)

    def probabilities(self, X: Any, inverse_temperature: float) -> Array:
        """Return the probability of each class for each row."""
        joint = inverse_temperature * self.log_joint(X)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def diagonal_start(problem: Clusters, start: ClusterPoint) -> ClusterPoint:
    """Return centers after some iterations that measure every column by its own variance.

    A covariance between columns fits whatever classes it starts with; from few labels it needs
    better ones.
    """
    covariance = problem.started.covariance
    assert covariance is not None, "only a fitted covariance needs this start"
    simple = replace(problem, divergence=ScaledDistance(np.diag(covariance)))
    solution = solve_within(simple, Limits(max_iter=DIAGONAL_ITERATIONS), start)
    return ClusterPoint(solution.point.centers)


def start_of_mixture(problem: Clusters | KernelClusters, hard: ClusterPoint) -> ClusterPoint:
    """Return labels as a mixture, in which a class without a row keeps a share."""
    if isinstance(problem, KernelClusters):
        return ClusterPoint(memberships=memberships_of(problem, hard))
    return soft_start(problem, hard)


def memberships_of(problem: KernelClusters, point: ClusterPoint) -> Array:
    """Return the memberships of a point, those of its labels where it has none."""
    if point.memberships is not None:
        return point.memberships
    assert point.labels is not None
    return problem.memberships(point.labels)


def kernel_divergences(problem: KernelClusters, point: ClusterPoint) -> Array:
    """D_ij in feature space."""
    centers, inner = problem.centers(memberships_of(problem, point))
    return np.maximum(problem.distances(centers, inner), 0)


def nearest_classes(problem: Clusters | KernelClusters, point: ClusterPoint) -> Array:
    """Return the nearest center of every training row, known classes aside."""
    if isinstance(problem, KernelClusters):
        return kernel_divergences(problem, point).argmin(axis=1)
    return Centers.of(problem, point).nearest(problem.X)[0]


def log_joint_of_rows(problem: Clusters | KernelClusters, point: ClusterPoint) -> Array:
    """log p_j - sharpness D_ij of the training rows."""
    if isinstance(problem, KernelClusters):
        D = kernel_divergences(problem, point)
    else:
        D = Centers.of(problem, point).between(problem.X).astype(np.float64, copy=False)
    assert point.shares is not None
    return log_joint(D, point.shares, point.sharpness)


def warn_if_merged(codes: Array, nearest: Array, found: Array, sharpness: float) -> None:
    """Warn if fewer labeled rows are in their class than at the hard start."""
    known = codes != FREE
    if not known.any():
        return
    before = float(np.mean(nearest[known] == codes[known]))
    after = float(np.mean(found[known] == codes[known]))
    if after < MERGED * before:
        warn(
            f"Soft classes ran into each other: {after:.0%} of the labeled rows are most probable "
            f"in their own class, and {before:.0%} were nearest to its center before. Use "
            f"assignment='hard', or raise sharpness (now {sharpness:.3g})."
        )
