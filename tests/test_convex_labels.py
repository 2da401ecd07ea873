"""Labels as a second view: the objective by its definition, a conic solver, unlabeled rows, the comparators."""

import time

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import RANDOM_START, rng
from regfactor.comparisons.labels import AlternatingLabels, MatrixCompletionLabels, StagedLabels
from regfactor.comparisons.sparse_labels import SparseCodingLabels
from regfactor.datasets import make_low_rank_labels
from regfactor.labels.convex.estimator import ConvexFactorClassifier, ConvexFactorRegressor
from regfactor.losses import Logistic, Squared, Stacked
from regfactor.norms import L2, Blocks
from regfactor.penalties import Rows, TwoView
from regfactor.problems import Convex, Data
from regfactor.solvers import solve

EXACT = {"tol": 1e-8, "max_iter": 20_000}
MARKER = {"check_classifiers_classes": "its class -1 is the marker of unlabeled rows"}
ESTIMATORS = [ConvexFactorClassifier(), ConvexFactorRegressor()]
COMPARATORS = [
    AlternatingLabels(rank=3),
    StagedLabels(rank=3),
    MatrixCompletionLabels(),
    SparseCodingLabels(3, 0.1, max_iter=20),
]


def exempt(estimator):
    started = RANDOM_START if isinstance(estimator, AlternatingLabels) else {}
    return {**started, **MARKER}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have no observed entry")
@pytest.mark.filterwarnings("ignore:.*did not converge")
@parametrize_with_checks([clone(e) for e in COMPARATORS], expected_failed_checks=exempt)
def test_scikit_learn_checks_pass_for_the_comparators(estimator, check):
    check(estimator)


def paper_classifier(alpha=0.02, reconstruction_weight=1.0, **more):
    """The model as the thesis has it: raw inputs, predictions by the label components."""
    given = {"alpha": alpha, "reconstruction_weight": reconstruction_weight, **more}
    return ConvexFactorClassifier(**given, scale=False, readout="components")


def paper_regressor(alpha=0.02, reconstruction_weight=1.0, **more):
    given = {"alpha": alpha, "reconstruction_weight": reconstruction_weight, **more}
    return ConvexFactorRegressor(**given, scale=False, readout="components")


def rows(seed=0, n=60, d=7, labeled=0.6):
    """Low-rank inputs, binary labels of all rows, and the same with -1 where they are not given."""
    return make_low_rank_labels(n, d, 2, labeled=labeled, random_state=seed)[:3]


def gauge_of(model, bounds=(1.0, 1.0)):
    C = np.hstack([model.components_, model.label_components_])
    return TwoView(model.components_.shape[1], bounds).value(model.codes_ @ C)


# --- the objective ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 3.0)])
def test_the_objective_is_mean_label_loss_and_mean_reconstruction_and_the_norm(bounds):
    X, _, y = rows()
    X = np.where(rng(1).random(X.shape) < 0.1, np.nan, X)
    model = paper_classifier(0.02, 2.0, bounds=bounds, **EXACT).fit(X, y)
    Zx = model.codes_ @ model.components_
    z = (model.codes_ @ model.label_components_)[:, 0] + model.label_intercept_[0]
    given = y >= 0
    labels = np.mean(np.logaddexp(0, z[given]) - y[given] * z[given])
    inputs = 2.0 * np.nansum((Zx - X) ** 2) / 2 / X.size
    assert model.objective_ == pytest.approx(
        labels + inputs + 0.02 * gauge_of(model, bounds), rel=1e-6
    )
    assert np.all(model.intercept_ == 0)
    residual = expit(z[given]) - y[given]
    assert residual.sum() == pytest.approx(
        0, abs=1e-4
    )  # the offset of the labels is at its optimum


