"""Array functions that numpy and scipy lack: singular values from Gram matrices, projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor.core.params import EPS, Array

# Share of the largest singular value below which a Gram matrix loses too much precision.
GRAM_LIMIT = 1e-6
# Share of the largest eigenvalue of a Gram matrix above which directions are as good as by an SVD.
GRAM_SPAN = 1e-2
WIDE_ROW = 2048  # numbers of several rows side by side
WIDE_ROWS = 16  # of them at once, that a cache holds them
BLOCK_ELEMENTS = 4_000_000  # numbers in the matrices of columns that are held at once
MAX_NEWTON_STEPS = 60


# Whether X is a sparse matrix or array; declared, since the stubs narrow X to a class without data.
is_sparse: Callable[[Any], bool] = scipy.sparse.issparse


def positive_or_one(x: Array) -> Array:
    """Return numbers to divide by: one in place of those that are not positive."""
    return np.where(x > 0, x, 1)


def quotient(numerator: Array, denominator: Array) -> Array:
    """Return a quotient, zero where the denominator is not positive."""
    ratio = numerator / positive_or_one(denominator)
    return np.where(denominator > 0, ratio, 0)


def root_of_power(w: Array, linear: Array | float, power: Array | float, r: float) -> Array:
    """Return the x >= 0 of linear x + power x^r = w in every entry, for r >= 1 and w >= 0.

    The left side is convex and increasing, so that Newton's steps from above stay above.
    """
    exponent = np.where(power > 0, r, 1.0).astype(w.dtype)  # 0 times a large power is no number
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.fmin(w / linear, np.power(w / power, 1 / exponent))
    rounding = 4 * np.finfo(x.dtype).eps
    for _ in range(MAX_NEWTON_STEPS):
        excess = linear * x + power * np.power(x, exponent) - w
        step = quotient(excess, linear + power * exponent * np.power(x, exponent - 1))
        x = np.maximum(x - step, 0)
        if np.all(step <= rounding * x):
            break
    return x


def summed(X: Any) -> Any:
    """Return a CSR array that stores every place once; the given one is not changed."""
    X = scipy.sparse.csr_array(X, copy=not X.has_canonical_format)
    X.sum_duplicates()
    return X


def stored_by_all(X: Any) -> Array:
    """Return a mask of the columns of a CSR array that all rows store.

    Only there can a mean be large relative to the spread.
    """
    return np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]


def is_symmetric(K: Any) -> bool:
    """Return whether a square matrix, which may be sparse, is symmetric up to rounding."""
    size = abs(K)
    difference = abs(K - K.T)
    excess = difference - 1e-6 * size
    return bool(excess.max() <= 1e-9 * size.max())


def svd_above(W: Array, threshold: float) -> tuple[Array, Array, Array]:
    """Singular triplets (U, s, Vt) of W with s > threshold, by the smaller Gram matrix.

    A Gram matrix squares the condition number, so values far below the largest need a full SVD.
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

    LAPACK's driver for some eigenvalues can fail on clusters of them, with an error or with fewer
    than requested; the driver for all does not.
    """
    n = len(G)
    # LAPACK directly: the checks of scipy's eigh cost as much as a small matrix
    driver = scipy.linalg.lapack.dsyevr
    if G.dtype == np.float32:
        driver = scipy.linalg.lapack.ssyevr
    values, vectors, found, _, failed = driver(
        G,
        range="I",
        il=n - k + 1,
        iu=n,
        lower=lower,
    )
    if not failed and found == k:
        return values[:k], vectors
    values, vectors = scipy.linalg.eigh(G, lower=lower, check_finite=False, driver="evd")
    return values[-k:], vectors[:, -k:]


def leading_vectors(M: Array, k: int) -> tuple[Array, Array]:
    """Return k leading left and right singular vectors.

    A few of many are found by the Gram matrix, if it is precise enough.
    """
    if M.shape[0] < M.shape[1]:
        V, U = leading_vectors(M.T, k)
        return U, V
    if 4 * k <= M.shape[1]:
        squares, V = top_eigenpairs(M.T @ M, k)
        if squares[0] > GRAM_SPAN * squares[-1]:
            U = M @ V / np.sqrt(squares)
            return U[:, ::-1], V[:, ::-1]
    U, _, Vt = scipy.linalg.svd(M, full_matrices=False, check_finite=False)
    return U[:, :k], Vt[:k].T


def gram(W: Any) -> Array:
    """W' W as an array, summed in float64; W may be sparse."""
    W = W.astype(np.float64, copy=False)
    product = W.T @ W
    if isinstance(product, np.ndarray):
        return product
    return product.toarray()


