"""Tables that cannot be fitted are refused by column and with a remedy, before any work."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from regfactor import (
    ConvexFactorClassifier,
    ConvexSparseCoding,
    ConvexSubspace,
    ExpectationSVC,
    FactorModel,
    KernelSubspace,
)
from regfactor.core.loop import Status
from regfactor.fitting.inputs import validated
from regfactor.problems.layout import Dense

X = np.random.default_rng(0).normal(size=(20, 4))
DAYS = pd.date_range("2024-01-01", periods=20)
ESTIMATORS = {
    "squared": ConvexSubspace(),
    "auto": ConvexSubspace("auto"),
    "kernel": KernelSubspace(),
}


def frame(column):
    return pd.DataFrame({"a": X[:, 0], "when": column, "b": X[:, 1]})


ODD = {
    "dates": (frame(DAYS), "'when'.*days since the first"),
    "date objects": (frame(DAYS.date), "'when'.*days since the first"),
    "periods": (frame(DAYS.to_period("D")), "'when'.*days since the first"),
    "durations": (frame(DAYS - DAYS[0]), "'when'.*days since the first"),
    "durations of polars": (
        pl.DataFrame({"a": X[:, 0], "when": (DAYS - DAYS[0]).to_pytimedelta().tolist()}),
        "'when'.*days since the first",
    ),
    "lists": (frame([[1, 2]] * 20), "'when'.*(one number a cell|must hold numbers)"),
    "lists of polars": (
        pl.DataFrame({"a": X[:, 0], "when": [[1, 2]] * 20}),
        "'when'.*(one number a cell|must hold numbers)",
    ),
    "complex column": (frame(X[:, 0] + 1j), "'when'.*(real and imaginary|must hold numbers)"),
    "complex array": (X + 1j, "[Cc]olumn 0.*(real and imaginary|must hold numbers)"),
    "array of durations": (
        np.full((5, 3), np.timedelta64(1, "D")),
        "[Cc]olumn 0.*days since the first",
    ),
    "no column": (pd.DataFrame(), "0 rows and 0 columns"),
    "no row": (pd.DataFrame({"a": [], "b": []}), "0 rows and 2 columns"),
}


@pytest.mark.parametrize("model", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize(("table", "message"), ODD.values(), ids=ODD)
def test_columns_that_hold_no_numbers_are_named_with_a_remedy(table, message, model):
    with pytest.raises(ValueError, match=message):
        model.fit(table)


@pytest.mark.parametrize("one", [DAYS.to_numpy(), pd.Series(DAYS), DAYS - DAYS[0]], ids=str)
def test_dates_in_one_dimension_are_refused(one):
    with pytest.raises(ValueError, match="X holds .*days since the first"):
        ConvexSubspace().fit(one)
    with pytest.raises(ValueError, match="y holds .*days since the first"):
        validated(ConvexSubspace(), X, one)


def test_a_complex_target_is_refused():
    with pytest.raises(ValueError, match="Complex data not supported: y holds"):
        validated(ConvexSubspace(), X, X[:, 0] + 1j)


@pytest.mark.parametrize("model", [ExpectationSVC(), ConvexFactorClassifier()], ids=str)
def test_complex_classes_are_refused(model):
    y = np.where(np.arange(len(X)) % 2, 1 + 1j, 2 - 1j)
    with pytest.raises(ValueError, match="y holds complex numbers. Name the classes"):
        model.fit(X, y)


@pytest.mark.parametrize("loss", ["auto", {"a": "squared"}], ids=str)
@pytest.mark.parametrize("size", [1e170, 1e-170])
def test_sizes_of_mixed_frames_are_checked_like_those_of_arrays(loss, size):
    mixed = pd.DataFrame(X[:, :2], columns=["a", "b"])
    mixed["c"] = np.where(X[:, 0] > 0, "u", "v")
    model = ConvexSubspace(loss, alpha=1.0, scale=False).fit(mixed)
    scaled = mixed.assign(a=mixed["a"] * size)
    if loss == "auto" and size > 1:  # scaled as in the fit
        with pytest.raises(ValueError, match="Column 'a' of X holds values of size"):
            model.transform(scaled)
    if loss != "auto":
        with pytest.raises(ValueError, match="Column 'a' of X holds values of size"):
            ConvexSubspace(loss, alpha=1.0, scale=False).fit(scaled)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_strength_too_small_for_float64_is_refused(loss):
    table = np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X > 0)
    with pytest.raises(ValueError, match="alpha=1e-300 is too small.*at least 1e-150"):
        ConvexSubspace(loss, alpha=1e-300).fit(table)


def test_a_robust_fit_of_columns_far_from_zero_takes_few_newton_steps(monkeypatch):
    steps = []
    solve_columns = Dense.solve_columns

    def counted(*args):
        steps.append(1)
        return solve_columns(*args)

    monkeypatch.setattr(Dense, "solve_columns", counted)
    model = ConvexSubspace("huber", alpha=1.0, fit_intercept=True, max_iter=20)
    with (
        pytest.warns(UserWarning, match="loses precision to cancellation"),
        pytest.warns(ConvergenceWarning, match="did not converge"),
    ):
        model.fit(np.random.default_rng(0).normal(size=(30, 5)) + 1e12)
    assert len(steps) < 1500


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_the_numbers_of_a_sparse_matrix_have_the_squared_loss_by_auto():
    sparse = scipy.sparse.csr_array(X * (X > 0))
    auto = ConvexSubspace("auto", alpha=0.1).fit(sparse)
    squared = ConvexSubspace("squared", alpha=0.1).fit(sparse)
    np.testing.assert_allclose(auto.components_, squared.components_, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns")
@pytest.mark.parametrize("loss", ["squared", "auto"])
def test_sparse_columns_of_pandas_are_read_like_dense_ones(loss):
    values = np.where(X[:, 2] > 0, X[:, 2], np.nan)
    sparse = frame(pd.arrays.SparseArray(values))
    first = ConvexSubspace(loss, alpha=0.1).fit(sparse)
    second = ConvexSubspace(loss, alpha=0.1).fit(frame(values))
    np.testing.assert_allclose(first.components_, second.components_)
    np.testing.assert_allclose(
        first.complete(sparse)["when"], second.complete(frame(values))["when"]
    )


@pytest.mark.parametrize("loss", ["squared", "auto"])
def test_long_doubles_are_read_as_doubles(loss):
    first = ConvexSubspace(loss, alpha=1.0, scale=False).fit(X.astype(np.longdouble))
    np.testing.assert_allclose(
        first.components_, ConvexSubspace(loss, alpha=1.0, scale=False).fit(X).components_
    )


MODELS = {
    "subspace": ConvexSubspace(),
    "sparse coding": ConvexSparseCoding(),
    "factors": FactorModel(rank=2),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("size", [1e156, 1e200, 1e300, 1e-156, 1e-200, 1e-300])
def test_columns_too_large_or_small_to_be_squared_are_named(size, missing, model):
    table = pd.DataFrame(X, columns=list("abcd"))
    table["c"] *= size
    if missing:
        table.iloc[0, 2] = np.nan
    with pytest.raises(ValueError, match="'c' of X holds values of size.*scale it"):
        model.fit(table)
    with pytest.raises(ValueError, match="Column 2 of X"):
        model.fit(scipy.sparse.csr_array(table.fillna(0).to_numpy()))


@pytest.mark.parametrize("size", [1e149, 1e-149])
def test_columns_that_can_be_squared_are_fitted(size):
    here = ConvexSubspace(alpha=size, tol=1e-6, scale=False).fit(X / np.abs(X).max() * size)
    unit = ConvexSubspace(alpha=1.0, tol=1e-6, scale=False).fit(X / np.abs(X).max())
    assert here.status_ is Status.CERTIFIED
    np.testing.assert_allclose(here.codes_ / size, unit.codes_, atol=1e-9)


def test_a_column_far_from_zero_is_named_and_a_gap_above_tol_is_reported():
    far = pd.DataFrame(X + np.array([0.0, 1e12, 0.0, 0.0]), columns=list("abcd"))
    model = ConvexSubspace(tol=1e-6)
    with (
        pytest.warns(UserWarning, match="'b' of X varies by .*subtract its mean"),
        pytest.warns(ConvergenceWarning, match="precision"),
    ):
        model.fit(far)
    assert model.relative_gap_ > model.tol
    assert not model.status_.converged


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_tiny_strength_of_a_complete_table_is_fitted(model):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        fitted = model.set_params(alpha=1e-300).fit(X)
    model.set_params(alpha=1.0)
    assert np.isfinite(fitted.objective_)
    assert np.isfinite(fitted.codes_).all()
