"""Atoms added one by one, with local descent on all of them, for norms without a prox.

The generalized conditional gradient with local improvement (Zhang, Yu and Schuurmans 2012): the
oracle of the dual norm finds the atom along which the loss falls fastest; descent on the factors
then moves all atoms. A local optimum of the factors at which the oracle finds no atom is global.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties.numerical import InducedNorm
from regfactor.problems import Convex
from regfactor.problems.design import shifted
from regfactor.solvers.base import Solver

ATOMS_PER_ROUND = 3
MEMORY = 300  # atoms of earlier rounds from which a search starts
SAME_DECIMALS = 2  # in which components agree that are tried as one
IDLE_ROUNDS = 3  # that lower the objective by rounding alone, after which nothing is left to do
ROUNDING = 1e-14
MAX_HALVINGS = 60
TINY_SHARE = 1e-9  # of the largest atom, below which one is left out


@dataclass
class GreedyAtoms(Solver):
    """Rounds of an oracle step and of accelerated proximal descent on codes, then components."""

    steps: int = 40

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, InducedNorm):
            raise UnsupportedProblem(
                "GreedyAtoms needs norms on atoms, gauge=InducedNorm(on_codes, on_components) of "
                "regfactor.penalties.numerical; other gauges have faster solvers."
            )
        if not problem.data.smooth:
            raise UnsupportedProblem(
                f"{problem.gauge} has no closed form, and its solver descends along gradients, "
                "which a loss with kinks lacks: use 'huber', 'smoothed_l1' or 'smoothed_hinge'."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield after every round."""
        gauge: Any = problem.gauge
        F = Factors.zeros(*problem.shape, problem.data.dtype)
        B = None
        if start is not None:
            F = _normalized(gauge, start.factors)
            B = start.coefficients
        last = np.inf
        idle = 0
        # a bound is the best of all rounds, so that one miss of the search would stay in it:
        # every search starts from what the others found, too
        memory = np.zeros((0, problem.shape[1]), problem.data.dtype)
        while True:
            _, G, B = problem.evaluate(F, B)
            dual = problem.dual_point(F, B)
            Y = problem.feasible(dual)
            found = gauge.search(mapped(problem, Y), MEMORY, memory[-MEMORY:])
            memory = np.vstack([memory, F.C, found.atoms.C])
            bound = problem.bound_at(Y, found.value)
            point = FactorPoint(F, B, dual)
            objective = problem.objective(F, B)
            idle = idle + 1 if not objective < last - ROUNDING * abs(last) else 0
            yield Iterate(
                point,
                objective,
                bound,
                rigorous=False,
                settled=idle >= IDLE_ROUNDS,
            )
            last = objective
            given_offsets = replace(
                problem, data=shifted(problem.data, problem.design, B), design=None
            )
            atoms = gauge.search(G, ATOMS_PER_ROUND, memory[-MEMORY:]).atoms
            F = _with_atoms(given_offsets, F, G, atoms)
            F = self._descended(given_offsets, gauge, F)
            F = _merged(given_offsets, gauge, F)

    def _descended(self, problem: Convex, gauge: InducedNorm, F: Factors) -> Factors:
        """Return factors after steps on the codes, then on the components, without tiny atoms."""
        alpha = problem.alpha

        def on_codes(codes: Array) -> tuple[float, Array]:
            value, G, _ = problem.evaluate(Factors(codes, F.C))
            return value, G @ F.C.T

        def shrink(codes: Array, t: float) -> Array:
            return gauge.on_codes.prox(codes.T, t * alpha).T

        def cost(codes: Array) -> float:
            return alpha * float(gauge.on_codes.value(codes.T).sum())

        codes = accelerated(on_codes, shrink, cost, F.codes, self.steps)
        F = _normalized(gauge, Factors(codes, F.C))

        def on_components(C: Array) -> tuple[float, Array]:
            value, G, _ = problem.evaluate(Factors(F.codes, C))
            return value, F.codes.T @ G

        def project(C: Array, t: float) -> Array:
            return C - gauge.on_components.dual_prox(C, 1.0)

        C = accelerated(on_components, project, lambda _: 0.0, F.C, self.steps)
        return _normalized(gauge, Factors(F.codes, C)).astype(problem.data.dtype)