@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimum_is_that_of_the_semidefinite_program(intercept):
    X, _, y = rows(2, n=12, d=5)
    y[0], y[1] = 0, 1
    alpha, w, (n, d), given = 0.03, 1.5, X.shape, y >= 0
    M, s, b = cp.Variable((n + d + 1, n + d + 1), PSD=True), cp.Variable(), cp.Variable()
    Zx, z = M[:n, n : n + d], M[:n, n + d] + (b if intercept else 0)
    B = M[n:, n:]
    labels = cp.sum(cp.logistic(z[given]) - cp.multiply(y[given], z[given])) / given.sum()
    objective = (
        labels + w * cp.sum_squares(Zx - X) / (2 * n * d) + alpha / 2 * (cp.trace(M[:n, :n]) + s)
    )
    conic = cp.Problem(cp.Minimize(objective), [cp.trace(B[:d, :d]) <= s, B[d, d] <= s])
    conic.solve(solver=cp.CLARABEL)
    model = paper_classifier(alpha, w, fit_intercept=intercept, **EXACT).fit(X, y)
    assert model.objective_ == pytest.approx(conic.value, rel=1e-5)
    assert model.objective_ - model.gap_ <= conic.value * (1 + 1e-6)
    assert model.relative_gap_ <= 1e-7


def test_bounds_hold_in_both_views():
    X, _, y = rows(3)
    model = paper_classifier(0.005, bounds=(0.5, 2.0), **EXACT).fit(X, y)
    assert np.linalg.norm(model.components_, axis=1).max() <= 0.5 * (1 + 1e-12)
    assert np.linalg.norm(model.label_components_, axis=1).max() <= 2.0 * (1 + 1e-12)


def test_the_sparse_variant_is_solved_by_one_atom_for_each_row():
    """Theorem 6: under l1 codes every row is shrunk alone, so that unlabeled rows learn nothing from labels."""
    X, _, y = rows(4, n=30)
    d = X.shape[1]
    table = np.column_stack([X, np.where(y >= 0, y, np.nan)])
    loss = Stacked(((slice(0, d), Squared()), (slice(d, None), Logistic())))
    norm = Blocks(d, L2(), L2(), (1.0, 1.0))
    Z = solve(Convex(Data.of(table, loss), Rows(norm), 0.5), tol=1e-9, max_iter=5000).point.factors
    free = y < 0
    size = np.linalg.norm(X[free], axis=1)
    shrunk = X[free] * np.maximum(1 - 0.5 / size, 0)[:, None]
    np.testing.assert_allclose(Z.dense()[free, :d], shrunk, atol=1e-3)
    assert np.count_nonzero(Z.codes, axis=1).max() <= 1
    assert np.count_nonzero(Z.codes, axis=0).max() <= 1


# --- rows without labels, new rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss", ["logistic", "softmax", "squared", "smoothed_hinge", "squared_hinge"]
)
def test_unlabeled_training_rows_and_new_rows_are_scored_alike(loss):
    X, _, partial = rows(5, n=90)
    model = paper_classifier(0.003, 5.0, loss=loss, tol=1e-5, max_iter=20_000).fit(X, partial)
    free = partial < 0
    np.testing.assert_allclose(model.transform(X[free]), model.codes_[free], atol=1e-6)
    assert np.array_equal(model.predict(X[free]), model.transduction_[free])
    assert np.array_equal(model.transduction_[~free], partial[~free])


def test_probabilities_sum_to_one_and_agree_with_the_classes():
    X, y, _ = rows(6, n=120)
    three = y + (X[:, 0] > 0)
    for loss in ("logistic", "softmax"):
        model = paper_classifier(0.005, loss=loss).fit(X, three)
        P = model.predict_proba(X)
        np.testing.assert_allclose(P.sum(axis=1), 1)
        assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
        assert model.decision_function(X).shape == (120, 3)
    binary = paper_classifier(0.005).fit(X, y)
    np.testing.assert_allclose(binary.predict_proba(X)[:, 1], expit(binary.decision_function(X)))
    assert not hasattr(paper_classifier(loss="squared"), "predict_proba")


@pytest.mark.parametrize("marker", [-1, None, float("nan"), ""])
def test_every_marker_of_unlabeled_rows_is_understood(marker):
    X, _, partial = rows(7)
    names = np.array(["no", "yes"], dtype=object)
    given = partial >= 0
    if marker == "" or marker is None:
        y = np.where(given, names[partial], marker)
    else:
        y = (
            np.where(given, partial, marker)
            if marker == -1
            else np.where(given, partial.astype(float), np.nan)
        )
    model = ConvexFactorClassifier().fit(X, y)
    reference = ConvexFactorClassifier().fit(X, partial)
    np.testing.assert_allclose(model.codes_, reference.codes_)
    assert len(model.classes_) == 2


