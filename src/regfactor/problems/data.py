"""The data of a problem: terms, each a loss on the observed entries of some columns.

Only here are losses summed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.batched_newton import Expansion
from regfactor.core.factors import Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses import Loss, Squared, as_loss
from regfactor.losses.base import EVERYTHING
from regfactor.problems.checks import check_row_weights, check_table, check_term, entry_weights
from regfactor.problems.layout import Dense, Layout, Pattern
from regfactor.problems.term import FILLER, Term

STRETCH = 200_000  # entries of a sparse table that are evaluated at once
ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a sum, as a share of the sizes of its terms
# entries of a dense table that are expanded at once, so that what is computed on the way stays
# cached
STRIP = 16_000


@dataclass(frozen=True, eq=False)
class Data:
    """All terms of a table: L(Z) = sum over observed entries of w f(z; x)."""

    terms: tuple[Term, ...]
    shape: tuple[int, int]
    layout: Layout

    @staticmethod
    def of(
        X: Array,
        loss: Loss | str,
        weights: Array | None = None,
        offset: Array | None = None,
    ) -> Data:
        """Return the data of a table whose holes are NaN.

        Weights for rows (n,) or entries (n, d).
        """
        if not isinstance(loss, Loss):
            loss = as_loss(loss)
        observed = ~np.isnan(X)
        check_table(X, observed)
        w = entry_weights(observed, weights, X.dtype)
        if observed.all():
            filled = X
        else:
            filled = np.where(observed, X, X.dtype.type(FILLER))
        terms = []
        for columns, part in loss.parts(X.shape[1]):
            term = Term(
                part,
                columns,
                filled[:, columns],
                None if w is None else w[:, columns],
                None
                if offset is None
                else np.asarray(np.broadcast_to(offset, X.shape)[:, columns], X.dtype),
            )
            check_term(
                part,
                term.x,
                observed[:, columns],
                Dense(term.x.shape),
                np.arange(X.shape[1])[columns].tolist(),
            )
            check_row_weights(part, term.w)
            terms.append(term)
        return Data(tuple(terms), X.shape, Dense(X.shape))

    @staticmethod
    def of_sparse(X: Any, loss: Loss | str, weights: Array | None = None) -> Data:
        """Return the data of a CSR table whose absent entries are unobserved.

        Weights for rows (n,) or entries.
        """
        if not isinstance(loss, Loss):
            loss = as_loss(loss)
        pattern = Pattern.of(X)
        observed = np.ones((X.nnz, 1), bool)
        check_table(X.data[:, None], observed)
        check_term(loss, X.data, observed[:, 0], pattern)
        if loss.rowwise or len(loss.parts(X.shape[1])) > 1:
            raise ValueError(
                f"A sparse table takes one elementwise loss, not {loss}; give it as a dense table "
                "with NaN.",
            )
        if weights is not None:
            if np.ndim(weights) == 1:
                weights = np.asarray(weights)[pattern.rows]
            else:
                weights = pattern.entries(weights)
            weights = entry_weights(observed, weights[:, None], X.dtype)
        term = Term(loss, EVERYTHING, X.data, None if weights is None else weights[:, 0])
        return Data((term,), X.shape, pattern)

    def compacted(self) -> Data:
        """Return the same data with the observed entries alone.

        Only for one elementwise loss on all columns.
        """
        term = self.terms[0]
        observed = self.observed
        pattern = Pattern.of(scipy.sparse.csr_array(observed))
        kept = term.mapped(lambda a: np.broadcast_to(a, self.shape)[observed])
        return Data(
            (replace(kept, w=None) if kept.w is None or np.all(kept.w == 1) else kept,),
            self.shape,
            pattern,
        )

    @property
    def observed(self) -> Array:
        """Which entries of a dense table have weight."""
        seen = np.ones(self.shape, bool)
        for t in self.terms:
            if t.w is not None:
                seen[:, t.columns] = t.weights > 0
        return seen

    @property
    def dtype(self) -> Any:
        """Return the precision of the data."""
        return self.terms[0].x.dtype

    @property
    def T(self) -> Data:
        """The transposed table; only for one loss on all columns."""
        if len(self.terms) > 1 or self.terms[0].loss.rowwise:
            raise ValueError("Only a table with one elementwise loss can be transposed.")
        return Data((self.terms[0].mapped(lambda a: a.T),), self.shape[::-1], self.layout.T)

    def only(self, term: Term) -> Data:
        """Return the data of one term as a table of its own."""
        if term.columns is EVERYTHING:
            return self
        return Data((replace(term, columns=EVERYTHING),), term.x.shape, Dense(term.x.shape))

    def astype(self, dtype: Any) -> Data:
        """Return the same data in another precision."""
        if dtype == self.dtype:
            return self
        return replace(self, terms=tuple(t.astype(dtype) for t in self.terms))

    def weighted(self, rows: Array) -> Data:
        """Return the data with every row's loss multiplied by its weight."""
        rows = self.layout.spread_rows(rows.astype(self.dtype))
        terms = (
            replace(t, w=np.broadcast_to(rows, t.x.shape) if t.w is None else t.w * rows)
            for t in self.terms
        )
        return replace(self, terms=tuple(terms))

    def shifted(self, D: Array, B: Array) -> Data:
        """Return the data with D @ B added to the offset of the predictors."""
        by = self.layout.apply(D, B)
        terms = (
            replace(t, offset=t.part(by) if t.offset is None else t.offset + t.part(by))
            for t in self.terms
        )
        return replace(self, terms=tuple(terms))

    def split(
        self,
        share: float,
        random: np.random.Generator,
        groups: Array | None = None,
    ) -> tuple[Data, Data]:
        """Return two tables: a random share of the observed entries is in the second.

        Entries of a row whose columns have the same group stand for one cell, and stay together.
        """
        if any(t.loss.rowwise for t in self.terms):
            raise UnsupportedProblem(
                "Single entries cannot be held out under a loss of whole rows, so that 'auto' "
                "cannot choose: give alpha (and the rank) a number.",
            )
        if groups is not None:
            drawn = random.random((self.shape[0], int(groups.max()) + 1))[:, groups] < share
            if isinstance(self.layout, Pattern):
                held = drawn[self.layout.rows, self.layout.indices]
            else:
                held = drawn
        else:
            held = (
                random.random(self.terms[0].x.shape if self.layout.sparse else self.shape) < share
            )
        return self.kept(~held), self.kept(held)

    def kept(self, kept: Array) -> Data:
        """Return the data of some of the entries."""
        if isinstance(self.layout, Pattern):
            return replace(
                self,
                terms=(self.terms[0].mapped(lambda a: a[kept]),),
                layout=self.layout.only(kept),
            )
        weights = ((t, 1 if t.w is None else t.w) for t in self.terms)
        terms = (replace(t, w=np.where(t.part(kept), w, 0).astype(self.dtype)) for t, w in weights)
        return replace(self, terms=tuple(terms))

    def of_rows(self, rows: Any) -> Data:
        """Return the data of some rows, given by their numbers or, of a dense table, by a slice."""
        if isinstance(self.layout, Pattern):
            layout, places = self.layout.of_rows(rows)
            return Data((self.terms[0].mapped(itemgetter(places)),), layout.shape, layout)
        assert isinstance(self.layout, Dense)
        terms = tuple(t.mapped(itemgetter(rows)) for t in self.terms)
        shape = len(terms[0].x), self.shape[1]
        return Data(terms, shape, Dense(shape))

    @property
    def complete(self) -> bool:
        """Whether every entry is observed and none is weighted."""
        return not self.layout.sparse and all(t.w is None for t in self.terms)

    @property
    def smooth(self) -> bool:
        """Whether every loss has a gradient everywhere."""
        return all(t.loss.smooth for t in self.terms)

    @property
    def quadratic(self) -> bool:
        """Whether every loss is quadratic in the predictor: one Newton step is exact."""
        return all(isinstance(t.loss, Squared) for t in self.terms)

    @property
    def curvature(self) -> float:
        """Return an upper bound of the curvature of L, infinite where there is none."""
        return max(
            t.loss.curvature * (1.0 if t.w is None else float(t.w.max(initial=0)))
            for t in self.terms
        )

    def smoothed(self, share: float) -> Data:
        """Return the data under losses smoothed over a share of the typical size of their data."""
        terms = (replace(t, loss=t.loss.smoothed(share * t.size)) for t in self.terms)
        return replace(self, terms=tuple(terms))

    @property
    def size(self) -> float:
        """Return the typical size of the data, zero for none."""
        return max(t.size for t in self.terms)

    @cached_property
    def _pieces(self) -> tuple[Term, ...]:
        """The terms; a long vector of entries in pieces, whose temporaries stay in the cache."""
        if self.layout.sparse and self.terms[0].x.size > STRETCH:
            return self.terms[0].stretches(STRETCH)
        return self.terms

    def value(self, Z: Array | Factors) -> float:
        """L(Z)."""
        Z = self.layout.entries(Z)
        return float(sum(t.losses(t.part(Z)).sum(dtype=np.float64) for t in self._pieces))

    def smallest_loss(self) -> float:
        """Return the least loss that is more than nothing.

        A share of what predictors of zero leave, without offsets.

        A loss of the residual, which has them, can fall to its rounding error; others approach an
        infimum without end.
        """
        rests = ((t, np.zeros_like(t.x)) for t in self._pieces)
        parts = (
            1e-24 * t.losses(z) if t.loss.of_residual else 1e-9 * t.weigh(t.loss.value(z, t.x))
            for t, z in rests
        )
        return float(sum(np.abs(part).sum(dtype=np.float64) for part in parts))

    def column_values(self, Z: Array | Factors) -> Array:
        """L(Z) by columns, summed in float64."""
        return self.layout.column_sums(self._values(Z))

    def losses(self, Z: Array | Factors) -> Array:
        """Return the loss of each observed entry, as a vector."""
        values = self._values(Z)
        if self.layout.sparse:
            return values
        return values[self.observed]

    def row_values(self, Z: Array | Factors) -> Array:
        """L(Z) by rows, summed in float64."""
        return self.layout.row_sums(self._values(Z))

    def _values(self, Z: Array | Factors) -> Array:
        Z = self.layout.entries(Z)
        return self.collect(lambda t: t.losses(t.part(Z)))

    def gradient(self, Z: Array | Factors) -> Array:
        """dL/dZ, zero at holes."""
        Z = self.layout.entries(Z)
        return self.collect(lambda t: t.weigh(t.loss.gradient(t.legal(t.at(Z)), t.x)))

    def value_and_gradient(self, Z: Array | Factors) -> tuple[float, Array]:
        """L(Z) and its gradient."""
        Z = self.layout.entries(Z)
        return self.value(Z), self.gradient(Z)

    def hessian(self, Z: Array | Factors) -> Array:
        """Return the second derivative of L in each entry, zero at holes."""
        Z = self.layout.entries(Z)
        return self.collect(lambda t: t.weigh(t.loss.hessian(t.legal(t.at(Z)), t.x)))

    def expansion(self, Z: Array | Factors, out: Expansion | None = None) -> Expansion:
        """Return loss, gradient and second derivative in each entry.

        The loss is infinite outside a link domain.

        They are written to `out` where it is given: fresh memory costs as much as the arithmetic.
        """
        Z = self.layout.entries(Z)
        out = out or (np.empty_like(Z), np.empty_like(Z), np.empty_like(Z))
        for at, t in self._strips:
            parts = [whole[at] for whole in out]
            z = Z[at] if t.offset is None else Z[at] + t.offset
            outside = None if t.loss.unbounded else ~t.loss.link_domain.contains(z)
            if outside is not None:
                z = np.where(outside, z.dtype.type(self.neutral), z)
            t.loss.expand(z, t.x, parts[0], parts[1], parts[2])
            if outside is not None:
                parts[0][outside & (True if t.w is None else t.w > 0)] = np.inf
            for whole, part in zip(out, parts, strict=True):
                if t.w is not None:
                    part *= t.w
                if not isinstance(t.columns, slice):  # then a part is a copy
                    whole[at] = part
        return out

    @cached_property
    def infimum(self) -> float:
        """The least that L could be if every entry had a predictor of its own.

        -L*(0), rounded down as L* is up.
        """
        least = (t.weigh(t.loss.conjugate(np.zeros_like(t.x), t.x)) for _, t in self._strips)
        return -float(sum((part + ROUNDING * np.abs(part)).sum(dtype=np.float64) for part in least))

    @cached_property
    def _strips(self) -> list[tuple[Any, Term]]:
        """The terms in pieces that are expanded at once, and where their entries stand."""
        if self.layout.sparse:
            return [(t.columns, t) for t in self._pieces]
        n, d = self.shape
        height = max(STRIP // max(d, 1), 1)
        strips = [slice(start, start + height) for start in range(0, n, height)]
        return [
            ((rows, t.columns), t.mapped(itemgetter(rows))) for rows in strips for t in self.terms
        ]

    def newton_displacement(self, P: Array) -> Array:
        """Return how far each predictor is from the one that fits its datum best.

        A Newton step where none does.
        """

        def one(t: Term) -> Array:
            z = t.legal(t.at(P))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                best = t.loss.inverse_gradient(np.zeros_like(z), t.x) - z
            bend = t.loss.hessian(z, t.x)
            newton = -t.loss.gradient(z, t.x) / np.where((bend > 0) & np.isfinite(bend), bend, 1)
            way = np.where(np.isfinite(best), best, newton)
            if t.w is None:
                return way
            return np.where(t.w > 0, way, 0)

        return self.collect(one)

    def majorant(self) -> Array:
        """Return a bound of the second derivative of each entry, infinite where there is none."""
        return self.collect(lambda t: t.weigh(np.full(t.x.shape, t.loss.curvature, t.x.dtype)))

    def conjugate(self, Y: Array) -> float:
        """L*(Y), infinite for a Y that is not zero at holes."""
        total = 0.0
        Y = self.layout.entries(Y)
        for t in self._pieces:
            y = t.part(Y)
            if t.w is not None and np.any(y[t.w == 0]):
                return np.inf
            parts = t.weigh(t.loss.conjugate(t.in_units(y), t.x)) - (
                0 if t.offset is None else y * t.offset
            )
            # rounded up past the rounding of its own terms, so that no bound lies above the truth
            rounding = ROUNDING * float(np.abs(parts).sum(dtype=np.float64))
            total += float(parts.sum(dtype=np.float64)) + rounding
        return total

    def feasible(self, Y: Array) -> Array:
        """Return Y moved into the domain of L*."""
        Y = self.layout.entries(Y)
        return self.collect(lambda t: t.weigh(t.loss.feasible(t.in_units(t.part(Y)), t.x)))

    def dual_slack(self, Y: Array) -> Array:
        """Return how far each entry of Y can move.

        The curvature where L has gradient Y, within the domain of L*.
        """
        Y = self.layout.entries(Y)

        def one(t: Term) -> Array:
            y = t.in_units(t.part(Y))
            low, high = t.loss.dual_domain(t.x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                bend = t.loss.hessian(t.legal(t.loss.inverse_gradient(y, t.x)), t.x)
            inside = np.minimum(y - low, high - y)
            return t.weigh(np.maximum(np.fmin(bend, inside), 0))

        return self.collect(one)

    def max_feasible_scale(self, Y: Array, most: float = 1.0) -> float:
        """Return the largest s <= most such that s Y is in the domain of L*."""
        Y = self.layout.entries(Y)
        ends = (t.feasible_scales(t.part(Y), most) for t in self._pieces)
        least = (float(np.nanmin(each, initial=most)) for each in ends if each is not None)
        return max(min([float(most), *least]), 0.0)

    def infeasible_columns(self, Y: Array) -> Array:
        """Return the columns of which less than half of Y is in the domain of L*."""
        Y = self.layout.entries(Y)
        whole = all(t.whole_line for t in self.terms)

        def one(t: Term) -> Array:
            ends = t.feasible_scales(t.part(Y), 1.0)
            if ends is None:
                return np.zeros_like(t.x)
            return (ends < 0.5).astype(t.x.dtype)

        if whole:
            return np.zeros(self.shape[1], bool)
        return self.layout.column_sums(self.collect(one)) > 0

    @property
    def unbounded(self) -> bool:
        """Whether every loss takes predictors on the whole line."""
        return all(t.loss.unbounded for t in self.terms)

    @property
    def neutral(self) -> float:
        """Return a predictor that every loss can take."""
        positive = all(t.loss.link_domain.contains(np.ones(1))[0] for t in self.terms)
        if self.unbounded:
            return 0.0
        if positive:
            return 1.0
        return -1.0

    def inside(self, Z: Array) -> Array:
        """Return which rows have all their observed predictors inside the link domains."""
        legal = [
            t.loss.link_domain.contains(t.at(Z)) | (False if t.w is None else t.w == 0)
            for t in self.terms
        ]
        return np.all([part.all(axis=1) for part in legal], axis=0)

    def prox(self, A: Array, rho: float | Array) -> Array:
        """Return argmin_Z L(Z) + sum (rho/2) (Z - A)^2.

        Rho is a number, one per column or one per entry.
        """
        rho = np.asarray(rho, A.dtype)

        def one(t: Term) -> Array:
            a = t.at(A)
            r = rho if rho.ndim == 0 or rho.shape[-1] == 1 else rho[..., t.columns]
            z = t.loss.prox(t.legal(a), r if t.w is None else r / np.where(t.w > 0, t.w, 1), t.x)
            z = z if t.w is None else np.where(t.w > 0, z, a)
            if t.offset is None:
                return z
            return z - t.offset

        return self.collect(one)

    def predict(self, Z: Array) -> Array:
        """Return the predictions in the units of the data."""
        return self.collect(lambda t: t.loss.predict(t.legal(t.at(Z))))

    def collect(self, of: Callable[[Term], Array]) -> Array:
        """Lay the arrays of all terms side by side in the columns they stand for."""
        pieces = self._pieces
        first = of(pieces[0])
        if pieces[0].columns is EVERYTHING:
            return first
        whole = np.empty(self.terms[0].x.shape if self.layout.sparse else self.shape, first.dtype)
        for t in pieces:
            whole[..., t.columns] = first if t is pieces[0] else of(t)
        return whole


def data_of(X: Any, loss: Loss, weights: Any = None) -> Data:
    """Return the data of a table.

    Dense with NaN at holes, or sparse with absent entries unobserved.
    """
    if is_sparse(X):
        return Data.of_sparse(X, loss, weights)
    return Data.of(X, loss, weights)
