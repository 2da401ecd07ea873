"""Bregman k-means by Lloyd's iteration; only rows that change their cluster are added up again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses.distances import Affine
from regfactor.problems.clusters import ENTRIES, Clusters
from regfactor.solvers.base import Solver
from regfactor.solvers.nearest import Centers

CHUNK = 65_536  # rows looked at together, of which those that change their cluster are copied
SHORT = 8192  # rows whose sum is taken in float32, or of which a copy in float64 is made
MANY = 2000  # centers whose sums take as long to be added up as those of some thousand rows
TINY = 1e-30  # share of the largest weight
FEW = 0.08  # share of the rows up to which their changes cost less than all sums
REFRESH = 20  # iterations after which sums are taken afresh, since differences gather rounding
NOTHING = 1e-11  # share of the mean divergence below which a row lies on its center


class Means:
    """Means of clusters; where few rows change their cluster, only these are added up again."""

    def __init__(self, problem: Clusters) -> None:
        self.problem = problem
        self.age = 0
        self.sums = np.zeros((problem.n_clusters, problem.X.shape[1]))
        if problem.weights is None:
            self.unit = 1.0
        else:
            self.unit = float(problem.weights.max())
        if problem.near and not self._has_tiny_weights():
            self.dtype = problem.X.dtype
        else:
            self.dtype = np.dtype(np.float64)

    def __call__(self, labels: Array, old: Array | None, M: Array, masses: Array) -> Array:
        """Return the means; a cluster without weight keeps its center."""
        self.age += 1
        few = old is not None and np.count_nonzero(labels != old) <= FEW * len(labels)
        if not few or self.age % REFRESH == 0:
            self._add(labels, None)
        else:
            self._add(labels, old)
            if self._doubtful(masses):
                self._add(labels, None)
        domain = self.problem.divergence.domain
        live = masses > 0
        means = np.clip(self.sums / np.where(live, masses, 1)[:, None], domain.low, domain.high)
        return np.where(live[:, None], means, M)

    def _add(self, labels: Array, old: Array | None) -> None:
        """Add up all rows, or those whose labels are not the old ones."""
        X = self.problem.X
        w = self.problem.weights
        if old is None:
            self.sums[...] = 0
        in_parts = X.dtype == self.dtype and self.problem.n_clusters <= MANY
        if old is not None or X.dtype == np.float64 or in_parts:
            step = CHUNK
        else:
            step = SHORT
        for start in range(0, len(labels), step):
            at: Any = slice(start, start + step)
            if old is not None:
                at = start + np.flatnonzero(labels[at] != old[at])
            rows = X[at]
            weights = None if w is None else w[at]
            self.sums += self._sums(rows, labels[at], weights)
            if old is not None:
                self.sums -= self._sums(rows, old[at], weights)

    def _sums(self, X: Any, labels: Array, w: Array | None) -> Array:
        """Return the sums of the rows of each label; in float32 those of some rows at a time, of columns near zero."""
        k = self.problem.n_clusters
        n = len(labels)
        if w is None:
            data = np.ones(n, self.dtype)
        else:
            data = (w / self.unit).astype(self.dtype)
        starts = np.arange(n + 1, dtype=np.int32)
        parts = 1 if self.dtype == np.float64 else max(-(-n // SHORT), 1)
        places = labels if parts == 1 else labels + k * (starts[:-1] // SHORT)
        sums = scipy.sparse.csc_array((data, places, starts), (k * parts, n)) @ X
        sums = sums.toarray() if is_sparse(sums) else sums
        return self.unit * sums.reshape(parts, k, X.shape[1]).sum(axis=0, dtype=np.float64)

    def _has_tiny_weights(self) -> bool:
        """Whether float32 would take weights for nothing."""
        w = self.problem.weights
        return w is not None and bool(((w > 0) & (w < TINY * self.unit)).any())

    def _doubtful(self, masses: Array) -> bool:
        """Whether rounding in the differences may hide that a mean lies on the boundary of the domain."""
        domain = self.problem.divergence.domain
        slack = 64 * np.finfo(self.problem.X.dtype).eps
        ends = [end for end in (domain.low, domain.high) if np.isfinite(end)]
        distances = [np.abs(self.sums - masses[:, None] * end) for end in ends]
        return any(bool(((d > 0) & (d <= slack * d.sum(axis=0))).any()) for d in distances)


class Medians:
    """Weighted medians of clusters, column by column; only clusters that changed are sorted again."""

    def __init__(self, problem: Clusters) -> None:
        self.problem = problem

    def __call__(self, labels: Array, old: Array | None, M: Array, masses: Array) -> Array:
        """Return the medians; a cluster without weight keeps its center."""
        if old is None:
            moved = np.arange(len(M))
        else:
            moved = np.union1d(labels[labels != old], old[labels != old])
        X = self.problem.X
        w = self.problem.weights
        new = M.copy()
        for j in moved[masses[moved] > 0]:
            members = labels == j
            weights = None if w is None else w[members]
            for at, columns in _columns(X[members]):
                new[j, at] = weighted_median(columns, weights)
        return new


def _columns(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield columns as dense arrays: all of them at once, of a sparse table some."""
    if not is_sparse(X):
        yield slice(None), X
        return
    X, width = X.tocsc(), max(ENTRIES // X.shape[0], 16)
    for start in range(0, X.shape[1], width):
        at = slice(start, start + width)
        yield at, X[:, at].toarray()


def weighted_median(X: Array, w: Array | None, order: Array | None = None) -> Array:
    """Return the least number of each column with half of the weight, of rows or of entries, at or below it.

    `order` sorts the columns, where that is known.
    """
    if w is None:
        middle = (len(X) - 1) // 2
        return np.partition(X, middle, axis=0)[middle].astype(np.float64)
    order = X.argsort(axis=0) if order is None else order
    heaps = np.take_along_axis(
        np.broadcast_to(w.reshape(len(X), -1), X.shape),
        order,
        axis=0,
    ).cumsum(axis=0)
    at = (heaps >= heaps[-1] * (0.5 - 1e-12)).argmax(axis=0)
    columns = np.arange(X.shape[1])
    return X[order[at, columns], columns].astype(np.float64)


def at_centers(problem: Clusters, M: Array) -> FactorPoint:
    """Return the point of centers to which no row is assigned yet."""
    return FactorPoint(Factors(scipy.sparse.csr_array((problem.X.shape[0], problem.n_clusters)), M))


@dataclass
class Lloyd(Solver):
    """Labels of the nearest centers, then the best centers of the labels, until no label changes.

    It also stops when the squared moves of all centers sum to at most `tol` times the mean variance
    of the columns. An empty cluster is given the row that is farthest from its own center, which
    lowers the objective.
    """

    tol: float = 1e-4
    sparse = True

    def check(self, problem: Clusters) -> None:
        if not isinstance(problem, Clusters):
            raise UnsupportedProblem(
                "Lloyd is for Clusters; use Alternating for factors under OneHot.",
            )

    def iterates(self, problem: Clusters, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield centers with the labels that fit them, from given centers."""
        assert start is not None, "Lloyd needs centers to start from"
        X = problem.X
        w = problem.weights
        k = problem.n_clusters
        best_centers: Means | Medians
        if isinstance(problem.divergence, Affine):
            best_centers = Means(problem)
        else:
            best_centers = Medians(problem)
        if isinstance(best_centers, Means) and problem.sizes is not None:
            means = best_centers
        else:
            means = None
        M = start.factors.C
        divergence = problem.started
        old = None
        move = np.inf
        last = np.inf
        ones = np.ones(X.shape[0], X.dtype)
        starts = np.arange(X.shape[0] + 1, dtype=np.int32)
        for step in itertools.count():
            centers = Centers(divergence, M, problem.anchor, problem.far)
            labels, gain = self.assigned(problem, centers)
            masses = np.bincount(labels, w, minlength=k).astype(np.float64)
            still = old is not None and np.array_equal(labels, old)
            if means is not None:  # their sums are needed for the objective, else they can wait
                new = means(labels, old, M, masses)
                gain = centers.gain(means.sums, masses)
            codes = scipy.sparse.csr_array((ones, labels, starts), (X.shape[0], k))
            point = FactorPoint(Factors(codes, M), divergence.parameters)
            if masses.all():
                given = labels
            else:
                given = self.refill(problem, centers, labels, np.flatnonzero(masses == 0))
            full = given is labels or np.array_equal(
                given,
                labels,
            )  # no empty cluster can be given a row
            value = problem.objective(divergence, gain)
            done = (
                full or not value < last
            )  # rows that are off their centers by rounding are given in vain
            settled = done and (still or move <= self.tol * problem.variance)
            yield Iterate(point, value, steps=min(step, 1), settled=settled)
            if not full:
                masses = np.bincount(given, w, minlength=k).astype(np.float64)
            if means is None or not full:
                new = best_centers(given, old if means is None else labels, M, masses)
            move = float(np.square(new - M).sum())
            M = new
            old = given
            last = value
            divergence = divergence.refitted(problem.tally, M - problem.anchor, masses)

    def assigned(self, problem: Any, centers: Centers) -> tuple[Array, float]:
        """Return the label of every row, and the gain over the anchor."""
        return centers.nearest(problem.X, problem.weights, problem.sizes)

    def refill(self, problem: Any, centers: Centers, labels: Array, empty: Array) -> Array:
        """Return labels in which empty clusters have rows, where that lowers the objective."""
        return refilled(problem, centers, labels, empty)


def refilled(
    problem: Clusters,
    centers: Centers,
    labels: Array,
    empty: Array,
    free: Array | None = None,
) -> Array:
    """Return labels in which each empty cluster has the row that was farthest from its own center.

    `free` tells which rows may move, where not all may.
    """
    own = centers.own(problem.X, labels)
    return with_farthest(labels, own, empty, (problem.weights, free), NOTHING * problem.scale)


def with_farthest(
    labels: Array,
    own: Array,
    empty: Array,
    allowed: tuple[Array | None, Array | None],
    least: float,
) -> Array:
    """Return labels in which empty clusters have the rows farthest from their own centers, by distances `own`.

    The nearest row of each cluster stays, since no cluster is to be filled by emptying another.
    Where no other row is more than `least` away nothing can be gained, and the cluster stays empty.
    `allowed` are weights and free rows.
    """
    w, free = allowed
    counted = np.arange(len(labels)) if w is None else np.flatnonzero(w > 0)
    order = counted[np.argsort(own[counted], kind="stable")]
    stays = np.zeros(len(labels), bool)
    stays[order[np.unique(labels[order], return_index=True)[1]]] = True
    far = order[(own[order] > least) & ~stays[order] & (True if free is None else free[order])]
    farthest = far[::-1][: len(empty)]
    labels = labels.copy()
    labels[farthest] = empty[: len(farthest)]
    return labels
