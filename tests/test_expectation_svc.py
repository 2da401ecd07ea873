"""ExpectationSVC: scikit-learn's contract, its limits (SVMs), sparse = dense, reports, errors, and what it is for."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import FOLDS, rng
from regfactor import datasets
from regfactor.comparisons.least_squares_svm import LeastSquaresSVM
from regfactor.constraints import class_balance, expectation, labeled_feature, region
from regfactor.core.loop import Status
from regfactor.datasets import DatasetNotFound
from regfactor.kernels import Gaussian
from regfactor.labels.expectation.estimator import ExpectationSVC
from regfactor.labels.expectation.label_weight import WEIGHTS, labels_alone
from regfactor.losses import SmoothedHinge
from regfactor.model_selection import LabeledKFold

REGIONS = (
    lambda X: X[:, 1] > 0.6,
    lambda X: X[:, 1] < -0.1,
    lambda X: X[:, 0] < -0.5,
    lambda X: X[:, 0] > 1.5,
)


@parametrize_with_checks(
    [
        ExpectationSVC(unlabeled=float("nan")),
        ExpectationSVC(loss="logistic", match_balance=True, unlabeled=float("nan")),
        ExpectationSVC(kernel="rbf", gamma=0.1, unlabeled=float("nan")),
    ],
    expected_failed_checks=lambda estimator: FOLDS,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def groups(n=150, k=2, d=4, labels=3, seed=0, apart=3.0):
    """Rows in k groups, their classes, and the same with all but a few of each marked by -1."""
    random = rng(seed)
    y = np.arange(n) % k
    X = random.normal(size=(n, d)) + apart * np.eye(max(d, k))[y, :d]
    return X, y, np.where(np.arange(n) < labels * k, y, -1)


def normalized(X):
    """Rows as the estimator sees them: centered, of mean square one."""
    X = X - X.mean(axis=0)
    return X / np.sqrt(np.mean(np.square(X).sum(axis=1)))


# limits


@pytest.mark.parametrize("k", [2, 3])
def test_without_unlabeled_weight_it_is_linear_svc(k):
    X, y, seen = groups(k=k, apart=1.0, labels=20)
    mine = ExpectationSVC(C=0.7, C_unlabeled=0.0, tol=1e-8).fit(X, seen)
    Z, labeled = normalized(X), seen >= 0
    theirs = LinearSVC(C=0.7, intercept_scaling=1e4, tol=1e-12, max_iter=200_000).fit(
        Z[labeled], seen[labeled]
    )
    wanted = Z @ theirs.coef_.T + theirs.intercept_
    found = mine.decision_function(X)
    np.testing.assert_allclose(found, wanted[:, 0] if k == 2 else wanted, atol=2e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_with_a_hinge_it_is_svc(kernel):
    X, y, _ = groups(n=80, apart=1.0)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.2)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    K = K / np.trace(K) * len(K)
    theirs = SVC(C=1.5, kernel="precomputed", tol=1e-9).fit(K, y).decision_function(K)
    mine = ExpectationSVC(C=1.5, loss=SmoothedHinge(0.01), kernel=kernel, gamma=0.2, tol=1e-8).fit(
        X, y
    )
    np.testing.assert_allclose(mine.decision_function(X), theirs, atol=0.03)
    smoothed = (
        ExpectationSVC(C=1.5, loss="hinge", kernel=kernel, gamma=0.2).fit(X, y).decision_function(X)
    )
    np.testing.assert_allclose(smoothed, theirs, atol=0.2)


def test_scales_of_the_table_do_not_matter():
    X, _, seen = groups()
    a = ExpectationSVC().fit(X, seen).decision_function(X)
    b = ExpectationSVC().fit(1e3 * X - 50, seen).decision_function(1e3 * X - 50)
    np.testing.assert_allclose(a, b, atol=1e-5)


# the same by other means


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_sparse_is_dense(k, loss):
    X, _, seen = groups(k=k)
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    given = [class_balance({0: 1 / k}), labeled_feature(1, {1: 0.6})]
    dense = ExpectationSVC(given, loss=loss, tol=1e-9).fit(X, seen)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        sparse = ExpectationSVC(given, loss=loss, tol=1e-9).fit(kind(X), seen)
        np.testing.assert_array_equal(sparse.transduction_, dense.transduction_)
        np.testing.assert_allclose(
            sparse.decision_function(kind(X)), dense.decision_function(X), atol=2e-2
        )
        np.testing.assert_allclose(
            sparse.label_distributions_, dense.label_distributions_, atol=2e-2
        )


def test_three_ways_to_the_same_kernel():
    X, _, seen = groups(n=90)
    a = ExpectationSVC(kernel="rbf", gamma=0.1).fit(X, seen)
    b = ExpectationSVC(kernel=Gaussian(0.1)).fit(X, seen)
    K = rbf_kernel(X, gamma=0.1)
    c = ExpectationSVC(kernel="precomputed").fit(K, seen)
    d = ExpectationSVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1)).fit(X, seen)
    new = rng(9).normal(size=(7, 4))
    values = a.decision_function(new)
    np.testing.assert_allclose(b.decision_function(new), values, atol=1e-8)
    np.testing.assert_allclose(
        c.decision_function(rbf_kernel(new, X, gamma=0.1)), values, atol=1e-6
    )
    np.testing.assert_allclose(d.decision_function(new), values, atol=1e-6)
    np.testing.assert_array_equal(a.predict(X)[seen < 0], a.transduction_[seen < 0])


def test_a_linear_kernel_by_its_matrix_is_the_linear_path():
    X, _, seen = groups(n=90)
    a = ExpectationSVC(tol=1e-8).fit(X, seen)
    b = ExpectationSVC(kernel="precomputed", tol=1e-8).fit(X @ X.T, seen)
    np.testing.assert_allclose(b.decision_function(X @ X.T), a.decision_function(X), atol=1e-2)
    np.testing.assert_array_equal(a.transduction_, b.transduction_)


def test_landmarks_stand_for_all_rows():
    X, y, seen = groups(n=400, apart=4.0)
    exact = ExpectationSVC(kernel="rbf", gamma=0.05).fit(X, seen)
    few = ExpectationSVC(kernel="rbf", gamma=0.05, landmarks=60, random_state=0).fit(X, seen)
    assert few.dual_coef_.shape == (1, 60) and exact.dual_coef_.shape == (1, 400)
    assert np.mean(few.transduction_ == exact.transduction_) > 0.98
    again = ExpectationSVC(kernel="rbf", gamma=0.05, landmarks=60, random_state=0).fit(X, seen)
    np.testing.assert_array_equal(few.decision_function(X), again.decision_function(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_weight_stands_for_equal_rows(kernel, k):
    X, _, seen = groups(n=60, k=k)
    weights = rng(1).integers(0, 4, 60) + (seen >= 0)
    given = [class_balance(dict.fromkeys(range(k), 1 / k)), region(lambda t: t[:, 0] > 2, {0: 0.8})]
    model = ExpectationSVC(given, C=0.5, kernel=kernel, gamma=0.1, tol=1e-9)
    a = clone(model).fit(X, seen, weights)
    b = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(seen, weights))
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=2e-2)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-3)


def test_float32_stays_float32():
    X, _, seen = groups()
    model = ExpectationSVC().fit(X.astype(np.float32), seen)
    assert model.decision_function(X.astype(np.float32)).dtype == model.coef_.dtype == np.float32
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32


# what is fitted and told


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_values_are_those_of_the_coefficients(k, kernel):
    X, y, seen = groups(k=k)
    model = ExpectationSVC(kernel=kernel).fit(X, seen)
    values, P = model.decision_function(X), model.predict_proba(X)
    assert values.shape == ((150,) if k == 2 else (150, 3)) and P.shape == (150, k)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    if kernel == "linear":
        linear = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(linear[:, 0] if k == 2 else linear, values, atol=1e-9)
    assert np.mean(model.transduction_ == y) > 0.9
    np.testing.assert_array_equal(model.transduction_[seen >= 0], y[seen >= 0])
    np.testing.assert_array_equal(model.label_distributions_[seen >= 0], np.eye(k)[y[seen >= 0]])
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1)


def test_the_history_cools_down():
    X, _, seen = groups()
    model = ExpectationSVC().fit(X, seen)
    told = [record.info for record in model.history_]
    temperatures = [info["temperature"] for info in told]
    assert temperatures[0] == pytest.approx(3 * 0.05) and np.all(np.diff(temperatures) <= 0)
    assert told[0]["entropy"] > 0.5 and told[-1]["entropy"] < 0.02
    assert model.n_iter_ == len(told) and model.status_.converged and np.isfinite(model.objective_)
    cold = ExpectationSVC(annealing=False).fit(X, seen)
    assert len({record.info["temperature"] for record in cold.history_}) == 1
    with pytest.raises(AttributeError, match="no convex form"):
        model.gap_  # noqa: B018


def test_logistic_probabilities_are_the_sigmoid_at_the_temperature_of_held_out_labels():
    X, _, seen = groups()
    model = ExpectationSVC(loss="logistic", C_unlabeled=1.0).fit(X, seen)
    values = model.inverse_temperature_ * model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-values)))
    alone = ExpectationSVC(class_balance({0: 0.5, 1: 0.5}), loss="logistic", classes=[0, 1])
    assert alone.fit(X, np.where(np.arange(len(X)) < 1, 0, -1)).inverse_temperature_ == 1.0


def test_probabilities_are_as_often_right_as_they_say():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    gaps = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        seen = np.full(len(y), -1)
        seen[order[:40]] = y[order[:40]]
        P = ExpectationSVC().fit(X, seen).predict_proba(X[order[40:]])
        gaps.append(P.max(axis=1).mean() - np.mean(P.argmax(axis=1) == y[order[40:]]))
    assert np.abs(gaps).max() < 0.06


def test_calibration_takes_frames_names_and_a_class_minus_one():
    X, y, _ = groups()
    names = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    seen = np.zeros(len(y))
    seen[:12] = np.where(y[:12] == 0, -1, 1)
    model = ExpectationSVC(unlabeled=0).fit(names, seen)
    assert model.classes_.tolist() == [-1, 1]
    expected = model.predict_proba(names)
    names.iloc[:] = 0.0  # a copy was kept
    again = ExpectationSVC(unlabeled=0).fit(X, seen)
    np.testing.assert_allclose(again.predict_proba(X), expected)


def test_no_statement_means_the_balance_of_the_labels():
    X, _, seen = groups(k=3, labels=2)
    seen[6:9] = 0, 0, 1
    model = ExpectationSVC().fit(X, seen)
    (balance,) = model.constraints_
    assert (
        balance.targets == pytest.approx({0: 5 / 12, 1: 4 / 12, 2: 3 / 12})
        and balance.tolerance == 0.1
    )
    assert [line.label for line in model.constraint_report_] == [0, 1, 2]
    assert ExpectationSVC().fit(X, np.arange(150) % 3).constraints_ == ()


def test_a_report_tells_what_came_out():
    X, y, seen = groups(apart=5.0)
    free = seen < 0
    given = [
        class_balance({1: 0.5}),
        region(X[:, 0] > 2.5, {0: 0.9, 1: 0.1}, name="right"),
        labeled_feature(1, {1: 0.5}, 0.3),
    ]
    model = ExpectationSVC(given).fit(X, seen)
    report = model.constraint_report_
    assert [line.constraint for line in report] == ["all rows", "right", "right", "rows with 1"]
    for line, mask in zip(
        report, [free, free & (X[:, 0] > 2.5), free & (X[:, 0] > 2.5), free], strict=True
    ):
        assert line.n_rows == mask.sum()
        assert line.expected == pytest.approx(
            model.label_distributions_[mask, line.label].mean(), abs=1e-9
        )
        assert line.predicted == pytest.approx(np.mean(model.transduction_[mask] == line.label))
        assert line.violation == max(abs(line.expected - line.target) - line.tolerance, 0)
    assert (
        report.max_violation < 0.01 and "right" in str(report) and report.to_frame().shape == (4, 8)
    )


def test_what_cannot_hold_together_gives_a_compromise_and_is_told():
    X, _, seen = groups()
    given = [class_balance({1: 0.1}), class_balance({1: 0.9})]
    with pytest.warns(UserWarning, match="2 of 2 stated expectations do not hold"):
        model = ExpectationSVC(given).fit(X, seen)
    assert np.isfinite(model.decision_function(X)).all() and np.isfinite(model.objective_)
    assert [line.expected for line in model.constraint_report_] == pytest.approx(
        [0.5, 0.5], abs=0.02
    )
    assert model.constraint_report_.max_violation == pytest.approx(0.38, abs=0.02)


@pytest.mark.parametrize(
    ("k", "shares"), [(2, [0.8, 0.2]), (3, [0.5, 0.3, 0.2]), (3, [0.05, 0.05, 0.9])]
)
def test_predictions_match_a_balance_if_asked(k, shares):
    X, _, seen = groups(k=k, apart=1.0)
    given = class_balance(dict(enumerate(shares)))
    model = ExpectationSVC(given, match_balance=True).fit(X, seen)
    free = seen < 0
    counts = np.bincount(model.transduction_[free], minlength=k)
    np.testing.assert_allclose(counts, np.array(shares) * free.sum(), atol=1.5)
    np.testing.assert_array_equal(model.predict(X)[free], model.transduction_[free])


def test_an_expectation_with_numbers_is_met():
    X, y, seen = groups(apart=4.0)
    free, income = seen < 0, np.abs(rng(3).normal(size=150)) * 1e5
    target = float(np.mean(income[free] * (y[free] == 1)))
    model = ExpectationSVC([expectation(income, target, 0.01 * target, 1)]).fit(X, seen)
    (line,) = model.constraint_report_
    assert line.violation < 1e-3 * target and np.mean(model.transduction_ == y) > 0.95


def test_columns_are_named_by_a_frame():
    X, y, seen = groups(apart=4.0)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(
        flag=(y == 1) & (np.arange(150) % 3 == 0)
    )
    given = [labeled_feature("flag", {1: 1.0}), region(lambda t: t["a"] > 3, {0: 1.0})]
    model = ExpectationSVC(given).fit(frame.astype(float), np.full(150, -1))
    assert np.mean(model.transduction_ == y) > 0.95
    with pytest.raises(ValueError, match="Did you mean 'flag'"):
        ExpectationSVC([labeled_feature("flags", {1: 1.0})]).fit(frame.astype(float), seen)


def test_strings_and_classes_without_a_label():
    X, y, _ = groups(k=3, apart=5.0)
    names = np.array(["ape", "bee", "cat"], object)
    seen = np.where(np.arange(150) < 2, names[y], None)  # no cat among the labels
    model = ExpectationSVC([class_balance({"ape": 1 / 3, "bee": 1 / 3, "cat": 1 / 3})]).fit(X, seen)
    assert model.classes_.tolist() == ["ape", "bee", "cat"]
    assert np.mean(model.transduction_ == names[y]) > 0.95


def test_it_is_tuned_like_any_other():
    X, _, seen = groups(labels=6)
    search = GridSearchCV(
        ExpectationSVC(), {"C_unlabeled": [0.01, 0.1], "loss": ["logistic"]}, cv=LabeledKFold(3)
    )
    assert search.fit(X, seen).best_params_["C_unlabeled"] in (0.01, 0.1)


# errors before any work


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"C": None, "C_unlabeled": 0.0}, "C must be"),
        ({"C_unlabeled": -1.0}, "'C_unlabeled' parameter"),
        ({"C_unlabeled": "much"}, "'C_unlabeled' parameter"),
        ({"penalty": np.inf}, "'penalty' parameter"),
        ({"loss": "poisson"}, "no loss of margins"),
        ({"kernel": "rfb"}, "Did you mean 'rbf'"),
        ({"kernel": "rbf", "landmarks": 0}, "'landmarks' parameter"),
        ({"match_balance": "yes"}, "'match_balance' parameter .* must be"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"constraints": {0: 0.5}}, "list of constraints"),
        ({"constraints": [{0: 0.5}]}, "make constraints by"),
        ({"constraints": class_balance({2: 0.5}), "classes": [0, 1]}, r"names \[2\]"),
        ({"constraints": class_balance({0: 0.5, 1: 0.3})}, "sum to 0.8"),
        ({"constraints": class_balance({"a": 0.5})}, "mix strings and numbers"),
        (
            {"constraints": region([True, False], {0: 0.5})},
            "one truth value for each of the 150 rows",
        ),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(parameters, message):
    X, _, seen = groups()
    with pytest.raises(ValueError, match=message):
        ExpectationSVC(**parameters).fit(X, seen)


@pytest.mark.parametrize(
    ("constraints", "classes", "message"),
    [
        ((), None, "no class is named"),
        ((), [0, 1], r"Classes \[0, 1\] have no labeled row"),
        (class_balance({0: 0.3, 1: 0.7}), None, "are the same for every row"),
        (region(lambda X: X[:, 0] > 1, {0: 0.52, 1: 0.48}), None, "are the same for every row"),
        (
            [class_balance({0: 0.2, 1: 0.3, 2: 0.5}), region(lambda X: X[:, 0] > 1, {0: 0.9})],
            None,
            r"classes \[1, 2\]",
        ),
    ],
)
def test_without_labels_something_must_tell_the_classes_apart(constraints, classes, message):
    X, _, _ = groups()
    with pytest.raises(ValueError, match=message):
        ExpectationSVC(constraints, classes=classes).fit(X, np.full(150, -1))


def test_a_class_without_a_label_is_what_remains_where_the_others_are_stated():
    X, y, _ = groups(k=3, apart=5.0)
    seen = np.where((np.arange(150) < 40) & (y < 2), y, -1)
    shares = np.bincount(y, minlength=3) / 150
    near = region(X[:, 2] > 2.5, {2: 0.95})
    named = class_balance({0: shares[0], 1: shares[1]})
    both = class_balance(dict(enumerate(shares.tolist())))
    for constraints in (named, [near], [both, near]):
        model = ExpectationSVC(constraints, classes=[0, 1, 2]).fit(X, seen)
        assert np.mean(model.transduction_ == y) > 0.9, constraints
    with pytest.raises(ValueError, match=r"Classes \[2\].*do not name them: label a row of each"):
        ExpectationSVC(class_balance({0: shares[0]}), classes=[0, 1, 2]).fit(X, seen)


def test_limits_end_a_run_with_a_warning():
    X, _, seen = groups()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert ExpectationSVC(max_iter=3).fit(X, seen).n_iter_ == 3
    stopped = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        ExpectationSVC(
            callback=lambda it: stopped.append(it.info["temperature"]) or len(stopped) == 2
        ).fit(X, seen)
    assert len(stopped) == 2


def test_the_time_limit_includes_the_kernel(monkeypatch):
    X, _, seen = groups()
    original = Gaussian.gram

    def slow(kernel, *tables):
        time.sleep(0.5)
        return original(kernel, *tables)

    monkeypatch.setattr(Gaussian, "gram", slow)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = ExpectationSVC(kernel=Gaussian(0.1), time_limit=0.5).fit(X, seen)
    assert model.n_iter_ == 1 and model.status_ is Status.TIME_LIMIT


def test_parameters_are_checked_once(monkeypatch):
    X, _, seen = groups()
    checked = []
    for name in ("regfactor.fitting.base.check_parameters", "regfactor.core.loop.Limits.check"):
        monkeypatch.setattr(name, checked.append)
    assert checked == [ExpectationSVC().fit(X, seen)]


# what it is for


def moons(seed, labels):
    X, y = make_moons(200, noise=0.1, random_state=seed)
    seen = np.full(200, -1)
    if labels:
        for c in (0, 1):
            seen[rng(seed).choice(np.flatnonzero(y == c))] = c
    free = seen < 0
    shares = [float(y[part(X) & free].mean()) for part in REGIONS]
    given = [region(part, {0: 1 - r, 1: r}) for part, r in zip(REGIONS, shares, strict=True)]
    model = ExpectationSVC(given, kernel="rbf").fit(X, seen)
    return np.mean(model.transduction_[free] == y[free])


@pytest.mark.parametrize(("labels", "least"), [(True, 0.97), (False, 0.98)])
def test_two_moons_from_four_statements(labels, least):
    assert np.mean([moons(seed, labels) for seed in range(200, 212)]) >= least


@pytest.mark.slow
@pytest.mark.parametrize("labels", [10, 100])
def test_g241c_from_a_balance(labels):
    try:
        table, splits = datasets.load("ssl_g241c"), datasets.load_splits("ssl_g241c", labels)
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    errors = []
    for split in splits:
        seen = np.full(len(table.target), np.nan)
        seen[split.labeled] = table.target[split.labeled]
        low, high = np.unique(table.target)
        model = ExpectationSVC(class_balance({low: 0.5, high: 0.5}), unlabeled=np.nan).fit(
            table.data, seen
        )
        errors.append(
            np.mean(model.transduction_[split.unlabeled] != table.target[split.unlabeled])
        )
    assert len(errors) == 12 and np.mean(errors) <= 0.145


# --- the weight of labels ---------------------------------------------------------------------------------------------


def test_labels_alone_are_judged_by_exact_leave_one_out():
    """By machines that are fitted again without each label."""
    random = np.random.default_rng(0)
    X = random.normal(size=(24, 5))
    codes = np.digitize(X[:, 0] + random.normal(size=24), [-0.5, 0.5])
    right = {}
    for C in WEIGHTS:
        found = []
        for i in range(24):
            kept = np.arange(24) != i
            values = []
            for c in range(3):
                y = np.where(codes[kept] == c, 1.0, -1.0)
                machine = LeastSquaresSVM(1 / (2 * C), kernel="linear").fit(X[kept], y)
                values.append(machine.predict(X[i : i + 1])[0])
            found.append(int(np.argmax(values)))
        right[C] = np.array(found) == codes
    best = max(WEIGHTS, key=lambda C: (right[C].sum(), C))
    for table in (X, scipy.sparse.csr_array(X + 3)):
        alone = labels_alone(table, codes, np.ones(24), 3)
        assert best == alone.C
        np.testing.assert_array_equal(alone.right, right[best])


def two_gaussians(seed, n=2000, d=50, apart=3.0):
    """Two Gaussians of which ten rows each have a label: rows without say where the gap is."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = random.normal(size=(n, d))
    X[:, 0] += apart * y
    return X, y, np.where(np.arange(n) < 20, y, -1)


