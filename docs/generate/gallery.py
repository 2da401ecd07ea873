"""The gallery: every example is run, and its page shows output, figure and code."""

import ast
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.generate import GENERATED, ROOT
from docs.generate.files import keep_only, write, write_bytes
from docs.generate.reports import contents

EXAMPLES = ROOT / "examples"
SOURCES = ROOT / "src"
OUT = "examples-output"
KEPT = (".png", ".html")  # figures and reports
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def write_gallery(
    examples: Path = EXAMPLES, generated: Path = GENERATED, sources: Path = SOURCES
) -> None:
    """Write the list that docs/gallery.md includes, and the page of each example.

    What has not changed is not run.
    """
    pages, paths = generated / "gallery", sorted(examples.glob("[!_]*.py"))
    shared = _digest([*examples.glob("_*.py"), *sources.rglob("*.py")])
    kept: set[str] = set()
    for path in paths:
        kept |= _write_example(path, pages, shared)
    keep_only(pages, kept)
    cards = [_card(path.stem, pages, path) for path in paths]
    write(
        generated / "gallery.md",
        "\n".join([contents("gallery"), ":::{container} gallery", *cards, ":::", ""]),
    )


def _write_example(path: Path, pages: Path, shared: str) -> set[str]:
    """Run an example if it, the examples' common code or the library changed.

    Return the names of its files.
    """
    folder, page = pages / path.stem, pages / f"{path.stem}.md"
    printed, key = pages / f"{path.stem}.txt", pages / f"{path.stem}.key"
    current = _digest([path]) + shared
    if not (key.is_file() and key.read_text(encoding="utf-8") == current):
        key.unlink(missing_ok=True)  # an interrupted run leaves none, and is repeated
        write(printed, run_example(path, folder))
        write(key, current)
    write(
        page,
        _page(
            path,
            printed.read_text(encoding="utf-8"),
            sorted(file.name for file in folder.iterdir()),
        ),
    )
    return {folder.name, page.name, printed.name, key.name}


def run_example(path: Path, folder: Path) -> str:
    """Run an example, keep its figures and reports in the folder, and return its output."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, str(path), "--out", OUT]
        done = subprocess.run(
            command, cwd=place, env=os.environ | ONE_THREAD, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(
                f"The example {path.name} ended with code {done.returncode}:\n{done.stderr}"
            )
        files = [file for file in (Path(place) / OUT).glob("*") if file.suffix in KEPT]
        if not files:
            raise RuntimeError(
                f"The example {path.name} left no figure or report in the folder named by --out."
            )
        for file in files:
            write_bytes(folder / file.name, file.read_bytes())
    keep_only(folder, {file.name for file in files})
    return done.stdout


def _page(path: Path, printed: str, files: list[str]) -> str:
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    about = ast.get_docstring(module) or ""
    code = "\n".join(source.splitlines()[module.body[0].end_lineno :]).strip()
    shown = "\n\n".join(_shown(path.stem, file) for file in files)
    download = f"{{download}}`{path.name} <../../../examples/{path.name}>`"
    return (
        f"# {title(path.stem)}\n\n{about}\n\n{shown}\n\n## "
        f"Output\n\n````text\n{printed.strip()}\n````\n\n## The code\n\nTo run it: `python "
        f"examples/{path.name}`. To keep it: {download}.\n\n````python\n{code}\n````\n"
    )


def _shown(stem: str, file: str) -> str:
    """Return how a page shows a figure, or offers a report."""
    if file.endswith(".png"):
        return f"![{title(stem)}]({stem}/{file})"
    return f"The report {{download}}`{file} <{stem}/{file}>`"


def title(stem: str) -> str:
    """Return the name of an example in words."""
    return stem.replace("_", " ").capitalize()


def _card(stem: str, pages: Path, path: Path) -> str:
    about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[
        0
    ]
    page, figures = f"_generated/gallery/{stem}.md", sorted((pages / stem).glob("*.png"))
    parts = [
        f"[![{title(stem)}](_generated/gallery/{stem}/{figure.name})]({page})"
        for figure in figures[:1]
    ]
    return "- " + "\n\n  ".join([*parts, f"[{title(stem)}]({page})", about]) + "\n"


def _digest(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