def test_minus_one_is_a_class_where_another_marker_is_named():
    X, _, partial = rows(8)
    y = np.where(partial >= 0, 2.0 * partial - 1, np.nan)
    model = ConvexFactorClassifier(unlabeled=float("nan")).fit(X, y)
    assert model.classes_.tolist() == [-1, 1]


def test_targets_of_a_regression_are_imputed_one_by_one():
    random = rng(9)
    codes = random.normal(size=(60, 2))
    X, Y = codes @ random.normal(size=(2, 6)), codes @ random.normal(size=(2, 3)) + 4.0
    known = random.random(Y.shape) < 0.6
    model = paper_regressor(1e-4, tol=1e-5).fit(X, np.where(known, Y, np.nan))
    assert np.array_equal(model.transduction_[known], Y[known])
    assert np.abs(model.transduction_[~known] - Y[~known]).max() < 0.2
    assert np.linalg.norm(model.predict(X) - Y) < 0.05 * np.linalg.norm(Y - 4)
    one = paper_regressor(1e-4).fit(X, pd.Series(Y[:, 0]))
    assert one.predict(X).shape == one.transduction_.shape == (60,)


def test_unlabeled_rows_help_where_inputs_are_of_low_rank():
    errors = []
    for seed in range(6):
        X, y, _, _ = make_low_rank_labels(150, 30, 2, noise=4.0, random_state=seed)
        partial = np.where(np.arange(150) < 20, y, -1)
        fits = [
            paper_classifier(0.005, 2.0, tol=1e-6).fit(*data)
            for data in ((X, partial), (X[:20], y[:20]))
        ]
        errors.append([np.mean(m.predict(X[20:]) != y[20:]) for m in fits])
    semi, supervised = np.mean(errors, axis=0)
    assert semi < supervised


def test_labels_are_followed_by_unlabeled_rows_where_their_bound_leaves_room():
    """Under a tight bound labeled rows fit their labels by codes of their own, and a small gap says nothing of it."""
    right = {1.0: [], 3.0: []}
    for seed in range(6):
        X, y, partial = rows(seed, n=90)
        free = partial < 0
        for bound, found in right.items():
            model = paper_classifier(0.003, 5.0, bounds=(1.0, bound), tol=1e-3).fit(X, partial)
            found.append(np.mean(model.transduction_[free] == y[free]))
            assert model.relative_gap_ <= 1e-3
    assert np.mean(right[3.0]) > np.mean(right[1.0]) + 0.03


def test_targets_in_large_units_need_a_bound_in_those_units():
    random = rng(17)
    X = random.normal(size=(80, 2)) @ random.normal(size=(2, 6))
    y = 50 * X[:, 0]
    partial = np.where(np.arange(80) < 40, y, np.nan)
    errors = [
        np.linalg.norm(paper_regressor(1e-3, bounds=(1.0, bound)).fit(X, partial).transduction_ - y)
        for bound in (1.0, 50.0)
    ]
    assert errors[1] < 0.05 * np.linalg.norm(y[40:]) < errors[0]


def test_the_strength_is_chosen_by_labels_held_out():
    X, _, y = rows(10, n=150)
    model = paper_classifier("auto", random_state=0).fit(X, y)
    assert model.validation_loss_.argmin() == np.flatnonzero(model.alphas_ == model.alpha_)[0]
    assert model.alphas_[0] > model.alpha_
    with pytest.raises(ValueError, match="only one labeled"):
        paper_regressor("auto").fit(X, np.where(np.arange(150) == 0, 1.0, np.nan))


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.filterwarnings("ignore:.*predicts the same for every row")
def test_the_time_limit_bounds_the_choice_of_the_strength():
    X, _, y = rows(10, n=400, d=60)
    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time_limit ended the search"):
        model = paper_classifier("auto", time_limit=1e-3, random_state=0).fit(X, y)
    assert len(model.alphas_) == 1
    assert time.perf_counter() - started < 5


