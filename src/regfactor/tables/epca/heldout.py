"""Strength and number of components of a local fit, chosen by entries that were held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import spectral_norm
from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array
from regfactor.fitting.base import Run
from regfactor.fitting.fallback import CannotSelect
from regfactor.fitting.selection import (
    ALPHAS,
    HELD_OUT,
    SMALLEST,
    Search,
    Selection,
    ranks,
    trial_of,
)
from regfactor.problems import Data, Design, Factored
from regfactor.solvers.choose import solve_within
from regfactor.solvers.starts import first_point
from regfactor.tables.epca.deviance import null_point
from regfactor.tables.epca.families import FAINT
from regfactor.tables.epca.inputs import Given

# tolerance and most sweeps of fits that are only compared
ROUGH = 1e-3
SWEEPS = 2
# an atom this much smaller than at the start is given that share of its first factors again
WEAK = 0.02
AGAIN = 0.3

FEWEST = 20  # observed entries of which some can be held out


def check_enough(given: Given) -> None:
    """Raise for a table of which too few entries are observed to hold some out."""
    (n, d) = given.table.shape
    count = given.held.count
    if min(n, d) < 2 or count < FEWEST:
        raise ValueError(
            f"A table of {count} observed entries (n_samples = {n}, n_features = {d}) has too few to hold some "
            f"out: 'auto' needs two rows, two columns and {FEWEST} entries. Give alpha and n_components as numbers.",
        )


def alpha_max(problem: Factored) -> float:
    """Return the strength from which on no component is left: the norm of the gradient at the null point."""
    # zero is no predictor of all families
    if problem.data.unbounded:
        problem = problem
    else:
        problem = _with_intercept(problem)
    (point, _) = null_point(problem)
    data = problem.data
    if problem.design is not None and point.coefficients is not None:
        data = data.shifted(problem.design.D, point.coefficients)
    g = data.gradient(point.factors)
    root: Any
    if problem.row_weights is None:
        root = 1.0
    else:
        root = np.sqrt(problem.row_weights)[:, None]
    matrix = data.layout.matrix(g)
    return spectral_norm(matrix * root)


def _with_intercept(problem: Factored) -> Factored:
    return replace(
        problem,
        design=problem.design or Design.intercept(problem.data.shape[0], problem.data.dtype),
    )


@dataclass(frozen=True, eq=False)
class HeldOutSearch:
    """Searches for the strength and the number of components; they end when no time is left.

    `observed` marks the observed entries of a table whose missing ones hold placeholders.
    """

    observed: Array | None
    random: np.random.Generator
    clock: Clock

    @staticmethod
    def of(problem: Factored, given: Given, run: Run) -> HeldOutSearch:
        """Return the searches of one fit."""
        observed = None if problem.data.unbounded else given.held.whole.w > 0
        return HeldOutSearch(observed, np.random.default_rng(run.seed()), run.clock)

    def strength(self, problem: Factored, rule: str) -> Selection:
        """Choose alpha along a path of falling strengths, each started where the last ended."""
        fitted, held = _parted(problem, self.observed, self.random)
        # above it a model without intercepts holds the means alone
        largest = alpha_max(_with_intercept(fitted))
        if not largest > 0:
            raise CannotSelect(
                "alpha='auto' found nothing to choose: intercepts alone explain the table. Give a "
                "number.",
                "Each column holds one value, or nearly: there is nothing",
            )
        first = first_point(replace(fitted, alpha=0.0))
        point = first
        search = Search()
        for alpha in np.geomspace(1.0, SMALLEST, ALPHAS) * largest:
            here = replace(fitted, alpha=float(alpha))
            start = FactorPoint(_revived(point.factors, first.factors, problem), point.coefficients)
            point = solve_within(here, self._limits(SWEEPS + 1), start).point
            if search.ended([trial_of(_losses(here, held, point), alpha)]) or self.clock.expired:
                break
        return Selection("alphas", search.trials, search.choice(rule))

    def number(self, problem: Factored) -> Selection:
        """Choose the number of components at a given strength."""
        fitted, held = _parted(problem, self.observed, self.random)
        search = Search()
        for rank in ranks(min(problem.data.shape)):
            here = replace(fitted, rank=rank)
            point = solve_within(here, self._limits(10)).point
            if search.ended([trial_of(_losses(here, held, point), rank)]) or self.clock.expired:
                break
        return Selection("ranks", search.trials, search.choice("min"))

    def _limits(self, max_iter: int) -> Limits:
        """Return the limits of a fit that is only compared, with the time that is left."""
        return Limits(tol=ROUGH, max_iter=max_iter, time_limit=self.clock.left)


def _parted(
    problem: Factored,
    seen: Array | None,
    random: np.random.Generator,
) -> tuple[Factored, Data]:
    """Return the problem of the entries that are learned from, and the others.

    Fits that are only compared are made in single precision, which takes half the time; not under a
    quadratic loss, whose data may lie far from zero.
    """
    learned, tested = split(problem.data, seen, random)
    while not tested.terms[0].x.size:  # bad luck on a small table
        learned, tested = split(problem.data, seen, random)
    if learned.quadratic:
        return replace(problem, data=learned), tested
    if problem.design is None:
        design = None
    else:
        design = problem.design.astype(np.float32)
    if problem.extra_components is None:
        extra_components = None
    else:
        extra_components = problem.extra_components.astype(np.float32)
    return replace(
        problem,
        data=learned.astype(np.float32),
        design=design,
        extra_components=extra_components,
    ), tested.astype(np.float32)


def split(data: Data, seen: Array | None, random: np.random.Generator) -> tuple[Data, Data]:
    """Return the data without a random share of the entries, and these entries.

    Where predictors are restricted, an entry that is held out stands like a hole at the mean of its
    column, and `seen` tells which entries are no such holes.
    """
    if seen is None:
        learned, tested = data.split(HELD_OUT, random)
        return learned, tested if data.layout.sparse else tested.compacted()
    t = data.terms[0]
    w = t.weights
    held = (random.random(t.x.shape) < HELD_OUT) & seen
    means = (t.x * w).sum(axis=0) / w.sum(axis=0)
    faint = FAINT * w[seen].mean()
    inside = replace(
        t,
        x=np.where(held, means, t.x).astype(t.x.dtype),
        w=np.where(held, faint, w).astype(t.x.dtype),
    )
    outside = replace(t, w=np.where(held, w, 0).astype(t.x.dtype))
    return replace(data, terms=(inside,)), replace(data, terms=(outside,)).compacted()


def _revived(F: Factors, first: Factors, problem: Factored) -> Factors:
    """Return factors in which atoms that a stronger penalty has nearly removed begin again."""
    k = problem.rank
    extra_components = 0 if problem.extra_components is None else len(problem.extra_components)
    have = F.rank - extra_components
    codes = first.codes * AGAIN
    C = first.C * AGAIN
    size = np.linalg.norm(F.codes[:, :have], axis=0) * np.linalg.norm(F.C[:have], axis=1)
    fresh = np.linalg.norm(first.codes[:, :have], axis=0) * np.linalg.norm(first.C[:have], axis=1)
    alive = np.flatnonzero(size > WEAK * fresh)
    codes[:, alive] = F.codes[:, alive]
    C[alive] = F.C[alive]
    return Factors(np.hstack([codes[:, :k], F.codes[:, have:]]), np.vstack([C[:k], F.C[have:]]))


def _losses(problem: Factored, held: Data, point: FactorPoint) -> Array:
    F = point.factors
    B = point.coefficients
    return (
        held if problem.design is None or B is None else held.shifted(problem.design.D, B)
    ).losses(F)
