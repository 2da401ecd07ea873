"""Functions in the space of a kernel, h = T c on training rows.

T is a Gram matrix, the inputs, or features of landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state, gen_batches

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen, require_count
from regfactor.fitting.targets import positive_features
from regfactor.kernels import Kernel, Linear, Precomputed

MOST_ROWS = 4000  # up to so many rows the Gram matrix is formed
MOST_FEATURES = 3000  # up to so many features their products are formed
LANDMARKS = 1000  # beyond MOST_ROWS
BLOCK_ROWS = 4096  # rows of a kernel that are held at once


@frozen
class Expansion:
    """h(x) = sum_i k(x, reference_i) c_i, or x'c without a kernel."""

    kernel: Kernel | None
    references: Any
    prepared: Any
    # of a precomputed kernel, where not all training rows are references
    columns: Array | None = None

    def __call__(self, X: Any, coef: Array) -> Array:
        """Return h of every row, one column for each column of `coef`."""
        if self.kernel is None:
            return X @ coef
        h = np.empty((X.shape[0], coef.shape[1]), coef.dtype)
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            if self.columns is None:
                block = X[rows]
            else:
                block = X[rows][:, self.columns]
            h[rows] = self.kernel.gram(block, self.references, self.prepared) @ coef
        return h


@frozen
class Basis:
    """h = table @ c on training rows.

    |h|^2 is c'table c with a Gram matrix (`dual`), c'c with features.
    """

    table: Any
    dual: bool
    expansion: Expansion
    back: Any = None  # features of landmarks -> coefficients of the kernel there

    def coefficients(self, c: Array) -> Array:
        """Return the coefficients in the form that `expansion` takes."""
        if self.back is None:
            return c
        return self.back @ c

    def norm(self, c: Array) -> float:
        """|h|^2 in the space of the kernel, summed over columns."""
        if self.dual:
            return float(np.sum(c * (self.table @ c)))
        return float(np.sum(c * c))


def basis_of(
    X: Any,
    kernel: Kernel,
    landmarks: int | str | None,
    features: bool,
    random_state: Any,
) -> Basis:
    """Return a basis: inputs of a linear kernel, a Gram matrix of few rows, otherwise landmarks.

    `features` asks for features for any number of rows.
    """
    n, d = X.shape
    if isinstance(kernel, Linear):
        plain = Expansion(None, None, None)
        if features or d <= MOST_FEATURES or n > MOST_ROWS:
            return Basis(X.astype(np.float64, copy=False), False, plain)
        return Basis(
            kernel.gram(X).astype(np.float64, copy=False),
            True,
            plain,
            X.T,
        )
    if isinstance(landmarks, str):
        if landmarks != "auto":
            raise ValueError(
                f"landmarks must be a number of rows, 'auto' or None, got {landmarks!r}."
            )
        landmarks = LANDMARKS if features or n > MOST_ROWS else None
    if landmarks is None and not features:
        whole = Expansion(kernel, _held(X, kernel), kernel.prepare(X))
        return Basis(kernel.gram(X).astype(np.float64, copy=False), True, whole)
    return _nystrom(X, kernel, n if landmarks is None else landmarks, random_state)


def _nystrom(X: Any, kernel: Kernel, landmarks: int, random_state: Any) -> Basis:
    """Return features T = K_nm K_mm^-1/2, with T T' = K_nm K_mm^+ K_mn (Williams & Seeger 2001)."""
    require_count(kernel, landmarks=landmarks)
    n = X.shape[0]
    places = np.sort(check_random_state(random_state).permutation(n)[: min(int(landmarks), n)])
    columns = places if isinstance(kernel, Precomputed) else None
    if columns is None:
        chosen = X[places]
    else:
        chosen = X[places][:, places]
    expansion = Expansion(kernel, _held(chosen, kernel), kernel.prepare(chosen), columns)
    back = square_root(kernel.gram(chosen).astype(np.float64, copy=False))[1]
    return Basis(expansion(X, back), False, expansion, back)


def square_root(G: Array) -> tuple[Array, Array]:
    """Return Phi with Phi Phi' = G, without directions of non-positive eigenvalue, and Phi'^+."""
    Phi = positive_features(G)
    if not Phi.size:
        nothing = np.zeros((len(G), 1))
        return nothing, nothing
    return Phi, Phi / np.square(Phi).sum(axis=0)


def dense(A: Any) -> Array:
    """Return a table, which may be sparse, as an array."""
    return A.toarray() if is_sparse(A) else A


def sum_of_products(A: Any, B: Any, axis: int) -> Array:
    """Return the sums along an axis of the entrywise product of two tables, which may be sparse."""
    if is_sparse(A):
        return A.multiply(B).sum(axis=axis).ravel()
    return np.einsum("ij,ij->i" if axis else "ij,ij->j", A, B)


def _held(references: Any, kernel: Kernel) -> Any:
    """Return the references to keep: of a precomputed kernel only their number is needed."""
    if isinstance(kernel, Precomputed):
        return np.empty((references.shape[0], 0))
    return references
