"""Conformal: brute-force refits, exact coverage, few labels, unlabeled rows, any estimator."""

import doctest
import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import regfactor
from regfactor import (
    ReverseClassifier,
    ReverseRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)
from regfactor.fitting.conformal import (
    adaptive_scores,
    conformal_quantile,
    cross_interval,
    expected_coverage,
)
from regfactor.model_selection import Conformal, LabeledKFold
from regfactor.model_selection import conformal as module

NAN = float("nan")
METHODS = ["split", "cross", "jackknife+"]


def regression(n, seed=0, noise=1.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = X @ [1.0, -2.0, 0.5] + noise * random.normal(size=n) * (0.5 + np.abs(X[:, 0]))
    return X, y


def classification(n, seed=0, n_classes=3):
    random = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), random.integers(n_classes, size=n - n_classes)]
    X = random.normal(size=(n, 2)) + 1.5 * np.column_stack([np.cos(2 * y), np.sin(2 * y)])
    return X, y


@parametrize_with_checks(
    [
        Conformal(LogisticRegression(), n_folds=2, unlabeled=NAN),  # -1 is a class there
        Conformal(Ridge(), n_folds=2),
        Conformal(Ridge(), method="split"),
    ]
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_examples_of_the_docstrings_run():
    result = doctest.testmod(module)
    assert result.attempted > 3
    assert result.failed == 0


# against brute force


def test_jackknife_plus_equals_refits_without_each_row():
    X, y = regression(25)
    new, _ = regression(7, seed=1)
    found = Conformal(LinearRegression(), method="jackknife+").fit(X, y).predict_interval(new)
    low = np.empty((25, 7))
    high = np.empty((25, 7))
    for i in range(25):
        kept = np.arange(25) != i
        model = LinearRegression().fit(X[kept], y[kept])
        residual = abs(y[i] - model.predict(X[[i]])[0])
        low[i] = model.predict(new) - residual
        high[i] = model.predict(new) + residual
    # k = floor(0.1 * 26) = 2
    np.testing.assert_allclose(found.lower, np.sort(low, axis=0)[1])
    np.testing.assert_allclose(found.upper, np.sort(high, axis=0)[-2])


def test_normalized_jackknife_plus_equals_refits_without_each_row():
    X, y = regression(20)
    new, _ = regression(5, seed=1)
    found = Conformal(BayesianRidge(), method="jackknife+").fit(X, y).predict_interval(new, 0.8)
    low = np.empty((20, 5))
    high = np.empty((20, 5))
    for i in range(20):
        kept = np.arange(20) != i
        model = BayesianRidge().fit(X[kept], y[kept])
        mean, width = model.predict(X[[i]], return_std=True)
        score = abs(y[i] - mean[0]) / width[0]
        mean, width = model.predict(new, return_std=True)
        low[i] = mean - score * width
        high[i] = mean + score * width
    # k = floor(0.2 * 21) = 4
    np.testing.assert_allclose(found.lower, np.sort(low, axis=0)[3])
    np.testing.assert_allclose(found.upper, np.sort(high, axis=0)[-4])


def test_jackknife_plus_sets_equal_refits_without_each_row():
    X, y = classification(24)
    new, _ = classification(30, seed=1)
    model = Conformal(GaussianNB(), method="jackknife+").fit(X, y)
    below = np.zeros((30, 3), int)
    for i in range(24):
        kept = np.arange(24) != i
        own = GaussianNB().fit(X[kept], y[kept])
        score = adaptive_scores(own.predict_proba(X[[i]]), [y[i]])
        below += score < adaptive_scores(own.predict_proba(new))
    np.testing.assert_array_equal(model.predict_set(new), below < 0.9 * 25)
    np.testing.assert_array_equal(model.predict_set(new, 0.6), below < 0.6 * 25)


def test_cross_equals_refits_without_each_fold():
    X, y = regression(23)
    new, _ = regression(6, seed=1)
    found = Conformal(Ridge(), n_folds=4, random_state=3).fit(X, y).predict_interval(new)
    residuals = []
    means = []
    folds = LabeledKFold(4, shuffle=True, random_state=3, unlabeled=NAN)
    for train, test in folds.split(X, y):
        model = Ridge().fit(X[train], y[train])
        residuals.append(np.abs(y[test] - model.predict(X[test])))
        means.append(model.predict(new))
    expected = cross_interval(residuals, np.column_stack(means), 0.9)
    np.testing.assert_allclose(found.lower, expected.lower)
    np.testing.assert_allclose(found.upper, expected.upper)


def test_split_equals_a_fit_to_the_other_rows():
    X, y = regression(40)
    model = Conformal(Ridge(), method="split", random_state=0).fit(X, y)
    rows = model.held_out_rows_
    kept = np.setdiff1d(np.arange(40), rows)
    own = Ridge().fit(X[kept], y[kept])
    quantile = conformal_quantile(np.abs(y[rows] - own.predict(X[rows])), 0.9)
    lower, upper = model.predict_interval(X)
    np.testing.assert_allclose(model.predict(X), own.predict(X))
    np.testing.assert_allclose(lower, own.predict(X) - quantile)
    np.testing.assert_allclose(upper, own.predict(X) + quantile)


def test_a_frozen_model_is_calibrated_by_all_labels():
    X, y = regression(60)
    fitted = Ridge().fit(X[:30], y[:30])
    model = Conformal(FrozenEstimator(fitted), method="split", calibration_share=1.0)
    model.fit(X[30:], y[30:])
    assert len(model.held_out_rows_) == 30
    quantile = conformal_quantile(np.abs(y[30:] - fitted.predict(X[30:])), 0.9)
    np.testing.assert_allclose(model.predict_interval(X).upper, fitted.predict(X) + quantile)


# coverage


def test_split_coverage_of_intervals_is_exact():
    n_calibration = 12
    hits = 0
    trials = 600
    for seed in range(trials):
        X, y = regression(37, seed)
        model = Conformal(LinearRegression(), method="split", random_state=seed)
        model.fit(X[:36], y[:36])
        assert len(model.held_out_rows_) == n_calibration
        lower, upper = model.predict_interval(X[36:])
        hits += lower[0] <= y[36] <= upper[0]
    assert binomtest(hits, trials, expected_coverage(n_calibration, 0.9)).pvalue > 1e-3


def test_split_coverage_of_randomized_sets_is_exact():
    hits = 0
    trials = 400
    for seed in range(trials):
        X, y = classification(31, seed)
        model = Conformal(GaussianNB(), method="split", randomized=True, random_state=seed)
        model.set_params(level=0.8).fit(X[:30], y[:30])
        hits += model.predict_set(X[30:])[0, y[30]]
    n = len(model.held_out_rows_)
    assert binomtest(hits, trials, expected_coverage(n, 0.8)).pvalue > 1e-3


@pytest.mark.parametrize("method", ["cross", "jackknife+"])
@pytest.mark.parametrize("n", [12, 30])
def test_cross_coverage_is_about_the_level(method, n):
    hits = []
    for seed in range(40):
        X, y = regression(n + 200, seed)
        model = Conformal(LinearRegression(), method=method, random_state=seed).fit(X[:n], y[:n])
        lower, upper = model.predict_interval(X[n:])
        hits.append(np.mean((lower <= y[n:]) & (y[n:] <= upper)))
    assert 0.88 < np.mean(hits) < 0.97


@pytest.mark.parametrize("method", METHODS)
def test_sets_of_a_wrong_model_cover(method):
    class Backwards(ClassifierMixin, BaseEstimator):
        """Sure of the class that is least likely."""

        def fit(self, X, y):
            self.model_ = GaussianNB().fit(X, y)
            self.classes_ = self.model_.classes_
            return self

        def predict_proba(self, X):
            P = (1 - self.model_.predict_proba(X)) ** 4
            return P / P.sum(axis=1, keepdims=True)

    hits = []
    for seed in range(20):
        X, y = classification(330, seed)
        model = Conformal(Backwards(), method=method, random_state=0).fit(X[:30], y[:30])
        hits.append(model.predict_set(X[30:])[np.arange(300), y[30:]].mean())
    assert np.mean(hits) > 0.88


def test_widths_of_the_estimator_narrow_intervals_where_it_is_sure():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(80, 1))
    model = Conformal(GaussianProcessRegressor(alpha=0.01), random_state=0)
    model.fit(X, np.sin(3 * X[:, 0]) + 0.1 * random.normal(size=80))
    lower, upper = model.predict_interval(np.array([[0.0], [4.0]]))
    assert upper[1] - lower[1] > 3 * (upper[0] - lower[0])


