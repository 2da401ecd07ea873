"""Induced norms without a formula: search against brute force, relaxation, boosting, certified fits."""

import itertools

import numpy as np
import pytest

from regfactor import FactorModel
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import Absolute, Huber, Logistic, Squared
from regfactor.norms import L1, L2, Blocks, LInf, Lp
from regfactor.penalties import AtomNorms, Columns, Lasso, NonNegative, Rows, Trace, UnitBall
from regfactor.penalties.numerical import InducedNorm, numerical
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import solve

FORMULAS = {
    "trace": (InducedNorm(L2(), L2()), Trace()),
    "columns": (InducedNorm(L2(), L1()), Columns(L2())),
    "rows": (InducedNorm(L1(), L2()), Rows(L2())),
    "rows_linf": (InducedNorm(L1(), LInf()), Rows(LInf())),
}
every_formula = pytest.mark.parametrize(("norm", "formula"), FORMULAS.values(), ids=FORMULAS)
HARD = {
    "2_inf": (L2(), LInf()),
    "inf_2": (LInf(), L2()),
    "inf_inf": (LInf(), LInf()),
}
every_hard = pytest.mark.parametrize("pair", HARD)


def signs(n):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


def brute_force(pair, G):
    """The dual norm by trying all vertices of the cube of one side."""
    if pair == "2_inf":
        return np.linalg.norm(signs(G.shape[1]) @ G.T, axis=1).max()
    if pair == "inf_2":
        return np.linalg.norm(signs(G.shape[0]) @ G, axis=1).max()
    return np.abs(signs(G.shape[0]) @ G).sum(axis=1).max()


def tables(n=100, shape=(8, 10)):
    return [np.random.default_rng(seed).normal(size=shape) for seed in range(n)]


@every_hard
def test_the_search_is_rarely_wrong_and_never_above(pair):
    """How often wrong, how far: on 100 random tables of 8 x 10."""
    for n_starts, share, distance in ((1, 0.5, 0.2), (30, 0.03, 0.02)):
        norm = InducedNorm(*HARD[pair], n_starts=n_starts)
        found = np.array([norm.polar(G).value for G in tables()])
        truth = np.array([brute_force(pair, G) for G in tables()])
        assert (found <= truth * (1 + 1e-12)).all()
        short = 1 - found / truth
        wrong = short > 1e-9
        assert wrong.mean() <= share and short.max() <= distance
        print(f"{pair}, {n_starts} starts: {100 * wrong.mean():.0f} % wrong, by {short.max():.3f}")


def test_few_starts_can_be_wrong():
    """One start misses the largest value on some table, so that a certificate would be wrong."""
    norm = InducedNorm(L2(), LInf(), n_starts=1)
    assert any(norm.polar(G).value < brute_force("2_inf", G) * (1 - 1e-3) for G in tables(30))


@every_hard
def test_the_relaxation_is_above_and_near(pair):
    limit = {"2_inf": 1.1, "inf_2": 1.1, "inf_inf": 1.3}[pair]
    for G in tables(20):
        share = InducedNorm(*HARD[pair]).polar_bound(G) / brute_force(pair, G)
        assert 1 - 1e-9 <= share <= limit


def test_the_relaxation_is_the_semidefinite_one():
    cp = pytest.importorskip("cvxpy")
    for G in tables(3):
        X = cp.Variable((10, 10), PSD=True)
        program = cp.Problem(cp.Maximize(cp.trace(G.T @ G @ X)), [cp.diag(X) <= 1])
        program.solve()
        bound = InducedNorm(L2(), LInf()).polar_bound(G)
        assert np.sqrt(program.value) * (1 - 1e-5) <= bound <= np.sqrt(program.value) * 1.002


@pytest.mark.parametrize(
    "norm",
    [
        InducedNorm(L2(), Lp(4.0)),
        InducedNorm(Lp(3.0), Lp(1.5)),
        InducedNorm(Lp(1.5), L2()),
        InducedNorm(LInf(), Blocks(4, bounds=(0.5, 2.0))),
        InducedNorm(L2(), L2()),
    ],
    ids=str,
)
def test_the_relaxation_is_above_the_search_for_all_norms(norm):
    for G in tables(10):
        polar = norm.polar(G)
        assert polar.value <= norm.polar_bound(G) * (1 + 1e-9)
        assert not polar.rigorous
        assert norm.cost(polar.atoms) == pytest.approx(1, rel=1e-9)
        assert (G * polar.atoms.dense()).sum() == pytest.approx(polar.value, rel=1e-9)


@every_formula
def test_norms_with_a_formula_are_found(norm, formula):
    for G in tables(5, (6, 5)):
        assert norm.polar(G).value == pytest.approx(formula.polar(G).value, rel=1e-9)
        assert norm.cost(formula.recover(G)) == pytest.approx(formula.value(G), rel=1e-9)


@every_formula
def test_boosting_recovers_factors_that_cost_the_norm(norm, formula):
    random = np.random.default_rng(1)
    Z = random.normal(size=(3, 2)) @ random.normal(size=(2, 3))
    factors = norm.recover(Z)
    np.testing.assert_allclose(factors.dense(), Z, atol=1e-10)
    assert norm.cost(factors) == pytest.approx(formula.value(Z), rel=1e-4)
    assert norm.cost(factors) >= formula.value(Z) * (1 - 1e-9)


