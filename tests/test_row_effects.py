"""Free offsets of rows, inside the certificate: oracles, equivalences, laws of new rows, errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from regfactor import ConvexSubspace, FactorModel, SubspaceImputer, solve
from regfactor.fitting.known import NOTHING
from regfactor.losses import Absolute, Huber, Logistic, NegativeBinomial, Poisson, Quantile, Squared
from regfactor.penalties import Trace, TraceModulo
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import Admm, FactoredFista, Fista

LOSSES = {
    "squared": Squared(),
    "huber": Huber(0.5),
    "absolute": Absolute(),
    "quantile": Quantile(0.7),
    "logistic": Logistic(),
    "poisson": Poisson(),
}
MODELS = pytest.mark.parametrize("Model", [ConvexSubspace, SubspaceImputer])


def additive(n=40, d=8, seed=0, noise=0.2, interaction=0.0):
    """A table with offsets of rows and columns, and the offsets of its rows."""
    random = np.random.default_rng(seed)
    a = 2 * random.normal(size=n)
    Z = a[:, None] + random.normal(size=d)
    Z = Z + interaction * np.outer(random.normal(size=n), random.normal(size=d))
    return Z + noise * random.normal(size=(n, d)), a


def with_gaps(X, share=0.25, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def problem_of(name, gaps, intercept, alpha=0.5, n=9, d=6):
    """A small problem with a row of one sign and a column of one sign, whose offsets are infinite."""
    random = np.random.default_rng(len(name))
    T = random.normal(size=(n, 1)) + random.normal(size=(n, 2)) @ random.normal(size=(2, d))
    X = T + 0.3 * random.normal(size=(n, d))
    if name == "logistic":
        X = (X > 0).astype(float)
        X[0] = 1
        X[:, 2] = 0
    elif name == "poisson":
        X = random.poisson(np.exp(0.5 * T)).astype(float)
        X[3] = 0
    X = with_gaps(X, 0.3) if gaps else X
    design = Design.intercept(n) if intercept else None
    direction = np.linspace(0.5, 1.5, d)
    return X, Convex(Data.of(X, LOSSES[name]), TraceModulo(direction), alpha, design=design)


def oracle(name, X, alpha, direction, intercept):
    """The optimum by cvxpy, in the library's constants."""
    cp = pytest.importorskip("cvxpy")
    n, d = X.shape
    seen = ~np.isnan(X)
    x = np.where(seen, X, 0)
    Z = cp.Variable((n, d))
    P = Z + cp.Variable((n, 1)) @ direction[None]
    if intercept:
        P = P + np.ones((n, 1)) @ cp.Variable((1, d))
    residual = cp.multiply(seen, P - x)
    constant = 0.0
    match name:
        case "squared":
            cost = cp.sum_squares(residual) / 2
        case "huber":
            cost = cp.sum(cp.huber(residual, 0.5)) / 2
        case "absolute":
            cost = cp.sum(cp.abs(residual))
        case "quantile":
            cost = cp.sum(cp.maximum(-0.7 * residual, 0.3 * residual))
        case "logistic":
            cost = cp.sum(cp.multiply(seen, cp.logistic(P) - cp.multiply(x, P)))
        case _:
            cost = cp.sum(cp.multiply(seen, cp.exp(P) - cp.multiply(x, P)))
            constant = float(((Poisson().value(np.zeros_like(x), x) - 1) * seen).sum())
    found = cp.Problem(cp.Minimize(cost + alpha * cp.normNuc(Z)))
    found.solve(solver="CLARABEL")
    return found.value + constant


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_optimum_agrees_with_cvxpy(name, gaps, intercept):
    X, problem = problem_of(name, gaps, intercept)
    solution = solve(problem, tol=1e-6, max_iter=20_000)
    expected = oracle(name, X, 0.5, problem.gauge.direction, intercept)
    assert solution.status.converged and solution.rigorous
    assert solution.objective == pytest.approx(expected, rel=1e-5)
    assert solution.bound <= expected + 1e-6 * abs(expected)


def test_estimator_agrees_with_cvxpy_in_units_of_the_data():
    X = with_gaps(additive(20, 6, interaction=1.0)[0])
    model = ConvexSubspace(alpha=0.8, row_effects=True, scale=False, tol=1e-7).fit(X)
    expected = oracle("squared", X, 0.8, np.ones(6), True)
    assert model.objective_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_without_components_the_offsets_are_two_way_fixed_effects(gaps):
    X = with_gaps(additive()[0], gaps)
    n, d = X.shape
    with pytest.warns(UserWarning, match="has no component"):
        model = ConvexSubspace(alpha=1e3, row_effects=True, scale=False, tol=1e-9).fit(X)
    rows, columns = np.nonzero(~np.isnan(X))
    dummies = np.hstack([np.eye(n)[rows], np.eye(d)[columns]])
    effects = np.linalg.lstsq(dummies, X[rows, columns], rcond=None)[0]
    expected = effects[:n, None] + effects[n:]
    np.testing.assert_allclose(model.inverse_transform(model.codes_), expected, atol=1e-7)
    np.testing.assert_allclose(model.row_effects_, effects[:n] - effects[:n].mean(), atol=1e-7)
    assert model.objective_ == pytest.approx(((X - expected)[rows, columns] ** 2).sum() / 2)


