"""What holds a table but is none that a fit can read: refused with what to give instead."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any


def refuse_containers(table: Any) -> None:
    """Raise for a lazy frame or a frame with repeated names, given to a fit.

    A list or a dict of tables is one of views, which are looked at one by one.
    """
    views = [table]
    if _is_dict(table):
        views = list(table.values())
    elif isinstance(table, list | tuple) and table and hasattr(table[0], "columns"):
        views = list(table)
    for view in views:
        refuse_container(view)


def refuse_container(X: Any, name: str = "X") -> None:
    """Raise for one table that has to be turned into an array or a frame first."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise ValueError(f"{name} is a lazy frame of polars; collect it: {name}.collect().")
    if hasattr(X, "iloc") and getattr(X, "ndim", 1) == 2 and not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()].tolist()[0]
        raise ValueError(
            f"{name} has several columns named {twice!r}; give each a name of its own, or leave "
            f"the names out: {name}.to_numpy()."
        )


def refuse_no_table(X: Any, name: str = "X") -> None:
    """Raise for a path and for a dict of columns, which are tables to people alone."""
    if isinstance(X, str | PathLike):
        raise ValueError(
            f"{name} is the text {str(X)!r}, and no table; read a file first: "
            f"regfactor.read_table({str(X)!r})."
        )
    if _is_dict(X):
        raise ValueError(f"{name} is a dict; make it a frame: pandas.DataFrame({name}).")
    refuse_container(X, name)


def refuse_arrow(X: Any, name: str = "X") -> None:
    """Raise for a table of Arrow where columns are read one by one; where rows are, it is taken."""
    if type(X).__module__.startswith("pyarrow") and hasattr(X, "to_pandas"):
        raise ValueError(
            f"{name} is a {type(X).__name__} of pyarrow; give {name}.to_pandas(), or a frame of "
            "polars."
        )


def _is_dict(X: Any) -> bool:
    """Return whether something is a dict, and no sparse matrix by keys, which may be one too."""
    return isinstance(X, Mapping) and not hasattr(X, "tocsr")


def densified(X: Any) -> Any:
    """Return a frame of sparse columns whose common value is not zero with all its values.

    Zeros that are not stored stay so: such a frame is a sparse table.
    """
    if not hasattr(X, "iloc") or getattr(X, "ndim", 1) != 2 or not X.shape[1]:
        return X
    kinds = [dtype for dtype in X.dtypes if type(dtype).__name__ == "SparseDtype"]
    if len(kinds) < X.shape[1] or all(dtype.fill_value == 0 for dtype in kinds):
        return X
    return X.sparse.to_dense()
