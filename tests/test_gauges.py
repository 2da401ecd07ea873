"""Laws of gauges on Z: value, cost, recovery, prox, polar and factor penalties tell the same story."""

import numpy as np
import pytest
from boosting import two_view_value
from sklearn.base import clone

from catalogue import GAUGES, SHAPE, cases, rng
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
from regfactor.testing import gauges as laws_of_gauges

UNEVEN = (
    "trace_columns",
    "two_view",
    "two_view_bounds",
)  # columns of unlike weight: no closed prox, no transpose
FREE = ("trace_modulo",)  # with a component that costs nothing: no transpose, no factor penalties
EVEN = {name: gauge for name, gauge in GAUGES.items() if name not in UNEVEN}
every_gauge = pytest.mark.parametrize("gauge", cases(GAUGES))


@pytest.mark.parametrize("law", laws_of_gauges.LAWS, ids=lambda law: law.__name__)
@every_gauge
def test_law(gauge, law):
    law(laws_of_gauges.GaugeCase(gauge))


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


@pytest.mark.parametrize("gauge", cases(EVEN))
def test_other_gauges_have_a_prox_and_a_transpose(gauge):
    case = laws_of_gauges.GaugeCase(gauge)
    assert case.has_prox
    assert case.has_transpose or gauge.n_free


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
