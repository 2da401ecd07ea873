"""Laws of gauges on Z: value, cost, recovery, prox, polar and factor penalties tell the same story."""

import numpy as np
import pytest
from boosting import two_view_value
from sklearn.base import clone

from catalogue import GAUGES, SHAPE, cases, frozen, rng
from regfactor.core.factors import Factors, rebalance
from regfactor.core.params import UnsupportedProblem
from regfactor.norms import L1, L2, Blocks, LInf, Lp
from regfactor.penalties import (
    AtomNorms,
    Columns,
    NonNegative,
    Rows,
    SquaredL2,
    Trace,
    TwoView,
    UnitBall,
    induced,
)

UNEVEN = (
    "trace_columns",
    "two_view",
    "two_view_bounds",
)  # columns of unlike weight: no closed prox, no transpose
FREE = ("trace_modulo",)  # with a component that costs nothing: no transpose, no factor penalties
EVEN = {name: gauge for name, gauge in GAUGES.items() if name not in UNEVEN}
every_gauge = pytest.mark.parametrize("gauge", cases(GAUGES))
every_rank = pytest.mark.parametrize("rank", [1, 3, 5])

BOUNDS = (0.5, 2.0)


def matrix(rank=5, seed=0):
    random = rng(seed)
    return random.normal(size=(SHAPE[0], rank)) @ random.normal(size=(rank, SHAPE[1]))


def nuclear(Z):
    return np.linalg.svd(Z, compute_uv=False).sum()


def spectral(G):
    return np.linalg.svd(G, compute_uv=False)[0]


def two_view_polar(G, n_first, bounds):
    """min over eta of the largest singular value of G E, on a fine grid: never below the truth."""
    etas = np.linspace(1e-3, 1 - 1e-3, 4001)
    first, second = bounds[0] * G[:, :n_first], bounds[1] * G[:, n_first:]
    stacks = [np.hstack([first / np.sqrt(eta), second / np.sqrt(1 - eta)]) for eta in etas]
    return np.linalg.svd(np.array(stacks), compute_uv=False)[:, 0].min()


# In plain numpy: value and polar of each line of the catalogue.
COLUMN_SCALE = np.linspace(0.5, 2.0, SHAPE[1])
BEYOND = np.eye(SHAPE[1]) - np.outer(COLUMN_SCALE, COLUMN_SCALE) / (COLUMN_SCALE @ COLUMN_SCALE)
PLAIN = {
    "trace": (nuclear, spectral),
    "trace_scaled": (lambda Z: nuclear(Z) / 2, lambda G: spectral(G) * 2),
    "trace_columns": (lambda Z: nuclear(Z / COLUMN_SCALE), lambda G: spectral(G * COLUMN_SCALE)),
    "trace_modulo": (lambda Z: nuclear(Z @ BEYOND), lambda G: spectral(G @ BEYOND)),
    "rows_l1": (lambda Z: np.abs(Z).sum(), lambda G: np.abs(G).max()),
    "rows_l2": (
        lambda Z: np.linalg.norm(Z, axis=1).sum(),
        lambda G: np.linalg.norm(G, axis=1).max(),
    ),
    "rows_linf": (lambda Z: np.abs(Z).max(axis=1).sum(), lambda G: np.abs(G).sum(axis=1).max()),
    "rows_l3": (
        lambda Z: np.linalg.norm(Z, 3, axis=1).sum(),
        lambda G: np.linalg.norm(G, 1.5, axis=1).max(),
    ),
    "rows_blocks": (
        lambda Z: np.maximum(
            np.linalg.norm(Z[:, :2], axis=1) / 0.5, np.linalg.norm(Z[:, 2:], axis=1) / 2
        ).sum(),
        lambda G: (
            0.5 * np.linalg.norm(G[:, :2], axis=1) + 2 * np.linalg.norm(G[:, 2:], axis=1)
        ).max(),
    ),
    "rows_blocks_mixed": (
        lambda Z: np.maximum(np.abs(Z[:, :2]).sum(axis=1), np.abs(Z[:, 2:]).max(axis=1)).sum(),
        lambda G: (np.abs(G[:, :2]).max(axis=1) + np.abs(G[:, 2:]).sum(axis=1)).max(),
    ),
    "columns_l1": (lambda Z: np.abs(Z).sum(), lambda G: np.abs(G).max()),
    "columns_l2": (
        lambda Z: np.linalg.norm(Z, axis=0).sum(),
        lambda G: np.linalg.norm(G, axis=0).max(),
    ),
    "columns_linf": (lambda Z: np.abs(Z).max(axis=0).sum(), lambda G: np.abs(G).sum(axis=0).max()),
    "columns_l1.5": (
        lambda Z: np.linalg.norm(Z, 1.5, axis=0).sum(),
        lambda G: np.linalg.norm(G, 3, axis=0).max(),
    ),
    "two_view": (
        lambda Z: two_view_value(Z, 2, (1.0, 1.0))[0],
        lambda G: two_view_polar(G, 2, (1.0, 1.0)),
    ),
    "two_view_bounds": (
        lambda Z: two_view_value(Z, 2, BOUNDS)[0],
        lambda G: two_view_polar(G, 2, BOUNDS),
    ),
}


