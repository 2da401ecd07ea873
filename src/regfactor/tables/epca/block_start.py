"""A start for sparse counts: regressions of logs, then leading singular vectors of the rest."""

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
    """Return factors and free terms near the data, as `solvers.starts.first_point` of all entries.

    Data in units of the predictor are y_ij = b_j + s_ij - o_i with a sparse s, so that regressions
    on few columns D are products with s, and what is left to explain is s plus a matrix of low
    rank, left @ right.
    """
    counts = problem.counts
    n, d = counts.shape
    base, s = _response(counts)
    weights = counts.weights
    offset = np.zeros(n)
    if counts.offset is not None:
        offset = counts.offset[:, 0].astype(np.float64)
    left = np.column_stack([np.ones(n), -offset])
    right = np.vstack([base, np.ones(d)])
    B = None
    D = problem.free_terms.astype(np.float64)
    if D.shape[1]:
        weighted = D * weights[:, None]
        moments = (s.T @ weighted).T + weighted.T @ left @ right
        B = np.linalg.lstsq(D.T @ weighted, moments)[0]
        left = np.hstack([left, D])
        right = np.vstack([right, -B])
        B = B.astype(counts.dtype)
    A = np.zeros((n, 0))
    if problem.levels:
        mean_of_row = np.asarray(s.sum(axis=1)) / d + left @ right.mean(axis=1)
        A = mean_of_row[:, None]
        left = np.hstack([left, -A])
        right = np.vstack([right, np.ones(d)])
    codes = np.zeros((n, problem.rank))
    C = np.zeros((problem.rank, d))
    if problem.rank:
        root = np.sqrt(weights)[:, None]
        scaled = scipy.sparse.csr_array(s.multiply(root))
        low_rank = aslinearoperator(left * root) @ aslinearoperator(right)
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
