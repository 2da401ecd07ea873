"""Run benchmarks/NAME.py: print the Markdown that its main() returns and keep it in benchmarks/results/NAME.md."""

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """Every workload is a file that does not begin with an underscore."""
    return sorted(path.stem for path in HERE.glob("[!_]*.py"))


def keep(name: str, markdown: str) -> Path:
    """Write the result whole or not at all, so that an interrupted run leaves the last one in place."""
    path = HERE / "results" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".md.tmp")
    unfinished.write_text(markdown, encoding="utf-8")
    os.replace(unfinished, path)
    return path


def main(arguments: list[str]) -> None:
    """Exit with the list of names when there is not exactly one known name."""
    if len(arguments) != 1 or arguments[0].replace("-", "_") not in names():
        sys.exit(
            "usage: python -m benchmarks NAME, where NAME is one of: "
            f"{', '.join(names()) or '(none yet)'}"
        )
    name = arguments[0].replace("-", "_")
    markdown = importlib.import_module(f"benchmarks.{name}").main().rstrip() + "\n"
    print(markdown)
    print(f"kept in {os.path.relpath(keep(name, markdown))}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
