"""Thousands of CSV files, sane and mad: no command ever shows a traceback."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from console import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regfactor.cli.app import app
from regfactor.clusters import mixture_members, mixture_screening
from regfactor.report import figures

EXAMPLES = int(os.environ.get("REGFACTOR_FUZZ", "5000"))
NUMBERS = st.one_of(
    st.floats(-1e3, 1e3).map(lambda v: f"{v:.3g}"),
    st.integers(-5, 5).map(str),
    st.sampled_from(["0", "1"]),
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**25), 10**25).map(str),
)
MISSING_CELLS = st.sampled_from(["", "?", "NA", "nan", "NULL", " "])
WORDS = st.sampled_from(
    ["red", "blue", "tall", "yes", "no", "True", "a b", "x;y", '"', "é", "0x1F", "1,5", "007", "-"]
)
DATES = st.dates().map(str)
ANYTHING = st.text(max_size=6)
COMMANDS = {
    "complete": [["complete"], ["complete", "--no-header"]],
    "label": [["label", "--target", "y"], ["label", "--target", "a"]],
    "cluster": [["cluster"], ["cluster", "--clusters", "2"]],
    "embed": [["embed"]],
    "forecast": [["forecast", "--horizon", "2"], ["denoise", "--views", "0:1,1:2"]],
}
NOT_FUZZED = {  # commands whose first argument is not a table
    "atlas": "reads nothing",
    "reproduce": "takes the name of an experiment",
    "score": "takes a saved model; tried in test_cli_models.py",
}
PAGE = Path(__file__).parents[1] / "docs" / "cli.md"


def test_every_command_is_fuzzed_and_documented():
    registered = {entry.name or entry.callback.__name__ for entry in app.registered_commands}
    fuzzed = {words[0] for group in COMMANDS.values() for words in group}
    wrong = sorted(fuzzed ^ (registered - set(NOT_FUZZED)))
    assert not wrong, f"COMMANDS or NOT_FUZZED of this file needs a line for each command: {wrong}"
    shown = set(re.findall(r"^regfactor (\w+) ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    wrong = sorted(shown ^ (fuzzed | {"score"}))
    assert not wrong, f"show each command in docs/cli.md, as `regfactor NAME ...`: {wrong}"


@st.composite
def columns(draw, rows):
    """Cells of one column: mostly of one kind, with missing entries, and now and then with something else."""
    kind = draw(st.sampled_from([NUMBERS, NUMBERS, NUMBERS, WORDS, DATES, ANYTHING]))
    odd = draw(st.sampled_from([0, 0, 0, 1]))
    same = draw(kind) if draw(st.integers(0, 7)) == 0 else None
    cells = []
    for _ in range(rows):
        dice = draw(st.integers(0, 9))
        cells.append(
            draw(MISSING_CELLS)
            if dice < 2
            else draw(ANYTHING)
            if odd and dice == 9
            else same or draw(kind)
        )
    return cells


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',;"\n\r') else cell


@st.composite
def mad_tables(draw):
    """A few columns with names and any cells, or any bytes at all."""
    if draw(st.integers(0, 4)) == 0:
        return draw(
            st.one_of(
                st.binary(max_size=60),
                st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")),
            )
        )
    rows = draw(st.one_of(st.integers(0, 6), st.integers(10, 14)))
    names = draw(
        st.lists(
            st.sampled_from(["a", "b", "c", "y", "id", "t", "", "näme"]), min_size=1, max_size=5
        )
    )
    width = len(names) + draw(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]))
    cells = [draw(columns(rows)) for _ in range(width)]
    clean = draw(st.integers(0, 3)) > 0
    lines = [names, *(list(row) for row in zip(*cells, strict=True))]
    return "\n".join(",".join(quoted(c) if clean else c for c in line) for line in lines).encode(
        "utf-8", "replace"
    )


def sane_table(seed):
    """A table as people have them, with a fault now and then."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 5, 8, 12, 25, 40]))
    kinds = {
        "number": lambda: [f"{v:.3g}" for v in rng.normal(size=n) * 10.0 ** rng.integers(-8, 9)],
        "whole": lambda: [str(v) for v in rng.integers(-3, 4 + 10 ** rng.integers(0, 12), size=n)],
        "flag": lambda: [str(v) for v in rng.integers(0, 2, size=n)],
        "few": lambda: [str(v) for v in rng.choice(["red", "blue", "green"], size=n)],
        "unique": lambda: [f"name{i}" for i in rng.permutation(n)],
        "text": lambda: [
            " ".join(rng.choice(["one", "two", "three", "ü"], size=4)) + f" {i}" for i in range(n)
        ],
        "date": lambda: [f"2020-01-{i % 28 + 1:02d}" for i in range(n)],
        "constant": lambda: ["7.5"] * n,
        "ramp": lambda: [str(i) for i in range(n)],
        "heavy": lambda: [f"{v:.4g}" for v in np.exp(3 * rng.normal(size=n))],
        "empty": lambda: [""] * n,
    }
    chosen = rng.choice(
        list(kinds),
        size=rng.integers(1, 7),
        p=[0.3, 0.1, 0.1, 0.15, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05],
    )
    table = [kinds[k]() for k in chosen]
    if rng.random() < 0.3:
        table.append(list(table[0]))  # the same column twice
    missing = rng.random() * rng.choice([0, 0.1, 0.3, 0.9])
    cells = np.array(table, dtype=object)
    cells[rng.random(cells.shape) < missing] = rng.choice(["", "NA", "?"])
    if rng.random() < 0.15:
        cells[rng.integers(cells.shape[0]), rng.integers(n)] = rng.choice(
            ["tall", "1e9", "-1e60", "0", "x,y"]
        )
    names = ["a", "b", "c", "d", "e", "f", "g"][: len(table)]
    if rng.random() < 0.7:
        names[-1] = "y"
    lines = [names, *cells.T.tolist()]
    return "\n".join(",".join(quoted(c) for c in line) for line in lines).encode()


def tables():
    """Sane ones and mad ones."""
    seeds = st.integers(0, 2**32 - 1).map(sane_table)
    return st.one_of(seeds, mad_tables())


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_table_shows_a_traceback(tmp_path, name, monkeypatch):
    seen, drawn = {0: 0, 2: 0, 3: 0}, figures._svg
    em_steps = mixture_members.MAX_EM_STEPS
    path, most = tmp_path / "t.csv", EXAMPLES // len(COMMANDS)
    force = ["--force"] * ("--force" in command(name, "--help").out)  # if it writes files

    @settings(max_examples=most, suppress_health_check=list(HealthCheck), database=None)
    @given(tables(), st.sampled_from(COMMANDS[name]))
    def fuzz(content, words):
        path.write_bytes(content)
        # drawing and EM take most of the time: in one example of five they go on to their end
        whole = sum(seen.values()) % 5 == 0
        monkeypatch.setattr(figures, "_svg", drawn if whole else lambda figure: "<svg ></svg>")
        for module in (mixture_members, mixture_screening):
            monkeypatch.setattr(module, "MAX_EM_STEPS", em_steps if whole else 5)
        done = command(words[0], path, *words[1:], *force)
        assert done.code in seen, done
        said = [line for line in done.err.splitlines() if line.startswith("regfactor: ")]
        assert len(said) == (done.code == 2), done
        seen[done.code] += 1

    fuzz()
    assert sum(seen.values()) >= most and min(seen[0], seen[2]) > most / 50, seen
