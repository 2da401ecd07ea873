"""Principal component pursuit: proven bounds, agreement with ADMM, recovery; and scoring under losses with kinks."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regfactor import RobustSubspace
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import gram, is_below
from regfactor.core.loop import Limits, Status, run
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import Absolute, Hinge, Huber, Robust, Squared, Stacked
from regfactor.maps import RowScale
from regfactor.norms import L2
from regfactor.penalties import Rows, Trace
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import Admm, choose_solver, solve
from regfactor.solvers.admm import Thresholding
from regfactor.solvers.pursuit import Pursuit, is_proven
from regfactor.solvers.rows import minimize_rows


def corrupted(n=60, d=40, rank=3, outliers=0.05, noise=0.0, missing=0.0, seed=0):
    """A low-rank table, and the same with gross outliers, noise and missing entries."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    X = np.where(
        rng.random(Z.shape) < outliers, rng.uniform(-10, 10, Z.shape), Z
    ) + noise * rng.normal(size=Z.shape)
    return Z, np.where(rng.random(Z.shape) < missing, np.nan, X)


def problem(X, alpha=None, weight=1.0):
    alpha = weight * np.sqrt(max(X.shape)) if alpha is None else alpha
    return Convex(Data.of(X, Absolute(), np.full(X.shape, weight)), Trace(), float(alpha))


def pursue(X, tol=1e-5, **kwargs):
    return solve(problem(X, **kwargs), tol=tol, solver=Pursuit(tol), max_iter=5000)


def scratch_objective(X, Z, alpha, weight):
    """The objective from its formula, with a full SVD."""
    return weight * np.nansum(np.abs(X - Z)) + alpha * np.linalg.svd(Z, compute_uv=False).sum()


TABLES = {
    "clean": {},
    "rank 8, 20 % outliers": {"rank": 8, "outliers": 0.2},
    "dense noise": {"noise": 0.3},
    "nothing but noise": {"rank": 1, "outliers": 0.0, "noise": 3.0},
    "missing": {"missing": 0.3, "noise": 0.1},
    "tiny": {"n": 5, "d": 3, "rank": 1},
    "one column": {"n": 9, "d": 1, "rank": 1, "outliers": 0.3},
    "one entry": {"n": 1, "d": 1, "rank": 1},
    "square": {"n": 30, "d": 30},
    "wide": {"n": 25, "d": 70, "missing": 0.1},
    "large enough for a block": {"n": 150, "d": 80, "rank": 4},
    "a block that is too narrow": {"n": 90, "d": 80, "rank": 30, "outliers": 0.1},
}
every_table = pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES)


@every_table
@pytest.mark.parametrize("weight", [1.0, 0.02])
def test_the_gap_from_scratch_is_the_gap_that_is_claimed(kind, weight):
    _, X = corrupted(**kind)
    alpha = weight * np.sqrt(max(X.shape))
    solution = pursue(X, weight=weight)
    assert (
        solution.status is Status.CERTIFIED and solution.rigorous and solution.relative_gap <= 1e-5
    )
    objective = scratch_objective(X, solution.point.factors.dense(), alpha, weight)
    assert objective == pytest.approx(solution.objective, rel=1e-10)
    assert solution.bound <= objective * (1 + 1e-12)
    dual = solution.point.dual
    if dual is None:  # Z = 0 is optimal, and the loop saw it first
        return
    assert np.all(np.abs(dual) <= weight) and not np.any(dual[np.isnan(X)])
    feasible = dual * min(1.0, alpha / max(np.linalg.svd(dual, compute_uv=False)[0], 1e-300))
    from_scratch = -float(np.nansum(feasible * X))
    assert objective - from_scratch <= 2e-5 * max(objective, solution.floor)


@every_table
def test_admm_reaches_the_same_objective(kind):
    _, X = corrupted(**({"n": 24, "d": 16} | kind))
    ours = pursue(X, tol=1e-7)
    other = solve(problem(X), tol=1e-7, solver=Admm(), max_iter=20_000)
    scale = max(other.objective, other.floor, 1e-300)
    assert abs(ours.objective - other.objective) <= 1e-6 * scale
    assert max(ours.bound, other.bound) <= min(ours.objective, other.objective) + 1e-12 * scale


