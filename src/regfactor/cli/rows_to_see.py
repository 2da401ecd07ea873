"""Rows of a result that deserve a look, each with what is known of its new cells.

Doubt of a filled cell: how little the other columns said of it. 0 is certain, 1 is as unsure as
without a model: the width of the limits of a number relative to the range that as large a share of
the observed numbers has, and for other cells the share of other categories, 1 - p, relative to that
of all but the most frequent one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regfactor.cli.columns import FREE_TEXT, ID, Understood
from regfactor.cli.errors import count
from regfactor.core.params import Array
from regfactor.report import Grid, GridCell, number

MAX_ROWS = 200  # of a table in a report
MAX_COLUMNS = 8
MAX_NAME_LENGTH = 30
MAX_DECIMALS = 12  # within which a rounded number is free of rounding errors


def filled_cell(text: str, detail: str, key: float | None = None) -> GridCell:
    """Return a cell that was missing, with what is known of it."""
    return GridCell(text, detail, "filled", key)


def rows_grid(
    seen: Understood,
    head: Sequence[str],
    rows: Sequence[tuple[int, Sequence[str | GridCell]]],
    caption: str,
) -> Grid:
    """Return rows of a table under their numbers, counted from one, and the names that they have.

    `rows` holds the place of each row, counted from zero, and its cells.
    """
    names = naming_columns(seen)
    lines = []
    for i, cells in rows:
        named = [_shortened(seen.table.raw[name].iloc[i]) for name in names]
        lines.append([str(i + 1), *named, *cells])
    return Grid(("row", *names, *head), lines, caption, looked_up=True)


def naming_columns(seen: Understood) -> list[str]:
    """Return a column that names rows for readers, where there is one.

    That is an identifier which does not merely count the rows, or a column of different names.
    """
    rows = len(seen.frame)
    for kind in (ID, FREE_TEXT):
        for column in seen.columns:
            if column.kind != kind or column.missing:
                continue
            cells = seen.table.raw[column.name].astype(str)
            counts = any(cells.tolist() == list(map(str, range(k, rows + k))) for k in (0, 1))
            longest = cells.str.len().max()
            if cells.nunique() == rows and longest <= MAX_NAME_LENGTH and not counts:
                return [column.name]
    return []


def _shortened(value: Any) -> str:
    text = " ".join(str(value).split())
    if len(text) <= MAX_NAME_LENGTH:
        return text
    return text[: MAX_NAME_LENGTH - 1] + "…"


def doubts(limits: Any, seen: Understood, missing: Any) -> Any:
    """Return the doubt of each missing cell as a frame, NaN where a cell was observed."""
    found = missing.astype(float) * np.nan
    for name in missing.columns:
        at = missing[name].to_numpy()
        if not at.any():
            continue
        if name in limits.shares:
            doubt = _doubt_of_labels(limits.shares[name], seen.frame[name])
        elif limits.lower[name].dtype.kind in "fi":
            lower = limits.lower[name].to_numpy(dtype=float, na_value=np.nan)
            upper = limits.upper[name].to_numpy(dtype=float, na_value=np.nan)
            doubt = _doubt_of_numbers(upper - lower, seen.frame[name], limits.level)
        else:  # one value in all rows
            doubt = np.zeros(len(at))
        found.loc[at, name] = doubt[at]
    return found


def _doubt_of_labels(shares: Array, observed: Any) -> Array:
    """(1 - p) / (1 - p0), where p0 is the share of the most frequent category."""
    usual = 1 - float(observed.value_counts(normalize=True).max())
    other = 1 - shares.max(axis=1)
    if usual <= 0:
        return np.zeros(len(other))
    return np.minimum(other / usual, 1.0)


def _doubt_of_numbers(widths: Array, observed: Any, level: float) -> Array:
    """The width of limits relative to that of the middle share `level` of the observed numbers."""
    known = observed.to_numpy(dtype=float, na_value=np.nan)
    known = known[~np.isnan(known)]
    if not len(known):
        return np.ones(len(widths))
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    if high <= low:
        return np.where(widths > 0, 1.0, 0.0)
    return np.minimum(np.nan_to_num(widths / (high - low), nan=1.0), 1.0)


def completed_rows(seen: Understood, filled: Any, limits: Any) -> list[Grid]:
    """Return the rows of a completed table to look at first: outliers, then the least sure cells.

    Empty where no cell was filled or flagged.
    """
    flagged = filled.outliers.flagged.to_numpy()
    missing = filled.missing.to_numpy()
    doubt = doubts(limits, seen, filled.missing)
    worst = np.nan_to_num(doubt.to_numpy()).max(axis=1)
    at = np.flatnonzero((missing | flagged).any(axis=1))
    if not len(at):
        return []
    order = at[np.lexsort((-worst[at], ~flagged[at].any(axis=1)))][:MAX_ROWS]
    columns = _shown_columns(filled.missing, missing[order] | flagged[order])
    lines = []
    for i in order.tolist():
        cells = [_cell(seen, filled, limits, i, name) for name in columns]
        shown = "–" if not missing[i].any() else f"{worst[i]:.0%}"
        lines.append((i, [GridCell(shown, key=float(worst[i])), *cells]))
    caption = (
        f"{_how_many(len(order), len(at))}: gross outliers first, then the rows with the least "
        "sure cell. Filled cells are underlined and outliers colored; point at one, or go to it by "
        f"the keyboard, for its {limits.level:.0%} limits. Doubt is 0% where the other columns "
        "determine a cell, and 100% where they say nothing of it."
    )
    if len(columns) < len(filled.missing.columns):
        caption += f" {len(filled.missing.columns) - len(columns)} more columns are in the table."
    return [rows_grid(seen, ("doubt", *columns), lines, caption)]


def _how_many(shown: int, there: int) -> str:
    if shown == there:
        return f"The {count(there, 'row')} with filled or flagged cells"
    return f"{shown:,} of {there:,} rows with filled or flagged cells"


def _shown_columns(missing: Any, concerned: Array) -> list[str]:
    """Return the columns with the most cells of concern, as many as fit, in their order."""
    counts = concerned.sum(axis=0)
    best = np.argsort(-counts, kind="stable")[:MAX_COLUMNS]
    return [str(missing.columns[j]) for j in np.sort(best)]


def _cell(seen: Understood, filled: Any, limits: Any, i: int, name: str) -> str | GridCell:
    """Return a cell of a completed table as it is shown."""
    if filled.missing[name].iloc[i]:
        value = filled.frame[name].iloc[i]
        text = str(seen.table.cell(value, name))
        key = float(value) if isinstance(value, int | float | np.number) else None
        return filled_cell(text, _limits_of(limits, seen, i, name), key)
    text = " ".join(str(seen.table.raw[name].iloc[i]).split())
    if filled.outliers.flagged[name].iloc[i]:
        expected = number(float(filled.expected[name].iloc[i]), 4)
        return GridCell(text, f"expected about {expected}", "flagged")
    return text


def _limits_of(limits: Any, seen: Understood, i: int, name: str) -> str:
    """Return the limits of a cell, or the categories that it may have and how likely its own is."""
    if name in limits.sets:
        held = [
            str(seen.table.cell(level, name))
            for level, there in zip(limits.categories[name], limits.sets[name][i], strict=True)
            if there
        ]
        likely = f"{limits.shares[name][i].max():.0%} sure"
        return f"{limits.level:.0%}: {' or '.join(held)}; {likely}"
    if limits.lower[name].dtype.kind not in "fi":
        return "the only value of its column"
    lower = float(limits.lower[name].iloc[i])
    upper = float(limits.upper[name].iloc[i])
    if not np.isfinite([lower, upper]).all():
        return "too few observed cells for limits"
    return f"{limits.level:.0%}: {spelled_limits(seen.table, lower, upper, name)}"


def spelled_limits(table: Any, lower: float, upper: float, name: str | None = None) -> str:
    """Return limits as text, with two digits of their distance, rounded outward."""
    if upper > lower:
        unit = 10.0 ** (math.floor(math.log10(upper - lower)) - 1)
        lower = round(math.floor(lower / unit) * unit, MAX_DECIMALS)
        upper = round(math.ceil(upper / unit) * unit, MAX_DECIMALS)
    return f"{table.cell(lower, name)} to {table.cell(upper, name)}"
