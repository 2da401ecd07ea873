"""Laws of the loop and of the solvers: monotone updates, agreement, honest endings, mismatches reported at once."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF

from catalogue import LOSSES, PENALTIES, cases
from regfactor import ConvexSubspace
from regfactor.core.factors import FactorPoint, Factors, rebalance
from regfactor.core.loop import Iterate, Status, run
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import Absolute, Huber, Logistic, Multinomial, Poisson, Softmax, Squared
from regfactor.maps import Lags
from regfactor.norms import L2
from regfactor.penalties import (
    CodeParts,
    Columns,
    ComponentParts,
    Free,
    NonNegative,
    OneHot,
    Rows,
    SquaredL2,
    Trace,
    TwoView,
)
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.solvers import (
    Admm,
    Alternating,
    ClosedForm,
    EtaSearch,
    Fista,
    Lbfgs,
    choose_solver,
    path,
    solve,
)
from regfactor.solvers.alternating import sweep
from regfactor.solvers.starts import first_factors
from regfactor.solvers.updates import update_codes, update_components

ROWWISE = [p for p in cases(PENALTIES) if p.values[0].rowwise]


def sample(loss, n=14, d=5, missing=0.2, seed=0):
    """A legal table for a loss, with missing entries where the loss allows them."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    if isinstance(loss, Softmax):
        return np.eye(d)[L.argmax(axis=1)]
    if isinstance(loss, Multinomial):
        return rng.poisson(np.exp(L)) + 1.0
    for X in (
        L,
        np.sign(L),
        (L > 0).astype(float),
        np.clip(np.round(L + 1), 0, 3),
        np.abs(L) + 0.1,
    ):
        if loss.legal(X).all():
            return np.where(rng.random(X.shape) < missing, np.nan, X)
    raise AssertionError(f"no table for {loss}")


def iterates(objectives, bounds=None):
    F = Factors.zeros(1, 1)
    bounds = bounds or [-np.inf] * len(objectives)
    return (Iterate(FactorPoint(F), o, b) for o, b in zip(objectives, bounds, strict=True))


def test_the_loop_keeps_the_best_objective_and_the_best_bound():
    solution = run(iterates([5.0, 3.0, 4.0], [0.0, 2.0, 1.0]), tol=0.0, max_iter=10)
    assert (solution.objective, solution.bound, solution.n_iter) == (3.0, 2.0, 3)
    assert solution.status is Status.FINISHED


@pytest.mark.parametrize(
    ("objectives", "bounds", "limits", "status"),
    [
        ([5.0, 3.0], [0.0, 2.9999], {"tol": 1e-3, "max_iter": 10}, Status.CERTIFIED),
        ([5.0, 4.9999], None, {"tol": 1e-3, "max_iter": 10}, Status.SETTLED),
        ([5.0, 4.0, 3.0], None, {"tol": 1e-3, "max_iter": 2}, Status.MAX_ITER),
        ([5.0, 4.0, 3.0], None, {"tol": 1e-3, "max_iter": 9, "time_limit": 0.0}, Status.TIME_LIMIT),
        (
            [5.0, 4.0, 3.0],
            None,
            {"tol": 1e-3, "max_iter": 9, "callback": lambda it: True},
            Status.STOPPED,
        ),
        ([np.nan], None, {"tol": 1e-3, "max_iter": 9}, Status.DIVERGED),
        ([5.0, -1e9], [0.0, 1.0], {"tol": 1e-3, "max_iter": 9}, Status.DIVERGED),
    ],
)
def test_the_loop_says_how_it_ended(objectives, bounds, limits, status):
    solution = run(iterates(objectives, bounds), **limits)
    assert solution.status is status
    assert solution.status.message


def test_a_decomposition_that_fails_ends_the_run_as_diverged():
    def failing():
        yield from iterates([5.0, 3.0])
        raise np.linalg.LinAlgError("SVD did not converge")

    solution = run(failing(), tol=0.0, max_iter=10)
    assert solution.status is Status.DIVERGED and solution.objective == 3.0


def test_a_decomposition_that_fails_at_once_is_an_error():
    def failing():
        raise np.linalg.LinAlgError("SVD did not converge")
        yield

    with pytest.raises(np.linalg.LinAlgError):
        run(failing(), tol=0.0, max_iter=10)