def test_every_gauge_has_its_line_in_the_plain_table():
    assert set(PLAIN) == set(GAUGES)


@pytest.mark.parametrize("name", PLAIN)
@every_rank
def test_value_and_polar_are_those_of_the_table(name, rank):
    Z = matrix(rank, seed=1)
    value, polar = PLAIN[name]
    assert GAUGES[name].value(Z) == pytest.approx(value(Z), rel=1e-9)
    two_view = isinstance(GAUGES[name], TwoView)  # its plain polar is a grid search
    assert GAUGES[name].polar(Z).value == pytest.approx(polar(Z), rel=1e-4 if two_view else 1e-9)


@every_gauge
def test_value_takes_factors(gauge):
    factors = Factors(rng(2).normal(size=(SHAPE[0], 3)), rng(3).normal(size=(3, SHAPE[1])))
    assert gauge.value(factors) == pytest.approx(gauge.value(factors.dense()), rel=1e-9)


@every_gauge
def test_a_gauge_is_a_norm(gauge):
    Z, W = matrix(5, seed=4), matrix(2, seed=5)
    assert gauge.value(-2.5 * Z) == pytest.approx(2.5 * gauge.value(Z), rel=1e-9)
    assert gauge.value(Z + W) <= gauge.value(Z) + gauge.value(W) + 1e-9
    assert gauge.value(np.zeros(SHAPE)) == 0


@every_gauge
@every_rank
def test_the_polar_bounds_every_pairing(gauge, rank):
    for seed in range(5):
        Z, G = matrix(rank, seed=6 + seed), rng(20 + seed).normal(size=SHAPE)
        assert (Z * G).sum() <= gauge.value(Z) * gauge.polar(G).value * (1 + 1e-9)


@every_gauge
@every_rank
def test_the_polar_atom_attains_the_polar(gauge, rank):
    G = matrix(rank, seed=7)
    polar = gauge.polar(G)
    atom = polar.atoms
    assert atom.rank == 1
    assert gauge.cost(atom) == pytest.approx(1, rel=1e-7)
    assert gauge.value(atom.dense()) == pytest.approx(1, rel=1e-7)
    assert (G * atom.dense()).sum() == pytest.approx(polar.value, rel=1e-6)
    assert (G * atom.dense()).sum() <= polar.value * (1 + 1e-12)


@every_gauge
def test_the_polar_of_nothing_is_zero(gauge):
    polar = gauge.polar(np.zeros(SHAPE))
    assert polar.value == 0
    assert np.isfinite(polar.atoms.dense()).all()


def test_the_trace_gauge_hands_out_several_atoms():
    G = matrix(5, seed=8)
    U, S, Vt = np.linalg.svd(G)
    polar = Trace().polar(G, k=3)
    atoms = polar.atoms
    assert polar.value == pytest.approx(S[0])
    assert atoms.rank == 3
    pairings = sorted((G * np.outer(atoms.Phi[:, i], atoms.C[i])).sum() for i in range(3))
    np.testing.assert_allclose(pairings, S[2::-1], rtol=1e-7)


