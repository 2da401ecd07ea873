"""Regularized vector ARMA: published optima, the structure of the solution, the filter, forecasts and comparators."""

import copy
import itertools
import pickle
import sys
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import nbinom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import estimator_checks as checks
from statsmodels.tsa.api import VAR
from statsmodels.tsa.statespace.varmax import VARMAX

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Clock, Status
from regfactor.datasets.series import make_varma
from regfactor.losses import Huber, Squared
from regfactor.maps import Lags, RowScale
from regfactor.norms import L2
from regfactor.penalties import Rows, Trace
from regfactor.problems import Convex, Data, Design
from regfactor.series.arma.criteria import aicc, bic
from regfactor.series.arma.estimator import RegularizedARMA
from regfactor.series.arma.missing_cells import cell_posterior
from regfactor.series.arma.model import (
    MovingAverage,
    Series,
    forecast_variances,
    radius,
    regressors,
)
from regfactor.series.arma.problem import ArmaProblem, MinnesotaRidge, Specification, lag_sums
from regfactor.series.arma.selection import Orders, _scores_of_orders, choose_orders
from regfactor.series.shapes import SeriesRows
from regfactor.solvers import Fista, solve
from regfactor.solvers.douglas_rachford import DouglasRachford

ORACLES = {  # T, n, p, q, lam, gamma; objective, lam_max, coefficients by rows, forecast of T + 1
    "O1": ((20, 1, 1, 1, 0.5, 0.1), 0.80159304, 2.79815154, [0.821998], [1.471986]),
    "O2": (
        (20, 2, 1, 1, 0.5, 0.1),
        1.27924651,
        3.81137932,
        [0.469763, -0.602948, 0.406061, 1.158742],
        [1.44638, 0.939563],
    ),
    "O3": (
        (20, 2, 2, 2, 0.3, 1.0),
        1.07779423,
        1.31977648,
        [0.296333, 0.058661, 0.250412, 0.480857, 0.064057, -0.2534, 0.03378, -0.017216],
        [1.313361, 1.009584],
    ),
    "O4": (
        (15, 2, 1, 2, 1.0, 0.5),
        1.75491282,
        2.94485040,
        [0.427408, -0.531689, 0.430295, 1.037992],
        [-1.108397, -1.21885],
    ),
    "O6": ((12, 1, 1, 1, 0.5, 0.1), 0.54983161, None, [0.765459], None),
}
EMPTY = np.zeros((0, 0))


def wave(T, n):
    t, i = np.arange(1, T + 1)[:, None], np.arange(n)
    return (
        np.sin(0.7 * t + 0.3 * i)
        + 0.5 * np.cos(0.31 * t * (i + 1))
        + 0.1 * (((7 + 3 * i) * t % 11) - 5) / 5
    )


def table(X, p, intercept=False):
    D = regressors(X, np.zeros((len(X), 0)), p, 0, intercept)
    return X[len(X) - len(D) :], D


def stated(X, p, q, lam, gamma, intercept=False, gauge=None, loss=None):
    Y, D = table(X, p, intercept)
    strengths = np.full(D.shape[1], float(gamma))
    strengths[D.shape[1] - intercept :] = 0
    design = Design(D, strengths) if D.shape[1] else None
    return Convex(
        Data.of(np.ascontiguousarray(Y), loss or Squared()), gauge or Trace(), lam, Lags(q), design
    )


def tight(problem, tol=1e-9, solver=None, start=None, max_iter=20_000):
    return solve(
        problem, tol=tol, solver=solver or DouglasRachford(tol), start=start, max_iter=max_iter
    )


def fixed(p="bic", q="auto", **choices):
    """The model with nothing left to the data but the order, if that is not given."""
    given = dict(d=0, season=1, shrinkage=0.1, ridge=1e-3) | choices
    return RegularizedARMA(p, q, **given)


def plain(X, p, q, lam, gamma, **choices):
    """The estimator at an absolute lam and gamma, on the data as they are."""
    Y, D = table(X, p)
    ridge = gamma / (np.square(D).sum() / max(D.shape[1], 1)) if p else 0.0
    shrinkage = lam / stated(X, p, q, 1.0, gamma).alpha_max()
    given = (
        dict(intercept=False, standardize=False, max_radius=None, tol=1e-9, max_iter=20_000)
        | choices
    )
    return fixed(p, q, shrinkage=shrinkage, ridge=ridge, **given).fit(X)


def moving_average_forecasts(problem, W):
    """The MA part of forecasts: the entries of W that no loss sees."""
    q, n = problem.map.q, problem.data.shape[1]
    T = len(W)
    return np.array(
        [
            sum(W[T - 1 + h - j, j * n : (j + 1) * n] for j in range(h, q + 1))
            for h in range(1, q + 1)
        ]
    )


def series(T=120, n=3, p=1, q=1, seed=0, **choices):
    return make_varma(T, n, p, q, random_state=seed, **choices)


@pytest.mark.parametrize("name", ORACLES)
def test_published_optima_are_reproduced(name):
    (T, n, p, q, lam, gamma), objective, largest, coefficients, forecast = ORACLES[name]
    model = plain(wave(T, n), p, q, lam, gamma)
    assert model.objective_ == pytest.approx(objective, abs=2e-8)
    np.testing.assert_allclose(model.ar_.transpose(0, 2, 1).ravel(), coefficients, atol=2e-5)
    if largest is not None:
        assert model.lam_max_ == pytest.approx(largest, abs=2e-8)
        np.testing.assert_allclose(model.forecast(1).mean[0], forecast, atol=5e-5)


@pytest.mark.parametrize("solver", [DouglasRachford(1e-9), Fista()], ids=str)
def test_the_present_block_alone_is_a_denoised_autoregression(solver):
    X = wave(20, 2)
    problem = stated(X, 1, 0, 0.5, 0.1)
    solution = tight(problem, solver=solver)
    assert solution.objective == pytest.approx(1.58429321, abs=2e-8)
    assert problem.alpha_max() == pytest.approx(2.86039867, abs=2e-8)
    np.testing.assert_allclose(
        solution.point.coefficients.ravel(), [0.473702, -0.603943, 0.37482, 1.157305], atol=2e-5
    )
    np.testing.assert_allclose(X[-1] @ solution.point.coefficients, [1.265902, 0.707786], atol=5e-5)


def test_optimum_where_innovations_are_not_unique():
    """Every split of the same innovations between two lags has the value lam sqrt(5) - lam^2 / 2."""
    problem = stated(np.array([[1.0], [0], [0], [2], [0], [0]]), 0, 1, 0.1, 0.0)
    assert tight(problem, 1e-8).objective == pytest.approx(0.1 * np.sqrt(5) - 0.005, abs=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("gauge", [Trace(), Rows(L2())], ids=str)
def test_agrees_with_a_conic_solver(gauge, intercept):
    X, p, q, lam, gamma = wave(14, 2) + 0.7, 1, 2, 0.4, 0.3
    Y, D = table(X, p, intercept)
    N, n = Y.shape
    W, C = cp.Variable((N + q, n * (q + 1))), cp.Variable((D.shape[1], n))
    S = sum(W[q - j : q - j + N, j * n : (j + 1) * n] for j in range(q + 1))
    norm = cp.normNuc(W) if isinstance(gauge, Trace) else cp.sum(cp.norm(W, 2, axis=1))
    loss = cp.sum_squares(Y - D @ C - S) / 2 + gamma / 2 * cp.sum_squares(C[: p * n]) + lam * norm
    reference = cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL)
    for solver in (DouglasRachford(1e-8), Fista()):
        solution = tight(stated(X, p, q, lam, gamma, intercept, gauge), 1e-8, solver)
        assert solution.objective == pytest.approx(reference, rel=1e-6)