@pytest.mark.parametrize("solver", [None, Fista(), Admm()], ids=["default", "fista", "admm"])
@pytest.mark.parametrize("gauge", [Trace(), Rows(L2())], ids=["trace", "rows"])
@pytest.mark.parametrize(
    "loss", [Squared(), Huber(), Poisson()], ids=["squared", "huber", "poisson"]
)
@pytest.mark.parametrize("factor", [1e170, 1e160, 1e-157, 1e-170])
def test_numbers_at_the_ends_of_the_range_never_converge_wrongly(factor, loss, gauge, solver):
    X = factor * np.abs(sample(Squared(), n=8, d=4))
    alpha = max(0.5 * factor, 1e-150)  # smaller ones are refused
    design = Design.intercept(len(X))
    with np.errstate(all="ignore"):
        for problem in (
            Convex(Data.of(X, loss), gauge, alpha),
            Convex(Data.of(X, loss), gauge, alpha, design=design),
        ):
            solution = solve(problem, solver=solver, max_iter=40)
            bounds = [solution.bound, *(record.bound for record in solution.history)]
            assert not np.isnan(bounds).any()
            if solution.status.converged:
                assert np.isfinite(solution.objective) and abs(solution.objective) > 1e-300
                assert solution.relative_gap <= 1e-4


def test_a_negative_gap_is_not_hidden():
    solution = run(iterates([1.0], [2.0]), tol=1e-3, max_iter=1)
    assert solution.gap == -1.0


def test_rebalancing_keeps_the_product_and_lowers_the_squares():
    rng = np.random.default_rng(0)
    F = Factors(rng.normal(size=(6, 3)), 5 * rng.normal(size=(3, 4)))
    G = rebalance(F)
    np.testing.assert_allclose(G.dense(), F.dense(), atol=1e-12)
    cost = Trace().value(F.dense())
    assert SquaredL2().value(G.Phi) + SquaredL2().value(G.C) == pytest.approx(cost)
    assert cost < SquaredL2().value(F.Phi) + SquaredL2().value(F.C)


@pytest.mark.parametrize(
    "loss", cases(LOSSES, *(n for n, v in LOSSES.items() if n != "stacked" and v.smooth))
)
@pytest.mark.parametrize("penalty", ROWWISE)
@pytest.mark.parametrize("side", ["codes", "components"])
def test_updates_never_raise_the_objective(loss, penalty, side):
    X = sample(loss)
    data, rng = Data.of(X, loss), np.random.default_rng(1)
    if not data.unbounded and (loss.link_domain.high <= 0 or not penalty.non_negative):
        pytest.skip("a restricted predictor needs factors that keep it")
    if side == "components" and isinstance(penalty, OneHot):
        pytest.skip("hard components have no update")
    # weights in the catalogue stand on five columns, parts on five atoms
    k = 5 if side == "codes" or isinstance(penalty, ComponentParts) else 3
    if isinstance(penalty, ComponentParts if side == "codes" else CodeParts):
        pytest.skip("parts of the other factor")
    Phi, C = rng.uniform(0.1, 1, size=(X.shape[0], k)), rng.uniform(0.1, 1, size=(k, X.shape[1]))
    for _ in range(3):
        if side == "codes":
            Phi = penalty.prox(Phi, 1.0) if _ == 0 else Phi
            before = data.value(Phi @ C) + 0.3 * penalty.value(Phi)
            Phi = update_codes(data, Phi, C, penalty, 0.3)
            after = data.value(Phi @ C) + 0.3 * penalty.value(Phi)
        else:
            C = penalty.prox(C, 1.0) if _ == 0 and data.unbounded else C
            before = data.value(Phi @ C) + 0.3 * penalty.value(C)
            C = update_components(data, Phi, C, penalty, 0.3)
            after = data.value(Phi @ C) + 0.3 * penalty.value(C)
        assert np.isfinite(after)
        assert after <= before + 1e-9 * abs(before) + 1e-25  # below that there is only rounding


@pytest.mark.parametrize("on_codes", [Free(), SquaredL2(), NonNegative(), OneHot()])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Logistic(), Poisson()])
def test_sweeps_never_raise_the_objective_and_repeat_from_a_seed(loss, on_codes):
    problem = Factored(
        Data.of(sample(loss, n=30, d=6), loss), on_codes, SquaredL2(), rank=2, alpha=0.5
    )
    F = first_factors(problem, np.random.default_rng(0))
    values = [problem.objective(F)]
    for _ in range(6):
        F = sweep(problem, F)
        values.append(problem.objective(F))
    assert np.all(np.diff(values) <= 1e-10 * abs(values[0]))
    again = [solve(problem, random_state=3).objective for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("design", [False, True])
@pytest.mark.parametrize("gauge", [Trace(), Rows(L2()), Columns(L2())])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Logistic(), Poisson()])
def test_fista_and_admm_agree(loss, gauge, design):
    X = sample(loss, n=20, d=6)
    problem = Convex(
        Data.of(X, loss), gauge, 0.7, design=Design.intercept(len(X)) if design else None
    )
    one, other = (solve(problem, tol=1e-7, max_iter=20_000, solver=s) for s in (Fista(), Admm()))
    assert one.status.converged and other.status.converged
    assert one.objective == pytest.approx(other.objective, rel=3e-7)


