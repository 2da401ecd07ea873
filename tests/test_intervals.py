"""How sure is a filled entry: intervals, sets of levels, draws, and estimates pooled over draws."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

from regfactor import ConvexSubspace, FactorModel, RobustSubspace, SubspaceImputer
from regfactor.fitting.leverage import leverages
from regfactor.fitting.predictive import predictive
from regfactor.inference import pool
from regfactor.losses import Logistic, NegativeBinomial, Poisson, Squared
from regfactor.penalties import Trace
from regfactor.problems import Data
from regfactor.tables.draws import FIRST_EM_STEPS
from regfactor.tables.normal_factors import NormalFactors


def rng(seed=0):
    return np.random.default_rng(seed)


def tables(seed=0, n=200, d=12, noise=0.5, missing=0.2):
    """A table and the same with missing entries."""
    random = rng(seed)
    truth = random.normal(size=(n, 3)) @ random.normal(size=(3, d))
    truth = (truth + noise * random.normal(size=(n, d))) * np.geomspace(0.1, 100, d) + 5
    return truth, np.where(random.random((n, d)) < missing, np.nan, truth)


@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace(random_state=0),
        ConvexSubspace(alpha=8.0),
        ConvexSubspace("huber", random_state=0),
        SubspaceImputer(random_state=0),
        RobustSubspace(fit_intercept=True),
        FactorModel(gauge=Trace(), alpha=8.0),
        FactorModel(rank=4, alpha=1.0, random_state=0),
    ],
    ids=str,
)
def test_intervals_cover_missing_entries_as_often_as_they_say(model):
    truth, X = tables()
    model.fit(X)
    missing = np.isnan(X)
    shares = []
    for level in (0.5, 0.9):
        lower, upper = model.complete_interval(X, level)
        assert (lower[missing] < upper[missing]).all()
        np.testing.assert_array_equal(lower[~missing], X[~missing])
        shares.append(((lower <= truth) & (truth <= upper))[missing].mean())
    assert 0.4 < shares[0] < 0.7 and 0.84 < shares[1] <= 0.99
    completed = model.complete(X)
    lower, upper = model.complete_interval(X, 0.9)
    np.testing.assert_allclose((lower + upper)[missing] / 2, completed[missing], rtol=1e-6)


def test_new_rows_have_intervals_that_widen_with_what_is_missing():
    truth, X = tables(1, n=300)
    model = ConvexSubspace(debias="prior", random_state=0).fit(X[:200])
    lower, upper = model.complete_interval(X[200:])
    missing = np.isnan(X[200:])
    covered = ((lower <= truth[200:]) & (truth[200:] <= upper))[missing].mean()
    assert 0.8 < covered < 0.99
    row = truth[:1].copy()
    row[0, 0] = np.nan
    widths = []
    for known in (11, 6, 0):
        seen = row.copy()
        seen[0, 1 + known :] = np.nan
        low, high = model.complete_interval(seen)
        widths.append(high[0, 0] - low[0, 0])
    assert widths[0] < widths[1] < widths[2]


def test_without_entries_held_out_new_rows_ask_for_the_training_table():
    _, X = tables(2, n=80)
    model = ConvexSubspace(alpha=5.0).fit(X)
    with pytest.raises(ValueError, match="training table of 80 rows first"):
        model.complete_interval(X[:5])
    model.complete_interval(X)
    model.complete_interval(X[:5])
    with pytest.raises(ValueError, match="debias='prior'"):
        ConvexSubspace(alpha=5.0, debias=True).fit(X).complete_interval(X)
    with pytest.raises(ValueError, match="level"):
        model.complete_interval(X, level=1.5)


def test_units_of_a_column_scale_its_intervals():
    _, X = tables(3, n=80)
    factors = np.ones(12)
    factors[4] = 1000.0
    one = ConvexSubspace(random_state=0).fit(X).complete_interval(X)
    other = ConvexSubspace(random_state=0).fit(X * factors).complete_interval(X * factors)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a * factors, b, rtol=1e-6)


def test_sparse_tables_have_intervals_too():
    _, X = tables(4, n=60)
    rows, columns = np.nonzero(~np.isnan(X))
    sparse = scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    lower, upper = ConvexSubspace(random_state=0).fit(sparse).complete_interval(sparse)
    assert (lower <= upper).all() and lower.shape == X.shape


def mixed_frame(seed=5, n=300):
    random = rng(seed)
    cause = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "a": cause + 0.3 * random.normal(size=n),
            "b": 100 - 20 * cause + 5 * random.normal(size=n),
            "flag": pd.array(cause + 0.5 * random.normal(size=n) > 0, dtype="boolean"),
            "size": pd.Categorical.from_codes(
                np.digitize(cause, [-0.7, 0.7]), ["S", "M", "L"], ordered=True
            ),
            "color": np.where(cause + random.normal(size=n) > 0, "red", "blue"),
        }
    )
    return frame, frame.mask(random.random(frame.shape) < 0.2)


def test_labels_have_sets_and_probabilities():
    truth, X = mixed_frame()
    model = SubspaceImputer(random_state=0).fit(X)
    shares = model.complete_proba(X)
    sets = model.complete_set(X, level=0.9)
    assert set(shares) == {"flag", "size", "color"}
    for name, levels in {"size": ["S", "M", "L"], "color": ["blue", "red"]}.items():
        np.testing.assert_allclose(shares[name].sum(axis=1), 1.0)
        position = np.array([levels.index(v) for v in truth[name]])
        at = X[name].isna().to_numpy()
        covered = sets[name][np.arange(len(X)), position][at].mean()
        assert 0.8 < covered <= 1.0 and sets[name].any(axis=1).all()
    lower, upper = model.complete_interval(X)
    at = X["b"].isna()
    assert 0.78 < ((lower["b"] <= truth["b"]) & (truth["b"] <= upper["b"]))[at].mean() <= 1.0
    assert lower["size"].notna().all() and (lower["size"] <= upper["size"]).all()
    assert lower["color"].isna().equals(X["color"].isna())


@pytest.mark.parametrize(
    ("loss", "reference"),
    [
        (Poisson(), scipy.stats.poisson(np.exp(1.0))),
        (NegativeBinomial(2.0), scipy.stats.nbinom(2.0, 2.0 / (2.0 + np.exp(1.0)))),
        (Logistic(), scipy.stats.bernoulli(1 / (1 + np.exp(-1.0)))),
        (Squared(), scipy.stats.norm(1.0, 0.5)),
    ],
    ids=["poisson", "negative_binomial", "logistic", "squared"],
)
def test_distributions_of_entries_are_those_of_the_loss(loss, reference):
    one = np.ones(1)
    entries = predictive(loss, one, 0 * one, 0.25 * one)
    for share in (0.05, 0.3, 0.7, 0.99):
        found = entries.quantile(np.array([share]))[0]
        assert found == pytest.approx(reference.ppf(share), rel=1e-3)
    x = reference.rvs(size=50, random_state=0).astype(float)
    wide = predictive(loss, np.ones(50), np.zeros(50), np.full(50, 0.25))
    scores = wide.scores(x)
    for c in (0.5, 1.0, 2.0):
        low, high = wide.limits(np.full(50, c))
        inside = (x >= low - 1e-9) & (x <= high + 1e-9)
        assert (inside[scores < c - 1e-9]).all() and not (inside[scores > c + 1e-3]).any()


def test_the_leverage_is_the_posterior_variance():
    random = rng(6)
    C = random.normal(size=(3, 7))
    X = random.normal(size=(5, 7))
    X[random.random(X.shape) < 0.3] = np.nan
    strengths = np.array([0.5, 1.0, 2.0])
    found = leverages(Data.of(X, "squared"), np.zeros(X.shape), C, strengths)
    for i, row in enumerate(X):
        seen = C[:, ~np.isnan(row)]
        A = np.linalg.inv(seen @ seen.T + np.diag(strengths))
        np.testing.assert_allclose(found[i], np.einsum("kj,kl,lj->j", C, A, C))


def test_draws_keep_what_is_observed_and_vary_as_much_as_is_unknown():
    truth, X = tables(7, d=6)
    model = SubspaceImputer(random_state=0).fit(X)
    draws = np.array(model.sample(X, n_draws=15, random_state=1))
    missing = np.isnan(X)
    assert not np.isnan(draws).any()
    np.testing.assert_array_equal(
        draws[:, ~missing], np.broadcast_to(X[~missing], (15, (~missing).sum()))
    )
    again = np.array(model.sample(X, n_draws=15, random_state=1))
    np.testing.assert_array_equal(draws, again)
    spread = draws.std(axis=0)[missing]
    errors = (draws.mean(axis=0) - truth)[missing]
    ratio = np.sqrt(np.mean(np.square(errors / spread)))
    assert 0.7 < ratio < 1.4
    new = model.sample(X[:3], n_draws=2, random_state=0)
    assert len(new) == 2 and not np.isnan(new[0]).any()


def test_draws_of_mixed_frames_keep_types():
    _, X = mixed_frame(n=80)
    model = ConvexSubspace("auto", random_state=0).fit(X)
    for drawn in model.sample(X, n_draws=2, random_state=0):
        assert not drawn.isna().any().any()
        pd.testing.assert_series_equal(drawn.dtypes, X.dtypes)
    with pytest.raises(ValueError, match="n_draws"):
        model.sample(X, n_draws=0)


def test_counts_are_drawn_as_counts():
    random = rng(8)
    counts = random.poisson(np.exp(0.7 * random.normal(size=(80, 1)) + np.linspace(0, 2, 5)))
    X = np.where(random.random(counts.shape) < 0.2, np.nan, counts)
    model = ConvexSubspace("poisson", alpha=3.0).fit(X)
    (drawn,) = model.sample(X, n_draws=1, random_state=0)
    assert (drawn >= 0).all() and (drawn == np.rint(drawn)).all()
    lower, upper = model.complete_interval(X, 0.9)
    at = np.isnan(X)
    assert ((lower <= counts) & (counts <= upper))[at].mean() > 0.8
    assert (lower[at] >= 0).all() and (upper[at] == np.rint(upper[at])).all()


def test_em_of_factors_raises_the_likelihood():
    truth, X = tables(9, n=100, d=6)
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)

    def log_likelihood(model):
        S = model.components.T @ model.components + np.diag(model.noise)
        total = 0.0
        for row in X:
            seen = ~np.isnan(row)
            normal = scipy.stats.multivariate_normal(model.offsets[seen], S[np.ix_(seen, seen)])
            total += normal.logpdf(row[seen])
        return total

    model = NormalFactors(0.3 * rng(1).normal(size=(2, 6)), np.zeros(6), np.ones(6))
    values = [log_likelihood(model)]
    for _ in range(6):
        model = model.improved(X, np.ones(100), np.ones(6))
        values.append(log_likelihood(model))
    assert (np.diff(values) > -1e-6).all()


def test_factors_of_full_rank_are_the_normal_distribution_of_most_likelihood():
    _, X = tables(9, n=150, d=4)
    mean = np.nanmean(X, axis=0)
    S = np.diag(np.nanvar(X, axis=0))
    for _ in range(800):  # EM of a full covariance, row by row
        filled = np.where(np.isnan(X), 0, X)
        spread = np.zeros((4, 4))
        for i, row in enumerate(X):
            o = ~np.isnan(row)
            m = ~o
            if not m.any():
                continue
            slopes = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)])
            filled[i, m] = mean[m] + (row[o] - mean[o]) @ slopes
            spread[np.ix_(m, m)] += S[np.ix_(m, m)] - S[np.ix_(m, o)] @ slopes
        mean = filled.mean(axis=0)
        S = (np.cov(filled.T, bias=True) * len(X) + spread) / len(X)
    start = NormalFactors(np.zeros((0, 4)), np.nanmean(X, axis=0), np.nanvar(X, axis=0))
    model = start.extended(3, rng(2)).fitted(X, np.ones(len(X)), FIRST_EM_STEPS)
    found = model.components.T @ model.components + np.diag(model.noise)
    np.testing.assert_allclose(found, S, atol=0.02 * np.trace(S) / 4)
    np.testing.assert_allclose(model.offsets, mean, atol=0.02)


def test_coefficients_are_counted_by_what_rows_tell_of_them():
    X = tables(10, n=200, d=6)[0]
    strong = NormalFactors(rng(3).normal(size=(2, 6)), np.zeros(6), np.full(6, 1e-4))
    counts = strong.parameter_counts(X, np.ones(200))
    np.testing.assert_allclose(counts, 3, atol=0.05)  # two slopes and an offset
    weak = NormalFactors(1e-3 * rng(3).normal(size=(2, 6)), np.zeros(6), np.ones(6))
    np.testing.assert_allclose(weak.parameter_counts(X, np.ones(200)), 1, atol=0.05)


def test_draws_are_as_wide_as_regressions_leave_open():
    """Of few rows, maximum likelihood of a bootstrap would show much less noise than there is."""
    random = rng(4)
    X = random.normal(size=(40, 9))
    X[:, 8] = X[:, :8].sum(axis=1) + random.normal(size=40)
    X[:12, 8] = np.nan
    draws = SubspaceImputer(random_state=0).fit(X).sample(X, 200, random_state=0)
    errors = np.array([table[:12, 8] - X[:12, :8].sum(axis=1) for table in draws])
    # 28 rows, 9 coefficients: noise of deviation one, and coefficients about as unknown
    assert 1.1 < np.sqrt(np.mean(errors**2)) < 2.4


@pytest.mark.parametrize("Model", [ConvexSubspace, SubspaceImputer])
@pytest.mark.parametrize("last", [np.nan, 7.0, 7e6], ids=["empty", "constant", "large"])
@pytest.mark.filterwarnings("ignore:These columns have no observed entry")
def test_draws_beside_columns_without_variation(Model, last):
    _, X = tables(11, n=60, d=5)
    column = np.full(60, last)
    column[::3] = np.nan
    table = np.column_stack([X, column])
    model = Model(random_state=0).fit(table)
    expected = 0.0 if np.isnan(last) else last
    for draw in model.sample(table, 2, random_state=0):
        assert np.isfinite(draw).all()
        np.testing.assert_allclose(draw[:, 5], expected)
        np.testing.assert_array_equal(draw[:, :5][~np.isnan(X)], X[~np.isnan(X)])
    alone = Model(random_state=0).fit(X).sample(X, 20, random_state=0)
    beside = model.sample(table, 20, random_state=0)
    spread = [np.std([d[:, :5] for d in draws], axis=0)[np.isnan(X)] for draws in (alone, beside)]
    assert np.mean(spread[1]) == pytest.approx(np.mean(spread[0]), rel=0.25)


def test_intervals_of_tiny_tables_name_what_is_missing():
    X = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, np.nan, 5.0, 7.0]])
    for rows in (1, 2):
        model = ConvexSubspace(random_state=0, alpha=0.1).fit(X[:rows])
        with pytest.raises(ValueError, match="Intervals need at least|too few entries to hold"):
            model.complete_interval(X[:rows])


def test_pooling_follows_the_rules_of_rubin():
    estimates = np.array([[1.0, 5.0], [1.2, 5.0], [0.8, 5.0], [1.1, 5.0]])
    variances = np.array([[0.04, 1.0], [0.05, 1.0], [0.03, 1.0], [0.04, 1.0]])
    pooled = pool(estimates, variances)
    between = estimates[:, 0].var(ddof=1)
    np.testing.assert_allclose(pooled.estimate, estimates.mean(axis=0))
    assert pooled.variance[0] == pytest.approx(0.04 + 1.25 * between)
    share = 1.25 * between / pooled.variance[0]
    assert pooled.degrees_of_freedom[0] == pytest.approx(3 / share**2)
    assert pooled.variance[1] == 1.0 and np.isinf(pooled.degrees_of_freedom[1])
    lower, upper = pooled.interval(0.95)
    assert upper[1] == pytest.approx(5 + scipy.stats.norm.ppf(0.975))
    small = pool(estimates, variances, degrees_of_freedom=30)
    assert small.degrees_of_freedom[0] < pooled.degrees_of_freedom[0]
    assert small.degrees_of_freedom[1] == pytest.approx(31 / 33 * 30)
    assert pooled.p_value()[0] < 0.05
    for bad in (
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1.0, np.nan], [1.0, 1.0]),
        ([1, 2], [1, -1]),
    ):
        with pytest.raises(ValueError, match="completed tables|same shape|finite"):
            pool(*bad)


@pytest.mark.slow
def test_pooled_intervals_of_regressions_cover():
    from benchmarks.multiple_imputation import COEFFICIENTS, ours, regression, simulated

    covered = []
    for seed in range(60):
        table = simulated(seed)
        results = [regression(one) for one in ours(table, seed)]
        pooled = pool([b for b, _ in results], [v for _, v in results], len(table) - 6)
        lower, upper = pooled.interval(0.95)
        covered.append((lower <= COEFFICIENTS) & (COEFFICIENTS <= upper))
    assert 0.92 <= np.mean(covered) <= 0.98


def test_bounds_hold_in_what_is_filled_in_limits_and_in_draws():
    random = rng(10)
    cause = random.normal(size=200)
    X = np.column_stack([np.exp(cause) * random.uniform(0.5, 1.5, 200), cause, -cause])
    X[:, 1:] += 0.3 * random.normal(size=(200, 2))
    X[:, :2][random.random((200, 2)) < 0.25] = np.nan
    frame = pd.DataFrame(X, columns=["price", "a", "b"])
    at = frame["price"].isna()
    for loss in ("squared", "auto", "huber"):
        free = ConvexSubspace(loss, random_state=0).fit(frame)
        model = ConvexSubspace(loss, bounds={"price": (0, None)}, random_state=0).fit(frame)
        assert free.complete_interval(frame)[0]["price"].min() < 0
        completed = model.complete(frame)
        assert completed["price"].min() > 0  # means of what lies above, not the bound itself
        pd.testing.assert_series_equal(completed["a"], free.complete(frame)["a"])
        lower, upper = model.complete_interval(frame)
        assert lower["price"].min() >= 0 and (upper["price"] >= lower["price"]).all()
        for drawn in model.sample(frame, n_draws=3, random_state=0):
            assert drawn["price"].min() >= 0
            assert drawn.loc[at, "price"].nunique() > 10


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ({"a": (5, 1)}, "lower must be below"),
        ({"a": (0, 1)}, r"Row \d+ holds .* in column 'a', outside of its bounds"),
        ({"aa": (0, 1)}, "column of bounds"),
        ({"a": 3}, "pair"),
        ({"a": ("x", 3)}, "numbers or None"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds, match):
    frame = pd.DataFrame(rng().normal(size=(20, 2)), columns=["a", "b"])
    with pytest.raises(ValueError, match=match):
        ConvexSubspace(bounds=bounds).fit(frame)


def test_truncated_means_are_those_of_scipy():
    from regfactor.tables.truncation import truncated_mean

    mean = np.array([-1.0, 0.5, 3.0, -60.0])
    found = truncated_mean(mean, np.full(4, 0.8), np.float64(0.0), np.float64(2.0))
    expected = [
        scipy.stats.truncnorm((0 - m) / 0.8, (2 - m) / 0.8, loc=m, scale=0.8).mean()
        for m in mean[:3]
    ]
    np.testing.assert_allclose(found[:3], expected, rtol=1e-6)
    assert found[3] == pytest.approx(0.8**2 / 60, rel=1e-2)  # of a far tail, nearly exponential
