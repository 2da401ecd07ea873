"""Lloyd's iteration: k-means under a divergence, on rows or in feature space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.loop import Iterate
from regfactor.core.params import UnsupportedProblem
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.clusters import Clustering, ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.problems.observed_clusters import ObservedClusters
from regfactor.solvers.base import Solver
from regfactor.solvers.block_steps import BlockSteps
from regfactor.solvers.kernel_steps import KernelSteps
from regfactor.solvers.observed_steps import ObservedSteps
from regfactor.solvers.row_steps import RowSteps
from regfactor.solvers.seeding import first_point
from regfactor.solvers.steps import ClusterSteps


@dataclass
class Lloyd(Solver):
    """Labels of the nearest centers, then the best centers of the labels, until no label changes.

    Rows of a known cluster stay in it. On rows it also stops when the squared moves of all centers
    sum to at most `tol` times the mean variance of the columns. An empty cluster is given the free
    row that is farthest from its own center, which lowers the objective.
    """

    solves = Clustering
    from_limits = ("tol", "random_state")
    tol: float = 1e-4
    random_state: Any = 0
    sparse = True

    def check(self, problem: Clustering) -> None:
        if not isinstance(problem, Clustering) or problem.sharpness is not None:
            raise UnsupportedProblem(
                "Lloyd is for Clusters and KernelClusters without a sharpness; use EM for "
                "mixtures, and Alternating for factors under OneHot."
            )

    def iterates(
        self,
        problem: Clustering,
        start: ClusterPoint | None,
    ) -> Iterator[Iterate[ClusterPoint]]:
        """Yield centers with labels, from given ones or from k-means++."""
        if start is None:
            start = first_point(problem, np.random.RandomState(self.random_state))
        steps = steps_from(problem, start)
        for step in itertools.count():
            found = steps.assign(self.tol)
            # scale 0: a small change of the objective alone settles nothing
            yield Iterate(
                found.point,
                found.objective,
                steps=min(step, 1),
                settled=found.settled,
                scale=0.0,
            )
            if found.stuck:
                yield from steps.moves()
                return
            steps.update(found)


def steps_from(problem: Clustering, start: ClusterPoint) -> ClusterSteps:
    """Return the steps from a point, on rows or in feature space."""
    if isinstance(problem, BlockClusters):
        return BlockSteps(problem, start)
    if isinstance(problem, KernelClusters):
        return KernelSteps(problem, start)
    if isinstance(problem, ObservedClusters):
        return ObservedSteps(problem, start)
    assert isinstance(problem, Clusters)
    return RowSteps(problem, start)
