"""Laws of penalties on one factor: values, proxes, gradients and sets."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import PENALTIES, SHAPE, cases, rng
from regfactor.core.params import UnsupportedProblem
from regfactor.norms import L2
from regfactor.penalties import (
    L0,
    AtomNorms,
    Cardinality,
    CodeParts,
    ComponentParts,
    Free,
    GraphLaplacian,
    GroupLasso,
    Lasso,
    NonNegative,
    OneHot,
    PowerPenalty,
    Proximable,
    Simplex,
    Smooth,
    SquaredL2,
    Sum,
    UnitBall,
)
from regfactor.testing import penalties as laws_of_penalties

SIZE = (SHAPE[1], SHAPE[1])
PROXIMABLE = {
    name: penalty for name, penalty in PENALTIES.items() if isinstance(penalty, Proximable)
}
every_penalty = pytest.mark.parametrize("penalty", cases(PENALTIES))


@pytest.mark.parametrize("law", laws_of_penalties.LAWS, ids=lambda law: law.__name__)
@every_penalty
def test_law(penalty, law):
    law(laws_of_penalties.PenaltyCase(penalty))


def factor(seed=0):
    A = rng(seed).normal(scale=1.5, size=SIZE)
    A[1] = 0
    return A


def price(penalty, A, at, t):
    """What the prox minimizes over `at`."""
    return penalty.value(at) + np.sum((at - A) ** 2) / (2 * t)


@every_penalty
def test_a_ridge_is_a_weighted_sum_of_squares(penalty):
    A = factor(1)
    costs = [
        (weights * A**2).sum(axis=1) / 2 for weights in (penalty.ridge,) if weights is not None
    ]
    for cost in costs:
        np.testing.assert_allclose(penalty.rows(A), cost)
    squares = isinstance(penalty, Free | SquaredL2) or getattr(penalty, "p", None) == 2
    assert bool(costs) == (
        squares or penalty in (PENALTIES["two_ridges"], PENALTIES["code_ridges"])
    )


@every_penalty
def test_penalties_are_cloned_by_their_parameters(penalty):
    A = np.eye(SIZE[0]) / 2
    assert clone(penalty) is not penalty
    assert clone(penalty).value(A) == penalty.value(A)


def test_the_named_abilities_are_there():
    assert set(PENALTIES) - set(PROXIMABLE) == {"atom_norms_l1", "atom_norms_l2"}
    assert all(isinstance(PENALTIES[name], Smooth) for name in ("free", "squared_l2"))


def test_values_by_hand():
    A = np.array([[3.0, -4.0], [0.0, 1.0]])
    assert SquaredL2().value(A) == 13
    assert Lasso().value(A) == 8
    assert AtomNorms(L2()).value(A) == pytest.approx(3 + np.sqrt(17))
    assert PowerPenalty(2.0, np.array([1.0, 3.0])).value(A) == pytest.approx((9 + 3 * 17) / 2)
    assert PowerPenalty(1.0, np.array([1.0, 3.0])).value(A) == pytest.approx(3 + 3 * 5)
    assert NonNegative().value(A) == np.inf
    assert NonNegative().value(np.abs(A)) == 0
    assert UnitBall(L2()).value(A) == np.inf
    assert UnitBall(L2()).value(A / 5) == 0


def test_projections_by_hand():
    A = np.array([[0.4, 0.9], [-3.0, 2.0], [0.5, 0.5]])
    np.testing.assert_allclose(NonNegative().prox(A, 1.0), [[0.4, 0.9], [0.0, 2.0], [0.5, 0.5]])
    np.testing.assert_allclose(Simplex().prox(A, 1.0), [[0.25, 0.75], [0.0, 1.0], [0.5, 0.5]])
    np.testing.assert_allclose(OneHot().prox(A[:2], 1.0), [[0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(
        UnitBall(L2()).prox(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0), [[0.6, 0.8], [0.3, 0.4]]
    )


def test_one_hot_rows_are_the_nearest_corner():
    A = factor(10)
    corners = np.eye(SIZE[1])
    nearest = corners[np.argmin(((A[:, None, :] - corners[None]) ** 2).sum(axis=-1), axis=1)]
    np.testing.assert_allclose(np.sum((OneHot().prox(A, 1.0) - A) ** 2), np.sum((nearest - A) ** 2))


def test_new_values_by_hand():
    A = np.array([[3.0, -4.0], [0.0, 1.0]])
    assert GroupLasso().value(A) == 6
    assert GroupLasso(((0,), (1,))).value(A) == 8
    assert L0().value(A) == 3
    assert Cardinality(1).value(A) == np.inf
    assert Cardinality(2).value(A) == 0
    L = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert GraphLaplacian(L).value(A) == (49 + 1) / 2
    assert GraphLaplacian(L, axis=0).value(A) == (9 + 25) / 2
    assert Sum((Lasso(), SquaredL2()), (0.5, 2.0)).value(A) == 4 + 26
    assert CodeParts(((1, Lasso()), (1, SquaredL2()))).value(A) == 3 + 17 / 2
    assert ComponentParts(((1, Lasso()), (1, SquaredL2()))).value(A) == 7 + 1 / 2


@pytest.mark.parametrize("name", ["l0", "cardinality", "ridge_cardinality", "weighted_l1_l0"])
def test_proxes_that_are_not_convex_are_the_best_of_all_supports(name):
    penalty = PENALTIES[name]
    A = factor(12)
    A[1] = 0.3
    P = penalty.prox(A, 0.7)
    shorter = np.abs(A) - 0.7 * 0.3 * np.linspace(0.5, 2.0, SIZE[1])
    candidates = [scale * A for scale in np.linspace(0.0, 1.0, 41)]
    candidates.append(np.sign(A) * np.maximum(shorter, 0))
    for i in range(len(A)):
        row = A[i : i + 1]
        best = np.inf
        for support in itertools.product([0.0, 1.0], repeat=SIZE[1]):
            for candidate in candidates:
                at = np.array([support]) * candidate[i]
                best = min(best, price(penalty, row, at, 0.7))
        assert price(penalty, row, P[i : i + 1], 0.7) <= best + 1e-9


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum((Lasso(), Simplex())),
        lambda: Sum((GroupLasso(), UnitBall())),
        lambda: Sum((Lasso(), AtomNorms())),
    ],
)
def test_sums_without_a_prox_name_the_rules(make):
    with pytest.raises(UnsupportedProblem, match="no common prox.*penalties/sums.py"):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum(()), "needs penalties"),
        (lambda: Sum((Lasso(), SquaredL2()), (1.0,)), "2 penalties and 1 weights"),
        (lambda: Sum((Lasso(),), (-1.0,)), "weight > 0"),
        (lambda: GroupLasso(((0, 1), (1, 2))), "different columns"),
        (lambda: Cardinality(0), "count >= 1"),
        (lambda: GraphLaplacian(np.ones((2, 3))), "square"),
        (lambda: GraphLaplacian(np.array([[1.0, 2.0], [0.0, 1.0]])), "symmetric"),
        (lambda: CodeParts(((2, "lasso"),)), "penalty with a prox"),
        (lambda: CodeParts(()), "needs pairs"),
    ],
)
def test_illegal_parts_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make", [lambda: PowerPenalty(0.5, 1.0), lambda: PowerPenalty(2.0, np.array([-1.0]))]
)
def test_illegal_parameters_are_refused(make):
    with pytest.raises(ValueError):
        make()
