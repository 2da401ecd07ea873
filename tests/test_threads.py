"""Threads over rows change no result."""

import numpy as np
import pytest
import scipy.sparse

from regfactor import BlockTable, ConvexSubspace, FactorModel, RobustSubspace, SubspaceImputer
from regfactor.engine import kernels, threads
from regfactor.engine.kernels import SparseRows
from regfactor.penalties import SquaredL2


def sparse_table(n=400, d=30, density=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    seen = rng.random(X.shape) < density
    seen[np.arange(n), np.arange(n) % d] = True  # no row is empty
    rows, columns = np.nonzero(seen)
    return scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


@pytest.fixture
def many_ranges(monkeypatch):
    """Tables of a test are cut too."""
    monkeypatch.setattr(threads, "MIN_ENTRIES", 10)


@pytest.mark.parametrize("n_jobs", [1, 2, 5, -1])
def test_ranges_of_rows_cover_the_table_once(n_jobs, many_ranges):
    counts = np.random.default_rng(0).integers(0, 9, size=50)
    counts[[0, 7, 49]] = 0
    counts[20] = 300  # a row of more entries than a thread's share
    indptr = np.concatenate([[0], np.cumsum(counts)])
    with threads.threads(n_jobs):
        ranges = threads.over_rows(indptr, lambda first, last: (first, last))
    assert ranges[0][0] == 0 and ranges[-1][1] == 50
    assert all(a[1] == b[0] for a, b in zip(ranges[:-1], ranges[1:], strict=True))
    assert all(first <= last for first, last in ranges)


def test_short_loops_stay_in_one_thread():
    with threads.threads(4):
        assert threads.over_rows(np.array([0, 5, 9]), lambda *ends: ends) == [(0, 2)]
    assert threads.POOL.get() is None


@pytest.mark.skipif(kernels.KERNELS.module is None, reason="numpy does the work")
@pytest.mark.parametrize("n_jobs", [2, 3])
def test_kernels_give_the_same_numbers(n_jobs, many_ranges):
    X = sparse_table()
    table = SparseRows.of(X.indptr, X.indices, X.shape)
    rng = np.random.default_rng(1)
    D = rng.normal(size=(30, 4))
    codes = rng.normal(size=(400, 4))
    weights = np.ones(X.nnz)

    def results():
        solved = kernels.solve_rows(table, weights, D, np.ones(4), codes)
        return solved, kernels.predict_entries(table, codes, D)

    expected = results()
    with threads.threads(n_jobs):
        found = results()
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


MODELS = {
    "subspace": ConvexSubspace(alpha=3.0, random_state=0),
    "imputer": SubspaceImputer(loss="squared", alpha=3.0, random_state=0),
    "robust": RobustSubspace(alpha=3.0, beta=1.0, random_state=0),
    "factors": FactorModel(rank=3, on_codes=SquaredL2(), on_components=SquaredL2(), random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_jobs", [2, -1])
def test_fits_are_the_same_for_any_number_of_threads(name, n_jobs, many_ranges):
    X = sparse_table()
    one = MODELS[name].set_params(n_jobs=None).fit(X)
    components, objective = one.components_, one.objective_
    many = MODELS[name].set_params(n_jobs=n_jobs).fit(X)
    np.testing.assert_array_equal(many.components_, components)
    assert many.objective_ == objective


def test_blocks_take_the_threads_of_the_estimator():
    X = sparse_table()
    table = BlockTable.of(X, rows=50)
    one = ConvexSubspace(alpha=3.0).fit(table)
    many = ConvexSubspace(alpha=3.0, n_jobs=2).fit(table)
    np.testing.assert_array_equal(many.components_, one.components_)


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True])
def test_numbers_of_threads_that_are_none_are_refused(n_jobs):
    with pytest.raises(ValueError, match="n_jobs"):
        ConvexSubspace(n_jobs=n_jobs).fit(np.eye(3))
    with pytest.raises(ValueError, match="n_jobs"):
        BlockTable.of(np.eye(3), n_jobs=0)
