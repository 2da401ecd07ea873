"""Two views: a search over eta around a solver for the trace norm at eta."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.penalties import SquaredL2, TwoView
from regfactor.problems import Bound, Convex
from regfactor.problems.design import shifted
from regfactor.solvers.admm import Admm, Splitting
from regfactor.solvers.base import Solver
from regfactor.solvers.factored_fista import Descent, FactoredFista, is_mostly_missing
from regfactor.solvers.fista import Fista, FistaState
from regfactor.solvers.updates import update_components

MAX_LOGIT = 30.0  # logit of the eta nearest to an end
MIN_BRACKET = 1e-9
MAX_BLOCKED_MOVES = 3  # moves that an end of the bracket stops in turn, after which it is given up
# entries of a table from which on factors are the fastest where the prox of the loss is an
# iteration
LARGE_TABLE = 10_000
INNER_SHARE = 0.5  # of the tolerance that is left to the inner problem; the rest is for eta
# a view all of whose components are shorter than their bound by this share is bounded by nothing
SLACK_SHARE = 1e-3
SLACK_RIDGE = 1e-6  # of the strength, on components that nothing bounds


@dataclass
class EtaSearch(Solver):
    """max over eta of min over Z of L(Z) + alpha |Z E^-1|_tr: concave in eta, convex in Z.

    Any inner dual bound is a bound of the whole, since the inner norm is nowhere larger than the
    two-view norm.
    """

    relaxation: float = 1.6
    every: int = 5
    tol: float = 1e-4
    random_state: Any = 0
    sparse = True

    solves = Convex
    from_limits = ("tol", "random_state")

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, TwoView):
            raise UnsupportedProblem(
                f"EtaSearch is for the gauge TwoView, got {problem.gauge}. Use Admm."
            )
        inner = replace(problem, gauge=problem.gauge.at(0.5, problem.shape[1]))
        solver: Solver = Admm()
        if problem.data.layout.sparse:
            solver = FactoredFista()
        elif not problem.data.proximable:
            solver = Fista()
        solver.check(inner)

    def prepare(self, problem: Convex) -> Convex:
        """Return a large problem with many missing entries on its observed entries alone."""
        assert isinstance(problem.gauge, TwoView)
        at_half = replace(problem, gauge=problem.gauge.at(0.5, problem.shape[1]))
        if is_mostly_missing(problem) and FactoredFista().accepts(at_half):
            return problem.compact
        return problem

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few inner steps the recovered two-view factors and the inner bound."""
        gauge = problem.gauge
        d = problem.shape[1]
        assert isinstance(gauge, TwoView)
        eta = 0.5
        if start is not None and start.factors.rank:
            eta = gauge.eta(start.factors)
        search = _Bracket(eta)
        inner = self._inner(replace(problem, gauge=gauge.at(search.eta, d)), start)
        least = np.inf
        while True:
            tolerance = _InnerTolerance(search.patience)
            while True:
                found = inner.examine()
                F = _recovered(gauge, found.factors, inner.state.e, search.eta).astype(
                    problem.data.dtype
                )
                objective = problem.objective(F, found.coefficients)
                least = min(least, objective)
                yield Iterate(
                    FactorPoint(F, found.coefficients, found.dual),
                    objective,
                    found.bound.value,
                    found.bound.rigorous,
                    steps=found.steps,
                    info={"eta": search.eta},
                )
                if tolerance.is_met(found, least, self.tol):
                    break
            search.move(*_view_shares(found.factors, gauge.n_first))
            inner.state.rescale(replace(problem, gauge=gauge.at(search.eta, d)))

    def _inner(self, problem: Convex, start: FactorPoint | None) -> _Inner:
        """Return the solver at a fixed eta: in factors, by splitting, or by proximal steps."""
        if _in_factors(problem):
            solver = FactoredFista(INNER_SHARE * self.tol, random_state=self.random_state)
            return _InFactors(Descent(problem, start, solver), solver.every)
        start = start or problem.null
        if problem.data.proximable:
            return _Split(Splitting(problem, start, self.relaxation), self.every)
        return _Steps(FistaState(problem, start), self.every)


@frozen
class _Found:
    """An inner solution: factors of Z E^-1 with orthonormal components, objective and bound."""

    factors: Factors
    coefficients: Array | None
    dual: Array | None
    objective: float
    bound: Bound
    steps: int


