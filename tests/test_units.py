"""No result depends on the units of a column: a law of every estimator that has `scale`."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone

from catalogue import ESTIMATORS
from regfactor import ConvexSparseCoding, ConvexSubspace, MultiViewSubspace, SubspaceImputer
from regfactor.fitting.factor_estimator import FactorEstimator
from regfactor.fitting.inputs import units_of
from regfactor.fitting.two_view_estimator import TwoViewEstimator
from regfactor.fitting.units import column_deviation
from regfactor.losses import Squared

# estimators of one table; those of views and labels have laws of their own
SCALED = [
    pytest.param(model, id=name)
    for name, model in ESTIMATORS.items()
    if isinstance(model, FactorEstimator)
    and not isinstance(model, TwoViewEstimator | MultiViewSubspace)
    and "scale" in inspect.signature(type(model)).parameters
]
FACTORS = np.array([1.0, 1.0, 1000.0, 1.0, 1e-3, 1.0])


def table(seed=0, missing=0.15, n=40):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2)) @ random.normal(size=(2, 6)) + 0.3 * random.normal(size=(n, 6))
    return np.where(random.random(X.shape) < missing, np.nan, X + 1)


def fitted(model, X):
    return clone(model).set_params(random_state=0).fit(X)


@pytest.mark.parametrize("model", SCALED)
def test_a_column_in_other_units_changes_that_column_alone(model):
    X = table()
    one = fitted(model, X)
    other = fitted(model, X * FACTORS)
    np.testing.assert_allclose(other.components_, one.components_ * FACTORS, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.intercept_, one.intercept_ * FACTORS, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.codes_, one.codes_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-8)
    np.testing.assert_allclose(
        other.complete(X * FACTORS), one.complete(X) * FACTORS, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace("huber", alpha=2.0),
        ConvexSubspace("absolute", alpha=2.0),
        ConvexSubspace(alpha=2.0, debias=True),
        ConvexSubspace(alpha=2.0, debias="prior"),
        ConvexSubspace({0: "huber", 1: "auto"}, alpha=2.0),
        ConvexSubspace([(slice(0, 3), "squared"), (slice(3, 6), "smoothed_l1")], alpha=2.0),
        SubspaceImputer("squared"),
    ],
    ids=str,
)
def test_units_do_not_matter_under_any_loss_of_residuals(model):
    test_a_column_in_other_units_changes_that_column_alone(model)


def test_units_do_not_matter_to_sparse_tables_and_weights():
    X = table()
    rows, columns = np.nonzero(~np.isnan(X))
    weights = np.arange(40) % 3

    def fit(X):
        sparse = scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
        return ConvexSubspace(alpha=2.0, tol=1e-8).fit(sparse, sample_weight=weights)

    one = fit(X)
    other = fit(X * FACTORS)
    np.testing.assert_allclose(other.components_, one.components_ * FACTORS, rtol=1e-5, atol=1e-8)
    dense = ConvexSubspace(alpha=2.0, tol=1e-8).fit(X, sample_weight=weights)
    assert one.objective_ == pytest.approx(dense.objective_, rel=1e-6)


def test_the_unit_of_a_column_is_its_deviation_inside_the_problem():
    X = table(missing=0.0)
    scaled = ConvexSubspace(alpha=3.0, tol=1e-9).fit(X)
    by_hand = ConvexSubspace(alpha=3.0, tol=1e-9, scale=False).fit(X / X.std(axis=0))
    assert scaled.objective_ == pytest.approx(by_hand.objective_, rel=1e-8)
    assert scaled.alpha_max_ == pytest.approx(by_hand.alpha_max_, rel=1e-8)
    np.testing.assert_allclose(scaled.components_, by_hand.components_ * X.std(axis=0), atol=1e-5)
    assert scaled.relative_gap_ <= 1e-9
    np.testing.assert_allclose(scaled.scale_, X.std(axis=0))
    np.testing.assert_allclose(np.linalg.norm(scaled.components_ / scaled.scale_, axis=1), 1.0)
    predicted = scaled.inverse_transform(scaled.transform(X))
    np.testing.assert_allclose(predicted, scaled.codes_ @ scaled.components_ + scaled.intercept_)


def test_the_unit_of_an_indicator_is_the_distance_of_its_values():
    rare = np.zeros(50)
    rare[:2] = 1
    assert column_deviation(7 * rare - 3, None, False) == pytest.approx(7.0)
    X = np.column_stack([table(n=50, missing=0.0), rare])
    X[5, 6] = np.nan
    units = units_of(X, Squared(), None, None).unit
    assert units[6] == pytest.approx(1.0)
    np.testing.assert_allclose(units[:6], X[:, :6].std(axis=0))
    weighted = units_of(X, Squared(), np.ones(50), None).unit
    np.testing.assert_allclose(weighted, units)


def test_counts_keep_their_unit():
    counts = np.random.default_rng(0).poisson(3.0, (30, 5)).astype(float)
    scaled = ConvexSubspace("poisson", alpha=2.0).fit(counts)
    plain = ConvexSubspace("poisson", alpha=2.0, scale=False).fit(counts)
    np.testing.assert_array_equal(scaled.components_, plain.components_)


def test_deviations_take_weights_as_repetition_counts():
    x = np.random.default_rng(0).normal(size=30)
    weights = np.arange(30) % 4
    for robust in (False, True):
        repeated = column_deviation(np.repeat(x, weights), None, robust)
        assert column_deviation(x, weights, robust) == pytest.approx(repeated, rel=1e-12)
    assert column_deviation(np.full(5, -3.0), None, True) == 3.0
    assert column_deviation(np.zeros(5), None, False) == 1.0
    assert column_deviation(1e200 * x, None, False) == pytest.approx(1e200 * x.std())


def test_weights_count_rows_of_mixed_frames_too():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=24), "b": random.normal(size=24) > 0})
    frame["c"] = frame["a"] + frame["b"] + 0.1 * random.normal(size=24)
    weights = np.arange(24) % 3
    weighted = ConvexSubspace("auto", alpha=1.0, tol=1e-9).fit(frame, sample_weight=weights)
    repeated = ConvexSubspace("auto", alpha=1.0, tol=1e-9).fit(
        frame.loc[frame.index.repeat(weights)]
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


def test_numbers_of_a_mixed_frame_are_predicted_in_their_own_units():
    frame = pd.DataFrame(table(missing=0.0), columns=list("abcdef"))
    frame["a"] = 170 + 10 * frame["a"]
    model = SubspaceImputer(random_state=0).fit(frame)
    predicted = model.inverse_transform(model.codes_)
    assert abs(predicted[:, 0].mean() - frame["a"].mean()) < 1.0
    assert model.intercept_[0] == pytest.approx(frame["a"].mean(), abs=2.0)


def test_sparse_coding_finds_a_strength_by_rows_left_out():
    random = np.random.default_rng(0)
    atoms = random.normal(size=(3, 8))
    X = atoms[random.integers(3, size=60)] * random.uniform(1, 2, (60, 1))
    model = ConvexSparseCoding(random_state=0).fit(X + 0.1 * random.normal(size=X.shape))
    assert len(model.components_) and model.alpha_ < model.alpha_max_
    assert model.validation_loss_[model.alphas_ == model.alpha_] == model.validation_loss_.min()
    hidden = np.where(random.random(X.shape) < 0.3, np.nan, X)
    filled = model.inverse_transform(model.transform(hidden))
    at = np.isnan(hidden)
    assert np.square(filled - X)[at].mean() < 0.3 * np.square(X)[at].mean()