# few labels


@pytest.mark.parametrize("method", ["cross", "jackknife+"])
def test_too_few_labels_are_an_error_that_names_the_number(method):
    X, y = regression(30)
    y[6:] = NAN
    model = Conformal(Ridge(), method=method).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    message = "cannot be given with 6 labels: at level 0.9 at least 9 are needed"
    assert message in model.why_not()
    with pytest.raises(ValueError, match=message):
        model.predict_interval(X)
    assert model.why_not(0.8) == ""
    lower, upper = model.predict_interval(X, level=0.8)
    assert (lower < upper).all()


def test_split_keeps_enough_rows_for_the_level_where_there_are_enough():
    X, y = regression(14)
    model = Conformal(Ridge(), method="split").fit(X, y)
    assert len(model.held_out_rows_) == 9
    assert np.isfinite(model.predict_interval(X).upper).all()
    few = Conformal(Ridge(), method="split").fit(X[:9], y[:9])
    with pytest.raises(ValueError, match="cannot be given with .* labels.*method='cross'"):
        few.predict_interval(X)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_there_are_never_more_folds_than_labels(n):
    X, y = regression(12)
    y[n:] = NAN
    model = Conformal(DummyRegressor(), n_folds=5).fit(X, y)
    assert len(model.estimators_) == n


