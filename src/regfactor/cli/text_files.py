"""Rows of text files: encoding, delimiter, comments, titles, rows of names, totals.

Everything that is found without the user's word is reported; what can be read in two ways is
refused, with the option that decides.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib.util
import io
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.missing_cells import MARKERS, MARKERS_OF_NUMBERS
from regfactor.cli.number_formats import parse_cell

DELIMITERS = ",;\t|"
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
SAMPLE = 200  # rows by which the delimiter is found
MAX_CELL = 2**27  # characters of one cell
MAX_UNPACKED = 2**31  # bytes that a gzip file may hold
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
WESTERN = "cp1252"
# other scripts that a guess may find, in a text that is long enough
OTHER_SCRIPTS = frozenset(
    "cp1251 koi8_r koi8_u mac_cyrillic cp866 cp1253 iso8859_7 cp1255 iso8859_8 cp1256 "
    "iso8859_6 cp874 shift_jis cp932 euc_jp gb18030 gbk gb2312 big5 big5hkscs cp950 "
    "euc_kr cp949 johab".split()
)
MIN_LETTERS = 20  # bytes beyond ASCII from which on a script is recognized
TWICE_ENCODED = re.compile("Ã[\u0080-\u00bf]|â\u20ac")
TOTALS = frozenset(
    "total|totals|sum|grand total|sub-total|subtotal|overall|all|average|mean|avg|gesamt|summe|"
    "gesamtsumme|insgesamt|mittelwert|durchschnitt|somme|totale|total général|suma|media".split("|")
)
MAX_TOTALS = 3


@dataclass(frozen=True)
class FileLayout:
    """The layout of a file as options give it; None where it is to be found."""

    encoding: str | None = None
    delimiter: str | None = None
    header: bool = True
    header_rows: int | None = None
    skip: int = 0
    skip_last: int | None = None


@dataclass(frozen=True)
class FileRows:
    """The rows of a text file under the names of its columns."""

    names: list[str]
    cells: list[list[str]]
    delimiter: str
    encoding: str
    notes: list[str] = field(default_factory=list)


def read_rows(content: bytes, layout: FileLayout, name: str) -> FileRows:
    """Return the rows of a text file."""
    text, encoding, notes = _decoded(content, layout.encoding, name)
    if not text.strip():
        raise BadInput(f"{name} is empty.")
    if "\0" in text:
        raise BadInput(f"{name} contains zero bytes, so it is no text table.")
    lines = text.splitlines(keepends=True)
    said = re.match(r"sep=(.)\s*$", lines[0], re.IGNORECASE)  # as Excel writes it
    delimiter = layout.delimiter
    if said:
        text = text.removeprefix(lines[0])
        delimiter = delimiter or said[1]
    if layout.skip:
        text = "".join(text.splitlines(keepends=True)[layout.skip :])
        if not text.strip():
            raise BadInput(f"{name} has no more than {layout.skip} lines; lower --skip.")
    if delimiter is None:
        delimiter = _delimiter(text)
    rows = _split(text, delimiter, name)
    table = rows_under_names(rows, layout, name)
    return replace(table, delimiter=delimiter, encoding=encoding, notes=[*notes, *table.notes])


def unpacked(content: bytes, name: str) -> bytes:
    """Return what a gzip file holds."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(MAX_UNPACKED + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{name} is no whole gzip file: {error}.") from error
    if len(found) > MAX_UNPACKED:
        raise BadInput(f"{name} unpacks to more than {MAX_UNPACKED / 2**30:g} GB; unpack it first.")
    return found


