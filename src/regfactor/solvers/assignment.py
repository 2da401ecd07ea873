"""Clusters of which some rows are known: semi-supervised classification by reverse prediction.

The objective is (26) of White & Schuurmans (2012), sum_L D(x_i || m_{y_i}) / T_l + mu sum_U min_j
D(x_i || m_j) / T_u. Weights that enter the objective enter the means too; as printed, mu changes
nothing (algorithm 10) and the objective rises (algorithm 11).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses.distances import Divergence, SquaredDistance
from regfactor.problems.clusters import ENTRIES, SAMPLE, Clusters
from regfactor.solvers.em import Mixture
from regfactor.solvers.lloyd import Lloyd, at_centers, refilled
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import inner_rows, spread_rows, taken

CLASSLESS = -1  # the code of a row whose class is free
SIMPLE = 10  # iterations before a covariance is fitted


@dataclass(frozen=True, eq=False)
class LabeledClusters(Clusters):
    """factor times sum_i w_i D(x_i, m_{z_i}) over classes z and centers m, where z_i = codes_i unless that is -1."""

    codes: Array
    factor: float = 1.0

    @cached_property
    def labeled(self) -> Array:
        """The places of the rows whose class is known."""
        return np.flatnonzero(self.codes != CLASSLESS)

    def labeled_blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield places of labeled rows with the rows in float64."""
        size = max(ENTRIES // self.X.shape[1], 16)
        for start in range(0, len(self.labeled), size):
            some = self.labeled[start : start + size]
            yield some, taken(self.X, some)

    def objective(self, divergence: Divergence, gain: float) -> float:
        return self.factor * super().objective(divergence, gain)


@dataclass
class ScaledDistance(SquaredDistance):
    """D = sum_j (x_j - m_j)^2 / (2 variance_j)."""

    variance: Array

    @property
    def additive(self) -> bool:
        return False  # every column has its own F

    def values(self, X: Array) -> Array:
        return super().values(X / np.sqrt(self.variance))

    def links(self, M: Array, anchor: Array) -> tuple[Array, Array]:
        moved = M - anchor
        f = moved / self.variance
        return f, np.einsum("ij,ij->i", f, moved) / 2


@dataclass
class LabeledLloyd(Lloyd):
    """Lloyd's iteration in which rows of a known class stay in it; an empty class is given a free row."""

    def check(self, problem: Clusters) -> None:
        if not isinstance(problem, LabeledClusters):
            raise UnsupportedProblem("LabeledLloyd is for LabeledClusters; use Lloyd for Clusters.")

    def assigned(self, problem: LabeledClusters, centers: Centers) -> tuple[Array, float]:
        labels, gain = super().assigned(problem, centers)
        for (
            some,
            X,
        ) in (
            problem.labeled_blocks()
        ):  # the gain of the nearest center is taken back for that of the class
            D = centers.divergence.between(X, centers.M, centers.anchor)
            at = np.arange(len(some))
            lost = D[at, problem.codes[some]] - D[at, labels[some]]
            gain -= float(lost.sum() if problem.weights is None else problem.weights[some] @ lost)
            labels[some] = problem.codes[some]
        return labels, gain

    def refill(
        self,
        problem: LabeledClusters,
        centers: Centers,
        labels: Array,
        empty: Array,
    ) -> Array:
        return refilled(problem, centers, labels, empty, problem.codes == CLASSLESS)


@dataclass
class LabeledMixture(Mixture):
    """EM on factor/sharpness times -sum_i w_i log sum_j p_j exp(-sharpness D(x_i, m_j)).

    The inner sum of a row of known class has that class alone. As the sharpness grows it becomes
    `LabeledLloyd`. The printed algorithm 11, with M-step repaired, is this with w = 1 and its rho
    mu as the sharpness.
    """

    def check(self, problem: Clusters) -> None:
        if not isinstance(problem, LabeledClusters):
            raise UnsupportedProblem(
                "LabeledMixture is for LabeledClusters; use Mixture for Clusters.",
            )

    def joint(self, problem: LabeledClusters, at: slice, D: Array, p: Array) -> Array:
        return clamped(super().joint(problem, at, D, p), problem.codes[at])

    def iterates(self, problem: Any, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield as `Mixture` does; changes are measured per unit of weight, for a likelihood has its zero anywhere."""
        unit = problem.factor * problem.mass / self.sharpness
        return (replace(it, scale=unit) for it in super().iterates(problem, start))

    def _sweep(
        self,
        problem: Any,
        divergence: Divergence,
        p: Array,
        M: Array,
    ) -> tuple[float, Array, Array]:
        value, masses, means = super()._sweep(problem, divergence, p, M)
        return problem.factor / self.sharpness * value, masses, means


def clamped(joint: Array, codes: Array) -> Array:
    """Return log weights of classes with those that a known class rules out at -inf."""
    others = codes[:, None] != np.arange(joint.shape[1])
    return np.where(others & (codes != CLASSLESS)[:, None], -np.inf, joint)


def first_point(
    problem: LabeledClusters, free: Array, random: np.random.RandomState
) -> FactorPoint:
    """Return where centers begin: means of labeled rows, and free rows far from all centers for other classes.

    With no labeled row at all it is k-means++. `free` tells which rows can stand for a class.
    """
    w = np.ones(len(free)) if problem.weights is None else problem.weights
    sums = np.zeros((problem.n_clusters, problem.X.shape[1]))
    masses = np.zeros(problem.n_clusters)
    for some, X in problem.labeled_blocks():
        codes = problem.codes[some]
        joins = scipy.sparse.csr_array(
            (w[some], (codes, np.arange(len(some)))),
            (problem.n_clusters, len(some)),
        )
        sums += joins @ X
        masses += np.bincount(codes, w[some], minlength=problem.n_clusters)
    if not masses.any():
        return at_centers(problem, spread_rows(problem, random))
    M = sums / np.where(masses > 0, masses, 1)[:, None]
    known = masses > 0
    if not known.all():
        M = _with_farthest(problem, M, known, free)
    return at_centers(problem, M)


def _with_farthest(problem: LabeledClusters, M: Array, known: Array, free: Array) -> Array:
    """Return centers in which each class that is not known has the free row farthest from all centers before it."""

    def distances(some: Array) -> Array:
        return Centers(problem.started, some, problem.anchor, problem.far).between(problem.X)

    M, closest = M.copy(), distances(M[known]).min(axis=1)
    for j in np.flatnonzero(~known):
        farthest = int(np.where(free, closest, -1).argmax())
        M[j] = inner_rows(problem, np.array([farthest]))[0]
        closest = np.minimum(closest, distances(M[j : j + 1])[:, 0])
    return M


def by_columns(problem: LabeledClusters, start: FactorPoint) -> FactorPoint:
    """Return centers after some iterations that measure every column by its own variance.

    A covariance between columns fits whatever classes it begins with; from few labels it needs
    better ones.
    """
    assert problem.started.parameters is not None, "only a covariance needs this start"
    simple = replace(problem, divergence=ScaledDistance(np.diag(problem.started.parameters)))
    *_, last = itertools.islice(LabeledLloyd().iterates(simple, start), SIMPLE)
    return at_centers(problem, last.point.factors.C)


def sample_of_costs(
    problem: LabeledClusters,
    centers: Centers,
    labels: Array,
) -> tuple[Array, Array]:
    """Return the divergences of rows from their own centers, of a sample where there are many, and their weights."""
    some = slice(None, None, -(-problem.X.shape[0] // SAMPLE))
    own = centers.own(problem.X[some], labels[some])
    return own, np.ones(len(own)) if problem.weights is None else problem.weights[some]


def sharpness_of(costs: Array, weights: Array, dimension: int) -> float:
    """Return the rho for which costs D are as spread as under the density exp(-rho D), whatever their unit.

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
