"""Laws of penalties on one factor: value, prox, gradient, and the flags that solvers read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array
from regfactor.penalties.factor import Penalty, Proximable, Smooth
from regfactor.penalties.sets import Constraint
from regfactor.testing.laws import (
    Law,
    check_laws,
    frozen,
    is_cloned,
    require,
    require_at_most,
    require_close,
    require_part,
    rng,
)

STEP = 1e-6
STRENGTHS = (0.05, 0.7, 5.0)
OUTSIDE = 1e-3  # distance of a row from a set, beyond the tolerance of constraints


@dataclass(frozen=True)
class PenaltyCase:
    """A penalty and the shape of the factors on which it is tried."""

    penalty: Penalty
    shape: tuple[int, int] = (5, 5)

    def factor(self, seed: int) -> Array:
        """Return a factor with a row of zeros."""
        A = rng(seed).normal(scale=1.5, size=self.shape)
        A[1] = 0
        return A

    @property
    def takes_single_rows(self) -> bool:
        """Whether a row may be scored alone: the penalty is a sum over rows, all alike."""
        try:
            self.penalty.check((1, self.shape[1]))
        except ValueError:
            return False
        return self.penalty.rowwise

    def price(self, A: Array, at: Array, t: float) -> float:
        """Return what the prox minimizes over `at`."""
        return self.penalty.value(at) + float(np.square(at - A).sum()) / (2 * t)


def penalty_fits(case: PenaltyCase) -> None:
    """`check` accepts a factor of the shape of the trial."""
    case.penalty.check(case.shape)


def value_is_the_sum_of_rows(case: PenaltyCase) -> None:
    """`value` is the sum of `rows`, unless `rowwise` is false."""
    penalty = case.penalty
    if not penalty.rowwise:
        return
    A = case.factor(0)
    rows = penalty.rows(A)
    require(
        rows.shape == (len(A),), f"rows gives the shape {rows.shape}, expected one number a row"
    )
    require_close(penalty.value(A), rows.sum(), "value", 1e-9, 1e-12)
    if not case.takes_single_rows:
        return
    alone = np.concatenate([penalty.rows(A[i : i + 1]) for i in range(len(A))])
    require_close(rows, alone, "rows together and alone", 1e-9, 1e-12, row=A)


def separable_is_a_sum_over_entries(case: PenaltyCase) -> None:
    """With `separable`, the value is a sum over entries."""
    penalty = case.penalty
    if not penalty.separable:
        return
    A = np.abs(case.factor(1))
    some = rng(2).random(A.shape) < 0.5
    parts = penalty.value(A * some) + penalty.value(A * ~some)
    whole = penalty.value(A) + penalty.value(np.zeros_like(A))
    require_close(parts, whole, "value of the entries in two parts", 1e-9, 1e-12)


def ridge_is_a_weighted_square(case: PenaltyCase) -> None:
    """`ridge`, where it is given, holds r of sum_j r_j a_ij^2 / 2."""
    penalty = case.penalty
    if penalty.ridge is None:
        return
    A = case.factor(1)
    expected = (np.asarray(penalty.ridge) * A**2).sum(axis=1) / 2
    require_close(penalty.rows(A), expected, "rows", 1e-7, 0, row=A)


def negative_entries_are_refused(case: PenaltyCase) -> None:
    """With `non_negative`, a factor with negative entries has an infinite value."""
    penalty = case.penalty
    if not penalty.non_negative:
        return
    value = penalty.value(-1 - np.abs(case.factor(3)))
    require(value == np.inf, f"the value of negative numbers is {value}")


def prox_is_minimal(case: PenaltyCase) -> None:
    """`prox` minimizes t penalty(B) + |B - A|^2 / 2: no point nearby is better."""
    if not isinstance(case.penalty, Proximable):
        return
    A = case.factor(1)
    random = rng(2)
    for t in STRENGTHS:
        P = case.penalty.prox(A, t)
        best = case.price(A, P, t)
        require(bool(np.isfinite(best)), f"the value at the prox is not finite, t = {t}")
        others = []
        for scale in (1e-3, 1e-2, 0.3):
            others += [P + scale * random.normal(size=A.shape) for _ in range(20)]
        others += [case.penalty.prox(other, t) for other in others]
        others += [(1 - share) * P + share * A for share in (0.01, 0.1, 1.0)]
        least = min(case.price(A, other, t) for other in others)
        require_at_most(best, least + 1e-10, f"t penalty + distance^2 / 2 at the prox, t = {t}")


def prox_is_firmly_nonexpansive(case: PenaltyCase) -> None:
    """|P - Q|^2 <= <P - Q, A - B> for the proxes of A and B, unless `convex` is false."""
    penalty = case.penalty
    if not isinstance(penalty, Proximable) or not penalty.convex:
        return
    A = case.factor(3)
    B = case.factor(4)
    for t in STRENGTHS:
        P = penalty.prox(A, t)
        Q = penalty.prox(B, t)
        moved = float(np.square(P - Q).sum())
        require_at_most(moved, float(((P - Q) * (A - B)).sum()) + 1e-9, f"|P - Q|^2, t = {t}")


def prox_of_a_set_is_its_projection(case: PenaltyCase) -> None:
    """Of a constraint, `prox` is the projection, whatever t, and rows outside are infinite."""
    penalty = case.penalty
    if not isinstance(penalty, Constraint):
        return
    A = case.factor(5)
    P = penalty.prox(A, 0.1)
    require(penalty.value(P) == 0, f"the value of a projection is {penalty.value(P)}")
    require_close(penalty.prox(A, 7.0), P, "prox of another strength", 0, 1e-9)
    require_close(penalty.prox(P, 1.0), P, "prox of a point of the set", 0, 1e-9)
    outside = np.abs(A - P).max(axis=1) > OUTSIDE
    infinite = np.isinf(penalty.rows(A))
    require_close(infinite[outside], outside[outside], "rows outside are infinite")


def gradient_is_the_slope(case: PenaltyCase) -> None:
    """Of a Smooth penalty, `gradient` is the slope of `value`."""
    penalty = case.penalty
    if not isinstance(penalty, Smooth):
        return
    A = case.factor(6)
    slope = np.empty_like(A)
    for index in np.ndindex(A.shape):
        move = np.zeros_like(A)
        move[index] = STEP
        above = penalty.value(A + move)
        below = penalty.value(A - move)
        slope[index] = (above - below) / (2 * STEP)
    require_close(penalty.gradient(A), slope, "gradient", 1e-7, 1e-7, entry=A)


def curvature_bounds_the_gradient(case: PenaltyCase) -> None:
    """Of a Smooth penalty, `curvature` bounds the change of `gradient`."""
    penalty = case.penalty
    if not isinstance(penalty, Smooth):
        return
    for seed in range(10, 20):
        A = case.factor(seed)
        B = case.factor(seed + 10)
        change = np.linalg.norm(penalty.gradient(A) - penalty.gradient(B))
        limit = penalty.curvature * np.linalg.norm(A - B)
        require_at_most(change, limit * (1 + 1e-9) + 1e-12, "change of the gradient")


def prox_balances_the_gradient(case: PenaltyCase) -> None:
    """Of a Smooth penalty with a prox, t gradient(P) = A - P."""
    penalty = case.penalty
    if not isinstance(penalty, Smooth) or not isinstance(penalty, Proximable):
        return
    A = case.factor(7)
    for t in STRENGTHS:
        P = penalty.prox(A, t)
        require_close(penalty.gradient(P), (A - P) / t, f"gradient, t = {t}", 1e-7, 1e-7)


def prox_takes_strengths_of_rows(case: PenaltyCase) -> None:
    """`prox` takes one strength for each row, unless `rowwise` is false."""
    penalty = case.penalty
    if not isinstance(penalty, Proximable) or not case.takes_single_rows:
        return
    A = case.factor(11)
    t = np.linspace(0.1, 2.0, len(A))
    alone = np.vstack([penalty.prox(A[i : i + 1], float(t[i])) for i in range(len(A))])
    require_close(penalty.prox(A, t), alone, "prox of all rows", 0, 1e-12)


def nothing_is_mutated(case: PenaltyCase) -> None:
    """No method writes to its arguments, and float32 stays float32."""
    penalty = case.penalty
    A = case.factor(8)
    penalty.value(frozen(A))
    if not isinstance(penalty, Proximable):
        return
    for dtype in (np.float64, np.float32):
        found = penalty.prox(frozen(A.astype(dtype)), 0.5).dtype
        require(found == dtype, f"prox gives {found} of {np.dtype(dtype)}")


def penalty_is_cloned(case: PenaltyCase) -> None:
    """`clone` gives an equal penalty."""
    is_cloned(case.penalty)


LAWS: tuple[Law, ...] = (
    penalty_fits,
    value_is_the_sum_of_rows,
    separable_is_a_sum_over_entries,
    ridge_is_a_weighted_square,
    negative_entries_are_refused,
    prox_is_minimal,
    prox_is_firmly_nonexpansive,
    prox_of_a_set_is_its_projection,
    gradient_is_the_slope,
    curvature_bounds_the_gradient,
    prox_balances_the_gradient,
    prox_takes_strengths_of_rows,
    nothing_is_mutated,
    penalty_is_cloned,
)


def check_penalty(penalty: Penalty, shape: tuple[int, int] = (5, 5)) -> None:
    """Raise BrokenLaw unless a penalty on one factor keeps the laws that solvers rely on.

    Parameters
    ----------
    penalty : Penalty
        A `Proximable` one is tried by its prox, a `Smooth` one by its gradient, a `Constraint` by
        its projection.
    shape : tuple of int, default=(5, 5)
        Rows and columns of the factors on which it is tried, at least two of each.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and the first place where each fails.

    Examples
    --------
    >>> from regfactor.penalties import GroupLasso
    >>> from regfactor.testing import check_penalty
    >>> check_penalty(GroupLasso(groups=((0, 1), (2, 3))), shape=(6, 4))
    """
    require_part(penalty, Penalty, "check_penalty")
    check_laws(penalty, LAWS, PenaltyCase(penalty, shape))
