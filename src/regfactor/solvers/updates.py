"""Steps that improve one factor while the other is fixed and never raise the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.batched_newton import minimize_columns, newton_step
from regfactor.core.line_search import backtrack_each
from regfactor.core.loop import Clock
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties import (
    NonNegative,
    OneHot,
    Penalty,
    Proximable,
)
from regfactor.problems import Data
from regfactor.solvers.nonnegative import Side, improve, minimize, side_of_codes, side_of_components

PROXIMAL_STEPS = 10  # proximal steps on one factor before the other has its turn
CONVERGED_STEP = 1e-11  # relative size of a step below which a proximal iteration has converged


def update_codes(
    data: Data,
    Phi: Array,
    C: Array,
    penalty: Penalty,
    alpha: float,
    steps: int = PROXIMAL_STEPS,
    clock: Clock | None = None,
) -> Array:
    """Return better codes for given components; the steps end when the time of a clock is up."""
    if clock is not None and clock.expired:
        return Phi
    if isinstance(penalty, OneHot):
        return assign_rows(data, Phi, C)
    if not data.smooth:
        raise _kinked(data)
    if isinstance(penalty, NonNegative):
        side = side_of_codes(data, C)
        if side is not None:
            return _non_negative(side, Phi.T, steps, clock).T
    if penalty.ridge is not None and data.unbounded and not data.rowwise:
        return newton_rows(data, Phi, C, penalty, alpha, clock)
    block = FactorBlock(
        lambda A: A @ C,
        lambda G: G @ C.T,
        data.row_values,
        data.inside,
        lambda A: A.sum(axis=1),
    )
    if not penalty.rowwise:
        block = _whole(data, block.predict, block.adjoint)
    curvature = _curvature(data, Phi @ C, C)
    return proximal_steps(block, data, Phi, penalty, alpha, curvature, steps, clock)


def update_held_codes(
    data: Data,
    Phi: Array,
    C: Array,
    penalty: Penalty,
    alpha: float,
    known: Array,
    steps: int = PROXIMAL_STEPS,
) -> Array:
    """Return better codes with known ones, which are not NaN, held.

    Rows without a known code are updated as ever, rows of known codes left as they are.
    """
    held: Any = ~np.isnan(known)
    free = ~held.any(axis=1)
    mixed = held.any(axis=1) & ~held.all(axis=1)
    if not penalty.rowwise:
        free[:] = False
        mixed[:] = True
    Phi = Phi.copy()
    if free.any():
        part = data.of_rows(np.flatnonzero(free))
        Phi[free] = update_codes(part, Phi[free], C, penalty, alpha, steps)
    if mixed.any():
        kept = Held(penalty, known[mixed])
        part = data.of_rows(np.flatnonzero(mixed))
        Phi[mixed] = update_codes(part, Phi[mixed], C, kept, alpha, steps)
    return Phi


class Held(Proximable):
    """A penalty of a factor of which some entries are known."""

    def __init__(self, penalty: Penalty, known: Array) -> None:
        self.penalty = penalty
        self.known = known
        self.rowwise = penalty.rowwise
        self.convex = penalty.convex

    def rows(self, A: Array) -> Array:
        return self.penalty.rows(A)

    def value(self, A: Array) -> float:
        return self.penalty.value(A)

    def prox(self, A: Array, t: float | Array) -> Array:
        stepped = _require_prox(self.penalty).prox(A, t)
        return np.where(np.isnan(self.known), stepped, self.known).astype(A.dtype)

    def split(self) -> tuple[Any, Penalty]:
        smooth, rest = self.penalty.split()
        return smooth, Held(rest, self.known)


def update_components(
    data: Data,
    Phi: Array,
    C: Array,
    penalty: Penalty,
    alpha: float,
    steps: int = PROXIMAL_STEPS,
) -> Array:
    """Return better components for given codes, column by column where the penalty allows it."""
    if not data.smooth:
        raise _kinked(data)
    if penalty.entrywise and not data.rowwise:
        C = C.copy()
        for t in data.terms:
            # columns as they stand: nothing is turned
            if data.layout.sparse and penalty.ridge is not None:
                ridge = np.broadcast_to(np.asarray(alpha * penalty.ridge, C.dtype), len(C))
                return newton_columns(data, Phi, C, ridge)
            part = data.only(t)
            B = C[:, t.columns]
            if isinstance(penalty, NonNegative):
                side = side_of_components(part, Phi)
            else:
                side = None
            if side is not None:
                C[:, t.columns] = _non_negative(side, B, steps)
            else:
                C[:, t.columns] = update_codes(part.T, B.T, Phi.T, penalty, alpha, steps).T
        return C
    block = _whole(data, lambda A: Phi @ A, lambda G: Phi.T @ G)
    curvature = _curvature(data, Phi @ C, Phi)
    return proximal_steps(block, data, C, penalty, alpha, curvature, steps)


def update_held_components(
    data: Data,
    Phi: Array,
    C: Array,
    penalty: Penalty,
    alpha: float,
    known: Array,
) -> Array:
    """Return better components with known ones, which are not NaN, held."""
    if penalty.entrywise and not data.rowwise:
        C = C.copy()
        for t in data.terms:
            part = data.only(t).T
            B = C[:, t.columns].T
            held = known[:, t.columns].T
            C[:, t.columns] = update_held_codes(part, B, Phi.T, penalty, alpha, held).T
        return C
    return update_components(data, Phi, C, Held(penalty, known), alpha)


def _whole(
    data: Data,
    predict: Callable[[Array], Array],
    adjoint: Callable[[Array], Array],
) -> FactorBlock:
    """Return a factor that is updated as one, since its penalty or the loss couples its rows."""
    return FactorBlock(
        predict,
        adjoint,
        lambda Z: data.row_values(Z).sum(keepdims=True),
        lambda Z: np.asarray(data.inside(Z).all(keepdims=True)),
        lambda A: A.sum(keepdims=True)[0],
    )


def _non_negative(side: Side, B: Array, steps: int, clock: Clock | None = None) -> Array:
    """Improve a factor in one sweep among many, or minimize where more steps are asked for."""
    if steps <= PROXIMAL_STEPS:
        return improve(side, B)
    return minimize(side, B, clock)


def newton_rows(
    data: Data,
    Phi: Array,
    C: Array,
    penalty: Penalty,
    alpha: float,
    clock: Clock | None = None,
) -> Array:
    """Minimize over all rows at once by damped Newton: ridge regression for the squared loss."""
    ridge = np.broadcast_to(np.asarray(alpha * penalty.ridge, C.dtype), len(C))
    if data.complete and data.quadratic:
        return _ridge_regression(-data.gradient(np.zeros(data.shape, data.dtype)), C, ridge)
    D = np.ascontiguousarray(C.T)
    if data.layout.sparse:
        return newton_columns(data.T, D, Phi.T, ridge, clock).T
    if data.quadratic:
        Z = Phi @ C
        return newton_step(data.gradient(Z).T, data.hessian(Z).T, D, Phi.T, ridge, data.layout.T).T

    def evaluate(columns: Array) -> tuple[Array, Array, Array]:
        values, g, h = data.expansion(columns.T @ C)
        return data.layout.row_sums(values), g.T, h.T

    majorant = data.majorant().T
    return minimize_columns(evaluate, D, Phi.T, ridge, majorant, data.layout.T, clock).T


def newton_columns(
    data: Data,
    D: Array,
    B: Array,
    ridge: Array,
    clock: Clock | None = None,
) -> Array:
    """Minimize over the columns of B in L(D B) + ridge."""
    if data.quadratic:
        Z = data.layout.apply(D, B)
        return newton_step(
            data.gradient(Z),
            data.hessian(Z),
            D,
            B,
            ridge,
            data.layout,
        )

    def evaluate(B: Array) -> tuple[Array, Array, Array]:
        values, g, h = data.expansion(data.layout.apply(D, B))
        return data.layout.column_sums(values), g, h

    return minimize_columns(evaluate, D, B, ridge, data.majorant(), data.layout, clock)


def assign_rows(data: Data, Phi: Array, C: Array) -> Array:
    """Give every row to the component with the least loss, the assignment step of k-means."""
    losses = np.stack([data.row_values(np.broadcast_to(c, data.shape)) for c in C], axis=1)
    rows = np.arange(len(Phi))
    current = Phi.argmax(axis=1)
    best = losses.argmin(axis=1)
    # ties keep their component
    best = np.where(losses[rows, best] < losses[rows, current], best, current)
    return np.eye(len(C), dtype=Phi.dtype)[best]


@dataclass(frozen=True)
class FactorBlock:
    """One factor alone: prediction, gradient, and the parts its objective separates into."""

    predict: Callable[[Array], Array]
    adjoint: Callable[[Array], Array]
    values: Callable[[Array], Array]
    inside: Callable[[Array], Array]
    reduce: Callable[[Array], Array]


def proximal_steps(
    block: FactorBlock,
    data: Data,
    A: Array,
    penalty: Penalty,
    alpha: float,
    curvature: float,
    steps: int,
    clock: Clock | None = None,
) -> Array:
    """Take accelerated proximal steps with restarts; parts that end worse than before are reset.

    Under a penalty that is not convex steps have no momentum, so that none is worse than the last.
    """
    graph, rest = penalty.split()
    prox = _require_prox(rest)

    def cost(A: Array) -> Array:
        values = block.values(block.predict(A))
        return values + alpha * _part_costs(penalty, A, len(values))

    def gradient(A: Array) -> Array:
        G = block.adjoint(data.gradient(block.predict(A)))
        if graph is None:
            return G
        return G + alpha * graph.gradient(A)

    def smooth(A: Array) -> Array:
        values = block.values(block.predict(A))
        if graph is None:
            return values
        return values + alpha * _part_costs(graph, A, len(values))

    first = cost(A)
    if graph is not None:
        curvature += alpha * graph.curvature
    # steps of a line search never get as small
    smallest_step = CONVERGED_STEP if np.isfinite(data.curvature) else 1e3 * CONVERGED_STEP
    curvatures = np.full(len(first), curvature, A.dtype)
    now = A
    ahead = A
    t = np.ones(len(first), A.dtype)
    for _ in range(steps):
        G = gradient(ahead)
        if np.isfinite(data.curvature):  # the bound holds everywhere: no step needs to be tried
            new = prox.prox(ahead - G / curvatures[:, None], alpha / curvatures)
        else:
            new, curvatures = _searched_step(block, smooth, ahead, G, curvatures, prox, alpha)
        change = new - now
        # a part that turned back restarts
        t = np.where(block.reduce((ahead - new) * change) > 0, 1, t)
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        further = new
        if penalty.convex:
            further = new + ((t - 1) / t_next)[:, None] * change
        converged = np.abs(change).max(initial=0) <= smallest_step * np.abs(new).max(initial=0)
        now = new
        t = t_next
        if data.unbounded:
            ahead = further
        else:
            ahead = np.where(block.inside(block.predict(further))[:, None], further, new)
        if converged or (clock is not None and clock.expired):
            break
    return np.where((cost(now) <= first)[:, None], now, A)


def _searched_step(
    block: FactorBlock,
    smooth: Callable[[Array], Array],
    V: Array,
    G: Array,
    curvatures: Array,
    penalty: Proximable,
    alpha: float,
) -> tuple[Array, Array]:
    """Step every part, doubling its curvature until the quadratic model bounds the loss."""
    value = smooth(V)
    curvatures = curvatures.copy()
    new = V

    def is_bounded(parts: Array, doubled: Array) -> Array:
        nonlocal new
        curvatures[parts] = doubled
        new = penalty.prox(V - G / curvatures[:, None], alpha / curvatures)
        change = new - V
        model = value + block.reduce(G * change) + curvatures / 2 * block.reduce(change * change)
        bounded = smooth(new) <= model + 1e-10 * np.abs(model)
        return bounded[parts]

    backtrack_each(is_bounded, curvatures, factor=2.0)
    return new, curvatures


def _ridge_regression(X: Array, C: Array, ridge: Array) -> Array:
    """Return the (shortest) rows of codes that minimize |X - Phi C|^2 / 2 + ridge."""
    gram = C @ C.T + np.diag(ridge)
    return np.asarray((np.linalg.pinv(gram, hermitian=True) @ (C @ X.T)).T, X.dtype)


def _part_costs(penalty: Any, A: Array, parts: int) -> Array:
    if parts == 1:
        return np.array([penalty.value(A)])
    return penalty.rows(A)


def _curvature(data: Data, Z: Array, held: Array) -> float:
    """Return a first guess of the curvature along a factor; steps are checked anyway."""
    curvature = data.curvature
    if not np.isfinite(curvature):
        curvature = float(np.median(data.hessian(Z)))
    size = 0.0
    if held.size:
        size = float(np.linalg.norm(held, 2)) ** 2
    if 0 < curvature * size < np.inf:
        return curvature * size
    return 1.0


def _kinked(data: Data) -> UnsupportedProblem:
    kinked = next(t.loss for t in data.terms if not t.loss.smooth)
    return UnsupportedProblem(
        f"Factor updates need a smooth loss, and {kinked} has kinks. Use 'huber' or "
        "'smoothed_l1' for 'absolute', 'smoothed_hinge' for 'hinge', or the convex problem "
        "(gauge=Trace())."
    )


def _require_prox(penalty: Penalty) -> Proximable:
    if isinstance(penalty, Proximable):
        return penalty
    raise UnsupportedProblem(
        f"{penalty} has neither a ridge form nor a prox, so its factor cannot be updated. Give it "
        "the ability Proximable.prox of regfactor/penalties/factor.py."
    )