def nuisance(seed, n=600, labels=100):
    """Rows that vary most where the classes do not differ: labels say where the gap is."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)) * [5.0, 4.0, 1.0, 1.0, 1.0, 1.0]
    y = (X[:, 2] + X[:, 3] > 0).astype(int)
    return X, y, np.where(np.arange(n) < labels, y, -1)


def mean_error(draw, C):
    errors = []
    for seed in range(4):
        X, y, seen = draw(seed)
        free = seen < 0
        model = ExpectationSVC(C=C).fit(X, seen)
        errors.append(np.mean(model.transduction_[free] != y[free]))
    return np.mean(errors)


def test_few_labels_do_not_outvote_rows_that_show_the_classes():
    found = mean_error(two_gaussians, "auto")
    assert found <= mean_error(two_gaussians, None) + 0.01
    assert found < mean_error(two_gaussians, 30.0) - 0.01


def test_rows_do_not_outvote_labels_that_contradict_them():
    found = mean_error(nuisance, "auto")
    assert found < mean_error(nuisance, 1.0)
    assert found < mean_error(nuisance, None) / 3


def test_held_out_fits_for_the_weight_of_labels_are_not_reported():
    X, _, seen = two_gaussians(0, n=200)
    called = []
    model = ExpectationSVC(callback=called.append).fit(X, seen)
    assert len(called) == len(model.history_)


def test_labels_of_which_none_can_be_held_out_have_weight_one():
    X, _, seen = two_gaussians(0, n=200)
    seen[2:] = -1
    auto = ExpectationSVC().fit(X, seen)
    one = ExpectationSVC(C=1.0).fit(X, seen)
    np.testing.assert_array_equal(auto.coef_, one.coef_)


def test_many_labels_are_followed_by_default():
    """All rows counting alike, a hundred clean labels are outvoted by the rows without."""
    errors = {"auto": [], None: []}
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = random.normal(size=(400, 6)) * [5.0, 4.0, 1.0, 1.0, 1.0, 1.0]
        y = np.digitize(X[:, 2] + X[:, 3], [-0.8, 0.8])
        seen = np.where(np.arange(400) < 100, y, -1)
        for C, found in errors.items():
            model = ExpectationSVC(C=C).fit(X, seen)
            found.append(np.mean(model.transduction_[100:] != y[100:]))
    assert np.mean(errors["auto"]) < np.mean(errors[None])


def test_without_labels_the_weight_of_labels_does_not_matter():
    random = np.random.default_rng(1)
    X = random.normal(size=(60, 2)) + 2 * (np.arange(60) % 2)[:, None]
    stated = class_balance({0: 0.5, 1: 0.5})
    where = region(lambda X: X[:, 0] > 2, {1: 1.0})
    none = np.full(60, -1)
    one = ExpectationSVC([stated, where]).fit(X, none).decision_function(X)
    two = ExpectationSVC([stated, where], C=None).fit(X, none).decision_function(X)
    np.testing.assert_allclose(one, two)


def test_labels_do_not_outweigh_statements_of_the_user():
    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0], 40)
    X = np.column_stack([side, side]) + rng.normal(size=(80, 2))
    y = np.where(rng.random(80) < 0.5, side, np.nan)
    statement = class_balance({1.0: 0.05}, tolerance=0.01)
    options = {"unlabeled": np.nan}
    stated = ExpectationSVC([statement], **options).fit(X, y)
    alike = ExpectationSVC([statement], C=None, **options).fit(X, y)
    np.testing.assert_array_equal(stated.transduction_, alike.transduction_)
    free = np.isnan(y)
    assert np.mean(stated.transduction_[free] == 1) < 0.2
    unstated = ExpectationSVC(**options).fit(X, y)
    assert np.mean(unstated.transduction_[free] == 1) > 0.3
