"""How strong, chosen by the labels of labeled rows that were held out."""

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
    trial_of,
)
from regfactor.problems import Convex, Data
from regfactor.solvers.paths import along


def select_by_labels(
    problem: Convex,
    n_first: int,
    rule: str,
    random: np.random.Generator,
) -> Selection:
    """Choose the strength of a gauge under which labels held out, the columns from n_first on, are predicted best."""
    choose(rule, RULES, "rule")
    problem = problem.at(1.0)
    held = _held_rows(problem.data, n_first, random)
    labels = np.arange(problem.data.shape[1]) >= n_first
    train = problem.data.kept(~(held[:, None] & labels))
    judged = problem.data.kept(held[:, None] & labels)
    fitted = replace(problem, data=train)
    alphas = np.geomspace(1.0, SMALLEST, ALPHAS) * fitted.alpha_max()
    search = Search()
    for alpha, solution in zip(alphas, along(fitted, alphas, tol=ROUGH), strict=False):
        P = replace(problem, data=judged).predictor(
            solution.point.factors, solution.point.coefficients
        )
        if search.ended([trial_of(judged.row_values(P)[held], alpha)]):
            break
    return Selection("alphas", search.trials, search.choice(rule))


def _held_rows(data: Data, n_first: int, random: np.random.Generator) -> Array:
    """Return a tenth of the labeled rows, at least one, but none whose labels would leave a column without any."""
    known = data.observed[:, n_first:]
    labeled = np.flatnonzero(known.any(axis=1))
    if len(labeled) < 2:
        raise ValueError(
            "alpha='auto' holds out labels, and there is only one labeled row; give a number.",
        )
    drawn = random.permutation(labeled)[: max(1, round(HELD_OUT * len(labeled)))]
    held = np.zeros(len(known), bool)
    held[drawn] = True
    return held
