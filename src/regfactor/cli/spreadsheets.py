"""Tables in spreadsheets: .xlsx, .xls, .xlsb and .ods, by python-calamine."""

from __future__ import annotations

import importlib
import importlib.util
import io
import zipfile
from datetime import date, datetime, time, timedelta
from typing import Any

from regfactor.cli.errors import BadInput, listed, nearest
from regfactor.cli.number_formats import NumberCell
from regfactor.core.params import install_hint

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
MAX_UNPACKED = 2**31  # bytes that the parts of a file may have together


def read_sheet(content: bytes, sheet: str | None, name: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows of a sheet as text, numbers as `NumberCell`, and notes."""
    if importlib.util.find_spec("python_calamine") is None:
        raise BadInput(f"{name} is a spreadsheet, which needs python-calamine: {_hint()}.")
    calamine: Any = importlib.import_module("python_calamine")
    _check_size(content, name)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = {key: _rows(book.get_sheet_by_name(key).to_python()) for key in book.sheet_names}
    except calamine.PasswordError as error:
        raise BadInput(f"{name} is protected by a password; save it without one.") from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise BadInput(f"{name} is no spreadsheet: {reason}.") from error
    filled = [key for key, rows in sheets.items() if rows]
    if sheet is not None:
        if sheet not in sheets:
            raise BadInput(
                f"{name} has no sheet {sheet!r}{nearest(sheet, sheets)} Its sheets are "
                f"{listed(sheets)}."
            )
        return sheets[sheet], []
    if not filled:
        raise BadInput(f"{name} is empty.")
    if len(filled) > 1:
        raise BadInput(
            f"{name} has several sheets with cells ({listed(filled)}); name one by --sheet "
            f"{filled[0]!r}."
        )
    return sheets[filled[0]], [f"Sheet {filled[0]!r} was read."] if len(sheets) > 1 else []


def _check_size(content: bytes, name: str) -> None:
    """Raise for an archive that unpacks to more than a table may have."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > MAX_UNPACKED:
        raise BadInput(f"{name} unpacks to {size / 2**30:.1f} GB; save it as Parquet or CSV.")


def _rows(cells: list[list[Any]]) -> list[list[str]]:
    """Return cells as text; empty if all are empty."""
    rows = [[_text(cell) for cell in row] for row in cells]
    while rows and not any(rows[-1]):
        rows.pop()
    return rows


def _text(cell: Any) -> str:
    """Return a cell as text: numbers know their value, dates are written 2024-01-31."""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, int | float):
        return NumberCell(cell)
    if isinstance(cell, datetime):
        if cell.time() == time():
            return cell.date().isoformat()
        return cell.isoformat(sep=" ", timespec="seconds")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return NumberCell(cell.total_seconds())
    return "" if cell is None else str(cell)


def _hint() -> str:
    return install_hint("spreadsheets")
