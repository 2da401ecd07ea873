"""`regfactor reproduce`: the experiments of the papers, which are part of the source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import regfactor.cli
from regfactor.cli.errors import DONE, INTERRUPTED, BadInput
from regfactor.cli.job import Job

PACKAGE = Path("experiments") / "__main__.py"


def run(
    job: Job,
    experiment: str,
    quick: bool,
    splits: int | None,
    jobs: int,
) -> None:
    """Run an experiment by its id, or name all of them."""
    folder = source()
    words = ["list"]
    if experiment != "list":
        words = ["run", experiment, "--jobs", str(jobs)]
        if quick:
            words.append("--quick")
        if splits is not None:
            words += ["--splits", str(splits)]
    code = subprocess.run(
        [sys.executable, "-m", "experiments", *words],
        cwd=folder,
        check=False,
    ).returncode
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code == 2:
        raise BadInput(
            f"the experiments do not take {experiment!r}; `regfactor reproduce list` names them."
        )
    # otherwise cells failed: the others are kept, and the same command goes on
    job.converged = code == DONE


def source() -> Path:
    """Return the folder of the experiments: the current one, or the checkout of the package."""
    checkout = Path(regfactor.cli.__file__).parents[3]
    for folder in (Path.cwd(), checkout):
        if (folder / PACKAGE).is_file():
            return folder
    raise BadInput(
        "the experiments are not part of the installed package: run this in a checkout of the "
        "source of regfactor."
    )
