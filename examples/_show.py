"""The end of an example: print the results and save the figure completely or not at all."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")


def show(script: str, example: Callable[[], tuple[str, Any]]) -> None:
    """Run an example, which returns a text and a figure.

    `--out` names the folder of the figure.
    """
    name = Path(script).stem
    parser = argparse.ArgumentParser(prog=f"{name}.py")
    parser.add_argument(
        "--out", type=Path, default=Path("examples-output"), help="folder of the figure"
    )
    out = parser.parse_args().out
    text, figure = example()
    out.mkdir(parents=True, exist_ok=True)
    path, unfinished = out / f"{name}.png", out / f"{name}.unfinished.png"
    figure.savefig(unfinished, dpi=120, bbox_inches="tight")
    os.replace(unfinished, path)
    print(f"{text}\nFigure: {path}")
