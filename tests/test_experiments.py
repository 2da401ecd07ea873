"""Experiments are found by their files, go on after a kill, and show ours next to theirs, failures too."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]

from experiments import __main__, _papers, _runner, _sources, _tables, _verdicts  # noqa: E402
from experiments._runner import Experiment, Plan, Store, find, key, names, run  # noqa: E402
from experiments._tables import FRESH, Draw, Method, Source, Table, squared_error  # noqa: E402
from regfactor.baselines import LaplacianRLS  # noqa: E402
from regfactor.labels.reverse.regressor import ReverseRegressor  # noqa: E402

SQUARES = """
import os, time
from pathlib import Path
from experiments._runner import Experiment

class Squares(Experiment):
    title = "squares"

    def cells(self, done, plan):
        first = [{"i": i} for i in range(plan.n_splits(6))]
        ready = all(_key(c) in done for c in first)
        return first + ([{"sum": len(first)}] if ready else [])

    def run(self, cell):
        with Path(os.environ["SQUARES_LOG"]).open("a") as log:
            log.write(str(cell.get("i", "sum")) + "\\n")
        time.sleep(float(os.environ.get("SQUARES_SLEEP", 0)))
        if str(cell.get("i")) == os.environ.get("SQUARES_FAIL"):
            raise RuntimeError("no square today")
        if str(cell.get("i")) == os.environ.get("SQUARES_STOP"):
            raise KeyboardInterrupt
        return cell["i"] ** 2 if "i" in cell else cell["sum"]

    def summary(self, done, plan):
        return [{"i": r["cell"].get("i"), "value": r.get("result")} for r in done.values()]

    def report(self, summary):
        return "\\n".join(f"| {row['i']} | {row['value']} |" for row in summary)

def _key(cell):
    from experiments._runner import key
    return key(cell)

