"""Entries known by limits, and covariates of rows: oracles, laws, and errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from regfactor import ConvexSubspace, FactorModel, SubspaceImputer, solve
from regfactor.losses import Censored, Huber, Logistic, Squared
from regfactor.maps import RightProduct
from regfactor.penalties import Lasso, NonNegative, SquaredL2, Trace, UnitBall
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import FactoredFista, Fista


def low_rank(n, d, seed=0, noise=0.3, rank=2):
    """A table of low rank, and the same with noise."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, rank)) @ random.normal(size=(rank, d)) + 3
    return Z, Z + noise * random.normal(size=(n, d))


def below_limits(X, share=0.3):
    """The table with entries below a limit of each column missing, and their upper limits."""
    limit = np.quantile(X, share, axis=0)
    hidden = limit > X
    return np.where(hidden, np.nan, X), np.where(hidden, limit, np.nan), hidden


def with_limits_of_all_kinds(n=9, d=6, seed=0):
    """A table with numbers, gaps, and entries below, above and between limits."""
    _, X = low_rank(n, d, seed)
    kind = np.random.default_rng(seed + 1).integers(6, size=X.shape)
    low = np.where(np.isin(kind, [1, 2]), np.floor(X), -np.inf)
    high = np.where(np.isin(kind, [2, 3]), np.floor(X) + 1, np.inf)
    return np.where(kind < 5, np.where(kind > 3, X, np.nan), np.nan), np.stack([low, high])


def limited_problem(noise, loss=None, alpha=0.8, **options):
    X, limits = with_limits_of_all_kinds(**options)
    data = Data.of(X, Censored(loss or Squared(), noise, scale=0.4), limits=limits)
    return Convex(data, Trace(), alpha, design=Design.intercept(len(X)))


def oracle_of_logistic_limits(delta=None, D=None):
    """The optimum by cvxpy under limits of all kinds, with an intercept and regressors."""
    cp = pytest.importorskip("cvxpy")
    X, (low, high) = with_limits_of_all_kinds()
    n, d = X.shape
    Z = cp.Variable((n, d))
    regressors = np.ones((n, 1)) if D is None else np.hstack([np.ones((n, 1)), D])
    P = Z + regressors @ cp.Variable((regressors.shape[1], d))
    known = ~np.isnan(X)
    width = 0.4 * np.sqrt(3) / np.pi
    residual = cp.multiply(known, P - np.where(known, X, 0))
    cost = cp.sum_squares(residual) / 2 if delta is None else cp.sum(cp.huber(residual, delta)) / 2
    for side, sign in ((high, 1.0), (low, -1.0)):
        at = np.isfinite(side)
        away = sign * (P - np.where(at, side, 0)) / width
        cost += 0.16 * cp.sum(cp.multiply(at.astype(float), cp.logistic(away)))
    both = np.isfinite(low) & np.isfinite(high)
    constant = -0.16 * np.log(-np.expm1(-(high - low)[both] / width)).sum()
    oracle = cp.Problem(cp.Minimize(cost + 0.8 * cp.normNuc(Z)))
    oracle.solve(solver="SCS", eps=1e-7, max_iters=50_000)
    return oracle.value + constant


@pytest.mark.parametrize("delta", [None, 0.5])
def test_logistic_limits_agree_with_cvxpy(delta):
    base = Squared() if delta is None else Huber(delta)
    problem = limited_problem("logistic", base)
    optimum = oracle_of_logistic_limits(delta)
    solution = solve(problem, tol=1e-7, max_iter=5000)
    assert solution.objective == pytest.approx(optimum, rel=1e-5)
    assert solution.bound <= optimum + 1e-5 * abs(optimum)


# both are one problem: with as many atoms as columns, ridges on both factors are the trace norm
FACTOR_FORMS = {
    "certified": {"gauge": Trace()},
    "local": {"on_codes": SquaredL2(), "on_components": SquaredL2(), "rank": 6},
}


@pytest.mark.parametrize("form", FACTOR_FORMS)
@pytest.mark.parametrize("with_covariates", [False, True])
def test_factor_models_with_limits_and_covariates_agree_with_cvxpy(form, with_covariates):
    X, (lower, upper) = with_limits_of_all_kinds()
    D = np.random.default_rng(2).normal(size=(len(X), 1)) if with_covariates else None
    model = FactorModel(
        Censored(Squared(), "logistic", scale=0.4),
        alpha=0.8,
        fit_intercept=True,
        tol=1e-9 if form == "local" else 1e-6,
        max_iter=20_000,
        random_state=0,
        **FACTOR_FORMS[form],
    )
    model.fit(X, lower=lower, upper=upper, covariates=D)
    optimum = oracle_of_logistic_limits(D=D)
    assert model.objective_ == pytest.approx(optimum, rel=1e-5)
    assert model.is_convex_ == (form == "certified")