def mapped(problem: Convex, Y: Array) -> Array:
    """Return map*(Y)."""
    return problem.map.adjoint(problem.data.layout.matrix(Y))


def accelerated(
    smooth: Callable[[Array], tuple[float, Array]],
    prox: Callable[[Array, float], Array],
    cost: Callable[[Array], float],
    A: Array,
    n_steps: int,
) -> Array:
    """Return A after proximal gradient steps with momentum, which restarts where it does not help.

    The step is found by halving; the objective never rises.
    """
    if not A.any():
        return A
    value, G = smooth(A)
    best = value + cost(A)
    ahead = A
    size = float(np.linalg.norm(A))
    curvature = float(np.linalg.norm(G)) / size or 1.0
    momentum = 1.0
    for _ in range(n_steps):
        curvature /= 2
        for _ in range(MAX_HALVINGS):
            trial = prox(ahead - G / curvature, 1 / curvature)
            move = trial - ahead
            new, slope = smooth(trial)
            model = value + np.vdot(G, move) + curvature / 2 * np.vdot(move, move)
            if new <= model + 1e-12 * abs(model):
                break
            curvature *= 2
        objective = new + cost(trial)
        if objective > best:
            if momentum == 1.0:
                break  # a plain step gains nothing but rounding
            momentum = 1.0
            ahead = A
            value, G = smooth(A)
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = trial + (momentum - 1) / following * (trial - A)
        momentum = following
        A = trial
        best = objective
        value, G = smooth(ahead)
    return A


def _normalized(gauge: InducedNorm, F: Factors) -> Factors:
    """Return the same Z with components of norm one, without atoms that are rounding."""
    size = gauge.on_components.value(F.C)
    codes = F.codes * size
    sizes = gauge.on_codes.value(codes.T)
    kept = (size > 0) & (sizes > TINY_SHARE * sizes.max(initial=0))
    return Factors(codes[:, kept], F.C[kept] / size[kept, None])


def _merged(problem: Convex, gauge: InducedNorm, F: Factors) -> Factors:
    """Return factors in which components that nearly agree are one, where this costs nothing."""
    if not F.rank:
        return F
    sign = np.sign(np.take_along_axis(F.C, np.abs(F.C).argmax(axis=1)[:, None], axis=1))
    codes = F.codes * sign[:, 0]
    C = F.C * sign
    _, group = np.unique(C.round(SAME_DECIMALS), axis=0, return_inverse=True)
    group = group.ravel()
    n_groups = int(group.max()) + 1
    if n_groups == len(C):
        return F
    shares = gauge.on_codes.value(codes.T)
    merged = np.zeros((len(codes), n_groups), codes.dtype)
    np.add.at(merged.T, group, codes.T)
    mean = np.zeros((n_groups, C.shape[1]), C.dtype)
    np.add.at(mean, group, shares[:, None] * C)
    mean /= np.bincount(group, shares)[:, None]
    trial = _normalized(gauge, Factors(merged, mean))
    if problem.objective(trial) <= problem.objective(F):
        return trial
    return F


def _with_atoms(problem: Convex, F: Factors, G: Array, atoms: Factors) -> Factors:
    """Return factors with new atoms against the gradient, at the best of some sizes."""
    pairings = np.einsum("nk,nd,kd->k", atoms.codes, G, atoms.C)
    steep = pairings > problem.alpha
    if not steep.any():
        return F
    added = Factors(atoms.codes[:, steep], atoms.C[steep])
    scale = float(np.linalg.norm(F.dense())) or float(np.linalg.norm(G))
    unit = float(np.linalg.norm(added.dense()))
    size = scale / unit
    objective = problem.objective(F)
    for _ in range(MAX_HALVINGS):
        trial = F + Factors(-size * added.codes, added.C)
        if problem.objective(trial) < objective:
            return trial
        size /= 2
    return F
