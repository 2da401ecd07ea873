"""k-means in the feature space of a kernel, features never formed; normalized cuts are its weighted, scaled form."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.solvers.base import Solver
from regfactor.solvers.lloyd import NOTHING, with_farthest
from regfactor.solvers.seeding import spread

ENTRIES = 2**21  # numbers of a block of rows of the kernel
RISE = 1e-10  # relative rise of the objective that tells an indefinite kernel
# squared distance, beside the largest product, that tells one too: more than single precision errs
NEGATIVE = 1e-5
LONGEST = 1e300  # squared length of a point


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Yield slices of rows, of which a block of that width stays small."""
    rows = max(ENTRIES // max(width, 1), 16)
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def slices_of(rows: Callable[[Any], Any], n: int) -> Iterator[slice]:
    """Yield slices of the rows of a square matrix, of which a block stays small; one for all where it is sparse."""
    if is_sparse(rows(slice(0, 1))):
        return iter([slice(0, n)])
    return row_slices(n, n)


@dataclass(frozen=True, eq=False)
class KernelClusters:
    """sum_i w_i/s_i |s_i phi(x_i) - m_{z_i}|^2 / 2 over labels z and centers m, by inner products alone.

    s = 1 is kernel k-means with weights w. With s = 1/d and d = K w it is the normalized cut of K
    up to a constant (points phi/d of weight d; thesis, equation 3.25). `factor` and `offset` turn
    the sum into what is reported.
    """

    rows: Callable[[Any], Any]  # rows of K by a slice or by places, in CSR where K is sparse
    diagonal: Array
    weights: Array
    scale: Array
    n_clusters: int
    factor: float = 1.0
    offset: float = 0.0

    @property
    def mass(self) -> Array:
        """Return the weight of each point s_i phi(x_i)."""
        return self.weights / self.scale

    @property
    def lengths(self) -> Array:
        """Return |s_i phi(x_i)|^2 / 2, of a row with next to no degree as much as can be told."""
        with np.errstate(over="ignore"):
            return np.minimum(np.square(self.scale) * self.diagonal / 2, LONGEST)

    def products(self, V: Array) -> Array:
        """K V, by blocks of rows."""
        out = np.empty((len(self.weights), V.shape[1]))
        for at in slices_of(self.rows, len(out)):
            out[at] = self.rows(at) @ V
        return out

    def dense_rows(self, at: Any) -> Array:
        """Return some rows of K, by a slice or by places, as an array."""
        rows = self.rows(at)
        return np.asarray(rows.toarray() if is_sparse(rows) else rows)

    def centers(self, labels: Array) -> tuple[KernelCenters, Array]:
        """Return the centers of labels, and s_i times <phi(x_i), m_j>."""
        n = len(labels)
        k = self.n_clusters
        H = np.zeros((n, k))
        H[np.arange(n), labels] = self.weights
        masses = np.bincount(labels, self.mass, minlength=k)
        full = np.where(masses > 0, masses, 1)
        inner = self.products(H) / full
        squares = (
            np.bincount(labels, self.weights * inner[np.arange(n), labels], minlength=k) / full
        )
        shares = one_hot(labels, k, self.weights / full[labels])
        return KernelCenters(shares, self.weights, masses, squares), self.scale[:, None] * inner

    def objective(self, centers: KernelCenters) -> float:
        """Return the objective of labels with their own centers."""
        half = (self.weights * self.scale) @ self.diagonal - centers.masses @ centers.squares
        return self.factor * float(half) / 2 + self.offset

    def distances(self, centers: KernelCenters, inner: Array) -> Array:
        """Return |s_i phi(x_i) - m_j|^2 / 2, which an indefinite K lets fall below zero."""
        return self.lengths[:, None] + centers.relative(inner)


@dataclass(frozen=True, eq=False)
class KernelCenters:
    """Centers m_j = sum_i shares_ij phi(x_i), and |m_j|^2; `weights` are those by which new rows have their degree."""

    shares: Any  # CSR of labels, an array of memberships
    weights: Array
    masses: Array
    squares: Array

    def inner(self, K: Array) -> Array:
        """<phi(x), m_j> of rows given by their kernel against the training rows."""
        return np.asarray(K @ self.shares)

    def relative(self, inner: Array) -> Array:
        """|s phi(x) - m_j|^2 / 2 without |s phi(x)|^2 / 2; an empty cluster is infinitely far."""
        return np.where(self.masses > 0, self.squares / 2 - inner, np.inf)


@dataclass
class KernelLloyd(Solver):
    """Lloyd's iteration in feature space: K_ii - 2 (KZ)_ij / n_j + (Z'KZ)_jj / n_j^2, until no label changes.

    An empty cluster is given the row farthest from its own center. Where K turns out not to be
    positive semidefinite, as affinities without a diagonal are not, its steps can make the
    objective rise; `moved` goes on from the best.
    """

    def check(self, problem: KernelClusters) -> None:
        if not isinstance(problem, KernelClusters):
            raise UnsupportedProblem("KernelLloyd is for KernelClusters.")

    def iterates(
        self, problem: KernelClusters, start: FactorPoint | None
    ) -> Iterator[Iterate[Any]]:
        """Yield labels, from given labels."""
        assert start is not None, "KernelLloyd needs labels to start from"
        labels = start.factors.Phi.indices
        old = None
        last = np.inf
        for step in itertools.count():
            centers, inner = problem.centers(labels)
            value = problem.objective(centers)
            relative = centers.relative(inner)
            D = problem.lengths[:, None] + relative
            rose = value > last + RISE * abs(last)
            indefinite = rose or bool(D.min() < -NEGATIVE * np.abs(inner).max())
            still = old is not None and np.array_equal(labels, old)
            yield _iterate(labels, value, step, problem, still and not indefinite)
            if indefinite and (rose or still):
                yield from moved(problem, old if rose and old is not None else labels)
                return
            old = labels
            last = value
            labels = self._next(problem, relative, labels)

    def _next(self, problem: KernelClusters, relative: Array, labels: Array) -> Array:
        # without |s phi(x)|^2, which of a row with next to no degree leaves no digit of the others
        least = relative.min(axis=1)
        stays = relative[np.arange(len(labels)), labels] <= least  # ties do
        nearest = np.where(stays, labels, relative.argmin(axis=1)).astype(np.int32)
        filled = np.bincount(nearest, problem.mass, minlength=problem.n_clusters)
        empty = np.flatnonzero(filled == 0)
        if not len(empty):
            return nearest
        least = problem.lengths + least
        return with_farthest(
            nearest,
            least,
            empty,
            (problem.weights, None),
            NOTHING * problem.lengths.mean(),
        )


def moved(problem: KernelClusters, labels: Array) -> Iterator[Iterate[Any]]:
    """Yield labels after moves each of which lowers the objective, until no row can move: for any symmetric K.

    What the move of a single row changes is known exactly (Hartigan 1975). All rows that would
    lower the objective move at once if that lowers it, else the better half of them, and so on to
    the best one, which does. No move empties a cluster.
    """
    labels = _without_empty(problem, labels)
    value = problem.objective(problem.centers(labels)[0])
    for step in itertools.count(1):
        centers, inner = problem.centers(labels)
        target, change = _changes(
            problem,
            problem.distances(centers, inner),
            centers.masses,
            labels,
        )
        movers = np.argsort(change, kind="stable")[: np.count_nonzero(change < -RISE * abs(value))]
        new = labels
        lowered = value
        while len(movers) and not lowered < value:
            new = labels.copy()
            new[movers] = target[movers]
            reached = problem.centers(new)[0]
            if (reached.masses > 0).sum() >= (centers.masses > 0).sum():
                lowered = problem.objective(reached)
            else:
                lowered = np.inf
            movers = movers[: len(movers) // 2]
        settled = not lowered < value
        labels, value = (labels, value) if settled else (new, lowered)
        if settled:  # rows without weight change nothing, and go where they would be placed
            labels = np.where(
                problem.weights > 0,
                labels,
                centers.relative(inner).argmin(axis=1),
            ).astype(np.int32)
        yield _iterate(labels, value, step, problem, settled)
        if settled:
            return


def _changes(
    problem: KernelClusters,
    D: Array,
    masses: Array,
    labels: Array,
) -> tuple[Array, Array]:
    """Return the best other cluster of each row, and by how much the objective changes when this row alone moves."""
    mu = problem.mass[:, None]
    at = np.arange(len(labels))
    joined = np.where(masses > 0, masses / (masses + mu) * D, 0.0)
    left = masses[labels] - problem.mass
    stays = left <= RISE * masses[labels]  # the last of its cluster
    own = D[at, labels]
    joined[at, labels] = np.inf
    target = joined.argmin(axis=1).astype(np.int32)
    change = joined[at, target] - masses[labels] / np.where(stays, 1, left) * own
    return target, np.where(
        stays | (problem.mass == 0),
        np.inf,
        problem.factor * problem.mass * change,
    )


def _without_empty(problem: KernelClusters, labels: Array) -> Array:
    """Return labels in which every cluster has a row, those farthest from their own centers."""
    centers, inner = problem.centers(labels)
    own = problem.distances(centers, inner)[np.arange(len(labels)), labels]
    return with_farthest(
        labels,
        own,
        np.flatnonzero(centers.masses == 0),
        (problem.weights, None),
        -np.inf,
    )


def _iterate(
    labels: Array,
    value: float,
    step: int,
    problem: KernelClusters,
    settled: bool,
) -> Iterate[Any]:
    none = np.zeros((problem.n_clusters, 0))  # centers have no coordinates
    point = FactorPoint(Factors(one_hot(labels, problem.n_clusters), none))
    return Iterate(point, value, steps=min(step, 1), settled=settled)


def one_hot(labels: Array, k: int, shares: Array | float = 1.0) -> Any:
    """Return labels as the rows of a CSR array, a share in the place of each."""
    n = len(labels)
    places = labels.astype(np.int32)
    return scipy.sparse.csr_array(
        (np.full(n, shares), places, np.arange(n + 1, dtype=np.int32)),
        (n, k),
    )


def spread_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by the nearest of rows chosen by k-means++ in feature space."""
    n = len(problem.scale)
    k = problem.n_clusters
    chosen = spread(lambda some: _distances(problem, some), n, problem.mass, k, random)
    return _distances(problem, chosen).argmin(axis=1).astype(np.int32)


def random_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by the nearest of rows chosen at random."""
    chosen = random.permutation(np.flatnonzero(problem.weights > 0))[: problem.n_clusters]
    return _distances(problem, chosen).argmin(axis=1).astype(np.int32)


def _distances(problem: KernelClusters, chosen: Array) -> Array:
    """Return halves of the squared distances from chosen rows.

    Those of an indefinite K, which are none, are raised until no other row is nearer than a row is
    to itself.
    """
    s = problem.scale
    lengths = problem.lengths
    inner = problem.dense_rows(chosen).T * s[:, None] * s[chosen]
    D = lengths[:, None] + lengths[chosen] - inner
    least = float(D.min())
    if least < -NEGATIVE * np.abs(inner).max():
        D -= 2 * least
    D[chosen, np.arange(len(chosen))] = 0
    return np.maximum(D, 0)
