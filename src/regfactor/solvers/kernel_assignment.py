"""Classes of which some rows are known, in the feature space of a kernel whose features are never formed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.solvers.assignment import CLASSLESS, clamped
from regfactor.solvers.base import Solver
from regfactor.solvers.em import log_joint
from regfactor.solvers.kernel_lloyd import (
    RISE,
    KernelCenters,
    KernelClusters,
    one_hot,
    spread_labels,
)
from regfactor.solvers.lloyd import NOTHING, with_farthest


@dataclass(frozen=True, eq=False)
class LabeledKernelClusters:
    """A clustering problem in feature space with the classes of some rows; `degrees` are weights of the graph."""

    space: KernelClusters
    codes: Array
    degrees: Array

    @property
    def free(self) -> Array:
        """Which rows have no class."""
        return np.asarray(self.codes == CLASSLESS)

    def centers(self, Z: Array) -> tuple[KernelCenters, Array]:
        """Return the centers of memberships, and D_ij = |s_i phi(x_i) - m_j|^2 / 2."""
        space = self.space
        H = space.weights[:, None] * Z
        masses = space.mass @ Z
        full = np.where(masses > 0, masses, 1)
        inner = space.products(H) / full
        squares = np.einsum("ij,ij->j", H, inner) / full
        centers = KernelCenters(H / full, self.degrees, masses, squares)
        D = space.lengths[:, None] + centers.relative(space.scale[:, None] * inner)
        return centers, np.maximum(D, 0)

    def one_hot(self, labels: Array) -> Array:
        """Return labels as memberships; of -1 there are none."""
        return (labels[:, None] == np.arange(self.space.n_clusters)).astype(np.float64)

    def first(self, random: np.random.RandomState) -> Array:
        """Return first labels: those given, and for each class without one the free row farthest from all centers."""
        codes = self.codes.copy()
        if self.free.all():
            return spread_labels(self.space, random)
        weighty = self.space.weights > 0
        for j in np.setdiff1d(np.arange(self.space.n_clusters), codes[weighty]):
            _, D = self.centers(self.one_hot(codes))
            classless = (codes == CLASSLESS) & (self.degrees > 0)
            codes[np.where(classless, D.min(axis=1), -1).argmax()] = j
        return codes

    def assigned(self, D: Array, labels: Array) -> Array:
        """Return the class of the nearest center of free rows; ties stay, and an empty class is given a free row."""
        at = np.arange(len(D))
        least = D.min(axis=1)
        stay = (labels != CLASSLESS) & (D[at, labels] <= least)
        nearest = np.where(self.free, np.where(stay, labels, D.argmin(axis=1)), self.codes)
        masses = np.bincount(nearest, self.space.mass, minlength=self.space.n_clusters)
        empty = np.flatnonzero(masses == 0)
        if not len(empty):
            return nearest
        allowed = self.space.weights, self.free
        return with_farthest(nearest, D[at, nearest], empty, allowed, NOTHING * float(least.mean()))


@dataclass
class LabeledKernelLloyd(Solver):
    """Classes of the nearest centers in feature space, then the centers of the classes, until no class changes.

    A kernel that is not positive semidefinite can make the objective rise; the iteration then ends
    at the best classes.
    """

    def check(self, problem: LabeledKernelClusters) -> None:
        if not isinstance(problem, LabeledKernelClusters):
            raise UnsupportedProblem("LabeledKernelLloyd is for LabeledKernelClusters.")

    def iterates(
        self, problem: LabeledKernelClusters, start: FactorPoint | None
    ) -> Iterator[Iterate[Any]]:
        """Yield classes with their own centers, from first labels of which some may be -1."""
        assert start is not None and start.coefficients is not None, (
            "LabeledKernelLloyd needs labels to start from"
        )
        _, D = problem.centers(problem.one_hot(start.coefficients))
        labels = problem.assigned(D, start.coefficients)
        none = np.zeros((problem.space.n_clusters, 0))
        last = np.inf
        while True:
            _, D = problem.centers(problem.one_hot(labels))
            value = problem.space.factor * float(problem.space.mass @ D[np.arange(len(D)), labels])
            new = problem.assigned(D, labels)
            still = np.array_equal(new, labels)
            point = FactorPoint(Factors(one_hot(labels, len(none)), none))
            yield Iterate(point, value, settled=still)
            if value > last + RISE * abs(last):
                return
            labels = new
            last = value


@dataclass
class LabeledKernelMixture(Solver):
    """EM as in `LabeledMixture`, with centers in feature space."""

    sharpness: float = 1.0

    def check(self, problem: LabeledKernelClusters) -> None:
        if not isinstance(problem, LabeledKernelClusters):
            raise UnsupportedProblem("LabeledKernelMixture is for LabeledKernelClusters.")

    def iterates(
        self, problem: LabeledKernelClusters, start: FactorPoint | None
    ) -> Iterator[Iterate[Any]]:
        """Yield memberships whose centers the objective is stated at, with proportions (the free part)."""
        assert start is not None, "LabeledKernelMixture needs memberships to start from"
        Z = start.factors.codes
        space = problem.space
        last = np.inf
        none = np.zeros((space.n_clusters, 0))
        scale = space.factor / self.sharpness
        for step in itertools.count():
            _, D = problem.centers(Z)
            p = space.mass @ Z / space.mass.sum()
            joint = clamped(log_joint(D, p, self.sharpness), problem.codes)
            height = logsumexp(joint, axis=1)
            value = -scale * float(space.mass @ height)
            unit = scale * float(space.mass.sum())
            yield Iterate(FactorPoint(Factors(Z, none), p), value, steps=min(step, 1), scale=unit)
            if value > last + RISE * abs(last):
                return
            Z = np.exp(joint - height[:, None])
            last = value
