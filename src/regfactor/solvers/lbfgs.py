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
from regfactor.solvers.starts import first_local


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
                "Lbfgs needs a smooth loss and smooth penalties (Free, SquaredL2 or "
                "GraphLaplacian). Use Alternating."
            )
        if problem.extra_components is not None:
            raise UnsupportedProblem("Lbfgs has no codes of extra components. Use Alternating.")

    def iterates(
        self,
        problem: Factored,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield after every stretch, until no step lowers the objective."""
        point = start
        if point is None:
            point = first_local(problem, np.random.default_rng(self.random_state))
        packed = problem.pack(point).astype(np.float64)
        yield Iterate(point, problem.objective(point.factors, point.coefficients))
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
            point = problem.unpack(packed).astype(problem.data.dtype)
            F = problem.hold(point.factors)
            yield Iterate(
                FactorPoint(F, point.coefficients),
                problem.objective(F, point.coefficients),
                settled=settled,
                steps=max(int(found.nit), 1),
            )
