"""Tables from files: text, spreadsheets, Parquet, Feather and arrays, read as they stand.

A file that is none is refused by a sentence.

Cells of a text file stay the strings that they were: what a command does not change is written back
to the letter.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.array_files import read_arrays
from regfactor.cli.errors import BadInput, listed, nearest
from regfactor.cli.limit_cells import tells_limits
from regfactor.cli.missing_cells import (
    Marker,
    check_markers,
    is_marked,
    markers_of,
    may_be_marker,
)
from regfactor.cli.number_formats import (
    COMMA,
    OTHER_MARK,
    POINT,
    ColumnNumbers,
    FileNumbers,
    NumberCell,
)
from regfactor.cli.spreadsheets import ENDINGS as SPREADSHEETS
from regfactor.cli.spreadsheets import read_sheet
from regfactor.cli.text_files import (
    DELIMITER_NAMES,
    FileLayout,
    FileRows,
    read_rows,
    rows_under_names,
    unpacked,
)
from regfactor.core.params import Array, frozen

TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".dat")
PACKED = tuple(f"{ending}.gz" for ending in TEXT_ENDINGS)
FORMATS = (*TEXT_ENDINGS, *PACKED, ".parquet", ".feather", ".npz", *SPREADSHEETS)
STDIN = Path("-")
DELIMITERS_BY_NAME = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Reading:
    """Options of reading a file: its layout, its numbers, its markers of missing cells."""

    encoding: str | None = None
    header: bool = True
    missing: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    header_rows: int | None = None
    skip: int = 0
    skip_last: int | None = None
    sheet: str | None = None
    absent: str | None = None
    hint: str = ""  # the decimal mark of the file that a model was fitted to

    @property
    def layout(self) -> FileLayout:
        """Options of the layout of a text file; raise for a delimiter that is none."""
        delimiter = self.delimiter
        if delimiter is not None:
            delimiter = DELIMITERS_BY_NAME.get(delimiter.lower(), delimiter)
            if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\n\r':
                raise BadInput(
                    f"--delimiter is one sign between cells, such as ';', or tab or space; not "
                    f"{self.delimiter!r}."
                )
        return FileLayout(
            self.encoding,
            delimiter,
            self.header,
            self.header_rows,
            self.skip,
            self.skip_last,
        )

    @property
    def mark(self) -> str:
        """The decimal mark that the user names, by itself or by that of thousands; or none."""
        decimal = self.decimal
        thousands = self.thousands
        if decimal is not None and decimal not in (POINT, COMMA):
            raise BadInput(f"--decimal is '.' or ',', not {decimal!r}.")
        if thousands is not None and thousands not in (POINT, COMMA, " ", "'", "_"):
            raise BadInput(f"--thousands is one of . , ' _ or a space, not {thousands!r}.")
        if decimal is not None and decimal == thousands:
            raise BadInput(f"--decimal and --thousands are both {decimal!r}; they differ.")
        if decimal is not None:
            return decimal
        return OTHER_MARK.get(thousands or "", "")


@frozen
class Table:
    """A table as it stands in a file.

    `text` means that its cells are strings, of which some mark missing cells.
    """

    path: Path
    raw: Any
    text: bool
    separator: str = ","
    notes: tuple[str, ...] = ()
    reading: Reading = Reading()
    encoding: str = ""

    @property
    def stem(self) -> str:
        """The name of the file without its endings."""
        if self.path == STDIN:
            return "stdin"
        return self.path.name.removesuffix(".gz").rpartition(".")[0] or self.path.name

    @property
    def name(self) -> str:
        """The name of the file, for people."""
        return name_of(self.path)

    @property
    def columnar(self) -> bool:
        """Whether results belong in Parquet, as the table did."""
        return self.path.suffix.lower() in (".parquet", ".feather")

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.raw.columns)

    @cached_property
    def markers(self) -> list[Marker]:
        """The markers of missing cells that the user names."""
        markers = markers_of(self.reading.missing, self.names)
        check_markers(markers, self)
        return markers

    @cached_property
    def present(self) -> list[Marker]:
        """Values that mark no missing cell, though they look like it."""
        return markers_of(self.reading.present, self.names)

    def strings(self, name: str) -> Array | None:
        """Return the cells of a column of text, stripped; None for one that holds other things."""
        return self._strings[name]

    @cached_property
    def _strings(self) -> dict[str, Array | None]:
        """The cells of all columns of text: read once, asked for once per cell that is written."""
        return {name: self._stripped_column(name) for name in self.names}

    def _stripped_column(self, name: str) -> Array | None:
        series = self.raw[name]
        if not self.text and not holds_strings(series):
            return None
        cells = [_stripped(cell) for cell in series.astype(object)]
        # a last None keeps the array from being one of a subclass of strings
        return np.array([*cells, None], dtype=object)[:-1]

    @cached_property
    def limits(self) -> dict[str, Array]:
        """Masks of the cells that state limits, by columns; filled when numbers are read."""
        return {}

    @cached_property
    def numbers(self) -> FileNumbers:
        """The numbers in its columns of text, read by one convention."""
        columns = {}
        for name in self.names:
            strings = self.strings(name)
            if strings is not None:
                missing = may_be_marker(strings) | self.user_missing(strings, name)
                limits = tells_limits(strings, missing)
                if limits.any():
                    self.limits[name] = limits
                columns[name] = (strings, missing | limits)
        reading = self.reading
        return FileNumbers(columns, reading.mark, reading.hint, self.name)

    def user_missing(self, strings: Array, name: str) -> Array:
        """Return a mask of the cells that the user's markers name."""
        markers = [m for m in self.markers if m.holds_for(name)]
        if not markers:
            return np.zeros(len(strings), dtype=bool)
        marked = {text: is_marked(text, markers) for text in dict.fromkeys(strings.tolist())}
        return np.array([marked[text] for text in strings.tolist()], dtype=bool)

    @property
    def decimal(self) -> str:
        """The decimal mark of the file."""
        if not self.text:
            return POINT
        return self.numbers.decimal

    @property
    def spelled_out(self) -> str:
        """How a text file is written, for people: delimiter, encoding, decimal mark."""
        if not self.text:
            return ""
        words = []
        if self.encoding:
            if self.separator != ",":
                words.append(DELIMITER_NAMES.get(self.separator, repr(self.separator)))
            if self.encoding not in ("utf-8", "utf-8-sig"):
                words.append(self.encoding)
        convention = self.numbers.convention
        if convention.decimal == COMMA:
            words.append("decimal commas")
        if convention.decimal == "mixed":
            words.append("decimal points and commas by column")
        return f" ({', '.join(words)})" if words else ""

    def column_numbers(self, name: str) -> ColumnNumbers | None:
        """Return the numbers of a column of text, None if it is not one of numbers."""
        return self.numbers.column(name)

    def cell(self, value: Any, name: str | None = None) -> Any:
        """Return a new value as the table holds its own: text in a text file, itself elsewhere.

        With the name of a column, a number is written as its others, with their unit.
        """
        if name is not None and is_plain_number(value) and self.strings(name) is not None:
            read_ = self.column_numbers(name)
            if read_ is not None:
                return read_.style.spell(float(value))
        if self.text:
            return spell(value, self.decimal)
        return value

    def column(self, numbers: Iterable[float]) -> Any:
        """Return the numbers of a new column as the table holds its own."""
        if self.text:
            return [self.cell(float(v)) for v in numbers]
        return numbers

    def with_columns(self, new: Mapping[str, Any]) -> Any:
        """Return the table with new columns, under names that it does not have."""
        return add_columns(self.raw.copy(), new)

    def place(self, name: str, what: str = "column") -> int:
        """Return where a column stands; raise, with the nearest name, where there is none."""
        if name not in self.names:
            raise BadInput(
                f"{self.name} has no {what} {name!r}{nearest(name, self.names)}"
                f" Its columns are {listed(self.names)}."
            )
        return self.names.index(name)


