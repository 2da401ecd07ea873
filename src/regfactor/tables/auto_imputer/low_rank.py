"""The low-rank model of a table, and the normal distributions that follow from it."""

from __future__ import annotations

import numpy as np

from regfactor.core.factors import TINY_ATOM, rebalance
from regfactor.core.loop import Clock, Limits
from regfactor.core.params import Array, frozen
from regfactor.fitting.fallback import CannotSelect
from regfactor.fitting.selection import PRIOR, Validation, deviations, select_alpha
from regfactor.losses import Squared
from regfactor.penalties import Trace
from regfactor.problems import Convex, Design
from regfactor.problems.convex import convex
from regfactor.solvers.base import solve_within
from regfactor.tables.auto_imputer.conditioning import FactoredNormal

FIT_TOL = 1e-3  # relative gap; held-out entries do not distinguish better fits
LARGEST_SHARE = 0.9995  # of the variance of a column that factors may explain
SMALLEST_REST = 1e-4  # share of the variance of a column that noise has at least


@frozen
class LowRankStrength:
    """Strength of the trace norm, and variance of the noise, that held-out entries chose."""

    alpha: float
    noise: float


@frozen
class LowRankFit:
    """Factors of a table: unit components, root mean squares of their codes, offsets.

    Attributes
    ----------
    components : array of shape (n_factors, n_features)
    deviations : array of shape (n_factors,)
    offsets : array of shape (n_features,)
    shrinkage : float
        By which the trace norm has lowered each deviation, alpha / sqrt(n).
    """

    components: Array
    deviations: Array
    offsets: Array
    shrinkage: float

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return len(self.components)

    def probabilistic_pca(self, noise: float, variances: Array) -> FactoredNormal:
        """N(b, C' diag(s^2 / n) C + noise I); without factors, independent columns."""
        loadings = self.deviations[:, None] * self.components
        noises = np.full(len(self.offsets), noise)
        if not self.n_factors:
            noises = variances.copy()
        return FactoredNormal(self.offsets, loadings, noises)

    def prior(self, variances: Array) -> FactoredNormal:
        """N(b, B'B + diag(v - diag(B'B))), B = diag((s + alpha) / sqrt(n)) C without shrinkage.

        Columns of B are scaled down where they would explain all of the variance v.
        """
        loadings = (self.deviations + self.shrinkage)[:, None] * self.components
        explained = np.square(loadings).sum(axis=0)
        most = LARGEST_SHARE * variances
        loadings = loadings * np.sqrt(np.minimum(1.0, most / np.maximum(explained, 1e-300)))
        rest = variances - np.square(loadings).sum(axis=0)
        return FactoredNormal(self.offsets, loadings, np.maximum(rest, SMALLEST_REST * variances))


def stated(Z: Array, weights: Array, alpha: float) -> Convex:
    """min over codes and components of half the squares of observed entries + alpha |Z|_tr."""
    rows = None if np.all(weights == 1) else weights
    design = Design(np.ones((len(Z), 1)))
    return convex(Z, Squared(), Trace(), alpha, rows, None, design)


def choose_strength(Z: Array, weights: Array, groups: Array, seed: int) -> LowRankStrength | None:
    """Return what held-out entries choose; None where there is nothing to choose by."""
    validation = Validation(groups, np.random.default_rng(seed), Clock(None))
    try:
        chosen = select_alpha(stated(Z, weights, 1.0), "min", PRIOR, validation).best
    except CannotSelect:
        return None
    assert chosen.prior is not None
    return LowRankStrength(chosen.value, chosen.prior)


def fit_low_rank(Z: Array, weights: Array, strength: LowRankStrength | None) -> LowRankFit:
    """Return the factors of a table at a strength; none where there is no strength."""
    if strength is None:
        observed = ~np.isnan(Z)
        offsets = weights @ np.where(observed, Z, 0.0) / np.maximum(weights @ observed, 1e-300)
        return LowRankFit(
            np.empty((0, Z.shape[1])),
            np.empty(0),
            offsets,
            0.0,
        )
    problem = stated(Z, weights, strength.alpha)
    point = solve_within(problem, Limits(tol=FIT_TOL)).point
    factors = rebalance(point.factors, TINY_ATOM).with_unit_rows()
    assert point.coefficients is not None
    return LowRankFit(
        factors.C,
        deviations(problem, factors),
        point.coefficients[0],
        strength.alpha / np.sqrt(weights.sum()),
    )
