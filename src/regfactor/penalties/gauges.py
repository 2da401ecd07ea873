"""|||Z||| = min sum_i |phi_i| |c_i| over all factorizations Z = Phi C, with any number of atoms.

The norms on Z that two norms on the factors induce: the convex form of factor penalties (thesis,
ch. 4).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from regfactor.core.factors import TINY_ATOM, Factors, rebalance
from regfactor.core.linalg import positive_or_one, spectral_norm, svd_above, thin_svd
from regfactor.core.params import Array, Params, UnsupportedProblem
from regfactor.norms import L1, L2, Norm
from regfactor.penalties.factor import AtomNorms, Penalty, PowerPenalty, SquaredL2
from regfactor.penalties.sets import UnitBall

RANK_CUT = 1e-14  # relative size below which singular values of given data are rounding errors


@dataclass(frozen=True)
class Polar:
    """A dual norm, the atoms that attain it, and whether the value is a proven upper bound."""

    value: float
    atoms: Factors
    rigorous: bool = True


class Gauge(Params, abc.ABC):
    """A norm on Z with its decomposition into atoms, its prox and its dual."""

    scale: Any = 1.0
    power: float = 2.0  # p of the lp norm on the codes
    proximable: ClassVar[bool] = True  # whether its prox is known in closed form
    solver: ClassVar[str | None] = None  # "package.module:Class", of a gauge that has its own
    n_free: ClassVar[int] = 0  # components that cost nothing, which come first

    def check(self, d: int) -> None:
        """Raise if the gauge does not fit a table of d columns."""

    @abc.abstractmethod
    def value(self, Z: Array | Factors) -> float:
        """|||Z|||."""

    @abc.abstractmethod
    def cost(self, F: Factors) -> float:
        """Return sum_i |phi_i| |c_i|: an upper bound of the norm that needs no decomposition."""

    @abc.abstractmethod
    def recover(self, Z: Array) -> Factors:
        """Return factors of Z whose cost is the norm, with atoms of components of norm one."""

    @abc.abstractmethod
    def prox(self, W: Array, t: float | Array) -> Factors:
        """Return argmin_Z t |||Z||| + |Z - W|^2 / 2 in optimal factors."""

    @abc.abstractmethod
    def polar(self, G: Array, k: int = 1) -> Polar:
        """Return an upper bound of max <G, Z> over |||Z||| <= 1, and up to k maximizing atoms."""

    def per_row(self, codes: Array) -> Penalty:
        """Return the row penalty under which each training row, scored alone, gets its codes."""
        return PowerPenalty(2.0, 1 / np.linalg.norm(codes, axis=0))

    @abc.abstractmethod
    def factored(self) -> tuple[Penalty, Penalty]:
        """Return the penalties on codes and components that induce this norm."""

    def canonical(self, F: Factors) -> Factors:
        """Return the atoms of Z in the form in which they are published."""
        return F.canonical(self.power)

    def balanced(self, F: Factors) -> Factors:
        """Return orthogonal atoms of the same Z with components of length one."""
        return rebalance(F, TINY_ATOM).with_unit_rows()

    def without_column_scale(self) -> tuple[Gauge, Array | float]:
        """Return a gauge with a prox and the column scale e such that |||Z||| = gauge(Z / e)."""
        if isinstance(self, Trace) and np.ndim(self.scale):
            return Trace(), np.asarray(self.scale)
        return self, 1.0

    @property
    def T(self) -> Gauge:
        """The same norm of the transpose."""
        raise UnsupportedProblem(f"{self} has no transpose among the gauges.")


@dataclass
class Trace(Gauge):
    """Sum of singular values of Z diag(1/scale): Euclidean codes and components (theorem 3)."""

    scale: Any = 1.0

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.scale)) or np.any(np.asarray(self.scale) <= 0):
            raise ValueError(
                "Trace needs a positive finite scale (one, or one for each column), "
                f"got {self.scale!r}."
            )

    def value(self, Z: Array | Factors) -> float:
        if min(Z.shape):
            scaled = _compressed(Z) / self.scale
            sizes = np.linalg.svd(scaled, compute_uv=False)
            return float(sizes.sum())
        return 0.0

    def cost(self, F: Factors) -> float:
        of_codes = np.linalg.norm(F.codes, axis=0)
        of_components = np.linalg.norm(F.C / self.scale, axis=1)
        return float(of_codes @ of_components)

    def recover(self, Z: Array) -> Factors:
        scale = np.asarray(self.scale, Z.dtype)
        U, s, Vt = thin_svd(Z / scale, RANK_CUT)
        return Factors(U * s, Vt * scale)

    def prox(self, W: Array, t: float | Array) -> Factors:
        if np.ndim(self.scale):
            raise UnsupportedProblem(
                "Trace with a scale per column has no closed prox; step in Z diag(1/scale)."
            )
        t = float(t / self.scale)
        U, s, Vt = svd_above(W, t)
        sizes = (s - t) / self.scale
        return Factors(U * sizes, Vt * self.scale)

    def polar(self, G: Array, k: int = 1) -> Polar:
        scale = np.asarray(self.scale, G.dtype)
        scaled = G * scale
        value = spectral_norm(scaled)
        if k == 0:
            return Polar(value, Factors.zeros(*G.shape))
        U, _, Vt = thin_svd(scaled)
        return Polar(value, Factors(U[:, :k], Vt[:k] * scale))

    def factored(self) -> tuple[Penalty, Penalty]:
        if np.all(self.scale == 1):
            return SquaredL2(), SquaredL2()
        return SquaredL2(), PowerPenalty(2.0, 1 / np.square(self.scale))

    @property
    def T(self) -> Gauge:
        if np.ndim(self.scale):
            raise UnsupportedProblem(
                "Trace with a scale per column has no transpose among the gauges."
            )
        return Trace(self.scale)


@dataclass
class TraceModulo(Gauge):
    """min over a of |Z - a e'|_tr = |Z (I - e e'/|e|^2)|_tr: one component e costs nothing.

    Its codes a are offsets of rows, and its atom is the first of all. A dual point G needs G e = 0:
    the polar is that of the other part of G.
    """

    direction: Any
    n_free = 1

    def __post_init__(self) -> None:
        e = np.asarray(self.direction)
        if e.ndim != 1 or not np.all(np.isfinite(e)) or not np.any(e):
            raise ValueError(
                f"TraceModulo needs a finite direction that is not zero, got {self.direction!r}."
            )

    def check(self, d: int) -> None:
        if len(self.direction) != d:
            raise ValueError(
                f"The direction of TraceModulo has {len(self.direction)} entries, the table {d} "
                "columns."
            )

    def offsets(self, Z: Array | Factors) -> Array:
        """Return the a of the Z - a e' of least norm."""
        e = np.asarray(self.direction, np.float64)
        along = e / (e @ e)
        if isinstance(Z, Factors):
            return Z.codes @ (Z.C @ along)
        return Z @ along

    def beyond(self, C: Array) -> Array:
        """Return the part of rows that is orthogonal to the direction."""
        e = np.asarray(self.direction, np.float64)
        return (C - np.outer(C @ e, e / (e @ e))).astype(C.dtype)

    def value(self, Z: Array | Factors) -> float:
        if isinstance(Z, Factors):
            return Trace().value(Factors(Z.Phi, self.beyond(Z.C)))
        return Trace().value(self.beyond(Z))

    def cost(self, F: Factors) -> float:
        return Trace().cost(Factors(F.Phi, self.beyond(F.C)))

    def recover(self, Z: Array) -> Factors:
        return self.with_offsets(Z, Trace().recover(self.beyond(Z)))

    def prox(self, W: Array, t: float | Array) -> Factors:
        return self.with_offsets(W, Trace().prox(self.beyond(W), t))

    def polar(self, G: Array, k: int = 1) -> Polar:
        return Trace().polar(self.beyond(G), k)

    def per_row(self, codes: Array) -> Penalty:
        size = np.linalg.norm(codes, axis=0)
        weights = 1 / positive_or_one(size)
        weights[0] = 0
        return PowerPenalty(2.0, weights)

    def factored(self) -> tuple[Penalty, Penalty]:
        raise UnsupportedProblem("Factor penalties cannot leave one component free. Use Admm.")

    def canonical(self, F: Factors) -> Factors:
        return self.with_offsets(F, self._beyond(F).canonical(self.power))

    def balanced(self, F: Factors) -> Factors:
        return self.with_offsets(F, self._beyond(F))

    def _beyond(self, F: Factors) -> Factors:
        """Return orthogonal atoms of the part that costs, with components of length one."""
        return rebalance(Factors(F.codes, self.beyond(F.C)), TINY_ATOM).with_unit_rows()

    def with_offsets(self, Z: Array | Factors, F: Factors) -> Factors:
        """Return the atom of the offsets of Z, and those of the rest."""
        e = np.asarray(self.direction, F.C.dtype)
        return Factors(self.offsets(Z)[:, None].astype(F.C.dtype), e[None]) + F


