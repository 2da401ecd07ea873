"""What every estimator promises: scikit-learn's contract, scoring of new rows, completion, weights, clear errors."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import regfactor
from catalogue import ESTIMATORS, EXEMPT, N_WAY, OF_TABLES, UNCHECKED
from regfactor import (
    ConvexSparseCoding,
    ConvexSubspace,
    FactorModel,
    RobustSubspace,
    SubspaceImputer,
    baselines,
)
from regfactor.fitting.factor_estimator import FactorEstimator
from regfactor.kernels import Precomputed
from regfactor.losses import Gamma, Huber
from regfactor.norms import L2, LInf, Lp
from regfactor.penalties import (
    Columns,
    Lasso,
    NonNegative,
    OneHot,
    Rows,
    Simplex,
    SquaredL2,
    Trace,
    TwoView,
    UnitBall,
)


@pytest.mark.filterwarnings(
    "ignore:.*have no observed entry"
)  # as some rows of the sparse tables tried
@pytest.mark.filterwarnings("ignore:.*has no component")  # at alpha=1, of a few cells
@pytest.mark.filterwarnings("ignore:.*whatever the data")  # correlations of more columns than rows
@pytest.mark.filterwarnings(
    "ignore:Bregman.* did not converge"
)  # of checks that allow few iterations
@pytest.mark.filterwarnings("ignore:The means of all")  # of sharpness 1, whatever the table
@pytest.mark.filterwarnings(
    "ignore:Number of distinct clusters", "ignore:X has only . distinct rows"
)  # of checks that repeat a few rows
@parametrize_with_checks(
    [clone(e) for name, e in ESTIMATORS.items() if name not in UNCHECKED],
    expected_failed_checks=lambda e: EXEMPT.get(type(e).__name__, {}),
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def table(kind="real", n=40, d=12, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d))
    X = {
        "real": L + 0.1 * rng.normal(size=(n, d)),
        "binary": (L > 0).astype(float),
        "counts": rng.poisson(np.exp(L / 3)).astype(float),
        "positive": np.abs(L) + 0.1,
        "sign": np.sign(L),
    }[kind]
    return np.where(rng.random((n, d)) < missing, np.nan, X)


EXACT = {"tol": 1e-8, "max_iter": 20_000}
FITS = {
    "subspace": (ConvexSubspace(**EXACT), "real"),
    "subspace_without_intercept": (ConvexSubspace(fit_intercept=False, **EXACT), "real"),
    "subspace_huber": (ConvexSubspace("huber", **EXACT), "real"),
    "subspace_logistic": (ConvexSubspace("logistic", **EXACT), "binary"),
    "subspace_poisson": (ConvexSubspace("poisson", **EXACT), "counts"),
    "subspace_gamma": (ConvexSubspace("gamma_log", **EXACT), "positive"),
    "subspace_hinge": (ConvexSubspace("smoothed_hinge", **EXACT), "sign"),
    "subspace_absolute": (ConvexSubspace("absolute", tol=1e-6, max_iter=20_000), "real"),
    "subspace_mixed": (
        ConvexSubspace([(slice(0, 6), "squared"), (slice(6, 12), "huber")], **EXACT),
        "real",
    ),
    "debiased": (ConvexSubspace(debias=True, **EXACT), "real"),
    "robust": (RobustSubspace(**EXACT), "real"),
    "robust_exact": (RobustSubspace(loss=None, tol=1e-6, max_iter=20_000), "real"),
    "sparse_coding": (ConvexSparseCoding(**EXACT), "real"),
    "sparse_coding_1": (ConvexSparseCoding(q=1, **EXACT), "real"),
    "trace": (FactorModel(gauge=Trace(), **EXACT), "real"),
    "rows_inf": (FactorModel(gauge=Rows(LInf()), **EXACT), "real"),
    "columns_2": (FactorModel(gauge=Columns(L2()), **EXACT), "real"),
    "columns_3": (FactorModel(gauge=Columns(Lp(3.0)), **EXACT), "real"),
    "two_views": (FactorModel(gauge=TwoView(5), **EXACT), "real"),
    "ridges": (FactorModel(rank=3, tol=1e-10), "real"),
    "ridges_logistic": (FactorModel("logistic", rank=3, tol=1e-10), "binary"),
    "kmeans": (FactorModel(on_codes=OneHot(), rank=4, random_state=0), "real"),
    "archetypes": (FactorModel(on_codes=Simplex(), rank=3, random_state=0), "real"),
    "nmf": (
        FactorModel(on_codes=NonNegative(), on_components=NonNegative(), rank=3, alpha=0.0),
        "positive",
    ),
    "nmf_kl": (
        FactorModel("kl", on_codes=NonNegative(), on_components=NonNegative(), rank=3, alpha=0.0),
        "positive",
    ),
    "dictionary": (FactorModel(on_codes=Lasso(), on_components=UnitBall(L2()), rank=4), "real"),
}
every_fit = pytest.mark.parametrize(("model", "kind"), FITS.values(), ids=FITS)


@pytest.fixture(scope="module")
def fitted():
    """Fit every model once."""
    cache = {}

    def get(model, kind):
        key = repr(model)
        if key not in cache:
            cache[key] = clone(model).fit(table(kind))
        return cache[key]

    return get


@every_fit
def test_transform_reproduces_the_codes_row_by_row(fitted, model, kind):
    fit, X = fitted(model, kind), table(kind)
    before = fit.components_.copy()
    size = np.abs(fit.codes_).max()
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-5 * size)
    for rows in (slice(0, 1), slice(7, 12), [30, 2]):
        np.testing.assert_allclose(fit.transform(X[rows]), fit.codes_[rows], atol=1e-5 * size)
    np.testing.assert_array_equal(fit.components_, before)


# Models of one table without targets; others reproduce codes_ only together with their labels.
UNSUPERVISED = [
    name
    for name, model in ESTIMATORS.items()
    if isinstance(model, FactorEstimator) and not get_tags(model).target_tags.required
]


COMPLETING = ("SubspaceImputer",)  # transform returns a table, not codes


# views of the tables of these laws
FIT_OPTIONS = {"MultiViewSubspace": {"views": [list(range(5)), list(range(5, 12))]}}


def exact(name):
    """An estimator of the catalogue with a small tolerance, the first of two views given."""
    model = clone(ESTIMATORS[name]).set_params(**EXACT)
    if model.get_params().get("alpha") == "auto":  # of entries held out, which repetition changes
        model.set_params(alpha=1.0)
    if "n_first" in model.get_params():
        model.set_params(n_first=5)
    return model


@pytest.mark.parametrize("name", [name for name in UNSUPERVISED if name not in COMPLETING])
def test_transform_reproduces_the_codes_of_every_factor_estimator(name):
    X = table()
    options = FIT_OPTIONS.get(name, {})
    fit = exact(name).fit(X, **options)
    size = np.abs(fit.codes_).max()
    assert size > 0
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-5 * size)


@pytest.mark.parametrize("name", UNSUPERVISED)
def test_a_weight_acts_as_repetition_in_every_factor_estimator(name):
    X = table(missing=0.1, n=15)
    weights = np.arange(15) % 4
    options = FIT_OPTIONS.get(name, {})
    weighted = exact(name).fit(X, sample_weight=weights, **options)
    repeated = exact(name).fit(np.repeat(X, weights, axis=0), **options)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


@every_fit
def test_codes_are_those_of_the_solver_and_not_only_of_the_scoring(fitted, model, kind):
    fit = fitted(model, kind)
    assert fit.objective_ <= fit.history_[-1].objective + 1e-7 * abs(fit.objective_)
    if fit._certificate is not None:
        assert -1e-12 <= fit.relative_gap_ <= model.tol * (1 + 1e-9)


@every_fit
def test_completion_fills_missing_and_keeps_what_was_observed(fitted, model, kind):
    fit, X = fitted(model, kind), table(kind)
    full = fit.complete(X)
    assert np.isfinite(full).all()
    np.testing.assert_array_equal(full[~np.isnan(X)], X[~np.isnan(X)])
    predicted = fit.inverse_transform(fit.codes_)
    np.testing.assert_allclose(full[np.isnan(X)], predicted[np.isnan(X)], rtol=1e-4, atol=1e-4)


@every_fit
def test_a_row_without_an_observation_is_scored(fitted, model, kind):
    fit = fitted(model, kind)
    codes = fit.transform(np.full((1, 12), np.nan))
    assert np.isfinite(codes).all()
    if fit._certificate is not None:
        np.testing.assert_allclose(
            fit.inverse_transform(codes), fit.inverse_transform(np.zeros_like(codes))
        )


@pytest.mark.parametrize(
    "model", [ConvexSubspace(), RobustSubspace(), ConvexSparseCoding(), FactorModel(rank=2)]
)
def test_float32_stays_float32(model):
    X = table().astype(np.float32)
    fit = model.fit(X)
    assert (
        fit.codes_.dtype
        == fit.components_.dtype
        == fit.transform(X).dtype
        == fit.complete(X).dtype
        == np.float32
    )


@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace(tol=1e-11, max_iter=20_000, alpha=1.0),
        ConvexSubspace("poisson", tol=1e-11, max_iter=20_000, alpha=1.0),
        RobustSubspace(beta=0.3, tol=1e-11, max_iter=20_000),
        ConvexSparseCoding(tol=1e-11, alpha=1.0),
        FactorModel(gauge=Columns(Lp(3.0)), tol=1e-11),
        FactorModel(gauge=TwoView(5), tol=1e-10, max_iter=20_000),
        FactorModel(rank=2, tol=1e-13, max_iter=20_000),
    ],
)
def test_a_weight_stands_for_equal_rows(model):
    X = np.abs(table(missing=0.1, n=15))
    weights = np.arange(15) % 4
    weighted = clone(model).fit(X, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)
    codes = weighted.transform(X) @ weighted.components_
    np.testing.assert_allclose(codes, repeated.transform(X) @ repeated.components_, atol=1e-4)


def test_entry_weights_of_zero_are_missing():
    X = table(missing=0.0)
    missing = np.random.default_rng(1).random(X.shape) < 0.3
    a = ConvexSubspace(**EXACT, alpha=1.0, scale=False).fit(
        X, entry_weight=np.where(missing, 0.0, 1.0)
    )
    b = ConvexSubspace(**EXACT, alpha=1.0, scale=False).fit(np.where(missing, np.nan, X))
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-7)


def test_frames_come_back_as_frames():
    X = table()
    columns = [f"c{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=columns, index=[f"r{i}" for i in range(len(X))])
    model = ConvexSubspace(alpha=1.0, scale=False).fit(frame)
    full = model.complete(frame)
    assert (
        list(full.columns) == columns
        and full.index.equals(frame.index)
        and not full.isna().any().any()
    )
    assert model.set_output(transform="pandas").transform(frame).index.equals(frame.index)
    polars = (
        ConvexSubspace(alpha=1.0, scale=False)
        .fit(pl.DataFrame(frame))
        .complete(pl.DataFrame(frame))
    )
    np.testing.assert_allclose(polars.to_numpy(), full.to_numpy())


def test_debiasing_keeps_the_certificate_and_fits_closer():
    X = table()
    plain, debiased = (
        ConvexSubspace(alpha=5.0).fit(X),
        ConvexSubspace(alpha=5.0, debias=True).fit(X),
    )
    assert debiased.objective_ == plain.objective_ and debiased.gap_ == plain.gap_
    error = [np.nanmean((m.inverse_transform(m.codes_) - X) ** 2) for m in (plain, debiased)]
    assert error[1] < error[0]


def test_parts_nest_in_a_grid():
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), ConvexSubspace(Huber())),
        {"convexsubspace__loss__delta": [0.5, 2.0], "convexsubspace__alpha": [1.0]},
        scoring=lambda model, X, y=None: (
            -float(np.nanmean(np.abs(model[-1].inverse_transform(model.transform(X)))))
        ),
        cv=2,
    )
    grid.fit(table(missing=0.0))
    assert grid.best_params_["convexsubspace__loss__delta"] in (0.5, 2.0)


def test_models_survive_pickling():
    X = table()
    model = ConvexSubspace().fit(X)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).transform(X), model.transform(X)
    )


def test_principal_component_pursuit_recovers_both_parts():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 60))
    S = np.where(rng.random(L.shape) < 0.05, rng.uniform(-10, 10, L.shape), 0)
    model = RobustSubspace(loss=None, tol=1e-7, max_iter=5000).fit(L + S)
    Z = model.inverse_transform(model.codes_)
    assert np.linalg.norm(Z - L) <= 1e-4 * np.linalg.norm(L)
    np.testing.assert_allclose(Z + model.outliers_.toarray(), L + S, atol=1e-8)
    assert model.relative_gap_ <= 1e-6


def test_robust_squared_is_huber():
    X = table(missing=0.1)
    robust = RobustSubspace(alpha=2.0, beta=0.3, tol=1e-9, max_iter=20_000).fit(X)
    huber = ConvexSubspace(
        Huber(0.3), alpha=2.0, fit_intercept=False, tol=1e-9, max_iter=20_000, scale=False
    ).fit(X)
    assert robust.objective_ == pytest.approx(huber.objective_, rel=1e-7)
    residual = np.nan_to_num(X - robust.inverse_transform(robust.codes_))
    expected = np.sign(residual) * np.maximum(np.abs(residual) - 0.3, 0)
    np.testing.assert_allclose(robust.outliers_.toarray(), expected, atol=1e-8)
    np.testing.assert_allclose(robust.outliers(X[3:9]).toarray(), expected[3:9], atol=1e-6)


def test_sparse_coding_gives_every_row_its_own_atom():
    X = table(missing=0.0)
    model = ConvexSparseCoding(alpha=1.0, scale=False).fit(X)
    size = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(
        model.inverse_transform(model.codes_), X * np.maximum(1 - 1 / size, 0), atol=1e-6
    )


def test_ridges_on_both_factors_reach_the_trace_norm():
    X = table()
    convex = FactorModel(gauge=Trace(), alpha=2.0, tol=1e-9, max_iter=20_000).fit(X)
    local = FactorModel(
        on_codes=SquaredL2(), on_components=SquaredL2(), rank=8, alpha=2.0, tol=1e-12
    ).fit(X)
    assert convex.is_convex_ and not local.is_convex_
    assert local.objective_ == pytest.approx(convex.objective_, rel=1e-4)
    assert local.objective_ >= convex.objective_ - convex.gap_
    assert FactorModel(on_codes=SquaredL2(), on_components=SquaredL2()).fit(X).is_convex_


def test_a_local_fit_offers_no_gap():
    model = FactorModel(rank=2).fit(table())
    with pytest.raises(AttributeError, match="no duality gap"):
        _ = model.gap_
    with pytest.raises(NotFittedError):
        _ = ConvexSubspace().gap_


def test_certificates_read_as_one_sentence():
    text = str(ConvexSubspace().fit(table()).certificate_)
    assert "global optimum" in text and "proven" in text and "\n" not in text


def test_a_fit_that_is_cut_short_says_how_far_it_is():
    with pytest.warns(ConvergenceWarning, match="max_iter.*Relative gap"):
        ConvexSubspace("logistic", alpha=0.01, tol=1e-12, max_iter=5).fit(table("binary"))


def test_progress_is_shown_only_on_request(capsys):
    ConvexSubspace().fit(table())
    assert capsys.readouterr() == ("", "")
    ConvexSubspace(verbose=1).fit(table())
    assert "gap" in capsys.readouterr().err


def test_a_callback_sees_iterates_and_can_stop():
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        ConvexSubspace(
            tol=1e-12, callback=lambda it: seen.append(it.objective) or len(seen) >= 2
        ).fit(table())
    assert len(seen) == 2


BAD = {
    "one dimension": (ConvexSubspace(), np.arange(5.0), "2D array"),
    "infinity": (ConvexSubspace(), np.array([[1.0, np.inf], [2.0, 3.0]]), "infinity"),
    "all missing": (ConvexSubspace(), np.full((3, 2), np.nan), "missing"),
    "text": (
        ConvexSubspace(),
        np.array([["1", "b"]]),
        "Column 1 of X holds 'b' in row 0, which is no number",
    ),
    "negative alpha": (ConvexSubspace(alpha=-1.0), np.eye(3), "'alpha' parameter.* must be"),
    "zero alpha": (ConvexSubspace(alpha=0.0), np.eye(3), "'alpha' parameter.* must be"),
    "alpha a word": (ConvexSubspace(alpha="big"), np.eye(3), "'alpha' parameter.* must be"),
    "unknown loss": (ConvexSubspace("squard"), np.eye(3), "Did you mean 'squared'"),
    "loss of a wrong type": (
        ConvexSubspace(3),
        np.eye(3),
        "'loss' parameter of ConvexSubspace must be .* a Loss",
    ),
    "outside the domain": (
        ConvexSubspace("poisson"),
        -np.eye(3),
        "column 0: 1 of 3.*loss='squared'",
    ),
    "probabilities": (ConvexSubspace("logistic"), np.full((3, 3), 2.0), r"\[0, 1\].*poisson"),
    "signs for logistic": (
        ConvexSubspace("logistic"),
        np.array([[1.0, -1.0], [-1.0, 1.0]]),
        "hinge",
    ),
    "predictors below zero": (
        FactorModel(Gamma(), rank=2),
        np.ones((3, 3)),
        "predictors < 0 only.*gamma_log",
    ),
    "predictors below zero, convex": (
        FactorModel(Gamma(), gauge=Trace()),
        np.ones((3, 3)),
        "family='gamma'",
    ),
    "restricted link": (ConvexSubspace("kl"), np.eye(3), "NonNegative"),
    "columns without a loss": (RobustSubspace(loss={0: "squared"}), np.eye(3), r"columns \[1, 2\]"),
    "an alpha that is none": (
        ConvexSubspace(alpha="large"),
        np.eye(3),
        "float in the range .*, 'auto' or 'noise'",
    ),
    "no rank at all": (
        ConvexSubspace(max_rank=0),
        np.eye(3),
        "'max_rank' parameter of ConvexSubspace must be an int in the range .* or None",
    ),
    "a rank in words": (
        ConvexSubspace(max_rank="3"),
        np.eye(3),
        "'max_rank' parameter of ConvexSubspace must be an int in the range .* or None",
    ),
    "a rule that is none": (
        ConvexSubspace(alpha="auto", rule="best"),
        np.eye(3),
        "'rule' parameter.*must be '1se' or 'min'. Got 'best'",
    ),
    "zeros that are neither": (
        ConvexSubspace(sparse_zeros="gone"),
        np.eye(3),
        "'sparse_zeros' parameter.*must be 'missing' or 'observed'. Got 'gone'",
    ),
    "a rank that is none": (
        FactorModel(rank="all"),
        np.eye(3),
        "'rank' parameter.*must be an int.*'auto'.*or None",
    ),
    "auto of both": (RobustSubspace(alpha="auto"), np.eye(3), "give one as a number"),
    "auto of a local model": (FactorModel(rank=1, alpha="auto"), np.eye(3), "needs a convex model"),
    "rank too large": (FactorModel(on_codes=OneHot(), rank=7), np.eye(3), "at most n = 3"),
    "rank zero": (FactorModel(rank=0), np.eye(3), "'rank' parameter"),
    "gauge and rank": (FactorModel(gauge=Trace(), rank=2), np.eye(3), "leave rank=None"),
    "gauge and penalties": (
        FactorModel(gauge=Trace(), on_codes=OneHot()),
        np.eye(3),
        "either a gauge",
    ),
    "no convex form": (
        FactorModel(on_codes=OneHot(), require="global"),
        np.eye(3),
        "no known convex form",
    ),
    "no rank": (FactorModel(on_codes=OneHot()), np.eye(3), "needs a rank"),
    "kinks": (FactorModel("absolute", rank=2), np.eye(3), "kinks"),
    "views": (FactorModel(gauge=TwoView(5)), np.eye(3), "n_first=5"),
    "beta": (RobustSubspace(beta=-1.0), np.eye(3), "'beta' parameter"),
    "gauge a word": (
        FactorModel(gauge="trace"),
        np.eye(3),
        r"must be a Gauge or None.*Did you mean Trace\(\)",
    ),
    "gauge a class": (FactorModel(gauge=Trace), np.eye(3), r"Give an instance: Trace\(\)"),
    "penalty a word": (
        FactorModel(on_codes="nonnegative", rank=2),
        np.eye(3),
        r"must be a Penalty or None.*Did you mean NonNegative\(\)",
    ),
    "penalty a class": (
        FactorModel(on_codes=NonNegative, rank=2),
        np.eye(3),
        r"Give an instance: NonNegative\(\)",
    ),
    "loss a class": (ConvexSubspace(Huber), np.eye(3), r"Give an instance: Huber\(\)"),
    "columns that are not there": (
        ConvexSubspace([([8, 9], "squared")]),
        np.eye(3),
        "the table has 3",
    ),
    "losses without columns": (
        ConvexSubspace(["squared"]),
        np.eye(3),
        r"pairs \(columns, loss\).*\['squared'\]",
    ),
    "a pair without a list": (
        ConvexSubspace((0, "squared")),
        np.eye(3),
        r"pairs \(columns, loss\)",
    ),
    "no loss at all": (ConvexSubspace([]), np.eye(3), r"pairs \(columns, loss\).*got \[\]"),
    "losses without columns, robust": (
        RobustSubspace(loss=["squared"]),
        np.eye(3),
        r"pairs \(columns, loss\)",
    ),
    "hinge on zeros and ones": (ConvexSubspace("hinge"), np.eye(3), "code them -1"),
    "too many successes": (ConvexSubspace("binomial"), 4 * np.eye(3), r"Binomial\(trials=4\)"),
    "max_iter": (ConvexSubspace(max_iter="a"), np.eye(3), "'max_iter' parameter"),
    "broken max_iter": (
        FactorModel(rank=1, max_iter=2.5),
        np.eye(3),
        "'max_iter' parameter of FactorModel must be an int",
    ),
    "tol": (ConvexSubspace(tol=-1.0), np.eye(3), "'tol' parameter"),
    "callback": (
        ConvexSubspace(callback=5),
        np.eye(3),
        "'callback' parameter of ConvexSubspace must be a callable or None",
    ),
    "beta a word": (RobustSubspace(beta="some"), np.eye(3), "'auto'"),
}


@pytest.mark.parametrize(("model", "X", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_answered_before_any_work(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"sample_weight": [-1.0, 1.0, 1.0]}, "[Nn]egative"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "zero"),
        ({"entry_weight": -np.eye(3)}, "not negative"),
        ({"entry_weight": np.ones((2, 3))}, "must agree"),
    ],
)
def test_bad_weights_are_answered(weights, message):
    with pytest.raises(ValueError, match=message):
        ConvexSubspace().fit(np.eye(3), **weights)


def test_empty_rows_and_columns_are_allowed_with_a_warning():
    X = table()
    X[3], X[:, 5] = np.nan, np.nan
    with pytest.warns(UserWarning, match="no observed entry") as caught:
        model = ConvexSubspace().fit(X)
    assert len(caught) == 2
    full = model.complete(X)
    np.testing.assert_allclose(full[3], model.intercept_)


def test_an_empty_column_is_warned_of_by_the_name_that_the_user_knows():
    frame = pd.DataFrame(
        {"city": pd.Categorical(["Oslo", "Rome", "Kyiv"] * 4), "size": np.arange(12.0)}
    )
    with pytest.warns(UserWarning, match="no observed entry: 'waist'.*0 under the squared loss"):
        completed = SubspaceImputer("auto", alpha=1.0, debias=False, scale=False).fit_transform(
            frame.assign(waist=np.nan)
        )
    assert not completed["waist"].any()
    with pytest.warns(UserWarning, match="no observed entry: 'waist'"):
        ConvexSubspace(alpha=1.0, scale=False).fit(frame[["size"]].assign(waist=np.nan))
    with pytest.warns(UserWarning, match="no observed entry: 1\\."):
        ConvexSubspace(alpha=1.0, scale=False).fit(
            np.column_stack([np.arange(5.0), np.full(5, np.nan)])
        )


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize(
    "model", [ConvexSubspace(alpha=0.1), RobustSubspace(alpha=0.1), ConvexSparseCoding(alpha=0.1)]
)
def test_tiny_and_constant_tables_work(model, shape):
    model.fit(np.full(shape, 3.0))
    assert np.isfinite(model.inverse_transform(model.codes_)).all()


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_constant_columns_work(loss):
    X = np.nan_to_num(table("binary"))
    X[:, 0], X[:, 1] = 1.0, 0.0
    model = ConvexSubspace(loss, tol=1e-6, max_iter=5000).fit(X)
    assert np.isfinite(model.intercept_).all() and model.relative_gap_ <= 1e-6


def test_beyond_alpha_max_nothing_is_left():
    X = table()
    largest = ConvexSubspace().fit(X).alpha_max_
    with pytest.warns(
        UserWarning, match=r"no component, since alpha is not below alpha_max_.*'auto'"
    ):
        model = ConvexSubspace(alpha=1.0001 * largest).fit(X)
    assert model.codes_.shape == (len(X), 0) and model.relative_gap_ <= 1e-12
    assert model.transform(X).shape == (len(X), 0)
    np.testing.assert_allclose(
        model.complete(X)[np.isnan(X)][0], model.intercept_[np.isnan(X)[0]][0]
    )


@pytest.mark.parametrize(
    "model", [ConvexSubspace(), ConvexSubspace("huber"), SubspaceImputer("logistic")]
)
def test_a_constant_table_has_no_component_at_any_alpha_and_needs_no_warning(model):
    assert not len(clone(model).fit(np.ones((20, 3))).components_)


def test_losses_stand_on_columns_by_name():
    X = pd.DataFrame(table(missing=0.1), columns=[f"c{j}" for j in range(12)])
    X["c3"] = (X["c3"] > 0).astype(float)
    by_name = {f"c{j}": "logistic" if j == 3 else "squared" for j in range(12)}
    by_place = [(slice(0, 3), "squared"), ([3], "logistic"), (slice(4, 12), "squared")]
    a, b = (
        ConvexSubspace(loss, tol=1e-8, max_iter=5000, alpha=1.0, scale=False).fit(X)
        for loss in (by_name, by_place)
    )
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-7)
    with pytest.raises(ValueError, match="Did you mean 'c3'"):
        ConvexSubspace({"c33": "squared"}, alpha=1.0, scale=False).fit(X)
    robust = RobustSubspace(alpha=2.0, loss={name: "squared" for name in by_name}).fit(X)
    assert robust.objective_ == pytest.approx(RobustSubspace(alpha=2.0).fit(X).objective_, rel=1e-3)


DECODERS = [name for name, model in ESTIMATORS.items() if hasattr(model, "inverse_transform")]


@pytest.mark.parametrize("name", DECODERS)
def test_codes_of_another_width_or_with_missing_are_refused(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(40, 6))
    y = np.arange(40) % 2
    options = {"n_first": 3} if name == "TwoViewSubspace" else {}
    if name == "ConvexSparseCoding":  # by rows left out, noise has no atoms
        options = {"alpha": 1.0}
    model = clone(ESTIMATORS[name]).set_params(**options).fit(X, None if options else y)
    codes = np.ones((2, np.shape(model.transform(X))[1]))
    if name == "SubspaceImputer":  # whose transform completes
        codes = np.ones((2, len(model.components_)))
    model.inverse_transform(codes)
    with pytest.raises(ValueError, match=f"Expected codes of {codes.shape[1]} components"):
        model.inverse_transform(np.ones((2, 9)))
    codes[1, 0] = np.nan
    with pytest.raises(ValueError, match="Input codes contains NaN"):
        model.inverse_transform(codes)


def test_constant_tables_under_logistic_loss_end_at_once():
    model = ConvexSubspace("logistic", alpha=0.1).fit(np.ones((5, 3)))
    assert model.status_.converged and model.n_iter_ <= 100


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_kinks_with_an_intercept_do_not_depend_on_units(scale):
    X = table(missing=0.0, n=19) * scale
    largest = ConvexSubspace("absolute", alpha=1.0, max_iter=5000).fit(X).alpha_max_
    assert largest == pytest.approx(
        ConvexSubspace("absolute", max_iter=5000).fit(X / scale).alpha_max_, rel=1e-4
    )


@pytest.mark.parametrize("scale", [1e-11, 1.0, 1e11])
def test_atoms_of_any_size_are_kept_apart(scale):
    X = table()
    model = FactorModel(gauge=Trace(scale), alpha=0.5 * scale, tol=1e-6, max_iter=5000).fit(X)
    assert model.relative_gap_ <= 1e-6
    assert (
        model.codes_.shape[1]
        == FactorModel(gauge=Trace(), alpha=0.5, tol=1e-6).fit(X).codes_.shape[1]
    )


def test_float32_fits_never_claim_more_than_they_have():
    X = table("counts").astype(np.float32)
    for tol in (1e-4, 1e-7):
        model = ConvexSubspace("poisson", tol=tol, max_iter=200)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X)
        assert model.relative_gap_ <= tol or any(
            issubclass(w.category, ConvergenceWarning) for w in caught
        )


def test_singular_values_are_those_of_repeated_rows():
    X, weights = table(missing=0.0, n=15), np.arange(15) % 4
    weighted = ConvexSubspace(alpha=1.0).fit(X, sample_weight=weights)
    repeated = ConvexSubspace(alpha=1.0).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.singular_values_, repeated.singular_values_, rtol=1e-6)


def test_rows_of_weight_zero_get_codes_too():
    weights = (np.arange(40) % 5 > 0).astype(float)
    for gauge in (Columns(LInf()), Trace()):
        assert FactorModel(gauge=gauge).fit(table(), sample_weight=weights).codes_.shape[0] == 40


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_far_offsets_change_neither_the_fit_nor_its_proof(offset):
    X = table() + offset
    model = ConvexSubspace(tol=1e-6, max_iter=5000, alpha=1.0, scale=False).fit(X)
    assert 0 <= model.gap_ <= 1e-6 * model.objective_
    assert model.objective_ == pytest.approx(
        ConvexSubspace(tol=1e-6, alpha=1.0, scale=False).fit(table()).objective_, rel=1e-5
    )


@pytest.mark.parametrize("q", [1, 2])
def test_sparse_coding_leaves_a_row_with_nothing_observed_at_zero(q):
    X = np.random.default_rng(0).normal(size=(12, 4))
    X[5] = np.nan
    with pytest.warns(UserWarning, match="no observed entry") as caught:
        model = ConvexSparseCoding(q=q, alpha=1.0, scale=False).fit(X)
    assert len(caught) == 1
    assert model.status_.converged
    assert not model.codes_[5].any()
    np.testing.assert_allclose(
        model.objective_,
        ConvexSparseCoding(q=q, alpha=1.0, scale=False).fit(np.delete(X, 5, axis=0)).objective_,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("held", [Lasso(), SquaredL2()])
@pytest.mark.parametrize("other", [None, NonNegative()])
def test_a_penalty_on_one_factor_alone_is_told_to_have_no_minimum(held, other):
    X = np.random.default_rng(0).normal(size=(20, 6))
    options = {"rank": 2, "max_iter": 5}
    with pytest.warns(UserWarning, match=r"no minimum.*on_components=UnitBall"):
        FactorModel(on_codes=held, on_components=other, **options).fit(X)
    with pytest.warns(UserWarning, match=r"no minimum.*on_codes=UnitBall"):
        FactorModel(on_codes=other, on_components=held, **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        FactorModel(on_codes=held, on_components=UnitBall(), **options).fit(X)
        FactorModel(on_codes=held, on_components=SquaredL2(), **options).fit(X)
        FactorModel(on_codes=held, rank=2, max_iter=5, alpha=0).fit(X)


def fitted_by_rows():
    """Every estimator of the library that heeds targets or weights of rows."""
    parts = [getattr(baselines, name) for name in baselines.__all__]
    models = [*ESTIMATORS.values(), *(part() for part in parts if hasattr(part, "fit"))]
    takes = {model: inspect.signature(model.fit).parameters for model in models}
    return [
        m
        for m in models
        if "sample_weight" in takes[m] or ("y" in takes[m] and is_regressor(m) | is_classifier(m))
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", fitted_by_rows(), ids=lambda model: type(model).__name__)
def test_a_fit_that_fails_leaves_an_estimator_as_it_was(model):
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    y = np.repeat([0, 1], 20) if is_classifier(model) else X[:, 0]
    takes = inspect.signature(model.fit).parameters
    bad = {"sample_weight": np.ones(3)} if "sample_weight" in takes else {}
    new = clone(model)
    before = dict(vars(new))
    with pytest.raises((ValueError, TypeError)):
        new.fit(X, y if bad else y[:39], **bad)
    assert vars(new) == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", OF_TABLES.values(), ids=lambda model: type(model).__name__)
def test_a_fit_leaves_nothing_of_an_earlier_one(model):
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    y = np.repeat([0, 1], 20) if is_classifier(model) else X[:, 0]
    model = clone(model)
    model.stale_ = "of a fit with other parameters"
    model.fit(X, y)
    assert not hasattr(model, "stale_")


def test_a_model_without_a_rank_has_none_of_an_earlier_one():
    X = np.random.default_rng(0).normal(size=(30, 6))
    model = FactorModel(rank="auto").fit(X)
    assert hasattr(model, "rank_")
    model.set_params(rank=None, gauge=Trace()).fit(X)
    assert vars(model).keys() == vars(FactorModel(gauge=Trace()).fit(X)).keys()
    model = (
        ConvexSubspace(alpha="auto", random_state=0, scale=False)
        .fit(X)
        .set_params(alpha=1.0)
        .fit(X)
    )
    assert vars(model).keys() == vars(ConvexSubspace(alpha=1.0, scale=False).fit(X)).keys()


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("RegularizedARMA", "shrinkage"),
        ("RobustSubspace", "beta"),
        ("FactorModel", "rank"),
        ("ConvexSubspace", "alpha"),
        ("BregmanMixture", "sharpness"),
        ("BregmanKMeans", "n_init"),
        ("ExponentialFamilyPCA", "n_components"),
    ],
)
def test_an_array_is_no_word(name, parameter):
    model = clone(ESTIMATORS[name]).set_params(**{parameter: np.array([1.0, 2.0])})
    with pytest.raises(ValueError, match=parameter):
        model.fit(np.random.default_rng(0).normal(size=(20, 4)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "model",
    # to which words are categories
    [
        model
        for name, model in OF_TABLES.items()
        if name not in ("AutoImputer", "AutoMixture", "SubspaceImputer")
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_column_of_words_is_named(model, frame):
    X = {name: np.arange(20.0) ** power for name, power in (("a", 1), ("b", 0.5))} | {
        "town": ["Bonn", "Rome"] * 10
    }
    y = np.arange(20) % 2 if is_classifier(model) else np.arange(20.0)
    with pytest.raises(ValueError, match="'town'"):
        clone(model).fit(frame(X), y)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("KernelSubspace", "SubspaceImputer"),
        ("BregmanNormalizedCut", "SubspaceImputer"),
        ("ReverseClassifier", "SubspaceImputer"),
        ("CanonicalCorrelation", "TwoViewSubspace"),
        ("ReducedRankRegression", "TwoViewSubspace"),
    ],
)
def test_who_takes_no_missing_says_who_does(name, remedy):
    X = np.arange(24.0).reshape(12, 2)
    X[3, 1] = np.nan
    with pytest.raises(
        ValueError, match=f"Input X contains NaN, and {name} requires complete rows.*{remedy}"
    ):
        getattr(regfactor, name)().fit(X, np.arange(12) % 2)


SPARSE = [name for name, model in ESTIMATORS.items() if get_tags(model).input_tags.sparse]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPARSE)
def test_places_stored_twice_count_as_their_sum(name):
    model = ESTIMATORS[name]
    X = np.abs(np.random.default_rng(0).normal(size=(40, 5)))
    y = np.repeat([0, 1], 20) if is_classifier(model) else X[:, 0]
    once, rows = scipy.sparse.csr_array(X), np.arange(0, 401, 10)
    twice = scipy.sparse.csr_array(
        (np.repeat(X.ravel() / 2, 2), np.repeat(once.indices, 2), rows), shape=X.shape
    )
    options = {
        p: v
        for p, v in {"random_state": 0, "kernel": "rbf", "n_first": 2}.items()
        if p in model.get_params()
    }
    fits = [clone(model).set_params(**options).fit(table, y) for table in (once, twice)]
    method = next(m for m in ("transform", "predict") if hasattr(model, m))
    a, b = (getattr(fit, method)(table) for fit, table in zip(fits, (once, twice), strict=True))
    np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=1e-6, atol=1e-8)


KERNELIZED = [  # the kernel of SNF is one of latent rows
    name
    for name, model in ESTIMATORS.items()
    if {"kernel", "affinity"} & model.get_params().keys() and name != "SNFRegressor"
]


@pytest.mark.parametrize("name", KERNELIZED)
def test_a_precomputed_kernel_is_split_by_rows_and_columns_as_a_word_and_as_a_part(name):
    parameter = "affinity" if "affinity" in ESTIMATORS[name].get_params() else "kernel"
    for kernel, pairwise in (("precomputed", True), (Precomputed(), True), ("rbf", False)):
        model = clone(ESTIMATORS[name]).set_params(**{parameter: kernel})
        assert get_tags(model).input_tags.pairwise is pairwise


TOLD = (
    "score",
    "score_samples",
    "predict",
    "predict_proba",
    "decision_function",
    "complete",
    "denoise",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(
    "name", [n for n, model in ESTIMATORS.items() if hasattr(model, "set_output")]
)
def test_what_is_told_of_rows_does_not_depend_on_the_output_of_transform(name, kind):
    model = clone(ESTIMATORS[name])
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    y = np.repeat([0, 1], 20) if is_classifier(model) else X[:, 0]
    options = {
        p: v for p, v in {"random_state": 0, "alpha": 0.01}.items() if p in model.get_params()
    }
    fits = [
        clone(model).set_params(**options).set_output(transform=out).fit(X, y)
        for out in ("default", kind)
    ]
    for method in (m for m in TOLD if hasattr(fits[0], m)):
        given = (X, y) if method == "score" else (X,)
        a, b = (getattr(fit, method)(*given) for fit in fits)
        for x, z in zip(a, b, strict=True) if isinstance(a, tuple | list) else [(a, b)]:
            np.testing.assert_allclose(x, z, rtol=1e-9)  # frames lie otherwise in memory
            assert type(x) is type(z)


def test_a_declared_parameter_that_is_missing_is_named():
    class Unfinished(ConvexSubspace):
        _parameter_constraints = {**ConvexSubspace._parameter_constraints, "knots": [int]}

    with pytest.raises(AttributeError, match="Unfinished has no parameter 'knots'.*add it to"):
        Unfinished().fit(table())


def test_a_table_of_arrow_is_taken_and_its_words_are_named():
    arrow = pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(30, 3))
    table = arrow.table({f"c{j}": X[:, j] for j in range(3)})
    model = regfactor.BregmanKMeans(2, random_state=0)
    np.testing.assert_array_equal(clone(model).fit(table).labels_, clone(model).fit(X).labels_)
    with pytest.raises(ValueError, match="holds 'x' in row 0, which is no number"):
        clone(model).fit(arrow.table({"a": X[:, 0], "b": ["x"] * 30}))


def test_code_without_a_name_may_be_warned():
    model = ConvexSubspace(alpha=1e9)
    exec(
        "model.fit(X)", {"__name__": None, "model": model, "X": table(missing=0.0)}
    )  # of which Python tells nothing
    assert model.codes_.shape == (40, 0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_words_are_no_truth_values(name):
    model = clone(ESTIMATORS[name])
    flags = [
        p
        for p in (
            "fit_intercept",
            "scale",
            "intercept",
            "standardize",
            "shocks",
            "normalized_cut",
            "match_balance",
            "annealing",
        )
        if p in model.get_params()
    ]
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    y = np.repeat([0, 1], 20) if is_classifier(model) else X[:, 0]
    for flag in flags:
        with pytest.raises(
            ValueError, match=f"'{flag}' parameter .* must be True or False.* Got 'no'"
        ):
            clone(model).set_params(**{flag: "no"}).fit(X, y)
    assert flags or not [
        v
        for p, v in model.get_params().items()
        if isinstance(v, bool) and p not in ("verbose", "debias")
    ]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_columns_whose_squares_leave_the_range_of_numbers_are_refused(name, size):
    """Also next to others, if they are too large; `SubspaceImputer` divides columns first."""
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    y = np.repeat([0, 1], 20) if is_classifier(ESTIMATORS[name]) else X[:, 0]
    tables = [X * size]
    if size > 1:
        tables.append(X * [1.0, size, 1.0, 1.0])
    for table_ in tables:
        if name in N_WAY:
            table_ = table_.reshape(10, 4, 4)
        model = clone(ESTIMATORS[name])
        if name == "SubspaceImputer":
            assert np.isfinite(model.fit(table_).complete(table_)).all()
            continue
        with pytest.raises(ValueError, match=r"Column \S+ of X holds values of size.*scale it"):
            model.fit(table_, y)
        assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


@pytest.mark.parametrize("name", [n for n, m in ESTIMATORS.items() if is_regressor(m)])
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_targets_whose_squares_leave_the_range_of_numbers_are_refused(name, size):
    X = np.abs(np.random.default_rng(0).normal(size=(40, 4)))
    with pytest.raises(ValueError, match="holds values of size.*scale it"):
        clone(ESTIMATORS[name]).fit(X, X[:, 0] * size)


@pytest.mark.parametrize("name", [n for n, m in ESTIMATORS.items() if is_classifier(m)])
def test_lists_are_no_labels(name):
    y = np.empty(40, dtype=object)
    y[:] = [[0, 1]] * 40
    with pytest.raises(ValueError, match=r"y holds \[0, 1\]: give one label"):
        clone(ESTIMATORS[name]).fit(np.random.default_rng(0).normal(size=(40, 4)), y)


def test_a_named_class_without_a_label_is_refused_or_found():
    y = np.arange(90) % 3
    X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[y]
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    few = np.where((np.arange(90) < 20) & (y < 2), y, -1)
    weighted = few.copy()
    weighted[y == 2] = 2  # labels of weight zero are none
    weights = (y < 2).astype(float)
    takes = [
        name
        for name, model in ESTIMATORS.items()
        if is_classifier(model) and "classes" in model.get_params()
    ]
    found = {"ReverseClassifier"}  # finds such a class far from the centers of the others
    assert found < set(takes)
    assert len(takes) >= 3
    for name in takes:
        model = clone(ESTIMATORS[name]).set_params(classes=[0, 1, 2])
        if name in found:
            assert np.mean(model.fit(X, few).transduction_ == y) == 1
            continue
        with pytest.raises(ValueError, match=r"Classes \[2\] have no labeled row.*label a row of"):
            model.fit(X, few)
        with pytest.raises(ValueError, match=r"Classes \[2\] have no labeled row"):
            model.fit(X, weighted, sample_weight=weights)