def _decoded(content: bytes, encoding: str | None, name: str) -> tuple[str, str, list[str]]:
    """Return the text of a file, its encoding, and notes on how that was found."""
    if encoding is not None:
        return _decoded_as(content, encoding, name), encoding, []
    for mark, marked in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return _decoded_as(content, marked, name), marked, []
    wide = _wide_encoding(content)
    if wide:
        note = f"{name} was read as {wide}, which every second byte being zero shows."
        return _decoded_as(content, wide, name), wide, [note]
    try:
        text = content.decode("utf-8")
    except UnicodeError as error:
        return _guessed(content, error, name)
    notes = []
    odd = TWICE_ENCODED.search(text)
    if odd:
        start = max(0, odd.start() - 8)
        notes.append(
            f"{name} holds {text[start : odd.end() + 8].split()[0]!r}: letters that were encoded "
            "twice, in UTF-8 read as cp1252. Correct the file where it was made."
        )
    return text, "utf-8", notes


def _wide_encoding(content: bytes) -> str:
    """Return UTF-16 of one order for bytes of which every second one is zero, else nothing."""
    sample = content[:2000]
    if len(sample) < 4 or len(sample) % 2:
        sample = sample[: len(sample) // 2 * 2]
    half = len(sample) / 2
    if half and sample[1::2].count(0) > 0.7 * half and not sample[::2].count(0):
        return "utf-16-le"
    if half and sample[::2].count(0) > 0.7 * half and not sample[1::2].count(0):
        return "utf-16-be"
    return ""


def _guessed(content: bytes, error: UnicodeError, name: str) -> tuple[str, str, list[str]]:
    """Return text that is not UTF-8, by the encoding that it is most likely in."""
    guess = WESTERN
    n_letters = sum(byte > 127 for byte in content)
    if n_letters >= MIN_LETTERS and importlib.util.find_spec("charset_normalizer") is not None:
        from charset_normalizer import from_bytes

        best = from_bytes(content).best()
        if best is not None and best.encoding in OTHER_SCRIPTS:
            guess = best.encoding
    at = getattr(error, "start", 0)
    line = content[:at].count(b"\n") + 1
    try:
        text = content.decode(guess)
    except UnicodeError:
        raise BadInput(
            f"{name} is not UTF-8: byte 0x{content[at]:02x} in line {line}. Save it as UTF-8, or "
            "name its encoding, for example --encoding cp1252."
        ) from error
    before = re.split(rb"[\s,;\t|\"]", content[:at])[-1]
    after = re.split(rb"[\s,;\t|\"]", content[at:])[0]
    word = (before + after).decode(guess, "replace")
    note = (
        f"{name} is not UTF-8, and was read as {guess} ({word!r} in line "
        f"{line}); if that is wrong, name its encoding by --encoding."
    )
    return text, guess, [note]


def _decoded_as(content: bytes, encoding: str, name: str) -> str:
    if encoding.lower() in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        return content.decode(encoding)
    except LookupError as error:
        raise BadInput(
            f"There is no encoding {encoding!r}; well-known ones are utf-8, latin-1 and cp1252."
        ) from error
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        line = content[:at].count(b"\n") + 1
        shown = f"byte 0x{content[at]:02x} in line {line}" if at < len(content) else "cut off"
        raise BadInput(
            f"{name} is not {encoding.removesuffix('-sig')}: {shown}. Leave out --encoding to "
            "have it found, or name another, for example --encoding latin-1."
        ) from error


def _delimiter(text: str) -> str:
    """Return the delimiter by which most rows have the same number of cells, and the most."""
    sample = [line for line in text.splitlines() if line.strip()][:SAMPLE]
    sample = [line for line in sample if not line.startswith("#")] or sample
    best = ","
    best_score = (0.0, 0)
    for delimiter in DELIMITERS:
        if not any(delimiter in line for line in sample):
            continue
        widths = [len(row) for row in _cells_of("\n".join(sample), delimiter) if row]
        width, times = Counter(widths).most_common(1)[0]
        if width < 2:
            continue
        score = (round(times / len(widths), 1), width)
        if score > best_score:
            best = delimiter
            best_score = score
    if best_score[1] == 0 and _is_aligned(sample):
        return " "
    return best


def _is_aligned(lines: Sequence[str]) -> bool:
    """Whether columns are separated by spaces: rows of as many words, most of them numbers."""
    words = [line.split() for line in lines]
    widths = {len(row) for row in words}
    if len(lines) < 3 or len(widths) != 1 or min(widths) < 2:
        return False
    body = [word for row in words[1:] for word in row]
    return sum(parse_cell(word) is not None for word in body) > len(body) / 2


def _cells_of(text: str, delimiter: str, strict: bool = False) -> list[list[str]]:
    csv.field_size_limit(MAX_CELL)
    if delimiter == " ":
        return [line.split() for line in text.splitlines()]
    lines = io.StringIO(text, newline="")
    return list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict))


