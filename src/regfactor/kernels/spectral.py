"""Embeddings as kernels: a structure built on reference rows, and its extension to new rows.

The leading eigenvectors of `gram(Y)` are the embedding. `gram(X, Y)` treats X as new rows, which
are not added to the structure. A kernel on references y_1, ..., y_n is extended to a new row x by:

* distances (classical MDS, Isomap), Gower 1968, Bengio et al. 2004:
  k(x, y) = -(d^2(x, y) - mean_i d^2(x, y_i) - mean_i d^2(y_i, y) + mean_ij d^2(y_i, y_j))/2.
  A reference given as a new row gets its own row of `gram(Y)`.
* averages (locally linear embedding, Laplacian): k(x, y) = sum_i w_i(x) k(y_i, y) with weights that
  sum to one, so that the embedding of x is the same average of those of the references. A new row
  that equals a reference gets its row of `gram(Y)`; a row close to a reference need not be placed
  close to it.
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

from regfactor.core.linalg import is_sparse, is_symmetric, positive_or_one
from regfactor.core.params import Array, require_count, require_positive, warn
from regfactor.kernels import widths
from regfactor.kernels.base import Kernel, about_mean, float_type, sparse_rows

EUCLIDEAN_METRICS = ("euclidean", "l2")  # computed by inner products, not by differences


class FromDistances(Kernel):
    """-J D^2 J / 2, J = I - 11'/n: inner products about the mean of references at distances D."""

    @abc.abstractmethod
    def distances(self, Y: Any) -> Array:
        """Return the distances among references."""

    @abc.abstractmethod
    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        """Return the distances of new rows to the references, given those among references."""

    def prepare(self, Y: Any) -> tuple[Array, Array]:
        _require_dense(self, Y)
        own = self.distances(Y)
        return own, np.square(own, dtype=np.float64).mean(axis=0)

    def gram(self, X: Any, Y: Any = None, prepared: Any = None) -> Array:
        _require_dense(self, X)
        if prepared is None:
            prepared = self.prepare(X if Y is None else Y)
        distances, column_means = prepared
        if Y is not None:
            distances = self.to_references(X, Y, distances)
        squares = np.square(distances, dtype=np.float64)
        row_means = squares.mean(axis=1)[:, None]
        K = (row_means + column_means - column_means.mean() - squares) / 2
        return np.asarray(K, float_type(X))


@dataclass
class ClassicalMDS(FromDistances):
    """-J D^2 J / 2 with D by a metric of scikit-learn's `pairwise_distances`: classical scaling.

    For the Euclidean metric it is X X' about the mean; for a metric that no Euclidean space
    realizes it has negative eigenvalues. With "precomputed", tables contain the distances to the
    reference rows.
    """

    metric: Any = "euclidean"

    def distances(self, Y: Any) -> Array:
        Y, _ = self._centered(Y)
        D = pairwise_distances(Y, metric=self.metric)
        given = callable(self.metric) or self.metric == "precomputed"
        if given and not is_symmetric(D):
            raise ValueError(f"The distances of {self} are not symmetric; use (D + D.T) / 2.")
        return D

    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        Y, X = self._centered(Y, X)
        return pairwise_distances(X, Y, metric=self.metric)

    def _centered(self, Y: Any, X: Any = None) -> tuple[Any, Any]:
        if self.metric in EUCLIDEAN_METRICS:
            return about_mean(Y, X)
        return Y, X


