"""A sparse table is a dense one with missing entries: every sum, gradient and bound agrees."""

import numpy as np
import pytest
import scipy.sparse

from regfactor.core.factors import Factors
from regfactor.engine import kernels
from regfactor.losses import Huber, Logistic, Poisson, Softmax, Squared, Stacked
from regfactor.penalties import SquaredL2, Trace
from regfactor.problems import Convex, Data, Design, Factored, layout
from regfactor.solvers.alternating import sweep


def tables(loss, density, seed=0, n=30, d=8):
    """The same table, sparse and dense with NaN."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    X = {Logistic: (Z > 0).astype(float), Poisson: rng.poisson(np.exp(Z / 2)).astype(float)}.get(
        type(loss), Z
    )
    seen = rng.random(X.shape) < density
    seen[0, 0] = True
    rows, columns = np.nonzero(seen)  # stored zeros are observed
    sparse = scipy.sparse.csr_array((X[seen], (rows, columns)), shape=X.shape)
    return sparse, np.where(seen, X, np.nan), rng


losses = pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Logistic(), Poisson()], ids=str)
densities = pytest.mark.parametrize("density", [0.03, 0.5])


@losses
@densities
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_gradients_and_conjugates_agree(loss, density, weighted):
    X, missing, rng = tables(loss, density)
    weights = rng.uniform(0.5, 2, len(missing)) if weighted else None
    sparse, dense = Data.of_sparse(X, loss, weights), Data.of(missing, loss, weights)
    F = Factors(rng.normal(size=(30, 3)), rng.normal(size=(3, 8)))
    assert sparse.value(F) == pytest.approx(dense.value(F))
    np.testing.assert_allclose(sparse.column_values(F), dense.column_values(F))
    np.testing.assert_allclose(sparse.row_values(F), dense.row_values(F))
    G = dense.gradient(F)
    np.testing.assert_allclose(sparse.layout.matrix(sparse.gradient(F)).toarray(), G)
    np.testing.assert_allclose(sparse.T.layout.matrix(sparse.T.gradient(F.T)).toarray(), G.T)
    assert sparse.conjugate(sparse.gradient(F)) == pytest.approx(dense.conjugate(G))


@losses
@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_and_profiles_agree(loss, intercept):
    X, missing, rng = tables(loss, 0.5)
    design = Design.intercept(30) if intercept else None
    sparse = Convex(Data.of_sparse(X, loss), Trace(), 0.5, design=design)
    dense = Convex(Data.of(missing, loss), Trace(), 0.5, design=design)
    F = Factors(0.3 * rng.normal(size=(30, 3)), rng.normal(size=(3, 8)))
    (value, G, B), (other, H, C) = sparse.evaluate(F), dense.evaluate(F)
    assert value == pytest.approx(other)
    np.testing.assert_allclose(G.toarray(), H, atol=1e-9)
    if intercept:
        np.testing.assert_allclose(B, C, atol=1e-6)
    assert sparse.objective(F) == pytest.approx(dense.objective(F))
    assert sparse.alpha_max() == pytest.approx(dense.alpha_max(), rel=1e-6)
    bounds = [p.bound(p.dual_point(F, p.best_coefficients(F))).value for p in (sparse, dense)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-7)


@losses
def test_sweeps_of_factors_agree(loss):
    X, missing, rng = tables(loss, 0.6)
    F = Factors(rng.normal(size=(30, 2)), rng.normal(size=(2, 8)))
    one, other = (
        Factored(data, SquaredL2(), SquaredL2(), rank=2, alpha=0.5)
        for data in (Data.of_sparse(X, loss), Data.of(missing, loss))
    )
    np.testing.assert_allclose(sweep(one, F).dense(), sweep(other, F).dense(), atol=1e-6)


def test_gathering_and_blocks_predict_the_same(monkeypatch):
    X, _, rng = tables(Squared(), 0.4)
    pattern = layout.Pattern.of(X)
    F = Factors(rng.normal(size=(30, 3)), rng.normal(size=(3, 8)))
    monkeypatch.setattr(kernels, "GATHERED_ELEMENTS", 17)
    monkeypatch.setattr(layout, "MAX_KERNEL_DENSITY", 0.0)
    monkeypatch.setattr(layout, "BLOCK_ELEMENTS", 17)
    for threshold in (0.0, 1.0):
        monkeypatch.setattr(layout, "MIN_BLOCK_DENSITY", threshold)
        np.testing.assert_allclose(pattern.entries(F), F.dense()[pattern.rows, pattern.indices])


@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.parametrize("narrow", [0, 1000])
def test_products_and_grams_agree(monkeypatch, threshold, narrow):
    X, _, rng = tables(Squared(), 0.4)
    monkeypatch.setattr(layout, "BLOCK_ELEMENTS", 17)
    monkeypatch.setattr(layout, "MIN_BLOCK_DENSITY", threshold)
    monkeypatch.setattr(layout, "MAX_BLOCK_GRAM", narrow)
    pattern, dense = layout.Pattern.of(X), X.toarray()
    B, D, pairs = rng.normal(size=(8, 5)), rng.normal(size=(30, 5)), rng.normal(size=(30, 6))
    np.testing.assert_allclose(pattern.times(X.data, B), dense @ B)
    np.testing.assert_allclose(pattern.adjoint(D, X.data), D.T @ dense)
    np.testing.assert_allclose(np.triu(pattern.gram(X.data)), np.triu(dense.T @ dense))
    for block in (slice(0, 8), slice(2, 6), slice(0, 100)):
        np.testing.assert_allclose(pattern.grams(X.data, pairs, block), dense[:, block].T @ pairs)
        np.testing.assert_allclose(
            pattern.T.grams(X.data, pairs[:8], block), dense[block] @ pairs[:8]
        )
    np.testing.assert_allclose(pattern.T.times(X.data, D), dense.T @ D)
    np.testing.assert_allclose(pattern.T.gram(X.data), dense @ dense.T)


def test_what_a_sparse_table_cannot_take_is_said():
    X = scipy.sparse.csr_array(np.array([[1.0, 0.0], [-2.0, 3.0]]))
    with pytest.raises(ValueError, match="column 0: 1 of 2"):
        Data.of_sparse(X, Poisson())
    for loss in (Softmax(), Stacked((([0], Squared()), ([1], Huber())))):
        with pytest.raises(ValueError, match="one elementwise loss|cannot take"):
            Data.of_sparse(abs(X) / 4, loss)
