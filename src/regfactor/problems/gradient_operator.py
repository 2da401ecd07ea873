"""A gradient with the scales of a map and a gauge on it.

A matrix that is multiplied and never formed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg

from regfactor.core.linalg import orthonormal, top_eigenpairs
from regfactor.core.params import EPS, Array, frozen
from regfactor.problems.layout import Layout

LARGEST_GRAM = 4000  # rows of a Gram matrix that is formed and factorized to prove a norm
SMALLEST_LANCZOS = 50  # rows below which an iteration has no room, and nothing to gain
LARGEST_EIGH = 700  # rows up to which a direct eigendecomposition is faster than an iterative one
MAX_GRAM_ENTRIES = 2_000_000  # entries beyond which an iteration is faster than a Gram matrix
INFLATION = 1 + 1e-6  # an iterative singular value is a lower estimate


@frozen
class GradientOperator:
    """diag(rows) M diag(columns) for the matrix M of some entries.

    Rows and columns are numbers or vectors.
    """

    layout: Layout
    entries: Array
    rows: Any = 1.0
    columns: Any = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.layout.shape

    @property
    def T(self) -> GradientOperator:
        """The transpose."""
        return GradientOperator(self.layout.T, self.entries.T, self.columns, self.rows)

    def __matmul__(self, B: Array) -> Array:
        return _scaled(self.rows, self.layout.times(self.entries, _scaled(self.columns, B)))

    def adjoint(self, D: Array) -> Array:
        """Return the transpose times D."""
        return _scaled(self.columns, self.layout.adjoint(_scaled(self.rows, D), self.entries).T)

    @property
    def gram(self) -> Array:
        """The Gram matrix of the shorter side, of which the upper triangle counts."""
        if self.shape[0] < self.shape[1]:
            return self.T.gram
        entries = self.entries
        for scale, axis in ((self.rows, 0), (self.columns, 1)):
            if np.ndim(scale) or scale != 1:
                entries = entries * self._of_entries(scale, axis)
        return self.layout.gram(entries)

    def _of_entries(self, scale: Any, axis: int) -> Any:
        """Return the scale of each entry, up to broadcasting."""
        spread = self.layout.spread if axis else self.layout.spread_rows
        if np.ndim(scale):
            return spread(scale)
        return scale

    @property
    def frobenius(self) -> float:
        """The Euclidean norm of all entries, an upper bound of the largest singular value."""
        entries = self.entries * self._of_entries(self.rows, 0) * self._of_entries(self.columns, 1)
        return float(np.sqrt(np.square(entries, dtype=np.float64).sum())) * (1 + 1e-12)

    @property
    def provable(self) -> bool:
        """Whether the matrix is small enough for its norm to be proven by a factorization."""
        return min(self.shape) <= LARGEST_GRAM

    def norm_and_proof(self) -> tuple[float, bool]:
        """Return the largest singular value, rounded up, and whether that is proven.

        By a small Gram matrix it is.
        """
        if min(self.shape) > LARGEST_EIGH or self.entries.size > MAX_GRAM_ENTRIES:
            return self.norm(), False
        return self._norm_by_gram(), True

    def _norm_by_gram(self) -> float:
        gram = self.gram
        slack = EPS * max(self.shape) * float(np.trace(gram))
        return float(np.sqrt(np.linalg.eigvalsh(gram, UPLO="U")[-1] + 8 * slack))

    def norm(self, start: Array | None = None) -> float:
        """Return the largest singular value by an iteration, rounded up by a millionth.

        Not a proof.
        """
        if min(self.shape) < SMALLEST_LANCZOS:
            return self._norm_by_gram()
        operator = scipy.sparse.linalg.LinearOperator(
            self.shape,
            matvec=lambda v: (self @ v.reshape(-1, 1))[:, 0],
            rmatvec=lambda v: self.adjoint(v.reshape(-1, 1))[:, 0],
            dtype=np.float64,
        )
        if start is None or len(start) > min(self.shape):
            start = np.ones(min(self.shape))
        # svds squares its tolerance: the eigenvalue is within a millionth, the singular value
        # within half of one
        value = scipy.sparse.linalg.svds(
            operator,
            k=1,
            v0=start,
            tol=1e-3,
            return_singular_vectors=False,
        )
        return float(value[0]) * INFLATION

    def directions(self, gram: Array, k: int, random: np.random.Generator) -> Array:
        """Return approximations of k leading right singular vectors, by the smaller Gram matrix."""
        found = leading(gram, k, random.normal(size=len(gram)))
        if self.shape[0] < self.shape[1]:
            return orthonormal(self.adjoint(found))
        return found


def leading(gram: Array, k: int, start: Array) -> Array:
    """Return k leading eigenvectors of a Gram matrix; those of a large one only roughly."""
    m = len(gram)
    if m <= LARGEST_EIGH or 3 * k > m:
        gram = gram.astype(np.float32)  # directions need no more, and it is half the work
        return np.ascontiguousarray(top_eigenpairs(gram, k, lower=False)[1])
    whole = np.triu(gram) + np.triu(gram, 1).T
    return scipy.sparse.linalg.eigsh(whole, k, v0=start, tol=1e-2)[1]


def _scaled(scale: Any, A: Array) -> Array:
    """diag(scale) A."""
    if np.ndim(scale) == 0:
        if scale == 1:
            return A
        return scale * A
    return np.ravel(scale)[:, None] * A
