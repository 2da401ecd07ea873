"""The factored problem, L(Phi C) + alpha (R1(Phi) + R2(C)) at a fixed rank.

Local: no certificate is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Limits
from regfactor.core.params import Array, UnsupportedProblem, is_number, wrong_part
from regfactor.penalties import Free, OneHot, Penalty, Proximable, Simplex, Smooth
from regfactor.problems.base import Problem
from regfactor.problems.data import Data
from regfactor.problems.design import Design, shifted

LBFGS = "regfactor.solvers.lbfgs:Lbfgs"
ALTERNATING = "regfactor.solvers.alternating:Alternating"


@dataclass(frozen=True, eq=False)
class Factored(Problem[FactorPoint]):
    """sum_t w_t [L_t(phi_t C) + alpha R1(phi_t)] + alpha R2(C).

    Entries of `known_*` that are not NaN are held.

    Weights act as repetition counts, in the loss and in the penalty of the codes. Two free terms
    may be added to Phi C: D @ B of a `design`, and codes of the given `extra_components`, which
    come last in the factors.
    """

    data: Data
    on_codes: Penalty = field(default_factory=Free)
    on_components: Penalty = field(default_factory=Free)
    rank: int = 1
    alpha: float = 1.0
    known_codes: Array | None = None
    known_components: Array | None = None
    row_weights: Array | None = None
    design: Design | None = None
    extra_components: Array | None = None
    solvers = (LBFGS, ALTERNATING)

    def candidates(self, limits: Limits) -> tuple[str, ...]:
        """Return the one solver: others know no losses of whole rows, and hold entries by steps."""
        held = self.known_codes is not None or self.known_components is not None
        if self.smooth and (self.data.rowwise or held):
            return (LBFGS,)
        return (ALTERNATING,)

    @property
    def extra_rows(self) -> Array:
        """The extra components, no row where there are none."""
        if self.extra_components is None:
            return np.zeros((0, self.data.shape[1]), self.data.dtype)
        return self.extra_components

    @property
    def sparse(self) -> bool:
        """Whether only the observed entries of the table are held."""
        return self.data.layout.sparse

    @property
    def smallest_tol(self) -> float:
        """Tolerance below which a change cannot be distinguished from rounding of the data."""
        return float(np.finfo(self.data.dtype).eps)

    def check(self) -> None:
        """Raise, before any work, for parts that do not fit."""
        if not isinstance(self.data, Data):
            raise wrong_part("data", self.data, Data, "Data.of(X, 'squared')")
        for name, penalty in (("on_codes", self.on_codes), ("on_components", self.on_components)):
            if not isinstance(penalty, Penalty):
                raise wrong_part(name, penalty, Penalty, "regfactor.penalties.SquaredL2()")
        if not (is_number(self.alpha) and 0 <= self.alpha < np.inf):
            raise ValueError(f"alpha must be a finite number >= 0, got {self.alpha!r}.")
        if not (isinstance(self.rank, int | np.integer) and self.rank >= 1):
            raise ValueError(f"rank must be a whole number of at least one, got {self.rank!r}.")
        n, d = self.data.shape
        if isinstance(self.on_codes, OneHot | Simplex) and self.rank > n:
            raise ValueError(f"rank must be at most n = {n} for {self.on_codes}, got {self.rank}.")
        self._check_factor("codes", self.on_codes, (n, self.rank), self.known_codes)
        self._check_factor("components", self.on_components, (self.rank, d), self.known_components)
        if not self.on_codes.rowwise and self.row_weights is not None:
            raise UnsupportedProblem(
                f"on_codes={self.on_codes} couples rows, among which weights cannot act as "
                "repetition counts: leave sample_weight out."
            )
        self._check_signs()

    def _check_factor(
        self,
        name: str,
        penalty: Penalty,
        shape: tuple[int, int],
        known: Array | None,
    ) -> None:
        """Raise for a penalty that has no update, or does not fit the factor or what is known."""
        if not isinstance(penalty, Proximable) and penalty.ridge is None:
            raise UnsupportedProblem(
                f"on_{name}={penalty} couples rows and has no update here: it lacks the ability "
                "Proximable of regfactor/penalties/factor.py. Use the gauge it induces "
                "(rank=None), or SquaredL2 on both factors."
            )
        penalty.check(shape)
        if known is None:
            return
        if np.shape(known) != shape:
            raise ValueError(f"known_{name} must be of shape {shape}, got {np.shape(known)}.")
        if np.isinf(known).any():
            raise ValueError(f"known_{name} must be finite, or NaN where they are not known.")
        held: Any = ~np.isnan(known)
        mixed = held.any(axis=1) & ~held.all(axis=1)
        if mixed.any() and not penalty.separable:
            raise UnsupportedProblem(
                f"on_{name}={penalty} is no sum over entries, so that its rows must be known as a "
                f"whole or not at all; row {int(mixed.argmax())} of known_{name} is known in part."
            )
        whole = held.all(axis=1)
        if penalty.rowwise and whole.any():
            costs = penalty.rows(np.where(whole[:, None], known, 0.0))
            if np.isinf(costs[whole]).any():
                row = int(np.flatnonzero(whole & np.isinf(costs))[0])
                raise ValueError(f"Row {row} of known_{name} violates on_{name}={penalty}.")

    def _check_signs(self) -> None:
        """Raise for a loss of predictors >= 0 whose factors can make others."""
        restricted = [t.loss for t in self.data.terms if t.loss.link_domain.low == 0]
        # then a predictor is a center, which is a mean of the data
        chosen = isinstance(self.on_codes, OneHot)
        if not restricted or chosen:
            return
        penalties = (self.on_codes, self.on_components)
        if not all(penalty.non_negative for penalty in penalties):
            raise UnsupportedProblem(
                f"{restricted[0]} takes predictors >= 0 only, and these factors can make others. "
                "Use on_codes=NonNegative() and on_components=NonNegative(), or a loss on the "
                "whole line.",
            )

    @property
    def floor(self) -> float:
        """The smallest scale against which a change is measured."""
        data = self.data
        constant = np.asarray(data.neutral, data.dtype)
        return 1e-3 * abs(data.value(np.broadcast_to(constant, data.entries_shape)))

    def objective(self, F: Factors, B: Array | None = None) -> float:
        """Return the objective of given factors and free coefficients."""
        data = shifted(self.data, self.design, B)
        k = F.rank - len(self.extra_rows)
        rows = data.row_values(F)
        coupled = 0.0
        if not self.on_codes.rowwise:
            coupled = self.alpha * self.on_codes.value(F.codes[:, :k])
        else:
            on_codes = self.on_codes.rows(F.codes[:, :k])
            if on_codes.any():
                rows = rows + self.alpha * on_codes
        total = float(rows.sum() if self.row_weights is None else self.row_weights @ rows)
        total += coupled
        on_components = self.on_components.value(F.C[:k])
        if on_components:
            total += self.alpha * on_components
        return total

    @property
    def weighted(self) -> Data:
        """Return the data with the weights of rows multiplied in, as the components see them."""
        if self.row_weights is None:
            return self.data
        return self.data.weighted(self.row_weights)

    def hold(self, F: Factors) -> Factors:
        """Return the factors with their known entries in place."""
        codes = _with_known(F.codes, self.known_codes, self.known_codes)
        return Factors(codes, _with_known(F.C, self.known_components, self.known_components))

    @property
    def smooth(self) -> bool:
        """Whether the objective has a gradient everywhere."""
        penalties = isinstance(self.on_codes, Smooth) and isinstance(self.on_components, Smooth)
        return penalties and self.data.smooth

    def pack(self, point: FactorPoint) -> Array:
        """Return factors and free coefficients as one vector."""
        F = point.factors
        parts = [F.codes.ravel(), F.C.ravel()]
        if point.coefficients is not None:
            parts.append(point.coefficients.ravel())
        return np.concatenate(parts)

    def unpack(self, packed: Array) -> FactorPoint:
        """Return the factors and free coefficients of a packed vector."""
        n, d = self.data.shape
        k = self.rank
        codes = packed[: n * k].reshape(n, k)
        C = packed[n * k : (n + d) * k].reshape(k, d)
        B = None
        if self.design is not None:
            B = packed[(n + d) * k :].reshape(-1, d)
        return FactorPoint(Factors(codes, C), B)

    def value_and_gradient(self, packed: Array) -> tuple[float, Array]:
        """Return the objective and its gradient at packed factors, zero at known entries."""
        point = self.unpack(packed)
        F = self.hold(point.factors)
        B = point.coefficients
        assert isinstance(self.on_codes, Smooth) and isinstance(self.on_components, Smooth)
        layout = self.data.layout
        data = self.weighted
        slope = None
        if self.design is not None and B is not None:
            data = data.shifted(self.design.D, B)
        g = data.gradient(F)
        if self.design is not None and B is not None:
            slope = layout.adjoint(self.design.D, g) + self.design.strengths[:, None] * B
        rows = 1.0 if self.row_weights is None else self.row_weights[:, None]
        on_codes = layout.times(g, F.C.T) + self.alpha * rows * self.on_codes.gradient(F.codes)
        on_components = layout.adjoint(F.codes, g) + self.alpha * self.on_components.gradient(F.C)
        gradient = Factors(
            _with_known(on_codes, self.known_codes, 0),
            _with_known(on_components, self.known_components, 0),
        )
        return self.objective(F, B), self.pack(FactorPoint(gradient, slope))


def _with_known(A: Array, known: Array | None, value: Any) -> Array:
    """Return A with a value at the known entries."""
    if known is None:
        return A
    return np.where(np.isnan(known), A, value)
