"""One factor >= 0 while the other is fixed: coordinate descent on quadratic models.

L(D B) separates over the columns b of B. Around its present value each column has the model

    m(b) = b'H b / 2 - target'b   over   b >= 0,   H = D' diag(f'') D,

which passes over the k coordinates lower, each in closed form (HALS: Cichocki & Phan 2009; for
other losses Hsieh & Dhillon 2011). For the squared loss m is the loss; for KL the step is shortened
to where the loss is sure to fall.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from regfactor.core.linalg import positive_or_one
from regfactor.core.loop import Clock
from regfactor.core.params import Array
from regfactor.engine.kernels import (
    coordinate_passes,
    model_steps,
    products_of_pairs,
    smallest_curvature,
    square_of,
)
from regfactor.losses import KL, Squared
from regfactor.problems import Data
from regfactor.problems.layout import Layout

# over the coordinates of a model: more would cost time before the other factor has its turn
COORDINATE_PASSES = 4
# the same where all columns share one Hessian: passes are then cheap next to the target
SHARED_PASSES = 16
# share of the loss of zero, from which on a difference of large sums has no fewer than 11 digits
SMALLEST_MODEL_LOSS = 1e-4
# of a minimization; five to twenty suffice, unless components are almost dependent
MAX_STEPS = 200
# of a minimization of kl on an array before its models are minimized, which is slower by far
FIRST_STEPS = 5
# entries of a block of regressions: their temporaries stay in the cache
STRETCH = 512
STRETCH_ELEMENTS = 65_536
BLOCK_ELEMENTS = 500_000  # numbers in the Hessians held at once, so that passes stay in the cache
# columns, their H (k x k x columns, or x 1 if all are equal), targets
Equations = Iterator[tuple[slice, Array, Array]]
# share of the way to a predictor of zero that a step may go where the datum is not zero
MAX_SHARE_TO_ZERO = 0.999


@dataclass(frozen=True)
class Step:
    """A step s for every column, the decrease that its gradient predicts, s'H s, and b'H b."""

    step: Array
    promise: Array
    curvature: Array
    scale: Array


@dataclass(frozen=True)
class Side(abc.ABC):
    """A table as one factor sees it: D @ B predicts it, and the columns of B are separate problems.

    `turned`: the columns of B are the codes of a dense table, which is then never transposed in
    memory. Entries are passed around as D @ B holds them.
    """

    data: Data
    D: Array
    turned: bool

    # steps that a minimization takes before its models are minimized
    n_first_steps: ClassVar[int] = 0

    @abc.abstractmethod
    def start(self, B: Array) -> tuple[Side, Array]:
        """Return a side and a B of finite loss from which a minimization can start."""

    @abc.abstractmethod
    def step(self, B: Array, polish: Array) -> Step:
        """Return a step that raises no column's loss, to the model's minimum if polished."""

    def improve(self, B: Array) -> Array:
        """Return a B that is nowhere worse, by passes over one model."""
        step = self.step(B, polish=np.zeros(B.shape[1], bool))
        return np.maximum(B + step.step, 0)

    def loss(self, B: Array) -> float | None:
        """Return L(D B) where the model gives it to full precision, else None."""
        return None

    @property
    def layout(self) -> Layout:
        """The layout of the entries of D @ B."""
        if self.turned:
            return self.data.layout.T
        return self.data.layout

    def predict(self, B: Array) -> Array:
        """D @ B."""
        if self.turned:
            return (B.T @ self.D.T).T
        return self.data.layout.apply(self.D, B)

    def own(self, entries: Array) -> Array:
        """Turn entries between the table's own orientation and that of D @ B."""
        if self.turned:
            return entries.T
        return entries

    def weighted(self, entries: Array) -> Array:
        """Return entries of the table times their weights, zero where missing."""
        w = self.data.terms[0].w
        return self.own(entries if w is None else w * entries)

    def hessians(self, weights: Array) -> Iterator[tuple[slice, Array]]:
        """Yield D' diag(weights_j) D for blocks of columns j."""
        k = self.D.shape[1]
        n = self.layout.shape[1]
        pairs = products_of_pairs(self.D)
        width = max(1, BLOCK_ELEMENTS // (k * k))
        for start in range(0, n, width):
            block = slice(start, min(start + width, n))
            yield block, square_of(self.layout.grams(weights, pairs, block).T, k)


class SquaredSide(Side):
    """sum w (z - x)^2 / 2: the model is the loss, its equations are the normal equations."""

    def start(self, B: Array) -> tuple[Side, Array]:
        return self, B

    def step(self, B: Array, polish: Array) -> Step:
        return lowered(self._equations(), B, polish)

    def improve(self, B: Array) -> Array:
        new = np.empty_like(B)
        for block, H, target in self._equations():
            new[:, block] = coordinate_passes(H, target, B[:, block], n_passes(H))
        return new

    def loss(self, B: Array) -> float | None:
        if not self.data.complete or self.data.dtype != np.float64:
            return None
        x = self.data.terms[0].target
        # |X|^2/2 + <B, H B>/2 - <target, B>, of which nothing is left where the loss is small
        constant = float(np.einsum("ij,ij->", x, x, dtype=np.float64)) / 2
        pull = self._gram @ B / 2 - self._target
        value = constant + float(np.vdot(B, pull))
        if value < SMALLEST_MODEL_LOSS * constant:
            return None
        return value

    def _equations(self) -> Equations:
        target = self._target
        if self.data.complete:
            yield slice(0, target.shape[1]), self._gram[:, :, None], target
            return
        for block, H in self.hessians(self.own(self.data.terms[0].weights)):
            yield block, H, target[:, block]

    @cached_property
    def _target(self) -> Array:
        """D' times the data."""
        return self.layout.adjoint(self.D, self.weighted(self.data.terms[0].target))

    @cached_property
    def _gram(self) -> Array:
        """D'D, the Hessian of every column without weights."""
        return self.D.T @ self.D


class KLSide(Side):
    """sum w (x log(x/z) - x + z) with D >= 0: Newton's equations, damped."""

    def start(self, B: Array) -> tuple[Side, Array]:
        """Return B > 0 after b <- b D'(w x/z) / D'w (Lee & Seung 2001).

        Newton steps alone would at most double small values.
        """
        # an entry that no b moves is left out: an infinite loss there would hide the others
        alive = np.asarray(self.D.any(axis=1))
        side = self
        if not alive.all():
            if self.turned:
                data = self.data.T.weighted(alive).T
            else:
                data = self.data.weighted(alive)
            side = replace(self, data=data)
        mean = np.where(B.any(axis=0), B.mean(axis=0), 1)
        B = np.where(B > 0, B, mean).astype(B.dtype)
        numerator = side.layout.adjoint(side.D, side._observed / side._predictors(B))
        denominator = side._mass
        ratio = numerator / positive_or_one(denominator)
        factor = np.where(denominator > 0, ratio, 1)
        return side, B * factor

    def step(self, B: Array, polish: Array) -> Step:
        Z = self._predictors(B)
        whole = lowered(self._equations(B, Z), B, polish)
        return replace(whole, step=self._share(Z, whole) * whole.step)

    def _equations(self, B: Array, Z: Array) -> Equations:
        ratio = self._observed / Z
        # D'f' with f' = w - w x/z
        gradient = self._mass - self.layout.adjoint(self.D, ratio)
        ratio /= Z
        for block, H in self.hessians(ratio):
            yield block, H, times(H, B[:, block]) - gradient[:, block]

    def _share(self, Z: Array, whole: Step) -> Array:
        """Return the share of a step that is sure to lower the loss."""
        relative = self.predict(-whole.step)
        relative /= Z
        relative[self._observed <= 0] = 0
        return damped_share(whole.promise, whole.curvature, self._largest(relative))

    def _predictors(self, B: Array) -> Array:
        """D @ B + offset, but 1 where that is zero: the data are zero there, and so is x/z."""
        Z = self.predict(B)
        offset = self.data.terms[0].offset
        if offset is not None:
            Z += self.own(offset)
        Z[Z <= 0] = 1
        return Z

    @cached_property
    def _observed(self) -> Array:
        """w x, zero where missing."""
        return self.weighted(self.data.terms[0].x)

    @cached_property
    def _mass(self) -> Array:
        """D'w."""
        if self.data.complete:
            return self.D.sum(axis=0)[:, None]
        ones = np.ones_like(self.data.terms[0].x)
        return self.layout.adjoint(self.D, self.weighted(ones))

    def _largest(self, entries: Array) -> Array:
        """Return the largest entry of each column, at least zero."""
        if not self.layout.sparse:
            return entries.max(axis=0, initial=0)
        most = np.zeros(self.layout.shape[1], entries.dtype)
        columns = self.layout.spread(np.arange(len(most)))
        np.maximum.at(most, columns, entries)
        return most


class KLArraySide(KLSide):
    """The same on an array that the factors alone predict, by blocks that stay in the cache."""

    n_first_steps = FIRST_STEPS

    def improve(self, B: Array) -> Array:
        pairs = products_of_pairs(self.D)
        n_entries, n = self.layout.shape
        height = min(n_entries, STRETCH)
        width = max(STRETCH_ELEMENTS // height, 1)
        stretches = [slice(start, start + height) for start in range(0, n_entries, height)]
        new = np.empty_like(B)
        for start in range(0, n, width):
            block = slice(start, start + width)
            new[:, block] = self._improved(B[:, block], block, pairs, stretches)
        return new

    def _improved(
        self,
        B: Array,
        block: slice,
        pairs: Array,
        stretches: list[slice],
    ) -> Array:
        """Return some columns after a damped step; a stretch of entries is in the cache at once."""
        gradient = np.broadcast_to(self._mass, (len(B), self.layout.shape[1]))[:, block].copy()
        sums = np.zeros((pairs.shape[1], B.shape[1]), B.dtype)
        for entries in stretches:
            Z = self._some_predictors(entries, B)
            ratio = self._observed[entries, block] / Z
            gradient -= self.D[entries].T @ ratio
            ratio /= Z
            sums += pairs[entries].T @ ratio
        found = model_steps(sums, gradient, B, COORDINATE_PASSES)
        fastest = np.zeros(B.shape[1], B.dtype)
        for entries in stretches:
            if len(stretches) > 1:
                Z = self._some_predictors(entries, B)
            relative = self._some_products(entries, -found.step)
            relative /= Z
            relative *= self._observed[entries, block] > 0
            np.maximum(fastest, relative.max(axis=0), out=fastest)
        share = damped_share(found.promise, found.curvature, fastest)
        return np.maximum(B + share * found.step, 0)

    def _some_predictors(self, entries: slice, B: Array) -> Array:
        """D @ B at some entries, but 1 where that is zero."""
        Z = self._some_products(entries, B)
        zero = Z <= 0
        if zero.any():
            Z[zero] = 1
        return Z

    def _some_products(self, entries: slice, B: Array) -> Array:
        """D @ B at some entries, in the order of memory of the table."""
        if self.turned:
            return (B.T @ self.D[entries].T).T
        return self.D[entries] @ B

    def loss(self, B: Array) -> float | None:
        if self.data.dtype != np.float64:
            return None
        Z = self.predict(B)
        zero = Z <= 0
        if zero.any():
            if self._observed[zero].any():
                return np.inf
            Z[zero] = 1
        # sum w (x log x - x) + w z - w x log z
        constant = self.data.entropy
        mass = float((self._mass * B).sum())
        np.log(Z, out=Z)
        # in the order of memory
        logs = float(np.vdot(self.own(self._observed), self.own(Z)))
        value = constant + mass - logs
        if value < SMALLEST_MODEL_LOSS * (abs(constant) + mass + abs(logs)):
            return None
        return value


def damped_share(promise: Array, curvature: Array, fastest: Array) -> Array:
    """Return the share of a Newton step that is sure to lower the loss kl, by self-concordance.

    With r = max(-dz/z) over entries with x > 0, -log(1 + t dz/z) <= -t dz/z + (dz/z)^2 (-log(1 -
    r t) - r t) / r^2. Summed over a column with weights x, this is least at t = promise /
    (curvature + r promise): the damped Newton step (Tran-Dinh, Kyrillidis & Cevher 2015), with r
    in place of the Newton decrement, which is larger.

    Parameters
    ----------
    promise, curvature, fastest : ndarray of shape (n_columns,)
        The decrease that the gradient predicts, s'H s of the step s, and r.

    Returns
    -------
    ndarray of shape (n_columns,)
    """
    bend = np.where(curvature > 0, curvature + fastest * promise, 1)
    damped = np.clip(promise / bend, 0, 1)
    # for r <= 1/2 the bound at t = 1 is at most 0.8 curvature - promise, and only a whole step
    # makes coordinates zero
    bounded = (fastest <= 0.5) & (0.8 * curvature <= promise)
    safe = (curvature <= 0) | bounded
    inside = MAX_SHARE_TO_ZERO / np.maximum(fastest, MAX_SHARE_TO_ZERO)
    share = np.minimum(damped, inside)
    return np.where(safe, 1, share)


def side_of_codes(data: Data, C: Array) -> Side | None:
    """Return the table as its codes see it, or None where this file has no model of the loss."""
    if data.layout.sparse:
        return side_of_components(data.T, C.T)
    return side_of_components(data, C.T, turned=True)


def side_of_components(data: Data, D: Array, turned: bool = False) -> Side | None:
    """Return the table as its components see it (if turned, its codes), or None."""
    t = data.terms[0]
    if isinstance(t.loss, Squared) and len(data.terms) == 1:
        return SquaredSide(data, D, turned)
    positive = D.min(initial=0) >= 0
    if t.offset is not None:
        positive = positive and t.offset.min(initial=0) >= 0
    if isinstance(t.loss, KL) and len(data.terms) == 1 and positive:
        if data.layout.sparse or t.offset is not None:
            return KLSide(data, D, turned)
        return KLArraySide(data, D, turned)
    return None


def improve(side: Side, B: Array) -> Array:
    """Return a B that is nowhere worse, by passes over one model: for sweeps over both factors."""
    return side.improve(np.maximum(B, 0))


def minimize(side: Side, B: Array, clock: Clock | None = None) -> Array:
    """Return argmin_(B >= 0) L(D B), one of them where there are several.

    A column has converged when its model promises a decrease no larger than rounding; that step is
    taken. When the time of a clock is up, B is only nowhere worse than it was.
    """
    side, B = side.start(np.maximum(B, 0))
    for _ in range(side.n_first_steps):
        if clock is not None and clock.expired:
            return B
        B = side.improve(B)
    accuracy = 4 * float(np.finfo(B.dtype).eps)
    active = np.ones(B.shape[1], bool)
    for _ in range(MAX_STEPS):
        found = side.step(B, polish=active)
        moved = np.maximum(B + found.step, 0)
        B = np.where(active, moved, B)
        scale = found.scale + found.scale.mean()
        active &= found.promise > accuracy * scale
        if not active.any() or (clock is not None and clock.expired):
            break
    return B


def lowered(equations: Equations, B: Array, polish: Array) -> Step:
    """Lower the models of all columns by coordinate passes; minimize those to be polished."""
    step = np.empty_like(B)
    promise, curvature, scale = np.empty((3, B.shape[1]), B.dtype)
    for block, H, target in equations:
        old = B[:, block]
        HB = times(H, old)
        new = coordinate_passes(H, target, old, n_passes(H))
        chosen = np.flatnonzero(polish[block])
        if len(chosen):
            part = H
            if H.shape[2] > 1:
                part = H[:, :, chosen]
            new[:, chosen] = active_set(part, target[:, chosen], new[:, chosen])
        s = new - old
        step[:, block] = s
        promise[block] = (s * (target - HB)).sum(axis=0)
        curvature[block] = (s * times(H, s)).sum(axis=0)
        scale[block] = (old * HB).sum(axis=0)
    return Step(step, promise, curvature, scale)


def n_passes(H: Array) -> int:
    """Return the number of passes over the coordinates of models."""
    if H.shape[2] == 1:
        return SHARED_PASSES
    return COORDINATE_PASSES


def times(H: Array, B: Array) -> Array:
    """H_j b_j for every column j."""
    if H.shape[2] == 1:
        return H[:, :, 0] @ B
    return np.einsum("kln,ln->kn", H, B)


def active_set(H: Array, target: Array, B: Array) -> Array:
    """Minimize b'H b / 2 - target'b over b >= 0 from a good guess.

    Lawson & Hanson (1974) in all columns at once: go to the minimum over the free coordinates or up
    to where the first becomes zero, which is then fixed; from a minimum, free the coordinate with
    the largest predicted decrease.
    """
    B = B.copy()
    noise = 8 * np.finfo(H.dtype).eps * np.abs(target)
    free = B > 0
    active = np.arange(B.shape[1])
    for _ in range(3 * len(B)):
        part = H
        if H.shape[2] > 1:
            part = H[:, :, active]
        b = B[:, active]
        f = free[:, active]
        aim = target[:, active]
        gradient = times(part, b) - aim
        negligible = np.abs(gradient) <= noise[:, active]
        gradient[negligible] = 0
        step = -solved(part, f, gradient)
        lengths = b / positive_or_one(-step)
        longest = np.where(step < 0, lengths, np.inf)
        t = np.minimum(longest.min(axis=0), 1)
        stopped = longest <= t
        b = np.where(stopped, 0, b + t * step)
        B[:, active] = b
        f &= ~stopped
        gradient = times(part, b) - aim
        closed = f | (gradient >= 0)
        promise = np.square(gradient) / diagonals(part)
        promise[closed] = 0
        best = promise.argmax(axis=0)
        columns = np.arange(len(active))
        sizes = (np.abs(aim) * b).sum(axis=0)
        enough = np.finfo(H.dtype).eps * sizes
        whole = ~stopped.any(axis=0)
        freed = whole & (promise[best, columns] > enough)
        f[best[freed], columns[freed]] = True
        free[:, active] = f
        active = active[~whole | freed]
        if not len(active):
            break
    return B


def solved(H: Array, free: Array, gradient: Array) -> Array:
    """Return the steps with H step = gradient in the free coordinates and zeros elsewhere."""
    k = len(free)
    # units in which every coordinate has the same curvature
    unit = np.where(free, 1 / np.sqrt(diagonals(H)), 0)
    units = np.ascontiguousarray(unit.T)
    system = units[:, :, None] * units[:, None, :]
    system *= np.moveaxis(H, 2, 0)
    # the shift settles directions that the data leave open; eps itself would blow their rounding
    # errors up to steps
    shift = np.finfo(H.dtype).eps ** 0.5
    diagonal = np.arange(k)
    system[:, diagonal, diagonal] += np.where(free.T, shift, 1)
    sides = (unit * gradient).T
    found = np.linalg.solve(system, sides[:, :, None])
    return unit * found[:, :, 0].T


def diagonals(H: Array) -> Array:
    """Return the diagonals of H, raised above zero."""
    return np.maximum(np.einsum("iin->in", H), smallest_curvature(H.dtype))
