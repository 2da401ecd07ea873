"""The solver for large tables, tried on small ones: the same optimum, the same rank, a bound that holds."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from regfactor.core.factors import Factors
from regfactor.core.loop import Status
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import (
    Absolute,
    Huber,
    Logistic,
    Poisson,
    SmoothedL1,
    Softmax,
    Squared,
    Stacked,
)
from regfactor.maps import Lags, RowScale
from regfactor.penalties import Rows, SquaredL2, Trace
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.solvers import Alternating, FactoredFista, Lbfgs, solve
from regfactor.solvers import factored_fista as atoms

LOSSES = [Squared(), Huber(0.5), SmoothedL1(0.2), Logistic(), Poisson()]


def table(loss, n=60, d=25, rank=3, density=0.5, seed=0):
    """A table of low rank with missing entries, legal for a loss."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) / np.sqrt(rank)
    X = Z + 0.3 * rng.normal(size=Z.shape)
    if isinstance(loss, Logistic):
        X = (rng.random(Z.shape) < 1 / (1 + np.exp(-2 * Z))).astype(float)
    if isinstance(loss, Poisson):
        X = rng.poisson(np.exp(np.clip(Z, -3, 2))).astype(float)
    X[rng.random(X.shape) > density] = np.nan
    X[0, 0] = 1.0
    return X


def as_sparse(X):
    rows, columns = np.nonzero(~np.isnan(X))
    return scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def problems(loss, intercept, share=0.2, **shape):
    """The same problem on dense and on sparse data."""
    X = table(loss, **shape)
    design = Design.intercept(len(X)) if intercept else None
    dense = Convex(Data.of(X, loss), Trace(), 1.0, design=design)
    alpha = share * dense.alpha_max()
    return replace(dense, alpha=alpha), Convex(
        Data.of_sparse(as_sparse(X), loss), Trace(), alpha, design=design
    )


def optimum(problem, tol=1e-8):
    """Objective and bound by another solver."""
    return solve(problem, tol=tol, max_iter=20_000)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_solvers_that_hold_the_whole_matrix(loss, intercept):
    dense, sparse = problems(loss, intercept)
    known = optimum(dense)
    for problem in (dense, sparse):
        found = solve(problem, tol=1e-6, solver=FactoredFista(tol=1e-6))
        assert found.status.converged and found.rigorous
        assert found.relative_gap <= 1e-6
        assert found.bound <= known.objective
        assert found.objective >= known.bound
        assert found.objective == pytest.approx(known.objective, rel=2e-6)


@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (7, 5), (3, 40), (40, 2), (5, 1)], ids=str)
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_any_shape_and_strength(shape, share):
    n, d = shape
    dense, sparse = problems(Squared(), d > 2, share, n=n, d=d, rank=2, density=0.7)
    known = optimum(dense)
    for problem in (dense, sparse):
        found = solve(problem, tol=1e-5, solver=FactoredFista(tol=1e-5), max_iter=5000)
        assert found.relative_gap <= 1e-5
        assert found.objective == pytest.approx(known.objective, rel=2e-5)


@pytest.mark.parametrize("solver", [Lbfgs(), Alternating()], ids=lambda s: type(s).__name__)
def test_balanced_factors_of_sufficient_rank_agree(solver):
    """|Z|_tr = min (|Phi|^2 + |C|^2) / 2 over Z = Phi C (theorem 3): two local solvers are a second opinion."""
    _, sparse = problems(Squared(), False, 0.3)
    found = solve(sparse, tol=1e-8, solver=FactoredFista(tol=1e-8))
    ridges = Factored(
        sparse.data, SquaredL2(), SquaredL2(), found.point.factors.rank + 3, sparse.alpha
    )
    local = solve(ridges, tol=1e-13, max_iter=3000, solver=solver)
    assert found.bound <= local.objective
    assert local.objective == pytest.approx(found.objective, rel=1e-6)


def test_finds_the_exact_rank():
    dense, sparse = problems(Squared(), False, 0.3)
    rank = (
        np.linalg.svd(optimum(dense, 1e-12).point.factors.dense(), compute_uv=False) > 1e-6
    ).sum()
    assert solve(sparse, tol=1e-8, solver=FactoredFista(tol=1e-8)).point.factors.rank == rank


