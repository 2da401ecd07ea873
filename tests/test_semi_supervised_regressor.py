"""The automatic regressor: what it averages, what it promises, and what it refuses."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

import regfactor
from catalogue import rng
from regfactor import SemiSupervisedClassifier, SemiSupervisedRegressor
from regfactor.core.loop import Status
from regfactor.labels.semi_supervised.kernel_members import DESIGNS, EvidenceMember
from regfactor.labels.semi_supervised.representations import (
    NormalScores,
    Representation,
    Representations,
)
from regfactor.model_selection import compare_with_supervised

FEW = ["constant", "columns linear", "factors linear", "columns smooth"]


def rows_and_targets(n=120, d=5, n_labels=30, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n)
    few = np.full(n, np.nan)
    known = rng.permutation(n)[:n_labels]
    few[known] = y[known]
    return X, y, few


def error(model, X, y):
    return np.mean((model.predict(X) - y) ** 2) / np.var(y)


# ---------------------------------------------------------------- representations


def test_normal_scores_are_those_of_ranks_and_constant_outside():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(400, 2))
    scores = NormalScores.of(X, np.ones(400))
    Z = scores(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(np.square(Z).mean(axis=0), 1.0)
    np.testing.assert_array_equal(np.argsort(Z[:, 0]), np.argsort(X[:, 0]))
    np.testing.assert_array_equal(scores(X.max(axis=0)[None] + 5), Z.max(axis=0)[None])
    np.testing.assert_allclose(NormalScores.of(np.log(X), np.ones(400))(np.log(X)), Z)


def test_many_distinct_values_are_thinned_and_scores_hardly_change():
    x = np.random.default_rng(1).normal(size=(20_000, 1))
    scores = NormalScores.of(x, np.ones(len(x)))
    assert len(scores.knots[0]) <= 1000
    inner = np.abs(x[:, 0]) < 2.5
    np.testing.assert_allclose(scores(x)[inner], x[inner], atol=0.1)


@pytest.mark.parametrize("power", [2.0, 0.0, -0.5, -1.0])
def test_factors_are_principal_scores_of_unit_mean_square(power):
    X, _, _ = rows_and_targets()
    wanted = [Representation("factors", power)]
    found = Representations.fit(X, np.ones(len(X)), wanted).of(X, wanted)[wanted[0]]
    assert np.square(found).mean() == pytest.approx(1.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    values = np.linalg.eigvalsh(Z.T @ Z / len(Z))[::-1]
    variances = np.square(found).mean(axis=0)
    eps = 1e-6 if power >= 0 else 1e-3
    expected = values * (values / values[0] + eps) ** power
    np.testing.assert_allclose(variances / variances[0], expected / expected[0], rtol=1e-6)
    np.testing.assert_allclose(found.T @ found, np.diag(np.diag(found.T @ found)), atol=1e-8)


def test_factors_of_a_sparse_table_are_those_of_the_dense_one():
    rng = np.random.default_rng(2)
    X = scipy.sparse.random_array((300, 150), density=0.05, rng=rng, format="csr")
    X.data = np.round(X.data * 3) + 1
    wanted = [Representation("factors", 2.0)]
    weights = rng.uniform(0.5, 2, 300)
    model = Representations.fit(X, weights, wanted)
    found = model.of(X, wanted)[wanted[0]]
    dense = X.toarray() / X.toarray().max(axis=0)
    centered = dense - np.average(dense, axis=0, weights=weights)
    covariance = (centered * weights[:, None]).T @ centered / weights.sum()
    values = np.linalg.eigvalsh(covariance)[::-1]
    variances = np.average(np.square(found), axis=0, weights=weights)
    np.testing.assert_allclose(
        variances[:3] / variances[0], (values[:3] / values[0]) ** 3, rtol=0.02
    )


# --------------------------------------------------------------------- the estimator


def test_it_beats_the_mean_and_keeps_given_targets():
    X, y, few = rows_and_targets()
    model = SemiSupervisedRegressor().fit(X, few)
    known = ~np.isnan(few)
    np.testing.assert_array_equal(model.transduction_[known], few[known])
    np.testing.assert_allclose(model.transduction_[~known], model.predict(X)[~known])
    assert error(model, X[~known], y[~known]) < 0.4
    assert model.members_ == [design.name for design in DESIGNS]
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.weights_.shape == model.scores_.shape == model.evidences_.shape == (14,)
    assert model.loo_error_ < np.var(y)
    assert model.relevances_.argmax() in (0, 1)
    assert model.relevances_.sum() == pytest.approx(1.0, abs=0.05)
    assert "columns" in model.representations_
    assert model.n_iter_ == 14 and model.status_ is Status.FINISHED
    assert model.history_[0].info["member"] == "constant"


def test_nearly_noise_free_linear_targets_are_found():
    """The weak spot of averaging: a small weight on a wrong member is a large error."""
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(6):
        X = rng.normal(size=(300, 8))
        y = X @ rng.normal(size=8)
        y += 0.02 * y.std() * rng.normal(size=300)
        few = np.where(np.arange(300) < 20, y, np.nan)
        ours = error(SemiSupervisedRegressor().fit(X, few), X[20:], y[20:])
        ratios.append(ours / error(LinearRegression().fit(X[:20], y[:20]), X[20:], y[20:]))
    assert np.exp(np.mean(np.log(ratios))) < 1.3


def test_without_a_signal_it_is_about_as_good_as_the_mean():
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(6):
        X = rng.normal(size=(300, 8))
        y = rng.normal(size=300)
        few = np.where(np.arange(300) < 30, y, np.nan)
        model = SemiSupervisedRegressor().fit(X, few)
        ratios.append(error(model, X[30:], y[30:]) / np.mean((y[:30].mean() - y[30:]) ** 2))
    assert np.mean(ratios) < 1.06


def test_predictions_do_not_run_away_far_from_the_rows():
    X, _, few = rows_and_targets()
    model = SemiSupervisedRegressor().fit(X, few)
    low, high = np.nanmin(few), np.nanmax(few)
    far = model.predict(1e6 * X)
    width = (high - low) * (1 + 10)
    assert np.isfinite(far).all() and far.min() > low - width and far.max() < high + width


# ----------------------------------------------------------------------------- laws


def test_the_order_of_rows_and_columns_does_not_matter():
    X, _, few = rows_and_targets()
    order = np.random.default_rng(5).permutation(len(X))
    columns = [3, 0, 4, 1, 2]
    model = SemiSupervisedRegressor().fit(X, few)
    other = SemiSupervisedRegressor().fit(X[order][:, columns], few[order])
    np.testing.assert_allclose(other.predict(X[:, columns]), model.predict(X), atol=2e-3)


def test_units_of_inputs_and_targets_do_not_matter():
    X, _, few = rows_and_targets()
    units = 10.0 ** np.array([-5, 3, 0, 7, -2])
    model = SemiSupervisedRegressor().fit(X, few)
    other = SemiSupervisedRegressor().fit(X * units - 3 * units, 1e4 * few - 1e5)
    np.testing.assert_allclose(
        (other.predict(X * units - 3 * units) + 1e5) / 1e4, model.predict(X), atol=2e-3
    )
    np.testing.assert_allclose(other.weights_, model.weights_, atol=2e-3)
    assert other.loo_error_ == pytest.approx(1e8 * model.loo_error_, rel=1e-2)


def test_a_second_fit_is_identical():
    X, _, few = rows_and_targets()
    model = SemiSupervisedRegressor().fit(X, few)
    before = model.predict(X)
    np.testing.assert_array_equal(model.fit(X, few).predict(X), before)


def test_weights_act_as_repetition_counts():
    X, _, few = rows_and_targets(n=50, n_labels=15)
    counts = np.random.default_rng(6).integers(0, 3, 50)
    weighted = SemiSupervisedRegressor().fit(X, few, sample_weight=counts)
    repeated = SemiSupervisedRegressor().fit(np.repeat(X, counts, axis=0), np.repeat(few, counts))
    np.testing.assert_allclose(weighted.evidences_, repeated.evidences_, atol=1e-5)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-5)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)
    np.testing.assert_allclose(
        weighted.predict_interval(X), repeated.predict_interval(X), atol=1e-4
    )
    assert weighted.transduction_.shape == (50,)
    assert np.isfinite(weighted.transduction_).all()


def test_weights_that_sum_to_one_are_relative():
    X, _, few = rows_and_targets(n=50, n_labels=15)
    weights = np.random.default_rng(6).uniform(0.5, 1.5, 50)
    weights *= 15 / weights[~np.isnan(few)].sum()
    counted = SemiSupervisedRegressor().fit(X, few, sample_weight=weights)
    shares = SemiSupervisedRegressor().fit(X, few, sample_weight=weights / weights.sum())
    np.testing.assert_allclose(shares.predict(X), counted.predict(X), atol=1e-4)
    assert np.isfinite(shares.predict(X, return_std=True)).all()


def test_several_targets_are_as_good_as_each_alone():
    X, y, few = rows_and_targets()
    other = np.where(np.arange(len(y)) % 4 == 0, X[:, 2] ** 2, np.nan)
    both = SemiSupervisedRegressor().fit(X, np.column_stack([few, other]))
    first = SemiSupervisedRegressor().fit(X, few)
    second = SemiSupervisedRegressor().fit(X, other)
    expected = np.column_stack([first.predict(X), second.predict(X)])
    np.testing.assert_allclose(both.predict(X), expected)
    np.testing.assert_allclose(both.weights_, [first.weights_, second.weights_])
    np.testing.assert_allclose(both.loo_error_, [first.loo_error_, second.loo_error_])
    assert both.transduction_.shape == (120, 2)
    assert both.relevances_.shape == (2, 5) and both.evidences_.shape == (2, 14)
    lower, upper = both.predict_interval(X)
    assert lower.shape == upper.shape == (120, 2) and (lower < upper).all()
    mean, deviation = both.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (120, 2)
    assert "carries most" in str(both.explain())


def test_left_out_errors_and_deviations_are_honest():
    inside = []
    squares = []
    for seed in range(6):
        X, y, few = rows_and_targets(n=400, n_labels=40, seed=seed)
        model = SemiSupervisedRegressor().fit(X, few)
        new = np.isnan(few)
        mean, deviation = model.predict(X[new], return_std=True)
        lower, upper = model.predict_interval(X[new], level=0.8)
        np.testing.assert_allclose((lower + upper) / 2, mean)
        squares.append(np.mean(np.square((y[new] - mean) / deviation)))
        inside.append(np.mean((lower <= y[new]) & (y[new] <= upper)))
        assert model.loo_error_ == pytest.approx(np.mean((y[new] - mean) ** 2), rel=0.8)
    assert 0.7 < np.mean(inside) < 0.9
    assert 0.5 < np.mean(squares) < 1.7


def test_too_few_targets_for_an_interval_are_an_error():
    X, _, few = rows_and_targets(n_labels=6)
    model = SemiSupervisedRegressor(members=FEW).fit(X, few)
    with pytest.raises(ValueError, match="A 90% interval cannot be given with 6 labels"):
        model.predict_interval(X)
    lower, upper = model.predict_interval(X, level=0.8)
    assert (lower <= upper).all()
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.predict_interval(X, level=90)


# --------------------------------------------------------------------------- members


def test_members_can_be_chosen_and_are_explained():
    X, _, few = rows_and_targets()
    model = SemiSupervisedRegressor(members=FEW).fit(X, few)
    assert model.members_ == FEW
    explained = model.explain()
    assert sorted(report.member for report in explained.members) == sorted(FEW)
    assert "assumes" in str(explained) and "Rows without targets" in str(explained)
    assert "All rows have targets" in str(
        SemiSupervisedRegressor(members=FEW).fit(X, X[:, 0]).explain()
    )


def test_a_regressor_of_scikit_learn_joins_the_average():
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, size=(400, 4))
    y = np.floor(3 * X[:, 0]) % 2 + 0.05 * rng.normal(size=400)  # steps, which no kernel likes
    few = np.where(np.arange(400) < 120, y, np.nan)
    forest = RandomForestRegressor(30, random_state=0)
    model = SemiSupervisedRegressor(members=[*FEW, ("forest", forest)]).fit(X, few)
    assert model.members_ == [*FEW, "forest"]
    assert model.weights_[-1] > 0.7 and model.weights_.sum() == pytest.approx(1.0)
    alone = clone(forest).fit(X[:120], y[:120])
    assert error(model, X[120:], y[120:]) < 1.1 * error(alone, X[120:], y[120:])
    assert model.evidences_.shape == (4,)
    lower, upper = model.predict_interval(X[120:])
    assert 0.75 < np.mean((lower <= y[120:]) & (y[120:] <= upper)) <= 1
    assert "RandomForestRegressor" in str(model.explain())


def test_a_bad_regressor_of_scikit_learn_does_no_harm():
    X, y, few = rows_and_targets()
    bad = LinearRegression(fit_intercept=False)
    model = SemiSupervisedRegressor(members=["auto", ("bad", bad)]).fit(X - 50, few)
    alone = SemiSupervisedRegressor().fit(X - 50, few)
    assert model.weights_[-1] < 0.05 or error(model, X - 50, y) < 1.05 * error(alone, X - 50, y)


def test_regressors_of_scikit_learn_alone_are_averaged_too():
    X, y, few = rows_and_targets()
    weights = np.random.default_rng(8).uniform(0.5, 2, len(X))
    model = SemiSupervisedRegressor(members=[("ridge", Ridge()), ("lr", LinearRegression())])
    model.fit(X, few, weights)
    assert model.members_ == ["ridge", "lr"] and error(model, X, y) < 1
    assert model.evidences_.shape == (0,)
    mean, deviation = model.predict(X, return_std=True)
    assert (deviation > 0).all()
    assert "No member uses the rows without targets" in str(model.explain())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["columns"], "Unknown member 'columns'"),
        (["few columns liner"], "Did you mean 'few columns linear'"),
        ([("a", 3)], "pairs"),
        ([("a", Ridge)], "Give an instance of the member 'a': Ridge\\(\\)"),
        ([("a", Ridge()), ("a", Ridge())], "Two members have the name 'a'"),
        ([], "no members"),
        ("all", "'members' parameter"),
    ],
)
def test_members_that_are_none_are_refused(members, message):
    X, _, few = rows_and_targets()
    with pytest.raises(ValueError, match=message):
        SemiSupervisedRegressor(members=members).fit(X, few)


def test_draws_of_parameters_change_little_and_are_reproducible():
    X, _, few = rows_and_targets()
    modes = SemiSupervisedRegressor().fit(X, few).predict(X)
    drawn = SemiSupervisedRegressor(n_draws=4, random_state=0).fit(X, few).predict(X)
    again = SemiSupervisedRegressor(n_draws=4, random_state=0).fit(X, few).predict(X)
    np.testing.assert_array_equal(drawn, again)
    assert 0 < np.abs(drawn - modes).max() < 1.0


def test_limits_leave_a_smaller_pool():
    X, _, few = rows_and_targets()
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = SemiSupervisedRegressor(time_limit=0.0).fit(X, few)
    assert model.members_ == ["constant"]
    model = SemiSupervisedRegressor(callback=lambda iterate: len(iterate.point) == 3)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, few)
    assert len(model.members_) == 3


# ---------------------------------------------------------------------------- inputs


def test_missing_inputs_are_completed_in_fits_and_predictions():
    X, y, few = rows_and_targets(n=300, d=8, n_labels=40)
    gaps = np.random.default_rng(9).random(X.shape) < 0.1
    holey = np.where(gaps, np.nan, X)
    model = SemiSupervisedRegressor().fit(holey, few)
    assert np.isfinite(model.transduction_).all()
    assert error(model, holey, y) < 0.8
    new = X[:5].copy()
    new[0] = np.nan
    assert np.isfinite(model.predict(new)).all()
    complete = SemiSupervisedRegressor().fit(X, few)
    assert np.isfinite(complete.predict(new)).all()  # rows of fit had no missing entries


def test_narrow_sparse_tables_are_as_dense_ones():
    X, _, few = rows_and_targets()
    X[np.abs(X) < 0.5] = 0.0
    dense = SemiSupervisedRegressor().fit(X, few)
    sparse = SemiSupervisedRegressor().fit(scipy.sparse.csr_array(X), few)
    np.testing.assert_allclose(sparse.predict(scipy.sparse.csr_array(X)), dense.predict(X))


def test_wide_sparse_tables_are_never_made_dense(monkeypatch):
    rng = np.random.default_rng(10)
    X = scipy.sparse.random_array((2000, 3000), density=0.01, rng=rng, format="csr")
    topic = (X[:, :30].sum(axis=1) > 0.1).astype(float)
    X = scipy.sparse.csr_array(scipy.sparse.hstack([X, topic[:, None] * rng.random((2000, 40))]))
    y = topic + 0.1 * rng.normal(size=2000)
    few = np.where(np.arange(2000) < 50, y, np.nan)

    def refuse(self, *args, **kwargs):
        assert np.prod(self.shape) < 1e6
        return np.asarray(self.todense())

    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", refuse)
    model = SemiSupervisedRegressor().fit(X, few)
    assert error(model, X[50:], y[50:]) < 0.3
    assert not any("rank" in name for name in model.members_)
    assert model.relevances_.shape == (3040,)


def test_wide_dense_tables_are_represented_by_factors():
    rng = np.random.default_rng(11)
    codes = rng.normal(size=(200, 3))
    X = codes @ rng.normal(size=(3, 250)) + 0.3 * rng.normal(size=(200, 250))
    y = codes[:, 0]
    few = np.where(np.arange(200) < 25, y, np.nan)
    model = SemiSupervisedRegressor().fit(X, few)
    assert error(model, X[25:], y[25:]) < 0.15
    assert model.relevances_.shape == (250,)


def test_thousands_of_targets_use_inducing_rows():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(3000, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=3000)
    few = np.where(np.arange(3000) < 2500, y, np.nan)
    started = time.process_time()
    model = SemiSupervisedRegressor(members=["constant", "columns mixed"]).fit(X, few)
    assert time.process_time() - started < 20
    new = slice(2500, None)
    assert np.mean((model.predict(X[new]) - y[new]) ** 2) < 1.2 * 0.2**2
    lower, upper = model.predict_interval(X[new])
    assert 0.86 < np.mean((lower <= y[new]) & (y[new] <= upper)) < 0.94
    assert model.loo_error_ == pytest.approx(0.2**2, rel=0.2)


@pytest.mark.filterwarnings("ignore:Target column 0 is known in one row")
@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_very_few_targets_are_allowed(n_labels):
    X, _, few = rows_and_targets(n_labels=n_labels)
    model = SemiSupervisedRegressor().fit(X, few)
    mean, deviation = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation >= 0).all()
    if n_labels == 1:
        np.testing.assert_allclose(mean, np.nanmax(few))


def test_constant_targets_and_constant_columns_are_allowed():
    X, _, few = rows_and_targets()
    constant = np.where(np.isnan(few), np.nan, 7.0)
    np.testing.assert_allclose(SemiSupervisedRegressor().fit(X, constant).predict(X), 7.0)
    plain = SemiSupervisedRegressor().fit(X, few).predict(X)
    padded = np.column_stack([X, np.full(len(X), 1e8 / 3)])
    model = SemiSupervisedRegressor().fit(padded, few)
    np.testing.assert_allclose(model.predict(padded), plain, atol=1e-6)
    assert model.relevances_[-1] == 0
    nothing = SemiSupervisedRegressor().fit(np.ones((120, 2)), few).predict(np.ones((3, 2)))
    np.testing.assert_allclose(nothing, np.nanmean(few))


def test_frames_single_precision_and_names_are_kept():
    X, _, few = rows_and_targets()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = SemiSupervisedRegressor(members=FEW).fit(frame, pd.Series(few, name="y"))
    assert list(model.feature_names_in_) == list("abcde")
    assert "Rows without targets" in str(model.explain())  # without a warning of names
    single = SemiSupervisedRegressor(members=FEW).fit(X.astype(np.float32), few)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), model.predict(frame), atol=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, None), "y to be passed"),
        (lambda X, y: (X, np.full(len(y), np.nan)), "contains NaN in every row"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (np.where(X > 2, np.inf, X), y), "infinity"),
        (lambda X, y: (X, np.where(np.isnan(y), np.nan, np.inf)), "y holds infinity"),
        (lambda X, y: (X, np.where(np.isnan(y), "much", "little")), "y must hold numbers"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
    ],
)
def test_bad_input_is_refused(change, message):
    X, _, few = rows_and_targets()
    with pytest.raises(ValueError, match=message):
        SemiSupervisedRegressor(members=FEW).fit(*change(X, few))


@pytest.mark.parametrize(
    ("params", "message"),
    [({"n_draws": -1}, "'n_draws'"), ({"n_draws": 1.5}, "'n_draws'"), ({"members": 3}, "members")],
)
def test_bad_parameters_are_refused(params, message):
    X, _, few = rows_and_targets()
    with pytest.raises(ValueError, match=message):
        SemiSupervisedRegressor(**params).fit(X, few)


def test_a_failed_fit_leaves_the_old_one():
    X, _, few = rows_and_targets()
    model = SemiSupervisedRegressor(members=FEW).fit(X, few)
    before = model.predict(X)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, np.full(len(few), np.inf))
    np.testing.assert_array_equal(model.predict(X), before)


def test_models_are_saved_and_loaded(tmp_path):
    X, _, few = rows_and_targets()
    model = SemiSupervisedRegressor().fit(X, few)
    regfactor.save(model, tmp_path / "model.skops")
    for other in (regfactor.load(tmp_path / "model.skops"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        np.testing.assert_array_equal(other.predict_interval(X), model.predict_interval(X))


def test_unlabeled_rows_are_compared_with_a_supervised_twin():
    X, y = load_diabetes(return_X_y=True)
    few = np.where(np.arange(len(y)) < 60, y, np.nan)
    result = compare_with_supervised(SemiSupervisedRegressor(members=FEW), X, few, cv=3)
    assert result.n_labeled == 60 and np.isfinite(result.difference).all()


class SingularRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose factorization fails."""

    def fit(self, X, y):
        raise np.linalg.LinAlgError("Singular matrix")

    def predict(self, X):
        return np.zeros(len(X))


