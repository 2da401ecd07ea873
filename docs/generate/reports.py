"""Pages of reports in Markdown, each with its figures, copied to where Sphinx reads them."""

from collections.abc import Callable, Iterable
from pathlib import Path

from docs.generate.files import keep_only, write, write_bytes


def title_of(text: str) -> str:
    """Return the heading of a report."""
    return text.partition("\n")[0].removeprefix("# ")


def copy_reports(
    source: Path, pages: Path, edit: Callable[[str], str] = lambda text: text
) -> dict[str, str]:
    """Copy all reports and figures of a folder.

    Return the text of each report as it was, by its stem.
    """
    reports = {path.stem: path.read_text(encoding="utf-8") for path in sorted(source.glob("*.md"))}
    for name, text in reports.items():
        write(pages / f"{name}.md", edit(text))
    figures = sorted(source.glob("*.png"))
    for figure in figures:
        write_bytes(pages / figure.name, figure.read_bytes())
    keep_only(pages, {f"{name}.md" for name in reports} | {figure.name for figure in figures})
    return reports


def contents(folder: str, names: Iterable[str] = ("*",)) -> str:
    """Return the entries of the side bar: all pages of a folder, or some by short names."""
    entries = [
        f"_generated/{folder}/*" if name == "*" else f"{name} <_generated/{folder}/{name}>"
        for name in names
    ]
    return "```{toctree}\n:hidden:\n:glob:\n\n" + "\n".join(entries) + "\n```\n"
