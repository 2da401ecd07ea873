"""The strength of a norm on rows, chosen by predicting hidden entries of rows left out.

Where every row has an atom of its own, as under a sum of norms of rows, the missing entries of a
row are zero at any strength, and entries held out of training rows cannot distinguish strengths.
Rows left out can: they are scored by the atoms of the others, from some of their entries, and
predict the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.fitting.fallback import CannotSelect
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import (
    COMPARED_FIT_TOL,
    Search,
    Selection,
    Validation,
    trial_of,
)
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.losses import Loss
from regfactor.penalties import Gauge
from regfactor.problems import Data
from regfactor.problems.convex import convex
from regfactor.solvers.base import solve_within

N_STRENGTHS = 8
# at smaller strengths the codes of a row under many atoms are hardly determined
SMALLEST_STRENGTH_SHARE = 0.05
MAX_ROWS_LEFT_OUT = 60
MAX_ATOM_ROWS = 300
SHARE_LEFT_OUT = 0.2


@dataclass(frozen=True)
class RowsLeftOut:
    """Rows that give atoms, and others of which some entries are seen and the rest is hidden."""

    learned: Array
    seen: Array
    hidden: Array

    @classmethod
    def of(cls, X: Any, random: np.random.Generator) -> RowsLeftOut:
        """Return a random part of a table; raise if it has too few rows of two entries."""
        if is_sparse(X):
            counts = np.diff(X.indptr)
        else:
            counts = (~np.isnan(X)).sum(axis=1)
        rows = random.permutation(np.flatnonzero(counts >= 2))
        n_left_out = min(max(int(SHARE_LEFT_OUT * len(rows)), 1), MAX_ROWS_LEFT_OUT)
        if len(rows) < 2:
            raise CannotSelect(
                "alpha='auto' leaves rows out, and needs at least two rows with two observed "
                f"entries (n_samples = {X.shape[0]}, n_features = {X.shape[1]}); give alpha a "
                "number.",
                "There are too few rows",
            )
        left_out = with_missing_as_nan(X[rows[:n_left_out]])
        order = np.where(np.isnan(left_out), np.inf, random.random(left_out.shape))
        ranks = order.argsort(axis=1).argsort(axis=1)
        is_hidden = ranks < counts[rows[:n_left_out], None] // 2
        return cls(
            with_missing_as_nan(X[rows[n_left_out : n_left_out + MAX_ATOM_ROWS]]),
            np.where(is_hidden, np.nan, left_out),
            np.where(is_hidden, left_out, np.nan),
        )


def select_by_rows_left_out(
    X: Any,
    loss: Loss,
    gauge: Gauge,
    rule: str,
    validation: Validation,
) -> Selection:
    """Choose the strength at which rows left out predict their hidden entries best."""
    rows = RowsLeftOut.of(X, validation.random)
    problem = convex(rows.learned, loss, gauge, 1.0)
    largest = problem.alpha_max()
    if not largest > 0:
        raise CannotSelect(
            "alpha='auto' found nothing to choose: all entries are zero. Give a number.",
            "All cells are zero: there is nothing",
        )
    hidden = Data.of(rows.hidden, loss)
    search = Search()
    start: Any = None
    for alpha in (largest * np.geomspace(1.0, SMALLEST_STRENGTH_SHARE, N_STRENGTHS)).tolist():
        here = problem.at(alpha)
        start = solve_within(here, validation.limits(tol=COMPARED_FIT_TOL), start).point
        F = start.factors.canonical(gauge.power)
        score = Scoring(loss, gauge.per_row(F.codes), alpha)
        codes = score(
            rows.seen,
            F.C,
            np.zeros(X.shape[1]),
            clock=validation.clock,
        )
        if search.ended([trial_of(hidden.losses(Factors(codes, F.C)), alpha)]):
            break
        if validation.is_over("alpha", len(search.trials)):
            break
    return Selection("alphas", search.trials, search.choice(rule))
