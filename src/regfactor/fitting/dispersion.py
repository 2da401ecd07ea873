"""The dispersion of negative-binomial counts, by profile likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.params import SMALLEST_NORMAL, Array, is_option
from regfactor.losses import Loss, NegativeBinomial, Stacked
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data, Design
from regfactor.solvers.base import solve

# logarithms to base ten of the dispersions tried: first some, then those around the best
COARSE_LOGS = np.arange(-2.0, 3.01, 0.25)
FINE_LOGS = np.arange(-0.2, 0.21, 0.05)
N_ROUNDS = 2
N_FOLDS = 4  # each entry has its mean from a fit that did not see it
MEAN_FIT_TOL = 1e-2  # relative gap of the fit whose means the dispersions are those about


def profile_thetas(x: Array, means: Array, weights: Array) -> Array:
    """Return the dispersion of greatest likelihood for each column of counts of given means.

    -log f(x) = (x + theta) log(theta + m) - x log m - theta log theta
                - log Gamma(x + theta) + log Gamma(theta) + log x!
    """
    width = x.shape[1]
    # counts are few different numbers, whose gamma functions are computed once
    values, places = np.unique(x, return_inverse=True)
    places = places.reshape(x.shape)
    columns = np.arange(width)
    fixed = (weights * xlogy(x, means)).sum(axis=0)

    def likelihood(log: Array) -> Array:
        theta = 10.0**log
        if len(values) * width <= x.size:
            constants = gammaln(values[:, None] + theta)[places, columns]
        else:
            constants = gammaln(x + theta)
        of_size = constants - (x + theta) * np.log(theta + means)
        of_theta = theta * np.log(theta) - gammaln(theta)
        return fixed + (weights * of_size).sum(axis=0) + weights.sum(axis=0) * of_theta

    coarse = np.stack([likelihood(np.full(width, log)) for log in COARSE_LOGS])
    best = COARSE_LOGS[coarse.argmax(axis=0)]
    fine = np.stack([likelihood(best + step) for step in FINE_LOGS])
    steps = FINE_LOGS[fine.argmax(axis=0)]
    found = np.round(best + steps, 2)
    return 10.0 ** np.clip(found, COARSE_LOGS[0], COARSE_LOGS[-1])


def common_theta(table: Any, weights: Any) -> float:
    """Return the one dispersion of greatest likelihood for all columns of a table.

    It is that about the means of a fit of low rank; of a sparse table, about those of its columns.
    """
    if is_sparse(table):
        # as one column of entries, about the means of their columns
        x = table.data.astype(float)[:, None]
        if weights is None:
            counts = np.ones_like(x)
        else:
            counts = weights.data[:, None]
        width = table.shape[1]
        total = np.bincount(table.indices, (counts * x)[:, 0], width)
        seen = np.bincount(table.indices, counts[:, 0], width)
        of_columns = total / positive_or_one(seen)
        means = of_columns[table.indices][:, None]
        means = np.maximum(means, SMALLEST_NORMAL)
        return float(profile_thetas(x, means, counts)[0])
    x, counts, means = _observed_counts(table, weights)
    theta = pooled_theta(x, means, counts)
    for _ in range(N_ROUNDS):
        fitted = _fitted_means(NegativeBinomial(theta), table, counts, means)
        theta = pooled_theta(x, fitted, counts)
    return theta


def _observed_counts(table: Array, weights: Any) -> tuple[Array, Array, Array]:
    """Return the entries, their weights and the means of their columns; missing ones are zero."""
    observed = ~np.isnan(table)
    counts = observed.astype(float)
    if weights is not None:
        counts = np.where(observed, weights, 0.0)
    x = np.where(observed, table, 0.0).astype(float)
    means = np.broadcast_to(column_means(x, counts), x.shape)
    return x, counts, means


def pooled_theta(x: Array, means: Array, weights: Array) -> float:
    """Return the one dispersion of greatest likelihood for all entries of given means."""
    columns = [part.reshape(-1, 1) for part in (x, means, weights)]
    return float(profile_thetas(*columns)[0])


def with_thetas(loss: Loss, table: Any, weights: Any) -> Loss:
    """Return a loss with theta="auto" replaced by the dispersion of each column.

    A fit of low rank has the dispersions about the mean of each column, the next one those about
    the means of that fit, and so on; `weights` are those of entries.
    """
    width = table.shape[1]
    if not any(_is_open(part) for _, part in loss.parts(width)):
        return loss
    if is_sparse(table):
        raise ValueError(
            "theta='auto' of NegativeBinomial is found for dense tables: give theta a number, as "
            "NegativeBinomial(theta=10.0), or the table as an array with NaN.",
        )
    x, counts, means = _observed_counts(table, weights)
    current = _with(loss, profile_thetas(x, means, counts), width)
    for _ in range(N_ROUNDS):
        fitted = _fitted_means(current, table, counts, means)
        current = _with(loss, profile_thetas(x, fitted, counts), width)
    return current


def column_means(x: Array, weights: Array) -> Array:
    """Return the weighted mean of each column of counts, a small one where it is zero."""
    total = weights.sum(axis=0)
    sums = (weights * x).sum(axis=0)
    smallest = 0.5 / np.maximum(total, 1)
    return np.maximum(sums / positive_or_one(total), smallest)


def _is_open(loss: Loss) -> bool:
    return isinstance(loss, NegativeBinomial) and is_option(loss.theta, "auto")


def _with(loss: Loss, thetas: Array, width: int) -> Loss:
    """Return the loss with a part for all columns of equal dispersion."""
    groups: list[tuple[Any, Loss]] = []
    for at, part in loss.parts(width):
        places = np.arange(width)[at]
        if not _is_open(part):
            groups.append((places.tolist(), part))
            continue
        for theta in np.unique(thetas[places]).tolist():
            equal = places[thetas[places] == theta]
            groups.append((equal.tolist(), NegativeBinomial(theta)))
    if len(groups) == 1:
        return groups[0][1]
    return Stacked(tuple(groups))


def _fitted_means(loss: Loss, table: Array, weights: Array, means: Array) -> Array:
    """Return the means of entries by fits of low rank to other entries.

    Means of a fit to the entries themselves would be too near to them.
    """
    n, d = table.shape
    X = table.astype(float)
    whole = Data.of(X, loss, weights)
    curvature = whole.hessian(np.log(means))
    noise = float(np.sqrt(curvature.sum() / max(weights.sum(), 1.0)))
    # half of the largest singular value of noise alone, so that structure near it counts too
    alpha = noise * (np.sqrt(n) + np.sqrt(d)) / 2
    folds = np.random.default_rng(0).integers(N_FOLDS, size=X.shape)
    out = means.copy()
    for fold in range(N_FOLDS):
        data = whole.kept(folds != fold)
        problem = Convex(data, Trace(), alpha, design=Design.intercept(n))
        solution = solve(problem, tol=MEAN_FIT_TOL)
        Z = problem.predictor(solution.point.factors, solution.point.coefficients)
        for at, part in loss.parts(d):
            if isinstance(part, NegativeBinomial):
                left_out = folds[:, at] == fold
                predicted = part.predict(Z[:, at])
                out[:, at] = np.where(left_out, predicted, out[:, at])
    return np.maximum(out, SMALLEST_NORMAL)
