"""Every command, as a user runs it: real files in, real files out."""

import html
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from console import cells, command, labeled, people, process, refused, table  # noqa: F401
from sklearn.base import BaseEstimator, ClassifierMixin

import regfactor
from regfactor.cli.missing_cells import MARKERS
from regfactor.core.params import install_hint
from regfactor.model_selection.candidates import Candidate, Candidates, LabeledTask, contest


def code_of(report):
    """The Python code of a report, as a reader would copy it."""
    import html

    blocks = re.findall(
        r"<pre><code>(.*?)</code></pre>", report.read_text(encoding="utf-8"), re.DOTALL
    )
    return html.unescape(blocks[-1])


def test_help_and_version():
    done = command("--help")
    assert done.code == 0
    for name in (
        "label",
        "complete",
        "cluster",
        "embed",
        "denoise",
        "forecast",
        "score",
        "atlas",
        "reproduce",
    ):
        assert name in done.out and command(name, "--help").code == 0
    assert command("--version").out == f"regfactor {regfactor.__version__}\n"


def test_help_waits_for_no_library_beneath():
    script = "import sys, regfactor.cli.app; print([m for m in ('sklearn', 'pandas', 'scipy.stats') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True
        ).stdout.strip()
        == "[]"
    )


def test_a_user_completes_a_table(table):  # noqa: F811
    done = process("complete", table.name, cwd=table.parent)
    assert done.code == 0 and "note:" not in done.err, done
    assert "ignored" in done.err and "notes (free text)" in done.err
    # a pipe gets the table, and the terminal what is said of it
    assert done.out == table.with_name("people.complete.csv").read_text(encoding="utf-8")
    before, after = cells(table), cells(table.with_name("people.complete.csv"))
    given = ~before.apply(lambda c: c.str.lower().isin(MARKERS | {""}))
    assert (after[before.columns].to_numpy() == before.to_numpy())[given].all()  # to the letter
    used = [c for c in before.columns if c != "empty"]
    assert (after[used] != "").all(axis=None) and (after["empty"] == "").all()
    assert after["flagged"][7] == "waist" and (after["flagged"] != "").sum() == 1
    truth = people()[0]
    missing = ~given["age"]
    assert (
        missing.any() and not after["age"][missing].str.contains(".", regex=False).any()
    )  # whole numbers stay whole
    assert set(after["size"]) == set(truth["size"].dropna())
    report = table.with_name("people.complete.html").read_text(encoding="utf-8")
    assert "regfactor complete people.csv" in report and "Which models carried the result" in report
    assert sorted(p.name for p in table.parent.iterdir()) == [
        "people.complete.csv",
        "people.complete.html",
        "people.csv",
    ]


def test_marks_and_earlier_flags_are_not_spread_over_all_rows(table):  # noqa: F811
    marks = np.where(np.arange(60) % 9 == 0, "x", "")
    flags = np.where(
        np.arange(60) == 3, "waist; age", np.where(np.arange(60) % 20 == 5, "height", "")
    )
    people()[0].assign(vip=marks, flagged=flags).to_csv(table, index=False)
    done = command("complete", table)
    assert done.code == 0 and "vip (one value only, so that blanks may mean no)" in done.out, done
    assert "flagged (outliers of an earlier run)" in done.out, done
    after = cells(table.with_name("people.complete.csv"))
    assert (after["vip"] == marks).all() and (after["flagged"] == flags).all()
    assert command("complete", table, "--force", "--use", "vip").code == 0
    assert (cells(table.with_name("people.complete.csv"))["vip"] == "x").all()


def test_completing_is_better_than_means(table):  # noqa: F811
    done = command("complete", table, "--json")
    assert done.code == 0
    record = done.record
    assert record["filled"] == sum(
        c["missing"] for c in record["columns"].values() if c["ignored"] is None
    )
    assert record["flagged_cells"] == [[7, "waist"]] and record["exit"] == 0
    assert np.mean([line["gain"] for line in record["hidden"]["columns"].values()]) > 0.3
    assert record["model"] == "AutoImputer" and len(record["members"]) == 6


