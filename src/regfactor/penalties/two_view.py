"""The two-view norm: Euclidean codes, components bounded in each of two views (theorem 7), with closed-form atoms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.optimize
import scipy.sparse.linalg

from regfactor.core.factors import Factors
from regfactor.core.linalg import gram, spectral_norm
from regfactor.core.params import Array, UnsupportedProblem, require_positive
from regfactor.norms import L2, Blocks
from regfactor.penalties.factor import AtomNorms, Penalty, PowerPenalty
from regfactor.penalties.gauges import RANK_CUT, Gauge, Polar, Trace
from regfactor.penalties.sets import UnitBall

# Angles from both ends towards the middle: near an end eta = cos^2 loses digits that the angle
# keeps.
_NEAR = np.concatenate([np.logspace(-12, -1, 12), np.linspace(0.2, np.pi / 4, 5)])
ANGLES = np.concatenate([_NEAR, np.pi / 2 - _NEAR[-2::-1]])
TINY = float(np.finfo(float).tiny)
NINE_DIGITS = 1e-9
INSIDE = 0.02  # eta further than this from both ends is found by Gram matrices
# columns from which on the eta of a dual norm is searched by an iteration, and only the last is
# proven
SEARCHED = 400
EDGE = 1e-13  # eta this close to an end stands for the end where a finite scale is needed


@dataclass
class TwoView(Gauge):
    """max over eta of the trace norm of [sqrt(eta) Z1 / b1, sqrt(1 - eta) Z2 / b2]: |c1| <= b1 and |c2| <= b2."""

    n_first: int = 1
    bounds: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        require_positive(self, **{"bounds[0]": self.bounds[0], "bounds[1]": self.bounds[1]})
        if self.n_first < 0:
            raise ValueError(f"TwoView needs n_first >= 0, got {self.n_first!r}.")

    @property
    def scale(self) -> float:
        """The scale of the trace norm that has one bound for both views, and is nowhere larger than this norm."""
        return float(np.hypot(*self.bounds))

    @property
    def norm(self) -> Blocks:
        """The norm of a component."""
        return Blocks(self.n_first, L2(), L2(), self.bounds)

    def at(self, eta: float, d: int) -> Trace:
        """Return the trace norm at a fixed eta: a lower bound of this norm, equal to it at the best eta."""
        eta = min(max(eta, EDGE), 1 - EDGE)
        views = np.repeat(
            [self.bounds[0] / np.sqrt(eta), self.bounds[1] / np.sqrt(1 - eta)],
            self._sizes(d),
        )
        return Trace(views)

    def eta(self, Z: Array | Factors) -> float:
        """Return the maximizing eta."""
        return float(np.cos(_best_angle(*self._views(Z))) ** 2)

    def value(self, Z: Array | Factors) -> float:
        views = self._views(Z)
        return _trace_norm(_best_angle(*views), *views)[0]

    def cost(self, F: Factors) -> float:
        return float(np.linalg.norm(F.codes, axis=0) @ self.norm.value(F.C))

    def recover(self, Z: Array) -> Factors:
        """Return rank(Z) atoms: optimal factors at the best eta, rotated until all atoms weigh the views alike.

        At the best eta the trace of M = C1 C1'/b1^2 - C2 C2'/b2^2 vanishes (or has one sign at an
        end), so an orthogonal rotation can give it a constant diagonal, and then the larger view is
        the same for each atom.
        """
        Q = self._range(Z)
        W = Q.T @ Z
        angle = _best_angle(*self._views(W))
        weights = np.repeat(
            [np.cos(angle), np.sin(angle)] / np.array(self.bounds),
            self._sizes(Z.shape[1]),
        )
        U, s, _ = np.linalg.svd(W * weights, full_matrices=False)
        F = self._leveled(W, U, s)
        return Factors((Q @ F.Phi).astype(Z.dtype), F.C.astype(Z.dtype))

    def recover_near(self, U: Array, W: Array, eta: float) -> Factors:
        """Return the atoms of Z = U W, U of orthonormal columns; faster where the best eta is inside and near one.

        Gram matrices of the views find eta. They lose digits that a decomposition of W itself has:
        where it says that eta is not the best to nine digits, Z is recovered with all care.
        """
        b = np.array(self.bounds)
        sizes = self._sizes(W.shape[1])
        first_view, second_view = self._split(W)
        found = _angle_by_grams(first_view / b[0], second_view / b[1], eta)
        if found is not None:
            scaled = W * np.repeat([np.cos(found), np.sin(found)] / b, sizes)
            left, s, right = np.linalg.svd(scaled, full_matrices=False)
            first, second = (
                s @ np.square(right[:, v]).sum(axis=1)
                for v in (slice(sizes[0]), slice(sizes[0], None))
            )
            level = np.array([first / np.cos(found) ** 2, second / np.sin(found) ** 2]) / max(
                s.sum(),
                TINY,
            )
            if s[-1] > RANK_CUT * s[0] and abs(level[0] - level[1]) <= NINE_DIGITS:
                F = self._leveled(W, left, s)
                return Factors(U @ F.Phi, F.C)
        F = self.recover(W)
        return Factors(U @ F.Phi, F.C)

    def _leveled(self, W: Array, U: Array, s: Array) -> Factors:
        """Return the atoms of W from the left singular vectors and values of W E^-1 at the best eta."""
        b1, b2 = self.bounds
        root = np.sqrt(np.maximum(s, np.finfo(float).eps ** 2 * s.max(initial=0)))
        C = (U.T @ W) / root[:, None]  # right at the ends too, where Z E^-1 has lost a view
        M = (
            C[:, : self.n_first] @ C[:, : self.n_first].T / b1**2
            - C[:, self.n_first :] @ C[:, self.n_first :].T / b2**2
        )
        R = level_diagonal(M)
        Phi = (U * root) @ R.T
        C = R @ C
        size = self.norm.value(C)
        return Factors(Phi * size, C / size[:, None])

    def prox(self, W: Array, t: float | Array) -> NoReturn:
        raise UnsupportedProblem("TwoView has no closed prox; use the solver EtaSearch.")

    def polar(self, G: Array, k: int = 1) -> Polar:
        """Minimize |G E_eta| over eta; every eta gives an upper bound, the atom gives a lower one (spec 1.3)."""
        d = G.shape[1]
        first, second = (
            b * spectral_norm(v) for b, v in zip(self.bounds, self._split(G), strict=True)
        )
        if first + second == 0:
            return Polar(0.0, Factors.zeros(G.shape[0], G.shape[1], G.dtype))
        if min(first, second) == 0:
            return self._one_view(G, max(first, second))
        low = first**2 / (first + second) ** 2
        high = 1 - second**2 / (first + second) ** 2
        large = min(G.shape) > SEARCHED
        norm = _rough_norm(G) if large else _norm_of_scaled(G)
        found = scipy.optimize.minimize_scalar(
            lambda eta: norm(self.at(eta, d).scale),
            bounds=(min(low, high), max(low, high)),
            method="bounded",
            options={"xatol": 1e-6 if large else 1e-13},
        )
        if large:
            value = spectral_norm(G * self.at(float(found.x), d).scale)
        else:
            value = float(found.fun)
        if k:
            atoms = self._atom(G, float(found.x))
        else:
            atoms = Factors.zeros(G.shape[0], G.shape[1], G.dtype)
        return Polar(value, atoms)

    def polar_near(self, G: Array, level: float) -> Polar:
        """Each view alone is a lower bound, their sum an upper one: where the first will do, eta is not searched."""
        alone = [b * spectral_norm(v) for b, v in zip(self.bounds, self._split(G), strict=True)]
        if max(alone) <= (1 + NINE_DIGITS) * level:
            return self.polar(G, 0)
        return Polar(sum(alone), Factors.zeros(G.shape[0], G.shape[1], G.dtype))

    def per_row(self, codes: Array) -> Penalty:
        return PowerPenalty(2.0, 1 / np.linalg.norm(codes, axis=0))

    def factored(self) -> tuple[Penalty, Penalty]:
        return AtomNorms(L2()), UnitBall(self.norm)

    def check(self, d: int) -> None:
        if not 0 <= self.n_first <= d:
            raise ValueError(f"TwoView has n_first={self.n_first}, but the table has {d} columns.")

    def _sizes(self, d: int) -> tuple[int, int]:
        self.check(d)
        return self.n_first, d - self.n_first

    def _range(self, Z: Array) -> Array:
        """Return an orthonormal basis of the column space, in which a weak view counts like a strong one."""
        sizes = [max(np.linalg.norm(v), np.finfo(float).tiny) for v in self._split(Z)]
        U, s, _ = np.linalg.svd(Z / np.repeat(sizes, self._sizes(Z.shape[1])), full_matrices=False)
        return np.asarray(U[:, s > RANK_CUT * s.max(initial=0)])

    def _split(self, Z: Array) -> tuple[Array, Array]:
        self._sizes(Z.shape[1])
        return Z[:, : self.n_first], Z[:, self.n_first :]

    def _views(self, Z: Array | Factors) -> tuple[Array, Array]:
        """Return each view over its bound, compressed to as few rows and columns as keep all inner products."""
        if isinstance(Z, Factors):
            W = np.linalg.qr(Z.codes, mode="r") @ Z.C
        else:
            W = Z
        if W.shape[0] > W.shape[1]:
            W = np.linalg.qr(W, mode="r")
        first, second = (
            (v / b).astype(np.float64) for v, b in zip(self._split(W), self.bounds, strict=True)
        )
        return _narrow(first), _narrow(second)

    def _one_view(self, G: Array, value: float) -> Polar:
        u, _, vt = np.linalg.svd(G, full_matrices=False)
        c = vt[:1]
        return Polar(value, Factors(u[:, :1], c / self.norm.value(c)[:, None]))

    def _atom(self, G: Array, eta: float) -> Factors:
        """Return u c' with |u| = 1 and |c_v| = b_v, close to the maximum of <G, u c'>."""
        e = self.at(eta, G.shape[1]).scale
        _, s, vt = np.linalg.svd(G * e, full_matrices=False)
        N = vt[s >= s[0] * (1 - 1e-6)]
        values, vectors = np.linalg.eigh(
            N[:, : self.n_first] @ N[:, : self.n_first].T - eta * np.eye(len(N)),
        )
        low = min(values[0], 0.0)
        high = max(values[-1], 0.0)
        spread = high - low
        if spread:
            mix = vectors[:, 0] * np.sqrt(high / spread) + vectors[:, -1] * np.sqrt(-low / spread)
        else:
            mix = vectors[:, 0]
        c = (mix @ N) * e
        for _ in range(50):  # block power steps: each raises <G, u c'>
            u = G @ self._on_spheres(c)
            c = G.T @ (u / np.linalg.norm(u))
        c = self._on_spheres(c)
        u = G @ c
        return Factors((u / np.linalg.norm(u))[:, None], c[None, :])

    def _on_spheres(self, c: Array) -> Array:
        return self.norm.support(c)


def _norm_of_scaled(G: Any) -> Callable[[Array], float]:
    """Return the spectral norm of G with scaled columns, rounded up, from one Gram matrix of an upright G."""
    if G.shape[0] < G.shape[1]:
        return lambda e: spectral_norm(G * e)
    size = float(abs(G).max())
    squares = gram(G / size)
    rounding = 1 + 4 * G.shape[0] * np.finfo(float).eps

    def norm(e: Array) -> float:
        largest = float(e.max())
        scaled = e / largest
        top = float(np.linalg.eigvalsh(scaled[:, None] * squares * scaled)[-1])
        return size * largest * float(np.sqrt(max(top, 0.0))) * rounding

    return norm


def _rough_norm(G: Any) -> Callable[[Array], float]:
    """Return the same by an iteration that begins where its last call ended: good enough to search by."""
    last = [np.ones(min(G.shape))]

    def norm(e: Array) -> float:
        W = G * e
        u, s, vt = scipy.sparse.linalg.svds(W, k=1, tol=1e-6, v0=last[0])
        last[0] = u[:, 0] if W.shape[0] < W.shape[1] else vt[0]
        return float(s[0])

    return norm


def _narrow(view: Array) -> Array:
    """Return a view with at most as many columns as rows and the same inner products of rows."""
    if view.shape[1] > view.shape[0]:
        return np.asarray(np.linalg.qr(view.T, mode="r")).T
    return view


def level_diagonal(M: Array) -> Array:
    """Return an orthogonal R such that R M R' has a constant diagonal, by at most k - 1 rotations (Schur-Horn).

    Each takes one entry above the mean to the mean, beside one below it; those of disjoint pairs
    are done at once.
    """
    M, k = M.copy(), len(M)
    R = np.eye(k)
    mean = np.trace(M) / max(k, 1)
    open_ = np.ones(k, bool)
    for _ in range(k - 1):
        excess = np.where(open_, np.diag(M) - mean, 0)
        order = np.argsort(-excess, kind="stable")
        pairs = min(int((excess > 0).sum()), int((excess < 0).sum()))
        if not pairs:
            break
        i = order[:pairs]
        j = order[: -pairs - 1 : -1]
        c, s = _leveling(excess[i], M[i, j], excess[j])
        for A in (M, R):  # rotate rows i and j
            A[i], A[j] = (
                c[:, None] * A[i] + s[:, None] * A[j],
                c[:, None] * A[j] - s[:, None] * A[i],
            )
        M[:, i], M[:, j] = M[:, i] * c + M[:, j] * s, M[:, j] * c - M[:, i] * s
        open_[i] = False
    return R


def _leveling(a: Array, b: Array, d: Array) -> tuple[Array, Array]:
    """Return the cosines and sines that turn excesses a > 0 into zero beside excesses d < 0 and couplings b."""
    q = -(b + np.copysign(np.sqrt(b * b - a * d), b))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = q / d
        near = a / q
    far, near = (np.where(np.isfinite(r), r, np.inf) for r in (far, near))
    t = np.where(np.abs(near) < np.abs(far), near, far)
    c = 1 / np.sqrt(1 + t * t)
    return c, c * t


def _trace_norm(angle: float, first: Array, second: Array) -> tuple[float, float]:
    """Return |[cos W1, sin W2]|_tr and its derivative in the angle; no singular value is cut."""
    c = np.cos(angle)
    s = np.sin(angle)
    U, values, Vt = np.linalg.svd(np.hstack([c * first, s * second]), full_matrices=False)
    P = U @ Vt
    k = first.shape[1]
    return float(values.sum()), float(c * np.vdot(P[:, k:], second) - s * np.vdot(P[:, :k], first))


def _best_angle(first: Array, second: Array) -> float:
    """Maximize the unimodal h(angle): bisect the sign of h' over a grid dense at both ends, then solve in the cell."""
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
            low, high = (middle, high)
        else:
            low, high = (low, middle)
    if low < 0:
        return 0.0
    if high == len(ANGLES):
        return np.pi / 2
    # relative to the nearer end, so that an angle of 1e-9 keeps its digits
    if ANGLES[low] < np.pi / 4:
        return float(
            scipy.optimize.brentq(
                slope,
                ANGLES[low],
                ANGLES[high],
                xtol=1e-15 * ANGLES[low],
                rtol=1e-14,
            ),
        )
    near = max(np.pi / 2 - ANGLES[high], EDGE)
    far = np.pi / 2 - ANGLES[low]
    rest = scipy.optimize.brentq(
        lambda r: slope(np.pi / 2 - r),
        near,
        far,
        xtol=1e-15 * near,
        rtol=1e-14,
    )
    return float(np.pi / 2 - rest)


def _angle_by_grams(first: Array, second: Array, eta: float) -> float | None:
    """Return the best angle by k x k eigenvalue problems, searched around an eta; None where it is not well inside."""
    if not INSIDE < eta < 1 - INSIDE or not len(first):
        return None
    G1 = first @ first.T
    G2 = second @ second.T
    away = G2 - G1

    def slope(angle: float) -> float:
        c = np.cos(angle)
        s = np.sin(angle)
        squares, Q = np.linalg.eigh(c * c * G1 + s * s * G2)
        roots = np.sqrt(np.maximum(squares, np.finfo(float).eps * squares[-1]))
        return float(c * s * (np.einsum("ij,ij->j", Q, away @ Q) / roots).sum())

    ends = np.arccos(np.sqrt([1 - INSIDE, INSIDE]))
    angle = float(np.arccos(np.sqrt(eta)))
    step = 0.01
    here = slope(angle)
    while here:  # step uphill until the slope turns
        other = float(np.clip(angle + np.copysign(step, here), *ends))
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
