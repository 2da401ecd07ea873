"""The free linear term D @ B of a problem (intercepts, regressors), and how it is profiled out."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from regfactor.core.batched_newton import Evaluate, minimize_columns
from regfactor.core.params import Array, frozen
from regfactor.problems.layout import Layout


@frozen
class Design:
    """D @ B with (ridge/2) |B|^2.

    Rows of B without ridge are free, and the dual then needs D'Y = 0.

    `columns` marks the columns of the table that have the term; in the others B is zero, and Y is
    not constrained.
    """

    D: Array
    ridge: Any = 0.0
    columns: Array | None = None

    @staticmethod
    def intercept(n: int, dtype: Any = np.float64) -> Design:
        """Return a column of ones: one free offset for each column of the table."""
        return Design(np.ones((n, 1), dtype))

    @cached_property
    def strengths(self) -> Array:
        """Return the ridge of each row of B."""
        return np.broadcast_to(np.asarray(self.ridge, self.D.dtype), (self.D.shape[1],))

    def astype(self, dtype: Any) -> Design:
        """Return the same design in another precision."""
        return replace(self, D=self.D.astype(dtype, copy=False))

    def kept(self, B: Array) -> Array:
        """Return B with zeros in the columns without the term."""
        if self.columns is None:
            return B
        return np.where(self.columns, B, 0)

    def regress(self, R: Array) -> Array:
        """Return argmin_B |R - D B|^2 / 2 + cost(B) for a complete table.

        The shortest where it is not unique.
        """
        U, s, Vt = self.factors
        return self.kept((Vt.T / s) @ (U.T @ R))

    @cached_property
    def factors(self) -> tuple[Array, Array, Array]:
        """The compact SVD of D extended by the roots of the ridge, U on the rows of D alone."""
        extended = np.vstack([self.D, np.diag(np.sqrt(self.strengths))])
        U, s, Vt = np.linalg.svd(extended, full_matrices=False)
        kept = s > max(extended.shape) * np.finfo(s.dtype).eps * s.max(initial=0)
        return U[: len(self.D), kept], s[kept], Vt[kept]

    def minimize(
        self,
        evaluate: Evaluate,
        B: Array,
        majorant: Array,
        layout: Layout,
    ) -> Array:
        """Minimize over B, each column of the table by itself.

        `evaluate` returns the loss of D @ B by columns, its gradient and curvature by entries.
        """
        return self.kept(minimize_columns(evaluate, self.D, B, self.strengths, majorant, layout))

    def annihilate(self, Y: Array, h: Array, layout: Layout) -> Array:
        """Return Y - H D (D'HD)^-1 D'Y over the free rows, so that D'Y = 0 there.

        Y and the curvature h are given at the entries. Weighting by h moves Y most where it is
        farthest from the ends of the domain of L*; plain centering can leave that domain.
        """
        free = self.strengths == 0
        if not free.any():
            return Y
        if self.columns is not None:
            everywhere = replace(self, columns=None).annihilate(Y, h, layout)
            return np.where(layout.spread(self.columns), everywhere, Y)
        D = self.D[:, free]
        for _ in range(2):  # the second round removes the rounding of the first
            no_ridge = np.zeros(D.shape[1], D.dtype)
            away = layout.solve_columns(D, h, no_ridge, layout.adjoint(D, Y))
            Y = Y - h * layout.apply(D, away)
        rounding = np.finfo(Y.dtype).eps ** 0.75
        sizes = layout.adjoint(np.abs(D), np.abs(Y))
        left = np.abs(layout.adjoint(D, Y)) > rounding * sizes
        if not left.any():
            return Y
        # columns whose curvature is zero where Y would have to move
        stuck = layout.spread(left.any(axis=0))
        return np.where(stuck, self.shrunk_to_orthogonal(Y, layout), Y)

    def shrunk_to_orthogonal(self, Y: Array, layout: Layout) -> Array:
        """Return Y with parts of it shrunk until D'Y = 0 over the free rows.

        Shrinking keeps Y in the domain of L*. With one regressor, the larger of the positive and
        negative parts of each column is shrunk; with several, Y becomes zero.
        """
        D = self.D[:, self.strengths == 0]
        if not D.shape[1]:
            return Y
        if D.shape[1] == 1:
            shrunk = _balanced_columns(Y, D, layout)
        else:
            shrunk = np.zeros_like(Y)
        if self.columns is None:
            return shrunk
        return np.where(layout.spread(self.columns), shrunk, Y)

    def dual_cost(self, Y: Array, layout: Layout) -> float:
        """Return sum |(D'Y)_i|^2 / (2 ridge_i) over the penalized rows."""
        penalized = self.strengths > 0
        if not penalized.any():
            return 0.0
        products = self.kept(layout.adjoint(self.D[:, penalized], Y))
        squares = np.square(products).sum(axis=1)
        return float((squares / self.strengths[penalized]).sum()) / 2


def _balanced_columns(Y: Array, D: Array, layout: Layout) -> Array:
    """Return Y with the heavier of the positive and negative parts of d'Y shrunk to d'Y = 0."""
    parts = layout.apply(D, np.ones((1, layout.shape[1]), D.dtype)) * Y
    up = layout.column_sums(np.maximum(parts, 0))
    down = layout.column_sums(np.maximum(-parts, 0))
    level = np.minimum(up, down)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [layout.spread(np.nan_to_num(level / side, posinf=0.0)) for side in (up, down)]
    return (Y * np.where(parts > 0, *shares)).astype(Y.dtype)


def shifted(data: Any, design: Design | None, B: Array | None) -> Any:
    """Return data with the free term D @ B in their offset."""
    if design is None or B is None:
        return data
    return data.shifted(design.D, B)
