"""The command line as tests run it: in this process, where that is enough, or as a user does; and small tables."""

import json
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from regfactor.cli.app import app


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def record(self):
        return json.loads(self.out)


def command(*args, cwd=None):
    """Run a command in this process; anything but a clean exit is raised as it is."""
    args = [str(a) for a in args]
    here, before = os.getcwd(), sys.argv
    try:
        sys.argv = ["regfactor", *args]
        os.chdir(cwd or here)
        done = CliRunner().invoke(app, args)
    finally:
        sys.argv = before
        os.chdir(here)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def process(*args, cwd=None):
    """Run a command as a user does."""
    words = [sys.executable, "-m", "regfactor", *map(str, args)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=300)
    return Done(done.returncode, done.stdout, done.stderr)


def refused(done, *words):
    """Assert that a command ended with one clear sentence, exit code 2 and no traceback.

    To a pipe, what was read of the file is reported in the standard error, before that sentence.
    """
    assert done.code == 2, done
    lines = done.err.splitlines()
    assert lines[-1].startswith("regfactor: "), done.err
    assert sum(line.startswith("regfactor: ") for line in lines) == 1, done.err
    assert "Traceback" not in done.err + done.out
    for word in words:
        assert word in done.err, done.err
    return done


def cells(path):
    """The cells of a CSV file, to the letter."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def people(n=60, seed=0):
    """A mixed table of rank two with missing entries, an id, free text, dates, an empty column and a gross outlier."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2))
    noise = 0.3 * rng.normal(size=(4, n))
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "height": (170 + 8 * Z[:, 0] + noise[0]).round(1),
            "weight": (70 + 9 * Z[:, 0] + 4 * Z[:, 1] + noise[1]).round(2),
            "age": np.rint(45 + 12 * Z[:, 1] + noise[2]),
            "waist": (80 + 7 * Z[:, 0] + 5 * Z[:, 1] + noise[3]).round(2),
            "smokes": (Z[:, 1] > 0).astype(int),
            "size": np.where(Z[:, 0] < -0.5, "S", np.where(Z[:, 0] < 0.5, "M", "L")),
            "notes": [f"seen on day {i} by doctor {i % 7}, fine" for i in range(n)],
            "visit": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "empty": "",
        }
    ).astype(object)
    for name in ("height", "weight", "age", "waist", "smokes", "size"):
        frame.loc[rng.random(n) < 0.12, name] = np.nan
    frame.loc[7, "waist"] = 840.0
    return frame, Z


@pytest.fixture
def table(tmp_path):
    """The mixed table as a CSV file."""
    path = tmp_path / "people.csv"
    people()[0].to_csv(path, index=False)
    return path


@pytest.fixture
def labeled(tmp_path):
    """The mixed table with two targets, most of them missing: a class and a number."""
    frame, Z = people(80)
    rng = np.random.default_rng(5)
    known = rng.random(len(frame)) < 0.4
    frame["risk"] = np.where(known, np.where(Z[:, 1] > 0, "high", "low"), "")
    frame["cost"] = np.where(known, (100 + 20 * Z[:, 1] + 5 * Z[:, 0]).round(2).astype(object), "")
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def series(tmp_path):
    """Two noisy waves by month."""
    rng, t = np.random.default_rng(0), np.arange(90)
    frame = pd.DataFrame(
        {
            "month": pd.date_range("2012-01-01", periods=90, freq="MS").strftime("%Y-%m-%d"),
            "sales": 100 + 10 * np.sin(t / 4) + rng.normal(size=90),
            "visits": 50 + 5 * np.cos(t / 4) + rng.normal(size=90),
        }
    )
    frame.loc[20, "sales"] = np.nan
    frame[80:].to_csv(tmp_path / "new.csv", index=False)
    frame[:80].to_csv(tmp_path / "shop.csv", index=False)
    return tmp_path / "shop.csv"
