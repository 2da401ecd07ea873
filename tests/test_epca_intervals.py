"""Limits of missing entries of counts, binary tables, waiting times and numbers."""

import numpy as np
import pytest
import scipy.sparse

from regfactor import ExponentialFamilyPCA

LEVEL = 0.8


def drawn(family, n=150, d=20, seed=0):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) / 2
    if family == "poisson":
        X = random.poisson(np.exp(z + 1))
    elif family == "negative_binomial":
        X = random.poisson(np.exp(z + 1) * random.gamma(2.0, 0.5, size=z.shape))
    elif family == "binomial":
        X = random.binomial(8, 1 / (1 + np.exp(-z)))
    elif family == "gamma":
        X = random.exponential(np.exp(z / 2))
    else:
        X = 3 * z + random.normal(size=z.shape)
    return X.astype(float), random.random(X.shape) < 0.2


@pytest.mark.parametrize(
    "family", ["poisson", "negative_binomial", "binomial", "gamma", "gaussian"]
)
def test_limits_cover_hidden_entries(family):
    X, hidden = drawn(family)
    seen = np.where(hidden, np.nan, X)
    model = ExponentialFamilyPCA(2, family, trials=8, alpha=1.0).fit(seen)
    lower, upper = model.complete_interval(seen, LEVEL)
    inside = (lower <= X) & (X <= upper)
    assert inside[~hidden].all()  # observed entries are their own limits
    np.testing.assert_array_equal(lower[~hidden], X[~hidden])
    share = inside[hidden].mean()
    # limits of whole numbers hold more than they must
    assert LEVEL - 0.06 < share < LEVEL + (0.06 if family in ("gamma", "gaussian") else 0.14)
    if family not in ("gamma", "gaussian"):
        assert np.all(lower == np.round(lower)) and np.all(lower >= 0)
    wider = model.complete_interval(seen, 0.95)
    assert np.mean(wider.upper - wider.lower) > np.mean(upper - lower)


def test_exposures_scale_the_limits_of_counts():
    X, hidden = drawn("poisson")
    exposure = np.log(np.where(np.arange(len(X)) % 2, 10.0, 1.0))
    X = np.random.default_rng(1).poisson(np.exp(exposure)[:, None] * (1 + X / 3)).astype(float)
    seen = np.where(hidden, np.nan, X)
    model = ExponentialFamilyPCA(2, "poisson").fit(seen, offset=exposure)
    lower, upper = model.complete_interval(seen, LEVEL, offset=exposure)
    width = np.where(hidden, upper - lower, np.nan)
    assert np.nanmean(width[1::2]) > 2 * np.nanmean(width[::2])
    inside = ((lower <= X) & (X <= upper))[hidden]
    assert LEVEL - 0.06 < inside.mean() < LEVEL + 0.14


def test_new_rows_and_sparse_tables_have_limits_after_the_training_table():
    X, hidden = drawn("poisson")
    seen = np.where(hidden, np.nan, X)
    model = ExponentialFamilyPCA(2, "poisson").fit(seen)
    with pytest.raises(ValueError, match="of 150 rows, first"):
        model.complete_interval(seen[:5])
    all_rows = model.complete_interval(seen)
    few = model.complete_interval(seen[:5])
    np.testing.assert_allclose(few.upper, all_rows.upper[:5])
    rows, columns = np.nonzero(~hidden)
    sparse = scipy.sparse.csr_array((X[rows, columns] + 1, (rows, columns)), shape=X.shape)
    again = ExponentialFamilyPCA(2, "poisson", sparse_zeros="missing").fit(sparse)
    limits = again.complete_interval(sparse)
    assert np.all(limits.lower <= limits.upper)


def test_the_convex_form_and_row_offsets_have_limits():
    X, hidden = drawn("poisson", n=60, d=10)
    seen = np.where(hidden, np.nan, X)
    for options in ({"n_components": None, "alpha": 8.0}, {"row_offset": "fit"}):
        model = ExponentialFamilyPCA(**{"n_components": 2, "family": "poisson", **options})
        lower, upper = model.fit(seen).complete_interval(seen, LEVEL)
        assert 0.65 < np.mean(((lower <= X) & (X <= upper))[hidden]) <= 1
    gram = ExponentialFamilyPCA(2, kernel="linear").fit(X)
    with pytest.raises(ValueError, match="Gram matrix"):
        gram.complete_interval(X)
