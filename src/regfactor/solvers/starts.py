"""Where local solvers begin: a truncated SVD of a Newton step from zero, or spread-out rows for hard assignment."""

from __future__ import annotations

import numpy as np

from regfactor._linalg import thin_svd
from regfactor._params import Array
from regfactor.factors import Factors
from regfactor.penalties import Constraint, NonNegative, OneHot, Simplex
from regfactor.problems import Data, Factored


def first_factors(problem: Factored, rng: np.random.Generator) -> Factors:
    """Return feasible factors near the data."""
    if isinstance(problem.on_codes, OneHot):
        return problem.hold(_spread_rows(problem, rng))
    if isinstance(problem.on_codes, Simplex):
        F = _spread_rows(problem, rng)
        return problem.hold(Factors((F.codes + 1 / problem.rank) / 2, F.C))
    U, s, Vt = thin_svd(working_response(problem.data))
    k = problem.rank
    root = np.sqrt(s[:k])
    F = Factors(U[:, :k] * root, root[:, None] * Vt[:k])
    if isinstance(problem.on_codes, NonNegative) or isinstance(problem.on_components, NonNegative):
        F = _positive(F)
    return problem.hold(Factors(_feasible(problem.on_codes, F.codes), _feasible(problem.on_components, F.C)))


def working_response(data: Data) -> Array:
    """Return one Newton step from a constant predictor: the data in its units; at holes the constant."""
    Z = np.full(data.shape, data.neutral, data.dtype)
    bend = data.hessian(Z)
    return Z - np.where(bend > 0, data.gradient(Z) / np.where(bend > 0, bend, 1), 0)


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