def add_columns(frame: Any, new: Mapping[str, Any]) -> Any:
    """Add columns to a table, under names that it does not have, and return it."""
    taken = list(frame.columns)
    for name, cells in new.items():
        frame[free_name(name, taken)] = cells
    return frame


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return a name for a new column that the table does not have."""
    while name in taken:
        name += "_"
    return name


def pandas() -> Any:
    """Import pandas when it is needed."""
    return importlib.import_module("pandas")


def spell(value: Any, decimal: str = ".") -> str:
    """Return a value as a CSV file holds it: flags 0 and 1, numbers with six digits."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        whole = float(value).is_integer() and abs(float(value)) < 1e15
        if whole:
            return str(int(value))
        return f"{value:.6g}".replace(".", decimal)
    return str(value)


def is_plain_number(value: Any) -> bool:
    """Whether a value is a number, and no flag."""
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, int | float | np.integer | np.floating)


def holds_strings(series: Any) -> bool:
    """Whether a typed column holds strings, and nothing else but missing cells."""
    if series.dtype.kind != "O" or hasattr(series.dtype, "categories"):
        return False
    return all(isinstance(v, str) for v in series.dropna())


def _stripped(cell: Any) -> str:
    if isinstance(cell, NumberCell):
        return cell
    if isinstance(cell, str):
        return cell.strip()
    return ""


def name_of(path: Path) -> str:
    """Return the name of a file, for people."""
    if path == STDIN:
        return "standard input"
    return path.name