def _split(text: str, delimiter: str, name: str) -> list[list[str]]:
    """Return all rows of a text, blank ones as empty lists; raise for a quote without an end."""
    try:
        rows = _cells_of(text, delimiter)
        is_odd = text.count('"') % 2 == 1
        if is_odd or any("\n" in cell for row in rows for cell in row):
            _check_quotes(text, delimiter, name)
    except csv.Error as error:
        raise BadInput(f"{name} is no table: {error}.") from error
    return rows


def _check_quotes(text: str, delimiter: str, name: str) -> None:
    """Raise if the last cell begins with a quote that nothing ends."""
    try:
        _cells_of(text, delimiter, strict=True)
    except csv.Error as error:
        if "unexpected end" in str(error):
            line = text[: text.rfind('"')].count("\n") + 1
            raise BadInput(
                f"{name} is no table: a quote is opened and not closed, perhaps in line {line}. "
                'Write a quote inside a cell twice (""), or remove it.'
            ) from error


def rows_under_names(rows: list[list[str]], layout: FileLayout, name: str) -> FileRows:
    """Return rows as a table: without comments, titles and blank rows, under their names."""
    rows, notes = _without_comments(rows)
    width = _width(rows)
    if width > 1:
        rows = [row for row in rows if row]
    else:
        while rows and not any(rows[-1]):
            rows = rows[:-1]
        rows = [row or [""] for row in rows]
    if not any(any(row) for row in rows):
        raise BadInput(f"{name} cannot be read: all its cells are empty.")
    if layout.header:
        rows, more = _without_title(rows, width, name)
        notes += more
    rows, more = _without_end(rows, layout, width, name)
    notes += more
    if not layout.header:
        names = [f"x{j}" for j in range(width)]
        return _table(names, rows, notes, name)
    n_names = layout.header_rows
    if n_names is None:
        n_names = _header_rows(rows, width)
        if n_names > 1:
            notes.append(
                f"The first two rows were taken for names, joined as in "
                f"{_joined(rows[:2], width)[-1]!r}; if the second is data, add --header-rows 1."
            )
    if n_names >= len(rows) + 1:
        raise BadInput(f"{name} has {count(len(rows), 'row')}; lower --header-rows.")
    if n_names > 1:
        names = _joined(rows[:n_names], width)
    else:
        names = list(rows[0])
    return _table(names, rows[n_names:], notes, name)


def _width(rows: list[list[str]]) -> int:
    """Return the number of cells that most rows have."""
    widths = Counter(len(row) for row in rows if row)
    if not widths:
        return 0
    most = max(widths.values())
    return max(width for width, times in widths.items() if times == most)


