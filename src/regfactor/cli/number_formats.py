"""Numbers as people write them: decimal and thousands marks, currency, percent, units.

Which mark is the decimal one is decided for a whole file, by all cells of its columns of numbers:
`33,70` anywhere makes `26.741` a number of thousands. What no cell decides is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regfactor.cli.errors import BadInput, listed
from regfactor.core.params import Array, frozen

POINT = "."
COMMA = ","
OTHER_MARK = {POINT: COMMA, COMMA: POINT}
# signs, spaces and digits of other keyboards; superscripts are footnotes, and stay what they are
SAME_SIGNS = str.maketrans(
    {
        "\u2212": "-",  # the minus of typographers
        "\u2013": "-",
        "\u2012": "-",
        "\uff0d": "-",
        "\uff0b": "+",
        "\u00a0": " ",  # spaces that do not break
        "\u202f": " ",
        "\u2009": " ",
        "\u2007": " ",
        "\u2019": "'",
        "\uff0e": ".",
        "\uff0c": ",",
        "\uff05": "%",
        "\u066b": ".",
        "\u066c": ",",
        **{chr(0xFF10 + d): str(d) for d in range(10)},
        **{chr(0x0660 + d): str(d) for d in range(10)},
        **{chr(0x06F0 + d): str(d) for d in range(10)},
    }
)
CURRENCY = r"(?:US\$|R\$|[$€£¥₹₩₽₺₪]|CHF|EUR|USD|GBP|JPY|kr\.?|zł|Kč|Fr\.)"
LETTER = r"[^\W\d_²³¹]"
UNIT = rf"(?:%|‰|°\s?[CFK]?|{LETTER}{{1,9}}(?:/{LETTER}{{1,6}})?[23²³]?)"
NUMBER = re.compile(
    rf"""(?P<open>\()?\s*
    (?P<sign>[-+])?\s*
    (?P<currency>{CURRENCY})?\s*
    (?P<inner>[-+])?\s*
    (?P<body>\d(?:[\d.,'_\ ]*\d)?[.,]?|[.,]\d+)
    (?P<exponent>[eE][-+]?\d+)?
    (?P<unit>\s*(?:{CURRENCY}|{UNIT}))?
    (?P<late>-)?
    (?P<close>\s*\))?""",
    re.VERBOSE,
)
# what most cells are, and needs no further look
PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
UNDECIDED = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
INFINITE = re.compile(r"[-+]?inf(inity)?", re.IGNORECASE)
ZERO_FIRST = re.compile(r"[-+]?0\d")  # 01234 is a code, not a number
CLOCK = ("am", "pm")  # 10 am is a time
ORDINAL = ("st", "nd", "rd", "th")
FEW = 0.1  # share of cells that are no numbers, up to which a column is one of numbers
FEW_NUMBERS = 5  # of a short column with a single such cell


def _body_pattern(decimal: str) -> re.Pattern[str]:
    mark = re.escape(decimal)
    groups = "|".join(rf"(?:{re.escape(g)}\d{{3}})+" for g in (OTHER_MARK[decimal], "'", "_", " "))
    grouped = rf"[1-9]\d{{0,2}}(?:{groups})"
    if decimal == POINT:
        grouped += r"|[1-9]\d?(?:,\d{2})+,\d{3}"  # lakhs: 12,34,567
    return re.compile(rf"(?:{grouped}|\d*)(?:{mark}\d*)?")


BODIES = {mark: _body_pattern(mark) for mark in (POINT, COMMA)}


@frozen
class Cell:
    """A cell that may be a number: its two readings, and what is written around it."""

    point: float | None  # the number, if the decimal mark is a point
    comma: float | None
    unit: str = ""
    before: bool = False  # whether the unit is written before the number
    space: bool = False  # whether there is a space between them
    grouped: str = ""  # the mark of thousands in it, other than point and comma too

    def value(self, decimal: str) -> float | None:
        """Return the number under one decimal mark; None where it is none."""
        if decimal == POINT:
            return self.point
        return self.comma

    @property
    def decides(self) -> str:
        """The decimal mark without which the cell is no number; empty if it is one with both."""
        if self.comma is None:
            return POINT
        if self.point is None:
            return COMMA
        return ""

    @property
    def is_undecided(self) -> bool:
        """Whether the two readings differ."""
        return not self.decides and self.point != self.comma


class NumberCell(str):
    """The text of a cell that a spreadsheet holds as a number, which needs no reading."""

    value: float

    def __new__(cls, value: float) -> NumberCell:
        """Return the cell of a number."""
        number = float(value)
        if number.is_integer() and abs(number) < 1e15:
            text = str(int(number))
        else:
            text = repr(number)
        cell = super().__new__(cls, text)
        cell.value = number
        return cell


def parse_cell(text: str) -> Cell | None:
    """Return the readings of a cell as a number, None if there is none."""
    if isinstance(text, NumberCell):
        return Cell(text.value, text.value)
    text = text.translate(SAME_SIGNS).strip()
    if INFINITE.fullmatch(text):
        return Cell(float(text), float(text))
    found = NUMBER.fullmatch(text)
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    signs = [found[name] for name in ("sign", "inner", "late", "open") if found[name]]
    unit = found["unit"] or ""
    before = bool(found["currency"])
    if len(signs) > 1 or (before and unit) or unit.strip().lower() in (*CLOCK, *ORDINAL):
        return None
    body = found["body"]
    exponent = found["exponent"] or ""
    negative = bool(signs) and signs[0] != "+"
    values = {mark: _value(body, exponent, negative, mark) for mark in (POINT, COMMA)}
    if values[POINT] is None and values[COMMA] is None:
        return None
    if before:
        unit = found["currency"]
        space = text.find(unit) + len(unit) < len(text) and text[text.find(unit) + len(unit)] == " "
    else:
        space = unit.startswith(" ")
    grouped = next((mark for mark in "'_ " if mark in body), "")
    marks = re.findall(r"[.,]", body)
    if not grouped and len(marks) > 1:
        grouped = marks[0]
    return Cell(values[POINT], values[COMMA], unit.strip(), before, space, grouped)


def _value(body: str, exponent: str, negative: bool, decimal: str) -> float | None:
    """Return a number from its digits and marks under one decimal mark."""
    if not BODIES[decimal].fullmatch(body):
        return None
    digits = re.sub(rf"[^\d{re.escape(decimal)}]", "", body).replace(decimal, ".")
    if digits in ("", "."):
        return None
    number = float(digits + exponent)
    if negative:
        return -number
    return number


@frozen
class NumberStyle:
    """How the numbers of a column are written: marks, and a unit before or after them."""

    decimal: str = POINT
    thousands: str = ""
    unit: str = ""
    before: bool = False
    space: bool = False

    def spell(self, value: float) -> str:
        """Return a number as the column writes its own, with six digits."""
        if not np.isfinite(value):
            return str(value)
        if value == int(value) and abs(value) < 1e15:
            text = f"{int(value):,}"
        else:
            text = f"{value:.6g}"
            if "e" not in text:
                whole, _, digits = text.partition(".")
                sign = "-" if whole.startswith("-") else ""
                text = f"{sign}{abs(int(whole)):,}"
                if digits:
                    text += f".{digits}"
        text = text.replace(",", "\0").replace(".", self.decimal).replace("\0", self.thousands)
        gap = " " if self.space else ""
        if not self.unit:
            return text
        if self.before:
            sign = "-" if text.startswith("-") else ""
            return f"{sign}{self.unit}{gap}{text.removeprefix('-')}"
        return f"{text}{gap}{self.unit}"


@frozen
class ColumnNumbers:
    """A column of numbers as read: NaN where a cell is missing or no number.

    Attributes
    ----------
    values : ndarray
        One number for each row.
    unread : tuple of int
        Rows, from zero, whose cells are neither numbers nor missing.
    style : NumberStyle
        How its numbers are written.
    bare : int
        Number of cells without the unit that the others have.
    """

    values: Array
    unread: tuple[int, ...]
    style: NumberStyle
    bare: int = 0


@frozen
class _Column:
    """Cells of a column that are not missing, with their readings."""

    name: str
    texts: list[str]
    cells: list[Cell | None]
    rows: Array
    n_rows: int

    @property
    def marks(self) -> Counter[str]:
        """How many cells need a decimal point, and how many a comma."""
        return Counter(c.decides for c in self.cells if c is not None and c.decides)

    @property
    def undecided(self) -> int | None:
        """Position of a cell with two readings, None if there is none."""
        return next((i for i, c in enumerate(self.cells) if c is not None and c.is_undecided), None)

    @property
    def decimal(self) -> str:
        """The decimal mark that the column itself decides, but for a few cells; or none."""
        marks = self.marks
        if not marks:
            return ""
        first, n_first = marks.most_common(1)[0]
        n_others = sum(marks.values()) - n_first
        if n_others and not is_few(n_others, n_first + n_others, n_first):
            return "mixed"
        return first


@frozen
class Convention:
    """Decimal marks of a file: of the whole, and of columns that differ from it."""

    decimal: str = ""  # empty where no cell decides, "mixed" where columns differ
    columns: Mapping[str, str] | None = None

    def of(self, name: str) -> str:
        """Return the mark of a column."""
        return (self.columns or {}).get(name, self.decimal)


def is_few(n_odd: int, n_cells: int, n_different: int) -> bool:
    """Whether so few cells of a column are no numbers that it is one of numbers."""
    if n_different < 3:
        return False
    if n_odd <= FEW * n_cells:
        return True
    return n_odd == 1 and n_different >= FEW_NUMBERS


class FileNumbers:
    """The numbers in all columns of a file, read by one convention.

    Parameters
    ----------
    columns : dict of str to (texts, missing)
        The cells of each column as text, and a mask of those that are missing.
    decimal : str
        The decimal mark, where the user or a model gives it; else the cells decide.
    hint : str
        The decimal mark of the file that a model was fitted to, for cells that nothing decides.
    where : str
        Name of the file, for errors.
    """

    def __init__(
        self,
        columns: Mapping[str, tuple[Array, Array]],
        decimal: str = "",
        hint: str = "",
        where: str = "",
    ) -> None:
        self.where = where
        self.hint = hint
        self.read: dict[str, ColumnNumbers | None] = {}
        self._columns: dict[str, _Column] = {}
        marks: Counter[str] = Counter()
        for name, (texts, missing) in columns.items():
            marks.update(self._look(name, texts, missing))
        self.convention = self._decide(marks, decimal)

    def column(self, name: str) -> ColumnNumbers | None:
        """Return a column as numbers, None if it is not one of numbers; raise if undecided."""
        if name not in self.read:
            self.read[name] = self._numbers(self._columns[name])
        return self.read[name]

    def odd_cells(self, name: str) -> list[tuple[int, str]]:
        """Return row and text of what is no number in a column of which more than half is."""
        column = self._columns.get(name)
        if column is None:
            return []
        decimal = self.convention.of(name)
        if decimal not in (POINT, COMMA):
            decimal = POINT
        odd = []
        for i, cell in enumerate(column.cells):
            if cell is None or cell.value(decimal) is None:
                odd.append((int(column.rows[i]), column.texts[i]))
        return odd

    @property
    def decimal(self) -> str:
        """The decimal mark in which new numbers are written."""
        if self.convention.decimal == COMMA:
            return COMMA
        return POINT

    def _look(self, name: str, texts: Array, missing: Array) -> Iterable[str]:
        """Read the cells of a column, and return the decimal marks that they decide."""
        rows = np.flatnonzero(~missing)
        known = texts[rows].tolist()
        if not known or any(ZERO_FIRST.match(text) for text in known):
            self.read[name] = None
            return []
        if all(PLAIN.fullmatch(text) for text in known) and not _any_number_cell(known):
            return self._look_plain(name, texts, rows, known)
        cells = _parsed(known)
        if sum(cell is not None for cell in cells) <= len(cells) / 2:
            self.read[name] = None
            return []
        column = _Column(name, known, cells, rows, len(texts))
        self._columns[name] = column
        return [column.decimal] if column.decimal else []

    def _look_plain(self, name: str, texts: Array, rows: Array, known: list[str]) -> list[str]:
        """Read a column of digits and points alone."""
        pointed = [text for text in known if "." in text or "e" in text.lower()]
        decided = any(not UNDECIDED.fullmatch(text) for text in pointed)
        if pointed and not decided:
            self._columns[name] = _Column(name, known, _parsed(known), rows, len(texts))
            return []
        values = np.full(len(texts), np.nan)
        values[rows] = np.array(known, dtype=float)
        self.read[name] = ColumnNumbers(values, (), NumberStyle())
        self._columns[name] = _Column(name, [], [], rows, len(texts))
        return [POINT] if pointed else []

    def _decide(self, marks: Counter[str], told: str) -> Convention:
        """Return the decimal marks of the file, from what its columns decide."""
        if told:
            return Convention(told)
        own = {name: column.decimal for name, column in self._columns.items() if column.decimal}
        if len(marks) == 1 and "mixed" not in marks:
            return Convention(next(iter(marks)))
        if not marks:
            return Convention("")
        return Convention("mixed", own)

    def _numbers(self, column: _Column) -> ColumnNumbers | None:
        decimal = self.convention.of(column.name)
        if decimal in ("", "mixed"):
            decimal = self._undecided(column, decimal)
        values = [None if cell is None else cell.value(decimal) for cell in column.cells]
        odd = [i for i, value in enumerate(values) if value is None]
        different = len({value for value in values if value is not None})
        if odd and not is_few(len(odd), len(values), different):
            return None
        return self._with_unit(column, values, odd, decimal)

    def _undecided(self, column: _Column, decimal: str) -> str:
        """Return the mark of a column that decides none; raise if that makes a difference."""
        if column.decimal == "mixed":
            raise BadInput(self._mixed_marks(column))
        at = column.undecided
        if at is None:
            return POINT
        if self.hint:
            return self.hint
        text = column.texts[at]
        cell = column.cells[at]
        assert cell is not None
        why = "nothing in the file decides it"
        if decimal == "mixed":
            why = "other columns are written in both ways"
        mark = "." if "." in text else ","
        raise BadInput(
            f"{text!r} in column {column.name!r}, row {column.rows[at] + 1} of {self.where}, is "
            f"{cell.value(mark):g} or {cell.value(OTHER_MARK[mark]):,.0f}, and {why}: add "
            f"--decimal {mark!r} for the first, --thousands {mark!r} for the second."
        )

    def _mixed_marks(self, column: _Column) -> str:
        shown: dict[str, str] = {}
        for text, cell, row in zip(column.texts, column.cells, column.rows, strict=True):
            if cell is not None and cell.decides:
                shown.setdefault(cell.decides, f"{text!r} in row {row + 1}")
        return (
            f"Column {column.name!r} of {self.where} is written with decimal points "
            f"({shown[POINT]}) and with decimal commas ({shown[COMMA]}). Write all in one way, or "
            f"leave the column out by --ignore {column.name!r}."
        )

    def _with_unit(
        self,
        column: _Column,
        values: Sequence[float | None],
        odd: list[int],
        decimal: str,
    ) -> ColumnNumbers | None:
        """Return the numbers of a column whose cells have one unit, but for a few."""
        units = Counter(c.unit for c in column.cells if c is not None)
        named = [unit for unit in units if unit]
        unit = ""
        if named:
            unit = max(named, key=lambda u: units[u])
        n_numbers = len(values) - len(odd)
        n_with_other_unit = sum(units[u] for u in named if u != unit)
        bare = units[""] if unit else 0
        mixed_percent = unit in ("%", "‰") and bare
        if bare and units[unit] <= FEW * n_numbers:  # a few footnotes, not the unit of a column
            n_with_other_unit = units[unit]
            unit = ""
            bare = 0
            mixed_percent = False
        different = len({value for value in values if value is not None})
        if n_with_other_unit and not is_few(n_with_other_unit + len(odd), len(values), different):
            self._refuse_units(column, named)
            return None
        if mixed_percent:
            raise BadInput(self._mixed_percent(column, unit))
        numbers = np.full(column.n_rows, np.nan)
        unread = []
        for i, row in enumerate(column.rows):
            cell = column.cells[i]
            value = values[i]
            if cell is None or value is None or cell.unit not in ("", unit):
                unread.append(int(row))
            else:
                numbers[row] = value
        style = self._style(column, decimal, unit)
        return ColumnNumbers(numbers, tuple(unread), style, bare)

    def _style(self, column: _Column, decimal: str, unit: str) -> NumberStyle:
        with_unit = [c for c in column.cells if c is not None and c.unit == unit]
        thousands = ""
        for text, cell in zip(column.texts, column.cells, strict=True):
            if cell is None or isinstance(text, NumberCell):
                continue
            thousands = cell.grouped
            if not thousands and OTHER_MARK[decimal] in text:
                thousands = OTHER_MARK[decimal]
            if thousands:
                break
        return NumberStyle(decimal, thousands, unit, with_unit[0].before, with_unit[0].space)

    def _refuse_units(self, column: _Column, units: list[str]) -> None:
        """Raise for numbers in several units; a few different ones are categories."""
        if len(set(column.texts)) <= len(column.texts) / 2:
            return
        first = []
        for unit in units[:2]:
            at = next(i for i, c in enumerate(column.cells) if c is not None and c.unit == unit)
            first.append(f"{column.texts[at]!r} in row {column.rows[at] + 1}")
        if len(units) == 1:
            return
        raise BadInput(
            f"Column {column.name!r} of {self.where} holds numbers in several units: "
            f"{listed(first)}. Write all in one, or leave the column out by --ignore "
            f"{column.name!r}."
        )

    def _mixed_percent(self, column: _Column, unit: str) -> str:
        """Return what to say of numbers with and without a percent sign."""
        at = [
            next(i for i, c in enumerate(column.cells) if c is not None and c.unit == u)
            for u in (unit, "")
        ]
        shown = [f"{column.texts[i]!r} in row {column.rows[i] + 1}" for i in at]
        return (
            f"Column {column.name!r} of {self.where} is written with {unit} ({shown[0]}) and "
            f"without ({shown[1]}), so that it is not sure what is meant. Write all in one way, or "
            f"leave the column out by --ignore {column.name!r}."
        )


def _parsed(texts: list[str]) -> list[Cell | None]:
    """Return the readings of cells, each text read once."""
    if _any_number_cell(texts):  # which may equal a text that means something else
        return [parse_cell(text) for text in texts]
    found = {text: parse_cell(text) for text in dict.fromkeys(texts)}
    return [found[text] for text in texts]


def _any_number_cell(texts: Iterable[Any]) -> bool:
    return any(isinstance(text, NumberCell) for text in texts)
