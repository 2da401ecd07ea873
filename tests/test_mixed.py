"""Frames of numbers, truth values, ordered and unordered categories: filled, embedded, and given back as they came."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from regfactor import ConvexSubspace, FactorModel, SubspaceImputer
from regfactor.penalties import Trace

SIZES = ["small", "medium", "large", "huge"]
COLORS = ["red", "green", "blue"]


def complete_frame(n=150, seed=0):
    """Six columns of five types that share two causes."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n, 2))
    mix = causes @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(n, 8))
    return pd.DataFrame(
        {
            "weight": 70 + 10 * mix[:, 0],
            "height": (170 + 8 * mix[:, 1]).astype(np.float32),
            "visits": pd.array(np.rint(20 + 5 * mix[:, 2]).astype(int), dtype="Int64"),
            "member": pd.array(mix[:, 3] > 0, dtype="boolean"),
            "size": pd.Categorical.from_codes(
                np.digitize(mix[:, 4], [-1, 0, 1]), SIZES, ordered=True
            ),
            "color": pd.Categorical.from_codes(mix[:, 5:].argmax(axis=1), COLORS),
        }
    )


def with_missing(frame, share=0.2, seed=1):
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def error(completed, truth, missing):
    """Misses of labels, and root mean square in units of the standard deviation, over what was missing."""
    out = {}
    for name in truth:
        at = missing[name].isna().to_numpy()
        if truth[name].dtype.kind in "fiu":
            away = completed[name].to_numpy(float)[at] - truth[name].to_numpy(float)[at]
            out[name] = np.sqrt(np.mean(away**2)) / truth[name].to_numpy(float).std()
        else:
            out[name] = np.mean(completed[name].to_numpy()[at] != truth[name].to_numpy()[at])
    return out


def test_a_frame_of_five_types_round_trips():
    truth = complete_frame()
    missing = with_missing(truth)
    completed = SubspaceImputer(loss="auto", alpha="auto", random_state=0).fit_transform(missing)
    assert not completed.isna().any().any()
    pd.testing.assert_index_equal(completed.columns, truth.columns)
    pd.testing.assert_series_equal(completed.dtypes, missing.dtypes)
    for name in truth:
        seen = missing[name].notna()
        pd.testing.assert_series_equal(completed.loc[seen, name], missing.loc[seen, name])


def test_shared_causes_fill_better_than_the_mean_or_the_mode():
    truth = complete_frame(300)
    missing = with_missing(truth)
    ours = error(
        SubspaceImputer(loss="auto", alpha="auto", random_state=0).fit_transform(missing),
        truth,
        missing,
    )
    plain = missing.copy()
    for name in plain:
        numeric = plain[name].dtype.kind in "fiu"
        fill = plain[name].astype(float).mean() if numeric else plain[name].mode()[0]
        plain[name] = (
            plain[name].astype(float).fillna(fill) if numeric else plain[name].fillna(fill)
        )
    theirs = error(plain, truth, missing)
    assert all(ours[name] < 0.8 * theirs[name] for name in truth), (ours, theirs)


def test_polars_frames_come_back_as_polars():
    truth = complete_frame(100)
    missing = with_missing(truth)
    frame = pl.DataFrame(
        {
            name: pl.Series(
                name, [None if pd.isna(v) else v for v in missing[name].astype(object)], dtype=kind
            )
            for name, kind in zip(
                missing,
                [pl.Float64, pl.Float32, pl.Int64, pl.Boolean, pl.Enum(SIZES), pl.Categorical],
                strict=True,
            )
        }
    )
    model = ConvexSubspace(loss="auto", alpha=5.0).fit(frame)
    completed = model.complete(frame)
    assert completed.schema == frame.schema and completed.null_count().sum_horizontal()[0] == 0
    pandas = ConvexSubspace(loss="auto", alpha=5.0).fit(missing)
    assert model.objective_ == pytest.approx(pandas.objective_, rel=1e-3)


def test_training_rows_get_their_codes_again():
    missing = with_missing(complete_frame())
    model = ConvexSubspace(loss="auto", alpha=5.0).fit(missing)
    np.testing.assert_allclose(model.transform(missing), model.codes_, atol=1e-5)
    np.testing.assert_allclose(model.transform(missing.iloc[:7]), model.codes_[:7], atol=1e-5)
    assert model.relative_gap_ <= model.tol
    assert (
        model.components_.shape[1] == 10
    )  # three colors are three columns, and so are the steps between four sizes


