"""A start for sparse counts: column means of logs, then leading singular vectors of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.params import Array
from regfactor.losses import NegativeBinomial, Poisson
from regfactor.solvers.starts import rough_svd
from regfactor.tables.epca.count_blocks import BlockedFactored, CountBlocks


def first_point(problem: BlockedFactored) -> FactorPoint:
    """Return factors and intercepts near the data, as `solvers.starts.first_point` of all entries.

    Data in units of the predictor are y_ij = b_j + s_ij - o_i with a sparse s, so that regressions
    on ones are sums of s, and what is left to explain is s plus a matrix of rank at most three.
    """
    counts = problem.counts
    n, d = counts.shape
    base, s = _response(counts)
    weights = counts.weights
    offset = np.zeros(n)
    if counts.offset is not None:
        offset = counts.offset[:, 0].astype(np.float64)
    B = None
    right = base
    if problem.fit_intercept:
        total = weights.sum()
        mean_offset = weights @ offset / total
        means = np.asarray(s.T @ weights) / total
        intercepts = base + means - mean_offset
        B = intercepts[None].astype(counts.dtype)
        right = mean_offset - means
    A = np.zeros((n, 0))
    level = -offset
    if problem.levels:
        mean_of_row = np.asarray(s.sum(axis=1)) / d
        mean_of_row = mean_of_row + right.mean() + level
        A = mean_of_row[:, None]
        level = level - mean_of_row
    codes = np.zeros((n, problem.rank))
    C = np.zeros((problem.rank, d))
    if problem.rank:
        root = np.sqrt(weights)[:, None]
        left = np.column_stack([np.ones(n), level]) * root
        fixed = np.vstack([right, np.ones(d)])
        scaled = scipy.sparse.csr_array(s.multiply(root))
        low_rank = aslinearoperator(left) @ aslinearoperator(fixed)
        rest = aslinearoperator(scaled) + low_rank
        codes, C = _leading(rest, problem.rank, root)
    E = np.ones((int(problem.levels), d))
    F = Factors(np.hstack([codes, A]), np.vstack([C, E]))
    return FactorPoint(F.astype(counts.dtype), B)


def _leading(rest: Any, k: int, root: Array) -> tuple[Array, Array]:
    """Return the leading atoms of an operator, reduced by the first one left out."""
    U, values, Vt = rough_svd(rest, k)
    noise = values[k:].max(initial=0)
    squares = np.maximum(values[:k] ** 2 - noise**2, 0)
    reduced = np.sqrt(squares)
    half = np.sqrt(reduced)
    found = len(half)
    codes = np.zeros((rest.shape[0], k))
    C = np.zeros((k, rest.shape[1]))
    codes[:, :found] = U[:, :found] * half / root
    C[:found] = half[:, None] * Vt[:found]
    return codes, C


def _response(counts: CountBlocks) -> tuple[Array, Any]:
    """Return the predictor of a zero of each column, and how far stored entries differ from it.

    Of counts it is log(x + u/2), where u is a count of one or the mean positive datum of the column
    if that is smaller; else a Newton step from zero.
    """
    table = counts.table
    d = table.shape[1]
    x = table.data.astype(np.float64)
    if isinstance(counts.loss, Poisson | NegativeBinomial):
        in_rows = np.diff(table.indptr)
        stored = np.repeat(counts.weights, in_rows) * (x > 0)
        total = np.bincount(table.indices, stored * x, minlength=d)
        weight = np.bincount(table.indices, stored, minlength=d)
        overall = 1.0
        if weight.any():
            overall = total.sum() / weight.sum()
        known = weight > 0
        means = total / np.where(known, weight, 1)
        unit = np.where(known, means, overall)
        half = np.minimum(unit, 1) / 2
        base = np.log(half)
        differences = np.log1p(x / half[table.indices])
    else:
        zero = np.zeros(1)
        slope = counts.loss.hessian(zero, zero)
        step = -counts.loss.gradient(zero, zero) / slope
        base = np.repeat(step, d)
        gradient = counts.loss.gradient(np.zeros_like(x), x)
        differences = -gradient / slope - base[0]
    cells = (differences, table.indices, table.indptr)
    return base, scipy.sparse.csr_array(cells, table.shape)
