"""Laws of norms of vectors: value, dual, support and prox belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array
from regfactor.norms import Norm
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

N_ROWS = 30
STRENGTHS = (1e-3, 0.4, 1.7, 100.0)


@dataclass(frozen=True)
class NormCase:
    """A norm and the length of the vectors on which it is tried."""

    norm: Norm
    length: int = 5

    def vectors(self, seed: int) -> Array:
        """Return random rows, with a row of zeros, ties and a single nonzero among them."""
        V = rng(seed).normal(size=(N_ROWS, self.length))
        V[0] = 0
        V[1] = np.where(np.arange(self.length) % 2, -2.0, 2.0)
        V[1, 3:4] = 0
        V[2] = 0
        V[2, 2] = -3.0
        V[3, :2] = 0
        V[4, 2:] = 0
        return V


def inner(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with that of B."""
    return np.asarray((A * B).sum(axis=-1))


def value_is_a_norm(case: NormCase) -> None:
    """`value` is homogeneous, subadditive, zero at zero only."""
    norm = case.norm
    V = case.vectors(1)
    W = case.vectors(2)[::-1]
    value = norm.value(V)
    require_close(norm.value(-2.5 * V), 2.5 * value, "value of -2.5 v", 1e-12, 0, v=V)
    limit = value + norm.value(W) + 1e-12
    require_at_most(norm.value(V + W), limit, "value of v + w", v=V, w=W)
    require_close(norm.value(np.zeros(case.length)), 0.0, "value of zeros")
    require_at_most(-value[1:], -np.finfo(float).tiny, "minus the value", v=V[1:])


def dual_bounds_every_pairing(case: NormCase) -> None:
    """<g, v> <= `dual`(g) `value`(v)."""
    norm = case.norm
    V = case.vectors(3)
    G = case.vectors(4)
    limit = norm.dual(G)[:, None] * norm.value(V)[None, :] + 1e-12
    require_at_most(G @ V.T, limit, "<g, v>")


def support_attains_the_dual(case: NormCase) -> None:
    """`support`(g) has norm one and <g, support(g)> = `dual`(g)."""
    norm = case.norm
    G = case.vectors(5)
    U = norm.support(G)
    require_close(inner(G, U), norm.dual(G), "<g, support>", 1e-10, 1e-14, g=G)
    values = norm.value(U)[1:]
    require_close(values, np.ones_like(values), "value of the support", 1e-10, 0, g=G[1:])
    require(not U[0].any(), "the support of zeros is not zero")


def extreme_scales_are_taken(case: NormCase) -> None:
    """Value, dual and support take vectors of size 1e-150 and 1e150."""
    norm = case.norm
    G = case.vectors(6)
    for scale in (1e-150, 1e150):
        for name in ("value", "dual"):
            function = getattr(norm, name)
            require_close(function(scale * G), scale * function(G), f"{name} of {scale} g", 1e-9)
        expected = norm.support(G)
        require_close(norm.support(scale * G), expected, f"support of {scale} g", 1e-9, 1e-9)


def prox_is_optimal(case: NormCase) -> None:
    """w - `prox`(w, t) has dual t at most, and pairs with the prox to t times its value."""
    norm = case.norm
    W = case.vectors(7)
    for t in STRENGTHS:
        P = norm.prox(W, t)
        require_at_most(norm.dual(W - P), t * (1 + 1e-9), f"dual(w - p), t = {t}", w=W)
        expected = t * norm.value(P)
        require_close(inner(W - P, P), expected, f"<w - p, p>, t = {t}", 1e-7, 1e-9, w=W)
    require_close(norm.prox(W, 0.0), W, "prox of strength 0", 0, 1e-14)


def prox_is_zero_where_the_dual_is_small(case: NormCase) -> None:
    """`prox`(w, t) is zero exactly where `dual`(w) <= t."""
    norm = case.norm
    for row in case.vectors(8)[1:3]:
        edge = norm.dual(row)
        beyond = norm.prox(row, 1.000001 * edge)
        require_close(beyond, np.zeros_like(beyond), "prox beyond the dual", 0, 1e-12)
        before = norm.prox(row, 0.99 * edge)
        require(bool(before.any()), "the prox of a smaller strength is zero")


def prox_scales(case: NormCase) -> None:
    """`prox`(s w, s t) = s prox(w, t)."""
    norm = case.norm
    W = case.vectors(10)
    for scale in (1e-8, 1e8):
        found = norm.prox(scale * W, scale * 0.7) / scale
        require_close(found, norm.prox(W, 0.7), f"prox of {scale} w", 1e-7, 1e-7, w=W)


def norm_acts_on_the_last_axis(case: NormCase) -> None:
    """All methods act on the last axis, each vector alone."""
    norm = case.norm
    V = case.vectors(11)
    stack = V.reshape(5, 6, -1)
    for name in ("value", "dual", "support"):
        function = getattr(norm, name)
        found = function(stack)
        require_close(found, function(V).reshape(found.shape), f"{name} of a stack", 1e-7, 1e-12)
    together = norm.prox(V, 0.5)
    require_close(norm.prox(stack, 0.5), together.reshape(stack.shape), "prox", 1e-7, 1e-9)
    alone = np.array([norm.prox(row, 0.5) for row in V[:2]])
    require_close(together[:2], alone, "prox of a row", 1e-7, 1e-9)


def nothing_is_mutated(case: NormCase) -> None:
    """No method writes to its arguments, and float32 stays float32."""
    norm = case.norm
    V = case.vectors(12)
    for dtype in (np.float64, np.float32):
        at = frozen(V.astype(dtype))
        found = [norm.value(at), norm.dual(at), norm.support(at)]
        found.append(norm.prox(at, 0.5))
        for name, result in zip(("value", "dual", "support", "prox"), found, strict=True):
            require(result.dtype == dtype, f"{name} gives {result.dtype} of {np.dtype(dtype)}")


def norm_is_cloned(case: NormCase) -> None:
    """`clone` gives an equal norm."""
    is_cloned(case.norm)


LAWS: tuple[Law, ...] = (
    value_is_a_norm,
    dual_bounds_every_pairing,
    support_attains_the_dual,
    extreme_scales_are_taken,
    prox_is_optimal,
    prox_is_zero_where_the_dual_is_small,
    prox_scales,
    norm_acts_on_the_last_axis,
    nothing_is_mutated,
    norm_is_cloned,
)


def check_norm(norm: Norm, length: int = 5) -> None:
    """Raise BrokenLaw unless a norm of vectors keeps the laws that gauges rely on.

    Parameters
    ----------
    norm : Norm
    length : int, default=5
        Length of the vectors on which it is tried, at least four.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and the first place where each fails.

    Examples
    --------
    >>> from regfactor.norms import Lp
    >>> from regfactor.testing import check_norm
    >>> check_norm(Lp(1.5))
    """
    require_part(norm, Norm, "check_norm")
    check_laws(norm, LAWS, NormCase(norm, length))
