"""What commands say: cautions where they belong, nothing left out without a word, rows counted as people do."""

import html
import re

import numpy as np
import pandas as pd
import pytest
from console import cells, command, refused

from regfactor.cli.cluster import _real, _stable


def written(path, **columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def python_of(page):
    """The code of a report."""
    text = html.unescape(page.read_text(encoding="utf-8"))
    return re.search(r"import numpy.*?(?=</code>)", text, flags=re.DOTALL)[0]


def test_groups_of_noise_are_doubted_on_the_terminal_too(tmp_path):
    a, b = np.random.default_rng(0).normal(size=(2, 400))
    path = written(tmp_path / "t.csv", a=a, b=b)
    done = command("cluster", path)
    assert done.code == 0 and "One cluster holds all rows" in done.out, done
    done = command("cluster", path, "--clusters", 3, "--force")
    assert done.code == 0 and "the groups run into each other" in done.out, done
    done = command("cluster", path, "--divergence", "squared", "--force")
    assert done.code == 0 and "only one above about 0.5 speaks for groups" in done.out, done
    assert _real({3: 0.6}, 3) == "" == _real({}, 3)


def test_starts_that_agree_nearly_are_not_called_the_same():
    assert _stable(1.0, 3).endswith("gave the same groups.")
    assert "gave nearly the same groups (agreement 0.97 of 1)" in _stable(0.97, 3)
    assert "though" not in _stable(0.3, 3) + _real({3: 0.16}, 3)


def test_help_says_what_becomes_of_missing_in_clusters():
    said = " ".join(command("cluster", "--help").out.split())
    assert "median" in said and "(missing)" in said


def colored(path, colors):
    x, y = np.random.default_rng(0).normal(size=(2, 60)).round(3)
    dates = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    return written(path, x=x, y=y, color=np.resize(colors, 60), joined=dates)


@pytest.mark.parametrize(
    "job", [["cluster", "--clusters", 2], ["label", "--target", "y"]], ids=lambda job: job[0]
)
def test_categories_that_the_fit_did_not_see_are_told(tmp_path, job):
    frame = pd.read_csv(colored(tmp_path / "t.csv", ["red", "blue"]))
    frame["y"] = frame["y"].mask(frame.index > 40)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert command(job[0], tmp_path / "t.csv", *job[1:], "--save", tmp_path / "m.skops").code == 0
    done = command("score", tmp_path / "m.skops", colored(tmp_path / "new.csv", ["pink"]))
    told = re.search("'color' has categories that were not there in fit: .?'pink'", done.err)
    assert done.code == 0 and told, done
    assert "not there in fit" not in command("score", tmp_path / "m.skops", tmp_path / "t.csv").err


def test_new_rows_have_their_distance_as_those_of_the_fit_do(tmp_path):
    path = colored(tmp_path / "t.csv", ["red", "blue"])
    command("cluster", path, "--clusters", 3, "--save", tmp_path / "m.skops")
    command("score", tmp_path / "m.skops", path)
    fitted, scored = (pd.read_csv(tmp_path / f"t.{job}.csv") for job in ("cluster", "score"))
    pd.testing.assert_frame_equal(fitted, scored)


def test_a_column_that_no_model_takes_is_refused_where_it_is_asked_for(tmp_path):
    path = colored(tmp_path / "t.csv", ["red", "blue"])
    refused(command("cluster", path, "--use", "joined"), "'joined' cannot be used: it holds dates")


def test_arrays_that_are_left_out_are_told(tmp_path):
    X, Y = np.random.default_rng(0).normal(size=(2, 30, 3))
    np.savez(tmp_path / "t.npz", X=X, Y=Y, kind=np.arange(30) % 2)
    done = command("cluster", tmp_path / "t.npz", "--clusters", 2)
    assert "only X and vectors of its length are read, without Y (30, 3)" in done.err, done
    assert "kind" in done.out


def test_constant_columns_are_filled_by_their_constant_and_embed_nothing(tmp_path):
    path = written(
        tmp_path / "t.csv", a=[3.0] * 29 + [None], b=[2.5] * 30, c=["x", None] + ["x"] * 28
    )
    done = command("complete", path, "--use", "c")
    assert done.code == 0 and "2 missing cells filled" in done.out, done
    after = cells(tmp_path / "t.complete.csv")
    assert after["a"][29] == "3" and after["c"][1] == "x"
    refused(command("embed", path, "--use", "c"), "All columns of t.csv are constant")


def test_a_whole_table_needs_no_model_but_its_outliers_are_found(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) @ np.ones((1, 5)) + 0.1 * rng.normal(size=(60, 5))
    X[7, 2] = 40.0
    path = written(tmp_path / "t.csv", **dict(zip("abcde", X.T.round(3), strict=True)))
    with monkeypatch.context() as patch:
        patch.setattr("regfactor.cli.complete.AutoImputer", None)
        done = command("complete", path, "--json")
    assert (
        done.code == 0
        and done.record["flagged_cells"] == [[7, "c"]]
        and done.record["model"] is None
    ), done
    names = {}
    exec(python_of(tmp_path / "t.complete.html"), names)
    assert names["found"].flagged.nonzero() == ([7], [2])
    model = tmp_path / "m.skops"
    assert command("complete", path, "--force", "--save", model).code == 0 and model.exists()


def test_two_words_are_zero_and_one_for_bernoulli(tmp_path):
    rng = np.random.default_rng(0)
    right = rng.random((80, 6)) < np.where(np.arange(80)[:, None] < 40, 0.1, 0.9)
    words = {
        name: np.where(column, "yes", "no").astype(object)
        for name, column in zip("abcde", right.T, strict=False)
    }
    words["b"][:3] = ""
    path = written(tmp_path / "t.csv", **words, f=right[:, 5].astype(int))
    job = ("cluster", path, "--divergence", "bernoulli", "--clusters", 2)
    done = command(*job, "--save", tmp_path / "m.skops")
    assert (
        done.code == 0
        and "1 is 'yes' in a, b, c, d, e" in done.err
        and done.out.count("Read t.csv") == 1
    ), done
    fitted = pd.read_csv(tmp_path / "t.cluster.csv")
    share = (fitted["cluster"] == fitted["cluster"][0]).to_numpy()
    assert share[:40].mean() > 0.9 and share[40:].mean() < 0.1
    command("score", tmp_path / "m.skops", path)
    pd.testing.assert_frame_equal(fitted, pd.read_csv(tmp_path / "t.score.csv"))
    words["a"][:] = "perhaps"
    done = command(
        "score",
        tmp_path / "m.skops",
        written(tmp_path / "new.csv", **words, f=right[:, 5].astype(int)),
    )
    assert done.code == 0 and "'perhaps'; they are treated as missing" in done.err, done
    names = {}
    exec(python_of(tmp_path / "t.cluster.html"), names)
    assert (names["model"].labels_ + 1 == fitted["cluster"]).all()


@pytest.mark.parametrize(
    "job", [["complete"], ["embed"], ["denoise", "--views", "0:2,2:4"]], ids=lambda job: job[0]
)
def test_rows_are_counted_from_one_where_people_read(tmp_path, job):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1)) @ np.ones((1, 4)) + 0.1 * rng.normal(size=(40, 4))
    X[4] = np.nan
    path = written(tmp_path / "t.csv", **dict(zip("abcd", X.T.round(3), strict=True)))
    done = command(job[0], path, *job[1:])
    assert done.code == 0 and "Row 5 holds no value; nothing can be learned there." in done.err, (
        done
    )
    assert "no observed entry" not in done.err


def test_one_is_singular(tmp_path):
    written(tmp_path / "t.csv", a=[1.5])
    assert "Read t.csv: 1 row, 1 column." in command("embed", tmp_path / "t.csv").out


def test_a_forecast_tells_of_gaps_as_times_alone_and_may_be_told_of_its_dates(tmp_path):
    days = pd.date_range("2024-01-01", periods=80).strftime("%Y-%m-%d")
    kept = np.delete(np.arange(80), [20, 21, 50])
    path = written(tmp_path / "s.csv", day=days[kept], sales=np.sin(kept / 5).round(3))
    done = command("forecast", path, "--horizon", 3, "--use", "day")
    assert done.code == 0 and "3 times missing" in done.out + done.err, done
    assert "no value" not in done.out + done.err
