"""min over Z, B of L(map(Z) + D B) + (ridge/2)|B|^2 + alpha |||Z|||, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.optimize

from regfactor.core.batched_newton import newton_step
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate, Limits, Solution, Status
from regfactor.core.params import (
    SMALLEST_NORMAL,
    Array,
    UnsupportedProblem,
    wrong_part,
)
from regfactor.losses import Loss
from regfactor.maps import Identity, Lags, Map, RowScale
from regfactor.penalties import Gauge, Trace, TraceModulo, TwoView
from regfactor.penalties.numerical import InducedNorm
from regfactor.problems.base import Problem
from regfactor.problems.data import Data, Term
from regfactor.problems.design import Design
from regfactor.problems.gradient_operator import GradientOperator
from regfactor.problems.two_way import TwoWay, forced_to_zero

ETA_SEARCH = "regfactor.solvers.eta_search:EtaSearch"
CLOSED_FORM = "regfactor.solvers.closed_form:ClosedForm"
PURSUIT = "regfactor.solvers.pursuit:Pursuit"
FACTORED_FISTA = "regfactor.solvers.factored_fista:FactoredFista"
DOUGLAS_RACHFORD = "regfactor.solvers.douglas_rachford:DouglasRachford"
ADMM = "regfactor.solvers.admm:Admm"
FISTA = "regfactor.solvers.fista:Fista"
GREEDY_ATOMS = "regfactor.solvers.greedy_atoms:GreedyAtoms"
LARGE_TABLE = 10_000  # entries from which on proximal steps in factors are the fastest
LARGE_SIDE = 300  # rows and columns from which on an iteration finds a norm fastest
MAX_CONSTANT_SPREAD = 1e-12  # relative spread below which numbers are the same
# names of cached properties that are the same for every alpha
INDEPENDENT_OF_ALPHA = (
    "row_curvature",
    "null",
    "_null_norm",
    "_majorant",
    "_null_objective",
    "floor",
    "_least_above",
    "_two_way",
    "_forced",
)
# what to use instead for predictors < 0 and for predictors >= 0
NEGATIVE_REMEDY = "loss='gamma_log', or ExponentialFamilyPCA(family='gamma')"
POSITIVE_REMEDY = (
    "FactorModel with on_codes=NonNegative() and on_components=NonNegative(), or a loss on the "
    "whole line"
)
# curvatures of the envelopes that approximate a loss with kinks
ENVELOPE_CURVATURES = tuple(10.0**k for k in range(-2, 8))
SMALLEST_ALPHA = 1e-150  # below it, products of dual points and multipliers underflow
MAX_REPAIR_ROUNDS = 20  # of a dual point under constraints of both its rows and its columns
REPAIR_ROUNDING = 64  # rounding errors that may be left at their end
# decrease of the Moreau envelope, relative to its own size, below which one Newton step is enough
LITTLE_DECREASE = 1e-3


def alpha_too_small(alpha: float) -> str:
    """Return the error of a strength whose square cannot be represented."""
    return (
        f"alpha={alpha!r} is too small: its square cannot be held in float64. Use at least "
        f"{SMALLEST_ALPHA:g}, or scale the data up."
    )


@dataclass(frozen=True)
class Bound:
    """A lower bound of the optimum; not rigorous if it rests on an iteration."""

    value: float
    rigorous: bool


@dataclass(frozen=True, eq=False)
class Convex(Problem[FactorPoint]):
    """L(map(Z) + D B) + (ridge/2) |B|^2 + alpha |||Z|||, jointly convex in Z and B."""

    data: Data
    gauge: Gauge
    alpha: float
    map: Map = field(default_factory=Identity)
    design: Design | None = None
    solvers = (
        ETA_SEARCH,
        CLOSED_FORM,
        PURSUIT,
        FACTORED_FISTA,
        DOUGLAS_RACHFORD,
        ADMM,
        FISTA,
        GREEDY_ATOMS,
    )
    smallest_tol = 0.0

    def candidates(self, limits: Limits) -> tuple[str, ...]:
        """Return the solvers to try, the fastest for this problem first."""
        if self.gauge.solver is not None:
            return (self.gauge.solver,)
        if isinstance(self.gauge, TwoView):
            return (ETA_SEARCH,)
        splits = self.data.proximable and self.map.diagonal is not None
        if self.gauge.n_free:
            return (CLOSED_FORM, ADMM if splits else FISTA)
        if limits.max_rank is not None or self.data.layout.sparse:
            return (FACTORED_FISTA,)
        if isinstance(self.map, Lags):
            return DOUGLAS_RACHFORD, FISTA
        names = []
        if self.row_curvature is not None:
            names.append(CLOSED_FORM)
        if not self.data.smooth:
            names.append(PURSUIT)
        elif np.prod(self.data.shape) >= LARGE_TABLE:
            names.append(FACTORED_FISTA)
        names.append(ADMM if splits else FISTA)
        return tuple(names)

    @cached_property
    def row_curvature(self) -> float | Array | None:
        """The curvature of a quadratic loss in Z, if it is one number or one for each row."""
        data = self.data
        scale = self.map.diagonal
        if scale is None or not data.quadratic or data.layout.sparse:
            return None
        if data.complete and np.ndim(scale) == 0:
            return float(scale) ** 2
        h = data.hessian(np.zeros(data.shape, data.dtype)) * np.square(scale)
        if np.ptp(h, axis=1).max() > MAX_CONSTANT_SPREAD * h.max():
            return None
        if np.ptp(h) <= MAX_CONSTANT_SPREAD * h.max():
            return float(h[0, 0])
        return h[:, 0]

    def check(self) -> None:
        """Raise, before any work, for parts that do not fit."""
        if not isinstance(self.data, Data):
            raise wrong_part("data", self.data, Data, "Data.of(X, 'squared')")
        if not isinstance(self.gauge, Gauge):
            raise wrong_part("gauge", self.gauge, Gauge, "regfactor.penalties.Trace()")
        number = isinstance(self.alpha, Real) and not isinstance(self.alpha, bool)
        if not number or not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be a positive finite number, got {self.alpha!r}.")
        closed_form = self.data.quadratic and self.data.complete
        if self.alpha < SMALLEST_ALPHA and not closed_form:
            raise ValueError(alpha_too_small(self.alpha))
        if self.design is not None and self.design.D.shape[0] != self.data.shape[0]:
            raise ValueError(
                f"The design has {self.design.D.shape[0]} rows, the data {self.data.shape[0]}.",
            )
        if not self.data.unbounded:
            restricted = {str(t.loss): t.loss for t in self.data.terms if not t.loss.unbounded}
            below = any(loss.link_domain.high == 0 for loss in restricted.values())
            remedy = NEGATIVE_REMEDY if below else POSITIVE_REMEDY
            raise UnsupportedProblem(
                f"{', '.join(sorted(restricted))} restricts the predictor, and no gauge can keep Z "
                f"there. Use {remedy}.",
            )
        self.gauge.check(self.shape[1])
        if self.gauge.n_free:
            self._check_free_offsets_of_rows()

    def _check_free_offsets_of_rows(self) -> None:
        if self.data.layout.sparse:
            raise UnsupportedProblem(
                f"{type(self.gauge).__name__} is for dense tables: give X as an array with NaN "
                "where an entry is missing."
            )
        if self.data.rowwise or self.map.diagonal is None:
            raise UnsupportedProblem(
                f"{type(self.gauge).__name__} takes losses of single entries and no map but "
                "weights of rows."
            )
        design = self.design
        if design is not None and (design.columns is not None or design.strengths.any()):
            raise UnsupportedProblem(
                f"{type(self.gauge).__name__} takes a design without ridge on all columns."
            )

    @property
    def sparse(self) -> bool:
        """Whether only the observed entries of the table are held."""
        return self.data.layout.sparse

    @cached_property
    def compact(self) -> Convex:
        """The same problem on the observed entries of its table alone."""
        return replace(self, data=self.data.compacted())

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of Z."""
        return self.map.domain(self.data.shape)

    @property
    def T(self) -> Convex:
        """The transposed problem; its solution is the transposed solution (thesis, corollary 2)."""
        if self.design is not None or not isinstance(self.map, Identity):
            raise UnsupportedProblem("A problem with a design or a map has no transpose.")
        return replace(self, data=self.data.T, gauge=self.gauge.T)

    def at(self, alpha: float) -> Self:
        """Return the same problem at another strength, with what was computed of Z = 0."""
        other = replace(self, alpha=alpha)
        for name in INDEPENDENT_OF_ALPHA:
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def of_rows(self, rows: Array) -> Convex:
        """Return the problem of some rows of a sparse table, with alpha scaled to their number."""
        alpha = self.alpha * float(np.sqrt(len(rows) / self.data.shape[0]))
        part = replace(self, data=self.data.of_rows(rows), alpha=alpha)
        if np.ndim(self.map.diagonal):
            part = replace(part, map=RowScale(np.ravel(self.map.diagonal)[rows]))
        if self.design is not None:
            part = replace(part, design=replace(self.design, D=self.design.D[rows]))
        return part

    def astype(self, dtype: type) -> Convex:
        """Return the same problem in another precision."""
        if dtype == self.data.dtype:
            return self
        design = None
        if self.design is not None:
            design = self.design.astype(dtype)
        return replace(self, data=self.data.astype(dtype), design=design)

    def predictor(self, Z: Array | Factors, B: Array | None) -> Array:
        """map(Z) + D B at the entries of the table."""
        mapped = self.mapped(Z)
        if self.design is None or B is None:
            return mapped
        return mapped + self.data.layout.apply(self.design.D, B)

    def predictor_from(self, mapped: Array, B: Array | None) -> Array:
        """map(Z) + D B for a given map(Z)."""
        if self.design is None or B is None:
            return mapped
        return mapped + self.data.layout.apply(self.design.D, B)

    def ridge_cost(self, B: Array | None) -> float:
        """(ridge/2) |B|^2."""
        if self.design is None or B is None:
            return 0.0
        return float(self.design.strengths @ np.square(B, dtype=np.float64).sum(axis=1)) / 2

    def mapped(self, Z: Array | Factors) -> Array:
        """map(Z) at the entries of the table."""
        if not self.data.layout.sparse:
            return self.map(Z.dense() if isinstance(Z, Factors) else Z)
        if isinstance(Z, Factors):
            Z = self.map.of_factors(Z)
        return self.data.layout.entries(Z)

    def best_coefficients(self, Z: Array | Factors, B: Array | None = None) -> Array | None:
        """Return the best B for a given Z, starting from B."""
        if self.design is None:
            return None
        mapped = self.mapped(Z)
        data = self.data
        if data.quadratic and data.complete:
            return self.design.regress(-data.gradient(mapped))
        if B is None:
            B = np.zeros((self.design.D.shape[1], data.shape[1]), data.dtype)
        if data.quadratic:
            # in single precision another step takes off the rounding of the first
            for _ in range(2 if B.dtype == np.float32 else 1):
                B = self.coefficients_step(mapped, B)
            return B
        if data.rowwise:
            return self._joint_coefficients(self.design, mapped, B)

        def evaluate(B: Array) -> tuple[Array, Array, Array]:
            P = self.predictor_from(mapped, B)
            return data.column_values(P), data.gradient(P), data.hessian(P)

        return self.design.minimize(evaluate, B, self._majorant, data.layout)

    @cached_property
    def _majorant(self) -> Array:
        return self.data.majorant()

    def coefficients_step(self, mapped: Array, B: Array | None) -> Array | None:
        """Return B after one Newton step at given map(Z), which is exact for quadratic losses."""
        design = self.design
        if design is None or B is None:
            return None
        layout = self.data.layout
        P = mapped + layout.apply(design.D, B)
        g = self.data.gradient(P)
        h = self.data.hessian(P)
        B = newton_step(g, h, design.D, B, design.strengths, layout)
        return B if design.columns is None else design.kept(B)

    def _joint_coefficients(self, design: Design, mapped: Array, B: Array) -> Array:
        """Return the best B at given map(Z) for a loss that couples its columns."""

        def value_and_gradient(flat: Array) -> tuple[float, Array]:
            trial = design.kept(flat.reshape(B.shape).astype(B.dtype))
            value, g = self.data.value_and_gradient(self.predictor_from(mapped, trial))
            slope = design.D.T @ g + design.strengths[:, None] * trial
            return value + self.ridge_cost(trial), design.kept(slope).ravel().astype(np.float64)

        flat, _, _ = scipy.optimize.fmin_l_bfgs_b(
            value_and_gradient,
            B.ravel(),
            factr=10.0,
            pgtol=1e-10,
            maxiter=500,
        )
        return design.kept(np.asarray(flat, B.dtype).reshape(B.shape))

    def evaluate(
        self,
        Z: Array | Factors,
        B0: Array | None = None,
    ) -> tuple[float, Any, Array | None]:
        """Return f(Z) = min_B L + ridge, its gradient in Z (sparse for sparse data) and that B."""
        B = self.best_coefficients(Z, B0)
        value, g = self.data.value_and_gradient(self.predictor(Z, B))
        return value + self.ridge_cost(B), self.map.adjoint(self.data.layout.matrix(g)), B

    def objective(self, F: Factors, B: Array | None = None) -> float:
        """Return the objective of given factors, an upper bound of the optimum by construction."""
        if B is None and self.data.smooth:
            B = self.best_coefficients(F)
        loss = self.data.value(self.predictor(F, B)) + self.ridge_cost(B)
        return loss + self.alpha * self.gauge.cost(F)

    def dual_point(self, Z: Array | Factors, B: Array | None) -> Array:
        """Return the gradient of L at a point, by entries: at the optimum, the dual solution."""
        return self.data.gradient(self.predictor(Z, B))

    def bound(self, Y: Array) -> Bound:
        """Return a lower bound of the optimum from any dual point.

        -L*(Y) - sum |D'Y|^2/(2 ridge) is one for every Y in dom L* with |||map*(Y)|||_* <= alpha
        and D'Y = 0 on free rows. Y is made so: moved into the domain, freed of D, then scaled by
        the best feasible s in [0, s_max].
        """
        Y = self.feasible(Y)
        return self._bound(Y, *self.dual_norm(Y))

    def relaxed_bound(self, Y: Array) -> float:
        """Return a proven lower bound under a gauge whose dual norm is found by local search.

        A convex relaxation bounds that norm from above, so that this is lower than `bound`.
        """
        assert isinstance(self.gauge, InducedNorm)
        Y = self.feasible(Y)
        norm = self.gauge.polar_bound(self.map.adjoint(self.data.layout.matrix(Y)))
        return self.bound_at(Y, norm)

    def bound_at(self, Y: Array, norm: float) -> float:
        """Return the lower bound that a feasible Y gives if its dual norm is at most `norm`."""
        return self._bound(Y, norm, rigorous=False).value

    def _bound(self, Y: Array, norm: float, rigorous: bool) -> Bound:
        """Return the bound of a feasible Y of given dual norm: the greatest dual value of s Y.

        The scales s tried are the ends, one, and the top of the parabola through three points,
        which is exact for quadratic losses.
        """
        longest = 1.0
        if norm > 0:
            longest = min(2.0, self.alpha / norm)
        if not self.data.quadratic:
            longest = self.data.max_feasible_scale(Y, longest)
        half = longest / 2
        low = self.data.infimum
        middle = self.dual_value(half, Y)
        high = self.dual_value(longest, Y)
        values = [-np.inf, low, middle, high]
        if longest > 1:
            values.append(self.dual_value(1.0, Y))
        curvature = low - 2 * middle + high
        if np.isfinite(curvature) and curvature < 0:
            top = half * (1 + (low - high) / (2 * curvature))
            values.append(self.dual_value(float(np.clip(top, 0, longest)), Y))
        # overflow makes a dual value NaN, which proves nothing
        best = float(np.fmax.reduce(values))
        return Bound(best, rigorous and (self.design is None or not self.data.rowwise))

    def dual_norm(self, Y: Array) -> tuple[float, bool]:
        """Return |||map*(Y)|||_* rounded up, and whether that is proven.

        The norm of a large sparse table is found by an iteration.
        """
        if self.data.layout.sparse and isinstance(self.gauge, Trace):
            return self.gradient_operator(Y).norm_and_proof()
        if self.gauge.n_free and not self._two_way.is_orthogonal(Y):
            return np.inf, True
        polar = self.gauge.polar(self.map.adjoint(self.data.layout.matrix(Y)), 0)
        return polar.value, polar.rigorous

    def gradient_operator(self, Y: Array) -> GradientOperator:
        """Return map*(Y) in the scale of the gauge, as an operator that is never formed."""
        rows = self.map.diagonal
        if np.ndim(rows):
            rows = np.ravel(rows)
        return GradientOperator(self.data.layout, Y, rows, self.gauge.scale)

    def feasible(self, Y: Array) -> Array:
        """Return a dual point in the domain of L* with D'Y = 0, up to its dual norm feasible.

        A column that leaves the domain, as one of data at an end of their range does under offsets,
        is shrunk instead.
        """
        design = self.design
        data = self.data
        Y = data.feasible(np.nan_to_num(Y, nan=0.0, posinf=0.0, neginf=0.0))
        if self.gauge.n_free:
            Y = np.where(self._forced, Y.dtype.type(0), Y)
            if data.quadratic:
                h = data.hessian(Y)
            else:
                h = data.dual_slack(Y)
            return self._two_way.annihilate(Y, np.where(self._forced, h.dtype.type(0), h))
        if design is None:
            return Y
        if data.rowwise:
            return self._annihilated_in_rounds(design, Y)
        if data.quadratic:
            return design.annihilate(Y, data.hessian(Y), data.layout)
        annihilated = design.annihilate(Y, data.dual_slack(Y), data.layout)
        infeasible = data.infeasible_columns(annihilated)
        if not infeasible.any():
            return annihilated
        shrunk = design.shrunk_to_orthogonal(Y, data.layout)
        return np.where(data.layout.spread(infeasible), shrunk, annihilated)

    def level(self, Y: Array, target: float) -> float:
        """Return the largest dual norm at which a feasible Y, scaled, proves an optimum >= target.

        The dual value of s Y is concave in s; its parabola at s = 1 (exact for quadratic losses)
        gives the least s. Zero if no scale will do.
        """
        low = self.dual_value(0.96, Y)
        middle = self.dual_value(0.98, Y)
        high = self.dual_value(1.0, Y)
        if not np.isfinite(low + middle + high):
            return 0.0
        curvature = (low - 2 * middle + high) / 0.02**2
        derivative = (high - low) / 0.04 + 0.02 * curvature  # at s = 1
        shortfall = target - high
        discriminant = derivative**2 + 2 * curvature * shortfall
        least = np.inf
        if curvature < 0:
            if discriminant >= 0:
                least = 1 - (derivative - np.sqrt(discriminant)) / curvature
        elif derivative > 0:  # a line, up to rounding
            least = 1 + shortfall / derivative
        elif shortfall <= 0:
            least = 0.0
        if least <= self.data.max_feasible_scale(Y, 2.0):
            return float(self.alpha / max(least, 0.5))
        return 0.0

    def dual_value(self, s: float, Y: Array) -> float:
        """Return the dual objective of s Y for a feasible Y."""
        value = -self.data.conjugate(s * Y)
        if self.design is not None:
            value -= s * s * self.design.dual_cost(Y, self.data.layout)
        return value

    def _annihilated_in_rounds(self, design: Design, Y: Array) -> Array:
        """Return a dual point whose rows are constrained too, with D'Y = 0.

        Each of the two repairs undoes a little of the other, by some ten times less in each round.
        """
        data = self.data
        if self._never_chosen.any():
            Y = data.feasible(np.where(data.layout.spread(self._never_chosen), 0, Y))
        Y = design.annihilate(Y, data.dual_slack(Y), data.layout)
        for _ in range(MAX_REPAIR_ROUNDS):
            inside = data.feasible(Y)
            rounding = REPAIR_ROUNDING * np.finfo(Y.dtype).eps * np.abs(Y).max(initial=0)
            if np.abs(inside - Y).max(initial=0) <= rounding:
                break
            Y = design.annihilate(inside, data.dual_slack(inside), data.layout)
        return Y

    @cached_property
    def _never_chosen(self) -> Array:
        """Columns without a count under a loss of whole rows.

        There a dual point is not negative and sums to zero under an intercept, so it is zero; its
        rounding would leave the domain of L*.
        """

        def counts(t: Term) -> Array:
            if t.loss.rowwise:
                return t.weights * t.x
            return np.ones_like(t.x)

        return self.data.layout.column_sums(self.data.collect(counts)) == 0

    @cached_property
    def _two_way(self) -> TwoWay:
        """The free offsets of rows and columns."""
        D = np.zeros((self.data.shape[0], 0), self.data.dtype)
        if self.design is not None:
            D = self.design.D
        assert isinstance(self.gauge, TraceModulo)
        return TwoWay(D, np.asarray(self.gauge.direction, self.data.dtype))

    @cached_property
    def _forced(self) -> Array:
        """The entries at which every feasible dual point is zero, under offsets of rows."""
        data = self.data

        def ends(side: int) -> Array:
            def of_term(t: Term) -> Array:
                end = np.broadcast_to(t.loss.dual_domain(t.x)[side], t.x.shape)
                return np.where(t.weights > 0, end, 0).astype(data.dtype)

            return data.collect(of_term)

        return forced_to_zero(ends(0), ends(1), by_columns=self.design is not None)

    @cached_property
    def _null_of_offsets(self) -> FactorPoint:
        """The point of the best offsets of rows and columns, with its dual point."""
        data = self.data
        two_way = self._two_way
        B = np.zeros((two_way.D.shape[1], data.shape[1]), data.dtype)
        a = np.zeros(data.shape[0], data.dtype)
        rough = ENVELOPE_CURVATURES if not data.smooth else (np.inf,)
        for curvature in np.array(rough) / data.size:

            def evaluate(T: Array, rho: float = curvature) -> tuple[float, Array, Array]:
                if np.isinf(rho):
                    return *data.value_and_gradient(T), data.hessian(T)
                V, g, h = self._envelope(T, np.full(T.shape, rho, T.dtype))
                return data.value(V) + float(np.square(g).sum()) / (2 * rho), g, h

            majorant = np.minimum(data.majorant(), curvature)
            B, a = two_way.minimize(evaluate, B, a, majorant)
        _, dual, _ = evaluate(two_way.apply(B, a))
        F = Factors((a / np.ravel(self.map.diagonal))[:, None], two_way.e[None])
        return FactorPoint(F, B if self.design is not None else None, dual)

    @cached_property
    def null(self) -> FactorPoint:
        """The point Z = 0, up to free offsets of rows, with its best B and its dual point."""
        if self.gauge.n_free:
            return self._null_of_offsets
        F = Factors.zeros(*self.shape, self.data.dtype)
        if self.data.smooth or self.design is None:
            B = self.best_coefficients(F)
            return FactorPoint(F, B, self.dual_point(F, B))
        # at a kink the gradient is not one number: take that of Moreau envelopes, ever nearer to
        # the loss
        B = None
        for stiffness in np.array(ENVELOPE_CURVATURES) / self.data.size:
            V, B = self.prox(F.dense(), stiffness, B)
        return FactorPoint(F, B, -stiffness * V)

    def null_objective(self) -> float:
        """Return the objective of Z = 0."""
        return self._null_objective

    @cached_property
    def _null_objective(self) -> float:
        return self.objective(self.null.factors, self.null.coefficients)

    @cached_property
    def floor(self) -> float:
        """The smallest scale against which a gap is measured: a share of the objective of Z = 0.

        Where offsets alone explain the table that is zero, and the smallest meaningful loss takes
        its place.
        """
        return max(1e-3 * abs(self._null_objective), self.data.smallest_loss())

    def gap_scale(self, objective: float) -> float:
        """Return the scale of a gap: the objective's size, or its excess over the least loss.

        The likelihood of large counts is so far from zero that relative to it any fit would be
        near the best. On observed entries alone, where high precision takes long, the scale may be
        a hundred times as large.
        """
        size = max(abs(objective), self.floor)
        least = self.data.infimum
        if least == 0:
            return size
        allowed = 100.0 if self.data.layout.sparse else 1.0
        return min(size, allowed * max(objective - least, self._least_above))

    @cached_property
    def _least_above(self) -> float:
        return max(1e-3 * (self._null_objective - self.data.infimum), self.data.smallest_loss())

    @cached_property
    def _null_norm(self) -> tuple[Array, float, bool]:
        """The feasible dual point of Z = 0, its dual norm, and whether that is proven."""
        assert self.null.dual is not None
        Y = self.feasible(self.null.dual)
        return Y, *self.dual_norm(Y)

    @property
    def null_dual(self) -> Array:
        """The dual point of Z = 0."""
        assert self.null.dual is not None
        return self.null.dual

    def alpha_max(self) -> float:
        """Return the dual norm of the gradient at zero, from which on Z = 0 is optimal."""
        large = min(self.data.shape) >= LARGE_SIDE and self.map.diagonal is not None
        if isinstance(self.gauge, Trace) and (self.data.layout.sparse or large):
            return self.gradient_operator(self.feasible(self.null_dual)).norm()
        return self._null_norm[1]

    def first_iterates(self) -> tuple[Iterate[FactorPoint]]:
        """Return Z = 0 with its certificate, which is complete from alpha_max on."""
        gauge = self.gauge
        searched = self.data.layout.sparse or isinstance(gauge, TwoView)
        if "_null_norm" in self.__dict__ or not searched:
            Y, norm, rigorous = self._null_norm
        else:
            # a cruder norm will do
            Y = self.feasible(self.null_dual)
            rigorous = True
            if self.data.layout.sparse:
                norm = self.gradient_operator(Y).frobenius
                rigorous = isinstance(gauge, Trace)
            elif isinstance(gauge, TwoView):
                norm = gauge.polar_near(self.map.adjoint(Y), self.alpha).value
        bound = self._bound(Y, norm, rigorous)
        return (Iterate(self.null, self._null_objective, bound.value, bound.rigorous, steps=0),)

    def finished(
        self,
        solution: Solution[FactorPoint],
        tol: float,
        given: Convex,
    ) -> Solution[FactorPoint]:
        """Return a solution with the best bound known, judged in float64, in the layout given."""
        if solution.status is not Status.CERTIFIED:
            solution = self._with_last_bound(solution)
        if self.data.dtype != np.float64:
            solution = self._in_double(solution, tol)
        if given.data.layout is not self.data.layout:
            solution = self._with_dense_dual(solution)
        dual = self.null.dual
        # losses are lost to underflow where data are left to explain at no measurable loss
        if abs(self._null_objective) < SMALLEST_NORMAL and dual is not None and dual.any():
            solution = replace(solution, status=Status.STALLED)
        return solution

    def _with_last_bound(self, solution: Solution[FactorPoint]) -> Solution[FactorPoint]:
        """Return the solution with the bound of its own dual point, if that is better."""
        if solution.point.dual is None:
            return solution
        bound = self.bound(solution.point.dual)
        if bound.value <= solution.bound:
            return solution
        return replace(solution, bound=bound.value, rigorous=bound.rigorous)

    def _in_double(self, solution: Solution[FactorPoint], tol: float) -> Solution[FactorPoint]:
        """Return the solution of a float32 problem judged again in float64."""
        exact = self.astype(np.float64)
        point = solution.point.astype(np.float64)
        coefficients = exact.best_coefficients(point.factors, point.coefficients)
        duals = [exact.null.dual, point.dual, exact.dual_point(point.factors, coefficients)]
        bounds = [exact.bound(dual) for dual in duals if dual is not None]
        best = max(bounds, key=lambda bound: bound.value)
        judged = replace(
            solution,
            objective=exact.objective(point.factors, point.coefficients),
            bound=best.value,
            rigorous=best.rigorous,
            floor=exact.floor,
        )
        # relative to the objective alone: float32 has no more precision
        if solution.status is Status.CERTIFIED and judged.relative_gap > tol:
            return replace(judged, status=Status.STALLED)
        return judged

    def _with_dense_dual(self, solution: Solution[FactorPoint]) -> Solution[FactorPoint]:
        """Return a solution on observed entries alone with its dual point as a whole table."""
        if solution.point.dual is None:
            return solution
        matrix: Any = self.data.layout.matrix(solution.point.dual)
        dual = matrix.toarray()
        return replace(solution, point=replace(solution.point, dual=dual))

    def prox(self, A: Array, rho: float | Array, B: Array | None) -> tuple[Array, Array | None]:
        """Return argmin over P and B of L(P + D B) + ridge + sum (rho/2)(P - A)^2.

        B minimizes the Moreau envelope of L, which is smooth even where L has kinks.
        """
        data = self.data
        design = self.design
        if design is None:
            return data.prox(A, rho), None
        layout = data.layout
        rho = np.broadcast_to(np.asarray(rho, A.dtype), A.shape)
        if B is None:
            B = np.zeros((design.D.shape[1], data.shape[1]), data.dtype)
        if data.quadratic:
            for _ in range(2 if B.dtype == np.float32 else 1):
                _, g, h = self._envelope(A + layout.apply(design.D, B), rho)
                B = newton_step(g, h, design.D, B, design.strengths, layout)
                if design.columns is not None:
                    B = design.kept(B)
        else:

            def evaluate(B: Array) -> tuple[Array, Array, Array]:
                V, g, h = self._envelope(A + layout.apply(design.D, B), rho)
                costs = layout.column_sums(np.square(g) / rho) / 2
                return data.column_values(V) + costs, g, h

            done = False
            if data.smooth:
                # Where a Newton step promises little it is as good as the minimum: what it leaves
                # is of second order, and the next prox starts from there.
                _, g, h = self._envelope(A + layout.apply(design.D, B), rho)
                gradient = layout.adjoint(design.D, g) + design.strengths[:, None] * B
                step = layout.solve_columns(design.D, h, design.strengths, gradient)
                promised = (step * gradient).sum(axis=0) / 2
                costs = layout.column_sums(np.square(g) / rho) / 2
                done = bool((promised <= LITTLE_DECREASE * costs).all())
            if done:
                B = design.kept(B - step)
            else:
                B = design.minimize(evaluate, B, rho, layout)
        shift = layout.apply(design.D, B)
        return data.prox(A + shift, rho) - shift, B

    def _envelope(self, A: Array, rho: Array) -> tuple[Array, Array, Array]:
        """Return the prox of L at A, and gradient and curvature of its Moreau envelope there."""
        V = self.data.prox(A, rho)
        h = self.data.hessian(V)
        with np.errstate(invalid="ignore"):
            curvature = np.where(np.isinf(h), rho, rho * h / (h + rho))
        return V, rho * (A - V), curvature


def convex(
    X: Any,
    loss: Loss,
    gauge: Gauge,
    alpha: float,
    rows: Array | None = None,
    entries: Any = None,
    design: Design | None = None,
    limits: Array | None = None,
) -> Convex:
    """Return the convex problem of a table, dense or sparse; weights act as repetition counts.

    In a norm of power p on the codes, w equal rows count like one that is w^(1/p) times as long.
    """
    data = Data.of(X, loss, entries, limits=limits)
    if rows is None:
        return Convex(data, gauge, alpha, design=design)
    if np.isfinite(gauge.power):
        factors = rows ** (-1 / gauge.power)
    else:
        factors = np.ones(len(rows))
    return Convex(
        data.weighted(rows),
        gauge,
        alpha,
        RowScale(factors.astype(X.dtype)),
        design,
    )