@frozen
class _Inner(abc.ABC):
    """A solver of the trace norm at a fixed eta, whose scale e can be changed under way."""

    state: Splitting | FistaState | Descent
    every: int

    @abc.abstractmethod
    def examine(self) -> _Found:
        """Take some steps and return what was found."""

    def _found(self, at: Iterate[FactorPoint]) -> _Found:
        """Return an iterate in units of the scale."""
        point = at.point
        return _Found(
            Factors(point.factors.Phi, point.factors.C / self.state.e),
            point.coefficients,
            point.dual,
            at.objective,
            Bound(at.bound, at.rigorous),
            at.steps,
        )


class _Split(_Inner):
    """By ADMM."""

    state: Splitting

    def examine(self) -> _Found:
        # the first examination is the most expensive, and never the last one: it is left out
        rounds = 1 if self.state.examined else 2
        for _ in range(rounds):
            self.state.advance(self.every)
        F, B, objective, bound = self.state.examine_both()
        Q = Factors(F.Phi, F.C / self.state.e)
        return _Found(Q, B, self.state.dual, objective, bound, rounds * self.every)


class _Steps(_Inner):
    """By proximal gradient steps."""

    state: FistaState

    def examine(self) -> _Found:
        self.state.advance(self.every)
        return self._found(self.state.examine(self.every))


class _InFactors(_Inner):
    """By proximal steps on low rank + sparse."""

    state: Descent

    def examine(self) -> _Found:
        for _ in range(self.every):
            self.state.step()
        return self._found(self.state.examine())


class _InnerTolerance:
    """Decides when an inner problem is solved well enough to move eta.

    It is when the error of the inner problem is small relative to that of eta. The latter is
    counted from the least objective so far: right after a move the current one is far too large.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.bound = -np.inf
        self.last = np.inf

    def is_met(self, found: _Found, objective: float, tol: float) -> bool:
        """Judge what was found; without a bound, by the last decrease of the inner objective."""
        self.bound = max(self.bound, found.bound.value)
        of_eta = objective - found.objective
        whole = tol * abs(objective)
        matters = of_eta > (1 - INNER_SHARE) * whole
        # which a solver in factors never proves closer than its share of the tolerance
        if np.isfinite(self.bound):
            provable = INNER_SHARE * whole if matters else 0.0
            return found.objective - self.bound <= max(self.patience * of_eta, provable)
        fall = self.last - found.objective
        self.last = found.objective
        return matters and fall <= self.patience * of_eta


class _Bracket:
    """A safeguarded search for the logit of eta, by EM steps and the sign of the derivative."""

    def __init__(self, eta: float = 0.5) -> None:
        eta = min(max(eta, 1e-3), 1 - 1e-3)
        self.logit = float(np.log(eta / (1 - eta)))
        self.low = -MAX_LOGIT
        self.high = MAX_LOGIT
        self.patience = 0.25
        self.longest = 4.0
        self.last = 0.0
        self.moved = 0.0
        self.pushed = 0

    @property
    def eta(self) -> float:
        """Return the weight of the first view."""
        return float(1 / (1 + np.exp(-self.logit)))

    def move(self, first: float, second: float) -> None:
        """Go to the next eta, given how much of the inner trace norm lies in each view."""
        first = max(first, 1e-300)
        second = max(second, 1e-300)
        step = np.log(first) - np.log(second) - self.logit  # EM: eta = first / (first + second)
        if step > 0:
            self.low = self.logit
        else:
            self.high = self.logit
        here = self.logit
        target = self.logit + float(np.clip(self._accelerated(step), -self.longest, self.longest))
        inside = self.low < target < self.high
        if inside:
            self.logit = target
        else:
            self.logit = (self.low + self.high) / 2
        self.moved = self.logit - here
        self._doubt(0 if inside else int(np.sign(step)))
        # an inexact inner solution misled the sign: widen and be more exact
        if self.high - self.low < MIN_BRACKET:
            self.low = self.logit - 2
            self.high = self.logit + 2
            self.patience = 0.3 * self.patience
            self.longest = 0.5

    def _doubt(self, beyond: int) -> None:
        """Give up an end that stops several moves in turn: an inexact inner solution had set it."""
        if beyond * self.pushed >= 0 and beyond:
            self.pushed = self.pushed + beyond
        else:
            self.pushed = beyond
        if abs(self.pushed) < MAX_BLOCKED_MOVES:
            return
        if self.pushed > 0:
            self.high = MAX_LOGIT
        else:
            self.low = -MAX_LOGIT
        self.patience = 0.5 * self.patience
        self.longest = max(0.5 * self.longest, 0.5)
        self.pushed = 0

    def _accelerated(self, step: float) -> float:
        """Stretch the step as if the last two belonged to a geometric series (Aitken).

        The bracket limits the result. At an eta on the boundary the plain steps never change: their
        ratio is one, and the cap applies. If steps change their sign, the best eta lies between
        them, and a secant finds it where plain steps would oscillate.
        """
        previous = self.last
        self.last = step
        ratio = step / previous if previous else 0.0
        if ratio > 0:
            return step / (1 - min(ratio, 0.97))
        if ratio < 0 and self.moved * previous > 0:
            return step * (self.moved / previous) / (1 - ratio)
        return step


def _in_factors(problem: Convex) -> bool:
    """Return whether proximal steps in factors are the fastest inner solver.

    They are for sparse tables, and for large ones whose loss has no prox in closed form.
    """
    data = problem.data
    if data.layout.sparse:
        return True
    able = data.smooth and problem.map.diagonal is not None and not data.rowwise
    closed = all(t.loss.of_residual for t in data.terms)
    return able and not closed and bool(np.prod(data.shape) >= LARGE_TABLE)


def _recovered(gauge: TwoView, Q: Factors, e: Any, eta: float) -> Factors:
    """Return optimal two-view factors of Z = Q E, given Q = U S V'."""
    s = np.linalg.norm(Q.codes, axis=0)
    kept = s > 0
    C = s[kept, None] * (Q.C * e)[kept]
    return gauge.recover_near(Q.codes[:, kept] / s[kept], C, eta)


