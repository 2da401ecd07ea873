"""Strength chosen by the labels of labeled rows that were held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regfactor.core.params import Array, choose
from regfactor.fitting.selection import (
    ALPHAS,
    HELD_OUT,
    ROUGH,
    RULES,
    SMALLEST,
    Search,
    Selection,
    Validation,
    trial_of,
)
from regfactor.problems import Convex, Data
from regfactor.solvers.choose import prepared, solve_within


def select_by_labels(problem: Convex, n_first: int, rule: str, validation: Validation) -> Selection:
    """Choose the strength under which held-out labels, the columns from n_first on, cost least."""
    choose(rule, RULES, "rule")
    problem = problem.at(1.0)
    held = _held_rows(problem.data, n_first, validation.random)
    labels = held[:, None] & (np.arange(problem.data.shape[1]) >= n_first)
    judged = replace(problem, data=problem.data.kept(labels))
    fitted = replace(problem, data=problem.data.kept(~labels))
    alphas = np.geomspace(1.0, SMALLEST, ALPHAS) * fitted.alpha_max()
    fitted = prepared(fitted.at(alphas[0]))
    search = Search()
    point = None
    for alpha in alphas.tolist():
        point = solve_within(fitted.at(alpha), validation.limits(tol=ROUGH), point).point
        P = judged.predictor(point.factors, point.coefficients)
        losses = judged.data.row_values(P)[held]
        if search.ended([trial_of(losses, alpha)]):
            break
        if validation.is_over("alpha", len(search.trials)):
            break
    return Selection("alphas", search.trials, search.choice(rule))


def _held_rows(data: Data, n_first: int, random: np.random.Generator) -> Array:
    """Return which rows are held out: a tenth of the labeled ones, at least one."""
    known = data.observed[:, n_first:]
    labeled = np.flatnonzero(known.any(axis=1))
    if len(labeled) < 2:
        raise ValueError(
            "alpha='auto' holds out labels, and there is only one labeled row; give a number."
        )
    drawn = random.permutation(labeled)[: max(1, round(HELD_OUT * len(labeled)))]
    held = np.zeros(len(known), bool)
    held[drawn] = True
    return held