def spectral_norm(W: Any) -> float:
    """Return the largest singular value by a factorization, rounded up by its rounding error."""
    if min(W.shape) == 0:
        return 0.0
    if W.shape[0] < W.shape[1]:
        W = W.T
    scale = float(abs(W).max())
    if scale == 0.0 or not np.isfinite(scale):
        return scale
    # all eigenvalues: the largest alone costs as much, and its driver can fail on clusters
    squares = np.linalg.eigvalsh(gram(W / scale))
    norm = scale * np.sqrt(max(squares[-1], 0.0))
    inflation = 1 + 4 * max(W.shape) * EPS
    return float(norm * inflation)


def is_below(gram: Array, level: float, summands: int) -> bool:
    """Return whether a matrix has norm at most `level`, by its Gram matrix; True is a proof.

    The level is lowered by the worst rounding of a Cholesky factorization (Rump 2006) and of the
    sums in the Gram matrix.
    """
    m = len(gram)
    of_cholesky = m * (m + 9) * EPS
    of_sums = summands * EPS * float(np.trace(gram))
    lowered = level**2 * (1 - of_cholesky) - of_sums
    shifted = -gram
    shifted[np.diag_indices(m)] += lowered
    try:
        # the upper triangle of the rows is the lower one of the columns, which are not copied
        scipy.linalg.cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return False
    return True


def orthonormal(A: Array, overwrite: bool = False) -> Array:
    """Return an orthonormal basis of the columns of A by Cholesky-QR done twice.

    With `overwrite` the memory of A may be used, which saves the copies of a tall A.
    """
    if not (overwrite and A.flags.c_contiguous):
        A = np.array(A, order="C")
    (solve,) = scipy.linalg.get_blas_funcs(("trsm",), (A,))
    try:
        # A inv(L)' where A'A = L L'; the transpose is in LAPACK's order, so it is solved in place
        for _ in range(2):
            L = np.linalg.cholesky(A.T @ A)
            A = solve(1.0, L, A.T, lower=True, overwrite_b=True).T
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
    ordered = -np.sort(-V, axis=-1)
    excess = np.cumsum(ordered, axis=-1)
    excess -= _of_rows(radius, V)
    counts = np.arange(1, V.shape[-1] + 1, dtype=V.dtype)
    positive = ordered * counts > excess
    active = np.maximum(positive.sum(axis=-1, keepdims=True), 1)
    total = np.take_along_axis(excess, active - 1, axis=-1)
    level = total / active.astype(V.dtype)
    return np.maximum(V - level, 0)


def project_l1_ball(V: Array, radius: float | Array) -> Array:
    """Project every row of V on {norm_1(u) <= radius}."""
    size = np.abs(V)
    outside = size.sum(axis=-1, keepdims=True) > _of_rows(radius, V)
    projected = np.sign(V) * project_simplex(size, radius)
    return np.where(outside, projected, V)


def _of_rows(radius: float | Array, V: Array) -> Array:
    """Return a radius for each row of V, as a column."""
    radii = np.asarray(radius, V.dtype)
    return np.broadcast_to(radii, V.shape[:-1])[..., None]


def soft(V: Array, t: float | Array) -> Array:
    """Shrink every entry towards zero by t."""
    size = np.maximum(np.abs(V) - t, 0)
    return np.asarray(np.sign(V) * size, V.dtype)


