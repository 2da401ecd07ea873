"""Soft clustering: EM for mixtures of exponential families at any sharpness."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.loop import Iterate
from regfactor.core.params import UnsupportedProblem
from regfactor.problems.clusters import Clustering, ClusterPoint, Clusters
from regfactor.problems.observed_clusters import ObservedClusters
from regfactor.solvers.base import Solver
from regfactor.solvers.lloyd import steps_from
from regfactor.solvers.seeding import first_point


@dataclass
class EM(Solver):
    """EM on -1/rho sum_i w_i log sum_j p_j exp(-rho D(x_i, m_j)), rho the sharpness.

    The inner sum of a row of known cluster has that cluster alone. Responsibilities and means use
    the same weights w, without which the objective can rise (White & Schuurmans 2012, algorithms 4
    and 11 as printed; the latter, its M-step repaired, is this with w = 1 and its rho mu as the
    sharpness). With sharpness 1 and the family's own potential this is exact EM; as the sharpness
    grows it becomes `Lloyd`.
    """

    solves = Clustering
    from_limits = ("random_state",)
    random_state: Any = 0
    sparse = True

    def check(self, problem: Clustering) -> None:
        if not isinstance(problem, Clustering) or problem.sharpness is None:
            raise UnsupportedProblem(
                "EM is for Clusters and KernelClusters with a sharpness; use Lloyd for labels."
            )

    def iterates(
        self,
        problem: Clustering,
        start: ClusterPoint | None,
    ) -> Iterator[Iterate[ClusterPoint]]:
        """Yield shares and centers, with the objective at them."""
        assert problem.sharpness is not None
        if start is None:
            start = first_point(problem, np.random.RandomState(self.random_state))
        steps = steps_from(problem, start)
        for step in itertools.count():
            found = steps.expect(problem.sharpness)
            yield Iterate(found.point, found.objective, steps=min(step, 1), scale=found.scale)
            if found.rose:
                return
            steps.maximize(found)


def soft_start(problem: Clusters | ObservedClusters, hard: ClusterPoint) -> ClusterPoint:
    """Return labels as a mixture, in which a cluster without a row keeps a share."""
    assert hard.labels is not None
    masses = problem.masses(hard.labels)
    shares = (masses + 1 / len(masses)) / (masses.sum() + 1)
    return ClusterPoint(hard.centers, shares=shares, covariance=hard.covariance)
