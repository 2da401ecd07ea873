"""Kernel principal components on the parts of `kernels`, so that spectral embeddings score new rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import top_eigenpairs
from regfactor.core.params import Array, require_count, warn
from regfactor.fitting.inputs import validated
from regfactor.fitting.kernel_blocks import check_symmetric, less_origin, origin_of
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import Kernel, as_kernel, is_pairwise, takes_sparse

LANCZOS_FROM = 500  # rows from which a few eigenvectors are found by products alone


class KernelSubspace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """min over Phi of |J K J - Phi Phi'|_F^2, Phi of n_components columns: kernel principal components.

    K is the kernel of the training rows and J centers it. With the spectral parts of
    `regfactor.kernels` this is Isomap, locally linear embedding, Laplacian eigenmaps (not
    normalized) or classical scaling, and `transform` places new rows: the centered kernel k(x) of a
    new row against the training rows is placed at k(x)' Phi (Phi'Phi)^-1.

    A training row given to `transform` is placed where `codes_` has it. `Laplacian` and
    `LocallyLinear` place any other row at an average of its neighbors, so that a row beside a
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
        Phi; its columns are orthogonal.
    eigenvalues_ : array of shape (n_components,)
        Squared norms of the columns of Phi, greatest first.
    kernel_ : Kernel
        The kernel with all its numbers.
    objective_ : float
        The objective at Phi.

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

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: int = 2,
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find Phi on the training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; for a precomputed kernel the square matrix of the kernel. The structures
            of Isomap, locally linear, Laplacian and classical scaling kernels need a dense table.
        y : ignored

        Returns
        -------
        The estimator itself.
        """
        with all_or_nothing(self):
            require_count(self, n_components=self.n_components)
            part = self._part()
            X = self._rows(X, reset=True)
            kernel = part.resolved(X)
            origin = origin_of(kernel, X)
            X = less_origin(X, origin)
            prepared = kernel.prepare(X)
            K = kernel.gram(X, prepared=prepared).astype(np.float64, copy=False)
            check_symmetric(kernel, K)
            means = K.mean(axis=0)
            K = K - means - means[:, None] + means.mean()
            values, vectors = _leading(K, min(self.n_components, len(K)))
            self.kernel_ = kernel
            self._references = X
            self._prepared = prepared
            self._means = means
            self._origin = origin
            if not len(values):
                warn(
                    "Under this kernel all rows are equal, or no direction is positive: there is no component.",
                )
            self.eigenvalues_ = values
            self.codes_ = np.asarray(vectors * np.sqrt(values), X.dtype)
            self.objective_ = float(max(np.vdot(K, K) - np.vdot(values, values), 0.0))
        return self

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
        K = K - self._means - K.mean(axis=1, keepdims=True) + self._means.mean()
        return np.asarray(K @ (self.codes_ / self.eigenvalues_), X.dtype)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return np.asarray(self.fit(X, y, **fit_params).codes_)

    def _rows(self, X: Any, reset: bool) -> Any:
        few = 2 if reset else 1
        return validated(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=few,
            reset=reset,
        )

    def _part(self) -> Kernel:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    @property
    def _n_features_out(self) -> int:
        return int(self.codes_.shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags


def _leading(K: Array, k: int) -> tuple[Array, Array]:
    """Return the k greatest eigenvalues that are positive, and eigenvectors with their largest entry positive."""
    n = len(K)
    if n >= LANCZOS_FROM and k <= n // 50:
        values, vectors = eigsh(K, k, which="LA", v0=np.random.default_rng(0).normal(size=n))
    else:
        values, vectors = top_eigenpairs(K, k)
    keep = values > n * np.finfo(np.float64).eps * max(np.linalg.norm(K), np.finfo(np.float64).tiny)
    values = values[keep][::-1]
    vectors = vectors[:, keep][:, ::-1]
    return values, svd_flip(vectors, None)[0] if vectors.size else vectors
