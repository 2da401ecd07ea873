"""Bad input: one clear sentence, exit code 2, no traceback, and nothing written."""

import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from console import command, labeled, people, process, refused, table  # noqa: F401

import regfactor
from regfactor.cli.console import Console
from regfactor.cli.errors import BadInput, NotWritten
from regfactor.cli.job import Job, Settings
from regfactor.cli.options import READING, WRITING
from regfactor.cli.outputs import Outputs

ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False


def rows(text, n=12):
    """A small table of which some cells are replaced."""
    lines = ["a,b,c,y"] + [
        f"{i + 0.5},{(7 * i) % 11}.25,{'uvw'[i % 3]},{'pq'[i % 2] if i < 8 else ''}"
        for i in range(n)
    ]
    for old, new in text.items():
        lines[old] = new
    return "\n".join(lines) + "\n"


BAD = {  # what is in t.csv (None: nothing is there), the command, words of the sentence
    "missing file": (None, ["complete", "t.csv"], ["There is no file"]),
    "empty file": (b"", ["complete", "t.csv"], ["t.csv is empty"]),
    "header alone": ("a,b\n", ["complete", "t.csv"], ["no rows"]),
    "wrong target": (
        rows({}),
        ["label", "t.csv", "--target", "Y"],
        ["no target column 'Y'; did you mean 'y'?"],
    ),
    "near target": (
        rows({0: "a,b,c,outcome"}),
        ["label", "t.csv", "--target", "outcom"],
        ["did you mean 'outcome'?"],
    ),
    "no label": (
        "a,y\n1.5,\n2,\n3,\n",
        ["label", "t.csv", "--target", "y"],
        ["no label in any of 3 rows"],
    ),
    "nothing missing": (
        rows({}, 8),
        ["label", "t.csv", "--target", "y"],
        ["Nothing is missing", "--unlabeled"],
    ),
    "one class": (
        "a,y\n1.5,p\n2,p\n3,\n4,\n",
        ["label", "t.csv", "--target", "y"],
        ["one class only, 'p'"],
    ),
    "one value": (
        "a,y\n1.5,3.5\n2,3.5\n3,\n",
        ["label", "t.csv", "--target", "y"],
        ["is 3.5 in every labeled row"],
    ),
    "words for numbers": (
        rows({}),
        ["label", "t.csv", "--target", "y", "--task", "regression"],
        ["needs numbers", "'y' holds 'p' in row 1", "--task classification"],
    ),
    "unknown task": (
        rows({}),
        ["label", "t.csv", "--target", "y", "--task", "guess"],
        ["--task is"],
    ),
    "only the target": (
        "y\np\nq\n?\n",
        ["label", "t.csv", "--target", "y"],
        ["0 columns that can be used"],
    ),
    "no number for a divergence": (
        rows({}),
        "cluster t.csv --divergence kl --ignore a --ignore b".split(),
        ["(a, b: as you said; c, y: no number, which kl needs)"],
    ),
    "no usable column": (
        "a,b\n,\n,\n",
        ["complete", "t.csv"],
        [
            "0 columns that can be used",
            "(a, b: no value in any row)",
            "--use COLUMN takes in one that was left out.",
        ],
    ),
    "text among numbers": (
        rows({i: f"tall{i},1.25,u,p" for i in range(1, 5)}),
        ["complete", "t.csv"],
        ["Column 'a'", "'tall1' in row 1, 'tall2' in row 2"],
    ),
    "text in a series": (
        "x\n" + "\n".join("pqr" * 5) + "\n",
        ["forecast", "t.csv"],
        ["nothing to forecast"],
    ),
    "text in a view": (
        rows({}),
        ["denoise", "t.csv", "--views", "0:2,2:4"],
        ["numbers only", "'c' (category)"],
    ),
    "duplicate columns": (
        rows({0: "a,b,a,y"}),
        ["complete", "t.csv"],
        ["2 columns called 'a' (columns 1, 3)"],
    ),
    "not UTF-8": (
        rows({3: "1,2,é,p"}).encode("latin-1"),
        ["complete", "t.csv", "--encoding", "utf-8"],
        ["is not utf-8", "line 4", "--encoding"],
    ),
    "no encoding": (
        rows({}),
        ["complete", "t.csv", "--encoding", "utf-9"],
        ["no encoding 'utf-9'"],
    ),
    "ragged": (rows({4: "1,2,u,p,5,6"}), ["complete", "t.csv"], ["Row 4", "6 cells"]),
    "infinite": (rows({4: "inf,2,u,p"}), ["complete", "t.csv"], ["'a' holds inf in row 4"]),
    "no folder": (
        rows({}),
        ["complete", "t.csv", "--out", "nowhere/at/all"],
        ["no folder nowhere/at/all"],
    ),
    "no folder of a model": (
        rows({}),
        ["embed", "t.csv", "--save", "nowhere/m.skops"],
        ["no folder nowhere", "give --save another name"],
    ),
    "a file for a folder": (
        rows({}),
        ["complete", "t.csv", "--out", "t.csv"],
        ["t.csv is a file", "name another folder by --out"],
    ),
    "a folder for a model": (
        rows({}),
        ["embed", "t.csv", "--save", "."],
        [". is a folder", "give --save"],
    ),
    "no format": (
        rows({}),
        ["complete", "t.csv", "--format", "xls"],
        ["--format is csv or parquet"],
    ),
    "short series": ("x\n1\n2.5\n", ["forecast", "t.csv"], ["2 rows", "at least 3"]),
    "twice the same time": (
        "t,x\n" + "2020-01-01,1.5\n" * 2 + "2020-01-02,2\n" * 9,
        ["forecast", "t.csv"],
        ["more than once"],
    ),
    "no level": (
        "x\n" + "\n".join(map(str, np.sin(range(20)))),
        ["forecast", "t.csv", "--level", "2"],
        ["--level"],
    ),
    "no model": (rows({}), ["score", "m.skops", "t.csv"], ["no model m.skops"]),
    "no such column": (rows({}), ["complete", "t.csv", "--ignore", "d"], ["no column 'd'"]),
}


