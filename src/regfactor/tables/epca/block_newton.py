"""Newton sweeps over row blocks of a sparse table: codes by rows, components by sums over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regfactor.core.batched_newton import (
    ALLOWED_RISE,
    MAX_SHORTENINGS,
    SHORTENING,
    Expansion,
    improve_columns,
)
from regfactor.core.factors import FactorPoint
from regfactor.core.line_search import backtrack_each
from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.problems import Data
from regfactor.solvers.base import Solver
from regfactor.solvers.newton import SMALLEST_EXCESS, FreeFactors
from regfactor.tables.epca.block_start import first_point
from regfactor.tables.epca.count_blocks import BlockedFactored

# Relative rounding error of a sum of log likelihoods, by the size of a number in bytes.
SUM_ROUNDING = {8: 1e-9, 4: 2e-6}


@dataclass
class NewtonSums:
    """Sums over rows, by columns: losses, gradients in [C; B], upper triangles of the Hessians."""

    costs: Array
    gradient: Array
    grams: Array

    @staticmethod
    def zeros(width: int, d: int) -> NewtonSums:
        """Return sums of no rows; `width` is the number of coefficients of a column."""
        n_pairs = width * (width + 1) // 2
        return NewtonSums(np.zeros(d), np.zeros((width, d)), np.zeros((n_pairs, d)))

    def add(self, D: Array, at: Expansion, weights: Array | None) -> None:
        """Add rows with regressors D, the expansion of their losses, and their weights."""
        value, gradient, hessian = at
        first, second = np.triu_indices(D.shape[1])
        pairs = D[:, first] * D[:, second]
        if weights is None:
            self.costs += value.sum(axis=0, dtype=np.float64)
        else:
            by_row = weights.astype(D.dtype)[:, None]
            self.costs += weights @ value
            D = D * by_row
            pairs = pairs * by_row
        self.gradient += D.T @ gradient
        self.grams += pairs.T @ hessian


@dataclass
class BlockNewton(Solver):
    """Each sweep takes one Newton step in all columns of [C; B], then one in every row of [Phi, A].

    The pass over blocks of rows that improves the codes gives the sums of which the next step of
    the components is made. Alternating regressions as in fastglmpca (Weine, Carbonetto and
    Stephens 2024), with the whole Hessian of a row or column in place of coordinate descent.
    """

    sparse = True
    solves = BlockedFactored

    def iterates(
        self,
        problem: BlockedFactored,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield the start, then the point after every sweep.

        A change is measured against the excess of the objective over what the data alone allow.
        """
        counts = problem.counts
        least = counts.infimum
        state = _started(problem, start or first_point(problem))
        sums = _summed(problem, state)
        floor = max(
            SMALLEST_EXCESS * (counts.loss_of_means - least),
            SUM_ROUNDING[counts.dtype.itemsize] * float(np.abs(sums.costs).sum()),
        )
        while True:
            objective = _objective(problem, state, sums)
            point = state.point(len(state.B) > 0)
            yield Iterate(point, objective, scale=max(objective - least, floor))
            state = _improved_components(problem, state, sums)
            state = state.balanced(counts.row_weights, free_design=True)
            state, sums = _improved_codes(problem, state)


def _started(problem: BlockedFactored, start: FactorPoint) -> FreeFactors:
    d = problem.counts.shape[1]
    dtype = problem.counts.dtype
    n_levels = int(problem.levels)
    F = start.factors.astype(dtype)
    k = F.rank - n_levels
    D = problem.free_terms
    B = np.zeros((D.shape[1], d), dtype)
    if start.coefficients is not None:
        B = start.coefficients.astype(dtype)
    E = np.ones((n_levels, d), dtype)
    return FreeFactors(D, E, F.codes[:, :k], F.C[:k], F.codes[:, k:], B)


def _objective(problem: BlockedFactored, state: FreeFactors, sums: NewtonSums) -> float:
    on_codes = problem.counts.weights @ np.square(state.Phi).sum(axis=1, dtype=np.float64)
    squares = float(on_codes + np.square(state.C).sum(dtype=np.float64))
    return float(sums.costs.sum()) + problem.alpha / 2 * squares


def _ridge(problem: BlockedFactored, k: int, free: int) -> Array:
    return np.repeat([problem.alpha, 0.0], [k, free]).astype(problem.counts.dtype)


def _block_weights(problem: BlockedFactored, rows: slice) -> Array | None:
    weights = problem.counts.row_weights
    if weights is None:
        return None
    return weights[rows]


def _summed(problem: BlockedFactored, state: FreeFactors) -> NewtonSums:
    """Return the sums over rows at the present factors."""
    fixed = np.hstack([state.Phi, state.D])
    sums = NewtonSums.zeros(fixed.shape[1], problem.counts.shape[1])
    left = state.left
    right = state.right
    for rows, data in problem.counts.blocks():
        at = data.expansion(left[rows] @ right)
        sums.add(fixed[rows], at, _block_weights(problem, rows))
    return sums


