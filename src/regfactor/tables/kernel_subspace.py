"""Kernel principal components on the parts of `kernels`; spectral embeddings place new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import Tags
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import top_eigenpairs
from regfactor.core.loop import Iterate, Solution
from regfactor.core.params import EPS, SMALLEST_NORMAL, Array, frozen, warn
from regfactor.fitting.base import Choice, Estimator, Run, Transformer
from regfactor.fitting.inputs import validated, weights_of_all_rows
from regfactor.fitting.kernel_blocks import check_symmetric, less_origin, origin_of
from regfactor.fitting.parameters import COUNT, parametrized
from regfactor.kernels import Kernel, as_kernel, tag_kernel
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver

LANCZOS_FROM = 500  # rows from which a few eigenvectors are found by products alone


@frozen
class Embedding:
    """Phi = vectors * sqrt(values): orthogonal columns, the longest first."""

    values: Array
    vectors: Array


@frozen
class KernelComponents(Problem[Embedding]):
    """|J K J - Phi Phi'|_F^2 over Phi of `rank` columns, J the centering of n rows.

    With weights w, rows and columns of `centered` are multiplied by sqrt(w), and so is Phi.
    """

    centered: Array
    rank: int
    solvers = ("regfactor.tables.kernel_subspace:Eigenvectors",)

    def objective(self, point: Embedding) -> float:
        """Return the objective at the leading eigenvectors, whose squares leave the sum."""
        total = float(np.vdot(self.centered, self.centered))
        explained = float(np.vdot(point.values, point.values))
        return max(total - explained, 0.0)


class Eigenvectors(Solver):
    """The leading eigenvectors of positive eigenvalue, the optimum by Eckart and Young."""

    solves = KernelComponents

    def iterates(self, problem: KernelComponents, start: Any) -> Iterator[Iterate[Embedding]]:
        """Yield the optimum."""
        point = _leading(problem.centered, min(problem.rank, len(problem.centered)))
        yield Iterate(point, problem.objective(point))


@frozen
class KernelInputs:
    """The training rows less their origin, their kernel, and what it prepared for new rows."""

    kernel: Kernel
    rows: Any
    origin: Array | None
    prepared: Any
    gram: Array
    weights: Array

    @property
    def means(self) -> Array:
        """The weighted mean of the rows of the kernel."""
        return np.asarray(self.weights @ self.gram / self.weights.sum())

    @property
    def centered(self) -> Array:
        """J K J."""
        means = self.means
        overall = self.weights @ means / self.weights.sum()
        return np.asarray(self.gram - means - means[:, None] + overall)


@parametrized
class KernelSubspace(ClassNamePrefixFeaturesOutMixin, Transformer, Estimator):
    """min over Phi of |J K J - Phi Phi'|_F^2, Phi of n_components columns: kernel PCA.

    K is the kernel of the training rows and J centers it; with weights w it is the sum of
    w_i w_j (J K J - Phi Phi')_ij^2, J by weighted means. With the spectral parts of
    `regfactor.kernels` this is Isomap, locally linear embedding, Laplacian eigenmaps (not
    normalized) or classical scaling, and `transform` places new rows: the centered kernel k(x) of a
    new row against the training rows is placed at k(x)' Phi (Phi'Phi)^-1.

    A training row given to `transform` is placed where `codes_` has it. `Laplacian` and
    `LocallyLinear` place any other row at an average of its neighbors, so that a row next to a
    training row may be placed some way from it.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"}, callable or Kernel, default="rbf"
        A callable takes two tables and returns the matrix of all pairs of rows.
    n_components : int, default=2
        Most columns of Phi; fewer where the centered kernel has fewer positive eigenvalues.
    gamma : float or {"scale", "median", "neighbors"}, default="scale"
        For "rbf" and "poly"; see `regfactor.kernels.Gaussian`.
    degree : int, default=3
        For "poly".
    coef0 : float, default=1.0
        For "poly".

    Attributes
    ----------
    codes_ : array of shape (n_samples, n_components)
        Phi; its columns are orthogonal, with weights under these.
    eigenvalues_ : array of shape (n_components,)
        Squared norms of the columns of Phi, weighted, greatest first.
    kernel_ : Kernel
        The kernel with all its numbers.
    objective_ : float
        The objective at Phi.

    See Also
    --------
    ConvexSubspace : The same without a kernel, with missing entries.
    sklearn.decomposition.KernelPCA : Without a penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import KernelSubspace
    >>> from regfactor.kernels import Isomap
    >>> angle = np.linspace(0, 3, 40)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> model = KernelSubspace(Isomap(n_neighbors=2), n_components=1).fit(arc)
    >>> bool(abs(np.corrcoef(model.transform(arc)[:, 0], angle)[0, 1]) > 0.999)  # unrolled
    True
    """

    _parameter_constraints = {"n_components": [COUNT]}
    _locally = False
    _no_certificate = "the optimum is read off eigenvectors, which need none"

    kernel: Any = "rbf"
    n_components: int = 2
    _: KW_ONLY
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find Phi on the training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; for a precomputed kernel the square matrix of the kernel. The structures
            of Isomap, locally linear, Laplacian and classical scaling kernels need a dense table.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts of rows in the components; numbers that a kernel takes
            from the rows, such as gamma="scale" or neighbors, are those of rows without weights.

        Returns
        -------
        The estimator itself.
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any) -> KernelInputs:
        part = self._part()
        X = self._rows(X, reset=True)
        weights = weights_of_all_rows(X, sample_weight)
        kernel = part.resolved(X)
        origin = origin_of(kernel, X, weights)
        X = less_origin(X, origin)
        prepared = kernel.prepare(X)
        gram = kernel.gram(X, prepared=prepared).astype(np.float64, copy=False)
        check_symmetric(kernel, gram)
        return KernelInputs(kernel, X, origin, prepared, gram, weights)

    def _state(self, inputs: KernelInputs) -> KernelComponents:
        roots = np.sqrt(inputs.weights)
        return KernelComponents(roots[:, None] * inputs.centered * roots, self.n_components)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Embedding],
        inputs: KernelInputs,
        run: Run,
    ) -> Solution[Embedding]:
        point = solution.point
        if not len(point.values):
            warn(
                "Under this kernel all rows are equal, or no direction is positive: there is no "
                "component."
            )
        self.kernel_ = inputs.kernel
        self._references = inputs.rows
        self._prepared = inputs.prepared
        self._means = inputs.means
        self._shares = inputs.weights / inputs.weights.sum()
        self._origin = inputs.origin
        self.eigenvalues_ = point.values
        codes = point.vectors * np.sqrt(point.values)
        roots = np.sqrt(inputs.weights)
        if not (inputs.weights == 1).all():
            # also of rows without weight, which are placed as new ones are
            codes = inputs.centered @ (roots[:, None] * point.vectors) / np.sqrt(point.values)
        self.codes_ = np.asarray(codes, inputs.rows.dtype)
        self._coefficients = inputs.weights[:, None] * codes / point.values
        return solution

    def transform(self, X: Any) -> Array:
        """Place rows, each alone.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; for a precomputed kernel their kernel against the training rows.

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = less_origin(self._rows(X, reset=False), self._origin)
        K = self.kernel_.gram(X, self._references, self._prepared).astype(np.float64, copy=False)
        K = K - self._means - (K @ self._shares)[:, None] + self._shares @ self._means
        return np.asarray(K @ self._coefficients, X.dtype)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return self.fit(X, y, **fit_params).codes_

    def _rows(self, X: Any, reset: bool) -> Any:
        return validated(
            self,
            X,
            accept_sparse="csr",
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )

    def _part(self) -> Kernel:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    @property
    def _n_features_out(self) -> int:
        return int(self.codes_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        """Declare sparse tables and kernel matrices where the kernel accepts them."""
        tags = super().__sklearn_tags__()
        tag_kernel(tags, self.kernel)
        return tags


def _leading(K: Array, k: int) -> Embedding:
    """Return the k greatest positive eigenvalues; each eigenvector's largest entry is positive."""
    n = len(K)
    if n >= LANCZOS_FROM and k <= n // 50:
        start = np.random.default_rng(0).normal(size=n)
        values, vectors = eigsh(K, k, which="LA", v0=start)
    else:
        values, vectors = top_eigenpairs(K, k)
    size = max(float(np.linalg.norm(K)), SMALLEST_NORMAL)
    keep = values > n * EPS * size
    values = values[keep][::-1]
    vectors = vectors[:, keep][:, ::-1]
    if vectors.size:
        vectors = svd_flip(vectors, None)[0]
    return Embedding(values, vectors)