def test_missing_in_the_inputs_are_filled():
    X, _, y = rows(11, n=100)
    missing = rng(0).random(X.shape) < 0.2
    model = paper_classifier(1e-3, 10.0).fit(np.where(missing, np.nan, X), y)
    whole = model.complete(pd.DataFrame(np.where(missing, np.nan, X)))
    assert isinstance(whole, pd.DataFrame)
    filled = whole.to_numpy()
    assert np.array_equal(filled[~missing], X[~missing])
    assert np.linalg.norm(filled[missing] - X[missing]) < 0.5 * np.linalg.norm(X[missing])


def test_weights_of_rows_stand_for_repeated_rows():
    X, _, y = rows(12)
    times = rng(1).integers(0, 3, len(y))
    weighted = paper_classifier(0.01, **EXACT).fit(X, y, sample_weight=times)
    repeated = paper_classifier(0.01, **EXACT).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-4
    )


def test_absent_entries_of_sparse_inputs_are_zeros():
    X, _, y = rows(13)
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense, sparse = (
        ConvexFactorClassifier().fit(table, y) for table in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_allclose(
        sparse.decision_function(scipy.sparse.csr_array(X)), dense.decision_function(X)
    )


def test_it_stands_in_pipelines():
    X, y, _ = rows(14, n=150)
    model = make_pipeline(StandardScaler(), paper_classifier(0.005))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.7


# --- the defaults ------------------------------------------------------------------------------------------------------


def few(seed, n_labels, n=200, d=12):
    """Inputs of rank three, and the rows of which the labels are given."""
    random = rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 0.5 * random.normal(size=(n, d))
    return X, np.arange(n) < n_labels


def test_defaults_do_not_depend_on_the_units_of_inputs_and_targets():
    X, given = few(0, 30)
    y = X[:, 0] - X[:, 1]
    units = 10.0 ** rng(1).integers(-4, 5, X.shape[1])
    plain = ConvexFactorRegressor(tol=1e-6).fit(X, np.where(given, y, np.nan))
    scaled = ConvexFactorRegressor(tol=1e-6).fit(
        X * units + 7 * units, np.where(given, 1e3 * y - 50, np.nan)
    )
    assert scaled.alpha_share_ == pytest.approx(plain.alpha_share_)
    np.testing.assert_allclose(
        scaled.transduction_, 1e3 * plain.transduction_ - 50, rtol=1e-4, atol=1.0
    )
    # components, intercepts and reconstructions are in the units of the inputs
    np.testing.assert_allclose(
        scaled.inverse_transform(scaled.transform(X * units + 7 * units)),
        (plain.inverse_transform(plain.transform(X)) + 7) * units,
        rtol=1e-3,
        atol=1e-6,
    )
    classes = ConvexFactorClassifier().fit(X, np.where(given, y > 0, -1))
    same = ConvexFactorClassifier().fit(X * units, np.where(given, y > 0, -1))
    assert np.array_equal(same.transduction_, classes.transduction_)


def test_targets_of_a_line_are_predicted_where_the_published_setting_gives_up():
    X, given = few(2, 20)
    y = 50 + 8 * X[:, 0]
    partial = np.where(given, y, np.nan)
    found = ConvexFactorRegressor().fit(X, partial)
    published = paper_regressor().fit(X, partial)
    error = np.mean((found.transduction_ - y)[~given] ** 2) / y.var()
    assert error < 0.2 < np.mean((published.transduction_ - y)[~given] ** 2) / y.var()
    np.testing.assert_allclose(found.predict(X)[~given], found.transduction_[~given], rtol=1e-6)


def test_the_default_classifier_learns_what_the_published_setting_does_not():
    right = {"default": [], "published": [], "logistic": []}
    for seed in range(4):
        X, given = few(seed, 30, n=300)
        codes = np.digitize(X[:, 0] + X[:, 3], [-1.0, 1.0])
        partial = np.where(given, codes, -1)
        models = {
            "default": ConvexFactorClassifier().fit(X, partial),
            "published": paper_classifier().fit(X, partial),
        }
        for name, model in models.items():
            right[name].append(np.mean(model.transduction_[~given] == codes[~given]))
        alone = LogisticRegression(max_iter=1000).fit(X[given], codes[given])
        right["logistic"].append(np.mean(alone.predict(X[~given]) == codes[~given]))
    assert np.mean(right["default"]) > np.mean(right["published"]) + 0.05
    assert np.mean(right["default"]) > np.mean(right["logistic"]) - 0.03


def test_inputs_pull_five_times_as_hard_as_labels_by_default():
    X, given = few(3, 40)
    y = (X[:, 0] > 0).astype(int)
    model = ConvexFactorClassifier(bounds=(2.0, 3.0), alpha_share=0.3).fit(
        X, np.where(given, y, -1)
    )
    scaled = StandardScaler().fit_transform(X)
    labels = np.linalg.norm(y[given] - y[given].mean()) / given.sum()
    inputs = np.linalg.norm(scaled, 2) / X.size
    expected = 5 * (3.0 / 2.0) * labels / inputs
    assert model.reconstruction_weight_ == pytest.approx(expected, rel=1e-6)
    assert model.alpha_ == pytest.approx(0.3 * model.alpha_max_)


def test_probabilities_are_calibrated_by_held_out_labels():
    claimed, true = [], []
    for seed in range(6):
        X, given = few(seed, 40, n=400)
        noisy = X[:, 0] + 2.5 * rng(seed + 50).normal(size=len(X))
        y = (noisy > 0).astype(int)
        model = ConvexFactorClassifier().fit(X, np.where(given, y, -1))
        P = model.predict_proba(X[~given])
        claimed.append(P.max(axis=1).mean())
        true.append(np.mean(model.predict(X[~given]) == y[~given]))
    assert abs(np.mean(claimed) - np.mean(true)) < 0.07


def test_a_fit_that_predicts_a_constant_warns():
    X, given = few(4, 30)
    partial = np.where(given, X[:, 0], np.nan)
    with pytest.warns(UserWarning, match="predicts the same for every row: it has no component"):
        ConvexFactorRegressor(alpha_share=1.0).fit(X, partial)
    labels = np.where(given, X[:, 0] > -1.0, -1)
    with pytest.warns(UserWarning, match="predicts the same for every row"):
        paper_classifier(0.5).fit(X, labels)


def test_weights_act_as_counts_in_the_choice_of_the_share_and_in_the_regression():
    X, given = few(5, 30)
    y = np.where(given, X[:, 0] + X[:, 1], np.nan)
    times = rng(2).integers(0, 3, len(y))
    weighted = ConvexFactorRegressor(tol=1e-6).fit(X, y, sample_weight=times)
    repeated = ConvexFactorRegressor(tol=1e-6).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.alpha_share_ == pytest.approx(repeated.alpha_share_, rel=1e-6)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-4)