def _column_costs(problem: BlockedFactored, left: Array, right: Array) -> Array:
    """Return the losses of columns, summed over rows."""
    costs = np.zeros(right.shape[1])
    for rows, data in problem.counts.blocks():
        values = data.expansion(left[rows] @ right)[0]
        weights = _block_weights(problem, rows)
        if weights is None:
            costs += values.sum(axis=0, dtype=np.float64)
        else:
            costs += weights @ values
    return costs


def _improved_components(
    problem: BlockedFactored,
    state: FreeFactors,
    sums: NewtonSums,
) -> FreeFactors:
    """Take a Newton step in the columns of [C; B]; one that raises its column is shortened."""
    k = len(state.C)
    ridge = _ridge(problem, k, len(state.B))[:, None].astype(np.float64)
    CB = np.vstack([state.C, state.B]).astype(np.float64)
    if not len(CB):
        return state
    gradient = sums.gradient + ridge * CB
    step = _newton_steps(sums.grams, ridge[:, 0], gradient)
    before = sums.costs + (ridge * CB * CB).sum(axis=0) / 2
    allowed = before + ALLOWED_RISE[state.C.dtype.itemsize] * np.abs(before)
    lengths = np.ones(CB.shape[1])
    trial = CB
    left = state.left

    def accepts(searched: Array, tried: Array) -> Array:
        nonlocal trial
        lengths[searched] = tried
        trial = CB - lengths * step
        right = np.vstack([trial[:k], state.E, trial[k:]]).astype(left.dtype)
        costs = _column_costs(problem, left, right)
        after = costs + (ridge * trial * trial).sum(axis=0) / 2
        return (after <= allowed)[searched]

    _, failed = backtrack_each(accepts, lengths, factor=SHORTENING, max_attempts=MAX_SHORTENINGS)
    if len(failed):
        trial[:, failed] = CB[:, failed]
    new = trial.astype(state.C.dtype)
    return replace(state, C=new[:k], B=new[k:])


def _newton_steps(grams: Array, ridge: Array, gradient: Array) -> Array:
    """Solve (H_j + diag(ridge)) step_j = gradient_j, given the upper triangles of all H_j."""
    m, d = gradient.shape
    first, second = np.triu_indices(m)
    H = np.empty((d, m, m))
    H[:, first, second] = grams.T
    H[:, second, first] = grams.T
    H += np.diag(ridge)
    # a direction only: jitter keeps columns without information solvable
    precision = np.finfo(float)
    jitter = precision.eps * np.trace(H, axis1=1, axis2=2) + precision.tiny**0.5
    H += jitter[:, None, None] * np.eye(m)
    step = np.linalg.solve(H, gradient.T[:, :, None])[:, :, 0].T
    return np.where(np.isfinite(step), step, 0)


def _improved_codes(
    problem: BlockedFactored,
    state: FreeFactors,
) -> tuple[FreeFactors, NewtonSums]:
    """Take a Newton step in every row of [Phi, A], and sum over the rows where it leads.

    A row's weight multiplies its penalty too, so that it cancels.
    """
    k = len(state.C)
    fixed = np.vstack([state.C, state.E])
    ridge = _ridge(problem, k, len(state.E))
    codes = np.hstack([state.Phi, state.A])
    found = np.empty_like(codes)
    n_columns = state.Phi.shape[1] + state.D.shape[1]
    sums = NewtonSums.zeros(n_columns, problem.counts.shape[1])
    for rows, data in problem.counts.blocks():
        D = state.D[rows]
        improved, at = _improved_block(data, codes[rows], D, fixed, state.B, ridge)
        found[rows] = improved
        regressors = np.hstack([improved[:, :k], D])
        sums.add(regressors, at, _block_weights(problem, rows))
    return replace(state, Phi=found[:, :k], A=found[:, k:]), sums


def _improved_block(
    data: Data,
    codes: Array,
    D: Array,
    fixed: Array,
    B: Array,
    ridge: Array,
) -> tuple[Array, Expansion]:
    """Return the codes of a block after a Newton step, and the expansion of the losses there."""
    right = np.vstack([fixed, B])
    at = data.expansion(np.hstack([codes, D]) @ right)
    if not len(fixed):
        return codes, at
    value, first, second = at
    spare = np.empty_like(value), np.empty_like(first), np.empty_like(second)

    def expand(turned: Array) -> Expansion:
        found = data.expansion(np.hstack([turned.T, D]) @ right, spare)
        return found[0].T, found[1].T, found[2].T

    turned, new = improve_columns(
        expand,
        (value.T, first.T, second.T),
        np.ascontiguousarray(fixed.T),
        codes.T,
        ridge,
        data.layout.T,
    )
    value, first, second = new
    return turned.T, (value.T, first.T, second.T)
