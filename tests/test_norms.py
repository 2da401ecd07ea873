"""Laws of vector norms: value, dual, support and prox belong together."""

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import NORMS, SHAPE, cases, frozen, rng
from regfactor.norms import L1, L2, Blocks, LInf, Lp, as_norm

every_norm = pytest.mark.parametrize("norm", cases(NORMS))
PLAIN = {name: norm for name, norm in NORMS.items() if not isinstance(norm, Blocks)}


def vectors(seed=0, rows=30):
    """Random rows, with zeros, a zero row, ties and a single nonzero among them."""
    V = rng(seed).normal(size=(rows, SHAPE[1]))
    V[0] = 0
    V[1] = [2.0, -2.0, 2.0, 0.0, 2.0]
    V[2] = [0.0, 0.0, -3.0, 0.0, 0.0]
    V[3, :2] = 0
    V[4, 2:] = 0
    return V


def inner(A, B):
    return (A * B).sum(axis=-1)


@every_norm
def test_a_norm_is_homogeneous_and_subadditive(norm):
    V, W = vectors(1), vectors(2)[::-1]
    np.testing.assert_allclose(norm.value(-2.5 * V), 2.5 * norm.value(V), rtol=1e-12)
    assert (norm.value(V + W) <= norm.value(V) + norm.value(W) + 1e-12).all()
    assert norm.value(np.zeros(SHAPE[1])) == 0
    assert (norm.value(V[1:]) > 0).all()


@every_norm
def test_the_dual_bounds_every_pairing(norm):
    V, G = vectors(3), vectors(4)
    pairings = G @ V.T
    assert (pairings <= norm.dual(G)[:, None] * norm.value(V)[None, :] + 1e-12).all()


