"""Starts of local solvers: truncated SVDs of a Newton step from zero, or spread-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import aslinearoperator, svds

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import (
    orthonormal,
    positive_or_one,
    quotient,
    thin_svd,
    top_eigenpairs,
)
from regfactor.core.params import Array
from regfactor.losses import KL, Gamma, NegativeBinomial, Ordinal, Poisson, Squared
from regfactor.penalties import (
    CodeParts,
    ComponentParts,
    Constraint,
    NonNegative,
    OneHot,
    Penalty,
    Simplex,
    Sum,
)
from regfactor.problems import Data, Factored
from regfactor.problems.layout import Layout
from regfactor.solvers.updates import newton_columns

FULL_SVD_SIZE = 500  # rows or columns up to which leading singular vectors come from a whole SVD
OVERSAMPLING = 5  # additional directions of a rough SVD
POWER_ITERATIONS = 2  # products with X' X of a rough SVD
IMPUTATIONS = 3  # SVDs of a table with missing entries, each of which fills them for the next


def first_factors(problem: Factored, rng: np.random.Generator) -> Factors:
    """Return feasible factors near the data."""
    if isinstance(problem.on_codes, OneHot):
        return problem.hold(_spread_rows(problem, rng))
    if isinstance(problem.on_codes, Simplex):
        F = _spread_rows(problem, rng)
        inside = (F.codes + 1 / problem.rank) / 2
        return problem.hold(Factors(inside, F.C))
    data = problem.data
    k = problem.rank
    if predicts_data(problem):
        U, s, Vt = imputed_svd(data, k)
    else:
        U, s, Vt = leading_svd(working_response(data), k)
    root = np.sqrt(s)
    F = Factors(U * root, root[:, None] * Vt)
    if k > min(data.shape):
        F = _overcomplete(F, k, rng)
    if _has_signs(problem.on_codes) or _has_signs(problem.on_components):
        if not F.rank:  # an all-zero table has no atom to begin with
            n, d = data.shape
            codes = np.zeros((n, k), data.dtype)
            F = Factors(codes, np.zeros((k, d), data.dtype))
        F = _positive(F)
    return _held(problem, F.codes, F.C)


def _held(problem: Factored, codes: Array, C: Array) -> Factors:
    """Return factors made feasible, with what is known of them."""
    codes = _feasible(problem.on_codes, codes)
    C = _feasible(problem.on_components, C)
    return problem.hold(Factors(codes, C))


def first_local(problem: Factored, rng: np.random.Generator) -> FactorPoint:
    """Return feasible factors near the data, given the best offsets and what is known."""
    data = problem.data
    B = None
    without_offsets = problem
    if problem.design is not None:
        D = problem.design.D
        B = np.zeros((D.shape[1], data.shape[1]), data.dtype)
        if not data.rowwise:
            B = newton_columns(problem.weighted, D, B, problem.design.strengths)
        without_offsets = replace(problem, data=data.shifted(D, B), design=None)
    F = first_factors(without_offsets, rng)
    if problem.known_codes is not None and not data.layout.sparse:
        F = _near_known(without_offsets, F)
    return FactorPoint(F, B)


def random_local(problem: Factored, rng: np.random.Generator) -> FactorPoint:
    """Return feasible factors that are random, in the size of those near the data."""
    point = first_local(problem, rng)
    if isinstance(problem.on_codes, OneHot | Simplex):
        return point
    F = point.factors
    codes = _like(F.codes, rng)
    C = _like(F.C, rng)
    if _has_signs(problem.on_codes) or _has_signs(problem.on_components):
        codes = np.abs(codes)
        C = np.abs(C)
    return FactorPoint(_held(problem, codes, C), point.coefficients)


def _like(A: Array, rng: np.random.Generator) -> Array:
    """Return normal numbers of the same mean square."""
    size = np.sqrt(np.square(A).mean())
    return (size * rng.normal(size=A.shape)).astype(A.dtype)


def _overcomplete(F: Factors, k: int, rng: np.random.Generator) -> Factors:
    """Return factors with further components, mixtures of those there are, of codes zero."""
    missing = k - F.rank
    shares = rng.normal(size=(missing, F.rank))
    mixed = shares @ F.C / np.sqrt(max(F.rank, 1))
    codes = np.zeros((len(F.codes), missing), F.C.dtype)
    return F + Factors(codes, mixed.astype(F.C.dtype))


def _near_known(problem: Factored, F: Factors) -> Factors:
    """Return factors that begin with what known codes explain.

    Known columns explain the table first, and free ones the rest of it; rows whose codes are known
    determine components, and these the codes of the others.
    """
    known = problem.known_codes
    assert known is not None
    held = ~np.isnan(known)
    columns = held.all(axis=0)
    rows = held.all(axis=1)
    Y = working_response(problem.data)
    codes = F.codes.copy()
    C = F.C.copy()
    if columns.any():
        K = known[:, columns].astype(Y.dtype)
        C[columns] = np.linalg.lstsq(K, Y)[0]
        free = int((~columns).sum())
        if free:
            U, s, Vt = leading_svd(Y - K @ C[columns], free)
            root = np.sqrt(s)
            places = np.flatnonzero(~columns)[: len(s)]
            codes[:, places] = U * root
            C[places] = root[:, None] * Vt
    elif rows.any():
        C = np.linalg.lstsq(known[rows].astype(Y.dtype), Y[rows])[0]
        codes = np.linalg.lstsq(C.T, Y.T)[0].T
    return _held(problem, codes, C)


def first_point(problem: Factored) -> FactorPoint:
    """Return factors and free coefficients near the data, by regressions and then an SVD.

    Both are in units of the predictor. Singular values are reduced by that of the first atom left
    out, as if it were noise; where the loss is quadratic by alpha, which is exact.
    """
    data = problem.data
    layout = data.layout
    y = _response(problem.weighted)
    w = _weights(problem)
    E = problem.extra_rows
    B = None
    rest = y
    if problem.design is not None:
        B = _regressed(problem.design.D, w, rest, layout)
        rest = rest - layout.apply(problem.design.D, B)
    A = np.zeros((data.shape[0], 0), data.dtype)
    if len(E):
        w_turned = None if w is None else w.T
        A = _regressed(np.ascontiguousarray(E.T), w_turned, rest.T, layout.T).T
        rest = rest - layout.apply(A, E)
    root = np.ones((data.shape[0], 1), data.dtype)
    if problem.row_weights is not None:
        root = np.sqrt(problem.row_weights).astype(data.dtype)[:, None]
    if w is not None:
        rest = np.where(w > 0, rest, 0) * layout.spread_rows(root[:, 0])
    if problem.rank:
        F = _shortened(problem, layout.matrix(rest), root)
    else:
        F = Factors.zeros(*data.shape, data.dtype)
    codes = F.codes
    C = F.C
    if not data.unbounded:
        if B is None:
            base = np.average(y, axis=0, weights=w)
        else:
            base = B[0]
        codes, C, A = _inside(codes, C, A, E, base, B is not None)
    F = Factors(np.hstack([codes, A]), np.vstack([C, E]))
    return FactorPoint(F.astype(data.dtype), B)


def _shortened(problem: Factored, rest: Any, root: Array) -> Factors:
    """Return the leading atoms of what is left to explain, less what noise or the penalty takes."""
    k = problem.rank
    data = problem.data
    if data.quadratic and data.complete:
        U, s, Vt = leading_svd(rest, k)
        s = np.maximum(s - problem.alpha, 0)
    else:
        U, s, Vt = rough_svd(rest, k)
        noise = s[k:].max(initial=0)
        squares = s[:k] ** 2 - noise**2
        s = np.sqrt(np.maximum(squares, 0))
    half = np.sqrt(s)
    found = len(s)
    codes = np.zeros((data.shape[0], k), data.dtype)
    C = np.zeros((k, data.shape[1]), data.dtype)
    codes[:, :found] = U[:, :found] * half / root
    C[:found] = half[:, None] * Vt[:found]
    return Factors(codes, C)


def _response(data: Data) -> Array:
    """Return the data in units of the predictor: log counts, or a Newton step from a constant."""
    y = np.empty(data.entries_shape, data.dtype)
    for t in data.terms:
        if isinstance(t.loss, Poisson | NegativeBinomial):
            z = np.log(t.x + 0.5 * _unit(data.only(t)))
        elif isinstance(t.loss, Gamma):  # around the mean m of a column: -1/m + (x - m)/m^2
            _, means = column_means(data.only(t))
            m = data.layout.spread(means.astype(data.dtype))
            z = (t.x / m - 2) / m
        else:
            zero = np.zeros((1,) * t.x.ndim, data.dtype)  # one predictor serves all entries
            slope = t.loss.gradient(zero, t.x)
            z = -slope / t.loss.hessian(zero, t.x)
        if t.offset is not None:
            z = z - t.offset
        y[..., t.columns] = z
    return y


def _unit(data: Data) -> Array:
    """Return a count of one at the entries: one, or a column's mean positive datum if smaller."""
    t = data.terms[0]
    layout = data.layout
    positive = (t.x > 0) * t.weights
    total = layout.column_sums(positive * t.x)
    weight = layout.column_sums(positive)
    overall = 1.0
    if weight.any():
        overall = total.sum() / weight.sum()
    mean = total / positive_or_one(weight)
    unit = np.where(weight > 0, mean, overall)
    return layout.spread(np.minimum(unit, 1).astype(data.dtype))


