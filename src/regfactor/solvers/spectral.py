"""Labels to begin a normalized cut from: k-means on the leading eigenvectors of the normalized affinities."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from regfactor._linalg import is_sparse, top_eigenpairs
from regfactor._params import Array
from regfactor.loop import Iterate
from regfactor.losses.divergences import SquaredDistance
from regfactor.problems.clusters import Clusters
from regfactor.solvers.kernel_lloyd import KernelClusters
from regfactor.solvers.lloyd import Lloyd, at_centers
from regfactor.solvers.seeding import spread_rows

SMALL = 2000  # rows up to which all eigenvectors are found
RESTARTS = 30  # of Lanczos, after which its eigenvalues are known to crowd
FACTORED = 100_000  # rows up to which a graph on which Lanczos is slow is factored
ABOVE = 1e-6  # the largest eigenvalue, so that what is factored is positive definite
STARTS, STEPS = 10, 100  # of k-means


def spectral_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by k-means on the leading eigenvectors, the relaxation of the problem (Shi & Malik 2000)."""
    n, k, mass = len(problem.weights), problem.n_clusters, problem.mass
    points = _leading(problem, random) / np.where(mass > 0, np.sqrt(mass), 1)[:, None]
    embedded = Clusters(np.ascontiguousarray(points), mass, SquaredDistance(), k)
    best, least = np.zeros(n, np.int32), np.inf
    for _ in range(STARTS):
        begin = at_centers(embedded, spread_rows(embedded, random))
        *_, last = itertools.islice(_until_settled(Lloyd(0.0).iterates(embedded, begin)), STEPS)
        if last.objective < least:
            best, least = last.point.factors.Phi.indices, last.objective
    return best


def _until_settled(iterates: Iterator[Iterate]) -> Iterator[Iterate]:
    for it in iterates:
        yield it
        if it.settled:
            return


def _leading(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return the leading eigenvectors of N = M^1/2 S K S M^1/2, with M = W/S."""
    n, k, root = len(problem.weights), problem.n_clusters, np.sqrt(problem.weights * problem.scale)
    if n <= max(SMALL, 4 * k):
        return top_eigenpairs(root[:, None] * problem.dense_rows(slice(None)) * root, k)[1]
    options: dict[str, Any] = {"v0": random.standard_normal(n), "ncv": min(n, max(4 * k, 40))}
    K = problem.rows(slice(0, n)) if is_sparse(problem.rows(slice(0, 1))) else None
    if K is not None:
        diagonal = scipy.sparse.diags_array(root)
        return _leading_of_graph((diagonal @ K @ diagonal).tocsc(), k, options)

    def product(V: Array) -> Array:
        return root[:, None] * problem.products(root[:, None] * V.reshape(n, -1))

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    return np.asarray(eigsh(operator, k, which="LA", **options)[1])


def _leading_of_graph(N: Any, k: int, options: dict[str, Any]) -> Array:
    """Return the leading eigenvectors of sparse normalized affinities, the largest eigenvalue of which is one.

    Lanczos is slow where eigenvalues crowd below it, as those of curves, surfaces and graphs in several pieces do. Such
    graphs have small separators, so that a factorization of (1 + e) I - N stays sparse; under its inverse the
    eigenvalues lie far apart.
    """
    n = N.shape[0]
    try:
        return np.asarray(eigsh(N, k, which="LA", maxiter=RESTARTS if n <= FACTORED else None, **options)[1])
    except ArpackNoConvergence:
        if n > FACTORED:
            raise
    shifted = (1 + ABOVE) * scipy.sparse.eye_array(n, format="csc") - N
    factored = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator((n, n), matvec=factored.solve, dtype=np.float64)
    return np.asarray(eigsh(inverse, k, which="LA", **options)[1])