def _view_shares(Q: Factors, n_first: int) -> tuple[float, float]:
    """Return sum_i s_i |v_i|^2 over each view for Q = U S V'."""
    s = np.linalg.norm(Q.codes, axis=0)
    squares = np.square(Q.C) * s[:, None]
    first = squares[:, :n_first]
    second = squares[:, n_first:]
    return float(first.sum()), float(second.sum())


def with_slack_used(problem: Convex, point: FactorPoint) -> FactorPoint:
    """Return a point whose components fit a view below its bound better, at the same cost.

    Where one view alone determines the cost (eta at an end), the other costs nothing until it
    meets its bound: it is a regression on the codes. The gap does not show how good that is if the
    view is a millionth of the whole.
    """
    gauge = problem.gauge
    F = point.factors
    data = problem.data
    assert isinstance(gauge, TwoView)
    if not F.rank or not data.smooth or data.rowwise:
        return point
    data = shifted(data, problem.design, point.coefficients)
    views = (slice(gauge.n_first), slice(gauge.n_first, None))
    for view, bound in zip(views, gauge.bounds, strict=True):
        length = np.linalg.norm(F.C[:, view], axis=1) / bound
        if length.max() > 1 - SLACK_SHARE:
            continue
        ridge = SLACK_RIDGE * problem.alpha
        fitted = update_components(
            data,
            F.codes * problem.map.diagonal,
            F.C,
            SquaredL2(),
            ridge,
        )
        step = (fitted - F.C)[:, view]
        C = F.C.copy()
        C[:, view] += _longest(F.C[:, view], step, bound) * step
        F = Factors(F.Phi, C)
    before = problem.objective(point.factors, point.coefficients)
    coefficients = problem.best_coefficients(F, point.coefficients)
    if problem.objective(F, coefficients) <= before:
        return FactorPoint(F, coefficients, point.dual)
    return point


def _longest(C: Array, step: Array, bound: float) -> float:
    """Return the share of a step, at most one, that keeps every row of C within its bound."""
    a = np.square(step).sum(axis=1)
    b = (C * step).sum(axis=1)
    room = np.maximum(bound**2 - np.square(C).sum(axis=1), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # the root of |C + t step| = bound
        root = room / (b + np.sqrt(b * b + a * room))
        share = np.where(a > 0, root, np.inf)
    return float(min(1.0, np.nanmin(share, initial=1.0)))
