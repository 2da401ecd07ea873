"""`read_table`: a file as the command line reads it, for use in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from regfactor.cli.columns import Understood, Wishes, understand
from regfactor.cli.errors import BadInput
from regfactor.cli.tables import Reading, read
from regfactor.core.params import warn

# markers that pandas takes for missing by itself, and "?", which the code of reports names
PANDAS_MARKERS = frozenset(
    {"?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>"} | {"#N/A"}
)


def read_table(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    header: bool = True,
    header_rows: int | None = None,
    skip: int = 0,
    skip_last: int | None = None,
    sheet: str | None = None,
    absent: str | None = None,
    missing: Sequence[str] = (),
    present: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Any:
    r"""Read a messy table: formats of numbers, units, encodings, sheets, rows of names.

    Formats are found by all cells of the file. What can be read in two ways is an error that
    names the option that decides; what was read otherwise than it is written is a warning.

    Parameters
    ----------
    path : path
        CSV and other text files, also packed by gzip; .xlsx, .xls, .ods; Parquet, Feather; .npz of
        numpy and scipy.
    encoding, delimiter : str, optional
        Of a text file; found if None.
    decimal, thousands : str, optional
        Marks in numbers, "." or ","; found by all numbers of the file if None.
    header : bool, default=True
        Whether the first row holds names.
    header_rows : int, optional
        How many rows hold names; found if None.
    skip, skip_last : int, optional
        Lines above the names, and rows at the end, to leave out.
    sheet : str, optional
        Of a spreadsheet with several.
    absent : {"zero", "missing"}, optional
        What entries are that a sparse matrix does not store.
    missing, present : sequence of str
        Markers of missing cells, and values that are none though they look like it; "age=999" is
        one of a column.
    ignore : sequence of str
        Columns that are not looked at: they stay text.

    Returns
    -------
    frame : DataFrame
        Numbers are floats, flags booleans, categories categorical; missing cells, and cells of
        columns of numbers that are none, are NaN.

    Raises
    ------
    ValueError
        If the file can be read in two ways, or not at all.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from regfactor import read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "shops.csv"
    ...     _ = path.write_text("shop;visits;price\nnorth;26.741;33,70\nsouth;9.120;1,5\n")
    ...     frame = read_table(path)
    >>> frame["visits"].tolist()
    [26741.0, 9120.0]
    """
    reading = Reading(
        encoding=encoding,
        header=header,
        missing=tuple(missing),
        present=tuple(present),
        decimal=decimal,
        thousands=thousands,
        delimiter=delimiter,
        header_rows=header_rows,
        skip=skip,
        skip_last=skip_last,
        sheet=sheet,
        absent=absent,
    )
    try:
        table = read(Path(path), reading)
        seen = understand(table, Wishes(ignore=tuple(ignore)))
    except BadInput as error:
        raise ValueError(str(error)) from None
    for note in (*table.notes, *seen.notes()):
        warn(note)
    return seen.frame


def read_table_code(seen: Understood) -> str:
    """Return the Python code that reads the file of a table in the same way."""
    reading = seen.table.reading
    options = [repr(str(seen.table.path))]
    for option in fields(Reading):
        value = getattr(reading, option.name)
        if value != option.default and option.name != "hint":
            options.append(f"{option.name}={value!r}")
    ignored = [c.name for c in seen.ignored if seen.read.get(c.name) and c.why == "as you said"]
    if ignored:
        options.append(f"ignore={ignored!r}")
    return f"from regfactor import read_table\n\nframe = read_table({', '.join(options)})"


def is_plain(seen: Understood) -> bool:
    """Whether `pandas.read_csv` reads a text file as it was read here."""
    table = seen.table
    reading = table.reading
    options = (reading.decimal, reading.thousands, reading.header_rows, reading.skip_last)
    if table.notes and not all("--no-header" in note for note in table.notes):
        return False
    if any(option is not None for option in options) or reading.skip or reading.present:
        return False
    if not table.encoding.startswith("utf-8") or table.separator == " ":
        return False
    if table.numbers.convention.decimal == "mixed" or any("=" in m for m in reading.missing):
        return False
    for name, column in seen.read.items():
        if column.kept or column.unit or column.bare:
            return False
        if column.found is not None and not set(column.found.taken) <= PANDAS_MARKERS:
            return False
        if column.found is not None and column.found.proposed:
            return False
        numbers = table.numbers.read.get(name)
        if numbers is not None and numbers.style.thousands:
            return False
    return True
