"""Steps with centers of rows that have missing entries."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.problems.clusters import FREE, ClusterPoint
from regfactor.problems.observed_clusters import ObservedClusters
from regfactor.solvers.steps import (
    ON_CENTER,
    Assignment,
    ClusterSteps,
    ExpectationStep,
    fill_empty,
    log_joint,
    responsibilities,
)


class ObservedSteps(ClusterSteps):
    """Steps of `ObservedClusters`: divergences and centers by products over observed entries."""

    def __init__(self, problem: ObservedClusters, start: ClusterPoint) -> None:
        assert start.centers is not None, "clusters of rows start from centers"
        self.problem = problem
        self.centers = start.centers
        self.shares = start.shares
        self.labels: Array | None = None
        self.move = np.inf

    def assign(self, tol: float) -> Assignment:
        problem = self.problem
        D = problem.distances(self.centers)
        labels = D.argmin(axis=1).astype(np.int32)
        if problem.codes is not None:
            labels = np.where(problem.codes == FREE, labels, problem.codes).astype(np.int32)
        own = np.take_along_axis(D, labels[:, None].astype(np.intp), 1)[:, 0]
        objective = problem.factor * float(problem.row_weights @ own)
        following = labels
        empty = np.flatnonzero(problem.masses(labels) == 0)
        if len(empty):
            following = fill_empty(problem, labels, own, empty, ON_CENTER * problem.scale)
        still = self.labels is not None and np.array_equal(following, self.labels)
        near = self.move <= tol * problem.variance
        point = ClusterPoint(self.centers, labels)
        return Assignment(point, objective, following, settled=still or near)

    def update(self, found: Assignment) -> None:
        memberships = (found.labels[:, None] == np.arange(self.problem.n_clusters)).astype(float)
        self.labels = found.labels
        self._move_to(self.problem.centers(self.problem.row_weights[:, None] * memberships))

    def expect(self, sharpness: float) -> ExpectationStep:
        problem = self.problem
        assert self.shares is not None
        joint = log_joint(problem.distances(self.centers), self.shares, sharpness)
        memberships, height = responsibilities(problem.restrict(joint, slice(None)))
        unit = problem.factor / sharpness
        objective = -unit * float(problem.row_weights @ height)
        point = ClusterPoint(self.centers, shares=self.shares, sharpness=sharpness)
        return ExpectationStep(point, objective, unit * problem.mass, memberships)

    def maximize(self, found: ExpectationStep) -> None:
        weighted = self.problem.row_weights[:, None] * found.memberships
        self.shares = weighted.sum(axis=0) / self.problem.mass
        self._move_to(self.problem.centers(weighted))

    def _move_to(self, centers: Array) -> None:
        self.move = float(np.square(centers - self.centers).sum())
        self.centers = centers
