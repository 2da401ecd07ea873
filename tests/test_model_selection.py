"""Folds keep unlabeled rows in training, twins never see them, loss estimates obey the theorem."""

import doctest
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from regfactor import (
    ReverseClassifier,
    ReverseRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)
from regfactor.losses import potentials
from regfactor.losses.transfers import as_transfer
from regfactor.model_selection import (
    LabeledKFold,
    ModelSpan,
    compare,
    compare_with_supervised,
    folds,
    labeled_loss,
    variance,
)

NAN = float("nan")


# folds


@pytest.mark.parametrize(
    "y",
    [
        [0, 0, 0, 1, 1, -1, -1, -1],
        ["a", "a", "a", "b", "b", "", None, ""],
        [0.5, 1.5, -1.0, 2.5, 3.5, NAN, NAN, NAN],
        [0.5, 1.5, -1.0, 2.5, 3.5, None, None, None],
        [[1, 2], [3, 4], [5, 6], [7, 8], [0, 0], [1, NAN], [NAN, NAN], [NAN, 2]],
    ],
    ids=["numbers", "strings", "regression", "regression with None", "several targets"],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_unlabeled_rows_are_always_in_training_and_labeled_ones_tested_once(y, shuffle):
    folds = LabeledKFold(2, shuffle=shuffle, random_state=0)
    parts = list(folds.split(np.zeros((8, 1)), y))
    assert len(parts) == folds.get_n_splits() == 2
    np.testing.assert_array_equal(
        np.sort(np.concatenate([test for _, test in parts])), np.arange(5)
    )
    for train, test in parts:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(8))


def test_classes_are_dealt_out_evenly_even_when_they_are_few():
    y = np.repeat([0, 1, 2, -1], [11, 7, 2, 30])
    for shuffle in (False, True):
        counts = [
            np.bincount(y[test], minlength=3) for _, test in LabeledKFold(4, shuffle, 0).split(y, y)
        ]
        assert np.ptp(counts, axis=0).max() <= 1 and np.ptp(np.sum(counts, axis=1)) <= 1


def test_shuffling_is_decided_by_the_state():
    y = np.tile([0, 1], 20)
    one, same, other = (
        [t.tolist() for _, t in LabeledKFold(5, True, s).split(y, y)] for s in (0, 0, 1)
    )
    assert one == same != other


def test_what_cannot_be_folded_is_refused():
    with pytest.raises(ValueError, match="n_splits=5 folds.*y has 2"):
        list(LabeledKFold().split(None, [0, 1, -1, -1]))
    with pytest.raises(ValueError, match="unlabeled="):
        list(LabeledKFold(2).split(None, [0.0, -1.0, NAN]))
    tested = np.concatenate(
        [t for _, t in LabeledKFold(2, unlabeled=NAN).split(None, [0.0, -1.0, NAN])]
    )
    np.testing.assert_array_equal(np.sort(tested), [0, 1])


@pytest.mark.parametrize("n_splits", [1, "4", 2.5, True])
def test_a_number_of_folds_that_is_none_is_refused_at_once(n_splits):
    with pytest.raises(ValueError, match="n_splits must be a whole number of at least 2"):
        LabeledKFold(n_splits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cv": "5"}, "cv must be a whole number >= 2 or a splitter.*got '5'"),
        ({"cv": 1}, "at least 2"),
        ({"estimator": np.eye(3)}, r"got ndarray.*compare_with_supervised\(estimator, X, y\)"),
        ({"supervised": 5}, "supervised must be an estimator"),
    ],
)
def test_a_comparison_says_what_it_takes(arguments, message):
    X, y = moons(60)
    with pytest.raises(ValueError, match=message):
        compare_with_supervised(**({"estimator": LabelSpreading(), "X": X, "y": y} | arguments))


