"""Sparse positive definite systems: small ones directly, others by preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import spilu

from regfactor._params import Array
from regfactor.baselines.graphs import Solved

WEAK, STRONG = (1e-2, 2.0), (1e-5, 20.0)  # what an incomplete factorization drops, and by how much it may fill
PATIENCE = 300  # steps with the weak one, after which the strong one, which can be costly, is worth its price
AGAIN = 50  # steps after which the residual is computed anew
SMALL = 1500  # unknowns up to which a dense factorization is the faster


def solve_definite(A: scipy.sparse.csr_array, B: Array, tol: float, max_iter: int) -> Solved:
    """Solve A x_j = b_j for all columns of B, A sparse and positive definite, to |A x_j - b_j| <= tol |b_j|."""
    if len(B) <= SMALL:
        L, failed = scipy.linalg.lapack.dpotrf(A.toarray(), lower=True, overwrite_a=True)
        found = None if failed else _judged(A, B, scipy.linalg.cho_solve((L, True), B, check_finite=False), 1)
        if found is not None and found.residual <= tol:
            return found
    return conjugate_gradients(A, B, tol, max_iter)


def conjugate_gradients(A: scipy.sparse.csr_array, B: Array, tol: float, max_iter: int) -> Solved:
    """Solve the same by steps.

    On graphs of many dimensions an incomplete factorization fills up but is hardly needed; on surfaces it is needed,
    and cheap. So the weak one is tried first.
    """
    first = _descended(A, B, np.zeros_like(B), preconditioner(A, *WEAK), tol, min(PATIENCE, max_iter))
    if first.residual <= tol or max_iter <= PATIENCE:
        return first
    second = _descended(A, B, first.X, preconditioner(A, *STRONG), tol, max_iter - first.n_iter)
    return Solved(second.X, first.n_iter + second.n_iter, second.residual)


def _descended(
    A: scipy.sparse.csr_array, B: Array, X: Array, divide: Callable[[Array], Array], tol: float, max_iter: int
) -> Solved:
    """Go on from X by flexible steps (Notay 2000): a preconditioner is symmetric only up to what it drops."""
    X, R, sizes = X.copy(), B - A @ X, np.linalg.norm(B, axis=0)
    D = Z = divide(R)
    products, steps = (R * Z).sum(axis=0), 0
    while (open_ := np.linalg.norm(R, axis=0) > tol * sizes).any() and steps < max_iter:
        AD = A @ D
        curvature = (D * AD).sum(axis=0)
        length = np.where(open_ & (curvature > 0), (R * D).sum(axis=0) / np.where(curvature > 0, curvature, 1), 0)
        X += length * D
        steps += 1
        new = B - A @ X if steps % AGAIN == 0 else R - length * AD
        Z = divide(new)
        change, last = ((new - R) * Z).sum(axis=0), products
        products = (new * Z).sum(axis=0)
        D = Z + np.where(last != 0, change / np.where(last != 0, last, 1), 0) * D
        R = new
    return _judged(A, B, X, steps)


def _judged(A: scipy.sparse.csr_array, B: Array, X: Array, steps: int) -> Solved:
    """Return a solution with its largest residual, in units of the right side."""
    sizes = np.linalg.norm(B, axis=0)
    wrong = np.linalg.norm(B - A @ X, axis=0) / np.where(sizes > 0, sizes, 1)
    return Solved(X, steps, float(wrong.max(initial=0.0)))


def preconditioner(A: scipy.sparse.csr_array, drop: float, fill: float) -> Callable[[Array], Array]:
    """Return an approximate inverse: an incomplete LU in symmetric mode, or the diagonal where that breaks down."""
    diagonal = A.diagonal()
    root = 1 / np.sqrt(diagonal)
    scaled = scipy.sparse.csc_array(scipy.sparse.diags_array(root) @ A @ scipy.sparse.diags_array(root))
    try:
        factor = spilu(scaled, drop, fill, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                       options={"SymmetricMode": True})  # fmt: skip
    except RuntimeError:  # a pivot was dropped to zero
        return lambda R: R / diagonal[:, None]
    return lambda R: root[:, None] * factor.solve(root[:, None] * R)
