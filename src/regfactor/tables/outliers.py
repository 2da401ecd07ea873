"""Gross outliers: cells far from a robust low-rank fit to all numbers of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array, frozen
from regfactor.fitting.fallback import fit_or_default
from regfactor.tables.subspace import ConvexSubspace

MAX_FITTED_ROWS = 20_000  # every row is judged
# robust deviations of the residuals, and of the column, beyond which a cell is an outlier
RESIDUAL_DEVIATIONS = 6.0
COLUMN_DEVIATIONS = 1.0
# share of flagged cells from which on a column has heavy tails rather than outliers
HEAVY_TAILED_SHARE = 0.05
MIN_COLUMNS = 3
MIN_ROWS = 20
# interquartile range and median absolute deviation of a standard normal variable
NORMAL_IQR = 1.349
NORMAL_MAD = 1 / 1.4826


@frozen
class GrossOutliers:
    """Flagged cells, columns whose tails are too heavy to flag any, and what the fit expects.

    `judged` marks the columns that were compared: those that vary, if there are enough.
    """

    flagged: Array
    heavy_tailed: Array
    expected: Array
    judged: Array


def gross_outliers(
    X: Any,
    random_state: Any = None,
    rows: Array | None = None,
    callback: Any = None,
) -> GrossOutliers:
    """Return which cells of a numeric table lie grossly off a robust fit to all of them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers, NaN where they are missing.
    random_state : int, optional
        Seed of the held-out entries by which the strength of the fit is chosen.
    rows : ndarray of int, optional
        Rows that the fit learns from; all by default.
    callback : callable, optional
        Called with every `Iterate` of the fit.

    Returns
    -------
    GrossOutliers
    """
    values = np.asarray(X, dtype=float)
    judged = np.zeros(values.shape[1], dtype=bool)
    if values.shape[1] >= MIN_COLUMNS and values.shape[0] >= MIN_ROWS:
        judged = np.nanmax(values, axis=0) > np.nanmin(values, axis=0)
    flagged = np.zeros(values.shape, dtype=bool)
    if judged.sum() < MIN_COLUMNS:
        none = np.zeros(values.shape[1], dtype=bool)
        return GrossOutliers(flagged, none, values.copy(), none)
    center = np.nanmedian(values, axis=0)
    scale = robust_scale(values)
    S = ((values - center) / scale)[:, judged]
    model = ConvexSubspace(
        loss="huber",
        alpha="auto",
        scale=False,
        random_state=random_state,
        callback=callback,
    )
    fit_or_default(model, S if rows is None else S[rows])
    Z = np.asarray(model.inverse_transform(model.transform(S)))
    R = np.abs(S - Z)
    deviation = np.nanmedian(R, axis=0) / NORMAL_MAD
    found = (deviation * RESIDUAL_DEVIATIONS < R) & (COLUMN_DEVIATIONS < R)
    heavy_tailed = np.zeros(values.shape[1], dtype=bool)
    heavy_tailed[judged] = found.mean(axis=0) > HEAVY_TAILED_SHARE
    flagged[:, judged] = found
    flagged[:, heavy_tailed] = False
    expected = values.copy()
    expected[:, judged] = center[judged] + scale[judged] * Z
    return GrossOutliers(flagged, heavy_tailed, expected, judged)


def robust_scale(values: Array) -> Array:
    """Return the interquartile range of each column in units of a standard deviation.

    Columns whose interquartile range is zero get their standard deviation, constant ones get 1.
    """
    low, high = np.nanquantile(values, (0.25, 0.75), axis=0)
    scale = (high - low) / NORMAL_IQR
    scale = np.where(scale > 0, scale, np.nanstd(values, axis=0))
    return positive_or_one(scale)