@dataclass
class Rows(Gauge):
    """Sum over rows of a norm: l1 codes, components in the norm's ball (theorems 5 and 6)."""

    norm: Norm = field(default_factory=L2)
    power = 1.0

    def value(self, Z: Array | Factors) -> float:
        return float(self.norm.value(_dense(Z)).sum())

    def cost(self, F: Factors) -> float:
        sizes = abs(F.Phi).sum(axis=0)
        return float(np.ravel(sizes) @ self.norm.value(F.C))

    def recover(self, Z: Array) -> Factors:
        size = self.norm.value(Z)
        rows = np.flatnonzero(size)
        index = np.concatenate([[0], np.cumsum(size > 0)])
        shape = (len(Z), len(rows))
        sizes = size[rows]
        Phi = scipy.sparse.csr_array((sizes, np.arange(len(rows)), index), shape=shape)
        return Factors(Phi, Z[rows] / sizes[:, None])

    def prox(self, W: Array, t: float | Array) -> Factors:
        return self.recover(self.norm.prox(W, t))

    def polar(self, G: Array, k: int = 1) -> Polar:
        size = self.norm.dual(G)
        best = int(size.argmax())
        code = np.zeros((len(G), 1), G.dtype)
        code[best] = 1
        component = self.norm.support(G[best][None])
        return Polar(float(size[best]), Factors(code, component))

    def per_row(self, codes: Array) -> Penalty:
        return PowerPenalty(1.0)

    def factored(self) -> tuple[Penalty, Penalty]:
        return AtomNorms(L1()), UnitBall(self.norm)

    @property
    def T(self) -> Gauge:
        return Columns(self.norm)


