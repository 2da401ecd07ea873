"""The f-step: weighted margins on linear features, by Newton steps; direct for few features, else conjugate gradients.

min over w, b of 1/2 |w|^2 + ridge b^2/2 + sum_i plus_i L(f_i) + minus_i L(-f_i), f = X w + b. A row
stands once, under both labels. The offset is eliminated from every step. For the squared hinge this
is the modified finite Newton method (Keerthi & DeCoste 2005): its steps are exact between kinks,
and the search along them is too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.labels.expectation.problem import Margin

FEW = 128  # features up to which a step is solved by a factorization
STEPS = 100
SEARCHES = 30
MOST_PRODUCTS = 500  # steps of conjugate gradients within a Newton step
FORCING = 0.1
POWERS = 10
CLOSE = 1e-2  # share of its slope at which a search along a step may stop
LOOSE = 0.5
EPS = float(np.finfo(np.float64).eps)
BEND = 1e-3  # least curvature of the offset, as a share of all pulls: a hinge may have none


@dataclass(eq=False)
class Table:
    """Rows less their mean as an operator; a sparse table stays as it is, and its transpose is stored by rows too."""

    X: Any
    mean: Array
    _factor: tuple[Array, float, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (
            is_sparse(self.X)
            and self.X.indices.dtype != np.int32
            and max(self.X.nnz, *self.X.shape) < 2**31
        ):
            X = self.X  # shorter indices are faster
            short = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
            self.X = scipy.sparse.csr_array(short, shape=X.shape)
        if is_sparse(self.X):
            self._transpose = scipy.sparse.csr_array(self.X.T)
        else:
            self._transpose = self.X.T
        self._centered = not self.mean.any()
        self.direct = self.X.shape[1] <= FEW
        n = self.X.shape[0]
        if is_sparse(self.X):
            squares = self.X.multiply(self.X).sum(axis=0)
        else:
            squares = np.square(self.X).sum(axis=0)
        self.size = max(1.0, float(np.sqrt(squares.sum() / max(n, 1))))  # of a row
        self.squares = np.maximum(
            np.asarray(squares).ravel() - n * np.square(self.mean),
            0,
        )  # of the columns

    def times(self, w: Array) -> Array:
        """(X - mean) w."""
        h = self.X @ w
        if self._centered:
            return h
        return h - self.mean @ w

    def pull(self, v: Array) -> Array:
        """(X - mean)'v."""
        g = self._transpose @ v
        if self._centered:
            return g
        return g - self.mean * v.sum()

    def top(self, weights: Array) -> float:
        """Return the largest eigenvalue of sum_i v_i x_i x_i', rather too small, by some steps of power iteration."""
        w = np.random.default_rng(0).normal(size=self.X.shape[1])
        value = 0.0
        for _ in range(POWERS):
            w = w / np.linalg.norm(w)
            w = self.pull(weights * self.times(w))
            value = float(np.linalg.norm(w))
            if value == 0.0:
                break
        return value

    def _gram(self, h: Array) -> Array:
        """(X - mean)'D(X - mean)."""
        if self._centered and not is_sparse(self.X):
            return np.asarray(self.X.T @ (h[:, None] * self.X))
        products = self._transpose @ (scipy.sparse.diags_array(h) @ self.X)
        crossed = np.outer(self.mean, self._transpose @ h)
        return np.asarray(
            products.toarray() - crossed - crossed.T + h.sum() * np.outer(self.mean, self.mean),
        )

    def solve(self, h: Array, total: float, slope: Array) -> Array:
        """Return -(I + X'(D - hh'/total)X)^-1 slope, D = diag(h); what was factored for the same h is used again."""
        if (
            self._factor is None
            or self._factor[1] != total
            or not np.array_equal(self._factor[0], h)
        ):
            sums = self.pull(h)
            H = self._gram(h) - np.outer(sums, sums) / total
            H[np.diag_indices(len(H))] += 1
            self._factor = (
                h,
                total,
                scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False),
            )
        return np.asarray(-scipy.linalg.cho_solve(self._factor[2], slope, check_finite=False))


@dataclass(frozen=True, eq=False)
class Machine:
    """One column: coefficients, offset, and decision values of all rows."""

    w: Array
    b: float
    f: Array

    @staticmethod
    def zero(n: int, d: int) -> Machine:
        """f = 0."""
        return Machine(np.zeros(d), 0.0, np.zeros(n))


