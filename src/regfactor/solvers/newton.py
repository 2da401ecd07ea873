"""Sweeps of one Newton step for all codes and one for all components, under ridges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from regfactor.core.batched_newton import Expansion, improve_columns
from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, frozen
from regfactor.losses import Bregman, GammaLog, NegativeBinomial, Squared, Weibull
from regfactor.penalties import Free, SquaredL2
from regfactor.problems import Data, Factored
from regfactor.solvers.starts import loss_of_means

# losses whose second derivative is positive everywhere
CURVED = (Bregman, GammaLog, NegativeBinomial, Squared, Weibull)
# share of the excess of column means: the least excess against which a change is measured
SMALLEST_EXCESS = 1e-3


@frozen
class FreeFactors:
    """Z = Phi C + A E + D B; D and E are given, and empty where they are absent."""

    D: Array
    E: Array
    Phi: Array
    C: Array
    A: Array
    B: Array

    @property
    def left(self) -> Array:
        """[Phi, A, D], so that Z = left @ right."""
        return np.hstack([self.Phi, self.A, self.D])

    @property
    def right(self) -> Array:
        """[C; E; B]."""
        return np.vstack([self.C, self.E, self.B])

    def point(self, design: bool) -> FactorPoint:
        """Return the point of a problem with or without a free term D B."""
        codes = np.hstack([self.Phi, self.A])
        F = Factors(codes, np.vstack([self.C, self.E]))
        return FactorPoint(F, self.B if design else None)

    def balanced(self, row_weights: Array | None, free_design: bool) -> Self:
        """Return the same Z in the factors of least ridges: as much as possible in free terms.

        A design under a penalty of its own takes over nothing.
        """
        Phi = self.Phi
        C = self.C
        A = self.A
        B = self.B
        root: Any = 1.0
        if row_weights is not None:
            root = np.sqrt(row_weights.astype(Phi.dtype))[:, None]
        if self.D.shape[1] and free_design:
            share = np.linalg.lstsq(self.D * root, Phi * root)[0]
            Phi = Phi - self.D @ share
            B = B + share @ C
        if len(self.E):
            share = np.linalg.lstsq(self.E.T, C.T)[0].T
            C = C - share @ self.E
            A = A + Phi @ share
        F = rebalance(Factors(Phi * root, C))
        return replace(self, Phi=F.codes / root, C=F.C, A=A, B=B)


@frozen
class NewtonState(FreeFactors):
    """Factors with the expansion of the loss there, and memory for the next one."""

    at: Expansion
    spare: Expansion


def is_newtonian(problem: Factored) -> bool:
    """Whether both halves of a sweep are Newton steps that the same pass over the data serves.

    Losses with flat stretches need damped steps, and quadratic ones without free terms have exact
    updates.
    """
    data = problem.data
    free = problem.known_codes is None and problem.known_components is None
    ridges = all(isinstance(p, SquaredL2 | Free) for p in (problem.on_codes, problem.on_components))
    losses = [t.loss for t in data.terms]
    curved = all(isinstance(f, CURVED) and not f.rowwise for f in losses)
    plain = data.quadratic and problem.design is None and problem.extra_components is None
    return free and ridges and curved and not plain


def newton_sweeps(problem: Factored, start: FactorPoint) -> Iterator[Iterate[FactorPoint]]:
    """Yield the start, then the point after every sweep: components and B, balance, codes and A.

    The pass over the data that tests a step gives the derivatives of the next one, so that a sweep
    costs two passes. A change is measured against the excess of the objective over what the data
    alone allow: half a deviance. Where the fit is nearly perfect a share of the excess of column
    means takes its place, which is in the units of the data too.
    """
    whole = problem.weighted
    least = whole.infimum
    state = _started(problem, start)
    floor = max(SMALLEST_EXCESS * (loss_of_means(whole) - least), _rounding(problem.data, state.at))
    while True:
        objective = _objective(problem, state)
        point = state.point(problem.design is not None)
        yield Iterate(point, objective, scale=max(objective - least, floor))
        state = _balanced(problem, _improved_components(problem, state))
        state = _improved_codes(problem, state)


def _rounding(data: Data, at: Expansion) -> float:
    """Return the rounding error of the excess: of squared residuals or of log-likelihoods."""
    eps = float(np.finfo(data.dtype).eps)
    if data.quadratic:
        squares = sum(np.square(t.x).sum(dtype=np.float64) for t in data.terms)
        return (16 * eps) ** 2 * float(squares)
    return max(1e-9, 16 * eps) * float(np.abs(at[0]).sum(dtype=np.float64))


def _started(problem: Factored, start: FactorPoint) -> NewtonState:
    data = problem.data
    E = problem.extra_rows
    if problem.design is None:
        D = np.zeros((data.shape[0], 0), data.dtype)
    else:
        D = problem.design.D
    F = start.factors.astype(data.dtype)
    B = start.coefficients
    k = F.rank - len(E)
    if B is None:
        B = np.zeros((D.shape[1], F.shape[1]), D.dtype)
    else:
        B = B.astype(D.dtype, copy=False)
    Phi = F.codes[:, :k]
    A = F.codes[:, k:]
    C = F.C[:k]
    P = data.layout.apply(np.hstack([F.codes, D]), np.vstack([C, E, B]))
    at = data.expansion(P)
    value, first, second = (np.empty_like(part) for part in at)
    return NewtonState(D, E, Phi, C, A, B, at, (value, first, second))


def _improved_components(problem: Factored, state: NewtonState) -> NewtonState:
    """Take a Newton step in the columns of [C; B]."""
    data = problem.data
    weights = _entry_weights(problem)
    k = len(state.C)
    fixed = np.hstack([state.Phi, state.D])
    ridge = _ridge(problem, problem.on_components, k, len(state.B))
    if problem.design is not None:
        ridge[k:] = problem.design.strengths

    with_codes = np.hstack([fixed, state.A])

    def expand(CB: Array) -> Expansion:
        P = data.layout.apply(with_codes, np.vstack([CB, state.E]))
        return _weigh(data.expansion(P, state.spare), weights)

    CB = np.vstack([state.C, state.B])
    at = _weigh(state.at, weights)
    CB, new = improve_columns(expand, at, fixed, CB, ridge, data.layout)
    new = _weigh(new, None if weights is None else 1 / weights)
    return replace(
        state,
        C=CB[:k],
        B=CB[k:],
        at=new,
        spare=state.at,
    )


def _improved_codes(problem: Factored, state: NewtonState) -> NewtonState:
    """Take a Newton step in the rows of [Phi, A].

    A row's weight multiplies its penalty too, so that it cancels.
    """
    data = problem.data
    k = len(state.C)
    fixed = np.vstack([state.C, state.E])

    with_coefficients = np.vstack([fixed, state.B])

    def expand(codes: Array) -> Expansion:
        P = data.layout.apply(np.hstack([codes.T, state.D]), with_coefficients)
        return _turned(data.expansion(P, state.spare))

    codes = np.hstack([state.Phi, state.A]).T
    ridge = _ridge(problem, problem.on_codes, k, len(state.E))
    turned = np.ascontiguousarray(fixed.T)
    codes, new = improve_columns(
        expand,
        _turned(state.at),
        turned,
        codes,
        ridge,
        data.layout.T,
    )
    Phi = codes[:k].T
    A = codes[k:].T
    return replace(
        state,
        Phi=Phi,
        A=A,
        at=_turned(new),
        spare=state.at,
    )


def _balanced(problem: Factored, state: NewtonState) -> NewtonState:
    """Return the same Z in the factors of least ridges, where both have one."""
    penalties = (problem.on_codes, problem.on_components)
    if not all(isinstance(penalty, SquaredL2) for penalty in penalties):
        return state
    free_design = problem.design is not None and not problem.design.strengths.any()
    return state.balanced(problem.row_weights, free_design)


def _objective(problem: Factored, state: NewtonState) -> float:
    on_codes = problem.on_codes.rows(state.Phi)
    rows = problem.data.layout.row_sums(state.at[0]) + problem.alpha * on_codes
    total = float(rows.sum() if problem.row_weights is None else problem.row_weights @ rows)
    return total + problem.alpha * problem.on_components.value(state.C)


def _ridge(problem: Factored, penalty: object, k: int, free: int) -> Array:
    strength = problem.alpha if isinstance(penalty, SquaredL2) else 0.0
    return np.repeat([strength, 0.0], [k, free]).astype(problem.data.dtype)


def _entry_weights(problem: Factored) -> Array | None:
    """Return the weights of rows, spread over their entries."""
    data = problem.data
    if problem.row_weights is None:
        return None
    return data.layout.spread_rows(problem.row_weights.astype(data.dtype))


def _weigh(at: Expansion, weights: Array | None) -> Expansion:
    """Multiply an expansion by weights in place."""
    if weights is not None:
        for part in at:
            part *= weights
    return at


def _turned(at: Expansion) -> Expansion:
    """Return an expansion for the transposed layout; a sparse table keeps its order."""
    return at[0].T, at[1].T, at[2].T