def column_means(data: Data) -> tuple[Array, Array]:
    """Return the weight and the mean of every column under one loss, zero if never observed."""
    t = data.terms[0]
    weight = data.layout.column_sums(t.weights)
    total = data.layout.column_sums(t.weigh(t.x))
    return weight, quotient(total, weight)


def loss_of_means(data: Data) -> float:
    """-sum_j w_j f*(0; mean_j) + constant: the loss of the best intercepts alone.

    Losses are linear in the datum, but for x^2/2 in some: then the spread around the means, which
    does not cancel, is added. Under the squared loss offsets are subtracted from the data.
    """
    loss = 0.0
    for part in map(data.only, data.terms):
        (t,) = part.terms
        if isinstance(t.loss, Squared) and t.offset is not None:
            t = replace(t, x=t.target)
            part = replace(part, terms=(t,))
        weight, means = column_means(part)
        seen = weight > 0
        observed = means[seen]
        least = t.loss.conjugate(np.zeros_like(observed), observed)
        loss -= float(weight[seen] @ least)
        if isinstance(t.loss, Squared | Ordinal):
            squares = np.square(t.x - part.layout.spread(means))
            if t.w is not None:
                squares = t.w * squares
            loss += float(squares.sum(dtype=np.float64)) / 2
    return loss


