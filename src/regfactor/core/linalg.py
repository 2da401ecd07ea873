"""Array functions without a home in numpy or scipy: singular values from Grams, projections, angles, row blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor.core.params import Array

GRAM_LIMIT = (
    1e-6  # below this share of the largest singular value a Gram matrix has lost too many digits
)
# share of the largest eigenvalue of a Gram matrix above which directions are as good as by an SVD
GRAM_SPAN = 1e-2


def is_sparse(X: Any) -> bool:
    """Tell whether X is a sparse matrix or array."""
    return bool(scipy.sparse.issparse(X))


def summed(X: Any) -> Any:
    """Return a CSR array in which every place is stored once; the given one is left as it is."""
    X = scipy.sparse.csr_array(X, copy=not X.has_canonical_format)
    X.sum_duplicates()
    return X


def stored_by_all(X: Any) -> Array:
    """Tell which columns of a CSR array all rows store: only there can a mean be large beside how much they vary."""
    return np.asarray(np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0])


def is_symmetric(K: Any) -> bool:
    """Tell whether a square matrix, which may be sparse, is symmetric up to rounding."""
    if not is_sparse(K):
        return bool(np.allclose(K, K.T, rtol=1e-6, atol=1e-9 * np.abs(K).max()))
    return bool((abs(K - K.T) - 1e-6 * abs(K)).max() <= 1e-9 * abs(K).max())


def svd_above(W: Array, threshold: float) -> tuple[Array, Array, Array]:
    """Singular triplets (U, s, Vt) of W with s > threshold, by an eigendecomposition of the smaller Gram matrix.

    A Gram matrix squares the condition number, so values far below the largest are left to a full
    SVD.
    """
    if min(W.shape) == 0:
        return W[:, :0], np.zeros(0, W.dtype), W[:0]
    if W.shape[0] < W.shape[1]:
        V, s, Ut = svd_above(W.T, threshold)
        return Ut.T, s, V.T
    squares, V = scipy.linalg.eigh(gram(W), check_finite=False, driver="evd")
    largest = np.sqrt(max(squares[-1], 0.0))
    if threshold < GRAM_LIMIT * largest:
        U, s, Vt = scipy.linalg.svd(W, full_matrices=False, check_finite=False)
        keep = s > threshold
        return U[:, keep], s[keep], Vt[keep]
    keep = squares > threshold**2
    s = np.sqrt(squares[keep])[::-1]
    V = V[:, keep][:, ::-1]
    U = W @ (V / s).astype(W.dtype)
    return U, s.astype(W.dtype), V.T.astype(W.dtype)


def top_eigenpairs(G: Array, k: int, lower: bool = True) -> tuple[Array, Array]:
    """Return the k greatest eigenvalues of a symmetric matrix, ascending, and their eigenvectors.

    LAPACK's driver for some of them gives up on clusters of eigenvalues now and then, with an error
    or with fewer than it was asked for; the one for all never does.
    """
    n = len(G)
    # without the checks of scipy's eigh, which cost as much as a small matrix
    if G.dtype == np.float32:
        some = scipy.linalg.lapack.ssyevr
    else:
        some = scipy.linalg.lapack.dsyevr
    values, vectors, found, _, failed = some(G, range="I", il=n - k + 1, iu=n, lower=lower)
    if not failed and found == k:
        return values[:k], vectors
    values, vectors = scipy.linalg.eigh(G, lower=lower, check_finite=False, driver="evd")
    return values[-k:], vectors[:, -k:]


def leading_vectors(M: Array, k: int) -> tuple[Array, Array]:
    """Return k leading left and right singular vectors; a few of many by the Gram matrix, if that kept their digits."""
    if M.shape[0] < M.shape[1]:
        V, U = leading_vectors(M.T, k)
        return U, V
    if 4 * k <= M.shape[1]:
        squares, V = top_eigenpairs(M.T @ M, k)
        if squares[0] > GRAM_SPAN * squares[-1]:
            return (M @ V / np.sqrt(squares))[:, ::-1], V[:, ::-1]
    U, _, Vt = scipy.linalg.svd(M, full_matrices=False, check_finite=False)
    return U[:, :k], Vt[:k].T


def gram(W: Any) -> Array:
    """W' W as an array, summed in float64; W may be sparse."""
    W = W.astype(np.float64, copy=False)
    product = W.T @ W
    if isinstance(product, np.ndarray):
        return product
    return np.asarray(product.toarray())


