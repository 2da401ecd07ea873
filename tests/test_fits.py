"""Fits as they are published: status, time limits, and what is computed only once."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import regfactor.core.loop
from regfactor import (
    ConvexSparseCoding,
    ConvexSubspace,
    FactorModel,
    RegularizedARMA,
    ReverseClassifier,
    RobustSubspace,
)
from regfactor.core.loop import Clock, Status
from regfactor.fitting.scoring import Scoring
from regfactor.losses import as_loss
from regfactor.norms import Blocks
from regfactor.penalties import Columns, Lasso, NonNegative, Simplex, SquaredL2
from regfactor.problems import Convex, Data
from regfactor.solvers import solve


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def best(model):
    return min(record.objective for record in model.history_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [1e-5, 1e-2, 0.5])
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_the_status_is_that_of_what_is_published(seed, tol, alpha):
    X = normal(25, 2, seed)
    model = ConvexSparseCoding(alpha=alpha, tol=tol, scale=False).fit(X)
    if model.status_ is Status.CERTIFIED:
        assert model.relative_gap_ <= tol
    assert model.objective_ <= best(model) * (1 + 1e-9)
    cost = np.abs(model.codes_).sum() * alpha * np.linalg.norm(model.components_, axis=1).max()
    residual = X - model.codes_ @ model.components_
    assert np.square(residual).sum() / 2 + cost <= model.objective_ * (1 + 1e-6)


def test_a_local_fit_publishes_no_worse_codes_than_the_solver_found():
    random = np.random.default_rng(0)
    X = (random.random((40, 6)) < random.random((40, 1))).astype(float)
    model = FactorModel("logistic", on_codes=Simplex(), rank=3, alpha=0.1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="grow without bound.*SquaredL2"):
        model.fit(X)
    assert model.objective_ <= best(model) * (1 + 1e-9)


def test_free_components_under_a_size_of_codes_are_warned_of():
    with pytest.warns(UserWarning, match=r"no minimum.*on_components=UnitBall\(\)"):
        FactorModel(on_codes=Lasso(), rank=2, max_iter=500).fit(normal(20, 5))


def test_a_gauge_that_couples_rows_in_blocks_is_fitted():
    X = normal(10, 6)
    gauge = Columns(Blocks(4))
    model = FactorModel(gauge=gauge, alpha=0.7, tol=1e-8).fit(X)
    direct = solve(Convex(Data.of(X, "squared"), gauge, 0.7), tol=1e-8)
    assert model.objective_ == pytest.approx(direct.objective, rel=1e-7)
    assert model.status_ is Status.CERTIFIED
    np.testing.assert_allclose(
        model.codes_ @ model.components_, direct.point.factors.dense(), atol=1e-4
    )
    with pytest.raises(ValueError, match="couples rows"):
        model.transform(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, sample_weight=np.arange(1.0, 11.0))


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_nonnegative_factors_of_an_all_zero_table_are_zero(alpha):
    factors = {"on_codes": NonNegative(), "on_components": NonNegative()}
    model = FactorModel("kl", **factors, rank=2, alpha=alpha).fit(np.zeros((6, 4)))
    assert model.objective_ == pytest.approx(0.0, abs=1e-9)
    assert np.abs(model.codes_ @ model.components_).max() <= 1e-9


@pytest.fixture
def ticking(monkeypatch):
    """Let every look at the clock of a fit take a second."""
    seconds = iter(range(10**9))
    fake = SimpleNamespace(perf_counter=lambda: float(next(seconds)))
    monkeypatch.setattr(regfactor.core.loop, "time", fake)


def test_the_time_limit_bounds_scoring(ticking):
    X = normal(30, 4)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = ConvexSparseCoding(alpha=1e-3, time_limit=8.0).fit(X)
    assert model.status_ is Status.TIME_LIMIT
    assert model.objective_ <= best(model) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        ("huber", SquaredL2()),
        ("absolute", SquaredL2()),
        ("kl", NonNegative()),
        ("squared", Lasso()),
        ("absolute", Lasso()),
    ],
    ids=str,
)
def test_the_time_limit_bounds_every_way_of_scoring(ticking, loss, penalty):
    X = np.abs(normal(30, 6)) * 3
    C = np.abs(normal(4, 6, 1))
    data = Data.of(X, loss)

    def costs(time_limit):
        codes = score(X, C, np.zeros(6), clock=Clock(time_limit))
        with np.errstate(divide="ignore"):
            return data.row_values(codes @ C) + 0.1 * penalty.rows(codes)

    score = Scoring(as_loss(loss), penalty, 0.1)
    best = costs(None)
    cut = costs(2.0)
    assert (best <= cut * (1 + 1e-12)).all()
    assert (best < cut * (1 - 1e-9)).any()
    # zero codes, where the time was up before; a mixture of the components under kl
    assert (costs(0.0) >= cut).all()


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_a_fit_ends_soon_after_its_time_limit(loss):
    model = ConvexSparseCoding(loss=loss, time_limit=0.0, alpha=1.0, scale=False)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.fit(normal(60, 5))
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.set_params(time_limit=0.3)
        started = time.process_time()
        model.fit(normal(1500, 100))
    assert time.process_time() - started < 3.0


def test_the_time_limit_bounds_the_search_of_a_strength(ticking):
    X = normal(60, 30)
    model = ConvexSubspace(alpha="auto", time_limit=20.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="alpha was chosen among the first"):
        model.fit(X)
    assert 1 <= len(model.alphas_) < 5


def test_the_time_limit_bounds_the_search_of_a_rank(ticking):
    model = FactorModel(rank="auto", alpha=0.1, time_limit=40.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="rank was chosen among the first"):
        model.fit(normal(30, 20))
    assert 1 <= len(model.ranks_) < 5


def calls(work, *names):
    """Return how often functions of these names are entered."""
    counts = dict.fromkeys(names, 0)

    def count(frame, event, _):
        name = frame.f_code.co_qualname
        if event == "call" and name in counts:
            counts[name] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts


def fit_of_a_table():
    X = normal(50, 20)
    X[::5, ::3] = np.nan
    return lambda: ConvexSubspace(alpha=1.0).fit(X)


def fit_of_classes():
    X = normal(60, 5)
    X[:30] += 3
    y = np.where(np.arange(60) % 6 < 1, np.arange(60) // 30, -1)
    return lambda: ReverseClassifier().fit(X, y)


def fit_of_a_series():
    X = normal(80, 3).cumsum(axis=0)
    model = RegularizedARMA(p=2, q=1, d=0, season=1, shrinkage=0.1, ridge=1e-3)
    return lambda: model.fit(X).forecast(5)


def default_fit_of_a_table():
    X = normal(50, 20) / 2 + normal(50, 2, 1) @ normal(2, 20, 2)
    X[::5, ::3] = np.nan
    return lambda: ConvexSubspace(random_state=0).fit(X)


def default_fit_of_a_series():
    X = normal(80, 3).cumsum(axis=0)
    return lambda: RegularizedARMA().fit(X).forecast(5)


def probabilities_of_classes():
    fit = fit_of_classes()
    X = normal(10, 5)
    return lambda: fit().predict_proba(X)


@pytest.mark.parametrize(
    ("prepare", "n_files", "n_functions"),
    [
        (fit_of_a_table, 22, 150),
        (fit_of_classes, 15, 90),
        (fit_of_a_series, 20, 140),
        # with what defaults choose by held-out entries, by evidence, and by held-out labels
        (default_fit_of_a_table, 24, 207),
        (default_fit_of_a_series, 25, 157),
        (probabilities_of_classes, 18, 108),
    ],
)
def test_a_fit_enters_few_files_and_functions(prepare, n_files, n_functions):
    """A reader who steps through a warm fit meets no more than these."""
    fit = prepare()
    fit()
    entered = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and "regfactor/" in code.co_filename.partition("src/")[2]:
            entered.add((code.co_filename, code.co_firstlineno, code.co_name))

    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(None)
    assert n_files / 2 < len({file for file, *_ in entered}) <= n_files
    assert n_functions / 2 < len(entered) <= n_functions


@pytest.mark.skipif(sys.version_info < (3, 11), reason="qualified names of code are new in 3.11")
@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace(),
        ConvexSubspace(alpha="auto"),
        RobustSubspace(),
        ConvexSparseCoding(),
        FactorModel(rank=2),
    ],
    ids=str,
)
def test_losses_are_looked_up_and_problems_are_checked_once(model):
    X = normal(20, 5)
    found = calls(lambda: model.fit(X), "as_loss", "Convex.check", "Factored.check", "prepared")
    assert found["as_loss"] <= 1
    assert found["Convex.check"] + found["Factored.check"] == 1
    assert found["prepared"] <= 1