def test_offsets_of_rows_cost_nothing_however_large_they_are():
    X = with_gaps(additive(interaction=1.0)[0])
    far = 100 * np.random.default_rng(5).normal(size=(len(X), 1))
    fits = [
        ConvexSubspace(alpha=0.5, row_effects=True, scale=False, tol=1e-8).fit(table)
        for table in (X, X + far)
    ]
    assert fits[1].objective_ == pytest.approx(fits[0].objective_, rel=1e-6)
    np.testing.assert_allclose(fits[1].complete(X + far), fits[0].complete(X) + far, atol=1e-3)


@pytest.mark.parametrize(
    "loss", [Squared(), Huber(0.4), Logistic(), NegativeBinomial(3.0)], ids=str
)
def test_solvers_agree(loss):
    X = with_gaps(additive(25, 7, interaction=1.0)[0])
    if isinstance(loss, Logistic):
        X = np.where(np.isnan(X), X, X > 0)
    elif isinstance(loss, NegativeBinomial):
        X = np.where(np.isnan(X), X, np.round(np.exp(np.clip(X, -3, 3))))
    data = Data.of(X, loss)
    problem = Convex(data, TraceModulo(np.ones(7)), 0.4, design=Design.intercept(25))
    fits = [solve(problem, solver=s, tol=1e-6, max_iter=20_000) for s in (Admm(), Fista())]
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=3e-6)
    assert not FactoredFista().accepts(problem)


@MODELS
@pytest.mark.parametrize("alpha", [0.3, "auto"])
def test_new_rows_are_scored_like_those_of_the_fit(Model, alpha):
    X = with_gaps(additive(60, 9, interaction=1.0)[0])
    X[7] = np.nan
    with pytest.warns(UserWarning, match="no observed entry"):
        model = Model(alpha=alpha, row_effects=True, random_state=0).fit(X)
    codes = model._transform(X, NOTHING)
    np.testing.assert_allclose(codes, model.codes_, atol=1e-7)
    np.testing.assert_array_equal(model.row_effects_, model.codes_[:, 0])
    assert abs(np.delete(model.row_effects_, 7).mean()) < 1e-9
    assert model.row_effects_[7] == 0
    np.testing.assert_allclose(model.complete(X)[7], model.intercept_, rtol=1e-6)
    np.testing.assert_allclose(model.complete(X)[:5], model.complete(X[:5]), atol=1e-7)
    assert len(model.singular_values_) == len(model.components_) - 1


@MODELS
def test_offsets_of_new_rows_are_outside_of_those_seen(Model):
    """A free offset follows a row as far as it lies; a penalized code would hold it back."""
    X, _ = additive(80, 10, noise=0.1)
    model = Model("squared", row_effects=True, scale=False, random_state=0).fit(with_gaps(X))
    far = X[:5] + 300
    seen = far.copy()
    seen[:, 6:] = np.nan
    assert np.abs(model.complete(seen) - far).max() < 1.0


