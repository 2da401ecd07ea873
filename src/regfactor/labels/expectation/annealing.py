"""Deterministic annealing: f-steps and p-steps in turn while the temperature falls (spec B3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.labels.expectation.fstep import Machine, Table, fitted
from regfactor.labels.expectation.problem import Expectation, entropies
from regfactor.labels.expectation.pstep import Dual, expected_labels
from regfactor.solvers.base import Solver

COLDEST = 5e-3  # times C': below nothing moves
COOLING = 1.5
LATER = 0.5  # eigenvalue of the offset while annealing, in units of the kernel's largest
TURNS = 10  # of f-step and p-step at one temperature
STILL = 1e-3  # mean change of p at which a temperature is done
DECIDED = 1e-3  # mean entropy at which labels are
WHILE_WARM = 1e-2  # accuracy of f-steps while p still moves
SHARES_WHILE_WARM = 1e-6  # accuracy of expectations while p still moves


@dataclass(frozen=True, eq=False)
class Expected(FactorPoint):
    """f = X W + b as factors X, W and the offsets `free`; multipliers as the dual; p of the unlabeled rows."""

    p: Array | None = None
    values: Array | None = None  # X W + b


@dataclass
class Annealing(Solver):
    """Yields a point after every f-step and p-step; a stage is a temperature, the last one is the exact f-step.

    tol is the accuracy of the last f-step, relative to |w|. Without `cooling` it begins at the last
    temperature.
    """

    tol: float = 1e-6
    cooling: bool = True

    sparse = True

    def check(self, problem: Expectation) -> None:
        if not isinstance(problem, Expectation):
            raise UnsupportedProblem(
                f"Annealing needs an Expectation problem, got {type(problem).__name__}.",
            )

    def temperatures(self, problem: Expectation) -> list[float]:
        """Return where it stops on its way down: nowhere, if no unlabeled row counts."""
        last = COLDEST * problem.C_unlabeled
        if not len(problem.free) or last == 0:
            return []
        first = problem.first_temperature
        count = int(np.ceil(np.log(first / last) / np.log(COOLING)))
        falling = [first / COOLING**i for i in range(count)]
        if self.cooling:
            return falling
        return falling[-1:]

    def iterates(
        self, problem: Expectation, start: FactorPoint | None = None
    ) -> Iterator[Iterate[Any]]:
        table = Table(problem.X, problem.mean)
        stated = problem.statements
        ridge = offset_ridge(problem, table)
        n, d = problem.X.shape
        machines = [Machine.zero(n, d)] * problem.columns
        T = problem.first_temperature
        stage = -1
        p, gamma = first_labels(problem)
        pulls = problem.pulls(p)
        for stage, T in enumerate(self.temperatures(problem)):
            for turn in range(TURNS):
                machines = _columns(problem, table, pulls, machines, (WHILE_WARM, ridge))
                F = np.column_stack([m.f for m in machines])
                dual = Dual(problem.gains(F), problem.free_weights, stated, T)
                last = p
                (p, gamma) = expected_labels(dual, gamma, SHARES_WHILE_WARM)
                pulls = problem.pulls(p)
                moved = problem.mean_over(
                    np.abs(p - last).sum(axis=1) / (1 if p.shape[1] == 1 else 2),
                )
                it = _iterate(
                    problem,
                    machines,
                    (p, gamma, pulls),
                    (T, ridge),
                    stage,
                    {"turn": turn, "moved": moved},
                )
                yield it
                if moved < STILL:
                    break
            if it.info["entropy"] < DECIDED:
                break
        machines = _columns(problem, table, pulls, machines, (self.tol, 0.0))
        exact = [
            Machine(m.w, m.b, table.times(m.w) + m.b) for m in machines
        ]  # without what rounding summed up
        yield _iterate(
            problem,
            exact,
            (p, gamma, pulls),
            (T, 0.0),
            stage + 1,
            {"turn": 0, "moved": 0.0},
        )


def first_labels(problem: Expectation) -> tuple[Array, Array]:
    """Return p and the multipliers at the first temperature for f = 0: what the statements alone say."""
    gains = np.zeros((len(problem.free), problem.columns))
    gamma = np.zeros(len(problem.statements))
    if not len(problem.free) or problem.C_unlabeled == 0:
        return gains + (0.5 if problem.columns == 1 else 1 / problem.n_classes), gamma
    dual = Dual(gains, problem.free_weights, problem.statements, problem.first_temperature)
    return expected_labels(dual, gamma)


def _columns(
    problem: Expectation,
    table: Table,
    pulls: tuple[Array, Array],
    machines: list[Machine],
    how: tuple[float, float],
) -> list[Machine]:
    """Return the f-step of every column, with an accuracy and a ridge of the offset; given p, columns do not meet."""
    plus, minus = pulls
    return [
        fitted(
            table,
            problem.margin,
            (np.ascontiguousarray(plus[:, c]), np.ascontiguousarray(minus[:, c])),
            m,
            *how,
        )
        for c, m in enumerate(machines)
    ]


def offset_ridge(problem: Expectation, table: Table) -> float:
    """Return the ridge of the offset while annealing: n / (LATER k1), k1 the largest eigenvalue of the kernel.

    A free offset responds to p undamped: all rows lean to one side already at the upper limit of
    critical temperatures, before any direction of the kernel parts them, unless a balance is
    stated. A ridge 1/nu makes the constant one more feature, with the eigenvalue nu n; here that is
    LATER k1, so that the kernel's first direction comes first.
    """
    if not len(problem.free):
        return 0.0
    top = table.top(problem.weights)
    if top > 0:
        return float(problem.weights.sum()) / (LATER * top)
    return 0.0


def _iterate(
    problem: Expectation,
    machines: list[Machine],
    expected: tuple[Array, Array, tuple[Array, Array]],
    at: tuple[float, float],
    stage: int,
    info: dict[str, float],
) -> Iterate[Any]:
    W, F = (np.column_stack([getattr(m, name) for m in machines]) for name in ("w", "f"))
    (p, gamma, pulls) = expected
    (T, ridge) = at
    b = np.array([m.b for m in machines])
    total = float(problem.free_weights @ entropies(p))
    told = {"temperature": T, "entropy": total / (float(problem.free_weights.sum()) or 1.0), **info}
    point = Expected(Factors(problem.X, W), b - problem.mean @ W, gamma, p, F)
    objective = problem.objective(F, W, p, pulls, T * total) + ridge * float(b @ b) / 2
    return Iterate(point, objective, stage=stage, info=told)
