"""Configuration of the documentation; every warning is an error (make docs)."""

import re
import shutil
from pathlib import Path

from regfactor import atlas

project = "regfactor"
author = "The regfactor developers"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated/*.md"]  # these are included by other pages
html_theme = "alabaster"
html_theme_options = {"page_width": "1240px", "body_max_width": "auto"}  # code of 120 letters without scrolling

GENERATED = Path(__file__).parent / "_generated"  # pages whose text the code or its results hold
RESULTS = Path(__file__).parents[1] / "experiments" / "results"
VERDICT = re.compile(r"^## (?:What reproduces|Verdicts?)\n(.*?)(?=^## |^!\[|\Z)", flags=re.MULTILINE | re.DOTALL)


def write_atlas(app: object) -> None:
    """Write the table of the atlas, which docs/atlas.md includes."""
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "atlas.md").write_text(atlas.table().to_markdown(), encoding="utf-8")


def write_claims(app: object, results: Path = RESULTS, generated: Path = GENERATED) -> None:
    """Write the list that docs/claims.md includes, and a page with the report and figures of each experiment."""
    pages = generated / "claims"
    shutil.rmtree(pages, ignore_errors=True)  # of results that are no longer there
    pages.mkdir(parents=True)
    parts = []
    for report in sorted(results.glob("*.md")):
        text = report.read_text(encoding="utf-8")
        (pages / report.name).write_text(text, encoding="utf-8")
        parts.append(_told(report.name, text))
    for figure in results.glob("*.png"):
        shutil.copy(figure, pages / figure.name)
    listed = "\n\n".join(parts) if parts else "No experiment has been run in this checkout yet."
    contents = "```{toctree}\n:hidden:\n:glob:\n\n_generated/claims/*\n```\n\n" if parts else ""
    (generated / "claims.md").write_text(f"{contents}{listed}\n", encoding="utf-8")


def _told(page: str, text: str) -> str:
    """Return the title of a report, linked to its page, and what it says of the claims."""
    title, found = text.partition("\n")[0].removeprefix("# "), VERDICT.search(text)
    verdict = found.group(1).strip() if found else "The page shows the printed numbers beside ours."
    return f"## {title}\n\n{verdict}\n\n[All numbers](_generated/claims/{page})"


def setup(app: object) -> None:
    """Generate pages before any is read."""
    app.connect("builder-inited", write_atlas)  # type: ignore[attr-defined]
    app.connect("builder-inited", write_claims)  # type: ignore[attr-defined]
