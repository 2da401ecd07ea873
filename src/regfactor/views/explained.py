"""The variance of each view that each shared component and the private part explain."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array

PRIVATE = "private"
MAX_PRINTED = 10  # shared components that the text names, the first ones


def explained_shares(
    centered: Array,
    shared_codes: Array,
    shared_components: Array,
    codes: Array,
    atoms: Array,
    owner: Array,
    slices: list[slice],
) -> Array:
    """Return 1 - |X_v - part_v|^2 / |X_v|^2 of observed entries, a row for each view.

    Columns are the shared components one by one, and the private part of the view; `centered` is
    the table about its offsets, `owner` the view of each atom, -1 for a shared one.
    """
    out = np.zeros((len(slices), len(shared_components) + 1))
    for v, columns in enumerate(slices):
        X = centered[:, columns]
        observed = ~np.isnan(X)
        X = np.where(observed, X, 0.0)
        size = float(np.square(X).sum())
        if not size > 0:
            continue
        C = shared_components[:, columns]
        # |X - phi c'|^2 = |X|^2 - 2 phi'X c + sum of phi_i^2 c_j^2 over observed entries
        cross = ((shared_codes.T @ X) * C).sum(axis=1)
        squares = ((np.square(shared_codes).T @ observed) * np.square(C)).sum(axis=1)
        out[v, :-1] = (2 * cross - squares) / size
        own = owner == v
        part = np.where(observed, codes[:, own] @ atoms[own][:, columns], 0.0)
        out[v, -1] = float(2 * np.vdot(X, part) - np.vdot(part, part)) / size
    return out


@dataclass(frozen=True)
class ExplainedVariance:
    """Shares of the variance of views; its `str` is a table.

    The text has a column for each of the first ten shared components, and one for the sum of the
    others; `to_frame` has all.
    """

    views: list[Any]
    shares: Array

    @property
    def names(self) -> list[str]:
        """Names of the columns: the shared components by number, and the private part."""
        return [*map(str, range(self.shares.shape[1] - 1)), PRIVATE]

    def to_frame(self) -> Any:
        """Return the table as a pandas frame, a row for each view."""
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(self.shares, index=self.views, columns=self.names)

    def __str__(self) -> str:
        width = max(len("view"), *(len(str(view)) for view in self.views))
        names = self.names
        shares = self.shares
        n_others = len(names) - 1 - MAX_PRINTED
        if n_others > 1:
            others = shares[:, MAX_PRINTED:-1].sum(axis=1, keepdims=True)
            shares = np.hstack([shares[:, :MAX_PRINTED], others, shares[:, -1:]])
            names = [*names[:MAX_PRINTED], f"{n_others} more", PRIVATE]
        lines = [f"{'view':<{width}}" + "".join(f"{name:>9}" for name in names)]
        for view, row in zip(self.views, shares, strict=True):
            lines.append(f"{view!s:<{width}}" + "".join(f"{share:9.1%}" for share in row))
        return "\n".join(lines)
