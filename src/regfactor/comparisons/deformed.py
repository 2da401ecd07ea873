"""The space of a kernel with the norm gamma_A |h|_K^2 + c h'Mh.

M is a form on training rows (Sindhwani et al. 2005). A machine in this space is an ordinary one on
labeled rows L whose features Phi_L have the products of the deformed kernel, Phi_L Phi_L' = K_L.
(gamma_A I + c M K)^-1 I_.L: least squares has a closed form, and a support vector machine is any
solver for support vector machines.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import field
from functools import cached_property

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches

from regfactor.comparisons.basis import MOST_ROWS, Basis, dense, square_root, sum_of_products
from regfactor.comparisons.graphs import Power, conjugate_gradients
from regfactor.core.params import Array, frozen, warn

BLOCK_COLUMNS = 256  # columns or right-hand sides that are treated at once


@frozen
class Space(abc.ABC):
    """Functions h = table @ c with the norm `ambient` |h|_K^2 + `intrinsic` h'Mh."""

    basis: Basis
    ambient: float
    intrinsic: float
    form: Power
    # of each solution by conjugate gradients
    steps: list[int] = field(default_factory=list, init=False)

    @abc.abstractmethod
    def ridge(self, rows: Array, Y: Array, intercept: bool) -> Array:
        """Return c of min mean_rows |Y - h - b|^2 + norm(h), one column for each of Y."""

    @abc.abstractmethod
    def features(self, rows: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return Phi of these rows, and the map from v to c.

        table[rows] @ c = Phi @ v, and the norm is |v|^2.
        """

    def norm(self, c: Array) -> float:
        """Return the norm of h, summed over columns."""
        h = self.basis.table @ c
        variation = float(np.sum(h * (self.form @ h)))
        return self.ambient * self.basis.norm(c) + self.intrinsic * variation


class DualSpace(Space):
    """By an LU factorization in the coefficients of the kernel expansion."""

    def ridge(self, rows: Array, Y: Array, intercept: bool) -> Array:
        """(J K + gamma_A l I + c l M K) C = J Y, J the labeled rows, centered with an intercept."""
        K = self.basis.table
        count = len(rows)
        A = (count * self.intrinsic) * (self.form @ K)
        labeled = K[rows]
        if intercept:
            labeled = labeled - labeled.mean(axis=0)
        A[rows] += labeled
        A[np.diag_indices(len(K))] += count * self.ambient
        B = np.zeros((len(K), Y.shape[1]))
        if intercept:
            B[rows] = Y - Y.mean(axis=0)
        else:
            B[rows] = Y
        return _lu_solve(A, B)

    def features(self, rows: Array) -> tuple[Array, Callable[[Array], Array]]:
        K = self.basis.table
        Z = np.zeros((len(K), len(rows)))
        Z[rows, np.arange(len(rows))] = 1.0
        A = self.intrinsic * (self.form @ K)
        A[np.diag_indices(len(K))] += self.ambient
        Z = _lu_solve(A, Z)
        G = K[rows] @ Z
        Phi, whiten = square_root((G + G.T) / 2)
        return Phi, lambda v: Z @ (whiten @ v)


class PrimalSpace(Space):
    """By a Cholesky factorization in the coefficients of the features."""

    @cached_property
    def _quadratic(self) -> Array:
        """P = gamma_A I + c F'MF."""
        F = self.basis.table
        P = np.empty((F.shape[1], F.shape[1]))
        for block in gen_batches(F.shape[1], BLOCK_COLUMNS):  # M F is never held whole
            P[:, block] = dense(F.T @ (self.form @ F[:, block]))
        P = (P + P.T) * (self.intrinsic / 2)
        P[np.diag_indices(len(P))] += self.ambient
        return P

    def ridge(self, rows: Array, Y: Array, intercept: bool) -> Array:
        """(F'J F + l P) C = F'J Y."""
        F = self.basis.table[rows]
        A = dense(F.T @ F) + len(rows) * self._quadratic
        B = F.T @ Y
        if intercept:
            total = F.sum(axis=0).ravel()
            A = A - np.outer(total, total / len(rows))
            B = B - np.outer(total, Y.mean(axis=0))
        return scipy.linalg.cho_solve((_cholesky(A), False), B, check_finite=False)

    def features(self, rows: Array) -> tuple[Array, Callable[[Array], Array]]:
        R = _cholesky(self._quadratic)
        F = dense(self.basis.table[rows])
        Phi = scipy.linalg.solve_triangular(R, F.T, trans="T", check_finite=False).T
        return Phi, lambda v: scipy.linalg.solve_triangular(R, v, check_finite=False)


@frozen
class IterativeSpace(Space):
    """By conjugate gradients in the coefficients of the features, which may be many and sparse."""

    tol: float = 1e-8
    max_iter: int = 1000

    @cached_property
    def _diagonal(self) -> Array:
        """Nearly the diagonal of P: exactly for M = I, and M is replaced by its mean diagonal."""
        trace = self.form.L.diagonal().mean() ** self.form.degree
        return self.ambient + self.intrinsic * trace * sum_of_products(
            self.basis.table,
            self.basis.table,
            axis=0,
        )

    def _quadratic(self, C: Array) -> Array:
        """P C."""
        F = self.basis.table
        return self.ambient * C + self.intrinsic * (F.T @ (self.form @ (F @ C)))

    def _solve(self, apply: Callable[[Array], Array], B: Array, diagonal: Array) -> Array:
        solved = conjugate_gradients(apply, B, diagonal, self.tol, self.max_iter)
        self.steps.append(solved.n_iter)
        if solved.residual > self.tol:
            message = (
                f"Conjugate gradients ended after {solved.n_iter} steps at a relative residual of "
                f"{solved.residual:.1e}, above tol={self.tol:g}; raise max_iter or gamma_A, or "
                "loosen tol."
            )
            warn(message, ConvergenceWarning)
        return solved.X

    def ridge(self, rows: Array, Y: Array, intercept: bool) -> Array:
        """(F'J F + l P) C = F'J Y."""
        F = self.basis.table[rows]
        count = len(rows)

        def centered(h: Array) -> Array:
            if intercept:
                return h - h.mean(axis=0)
            return h

        def apply(C: Array) -> Array:
            return F.T @ centered(F @ C) + count * self._quadratic(C)

        diagonal = sum_of_products(F, F, axis=0) + count * self._diagonal
        return self._solve(apply, F.T @ centered(Y), diagonal)

    def features(self, rows: Array) -> tuple[Array, Callable[[Array], Array]]:
        if len(rows) > MOST_ROWS:
            raise ValueError(
                f"A support vector machine by conjugate gradients takes at most {MOST_ROWS} "
                f"labeled rows, got {len(rows)}. Use solver='direct', fewer features, or "
                "LaplacianRLS."
            )
        F = self.basis.table[rows]
        G = np.empty((len(rows), len(rows)))
        for block in gen_batches(len(rows), BLOCK_COLUMNS):
            sides = dense(F[block].T)
            G[:, block] = F @ self._solve(self._quadratic, sides, self._diagonal)
        Phi, whiten = square_root((G + G.T) / 2)

        def coefficients(v: Array) -> Array:
            return self._solve(self._quadratic, F.T @ (whiten @ v), self._diagonal)

        return Phi, coefficients


def _lu_solve(A: Array, B: Array) -> Array:
    """Return the solution of A X = B, in place of both."""
    factor = scipy.linalg.lu_factor(A, overwrite_a=True, check_finite=False)
    return scipy.linalg.lu_solve(factor, B, overwrite_b=True)


def _cholesky(A: Array) -> Array:
    """Return upper R with R'R = A."""
    try:
        return scipy.linalg.cholesky(A, check_finite=False)
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            "gamma_A is lost in rounding next to the other terms, so that the solution is not "
            "determined. Scale the inputs, or raise gamma_A."
        ) from error