@pytest.mark.parametrize("seed", range(3))
def test_a_corrupted_table_is_recovered(seed):
    Z, X = corrupted(n=120, d=80, rank=4, seed=seed)
    solution = pursue(X, tol=3e-6)
    found = solution.point.factors
    assert found.rank == 4
    assert np.linalg.norm(found.dense() - Z) <= 1e-5 * np.linalg.norm(Z)


def test_both_parts_add_up_to_the_table():
    _, X = corrupted()
    model = RobustSubspace(loss=None, tol=1e-6, max_iter=5000).fit(X)
    Z = model.codes_ @ model.components_
    np.testing.assert_allclose(Z + model.outliers_.toarray(), X, atol=1e-10)


def test_a_wide_table_is_the_tall_one_turned():
    _, X = corrupted(missing=0.1)
    tall, wide = pursue(X, tol=1e-8), pursue(X.T, tol=1e-8)
    assert tall.objective == pytest.approx(wide.objective, rel=1e-10)
    np.testing.assert_allclose(tall.point.factors.dense(), wide.point.factors.dense().T, atol=1e-6)
    for solution in (tall, wide):  # scoring relies on components of length one
        np.testing.assert_allclose(np.linalg.norm(solution.point.factors.C, axis=1), 1)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (1, 1)])
def test_a_table_of_zeros_has_nothing_to_find(shape):
    zero = problem(np.zeros(shape), alpha=1.0)
    assert solve(zero, solver=Pursuit()).objective == 0
    alone = run(Pursuit().iterates(zero, None), tol=0.0, max_iter=50)
    assert alone.status is Status.CERTIFIED and alone.objective == alone.bound == 0


def test_a_tolerance_tighter_than_its_own_is_reached():
    _, X = corrupted(noise=0.1)
    loose, tight = (
        solve(problem(X), tol=1e-8, solver=Pursuit(tol), max_iter=5000) for tol in (1e-2, 1e-8)
    )
    assert loose.relative_gap <= 1e-8 and loose.n_iter <= tight.n_iter + 30


def test_a_warm_start_is_used():
    _, X = corrupted(noise=0.1)
    cold = pursue(X, tol=1e-6)
    warm = solve(problem(X), tol=1e-6, solver=Pursuit(1e-6), start=cold.point)
    assert warm.n_iter < cold.n_iter
    far = solve(
        problem(X),
        tol=1e-6,
        solver=Pursuit(1e-6),
        start=FactorPoint(Factors.zeros(*X.shape)),
        max_iter=5000,
    )
    assert far.objective == pytest.approx(cold.objective, rel=2e-6)


@pytest.mark.parametrize(
    "kind", [{"noise": 0.5, "missing": 0.2}, {"n": 150, "d": 80, "rank": 12, "outliers": 0.2}]
)
def test_every_bound_on_the_way_is_borne_out_by_full_decompositions(kind):
    _, X = corrupted(**kind)
    alpha, seen = np.sqrt(max(X.shape)), []
    solve(problem(X), tol=1e-9, solver=Pursuit(1e-2), max_iter=300, callback=seen.append)
    best = problem(X).bound(problem(X).null.dual).value
    for it in seen[1:]:
        norm = np.linalg.svd(it.point.dual, compute_uv=False)[0]
        best = max(best, -float(np.nansum(it.point.dual * X)) * min(1.0, alpha / norm))
        assert it.bound <= best * (1 + 1e-12)
    assert it.bound > 0.99 * it.objective


def test_float32_is_proven_in_double():
    _, X = corrupted()
    X = X.astype(np.float32)
    solution = solve(problem(X, alpha=np.sqrt(60)), tol=1e-4, solver=Pursuit())
    assert solution.point.factors.C.dtype == np.float32
    assert solution.status.converged and solution.relative_gap <= 1e-4


def test_an_offset_is_part_of_the_predictor():
    _, X = corrupted(n=20, d=8)
    offset = np.arange(8.0)
    shifted = Convex(Data.of(X + offset, Absolute(), offset=offset), Trace(), np.sqrt(20))
    moved, plain = solve(shifted, tol=1e-8, solver=Pursuit(1e-8)), pursue(X, tol=1e-8)
    assert moved.objective == pytest.approx(plain.objective, rel=1e-7)


