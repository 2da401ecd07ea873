"""L-BFGS over the components of the joint criterion of reverse prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.labels.reverse.joint_criterion import JointReverse
from regfactor.labels.reverse.problem import ReversePoint
from regfactor.solvers.base import Solver


@dataclass
class JointDescent(Solver):
    """scipy's L-BFGS-B in stretches, from the supervised components."""

    stretch: int = 25

    solves = JointReverse

    def iterates(
        self,
        problem: JointReverse,
        start: ReversePoint | None,
    ) -> Iterator[Iterate[ReversePoint]]:
        """Yield after every stretch, until no step lowers the criterion."""
        point = problem.supervised if start is None else start
        U = point.components
        value = problem.value_and_gradient(U)[0]
        yield Iterate(problem.completed(U), value)
        scale = max(float(np.abs(U).max()), np.finfo(float).tiny)

        def evaluate(flat: Array) -> tuple[float, Array]:
            found, gradient = problem.value_and_gradient(scale * flat.reshape(U.shape))
            return found, scale * gradient.ravel()

        packed = U.ravel() / scale
        while True:
            found = scipy.optimize.minimize(
                evaluate,
                packed,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.stretch, "ftol": 0.0, "gtol": 0.0},
            )
            settled = not found.fun < value
            if not settled:
                packed = found.x
                value = float(found.fun)
            point = problem.completed(scale * packed.reshape(U.shape))
            yield Iterate(point, value, settled=settled, steps=max(int(found.nit), 1))
