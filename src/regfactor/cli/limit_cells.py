"""Cells that state limits of a number instead of the number: `<0.5`, `>= 10`, `3-5`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regfactor.cli.errors import BadInput, listed
from regfactor.cli.number_formats import COMMA, POINT, parse_cell
from regfactor.core.params import Array

BELOW = re.compile(r"(?:<=|=<|<|≤)\s*(.+)")
ABOVE = re.compile(r"(?:>=|=>|>|≥)\s*(.+)")
BETWEEN = re.compile(r"(.*\d[^\d\s-]*)\s*(?:-|\u2013|\u2014|\.\.+|\bto\b)\s*([^\s-].*)")
MIN_NUMBERS = 3  # different numbers, without which a column of limits holds categories
MIN_SHARE = 0.25  # of the known cells of a column, that are numbers
MOST_SHOWN = 3  # cells of a column that a note lists


class LimitCell(NamedTuple):
    """A cell that states limits; rows from zero, infinite where they are open."""

    row: int
    text: str
    lower: float
    upper: float


def parse_limits(text: str, decimal: str = POINT) -> tuple[float, float] | None:
    """Return the limits that a cell states; None if it states none."""
    text = text.strip()
    below = BELOW.fullmatch(text)
    if below:
        return _ends(None, below[1], decimal)
    above = ABOVE.fullmatch(text)
    if above:
        return _ends(above[1], None, decimal)
    between = BETWEEN.fullmatch(text)
    if between and parse_cell(text) is None:  # 1e-3 is a number
        return _ends(between[1], between[2], decimal)
    return None


def _ends(low: str | None, high: str | None, decimal: str) -> tuple[float, float] | None:
    values = []
    for text, is_open in ((low, -np.inf), (high, np.inf)):
        if text is None:
            values.append(is_open)
            continue
        cell = parse_cell(text)
        value = None if cell is None else cell.value(decimal)
        if value is None or not np.isfinite(value):
            return None
        values.append(value)
    return values[0], values[1]


def tells_limits(strings: Array, missing: Array) -> Array:
    """Return a mask of the cells of a column of numbers that state limits of one.

    None do where hardly a cell is a number: such a column holds categories.
    """
    found = np.zeros(len(strings), bool)
    different = set(strings[~missing].tolist())
    limits = {t for t in different if any(parse_limits(t, mark) for mark in (POINT, COMMA))}
    if not limits:
        return found
    numbers = {text for text in different - limits if parse_cell(text) is not None}
    known = [str(text) for text in strings[~missing].tolist()]
    share = np.mean([text in numbers for text in known])
    if len(numbers) < MIN_NUMBERS or share < MIN_SHARE:
        return found
    found[~missing] = [text in limits for text in known]
    return found


def read_limits(name: str, strings: Array, at: Array, decimal: str) -> tuple[LimitCell, ...]:
    """Return the cells of a column that state limits; raise for limits that cross."""
    cells = []
    for i in np.flatnonzero(at).tolist():
        text = str(strings[i])
        ends = parse_limits(text, decimal)
        if ends is None:
            raise BadInput(
                f"Row {i + 1} of column {name!r} holds {text!r}, which states no limits with the "
                f"decimal mark {decimal!r} of the other numbers: correct it."
            )
        if ends[0] > ends[1]:
            raise BadInput(
                f"Row {i + 1} of column {name!r} holds {text!r}, whose lower limit is above its "
                "upper limit: correct it, or mark it as missing by "
                f'--missing "{name}={text}".'
            )
        cells.append(LimitCell(i, text, *ends))
    return tuple(cells)


def limits_note(name: str, cells: Sequence[LimitCell]) -> str:
    """Return how cells that state limits were read."""
    shown = listed([f"{cell.text!r} in row {cell.row + 1}" for cell in cells], MOST_SHOWN)
    plural = "1 cell that states" if len(cells) == 1 else f"{len(cells):,} cells that state"
    return (
        f"Column {name!r} of numbers has {plural} limits: {shown}. `complete` fits and fills such "
        "cells within their limits; other commands do not use them."
    )


def limit_frames(frame: Any, cells: Mapping[str, Sequence[LimitCell]]) -> tuple[Any, Any]:
    """Return tables like a frame with lower and upper limits, NaN where they are open."""
    lower = np.full(frame.shape, np.nan)
    upper = np.full(frame.shape, np.nan)
    places = {name: j for j, name in enumerate(frame.columns)}
    for name, found in cells.items():
        for cell in found:
            lower[cell.row, places[name]] = cell.lower
            upper[cell.row, places[name]] = cell.upper
    make = type(frame)
    options = {"index": frame.index, "columns": frame.columns}
    sides = [np.where(np.isfinite(side), side, np.nan) for side in (lower, upper)]
    return make(sides[0], **options), make(sides[1], **options)


def limits_code(cells: Mapping[str, Sequence[LimitCell]]) -> list[str]:
    """Return Python code that makes the tables of `limit_frames` for a table X."""
    if not cells:
        return []
    lines = [
        "lower = pd.DataFrame(np.nan, index=X.index, columns=X.columns)",
        "upper = lower.copy()",
    ]
    for name, found in cells.items():
        for side in ("lower", "upper"):
            told = [cell for cell in found if np.isfinite(getattr(cell, side))]
            if told:
                rows = [cell.row for cell in told]
                values = [getattr(cell, side) for cell in told]
                lines.append(f"{side}.loc[X.index[{rows!r}], {name!r}] = {values!r}")
    return [*lines, ""]