@every_norm
def test_the_support_attains_the_dual(norm):
    G = vectors(5)
    U = norm.support(G)
    np.testing.assert_allclose(inner(G, U), norm.dual(G), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(norm.value(U)[1:], 1, rtol=1e-10)
    assert not U[0].any()


@every_norm
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_value_dual_and_support_survive_extreme_scales(norm, scale):
    G = vectors(6)
    np.testing.assert_allclose(norm.value(scale * G), scale * norm.value(G), rtol=1e-9)
    np.testing.assert_allclose(norm.dual(scale * G), scale * norm.dual(G), rtol=1e-9)
    np.testing.assert_allclose(norm.support(scale * G), norm.support(G), rtol=1e-9, atol=1e-9)


@every_norm
@pytest.mark.parametrize("t", [1e-3, 0.4, 1.7, 100.0])
def test_prox_satisfies_its_optimality_pair(norm, t):
    W = vectors(7)
    P = norm.prox(W, t)
    assert (norm.dual(W - P) <= t * (1 + 1e-9)).all()
    np.testing.assert_allclose(inner(W - P, P), t * norm.value(P), atol=1e-9)


@every_norm
def test_prox_is_zero_exactly_where_the_dual_is_small(norm):
    for row in vectors(8)[1:3]:
        edge = norm.dual(row)
        np.testing.assert_allclose(norm.prox(row, 1.000001 * edge), 0, atol=1e-12)
        assert norm.value(norm.prox(row, 0.99 * edge)) > 0


@every_norm
def test_prox_without_strength_changes_nothing(norm):
    W = vectors(9)
    np.testing.assert_allclose(norm.prox(W, 0.0), W, atol=1e-14)


@every_norm
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_prox_scales_with_its_argument(norm, scale):
    W = vectors(10)
    np.testing.assert_allclose(
        norm.prox(scale * W, scale * 0.7) / scale, norm.prox(W, 0.7), atol=1e-7
    )


@every_norm
def test_norms_act_on_the_last_axis(norm):
    V = vectors(11)
    stack = V.reshape(5, 6, -1)
    np.testing.assert_allclose(norm.value(stack), norm.value(V).reshape(5, 6))
    np.testing.assert_allclose(norm.dual(stack), norm.dual(V).reshape(5, 6))
    np.testing.assert_allclose(norm.support(stack), norm.support(V).reshape(stack.shape))
    np.testing.assert_allclose(
        norm.prox(stack, 0.5), norm.prox(V, 0.5).reshape(stack.shape), atol=1e-9
    )
    row_by_row = np.array([norm.prox(row, 0.5) for row in V[:2]])
    np.testing.assert_allclose(norm.prox(V, 0.5)[:2], row_by_row, atol=1e-9)


@every_norm
def test_nothing_is_mutated_and_float32_stays(norm):
    V = vectors(12)
    for array, dtype in ((frozen(V), np.float64), (frozen(V.astype(np.float32)), np.float32)):
        assert norm.value(array).dtype == dtype
        assert norm.dual(array).dtype == dtype
        assert norm.support(array).dtype == dtype
        assert norm.prox(array, 0.5).dtype == dtype


@pytest.mark.parametrize("norm", cases(PLAIN))
def test_p_norms_agree_with_numpy(norm):
    V = vectors(13)
    conjugate = np.inf if norm.p == 1 else 1.0 if norm.p == np.inf else norm.p / (norm.p - 1)
    np.testing.assert_allclose(norm.value(V), np.linalg.norm(V, norm.p, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(norm.dual(V), np.linalg.norm(V, conjugate, axis=-1), rtol=1e-12)


def test_the_exponent_is_a_property():
    assert [L1().p, L2().p, LInf().p, Lp(3.0).p] == [1, 2, np.inf, 3]


def test_lp_meets_the_named_norms():
    W = vectors(14)
    np.testing.assert_allclose(Lp(2.0).prox(W, 0.6), L2().prox(W, 0.6), atol=1e-9)
    np.testing.assert_allclose(Lp(2.0).support(W), L2().support(W), atol=1e-12)


def test_blocks_are_the_larger_of_two_scaled_norms():
    V = vectors(15)
    norm = Blocks(2, L1(), LInf(), (0.5, 2.0))
    first, second = np.abs(V[:, :2]).sum(axis=1), np.abs(V[:, 2:]).max(axis=1)
    np.testing.assert_allclose(norm.value(V), np.maximum(first / 0.5, second / 2.0))
    dual = 0.5 * np.abs(V[:, :2]).max(axis=1) + 2.0 * np.abs(V[:, 2:]).sum(axis=1)
    np.testing.assert_allclose(norm.dual(V), dual)


def test_prox_by_hand():
    np.testing.assert_allclose(L1().prox(np.array([3.0, -0.5]), 1.0), [2.0, 0.0])
    np.testing.assert_allclose(L2().prox(np.array([3.0, 4.0]), 1.0), [2.4, 3.2])
    np.testing.assert_allclose(LInf().prox(np.array([3.0, 1.0]), 1.0), [2.0, 1.0])
    np.testing.assert_allclose(LInf().prox(np.array([3.0, 2.5]), 1.0), [2.25, 2.25])
    # both blocks shrink together: max(|a|, |b|) of one-dimensional blocks is the l-infinity norm
    np.testing.assert_allclose(Blocks(1).prox(np.array([3.0, 2.5]), 1.0), [2.25, 2.25], atol=1e-10)


@pytest.mark.parametrize(
    ("given", "norm"), [(1, L1()), (2, L2()), (np.inf, LInf()), (3.0, Lp(3.0)), (L2(), L2())]
)
def test_numbers_name_norms(given, norm):
    assert as_norm(given) == norm


@every_norm
def test_norms_are_cloned_by_their_parameters(norm):
    assert clone(norm) == norm
    assert clone(norm) is not norm


@pytest.mark.parametrize(
    "make",
    [lambda: Lp(0.5), lambda: Lp(np.nan), lambda: Blocks(2, bounds=(0.0, 1.0)), lambda: Blocks(-1)],
)
def test_illegal_parameters_are_refused(make):
    with pytest.raises(ValueError):
        make()