def test_robust_losses_are_scaled_robustly_and_links_keep_their_components():
    X, given = few(6, 40)
    X[60, 0] = 1e6
    y = np.where(given, X[:, 1], np.nan)
    model = ConvexFactorRegressor(reconstruction_loss="huber", tol=1e-3).fit(X, y)
    assert np.mean((model.predict(X) - X[:, 1])[~given] ** 2) < 0.5 * X[:, 1].var()
    counts = np.where(given, rng(7).poisson(np.exp(0.3 * X[:, 1])), np.nan)
    assert np.all(ConvexFactorRegressor(loss="poisson", tol=1e-3).fit(X, counts).predict(X) > 0)


# --- the comparators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [10.0, 0.1])
def test_global_is_never_above_alternating_and_that_never_far_from_staged(weight):
    X, _, y = rows(15, n=100, d=10)
    same = {"reconstruction_weight": weight, "fit_intercept": False}
    best = paper_classifier(**same, **EXACT).fit(X, y)
    alternating = AlternatingLabels(10, **same, tol=1e-7, random_state=0).fit(X, y)
    staged = StagedLabels(10, **same, tol=1e-7, random_state=0).fit(X, y)
    assert best.objective_ <= alternating.objective_ * (1 + 1e-7)
    assert alternating.objective_ <= staged.objective_ * (1 + 1e-3)
    for local in (alternating, staged):
        assert local.objective_ - local.gap_ <= best.objective_ * (1 + 1e-7)


