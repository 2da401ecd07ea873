"""The half steps that Lloyd and EM alternate: labels of centers, and centers of labels.

`row_steps` has them for centers with coordinates, `kernel_steps` for centers in feature space.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.loop import Iterate
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.problems.observed_clusters import ObservedClusters

ON_CENTER = 1e-11  # share of the mean divergence below which a row lies on its center


@frozen
class Assignment:
    """A point with its objective, and the labels whose centers come next.

    `stuck` means that these steps cannot lower the objective further although it is not settled.
    """

    point: ClusterPoint
    objective: float
    labels: Array
    settled: bool
    stuck: bool = False


@frozen
class ExpectationStep:
    """A mixture with its objective, and what its next centers are found from.

    `scale` is what a change of the objective is measured relative to, `rose` whether it rose.
    """

    point: ClusterPoint
    objective: float
    scale: float
    memberships: Any
    rose: bool = False


class ClusterSteps(abc.ABC):
    """The state of one run: centers, which `update` and `maximize` move."""

    @abc.abstractmethod
    def assign(self, tol: float) -> Assignment:
        """Return labels of the nearest centers; settled if centers move by less than `tol`."""

    @abc.abstractmethod
    def update(self, found: Assignment) -> None:
        """Move to the best centers of the labels that were found."""

    @abc.abstractmethod
    def expect(self, sharpness: float) -> ExpectationStep:
        """Return the responsibilities of the centers."""

    @abc.abstractmethod
    def maximize(self, found: ExpectationStep) -> None:
        """Move to the best shares and centers of responsibilities."""

    def moves(self) -> Iterator[Iterate[ClusterPoint]]:
        """Yield points that follow where `assign` is stuck."""
        return iter(())


def log_joint(D: Array, shares: Array, sharpness: float) -> Array:
    """log p_j - sharpness D_ij."""
    return np.log(np.maximum(shares, SMALLEST_NORMAL)) - sharpness * D


def responsibilities(joint: Array) -> tuple[Array, Array]:
    """Return exp(joint) scaled to sum to one over each row, and the logarithms of the sums."""
    height = logsumexp(joint, axis=1)
    return np.exp(joint - height[:, None]), height


def fill_empty(
    problem: Clusters | KernelClusters | ObservedClusters,
    labels: Array,
    own: Array,
    empty: Array,
    threshold: float,
) -> Array:
    """Return labels in which empty clusters have the rows farthest from their own centers.

    `own` are divergences from these. The nearest row of each cluster stays, since no cluster is to
    be filled by emptying another. A row within the threshold gains nothing, and the cluster stays
    empty if no other row is free.
    """
    order = np.argsort(own, kind="stable")
    if problem.weights is not None:
        order = order[problem.weights[order] > 0]
    _, nearest = np.unique(labels[order], return_index=True)
    movable = own > threshold
    movable[order[nearest]] = False
    if problem.free is not None:
        movable &= problem.free
    candidates = order[movable[order]]
    farthest = candidates[::-1][: len(empty)]
    filled = labels.copy()
    filled[farthest] = empty[: len(farthest)]
    return filled