@every_hard
def test_boosting_meets_a_dual_point_by_brute_force(pair):
    """The value is attained: |||Z||| = max <G, Z> over dual norms of at most one."""
    cp = pytest.importorskip("cvxpy")
    random = np.random.default_rng(2)
    Z = random.normal(size=(4, 2)) @ random.normal(size=(2, 4))
    norm = InducedNorm(*HARD[pair])
    G = cp.Variable((4, 4))
    if pair == "2_inf":
        limits = [cp.norm(G @ c) <= 1 for c in signs(4)]
    elif pair == "inf_2":
        limits = [cp.norm(G.T @ u) <= 1 for u in signs(4)]
    else:
        limits = [u @ G @ c <= 1 for u in signs(4) for c in signs(4)]
    program = cp.Problem(cp.Maximize(cp.trace(G.T @ Z)), limits)
    program.solve()
    factors = norm.recover(Z)
    assert norm.cost(factors) == pytest.approx(program.value, rel=1e-4)
    np.testing.assert_allclose(factors.dense(), Z, atol=1e-10)


def table(missing=0.2, n=16, d=8):
    random = np.random.default_rng(3)
    X = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) + 0.3 * random.normal(size=(n, d))
    return np.where(random.random((n, d)) < missing, np.nan, X)


@every_formula
@pytest.mark.parametrize("loss", [Squared(), Huber(1.5), Logistic()], ids=str)
def test_fits_are_those_of_the_formula(norm, formula, loss):
    X = table()
    if isinstance(loss, Logistic):
        X = np.where(np.isnan(X), np.nan, X > 0)
    problem = Convex(Data.of(X, loss), formula, 1.0, design=Design.intercept(len(X)))
    problem = problem.at(0.3 * problem.alpha_max())
    expected = solve(problem, tol=1e-7)
    ours = solve(Convex(problem.data, norm, problem.alpha, design=problem.design), tol=1e-4)
    assert ours.solver == "GreedyAtoms" and ours.status.converged
    assert ours.objective == pytest.approx(expected.objective, rel=1e-4)
    assert ours.bound <= expected.objective * (1 + 1e-9)
    assert not ours.rigorous


@every_hard
def test_certificates_without_a_formula_hold_by_brute_force(pair):
    """A dual point is scaled by the true dual norm: the gap is what it was claimed to be."""
    X = table(n=8)
    problem = Convex(Data.of(X, Squared()), InducedNorm(*HARD[pair]), 1.0)
    problem = problem.at(0.3 * problem.alpha_max())
    duals = []

    def keep(iterate):
        duals.append(problem.feasible(iterate.point.dual))

    solution = solve(problem, tol=1e-4, callback=keep)
    assert solution.status.converged
    proven = []
    for Y in duals:
        norm = brute_force(pair, problem.data.layout.matrix(Y))
        proven.append(problem.bound_at(Y, norm))
        assert problem.relaxed_bound(Y) <= proven[-1] + 1e-9 * abs(proven[-1])
    assert max(proven) == pytest.approx(solution.bound, rel=1e-6)


def test_require_global_accepts_pairs_of_norms_with_a_label():
    X = table()
    pair = {"on_codes": AtomNorms(L2()), "on_components": UnitBall(LInf())}
    model = FactorModel(**pair, alpha=2.0, fit_intercept=True, require="global").fit(X)
    assert model.is_convex_ and model.relative_gap_ <= 1e-4
    assert not model.certificate_.rigorous
    assert "local search for the dual norm" in str(model.certificate_)
    assert model.certificate_.relaxed_bound < model.certificate_.bound
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-4)
    assert np.isfinite(model.complete(X)).all()
    with pytest.raises(UnsupportedProblem, match="no known convex form"):
        FactorModel(on_codes=NonNegative(), on_components=UnitBall(), require="global").fit(X)


def test_sparse_codes_with_a_free_number_of_atoms_are_rows():
    X = table()
    model = FactorModel(on_codes=Lasso(), on_components=UnitBall(), alpha=0.5).fit(X)
    rows = FactorModel(gauge=Rows(L2()), alpha=0.5).fit(X)
    assert model.is_convex_
    assert model.objective_ == pytest.approx(rows.objective_, rel=1e-3)


def test_losses_with_kinks_are_refused():
    problem = Convex(Data.of(table(), Absolute()), InducedNorm(L2(), LInf()), 0.5)
    with pytest.raises(UnsupportedProblem, match="kinks"):
        solve(problem)


def test_a_pair_of_norms_is_required():
    assert numerical(NonNegative(), UnitBall()) is None
    assert isinstance(numerical(AtomNorms(LInf()), UnitBall(L2())), InducedNorm)
    with pytest.raises(ValueError, match="n_starts"):
        InducedNorm(n_starts=0)


def test_the_transposed_norm_judges_the_transposed_table():
    norm = InducedNorm(L2(), LInf())
    for G in tables(5):
        assert norm.T.polar(G.T).value == pytest.approx(norm.polar(G).value, rel=1e-3)


def test_float32_stays_and_weights_act_as_repetition_counts():
    X = table(missing=0.0)
    pair = {"on_codes": AtomNorms(L2()), "on_components": UnitBall(LInf()), "alpha": 2.0}
    # rounding in single precision may end the search a per cent or two above the bound
    single = FactorModel(**pair, tol=1e-1, random_state=0).fit(X.astype(np.float32))
    assert single.codes_.dtype == np.float32
    weights = np.arange(len(X)) % 3
    weighted = FactorModel(**pair).fit(X, sample_weight=weights)
    repeated = FactorModel(**pair).fit(np.repeat(X, weights, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-4)
