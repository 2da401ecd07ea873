"""Alternating descent on the factors: codes, then components, then rebalance (thesis, algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor._params import UnsupportedProblem
from regfactor.factors import Factors, Point, rebalance
from regfactor.loop import Iterate
from regfactor.penalties import SquaredL2
from regfactor.problems import Factored
from regfactor.solvers.base import Solver
from regfactor.solvers.starts import first_factors
from regfactor.solvers.updates import update_codes, update_components


@dataclass
class Alternating(Solver):
    """Each half sweep improves one factor; with hard codes this is k-means, with ridges alternating least squares."""

    random_state: int | np.random.Generator | None = None

    def check(self, problem: Factored) -> None:
        if not isinstance(problem, Factored):
            raise UnsupportedProblem("Alternating is for problems of fixed rank. Use Admm, or give a rank.")

    def iterates(self, problem: Factored, start: Point | None) -> Iterator[Iterate]:
        """Yield after every sweep."""
        F = start.factors if start is not None else first_factors(problem, np.random.default_rng(self.random_state))
        while True:
            yield Iterate(Point(F), problem.objective(F))
            F = sweep(problem, F)


def sweep(problem: Factored, F: Factors) -> Factors:
    """Improve the components, then the codes, which therefore fit the components that are returned."""
    alpha = problem.alpha
    components = update_components(problem.weighted, F.codes, F.C, problem.on_components, alpha)
    F = problem.hold(Factors(F.codes, components))
    if _balanced(problem):
        F = rebalance(F)
    codes = update_codes(problem.data, F.codes, F.C, problem.on_codes, alpha)
    return problem.hold(Factors(codes, F.C))


def _balanced(problem: Factored) -> bool:
    """Whether rebalancing the factors keeps Z and can only lower the penalty."""
    free = problem.known_codes is None and problem.known_components is None and problem.row_weights is None
    return free and isinstance(problem.on_codes, SquaredL2) and isinstance(problem.on_components, SquaredL2)
