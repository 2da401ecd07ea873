"""Baselines: each is the minimum that its docstring states, falls back to what it generalizes, and scales."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from regfactor.baselines import LaplacianRLS, LaplacianSVM, TransductiveRegression
from regfactor.comparisons import basis, deformed
from regfactor.comparisons.graphs import NeighborGraph, Power, conjugate_gradients
from regfactor.model_selection import compare_with_supervised

ESTIMATORS = [
    LaplacianRLS(),
    LaplacianRLS(task="classification"),
    LaplacianRLS(task="classification", unlabeled=float("nan")),
    LaplacianRLS(task="regression", fit_intercept=True),
    LaplacianSVM(),
    LaplacianSVM(unlabeled=float("nan")),
    LaplacianSVM(loss="squared_hinge", kernel="linear", unlabeled=float("nan")),
    TransductiveRegression(),
    TransductiveRegression(kernel="linear", fit_intercept=True, local="mean"),
]


def exempt(estimator):
    """In this check scikit-learn spares its own semi-supervised classifiers, by name, a class of -1."""
    marks = is_classifier(estimator) and estimator.unlabeled is None
    return (
        {"check_classifiers_classes": "its class -1 is the marker of unlabeled rows"}
        if marks
        else {}
    )


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exempt)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def rows(n=60, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def targets(X, labeled=15, seed=1):
    """Targets of the first rows; the others are missing."""
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.05 * np.random.default_rng(seed).normal(size=len(X))
    y[labeled:] = np.nan
    return y


def moons(n=200, each=2, seed=0):
    X, y = make_moons(n, noise=0.06, random_state=seed)
    seen = np.full(n, -1)
    for c in (0, 1):
        seen[np.flatnonzero(y == c)[:each]] = c
    return X, y, seen


def three_classes(n=90, seed=0):
    y = np.arange(n) % 3
    X = rows(n, 3, seed) + 3 * np.eye(3)[y]
    return X, y, np.where(np.arange(n) < 12, y, -1)


# --- graphs


def test_the_graph_joins_rows_of_which_one_is_near_the_other():
    X = rows()
    W = NeighborGraph(3).affinities(X).toarray()
    squares = ((X[:, None] - X) ** 2).sum(axis=2) + np.diag(np.full(len(X), np.inf))
    near = squares <= np.sort(squares, axis=1)[:, 2:3]
    np.testing.assert_array_equal(W, (near | near.T).astype(float))
    heat = NeighborGraph(3, gamma=0.7).affinities(X).toarray()
    np.testing.assert_allclose(heat[W > 0], np.exp(-0.7 * squares[W > 0]), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_laplacian_measures_variation_over_the_graph(dtype):
    X, f = rows().astype(dtype), rows(60, 1, 3)[:, 0]
    W = NeighborGraph(4, gamma="median").affinities(X).toarray()
    plain = NeighborGraph(4, "median", normalized=False).laplacian(X)
    assert f @ (plain @ f) == pytest.approx((W * (f[:, None] - f) ** 2).sum() / 2)
    scaled = f / np.sqrt(W.sum(axis=1))
    normalized = NeighborGraph(4, "median").laplacian(X)
    assert f @ (normalized @ f) == pytest.approx((W * (scaled[:, None] - scaled) ** 2).sum() / 2)
    np.testing.assert_allclose(
        Power(normalized, 3) @ f, np.linalg.matrix_power(normalized.toarray(), 3) @ f
    )


def test_equal_rows_and_few_rows_have_a_graph():
    assert NeighborGraph(5).affinities(np.zeros((3, 2))).toarray().sum() == 6
    assert NeighborGraph(5).laplacian(np.zeros((1, 2))).toarray() == 0


def test_a_gram_matrix_has_the_graph_of_its_rows():
    X = rows()
    np.testing.assert_array_equal(
        NeighborGraph(4).affinities_of_gram(X @ X.T).toarray(),
        NeighborGraph(4).affinities(X).toarray(),
    )


def test_conjugate_gradients_solve_all_columns():
    A, B = np.cov(rows(30, 12).T) + 0.1 * np.eye(12), rows(12, 3, 5)
    B[:, 1] = 0
    solved = conjugate_gradients(lambda C: A @ C, B, np.diag(A), 1e-12, 200)
    np.testing.assert_allclose(solved.X, np.linalg.solve(A, B), atol=1e-10)
    assert solved.residual <= 1e-12
    assert conjugate_gradients(lambda C: A @ C, B, np.diag(A), 1e-12, 2).residual > 1e-12


# --- least squares

KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.0},
    "callable": {"kernel": laplacian_kernel},
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@every_kernel
def test_without_the_graph_least_squares_is_kernel_ridge(kernel):
    X, y = rows(), targets(rows())
    model = LaplacianRLS(gamma_A=0.02, gamma_I=0, **kernel).fit(X, y)
    kernel = {"kernel": "laplacian"} if callable(kernel["kernel"]) else kernel
    ridge = KernelRidge(alpha=0.02 * 15, **kernel).fit(X[:15], y[:15])
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_least_squares_satisfies_the_printed_equations(intercept, average):
    X, y = rows(), targets(rows())
    model = LaplacianRLS(
        0.01,
        3.0,
        gamma=0.3,
        n_neighbors=5,
        laplacian_degree=2,
        fit_intercept=intercept,
        average=average,
    ).fit(X, y)
    K, L = rbf_kernel(X, gamma=0.3), NeighborGraph(5).laplacian(X).toarray()
    c = 3.0 / 60**2 if average else 3.0
    J = np.diag((np.arange(60) < 15).astype(float))
    b = model.intercept_
    a = np.linalg.solve(
        J @ K + 0.01 * 15 * np.eye(60) + c * 15 * L @ L @ K, J @ (np.nan_to_num(y) - b)
    )
    np.testing.assert_allclose(model.dual_coef_, a, atol=1e-8 * abs(a).max())
    f = K @ a + b
    assert (b != 0) == intercept
    if intercept:
        assert np.mean(y[:15] - f[:15]) == pytest.approx(0, abs=1e-10)
    value = np.mean((y[:15] - f[:15]) ** 2) + 0.01 * a @ K @ a + c * (K @ a) @ L @ L @ (K @ a)
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    np.testing.assert_array_equal(model.transduction_[:15], y[:15])
    np.testing.assert_allclose(model.transduction_[15:], f[15:], atol=1e-8)


def test_a_heavy_graph_leaves_what_does_not_vary_over_it():
    X, y = rows(), targets(rows())
    model = LaplacianRLS(1e-9, 1e9, gamma=0.3, normalized=False, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(model.predict(X), np.mean(y[:15]), atol=1e-3)
    apart = np.vstack([X, X + 100])  # each piece of the graph has its own constant
    both = np.concatenate([y, y + 5])
    model = LaplacianRLS(1e-9, 1e9, gamma=0.3, normalized=False).fit(apart, both)
    np.testing.assert_allclose(
        model.predict(apart), np.repeat([np.mean(y[:15]), np.mean(y[:15]) + 5], 60), atol=1e-2
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_all_ways_to_solve_agree(intercept, sparse, monkeypatch):
    X, y = rows(), targets(rows())
    X = scipy.sparse.csr_array(np.where(abs(X) < 0.5, 0, X)) if sparse else X
    model = LaplacianRLS(
        0.01, 5.0, "linear", laplacian_degree=2, fit_intercept=intercept, tol=1e-12
    )
    primal = clone(model).fit(X, y)
    iterative = clone(model).set_params(solver="cg").fit(X, y)
    monkeypatch.setattr("regfactor.comparisons.basis.MOST_FEATURES", 2)
    dual = clone(model).fit(X, y)
    for other in (iterative, dual):
        np.testing.assert_allclose(other.coef_, primal.coef_, rtol=1e-8)
        np.testing.assert_allclose(other.predict(X), primal.predict(X), rtol=1e-8, atol=1e-9)
        assert other.objective_ == pytest.approx(primal.objective_, rel=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        LaplacianRLS(1e-2, 5.0, gamma=0.3, task="classification"),
        LaplacianSVM(1e-2, 5.0, gamma=0.3),
        LaplacianSVM(1e-2, 5.0, gamma=0.3, loss="squared_hinge"),
    ],
)
def test_landmarks_at_all_rows_are_exact(model):
    X, _, seen = three_classes()
    exact = model.fit(X, seen).decision_function(X + 0.1)
    for settings in ({"landmarks": 90}, {"solver": "cg", "tol": 1e-11}):
        other = clone(model).set_params(random_state=0, **settings).fit(X, seen)
        np.testing.assert_allclose(other.decision_function(X + 0.1), exact, atol=2e-5)


def test_landmarks_come_near_with_a_part_of_the_rows():
    X, y = rows(300, 2), targets(rows(300, 2), 60)
    exact = LaplacianRLS(gamma=0.3).fit(X, y).predict(X)
    few = LaplacianRLS(gamma=0.3, landmarks=60, random_state=0).fit(X, y)
    assert few.dual_coef_.shape == (60,)
    np.testing.assert_allclose(few.predict(X), exact, atol=0.02)


def test_conjugate_gradients_that_end_early_say_so():
    X, y = rows(), targets(rows())
    with pytest.warns(ConvergenceWarning, match="raise max_iter or gamma_A"):
        LaplacianRLS(1e-6, 1.0, "linear", solver="cg", max_iter=2).fit(X, y)


@pytest.mark.parametrize(
    "model", [LaplacianRLS(gamma=0.3), LaplacianSVM(gamma=0.3), TransductiveRegression(gamma=0.3)]
)
@pytest.mark.parametrize("landmarks", ["auto", 40])
def test_a_precomputed_kernel_is_the_kernel(model, landmarks):
    X = rows()
    y = np.where(np.arange(60) < 15, X[:, 0] > 0, -1) if is_classifier(model) else targets(X)
    plain = clone(model).set_params(landmarks=landmarks, random_state=3).fit(X, y)
    given = clone(plain).set_params(kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    np.testing.assert_array_equal(given.transduction_.round(6), plain.transduction_.round(6))
    new = rows(7, 4, 9)
    np.testing.assert_allclose(
        given.predict(rbf_kernel(new, X, gamma=0.3)), plain.predict(new), atol=1e-6
    )


def test_targets_may_be_missing_one_by_one():
    X = rows()
    Y = np.column_stack([targets(X), targets(X, 20, 5), targets(X, 15, 7)])
    for model in (LaplacianRLS(fit_intercept=True), TransductiveRegression()):
        together = clone(model).fit(X, Y)
        apart = np.column_stack([clone(model).fit(X, y).transduction_ for y in Y.T])
        np.testing.assert_allclose(together.transduction_, apart, rtol=1e-9)
        assert together.predict(X[:5]).shape == (5, 3)


# --- support vector machines


def test_without_the_graph_the_svm_is_the_svm():
    X, _, seen = three_classes()
    X, seen = X[seen != 2], seen[seen != 2]
    L = np.flatnonzero(seen >= 0)
    model = LaplacianSVM(0.01, 0.0, gamma=0.3).fit(X, seen)
    svm = SVC(C=1 / (2 * 0.01 * len(L)), gamma=0.3, tol=1e-8).fit(X[L], seen[L])
    np.testing.assert_allclose(model.decision_function(X), svm.decision_function(X), atol=1e-5)
    for loss in ("hinge", "squared_hinge"):
        model = LaplacianSVM(0.01, 0.0, "linear", loss=loss, fit_intercept=False).fit(X, seen)
        settings = {"loss": loss, "C": 1 / (2 * 0.01 * len(L)), "fit_intercept": False, "tol": 1e-9}
        svm = LinearSVC(max_iter=1_000_000, random_state=0, **settings).fit(X[L], seen[L])
        np.testing.assert_allclose(model.decision_function(X), svm.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
def test_no_step_lowers_the_objective_of_the_svm(loss, intercept):
    X, y, seen = moons(80, each=6)
    model = LaplacianSVM(
        0.02, 4.0, gamma=2.0, n_neighbors=5, loss=loss, fit_intercept=intercept
    ).fit(X, seen)
    K, L = rbf_kernel(X, gamma=2.0), NeighborGraph(5).laplacian(X).toarray()
    labeled, side = seen >= 0, 2.0 * seen - 1

    def objective(a, b):
        h = K @ a
        slack = np.maximum(1 - side[labeled] * (h + b)[labeled], 0)
        fit = np.mean(slack**2 if loss == "squared_hinge" else slack)
        return fit + 0.02 * a @ h + 4.0 / 80**2 * h @ L @ h

    a, b = model.dual_coef_, float(model.intercept_)
    assert model.objective_ == pytest.approx(objective(a, b), rel=1e-7)
    random = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            step = size * abs(a).max() * random.normal(size=80)
            shift = size * random.normal() if intercept else 0.0
            assert objective(a + step, b + shift) >= model.objective_ - 1e-9
            assert not intercept or objective(a, b + shift) >= model.objective_ - 1e-9


def test_the_hinge_is_solved_exactly():
    """Against a quadratic program in all coefficients, by another solver."""
    import cvxpy as cp

    X, _, seen = moons(50, each=5, seed=3)
    model = LaplacianSVM(0.05, 2.0, gamma=1.0, n_neighbors=5).fit(X, seen)
    K, L = rbf_kernel(X, gamma=1.0), NeighborGraph(5).laplacian(X).toarray()
    values, vectors = np.linalg.eigh(K)
    F = vectors * np.sqrt(np.maximum(values, 0))
    P = 0.05 * np.eye(50) + 2.0 / 50**2 * F.T @ L @ F
    w, b, side = cp.Variable(50), cp.Variable(), 2.0 * seen[seen >= 0] - 1
    loss = cp.sum(cp.pos(1 - cp.multiply(side, F[seen >= 0] @ w + b))) / len(side)
    problem = cp.Problem(cp.Minimize(loss + cp.quad_form(w, cp.psd_wrap(P))))
    assert model.objective_ == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-5)


# --- what users meet


@pytest.mark.parametrize(
    "model",
    [
        LaplacianRLS(gamma_I=100.0, gamma=5.0),
        LaplacianSVM(gamma_I=100.0, gamma=5.0),
        LaplacianSVM(gamma_I=100.0, gamma=5.0, loss="squared_hinge"),
    ],
)
def test_two_labels_of_each_moon_suffice(model):
    accuracies = []
    for seed in range(5):
        X, y, seen = moons(seed=seed)
        fit = model.fit(X, seen)
        new, truth = make_moons(100, noise=0.06, random_state=100 + seed)
        accuracies.append([np.mean(fit.transduction_ == y), fit.score(new, truth)])
    assert np.mean(accuracies) > 0.97
    X, y, seen = moons()
    assert np.mean(clone(model).set_params(gamma_I=0).fit(X, seen).transduction_ == y) < 0.9


@pytest.mark.parametrize("model", [LaplacianRLS(), LaplacianSVM()])
def test_classes_are_named_and_unlabeled_rows_marked_as_users_do(model):
    X, y, seen = three_classes()
    plain = model.fit(X, seen)
    assert plain.decision_function(X).shape == (90, 3)
    assert np.mean(plain.transduction_ == y) > 0.9
    names = np.array(["ape", "bee", "cat"])
    assert plain.n_iter_ >= 1
    for marker in (None, "", np.nan):
        labels = [names[c] if c >= 0 else marker for c in seen]
        named = clone(model).fit(X, labels)
        np.testing.assert_array_equal(named.transduction_, names[plain.transduction_])
    shifted = clone(model).set_params(unlabeled=-9).fit(X, np.where(seen >= 0, seen - 1, -9))
    np.testing.assert_array_equal(shifted.transduction_, plain.transduction_ - 1)
    np.testing.assert_array_equal(plain.transduction_[:12], seen[:12])
    frame = pd.DataFrame(X, columns=list("abc"))
    np.testing.assert_array_equal(
        clone(model).fit(frame, pd.Series(seen)).predict(frame), plain.predict(X)
    )
    assert list(clone(model).fit(frame, seen).feature_names_in_) == list("abc")


def test_the_task_is_what_y_holds():
    X, _, seen = three_classes()
    assert hasattr(LaplacianRLS().fit(X, seen), "decision_function")
    regression = LaplacianRLS().fit(X, np.where(seen >= 0, seen + 0.5, np.nan))
    assert not hasattr(regression, "decision_function")
    with pytest.raises(ValueError, match="task='classification' or task='regression'"):
        LaplacianRLS().fit(X, np.where(seen >= 0, seen, np.nan))
    counts = LaplacianRLS(task="regression").fit(X, np.where(seen >= 0, seen, np.nan))
    assert not np.isin(counts.predict(X), [0, 1, 2]).any()
    assert is_regressor(counts)
    assert is_classifier(LaplacianRLS(task="classification"))
    residual = X[:, 0] - counts.predict(X)
    assert counts.score(X, X[:, 0]) == pytest.approx(1 - np.mean(residual**2) / np.var(X[:, 0]))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (LaplacianRLS(gamma_A=0), "'gamma_A' parameter"),
        (LaplacianRLS(gamma_I=-1), "'gamma_I' parameter"),
        (LaplacianRLS(laplacian_degree=0), "'laplacian_degree' parameter"),
        (LaplacianRLS(n_neighbors=0), "n_neighbors >= 1"),
        (LaplacianRLS(solver="cgs"), "Did you mean 'cg'"),
        (LaplacianRLS(task="regresion"), "Did you mean 'regression'"),
        (LaplacianRLS(landmarks="all"), "landmarks must be"),
        (LaplacianRLS(landmarks=0), "landmarks >= 1"),
        (LaplacianSVM(loss="logistic"), "Unknown loss"),
        (LaplacianSVM(kernel="precomputed"), "one column for each"),
        (TransductiveRegression(C=0), "'C' parameter"),
        (TransductiveRegression(local="median"), "Did you mean 'mean'"),
        (TransductiveRegression(radius=-1.0), "'radius' parameter"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_fitted(model, match):
    X = rows()
    y = np.where(np.arange(60) < 15, X[:, 0] > 0, -1) if is_classifier(model) else targets(X)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_what_cannot_be_solved_is_said_with_a_remedy(monkeypatch):
    X, y = 1e9 * rows(), targets(rows())
    with pytest.raises(ValueError, match="Scale the inputs, or raise gamma_A"):
        LaplacianRLS(1e-9, 1.0, "linear", average=False).fit(np.hstack([X, X]), y)
    monkeypatch.setattr(deformed, "MOST_ROWS", 10)
    with pytest.raises(ValueError, match="at most 10 labeled rows, got 12"):
        LaplacianSVM(kernel="linear", solver="cg").fit(
            rows(), np.where(np.arange(60) < 12, np.arange(60) % 2, -1)
        )


def test_rows_without_any_label_are_refused():
    X = rows()
    for model in (LaplacianRLS(task="regression"), TransductiveRegression()):
        with pytest.raises(ValueError, match="nothing to learn"):
            model.fit(X, np.full(60, np.nan))
    with pytest.raises(ValueError, match="at least two classes"):
        LaplacianSVM().fit(X, np.where(np.arange(60) < 3, 2, -1))


@pytest.mark.parametrize(
    "model",
    [LaplacianRLS(), LaplacianSVM(), TransductiveRegression(), LaplacianRLS(kernel="linear")],
)
def test_single_precision_stays_and_is_as_good(model):
    X = rows().astype(np.float32)
    y = (
        np.where(np.arange(60) < 15, X[:, 0] > 0, -1)
        if is_classifier(model)
        else targets(X).astype(np.float32)
    )
    single, double = clone(model).fit(X, y), clone(model).fit(X.astype(float), y)
    score = "decision_function" if is_classifier(model) else "predict"
    assert getattr(single, score)(X).dtype == np.float32
    np.testing.assert_allclose(getattr(single, score)(X), getattr(double, score)(X), atol=1e-3)
    if not is_classifier(model):
        assert single.transduction_.dtype == np.float32


def test_comparison_shows_that_unlabeled_rows_help():
    X, _, _ = moons(300)
    y = make_moons(300, noise=0.06, random_state=0)[1]
    y[40:] = -1
    result = compare_with_supervised(LaplacianSVM(1e-2, 1e3, gamma=1.0), X, y)
    assert result.mean > 0.05
    assert compare_with_supervised(LaplacianSVM(1e-2, 0.0, gamma=1.0), X, y).mean == 0


# --- transductive regression


def test_without_local_estimates_transduction_is_kernel_ridge():
    X, y = rows(), targets(rows())
    model = TransductiveRegression(C=20.0, C_unlabeled=0.0, gamma=0.3).fit(X, y)
    ridge = KernelRidge(kernel="rbf", gamma=0.3, alpha=15 / 20).fit(X[:15], y[:15])
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-9)
    far = TransductiveRegression(C=20.0, C_unlabeled=5.0, gamma=0.3, radius=1e-9).fit(X, y)
    np.testing.assert_allclose(far.predict(X), ridge.predict(X), rtol=1e-9)
    assert np.isnan(far.local_estimates_).all()


@pytest.mark.parametrize("local", ["ridge", "mean"])
def test_local_estimates_come_from_labeled_rows_within_reach(local):
    X, y = rows(), targets(rows())
    radius = 0.9
    model = TransductiveRegression(
        gamma=0.3, n_neighbors=None, radius=radius, local=local, alpha=0.2
    ).fit(X, y)
    K = rbf_kernel(X, gamma=0.3)
    for i in range(60):
        near = [j for j in range(15) if np.sqrt(2 - 2 * K[i, j]) <= radius]
        if i < 15 or not near:
            assert np.isnan(model.local_estimates_[i])
        elif local == "mean":
            assert model.local_estimates_[i] == pytest.approx(np.mean(y[near]))
        else:
            ridge = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.2).fit(X[near], y[near])
            assert model.local_estimates_[i] == pytest.approx(ridge.predict(X[[i]])[0])
    used = ~np.isnan(model.local_estimates_)
    assert 5 < used.sum() < 45
    both = np.where(used, model.local_estimates_, y)
    rows_ = ~np.isnan(both)
    weights = np.where(used, 10.0 / used.sum(), 100.0 / 15)[rows_]
    ridge = KernelRidge(kernel="rbf", gamma=0.3, alpha=1.0).fit(
        X[rows_], both[rows_], sample_weight=weights
    )
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_transduction_is_the_same_by_rows_by_features_and_by_gradients(
    intercept, sparse, monkeypatch
):
    X, y = rows(60, 6), targets(rows(60, 6))
    X = scipy.sparse.csr_array(np.where(abs(X) < 0.5, 0, X)) if sparse else X
    model = TransductiveRegression(kernel="linear", n_neighbors=7, fit_intercept=intercept)
    direct = clone(model).fit(X, y)
    monkeypatch.setattr("regfactor.comparisons.transductive.MOST_FEATURES", 2)
    gradients = clone(model).fit(X, y)
    monkeypatch.setattr("regfactor.comparisons.basis.MOST_FEATURES", 2)
    dual = clone(model).fit(X, y)
    for other in (gradients, dual):
        np.testing.assert_allclose(other.coef_, direct.coef_, rtol=1e-7)
        np.testing.assert_allclose(other.intercept_, direct.intercept_, atol=1e-8)
        np.testing.assert_allclose(other.local_estimates_, direct.local_estimates_, rtol=1e-7)


# --- scale


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "wide"),
    [
        (LaplacianRLS(kernel="linear", task="classification"), False),
        (LaplacianRLS(kernel="linear", task="classification"), True),
        (LaplacianRLS(task="classification", random_state=0), False),
        (LaplacianSVM(random_state=0), False),
        (LaplacianSVM(kernel="linear", gamma_A=0.1), True),
        (TransductiveRegression(random_state=0), False),
    ],
)
def test_twenty_thousand_rows_need_no_matrix_of_all_pairs(model, wide):
    """Its size would be 3.2 GB."""
    n = 20_000
    random = np.random.default_rng(0)
    if wide:  # texts of 20 words, 6 of them on average among the 30 of their topic
        truth = random.normal(size=n)
        topical = random.integers(30, size=(n, 20)) + 30 * (truth[:, None] > 0)
        words = np.where(random.random((n, 20)) < 0.3, topical, random.integers(60, 5000, (n, 20)))
        X = scipy.sparse.csr_array(
            (np.ones(words.size), (np.repeat(np.arange(n), 20), words.ravel())), (n, 5000)
        )
    else:
        X = random.normal(size=(n, 5))
        truth = X[:, 0] + 0.5 * X[:, 1]
    y = np.where(np.arange(n) < 200, truth > 0, -1).astype(int)
    y = np.where(np.arange(n) < 200, truth, np.nan) if is_regressor(model) else y
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e8
    predicted = fit.predict(X)
    good = (
        np.corrcoef(predicted, truth)[0, 1]
        if is_regressor(model)
        else np.mean(predicted == (truth > 0))
    )
    assert good > 0.9


@pytest.mark.slow
def test_at_scale_gradients_reach_the_direct_solution():
    X = rows(20_000, 40)
    y = targets(X, 500)
    direct = LaplacianRLS(kernel="linear").fit(X, y)
    gradients = LaplacianRLS(kernel="linear", solver="cg", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(gradients.coef_, direct.coef_, atol=1e-8 * abs(direct.coef_).max())
    assert basis.MOST_ROWS < 20_000
