"""Where a large convex problem begins.

Leading directions of its gradient, then alternating ridge regressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.linalg import orthonormal
from regfactor.core.params import Array
from regfactor.penalties import SquaredL2
from regfactor.problems import Convex
from regfactor.problems.design import shifted
from regfactor.problems.gradient_operator import GradientOperator
from regfactor.solvers.updates import newton_rows, update_components

N_DIRECTIONS = 24  # of the gradient that are computed
# a direction counts as an atom if it is larger than the last one by this factor
MIN_RATIO = 1.25
EXTRA_ATOMS = 4  # given to the sweeps in addition to those


def first_atoms(
    G: GradientOperator,
    alpha: float,
    curvature: float,
    max_rank: int | None,
    random: np.random.Generator,
) -> Factors:
    """Return the leading directions of a gradient at zero, about as large as atoms will be.

    They are those that stand out; where the rank is limited, as many as are allowed and stronger
    than the penalty.
    """
    width = min(N_DIRECTIONS if max_rank is None else max_rank + EXTRA_ATOMS, *G.shape)
    block = random.normal(size=(G.shape[1], width)).astype(G.entries.dtype)
    for _ in range(2):
        block = orthonormal(G.adjoint(orthonormal(G @ block)))
    left = orthonormal(G @ block)
    U, s, Vt = np.linalg.svd(G.adjoint(left).T, full_matrices=False)
    least = alpha
    if max_rank is None:
        least = max(MIN_RATIO * s[-1], alpha)
    strong = int((s > least).sum()) + EXTRA_ATOMS
    k = min(strong, len(s), max_rank or len(s))
    shrunk = (s[:k] - alpha) / curvature
    root = np.sqrt(np.maximum(shrunk, 0.1 * s[:k] / curvature))
    return Factors(-(left @ U[:, :k]) * root, root[:, None] * Vt[:k])


def sweep(
    problem: Convex,
    F: Factors,
    B: Array | None,
    e: Any,
    alpha: float,
) -> tuple[Factors, Array | None]:
    """Minimize over codes, components and free coefficients in turn, under balanced ridges."""
    rows = problem.map.diagonal
    data = shifted(problem.data, problem.design, B)
    # only a start: the ridges of rows that a map scales are taken to be equal
    Phi = newton_rows(data, F.codes * rows, F.C * e, SquaredL2(), alpha)
    C = update_components(data, Phi, F.C * e, SquaredL2(), alpha)
    F = Factors(Phi / rows, C / e)
    return F, problem.coefficients_step(problem.mapped(Factors(F.Phi, F.C * e)), B)