@pytest.mark.parametrize("gauge", [Trace(), Trace(2.0), Rows(L2()), Columns(L2())])
def test_the_closed_form_is_what_admm_finds(gauge):
    problem = Convex(Data.of(sample(Squared(), missing=0.0), Squared()), gauge, 0.7)
    closed, admm = solve(problem), solve(problem, solver=Admm(), tol=1e-10, max_iter=5000)
    assert closed.solver == "ClosedForm" and closed.n_iter == 1
    np.testing.assert_allclose(closed.point.factors.dense(), admm.point.factors.dense(), atol=1e-5)
    assert abs(closed.relative_gap) <= 1e-12


def test_a_warm_start_is_used():
    problem = Convex(Data.of(sample(Logistic(), n=40, d=10), Logistic()), Trace(), 0.5)
    cold = solve(problem, tol=1e-8, max_iter=5000)
    warm = solve(problem, tol=1e-8, max_iter=5000, start=cold.point)
    assert warm.n_iter < cold.n_iter


def test_lags_are_solved_with_a_proof():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(30, 3))
    D = np.column_stack([rng.normal(size=(30, 4)), np.ones(30)])
    design = Design(D, np.array([0.1, 0.1, 0.1, 0.1, 0.0]))
    problem = Convex(Data.of(Y, Squared()), Trace(), 1.5, Lags(2), design)
    solution = solve(problem, tol=1e-7, max_iter=20_000)
    assert solution.solver == "DouglasRachford" and solution.relative_gap <= 1e-7
    free = solution.point.coefficients
    residual = Y - D @ free - Lags(2)(solution.point.factors.dense())
    np.testing.assert_allclose(D.T @ residual, design.strengths[:, None] * free, atol=1e-7)


def test_lbfgs_reaches_what_alternation_reaches():
    X = sample(Logistic(), n=40, d=8)
    problem = Factored(Data.of(X, Logistic()), SquaredL2(), SquaredL2(), rank=2, alpha=1.0)
    one = solve(problem, solver=Lbfgs(), tol=1e-10, max_iter=2000)
    other = solve(problem, solver=Alternating(), tol=1e-10, max_iter=2000)
    assert one.objective == pytest.approx(other.objective, rel=1e-5)


def test_known_entries_are_held():
    X = sample(Squared(), missing=0.0)
    known = np.full((len(X), 2), np.nan)
    known[:3] = 0.25
    problem = Factored(Data.of(X, Squared()), SquaredL2(), SquaredL2(), rank=2, known_codes=known)
    for solver in (Alternating(), Lbfgs()):
        codes = solve(problem, solver=solver).point.factors.codes
        np.testing.assert_array_equal(codes[:3], 0.25)


def test_hard_codes_are_k_means():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.3, size=(30, 2)) for c in ((0, 0), (5, 0), (0, 5))])
    problem = Factored(Data.of(X, Squared()), OneHot(), Free(), rank=3)
    best = min((solve(problem, random_state=seed) for seed in range(5)), key=lambda s: s.objective)
    inertia = KMeans(3, n_init=5, random_state=0).fit(X).inertia_
    assert 2 * best.objective == pytest.approx(inertia, rel=1e-9)


def test_non_negative_factors_are_nmf():
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 12)) + 0.05 * rng.random((30, 12))
    problem = Factored(Data.of(X, Squared()), NonNegative(), NonNegative(), rank=3, alpha=0.0)
    ours = solve(problem, tol=1e-9, max_iter=2000).objective
    theirs = NMF(3, init="nndsvda", tol=1e-10, max_iter=5000).fit(X).reconstruction_err_ ** 2 / 2
    assert ours <= 1.02 * theirs


