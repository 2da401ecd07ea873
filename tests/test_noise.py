"""The noise of a table with gross errors, and fits whose strength follows from it."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import ndtri

from regfactor import ConvexSubspace, RobustSubspace, TwoViewSubspace
from regfactor.fitting.noise import (
    noise_deviation,
    noise_strength,
    quantile,
    robust_deviation,
    robust_units,
    within_reach,
    without_gross_errors,
)
from regfactor.losses import Huber


def rng(seed):
    return np.random.default_rng(seed)


def low_rank(seed=0, n=200, d=30, rank=3):
    random = rng(seed)
    return random.normal(size=(n, rank)) @ random.normal(size=(rank, d))


def corrupted(X, share, size, seed=1):
    random = rng(seed)
    wrong = random.random(X.shape) < share
    return X + wrong * size * random.choice([-1, 1], X.shape)


@pytest.mark.parametrize("noise", [0.05, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_noise_of_a_low_rank_table_is_found(noise, share):
    truth = low_rank()
    X = corrupted(truth + noise * rng(2).normal(size=truth.shape), share, 1e3)
    assert noise_deviation(X) == pytest.approx(noise, rel=0.5 if share else 0.2)
    assert noise_deviation(1e5 * X) == pytest.approx(1e5 * noise_deviation(X), rel=1e-6)


def test_the_strength_is_the_norm_of_noise():
    E = 0.3 * rng(3).normal(size=(300, 80))
    assert noise_strength(E, 0.3) == pytest.approx(np.linalg.norm(E, 2), rel=0.05)
    seen = np.where(rng(4).random(E.shape) < 0.4, E, np.nan)
    norm = np.linalg.norm(np.nan_to_num(seen), 2)
    assert noise_strength(seen, 0.3) == pytest.approx(norm, rel=0.07)


def test_weights_of_rows_are_repetition_counts():
    X = low_rank(5, 40, 8) + rng(5).normal(size=(40, 8))
    counts = rng(6).integers(0, 4, 40)
    repeated = np.repeat(X, counts, axis=0)
    weights = counts.astype(float)
    assert noise_deviation(X, weights) == pytest.approx(noise_deviation(repeated), rel=1e-6)
    for ours, theirs in zip(
        (robust_units(X, weights).center, robust_units(X, weights).deviation),
        (robust_units(repeated).center, robust_units(repeated).deviation),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs)
    assert quantile(np.array([3.0, 1.0, 2.0]), 0.5) == 2.0


def test_robust_units_do_not_break_down():
    X = rng(7).normal(size=(400, 3)) * [1.0, 10.0, 100.0] + 5
    units = robust_units(corrupted(X, 0.15, 1e9, 8))
    np.testing.assert_allclose(units.deviation, [1, 10, 100], rtol=0.6)
    assert robust_units(np.full((5, 1), 3.0)).deviation[0] == 1
    mostly = np.zeros((20, 1))
    mostly[:3, 0] = [2.0, 4.0, 6.0]
    assert robust_units(mostly).deviation[0] == 4.0
    stored = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(robust_units(stored).deviation, robust_units(X).deviation)


def test_entries_out_of_reach_are_moved_and_others_are_not():
    X = rng(9).normal(size=(50, 2))
    far = X.copy()
    far[3, 1] = -1e7
    far[4, 0] = np.nan
    found = within_reach(far)
    near = found.table
    assert -200 < near[3, 1] < -20 and np.isnan(near[4, 0])
    changed = near != far
    changed[4, 0] = False
    assert changed.sum() == 1
    np.testing.assert_array_equal(found.far, changed)
    assert not within_reach(far, columns=np.array([True, False])).far.any()


@pytest.mark.parametrize(("share", "size"), [(0.02, 1e4), (0.05, 1e6), (0.1, 1e6)])
def test_gross_errors_of_any_size_do_not_break_a_fit_down(share, size):
    truth = low_rank(10)
    X = corrupted(truth + 0.1 * rng(11).normal(size=truth.shape), share, size)
    model = TwoViewSubspace().fit(X[:, :12], X[:, 12:])
    assert model.relative_gap_ <= 1e-4
    for keep in (True, False):
        found = np.hstack(model.denoise(X[:, :12], X[:, 12:], keep=keep))
        assert np.linalg.norm(found - truth) < 0.2 * np.linalg.norm(truth)
    for one in (RobustSubspace(), ConvexSubspace("huber", "noise")):
        found = one.fit(X).inverse_transform(one.codes_)
        assert np.linalg.norm(found - truth) < 0.2 * np.linalg.norm(truth)


def test_kept_entries_are_the_data_themselves():
    truth = low_rank(12, 300, 40)
    X = truth + 0.8 * rng(13).normal(size=truth.shape)
    spoiled = X.copy()
    spoiled[5, 3] = 60.0
    spoiled[7, 8] = np.nan
    model = TwoViewSubspace().fit(spoiled[:, :5], spoiled[:, 5:])
    first, second = model.denoise(spoiled[:, :5], spoiled[:, 5:])
    found = np.hstack([first, second])
    assert abs(found[5, 3] - truth[5, 3]) < 4 and abs(found[7, 8] - truth[7, 8]) < 4
    kept = found == spoiled
    assert kept.mean() > 0.98 and not kept[5, 3]
    whole = np.hstack(model.denoise(spoiled[:, :5], spoiled[:, 5:], keep=False))
    new = np.hstack(model.denoise(spoiled[:20, :5], spoiled[:20, 5:], keep=False))
    np.testing.assert_allclose(new, whole[:20], atol=1e-3)
    assert np.linalg.norm(whole - truth) < np.linalg.norm(X - truth)
    np.testing.assert_array_equal(
        without_gross_errors(np.array([[1.0, 9.0]]), np.zeros((1, 2)), np.ones(2)), [[1.0, 0.0]]
    )


def test_the_strength_and_the_loss_of_the_noise_are_published():
    X = low_rank(14) + 0.3 * rng(15).normal(size=(200, 30))
    model = TwoViewSubspace(scale=False).fit(X[:, :12], X[:, 12:])
    width = np.sqrt(200) + np.sqrt(30)
    assert model.alpha_ == pytest.approx(model.noise_ * np.sqrt(2) * width)
    given = TwoViewSubspace(model.alpha_, loss=Huber(2 * model.noise_), scale=False)
    assert given.fit(X[:, :12], X[:, 12:]).objective_ == pytest.approx(model.objective_, rel=1e-4)
    assert not hasattr(given, "noise_")
    robust = RobustSubspace().fit(X)
    assert robust.beta_ == pytest.approx(2 * robust.noise_)
    assert robust.alpha_ == pytest.approx(robust.noise_ * width)
    exact = RobustSubspace(loss=None).fit(low_rank(14, 40, 12))
    assert exact.alpha_ == 1 and exact.beta_ == pytest.approx(1 / np.sqrt(40))


def test_noise_needs_residuals():
    with pytest.raises(ValueError, match="alpha='noise' needs a loss of the residual"):
        ConvexSubspace("logistic", "noise").fit(np.eye(4))
    binary = (low_rank(16, 60, 8) > 0).astype(float)
    model = TwoViewSubspace(loss="logistic").fit(binary[:, :4], binary[:, 4:])
    assert 0 < model.alpha_ < model.alpha_max_ and not hasattr(model, "noise_")


def test_a_few_gross_errors_do_not_move_the_deviation_of_a_short_column():
    normal = np.sort(np.abs(rng(30).normal(size=14)))
    wrong = normal.copy()
    wrong[-4:] = 1e6
    assert robust_deviation(wrong) == robust_deviation(normal) < 2
    assert robust_deviation(wrong[-5:]) > 1e5  # most of them are wrong
    for n in (5, 8, 14, 19, 20, 50):  # the quantiles of normal numbers give their deviation
        exact = ndtri((1 + (np.arange(n) + 1.0) / n * 0.999) / 2)
        np.testing.assert_allclose(robust_deviation(3 * exact), 3, rtol=0.25)
    counts = rng(31).integers(1, 4, 14)
    repeated = np.repeat(normal, counts)
    assert robust_deviation(normal, counts.astype(float)) == robust_deviation(repeated)


def test_gross_errors_in_tables_of_14_rows_are_found():
    missed = total = changed = right = 0
    for seed in range(20):
        draw = rng(seed)
        X = draw.normal(size=(14, 1)) @ draw.normal(size=(1, 6)) + 0.4 * draw.normal(size=(14, 6))
        X /= X.std(axis=0)
        wrong = draw.random(X.shape) < 0.05
        spoiled = X + wrong * draw.choice([-1, 1], X.shape) * draw.uniform(5, 10, X.shape)
        model = TwoViewSubspace(n_first=3).fit(spoiled)
        kept = model.denoise(spoiled) == spoiled
        missed += (kept & wrong).sum()
        total += wrong.sum()
        changed += (~kept & ~wrong).sum()
        right += (~wrong).sum()
    assert missed < 0.2 * total
    assert changed < 0.02 * right
