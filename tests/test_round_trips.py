"""Generated tables through `complete` and `score`: values, types, order and spelling of observed cells stay as they were."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from console import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regfactor.cli.columns import understand
from regfactor.cli.complete import fill_missing
from regfactor.cli.errors import BadInput
from regfactor.cli.tables import read

EXAMPLES = int(os.environ.get("REGFACTOR_TABLES", "2000"))
# a table here is a fit and two commands: REGFACTOR_TABLES=40000 sends 2,000 through them
COMMAND_EXAMPLES = EXAMPLES // 20
QUICK = 50
N_ROWS = 14


@st.composite
def tables(draw):
    """The true values of a table, and its text in some format of numbers, units and delimiters."""
    delimiter = draw(st.sampled_from([",", ";", "\t"]))
    decimal = draw(st.sampled_from([".", ","]))
    grouped = draw(st.booleans())
    unit = draw(st.sampled_from(["", " cm", " €", "%"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1.0, 100.0, 1e6]))
    x = np.round(scale * rng.normal(size=N_ROWS) + 0.25, 2)
    x[:3] = [0.5, -1.25, 7.75]  # which decide the decimal mark
    k = rng.integers(-50, 5000, size=N_ROWS)
    words = rng.choice(["red", "dark blue", "grün", "a;b", "c,d", 'say "x"'], size=N_ROWS)
    missing = rng.random((N_ROWS, 3)) < 0.15
    missing[:4] = False
    missing[-1, 0] = False  # blank rows at the end are no rows of the table

    def spelled(value):
        other = "." if decimal == "," else ","
        text = f"{value:,.2f}" if grouped else f"{value:.2f}"
        return text.replace(",", "\0").replace(".", decimal).replace("\0", other) + unit

    columns = {
        "x": [spelled(v) for v in x],
        "k": [str(v) for v in k],
        "word": list(words),
    }
    frame = pd.DataFrame(columns, dtype=object)
    frame = frame.mask(missing, "")
    truth = {"x": x, "k": k.astype(float), "word": words}
    return frame, truth, missing, delimiter


def check(frame, truth, missing, delimiter):
    """Write a table, read it, and write it again with its missing cells filled by the true values."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        frame.to_csv(path, sep=delimiter, index=False)
        seen = understand(read(path))
        for j, name in enumerate(frame.columns):
            found = seen.frame[name].astype(object).to_numpy()
            known = ~missing[:, j]
            assert list(found[known]) == list(truth[name][known]), name
            assert pd.isna(found[~known]).all()
        values = pd.DataFrame({name: truth[name] for name in frame.columns})
        out = fill_missing(seen.table, values, seen.missing)
        known = ~missing
        assert (out.to_numpy() == frame.to_numpy())[known].all()  # to the letter
        out.to_csv(path, sep=delimiter, index=False)
        again = understand(read(path)).frame
        np.testing.assert_allclose(again["x"], truth["x"], rtol=1e-5)
        assert again["word"].tolist() == list(truth["word"])


ALL_HEALTHY = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=QUICK, deadline=None, derandomize=True, suppress_health_check=ALL_HEALTHY)
@given(tables())
def test_tables_are_read_and_written_alike(table):
    check(*table)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=ALL_HEALTHY)
@given(tables())
def test_thousands_of_tables_are_read_and_written_alike(table):
    check(*table)


