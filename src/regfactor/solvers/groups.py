"""The best components for hard codes.

For each group and column one number, in closed form where there is one.
"""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import Absolute, Squared
from regfactor.losses.distances import weighted_median
from regfactor.penalties import Free, OneHot
from regfactor.problems import Factored
from regfactor.problems.data import Term


def has_constants(problem: Factored) -> bool:
    """Whether components are free, codes hard, and a group is best predicted by median or mean.

    It is the median under the absolute loss, and predicts the mean under the squared one and those
    on half a line (kl, gamma). Others are left to Newton steps: their best number can be infinite,
    as for a group of ones under logistic.
    """
    free = isinstance(problem.on_codes, OneHot) and isinstance(problem.on_components, Free)
    known = problem.known_components is not None or problem.data.layout.sparse
    return free and not known and all(_by_median(t) or _by_mean(t) for t in problem.data.terms)


def group_constants(problem: Factored, codes: Array, C: Array) -> Array:
    """Return min over c of the loss of each group and column.

    Where nothing is observed it stays what it was.
    """
    C = C.copy()
    labels = codes.argmax(axis=1)
    for t in problem.weighted.terms:
        weights = t.weights
        for j in range(len(C)):
            members = labels == j
            w = weights[members]
            seen = w.sum(axis=0) > 0
            if seen.any():
                C[j, np.arange(C.shape[1])[t.columns][seen]] = _constant(t, members, w)[seen]
    return C


def _by_median(t: Term) -> bool:
    return isinstance(t.loss, Absolute)


def _by_mean(t: Term) -> bool:
    return t.offset is None and (isinstance(t.loss, Squared) or not t.loss.unbounded)


def _constant(t: Term, members: Array, w: Array) -> Array:
    x = t.x[members]
    if _by_median(t):
        return weighted_median(
            x - (0 if t.offset is None else np.broadcast_to(t.offset, t.x.shape)[members]),
            w,
        )
    mean = (w * x).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(x.dtype).tiny)
    return t.loss.inverse_gradient(np.zeros_like(mean), mean)