@settings(max_examples=40)
@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 7), st.integers(1, 7)),
        # estimators refuse numbers whose squares underflow
        elements=st.floats(-1e3, 1e3).map(lambda x: x * (abs(x) > 1e-150)),
    ),
    share=st.floats(0.05, 1.2),
    data=st.data(),
)
def test_odd_tables_are_solved_with_a_valid_certificate(X, share, data):
    missing = data.draw(hnp.arrays(bool, X.shape))
    missing.flat[0] = False
    X = np.where(missing, np.nan, X)
    alpha = share * problem(X, alpha=1.0).alpha_max()
    if not alpha > 1e-9:
        return
    solution = solve(problem(X, alpha), tol=1e-4, solver=Pursuit(), max_iter=5000)
    assert -1e-10 <= solution.relative_gap <= 1e-4


def test_the_level_is_proven_only_where_it_holds():
    rng = np.random.default_rng(0)
    for shape in ((30, 20), (5, 1), (1, 1)):
        Y = rng.uniform(-1, 1, shape)
        norm = np.linalg.svd(Y, compute_uv=False)[0]
        assert is_below(gram(Y), norm * (1 + 1e-9), len(Y))
        assert not is_below(gram(Y), norm * (1 - 1e-9), len(Y))
    assert not is_below(np.eye(3), 1.0, 3)  # true, but within rounding: not proven


def test_what_the_block_does_not_see_is_still_not_proven():
    svt, Y = Thresholding(), np.diag([1.0, 2.0, 3.0])
    svt.block, svt.age = np.eye(3)[:, :2], 0
    assert not is_proven(Y, 1.5, svt) and svt.age == 0  # the block sees it
    assert (
        not is_proven(Y, 2.5, svt) and svt.age > 0
    )  # the factorization does, and the block is made anew
    assert is_proven(Y, 3.1, svt)


EYE = np.eye(4)
REFUSED = {
    "another loss": (Convex(Data.of(EYE, Huber()), Trace(), 1.0), "Huber.*Admm"),
    "a robust loss": (Convex(Data.of(EYE, Robust(Absolute(), 0.5)), Trace(), 1.0), "Robust.*Admm"),
    "several losses": (
        Convex(
            Data.of(EYE, Stacked(((slice(0, 2), Absolute()), (slice(2, 4), Squared())))),
            Trace(),
            1.0,
        ),
        "Squared.*Admm",
    ),
    "another gauge": (Convex(Data.of(EYE, Absolute()), Rows(L2()), 1.0), "Rows.*Admm"),
    "a scale": (Convex(Data.of(EYE, Absolute()), Trace(2.0), 1.0), "Trace.*Admm"),
    "a scale per column": (
        Convex(Data.of(EYE, Absolute()), Trace(np.arange(1.0, 5.0)), 1.0),
        "Trace.*Admm",
    ),
    "a design": (
        Convex(Data.of(EYE, Absolute()), Trace(), 1.0, design=Design.intercept(4)),
        "design.*Admm",
    ),
    "a map": (Convex(Data.of(EYE, Absolute()), Trace(), 1.0, RowScale(np.ones(4))), "map.*Admm"),
    "uneven weights": (
        Convex(Data.of(EYE, Absolute(), np.arange(4.0)), Trace(), 1.0),
        "weight.*Admm",
    ),
    "a sparse table": (
        Convex(Data.of_sparse(scipy.sparse.csr_array(EYE), Absolute()), Trace(), 1.0),
        "dense",
    ),
}


@pytest.mark.parametrize(("refused", "words"), REFUSED.values(), ids=REFUSED)
def test_other_problems_are_refused_before_the_first_iteration(refused, words):
    seen = []
    with pytest.raises(UnsupportedProblem, match=words):
        solve(refused, solver=Pursuit(), callback=seen.append)
    assert not seen and not isinstance(choose_solver(refused), Pursuit)


def test_its_own_problems_are_left_to_it():
    _, X = corrupted(missing=0.2)
    assert choose_solver(problem(X, weight=0.3), Limits(tol=1e-5)) == Pursuit(tol=1e-5)


# -- scoring: rows under losses with kinks and a ridge