def fitted(
    table: Table,
    margin: Margin,
    pulls: tuple[Array, Array],
    start: Machine,
    tol: float,
    ridge: float = 0.0,
) -> Machine:
    """Return the minimizer up to an error of `tol` relative to |w|, from a start whose f is X w + b.

    `pulls` are plus and minus; `ridge` b^2/2 is added.
    """
    w = start.w
    b = start.b
    f = start.f
    whole = float(pulls[0].sum() + pulls[1].sum())
    first = None
    for _ in range(STEPS):
        s = margin.slope(f, *pulls)
        h = margin.curvature(f, *pulls)
        total = max(float(h.sum()), BEND * whole) + ridge or 1.0
        push = float(s.sum()) + ridge * b
        slope = w + table.pull(s - h * (push / total))
        left = (
            float(slope @ slope) + push**2 / total
        )  # bounds the squared error of w: the Hessian is at least I
        first = left if first is None else first
        goal = max(
            tol**2 * float(w @ w),
            (EPS * whole * table.size) ** 2,
        )  # the latter is what sums round off
        if left <= goal:
            break
        if table.direct:
            step = table.solve(h, total, slope)
            along = table.times(step)
        else:
            share = min(FORCING, (left / first) ** 0.25)
            enough = max(share * np.sqrt(float(slope @ slope)), np.sqrt(goal) / 2)
            step, along = _conjugate(table, h, total, slope, enough)
        shift = -(push + float(h @ along)) / total
        along = along + shift
        down = float(w @ step) + ridge * b * shift, float(s @ along)
        t = _searched(margin, pulls, f, along, (*down, float(step @ step) + ridge * shift**2))
        if t == 0.0:
            break
        w = w + t * step
        b = b + t * shift
        f = f + t * along
    return Machine(w, b, f)


def _conjugate(
    table: Table,
    h: Array,
    total: float,
    slope: Array,
    enough: float,
) -> tuple[Array, Array]:
    """Return d with |(I + X'(D - hh'/total)X) d + slope| <= enough, and X d, which is summed up on the way.

    Preconditioned by the diagonal at the mean of h: columns of texts differ much in length, those
    of a kernel's features are orthogonal.
    """
    d = np.zeros_like(slope)
    along = np.zeros_like(h)
    r = -slope
    diagonal = 1 + float(h.mean()) * table.squares
    z = r / diagonal
    p = z
    rz = float(r @ z)
    for _ in range(MOST_PRODUCTS):
        if float(r @ r) <= enough**2:
            break
        q = table.times(p)
        Hp = p + table.pull(h * (q - float(h @ q) / total))
        step = rz / float(p @ Hp)
        d = d + step * p
        along = along + step * q
        r = r - step * Hp
        z = r / diagonal
        old = rz
        rz = float(r @ z)
        p = z + (rz / old) * p
    return d, along


def _searched(
    margin: Margin,
    pulls: tuple[Array, Array],
    f: Array,
    along: Array,
    ends: tuple[float, float, float],
) -> float:
    """Return a length of the step near the minimum along it: 1 where that is, else by bracketed secants.

    `ends` are the slopes of both ridges and of the losses where it begins, and the curvature of the
    ridges.
    """

    def slope(t: float) -> float:
        return ends[0] + t * ends[2] + float(margin.slope(f + t * along, *pulls) @ along)

    start = ends[0] + ends[1]
    if not start < 0:  # rounding is all that is left
        return 0.0
    low = 0.0
    high = 1.0
    at_low = start
    at_high = slope(1.0)
    if LOOSE * start <= at_high <= -CLOSE * start:
        return 1.0
    for _ in range(SEARCHES):  # beyond the end, while it still goes down
        if at_high > CLOSE * start:
            break
        low = high
        at_low = at_high
        high = 2 * high
        at_high = slope(high)
    for _ in range(SEARCHES):
        if abs(at_high) <= -CLOSE * start:
            return high
        t = low + (high - low) * float(np.clip(at_low / (at_low - at_high), 0.05, 0.95))
        at = slope(t)
        if abs(at) <= -CLOSE * start:
            return t
        if at < 0:
            low, at_low, high, at_high = (t, at, high, at_high)
        else:
            low, at_low, high, at_high = (low, at_low, t, at)
    return low
