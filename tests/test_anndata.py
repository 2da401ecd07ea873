"""Counts in AnnData objects."""

import doctest
import importlib

import numpy as np
import pytest
import scipy.sparse

from regfactor import ExponentialFamilyPCA
from regfactor.tables.epca import blocked_inputs

anndata = pytest.importorskip("anndata")


def cells():
    random = np.random.default_rng(0)
    z = random.normal(size=(60, 2)) @ random.normal(size=(2, 15)) / 2
    counts = scipy.sparse.csr_matrix(random.poisson(np.exp(z)).astype(np.float32))
    adata = anndata.AnnData(counts.copy())
    adata.layers["counts"] = counts
    adata.X = counts.log1p()
    return adata


@pytest.mark.filterwarnings("ignore")  # of reading and writing files
def test_results_are_stored_where_others_look_for_them(monkeypatch, tmp_path):
    from regfactor.anndata import epca

    monkeypatch.setattr(blocked_inputs, "MAX_DENSE_ELEMENTS", 0)
    adata = cells()
    model = epca(adata, 3, family="negative_binomial", layer="counts", random_state=0)
    assert model.solver_ == "BlockNewton"
    alone = ExponentialFamilyPCA(3, "negative_binomial", row_offset="total", random_state=0)
    alone.fit(adata.layers["counts"])
    np.testing.assert_array_equal(adata.obsm["X_epca"], alone.codes_)
    np.testing.assert_array_equal(adata.varm["epca"], alone.components_.T)
    assert adata.uns["epca"]["theta"] == alone.theta_
    with anndata.settings.override(allow_write_nullable_strings=True):  # names of pandas 3
        adata.write_h5ad(tmp_path / "cells.h5ad")  # everything stored can be saved
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_epca"], alone.codes_)


def test_only_marked_genes_are_used():
    from regfactor.anndata import epca

    adata = cells()
    adata.var["highly_variable"] = np.arange(15) < 9
    epca(adata, 2, layer="counts", mask_var="highly_variable", key="hvg")
    assert not adata.varm["hvg"][9:].any() and adata.varm["hvg"][:9].any()
    assert np.isnan(adata.uns["hvg"]["intercept"][9:]).all()


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.filterwarnings("ignore")  # of reading and writing files
def test_components_are_free_of_batches(monkeypatch, tmp_path, in_blocks):
    from regfactor.anndata import epca

    if in_blocks:
        monkeypatch.setattr(blocked_inputs, "MAX_DENSE_ELEMENTS", 0)
    random = np.random.default_rng(1)
    batch = random.integers(2, size=200)
    shift = random.normal(size=30)
    z = random.normal(size=(200, 1)) @ random.normal(size=(1, 30)) + np.outer(batch, shift)
    adata = anndata.AnnData(scipy.sparse.csr_matrix(random.poisson(np.exp(z)).astype(float)))
    adata.obs["batch"] = batch
    adata.var["highly_variable"] = np.arange(30) < 25

    def separated():
        codes = adata.obsm["X_epca"]
        return np.abs(codes[batch == 1].mean(axis=0) - codes[batch == 0].mean(axis=0)).max()

    epca(adata, 2)
    before = separated()
    model = epca(adata, 2, batch_key="batch", mask_var="highly_variable")
    assert separated() < 0.2 * before
    stored = adata.uns["epca"]
    assert list(stored["batch_names"]) == ["batch=1"]
    assert np.isnan(stored["batch_coef"][0, 25:]).all()
    found = stored["batch_coef"][0, :25]
    assert np.corrcoef(found, shift[:25])[0, 1] > 0.9
    labels = adata.obs[["batch"]].astype(str)
    codes = model.transform(adata.X[:, :25], covariates=labels)
    np.testing.assert_allclose(codes, adata.obsm["X_epca"], atol=1e-8)
    with anndata.settings.override(allow_write_nullable_strings=True):  # names of pandas 3
        adata.write_h5ad(tmp_path / "cells.h5ad")


def test_batches_that_cannot_be_used_are_named():
    from regfactor.anndata import epca

    adata = cells()
    with pytest.raises(ValueError, match="batch_key='plate' is not a column of adata.obs"):
        epca(adata, 2, layer="counts", batch_key="plate")
    adata.obs["plate"] = ["a", None] * 30
    with pytest.raises(ValueError, match="Cell '1' has no batch"):
        epca(adata, 2, layer="counts", batch_key="plate")
    adata.obs["plate"] = "a"
    with pytest.raises(ValueError, match="holds one batch"):
        epca(adata, 2, layer="counts", batch_key=["plate"])


def test_what_is_wrong_is_named():
    from regfactor.anndata import epca

    with pytest.raises(TypeError, match="ExponentialFamilyPCA"):
        epca(np.ones((4, 3)))
    with pytest.raises(ValueError, match="'raw'.*'counts'"):
        epca(cells(), layer="raw")
    with pytest.raises(ValueError, match="not a column of adata.var"):
        epca(cells(), mask_var="hvg")
    with pytest.raises(ValueError, match="marks 0"):
        epca(cells(), mask_var=np.zeros(15))


def test_example_of_the_docstring():
    module = importlib.import_module("regfactor.anndata")
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0
