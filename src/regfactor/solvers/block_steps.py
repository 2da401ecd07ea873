"""Steps with centers of rows that are read by blocks: each is a pass that adds up sums of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.engine.blocks import RowBlock
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.clusters import ClusterPoint, row_blocks
from regfactor.problems.observed_clusters import ObservedCenters
from regfactor.solvers.nearest import Centers
from regfactor.solvers.steps import (
    ON_CENTER,
    Assignment,
    ClusterSteps,
    ExpectationStep,
    log_joint,
    responsibilities,
)


@frozen
class ClusterTerms:
    """What a pass needs besides a block; without shares rows belong to the nearest center."""

    centers: Centers
    shares: Array | None = None
    sharpness: float = np.inf

    def compare(self, X: Array, missing: bool) -> Array:
        """D of rows from all centers, over observed entries."""
        if missing:
            return ObservedCenters(self.centers.divergence, self.centers.M).between(X)
        return self.centers.between(X)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """What a pass adds up, all of it weighted.

    Attributes
    ----------
    cost : float
        Divergences from the own centers; of a mixture minus log likelihoods over the sharpness.
    masses : ndarray of shape (n_clusters,)
        Weights of rows.
    sums, counts : ndarray of shape (n_clusters, n_features)
        Sums of observed entries, and their weights.
    own : ndarray of shape (at most n_clusters,)
        The largest divergences of rows from their own centers.
    farthest : ndarray of shape (at most n_clusters, n_features)
        The rows of these.
    """

    cost: float
    masses: Array
    sums: Array
    counts: Array
    own: Array
    farthest: Array

    def __add__(self, other: ClusterSums) -> ClusterSums:
        own = np.concatenate([self.own, other.own])
        largest = np.argsort(-own, kind="stable")[: len(self.masses)]
        return ClusterSums(
            self.cost + other.cost,
            self.masses + other.masses,
            self.sums + other.sums,
            self.counts + other.counts,
            own[largest],
            np.concatenate([self.farthest, other.farthest])[largest],
        )


def sums_of_block(block: RowBlock, terms: ClusterTerms) -> ClusterSums:
    """Return the sums of one block, of which a few rows are dense at once."""
    X = block.load()
    weights = np.ones(block.length)
    if block.weights is not None:
        weights = block.weights
    shape = terms.centers.M.shape
    nothing = np.zeros(shape)
    total = ClusterSums(0.0, nothing[:, 0], nothing, nothing, np.zeros(0), np.zeros((0, shape[1])))
    for at, rows in row_blocks(X):
        if terms.shares is None:
            total += _labeled(rows, weights[at], terms)
        else:
            total += _shared(rows, weights[at], terms)
    return total


def _labeled(X: Array, w: Array, terms: ClusterTerms) -> ClusterSums:
    k = len(terms.centers.M)
    missing = np.isnan(X)
    if missing.any():
        D = terms.compare(X, True)
        labels = D.argmin(axis=1)
        own = D.min(axis=1).astype(np.float64)
    else:
        labels = terms.centers.nearest(X)[0]
        own = terms.centers.own(X, labels)
    members = scipy.sparse.csr_array((w, (labels, np.arange(len(X)))), shape=(k, len(X)))
    sums = _added(members, np.bincount(labels, w, k), X, missing)
    counted = np.where(w > 0, own, -np.inf)
    largest = np.argsort(-counted, kind="stable")[:k]
    farthest = np.where(missing[largest], terms.centers.anchor, X[largest])
    return replace(sums, cost=float(w @ own), own=counted[largest], farthest=farthest)


def _shared(X: Array, w: Array, terms: ClusterTerms) -> ClusterSums:
    missing = np.isnan(X)
    D = terms.compare(X, bool(missing.any())).astype(np.float64)
    assert terms.shares is not None
    Z, height = responsibilities(log_joint(D, terms.shares, terms.sharpness))
    members = (Z * w[:, None]).T
    sums = _added(members, members.sum(axis=1), X, missing)
    return replace(sums, cost=-float(w @ height) / terms.sharpness)


def _added(members: Any, masses: Array, X: Array, missing: Array) -> ClusterSums:
    """Return sums and counts of rows under weights of clusters, k x n."""
    none = np.zeros((0, X.shape[1]))
    if not missing.any():
        counts = np.broadcast_to(masses[:, None], (len(masses), X.shape[1]))
        return ClusterSums(0.0, masses, members @ X, counts, none[:, 0], none)
    counts = members @ (~missing).astype(np.float64)
    sums = members @ np.where(missing, 0.0, X)
    return ClusterSums(0.0, masses, sums, counts, none[:, 0], none)


class BlockSteps(ClusterSteps):
    """Steps of `BlockClusters`; an empty cluster moves to a row far from all centers."""

    def __init__(self, problem: BlockClusters, start: ClusterPoint) -> None:
        assert start.centers is not None, "clusters of rows start from centers"
        self.problem = problem
        self.centers = start.centers
        self.shares = start.shares
        self.next_centers = start.centers
        self.largest_cost = 0.0
        self.move = np.inf

    def assign(self, tol: float) -> Assignment:
        problem = self.problem
        sums = self._sums(ClusterTerms(self._compared))
        self.next_centers = self._centers_of(sums)
        empty = np.flatnonzero(sums.masses == 0)
        self.largest_cost = max(self.largest_cost, sums.cost / problem.mass)
        useful = sums.own > ON_CENTER * self.largest_cost
        filled = empty[: useful.sum()]
        self.next_centers[filled] = sums.farthest[: len(filled)]
        near = self.move <= tol * float(problem.variances.mean())
        return Assignment(
            ClusterPoint(self.centers),
            problem.factor * (sums.cost + problem.divergence.parameter_cost(problem.mass)),
            np.zeros(0, np.int32),
            settled=near and not len(filled),
        )

    def update(self, found: Assignment) -> None:
        self._move_to_next()

    def expect(self, sharpness: float) -> ExpectationStep:
        problem = self.problem
        shares = self.shares
        assert shares is not None, "a mixture starts from shares and centers"
        sums = self._sums(ClusterTerms(self._compared, shares, sharpness))
        self.next_centers = self._centers_of(sums)
        objective = problem.factor * (sums.cost + problem.divergence.parameter_cost(problem.mass))
        unit = problem.factor / sharpness
        scale = max(abs(problem.factor * sums.cost), unit * problem.mass)
        point = ClusterPoint(self.centers, shares=shares, sharpness=sharpness)
        return ExpectationStep(point, objective, scale, sums.masses)

    def maximize(self, found: ExpectationStep) -> None:
        self.shares = found.memberships / self.problem.mass
        self._move_to_next()

    @property
    def _compared(self) -> Centers:
        problem = self.problem
        return Centers(problem.divergence, self.centers, problem.anchor, problem.far)

    def _sums(self, terms: ClusterTerms) -> ClusterSums:
        sums: ClusterSums = self.problem.table.reduce(sums_of_block, terms)
        return sums

    def _centers_of(self, sums: ClusterSums) -> Array:
        """Return the means of clusters, where they have no observed entry those of the columns."""
        domain = self.problem.divergence.domain
        means = sums.sums / np.maximum(sums.counts, SMALLEST_NORMAL)
        means = np.clip(means, domain.low, domain.high)
        means = np.where(sums.counts > SMALLEST_NORMAL, means, self.problem.anchor)
        return np.where(sums.masses[:, None] > SMALLEST_NORMAL, means, self.centers)

    def _move_to_next(self) -> None:
        self.move = float(np.square(self.next_centers - self.centers).sum())
        self.centers = self.next_centers
