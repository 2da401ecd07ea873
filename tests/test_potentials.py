"""Laws of potentials: transfer, conjugate and divergence belong together."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

from catalogue import POTENTIALS, cases, rng
from regfactor.losses.potentials import (
    BinomialEntropy,
    Burg,
    Cube,
    Dual,
    Entropy,
    Exp,
    Identity,
    MultinomialEntropy,
    RelaxedSigmoid,
    Sigmoid,
    Softmax,
)
from regfactor.testing.draws import draw_potential, is_rowwise
from regfactor.testing.laws import frozen

every_potential = pytest.mark.parametrize("potential", cases(POTENTIALS))


def total(potential, values):
    return values.sum(axis=-1) if is_rowwise(potential) else values


@every_potential
def test_transfer_is_the_derivative_of_the_value(potential):
    x = draw_potential(potential)
    h = 1e-6
    for j in range(x.shape[1]):
        move = np.zeros(x.shape[1])
        move[j] = h
        if isinstance(
            potential, MultinomialEntropy
        ):  # its points are rows of the simplex: move along it
            move[-1] -= h
            expected = potential.transfer(x)[:, j] - potential.transfer(x)[:, -1]
        else:
            expected = potential.transfer(x)[:, j]
        slope = (potential.value(x + move) - potential.value(x - move)).sum(axis=-1) / (2 * h)
        np.testing.assert_allclose(expected, slope, rtol=1e-6, atol=2e-8)


@pytest.mark.parametrize("potential", cases(POTENTIALS, without=("multinomial_entropy",)))
def test_hessian_is_the_derivative_of_the_transfer(potential):
    x = draw_potential(potential)
    for j in range(x.shape[1]):
        move = np.zeros(x.shape[1])
        move[j] = 1e-6
        slope = (potential.transfer(x + move)[:, j] - potential.transfer(x - move)[:, j]) / 2e-6
        np.testing.assert_allclose(potential.hessian(x)[:, j], slope, rtol=1e-6, atol=2e-8)


@every_potential
def test_inverse_inverts_the_transfer(potential):
    x = draw_potential(potential)
    y = potential.transfer(x)
    back = potential.inverse(y)
    if isinstance(potential, Softmax):  # flat along constant rows: known up to the last coordinate
        x = x - x[:, -1:]
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(potential.transfer(back), y, rtol=1e-9, atol=1e-9)


@every_potential
def test_domain_and_range_hold_their_points(potential):
    x = draw_potential(potential)
    assert potential.domain.contains(x).all()
    assert potential.range.contains(potential.transfer(x)).all()


@every_potential
def test_fenchel_young_is_an_equality_at_the_transfer(potential):
    x = draw_potential(potential)
    y = potential.transfer(x)
    gap = (
        total(potential, potential.value(x))
        + total(potential, potential.conjugate(y))
        - total(potential, x * y)
    )
    np.testing.assert_allclose(gap, 0, atol=1e-11)


@every_potential
def test_fenchel_young_is_an_inequality_elsewhere(potential):
    x = draw_potential(potential)
    y = potential.transfer(draw_potential(potential, seed=5))
    gap = (
        total(potential, potential.value(x))
        + total(potential, potential.conjugate(y))
        - total(potential, x * y)
    )
    assert gap.min() >= -1e-11


@every_potential
def test_divergence_is_its_definition_summed_over_a_row(potential):
    x, m = draw_potential(potential, seed=1), draw_potential(potential, seed=2)
    terms = potential.value(x) - potential.value(m) - potential.transfer(m) * (x - m)
    np.testing.assert_allclose(
        potential.divergence(x, m), terms.sum(axis=-1), rtol=1e-10, atol=1e-11
    )
    assert potential.divergence(x, m).min() >= 0
    np.testing.assert_allclose(potential.divergence(x, x), 0, atol=1e-12)


@every_potential
def test_divergences_of_dual_potentials_swap_their_arguments(potential):
    a, b = draw_potential(potential, seed=3), draw_potential(potential, seed=4)
    there = potential.divergence(a, b)
    back = Dual(potential).divergence(potential.transfer(b), potential.transfer(a))
    np.testing.assert_allclose(there, back, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("potential", cases(POTENTIALS, without=("softmax", "multinomial_entropy")))
def test_the_dual_swaps_value_and_conjugate(potential):
    x = draw_potential(potential)
    y = potential.transfer(x)
    dual = Dual(potential)
    np.testing.assert_allclose(dual.value(y), potential.conjugate(y))
    np.testing.assert_allclose(dual.conjugate(x), potential.value(x))
    np.testing.assert_allclose(dual.transfer(y), potential.inverse(y))
    np.testing.assert_allclose(dual.inverse(x), y)
    np.testing.assert_allclose(dual.hessian(y) * potential.hessian(x), 1, rtol=1e-9)
    assert (dual.domain, dual.range) == (potential.range, potential.domain)


@pytest.mark.parametrize(
    ("potential", "x", "m", "value"),
    [
        (Entropy(), 0.0, 2.0, 2.0),
        (BinomialEntropy(1.0), 0.0, 0.25, -np.log(0.75)),
        (BinomialEntropy(1.0), 1.0, 0.25, -np.log(0.25)),
        (BinomialEntropy(3.0), 3.0, 1.0, 3 * np.log(3)),
        (Entropy(), 2.0, 1.0, 2 * np.log(2) - 1),
        (Burg(1.0), 2.0, 1.0, 1 - np.log(2)),
        (Sigmoid(), 0.0, 1.5, np.log(2) - np.logaddexp(0, 1.5) + 1.5 * expit(1.5)),
        (Cube(), 0.0, 1.0, 0.75),
        (Exp(), 1.0, 0.0, np.e - 2),
        (Identity(), 3.0, 1.0, 2.0),
    ],
    ids=str,
)
def test_divergences_by_hand_and_at_the_boundary(potential, x, m, value):
    assert potential.divergence(np.array([x]), np.array([m])) == pytest.approx(value, abs=1e-12)


def test_a_corner_of_the_simplex_is_a_legal_first_argument():
    corner, m = np.array([[1.0, 0.0, 0.0]]), np.array([[0.5, 0.3, 0.2]])
    assert MultinomialEntropy().divergence(corner, m)[0] == pytest.approx(np.log(2))


def test_boundary_values_are_numbers():
    assert Entropy().value(np.array([0.0]))[0] == 0.0
    np.testing.assert_allclose(BinomialEntropy(2.0).value(np.array([0.0, 2.0])), 0.0, atol=1e-15)
    np.testing.assert_allclose(Sigmoid().conjugate(np.array([0.0, 1.0])), 0.0, atol=1e-15)
    assert Exp().conjugate(np.array([0.0]))[0] == 0.0


def test_softmax_divergence_does_not_see_shifts_of_rows():
    x, m = draw_potential(Softmax(), seed=6), draw_potential(Softmax(), seed=7)
    shift = rng(8).normal(scale=3.0, size=(len(x), 1))
    np.testing.assert_allclose(
        Softmax().divergence(x + shift, m - shift), Softmax().divergence(x, m), atol=1e-11
    )


@pytest.mark.parametrize("x", [-800.0, 800.0])
@pytest.mark.parametrize(
    "potential", [Identity(), Sigmoid(), Cube(), RelaxedSigmoid(), Softmax()], ids=str
)
def test_extreme_arguments_give_numbers(potential, x):
    at = np.array([[x, 0.0]])
    for method in (potential.value, potential.transfer, potential.hessian):
        assert np.isfinite(method(at)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("y", [-800.0, -90.0, 90.0, 800.0])
def test_inverses_that_grow_exponentially_give_numbers(y, dtype):
    at = np.array([[y, 0.0]], dtype)
    for potential in (RelaxedSigmoid(), Entropy()):
        for method in (potential.inverse, potential.conjugate):
            assert method(at).dtype == dtype and np.isfinite(method(at)).all()


@every_potential
@pytest.mark.parametrize("method", ["value", "transfer", "hessian", "conjugate", "inverse"])
def test_nothing_is_mutated_and_float32_stays(potential, method):
    x = draw_potential(potential)
    at = x if method in {"value", "transfer", "hessian"} else potential.transfer(x)
    assert getattr(potential, method)(frozen(at)).dtype == np.float64
    assert getattr(potential, method)(frozen(at.astype(np.float32))).dtype == np.float32


@every_potential
def test_potentials_are_cloned_by_their_parameters(potential):
    assert clone(potential) == potential
    assert clone(potential) is not potential


@pytest.mark.parametrize(
    "make", [lambda: Burg(0.0), lambda: RelaxedSigmoid(-1.0), lambda: BinomialEntropy(0.0)]
)
def test_illegal_parameters_are_refused(make):
    with pytest.raises(ValueError):
        make()