def read(path: Path, reading: Reading | None = None) -> Table:
    """Return the table in a file, or in the standard input for "-"."""
    reading = reading or Reading()
    if path == STDIN:
        return _checked(_of_content(sys.stdin.buffer.read(), path, reading))
    if not path.exists():
        if path.parent.is_dir():
            others = [p for p in path.parent.iterdir() if p.is_file()]
        else:
            others = []
        # not by the ending alone
        alike = [p.name for p in others if nearest(path.stem, [p.stem]) != "."]
        raise BadInput(f"There is no file {path}{nearest(path.name, alike)}")
    if not path.is_file():
        raise BadInput(f"{path} is not a file.")
    if not path.name.lower().endswith(FORMATS):
        raise BadInput(
            f"{path.name}: the ending gives the format, and must be one of {', '.join(FORMATS)}."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    return _checked(_of_content(content, path, reading))


def _of_content(content: bytes, path: Path, reading: Reading) -> Table:
    """Return the table in the bytes of a file."""
    name = name_of(path)
    if not content:
        raise BadInput(f"{name} is empty.")
    ending = _ending(content, path)
    if ending == ".npz":
        frame, notes = read_arrays(content, reading.absent, name)
        return Table(path, frame, False, notes=notes, reading=reading)
    if ending in (".parquet", ".feather"):
        return Table(path, _of_columns(content, ending, name), False, reading=reading)
    if ending in SPREADSHEETS:
        cells, sheet_notes = read_sheet(content, reading.sheet, name)
        rows = rows_under_names(cells, reading.layout, name)
        return _of_rows(path, rows, reading, sheet_notes, "")
    if ending.endswith(".gz"):
        content = unpacked(content, name)
    rows = read_rows(content, reading.layout, name)
    return _of_rows(path, rows, reading, [], rows.encoding)


def _ending(content: bytes, path: Path) -> str:
    """Return the ending that gives the format; of the standard input, from its first bytes."""
    if path == STDIN:
        if content.startswith(b"\x1f\x8b"):
            return ".csv.gz"
        if content.startswith(b"PAR1"):
            return ".parquet"
        if content.startswith(b"ARROW1"):
            return ".feather"
        if content.startswith(b"PK\x03\x04"):
            return ".npz" if b".npy" in content[:200] else ".xlsx"
        return ".csv"
    name = path.name.lower()
    return max((ending for ending in FORMATS if name.endswith(ending)), key=len)


def _of_rows(
    path: Path, rows: FileRows, reading: Reading, notes: Sequence[str], encoding: str
) -> Table:
    """Return rows under their names as a table of text."""
    said = [*notes, *rows.notes]
    names = rows.names
    is_data = len(names) == len(set(names)) and all(is_number(name) for name in names)
    if reading.header and is_data:
        said.append(
            f"The first row ({listed(names, 4)}) was taken for the names of the columns; if it "
            "is data, add --no-header."
        )
    if rows.cells:
        columns = list(zip(*rows.cells, strict=True))
    else:
        columns = [()] * len(names)
    frame = pandas().DataFrame(dict(enumerate(columns)), dtype=object)
    frame.columns = names
    return Table(path, frame, True, rows.delimiter, tuple(said), reading, encoding)


def _checked(table: Table) -> Table:
    names = table.names
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        at = [j + 1 for j, name in enumerate(names) if name == twice[0]]
        remedy = "Rename one of them" + (
            "; if the first row is data, add --no-header; if two rows hold names, --header-rows 2."
            if table.text
            else "."
        )
        raise BadInput(
            f"{table.name} has {len(at)} columns called {twice[0]!r} (columns {listed(at)}). "
            f"{remedy}"
        )
    if not names:
        raise BadInput(f"{table.name} has no columns.")
    if not len(table.raw):
        raise BadInput(f"{table.name} has a header but no rows.")
    return table


def _of_columns(content: bytes, ending: str, name: str) -> Any:
    """Return the frame in a Parquet or Feather file."""
    pd = pandas()
    pa = importlib.import_module("pyarrow")
    if ending == ".parquet":
        reader = pd.read_parquet
    else:
        reader = pd.read_feather
    try:
        frame = reader(io.BytesIO(content))
    except (pa.ArrowException, ValueError, OSError) as error:
        kind = ending[1:].capitalize()
        raise BadInput(
            f"{name} is no {kind} file: {str(error).splitlines()[0].rstrip('.')}."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(
            names=[n or f"index{j or ''}" for j, n in enumerate(frame.index.names)]
        )
    frame.columns = [str(column) for column in frame.columns]
    return frame.reset_index(drop=True)


def is_number(text: str) -> bool:
    """Return whether a string spells a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
