"""Files that are written completely, and only when they changed."""

import os
import shutil
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a text file."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; one that holds this already is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


def keep_only(folder: Path, names: set[str]) -> None:
    """Remove what an earlier run wrote to the folder and this one did not."""
    for path in folder.glob("*"):
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
