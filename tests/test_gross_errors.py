"""Entries far from all others of their column, and predictions of views that leave them out."""

import warnings

import numpy as np
import pytest

from regfactor import (
    AutoImputer,
    ConvexSubspace,
    MultiViewSubspace,
    RobustSubspace,
    TwoViewSubspace,
)
from regfactor.fitting.gross_errors import GrossErrors, largest_share


def views(seed, n=240, noise=0.2):
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, 3))
    X = Z @ random.normal(size=(3, 8)) + noise * random.normal(size=(n, 8))
    Y = Z @ random.normal(size=(3, 5)) + noise * random.normal(size=(n, 5))
    return X, Y


def corrupted(X, share, size, seed):
    random = np.random.default_rng(seed)
    wrong = random.random(X.shape) < share
    return np.where(wrong, X + size * random.choice([-1, 1], X.shape), X), wrong


def relative_error(found, truth):
    return np.mean((found - truth) ** 2) / truth.var()


def test_far_entries_are_found_and_no_others():
    X, _ = views(0)
    dirty, wrong = corrupted(X, 0.05, 1e6, 1)
    np.testing.assert_array_equal(GrossErrors.fit(dirty).find(dirty), wrong)
    dirty[3, 2] = np.nan
    assert not GrossErrors.fit(dirty).find(dirty)[3, 2]
    assert not GrossErrors.fit(X).find(X).any()


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(2).lognormal(0, 3, 400),  # sizes of firms
        np.maximum(np.random.default_rng(3).normal(-0.65, 1, 400), 0),  # three quarters are zero
        np.random.default_rng(4).poisson(0.3, 400).astype(float),
        np.r_[np.zeros(399), 7.0],
        np.full(400, 5.0),
        np.repeat([0.0, 1000.0], [220, 180]) + np.random.default_rng(5).normal(size=400),
        np.random.default_rng(16).lognormal(0, 3, 400) * np.tile([-1, 1], 200),  # gains and losses
        np.random.default_rng(17).standard_cauchy(400) + 1000,
    ],
    ids=[
        "heavy tail",
        "mostly zero",
        "rare counts",
        "one other",
        "constant",
        "two groups",
        "heavy tails",
        "heavy tail off zero",
    ],
)
def test_columns_that_are_merely_skewed_have_no_gross_errors(column):
    X = np.column_stack([column, np.random.default_rng(6).normal(size=(400, 2))])
    assert not GrossErrors.fit(X).find(X).any()


def test_a_negative_entry_of_a_positive_column_is_judged_by_its_distance_alone():
    X = np.random.default_rng(7).lognormal(0, 0.5, (100, 3))
    limits = GrossErrors.fit(X)
    new = X[:2].copy()
    new[0, 1] = -1e6
    np.testing.assert_array_equal(np.argwhere(limits.find(new)), [[0, 1]])


def test_a_row_that_is_far_off_throughout_is_one_of_a_distant_cluster():
    X, _ = views(8)
    X[5] += 1e6
    assert not GrossErrors.fit(X).find(X).any()