def test_the_code_in_the_report_repeats_the_result(table):  # noqa: F811
    assert command("complete", table).code == 0
    scope = {}
    exec(code_of(table.with_name("people.complete.html")), scope)
    after = cells(table.with_name("people.complete.csv"))
    missing = scope["frame"]["weight"].isna().to_numpy()
    np.testing.assert_allclose(
        scope["completed"]["weight"][missing], after["weight"][missing].astype(float), rtol=1e-5
    )
    assert scope["completed"]["waist"][7] == 840  # flagged, and kept
    for name in (
        "height",
        "weight",
        "age",
        "waist",
        "smokes",
    ):  # missing entries of whole numbers are whole
        np.testing.assert_allclose(
            scope["completed"][name].astype(float), after[name].astype(float), rtol=1e-5
        )
    assert (scope["completed"]["size"].astype(str) == after["size"]).all()
    assert list(scope["completed"]) == list(after)[:-1]


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("complete", ()),
        ("label", ("--target", "cost", "--ignore", "risk")),
        ("cluster", ("--ignore", "risk", "--ignore", "cost")),
        ("embed", ("--ignore", "risk", "--ignore", "cost")),
        ("denoise", ("--views", "1:3,3:5")),
        ("forecast", ("--time", "visit", "--horizon", 3)),
    ],
)
def test_decimal_commas_and_separators_are_written_as_they_were_read(labeled, job, options):  # noqa: F811
    plain = cells(labeled)
    comma = labeled.with_name("komma.csv")
    numbers = ["height", "weight", "age", "waist", "cost"]
    written = plain.assign(**{n: plain[n].str.replace(".", ",", regex=False) for n in numbers})
    written.to_csv(comma, sep=";", index=False)
    for path in (labeled, comma):
        done = command(job, path, *options, "--save", path.with_suffix(".skops"))
        assert done.code == 0, done
        if job != "forecast":  # whose new rows must follow
            assert command("score", path.with_suffix(".skops"), path).code == 0
    for job_ in (job, "score") if job != "forecast" else (job,):
        expected = pd.read_csv(labeled.with_name(f"people.{job_}.csv"))
        found = pd.read_csv(comma.with_name(f"komma.{job_}.csv"), sep=";", decimal=",")
        pd.testing.assert_frame_equal(found, expected)


def test_nothing_is_overwritten_without_force(table, tmp_path):  # noqa: F811
    assert command("embed", table).code == 0
    written = table.with_name("people.embed.csv").read_bytes()
    refused(command("embed", table), "people.embed.csv exists already", "--force")
    assert command("embed", table, "--force").code == 0
    assert table.with_name("people.embed.csv").read_bytes() == written  # and the result is the same
    (tmp_path / "else").mkdir()
    assert command("embed", table, "--out", tmp_path / "else").code == 0
    assert sorted(p.name for p in (tmp_path / "else").iterdir()) == [
        "people.embed.csv",
        "people.embed.html",
    ]


def test_a_folder_for_results_is_made_where_something_is_written(table):  # noqa: F811
    folder = table.with_name("results")
    refused(command("embed", table, "--out", folder, "--use", "notes"), "notes")
    assert not folder.exists()
    assert command("embed", table, "--out", folder).code == 0
    assert sorted(p.name for p in folder.iterdir()) == ["people.embed.csv", "people.embed.html"]


