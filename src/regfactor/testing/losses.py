"""Laws of losses: derivatives, conjugate, feasible points, prox, convexity and precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses.base import Loss, in_precision
from regfactor.testing import draws
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

STEP = 1e-6  # of finite differences
SHAPE = (40, 4)
MIN_CURVATURE = 1e-3  # below which a gradient does not determine its point


@dataclass(frozen=True)
class LossCase:
    """A loss and the data on which it is tried: drawn from its domain, or from given data."""

    loss: Loss
    data: Any = None

    def pair(self, seed: int, shape: draws.Shape = SHAPE) -> tuple[Array, Array]:
        """Return legal (z, x)."""
        return self.link(seed, shape), self.x(seed + 1, shape)

    def x(self, seed: int, shape: draws.Shape = SHAPE) -> Array:
        """Return legal data."""
        if self.data is None:
            return draws.draw_data(self.loss, rng(seed), shape)
        return draws.resampled(self.data, rng(seed), shape, self.loss.rowwise)

    def link(self, seed: int, shape: draws.Shape = SHAPE) -> Array:
        """Return legal predictors."""
        return draws.draw_link(self.loss, rng(seed), shape)

    def total(self, values: Array) -> Array:
        """Return values per entry, or per row where the loss couples a row."""
        if self.loss.rowwise:
            return np.asarray(values.sum(axis=-1))
        return values

    def slack(self, z: Array, y: Array, x: Array) -> Array:
        """Return f(z; x) + f*(y; x) - z y, never negative (Fenchel and Young)."""
        values = self.total(self.loss.value(z, x))
        conjugates = self.total(self.loss.conjugate(y, x))
        return np.asarray(values + conjugates - self.total(z * y))


def differences(function: Callable[[Array], Array], z: Array) -> Array:
    """Return central differences of row sums of a function, one column of z at a time."""
    slope = np.empty_like(z)
    for j in range(z.shape[1]):
        move = np.zeros(z.shape[1])
        move[j] = STEP
        change = function(z + move) - function(z - move)
        slope[:, j] = change.sum(axis=-1) / (2 * STEP)
    return slope


def data_are_legal(case: LossCase) -> None:
    """Data are in `domain` (`legal`), and predictors in `link_domain`."""
    loss = case.loss
    z, x = case.pair(0)
    require(
        bool(np.all(loss.legal(x))),
        "`legal` refuses the data drawn from `domain`; give data that it accepts",
    )
    require(bool(np.all(loss.link_domain.contains(z))), "predictors outside `link_domain`")


def gradient_is_the_slope(case: LossCase) -> None:
    """`gradient` is the slope of `value`."""
    loss = case.loss
    z, x = case.pair(0)
    slope = differences(lambda at: loss.value(at, x), z)
    found = loss.gradient(z, x)
    require_close(found, slope, "gradient", 1e-6, 2e-8, z=z, x=x)


def hessian_is_the_slope(case: LossCase) -> None:
    """`hessian` is the slope of `gradient`."""
    loss = case.loss
    z, x = case.pair(0)
    slope = np.empty_like(z)
    for j in range(z.shape[1]):
        move = np.zeros(z.shape[1])
        move[j] = STEP
        above = loss.gradient(z + move, x)[:, j]
        below = loss.gradient(z - move, x)[:, j]
        slope[:, j] = (above - below) / (2 * STEP)
    found = loss.hessian(z, x)
    require_close(found, slope, "hessian", 1e-6, 2e-8, z=z, x=x)


def expansion_agrees(case: LossCase) -> None:
    """`expand` writes value, gradient and hessian."""
    loss = case.loss
    z, x = case.pair(1)
    written = [np.empty_like(z) for _ in range(3)]
    loss.expand(z, x, *written)
    for name, found in zip(("value", "gradient", "hessian"), written, strict=True):
        expected = getattr(loss, name)(z, x)
        require_close(found, expected, f"{name} by expand", 1e-9, 1e-12, z=z, x=x)


def conjugate_is_attained(case: LossCase) -> None:
    """f(z) + f*(y) = z y at y = gradient(z): `conjugate` belongs to `value`."""
    z, x = case.pair(0)
    y = case.loss.gradient(z, x)
    slack = case.slack(z, y, x)
    rounding = 1e-11 * (1 + np.abs(z * y).max())
    require_close(slack, np.zeros_like(slack), "f + f* - z y", 0, rounding, z=z, y=y, x=x)


def conjugate_bounds(case: LossCase) -> None:
    """f(z) + f*(y) >= z y for other z and y."""
    loss = case.loss
    z, x = case.pair(3)
    there = case.link(17)
    anywhere = loss.feasible(rng(18).normal(scale=3.0, size=z.shape), x)
    for y in (loss.gradient(there, x), anywhere):
        rounding = 1e-10 * (1 + np.abs(z * y).max())
        require_at_most(-case.slack(z, y, x), rounding, "z y - f - f*", z=z, y=y, x=x)


def conjugate_is_infinite_outside(case: LossCase) -> None:
    """`dual_domain` is where `conjugate` is finite."""
    loss = case.loss
    if loss.rowwise:
        return
    x = case.x(1)
    for end, step in zip(loss.dual_domain(x), (-0.01, 0.01), strict=True):
        bound = np.broadcast_to(end, x.shape)
        beyond = np.where(np.isfinite(bound), bound + step, 1000 * step)
        infinite = loss.conjugate(beyond, x) == np.inf
        expected = np.isfinite(bound)
        require_close(infinite, expected, "conjugate is infinite", y=beyond, x=x)


def conjugate_bounds_far_away(case: LossCase) -> None:
    """f(z) + f*(y) >= z y at z = -600 and 600 for y at the ends of `dual_domain`."""
    loss = case.loss
    if loss.rowwise:
        return
    x = case.x(1)
    for far in (-600.0, 600.0):
        z = draws.numbers_like(x, far)
        if not loss.link_domain.contains(z).all():
            continue
        for y in (loss.feasible(z, x), loss.feasible(-z, x)):
            terms = np.stack([loss.value(z, x), loss.conjugate(y, x), -z * y])
            size = np.abs(terms).sum(axis=0)
            require_at_most(-terms.sum(axis=0), 1e-12 * size, "z y - f - f*", z=z, y=y, x=x)


def inverse_gradient_inverts(case: LossCase) -> None:
    """`inverse_gradient` finds a point with the gradient."""
    if not case.loss.smooth:
        return
    z, x = case.pair(5)
    y = case.loss.gradient(z, x)
    back = case.loss.inverse_gradient(y, x)
    require(bool(np.isfinite(back).all()), "inverse_gradient is not finite")
    there = case.loss.gradient(back, x)
    require_close(there, y, "gradient at the point", 0, 1e-9, z=back, x=x)
    if not case.loss.rowwise:  # a row loss is constant along a shift of its row
        curved = case.loss.hessian(z, x) > MIN_CURVATURE
        require_close(back[curved], z[curved], "inverse_gradient", 1e-8, 1e-8)


def feasible_points_have_a_conjugate(case: LossCase) -> None:
    """`feasible` moves any y to a finite `conjugate`, in both precisions."""
    loss = case.loss
    for dtype in (np.float64, np.float32):
        x = in_precision(case.x(8), dtype)
        for scale in (0.1, 1.0, 30.0, 1e6):
            y = loss.feasible(rng(8).normal(scale=scale, size=x.shape).astype(dtype), x)
            require(y.dtype == dtype, f"feasible gives {y.dtype} of {np.dtype(dtype)}")
            finite = np.isfinite(loss.conjugate(y, x))
            require_close(finite, np.ones_like(finite), "conjugate is finite", y=y, x=x)


def feasible_leaves_feasible_points(case: LossCase) -> None:
    """`feasible` changes neither gradients nor its own results."""
    loss = case.loss
    z, x = case.pair(9)
    moved = loss.feasible(rng(11).normal(scale=4.0, size=x.shape), x)
    for y in (loss.gradient(z, x), moved):
        again = loss.feasible(y, x)
        require_close(again, y, "feasible", 1e-12, 1e-12, y=y, x=x)


def prox_is_optimal(case: LossCase) -> None:
    """`prox` minimizes f(z) + w (z - a)^2 / 2."""
    if not case.loss.proximable:
        return
    x = case.x(12)
    for w in (1e-6, 1e-2, 1.0, 50.0):
        for reach in (1.0, 50.0):
            a = rng(12).uniform(-reach, reach, x.shape)
            a[0] = reach
            a[1] = -reach
            _require_optimal_prox(case, a, w, x)


def prox_takes_weights_of_entries(case: LossCase) -> None:
    """`prox` takes one weight for each entry."""
    loss = case.loss
    if not loss.proximable:
        return
    x = case.x(14)
    a = rng(14).normal(scale=3.0, size=x.shape)
    w = rng(15).uniform(0.01, 10.0, x.shape)
    if loss.rowwise:
        w[:] = w[:, :1]
    _require_optimal_prox(case, a, w, x)
    rows = [slice(i, i + 1) for i in range(len(a))]
    alone = np.concatenate([loss.prox(a[row], w[row], x[row]) for row in rows])
    together = loss.prox(a, w, x)
    require_close(together, alone, "prox of all rows", 1e-9, 1e-9, a=a, x=x)


def _require_optimal_prox(case: LossCase, a: Array, w: Array | float, x: Array) -> None:
    """w (a - p) is a subgradient at p: by Fenchel-Young, also at kinks, and by the gradient."""
    loss = case.loss
    p = loss.prox(a, w, x)
    require(bool(np.isfinite(p).all()), "prox is not finite")
    y = w * (a - p)
    near = loss.feasible(y, x)
    require_close(near, y, "w (a - prox)", 1e-9, 1e-9, w=w, a=a, x=x)
    slack = case.slack(p, near, x)
    size = 1 + np.abs(p * near).max()
    require_close(slack, np.zeros_like(slack), "f + f* - z y", 0, 1e-8 * size, w=w, a=a, x=x)
    if loss.smooth:
        inside = (p > loss.link_domain.low) & (p < loss.link_domain.high)
        gradient = loss.gradient(np.where(inside, p, 1.0), x)
        residual = np.where(inside, gradient - y, 0)
        limit = 1e-8 * (1 + np.abs(y).max())
        require_at_most(np.abs(residual), limit, "f'(prox) + w (prox - a)", w=w, a=a, x=x)


def missing_prox_is_reported(case: LossCase) -> None:
    """Without `proximable`, `prox` raises UnsupportedProblem."""
    loss = case.loss
    if loss.proximable:
        return
    z, x = case.pair(0)
    try:
        loss.prox(z, 1.0, x)
    except UnsupportedProblem:
        return
    require(False, "prox returned a result")


def curvature_bounds_the_hessian(case: LossCase) -> None:
    """0 <= `hessian` <= `curvature`."""
    loss = case.loss
    shape = (400, 3)
    if case.data is not None and loss.rowwise:
        shape = (400, np.shape(case.data)[-1])
    x = case.x(16, shape)
    z = case.link(17, x.shape)
    hessian = loss.hessian(z, x)
    require_at_most(-hessian, 0, "minus the hessian", z=z, x=x)
    require_at_most(hessian, loss.curvature * (1 + 1e-12), "hessian", z=z, x=x)


def value_is_convex(case: LossCase) -> None:
    """`value` is convex in z."""
    loss = case.loss
    z, x = case.pair(19)
    other = case.link(20)
    first = case.total(loss.value(z, x))
    last = case.total(loss.value(other, x))
    for share in (0.2, 0.5, 0.9):
        middle = case.total(loss.value((1 - share) * z + share * other, x))
        chord = (1 - share) * first + share * last
        limit = chord + 1e-12 * (1 + np.abs(chord))
        require_at_most(middle, limit, f"value at a share {share} of the way", z=z, to=other, x=x)


def nothing_is_mutated(case: LossCase) -> None:
    """No method writes to its arguments, and float32 stays float32."""
    loss = case.loss
    z, x = case.pair(21)
    methods = ["value", "gradient", "hessian", "conjugate", "feasible"]
    if loss.smooth:
        methods.append("inverse_gradient")
    if loss.proximable:
        methods.append("prox")
    inside = 0.9 * loss.gradient(z, x)
    for method in methods:
        at_link = method in ("value", "gradient", "hessian", "prox")
        first = np.where(at_link, z, inside)
        weight = [1.5] if method == "prox" else []
        for dtype in (np.float64, np.float32):
            arguments = [frozen(first.astype(dtype)), *weight, frozen(in_precision(x, dtype))]
            found = getattr(loss, method)(*arguments)
            require(found.shape == z.shape, f"{method} gives the shape {found.shape}")
            require(found.dtype == dtype, f"{method} gives {found.dtype} of {np.dtype(dtype)}")


def extreme_links_give_numbers(case: LossCase) -> None:
    """Value, gradient and hessian are never NaN, up to predictors of 800."""
    if not case.loss.unbounded:
        return
    x = case.x(24)
    for far in (-800.0, -40.0, 40.0, 800.0):
        z = draws.numbers_like(x)
        last = 1 if case.loss.rowwise else None  # a row loss gets one extreme among zeros
        z[:, :last] = far
        for name in ("value", "gradient", "hessian"):
            undefined = np.isnan(getattr(case.loss, name)(z, x))
            require(not undefined.any(), f"{name} is NaN at z = {far}")


def conjugate_is_never_undefined(case: LossCase) -> None:
    """`conjugate` is a number or infinity everywhere."""
    x = case.x(26)
    for y in (-1e3, -1.0, 0.0, 1.0, 1e3):
        conjugate = case.loss.conjugate(draws.numbers_like(x, y), x)
        require(not np.isnan(conjugate).any(), f"conjugate is NaN at y = {y}")
        require(bool((conjugate > -np.inf).all()), f"conjugate is -inf at y = {y}")


def loss_is_bounded_below(case: LossCase) -> None:
    """`value` >= -`conjugate`(0), which is finite: the loss is bounded below."""
    loss = case.loss
    z, x = case.pair(27)
    floor = -case.total(loss.conjugate(draws.numbers_like(x), x))
    require(bool(np.isfinite(floor).all()), "conjugate(0) is not finite")
    require_at_most(floor - 1e-12, case.total(loss.value(z, x)), "-conjugate(0)", z=z, x=x)


def loss_is_cloned(case: LossCase) -> None:
    """`clone` gives an equal loss."""
    is_cloned(case.loss)


LAWS: tuple[Law, ...] = (
    data_are_legal,
    gradient_is_the_slope,
    hessian_is_the_slope,
    expansion_agrees,
    conjugate_is_attained,
    conjugate_bounds,
    conjugate_is_infinite_outside,
    conjugate_bounds_far_away,
    inverse_gradient_inverts,
    feasible_points_have_a_conjugate,
    feasible_leaves_feasible_points,
    prox_is_optimal,
    prox_takes_weights_of_entries,
    missing_prox_is_reported,
    curvature_bounds_the_hessian,
    value_is_convex,
    nothing_is_mutated,
    extreme_links_give_numbers,
    conjugate_is_never_undefined,
    loss_is_bounded_below,
    loss_is_cloned,
)


def check_loss(loss: Loss, data: Any = None) -> None:
    """Raise BrokenLaw unless a loss keeps the laws that solvers and certificates rely on.

    Parameters
    ----------
    loss : Loss
        With parameters that are not at the ends of their range.
    data : array-like of shape (n_rows, n_columns), optional
        Data that the loss accepts, from which those of the trials are drawn. By default they are
        real numbers from `loss.domain`; whole numbers or classes have to be given.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and the first place where each fails.

    Examples
    --------
    >>> from regfactor.losses import Huber
    >>> from regfactor.testing import check_loss
    >>> check_loss(Huber(delta=0.8))
    """
    require_part(loss, Loss, "check_loss")
    check_laws(loss, LAWS, LossCase(loss, data))