def test_huber_agrees_with_a_conic_solver():
    X, p, q, lam, gamma = 3 * wave(14, 2), 1, 1, 0.4, 0.3
    Y, D = table(X, p)
    N, n = Y.shape
    W, C = cp.Variable((N + q, n * (q + 1))), cp.Variable((D.shape[1], n))
    S = sum(W[q - j : q - j + N, j * n : (j + 1) * n] for j in range(q + 1))
    loss = (
        cp.sum(cp.huber(Y - D @ C - S, 0.5)) / 2
        + gamma / 2 * cp.sum_squares(C)
        + lam * cp.normNuc(W)
    )
    reference = cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL)
    solution = tight(stated(X, p, q, lam, gamma, loss=Huber(0.5)), 1e-7, Fista())
    assert solution.objective == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize(
    "problem, remedy",
    [
        (stated(wave(12, 2), 1, 1, 0.5, 0.1, loss=Huber()), "Fista"),
        (Convex(Data.of(np.eye(3), Squared()), Trace(), 1.0, RowScale(np.arange(1.0, 4))), "Fista"),
        (Convex(Data.of(np.eye(3), Squared()), Trace(np.ones(3)), 1.0), "Admm"),
        (
            Convex(
                Data.of(np.eye(3), Squared()),
                Trace(),
                1.0,
                design=Design(np.ones((3, 1)), 0.0, np.array([1, 0, 1])),
            ),
            "Fista",
        ),
    ],
    ids=["loss", "map", "gauge", "columns"],
)
def test_the_fast_solver_names_another_where_it_does_not_fit(problem, remedy):
    with pytest.raises(ValueError, match=remedy):
        solve(problem, solver=DouglasRachford())


def test_the_fast_solver_takes_plain_tables_too():
    X = wave(20, 4)
    problem = Convex(Data.of(X, Squared()), Trace(), 0.8, design=Design.intercept(20))
    assert tight(problem, 1e-8).objective == pytest.approx(
        solve(problem, tol=1e-9).objective, rel=1e-7
    )
    wide = Convex(Data.of(np.ascontiguousarray(X.T), Squared()), Trace(), 0.8)
    assert tight(wide, 1e-8).objective == pytest.approx(solve(wide, tol=1e-9).objective, rel=1e-7)


@pytest.mark.parametrize("count", [2, 3])
def test_partitioned_norms_need_no_model_of_their_own(count):
    """|E|_F^2 + max_j |B_j|_F^2 costs 2 max over eta in the simplex of |diag(sqrt eta) Z|_tr (thesis, theorem 10)."""
    Z = np.random.default_rng(0).normal(size=(2 * count, 3))
    blocks = [slice(2 * j, 2 * j + 2) for j in range(count)]
    K, t, L = (
        cp.Variable((2 * count, 2 * count), PSD=True),
        cp.Variable(),
        cp.Variable((3, 3), symmetric=True),
    )
    whole = cp.bmat([[K, Z], [Z.T, L]])
    sdp = cp.Problem(
        cp.Minimize(cp.trace(L) + t), [whole >> 0, *(cp.trace(K[b, b]) <= t for b in blocks)]
    )
    left = sdp.solve(solver=cp.CLARABEL)
    lengths = np.linspace(0, 1, 2001 if count == 2 else 201)
    simplex = [eta for eta in itertools.product(lengths, repeat=count - 1) if sum(eta) <= 1 + 1e-12]
    etas = np.array([[*eta, max(1 - sum(eta), 0)] for eta in simplex])
    norms = np.linalg.norm(np.repeat(np.sqrt(etas), 2, axis=1)[:, :, None] * Z, "nuc", axis=(1, 2))
    assert left == pytest.approx(2 * norms.max(), rel=1e-5 if count == 2 else 1e-4)


def test_from_the_largest_lam_on_there_are_no_innovations():
    X = wave(30, 2)
    problem = stated(X, 2, 1, 1.0, 0.2)
    top = problem.alpha_max()
    at, below = tight(problem.at(top)), tight(problem.at(0.999 * top), 1e-11)
    assert not at.point.factors.dense().any()
    Y, D = table(X, 2)
    np.testing.assert_allclose(
        at.point.coefficients, np.linalg.solve(D.T @ D + 0.2 * np.eye(4), D.T @ Y), atol=1e-12
    )
    assert np.abs(below.point.factors.dense()).max() > 1e-4


def test_the_certificate_holds_and_vanishes():
    problem = stated(wave(40, 3), 2, 2, 0.5, 0.1)
    optimum = tight(problem, 1e-10).objective
    for tol in (1e-2, 1e-4, 1e-7):
        solution = tight(problem, tol)
        assert solution.bound <= optimum * (1 + 1e-12) and solution.objective >= optimum * (
            1 - 1e-12
        )
        assert 0 <= solution.relative_gap <= tol and solution.rigorous


def test_scaling_the_series_scales_lam_and_gamma():
    X, c = wave(30, 2), 3.0
    one, other = plain(X, 1, 1, 0.5, 0.1), plain(c * X, 1, 1, c * 0.5, c * c * 0.1)
    assert other.objective_ == pytest.approx(c * c * one.objective_, rel=1e-8)
    np.testing.assert_allclose(other.ar_, one.ar_, atol=1e-5)


def test_a_rotation_of_the_series_rotates_the_coefficients():
    X = wave(30, 3)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    one, other = plain(X, 2, 1, 0.5, 0.1), plain(X @ Q, 2, 1, 0.5, 0.1)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)
    np.testing.assert_allclose(other.ar_, Q.T @ one.ar_ @ Q, atol=1e-5)


def test_constants_do_not_matter_with_an_intercept():
    X = wave(40, 2)
    one, other = (fixed(1, 1, tol=1e-9, max_iter=5000).fit(Z) for Z in (X, X + [5.0, -3.0]))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)
    np.testing.assert_allclose(other.ar_, one.ar_, atol=1e-6)
    np.testing.assert_allclose(
        other.forecast(5).mean, one.forecast(5).mean + [5.0, -3.0], atol=1e-5
    )


def test_units_do_not_matter_when_standardized():
    X, units = wave(60, 2), np.array([1e3, 1e-2])
    one, other = (fixed(2, 1, tol=1e-8, max_iter=5000).fit(Z) for Z in (X, X * units))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-9)
    np.testing.assert_allclose(
        other.forecast(4, level=0.9).upper, one.forecast(4, level=0.9).upper * units, rtol=1e-6
    )


def test_without_autoregression_time_may_run_backwards():
    X = wave(25, 2)
    one, other = plain(X, 0, 2, 0.7, 0.0), plain(X[::-1], 0, 2, 0.7, 0.0)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)


def test_coefficients_lag_sums_and_forecasts_are_unique_where_innovations_are_not():
    X = wave(40, 2)
    problem = stated(X, 1, 2, 0.6, 0.1)
    random, found = np.random.default_rng(0), []
    for _ in range(3):
        W = Trace().recover(random.normal(size=problem.shape))
        solution = tight(problem, 1e-13, start=FactorPoint(W), max_iter=4000)
        W = solution.point.factors.dense()
        found.append(
            (solution.point.coefficients, lag_sums(W, 2), moving_average_forecasts(problem, W))
        )
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(b, a, atol=1e-9)


