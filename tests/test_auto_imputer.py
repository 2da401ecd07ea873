"""AutoImputer: what it fills, how sure it is, and that it keeps what it is given."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import regfactor
from regfactor import AutoImputer
from regfactor.tables.auto_imputer import local_models, parts, stating
from regfactor.tables.auto_imputer.conditioning import DenseNormal
from regfactor.tables.auto_imputer.copula import RankScores
from regfactor.tables.auto_imputer.covariance_em import fit_covariance
from regfactor.tables.auto_imputer.forests import Forest
from regfactor.tables.auto_imputer.held_out import hold_out
from regfactor.tables.auto_imputer.kernel_residuals import fit_kernel
from regfactor.tables.auto_imputer.low_rank import LowRankStrength, fit_low_rank
from regfactor.tables.auto_imputer.stacking import column_weights, pooled_weights
from regfactor.tables.auto_imputer.variables import Standardization, VariableKind, one_hot_blocks


def curved(n=120, seed=0):
    """Four columns that one number determines up to noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    columns = [x, x**2, np.sin(2 * x), 0.5 * x]
    return np.column_stack(columns) + 0.1 * rng.normal(size=(n, 4))


def removed(X, share=0.2, seed=1):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < share, np.nan, X)


@pytest.fixture(scope="module")
def fitted():
    X = removed(curved())
    return AutoImputer(random_state=0).fit(X)


def mixed(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "size": x,
            "count": pd.Series(np.rint(20 + 4 * x)).astype("Int64"),
            "town": np.where(x > 0.5, "Rome", np.where(x < -0.5, "Bonn", "Oslo")),
            "sort": pd.Categorical(np.where(x > 0, "late", "early")),
            "grade": pd.Categorical(
                np.where(x > 0.7, "high", np.where(x < -0.7, "low", "middle")),
                ["low", "middle", "high"],
                ordered=True,
            ),
            "ripe": pd.Series(x > 0.2).astype("boolean"),
        }
    ).set_index(np.arange(n) + 1000)
    out = frame.copy()
    for name in frame:
        out.loc[out.index[rng.random(n) < 0.2], name] = pd.NA if name in ("count", "ripe") else None
    return out, frame


@pytest.fixture(scope="module")
def of_frame():
    frame, _ = mixed()
    return AutoImputer(random_state=0).fit(frame)


# ------------------------------------------------------------------ the parts, against oracles


def test_leave_one_out_of_a_kernel_is_that_of_refits():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(25, 3))
    R = rng.normal(size=(25, 2))
    w = rng.integers(1, 4, 25).astype(float)
    fit = fit_kernel(A, R, w, (0.7,))
    K = np.exp(-np.square(A[:, None] - A[None]).sum(axis=2) / fit.correction.width)
    for i in range(25):
        rest = np.delete(np.arange(25), i)
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + np.diag(0.7 / w[rest]), R[rest])
        np.testing.assert_allclose(fit.left_out[i], K[i, rest] @ alpha, atol=1e-9)
    np.testing.assert_allclose(
        fit.correction.predict(A[:3]),
        K[:3] @ np.linalg.solve(K + np.diag(0.7 / w), R),
        atol=1e-9,
    )


def test_the_ridge_has_the_smallest_leave_one_out_error():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 2))
    noise = rng.normal(size=(40, 1))
    assert fit_kernel(A, noise, np.ones(40)).ridge == 30.0
    assert fit_kernel(A, np.sin(2 * A[:, :1]), np.ones(40)).ridge == 0.3


def test_em_increases_the_posterior():
    rng = np.random.default_rng(0)
    X = removed(rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)), 0.3)
    prior = np.eye(4)

    def log_posterior(normal):
        total = -0.5 * 4 * np.trace(prior @ normal.precision)
        total -= 0.5 * (4 + 60 - 60) * np.linalg.slogdet(normal.covariance)[1]
        for row in X:
            o = ~np.isnan(row)
            S = normal.covariance[np.ix_(o, o)]
            r = row[o] - normal.mean[o]
            total -= 0.5 * (np.linalg.slogdet(S)[1] + r @ np.linalg.solve(S, r))
        return total

    normal = DenseNormal(np.zeros(4), np.eye(4))
    values = [log_posterior(normal)]
    for _ in range(6):
        normal = fit_covariance(X, np.ones(60), normal, prior, 1)
        values.append(log_posterior(normal))
    assert np.all(np.diff(values) > -1e-9)


