"""Canonical correlation and reduced-rank regression against scikit-learn, closed forms and each other."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.extmath import svd_flip

from regfactor.penalties import Free, Trace
from regfactor.tables.factor_model import FactorModel
from regfactor.testing.laws import frozen
from regfactor.views.correlation import CanonicalCorrelation
from regfactor.views.pair import BLOCK_ROWS, SAMPLE_ROWS
from regfactor.views.reduced_rank import ReducedRankRegression

ATTRIBUTES = [
    "x_weights_",
    "y_weights_",
    "x_rotations_",
    "y_rotations_",
    "x_loadings_",
    "y_loadings_",
]


def tables(n=300, p=7, q=5, shared=3, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(n, shared))
    X = L @ rng.normal(size=(shared, p)) + rng.normal(size=(n, p)) + 2.0
    Y = L @ rng.normal(size=(shared, q)) + rng.normal(size=(n, q)) - 5.0
    return frozen(X), frozen(Y)


def close(actual, desired, tol=1e-10):
    np.testing.assert_allclose(
        actual, desired, atol=tol * max(np.abs(desired).max(), 1e-300), rtol=0
    )


def generalized(X, Y, ridge=0.0):
    """Canonical correlations of standardized columns as generalized eigenvalues."""
    p = X.shape[1]
    Z = np.hstack([(A - A.mean(axis=0)) / A.std(axis=0, ddof=1) for A in (X, Y)])
    S = np.cov(Z.T)
    cross, within = S.copy(), S + ridge * np.eye(len(S))
    cross[:p, :p] = cross[p:, p:] = 0
    within[:p, p:] = within[p:, :p] = 0
    return scipy.linalg.eigh(cross, within)


# --- canonical correlation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False])
def test_everything_is_as_in_scikit_learn(scale):
    X, Y = tables()
    theirs = CCA(4, scale=scale, tol=1e-14, max_iter=20_000).fit(X, Y)
    ours = CanonicalCorrelation(4, scale=scale).fit(X, Y)
    for name in ATTRIBUTES:
        close(getattr(ours, name), getattr(theirs, name), 1e-5)
    for a, b in zip(ours.transform(X, Y), theirs.transform(X, Y), strict=True):
        close(a, b, 1e-5)
    close(ours.transform(X), theirs.transform(X), 1e-5)
    scores = ours.transform(X[:9], Y[:9])
    for a, b in zip(
        ours.inverse_transform(*scores), theirs.inverse_transform(*scores), strict=True
    ):
        close(a, b, 1e-5)


@pytest.mark.parametrize("shape", [(300, 7, 5), (100, 3, 8), (60, 20, 20), (50, 4, 1)])
def test_correlations_are_those_of_scikit_learn(shape):
    X, Y = tables(*shape)
    k = min(shape[1:])
    theirs = CCA(k, tol=1e-12, max_iter=20_000).fit(X, Y)
    scores = theirs.transform(X, Y)
    expected = [np.corrcoef(scores[0][:, i], scores[1][:, i])[0, 1] for i in range(k)]
    np.testing.assert_allclose(CanonicalCorrelation(k).fit(X, Y).correlations_, expected, atol=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 0.01, 1.0, 100.0])
def test_directions_solve_the_generalized_eigenvalue_problem(ridge):
    X, Y = tables()
    values, vectors = generalized(X, Y, ridge)
    model = CanonicalCorrelation(3, ridge).fit(X, Y)
    A = vectors[:7, ::-1][:, :3]
    A = A / np.linalg.norm(A, axis=0) * np.linalg.norm(model.x_rotations_, axis=0)
    A *= np.sign((A * model.x_rotations_).sum(axis=0))
    close(model.x_rotations_, A, 1e-8)
    if ridge == 0:
        close(model.correlations_, values[::-1][:3])
    else:  # what is published are correlations of the scores, not the shrunken values of the objective
        assert (model.correlations_ >= values[::-1][:3] - 1e-12).all()
        scores = model.transform(X, Y)
        close(
            model.correlations_,
            [np.corrcoef(a, b)[0, 1] for a, b in zip(*(s.T for s in scores), strict=True)],
        )


def test_weights_are_orthonormal_and_signs_fixed():
    X, Y = tables()
    model = CanonicalCorrelation(4).fit(X, Y)
    close(model.x_weights_.T @ model.x_weights_, np.eye(4))
    close(model.y_weights_.T @ model.y_weights_, np.eye(4))
    close(svd_flip(model.x_weights_, None)[0], model.x_weights_)
    assert (np.diff(model.correlations_) <= 0).all() and model.correlations_[-1] > 0


def test_predictions_are_least_squares_on_the_scores():
    X, Y = tables()
    for k in (1, 3):
        model = CanonicalCorrelation(k).fit(X, Y)
        scores = model.transform(X)
        close(model.predict(X), LinearRegression().fit(scores, Y).predict(scores), 1e-9)
    full = CanonicalCorrelation(5).fit(X, Y)
    close(full.predict(X), LinearRegression().fit(X, Y).predict(X), 1e-9)
    close(full.predict(X), X @ full.coef_.T + full.intercept_)
    assert model.score(X, Y) >= CCA(3).fit(X, Y).score(X, Y)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e5, 1e7, 1e10])
def test_correlations_keep_their_digits_on_ill_conditioned_tables(condition):
    X, Y = tables()
    rng = np.random.default_rng(1)
    rotations = [np.linalg.qr(rng.normal(size=(7, 7)))[0] for _ in range(2)]
    mixed = X @ (rotations[0] * np.geomspace(1, 1 / condition, 7)) @ rotations[1]
    expected = CanonicalCorrelation(4).fit(X, Y).correlations_
    np.testing.assert_allclose(
        CanonicalCorrelation(4).fit(mixed, Y).correlations_, expected, atol=1e-6
    )


def test_null_directions_are_left_out():
    X, Y = tables()
    wide = np.hstack([X, X[:, :3] @ np.arange(6.0).reshape(3, 2), np.full((300, 2), 0.1)])
    model = CanonicalCorrelation(4).fit(wide, Y)
    close(model.correlations_, CanonicalCorrelation(4).fit(X, Y).correlations_, 1e-9)
    close(model.predict(wide), CanonicalCorrelation(4).fit(X, Y).predict(X), 1e-8)
    np.testing.assert_allclose(model.x_rotations_[-2:], 0, atol=1e-12)


def test_more_columns_than_rows_need_a_ridge_and_are_told_so():
    all_X, all_Y = tables(2040, 100, 30)
    X, Y = all_X[:40], all_Y[:40]
    with pytest.warns(UserWarning, match="set ridge > 0"):
        chance = CanonicalCorrelation(3).fit(X, Y)
    np.testing.assert_allclose(chance.correlations_, 1.0)
    model = CanonicalCorrelation(3, ridge=1.0).fit(X, Y)
    vectors = generalized(X, Y, 1.0)[1]
    scores = model.transform(X)
    A = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1) @ vectors[:100, ::-1][:, :3]
    cosines = (A * scores).sum(axis=0) / np.linalg.norm(A, axis=0) / np.linalg.norm(scores, axis=0)
    np.testing.assert_allclose(np.abs(cosines), 1.0, atol=1e-9)
    held_out = model.transform(all_X[40:], all_Y[40:])
    assert abs(np.corrcoef(held_out[0][:, 0], held_out[1][:, 0])[0, 1]) > 0.8


@pytest.mark.parametrize(
    "model", [CanonicalCorrelation(3), CanonicalCorrelation(3, 0.2), ReducedRankRegression(2, 1.0)]
)
def test_a_weight_stands_for_equal_rows(model):
    X, Y = tables(80)
    weights = np.arange(80) % 4
    a = clone(model).fit(X, Y, sample_weight=weights)
    b = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    close(a.predict(X), b.predict(X), 1e-9)
    close(
        a.x_rotations_ @ np.diag(np.sign((a.x_rotations_ * b.x_rotations_).sum(axis=0))),
        b.x_rotations_,
        1e-8,
    )


def test_one_target_stands_in_a_pipeline_and_two_tables_give_two_scores():
    X, Y = tables()
    single = make_pipeline(CanonicalCorrelation(), LinearRegression()).fit(X, Y[:, 0])
    close(single.predict(X), LinearRegression().fit(X, Y[:, 0]).predict(X), 1e-9)
    scores = CanonicalCorrelation(2).fit_transform(X, Y)
    assert isinstance(scores, tuple)
    for a, b in zip(scores, CanonicalCorrelation(2).fit(X, Y).transform(X, Y), strict=True):
        close(a, b)
    assert CanonicalCorrelation().fit(X, Y[:, 0]).predict(X).shape == (300,)
    assert CanonicalCorrelation().fit(X, Y[:, :1]).predict(X).shape == (300, 1)


def test_a_constant_table_is_predicted_by_its_mean():
    X, _ = tables(50)
    constant = np.full((50, 2), 0.1)
    np.testing.assert_allclose(ReducedRankRegression(2, 0.0).fit(X, constant).predict(X), 0.1)
    with pytest.warns(UserWarning, match="All columns of y are constant"):
        np.testing.assert_allclose(CanonicalCorrelation().fit(X, constant).predict(X), 0.1)
    for table in (constant, scipy.sparse.csr_array(constant)):
        for ridge in (0.0, 0.1):
            with pytest.warns(UserWarning, match="All columns of X are constant"):
                model = CanonicalCorrelation(ridge=ridge).fit(table, X)
            np.testing.assert_allclose(model.predict(table), np.tile(X.mean(0), (50, 1)))


# --- reduced-rank regression ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_full_rank_is_ridge_regression(alpha, fit_intercept, weighted):
    X, Y = tables()
    weights = np.random.default_rng(0).uniform(0.1, 3, 300) if weighted else None
    ours = ReducedRankRegression(5, alpha, fit_intercept=fit_intercept).fit(X, Y, weights)
    peer = (
        Ridge(alpha, fit_intercept=fit_intercept)
        if alpha
        else LinearRegression(fit_intercept=fit_intercept)
    )
    theirs = peer.fit(X, Y, sample_weight=weights)
    close(ours.coef_, theirs.coef_, 1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)
    one = ReducedRankRegression(5, alpha, fit_intercept=fit_intercept).fit(X, Y[:, 0], weights)
    close(one.coef_, theirs.coef_[0], 1e-9)
    close(one.predict(X), theirs.predict(X)[:, 0], 1e-9)


@pytest.mark.parametrize(
    ("alpha", "shape"), [(0.0, (60, 5, 4)), (5.0, (60, 5, 4)), (5.0, (20, 25, 4))]
)
def test_no_search_finds_better_coefficients_of_this_rank(alpha, shape):
    X, Y = tables(*shape)
    model = ReducedRankRegression(2, alpha).fit(X, Y)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    p, q = shape[1:]

    def objective(packed):
        A, C = packed[: 2 * p].reshape(p, 2), packed[2 * p :].reshape(2, q)
        B = A @ C
        residual = Xc @ B - Yc
        G = Xc.T @ residual + alpha * B
        value = (np.vdot(residual, residual) + alpha * np.vdot(B, B)) / 2
        return value, np.concatenate([(G @ C.T).ravel(), (A.T @ G).ravel()])

    starts = np.random.default_rng(0).normal(size=(5, 2 * (p + q)))
    options = {"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-15}
    best = min(
        minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun
        for start in starts
    )
    assert best * (1 - 1e-2) <= model.objective_ <= best * (1 + 1e-9)
    assert np.linalg.matrix_rank(model.coef_) == 2
    B = model.coef_.T
    assert model.objective_ == pytest.approx(
        (np.sum((Xc @ B - Yc) ** 2) + alpha * np.sum(B**2)) / 2
    )


def test_closed_form_is_the_projected_least_squares_fit():
    X, Y = tables()
    ols = LinearRegression().fit(X, Y)
    fit = ols.predict(X) - Y.mean(axis=0)
    V = np.linalg.svd(fit)[2][:2].T
    model = ReducedRankRegression(2, 0.0).fit(X, Y)
    close(model.coef_, V @ V.T @ ols.coef_, 1e-9)
    close(model.components_ @ model.components_.T, np.eye(2))
    close(model.transform(X) @ model.components_ + Y.mean(axis=0), model.predict(X), 1e-12)


def test_on_whitened_targets_it_finds_the_canonical_directions():
    X, Y = tables()
    Yc = Y - Y.mean(axis=0)
    whitened = Yc @ np.linalg.inv(np.linalg.cholesky(np.cov(Yc.T))).T
    codes = ReducedRankRegression(2, 0.0).fit(X, whitened).transform(X)
    scores = CanonicalCorrelation(2).fit(X, Y).transform(X)
    assert np.cos(scipy.linalg.subspace_angles(codes, scores)).min() == pytest.approx(1, abs=1e-12)
    raw = ReducedRankRegression(2, 0.0).fit(X, Y).transform(X)  # the metric of the targets matters
    assert np.cos(scipy.linalg.subspace_angles(raw, scores)).min() < 0.9999


def test_more_columns_than_rows_give_the_coefficients_of_least_norm():
    X, Y = tables(20, 50, 4)
    model = ReducedRankRegression(4, 0.0).fit(X, Y)
    close(model.predict(X), Y, 1e-9)
    close(model.coef_, (np.linalg.pinv(X - X.mean(axis=0)) @ (Y - Y.mean(axis=0))).T, 1e-9)
    ridge = ReducedRankRegression(4, alpha=2.0).fit(X, Y)
    close(ridge.coef_, Ridge(2.0).fit(X, Y).coef_, 1e-9)


# --- both -------------------------------------------------------------------------------------------------------------

BOTH = [CanonicalCorrelation(), ReducedRankRegression(2, 0.0)]


@pytest.mark.parametrize("model", BOTH)
def test_float32_stays_float32(model):
    X, Y = (A.astype(np.float32) for A in tables())
    single = clone(model).fit(X, Y)
    assert single.coef_.dtype == single.transform(X).dtype == single.predict(X).dtype == np.float32
    double = clone(model).fit(X.astype(float), Y.astype(float))
    close(single.predict(X), double.predict(X), 1e-5)


@pytest.mark.parametrize("model", BOTH)
def test_frames_are_taken_and_scores_come_back_as_frames(model):
    X, Y = tables()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(7)])
    fit = clone(model).set_output(transform="pandas").fit(frame, pd.DataFrame(Y))
    codes = fit.transform(frame)
    assert list(codes.columns) == [f"{type(model).__name__.lower()}{i}" for i in range(2)]
    close(codes.to_numpy(), clone(model).fit(X, Y).transform(X))


@pytest.mark.parametrize("model", BOTH)
def test_large_means_and_small_columns_lose_nothing(model):
    X, Y = tables()
    scale = np.geomspace(1e-3, 1e3, 7)
    a, b = clone(model).fit(X, Y), clone(model).fit(X * scale + 1e5 * scale, Y)
    close(b.predict(X * scale + 1e5 * scale), a.predict(X), 1e-7)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CanonicalCorrelation(0), "'n_components' parameter"),
        (CanonicalCorrelation(ridge=-1.0), "'ridge' parameter"),
        (ReducedRankRegression(1.5), "'rank' parameter"),
        (ReducedRankRegression(2, alpha=np.inf), "'alpha' parameter"),
    ],
)
def test_bad_parameters_are_named(model, message):
    X, Y = tables(30)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_second_table_of_another_width_is_refused():
    X, Y = tables()
    with pytest.raises(ValueError, match="y has 4 columns, but 5 are expected"):
        CanonicalCorrelation().fit(X, Y).transform(X, Y[:, :4])
    with pytest.raises(ValueError, match="samples: X has 300 rows and y 4. Give y one row"):
        CanonicalCorrelation().fit(X, Y).transform(X, Y[:4])
    with pytest.raises(ValueError, match="samples: X has 300 rows and y 4. Give y one row"):
        CanonicalCorrelation().fit(X, Y[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CanonicalCorrelation(9).fit(X, Y).transform(X).shape == (300, 5)


def sparse_tables(n=200, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(n, p)) * (rng.random((n, p)) < 0.3)
    return X, X[:, :4] @ rng.normal(size=(4, 5)) + rng.normal(size=(n, 5)) + 3.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(200, 12), (40, 90)])  # more columns than rows too
@pytest.mark.parametrize(
    "model",
    [
        CanonicalCorrelation(ridge=0.1),
        CanonicalCorrelation(ridge=0.1, scale=False),
        ReducedRankRegression(2, alpha=2.0),
        ReducedRankRegression(3, 0.0),
        ReducedRankRegression(2, 0.0, fit_intercept=False),
    ],
)
def test_sparse_tables_are_read_with_zeros(model, shape, weighted):
    X, Y = sparse_tables(*shape)
    X[:, 3] = 0.0
    X[:, 4] = 0.7  # constant columns, absent and stored
    w = np.arange(len(X)) % 3 + 0.5 if weighted else None
    dense, sparse = (
        clone(model).fit(table, Y, sample_weight=w) for table in (X, scipy.sparse.csr_array(X))
    )
    new = sparse_tables(30, shape[1], 1)[0]
    close(sparse.coef_, dense.coef_, 1e-8)
    close(sparse.predict(scipy.sparse.csr_array(new)), dense.predict(new), 1e-8)
    scores = sparse.transform(scipy.sparse.csr_array(new))
    signs = np.sign((sparse.x_rotations_ * dense.x_rotations_).sum(axis=0))
    close(scores * signs, dense.transform(new), 1e-8)


def test_sparse_tables_without_ridge_leave_out_null_directions():
    X, Y = sparse_tables()
    X = np.hstack([X, X[:, :2] + X[:, 2:4], np.zeros((200, 1))])
    dense, sparse = (
        CanonicalCorrelation(4).fit(table, Y) for table in (X, scipy.sparse.csc_array(X))
    )
    close(sparse.correlations_, dense.correlations_, 1e-8)
    close(sparse.predict(X), dense.predict(X), 1e-7)
    twice = scipy.sparse.csr_array(
        (np.ones(4), [0, 0, 1, 2], [0, 2, 3, 4, 4]), (4, 3)
    )  # a place stored twice
    targets = np.arange(4.0)
    a, b = (
        ReducedRankRegression(2, alpha=1.0).fit(table, targets)
        for table in (twice, twice.toarray())
    )
    close(a.coef_, b.coef_)
    with pytest.raises(ValueError, match="sparse y is not supported"):
        ReducedRankRegression(2, 0.0).fit(X, scipy.sparse.csr_array(Y))


@pytest.mark.parametrize("n", [200, 5000])
def test_rounding_of_a_mean_does_not_make_a_constant_column_vary(n):
    X, Y = tables(n)
    wide = np.hstack([X, np.full((n, 1), 0.7)])
    model = CanonicalCorrelation(ridge=0.1).fit(wide, Y)
    close(model.coef_[:, :7], CanonicalCorrelation(ridge=0.1).fit(X, Y).coef_, 1e-9)
    np.testing.assert_array_equal(model.coef_[:, 7], 0)


@pytest.mark.parametrize("n", [BLOCK_ROWS, BLOCK_ROWS + 1, 4 * BLOCK_ROWS - 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_give_the_cosines_between_the_column_spaces(n, weighted):
    X, Y = (
        table + 1e4 + np.linspace(0, 50, n)[:, None] * np.arange(table.shape[1])
        for table in tables(n)
    )
    w = 0.5 + np.arange(n) % 3 if weighted else np.ones(n)
    about = [
        (table - np.average(table, axis=0, weights=w)) * np.sqrt(w)[:, None] for table in (X, Y)
    ]
    Qx, Qy = (np.linalg.qr(table)[0] for table in about)
    model = CanonicalCorrelation(3).fit(X, Y, sample_weight=w if weighted else None)
    close(model.correlations_, np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:3], 1e-9)


@pytest.mark.parametrize(
    "column",
    [
        lambda rng: rng.normal(5e4, 2e4, 20_000),
        lambda rng: 1.6e9 + 2.6e6 * rng.random(20_000),
        lambda rng: rng.normal(1e9, 1.0, 20_000),
    ],
    ids=["income", "seconds", "offset"],
)
def test_a_large_column_of_a_sparse_table_hides_no_other(column):
    rng = np.random.default_rng(0)
    dummies = (rng.random((20_000, 8)) < 0.02).astype(float)
    X, y = (
        np.column_stack([column(rng), dummies]),
        dummies @ np.arange(1, 9.0) + 0.1 * rng.normal(size=20_000),
    )
    for model in (
        ReducedRankRegression(1, 0.0),
        ReducedRankRegression(1, alpha=1.0),
        CanonicalCorrelation(1, scale=False),
    ):
        dense, sparse = (
            clone(model).fit(table, y).predict(table) for table in (X, scipy.sparse.csr_array(X))
        )
        np.testing.assert_allclose(sparse, dense, atol=1e-6)
        assert np.corrcoef(dense, y)[0, 1] > 0.99


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_of_a_large_mean_is_no_direction(dtype):
    rng = np.random.default_rng(0)
    kelvin = 300 + 0.3 * rng.normal(size=40)
    X = np.column_stack([kelvin, kelvin - 273.15, 1.8 * kelvin - 459.67, kelvin / 3]).astype(dtype)
    Y = np.column_stack([kelvin - 300 + rng.normal(size=40), rng.normal(size=40)])
    model = CanonicalCorrelation(2).fit(X, Y)
    assert model.correlations_.shape == (1,)
    best = LinearRegression().fit(kelvin[:, None], Y)
    close(model.predict(X), best.predict(kelvin[:, None]), 1e-3)
    assert np.abs(ReducedRankRegression(2, 0.0).fit(X, Y).coef_).max() < 1


def test_the_least_coefficients_are_found_and_far_units_are_borne():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 5)), rng.normal(size=(50, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    close(ReducedRankRegression(3, 0.0).fit(X, Y).coef_, LinearRegression().fit(X, Y).coef_)
    far = X * [1, 1, 1e-9, 1e9, 1, 1]
    close(
        ReducedRankRegression(3, 0.0).fit(far, Y).predict(far),
        LinearRegression().fit(X, Y).predict(X),
        1e-6,
    )


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("total", [1.0, 2.0])
def test_correlations_and_predictions_move_smoothly_with_the_sum_of_weights(ridge, total):
    X, Y = tables(200)
    w = np.random.default_rng(0).random(200)
    w *= total / w.sum()
    below, above = (
        CanonicalCorrelation(2, ridge=ridge).fit(X, Y, sample_weight=w * scale)
        for scale in (1 - 1e-9, 1 + 1e-9)
    )
    close(above.correlations_, below.correlations_, 1e-6)
    close(above.predict(X), below.predict(X), 1e-6)


def test_scores_of_another_width_and_squares_beyond_all_numbers_are_refused():
    X, Y = tables(50)
    model = CanonicalCorrelation(2).fit(X, Y)
    with pytest.raises(ValueError, match="Expected codes of 2 components"):
        model.inverse_transform(np.ones((4, 3)))
    with pytest.raises(ValueError, match="Column 0 of X holds values of size.*scale it"):
        CanonicalCorrelation().fit(1e160 * X, Y)


@pytest.mark.parametrize("gap", [0.0, 1e3, 1e6])
def test_rows_unlike_all_others_cost_no_digits(gap):
    """The rows that are looked at first lie far from all others, and weigh next to nothing."""
    (X, Y), w = (np.array(T) for T in tables(3000)), np.ones(3000)
    far = np.arange(0, 3000, -(-3000 // SAMPLE_ROWS))
    X[far], Y[far], w[far] = X[far] + gap, Y[far] - gap, 1e-20
    about = [(T - np.average(T, axis=0, weights=w)) * np.sqrt(w)[:, None] for T in (X, Y)]
    Qx, Qy = (np.linalg.qr(table)[0] for table in about)
    model = CanonicalCorrelation(3).fit(X, Y, sample_weight=w)
    close(model.correlations_, np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:3], 1e-13)


def test_directions_that_single_precision_made_are_left_out_of_either_table():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 2)) + 50
    T = np.column_stack([a, a.sum(axis=1)]).astype(np.float32)
    other = rng.normal(size=(200, 4)).astype(np.float32)
    assert CanonicalCorrelation(3).fit(T, other).correlations_.shape == (2,)
    close(
        CanonicalCorrelation(3).fit(other, T).correlations_,
        CanonicalCorrelation(3).fit(T, other).correlations_,
        1e-5,
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "n", [4, 50, 2 * BLOCK_ROWS]
)  # fewer rows than columns, one block of rows, more
@pytest.mark.parametrize("name", ["X", "y"])
def test_numbers_that_are_not_finite_are_refused_in_arrays_as_in_frames(name, n, value):
    X, Y = (np.array(T) for T in tables(n))
    (X if name == "X" else Y)[-1, 2] = value
    model = CanonicalCorrelation(2)
    for first, second in [(X, Y), (pd.DataFrame(X), pd.DataFrame(Y)), (X.astype(np.float32), Y)]:
        expected = (
            "contains NaN, and CanonicalCorrelation requires complete rows"
            if np.isnan(value)
            else "infinity"
        )
        with pytest.raises(
            ValueError,
            match=f"Input {name} {expected}" if np.isnan(value) else f"{name}.*{expected}",
        ):
            model.fit(first, second)
        assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


def test_arrays_give_what_other_tables_give():
    X, Y = tables(700)
    plain = CanonicalCorrelation(3).fit(X, Y)
    others = [
        (X.tolist(), Y.tolist()),
        (np.asfortranarray(X), Y[:, ::1]),
        (X.astype(">f8"), Y.astype(">f8")),
    ]
    for first, second in others:
        other = CanonicalCorrelation(3).fit(first, second)
        assert other.coef_.dtype == np.float64 and other.coef_.dtype.isnative
        for name in ["coef_", "intercept_", "correlations_", *ATTRIBUTES]:
            close(getattr(other, name), getattr(plain, name), 1e-12)


def test_a_table_against_itself_in_other_units_correlates_wholly():
    """All correlations are one, which leaves LAPACK a single cluster of eigenvalues to part."""
    for seed in range(200):
        X = np.random.default_rng(seed).normal(size=(300, 20))
        model = CanonicalCorrelation(4).fit(X, X[:, ::-1] * 3 + 1)
        np.testing.assert_allclose(model.correlations_, np.ones(4), rtol=1e-12)
        np.testing.assert_allclose(model.x_weights_.T @ model.x_weights_, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_correlations_have_no_unit(unit):
    X, Y = tables()
    found = CanonicalCorrelation(3, scale=False).fit(unit * X, unit * Y)
    np.testing.assert_allclose(
        found.correlations_, CanonicalCorrelation(3).fit(X, Y).correlations_, rtol=1e-10
    )


def test_scores_without_variance_correlate_with_nothing():
    """Two rows vary in one direction alone; under a ridge there is a second component, of rounding."""
    for seed in range(40):
        X, Y = np.random.default_rng(seed).normal(size=(2, 2, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            assert np.isfinite(CanonicalCorrelation(2, ridge=0.1).fit(X, Y).correlations_).all()


def test_tables_are_looked_through_once():
    """A door that is passed twice tells everything twice."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 20)))
    frame[3] = pd.arrays.SparseArray(frame[3])
    with pytest.warns(UserWarning) as told:
        CanonicalCorrelation(2, ridge=1.0).fit(frame, frame.to_numpy()[:, :3])
    assert sum("sparse columns found" in str(each.message) for each in told) == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("offset", [0, 100, 1000, 10_000])