@pytest.mark.parametrize(
    ("solver", "problem", "words"),
    [
        (Fista(), Convex(Data.of(np.eye(3), Absolute()), Trace(), 1.0), "kinks.*Admm"),
        (Fista(), Convex(Data.of(np.eye(3), Squared()), TwoView(1), 1.0), "EtaSearch"),
        (Admm(), Convex(Data.of(np.eye(3), Softmax()), Trace(), 1.0), "Softmax.*Fista"),
        (Admm(), Convex(Data.of(np.eye(3), Squared()), TwoView(1), 1.0), "EtaSearch"),
        (Admm(), Convex(Data.of(np.eye(3), Squared()), Trace(), 1.0, Lags(1)), "Fista"),
        (EtaSearch(), Convex(Data.of(np.eye(3), Squared()), Trace(), 1.0), "Admm"),
        (ClosedForm(), Convex(Data.of(np.eye(3), Logistic()), Trace(), 1.0), "Admm"),
        (Alternating(), Convex(Data.of(np.eye(3), Squared()), Trace(), 1.0), "Factored.*Admm"),
        (Lbfgs(), Factored(Data.of(np.eye(3), Squared()), OneHot(), Free(), 2), "Alternating"),
    ],
)
def test_a_mismatch_names_the_remedy_before_the_first_iteration(solver, problem, words):
    seen = []
    with pytest.raises(UnsupportedProblem, match=words):
        solve(problem, solver=solver, callback=seen.append)
    assert not seen


CONVEX = Convex(Data.of(np.eye(3), Squared()), Trace(), 1.0)
WRONG = {
    "a solver's name": (
        lambda: solve(CONVEX, solver="Fista"),
        r"solver must be a Solver.*Fista\(\)",
    ),
    "a solver's class": (lambda: solve(CONVEX, solver=Fista), r"solver must be.*write Fista\(\)"),
    "a table": (lambda: solve(np.eye(3)), "takes a problem.*Convex.*Factored.*got ndarray"),
    "an estimator": (lambda: solve(ConvexSubspace()), "takes a problem.*got ConvexSubspace.*fit"),
    "tol a word": (lambda: solve(CONVEX, tol="x"), "tol must be a number >= 0, got 'x'"),
    "max_iter a word": (
        lambda: solve(CONVEX, max_iter="10"),
        "max_iter must be a whole number >= 1, got '10'",
    ),
    "time_limit a word": (
        lambda: solve(CONVEX, time_limit="1"),
        "time_limit must be a number >= 0 or None, got '1'",
    ),
    "max_rank a word": (
        lambda: solve(CONVEX, max_rank="1"),
        "max_rank must be a whole number >= 1",
    ),
    "gauge a word": (
        lambda: solve(Convex(CONVEX.data, "trace", 2.0)),
        r"gauge.*penalties.Trace\(\), got 'trace'",
    ),
    "gauge a class": (lambda: solve(Convex(CONVEX.data, Trace, 2.0)), r"write Trace\(\)"),
    "data a table": (
        lambda: solve(Convex(np.eye(3), Trace(), 2.0)),
        r"data must be.*Data.of\(X, 'squared'\)",
    ),
    "penalty a word": (lambda: solve(Factored(CONVEX.data, "lasso")), "on_codes must be a Penalty"),
    "loss unknown": (lambda: Data.of(np.eye(3), "hubber"), "Did you mean 'huber'"),
    "one alpha": (lambda: path(CONVEX, alphas=3.0), "alphas must be a list.*got 3.0"),
    "alphas a word": (lambda: path(CONVEX, alphas="auto"), "alphas must be a list.*got 'auto'"),
    "alphas of zero": (
        lambda: path(CONVEX, alphas=[1.0, 0.0]),
        "alphas must be a list of positive",
    ),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_problem_is_answered_with_what_is_one(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "make", [Data.of, lambda X, loss: Data.of_sparse(scipy.sparse.csr_array(X), loss)]
)
def test_data_take_losses_by_name(make):
    assert make(np.eye(3), "huber").terms[0].loss == Huber()


def test_rowwise_losses_are_solved_locally_by_lbfgs():
    problem = Factored(Data.of(sample(Softmax()), Softmax()), SquaredL2(), SquaredL2(), rank=2)
    assert isinstance(choose_solver(problem), Lbfgs)
    assert solve(problem, tol=1e-8).objective < problem.data.value(np.zeros(problem.data.shape))


@settings(max_examples=30)
@given(
    X=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e3, 1e3)
    ),
    share=st.floats(0.02, 1.5),
    intercept=st.booleans(),
    data=st.data(),
)
def test_odd_tables_are_solved_with_a_valid_certificate(X, share, intercept, data):
    X = X.copy()
    missing = data.draw(hnp.arrays(bool, X.shape))
    missing.flat[0] = False
    X[missing] = np.nan
    design = Design.intercept(len(X)) if intercept else None
    base = Convex(Data.of(X, Squared()), Trace(), 1.0, design=design)
    alpha = share * base.alpha_max()
    if not alpha > 1e-9:
        return
    solution = solve(Convex(base.data, base.gauge, alpha, design=design), tol=1e-6, max_iter=4000)
    assert solution.relative_gap >= -1e-10
    assert solution.relative_gap <= 1e-4
