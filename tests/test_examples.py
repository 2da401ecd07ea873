"""Every example runs as a user runs it, says something, and draws its figure."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("[!_]*.py") if path.stem != "demo")


def run(path, out):
    """What an example prints, run as a user runs it."""
    command = [sys.executable, "-W", "error", str(path), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, tmp_path):
    assert len(run(path, tmp_path).strip()) > 40
    assert list(tmp_path.glob("*.png")) and not list(tmp_path.glob("*unfinished*"))


def test_the_demonstration_completes_a_table_and_labels_another(tmp_path):
    said = run(FOLDER / "demo.py", tmp_path)
    assert said.count("Against the truth") == 2
    assert "missing cells filled, 194 gross outliers flagged" in said
    for result in ("stations.complete", "wines.label"):
        assert (tmp_path / f"{result}.csv").stat().st_size and (
            tmp_path / f"{result}.html"
        ).stat().st_size
