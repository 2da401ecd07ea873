"""Strength chosen by labels: by the evidence of their regression, or by held-out ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sklearn.utils.extmath import randomized_svd

from regfactor.core.linalg import thin_svd
from regfactor.core.params import Array
from regfactor.fitting.ridge_readout import RANK_CUT, RidgeReadout
from regfactor.fitting.selection import (
    COMPARED_FIT_TOL,
    HELD_OUT_SHARE,
    N_ALPHAS,
    SMALLEST_ALPHA_SHARE,
    Search,
    Selection,
    Validation,
    trial_of,
)
from regfactor.problems import Convex, Data
from regfactor.solvers.base import prepared, solve_within

SHARES = (0.5, 0.3, 0.15, 0.07, 0.03, 0.015, 0.005)  # of alpha_max that are compared, falling
MAX_ATOMS = 60  # shares that would keep more components than this are not tried
MAX_DECOMPOSED = 300  # smaller side of a table up to which its decomposition is exact


Readout = Callable[[Array, Array, Array], RidgeReadout]


def select_share(X: Array, Y: Array, weights: Array, readout: Readout) -> float:
    """Return the share of alpha_max whose codes explain the labels with most evidence.

    The evidence is that of a ridge regression of the labels, the readout, on codes of the inputs
    alone. Under a trace norm of strength share s_1 the singular value s_k of the inputs becomes
    s_k - share s_1, so that scores on principal directions are multiplied by 1 - share s_1 / s_k.
    Missing inputs count as zeros; unknown labels are NaN.
    """
    X = np.nan_to_num(X.astype(np.float64))
    s, directions = _principal_directions(np.sqrt(weights)[:, None] * X)
    labeled = ~np.isnan(Y).all(axis=1)
    scores = X[labeled] @ directions.T
    best = SHARES[0]
    most = -np.inf
    for share in SHARES:
        shrinkage = 1 - share * s[:1] / s
        kept = shrinkage > 0
        if kept.sum() > MAX_ATOMS and most > -np.inf:
            break
        features = scores[:, kept] * shrinkage[kept]
        evidence = readout(features, Y[labeled], weights[labeled]).log_evidence
        if evidence > most:
            most = evidence
            best = share
    return best


def _principal_directions(X: Array) -> tuple[Array, Array]:
    """Return the leading singular values of X, falling and positive, and right singular vectors."""
    if min(X.shape) <= MAX_DECOMPOSED:
        _, s, directions = thin_svd(X, RANK_CUT)
        return s, directions
    _, s, directions = randomized_svd(X, MAX_ATOMS + 1, random_state=0)
    kept = s > RANK_CUT * s.max(initial=0.0)
    return s[kept], directions[kept]


def select_by_labels(problem: Convex, n_first: int, rule: str, validation: Validation) -> Selection:
    """Choose the strength under which held-out labels, the columns from n_first on, cost least."""
    problem = problem.at(1.0)
    held = _held_rows(problem.data, n_first, validation.random)
    labels = held[:, None] & (np.arange(problem.data.shape[1]) >= n_first)
    judged = replace(problem, data=problem.data.kept(labels))
    fitted = replace(problem, data=problem.data.kept(~labels))
    alphas = np.geomspace(1.0, SMALLEST_ALPHA_SHARE, N_ALPHAS) * fitted.alpha_max()
    fitted = prepared(fitted.at(alphas[0]))
    search = Search()
    point = None
    for alpha in alphas.tolist():
        point = solve_within(fitted.at(alpha), validation.limits(tol=COMPARED_FIT_TOL), point).point
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
    drawn = random.permutation(labeled)[: max(1, round(HELD_OUT_SHARE * len(labeled)))]
    held = np.zeros(len(known), bool)
    held[drawn] = True
    return held
