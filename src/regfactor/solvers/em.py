"""Soft Bregman clustering: EM for mixtures of exponential families at any sharpness."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, UnsupportedProblem, require_positive
from regfactor.losses.distances import Affine, Divergence
from regfactor.problems.clusters import Clusters, small_blocks
from regfactor.solvers.base import Solver
from regfactor.solvers.lloyd import weighted_median
from regfactor.solvers.seeding import taken

SMALLEST = float(np.finfo(np.float64).tiny)


def log_joint(D: Array, p: Array, sharpness: float) -> Array:
    """log p_j - sharpness D_ij."""
    return np.log(np.maximum(p, SMALLEST)) - sharpness * D


@dataclass
class Mixture(Solver):
    """EM on -sum_i w_i log sum_j p_j exp(-sharpness D(x_i, m_j)).

    Responsibilities and means use the same weights w, without which the objective can rise (White &
    Schuurmans 2012, algorithm 4 as printed). With sharpness 1 and the family's own potential this
    is exact EM.
    """

    sharpness: float = 1.0
    sparse = True

    def __post_init__(self) -> None:
        require_positive(self, sharpness=self.sharpness)

    def check(self, problem: Clusters) -> None:
        if not isinstance(problem, Clusters):
            raise UnsupportedProblem("Mixture is for Clusters.")

    def iterates(self, problem: Clusters, start: FactorPoint | None) -> Iterator[Iterate[Any]]:
        """Yield proportions (as the only row of codes) and means, with the objective at them."""
        assert start is not None, "Mixture needs proportions and means to start from"
        (p,) = start.factors.codes
        M = start.factors.C
        divergence = problem.started.at(start.coefficients)
        for step in itertools.count():
            value, masses, new = self._sweep(problem, divergence, p, M)
            point = FactorPoint(Factors(p[None], M), divergence.parameters)
            # what the parameters of a divergence cost depends on the units of the data
            unit = max(abs(value - self.sharpness * divergence.extra(problem.mass)), problem.mass)
            yield Iterate(point, value, steps=min(step, 1), scale=unit)
            M = np.where(masses[:, None] > SMALLEST, new, M)
            p = masses / problem.mass
            divergence = divergence.refitted(problem.tally, M - problem.anchor, masses)

    def joint(self, problem: Any, at: slice, D: Array, p: Array) -> Array:
        """Return the log weights of components in a block of rows."""
        return log_joint(D, p, self.sharpness)

    def _sweep(
        self,
        problem: Clusters,
        divergence: Divergence,
        p: Array,
        M: Array,
    ) -> tuple[float, Array, Array]:
        """Return the objective, the masses of the components, and their next means."""
        X = problem.X
        w = problem.weights
        k = problem.n_clusters
        base = problem.base(divergence)
        masses = np.zeros(k)
        sums = np.zeros(M.shape)
        value = 0.0
        if isinstance(divergence, Affine):
            kept = None
        else:
            kept = np.empty((X.shape[0], k))
        for at, block in small_blocks(X):
            D = divergence.between(block, M, problem.anchor, None if base is None else base[at])
            joint = self.joint(problem, at, D, p)
            height = logsumexp(joint, axis=1)
            Z = np.exp(joint - height[:, None])
            if w is not None:
                Z *= w[at, None]
            value -= float(height.sum() if w is None else w[at] @ height)
            masses += Z.sum(axis=0)
            if kept is None:
                sums += Z.T @ block
            else:
                kept[at] = Z
        if isinstance(divergence, Affine):
            value += self.sharpness * divergence.extra(problem.mass)
            domain = divergence.domain
            return (
                value,
                masses,
                np.clip(sums / np.maximum(masses, SMALLEST)[:, None], domain.low, domain.high),
            )
        return value, masses, _medians(X, kept, M)


def _medians(X: Any, Z: Any, M: Array) -> Array:
    """Return the medians of each column under the weights of each component."""
    rows = taken(X, np.arange(X.shape[0]))
    new = M.copy()
    order = rows.argsort(axis=0)
    for j in np.flatnonzero(Z.sum(axis=0) > SMALLEST):
        new[j] = weighted_median(rows, Z[:, j], order)
    return new
