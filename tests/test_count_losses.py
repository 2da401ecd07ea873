"""Overdispersed counts, quantiles and lifetimes: optima by a conic solver, dispersions, rotations."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

from regfactor import ConvexSubspace, ExponentialFamilyPCA
from regfactor.fitting.dispersion import common_theta, profile_thetas
from regfactor.losses import NegativeBinomial, Poisson, Quantile, Weibull
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import solve
from regfactor.tables.rotation import rotate


def rng(seed=0):
    return np.random.default_rng(seed)


def small_table(loss, seed=0):
    random = rng(seed)
    Z = 0.7 * random.normal(size=(8, 2)) @ random.normal(size=(2, 5))
    if isinstance(loss, NegativeBinomial):
        X = random.poisson(np.exp(1 + Z)).astype(float)
    elif isinstance(loss, Weibull):
        X = np.exp(Z) * random.weibull(loss.shape, Z.shape)
    else:
        X = Z + random.normal(size=Z.shape)
    X[random.random(X.shape) < 0.2] = np.nan
    return X


def conic_loss(loss, P, X, observed):
    """The sum of a loss over observed entries, by its formula."""
    x = np.where(observed, X, 1.0)
    if isinstance(loss, NegativeBinomial):
        entries = cp.multiply(x + loss.theta, cp.logistic(P - np.log(loss.theta)))
        entries = entries + (x + loss.theta) * np.log(loss.theta) - cp.multiply(x, P)
    elif isinstance(loss, Weibull):
        k = loss.shape
        entries = cp.exp(k * (np.log(x) - P)) + k * P
    else:
        entries = cp.maximum((1 - loss.level) * (P - x), loss.level * (x - P))
    return cp.sum(cp.multiply(observed.astype(float), entries))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", [NegativeBinomial(2.0), Quantile(0.3), Quantile(0.8), Weibull(1.5)], ids=str
)
def test_the_optimum_is_that_of_a_conic_solver(loss, intercept):
    X = small_table(loss)
    alpha = 0.8
    design = Design.intercept(len(X)) if intercept else None
    ours = solve(Convex(Data.of(X, loss), Trace(), alpha, design=design), tol=1e-7, max_iter=20_000)
    Z = cp.Variable(X.shape)
    b = cp.Variable((1, X.shape[1]))
    P = Z + np.ones((len(X), 1)) @ b if intercept else Z
    objective = conic_loss(loss, P, X, ~np.isnan(X)) + alpha * cp.normNuc(Z)
    theirs = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert ours.objective == pytest.approx(theirs, rel=1e-5)
    assert ours.bound <= theirs * (1 + 1e-6) + 1e-6


def test_counts_of_great_dispersion_are_poisson():
    z = rng().normal(size=50)
    x = rng(1).poisson(3.0, 50).astype(float)
    near = NegativeBinomial(1e7)
    np.testing.assert_allclose(near.gradient(z, x), Poisson().gradient(z, x), rtol=1e-4, atol=1e-4)


def test_dispersions_are_those_of_greatest_likelihood():
    random = rng(2)
    truth = np.array([0.5, 3.0, 30.0])
    means = np.full((4000, 3), 6.0)
    X = random.poisson(means * random.gamma(truth, 1 / truth, means.shape)).astype(float)
    found = profile_thetas(X, means, np.ones_like(X))
    np.testing.assert_allclose(np.log(found), np.log(truth), atol=0.35)
    doubled = profile_thetas(X[:200], means[:200], np.full((200, 3), 2.0))
    repeated = profile_thetas(
        np.repeat(X[:200], 2, axis=0), np.repeat(means[:200], 2, axis=0), np.ones((400, 3))
    )
    np.testing.assert_allclose(doubled, repeated)


def overdispersed(n=120, d=10, theta=2.0, seed=3):
    random = rng(seed)
    Z = 1 + 0.6 * random.normal(size=(n, 2)) @ random.normal(size=(2, d))
    X = random.poisson(np.exp(Z) * random.gamma(theta, 1 / theta, Z.shape)).astype(float)
    X[random.random(X.shape) < 0.1] = np.nan
    return X, Z


def test_a_subspace_finds_the_dispersion_of_each_column():
    X, _ = overdispersed()
    model = ConvexSubspace("negative_binomial", alpha=5.0).fit(X)
    thetas = [part.theta for _, part in model._loss_parts]
    assert 0.5 < np.median(thetas) < 10 and len(thetas) > 1
    assert model.relative_gap_ <= 1e-4
    given = ConvexSubspace(NegativeBinomial(2.0), alpha=5.0).fit(X)
    assert (given.complete(X) >= 0).all()
    named = ConvexSubspace({0: "negative_binomial", 1: "poisson"}, alpha=5.0).fit(X)
    assert np.isfinite(named.complete(X)).all()
    with pytest.raises(ValueError, match="theta='auto'.*dense"):
        ConvexSubspace("negative_binomial").fit(scipy.sparse.csr_array(np.nan_to_num(X)))
    with pytest.raises(ValueError, match="give theta a number"):
        Data.of(X, "negative_binomial").value(np.zeros(X.shape))


def test_components_of_overdispersed_counts_explain_them_better_than_poisson_ones():
    X, Z = overdispersed()
    found = ExponentialFamilyPCA(2, "negative_binomial").fit(X)
    poisson = ExponentialFamilyPCA(2, "poisson").fit(X)
    assert 0.5 < found.theta_ < 8 and 0 < found.deviance_explained_ < 1

    def error(model):
        return np.square(model.codes_ @ model.components_ + model.intercept_ - Z).mean()

    assert error(found) < error(poisson)
    fixed = ExponentialFamilyPCA(2, NegativeBinomial(2.0), row_offset="total").fit(X)
    assert fixed.theta_ == 2.0
    whole = ExponentialFamilyPCA(None, "negative_binomial", alpha=8.0).fit(X)
    assert whole.relative_gap_ <= 1e-4
    sparse = scipy.sparse.csr_array(np.nan_to_num(X))
    assert 0.1 < common_theta(sparse, None) < 100


def test_the_log_likelihood_of_counts_is_that_of_the_distribution():
    from scipy.stats import nbinom

    X, _ = overdispersed(30, 4)
    model = ExponentialFamilyPCA(1, NegativeBinomial(3.0)).fit(X)
    means = model.inverse_transform(model.transform(X))
    expected = nbinom.logpmf(X, 3.0, 3.0 / (3.0 + means))[~np.isnan(X)].mean()
    assert model.score(X) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["varimax", "oblimin"])
def test_rotation_recovers_a_simple_structure(method):
    random = rng(5)
    simple = np.zeros((3, 12))
    for k in range(3):
        simple[k, 4 * k : 4 * k + 4] = random.uniform(0.5, 1.0, 4)
    codes = random.normal(size=(20, 3))
    Q, _ = np.linalg.qr(random.normal(size=(3, 3)))
    found = rotate(Q @ simple, codes @ Q.T, method)
    np.testing.assert_allclose(found.codes @ found.components, codes @ simple, atol=1e-9)
    order = np.abs(found.components).argmax(axis=1) // 4
    signs = np.sign(found.components[np.arange(3), np.abs(found.components).argmax(axis=1)])
    np.testing.assert_allclose(found.components * signs[:, None], simple[order], atol=1e-4)
    np.testing.assert_allclose(np.diag(found.correlations), 1.0)


def test_oblique_factors_may_correlate_and_orthogonal_ones_do_not():
    random = rng(6)
    simple = np.kron(np.eye(2), np.ones((1, 5))) + 0.05 * random.normal(size=(2, 10))
    correlated = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    mixed = correlated.T @ simple
    oblique = rotate(mixed, method="oblimin")
    assert abs(abs(oblique.correlations[0, 1]) - 0.5) < 0.1
    np.testing.assert_allclose(rotate(mixed).correlations, np.eye(2), atol=1e-9)
    with pytest.raises(ValueError, match="method"):
        rotate(mixed, method="varymax")


def test_the_dispersion_knows_exposures_and_does_not_depend_on_storage():
    random = np.random.default_rng(12)
    depth = np.exp(1.2 * random.normal(size=300))
    Z = 0.5 + 0.3 * random.normal(size=(300, 2)) @ random.normal(size=(2, 40))
    means = depth[:, None] * np.exp(Z)
    X = random.poisson(means * random.gamma(2.0, 0.5, means.shape)).astype(float)
    model = ExponentialFamilyPCA(2, "negative_binomial", row_offset="total", random_state=0)
    theta = model.fit(X).theta_
    assert theta == pytest.approx(2.0, rel=0.2)
    assert model.fit(scipy.sparse.csr_array(X)).theta_ == theta
    given = ExponentialFamilyPCA(2, "negative_binomial", random_state=0)
    assert given.fit(X, offset=np.log(depth)).theta_ == pytest.approx(2.0, rel=0.2)
