"""Two tables of the same rows laid side by side: the door, which columns are which view, a loss and a unit for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, is_number
from regfactor.fitting.inputs import as_float_table
from regfactor.fitting.schema import places
from regfactor.losses import Loss, Squared, Stacked, as_loss
from regfactor.penalties import Trace
from regfactor.problems import Design
from regfactor.problems.convex import convex

NOISE = 64 * float(
    np.finfo(np.float64).eps,
)  # relative size of numbers about their mean that are rounding


class SecondView(BaseEstimator):
    """Remembers the columns of the second of two tables, as the estimator itself does those of the first."""

    def __init__(self, sparse_zeros: str = "missing") -> None:
        self.sparse_zeros = sparse_zeros


@dataclass(frozen=True, eq=False)
class Units:
    """What stands at each column: the number that data are divided by, and the weight of its loss."""

    divisor: Array
    weight: Array

    @classmethod
    def ones(cls, width: int) -> Units:
        """Return units that change nothing."""
        return cls(np.ones(width), np.ones(width))

    @property
    def unweighted(self) -> bool:
        """Whether every weight is one."""
        return bool(np.all(self.weight == 1))

    def divide(self, table: Any) -> Any:
        """Return a table in these units."""
        if np.all(self.divisor == 1):
            return table
        divisor = self.divisor.astype(table.dtype)
        if not is_sparse(table):
            return table / divisor
        return scipy.sparse.csr_array(
            (table.data / divisor[table.indices], table.indices, table.indptr),
            table.shape,
        )

    def weigh(self, table: Any, entries: Any) -> Any:
        """Return the weight of each entry of a table; None where all are one."""
        if self.unweighted:
            return entries
        weight = self.weight.astype(table.dtype)
        if not is_sparse(table):
            return np.broadcast_to(weight, table.shape) * (1 if entries is None else entries)
        data = weight[table.indices] * (1 if entries is None else entries.data)
        return scipy.sparse.csr_array((data, table.indices, table.indptr), table.shape)


def is_vector(y: Any) -> bool:
    """Whether y has one number for each row and no columns."""
    return not is_sparse(y) and len(getattr(y, "shape", None) or np.asarray(y).shape) == 1


def second_table(y: Any, estimator: Any, reset: bool) -> Any:
    """Return the second table as numbers; a vector is a table of one column."""
    y = np.asarray(y).reshape(-1, 1) if is_vector(y) else y
    return as_float_table(estimator, y, None, reset)


def beside(first: Any, second: Any, dense: bool) -> Any:
    """Return both tables as one in the precision of the first; a sparse one unless it has to be dense."""
    check_consistent_length(first, second)
    if not (is_sparse(first) or is_sparse(second)):
        return np.hstack([first, second.astype(first.dtype, copy=False)])
    if dense:
        return np.hstack([with_holes(t).astype(first.dtype, copy=False) for t in (first, second)])
    parts = [t if is_sparse(t) else _stored(t) for t in (first, second)]
    return scipy.sparse.csr_array(scipy.sparse.hstack(parts, format="csr", dtype=first.dtype))


def with_holes(table: Any) -> Array:
    """Return a table as an array with NaN where a sparse one stores nothing."""
    if not is_sparse(table):
        return np.asarray(table)
    rows, columns = table.tocoo().coords
    whole = np.full(table.shape, np.nan, table.dtype)
    whole[rows, columns] = table.data
    return whole


def _stored(table: Array) -> Any:
    """Return the observed entries of a dense table as a sparse one, zeros among them."""
    rows, columns = np.nonzero(~np.isnan(table))
    return scipy.sparse.csr_array((table[rows, columns], (rows, columns)), shape=table.shape)


def split_of(n_first: Any, d: int, names: list[str]) -> tuple[int, Array]:
    """Return how many columns the first view has, and all columns in the order of the views.

    `n_first` is a count, a share between 0 and 1, or the columns of the first view by name or
    position.
    """
    order = np.arange(d)
    if is_number(n_first):
        if float(n_first).is_integer():
            count = int(n_first)
        else:
            count = int(round(float(n_first) * d))
    elif isinstance(n_first, str) or not hasattr(n_first, "__iter__"):
        raise ValueError(
            f"n_first must be a count, a share, or a list of columns, got {n_first!r}.",
        )
    else:
        chosen = np.unique(np.asarray(places(list(n_first), names), int))
        count = len(chosen)
        order = np.concatenate([chosen, np.setdiff1d(order, chosen)])
    if not 0 < count < d:
        raise ValueError(
            f"n_first={n_first!r} gives the first view {count} of {d} columns; both views need some.",
        )
    return count, order


def loss_pair(loss: Any) -> tuple[Loss, Loss]:
    """Return the losses of both views from one loss or a pair of them."""
    if isinstance(loss, str | Loss):
        return as_loss(loss), as_loss(loss)
    if (
        isinstance(loss, list | tuple)
        and len(loss) == 2
        and all(isinstance(one, str | Loss) for one in loss)
    ):
        return as_loss(loss[0]), as_loss(loss[1])
    raise ValueError(f"loss must be one loss or a pair, one for each view, got {loss!r}.")


def joint_loss(losses: tuple[Loss, Loss], n_first: int) -> Loss:
    """Return one loss on both views together."""
    if losses[0] == losses[1] and not losses[0].rowwise:
        return losses[0]
    return Stacked(((slice(0, n_first), losses[0]), (slice(n_first, None), losses[1])))


def units(
    losses: tuple[Loss, Loss],
    views: tuple[Any, Any],
    rows: Array | None,
    intercept: bool,
) -> Units:
    """Return units in which the best constants cost a half for each observed entry of either view.

    Under a loss of the residual the data are divided by their root mean square (about the column
    means, where there are intercepts); any other loss is weighted by what its best constants cost
    above its least value.
    """
    divisors = []
    weights = []
    for loss, view in zip(losses, views, strict=True):
        cost = _null_cost(Squared() if loss.of_residual else loss, view, rows, intercept)
        usable = np.isfinite(cost) and cost > (_rounding(view) if loss.of_residual else 0.0)
        divisors.append(np.sqrt(2 * cost) if usable and loss.of_residual else 1.0)
        weights.append(0.5 / cost if usable and not loss.of_residual else 1.0)
    sizes = [view.shape[1] for view in views]
    return Units(np.repeat(divisors, sizes), np.repeat(weights, sizes))


def _rounding(view: Any) -> float:
    """Return the mean square below which numbers about their means are rounding: such a view is constant."""
    seen = np.abs(view.data if is_sparse(view) else view).astype(np.float64)
    return float(np.square(NOISE * np.max(seen, where=~np.isnan(seen), initial=0.0)))


def _null_cost(loss: Loss, view: Any, rows: Array | None, intercept: bool) -> float:
    """Return the mean loss of the observed entries under the best constants, above the least value of the loss."""
    if rows is not None:
        view = view[rows > 0]
        rows = rows[rows > 0]
    if loss.rowwise:
        view = with_holes(view).astype(np.float64)
    else:
        view = view.astype(np.float64)
    design = Design.intercept(view.shape[0]) if intercept else None
    problem = convex(view, loss, Trace(), 1.0, rows, None, design)
    data = problem.data
    seen = sum(
        t.x.size if t.w is None else float(np.broadcast_to(t.w, t.x.shape).sum())
        for t in data.terms
    )
    P = problem.predictor(problem.null.factors, problem.null.coefficients)
    if seen > 0:
        return (data.value(P) - data.infimum) / seen
    return 0.0
