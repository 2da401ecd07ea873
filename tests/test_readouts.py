"""Regressions of labels on features of rows, and the calibration of probabilities."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from catalogue import rng
from regfactor.fitting.calibration import both_classes, inverse_temperature, label_folds
from regfactor.fitting.logistic_readout import logistic_readout
from regfactor.fitting.ridge_readout import (
    PRIOR_CENTER,
    PRIOR_DEVIATION,
    column_readouts,
    ridge_readout,
)


def features(seed=0, n=30, k=4):
    random = rng(seed)
    F = random.normal(size=(n, k)) * np.array([3.0, 1.0, 0.5, 0.1])[:k]
    return F, F @ random.normal(size=(k, 1)) + 0.7 * random.normal(size=(n, 1)) + 5.0


def test_the_ridge_is_that_of_scikit_learn_at_its_strength():
    F, y = features()
    found = ridge_readout(F, y, np.ones(len(F)))
    reference = Ridge(found.strength).fit(F, y[:, 0])
    np.testing.assert_allclose(found(F)[:, 0], reference.predict(F), rtol=1e-10)


def test_the_strength_has_the_largest_restricted_likelihood():
    """By the density of contrasts of y, with the variance of the noise at its best."""
    F, y = features(1, n=15)
    n = len(F)
    contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    z = contrasts.T @ y[:, 0]
    center = PRIOR_CENTER * np.square(F - F.mean(axis=0)).sum() / n

    def likelihood(strength):
        K = contrasts.T @ (F @ F.T / strength + np.eye(n)) @ contrasts
        noise = z @ np.linalg.solve(K, z) / (n - 1)
        prior = -0.5 * (np.log(strength / center) / PRIOR_DEVIATION) ** 2
        return scipy.stats.multivariate_normal.logpdf(z, cov=noise * K) + prior

    found = ridge_readout(F, y, np.ones(n)).strength
    best = scipy.optimize.minimize_scalar(
        lambda log: -likelihood(np.exp(log)), bounds=(-20, 10), method="bounded"
    )
    step = np.log(1e10) / 80
    assert abs(np.log(found) - best.x) <= step


def test_weights_of_a_ridge_act_as_counts():
    F, y = features(2)
    times = rng(3).integers(1, 4, len(F))
    weighted = ridge_readout(F, y, times.astype(float))
    repeated = ridge_readout(np.repeat(F, times, 0), np.repeat(y, times, 0), np.ones(times.sum()))
    assert weighted.strength == pytest.approx(repeated.strength)
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-9)


def test_each_target_is_regressed_on_the_rows_that_have_it():
    F, y = features(4)
    Y = np.hstack([y, 100 * F[:, :1] - 3])
    Y[:10, 0] = np.nan
    Y[20:, 1] = np.nan
    found = column_readouts(F, Y, np.ones(len(F)))
    alone = ridge_readout(F[10:], Y[10:, :1], np.ones(20))
    np.testing.assert_allclose(found(F)[:, 0], alone(F)[:, 0])
    np.testing.assert_allclose(found(F)[:, 1], 100 * F[:, 0] - 3, atol=0.1)


@pytest.mark.parametrize("F", [np.zeros((6, 0)), np.ones((6, 2))])
def test_features_without_information_leave_the_mean(F):
    y = np.arange(6.0)[:, None]
    np.testing.assert_allclose(ridge_readout(F, y, np.ones(6))(F), 2.5)


def test_two_labels_on_a_line_are_followed_halfway_at_least():
    F = np.array([[1.0], [-1.0]])
    assert 0.5 < ridge_readout(F, F, np.ones(2))(F)[0, 0] < 1


def test_folds_take_turns_in_the_order_of_classes():
    folds = label_folds(np.eye(4)[[0, 0, 1, 0, 2, 1, 0]])  # the last class has no label
    assert folds.tolist() == [0, 1, 4, 2, -1, 0, 3]


@pytest.mark.parametrize("beta", [0.3, 1.0, 8.0])
def test_the_temperature_of_a_sample_is_found(beta):
    random = rng(5)
    energies = random.normal(size=(4000, 3))
    P = softmax(beta * energies, axis=1)
    codes = np.array([random.choice(3, p=p) for p in P])
    found = inverse_temperature(energies, np.eye(3)[codes], np.ones(len(codes)))
    assert found == pytest.approx(beta, rel=0.15)


def test_a_logistic_readout_is_a_logistic_regression_at_another_temperature():
    random = rng(6)
    F = random.normal(size=(60, 3))
    for n_classes in (2, 3):
        codes = np.digitize(F[:, 0] + random.normal(size=60), [0.0, 1.0][: n_classes - 1])
        found = both_classes(logistic_readout(F, codes, np.ones(60))(F))
        plain = both_classes(LogisticRegression(max_iter=1000).fit(F, codes).decision_function(F))
        ratio = (found - found.mean(1, keepdims=True)) / (plain - plain.mean(1, keepdims=True))
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)
        assert ratio[0, 0] < 1.5  # noisy labels are not claimed more sure than they are


def test_one_label_for_each_class_needs_no_folds():
    F = np.array([[1.0], [-1.0]])
    assert np.sign(logistic_readout(F, np.array([1, 0]), np.ones(2))(F)).ravel().tolist() == [1, -1]