@dataclass
class Isomap(FromDistances):
    """-J G^2 J / 2 with G the lengths of shortest paths through nearest neighbors.

    A new row x is connected through its neighbors: g(x, y) = min over neighbors i of
    |x - y_i| + g(y_i, y). If the neighbor graph is not connected, each two components are joined
    at their nearest rows, with a warning.
    """

    n_neighbors: int = 5

    def __post_init__(self) -> None:
        require_count(self, n_neighbors=self.n_neighbors)

    def distances(self, Y: Any) -> Array:
        Y, _ = about_mean(Y)
        _require_rows(self.n_neighbors, Y.shape[0] - 1, "other rows")
        graph = kneighbors_graph(Y, int(self.n_neighbors), mode="distance")
        n_components, labels = connected_components(graph, directed=False)
        if n_components > 1:
            warn(
                f"The graph of {self.n_neighbors} neighbors has {n_components} components, which "
                "are joined at their nearest rows; raise n_neighbors to let the data join them."
            )
            graph = _joined(graph, Y, labels)
        return shortest_path(graph, directed=False)

    def to_references(self, X: Any, Y: Any, distances: Array) -> Array:
        near, places = _nearest(X, Y, self.n_neighbors)
        paths = near[:, 0, None] + distances[places[:, 0]]
        # a loop over the few neighbors, vectorized over rows
        for i in range(1, near.shape[1]):
            np.minimum(paths, near[:, i, None] + distances[places[:, i]], out=paths)
        return paths


class FromGraph(Kernel):
    """L^+, the pseudo-inverse of a form f'Lf that is small for smooth f over references; L1 = 0."""

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
        K = prepared
        if K is None:
            K = self.prepare(X if Y is None else Y)
        if Y is None:
            return np.asarray(K, float_type(X))
        rows = self.weights(X, Y) @ K
        first = _nearest(X, Y, 1)[1][:, 0]
        equal = np.all(np.asarray(X) == np.asarray(Y)[first], axis=1)
        rows[equal] = K[first[equal]]
        return np.asarray(rows, float_type(X))


@dataclass
class LocallyLinear(FromGraph):
    """((I - W)'(I - W))^+, row i of W reconstructs y_i from neighbors, with weights of sum one.

    `reg` times the trace of the Gram matrix of the neighbors is added to its diagonal. A new row
    is reconstructed likewise.
    """

    n_neighbors: int = 5
    reg: float = 1e-3

    def __post_init__(self) -> None:
        require_count(self, n_neighbors=self.n_neighbors)
        require_positive(self, reg=self.reg)

    def form(self, Y: Any) -> Array:
        places = _nearest(None, Y, self.n_neighbors)[1]
        identity = scipy.sparse.eye_array(len(places), format="csr")
        residual = identity - self._reconstruction(Y, Y, places)
        return (residual.T @ residual).toarray()

    def weights(self, X: Any, Y: Any) -> scipy.sparse.csr_array:
        return self._reconstruction(X, Y, _nearest(X, Y, self.n_neighbors)[1])

    def _reconstruction(self, X: Any, Y: Any, places: Array) -> scipy.sparse.csr_array:
        """argmin_w |x - sum_i w_i y_i|^2 + reg trace |w|^2 over w of sum one, for every row x."""
        near = np.asarray(Y, np.float64)[places]
        steps = near - np.asarray(X, np.float64)[:, None]
        grams = steps @ steps.transpose(0, 2, 1)
        traces = np.trace(grams, axis1=1, axis2=2)
        ridges = self.reg * positive_or_one(traces)
        grams += ridges[:, None, None] * np.eye(places.shape[1])
        W = np.linalg.solve(grams, np.ones((*places.shape, 1)))[..., 0]
        return sparse_rows(W / W.sum(axis=1, keepdims=True), places, Y.shape[0])


