"""Tables out as they came in: arrays, pandas or polars frames."""

from __future__ import annotations

from typing import Any

from regfactor._params import Array


def like(X: Any, values: Array) -> Any:
    """Return values in the kind of table that X is, with its index, columns and, where they still fit, types."""
    if not hasattr(X, "columns"):
        return values
    if hasattr(X, "iloc"):
        frame = type(X)(values, index=X.index, columns=X.columns)
        return frame.astype({name: kind for name, kind in X.dtypes.items() if kind.kind == "f"})
    return type(X)({name: values[:, j] for j, name in enumerate(X.columns)})
