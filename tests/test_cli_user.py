"""Every command in a process of its own, as a user starts it; and how a process ends that is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from console import command, labeled, process, refused, series, table  # noqa: F401

import regfactor

ROUNDS = {  # a command with its options, and what a report of it must say
    "complete": (["people.csv"], "missing cells filled"),
    "label": (["people.csv", "--target", "risk", "--ignore", "cost"], "rows labeled"),
    "cluster": (["people.csv", "--clusters", "2"], "clusters"),
    "embed": (["people.csv"], "patterns found"),
    "denoise": (["people.csv", "--views", "1:3,3:5"], "shared pattern"),
    "forecast": (["shop.csv", "--horizon", "3"], "steps ahead"),
}


def test_the_version_and_the_atlas_in_a_process():
    done = process("--version")
    assert done == (0, f"regfactor {regfactor.__version__}\n", "")
    done = process("atlas", "--json")
    assert done.code == 0 and "PCA" in [row["algorithm"] for row in done.record["rows"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUNDS)
def test_a_user_runs_a_command_and_scores_new_rows(labeled, series, name):  # noqa: F811
    folder, (words, said) = labeled.parent, ROUNDS[name]
    done = process(name, *words, "--save", "m.skops", "--json", cwd=folder)
    assert done.code == 0 and "Traceback" not in done.err, done
    assert done.record["command"] == name and set(done.record["outputs"]) == {
        "table",
        "report",
        "model",
    }
    for path in done.record["outputs"].values():
        assert (folder / path).stat().st_size > 0
    assert said in (folder / done.record["outputs"]["report"]).read_text(encoding="utf-8")
    rows = "new.csv" if name == "forecast" else "people.csv"
    again = process("score", "m.skops", rows, cwd=folder)
    assert again.code == 0 and "Traceback" not in again.err, again
    assert (folder / f"{rows.removesuffix('.csv')}.score.csv").exists()


@pytest.mark.slow
def test_experiments_are_named_in_a_process():
    done = process("reproduce", "list", cwd=Path(__file__).parents[1])
    assert done.code == 0 and "aistats-1" in done.out
    refused_id = process("reproduce", "no-such-id", cwd=Path(__file__).parents[1])
    assert refused_id.code == 2 and "Traceback" not in refused_id.err


def test_shells_complete_commands_and_options():
    def completed(line):
        words = {
            "_REGFACTOR_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }
        run = [sys.executable, "-c", "from regfactor.cli import main; main()"]
        return subprocess.run(
            run, env={**os.environ, **words}, capture_output=True, text=True, timeout=300
        ).stdout

    assert completed("regfactor comp").split() == ["complete"]
    assert completed("regfactor label --targ").split() == ["--target"]


def test_an_interrupt_while_libraries_load_is_told_in_one_line():
    code = """import sys
class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "regfactor.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Late())
from regfactor.cli import main
main()"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "regfactor: interrupted; nothing was written.\n"
    heavy = "import sys, regfactor.cli; print('sklearn' in sys.modules)"  # so that the time before is short
    assert (
        subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True).stdout
        == "False\n"
    )


def test_a_process_killed_while_it_writes_leaves_the_old_file_whole(tmp_path):
    old = tmp_path / "t.csv"
    old.write_text("old")
    code = f"""import pathlib, time
from regfactor.cli.outputs import Outputs
outputs = Outputs(force=True)
def slow(path):
    with open(path, "w") as file:
        file.write("half of the new"); file.flush()
        print("writing", flush=True); time.sleep(600)
outputs.write(outputs.plan(pathlib.Path({str(old)!r})), slow)"""
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "writing\n"
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGKILL and old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["t.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2, 0.6, 1.2, 2.5, 5.0])
def test_an_interrupt_at_any_time_writes_all_or_nothing(labeled, seconds):  # noqa: F811
    words = [sys.executable, "-m", "regfactor", "complete", labeled.name]
    run = subprocess.Popen(
        words, cwd=labeled.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(seconds)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=300)
    assert run.returncode in (
        0,
        130,
        -signal.SIGINT,
    )  # the last while the interpreter itself starts
    written = {p.name for p in labeled.parent.iterdir()} - {labeled.name}
    assert written in (set(), {"people.complete.csv", "people.complete.html"})


def test_a_folder_without_the_right_to_write(table, tmp_path):  # noqa: F811
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if not hasattr(os, "seteuid"):
        pytest.skip("this system has no users whose rights could be less")
    root = os.geteuid() == 0
    if root:  # who may write everywhere: another user, who needs the way to the table, may not
        opened = [p for p in (tmp_path, *tmp_path.parents) if not p.stat().st_mode & 0o001]
        modes = {p: p.stat().st_mode for p in opened}
        assert command("embed", table).code == 0  # all that is imported on the way is there now
        for p in opened:
            p.chmod(modes[p] | 0o011)
        os.seteuid(65534)
    try:
        refused(
            command("embed", table, "--out", locked),
            "Nothing can be written to",
            "Permission denied",
            "--out",
        )
    finally:
        if root:
            os.seteuid(0)
            for p in opened:
                p.chmod(modes[p])
    assert not list(locked.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forecast", "denoise", "score"])
def test_a_hundred_thousand_rows_in_the_other_commands(tmp_path, name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(
        size=(100_000, 4)
    )
    pd.DataFrame(X, columns=list("abcd")).round(4).to_csv(tmp_path / "t.csv", index=False)
    words = {
        "forecast": ["t.csv"],
        "denoise": ["t.csv", "--views", "0:2,2:4"],
        "score": ["m.skops", "t.csv"],
    }[name]
    if name == "score":
        pd.read_csv(tmp_path / "t.csv", nrows=500).to_csv(tmp_path / "few.csv", index=False)
        assert command("cluster", tmp_path / "few.csv", "--save", tmp_path / "m.skops").code == 0
    done = process(name, *words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert len(pd.read_csv(tmp_path / f"t.{name}.csv")) == (12 if name == "forecast" else 100_000)