@pytest.mark.parametrize(
    "options",
    [
        {"gauge": Trace()},
        {"rank": 2, "loss": "huber"},
        {"rank": 2, "on_codes": NonNegative(), "on_components": NonNegative()},
        {"rank": 3, "on_codes": Lasso(), "on_components": UnitBall()},
    ],
    ids=str,
)
def test_factor_models_score_rows_with_what_is_known_of_them(options):
    X, frame, D, slopes = with_covariates(80, 6)
    observed, upper, hidden = below_limits(X)
    model = FactorModel(
        alpha=0.3, fit_intercept=True, tol=1e-4, max_iter=3000, random_state=0, **options
    )
    model.fit(observed, upper=upper, covariates=frame)
    known = {"upper": upper, "covariates": frame}
    np.testing.assert_allclose(model.transform(observed, **known), model.codes_, atol=1e-8)
    filled = model.complete(observed, **known)
    assert (filled[hidden] <= upper[hidden]).all()
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    predicted = model.inverse_transform(model.codes_, covariates=frame)
    expected = model.codes_ @ model.components_ + model.intercept_ + D @ model.covariate_coef_
    np.testing.assert_allclose(predicted, expected, atol=1e-8)
    assert model.covariate_names_ == ["batch=v", "batch=w", "age"]
    low, high = model.complete_interval(observed, **known)
    assert (low[hidden] <= filled[hidden]).all() and (high[hidden] <= upper[hidden]).all()
    with pytest.raises(ValueError, match="pass covariates"):
        model.transform(observed)


def test_covariates_may_stand_behind_a_map_and_beside_known_codes():
    X, frame, D, _ = with_covariates(40, 5)
    plain = FactorModel(gauge=Trace(), alpha=1.0, fit_intercept=True, tol=1e-7)
    mapped = clone(plain).set_params(map=RightProduct(np.eye(5)))
    expected = plain.fit(X, covariates=frame).objective_
    assert mapped.fit(X, covariates=frame).objective_ == pytest.approx(expected, rel=1e-6)
    known = FactorModel(on_components=SquaredL2(), alpha=1e-9, known_codes=D, tol=1e-12)
    beside = clone(known).set_params(known_codes=D[:, :1]).fit(X, covariates=D[:, 1:])
    alone = known.fit(X)
    assert beside.objective_ == pytest.approx(alone.objective_, rel=1e-6)


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
@pytest.mark.parametrize("alpha", [0.1, 0.8, 5.0])
def test_solvers_agree_and_prove_a_small_gap(noise, alpha):
    problem = limited_problem(noise, alpha=alpha, n=30, d=8)
    solutions = [
        solve(problem, solver=solver, tol=1e-6, max_iter=5000)
        for solver in (Fista(), FactoredFista(tol=1e-6))
    ]
    for solution in solutions:
        assert solution.status.converged and solution.rigorous
        assert solution.bound <= min(s.objective for s in solutions) * (1 + 1e-12)
    assert solutions[0].objective == pytest.approx(solutions[1].objective, rel=3e-6)


def test_limits_far_below_a_predictor_cost_half_the_squared_distance():
    X = np.full((1, 1), np.nan)
    limits = np.array([[[-np.inf]], [[1.0]]])
    data = Data.of(X, Censored(scale=1e-4), limits=limits)
    assert data.value(np.array([[3.0]])) == pytest.approx(2.0, rel=1e-5)
    assert data.value(np.array([[0.0]])) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("Model", [ConvexSubspace, SubspaceImputer])
def test_detection_limits_beat_dropping_and_substituting(Model):
    Z, X = low_rank(120, 10, seed=3)
    observed, upper, hidden = below_limits(X)
    model = Model(random_state=0).fit(observed, upper=upper)
    completed = model.complete(observed, upper=upper)
    assert model.relative_gap_ <= 1e-4
    np.testing.assert_array_equal(completed[~hidden], X[~hidden])
    assert (completed[hidden] <= upper[hidden]).all()
    dropped = Model(random_state=0).fit(observed).complete(observed)
    halves = np.where(hidden, upper / 2, X)

    def error(filled):
        return np.sqrt(np.mean((filled - Z)[hidden] ** 2))

    assert error(completed) < error(halves)
    assert error(completed) < 0.5 * error(dropped)