def _weights(problem: Factored) -> Array | None:
    """Return the weights of all entries, those of the rows included; None where all are one."""
    data = problem.weighted
    if all(t.w is None for t in data.terms):
        return None
    # those of rows have stride zero, slow to multiply
    return np.ascontiguousarray(data.collect(lambda t: t.weights))


def _regressed(D: Array, w: Array | None, y: Array, layout: Layout) -> Array:
    """Return weighted least squares coefficients of every column of y on D, zero if unobserved."""
    if w is None and not layout.sparse:
        inverse = np.linalg.pinv(D.astype(np.float64))
        return (inverse @ y).astype(y.dtype, copy=False)
    if w is None:
        w = np.ones_like(y)
    ridge = np.zeros(D.shape[1], D.dtype)
    return layout.solve_columns(D, w, ridge, layout.adjoint(D, w * y))


def _inside(
    codes: Array,
    C: Array,
    A: Array,
    E: Array,
    base: Array,
    intercept: bool,
) -> tuple[Array, Array, Array]:
    """Return factors shortened until every predictor is negative.

    The base is negative: in every column the mean of the data in units of the predictor. Without an
    intercept the first atom is the base.
    """
    moving = slice(None)
    if not intercept:
        moving = slice(1, None)
        level = np.sqrt(np.abs(base).max())
        codes[:, 0] = level
        C[0] = base / level
    Z = codes[:, moving] @ C[moving] + A @ E
    largest = float((Z / -base).max())
    share = 1.0 if largest <= 0.9 else 0.9 / largest
    root = np.sqrt(share)
    codes[:, moving] *= root
    C[moving] *= root
    return codes, C, A * share


def rough_svd(X: Any, k: int) -> tuple[Array, Array, Array]:
    """Return k or more leading singular triplets by a randomized range (Halko et al. 2011).

    The random numbers are only multiplied by X' X, so that a repeated row and a row of weight two
    have the same start.
    """
    n, d = X.shape
    width = min(k + OVERSAMPLING, n, d)
    probe = np.random.default_rng(0).standard_normal((d, width)).astype(X.dtype)
    for _ in range(POWER_ITERATIONS):
        probe = orthonormal(X.T @ (X @ probe))
    Q = orthonormal(X @ probe)
    U, s, Vt = thin_svd((X.T @ Q).T)
    return Q @ U, s, Vt


def working_response(data: Data) -> Any:
    """Return the data in units of the predictor: one Newton step from a constant."""
    Z = np.full(data.entries_shape, data.neutral, data.dtype)
    step = quotient(data.gradient(Z), data.hessian(Z))
    return data.layout.matrix(Z - step)


def predicts_data(problem: Factored) -> bool:
    """Whether both factors are non-negative and their product is in the units of the data."""
    penalties = (problem.on_codes, problem.on_components)
    if not all(isinstance(penalty, NonNegative) for penalty in penalties):
        return False
    return all(isinstance(t.loss, Squared | KL) for t in problem.data.terms)


