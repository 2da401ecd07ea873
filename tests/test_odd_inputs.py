"""What new users give to `fit`: a right answer, or an error that says what to give instead."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import regfactor
from regfactor import AutoImputer, ConvexSubspace, TwoViewSubspace


class Annotated(SimpleNamespace):
    """What AnnData looks like to a library that does not know it."""

    def __len__(self):
        return 3


@pytest.mark.parametrize("estimator", [ConvexSubspace, AutoImputer], ids=lambda cls: cls.__name__)
def test_annotated_tables_are_refused_with_those_they_hold(estimator):
    adata = Annotated(X=np.eye(3), obs_names=["a", "b", "c"], layers={"counts": np.eye(3)})
    with pytest.raises(ValueError, match=r"adata.X or layers\['counts'\], or adata.to_df\(\)"):
        estimator().fit(adata)


def test_a_third_view_is_refused_by_the_estimator_that_takes_it():
    A, B, C = np.random.default_rng(0).normal(size=(3, 12, 4))
    with pytest.raises(ValueError, match=r"MultiViewSubspace\(\).fit\(\[X1, X2, X3\]\)"):
        TwoViewSubspace().fit(A, B, C)


def test_the_package_shows_public_names_only():
    shown = {name for name in dir(regfactor) if not name.startswith("__")}
    assert shown == {*regfactor.__all__, *regfactor.PACKAGES}


def counts_of_cells(n=40, d=30, seed=0):
    random = np.random.default_rng(seed)
    rates = np.exp(random.normal(size=(n, 2)) @ random.normal(size=(2, d)) / 2)
    return random.poisson(rates).astype(float)


@pytest.mark.parametrize("as_table", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_logarithms_of_counts_under_a_loss_of_counts_are_reported(as_table, family):
    X = counts_of_cells()
    totals = X.sum(axis=1, keepdims=True)
    model = regfactor.ExponentialFamilyPCA(2, family, max_iter=20)
    for logged in (np.log1p(X), np.log1p(1e4 * X / totals).astype(np.float32)):
        with pytest.warns(UserWarning, match="looks like their logarithms.*layers"):
            model.fit(as_table(logged))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(as_table(X))  # counts
        model.fit(as_table(X / totals))  # rates
        model.fit(as_table(X / 1e4))
        model.fit(as_table(X * np.random.default_rng(1).uniform(0.5, 2.0, X.shape)))


def test_logarithms_under_other_losses_are_taken_as_they_are():
    logged = np.log1p(counts_of_cells())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        regfactor.ConvexSubspace(alpha=5.0).fit(logged)
    with pytest.warns(UserWarning, match="looks like their logarithms"):
        regfactor.ConvexSubspace("poisson", alpha=5.0).fit(logged)
    with pytest.warns(UserWarning, match="looks like their logarithms"):
        regfactor.ConvexSubspace({j: "poisson" for j in range(30)}, alpha=5.0).fit(logged)
