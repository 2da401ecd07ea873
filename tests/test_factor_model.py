"""What `FactorModel` can state: intercepts, known factors, maps, sums of penalties, many atoms."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.linear_model import Lasso as SklearnLasso

from regfactor import FactorModel
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import Squared
from regfactor.maps import Lags, LeftProduct, Mask, RightProduct
from regfactor.penalties import (
    L0,
    Cardinality,
    CodeParts,
    ComponentParts,
    Free,
    GraphLaplacian,
    GroupLasso,
    Lasso,
    NonNegative,
    OneHot,
    Simplex,
    SquaredL2,
    Sum,
    Trace,
    UnitBall,
)
from regfactor.problems import Data, Design, Factored
from regfactor.solvers import solve

EXACT = {"tol": 1e-12, "max_iter": 20_000}


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def low_rank(n=30, d=8, k=2, seed=0, noise=0.1):
    return normal(n, k, seed) @ normal(k, d, seed + 1) + noise * normal(n, d, seed + 2)


def regression(n=40, p=5, m=3, seed=0):
    X = normal(n, p, seed)
    return X, 2.0 + X @ normal(p, m, seed + 1) + 0.5 * normal(n, m, seed + 2)


def path_laplacian(d):
    A = np.eye(d, k=1) + np.eye(d, k=-1)
    return np.diag(A.sum(axis=1)) - A


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("penalty", "reference"),
    [
        (SquaredL2(), Ridge(alpha=0.7, tol=1e-12)),
        (Lasso(), SklearnLasso(alpha=0.7 / 40, tol=1e-12, max_iter=100_000)),
        (
            Sum((Lasso(), SquaredL2()), (0.6, 0.4)),
            ElasticNet(alpha=0.7 / 40, l1_ratio=0.6, tol=1e-12, max_iter=100_000),
        ),
    ],
    ids=["ridge", "lasso", "elastic_net"],
)
def test_known_codes_make_it_a_regression(penalty, reference, fit_intercept):
    X, Y = regression()
    model = FactorModel(
        on_components=penalty, alpha=0.7, known_codes=X, fit_intercept=fit_intercept, **EXACT
    ).fit(Y)
    reference = clone(reference).set_params(fit_intercept=fit_intercept).fit(X, Y)
    np.testing.assert_allclose(model.components_.T, reference.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-6)
    np.testing.assert_array_equal(model.codes_, X)
    assert not model.is_convex_


def test_known_codes_and_a_softmax_are_multinomial_regression():
    X = normal(60, 4)
    y = (X @ normal(4, 3, 1) + normal(60, 3, 2)).argmax(axis=1)
    model = FactorModel(
        "softmax",
        on_components=SquaredL2(),
        alpha=1.0,
        known_codes=X,
        fit_intercept=True,
        tol=1e-14,
        max_iter=5000,
    ).fit(np.eye(3)[y])
    reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.components_.T, reference.coef_, atol=1e-4)


def test_known_components_are_a_dictionary():
    X = low_rank()
    C = normal(3, 8, 5)
    model = FactorModel(on_codes=SquaredL2(), known_components=C, alpha=0.3, **EXACT).fit(X)
    by_hand = X @ C.T @ np.linalg.inv(C @ C.T + 0.3 * np.eye(3))
    np.testing.assert_allclose(model.codes_, by_hand, atol=1e-7)
    np.testing.assert_array_equal(model.components_, C)
    np.testing.assert_allclose(model.transform(X), by_hand, atol=1e-7)


def test_known_rows_make_k_means_semi_supervised():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = random.normal(size=(80, 2)) + 2.5 * y[:, None]
    labeled = random.permutation(80)[:6]
    known = np.full((80, 2), np.nan)
    known[labeled] = np.eye(2)[y[labeled]]
    model = FactorModel(on_codes=OneHot(), rank=2, known_codes=known, random_state=0).fit(X)
    np.testing.assert_array_equal(model.codes_[labeled], known[labeled])
    # no row is nearer to another center, but for the known ones
    distances = ((X[:, None] - model.components_) ** 2).sum(axis=2)
    free = np.isnan(known).any(axis=1)
    np.testing.assert_array_equal(model.codes_.argmax(axis=1)[free], distances.argmin(axis=1)[free])
    for j in range(2):
        members = model.codes_[:, j] == 1
        np.testing.assert_allclose(model.components_[j], X[members].mean(axis=0), atol=1e-10)
    assert (model.codes_.argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize(
    "on_codes",
    [SquaredL2(), Lasso(), Sum((NonNegative(), SquaredL2()))],
    ids=["ridge", "lasso", "positive"],
)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_fits_with_known_entries_are_stationary(loss, on_codes):
    X = low_rank()
    if loss == "logistic":
        X = (X > 0).astype(float)
    random = np.random.default_rng(3)
    known = np.where(random.random((30, 2)) < 0.3, np.abs(normal(30, 2, 4)), np.nan)
    model = FactorModel(
        loss,
        on_codes=on_codes,
        on_components=SquaredL2(),
        rank=2,
        alpha=0.5,
        known_codes=known,
        fit_intercept=True,
        **EXACT,
    ).fit(X)
    held = ~np.isnan(known)
    np.testing.assert_array_equal(model.codes_[held], known[held])
    problem = Factored(Data.of(X, loss), on_codes, SquaredL2(), 2, 0.5)

    def objective(codes, C, b):
        data = problem.data.shifted(np.ones((30, 1)), b[None])
        value = data.value(codes @ C) + 0.5 * SquaredL2().value(C)
        return value + 0.5 * on_codes.value(codes)

    best = objective(model.codes_, model.components_, model.intercept_)
    assert best == pytest.approx(model.objective_, rel=1e-9)
    for trial in range(30):
        size = 10.0 ** -random.integers(2, 5)
        codes = model.codes_ + size * normal(30, 2, trial)
        if on_codes.non_negative:
            codes = np.maximum(codes, 0)
        codes = np.where(held, known, codes)
        C = model.components_ + size * normal(2, 8, trial + 50)
        b = model.intercept_ + size * normal(1, 8, trial + 90)[0]
        # each block alone: a local minimum in all at once need not be one of every direction
        assert objective(codes, model.components_, model.intercept_) >= best - 1e-8
        assert objective(model.codes_, C, model.intercept_) >= best - 1e-8
        assert objective(model.codes_, model.components_, b) >= best - 1e-8


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_convex_model_with_an_intercept_is_the_subspace(loss, missing):
    X = low_rank()
    if loss == "logistic":
        X = (X > 0).astype(float)
    if loss == "poisson":
        X = np.random.default_rng(0).poisson(np.exp(X / 2)).astype(float)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    convex = FactorModel(loss, gauge=Trace(), fit_intercept=True, tol=1e-8, max_iter=5000).fit(X)
    assert convex.relative_gap_ <= 1e-8
    local = FactorModel(loss, rank=8, fit_intercept=True, **EXACT).fit(X)
    assert local.objective_ == pytest.approx(convex.objective_, rel=1e-6)
    np.testing.assert_allclose(local.intercept_, convex.intercept_, atol=1e-2)


def test_an_overcomplete_dictionary_is_sparser_and_fits_better():
    random = np.random.default_rng(0)
    D = normal(12, 6, 1)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    codes = np.zeros((200, 12))
    for row in codes:
        row[random.permutation(12)[:2]] = random.normal(size=2) * 3
    X = codes @ D
    few = FactorModel(on_codes=Lasso(), on_components=UnitBall(), rank=6, alpha=0.1).fit(X)
    many = FactorModel(
        on_codes=Lasso(), on_components=UnitBall(), rank=12, alpha=0.1, random_state=0
    ).fit(X)
    assert many.components_.shape == (12, 6)
    assert many.objective_ < 0.9 * few.objective_


@pytest.mark.parametrize("rank", [4, 9])
def test_more_atoms_than_columns_change_nothing_under_ridges(rank):
    X = low_rank(d=4)
    convex = FactorModel(gauge=Trace(), tol=1e-9).fit(X)
    local = FactorModel(rank=rank, **EXACT).fit(X)
    assert local.objective_ == pytest.approx(convex.objective_, rel=1e-8)


def test_a_graph_on_components_makes_them_smooth():
    cp = pytest.importorskip("cvxpy")
    X = normal(12, 3)
    Y = X @ normal(3, 7, 1) + 0.3 * normal(12, 7, 2)
    L = path_laplacian(7)
    penalty = Sum((GraphLaplacian(L), Lasso()), (2.0, 0.5))
    model = FactorModel(on_components=penalty, alpha=0.8, known_codes=X, **EXACT).fit(Y)
    C = cp.Variable((3, 7))
    smooth = sum(cp.quad_form(C[i], L) for i in range(3)) / 2
    cost = cp.sum_squares(Y - X @ C) / 2 + 0.8 * (2.0 * smooth + 0.5 * cp.norm1(C))
    value = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.components_, C.value, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_sums_of_penalties_agree_with_cvxpy(loss):
    cp = pytest.importorskip("cvxpy")
    X = normal(14, 5)
    Z = X @ normal(5, 3, 1)
    Y = (Z > 0).astype(float) if loss == "logistic" else Z
    penalty = Sum((Lasso(), GroupLasso(), SquaredL2()), (0.4, 0.8, 0.3))
    model = FactorModel(loss, on_components=penalty, alpha=0.9, known_codes=X, **EXACT).fit(Y)
    C = cp.Variable((5, 3))
    P = X @ C
    fit = cp.sum(cp.logistic(P) - cp.multiply(Y, P))
    if loss == "squared":
        fit = cp.sum_squares(Y - P) / 2
    groups = cp.sum(cp.norm(C, 2, axis=1))
    cost = fit + 0.9 * (0.4 * cp.sum(cp.abs(C)) + 0.8 * groups + 0.15 * cp.sum_squares(C))
    value = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(value, rel=1e-6)


def test_a_graph_of_rows_makes_neighbors_alike():
    X = np.cumsum(normal(40, 6), axis=0)
    graph = GraphLaplacian(path_laplacian(40), axis=0)
    options = {"on_components": SquaredL2(), "rank": 2, **EXACT}
    smooth = FactorModel(on_codes=Sum((graph, SquaredL2()), (50.0, 1.0)), **options).fit(X)
    rough = FactorModel(on_codes=SquaredL2(), **options).fit(X)

    def unevenness(model):
        Z = model.codes_ @ model.components_
        return np.square(np.diff(Z, axis=0)).sum() / np.square(Z).sum()

    assert unevenness(smooth) < 0.8 * unevenness(rough)
    assert smooth.objective_ >= rough.objective_
    with pytest.raises(ValueError, match="couples rows"):
        smooth.transform(X)
    with pytest.raises(UnsupportedProblem, match="couples rows.*sample_weight"):
        clone(smooth).fit(X, sample_weight=np.arange(1.0, 41.0))


@pytest.mark.parametrize("penalty", [Cardinality(2), Sum((SquaredL2(), Cardinality(1)))], ids=str)
def test_codes_have_no_more_entries_than_allowed(penalty):
    X = low_rank(n=50, k=4)
    most = 2 if isinstance(penalty, Cardinality) else 1
    model = FactorModel(
        on_codes=penalty, on_components=UnitBall(), rank=6, alpha=0.1, n_init=4, random_state=0
    ).fit(X)
    assert np.count_nonzero(model.codes_, axis=1).max() <= most
    assert np.count_nonzero(model.transform(X[:3]), axis=1).max() <= most
    assert not model.is_convex_
    with pytest.raises(AttributeError, match="solved locally"):
        _ = model.gap_
    assert model.local_optima_.shape == (4,)
    assert model.local_optima_.min() >= model.objective_ - 1e-9


def test_an_l0_penalty_selects_the_best_support():
    X = np.linalg.qr(normal(20, 4))[0] * 3
    Y = X @ np.array([[2.0], [0.3], [-1.5], [0.1]])
    model = FactorModel(on_components=L0(), alpha=2.0, known_codes=X, **EXACT).fit(Y)
    # orthogonal regressors: an entry stays where 9 b^2 / 2 > alpha
    np.testing.assert_allclose(model.components_[:, 0], [2.0, 0.0, -1.5, 0.0], atol=1e-9)


def test_parts_of_the_codes_have_their_own_penalties():
    X, Y = regression()
    n = len(X)
    known = np.hstack([X, np.full((n, 2), np.nan)])
    on_codes = CodeParts(((5, Free()), (2, SquaredL2())))
    on_components = ComponentParts(((5, Free()), (2, SquaredL2())))
    model = FactorModel(
        on_codes=on_codes,
        on_components=on_components,
        rank=7,
        alpha=1.0,
        known_codes=known,
        **EXACT,
    ).fit(Y)
    # what regressors leave is shrunk by the trace norm of the other part
    rest = Y - X @ np.linalg.lstsq(X, Y)[0]
    sizes = np.linalg.svd(rest, compute_uv=False)
    left = np.where(sizes > 1, sizes - 0.5, sizes**2 / 2).sum()
    left -= np.where(np.arange(3) >= 2, np.where(sizes > 1, sizes - 0.5 - sizes**2 / 2, 0), 0).sum()
    assert model.objective_ == pytest.approx(left, rel=1e-6)
    with pytest.raises(ValueError, match="rank must be the sum"):
        FactorModel(on_codes=on_codes, on_components=on_components, rank=3).fit(Y)


def test_starts_are_many_and_the_best_is_kept():
    X = np.abs(low_rank(n=25, d=10, k=5, noise=1.0))
    options = {"on_codes": NonNegative(), "on_components": NonNegative(), "rank": 4}
    model = FactorModel(**options, n_init=5, random_state=0).fit(X)
    assert len(model.local_optima_) == 5
    assert np.ptp(model.local_optima_) > 0
    assert model.objective_ == pytest.approx(model.local_optima_.min(), rel=1e-6)
    again = FactorModel(**options, n_init=5, random_state=0).fit(X)
    np.testing.assert_array_equal(model.local_optima_, again.local_optima_)


MAPPED = {
    "left": (LeftProduct(normal(10, 4, 7)), 1e-6),
    "right": (RightProduct(normal(9, 6, 8)), 1e-6),
    "mask": (Mask(np.random.default_rng(9).random((10, 6)).round()), 1e-6),
    "lags": (Lags(2), 1e-6),
}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", MAPPED)
def test_maps_agree_with_cvxpy(name, fit_intercept):
    cp = pytest.importorskip("cvxpy")
    map_, tol = MAPPED[name]
    X = normal(10, 6)
    X[2, 3] = np.nan
    model = FactorModel(
        gauge=Trace(), alpha=0.8, map=map_, fit_intercept=fit_intercept, tol=1e-9, max_iter=50_000
    ).fit(X)
    assert model.is_convex_
    assert model.relative_gap_ <= 1e-9
    shape = map_.domain(X.shape)
    Z = cp.Variable(shape)
    basis = np.eye(np.prod(shape)).reshape(-1, *shape)
    matrix = np.array([map_(unit).ravel(order="F") for unit in basis]).T
    seen = ~np.isnan(X).ravel(order="F")
    P = matrix @ cp.vec(Z.T, order="F")
    b = cp.Variable(6)
    if fit_intercept:
        P = P + np.repeat(np.eye(6), 10, axis=0) @ b
    residual = P[seen] - X.ravel(order="F")[seen]
    cost = cp.sum_squares(residual) / 2 + 0.8 * cp.normNuc(Z)
    value = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(value, rel=tol)
    np.testing.assert_allclose(model.codes_ @ model.components_, Z.value, atol=1e-3)


def test_rows_behind_a_map_of_columns_are_scored():
    S = normal(9, 6, 8)
    X = normal(30, 2, 1) @ normal(2, 9, 2) @ S
    model = FactorModel(
        gauge=Trace(), alpha=0.5, map=RightProduct(S), fit_intercept=True, tol=1e-10
    ).fit(X)
    assert model.components_.shape[1] == 9
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-4)
    predicted = model.codes_ @ model.components_ @ S + model.intercept_
    np.testing.assert_allclose(model.inverse_transform(model.codes_), predicted, atol=1e-9)
    broken = X.copy()
    broken[0, 0] = np.nan
    assert abs(model.complete(broken)[0, 0] - X[0, 0]) < 0.5 * np.abs(X[:, 0]).std()
    rows = FactorModel(gauge=Trace(), map=LeftProduct(normal(30, 5, 3))).fit(X)
    assert rows.codes_.shape[0] == 5
    with pytest.raises(ValueError, match="couples rows"):
        rows.transform(X)
    with pytest.raises(UnsupportedProblem, match="couples rows"):
        rows.inverse_transform(rows.codes_)


REFUSED = {
    "map of factors": (FactorModel(rank=1, map=Lags(1)), "needs a convex model.*updates.py"),
    "map of another table": (FactorModel(map=LeftProduct(np.eye(3))), "3 rows, the table 6"),
    "gauge and known": (FactorModel(gauge=Trace(), known_codes=np.eye(6)), "finds codes"),
    "known of other rows": (FactorModel(known_codes=np.eye(5)), "each of the 6 rows"),
    "known of another rank": (FactorModel(known_codes=np.eye(6), rank=2), r"shape \(6, 2\)"),
    "known infinite": (FactorModel(known_codes=np.full((6, 1), np.inf)), "must be finite"),
    "known vector": (FactorModel(known_codes=np.ones(6)), "must be a table"),
    "auto rank and known": (FactorModel(known_codes=np.eye(6), rank="auto"), "no choice"),
    "known in part": (
        FactorModel(on_codes=Simplex(), known_codes=np.array([[0.5, np.nan]] * 6)),
        "row 0 of known_codes is known in part",
    ),
    "known outside": (
        FactorModel(on_codes=OneHot(), known_codes=np.full((6, 2), 0.5)),
        "Row 0 of known_codes violates",
    ),
    "graph of another size": (
        FactorModel(on_components=GraphLaplacian(np.eye(9)), rank=1),
        "9 columns, and the factor 4",
    ),
    "no induced gauge": (FactorModel(on_codes=Lasso()), "induced.py.*needs a rank"),
    "intercept under shares of kl": (
        FactorModel(
            "kl",
            on_codes=NonNegative(),
            on_components=NonNegative(),
            rank=1,
            fit_intercept=True,
        ),
        "fit_intercept=False",
    ),
    "global and known": (
        FactorModel(known_codes=np.eye(6), require="global"),
        "no known convex form",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    model, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        model.fit(np.abs(normal(6, 4)))


def test_weights_act_as_repetition_counts_beside_known_codes():
    X, Y = regression(n=12)
    counts = np.array([1, 2, 1, 3] * 3)
    options = {"on_components": SquaredL2(), "alpha": 0.5, "fit_intercept": True, **EXACT}
    weighted = FactorModel(known_codes=X, **options).fit(Y, sample_weight=counts)
    repeated = FactorModel(known_codes=np.repeat(X, counts, axis=0), **options)
    repeated.fit(np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)


def test_offsets_beside_steps_never_raise_the_objective():
    X = low_rank()
    offsets = Design.intercept(30)
    problem = Factored(Data.of(X, Squared()), Lasso(), UnitBall(), 3, 0.4, design=offsets)
    seen = []
    solve(problem, tol=1e-8, callback=lambda iterate: seen.append(iterate.objective))
    assert len(seen) > 3
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(seen))
