"""Baselines of semi-supervised regression: forms on surfaces against their oracles, and scale."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from regfactor.comparisons import graph_solvers
from regfactor.comparisons.graph_regression import LaplacianRegression
from regfactor.comparisons.graph_solvers import (
    STRONG,
    WEAK,
    conjugate_gradients,
    preconditioner,
    solve_definite,
)
from regfactor.comparisons.graphs import NeighborGraph
from regfactor.comparisons.hessian import HessianRegression, hessian_rows
from regfactor.comparisons.latent_reconstruction import LinearLatentReconstruction
from regfactor.comparisons.least_squares_svm import LeastSquaresSVM
from regfactor.comparisons.parallel_field import ParallelFieldRegression, field_rows
from regfactor.comparisons.tangents import Tangents
from regfactor.kernels import widths
from regfactor.labels.latent.estimator import SNFRegressor

GRAPHS = [LaplacianRegression(), HessianRegression(), ParallelFieldRegression()]
ESTIMATORS = [
    *GRAPHS,
    LeastSquaresSVM(),
    LeastSquaresSVM(kernel="linear"),
    LinearLatentReconstruction(),
]
ROUNDING = {
    f"check_sample_weight_equivalence_on_{kind}_data": "free latent rows of a weighted row descend as one, not as many"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    ESTIMATORS,
    expected_failed_checks=lambda e: ROUNDING if isinstance(e, LinearLatentReconstruction) else {},
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def flat(n=200, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))


def roll(n, seed=0):
    """Return rows on a rolled sheet in three dimensions, with a target that is linear on the sheet."""
    U = np.random.default_rng(seed).uniform(size=(n, 2))
    t = 1.5 * np.pi * (1 + 2 * U[:, 0])
    length = t**2 / 200  # along the roll, up to a factor that is nearly constant
    return np.column_stack([t * np.cos(t), 20 * U[:, 1], t * np.sin(t)]) / 10, length + U[:, 1]


def rotation(d, m, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, m)))[0]


# Hessian energy


def energy(X, f, k=12):
    H = hessian_rows(X, Tangents.of(X, k, 2))
    return float(np.square(H @ f).sum())


def test_the_hessian_of_what_is_linear_is_zero_and_nothing_else_is():
    X = flat()
    H = hessian_rows(X, Tangents.of(X, 12, 2))
    assert energy(X, X @ [2.0, -1.0] + 3) < 1e-9
    values = np.linalg.eigvalsh((H.T @ H).toarray())
    assert (values < 1e-9 * values[-1]).sum() == 3 and values[3] > 1e-8 * values[-1]


@pytest.mark.parametrize(
    "Q", [[[1.0, 0.5], [0.5, -0.7]], [[0.0, 1.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0]]]
)
def test_the_hessian_energy_of_a_quadratic_is_that_of_its_matrix(Q):
    X, Q = flat(), np.array(Q)
    f = np.einsum("nr,rs,ns->n", X, Q, X)
    assert energy(X, f) == pytest.approx(len(X) * np.square(Q + Q.T).sum(), rel=1e-8)


def test_the_hessian_energy_does_not_see_how_the_surface_lies():
    X, f = flat(), np.random.default_rng(1).normal(size=200)
    assert energy(X @ rotation(7, 2).T + 5, f) == pytest.approx(energy(X, f), rel=1e-8)


def test_too_few_neighbors_lower_the_dimension():
    X = np.random.default_rng(0).normal(size=(50, 4))
    y = np.where(np.arange(50) < 20, X[:, 0], np.nan)
    assert HessianRegression(n_neighbors=6, dimension=4).fit(X, y).dimension_ == 2
    assert HessianRegression(n_neighbors=20, dimension=4).fit(X, y).dimension_ == 4
    assert HessianRegression(n_neighbors=20, dimension=9).fit(X, y).dimension_ == 4


# parallel fields


def test_a_linear_function_and_its_gradient_cost_nothing():
    X, slope = flat() @ rotation(5, 2).T, np.array([2.0, -1.0])
    tangents = Tangents.of(X, 8, 2)
    R1, R2 = field_rows(X, tangents)
    w = rotation(5, 2) @ slope
    g = np.concatenate([X @ w, (tangents.frames.transpose(0, 2, 1) @ w).ravel()])
    assert np.abs(R1 @ g).max() < 1e-9 and np.abs(R2 @ g).max() < 1e-9
    assert R1.shape == (1600, 600) and R2.shape == (3200, 600)


def test_the_two_sums_are_those_of_the_docstring():
    X, rng = np.random.default_rng(0).normal(size=(12, 3)), np.random.default_rng(1)
    tangents = Tangents.of(X, 4, 2)
    f, v, T = rng.normal(size=12), rng.normal(size=(12, 2)), tangents.frames
    R1, R2 = field_rows(X, tangents)
    one = two = 0.0
    for i in range(12):
        for j in tangents.places[i]:
            one += (f[j] - f[i] - (X[j] - X[i]) @ T[i] @ v[i]) ** 2
            two += np.square(T[i].T @ T[j] @ v[j] - v[i]).sum()
    g = np.concatenate([f, v.ravel()])
    assert np.square(R1 @ g).sum() == pytest.approx(one) and np.square(
        R2 @ g
    ).sum() == pytest.approx(two)


def test_frames_are_the_leading_directions_of_a_neighborhood():
    for d in (3, 30):  # more and fewer directions than neighbors
        X = flat() @ rotation(d, 2).T + 1e-4 * np.random.default_rng(0).normal(size=(200, d))
        frames = Tangents.of(X, 10, 2).frames
        np.testing.assert_allclose(
            frames.transpose(0, 2, 1) @ frames, np.tile(np.eye(2), (200, 1, 1)), atol=1e-10
        )
        assert np.linalg.norm(rotation(d, 2).T @ frames, axis=(1, 2)).min() > 1.41


# the regressions


def test_an_affine_target_is_found_from_three_labels_but_not_by_the_laplacian():
    X = 3 * flat()
    y = X @ [1.0, -2.0] + 0.5
    seen = np.full(200, np.nan)
    corners = [np.argmin(X.sum(axis=1)), np.argmax(X[:, 0] - X[:, 1]), np.argmax(X[:, 1] - X[:, 0])]
    seen[corners] = y[corners]
    worst = {
        type(m).__name__: np.abs(clone(m).fit(X, seen).transduction_ - y).max() for m in GRAPHS
    }
    assert worst["HessianRegression"] < 0.05 and worst["ParallelFieldRegression"] < 0.1
    assert worst["LaplacianRegression"] > 1


@pytest.mark.parametrize("model", GRAPHS, ids=str)
def test_the_system_is_the_one_of_the_docstring(model):
    X, y = roll(60)
    seen = np.where(np.arange(60) < 15, y, np.nan)
    fit = clone(model).set_params(tol=1e-12).fit(X, seen)
    Q = fit._form(X).toarray()
    S = np.zeros(len(Q))
    S[:15] = 1
    g = np.linalg.solve(
        Q + np.diag(S) + 1e-13 * np.eye(len(Q)),
        np.append(y[:15] - y[:15].mean(), np.zeros(len(Q) - 15)),
    )
    np.testing.assert_allclose(fit.transduction_[15:], g[15:60] + y[:15].mean(), atol=1e-5)
    np.testing.assert_array_equal(fit.transduction_[:15], y[:15])


@pytest.mark.parametrize(
    "model", [HessianRegression(1e-5), ParallelFieldRegression(10.0, 0.1)], ids=str
)
def test_new_rows_follow_the_surface(model):
    X, y = roll(800)
    seen = np.where(np.arange(800) < 60, y, np.nan)
    fit = clone(model).fit(X[:700], seen[:700])
    assert r2_score(y[60:700], fit.transduction_[60:]) > 0.9
    assert r2_score(y[700:], fit.predict(X[700:])) > 0.9
    np.testing.assert_allclose(fit.predict(X[60:70]), fit.transduction_[60:70], atol=1e-8)


def test_several_targets_with_single_ones_missing():
    X, y = roll(100)
    Y = np.column_stack([y, -y, y**2])
    Y[20:] = np.nan
    Y[3, 1] = np.nan
    for model in [*GRAPHS, LeastSquaresSVM(gamma=0.5), LeastSquaresSVM(kernel="linear")]:
        fit = clone(model).fit(X, Y)
        assert (
            fit.transduction_.shape == fit.predict(X).shape == (100, 3)
            and np.isfinite(fit.transduction_).all()
        )
        alone = clone(model).fit(X, Y[:, 1])
        np.testing.assert_allclose(fit.transduction_[:, 1], alone.transduction_, atol=1e-6)


# sparse systems


def test_conjugate_gradients_solve_what_a_dense_factorization_solves():
    X, _ = roll(300)
    L = NeighborGraph(8).laplacian(X)
    A = scipy.sparse.csr_array(
        L @ L + scipy.sparse.diags_array(np.where(np.arange(300) < 9, 1.0, 1e-6))
    )
    B = np.random.default_rng(0).normal(size=(300, 3))
    solved = conjugate_gradients(A, B, 1e-10, 5000)
    np.testing.assert_allclose(
        solved.X, np.linalg.solve(A.toarray(), B), rtol=1e-3, atol=1e-6 * np.abs(solved.X).max()
    )
    assert solved.residual <= 1e-10
    stopped = conjugate_gradients(A, B, 1e-10, 1)
    assert stopped.n_iter == 1 and stopped.residual > 1e-10


def test_a_factorization_that_breaks_down_leaves_the_diagonal(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("Factor is exactly singular")

    A = scipy.sparse.csr_array(np.diag([1.0, 2.0, 4.0]))
    assert preconditioner(A, *WEAK)(np.ones((3, 1)))[2, 0] == pytest.approx(0.25)
    monkeypatch.setattr("regfactor.comparisons.graph_solvers.spilu", broken)
    np.testing.assert_allclose(preconditioner(A, *STRONG)(np.ones((3, 1)))[:, 0], [1, 0.5, 0.25])


def test_small_systems_are_solved_directly_unless_they_break_down():
    A = scipy.sparse.csr_array(np.diag([1.0, 2.0, 4.0]) + 0.1)
    found = solve_definite(A, np.ones((3, 1)), 1e-12, 50)
    assert found.n_iter == 1 and found.residual <= 1e-12
    np.testing.assert_allclose(A @ found.X, 1.0)
    flat = scipy.sparse.csr_array(
        np.diag([1.0, 2.0, 0.0])
    )  # semidefinite: steps find what there is to find
    with np.errstate(all="ignore"):
        assert solve_definite(flat, np.array([[1.0], [1.0], [0.0]]), 1e-12, 50).n_iter > 1


def test_conjugate_gradients_that_do_not_end_are_reported(monkeypatch):
    monkeypatch.setattr(graph_solvers, "MAX_DENSE_UNKNOWNS", 0)
    monkeypatch.setattr(graph_solvers, "LAST_RESORT", 0)
    X, y = roll(400)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        HessianRegression(max_iter=1).fit(X, np.where(np.arange(400) < 20, y, np.nan))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [LaplacianRegression(1e-2), HessianRegression(1e-5), ParallelFieldRegression()],
    ids=str,
)
def test_many_rows_need_no_square_matrix(model):
    X, y = roll(20_000)
    tracemalloc.start()
    fit = clone(model).fit(X, np.where(np.arange(20_000) < 200, y, np.nan))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit.residual_ <= 1e-8 and peak < 0.2 * 8 * 20_000**2
    assert r2_score(y[200:], fit.transduction_[200:]) > 0.9


# least squares support vector machines


def test_the_machine_is_its_bordered_system():
    X, rng = np.random.default_rng(0).normal(size=(30, 3)), np.random.default_rng(1)
    y = np.where(np.arange(30) < 12, X[:, 0] + rng.normal(size=30), np.nan)
    model = LeastSquaresSVM(0.3, gamma=0.5).fit(X, y)
    K = rbf_kernel(X[:12], gamma=0.5)
    system = np.block(
        [[np.zeros((1, 1)), np.ones((1, 12))], [np.ones((12, 1)), K + 0.3 * np.eye(12)]]
    )
    b, *a = np.linalg.solve(system, np.append(0, y[:12]))
    np.testing.assert_allclose(
        model.predict(X), rbf_kernel(X, X[:12], gamma=0.5) @ a + b, atol=1e-10
    )
    np.testing.assert_allclose(model.dual_coef_.sum(), 0, atol=1e-10)
    residual = y[:12] - model.predict(X[:12])
    assert model.objective_ == pytest.approx(residual @ residual + 0.3 * np.dot(a, K @ a))


def test_a_linear_machine_is_ridge_regression_on_the_labels():
    for d in (3, 40):
        X = np.random.default_rng(0).normal(size=(30, d))
        y = np.where(np.arange(30) < 12, X[:, 0] + 2, np.nan)
        model = LeastSquaresSVM(0.7, "linear").fit(X, y)
        ridge = Ridge(0.7).fit(X[:12], y[:12])
        np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-10)
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-10)
        sparse = LeastSquaresSVM(0.7, "linear").fit(scipy.sparse.csr_array(X), y)
        np.testing.assert_allclose(sparse.predict(X), ridge.predict(X), atol=1e-10)


def test_a_precomputed_kernel_gives_the_same():
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.where(np.arange(30) % 2 == 0, X[:, 0], np.nan)
    one = LeastSquaresSVM(0.3, gamma=0.5).fit(X, y)
    two = LeastSquaresSVM(0.3, "precomputed").fit(rbf_kernel(X, gamma=0.5), y)
    np.testing.assert_allclose(one.transduction_, two.transduction_, atol=1e-10)
    np.testing.assert_allclose(
        one.predict(X[:4]), two.predict(rbf_kernel(X[:4], X, gamma=0.5)), atol=1e-10
    )


def test_centered_kernel_ridge_is_the_machine_of_centered_features():
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = X[:, 0] + 5
    model = LeastSquaresSVM(0.4, "linear").fit(X, y)
    ridge = KernelRidge(alpha=0.4).fit(X - X.mean(axis=0), y - y.mean())
    np.testing.assert_allclose(
        model.predict(X), ridge.predict(X - X.mean(axis=0)) + y.mean(), atol=1e-10
    )


@pytest.mark.parametrize(
    "y", [np.zeros(39), np.full(40, np.inf), np.full(40, np.nan)], ids=["short", "inf", "empty"]
)
def test_a_machine_whose_fit_fails_stays_as_it_was(y):
    X = flat(40)
    new, old = LeastSquaresSVM(), LeastSquaresSVM().fit(X, X[:, 0])
    before = old.predict(X)
    for model in (new, old):
        with pytest.raises(ValueError):
            model.fit(X[:, :1], y)
    with pytest.raises(NotFittedError):
        new.predict(X)
    np.testing.assert_array_equal(old.predict(X), before)


def test_linear_latent_reconstruction_is_degree_one():
    X, y = roll(60)
    seen = np.where(np.arange(60) < 15, y, np.nan)
    one = LinearLatentReconstruction(0.5, lambda_x=0.2, target_weight=3.0).fit(X, seen)
    two = SNFRegressor(0.5, back_constraint=None, lambda_x=0.2, target_weight=3.0).fit(X, seen)
    np.testing.assert_array_equal(one.transduction_, two.transduction_)
    assert "kernel" not in one.get_params()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LeastSquaresSVM(0.0), "'ridge' parameter"),
        (LaplacianRegression(-1.0), "'penalty' parameter"),
        (HessianRegression(dimension=0), "dimension must be"),
        (HessianRegression(penalty=0.0), "'penalty' parameter"),
        (ParallelFieldRegression(dimension=1.5), "dimension must be"),
        (ParallelFieldRegression(field_penalty=0.0), "'field_penalty' parameter"),
        (ParallelFieldRegression(n_neighbors=0), "'n_neighbors' parameter"),
        (HessianRegression(tol=0.0), "'tol' parameter"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(model, message):
    X, y = roll(30)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_targets_that_say_nothing_are_refused():
    X, _ = roll(30)
    for model in ESTIMATORS:
        with pytest.raises(ValueError, match="nothing to learn"):
            clone(model).fit(X, np.full(30, np.nan))


# --- units, flat directions, copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "unit"), [(400, 0.1), (400, 1.0), (400, 1e3), (400, 1e5), (2000, 1.0), (2000, 1e5)]
)
@pytest.mark.parametrize("method", [HessianRegression, ParallelFieldRegression])
def test_an_affine_target_is_found_from_three_labels_in_any_unit(method, unit, n):
    X = np.random.default_rng(0).uniform(size=(n, 2))
    target = X @ [1.0, 2.0]
    X[:3] = [[0.1, 0.1], [0.9, 0.2], [0.5, 0.9]]
    target[:3] = X[:3] @ [1.0, 2.0]
    model = method().fit(unit * X, np.where(np.arange(n) < 3, target, np.nan))
    np.testing.assert_allclose(model.transduction_, target, atol=1e-3)


def test_a_penalty_beyond_double_precision_is_told():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    with pytest.warns(ConvergenceWarning, match="common scale"):
        HessianRegression(1e8).fit(1e-3 * X, np.where(np.arange(200) < 3, X @ [1.0, 2.0], np.nan))


def test_a_direct_solution_is_kept_where_steps_do_worse():
    X = np.random.default_rng(0).uniform(size=(400, 2))
    model = HessianRegression(10.0).fit(X, np.where(np.arange(400) < 3, X @ [1.0, 2.0], np.nan))
    assert model.residual_ < 1e-6


@pytest.mark.parametrize("second", [lambda c: 1.8 * c + 32, lambda c: 3 * c, lambda c: c])
def test_columns_that_repeat_each_other_make_a_line(second):
    c = np.random.default_rng(0).uniform(size=200)
    X, y = np.column_stack([c, second(c)]), np.where(np.arange(200) < 10, c, np.nan)
    model = HessianRegression().fit(X, y)
    np.testing.assert_allclose(model.transduction_, c, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), model.transduction_, atol=1e-4)


def test_rows_whose_neighbors_are_copies_are_told():
    X = np.repeat(np.random.default_rng(0).uniform(size=(20, 2)), 15, axis=0)
    y = np.where(np.arange(300) % 15 == 0, X[:, 0], np.nan)
    with pytest.warns(UserWarning, match="300 rows are copies"):
        HessianRegression().fit(X, y)


@pytest.mark.parametrize("gamma", [None, 2000.0, "neighbors"])
def test_new_rows_of_a_laplacian_weigh_neighbors_as_the_graph_does(gamma):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.where(np.arange(200) < 80, np.sin(6 * X[:, 0]), np.nan)
    model = LaplacianRegression(0.01, graph_gamma=gamma).fit(X, y)
    new = rng.uniform(size=(5, 2))
    squares = np.square(new[:, None] - X).sum(axis=2)
    for i, row in enumerate(squares):
        near = np.argsort(row)[:10]
        weights = np.exp(-(0.0 if gamma is None else widths.found(gamma, X)) * row[near])
        assert model.predict(new[i : i + 1])[0] == pytest.approx(
            np.average(model._G[near, 0], weights=weights)
        )


def test_another_kernel_leaves_nothing_of_the_last():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = LeastSquaresSVM(kernel="linear").fit(X, X[:, 0])
    assert hasattr(model, "coef_")
    model.set_params(kernel="rbf").fit(X, X[:, 0])
    assert hasattr(model, "dual_coef_") and not hasattr(model, "coef_")
