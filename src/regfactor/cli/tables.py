"""Tables from files: CSV, Parquet, Feather and NPZ, read as they stand.

A file that is none is refused by a sentence.

Cells of a CSV file stay the strings that they were: what a command does not change is written back
to the letter.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.errors import BadInput, listed, nearest
from regfactor.core.params import frozen

MISSING = frozenset(
    {"", "?", "na", "n/a", "nan", "none", "null", "<na>", "#n/a", "#na", "-nan", "nat"}
)
SEPARATORS = ",;\t|"
DECIMAL = {
    mark: re.compile(rf"\s*[-+]?\d*{re.escape(mark)}\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
    for mark in ".,"
}
FORMATS = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".feather", ".npz")


@dataclass(frozen=True)
class Reading:
    """Options of reading a text file: encoding, header, further markers of missing cells."""

    encoding: str = "utf-8"
    header: bool = True
    missing: tuple[str, ...] = ()

    @property
    def markers(self) -> frozenset[str]:
        """All markers of missing cells, in lower case."""
        return MISSING | {text.strip().lower() for text in self.missing}


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

    @property
    def stem(self) -> str:
        """The name of the file without its endings."""
        return self.path.name.removesuffix(".gz").rpartition(".")[0] or self.path.name

    @property
    def columnar(self) -> bool:
        """Whether results belong in Parquet, as the table did."""
        return self.path.suffix.lower() in (".parquet", ".feather")

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.raw.columns)

    @cached_property
    def decimal(self) -> str:
        """The decimal mark that most numbers of the table are written with.

        Commas go with semicolons alone.
        """
        if not self.text or self.separator != ";":
            return "."
        cells = [cell for name in self.names for cell in self.raw[name]]
        points, commas = (
            sum(bool(DECIMAL[mark].fullmatch(cell)) for cell in cells) for mark in ".,"
        )
        if commas > points:
            return ","
        return "."

    def cell(self, value: Any) -> Any:
        """Return a new value as the table holds its own: text in a text file, itself elsewhere."""
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
                f"{self.path.name} has no {what} {name!r}{nearest(name, self.names)}"
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


def read(path: Path, reading: Reading | None = None) -> Table:
    """Return the table in a file."""
    reading = reading or Reading()
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
    name = path.name.lower()
    if not name.endswith(FORMATS):
        raise BadInput(
            f"{path.name}: the ending gives the format, and must be one of {', '.join(FORMATS)}."
        )
    try:
        if path.stat().st_size == 0:
            raise BadInput(f"{path.name} is empty.")
        if name.endswith((".csv", ".tsv", ".txt", ".gz")):
            table = _of_text(path, reading)
        else:
            table = _of_binary(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    return _checked(table)


def _checked(table: Table) -> Table:
    names = table.names
    rows = len(table.raw)
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        at = [j + 1 for j, name in enumerate(names) if name == twice[0]]
        remedy = "Rename one of them" + (
            "; if the first row is data, add --no-header." if table.text else "."
        )
        raise BadInput(
            f"{table.path.name} has {len(at)} columns called {twice[0]!r} (columns {listed(at)}). "
            f"{remedy}"
        )
    if not names:
        raise BadInput(f"{table.path.name} has no columns.")
    if not rows:
        raise BadInput(f"{table.path.name} has a header but no rows.")
    return table


def _of_text(path: Path, reading: Reading) -> Table:
    text = _decoded(path, reading.encoding)
    if not text.strip():
        raise BadInput(f"{path.name} is empty.")
    if "\0" in text:
        raise BadInput(f"{path.name} contains zero bytes, so it is no text table.")
    separator = _separator(text)
    buffer = io.StringIO(text, newline="")
    first = _first_row(buffer, separator, path)
    notes = []
    if reading.header:
        names = [name.strip() or f"unnamed_{j + 1}" for j, name in enumerate(first)]
        if len(names) == len(set(names)) and all(is_number(name) for name in names):
            notes.append(
                f"The first row ({listed(names, 4)}) was taken for the names of the columns; if it "
                "is data, add --no-header."
            )
    else:
        names = [f"x{j}" for j in range(len(first))]
        buffer.seek(0)
    if len(set(names)) < len(names):
        # refused by its names, before its rows are read
        return Table(path, _frame([], names), True)
    start = buffer.tell()
    frame = _rows(buffer, names, separator, path)
    buffer.seek(start)
    notes += _note_of_short_rows(buffer, frame, separator)
    return Table(path, frame, True, separator, tuple(notes), reading)


def _decoded(path: Path, encoding: str) -> str:
    try:
        if path.name.lower().endswith(".gz"):
            content = gzip.decompress(path.read_bytes())
        else:
            content = path.read_bytes()
    except (gzip.BadGzipFile, EOFError, importlib.import_module("zlib").error) as error:
        raise BadInput(f"{path.name} is no whole gzip file: {error}.") from error
    try:
        return content.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except LookupError as error:
        raise BadInput(
            f"There is no encoding {encoding!r}; well-known ones are utf-8, latin-1 and cp1252."
        ) from error
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        line = content[:at].count(b"\n") + 1
        raise BadInput(
            f"{path.name} is not {encoding}: byte 0x{content[at]:02x} in line {line}. Save it as "
            "UTF-8, or name its encoding, for example --encoding latin-1."
        ) from error


def _separator(text: str) -> str:
    """Return the separator that is most frequent in the first line that is not blank."""
    first = next(line for line in text.splitlines() if line.strip())
    return max(SEPARATORS, key=first.count)


def _first_row(buffer: io.StringIO, separator: str, path: Path) -> list[str]:
    try:
        return next(
            row
            for row in csv.reader(buffer, delimiter=separator, skipinitialspace=True)
            if any(row)
        )
    except (csv.Error, StopIteration) as error:
        raise BadInput(
            f"The first row of {path.name} cannot be read: {error or 'all its cells are empty'}."
        ) from error


def _rows(buffer: io.StringIO, names: list[str], separator: str, path: Path) -> Any:
    pd = pandas()
    start = buffer.tell()
    try:
        with warnings.catch_warnings():
            # cells beyond the columns would be dropped
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                buffer,
                header=None,
                names=range(len(names) + 1),
                index_col=False,
                sep=separator,
                dtype=str,
                na_filter=False,
                skipinitialspace=True,
                skip_blank_lines=len(names) > 1,
            )
    except pd.errors.EmptyDataError:
        return _frame([], names)
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        return _refused_rows(buffer, start, names, separator, path, error)
    extra = frame.pop(len(names)).fillna("")
    if (extra != "").any():
        line = int(np.argmax((extra != "").to_numpy())) + 1
        raise BadInput(
            f"Row {line} of {path.name} has more cells than the {len(names)} columns; quote cells "
            f"that contain {separator!r}."
        )
    frame.columns = names
    return frame.fillna("")


def _note_of_short_rows(buffer: io.StringIO, frame: Any, separator: str) -> list[str]:
    """Return a note on rows that end before the last column, which get missing cells."""
    columns = frame.shape[1]
    if columns < 2 or not (frame.iloc[:, -1] == "").any():
        return []
    try:
        lengths = [
            len(row)
            for row in csv.reader(buffer, delimiter=separator, skipinitialspace=True)
            if row
        ]
    except csv.Error:  # a cell too long for this reader, not for the other: then nothing is said
        return []
    short = [i for i, length in enumerate(lengths, 1) if length < columns]
    if not short or len(lengths) != len(frame):
        return []
    if len(short) == 1:
        rows, they = (f"Row {short[0]} has", "it lacks")
    else:
        rows, they = (f"{len(short):,} rows have", "they lack")
    first = "" if len(short) == 1 else f", the first of them row {short[0]}"
    return [
        f"{rows} fewer cells than the {columns} columns{first}; what {they} was taken for missing."
    ]


def _refused_rows(
    buffer: io.StringIO,
    start: int,
    names: list[str],
    separator: str,
    path: Path,
    error: Exception,
) -> Any:
    """Raise for rows that the parser refused, naming the first one that is too long."""
    buffer.seek(start)
    try:
        for number, row in enumerate(filter(None, csv.reader(buffer, delimiter=separator)), 1):
            if len(row) > len(names):
                raise BadInput(
                    f"Row {number} of {path.name} has {len(row)} cells, the table has {len(names)} "
                    f"columns; quote cells that contain {separator!r}."
                ) from error
    except csv.Error:
        pass  # then the parser's own words must do
    reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
    raise BadInput(f"{path.name} is no table: {reason}.") from error


def _of_binary(path: Path) -> Table:
    if path.suffix.lower() == ".npz":
        frame, notes = _of_arrays(path)
        return Table(path, frame, False, notes=notes)
    pd = pandas()
    pa = importlib.import_module("pyarrow")
    if path.suffix.lower() == ".parquet":
        reader = pd.read_parquet
    else:
        reader = pd.read_feather
    try:
        frame = reader(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        kind = path.suffix[1:].capitalize()
        raise BadInput(
            f"{path.name} is no {kind} file: {str(error).splitlines()[0].rstrip('.')}."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(
            names=[n or f"index{j or ''}" for j, n in enumerate(frame.index.names)]
        )
    frame.columns = [str(name) for name in frame.columns]
    return Table(path, frame.reset_index(drop=True), False)


def _of_arrays(path: Path) -> tuple[Any, tuple[str, ...]]:
    """Return the matrix of an archive as columns x0, x1, ..., its vectors by name, and the rest."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise BadInput(
            f"{path.name} is no archive of plain arrays: {str(error).rstrip('.')}."
        ) from error
    tables = {name: a for name, a in arrays.items() if a.ndim == 2}
    name = "X" if "X" in tables else next(iter(tables), None)
    if name is None or (len(tables) > 1 and name != "X"):
        shapes = {key: a.shape for key, a in arrays.items()}
        raise BadInput(
            f"{path.name} needs one two-dimensional array, called X where there are others; it has "
            f"{shapes}."
        )
    X = tables[name]
    if X.dtype.kind not in "biufUS":
        raise BadInput(
            f"The array {name!r} of {path.name} holds {X.dtype}; it must hold numbers or strings."
        )
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    vectors = {key: a for key, a in arrays.items() if a.ndim == 1 and len(a) == len(X)}
    others = [f"{key} {a.shape}" for key, a in arrays.items() if key != name and key not in vectors]
    notes = (
        f"Of {path.name} only {name} and vectors of its length are read, without {listed(others)}.",
    )
    return pandas().DataFrame(columns | vectors), notes if others else ()


def _frame(rows: Sequence[Any], names: list[str]) -> Any:
    return pandas().DataFrame(rows, columns=names)


def is_number(text: str) -> bool:
    """Return whether a string spells a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
