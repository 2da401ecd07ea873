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
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import KL, Squared
from regfactor.penalties import NonNegative, SquaredL2
from regfactor.problems import Factored
from regfactor.solvers.base import Solver
from regfactor.solvers.groups import group_constants, has_constants
from regfactor.solvers.newton import is_newtonian, newton_sweeps
from regfactor.solvers.starts import first_factors, first_point
from regfactor.solvers.updates import update_codes, update_components

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
        if not is_newtonian(problem) and (
            problem.design is not None or problem.extra_components is not None
        ):
            raise UnsupportedProblem(
                "Free terms next to the factors need smooth elementwise losses and SquaredL2 or "
                "Free."
            )

    def iterates(
        self,
        problem: Factored,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield after every sweep, or after a few where they are cheap and uneven."""
        if is_newtonian(problem):
            yield from newton_sweeps(problem, start or first_point(problem))
        if start is not None:
            F = start.factors
        else:
            F = first_factors(problem, np.random.default_rng(self.random_state))
        if _leads(problem):
            swept = led_sweeps(problem, F)
        else:
            swept = sweeps(problem, F)
        yield next(swept)
        while True:
            few = list(itertools.islice(swept, SWEEPS_PER_ITERATE if _leads(problem) else 1))
            yield replace(few[-1], steps=sum(it.steps for it in few))


def sweeps(problem: Factored, F: Factors) -> Iterator[Iterate[FactorPoint]]:
    """Yield the first factors, then those after every sweep."""
    while True:
        yield Iterate(FactorPoint(F), problem.objective(F))
        F = sweep(problem, F)


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
        new = sweep(problem, _ahead(F, old, lead))
        steps = 1
        value = problem.objective(new)
        if not value <= objective:
            most = lead
            lead = lead / LEAD_DECAY
            new = sweep(problem, F)
            steps = 2
            value = problem.objective(new)
        lead = min(most, LEAD_GROWTH * lead)
        most = min(1.0, LEAD_GROWTH * most)
        old = F
        F = new
        objective = value


def sweep(problem: Factored, F: Factors) -> Factors:
    """Improve the components, then the codes, which fit the components that are returned."""
    alpha = problem.alpha
    if has_constants(problem):
        components = group_constants(problem, F.codes, F.C)
    else:
        components = update_components(problem.weighted, F.codes, F.C, problem.on_components, alpha)
    F = problem.hold(Factors(F.codes, components))
    if _balanced(problem):
        F = rebalance(F)
    codes = update_codes(problem.data, F.codes, F.C, problem.on_codes, alpha)
    return problem.hold(Factors(codes, F.C))


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
    return isinstance(problem.on_codes, NonNegative) and isinstance(
        problem.on_components,
        NonNegative,
    )


def _ahead(F: Factors, old: Factors, lead: float) -> Factors:
    """Continue the last change; positive numbers stay positive.

    A predictor of zero can have an infinite loss.
    """
    pairs = ((F.codes, old.codes), (F.C, old.C))
    codes, C = (np.maximum(new + lead * (new - before), new / 10) for new, before in pairs)
    return Factors(codes, C)
