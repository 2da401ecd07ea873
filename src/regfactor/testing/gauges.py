"""Laws of gauges: a norm of Z, its atoms, its dual, its prox and the penalties that induce it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from regfactor.core.factors import Factors
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.penalties.gauges import Gauge
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

RANKS = (1, 3, 5)
LARGEST_LOG_SCALE = 10.0  # of atoms whose cost is divided between codes and components
STRENGTHS = (1e-2, 0.8, 3.0, 1e3)


@dataclass(frozen=True)
class GaugeCase:
    """A gauge and the shape of the matrices on which it is tried."""

    gauge: Gauge
    shape: tuple[int, int] = (7, 5)

    def matrix(self, rank: int, seed: int) -> Array:
        """Return a matrix of a rank, a product of normal factors."""
        return self.factors(rank, seed).dense()

    def factors(self, rank: int, seed: int) -> Factors:
        """Return factors of normal entries."""
        random = rng(seed)
        codes = random.normal(size=(self.shape[0], rank))
        return Factors(codes, random.normal(size=(rank, self.shape[1])))

    @property
    def has_prox(self) -> bool:
        """Whether `prox` has a closed form, which few gauges of unlike columns have."""
        try:
            self.gauge.prox(self.matrix(2, 0), 0.7)
        except UnsupportedProblem:
            return False
        return True

    @property
    def has_transpose(self) -> bool:
        """Whether the gauge of the transpose is known."""
        try:
            return self.gauge.T is not None
        except UnsupportedProblem:
            return False


def gauge_fits(case: GaugeCase) -> None:
    """`check` accepts a table of the columns of the trial."""
    case.gauge.check(case.shape[1])


def value_takes_factors(case: GaugeCase) -> None:
    """`value` of factors is that of their product."""
    gauge = case.gauge
    factors = case.factors(3, 2)
    expected = gauge.value(factors.dense())
    require_close(gauge.value(factors), expected, "value of factors", 1e-9)


def gauge_is_a_norm(case: GaugeCase) -> None:
    """`value` is a norm: homogeneous, subadditive, zero at zero."""
    gauge = case.gauge
    Z = case.matrix(5, 4)
    W = case.matrix(2, 5)
    value = gauge.value(Z)
    require_close(gauge.value(-2.5 * Z), 2.5 * value, "value of -2.5 Z", 1e-9)
    limit = value + gauge.value(W) + 1e-9
    require_at_most(gauge.value(Z + W), limit, "value of Z + W")
    require_close(gauge.value(np.zeros(case.shape)), 0.0, "value of zeros")


def polar_bounds_every_pairing(case: GaugeCase) -> None:
    """<Z, G> <= `value`(Z) `polar`(G): without it a certificate is false."""
    gauge = case.gauge
    for rank in RANKS:
        for seed in range(5):
            Z = case.matrix(rank, 6 + seed)
            G = rng(20 + seed).normal(size=case.shape)
            limit = gauge.value(Z) * gauge.polar(G).value * (1 + 1e-9)
            require_at_most(float((Z * G).sum()), limit, f"<Z, G>, rank {rank}")


def polar_is_attained(case: GaugeCase) -> None:
    """The atom that `polar` returns has norm one and attains it."""
    gauge = case.gauge
    for rank in RANKS:
        G = case.matrix(rank, 7)
        polar = gauge.polar(G)
        atom = polar.atoms
        require(atom.rank == 1, f"polar returns {atom.rank} atoms, expected 1")
        require_close(gauge.cost(atom), 1.0, "cost of the atom", 1e-7)
        require_close(gauge.value(atom.dense()), 1.0, "value of the atom", 1e-7)
        pairing = float((G * atom.dense()).sum())
        require_close(pairing, polar.value, "<G, atom>", 1e-6)
        require_at_most(pairing, polar.value * (1 + 1e-12), "<G, atom>")
    nothing = gauge.polar(np.zeros(case.shape))
    require(nothing.value == 0, f"polar of zeros is {nothing.value}")
    require(bool(np.isfinite(nothing.atoms.dense()).all()), "the atom of zeros is not finite")


def recovery_is_exact(case: GaugeCase) -> None:
    """`recover` returns factors of Z whose `cost` is `value`(Z)."""
    gauge = case.gauge
    for rank in RANKS:
        Z = case.matrix(rank, 10)
        factors = gauge.recover(Z)
        require_close(factors.dense(), Z, "product of the factors", 0, 1e-12 * np.abs(Z).max())
        require_close(gauge.cost(factors), gauge.value(Z), "cost", 1e-10)


def recovery_takes_zeros(case: GaugeCase) -> None:
    """`recover` takes rows and columns of zeros, and gives no atom for zeros alone."""
    gauge = case.gauge
    Z = case.matrix(5, 13)
    Z[2] = 0
    Z[:, 3] = 0
    factors = gauge.recover(Z)
    require_close(factors.dense(), Z, "product of the factors", 0, 1e-12)
    finite = np.isfinite(factors.codes).all() and np.isfinite(factors.C).all()
    require(bool(finite), "factors are not finite")
    require_close(gauge.cost(factors), gauge.value(Z), "cost", 1e-10)
    nothing = gauge.recover(np.zeros(case.shape))
    same = nothing.shape == case.shape and nothing.rank == gauge.n_free
    require(same, f"{nothing.rank} atoms for a matrix of zeros")
    require(gauge.cost(nothing) == 0, "zeros have a cost")


def cost_bounds_the_value(case: GaugeCase) -> None:
    """`cost` of any factors is at least `value` of their product."""
    gauge = case.gauge
    for rank in (1, 4, 9):
        for seed in range(5):
            factors = case.factors(rank, 30 + seed)
            value = gauge.value(factors.dense()) * (1 - 1e-9)
            require_at_most(value, gauge.cost(factors), f"value, rank {rank}")


def cost_is_independent_of_scales(case: GaugeCase) -> None:
    """`cost` does not depend on how an atom divides its scale between codes and components."""
    gauge = case.gauge
    factors = case.factors(4, 14)
    s = rng(15).uniform(0.1, 9, 4)
    scaled = Factors(factors.codes * s, factors.C / s[:, None])
    require_close(gauge.cost(scaled), gauge.cost(factors), "cost", 1e-12)


def prox_is_optimal(case: GaugeCase) -> None:
    """W - `prox`(W, t) has polar t at most, and pairs with the prox to t times its value."""
    gauge = case.gauge
    if not case.has_prox:
        return
    W = case.matrix(5, 15)
    for t in STRENGTHS:
        factors = gauge.prox(W, t)
        P = factors.dense()
        value = gauge.value(P)
        require_at_most(gauge.polar(W - P).value, t * (1 + 1e-9), f"polar(W - P), t = {t}")
        require_close(float(((W - P) * P).sum()), t * value, f"<W - P, P>, t = {t}", 1e-9, 1e-9)
        require_close(gauge.cost(factors), value, f"cost of the prox, t = {t}", 1e-9, 1e-12)
    beyond = gauge.prox(W, 1.000001 * gauge.polar(W).value)
    require(beyond.rank == gauge.n_free, f"{beyond.rank} atoms of the prox beyond the polar")
    require_close(gauge.value(beyond), 0.0, "value of the prox beyond the polar", 0, 1e-12)
    if not gauge.n_free:
        require(not beyond.dense().any(), "the prox beyond the polar is not zero")


def transpose_agrees(case: GaugeCase) -> None:
    """`T` is the same norm of the transpose, with its polar, recovery and prox."""
    gauge = case.gauge
    if not case.has_transpose:
        return
    Z = case.matrix(3, 17)
    G = case.matrix(5, 18)
    turned = gauge.T
    value = gauge.value(Z)
    require_close(turned.value(Z.T), value, "value of the transpose", 1e-9)
    require_close(turned.polar(G.T).value, gauge.polar(G).value, "polar", 1e-6)
    recovered = turned.recover(Z.T)
    require_close(recovered.dense(), Z.T, "product of the factors", 0, 1e-12)
    require_close(turned.cost(recovered), value, "cost", 1e-9)
    require_close(turned.T.value(Z), value, "value after two transpositions", 1e-12)
    if case.has_prox:
        expected = gauge.prox(G, 0.7).dense().T
        require_close(turned.prox(G.T, 0.7).dense(), expected, "prox", 0, 1e-8)


def factor_penalties_induce_the_norm(case: GaugeCase) -> None:
    """The penalties of `factored` cost at least `value`, and as much at `recover`."""
    gauge = case.gauge
    if gauge.n_free:
        return
    on_codes, on_components = gauge.factored()

    def paid(factors: Factors) -> float:
        return on_codes.value(factors.codes) + on_components.value(factors.C)

    for rank in RANKS:
        Z = case.matrix(rank, 21)
        recovered = gauge.recover(Z)
        least = min(paid(recovered), paid(_shared(gauge, recovered)))
        if least > gauge.value(Z) * (1 + 1e-9):  # shares of other units
            least = _paid_at_best_scales(paid, recovered)
        require_close(least, gauge.value(Z), f"factor penalties, rank {rank}", 1e-9)
    for seed in range(5):
        factors = case.factors(4, 40 + seed)
        recovered = gauge.recover(factors.dense())
        for tried in (factors, recovered):
            for at in (tried, _shared(gauge, tried)):
                value = gauge.value(at) * (1 - 1e-9)
                require_at_most(value, paid(at), "value")


def _paid_at_best_scales(paid: Callable[[Factors], float], factors: Factors) -> float:
    """Return the least cost of the same atoms, whatever their scale is on either side."""
    total = 0.0
    for i in range(factors.rank):
        codes = factors.codes[:, [i]]
        C = factors.C[[i]]

        def cost(log_scale: float, codes: Array = codes, C: Array = C) -> float:
            scale = np.exp(log_scale)
            return paid(Factors(codes * scale, C / scale))

        bounds = (-LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)
        total += float(minimize_scalar(cost, bounds=bounds, options={"xatol": 1e-10}).fun)
    return total


def _shared(gauge: Gauge, factors: Factors) -> Factors:
    """Return the same atoms, their cost divided evenly between codes and components."""
    codes = factors.codes
    C = factors.C
    atoms = [Factors(codes[:, [i]], C[[i]]) for i in range(factors.rank)]
    costs = np.array([gauge.cost(atom) for atom in atoms])
    s = np.sqrt(costs) / np.linalg.norm(codes, axis=0)
    return Factors(codes * s, C / s[:, None])


def nothing_is_mutated(case: GaugeCase) -> None:
    """No method writes to its arguments, and float32 stays float32."""
    gauge = case.gauge
    for dtype in (np.float64, np.float32):
        Z = frozen(case.matrix(3, 27).astype(dtype))
        factors = gauge.recover(Z)
        for found in (factors.Phi.dtype, factors.C.dtype):
            require(found == dtype, f"recover gives {found} of {np.dtype(dtype)}")
        gauge.value(Z)
        gauge.polar(Z)
        gauge.cost(Factors(frozen(factors.codes), frozen(factors.C)))
        if case.has_prox:
            found = gauge.prox(frozen(case.matrix(3, 32).astype(dtype)), 0.1).dense().dtype
            require(found == dtype, f"prox gives {found} of {np.dtype(dtype)}")


def gauge_is_cloned(case: GaugeCase) -> None:
    """`clone` gives an equal gauge."""
    is_cloned(case.gauge)


LAWS: tuple[Law, ...] = (
    gauge_fits,
    value_takes_factors,
    gauge_is_a_norm,
    polar_bounds_every_pairing,
    polar_is_attained,
    recovery_is_exact,
    recovery_takes_zeros,
    cost_bounds_the_value,
    cost_is_independent_of_scales,
    prox_is_optimal,
    transpose_agrees,
    factor_penalties_induce_the_norm,
    nothing_is_mutated,
    gauge_is_cloned,
)


def check_gauge(gauge: Gauge, shape: tuple[int, int] = (7, 5)) -> None:
    """Raise BrokenLaw unless a gauge keeps the laws that solvers and certificates rely on.

    Parameters
    ----------
    gauge : Gauge
    shape : tuple of int, default=(7, 5)
        Rows and columns of the matrices on which it is tried, at least four of each.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and where each fails.

    Examples
    --------
    >>> from regfactor.norms import LInf
    >>> from regfactor.penalties import Rows
    >>> from regfactor.testing import check_gauge
    >>> check_gauge(Rows(LInf()))
    """
    require_part(gauge, Gauge, "check_gauge")
    check_laws(gauge, LAWS, GaugeCase(gauge, shape))
