"""Checks of data: values that a loss cannot take are refused with column, count and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.losses import Binomial, Logistic, Loss, Ordinal, Robust
from regfactor.losses.margin import Margin
from regfactor.problems.layout import Layout


def check_table(X: Array, observed: Array) -> None:
    """Raise for a table that no loss can take."""
    if X.ndim != 2:
        raise ValueError(f"Expected a table with rows and columns, got {X.ndim} dimensions.")
    if not observed.any():
        raise ValueError("Every entry of the table is missing; there is nothing to fit.")
    infinite = np.isinf(X)
    if infinite.any():
        i, j = np.argwhere(infinite)[0]
        raise ValueError(
            f"The table contains infinity in {infinite.sum()} entries, the first in row {i}, "
            f"column {j}. Mark missing entries by NaN."
        )


def entry_weights(observed: Array, weights: Array | None, dtype: Any) -> Array | None:
    """Return weights of entries with zeros at missing entries, or None where all are one."""
    if weights is None:
        if observed.all():
            return None
        return observed.astype(dtype)
    weights = np.asarray(weights, dtype)
    if weights.ndim == 1:
        weights = weights[:, None]
    if weights.shape[0] != observed.shape[0] or weights.shape[1] not in (1, observed.shape[1]):
        raise ValueError(
            f"Weights of shape {weights.shape} do not fit a table of shape {observed.shape}."
        )
    check_weights(np.broadcast_to(weights, observed.shape), observed)
    weights = np.where(observed, weights, 0).astype(dtype)
    if np.all(weights == 1):
        return None
    return weights


def check_weights(weights: Array, observed: Array, name: str = "Weights") -> None:
    """Raise for weights of entries that no loss can take, or that leave nothing to fit."""
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(
            f"{name} must be finite and not negative; where an entry should not count, zero."
        )
    if observed.any() and not weights[observed].any():
        raise ValueError(
            f"{name} must not be zero at every observed entry; there is nothing to fit."
        )


class IllegalValues(ValueError):
    """Values outside a domain: what refuses them, the columns that hold them, the remedy."""

    def __init__(
        self,
        what: str,
        bad: Array,
        seen: Array,
        remedy: str,
        names: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(what, bad, seen, remedy, names)

    def __str__(self) -> str:
        what, bad, seen, remedy, names = self.args
        return f"{what}{located(bad, seen, names)}. {remedy}"

    def named(self, names: Sequence[Any]) -> IllegalValues:
        """Return the error with the user's names of all columns of the table."""
        what, bad, seen, remedy, places = self.args
        places = range(len(bad)) if places is None else places
        return IllegalValues(what, bad, seen, remedy, [names[j] for j in places])


def located(bad: Array, seen: Array, names: Sequence[Any] | None = None) -> str:
    """Return the counts of bad values among the observed ones, for the first three columns."""
    columns = np.flatnonzero(bad).tolist()
    known = {j: j if names is None else names[j] for j in columns[:3]}
    found = "; ".join(
        f"column {name!r}: {bad[j]:.0f} of {seen[j]:.0f} values" for j, name in known.items()
    )
    return found + (f" (and {len(columns) - 3} more columns)" if len(columns) > 3 else "")


def check_term(
    loss: Loss,
    x: Array,
    observed: Array,
    layout: Layout,
    places: Sequence[int] | None = None,
) -> None:
    """Raise for data that a loss cannot take: which column, how many, which loss instead.

    `places` are those of its columns in the table, of which it may have a part.
    """
    bad = layout.column_sums((~loss.legal(x) & observed).astype(float))
    if bad.any():
        seen = layout.column_sums(observed.astype(float))
        what = f"The loss {loss} cannot take these data; outside {loss.domain_text} are "
        raise IllegalValues(what, bad, seen, _advice(loss, x, observed), places)
    if loss.rowwise and np.any(observed.any(axis=1) != observed.all(axis=1)):
        raise ValueError(
            f"Under {loss} a row must be observed whole or not at all; fill its missing entries, "
            "or leave it out."
        )


def check_row_weights(loss: Loss, w: Array | None) -> None:
    """Raise if entries of a row that a loss couples have different weights."""
    if loss.rowwise and w is not None and np.any(w != w[:, :1]):
        raise ValueError(
            f"Under {loss} all entries of a row must have the same weight; give weights of rows."
        )


def as_bits(values: Array) -> str | None:
    """Return how two values that are not 0 and 1 become them.

    None where there are more or fewer.
    """
    ends = values.min(), values.max()
    if ends[0] == ends[1] or not np.isin(values, ends).all():
        return None
    return f"There are two values, {ends[0]:g} and {ends[1]:g}: code them 0 and 1."


def _advice(loss: Loss, x: Array, observed: Array) -> str:
    """Return which coding or which loss would take the data."""
    values = x[observed]
    loss = loss.loss if isinstance(loss, Robust) else loss
    if isinstance(loss, Margin) and np.isin(values, (0, 1)).all():
        return "Values are 0 and 1: code them -1 and +1, or use loss='logistic'."
    if np.isin(values, (-1, 1)).all():
        return "Values are -1 and +1: use a hinge loss, or code them 0 and 1 for loss='logistic'."
    if isinstance(loss, Logistic) and (coded := as_bits(values)) is not None:
        return coded
    if isinstance(loss, Ordinal) and (values >= 0).all() and (values == np.round(values)).all():
        levels = f"Ordinal(levels={values.max() + 1:.0f})"
        return f"Give the number of levels: {levels} would take the largest value."
    if isinstance(loss, Binomial):
        trials = f"Binomial(trials={values.max():g})"
        return f"Give the number of trials: {trials} would take the largest value."
    if (values >= 0).all() and (values == np.round(values)).all():
        return "Values are counts: use loss='poisson' (or 'multinomial' for rows of counts)."
    if (values >= 0).all():
        return (
            "Values are not negative: use loss='poisson', 'gamma_log' or 'kl', or loss='squared'."
        )
    return "Values are real numbers: use loss='squared' or loss='huber'."
