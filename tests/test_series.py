"""Generated vector series, and the forecasters that the thesis compares with."""

import doctest
import importlib

import numpy as np
import pytest
from sklearn.base import clone
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from regfactor.comparisons.timeseries import (
    HSEHMM,
    N4SID,
    EMKalman,
    HannanRissanen,
    _principal_start,
)
from regfactor.datasets import make_arma, make_varma
from regfactor.series.arma.criteria import aicc, bic
from regfactor.series.arma.model import radius

FORECASTERS = [
    HannanRissanen(1, 1),
    HannanRissanen(criterion="aicc", max_order=2),
    EMKalman(),
    N4SID(),
    N4SID(order=2),
    HSEHMM(),
]
every_forecaster = pytest.mark.parametrize("model", FORECASTERS, ids=str)


@pytest.mark.parametrize("p, n", [(1, 3), (2, 6), (3, 9)])
def test_blocks_turn_at_their_own_lag(p, n):
    X, A, B = make_arma(40, n, p, 2, return_parameters=True, random_state=0)
    m = n // p
    assert X.shape == (40, n) and B.shape == (3, n, n)
    np.testing.assert_allclose(np.square(B).sum(axis=(0, 1)), 1)
    for i in range(p):
        outside = A[i].copy()
        block = slice(i * m, (i + 1) * m)
        turning = outside[block, block].copy()
        outside[block, block] = 0
        assert not outside.any()
        np.testing.assert_allclose(np.abs(np.linalg.eigvals(turning)), 0.999, atol=1e-9)
        np.testing.assert_allclose(
            turning @ turning.T, 0.999**2 * np.eye(m), atol=1e-9
        )  # an orthonormal basis
    assert radius(A) == pytest.approx(0.999 ** (1 / p))  # lag i has roots of modulus decay^(1/i)


def test_readings_of_the_algorithm_are_parameters():
    _, A, B = make_arma(
        10,
        3,
        1,
        1,
        basis="random",
        decay_on="real",
        columns="squares",
        current=False,
        decay=0.5,
        period=4,
        return_parameters=True,
        random_state=0,
    )
    values = np.linalg.eigvals(A[0])
    np.testing.assert_allclose(sorted(np.abs(values)), [0.5, 1, 1], atol=1e-9)
    np.testing.assert_allclose(sorted(values.imag), [-1, 0, 1], atol=1e-9)
    assert not B[0].any() and np.abs(A[0] @ A[0].T - np.eye(3)).max() > 0.1
    with pytest.raises(ValueError, match="multiple"):
        make_arma(10, 5, 2)
    with pytest.raises(ValueError, match="orthonormal"):
        make_arma(10, 4, 2, basis="orthogonal")


def test_series_repeat_with_their_seed_and_follow_their_recursion():
    X, A, theta = make_varma(60, 2, 2, 1, return_parameters=True, random_state=3)
    np.testing.assert_array_equal(X, make_varma(60, 2, 2, 1, random_state=3))
    assert radius(A) == pytest.approx(0.8) and radius(-theta) == pytest.approx(0.6)
    sigma = np.array([[2.0, 0.5], [0.5, 1.0]])
    long, A, _ = make_varma(6000, 2, 1, 0, sigma=sigma, return_parameters=True, random_state=0)
    v = long[1:] - long[:-1] @ A[0].T
    np.testing.assert_allclose(v.T @ v / len(v), sigma, atol=0.15)


@every_forecaster
def test_forecasters_beat_the_mean_one_step_ahead(model):
    errors = []
    for seed in range(12):
        X = make_varma(201, 2, 1, 1, ar_radius=0.9, random_state=seed)
        forecast = clone(model).fit(X[:200]).forecast(5)
        assert forecast.shape == (5, 2) and np.isfinite(forecast).all()
        errors.append(
            [np.square(X[200] - guess).sum() for guess in (forecast[0], X[:200].mean(axis=0))]
        )
    ours, mean = np.median(errors, axis=0)
    assert ours < 0.8 * mean


def test_hannan_rissanen_finds_the_coefficients():
    X, A, theta = make_varma(8000, 2, 1, 1, return_parameters=True, random_state=1)
    model = HannanRissanen(1, 1).fit(X)
    np.testing.assert_allclose(model.ar_, A, atol=0.06)
    np.testing.assert_allclose(model.ma_, theta, atol=0.08)
    np.testing.assert_allclose(model.sigma_, np.eye(2), atol=0.06)
    chosen = HannanRissanen(max_order=2).fit(X)
    assert (chosen.p_, chosen.q_) == (1, 1)
    by_hand = model.intercept_ + model.ar_[0] @ X[-1] + model.ma_[0] @ model._errors[-1]
    np.testing.assert_allclose(model.forecast(1)[0], by_hand)