def bad(tmp_path, name, run):
    content, words, said = BAD[name]
    if content is not None:
        (tmp_path / "t.csv").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    before = sorted(tmp_path.iterdir())
    refused(run(*words, cwd=tmp_path), *said)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(tmp_path, name):
    bad(tmp_path, name, command)


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_to_a_user(tmp_path, name):
    bad(tmp_path, name, process)


def test_bad_input_is_told_to_machines(tmp_path):
    done = command("complete", tmp_path / "t.csv", "--json")
    assert done.code == 2 and done.record == {
        "error": done.err.strip().removeprefix("regfactor: "),
        "exit": 2,
    }


def test_an_empty_column_is_left_out_and_said(tmp_path):
    (tmp_path / "t.csv").write_text(
        rows({0: "a,b,c,y"}).replace("\n", ",\n").replace("y,\n", "y,empty\n")
    )
    done = command("complete", tmp_path / "t.csv")
    assert done.code == 0 and "empty (no value in any row)" in done.out, done


def test_a_whole_table_stays_as_it_is(tmp_path):
    text = rows({}, 8)
    (tmp_path / "t.csv").write_text(text)
    done = command("complete", tmp_path / "t.csv")
    assert done.code == 0 and "Nothing was missing" in done.out
    assert (tmp_path / "t.complete.csv").read_text() == text.replace("\n", ",\n").replace(
        "y,", "y,flagged"
    )


def test_a_folder_that_takes_nothing(tmp_path):
    (tmp_path / "t.csv").write_text(rows({}))
    if not ROOT:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
    elif Path("/proc/self").is_dir():
        folder = Path("/proc/self")  # to which not even root can write
    else:
        pytest.skip("the superuser can write everywhere here")
    refused(
        command("complete", tmp_path / "t.csv", "--out", folder),
        "Nothing can be written to",
        "--out",
    )


@pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to])
def test_an_input_is_never_overwritten(tmp_path, link):
    given, saved, out = tmp_path / "t.csv", tmp_path / "t.csv", tmp_path / "o"
    given.write_text(rows({}))
    out.mkdir()
    if link is not None:
        saved = tmp_path / "m.skops"
        link(saved, given)
    label = "label", given, "--target", "y", "--out", out, "--force"
    refused(command(*label, "--save", saved), f"{saved} is an input", "give --save another name")
    assert given.read_text() == rows({}) and not list(out.iterdir())


def test_neither_a_model_nor_a_table_is_overwritten_by_scores(tmp_path):
    given, model = tmp_path / "t.csv", tmp_path / "t.score.csv"
    given.write_text(rows({}))
    assert command("embed", given, "--save", model).code == 0
    before = model.read_bytes()
    refused(command("score", model, given, "--force"), "t.score.csv is an input", "--out")
    assert model.read_bytes() == before and not (tmp_path / "t.score.html").exists()
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "t.score.csv").symlink_to(given)
    refused(
        command("score", model, given, "--force", "--out", tmp_path / "o"),
        "t.score.csv is an input",
        "--out",
    )
    assert given.read_text() == rows({})


def test_a_result_and_a_model_need_different_names(tmp_path):
    (tmp_path / "t.csv").write_text(rows({}))
    save = "--save", tmp_path / "t.embed.csv"  # the same file, spelled in another way
    refused(command("embed", "t.csv", *save, cwd=tmp_path), "would be written twice", "--save")