def test_the_polar_is_found_where_all_singular_values_are_equal():
    """The dual point of a full-rank solution is such a matrix; some eigenvalue routines fail on it."""
    random = rng(33)
    for _ in range(500):
        Q, _ = np.linalg.qr(random.normal(size=(9, 8)))
        assert Trace().polar(0.7 * Q).value == pytest.approx(0.7, rel=1e-12)
        assert Trace().polar(0.7 * Q, k=0).value == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("gauge", cases(GAUGES))
def test_small_polars_are_rigorous(gauge):
    assert gauge.polar(matrix(4, seed=9)).rigorous


@every_gauge
@every_rank
def test_recovery_is_exact(gauge, rank):
    Z = matrix(rank, seed=10)
    factors = gauge.recover(Z)
    np.testing.assert_allclose(factors.dense(), Z, atol=1e-12 * np.abs(Z).max())
    assert gauge.cost(factors) == pytest.approx(gauge.value(Z), rel=1e-10)


@every_gauge
def test_nothing_is_recovered_from_nothing(gauge):
    factors = gauge.recover(np.zeros(SHAPE))
    assert factors.shape == SHAPE
    assert factors.rank == gauge.n_free
    assert gauge.cost(factors) == 0


@every_gauge
def test_zero_rows_and_columns_are_recovered(gauge):
    Z = matrix(5, seed=13)
    Z[2] = 0
    Z[:, 3] = 0
    factors = gauge.recover(Z)
    np.testing.assert_allclose(factors.dense(), Z, atol=1e-12)
    assert np.isfinite(factors.codes).all() and np.isfinite(factors.C).all()
    assert gauge.cost(factors) == pytest.approx(gauge.value(Z), rel=1e-10)


@every_gauge
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_no_factorization_is_cheaper_than_the_value(gauge, rank):
    for seed in range(5):
        random = rng(30 + seed)
        factors = Factors(
            random.normal(size=(SHAPE[0], rank)), random.normal(size=(rank, SHAPE[1]))
        )
        assert gauge.cost(factors) >= gauge.value(factors.dense()) * (1 - 1e-9)


@every_gauge
def test_cost_does_not_see_how_an_atom_shares_its_scale(gauge):
    random = rng(14)
    Phi, C, s = (
        random.normal(size=(SHAPE[0], 4)),
        random.normal(size=(4, SHAPE[1])),
        random.uniform(0.1, 9, 4),
    )
    assert gauge.cost(Factors(Phi * s, C / s[:, None])) == pytest.approx(
        gauge.cost(Factors(Phi, C)), rel=1e-12
    )


