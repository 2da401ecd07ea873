"""A report as data: lead, key numbers, sections of text, tables, figures, code.

`Page.html` makes one file of them.
"""

from __future__ import annotations

import abc
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
class Grid(PageBlock):
    """A table; columns of numbers are aligned right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self, number: int) -> str:
        right = [
            bool(self.rows) and all(_is_numeric(row[j]) for row in self.rows)
            for j in range(len(self.head))
        ]
        head = _line("th", self.head, right)
        rows = "".join(_line("td", row, right) for row in self.rows)
        caption = ""
        if self.caption:
            caption = f"<caption><span>{html.escape(self.caption)}</span></caption>"
        table = f"{caption}<thead>{head}</thead><tbody>{rows}</tbody>"
        return f'<div class="wide"><table>{table}</table></div>'


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
        source = files("regfactor.report").joinpath("template.html")
        template = Template(source.read_text(encoding="utf-8"))
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
            version=html.escape(version("regfactor")),
            date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        )


def _is_numeric(text: str) -> bool:
    return not text or text == "–" or NUMERIC.match(text) is not None


def _line(tag: str, texts: Sequence[str], right: Sequence[bool]) -> str:
    """Return a line of a table, with numbers aligned right."""
    cells = []
    for text, at_right in zip(texts, right, strict=True):
        at = ' class="number"' if at_right else ""
        cells.append(f"<{tag}{at}>{html.escape(text)}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"
