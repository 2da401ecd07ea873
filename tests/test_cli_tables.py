"""Tables from files, and what their columns are taken for."""

import gzip

import numpy as np
import pandas as pd
import pytest
from console import command, people

from regfactor.cli.columns import (
    CATEGORY,
    DATE,
    EMPTY,
    FLAG,
    FLAGS,
    FREE_TEXT,
    ID,
    NUMBER,
    ONE,
    TEXT,
    Wishes,
    forced,
    understand,
)
from regfactor.cli.errors import BadInput
from regfactor.cli.tables import Reading, read


def of_text(tmp_path, text, name="t.csv", **reading):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, Reading(**reading))


def kinds(table, **wishes):
    return {c.name: c.kind for c in understand(table, Wishes(**wishes)).columns}


def test_cells_of_a_csv_file_stay_what_they_are(tmp_path):
    table = of_text(tmp_path, 'code,x\n007,1.50\n"a,b",\n')
    assert table.raw.to_numpy().tolist() == [["007", "1.50"], ["a,b", ""]]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path, separator):
    table = of_text(tmp_path, "a,b,c\n1,2,3\n4,5,6\n".replace(",", separator))
    assert table.names == ["a", "b", "c"] and len(table.raw) == 2


def test_decimal_commas_go_with_semicolons(tmp_path):
    seen = understand(of_text(tmp_path, "a;b\n1,5;2\n-3,25;3\n0,5;5\n"))
    assert seen.frame["a"].tolist() == [1.5, -3.25, 0.5]


def test_byte_order_mark_gzip_and_encodings_are_read(tmp_path):
    assert of_text(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n").names == ["a", "b"]
    assert of_text(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz").names == ["a", "b"]
    table = of_text(tmp_path, "näme,b\n1,2\n".encode("latin-1"), encoding="latin-1")
    assert table.names == ["näme", "b"]


def test_a_file_without_a_header(tmp_path):
    table = of_text(tmp_path, "1,2\n3,4\n", header=False)
    assert table.names == ["x0", "x1"] and len(table.raw) == 2
    assert "--no-header" in of_text(tmp_path, "1,2\n3,4\n").notes[0]


def test_rows_with_too_few_cells_are_noted(tmp_path):
    table = of_text(tmp_path, 'a,b,c\n1,2,3\n\n4,"5"\n7,8,\n9\n')
    assert table.notes == (
        "2 rows have fewer cells than the 3 columns, the first of them row 2; what they lack was "
        "taken for missing.",
    )
    assert table.raw.to_numpy().tolist()[1] == ["4", "5", ""]
    assert (
        of_text(tmp_path, "a,b\n1\n2,3\n")
        .notes[0]
        .startswith("Row 1 has fewer cells than the 2 columns; ")
    )
    assert (
        not of_text(tmp_path, "a,b\n1,\n,\n2,\n").notes
        and not of_text(tmp_path, "a\n1\n\n2\n").notes
    )


def test_a_single_column_keeps_its_gaps(tmp_path):
    seen = understand(of_text(tmp_path, "x\n1\n\n3.5\n"))
    assert np.isnan(seen.frame["x"][1]) and len(seen.frame) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "no rows"),
        ("a,b,a\n1,2,3\n", "2 columns called 'a'"),
        ("a,b\n1,2\n1,2,3\n", "Row 2"),
        ("a,b\n1,2,3\n", "Row 1"),
        ("a,b\n1,2,3,4,5\n", "Row 1"),
        ('a,b\n1,"2\n', "no table"),
        ("a\0b\n1\n", "zero bytes"),
        (",,\n,,\n", "cannot be read"),
    ],
)
def test_text_that_is_no_table_is_refused(tmp_path, text, words):
    with pytest.raises(BadInput, match=words):
        of_text(tmp_path, text)


