"""Several tables of the same rows: read from lists, dicts of frames, MuData, or one table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.fitting.inputs import as_float_table
from regfactor.fitting.schema import places
from regfactor.fitting.side_by_side import is_vector, with_missing_as_nan
from regfactor.views.shared_private import view_slices

LIST = "list"
DICT = "dict"
STACKED = "stacked"


class ViewColumns(BaseEstimator):
    """The columns of a view, as scikit-learn remembers them."""

    def __init__(self, sparse_zeros: str = "missing") -> None:
        self.sparse_zeros = sparse_zeros


@frozen
class Layout:
    """Names, sizes and order of the views of a fit, and the form in which they were given.

    `order` are the columns of a stacked table in the order of the views.
    """

    names: list[Any]
    sizes: tuple[int, ...]
    form: str
    order: Array

    @property
    def slices(self) -> list[slice]:
        """The columns of each view, in tables with views side by side."""
        return view_slices(self.sizes)

    def split(self, table: Array) -> list[Array]:
        """Return the views of a table in which they are side by side."""
        return [table[:, columns] for columns in self.slices]

    def place(self, view: Any) -> int:
        """Return the position of a view, given by its name or position."""
        if view in self.names:
            return self.names.index(view)
        number = isinstance(view, int | np.integer) and not isinstance(view, bool)
        if number and -len(self.names) <= view < len(self.names):
            return int(view) % len(self.names)
        raise ValueError(f"There is no view {view!r}; the views are {self.names}.")

    def as_given(self, tables: Sequence[Any]) -> Any:
        """Return one result for each view: a list, or a dict where views have names."""
        if self.form == DICT:
            return dict(zip(self.names, tables, strict=True))
        return list(tables)

    def in_form(self, table: Array) -> Any:
        """Return all views as they were given: a list, a dict, or one table."""
        if self.form != STACKED:
            return self.as_given(self.split(table))
        out = np.empty_like(table)
        out[:, self.order] = table
        return out


@frozen
class GivenViews:
    """Names and tables of views; None for one that is missing."""

    names: list[Any]
    tables: list[Any]
    form: str


def given_views(X: Any, y: Any = None) -> GivenViews | None:
    """Return views given apart from each other; None for one table."""
    modalities = getattr(X, "mod", None)
    if isinstance(modalities, Mapping):
        frames = {name: _frame_of(modality) for name, modality in modalities.items()}
        X = {name: frame.reindex(X.obs_names) for name, frame in frames.items()}
    if isinstance(X, Mapping) and not is_sparse(X):  # sparse matrices may be mappings
        _refuse_y(y)
        return GivenViews(list(X), _aligned(list(X.values())), DICT)
    if is_list_of_tables(X):
        _refuse_y(y)
        return GivenViews(list(range(len(X))), _aligned(list(X)), LIST)
    if y is not None:
        return GivenViews([0, 1], [X, y], LIST)
    return None


def is_list_of_tables(X: Any) -> bool:
    """Return whether X is a list of tables and not one table in a list of rows."""
    if not isinstance(X, list | tuple):
        return False
    shaped = [table for table in X if table is not None]
    return any(is_sparse(table) or np.asarray(table).ndim == 2 for table in shaped)


def _refuse_y(y: Any) -> None:
    if y is not None:
        raise ValueError("Views are given either as one list or dict, or as two tables: leave y.")


def _frame_of(modality: Any) -> Any:
    """Return a modality of MuData as a frame with its observations and variables."""
    pandas = importlib.import_module("pandas")
    values = modality.X
    if is_sparse(values):
        values = values.toarray()
    names = list(map(str, modality.var_names))
    return pandas.DataFrame(np.asarray(values), index=modality.obs_names, columns=names)


def _aligned(tables: list[Any]) -> list[Any]:
    """Return frames whose rows differ with the rows of all, in the order in which they appear."""
    frames = [table for table in tables if table is not None]
    indices: list[Any] = [getattr(table, "index", None) for table in frames]
    if any(index is None or callable(index) for index in indices) or len(frames) < 2:
        return tables
    first = indices[0]
    if all(len(index) == len(first) and (index == first).all() for index in indices[1:]):
        return tables
    for index in indices:
        if not index.is_unique:
            raise ValueError(
                "Rows of the views are matched by the index of their frames, and one has an index "
                "more than once: make it unique, or reset it where rows are in the same order."
            )
    rows = first
    for index in indices[1:]:
        rows = rows.append(index.difference(rows, sort=False))
    return [table if table is None else table.reindex(rows) for table in tables]


def checked_tables(
    estimator: Any,
    tables: Sequence[Any],
    columns: list[ViewColumns],
    sizes: Sequence[int] | None,
    names: Sequence[Any],
) -> list[Array]:
    """Return views as arrays of the same rows with NaN; those that are None have NaN alone.

    The first view is the one by which scikit-learn counts features of the estimator. `sizes` are
    those of the fitted views, None in a fit.
    """
    reset = sizes is None
    found: list[Array | None] = []
    for v, table in enumerate(tables):
        if table is None:
            found.append(None)
            continue
        if v > 0 and is_vector(table):
            table = np.asarray(table).reshape(-1, 1)
        checker = estimator if v == 0 else columns[v]
        found.append(with_missing_as_nan(as_float_table(checker, table, None, reset)))
    known = [table for table in found if table is not None]
    if not known:
        raise ValueError(f"All views are missing: give at least one of {list(names)}.")
    try:
        check_consistent_length(*known)
    except ValueError as error:
        lengths = {name: len(t) for name, t in zip(names, found, strict=True) if t is not None}
        raise ValueError(
            f"Views have inconsistent numbers of rows, {lengths}: give NaN where a view is missing."
        ) from error
    if sizes is None:
        return known
    n = len(known[0])
    dtype = known[0].dtype
    return [
        np.full((n, size), np.nan, dtype) if table is None else table.astype(dtype, copy=False)
        for table, size in zip(found, sizes, strict=True)
    ]


def stacked_layout(views: Any, d: int, names: list[str]) -> Layout:
    """Return the views of one table: a dict or list of columns, or a label for each column."""
    if views is None:
        raise ValueError(
            "One table requires y to be passed, or its views: fit([X1, X2, ...]), fit(X1, X2), or "
            "fit(X, views=...) with a dict {name: columns}, a list of lists of columns, or a label "
            "for each column."
        )
    if isinstance(views, Mapping):
        groups = {name: places(list(columns), names) for name, columns in views.items()}
    else:
        views = list(views)
        if all(isinstance(columns, list | tuple | range | np.ndarray) for columns in views):
            groups = {v: places(list(columns), names) for v, columns in enumerate(views)}
        else:
            if len(views) != d:
                raise ValueError(f"views has {len(views)} labels for {d} columns.")
            groups = {}
            for j, label in enumerate(views):
                groups.setdefault(label, []).append(j)
    order = np.concatenate([np.asarray(columns, int) for columns in groups.values()])
    if len(order) != d or len(np.unique(order)) != d:
        raise ValueError(
            f"views must name each of the {d} columns once, and names {len(order)}, "
            f"{len(np.unique(order))} of them different."
        )
    sizes = tuple(len(columns) for columns in groups.values())
    return Layout(list(groups), sizes, STACKED, order)
