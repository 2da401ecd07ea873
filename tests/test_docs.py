"""The code of every page runs from top to bottom, and links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from console import command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINKED = [*PAGES, *sorted(ROOT.glob("*.md"))]
GUIDES = (
    "few_labels",
    "few_targets",
    "missing_entries",
    "two_views",
    "series",
    "your_own_model",
    "cli",
)
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
KINDS = {
    "python",
    "console",
    "text",
    "{toctree}",
    "{include}",
    "{eval-rst}",
}  # the first two are run
NEEDED = {"dask": ("distributed", "dask.array")}  # packages that the library does not need
SHOWN = ("pip ", "make ")  # commands that change the machine, and are not run


def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(page):
    """(language, code) of each block of a page, in order."""
    return BLOCK.findall(text_of(page))


def run_page(page):
    """Run the Python and the commands of a page in the present folder, as a reader would."""
    names = {"__name__": page.stem}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, str(page), "exec"), names)
        elif language == "console":
            for line in code.splitlines():
                run_line(line)


def run_line(line):
    if line.startswith(SHOWN):
        return
    program, *words = shlex.split(line, comments=True)
    assert program == "regfactor", line
    done = command(*words)
    assert done.code == 0, (line, done)


def links(page):
    """(file, place) of every link that does not lead to another host."""
    found = re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text_of(page)))
    return [link.partition("#")[::2] for link in found if not link.startswith(("http", "mailto"))]


def places(page):
    """What headings are called in a link."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text_of(page)), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    for needed in NEEDED.get(page.stem, ()):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)  # what is saved is saved there
    run_page(page)
    pytest.importorskip("matplotlib.pyplot").close("all")


@pytest.mark.parametrize(
    "code", ["```python\nx / 0\n```", "```console\nregfactor complete no.csv\n```"]
)
def test_a_page_that_is_broken_fails(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "broken.md"
    page.write_text(f"# Broken\n\n```python\nx = 1\n```\n\n{code}\n")
    with pytest.raises((ZeroDivisionError, AssertionError)):
        run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_escapes(page):
    """A block of Python under another name, indented, or fenced otherwise would not be run."""
    assert {language.partition(" ")[0] for language, _ in blocks(page)} <= KINDS
    rest = BLOCK.sub("", text_of(page))
    assert "```" not in rest and not re.search(r"^( {4}|\t| *~~~)", rest, flags=re.MULTILINE)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_begins_with_the_situation_and_has_code(name):
    page = DOCS / f"{name}.md"
    assert re.match(r"# [^\n]+\n\nYou have ", text_of(page))
    assert sum(language in ("python", "console") for language, _ in blocks(page)) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_in_the_table_of_contents(page):
    assert page.stem == "index" or re.search(
        rf"^{page.stem}$", text_of(DOCS / "index.md"), flags=re.MULTILINE
    )


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for file, place in links(page):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not place or place in places(target), f"{file}#{place}"
