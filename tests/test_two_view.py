"""The two-view gauge: closed-form recovery with rank(Z) atoms, interior and boundary weights, and hand-made values."""

import numpy as np
import pytest
from boosting import two_view_value

from catalogue import rng
from regfactor.penalties import Trace, TwoView

BOUNDS = [(1.0, 1.0), (0.5, 2.0)]
D1, D2 = 5, 7


def matrix(rank, seed=0, n=30):
    random = rng(seed)
    return random.normal(size=(n, rank)) @ random.normal(size=(rank, D1 + D2))


def with_eta_one(rank, seed=0):
    """The second view is a small image of the first: the first alone decides."""
    Z = matrix(rank, seed)
    return np.hstack([Z[:, :D1], 0.01 * Z[:, :D1] @ rng(seed + 1).normal(size=(D1, D2))])


def assert_recovers(gauge, Z, rank, rtol=1e-9, atol=1e-12):
    """rank(Z) atoms in both balls, exact in each view, at the price of the norm found by a plain search."""
    factors = gauge.recover(Z)
    first, second = slice(0, gauge.n_first), slice(gauge.n_first, None)
    for view in (first, second):
        np.testing.assert_allclose(
            factors.dense()[:, view], Z[:, view], atol=atol * np.abs(Z[:, view]).max()
        )
    assert factors.rank == rank
    sizes = [
        np.linalg.norm(factors.C[:, v], axis=1) / b
        for v, b in zip((first, second), gauge.bounds, strict=True)
    ]
    assert np.max(sizes) <= 1 + 1e-9
    value = two_view_value(Z, gauge.n_first, gauge.bounds)[0]
    assert np.linalg.norm(factors.Phi, axis=0).sum() == pytest.approx(value, rel=rtol)
    assert gauge.cost(factors) == pytest.approx(value, rel=rtol)
    assert gauge.value(Z) == pytest.approx(value, rel=rtol)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("rank", [1, 2, 3, 5, 8, 12])
def test_recovery_needs_as_many_atoms_as_the_rank(rank, bounds):
    assert_recovers(TwoView(D1, bounds), matrix(rank, seed=rank), rank)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_recovery_at_the_boundary_where_the_first_view_decides(rank, bounds):
    Z = with_eta_one(rank)
    assert TwoView(D1, bounds).eta(Z) == pytest.approx(1, abs=1e-6)
    assert_recovers(TwoView(D1, bounds), Z, rank)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_recovery_at_the_boundary_where_the_second_view_decides(rank, bounds):
    Z = np.roll(with_eta_one(rank), D2, axis=1)
    assert TwoView(D2, bounds).eta(Z) == pytest.approx(0, abs=1e-6)
    assert_recovers(TwoView(D2, bounds), Z, rank)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_zero_view_leaves_the_trace_norm_of_the_other(bounds):
    Z = matrix(8, seed=3)
    first, second = Z.copy(), Z.copy()
    first[:, D1:] = 0
    second[:, :D1] = 0
    gauge = TwoView(D1, bounds)
    assert gauge.value(first) == pytest.approx(
        np.linalg.norm(Z[:, :D1], "nuc") / bounds[0], rel=1e-12
    )
    assert gauge.value(second) == pytest.approx(
        np.linalg.norm(Z[:, D1:], "nuc") / bounds[1], rel=1e-12
    )
    assert_recovers(gauge, first, 5)
    assert_recovers(gauge, second, 7)


@pytest.mark.parametrize(("scale", "atol"), [(1e-3, 1e-10), (1e-5, 1e-9), (1e-6, 1e-8)])
def test_a_tiny_view_is_not_lost(scale, atol):
    Z = matrix(12, seed=4)
    Z[:, D1:] *= scale
    gauge = TwoView(D1)
    factors = gauge.recover(Z)
    np.testing.assert_allclose(
        factors.dense()[:, :D1], Z[:, :D1], atol=atol * np.abs(Z[:, :D1]).max()
    )
    np.testing.assert_allclose(
        factors.dense()[:, D1:], Z[:, D1:], atol=atol * np.abs(Z[:, D1:]).max()
    )
    assert gauge.cost(factors) == pytest.approx(gauge.value(Z), rel=1e-7)


