"""The Python of every page runs from top to bottom, pages are linked, and generated ones hold what results say."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
GUIDES = ("few_labels", "holes", "two_views", "series", "your_own_model")
REPORT = """# toy-1: squares (Nobody 2000, table 1)

Some text.

## (a) numbers

| i | printed | here |
|---|---|---|
| 2 | 4 | 5 |

## What reproduces

- the square of 2 **does not hold**.

![toy-1](toy-1.png)

1 cell, 1 s in all.
"""


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page):
    """Targets of links to other files, without the place in them."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link.partition("#")[0] for link in found if not link.startswith(("http", "#"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)  # figures are saved there
    source = "\n".join(blocks(page))
    exec(compile(source, str(page), "exec"), {"__name__": page.stem})
    pytest.importorskip("matplotlib.pyplot").close("all")


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_begins_with_the_situation_and_has_code(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert re.match(r"# [^\n]+\n\nYou have ", text)
    assert len(blocks(DOCS / f"{name}.md")) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_in_the_table_of_contents_and_links_lead_somewhere(page):
    assert page.stem == "index" or re.search(rf"^{page.stem}$", (DOCS / "index.md").read_text(), flags=re.MULTILINE)
    assert not [link for link in links(page) if not (DOCS / link).exists()]


def test_claims_are_generated_from_results(tmp_path):
    conf = runpy.run_path(str(DOCS / "conf.py"))
    results, generated = tmp_path / "results", tmp_path / "generated"
    results.mkdir()
    conf["write_claims"](None, results, generated)
    assert "No experiment has been run" in (generated / "claims.md").read_text()
    (results / "toy-1.md").write_text(REPORT)
    (results / "toy-1.png").write_bytes(b"a figure")
    conf["write_claims"](None, results, generated)
    told = (generated / "claims.md").read_text()
    assert "## toy-1: squares (Nobody 2000, table 1)\n\n- the square of 2 **does not hold**.\n\n[All numbers]" in told
    assert "1 cell" not in told and "printed" not in told
    assert (generated / "claims" / "toy-1.md").read_text() == REPORT
    assert (generated / "claims" / "toy-1.png").read_bytes() == b"a figure"
    (results / "toy-1.md").unlink()
    conf["write_claims"](None, results, generated)
    assert not list((generated / "claims").glob("*.md"))


def test_code_outside_python_blocks_is_not_python():
    """A Python block under another name, or none, would escape the tests."""
    for page in PAGES:
        fences = re.findall(r"^```([\w{}]*)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(fences[::2]) <= {"python", "text", "console", "{toctree}", "{include}"}, page
        assert not any(fences[1::2]), page
