"""Newton's method for weighted margins on linear features: the f-step of Bellare 2009.

min over w, b of 1/2 |w|^2 + ridge b^2/2 + sum_i plus_i L(f_i) + minus_i L(-f_i), f = X w + b. A row
occurs once, under both labels. Steps are solved directly for few features, else by conjugate
gradients; the offset is eliminated from every step. For the squared hinge this is the modified
finite Newton method (Keerthi & DeCoste 2005): its steps are exact between kinks, and the search
along them is too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import EPS, Array, frozen
from regfactor.labels.expectation.problem import MarginLoss, MarginWeights

MAX_DIRECT_FEATURES = 128  # features up to which a step is solved by a factorization
MAX_NEWTON_STEPS = 100
MAX_SEARCH_STEPS = 30
MAX_CONJUGATE_STEPS = 500  # within a Newton step
FORCING = 0.1
POWER_STEPS = 10
SEARCH_ACCURACY = 1e-2  # share of its first derivative at which a search along a step may stop
FULL_STEP_ACCURACY = 0.5  # the same for a step of length one that ends before the minimum
LEAST_CURVATURE = 1e-3  # of the offset, as a share of all weights: a hinge may have none


@dataclass(eq=False)
class CenteredRows:
    """Rows less their mean as an operator; a sparse table is stored by rows and by columns."""

    X: Any
    mean: Array

    def __post_init__(self) -> None:
        if is_sparse(self.X):
            self.X = _with_short_indices(self.X)
            self._transpose = scipy.sparse.csr_array(self.X.T)
            squares = np.ravel(self.X.multiply(self.X).sum(axis=0))
        else:
            self._transpose = self.X.T
            squares = np.square(self.X).sum(axis=0)
        self._centered = not self.mean.any()
        self.direct = self.X.shape[1] <= MAX_DIRECT_FEATURES
        self._factor: Any = None
        self._h = np.zeros(0)
        self._total = 0.0
        n = self.X.shape[0]
        self.row_length = max(1.0, float(np.sqrt(squares.sum() / n)))  # before centering
        self.squares = np.maximum(squares - n * np.square(self.mean), 0)  # of centered columns

    def times(self, w: Array) -> Array:
        """Return (X - mean) w."""
        h = self.X @ w
        if self._centered:
            return h
        return h - self.mean @ w

    def adjoint(self, v: Array) -> Array:
        """Return (X - mean)'v."""
        g = self._transpose @ v
        if self._centered:
            return g
        return g - self.mean * v.sum()

    def largest_eigenvalue(self, weights: Array) -> float:
        """Return that of sum_i v_i x_i x_i' by power iteration, rather too small than too large."""
        w = np.random.default_rng(0).normal(size=self.X.shape[1])
        value = 0.0
        for _ in range(POWER_STEPS):
            w = w / np.linalg.norm(w)
            w = self.adjoint(weights * self.times(w))
            value = float(np.linalg.norm(w))
            if value == 0.0:
                break
        return value

    def _gram(self, h: Array) -> Array:
        """Return (X - mean)'D(X - mean), D = diag(h)."""
        if self._centered and not is_sparse(self.X):
            return self.X.T @ (h[:, None] * self.X)
        products = (self._transpose @ (scipy.sparse.diags_array(h) @ self.X)).toarray()
        crossed = np.outer(self.mean, self._transpose @ h)
        squared = h.sum() * np.outer(self.mean, self.mean)
        return products - crossed - crossed.T + squared

    def solve(self, h: Array, total: float, gradient: Array) -> Array:
        """Return -(I + X'(D - hh'/total)X)^-1 gradient, D = diag(h).

        The factorization is reused as long as h does not change.
        """
        if total != self._total or not np.array_equal(h, self._h):
            sums = self.adjoint(h)
            H = self._gram(h) - np.outer(sums, sums) / total
            H[np.diag_indices(len(H))] += 1
            self._factor = scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False)
            self._total = total
            self._h = h
        solved = scipy.linalg.cho_solve(self._factor, gradient, check_finite=False)
        return -solved


def _with_short_indices(X: Any) -> Any:
    """Return a sparse table with indices of 32 bits where they suffice: products are faster."""
    if X.indices.dtype == np.int32 or max(X.nnz, *X.shape) >= 2**31:
        return X
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return scipy.sparse.csr_array(parts, shape=X.shape)


@frozen
class LinearDecision:
    """One column of f: coefficients, offset, and the values of all rows."""

    w: Array
    b: float
    f: Array

    @staticmethod
    def zero(n: int, d: int) -> LinearDecision:
        """f = 0."""
        return LinearDecision(np.zeros(d), 0.0, np.zeros(n))


