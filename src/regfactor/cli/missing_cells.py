"""Markers of missing cells: those that are taken and reported, those that are proposed, the user's.

An empty cell is missing. What else marks one is never taken without a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.number_formats import parse_cell
from regfactor.core.params import Array, frozen

# programs write these, so that they are taken in every column
MARKERS = frozenset({"?", "na", "n/a", "nan", "null", "<na>", "#n/a", "#na", "-nan", "nat"})
# these may be categories, so that they are taken among numbers and dates, and proposed among words
MARKERS_OF_NUMBERS = frozenset(
    {"-", "--", "---", "—", "–", ".", "..", "...", "none", "nil", "n.a.", "n. a.", "k.a."}
    | {"missing", "unknown", "not available", "(missing)", "(blank)"}
    | {"#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#error!"}
)
CODES = re.compile(r"[A-Z]{2}")  # of countries and states, where NA is Namibia


@frozen
class Marker:
    """A marker that the user names, for all columns or for one."""

    text: str
    column: str | None = None

    @property
    def number(self) -> float | None:
        """The number that it is; 999 marks 999.0 too."""
        cell = parse_cell(self.text)
        if cell is None or cell.is_undecided or cell.unit:
            return None
        return cell.point if cell.point is not None else cell.comma

    def holds_for(self, name: str) -> bool:
        """Whether it is one of a column."""
        return self.column is None or self.column == name


def markers_of(given: Iterable[str], names: Sequence[str]) -> list[Marker]:
    """Return the markers of an option: `999`, or `age=999` for a column."""
    found = []
    for text in given:
        column, equals, marker = text.partition("=")
        while equals and column not in names and "=" in marker:
            more, _, marker = marker.partition("=")
            column = f"{column}={more}"
        if equals and column in names:
            found.append(Marker(marker.strip(), column))
        else:
            found.append(Marker(text.strip()))
    return found


def is_marked(text: str, markers: Sequence[Marker]) -> bool:
    """Whether a cell holds one of the user's markers, as a text or as a number."""
    lower = text.lower()
    if any(lower == marker.text.lower() for marker in markers):
        return True
    numbers = [m.number for m in markers if m.number is not None]
    if not numbers:
        return False
    cell = parse_cell(text)
    return cell is not None and (cell.point in numbers or cell.comma in numbers)


def is_marked_number(values: Array, markers: Sequence[Marker]) -> Array:
    """Return a mask of the numbers that the user's markers name."""
    numbers = [m.number for m in markers if m.number is not None]
    return np.isin(values, numbers)


@frozen
class MissingCells:
    """The missing cells of a column of text, and what they are marked by.

    Attributes
    ----------
    missing : ndarray of bool
    taken : dict of str to int
        Markers that were taken without the user's word, and how often.
    proposed : dict of str to int
        Words that may mark missing cells, and were kept.
    """

    missing: Array
    taken: dict[str, int]
    proposed: dict[str, int]


def missing_cells(
    texts: Array,
    user: Sequence[Marker],
    kept: Sequence[Marker],
    among_numbers: bool,
) -> MissingCells:
    """Return which cells of a column are missing.

    `among_numbers` states that all other cells are numbers or dates, so that a dash is none.
    """
    words = Counter(texts.tolist())
    here = {}
    taken: dict[str, int] = {}
    proposed: dict[str, int] = {}
    others = [w for w in words if w and w.lower() not in MARKERS]
    has_codes = bool(others) and all(CODES.fullmatch(word) for word in others)
    for word, times in words.items():
        lower = word.lower()
        if not word or is_marked(word, user):
            here[word] = True
        elif is_marked(word, kept):
            here[word] = False
        elif lower in MARKERS and not (word == "NA" and has_codes):
            here[word] = True
            taken[word] = times
        elif lower in MARKERS_OF_NUMBERS and among_numbers:
            here[word] = True
            taken[word] = times
        else:
            here[word] = False
            if lower in MARKERS or lower in MARKERS_OF_NUMBERS:
                proposed[word] = times
    missing = np.array([here[word] for word in texts.tolist()], dtype=bool)
    return MissingCells(missing, taken, proposed)


def may_be_marker(texts: Array) -> Array:
    """Return a mask of cells that are empty or hold a word that may mark a missing cell."""
    words = MARKERS | MARKERS_OF_NUMBERS | {""}
    return np.array([text.lower() in words for text in texts.tolist()], dtype=bool)


def taken_note(found: dict[str, MissingCells]) -> str:
    """Return a note on all markers that were taken for missing cells; empty if there are none."""
    parts = []
    for marker in dict.fromkeys(m for column in found.values() for m in column.taken):
        columns = [name for name, column in found.items() if marker in column.taken]
        times = sum(found[name].taken[marker] for name in columns)
        parts.append(f"{marker!r} ({count(times, 'cell')} of {listed(columns, 4)})")
    if not parts:
        return ""
    return f"Taken for missing: {listed(parts, 6)}; if one is a value, add --present VALUE."


def proposed_notes(found: dict[str, MissingCells]) -> list[str]:
    """Return notes on words that may mark missing cells, and were kept as categories."""
    notes = []
    for marker in dict.fromkeys(m for column in found.values() for m in column.proposed):
        columns = [name for name, column in found.items() if marker in column.proposed]
        times = sum(found[name].proposed[marker] for name in columns)
        if len(columns) == 1:
            where = f"in column {columns[0]!r} ({count(times, 'cell')})"
            option = f'--missing "{columns[0]}={marker}"'
        else:
            where = f"in {listed(columns, 4)} ({count(times, 'cell')})"
            option = f'--missing "{marker}"'
        notes.append(
            f"{marker!r} {where} was kept as a category; if it marks missing cells, add {option}."
        )
    return notes


def check_markers(markers: Sequence[Marker], table: Any) -> None:
    """Raise for a marker that names a column with nothing after the sign of equality."""
    for marker in markers:
        if marker.column is not None and not marker.text:
            raise BadInput(
                f"--missing {marker.column}= names no marker; empty cells of "
                f"{table.name} are missing anyway."
            )
