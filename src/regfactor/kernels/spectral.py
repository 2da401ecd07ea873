"""Embeddings as kernels: a structure built on reference rows, and how rows that are not among them meet it.

The leading eigenvectors of `gram(Y)` are the embedding. `gram(X, Y)` treats X as new rows: it
neither adds them to the structure nor looks for them in it. Two ways are used to extend a kernel on
references y_1, ..., y_n to a new row x:

* distances (classical MDS, Isomap), Gower 1968, Bengio et al. 2004:
  k(x, y) = -(d^2(x, y) - mean_i d^2(x, y_i) - mean_i d^2(y_i, y) + mean_ij d^2(y_i, y_j))/2.
  A reference taken as a new row gets its own row of `gram(Y)`.
* averages (locally linear embedding, Laplacian): k(x, y) = sum_i w_i(x) k(y_i, y) with weights that
  sum to one, so that the embedding of x is the same average of those of the references. A new row
  that equals a reference gets the row of that in `gram(Y)`; one that is near to it, but not equal,
  may be placed elsewhere.
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import connected_components, shortest_path
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from regfactor.core.linalg import is_sparse, is_symmetric
from regfactor.core.params import Array, require_count, require_positive, warn
from regfactor.kernels import widths
from regfactor.kernels.base import Kernel, about_mean, kind

EUCLIDEAN = ("euclidean", "l2")  # metrics by inner products, not by differences


class FromDistances(Kernel):
    """-J D^2 J / 2, J = I - 11'/n: inner products about the mean of references at distances D."""

    @abc.abstractmethod
    def distances(self, Y: Any) -> Array:
        """Return the distances among references."""

    @abc.abstractmethod
    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        """Return the distances of new rows to the references, whose own are known."""

    def prepare(self, Y: Any) -> tuple[Array, Array]:
        _require_dense(self, Y)
        own = self.distances(Y)
        return own, np.square(own, dtype=np.float64).mean(axis=0)

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        _require_dense(self, X)
        if prepared is None:
            own, columns = self.prepare(X if Y is None else Y)
        else:
            own, columns = prepared
        squares = np.square(own if Y is None else self.to_references(X, Y, own), dtype=np.float64)
        rows = squares.mean(axis=1)[:, None]
        return np.asarray((rows + columns - columns.mean() - squares) / 2, kind(X))


@dataclass
class ClassicalMDS(FromDistances):
    """-J D^2 J / 2 with D by a metric of scikit-learn's `pairwise_distances`: classical scaling.

    It is X X' about the mean for the Euclidean metric, and has negative eigenvalues for a metric
    that fits into no Euclidean space. With "precomputed", tables hold the distances to the
    reference rows.
    """

    metric: Any = "euclidean"

    def distances(self, Y: Any) -> Array:
        Y, _ = self._placed(Y)
        D = pairwise_distances(Y, metric=self.metric)
        given = callable(self.metric) or self.metric == "precomputed"
        if given and not is_symmetric(D):
            raise ValueError(f"The distances of {self} are not symmetric; use (D + D.T) / 2.")
        return D

    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        Y, X = self._placed(Y, X)
        return pairwise_distances(X, Y, metric=self.metric)

    def _placed(self, Y: Any, X: Any = None) -> tuple[Any, Any]:
        if self.metric in EUCLIDEAN:
            return about_mean(Y, X)
        return (Y, X)


@dataclass
class Isomap(FromDistances):
    """-J G^2 J / 2 with G the lengths of shortest paths through nearest neighbors.

    A new row x enters through its neighbors: g(x, y) = min over neighbors i of |x - y_i| + g(y_i,
    y). Where the neighbor graph is in pieces, each two are joined at their nearest rows, with a
    warning.
    """

    n_neighbors: int = 5

    def __post_init__(self) -> None:
        require_count(self, n_neighbors=self.n_neighbors)

    def distances(self, Y: Any) -> Array:
        Y, _ = about_mean(Y)
        graph = kneighbors_graph(Y, _at_most(self.n_neighbors, Y, "other rows", 1), mode="distance")
        pieces, labels = connected_components(graph, directed=False)
        if pieces > 1:
            warn(
                f"The graph of {self.n_neighbors} neighbors is in {pieces} pieces, which are joined at their nearest "
                "rows; raise n_neighbors to let the data join them."
            )
            graph = _joined(graph, Y, labels)
        return shortest_path(graph, directed=False)

    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        near, places = _nearest(X, Y, self.n_neighbors)
        paths = near[:, 0, None] + distances[places[:, 0]]
        for i in range(1, near.shape[1]):  # over the few neighbors, all rows at once
            np.minimum(paths, near[:, i, None] + distances[places[:, i]], out=paths)
        return paths