def test_weights_of_rows_act_as_repetitions_in_distributions():
    X = removed(curved(30))
    w = np.random.default_rng(0).integers(1, 3, 30)
    start = DenseNormal(np.zeros(4), np.eye(4))
    once = fit_covariance(X, w.astype(float), start, np.eye(4), 3)
    often = fit_covariance(np.repeat(X, w, axis=0), np.ones(w.sum()), start, np.eye(4), 3)
    np.testing.assert_allclose(once.covariance, often.covariance)
    np.testing.assert_allclose(once.mean, often.mean)
    strength = LowRankStrength(2.0, 0.1)
    first = fit_low_rank(X, w.astype(float), strength)
    second = fit_low_rank(np.repeat(X, w, axis=0), np.ones(w.sum()), strength)
    np.testing.assert_allclose(first.deviations, second.deviations, rtol=1e-2)


def test_a_prior_explains_no_more_than_the_variance():
    X = curved(50)
    fit = fit_low_rank(X - X.mean(axis=0), np.ones(50), LowRankStrength(0.01, 0.1))
    v = X.var(axis=0)
    prior = fit.prior(v).dense().covariance
    np.testing.assert_allclose(np.diag(prior), v, rtol=2e-3)
    assert np.linalg.eigvalsh(prior)[0] > 0


def test_normal_scores_and_the_way_back():
    x = np.array([3.0, 1.0, 2.0, 2.0, np.nan])
    scores = RankScores.of(x, np.ones(5))
    from scipy.stats import norm

    expected = norm.ppf([(3.5) / 4, 0.5 / 4, 2 / 4, 2 / 4])
    np.testing.assert_allclose(scores.apply(x)[:4], expected)
    assert np.isnan(scores.apply(x)[4])
    # without variance the way back is the interpolated quantile
    np.testing.assert_allclose(scores.expected(expected, np.zeros(4)), x[:4])
    draws = np.random.default_rng(0).normal(0.1, 0.5, 200_000)
    mean = np.interp(draws, scores.scores, scores.values).mean()
    found = scores.expected(np.array([0.1]), np.array([0.25]))[0]
    np.testing.assert_allclose(found, mean, atol=0.03)


def test_a_packed_forest_predicts_as_its_trees():
    from sklearn.tree import ExtraTreeRegressor

    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 5)).astype(np.float32).astype(float)
    y = rng.normal(size=(80, 2))
    forest = Forest.fit(A, y[:, :1], y[:, 1:], np.ones(80), 3, seed=4)
    seeds = np.random.default_rng(4).integers(2**31 - 1, size=3)
    trees = [
        ExtraTreeRegressor(min_samples_leaf=3, max_features=0.33, random_state=int(s)).fit(A, y)
        for s in seeds
    ]
    expected = np.mean([tree.predict(A) for tree in trees], axis=0)
    found = forest.predict(A)
    np.testing.assert_allclose(np.hstack([found.values, found.residuals]), expected)
    assert np.all(found.variances >= 0)


def test_pooled_weights_are_non_negative_least_squares():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(500, 3))
    y = P @ np.array([0.7, 0.2, -0.5])
    w = pooled_weights(P, y, np.ones(500))
    assert w[2] == 0
    assert w[0] > 0.5 > w[1] > 0
    alone = column_weights(P[:5], y[:5], np.ones(5), w)
    np.testing.assert_allclose(alone, w, atol=0.05)  # five entries say little
    assert np.array_equal(column_weights(P[:0], y[:0], np.ones(0), w), w)


def test_one_wild_entry_does_not_decide_the_weights():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(400, 2))
    y = P[:, 0] + 0.1 * rng.normal(size=400)
    P[7] = [0.0, 60.0]
    y[7] = 60.0
    w = pooled_weights(P, y, np.ones(400))
    assert w[0] > 0.8 > 0.5 > w[1]


