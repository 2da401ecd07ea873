"""`regfactor atlas`: which classical algorithm is which factor model."""

from __future__ import annotations

from regfactor.atlas import table
from regfactor.cli.work import Work


def run(work: Work) -> None:
    """Print the table."""
    atlas = table()
    work.talk.say(str(atlas))
    work.talk.record |= {"command": "atlas", "table": str(atlas)}
