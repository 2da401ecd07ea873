"""Which steps solve a clustering: those on rows, or those in feature space."""

from __future__ import annotations

from regfactor.problems.clusters import Clustering, ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.kernel_steps import KernelSteps
from regfactor.solvers.row_steps import RowSteps
from regfactor.solvers.steps import Steps


def steps_from(problem: Clustering, start: ClusterPoint) -> Steps:
    """Return the steps of a problem from a point."""
    if isinstance(problem, KernelClusters):
        return KernelSteps(problem, start)
    assert isinstance(problem, Clusters)
    return RowSteps(problem, start)