def test_folds_are_disjoint_and_leave_every_row_an_entry():
    X = removed(curved(), 0.5)
    layout = Standardization.of(X, np.ones(len(X)), one_hot_blocks(X))
    masks = hold_out(X, layout.variables, 3, np.random.default_rng(0))
    assert (np.sum(masks, axis=0) <= 1).all()
    some = ~np.isnan(X).all(axis=1)
    for mask in masks:
        assert not (mask & np.isnan(X)).any()
        assert (~np.isnan(X) & ~mask).any(axis=1)[some].all()
        assert 0.03 < mask.sum() / (~np.isnan(X)).sum() < 0.08


def test_levels_of_a_category_are_found_in_an_array():
    rng = np.random.default_rng(0)
    levels = np.eye(3)[rng.integers(3, size=40)]
    levels[:5] = np.nan
    X = np.column_stack([rng.normal(size=40), levels, rng.integers(2, size=40)])
    assert [list(block) for block in one_hot_blocks(X)] == [[0], [1, 2, 3], [4]]
    layout = Standardization.of(X, np.ones(40), one_hot_blocks(X))
    kinds = [variable.kind for variable in layout.variables]
    assert kinds == [VariableKind.NUMBER, VariableKind.CATEGORY, VariableKind.BINARY]
    np.testing.assert_allclose(layout.variances[1:4].sum(), 1)
    filled = AutoImputer(random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(filled[:, 1:4].sum(axis=1), 1)
    assert filled[:, 1:4].min() >= 0


# --------------------------------------------------------------------- the estimator as a whole


def test_curved_relations_are_learned(fitted):
    truth = curved()
    X = removed(truth)
    missing = np.isnan(X)
    filled = fitted.transform(X)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    error = np.square(filled - truth)[missing].mean()
    baseline = np.square(np.nanmean(X, axis=0) - truth)[missing].mean()
    assert error < 0.25 * baseline
    new = curved(80, seed=5)
    X_new = removed(new, seed=6)
    hidden = np.isnan(X_new)
    error = np.square(fitted.transform(X_new) - new)[hidden].mean()
    assert error < 0.3 * baseline


def test_what_is_reported(fitted):
    assert fitted.members_ == list(stating.MEMBERS)
    assert fitted.weights_.shape == fitted.scores_.shape == (6,)
    assert np.all(fitted.weights_ >= 0)
    # noise of 0.1 in units of about one; the forest sees what the low-rank model cannot
    assert fitted.scores_[4] > fitted.scores_[0]
    assert 0 < fitted.objective_ < 0.5
    assert fitted.n_iter_ == 6
    text = str(fitted.explain())
    assert "forest" in text
    assert "is explained" in text
    assert set(fitted.held_out_error_) == {0, 1, 2, 3}


def test_a_frame_keeps_its_types(of_frame):
    frame, truth = mixed()
    filled = of_frame.transform(frame)
    assert filled.index.equals(frame.index)
    assert list(filled) == list(frame)
    assert (filled.dtypes == frame.dtypes).all()
    assert not filled.isna().any().any()
    for name in frame:
        seen = frame[name].notna()
        assert (filled.loc[seen, name] == frame.loc[seen, name]).all()
    hidden = frame["town"].isna()
    assert (filled["town"] == truth["town"])[hidden].mean() > 0.6


def test_polars_gives_polars(of_frame):
    frame, _ = mixed()
    plain = frame.astype({"count": "float64"})
    columns = {}
    for name in plain:
        columns[name] = [None if pd.isna(v) else v for v in plain[name]]
    table = pl.DataFrame(columns).with_columns(
        pl.col("sort").cast(pl.Categorical),
        pl.col("grade").cast(pl.Enum(["low", "middle", "high"])),
    )
    model = AutoImputer(random_state=0).fit(table)
    filled = model.transform(table)
    assert filled.schema == table.schema
    assert sum(filled.null_count().row(0)) == 0
    lower, _ = model.complete_interval(table)
    assert lower.schema == table.schema


def test_probabilities_and_sets(of_frame):
    frame, truth = mixed()
    shares = of_frame.complete_proba(frame)
    sets = of_frame.complete_set(frame, level=0.9)
    assert of_frame.categories_["town"] == ["Bonn", "Oslo", "Rome"]
    assert of_frame.categories_["ripe"] == [False, True]
    assert set(shares) == set(sets) == {"town", "sort", "grade", "ripe"}
    filled = of_frame.complete(frame)
    for name, share in shares.items():
        np.testing.assert_allclose(share.sum(axis=1), 1)
        levels = np.array(of_frame.categories_[name], dtype=object)
        seen = frame[name].notna().to_numpy()
        assert (levels[share.argmax(axis=1)] == filled[name].astype(object)).all()
        assert (sets[name][seen].sum(axis=1) == 1).all()
        assert sets[name].any(axis=1).all()
    at = np.array([of_frame.categories_["town"].index(t) for t in truth["town"]])
    hidden = frame["town"].isna().to_numpy()
    assert sets["town"][np.arange(len(at)), at][hidden].mean() > 0.7


def test_limits_are_like_the_table(of_frame):
    frame, _ = mixed()
    lower, upper = of_frame.complete_interval(frame, level=0.8)
    filled = of_frame.complete(frame)
    sets = of_frame.complete_set(frame, level=0.8)
    for side in (lower, upper):
        assert (side.dtypes == frame.dtypes).all()
        for name in frame:
            seen = frame[name].notna()
            assert (side.loc[seen, name] == frame.loc[seen, name]).all()
    assert (lower["size"] <= filled["size"]).all()
    assert (upper["size"] >= filled["size"]).all()
    assert (lower["count"] <= upper["count"]).all()
    assert (lower["grade"] <= upper["grade"]).all()
    # no order: the label where the set has one level, else missing
    several = sets["town"].sum(axis=1) > 1
    assert (lower["town"].isna().to_numpy() == several).all()


def test_higher_levels_are_wider(fitted):
    X = removed(curved())
    missing = np.isnan(X)
    widths = []
    for level in (0.5, 0.8, 0.95):
        lower, upper = fitted.complete_interval(X, level)
        widths.append((upper - lower)[missing].mean())
        assert (lower == upper)[~missing].all()
    assert widths[0] < widths[1] < widths[2]
    with pytest.raises(ValueError, match="level"):
        fitted.complete_interval(X, 90)


@pytest.mark.slow
def test_intervals_cover_what_they_promise():
    covered = []
    for seed in range(6):
        truth = curved(200, seed=seed)
        X = removed(truth, seed=seed + 50)
        lower, upper = AutoImputer(random_state=seed).fit(X).complete_interval(X, 0.9)
        inside = (lower <= truth) & (truth <= upper)
        covered.append(inside[np.isnan(X)].mean())
    assert 0.86 < np.mean(covered) < 0.95


def test_draws_have_the_spread_of_the_intervals(fitted, of_frame):
    X = removed(curved())
    missing = np.isnan(X)
    draws = np.array(fitted.sample(X, 60, random_state=1))
    assert (draws[:, ~missing] == X[~missing]).all()
    lower, upper = fitted.complete_interval(X, 0.8)
    inside = ((draws >= lower) & (draws <= upper))[:, missing].mean()
    assert 0.7 < inside < 0.9
    np.testing.assert_array_equal(draws[0], fitted.sample(X, 1, random_state=1)[0])
    assert not np.array_equal(draws[0], draws[1], equal_nan=True)
    frame, _ = mixed()
    first = of_frame.sample(frame, n_draws=2, random_state=0)[0]
    assert (first.dtypes == frame.dtypes).all()
    assert not first.isna().any().any()


def test_draws_of_a_row_are_correlated():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(150, 1))
    X = np.hstack([factor, factor, rng.normal(size=(150, 2))]) + 0.1 * rng.normal(size=(150, 4))
    X[:30, :2] = np.nan  # nothing else tells them, but they belong together
    model = AutoImputer(random_state=0).fit(X)
    draws = np.array(model.sample(X, 20, random_state=0))[:, :30, :2].reshape(-1, 2)
    assert np.corrcoef(draws.T)[0, 1] > 0.8


