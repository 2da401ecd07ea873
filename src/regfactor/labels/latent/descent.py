"""Two solvers of SNF: L-BFGS on the profiled objective, and the paper's sweeps over pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.labels.latent.problem import SNF, LatentPoint
from regfactor.solvers.base import Solver

DIVERGED_SIZE = 1e20  # of latent numbers, whose powers would overflow
STRETCH = 15  # a run of more iterations begins like one of fewer, if both are multiples of it


@dataclass
class LatentDescent(Solver):
    """scipy's L-BFGS-B in stretches, between which missing inputs are completed anew."""

    solves = SNF
    from_limits = ("max_iter",)
    max_iter: int = 60
    memory: int = 10

    def iterates(self, problem: SNF, start: LatentPoint | None) -> Iterator[Iterate[LatentPoint]]:
        """Yield the start, then the end of every stretch, until no step lowers the objective."""
        parameters = _first_parameters(problem, start)
        value, _ = problem.value_and_gradient(parameters)
        yield Iterate(problem.point(parameters), value, steps=0)
        done = 0
        while True:
            completed = problem.completed(parameters)
            if completed is not problem:
                problem = completed
                value, _ = problem.value_and_gradient(parameters)
            length = max(min(STRETCH, self.max_iter - done), 1)
            found = scipy.optimize.minimize(
                problem.value_and_gradient,
                parameters,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": length, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0},
            )
            settled = not found.fun < value
            parameters = found.x
            value = float(found.fun)
            steps = max(int(found.nit), 1)
            done += steps
            yield Iterate(problem.point(parameters), value, settled=settled, steps=steps)


@dataclass
class PairSweeps(Solver):
    """Algorithm 1 of Grabocka et al. (2014): gradient steps for each column, then for the targets.

    A sweep over pairs of rows, its weights held, is one gradient step for a column. Rates
    and shrinkage are those with which the algorithm descends in F itself:
    eta_Y/eta_X = mu lambda_W/(M lambda_V), and lambda_z is split among the steps of an epoch. The
    paper's own reading of eq. 5 has other weights.
    """

    solves = SNF
    rate: float = 0.01

    def check(self, problem: Any) -> None:
        if problem.basis is not None:
            raise UnsupportedProblem(
                "solver='paper' moves latent rows freely. Use back_constraint=None."
            )

    def iterates(self, problem: SNF, start: LatentPoint | None) -> Iterator[Iterate[LatentPoint]]:
        """Yield the start, then the end of every epoch."""
        Z = problem.rows(_first_parameters(problem, start))
        value, _ = problem.value_and_gradient(Z)
        yield Iterate(problem.point(Z.ravel()), value, steps=0)
        while True:
            problem = problem.completed(Z)
            Z = self.epoch(problem, Z)
            value = np.inf
            if _is_bounded(Z):
                value, _ = problem.value_and_gradient(Z)
            yield Iterate(problem.point(Z.ravel()), value)

    def epoch(self, problem: SNF, Z: Array) -> Array:
        """Return Z after a sweep for every column of the inputs, each followed by the targets."""
        inputs, *targets = problem.views
        M = inputs.targets.shape[1]
        step = self.rate / inputs.ridge
        ratio = sum(view.weight * view.ridge for view in targets) / (M * inputs.ridge)
        for j in range(M):
            column = replace(inputs, targets=inputs.targets[:, [j]])
            slope = problem.shrinkage(Z)[1] / (M * (1 + ratio))
            Z = Z - step * (slope + problem.view_part(column, Z)[1])
            if not _is_bounded(Z):
                break
            slope = problem.shrinkage(Z)[1] * ratio / (1 + ratio)
            for view in targets:
                slope[view.rows] += problem.view_part(view, Z)[1]
            Z = Z - step / M * slope
            if not _is_bounded(Z):
                break
        return Z


def _first_parameters(problem: SNF, start: LatentPoint | None) -> Array:
    if start is None:
        start = problem.start(np.random.RandomState(0))
    return start.parameters


def _is_bounded(Z: Array) -> bool:
    """Return whether powers of latent rows are finite; too large a rate diverges."""
    return bool(np.abs(Z).max(initial=0.0) < DIVERGED_SIZE)