def spectral_norm(W: Any) -> float:
    """Return the largest singular value by a direct factorization, rounded up past its own rounding error."""
    if min(W.shape) == 0:
        return 0.0
    W = W if W.shape[0] >= W.shape[1] else W.T
    scale = float(abs(W).max())
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    # all eigenvalues: finding only the largest costs the same reduction, and its driver can fail on
    # clusters
    top = float(np.linalg.eigvalsh(gram(W / scale))[-1])
    return scale * float(np.sqrt(max(top, 0.0))) * (1 + 4 * max(W.shape) * np.finfo(np.float64).eps)


def is_below(gram: Array, level: float, summands: int) -> bool:
    """Tell whether a matrix has norm at most `level`, by its Gram matrix; true is a proof.

    Kept off the level are the worst rounding of a Cholesky factorization (Rump 2006) and that of
    the sums in the Gram matrix.
    """
    eps = float(np.finfo(np.float64).eps)
    m = len(gram)
    shifted = -gram  # only its upper triangle is read
    shifted[np.diag_indices(m)] += level**2 * (1 - m * (m + 9) * eps) - summands * eps * float(
        np.trace(gram),
    )
    try:
        scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return False
    return True


def orthonormal(A: Array, overwrite: bool = False) -> Array:
    """Return an orthonormal basis of the columns of A: Cholesky-QR done twice, which is all matrix products.

    With `overwrite` it may take the place of A, which saves a tall A its copies.
    """
    A = A if overwrite and A.flags.c_contiguous else np.array(A, order="C")
    (solve,) = scipy.linalg.get_blas_funcs(("trsm",), (A,))
    try:
        for _ in range(
            2,
        ):  # A inv(L)' where A'A = L L'; the transpose is in LAPACK's order, so solved in place
            A = solve(1.0, np.linalg.cholesky(A.T @ A), A.T, lower=True, overwrite_b=True).T
    except np.linalg.LinAlgError:  # columns too nearly dependent for a Gram matrix
        return np.linalg.qr(A)[0]
    return A


def thin_svd(W: Array, cut: float = 0.0) -> tuple[Array, Array, Array]:
    """Thin SVD of W without the singular values at or below `cut` times the largest."""
    U, s, Vt = scipy.linalg.svd(W, full_matrices=False, check_finite=False)
    keep = s > cut * s.max(initial=0.0)
    return U[:, keep], s[keep], Vt[keep]


def project_simplex(V: Array, radius: float | Array = 1.0) -> Array:
    """Project every row of V on {u >= 0, sum(u) = radius} (Held, Wolfe & Crowder 1974)."""
    radius = np.broadcast_to(np.asarray(radius, V.dtype), V.shape[:-1])[..., None]
    ordered = -np.sort(-V, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - radius
    counts = np.arange(1, V.shape[-1] + 1, dtype=V.dtype)
    active = np.maximum((ordered * counts > excess).sum(axis=-1, keepdims=True), 1)
    level = np.take_along_axis(excess, active - 1, axis=-1) / active.astype(V.dtype)
    return np.maximum(V - level, 0)


def project_l1_ball(V: Array, radius: float | Array) -> Array:
    """Project every row of V on {norm_1(u) <= radius}."""
    size = np.abs(V)
    outside = (
        size.sum(axis=-1, keepdims=True)
        > np.broadcast_to(np.asarray(radius), V.shape[:-1])[..., None]
    )
    return np.where(outside, np.sign(V) * project_simplex(size, radius), V)


def soft(V: Array, t: float | Array) -> Array:
    """Shrink every entry towards zero by t."""
    return np.asarray(np.sign(V) * np.maximum(np.abs(V) - t, 0), V.dtype)
