"""Run benchmarks/NAME.py: print the Markdown that its main() returns and keep it in benchmarks/results/NAME.md."""

import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("numpy", "scipy")
CODE = ("src", "benchmarks/*.py")  # what a result depends on


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


def computed_with() -> str:
    """Return a sentence on the commit, "+" where code differs from it, and the packages of a result."""
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    commit = git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return f"Computed outside a git checkout; Python {platform.python_version()}, {packages}."
    if git("status", "--porcelain", "--untracked-files=no", "--", *CODE):
        commit += "+"
    return f"Computed with commit {commit}; Python {platform.python_version()}, {packages}."


def git(*words: str) -> str | None:
    """Return what git prints of the checkout; None where there is no git or no checkout."""
    try:
        done = subprocess.run(["git", *words], cwd=HERE.parent, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    return done.stdout.strip()


def main(arguments: list[str]) -> None:
    """Exit with the list of names when there is not exactly one known name."""
    if len(arguments) != 1 or arguments[0].replace("-", "_") not in names():
        sys.exit(
            "usage: python -m benchmarks NAME, where NAME is one of: "
            f"{', '.join(names()) or '(none yet)'}"
        )
    name = arguments[0].replace("-", "_")
    provenance = computed_with()  # before a run that may outlast the commit
    result = importlib.import_module(f"benchmarks.{name}").main().rstrip()
    markdown = f"{result}\n\n{provenance}\n"
    print(markdown)
    print(f"kept in {os.path.relpath(keep(name, markdown))}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
