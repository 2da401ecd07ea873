"""Codes of rows under losses with kinks and a ridge, all rows at once, to full precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse

from regfactor.core.line_search import SUFFICIENT_DECREASE, backtrack_each
from regfactor.core.loop import Clock
from regfactor.core.params import Array
from regfactor.problems import Data
from regfactor.problems.data import Term
from regfactor.problems.layout import Dense

ADMM_STEPS = 100  # cheap ones, which find most of the kinks
RELAXATION = 1.6
# widths of the envelopes, as shares of the typical size of the data
ENVELOPE_WIDTHS = (1e-2, 1e-4, 1e-6, 1e-8)
MAX_NEWTON_STEPS = 60  # in one envelope
MAX_HALVINGS = 30  # of one step
BLOCK_ELEMENTS = 500_000  # numbers of a sparse table that are held densely at once
COST_ROUNDING = 1e-14  # relative


def minimize_rows(
    data: Data,
    Phi: Array,
    C: Array,
    ridge: Array,
    clock: Clock | None = None,
) -> Array:
    """Return codes that minimize L(Phi C) + sum ridge Phi^2 / 2; rows that do not improve stay.

    The proximal point method in the dual (Rockafellar 1976): the loss gives way to its Moreau
    envelope of width s at z + s y, around the last multiplier y. That is smooth, so that Newton's
    method serves all rows at once; and unlike an envelope around zero, its fixed point is the
    minimum of the loss itself. When the time of a clock is up, the codes found so far count.
    """
    clock = clock or Clock(None)
    if data.layout.sparse:
        height = max(BLOCK_ELEMENTS // data.shape[1], 1)
        blocks = [slice(start, start + height) for start in range(0, data.shape[0], height)]
        parts = [minimize_rows(_as_table(data, at), Phi[at], C, ridge, clock) for at in blocks]
        return np.concatenate(parts)
    if clock.expired:
        return Phi
    exact = data.astype(np.float64)
    C64 = C.astype(np.float64)
    codes, Y = _split(exact, C64, ridge, clock)
    for share in ENVELOPE_WIDTHS:
        near = _enveloped(exact, share, Y)
        codes = _newton(near, codes, C64, ridge, clock)
        Y = near.gradient(codes @ C64)
    before = _costs(exact, Phi.astype(np.float64), C64, ridge)
    better = _costs(exact, codes, C64, ridge) <= before
    return np.where(better[:, None], codes, Phi).astype(Phi.dtype, copy=False)


def _split(data: Data, C: Array, ridge: Array, clock: Clock) -> tuple[Array, Array]:
    """Return codes and multipliers after some steps of ADMM from zero, with one factorization."""
    rho = np.empty(data.shape[1])
    for t in data.terms:
        heaviest = 1.0
        if t.w is not None:
            heaviest = float(t.w.max()) or 1.0
        rho[t.columns] = heaviest / _size(t)
    scaled = C * rho
    solve = scaled.T @ np.linalg.pinv(scaled @ C.T + np.diag(ridge), hermitian=True)
    P = np.zeros(data.shape)
    U = P
    codes = np.zeros((data.shape[0], len(C)))
    for _ in range(ADMM_STEPS):
        relaxed = RELAXATION * data.prox(P - U, rho) + (1 - RELAXATION) * P
        codes = (relaxed + U) @ solve
        P = codes @ C
        U = U + relaxed - P
        if clock.expired:
            break
    return codes, data.feasible(-rho * U)


def _enveloped(data: Data, share: float, Y: Array) -> Data:
    """Return the data under Moreau envelopes of losses at z + s y, s = share size / w."""

    def one(t: Term) -> Term:
        if t.loss.smooth:
            return t
        width = share * _size(t)
        shift = width * t.in_units(t.part(Y))
        return replace(t.shifted(shift), loss=t.loss.smoothed(width))

    return data.mapped(one)


def _newton(
    data: Data,
    codes: Array,
    C: Array,
    ridge: Array,
    clock: Clock,
) -> Array:
    """Minimize a smooth loss over every row until it has converged."""
    codes = codes.copy()
    active = np.arange(len(codes))
    for _ in range(MAX_NEWTON_STEPS):
        if clock.expired:
            break
        codes[active], converged = _newton_step(data.of_rows(active), codes[active], C, ridge)
        active = active[~converged]
        if not len(active):
            break
    return codes


def _newton_step(data: Data, codes: Array, C: Array, ridge: Array) -> tuple[Array, Array]:
    """Return the codes after a Newton step, shortened in every row until it lowers the cost.

    The second result marks the rows that have converged: no step lowers them by more than rounding.
    """
    Z = codes @ C
    gradient = data.gradient(Z) @ C.T + codes * ridge
    step = data.layout.T.solve_columns(C.T, data.hessian(Z).T, ridge, gradient.T).T
    costs = _costs(data, codes, C, ridge)
    rounding = COST_ROUNDING * np.abs(costs)
    decrease = (gradient * step).sum(axis=1)
    new = codes.copy()

    def lowers(rows: Array, lengths: Array) -> Array:
        trial = codes[rows] - lengths[:, None] * step[rows]
        required = SUFFICIENT_DECREASE * lengths * decrease[rows]
        most = costs[rows] - required + rounding[rows]
        lower = _costs(data.of_rows(rows), trial, C, ridge) <= most
        new[rows[lower]] = trial[lower]
        return lower

    _, failed = backtrack_each(lowers, np.ones(len(codes)), max_attempts=MAX_HALVINGS)
    converged = decrease <= rounding
    converged[failed] = True
    return new, converged


def _costs(data: Data, codes: Array, C: Array, ridge: Array) -> Array:
    return data.row_values(codes @ C) + np.square(codes) @ ridge / 2


def _as_table(data: Data, rows: slice) -> Data:
    """Return some rows of sparse data as a table with weight zero where nothing is stored."""

    def dense(entries: Array) -> Array:
        table = scipy.sparse.csr_array(data.layout.matrix(entries))
        return table[rows].toarray()

    t = data.terms[0]
    t = replace(t, w=t.weights).mapped(dense)
    return Data((t,), t.x.shape, Dense(t.x.shape))


def _size(t: Term) -> float:
    """Return the median nonzero distance of the data from the offset, one if all are zero."""
    distances = np.abs(t.target)
    distances = distances[(distances > 0) & (t.weights > 0)]
    if distances.size:
        return float(np.median(distances))
    return 1.0
