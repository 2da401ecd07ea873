"""Strength and number of components of a local fit, chosen by held-out entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import spectral_norm
from regfactor.core.loop import Limits
from regfactor.core.params import Array, frozen
from regfactor.fitting.base import Run
from regfactor.fitting.fallback import CannotSelect
from regfactor.fitting.selection import (
    HELD_OUT_SHARE,
    N_ALPHAS,
    SMALLEST_ALPHA_SHARE,
    Search,
    Selection,
    Trial,
    Validation,
    ranks,
    trial_of,
)
from regfactor.problems import Data, Design, Factored
from regfactor.problems.design import shifted
from regfactor.solvers.base import solve_within
from regfactor.solvers.starts import first_point
from regfactor.tables.epca.deviance import null_solution
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.observation import PLACEHOLDER_WEIGHT

# Limits of fits that are only compared.
COMPARISON_TOL = 1e-3
MAX_STRENGTH_ITERATIONS = 3
MAX_NUMBER_ITERATIONS = 10
# An atom whose size is below this share of its first size begins again, at REVIVED_SHARE of it.
VANISHED_SHARE = 0.02
REVIVED_SHARE = 0.3
MIN_OBSERVED = 20  # entries of which some can be held out


def check_enough(given: WeightedTable) -> None:
    """Raise for a table of which too few entries are observed to hold some out."""
    n, d = given.table.shape
    count = given.entries.n_observed
    if min(n, d) < 2 or count < MIN_OBSERVED:
        raise ValueError(
            f"A table of {count} observed entries (n_samples = {n}, n_features = {d}) has too few "
            f"to hold some out: 'auto' needs two rows, two columns and {MIN_OBSERVED} entries. "
            "Give alpha and n_components as numbers."
        )


def alpha_max(problem: Factored) -> float:
    """Return the strength from which on no component is left.

    It is the norm of the gradient where free terms alone are fitted. Families whose predictors
    cannot be zero have an intercept in any case.
    """
    if not problem.data.unbounded:
        problem = _with_intercept(problem)
    point = null_solution(problem).point
    data = shifted(problem.data, problem.design, point.coefficients)
    gradient = data.layout.matrix(data.gradient(point.factors))
    if problem.row_weights is None:
        return spectral_norm(gradient)
    return spectral_norm(gradient * np.sqrt(problem.row_weights)[:, None])


def _with_intercept(problem: Factored) -> Factored:
    if problem.design is not None:
        return problem
    data = problem.data
    return replace(problem, design=Design.intercept(data.shape[0], data.dtype))


@frozen
class HeldOutSearch:
    """Searches for the strength and the number of components; they end when no time is left.

    `observed` marks the observed entries of a table whose missing ones hold placeholders.
    """

    observed: Array | None
    validation: Validation

    @staticmethod
    def of(problem: Factored, learned: WeightedTable, run: Run) -> HeldOutSearch:
        """Return the searches of one fit."""
        observed = None
        if not problem.data.unbounded:
            observed = learned.entries.dense.w > 0
        random = np.random.default_rng(run.seed())
        return HeldOutSearch(observed, Validation(None, random, run.clock))

    def strength(self, problem: Factored, rule: str) -> Selection:
        """Choose alpha along a path of falling strengths, each started where the last ended."""
        fitted, held = self._split(problem)
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
        for alpha in np.geomspace(1.0, SMALLEST_ALPHA_SHARE, N_ALPHAS) * largest:
            here = replace(fitted, alpha=float(alpha))
            factors = _revived(point.factors, first.factors, problem)
            start = FactorPoint(factors, point.coefficients)
            point = solve_within(here, self._limits(MAX_STRENGTH_ITERATIONS), start).point
            if search.ended([_trial(here, held, point, alpha)]):
                break
            if self.validation.is_over("alpha", len(search.trials)):
                break
        return Selection("alphas", search.trials, search.choice(rule))

    def number(self, problem: Factored) -> Selection:
        """Choose the number of components at a given strength."""
        fitted, held = self._split(problem)
        search = Search()
        for rank in ranks(min(problem.data.shape)):
            here = replace(fitted, rank=rank)
            point = solve_within(here, self._limits(MAX_NUMBER_ITERATIONS)).point
            if search.ended([_trial(here, held, point, rank)]):
                break
            if self.validation.is_over("n_components", len(search.trials)):
                break
        return Selection("ranks", search.trials, search.choice("min"))

    def _limits(self, max_iter: int) -> Limits:
        """Return the limits of a fit that is only compared, with the time that is left."""
        return self.validation.limits(tol=COMPARISON_TOL, max_iter=max_iter)

    def _split(self, problem: Factored) -> tuple[Factored, Data]:
        """Return the problem of the entries that are learned from, and the held-out entries.

        Fits that are only compared are made in single precision, which takes half the time; not
        under a quadratic loss, whose data may lie far from zero.
        """
        random = self.validation.random
        learned, held = split(problem.data, self.observed, random)
        while not held.terms[0].x.size:  # by chance, on a small table
            learned, held = split(problem.data, self.observed, random)
        fitted = replace(problem, data=learned)
        if learned.quadratic:
            return fitted, held
        return _in_single_precision(fitted), held.astype(np.float32)


def _trial(problem: Factored, held: Data, point: FactorPoint, value: float) -> Trial:
    """Return the candidate of a strength or a number, judged by the held-out entries."""
    return trial_of(shifted(held, problem.design, point.coefficients).losses(point.factors), value)


def _in_single_precision(problem: Factored) -> Factored:
    parts: dict[str, Any] = {"data": problem.data.astype(np.float32)}
    if problem.design is not None:
        parts["design"] = problem.design.astype(np.float32)
    if problem.extra_components is not None:
        parts["extra_components"] = problem.extra_components.astype(np.float32)
    return replace(problem, **parts)


def split(data: Data, observed: Array | None, random: np.random.Generator) -> tuple[Data, Data]:
    """Return the data without a random share of the entries, and the held-out entries.

    Where predictors are restricted, a held-out entry becomes a placeholder: the mean of its
    column with little weight.
    """
    if observed is None:
        learned, held = data.split(HELD_OUT_SHARE, random)
        if data.layout.sparse:
            return learned, held
        return learned, held.compacted()
    t = data.terms[0]
    dtype = t.x.dtype
    w = t.weights
    chosen = (random.random(t.x.shape) < HELD_OUT_SHARE) & observed
    means = (t.x * w).sum(axis=0) / w.sum(axis=0)
    placeholder = PLACEHOLDER_WEIGHT * w[observed].mean()
    inside = replace(
        t,
        x=np.where(chosen, means, t.x).astype(dtype),
        w=np.where(chosen, placeholder, w).astype(dtype),
    )
    outside = replace(t, w=np.where(chosen, w, 0).astype(dtype))
    return replace(data, terms=(inside,)), replace(data, terms=(outside,)).compacted()


def _revived(F: Factors, first: Factors, problem: Factored) -> Factors:
    """Return factors in which atoms that a stronger penalty has nearly removed begin again."""
    k = problem.rank
    n_extra = 0 if problem.extra_components is None else len(problem.extra_components)
    have = F.rank - n_extra
    alive = np.flatnonzero(_sizes(F, have) > VANISHED_SHARE * _sizes(first, have))
    codes = first.codes * REVIVED_SHARE
    codes[:, alive] = F.codes[:, alive]
    C = first.C * REVIVED_SHARE
    C[alive] = F.C[alive]
    codes = np.hstack([codes[:, :k], F.codes[:, have:]])
    return Factors(codes, np.vstack([C[:k], F.C[have:]]))


def _sizes(F: Factors, count: int) -> Array:
    """Return the norms of the first atoms."""
    of_codes = np.linalg.norm(F.codes[:, :count], axis=0)
    return of_codes * np.linalg.norm(F.C[:count], axis=1)
