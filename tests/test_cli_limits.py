"""Text cells that state limits, as `<0.5`, `>= 10` and `3-5`: read, reported, fitted, refused."""

import json

import numpy as np
import pandas as pd
import pytest
from console import command

from regfactor.cli.limit_cells import parse_limits

INF = np.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<0.5", (-INF, 0.5)),
        ("< 0.5", (-INF, 0.5)),
        ("≤3", (-INF, 3.0)),
        ("<= 3 mg", (-INF, 3.0)),
        (">= 10", (10.0, INF)),
        (">1,000", (1000.0, INF)),
        ("3-5", (3.0, 5.0)),
        ("3 to 5", (3.0, 5.0)),
        ("3\u20135", (3.0, 5.0)),
        ("-5 - 2", (-5.0, 2.0)),
        ("$3-$5", (3.0, 5.0)),
        ("-3", None),
        ("1e-3", None),
        ("2020-01-05", None),
        ("a-b", None),
        ("<LOD", None),
        ("3-", None),
        ("", None),
    ],
)
def test_limits_of_a_cell(text, expected):
    assert parse_limits(text) == expected


def test_limits_follow_the_decimal_mark():
    assert parse_limits("<0,5", ",") == (-INF, 0.5)
    assert parse_limits("1,5-2,5", ",") == (1.5, 2.5)


def table_of_measurements(n=60):
    """A table as text with cells that state limits, and the numbers behind them."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(n, 1)) @ np.array([[1.0, 0.8, -1.0, 0.6]])
    Z = Z + 4 + 0.3 * random.normal(size=(n, 4))
    frame = pd.DataFrame(Z, columns=["lead", "zinc", "iron", "dose"]).map("{:.2f}".format)
    limit = np.quantile(Z[:, 0], 0.3).round(2)
    frame["lead"] = [f"< {limit}" if z < limit else f"{z:.2f}" for z in Z[:, 0]]
    frame["dose"] = [">= 4.5" if z >= 4.5 else f"{z:.2f}" for z in Z[:, 3]]
    frame.loc[3, "zinc"] = "3-6"
    frame.loc[5, "zinc"] = ""
    return frame, Z, limit


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    frame, _, _ = table_of_measurements()
    frame.to_csv(folder / "t.csv", index=False)
    done = command(
        "complete", folder / "t.csv", "--level", "0.9", "--save", folder / "m.skops", "--json"
    )
    assert done.code == 0, done
    return folder, done


def test_a_table_is_completed_within_the_limits_that_it_tells(completed):
    folder, done = completed
    frame, Z, limit = table_of_measurements()
    out = pd.read_csv(folder / "t.complete.csv")
    below = frame["lead"].str.startswith("<").to_numpy()
    above = frame["dose"].str.startswith(">").to_numpy()
    assert (out["lead"][below] <= limit).all() and (out["dose"][above] >= 4.5).all()
    assert 3 <= out["zinc"][3] <= 6
    assert not out[["lead", "zinc", "iron", "dose"]].isna().any().any()
    np.testing.assert_allclose(out["lead"][~below], frame["lead"][~below].astype(float))
    errors = np.abs(out["lead"][below] - Z[below, 0])
    assert errors.mean() < np.abs(limit / 2 - Z[below, 0]).mean()
    inside = (out["lead_lower"] <= Z[:, 0]) & (Z[:, 0] <= out["lead_upper"])
    assert inside[below].mean() > 0.6 and (out["lead_upper"][below] <= limit + 1e-9).all()
    record = json.loads(done.out)
    assert record["filled"] == below.sum() + above.sum() + 2
    notes = " ".join(record["notes"])
    assert "Column 'lead' of numbers has" in notes and "state limits" in notes
    assert "3-6' in row 4" in notes


def test_the_code_of_the_report_gives_the_same(completed):
    from test_cli import code_of

    folder, _ = completed
    code = code_of(folder / "t.complete.html").replace("'t.csv'", repr(str(folder / "t.csv")))
    found = {}
    with pytest.warns(UserWarning, match="states? limits"):
        exec(code, found)
    out = pd.read_csv(folder / "t.complete.csv")
    for name in ("lead", "zinc", "iron", "dose"):
        np.testing.assert_allclose(found["completed"][name], out[name], rtol=1e-4)


def test_new_rows_that_tell_limits_are_scored(completed):
    folder, _ = completed
    frame, _, limit = table_of_measurements()
    frame.head(8).to_csv(folder / "new.csv", index=False)
    done = command("score", folder / "m.skops", folder / "new.csv")
    assert done.code == 0, done
    out = pd.read_csv(folder / "new.score.csv")
    below = frame["lead"].head(8).str.startswith("<").to_numpy()
    assert below.any() and (out["lead"][below] <= limit).all()


def test_other_commands_leave_such_cells_as_they_are(tmp_path):
    frame, _, _ = table_of_measurements()
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = command("embed", tmp_path / "t.csv")
    assert done.code == 0 and "other commands do not use them" in done.err
    out = pd.read_csv(tmp_path / "t.embed.csv", dtype=str, keep_default_na=False)
    assert out["lead"].tolist() == frame["lead"].tolist()


def test_limits_that_cross_are_refused_with_row_and_column(tmp_path):
    frame, _, _ = table_of_measurements()
    frame.loc[8, "zinc"] = "6-3"
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = command("complete", tmp_path / "t.csv")
    assert done.code == 2
    assert "Row 9 of column 'zinc' holds '6-3'" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
    again = command("complete", tmp_path / "t.csv", "--missing", "zinc=6-3")
    assert again.code == 0, again


def test_columns_of_limits_alone_are_categories(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=60)
    ages = np.array(["<18", "18-40", ">40"])[np.digitize(x, [-0.5, 0.5])]
    table = pd.DataFrame({"age": ages, "x": x.round(3), "y": (x + 0.1 * random.normal(size=60))})
    table.loc[0, "y"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("complete", tmp_path / "t.csv")
    assert done.code == 0 and "age (3)" in done.out and "limits" not in done.err
