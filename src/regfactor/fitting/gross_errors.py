"""Single entries so far from all others of their column that they are taken for gross errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen, warn
from regfactor.losses import Loss, Squared

GROSS_SHARE = 0.1  # of all entries, that may be gross errors
FAR = 100.0  # interquartile ranges from the median beyond which an entry is a gross error
FAR_IN_LOGARITHMS = 3.0  # the same for logarithms
MAX_NAMED = 5  # columns in a warning


@frozen
class GrossErrors:
    """Limits beyond which single entries of otherwise usual rows are gross errors.

    Attributes
    ----------
    middle, reach : array of shape (n_columns,)
        Entries farther than `reach` from `middle` are far off; it is infinite where there is no
        spread, or too many would be far off.
    log_middle, log_reach : array of shape (n_columns,)
        The same for logarithms: of the entries of columns that are not negative, and of distances
        from the middle elsewhere. Entries must be far off in both; where logarithms have no spread,
        `log_reach` is negative.
    unit : array of shape (n_columns,)
        The least positive number, which is added before logarithms are taken; NaN where these are
        of distances.
    """

    middle: Array
    reach: Array
    log_middle: Array
    log_reach: Array
    unit: Array

    @staticmethod
    def fit(X: Array) -> GrossErrors:
        """Return limits by the quartiles of the observed entries of each column."""
        d = X.shape[1]
        middle = np.zeros(d)
        reach = np.full(d, np.inf)
        log_middle = np.zeros(d)
        log_reach = np.full(d, -1.0)
        unit = np.ones(d)
        for c in range(d):
            column = X[~np.isnan(X[:, c]), c]
            if not len(column):
                continue
            middle[c], reach[c] = _limits(column, FAR)
            # many far entries are the rest of a column of mostly equal ones
            share = np.mean(np.abs(column - middle[c]) > reach[c])
            if share > largest_share(len(column)):
                reach[c] = np.inf
            if column.min() >= 0:
                if column.max() > 0:
                    unit[c] = column[column > 0].min()
                logs = np.log(column + unit[c])
                log_middle[c], log_reach[c] = _limits(logs, FAR_IN_LOGARITHMS)
                continue
            unit[c] = np.nan
            distances = np.abs(column - middle[c])
            distances = distances[distances > 0]
            if len(distances):
                center, spread = _limits(np.log(distances), FAR_IN_LOGARITHMS)
                if np.isfinite(spread):
                    log_middle[c] = center
                    log_reach[c] = spread
        return GrossErrors(middle, reach, log_middle, log_reach, unit)

    def find(self, X: Array, n_observed: Array | None = None) -> Array:
        """Return a mask of gross errors.

        `n_observed` are numbers of observed entries of whole rows, where X holds some columns.
        """
        with np.errstate(invalid="ignore"):
            far = np.abs(X - self.middle) > self.reach
            if not far.any():
                return far
            signed = np.isnan(self.unit)
            positive = np.where(signed, np.abs(X - self.middle), X + self.unit)
            least = np.where(signed, np.finfo(float).tiny, self.unit / 2)
            logs = np.log(np.maximum(positive, least))
            far &= (np.abs(logs - self.log_middle) > self.log_reach) | (positive <= 0)
        if n_observed is None:
            n_observed = (~np.isnan(X)).sum(axis=1)
        # a row that is far off in most columns, and in more than one, is one of a distant cluster;
        # so is a far entry of a table of one column
        in_rows = far.sum(axis=1)
        few = 2 * in_rows <= n_observed
        if X.shape[1] > 1:
            few |= in_rows == 1
        far &= few[:, None]
        return far


def largest_share(n: float) -> float:
    """Return the share of gross errors in a column of n entries, of a tenth of all, by chance."""
    return float(GROSS_SHARE + 3 * np.sqrt(GROSS_SHARE * (1 - GROSS_SHARE) / n))


def warn_of_gross_errors(mask: Array) -> None:
    """Warn of entries that are left out, if there are any."""
    count = int(mask.sum())
    if count:
        columns = int(mask.any(axis=0).sum())
        warn(
            f"{count} entries in {columns} columns lie more than 100 interquartile ranges from the "
            "median of their column, in rows that are otherwise usual; they are taken for gross "
            "errors and left out. Remove or correct them, or use a model of heavier tails."
        )


def warn_of_influential_errors(
    X: Array,
    columns: Array,
    loss: Loss,
    names: list[Any] | None,
) -> None:
    """Warn of gross errors in some columns under the squared loss, which bounds no influence."""
    squared = np.zeros(X.shape[1], bool)
    for at, part in loss.parts(X.shape[1]):
        squared[at] = isinstance(part, Squared)
    columns = np.flatnonzero(columns & squared)
    if not len(columns):
        return
    n_observed = (~np.isnan(X)).sum(axis=1)
    found = GrossErrors.fit(X[:, columns]).find(X[:, columns], n_observed)
    count = int(found.sum())
    if not count:
        return
    named = columns if names is None else [names[j] for j in columns]
    affected = [str(named[k]) for k in np.flatnonzero(found.any(axis=0))]
    shown = ", ".join(affected[:MAX_NAMED])
    if len(affected) > MAX_NAMED:
        shown += f" and {len(affected) - MAX_NAMED} more"
    warn(
        f"{count} entries lie more than 100 interquartile ranges from the median of their column, "
        f"in columns: {shown}. Under the squared loss they decide the fit: correct or remove them, "
        "or use RobustSubspace, loss='huber' or AutoImputer."
    )


def _limits(column: Array, far: float) -> tuple[float, float]:
    """Return the median, and a multiple of the interquartile range.

    Of a column in which the median is a frequent value, as zero often is, the quartiles are those
    of the other entries.
    """
    low, middle, high = np.percentile(column, (25, 50, 75))
    if low == middle or middle == high:
        others = column[column != middle]
        if len(others):
            low, high = np.percentile(others, (25, 75))
    if high > low:
        return float(middle), far * float(high - low)
    return float(middle), float("inf")
