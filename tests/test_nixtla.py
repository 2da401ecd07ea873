"""Long tables in the manner of Nixtla: names of columns, own last times, inputs, and refusals."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from regfactor import AutoForecaster
from regfactor.nixtla import forecast

MONTHS = pd.date_range("2020-01-01", periods=40, freq="MS")


def sales(seed=0, n_rows=40):
    return 50 + np.random.default_rng(seed).normal(size=n_rows).cumsum()


@pytest.fixture(scope="module")
def df():
    return pd.DataFrame(
        {"unique_id": ["b"] * 40 + ["a"] * 40, "ds": [*MONTHS] * 2, "y": [*sales(1), *sales(2)]}
    )


def test_forecasts_are_those_of_the_library(df):
    made = forecast(
        df.sample(frac=1, random_state=0).sort_values("unique_id"), 3, level=[80, 95], season=1
    )
    assert list(made.columns) == [
        "unique_id",
        "ds",
        "AutoForecaster",
        "AutoForecaster-lo-80",
        "AutoForecaster-hi-80",
        "AutoForecaster-lo-95",
        "AutoForecaster-hi-95",
    ]
    assert made["unique_id"].tolist() == ["a"] * 3 + ["b"] * 3
    wide = pd.DataFrame({"a": sales(2), "b": sales(1)}, index=MONTHS)
    plain = AutoForecaster(1, horizon=3).fit(wide).forecast(level=0.95)
    np.testing.assert_allclose(made["AutoForecaster"], plain.mean.T.ravel())
    np.testing.assert_allclose(made["AutoForecaster-hi-95"], plain.upper.T.ravel())
    assert made["ds"].tolist() == list(pd.date_range("2023-05-01", periods=3, freq="MS")) * 2


def test_each_series_goes_on_at_its_own_end(df):
    ragged = df.drop(df.index[35:40])  # b ends five months earlier
    made = forecast(ragged, 2, season=1)
    ends = made.groupby("unique_id")["ds"].min()
    assert ends["b"] == pd.Timestamp("2022-12-01") and ends["a"] == pd.Timestamp("2023-05-01")
    alone = forecast(ragged[ragged.unique_id == "b"], 2, season=1)
    np.testing.assert_allclose(
        made.loc[made.unique_id == "b", "AutoForecaster"], alone["AutoForecaster"]
    )


def test_polars_names_of_columns_and_words(df):
    table = pl.DataFrame(
        {"shop": df.unique_id.tolist(), "month": [d.date() for d in df.ds], "sold": df.y.to_numpy()}
    )
    made = forecast(table, 2, id_col="shop", time_col="month", target_col="sold", season=1)
    assert made.columns == ["shop", "month", "AutoForecaster"] and made.schema["month"] == pl.Date
    words = forecast(df.assign(ds=df.ds.astype(str)), 2, season=1)
    np.testing.assert_allclose(made["AutoForecaster"].to_numpy(), words["AutoForecaster"])


def test_inputs_of_each_series(df):
    rng = np.random.default_rng(3)
    price = rng.normal(size=80)
    own = df.assign(price=price, y=df.y + 10 * price)
    ahead = pd.DataFrame(
        {
            "unique_id": ["b", "b", "a", "a"],
            "ds": [*pd.date_range("2023-05-01", periods=2, freq="MS")] * 2,
        }
    ).assign(price=[1.0, -1.0, -1.0, 1.0])
    made = forecast(own, 2, X_df=ahead, season=1).set_index("unique_id")["AutoForecaster"]
    assert made["b"].iloc[0] > made["b"].iloc[1] + 10 and made["a"].iloc[0] < made["a"].iloc[1] - 10
    common = df.assign(price=[*price[:40]] * 2)
    both = forecast(common, 2, X_df=ahead.assign(price=0.5), season=1)
    assert len(both) == 4
    with pytest.raises(ValueError, match="inputs 'price'.*X_df"):
        forecast(own, 2)
    with pytest.raises(ValueError, match="X_df has no column 'price'"):
        forecast(own, 2, X_df=ahead[["unique_id", "ds"]])
    with pytest.raises(ValueError, match="no row for 2023-06-01"):
        forecast(own, 2, X_df=ahead[ahead.ds < "2023-06-01"], season=1)
    with pytest.raises(ValueError, match="no columns of inputs"):
        forecast(df, 2, X_df=ahead)


def test_bad_arguments_are_refused(df):
    with pytest.raises(ValueError, match=r"no column 'unique_id'.*id_col"):
        forecast(df.rename(columns={"unique_id": "id"}), 2)
    with pytest.raises(ValueError, match="percent between 1 and 100.*0.8"):
        forecast(df, 2, level=[0.8])
    with pytest.raises(ValueError, match="h must be"):
        forecast(df, 0)
    with pytest.raises(ValueError, match="several rows at"):
        forecast(pd.concat([df, df[:1]]), 2)
    with pytest.raises(ValueError, match="left out, the first is 2021-02-01"):
        forecast(df[df.ds != pd.Timestamp("2021-02-01")], 2)
