"""AutoMixture: densities against scipy, EM with missing entries, choice, and robustness."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, softmax
from sklearn.metrics import adjusted_rand_score

from regfactor import AutoMixture
from regfactor.clusters.aligned_average import aligned_orders
from regfactor.clusters.full_gaussian import (
    FullGaussian,
    GaussianParameters,
    bounded_below,
    expected_moments,
)
from regfactor.clusters.linear_families import (
    Categorical,
    DiagonalGaussian,
    Gamma,
    Multinomial,
    NegativeBinomial,
    Poisson,
    gamma_shape,
    log_rising_factorials,
)
from regfactor.clusters.mixture_members import MixtureRows, component_numbers, densities
from regfactor.clusters.table_kinds import TableKind, TableLayout, one_hot_groups, shares_units
from regfactor.clusters.transformations import (
    Logarithm,
    Principal,
    Scaled,
    SquareRoot,
    Untransformed,
)

RNG = np.random.default_rng(0)
FAMILIES = [
    DiagonalGaussian(own=False),
    DiagonalGaussian(own=True),
    FullGaussian(own=False),
    FullGaussian(own=True),
    Gamma(),
    Poisson(),
    NegativeBinomial(),
    Multinomial(),
]


def clusters(n=240, d=5, k=3, spread=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(0, spread, (k, d))[y] + rng.normal(size=(n, d)), y


def one_cluster(family, X):
    rows = family.prepare(X, np.zeros(X.shape[1]))
    parameters = family.maximize(rows, np.ones((len(X), 1)))
    return rows, parameters, family.log_density(rows, parameters)[:, 0]


def test_normal_densities_are_those_of_scipy():
    X = RNG.normal(size=(50, 3)) * [1, 2, 0.5]
    _, _, found = one_cluster(DiagonalGaussian(), X)
    expected = stats.norm(X.mean(0), X.std(0)).logpdf(X).sum(axis=1)
    np.testing.assert_allclose(found, expected)
    _, parameters, found = one_cluster(FullGaussian(), X)
    normal = stats.multivariate_normal(parameters.means[0], parameters.covariances[0])
    np.testing.assert_allclose(found, normal.logpdf(X))
    np.testing.assert_allclose(np.diag(parameters.covariances[0]), X.var(axis=0))


def test_count_and_gamma_densities_are_those_of_scipy():
    X = RNG.negative_binomial(2, 0.3, (80, 3)).astype(float)
    _, _, found = one_cluster(Poisson(), X)
    np.testing.assert_allclose(found, stats.poisson(X.mean(0)).logpmf(X).sum(axis=1))
    _, parameters, found = one_cluster(NegativeBinomial(), X)
    sizes = parameters.nuisance
    share = sizes / (sizes + X.mean(0))
    np.testing.assert_allclose(found, stats.nbinom(sizes, share).logpmf(X).sum(axis=1))
    Y = RNG.gamma(3.0, 2.0, (400, 2))
    _, _, found = one_cluster(Gamma(), Y)
    shapes = gamma_shape(np.log(Y.mean(0)) - np.log(Y).mean(0))
    for shape, column in zip(shapes, Y.T, strict=True):  # the maximum likelihood of scipy
        np.testing.assert_allclose(shape, stats.gamma.fit(column, floc=0)[0], rtol=1e-4)
    np.testing.assert_allclose(found, stats.gamma(shapes, 0, Y.mean(0) / shapes).logpdf(Y).sum(1))


def test_multinomial_and_categorical_probabilities_sum_to_one():
    X = RNG.poisson([1.0, 2.0], (60, 2)).astype(float)
    _, parameters, _ = one_cluster(Multinomial(), X)
    every = np.array(list(itertools.product(range(80), repeat=2)), dtype=float)
    rows = Multinomial().prepare(every, np.zeros(2))
    total = np.exp(Multinomial().log_density(rows, parameters)).sum()
    assert total == pytest.approx(1, abs=1e-6)
    B = np.column_stack([np.eye(3)[RNG.integers(0, 3, 60)], RNG.integers(0, 2, 60)])
    family = Categorical(one_hot_groups(B))
    np.testing.assert_array_equal(family.groups, [0, 0, 0, 1])
    _, parameters, _ = one_cluster(family, B)
    every = np.array([[*level, bit] for level in np.eye(3) for bit in (0, 1)])
    rows = family.prepare(every, np.zeros(4))
    assert np.exp(family.log_density(rows, parameters)).sum() == pytest.approx(1)


def test_a_missing_entry_is_integrated_out():
    X = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 3))
    parameters = GaussianParameters(np.array([[1.0, 2, 3]]), np.cov(X.T)[None], 9)
    Y = X[:5].copy()
    Y[:, 1] = np.nan
    Y[4] = np.nan
    family = FullGaussian()
    found = family.log_density(family.prepare(Y, np.zeros(3)), parameters)[:, 0]
    kept = np.ix_([0, 2], [0, 2])
    marginal = stats.multivariate_normal([1, 3], parameters.covariances[0][kept])
    np.testing.assert_allclose(found[:4], marginal.logpdf(Y[:4][:, [0, 2]]))
    assert found[4] == 0
    _, parameters, _ = one_cluster(DiagonalGaussian(), X)
    found = DiagonalGaussian().log_density(DiagonalGaussian().prepare(Y, np.zeros(3)), parameters)[
        :, 0
    ]
    expected = stats.norm(X.mean(0), X.std(0)).logpdf(Y)
    np.testing.assert_allclose(found, np.nansum(expected, axis=1))


def test_expected_statistics_are_a_step_of_em():
    """Of one normal cluster with missing entries, steps never lower the likelihood."""
    X = RNG.normal(size=(150, 4)) @ RNG.normal(size=(4, 4))
    X = X / X.std(axis=0)
    X[RNG.random(X.shape) < 0.3] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    family = FullGaussian()
    rows = family.prepare(X, np.zeros(4))
    R = np.ones((len(X), 1))
    parameters = GaussianParameters(np.zeros((1, 4)), np.eye(4)[None], 0)
    values = []
    for _ in range(30):
        counts, means, scatters = expected_moments(rows, R, parameters)
        # without the guards, which hold the likelihood below its maximum
        parameters = GaussianParameters(means, scatters / counts[:, None, None], 0)
        values.append(float(family.log_density(rows, parameters).sum()))
    assert min(np.diff(values)) > -1e-9
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_weights_act_as_repetition_counts(family):
    X = RNG.poisson(3.0, (40, 3)) + 1.0
    counts = RNG.integers(0, 3, 40)
    R = RNG.dirichlet([1, 1], 40)
    rows = family.prepare(X, np.zeros(3))
    again = family.prepare(np.repeat(X, counts, axis=0), np.zeros(3))
    weighted = family.maximize(rows, R * counts[:, None])
    repeated = family.maximize(again, np.repeat(R, counts, axis=0))
    found = family.log_density(rows, weighted)
    np.testing.assert_allclose(found, family.log_density(rows, repeated))
    assert family.n_parameters(weighted) == pytest.approx(family.n_parameters(repeated))


@pytest.mark.parametrize(
    "function",
    [Untransformed(), Logarithm(shifted=False), Logarithm(shifted=True), SquareRoot()],
    ids=lambda function: f"{function!r}",
)
def test_jacobians_are_finite_differences(function):
    X = RNG.gamma(3, 1, (30, 2)) + 0.5
    weights = np.ones(30)
    scaled = Scaled.fit(function, X, weights, np.full(2, 0.5), np.zeros(2))
    step = 1e-6
    slopes = (scaled.apply(X + step) - scaled.apply(X - step)) / (2 * step)
    np.testing.assert_allclose(scaled.log_jacobian(X), np.log(slopes).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(scaled.apply(X).std(axis=0), 1)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_principal_components_are_a_density(rank):
    """Whatever the rank, scores with the rest are a probabilistic principal component model."""
    Y = RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 6)) + 0.3 * RNG.normal(size=(200, 6))
    principal = Principal.fit(Y, np.ones(200), rank, 4, np.zeros(6))
    scores, log_rest = principal.apply(Y)
    assert scores.shape == (200, rank)
    V = principal.directions
    outside = np.eye(6) - V @ V.T
    S = (V * principal.scale**2) @ V.T + principal.noise * outside
    found = stats.norm.logpdf(scores).sum(axis=1) + log_rest
    np.testing.assert_allclose(found, stats.multivariate_normal(Y.mean(0), S).logpdf(Y))


def test_score_samples_is_a_density_in_the_units_of_the_table():
    X = np.exp(clusters(d=1, k=2)[0])
    model = AutoMixture(2, random_state=0).fit(X)
    assert "logarithms" in model.member_
    grid = np.geomspace(1e-9, 1e9, 200_001)[:, None]
    density = np.exp(model.score_samples(grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=1e-3)
    a = model.score_samples(X)
    b = AutoMixture(2, random_state=0).fit(1000 * X).score_samples(1000 * X)
    np.testing.assert_allclose(a - b, np.log(1000), rtol=1e-6)


def test_kinds_of_tables():
    assert TableKind.of(np.array([[0.0, 3]])) is TableKind.COUNT
    assert TableKind.of(np.array([[0.5, np.nan]])) is TableKind.POSITIVE
    assert TableKind.of(np.array([[0.5, 0.0, 0.2]])) is TableKind.NON_NEGATIVE
    assert TableKind.of(np.array([[0.5, 0.0, 0.0]])) is TableKind.NON_NEGATIVE
    assert TableKind.of(np.array([[0.5, -1.0]])) is TableKind.REAL
    words = RNG.poisson(0.3, (80, 60)).astype(float)
    assert TableKind.of(words) is TableKind.SPARSE
    assert TableKind.of(words[:, :30]) is TableKind.COUNT
    assert TableKind.of(words * np.geomspace(1, 1e9, 60)) is TableKind.NON_NEGATIVE  # other units
    layout = TableLayout.of(np.array([[0.5, 1, 7], [0.2, 0, 7], [-1, 1, 7]]), None)
    np.testing.assert_array_equal(layout.numbers, [0])
    np.testing.assert_array_equal(layout.bits, [1])


def test_columns_of_two_numbers_are_bits_unless_they_are_rare_words():
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 80, (50, 3))
    flags = rng.integers(0, 2, (50, 2))
    layout = TableLayout.of(np.hstack([ages, flags]).astype(float), None)
    np.testing.assert_array_equal(layout.bits, [3, 4])
    words = rng.poisson(0.3, (50, 6)).astype(float)
    words[:, 5] = np.arange(50) == 7
    layout = TableLayout.of(words, None)
    assert layout.kind is TableKind.COUNT
    assert not len(layout.bits)
    features = np.hstack([flags, flags[:, ::-1], ages[:, :1]]).astype(float)
    np.testing.assert_array_equal(TableLayout.of(features, None).bits, [0, 1, 2, 3])


def test_units_are_shared_where_variances_compare():
    X = RNG.normal(size=(40, 60))
    assert shares_units(X)
    assert not shares_units(X * np.geomspace(1, 1e9, 60))
    X[3, 4] = np.nan
    assert shares_units(X)


def test_no_direction_has_less_variance_than_rounding():
    A = RNG.normal(size=(2, 4, 4))
    S = A @ A.transpose(0, 2, 1)
    floor = np.array([0.5, 2.0, 0.1, 0.3])
    bounded = bounded_below(S, floor)
    least = np.linalg.eigvalsh(bounded - np.diag(floor)).min(axis=1)
    assert (least > -1e-9).all()
    assert np.linalg.eigvalsh(S - np.diag(floor)).min() < -0.1
    above = S + 10 * np.eye(4)
    np.testing.assert_array_equal(bounded_below(above, floor), above)
    np.testing.assert_array_equal(bounded_below(S, np.zeros(4)), S)


def test_rising_factorials_of_small_and_large_counts():
    sizes = np.array([0.5, 3.0, 40.0])
    counts = RNG.integers(0, 9, (50, 3)).astype(float)
    expected = gammaln(counts + sizes) - gammaln(counts + 1) - gammaln(sizes)
    np.testing.assert_allclose(log_rising_factorials(counts, sizes), expected, atol=1e-12)
    large = counts * 1000
    expected = gammaln(large + sizes) - gammaln(large + 1) - gammaln(sizes)
    np.testing.assert_allclose(log_rising_factorials(large, sizes), expected, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_em_never_lowers_the_likelihood_of_shared_variances(missing):
    X, y = clusters()
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    data = MixtureRows(X, np.ones(len(X)), TableLayout.of(X, None))
    density = densities(data, 3)[0]
    assert isinstance(density.family, DiagonalGaussian)
    rows = density.prepare(X)
    R = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    values = []
    last = None
    for _ in range(25):
        last = density.step(rows, data.weights, R, last)
        R = last.R
        values.append(last.log_likelihood)
    assert (np.diff(values) >= -1e-8 * np.abs(values[:-1])).all()


def test_recovers_clusters_and_their_number():
    X, y = clusters()
    model = AutoMixture(random_state=0).fit(X)
    assert model.n_components_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.95
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert min(model.bics_, key=model.bics_.get) == 3
    one = AutoMixture(random_state=0).fit(RNG.normal(size=(200, 4)))
    assert one.n_components_ == 1
    text = str(model.explain())
    assert model.member_ in text
    assert "90 %" in text
    assert "differences of the numbers as they are" in text
    assert f"next best, {model.members_[1]}," in text


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda Z: np.exp(Z), "logarithms"),
        (lambda Z: Z @ np.random.default_rng(3).normal(size=(5, 5)), "covariance"),
        (lambda Z: Z, "numbers, one"),
    ],
    ids=["growth", "correlated", "plain"],
)
def test_finds_the_transformation_and_family(make, word):
    X, y = clusters(spread=2.5)
    model = AutoMixture(3, random_state=0).fit(make(X))
    assert word in model.member_
    assert adjusted_rand_score(y, model.labels_) > 0.9


def test_proportions_of_counts_are_told_from_totals():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    rates = rng.dirichlet(np.full(12, 0.5), 3)[y] * rng.gamma(2, 30, (300, 1))
    model = AutoMixture(3, random_state=0).fit(rng.poisson(rates))
    assert model.member_ == "counts, multinomial"
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_wide_tables_are_clustered_by_principal_components():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(0, 0.7, (3, 200))[y] + rng.normal(size=(90, 200))
    X[3, 5] = np.nan
    model = AutoMixture(3, random_state=0).fit(X)
    assert "principal components" in model.member_
    assert adjusted_rand_score(y, model.labels_) == 1
    assert np.isfinite(model.score_samples(X)).all()


def test_clusters_of_a_wide_table_may_differ_in_covariances_of_many_components():
    """Of one center, seen in the products of components that few leading ones do not hold."""
    rng = np.random.default_rng(0)
    y = np.arange(800) % 2
    mixing = np.linalg.qr(rng.normal(size=(60, 60)))[0][:, :16]
    scales = np.array(
        [np.r_[np.full(8, 2.0), np.full(8, 0.5)], np.r_[np.full(8, 0.5), np.full(8, 2)]]
    )
    X = (rng.normal(size=(800, 16)) * scales[y]) @ mixing.T + 0.1 * rng.normal(size=(800, 60))
    model = AutoMixture(2, random_state=0).fit(X)
    assert "own covariances" in model.member_
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_numbers_of_principal_components():
    assert component_numbers(57, 14) == [13]
    assert component_numbers(700, 2) == [4, 8, 16, 32, 64]
    assert component_numbers(700, 10) == [20]
    assert component_numbers(5, 1) == [2]


def test_takes_missing_entries_and_new_rows():
    X, y = clusters()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    X[0] = np.nan
    model = AutoMixture(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], model.weights_)
    assert np.isfinite(model.means_).all()


def test_takes_frames_with_categories():
    X, y = clusters(d=2, spread=1.5)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["color"] = np.array(["red", "green", "blue"])[(y + (rng.random(len(y)) < 0.1)) % 3]
    frame["big"] = (y == 1) ^ (rng.random(len(y)) < 0.1)
    frame.loc[0, "color"] = None
    frame.loc[1, "a"] = np.nan
    model = AutoMixture(3, random_state=0).fit(frame)
    assert model.member_.endswith("categorical")
    numbers = AutoMixture(3, random_state=0).fit(frame[["a", "b"]])
    ours = adjusted_rand_score(y, model.labels_)
    assert ours > adjusted_rand_score(y, numbers.labels_) + 0.3
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    frame["name"] = [f"row {i}" for i in range(len(y))]
    with pytest.raises(ValueError, match="'name' holds 240 different strings"):
        AutoMixture(3).fit(frame)


@pytest.mark.parametrize("share", [0.02, 0.1])
@pytest.mark.parametrize("positive", [False, True])
def test_gross_errors_are_left_out_with_a_warning(share, positive):
    X, y = clusters(n=300, d=8)
    if positive:
        X = np.exp(X / 3)
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < share] = 1e6
    with pytest.warns(UserWarning, match="gross errors"):
        model = AutoMixture(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert np.abs(model.means_).max() < 1e3


def test_small_and_degenerate_tables():
    X, y = clusters(n=14, d=6)
    assert adjusted_rand_score(y, AutoMixture(3, random_state=0).fit_predict(X)) > 0.7
    constant = np.column_stack([X, np.ones(14), np.full(14, np.nan)])
    model = AutoMixture(3, random_state=0).fit(constant)
    assert np.isfinite(model.predict_proba(constant)).all()
    assert AutoMixture().fit(np.ones((9, 2))).n_components_ == 1
    line = np.r_[np.arange(20.0), np.arange(100.0, 120)][:, None]
    labels = AutoMixture(2, random_state=0).fit_predict(line)
    assert len(set(labels[:20])) == len(set(labels[20:])) == 1
    twice = np.repeat(X[:4], 5, axis=0)
    assert len(set(AutoMixture(4, random_state=0).fit_predict(twice))) == 4
    with pytest.raises(ValueError, match="only 4 distinct rows"):
        AutoMixture(5).fit(twice)
    with pytest.raises(ValueError, match="n_samples=14 should be >= n_components=15"):
        AutoMixture(15).fit(X)


def test_new_rows_outside_of_the_domain_are_refused():
    X = np.exp(clusters(spread=2.0)[0])
    model = AutoMixture(3, random_state=0).fit(X)
    new = X[:2].copy()
    new[1, 2] = -3
    with pytest.raises(ValueError, match="Column 2 has -3 in row 1"):
        model.predict(new)


def test_large_tables_are_screened_on_some_rows():
    X, y = clusters(n=4000, d=4)
    model = AutoMixture(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    again = AutoMixture(3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, again.labels_)
    assert model.weights_.sum() == pytest.approx(1)


def test_units_do_not_matter():
    X, _ = clusters()
    a = AutoMixture(3, random_state=0).fit(X)
    b = AutoMixture(3, random_state=0).fit(X * [1e-6, 1e6, 1, 3, 5] + [0, 0, 9, 0, -4])
    assert adjusted_rand_score(a.labels_, b.labels_) == 1
    assert a.member_ == b.member_


def test_weights_of_zero_leave_rows_out():
    X, y = clusters()
    weights = np.ones(len(X))
    weights[:10] = 0
    odd = X.copy()
    odd[:10] = 50
    model = AutoMixture(3, random_state=0).fit(odd, sample_weight=weights)
    assert len(model.labels_) == len(X)
    assert adjusted_rand_score(y[10:], model.labels_[10:]) > 0.95


@pytest.mark.parametrize("kind", ["real", "counts", "categories"])
def test_rows_of_weight_two_are_rows_twice(kind):
    X, _ = clusters(n=120, d=4, spread=5.0)
    if kind == "counts":
        X = np.random.default_rng(0).poisson(np.exp(X / 4 + 2)).astype(float)
    if kind == "categories":
        X = (X > 0).astype(float)
    counts = np.random.default_rng(1).integers(1, 4, len(X))
    weighted = AutoMixture(3, random_state=0).fit(X, sample_weight=counts)
    repeated = AutoMixture(3, random_state=0).fit(np.repeat(X, counts, axis=0))
    assert weighted.bic_ == pytest.approx(repeated.bic_, rel=1e-4)
    assert adjusted_rand_score(weighted.labels_, repeated.predict(X)) > 0.98
    np.testing.assert_allclose(np.sort(weighted.weights_), np.sort(repeated.weights_), atol=0.02)


@pytest.mark.parametrize("kind", ["real", "positive", "counts", "bits", "wide"])
def test_missing_entries_in_tables_of_every_kind(kind):
    rng = np.random.default_rng(0)
    X, y = clusters(n=150, d=50 if kind == "wide" else 6)
    if kind == "positive":
        X = np.exp(X / 3)
    elif kind == "counts":
        X = rng.poisson(np.exp(X / 3 + 1)).astype(float)
    elif kind == "bits":
        X = (X > 0).astype(float)
    X[rng.random(X.shape) < 0.25] = np.nan
    X[5] = np.nan
    X[:, 2] = np.nan
    model = AutoMixture(3, random_state=0).fit(X)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert adjusted_rand_score(y, model.labels_) > 0.4


def test_a_family_can_be_imposed():
    X, y = clusters()
    gaussian = AutoMixture(3, family="gaussian", random_state=0).fit(X)
    assert adjusted_rand_score(y, gaussian.labels_) > 0.95
    counts = RNG.poisson(np.array([2.0, 20.0])[np.arange(80) % 2][:, None], (80, 3)).astype(float)
    for family, member in (("poisson", "Poisson"), ("negative_binomial", "negative binomial")):
        model = AutoMixture(2, family=family, random_state=0).fit(counts)
        assert model.members_ == [f"counts, {member}"]
    positive = AutoMixture(2, family="gamma", random_state=0).fit(np.exp(X))
    assert positive.members_ == ["numbers, gamma"]
    names = AutoMixture(2, family="gaussian", random_state=0).fit(counts).members_
    assert all(
        name.endswith(("variance", "variances", "covariance", "covariances")) for name in names
    )
    frame = pd.DataFrame({"a": counts[:, 0], "b": pd.Categorical(np.array(list("xy"))[y[:80] % 2])})
    mixed = AutoMixture(2, family="poisson", random_state=0).fit(frame)
    assert mixed.member_ == "counts, Poisson and categorical"


@pytest.mark.parametrize(
    "family, X, words",
    [
        ("gamma", [[1.5, 0.0], [2.0, 1.0], [3.0, 2.0]], "positive"),
        ("poisson", [[1.5, 0.5], [2.0, 1.0], [3.0, 2.0]], "counts"),
        ("multinomial", [[1.0], [2.0], [5.0]], "two columns"),
        ("gamma", [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], "no numbers"),
    ],
    ids=["zero", "fractions", "one column", "only bits"],
)
def test_a_family_that_does_not_suit_the_table_is_refused(family, X, words):
    with pytest.raises(ValueError, match=f"family='{family}'.*{words}"):
        AutoMixture(2, family=family).fit(np.array(X))


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="family"):
        AutoMixture(2, family="cauchy").fit(clusters()[0])


def test_clusters_of_mixtures_are_renamed_to_agree():
    rng = np.random.default_rng(0)
    R = rng.dirichlet(np.full(4, 0.2), 60)
    noisy = 0.9 * R + 0.1 * rng.dirichlet(np.ones(4), 60)
    shuffles = [np.array([2, 0, 3, 1]), np.array([3, 2, 1, 0])]
    tables = [R, *(noisy[:, shuffle] for shuffle in shuffles)]
    orders = aligned_orders(tables, np.array([0.5, 0.3, 0.2]), np.ones(60))
    np.testing.assert_array_equal(orders[0], np.arange(4))
    for table, order in zip(tables[1:], orders[1:], strict=True):
        np.testing.assert_array_equal(table[:, order], noisy)
    # the best of all renamings of two tables
    other = rng.dirichlet(np.full(4, 0.2), 60)
    order = aligned_orders([R, other], np.array([1.0, 1e-9]), np.ones(60))[1]
    overlap = [np.vdot(R, other[:, list(p)]) for p in itertools.permutations(range(4))]
    assert np.vdot(R, other[:, order]) == pytest.approx(max(overlap))


def test_probabilities_are_the_average_over_members():
    X, _ = clusters(spread=1.5)
    model = AutoMixture(3, random_state=0).fit(np.exp(X / 4))
    assert len(model.members_) == 3
    weights = model.member_weights_
    assert weights[0] == weights.max() and weights.sum() == pytest.approx(1)
    gaps = np.diff(model.scores_) * X.shape[1] / 2  # half of the nats per row
    np.testing.assert_allclose(np.log(weights[1:] / weights[:-1]), gaps, rtol=1e-6)
    expected = 0
    for member, weight in zip(model._pool, weights, strict=True):
        joint = member.density.joint(member.density.prepare(np.exp(X / 4)), member.point)
        expected = expected + weight * softmax(joint, axis=1)[:, member.order]
    np.testing.assert_allclose(model.predict_proba(np.exp(X / 4)), expected, atol=1e-12)
    assert (model.labels_ == expected.argmax(axis=1)).all()


def test_a_row_that_a_weaker_member_cannot_take_is_left_to_the_others():
    X = clusters(seed=1)[0] + 60.0  # where logarithms are nearly linear
    model = AutoMixture(3, random_state=0).fit(X)
    domains = [member.density.domain for member in model._pool]
    assert domains[0] == "real"
    assert "positive" in domains
    new = X[:2].copy()
    new[0, 0] = -0.5
    shares = model.predict_proba(new)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares[1], model.predict_proba(X[1:2])[0])
    able = [member for member in model._pool if member.density.domain == "real"]
    expected = sum(member.weight * member.posterior(new[:1]) for member in able)
    np.testing.assert_allclose(shares[:1], expected / expected.sum())
