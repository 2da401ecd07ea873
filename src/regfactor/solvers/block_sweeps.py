"""Sweeps over the blocks of a table: exact codes, then better components and offsets.

Alternating ridge regressions, one pass over the table each. The Gram matrix of the residuals, which
the same pass adds up, shows directions that are missing among the components, and proves the bound.
Where a few sweeps do not end, small atoms near the noise remain, which regressions turn and resize
only slowly; proximal gradient steps, whose components follow from the same sums, then take over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regfactor.core.linalg import positive_or_one
from regfactor.core.loop import Iterate
from regfactor.core.params import EPS, SMALLEST_NORMAL, Array
from regfactor.problems.block_squares import BlockPoint, BlockSquares, BlockSums
from regfactor.solvers.base import Solver

N_DIRECTIONS = 24  # of the first residuals that are looked at
MIN_RATIO = 1.25  # a direction counts as an atom if it is larger than the last by this factor
EXTRA_ATOMS = 4  # that are added in addition, and after each pass
TINY_ATOM = 1e-9  # share of the largest singular value below which a component is dropped
MIN_NEW_PART = 0.5  # length of a new direction outside of the components
MAX_SWEEPS = 6  # before proximal steps
# of a proximal step in units of 1 / mean curvature: a mask acts on incoherent matrices like its
# density, and codes that are then minimized lengthen the step
FIRST_STEP = 0.4
SETTLED_SWEEPS = 3  # with less than the tolerance of change, after which a limited rank has ended


@dataclass
class BlockSweeps(Solver):
    """Sweeps until the gap is proven; `max_rank` limits the number of components."""

    tol: float = 1e-4
    max_rank: int | None = None
    solves: ClassVar[type] = BlockSquares
    from_limits = ("tol", "max_rank")

    def iterates(
        self,
        problem: BlockSquares,
        start: BlockPoint | None,
    ) -> Iterator[Iterate[BlockPoint]]:
        """Yield the point of every pass, with its bound."""
        d = len(problem.center)
        b = problem.center
        C = self._with_atoms(problem, np.zeros((0, d)), problem.null_sums)
        if start is not None and len(start.C):
            C = start.C
            b = start.b
        last = np.inf
        unchanged = 0
        step = 1.0
        passes = 0
        while True:
            sums = problem.sums(C, b)
            limited = self.max_rank is not None and len(C) >= self.max_rank
            value = sums.loss + problem.alpha / 2 * (np.trace(sums.moments) + np.vdot(C, C))
            unchanged += 1
            if last - value > self.tol * abs(value):
                unchanged = 0
            if value > last:
                step /= 2
            last = value
            settled = limited and unchanged >= SETTLED_SWEEPS
            yield problem.iterate(C, b, sums, settled=settled, rank_limited=limited)
            passes += 1
            if passes > MAX_SWEEPS and not limited:
                C, b = proximal(problem, C, b, sums, step * FIRST_STEP)
                C = C[: self.max_rank]
                continue
            old = C
            C, b = improved(problem, C, b, sums)
            C = resized(problem, C, BlockPoint(old, b, sums.moments), sums, step)
            C = self._with_atoms(problem, C, sums)

    def _with_atoms(self, problem: BlockSquares, C: Array, sums: BlockSums) -> Array:
        """Return the components with directions in which residuals are stronger than alpha.

        The first of a complete table are all; of others, those that stand out.
        """
        squares, V = np.linalg.eigh(np.triu(sums.gram), UPLO="U")
        sizes = np.sqrt(np.maximum(squares[::-1], 0))
        strong = sizes > problem.alpha * (1 + self.tol / 2)
        room = C.shape[1] - len(C)
        if problem.density < 1:
            least = MIN_RATIO * sizes[min(N_DIRECTIONS, len(sizes)) - 1]
            standing_out = 0
            if not len(C):
                standing_out = int((sizes > least).sum())
            room = min(room, standing_out + EXTRA_ATOMS + len(C) // 4)
        if self.max_rank is not None:
            room = min(room, self.max_rank - len(C))
        V = V[:, ::-1][:, strong].T
        sizes = sizes[strong]
        if len(C):
            basis = np.linalg.qr(C.T)[0]
            V = V - (V @ basis) @ basis.T
            lengths = np.linalg.norm(V, axis=1)
            new = lengths > MIN_NEW_PART
            V = V[new] / lengths[new, None]
            sizes = sizes[new]
        room = max(room, 0)
        grown = np.sqrt((sizes[:room] - problem.alpha) / problem.density)
        return np.vstack([C, grown[:, None] * V[:room]])


def proximal(
    problem: BlockSquares,
    C: Array,
    b: Array,
    sums: BlockSums,
    step: float,
) -> tuple[Array, Array]:
    """Return the components of prox(Z - t G), t the step per mean curvature, and better offsets.

    Singular values and right vectors of W = Z - t G are those of W'W = Z'Z - t (Z'G + G'Z) +
    t^2 G'G, all of which the pass has added up: Z'G = C' Phi'G, and the equations of the columns
    hold Phi'G. Codes of W are not needed, as those that the next pass finds are no worse.
    """
    t = step / problem.density
    k = len(C)
    first, second = np.triu_indices(k + 1)
    inner = second < k
    equations = np.zeros((len(b), k, k))
    equations[:, first[inner], second[inner]] = sums.equations[:, inner]
    equations[:, second[inner], first[inner]] = sums.equations[:, inner]
    pull = np.einsum("jab,bj->aj", equations, C) - sums.right[:, :k].T
    moments = sums.moments
    if problem.fit_intercept:
        # the mean of the codes is free in the offsets, and costs in Z
        mean = sums.codes / sums.total
        b = b + mean @ C - step * sums.offsets / positive_or_one(problem.count)
        moments = moments - sums.total * np.outer(mean, mean)
        pull = pull - np.outer(mean, sums.offsets)
    gram = np.triu(sums.gram)
    gram = gram + np.triu(gram, 1).T
    cross = C.T @ pull
    squares, V = np.linalg.eigh(C.T @ moments @ C - t * (cross + cross.T) + t * t * gram)
    sizes = np.sqrt(np.maximum(squares[::-1], 0)) - t * problem.alpha
    kept = sizes > 0
    return np.sqrt(sizes[kept])[:, None] * V[:, ::-1].T[kept], b


def resized(
    problem: BlockSquares,
    C: Array,
    before: BlockPoint,
    sums: BlockSums,
    step: float,
) -> Array:
    """Return components of which the small ones have the sizes of a proximal step.

    An atom of size s along a direction v changes by (|G v| - alpha) / h, G the residuals at the
    point before and h the curvature of the loss along it. Regressions in turn multiply s by
    (|G v| / alpha)^2 instead, which is slow for s below alpha / h: such atoms would neither grow
    nor vanish.
    """
    lengths = np.linalg.norm(C, axis=1)
    V = C / lengths[:, None]
    gram = np.triu(sums.gram)
    gram = gram + np.triu(gram, 1).T
    pulls = np.sqrt(np.maximum(np.einsum("kj,kj->k", V @ gram, V), 0))
    along = before.C @ V.T
    sizes = np.sqrt(np.maximum(np.einsum("ik,ik->k", along, before.moments @ along), 0))
    curvatures = curvatures_along(problem, along, V, sums) / np.maximum(sizes**2, SMALLEST_NORMAL)
    curvatures = np.where(sizes > 0, curvatures, problem.density)
    proximal = sizes + step * (pulls - problem.alpha) / curvatures
    small = lengths**2 < problem.alpha / (2 * curvatures)
    new = np.where(small, np.maximum(proximal, 0), lengths**2)
    kept = new > 0
    return np.sqrt(new[kept])[:, None] * V[kept]


def curvatures_along(problem: BlockSquares, codes: Array, V: Array, sums: BlockSums) -> Array:
    """Return the sum of w (u_i v_j)^2 over observed entries for each u = Phi codes_k, v = V_k.

    It is the curvature of the loss along an atom: near the density for atoms that are spread over
    the table, and up to one for those of few columns.
    """
    k = len(codes)
    first, second = np.triu_indices(k + 1)
    inner = second < k
    twice = np.where(first[inner] == second[inner], 1.0, 2.0)
    squares = codes[first[inner]] * codes[second[inner]] * twice[:, None]
    of_columns = sums.equations[:, inner] @ squares
    return np.asarray(np.einsum("kj,jk->k", np.square(V), of_columns))


def improved(
    problem: BlockSquares,
    C: Array,
    b: Array,
    sums: BlockSums,
) -> tuple[Array, Array]:
    """Return the best components and offsets for the codes of a pass, balanced against these."""
    k = len(C)
    m = k + 1
    upper = np.triu_indices(m)
    equations = np.zeros((len(b), m, m))
    equations[:, upper[0], upper[1]] = sums.equations
    equations[:, upper[1], upper[0]] = sums.equations
    places = np.arange(k)
    equations[:, places, places] += problem.alpha
    if not problem.fit_intercept:
        equations = equations[:, :k, :k]
    width = equations.shape[1]
    if not width:
        return C, b
    diagonal = np.arange(width)
    jitter = EPS * np.trace(equations, axis1=1, axis2=2) + problem.alpha * EPS
    equations[:, diagonal, diagonal] += jitter[:, None]
    found = np.linalg.solve(equations, sums.right[:, :width, None])[:, :, 0]
    if problem.fit_intercept:
        b = b + np.where(problem.count > 0, found[:, -1], 0)
    C = found[:, :k].T
    moments = sums.moments
    if problem.fit_intercept:
        # the mean of the codes is free in the offsets, and costs in Z
        mean = sums.codes / sums.total
        b = b + mean @ C
        moments = moments - sums.total * np.outer(mean, mean)
    s, Vt = BlockPoint(C, b, moments).spectrum
    kept = s > TINY_ATOM * s.max(initial=0)
    return np.sqrt(s[kept])[:, None] * Vt[kept], b