def test_parquet_in_parquet_out_with_types(tmp_path):
    frame, _ = people()
    frame = frame.drop(columns=["empty", "notes"]).assign(
        smokes=frame["smokes"].astype("boolean"),
        size=frame["size"].astype("category"),
        age=frame["age"].astype("Int64"),
        height=frame["height"].astype(float),
        weight=frame["weight"].astype(float),
        waist=frame["waist"].astype(float),
        id=frame["id"].astype(int),
        visit=pd.to_datetime(frame["visit"]),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    done = command("complete", tmp_path / "t.parquet")
    assert done.code == 0, done
    after = pd.read_parquet(tmp_path / "t.complete.parquet")
    assert (after[frame.columns].dtypes == frame.dtypes).all()
    assert not after[frame.columns].isna().any(axis=None)
    again = command("complete", tmp_path / "t.parquet", "--format", "csv")
    assert (
        again.code == 2 and not (tmp_path / "t.complete.csv").exists()
    )  # its report is there already


def test_limits_and_sets_are_written_at_a_level(table):  # noqa: F811
    done = command("complete", table, "--level", 0.8)
    assert done.code == 0, done
    before, after = cells(table), cells(table.with_name("people.complete.csv"))
    missing = before["weight"].str.lower().isin(MARKERS | {""})
    low, high = after["weight_lower"], after["weight_upper"]
    assert (low[~missing] == "").all() and (high[~missing] == "").all()
    filled = after["weight"][missing].astype(float)
    assert (low[missing].astype(float) <= filled).all() and (
        filled <= high[missing].astype(float)
    ).all()
    sizes = before["size"].str.lower().isin(MARKERS | {""})
    for cell, chosen in zip(after["size"][sizes], after["size_set"][sizes], strict=True):
        assert cell in chosen.split("; ")
    assert after["size_probability"][sizes].astype(float).between(0, 1).all()
    assert "80% limits" in table.with_name("people.complete.html").read_text(encoding="utf-8")
    done = command("complete", table, "--force", "--level", 90)
    assert done.code == 2 and "--level is a share" in done.err


def test_new_rows_are_filled_by_a_saved_model(table):  # noqa: F811
    model = table.with_name("m.skops")
    assert command("complete", table, "--save", model, "--level", 0.9).code == 0
    frame = people()[0].iloc[:3].astype(object)
    frame.loc[0, "weight"] = np.nan
    frame.loc[:, "age"] = np.nan
    frame.loc[1, "size"] = "XXL"  # which the model never saw
    frame.to_csv(table.with_name("new.csv"), index=False)
    done = command("score", model, table.with_name("new.csv"))
    assert done.code == 0 and "XXL" in done.err, done
    after = cells(table.with_name("new.score.csv"))
    assert (
        55 < float(after["weight"][0]) < 95
        and float(after["weight_lower"][0]) < float(after["weight"][0])
        and after["age"].str.fullmatch(r"\d\d").all()
        and after["size"][1] == "XXL"
    )


def test_whole_numbers_can_be_classes_in_parquet_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = pd.array(np.where(X[:, 0] > 0, -1, 3), dtype="Int64")
    y[rng.random(40) < 0.5] = pd.NA
    pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": y}).to_parquet(tmp_path / "t.parquet")
    done = command(
        "label", tmp_path / "t.parquet", "--target", "y", "--save", tmp_path / "m.skops", "--json"
    )
    assert (
        done.code == 0
        and done.record["task"] == "classification"
        and done.record["classes"] == ["-1", "3"]
    ), done
    after = pd.read_parquet(tmp_path / "t.label.parquet")["y"]
    assert set(after) == {-1, 3} and np.mean(after == np.where(X[:, 0] > 0, -1, 3)) > 0.9
    assert command("score", tmp_path / "m.skops", tmp_path / "t.parquet").code == 0
    assert (pd.read_parquet(tmp_path / "t.score.parquet")["y"] == after).all()


def test_progress_reports_objective_gap_and_remaining_time(monkeypatch):
    from regfactor.cli import console
    from regfactor.core.factors import FactorPoint, Factors
    from regfactor.core.loop import Iterate

    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    point = FactorPoint(Factors(np.ones((2, 1)), np.ones((1, 2))))

    def shown(*steps, tol=1e-4):
        clock[0] = 100.0
        said = []
        callback = console.ProgressCallback("fitting", said.append, tol)
        for seconds, it in steps:
            clock[0] += seconds
            callback(Iterate(point, **it))
        return said

    def gap(size):
        return {"objective": 10.0, "bound": 10.0 - size}

    assert shown((0, gap(1.0))) == ["fitting: step 1, objective 10, relative gap 1.0e-01"]
    # .1 to .01 in 3 s: a third of the way to 1e-4 on a log scale, so that 6 s remain
    assert shown((0, gap(1.0)), (3, gap(0.1)))[-1].endswith("gap 1.0e-02, about 6 s left")
    # another fit begins after 50 s: its first gap counts from then on
    said = shown(
        (0, gap(0.1)),
        (50, {"objective": 5.0, "bound": 0.0}),
        (30, {"objective": 5.0, "bound": 4.95}),
    )
    assert "left" not in said[1]
    assert said[2].endswith("about 30 s left")
    # members of a pool, and parts of a loop
    members = [(5, {"objective": 1.0, "info": {"share": share}}) for share in (0.25, 0.5, 1.0)]
    said = shown(*members)
    assert [line.partition("about ")[2] for line in said] == ["20 s left", "10 s left", ""]
    said = []
    callback = console.ProgressCallback("trying", said.append)
    clock[0] += 400
    callback.part(1, 5)
    assert said == ["trying: 1 of 5, about 27 min left"]


def test_work_over_two_seconds_has_a_remaining_time(tmp_path, monkeypatch):
    from regfactor.cli import console

    said = []
    monkeypatch.setattr(console, "SHORT_WORK", 0.0)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_UPDATES", 0.0)
    monkeypatch.setattr(console, "_silent", said.append)
    X = np.random.default_rng(0).normal(size=(60, 4)).cumsum(axis=0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(0, "day", pd.date_range("2024-01-01", periods=60).astype(str))
    frame.to_csv(tmp_path / "t.csv", index=False)
    for args in (
        ["forecast", "--horizon", "3"],
        ["cluster"],
        ["cluster", "--divergence", "squared", "--force"],
        ["embed"],
    ):
        said.clear()
        done = command(args[0], tmp_path / "t.csv", *args[1:])
        assert done.code in (0, 3), done
        assert any("left" in line for line in said), (args, said)


def test_classes_are_filled_with_probabilities(labeled):  # noqa: F811
    model = labeled.with_name("m.skops")
    done = command("label", labeled, "--target", "risk", "--ignore", "cost", "--save", model)
    assert done.code == 0, done
    starts = {
        re.match(r"  [\w(/)]+( [\w(/)]+)? +", line).end()
        for line in done.out.splitlines()
        if line[:2] == "  "
    }
    assert (
        len(starts) == 1 and "  target " in done.out
    )  # all that is said of columns stands in one column
    assert re.search(
        r"The unlabeled rows (helped|hurt|made)|Whether the unlabeled rows help", done.out
    )
    before, after = cells(labeled), cells(labeled.with_name("people.label.csv"))
    given = (before["risk"] != "").to_numpy()
    assert (after["risk"][given] == before["risk"][given]).all() and set(after["risk"]) == {
        "high",
        "low",
    }
    assert (after["risk_given"] == np.where(given, "True", "False")).all()
    assert (after["risk_probability"][given] == "").all()
    assert after["risk_probability"][~given].astype(float).between(0.5, 1).all()
    truth = np.where(people(80)[1][:, 1] > 0, "high", "low")
    assert np.mean(after["risk"][~given] == truth[~given]) > 0.8
    scored = command("score", model, labeled, "--json")
    assert scored.code == 0 and scored.record["fitted_by"] == "label"
    again = cells(labeled.with_name("people.score.csv"))
    for name in ("risk", "risk_probability", "risk_set"):
        assert (again[name] == after[name]).all()
    assert (after["risk_set"][given] == "").all()
    sets = [cell.split("|") for cell in after["risk_set"][~given]]
    assert all(label in names for label, names in zip(after["risk"][~given], sets, strict=True))
    assert np.mean([label in names for label, names in zip(truth[~given], sets, strict=True)]) > 0.8
    assert "set of classes that holds its own" in page_text(labeled)
    assert "Which models carried the result" in page_text(labeled)
    assert "an average of label models" in done.out and "carries most" in done.out
    scope = {}
    exec(code_of(labeled.with_name("people.label.html")), scope)
    assert (np.asarray(scope["filled"])[~given] == after["risk"][~given]).all()


def page_text(path):
    page = path.with_name(f"{path.stem}.label.html").read_text(encoding="utf-8")
    return " ".join(page.split())


@pytest.mark.parametrize("target", ["risk", "cost"])
def test_sets_and_intervals_of_too_few_labels_are_not_given(labeled, target):  # noqa: F811
    frame = cells(labeled)
    for at in np.flatnonzero(frame[target] != "")[8:]:
        frame.loc[at, target] = ""
    frame.to_csv(labeled, index=False)
    other = {"risk": "cost", "cost": "risk"}[target]
    done = command("label", labeled, "--target", target, "--ignore", other)
    assert done.code == 0, done
    names = list(cells(labeled.with_name("people.label.csv")).columns)
    assert not {f"{target}_set", f"{target}_lower"} & set(names)
    said = "cannot be given with 8 labels: at level 0.9 at least 9 are needed"
    assert said in page_text(labeled)


def test_numbers_are_filled_with_intervals_that_hold(labeled):  # noqa: F811
    model = labeled.with_name("m.skops")
    done = command(
        "label", labeled, "--target", "cost", "--ignore", "risk", "--json", "--save", model
    )
    assert done.code == 0 and done.record["task"] == "regression", done
    assert done.record["model"] == "SemiSupervisedRegressor"
    assert sum(done.record["members"].values()) == pytest.approx(1)
    before, after = cells(labeled), cells(labeled.with_name("people.label.csv"))
    new = (before["cost"] == "").to_numpy()
    Z = people(80)[1]
    truth = (100 + 20 * Z[:, 1] + 5 * Z[:, 0])[new]
    said, lower, upper = (
        after[name][new].astype(float) for name in ("cost", "cost_lower", "cost_upper")
    )
    assert (lower < said).all() and (said < upper).all()
    assert np.mean((truth >= lower) & (truth <= upper)) >= 0.75
    assert np.mean(np.abs(said - truth)) < np.mean(np.abs(truth - np.median(truth))) / 2
    assert (after["cost_lower"][~new] == "").all() and (
        after["cost"][~new] == before["cost"][~new]
    ).all()
    assert command("score", model, labeled).code == 0
    again = cells(labeled.with_name("people.score.csv"))
    for name in ("cost", "cost_lower", "cost_upper"):
        found = again[name][new].astype(float)
        np.testing.assert_allclose(found, after[name][new].astype(float), rtol=1e-12)
    scope = {}
    exec(code_of(labeled.with_name("people.label.html")), scope)
    np.testing.assert_allclose(np.asarray(scope["filled"])[new], said, rtol=1e-4)


def test_zeros_and_ones_are_classes(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) % 2, "", (X[:, 0] > 0).astype(int).astype(str))
    pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": y}).to_csv(tmp_path / "t.csv", index=False)
    done = command("label", tmp_path / "t.csv", "--target", "y")
    assert done.code == 0 and "20 labels of 2 classes (0, 1)" in done.out, done
    assert np.mean(cells(tmp_path / "t.label.csv")["y"].astype(int) == (X[:, 0] > 0)) > 0.85


def test_a_class_without_a_label_is_found_as_a_cluster(tmp_path):
    X = np.repeat([0.0, 10.0], 12) + np.random.default_rng(0).normal(size=24)
    y = np.where(np.arange(24) < 4, "near", "")
    pd.DataFrame({"x": X, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    done = command("label", tmp_path / "t.csv", "--target", "y", "--classes", "near,far")
    assert done.code == 0 and "class 'far' has 0 labeled rows" in done.out, done
    assert (cells(tmp_path / "t.label.csv")["y"] == np.repeat(["near", "far"], 12)).all()
    refused(
        command("label", tmp_path / "t.csv", "--target", "y", "--classes", "far,other", "--force"),
        "near",
    )


def test_statements_that_the_labels_speak_against_are_doubted(tmp_path):
    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0], 40)
    frame = pd.DataFrame(
        {
            "x": 3 * side + rng.normal(size=80),
            "flag": side > 0,
            "y": np.where(side > 0, "up", "down"),
        }
    )
    frame.loc[rng.permutation(80)[:20], "y"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    label = "label", tmp_path / "t.csv", "--target", "y"
    wrong = command(*label, "--constraint", "all=up:0.05+-0.01")
    assert wrong.code == 0 and "leave --constraint out" in wrong.err, wrong
    assert (
        re.search(r"with them in (\d+%)", wrong.err)[1]
        == re.search(r"(\d+%) were right", wrong.out)[1]
    ), wrong
    report = (tmp_path / "t.label.html").read_text(encoding="utf-8")
    assert (
        "The one that follows the statements" in report
        and "Which models carried the result" not in report
    )
    right = command(*label, "--force", "--constraint", "all=up:0.5+-0.1")
    assert right.code == 0 and "leave --constraint out" not in right.err, right


def test_a_statement_of_a_label_that_no_row_has_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30), "y": ["good", "bad", ""] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False)
    label = "label", tmp_path / "t.csv", "--target", "y", "--constraint"
    refused(
        command(*label, "all=god:0.5"), "'god', which no row has; did you mean 'good'?", "--classes"
    )
    named = command(*label, "all=god:0.3+-0.1", "--classes", "good,bad,god", "--json")
    assert named.code == 0 and named.record["classes"] == ["bad", "god", "good"], named


