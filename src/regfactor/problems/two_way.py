"""Free offsets of both columns and rows, D @ B + a e': their minimizers, and dual points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from regfactor.core.linalg import quotient
from regfactor.core.params import Array, frozen

# evaluate(T) -> the loss at the entries T of D @ B + a e', its gradient and second derivative
Evaluate = Callable[[Array], tuple[float, Array, Array]]

MAX_NEWTON_STEPS = 200
FIRST_DAMPING = 1e-3  # share of the majorizing curvature that is added where a step fails
DAMPING_FACTOR = 8
MAX_DAMPING = 1e6
SUFFICIENT_SHARE = 0.1  # of the decrease that the quadratic model predicts
JITTER = 1e-14  # relative: a number may move from the offsets of rows to those of columns
ORTHOGONALITY = 1e-9  # relative size up to which products with a dual point are rounding


@frozen
class TwoWay:
    """D @ B + a e' with free B (one column for each of the table) and a (a number for each row)."""

    D: Array
    e: Array

    def apply(self, B: Array, a: Array) -> Array:
        """D @ B + a e'."""
        return self.D @ B + np.outer(a, self.e)

    def newton_step(self, g: Array, h: Array) -> tuple[Array, Array]:
        """Return the B and a of which D @ B + a e', subtracted, is a Newton step.

        The smaller of the two sides is solved for after the other was eliminated.
        """
        D = self.D.astype(np.float64)
        e = self.e.astype(np.float64)
        h = h.astype(np.float64)
        n, d = h.shape
        q = D.shape[1]
        on_rows = g @ e
        rows = h @ np.square(e)
        if not q:
            return np.zeros((0, d)), quotient(on_rows, rows)
        on_columns = (D.T @ g).T  # d x q
        columns = np.einsum("ik,ij,il->jkl", D, h, D, optimize=True)
        cross = np.einsum("ik,ij,j->jki", D, h, e, optimize=True)  # d x q x n
        if d * q <= n:
            cross = cross.reshape(d * q, n)
            eliminated = cross * _inverse(rows)
            schur = scipy.linalg.block_diag(*columns) - eliminated @ cross.T
            right = on_columns.ravel() - cross @ quotient(on_rows, rows)
            diagonals = columns.diagonal(axis1=1, axis2=2)
            B = _solved(schur, right, diagonals.max(initial=0))
            a = quotient(on_rows - cross.T @ B, rows)
            return B.reshape(d, q).T, a
        largest = columns.diagonal(axis1=1, axis2=2).max(axis=1, initial=0)
        lift = np.where(largest > 0, JITTER * largest, 1.0)
        columns = columns + lift[:, None, None] * np.eye(q)
        inverse = np.linalg.inv(columns)
        eliminated = inverse @ cross
        schur = np.diag(rows) - np.einsum("jki,jkl->il", cross, eliminated, optimize=True)
        right = on_rows - np.einsum("jki,jk->i", eliminated, on_columns)
        a = _solved(schur, right, float(rows.max(initial=0)))
        B = np.einsum("jkl,jl->jk", inverse, on_columns - cross @ a)
        return B.T, a

    def minimize(
        self,
        evaluate: Evaluate,
        B: Array,
        a: Array,
        majorant: Array,
    ) -> tuple[Array, Array]:
        """Return the B and a at which a smooth convex loss of D @ B + a e' is least."""
        accuracy = 4 * float(np.finfo(B.dtype).eps)
        damping = 0.0
        value, g, h = evaluate(self.apply(B, a))
        for _ in range(MAX_NEWTON_STEPS):
            damped = h
            if damping > 0:
                damped = h + damping * np.where(np.isfinite(majorant), majorant, h)
            of_B, of_a = self.newton_step(g, damped)
            predicted = float(np.vdot(g, self.apply(of_B, of_a))) / 2
            if damping > MAX_DAMPING:
                break
            if predicted <= accuracy * abs(value):
                if self.is_orthogonal(g):
                    break
                # a row far from all kinks has a slope without curvature
                damping = max(DAMPING_FACTOR * damping, FIRST_DAMPING)
                continue
            trial_B = (B - of_B).astype(B.dtype)
            trial_a = (a - of_a).astype(a.dtype)
            trial = evaluate(self.apply(trial_B, trial_a))
            if trial[0] <= value - SUFFICIENT_SHARE * predicted:
                B = trial_B
                a = trial_a
                value, g, h = trial
                damping /= DAMPING_FACTOR
            else:
                damping = max(DAMPING_FACTOR * damping, FIRST_DAMPING)
        return B, a

    def annihilate(self, Y: Array, h: Array) -> Array:
        """Return Y - H (D B + a e'), such that D'Y = 0 and Y e = 0.

        Weighting by h moves Y most where it is farthest from the ends of the domain of L*. Zeros
        where no such Y is near.
        """
        exact = Y.astype(np.float64)
        for _ in range(2):  # the second round removes the rounding of the first
            exact = exact - h * self.apply(*self.newton_step(exact, h))
        freed = exact.astype(Y.dtype)
        if self.is_orthogonal(freed):
            return freed
        return np.zeros_like(Y)

    def is_orthogonal(self, Y: Array) -> bool:
        """Return whether D'Y = 0 and Y e = 0 up to rounding."""
        allowed = max(ORTHOGONALITY, float(np.finfo(Y.dtype).eps) ** 0.75)
        size = np.abs(Y)
        of_rows = np.abs(Y @ self.e) <= allowed * (size @ np.abs(self.e)).max(initial=0)
        sums = np.abs(self.D).T @ size
        of_columns = np.abs(self.D.T @ Y) <= allowed * sums.max(initial=0)
        return bool(of_rows.all() and of_columns.all())


def forced_to_zero(low: Array, high: Array, by_columns: bool) -> Array:
    """Return the entries at which a dual point whose rows and columns sum to zero must be zero.

    `low` and `high` are the ends of the domain of L* in each entry, both zero at a missing one. In
    a row or column whose entries all have one sign, all are zero; that decides others in turn.
    """
    forced = (low >= 0) & (high <= 0)
    while True:
        never_below = ((low >= 0) | forced, (high <= 0) | forced)
        more = forced
        for one_sided in never_below:
            more = more | one_sided.all(axis=1, keepdims=True)
            if by_columns:
                more = more | one_sided.all(axis=0)
        if (more == forced).all():
            return forced
        forced = more


def _inverse(size: Array) -> Array:
    return quotient(np.ones_like(size), size)


def _solved(A: Array, right: Array, size: float) -> Array:
    """Solve A x = right for a symmetric A without negative eigenvalues, which may be singular."""
    if size <= 0:
        return np.zeros_like(right)
    k = len(A)
    lifted = A + JITTER * k * size * np.eye(k)
    return np.linalg.solve(lifted, right)