def test_files_that_are_not_there_suggest_the_nearest(tmp_path):
    (tmp_path / "people.csv").write_text("a\n1\n")
    with pytest.raises(BadInput, match=r"did you mean 'people.csv'"):
        read(tmp_path / "poeple.csv")
    (tmp_path / "one.csv").write_text("a\n1\n")
    with pytest.raises(BadInput, match=r"nope.csv\.$"):  # alike by its ending only
        read(tmp_path / "nope.csv")
    with pytest.raises(BadInput, match="not a file"):
        read(tmp_path)
    (tmp_path / "t.doc").write_text("a")
    with pytest.raises(BadInput, match="the ending gives the format"):
        read(tmp_path / "t.doc")


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_columnar_files_keep_their_types(tmp_path, name):
    frame = pd.DataFrame(
        {"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])}, index=[5, 7]
    )
    write = frame.to_parquet if name == "t.parquet" else frame.reset_index().to_feather
    write(tmp_path / name)
    table = read(tmp_path / name)
    assert table.names == ["index", "a", "b", "c"] and table.columnar and not table.text
    (tmp_path / name).write_bytes(b"PAR1 no")
    with pytest.raises(BadInput, match="is no (Parquet|Feather) file"):
        read(tmp_path / name)


def test_archives_of_arrays(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=[1, 2, 3], other=np.ones((2, 2)))
    assert read(tmp_path / "t.npz").names == ["x0", "x1", "x2", "y"]
    np.savez(tmp_path / "t.npz", a=np.eye(3), b=np.eye(2))
    with pytest.raises(BadInput, match="one two-dimensional array"):
        read(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", X=np.array([[{}]], dtype=object))
    with pytest.raises(BadInput, match="no archive of plain arrays"):
        read(tmp_path / "t.npz")
    (tmp_path / "t.npz").write_text("nothing")
    with pytest.raises(BadInput, match="no archive"):
        read(tmp_path / "t.npz")


def test_columns_are_taken_for_what_they_hold(tmp_path):
    people()[0].to_csv(tmp_path / "t.csv", index=False)
    found = kinds(read(tmp_path / "t.csv"))
    assert found == {
        "id": ID,
        "height": NUMBER,
        "weight": NUMBER,
        "age": NUMBER,
        "waist": NUMBER,
        "smokes": FLAG,
        "size": CATEGORY,
        "notes": FREE_TEXT,
        "visit": DATE,
        "empty": EMPTY,
    }


def test_one_value_among_blanks_is_no_category(tmp_path):
    table = of_text(tmp_path, "vip,land\n" + "x,de\n,de\n" * 10)
    assert (
        kinds(table) == {"vip": ONE, "land": CATEGORY}
        and kinds(table, use=("vip",))["vip"] == CATEGORY
    )
    pd.DataFrame({"vip": pd.Categorical(["x", None] * 10), "u": range(20)}).to_parquet(
        tmp_path / "t.parquet"
    )
    assert kinds(read(tmp_path / "t.parquet"))["vip"] == ONE


def test_names_of_flagged_cells_are_no_category(tmp_path):
    table = of_text(tmp_path, "flagged,a,b\n" + "a,1.5,2\n,2,3\na; b,3,4.5\n" * 10)
    assert (
        kinds(table)["flagged"] == FLAGS and kinds(table, use=("flagged",))["flagged"] == CATEGORY
    )
    table = of_text(tmp_path, "flagged,a,b\n" + "late,1.5,2\n,2,3\nearly,3,4.5\n" * 10)
    assert kinds(table)["flagged"] == CATEGORY


def test_the_user_has_the_last_word(tmp_path):
    people()[0].to_csv(tmp_path / "t.csv", index=False)
    table = read(tmp_path / "t.csv")
    found = kinds(table, text=("notes",), use=("id",))
    assert found["notes"] == TEXT and found["id"] == NUMBER
    seen = understand(table, Wishes(ignore=("height",)))
    assert "height" not in seen.data.columns
    assert next(c for c in seen.ignored if c.name == "height").why == "as you said"
    with pytest.raises(BadInput, match="did you mean 'height'"):
        understand(table, Wishes(ignore=("heigth",)))


def test_codes_with_a_leading_zero_are_no_numbers(tmp_path):
    rows = "".join(f"0{i % 9},{i / 3:.2f}\n" for i in range(40))
    assert kinds(of_text(tmp_path, "zip,x\n" + rows))["zip"] == CATEGORY


def test_a_little_text_among_numbers_is_listed_by_its_row(tmp_path):
    rows = [f"{i + 0.5},{i}\n" for i in range(20)]
    rows[11] = "tall,3\n"
    seen = understand(of_text(tmp_path, "h,k\n" + "".join(rows)))
    assert np.isnan(seen.frame["h"][11]) and not seen.missing["h"][11]
    (note,) = seen.notes()
    assert "'h'" in note and "'tall' in row 12" in note and '--missing "h=tall"' in note
    with pytest.raises(BadInput, match="'tall' in row 12"):  # a target must be sure
        understand(of_text(tmp_path, "h,k\n" + "".join(rows)), Wishes(target="h"))
    for i in range(8):
        rows[i] = f"tall{i},3\n"
    with pytest.raises(BadInput, match="'tall0' in row 1, 'tall1' in row 2"):
        understand(of_text(tmp_path, "h,k\n" + "".join(rows)))
    rows[:8] = [f"{i + 0.5},{i}\n" for i in range(8)]
    table = of_text(tmp_path, "h,k\n" + "".join(rows), missing=("tall",))
    assert np.isnan(understand(table).frame["h"][11])


def test_a_few_words_among_categories_of_numbers_are_categories(tmp_path):
    rows = ["1\n", "2\n", "4+\n", "4+\n"] * 8
    assert kinds(of_text(tmp_path, "rooms\n" + "".join(rows)))["rooms"] == CATEGORY


@pytest.mark.parametrize("value", ["inf", "1e400", "-1e200"])
def test_numbers_that_no_model_can_square_are_refused(tmp_path, value):
    text = "a,b\n" + "".join(f"{i}.5,{i}\n" for i in range(9)) + f"{value},3\n"
    with pytest.raises(BadInput, match="'a' holds .* in row 10"):
        understand(of_text(tmp_path, text))


def test_a_number_beside_which_all_others_vanish_is_refused(tmp_path):
    text = "a,b\n" + "".join(f"{i}.5,{i}\n" for i in range(9)) + "-1e60,3\n"
    with pytest.raises(
        BadInput, match="'a' holds -1e[+]60 in row 10, where others differ by about 4.5"
    ):
        understand(of_text(tmp_path, text))
    assert kinds(of_text(tmp_path, text.replace("-1e60", "-1e9")))["a"] == NUMBER


def test_new_rows_are_read_as_the_model_was_fitted(tmp_path):
    wanted = {"x": NUMBER, "f": FLAG, "c": CATEGORY}
    frame = forced(of_text(tmp_path, "c,f,x\n1,1,\n2,,3\n"), wanted)
    assert frame["c"].tolist() == ["1", "2"] and frame["f"][0] and frame["x"][1] == 3
    for text, words in (
        ("c,f\n1,1\n", "no column 'x'"),
        ("c,f,x\n1,1,many\n", "holds text now"),
        ("c,f,x\n1,7,1\n", "holds 7 now"),
    ):
        with pytest.raises(BadInput, match=words):
            forced(of_text(tmp_path, text), wanted)


def test_marks_between_thousands_are_read_where_they_can_be_nothing_else(tmp_path):
    def numbers(text):
        (tmp_path / "t.csv").write_text(text)
        seen = understand(read(tmp_path / "t.csv"))
        return {c.name: seen.frame[c.name].tolist() for c in seen.inputs if c.kind == "number"}

    german = numbers("a;b\n18.654,98;1.234\n7,5;5.678\n1.000.000;2.5\n-1.200;0.5\n")
    assert german == {"a": [18654.98, 7.5, 1e6, -1200.0], "b": [1.234, 5.678, 2.5, 0.5]}
    english = numbers('a,b\n"18,654.98",1\n7.5,2\n"1,000,000",4\n-12,3\n')
    assert english == {"a": [18654.98, 7.5, 1e6, -12.0], "b": [1.0, 2.0, 4.0, 3.0]}


def test_a_number_that_may_mark_missing_cells_is_told(tmp_path):
    age = [-99 if i % 6 == 0 else 20 + i % 50 for i in range(120)]
    rating = [99 if i % 9 == 0 else 1 + i % 5 for i in range(120)]
    pd.DataFrame(
        {"age": age, "rating": rating, "x": np.arange(120) % 99 + 0.5, "nines": np.arange(120) % 10}
    ).to_csv(tmp_path / "t.csv", index=False)
    done = command("complete", tmp_path / "t.csv")
    said = " ".join(done.err.split())
    assert (
        done.code == 0
        and "-99 occurs 20 times in column 'age'" in said
        and "add --missing -99" in said
    )
    assert "99 occurs 14 times in column 'rating'" in said and "nines" not in said
    assert "Column 'age' has heavy tails" in said  # of negative numbers there is no logarithm
    assert "logarithm" not in said.split("Column 'age' has heavy tails")[1].split("note:")[0]
