"""Reports: one self-contained HTML file, in light and dark, for screen and paper."""

from regfactor.report.numbers import at_most, number
from regfactor.report.page import Code, Figure, Grid, GridCell, Note, Page, Section, Text

__all__ = [
    "Code",
    "Figure",
    "Grid",
    "GridCell",
    "Note",
    "Page",
    "Section",
    "Text",
    "at_most",
    "number",
]