def test_bounds_hold_everywhere():
    rng = np.random.default_rng(0)
    age = rng.exponential(3, 150)
    X = np.column_stack([age, age + rng.normal(size=150), rng.normal(size=150)])
    X[rng.random(X.shape) < 0.2] = np.nan
    frame = pd.DataFrame(X, columns=["age", "b", "c"])
    frame["age"] = frame["age"].clip(0, 12)
    model = AutoImputer(bounds={"age": (0, 12), "b": (None, 30)}, random_state=0).fit(frame)
    lower, upper = model.complete_interval(frame, 0.95)
    tables = [model.complete(frame), lower, upper, *model.sample(frame, 10, random_state=0)]
    for table in tables:
        assert table["age"].between(0, 12).all()
    free = AutoImputer(random_state=0).fit(frame)
    assert free.complete_interval(frame, 0.95)[0]["age"].min() < 0


def test_wrong_bounds_are_refused():
    frame, _ = mixed()
    with pytest.raises(ValueError, match="Row .* holds .* in column 'size', outside"):
        AutoImputer(bounds={"size": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match="'town' holds categories"):
        AutoImputer(bounds={"town": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match="Did you mean 'size'"):
        AutoImputer(bounds={"sise": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match="lower must be below"):
        AutoImputer(bounds={"size": (1, 0)}).fit(frame)
    with pytest.raises(ValueError, match="Unknown member 'forrest'. Did you mean 'forest'"):
        AutoImputer(members=["forrest"]).fit(frame)


def test_counts_do_not_fall_below_zero():
    rng = np.random.default_rng(0)
    rate = rng.exponential(1, 100)
    X = rng.poisson(rate[:, None] * np.array([1.0, 2.0, 0.3, 5.0])).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    model = AutoImputer(random_state=0).fit(X)
    assert model.transform(X).min() >= 0
    draw = model.sample(X, 1, random_state=0)[0]
    assert (draw == np.rint(draw)).all()


@pytest.mark.parametrize("factor", [1024.0, 2.0**-20])
def test_units_of_a_column_change_nothing_else(factor):
    X = removed(curved(60))
    scaled = X * np.array([1.0, factor, 1.0, 1.0])
    first = AutoImputer(random_state=0).fit(X).transform(X)
    second = AutoImputer(random_state=0).fit(scaled).transform(scaled)
    np.testing.assert_allclose(second, first * np.array([1.0, factor, 1.0, 1.0]), rtol=1e-6)


def test_the_order_of_rows_and_columns_hardly_matters(fitted):
    X = removed(curved())
    rows = np.random.default_rng(3).permutation(len(X))
    columns = np.array([2, 0, 3, 1])
    shuffled = X[rows][:, columns]
    found = AutoImputer(random_state=0).fit(shuffled).transform(shuffled)
    expected = fitted.transform(X)[rows][:, columns]
    missing = np.isnan(shuffled)
    difference = np.square(found - expected)[missing].mean()
    assert difference < 0.05  # of a variance of about one: other entries are held out


def test_each_row_is_filled_alone(fitted):
    X = removed(curved(20, seed=9), seed=10)
    together = fitted.transform(X)
    alone = np.vstack([fitted.transform(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_missing_entries_that_tell_something_are_used():
    rng = np.random.default_rng(0)
    n = 400
    Z = rng.normal(size=(n, 3))
    X = np.column_stack([Z[:, 0], Z[:, 1], Z[:, 2]])
    hidden = Z[:, 0] > 0.3  # the second column is missing where the first is large
    X[hidden, 1] = np.nan
    X[:60, 0] = np.nan
    model = AutoImputer(random_state=0).fit(X)
    assert model.informative_missingness_ == {0: [1]}
    assert "not missing completely at random" in str(model.explain())
    filled = model.transform(X)[:60, 0]
    assert filled[hidden[:60]].mean() - filled[~hidden[:60]].mean() > 0.8


def test_entries_missing_at_random_are_no_inputs(fitted):
    assert fitted.informative_missingness_ == {}


def test_a_subset_of_members():
    X = removed(curved(60))
    model = AutoImputer(members=["copula", "forest"], random_state=0).fit(X)
    assert model.members_ == ["copula", "forest"]
    assert not np.isnan(model.transform(X)).any()
    lower, upper = model.complete_interval(X)
    assert (lower <= upper).all()
    for name in stating.MEMBERS:
        alone = AutoImputer(members=[name], random_state=0).fit(X)
        assert alone.members_ == [name]
        assert not np.isnan(alone.transform(X)).any()


def test_a_time_limit_leaves_members_out():
    X = removed(curved(60))
    with pytest.warns(UserWarning, match="fitted only the members low rank"):
        model = AutoImputer(time_limit=0.0, random_state=0).fit(X)
    assert model.members_ == ["low rank"]
    assert not np.isnan(model.transform(X)).any()


def test_sparse_tables_have_zeros():
    X = curved(60)
    X[np.abs(X) < 0.5] = 0
    sparse = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(AutoImputer(random_state=0).fit_transform(sparse), X)
    missing = AutoImputer(sparse_zeros="missing", random_state=0).fit(sparse)
    filled = missing.transform(sparse)
    np.testing.assert_allclose(filled[X != 0], X[X != 0])
    assert (filled[X == 0] != 0).all()


def test_single_precision_stays(fitted):
    X = removed(curved(40)).astype(np.float32)
    assert fitted.transform(X).dtype == np.float32
    assert fitted.complete_interval(X)[0].dtype == np.float32


def test_in_a_pipeline():
    X = removed(curved(60))
    model = make_pipeline(AutoImputer(random_state=0), Ridge())
    assert model.fit(X, np.arange(60.0)).predict(X).shape == (60,)
    names = AutoImputer(random_state=0).fit(pd.DataFrame(X, columns=list("abcd")))
    assert list(names.get_feature_names_out()) == list("abcd")


def test_saved_models_fill_alike(tmp_path, of_frame):
    frame, _ = mixed()
    regfactor.save(of_frame, tmp_path / "model.skops")
    loaded = regfactor.load(tmp_path / "model.skops")
    assert loaded.transform(frame).equals(of_frame.transform(frame))


def test_rows_of_weight_zero_are_new_rows():
    X = removed(curved(60))
    w = np.ones(60)
    w[:10] = 0
    first = AutoImputer(random_state=0).fit(X, sample_weight=w)
    second = AutoImputer(random_state=0).fit(X[10:])
    np.testing.assert_allclose(first.transform(X), second.transform(X))
    heavy = AutoImputer(random_state=0).fit(X, sample_weight=np.where(np.arange(60) < 30, 3.0, 1.0))
    assert not np.allclose(heavy.transform(X), second.transform(X))


# ------------------------------------------------------------------------------- edge cases


def complete_and_check(X, **options):
    model = AutoImputer(random_state=0, **options).fit(X)
    filled = model.transform(X)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    model.complete_interval(X)
    model.sample(X, 1)
    str(model.explain())
    return model, filled


def test_small_tables_are_filled_by_means():
    X = removed(curved(6)[:, :3])
    model, filled = complete_and_check(X)
    assert model.members_ == ["mean"]
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    np.testing.assert_allclose(filled[np.isnan(X)], means[np.isnan(X)])
    one = removed(curved(50)[:, :1])
    model, filled = complete_and_check(one)
    assert model.members_ == ["mean"]
    lower, upper = model.complete_interval(one, 0.8)
    assert np.isfinite(lower).all()
    assert (lower < upper)[np.isnan(one)].all()


def test_twenty_rows():
    _, filled = complete_and_check(removed(curved(20)))
    assert np.isfinite(filled).all()


def test_odd_rows_and_columns():
    X = removed(curved(60))
    X = np.column_stack([X, np.full(60, 7.0), np.full(60, np.nan)])
    X[6:, 4] = np.where(np.arange(54) % 3 == 0, np.nan, 7.0)
    X[0] = np.nan
    X[12:, 3] = np.nan  # few entries
    with pytest.warns(UserWarning, match="without an observed entry stay missing: 5"):
        model = AutoImputer(random_state=0).fit(X)
    filled = model.transform(X)
    assert (filled[:, 4] == 7).all()
    assert np.isnan(filled[:, 5]).all()
    assert np.isfinite(filled[:, :5]).all()


def test_a_frame_column_without_a_value_stays_so():
    frame, _ = mixed(60)
    frame["never"] = pd.Series([pd.NA] * 60, index=frame.index, dtype="Int64")
    frame["empty"] = pd.Series([None] * 60, index=frame.index, dtype=object)
    with pytest.warns(UserWarning, match="never, empty"):
        model = AutoImputer(random_state=0).fit(frame)
    filled = model.transform(frame)
    assert filled[["never", "empty"]].isna().all().all()
    assert filled["never"].dtype == "Int64"
    lower, _ = model.complete_interval(frame)
    assert lower["never"].isna().all()


def test_nothing_missing():
    X = curved(40)
    _, filled = complete_and_check(X)
    np.testing.assert_array_equal(filled, X)


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = removed(rng.normal(size=(24, 2)) @ rng.normal(size=(2, 40)))
    _, filled = complete_and_check(X)
    assert np.isfinite(filled).all()


def test_wide_tables_are_kept_as_factors(monkeypatch):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(60, 12))
    X = removed(truth)
    from regfactor.tables.auto_imputer import stages

    monkeypatch.setattr(stages, "WIDEST", 5)
    model, filled = complete_and_check(X)
    assert model.members_ == ["low rank", "kernel", "forest", "residual forest"]
    error = np.square(filled - truth)[np.isnan(X)].mean()
    assert error < 0.2 * truth.var()
    monkeypatch.setattr(stating, "MAX_VARIABLES", 5)
    model, _ = complete_and_check(X)
    assert model.members_ == ["low rank"]


def test_long_tables_are_represented_by_some_rows(monkeypatch):
    monkeypatch.setattr(parts, "MAX_FOLD_ROWS", 50)
    monkeypatch.setattr(parts, "MAX_GLOBAL_ROWS", 60)
    monkeypatch.setattr(parts, "MAX_COEFFICIENTS", 400)
    monkeypatch.setattr(local_models, "MAX_DONORS", 30)
    truth = curved(300)
    X = removed(truth)
    _, filled = complete_and_check(X)
    error = np.square(filled - truth)[np.isnan(X)].mean()
    assert error < 0.5 * truth.var(axis=0).mean()


def test_mostly_missing():
    X = removed(curved(150), 0.9)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        _, filled = complete_and_check(X)
    assert np.isfinite(filled).all()


def test_pure_noise_is_filled_near_the_mean():
    X = removed(np.random.default_rng(0).normal(size=(150, 5)))
    model, filled = complete_and_check(X)
    assert np.abs(filled[np.isnan(X)]).mean() < 0.3
    assert "says little about" in str(model.explain())


def test_a_level_that_was_not_there_is_taken_for_missing(of_frame):
    frame, _ = mixed(10, seed=4)
    frame["town"] = ["Atlantis"] * 10
    with pytest.warns(UserWarning, match="Atlantis"):
        filled = of_frame.transform(frame)
    assert (filled["town"] == "Atlantis").all()
    assert not filled.isna().any().any()


def test_gross_errors_do_not_carry_predictions_away(fitted):
    X = removed(curved(10, seed=3), seed=4)
    X[0] = [1e9, np.nan, np.nan, np.nan]
    filled = fitted.transform(X)
    assert filled[0, 0] == 1e9
    assert np.abs(filled[0, 1:]).max() < 20


def test_a_gross_error_in_fit_does_not_set_the_units():
    truth = curved()
    X = removed(truth)
    row = int(np.flatnonzero(~np.isnan(X[:, 1]))[0])
    X[row, 1] = 1e12
    with pytest.warns(UserWarning, match="1 entries more than 100 .* in columns: 1"):
        model = AutoImputer(random_state=0).fit(X)
    filled = model.transform(X)
    assert filled[row, 1] == 1e12
    missing = np.isnan(X)
    error = np.square(filled - truth)[missing[:, 1], 1].mean()
    assert error < 0.5 * truth[:, 1].var()


def test_many_different_strings_are_refused():
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(30)], "x": np.arange(30.0)})
    with pytest.raises(ValueError, match="'name' holds 30 different strings"):
        AutoImputer().fit(frame)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = AutoImputer(random_state=0).fit(removed(curved(40)))
    before = model.transform(removed(curved(40)))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((20, 3), np.inf))
    np.testing.assert_array_equal(model.transform(removed(curved(40))), before)
    assert clone(model).get_params() == model.get_params()


def test_equal_entries_are_a_limit_only_where_there_are_enough_of_them():
    X = removed(curved(60))
    steady = np.full((60, 1), 0.37)
    steady[::3] = np.nan  # forty are left
    once = np.full((60, 1), np.nan)
    once[0] = 2.5
    table = np.hstack([X, steady, once])
    model = AutoImputer(random_state=0).fit(table)
    lower, upper = model.complete_interval(table, 0.9)
    np.testing.assert_allclose([lower[:, -2], upper[:, -2]], 0.37)
    assert np.all(np.isinf(upper[1:, -1])) and np.all(lower[1:, -1] < 2.5)
    assert upper[0, -1] == 2.5
    lower, upper = model.complete_interval(table, 0.99)
    assert np.all(np.isinf(upper[::3, -2]))
