"""Laws of vector norms: value, dual, support and prox belong together."""

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import NORMS, SHAPE, cases, rng
from regfactor.norms import L1, L2, Blocks, LInf, Lp, as_norm
from regfactor.testing import norms as laws_of_norms

every_norm = pytest.mark.parametrize("norm", cases(NORMS))


@pytest.mark.parametrize("law", laws_of_norms.LAWS, ids=lambda law: law.__name__)
@every_norm
def test_law(norm, law):
    law(laws_of_norms.NormCase(norm))


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