class FromGraph(Kernel):
    """L^+, the pseudo-inverse of a form f'Lf that is small for f smooth over the references; L 1 = 0."""

    @abc.abstractmethod
    def form(self, Y: Any) -> Array:
        """Return L."""

    @abc.abstractmethod
    def weights(self, X: Any, Y: Any) -> scipy.sparse.csr_array | Array:
        """Return the weights, each row of sum one, by which new rows are averages of references."""

    def prepare(self, Y: Any) -> Array:
        _require_dense(self, Y)
        return _pseudo_inverse(self.form(Y))

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        _require_dense(self, X)
        if prepared is None:
            K = self.prepare(X if Y is None else Y)
        else:
            K = prepared
        if Y is None:
            return np.asarray(K, kind(X))
        rows = self.weights(X, Y) @ K
        first = _nearest(X, Y, 1)[1][:, 0]
        equal = np.all(np.asarray(X) == np.asarray(Y)[first], axis=1)
        rows[equal] = K[first[equal]]
        return np.asarray(rows, kind(X))


@dataclass
class LocallyLinear(FromGraph):
    """((I - W)'(I - W))^+, where row i of W rebuilds y_i from its neighbors with weights that sum to one.

    `reg` is added to the Gram matrix of the neighbors, times its trace. A new row is rebuilt
    likewise.
    """

    n_neighbors: int = 5
    reg: float = 1e-3

    def __post_init__(self) -> None:
        require_count(self, n_neighbors=self.n_neighbors)
        require_positive(self, reg=self.reg)

    def form(self, Y: Any) -> Array:
        places = _nearest(None, Y, self.n_neighbors)[1]
        residual = scipy.sparse.eye_array(len(places), format="csr") - self._rebuilding(
            Y,
            Y,
            places,
        )
        return (residual.T @ residual).toarray()

    def weights(self, X: Any, Y: Any) -> scipy.sparse.csr_array:
        return self._rebuilding(X, Y, _nearest(X, Y, self.n_neighbors)[1])

    def _rebuilding(self, X: Any, Y: Any, places: Array) -> scipy.sparse.csr_array:
        """argmin_w |x - sum_i w_i y_i|^2 + reg trace |w|^2 over weights w of sum one, for all rows x at once."""
        steps = np.asarray(Y, np.float64)[places] - np.asarray(X, np.float64)[:, None]
        grams = steps @ steps.transpose(0, 2, 1)
        traces = np.trace(grams, axis1=1, axis2=2)
        grams += (self.reg * np.where(traces > 0, traces, 1.0))[:, None, None] * np.eye(
            places.shape[1]
        )
        W = np.linalg.solve(grams, np.ones((*places.shape, 1)))[..., 0]
        return _spread(W / W.sum(axis=1, keepdims=True), places, Y.shape[0])


@dataclass
class Laplacian(FromGraph):
    """(D - A)^+, D the row sums of affinities A: Laplacian eigenmaps, and ratio cuts, as a kernel. Not normalized.

    Affinities are exp(-gamma |x - y|^2), or 1 without gamma, between rows of which one is among the
    n_neighbors nearest of the other, or between all without n_neighbors. A new row x is the mean of
    its neighbors weighted by its affinities, which minimizes sum_i a(x, y_i) |f(x) - f(y_i)|^2. Of
    fewer rows all are neighbors, with a warning.
    """

    n_neighbors: int | None = 10
    gamma: float | str | None = None

    def __post_init__(self) -> None:
        if self.n_neighbors is None and self.gamma is None:
            raise ValueError(
                "Laplacian needs n_neighbors, gamma, or both: without either all rows are alike."
            )
        if self.n_neighbors is not None:
            require_count(self, n_neighbors=self.n_neighbors)
        if self.gamma is not None:
            widths.check(self, self.gamma)

    def resolved(self, X: Any) -> Self:
        if self.gamma is None:
            return self
        return replace(self, gamma=widths.found(self.gamma, X))

    def form(self, Y: Any) -> Array:
        most = Y.shape[0] - 1
        if self.n_neighbors is not None and 1 <= most < self.n_neighbors:
            warn(
                f"n_neighbors={self.n_neighbors}, but there are only {most} other rows, so all are neighbors; lower "
                "n_neighbors."
            )
        squares, places = self._reach(None, Y)
        A = self._affinities(squares, Y)
        if places is not None:
            A = _spread(A, places, Y.shape[0]).toarray()
            A = np.maximum(A, A.T)
        return np.diag(A.sum(axis=1)) - A

    def weights(self, X: Any, Y: Any) -> scipy.sparse.csr_array | Array:
        squares, places = self._reach(X, Y)
        # the greatest affinity is made one, which cancels in the mean and leaves no far row without
        # any weight
        A = self._affinities(squares - squares.min(axis=1, keepdims=True), Y)
        A /= A.sum(axis=1, keepdims=True)
        if places is None:
            return A
        return _spread(A, places, Y.shape[0])

    def _reach(self, X: Any, Y: Any) -> tuple[Array, Array | None]:
        """Return squared distances to the references within reach, and their places unless all are."""
        if self.n_neighbors is not None:
            near, places = _nearest(X, Y, min(self.n_neighbors, max(Y.shape[0] - (X is None), 1)))
            return np.square(near), places
        squares = pairwise_distances(Y if X is None else X, Y, metric="sqeuclidean").astype(
            np.float64,
            copy=False,
        )
        if X is None:
            np.fill_diagonal(squares, np.inf)  # no row is its own neighbor
        return squares, None

    def _affinities(self, squares: Array, Y: Any) -> Array:
        if self.gamma is None:
            return np.ones_like(squares)
        return np.exp(-widths.found(self.gamma, Y) * squares)


