"""Array functions that stand below everything."""

import numpy as np
import pytest
import scipy.linalg

from regfactor.core.linalg import column_range, leading_vectors, orthonormal, top_eigenpairs


@pytest.mark.parametrize("gives_up", ["never", "with an error", "in silence"])
@pytest.mark.parametrize("lower", [False, True])
def test_the_greatest_eigenvalues_are_found_where_lapacks_driver_for_some_gives_up(
    gives_up, lower, monkeypatch
):
    A = np.random.default_rng(0).normal(size=(12, 5))
    G = A @ A.T  # seven equal eigenvalues
    half = np.tril(G) if lower else np.triu(G)

    def moody(*arguments, **options):
        return np.ones(12), np.zeros((12, 3)), 1, None, 1 if gives_up == "with an error" else 0

    if gives_up != "never":
        monkeypatch.setattr(scipy.linalg.lapack, "dsyevr", moody)
    values, vectors = top_eigenpairs(half, 3, lower=lower)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(G)[-3:], rtol=1e-12)
    np.testing.assert_allclose(G @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_eigenvectors_of_clusters_are_orthonormal(dtype):
    """LAPACK's driver for some finds none of them for a few of these matrices, and calls it a success."""
    for seed in range(300):
        Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(9, 9)).astype(dtype))[0]
        values, vectors = top_eigenpairs(Q.T @ Q, 2)
        assert values.dtype == vectors.dtype == dtype
        np.testing.assert_allclose(values, 1, rtol=1e-5)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-5)


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (5, 4), (6, 0)])
@pytest.mark.parametrize("smallest", [0.5, 1e-7, 0.0])
def test_leading_vectors_are_those_of_an_svd(shape, smallest):
    rng = np.random.default_rng(0)
    U, _, Vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    values = (
        np.geomspace(1, smallest, min(shape)) if smallest and min(shape) else np.zeros(min(shape))
    )
    M = (U * values) @ Vt
    left, right = leading_vectors(M, 3)
    k = min(3, *shape)
    assert left.shape == (shape[0], k) and right.shape == (shape[1], k)
    np.testing.assert_allclose(left.T @ left, np.eye(k), atol=1e-13)
    np.testing.assert_allclose(right.T @ right, np.eye(k), atol=1e-13)
    np.testing.assert_allclose(left.T @ M @ right, np.diag(values[:k]), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_orthonormal_basis_has_the_same_span_and_the_given_array_is_kept(
    dtype, order, dependent, overwrite
):
    A = np.random.default_rng(0).normal(size=(50, 4))
    if dependent:  # too nearly for a Gram matrix, not for a QR
        A[:, 3] = A[:, 2] + 1e-12 * A[:, 3]
    A = np.array(A, dtype, order=order)
    before = A.copy()
    Q = orthonormal(A, overwrite)
    assert Q.dtype == dtype
    accuracy = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=accuracy)
    np.testing.assert_allclose(Q @ (Q.T @ before), before, atol=10 * accuracy)
    if not overwrite:
        np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5000, 3), (41, 3000), (4001, 50)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_ranges_of_columns_leave_out_missing_entries(shape, order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=shape), np.float32, order=order)
    X[rng.random(shape) < 0.3] = np.nan
    X[:, 0] = np.nan
    X[-1, -1] = 9.0
    low, high = column_range(X)
    assert low.dtype == high.dtype == np.float32
    np.testing.assert_array_equal(low, np.fmin.reduce(X, axis=0, initial=np.inf))
    np.testing.assert_array_equal(high, np.fmax.reduce(X, axis=0, initial=-np.inf))
