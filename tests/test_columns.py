"""Mixed tables: every kind of column goes to numbers and comes back as it was; every column weighs the same."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal as assert_polars_equal
from sklearn.base import clone

from regfactor import ConvexSubspace, ExponentialFamilyPCA, SubspaceImputer
from regfactor.fitting.schema import Schema
from regfactor.losses import Huber, Logistic, Ordinal, Poisson, Squared, Stacked

ROWS = 120
SIZES = ["small", "medium", "large", "huge"]
COLORS = ["red", "green", "blue"]
CITIES = ["Bergen", "Oslo", "Tromsø", "Ålesund"]


def pandas_table(rng, n=ROWS):
    """A complete frame with a column of every kind."""
    table = pd.DataFrame(
        {
            "float": rng.normal(5, 3, n),
            "single": rng.normal(size=n).astype(np.float32),
            "skewed": np.exp(2 * rng.normal(size=n)),
            "whole": pd.array(rng.integers(-90, 200, n), dtype="Int64"),
            "short": pd.array(rng.integers(0, 100, n), dtype="UInt8"),
            "truth": pd.array(rng.random(n) < 0.3, dtype="boolean"),
            "truth_objects": pd.Series([bool(b) for b in rng.random(n) < 0.6], dtype=object),
            "size": pd.Categorical.from_codes(rng.integers(0, 4, n), SIZES, ordered=True),
            "half": pd.Categorical.from_codes(
                rng.integers(0, 2, n), ["first", "second"], ordered=True
            ),
            "color": pd.Categorical.from_codes(rng.integers(0, 3, n), COLORS),
            "number_names": pd.Categorical.from_codes(rng.integers(0, 3, n), [30, 10, 20]),
            "city": rng.choice(CITIES, n),
            "city_objects": pd.Series(list(rng.choice(CITIES, n)), dtype=object),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    return table.set_index(pd.Index([f"row {i}" for i in range(n)], name="id"))


def polars_table(rng, n=ROWS):
    return pl.DataFrame(
        {
            "float": rng.normal(5, 3, n),
            "single": pl.Series(rng.normal(size=n), dtype=pl.Float32),
            "whole": rng.integers(-90, 200, n),
            "short": pl.Series(rng.integers(0, 100, n), dtype=pl.UInt8),
            "truth": rng.random(n) < 0.3,
            "size": pl.Series(rng.choice(SIZES, n), dtype=pl.Enum(SIZES)),
            "color": pl.Series(rng.choice(COLORS, n), dtype=pl.Categorical),
            "city": rng.choice(CITIES, n),
        }
    )


def with_missing(table, rng, share=0.2):
    """The table with a share of its cells missing, of the same types; and where."""
    mask = rng.random(table.shape) < share
    if isinstance(table, pl.DataFrame):
        columns = [
            pl.Series(
                c.name,
                [
                    None if missing_entry else v
                    for v, missing_entry in zip(c, mask[:, j], strict=True)
                ],
                dtype=c.dtype,
            )
            for j, c in enumerate(table.get_columns())
        ]
        return pl.DataFrame(columns), mask
    holed = table.copy()
    for j in range(table.shape[1]):
        holed.isetitem(j, table.iloc[:, j].mask(mask[:, j]))
    return holed, mask


TABLES = {"pandas": pandas_table, "polars": polars_table}
every_library = pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)


def assert_same(found, truth):
    """Equal to the last bit, except that scaled floats may round."""
    if isinstance(truth, pl.DataFrame):
        assert_polars_equal(found, truth, rel_tol=1e-5, abs_tol=1e-6)
    else:
        pd.testing.assert_frame_equal(found, truth, rtol=1e-5, atol=1e-6)


@every_library
def test_the_encoded_truth_fills_missing_with_the_truth(make):
    rng = np.random.default_rng(0)
    truth = make(rng)
    holed, _ = with_missing(truth, rng)
    schema = Schema.of(holed)
    assert_same(schema.decode(schema.encode(truth), holed), truth)


@every_library
def test_observed_cells_types_and_order_of_columns_are_kept(make):
    rng = np.random.default_rng(1)
    holed, mask = with_missing(make(rng), rng)
    schema = Schema.of(holed)
    filled = schema.decode(rng.uniform(0, 1, schema.encode(holed).shape), holed)
    assert list(filled.columns) == list(holed.columns)
    assert list(filled.dtypes) == list(holed.dtypes)
    for j, name in enumerate(holed.columns):
        before, after = holed[name].to_list(), filled[name].to_list()
        assert all(
            a == b
            for a, b, missing_entry in zip(after, before, mask[:, j], strict=True)
            if not missing_entry
        )
        assert not any(a is None or a is pd.NA or a != a for a in after)


@every_library
def test_decode_writes_to_none_of_its_arguments(make):
    rng = np.random.default_rng(2)
    holed, _ = with_missing(make(rng), rng)
    before = holed.clone() if isinstance(holed, pl.DataFrame) else holed.copy()
    schema = Schema.of(holed)
    predicted = rng.uniform(0, 1, schema.encode(holed).shape)
    kept = predicted.copy()
    schema.decode(predicted, holed)
    assert_same(holed, before)
    np.testing.assert_array_equal(predicted, kept)


@every_library
def test_every_column_has_a_null_loss_of_one_per_observed_entry(make):
    rng = np.random.default_rng(3)
    holed, _ = with_missing(make(rng), rng)
    schema = Schema.of(holed)
    E, found = schema.encode(holed), {}
    losses = {
        int(j): part
        for columns, part in schema.loss.parts(E.shape[1])
        for j in np.arange(E.shape[1])[columns]
    }
    owners = [item.column for item in schema.inferred for _ in range(item.width)]
    grid = np.linspace(-8, 8, 16001)[:, None]
    for j, owner in enumerate(owners):
        x = E[~np.isnan(E[:, j]), j]
        values, counts = np.unique(x, return_counts=True)
        least = -losses[j].conjugate(np.zeros_like(values), values)
        null = ((losses[j].value(grid, values[None]) - least) @ counts / len(x)).min()
        found[owner] = found.get(owner, 0) + schema.weights[j] * null
    np.testing.assert_allclose(list(found.values()), 1, rtol=1e-4)


def test_auto_infers_losses_and_says_so():
    rng = np.random.default_rng(4)
    schema = Schema.of(pandas_table(rng))
    found = {item.column: (item.kind, item.loss, item.width) for item in schema.inferred}
    assert found["float"] == ("numeric", "Squared()", 1)
    assert found["short"] == ("numeric", "Squared()", 1)  # counts only when asked
    assert found["truth"] == ("boolean", "Logistic()", 1)
    assert found["size"] == ("ordered", "Logistic()", 3)  # steps between four levels
    assert found["half"] == ("ordered", "Logistic()", 1)
    assert found["color"] == ("unordered", "Logistic()", 3)
    assert found["city"] == ("text", "Logistic()", 4)
    assert found["sex"] == ("text", "Logistic()", 1)
    assert {"color=red", "sex=m", "size>small", "size>large"} <= set(schema.feature_names)
    assert (
        len(schema.feature_names)
        == len(schema.weights)
        == schema.encode(pandas_table(rng)).shape[1]
    )
    lines = str(schema.inferred).splitlines()
    assert lines[0].split() == ["column", "kind", "loss", "encoded", "as"] and len(lines) == 15


def test_numbers_are_scaled_by_median_and_quartiles():
    x = np.array([1.0, 2.0, 3.0, 4.0, 1000.0, *[np.nan] * 5])
    flat = np.array([0.0, 0.0, 0.0, 0.0, 5.0, 2.0, *[0.0] * 4])  # no quartile range: the deviation
    two_valued = np.array([0.0, 0.0, 0.0, 0.0, 5.0, *[0.0] * 5])  # the distance of the two
    table = np.column_stack([x, flat, two_valued, np.full(10, 7.0)])
    E = Schema.of(table).encode(table)
    np.testing.assert_allclose(E[:, 0], (x - 3) / (2 / 1.349))
    np.testing.assert_allclose(E[:, 1], flat / flat.std())
    np.testing.assert_allclose(E[:, 2], two_valued / 5)
    np.testing.assert_array_equal(E[:, 3], 0)


def test_a_fully_stated_objective_is_left_as_stated():
    X = np.random.default_rng(5).poisson(3, (50, 4)).astype(float)
    for loss in ("squared", Huber(2.0), {0: "huber", 1: "squared", 2: "poisson", 3: "squared"}):
        schema = Schema.of(X, loss)
        np.testing.assert_array_equal(schema.weights, 1)
        np.testing.assert_array_equal(schema.encode(X), X)
    assert Schema.of(X, Huber(2.0)).loss == Huber(2.0)
    assert Schema.of(X > 2, "logistic").loss == Logistic()


def test_losses_are_given_by_name_index_slice_and_list_and_the_rest_is_auto():
    table = pandas_table(np.random.default_rng(6))
    by_name = {
        item.column: item.loss
        for item in Schema.of(table, {"short": "poisson", 0: Huber(0.5)}).inferred
    }
    assert by_name["short"] == str(Poisson()) and by_name["float"] == str(Huber(0.5))
    assert by_name["skewed"] == "Squared()" and by_name["size"] == "Logistic()"
    listed = Schema.of(
        table, [(["float", "skewed"], "huber"), ("color", "softmax"), ("size", "ordinal")]
    )
    losses = {item.column: (item.loss, item.width) for item in listed.inferred}
    assert losses["color"] == ("Softmax()", 3) and losses["size"] == (str(Ordinal(levels=4)), 1)
    assert losses["skewed"] == losses["float"] == (str(Huber()), 1)
    sliced = Schema.of(np.ones((9, 4)), [(slice(0, 2), "huber"), (3, "auto")])
    assert [item.loss for item in sliced.inferred] == [str(Huber())] * 2 + ["Squared()"] * 2


def test_a_loss_over_rows_keeps_its_columns_together():
    counts = np.random.default_rng(7).multinomial(10, [0.2, 0.3, 0.5], 40).astype(float)
    schema = Schema.of(
        np.column_stack([counts, np.arange(40.0)]), [([0, 1, 2], "multinomial"), (3, "auto")]
    )
    assert isinstance(schema.loss, Stacked)
    assert [list(columns) for columns, _ in schema.loss.groups] == [[0, 1, 2], [3]]
    assert len(set(schema.weights[:3])) == 1


@every_library
def test_a_category_never_seen_is_a_missing_entry_with_a_warning(make):
    rng = np.random.default_rng(8)
    table = make(rng)
    schema = Schema.of(table)
    new = ["Paris"] + table["city"].to_list()[1:]
    other = (
        table.with_columns(city=pl.Series(new))
        if isinstance(table, pl.DataFrame)
        else table.assign(city=new)
    )
    with pytest.warns(UserWarning, match=r"'city'.*'Paris'.*missing"):
        E = schema.encode(other)
    at = [name.startswith("city=") for name in schema.feature_names]
    assert (
        np.isnan(E[0, at]).all()
        and not np.isnan(E[1:]).any()
        and not np.isnan(E[0, ~np.array(at)]).any()
    )


def test_categories_are_matched_by_their_names():
    table = pd.DataFrame({"c": pd.Categorical(["a", "b", "c", "a"])})
    turned = pd.DataFrame({"c": pd.Categorical(["a", "b", "c", None], categories=["c", "b", "a"])})
    schema = Schema.of(table)
    E = schema.encode(turned)
    np.testing.assert_array_equal(E[:3], schema.encode(table)[:3])
    assert schema.decode(schema.encode(table), turned)["c"].tolist() == ["a", "b", "c", "a"]


def ordered(values, levels=SIZES):
    return pd.DataFrame({"size": pd.Categorical(values, levels, ordered=True)})


def test_ordered_levels_become_steps():
    table = ordered(["small", "large", None, "huge", "medium"])
    schema = Schema.of(table)
    assert schema.feature_names == ["size>small", "size>medium", "size>large"]
    nan = np.nan
    np.testing.assert_array_equal(
        schema.encode(table), [[0, 0, 0], [1, 1, 0], [nan, nan, nan], [1, 1, 1], [1, 0, 0]]
    )
    assert set(schema.originals) == {0}  # a cell is held out as a whole


def test_the_median_level_is_predicted():
    schema = Schema.of(ordered(SIZES))
    above = np.array([[0.4, 0.2, 0.1], [0.9, 0.4, 0.1], [0.9, 0.6, 0.3], [0.9, 0.8, 0.7]])
    assert schema.decode(above, ordered([None] * 4))["size"].tolist() == SIZES


def test_levels_that_do_not_occur_have_no_step_and_are_taken_later():
    table = ordered(["small", "large", "huge", None])
    schema = Schema.of(table)
    assert schema.feature_names == [
        "size>small",
        "size>large",
    ]  # offsets of steps that nothing tells would be infinite
    np.testing.assert_array_equal(schema.encode(ordered(["medium"])), [[1, 0]])
    filled = schema.decode(
        schema.encode(ordered(["small", "large", "huge", "huge"])), ordered([None] * 4)
    )
    assert filled["size"].tolist() == ["small", "large", "huge", "huge"]


def test_constant_and_empty_columns_do_no_harm():
    n = 30
    table = pd.DataFrame(
        {
            "x": np.arange(n) * 1.0,
            "constant": np.full(n, 3.0),
            "empty": np.full(n, np.nan),
            "always": pd.array([True] * (n - 1) + [None], dtype="boolean"),
            "one": pd.Categorical(["a"] * (n - 1) + [None]),
            "none": pd.Categorical([None] * n, categories=["p", "q"]),
        }
    )
    schema = Schema.of(table)
    E = schema.encode(table)
    np.testing.assert_array_equal(schema.weights[1:], 1)
    assert np.isfinite(schema.weights).all() and np.nanmax(np.abs(E)) < 10
    filled = schema.decode(np.zeros_like(E), table)
    assert filled["always"].all() and (filled["one"] == "a").all() and (filled["none"] == "p").all()
    assert list(filled.dtypes) == list(table.dtypes)


def test_a_column_without_a_type_in_new_rows_is_filled():
    rng = np.random.default_rng(9)
    for make, frame in ((pandas_table, pd.DataFrame), (polars_table, pl.DataFrame)):
        schema = Schema.of(make(rng))
        row = frame({name: [None] for name in make(rng).columns})
        E = schema.encode(row)
        assert np.isnan(E).all()
        assert not any(v is None for v in np.asarray(schema.decode(np.full(E.shape, 0.5), row))[0])


def test_counts_are_not_completed_by_negative_numbers():
    table = pd.DataFrame({"visits": [0, 3, np.nan, 7], "degrees": [-2.0, 4.0, np.nan, 1.0]})
    completed = Schema.of(table).decode(np.full((4, 2), -9.0), table)
    assert completed["visits"][2] == 0 and completed["degrees"][2] < -2


def test_arrays_stay_arrays():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(20, 3)).astype(np.float32)
    X[0, 0] = np.nan
    schema = Schema.of(X, "squared")
    assert schema.encode(X).dtype == np.float32
    filled = schema.decode(np.ones((20, 3)), X)
    assert filled.dtype == np.float32 and filled[0, 0] == 1
    objects = np.array(
        [[1, "a", True], [2, "b", None], [None, "a", False], [4, None, True]], dtype=object
    )
    schema = Schema.of(objects)
    assert [item.kind for item in schema.inferred] == ["numeric", "text", "boolean"]
    filled = schema.decode(schema.encode(objects[[0, 0, 3, 1]]), objects)
    assert filled.tolist() == [[1, "a", True], [2, "b", True], [4, "a", False], [4, "b", True]]
    assert Schema.of([[0, "a"], [1, "b"], [3, "a"], [2, "b"]]).inferred[0].kind == "numeric"


ERRORS = {
    "text": (
        {"note": [f"word {i}" for i in range(ROWS)]},
        "auto",
        r"'note' holds 120 different strings.*[Dd]rop",
    ),
    "dates": ({"day": pd.date_range("2020-01-01", periods=ROWS)}, "auto", r"'day'.*dates.*drop"),
    "date objects": ({"day": [datetime.date(2020, 1, 1)] * ROWS}, "auto", r"'day'.*dates.*drop"),
    "a string among numbers": (
        {"c": [1.0, None, "hello", 2.0]},
        "auto",
        r"'c' holds numbers, but row 2 .*'hello'.*NaN",
    ),
    "a number among strings": (
        {"c": ["a", 1, "b"]},
        "auto",
        r"'c' holds strings, but row 1 holds 1.*convert",
    ),
    "a truth value among numbers": (
        {"c": [1, 2, True]},
        "auto",
        r"'c' holds numbers, but row 2 holds True",
    ),
    "a date among numbers": (
        {"c": [1, 2, datetime.date(2020, 1, 1)]},
        "auto",
        r"'c' holds numbers, but row 2 holds date",
    ),
    "lists": ({"c": [[1], [2], "a"]}, "auto", r"'c' holds values of type list"),
    "no type": (
        {"what": pd.Series([None] * ROWS, dtype=object)},
        "auto",
        r"'what' has neither.*drop",
    ),
    "complex": ({"z": np.full(ROWS, 1j)}, "auto", r"'z'.*complex"),
    "infinity": ({"x": np.full(ROWS, np.inf)}, "auto", r"'x' contains infinity"),
    "one loss": (
        {"c": pd.Categorical(["a", "b"] * (ROWS // 2))},
        "squared",
        r"'c' holds categories.*loss='auto'",
    ),
    "wrong loss": (
        {"c": pd.Categorical(["a", "b"] * (ROWS // 2))},
        {"c": "squared"},
        r"'c' is an unordered category",
    ),
    "not ordinal": (
        {"o": pd.Categorical(SIZES * 30, ordered=True)},
        {"o": "logistic"},
        r"'o' has 4.*'ordinal'",
    ),
    "not a count": ({"x": np.full(ROWS, -1.0)}, {"x": "poisson"}, r"The loss Poisson.*column 'x'"),
    "unknown column": ({"x": np.ones(ROWS)}, {"y": "huber"}, r"'y'"),
    "out of range": ({"x": np.ones(ROWS)}, {5: "huber"}, r"columns 5.*\['x'\]"),
    "twice": ({"x": np.ones(ROWS)}, [("x", "huber"), (0, "squared")], r"\['x'\] are given several"),
    "nested": (
        {"x": np.ones(ROWS)},
        {"x": ["huber"]},
        r"takes a string or a Loss, got \['huber'\]",
    ),
    "unknown loss": ({"x": np.ones(ROWS)}, {"x": "hubber"}, r"Did you mean 'huber'"),
}


@pytest.mark.parametrize(("columns", "loss", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_column_and_the_remedy(columns, loss, message):
    with pytest.raises(ValueError, match=message):
        Schema.of(pd.DataFrame(columns), loss)


def test_polars_dates_are_refused():
    with pytest.raises(ValueError, match=r"'day'.*Date.*drop"):
        Schema.of(pl.DataFrame({"day": [datetime.date(2020, 1, 1)] * 3}))


def test_new_tables_must_have_the_columns_of_the_fit():
    table = pandas_table(np.random.default_rng(11))
    schema = Schema.of(table)
    with pytest.raises(ValueError, match="13 columns, in fit it had 14"):
        schema.encode(table.drop(columns="city"))
    with pytest.raises(ValueError, match="'single' instead of 'float'"):
        schema.encode(table[["single", "float", *table.columns[2:]]])
    with pytest.raises(ValueError, match="'float' is text, in fit it was numeric"):
        schema.encode(table.assign(float=["a"] * ROWS))
    with pytest.raises(ValueError, match=r"'size' has the levels \['huge'"):
        schema.encode(table.assign(size=table["size"].cat.reorder_categories(SIZES[::-1])))


def some(values):
    return st.one_of(st.none(), values)


ROW = st.tuples(
    some(st.floats(-1e6, 1e6)),
    some(st.integers(-(2**31), 2**31 - 1)),
    some(st.booleans()),
    some(st.sampled_from(SIZES)),
    some(st.sampled_from(COLORS)),
    some(st.sampled_from(CITIES)),
)
NAMES = ["float", "whole", "truth", "size", "color", "city"]
ANCHORS = [(float(i), i, i % 2 == 0, SIZES[i % 4], COLORS[i % 3], CITIES[i % 4]) for i in range(12)]


def frames(rows):
    """The same rows as a pandas and as a polars frame; the anchors show every category at least once."""
    columns = dict(zip(NAMES, map(list, zip(*ANCHORS, *rows, strict=True)), strict=True))
    types = {"float": "float64", "whole": "Int64", "truth": "boolean", "city": "str"}
    types["size"], types["color"] = (
        pd.CategoricalDtype(SIZES, ordered=True),
        pd.CategoricalDtype(COLORS),
    )
    yield pd.DataFrame({name: pd.Series(columns[name], dtype=types[name]) for name in NAMES})
    schema = dict(
        zip(
            NAMES,
            [pl.Float64, pl.Int64, pl.Boolean, pl.Enum(SIZES), pl.Categorical, pl.String],
            strict=True,
        )
    )
    yield pl.DataFrame(columns, schema=schema, strict=False)


@settings(max_examples=15)
@given(st.lists(ROW, max_size=8), st.integers(0, 2**32 - 1))
def test_what_is_encoded_comes_back(rows, seed):
    for truth in frames(rows):
        holed, _ = with_missing(truth, np.random.default_rng(seed), 0.3)
        schema = Schema.of(truth)
        E = schema.encode(truth)
        predicted = np.where(np.isnan(E), 0.5, E)
        assert_same(schema.decode(predicted, holed), schema.decode(predicted, truth))
        if not np.isnan(E).any():
            assert truth.equals(schema.decode(predicted, truth))


def test_scales_do_not_change_weights():
    X = np.random.default_rng(12).normal(size=(40, 3))
    np.testing.assert_allclose(
        Schema.of(X * [1, 1e4, 1e-4] + 7).weights, Schema.of(X).weights, rtol=1e-6
    )
    assert Schema.of(X).loss == Squared()


@pytest.mark.filterwarnings("ignore:.*no observed entry")
@pytest.mark.parametrize(
    "frame", [lambda d: pd.DataFrame(d).astype("boolean"), pd.DataFrame, pl.DataFrame]
)
@pytest.mark.parametrize(
    "model",
    [
        ExponentialFamilyPCA(1, "bernoulli"),
        ConvexSubspace(),
        ConvexSubspace("logistic"),
        SubspaceImputer("auto", alpha=1.0, debias=False),
    ],
    ids=str,
)
def test_truth_values_are_completed_by_the_likelier(model, frame):
    rng = np.random.default_rng(0)
    shares = {"seldom": 0.2, "mostly": 0.8, "never": 0.0}
    drawn = {name: (rng.random(100) < share).tolist() for name, share in shares.items()}
    missing = {name: rng.choice(100, 20, replace=False) for name in shares}
    answers = frame(
        {
            name: [None if i in missing[name] else v for i, v in enumerate(drawn[name])]
            for name in shares
        }
    )
    done = clone(model).fit(answers).complete(answers)
    for name, share in shares.items():
        filled = [list(done[name])[i] for i in missing[name]]
        assert all(isinstance(v, bool | np.bool) for v in filled)
        assert abs(np.mean(filled) - round(share)) < 0.2
