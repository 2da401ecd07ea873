"""Steps with centers that have coordinates; only rows that change their cluster are added again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import SMALLEST_NORMAL, Array
from regfactor.losses.distances import Affine
from regfactor.losses.divergences import BregmanDivergence
from regfactor.problems.clusters import FREE, ClusterPoint, Clusters, row_blocks
from regfactor.solvers.nearest import Centers
from regfactor.solvers.steps import (
    ON_CENTER,
    Assignment,
    ClusterSteps,
    ExpectationStep,
    fill_empty,
    log_joint,
    responsibilities,
)

COMPARED_ROWS = 65_536  # looked at together, of which those that change their cluster are copied
FLOAT32_ROWS = 8192  # whose sum is taken in float32, or of which a copy in float64 is made
MAX_SUMMED_CENTERS = 2000  # whose sums cost no more than those of some thousand rows
TINY_WEIGHT = 1e-30  # share of the largest weight that float32 takes for zero
MAX_CHANGED_SHARE = 0.08  # share of the rows up to which their changes cost less than all sums
REFINED_ROWS = 8  # for each empty cluster, whose divergences are found exactly
MAX_ROUGH_SHARE = 1e-9  # of the largest divergence, up to which rounding may rule
REFRESH_EVERY = 20  # iterations after which sums are taken anew, since differences gather rounding

FindCenters = Callable[[Array, Array | None, Array, Array], Array]


class RowSteps(ClusterSteps):
    """Steps of `Clusters`: nearest centers by matrix products, centers by sums of rows."""

    def __init__(self, problem: Clusters, start: ClusterPoint) -> None:
        assert start.centers is not None, "clusters of rows start from centers"
        self.problem = problem
        self.centers = start.centers
        self.shares = start.shares
        self.divergence = problem.divergence_at(start)
        self.labels: Array | None = None  # of which the centers are the best
        self.move = np.inf
        self.objective = np.inf
        self.find_centers: FindCenters
        # The gain follows from sums, which then cannot wait, where scores in float32 have none and
        # where known clusters replace nearest ones.
        self.gain_by_sums = False
        if isinstance(problem.divergence, Affine):
            self.means = Means(problem)
            self.find_centers = self.means
            known = problem.codes is not None and not problem.spread.far
            self.gain_by_sums = known or problem.sizes is not None
        else:
            self.find_centers = ChangedCenters(problem)

    def assign(self, tol: float) -> Assignment:
        problem = self.problem
        centers = Centers(self.divergence, self.centers, problem.anchor, problem.spread.far)
        labels, gain = centers.nearest(problem.X, problem.weights, problem.sizes)
        if problem.codes is not None:
            known = problem.codes != FREE
            if not self.gain_by_sums:
                gain -= self._lost_gain(centers, labels)
            labels[known] = problem.codes[known]
        masses = self.masses = problem.masses(labels)
        still = self.labels is not None and np.array_equal(labels, self.labels)
        if self.gain_by_sums:
            self.next_centers = self.means(labels, self.labels, self.centers, masses)
            gain = centers.gain(self.means.sums, masses)
        objective = problem.objective(self.divergence, gain)
        filled = labels
        if not masses.all():
            empty = np.flatnonzero(masses == 0)
            own = self._own_costs(centers, labels, len(empty))
            filled = fill_empty(problem, labels, own, empty, ON_CENTER * problem.scale)
            if np.array_equal(filled, labels):  # no row can be moved
                filled = labels
        # Rows off their centers by rounding are moved in vain.
        full = filled is labels or not objective < self.objective
        point = ClusterPoint(self.centers, labels, covariance=self.divergence.covariance)
        settled = full and (still or self.move <= tol * problem.spread.variance)
        return Assignment(point, objective, filled, settled)

    def update(self, found: Assignment) -> None:
        problem = self.problem
        labels = found.labels
        masses = self.masses
        before = found.point.labels if self.gain_by_sums else self.labels
        if labels is not found.point.labels:
            masses = problem.masses(labels)
        if self.gain_by_sums and labels is found.point.labels:
            centers = self.next_centers
        else:
            centers = self.find_centers(labels, before, self.centers, masses)
        self.move = float(np.square(centers - self.centers).sum())
        self.centers = centers
        self.labels = labels
        self.objective = found.objective
        moved = centers - problem.anchor
        self.divergence = self.divergence.refitted(problem.statistics, moved, masses)

    def _own_costs(self, centers: Centers, labels: Array, count: int) -> Array:
        """Return divergences of rows from their own centers, to find the farthest rows.

        They are found roughly by products, and exactly for a few of the farthest rows. Where these
        are so near that rounding may have chosen them, all are found exactly.
        """
        problem = self.problem
        divergence = self.divergence
        rough = isinstance(divergence, BregmanDivergence) and not problem.spread.far
        if not rough or is_sparse(problem.X):
            return centers.own(problem.X, labels)
        base = problem.base(divergence)
        assert base is not None
        gradients, offsets = centers.gradients
        own = base + offsets[labels]
        for at, X in row_blocks(problem.X):
            own[at] -= np.einsum("ij,ij->i", X - problem.anchor, gradients[labels[at]])
        refined = min(REFINED_ROWS * (count + 1), len(own))
        farthest = np.argpartition(own, len(own) - refined)[-refined:]
        own[farthest] = centers.own(problem.X[farthest], labels[farthest])
        if own[farthest].min() <= MAX_ROUGH_SHARE * base.max():
            return centers.own(problem.X, labels)
        return own

    def _lost_gain(self, centers: Centers, labels: Array) -> float:
        """Return by how much known clusters in place of the nearest ones lower the gain."""
        problem = self.problem
        assert problem.codes is not None
        lost = 0.0
        for some, X in row_blocks(problem.X, among=np.flatnonzero(problem.codes != FREE)):
            D = centers.divergence.between(X, centers.M, centers.anchor)
            at = np.arange(len(some))
            rise = D[at, problem.codes[some]] - D[at, labels[some]]
            lost += float(problem.row_weights[some] @ rise)
        return lost

    def expect(self, sharpness: float) -> ExpectationStep:
        problem = self.problem
        divergence = self.divergence
        shares = self.shares
        assert shares is not None, "a mixture starts from shares and centers"
        base = problem.base(divergence)
        masses = np.zeros(problem.n_clusters)
        sums = np.zeros(self.centers.shape)
        likelihood = 0.0
        affine = isinstance(divergence, Affine)
        kept = []
        for at, block in row_blocks(problem.X):
            block_base = None if base is None else base[at]
            D = divergence.between(block, self.centers, problem.anchor, block_base)
            joint = problem.restrict(log_joint(D, shares, sharpness), at)
            Z, height = responsibilities(joint)
            if problem.weights is None:
                likelihood += float(height.sum())
            else:
                likelihood += float(problem.weights[at] @ height)
                Z *= problem.weights[at, None]
            masses += Z.sum(axis=0)
            if affine:
                sums += Z.T @ block
            else:
                kept.append(Z)
        if affine:
            domain = divergence.domain
            centers = sums / np.maximum(masses, SMALLEST_NORMAL)[:, None]
            centers = np.clip(centers, domain.low, domain.high)
        else:
            centers = divergence.centers(dense(problem.X), np.concatenate(kept))
        self.next_centers = np.where(masses[:, None] > SMALLEST_NORMAL, centers, self.centers)
        cost = problem.factor * divergence.parameter_cost(problem.mass)
        unit = problem.factor / sharpness
        objective = cost - unit * likelihood
        # Per unit of weight, since a likelihood has its zero anywhere; without known clusters
        # relative to the likelihood where that is larger. The parameter's cost depends on units.
        scale = unit * problem.mass
        if problem.codes is None:
            scale = max(abs(objective - cost), scale)
        point = ClusterPoint(
            self.centers,
            shares=shares,
            covariance=divergence.covariance,
            sharpness=sharpness,
        )
        return ExpectationStep(point, objective, scale, masses)

    def maximize(self, found: ExpectationStep) -> None:
        problem = self.problem
        masses = found.memberships
        self.centers = self.next_centers
        self.shares = masses / problem.mass
        moved = self.centers - problem.anchor
        self.divergence = self.divergence.refitted(problem.statistics, moved, masses)


class Means:
    """Means of clusters; where few rows change their cluster, only these are added again."""

    def __init__(self, problem: Clusters) -> None:
        self.problem = problem
        self.age = 0
        self.sums = np.zeros((problem.n_clusters, problem.X.shape[1]))
        self.largest_weight = 1.0
        single = problem.spread.near
        w = problem.weights
        if w is not None:
            self.largest_weight = float(w.max())
            # float32 would take such weights for zero
            tiny = (w > 0) & (w < TINY_WEIGHT * self.largest_weight)
            single = single and not tiny.any()
        if single:
            self.dtype = problem.X.dtype
        else:
            self.dtype = np.dtype(np.float64)
        self.domain = problem.divergence.domain
        ends = np.array([self.domain.low, self.domain.high])
        self.ends = ends[np.isfinite(ends)]

    def __call__(
        self,
        labels: Array,
        old: Array | None,
        M: Array,
        masses: Array,
    ) -> Array:
        """Return the means; a cluster without weight keeps its center."""
        self.age += 1
        most = MAX_CHANGED_SHARE * len(labels)
        few = old is not None and np.count_nonzero(labels != old) <= most
        refresh = not few or self.age % REFRESH_EVERY == 0
        if not refresh:
            self._add(labels, old)
        if refresh or (len(self.ends) and self._doubtful(masses)):
            self._add(labels, None)
        live = masses > 0
        means = self.sums / np.where(live, masses, 1)[:, None]
        return np.where(live[:, None], np.clip(means, self.domain.low, self.domain.high), M)

    def _add(self, labels: Array, old: Array | None) -> None:
        """Add up all rows, or those whose labels are not the old ones."""
        X = self.problem.X
        w = self.problem.weights
        if old is None:
            self.sums[...] = 0
        in_parts = X.dtype == self.dtype and self.problem.n_clusters <= MAX_SUMMED_CENTERS
        step = FLOAT32_ROWS
        if old is not None or X.dtype == np.float64 or in_parts:
            step = COMPARED_ROWS
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
        """Return the sums of the rows of each label, in float32 of some rows at a time."""
        k = self.problem.n_clusters
        n = len(labels)
        if w is None:
            data = np.ones(n, self.dtype)
        else:
            data = (w / self.largest_weight).astype(self.dtype)
        starts = np.arange(n + 1, dtype=np.int32)
        parts = 1
        places = labels
        if self.dtype != np.float64 and n > FLOAT32_ROWS:
            parts = -(-n // FLOAT32_ROWS)
            places = labels + k * (starts[:-1] // FLOAT32_ROWS)
        sums = scipy.sparse.csc_array((data, places, starts), (k * parts, n)) @ X
        if is_sparse(sums):
            sums = sums.toarray()
        by_label = sums.reshape(parts, k, X.shape[1]).sum(axis=0, dtype=np.float64)
        return self.largest_weight * by_label

    def _doubtful(self, masses: Array) -> bool:
        """Return whether rounding in differences may hide a mean on the boundary of the domain."""
        slack = 64 * np.finfo(self.problem.X.dtype).eps
        for end in self.ends:
            distance = np.abs(self.sums - masses[:, None] * end)
            near = distance <= slack * distance.sum(axis=0)
            if (near & (distance > 0)).any():
                return True
        return False


class ChangedCenters:
    """Centers as their divergence finds them; only of clusters that changed."""

    def __init__(self, problem: Clusters) -> None:
        self.problem = problem

    def __call__(
        self,
        labels: Array,
        old: Array | None,
        M: Array,
        masses: Array,
    ) -> Array:
        """Return the centers; a cluster without weight keeps its own."""
        changed = np.arange(len(M))
        if old is not None:
            moved = labels != old
            changed = np.union1d(labels[moved], old[moved])
        w = self.problem.weights
        new = M.copy()
        for j in changed[masses[changed] > 0]:
            members = labels == j
            weights = None if w is None else w[members]
            new[j] = self.problem.divergence.center(self.problem.X[members], weights)
        return new


def dense(X: Any) -> Array:
    """Return rows as a dense array in float64."""
    if is_sparse(X):
        X = X.toarray()
    return np.asarray(X, np.float64)
