"""What writes the pages whose text the code or its results hold, and looks after the built ones."""

from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
GENERATED = DOCS / "_generated"
