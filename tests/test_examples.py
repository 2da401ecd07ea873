"""Every example runs as a user runs it, says something, and draws its figure."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[!_]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, tmp_path):
    command = [sys.executable, "-W", "error", str(path), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) > 40
    assert list(tmp_path.glob("*.png")) and not list(tmp_path.glob("*unfinished*"))
