"""Induced norms without a formula: their dual norm by local search, their value by boosting.

    |||Z||| = min sum_i |phi_i|_R |c_i|_C over Z = Phi C,    |||G|||_* = max |Gc|_R* over |c|_C <= 1

Both are hard to compute for most pairs of norms (Hendrickx and Olshevsky 2010), so that what is
found for the dual norm is a lower estimate, from which certificates are labeled numerical. A
convex relaxation bounds it from above.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize

from regfactor.core.factors import Factors
from regfactor.core.params import Array, UnsupportedProblem, require_count
from regfactor.norms import L2, Blocks, Norm
from regfactor.penalties.factor import AtomNorms, Penalty, PowerPenalty
from regfactor.penalties.gauges import Gauge, Polar
from regfactor.penalties.sets import UnitBall

MAX_ALTERNATIONS = 300
STALLED = 1e-13  # relative growth of the best value over an alternation
SMOOTHING_POWERS = (10.0, 100.0, 1000.0)  # of singular values, towards the largest
BOOSTING_TOL = 1e-5  # relative excess of the dual norm at which no atom is added
MAX_ROUNDS = 200  # of boosting
SAME_ATOM = 1e-3  # relative difference of values from which starts have led to different atoms


@dataclass
class InducedNorm(Gauge):
    """The norm that two norms on atoms induce, for any pair of norms.

    `n_starts` is the number of starts of the search for the dual norm, beyond the singular vectors
    and the largest rows and columns.
    """

    on_codes: Norm = field(default_factory=L2)
    on_components: Norm = field(default_factory=L2)
    n_starts: int = 100
    proximable = False
    solver = "regfactor.solvers.greedy_atoms:GreedyAtoms"

    def __post_init__(self) -> None:
        require_count(self, n_starts=self.n_starts)
        self.power = self.on_codes.p

    def check(self, d: int) -> None:
        for norm in (self.on_codes, self.on_components):
            if isinstance(norm, Blocks) and norm.n_first > d:
                raise UnsupportedProblem(f"{norm} has more columns than the table, {d}.")

    def value(self, Z: Array | Factors) -> float:
        dense = Z.dense() if isinstance(Z, Factors) else Z
        return self.cost(self.recover(dense))

    def cost(self, F: Factors) -> float:
        return float(self.on_codes.value(F.codes.T) @ self.on_components.value(F.C))

    def recover(self, Z: Array) -> Factors:
        """Return factors of Z by boosting (thesis, algorithm 2).

        A linear program gives the cheapest weights of the atoms so far and a dual point G; the atom
        of largest <G, atom> is added until none exceeds one. Single entries are the first atoms, so
        that the factors are exact in every round, and their cost is an upper bound of the norm.
        """
        n, d = Z.shape
        size = float(np.abs(Z).max(initial=0))
        if size == 0:
            return Factors.zeros(n, d, Z.dtype)
        target = (Z / size).astype(np.float64).ravel()
        codes = np.repeat(np.eye(n), d, axis=0)
        components = np.tile(np.eye(d), (n, 1))
        codes = codes / self.on_codes.value(codes)[:, None]
        components = components / self.on_components.value(components)[:, None]
        start = self._atoms((Z / size).astype(np.float64))
        codes = np.vstack([codes, start.codes.T])
        components = np.vstack([components, start.C])
        for _ in range(MAX_ROUNDS):
            columns = (codes[:, :, None] * components[:, None, :]).reshape(len(codes), n * d).T
            both: Any = np.hstack([columns, -columns])
            found: Any = scipy.optimize.linprog(np.ones(both.shape[1]), A_eq=both, b_eq=target)
            weights = found.x[: len(codes)] - found.x[len(codes) :]
            G = found.eqlin.marginals.reshape(n, d)
            better = self._atoms(G)
            values = np.einsum("nk,nd,kd->k", better.codes, G, better.C)
            if values.max() <= 1 + BOOSTING_TOL:
                break
            added = values > 1 + BOOSTING_TOL
            codes = np.vstack([codes, better.codes.T[added]])
            components = np.vstack([components, better.C[added]])
        kept = np.flatnonzero(weights)
        exact = np.linalg.lstsq(columns[:, kept], target)[0]  # a program is solved to 1e-7
        Phi = (codes[kept] * (size * exact[:, None])).T
        return Factors(Phi.astype(Z.dtype), components[kept].astype(Z.dtype))

    def prox(self, W: Array, t: float | Array) -> Factors:
        raise UnsupportedProblem(f"{self} has no prox; GreedyAtoms needs none.")

    def polar(self, G: Array, k: int = 1) -> Polar:
        """Return the largest value that the search found, a lower estimate, and its atoms."""
        return self.search(G, k, np.zeros((0, G.shape[1])))

    def search(self, G: Array, k: int, starts: Array) -> Polar:
        """Return the same by a search that has further starts, rows like components."""
        atoms = self._atoms(G, starts)
        values = np.einsum("nk,nd,kd->k", atoms.codes, G, atoms.C)
        order = np.argsort(-values, kind="stable")[: max(k, 1)]
        best = Factors(atoms.codes[:, order], atoms.C[order]).astype(G.dtype)
        return Polar(max(float(values.max(initial=0)), 0.0), best, rigorous=False)

    def polar_bound(self, G: Array) -> float:
        """Return a proven upper bound of the dual norm.

        |Gc|_R* <= e |E^-1 G D^-1|_2 |Dc|_2 for diagonal D and E, where e and |Dc|_2 are bounded by
        Hoelder's inequality. For norms of the codes and components of p >= 2 the best of these is
        the dual of the semidefinite relaxation, at most 1.783 times the norm (Nesterov 1998); for
        others equal scalings are used.
        """
        if not G.any():
            return 0.0
        G = G.astype(np.float64)
        n, d = G.shape
        free_rows = _exponent(self.on_codes)
        free_columns = _exponent(self.on_components)
        sizes = 1.0
        if np.isnan(free_rows):
            sizes *= largest_length(self.on_codes, n)
        if np.isnan(free_columns):
            sizes *= largest_length(self.on_components, d)

        def smoothed(logs: Array, power: float) -> tuple[float, Array]:
            """Return the log of the bound and its gradient, by a power mean of singular values."""
            e, slope_e, cost_e = _scaling(logs[:n], free_rows)
            f, slope_f, cost_f = _scaling(logs[n:], free_columns)
            U, s, Vt = np.linalg.svd(G / e[:, None] / f, full_matrices=False)
            powers = np.where(s < s[0], 0.0, 1.0)
            if np.isfinite(power):
                powers = (s / s[0]) ** power
            weights = powers / powers.sum()
            value = float(np.log(s[0]) + np.log(powers.sum()) / power + cost_e + cost_f)
            on_e = slope_e - np.square(U) @ weights
            on_f = slope_f - weights @ np.square(Vt)
            if np.isnan(free_rows):
                on_e = np.zeros(n)
            if np.isnan(free_columns):
                on_f = np.zeros(d)
            return value, np.concatenate([on_e, on_f])

        logs = np.zeros(n + d)
        best = smoothed(logs, np.inf)[0]
        for power in SMOOTHING_POWERS:
            found = scipy.optimize.minimize(
                smoothed, logs, args=(power,), jac=True, method="L-BFGS-B"
            )
            logs = found.x
            best = min(best, smoothed(logs, np.inf)[0])
        return sizes * float(np.exp(best))

    def per_row(self, codes: Array) -> Penalty:
        p = self.on_codes.p
        if not np.isfinite(p):
            raise UnsupportedProblem(
                f"Codes under {self.on_codes} cannot be scored row by row, because the norm "
                "couples the rows."
            )
        return PowerPenalty(p, self.on_codes.value(codes.T) ** (1 - p))

    def factored(self) -> tuple[Penalty, Penalty]:
        return AtomNorms(self.on_codes), UnitBall(self.on_components)

    @property
    def T(self) -> Gauge:
        return InducedNorm(self.on_components, self.on_codes, self.n_starts)

    def _atoms(self, G: Array, starts: Array | None = None) -> Factors:
        """Return atoms from which no alternation raises <G, atom>, one of each value found.

        c <- argmax <G'u, c>, u <- argmax <u, G c>, from all starts at once.
        """
        G = np.asarray(G, np.float64)
        V = self._starts(G)
        if starts is not None:
            V = np.vstack([V, starts])
        last = -np.inf
        for _ in range(MAX_ALTERNATIONS):
            U = self.on_codes.support(V @ G.T)
            V = self.on_components.support(U @ G)
            values = np.einsum("sn,nd,sd->s", U, G, V, optimize=True)
            total = float(values.sum())
            if total <= last + STALLED * abs(last):
                break
            last = total
        order = np.argsort(-values, kind="stable")
        kept: list[int] = []
        for index in order:
            if not kept or values[index] < values[kept[-1]] * (1 - SAME_ATOM):
                kept.append(int(index))
        return Factors(U[kept].T, V[kept])

    def _starts(self, G: Array) -> Array:
        """Return singular vectors, unit vectors, signs of the largest rows, and random signs."""
        d = G.shape[1]
        random = np.random.default_rng(0)
        _, _, Vt = np.linalg.svd(G, full_matrices=False)
        lengths = np.linalg.norm(G, axis=0)
        units = np.eye(d)[np.argsort(-lengths)[: self.n_starts]]
        rows = G[np.argsort(-np.linalg.norm(G, axis=1))[: self.n_starts]]
        signs = random.choice([-1.0, 1.0], (self.n_starts, d))
        normal = random.normal(size=(self.n_starts, d))
        return np.vstack([Vt[: self.n_starts], units, rows, signs, normal])


def _exponent(norm: Norm) -> float:
    """Return p/(p - 2), the exponent of the dual of |v^2|_(p/2); NaN where p is not above 2."""
    p = norm.p
    if np.isnan(p) or p <= 2:
        return np.nan
    if np.isinf(p):
        return 1.0
    return p / (p - 2)


def _scaling(logs: Array, exponent: float) -> tuple[Array, Array, float]:
    """Return entries e, the derivative by log e of log max |e v|_2 over |v|_p <= 1, and this log.

    The maximum is the norm of the squares of e of an exponent p/(p - 2), to the power 1/2.
    """
    if np.isnan(exponent):
        return np.ones(len(logs)), np.zeros(len(logs)), 0.0
    largest = logs.max()
    powers = np.exp(2 * exponent * (logs - largest))
    total = powers.sum()
    return np.exp(logs), powers / total, float(largest + np.log(total) / (2 * exponent))


def largest_length(norm: Norm, n: int) -> float:
    """Return the largest Euclidean length of vectors of norm one."""
    if isinstance(norm, Blocks):
        first = norm.bounds[0] * largest_length(norm.first, norm.n_first)
        second = norm.bounds[1] * largest_length(norm.second, n - norm.n_first)
        return float(np.hypot(first, second))
    if norm.p <= 2:
        return 1.0
    return float(n ** (0.5 - 1 / norm.p))


def numerical(on_codes: Penalty | None, on_components: Penalty | None) -> Gauge | None:
    """Return the gauge of a pair of norms on atoms; None for penalties that are no norms."""
    match on_codes, on_components:
        case AtomNorms(norm=codes), UnitBall(norm=components):
            return InducedNorm(codes, components)
        case _:
            return None
