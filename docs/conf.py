"""Configuration of the documentation; every warning is an error (make docs)."""

from pathlib import Path

from regfactor import atlas

project = "regfactor"
author = "The regfactor developers"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build", "_generated"]
html_theme = "alabaster"

GENERATED = Path(__file__).parent / "_generated"  # pages whose text the code itself holds


def write_atlas(app: object) -> None:
    """Write the table of the atlas, which docs/atlas.md includes."""
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "atlas.md").write_text(atlas.table().to_markdown(), encoding="utf-8")


def setup(app: object) -> None:
    """Generate pages before any is read."""
    app.connect("builder-inited", write_atlas)  # type: ignore[attr-defined]
