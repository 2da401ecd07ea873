"""How strong, of what rank: chosen by the loss of entries that were held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor._params import Array, choose
from regfactor.factors import Factors, Point, rebalance
from regfactor.problems import Convex, Data, Factored
from regfactor.solvers import solve
from regfactor.solvers.choose import prepared
from regfactor.solvers.paths import along
from regfactor.solvers.sweeps import sweep

HELD_OUT = 0.1
ALPHAS, SMALLEST = 20, 1e-3  # strengths tried, and the last as a share of the first, alpha_max
ROUGH = 1e-2  # relative gap of the fits that are only compared
RISES = 3  # strengths or ranks in a row that are no better, after which the search ends
BETTER = 2e-3  # relative fall of the held-out loss of refitted factors that counts as better: their losses are noisy
CUTS = (0.5, 0.2, 0.1, 0.03)  # shares of the largest singular value at which debiased factors are cut
MOST_DEBIASED = 30
TINY_RIDGE = 1e-8
RULES = {"min": "min", "1se": "1se"}


@dataclass(frozen=True)
class Trial:
    """One candidate: its strength or rank, the mean loss of each held-out entry and the standard error of that mean."""

    value: float
    loss: float
    error: float
    rank: int | None = None  # atoms that are kept when factors are refitted without a penalty


@dataclass(frozen=True)
class Selection:
    """What was chosen ("alphas" or "ranks"), all candidates in the order of the search, and the one taken."""

    of: str
    trials: list[Trial]
    best: Trial


def select_alpha(
    problem: Convex, rule: str, debias: bool, groups: Array | None, random: np.random.Generator
) -> Selection:
    """Choose the strength of a gauge; with `debias`, by what factors refitted without a penalty would predict.

    Refitted factors need few atoms: those of a singular value that the penalty has nearly removed are noise, and
    would be grown to full size. So the rank at which they are cut is chosen along with the strength.
    """
    choose(rule, RULES, "rule")
    problem = prepared(problem.at(problem.alpha_max() or 1.0))
    train, held = problem.data.split(HELD_OUT, random, groups)
    fitted = replace(problem, data=train)
    alphas = np.geomspace(1.0, SMALLEST, ALPHAS) * fitted.alpha_max()
    if not alphas[0] > 0:
        raise ValueError("alpha='auto' found nothing to choose: intercepts alone explain the table. Give a number.")
    search = _Search(BETTER if debias else 0.0)
    for alpha, solution in zip(alphas, along(fitted, alphas, tol=ROUGH), strict=False):
        if search.ended(_trials(fitted.at(alpha), held, solution.point, alpha, debias)):
            break
    return Selection("alphas", search.trials, search.choice(rule))


def select_rank(
    problem: Factored, groups: Array | None, random: np.random.Generator, seed: int, **options: Any
) -> Selection:
    """Choose the number of atoms of a local fit."""
    train, held = problem.data.split(HELD_OUT, random, groups)
    search = _Search(0.0)
    for rank in _ranks(min(problem.data.shape)):
        fitted = replace(problem, data=train, rank=rank)
        solution = solve(fitted, random_state=seed, **options)
        if search.ended([_trial(held, held.layout.entries(solution.point.factors), rank)]):
            break
    return Selection("ranks", search.trials, search.choice("min"))


def refit(problem: Convex, point: Point, rank: int, sweeps: int = 3) -> Point:
    """Return the leading atoms of a point, refitted together with the intercepts under next to no penalty."""
    F, B = _leading(point.factors, rank), point.free
    for _ in range(sweeps):
        F, B = sweep(problem, F, B, 1.0, TINY_RIDGE)
    return Point(rebalance(F), B)


class _Search:
    """Candidates are drawn until several in a row are no better than the best."""

    def __init__(self, better: float) -> None:
        self.trials: list[Trial] = []
        self.better, self.best, self.rises = better, np.inf, 0

    def ended(self, trials: list[Trial]) -> bool:
        """Take in the candidates of one step; the best of them stands for it."""
        trial = min(trials, key=lambda t: t.loss)
        self.trials.append(trial)
        scale = max(abs(self.best), 1e-300) if np.isfinite(self.best) else 1.0
        self.rises = 0 if trial.loss < self.best - self.better * scale else self.rises + 1
        self.best = min(self.best, trial.loss)
        return self.rises >= RISES

    def choice(self, rule: str) -> Trial:
        """Return the best, or the first that is within a standard error of it."""
        best = min(self.trials, key=lambda t: t.loss)
        if rule == "min":
            return best
        return next(t for t in self.trials if t.loss <= best.loss + best.error)


def _trials(problem: Convex, held: Data, point: Point, alpha: float, debias: bool) -> list[Trial]:
    if not debias:
        return [_trial(held, _predictor(problem, held, point), alpha)]
    return [
        replace(_trial(held, _predictor(problem, held, refit(problem, point, rank, 2)), alpha), rank=rank)
        for rank in _cuts(point.factors)
    ] or [_trial(held, _predictor(problem, held, point), alpha)]


def _trial(held: Data, Z: Array, value: float) -> Trial:
    losses = held.losses(Z)
    spread = float(losses.std(ddof=1)) if len(losses) > 1 else 0.0
    return Trial(float(value), float(losses.mean()), spread / np.sqrt(len(losses)))


def _predictor(problem: Convex, held: Data, point: Point) -> Array:
    return replace(problem, data=held).predictor(point.factors, point.free)


def _cuts(F: Factors) -> list[int]:
    """Return the ranks at which factors may be cut."""
    s = np.sort(np.linalg.norm(F.codes, axis=0) * np.linalg.norm(F.C, axis=1))[::-1]
    if not len(s):
        return []
    return sorted({*(int((s > c * s[0]).sum()) for c in CUTS), min(len(s), MOST_DEBIASED)})


def _leading(F: Factors, rank: int) -> Factors:
    F = rebalance(F)
    return Factors(F.codes[:, :rank], F.C[:rank])


def _ranks(most: int) -> Iterator[int]:
    """Yield 1, 2, 3, ... with steps that grow by a quarter."""
    rank = 1
    while rank <= most:
        yield rank
        rank = max(rank + 1, rank * 5 // 4)
