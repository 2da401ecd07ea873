"""SNFRegressor: its objective, new rows, missing entries, weights, early stopping, the paper's algorithm, clear errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from regfactor import datasets
from regfactor.comparisons.latent_reconstruction import LinearLatentReconstruction
from regfactor.core.loop import Status
from regfactor.core.params import UnsupportedProblem
from regfactor.labels.latent import ridge as snf_forms
from regfactor.labels.latent.descent import PairSweeps
from regfactor.labels.latent.estimator import SNFRegressor
from regfactor.labels.latent.features import LatentGaussian
from regfactor.labels.latent.placement import MAX_NEWTON_STEPS, N_NEIGHBORS
from regfactor.solvers import solve

EXACT = {"max_iter": 3000, "tol": 0.0, "scale": False, "clip": None}


def draw(n=80, d=6, k=2, labels=12, seed=0, missing=0.0, targets=1):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, k))
    X = Z @ rng.normal(size=(k, d)) + 0.05 * rng.normal(size=(n, d))
    y = Z @ rng.normal(size=(k, targets)) + 0.05 * rng.normal(size=(n, targets))
    y = y[:, 0] if targets == 1 else y
    seen = y.copy()
    seen[labels:] = np.nan
    return np.where(rng.random((n, d)) < missing, np.nan, X), y, seen


MODELS = {
    "linear": SNFRegressor(),
    "quadratic": SNFRegressor(degree=2),
    "kernel": SNFRegressor(back_constraint="kernel", random_state=0),
    "rbf": SNFRegressor(kernel="rbf"),
    "free": SNFRegressor(back_constraint=None, target_weight=1.0),
    "free quadratic": SNFRegressor(back_constraint=None, target_weight=1.0, degree=2),
    "free rbf": SNFRegressor(back_constraint=None, target_weight=1.0, kernel="rbf"),
    "paper": SNFRegressor(
        back_constraint=None, target_weight=1.0, degree=2, solver="paper", learning_rate=1e-3
    ),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@every_model
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_unlabeled_rows_are_predicted_and_new_ones_too(model, missing):
    X, y, seen = draw(n=120, missing=missing)
    fit = clone(model).fit(X[:90], seen[:90])
    assert r2_score(y[12:90], fit.transduction_[12:]) > 0.9
    np.testing.assert_array_equal(fit.transduction_[:12], y[:12])
    assert r2_score(y[90:], fit.predict(X[90:])) > 0.9
    rebuilt = fit.inverse_transform(fit.transform(X[90:]))
    assert np.nanmean(np.square(rebuilt - X[90:])) < 0.2 * np.nanvar(X[90:])


@every_model
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_every_row_is_placed_alone(model, missing):
    X, _, seen = draw(missing=missing)
    fit = clone(model).fit(X, seen)
    new = draw(seed=0, missing=0.2)[0]
    whole = fit.transform(new)
    np.testing.assert_allclose(
        np.vstack([fit.transform(new[[i]]) for i in (0, 20, 40, 60)]), whole[:80:20], atol=1e-6
    )
    np.testing.assert_allclose(fit.transform(new[::-1]), whole[::-1], atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "quadratic", "kernel", "rbf"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_back_constraint_finds_training_rows_again(name, missing):
    X, _, seen = draw(missing=missing)
    fit = clone(MODELS[name]).fit(X, seen)
    np.testing.assert_allclose(fit.transform(X), fit.codes_, atol=1e-7)
    np.testing.assert_allclose(fit.predict(X)[12:], fit.transduction_[12:], atol=1e-7)


@pytest.mark.parametrize(
    "shape", [{"degree": 1}, {"degree": 2}, {"kernel": "rbf", "gamma": 0.05}], ids=str
)
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_free_rows_without_a_target_are_fixed_points_of_the_scoring(shape, missing):
    X, _, seen = draw(n=50, d=5, missing=missing)
    model = SNFRegressor(
        2, back_constraint=None, target_weight=1.0, lambda_z=0.5, **shape, **EXACT
    ).fit(X, seen)
    size = np.abs(model.codes_).max()
    np.testing.assert_allclose(model.transform(X)[12:], model.codes_[12:], atol=2e-4 * size)


def test_one_kernel_matrix_serves_all_inputs_of_a_step(monkeypatch):
    X, _, seen = draw(d=20)
    model = SNFRegressor(2, "rbf", back_constraint=None, target_weight=1.0).fit(X, seen)
    counted, original = [], LatentGaussian.gram
    monkeypatch.setattr(
        LatentGaussian, "gram", lambda self, *rows: (counted.append(1), original(self, *rows))[1]
    )
    model.transform(X + 0.1)
    assert len(counted) <= 2 * MAX_NEWTON_STEPS + N_NEIGHBORS + 2


def test_degree_one_without_weight_on_targets_reaches_the_closed_form():
    X, _, seen = draw()
    t, s = np.sqrt(0.3 * 0.6), np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    best = np.where(s > t, 2 * t * s - t**2, s**2)[:3].sum() + np.square(s[3:]).sum()
    for constraint in ("linear", None):
        model = SNFRegressor(
            3, back_constraint=constraint, lambda_x=0.3, lambda_z=0.6, target_weight=0.0, **EXACT
        )
        model.fit(X, seen)
        assert model.objective_ == pytest.approx(best, rel=1e-8) and model.status_.converged


def test_at_the_start_with_all_components_a_gaussian_kernel_is_kernel_ridge_on_the_labels():
    X, _, seen = draw()
    model = SNFRegressor(
        1.0, "rbf", max_iter=0, gamma=0.2, lambda_y=0.3, scale=False, clip=None
    ).fit(X, seen)
    assert model.n_iter_ == 0 and model.status_ is Status.MAX_ITER
    K = np.exp(-0.2 * np.square(X[:12, None] - X[None, :12]).sum(axis=2))
    system = np.block(
        [[K + 0.3 * np.eye(12), np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]]
    )
    solved = np.linalg.solve(system, np.append(seen[:12], 0))  # eq. 11 of the paper
    k = np.exp(-0.2 * np.square(X[:, None] - X[None, :12]).sum(axis=2))
    np.testing.assert_allclose(model.predict(X), k @ solved[:12] + solved[12], atol=1e-9)


def test_the_start_is_principal_components():
    X, _, seen = draw()
    start = SNFRegressor(2, max_iter=0, scale=False).fit(X, seen).codes_
    expected = PCA(2).fit_transform(X)
    np.testing.assert_allclose(np.abs(start), np.abs(expected), atol=1e-9)


def test_more_iterations_go_on_where_fewer_ended():
    X, _, seen = draw()
    long = SNFRegressor(degree=2, max_iter=60, tol=0.0).fit(X, seen)
    short = SNFRegressor(degree=2, max_iter=30, tol=0.0).fit(X, seen)
    assert long.history_[2].n_iter == 30 and long.history_[2].objective == short.objective_
    objectives = [record.objective for record in long.history_]
    assert all(np.diff(objectives) <= 0)


def test_the_papers_algorithm_descends_in_the_same_objective_and_slower():
    X, _, seen = draw(n=60)
    shape = {"back_constraint": None, "target_weight": 3.0, "degree": 2, "tol": 0.0}
    newton = SNFRegressor(max_iter=60, **shape).fit(X, seen)
    paper = SNFRegressor(max_iter=60, solver="paper", learning_rate=0.01, **shape).fit(X, seen)
    assert paper.history_[0].objective == newton.history_[0].objective > 3 * newton.objective_
    assert newton.objective_ < paper.objective_ < 1.1 * newton.objective_


def test_one_sweep_is_the_one_of_the_paper():
    X, _, seen = draw(n=20, d=3, labels=6)
    eta, lx, ly, lz, mu, d = 1e-3, 0.3, 0.2, 0.4, 2.0, 2
    shape = {
        "lambda_x": lx,
        "lambda_y": ly,
        "lambda_z": lz,
        "target_weight": mu,
        "degree": d,
        "scale": False,
    }
    shape |= {"back_constraint": None, "solver": "paper", "learning_rate": eta}
    Z = SNFRegressor(2, max_iter=0, **shape).fit(X, seen).codes_.copy()
    found = SNFRegressor(2, max_iter=1, **shape).fit(X, seen).codes_
    n, M, L = 20, 3, np.arange(6)
    rate_y = eta * mu * ly / (M * lx)
    shrink = lz / (n * lx * M * (1 + rate_y / eta))  # lambda_Z of eq. 13, applied once per pair

    def duals(rows, ridge, target):
        S = Z[rows] @ Z[rows].T + 1
        m = len(rows)
        system = np.block(
            [[S**d + ridge * np.eye(m), np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]]
        )
        return np.linalg.solve(system, np.append(target, 0))[:m], d * S ** (d - 1)

    for j in range(M):
        a, T = duals(np.arange(n), lx, X[:, j])
        Z = Z + eta * (2 * (np.outer(a, a) * T) @ Z - 2 * n * shrink * Z)
        w, T = duals(L, ly, seen[L])
        step = -2 * n * shrink * Z
        step[L] += 2 * (np.outer(w, w) * T) @ Z[L]
        Z = Z + rate_y * step
    np.testing.assert_allclose(found, Z, atol=1e-10)


def test_a_rate_that_is_too_large_is_reported():
    X, _, seen = draw(n=40)
    model = SNFRegressor(degree=3, back_constraint=None, solver="paper", learning_rate=1e3)
    with pytest.warns(ConvergenceWarning, match="lower learning_rate"):
        model.fit(X, seen)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("rate", [1.0, 10.0])
def test_a_rate_that_only_climbs_is_reported(rate):
    X, _, seen = draw(n=40, d=4)
    model = SNFRegressor(
        2, degree=2, back_constraint=None, target_weight=1.0, solver="paper", learning_rate=rate
    )
    with pytest.warns(
        ConvergenceWarning, match="none of .* epochs improved on the start: lower learning_rate"
    ) as caught:
        model.fit(X, seen)
    assert len(caught) == 1 and model.objective_ == model.history_[0].objective


def test_a_start_from_which_nothing_can_be_gained_is_no_fault_of_the_rate():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SNFRegressor(solver="paper", back_constraint=None).fit(np.ones((20, 4)), np.ones(20))
        SNFRegressor(solver="paper", back_constraint=None, max_iter=0).fit(*draw()[::2])


def test_many_rows_use_explicit_or_random_features(monkeypatch):
    monkeypatch.setattr(snf_forms, "MAX_KERNEL_ROWS", 50)
    X, y, seen = draw()
    waves = SNFRegressor(kernel="rbf", n_random_features=400, random_state=0).fit(X, seen)
    assert isinstance(waves._models[0].inputs.fitted, snf_forms.FeatureRegression)
    assert r2_score(y[12:], waves.transduction_[12:]) > 0.9
    with pytest.raises(ValueError, match="Lower degree or n_components"):
        SNFRegressor(1.0, degree=12).fit(X, seen)


def test_several_targets_with_single_ones_missing():
    X, Y, seen = draw(targets=3)
    seen[3, 0] = np.nan
    model = SNFRegressor().fit(X, seen)
    assert model.transduction_.shape == Y.shape and model.predict(X).shape == Y.shape
    assert r2_score(Y[12:], model.transduction_[12:]) > 0.9
    assert model.transduction_[3, 1] == Y[3, 1] and abs(model.transduction_[3, 0] - Y[3, 0]) < 0.5


@pytest.mark.parametrize("shape", [{"degree": 2}, {"kernel": "rbf", "gamma": 0.5}], ids=str)
def test_a_weight_stands_for_equal_rows_and_zero_for_none(shape):
    X, _, seen = draw()
    w = np.random.default_rng(0).integers(0, 3, 80)
    w[:12] = np.maximum(w[:12], 1)
    weighted = SNFRegressor(**shape).fit(X, seen, w)
    repeated = SNFRegressor(**shape).fit(np.repeat(X, w, axis=0), np.repeat(seen, w))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    assert weighted.codes_.shape == (80, 3) and np.isfinite(weighted.transduction_).all()


def test_missing_are_filled_by_what_is_rebuilt():
    X, y, seen = draw(n=200, missing=0.0, labels=30)
    missing = np.random.default_rng(1).random(X.shape) < 0.2
    model = SNFRegressor(2, lambda_x=1e-3, lambda_z=1e-3, max_iter=300).fit(
        np.where(missing, np.nan, X), seen
    )
    rebuilt = model.inverse_transform(model.codes_)
    assert np.square((rebuilt - X)[missing]).mean() < 0.1 * X.var()
    assert r2_score(y[30:], model.transduction_[30:]) > 0.9
    np.testing.assert_allclose(
        model.transform(np.where(missing, np.nan, X)), model.codes_, atol=1e-6
    )


@every_model
def test_some_inputs_may_be_complete_while_others_have_missing_entries(model):
    X, y, seen = draw(n=120)
    X[::7, 2] = np.nan
    X[3, 4] = np.nan
    fit = clone(model).fit(X, seen)
    assert r2_score(y[12:], fit.transduction_[12:]) > 0.85
    assert np.isfinite(fit.predict(X)).all()


@pytest.mark.parametrize("shape", [{"degree": 2}, {"kernel": "rbf"}], ids=str)
def test_the_problem_of_a_model_can_be_solved_by_itself(shape):
    X, _, seen = draw()
    model = SNFRegressor(2, back_constraint=None, target_weight=1.0, scale=False, **shape)
    problem = model._problem(X, seen[:, None], np.ones(80), np.random.RandomState(0))
    solution = solve(problem, tol=1e-4, max_iter=60)
    assert solution.solver == "LatentDescent"
    fit = model.fit(X, seen)
    assert solution.objective == fit.objective_
    np.testing.assert_array_equal(solution.point.rows, fit.codes_)
    swept = solve(problem, solver=PairSweeps(1e-3), max_iter=5)
    assert swept.solver == "PairSweeps" and swept.objective < swept.history[0].objective
    held = SNFRegressor(2, scale=False, **shape)
    problem = held._problem(X, seen[:, None], np.ones(80), np.random.RandomState(0))
    with pytest.raises(UnsupportedProblem, match="back_constraint=None"):
        solve(problem, solver=PairSweeps())
    assert held.fit(X, seen).solver_ == "LatentDescent"


def test_predictions_stay_near_the_given_targets():
    X, y, seen = draw()
    model = SNFRegressor(clip=0.0).fit(X, seen)
    assert model.predict(100 * X).max() <= np.nanmax(seen) and model.predict(
        100 * X
    ).min() >= np.nanmin(seen)
    free = SNFRegressor(clip=None).fit(X, seen)
    assert free.predict(100 * X).max() > np.nanmax(seen) + 1


def test_boston_does_not_explode_with_the_defaults():
    try:
        table = datasets.load("boston_housing")
    except datasets.DatasetNotFound as error:
        pytest.skip(str(error))
    y = 2 * (table.target - table.target.min()) / np.ptp(table.target) - 1
    for seed in range(6):
        seen = np.full(len(y), np.nan)
        rows = np.random.default_rng(seed).permutation(len(y))[:25]
        seen[rows] = y[rows]
        found = SNFRegressor().fit(table.data, seen).transduction_
        assert (
            np.mean(np.square(found - y)) < 0.25
        )  # 2.5 without the ridges and the clip, 0.167 by the mean


@every_model
def test_kinds_of_tables_are_kept(model):
    X, _, seen = draw()
    one = clone(model).fit(X, seen)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    two = clone(model).fit(frame, pd.Series(seen))
    np.testing.assert_allclose(one.codes_, two.codes_)
    assert list(two.feature_names_in_) == list("abcdef")
    three = clone(model).fit(scipy.sparse.csr_array(X), seen)
    np.testing.assert_allclose(one.codes_, three.codes_)
    single = clone(model).fit(X.astype(np.float32), seen.astype(np.float32))
    assert (
        single.codes_.dtype
        == single.transduction_.dtype
        == single.predict(X[:3].astype(np.float32)).dtype
        == "f4"
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X), one.predict(X))


def test_constant_and_repeated_inputs_are_no_obstacle():
    X, _, seen = draw()
    X = np.column_stack([X, np.ones(80), X[:, 0]])
    for model in MODELS.values():
        fit = clone(model).set_params(n_components=1.0).fit(X, seen)
        assert np.isfinite(fit.predict(X)).all()


def test_one_label_predicts_itself():
    X, _, seen = draw(labels=1)
    assert np.ptp(SNFRegressor().fit(X, seen).predict(X)) == 0


def test_a_callback_and_the_time_end_a_run():
    X, _, seen = draw()
    model = SNFRegressor(degree=2, callback=lambda it: True, tol=0.0).fit(X, seen)
    assert model.status_ is Status.STOPPED
    with pytest.warns(ConvergenceWarning, match="time"):
        SNFRegressor(degree=2, time_limit=0.0, tol=0.0).fit(X, seen)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lambda_z": 0.0}, "'lambda_z' parameter"),
        ({"lambda_x": -1.0}, "'lambda_x' parameter"),
        ({"target_weight": -1.0}, "'target_weight' parameter"),
        ({"n_components": 7}, "from 1 to the 6 inputs"),
        ({"n_components": 1.5}, "'n_components' parameter"),
        ({"n_components": True}, "'n_components' parameter"),
        ({"kernel": "precomputed"}, "'linear' or 'poly' or 'rbf'"),
        ({"kernel": np.dot}, "'kernel' parameter"),
        ({"degree": 0}, "'degree' parameter"),
        ({"back_constraint": "quadratic"}, "'kernel' or 'linear' or None"),
        ({"solver": "newton"}, "'lbfgs' or 'paper'"),
        ({"solver": "paper"}, "back_constraint=None"),
        ({"max_iter": -1}, "max_iter"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"clip": -0.1}, "'clip' parameter"),
        ({"gamma": "widest"}, "'gamma' parameter"),
        ({"tol": -1.0}, "tol"),
        ({"callback": 3}, "callback"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_bad_parameters_are_named(parameters, message):
    X, _, seen = draw()
    with pytest.raises(ValueError, match=message):
        SNFRegressor(**parameters).fit(X, seen)


def test_bad_tables_are_named():
    X, _, seen = draw()
    with pytest.raises(ValueError, match="nothing to learn"):
        SNFRegressor().fit(X, np.full(80, np.nan))
    empty = X.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match="column 2 of X"):
        SNFRegressor().fit(empty, seen)
    with pytest.raises(ValueError, match="Expected codes of"):
        SNFRegressor().fit(X, seen).inverse_transform(X)


def test_there_is_no_certificate_and_it_says_so():
    X, _, seen = draw()
    model = SNFRegressor().fit(X, seen)
    for name in ("gap_", "relative_gap_", "certificate_"):
        with pytest.raises(AttributeError, match="no convex form"):
            getattr(model, name)


def test_a_fit_is_silent_and_writes_to_nothing():
    X, _, seen = draw(missing=0.1)
    X.setflags(write=False)
    seen.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in MODELS.values():
            clone(model).fit(X, seen).predict(X)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "model", [SNFRegressor(), LinearLatentReconstruction()], ids=lambda m: type(m).__name__
)
def test_the_kind_of_tables_that_transformers_return_is_no_matter_within(model, scale, kind):
    X, _, seen = draw(n=40)
    model = clone(model).set_params(scale=scale)
    plain = clone(model).fit(X, seen)
    with warnings.catch_warnings(), sklearn.config_context(transform_output=kind):
        warnings.simplefilter("error")
        fit = clone(model).fit(X, seen)
        np.testing.assert_array_equal(fit.predict(X), plain.predict(X))
        np.testing.assert_array_equal(
            fit.inverse_transform(fit.codes_), plain.inverse_transform(plain.codes_)
        )
        np.testing.assert_array_equal(fit.transform(X).to_numpy(), plain.transform(X))
    assert isinstance(fit.codes_, np.ndarray) and isinstance(fit.transduction_, np.ndarray)


def stop(iterate):
    raise KeyboardInterrupt


FAILING = {
    "short y": ({}, {"y": np.zeros(79)}),
    "infinite y": ({}, {"y": np.full(80, np.inf)}),
    "empty y": ({}, {"y": np.full(80, np.nan)}),
    "short weights": ({}, {"sample_weight": np.ones(79)}),
    "empty input": ({}, {"X": np.full((80, 5), np.nan)}),
    "too many dimensions": ({"n_components": 6}, {}),
    "interrupt": ({"callback": stop}, {}),
}


@pytest.mark.parametrize(("parameters", "tables"), FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("kind", [SNFRegressor, LinearLatentReconstruction])
def test_a_fit_that_fails_changes_nothing(kind, parameters, tables):
    X, _, seen = draw()
    names = pd.DataFrame(X, columns=list("abcdef"))
    new, old = kind(), kind().fit(names, seen)
    before = old.predict(names)
    for model in (new, old):
        model.set_params(**parameters)
        with pytest.raises((ValueError, KeyboardInterrupt)):
            model.fit(**{"X": 3 * X[:, :5] + 1, "y": np.nan_to_num(2 * seen)} | tables)
    with pytest.raises(NotFittedError):
        new.predict(X)
    np.testing.assert_array_equal(old.predict(names), before)


def test_kernel_ridge_agrees_on_complete_labels():
    """With the inputs as latent rows, degree 1 is ridge regression with an offset."""
    X, y, _ = draw()
    model = SNFRegressor(1.0, max_iter=0, lambda_y=0.7, scale=False, clip=None).fit(X, y)
    ridge = KernelRidge(alpha=0.7).fit(X - X.mean(axis=0), y - y.mean())
    np.testing.assert_allclose(
        model.predict(X), ridge.predict(X - X.mean(axis=0)) + y.mean(), atol=1e-9
    )


@every_model
@pytest.mark.parametrize("unit", [2.0**-100, 2.0**100])
def test_inputs_and_targets_have_no_unit(model, unit):
    X, _, seen = draw()
    plain = clone(model).fit(X, seen)
    scaled = clone(model).fit(unit * X, unit * seen)
    np.testing.assert_allclose(scaled.predict(unit * X) / unit, plain.predict(X), rtol=1e-6)
