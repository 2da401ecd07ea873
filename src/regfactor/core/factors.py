"""Z = Phi C without forming it, and the point of convex and factored problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg

from regfactor.core.linalg import thin_svd
from regfactor.core.params import Array

SAME_COMPONENT = 10  # decimals in which equal components agree
TINY_ATOM = 1e-7  # atoms whose codes are this much smaller than the largest are solver noise


@dataclass(frozen=True, eq=False)
class Factors:
    """Z = Phi @ C: codes Phi (n x k; an array or a CSR array) and components C (k x d)."""

    Phi: Any
    C: Array

    @staticmethod
    def zeros(n: int, d: int, dtype: Any = np.float64) -> Factors:
        """Z = 0, without an atom."""
        return Factors(np.zeros((n, 0), dtype), np.zeros((0, d), dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Z."""
        return self.Phi.shape[0], self.C.shape[1]

    @property
    def rank(self) -> int:
        """Number of atoms, an upper bound of the rank of Z."""
        return self.C.shape[0]

    @property
    def codes(self) -> Array:
        """Phi as a dense array."""
        if isinstance(self.Phi, np.ndarray):
            return self.Phi
        return self.Phi.toarray()

    @property
    def T(self) -> Factors:
        """Z' = C' Phi'."""
        return Factors(self.C.T, self.codes.T)

    def dense(self) -> Array:
        """Z itself."""
        return self.Phi @ self.C

    def astype(self, dtype: Any) -> Factors:
        """Return the same factors in another precision."""
        return Factors(self.Phi.astype(dtype, copy=False), self.C.astype(dtype, copy=False))

    def with_unit_rows(self) -> Factors:
        """Return the same Z with components of length one, their sizes in the codes."""
        size = np.linalg.norm(self.C, axis=1)
        return Factors(self.codes * size, self.C / size[:, None])

    def canonical(self, power: float) -> Factors:
        """Return the atoms by falling size, the largest entry of each component positive.

        Sizes are those of the norm of a power on the codes, the Euclidean where it has none. Equal
        components, as equal rows of a table have, are merged into one, and atoms that are solver
        noise are left out.
        """
        codes = self.codes
        C = self.C
        # zeros of one sign, so that equal rows have equal bytes, which compare fastest
        directions = (C / np.abs(C).max(axis=1, keepdims=True)).round(SAME_COMPONENT) + 0.0
        width = directions.itemsize * directions.shape[1]
        as_bytes = np.ascontiguousarray(directions).view(np.dtype((np.void, width)))
        _, first, group = np.unique(as_bytes.ravel(), return_index=True, return_inverse=True)
        if len(first) < len(C):
            merged = np.zeros((len(codes), len(first)), codes.dtype)
            np.add.at(merged.T, group.ravel(), codes.T)
            kept = np.argsort(first)
            codes = merged[:, kept]
            C = C[first[kept]]
        if np.isnan(power):
            power = 2.0
        size = np.linalg.norm(codes, ord=power, axis=0) * np.linalg.norm(C, axis=1)
        order = np.argsort(-size, kind="stable")
        order = order[size[order] > TINY_ATOM * size.max(initial=0)]
        codes = codes[:, order]
        C = C[order]
        sign = np.sign(np.take_along_axis(C, np.abs(C).argmax(axis=1)[:, None], axis=1))
        return Factors(np.ascontiguousarray(codes * sign[:, 0]), np.ascontiguousarray(C * sign))

    def __add__(self, other: Factors) -> Factors:
        return Factors(np.hstack([self.codes, other.codes]), np.vstack([self.C, other.C]))

    def __mul__(self, factor: float) -> Factors:
        return Factors(self.Phi * factor, self.C)

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class FactorPoint:
    """Factors, free coefficients and, where a solver has one, a dual point."""

    factors: Factors
    coefficients: Array | None = None
    dual: Array | None = None

    def astype(self, dtype: Any) -> Self:
        """Return the same point in another precision."""
        if self.factors.C.dtype == dtype:
            return self
        coefficients = self.coefficients
        if coefficients is not None:
            coefficients = coefficients.astype(dtype, copy=False)
        dual = self.dual
        if dual is not None:
            dual = dual.astype(dtype, copy=False)
        return type(self)(self.factors.astype(dtype), coefficients, dual)


def rebalance(F: Factors, cut: float = 0.0) -> Factors:
    """Return U S^1/2 and S^1/2 V' for Z = U S V': the factors of Z with the least sum of squares.

    Two thin QR decompositions and an SVD of size k; Z is not formed.
    """
    Q, R = scipy.linalg.qr(F.codes, mode="economic", check_finite=False)
    P, S = scipy.linalg.qr(F.C.T, mode="economic", check_finite=False)
    U, s, Vt = thin_svd(R @ S.T, cut)
    root = np.sqrt(s)
    return Factors(Q @ (U * root), (root[:, None] * Vt) @ P.T)
