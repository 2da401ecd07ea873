"""Clusters of tables that are read by blocks of rows are those of the table in memory."""

import numpy as np
import pytest
import scipy.sparse

from regfactor import BlockTable, BregmanKMeans, BregmanMixture
from regfactor.clusters import block_fit
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.clusters import ClusterPoint
from regfactor.solvers.lloyd import Lloyd

DIVERGENCES = ["squared", "kl", "itakura_saito", "bernoulli", "exp"]


def rows_of_clusters(divergence="squared", n=300, missing=0.0, seed=0):
    """Rows of three clusters that overlap, in the domain of a divergence."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(3, 5)) * 1.2
    X = centers[random.integers(3, size=n)] + random.normal(size=(n, 5))
    if divergence in ("kl", "itakura_saito"):
        X = np.exp(X / 2)
    if divergence == "bernoulli":
        X = 1 / (1 + np.exp(-X))
    X[random.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_clusters_of_blocks_are_those_of_the_table(divergence, missing):
    X = rows_of_clusters(divergence, missing=missing)
    w = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    start = X[:3] if not missing else np.where(np.isnan(X[:3]), np.nanmean(X, axis=0), X[:3])
    settings = {"divergence": divergence, "init": start, "tol": 0.0, "max_iter": 1000}
    blocks = BregmanKMeans(3, **settings).fit(BlockTable.of(X, rows=70), sample_weight=w)
    # the sample is the whole table, so that both begin from the optimum of the equal weights
    begun = BregmanKMeans(3, **settings).fit(X).cluster_centers_
    again = BregmanKMeans(3, **{**settings, "init": begun}).fit(X, sample_weight=w)
    np.testing.assert_allclose(blocks.cluster_centers_, again.cluster_centers_, rtol=1e-8)
    assert blocks.inertia_ == pytest.approx(again.inertia_)
    table = BlockTable.of(X, rows=70)
    np.testing.assert_array_equal(blocks.predict(table), again.labels_)
    np.testing.assert_allclose(blocks.transform(table).to_array(), again.transform(X), atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_mixtures_of_blocks_are_those_of_the_table(divergence, missing):
    X = rows_of_clusters(divergence, missing=missing)
    settings = {"divergence": divergence, "random_state": 0, "n_init": 2, "tol": 1e-10}
    whole = BregmanMixture(3, **settings).fit(X)
    blocks = BregmanMixture(3, **settings).fit(BlockTable.of(X, rows=70))
    assert blocks.sharpness_ == whole.sharpness_
    assert blocks.objective_ == pytest.approx(whole.objective_, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(blocks.means_, whole.means_, rtol=1e-2, atol=1e-2)
    table = BlockTable.of(X, rows=70)
    shares = blocks.predict_proba(table).to_array()
    np.testing.assert_allclose(shares, blocks.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(blocks.predict(table), shares.argmax(axis=1))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_more_rows_than_the_sample(n_jobs, monkeypatch):
    monkeypatch.setattr(block_fit, "SAMPLE_ROWS", 60)
    X = rows_of_clusters(n=600)
    whole = BregmanKMeans(3, random_state=0).fit(X)
    table = BlockTable.of(X, rows=100, n_jobs=n_jobs)
    blocks = BregmanKMeans(3, random_state=0).fit(table)
    assert blocks.inertia_ == pytest.approx(whole.inertia_, rel=0.01)
    assert not hasattr(blocks, "labels_")
    np.testing.assert_array_equal(blocks.fit_predict(table), blocks.predict(X))


@pytest.mark.parametrize("model", [BregmanKMeans, BregmanMixture])
def test_the_objective_never_rises(model, monkeypatch):
    monkeypatch.setattr(block_fit, "SAMPLE_ROWS", 40)
    X = rows_of_clusters("kl", missing=0.1)
    fitted = model(4, divergence="kl", random_state=0).fit(BlockTable.of(X, rows=50))
    objectives = np.array([record.objective for record in fitted.history_])
    assert len(objectives) > 2
    assert (np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1])).all()


def test_an_empty_cluster_is_given_a_row():
    X = rows_of_clusters()
    inputs = block_fit.read_cluster_blocks(BregmanKMeans(3), BlockTable.of(X, rows=70), None)
    problem = inputs.problem(3)
    assert isinstance(problem, BlockClusters)
    start = ClusterPoint(np.vstack([X[:2], np.full((1, 5), 1e3)]))
    point = None
    for iterate in Lloyd(tol=0.0).iterates(problem, start):
        point = iterate.point
        if iterate.settled:
            break
    assert np.abs(point.centers).max() < 10


def test_sparse_blocks_hold_zeros():
    X = np.random.default_rng(0).poisson(0.7, size=(200, 6)).astype(float)
    X[:, 0] += 1
    sparse = scipy.sparse.csr_array(X)
    settings = {"divergence": "kl", "random_state": 0}
    dense = BregmanKMeans(3, **settings).fit(BlockTable.of(X, rows=50))
    blocks = BregmanKMeans(3, **settings).fit(BlockTable.of(sparse, rows=50))
    np.testing.assert_allclose(blocks.cluster_centers_, dense.cluster_centers_)


def test_rows_far_from_the_origin_are_centered():
    X = rows_of_clusters() + 1e7
    whole = BregmanKMeans(3, random_state=0).fit(X)
    blocks = BregmanKMeans(3, random_state=0).fit(BlockTable.of(X, rows=50))
    assert blocks.inertia_ == pytest.approx(whole.inertia_, rel=1e-6)


def test_what_blocks_cannot_add_up_is_refused():
    table = BlockTable.of(np.abs(rows_of_clusters()), rows=50)
    for divergence in ("absolute", "mahalanobis"):
        with pytest.raises(ValueError, match="best center is the mean"):
            BregmanKMeans(3, divergence=divergence).fit(table)
    with pytest.raises(ValueError, match="kernel="):
        BregmanKMeans(3, kernel="rbf").fit(table)
    with pytest.raises(ValueError, match="Negative values"):
        BregmanKMeans(3, divergence="kl").fit(BlockTable.of(rows_of_clusters(), rows=50))
    with pytest.raises(ValueError, match="n_clusters=3"):
        BregmanKMeans(3).fit(BlockTable.of(np.ones((2, 2))))