def test_statements_take_the_place_of_labels(tmp_path):
    rng = np.random.default_rng(0)
    sport = rng.random(60) < 0.5
    words = {True: ["goal", "match", "team", "win"], False: ["vote", "law", "party", "tax"]}
    texts = [" ".join(rng.choice(words[bool(s)], 5)) + " today" for s in sport]
    pd.DataFrame({"text": texts, "topic": ""}).to_csv(tmp_path / "news.csv", index=False)
    label = "label", tmp_path / "news.csv", "--target", "topic", "--text", "text"
    refused(command(*label), "no label in any of 60 rows", "--constraint")
    done = command(
        *label,
        "--constraint",
        "goal=sport:0.95+-0.05",
        "--constraint",
        "vote=politics:0.95+-0.05",
        "--constraint",
        "all=sport:0.5+-0.1",
    )
    assert done.code == 0, done
    after = cells(tmp_path / "news.label.csv")
    assert np.mean((after["topic"] == "sport") == sport) > 0.9
    assert "rows with 'goal'" in done.out
    assert "What was stated" in (tmp_path / "news.label.html").read_text()
    refused(
        command(*label, "--force", "--constraint", "gaol=sport:0.9", "--classes", "sport,politics"),
        "'goal'",
    )
    for wrong in ("goal", "goal=sport", "goal=sport:many", "goal=sport:1.5", "goal=sport:0.5+-x"):
        refused(command(*label, "--force", "--constraint", wrong), "--constraint")
    refused(command(*label, "--force", "--constraint", "goal=sport:0.9"), "--classes")


