"""AutoImputer with entries that are known by limits: errors, logarithms, intervals, refusals."""

import numpy as np
import pandas as pd
import pytest

from regfactor import AutoImputer
from regfactor.tables.auto_imputer.limits import Limited


def measured(seed, logarithmic=False, n=150, d=6, share=0.3):
    """A table, the same with entries below limits hidden, their limits, and where they are."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) + 3
    X = Z + 0.4 * random.normal(size=(n, d))
    if logarithmic:
        X = np.exp(0.7 * X)
    limit = np.quantile(X, share, axis=0)
    hidden = limit > X
    hidden[:, 4:] = False
    observed = np.where(hidden, np.nan, X)
    observed[random.random(X.shape) < 0.05] = np.nan
    hidden &= np.isnan(observed)
    return X, observed, np.where(hidden, limit, np.nan), hidden


def error(filled, X, at):
    return np.sqrt(np.mean(((filled - X) / X.std(axis=0))[at] ** 2))


@pytest.mark.parametrize("logarithmic", [False, True])
def test_limits_beat_dropping_and_substituting(logarithmic):
    errors = []
    for seed in range(3):
        X, observed, upper, hidden = measured(seed, logarithmic)
        ours = AutoImputer(random_state=0).fit_transform(observed, upper=upper)
        dropped = AutoImputer(random_state=0).fit_transform(observed)
        halves = np.where(hidden, upper / 2, observed)
        assert (ours[hidden] <= upper[hidden]).all() and not np.isnan(ours).any()
        np.testing.assert_array_equal(ours[~np.isnan(observed)], X[~np.isnan(observed)])
        errors.append([error(table, X, hidden) for table in (ours, dropped, halves)])
    ours, dropped, halves = np.mean(errors, axis=0)
    assert ours < dropped and ours < halves


def test_held_out_entries_choose_logarithms():
    for logarithmic in (False, True):
        _, observed, upper, _ = measured(2, logarithmic)
        model = AutoImputer(random_state=0).fit(observed, upper=upper)
        expected = [logarithmic] * 4 + [False] * 2
        assert model._limit_model.logarithms.tolist() == expected


def test_intervals_of_entries_behind_limits_cover():
    covered = []
    for seed in range(4):
        X, observed, upper, hidden = measured(seed, logarithmic=seed % 2 == 0)
        model = AutoImputer(random_state=0).fit(observed, upper=upper)
        low, high = model.complete_interval(observed, 0.9, upper=upper)
        assert (high[hidden] <= upper[hidden]).all()
        covered.append(((low <= X) & (X <= high))[hidden].mean())
    assert 0.83 < np.mean(covered) < 0.97


def test_draws_stay_within_limits_and_differ():
    X, observed, upper, hidden = measured(5)
    model = AutoImputer(random_state=0).fit(observed, upper=upper)
    draws = np.array(model.sample(observed, 3, 0, upper=upper))
    assert (draws[:, hidden] <= upper[hidden]).all()
    assert (draws[:, hidden].std(axis=0) > 0).all()
    np.testing.assert_array_equal(draws[0][~np.isnan(observed)], X[~np.isnan(observed)])


def test_new_rows_and_frames_take_limits():
    X, observed, upper, hidden = measured(6)
    names = list("abcdef")
    frame = pd.DataFrame(observed, columns=names)
    frame["kind"] = np.random.default_rng(0).choice(["u", "v"], len(X))
    limits = pd.DataFrame(upper, columns=names)
    limits["kind"] = np.nan
    limits = limits[frame.columns]
    model = AutoImputer(random_state=0).fit(frame, upper=limits)
    filled = model.complete(frame.head(20), upper=limits.head(20))
    assert list(filled.columns) == list(frame.columns) and not filled.isna().any().any()
    inside = hidden[:20]
    assert (filled[names].to_numpy()[inside] <= upper[:20][inside]).all()
    both = limits.copy()
    both.loc[:, names] = np.where(hidden, 0.9 * upper - 0.1, np.nan)
    lower, _ = (
        AutoImputer(random_state=0)
        .fit(frame, lower=both, upper=limits)
        .complete_interval(frame, lower=both, upper=limits)
    )
    assert (lower[names].to_numpy()[hidden] >= both[names].to_numpy()[hidden]).all()


def test_limits_that_agree_are_numbers():
    _, observed, upper, hidden = measured(7)
    model = AutoImputer(random_state=0).fit(observed, lower=upper, upper=upper)
    filled = model.complete(observed, lower=upper, upper=upper)
    np.testing.assert_array_equal(filled[hidden], upper[hidden])


def test_bad_limits_are_refused_with_row_and_column():
    X, observed, upper, hidden = measured(8)
    frame = pd.DataFrame(observed, columns=list("abcdef"))
    limits = pd.DataFrame(upper, columns=list("abcdef"))
    i, j = np.argwhere(hidden)[0].tolist()
    name = "abcdef"[j]
    with pytest.raises(ValueError, match=rf"Row {i} has lower=.* above upper=.* column '{name}'"):
        AutoImputer().fit(frame, lower=limits + 1, upper=limits)
    i = int(np.flatnonzero(~np.isnan(observed[:, 4]))[0])
    with pytest.raises(ValueError, match=rf"Row {i} holds .* in column 'e', outside"):
        AutoImputer().fit(frame, upper=limits.assign(e=-100.0))
    plain = AutoImputer(random_state=0).fit(frame)
    with pytest.raises(ValueError, match="fitted without limits"):
        plain.complete(frame, upper=limits)
    model = AutoImputer(random_state=0).fit(frame, upper=limits)
    missing = int(np.flatnonzero(np.isnan(observed[:, 5]))[0])
    new = limits.copy()
    new.loc[missing, "f"] = 100.0
    with pytest.raises(ValueError, match="Column 'f' has limits here and had none in fit"):
        model.complete(frame, upper=new)


def test_new_limits_hide_the_numbers_next_to_them():
    E = np.array([[np.nan, 1.0], [3.0, 2.0], [1.0, np.nan], [2.0, 4.0], [5.0, 5.0], [4.0, 6.0]])
    upper = np.full(E.shape, np.inf)
    upper[0, 0] = 0.5
    lower = np.full(E.shape, -np.inf)
    lower[2, 1] = 7.0
    new = Limited(E, lower, upper).with_new_limits()
    assert new.upper[2, 0] == 2.0 and np.isnan(new.E[2, 0])
    assert new.lower[5, 1] == 5.0 and np.isnan(new.E[5, 1])
    assert new.at.sum() == 4