def components_of(model, Z):
    """The largest sine of the angles between the rows of a truth and the components."""
    truth = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][:2]
    basis = np.linalg.qr((model.components_[:2] / model.scale_).T * model.scale_[:, None])[0]
    return np.sqrt(max(0, 1 - np.linalg.svd(truth @ basis, compute_uv=False).min() ** 2))


def test_detection_limits_find_the_components():
    Z, X = low_rank(200, 8, seed=5, noise=0.2)
    observed, upper, hidden = below_limits(X)
    fitted = ConvexSubspace(random_state=0, scale=False).fit(observed, upper=upper)
    dropped = ConvexSubspace(random_state=0, scale=False).fit(observed)
    halves = ConvexSubspace(random_state=0, scale=False).fit(np.where(hidden, upper / 2, X))
    assert components_of(fitted, Z) < min(components_of(dropped, Z), components_of(halves, Z))


@pytest.mark.parametrize("Model", [ConvexSubspace, SubspaceImputer])
def test_rows_with_limits_are_scored_as_they_were_fitted(Model):
    _, X = low_rank(40, 6)
    observed, upper, hidden = below_limits(X)
    model = Model(alpha=1.0).fit(observed, upper=upper)
    codes = ConvexSubspace.transform(model, observed, upper=upper)
    np.testing.assert_allclose(codes, model.codes_, atol=1e-9)
    some = ConvexSubspace.transform(model, observed[:5], upper=upper[:5])
    np.testing.assert_allclose(some, model.codes_[:5], atol=1e-9)
    np.testing.assert_allclose(
        model.complete(observed[:5], upper=upper[:5]), model.complete(observed, upper=upper)[:5]
    )


def test_intervals_and_draws_keep_limits():
    _, X = low_rank(60, 6)
    observed, upper, hidden = below_limits(X)
    lower = np.where(hidden, upper - 4, np.nan)
    model = ConvexSubspace(random_state=0).fit(observed, lower=lower, upper=upper)
    low, high = model.complete_interval(observed, lower=lower, upper=upper)
    assert (low[hidden] >= lower[hidden]).all() and (high[hidden] <= upper[hidden]).all()
    assert (low[hidden] < high[hidden]).all()
    (drawn,) = model.sample(observed, 1, random_state=0, lower=lower, upper=upper)
    assert (drawn[hidden] >= lower[hidden]).all() and (drawn[hidden] <= upper[hidden]).all()
    np.testing.assert_array_equal(drawn[~hidden], X[~hidden])


def test_limits_that_agree_are_a_number():
    _, X = low_rank(30, 5)
    observed, upper, hidden = below_limits(X)
    given = np.where(hidden, X, np.nan)
    model = ConvexSubspace(alpha=1.0).fit(observed, lower=given, upper=given)
    plain = ConvexSubspace(alpha=1.0).fit(X)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    np.testing.assert_allclose(model.complete(observed, lower=given, upper=given), X)


def test_units_of_a_column_change_nothing_else():
    _, X = low_rank(50, 5)
    observed, upper, _ = below_limits(X)
    units = np.array([1.0, 1000.0, 1.0, 0.01, 1.0])
    model = ConvexSubspace(random_state=0).fit(observed, upper=upper)
    other = ConvexSubspace(random_state=0).fit(observed * units, upper=upper * units)
    expected = model.complete(observed, upper=upper) * units
    found = other.complete(observed * units, upper=upper * units)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_open_limits_are_no_limits():
    _, X = low_rank(30, 5)
    X[::3, 1] = np.nan
    open_ends = np.full_like(X, np.nan)
    open_ends[0] = np.inf
    model = ConvexSubspace(alpha=1.0).fit(X, upper=open_ends)
    assert model.objective_ == pytest.approx(ConvexSubspace(alpha=1.0).fit(X).objective_)


