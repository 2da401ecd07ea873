"""What columns are taken for: numbers, flags, categories, text, dates, names of rows.

And what is left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from regfactor.cli.checks import check_finite, check_spread
from regfactor.cli.dates import are_dates, are_day_numbers, are_periods
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.limit_cells import LimitCell, limits_note, read_limits
from regfactor.cli.missing_cells import (
    MissingCells,
    is_marked_number,
    missing_cells,
    proposed_notes,
    taken_note,
)
from regfactor.cli.tables import Table, holds_strings, pandas
from regfactor.core.params import Array, frozen

# kinds that models take
NUMBER = "number"
FLAG = "flag"
CATEGORY = "category"
TEXT = "text"
DATE = "date"
ID = "id"
FREE_TEXT = "free text"
MANY_VALUES = "many values"
EMPTY = "empty"
OTHER = "other"
ONE = "one value"
FLAGS = "flagged cells"
USED = (NUMBER, FLAG, CATEGORY, TEXT)
# different strings up to which a column is taken for categories, as in loss="auto"
MOST_LEVELS = 50
FEW_ROWS = 10  # below which counting up is no sign of a row's name
NAMES_ROWS = re.compile(
    r"(^|[_\s.-])(id|uuid|guid|key|index|rownames?|unnamed_\d+)$",
    re.IGNORECASE,
)
FLAGGED = re.compile(r"flagged_*$")  # the last column of what `complete` writes
INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")
MOST_UNREAD = 5  # cells of a column that a note lists
TIMES = "times of the rows"  # why a column is no input of a forecast
IGNORED_BY_USER = "as you said"  # why a column is left out by --ignore
WHY = {
    DATE: "dates",
    ID: "names rows",
    FREE_TEXT: "free text",
    MANY_VALUES: "too many different values for categories",
    EMPTY: "no value in any row",
    OTHER: "neither numbers nor text",
    ONE: "one value only, so that blanks may mean no",
    FLAGS: "outliers of an earlier run",
}


class Column(NamedTuple):
    """What a column was taken for; `why` it is left out, where it is."""

    name: str
    kind: str
    missing: int
    why: str = ""
    levels: int = 0

    @property
    def used(self) -> bool:
        """Whether models see it."""
        return not self.why

    def __str__(self) -> str:
        if self.kind == CATEGORY:
            return f"{self.name} ({self.levels})"
        return self.name


class UnreadCell(NamedTuple):
    """A cell that is neither a number nor missing, in a column of numbers; rows from zero."""

    row: int
    text: str


@frozen
class ReadCells:
    """The cells of a column: typed, NaN where missing or not read."""

    cells: Any
    unread: tuple[UnreadCell, ...] = ()
    found: MissingCells | None = None
    unit: str = ""
    bare: int = 0
    limits: tuple[LimitCell, ...] = ()

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(self.cells.isna().sum()) - len(self.kept)

    @property
    def kept(self) -> tuple[UnreadCell, ...]:
        """Cells that are NaN here and not missing: those not read, and those that state limits."""
        return (*self.unread, *(UnreadCell(cell.row, cell.text) for cell in self.limits))


@frozen
class Understood:
    """A table with its columns typed: numbers are floats, flags booleans, categories categorical.

    Missing cells are NaN, and so are those of `unread`: cells of columns of numbers that are none,
    which models do not see, and which stay as they are.
    """

    table: Table
    frame: Any
    columns: tuple[Column, ...]
    target: str | None = None
    read: Mapping[str, ReadCells] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Column]:
        """The columns that models see."""
        return [c for c in self.columns if c.used and c.name != self.target]

    @property
    def ignored(self) -> list[Column]:
        """The columns that they do not."""
        return [c for c in self.columns if not c.used and c.name != self.target]

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the names of the inputs of some kinds."""
        return [c.name for c in self.inputs if c.kind in kinds]

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of the inputs by name: what `typed` needs to read new rows alike."""
        return {c.name: c.kind for c in self.inputs}

    @property
    def data(self) -> Any:
        """The inputs as a frame."""
        return self.frame[[c.name for c in self.inputs]]

    @property
    def unread(self) -> dict[str, tuple[UnreadCell, ...]]:
        """Cells of the inputs that are neither numbers nor missing, by column."""
        found = {c.name: self.read[c.name].kept for c in self.inputs if c.name in self.read}
        return {name: cells for name, cells in found.items() if cells}

    @property
    def limits(self) -> dict[str, tuple[LimitCell, ...]]:
        """Cells of the inputs that state limits of a number, by column."""
        found = {c.name: self.read[c.name].limits for c in self.inputs if c.name in self.read}
        return {name: cells for name, cells in found.items() if cells}

    @property
    def missing(self) -> Any:
        """A mask of the missing cells of the inputs; those that were not read are none."""
        return _missing_mask(self.data, self.unread)

    def notes(self) -> list[str]:
        """Return what was read in another way than it is written, column by column."""
        shown = {
            c.name: self.read[c.name]
            for c in self.columns
            if c.name in self.read and c.why != IGNORED_BY_USER
        }
        return reading_notes(shown, self.frame)

    def lines(self) -> list[tuple[str, str]]:
        """Return what was inferred as (heading, names), for people."""
        plural = {NUMBER: "numbers", FLAG: "flags (0/1)", CATEGORY: "categories", TEXT: "text"}
        found = [
            (plural[k], listed([c for c in self.inputs if c.kind == k], 12))
            for k in USED
            if self.of_kind(k)
        ]
        times = [c.name for c in self.ignored if c.why == TIMES]
        if times:
            found.append(("times", listed(times)))
        if len(self.ignored) > len(times):
            left_out = [f"{c.name} ({c.why})" for c in self.ignored if c.why != TIMES]
            found.append(("ignored", listed(left_out, 12)))
        return found

    def without(self, kinds: Mapping[str, str]) -> Understood:
        """Return the same with some columns left out, each for a reason."""
        columns = [c._replace(why=kinds.get(c.name, c.why)) for c in self.columns]
        return replace(self, columns=tuple(columns))

    def require(self, least: int, what: str) -> None:
        """Raise unless enough columns are left for a command."""
        if len(self.inputs) < least:
            reasons = dict.fromkeys(c.why for c in self.ignored)
            left_out = (
                "; ".join(
                    f"{listed(c.name for c in self.ignored if c.why == why)}: {why}"
                    for why in reasons
                )
                or "none was left out"
            )
            raise BadInput(
                f"{self.table.name} has {count(len(self.inputs), 'column')} that can be used, "
                f"and {what} needs at least {least} ({left_out}). --use COLUMN takes in one that "
                "was left out."
            )


class Wishes(NamedTuple):
    """Options of the user for columns."""

    target: str | None = None
    text: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    words: bool = False  # whether the command can read text by its words
    times: bool = False  # whether it reads dates as the times of rows


def understand(table: Table, wishes: Wishes | None = None) -> Understood:
    """Return a table with every column typed by its cells and by the options of the user."""
    wishes = wishes or Wishes()
    for name in (*wishes.text, *wishes.ignore, *wishes.use):
        table.place(name)
    if wishes.target is not None:
        table.place(wishes.target, "target column")
    series = {}
    columns = []
    read = {}
    for name in table.names:
        if name in wishes.text:
            cells = _texts(table, name)
            columns.append(Column(name, TEXT, int((cells == "").sum())))
            series[name] = cells
            continue
        read[name] = read_cells(table, name, as_text=name in wishes.ignore)
        column, typed_ = _infer(table, name, read[name], wishes)
        columns.append(column)
        series[name] = typed_
    pd = pandas()
    return Understood(table, pd.DataFrame(series), tuple(columns), wishes.target, read)


def _infer(table: Table, name: str, read: ReadCells, wishes: Wishes) -> tuple[Column, Any]:
    """Return what one column is, and its cells."""
    wanted = name in wishes.use or name == wishes.target
    cells = read.cells
    if read.kept and name == wishes.target:
        raise _text_among_numbers(table, name, read.kept)
    kind = _kind(table, name, cells, int(cells.isna().sum()), wanted)
    why = WHY.get(kind, "")
    if kind == FREE_TEXT and wishes.words:
        why += f"; --text {name} would use it"
    if name in wishes.ignore:
        why = IGNORED_BY_USER
    elif wanted and why and name != wishes.target and not (kind == DATE and wishes.times):
        raise BadInput(f"Column {name!r} cannot be used: {_refusal(kind, cells)}.")
    if kind == NUMBER and not why and name != wishes.target:
        check_finite(name, cells.to_numpy())
        check_spread(name, cells.to_numpy(dtype=float, na_value=np.nan))
    levels = int(cells.nunique()) if kind == CATEGORY else 0
    column = Column(name, kind, read.n_missing, why, levels)
    return column, typed(cells, kind) if kind in USED else cells


def _refusal(kind: str, cells: Any) -> str:
    """Return why a column cannot be used even if the user asks for it, and what to do instead."""
    if kind == DATE:
        return (
            "it holds dates, and models take numbers, flags and categories. Write it as a number, "
            "such as days"
        )
    if kind in (MANY_VALUES, ID, FREE_TEXT):
        return f"{WHY[kind]} ({cells.nunique()} in {len(cells)} rows)"
    return WHY[kind]


def read_cells(table: Table, name: str, as_text: bool = False) -> ReadCells:
    """Return a column as numbers, booleans, categories, dates or strings, NaN where missing.

    `as_text` does not look for numbers, so that a column that is left out raises nothing.
    """
    pd = pandas()
    markers = [m for m in table.markers if m.holds_for(name)]
    kept = [m for m in table.present if m.holds_for(name)]
    strings = table.strings(name)
    if strings is None:
        series = table.raw[name]
        if series.dtype.kind in "iuf" and markers:
            values = series.to_numpy(dtype=float, na_value=np.nan)
            series = series.astype(float).mask(is_marked_number(values, markers))
        return ReadCells(series)
    numbers = None if as_text else table.column_numbers(name)
    dated = numbers is None and _are_dates_but_marks(strings)
    found = missing_cells(strings, markers, kept, numbers is not None or dated)
    if numbers is None:
        if not as_text:
            _refuse_mixed(table, name, len(strings))
        words = np.array([normalized(text) for text in strings], dtype=object)
        return ReadCells(pd.Series(words, dtype=object).mask(found.missing, None), found=found)
    values = np.where(found.missing, np.nan, numbers.values)
    unread = [UnreadCell(i, str(strings[i])) for i in numbers.unread if not found.missing[i]]
    limits: tuple[LimitCell, ...] = ()
    if name in table.limits:
        at = table.limits[name] & ~found.missing
        limits = read_limits(name, strings, at, numbers.style.decimal)
    return ReadCells(
        pd.Series(values),
        tuple(unread),
        found,
        numbers.style.unit,
        numbers.bare,
        limits,
    )


def normalized(text: str) -> str:
    """Return a text in which signs that look the same are the same."""
    plain = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return " ".join(plain.split())


def _are_dates_but_marks(strings: Array) -> bool:
    """Whether all cells but short ones without a digit are dates."""
    words = [text for text in strings if any(sign.isdigit() for sign in text)]
    return bool(words) and (are_dates(words) or are_periods(words))


def _missing_mask(frame: Any, unread: Mapping[str, Iterable[UnreadCell]]) -> Any:
    mask = frame.isna()
    for name, cells in unread.items():
        for cell in cells:
            mask.loc[mask.index[cell.row], name] = False
    return mask


def reading_notes(read: Mapping[str, ReadCells], frame: Any) -> list[str]:
    """Return what people should know of how columns were read."""
    notes = []
    found = {name: column.found for name, column in read.items() if column.found is not None}
    taken = taken_note(found)
    if taken:
        notes.append(taken)
    notes += proposed_notes(found)
    units = {name: column.unit for name, column in read.items() if column.unit}
    if units:
        shown = listed([f"{name} ({unit})" for name, unit in units.items()], 6)
        notes.append(f"Read as numbers with a unit: {shown}.")
    for name, column in read.items():
        if column.bare:
            notes.append(
                f"{count(column.bare, 'cell')} of {name!r} without a unit taken for "
                f"{column.unit!r}, as in the others."
            )
        if column.unread:
            notes.append(_unread_note(name, column.unread))
        if column.limits:
            notes.append(limits_note(name, column.limits))
    for name in frame.columns:
        if hasattr(frame[name].dtype, "categories"):
            notes += _alike_note(name, frame[name].cat.categories)
    return notes


def _unread_note(name: str, unread: tuple[UnreadCell, ...]) -> str:
    shown = listed([f"{cell.text!r} in row {cell.row + 1}" for cell in unread], MOST_UNREAD)
    if len(unread) == 1:
        are = "1 cell that is no number; it was not used, and stays as it is"
    else:
        are = f"{len(unread):,} cells that are no numbers; they were not used, and stay as they are"
    return (
        f"Column {name!r} of numbers has {are}: {shown}. If it marks a missing value, add "
        f'--missing "{name}={unread[0].text}".'
    )


def _alike_note(name: str, levels: Iterable[Any]) -> list[str]:
    """Return a note on categories that differ in case, spaces or points alone."""
    groups: dict[str, list[str]] = {}
    for level in levels:
        key = unicodedata.normalize("NFKC", str(level)).casefold()
        groups.setdefault(re.sub(r"[\s._-]+", "", key) or key, []).append(str(level))
    alike = [
        " and ".join(repr(level) for level in group) for group in groups.values() if len(group) > 1
    ]
    if not alike:
        return []
    return [
        f"Column {name!r} has categories that may be one: {listed(alike, 4)}. They were kept apart."
    ]


def _refuse_mixed(table: Table, name: str, n_rows: int) -> None:
    """Raise for text among numbers; a few numbers among categories are categories."""
    odd = table.numbers.odd_cells(name)
    if not odd:
        return
    strings = table.strings(name)
    assert strings is not None
    different = len(set(strings.tolist()))
    if different > min(MOST_LEVELS, n_rows / 2):
        raise _text_among_numbers(table, name, [UnreadCell(*cell) for cell in odd])


def _text_among_numbers(table: Table, name: str, odd: Collection[UnreadCell]) -> BadInput:
    cells = list(odd)
    shown = listed([f"{cell.text!r} in row {cell.row + 1}" for cell in cells], MOST_UNREAD)
    return BadInput(
        f"Column {name!r} of {table.name} holds numbers, but {len(cells)} of its cells do "
        f"not: {shown}. Correct them; or, if they mark missing values, add --missing "
        f'"{name}={cells[0].text}"; or leave the column out by --ignore {name!r}.'
    )


def _kind(
    table: Table,
    name: str,
    cells: Any,
    missing: int,
    wanted: bool,
) -> str:
    """Return the kind of a column from its cells."""
    if missing == len(cells):
        return EMPTY
    dtype = cells.dtype
    if hasattr(dtype, "categories"):
        if _only_marks(cells, wanted):
            return ONE
        return CATEGORY
    letter = dtype.kind
    if letter == "M":
        return DATE
    if letter == "b":
        return FLAG
    if letter in "iuf":
        return _numeric_kind(name, cells, wanted)
    if letter != "O" or not all(isinstance(v, str) for v in cells.dropna()):
        return OTHER
    if not wanted and FLAGGED.match(name) and _names_columns(cells.dropna(), table.names):
        return FLAGS
    kind = _string_kind(name, cells.dropna(), len(cells), wanted)
    if kind == CATEGORY and _only_marks(cells, wanted):
        return ONE
    return kind


def _only_marks(cells: Any, wanted: bool) -> bool:
    """Whether a column marks some rows, and is empty in the others."""
    return not wanted and bool(cells.isna().any()) and cells.nunique() == 1


def _names_columns(cells: Iterable[str], names: Collection[str]) -> bool:
    """Whether all cells are names of columns, as `complete` writes those of outliers."""
    return all(part in names for cell in cells for part in cell.split("; "))


def _numeric_kind(name: str, cells: Any, wanted: bool) -> str:
    values = cells.dropna().to_numpy(dtype=float)
    if np.isin(values, (0, 1)).all() and len(np.unique(values)) == 2:
        return FLAG
    if wanted or len(np.unique(values)) < len(cells) or not np.all(values == np.floor(values)):
        return NUMBER
    if are_day_numbers(values):
        return DATE
    counts_up = len(values) >= FEW_ROWS and np.all(np.diff(values) == 1)
    if counts_up or NAMES_ROWS.search(name):
        return ID
    return NUMBER


def _string_kind(name: str, cells: Any, rows: int, wanted: bool) -> str:
    values = cells.to_numpy()
    if are_dates(values):
        return DATE
    different = len(set(values))
    if different <= min(MOST_LEVELS, rows / 2) or (wanted and different <= MOST_LEVELS):
        return CATEGORY
    if are_periods(values):
        return DATE
    words = np.mean([v.count(" ") + 1 for v in values])
    if words >= 3:
        return FREE_TEXT
    if different >= 0.95 * len(values):
        return ID
    return MANY_VALUES


def _texts(table: Table, name: str) -> Any:
    pd = pandas()
    cells = table.raw[name]
    if not table.text and not holds_strings(cells):
        raise BadInput(f"Column {name!r} holds {cells.dtype}, not text; leave out --text {name!r}.")
    texts = pd.Series(["" if not isinstance(v, str) else v for v in cells], dtype=object)
    if not any(re.search(r"\w\w", v) for v in texts):
        raise BadInput(f"Column {name!r} holds no words in any row; leave out --text {name!r}.")
    return texts


def typed(cells: Any, kind: str) -> Any:
    """Return cells in the type that models take for a kind."""
    pd = pandas()
    if kind == NUMBER:
        return pd.Series(cells.to_numpy(dtype=float, na_value=np.nan))
    if kind == FLAG:
        values = cells.to_numpy(dtype=float, na_value=np.nan)
        odd = ~np.isnan(values) & ~np.isin(values, (0, 1))
        if odd.any():
            raise BadInput(
                f"Column {cells.name!r} held 0 and 1 when the model was fitted, and holds "
                f"{values[odd][0]:g} now."
            )
        return pd.Series(pd.arrays.BooleanArray(values == 1, np.isnan(values)))
    if kind == CATEGORY:
        if hasattr(cells.dtype, "categories"):
            return cells
        return cells.astype("category")
    return cells


@frozen
class NewRows:
    """Rows for a model that was fitted before: typed columns, a mask of missing cells, notes."""

    frame: Any
    missing: Any
    notes: list[str]
    limits: Mapping[str, tuple[LimitCell, ...]]


def forced(table: Table, kinds: Mapping[str, str], absent: Collection[str] = ()) -> Any:
    """Return columns of new rows in the kinds that a model was fitted to."""
    return new_rows(table, kinds, absent).frame


def new_rows(
    table: Table,
    kinds: Mapping[str, str],
    absent: Collection[str] = (),
    units: Mapping[str, str] | None = None,
) -> NewRows:
    """Return columns of new rows in the kinds, and with the units, that a model was fitted to.

    Columns in `absent` may be missing.
    """
    pd = pandas()
    out = {}
    unread = {}
    read = {}
    for name, kind in kinds.items():
        if name in absent and name not in table.names:
            continue
        table.place(name)
        if kind == TEXT:
            out[name] = _texts(table, name)
            continue
        column = read_cells(table, name)
        read[name] = column
        cells = column.cells
        if units is not None:
            _check_unit(table, name, column, units.get(name, ""))
        if cells.isna().all() and not column.kept:
            cells = pd.Series(np.full(len(cells), np.nan))
        elif kind in (NUMBER, FLAG) and cells.dtype.kind not in "biuf":
            raise BadInput(
                f"Column {name!r} of {table.name} held numbers when the model was fitted, and "
                f"holds text now, such as {cells.dropna().iloc[0]!r}."
            )
        elif kind == CATEGORY and cells.dtype.kind in "iuf":
            strings = table.strings(name)
            if strings is None:
                cells = pd.Series(_spelled(cells), dtype=object)
            else:  # as they are written: 1.0 and 1 are two categories
                missing = np.asarray(cells.isna())
                for cell in column.kept:
                    missing[cell.row] = False
                cells = pd.Series(strings, dtype=object).mask(missing, None)
                cells = cells.map(normalized, na_action="ignore")
        else:
            unread[name] = column.kept
        if kind == NUMBER:
            check_finite(name, cells.to_numpy(dtype=float, na_value=np.nan))
        out[name] = typed(cells.rename(name), kind)
    frame = pd.DataFrame(out)
    limits = {name: column.limits for name, column in read.items() if column.limits}
    return NewRows(frame, _missing_mask(frame, unread), reading_notes(read, frame), limits)


def _check_unit(table: Table, name: str, column: ReadCells, fitted: str) -> None:
    """Raise if numbers are in another unit than those that a model was fitted to."""
    if column.cells.isna().all() or column.unit == fitted:
        return
    now = repr(column.unit) if column.unit else "no unit"
    then = repr(fitted) if fitted else "no unit"
    raise BadInput(
        f"Column {name!r} of {table.name} has {now}, and had {then} when the model was fitted. "
        "Write its numbers as they were then."
    )


def _spelled(numbers: Iterable[float]) -> list[str | None]:
    """Return numbers as a file would spell categories."""
    return [None if v != v else f"{v:g}" for v in numbers]
