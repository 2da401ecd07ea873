"""The table of the atlas, as the code holds it, and a map of its rows."""

from html import escape
from pathlib import Path

from docs.generate import GENERATED
from docs.generate.files import write
from regfactor import atlas
from regfactor.atlas.row import CODES, Atlas

LINE = 15  # height of a line of text
HEAD = 30  # height of the titles of columns
SIDE = 130  # width of the titles of rows
CHARACTER = 5.6  # width of a character
GAP = 14


def write_atlas(generated: Path = GENERATED) -> None:
    """Write what docs/atlas.md includes."""
    table = atlas.table()
    write(generated / "atlas.md", f"{picture(table)}\n\n{table.to_markdown()}")


def picture(table: Atlas) -> str:
    """Return a map as SVG: losses from left to right, constraints on codes from top to bottom."""
    losses = list(dict.fromkeys(row.loss for row in table))
    fields = {}
    for row in table:
        fields.setdefault((row.codes, row.loss), []).append(row)
    widths = []
    for loss in losses:
        names = [row.name for row in table if row.loss == loss]
        widths.append(GAP + CHARACTER * max(map(len, [loss, *names])))
    heights = []
    for codes in CODES:
        heights.append(GAP + LINE * max(len(fields.get((codes, loss), [])) for loss in losses))
    width = SIDE + sum(widths)
    height = HEAD + sum(heights)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" role="img" font-family="sans-serif" font-size="10" '
        'fill="currentColor">',
        "<title>Algorithms by the constraints on their codes and by their loss</title>",
    ]
    left = SIDE
    for loss, wide in zip(losses, widths, strict=True):
        parts.append(_text(left, 18, loss, "bold"))
        left += wide
    top = HEAD
    for codes, high in zip(CODES, heights, strict=True):
        parts.append(_text(4, top + LINE - 2, codes, "bold"))
        left = SIDE
        for loss, wide in zip(losses, widths, strict=True):
            rows = fields.get((codes, loss), [])
            if rows:
                parts.append(_field(left - 5, top - 2, wide - 4, high - 4))
            for number, row in enumerate(rows, start=1):
                parts.append(_text(left, top + LINE * number - 2, row.name, hint=row.seen))
            left += wide
        top += high
    return "\n".join([*parts, "</svg>"])


def _text(x: float, y: float, words: str, weight: str = "normal", hint: str = "") -> str:
    title = f"<title>{escape(hint)}</title>" if hint else ""
    place = f'x="{x:.0f}" y="{y:.0f}" font-weight="{weight}"'
    return f"<text {place}>{title}{escape(words)}</text>"


def _field(x: float, y: float, wide: float, high: float) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="4" '
        'fill="currentColor" fill-opacity="0.07"/>'
    )
