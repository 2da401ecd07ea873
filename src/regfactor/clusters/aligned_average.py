"""Averages of the probabilities of clusters under several mixtures of the same rows.

Clusters of different mixtures have no common names. Those of each mixture are renamed so that they
agree best with the average of all, which is then taken again, until no name changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from regfactor.clusters.mixture_members import FittedMixture
from regfactor.core.params import Array

MAX_ALIGNMENTS = 10
TEMPERATURE = 2.0  # nats per row by which a mixture of 1/e of the weight of the best is worse


def tempered_weights(fits: Sequence[FittedMixture], mass: float) -> Array:
    """Return weights of mixtures: exp of half their evidence per row, relative to the best.

    The evidence of all rows would leave one mixture of weight one, though families differ by what
    none of them has, such as tails; that of a row keeps those that describe rows nearly as well.
    """
    evidence = np.array([fit.density.evidence(fit.point, mass) for fit in fits]) / mass
    weights = np.exp((evidence - evidence.max()) / TEMPERATURE)
    return np.asarray(weights / weights.sum())


def aligned_orders(
    posteriors: Sequence[Array],
    weights: Array,
    row_weights: Array,
) -> list[Array]:
    """Return for each table of probabilities the order of its columns, the first one's unchanged.

    Parameters
    ----------
    posteriors : sequence of arrays of shape (n_samples, n_clusters)
    weights : array of shape (n_posteriors,)
    row_weights : array of shape (n_samples,)
    """
    average = posteriors[0]
    orders: list[Array] = []
    for _ in range(MAX_ALIGNMENTS):
        last = orders
        weighted = row_weights[:, None] * average
        orders = [_order(weighted.T @ R) for R in posteriors]
        average = sum(w * R[:, o] for w, R, o in zip(weights, posteriors, orders, strict=True))
        if last and all((a == b).all() for a, b in zip(orders, last, strict=True)):
            break
    first = np.argsort(orders[0])
    return [order[first] for order in orders]


def _order(overlaps: Array) -> Array:
    """Return the columns that overlap most with the rows, each one once."""
    return np.asarray(linear_sum_assignment(-overlaps)[1])
