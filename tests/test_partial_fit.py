"""Subspaces of streams: batches that are read once, relative to a fit of all rows."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone

import regfactor
from regfactor import BlockTable, ConvexSubspace, SubspaceImputer


def stream(n=800, d=30, rank=3, missing=0.0, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, rank)) @ random.normal(size=(rank, d)) + 3 * random.normal(size=d)
    X += 0.5 * random.normal(size=X.shape)
    X[random.random(X.shape) < missing] = np.nan
    return X


def in_batches(model, X, n_batches=8, weights=None):
    for rows in np.array_split(np.arange(X.shape[0]), n_batches):
        batch_weights = None if weights is None else weights[rows]
        model.partial_fit(X[rows], sample_weight=batch_weights)
    return model


def objective(model, X, weights=None):
    """The objective of all rows in the units of the model, with the codes of `transform`."""
    codes = model.transform(X)
    if weights is None:
        weights = np.ones(len(X))
    unit = model.scale_
    Z = codes @ (model.components_ / unit)
    residuals = (Z + (model.intercept_ - X) / unit) * np.sqrt(weights)[:, None]
    sizes = np.linalg.svd(Z * np.sqrt(weights)[:, None], compute_uv=False)
    return np.nansum(residuals**2) / 2 + model.alpha_ * sizes.sum()


def optimum(model, X, weights=None):
    """The optimum of all rows in the units of the model."""
    batch = ConvexSubspace(
        alpha=model.alpha_, scale=False, fit_intercept=model.fit_intercept, tol=1e-5
    )
    return batch.fit(X / model.scale_, sample_weight=weights).objective_


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_one_batch_is_a_fit(missing):
    X = stream(200, missing=missing)
    model = ConvexSubspace(alpha=20.0)
    one = clone(model).partial_fit(X)
    whole = clone(model).fit(X)
    assert one.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    np.testing.assert_allclose(one.components_, whole.components_)
    np.testing.assert_allclose(one.codes_, whole.codes_)
    assert one.gap_ == whole.gap_
    assert one.n_samples_seen_ == 200


@pytest.mark.parametrize(
    ("missing", "weighted", "scale", "intercept"),
    [
        (0.0, False, True, True),
        (0.0, True, False, False),
        (0.3, False, True, True),
        (0.3, False, False, False),
        (0.3, True, True, True),
    ],
    ids=["complete", "complete weighted", "missing", "missing plain", "missing weighted"],
)
def test_batches_come_near_the_fit_of_all_rows(missing, weighted, scale, intercept):
    X = stream(400, missing=missing)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    model = ConvexSubspace(alpha=30.0, scale=scale, fit_intercept=intercept)
    in_batches(model, X, 4, weights)
    best = optimum(model, X, weights)
    reached = objective(model, X, weights)
    assert best * (1 - 2e-5) <= reached <= best * (1 + 1e-2)
    # the guarantee: the reported objective is never below that of the rows
    assert reached <= model.objective_ * (1 + 1e-9)
    assert model.objective_ <= best * (1 + 3e-2)
    assert model.n_samples_seen_ == len(X)
    assert model.codes_.shape == (100, len(model.components_))
    np.testing.assert_allclose(model.codes_, model.transform(X[-100:]))


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("change", ["means", "components"])
@pytest.mark.parametrize("edges", [1.05, 2.0])
def test_the_guarantee_holds_where_rows_change(missing, change, edges):
    """A refit can only lower the objective, and objective_ is an upper bound of both."""
    X = stream(600, missing=missing)
    later = stream(600, missing=missing, seed=1)
    X[300:] = later[300:] if change == "components" else X[300:] + 2.0
    edge = 0.5 * np.sqrt(1 - missing) * (np.sqrt(X.shape[0]) + np.sqrt(X.shape[1]))
    model = in_batches(ConvexSubspace(alpha=edges * edge, scale=False), X, 12)
    best = optimum(model, X)
    now = objective(model, X)
    assert now >= best * (1 - 1e-4)
    assert model.objective_ >= now * (1 - 1e-6)
    assert model.objective_ <= best * 1.5


def test_few_complete_columns_are_remembered_exactly():
    X = stream(300, d=12)
    model = in_batches(ConvexSubspace(alpha=15.0, scale=False), X, 6)
    whole = ConvexSubspace(alpha=15.0, scale=False, tol=1e-8).fit(X)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-7)
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, atol=1e-3)


def test_a_component_too_weak_for_one_batch_is_found_in_many():
    random = np.random.default_rng(0)
    X = random.normal(size=(800, 1)) @ random.normal(size=(1, 40)) * 0.3
    X += 0.1 * random.normal(size=X.shape)
    model = ConvexSubspace(alpha=25.0, scale=False)
    model.partial_fit(X[:100])
    assert len(model.components_) == 0
    for rows in np.array_split(np.arange(100, 800), 7):
        model.partial_fit(X[rows])
    assert len(model.components_) == 1
    assert objective(model, X) <= optimum(model, X) * (1 + 1e-2)


def test_a_direction_that_appears_later_becomes_a_component():
    random = np.random.default_rng(0)
    X = stream(800, d=60)
    X[400:] += 2 * random.normal(size=(400, 1)) @ random.normal(size=(1, 60))
    model = in_batches(ConvexSubspace(alpha=40.0, scale=False), X)
    assert len(model.components_) == 4
    assert objective(model, X) <= optimum(model, X) * (1 + 1e-2)


def test_sparse_batches_are_those_with_missing_entries():
    X = stream(missing=0.5)
    dense = in_batches(ConvexSubspace(alpha=30.0), X)
    seen = ~np.isnan(X)
    rows, columns = np.nonzero(seen)
    table = scipy.sparse.csr_array((X[seen], (rows, columns)), shape=X.shape)
    sparse = in_batches(ConvexSubspace(alpha=30.0), table)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-4)
    assert not np.isnan(sparse.complete(X)).any()


def test_a_gap_needs_a_fit_of_all_rows():
    model = in_batches(ConvexSubspace(alpha=20.0), stream(200), 2)
    with pytest.raises(AttributeError, match="rows of earlier batches"):
        _ = model.gap_
    with pytest.raises(ValueError, match="partial_fit does not keep"):
        model.sample(stream(100))
    with pytest.raises(ValueError, match="partial_fit does not keep"):
        model.complete_interval(stream(100))


def test_fit_forgets_the_batches():
    X = stream(200)
    model = in_batches(ConvexSubspace(alpha=20.0), stream(400, seed=1), 4).fit(X)
    whole = ConvexSubspace(alpha=20.0).fit(X)
    np.testing.assert_array_equal(model.components_, whole.components_)
    assert model.gap_ == whole.gap_
    assert not hasattr(model, "n_samples_seen_")
    again = model.partial_fit(X)
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert again.n_samples_seen_ == 200


def test_streams_go_on_after_pickling_and_saving(tmp_path):
    X = stream(300)
    model = in_batches(ConvexSubspace(alpha=20.0), X[:200], 2)
    copied = pickle.loads(pickle.dumps(model)).partial_fit(X[200:])
    regfactor.save(model, tmp_path / "model.skops")
    loaded = regfactor.load(tmp_path / "model.skops").partial_fit(X[200:])
    model.partial_fit(X[200:])
    np.testing.assert_array_equal(copied.components_, model.components_)
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert not hasattr(clone(model), "components_")
    np.testing.assert_array_equal(
        clone(model).partial_fit(X).components_, ConvexSubspace(alpha=20.0).fit(X).components_
    )


def test_a_chosen_strength_grows_with_the_rows():
    X = stream(400)
    model = ConvexSubspace(random_state=0).partial_fit(X[:100])
    first = model.alpha_
    assert first == ConvexSubspace(random_state=0).fit(X[:100]).alpha_
    model.partial_fit(X[100:])
    width = np.sqrt(X.shape[1])
    assert model.alpha_ == pytest.approx(first * (20 + width) / (10 + width))


def test_names_types_and_the_limit_of_the_rank_are_kept():
    X = pd.DataFrame(stream(300)).add_prefix("c").astype(np.float32)
    model = ConvexSubspace(alpha=10.0, max_rank=2)
    for start in (0, 100, 200):
        model.partial_fit(X[start : start + 100])
    assert list(model.feature_names_in_) == list(X.columns)
    assert len(model.components_) == 2
    assert model.codes_.dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X.rename(columns={"c0": "other"}))


def test_what_streams_do_not_have_is_refused_and_changes_nothing():
    X = stream(100)
    with pytest.raises(ValueError, match="loss='squared'"):
        ConvexSubspace(loss="huber").partial_fit(X)
    with pytest.raises(ValueError, match="debias=False"):
        ConvexSubspace(debias=True).partial_fit(X)
    with pytest.raises(ValueError, match="BlockTable"):
        ConvexSubspace(alpha=1.0).partial_fit(BlockTable.of(X))
    with pytest.raises(AttributeError, match="ConvexSubspace"):
        SubspaceImputer().partial_fit(X)
    model = ConvexSubspace(alpha=20.0).partial_fit(X)
    before = model.components_
    with pytest.raises(ValueError, match="29 features"):
        model.partial_fit(X[:, :29])
    X[3, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(X)
    assert model.components_ is before
    assert model.n_samples_seen_ == 100