class SumsOfPairs(Protocol):
    """A layout of entries that sums products of columns of D with the entries as weights."""

    def grams(self, entries: Array, pairs: Array, block: slice) -> Array:
        """Return the sums of pairs over rows, weighted by the entries of a block of columns."""
        ...


class EntryLayout(Protocol):
    """How entries of D @ B are held; see problems.layout."""

    def spread(self, columns: Array) -> Array:
        """Return a number for each column as a number for each entry."""
        ...

    def adjoint(self, D: Array, entries: Array) -> Array:
        """D' times the matrix of entries."""
        ...

    def solve_columns(
        self,
        D: Array,
        h: Array,
        ridge: Array,
        gradient: Array,
    ) -> Array:
        """(D' diag(h_j) D + diag(ridge)) step_j = gradient_j, solved for every column j."""
        ...


def column_range(X: Array) -> tuple[Array, Array]:
    """Return the least and the largest number of each column; inf and -inf for a column of NaN.

    Rows are laid side by side first, since numpy reduces long rows up to 15 times as fast as short
    ones, and blocks of them stay in the cache for both reductions.
    """
    n, d = X.shape
    n_side = 1
    if X.flags.c_contiguous:  # laid side by side without a copy
        n_side = max(1, WIDE_ROW // d)
    n_wide = n // n_side
    wide = X[: n_wide * n_side].reshape(n_wide, n_side * d)
    low = np.full(n_side * d, np.inf, X.dtype)
    high = np.full(n_side * d, -np.inf, X.dtype)
    n_rows = max(1, WIDE_ROWS * WIDE_ROW // (n_side * d))
    for start in range(0, n_wide, n_rows):
        block = wide[start : start + n_rows]
        np.fmin(low, np.fmin.reduce(block, axis=0), out=low)
        np.fmax(high, np.fmax.reduce(block, axis=0), out=high)
    rest = X[n_wide * n_side :]
    lows = np.vstack([low.reshape(n_side, d), rest])
    highs = np.vstack([high.reshape(n_side, d), rest])
    return np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0)


def solve_columns(
    D: Array,
    h: Array,
    ridge: Array,
    gradient: Array,
    layout: SumsOfPairs,
) -> Array:
    """(D' diag(h_j) D + diag(ridge)) step_j = gradient_j, solved for every column j."""
    m, d = gradient.shape
    step = np.empty((m, d), np.result_type(D, h))
    if not m:
        return step
    if m == 1:  # as for intercepts: d divisions
        curvature = layout.grams(h, D * D, slice(0, d))[:, 0] + np.ravel(ridge)
        precision = np.finfo(curvature.dtype)
        return gradient / (curvature * (1 + precision.eps) + precision.tiny**0.5)
    upper = np.triu_indices(m)
    pairs = np.empty((len(D), len(upper[0])), D.dtype)
    # by blocks of rows: of a tall D the products are the largest array
    height = max(1, BLOCK_ELEMENTS // pairs.shape[1])
    for start in range(0, len(D), height):
        rows = slice(start, start + height)
        part = D[rows]
        np.multiply(part[:, upper[0]], part[:, upper[1]], out=pairs[rows])
    # the position of each entry of the symmetric Hessian among the pairs
    position = np.zeros((m, m), int)
    position[upper] = np.arange(len(upper[0]))
    position.T[upper] = position[upper]
    eye = np.eye(m, dtype=D.dtype)
    width = max(1, BLOCK_ELEMENTS // (m * m))
    for start in range(0, d, width):
        block = slice(start, start + width)
        sums = np.take(layout.grams(h, pairs, block), position.ravel(), axis=1)
        H = sums.reshape(-1, m, m) + ridge * eye
        # a direction only, not the certified problem: jitter keeps unobserved columns solvable
        precision = np.finfo(H.dtype)
        jitter = precision.eps * np.trace(H, axis1=1, axis2=2)
        jitter += precision.tiny**0.5
        H += jitter[:, None, None] * eye
        right = gradient[:, block].T[:, :, None]
        found = np.linalg.solve(H, right)
        step[:, block] = found[:, :, 0].T
    return step