def test_one_label_or_none_is_an_error():
    X, y = regression(12)
    for n in (1, 0):
        y[n:] = NAN
        with pytest.raises(ValueError, match=f"at least 2 labeled rows.* {n}"):
            Conformal(Ridge()).fit(X, y)


def test_coverage_is_described():
    X, y = classification(40)
    model = Conformal(GaussianNB(), random_state=0).fit(X, y)
    found = model.coverage_
    assert found.n_labels == 40
    assert found.expected == pytest.approx(expected_coverage(40, 0.9))
    assert found.low < found.expected < found.high
    assert 0.6 < found.guaranteed < 0.8
    assert set(found.by_class) == {0, 1, 2}
    counts = np.bincount(y)
    mean = sum(found.by_class[k] * counts[k] for k in range(3)) / 40
    assert mean == pytest.approx(found.held_out)
    assert "40 labels" in str(found) and "\n" not in str(found)
    assert 1 <= found.size <= 3
    exact = Conformal(GaussianNB(), method="split").fit(X, y).coverage_
    assert exact.guaranteed == 0.9
    jackknife = Conformal(GaussianNB(), method="jackknife+").fit(X, y).coverage_
    assert jackknife.guaranteed == pytest.approx(0.8)
    few = Conformal(GaussianNB()).fit(X[:6], y[:6]).coverage_
    assert "cannot be given with 6 labels" in str(few)