def test_regressions_in_single_precision_are_those_of_double_far_from_zero(offset, sparse):
    """Columns of deviations from .003 to 570, next to which the rounding of the data grows with the offset."""
    D = load_breast_cancer().data
    X, Y = (D[:, :15] + offset).astype(np.float32), D[:, 15:].astype(np.float32)
    single = ReducedRankRegression(3, 0.0).fit(scipy.sparse.csr_array(X) if sparse else X, Y)
    double = ReducedRankRegression(3, 0.0).fit(X.astype(float), Y.astype(float))
    assert single.objective_ == pytest.approx(
        double.objective_, rel=0.1 if offset == 10_000 else 1e-9
    )
    assert single.score(X, Y) == pytest.approx(double.score(X, Y), abs=5e-3)


def test_a_column_of_rounding_leaves_the_others_their_correlations():
    iris, random = load_iris().data, np.random.default_rng(0)
    X, Y = iris[:, :2].astype(np.float32), iris[:, 2:].astype(np.float32)
    rough = np.c_[X, 1e5 + random.integers(-1, 2, size=150) / 20].astype(np.float32)
    both = [CanonicalCorrelation(2).fit(table, Y) for table in (X, rough)]
    np.testing.assert_allclose(both[0].correlations_, both[1].correlations_, rtol=1e-5)
    regression = ReducedRankRegression(2, 0.0).fit(rough, Y)
    np.testing.assert_allclose(
        regression.coef_[:, :2], ReducedRankRegression(2, 0.0).fit(X, Y).coef_, rtol=1e-4
    )
    np.testing.assert_array_equal(regression.coef_[:, 2], 0)


