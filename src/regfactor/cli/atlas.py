"""`regfactor atlas`: which classical algorithm is which factor model."""

from __future__ import annotations

from regfactor.atlas import table
from regfactor.atlas.row import HEADER
from regfactor.cli.job import Job


def run(job: Job) -> None:
    """Print the table; machines get its rows."""
    atlas = table()
    job.console.say(str(atlas))
    head = [name.replace(" ", "_") for name in HEADER]
    rows = []
    for row in atlas.rows:
        cells = dict(zip(head, row.cells, strict=True))
        rows.append({**cells, "note": row.note})
    others = [
        {"algorithm": stranger.name, "reason": stranger.reason} for stranger in atlas.strangers
    ]
    job.console.record |= {"command": "atlas", "rows": rows, "not_members": others}