def test_clusters(tmp_path):
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0, 0], [9, 9, 0], [0, 9, 9]])[np.arange(45) % 3]
    frame = pd.DataFrame(centers + rng.normal(size=(45, 3)), columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = command("cluster", tmp_path / "t.csv", "--json", "--save", tmp_path / "m.skops")
    assert done.code == 0 and done.record["clusters"] == 3 and done.record["sure"] == 1, done
    assert done.record["member"] in done.record["members"]
    page = (tmp_path / "t.cluster.html").read_text(encoding="utf-8")
    assert done.record["member"] in page and "90 % of the best gain in BIC" in page
    after = pd.read_csv(tmp_path / "t.cluster.csv")
    assert after.groupby(np.arange(45) % 3)["cluster"].nunique().eq(1).all()
    assert after["cluster_probability"].between(0.9, 1).all()
    assert command("score", tmp_path / "m.skops", tmp_path / "t.csv").code == 0
    assert (pd.read_csv(tmp_path / "t.score.csv")["cluster"] == after["cluster"]).all()
    counts = pd.DataFrame(rng.poisson(centers + 1.0), columns=list("abc"))
    counts.to_csv(tmp_path / "n.csv", index=False)
    assert command("cluster", tmp_path / "n.csv", "--clusters", 3, "--divergence", "kl").code == 0
    refused(command("cluster", tmp_path / "t.csv", "--force", "--clusters", 99), "between 1 and 45")
    refused(command("cluster", tmp_path / "t.csv", "--force", "--clusters", "many"), "or auto")
    imposed = ("cluster", tmp_path / "n.csv", "--force", "--json", "--clusters", 3, "--family")
    assert command(*imposed, "poisson").record["members"].keys() == {"counts, Poisson"}
    page = html.unescape((tmp_path / "n.cluster.html").read_text(encoding="utf-8"))
    assert "AutoMixture(3, family='poisson'" in page
    refused(command(*imposed, "gamma"), "positive numbers")
    refused(command(*imposed, "cauchy"), "negative_binomial")
    refused(command(*imposed, "poisson", "--divergence", "kl"), "give one of them")
    again = ("cluster", tmp_path / "t.csv", "--force", "--json", "--divergence", "squared")
    done = command(*again)
    assert done.code == 0 and done.record["clusters"] == 3 and done.record["stability"] == 1, done
    refused(command("cluster", tmp_path / "t.csv", "--force", "--divergence", "kl"), "kl")
    refused(
        command("cluster", tmp_path / "t.csv", "--force", "--divergence", "manhattan"), "manhattan"
    )


def test_clusters_say_where_they_may_be_wrong(tmp_path):
    random = np.random.default_rng(0)
    X = 8 * np.eye(3)[np.arange(92) % 3] + random.normal(size=(92, 3))
    X[90:] = [[30.0, 30.0, 30.0], [4.0, 4.0, 0.0]]  # far from all, and between two
    frame = pd.DataFrame(
        np.column_stack([X, random.normal(size=92)]), columns=["a", "b", "c", "noise"]
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    asked = ("cluster", tmp_path / "t.csv", "--json", "--force", "--clusters")
    for more, small in (([4], 1), ([3, "--divergence", "squared"], 0)):
        done = command(*asked, *more)
        assert done.code == 0, done
        assert done.record["weak_columns"] == ["noise"]
        assert len(done.record["small_clusters"]) == small
        assert 92 in done.record["unsure_rows"]
        page = html.unescape((tmp_path / "t.cluster.html").read_text(encoding="utf-8"))
        assert "Where it may be wrong" in page
        assert "Clusters hardly differ in noise" in page
    said = command("cluster", tmp_path / "t.csv", "--force").out
    assert "Where it may be wrong: " in said


def test_an_embedding_says_where_it_may_be_wrong(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 1)) @ random.normal(size=(1, 8)) + 0.1 * random.normal(
        size=(200, 8)
    )
    X[0, 1:] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(alone=random.normal(size=200))
    frame.loc[0, "alone"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = command("embed", tmp_path / "t.csv", "--dimensions", 1, "--json")
    assert done.code == 0, done
    assert done.record["weak_columns"] == ["alone"]
    assert done.record["sparse_rows"] == [1]
    page = html.unescape((tmp_path / "t.embed.html").read_text(encoding="utf-8"))
    assert "The codes say next to nothing of alone" in page
    assert "Rows with few cells" in page


def test_rows_are_embedded(table):  # noqa: F811
    model = table.with_name("m.skops")
    done = command("embed", table, "--dimensions", 2, "--save", model)
    assert done.code == 0 and "patterns" in done.out and "optimum" not in done.out
    after = pd.read_csv(table.with_name("people.embed.csv"))
    _, Z = people()
    together = np.column_stack([Z, after[["code_1", "code_2"]]])
    assert np.abs(np.corrcoef(together.T)[:2, 2:]).max(axis=1).min() > 0.6
    assert command("score", model, table).code == 0
    again = pd.read_csv(table.with_name("people.score.csv"))
    again, after = (
        codes["code_1"].drop(7) for codes in (again, after)
    )  # row 7 has an outlier, which the fit set aside
    np.testing.assert_allclose(again, after, rtol=1e-4, atol=1e-4)
    assert "global optimum" in command("embed", table, "--force", "--verbose").out


def test_counts_are_embedded_by_their_family(tmp_path):
    random = np.random.default_rng(0)
    rates = np.exp(random.normal(size=(60, 1)) @ random.normal(size=(1, 6)) + 1)
    pd.DataFrame(random.poisson(rates), columns=list("abcdef")).to_csv(
        tmp_path / "counts.csv", index=False
    )
    again = ("embed", tmp_path / "counts.csv", "--force", "--json", "--family")
    by_family = {name: command(*again, name) for name in ("gaussian", "poisson")}
    assert all(done.code == 0 for done in by_family.values())
    assert by_family["poisson"].record["shares"] != by_family["gaussian"].record["shares"]
    refused(command(*again, "normal"), "must be one of auto, gaussian")
    (tmp_path / "words.csv").write_text("a,b,c\n1,2,x\n2,5,y\n3,4,x\n4,9,y\n")
    wrong = command("embed", tmp_path / "words.csv", "--family", "poisson", "--json")
    refused(wrong, "c of words.csv hold categories: leave them out by --ignore")


def test_two_views_are_denoised(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(80, 1)) @ rng.normal(size=(1, 8))
    X = truth + 0.5 * rng.normal(size=truth.shape)
    X[rng.random(X.shape) < 0.05] = np.nan
    np.savez(tmp_path / "t.npz", X=X)
    done = command(
        "denoise", tmp_path / "t.npz", "--views", "0:5,5:8", "--save", tmp_path / "m.skops"
    )
    assert done.code == 0, done
    clean = pd.read_csv(tmp_path / "t.denoise.csv").to_numpy()
    seen = ~np.isnan(X)
    assert (
        np.abs(clean - truth)[seen].mean() < 0.7 * np.abs(X - truth)[seen].mean()
        and not np.isnan(clean).any()
    )
    assert command("score", tmp_path / "m.skops", tmp_path / "t.npz").code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "t.score.csv").to_numpy(), clean, rtol=1e-5)
    assert command("denoise", tmp_path / "t.npz", "--views", "x0:x4,x5:x7", "--force").code == 0
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "t.denoise.csv").to_numpy(), clean)
    counts = rng.poisson(np.exp(0.5 * rng.normal(size=(80, 1)) + np.linspace(0, 2, 4)))
    answers = rng.random((80, 3)) < 0.5 + 0.4 * np.sign(np.log1p(counts[:, :1]) - 1)
    np.savez(tmp_path / "c.npz", X=np.hstack([counts, answers]).astype(float))
    two = ("denoise", tmp_path / "c.npz", "--views", "0:4,4:7", "--force", "--family")
    done = command(*two, "poisson,bernoulli")
    assert done.code == 0, done
    clean = pd.read_csv(tmp_path / "c.denoise.csv").to_numpy()
    assert (clean[:, :4] > 0).all()  # means of counts
    assert ((clean[:, 4:] > 0) & (clean[:, 4:] < 1)).all()  # probabilities
    page = html.unescape((tmp_path / "c.denoise.html").read_text(encoding="utf-8"))
    assert "loss=('poisson', 'logistic')" in page
    refused(command(*two, "cauchy"), "auto,bernoulli")
    refused(command("denoise", tmp_path / "t.npz", "--views", "0:5,5:8", "--family", "poisson"), "")
    for wrong in (
        "0:5",
        "0:5,5:9",
        "0:5,4:8",
        "5:5,0:3",
        "a:b,c:d",
        "x0:x4,x4:x7",
        "x4:x0,x5:x7",
        "x0:x4,x5:x7:x6",
    ):
        refused(command("denoise", tmp_path / "t.npz", "--views", wrong, "--force"), "--views")