@pytest.mark.parametrize("gauge", cases(EVEN))
@pytest.mark.parametrize("t", [1e-2, 0.8, 3.0, 1e3])
def test_prox_satisfies_its_optimality_pair(gauge, t):
    W = matrix(5, seed=15)
    factors = gauge.prox(W, t)
    P = factors.dense()
    assert gauge.polar(W - P).value <= t * (1 + 1e-9)
    assert ((W - P) * P).sum() == pytest.approx(t * gauge.value(P), rel=1e-9, abs=1e-9)
    assert gauge.cost(factors) == pytest.approx(gauge.value(P), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("gauge", cases(EVEN))
def test_prox_beyond_the_polar_is_nothing(gauge):
    W = matrix(5, seed=16)
    factors = gauge.prox(W, 1.000001 * gauge.polar(W).value)
    assert factors.rank == gauge.n_free
    assert gauge.value(factors) == pytest.approx(0, abs=1e-12)
    if not gauge.n_free:
        assert not factors.dense().any()


@pytest.mark.parametrize("gauge", cases(EVEN, without=FREE))
def test_the_transposed_gauge_judges_the_transposed_matrix(gauge):
    Z, G = matrix(3, seed=17), matrix(5, seed=18)
    assert gauge.T.value(Z.T) == pytest.approx(gauge.value(Z), rel=1e-9)
    assert gauge.T.polar(G.T).value == pytest.approx(gauge.polar(G).value, rel=1e-6)
    recovered = gauge.T.recover(Z.T)
    np.testing.assert_allclose(recovered.dense(), Z.T, atol=1e-12)
    assert gauge.T.cost(recovered) == pytest.approx(gauge.value(Z), rel=1e-9)
    assert gauge.T.T.value(Z) == pytest.approx(gauge.value(Z), rel=1e-12)


@pytest.mark.parametrize("gauge", cases(EVEN, without=FREE))
def test_the_transposed_prox_is_the_prox_of_the_transpose(gauge):
    W = matrix(5, seed=19)
    np.testing.assert_allclose(
        gauge.T.prox(W.T, 0.7).dense(), gauge.prox(W, 0.7).dense().T, atol=1e-8
    )


@pytest.mark.parametrize("gauge", cases(GAUGES, *FREE))
def test_a_free_component_has_neither_a_transpose_nor_factor_penalties(gauge):
    with pytest.raises(UnsupportedProblem):
        _ = gauge.T
    with pytest.raises(UnsupportedProblem):
        gauge.factored()


@pytest.mark.parametrize("gauge", cases(GAUGES, *UNEVEN))
def test_columns_of_unlike_weight_have_neither_prox_nor_transpose(gauge):
    with pytest.raises(UnsupportedProblem):
        gauge.prox(matrix(5), 0.7)
    with pytest.raises(UnsupportedProblem):
        _ = gauge.T


def shared(gauge, factors):
    """The same atoms, their cost shared evenly between codes and components."""
    Phi, C = factors.codes, factors.C
    costs = np.array([gauge.cost(Factors(Phi[:, [i]], C[[i]])) for i in range(factors.rank)])
    s = np.sqrt(costs) / np.linalg.norm(Phi, axis=0)
    return Factors(Phi * s, C / s[:, None])


@pytest.mark.parametrize("gauge", cases(GAUGES, without=FREE))
@every_rank
def test_factor_penalties_of_the_recovered_factors_pay_the_value(gauge, rank):
    Z = matrix(rank, seed=21)
    on_codes, on_components = gauge.factored()
    recovered = gauge.recover(Z)
    paid = [
        on_codes.value(F.codes) + on_components.value(F.C)
        for F in (recovered, shared(gauge, recovered))
    ]
    assert min(paid) == pytest.approx(gauge.value(Z), rel=1e-9)


@pytest.mark.parametrize("gauge", cases(GAUGES, without=FREE))
def test_factor_penalties_never_pay_less_than_the_value(gauge):
    on_codes, on_components = gauge.factored()
    for seed in range(5):
        random = rng(40 + seed)
        factors = Factors(random.normal(size=(SHAPE[0], 4)), random.normal(size=(4, SHAPE[1])))
        recovered = gauge.recover(factors.dense())
        for F in (factors, recovered, shared(gauge, recovered), shared(gauge, factors)):
            paid = on_codes.value(F.codes) + on_components.value(F.C)
            assert paid >= gauge.value(F) * (1 - 1e-9)


@pytest.mark.parametrize("gauge", cases(GAUGES, without=("trace_scaled", "trace_columns", *FREE)))
def test_the_factor_penalties_induce_the_gauge(gauge):
    Z = matrix(5, seed=22)
    assert induced(*gauge.factored()).value(Z) == pytest.approx(gauge.value(Z), rel=1e-9)


@pytest.mark.parametrize("gauge", cases(GAUGES, "trace_scaled", "trace_columns"))
def test_the_factor_penalties_of_a_scaled_norm_do_not_induce_another(gauge):
    back, Z = induced(*gauge.factored()), matrix(5, seed=22)
    assert back is None or back.value(Z) == pytest.approx(gauge.value(Z), rel=1e-9)


@pytest.mark.parametrize(
    ("codes", "components", "expected"),
    [
        (L2(), L2(), Trace()),
        (Lp(1.5), L1(), Columns(Lp(1.5))),
        (L2(), L1(), Columns(L2())),
        (LInf(), L1(), Columns(LInf())),
        (L1(), L2(), Rows(L2())),
        (L1(), LInf(), Rows(LInf())),
        (L1(), Blocks(2, L1(), L2(), (0.5, 2.0)), Rows(Blocks(2, L1(), L2(), (0.5, 2.0)))),
        (L2(), Blocks(2, bounds=(0.5, 2.0)), TwoView(2, (0.5, 2.0))),
    ],
    ids=str,
)
def test_two_factor_norms_open_a_convex_door(codes, components, expected):
    Z = matrix(5, seed=23)
    assert induced(AtomNorms(codes), UnitBall(components)).value(Z) == pytest.approx(
        expected.value(Z), rel=1e-9
    )


def test_two_squared_factor_norms_induce_the_trace_norm():
    assert induced(SquaredL2(), SquaredL2()) == Trace()


@pytest.mark.parametrize(
    "pair", [(NonNegative(), SquaredL2()), (AtomNorms(LInf()), UnitBall(L2()))], ids=str
)
def test_other_pairs_have_no_convex_door(pair):
    assert induced(*pair) is None


CODES_NORM = {
    "trace": 2,
    "trace_columns": 2,
    "rows_l2": 1,
    "rows_linf": 1,
    "columns_l1": 1,
    "columns_l2": 2,
}
CODES_NORM |= {"columns_l1.5": 1.5, "two_view": 2, "two_view_bounds": 2, "rows_blocks": 1}


@pytest.mark.parametrize("name", CODES_NORM)
def test_the_row_penalty_has_the_size_and_slope_of_the_norms_of_the_codes(name):
    gauge, p = GAUGES[name], CODES_NORM[name]
    codes = gauge.recover(matrix(5, seed=24)).codes
    penalty = gauge.per_row(codes)
    sizes = np.linalg.norm(codes, p, axis=0)
    assert penalty.value(codes) == pytest.approx(sizes.sum() / p, rel=1e-9)
    step = (
        1e-6 * rng(25).normal(size=codes.shape) * (codes != 0)
    )  # along the support: |.| has a kink at zero
    slope = (penalty.value(codes + step) - penalty.value(codes - step)) / 2
    plain = (
        np.linalg.norm(codes + step, p, axis=0) - np.linalg.norm(codes - step, p, axis=0)
    ).sum() / 2
    assert slope == pytest.approx(plain, abs=1e-10)


def test_the_row_penalty_of_the_largest_code_does_not_separate():
    codes = Columns(LInf()).recover(matrix(5, seed=26)).codes
    with pytest.raises(UnsupportedProblem):
        Columns(LInf()).per_row(codes)


@every_gauge
def test_nothing_is_mutated_and_float32_stays(gauge):
    for dtype in (np.float64, np.float32):
        Z = frozen(matrix(3, seed=27).astype(dtype))
        factors = gauge.recover(Z)
        assert factors.Phi.dtype == factors.C.dtype == dtype
        gauge.value(Z)
        gauge.polar(Z)
        gauge.cost(Factors(frozen(factors.codes), frozen(factors.C)))


@pytest.mark.parametrize("gauge", cases(EVEN))
def test_the_prox_mutates_nothing_and_keeps_float32(gauge):
    for dtype in (np.float64, np.float32):
        assert gauge.prox(frozen(matrix(3, seed=32).astype(dtype)), 0.1).dense().dtype == dtype


@every_gauge
def test_gauges_are_cloned_by_their_parameters(gauge):
    Z = matrix(5, seed=28)
    assert clone(gauge).value(Z) == gauge.value(Z)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Trace(scale=0.0),
        lambda: Trace(scale=-1.0),
        lambda: Trace(scale=np.array([1.0, -1.0])),
        lambda: TwoView(2, bounds=(1.0, 0.0)),
        lambda: TwoView(-1),
    ],
)
def test_illegal_parameters_are_refused(make):
    with pytest.raises(ValueError):
        make()


def test_rebalanced_factors_are_orthogonal_and_even():
    Z = matrix(3, seed=29)
    even = rebalance(
        Factors(rng(30).normal(size=(SHAPE[0], 4)), rng(31).normal(size=(4, SHAPE[1])))
        + Trace().recover(Z)
    )
    gram, outer = even.Phi.T @ even.Phi, even.C @ even.C.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    np.testing.assert_allclose(outer, gram, atol=1e-10)
    assert (np.sum(even.Phi**2) + np.sum(even.C**2)) / 2 == pytest.approx(nuclear(even.dense()))
