"""The gallery: every example is run, and its page shows what it printed, what it drew, and its code."""

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
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def write_gallery(examples: Path = EXAMPLES, generated: Path = GENERATED, sources: Path = SOURCES) -> None:
    """Write the list that docs/gallery.md includes, and the page of each example; what has not changed is not run."""
    pages, paths = generated / "gallery", sorted(examples.glob("[!_]*.py"))
    shared = _digest([*examples.glob("_*.py"), *sources.rglob("*.py")])
    kept: set[str] = set()
    for path in paths:
        kept |= _write_example(path, pages, shared)
    keep_only(pages, kept)
    cards = [_card(path.stem, pages, path) for path in paths]
    write(generated / "gallery.md", "\n".join([contents("gallery"), ":::{container} gallery", *cards, ":::", ""]))


def _write_example(path: Path, pages: Path, shared: str) -> set[str]:
    """Run an example if it, the examples' common code or the library changed; return the names of its files."""
    folder, page = pages / path.stem, pages / f"{path.stem}.md"
    printed, key = pages / f"{path.stem}.txt", pages / f"{path.stem}.key"
    current = _digest([path]) + shared
    if not (key.is_file() and key.read_text(encoding="utf-8") == current):
        key.unlink(missing_ok=True)  # an interrupted run leaves none, and is repeated
        write(printed, run_example(path, folder))
        write(key, current)
    figures = sorted(figure.name for figure in folder.glob("*.png"))
    write(page, _page(path, printed.read_text(encoding="utf-8"), figures))
    return {folder.name, page.name, printed.name, key.name}


def run_example(path: Path, folder: Path) -> str:
    """Run an example as a user does, keep its figures in the folder, and return what it printed."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, str(path), "--out", OUT]
        done = subprocess.run(command, cwd=place, env=os.environ | ONE_THREAD, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"The example {path.name} ended with code {done.returncode}:\n{done.stderr}")
        figures = sorted((Path(place) / OUT).glob("*.png"))
        if not figures:
            raise RuntimeError(f"The example {path.name} left no figure in the folder named by --out.")
        for figure in figures:
            write_bytes(folder / figure.name, figure.read_bytes())
    keep_only(folder, {figure.name for figure in figures})
    return done.stdout


def _page(path: Path, said: str, figures: list[str]) -> str:
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    about = ast.get_docstring(module) or ""
    code = "\n".join(source.splitlines()[module.body[0].end_lineno :]).strip()
    shown = "\n\n".join(f"![{title(path.stem)}]({path.stem}/{figure})" for figure in figures)
    download = f"{{download}}`{path.name} <../../../examples/{path.name}>`"
    return (
        f"# {title(path.stem)}\n\n{about}\n\n{shown}\n\n## What it prints\n\n````text\n{said.strip()}\n````\n\n"
        f"## The code\n\nTo run it: `python examples/{path.name}`. To keep it: {download}.\n\n"
        f"````python\n{code}\n````\n"
    )


def title(stem: str) -> str:
    """Return the name of an example in words."""
    return stem.replace("_", " ").capitalize()


def _card(stem: str, pages: Path, path: Path) -> str:
    about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    figure = sorted((pages / stem).glob("*.png"))[0].name
    page = f"_generated/gallery/{stem}.md"
    image = f"_generated/gallery/{stem}/{figure}"
    return f"- [![{title(stem)}]({image})]({page})\n\n  [{title(stem)}]({page})\n\n  {about}\n"


def _digest(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
