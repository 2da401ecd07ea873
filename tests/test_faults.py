"""Faults from outside, for each command: one sentence, a documented exit code, nothing lost, half-written or left over."""

import errno
import io
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from console import Done, command

import regfactor
from regfactor.cli import outputs
from regfactor.cli.console import Console
from regfactor.cli.errors import visible
from regfactor.report.page import Page
from regfactor.saving import DamagedModel, UntrustedModel

COMMANDS = {
    "complete": ["complete", "t.csv"],
    "embed": ["embed", "t.csv"],
    "score": ["score", "m.skops", "t.csv"],
    "cluster": ["cluster", "t.csv", "--clusters", "2", "--divergence", "squared"],
    "label": ["label", "t.csv", "--target", "kind", "--ignore", "day"],
    "forecast": ["forecast", "t.csv", "--horizon", "2", "--ignore", "kind"],
    "denoise": ["denoise", "t.csv", "--views", "0:2,2:3", "--ignore", "kind"],
}
EARLIER = "an earlier result"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small table and the model of a command."""
    folder = tmp_path_factory.mktemp("faults")
    X = np.random.default_rng(0).normal(size=(30, 3)).round(4)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = np.where(np.arange(30) % 3 == 0, np.where(X[:, 0] > 0, "high", "low"), "")
    frame["day"] = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
    frame.to_csv(folder / "t.csv", index=False)
    assert command("embed", folder / "t.csv", "--save", folder / "m.skops").code == 0
    return (folder / "t.csv").read_bytes(), (folder / "m.skops").read_bytes()


@pytest.fixture(params=sorted(COMMANDS))
def job(request, saved, tmp_path):
    """The words of a command, and its folder with an earlier table of results."""
    (tmp_path / "t.csv").write_bytes(saved[0])
    (tmp_path / "m.skops").write_bytes(saved[1])
    (tmp_path / f"t.{request.param}.csv").write_text(EARLIER)
    return [*COMMANDS[request.param], "--force"], tmp_path, request.param


def check_untouched(folder, name, code, done, *words):
    """Nothing is lost or left over, and one sentence says why."""
    assert done.code == code, done
    lines = [line for line in done.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1 and lines[0].startswith("regfactor: "), done.err
    for word in words:
        assert word in lines[0]
    assert {p.name for p in folder.iterdir()} == {"t.csv", "m.skops", f"t.{name}.csv"}
    assert (folder / f"t.{name}.csv").read_text() == EARLIER


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def forbidden(*args, **kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_disk_that_is_full_when_the_table_is_written(job, monkeypatch):
    words, folder, name = job
    monkeypatch.setattr(os, "fsync", full)
    done = command(*words, cwd=folder)
    check_untouched(folder, name, 4, done, f"t.{name}.csv cannot be written", "No space left")


def test_a_disk_that_is_full_when_the_report_is_written(job, monkeypatch):
    words, folder, name = job
    monkeypatch.setattr(Path, "write_text", full)
    done = command(*words, cwd=folder)
    monkeypatch.undo()
    check_untouched(folder, name, 4, done, f"t.{name}.html cannot be written")


def test_a_disk_that_is_full_when_the_table_is_spelled(job, monkeypatch):
    words, folder, name = job
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    check_untouched(folder, name, 4, command(*words, cwd=folder), "No space left")


def test_a_folder_that_takes_no_files(job, monkeypatch):
    words, folder, name = job
    monkeypatch.setattr(outputs.tempfile, "TemporaryFile", forbidden)
    done = command(*words, cwd=folder)
    check_untouched(folder, name, 2, done, "Permission denied", "--out")


def test_a_folder_that_takes_no_more_files_after_the_work(job, monkeypatch):
    words, folder, name = job
    monkeypatch.setattr(outputs.tempfile, "mkstemp", forbidden)
    check_untouched(folder, name, 4, command(*words, cwd=folder), "Permission denied")


def test_force_replaces_all_or_none(job, monkeypatch):
    words, folder, name = job
    replace = os.replace

    def fails_on_reports(source, target):
        if str(target).endswith(".html"):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_on_reports)
    done = command(*words, cwd=folder)
    check_untouched(folder, name, 4, done, "cannot be replaced", "all files are as they were")


def test_a_result_that_is_a_folder(job):
    words, folder, name = job
    (folder / f"t.{name}.html").mkdir()
    done = command(*words, cwd=folder)
    (folder / f"t.{name}.html").rmdir()
    check_untouched(folder, name, 2, done, "is a folder")


def test_an_input_that_vanishes(job, monkeypatch):
    words, folder, name = job
    read = Path.read_bytes

    def gone(path):
        if path.name == "t.csv":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", gone)
    done = command(*words, cwd=folder)
    check_untouched(folder, name, 2, done, "t.csv cannot be read")


@pytest.mark.parametrize("sign", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_signals_leave_nothing_behind(job, monkeypatch, sign):
    words, folder, name = job

    def stopped(page):
        os.kill(os.getpid(), getattr(signal, sign))
        return ""

    monkeypatch.setattr(Page, "html", stopped)  # the table has its temporary name
    before = signal.getsignal(signal.SIGTERM)
    # a process in the background may have been started without it
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = command(*words, cwd=folder)
    finally:
        signal.signal(signal.SIGINT, interrupted)
    code = 128 + getattr(signal, sign)
    check_untouched(folder, name, code, done, "interrupted; nothing was written")
    assert signal.getsignal(signal.SIGTERM) == before


def test_too_little_memory(job, monkeypatch):
    words, folder, name = job

    def none_left(page):
        raise MemoryError

    monkeypatch.setattr(Page, "html", none_left)
    check_untouched(folder, name, 2, command(*words, cwd=folder), "memory")


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left")])
def test_a_standard_output_that_is_closed_or_full_costs_no_result(job, monkeypatch, error):
    words, folder, name = job

    class Closed(io.StringIO):
        def flush(self):
            raise error

    write = Console.out

    def out(console, text):
        before = sys.stdout
        sys.stdout = Closed()
        write(console, text)
        sys.stdout = before

    monkeypatch.setattr(Console, "out", out)
    done = command(*words, cwd=folder)
    assert done.code == (0 if isinstance(error, BrokenPipeError) else 4), done
    assert (folder / f"t.{name}.csv").read_text() != EARLIER
    if done.code:
        assert (
            "standard output cannot be written (No space left); all files were written" in done.err
        )


def test_what_a_killed_process_left_is_removed_by_the_next(job):
    words, folder, name = job
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    stale = folder / f".t.{name}.csv.abc.{int(dead.stdout)}.part"
    stale.write_text("half")
    living = folder / f".t.{name}.csv.abc.{os.getpid()}.part"
    living.write_text("half")
    assert command(*words, cwd=folder).code == 0
    assert not stale.exists() and living.exists()


def test_a_real_full_device_and_a_real_closed_pipe(saved, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    (tmp_path / "t.csv").write_bytes(saved[0])
    words = [sys.executable, "-m", "regfactor", "embed", "t.csv", "--force"]
    with open("/dev/full", "w") as device:
        run = subprocess.run(words, cwd=tmp_path, stdout=device, stderr=subprocess.PIPE, text=True)
    done = Done(run.returncode, "", run.stderr)
    assert done.code == 4 and "Traceback" not in done.err, done
    assert "standard output cannot be written" in done.err
    assert (tmp_path / "t.embed.csv").exists()
    read_end, write_end = os.pipe()
    os.close(read_end)
    run = subprocess.run(words, cwd=tmp_path, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert run.returncode == 0 and "Traceback" not in run.stderr + "Exception", run.stderr


def test_a_pipe_gets_the_table(saved, tmp_path):
    (tmp_path / "t.csv").write_bytes(saved[0])
    words = [sys.executable, "-m", "regfactor", "embed", "-"]
    run = subprocess.run(words, cwd=tmp_path, input=saved[0], capture_output=True)
    table = pd.read_csv(io.BytesIO(run.stdout))
    assert run.returncode == 0 and len(table) == 30 and "code_1" in table, run
    assert b"Read standard input" in run.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def packed(content, **entries):
    out = io.BytesIO(content)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return out.getvalue()


DAMAGE = {
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "foreign": lambda content: b"PK\3\4 and then nothing",
    "text": lambda content: b"a,b\n1,2\n",
    "bomb": lambda content: packed(content, bomb=bytes(2**28)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_model_files_that_are_none_are_refused_from_python_too(saved, tmp_path, name):
    path = tmp_path / "m.skops"
    path.write_bytes(DAMAGE[name](saved[1]))
    with pytest.raises((DamagedModel, UntrustedModel), match="m.skops") as refusal:
        regfactor.load(path)
    assert "\n" not in str(refusal.value)
    if name == "bomb":
        assert "unpack to" in str(refusal.value)


def test_control_signs_in_names_do_not_reach_the_terminal(tmp_path):
    rows = "".join(f"{i}.5,{(7 * i) % 11}.25\n" for i in range(12))
    (tmp_path / "t.csv").write_text(f"a\x1b[31m,b\u202e\n{rows}")
    done = command("embed", "t.csv", cwd=tmp_path)
    assert done.code == 0 and "\x1b" not in done.out + done.err and "\u202e" not in done.out
    assert "a\\x1b[31m" in done.out
    done = command("embed", "t.csv", "--force", "--ignore", "a\x1b", cwd=tmp_path)
    assert done.code == 2 and "\x1b" not in done.err
    assert visible("plain\nlines") == "plain\nlines"


def test_cells_that_spreadsheets_would_run_are_told(tmp_path):
    words = ["=1+2", "@sum", "-x", "-3.5", "fine"]
    rows = "".join(f"{i}.5,{(7 * i) % 11}.25,{words[i % 5]}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"a,b,c\n{rows}")
    done = command("embed", "t.csv", cwd=tmp_path)
    assert done.code == 0 and "12 cells of text begin with =, +, - or @" in done.err, done
