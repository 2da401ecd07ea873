"""Two views: a search over eta around ADMM on the trace norm at that eta (spec 4.1, algorithm A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regfactor._params import Array, UnsupportedProblem
from regfactor.factors import Point
from regfactor.loop import Iterate
from regfactor.penalties import TwoView
from regfactor.problems import Convex
from regfactor.solvers.base import Solver
from regfactor.solvers.splitting import Admm, Splitting

WIDEST = 30.0  # logit of the eta nearest to an end
NARROW = 1e-9


@dataclass
class EtaSearch(Solver):
    """max over eta of min over Z of L(Z) + alpha |Z E^-1|_tr: concave in eta, convex in Z.

    Any inner dual bound is a bound of the whole, since the inner norm is nowhere larger than the two-view norm.
    """

    relaxation: float = 1.6
    every: int = 5

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, TwoView):
            raise UnsupportedProblem(f"EtaSearch is for the gauge TwoView, got {problem.gauge}. Use Admm.")
        Admm().check(replace(problem, gauge=problem.gauge.at(0.5, problem.shape[1])))

    def iterates(self, problem: Convex, start: Point | None) -> Iterator[Iterate]:
        """Yield every few inner steps the recovered two-view factors and the inner bound."""
        gauge, d = problem.gauge, problem.shape[1]
        assert isinstance(gauge, TwoView)
        search = _Bracket()
        split = Splitting(replace(problem, gauge=gauge.at(search.eta, d)), start or problem.null, self.relaxation)
        while True:
            inner_objective, objective, bound = np.inf, np.inf, -np.inf
            while True:
                split.advance(self.every)
                F, B, inner_objective, certificate = split.examine()
                bound = max(bound, certificate.value)
                F = gauge.recover(F.dense())
                objective = problem.objective(F, B)
                yield Iterate(
                    Point(F, B, split.dual), objective, certificate.value, certificate.rigorous, steps=self.every,
                    info={"eta": search.eta},
                )  # fmt: skip
                if inner_objective - bound <= search.patience * (objective - inner_objective):
                    break
            search.move(*_view_shares(split, gauge.n_first))
            split.rescale(replace(problem, gauge=gauge.at(search.eta, d)))


class _Bracket:
    """A safeguarded search for the logit of eta, driven by an EM step and the sign of the derivative."""

    def __init__(self) -> None:
        self.logit, self.low, self.high = 0.0, -WIDEST, WIDEST
        self.patience, self.longest, self.last = 0.25, 4.0, 0.0

    @property
    def eta(self) -> float:
        """Return the weight of the first view."""
        return float(1 / (1 + np.exp(-self.logit)))

    def move(self, first: float, second: float) -> None:
        """Go to the next eta, given how much of the inner trace norm lies in each view."""
        first, second = max(first, 1e-300), max(second, 1e-300)
        step = np.log(first) - np.log(second) - self.logit  # EM: eta = first / (first + second)
        if step > 0:
            self.low = self.logit
        else:
            self.high = self.logit
        target = self.logit + float(np.clip(self._accelerated(step), -self.longest, self.longest))
        self.logit = target if self.low < target < self.high else (self.low + self.high) / 2
        if self.high - self.low < NARROW:  # an inexact inner solution misled the sign: widen and be more exact
            self.low, self.high = self.logit - 2, self.logit + 2
            self.patience, self.longest = 0.3 * self.patience, 0.5

    def _accelerated(self, step: float) -> float:
        """Stretch the step as if the last two belonged to a geometric series (Aitken); the bracket guards the sum.

        At an eta on the boundary the plain steps stay the same for ever: the ratio is one, and only the cap ends it.
        """
        previous, self.last = self.last, step
        ratio = step / previous if previous else 0.0
        return step / (1 - min(ratio, 0.97)) if ratio > 0 else step


def _view_shares(split: Splitting, n_first: int) -> tuple[float, float]:
    """Return sum_i s_i |v_i|^2 over each view for Q = U S V'."""
    C: Array = split.F.C
    s = np.linalg.norm(split.F.codes, axis=0)
    squares = np.square(C) * s[:, None]
    return float(squares[:, :n_first].sum()), float(squares[:, n_first:].sum())
