"""A report as data: lead, key numbers, sections of text, tables, figures, code.

`Page.html` makes one file of them.
"""

from __future__ import annotations

import abc
import base64
import hashlib
import html
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from string import Template

NAMES = re.compile(r'(\bid="|url\(#|href="#)')  # where a figure names a part of itself
MAX_PRINTED_ROWS = 30  # of a list of rows; tables.js and the style know it too
NUMERIC = re.compile(r"[-+−]?[\d.,]+([eE][-+]?\d+)?\s?(%|±.*)?$")


class PageBlock(abc.ABC):
    """A part of a section."""

    @abc.abstractmethod
    def html(self, number: int) -> str:
        """Return its HTML; `number` is different for every block of a page."""


@dataclass(frozen=True)
class Text(PageBlock):
    """A paragraph."""

    text: str

    def html(self, number: int) -> str:
        return f"<p>{html.escape(self.text)}</p>"


@dataclass(frozen=True)
class Note(PageBlock):
    """A highlighted paragraph."""

    text: str

    def html(self, number: int) -> str:
        return f'<p class="note">{html.escape(self.text)}</p>'


@dataclass(frozen=True)
class Code(PageBlock):
    """Something to type or to run."""

    text: str
    caption: str = ""

    def html(self, number: int) -> str:
        head = ""
        if self.caption:
            head = f'<p class="caption">{html.escape(self.caption)}</p>'
        return f"{head}<pre><code>{html.escape(self.text)}</code></pre>"


@dataclass(frozen=True)
class GridCell:
    """A cell of a table, and what is shown of it on demand: under a pointer, by keyboard, in print.

    `mark` is "filled" or "flagged", or empty; `key` is what rows are sorted by, where the text is
    not.
    """

    text: str
    detail: str = ""
    mark: str = ""
    key: float | None = None


@dataclass(frozen=True)
class Grid(PageBlock):
    """A table; columns of numbers are aligned right, and rows are sorted and searched by readers.

    `looked_up` marks a long list of rows, which scrolls in a frame of its own.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str | GridCell]]
    caption: str = ""
    looked_up: bool = False

    def html(self, number: int) -> str:
        cells = [[_as_cell(cell) for cell in row] for row in self.rows]
        right = [
            bool(cells) and all(_is_numeric(row[j].text) for row in cells)
            for j in range(len(self.head))
        ]
        names = [GridCell(name) for name in self.head]
        head = _line("th", names, right)
        rows = "".join(_line("td", row, right) for row in cells)
        table = f"<thead>{head}</thead><tbody>{rows}</tbody>"
        said = html.escape(self.caption)
        if not self.looked_up:
            caption = f"<caption><span>{said}</span></caption>" if said else ""
            return f'<div class="wide"><table>{caption}{table}</table></div>'
        long = " long" if len(cells) > MAX_PRINTED_ROWS else ""
        return (
            f'<p class="caption" id="rows-{number}">{said}</p>'
            f'<div class="wide tall{long}" role="region" tabindex="0" '
            f'aria-labelledby="rows-{number}"><table class="looked-up">{table}</table></div>'
        )


@dataclass(frozen=True)
class Figure(PageBlock):
    """A drawing in SVG with its caption, which describes it."""

    svg: str
    caption: str

    def html(self, number: int) -> str:
        # two figures of a page may not share the names of their parts
        svg = NAMES.sub(lambda found: f"{found.group(1)}f{number}-", self.svg)
        label = html.escape(self.caption, quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        return f"<figure>{svg}<figcaption>{html.escape(self.caption)}</figcaption></figure>"


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    heading: str
    blocks: Sequence[PageBlock]

    def html(self, numbers: Iterator[int]) -> str:
        """Return its HTML; every block takes a number of the page."""
        blocks = "".join(block.html(next(numbers)) for block in self.blocks)
        return f"<section><h2>{html.escape(self.heading)}</h2>{blocks}</section>"


@dataclass(frozen=True)
class Page:
    """A report: title, result in a sentence or two, key numbers with their meaning, sections."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]

    def html(self) -> str:
        """Return the page; it opens from a disk and asks nothing of any network."""
        folder = files("regfactor.report")
        template = Template(folder.joinpath("template.html").read_text(encoding="utf-8"))
        script = folder.joinpath("tables.js").read_text(encoding="utf-8")
        # no other script may run in the page, whatever a cell holds
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        numbers = itertools.count(1)
        sections = "\n".join(section.html(numbers) for section in self.sections if section.blocks)
        facts = "".join(
            f"<div><dt>{html.escape(what)}</dt><dd>{html.escape(value)}</dd></div>"
            for value, what in self.facts
        )
        return template.substitute(
            title=html.escape(self.title),
            lead=html.escape(self.lead),
            facts=facts,
            sections=sections,
            script=script,
            digest=digest,
            version=html.escape(version("regfactor")),
            date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        )


def _is_numeric(text: str) -> bool:
    return not text or text == "–" or NUMERIC.match(text) is not None


def _as_cell(cell: str | GridCell) -> GridCell:
    if isinstance(cell, GridCell):
        return cell
    return GridCell(cell)


def _line(tag: str, cells: Sequence[GridCell], right: Sequence[bool]) -> str:
    """Return a line of a table, with numbers aligned right."""
    return f"<tr>{''.join(map(_td, itertools.repeat(tag), cells, right))}</tr>"


def _td(tag: str, cell: GridCell, at_right: bool) -> str:
    """Return a cell; one with details can be reached by the keyboard, and holds them in a span."""
    classes = [cell.mark] if cell.mark else []
    if at_right:
        classes.append("number")
    attributes = ""
    if tag == "th":
        attributes += ' scope="col"'
    if classes:
        attributes += f' class="{" ".join(classes)}"'
    if cell.key is not None:
        attributes += f' data-key="{cell.key:.9g}"'
    text = html.escape(cell.text)
    if tag == "th":
        text = f"<span>{text}</span>"
    if cell.detail:
        attributes += ' tabindex="0"'
        text = f'<span>{text}</span> <span class="detail">{html.escape(cell.detail)}</span>'
    return f"<{tag}{attributes}>{text}</{tag}>"