class InfiniteRegressor(SingularRegressor):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), np.inf)


@pytest.mark.parametrize(
    ("regressor", "match"),
    [
        (SingularRegressor(), "member 'given' failed .*Singular matrix"),
        (InfiniteRegressor(), "member 'given' failed .*not finite"),
        (KNeighborsRegressor(50), "member 'given' failed .*n_neighbors"),
    ],
    ids=str,
)
def test_a_member_from_outside_that_fails_is_named(regressor, match):
    X = rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 12, X[:, 0], np.nan)
    with pytest.raises(ValueError, match=match):
        SemiSupervisedRegressor(["constant", ("given", regressor)]).fit(X, y)


def test_a_member_of_the_library_that_fails_is_named(monkeypatch):
    def fail(self):
        raise np.linalg.LinAlgError("Singular matrix.")

    monkeypatch.setattr(EvidenceMember, "fit", fail)
    X = rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="member 'constant' failed: Singular matrix. Leave it out"):
        SemiSupervisedRegressor().fit(X, X[:, 0])


@pytest.mark.parametrize("size", [1e155, 1e-155])
def test_sizes_that_cannot_be_squared_are_refused(size):
    X = rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="Column 1 of X holds values of size"):
        SemiSupervisedRegressor().fit(X * [1.0, size], X[:, 0])
    with pytest.raises(ValueError, match="Target column 0 holds values of size"):
        SemiSupervisedRegressor().fit(X, X[:, 0] * size)


