"""Reports: one HTML file that needs nothing from outside, in light and dark, on screen and paper."""

from regfactor.report.numbers import at_most, number
from regfactor.report.page import Code, Figure, Grid, Note, Page, Section, Text

__all__ = ["Code", "Figure", "Grid", "Note", "Page", "Section", "Text", "at_most", "number"]
