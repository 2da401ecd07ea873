"""Where local solvers begin: a truncated SVD of a Newton step from zero, its non-negative kin, or spread-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import aslinearoperator, svds

from regfactor._linalg import thin_svd
from regfactor._params import Array
from regfactor.factors import Factors
from regfactor.losses import KL, Squared
from regfactor.losses.base import EVERYTHING
from regfactor.penalties import Constraint, NonNegative, OneHot, Simplex
from regfactor.problems import Data, Factored
from regfactor.problems.layout import Layout

SMALL = 500  # rows or columns up to which the leading singular vectors are taken from a whole SVD
IMPUTATIONS = 3  # SVDs of a table with holes, each of which fills them for the next


def first_factors(problem: Factored, rng: np.random.Generator) -> Factors:
    """Return feasible factors near the data."""
    if isinstance(problem.on_codes, OneHot):
        return problem.hold(_spread_rows(problem, rng))
    if isinstance(problem.on_codes, Simplex):
        F = _spread_rows(problem, rng)
        return problem.hold(Factors((F.codes + 1 / problem.rank) / 2, F.C))
    data, k = problem.data, problem.rank
    U, s, Vt = imputed_svd(data, k) if predicts_data(problem) else leading_svd(working_response(data), k)
    root = np.sqrt(s)
    F = Factors(U * root, root[:, None] * Vt)
    if isinstance(problem.on_codes, NonNegative) or isinstance(problem.on_components, NonNegative):
        F = _positive(F)
    return problem.hold(Factors(_feasible(problem.on_codes, F.codes), _feasible(problem.on_components, F.C)))


def working_response(data: Data) -> Any:
    """Return one Newton step from a constant predictor: the data in its units; at holes the constant, or nothing."""
    Z = np.full(data.terms[0].x.shape if data.layout.sparse else data.shape, data.neutral, data.dtype)
    bend = data.hessian(Z)
    return data.layout.matrix(Z - np.where(bend > 0, data.gradient(Z) / np.where(bend > 0, bend, 1), 0))


def predicts_data(problem: Factored) -> bool:
    """Whether both factors are non-negative and their product is in the units of the data."""
    penalties = isinstance(problem.on_codes, NonNegative) and isinstance(problem.on_components, NonNegative)
    return penalties and all(isinstance(t.loss, Squared | KL) for t in problem.data.terms)


def leading_svd(X: Any, k: int) -> tuple[Array, Array, Array]:
    """Return the k leading singular triplets of an array or of a linear operator."""
    n, d = X.shape
    if min(n, d) > SMALL and 4 * k < min(n, d):
        probe = np.random.default_rng(0).standard_normal(max(n, d)).astype(X.dtype)  # ones would miss a centred table
        if not np.any(X @ probe[:d]):
            return np.eye(n, k, dtype=X.dtype), np.zeros(k, X.dtype), np.eye(k, d, dtype=X.dtype)
        U, s, Vt = svds(X, k=k, v0=probe[: min(n, d)])
        return U[:, ::-1], s[::-1], Vt[::-1]
    U, s, Vt = thin_svd(X if isinstance(X, np.ndarray) else X @ np.eye(X.shape[1], dtype=X.dtype))
    return U[:, :k], s[:k], Vt[:k]


def imputed_svd(data: Data, k: int) -> tuple[Array, Array, Array]:
    """Return the leading singular triplets of the data's non-negative part; a sparse table stays sparse.

    Holes begin as row effect times column mean, and are filled again by the triplets found (Troyanskaya et al. 2001).
    """
    x, w = _positive_part(data)
    layout = data.layout
    columns = _mean(layout.column_sums(w * x), layout.column_sums(w)).astype(x.dtype)
    rows = _mean(layout.row_sums(w * x), layout.row_sums(w * layout.spread(columns))).astype(x.dtype)
    F = Factors(rows[:, None], columns[None])
    whole = not layout.sparse and bool((w > 0).all())
    for _ in range(1 if whole else IMPUTATIONS):
        beyond = np.where(w > 0, x - layout.push(F.codes, F.C), 0)
        U, s, Vt = leading_svd(_sum(layout, beyond, F), k)
        F = Factors(U * s, Vt)
    return U, s, Vt


def _positive_part(data: Data) -> tuple[Array, Array]:
    """Return max(x - offset, 0) and the weights at the entries of a table."""
    x = np.empty(data.terms[0].x.shape if data.layout.sparse else data.shape, data.dtype)
    w = np.ones_like(x)
    for t in data.terms:
        at = ... if t.columns is EVERYTHING else (slice(None), t.columns)
        x[at] = np.maximum(t.x if t.offset is None else t.x - t.offset, 0)
        w[at] = 1 if t.w is None else t.w
    return x, w


def _sum(layout: Layout, entries: Array, F: Factors) -> Any:
    """Return the matrix of entries plus Z: an array, or a linear operator if the layout is sparse."""
    if not layout.sparse:
        return entries + F.dense()
    return aslinearoperator(layout.matrix(entries)) + aslinearoperator(F.codes) @ aslinearoperator(F.C)


def _mean(total: Array, weight: Array) -> Array:
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1), 0)


def _positive(F: Factors) -> Factors:
    """Return factors without zeros, which multiplicative losses could never leave."""
    Phi, C = np.abs(F.codes), np.abs(F.C)
    return Factors(Phi + 0.01 * Phi.mean() + 1e-12, C + 0.01 * C.mean() + 1e-12)


def _spread_rows(problem: Factored, rng: np.random.Generator) -> Factors:
    """Choose rows of the data as components, each far from those before it (k-means++ under the loss itself)."""
    data = problem.data
    rows = working_response(data)
    least = data.row_values(rows)
    chosen = [int(rng.integers(len(rows)))]
    losses = [data.row_values(np.broadcast_to(rows[chosen[0]], data.shape))]
    while len(chosen) < problem.rank:
        excess = np.maximum(np.min(losses, axis=0) - least, 0)
        share = excess / excess.sum() if excess.sum() > 0 else np.full(len(rows), 1 / len(rows))
        chosen.append(int(rng.choice(len(rows), p=share)))
        losses.append(data.row_values(np.broadcast_to(rows[chosen[-1]], data.shape)))
    codes = np.eye(problem.rank, dtype=data.dtype)[np.argmin(losses, axis=0)]
    return Factors(codes, _feasible(problem.on_components, rows[chosen]))


def _feasible(penalty: object, A: Array) -> Array:
    return penalty.project(A) if isinstance(penalty, Constraint) else A