def test_the_solution_is_a_two_sided_filter_of_its_residuals():
    """S(W)_t = sum_d L_{t+d} kappa_d / lam, and the same sums forecast."""
    X, q = wave(60, 2), 2
    problem = stated(X, 1, q, 0.6, 0.1)
    solution = tight(problem, 1e-13, max_iter=6000)
    W = solution.point.factors.dense()
    L = -problem.dual_point(W, solution.point.coefficients)
    kappa, n = lag_sums(W, q), 2
    both = {d: kappa[d] if d >= 0 else kappa[-d].T for d in range(-q, q + 1)}
    padded = np.vstack([np.zeros((q, n)), L, np.zeros((2 * q, n))])
    N = len(L)
    filtered = sum(padded[q + d : q + d + N + q] @ both[d] for d in both) / problem.alpha
    np.testing.assert_allclose(filtered[:N], problem.map(W), atol=1e-5)
    np.testing.assert_allclose(filtered[N:], moving_average_forecasts(problem, W), atol=1e-5)


def test_the_optimum_is_a_likelihood_without_its_determinant():
    """1/2 r' (I + T(kappa) / lam)^-1 r + lam / 2 tr kappa_0 + ridge, r = Y - D C, has the value of the problem."""
    X, q, lam, gamma = wave(30, 2), 2, 0.6, 0.1
    problem = stated(X, 1, q, lam, gamma)
    solution = tight(problem, 1e-12, max_iter=6000)
    C, kappa = solution.point.coefficients, lag_sums(solution.point.factors.dense(), q)
    Y, D = table(X, 1)
    r, sigma = (Y - D @ C).ravel(), covariance(kappa / lam, len(Y), np.ones(Y.shape))
    value = (
        r @ np.linalg.solve(sigma, r) / 2
        + lam / 2 * np.trace(kappa[0])
        + gamma / 2 * np.square(C).sum()
    )
    assert value == pytest.approx(solution.objective, rel=1e-8)


def test_filter_forecasts_are_those_of_the_solution():
    X = wave(60, 2)
    model = plain(X, 1, 2, 0.6, 0.1, tol=1e-12)
    problem = stated(X, 1, 2, 0.6, 0.1)
    solution = tight(problem, 1e-12)
    ma, expected, last = (
        moving_average_forecasts(problem, solution.point.factors.dense()),
        [],
        X[-1],
    )
    for h in range(5):
        last = last @ solution.point.coefficients + (ma[h] if h < 2 else 0)
        expected.append(last)
    np.testing.assert_allclose(model.forecast(5).mean, expected, atol=2e-5)


def covariance(C, N, noise):
    """The whole covariance of N rows of a moving average plus noise."""
    q, n = len(C) - 1, C.shape[1]
    whole = np.zeros((N, n, N, n))
    for t in range(N):
        for s in range(max(0, t - q), min(N, t + q + 1)):
            whole[t, :, s] = C[t - s] if t >= s else C[s - t].T
    return whole.reshape(N * n, N * n) + np.diag(noise.ravel())


def average(q=2, n=2, seed=0):
    B = np.random.default_rng(seed).normal(size=(q + 1, n, 3))
    return MovingAverage(
        np.array([sum(B[j + d] @ B[j].T for j in range(q + 1 - d)) for d in range(q + 1)])
    )


@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.parametrize("cuts", [[], [4], [1, 2, 3], [5, 6]], ids=str)
def test_the_filter_predicts_as_the_whole_covariance_does(q, cuts):
    random, ma, N, n = np.random.default_rng(1), average(q), 9, 2
    R, noise = random.normal(size=(N, n)), random.uniform(0.5, 2, size=(N, n))
    past, errors = None, []
    for rows, variances in zip(np.split(R, cuts), np.split(noise, cuts), strict=True):
        part, past = ma.filter(rows, variances, past)
        errors.append(part)
    G = covariance(ma.covariances, N + 4, np.vstack([noise, np.ones((4, n))]))

    def told(t, rows):
        seen = slice(None, t * n)
        return G[t * n : (t + rows) * n, seen] @ np.linalg.solve(G[seen, seen], R[:t].ravel())

    expected = [R[t] - (told(t, 1) if t else 0) for t in range(N)]
    np.testing.assert_allclose(np.vstack(errors), expected, atol=1e-10)
    np.testing.assert_allclose(past.rows(4), told(N, 4).reshape(4, n), atol=1e-10)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_innovations_form_has_the_same_covariances_and_is_invertible(q):
    ma = average(q, 3)
    theta, sigma = ma.innovations(np.ones(3))
    whole = np.concatenate([np.eye(3)[None], theta])
    for d in range(q + 1):
        made = sum(whole[j + d] @ sigma @ whole[j].T for j in range(q + 1 - d))
        np.testing.assert_allclose(made, ma.covariances[d] + np.eye(3) * (d == 0), atol=1e-10)
    assert radius(-theta) < 1


@pytest.mark.parametrize("p", [1, 3])
def test_without_shrinkage_room_and_ridge_it_is_the_var_of_statsmodels(p):
    X = series(150, 3, p=2)
    model = fixed(p, 1, shrinkage=1.0, ridge=0.0, max_radius=None).fit(X)
    peer = VAR(X).fit(p, trend="c")
    np.testing.assert_allclose(model.ar_, peer.coefs, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, peer.intercept, atol=1e-9)
    np.testing.assert_allclose(model.residuals_, peer.resid, atol=1e-9)
    np.testing.assert_allclose(
        model.sigma_ * (len(model.residuals_) - 3 * p - 1),
        model.residuals_[10:].T
        @ model.residuals_[10:]
        * len(model.residuals_)
        / (len(model.residuals_) - 10),
        rtol=1e-9,
    )
    np.testing.assert_allclose(model.forecast(8).mean, peer.forecast(X[-p:], 8), atol=1e-9)
    np.testing.assert_allclose(model.impulse_response(6), peer.ma_rep(6), atol=1e-9)


def test_zero_lags_of_innovations_are_ridge_var():
    X = series(100, 2)
    one, other = fixed(2, 0).fit(X), fixed(2, 1, shrinkage=1.0).fit(X)
    np.testing.assert_allclose(one.ar_, other.ar_, atol=1e-12)
    assert one.ma_.shape == (0, 2, 2) and other.ma_.shape == (1, 2, 2) and not other.ma_.any()


def test_bic_chooses_the_order_of_statsmodels():
    for seed in range(4):
        X = series(200, 2, p=3, q=0, seed=seed)
        model = fixed().fit(X)
        assert model.p_ == VAR(X).select_order(14, trend="c").bic
        assert model.q_ == min(model.p_, 2)


def test_corrected_aic_never_takes_fewer_lags_than_bic():
    found = []
    for seed in range(6):
        X = series(120, 2, p=3, q=1, seed=seed)
        found.append((fixed("aicc").fit(X).p_, fixed("bic").fit(X).p_))
    assert all(longer >= shorter for longer, shorter in found)
    assert any(longer > shorter for longer, shorter in found)


def test_forecasts_follow_the_recursion_of_statsmodels():
    X = series(80, 2)
    model = fixed(1, 1, tol=1e-6, max_radius=0.95).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # statsmodels on the identification of VARMA, which is not estimated here
        peer = VARMAX(
            X, order=(1, 1), trend="c", enforce_stationarity=False, enforce_invertibility=False
        )
    root = np.linalg.cholesky(model.sigma_)
    names = dict(zip(peer.param_names, range(len(peer.param_names)), strict=True))
    given = np.zeros(len(names))
    for i in range(2):
        given[names[f"intercept.y{i + 1}"]] = model.intercept_[i]
        for j in range(2):
            given[names[f"L1.y{j + 1}.y{i + 1}"]] = model.ar_[0, i, j]
            given[names[f"L1.e(y{j + 1}).y{i + 1}"]] = model.ma_[0, i, j]
    given[names["sqrt.var.y1"]], given[names["sqrt.var.y2"]] = root[0, 0], root[1, 1]
    given[names["sqrt.cov.y1.y2"]] = root[1, 0]
    theirs = peer.smooth(given).get_forecast(6)
    ours = model.forecast(6, level=0.95)
    np.testing.assert_allclose(ours.mean, theirs.predicted_mean, atol=1e-6)
    psi = model.impulse_response(5)
    spread = np.cumsum([P @ model.sigma_ @ P.T for P in psi], axis=0)
    np.testing.assert_allclose(spread, theirs.var_pred_mean, rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2])
