"""Penalties on differences between neighbors in a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties.factor import Free, Penalty, Proximable, Smooth, per_row

SYMMETRIC = 1e-8  # relative difference of a Laplacian from its transpose


@dataclass
class GraphLaplacian(Proximable, Smooth):
    """(1/2) sum_i a_i L a_i' over rows a_i of a factor: columns that are neighbors are alike.

    L is a Laplacian, D - A of affinities A with sums D, or any positive semidefinite matrix. With
    `axis=0` it is (1/2) tr(A'L A), and rows that are neighbors are alike: of codes, samples. Then
    rows cannot be scored alone.
    """

    matrix: Any = None
    axis: int = 1

    def __post_init__(self) -> None:
        L = self.matrix
        if self.axis not in (0, 1):
            raise ValueError(f"GraphLaplacian needs axis=0 or axis=1, got {self.axis!r}.")
        if L is None or np.ndim(L) != 2 or L.shape[0] != L.shape[1]:
            raise ValueError("GraphLaplacian needs a square matrix.")
        if abs(L - L.T).max() > SYMMETRIC * abs(L).max():
            raise ValueError("GraphLaplacian needs a symmetric matrix.")
        self.rowwise = self.axis == 1
        # sums of absolute values bound the eigenvalues
        self.curvature = float(np.max(np.asarray(abs(L).sum(axis=1))))

    def check(self, shape: tuple[int, int]) -> None:
        name = "columns" if self.axis else "rows"
        if self.matrix.shape[0] != shape[self.axis]:
            raise ValueError(
                f"GraphLaplacian has a matrix of {self.matrix.shape[0]} {name}, and the factor "
                f"{shape[self.axis]}."
            )

    def rows(self, A: Array) -> Array:
        if self.axis == 0:
            raise UnsupportedProblem(f"GraphLaplacian(axis={self.axis}) couples the rows.")
        return np.einsum("ij,ij->i", A, self.gradient(A)) / 2

    def value(self, A: Array) -> float:
        return float(np.vdot(A, self.gradient(A))) / 2

    def gradient(self, A: Array) -> Array:
        if self.axis == 0:
            return np.asarray(self.matrix @ A, A.dtype)
        return np.asarray((self.matrix @ A.T).T, A.dtype)

    def prox(self, A: Array, t: float | Array) -> Array:
        values, V = self._eigen
        if self.axis == 1:
            return np.asarray(((A @ V) / (1 + per_row(t) * values)) @ V.T, A.dtype)
        if np.size(t) > 1:
            raise UnsupportedProblem("GraphLaplacian(axis=0) couples the rows: one strength only.")
        strength = float(np.max(t))
        return np.asarray(V @ ((V.T @ A) / (1 + strength * values)[:, None]), A.dtype)

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        if is_sparse(self.matrix):
            L = self.matrix.toarray()
        else:
            L = np.asarray(self.matrix)
        values, V = np.linalg.eigh(L)
        return np.maximum(values, 0), V

    def split(self) -> tuple[Smooth | None, Penalty]:
        return self, Free()
