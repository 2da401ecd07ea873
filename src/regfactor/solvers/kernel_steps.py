"""Steps with centers in the feature space of a kernel: |s phi(x)|^2 - 2 <s phi(x), m> + |m|^2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.problems.clusters import FREE, ClusterPoint
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.steps import (
    ON_CENTER,
    Assignment,
    ClusterSteps,
    ExpectationStep,
    fill_empty,
    log_joint,
    responsibilities,
)

MAX_RISE = 1e-10  # relative rise of the objective beyond which the kernel is indefinite
# negative squared distance, relative to the largest product, beyond which it is indefinite too:
# more than the rounding of single precision
MAX_NEGATIVE = 1e-5


class KernelSteps(ClusterSteps):
    """Steps of `KernelClusters`, whose state is the labels or memberships that centers are of.

    Where K turns out not to be positive semidefinite, as affinities without a diagonal are not,
    steps can make the objective rise; `moves` goes on from the best labels.
    """

    def __init__(self, problem: KernelClusters, start: ClusterPoint) -> None:
        self.problem = problem
        self.objective = np.inf
        if start.memberships is not None:
            self.memberships = start.memberships
            return
        assert start.labels is not None, "clusters in feature space start from labels"
        self.labels = start.labels
        if (start.labels == FREE).any():
            centers, inner = problem.centers_of(start.labels)
            self.labels = self._nearest(centers.relative(inner), start.labels)
        self.previous: Array | None = None
        self.memberships = problem.memberships(self.labels)

    def assign(self, tol: float) -> Assignment:
        problem = self.problem
        centers, inner = problem.centers_of(self.labels)
        objective = problem.objective(centers)
        relative = centers.relative(inner)
        labels = self._nearest(relative, self.labels)
        still = self.previous is not None and np.array_equal(self.labels, self.previous)
        nearest = float((problem.lengths[:, None] + relative).min())
        rose = objective > self.objective + MAX_RISE * abs(self.objective)
        self.lowest = self.labels
        if rose and self.previous is not None:
            self.lowest = self.previous
        indefinite = rose or nearest < -MAX_NEGATIVE * np.abs(inner).max()
        return Assignment(
            ClusterPoint(labels=self.labels),
            objective,
            labels,
            settled=still and not indefinite,
            stuck=indefinite and (rose or still),
        )

    def update(self, found: Assignment) -> None:
        self.previous = self.labels
        self.labels = found.labels
        self.objective = found.objective

    def _nearest(self, relative: Array, labels: Array) -> Array:
        """Return the labels of the nearest centers, ties as they are; no cluster is left empty.

        They are compared without |s phi(x)|^2, relative to which the differences of a row of
        almost no degree would lose all precision.
        """
        problem = self.problem
        every = np.arange(len(labels))
        least = relative.min(axis=1)
        stays = (labels != FREE) & (relative[every, labels] <= least)
        nearest = np.where(stays, labels, relative.argmin(axis=1)).astype(np.int32)
        if problem.codes is not None:
            nearest = np.where(problem.codes == FREE, nearest, problem.codes).astype(np.int32)
        masses = np.bincount(nearest, problem.mass, minlength=problem.n_clusters)
        empty = np.flatnonzero(masses == 0)
        if not len(empty):
            return nearest
        own = problem.lengths + relative[every, nearest]
        return fill_empty(problem, nearest, own, empty, ON_CENTER * problem.lengths.mean())

    def moves(self) -> Iterator[Iterate[ClusterPoint]]:
        """Yield labels after moves each of which lowers the objective, for any symmetric K.

        The change by the move of a single row is known exactly (Hartigan 1975). All rows that
        would lower the objective move at once if that lowers it, else the better half of them, and
        so on to the best one, which does. No move empties a cluster.
        """
        problem = self.problem
        labels = without_empty(problem, self.lowest)
        objective = problem.objective(problem.centers_of(labels)[0])
        while True:
            centers, inner = problem.centers_of(labels)
            D = problem.distances(centers, inner)
            target, change = changes_by_moves(problem, D, centers.masses, labels)
            count = np.count_nonzero(change < -MAX_RISE * abs(objective))
            movers = np.argsort(change, kind="stable")[:count]
            settled = True
            while len(movers) and settled:
                moved = labels.copy()
                moved[movers] = target[movers]
                reached = problem.centers_of(moved)[0]
                lowered = problem.objective(reached)
                full = (reached.masses > 0).sum() >= (centers.masses > 0).sum()
                if full and lowered < objective:
                    labels = moved
                    objective = lowered
                    settled = False
                movers = movers[: len(movers) // 2]
            if settled:
                # Rows without weight change nothing, and go where new ones would be placed.
                placed = centers.relative(inner).argmin(axis=1)
                stays = problem.weights > 0
                if problem.free is not None:
                    stays |= ~problem.free
                labels = np.where(stays, labels, placed).astype(np.int32)
            yield Iterate(ClusterPoint(labels=labels), objective, settled=settled)
            if settled:
                return

    def expect(self, sharpness: float) -> ExpectationStep:
        problem = self.problem
        centers, inner = problem.centers(self.memberships)
        D = np.maximum(problem.distances(centers, inner), 0)
        total = float(problem.mass.sum())
        shares = problem.mass @ self.memberships / total
        joint = problem.restrict(log_joint(D, shares, sharpness), slice(None))
        memberships, height = responsibilities(joint)
        unit = problem.factor / sharpness
        objective = -unit * float(problem.mass @ height)
        point = ClusterPoint(shares=shares, memberships=self.memberships, sharpness=sharpness)
        rose = objective > self.objective + MAX_RISE * abs(self.objective)
        return ExpectationStep(point, objective, unit * total, memberships, rose)

    def maximize(self, found: ExpectationStep) -> None:
        self.memberships = found.memberships
        self.objective = found.objective


def changes_by_moves(
    problem: KernelClusters,
    D: Array,
    masses: Array,
    labels: Array,
) -> tuple[Array, Array]:
    """Return the best other cluster of each row, and the change of the objective by its move."""
    mass = problem.mass
    every = np.arange(len(labels))
    joined = np.where(masses > 0, masses / (masses + mass[:, None]) * D, 0.0)
    joined[every, labels] = np.inf
    target = joined.argmin(axis=1).astype(np.int32)
    own = masses[labels]
    left = own - mass
    last = left <= MAX_RISE * own  # of its cluster
    change = joined[every, target] - own / np.where(last, 1, left) * D[every, labels]
    stays = last | (mass == 0)
    if problem.free is not None:
        stays |= ~problem.free
    return target, np.where(stays, np.inf, problem.factor * mass * change)


def without_empty(problem: KernelClusters, labels: Array) -> Array:
    """Return labels in which every cluster has a row, those farthest from their own centers."""
    centers, inner = problem.centers_of(labels)
    own = problem.distances(centers, inner)[np.arange(len(labels)), labels]
    return fill_empty(problem, labels, own, np.flatnonzero(centers.masses == 0), -np.inf)