def test_subspace_identification_finds_the_roots():
    X, A, _ = make_varma(8000, 2, 1, 0, return_parameters=True, random_state=2)
    model = N4SID().fit(X)
    assert model.order_ == 2
    roots = sorted(np.linalg.eigvals(model.transition_), key=abs)
    np.testing.assert_allclose(roots, sorted(np.linalg.eigvals(A[0]), key=abs), atol=0.05)
    np.testing.assert_allclose(model.sigma_, np.eye(2), atol=0.06)
    closed = model.transition_ - model.gain_ @ model.output_
    assert np.abs(np.linalg.eigvals(closed)).max() < 1
    with pytest.raises(ValueError, match="blocks"):
        N4SID(blocks=10).fit(X[:30])


def test_embedded_chains_follow_a_cycle():
    """A noisy cycle of three points has hidden states that a linear model of order one also needs."""
    random = np.random.default_rng(0)
    corners = np.array([[1.0, 0], [-0.5, 0.9], [-0.5, -0.9]])
    X = corners[np.arange(150) % 3] + 0.05 * random.normal(size=(150, 2))
    np.testing.assert_allclose(
        HSEHMM(n_states=3).fit(X).forecast(6), corners[np.arange(150, 156) % 3], atol=0.2
    )
    np.testing.assert_allclose(HSEHMM(n_states=5).fit(X).weights_.sum(), 1)


@pytest.mark.parametrize("order", [None, 1])
def test_em_kalman_is_that_of_the_state_space_model_of_statsmodels(order):
    X = make_varma(90, 3, 1, 1, random_state=4)
    model = EMKalman(order=order, max_iter=15, tol=0).fit(X)
    likelihoods = np.array(model.log_likelihood_)
    assert len(likelihoods) == 16
    assert np.all(np.diff(likelihoods) > -1e-6 * abs(likelihoods[-1]))
    Z = X - model.mean_
    k = order or 3
    start = _principal_start(Z, k)
    found = start.smoothed(Z)
    assert found.log_likelihood == pytest.approx(likelihoods[0])
    peer = KalmanSmoother(3, k, design=start.C, transition=start.A, selection=np.eye(k))
    peer["state_cov"] = start.Q
    peer["obs_cov"] = start.R
    peer.initialize_known(start.start, start.spread)
    peer.bind(np.ascontiguousarray(Z))
    expected = peer.smooth()
    assert found.log_likelihood == pytest.approx(expected.llf, rel=1e-9)
    np.testing.assert_allclose(found.means, expected.smoothed_state.T, atol=1e-8)
    np.testing.assert_allclose(
        found.covariances, expected.smoothed_state_cov.transpose(2, 0, 1), atol=1e-8
    )
    lagged = expected.smoothed_state_autocov[:, :, : len(Z) - 1].transpose(2, 0, 1)
    np.testing.assert_allclose(found.lagged[:-1], lagged, atol=1e-8)


def test_em_kalman_forecasts_a_rotation_and_refuses_too_many_states():
    t = np.arange(120)
    X = np.column_stack([np.cos(t / 5), np.sin(t / 5)])
    X = X + 0.05 * np.random.default_rng(0).normal(size=X.shape)
    ahead = np.arange(120, 126)
    expected = np.column_stack([np.cos(ahead / 5), np.sin(ahead / 5)])
    model = EMKalman().fit(X)
    np.testing.assert_allclose(model.forecast(6), expected, atol=0.15)
    assert abs(model.radius_ - 1) < 0.02
    with pytest.raises(ValueError, match="order <= the number of series, 2"):
        EMKalman(order=3).fit(X)


def test_criteria_are_those_of_the_literature():
    assert bic(2.0, 100, 3, 7) == pytest.approx(200 + np.log(100) * 21)
    assert aicc(2.0, 100, 3, 7) == pytest.approx(100 * 5 + 2 * 100 / 89 * (21 + 6))
    assert aicc(2.0, 10, 3, 7) == np.inf


@pytest.mark.parametrize("name", ["regfactor.comparisons.timeseries", "regfactor.datasets.series"])
def test_examples_give_what_they_say(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0