@dataclass
class Columns(Gauge):
    """Sum over columns of a norm: codes in that norm, components in the l1 ball (theorem 4)."""

    norm: Norm = field(default_factory=L2)

    def __post_init__(self) -> None:
        self.power = self.norm.p

    def value(self, Z: Array | Factors) -> float:
        sizes = self.norm.value(_dense(Z).T)
        return float(sizes.sum())

    def cost(self, F: Factors) -> float:
        sizes = np.abs(F.C).sum(axis=1)
        return float(self.norm.value(F.codes.T) @ sizes)

    def recover(self, Z: Array) -> Factors:
        columns = np.flatnonzero(self.norm.value(Z.T))
        unit = np.eye(Z.shape[1], dtype=Z.dtype)
        return Factors(Z[:, columns], unit[columns])

    def prox(self, W: Array, t: float | Array) -> Factors:
        return self.recover(self.norm.prox(W.T, t).T)

    def polar(self, G: Array, k: int = 1) -> Polar:
        size = self.norm.dual(G.T)
        best = int(size.argmax())
        code = self.norm.support(G[:, best])[:, None]
        component = np.zeros((1, G.shape[1]), G.dtype)
        component[0, best] = 1
        return Polar(float(size[best]), Factors(code, component))

    def per_row(self, codes: Array) -> Penalty:
        p = self.norm.p
        if not np.isfinite(p):
            raise UnsupportedProblem(
                f"Codes under {self.norm} cannot be scored row by row, because the norm couples "
                "the rows. Use Columns(Lp(p))."
            )
        return PowerPenalty(p, self.norm.value(codes.T) ** (1 - p))

    def factored(self) -> tuple[Penalty, Penalty]:
        return AtomNorms(self.norm), UnitBall(L1())

    @property
    def T(self) -> Gauge:
        return Rows(self.norm)


def _dense(Z: Array | Factors) -> Array:
    if isinstance(Z, Factors):
        return Z.dense()
    return Z


def _compressed(Z: Array | Factors) -> Array:
    """Return a matrix with the singular values of Z; it has k rows for Z in k factors."""
    if isinstance(Z, Factors):
        return np.linalg.qr(Z.codes, mode="r") @ Z.C
    return Z
