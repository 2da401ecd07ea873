"""Starts of local solvers: truncated SVDs of a Newton step from zero, or spread-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import aslinearoperator, svds

from regfactor.core.batched_newton import solve_columns
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import orthonormal, thin_svd
from regfactor.core.params import Array
from regfactor.losses import KL, Gamma, Ordinal, Poisson, Squared
from regfactor.losses.base import EVERYTHING
from regfactor.penalties import Constraint, NonNegative, OneHot, Simplex
from regfactor.problems import Data, Factored
from regfactor.problems.layout import Layout

SMALL = 500  # rows or columns up to which the leading singular vectors are taken from a whole SVD
# directions beside those wanted, and products with X' X, of a rough SVD
BESIDE = 5
POWERS = 2
IMPUTATIONS = 3  # SVDs of a table with missing entries, each of which fills them for the next


def first_factors(problem: Factored, rng: np.random.Generator) -> Factors:
    """Return feasible factors near the data."""
    if isinstance(problem.on_codes, OneHot):
        return problem.hold(_spread_rows(problem, rng))
    if isinstance(problem.on_codes, Simplex):
        F = _spread_rows(problem, rng)
        return problem.hold(Factors((F.codes + 1 / problem.rank) / 2, F.C))
    data = problem.data
    k = problem.rank
    if predicts_data(problem):
        U, s, Vt = imputed_svd(data, k)
    else:
        U, s, Vt = leading_svd(working_response(data), k)
    root = np.sqrt(s)
    F = Factors(U * root, root[:, None] * Vt)
    if isinstance(problem.on_codes, NonNegative) or isinstance(problem.on_components, NonNegative):
        if not F.rank:  # an all-zero table has no atom to begin with
            F = Factors(np.zeros((data.shape[0], k)), np.zeros((k, data.shape[1]))).astype(
                data.dtype,
            )
        F = _positive(F)
    return problem.hold(
        Factors(_feasible(problem.on_codes, F.codes), _feasible(problem.on_components, F.C)),
    )


def first_point(problem: Factored) -> FactorPoint:
    """Return factors and free coefficients near the data in units of the predictor.

    Regressions, then an SVD.

    Singular values are shortened by that of the first atom left out, as if it were noise; where the
    loss is quadratic by alpha, which is exact.
    """
    layout = problem.data.layout
    data = problem.data
    k = problem.rank
    y = _response(problem.weighted)
    w = _weights(problem)
    if problem.extra_components is None:
        E = np.zeros((0, data.shape[1]), data.dtype)
    else:
        E = problem.extra_components
    B = None
    rest = y
    if problem.design is not None:
        B = _regressed(problem.design.D, w, rest, layout)
        rest = rest - layout.apply(problem.design.D, B)
    A = np.zeros((data.shape[0], 0), data.dtype)
    if len(E):
        A = _regressed(np.ascontiguousarray(E.T), None if w is None else w.T, rest.T, layout.T).T
        rest = rest - layout.apply(A, E)
    root = np.ones((data.shape[0], 1), data.dtype)
    if problem.row_weights is not None:
        root = np.sqrt(problem.row_weights).astype(data.dtype)[:, None]
    if w is not None:
        rest = np.where(w > 0, rest, 0) * layout.spread_rows(root[:, 0])
    if k:
        F = _shortened(problem, layout.matrix(rest), root)
    else:
        F = Factors.zeros(*data.shape, data.dtype)
    codes = F.codes
    C = F.C
    if not data.unbounded:
        base = np.average(y, axis=0, weights=w) if B is None else B[0]
        codes, C, A = _inside(codes, C, A, E, base, B is not None)
    return FactorPoint(Factors(np.hstack([codes, A]), np.vstack([C, E])).astype(data.dtype), B)


def _shortened(problem: Factored, rest: Any, root: Array) -> Factors:
    """Return the leading atoms of what is left to explain, less what noise or the penalty takes."""
    k = problem.rank
    data = problem.data
    exact = data.quadratic and all(t.w is None for t in data.terms) and not data.layout.sparse
    U, s, Vt = (leading_svd if exact else rough_svd)(rest, k)
    if exact:
        s = np.maximum(s - problem.alpha, 0)
    else:
        s = np.sqrt(np.maximum(s[:k] ** 2 - s[k:].max(initial=0) ** 2, 0))
    half = np.sqrt(s)
    codes = np.zeros((data.shape[0], k), data.dtype)
    C = np.zeros((k, data.shape[1]), data.dtype)
    codes[:, : len(s)] = U[:, : len(s)] * half / root
    C[: len(s)] = half[:, None] * Vt[: len(s)]
    return Factors(codes, C)


def _response(data: Data) -> Array:
    """Return the data in units of the predictor, at the entries.

    Log counts, else one Newton step from a constant.
    """
    y = np.empty(data.terms[0].x.shape if data.layout.sparse else data.shape, data.dtype)
    for t in data.terms:
        at = ... if t.columns is EVERYTHING else (slice(None), t.columns)
        if isinstance(t.loss, Poisson):
            z = np.log(t.x + 0.5 * _unit(data.only(t)))
        elif isinstance(t.loss, Gamma):  # around the mean m of a column: -1/m + (x - m)/m^2
            m = data.layout.spread(column_means(data.only(t))[1].astype(data.dtype))
            z = (t.x / m - 2) / m
        else:
            zero = np.zeros((1,) * t.x.ndim, data.dtype)  # one predictor serves all entries
            z = -t.loss.gradient(zero, t.x) / t.loss.hessian(zero, t.x)
        y[at] = z if t.offset is None else z - t.offset
    return y


def _unit(data: Data) -> Array:
    """Return what a count of one is, at the entries.

    One, or where data are smaller the mean of a column's positive.
    """
    t = data.terms[0]
    layout = data.layout
    positive = (t.x > 0) * (t.x.dtype.type(1) if t.w is None else t.w)
    total = layout.column_sums(positive * t.x)
    weight = layout.column_sums(positive)
    overall = total.sum() / weight.sum() if weight.any() else 1.0
    unit = np.where(weight > 0, total / np.where(weight > 0, weight, 1), overall)
    return layout.spread(np.minimum(unit, 1).astype(data.dtype))


def column_means(data: Data) -> tuple[Array, Array]:
    """Return the weight of every column and its mean, zero where nothing is observed.

    For one loss on all columns.
    """
    t = data.terms[0]
    layout = data.layout
    weight = layout.column_sums(
        np.broadcast_to(t.x.dtype.type(1) if t.w is None else t.w, t.x.shape),
    )
    return weight, _mean(layout.column_sums(t.x if t.w is None else t.w * t.x), weight)


def loss_of_means(data: Data) -> float:
    """Return the loss of the best intercepts where nothing is added to them.

    -sum_j w_j f*(0; mean_j) + constant.

    Losses are linear in the datum, but for x^2/2 in some: then the spread around the means, which
    does not cancel. Under the squared loss offsets may be added: they are taken off the data.
    """
    loss = 0.0
    for part in map(data.only, data.terms):
        (t,) = part.terms
        if isinstance(t.loss, Squared) and t.offset is not None:
            t = replace(t, x=t.x - t.offset)
            part = replace(part, terms=(t,))
        weight, means = column_means(part)
        seen = weight > 0
        loss -= float(weight[seen] @ t.loss.conjugate(np.zeros_like(means[seen]), means[seen]))
        if isinstance(t.loss, Squared | Ordinal):
            apart = np.square(t.x - part.layout.spread(means))
            loss += float((apart if t.w is None else t.w * apart).sum(dtype=np.float64)) / 2
    return loss


def _weights(problem: Factored) -> Array | None:
    """Return the weights of all entries, those of the rows included; None where all are one."""
    data = problem.weighted
    if all(t.w is None for t in data.terms):
        return None
    # those of rows have stride zero, slow to multiply
    return np.ascontiguousarray(data.collect(lambda t: t.weights))


def _regressed(D: Array, w: Array | None, y: Array, layout: Layout) -> Array:
    """Return the weighted least squares coefficients of every column of y on D.

    Zero where nothing is observed.
    """
    if w is None and not layout.sparse:
        return np.asarray(np.linalg.pinv(D.astype(np.float64)) @ y, y.dtype)
    w = np.ones_like(y) if w is None else w
    return solve_columns(D, w, np.zeros(D.shape[1], D.dtype), layout.adjoint(D, w * y), layout)


def _inside(
    codes: Array,
    C: Array,
    A: Array,
    E: Array,
    base: Array,
    intercept: bool,
) -> tuple[Array, Array, Array]:
    """Return factors shortened until every predictor is negative.

    Without an intercept the first atom is the base.

    The base is negative: in every column the mean of the data in units of the predictor.
    """
    moving = slice(0 if intercept else 1, None)
    if not intercept:
        level = np.sqrt(np.abs(base).max())
        codes[:, 0] = level
        C[0] = base / level
    Z = codes[:, moving] @ C[moving] + A @ E
    most = float((Z / -base).max())
    share = 1.0 if most <= 0.9 else 0.9 / most
    codes[:, moving] *= np.sqrt(share)
    C[moving] *= np.sqrt(share)
    return codes, C, A * share


def rough_svd(X: Any, k: int) -> tuple[Array, Array, Array]:
    """Return k or more leading singular triplets by a randomized range (Halko et al. 2011).

    Only products of X' X meet the random numbers, so that a row twice and a row of weight two begin
    alike.
    """
    n, d = X.shape
    width = min(k + BESIDE, n, d)
    probe = np.random.default_rng(0).standard_normal((d, width)).astype(X.dtype)
    for _ in range(POWERS):
        probe = orthonormal(X.T @ (X @ probe))
    Q = orthonormal(X @ probe)
    U, s, Vt = thin_svd(np.asarray(X.T @ Q).T)
    return Q @ U, s, Vt


def working_response(data: Data) -> Any:
    """Return one Newton step from a constant predictor: the data in its units.

    At holes the constant, or nothing.
    """
    Z = np.full(
        data.terms[0].x.shape if data.layout.sparse else data.shape,
        data.neutral,
        data.dtype,
    )
    bend = data.hessian(Z)
    return data.layout.matrix(
        Z - np.where(bend > 0, data.gradient(Z) / np.where(bend > 0, bend, 1), 0),
    )


def predicts_data(problem: Factored) -> bool:
    """Whether both factors are non-negative and their product is in the units of the data."""
    penalties = isinstance(problem.on_codes, NonNegative) and isinstance(
        problem.on_components,
        NonNegative,
    )
    return penalties and all(isinstance(t.loss, Squared | KL) for t in problem.data.terms)


def leading_svd(X: Any, k: int) -> tuple[Array, Array, Array]:
    """Return the k leading singular triplets of an array or of a linear operator."""
    n, d = X.shape
    if min(n, d) > SMALL and 4 * k < min(n, d):
        # ones would miss a centered table
        probe = np.random.default_rng(0).standard_normal(max(n, d)).astype(X.dtype)
        if not np.any(X @ probe[:d]):
            return np.eye(n, k, dtype=X.dtype), np.zeros(k, X.dtype), np.eye(k, d, dtype=X.dtype)
        U, s, Vt = svds(X, k=k, v0=probe[: min(n, d)])
        return U[:, ::-1], s[::-1], Vt[::-1]
    U, s, Vt = thin_svd(X if isinstance(X, np.ndarray) else X @ np.eye(X.shape[1], dtype=X.dtype))
    return U[:, :k], s[:k], Vt[:k]


def imputed_svd(data: Data, k: int) -> tuple[Array, Array, Array]:
    """Return the leading singular triplets of the data's non-negative part.

    A sparse table stays sparse.

    Holes begin as row effect times column mean, and are filled again by the triplets found
    (Troyanskaya et al. 2001).
    """
    x, w = _positive_part(data)
    layout = data.layout
    columns = _mean(layout.column_sums(w * x), layout.column_sums(w)).astype(x.dtype)
    rows = _mean(layout.row_sums(w * x), layout.row_sums(w * layout.spread(columns))).astype(
        x.dtype,
    )
    F = Factors(rows[:, None], columns[None])
    whole = not layout.sparse and bool((w > 0).all())
    for _ in range(1 if whole else IMPUTATIONS):
        beyond = np.where(w > 0, x - layout.apply(F.codes, F.C), 0)
        U, s, Vt = leading_svd(_sum(layout, beyond, F), k)
        F = Factors(U * s, Vt)
    return U, s, Vt


def _positive_part(data: Data) -> tuple[Array, Array]:
    """Return max(x - offset, 0) and the weights at the entries of a table."""
    x = data.collect(lambda t: np.maximum(t.x if t.offset is None else t.x - t.offset, 0))
    return x, data.collect(lambda t: t.weights)


def _sum(layout: Layout, entries: Array, F: Factors) -> Any:
    """Return the matrix of entries plus Z.

    An array, or a linear operator if the layout is sparse.
    """
    if not layout.sparse:
        return entries + F.dense()
    return aslinearoperator(layout.matrix(entries)) + aslinearoperator(F.codes) @ aslinearoperator(
        F.C,
    )


def _mean(total: Array, weight: Array) -> Array:
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1), 0)


def _positive(F: Factors) -> Factors:
    """Return factors without zeros, which multiplicative losses could never leave."""
    Phi = np.abs(F.codes)
    C = np.abs(F.C)
    return Factors(Phi + 0.01 * Phi.mean() + 1e-12, C + 0.01 * C.mean() + 1e-12)


def _spread_rows(problem: Factored, rng: np.random.Generator) -> Factors:
    """Choose rows of the data as components by k-means++ under the loss itself."""
    data = problem.data
    middle = np.full(data.shape, data.neutral, data.dtype)
    rows = middle + data.newton_displacement(middle)
    least = data.row_values(rows)
    chosen = [int(rng.integers(len(rows)))]
    losses = [data.row_values(np.broadcast_to(rows[chosen[0]], data.shape))]
    while len(chosen) < problem.rank:
        excess = np.maximum(np.min(losses, axis=0) - least, 0)
        if excess.sum() > 0:
            share = excess / excess.sum()
        else:
            share = np.full(len(rows), 1 / len(rows))
        chosen.append(int(rng.choice(len(rows), p=share)))
        losses.append(data.row_values(np.broadcast_to(rows[chosen[-1]], data.shape)))
    codes = np.eye(problem.rank, dtype=data.dtype)[np.argmin(losses, axis=0)]
    return Factors(codes, _feasible(problem.on_components, rows[chosen]))


def _feasible(penalty: object, A: Array) -> Array:
    if isinstance(penalty, Constraint):
        return penalty.project(A)
    return A