def test_matrix_completion_is_one_trace_norm_over_inputs_and_labels():
    X, _, y = rows(16)
    model = MatrixCompletionLabels(0.01, 0.5, fit_intercept=False, **EXACT).fit(X, y)
    given = y >= 0
    Zx, z = model.codes_ @ model.components_, (model.codes_ @ model.label_components_)[:, 0]
    loss = np.mean((Zx - X) ** 2) / 2 + 0.5 * np.mean(
        np.logaddexp(0, z[given]) - y[given] * z[given]
    )
    assert model.objective_ == pytest.approx(
        loss + 0.01 * np.linalg.norm(np.column_stack([Zx, z]), "nuc"), rel=1e-6
    )
    assert model.relative_gap_ <= 1e-7


def test_sparse_codes_are_learned_without_labels_and_then_predict_them():
    X, y, partial = rows(17, n=80)
    given = partial >= 0
    model = SparseCodingLabels(4, 0.5, random_state=0).fit(X, partial)
    other = SparseCodingLabels(4, 0.5, random_state=0).fit(X, np.where(given, 1 - partial, -1))
    np.testing.assert_allclose(model.codes_, other.codes_)  # which no label has a part in
    assert np.linalg.norm(model.components_, axis=1).max() <= 1 + 1e-9
    # codes solve the lasso on the components: |C (x - phi C)| <= alpha, with equality where a code is not zero
    slope = (X - model.codes_ @ model.components_) @ model.components_.T
    assert np.abs(slope).max() <= 0.5 * (1 + 1e-2)
    active = model.codes_ != 0
    np.testing.assert_allclose(slope[active], 0.5 * np.sign(model.codes_[active]), atol=5e-3)
    alone = LogisticRegression().fit(model.codes_[given], partial[given])
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(model.codes_), atol=1e-6)
    assert np.array_equal(model.transduction_[given], partial[given])
    assert np.array_equal(model.transduction_[~given], alone.predict(model.codes_[~given]))


def test_sparse_codes_take_another_classifier():
    X, y, _ = rows(18, n=80)
    names = np.array(["no", "yes"])[y]
    model = SparseCodingLabels(5, 0.1, LinearSVC(), random_state=0).fit(X, names)
    assert set(model.predict(X)) <= {"no", "yes"} and model.score(X, names) > 0.7
    assert not hasattr(model, "predict_proba") and hasattr(SparseCodingLabels(), "predict_proba")
    forest = RandomForestClassifier()  # its length is not known before it is fitted
    assert hasattr(SparseCodingLabels(classifier=forest), "predict_proba")


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (ConvexFactorClassifier(), np.full(60, -1), "class"),
        (ConvexFactorClassifier(), np.zeros(60, int), "class"),
        (ConvexFactorClassifier(), np.arange(59), "inconsistent"),
        (
            ConvexFactorClassifier(reconstruction_weight=0.0),
            np.arange(60) % 2,
            "reconstruction_weight",
        ),
        (ConvexFactorClassifier(bounds=(0.0, 1.0)), np.arange(60) % 2, "bounds"),
        (ConvexFactorClassifier(loss="poison"), np.arange(60) % 2, "mean 'poisson'"),
        (ConvexFactorClassifier(alpha="best"), np.arange(60) % 2, "alpha"),
        (ConvexFactorRegressor(), np.full(60, np.nan), "nothing to learn"),
        (AlternatingLabels(rank=0), np.arange(60) % 2, "rank"),
        (MatrixCompletionLabels(label_weight=-1.0), np.arange(60) % 2, "label_weight"),
        (SparseCodingLabels(n_components=0), np.arange(60) % 2, "n_components"),
        (SparseCodingLabels(alpha=0.0), np.arange(60) % 2, "alpha"),
        (SparseCodingLabels(), np.full(60, -1), "class"),
        (SparseCodingLabels(), np.arange(59) % 2, "inconsistent"),
    ],
)
def test_what_cannot_be_fitted_is_refused(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(rows()[0], y)


def test_generated_labels_follow_the_clean_inputs():
    X, y, partial, clean = make_low_rank_labels(400, 20, 4, noise=0.1, random_state=0)
    assert np.linalg.matrix_rank(clean) == 4
    assert np.var(X - clean) == pytest.approx(0.1, rel=0.1)
    assert (partial >= 0).sum() == 267 and np.array_equal(partial[partial >= 0], y[partial >= 0])
