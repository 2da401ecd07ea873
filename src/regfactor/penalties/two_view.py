"""The two-view norm: components bounded in each of two views (theorem 7), closed-form atoms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.optimize
import scipy.sparse.linalg

from regfactor.core.factors import Factors
from regfactor.core.linalg import gram, spectral_norm
from regfactor.core.params import EPS, SMALLEST_NORMAL, Array, UnsupportedProblem, require_positive
from regfactor.norms import L2, Blocks
from regfactor.penalties.factor import AtomNorms, Penalty
from regfactor.penalties.gauges import RANK_CUT, Gauge, Polar, Trace
from regfactor.penalties.sets import UnitBall

# Angles from both ends towards the middle: near an end eta = cos^2 loses precision that the angle
# keeps.
_NEAR_END = np.concatenate(
    [
        np.logspace(-12, -1, 12),
        np.linspace(0.2, np.pi / 4, 5),
    ]
)
ANGLES = np.concatenate([_NEAR_END, np.pi / 2 - _NEAR_END[-2::-1]])
ETA_TOLERANCE = 1e-9
GRAM_MARGIN = 0.02  # eta further than this from both ends is found by Gram matrices
# smaller side of a table from which on the eta of a dual norm is searched by an iterative norm, and
# only the last norm is proven
ITERATIVE_SIZE = 400
END_MARGIN = 1e-13  # eta this close to an end replaces the end where a finite scale is needed


@dataclass
class TwoView(Gauge):
    """max over eta of the trace norm of [sqrt(eta) Z1 / b1, sqrt(1 - eta) Z2 / b2].

    It bounds components by |c1| <= b1 and |c2| <= b2.
    """

    n_first: int = 1
    bounds: tuple[float, float] = (1.0, 1.0)
    proximable = False

    def __post_init__(self) -> None:
        require_positive(self, **{"bounds[0]": self.bounds[0], "bounds[1]": self.bounds[1]})
        if self.n_first < 0:
            raise ValueError(f"TwoView needs n_first >= 0, got {self.n_first!r}.")

    @property
    def scale(self) -> float:
        """The scale of the trace norm with one bound for both views, a lower bound of this norm."""
        return float(np.hypot(*self.bounds))

    @property
    def norm(self) -> Blocks:
        """The norm of a component."""
        return Blocks(self.n_first, L2(), L2(), self.bounds)

    def at(self, eta: float, d: int) -> Trace:
        """Return the trace norm at a fixed eta, a lower bound of this norm, tight at the best."""
        eta = min(max(eta, END_MARGIN), 1 - END_MARGIN)
        shares = np.array([eta, 1 - eta])
        scales = self.bounds / np.sqrt(shares)
        return Trace(np.repeat(scales, self._sizes(d)))

    def eta(self, Z: Array | Factors) -> float:
        """Return the maximizing eta."""
        angle = _best_angle(*self._views(Z))
        return float(np.cos(angle) ** 2)

    def value(self, Z: Array | Factors) -> float:
        views = self._views(Z)
        return _trace_norm(_best_angle(*views), *views)[0]

    def cost(self, F: Factors) -> float:
        lengths = np.linalg.norm(F.codes, axis=0)
        return float(lengths @ self.norm.value(F.C))

    def recover(self, Z: Array) -> Factors:
        """Return rank(Z) atoms: factors at the best eta, rotated until all weigh the views alike.

        At the best eta the trace of M = C1 C1'/b1^2 - C2 C2'/b2^2 vanishes (or has one sign at an
        end), so an orthogonal rotation can give it a constant diagonal, and then the larger view is
        the same for each atom.
        """
        Q = self._range(Z)
        W = Q.T @ Z
        angle = _best_angle(*self._views(W))
        scaled = W * self._weights(angle, Z.shape[1])
        U, s, _ = np.linalg.svd(scaled, full_matrices=False)
        F = self._leveled(W, U, s)
        return Factors(Q @ F.Phi, F.C).astype(Z.dtype)

    def recover_near(self, U: Array, W: Array, eta: float) -> Factors:
        """Return the atoms of Z = U W, U of orthonormal columns; fast if the best eta is near one.

        Gram matrices of the views find eta. They lose precision that a decomposition of W itself
        has: where it shows that eta is not the best within the tolerance, Z is recovered anew.
        """
        first_view, second_view = self._split(W)
        b1, b2 = self.bounds
        angle = _angle_by_grams(first_view / b1, second_view / b2, eta)
        F = None
        if angle is not None:
            scaled = W * self._weights(angle, W.shape[1])
            left, s, right = np.linalg.svd(scaled, full_matrices=False)
            of_first, of_second = self._split(np.square(right))
            first = s @ of_first.sum(axis=1) / np.cos(angle) ** 2
            second = s @ of_second.sum(axis=1) / np.sin(angle) ** 2
            size = max(s.sum(), SMALLEST_NORMAL)
            even = abs(first - second) <= ETA_TOLERANCE * size
            if even and s[-1] > RANK_CUT * s[0]:
                F = self._leveled(W, left, s)
        if F is None:
            F = self.recover(W)
        return Factors(U @ F.Phi, F.C)

    def _weights(self, angle: float, d: int) -> Array:
        """Return the weights of the columns at eta = cos^2 of an angle."""
        directions = np.array([np.cos(angle), np.sin(angle)])
        return np.repeat(directions / self.bounds, self._sizes(d))

    def _leveled(self, W: Array, U: Array, s: Array) -> Factors:
        """Return the atoms of W from left singular vectors and values of W E^-1 at the best eta."""
        b1, b2 = self.bounds
        rounding = EPS**2 * s.max(initial=0)
        root = np.sqrt(np.maximum(s, rounding))
        C = (U.T @ W) / root[:, None]  # right at the ends too, where Z E^-1 has lost a view
        C1, C2 = self._split(C)
        first = C1 / b1
        second = C2 / b2
        M = first @ first.T - second @ second.T
        R = level_diagonal(M)
        Phi = (U * root) @ R.T
        C = R @ C
        size = self.norm.value(C)
        return Factors(Phi * size, C / size[:, None])

    def prox(self, W: Array, t: float | Array) -> NoReturn:
        raise UnsupportedProblem("TwoView has no closed prox; use the solver EtaSearch.")

    def polar(self, G: Array, k: int = 1) -> Polar:
        """Minimize |G E_eta| over eta: every eta gives an upper bound, the atom a lower one."""
        d = G.shape[1]
        first, second = self._norms_alone(G)
        if first + second == 0:
            return Polar(0.0, _no_atoms(G))
        if min(first, second) == 0:
            return self._one_view(G, max(first, second))
        total = first + second
        low = (first / total) ** 2
        high = 1 - (second / total) ** 2
        large = min(G.shape) > ITERATIVE_SIZE
        norm = _rough_norm(G) if large else _norm_of_scaled(G)
        found = scipy.optimize.minimize_scalar(
            lambda eta: norm(self.at(eta, d).scale),
            bounds=(min(low, high), max(low, high)),
            method="bounded",
            options={"xatol": 1e-6 if large else 1e-13},
        )
        if large:
            value = spectral_norm(G * self.at(found.x, d).scale)
        else:
            value = float(found.fun)
        if not k:
            return Polar(value, _no_atoms(G))
        return Polar(value, self._atom(G, found.x))

    def polar_near(self, G: Array, level: float) -> Polar:
        """Return the dual norm where it may be at most a level, else a bound without a search.

        Each view alone is a lower bound, their sum an upper one.
        """
        first, second = self._norms_alone(G)
        if max(first, second) <= (1 + ETA_TOLERANCE) * level:
            return self.polar(G, 0)
        return Polar(first + second, _no_atoms(G))

    def _norms_alone(self, G: Array) -> tuple[float, float]:
        """Return the dual norms of each view alone."""
        first, second = self._split(G)
        b1, b2 = self.bounds
        return b1 * spectral_norm(first), b2 * spectral_norm(second)

    def factored(self) -> tuple[Penalty, Penalty]:
        return AtomNorms(L2()), UnitBall(self.norm)

    def check(self, d: int) -> None:
        if not 0 <= self.n_first <= d:
            raise ValueError(f"TwoView has n_first={self.n_first}, but the table has {d} columns.")

    def _sizes(self, d: int) -> tuple[int, int]:
        self.check(d)
        return self.n_first, d - self.n_first

    def _range(self, Z: Array) -> Array:
        """Return a basis of the column space in which a weak view counts like a strong one."""
        norms = [np.linalg.norm(view) for view in self._split(Z)]
        sizes = np.maximum(norms, SMALLEST_NORMAL)
        scaled = Z / np.repeat(sizes, self._sizes(Z.shape[1]))
        U, s, _ = np.linalg.svd(scaled, full_matrices=False)
        return U[:, s > RANK_CUT * s.max(initial=0)]

    def _split(self, Z: Array) -> tuple[Array, Array]:
        self._sizes(Z.shape[1])
        return Z[:, : self.n_first], Z[:, self.n_first :]

    def _views(self, Z: Array | Factors) -> tuple[Array, Array]:
        """Return each view over its bound, compressed with all inner products kept."""
        if isinstance(Z, Factors):
            W = np.linalg.qr(Z.codes, mode="r") @ Z.C
        else:
            W = Z
        if W.shape[0] > W.shape[1]:
            W = np.linalg.qr(W, mode="r")
        first, second = self._split(W)
        first = (first / self.bounds[0]).astype(np.float64)
        second = (second / self.bounds[1]).astype(np.float64)
        return _narrow(first), _narrow(second)

    def _one_view(self, G: Array, value: float) -> Polar:
        u, _, vt = np.linalg.svd(G, full_matrices=False)
        c = vt[:1]
        length = self.norm.value(c)
        return Polar(value, Factors(u[:, :1], c / length[:, None]))

    def _atom(self, G: Array, eta: float) -> Factors:
        """Return u c' with |u| = 1 and |c_v| = b_v, close to the maximum of <G, u c'>."""
        e = self.at(eta, G.shape[1]).scale
        _, s, vt = np.linalg.svd(G * e, full_matrices=False)
        N = vt[s >= s[0] * (1 - 1e-6)]
        N1 = N[:, : self.n_first]
        M = N1 @ N1.T - eta * np.eye(len(N))
        values, vectors = np.linalg.eigh(M)
        low = min(values[0], 0.0)
        high = max(values[-1], 0.0)
        spread = high - low
        if spread:
            mix = vectors[:, 0] * np.sqrt(high / spread)
            mix += vectors[:, -1] * np.sqrt(-low / spread)
        else:
            mix = vectors[:, 0]
        c = (mix @ N) * e
        for _ in range(50):  # block power steps: each raises <G, u c'>
            u = G @ self.norm.support(c)
            c = G.T @ (u / np.linalg.norm(u))
        c = self.norm.support(c)
        u = G @ c
        u = u / np.linalg.norm(u)
        return Factors(u[:, None], c[None, :])


def _no_atoms(G: Array) -> Factors:
    return Factors.zeros(G.shape[0], G.shape[1], G.dtype)


def _norm_of_scaled(G: Any) -> Callable[[Array], float]:
    """Return the spectral norm of G with scaled columns, rounded up, by one Gram matrix of G."""
    if G.shape[0] < G.shape[1]:
        return lambda e: spectral_norm(G * e)
    size = float(abs(G).max())
    squares = gram(G / size)
    rounding = 1 + 4 * G.shape[0] * EPS

    def norm(e: Array) -> float:
        largest = e.max()
        scaled = e / largest
        of_scaled = scaled[:, None] * squares * scaled
        top = np.linalg.eigvalsh(of_scaled)[-1]
        root = float(np.sqrt(max(top, 0.0)))
        return size * largest * root * rounding

    return norm


def _rough_norm(G: Any) -> Callable[[Array], float]:
    """Return the same by an iteration from where its last call ended, accurate enough to search."""
    last = [np.ones(min(G.shape))]

    def norm(e: Array) -> float:
        W = G * e
        u, s, vt = scipy.sparse.linalg.svds(
            W,
            k=1,
            tol=1e-6,
            v0=last[0],
        )
        if W.shape[0] < W.shape[1]:
            last[0] = u[:, 0]
        else:
            last[0] = vt[0]
        return float(s[0])

    return norm


def _narrow(view: Array) -> Array:
    """Return a view with at most as many columns as rows and the same inner products of rows."""
    if view.shape[1] > view.shape[0]:
        return np.asarray(np.linalg.qr(view.T, mode="r")).T
    return view


def level_diagonal(M: Array) -> Array:
    """Return an orthogonal R such that R M R' has a constant diagonal (Schur-Horn).

    At most k - 1 rotations each take one entry above the mean to the mean, paired with one below
    it; those of disjoint pairs are done at once.
    """
    M = M.copy()
    k = len(M)
    R = np.eye(k)
    mean = np.trace(M) / max(k, 1)
    open_ = np.ones(k, bool)
    for _ in range(k - 1):
        excess = np.where(open_, np.diag(M) - mean, 0)
        order = np.argsort(-excess, kind="stable")
        above = int((excess > 0).sum())
        below = int((excess < 0).sum())
        pairs = min(above, below)
        if not pairs:
            break
        i = order[:pairs]
        j = order[: -pairs - 1 : -1]
        c, s = _leveling(excess[i], M[i, j], excess[j])
        for A in (M, R, M.T):
            _rotate_rows(A, i, j, c[:, None], s[:, None])
        open_[i] = False
    return R


def _rotate_rows(
    A: Array,
    i: Array,
    j: Array,
    c: Array,
    s: Array,
) -> None:
    """Rotate pairs of rows i and j of A in place, by their cosines and sines."""
    first = A[i]
    second = A[j]
    A[i] = c * first + s * second
    A[j] = c * second - s * first


def _leveling(a: Array, b: Array, d: Array) -> tuple[Array, Array]:
    """Return cosines and sines that rotate excesses a > 0, paired with d < 0 by b, into zero."""
    root = np.sqrt(b * b - a * d)
    q = -(b + np.copysign(root, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = q / d
        near = a / q
    far = np.where(np.isfinite(far), far, np.inf)
    near = np.where(np.isfinite(near), near, np.inf)
    t = np.where(np.abs(near) < np.abs(far), near, far)
    c = 1 / np.sqrt(1 + t * t)
    return c, c * t


def _trace_norm(angle: float, first: Array, second: Array) -> tuple[float, float]:
    """Return |[cos W1, sin W2]|_tr and its derivative in the angle; no singular value is cut."""
    c = np.cos(angle)
    s = np.sin(angle)
    both = np.hstack([c * first, s * second])
    U, values, Vt = np.linalg.svd(both, full_matrices=False)
    P = U @ Vt
    k = first.shape[1]
    slope = c * np.vdot(P[:, k:], second) - s * np.vdot(P[:, :k], first)
    return float(values.sum()), float(slope)


def _best_angle(first: Array, second: Array) -> float:
    """Return the maximizer of the unimodal h(angle).

    The sign of h' is bisected over a grid that is dense at both ends, and its root is found there.
    """
    if not np.any(second):
        return 0.0
    if not np.any(first):
        return np.pi / 2

    def slope(angle: float) -> float:
        return _trace_norm(angle, first, second)[1]

    low = -1
    high = len(ANGLES)
    while high - low > 1:
        middle = (low + high) // 2
        if slope(ANGLES[middle]) > 0:
            low = middle
        else:
            high = middle
    if low < 0:
        return 0.0
    if high == len(ANGLES):
        return np.pi / 2
    # relative to the nearer end, so that an angle of 1e-9 keeps its precision
    if ANGLES[low] < np.pi / 4:
        return _root(slope, ANGLES[low], ANGLES[high])
    near = max(np.pi / 2 - ANGLES[high], END_MARGIN)
    far = np.pi / 2 - ANGLES[low]
    return np.pi / 2 - _root(lambda rest: slope(np.pi / 2 - rest), near, far)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a function in an interval, relative to its lower end."""
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-15 * low, rtol=1e-14))