EXPERIMENT = Squares()
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A package of experiments with one file, and the log of what it computes."""
    package = tmp_path / "toyexperiments"
    package.mkdir()
    (package / "__init__.py").write_text('"""Toys."""\n')
    (package / "_shared.py").write_text("")
    (package / "toy_f5_1.py").write_text(SQUARES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SQUARES_LOG", str(tmp_path / "log"))
    for name in ("toyexperiments", "toyexperiments.toy_f5_1"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def go(toys, **options):
    report, failures = run("toy-f5.1", Plan(), toys / "out", package="toyexperiments", **options)
    return report.read_text(), failures


def logged(toys):
    """Return what was computed since last asked."""
    log = toys / "log"
    lines = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


# discovery


def test_every_file_is_an_experiment_by_its_name(toys):
    assert names("toyexperiments") == ["toy-f5.1"]
    assert find("toy-f5.1", "toyexperiments").title == "squares"


@pytest.mark.parametrize("name", names())
def test_the_papers_tables_are_well_formed(name):
    experiment = find(name)
    assert isinstance(experiment, Experiment) and experiment.title
    if isinstance(experiment, Table):
        known = {source.name for source in experiment.sources}
        assert set(experiment.paper) <= known
        for method in experiment.methods:
            json.dumps(method.settings)
            printed = any(method.name in numbers for numbers in experiment.paper.values())
            assert printed != (method.name in _papers.ADDED)
        methods = {method.name for method in experiment.methods}
        for claim in experiment.claims:
            assert claim.dataset in known and set(claim.methods) <= methods
            assert (
                not claim.text.endswith("printed error")
                or claim.methods[0] in experiment.paper[claim.dataset]
            )
        assert set(experiment.twins) <= set(names())


def test_an_unknown_name_is_answered_with_the_nearest(capsys):
    with pytest.raises(ValueError, match="Did you mean 'aistats-1'"):
        find("aistat-1")
    assert __main__.main(["run", "aistat-1"]) == 2
    assert "Did you mean 'aistats-1'" in capsys.readouterr().err
    assert __main__.main(["run", "aistats-1", "--jobs", "0"]) == 2
    assert __main__.main(["list"]) == 0
    assert "thesis-6.1" in capsys.readouterr().out


# running and going on


def test_a_second_run_computes_nothing_and_changes_nothing(toys):
    first, failures = go(toys)
    assert failures == 0 and logged(toys) == ["0", "1", "2", "3", "4", "5", "sum"]
    kept = (toys / "out" / "toy-f5.1.json").read_bytes()
    assert go(toys)[0] == first and logged(toys) == []
    assert (toys / "out" / "toy-f5.1.json").read_bytes() == kept
    assert not list((toys / "out").glob("*.partial*")) and not list((toys / "out").glob("*.tmp"))


def test_what_is_kept_says_how_it_came_about(toys):
    markdown, _ = go(toys)
    kept = json.loads((toys / "out" / "toy-f5.1.json").read_text())
    assert kept["title"] == "squares" and {"i": 3, "value": 9} in kept["summary"]
    assert (
        kept["runs"][0]["versions"]["numpy"] == np.__version__
        and kept["runs"][0]["plan"]["splits"] is None
    )
    assert all(record["run"] == 0 and record["seconds"] >= 0 for record in kept["cells"])
    assert (
        markdown.startswith("# toy-f5.1: squares")
        and "| 3 | 9 |" in markdown
        and np.__version__ in markdown
    )


def test_an_interrupted_run_goes_on_where_it_stopped(toys, monkeypatch):
    monkeypatch.setenv("SQUARES_STOP", "4")
    with pytest.raises(KeyboardInterrupt):
        go(toys)
    assert logged(toys) == ["0", "1", "2", "3", "4"]
    monkeypatch.delenv("SQUARES_STOP")
    markdown, failures = go(toys)
    assert failures == 0 and logged(toys) == ["4", "5", "sum"] and "| 4 | 16 |" in markdown


def test_a_line_that_a_kill_cut_off_is_computed_again(toys):
    store = Store(toys / "out", "toy-f5.1")
    store.add({"versions": _runner.versions()})
    store.add({"cell": {"i": 0}, "result": 0, "seconds": 0, "run": 0})
    with store.partial.open("a") as file:
        file.write('{"cell": {"i": 1}, "resu')
    again = Store(toys / "out", "toy-f5.1")
    again.add({"cell": {"i": 2}, "result": 4, "seconds": 0, "run": 0})
    assert set(Store(toys / "out", "toy-f5.1").records) == {key({"i": 0}), key({"i": 2})}
    go(toys)
    assert logged(toys) == ["1", "3", "4", "5", "sum"]


def test_several_processes_compute_the_same(toys):
    alone, _ = go(toys)
    together, _ = run("toy-f5.1", Plan(), toys / "other", jobs=2, package="toyexperiments")
    assert alone.split("cells,")[0] == together.read_text().split("cells,")[0]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_stopped_run_leaves_no_process_and_goes_on(toys, how):
    call = f"run('toy-f5.1', Plan(), Path({str(toys / 'out')!r}), jobs=2, package='toyexperiments')"
    lines = [
        "from pathlib import Path",
        "from experiments._runner import Plan, run",
        "if __name__ == '__main__':",
    ]
    script = toys / "start.py"
    script.write_text("\n".join([*lines, f"    {call}"]))
    path = os.pathsep.join([str(ROOT), str(toys)])
    environment = {**os.environ, "SQUARES_SLEEP": "0.7", "PYTHONPATH": path}
    process = subprocess.Popen(
        [sys.executable, str(script)], env=environment, stderr=subprocess.DEVNULL
    )
    partial = toys / "out" / "toy-f5.1.partial.jsonl"
    wait(lambda: partial.exists() and '"cell"' in partial.read_text())
    process.send_signal(how)
    process.wait(timeout=20)
    done = len(Store(toys / "out", "toy-f5.1").records)
    time.sleep(1.0)  # orphans would go on computing
    begun = len(logged(toys))
    time.sleep(1.0)
    assert logged(toys) == [] and 1 <= done < 7 and begun <= done + 4
    markdown, failures = go(toys)
    assert failures == 0 and len(logged(toys)) == 7 - done and "| 5 | 25 |" in markdown


def wait(until, seconds=30):
    limit = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.05)


def test_a_failed_cell_is_shown_and_tried_again(toys, monkeypatch):
    monkeypatch.setenv("SQUARES_FAIL", "2")
    markdown, failures = go(toys)
    assert failures == 1 and "**1 cells failed:**" in markdown
    assert '`{"i": 2}`: RuntimeError: no square today (toy_f5_1.py:' in markdown
    assert logged(toys) == ["0", "1", "2", "3", "4", "5", "sum"]
    monkeypatch.delenv("SQUARES_FAIL")
    markdown, failures = go(toys)
    assert failures == 0 and "failed" not in markdown and logged(toys) == ["2"]


def test_cells_can_be_computed_again_by_name(toys):
    go(toys)
    logged(toys)
    go(toys, redo='"i": 3')
    assert logged(toys) == ["3"]


def test_a_report_waits_for_cells_that_were_not_asked_for(toys, capsys):
    report, failures = run(
        "toy-f5.1", Plan(), toys / "out", only='"i": 3', package="toyexperiments"
    )
    assert logged(toys) == ["3"] and failures == 0 and not report.exists()
    assert "5 of 6 cells are missing yet" in capsys.readouterr().err
    markdown, _ = go(toys)
    assert logged(toys) == ["0", "1", "2", "4", "5", "sum"] and "| 3 | 9 |" in markdown


def test_figures_stand_in_the_report(toys, monkeypatch):
    experiment = find("toy-f5.1", "toyexperiments")
    monkeypatch.setattr(
        type(experiment), "draw", lambda self, summary, folder: [folder / f"{len(summary)}.png"]
    )
    assert "![7](7.png)" in go(toys)[0]


def test_the_cost_is_estimated_from_cells_that_were_timed(toys):
    def cost(plan):
        return _runner.estimate("toy-f5.1", plan, toys / "out", package="toyexperiments")

    assert str(cost(Plan(splits=2))) == "2 cells, never timed"
    store = Store(toys / "out", "toy-f5.1")
    store.add({"versions": {}})
    store.add({"cell": {"i": 0}, "seconds": 1800.0, "result": 0, "run": 0})
    store.add({"cell": {"i": 1}, "seconds": 5400.0, "result": 1, "run": 0})
    assert cost(Plan()).cells == 4 and cost(Plan()).seconds == 4 * 3600.0
    assert str(cost(Plan(splits=3))) == "1 cells, about 1.00 CPU hours"
    assert str(cost(Plan(splits=2))) == "1 cells, about 1.00 CPU hours"  # the second stage
    assert logged(toys) == []


def test_results_carry_the_commit_and_say_when_code_has_changed_since(toys, monkeypatch):
    def git(*words):
        answers = {"rev-parse": "0123456789ab", "status": "", "diff": changed}
        return answers[words[0]]

    changed = ""
    monkeypatch.setattr(_runner, "_git", git)
    markdown, _ = go(toys)
    assert "Commit: 0123456789ab." in markdown
    assert json.loads((toys / "out" / "toy-f5.1.json").read_text())["runs"][0]["commit"] == (
        "0123456789ab"
    )
    standing = functools.partial(_runner.standing, "toy-f5.1", toys / "out")
    assert standing() == "computed with commit 0123456789ab, this code"
    changed = "src/regfactor/norms.py\nexperiments/_tables.py"
    assert standing() == ("computed with commit 0123456789ab; 2 files of code have changed since")
    changed = None
    assert standing() == "computed with commit 0123456789ab, which is not in this checkout"
    assert _runner.standing("toy-f5.1", toys / "empty") == "not computed"


def test_seconds_are_named_after_the_clock_of_all_runs(toys):
    store = Store(toys / "out", "toy-f5.1")
    store.add({"versions": _runner.versions()})
    store.add({"cell": {"i": 0}, "seconds": 1800.0, "result": 0, "run": 0})
    assert "7 cells, 1800 s in all" in go(toys)[0]
    shutil.rmtree(toys / "out")
    assert "7 cells, 0 CPU seconds in all" in go(toys)[0]


def test_a_quick_run_is_kept_apart(toys):
    report, _ = run("toy-f5.1", Plan(quick=True), toys / "out", package="toyexperiments")
    assert report == toys / "out" / "quick" / "toy-f5.1.md" and logged(toys) == ["0", "1", "sum"]
    assert not (toys / "out" / "toy-f5.1.json").exists()


def test_a_twin_lends_what_it_has_and_the_rest_is_computed(toys, monkeypatch):
    run("toy-f5.1", Plan(splits=3), toys / "out", package="toyexperiments")
    logged(toys)
    (toys / "toyexperiments" / "other.py").write_text(SQUARES + "Squares.twins = ('toy-f5.1',)\n")
    report, _ = run("other", Plan(splits=4), toys / "out", package="toyexperiments")
    assert (
        logged(toys) == ["3", "sum"]
        and "| 2 | 4 |" in report.read_text()
        and "| 3 | 9 |" in report.read_text()
    )
    kept = json.loads((toys / "out" / "other.json").read_text())
    assert {record["run"] for record in kept["cells"]} == {0, 1} and kept["runs"][0]["plan"][
        "splits"
    ] == 3
    run("other", Plan(splits=2), toys / "out", redo='"i": 1', package="toyexperiments")
    assert logged(toys) == ["1", "sum"]  # what is asked for again is not borrowed


# tables


class Shrunk:
    """Predicts a share of the true mean of the labels; fails on demand."""

    def __init__(self, share, broken=False):
        self.share, self.broken = share, broken

    def fit(self, X, y):
        if self.broken:
            raise ValueError("broken setting")
        self.value_ = self.share * np.nanmean(y)
        self.transduction_ = np.full(len(y), self.value_)
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def numbers(seed):
    random = np.random.default_rng(seed)
    y = 3 + random.normal(size=30)
    return Draw(random.normal(size=(30, 2)), y, np.arange(10), np.arange(10, 30))


def table(*methods, splits=None):
    printed = {"numbers": {"shrunk": "1.23 ± 0.04", "unwritten": "9.9"}}
    return Table(
        "a toy",
        [Source("numbers", numbers, "Thirty rows.", splits)],
        methods,
        printed,
        squared_error,
        splits=4,
    )


def results(experiment):
    """Return all records, as the runner would collect them."""
    done, plan = {}, Plan()
    while missing := [cell for cell in experiment.cells(done, plan) if key(cell) not in done]:
        for cell in missing:
            done[key(cell)] = {
                "cell": cell,
                "result": experiment.run(cell),
                "seconds": 0.0,
                "run": 0,
            }
    return done


def test_settings_are_chosen_by_unlabeled_rows_and_by_labels():
    experiment = table(Method("shrunk", Shrunk, {"share": [0.0, 0.9, 1.0]}, supervised=True))
    done = results(experiment)
    ours = experiment.summary(done, Plan())[0]
    errors = np.array(
        [
            [np.mean((d.y[10:] - s * d.y[:10].mean()) ** 2) for s in (0.0, 0.9, 1.0)]
            for d in map(numbers, range(4))
        ]
    )
    best = errors.mean(axis=0).argmin()
    assert ours["paper"]["mean"] == pytest.approx(errors[:, best].mean()) and ours["n"] == 4
    assert ours["paper"]["standard_error"] == pytest.approx(errors[:, best].std(ddof=1) / 2)
    assert ours["setting"] == {"share": [0.0, 0.9, 1.0][best]}
    tuned = [record["result"] for record in done.values() if "grid" in record["cell"]]
    honest = [result["errors"][int(np.argmin(result["validation"]))] for result in tuned]
    assert ours["honest"]["mean"] == pytest.approx(np.mean(honest))


def test_validation_errors_come_from_labels_alone():
    method = Method("shrunk", Shrunk, {"share": [1.0]})
    draw = numbers(0)
    secret = Draw(draw.X, np.where(np.arange(30) < 10, draw.y, 1e6), draw.labeled, draw.unlabeled)
    experiment = table(method)
    assert (
        experiment._outcome(draw, method, {"share": 1.0})[1]
        == experiment._outcome(secret, method, {"share": 1.0})[1]
    )
    assert (
        experiment._outcome(draw, method, {"share": 1.0})[0]
        != experiment._outcome(secret, method, {"share": 1.0})[0]
    )


def test_what_was_selected_is_computed_again_on_fresh_seeds_of_generated_data():
    method = Method("shrunk", Shrunk, {"share": [0.5, 1.0]})
    generated, real = table(method), table(method, splits=3)
    done = results(generated)
    fresh = [record["cell"]["split"] for record in done.values() if "setting" in record["cell"]]
    assert (
        sorted(fresh) == [FRESH + i for i in range(4)]
        and "fresh" in generated.summary(done, Plan())[0]
    )
    done = results(real)
    assert len(done) == 3 and "fresh" not in real.summary(done, Plan())[0]
    assert "fresh seeds" not in real.report(real.summary(done, Plan()))


def test_the_report_has_ours_beside_the_printed_numbers():
    experiment = table(Method("shrunk", Shrunk, {"share": [1.0]}))
    lines = experiment.report(experiment.summary(results(experiment), Plan())).splitlines()
    head, ours = (
        next(line for line in lines if "printed |" in line),
        next(line for line in lines if "shrunk" in line),
    )
    assert (
        head.count("|") == ours.count("|")
        and "| 1.23 ± 0.04 |" in ours
        and "share=1.0" in ours
        and "| 4 |" in ours
    )
    assert next(line for line in lines if "unwritten" in line).startswith(
        "| unwritten | 9.9 | - | - | - |"
    )


def test_a_mean_that_few_splits_decide_has_the_median_beside_it():
    assert _tables._number(_tables._mean(np.array([1.0, 1.0, 1.0, 97.0]))) == "25 ± 24 (median 1)"
    assert _tables._number(_tables._mean(np.array([1.0, 2.0]))) == "1.5 ± 0.5"
    assert _tables._number(_tables._mean(np.array([1.0]))) == "1"


def test_a_setting_that_fails_is_reported_and_not_chosen():
    method = Method("shrunk", Shrunk, [{"share": [0.5]}, {"share": [1.0], "broken": [True]}])
    experiment = table(method)
    row = experiment.summary(results(experiment), Plan())[0]
    assert row["setting"] == {"share": 0.5} and row["failed"] == 4
    assert "4: ValueError: broken setting" in experiment.report([row])
    hopeless = table(Method("shrunk", Shrunk, {"share": [1.0], "broken": [True]}))
    row = hopeless.summary(results(hopeless), Plan())[0]
    assert "paper" not in row and "| failed |" in hopeless.report([row])


def test_another_grid_is_another_cell():
    one, two = (
        table(Method("shrunk", Shrunk, {"share": [s]})).cells({}, Plan()) for s in (0.5, 0.6)
    )
    assert not {key(cell) for cell in one} & {key(cell) for cell in two}
    assert len(table(Method("shrunk", Shrunk)).cells({}, Plan(splits=7))) == 7


def test_hidden_rows_are_marked_as_unlabeled():
    draw = numbers(0)
    marked = draw.marked(np.array([1, 2]))
    assert np.isnan(marked).sum() == 28 and marked[1] == draw.y[1]
    classes = Draw(draw.X, np.arange(30) % 3, draw.labeled, draw.unlabeled)
    assert (classes.marked(np.array([0])) == -1).sum() == 29


def test_generated_data_of_the_papers_are_drawn_by_their_seed():
    source = _sources.synthetic_regression("syn-cubed")
    one, same, other = source.draw(0), source.draw(0), source.draw(FRESH)
    np.testing.assert_array_equal(one.X, same.X)
    assert one.X.shape == (220, 20) and not np.allclose(one.X, other.X)
    assert _tables.misclassified(np.array([0, 1]), np.array([0, 0])) == 0.5


# methods of the tables


@pytest.mark.parametrize("transfer", ["identity", "cube"])
@pytest.mark.parametrize("kernel", [None, "linear", 1.0])
def test_targets_are_imputed_as_by_the_estimator(transfer, kernel):
    draw = _sources.synthetic_regression("syn-cubed").draw(1)
    y = draw.marked(draw.labeled)
    ours = _papers.ReverseRegression(transfer, kernel, 0.1).fit(draw.X, y).transduction_
    shape = {"kernel": "rbf", "gamma": _papers.gamma(1.0)} if kernel == 1.0 else {"kernel": kernel}
    np.testing.assert_allclose(
        ours,
        ReverseRegressor(transfer, 0.1, alpha=0.1, fit_intercept=False, **shape)
        .fit(draw.X, y)
        .imputed_.reshape(ours.shape),
        rtol=1e-6,
        atol=1e-8,
    )


@pytest.mark.parametrize("transfer", ["identity", "cube"])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_targets_are_read_out_as_by_the_estimator(transfer, kernel):
    draw = _sources.synthetic_regression("syn-cubed").draw(1)
    y = draw.marked(draw.labeled)
    ours = _papers.ForwardReadout(transfer, kernel, 0.1, 1.0).fit(draw.X, y).transduction_
    model = ReverseRegressor(transfer, 0.1, 1.0, kernel, fit_intercept=False)
    theirs = model.fit(draw.X, y).transduction_
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    again = _papers.ForwardReadout(transfer, kernel, 0.1, 0.01).fit(draw.X, y).transduction_
    assert np.abs(again - ours).max() > 1e-3
    np.testing.assert_array_equal(again[draw.labeled], y[draw.labeled])


def test_no_weight_of_unlabeled_rows_is_the_forward_model_of_the_others():
    draw = _sources.synthetic_regression("syn-gauss").draw(0)
    y = draw.marked(draw.labeled)
    ours = _papers.ForwardModel("identity", None, 0.1).fit(draw.X, y).transduction_
    gram = draw.X[draw.labeled].T @ draw.X[draw.labeled] + 0.1 * np.eye(draw.X.shape[1])
    coef = np.linalg.solve(gram, draw.X[draw.labeled].T @ draw.y[draw.labeled])
    np.testing.assert_allclose(ours, draw.X @ coef, rtol=1e-6, atol=1e-8)


def test_kernel_matrices_are_those_of_the_rows_at_hand():
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 5, 3))
    for X in (one, other, one):
        np.testing.assert_allclose(_papers.gram(X, "linear"), X @ X.T)
        squares = np.square(X[:, None] - X).sum(axis=2)
        np.testing.assert_allclose(_papers.gram(X, 2.0), np.exp(-squares / 8))
    assert _papers.gram(one, 2.0) is _papers.gram(one, 2.0)


def test_a_laplacian_machine_on_a_kernel_matrix_is_the_one_on_rows():
    draw = _sources.synthetic_regression("syn-gauss").draw(0)
    y = draw.marked(draw.labeled)
    direct = LaplacianRLS(
        1e-6, 0.01, n_neighbors=5, laplacian_degree=2, gamma=_papers.gamma(5.0), task="regression"
    )
    ours = _papers.LAP_RLS.make(kernel=5.0, degree=2, n_neighbors=5)
    np.testing.assert_allclose(
        ours.fit(draw.X, y).transduction_, direct.fit(draw.X, y).transduction_, rtol=1e-6, atol=1e-8
    )


def test_a_fold_with_one_class_is_all_of_that_class():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.array([1, 1, -1, -1, -1, -1])
    for method in (_papers.LAP_SVM, _papers.LAP_RLSC):
        assert (method.make(kernel=1.0, degree=1, n_neighbors=5).fit(X, y).transduction_ == 1).all()


# verdicts


def row(method, printed, paper, **columns):
    columns = {"paper": paper, **columns}
    return {"dataset": "toy", "method": method, "printed": printed} | {
        name: _tables._mean(np.array(errors)) for name, errors in columns.items()
    }


def test_claims_are_decided_from_the_errors_of_the_same_splits():
    errors = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    gaps = np.array([0.12, 0.09, 0.11, 0.08, 0.07, 0.13, 0.1, 0.11])
    low, high = row("low", "0.45 ± 0.01", errors), row("high", "0.31 ± 0.01", errors + gaps)
    rows = {"low": low, "high": high}
    ahead = _verdicts.ahead
    np.testing.assert_allclose(_verdicts.gains(high["paper"], low["paper"]), gaps)
    assert ahead("toy", "low", "high").decide(rows, "paper") == ("holds", "by 0.101 ± 0.0072")
    assert ahead("toy", "high", "low").decide(rows, "paper")[0] == "does not hold"
    verdict, numbers = ahead("toy", "low", "high", 0.1).decide(rows, "paper")
    assert verdict == "holds" and numbers.endswith(
        "a test of more than 0.1 not decided"
    )  # the mean is just above
    assert ahead("toy", "low", "high", 0.2).decide(rows, "paper")[0] == "does not hold"
    assert ahead("toy", "low", "low").decide(rows, "paper")[0] == "not decided"
    assert _verdicts.below("toy", "low", 0.451).decide(rows, "paper")[0] == "holds"
    assert _verdicts.below("toy", "low", 0.449).decide(rows, "paper")[0] == "does not hold"
    verdict, numbers = _verdicts.near("toy", "high", 0.8).decide(rows, "paper")
    assert verdict == "holds" and numbers.startswith("0.551 ± 0.0") and numbers.endswith(", +78%")
    assert _verdicts.near("toy", "high").decide(rows, "paper")[0] == "does not hold"


def test_a_difference_that_all_splits_have_is_one_though_few_decide_its_mean():
    assert _verdicts.judged(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 1e6])) == "holds"
    assert _verdicts.judged(np.array([-1.0, -2.0, -3.0, -4.0, -5.0, 1e6])) == "not decided"
    assert _verdicts.judged(np.array([1.0, 2.0, 3.0])) == "not decided"  # too few to tell


def test_a_claim_is_decided_for_every_tuning_that_all_its_methods_have():
    few, more = np.linspace(0.1, 0.2, 6), np.linspace(0.3, 0.5, 6)
    low, high = row("low", "0.10 ± 0.01", few, honest=more + 0.1), row("high", "0.2 ± 0.01", more)
    claim = _verdicts.ahead("toy", "low", "high")
    assert claim.line({"low": low, "high": high}).count("**") == 2
    high = row("high", "0.2 ± 0.01", more, honest=more)
    line = claim.line({"low": low, "high": high})
    assert "best on the grid **holds**" in line and "tuned on labels **does not hold**" in line
    assert "not decided" in claim.line({"low": low, "high": {"method": "high", "printed": None}})


def test_printed_numbers_are_read_and_printed_orders_counted():
    assert _verdicts.parsed("2e+18 ± 1.341") == (2e18, 1.341) and _verdicts.parsed(
        "3e-5 ± 2.6e-06"
    ) == (3e-5, 2.6e-6)
    assert _verdicts.parsed("unstable") is None and _verdicts.parsed(None) is None
    steps = np.linspace(0, 0.01, 6)
    wild = np.where(np.arange(6) % 2, 0.9, 0.02)
    rows = {
        "a": row("a", "0.1 ± 0.01", 0.1 + steps),
        "b": row("b", "0.2 ± 0.01", 0.3 + steps),
        "c": row("c", "0.3 ± 0.01", 0.2 + steps),
        "d": row("d", "0.31 ± 0.01", wild),
        "e": row("e", "unstable", wild),
    }
    (line,) = _verdicts.orders("toy", rows)  # c and d do not differ in print
    assert "of 5 printed differences 2 hold, 2 are not decided, 1 are reversed" in line
    assert "1 of 4 errors within 20 %" in line and line.endswith("lowest here a, in print a.")
    (line,) = _verdicts.orders("toy", rows | {"constant": row("constant", None, 0.28 + steps)})
    assert line.endswith("2 of 4 are better than a constant (0.285 ± 0.0015).")


def test_completion_of_table_6_6_learns_from_rows_that_are_long_enough():
    table = find("thesis-6.6")
    method = next(m for m in table.methods if m.name == "GOLDBERG")
    draw = next(s for s in table.sources if s.name == "SYNTHETIC").draw(0)
    errors = []
    for scale in (1.0, 10.0):
        setting = {"mu": 1e-2, "loss": "logistic", "scale": scale}
        found = method.predicted(draw, draw.labeled, setting)
        errors.append(_tables.misclassified(draw.y[draw.unlabeled], found[draw.unlabeled]))
    assert errors[1] < errors[0]