def test_differences_are_summed_back_exactly(d):
    X = (
        np.cumsum(series(90, 2), axis=0)
        if d == 1
        else np.cumsum(np.cumsum(series(90, 2), axis=0), axis=0)
    )
    model = fixed(1, 1, d=d).fit(X)
    inner = fixed(1, 1).fit(np.diff(X, n=d, axis=0))
    np.testing.assert_allclose(model.ar_, inner.ar_, atol=1e-12)
    whole = np.vstack([X, model.forecast(7).mean])
    np.testing.assert_allclose(np.diff(whole, n=d, axis=0)[-7:], inner.forecast(7).mean, atol=1e-8)
    np.testing.assert_allclose(model.predict() + model.residuals_, X[1 + d :], atol=1e-10)
    psi = inner.impulse_response(5)
    for _ in range(d):
        psi = np.cumsum(psi, axis=0)
    np.testing.assert_allclose(model.impulse_response(5), psi, atol=1e-10)


@pytest.mark.parametrize("d", [0, 1])
@pytest.mark.parametrize("cuts", [[], [1], [2, 5]], ids=str)
def test_new_rows_pass_the_filter_as_if_they_had_been_there(d, cuts):
    X = np.cumsum(series(140, 2), axis=0) if d else series(140, 2)
    U = np.random.default_rng(0).normal(size=(140, 1))
    model = fixed(2, 2, d=d, exog_lags=1).fit(X[:130], exog=U[:130])
    predicted, expected = [], []
    for rows, inputs in zip(np.split(X[130:], cuts), np.split(U[130:], cuts), strict=True):
        expected += [model._model.advance(model._past, rows, inputs).predicted]
        for row, u in zip(rows, inputs, strict=True):
            predicted.append(model.forecast(1, exog=u[None]).mean[0])
            model.update(row[None], exog=u[None])
    np.testing.assert_allclose(predicted, np.vstack(expected), atol=1e-9)
    whole = fixed(2, 2, d=d, exog_lags=1).fit(X[:130], exog=U[:130]).update(X[130:], exog=U[130:])
    ahead = np.zeros((6, 1))
    np.testing.assert_allclose(
        model.forecast(6, ahead).mean, whole.forecast(6, ahead).mean, atol=1e-9
    )


