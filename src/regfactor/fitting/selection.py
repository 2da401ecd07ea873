"""Strength and rank chosen by the loss of held-out entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array, UnsupportedProblem, warn
from regfactor.fitting.fallback import CONSTANT_COLUMNS, CannotSelect
from regfactor.fitting.leverage import HeldOutEntries, leverages_at, places_of, values_at
from regfactor.fitting.scoring import TINY_RIDGE, Scoring
from regfactor.penalties import SquaredL2
from regfactor.problems import Convex, Data, Factored
from regfactor.problems.design import shifted
from regfactor.solvers.base import prepared, solve_within
from regfactor.solvers.sweeps import sweep

HELD_OUT_SHARE = 0.1  # of the entries
N_ALPHAS = 20  # strengths that are tried
SMALLEST_ALPHA_SHARE = 1e-3  # the last of them, relative to the first, alpha_max
COMPARED_FIT_TOL = 1e-2  # relative gap of the fits that are only compared
MAX_STEPS_WITHOUT_GAIN = 3  # strengths or ranks in a row, after which the search ends
COARSE_STEP = 3  # strengths from one to the next of those that are tried first
TIE_SHARE = 1e-4  # of the gain over the empty model, within which candidates are as good
# relative fall of the held-out loss that counts for refitted factors, whose losses are noisy
MIN_REFIT_GAIN = 2e-3
# of the largest singular value, at which debiased factors are cut
RANK_CUT_SHARES = (0.5, 0.2, 0.1, 0.03)
MAX_DEBIASED_RANK = 30
# strengths of the prior of codes, in units of the null loss of a cell
PRIOR_STRENGTHS = 10.0 ** np.arange(-3, 0.75, 0.5)
FIRST_PRIOR_PLACE = 4  # position among them at which the search begins: a tenth
PRIOR = "prior"
LOSS = attrgetter("loss")  # of a candidate


@dataclass(frozen=True)
class Trial:
    """A candidate strength or rank, the mean loss of held-out entries, the standard error of it."""

    value: float
    loss: float
    error: float
    rank: int | None = None  # atoms that are kept when factors are refitted without a penalty
    prior: float | None = None  # strength of the prior under which codes are scored


@dataclass(frozen=True)
class Selection:
    """All candidates ("alphas" or "ranks") in the order of the search, and the one taken."""

    of: str
    trials: list[Trial]
    best: Trial
    held_out: HeldOutEntries | None = None  # as the one taken predicted them


@dataclass(frozen=True)
class Validation:
    """How entries are held out, and the time that a search may take.

    Entries of one row whose columns are of one group, as those that encode a category, are held
    out together. Gross errors, `far`, are learned from, under a loss that bounds their influence,
    and never held out: no model foresees them, so that they would judge none, but hide the rest.
    """

    groups: Array | None
    random: np.random.Generator
    clock: Clock
    far: Array | None = None

    def split(self, data: Data) -> tuple[Data, Data]:
        """Return the entries to learn from, and those that are held out."""
        train, held = data.split(HELD_OUT_SHARE, self.random, self.groups, self.far)
        if held.layout.sparse:
            enough = held.terms[0].x.size > 0 and train.terms[0].x.size > 0
        else:
            enough = bool(held.observed.any() and train.observed.any())
        if not enough:
            raise CannotSelect(
                "The table has too few observed entries to hold some out; give alpha, and "
                "debias=True or False.",
                "There are too few cells",
            )
        return train, held

    def limits(self, **options: Any) -> Limits:
        """Return the limits of one of the fits that are compared."""
        return Limits(time_limit=self.clock.left, **options)

    def is_over(self, what: str, tried: int) -> bool:
        """Return whether the time is up, and warn that the search was cut short by it."""
        if not self.clock.expired:
            return False
        warn(
            f"{what} was chosen among the first {tried} only, since time_limit ended the search; "
            "raise time_limit, or give a number.",
            ConvergenceWarning,
        )
        return True


Trials = Callable[[Convex, Data, FactorPoint], list[Trial]]


def select_alpha(
    problem: Convex,
    rule: str,
    debias: bool | str,
    validation: Validation,
) -> Selection:
    """Choose the strength of a gauge; with `debias`, by the predictions of debiased factors.

    Refitted factors need few atoms: those of a singular value that the penalty has nearly removed
    are noise, and would be grown to full size. So the rank at which they are cut is chosen along
    with the strength. Under a prior of the codes atoms may be many, and its strength is chosen
    along.
    """
    problem = prepared(problem.at(problem.alpha_max() or 1.0))
    usual = 1.0
    if validation.far is not None:
        usual = usual_share(problem, validation.far)
    fitted, held = _parted(problem, validation)
    alphas = np.geomspace(1.0, SMALLEST_ALPHA_SHARE, N_ALPHAS) * fitted.alpha_max()
    if not alphas[0] > 0:
        raise CannotSelect(
            "alpha='auto' found nothing to choose: intercepts alone explain the table. Give a "
            "number.",
            CONSTANT_COLUMNS,
        )
    trials: Trials = _penalized
    search = StrengthSearch(N_ALPHAS)
    if debias == PRIOR:
        trials = _Priors(fitted, validation.groups, usual)
    elif debias:
        trials = _Refits()
        search = StrengthSearch(N_ALPHAS, MIN_REFIT_GAIN)
    # Once Z has full rank, a smaller alpha changes the residuals alpha U V' of observed entries
    # and none of the missing ones.
    flat = fitted.data.quadratic and not debias
    points = {0: fitted.null}
    for place in search.places():
        alpha = float(alphas[place])
        problem = fitted.at(alpha)
        if place > 0:
            tried = np.array(sorted(points))
            nearest = tried[np.abs(tried - place).argmin()]  # the larger strength of two
            limits = validation.limits(tol=usual * COMPARED_FIT_TOL)
            points[place] = solve_within(problem, limits, points[nearest]).point
        point = points[place]
        search.add(place, trials(problem, held, point))
        if flat and point.factors.rank == min(point.factors.shape):
            break
        if validation.is_over("alpha", len(search.trials)):
            break
    place = search.choice(rule)
    chosen = search.trials[place]
    if isinstance(trials, _Refits):
        trials.warn_if_worse(chosen)
    found = None
    # refitted factors are cross-fitted where intervals are asked for
    if chosen.rank is None and problem.map.diagonal is not None:
        found = _held_out(fitted.at(chosen.value), held, points[place], chosen)
    return Selection("alphas", search.ordered, chosen, found)


def _held_out(problem: Convex, held: Data, point: FactorPoint, chosen: Trial) -> HeldOutEntries:
    """Return held-out entries as the candidate that was taken predicts them."""
    point, score = _as_published(problem, point, chosen)
    F = point.factors
    data = _equally_weighted(problem)
    cells = places_of(held)
    z = values_at(held, replace(problem, data=held).predictor(F, point.coefficients), cells)
    leverage = leverages_at(
        data,
        problem.predictor(F, point.coefficients),
        F.C,
        score.strengths(F.rank),
        cells,
    )
    x = values_at(held, held.collect(lambda t: t.numbers), cells)
    return HeldOutEntries(*cells, x, z, leverage).with_numbers()


def _as_published(
    problem: Convex,
    point: FactorPoint,
    chosen: Trial,
) -> tuple[FactorPoint, Scoring]:
    """Return a point with the codes that its candidate publishes, and how these are scored."""
    loss = problem.data.terms[0].loss  # not used, since the data hold their losses themselves
    score = Scoring(loss, SquaredL2(), 1.0)
    F = problem.gauge.balanced(point.factors)
    if chosen.prior is not None:
        kept = with_prior(problem, point, chosen.prior)
        n_free = problem.gauge.n_free
        return kept, score.with_prior(deviations(problem, F), chosen.prior, n_free)
    if not F.rank:
        return replace(point, factors=F), score
    penalty = problem.gauge.per_row(F.codes)
    return replace(point, factors=F), replace(score, penalty=penalty, alpha=problem.alpha)


def usual_share(problem: Convex, far: Array) -> float:
    """Return the share of the losses of the empty model that is not that of gross errors."""
    null = problem.null
    losses = problem.data.losses(problem.predictor(null.factors, null.coefficients))
    if not problem.data.layout.sparse:
        far = far[problem.data.observed]
    total = float(losses.sum())
    if not total > 0:
        return 1.0
    return float(losses[~far].sum()) / total


def select_prior(problem: Convex, max_rank: int | None, validation: Validation) -> Selection:
    """Choose the strength of the prior of the codes at a given strength of the gauge."""
    if problem.data.rowwise:
        raise UnsupportedProblem(
            "debias='prior' holds out single entries, which a loss of whole rows does not allow; "
            "use True or False.",
        )
    problem = prepared(problem)
    usual = 1.0
    if validation.far is not None:
        usual = usual_share(problem, validation.far)
    fitted, held = _parted(problem, validation)
    limits = validation.limits(tol=usual * COMPARED_FIT_TOL, max_rank=max_rank)
    solution = solve_within(fitted, limits)
    search = Search()
    search.ended(_Priors(fitted, validation.groups, usual)(fitted, held, solution.point))
    return Selection("alphas", search.trials, search.choice("min"))


def _parted(problem: Convex, validation: Validation) -> tuple[Convex, Data]:
    """Return the problem of the entries that are learned from, and those that are held out."""
    train, held = validation.split(problem.data)
    return replace(problem, data=train), held


def select_rank(problem: Factored, limits: Limits, validation: Validation) -> Selection:
    """Choose the number of atoms of a local fit."""
    train, held = problem.data.split(HELD_OUT_SHARE, validation.random, validation.groups)
    search = Search()
    for rank in ranks(min(problem.data.shape)):
        here = replace(problem, data=train, rank=rank)
        left = replace(limits, time_limit=validation.clock.left)
        solution = solve_within(here, left)
        if search.ended([trial_of(held.losses(solution.point.factors), rank)]):
            break
        if validation.is_over("rank", len(search.trials)):
            break
    return Selection("ranks", search.trials, search.choice("min"))


def refit(problem: Convex, point: FactorPoint, rank: int, sweeps: int = 3) -> FactorPoint:
    """Return the leading atoms of a point, refitted with the intercepts under almost no penalty."""
    if not rank:
        return problem.null
    F = _leading(point.factors, rank)
    B = point.coefficients
    for _ in range(sweeps):
        F, B = sweep(problem, F, B, 1.0, TINY_RIDGE)
    return FactorPoint(rebalance(F), B)


class StrengthSearch:
    """Every third strength until one is no better than the best, then those next to the best.

    Strengths are numbered from the largest on, at which the model is empty. One step without a gain
    ends the coarse search, two while nothing is better than the empty model.
    """

    def __init__(self, n_strengths: int, min_gain: float = 0.0) -> None:
        self.min_gain = min_gain
        self.trials: dict[int, Trial] = {}
        self.losses = np.full(n_strengths, np.inf)

    def places(self) -> Iterator[int]:
        """Yield the numbers of the strengths to try, given the trials that were added so far."""
        best = 0
        last = len(self.losses) - 1
        for place in [*range(0, last, COARSE_STEP), last]:
            yield place
            least = self.losses[best]
            if self.losses[place] < least - self.min_gain * abs(least):
                best = place
                continue
            patience = 1
            if best == 0:
                patience = 2
            if place >= best + patience * COARSE_STEP:
                break
        for _ in range(COARSE_STEP - 1):
            best = self.best
            for place in (best - 1, best + 1):
                if 0 <= place <= last and place not in self.trials:
                    yield place

    def add(self, place: int, trials: list[Trial]) -> None:
        """Keep the best candidate of a strength."""
        best = min(trials, key=LOSS)
        self.trials[place] = best
        if np.isfinite(best.loss):
            self.losses[place] = best.loss

    @property
    def best(self) -> int:
        """The number of the best strength, the largest of those that are as good."""
        least = self.losses.min()
        return self._first_within(least + TIE_SHARE * (self.losses[0] - least))

    @property
    def ordered(self) -> list[Trial]:
        """The candidates by falling strength."""
        return [self.trials[place] for place in sorted(self.trials)]

    def choice(self, rule: str) -> int:
        """Return the best, or the largest strength that is within a standard error of it."""
        if rule == "min":
            return self.best
        best = self.trials[self.best]
        return self._first_within(best.loss + best.error)

    def _first_within(self, loss: float) -> int:
        """Return the number of the largest strength of at most a loss."""
        return int(np.flatnonzero(self.losses <= loss)[0])


class Search:
    """Candidates are drawn until several in a row are no better than the best."""

    def __init__(self, better: float = 0.0) -> None:
        self.trials: list[Trial] = []
        self.better = better
        self.best = np.inf
        self.rises = 0

    def ended(self, trials: list[Trial]) -> bool:
        """Keep the best candidate of one step; return whether the search is over."""
        trial = min(trials, key=LOSS)
        self.trials.append(trial)
        least = self.best
        if np.isfinite(least):
            least -= self.better * abs(least)
        if trial.loss < least:
            self.rises = 0
        else:
            self.rises += 1
        self.best = min(self.best, trial.loss)
        return self.rises >= MAX_STEPS_WITHOUT_GAIN

    def choice(self, rule: str) -> Trial:
        """Return the best, or the first that is within a standard error of it."""
        best = min(self.trials, key=LOSS)
        if rule == "min":
            return best
        return next(t for t in self.trials if t.loss <= best.loss + best.error)


def _penalized(problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
    return [trial_of(_losses(problem, held, point), problem.alpha)]


class _Refits:
    """Ranks at which factors are cut and refitted, zero included; keeps the penalized fits too."""

    def __init__(self) -> None:
        self.penalized: list[Trial] = []

    def __call__(self, problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
        self.penalized += _penalized(problem, held, point)
        trials = []
        for rank in _cuts(point.factors):
            losses = _losses(problem, held, refit(problem, point, rank, 2))
            trials.append(replace(trial_of(losses, problem.alpha), rank=rank))
        return trials or [replace(self.penalized[-1], rank=0)]

    def warn_if_worse(self, chosen: Trial) -> None:
        """Warn if the penalized fit predicts held-out entries clearly better than the refit."""
        plain = min(self.penalized, key=LOSS)
        if plain.loss >= chosen.loss - chosen.error:
            return
        kept = "column offsets alone, the best refit found"
        if chosen.rank:
            kept = f"{chosen.rank} refitted components"
        warn(
            f"debias=True suits this table badly: held-out entries are predicted worse by {kept} "
            f"(mean loss {chosen.loss:.3g}) than by the penalized fit (at most {plain.loss:.3g}). "
            "Use debias='prior', or debias=False.",
        )


class _Priors:
    """Strengths of the prior of the codes, searched from the one that was best last time.

    Under the squared loss a strength is the variance of the noise, so that its unit must scale like
    the loss: it is what the best constants cost per cell above the least value of the loss, half
    the variance of a column; `usual` is the share of this that gross errors do not cost.
    """

    def __init__(self, problem: Convex, groups: Array | None, usual: float) -> None:
        data = problem.data
        null = problem.null
        P = problem.predictor(null.factors, null.coefficients)
        cells = float(len(data.losses(P)))
        if groups is not None:
            cells *= (groups.max() + 1) / len(groups)
        excess = usual * (data.value(P) + data.conjugate(np.zeros_like(P)))
        self.strengths = PRIOR_STRENGTHS * (excess / max(cells, 1.0) or 1.0)
        self.best = FIRST_PRIOR_PLACE

    def __call__(self, problem: Convex, held: Data, point: FactorPoint) -> list[Trial]:
        tried: dict[int, Trial] = {}

        def preference(k: int) -> tuple[float, int]:
            if k not in tried:
                strength = float(self.strengths[k])
                losses = _losses(problem, held, with_prior(problem, point, strength))
                tried[k] = replace(trial_of(losses, problem.alpha), prior=strength)
            return tried[k].loss, abs(k - self.best)

        while True:
            around = range(max(self.best - 1, 0), min(self.best + 2, len(PRIOR_STRENGTHS)))
            best = min(around, key=preference)
            if best == self.best:
                return list(tried.values())
            self.best = best


def with_prior(problem: Convex, point: FactorPoint, strength: float) -> FactorPoint:
    """Return a point with its codes scored under a normal prior of their own second moments."""
    F = problem.gauge.balanced(point.factors)
    if not F.rank:
        return point
    loss = problem.data.terms[0].loss  # not used, since the data hold their losses themselves
    score = Scoring(loss, SquaredL2(), 1.0)
    score = score.with_prior(deviations(problem, F), strength, problem.gauge.n_free)
    return _rescored(problem, replace(point, factors=F), score)


def _rescored(problem: Convex, point: FactorPoint, score: Scoring) -> FactorPoint:
    """Return a point with the codes of its rows scored anew, its components being fixed."""
    F = point.factors
    if not F.rank:
        return point
    rows = problem.map.diagonal
    data = shifted(_equally_weighted(problem), problem.design, point.coefficients)
    codes = score.of_data(data, F.C, F.codes * rows) / rows
    return FactorPoint(Factors(codes, F.C), point.coefficients)


def _equally_weighted(problem: Convex) -> Data:
    """Return the data of a problem with weights of one: rows of any weight are scored alike."""
    rows = problem.map.diagonal
    if np.ndim(rows):
        return problem.data.weighted(np.square(rows).ravel())
    return problem.data


def deviations(problem: Convex, F: Factors) -> Array:
    """Return the root mean squares of the codes of a fit, over rows by their weights."""
    rows = np.broadcast_to(np.ravel(problem.map.diagonal), F.shape[0])
    return np.linalg.norm(F.codes, axis=0) / np.sqrt(np.sum(rows**-2.0))


def trial_of(losses: Array, value: float) -> Trial:
    """Return a candidate with the mean of its losses and its error."""
    mean = float(losses.mean(dtype=np.float64))
    spread = 0.0
    if len(losses) > 1:
        spread = float(losses.std(ddof=1))
    return Trial(float(value), mean, spread / np.sqrt(len(losses)))


def _losses(problem: Convex, held: Data, point: FactorPoint) -> Array:
    return held.losses(replace(problem, data=held).predictor(point.factors, point.coefficients))


def _cuts(F: Factors) -> list[int]:
    """Return the ranks at which factors may be cut."""
    sizes = np.linalg.norm(F.codes, axis=0) * np.linalg.norm(F.C, axis=1)
    if not len(sizes):
        return []
    found = {int((sizes > cut * sizes.max()).sum()) for cut in RANK_CUT_SHARES}
    return sorted(found | {min(len(sizes), MAX_DEBIASED_RANK)})


def _leading(F: Factors, rank: int) -> Factors:
    F = rebalance(F)
    return Factors(F.codes[:, :rank], F.C[:rank])


def ranks(most: int) -> Iterator[int]:
    """Yield 1, 2, 3, ... with steps that grow by a quarter."""
    rank = 1
    while rank <= most:
        yield rank
        rank = max(rank + 1, rank * 5 // 4)
