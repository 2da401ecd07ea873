"""The table of the atlas, as the code holds it."""

from pathlib import Path

from docs.generate import GENERATED
from docs.generate.files import write
from regfactor import atlas


def write_atlas(generated: Path = GENERATED) -> None:
    """Write what docs/atlas.md includes."""
    write(generated / "atlas.md", atlas.table().to_markdown())
