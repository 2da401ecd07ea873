"""How strong, of what rank: chosen by the loss of entries that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.params import Array, UnsupportedProblem, choose, warn
from regfactor.fitting.canonical import TINY_ATOM, with_unit_rows
from regfactor.fitting.fallback import CannotSelect
from regfactor.fitting.scoring import TINY_RIDGE, Scoring
from regfactor.penalties import SquaredL2
from regfactor.problems import Convex, Data, Factored
from regfactor.solvers import solve
from regfactor.solvers.choose import prepared
from regfactor.solvers.paths import along
from regfactor.solvers.sweeps import sweep

HELD_OUT = 0.1
# strengths tried, and the last as a share of the first, alpha_max
ALPHAS = 20
SMALLEST = 1e-3
ROUGH = 1e-2  # relative gap of the fits that are only compared
RISES = 3  # strengths or ranks in a row that are no better, after which the search ends
# relative fall of the held-out loss of refitted factors that counts as better: their losses are
# noisy
BETTER = 2e-3
CUTS = (
    0.5,
    0.2,
    0.1,
    0.03,
)  # shares of the largest singular value at which debiased factors are cut
MOST_DEBIASED = 30
PRIORS = 10.0 ** np.arange(
    -3,
    0.75,
    0.5,
)  # strengths of the prior of codes, in units of the null loss of a cell
MIDDLE = 4  # position among them at which the search begins: a tenth
PRIOR = "prior"
RULES = {"min": "min", "1se": "1se"}


@dataclass(frozen=True)
class Trial:
    """One candidate: its strength or rank, the mean loss of each held-out entry and the standard error of that mean."""

    value: float
    loss: float
    error: float
    rank: int | None = None  # atoms that are kept when factors are refitted without a penalty
    prior: float | None = None  # strength of the prior under which codes are scored


@dataclass(frozen=True)
class Selection:
    """What was chosen ("alphas" or "ranks"), all candidates in the order of the search, and the one taken."""

    of: str
    trials: list[Trial]
    best: Trial


Trials = Callable[[Convex, Data, FactorPoint], list[Trial]]


def select_alpha(
    problem: Convex,
    rule: str,
    debias: bool | str,
    groups: Array | None,
    random: np.random.Generator,
) -> Selection:
    """Choose the strength of a gauge; with `debias`, by what debiased factors would predict.

    Refitted factors need few atoms: those of a singular value that the penalty has nearly removed
    are noise, and would be grown to full size. So the rank at which they are cut is chosen along
    with the strength. Under a prior of the codes atoms may be many, and its strength is chosen
    along.
    """
    choose(rule, RULES, "rule")
    fitted, held = _parted(problem.at(problem.alpha_max() or 1.0), groups, random)
    alphas = np.geomspace(1.0, SMALLEST, ALPHAS) * fitted.alpha_max()
    if not alphas[0] > 0:
        raise CannotSelect(
            "alpha='auto' found nothing to choose: intercepts alone explain the table. Give a number.",
            "Each column holds one value, or nearly: there is nothing",
        )
    trials: Trials = _penalized
    if debias:
        trials = _Priors(fitted, groups) if debias == PRIOR else _Refits()
    search = Search(BETTER if isinstance(trials, _Refits) else 0.0)
    for alpha, solution in zip(alphas, along(fitted, alphas, tol=ROUGH), strict=False):
        if search.ended(trials(fitted.at(alpha), held, solution.point)):
            break
    chosen = search.choice(rule)
    if isinstance(trials, _Refits):
        trials.warn_if_worse(chosen)
    return Selection("alphas", search.trials, chosen)


def select_prior(
    problem: Convex,
    groups: Array | None,
    random: np.random.Generator,
    max_rank: int | None,
) -> Selection:
    """Choose the strength of the prior of the codes at a given strength of the gauge."""
    if any(t.loss.rowwise for t in problem.data.terms):
        raise UnsupportedProblem(
            "debias='prior' holds out single entries, which a loss of whole rows does not allow; use True or False.",
        )
    fitted, held = _parted(problem, groups, random)
    search = Search()
    search.ended(
        _Priors(fitted, groups)(fitted, held, solve(fitted, tol=ROUGH, max_rank=max_rank).point),
    )
    return Selection("alphas", search.trials, search.choice("min"))


def _parted(
    problem: Convex,
    groups: Array | None,
    random: np.random.Generator,
) -> tuple[Convex, Data]:
    """Return the problem of the entries that are learned from, and those that are held out."""
    problem = prepared(problem)
    train, held = problem.data.split(HELD_OUT, random, groups)
    if not (held.terms[0].x.size if held.layout.sparse else held.observed.any()):
        raise CannotSelect(
            "The table has too few observed entries to hold some out; give alpha, and debias=True or False.",
            "There are too few cells",
        )
    return replace(problem, data=train), held


def select_rank(
    problem: Factored,
    groups: Array | None,
    random: np.random.Generator,
    seed: int,
    **options: Any,
) -> Selection:
    """Choose the number of atoms of a local fit."""
    train, held = problem.data.split(HELD_OUT, random, groups)
    search = Search()
    for rank in ranks(min(problem.data.shape)):
        fitted = replace(problem, data=train, rank=rank)
        solution = solve(fitted, random_state=seed, **options)
        if search.ended([trial_of(held.losses(solution.point.factors), rank)]):
            break
    return Selection("ranks", search.trials, search.choice("min"))


def refit(problem: Convex, point: FactorPoint, rank: int, sweeps: int = 3) -> FactorPoint:
    """Return the leading atoms of a point, refitted together with the intercepts under next to no penalty."""
    if not rank:
        return problem.null
    F = _leading(point.factors, rank)
    B = point.coefficients
    for _ in range(sweeps):
        F, B = sweep(problem, F, B, 1.0, TINY_RIDGE)
    return FactorPoint(rebalance(F), B)


class Search:
    """Candidates are drawn until several in a row are no better than the best."""

    def __init__(self, better: float = 0.0) -> None:
        self.trials: list[Trial] = []
        self.better = better
        self.best = np.inf
        self.rises = 0

    def ended(self, trials: list[Trial]) -> bool:
        """Take in the candidates of one step; the best of them stands for it."""
        trial = min(trials, key=lambda t: t.loss)
        self.trials.append(trial)
        scale = max(abs(self.best), 1e-300) if np.isfinite(self.best) else 1.0
        if trial.loss < self.best - self.better * scale:
            self.rises = 0
        else:
            self.rises = self.rises + 1
        self.best = min(self.best, trial.loss)
        return self.rises >= RISES

    def choice(self, rule: str) -> Trial:
        """Return the best, or the first that is within a standard error of it."""
        best = min(self.trials, key=lambda t: t.loss)
        if rule == "min":
            return best
        return next(t for t in self.trials if t.loss <= best.loss + best.error)


def _penalized(problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
    return [trial_of(_losses(problem, held, point), problem.alpha)]


class _Refits:
    """Ranks at which factors are cut and refitted, none among them; and the penalized fits beside them."""

    def __init__(self) -> None:
        self.penalized: list[Trial] = []

    def __call__(self, problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
        self.penalized += _penalized(problem, held, point)
        return [
            replace(
                trial_of(_losses(problem, held, refit(problem, point, rank, 2)), problem.alpha),
                rank=rank,
            )
            for rank in _cuts(point.factors)
        ] or [replace(self.penalized[-1], rank=0)]

    def warn_if_worse(self, chosen: Trial) -> None:
        """Warn where the penalized fit predicts held-out entries clearly better than the refit that was chosen."""
        plain = min(self.penalized, key=lambda t: t.loss)
        if plain.loss < chosen.loss - chosen.error:
            if chosen.rank:
                kept = f"{chosen.rank} refitted components"
            else:
                kept = "column offsets alone, the best refit found"
            warn(
                f"debias=True suits this table badly: entries held out are predicted worse by {kept} (mean loss "
                f"{chosen.loss:.3g}) than by the penalized fit (at most {plain.loss:.3g}). Use debias='prior', or "
                "debias=False.",
            )


class _Priors:
    """Strengths of the prior of the codes, tried from the one that was best last time on while they get better.

    Under the squared loss a strength is the variance of the noise, so that its unit must scale like
    the loss: it is what the best constants cost per cell above the least value of the loss, half
    the variance of a column.
    """

    def __init__(self, problem: Convex, groups: Array | None) -> None:
        data = problem.data
        null = problem.null
        P = problem.predictor(null.factors, null.coefficients)
        cells = len(data.losses(P)) * (1.0 if groups is None else (groups.max() + 1) / len(groups))
        excess = data.value(P) + data.conjugate(np.zeros_like(P))
        self.strengths = PRIORS * (excess / max(cells, 1.0) or 1.0)
        self.best = MIDDLE

    def __call__(self, problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
        tried: dict[int, Trial] = {}

        def loss(k: int) -> float:
            if k not in tried:
                scored = with_prior(problem, point, float(self.strengths[k]))
                trial = trial_of(_losses(problem, held, scored), problem.alpha)
                tried[k] = replace(trial, prior=float(self.strengths[k]))
            return tried[k].loss

        while True:
            around = range(max(self.best - 1, 0), min(self.best + 2, len(PRIORS)))
            best = min(around, key=lambda k: (loss(k), abs(k - self.best)))
            if best == self.best:
                return list(tried.values())
            self.best = best


def with_prior(problem: Convex, point: FactorPoint, strength: float) -> FactorPoint:
    """Return a point with its codes scored under a normal prior of their own second moments."""
    F = with_unit_rows(rebalance(point.factors, TINY_ATOM))
    if not F.rank:
        return point
    rows = problem.map.diagonal  # a row of weight w is w equal rows, which are scored like one
    if np.ndim(rows):
        data = problem.data.weighted(np.square(rows).ravel())
    else:
        data = problem.data
    if problem.design is not None and point.coefficients is not None:
        data = data.shifted(problem.design.D, point.coefficients)
    loss = data.terms[0].loss  # stands for all: the data hold their losses themselves
    score = Scoring(loss, SquaredL2(), 1.0).with_prior(deviations(problem, F), strength)
    return FactorPoint(
        Factors(score.of_data(data, F.C, F.codes * rows) / rows, F.C), point.coefficients
    )


def deviations(problem: Convex, F: Factors) -> Array:
    """Return the root mean squares of the codes of a fit, over rows by their weights."""
    rows = np.broadcast_to(np.ravel(problem.map.diagonal), F.shape[0])
    return np.linalg.norm(F.codes, axis=0) / np.sqrt(np.sum(rows**-2.0))


def trial_of(losses: Array, value: float) -> Trial:
    """Return a candidate with the mean of its losses and its error."""
    spread = float(losses.std(ddof=1)) if len(losses) > 1 else 0.0
    return Trial(float(value), float(losses.mean(dtype=np.float64)), spread / np.sqrt(len(losses)))


def _losses(problem: Convex, held: Data, point: FactorPoint) -> Array:
    return held.losses(replace(problem, data=held).predictor(point.factors, point.coefficients))


def _cuts(F: Factors) -> list[int]:
    """Return the ranks at which factors may be cut."""
    s = np.sort(np.linalg.norm(F.codes, axis=0) * np.linalg.norm(F.C, axis=1))[::-1]
    if not len(s):
        return []
    return sorted({*(int((s > c * s[0]).sum()) for c in CUTS), min(len(s), MOST_DEBIASED)})


def _leading(F: Factors, rank: int) -> Factors:
    F = rebalance(F)
    return Factors(F.codes[:, :rank], F.C[:rank])


def ranks(most: int) -> Iterator[int]:
    """Yield 1, 2, 3, ... with steps that grow by a quarter."""
    rank = 1
    while rank <= most:
        yield rank
        rank = max(rank + 1, rank * 5 // 4)
