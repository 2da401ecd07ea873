"""The folder `files`: tables as people have them, each read as a careful person reads it or refused with a remedy that works."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from regfactor import read_table
from regfactor.cli.columns import understand
from regfactor.cli.errors import BadInput
from regfactor.cli.tables import Reading, read

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
SPREADSHEETS = (".xlsx", ".ods")
NO_TABLES = {"expected.json", "make_binary.py"}


def understood(name, options):
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return understand(read(FILES / name, Reading(**given)))


def plain(value):
    """A cell as JSON holds it."""
    if value is None or value != value or type(value).__name__ == "NAType":
        return None
    if isinstance(value, str):
        return value
    return float(value)


def check_columns(seen, wanted):
    for name, values in wanted.items():
        assert name in seen.frame.columns, list(seen.frame.columns)
        found = [plain(v) for v in seen.frame[name].astype(object)]
        assert found == values, name


def test_the_folder_and_the_table_agree():
    there = {path.name for path in FILES.iterdir() if path.is_file()} - NO_TABLES
    assert there == set(EXPECTED) and len(there) >= 60


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_messy_file_is_read_right_or_refused_with_its_remedy(name):
    if name.endswith(SPREADSHEETS):
        pytest.importorskip("python_calamine")
    if name == "cyrillic.csv":
        pytest.importorskip("charset_normalizer")
    expected = EXPECTED[name]
    options = expected.get("options", {})
    if "refused" in expected:
        with pytest.raises(BadInput) as refusal:
            understood(name, options)
        for words in expected["refused"]:
            assert words in str(refusal.value)
        if "remedy" not in expected:
            return
        options = {**options, **expected["remedy"]}
    seen = understood(name, options)
    check_columns(seen, expected.get("columns", {}))
    kinds = {c.name: c.kind for c in seen.columns}
    for column, kind in expected.get("kinds", {}).items():
        assert kinds[column] == kind
    unread = {name: [list(cell) for cell in cells] for name, cells in seen.unread.items()}
    assert unread == expected.get("unread", {})
    notes = " ".join([*seen.table.notes, *seen.notes()])
    for words in expected.get("notes", []):
        assert words in notes, notes


def test_what_is_refused_by_name_of_a_column_is_read_without_it():
    for name, expected in EXPECTED.items():
        words = " ".join(expected.get("refused", []))
        if "--ignore 'price'" in words or "--ignore 'x'" in words:
            column = "price" if "price" in words else "x"
            frame = read_table(FILES / name, ignore=[column])
            assert frame[column].map(lambda v: isinstance(v, str)).all()


def test_files_are_read_from_python_alike():
    with pytest.warns(UserWarning, match="price"):
        frame = read_table(FILES / "dollars.csv")
    assert frame["price"].tolist() == [1234.5, 9.99, -3.25]
    with pytest.raises(ValueError, match="--thousands"):
        read_table(FILES / "ambiguous_point.csv")
    frame = read_table(FILES / "ambiguous_point.csv", thousands=".")
    assert np.array_equal(frame["people"], [26741, 112345, 950])


def test_a_spreadsheet_without_its_reader_is_told_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "python_calamine" else found(name, *rest),
    )
    with pytest.raises(BadInput, match=r"python-calamine.*spreadsheets"):
        read(FILES / "sheet.xlsx")
