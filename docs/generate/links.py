"""No dead internal link: every place that a built page points to is there."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The targets and the places of a page of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: D102
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.targets.add(value)


def dead_links(folder: Path) -> list[str]:
    """Return `page: target` for every link to a file or a place that does not exist.

    Other hosts are not asked.
    """
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    return [
        f"{path.relative_to(folder.resolve())}: {target}"
        for path, page in pages.items()
        for target in sorted(page.targets)
        if _is_internal(target) and not _leads_somewhere(path, target, pages)
    ]


def _is_internal(target: str) -> bool:
    parts = urlsplit(target)
    return not parts.scheme and not parts.netloc


def _leads_somewhere(path: Path, target: str, pages: dict[Path, Page]) -> bool:
    file, place = urldefrag(target)
    found = (path.parent / unquote(urlsplit(file).path)).resolve() if file else path
    if found.is_dir():
        found = found / "index.html"
    if found not in pages:
        return found.is_file()
    return place in ("", "top") or unquote(place) in pages[found].places