def test_frames_with_categories_take_limits_by_name():
    _, X = low_rank(60, 4)
    observed, upper, hidden = below_limits(X)
    frame = pd.DataFrame(observed, columns=list("abcd"))
    frame["kind"] = np.where(X[:, 0] > 3, "high", "low")
    limits = pd.DataFrame(upper, columns=list("abcd"))
    limits["kind"] = np.nan
    model = SubspaceImputer(random_state=0).fit(frame, upper=limits)
    filled = model.complete(frame, upper=limits)[list("abcd")].to_numpy()
    assert (filled[hidden] <= upper[hidden] + 1e-9).all()
    np.testing.assert_allclose(filled[~hidden], X[~hidden])


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ({(2, 1): 5.0}, {(2, 1): 4.0}, r"Row 2 has lower=5 above upper=4 in column 'b'"),
        ({(3, 0): 100.0}, {}, r"Row 3 holds .* in column 'a', outside of its limits"),
        ({}, {(3, 2): -100.0}, r"Row 3 holds .* in column 'c', outside of its limits"),
    ],
)
def test_contradictions_are_named_by_row_and_column(low, high, message):
    _, X = low_rank(10, 3)
    X[2, 1] = np.nan
    sides = []
    for given in (low, high):
        side = np.full_like(X, np.nan)
        for place, value in given.items():
            side[place] = value
        sides.append(pd.DataFrame(side, columns=list("abc")))
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(ValueError, match=message):
        ConvexSubspace().fit(frame, lower=sides[0], upper=sides[1])


def test_limits_that_a_column_cannot_have_are_refused():
    _, X = low_rank(20, 3)
    X[4, 1] = np.nan
    upper = np.full_like(X, np.nan)
    upper[4, 1] = 2.0
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = ["x", "y"] * 10
    limits = frame.copy()
    limits[:] = np.nan
    limits = limits.astype(object)
    limits.loc[7, "kind"] = 3.0
    with pytest.raises(ValueError, match="Row 7 has upper=3 in column 'kind', which holds cat"):
        SubspaceImputer().fit(frame, upper=limits)
    with pytest.raises(ValueError, match="limits, which the losses 'squared', 'huber'"):
        ConvexSubspace(loss="poisson").fit(np.abs(np.round(X)), upper=upper)
    with pytest.raises(ValueError, match="upper has 3 rows and 3 columns, X 20 and 3"):
        ConvexSubspace().fit(X, upper=upper[:3])
    with pytest.raises(ValueError, match="Column 0 has limits here and had none in fit"):
        fitted = ConvexSubspace(alpha=1.0).fit(X, upper=upper)
        row = np.array([[np.nan, 1.0, 2.0]])
        fitted.transform(row, upper=np.array([[2.0, np.nan, np.nan]]))
    with pytest.raises(ValueError, match="dense tables"):
        import scipy.sparse

        ConvexSubspace().fit(scipy.sparse.csr_array(np.nan_to_num(X)), upper=upper)


def test_a_loss_with_a_given_noise_is_taken_as_it_is():
    _, X = low_rank(30, 4)
    observed, upper, _ = below_limits(X)
    found = ConvexSubspace(Censored(scale=0.2), alpha=1.0).fit(observed, upper=upper)
    other = ConvexSubspace(Censored(scale=2.0), alpha=1.0).fit(observed, upper=upper)
    assert found.objective_ < other.objective_
    with pytest.raises(ValueError, match="scale > 0"):
        Censored(scale=-1.0)
    with pytest.raises(ValueError, match=r"Squared\(\) and Huber\(\)"):
        Censored(Logistic(), scale=1.0)


# --- covariates -----------------------------------------------------------------------------------


def with_covariates(n=60, d=5, seed=0):
    random = np.random.default_rng(seed)
    _, X = low_rank(n, d, seed)
    frame = pd.DataFrame(
        {"batch": random.choice(["u", "v", "w"], n), "age": random.normal(40, 10, n)}
    )
    D = np.column_stack([frame["batch"] == "v", frame["batch"] == "w", frame["age"]]).astype(float)
    slopes = random.normal(size=(3, d)) * np.array([[2.0], [2.0], [0.1]])
    return X + D @ slopes, frame, D, slopes


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_covariates_agree_with_cvxpy(loss, fit_intercept):
    cp = pytest.importorskip("cvxpy")
    random = np.random.default_rng(4)
    X, _, D, _ = with_covariates(12, 4)
    D = D[:, 2:] / 10
    if loss == "logistic":
        X = (X > np.median(X, axis=0)).astype(float)
    X[random.random(X.shape) < 0.2] = np.nan
    known = ~np.isnan(X)
    Z = cp.Variable(X.shape)
    regressors = np.hstack([np.ones((12, 1)), D]) if fit_intercept else D
    P = Z + regressors @ cp.Variable((regressors.shape[1], 4))
    x = np.where(known, X, 0)
    if loss == "squared":
        cost = cp.sum_squares(cp.multiply(known, P - x)) / 2
    else:
        cost = cp.sum(cp.multiply(known, cp.logistic(P) - cp.multiply(x, P)))
    oracle = cp.Problem(cp.Minimize(cost + 0.7 * cp.normNuc(Z)))
    oracle.solve(solver="SCS", eps=1e-8, max_iters=50_000)
    model = ConvexSubspace(loss, 0.7, fit_intercept, scale=False, tol=1e-6, max_iter=5000)
    model.fit(X, covariates=D)
    assert model.objective_ == pytest.approx(oracle.value, rel=1e-5)
    assert model.relative_gap_ <= 1e-6 and model.certificate_.rigorous


