"""The atlas: classical algorithms as regularized factor models (thesis, table 3.4, corrected).

A row gives the fitted table, the `FactorModel` fitted to it, and the well-known algorithm that it
equals in some quantity. `row.difference()` computes both sides on random data.
"""

from __future__ import annotations

from regfactor.atlas.members import MEMBERS, STRANGERS
from regfactor.atlas.row import Atlas, Row, Stranger
from regfactor.atlas.samples import Sample


def table() -> Atlas:
    """Return all rows; its `str` is the table."""
    return Atlas(MEMBERS, STRANGERS)


__all__ = ["Atlas", "Row", "Sample", "Stranger", "table"]
