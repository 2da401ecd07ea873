"""Conformal prediction: scores, finite-sample quantiles, sets of classes and intervals.

Rows that were held out of a fit are given a score, which is large where the model was wrong. If a
new row is exchangeable with n of them, its score is at most their ceil((n + 1) level)-th smallest
with a probability of at least `level`, whatever the model is (Vovk, Gammerman and Shafer 2005). All
classes, or all numbers, whose score would be that small form the set, or the interval, of a row.

Two ways are here. With the scores of one model (`conformal_quantile`, then `adaptive_sets` or
`split_interval`) the level holds exactly. With the scores of a model for each fold (`cross_sets`,
`cross_interval`: CV+, and jackknife+ where a fold is a row; Barber et al. 2021, Romano et al.
2020) no label is spent on calibration alone; about `level` is covered, and 2 level - 1 for sure
under jackknife+.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from regfactor.core.params import Array
from regfactor.fitting.parameters import check_level

BLOCK_ELEMENTS = 4_000_000  # numbers that are held at once
ROUNDING = 1e-9  # by which (n + 1) level may exceed a whole number that it equals


class PredictionInterval(NamedTuple):
    """Lower and upper limits, each of the shape of the predictions."""

    lower: Array
    upper: Array


def conformal_rank(n: float, level: float) -> int:
    """ceil((n + 1) level): the rank of the score that covers a new row; above n if none does.

    Examples
    --------
    >>> conformal_rank(9, 0.9), conformal_rank(8, 0.9)
    (9, 9)
    """
    check_level(level)
    return ceil((n + 1) * level - ROUNDING)


def labels_needed(level: float) -> int:
    """Return the smallest n with ceil((n + 1) level) <= n.

    Examples
    --------
    >>> labels_needed(0.9), labels_needed(0.95)
    (9, 19)
    """
    check_level(level)
    return ceil(level / (1 - level) - ROUNDING)


def too_few_labels_message(what: str, n: float, level: float) -> str:
    """Return why a set or an interval cannot be given from n held-out labels; empty if it can.

    Examples
    --------
    >>> too_few_labels_message("A 90 % interval", 6, 0.9)
    'A 90 % interval cannot be given with 6 labels: at level 0.9 at least 9 are needed.'
    """
    needed = labels_needed(level)
    if n >= needed:
        return ""
    labels = "label" if n == 1 else "labels"
    return (
        f"{what} cannot be given with {n:g} {labels}: at level {level:g} at least {needed} are "
        "needed."
    )


def conformal_quantile(scores: Any, level: float, weights: Any = None) -> float:
    """Return the ceil((n + 1) level)-th smallest of n scores, infinity if there are too few.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores of held-out rows.
    level : float
        The share of new rows to cover.
    weights : array of shape (n,), default=None
        Weights of the rows, which act as repetition counts.

    Examples
    --------
    >>> conformal_quantile([0.1, 0.4, 0.2, 0.3], level=0.5)
    0.3
    >>> conformal_quantile([0.1, 0.4, 0.2, 0.3], level=0.9)
    inf
    """
    scores = np.asarray(scores, dtype=np.float64)
    if weights is None:
        rank = conformal_rank(len(scores), level)
        if rank > len(scores):
            return float("inf")
        return float(np.partition(scores, rank - 1)[rank - 1])
    check_level(level)
    weights = np.asarray(weights, dtype=np.float64)
    order = np.argsort(scores)
    cumulated = np.cumsum(weights[order])
    needed = level * (weights.sum() + 1) - ROUNDING
    position = int(np.searchsorted(cumulated, needed))
    if position == len(scores):
        return float("inf")
    return float(scores[order[position]])


def expected_coverage(n: float, level: float) -> float:
    """ceil((n + 1) level) / (n + 1): the probability that a new row is covered, without ties.

    Examples
    --------
    >>> expected_coverage(12, 0.9)
    0.9230769230769231
    """
    return min(conformal_rank(n, level) / (n + 1), 1.0)


def coverage_range(n: float, level: float, confidence: float = 0.9) -> tuple[float, float]:
    """Return limits of the coverage that n held-out rows give.

    Over draws of the held-out rows the share of new rows that is covered has the distribution
    Beta(k, n + 1 - k), k = ceil((n + 1) level).

    Examples
    --------
    >>> low, high = coverage_range(20, 0.9)
    >>> round(low, 2), round(high, 2)
    (0.78, 0.98)
    """
    rank = conformal_rank(n, level)
    if rank > n:
        return 1.0, 1.0
    tail = (1 - confidence) / 2
    low = betaincinv(rank, n + 1 - rank, tail)
    high = betaincinv(rank, n + 1 - rank, 1 - tail)
    return float(low), float(high)


def adaptive_scores(
    probabilities: Any,
    codes: Any = None,
    *,
    uniform: Array | None = None,
    penalty: float = 0.0,
    n_free: int = 1,
) -> Array:
    """sum_{j : p_j > p_k} p_j + u p_k + penalty max(rank of k - n_free, 0) for every class k.

    The score of the most probable class is 0 (with u = 0), so that it is in every set. Equally
    probable classes have the same score.

    Parameters
    ----------
    probabilities : array of shape (n_rows, n_classes)
        Probabilities of rows that the model was not fitted to.
    codes : int array of shape (n_rows,), default=None
        Position of each row's class. Without it, the scores of all classes are returned.
    uniform : array of shape (n_rows,), default=None
        u: independent uniform numbers of the rows, which make the coverage exact at the cost of
        sets that are random and may be empty (Romano et al. 2020). Zero by default.
    penalty : float, default=0.0
        Added for each class beyond the first `n_free` in the order of probability, to keep sets
        small where the small probabilities are noise (Angelopoulos et al. 2021).
    n_free : int, default=1
        Number of classes without a penalty.

    Returns
    -------
    array of shape (n_rows,), or (n_rows, n_classes) without `codes`

    Examples
    --------
    >>> adaptive_scores([[0.5, 0.3, 0.2], [0.25, 0.25, 0.5]])
    array([[0. , 0.5, 0.8],
           [0.5, 0.5, 0. ]])
    >>> adaptive_scores([[0.5, 0.3, 0.2], [0.25, 0.25, 0.5]], [1, 2])
    array([0.5, 0. ])
    """
    P = np.asarray(probabilities, dtype=np.float64)
    if P.ndim != 2:
        raise ValueError(f"probabilities must be rows x classes, got an array of shape {P.shape}.")
    if np.isnan(P).any():
        raise ValueError("probabilities hold NaN; a conformal set needs numbers for every class.")
    order = np.argsort(-P, axis=1, kind="stable")
    ordered = np.take_along_axis(P, order, axis=1)
    # the number of classes that are more probable; equal ones share that of the first of them
    places = np.broadcast_to(np.arange(P.shape[1]), P.shape).copy()
    places[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    n_above = np.maximum.accumulate(places, axis=1)
    mass = np.zeros_like(P)
    mass[:, 1:] = np.cumsum(ordered[:, :-1], axis=1)
    ordered_scores = np.take_along_axis(mass, n_above, axis=1)
    if penalty:
        ordered_scores += penalty * np.maximum(n_above + 1 - n_free, 0)
    if uniform is not None:
        ordered_scores += np.asarray(uniform)[:, None] * ordered
    scores = np.empty_like(P)
    np.put_along_axis(scores, order, ordered_scores, axis=1)
    if codes is None:
        return scores
    return scores[np.arange(len(P)), np.asarray(codes)]


def adaptive_sets(
    probabilities: Any,
    quantile: float,
    *,
    uniform: Array | None = None,
    penalty: float = 0.0,
    n_free: int = 1,
) -> Array:
    """Return for each row and class whether the class is in the set of the row.

    Parameters
    ----------
    probabilities : array of shape (n_rows, n_classes)
        Probabilities of new rows.
    quantile : float
        `conformal_quantile` of `adaptive_scores` of held-out rows, with the same `penalty` and
        `n_free`, and with uniform numbers where those were drawn.
    uniform, penalty, n_free
        As in `adaptive_scores`.

    Returns
    -------
    bool array of shape (n_rows, n_classes)

    Examples
    --------
    >>> adaptive_sets([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]], quantile=0.6)
    array([[ True,  True, False],
           [ True, False, False]])
    """
    scores = adaptive_scores(probabilities, uniform=uniform, penalty=penalty, n_free=n_free)
    return scores <= quantile


def cross_sets(
    held_out: Sequence[Array],
    new: Sequence[Array],
    level: float,
    weights: Sequence[Array] | None = None,
) -> Array:
    """Return the sets {k : number of i with s_i < S_f(i)(x, k) is below (n + 1) level}.

    Parameters
    ----------
    held_out : list of arrays of shape (n_labels of the fold,)
        Scores s_i of the labeled rows of each fold by the model that was not fitted to them.
    new : list of arrays of shape (n_rows, n_classes)
        Scores S_f of all classes of the new rows by the model of each fold.
    level : float
        The share of new rows to cover.
    weights : list of arrays of shape (n_labels of the fold,), default=None
        Weights of the labeled rows, which act as repetition counts.

    Returns
    -------
    bool array of shape (n_rows, n_classes)
    """
    check_level(level)
    if weights is None:
        weights = [np.ones(len(scores)) for scores in held_out]
    n = sum(float(own.sum()) for own in weights)
    below = np.zeros(new[0].shape)
    for own, scores, counts in zip(held_out, new, weights, strict=True):
        below += weight_below(own, counts, scores)
    return below < (n + 1) * level - ROUNDING


def weight_below(scores: Array, weights: Array, values: Array) -> Array:
    """Return the total weight of the scores below each value."""
    order = np.argsort(scores)
    total = np.concatenate([[0.0], np.cumsum(weights[order])])
    return total[np.searchsorted(scores[order], values, side="left")]


def normalized_residuals(y: Any, mean: Any, width: Any = None) -> Array:
    """|y - mean| / width of every row; `width` is 1 by default, and positive.

    Examples
    --------
    >>> normalized_residuals([1.0, 5.0], mean=[3.0, 4.0], width=[4.0, 0.5])
    array([0.5, 2. ])
    """
    residuals = np.abs(np.asarray(y, dtype=np.float64) - np.asarray(mean, dtype=np.float64))
    if width is None:
        return residuals
    return residuals / np.asarray(width, dtype=np.float64)


def split_interval(mean: Any, quantile: float, width: Any = None) -> PredictionInterval:
    """mean -+ quantile width, with `conformal_quantile` of `normalized_residuals`.

    Examples
    --------
    >>> lower, upper = split_interval([1.0, 2.0], quantile=3.0, width=[1.0, 0.5])
    >>> print(lower, upper)
    [-2.   0.5] [4.  3.5]
    """
    mean = np.asarray(mean, dtype=np.float64)
    half = quantile * np.ones_like(mean)
    if width is not None:
        half = half * np.asarray(width, dtype=np.float64)
    return PredictionInterval(mean - half, mean + half)


def cross_interval(
    residuals: Sequence[Array],
    means: Array,
    level: float,
    widths: Array | None = None,
    weights: Sequence[Array] | None = None,
) -> PredictionInterval:
    """Return the quantiles of m_f(i)(x) -+ r_i w_f(i)(x) over all held-out rows i.

    The lower limit is the k-th smallest, the upper one the k-th largest, k = floor((1 - level)
    (n + 1)); both are infinite where k is 0.

    Parameters
    ----------
    residuals : list of arrays of shape (n_labels of the fold,)
        `normalized_residuals` r_i of the labeled rows of each fold by the model that was not fitted
        to them.
    means : array of shape (n_rows, n_folds)
        Predictions m_f of new rows by the model of each fold.
    level : float
        The share of new rows to cover.
    widths : array of shape (n_rows, n_folds), default=None
        Widths w_f of new rows by the model of each fold; 1 by default.
    weights : list of arrays of shape (n_labels of the fold,), default=None
        Weights of the labeled rows, which act as repetition counts.
    """
    check_level(level)
    means = np.asarray(means, dtype=np.float64)
    scores = np.concatenate(residuals)
    fold_of_score = np.repeat(np.arange(len(residuals)), [len(own) for own in residuals])
    n = len(scores)
    n_rows = len(means)
    counts = None if weights is None else np.concatenate(weights)
    if counts is not None and np.all(counts == 1):
        counts = None
    total = n if counts is None else float(counts.sum())
    needed = (total + 1) * level - ROUNDING
    if needed > total:
        return PredictionInterval(np.full(n_rows, -np.inf), np.full(n_rows, np.inf))
    lower = np.empty(n_rows)
    upper = np.empty(n_rows)
    step = max(1, BLOCK_ELEMENTS // n)
    for start in range(0, n_rows, step):
        block = slice(start, start + step)
        centers = means[block][:, fold_of_score]
        half = scores
        if widths is not None:
            half = scores * widths[block][:, fold_of_score]
        lower[block] = -_row_quantiles(half - centers, needed, counts)
        upper[block] = _row_quantiles(centers + half, needed, counts)
    return PredictionInterval(lower, upper)


def _row_quantiles(values: Array, needed: float, weights: Array | None) -> Array:
    """Return the least value of each row that with all below it has the weight that is needed."""
    if weights is None:
        rank = ceil(needed)
        return np.partition(values, rank - 1, axis=1)[:, rank - 1]
    order = np.argsort(values, axis=1)
    place = (np.cumsum(weights[order], axis=1) < needed).sum(axis=1)
    found = np.take_along_axis(order, place[:, None], axis=1)
    return np.take_along_axis(values, found, axis=1)[:, 0]
