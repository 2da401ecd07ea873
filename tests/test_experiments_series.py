"""Experiments on vector series: forecasters behind one call, honest comparison, verdicts from the numbers alone."""

import itertools
import sys

import numpy as np
import pytest
from statsmodels.tsa.api import VAR

from experiments import (
    _alternation,
    _forecasts,
    _gauge,
    _series,
    arma_macro,
    arma_short,
    rarma_gauge,
    thesis_7_1,
    thesis_7_2,
)
from experiments import thesis_f7_2 as f7_2
from experiments import thesis_f7_3 as f7_3
from experiments import thesis_f7_4 as f7_4
from experiments._forecasts import Case, Forecasts, Source
from experiments._runner import Plan, key
from experiments._series import METHODS, Outcome, Search
from regfactor import datasets
from regfactor.datasets import make_varma
from regfactor.series.arma.criteria import aicc
from regfactor.series.arma.model import radius, regressors

scaled = pytest.mark.filterwarnings("ignore:The autoregression has spectral radius")
SMALL = Search(orders=(1, 2), lags=(1,))
METHODS_HERE = {
    **METHODS,
    "VARMAX(1, 1)": _series.varmax,
    "RARMA(1, q)": arma_short.true_arma,
    "RARMA(1, q), auto": arma_short.validated_arma,
    "ridge VAR(1)": arma_short.ridge_var,
    "HR(1, q)": arma_short.true_orders,
}


def draw(seed):
    X = make_varma(70, 2, random_state=seed)
    return Case(X[:60], X[60:])


def toy(methods, **choices):
    source = Source("toy", draw, "Sixty rows.", (1, 5, 10), (1, 10), 3, SMALL)
    return Forecasts(
        "a toy",
        [source],
        methods,
        {"toy": {"MEAN": (2.0, 0.1, 1.0), "ours": (1.0, 0.1, 0.5)}},
        **choices,
    )


def results(experiment, plan=None):
    cells = experiment.cells({}, plan or Plan())
    return {
        key(c): {"cell": c, "result": experiment.run(c), "seconds": 0.0, "run": 0} for c in cells
    }


@pytest.mark.filterwarnings("ignore")  # of statsmodels, on convergence and identification
@pytest.mark.parametrize("name", METHODS_HERE)
def test_every_forecaster_forecasts(name):
    case = draw(0)
    outcome = METHODS_HERE[name](case.past, 10, SMALL)
    assert outcome.forecast.shape == (10, 2) and np.isfinite(outcome.forecast).all()
    assert outcome.radius is None or 0 <= outcome.radius < 1.2


def test_criteria_choose_among_statsmodels_autoregressions():
    """AICc by its formula from statsmodels' AIC is that of the residuals on the rows that all orders share."""
    X, most = make_varma(80, 2, p=2, q=0, random_state=3), 4
    sizes = []
    for p in range(1, most + 1):
        D = regressors(X, X[:, :0], p, 0, True)[most - p :]
        E = X[most:] - D @ np.linalg.lstsq(D, X[most:], rcond=None)[0]
        sizes.append(aicc(np.linalg.slogdet(E.T @ E / len(E))[1], len(E), 2, 2 * p + 1))
    outcome = _series.autoregression("aicc")(X, 3, Search(orders=(1, most)))
    assert outcome.chosen["p"] == int(np.argmin(sizes)) + 1
    by_bic = _series.autoregression("bic")(X, 3, Search(orders=(1, most)))
    p = by_bic.chosen["p"]
    assert p == max(VAR(X).select_order(most, trend="c").bic, 1)
    np.testing.assert_allclose(by_bic.forecast, VAR(X).fit(p, trend="c").forecast(X[-p:], 3))


def test_settings_are_chosen_without_a_look_at_what_comes():
    X = make_varma(60, 2, random_state=0)
    settings = _series.ridge_settings(SMALL)
    chosen = _series.best(X, settings)
    errors = []
    for setting in settings:
        model = _series.stated_arma(**setting, max_radius=None, tol=1e-3).fit(X[:54])
        errors.append(np.square(model.forecast(6).mean - X[54:]).mean())
    assert chosen == settings[int(np.argmin(errors))]