@dataclass
class Laplacian(FromGraph):
    """(D - A)^+, D the row sums of affinities A: Laplacian eigenmaps and ratio cuts, unnormalized.

    Affinities are exp(-gamma |x - y|^2), or 1 without gamma, between rows of which one is among the
    n_neighbors nearest of the other, or between all rows without n_neighbors. A new row x is the
    mean of its neighbors weighted by its affinities, which minimizes
    sum_i a(x, y_i) |f(x) - f(y_i)|^2. With fewer rows all are neighbors, with a warning.
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
        n_others = Y.shape[0] - 1
        if self.n_neighbors is not None and 1 <= n_others < self.n_neighbors:
            warn(
                f"n_neighbors={self.n_neighbors}, but there are only {n_others} other rows, so all "
                "are neighbors; lower n_neighbors."
            )
        squares, places = self._neighborhoods(None, Y)
        A = self._affinities(squares, Y)
        if places is not None:
            A = sparse_rows(A, places, Y.shape[0]).toarray()
            A = np.maximum(A, A.T)
        return np.diag(A.sum(axis=1)) - A

    def weights(self, X: Any, Y: Any) -> scipy.sparse.csr_array | Array:
        squares, places = self._neighborhoods(X, Y)
        # the largest affinity is made one: this cancels in the mean, and no far row underflows
        A = self._affinities(squares - squares.min(axis=1, keepdims=True), Y)
        A /= A.sum(axis=1, keepdims=True)
        if places is None:
            return A
        return sparse_rows(A, places, Y.shape[0])

    def _neighborhoods(self, X: Any, Y: Any) -> tuple[Array, Array | None]:
        """Return squared distances to neighbors, and their places; None if all are neighbors."""
        if self.n_neighbors is not None:
            most = max(Y.shape[0] - (X is None), 1)
            near, places = _nearest(X, Y, min(self.n_neighbors, most))
            return np.square(near), places
        rows = Y if X is None else X
        squares = pairwise_distances(rows, Y, metric="sqeuclidean").astype(np.float64, copy=False)
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
            f"Sparse data was passed, but {kernel} builds a structure on a dense table. "
            "Give X.toarray(), or use a kernel of two rows such as 'rbf'."
        )


def _require_rows(n_neighbors: int, n_rows: int, what: str) -> None:
    if n_neighbors > n_rows:
        raise ValueError(
            f"n_neighbors={n_neighbors}, but there are only {n_rows} {what}; lower n_neighbors."
        )


def _nearest(X: Any, Y: Any, n_neighbors: int) -> tuple[Array, Array]:
    """Return distances and places in Y of the neighbors of rows X; X=None: of Y, without itself."""
    if X is None:
        _require_rows(n_neighbors, Y.shape[0] - 1, "other rows")
    else:
        _require_rows(n_neighbors, Y.shape[0], "reference rows")
    Y, X = about_mean(Y, X)
    search = NearestNeighbors(n_neighbors=int(n_neighbors)).fit(Y)
    distances, places = search.kneighbors(X)
    return distances.astype(np.float64, copy=False), places


def _joined(graph: Any, Y: Any, labels: Array) -> Any:
    """Return the graph with an edge between each two components, where they are nearest."""
    distances = pairwise_distances(Y)
    components = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    # stored zeros stay: equal rows are neighbors at distance zero
    stored = graph.tocoo()
    rows = stored.row.tolist()
    columns = stored.col.tolist()
    lengths = stored.data.tolist()
    for a, b in itertools.combinations(components, 2):
        between = distances[np.ix_(a, b)]
        i, j = np.unravel_index(between.argmin(), between.shape)
        rows.append(a[i])
        columns.append(b[j])
        lengths.append(distances[a[i], b[j]])
    return scipy.sparse.csr_array((lengths, (rows, columns)), shape=graph.shape)


def _pseudo_inverse(L: Array) -> Array:
    """L^+ = (L + c E E')^-1 - E E'/c for a form L whose null vectors E are constant on components.

    By an eigendecomposition if the form vanishes, or nearly, on more than that.
    """
    n = len(L)
    c = float(np.trace(L)) / n
    n_components, labels = connected_components(scipy.sparse.csr_array(L), directed=False)
    if 1 < n_components < n:
        warn(
            f"The graph of neighbors has {n_components} components. They all have the same mean in "
            "this kernel, which cannot separate them; raise n_neighbors."
        )
    E = np.eye(n_components)[labels] / np.sqrt(np.bincount(labels))
    constants = E @ E.T
    factor, failed = scipy.linalg.lapack.dpotrf(L + c * constants, lower=True)
    if failed:
        return scipy.linalg.pinvh(L, check_finite=False)
    inverse, failed = scipy.linalg.lapack.dpotri(factor, lower=True)
    lower = np.tril(inverse)
    inverse = lower + np.tril(lower, -1).T
    condition = np.linalg.norm(inverse) * np.linalg.norm(L)
    if failed or condition * n * np.finfo(np.float64).eps >= 1:
        return scipy.linalg.pinvh(L, check_finite=False)
    return inverse - constants / c
