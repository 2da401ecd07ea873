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


def kinds_of_labels(names):
    """Labels of two classes, None at unlabeled rows, as people have them."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    truths = [None if name is None else name == "b" for name in names]
    return {
        "list": names,
        "objects": np.array(names, dtype=object),
        "Categorical": pandas.Categorical(names),
        "Series of categories": pandas.Series(pandas.Categorical(names)),
        "boolean": pandas.array(truths, dtype="boolean"),
        "polars": polars.Series(names),
        "polars categories": polars.Series(names, dtype=polars.Categorical),
        "polars booleans": polars.Series(truths),
    }


def test_labels_are_read_in_every_kind():
    random = np.random.default_rng(0)
    kind = np.repeat([0, 1], 25)
    X = random.normal(size=(50, 3)) + 3 * kind[:, None]
    known = random.random(50) < 0.3
    names = [["a", "b"][k] if seen else None for k, seen in zip(kind, known, strict=True)]
    for name, y in kinds_of_labels(names).items():
        model = regfactor.ReverseClassifier().fit(X, y)
        right = np.asarray(model.transduction_) == model.classes_[kind]
        assert right.mean() > 0.9, name
        assert list(model.classes_) in (["a", "b"], [False, True]), name


def test_rows_out_of_the_order_of_their_times_are_refused():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=40)
    shuffled = pandas.DataFrame({"v": np.arange(40.0)}, index=days).sample(frac=1, random_state=0)
    for model in (regfactor.AutoForecaster(), regfactor.RegularizedARMA()):
        with pytest.raises(ValueError, match=r"not in the order of their times.*X.sort_index\(\)"):
            model.fit(shuffled)