def test_scikit_learn_takes_the_folds():
    X, y = moons(60)
    folds = LabeledKFold(3)
    assert len(cross_val_score(LabelSpreading(gamma=20), X, y, cv=folds)) == 3
    search = GridSearchCV(LabelSpreading(), {"gamma": [0.01, 20]}, cv=folds).fit(X, y)
    assert search.best_params_["gamma"] == 20


# twins


def moons(n=300, labels=20, noise=0.1):
    X, y = make_moons(n, noise=noise, random_state=0)
    y[labels:] = -1
    return X, y


class Propagating(RegressorMixin, BaseEstimator):
    """Ridge that fills unknown targets by its own prediction: semi-supervised in form."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        known = ~np.isnan(y).reshape(len(y), -1).any(axis=1)
        self.n_seen_ = (known.sum(), (~known).sum())
        self.model_ = Ridge(self.alpha).fit(X[known], y[known])
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Remembering(Propagating):
    """Knows whether it saw unlabeled rows, and is perfect if it did."""

    def score(self, X, y):
        return float(self.n_seen_[1] > 0)


def lines(n=600, labels=60):
    """Two long lines side by side, which few labels do not show."""
    random = np.random.default_rng(0)
    y = random.integers(2, size=n)
    return np.column_stack([random.uniform(0, 30, size=n), y / 2]), np.where(
        np.arange(n) < labels, y, -1
    )


def test_unlabeled_rows_help_where_classes_are_connected():
    X, y = lines()
    result = compare_with_supervised(
        LabelSpreading(gamma=40, alpha=0.9, max_iter=1000), X, y, cv=10
    )
    assert result.mean > 0.1 and "helped" in result.verdict
    np.testing.assert_allclose(result.difference, result.semi_supervised - result.supervised)
    assert (result.n_labeled, result.n_unlabeled, len(result.difference)) == (60, 540, 10)


def test_the_twin_is_the_clone_on_labeled_rows_alone():
    X, y = moons(100)
    result = compare_with_supervised(LabelSpreading(gamma=30), X, y, cv=LabeledKFold(4))
    by_hand = cross_val_score(LabelSpreading(gamma=30), X[:20], y[:20], cv=LabeledKFold(4))
    np.testing.assert_allclose(result.supervised, by_hand)
    with_all = cross_val_score(LabelSpreading(gamma=30), X, y, cv=LabeledKFold(4))
    np.testing.assert_allclose(result.semi_supervised, with_all)


def test_self_training_and_pipelines_and_frames_are_compared():
    X, y = moons()
    model = make_pipeline(StandardScaler(), SelfTrainingClassifier(LogisticRegression(C=10)))
    result = compare_with_supervised(
        model, pd.DataFrame(X, columns=["a", "b"]), y, supervised=LogisticRegression()
    )
    assert len(result.difference) == 5 and np.all(result.supervised > 0.5)


def test_regression_has_nan_for_unknown_targets_and_minus_one_is_a_value():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    y = np.round(X @ [1.0, 2.0, -1.0])
    y[30:] = NAN
    assert (y == -1).any()
    result = compare_with_supervised(Propagating(), X, y)
    assert result.score == "R^2" and result.n_labeled == 30
    np.testing.assert_array_equal(result.difference, 0)
    assert "made no difference" in result.verdict
    Y = np.column_stack([y, y])
    Y[29, 0] = NAN
    assert (
        len(
            compare_with_supervised(
                Propagating(), X, Y, scoring="neg_mean_squared_error"
            ).difference
        )
        == 5
    )


def test_a_supervised_twin_sees_rows_with_all_targets_alone():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    Y = X @ random.normal(size=(3, 2))
    Y[40:] = NAN
    Y[30:40, 1] = NAN
    result = compare_with_supervised(ReverseRegressor(), X, Y, supervised=Ridge(1e-6))
    assert (result.n_labeled, result.n_unlabeled) == (40, 20)
    np.testing.assert_allclose(result.supervised, 1)


@pytest.mark.parametrize("named", [False, True])
def test_the_automatic_classifier_is_compared_with_itself_on_labeled_rows(named):
    X, y = moons(120, labels=24)
    if named:
        y = np.array([None, "down", "up"], object)[y + 1]
    model = SemiSupervisedClassifier(random_state=0)
    result = compare_with_supervised(model, X, y, cv=LabeledKFold(3))
    assert (result.n_labeled, result.n_unlabeled) == (24, 96)
    given = y[:24].tolist()
    by_hand = cross_val_score(model, X[:24], given, cv=LabeledKFold(3))
    np.testing.assert_allclose(result.supervised, by_hand)


def test_the_automatic_regressor_is_compared_with_itself_on_labeled_rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 4))
    y = X @ [1.0, 2.0, -1.0, 0.0] + random.normal(size=90)
    y[30:] = NAN
    model = SemiSupervisedRegressor(random_state=0)
    result = compare_with_supervised(model, X, y, cv=LabeledKFold(3))
    assert (result.n_labeled, result.n_unlabeled) == (30, 60)
    by_hand = cross_val_score(model, X[:30], y[:30], cv=LabeledKFold(3))
    np.testing.assert_allclose(result.supervised, by_hand)
    twin = compare_with_supervised(model, X, y, cv=LabeledKFold(3), supervised=Ridge())
    np.testing.assert_allclose(twin.semi_supervised, result.semi_supervised)


def test_the_marker_of_an_estimator_in_a_pipeline_is_found():
    X, y = moons(100, labels=30)
    named = np.where(y == -1, "?", np.where(y == 1, "-1", "1"))
    reverse = ReverseClassifier(unlabeled="?", random_state=0)
    result = compare_with_supervised(make_pipeline(StandardScaler(), reverse), X, named)
    assert (result.n_labeled, result.n_unlabeled) == (30, 70)
    search = GridSearchCV(reverse, {"transfer": ["identity"]}, cv=LabeledKFold(2, unlabeled="?"))
    assert compare_with_supervised(search, X, named).n_labeled == 30


def test_every_training_set_of_the_estimator_has_the_unlabeled_rows():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 20, X[:, 0], NAN)
    result = compare_with_supervised(Remembering(), X, y)
    np.testing.assert_array_equal(result.supervised, 0)
    np.testing.assert_array_equal(result.semi_supervised, 1)
    assert result.standard_error == 0 and "helped" in result.verdict


def test_the_verdict_follows_the_numbers():
    def verdict(*difference):
        return compare.Comparison(
            np.zeros(len(difference)), np.array(difference), 10, 90, "accuracy"
        ).verdict

    assert "helped" in verdict(0.1, 0.12, 0.11) and "hurt" in verdict(-0.1, -0.12, -0.11)
    assert "cannot be decided" in verdict(0.1, -0.12, 0.11)
    assert "cannot be decided" in verdict(0.1)  # one fold shows no variance


def test_the_table_is_readable_and_becomes_a_frame():
    result = compare.Comparison(np.array([0.5, 0.7]), np.array([0.75, 0.9]), 10, 90, "accuracy")
    lines = str(result).splitlines()
    assert lines[0] == "accuracy; 10 labeled and 90 unlabeled rows"
    assert lines[1].split() == ["fold", "supervised", "semi-supervised", "difference"]
    assert lines[2].split() == ["0", "0.5", "0.75", "+0.25"] and lines[4].split()[:2] == [
        "mean",
        "0.6",
    ]
    assert lines[-1] == result.verdict
    frame = result.to_frame()
    assert (
        list(frame.columns) == ["supervised", "semi_supervised", "difference"]
        and frame.index.name == "fold"
    )


def test_a_twin_that_fails_is_named():
    class Picky(Propagating):
        def fit(self, X, y):
            if not np.isnan(y).any():
                raise RuntimeError("needs unlabeled rows")
            return super().fit(X, y)

    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 20, X[:, 0], NAN)
    with pytest.raises(RuntimeError, match="needs unlabeled rows") as caught:
        compare_with_supervised(Picky(), X, y)
    assert (
        "supervised twin on fold 0" in caught.value.__notes__[0]
        and "supervised=" in caught.value.__notes__[0]
    )


# the loss of a fixed model

TRANSFERS = {
    "identity": potentials.Identity(),
    "relaxed_sigmoid": potentials.RelaxedSigmoid(0.7),
    "cube": potentials.Cube(),
    "sigmoid": potentials.Sigmoid(),
    "softmax": potentials.Softmax(),
    "exp": potentials.Exp(),
    "kl": potentials.Entropy(),
    "bernoulli": potentials.BinomialEntropy(),
    "itakura_saito": potentials.Burg(),
}


def example(name, n=40, d=6, k=3, seed=0):
    """Return a potential, U, targets and inputs with all means in the range of the transfer."""
    random = np.random.default_rng(seed)
    potential, end = TRANSFERS[name], TRANSFERS[name].range
    Y, U = random.normal(size=(n, k)), random.normal(size=(k, d)) / 2
    if np.isfinite([end.low, end.high]).any():
        Y = random.dirichlet(np.ones(k), size=n)
        U = (
            random.dirichlet(np.ones(d), size=k)
            if name == "softmax"
            else random.uniform(0.1, 0.9, size=(k, d))
        )
        U = -U if end.high == 0 else U
    anywhere = not np.isfinite([end.low, end.high]).any()
    link = Y @ U + random.normal(size=(n, d)) / 2 if anywhere else Y @ U
    X = potential.inverse(link)
    if not np.isfinite(potential.domain.low):
        X = X + random.normal(size=(n, d)) / 2
    elif name == "itakura_saito":
        X = X * np.exp(random.normal(size=(n, d)) / 2)
    return potential, U, Y, X


@pytest.mark.parametrize("name", TRANSFERS)
def test_pythagoras_holds_on_the_span_of_the_model(name):
    potential, U, Y, X = example(name)
    span = ModelSpan.of(potential, U, Y.shape[1])
    projected = span.project(X)
    whole, parts = (
        span.distance(Y @ U, X),
        span.split(Y @ U, projected) + span.distance(projected, X),
    )
    assert whole.max() > 1e-3
    np.testing.assert_allclose(parts, whole, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["identity", "relaxed_sigmoid", "cube", "exp", "kl"])
def test_pythagoras_is_an_inequality_on_a_box(name):
    potential, U, Y, X = example(name, n=12)
    Y = np.random.default_rng(1).uniform(0.05, 0.95, size=Y.shape)
    span = ModelSpan.of(potential, U, Y.shape[1])

    def nearest(x):
        loss = lambda z: float(span.conjugate.value(z @ U).sum() - z @ U @ x)  # noqa: E731
        slope = lambda z: U @ (span.conjugate.transfer(z @ U) - x)  # noqa: E731
        best = minimize(
            loss,
            np.full(3, 0.5),
            jac=slope,
            bounds=[(1e-9, 1)] * 3,
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        return best.x

    Z = np.array([nearest(x) for x in X])
    gaps = span.distance(Y @ U, X) - span.split(Y @ U, Z @ U) - span.distance(Z @ U, X)
    assert gaps.min() > -1e-5 and gaps.max() > 0.01


def test_the_projection_of_the_identity_is_least_squares():
    potential, U, _, X = example("identity")
    expected = X @ np.linalg.pinv(U) @ U
    np.testing.assert_allclose(ModelSpan.of(potential, U, 3).project(X), expected, atol=1e-10)


def test_the_projection_stays_inside_the_range():
    for name in ("exp", "sigmoid", "softmax", "itakura_saito"):
        potential, U, _, X = example(name)
        projected = ModelSpan.of(potential, U, 3).project(4 * X)
        assert np.all(projected > potential.range.low) and np.all(projected < potential.range.high)
    with pytest.raises(ValueError, match="No z puts z U inside"):
        ModelSpan.of(potentials.Exp(), np.array([[1.0, -1.0, 0.5]]), 1).project(np.zeros((2, 3)))


def simulate(name, T_l, T_u, runs, draw, U):
    """Return estimates (labeled only, plain, controlled) and variances by formula."""
    values, promised = [], []
    for seed in range(runs):
        X, Y = draw(np.random.default_rng(seed), T_l + T_u)
        result = labeled_loss((name, U), X[:T_l], Y[:T_l], X[T_l:])
        three = result.labeled_only, result.plain, result.controlled
        values.append([e.value for e in three])
        promised.append([e.variance for e in three])
    return np.array(values), np.array(promised)


def noisy(U, transfer):
    potential = as_transfer(transfer)

    def draw(random, n):
        Y = random.normal(size=(n, len(U))) / 2
        return potential.inverse(Y @ U) + random.normal(size=(n, U.shape[1])) / 2, Y

    return draw


@pytest.mark.parametrize("name", ["identity", "relaxed_sigmoid"])
def test_variances_are_what_the_formula_says_and_fall_with_unlabeled_rows(name):
    U = np.random.default_rng(9).normal(size=(2, 6)) / 2
    values, promised = simulate(name, 20, 180, 600, noisy(U, name), U)
    observed = values.var(axis=0, ddof=1)
    # a variance from 600 runs of nearly normal means is known to about 6 per cent
    np.testing.assert_allclose(promised.mean(axis=0), observed, rtol=0.25)
    assert observed[1] < 0.8 * observed[0] and observed[2] < 0.9 * observed[0]
    center = values[:, 0].mean()
    np.testing.assert_allclose(values.mean(axis=0), center, atol=5 * np.sqrt(observed.max() / 600))


def counterexample(random, n):
    """Residuals of norm sqrt(8), in span(U) or orthogonal to it at random: A + B = 4 always."""
    d, k = 6, 2
    Y = random.normal(size=(n, k))
    inside = random.uniform(size=n) < 0.5
    r = np.where(
        inside[:, None],
        np.eye(d)[random.integers(k, size=n)],
        np.eye(d)[random.integers(k, d, size=n)],
    )
    return Y @ np.eye(k, d) + np.sqrt(8) * r, Y


def test_unlabeled_rows_raise_the_variance_in_the_counterexample_unless_controlled():
    U = np.eye(2, 6)
    plain = {}
    for T_u in (20, 80, 320):
        values, promised = simulate("identity", 20, T_u, 300, counterexample, U)
        observed = values.var(axis=0, ddof=1)
        assert (
            observed[0] < 1e-20 and observed[2] < 1e-20
        )  # labeled rows alone, and the control variate
        np.testing.assert_allclose(promised[:, 1].mean(), observed[1], rtol=0.25)
        plain[T_u] = observed[1]
    assert 0.05 < plain[20] < plain[80] and 0.15 < plain[320] < 0.25  # the limit is 0.2
    X, Y = counterexample(np.random.default_rng(0), 200)
    result = labeled_loss(("identity", U), X[:20], Y[:20], X[20:])
    assert not result.unlabeled_help and abs(result.coefficient) < 1e-10
    assert result.estimate == pytest.approx(4) and "raise the variance" in str(result)
    assert (
        labeled_loss(("identity", U), X[:20], Y[:20], X[20:], control_variate=False).variance > 0.05
    )


def test_without_unlabeled_rows_all_estimates_agree():
    potential, U, Y, X = example("cube")
    result = labeled_loss((potential, U), X, Y, X[:0])
    for estimate in (result.plain, result.controlled):
        np.testing.assert_allclose(estimate, result.labeled_only, rtol=1e-10)


def test_fitted_models_are_taken():
    potential, U, Y, X = example("sigmoid")
    codes = Y.argmax(axis=1)
    classes = np.array(["a", "b", "c"])
    centers = SimpleNamespace(
        transfer="sigmoid", cluster_centers_=potential.inverse(U), classes_=classes
    )
    one, same = (
        labeled_loss(centers, X, classes[codes], X),
        labeled_loss((potential, U), X, np.eye(3)[codes], X),
    )
    assert one.estimate == pytest.approx(same.estimate) and "labeled rows only" in str(one)
    with pytest.raises(ValueError, match="X_unlabeled"):
        labeled_loss(centers, X, np.append(classes[codes[1:]], ""), X)
    with pytest.raises(ValueError, match="kernel"):
        labeled_loss(SimpleNamespace(transfer="identity", components_=U, kernel="rbf"), X, Y, X)


def test_an_intercept_shifts_the_span():
    potential, U, Y, X = example("identity")
    with_row = np.vstack([U, np.full((1, 6), 5.0)])
    shifted = labeled_loss(
        SimpleNamespace(transfer="identity", components_=with_row), X + 5, Y, X + 5
    )
    assert shifted.estimate == pytest.approx(labeled_loss((potential, U), X, Y, X).estimate)


def test_the_offset_of_a_fitted_model_counts():
    potential, U, Y, X = example("identity")
    model = ReverseRegressor(fit_intercept=True).fit(X + 5, Y)
    assert np.abs(model.offset_).min() > 1
    result = labeled_loss(model, X + 5, Y, X + 5)
    with_row = np.vstack([model.components_, model.offset_])
    assert result.estimate == labeled_loss((potential, with_row), X + 5, Y, X + 5).estimate
    centered = (potential, model.components_)
    without = labeled_loss(centered, X + 5 - model.offset_, Y, X + 5 - model.offset_)
    assert result.estimate == pytest.approx(without.estimate)


def test_wrong_inputs_are_named():
    potential, U, Y, X = example("identity")
    with pytest.raises(ValueError, match="U has 3 rows, y has 1 targets"):
        labeled_loss((potential, U), X, Y[:, 0], X)
    with pytest.raises(ValueError, match=r"y U must lie in \[0, inf\)"):
        labeled_loss(("exp", U), X, Y, X)
    with pytest.raises(ValueError, match="sum to one"):
        labeled_loss(("softmax", np.full((3, 6), 0.1)), X, np.eye(3)[[0] * 40], X)
    with pytest.raises(ValueError, match="at least two labeled rows"):
        labeled_loss((potential, U), X[:1], Y[:1], X)


@pytest.mark.parametrize("module", [folds, compare, variance])
def test_examples_give_what_they_say(module):
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_soft_labels_and_weights_are_compared():
    X, y = load_iris(return_X_y=True)
    known = np.random.default_rng(0).permutation(150)[:40]
    soft = np.zeros((150, 3))
    soft[known] = 0.1
    soft[known, y[known]] = 0.8
    plain = np.full(150, -1)
    plain[known] = y[known]
    found = compare_with_supervised(SemiSupervisedClassifier(), X, soft)
    assert found.n_labeled == 40
    # a share of .8 where a label is right, .1 where it is wrong
    expected = compare_with_supervised(SemiSupervisedClassifier(), X, plain)
    assert found.semi_supervised.mean() == pytest.approx(
        0.1 + 0.7 * expected.semi_supervised.mean(), abs=0.1
    )
    with pytest.raises(ValueError, match="scoring must be None"):
        compare_with_supervised(SemiSupervisedClassifier(), X, soft, scoring="accuracy")
    # rows of weight zero are not learned from, and their scores do not count
    weights = np.ones(150)
    noise = known[:10]
    spoiled = plain.copy()
    spoiled[noise] = (y[noise] + 1) % 3
    weights[noise] = 0.0
    with_weights = compare_with_supervised(
        SemiSupervisedClassifier(), X, spoiled, sample_weight=weights
    )
    without = compare_with_supervised(SemiSupervisedClassifier(), X, spoiled)
    assert with_weights.semi_supervised.mean() > without.semi_supervised.mean() + 0.1
