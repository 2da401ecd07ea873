"""Laws of penalties on one factor: values, proxes, gradients and sets."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from catalogue import PENALTIES, SHAPE, cases, frozen, rng
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

SIZE = (SHAPE[1], SHAPE[1])
SETS = {
    name: PENALTIES[name]
    for name in PENALTIES
    if name.startswith(("non_negative", "simplex", "one_hot", "unit"))
}
SETS |= {"cardinality": PENALTIES["cardinality"]}
NONCONVEX = [name for name in PENALTIES if not PENALTIES[name].convex]
PROXIMABLE = {
    name: penalty for name, penalty in PENALTIES.items() if isinstance(penalty, Proximable)
}
SMOOTH = {name: penalty for name, penalty in PENALTIES.items() if isinstance(penalty, Smooth)}
every_penalty = pytest.mark.parametrize("penalty", cases(PENALTIES))
every_proximable_penalty = pytest.mark.parametrize("penalty", cases(PROXIMABLE))
every_strength = pytest.mark.parametrize("t", [0.05, 0.7, 5.0])


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


@every_proximable_penalty
@every_strength
def test_prox_beats_its_neighbors(penalty, t):
    A = factor(1)
    P = penalty.prox(A, t)
    best = price(penalty, A, P, t)
    assert np.isfinite(best)
    random = rng(2)
    others = [
        P + scale * random.normal(size=SIZE) for scale in (1e-3, 1e-2, 0.3) for _ in range(20)
    ]
    others += [penalty.prox(other, t) for other in others] + [
        (1 - s) * P + s * A for s in (0.01, 0.1, 1.0)
    ]
    assert best <= min(price(penalty, A, other, t) for other in others) + 1e-10


@pytest.mark.parametrize("penalty", cases(PROXIMABLE, without=NONCONVEX))
@every_strength
def test_prox_is_firmly_nonexpansive(penalty, t):
    A, B = factor(3), factor(4)
    P, Q = penalty.prox(A, t), penalty.prox(B, t)
    assert np.sum((P - Q) ** 2) <= ((P - Q) * (A - B)).sum() + 1e-9


@pytest.mark.parametrize("penalty", cases(SETS))
def test_the_prox_of_a_set_is_its_projection(penalty):
    A = factor(5)
    P = penalty.prox(A, 0.1)
    assert penalty.value(P) == 0
    np.testing.assert_allclose(penalty.prox(A, 7.0), P, atol=1e-9)
    np.testing.assert_allclose(penalty.prox(P, 1.0), P, atol=1e-9)
    assert penalty.value(P - 1.0) == np.inf or penalty.value(P + 3.0) == np.inf


@pytest.mark.parametrize("penalty", cases(SMOOTH))
def test_gradient_is_the_slope_of_the_value(penalty):
    A = factor(6)
    slope = np.empty(SIZE)
    for index in np.ndindex(SIZE):
        move = np.zeros(SIZE)
        move[index] = 1e-6
        slope[index] = (penalty.value(A + move) - penalty.value(A - move)) / 2e-6
    np.testing.assert_allclose(penalty.gradient(A), slope, atol=1e-7)


@pytest.mark.parametrize("penalty", cases(SMOOTH))
@every_strength
def test_the_prox_of_a_smooth_penalty_balances_its_gradient(penalty, t):
    A = factor(7)
    P = penalty.prox(A, t)
    np.testing.assert_allclose(penalty.gradient(P), (A - P) / t, atol=1e-7)


@every_proximable_penalty
def test_nothing_is_mutated_and_float32_stays(penalty):
    A = factor(8)
    penalty.value(frozen(A))
    assert penalty.prox(frozen(A), 0.5).dtype == np.float64
    assert penalty.prox(frozen(A.astype(np.float32)), 0.5).dtype == np.float32


@every_penalty
def test_penalties_are_cloned_by_their_parameters(penalty):
    A = np.eye(SIZE[0]) / 2
    assert clone(penalty) is not penalty
    assert clone(penalty).value(A) == penalty.value(A)


def test_the_named_abilities_are_there():
    assert set(PENALTIES) - set(PROXIMABLE) == {"atom_norms_l1", "atom_norms_l2"}
    assert {"free", "squared_l2"} <= set(SMOOTH)


@pytest.mark.parametrize("penalty", cases(PROXIMABLE, without=("graph_rows", "component_parts")))
def test_one_strength_per_row_acts_row_by_row(penalty):
    A, t = factor(11), np.linspace(0.1, 2.0, SIZE[0])
    row_by_row = np.vstack([penalty.prox(A[i : i + 1], float(t[i])) for i in range(SIZE[0])])
    np.testing.assert_allclose(penalty.prox(A, t), row_by_row, atol=1e-12)


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
