"""The noise of a table with gross errors, and the strength of a norm that it calls for.

Entries are a low-rank table plus noise, some of them grossly wrong. Of a noise of deviation sigma
in a share p of n x d observed entries, the largest singular value is about
sigma sqrt(p) (sqrt(n) + sqrt(d)): a strength at which no component is fitted to noise alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import ndtri

from regfactor.core.linalg import is_sparse, svd_above
from regfactor.core.params import EPS, Array, frozen
from regfactor.fitting.gross_errors import largest_share
from regfactor.fitting.units import bounds_influence
from regfactor.losses import Huber, Loss

NOISE = "noise"  # as a value of alpha
MEDIAN_DEVIATION = 0.6745  # of the sizes of standard normal numbers, the median
UPPER_SHARE = 0.8  # of the entries of a column, by which its deviation is seen too
HUBER_FACTOR = 2.0  # residuals beyond so many deviations of the noise count linearly
GROSS_FACTOR = 3.5  # residuals beyond so many deviations of their column are gross errors
REACH = 50.0  # robust deviations of a column from its center, beyond which no fit is expected
MAX_STEPS = 60  # thresholded SVDs
STEP_TOL = 1e-3  # relative change of the noise at which they end
MAX_SIDE = 1000  # rows and columns of the part of a large table that the noise is estimated from
ROUNDING = 64 * EPS  # relative size below which numbers about their median are rounding
SMALLEST_NOISE = 1e-3  # of the robust deviation of the table
SHARE_ROUNDING = 1e-9  # by which a share of rows may exceed a whole number that it equals


@frozen
class RobustUnits:
    """Medians and robust deviations of columns, which gross errors do not move."""

    center: Array
    deviation: Array


def robust_units(table: Any, rows: Array | None = None) -> RobustUnits:
    """Return the median of each column, and a deviation from it.

    The deviation is the larger of two, by the median and by the 0.8 quantile of the distances from
    the center: more than half of a column may be one value. Where both are zero it is the median
    distance of the entries that differ; one in a constant column. Weights of rows act as repetition
    counts.
    """
    d = table.shape[1]
    center = np.zeros(d)
    deviation = np.ones(d)
    for j in range(d):
        column, weights = _observed_column(table, j, rows)
        if len(column):
            center[j] = quantile(column, 0.5, weights)
            distances = np.abs(column - center[j])
            deviation[j] = _column_deviation(distances, np.abs(column).max(), weights)
    return RobustUnits(center, deviation)


def _column_deviation(distances: Array, size: float, weights: Array | None) -> float:
    """Return the deviation of a column from the distances to its center; one if it is constant."""
    deviation = robust_deviation(distances, weights)
    if deviation > ROUNDING * size:
        return deviation
    differs = distances > ROUNDING * size
    if not differs.any():
        return 1.0
    if weights is not None:
        weights = weights[differs]
    return quantile(distances[differs], 0.5, weights)


def robust_deviation(distances: Array, weights: Array | None = None) -> float:
    """Return the deviation of normal numbers whose sizes have the same quantiles, .5 or .8.

    Of fewer than 81 numbers it is a lower quantile than .8, beyond which there are as many as three
    deviations more than a tenth: of 14 entries of a column four may be gross errors by chance,
    which .8 would take for its deviation.
    """
    total = float(len(distances) if weights is None else weights.sum())
    share = max(min(UPPER_SHARE, 1 - largest_share(total)), 0.5)
    middle = quantile(distances, 0.5, weights)
    upper = quantile(distances, share, weights)
    return max(middle / MEDIAN_DEVIATION, upper / float(ndtri((1 + share) / 2)))


def quantile(values: Array, share: float, weights: Array | None = None) -> float:
    """Return the smallest value that a share of the values does not exceed."""
    if weights is None:
        position = max(int(np.ceil(share * len(values) - SHARE_ROUNDING)) - 1, 0)
        return float(np.partition(values, position)[position])
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    needed = share * cumulated[-1] * (1 - SHARE_ROUNDING)
    return float(values[order[np.searchsorted(cumulated, needed)]])


def _observed_column(table: Any, j: int, rows: Array | None) -> tuple[Array, Array | None]:
    """Return the observed entries of a column, and their weights."""
    if is_sparse(table):
        stored = table[:, [j]].tocoo()
        places = stored.coords[0]
        column = np.asarray(stored.data, np.float64)
    else:
        column = np.asarray(table[:, j], np.float64)
        places = np.flatnonzero(~np.isnan(column))
        column = column[places]
    if rows is None:
        return column, None
    return column[rows[places] > 0], rows[places][rows[places] > 0]


def noise_deviation(table: Any, rows: Array | None = None, offsets: bool = True) -> float:
    """Return the deviation of the noise of a table, in its units.

    Proximal steps towards a low-rank table under the Huber loss at twice the noise, each followed
    by a new estimate of the noise from the median size of the residuals: half of the entries could
    be wrong, and it does not collapse where the table is fitted.

    Parameters
    ----------
    table : {array, sparse array} of shape (n_samples, n_features)
        NaN, or nothing stored, where an entry is missing. Of more than 1,000 rows or columns some
        that are spread evenly are used.
    rows : array of shape (n_samples,), optional
        Weights of the rows, which act as repetition counts.
    offsets : bool, default=True
        Whether columns have offsets of their own.
    """
    if rows is not None:
        table = table[rows > 0]
        rows = rows[rows > 0]
    X, rows = _part(table, rows)
    if offsets:
        X = X - robust_units(X, rows).center
    # a constant column has no noise, and would count as half of the entries if there are few
    X = X[:, np.nanmax(np.abs(X), axis=0, initial=0.0) > 0]
    observed = ~np.isnan(X)
    if not observed.any():
        return 1.0
    X = np.where(observed, X, 0.0)
    root = np.ones((len(X), 1))
    weights = None
    if rows is not None:
        root = np.sqrt(rows)[:, None]
        weights = np.broadcast_to(rows[:, None], X.shape)[observed]
    size = robust_deviation(np.abs(X[observed]), weights)
    if not size > 0:
        size = float(np.abs(X).mean())
    if not size > 0:
        return 1.0
    unit = noise_strength(np.where(observed, X, np.nan), 1.0, rows)
    Y = np.zeros_like(X)  # the low-rank table, rows times the roots of their weights
    noise = size
    for _ in range(MAX_STEPS):
        residuals = np.where(observed, X - Y / root, 0.0)
        limit = HUBER_FACTOR * noise
        threshold = noise * unit
        U, s, Vt = svd_above(Y + root * np.clip(residuals, -limit, limit), threshold)
        Y = (U * (s - threshold)) @ Vt
        last = noise
        distances = np.abs(X - Y / root)[observed]
        noise = quantile(distances, 0.5, weights) / MEDIAN_DEVIATION
        noise = max(noise, SMALLEST_NOISE * size)
        if abs(noise - last) <= STEP_TOL * last:
            break
    return noise


def _part(table: Any, weights: Array | None) -> tuple[Array, Array | None]:
    """Return a table as an array with the weights of its rows.

    Of a large one rows and columns are taken that are spread evenly; of a sparse one those with
    the most entries, since elsewhere nothing could be fitted.
    """
    n, d = table.shape
    rows = np.linspace(0, n - 1, min(n, MAX_SIDE)).astype(int)
    columns = np.linspace(0, d - 1, min(d, MAX_SIDE)).astype(int)
    if is_sparse(table):
        rows = np.sort(np.argsort(-np.diff(table.indptr), kind="stable")[:MAX_SIDE])
        stored = np.bincount(table[rows].indices, minlength=d)
        columns = np.sort(np.argsort(-stored, kind="stable")[:MAX_SIDE])
        part = table[rows][:, columns].tocoo()
        X = np.full(part.shape, np.nan)
        X[part.coords] = part.data
    else:
        X = np.asarray(table[np.ix_(rows, columns)], np.float64)
    if weights is None:
        return X, None
    return X, weights[rows]


def noise_strength(table: Any, deviation: float, rows: Array | None = None) -> float:
    """Return the spectral norm of noise of a deviation at the observed entries of a table.

    `rows` are weights of the rows, which act as repetition counts.
    """
    n, d = table.shape
    if is_sparse(table):
        counts = np.diff(table.indptr)
    else:
        counts = (~np.isnan(table)).sum(axis=1)
    if rows is None:
        total = float(n)
        observed = float(counts.sum())
    else:
        total = float(rows.sum())
        observed = float(rows @ counts)
    share = observed / max(total * d, 1.0)
    return deviation * float(np.sqrt(share) * (np.sqrt(total) + np.sqrt(d)))


def gradient_size(loss: Loss, noise: float) -> float:
    """Return the size of the gradient of a loss at a residual as large as the noise."""
    return float(np.abs(loss.gradient(np.array(noise), np.array(0.0))))


@frozen
class NoiseLoss:
    """The deviation of the noise of a table, the strength that it calls for, and the loss."""

    deviation: float
    strength: float
    loss: Loss


def noise_of(
    table: Any,
    loss: Loss,
    rows: Array | None,
    is_huber: bool,
    offsets: bool,
) -> NoiseLoss:
    """Return the noise of a table under a loss of the residual.

    A Huber loss that was given by its name alone, `is_huber`, changes at twice the noise.
    """
    parts = [part for _, part in loss.parts(table.shape[1])]
    if not all(part.of_residual for part in parts):
        raise ValueError(
            "alpha='noise' needs a loss of the residual, such as 'squared' or 'huber', in "
            f"every column, got {loss}: use alpha='auto', or give a number."
        )
    deviation = noise_deviation(table, rows, offsets)
    if is_huber:
        loss = noise_huber(deviation)
        parts = [loss]
    largest = max(gradient_size(part, deviation) for part in parts)
    strength = noise_strength(table, largest, rows) or 1.0
    return NoiseLoss(deviation, strength, loss)


def is_robust(loss: Loss) -> bool:
    """Return whether the influence of an entry under a loss is bounded."""
    return loss.of_residual and bounds_influence(loss)


def robust_columns(loss: Loss, n_columns: int) -> Array:
    """Return a mask of the columns under whose loss the influence of an entry is bounded."""
    out = np.zeros(n_columns, bool)
    for at, part in loss.parts(n_columns):
        out[at] = is_robust(part)
    return out


def noise_huber(noise: float) -> Huber:
    """Return the Huber loss at twice the noise."""
    return Huber(HUBER_FACTOR * noise)


@frozen
class TableWithinReach:
    """A table whose entries are at most 50 robust deviations from the center of their column.

    Attributes
    ----------
    table : {array, sparse array}
    far : array of bool
        Entries that were farther, laid out as those of the table: stored ones where it is sparse.
    """

    table: Any
    far: Array


def within_reach(
    table: Any,
    rows: Array | None = None,
    columns: Array | None = None,
) -> TableWithinReach:
    """Return a table with entries of at most 50 robust deviations from the center of their column.

    Where a loss grows linearly, moving an entry that no fit reaches changes the objective by a
    constant. Without it, errors of any size would make the objective so large that a fit at a small
    relative gap could still be far from the optimum. `columns` is a mask of those that are limited;
    None for all.
    """
    units = robust_units(table, rows)
    lowest = units.center - REACH * units.deviation
    highest = units.center + REACH * units.deviation
    if columns is not None:
        lowest[~columns] = -np.inf
        highest[~columns] = np.inf
    if not is_sparse(table):
        far = (table < lowest) | (table > highest)
        near = np.clip(table, lowest, highest).astype(table.dtype, copy=False)
        return TableWithinReach(near, far)
    low = lowest[table.indices]
    high = highest[table.indices]
    data = np.clip(table.data, low, high).astype(table.dtype)
    near = scipy.sparse.csr_array((data, table.indices, table.indptr), table.shape)
    return TableWithinReach(near, (table.data < low) | (table.data > high))


def column_noise(residuals: Array, rows: Array | None = None) -> Array:
    """Return the robust deviation of the observed residuals of each column."""
    out = np.zeros(residuals.shape[1])
    for j in range(len(out)):
        column, weights = _observed_column(residuals, j, rows)
        if len(column):
            out[j] = robust_deviation(np.abs(column), weights)
    return out


def without_gross_errors(table: Array, model: Array, noise: Array) -> Array:
    """Return a table in which entries that are missing or far off a model are taken from it."""
    with np.errstate(invalid="ignore"):
        kept = np.abs(table - model) <= GROSS_FACTOR * noise
    return np.where(kept, table, model)
