"""First labels of a normalized cut: k-means on eigenvectors of the normalized affinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu
from sklearn.exceptions import ConvergenceWarning

from regfactor.core.linalg import is_sparse, top_eigenpairs
from regfactor.core.loop import Limits
from regfactor.core.params import Array, warn
from regfactor.losses.distances import SquaredDistance
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.base import solve_from
from regfactor.solvers.seeding import spread_labels, spread_rows

MAX_DENSE_ROWS = 2000  # up to which all eigenvectors are found
MAX_RESTARTS = 30  # of Lanczos, after which its eigenvalues are known to crowd
MAX_FACTORIZATION_STEPS = 2e10  # which take seconds
SHIFT = 1e-6  # above the largest eigenvalue, so that what is factored is positive definite
# of k-means on eigenvectors
KMEANS_STARTS = 10
KMEANS_ITERATIONS = 100


def spectral_labels(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return labels by k-means on the leading eigenvectors (Shi & Malik 2000)."""
    k = problem.n_clusters
    mass = problem.mass
    vectors = _leading(problem, random)
    if not vectors.shape[1]:
        warn(
            "No eigenvector of these affinities was found, so that the cut begins from k-means++.",
            ConvergenceWarning,
        )
        return spread_labels(problem, random)
    points = vectors / np.where(mass > 0, np.sqrt(mass), 1)[:, None]
    embedded = Clusters(np.ascontiguousarray(points), mass, SquaredDistance(), k)
    starts = (ClusterPoint(spread_rows(embedded, random)) for _ in range(KMEANS_STARTS))
    limits = Limits(tol=0.0, max_iter=KMEANS_ITERATIONS)
    labels = solve_from(embedded, limits, starts).point.labels
    assert labels is not None
    return labels


def _leading(problem: KernelClusters, random: np.random.RandomState) -> Array:
    """Return the leading eigenvectors of N = M^1/2 S K S M^1/2, with M = W/S."""
    n = len(problem.weights)
    k = problem.n_clusters
    root = np.sqrt(problem.weights * problem.scale)
    if n <= max(MAX_DENSE_ROWS, 4 * k):
        return top_eigenpairs(root[:, None] * problem.dense_rows(slice(None)) * root, k)[1]
    first = random.standard_normal(n)
    held = min(n, max(4 * k, 40))
    if is_sparse(problem.rows(slice(0, 1))):
        diagonal = scipy.sparse.diags_array(root)
        N = (diagonal @ problem.rows(slice(0, n)) @ diagonal).tocsr()
        return leading_of_graph(N, k, first, held)

    def product(V: Array) -> Array:
        return root[:, None] * problem.products(root[:, None] * V.reshape(n, -1))

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    return eigsh(operator, k, which="LA", v0=first, ncv=held)[1]


def leading_of_graph(N: Any, k: int, first: Array, held: int) -> Array:
    """Return the leading eigenvectors of sparse normalized affinities, of eigenvalues up to one.

    Lanczos is slow where eigenvalues crowd below it, as those of curves, surfaces and graphs in
    several pieces do. Such graphs have small separators, so that a factorization of (1 + e) I - N
    stays sparse; under its inverse these eigenvalues lie far apart. Fewer are returned where they
    crowd there too, as under weights of all sizes.
    """
    n = N.shape[0]
    cheap = factorization_steps(N) <= MAX_FACTORIZATION_STEPS
    restarts = MAX_RESTARTS if cheap else None
    try:
        return eigsh(N, k, which="LA", v0=first, ncv=held, maxiter=restarts)[1]
    except ArpackNoConvergence as error:
        if not cheap:
            return error.eigenvectors
    shifted = ((1 + SHIFT) * scipy.sparse.eye_array(n) - N).tocsc()
    factored = splu(
        shifted,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    inverse = LinearOperator((n, n), matvec=factored.solve, dtype=np.float64)
    try:
        return eigsh(inverse, k, which="LA", v0=first, ncv=held, maxiter=restarts)[1]
    except ArpackNoConvergence as error:
        return error.eigenvectors


def factorization_steps(N: Any) -> float:
    """Return about how many steps a factorization takes at most.

    That is n w^2, w the mean width of a narrow envelope of N.
    """
    order = reverse_cuthill_mckee(N, symmetric_mode=True)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    rows, columns = N.tocoo().coords
    back = np.maximum(place[rows] - place[columns], 0)
    widths = np.zeros(len(order))
    np.maximum.at(widths, rows, back)
    return float(len(order) * np.square(widths.mean()))