def test_weights_act_as_repetition_counts():
    X = with_gaps(additive(20, 6, interaction=1.0)[0])
    counts = np.random.default_rng(2).integers(0, 4, 20)
    options = {"alpha": 0.4, "row_effects": True, "scale": False, "tol": 1e-8}
    weighted = ConvexSubspace(**options).fit(X, sample_weight=counts)
    repeated = ConvexSubspace(**options).fit(np.repeat(X, counts, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-4)


def test_units_of_a_column_change_that_column_alone():
    X = with_gaps(additive(50, 6, interaction=1.0)[0])
    unit = np.array([1, 1000.0, 1, 1, 1, 1])
    models = [ConvexSubspace(row_effects=True, random_state=0).fit(t) for t in (X, X * unit)]
    np.testing.assert_allclose(models[1].row_effects_, models[0].row_effects_, atol=1e-6)
    filled = [model.complete(t) for model, t in zip(models, (X, X * unit), strict=True)]
    np.testing.assert_allclose(filled[1] / unit, filled[0], atol=1e-6)


@MODELS
def test_intervals_and_draws_cover(Model):
    X, _ = additive(150, 8, noise=0.5, interaction=1.0, seed=3)
    missing = with_gaps(X, 0.2)
    hidden = np.isnan(missing)
    model = Model(row_effects=True, random_state=0).fit(missing)
    limits = model.complete_interval(missing, level=0.9)
    covered = ((limits.lower <= X) & (X <= limits.upper))[hidden].mean()
    assert 0.84 < covered < 0.97
    draws = np.array(model.sample(missing, n_draws=4, random_state=0))
    np.testing.assert_array_equal(draws[0][~hidden], X[~hidden])
    errors = draws[:, hidden] - X[hidden]
    ratio = errors.std() / (model.complete(missing) - X)[hidden].std()
    assert 1.1 < ratio < 1.75  # sqrt(2) of a draw about a mean of the same error


def test_covariates_and_limits_join_the_offsets_of_rows():
    X, _ = additive(60, 7, interaction=1.0)
    sex = np.random.default_rng(4).integers(2, size=60)
    slopes = np.linspace(-3, 3, 7)
    Y = X + np.outer(sex, slopes)
    low = Y < np.quantile(Y, 0.15)
    seen = np.where(low, np.nan, Y)
    upper = np.where(low, np.quantile(Y, 0.15), np.nan)
    model = ConvexSubspace(row_effects=True, scale=False, random_state=0)
    model.fit(seen, covariates=sex[:, None], upper=upper)
    assert model.relative_gap_ <= 1e-4
    slope = model.covariate_coef_[0]
    # a number may move between the covariate and the offsets of rows
    np.testing.assert_allclose(slope - slope.mean(), slopes, atol=0.5)
    filled = model.complete(seen, covariates=sex[:, None], upper=upper)
    assert (filled[low] <= upper[low]).all()


def test_factor_model_takes_the_gauge():
    X = with_gaps(additive(30, 6, interaction=1.0)[0])
    gauge = TraceModulo(np.ones(6))
    model = FactorModel(gauge=gauge, alpha=0.5, fit_intercept=True, tol=1e-7).fit(X)
    other = ConvexSubspace(alpha=0.5, row_effects=True, scale=False, tol=1e-7).fit(X)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-6)


def test_what_cannot_have_offsets_of_rows_is_refused():
    X = with_gaps(additive()[0])
    with pytest.raises(ValueError, match="dense tables"):
        ConvexSubspace(row_effects=True).fit(scipy.sparse.csr_array(np.nan_to_num(X)))
    with pytest.raises(ValueError, match="max_rank=None"):
        ConvexSubspace(row_effects=True, max_rank=2).fit(X)
    with pytest.raises(ValueError, match="debias"):
        ConvexSubspace(row_effects=True, debias=True).fit(X)
    frame = pd.DataFrame(X).add_prefix("x").assign(kind=np.array(["a", "b", "c", "d"] * 10))
    with pytest.raises(ValueError, match="'kind' holds categories"):
        SubspaceImputer(row_effects=True).fit(frame)
    with pytest.raises(ValueError, match="row_effects=False"):
        ConvexSubspace(row_effects=True).partial_fit(X)


@pytest.mark.parametrize("direction", [np.zeros(3), np.ones((2, 2)), [1.0, np.nan]])
def test_directions_that_are_none_are_refused(direction):
    with pytest.raises(ValueError, match="direction"):
        TraceModulo(direction)


def test_a_bound_needs_a_dual_point_that_is_orthogonal():
    _, problem = problem_of("squared", False, True)
    Y = np.random.default_rng(0).normal(size=problem.shape)
    assert problem.dual_norm(Y)[0] == np.inf
    freed = problem.feasible(Y)
    np.testing.assert_allclose(freed.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(freed @ problem.gauge.direction, 0, atol=1e-12)
    plain = Convex(problem.data, Trace(), 0.5, design=problem.design)
    assert solve(problem).objective <= solve(plain).objective


@pytest.mark.parametrize("loss", [Quantile(0.7), Absolute(), Huber(0.1)], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_offsets_reach_rows_without_an_entry_near(loss, seed):
    """A row whose entries are all far from zero has a slope without curvature there."""
    random = np.random.default_rng(seed)
    X = 3 * random.normal(size=(40, 1)) + random.normal(size=(40, 9))
    problem = Convex(Data.of(X, loss), TraceModulo(np.ones(9)), 1.0)
    candidates = np.linspace(X.min(), X.max(), 4001)[:, None, None]
    if not isinstance(loss, Huber):
        candidates = X.T[:, :, None]  # a sum of kinks is least at one of them
    least = loss.value(candidates, X).sum(axis=2).min(axis=0).sum()
    assert problem.null_objective() == pytest.approx(least, rel=1e-4)
    assert problem.alpha_max() > 0
    solution = solve(problem.at(0.3 * problem.alpha_max()), tol=1e-4, max_iter=2000)
    assert solution.status.converged