def _without_comments(rows: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Return rows without lines that begin with # or //, unless these are a row of names."""
    marked = [i for i, row in enumerate(rows) if row and row[0].startswith(("#", "//"))]
    if not marked:
        return rows, []
    others = [row for i, row in enumerate(rows) if row and i not in set(marked)]
    width = _width(others)
    first = next((i for i, row in enumerate(rows) if row and i not in set(marked)), len(rows))
    last_above = max((i for i in marked if i < first), default=None)
    named_above = None
    if last_above is not None and len(rows[last_above]) == width and width > 1:
        if any(parse_cell(cell) for cell in rows[first]):
            named_above = last_above
    dropped = set()
    for i in marked:
        if i == named_above:
            continue
        if i < first or len(rows[i]) != width:
            dropped.add(i)
    kept = []
    for i, row in enumerate(rows):
        if i == named_above:
            kept.append([row[0].lstrip("#/ "), *row[1:]])
        elif i not in dropped:
            kept.append(row)
    if not dropped:
        return kept, []
    lines = listed([i + 1 for i in sorted(dropped)], 5)
    return kept, [f"{count(len(dropped), 'comment line')} left out (line {lines})."]


def _without_title(
    rows: list[list[str]], width: int, name: str
) -> tuple[list[list[str]], list[str]]:
    """Return rows without lines above the names that hold one cell, such as a title."""
    above = 0
    while above < len(rows) and _is_title(rows[above], width):
        above += 1
    if above == 0 or above == len(rows):
        return rows, []
    named = rows[above]
    is_named = sum(bool(cell.strip()) for cell in named) >= max(2, width - 1)
    if not is_named or any(parse_cell(cell.strip()) for cell in named):
        if len(rows[0]) < width:
            raise BadInput(
                f"The first row of {name} has {count(len(rows[0]), 'cell')} ({rows[0][0]!r}), most "
                f"others have {width}. If it is a title, add --skip 1; if there are no names, "
                "--no-header too."
            )
        return rows, []
    shown = " / ".join(row[0].strip() for row in rows[:above] if row[0].strip())
    return rows[above:], [f"{count(above, 'line')} above the names left out: {shown[:80]!r}."]


def _is_title(row: list[str], width: int) -> bool:
    """Whether a row holds its first cell alone, in a table of several columns."""
    cells = [cell for cell in row if cell.strip()]
    if width < 2 or not cells:
        return width >= 2 and not cells
    if len(cells) > 1 or not row[0].strip():
        return False
    return len(row) < width or width > 2


def _without_end(
    rows: list[list[str]], layout: FileLayout, width: int, name: str
) -> tuple[list[list[str]], list[str]]:
    """Return rows without blank ones at the end; raise for totals and footnotes there."""
    notes = []
    if width > 1:
        n_blank = 0
        while n_blank < len(rows) - 1 and not any(cell.strip() for cell in rows[-1 - n_blank]):
            n_blank += 1
        if 0 < n_blank < len(rows) - 1:
            rows = rows[:-n_blank]
            notes.append(f"{count(n_blank, 'blank row')} at the end left out.")
    if layout.skip_last is not None:
        if layout.skip_last >= len(rows):
            raise BadInput(f"{name} has {count(len(rows), 'row')}; lower --skip-last.")
        return rows[: len(rows) - layout.skip_last], notes
    n_footnotes = 0
    while n_footnotes < len(rows) - 2 and _is_footnote(rows[-1 - n_footnotes], width):
        n_footnotes += 1
    if n_footnotes:
        shown = rows[-n_footnotes][0].strip()
        raise BadInput(
            f"{name} ends with {count(n_footnotes, 'line')} of text, {shown[:60]!r}: add "
            f"--skip-last {n_footnotes} to leave that out, or --skip-last 0 to read it as a row."
        )
    _refuse_totals(rows, width, name)
    return rows, notes


def _is_footnote(row: list[str], width: int) -> bool:
    """Whether a line is a text of one cell, with fewer cells than a row has."""
    if width < 2 or len(row) != 1:
        return False
    text = row[0].strip()
    return " " in text and parse_cell(text) is None


def _refuse_totals(rows: list[list[str]], width: int, name: str) -> None:
    """Raise for a last row that is called a total, and no other is."""
    if width < 2 or len(rows) < 4:
        return
    above = rows[1:-MAX_TOTALS]
    for back in range(MAX_TOTALS, 0, -1):
        row = rows[-back]
        for j, cell in enumerate(row[:2]):
            word = cell.strip().rstrip(":").casefold()
            elsewhere = any(
                len(other) > j and other[j].strip().rstrip(":").casefold() == word
                for other in above
            )
            if word not in TOTALS or elsewhere:
                continue
            if not any(parse_cell(other.strip()) for other in row):
                continue
            raise BadInput(
                f"Row {len(rows) - back} of {name} is called {cell.strip()!r}, so that it may sum "
                f"up the others: add --skip-last {back} to leave it out, or --skip-last 0 if it is "
                "a row like the others."
            )


def _header_rows(rows: list[list[str]], width: int) -> int:
    """Return how many rows hold names: two if the second is text above numbers, else one."""
    if len(rows) < 4 or width < 2:
        return 1
    second = [cell.strip() for cell in rows[1]]
    body = rows[2:]
    n_above_numbers = 0
    for j in range(min(width, len(second))):
        cells = [row[j].strip() for row in body if len(row) > j and row[j].strip()]
        n_numbers = sum(parse_cell(cell) is not None for cell in cells[:SAMPLE])
        if not cells or n_numbers < 0.8 * len(cells[:SAMPLE]):
            continue
        if parse_cell(second[j]) is not None:
            return 1
        if second[j].lower() in MARKERS | MARKERS_OF_NUMBERS:
            return 1
        n_above_numbers += bool(second[j])
    if n_above_numbers >= 2:
        return 2
    names = [cell.strip() for cell in rows[0]]
    is_merged = any(not name for name in names[1:]) or len(set(names)) < len(names)
    if n_above_numbers == 1 and is_merged:
        return 2
    return 1


def _joined(rows: list[list[str]], width: int) -> list[str]:
    """Return names of several rows as one; an empty cell above repeats the one before it."""
    parts: list[list[str]] = []
    for depth, row in enumerate(rows):
        cells = [cell.strip() for cell in row] + [""] * (width - len(row))
        if depth < len(rows) - 1 and _is_merged(cells):
            last = ""
            for j, cell in enumerate(cells):
                last = cell or last
                cells[j] = last
        parts.append(cells)
    return [" ".join(p for p in column if p) for column in zip(*parts, strict=False)]


def _is_merged(cells: list[str]) -> bool:
    """Whether cells of a row of names stand above several columns."""
    return any(not cell for cell in cells[1:])


def _table(names: list[str], cells: list[list[str]], notes: list[str], name: str) -> FileRows:
    """Return rows that are as long as their names; raise for those that are longer."""
    width = len(names)
    longer = [row for row in cells if len(row) > width]
    if longer and len(longer) == len(cells) and {len(row) for row in cells} == {width + 1}:
        if not any(row[-1].strip() for row in cells):
            cells = [row[:-1] for row in cells]
            notes.append("Every row ends with a delimiter, which was left out.")
        elif len({row[0] for row in cells}) == len(cells) and len(cells) > 2:
            names = ["rownames", *names]
            notes.append(
                "Rows have one cell more than there are names: the first was taken for the names "
                "of the rows."
            )
        width = len(names)
    clean = [
        unicodedata.normalize("NFC", " ".join(n.split())) or f"unnamed_{j + 1}"
        for j, n in enumerate(names)
    ]
    for number, row in enumerate(cells, 1):
        if len(row) > width and any(cell.strip() for cell in row[width:]):
            raise BadInput(
                f"Row {number} of {name} has {len(row)} cells, the table has {width} columns; "
                "quote cells that contain the delimiter, or name another by --delimiter."
            )
    short = [i for i, row in enumerate(cells, 1) if len(row) < width]
    if short and width > 1:
        notes.append(_note_of_short_rows(short, width))
    even = [(row + [""] * (width - len(row)))[:width] for row in cells]
    return FileRows(clean, even, ",", "utf-8", notes)


def _note_of_short_rows(short: list[int], width: int) -> str:
    """Return a note on rows that end before the last column, which get missing cells."""
    if len(short) == 1:
        return (
            f"Row {short[0]} has fewer cells than the {width} columns; what it lacks was taken for "
            "missing."
        )
    return (
        f"{len(short):,} rows have fewer cells than the {width} columns, the first of them row "
        f"{short[0]}; what they lack was taken for missing."
    )