def whitened(X):
    U, _, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return U @ V


def shared_scores(X, Y, k):
    """Sums of the canonical scores of both tables, which span the codes of whitened tables."""
    scores = CanonicalCorrelation(k).fit(X, Y).transform(X, Y)
    return sum(part / np.linalg.norm(part, axis=0) for part in scores)


def angle(codes, scores):
    assert codes.shape == scores.shape
    return scipy.linalg.subspace_angles(codes, scores).max()


def between(Z, k):
    """A strength of the trace norm that leaves k components."""
    return np.linalg.svd(Z, compute_uv=False)[k - 1 : k + 1].mean()


@pytest.mark.parametrize("convex", [False, True], ids=["rank", "gauge"])
def test_the_squared_loss_of_whitened_tables_is_canonical_correlation(convex):
    X, Y = tables(shared=2)
    Z = np.hstack([whitened(X), whitened(Y)])
    parts = {"rank": 2, "on_codes": Free(), "on_components": Free()}
    if convex:
        parts = {"gauge": Trace(), "alpha": between(Z, 2)}
    model = FactorModel("squared", **parts, tol=1e-10, max_iter=5000).fit(Z)
    assert angle(model.codes_, shared_scores(X, Y, 2)) < 1e-6
    plain = FactorModel("squared", **parts, tol=1e-10).fit(
        np.hstack([X - X.mean(0), Y - Y.mean(0)])
    )
    assert plain.codes_.shape != (300, 2) or angle(plain.codes_, shared_scores(X, Y, 2)) > 0.05


def test_bregman_canonical_correlation_of_small_numbers_is_that_of_the_squared_loss():
    # every Bregman divergence is a square for small differences: F''(0) / 2 (z - x)^2
    X, Y = tables(shared=2)
    Z = np.hstack([whitened(X), whitened(Y)])
    scores = shared_scores(X, Y, 2)
    angles = []
    for size in (10.0, 0.1):
        P = 1 / (1 + np.exp(-size * Z))
        model = FactorModel("logistic", on_codes=Free(), on_components=Free(), rank=2, tol=1e-9)
        angles.append(angle(model.fit(P).codes_, scores))
    assert angles[1] < 1e-3
    assert angles[0] > 1e-2
    convex = FactorModel("logistic", gauge=Trace(), alpha=between(P - 0.5, 2), tol=1e-9).fit(P)
    assert angle(convex.codes_, scores) < 1e-3
