"""Neighbor graphs on rows, their Laplacians and powers of these, all sparse.

And conjugate gradients for such forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array, Params, frozen, require_count
from regfactor.kernels import widths
from regfactor.kernels.base import sparse_rows

DISTANCES_MEGABYTES = 64  # of distances that are held at once where scikit-learn has to form them


@dataclass
class NeighborGraph(Params):
    """W_ij = 1, or exp(-gamma |x_i - x_j|^2), of neighbors i and j; else 0.

    Rows are neighbors if one is among the n_neighbors nearest rows of the other. Where there are
    fewer other rows, all of them are neighbors. No row is its own neighbor, but equal rows are. The
    same rows always give the same graph.

    Parameters
    ----------
    n_neighbors : int, default=10
    gamma : float or str, optional
        None makes all weights 1; a number or a rule ("scale", "median", "neighbors") makes them
        heat weights.
    normalized : bool, default=True
        Whether the Laplacian is I - D^-1/2 W D^-1/2 or D - W, D the sums of the rows of W.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import NeighborGraph
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> NeighborGraph(n_neighbors=1, normalized=False).laplacian(X).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """

    n_neighbors: int = 10
    gamma: float | str | None = None
    normalized: bool = True

    def __post_init__(self) -> None:
        require_count(self, n_neighbors=self.n_neighbors)
        if self.gamma is not None:
            widths.check(self, self.gamma)

    def affinities(self, X: Any) -> scipy.sparse.csr_array:
        """Return W of the rows of X."""
        return self._weights(X, X, "minkowski")

    def affinities_of_gram(self, K: Array) -> scipy.sparse.csr_array:
        """Return W of rows with inner products K, by |x - y|^2 = K_xx + K_yy - 2 K_xy."""
        sizes = np.diagonal(K).astype(np.float64)
        squares = np.maximum(sizes[:, None] + sizes - 2 * K, 0)
        np.fill_diagonal(squares, 0.0)
        if isinstance(self.gamma, str):
            raise ValueError(
                "Heat weights need a number as gamma where only a kernel is known, got "
                f"{self.gamma!r}."
            )
        return self._weights(np.sqrt(squares), None, "precomputed")

    def laplacian(self, X: Any) -> scipy.sparse.csr_array:
        """Return the Laplacian of the graph of the rows of X."""
        return self.laplacian_of(self.affinities(X))

    def laplacian_of(self, W: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the Laplacian of affinities; a row without any is left out of it."""
        L: Any = csgraph.laplacian(W, normed=self.normalized)
        return scipy.sparse.csr_array(L)

    def _weights(self, table: Any, X: Any, metric: str) -> scipy.sparse.csr_array:
        n = table.shape[0]
        k = min(int(self.n_neighbors), n - 1)
        if k == 0:
            return scipy.sparse.csr_array((n, n))
        with config_context(working_memory=DISTANCES_MEGABYTES):
            search = NearestNeighbors(n_neighbors=k, metric=metric).fit(table)
            distances, places = search.kneighbors()
        values = np.ones(places.shape)
        if self.gamma is not None:
            gamma = widths.found(self.gamma, X)
            values = np.exp(-gamma * np.square(distances, dtype=np.float64))
        W = sparse_rows(values, places, n)
        return scipy.sparse.csr_array(W.maximum(W.T))


@frozen
class Power:
    """L^degree, applied and never formed."""

    L: scipy.sparse.csr_array
    degree: int = 1

    def __matmul__(self, F: Any) -> Any:
        for _ in range(self.degree):
            F = self.L @ F
        return F


@frozen
class Solved:
    """Solutions X, number of steps, largest relative residual, and whether that is small enough."""

    X: Array
    n_iter: int
    residual: float
    met: bool = True


def conjugate_gradients(
    apply: Callable[[Array], Array],
    B: Array,
    diagonal: Array,
    tol: float,
    max_iter: int,
) -> Solved:
    """Solve A x_j = b_j for all columns of B at once, A positive definite.

    The run ends at |A x_j - b_j| <= tol |b_j|. `diagonal` is that of A, or near it; dividing by
    it preconditions.
    """
    X = np.zeros_like(B)
    R = B.copy()
    sizes = np.linalg.norm(B, axis=0)
    D = Z = R / diagonal[:, None]
    products = (R * Z).sum(axis=0)
    steps = 0
    while (open_ := np.linalg.norm(R, axis=0) > tol * sizes).any() and steps < max_iter:
        AD = apply(D)
        curvature = (D * AD).sum(axis=0)
        length = np.where(open_, ratio(products, curvature), 0)
        X += length * D
        steps += 1
        # what was added up drifts from the true residual
        if steps % 50 == 0:
            R = B - apply(X)
        else:
            R = R - length * AD
        Z = R / diagonal[:, None]
        last = products
        products = (R * Z).sum(axis=0)
        D = Z + ratio(products, last) * D
    sizes = positive_or_one(sizes)
    residuals = np.linalg.norm(R, axis=0) / sizes
    return Solved(X, steps, float(residuals.max(initial=0.0)))


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, zero where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