@pytest.mark.filterwarnings("ignore:.*has no component")
def test_every_column_weighs_the_same_where_nothing_is_shared():
    missing = with_missing(complete_frame())
    model = ConvexSubspace(loss="auto", alpha=1e6).fit(missing)  # nothing but offsets
    assert model.codes_.shape[1] == 0
    assert model.objective_ == pytest.approx(missing.notna().to_numpy().sum(), rel=1e-6)


def test_the_scale_of_a_column_does_not_matter():
    missing = with_missing(complete_frame())
    other = missing.assign(weight=1e6 * missing["weight"] - 3e7)
    one, two = (ConvexSubspace(loss="auto", alpha=5.0, tol=1e-7).fit(X) for X in (missing, other))
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)
    np.testing.assert_allclose(
        1e6 * one.complete(missing)["weight"] - 3e7, two.complete(other)["weight"], rtol=1e-4
    )


def test_some_losses_are_given_and_the_rest_is_read_off():
    missing = with_missing(complete_frame())
    model = ConvexSubspace(loss={"visits": "poisson", "color": "logistic"}, alpha=5.0).fit(missing)
    completed = model.complete(missing)
    pd.testing.assert_series_equal(completed.dtypes, missing.dtypes)
    assert (completed["visits"] >= 0).all()


def test_a_generic_model_takes_mixed_frames_too():
    missing = with_missing(complete_frame())
    convex = FactorModel("auto", gauge=Trace(), alpha=5.0).fit(missing)
    local = FactorModel("auto", rank=2, alpha=0.5, random_state=0).fit(missing)
    for model in (convex, local):
        pd.testing.assert_series_equal(model.complete(missing).dtypes, missing.dtypes)


def test_weights_of_entries_are_those_of_the_original_columns():
    missing = with_missing(complete_frame())
    ones = np.ones(missing.shape)
    a, b = (
        ConvexSubspace("auto", alpha=5.0, random_state=0).fit(missing, entry_weight=w)
        for w in (None, ones)
    )
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)
    ones[:, 5] = 0.0
    ignored = ConvexSubspace("auto", alpha=5.0, random_state=0).fit(missing, entry_weight=ones)
    assert np.abs(ignored.components_[:, 7:]).max() < 1e-6


def test_an_imputer_stands_in_a_pipeline():
    truth = complete_frame(200)[["weight", "height", "visits"]].astype(float)
    y = truth.sum(axis=1).to_numpy()
    missing = with_missing(truth, share=0.1, seed=2)
    assert missing.notna().any(axis=1).all()
    pipeline = make_pipeline(SubspaceImputer(alpha=1.0), LinearRegression()).fit(
        missing[:150], y[:150]
    )
    assert pipeline.score(missing[150:], y[150:]) > 0.5
    imputer = pipeline[0]
    assert imputer.get_feature_names_out().tolist() == ["weight", "height", "visits"]


def test_categories_under_one_loss_for_numbers_are_refused():
    with pytest.raises(ValueError, match="loss='auto'"):
        ConvexSubspace().fit(with_missing(complete_frame()))


def test_other_columns_than_in_fit_are_refused():
    missing = with_missing(complete_frame())
    model = ConvexSubspace("auto", alpha=5.0).fit(missing)
    with pytest.raises(ValueError, match="feature names|columns"):
        model.transform(missing[["color", "weight", "height", "visits", "member", "size"]])
    with pytest.warns(UserWarning, match="violet"):
        model.transform(missing.assign(color=["violet"] * len(missing)))


def test_numbers_in_an_array_may_be_auto():
    X = complete_frame()[["weight", "height"]].to_numpy(float)
    X[::7, 0] = np.nan
    completed = SubspaceImputer("auto", alpha=1.0).fit_transform(X)
    assert isinstance(completed, np.ndarray) and np.isfinite(completed).all()


def test_whole_numbers_stay_whole():
    frame = pd.DataFrame({"count": np.arange(30), "value": np.arange(30) * 2.0})
    frame.loc[3, "value"] = np.nan
    completed = ConvexSubspace(alpha=0.1, scale=False).fit(frame).complete(frame)
    pd.testing.assert_series_equal(completed["count"], frame["count"])
    assert completed["value"][3] == pytest.approx(6.0, rel=0.05)
