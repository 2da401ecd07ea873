"""Sparse positive definite systems: factorization, or preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import spilu

from regfactor.comparisons.graphs import Solved, ratio
from regfactor.core.params import EPS, Array

# what an incomplete factorization drops, and by how much it may fill
WEAK = (1e-2, 2.0)
STRONG = (1e-5, 20.0)
# steps with the weak one, after which the strong one, which can be costly, is worth its price
PATIENCE = 300
DIAGONAL_SHIFT = (
    1e-9  # of the diagonal: what is smaller is lost in an incomplete factorization anyway
)
RESIDUAL_PERIOD = 50  # steps after which the residual is computed anew
MOST_ROUNDING = 1e-6  # relative residual that is taken where rounding allows no less
MAX_DENSE_UNKNOWNS = 1500  # unknowns up to which a dense factorization is the faster
LAST_RESORT = 5000  # unknowns up to which it is tried where steps do not come to an end


def solve_definite(A: scipy.sparse.csr_array, B: Array, tol: float, max_iter: int) -> Solved:
    """Solve A x_j = b_j for all columns of B, A sparse and positive definite.

    To |r_j| <= tol |b_j| and |r_j / diag A| <= tol |x_j|, r_j = A x_j - b_j. The first holds the
    targets where a form outweighs them; where they outweigh the form, only the second shows rows
    without target. Or to the rounding of A x_j, where that is larger but still small.
    """
    ways = [conjugate_gradients]
    if len(B) <= MAX_DENSE_UNKNOWNS:
        ways = [_factored, conjugate_gradients]
    elif len(B) <= LAST_RESORT:
        ways = [conjugate_gradients, _factored]
    best = _judged(A, B, np.zeros_like(B), 0, tol)
    for way in ways:
        best = min(best, way(A, B, tol, max_iter), key=lambda found: found.residual)
        if best.met:
            break
    return best


def _factored(A: scipy.sparse.csr_array, B: Array, tol: float, max_iter: int) -> Solved:
    """Solve by a Cholesky factorization, and once more for the residual.

    Zero where there is none.
    """
    L, failed = scipy.linalg.lapack.dpotrf(A.toarray(), lower=True, overwrite_a=True)
    if failed:
        return _judged(A, B, np.zeros_like(B), 0, tol)
    X = scipy.linalg.cho_solve((L, True), B, check_finite=False)
    X += scipy.linalg.cho_solve((L, True), B - A @ X, check_finite=False)
    return _judged(A, B, X, 1, tol)


def conjugate_gradients(A: scipy.sparse.csr_array, B: Array, tol: float, max_iter: int) -> Solved:
    """Solve the same by steps.

    On graphs of many dimensions an incomplete factorization fills up but is hardly needed; on
    surfaces it is needed, and cheap. So the weak one is tried first.
    """
    best = last = _judged(A, B, np.zeros_like(B), 0, tol)
    for quality, most in ((WEAK, min(PATIENCE, max_iter)), (STRONG, max_iter)):
        divide = None
        while not last.met and last.n_iter < most:
            divide = divide or preconditioner(A, *quality)
            before = last
            last = _descended(A, B, last, divide, tol, most)
            best = min(best, last, key=lambda found: found.residual)
            if last.n_iter < most and not last.residual < before.residual:  # rounding is reached
                break
    return replace(best, n_iter=last.n_iter)


def _descended(
    A: scipy.sparse.csr_array,
    B: Array,
    begin: Solved,
    divide: Callable[[Array], Array],
    tol: float,
    max_iter: int,
) -> Solved:
    """Continue by flexible steps (Notay 2000): the preconditioner is not quite symmetric."""
    R = B - A @ begin.X
    X = begin.X.copy()
    diagonal = A.diagonal()[:, None]
    D = Z = divide(R)
    products = (R * Z).sum(axis=0)
    steps = begin.n_iter
    while (open_ := _wrong(R, X, B, diagonal) > tol).any() and steps < max_iter:
        AD = A @ D
        curvature = (D * AD).sum(axis=0)
        length = np.where(open_, ratio((R * D).sum(axis=0), curvature), 0)
        X += length * D
        steps += 1
        if steps % RESIDUAL_PERIOD == 0:
            new = B - A @ X
        else:
            new = R - length * AD
        Z = divide(new)
        change = ((new - R) * Z).sum(axis=0)
        last = products
        products = (new * Z).sum(axis=0)
        D = Z + np.where(last != 0, change / np.where(last != 0, last, 1), 0) * D
        R = new
    return _judged(A, B, X, steps, tol)


def _judged(
    A: scipy.sparse.csr_array,
    B: Array,
    X: Array,
    steps: int,
    tol: float,
) -> Solved:
    """Return a solution with its largest residual, and whether that is small enough."""
    wrong = _wrong(B - A @ X, X, B, A.diagonal()[:, None])
    rounding = np.minimum(EPS * _ratio(abs(A) @ abs(X), B), MOST_ROUNDING)
    met = bool(np.all(wrong <= np.maximum(tol, rounding)))
    return Solved(X, steps, float(wrong.max(initial=0.0)), met)


def _wrong(R: Array, X: Array, B: Array, diagonal: Array) -> Array:
    """Return relative residuals of columns: R relative to B, or a Jacobi step relative to X."""
    return np.maximum(_ratio(R, B), _ratio(R / diagonal, X))


def _ratio(A: Array, B: Array) -> Array:
    """Return the ratios of the lengths of columns.

    Nothing is no part of anything, and something of nothing is all.
    """
    a = np.linalg.norm(A, axis=0)
    b = np.linalg.norm(B, axis=0)
    size = np.where(b > 0, b, np.maximum(a, 1e-300))
    return np.where(a > 0, a / size, 0.0)


def preconditioner(A: scipy.sparse.csr_array, drop: float, fill: float) -> Callable[[Array], Array]:
    """Return an approximate inverse: incomplete LU in symmetric mode, or else the diagonal."""
    diagonal = A.diagonal()
    root = 1 / np.sqrt(diagonal)
    scale = scipy.sparse.diags_array(root)
    lift = scipy.sparse.diags_array(np.full(len(root), DIAGONAL_SHIFT))
    lifted = scipy.sparse.csc_array(scale @ A @ scale + lift)
    try:
        factor = spilu(
            lifted,
            drop,
            fill,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # a pivot was dropped to zero
        return lambda R: R / diagonal[:, None]
    return lambda R: root[:, None] * factor.solve(root[:, None] * R)