def test_of_a_complete_table_the_regression_is_taken_out():
    X, frame, D, _ = with_covariates()
    model = ConvexSubspace(alpha=2.0, scale=False).fit(X, covariates=frame)
    full = np.hstack([np.ones((len(X), 1)), D])
    residuals = X - full @ np.linalg.lstsq(full, X, rcond=None)[0]
    plain = ConvexSubspace(alpha=2.0, scale=False, fit_intercept=False).fit(residuals)
    np.testing.assert_allclose(
        model.codes_ @ model.components_, plain.codes_ @ plain.components_, atol=1e-6
    )
    assert model.covariate_names_ == ["batch=v", "batch=w", "age"]
    fitted = model.codes_ @ model.components_ + model.intercept_ + D @ model.covariate_coef_
    np.testing.assert_allclose(
        model.inverse_transform(model.codes_, covariates=frame), fitted, atol=1e-9
    )


@pytest.mark.parametrize("Model", [ConvexSubspace, SubspaceImputer])
def test_covariates_help_to_fill_and_score_new_rows(Model):
    X, frame, _, _ = with_covariates(150)
    hidden = np.random.default_rng(9).random(X.shape) < 0.2
    observed = np.where(hidden, np.nan, X)
    model = Model(random_state=0).fit(observed[:100], covariates=frame[:100])
    assert model.relative_gap_ <= 1e-4
    with_them = model.complete(observed[100:], covariates=frame[100:])
    without = clone(model).fit(observed[:100]).complete(observed[100:])
    errors = [np.mean((filled - X[100:])[hidden[100:]] ** 2) for filled in (with_them, without)]
    assert errors[0] < errors[1]
    codes = ConvexSubspace.transform(model, observed[:100], covariates=frame[:100])
    np.testing.assert_allclose(codes, model.codes_, atol=1e-9)
    low, high = model.complete_interval(observed[100:], covariates=frame[100:])
    assert ((low <= with_them) & (with_them <= high)).all()
    (drawn,) = model.sample(observed[100:], 1, random_state=0, covariates=frame[100:])
    np.testing.assert_array_equal(drawn[~hidden[100:]], X[100:][~hidden[100:]])


def test_weights_act_as_repetition_counts_of_rows_with_limits_and_covariates():
    X, frame, _, _ = with_covariates(40)
    observed, upper, _ = below_limits(X)
    counts = np.random.default_rng(1).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), counts)
    options = {"alpha": 1.0, "scale": False, "tol": 1e-8, "loss": Censored(scale=0.4)}
    weighted = ConvexSubspace(**options).fit(
        observed, sample_weight=counts, upper=upper, covariates=frame[["age"]]
    )
    repeated = ConvexSubspace(**options).fit(
        observed[rows], upper=upper[rows], covariates=frame[["age"]].iloc[rows]
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.covariate_coef_, repeated.covariate_coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.assign(age=c["age"].where(c.index != 3)), "'age' is missing .* in row 3"),
        (lambda c: c.assign(years=c["age"] * 2), "depend on each other"),
        (lambda c: c.assign(one=1.0), "'one' is constant"),
        (lambda c: c[:-1], "covariates have 59 rows, X has 60"),
    ],
)
def test_covariates_that_cannot_be_used_are_refused(change, message):
    X, frame, _, _ = with_covariates()
    with pytest.raises(ValueError, match=message):
        ConvexSubspace().fit(X, covariates=change(frame))


def test_new_rows_need_the_covariates_of_the_fit():
    X, frame, _, _ = with_covariates()
    model = ConvexSubspace(alpha=1.0).fit(X, covariates=frame)
    with pytest.raises(ValueError, match="pass covariates"):
        model.transform(X)
    with pytest.raises(ValueError, match="a level that it did not have in fit"):
        model.transform(X, covariates=frame.assign(batch="z"))
    with pytest.raises(ValueError, match="fitted without covariates"):
        ConvexSubspace(alpha=1.0).fit(X).transform(X, covariates=frame)
