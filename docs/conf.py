"""Configuration of the documentation; every warning is an error (make docs)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for docs.generate, and for what it reads

from docs.generate import docstrings
from docs.generate.api import write_api
from docs.generate.atlas import write_atlas
from docs.generate.benchmarks import write_benchmarks
from docs.generate.claims import write_claims
from docs.generate.commands import write_commands
from docs.generate.gallery import write_gallery
from docs.generate.links import dead_links

project = "regfactor"
author = "The regfactor developers"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "docs.generate.mathml"]
# the latter are included by other pages
exclude_patterns = [
    "_build",
    "_generated/*.md",
    "_generated/api.rst",
]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = False  # docs.generate.api writes the pages
autodoc_typehints = "none"  # docstrings say what arguments are
smartquotes = False  # "auto" is what one types
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "regfactor"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False

WRITERS = (write_atlas, write_claims, write_benchmarks, write_commands, write_gallery, write_api)


def generate(app: object) -> None:
    """Write what the code and its results say, before any page is read."""
    for write in WRITERS:
        write()


def check_links(app: object, failure: Exception | None) -> None:
    """End the build with an error when a page points to what is not there."""
    if failure is None and app.builder.format == "html":  # type: ignore[attr-defined]
        dead = dead_links(Path(app.outdir))  # type: ignore[attr-defined]
        if dead:
            raise RuntimeError("Dead links:\n" + "\n".join(dead))


def setup(app: object) -> None:
    """Connect what is ours."""
    connect = app.connect  # type: ignore[attr-defined]
    connect("builder-inited", generate)
    connect("autodoc-process-docstring", docstrings.process)
    connect("autodoc-skip-member", docstrings.skip)
    connect("build-finished", check_links)
