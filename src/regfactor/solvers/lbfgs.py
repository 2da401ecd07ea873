"""L-BFGS over any problem that gives a value with its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Iterate
from regfactor.core.params import UnsupportedProblem
from regfactor.problems import Factored
from regfactor.solvers.base import Solver
from regfactor.solvers.starts import first_factors


@dataclass
class Lbfgs(Solver):
    """scipy's L-BFGS-B in stretches; the loop sees the point between them."""

    stretch: int = 25
    memory: int = 10
    random_state: int | np.random.Generator | None = None
    sparse = True

    solves = Factored
    from_limits = ("random_state",)

    def check(self, problem: Factored) -> None:
        if not problem.smooth:
            raise UnsupportedProblem(
                "Lbfgs needs a smooth loss and smooth penalties (Free or SquaredL2). Use "
                "Alternating."
            )

    def iterates(
        self,
        problem: Factored,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield after every stretch, until no step lowers the objective."""
        if start is not None:
            F = start.factors
        else:
            F = first_factors(problem, np.random.default_rng(self.random_state))
        packed = problem.pack(F).astype(np.float64)
        yield Iterate(FactorPoint(F), problem.objective(F))
        while True:
            found = scipy.optimize.minimize(
                problem.value_and_gradient,
                packed,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.stretch, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0},
            )
            settled = not found.fun < problem.value_and_gradient(packed)[0]
            packed = found.x
            F = problem.hold(problem.unpack(packed).astype(problem.data.dtype))
            yield Iterate(
                FactorPoint(F),
                problem.objective(F),
                settled=settled,
                steps=max(int(found.nit), 1),
            )
