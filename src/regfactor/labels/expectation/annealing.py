"""Deterministic annealing: margins and label expectations in turn while T falls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from regfactor.core.loop import Iterate
from regfactor.core.params import Array, frozen
from regfactor.labels.expectation.label_expectations import (
    ExpectedLabels,
    LabelDual,
    expected_labels,
)
from regfactor.labels.expectation.margin_newton import (
    CenteredRows,
    LinearDecision,
    minimize_margins,
)
from regfactor.labels.expectation.problem import (
    Expectation,
    ExpectationPoint,
    MarginWeights,
    entropies,
)
from regfactor.solvers.base import Solver

LAST_TEMPERATURE = 5e-3  # times C': below it labels no longer change
COOLING = 1.5
OFFSET_EIGENVALUE = 0.5  # of the offset while annealing, in units of the kernel's largest
MAX_TURNS = 10  # at one temperature
STILL = 1e-3  # mean change of p at which a temperature is done
DECIDED = 1e-3  # mean entropy at which labels are final
WARM_ACCURACY = 1e-2  # of f while p still changes
WARM_LABEL_ACCURACY = 1e-6  # of expectations while p still changes


@frozen
class State:
    """The columns of f, the labels found from them, and the weights of margins under these."""

    decisions: list[LinearDecision]
    labels: ExpectedLabels
    weights: MarginWeights
    offset_ridge: float
    stage: int = -1
    info: dict[str, float] = field(default_factory=dict)

    @property
    def values(self) -> Array:
        """f of every row and column."""
        return np.column_stack([decision.f for decision in self.decisions])


@dataclass
class Annealing(Solver):
    """Yields a point after each turn of both steps; a stage is a temperature, the last one exact.

    tol is the accuracy of the last f, relative to |w|. Without `cooling` it starts at the last
    temperature. A start is not used: at the first temperature there is one solution.
    """

    solves = Expectation
    from_limits = ("tol",)
    ends_itself = True
    tol: float = 1e-6
    cooling: bool = True

    def temperatures(self, problem: Expectation) -> list[float]:
        """Return the temperatures of all stages; none if no unlabeled row counts."""
        if not problem.uses_unlabeled:
            return []
        first = problem.first_temperature
        last = LAST_TEMPERATURE * problem.C_unlabeled
        count = int(np.ceil(np.log(first / last) / np.log(COOLING)))
        falling = [first / COOLING**i for i in range(count)]
        if self.cooling:
            return falling
        return falling[-1:]

    def iterates(
        self,
        problem: Expectation,
        start: ExpectationPoint | None,
    ) -> Iterator[Iterate[ExpectationPoint]]:
        rows = CenteredRows(problem.X, problem.mean)
        state = _first_state(problem, offset_ridge(problem, rows))
        for stage, T in enumerate(self.temperatures(problem)):
            state = replace(state, stage=stage)
            for turn in range(MAX_TURNS):
                state = _turned(problem, rows, state, T, turn)
                yield _iterate(problem, state)
                if state.info["moved"] < STILL:
                    break
            if state.info["entropy"] < DECIDED:
                break
        yield _iterate(problem, _finished(problem, rows, state, self.tol))


def first_labels(problem: Expectation) -> ExpectedLabels:
    """Return the labels at the first temperature for f = 0, which follow from statements alone."""
    gains = np.zeros((len(problem.free), problem.columns))
    multipliers = np.zeros(len(problem.statements))
    if not problem.uses_unlabeled:
        return ExpectedLabels(multipliers, gains)
    T = problem.first_temperature
    dual = LabelDual(gains, problem.free_weights, problem.statements, T)
    return expected_labels(dual, multipliers)


def offset_ridge(problem: Expectation, rows: CenteredRows) -> float:
    """Return the ridge of the offset while annealing, n / (nu k1).

    k1 is the largest eigenvalue of the kernel, nu is OFFSET_EIGENVALUE. A free offset responds to p
    undamped: all rows lean to one side already at the upper limit of critical temperatures, before
    any direction of the kernel separates them, unless a balance is stated. A ridge makes the
    constant one more feature, here with the eigenvalue nu k1, so that the kernel's first direction
    comes first.
    """
    if not len(problem.free):
        return 0.0
    largest = rows.largest_eigenvalue(problem.weights)
    if largest > 0:
        return float(problem.weights.sum()) / (OFFSET_EIGENVALUE * largest)
    return 0.0


def _first_state(problem: Expectation, ridge: float) -> State:
    decisions = [LinearDecision.zero(*problem.X.shape)] * problem.columns
    labels = first_labels(problem)
    info = {"temperature": problem.first_temperature, "entropy": _mean_entropy(problem, labels.p)}
    return State(decisions, labels, problem.margin_weights(labels.p), ridge, info=info)


def _turned(
    problem: Expectation,
    rows: CenteredRows,
    state: State,
    T: float,
    turn: int,
) -> State:
    """Return the state after new margins and new labels."""
    state = replace(state, decisions=_fitted_columns(problem, rows, state, WARM_ACCURACY))
    gains = problem.gains(state.values)
    dual = LabelDual(gains, problem.free_weights, problem.statements, T)
    labels = expected_labels(dual, state.labels.multipliers, WARM_LABEL_ACCURACY)
    changes = np.abs(labels.p - state.labels.p).sum(axis=1)
    if problem.columns > 1:  # what one class gains another loses
        changes = changes / 2
    moved = float(problem.free_weights @ changes / problem.free_weights.sum())
    entropy = _mean_entropy(problem, labels.p)
    info = {"temperature": T, "entropy": entropy, "turn": turn, "moved": moved}
    return replace(state, labels=labels, weights=problem.margin_weights(labels.p), info=info)


def _finished(problem: Expectation, rows: CenteredRows, state: State, tol: float) -> State:
    """Return the state with exact margins for the last labels, and a free offset."""
    state = replace(state, stage=state.stage + 1, offset_ridge=0.0)
    exact = []
    for column in _fitted_columns(problem, rows, state, tol):
        f = rows.times(column.w) + column.b  # without the rounding errors that were summed up
        exact.append(replace(column, f=f))
    info = {**state.info, "turn": 0, "moved": 0.0}
    return replace(state, decisions=exact, info=info)


def _fitted_columns(
    problem: Expectation,
    rows: CenteredRows,
    state: State,
    tol: float,
) -> list[LinearDecision]:
    """Return every column of f at its minimum: given p, they are independent."""
    return [
        minimize_margins(
            rows,
            problem.margin,
            state.weights.column(c),
            decision,
            tol,
            state.offset_ridge,
        )
        for c, decision in enumerate(state.decisions)
    ]


def _mean_entropy(problem: Expectation, p: Array) -> float:
    if not len(problem.free):
        return 0.0
    return float(problem.free_weights @ entropies(p) / problem.free_weights.sum())


def _iterate(problem: Expectation, state: State) -> Iterate[ExpectationPoint]:
    W = np.column_stack([decision.w for decision in state.decisions])
    b = np.array([decision.b for decision in state.decisions])
    labels = state.labels
    point = ExpectationPoint(
        W,
        b - problem.mean @ W,
        state.values,
        labels.p,
        labels.multipliers,
    )
    heat = state.info["temperature"] * state.info["entropy"] * float(problem.free_weights.sum())
    objective = problem.objective(point, state.weights, heat)
    objective += state.offset_ridge * float(b @ b) / 2
    return Iterate(point, objective, stage=state.stage, info=state.info)