def _angle_by_grams(first: Array, second: Array, eta: float) -> float | None:
    """Return the best angle by k x k eigenvalue problems; None where it is near an end."""
    if not GRAM_MARGIN < eta < 1 - GRAM_MARGIN or not len(first):
        return None
    G1 = first @ first.T
    G2 = second @ second.T
    away = G2 - G1

    def slope(angle: float) -> float:
        c = np.cos(angle)
        s = np.sin(angle)
        squares, Q = np.linalg.eigh(c * c * G1 + s * s * G2)
        roots = np.sqrt(np.maximum(squares, EPS * squares[-1]))
        slopes = np.einsum("ij,ij->j", Q, away @ Q) / roots
        return float(c * s * slopes.sum())

    ends = np.arccos(np.sqrt([1 - GRAM_MARGIN, GRAM_MARGIN]))
    angle = float(np.arccos(np.sqrt(eta)))
    step = 0.01
    here = slope(angle)
    while here:  # step uphill until the slope turns
        moved = angle + np.copysign(step, here)
        other = float(np.clip(moved, *ends))
        there = slope(other)
        if here * there <= 0:
            low, high = sorted((angle, other))
            return float(scipy.optimize.brentq(slope, low, high, xtol=1e-11, rtol=1e-11))
        if other in ends:
            return None
        angle = other
        here = there
        step = 4 * step
    return angle
