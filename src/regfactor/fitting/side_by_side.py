"""Two tables of the same rows side by side: reading, columns of each view, losses and units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.params import EPS, Array, frozen, is_number
from regfactor.fitting.inputs import as_float_table
from regfactor.fitting.labels import require_same_rows
from regfactor.fitting.noise import is_robust, robust_units
from regfactor.fitting.schema import places as column_places
from regfactor.losses import Huber, Loss, Stacked, as_loss
from regfactor.penalties import Trace
from regfactor.problems import Design
from regfactor.problems.convex import convex

# relative size of numbers about their mean that are rounding
MEAN_ROUNDING = 64 * EPS
AUTO_LOSS = "auto"  # as a value of loss


class SecondView(BaseEstimator):
    """The columns of the second table; those of the first are kept by the estimator itself."""

    def __init__(self, sparse_zeros: str = "missing") -> None:
        self.sparse_zeros = sparse_zeros


@frozen
class ViewUnits:
    """For each column, the number that its data are divided by and the weight of its loss."""

    divisor: Array
    weight: Array

    @classmethod
    def ones(cls, width: int) -> ViewUnits:
        """Return units that change nothing."""
        return cls(np.ones(width), np.ones(width))

    @property
    def column_weights(self) -> Any:
        """The weights, or one number where all are one."""
        if np.all(self.weight == 1):
            return 1.0
        return self.weight

    def divide(self, table: Any) -> Any:
        """Return a table in these units."""
        if np.all(self.divisor == 1):
            return table
        divisor = self.divisor.astype(table.dtype)
        if not is_sparse(table):
            return table / divisor
        data = table.data / divisor[table.indices]
        return scipy.sparse.csr_array((data, table.indices, table.indptr), table.shape)


def is_vector(y: Any) -> bool:
    """Return whether y has one number for each row and no columns."""
    return not is_sparse(y) and np.asarray(y).ndim == 1


def second_table(y: Any, estimator: Any, reset: bool) -> Any:
    """Return the second table as numbers; a vector is a table of one column."""
    if is_vector(y):
        y = np.asarray(y).reshape(-1, 1)
    return as_float_table(estimator, y, None, reset)


def hstack_tables(first: Any, second: Any, dense: bool) -> Any:
    """Return both tables as one in the precision of the first.

    It is sparse where one of them is, unless it has to be dense.
    """
    require_same_rows(first, second)
    if not (is_sparse(first) or is_sparse(second)):
        return np.hstack([first, second.astype(first.dtype, copy=False)])
    if dense:
        return np.hstack(
            [with_missing_as_nan(first), with_missing_as_nan(second).astype(first.dtype)]
        )
    parts = [_as_sparse(first), _as_sparse(second)]
    return scipy.sparse.csr_array(scipy.sparse.hstack(parts, format="csr", dtype=first.dtype))


def with_missing_as_nan(table: Any) -> Array:
    """Return a table as an array with NaN where a sparse one stores nothing."""
    if not is_sparse(table):
        return table
    rows, columns = table.tocoo().coords
    whole = np.full(table.shape, np.nan, table.dtype)
    whole[rows, columns] = table.data
    return whole


def _as_sparse(table: Any) -> Any:
    """Return the observed entries of a table as a sparse one, zeros among them."""
    if is_sparse(table):
        return table
    rows, columns = np.nonzero(~np.isnan(table))
    return scipy.sparse.csr_array((table[rows, columns], (rows, columns)), shape=table.shape)


def split_of(n_first: Any, d: int, names: list[str]) -> tuple[int, Array]:
    """Return the number of columns of the first view, and all columns in the order of the views.

    `n_first` is a count, a share between 0 and 1, or the columns of the first view by name or
    position.
    """
    order = np.arange(d)
    if is_number(n_first):
        count = round(n_first if float(n_first).is_integer() else n_first * d)
    elif isinstance(n_first, str) or not hasattr(n_first, "__iter__"):
        raise ValueError(
            f"n_first must be a count, a share, or a list of columns, got {n_first!r}."
        )
    else:
        chosen = np.unique(np.asarray(column_places(list(n_first), names), int))
        count = len(chosen)
        order = np.concatenate([chosen, np.setdiff1d(order, chosen)])
    if not 0 < count < d:
        raise ValueError(
            f"n_first={n_first!r} gives the first view {count} of {d} columns; both views need "
            "some."
        )
    return count, order


def loss_pair(loss: Any) -> tuple[Loss, Loss]:
    """Return the losses of both views from one loss or a pair of them.

    "auto" is a Huber loss, until the noise of the views is known.
    """
    pair = loss_names(loss)
    first, second = (Huber() if one == AUTO_LOSS else as_loss(one) for one in pair)
    return first, second


def loss_names(loss: Any) -> tuple[Any, Any]:
    """Return what was given as the loss of each view."""
    pair = loss
    if isinstance(loss, str | Loss):
        pair = (loss, loss)
    if len(pair) != 2 or not all(isinstance(one, str | Loss) for one in pair):
        raise ValueError(f"loss must be one loss or a pair, one for each view, got {loss!r}.")
    return pair[0], pair[1]


def joint_loss(losses: tuple[Loss, Loss], n_first: int) -> Loss:
    """Return one loss on both views together."""
    if losses[0] == losses[1] and not losses[0].rowwise:
        return losses[0]
    return Stacked(((slice(0, n_first), losses[0]), (slice(n_first, None), losses[1])))


def units(
    losses: Sequence[Loss],
    views: Sequence[Any],
    rows: Array | None,
    intercept: bool,
) -> ViewUnits:
    """Return units in which the best constants cost a half for each observed entry of every view.

    Under a loss of the residual each column is divided by its deviation: from its mean, or from
    zero where there are no intercepts, and robustly, from its median, where the influence of an
    entry on the loss is bounded. Any other loss is weighted by what its best constants cost above
    its least value.
    """
    divisors = []
    weights = []
    for loss, view in zip(losses, views, strict=True):
        width = view.shape[1]
        divisor = np.ones(width)
        weight = 1.0
        if is_robust(loss):
            divisor = robust_units(view, rows).deviation
        elif loss.of_residual:
            divisor = _deviations(view, rows, intercept)
        else:
            cost = _null_cost(loss, view, rows, intercept)
            if 0 < cost < np.inf:
                weight = 0.5 / cost
        divisors.append(divisor)
        weights.append(np.full(width, weight))
    return ViewUnits(np.concatenate(divisors), np.concatenate(weights))


def _deviations(view: Any, rows: Array | None, intercept: bool) -> Array:
    """Return the root mean square of each column about its mean, one where it is rounding."""
    if rows is None:
        weights = np.ones(view.shape[0])
    else:
        weights = rows
    if is_sparse(view):
        places = view.indices
        values = view.data.astype(np.float64)
        shares = np.repeat(weights, np.diff(view.indptr))
    else:
        seen = ~np.isnan(view)
        places = np.nonzero(seen)[1]
        values = view[seen].astype(np.float64)
        shares = np.broadcast_to(weights[:, None], view.shape)[seen]
    d = view.shape[1]
    counts = np.bincount(places, shares, minlength=d)
    counts = positive_or_one(counts)
    mean = np.zeros(d)
    if intercept:
        mean = np.bincount(places, shares * values, minlength=d) / counts
    squares = np.bincount(places, shares * np.square(values - mean[places]), minlength=d) / counts
    size = np.zeros(d)
    np.maximum.at(size, places, np.abs(values))
    deviation = np.sqrt(squares)
    varies = (deviation > MEAN_ROUNDING * size) & np.isfinite(deviation)
    return np.where(varies, deviation, 1.0)


def _null_cost(loss: Loss, view: Any, rows: Array | None, intercept: bool) -> float:
    """Return the mean loss of observed entries under the best constants, above its least value."""
    if rows is not None:
        view = view[rows > 0]
        rows = rows[rows > 0]
    if loss.rowwise:
        view = with_missing_as_nan(view).astype(np.float64)
    else:
        view = view.astype(np.float64)
    design = Design.intercept(view.shape[0]) if intercept else None
    problem = convex(view, loss, Trace(), 1.0, rows, None, design)
    data = problem.data
    total_weight = 0.0
    for term in data.terms:
        if term.w is None:
            total_weight += term.x.size
        else:
            total_weight += float(np.broadcast_to(term.w, term.x.shape).sum())
    if not total_weight > 0:
        return 0.0
    P = problem.predictor(problem.null.factors, problem.null.coefficients)
    return (data.value(P) - data.infimum) / total_weight


def null_gradient(loss: Loss, view: Any, rows: Array | None, intercept: bool) -> float:
    """Return the root mean square of the gradient of a loss under the best constants.

    An upper bound of its noise, where losses are not of the residual.
    """
    if rows is not None:
        view = view[rows > 0]
        rows = rows[rows > 0]
    whole = with_missing_as_nan(view).astype(np.float64)
    design = Design.intercept(whole.shape[0]) if intercept else None
    problem = convex(whole, loss, Trace(), 1.0, rows, None, design)
    P = problem.predictor(problem.null.factors, problem.null.coefficients)
    weights = np.ones(len(whole)) if rows is None else rows
    gradient = problem.data.gradient(P) / weights[:, None]
    seen = ~np.isnan(whole)
    shares = np.broadcast_to(weights[:, None], whole.shape)[seen]
    return float(np.sqrt(np.average(np.square(gradient[seen]), weights=shares)))
