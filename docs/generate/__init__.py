"""Writers of the pages that are generated from code and results, and checks of built pages."""

from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
GENERATED = DOCS / "_generated"