@pytest.mark.parametrize("loss", ["huber", "smoothed_l1"])
def test_losses_against_outliers_keep_the_coefficients(loss):
    random = np.random.default_rng(0)
    U = random.normal(size=(150, 1))
    X = U @ [[2.0, -1.0]] + 0.3 * random.normal(size=(150, 2))
    rows = [30, 70, 71, 110, 133]
    X[rows] += 15 * np.sign(U[rows])
    choices = {"shrinkage": 0.9, "tol": 1e-3}
    robust, squared = (
        fixed(0, 1, loss=name, **choices).fit(X, exog=U) for name in (loss, "squared")
    )
    error = lambda model: np.abs(model.exog_[0, :, 0] - [2, -1]).max()  # noqa: E731
    assert error(robust) < 0.12 and error(robust) < error(squared) / 2
    assert robust.relative_gap_ <= 1e-3
    assert np.isfinite(robust.update(X[:5], U[:5]).forecast(3, U[:3], level=0.9).lower).all()


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_filters_of_other_losses_forecast_as_their_solution_does(loss):
    random = np.random.default_rng(0)
    X = random.poisson(3.0, size=(40, 2)).astype(float) if loss == "poisson" else 3 * wave(40, 2)
    model = fixed(
        0,
        2,
        shrinkage=0.3,
        loss=loss,
        intercept=False,
        standardize=False,
        tol=1e-8,
        max_iter=20_000,
    ).fit(X)
    problem = stated(X, 0, 2, model.lam_, 0.0, loss=model._model.loss)
    W = tight(problem, 1e-8, Fista()).point.factors.dense()
    means = model._past.errors.rows(3)
    np.testing.assert_allclose(means[:2], moving_average_forecasts(problem, W), atol=2e-3)
    expected = np.exp(means + model._model.shift) if loss == "poisson" else means
    np.testing.assert_allclose(model.forecast(3).mean, expected, rtol=1e-6)
    if loss == "poisson":  # the canonical link: predictions have the mean of what they predict
        np.testing.assert_allclose(model.predict().mean(axis=0), X.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_counts_and_answers_are_predicted_through_their_link(loss):
    random, X = np.random.default_rng(0), np.zeros((160, 2))
    for t in range(1, 160):
        z = 0.3 + X[t - 1] @ [[0.25, 0.1], [0.0, 0.2]]
        X[t] = (
            random.poisson(np.minimum(np.exp(z), 20))
            if loss == "poisson"
            else random.random(2) < 1 / (1 + np.exp(-z))
        )
    model = fixed(1, 1, loss=loss, tol=1e-3).fit(X)
    assert model.relative_gap_ <= 1e-3
    mean = model.update(X[-3:]).forecast(4).mean
    assert (mean > 0).all() and (loss == "poisson" or (mean < 1).all())
    with pytest.raises(ValueError, match="residuals"):
        model.impulse_response(2)
    with pytest.raises(ValueError, match="d=0"):
        fixed(1, 1, d=1, loss=loss).fit(X)


def poisson_series(n, rng, overdispersed=False):
    counts = np.full(n, 3.0)
    for t in range(1, n):
        mean = np.exp(0.8 + 0.08 * counts[t - 1])
        if overdispersed:
            mean *= rng.gamma(4, 1 / 4)
        counts[t] = rng.poisson(mean)
    return counts


@pytest.mark.parametrize("overdispersed", [False, True])
def test_intervals_of_counts_are_quantiles_of_the_sum_over_all_counts_between(overdispersed):
    """Two steps ahead: the counts of the first step are summed over, with scipy's distributions."""
    counts = poisson_series(200, np.random.default_rng(3), overdispersed)
    model = fixed(1, 0, loss="poisson", tol=1e-6).fit(counts)
    means = model.predict()[:, 0]
    seen = counts[1:]
    freedom = model._freedom
    squares = np.square(seen - means) / (1 - freedom / len(seen))
    excess = max((squares - means).sum() / np.square(means).sum(), 1e-9)
    assert (excess > 0.1) == overdispersed

    def counts_of(mean):
        size = 1 / excess
        return nbinom(size, size / (size + mean))

    def mean_after(count):
        return np.exp(model.intercept_[0] + model._model.shift[0] + model.ar_[0, 0, 0] * count)

    between = np.arange(200)
    first = counts_of(mean_after(counts[-1]))
    second = counts_of(mean_after(between))
    for level in (0.5, 0.8, 0.95):
        found = model.forecast(2, level=level)
        low, high = (1 - level) / 2, (1 + level) / 2
        assert found.lower[0, 0] == first.ppf(low)
        assert found.upper[0, 0] == first.ppf(high)
        for limit, share in ((found.lower[1, 0], low), (found.upper[1, 0], high)):
            assert first.pmf(between) @ second.cdf(limit) >= share - 0.01
            assert first.pmf(between) @ second.cdf(limit - 1) <= share + 0.01
    again = model.forecast(2, level=0.95)
    np.testing.assert_array_equal(again.upper, found.upper)


def test_intervals_of_counts_cover_what_follows():
    rng = np.random.default_rng(8)
    inside = []
    for _ in range(12):
        counts = poisson_series(130, rng, overdispersed=True)
        found = fixed(1, 1, loss="poisson", tol=1e-3).fit(counts[:120]).forecast(10, level=0.9)
        inside.append((found.lower[:, 0] <= counts[120:]) & (counts[120:] <= found.upper[:, 0]))
    assert 0.85 <= np.mean(inside) <= 0.99


def test_futures_of_counts_follow_the_filter():
    """The mean of the step after a given count is that of a filter over it."""
    counts = poisson_series(300, np.random.default_rng(4))
    model = fixed(1, 1, loss="poisson", shrinkage=0.05, tol=1e-5).fit(counts)
    noise = model._count_noise
    shares = np.full((3, 2, 1), 0.5)
    shares[:, 0, 0] = (0.02, 0.5, 0.98)
    first = noise.paths(model._past, np.zeros((2, 0)), shares)[:, 0]
    assert len(set(first[:, 0])) == 3
    drawn = model.simulate(2, n_paths=4000, random_state=0)
    assert drawn.shape == (4000, 2, 1)
    np.testing.assert_array_equal(drawn, np.rint(drawn))
    for count in first[:, 0]:
        after = copy.deepcopy(model).update([[count]]).forecast(1).mean[0, 0]
        chosen = drawn[drawn[:, 0, 0] == count, 1, 0]
        error = chosen.std() / np.sqrt(len(chosen))
        assert abs(chosen.mean() - after) < 4 * error + 0.02 * after


def test_intervals_of_answers_are_answers():
    rng = np.random.default_rng(5)
    answers = (rng.random((150, 2)) < [0.5, 0.02]).astype(float)
    found = fixed(1, 0, loss="logistic", tol=1e-3).fit(answers).forecast(3, level=0.9)
    np.testing.assert_array_equal(found.lower[:, 0], 0)
    np.testing.assert_array_equal(found.upper[:, 0], 1)
    np.testing.assert_array_equal(found.upper[:, 1], 0)


def test_shocks_are_found_and_do_not_bend_the_coefficients():
    X = series(200, 2, q=0, seed=1)
    dirty = X.copy()
    dirty[[50, 120]] += 40
    clean, bent = (fixed(1, 1, shrinkage=1.0).fit(Z) for Z in (X, dirty))
    model = fixed(1, 1, shrinkage=0.15, shocks=True).fit(dirty)
    times = np.arange(200)[-len(model.shocks_) :]
    assert set(times[np.argsort(-model.shocks_)[:2]]) == {50, 120}
    assert np.abs(model.ar_ - clean.ar_).max() < np.abs(bent.ar_ - clean.ar_).max()
    assert not model.ma_.any() and model.relative_gap_ <= 1e-4


def test_inputs_act_with_their_lags():
    random = np.random.default_rng(0)
    U, X = random.normal(size=(300, 1)), np.zeros((300, 2))
    for t in range(1, 300):
        X[t] = (
            0.6 * X[t - 1]
            + U[t] * [1.5, -0.7]
            + U[t - 1] * [0.0, 0.5]
            + 0.1 * random.normal(size=2)
        )
    free = fixed(1, 1, shrinkage=1.0, ridge=1e-6, exog_lags=1).fit(X, exog=U)
    np.testing.assert_allclose(free.exog_[:, :, 0], [[1.5, -0.7], [0, 0.5]], atol=0.05)
    model = fixed(1, 1, exog_lags=1).fit(X, exog=U)
    future = np.array([[1.0], [0.0], [2.0]])
    by_hand, last, inputs = [], X[-1], np.vstack([U[-1:], future])
    for h in range(3):
        ma = model._past.errors.rows(3)[h]
        last = (
            model.ar_[0] @ last
            + model.exog_[0] @ inputs[h + 1]
            + model.exog_[1] @ inputs[h]
            + model.intercept_
            + ma
        )
        by_hand.append(last)
    np.testing.assert_allclose(model.forecast(3, exog=future).mean, by_hand, atol=1e-10)
    with pytest.raises(ValueError, match="exog"):
        model.forecast(3)


def test_roots_are_scaled_with_one_warning():
    X = np.cumsum(np.cumsum(np.random.default_rng(0).normal(size=(60, 2)), axis=0), axis=0)
    free = fixed(2, 1, max_radius=None).fit(X)
    with pytest.warns(UserWarning, match="spectral radius") as caught:
        capped = fixed(2, 1, max_radius=0.9).fit(X)
    assert len(caught) == 1 and capped.scaled_ and not free.scaled_
    assert capped.radius_ == pytest.approx(0.9, rel=1e-9)
    c = 0.9 / free.radius_
    np.testing.assert_allclose(
        capped.ar_, free.ar_ * np.array([c, c * c])[:, None, None], atol=1e-10
    )
    assert np.abs(capped.residuals_.mean(axis=0)).max() < np.abs(X).max() * 0.02


@pytest.mark.parametrize("d", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_differences_are_chosen(d, seed):
    rng = np.random.default_rng(seed)
    e = rng.normal(size=(150, 2))
    X = np.zeros((150, 2))
    for t in range(1, 150):
        X[t] = (1.0 if d else 0.6) * X[t - 1] + e[t]
    model = RegularizedARMA(season=1).fit(X)
    assert model.d_ == d
    assert RegularizedARMA(p=1, season=1).fit(X).d_ == d
    assert RegularizedARMA(p=1, season=1).fit(X).p_ == 1


@pytest.mark.parametrize("criterion", [bic, aicc])
def test_orders_of_least_criterion_are_those_of_separate_regressions(criterion):
    X = np.cumsum(series(90, 2), axis=0)
    U = np.random.default_rng(1).normal(size=(90, 1))
    rows = np.arange(12, 90)
    scores = {}
    for d, most in ((0, 4), (1, 3)):
        for season, n_waves in ((1, 0), (12, 2)):
            for p in range(most + 1):
                Z = np.diff(X, n=d, axis=0)
                D = [U[rows], np.ones((78, 1))]
                D += [Z[rows - d - i] for i in range(1, p + 1)]
                for k in range(1, n_waves + 1):
                    angle = 2 * np.pi * k * rows / season
                    D += [np.cos(angle)[:, None], np.sin(angle)[:, None]]
                D = np.hstack(D)
                Y = Z[rows - d]
                left = Y - D @ np.linalg.lstsq(D, Y, rcond=None)[0]
                fit = np.linalg.slogdet(left.T @ left / 78)[1]
                scores[d, p, season] = criterion(fit, 78, 2, D.shape[1])
    given = Specification(4, 2)
    for d, most in ((0, 4), (1, 3)):
        for season, n_waves in ((1, 0), (12, 2)):
            orders = Orders(d, most, season, n_waves)
            found = _scores_of_orders(X, U, orders, given, 78, criterion)
            expected = [scores[d, p, season] for p in range(most + 1)]
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    candidates = [Orders(0, 4), Orders(1, 3)]
    found = [_scores_of_orders(X, U, orders, given, 86, criterion) for orders in candidates]
    best = choose_orders(X, U, candidates, True, given, Clock(None), criterion)
    assert found[best.d][best.p] == min(map(min, found))
    alone = choose_orders(X, U, candidates, False, given, Clock(None), criterion)
    assert found[alone.d][-1] == min(scores[-1] for scores in found)


@pytest.mark.parametrize("d", [0, 1])
def test_a_season_is_found_and_goes_on(d):
    rng = np.random.default_rng(3)
    t = np.arange(132)
    wave = 3 * np.cos(2 * np.pi * t / 12 + 1)
    X = np.column_stack([wave, 2 * wave]) + 0.3 * rng.normal(size=(132, 2))
    if d:
        X = X + np.cumsum(0.3 * rng.normal(size=(132, 2)), axis=0)
    model = RegularizedARMA().fit(X[:120])
    assert model.season_ == 12
    assert model.waves_.shape == (2, 2)
    error = model.forecast(12).mean - X[120:]
    assert np.sqrt(np.mean(error**2)) < (2.0 if d else 0.6)
    assert RegularizedARMA().fit(rng.normal(size=(120, 2))).season_ == 1
    later = RegularizedARMA(season=12, p=1, d=d).fit(X[:120])
    expected = later.forecast(12).mean[5:]
    np.testing.assert_allclose(
        later.update(later.forecast(5).mean).forecast(7).mean, expected, atol=1e-8
    )


@pytest.mark.parametrize("walk", [False, True])
def test_the_minnesota_ridge_is_the_posterior_mean_of_its_prior(walk):
    """Standardized series, W = 0: B has prior deviations tightness / lag around I or 0."""
    X = np.cumsum(series(80, 2), axis=0)
    ridge = MinnesotaRidge(0.3, walk, 0.5)
    given = Specification(p=3, q=0, ridge=ridge, standardize=False)
    problem = ArmaProblem.of(Series.of(X, np.zeros((80, 0))), given).shrunk(1.0)
    solution = solve(problem, tol=1e-10)
    model = problem.model(solution.point.coefficients, np.zeros((1, 2, 2)))
    D = regressors(X, np.zeros((80, 0)), 3, 0, True)
    prior = np.zeros((7, 2))
    if walk:
        prior[:2] = np.eye(2)
    strengths = np.append(0.5 * (np.repeat([1, 2, 3], 2) / 0.3) ** 2, 0)
    A = D.T @ D + np.diag(strengths)
    expected = np.linalg.solve(A, D.T @ X[3:] + strengths[:, None] * prior)
    np.testing.assert_allclose(model.ar.transpose(0, 2, 1).reshape(6, 2), expected[:6], atol=1e-6)
    np.testing.assert_allclose(model.intercept, expected[6], atol=1e-6)
    np.testing.assert_allclose(problem.smoothed(solution.point), D @ expected, atol=1e-6)


def test_the_minnesota_ridge_shrinks_noise_to_zero_and_walks_to_walks():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(100, 3))
    model = RegularizedARMA(p=4, d=0, season=1, shrinkage=1.0).fit(noise)
    assert not model.ridge_.walk
    assert np.abs(model.ar_).max() < 0.1
    walks = np.cumsum(noise, axis=0)
    model = RegularizedARMA(p=4, d=0, season=1, shrinkage=1.0, max_radius=None).fit(walks)
    assert model.ridge_.walk
    assert np.abs(model.ar_[0] - np.eye(3)).max() < 0.2


def test_defaults_certify_and_forecast_count_series_without_differences():
    counts = np.random.default_rng(5).poisson(4, size=(80, 1))
    model = RegularizedARMA(loss="poisson", tol=1e-3).fit(counts)
    assert model.d_ == 0
    assert np.all(model.forecast(3).mean > 0)
    X = np.cumsum(series(100, 3), axis=0)
    assert RegularizedARMA().fit(X).relative_gap_ <= 1e-4


def test_the_shrinkage_is_chosen_by_validation():
    heavy = make_varma(250, 3, 1, 3, ma_radius=0.9, random_state=1)
    model = fixed(1, 3, shrinkage="auto").fit(heavy)
    assert model.shrinkages_[0] == 1.0 and len(model.validation_loss_) == len(model.shrinkages_)
    assert model.shrinkage_ == model.shrinkages_[np.argmin(model.validation_loss_)] < 1
    noise = np.random.default_rng(0).normal(size=(60, 2))
    assert fixed(1, 0, shrinkage="auto").fit(noise).shrinkage_ == 1.0


def test_unobserved_are_tolerated():
    X = series(150, 3)
    holed = X.copy()
    holed[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    model, full = fixed(1, 1).fit(holed), fixed(1, 1).fit(X)
    assert np.abs(model.ar_ - full.ar_).max() < 0.3
    assert np.isfinite(model.forecast(5, level=0.9).lower).all()
    new = X[:4].copy()
    new[1] = np.nan
    skipped = clone(model).fit(holed).update(new[:1])
    np.testing.assert_allclose(
        model.update(new[:2]).forecast(3).mean, skipped.forecast(4).mean[1:], atol=1e-9
    )


def dense_cells(model, levels, missing):
    """Means and covariance of missing cells from the joint normal law of all rows after the first.

    Levels are a linear function of innovations, given the rows before the first innovation.
    """
    T, n = levels.shape
    first = model._model.start + model.d_
    count = (T - first) * n
    zero = np.zeros((T, 0))

    def run(innovations):
        full = levels.copy()
        past = model._model.begin(
            Series.of(levels[:first], zero[:first], model.d_), np.zeros((0, n))
        )[1]
        full[first:] = model._model.paths(past, zero[first:], innovations[None])[0]
        return full[first:].ravel()

    mean = run(np.zeros((T - first, n)))
    J = np.column_stack([run(np.eye(count)[i].reshape(-1, n)) - mean for i in range(count)])
    S = J @ np.kron(np.eye(T - first), model.sigma_) @ J.T
    m = missing[first:].ravel()
    gain = np.linalg.solve(S[np.ix_(~m, ~m)], S[np.ix_(~m, m)]).T
    seen = levels[first:].ravel()
    return mean[m] + gain @ (seen - mean)[~m], S[np.ix_(m, m)] - gain @ S[np.ix_(~m, m)]


@pytest.mark.parametrize("d", [0, 1])
@pytest.mark.parametrize("q", [0, 2])
def test_missing_cells_have_the_law_of_the_model_given_all_others(d, q):
    X = series(40, 2)
    if d:
        X = np.cumsum(X, axis=0)
    model = fixed(2, q, d=d).fit(X)
    missing = np.zeros(X.shape, dtype=bool)
    missing[[10, 20, 21, 22, 39], 0] = True
    missing[[10, 30, 31], 1] = True
    seen = np.where(missing, np.nan, X)
    found = cell_posterior(model._model, seen, np.zeros((40, 0)), model.sigma_)
    means, covariance = dense_cells(model, X, missing)
    np.testing.assert_allclose(found.means[missing], means, atol=1e-5)
    np.testing.assert_allclose(found.variances[missing], np.diag(covariance), rtol=1e-5)
    np.testing.assert_array_equal(found.means[~missing], X[~missing])
    assert np.all(found.variances[~missing] == 0)


@pytest.mark.parametrize("d", [0, 1])
def test_forecasts_are_missing_cells_to_come(d):
    X = np.cumsum(series(80, 2), axis=0)
    model = fixed(2, 2, d=d, max_radius=None).fit(X)
    ahead = np.concatenate([X, np.full((6, 2), np.nan)])
    found = cell_posterior(model._model, ahead, np.zeros((86, 0)), model.sigma_)
    np.testing.assert_allclose(found.means[80:], model.forecast(6).mean, atol=1e-4)
    psi = model.impulse_response(5)
    np.testing.assert_allclose(
        found.variances[80:], forecast_variances(psi, model.sigma_), rtol=1e-4
    )
    np.testing.assert_allclose(found.innovations, model.sigma_, rtol=0.4, atol=0.2)


def test_intervals_widen_over_gaps_and_updates_close_them():
    X = series(120, 2)
    gap = X.copy()
    gap[110:, 0] = np.nan
    full = fixed(1, 1).fit(X).forecast(1, level=0.9)
    model = fixed(1, 1).fit(gap)
    found = model.forecast(1, level=0.9)
    assert np.all((found.upper - found.lower)[:, 0] > 1.05 * (full.upper - full.lower)[:, 0])
    table = model.complete()
    lower, upper = model.complete_interval(0.9)
    np.testing.assert_array_equal(table[~np.isnan(gap)], X[~np.isnan(gap)])
    assert np.all((lower <= table) & (table <= upper))
    assert np.all((lower < upper)[110:, 0])
    at_once = fixed(1, 1).fit(gap[:100]).update(gap[100:])
    by_row = fixed(1, 1).fit(gap[:100])
    for row in gap[100:]:
        by_row.update(row[None])
    np.testing.assert_allclose(by_row.forecast(3).mean, at_once.forecast(3).mean, atol=1e-8)
    assert len(at_once.complete()) == 120


@pytest.mark.parametrize("d", [0, 1])
def test_intervals_hold_with_gaps(d):
    hits = []
    cells = []
    for seed in range(16):
        X = series(140, 2, seed=seed, ar_radius=0.8)
        if d:
            X = np.cumsum(X, axis=0)
        rng = np.random.default_rng(seed)
        missing = rng.random((130, 2)) < 0.15
        missing[-3:, 0] = True
        model = RegularizedARMA(season=1).fit(np.where(missing, np.nan, X[:130]))
        ahead = model.forecast(10, level=0.9)
        hits.append(((ahead.lower <= X[130:]) & (X[130:] <= ahead.upper)).mean())
        lower, upper = model.complete_interval(0.9)
        cells.append(((lower <= X[:130]) & (X[:130] <= upper))[missing].mean())
    assert 0.8 <= np.mean(hits) <= 0.97
    assert 0.82 <= np.mean(cells) <= 0.97


def test_pandas_times_go_on_into_the_future():
    X = series(60, 2)
    months = pd.date_range("2001-01-31", periods=60, freq="ME", name="when")
    frame = pd.DataFrame(X, columns=["a", "b"], index=months)
    forecast = fixed(1, 1).fit(frame).forecast(3, level=0.9)
    made = forecast.to_frame()
    assert list(made.columns) == ["a", "b", "a_lower", "b_lower", "a_upper", "b_upper"]
    pd.testing.assert_index_equal(
        made.index, pd.date_range("2006-01-31", periods=3, freq="ME", name="when")
    )
    np.testing.assert_array_equal(made[["a", "b"]], forecast.mean)
    quarters = frame.set_axis(pd.period_range("2000Q1", periods=60, freq="Q"))
    made = fixed(1, 1).fit(quarters).forecast(2).to_frame()
    assert [str(t) for t in made.index] == ["2015Q1", "2015Q2"]
    bare = fixed(1, 1).fit(frame.set_axis(pd.DatetimeIndex(list(months)))).forecast(1).to_frame()
    assert bare.index[0] == pd.Timestamp("2006-01-31")
    uneven = frame.set_axis(months[:59].append(pd.DatetimeIndex(["2030-01-01"])))
    with pytest.raises(ValueError, match="follow no rule"):
        fixed(1, 1).fit(uneven).forecast(1).to_frame()


def test_updated_times_go_on_too():
    index = pd.date_range("2020-01-01", periods=70, freq="D")
    frame = pd.DataFrame(series(70, 2), columns=["a", "b"], index=index)
    model = fixed(1, 1).fit(frame[:60])
    fitted = model.predict()
    pd.testing.assert_index_equal(fitted.index, index[1:60], check_names=False)
    assert model.update(frame[60:65]).forecast(1).to_frame().index[0] == index[65]
    assert len(model.predict()) == 59


def test_a_frame_without_pandas_names_the_remedy(monkeypatch):
    forecast = fixed(1, 1).fit(series(60, 2)).forecast(3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install pandas"):
        forecast.to_frame()


def test_polars_arrays_and_vectors_are_taken():
    X = series(60, 2)
    frame = pl.DataFrame(X, schema=["a", "b"])
    model = fixed(1, 1).fit(frame)
    made = model.forecast(2, level=0.8).to_frame()
    assert (
        isinstance(made, pl.DataFrame) and made.columns[:2] == ["a", "b"] and made.shape == (2, 6)
    )
    assert isinstance(model.predict(), pl.DataFrame)
    array = fixed(1, 1).fit(X)
    np.testing.assert_allclose(array.forecast(2).mean, model.forecast(2).mean)
    assert list(array.forecast(2).to_frame().index) == [60, 61]
    single = pd.Series(X[:, 0], name="only")
    assert list(fixed(1, 1).fit(single).forecast(2).to_frame().columns) == ["only"]
    assert fixed(1, 1).fit(X[:, 0]).forecast(2).shape == (2, 1)
    assert np.asarray(array.forecast(2)).shape == (2, 2) and len(array.forecast(2)) == 2
    assert array.forecast(2)[0, 1] == array.forecast(2).mean[0, 1]
    assert SeriesRows.of(X).times.last(3) is None


def test_simulations_after_gaps_have_the_distribution_of_the_forecast():
    X = series(120, 2, q=1)
    X[30:36, 0] = np.nan
    X[-3:, 1] = np.nan
    model = fixed(1, 1).fit(X)
    paths = model.simulate(3, n_paths=6000, random_state=0)
    assert paths.shape == (6000, 3, 2)
    ahead = model.forecast(3, level=0.8)
    variances = cell_posterior(
        model._model, *model._with_unknown(np.zeros((3, 0))), model.sigma_
    ).variances[-3:]
    deviations = np.sqrt(variances)
    np.testing.assert_array_less(abs(paths.mean(axis=0) - ahead.mean) / deviations, 0.05)
    np.testing.assert_allclose(paths.std(axis=0), deviations, rtol=0.04)
    assert deviations[0, 1] > 1.1 * np.sqrt(model.sigma_[1, 1])  # of a row after missing ones
    follows = model.update(X[:2]).simulate(1, n_paths=2, random_state=0)
    assert np.isfinite(follows).all()


def test_float32_stays():
    X = series(60, 2).astype(np.float32)
    model = fixed(1, 1).fit(X)
    assert model.forecast(2, level=0.9).lower.dtype == model.predict().dtype == np.float32


def test_simulations_scatter_as_the_intervals_say():
    model = fixed(1, 2).fit(series(200, 2, q=2))
    paths = model.simulate(4, n_paths=4000, random_state=0)
    assert paths.shape == (4000, 4, 2)
    np.testing.assert_array_equal(paths, model.simulate(4, n_paths=4000, random_state=0))
    np.testing.assert_allclose(paths.mean(axis=0), model.forecast(4).mean, atol=0.15)
    psi = model.impulse_response(3)
    spread = np.cumsum([np.diag(P @ model.sigma_ @ P.T) for P in psi], axis=0)
    np.testing.assert_allclose(paths.var(axis=0), spread, rtol=0.1)


def test_score_tells_how_much_one_step_predictions_explain():
    X = series(160, 2, seed=2)
    model = fixed(1, 1).fit(X[:120])
    before = model.forecast(1).mean
    inside = (
        1 - np.square(model.residuals_).sum() / np.square(X[1:120] - X[:120].mean(axis=0)).sum()
    )
    assert model.score() == pytest.approx(inside)
    assert 0 < model.score(X[120:]) < 1
    np.testing.assert_array_equal(model.forecast(1).mean, before)


def test_models_are_cloned_pickled_and_shown():
    X, model = series(60, 2), fixed(p=1, q=1, shrinkage=0.2)
    assert clone(model).get_params() == model.get_params()
    assert "shrinkage=0.2" in repr(model) and RegularizedARMA().set_params(q=3).q == 3
    fitted = model.fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        again.forecast(3, level=0.9).upper, fitted.forecast(3, level=0.9).upper
    )
    assert not {"B_", "E_", "W_", "codes_", "components_"} & set(vars(fitted))
    assert "global optimum" in str(fitted.certificate_)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_no_attributes_set_in_init,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_parameters_default_constructible,
        checks.check_estimator_repr,
        checks.check_estimator_cloneable,
        checks.check_dont_overwrite_parameters,
        checks.check_dict_unchanged,
        checks.check_estimators_unfitted,
        checks.check_n_features_in,
        checks.check_estimators_pickle,
        checks.check_do_not_raise_errors_in_init_or_set_params,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learns_checks_of_parameters_and_pickles_pass(check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their tables are no time series
        check("RegularizedARMA", RegularizedARMA(p=1, q=1))


def test_the_run_can_be_watched_and_stopped(capsys):
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        fixed(2, 2, tol=1e-12, callback=lambda it: seen.append(it.objective) or len(seen) > 2).fit(
            series()
        )
    assert len(seen) == 3
    fixed(1, 1, verbose=1).fit(series())
    assert "objective" in capsys.readouterr().err


def test_a_failed_fit_leaves_nothing_to_forecast_with():
    model = fixed(p=70)
    with pytest.raises(ValueError, match="orders"):
        model.fit(series(60, 2))
    with pytest.raises(NotFittedError):
        model.forecast(1)


@pytest.mark.parametrize(
    "row", [lambda X: X[0], lambda X: X[0].tolist(), lambda X: pd.DataFrame(X).iloc[0]]
)
@pytest.mark.parametrize("call", ["update", "score"])
def test_a_row_without_its_table_is_answered_with_how_to_give_it(row, call):
    X = series(60, 2)
    model = fixed(1, 1).fit(X)
    with pytest.raises(ValueError, match=r"one dimension, but the model has 2 series.*S\[:1\]"):
        getattr(model, call)(row(X))
    assert fixed(1, 1).fit(X[:, 0]).update(X[:5, 0]).forecast(1).shape == (1, 1)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_dates_is_named_with_what_to_do(kind):
    X = series(60, 2)
    frame = kind({"month": ["2010-01-01"] * 60, "a": X[:, 0], "b": X[:, 1]})
    remedy = (
        r"set it as the index, X.set_index\('month'\)" if kind is pd.DataFrame else "leave it out"
    )
    with pytest.raises(ValueError, match=f"Column 'month' of X holds .*2010-01-01.*{remedy}"):
        fixed(1, 1).fit(frame)
    with pytest.raises(ValueError, match="'b' of X holds 'soon' in row 1, which is no number"):
        fixed(1, 1).fit(pd.DataFrame({"a": X[:, 0], "b": ["1.5", "soon"] * 30}))


@pytest.mark.parametrize("unobserved", [False, True])
@pytest.mark.parametrize("d", [0, 1])
def test_predict_takes_the_series_that_was_fitted_and_nothing_else(d, unobserved):
    X = series(60, 2)
    X[30:32, 0] = np.nan if unobserved else 0.0
    model = fixed(1, 1, d=d).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.predict())
    model.update(X[:3])
    np.testing.assert_array_equal(model.predict(X), model.predict())
    for other in (5, "nonsense", X[:5], X + 1, X[:, :1], X[::-1], np.where(np.isnan(X), 0.0, 3.0)):
        with pytest.raises(
            ValueError,
            match=r"None or the series that was fitted.*forecast\(horizon\).*update\(X\)",
        ):
            model.predict(other)


def test_the_input_is_not_changed():
    X = series(60, 2)
    X[5, 0] = np.nan
    X.setflags(write=False)
    fixed(1, 1).fit(X).update(X[:3]).score(X[:3])


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"p": "aic"}, "bic"),
        ({"q": -1}, "'q' parameter"),
        ({"p": 1.5}, "'p' parameter"),
        ({"d": -1}, "'d' parameter"),
        ({"shrinkage": 0.0}, "shrinkage"),
        ({"ridge": -1.0}, "ridge"),
        ({"max_radius": 0}, "max_radius"),
        ({"exog_lags": -1}, "exog_lags"),
        ({"loss": "absolute"}, "smooth"),
        ({"p": 58}, "Lower the orders"),
        ({"tol": -1}, "tol"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fitted(parameters, message):
    model = fixed(**({"p": 1, "q": 1} | parameters))
    with pytest.raises(ValueError, match=message):
        model.fit(series(59, 2))
    assert not hasattr(model, "ar_")


@pytest.mark.parametrize("missing", [False, True])
def test_the_time_limit_bounds_the_choice_of_the_shrinkage_too(missing):
    X = series(3000, 12, p=3, q=3)
    if missing:
        X[::50, 0] = np.nan
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = fixed(3, 3, shrinkage="auto", tol=1e-9, time_limit=0.05).fit(X)
    assert model.status_ is Status.TIME_LIMIT
    assert 1 <= len(model.validation_loss_) == len(model.shrinkages_) < 6
    assert np.isfinite(model.forecast(3).mean).all()


def test_the_solver_is_the_one_that_suits_the_loss():
    assert fixed(1, 1).fit(wave(30, 2)).solver_ == "DouglasRachford"
    assert fixed(1, 1, loss="huber", tol=0.1).fit(wave(30, 2)).solver_ == "Fista"


def test_a_stop_before_the_tolerance_is_said():
    with pytest.warns(ConvergenceWarning, match="gap"):
        model = fixed(3, 3, shrinkage=0.05, tol=1e-12, max_iter=10).fit(series(100, 3))
    assert model.gap_ > 0


def test_constant_and_tiny_series_do_no_harm():
    X = np.column_stack([np.ones(30), wave(30, 1)])
    model = fixed(1, 1).fit(X)
    np.testing.assert_allclose(model.forecast(3).mean[:, 0], 1, atol=1e-8)
    assert np.isfinite(RegularizedARMA().fit(np.zeros((10, 2))).forecast(3, level=0.9).upper).all()
    assert np.isfinite(fixed(p=0, q=1).fit(wave(20, 2)).forecast(3).mean).all()


def coverage(seeds, T=150, n=3, shrinkage=0.2, q=1, horizons=(1, 2, 5, 10)):
    hits = []
    for seed in seeds:
        X = make_varma(T + 10, n, 1, q, ar_radius=0.8, ma_radius=0.7, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a scaled radius
            forecast = fixed(1, q, shrinkage=shrinkage).fit(X[:T]).forecast(10, level=0.95)
        inside = (X[T:] >= forecast.lower) & (X[T:] <= forecast.upper)
        hits.append([inside[h - 1].mean() for h in horizons])
    return np.mean(hits, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("shrinkage", [0.2, 0.05])
def test_intervals_hold_what_they_promise(q, shrinkage):
    shares = coverage(range(200), q=q, shrinkage=shrinkage)
    assert (shares > 0.91).all() and (shares < 0.97).all(), shares


def test_a_series_without_missing_values_is_complete_as_it_is():
    X = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)
    model = RegularizedARMA(p=2, q=1).fit(X)
    np.testing.assert_array_equal(model.complete(), X)
    np.testing.assert_array_equal(model.complete_interval()[0], X)
