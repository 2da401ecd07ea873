"""Benchmarks: a list of all reports, and a page for each."""

import re
from pathlib import Path

from docs.generate import GENERATED, ROOT
from docs.generate.files import write
from docs.generate.reports import contents, copy_reports, title_of

RESULTS = ROOT / "benchmarks" / "results"
REQUIREMENTS = ROOT / "benchmarks"
TOOLS = {"numpy", "scipy", "pandas", "matplotlib"}  # used by both sides
HEAD = "| benchmark | command | compared with |\n|---|---|---|"


def write_benchmarks(results: Path = RESULTS, generated: Path = GENERATED) -> None:
    """Write the list that docs/benchmarks.md includes, and the page of each benchmark."""
    reports = copy_reports(results, generated / "benchmarks")
    rows = [_row(name, text) for name, text in reports.items()]
    text = (
        "\n".join([contents("benchmarks"), HEAD, *rows])
        if reports
        else "No benchmark has been run yet."
    )
    write(generated / "benchmarks.md", f"{text}\n")


def _row(name: str, text: str) -> str:
    peers = ", ".join(peers_of(text)) or "no peer"
    return (
        f"| [{title_of(text)}](_generated/benchmarks/{name}.md) | `make bench-{name}` | {peers} |"
    )


def peers_of(text: str) -> list[str]:
    """Return the pinned libraries that a report names."""
    files = sorted(REQUIREMENTS.glob("requirements*.txt"))
    pinned = {
        found
        for file in files
        for found in re.findall(r"^([\w-]+)==", file.read_text(), flags=re.MULTILINE)
    }
    return sorted(name for name in pinned - TOOLS if name in text)
