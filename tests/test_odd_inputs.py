"""What new users give to `fit`: a right answer, or an error that says what to give instead."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
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


N_ROWS = 40


def an_incomplete_table():
    random = np.random.default_rng(3)
    X = random.normal(size=(N_ROWS, 2)) @ random.normal(size=(2, 4))
    X = np.round(X + 0.2 * random.normal(size=X.shape), 2)
    missing = random.random(X.shape) < 0.1
    missing[:, 0] = False
    return np.where(missing, np.nan, X)


def kinds_of_tables(X):
    """One table as people hold it; X may have NaN, which is null, None or masked in others."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    names = list("abcdef")[: X.shape[1]]
    missing = np.isnan(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.full((2 * len(X), 2 * X.shape[1]), 7e7)
    wide[::2, ::2] = X
    frame = pandas.DataFrame(X, columns=names)
    return {
        "lists": X.tolist(),
        "tuples": tuple(map(tuple, X.tolist())),
        "Fortran order": np.asfortranarray(X),
        "read-only": frozen,
        "strided": wide[::2, ::2],
        "reversed twice": X[::-1].copy()[::-1],
        "long double": X.astype(np.longdouble),
        "big endian": X.astype(">f8"),
        "objects": X.astype(object),
        "objects with None": np.where(missing, None, X.astype(object)),
        "masked": np.ma.MaskedArray(np.where(missing, 9999.0, X), mask=missing),
        "masked nowhere": np.ma.MaskedArray(X),
        "pandas": frame,
        "columns by number": pandas.DataFrame(X),
        "repeated index": frame.set_axis([0] * len(X)),
        "nullable": frame.astype("Float64"),
        "pyarrow": frame.astype("double[pyarrow]"),
        "pandas objects": frame.astype(object),
        "sparse frame": frame.astype(pandas.SparseDtype(float, np.nan)),
        "polars": polars.DataFrame(X, schema=names, nan_to_null=True),
        "polars NaN": polars.DataFrame(X, schema=names),
    }


def values_of(result):
    """Return what an estimator gave as one array of floats."""
    parts = result if isinstance(result, tuple | list) else [result]
    parts = [part.to_numpy() if hasattr(part, "to_numpy") else np.asarray(part) for part in parts]
    return np.hstack([part.astype(float).reshape(len(part), -1) for part in parts])


LABELS = np.where(np.random.default_rng(4).random(N_ROWS) < 0.5, -1, np.arange(N_ROWS) % 2)
TARGETS = np.where(LABELS < 0, np.nan, np.linspace(0, 1, N_ROWS))


def subspace(X):
    return regfactor.ConvexSubspace(alpha=2.0).fit(X).complete(X)


def views(X):
    return TwoViewSubspace(n_first=2).fit(X).denoise(X)


def many_views(X):
    model = regfactor.MultiViewSubspace(alpha=1.0).fit([X, X])
    return model.denoise([X, X])


def regressor(X):
    model = regfactor.SemiSupervisedRegressor(random_state=0).fit(X, TARGETS)
    return model.predict(X)


def classifier(X):
    model = regfactor.SemiSupervisedClassifier(random_state=0).fit(X, LABELS)
    return model.predict_proba(X)


def mixture(X):
    return regfactor.AutoMixture(2, random_state=0).fit(X).predict_proba(X)


def imputer(X):
    return AutoImputer(random_state=0).fit(X).transform(X)


def forecaster(X):
    return values_of(regfactor.AutoForecaster().fit(X).forecast(3))


QUICK_KINDS = ("masked", "objects with None", "nullable", "pyarrow", "sparse frame", "polars")


@pytest.mark.parametrize(
    "fit",
    [subspace, views, many_views, regressor, classifier, mixture, imputer, forecaster],
    ids=lambda fit: fit.__name__,
)
def test_one_table_in_every_kind_gives_one_result(fit):
    X = an_incomplete_table()
    if fit in (regressor, classifier, forecaster):
        X = np.where(np.isnan(X), 0.5, X)
    kinds = kinds_of_tables(X)
    if fit in (imputer, mixture, many_views, classifier, forecaster):
        kinds = {name: kinds[name] for name in QUICK_KINDS}
    if fit is forecaster:  # times are not repeated
        kinds.pop("repeated index", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = values_of(fit(X))
        assert np.isfinite(expected).all()
        for name, table in kinds.items():
            found = values_of(fit(table))
            assert found == pytest.approx(expected, abs=1e-7), name


def containers(X):
    """What holds a table and is none, with the words of its refusal."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    names = list("abcd")
    frame = pandas.DataFrame(X, columns=names)
    return {
        "lazy": (polars.LazyFrame(X, schema=names), r"collect it: X.collect\(\)"),
        "arrow": (arrow.Table.from_pandas(frame), r"X.to_pandas\(\)"),
        "repeated names": (frame.set_axis(["a", "a", "b", "c"], axis=1), "several columns.*'a'"),
        "path": ("t.csv", r"regfactor.read_table\('t.csv'\)"),
        "dict": ({name: X[:, j].tolist() for j, name in enumerate(names)}, "pandas.DataFrame"),
        "huge": ([[10**400] * 4, *X.tolist()], "float64 cannot hold|too large"),
        "complex": (X + 1j, "Complex data not supported"),
        "infinity": (np.where(X == X[0, 0], np.inf, X), "infinity"),
        "words": (np.full(X.shape, "red"), "no number|strings|categories"),
        "three dimensions": (X[:, :, None], "dim 3|3 dimensions"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "lazy",
        "arrow",
        "repeated names",
        "path",
        "dict",
        "huge",
        "complex",
        "infinity",
        "words",
        "three dimensions",
    ],
)
@pytest.mark.parametrize(
    "fit", [subspace, views, regressor, mixture, imputer], ids=lambda fit: fit.__name__
)
def test_what_is_no_table_is_refused_with_what_to_give(fit, name):
    X = np.nan_to_num(an_incomplete_table())
    if fit in (regressor, classifier):
        X = X[: len(TARGETS)]
    table, remedy = containers(X)[name]
    if name == "arrow" and fit in (views, regressor):
        # its rows are read at once, as an array; the others read columns by their types
        assert values_of(fit(table)) == pytest.approx(values_of(fit(X)), abs=1e-7)
        return
    if name == "words" and fit in (mixture, imputer):
        pytest.skip("categories are taken as they are")
    with pytest.raises((ValueError, TypeError), match=remedy):
        fit(table)


def test_masked_labels_and_targets_are_missing_ones():
    X = np.nan_to_num(an_incomplete_table())
    known = LABELS >= 0
    masked = np.ma.MaskedArray(np.where(known, LABELS, 1), mask=~known)
    words = np.ma.MaskedArray(np.where(LABELS == 1, "b", "a"), mask=~known)
    for cls in (regfactor.SemiSupervisedClassifier, regfactor.ReverseClassifier):
        expected = cls(random_state=0).fit(X, LABELS).predict_proba(X)
        for y in (masked, words):
            assert cls(random_state=0).fit(X, y).predict_proba(X) == pytest.approx(expected)
    numbers = np.ma.MaskedArray(np.where(known, TARGETS, 99.0), mask=~known)
    whole = np.ma.MaskedArray(np.where(known, np.arange(N_ROWS), 99), mask=~known)
    wanted = np.where(known, np.arange(N_ROWS), np.nan)
    for cls in (regfactor.SemiSupervisedRegressor, regfactor.ReverseRegressor):
        for y, same in ((numbers, TARGETS), (whole, wanted)):
            found = cls(random_state=0).fit(X, y).predict(X)
            assert found == pytest.approx(cls(random_state=0).fit(X, same).predict(X))
    low_rank = regfactor.ReducedRankRegression(rank=None, alpha=1.0)
    found = low_rank.fit(X, numbers[:, None]).predict(X)
    assert found == pytest.approx(low_rank.fit(X, TARGETS[:, None]).predict(X))


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_tables_of_every_format_give_one_result(form, kind):
    X = np.nan_to_num(an_incomplete_table())
    X[:, 1:][np.random.default_rng(5).random((N_ROWS, 3)) < 0.4] = 0.0
    rows = scipy.sparse.csr_array(X)
    other = getattr(scipy.sparse, f"{form}_{kind}")(X)
    for fit in (subspace, views):
        assert values_of(fit(other)) == pytest.approx(values_of(fit(rows)))
    assert regressor(other) == pytest.approx(regressor(rows))


def test_entries_that_a_sparse_table_holds_twice_are_summed():
    X = np.nan_to_num(an_incomplete_table())
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    twice = scipy.sparse.coo_array(
        (np.r_[values / 4, 3 * values / 4], (np.r_[rows, rows], np.r_[columns, columns])), X.shape
    )
    assert values_of(subspace(twice)) == pytest.approx(
        values_of(subspace(scipy.sparse.csr_array(X)))
    )


def test_missing_values_of_pandas_are_missing_in_arrays_of_objects():
    X = np.random.default_rng(0).normal(size=(20, 3))
    marked = X.astype(object)
    marked[4, 1] = pd.NA
    X[4, 1] = np.nan
    for model in (ConvexSubspace(alpha=1.0), AutoImputer(random_state=0)):
        expected = model.fit(X).complete(X)
        np.testing.assert_array_equal(model.fit(marked).complete(marked).astype(float), expected)


def named_rows():
    pandas = pytest.importorskip("pandas")
    X = np.nan_to_num(an_incomplete_table())
    index = [f"row {i}" for i in range(len(X))]
    first = pandas.DataFrame(X[:, :2], columns=["a", "b"], index=index)
    second = pandas.DataFrame(X[:, 2:], columns=["c", "d"], index=index)
    return first, second


def test_rows_in_another_order_are_refused():
    first, second = named_rows()
    shuffled = second.sample(frac=1, random_state=0)
    model = TwoViewSubspace(alpha=1.0).fit(first, second)
    with pytest.raises(
        ValueError, match=r"X1 and X2 have the same index in another order.*reindex"
    ):
        TwoViewSubspace(alpha=1.0).fit(first, shuffled)
    for method in (model.transform, model.denoise):
        with pytest.raises(ValueError, match="in another order"):
            method(first, shuffled)
    for estimator in (
        regfactor.CanonicalCorrelation(1),
        regfactor.ReducedRankRegression(rank=1, alpha=1.0),
        regfactor.SemiSupervisedRegressor(),
        regfactor.ReverseRegressor(),
    ):
        with pytest.raises(ValueError, match=r"X and y have the same index.*y.set_axis\(X.index\)"):
            estimator.fit(first, shuffled["c"])
    weights = shuffled["c"].abs()
    for estimator in (ConvexSubspace(alpha=1.0), regfactor.BregmanKMeans(2), AutoImputer()):
        with pytest.raises(ValueError, match="X and sample_weight have the same index in another"):
            estimator.fit(first, sample_weight=weights)
    with pytest.raises(ValueError, match="X1 and sample_weight have the same index in another"):
        TwoViewSubspace(alpha=1.0).fit(first, second, sample_weight=weights)
    again = TwoViewSubspace(alpha=1.0).fit(first, shuffled.reindex(first.index))
    assert again.codes_ == pytest.approx(model.codes_)
    # rows that have other names, or none, go by position
    renamed = second.set_axis(range(len(second)), axis=0)
    by_position = TwoViewSubspace(alpha=1.0).fit(first, renamed).codes_
    assert by_position == pytest.approx(model.codes_)
    by_position = TwoViewSubspace(alpha=1.0).fit(first, second.to_numpy()).codes_
    assert by_position == pytest.approx(model.codes_)
    # several views are matched by their index
    found = regfactor.MultiViewSubspace(alpha=1.0).fit([first, shuffled]).codes_
    assert found == pytest.approx(
        regfactor.MultiViewSubspace(alpha=1.0).fit([first, second]).codes_
    )


def test_views_of_different_rows_are_refused_with_the_names_of_both():
    first, second = named_rows()
    with pytest.raises(ValueError, match=r"X1 has 40 rows and X2 30.*X2.reindex\(X1.index\)"):
        TwoViewSubspace().fit(first, second.head(30))
    model = TwoViewSubspace().fit(first, second.head(30).reindex(first.index))
    assert model.predict_view(X1=first.tail(10)).shape == (10, 2)


def test_dates_of_series_in_a_column_are_told_how_to_become_times():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2024-01-01", periods=40)
    series = pandas.DataFrame({"day": days, "v": np.arange(40.0) % 7})
    some = series.drop(index=[10, 11])
    with pytest.raises(ValueError, match=r"X.set_index\('day'\)"):
        regfactor.AutoForecaster().fit(some)
    with pytest.raises(ValueError, match="times are left out.*regular_rows"):
        regfactor.AutoForecaster().fit(some.set_index("day"))
    for form in ("%d/%m/%Y", "%d.%m.%y", "%m-%d-%Y", "%d/%m/%Y 12:00"):
        words = series.assign(day=days.strftime(form)).set_index("day")
        with pytest.raises(ValueError, match=r"dates as words.*pd.to_datetime\(X.index\)"):
            regfactor.AutoForecaster().fit(words)
    twice = series.assign(entered=days)
    with pytest.raises(ValueError, match="'entered' besides those in 'day'"):
        regfactor.AutoForecaster().fit(twice)


@pytest.mark.parametrize(
    "estimator",
    [ConvexSubspace(alpha=1.0), regfactor.BregmanKMeans(2), regfactor.AutoMixture(2)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_masked_weights_are_refused(estimator):
    X = np.nan_to_num(an_incomplete_table())
    weights = np.ma.MaskedArray(np.ones(len(X)), mask=np.arange(len(X)) == 3)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        estimator.fit(X, sample_weight=weights)
    estimator.fit(X, sample_weight=np.ma.MaskedArray(np.ones(len(X))))