@pytest.mark.parametrize(("job", "options"), [("embed", ()), ("denoise", ("--views", "1:3,3:5"))])
def test_a_gross_outlier_is_taken_for_missing(table, job, options):  # noqa: F811
    done = command(job, table, *options)
    assert (
        done.code == 0 and "1 gross outlier among the numbers was treated as missing" in done.err
    ), done
    after = pd.read_csv(table.with_name(f"people.{job}.csv"))
    if job == "denoise":
        assert after["waist"].max() < 120
    else:
        assert np.abs(after["code_1"][7]) < 5 * after["code_1"].std()
    assert "(7, &#x27;waist&#x27;)" in table.with_name(f"people.{job}.html").read_text(
        encoding="utf-8"
    )


def test_atlas_and_experiments(tmp_path, monkeypatch):
    rows = command("atlas", "--json").record["rows"]
    assert "PCA" in command("atlas").out and "PCA" in [row["algorithm"] for row in rows]
    assert set(rows[0]) == {"algorithm", "table", "model", "equals", "compared_by", "note"}
    monkeypatch.setattr("regfactor.cli.reproduce.PACKAGE", tmp_path / "nowhere")
    refused(command("reproduce", "aistats-1"), "checkout")


def test_experiments_run_from_a_checkout(tmp_path):
    package = tmp_path / "experiments"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys, pathlib\npathlib.Path('args').write_text(' '.join(sys.argv[1:]))\n"
        "sys.exit({'x-2': 2, 'x-1': 1}.get(sys.argv[-3], 0) if sys.argv[1] == 'run' else 0)"
    )
    assert command("reproduce", "x-0", "--quick", "--splits", 3, cwd=tmp_path).code == 0
    assert (tmp_path / "args").read_text() == "run x-0 --jobs 1 --quick --splits 3"
    assert command("reproduce", "x-1", cwd=tmp_path).code == 3
    refused(command("reproduce", "x-2", cwd=tmp_path), "x-2")
    assert command("reproduce", "list", cwd=tmp_path).code == 0


