"""Two ways to descend in latent rows: L-BFGS on the profiled objective, and the sweeps over pairs of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.labels.latent.problem import SNF, Encoded
from regfactor.solvers.base import Solver

LARGE = 1e20
STRETCH = 15  # a run of more iterations begins like one of fewer, if both are multiples of it


@dataclass
class LatentDescent(Solver):
    """scipy's L-BFGS-B in stretches; between them the loop sees the point, and holes of the inputs are filled anew."""

    max_iter: int = 60
    memory: int = 10

    def check(self, problem: Any) -> None:
        if not isinstance(problem, SNF | Encoded):
            raise UnsupportedProblem(
                f"LatentDescent is for SNF, got {type(problem).__name__}. Use solve().",
            )

    def iterates(self, problem: SNF | Encoded, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield the start, then the end of every stretch, until no step lowers the objective."""
        assert start is not None and start.coefficients is not None
        theta = start.coefficients
        done = 0
        value = problem.value_and_gradient(theta)[0]
        yield Iterate(latent_point(problem, theta), value, steps=0)
        while True:
            refilled = problem.refilled(theta)
            length = max(min(STRETCH, self.max_iter - done), 1)
            found = scipy.optimize.minimize(
                refilled.value_and_gradient,
                theta,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": length, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0},
            )
            settled = not found.fun < (
                value if refilled is problem else refilled.value_and_gradient(theta)[0]
            )
            problem = refilled
            theta = found.x
            value = float(found.fun)
            steps = max(int(found.nit), 1)
            done += steps
            yield Iterate(latent_point(problem, theta), value, settled=settled, steps=steps)


@dataclass
class PairSweeps(Solver):
    """Algorithm 1 of Grabocka et al. (2014): for each column a gradient step over all pairs of rows, then the targets'.

    A sweep over pairs, its weights held, is one gradient step for that column (spec A2). Rates and
    shrinkage are those with which the algorithm descends in F itself: eta_Y/eta_X = mu lambda_W/(M
    lambda_V), and lambda_z shared out among the steps of an epoch. Its own reading of eq. 5 has
    other weights.
    """

    rate: float = 0.01

    def check(self, problem: Any) -> None:
        if not isinstance(problem, SNF):
            raise UnsupportedProblem(
                "solver='paper' moves latent rows freely. Use back_constraint=None.",
            )

    def iterates(self, problem: SNF, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield the start, then the end of every epoch."""
        self.check(problem)
        assert start is not None and start.coefficients is not None
        Z = problem.codes(start.coefficients).copy()
        yield Iterate(
            latent_point(problem, Z.ravel()),
            problem.value_and_gradient(Z.ravel())[0],
            steps=0,
        )
        while True:
            problem = problem.refilled(Z.ravel())
            Z = self.epoch(problem, Z)
            if _is_sound(Z):
                value = problem.value_and_gradient(Z.ravel())[0]
            else:
                value = np.inf
            yield Iterate(latent_point(problem, Z.ravel()), value)

    def epoch(self, problem: SNF, Z: Array) -> Array:
        """Return Z after a sweep for every column of the inputs, each followed by one for the targets."""
        inputs, *targets = problem.views
        M = inputs.targets.shape[1]
        step = self.rate / inputs.ridge
        ratio = sum(view.weight * view.ridge for view in targets) / (M * inputs.ridge)
        for j in range(M):
            column = replace(inputs, targets=inputs.targets[:, [j]])
            Z = Z - step * (
                problem.part(column, Z)[1] + problem.shrinkage(Z)[1] / (M * (1 + ratio))
            )
            if not _is_sound(Z):
                break
            slope = problem.shrinkage(Z)[1] * ratio / (1 + ratio)
            for view in targets:
                slope[view.rows] += problem.part(view, Z)[1]
            Z = Z - step / M * slope
            if not _is_sound(Z):
                break
        return Z


def _is_sound(Z: Array) -> bool:
    """Whether latent rows are numbers whose powers are; a rate that is too large diverges, which the loop reports."""
    return bool(np.abs(Z).max(initial=0.0) < LARGE)


@dataclass(frozen=True, eq=False)
class LatentPoint(FactorPoint):
    """Latent rows as codes, the parameters they come from, and the inputs as they were filled for them."""

    inputs: Array | None = None


def latent_point(problem: SNF | Encoded, theta: Array) -> LatentPoint:
    """Return a point from its parameters."""
    return LatentPoint(
        Factors(problem.codes(theta), np.zeros((problem.dimensions, 0))),
        theta,
        inputs=problem.inputs,
    )