def test_the_remedy_of_a_time_limit_is_one_that_there_is():
    X = rng(0).normal(size=(30, 2))
    with pytest.warns(ConvergenceWarning, match="only the members constant.*fewer members") as seen:
        SemiSupervisedRegressor(time_limit=0.0).fit(X, X[:, 0])
    assert "tol" not in str(seen[0].message)


@pytest.mark.parametrize(
    "estimator", [SemiSupervisedRegressor(), SemiSupervisedClassifier()], ids=str
)
def test_an_entry_next_to_which_others_coincide_is_refused(estimator):
    """Standardized, 79 rows would be one point, and nothing would tell the user."""
    X = rng(0).normal(size=(80, 3))
    y = np.where(np.arange(80) % 4 == 0, (X[:, 1] > 0).astype(float), np.nan)
    rare = X.copy()
    rare[:, 2] = np.arange(80) == 7  # an indicator of one row is no outlier
    clone(estimator).fit(rare, y)
    far = X.copy()
    far[70, 1] = 1e20
    with pytest.raises(ValueError, match="Row 70 holds 1e.20 in column 1 .*NaN"):
        clone(estimator).fit(far, y)
    weights = np.ones(80)
    weights[70] = 0.0
    given = clone(estimator).fit(far, y, sample_weight=weights)
    others = np.delete(np.arange(80), 70)
    without = clone(estimator).fit(far[others], y[others])
    np.testing.assert_allclose(given.predict(X), without.predict(X), rtol=1e-6)
    far[70, 1] = np.nan
    clone(estimator).fit(far, y)


# -------------------------------------------------------------- mistakes


def test_minus_one_in_place_of_nan_is_warned_of():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 20, X[:, 0], -1.0)
    with pytest.warns(UserWarning, match="give NaN instead"):
        SemiSupervisedRegressor(members=["constant"]).fit(X, y)


def test_a_single_target_is_warned_of():
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.where(np.arange(20) < 1, 5.0, np.nan)
    with pytest.warns(UserWarning, match="known in one row"):
        model = SemiSupervisedRegressor().fit(X, y)
    np.testing.assert_allclose(model.transduction_, 5.0)


def test_a_target_next_to_which_the_others_coincide_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, X[:, 0], np.nan)
    y[7] = 1e20
    with pytest.raises(ValueError, match="Row 7 holds 1e\\+20"):
        SemiSupervisedRegressor().fit(X, y)