@frozen
class Line:
    """The objective along a step: losses at f + t along, and ridges that are quadratic in t."""

    margin: MarginLoss
    weights: MarginWeights
    f: Array
    along: Array
    ridge_gradient: float
    ridge_curvature: float

    def derivative(self, t: float) -> float:
        """Return the derivative of the objective in t."""
        losses = self.margin.gradient(self.f + t * self.along, *self.weights) @ self.along
        return self.ridge_gradient + t * self.ridge_curvature + float(losses)


def minimize_margins(
    rows: CenteredRows,
    margin: MarginLoss,
    weights: MarginWeights,
    start: LinearDecision,
    tol: float,
    ridge: float = 0.0,
) -> LinearDecision:
    """Return the minimizer up to an error of `tol` relative to |w|, from a start with f = X w + b.

    `ridge` b^2/2 is added to the objective.
    """
    w = start.w
    b = start.b
    f = start.f
    total_weight = weights.plus.sum() + weights.minus.sum()
    rounding = (EPS * total_weight * rows.row_length) ** 2
    first_error = None
    for _ in range(MAX_NEWTON_STEPS):
        s = margin.gradient(f, *weights)
        h = margin.hessian(f, *weights)
        total = max(h.sum(), LEAST_CURVATURE * total_weight) + ridge or 1.0
        offset_gradient = s.sum() + ridge * b
        gradient = w + rows.adjoint(s - h * (offset_gradient / total))
        squared_length = gradient @ gradient
        # bounds the squared error of w, since the Hessian is at least I
        error = squared_length + offset_gradient**2 / total
        if first_error is None:
            first_error = error
        goal = max(tol**2 * (w @ w), rounding)
        if error <= goal:
            break
        if rows.direct:
            step = rows.solve(h, total, gradient)
            along = rows.times(step)
        else:
            share = min(FORCING, (error / first_error) ** 0.25)
            residual = max(share * np.sqrt(squared_length), np.sqrt(goal) / 2)
            step, along = _conjugate_gradients(rows, h, total, gradient, residual)
        shift = -(offset_gradient + h @ along) / total
        along = along + shift
        ridge_gradient = w @ step + ridge * b * shift
        ridge_curvature = step @ step + ridge * shift**2
        line = Line(margin, weights, f, along, ridge_gradient, ridge_curvature)
        t = _step_length(line, ridge_gradient + s @ along)
        if t == 0.0:
            break
        w = w + t * step
        b = b + t * shift
        f = f + t * along
    return LinearDecision(w, b, f)


def _conjugate_gradients(
    rows: CenteredRows,
    h: Array,
    total: float,
    gradient: Array,
    residual: float,
) -> tuple[Array, Array]:
    """Return d with |(I + X'(D - hh'/total)X) d + gradient| <= residual, and X d.

    X d is summed up on the way. The preconditioner is the diagonal at the mean of h: columns of
    texts differ much in length, those of a kernel's features are orthogonal.
    """
    d = np.zeros_like(gradient)
    along = np.zeros_like(h)
    r = -gradient
    diagonal = 1 + h.mean() * rows.squares
    z = r / diagonal
    p = z
    rz = r @ z
    for _ in range(MAX_CONJUGATE_STEPS):
        if r @ r <= residual**2:
            break
        q = rows.times(p)
        Hp = p + rows.adjoint(h * (q - h @ q / total))
        step = rz / (p @ Hp)
        d = d + step * p
        along = along + step * q
        r = r - step * Hp
        z = r / diagonal
        previous = rz
        rz = r @ z
        p = z + (rz / previous) * p
    return d, along


def _step_length(line: Line, start: float) -> float:
    """Return 1 where it is near the minimum along a step, else a root of the derivative.

    `start` is the derivative at zero. The root is bracketed first and then approached by secants.
    """
    if not start < 0:  # rounding is all that is left
        return 0.0
    low = 0.0
    high = 1.0
    at_low = start
    at_high = line.derivative(high)
    if FULL_STEP_ACCURACY * start <= at_high <= -SEARCH_ACCURACY * start:
        return high
    for _ in range(MAX_SEARCH_STEPS):  # beyond the end, while the objective still falls
        if at_high > SEARCH_ACCURACY * start:
            break
        low = high
        at_low = at_high
        high = 2 * high
        at_high = line.derivative(high)
    for _ in range(MAX_SEARCH_STEPS):
        if abs(at_high) <= -SEARCH_ACCURACY * start:
            return high
        t = low + (high - low) * float(np.clip(at_low / (at_low - at_high), 0.05, 0.95))
        at = line.derivative(t)
        if abs(at) <= -SEARCH_ACCURACY * start:
            return t
        if at < 0:
            low = t
            at_low = at
        else:
            high = t
            at_high = at
    return low