def test_a_model_that_is_none_is_refused_and_runs_nothing(tmp_path):
    (tmp_path / "t.csv").write_text(rows({}))

    class Payload:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (tmp_path / "m.skops").write_bytes(pickle.dumps(Payload()))
    refused(command("score", tmp_path / "m.skops", tmp_path / "t.csv"), "was not opened")
    regfactor.save(regfactor.ConvexSubspace(), tmp_path / "m.skops")
    refused(command("score", tmp_path / "m.skops", tmp_path / "t.csv"), "no command has saved")
    names = {}
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        names = {name: archive.read(name) for name in archive.namelist()}
    schema = (
        names["schema.json"]
        .decode()
        .replace('"ConvexSubspace"', '"system"')
        .replace('"regfactor.tables.subspace"', '"os"')
    )
    assert schema != names["schema.json"].decode()
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        for name, content in (names | {"schema.json": schema.encode()}).items():
            archive.writestr(name, content)
    refused(
        command("score", tmp_path / "m.skops", tmp_path / "t.csv"), "was not opened", "os.system"
    )
    assert not (tmp_path / "executed").exists() and not (tmp_path / "t.score.csv").exists()


@pytest.mark.parametrize("words", [["cluster"], ["label", "--target", "y"]], ids=lambda w: w[0])
def test_text_without_a_word_that_two_rows_share_is_refused(tmp_path, words):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)).round(3), columns=["x", "y"])
    frame["id"] = [f"row{i}" for i in range(60)]
    frame.loc[50:, "y"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = command(words[0], "t.csv", *words[1:], "--text", "id", cwd=tmp_path)
    refused(done, "No word of column 'id'", "leave out --text 'id'")


def test_a_command_that_only_prints_plans_no_files(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    (tmp_path / "t.show.csv").write_text("of the user")
    job = Job("show", Settings(), Console(False), Outputs())
    small = job.read(tmp_path / "t.csv")
    assert len(small.raw) == 2 and not job.files and not job.outputs.planned
    with pytest.raises(BadInput, match="exists already"):
        job.plan(small)


def test_options_of_reading_are_apart_from_those_of_writing():
    assert not set(READING) & set(WRITING) and {"decimal", "missing", "sheet"} < set(READING)
    assert set(WRITING) == {"out", "force", "format"}


def test_files_appear_together_or_not_at_all(tmp_path):
    outputs = Outputs()
    first, second = outputs.plan(tmp_path / "a"), outputs.plan(tmp_path / "b")
    outputs.write(first, lambda p: p.write_text("1"))
    with pytest.raises(NotWritten, match="disk"):
        outputs.write(second, full)
    outputs.discard()
    assert not list(tmp_path.iterdir())
    outputs.write(first, lambda p: p.write_text("1"))
    outputs.write(second, lambda p: p.write_text("2"))
    assert not first.exists()
    outputs.commit()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def full(path):
    path.write_text("half")
    raise OSError("no space on the disk")


def test_an_interrupt_leaves_nothing_behind(table, monkeypatch):  # noqa: F811
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "regfactor.report.page.Page.html", interrupted
    )  # the table is written under its other name
    done = command("embed", table)
    assert done.code == 130 and done.err.endswith("regfactor: interrupted; nothing was written.\n")
    assert [p.name for p in table.parent.iterdir()] == ["people.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_a_user_stops_a_run(tmp_path, how):
    frame = pd.concat([people(1000, seed=i)[0] for i in range(40)], ignore_index=True).drop(
        columns="id"
    )
    frame.to_csv(tmp_path / "large.csv", index=False)
    words = [sys.executable, "-u", "-m", "regfactor", "complete", "large.csv"]
    run = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while "ignored" not in run.stderr.readline():  # it has begun, and will take some seconds more
        assert run.poll() is None
    time.sleep(1)
    run.send_signal(getattr(signal, how))
    _, err = run.communicate(timeout=120)
    visible = [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")]
    assert visible == ["large.csv"]
    if how == "SIGINT":
        assert (
            run.returncode == 130
            and "interrupted; nothing was written" in err
            and "Traceback" not in err
        )
        assert [p.name for p in tmp_path.iterdir()] == ["large.csv"]
    else:
        assert run.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["complete"], ["label", "--target", "y"], ["cluster"], ["embed"]]
)
def test_a_hundred_thousand_rows(tmp_path, words):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100_000, 2))
    X = Z @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(100_000, 6))
    X[rng.random(X.shape) < 0.05] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdef")).round(4)
    frame["y"] = np.where(rng.random(len(frame)) < 0.01, np.where(Z[:, 0] > 0, "p", "q"), "")
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = process(words[0], "t.csv", *words[1:], cwd=tmp_path)
    assert done.code == 0, done.err
    assert len(pd.read_csv(tmp_path / f"t.{words[0]}.csv")) == 100_000
    if words[0] == "label":
        after = pd.read_csv(tmp_path / "t.label.csv")["y"]
        assert np.mean(after == np.where(Z[:, 0] > 0, "p", "q")) > 0.9