def leading_svd(X: Any, k: int) -> tuple[Array, Array, Array]:
    """Return the k leading singular triplets of an array or of a linear operator."""
    n, d = X.shape
    size = min(n, d)
    if size > FULL_SVD_SIZE and 4 * k < size:
        # ones would miss a centered table
        probe = np.random.default_rng(0).standard_normal(max(n, d)).astype(X.dtype)
        if not np.any(X @ probe[:d]):
            left = np.eye(n, k, dtype=X.dtype)
            right = np.eye(k, d, dtype=X.dtype)
            return left, np.zeros(k, X.dtype), right
        U, s, Vt = svds(X, k=k, v0=probe[:size])
        return U[:, ::-1], s[::-1], Vt[::-1]
    if not isinstance(X, np.ndarray):
        X = X @ np.eye(d, dtype=X.dtype)
    U, s, Vt = thin_svd(X)
    return U[:, :k], s[:k], Vt[:k]


def svd_by_gram(X: Array, k: int) -> tuple[Array, Array, Array]:
    """Return the k leading singular triplets to half of the precision, by the Gram matrix."""
    n, d = X.shape
    if n < d:
        V, s, Ut = svd_by_gram(X.T, k)
        return Ut.T, s, V.T
    if d <= FULL_SVD_SIZE and k < d:
        squares, V = top_eigenpairs(X.T @ X, k)
        if squares[0] > np.sqrt(np.finfo(X.dtype).eps) * squares[-1]:
            s = np.sqrt(squares[::-1])
            V = V[:, ::-1]
            return (X @ V) / s, s, V.T
    return leading_svd(X, k)


def imputed_svd(data: Data, k: int) -> tuple[Array, Array, Array]:
    """Return the leading singular triplets of the data's non-negative part.

    Missing entries start as row effect times column mean, and are filled again by the triplets
    found (Troyanskaya et al. 2001). A sparse table stays sparse.
    """
    x = data.collect(lambda t: np.maximum(t.target, 0))
    if data.complete:
        return svd_by_gram(x, k)
    w = data.collect(lambda t: t.weights)
    layout = data.layout
    weighted = w * x
    means = quotient(layout.column_sums(weighted), layout.column_sums(w))
    columns = means.astype(x.dtype)
    expected = w * layout.spread(columns)
    effects = quotient(layout.row_sums(weighted), layout.row_sums(expected))
    rows = effects.astype(x.dtype)
    F = Factors(rows[:, None], columns[None])
    whole = not layout.sparse and bool((w > 0).all())
    for _ in range(1 if whole else IMPUTATIONS):
        residuals = x - layout.apply(F.codes, F.C)
        beyond = np.where(w > 0, residuals, 0)
        U, s, Vt = leading_svd(_sum(layout, beyond, F), k)
        F = Factors(U * s, Vt)
    return U, s, Vt


def _sum(layout: Layout, entries: Array, F: Factors) -> Any:
    """Return the matrix of entries plus Z, a linear operator if the layout is sparse."""
    if not layout.sparse:
        return entries + F.dense()
    product = aslinearoperator(F.codes) @ aslinearoperator(F.C)
    return aslinearoperator(layout.matrix(entries)) + product


def _positive(F: Factors) -> Factors:
    """Return factors without zeros, which multiplicative losses could never leave."""
    return Factors(_raised(np.abs(F.codes)), _raised(np.abs(F.C)))


def _raised(A: Array) -> Array:
    """Return positive entries, a hundredth of their mean above those given."""
    return A + 0.01 * A.mean() + 1e-12


def _spread_rows(problem: Factored, rng: np.random.Generator) -> Factors:
    """Choose rows of the data as components by k-means++ under the loss itself."""
    data = problem.data
    middle = np.full(data.shape, data.neutral, data.dtype)
    rows = middle + data.newton_displacement(middle)
    least = data.row_values(rows)
    n = len(rows)
    chosen = [int(rng.integers(n))]
    losses = []
    while True:
        row = rows[chosen[-1]]
        losses.append(data.row_values(np.broadcast_to(row, data.shape)))
        if len(chosen) == problem.rank:
            break
        closest = np.min(losses, axis=0)
        excess = np.maximum(closest - least, 0)
        share = np.full(n, 1 / n)
        if excess.sum() > 0:
            share = excess / excess.sum()
        chosen.append(int(rng.choice(n, p=share)))
    nearest = np.argmin(losses, axis=0)
    codes = np.eye(problem.rank, dtype=data.dtype)[nearest]
    return Factors(codes, _feasible(problem.on_components, rows[chosen]))


def _feasible(penalty: Penalty, A: Array) -> Array:
    if isinstance(penalty, Constraint):
        return penalty.project(A)
    _, rest = penalty.split()
    if isinstance(rest, Sum | CodeParts | ComponentParts):
        return rest.prox(A, 0.0)
    return A


def _has_signs(penalty: Penalty) -> bool:
    """Return whether entries are kept from below zero, and from nothing else."""
    with_signs = isinstance(penalty, NonNegative | Sum | CodeParts | ComponentParts)
    return with_signs and penalty.non_negative