def test_a_radius_above_one_is_capped_beside_it():
    X = np.cumsum(np.cumsum(np.random.default_rng(0).normal(size=(60, 2)), axis=0), axis=0)
    with pytest.warns(UserWarning, match="spectral radius"):
        outcome = _series.final({"p": 2, "q": 0, "ridge": 1e-4, "shrinkage": 1.0}, X, 30)
    assert outcome.radius > 1 and np.abs(outcome.capped - outcome.forecast).max() > 1e-3


def test_without_statsmodels_a_row_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.api", None)
    with pytest.raises(ImportError, match="pip install statsmodels"):
        METHODS["AR(BIC)"](draw(0).past, 3, SMALL)


def test_errors_are_cumulative_means_of_squared_lengths():
    future = np.array([[1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    assert _forecasts.errors(np.zeros((3, 2)), future, (1, 3)) == [1.0, 3.0]
    assert _forecasts.errors(np.full((3, 2), np.inf), future, (1, 3)) == [None, None]


def test_the_true_autoregression_is_iterated():
    A = np.array([[[0.5, 0.1], [0.0, 0.4]], [[0.2, 0.0], [0.0, 0.1]]])
    past = np.arange(8.0).reshape(4, 2)
    made = _forecasts.iterated(Case(past, past, A), 2).forecast
    first = A[0] @ past[-1] + A[1] @ past[-2]
    np.testing.assert_allclose(made, [first, A[0] @ first + A[1] @ past[-1]])


def test_stability_is_of_roots_or_of_forecasts():
    case = draw(0)
    assert _forecasts.is_stable(Outcome(np.ones((2, 2)), 1.005), case)
    assert not _forecasts.is_stable(Outcome(np.ones((2, 2)), 1.02), case)
    assert _forecasts.is_stable(Outcome(np.ones((2, 2))), case)
    assert not _forecasts.is_stable(Outcome(np.full((2, 2), 1e6)), case)


def test_ratios_have_jackknife_errors_and_medians():
    random = np.random.default_rng(0)
    mine, base = random.uniform(1, 2, 400), random.uniform(3, 4, 400)
    found = _forecasts.ratio(mine, base)
    assert found["mean"] == pytest.approx(mine.sum() / base.sum(), rel=1e-5)
    gaps = mine - found["mean"] * base  # the delta method
    assert found["standard_error"] == pytest.approx(
        gaps.std(ddof=1) / np.sqrt(400) / base.mean(), rel=0.02
    )
    assert _forecasts.ratio(np.array([np.inf, 1.0]), np.ones(2))["mean"] is None
    assert (
        _forecasts.shown(_forecasts.ratio(np.array([1.0, 1.0, 97.0]), np.ones(3)))
        == "33 ± 32 (median 1)"
    )


def constant(value, radius=0.5):
    return lambda X, horizon, search: Outcome(
        X[-1] * 0 + value * np.ones((horizon, 2)), radius, {"p": value}
    )


def test_the_table_has_ours_beside_the_printed_ratio():
    experiment = toy(
        {"MEAN": METHODS["MEAN"], "ours": constant(3.0, 1.5), "ridge VAR, x": constant(5.0)},
        pairs=(("ours", "ridge VAR, x"),),
    )
    done = results(experiment)
    summary = experiment.summary(done, Plan())
    row = next(r for r in summary if r.get("method") == "ours")
    errors = [np.square(3.0 - draw(i).future).sum(axis=1).mean() for i in range(3)]
    means = [
        np.square(draw(i).past.mean(axis=0) - draw(i).future).sum(axis=1).mean() for i in range(3)
    ]
    assert row["ratios"][-1]["mean"] == pytest.approx(sum(errors) / sum(means), rel=1e-5)
    assert row["printed"] == "0.5 [0.50]" and row["stable"] == 0 and row["chosen"] == "p=3 (3 of 3)"
    text = experiment.report(summary)
    assert (
        "| ours | 0.5 [0.50] |" in text
        and "## Verdicts" in text
        and "**ours** against ridge VAR, x (2 tests)" in text
    )


def test_verdicts_follow_the_tests():
    def rows(mine, other):
        source = Source("s", draw, "", (1,), (1,), 3)
        found = {"RARMA": mine, "ridge VAR": other}
        errors = {
            k: {"errors": {i: np.array([v]) for i, v in enumerate(values)}}
            for k, values in found.items()
        }
        return _forecasts.pair(source, "RARMA", "ridge VAR", errors), [source]

    random = np.random.default_rng(0)
    base = random.uniform(1, 2, 30)
    for factor, word in ((0.8, "**lower**"), (1.2, "**higher**")):
        row, sources = rows(factor * base * np.exp(0.01 * random.normal(size=30)), base)
        assert word in _forecasts.verdicts([row], sources)
    row, sources = rows(base * np.exp(random.normal(size=30)), base)
    text = _forecasts.verdicts([row], sources)
    assert (
        "no difference shown" in text
        and "lower in 0, higher in 0, no difference shown in 1" in text
    )
    assert 0.1 < row["tests"][0]["wins"] < 0.9
    same, sources = rows(base, base)
    assert same["tests"][0]["p"] is None and "no difference shown (+0.0 %" in _forecasts.verdicts(
        [same], sources
    )


@scaled
@pytest.mark.parametrize(
    "experiment", [thesis_7_1.EXPERIMENT, arma_short.EXPERIMENT], ids=["7.1", "short"]
)
def test_generated_series_run_in_small(experiment):
    cells = experiment.cells({}, Plan(quick=True))
    assert len({key(c) for c in cells}) == len(cells)
    for source in experiment.sources:
        case = source.draw(0)
        assert len(case.future) >= max(source.horizons) and set(source.columns) <= set(
            source.horizons
        )
    cheap = [
        c
        for c in cells
        if c["method"] in ("MEAN", "true A, no MA", "ridge VAR, BIC", "RARMA(1, q)")
    ]
    for cell in cheap[:4]:
        assert len(experiment.run(cell)["mse"]) == 4


def test_the_thesis_numbers_are_ratios_to_its_mean():
    printed = thesis_7_1.EXPERIMENT.printed["n6-p2-q2"]
    assert printed["RARMA, tuned"][0] / printed["MEAN"][0] == pytest.approx(0.453, abs=1e-3)
    assert thesis_7_1.EXPERIMENT.printed["n15-p3-q3"]["AR(AICc)"] == (80.2, 24.7, 0.69)


def loaded(call):
    try:
        return call()
    except datasets.DatasetNotFound as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", thesis_7_2.SETS)
def test_patches_are_sea_and_as_many_as_announced(name):
    found = loaded(lambda: thesis_7_2.patches(name))
    assert (
        found.shape == (thesis_7_2.COUNTS[name], thesis_7_2.ROWS[name], 9)
        and np.isfinite(found).all()
    )
    case = thesis_7_2.draw(name, 0)
    np.testing.assert_allclose(case.past.std(axis=0), 1)
    X = datasets.load(name).data
    across, side = thesis_7_2.SETS[name]
    columns = [
        (3 * a + i) * across + 3 * b + j
        for a in range(side // 3)
        for b in range(side // 3)
        for i, j in itertools.product(range(3), repeat=2)
    ]
    whole = X[:, columns].reshape(len(X), -1, 9)
    assert any(np.array_equal(found[0], whole[:, k]) for k in range(whole.shape[1]))


@pytest.mark.parametrize("name", arma_macro.ORIGINS)
def test_origins_of_economic_series_leave_room(name):
    source = next(s for s in arma_macro.EXPERIMENT.sources if s.name == name)
    last = loaded(lambda: source.draw(source.splits - 1))
    assert len(last.future) == 8 and np.isfinite(last.past).all()
    np.testing.assert_allclose(last.past.mean(axis=0), 0, atol=1e-10)


def test_curves_take_kept_cells_and_compute_others(tmp_path, monkeypatch):
    monkeypatch.setattr(f7_2, "RESULTS", tmp_path)
    cell = {"dataset": "toy", "method": "MEAN", "split": 0, "horizon": 10}
    monkeypatch.setattr(f7_2, "TABLE", toy({"MEAN": METHODS["MEAN"]}))
    computed = f7_2.EXPERIMENT.run(cell)["mse"]
    assert computed == f7_2.TABLE.run(cell)["mse"]
    store = f7_2.Store(tmp_path, "thesis-7.2")
    store.add({"cell": cell, "result": {"mse": [7.0]}, "seconds": 0, "run": 0})
    assert f7_2.EXPERIMENT.run(cell) == {"mse": [7.0]}


def test_the_verdict_on_curves_names_horizons():
    curves = {
        "RARMA, tuned": [1.0, 1.0, 3.0, 1.0],
        "ridge VAR, tuned": [2.0] * 4,
        "MEAN": [4.0] * 4,
    }
    rows = [{"method": name, "curve": curve} for name, curve in curves.items()]
    assert "lowest curve at h = 1-2, 4;" in f7_2.verdict(rows)
    assert f7_2.spans([]) == "none"


def test_turns_of_local_alternation_lower_the_objective_towards_the_bound():
    X = make_varma(60, 9, 1, 1, random_state=0)
    problem, solution = f7_3.certified(X)
    turns = list(itertools.islice(_alternation.alternated(problem, 9, 0), 40))
    objectives = [turn.objective for turn in turns]
    assert (np.diff(objectives) <= 1e-9 * objectives[0]).all() and objectives[
        -1
    ] >= solution.bound * (1 - 1e-12)
    assert objectives[-1] < 1.05 * solution.bound


def test_innovations_of_a_turn_are_the_least_squares_ones():
    random = np.random.default_rng(0)
    problem, _ = f7_3.certified(make_varma(40, 9, 1, 1, random_state=0))
    q, n, k = problem.map.q, 9, 2
    R, B = random.normal(size=problem.data.shape), random.normal(size=(q + 1, n, k))
    E = _alternation.innovations(R, B, 0.7, problem)
    stacked = B.reshape(-1, k)
    S = np.array(
        [problem.map(unit.reshape(E.shape) @ stacked.T).ravel() for unit in np.eye(E.size)]
    ).T
    expected = np.linalg.solve(S.T @ S + 0.7 * np.eye(E.size), S.T @ R.ravel())
    np.testing.assert_allclose(E.ravel(), expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore")  # of statsmodels
def test_times_are_tabled_with_what_was_reached():
    names = ("least squares (lstsq)", "RARMA, gap 1e-3", "RARMA, gap 1e-6", f7_3.LOCAL)
    cells = [{"method": m, "n": 9, "T": T, "seed": 0} for T in (100, 150) for m in names]
    cells += [{"method": m, "n": 2, "T": 100, "seed": 0} for m in (f7_3.VARMAX, f7_3.SMALL_ARMA)]
    done = {key(c): {"cell": c, "result": f7_3.EXPERIMENT.run(c)} for c in cells}
    text = f7_3.EXPERIMENT.report(f7_3.EXPERIMENT.summary(done, Plan()))
    assert "| RARMA, gap 1e-3 |" in text and "converged" in text and "VARMAX(1, 1) takes" in text
    assert f7_3.entry({"seconds": None}) == "never"


@scaled
def test_one_code_fits_with_and_without_lags_of_innovations():
    X = make_varma(60, 2, 1, 1, random_state=0)
    ours = _series.iterated(_series.fitted_arma(X, 1, 1, 0.1), 5)
    np.testing.assert_allclose(ours, _series.stated_arma(1, 1).fit(X).forecast(5).mean, rtol=1e-9)
    ridge = _series.fitted_arma(X, 2, 0, 1.0)
    expected = _series.stated_arma(2, 0).fit(X)
    np.testing.assert_allclose(ridge.model.ar, expected.ar_, atol=1e-8)
    # innovations of the same time, which the thesis keeps at q = 0, move the coefficients
    kept = _series.fitted_arma(X, 2, 0, 0.1)
    assert np.abs(kept.model.ar - expected.ar_).max() > 1e-3 and not len(kept.model.ma)


@pytest.mark.filterwarnings("ignore")  # of statsmodels, on convergence
def test_factors_of_em_kalman_are_one_autoregression():
    X = make_varma(80, 2, 2, 0, random_state=1)
    fitted = _series.factor_autoregression(X, 2, 20)
    found = dict(zip(fitted.model.param_names, fitted.params, strict=True))
    noises = [value for name, value in found.items() if name.startswith("sigma2")]
    assert len(noises) == 2 and min(noises) > 1e-6  # not where statsmodels starts, at none
    transition = fitted.filter_results.transition[..., 0]
    assert np.all(transition[:2, :4] != 0) and np.array_equal(transition[2:, :2], np.eye(2))


def test_no_more_trials_are_asked_for_than_there_are():
    cells = toy({"MEAN": METHODS["MEAN"]}).cells({}, Plan(splits=50))
    assert [c["split"] for c in cells] == [0, 1, 2]


def test_printed_differences_are_decided_on_the_same_trials():
    random = np.random.default_rng(0)
    base = random.uniform(1, 2, 30)

    def found(**errors):
        return {
            name: {"errors": {i: np.array([v]) for i, v in enumerate(values)}}
            for name, values in errors.items()
        }

    printed = {"low": (1.0, 0.1, 1.0), "high": (2.0, 0.1, 1.0), "like low": (1.1, 0.1, 1.0)}
    source = Source("toy", draw, "", (1,), (1,), 30)
    near = base * np.exp(0.01 * random.normal(size=30))
    for factor, verdict in ((1.5, "holds"), (0.5, "does not hold"), (np.inf, "holds")):
        errors = found(**{"low": base, "high": factor * near, "like low": near})
        rows = _forecasts.printed_differences(source, printed, errors)
        assert [row["printed_pair"] for row in rows] == [["low", "high"], ["like low", "high"]]
        assert rows[0]["verdict"] == verdict and rows[0]["n"] == 30
    (row, _) = _forecasts.printed_differences(
        source, printed, found(**{"low": base, "high": near, "like low": near})
    )
    assert row["verdict"] == "not decided"
    rows[0]["printed_pair"] = [_forecasts.RARMA, "high"]
    text = _forecasts.reproduced(rows)
    assert "has a lower error than high (printed 1 and 2): **holds** (below a thousandth" in text
    assert "of 2 printed differences between two methods 2 hold, 0 are not decided" in text


@scaled
def test_heat_maps_count_where_the_moving_average_helps(tmp_path):
    X, A = f7_4.draw(2, -3.0, 0)
    assert X.shape == (50 + 4 + 10, 2) and radius(A) == pytest.approx(0.999**0.5)
    cells = [
        {"p": p, "log_variance": v, "seed": s}
        for p in (1, 2)
        for v in (-3.0, 0.0)
        for s in range(3)
    ]
    done = {key(c): {"cell": c, "result": f7_4.EXPERIMENT.run(c)} for c in cells}
    summary = f7_4.EXPERIMENT.summary(done, Plan())
    one = next(
        r for r in summary if r["against"] == f7_4.AR and r["measure"] == "one step" and r["p"] == 1
    )
    errors = [
        done[key(c)]["result"][f"{one['strength']:g}"]
        for c in cells
        if c["p"] == 1 and c["log_variance"] == one["log_variance"]
    ]
    ratios = [e[f7_4.AR]["one step"] / e[f7_4.WHOLE]["one step"] for e in errors]
    assert one["median"] == pytest.approx(np.median(ratios), rel=1e-3)
    assert "lower error in" in f7_4.EXPERIMENT.report(summary)
    (figure,) = f7_4.EXPERIMENT.draw(summary, tmp_path)
    assert figure.stat().st_size > 10_000


def test_the_gauge_of_theorem_10_is_no_other_model_of_one_series_but_of_two():
    X = make_varma(60, 1, 1, 1, random_state=0)
    one = rarma_gauge.compared(Case(X[:50], X[50:]), 0.1, 1, True)
    assert abs(one["objective"]) < 1e-5 and one["forecast"] < 1e-3
    two = rarma_gauge.compared(rarma_gauge.lead_lag(0), 0.1, 0, False)
    assert two["objective"] > 1e-3 and abs(two["eta"] - 0.5) > 0.01
    rows = [
        {"dataset": name, "cells": {k: [v] * 3 for k, v in found.items()}}
        for name, found in (("one", one), ("two", two))
    ]
    said = rarma_gauge.judged(rows)
    assert "one: the same model" in said[0] and "two: another model" in said[1]


def test_weighted_lags_have_an_adjoint_and_an_even_norm():
    rng = np.random.default_rng(0)
    lags = _gauge.WeightedLags(1, 0.3)
    Z = rng.normal(size=(11, 4))
    G = rng.normal(size=(10, 2))
    assert np.vdot(lags(Z), G) == pytest.approx(np.vdot(Z, lags.adjoint(G)))
    np.testing.assert_allclose(lags(lags.adjoint(G)), lags.norm2 * G)