@pytest.mark.parametrize(
    ("bounds", "value", "polar"), [((1.0, 1.0), 5.0, 5.0), ((2.0, 0.5), 8.139410298, 6.324555320)]
)
def test_the_diagonal_matrix_by_hand(bounds, value, polar):
    Z = np.diag([3.0, 4.0])
    gauge = TwoView(1, bounds)
    assert gauge.value(Z) == pytest.approx(value, rel=1e-9)
    assert gauge.polar(Z).value == pytest.approx(polar, rel=1e-7)
    assert gauge.recover(Z).rank == 2
    if bounds == (1.0, 1.0):
        assert gauge.eta(Z) == pytest.approx(0.36, abs=1e-7)


def test_the_rank_one_matrix_by_hand():
    Z = np.outer([1.0, 2.0, 2.0], [3.0, 4.0, 0.0, 1.0])
    gauge = TwoView(2)
    factors = gauge.recover(Z)
    assert gauge.value(Z) == pytest.approx(15, rel=1e-12)
    assert gauge.eta(Z) == pytest.approx(1, abs=1e-9)
    assert factors.rank == 1
    assert np.linalg.norm(factors.C[0, 2:]) / np.linalg.norm(factors.C[0, :2]) == pytest.approx(0.2)
    assert np.linalg.norm(factors.C[0, :2]) == pytest.approx(1)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_rank_one_pays_the_larger_view(bounds):
    random = rng(5)
    u, v = random.normal(size=9), random.normal(size=D1 + D2)
    larger = max(np.linalg.norm(v[:D1]) / bounds[0], np.linalg.norm(v[D1:]) / bounds[1])
    assert TwoView(D1, bounds).value(np.outer(u, v)) == pytest.approx(
        np.linalg.norm(u) * larger, rel=1e-10
    )


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_fixed_weight_gives_a_scaled_trace_norm_below_the_value(bounds):
    Z = matrix(8, seed=6)
    gauge = TwoView(D1, bounds)
    for eta in (0.1, 0.5, 0.9):
        trace = gauge.at(eta, D1 + D2)
        scale = np.repeat([bounds[0] / np.sqrt(eta), bounds[1] / np.sqrt(1 - eta)], [D1, D2])
        assert isinstance(trace, Trace)
        assert trace.value(Z) == pytest.approx(np.linalg.norm(Z / scale, "nuc"), rel=1e-10)
        assert trace.value(Z) <= gauge.value(Z) * (1 + 1e-12)
        assert trace.polar(Z).value >= gauge.polar(Z).value * (1 - 1e-7)
    assert gauge.at(gauge.eta(Z), D1 + D2).value(Z) == pytest.approx(gauge.value(Z), rel=1e-10)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_single_view_limit_is_the_trace_norm(bounds):
    Z = matrix(8, seed=7)
    square = bounds[0] ** 2 + bounds[1] ** 2
    frozen = TwoView(D1, bounds).at(bounds[0] ** 2 / square, D1 + D2)
    assert frozen.value(Z) == pytest.approx(np.linalg.norm(Z, "nuc") / np.sqrt(square), rel=1e-10)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_one_blind_view_leaves_the_spectral_norm_of_the_other(bounds):
    G = matrix(8, seed=8)
    first, second = G.copy(), G.copy()
    first[:, D1:] = 0
    second[:, :D1] = 0
    assert TwoView(D1, bounds).polar(first).value == pytest.approx(
        bounds[0] * np.linalg.norm(G[:, :D1], 2), rel=1e-9
    )
    assert TwoView(D1, bounds).polar(second).value == pytest.approx(
        bounds[1] * np.linalg.norm(G[:, D1:], 2), rel=1e-9
    )


def test_the_polar_is_an_upper_bound_reached_by_its_atom_under_ties():
    G = np.hstack([np.eye(4), np.eye(4)])  # every singular value is the same
    polar = TwoView(4).polar(G)
    assert polar.value == pytest.approx(2, rel=1e-7)
    assert (G * polar.atoms.dense()).sum() == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_polar_near_a_level_is_exact_below_it_and_a_bound_above(bounds):
    gauge, G = TwoView(D1, bounds), matrix(8, seed=9)
    exact = gauge.polar(G).value
    alone = max(bounds[0] * np.linalg.norm(G[:, :D1], 2), bounds[1] * np.linalg.norm(G[:, D1:], 2))
    for level in (
        1.1 * exact,
        exact,
        1.01 * alone,
    ):  # zero may be optimal at these, as far as one view can tell
        assert gauge.polar_near(G, level).value == pytest.approx(exact, rel=1e-12)
    assert exact < gauge.polar_near(G, 0.9 * alone).value <= 2 * exact
