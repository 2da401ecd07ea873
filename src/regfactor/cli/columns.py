"""What columns are taken for: numbers, flags, categories, text, dates, names of rows.

And what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from regfactor.cli.checks import check_finite, check_spread
from regfactor.cli.dates import are_dates, are_periods
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.tables import Table, pandas
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
MOSTLY = 0.9  # share of numbers from which a column is meant to be one of numbers
FEW_ROWS = 10  # below which counting up is no sign of a row's name
NAMES_ROWS = re.compile(
    r"(^|[_\s.-])(id|uuid|guid|key|index|rownames?|unnamed_\d+)$",
    re.IGNORECASE,
)
FLAGGED = re.compile(r"flagged_*$")  # the last column of what `complete` writes
ZERO_FIRST = re.compile(r"[-+]?0\d")  # 01234 is a code, not a number
GROUPED = {
    ".": re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)?"),  # 18.654,98
    ",": re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?"),  # 18,654.98
}
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


@frozen
class Understood:
    """A table with its columns typed: numbers are floats, flags booleans, categories categorical.

    Missing cells are NaN.
    """

    table: Table
    frame: Any
    columns: tuple[Column, ...]
    target: str | None = None

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
                f"{self.table.path.name} has {count(len(self.inputs), 'column')} that can be used, "
                f"and {what} needs at least {least} ({left_out}). --use COLUMN takes in one that "
                "was left out."
            )


class Wishes(NamedTuple):
    """What the user said of columns."""

    target: str | None = None
    text: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    words: bool = False  # whether the command can read text by its words
    times: bool = False  # whether it reads dates as the times of rows


def understand(table: Table, wishes: Wishes | None = None) -> Understood:
    """Return a table with every column typed by what it holds and by what the user said of it."""
    wishes = wishes or Wishes()
    for name in (*wishes.text, *wishes.ignore, *wishes.use):
        table.place(name)
    if wishes.target is not None:
        table.place(wishes.target, "target column")
    series = {}
    columns = []
    for name in table.names:
        column, typed_ = _infer(table, name, wishes)
        columns.append(column)
        series[name] = typed_
    pd = pandas()
    return Understood(table, pd.DataFrame(series), tuple(columns), wishes.target)


def _infer(table: Table, name: str, wishes: Wishes) -> tuple[Column, Any]:
    """Return what one column is, and its cells."""
    wanted = name in wishes.use or name == wishes.target
    if name in wishes.text:
        cells = _texts(table, name)
        return Column(name, TEXT, int((cells == "").sum())), cells
    cells = _cells(table, name)
    missing = int(cells.isna().sum())
    kind = _kind(table, name, cells, missing, wanted)
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
    return Column(name, kind, missing, why, levels), typed(cells, kind) if kind in USED else cells


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


def _cells(table: Table, name: str) -> Any:
    """Return a column as numbers, booleans, categories, dates or strings, NaN where missing."""
    series = table.raw[name]
    if not table.text and not _holds_strings(series):
        return series
    pd = pandas()
    strings = series.astype(object)
    stripped = np.array([s.strip() if isinstance(s, str) else "" for s in strings], dtype=object)
    missing = np.array([s.lower() in table.reading.markers for s in stripped], dtype=bool)
    cells = pd.Series(stripped, dtype=object).mask(missing, None)
    numbers = _as_numbers(stripped[~missing], table.separator)
    if numbers is None:
        return cells
    _refuse_mixed(table, name, stripped, missing, numbers)
    if np.isnan(numbers).any():
        return cells
    values = np.full(len(cells), np.nan)
    values[~missing] = numbers
    return pd.Series(values)


def _holds_strings(series: Any) -> bool:
    """Whether a typed column holds strings, and nothing else but missing cells."""
    if series.dtype.kind != "O" or hasattr(series.dtype, "categories"):
        return False
    return all(isinstance(v, str) for v in series.dropna())


def _as_numbers(strings: Array, separator: str) -> Array | None:
    """Return strings as numbers, NaN where one is none.

    None for codes like 01234, and without any number.
    """
    if not len(strings) or any(ZERO_FIRST.match(s) for s in strings):
        return None
    strings = _ungrouped(strings, "." if separator == ";" else ",")
    if separator == ";" and any("," in s for s in strings):  # decimal commas go with semicolons
        strings = np.array(
            [s.replace(",", ".") if s.count(",") == 1 else s for s in strings],
            dtype=object,
        )
    numbers = pandas().to_numeric(strings, errors="coerce")
    numbers = np.asarray(numbers, dtype=float)
    if np.isnan(numbers).all():
        return None
    return numbers


def _ungrouped(strings: Array, mark: str) -> Array:
    """Return numbers without separators of thousands, as in 18.654,98, if these are unambiguous."""
    marked = [s for s in strings if mark in s]
    if not all(GROUPED[mark].fullmatch(s) for s in marked):
        return strings
    sure = any(s.count(mark) > 1 or len(s.strip("-+0123456789" + mark)) for s in marked)
    if sure:
        return np.array([s.replace(mark, "") for s in strings], dtype=object)
    return strings


def _refuse_mixed(
    table: Table,
    name: str,
    strings: Array,
    missing: Array,
    numbers: Array,
) -> None:
    """Raise for text among numbers; a few numbers among categories are categories."""
    odd = np.isnan(numbers)
    if not odd.any():
        return
    share = (~odd).mean()
    different = len(np.unique(numbers[~odd]))
    mostly = different > 2 and share >= min(MOSTLY, 1 - 1 / (len(numbers) + 1))
    if mostly or (different > min(MOST_LEVELS, len(strings) / 2) and share > 0.5):
        at = np.flatnonzero(~missing)[odd]
        cell = strings[at[0]]
        raise BadInput(
            f"Column {name!r} of {table.path.name} holds numbers, but {len(at)} of its cells do "
            f"not, such as {cell!r} in row {at[0] + 1}. Correct it; or, if it marks a missing "
            f"value, add --missing {cell!r}; or leave the column out by --ignore {name!r}."
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
    """Whether a column marks some rows, and says nothing of the others."""
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
    if not table.text and not _holds_strings(cells):
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


def forced(table: Table, kinds: Mapping[str, str], absent: Collection[str] = ()) -> Any:
    """Return columns of new rows in the kinds that a model was fitted to.

    Columns in `absent` may be missing.
    """
    pd = pandas()
    out = {}
    for name, kind in kinds.items():
        if name in absent and name not in table.names:
            continue
        table.place(name)
        if kind == TEXT:
            out[name] = _texts(table, name)
            continue
        cells = _cells(table, name)
        if cells.isna().all():
            cells = pd.Series(np.full(len(cells), np.nan))
        elif kind in (NUMBER, FLAG) and cells.dtype.kind not in "biuf":
            raise BadInput(
                f"Column {name!r} of {table.path.name} held numbers when the model was fitted, and "
                f"holds text now, such as {cells.dropna().iloc[0]!r}."
            )
        elif kind == CATEGORY and cells.dtype.kind in "iuf":
            cells = pd.Series(_spelled(cells), dtype=object)
        if kind == NUMBER:
            check_finite(name, cells.to_numpy(dtype=float, na_value=np.nan))
        out[name] = typed(cells.rename(name), kind)
    return pd.DataFrame(out)


def _spelled(numbers: Iterable[float]) -> list[str | None]:
    """Return numbers as a file would spell categories."""
    return [None if v != v else f"{v:g}" for v in numbers]