def test_without_the_extra_there_is_one_sentence(monkeypatch, capsys):
    import importlib.util

    from regfactor.cli import main

    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("typer", "skops") else object()
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == f"regfactor: the command line needs typer, skops: {install_hint('cli')}.\n"
    )


def test_a_run_that_stops_early_says_so_and_writes(table, monkeypatch):  # noqa: F811
    from regfactor.cli import embed

    hasty = lambda **kw: embed_model(max_iter=1, tol=1e-12, **{**kw, "alpha": 1.0})  # noqa: E731
    embed_model = embed.ConvexSubspace
    monkeypatch.setattr(embed, "ConvexSubspace", hasty)
    done = command("embed", table)
    assert done.code == 3 and "did not converge" in done.err, done
    assert "Not quite" in table.with_name("people.embed.html").read_text(encoding="utf-8")


def test_one_class_for_all_rows_is_told_and_so_is_the_model_of_the_verdict(tmp_path):
    x = np.r_[np.linspace(0, 1, 40), 9.0]
    kind = np.full(41, "", object)
    kind[:3], kind[-1] = "near", "far"
    pd.DataFrame({"x": x, "y": x[::-1] % 1, "kind": kind}).to_csv(tmp_path / "all.csv", index=False)
    done = command("label", tmp_path / "all.csv", "--target", "kind")
    assert done.code == 0 and "All 37 rows were labeled 'near'" in " ".join(
        (done.out + done.err).split()
    ), done
    kind[:20:2], kind[1:20:2] = "near", "far"
    pd.DataFrame({"x": x, "kind": kind}).to_csv(tmp_path / "both.csv", index=False)
    done = command("label", tmp_path / "both.csv", "--target", "kind", "--json")
    assert done.code == 0 and "This was tried with" in done.record["verdict"]


def test_the_verdict_speaks_of_the_best_model_that_sees_unlabeled_rows():
    class Fixed(ClassifierMixin, BaseEstimator):
        """Right in a share of folds, with unlabeled rows or without."""

        def __init__(self, seen=1.0, alone=1.0):
            self.seen, self.alone = seen, alone

        def fit(self, X, y):
            alone = all(v is not None for v in y)
            self.classes_, self.right_ = np.array(["a", "b"]), self.alone if alone else self.seen
            return self

        def predict(self, X):
            return np.where((X[:, 0] > 0) == (self.right_ > 0.5), "b", "a")

    x = np.r_[-np.ones(10), np.ones(10), np.zeros(5)]
    y = np.array([*["a"] * 10, *["b"] * 10, *[None] * 5], object)
    task = LabeledTask(y, ["a", "b"])
    semi = [
        Candidate("good", Fixed(1.0, 0.0), True, ""),
        Candidate("poor", Fixed(0.0, 1.0), True, ""),
    ]
    rest = Candidate("rest", Fixed(1.0, 0.0), False, "")
    found = contest(Candidates(semi, rest), x[:, None], task, random_state=0)
    assert found.winner.name == "poor (labels only)" and found.compared == "good"
