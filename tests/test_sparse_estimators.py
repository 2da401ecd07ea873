"""Sparse matrices at the estimators: absent entries are missing entries, and the model is that of the dense table with NaN."""

import numpy as np
import pytest
import scipy.sparse

from regfactor import (
    ConvexSparseCoding,
    ConvexSubspace,
    FactorModel,
    RobustSubspace,
    SubspaceImputer,
)
from regfactor.penalties import NonNegative, OneHot, Rows, Trace


def tables(n=80, d=30, density=0.5, seed=0, positive=False):
    """The same table, sparse and dense with NaN; stored zeros are observed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.2 * rng.normal(size=(n, d)) + 1
    X = np.abs(X) if positive else X
    seen = rng.random(X.shape) < density
    seen[3] = False
    seen[0, :2] = True
    X[0, 0] = 0.0
    rows, columns = np.nonzero(seen)
    return scipy.sparse.csr_array((X[seen], (rows, columns)), shape=X.shape), np.where(
        seen, X, np.nan
    )


MODELS = {
    "subspace": ConvexSubspace(alpha=2.0, tol=1e-8),
    "huber": ConvexSubspace("huber", alpha=2.0, tol=1e-8),
    "robust": RobustSubspace(alpha=2.0, beta=0.5, tol=1e-8),
    "gauge": FactorModel(gauge=Trace(), alpha=2.0, tol=1e-8),
}
empty = pytest.mark.filterwarnings("ignore:1 row has no observed entry")


@empty
@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_with_missing_are_one_table(name):
    X, missing = tables()
    dense, sparse = (MODELS[name].fit(A) for A in (missing, X))
    dense_codes, sparse_codes = dense.codes_, sparse.codes_
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    np.testing.assert_allclose(
        sparse_codes @ sparse.components_,
        dense_codes @ dense.components_,
        atol=1e-3 * np.abs(dense_codes).max(),
    )
    np.testing.assert_allclose(sparse.transform(X), sparse_codes, atol=1e-7)
    np.testing.assert_allclose(sparse.transform(missing), sparse_codes, atol=1e-7)
    assert sparse.solver_ == "FactoredFista"


@empty
def test_a_sparse_table_is_completed_to_a_dense_one():
    X, missing = tables()
    model = ConvexSubspace(alpha=1.0, random_state=0, scale=False).fit(X)
    completed = model.complete(X)
    assert isinstance(completed, np.ndarray) and np.isfinite(completed).all()
    np.testing.assert_array_equal(completed[~np.isnan(missing)], missing[~np.isnan(missing)])
    np.testing.assert_allclose(completed, model.complete(missing), atol=1e-8)
    np.testing.assert_allclose(
        SubspaceImputer(
            alpha=1.0, random_state=0, loss="squared", debias=False, scale=False
        ).fit_transform(X),
        completed,
    )


@empty
def test_outliers_of_a_sparse_table_are_sparse():
    X, missing = tables()
    X.data[5] += 40
    missing = X.toarray() + np.where(np.isnan(missing), np.nan, 0)
    model = RobustSubspace(alpha=2.0, beta=0.5, tol=1e-8).fit(X)
    S = model.outliers_.tocoo()
    assert model.outliers_.nnz < X.nnz
    assert abs(model.outliers_).max() == pytest.approx(40, rel=0.1)
    assert not np.isnan(missing[S.coords]).any()
    np.testing.assert_allclose(
        model.outliers(missing).toarray(), model.outliers_.toarray(), atol=1e-6
    )


@empty
def test_weights_of_rows_and_entries():
    X, missing = tables()
    rng = np.random.default_rng(1)
    rows, entries = rng.uniform(0.5, 2, len(missing)), rng.uniform(0.5, 2, missing.shape)
    rows[7] = 0.0
    stored = scipy.sparse.csr_array((entries[X.tocoo().coords], X.indices, X.indptr), shape=X.shape)
    dense = ConvexSubspace(alpha=2.0, tol=1e-8).fit(
        missing, sample_weight=rows, entry_weight=entries
    )
    for given in (stored, entries):
        sparse = ConvexSubspace(alpha=2.0, tol=1e-8).fit(X, sample_weight=rows, entry_weight=given)
        assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    with pytest.raises(ValueError, match="they must agree"):
        ConvexSubspace().fit(X, entry_weight=np.ones((3, 3)))


def test_zeros_may_be_observed():
    X, _ = tables()
    zeros = ConvexSubspace(alpha=2.0, sparse_zeros="observed", tol=1e-8).fit(X)
    assert zeros.objective_ == pytest.approx(
        ConvexSubspace(alpha=2.0, tol=1e-8).fit(X.toarray()).objective_
    )
    coding = ConvexSparseCoding(alpha=2.0).fit(X)  # here zeros are data unless said otherwise
    assert coding.objective_ == pytest.approx(
        ConvexSparseCoding(alpha=2.0).fit(X.toarray()).objective_
    )


@empty
@pytest.mark.parametrize("form", ["csc_array", "coo_array", "csr_matrix"])
def test_every_sparse_format_is_taken_and_left_as_it_was(form):
    X, _ = tables()
    given = getattr(scipy.sparse, form)(X)
    before = given.copy()
    model = ConvexSubspace(alpha=2.0, random_state=0).fit(given)
    assert model.objective_ == pytest.approx(
        ConvexSubspace(alpha=2.0, random_state=0).fit(X).objective_, rel=1e-10
    )
    assert (given != before).nnz == 0


@empty
def test_stored_nan_is_a_missing_entry_and_duplicates_add_up():
    X, _ = tables()
    rows, columns = X.tocoo().coords
    twice = scipy.sparse.coo_array(
        (
            np.concatenate([X.data / 2, X.data / 2, [np.nan]]),
            ([*rows, *rows, 5], [*columns, *columns, 0]),
        ),
        shape=X.shape,
    )
    keep = ~((rows == 5) & (columns == 0))
    plain = scipy.sparse.csr_array((X.data[keep], (rows[keep], columns[keep])), shape=X.shape)
    assert ConvexSubspace(alpha=2.0, random_state=0).fit(
        scipy.sparse.csr_array(twice)
    ).objective_ == pytest.approx(
        ConvexSubspace(alpha=2.0, random_state=0).fit(plain).objective_, rel=1e-10
    )


@empty
def test_what_holds_the_whole_table_says_so():
    X, _ = tables()
    with pytest.raises(ValueError, match="dense"):
        RobustSubspace(loss=None).fit(X)
    with pytest.raises(ValueError, match="Trace"):
        FactorModel(gauge=Rows()).fit(X)


@empty
def test_local_models_take_sparse_tables():
    X, missing = tables()
    sparse, dense = (
        FactorModel(rank=3, alpha=0.5, random_state=0, tol=1e-9).fit(A) for A in (X, missing)
    )
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-4)
    np.testing.assert_allclose(sparse.transform(X), sparse.codes_, atol=1e-6)


@empty
@pytest.mark.parametrize("loss", ["squared", "kl"])
def test_non_negative_factors_of_a_sparse_table(loss):
    X, missing = tables(positive=True)
    door = dict(
        on_codes=NonNegative(),
        on_components=NonNegative(),
        rank=3,
        alpha=0.0,
        random_state=0,
        tol=1e-9,
    )
    sparse, dense = (FactorModel(loss, **door).fit(A) for A in (X, missing))
    assert (sparse.components_ >= 0).all() and (sparse.codes_ >= 0).all()
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-2)


@empty
def test_auto_strength_on_a_sparse_table():
    X, _ = tables(150, 40)
    model = ConvexSubspace(alpha="auto", debias=True, random_state=0).fit(X)
    assert model.components_.shape[0] == 3


@empty
def test_float32_stays():
    X, _ = tables()
    model = ConvexSubspace(alpha=2.0, random_state=0).fit(X.astype(np.float32))
    assert (
        model.components_.dtype
        == model.codes_.dtype
        == model.transform(X.astype(np.float32)).dtype
        == np.float32
    )


@empty
def test_hard_clusters_need_a_dense_table():
    X, _ = tables()
    with pytest.raises(ValueError, match="dense"):
        FactorModel(on_codes=OneHot(), rank=2).fit(X)


@pytest.mark.parametrize("seed", [13, 55])  # on these tables the gap once stayed above tol
def test_single_precision_reaches_the_default_tolerance(seed):
    random = np.random.default_rng(seed)
    n, d = random.integers(5, 40), random.integers(3, 20)
    X = random.normal(size=(n, d))
    observed = random.random((n, d)) < 0.6
    table = scipy.sparse.csr_array(np.where(observed, X, 0)).astype(np.float32)
    alpha = float(10 ** random.uniform(-2, 0.5))
    model = ConvexSubspace(alpha=alpha, tol=1e-4).fit(table)
    assert model.relative_gap_ <= 1e-4
