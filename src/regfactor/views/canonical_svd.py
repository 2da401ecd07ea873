"""Canonical directions of two tables: the problem, its point, and its solution in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regfactor.core.linalg import leading_vectors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, frozen
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver
from regfactor.views.pair import Products, TablePair, WhitenedPair


@frozen
class CanonicalPoint:
    """Pairs of canonical directions A of X and B of Y, and the tables that were whitened."""

    A: Array
    B: Array
    pair: WhitenedPair


@frozen
class CanonicalDirections(Problem[CanonicalPoint]):
    """min over A, B of -tr(A'X'Y B) with A'(X'X + ridge I)A = I and B'(Y'Y + ridge I)B = I.

    Of the tables about their means, `products` holds X'X, Y'Y and X'Y where they are finite and no
    table has more columns than rows.
    """

    solvers = ("regfactor.views.canonical_svd:CanonicalSvd",)

    tables: TablePair
    products: Products | None
    n_components: int
    ridge: float
    scale: bool


@dataclass
class CanonicalSvd(Solver):
    """The leading singular vectors of X'Y between whitened tables, in one step."""

    solves = CanonicalDirections

    def iterates(
        self,
        problem: CanonicalDirections,
        start: CanonicalPoint | None,
    ) -> Iterator[Iterate[CanonicalPoint]]:
        """Yield the optimum."""
        pair = None
        if problem.products is not None:
            pair = WhitenedPair.by_products(problem.products, problem.ridge)
        if pair is None:
            pair = WhitenedPair.by_tables(problem.tables, problem.ridge, problem.scale)
        M = pair.tables.cross(pair.A, pair.B)
        U, V = leading_vectors(M, problem.n_components)
        point = CanonicalPoint(pair.A @ U, pair.B @ V, pair)
        yield Iterate(point, -float(np.vdot(U, M @ V)))