def scored(loss, seed=0, n=12, d=10, k=3):
    rng = np.random.default_rng(seed)
    C = np.linalg.qr(rng.normal(size=(d, k)))[0].T
    X = rng.normal(size=(n, k)) @ C + np.where(
        rng.random((n, d)) < 0.2, rng.uniform(-5, 5, (n, d)), 0
    )
    X = np.sign(X) if isinstance(loss, Hinge) else X
    weights = rng.uniform(0.2, 2.0, X.shape) * (rng.random(X.shape) < 0.8)
    return X, weights, C, rng.uniform(0.05, 1.0, k)


def conic(loss, z, x):
    match loss:
        case Hinge():
            return cp.pos(1 - cp.multiply(x, z))
        case Robust():
            return min(1.0, loss.beta) * cp.abs(z - x)
        case Squared():
            return cp.square(z - x) / 2
        case _:
            return cp.abs(z - x)


@pytest.mark.parametrize("loss", [Absolute(), Hinge(), Robust(Absolute(), 0.5), "mixed"], ids=str)
def test_rows_reach_the_minimum_of_a_conic_solver(loss):
    parts = (
        [(slice(0, 6), Absolute()), (slice(6, 10), Squared())]
        if loss == "mixed"
        else [(slice(0, 10), loss)]
    )
    X, weights, C, ridge = scored(loss)
    stacked = Stacked(tuple(parts)) if loss == "mixed" else loss
    data, offset = Data.of(X, stacked, weights, np.linspace(-1, 1, 10)), np.linspace(-1, 1, 10)
    codes = minimize_rows(data, np.zeros((12, 3)), C, ridge)
    phi = cp.Variable((12, 3))
    Z = phi @ C + np.ones((12, 1)) @ offset[None]
    losses = sum(
        cp.sum(cp.multiply(weights[:, c], conic(part, Z[:, c], X[:, c]))) for c, part in parts
    )
    program = cp.Problem(
        cp.Minimize(losses + cp.sum(cp.multiply(np.tile(ridge, (12, 1)), cp.square(phi))) / 2)
    )
    program.solve(solver=cp.CLARABEL)
    reached = data.value(codes @ C) + (codes**2 @ ridge).sum() / 2
    assert reached <= program.value + 1e-9 * abs(program.value)
    np.testing.assert_allclose(codes, phi.value, atol=1e-3)  # the conic solver's own accuracy


def test_rows_do_not_depend_on_their_company_or_their_start():
    X, weights, C, ridge = scored(Absolute(), n=40)
    rng = np.random.default_rng(1)
    together = minimize_rows(Data.of(X, Absolute(), weights), np.zeros((40, 3)), C, ridge)
    elsewhere = minimize_rows(Data.of(X, Absolute(), weights), rng.normal(size=(40, 3)), C, ridge)
    np.testing.assert_allclose(elsewhere, together, atol=1e-9)
    for rows in (slice(0, 1), slice(7, 12)):
        alone = minimize_rows(
            Data.of(X[rows], Absolute(), weights[rows]), np.zeros((40, 3))[rows], C, ridge
        )
        np.testing.assert_allclose(alone, together[rows], atol=1e-7)


def test_rows_never_get_worse():
    X, weights, C, ridge = scored(Absolute())
    data = Data.of(X, Absolute(), weights)
    best = minimize_rows(data, np.zeros((12, 3)), C, ridge)
    rng = np.random.default_rng(2)
    for start in (best, best + 1e-9 * rng.normal(size=best.shape), rng.normal(size=best.shape)):
        before = data.row_values(start @ C) + start**2 @ ridge / 2
        codes = minimize_rows(data, start, C, ridge)
        assert np.all(data.row_values(codes @ C) + codes**2 @ ridge / 2 <= before)


def test_rows_of_a_sparse_table_are_those_of_the_dense_one():
    X, weights, C, ridge = scored(Absolute())
    observed = weights > 0
    sparse = scipy.sparse.csr_array((X[observed], np.nonzero(observed)), shape=X.shape)
    one = minimize_rows(Data.of_sparse(sparse, Absolute()), np.zeros((12, 3)), C, ridge)
    other = minimize_rows(
        Data.of(np.where(observed, X, np.nan), Absolute()), np.zeros((12, 3)), C, ridge
    )
    np.testing.assert_allclose(one, other, atol=1e-12)
