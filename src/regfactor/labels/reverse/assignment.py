"""Classes by their centers: weights of labeled and free rows, the sharpness, scores of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.loop import Limits
from regfactor.core.params import Array, warn
from regfactor.fitting.kernel_blocks import ImplicitCenters
from regfactor.kernels import Kernel
from regfactor.losses.distances import ScaledDistance
from regfactor.problems.clusters import FREE, SAMPLED_ROWS, ClusterPoint, Clusters
from regfactor.solvers.choose import solve_within
from regfactor.solvers.nearest import Centers
from regfactor.solvers.steps import log_joint

DIAGONAL_ITERATIONS = 9  # before a covariance is fitted
# share of labeled rows, of those right before, below which soft classes have merged
MERGED = 0.8


@dataclass(frozen=True, eq=False)
class Balance:
    """mu, weights relative to labeled rows, and the factor that makes the sum objective (26)."""

    mu: float
    weights: Array | None
    factor: float

    @staticmethod
    def of(codes: Array, w: Array | None, mu: float | None) -> Balance:
        """Return the weights for mu; None is T_u / T_l, by which all rows count alike."""
        labeled = codes != FREE
        if w is None:
            total = float(len(codes))
            labeled_mass = float(labeled.sum())
        else:
            total = float(w.sum())
            labeled_mass = float(w[labeled].sum())
        free_mass = 0.0 if labeled.all() else max(total - labeled_mass, 0.0)
        if not (labeled_mass > 0 and free_mass > 0):  # one sum is empty, the other a mean
            share = 1.0 if labeled_mass > 0 or mu is None else mu
            return Balance(1.0 if mu is None else mu, w, share / total)
        if mu is None:
            return Balance(free_mass / labeled_mass, w, 1 / labeled_mass)
        relative = np.where(labeled, 1.0, mu * labeled_mass / free_mass)
        if w is not None:
            relative *= w
        return Balance(mu, relative, 1 / labeled_mass)


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """The rows of a kernel matrix as features of new rows."""

    kernel: Kernel
    X: Any
    prepared: Any

    def __call__(self, X: Any) -> Array:
        return np.ascontiguousarray(self.kernel.gram(X, self.X, self.prepared))


@dataclass(frozen=True, eq=False)
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

    def probabilities(self, X: Any) -> Array:
        """Return the probability of each class for each row."""
        joint = self.log_joint(X)
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


def sharpness_of_rows(problem: Clusters, point: ClusterPoint) -> float:
    """Return the automatic sharpness, by a sample of the rows where there are many."""
    assert point.labels is not None
    some = slice(None, None, -(-problem.X.shape[0] // SAMPLED_ROWS))
    own = Centers.of(problem, point).own(problem.X[some], point.labels[some])
    return sharpness_of(own, problem.weights_at(some), problem.X.shape[1])


def sharpness_of(costs: Array, weights: Array, dimension: int) -> float:
    """Return the rho for which costs D are as spread as under exp(-rho D), whatever their unit.

    There D is about gamma distributed with rate rho and shape half the dimension that the data
    fill, so that rho is mean / variance, and at most dimension / (2 mean).
    """
    if not weights.any():
        return 1.0
    mean = float(np.average(costs, weights=weights))
    if mean <= 0:
        return 1.0
    variance = float(np.average(np.square(costs - mean), weights=weights))
    most = dimension / (2 * mean)
    if variance > 0:
        return min(mean / variance, most)
    return most


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
            f"assignment='hard', or raise sharpness (now {sharpness:.3g}).",
        )