def through_commands(frame, truth, missing, delimiter, as_parquet):
    """Run `complete` on a table and `score` on the same by its model, and compare the files."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / ("t.parquet" if as_parquet else "t.csv")
        if as_parquet:
            frame = typed(truth, missing)
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, sep=delimiter, index=False)
        before = path.read_bytes()
        done = command("complete", path, "--save", folder / "m.skops")
        assert done.code == 0, done
        assert command("score", folder / "m.skops", path).code == 0
        assert path.read_bytes() == before
        for word in ("complete", "score"):
            out = read_back(folder / f"t.{word}{path.suffix}", delimiter)
            assert list(out.columns)[: frame.shape[1]] == list(frame.columns)
            out = out[frame.columns]
            known = ~missing
            cells = out.astype(object).to_numpy()
            assert cells[known].tolist() == frame.astype(object).to_numpy()[known].tolist()
            assert out.notna().to_numpy().all() and (out.astype(str) != "").to_numpy().all()
            if as_parquet:
                assert list(out.dtypes) == list(frame.dtypes)
            else:
                kinds = [c.kind for c in understand(read(path)).columns]
                seen = understand(read(folder / f"t.{word}.csv"))
                assert [c.kind for c in seen.columns][: len(kinds)] == kinds


def typed(truth, missing):
    """The table with numbers, whole numbers and categories in types of their own."""
    frame = pd.DataFrame(
        {
            "x": truth["x"],
            "k": pd.array(truth["k"].astype(int), dtype="Int64"),
            "word": pd.Categorical(truth["word"]),
        }
    )
    for j, name in enumerate(frame.columns):
        frame.loc[missing[:, j], name] = None
    return frame


def read_back(path, delimiter):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=ALL_HEALTHY)
@given(tables(), st.booleans())
def test_tables_pass_through_the_commands_alike(table, as_parquet):
    through_commands(*table, as_parquet)


@pytest.mark.slow
@settings(
    max_examples=COMMAND_EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=ALL_HEALTHY,
)
@given(tables(), st.booleans())
def test_many_tables_pass_through_the_commands_alike(table, as_parquet):
    through_commands(*table, as_parquet)


def test_a_table_goes_through_complete_and_score(tmp_path):
    rng = np.random.default_rng(3)
    z = rng.normal(size=40)
    frame = pd.DataFrame(
        {
            "length": [f"{170 + 8 * v:.1f} cm".replace(".", ",") for v in z],
            "price": [f"{12000 + 3000 * v:,.2f} €".translate(str.maketrans(".,", ",.")) for v in z],
            "kind": np.where(z > 0, "big", "small"),
        }
    ).mask(rng.random((40, 3)) < 0.1, "")
    path = tmp_path / "t.csv"
    frame.to_csv(path, sep=";", index=False)
    done = command("complete", path, "--save", tmp_path / "m.skops")
    assert done.code == 0, done
    assert command("score", tmp_path / "m.skops", path).code == 0
    for name in ("complete", "score"):
        out = pd.read_csv(tmp_path / f"t.{name}.csv", sep=";", dtype=str, keep_default_na=False)
        given = (frame != "").to_numpy()
        assert (out[frame.columns].to_numpy() == frame.to_numpy())[given].all()
        assert out["length"].str.endswith(" cm").all() and out["price"].str.endswith(" €").all()
        assert out["price"].str.match(r"-?\d{1,3}(\.\d{3})*(,\d+)? €").all()
    other = frame.assign(length=frame["length"].str.replace("cm", "mm"))
    other.to_csv(tmp_path / "new.csv", sep=";", index=False)
    done = command("score", tmp_path / "m.skops", tmp_path / "new.csv")
    assert done.code == 2 and "'mm', and had 'cm' when the model was fitted" in done.err, done


def test_new_rows_that_decide_nothing_are_read_as_those_of_the_fit(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n26.741;1,5\n12.001;2,5\n")
    assert read(tmp_path / "t.csv").decimal == ","
    (tmp_path / "new.csv").write_text("x;y\n26.741;1\n12.001;2\n")
    with pytest.raises(BadInput, match="--thousands"):
        understand(read(tmp_path / "new.csv"))


def test_the_cells_of_a_column_are_read_once(tmp_path):
    """Or else writing n filled cells takes n times as long as reading the column."""
    path = tmp_path / "t.csv"
    path.write_text("x,word\n1.5,red\n,blue\n", encoding="utf-8")
    table = understand(read(path)).table
    for name in ("x", "word"):
        assert table.strings(name) is table.strings(name)