def _require_dense(kernel: Kernel, X: Any) -> None:
    """Raise for a sparse table."""
    if is_sparse(X):
        raise ValueError(
            f"Sparse data was passed, but {kernel} builds a structure on a dense table. Give X.toarray(), or use a "
            "kernel of two rows such as 'rbf'."
        )


def _at_most(n_neighbors: int, Y: Any, what: str, itself: int) -> int:
    most = Y.shape[0] - itself
    if n_neighbors > most:
        raise ValueError(
            f"n_neighbors={n_neighbors}, but there are only {most} {what}; lower n_neighbors."
        )
    return int(n_neighbors)


def _nearest(X: Any, Y: Any, n_neighbors: int) -> tuple[Array, Array]:
    """Distances and places in Y of the nearest to new rows X, or, for None, to each reference among the others."""
    k = _at_most(
        n_neighbors,
        Y,
        "reference rows" if X is not None else "other rows",
        int(X is None),
    )
    Y, X = about_mean(Y, X)
    distances, places = NearestNeighbors(n_neighbors=k).fit(Y).kneighbors(X)
    return distances.astype(np.float64, copy=False), places


def _spread(values: Array, places: Array, n: int) -> scipy.sparse.csr_array:
    """Return the sparse rows that have these values at these places."""
    ends = np.arange(0, places.size + 1, places.shape[1])
    return scipy.sparse.csr_array((values.ravel(), places.ravel(), ends), shape=(len(places), n))


def _joined(graph: Any, Y: Any, labels: Array) -> Any:
    """Return the graph with an edge between each two pieces, where they are nearest."""
    distances = pairwise_distances(Y)
    pieces = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    edges = []
    for a, b in itertools.combinations(pieces, 2):
        i, j = np.unravel_index(distances[np.ix_(a, b)].argmin(), (len(a), len(b)))
        edges.append((a[i], b[j], distances[a[i], b[j]]))
    rows, columns, lengths = (
        np.concatenate(pair) for pair in zip(_entries(graph), zip(*edges, strict=True), strict=True)
    )
    return scipy.sparse.csr_array((lengths, (rows, columns)), shape=graph.shape)


def _entries(graph: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and values of what is stored, zeros among it: equal rows are neighbors at distance zero."""
    graph = graph.tocoo()
    return graph.row, graph.col, graph.data


def _pseudo_inverse(L: Array) -> Array:
    """L^+ of a form that vanishes on functions constant on each piece: (L + c E E')^-1 - E E'/c, E their unit vectors.

    Left to an eigendecomposition where the form vanishes on more, or nearly.
    """
    n = len(L)
    c = float(np.trace(L)) / len(L)
    pieces, labels = connected_components(scipy.sparse.csr_array(L), directed=False)
    if 1 < pieces < n:
        warn(
            f"The graph of neighbors is in {pieces} pieces. Every one has the same mean in this kernel, which does not "
            "tell them apart; raise n_neighbors."
        )
    E = np.eye(pieces)[labels] / np.sqrt(np.bincount(labels))
    constants = E @ E.T
    factor, failed = scipy.linalg.lapack.dpotrf(L + c * constants, lower=True)
    if not failed:
        inverse, failed = scipy.linalg.lapack.dpotri(factor, lower=True)
        lower = np.tril(inverse)
        inverse = lower + np.tril(lower, -1).T
        if (
            not failed
            and np.linalg.norm(inverse) * np.linalg.norm(L) * n * np.finfo(np.float64).eps < 1
        ):
            return np.asarray(inverse - constants / c)
    return np.asarray(scipy.linalg.pinvh(L, check_finite=False))
