"""A normal distribution of normal scores: numbers by their ranks, other columns as they are."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from regfactor.core.params import Array, frozen
from regfactor.tables.auto_imputer.conditioning import DenseNormal
from regfactor.tables.auto_imputer.covariance_em import fit_covariance

MIN_OBSERVED = 10  # entries below which a column is not transformed
N_NODES = 7  # of the quadrature that takes a conditional distribution back
N_STEPS = 2  # of EM, which starts from the covariance of the table


@frozen
class RankScores:
    """The normal score of a number, Phi^-1((r - 1/2) / n), interpolated and constant outside.

    Attributes
    ----------
    values, scores : array of shape (n_distinct,)
        Rising.
    """

    values: Array
    scores: Array

    @staticmethod
    def of(column: Array, weights: Array) -> RankScores:
        """Return the scores of a column; equal numbers get the score of their mean rank."""
        observed = ~np.isnan(column)
        values, places = np.unique(column[observed], return_inverse=True)
        counts = np.bincount(places, weights[observed])
        ranks = np.cumsum(counts) - counts / 2
        return RankScores(values, ndtri(ranks / counts.sum()))

    def apply(self, column: Array) -> Array:
        """Return the scores of numbers, NaN where they are missing."""
        missing = np.isnan(column)
        scores = np.interp(np.where(missing, 0.0, column), self.values, self.scores)
        return np.where(missing, np.nan, scores)

    def expected(self, mean: Array, variance: Array) -> Array:
        """E q(mean + sqrt(variance) e), q the interpolated quantiles, by Gauss-Hermite nodes.

        The mean, not the median, since filled entries are judged by squares.
        """
        nodes, masses = np.polynomial.hermite_e.hermegauss(N_NODES)
        at = mean[:, None] + np.sqrt(np.maximum(variance, 0.0))[:, None] * nodes
        return np.interp(at, self.scores, self.values) @ (masses / masses.sum())


@frozen
class Copula:
    """Scores of the columns that are transformed, and the normal distribution of all."""

    scores: dict[int, RankScores]
    normal: DenseNormal

    @staticmethod
    def fit(
        Z: Array,
        weights: Array,
        numbers: Array,
        start: DenseNormal,
        prior: Array,
        n_steps: int = N_STEPS,
    ) -> Copula:
        """Return the copula of a table; `numbers` are the columns that are transformed."""
        counts = (~np.isnan(Z)).sum(axis=0)
        scores = {}
        for j in numbers[counts[numbers] >= MIN_OBSERVED].tolist():
            scores[j] = RankScores.of(Z[:, j], weights)
        transformed = apply_scores(scores, Z)
        normal = fit_covariance(transformed, weights, start, prior, n_steps)
        return Copula(scores, normal)

    def predict(self, Z: Array) -> Array:
        """Return the table with its missing entries by their expectations."""
        conditioned = self.normal.condition(apply_scores(self.scores, Z))
        out = np.where(np.isnan(Z), conditioned.filled, Z)
        for j, scores in self.scores.items():
            rows = np.isnan(Z[:, j])
            if rows.any():
                variance = conditioned.variances(np.array([j]))[rows, 0]
                out[rows, j] = scores.expected(conditioned.filled[rows, j], variance)
        return out


def apply_scores(scores: dict[int, RankScores], Z: Array) -> Array:
    """Return a table with the columns that have scores transformed."""
    out = Z.copy()
    for j, own in scores.items():
        out[:, j] = own.apply(Z[:, j])
    return out