# rows without labels


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps y of every fit."""

    seen = []
    unlabeled = NAN

    def fit(self, X, y):
        Recorder.seen.append(np.asarray(y))
        self.mean_ = np.nanmean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize("method", METHODS)
def test_unlabeled_rows_are_in_every_fit_and_held_out_ones_in_none(method):
    X, y = regression(40)
    y[12:] = NAN
    Recorder.seen = []
    model = Conformal(Recorder(), method=method, semi_supervised=True).fit(X, y)
    for labels in Recorder.seen:
        assert np.isnan(labels).sum() == 28
    assert not np.isnan(y[model.held_out_rows_]).any()
    sizes = sorted(np.isfinite(labels).sum() for labels in Recorder.seen)
    expected = {"split": [3], "cross": [9, 9, 10, 10, 10, 12], "jackknife+": [11] * 12 + [12]}
    assert sizes == expected[method]


@pytest.mark.parametrize("marker", [-1, None, NAN, ""])
def test_supervised_estimators_are_fitted_to_labeled_rows(marker):
    X, codes = classification(60)
    names = np.array(["a", "b", "c"], object)[codes]
    y = codes.astype(object) if marker == -1 else names
    whole = Conformal(LogisticRegression(), random_state=0)
    whole.fit(X[:30], y[:30].tolist())
    y[30:] = marker
    partial = Conformal(LogisticRegression(), random_state=0)
    if marker == -1:
        with pytest.warns(UserWarning, match="unlabeled=-1 confirms it"):
            partial.fit(X, y)
        partial.set_params(unlabeled=-1)
    partial.fit(X, y)
    np.testing.assert_array_equal(partial.classes_, whole.classes_)
    np.testing.assert_array_equal(partial.predict_set(X), whole.predict_set(X))


def test_minus_one_may_be_a_class():
    X, codes = classification(30, n_classes=2)
    y = np.where(codes == 0, -1, 1)
    with pytest.raises(ValueError, match="unlabeled"):
        Conformal(LogisticRegression()).fit(X, y)
    model = Conformal(LogisticRegression(), unlabeled=NAN).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [-1, 1])


@pytest.mark.parametrize(
    "estimator",
    [
        LabelSpreading(),
        SelfTrainingClassifier(LogisticRegression()),
        ReverseClassifier(random_state=0),
        SemiSupervisedClassifier(random_state=0),
        make_pipeline(StandardScaler(), LabelSpreading()),
    ],
    ids=["spreading", "self-training", "reverse", "automatic", "pipeline"],
)
def test_semi_supervised_classifiers(estimator):
    X, y = make_moons(200, noise=0.2, random_state=0)
    truth = y.copy()
    y[30:] = -1
    model = Conformal(estimator, random_state=0).fit(X, y)
    own = clone(estimator).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X))
    sets = model.predict_set(X)
    assert sets.shape == (200, 2)
    assert sets[np.arange(30, 200), truth[30:]].mean() > 0.85


@pytest.mark.parametrize("estimator", [ReverseRegressor(), SemiSupervisedRegressor(random_state=0)])
def test_semi_supervised_regressors(estimator):
    X, y = regression(120, noise=0.3)
    truth = y.copy()
    y[25:] = NAN
    model = Conformal(estimator, random_state=0).fit(X, y)
    lower, upper = model.predict_interval(X[25:])
    assert np.mean((lower <= truth[25:]) & (truth[25:] <= upper)) > 0.8


# any estimator


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), cv=3)),
        RandomForestClassifier(20, random_state=0),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    ],
    ids=["logistic", "pipeline", "forest", "search"],
)
def test_classifiers_of_scikit_learn(estimator):
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    random = np.random.default_rng(0).permutation(150)
    train, test = random[:60], random[60:]
    model = Conformal(estimator, random_state=0).fit(X.iloc[train], names.iloc[train])
    sets = model.predict_set(X.iloc[test])
    assert sets[np.arange(90), y.iloc[test]].mean() > 0.85
    assert sets.sum(axis=1).mean() < 1.5
    assert set(model.predict(X)) == set(names)
    assert model.score(X, names) > 0.9
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == list(X.columns)


@pytest.mark.parametrize(
    "estimator",
    [Ridge(), make_pipeline(StandardScaler(), BayesianRidge()), DummyRegressor()],
    ids=["ridge", "pipeline with std", "dummy"],
)
def test_regressors_of_scikit_learn(estimator):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X = X[order]
    y = y[order]
    model = Conformal(estimator, random_state=0).fit(X[:100], y[:100])
    lower, upper = model.predict_interval(X[100:])
    assert 0.85 < np.mean((lower <= y[100:]) & (y[100:] <= upper)) < 0.95


def test_several_targets_have_an_interval_each():
    X, y = regression(50)
    Y = np.column_stack([y, 100 * y + 5])
    Y[40:] = NAN
    Y[39, 1] = NAN
    model = Conformal(ReverseRegressor(), method="jackknife+").fit(X, Y)
    assert len(model.held_out_rows_) == 39
    lower, upper = model.predict_interval(X)
    assert lower.shape == upper.shape == (50, 2)
    assert model.coverage_.n_labels == 39
    both = Conformal(LinearRegression(), method="cross", random_state=0).fit(X[:39], Y[:39])
    one = Conformal(LinearRegression(), method="cross", random_state=0).fit(X[:39], Y[:39, 0])
    np.testing.assert_allclose(both.predict_interval(X).upper[:, 0], one.predict_interval(X).upper)


def test_the_deviation_of_the_automatic_regressor_widens_intervals():
    X, y = regression(60, noise=0.3)
    y[40:] = NAN
    model = Conformal(SemiSupervisedRegressor(random_state=0), random_state=0).fit(X, y)
    assert all(fold.widths is not None for fold in model.folds_)
    lower, upper = model.predict_interval(np.vstack([X.mean(axis=0), 20 * np.ones(3)]))
    assert upper[1] - lower[1] > upper[0] - lower[0]


def test_a_width_of_zero_is_no_division_by_zero():
    class Certain(RegressorMixin, BaseEstimator):
        """Claims to make no error."""

        def fit(self, X, y):
            self.mean_ = np.mean(y)
            return self

        def predict(self, X, return_std=False):
            mean = np.full(len(X), self.mean_)
            return (mean, np.zeros(len(X))) if return_std else mean

    X, y = regression(40)
    lower, upper = Conformal(Certain(), random_state=0).fit(X, y).predict_interval(X)
    assert 0.85 < np.mean((lower <= y) & (y <= upper)) <= 1
    constant = Conformal(Certain(), random_state=0).fit(X, np.ones(40)).predict_interval(X)
    np.testing.assert_allclose(constant.upper, 1)


def test_a_class_that_a_fold_does_not_know():
    X, y = classification(30)
    y[y == 2] = 1
    y[4] = 2
    model = Conformal(GaussianNB(), random_state=0).fit(X, y)
    assert model.predict_set(X).shape == (30, 3)
    assert model.held_out_scores_[model.held_out_rows_ == 4][0] == pytest.approx(1.0)


def test_sparse_rows_and_weights():
    X, y = classification(60)
    dense = Conformal(LogisticRegression(), random_state=0)
    dense.fit(X, y, sample_weight=np.ones(60))
    sparse = Conformal(LogisticRegression(), random_state=0)
    sparse.fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_array_equal(
        dense.predict_set(X), sparse.predict_set(scipy.sparse.csr_array(X))
    )
    weighted = Conformal(LogisticRegression(), random_state=0)
    weighted.fit(X, y, sample_weight=np.where(y == 0, 10.0, 1.0))
    assert weighted.predict_proba(X)[:, 0].mean() > dense.predict_proba(X)[:, 0].mean() + 0.02


def test_frames_in_series_out():
    X, y = regression(40)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Conformal(Ridge(), random_state=0).fit(frame, pd.Series(y))
    plain = Conformal(Ridge(), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_interval(frame).lower, plain.predict_interval(X).lower)


def test_results_are_the_same_for_the_same_seed_and_any_number_of_jobs():
    X, y = classification(40)
    one = Conformal(GaussianNB(), randomized=True, random_state=1).fit(X, y)
    two = Conformal(GaussianNB(), randomized=True, random_state=1, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.predict_set(X), one.predict_set(X))
    np.testing.assert_array_equal(one.predict_set(X), two.predict_set(X))


def test_sets_are_not_empty_unless_they_are_randomized():
    X, y = classification(90)
    X *= 3
    X += 20 * np.eye(3)[y][:, :2]
    plain = Conformal(GaussianNB(), random_state=0).fit(X, y)
    assert plain.predict_set(X).any(axis=1).all()
    random = Conformal(GaussianNB(), randomized=True, random_state=0).fit(X, y)
    assert not random.predict_set(X).any(axis=1).all()


def test_a_penalty_keeps_sets_small():
    random = np.random.default_rng(0)
    codes = random.integers(8, size=1_000)
    X = random.normal(size=(1_000, 8)) + 1.2 * np.eye(8)[codes]
    plain = Conformal(GaussianNB(), method="split", random_state=0).fit(X, codes)
    small = Conformal(GaussianNB(), method="split", penalty=0.1, n_free=2, random_state=0)
    small.fit(X, codes)
    largest = plain.predict_set(X).sum(axis=1).max()
    assert small.predict_set(X).sum(axis=1).max() < largest


def test_what_a_kind_of_estimator_cannot_do_is_an_error():
    X, y = classification(40)
    with pytest.raises(ValueError, match="predict_proba.*CalibratedClassifierCV"):
        Conformal(LinearSVC()).fit(X, y)
    classifier = Conformal(GaussianNB()).fit(X, y)
    with pytest.raises(AttributeError, match="predict_interval"):
        classifier.predict_interval(X)
    regressor = Conformal(Ridge()).fit(X, X[:, 0])
    with pytest.raises(AttributeError, match="predict_set"):
        regressor.predict_set(X)
    assert not hasattr(regressor, "predict_proba")
    with pytest.raises(ValueError, match="classifier or a regressor"):
        Conformal(StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="jackknife"):
        Conformal(Ridge(), method="jackknife").fit(X, y)
    with pytest.raises(ValueError, match="'level' parameter"):
        Conformal(Ridge(), level=90).fit(X, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        regressor.predict_interval(X, level=90)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        Conformal(Ridge(), method="split", calibration_share=1.0).fit(X, X[:, 0])


def test_a_fit_that_fails_leaves_the_last_one():
    class Undecided(GaussianNB):
        """Knows the classes, but not their probabilities."""

        def predict_proba(self, X):
            return np.full((len(X), len(self.classes_)), NAN)

    X, y = classification(40)
    model = Conformal(GaussianNB(), random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.set_params(estimator=Undecided()).fit(X, y)
    model.set_params(estimator=before["estimator"])
    assert vars(model) == before
    model.set_params(estimator=Ridge()).fit(X, X[:, 0])
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "feature_names_in_")


def test_saved_and_loaded(tmp_path):
    X, y = classification(40)
    model = Conformal(ReverseClassifier(random_state=0), random_state=0).fit(X, y)
    regfactor.save(model, tmp_path / "m.skops")
    again = regfactor.load(tmp_path / "m.skops")
    np.testing.assert_array_equal(model.predict_set(X), again.predict_set(X))
    assert str(model.coverage_) == str(again.coverage_)


def test_intervals_contain_most_predictions():
    X, y = regression(30)
    model = Conformal(Ridge(), random_state=0).fit(X, y)
    lower, upper = model.predict_interval(X)
    assert ((lower < model.predict(X)) & (model.predict(X) < upper)).all()
    wide = model.predict_interval(X, level=0.95)
    assert (wide.lower <= lower).all() and (wide.upper >= upper).all()
    assert not math.isnan(model.coverage_.held_out)


@pytest.mark.parametrize("method", ["split", "cross"])
@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_weights_of_held_out_labels_count_repetitions(kind, method):
    """Fitted estimators, which weights do not move, calibrated with weights and with copies."""
    random = np.random.default_rng(3)
    X = random.normal(size=(90, 3))
    y = X[:, 0] + random.normal(size=90)
    model = LinearRegression().fit(X[:20], y[:20])
    if kind == "classes":
        y = (y > 0).astype(int)
        model = LogisticRegression().fit(X[:20], y[:20])
    X = X[20:]
    y = y[20:]
    counts = random.integers(0, 4, size=len(y))
    copies = np.repeat(np.arange(len(y)), counts)
    share = 1 if method == "split" else 1 / 3
    conformal = Conformal(
        FrozenEstimator(model), method=method, calibration_share=share, random_state=0
    )
    weighted = clone(conformal).fit(X, y, sample_weight=counts.astype(float))
    repeated = clone(conformal).fit(X[copies], y[copies])
    new = random.normal(size=(40, 3))
    for level in (0.5, 0.8, 0.9):
        if kind == "classes":
            found = weighted.predict_set(new, level)
            assert_array_equal(found, repeated.predict_set(new, level))
        else:
            found = weighted.predict_interval(new, level)
            assert_allclose(found, repeated.predict_interval(new, level))
    for name in ("n_labels", "expected", "low", "high", "held_out", "size"):
        assert_allclose(getattr(weighted.coverage_, name), getattr(repeated.coverage_, name))
    assert weighted.coverage_.by_class == pytest.approx(repeated.coverage_.by_class)


def test_weights_below_one_can_be_too_few_labels():
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 2))
    y = X[:, 0] + random.normal(size=30)
    model = Conformal(LinearRegression(), random_state=0).fit(X, y, sample_weight=np.full(30, 0.2))
    assert "cannot be given with 6 labels" in model.why_not()


@pytest.mark.parametrize("method", METHODS)
def test_soft_labels_of_one_class_are_plain_labels(method):
    X, y = classification(40)
    soft = np.zeros((60, 3))
    soft[np.arange(40), y] = 1.0
    table = np.vstack([X, X[:20] + 0.1])
    labels = np.r_[y, np.full(20, -1)]
    plain = Conformal(SemiSupervisedClassifier(), method=method, random_state=0).fit(table, labels)
    model = Conformal(SemiSupervisedClassifier(), method=method, random_state=0).fit(table, soft)
    assert_array_equal(model.held_out_rows_, plain.held_out_rows_)
    assert_allclose(model.held_out_scores_, plain.held_out_scores_)
    assert_array_equal(model.predict_set(X), plain.predict_set(X))
    assert model.coverage_.held_out == plain.coverage_.held_out
    assert model.coverage_.size == plain.coverage_.size


def test_a_soft_label_counts_for_each_class_by_its_share():
    X, y = classification(30)
    soft = 0.7 * np.eye(3)[y] + 0.1
    model = Conformal(SemiSupervisedClassifier(), level=0.8, random_state=0).fit(X, soft)
    assert len(model.held_out_rows_) == 90
    assert model.coverage_.n_labels == pytest.approx(30)
    for fold in model.folds_:
        P = fold.estimator.predict_proba(X[fold.rows])
        assert_allclose(fold.predictions, P)
        assert_allclose(fold.scores, adaptive_scores(P, fold.codes))
        assert_allclose(fold.weights, soft[fold.rows, fold.codes])
    # a class is in a set if the weight of the scores below its own is too small
    new = X[:5]
    needed = 0.8 * 31 - 1e-9
    below = np.zeros((5, 3))
    for fold in model.folds_:
        S = adaptive_scores(fold.estimator.predict_proba(new))
        below += (fold.weights * (fold.scores < S[:, :, None])).sum(axis=2)
    assert_array_equal(model.predict_set(new), below < needed)


def test_sets_from_soft_labels_cover_classes_that_are_drawn_from_them():
    random = np.random.default_rng(0)
    covered = []
    for _ in range(20):
        X = random.normal(size=(500, 2))
        scores = X @ [[2.0, -1.0, 0.0], [0.0, 1.5, -1.5]]
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        soft = shares.copy()
        soft[300:] = 0.0
        model = Conformal(SemiSupervisedClassifier(members=["logistic"]), method="split")
        sets = model.set_params(randomized=True, random_state=0).fit(X, soft).predict_set(X[300:])
        covered.append((sets * shares[300:]).sum(axis=1).mean())
    assert 0.89 < np.mean(covered) < 0.93


def test_unclear_soft_labels_are_refused():
    X, y = classification(30)
    model = Conformal(SemiSupervisedClassifier())
    soft = np.eye(3)[y]
    soft[3] = [0.5, 0.2, 0.2]
    with pytest.raises(ValueError, match="Row 3 of y holds"):
        model.fit(X, soft)
    soft = np.zeros((30, 3))
    soft[:, :2] = np.eye(2)[y % 2]
    soft[4] = [0.5, 0.0, 0.5]
    with pytest.raises(ValueError, match="Column 2 of y has a share in held-out rows alone"):
        model.fit(X, soft)
