"""Fits on Dask collections equal those in memory, also where workers are lost."""

import doctest
import importlib
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import regfactor

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from distributed import Client, LocalCluster  # noqa: E402

from regfactor.dask import (  # noqa: E402
    BregmanKMeans,
    BregmanMixture,
    ConvexSubspace,
    RobustSubspace,
    SubspaceImputer,
    block_table,
)


def low_rank(n=240, d=12, missing=0.3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 5 * random.normal(size=d)
    X += 0.3 * random.normal(size=X.shape)
    X[random.random(X.shape) < missing] = np.nan
    return X


@pytest.fixture(scope="module")
def client():
    """A cluster of threads of this process."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def collections(X):
    """The same table as every collection."""
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    array = da.from_array(X, chunks=(70, X.shape[1]))
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefghijkl")), npartitions=4)
    seen = ~np.isnan(X)
    sparse = scipy.sparse.csr_array((X[seen], np.nonzero(seen)), shape=X.shape)
    pieces = [sparse[:100], sparse[100:]]
    blocks = [da.from_array(piece, chunks=piece.shape, asarray=False) for piece in pieces]
    return {
        "array": array,
        "cut columns": array.rechunk((70, 5)),
        "unknown sizes": frame.to_dask_array(),
        "frame": frame,
        "sparse": da.concatenate(blocks),
    }


@pytest.mark.parametrize("kind", ["array", "cut columns", "unknown sizes", "frame", "sparse"])
def test_every_collection_is_fitted_as_the_table_in_memory(client, kind):
    X = low_rank()
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    settings = {"alpha": 8.0, "tol": 1e-6}
    whole = regfactor.ConvexSubspace(**settings).fit(X, sample_weight=weights)
    collection = collections(X)[kind]
    model = ConvexSubspace(**settings, client=client).fit(collection, sample_weight=weights)
    assert model.objective_ == pytest.approx(whole.objective_, rel=2e-6)
    assert model.certificate_.rigorous
    assert model.relative_gap_ <= 1e-6
    local = model.to_local()
    assert type(local) is regfactor.ConvexSubspace
    table = X
    if kind == "frame":
        table = collection.compute()
    expected = local.complete(table)
    completed = model.complete(collection).compute()
    if kind == "sparse":
        assert model.transform(collection).compute().shape == (len(X), len(model.components_))
    else:
        np.testing.assert_allclose(np.asarray(completed), expected)
        np.testing.assert_allclose(model.transform(collection).compute(), local.transform(table))
    if kind == "frame":
        assert list(completed.columns) == list(model.feature_names_in_) == list("abcdefghijkl")


def test_a_strength_is_chosen_by_a_sample_of_the_chunks(client):
    X = low_rank()
    whole = regfactor.ConvexSubspace(random_state=0).fit(X)
    model = ConvexSubspace(random_state=0, client=client).fit(da.from_array(X, chunks=(50, 12)))
    assert model.alpha_ == pytest.approx(whole.alpha_)


def test_an_imputer_fills_chunks(client):
    X = low_rank()
    whole = regfactor.SubspaceImputer(loss="squared", random_state=0).fit(X)
    array = da.from_array(X, chunks=(50, 12))
    model = SubspaceImputer(random_state=0, client=client)
    filled = model.fit_transform(array)
    assert isinstance(filled, da.Array)
    np.testing.assert_allclose(filled.compute(), whole.transform(X), atol=0.05)


@pytest.mark.parametrize("model", [BregmanKMeans, BregmanMixture])
def test_clusters_of_chunks_are_those_of_blocks(client, model):
    X = low_rank()
    array = da.from_array(X, chunks=(50, 12))
    fitted = model(3, random_state=0, client=client).fit(array)
    local = model._local(3, random_state=0).fit(regfactor.BlockTable.of(X, rows=50))
    assert fitted.objective_ == pytest.approx(local.objective_)
    expected = local.predict(X)
    np.testing.assert_array_equal(fitted.predict(array).compute(), expected)
    np.testing.assert_array_equal(fitted.fit_predict(array).compute(), expected)
    method = "transform" if model is BregmanKMeans else "predict_proba"
    found = getattr(fitted, method)(array).compute()
    np.testing.assert_allclose(found, getattr(local, method)(X), atol=1e-9)


def test_outliers_of_chunks_are_left_out_as_those_of_blocks(client):
    X = low_rank()
    X[::7, 3] += 20
    X -= np.nanmean(X, axis=0)
    array = da.from_array(X, chunks=(50, 12))
    fitted = RobustSubspace(alpha=8.0, beta=1.0, client=client).fit(array)
    local = regfactor.RobustSubspace(alpha=8.0, beta=1.0).fit(regfactor.BlockTable.of(X, rows=50))
    assert fitted.objective_ == pytest.approx(local.objective_)
    np.testing.assert_allclose(fitted.complete(array).compute(), local.complete(X), atol=1e-6)
    assert fitted.transform(array).compute().shape == (len(X), len(local.components_))


def test_weights_may_be_a_collection_and_the_client_the_current_one(client):
    X = low_rank()
    weights = np.linspace(1, 2, len(X))
    array = da.from_array(X, chunks=(50, 12))
    lazy = da.from_array(weights, chunks=50)
    one = ConvexSubspace(alpha=8.0).fit(array, sample_weight=lazy)
    other = ConvexSubspace(alpha=8.0, client=client).fit(array, sample_weight=weights)
    assert one.objective_ == other.objective_


def test_tables_in_memory_are_fitted_as_without_dask(client):
    X = low_rank()
    model = ConvexSubspace(alpha=8.0, client=client).fit(X)
    local = regfactor.ConvexSubspace(alpha=8.0).fit(X)
    np.testing.assert_array_equal(model.components_, local.components_)
    np.testing.assert_array_equal(model.complete(X), local.complete(X))


def test_parameters_and_clones(client):
    model = ConvexSubspace("huber", alpha=2.0, client=client)
    assert model.get_params()["client"] is client
    copy = clone(model)
    assert copy.client is client and copy.alpha == 2.0 and copy.loss == "huber"
    assert "client" not in model.to_local().get_params()
    assert not hasattr(model.to_local(), "client")


def test_what_cannot_be_fitted_is_refused(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="rows and columns"):
        block_table(da.ones(3), client)
    with pytest.raises(ValueError, match="no rows"):
        block_table(da.ones((0, 3)), client)
    named = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    with pytest.raises(ValueError, match=r"\['b'\] hold no numbers"):
        ConvexSubspace(client=client).fit(named)


def counted(rows, folder, fatal):
    """Return the rows; the read of this number ends the process that reads, once."""
    n_reads = len(list(folder.iterdir()))
    place = folder / str(n_reads)
    try:
        place.touch(exist_ok=False)
    except FileExistsError:  # the other worker was faster
        return counted(rows, folder, fatal)
    if n_reads == fatal:
        os._exit(1)
    return rows


N_CHUNKS = 4
PHASES = {
    "statistics": 1,
    "certificate of zero": N_CHUNKS + 2,
    "first sweep": 2 * N_CHUNKS + 2,
    "later sweep": 4 * N_CHUNKS + 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_lost_worker_costs_no_more_than_a_recomputation(tmp_path, phase):
    X = low_rank()
    expected = regfactor.ConvexSubspace(alpha=8.0).fit(regfactor.BlockTable.of(X, rows=60))
    read = partial(counted, folder=Path(tmp_path), fatal=PHASES[phase])
    array = da.from_array(X, chunks=(60, 12)).map_blocks(read, dtype=float, meta=np.empty((0, 0)))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        model = ConvexSubspace(alpha=8.0, client=client).fit(array)
    assert len(list(tmp_path.iterdir())) > (expected.n_iter_ + 2) * N_CHUNKS, "no chunk was lost"
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-12)
    assert model.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-9, atol=1e-9)


def test_examples_run():
    found = doctest.testmod(importlib.import_module("regfactor.dask"))
    assert found.attempted > 0 and found.failed == 0
