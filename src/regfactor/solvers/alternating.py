"""Alternating descent on the factors.

Codes, then components, then rebalance (thesis, algorithm 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.losses import KL, Squared
from regfactor.penalties import NonNegative, SquaredL2
from regfactor.problems import Factored
from regfactor.solvers.base import Solver
from regfactor.solvers.groups import group_constants, has_constants
from regfactor.solvers.newton import is_newtonian, newton_sweeps
from regfactor.solvers.nonnegative import improve, side_of_codes
from regfactor.solvers.starts import first_local, first_point
from regfactor.solvers.updates import (
    newton_columns,
    update_codes,
    update_components,
    update_held_codes,
    update_held_components,
)

SWEEPS_PER_ITERATE = 4  # over non-negative factors
# share of the last change by which a sweep starts ahead; how it grows and falls
FIRST_LEAD = 0.5
LEAD_GROWTH = 1.05
LEAD_DECAY = 1.5


@dataclass
class Alternating(Solver):
    """Each half sweep improves one factor.

    With hard codes this is k-means, with ridges alternating least squares.
    """

    random_state: int | np.random.Generator | None = None
    sparse = True

    solves = Factored
    from_limits = ("random_state",)

    def check(self, problem: Factored) -> None:
        if problem.data.layout.sparse and not _by_entries(problem):
            raise UnsupportedProblem(
                "On a sparse table factors must be free, under SquaredL2, or (with the losses "
                "squared and kl) NonNegative; give it as a dense one with NaN."
            )
        if is_newtonian(problem):
            return
        if problem.extra_components is not None:
            raise UnsupportedProblem(
                "Extra components need smooth elementwise losses and SquaredL2 or Free."
            )
        data = problem.data
        if problem.design is not None and (data.rowwise or not data.smooth or not data.unbounded):
            raise UnsupportedProblem(
                "An intercept next to these factors needs smooth losses of single entries on the "
                "whole line: leave fit_intercept=False, or use SquaredL2 or Free on both factors."
            )

    def iterates(
        self,
        problem: Factored,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield after every sweep, or after a few where they are cheap and uneven."""
        if is_newtonian(problem):
            yield from newton_sweeps(problem, start or first_point(problem))
        point = start
        if point is None:
            point = first_local(problem, np.random.default_rng(self.random_state))
        if _leads(problem):
            swept = led_sweeps(problem, point.factors)
        else:
            swept = sweeps(problem, point)
        yield next(swept)
        while True:
            few = list(itertools.islice(swept, SWEEPS_PER_ITERATE if _leads(problem) else 1))
            yield replace(few[-1], steps=sum(it.steps for it in few))


def sweeps(problem: Factored, point: FactorPoint) -> Iterator[Iterate[FactorPoint]]:
    """Yield the first point, then those after every sweep."""
    F = point.factors
    design = problem.design
    B = None
    if design is not None:
        B = point.coefficients
        if B is None:
            B = np.zeros((design.D.shape[1], F.shape[1]), problem.data.dtype)
    while True:
        yield Iterate(FactorPoint(F, B), problem.objective(F, B))
        if design is None or B is None:
            F = sweep(problem, F)
        else:
            given_factors = problem.weighted.shifted(F.codes, F.C)
            B = newton_columns(given_factors, design.D, B, design.strengths)
            shifted = replace(problem, data=problem.data.shifted(design.D, B), design=None)
            F = sweep(shifted, F)


def led_sweeps(problem: Factored, F: Factors) -> Iterator[Iterate[FactorPoint]]:
    """Yield the same, but sweep from ahead of where the last sweep led (Ang & Gillis 2019).

    A sweep that ends worse is done again without the lead, which is then shortened.
    """
    old = F
    objective = problem.objective(F)
    steps = 1
    lead = FIRST_LEAD
    most = 1.0
    while True:
        yield Iterate(FactorPoint(F), objective, steps=steps)
        new = non_negative_sweep(problem, _ahead(F, old, lead))
        steps = 1
        if not new.objective <= objective:
            most = lead
            lead = lead / LEAD_DECAY
            new = non_negative_sweep(problem, F)
            steps = 2
        lead = min(most, LEAD_GROWTH * lead)
        most = min(1.0, LEAD_GROWTH * most)
        old = F
        F = new.factors
        objective = new.objective


@frozen
class Swept:
    """Factors after a sweep, and their objective."""

    factors: Factors
    objective: float


def non_negative_sweep(problem: Factored, F: Factors) -> Swept:
    """Improve non-negative components, then codes, whose regression may know the objective."""
    F = Factors(F.codes, _improved_components(problem, F))
    side = side_of_codes(problem.data, F.C)
    if side is None:
        F = Factors(_improved_codes(problem, F), F.C)
        return Swept(F, problem.objective(F))
    B = improve(side, F.codes.T)
    F = Factors(B.T, F.C)
    loss = None
    if problem.row_weights is None:
        loss = side.loss(B)
    if loss is None:
        loss = problem.objective(F)
    return Swept(F, loss)


def sweep(problem: Factored, F: Factors) -> Factors:
    """Improve the components, then the codes, which fit the components that are returned."""
    F = Factors(F.codes, _improved_components(problem, F))
    if _balanced(problem):
        F = rebalance(F)
    return Factors(_improved_codes(problem, F), F.C)


def _improved_components(problem: Factored, F: Factors) -> Array:
    if has_constants(problem):
        return group_constants(problem, F.codes, F.C)
    update = (problem.weighted, F.codes, F.C, problem.on_components, problem.alpha)
    if problem.known_components is None:
        return update_components(*update)
    return update_held_components(*update, problem.known_components)


def _improved_codes(problem: Factored, F: Factors) -> Array:
    update = (problem.data, F.codes, F.C, problem.on_codes, problem.alpha)
    if problem.known_codes is None:
        return update_codes(*update)
    return update_held_codes(*update, problem.known_codes)


def _balanced(problem: Factored) -> bool:
    """Whether rebalancing the factors keeps Z and can only lower the penalty."""
    free = (
        problem.known_codes is None
        and problem.known_components is None
        and problem.row_weights is None
    )
    return (
        free
        and isinstance(problem.on_codes, SquaredL2)
        and isinstance(problem.on_components, SquaredL2)
    )


def _by_entries(problem: Factored) -> bool:
    """Whether both updates need the observed entries alone."""
    positive = all(isinstance(t.loss, Squared | KL) for t in problem.data.terms)
    penalties = (problem.on_codes, problem.on_components)
    return all(p.ridge is not None or (positive and isinstance(p, NonNegative)) for p in penalties)


def _leads(problem: Factored) -> bool:
    """Whether sweeps gain from a lead: those over non-negative factors are cheap and many."""
    free = problem.known_codes is None and problem.known_components is None
    penalties = (problem.on_codes, problem.on_components)
    positive = all(isinstance(penalty, NonNegative) for penalty in penalties)
    return positive and free and problem.design is None


def _ahead(F: Factors, old: Factors, lead: float) -> Factors:
    """Continue the last change; positive numbers stay positive.

    A predictor of zero can have an infinite loss.
    """
    pairs = ((F.codes, old.codes), (F.C, old.C))
    codes, C = (np.maximum(new + lead * (new - before), new / 10) for new, before in pairs)
    return Factors(codes, C)