@pytest.mark.parametrize("share", [1.0 + 1e-6, 1.5, 30.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_nothing_is_left_from_alpha_max_on(share, intercept):
    _, sparse = problems(Squared(), intercept, share)
    found = solve(sparse, tol=1e-6, solver=FactoredFista(tol=1e-6))
    assert found.status.converged
    assert found.point.factors.rank == 0
    assert found.objective == pytest.approx(sparse.null_objective())


def test_scaled_rows_and_columns():
    rng = np.random.default_rng(3)
    X = table(Squared())
    maps, gauge = (
        RowScale(rng.uniform(0.5, 2, len(X))),
        Trace(scale=rng.uniform(0.5, 2, X.shape[1])),
    )
    dense = Convex(
        Data.of(X, Squared(), rng.uniform(0.5, 2, X.shape)),
        gauge,
        2.0,
        maps,
        Design.intercept(len(X)),
    )
    found = solve(dense, tol=1e-7, solver=FactoredFista(tol=1e-7))
    assert found.relative_gap <= 1e-7
    assert found.objective == pytest.approx(optimum(dense).objective, rel=1e-6)


def test_different_losses_on_different_columns():
    X = table(Squared())
    X[:, 20:] = np.where(np.isnan(X[:, 20:]), np.nan, X[:, 20:] > 0)
    loss = Stacked(((slice(0, 20), Squared()), (slice(20, 25), Logistic())))
    problem = Convex(Data.of(X, loss), Trace(), 1.5, design=Design.intercept(len(X)))
    found = solve(problem, tol=1e-6, solver=FactoredFista(tol=1e-6))
    assert found.relative_gap <= 1e-6
    assert found.objective == pytest.approx(optimum(problem).objective, rel=2e-6)


def test_claimed_bounds_hold_when_recomputed_from_scratch():
    _, sparse = problems(Squared(), False, 0.2, n=200, d=80)
    X = sparse.data.layout.matrix(sparse.data.terms[0].x).toarray()
    seen = sparse.data.layout.matrix(np.ones(len(sparse.data.terms[0].x))).toarray()
    for tol in (1e-3, 1e-5, 1e-7):
        found = solve(sparse, tol=tol, solver=FactoredFista(tol=tol))
        Z = found.point.factors.dense()
        objective = np.square(seen * (Z - X)).sum() / 2 + sparse.alpha * np.linalg.norm(Z, "nuc")
        G = seen * (Z - X)
        s = min(sparse.alpha / np.linalg.norm(G, 2), -np.vdot(G, X) / np.vdot(G, G))
        assert objective <= found.objective * (1 + 1e-12)
        assert objective + s * np.vdot(G, X) + s * s * np.vdot(G, G) / 2 <= tol * objective


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_sweeps_may_begin_on_some_rows_of_a_tall_table(loss, monkeypatch):
    monkeypatch.setattr(atoms, "SAMPLE_ROWS", 30)
    dense, sparse = problems(loss, True, n=150)
    found = solve(sparse, tol=1e-6, solver=FactoredFista(tol=1e-6))
    assert found.objective == pytest.approx(optimum(dense).objective, rel=2e-6)


def test_some_rows_of_a_sparse_table_are_a_table():
    X = table(Squared())
    rows = np.array([3, 4, 17, 59])
    part, whole = Data.of(X[rows], Squared()), Data.of_sparse(as_sparse(X), Squared()).of_rows(rows)
    Z = Factors(np.arange(8.0).reshape(4, 2), np.ones((2, X.shape[1])))
    assert whole.value(Z) == pytest.approx(part.value(Z))
    np.testing.assert_allclose(whole.column_values(Z), part.column_values(Z))


def test_a_loss_that_is_flat_at_zero():
    X = 1000.0 * table(Squared())  # all entries are outliers of the empty model
    dense = Convex(Data.of(X, Huber(1.0)), Trace(), 3.0)
    found = solve(dense, tol=1e-4, solver=FactoredFista(tol=1e-4), max_iter=20_000)
    assert found.relative_gap <= 1e-4
    assert found.objective == pytest.approx(optimum(dense, 1e-6).objective, rel=2e-4)


def test_a_start_is_taken_up():
    _, sparse = problems(Squared(), True)
    first = solve(sparse, tol=1e-6, solver=FactoredFista(tol=1e-6))
    again = solve(sparse, tol=1e-6, solver=FactoredFista(tol=1e-6), start=first.point)
    assert again.n_iter <= 6 < first.n_iter


def test_a_limited_rank_is_kept_and_the_gap_tells_its_price():
    dense, sparse = problems(Squared(), True, 0.05)
    found = solve(sparse, tol=1e-6, solver=FactoredFista(tol=1e-6, max_rank=2))
    assert found.point.factors.rank == 2
    assert found.status.name == "RANK_LIMIT"
    assert found.bound <= optimum(dense).objective < found.objective


def test_a_limit_that_binds_ends_after_sweeps(monkeypatch):
    """Proximal steps would lower the objective at a limited rank no further than sweeps do."""
    _, sparse = problems(Squared(), True, 0.05, n=300, d=60)
    longest = solve(sparse, tol=1e-8, solver=FactoredFista(tol=1e-8, max_rank=2), max_iter=20_000)
    steps = []
    monkeypatch.setattr(atoms.Descent, "step", lambda self: steps.append(self))
    found = solve(sparse, tol=1e-3, solver=FactoredFista(tol=1e-3, max_rank=2))
    assert not steps
    assert found.status is Status.RANK_LIMIT
    assert found.objective <= (1 + 1e-3) * longest.objective


def test_a_limit_that_does_not_bind_leaves_the_certificate():
    _, sparse = problems(Squared(), True, n=300, d=60)
    free = solve(sparse, tol=1e-3, solver=FactoredFista(tol=1e-3))
    rank = free.point.factors.rank + 1
    found = solve(sparse, tol=1e-3, solver=FactoredFista(tol=1e-3, max_rank=rank))
    assert found.status is Status.CERTIFIED
    exact = solve(sparse, tol=1e-3, solver=FactoredFista(tol=1e-3, max_rank=rank - 1))
    assert exact.status is Status.CERTIFIED


def test_what_later_sweeps_gain_is_a_geometric_sum():
    gains = 0.8 ** np.arange(2, 400)
    assert atoms.remaining_decrease(0.8**2, 0.8) == pytest.approx(gains[1:].sum())
    # two sweeps that gain ever more show no end
    assert atoms.remaining_decrease(2.0, 1.0) == pytest.approx(19 * 2.0)


def test_the_same_seed_gives_the_same_numbers():
    _, sparse = problems(Squared(), True)
    one, other = (
        solve(sparse, tol=1e-5, solver=FactoredFista(tol=1e-5, random_state=4)) for _ in range(2)
    )
    np.testing.assert_array_equal(one.point.factors.codes, other.point.factors.codes)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("share", [0.02, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_float32_is_certified_to_the_default_tolerance(loss, share, seed):
    _, sparse = problems(loss, True, share, seed=seed)
    found = solve(sparse.astype(np.float32))
    assert found.status.name == "CERTIFIED"
    assert found.relative_gap <= 1e-4
    assert found.point.factors.C.dtype == np.float32


@pytest.mark.parametrize(
    ("seed", "loss", "offset", "intercept"),
    [
        (30, Squared(), 0.0, True),
        (39, Huber(), 0.0, False),
        (20, Huber(), 5.0, False),
        (0, Huber(), 100.0, False),
        (17, Poisson(), 0.0, False),
        (38, Huber(), 0.0, True),
    ],
)
def test_float32_needs_about_as_many_steps_as_float64(seed, loss, offset, intercept):
    """In single precision rounding decided lengths and turns of steps, so that momentum was lost."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(5, 40), rng.integers(3, 20)
    X = offset + rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    if isinstance(loss, Poisson):
        X = rng.poisson(np.exp(np.clip(0.3 * X, -3, 3))).astype(float)
    places = np.nonzero(rng.random((n, d)) < rng.uniform(0.2, 0.8))
    entries = X[places].astype(np.float32)
    share = 10 ** rng.uniform(-2.5, -0.1)
    steps = []
    for dtype in (np.float32, np.float64):
        table = scipy.sparse.csr_array((entries.astype(dtype), places), shape=(n, d))
        design = Design.intercept(n, dtype) if intercept else None
        problem = Convex(Data.of_sparse(table, loss), Trace(), 1.0, design=design)
        found = solve(problem.at(float(np.float32(share * problem.alpha_max()))))
        assert found.status is Status.CERTIFIED
        steps.append(found.n_iter)
    assert steps[0] <= 1.3 * steps[1]


def test_float32_is_judged_in_float64():
    X = as_sparse(table(Squared())).astype(np.float32)
    problem = Convex(Data.of_sparse(X, Squared()), Trace(), 2.0)
    found = solve(problem, tol=1e-4, solver=FactoredFista(tol=1e-4))
    assert found.point.factors.C.dtype == np.float32
    exact = optimum(Convex(Data.of_sparse(X.astype(np.float64), Squared()), Trace(), 2.0), 1e-8)
    assert found.bound <= exact.objective
    assert found.relative_gap <= 2e-4


def test_what_it_cannot_take_is_said():
    X = np.random.default_rng(0).normal(size=(6, 4))
    for problem, what in (
        (Convex(Data.of(X, Squared()), Rows(), 1.0), "Trace"),
        (Convex(Data.of(X, Absolute()), Trace(), 1.0), "smooth"),
        (Convex(Data.of(X, Squared()), Trace(), 1.0, Lags(1)), "map"),
        (Convex(Data.of(np.eye(4), Softmax()), Trace(), 1.0), "elementwise"),
    ):
        with pytest.raises(UnsupportedProblem, match=what):
            FactoredFista().check(problem)