def test_a_column_without_an_entry_has_no_limits():
    X = np.column_stack([np.arange(9.0), np.full(9, np.nan), np.arange(9.0) ** 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not GrossErrors.fit(X).find(X).any()


def test_few_columns_have_more_gross_errors_than_a_tenth_and_a_half_by_chance():
    for n in (14, 30, 150):
        counts = np.random.default_rng(9).binomial(n, 0.1, 20000)
        assert np.mean(counts > largest_share(n) * n) < 0.01


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_views_are_predicted_from_training_rows_with_gross_errors(share):
    X, Y = views(10, 480)
    dirty_X, _ = corrupted(X[:240], share, 1e6, 11)
    dirty_Y, _ = corrupted(Y[:240], share, 1e6, 12)
    for model in (TwoViewSubspace(), TwoViewSubspace(regression="linear")):
        found = model.fit(dirty_X, dirty_Y).predict_view(X1=X[240:])
        assert relative_error(found, Y[240:]) < 0.05
    several = MultiViewSubspace().fit([dirty_X, dirty_Y])
    found = several.predict_view([X[240:], None], 1)
    assert relative_error(found, Y[240:]) < 0.05


def test_a_gross_error_of_a_new_row_is_left_out():
    X, Y = views(13, 300)
    model = TwoViewSubspace().fit(X[:200], Y[:200])
    new = X[200:].copy()
    new[:, 4] = 1e6
    with pytest.warns(UserWarning, match="100 entries in 1 columns"):
        found = model.predict_view(X1=new)
    assert relative_error(found, Y[200:]) < 0.1
    with pytest.warns(UserWarning, match="100 entries in 1 columns"):
        lower, upper = model.predict_view(X1=new, level=0.9)
    assert np.abs(lower).max() < 100 and np.abs(upper).max() < 100


def test_the_squared_loss_takes_all_entries_at_their_word():
    X, Y = views(14)
    X[0, 0] = 1e6
    model = TwoViewSubspace(loss="squared", alpha=1.0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_view(X1=X).shape == Y.shape


def test_regressions_leave_out_doubtful_entries_where_that_predicts_better():
    X, Y = views(15, 900)
    dirty_X, _ = corrupted(X[:300], 0.04, 12.0, 16)
    dirty_Y, _ = corrupted(Y[:300], 0.04, 12.0, 17)
    model = TwoViewSubspace().fit(dirty_X, dirty_Y)
    assert relative_error(model.predict_view(X1=X[300:]), Y[300:]) < 0.08
    assert model._leaves_out_doubtful == {1}
    tails = TwoViewSubspace().fit(np.exp(X[:300]), np.exp(Y[:300]))
    tails.predict_view(X1=np.exp(X[:2]))
    assert tails._leaves_out_doubtful == set()


def test_one_far_entry_of_a_row_is_no_distant_cluster():
    X = np.random.default_rng(18).normal(size=(100, 3))
    X[0] = [1e9, np.nan, np.nan]
    X[1, :2] = 1e9
    np.testing.assert_array_equal(np.argwhere(GrossErrors.fit(X).find(X)), [[0, 0]])


def test_the_squared_loss_warns_of_what_decides_its_fit():
    X, _ = views(19)
    dirty = X.copy()
    dirty[7, 3] = 1e6
    with pytest.warns(UserWarning, match="1 entries .* in columns: 3. Under the squared loss"):
        ConvexSubspace(alpha=1.0).fit(dirty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConvexSubspace(alpha=1.0).fit(X)
        ConvexSubspace(alpha=1.0, loss="huber").fit(dirty)
        ConvexSubspace(alpha=1.0).fit(np.exp(3 * X))


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_gross_errors_do_not_choose_the_members_of_an_imputer(share):
    X, _ = views(20, 160, noise=0.4)
    hidden = np.random.default_rng(21).random(X.shape) < 0.2
    seen = np.where(hidden, np.nan, X)
    dirty, _ = corrupted(seen, share, 1e4, 22)
    clean = AutoImputer(random_state=0).fit(seen)
    with pytest.warns(UserWarning, match="taken for gross errors"):
        model = AutoImputer(random_state=0).fit(dirty)
    errors = []
    for fitted, table in ((clean, seen), (model, dirty)):
        errors.append(np.sqrt(np.mean((fitted.complete(table) - X)[hidden] ** 2)))
    assert errors[1] < 1.25 * errors[0]
    lower, upper = model.complete_interval(dirty, 0.9)
    covered = ((lower <= X) & (X <= upper))[hidden]
    assert 0.83 < covered.mean() < 0.97
    assert np.mean((upper - lower)[hidden]) < 1.6 * np.mean(
        np.subtract(*clean.complete_interval(seen, 0.9)[::-1])[hidden]
    )


def test_a_model_without_offsets_warns_where_these_hide_the_rest():
    X, _ = views(23)
    with pytest.warns(UserWarning, match="Column 0 and 7 others vary by less than a thousandth"):
        RobustSubspace().fit(X + 1e8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RobustSubspace().fit(X + 10)
        RobustSubspace(fit_intercept=True).fit(X + 1e8)
