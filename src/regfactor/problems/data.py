"""The data of a problem: terms, each a loss on some columns, and sums over their entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import xlogy

from regfactor.core.batched_newton import Expansion
from regfactor.core.factors import Factors
from regfactor.core.params import EPS, Array, UnsupportedProblem
from regfactor.losses import Censored, Loss, Squared, as_loss
from regfactor.losses.base import EVERYTHING, as_cells, float_type, in_precision, numbers_of
from regfactor.problems.checks import check_row_weights, check_table, check_term, entry_weights
from regfactor.problems.layout import Dense, Layout, Pattern

SPARSE_BLOCK_ENTRIES = 200_000  # entries of a sparse table that are evaluated at once
# relative rounding error of a sum, as a share of the sizes of its terms
SUM_ROUNDING = 4 * EPS
# entries of a dense table that are expanded at once, so that temporaries stay in the cache
DENSE_BLOCK_ENTRIES = 16_000
# the value at missing entries: inside the domain of every loss, so that nothing there is infinite
FILLER = 0.5


@dataclass(frozen=True, eq=False)
class Term:
    """A loss on some columns, with data x, weights w and an offset of the predictor.

    Weights None are all one; an entry of weight zero is missing.
    """

    loss: Loss
    columns: Any
    x: Array
    w: Array | None = None
    offset: Array | None = None

    def at(self, Z: Array) -> Array:
        """Return the predictors of this term, of missing entries inside the link domain."""
        z = self.part(Z)
        if self.offset is not None:
            z = z + self.offset
        if self.w is None or self.loss.unbounded:
            return z
        return self.legal(z)

    def part(self, entries: Array) -> Array:
        """Return the entries of this term's columns; of a sparse table, those of its stretch."""
        if self.columns is EVERYTHING:
            return entries
        return entries[..., self.columns]

    @property
    def weights(self) -> Array:
        """Return the weight of each entry."""
        if self.w is None:
            return np.ones(self.x.shape, float_type(self.x))
        return np.broadcast_to(self.w, self.x.shape)

    @property
    def numbers(self) -> Array:
        """Return the data, NaN where only limits are known."""
        return numbers_of(self.x)

    @property
    def target(self) -> Array:
        """x - offset, NaN where only limits are known."""
        if self.offset is None:
            return self.numbers
        return self.numbers - self.offset

    @property
    def size(self) -> float:
        """Return the median distance of the observed data from the offset; one instead of zero."""
        distances = np.abs(self.target)
        if self.w is not None:
            distances = distances[self.w > 0]
        known = distances[~np.isnan(distances)]
        return (float(np.median(known)) if known.size else 0.0) or 1.0

    def shifted(self, by: Array) -> Term:
        """Return this term with something added to its offset."""
        if self.offset is not None:
            by = self.offset + by
        return replace(self, offset=by)

    def losses(self, Z: Array) -> Array:
        """Return the weighted loss of each entry."""
        return self.weigh(self.loss.value(self.at(Z), self.x))

    def weigh(self, values: Array) -> Array:
        """Return the values times their weights; zero where missing, whatever the value."""
        if self.w is None:
            return values
        return self.w * np.where(self.w > 0, values, 0)

    def feasible_scales(self, Y: Array, most: float) -> Array:
        """Return the largest s <= most of each entry such that s Y is in the domain of L*."""
        y = self.in_units(self.part(Y))
        low, high = self.loss.dual_domain(self.x)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scales = np.where(most * y < low, low / y, most)
            return np.where(most * y > high, high / y, scales)

    def in_units(self, y: Array) -> Array:
        """Return y per unit of weight, zero at missing entries."""
        if self.w is None:
            return y
        observed = self.w > 0
        return np.where(observed, y / np.where(observed, self.w, 1), 0)

    def legal(self, z: Array) -> Array:
        """Return z with missing entries moved into the link domain."""
        if self.w is None:
            return z
        domain = self.loss.link_domain
        safe = domain.high - 1
        if np.isfinite(domain.low):
            safe = domain.low + 1
        allowed = (self.w > 0) | domain.contains(z)
        return np.where(allowed, z, safe)

    def stretches(self, length: int) -> tuple[Term, ...]:
        """Return the same vector of entries in stretches that share its arrays."""
        places = [slice(start, start + length) for start in range(0, self.x.size, length)]
        return tuple(replace(self.mapped(itemgetter(at)), columns=at) for at in places)

    def astype(self, dtype: Any) -> Term:
        """Return the same term in another precision."""
        return self.mapped(lambda a: in_precision(a, dtype))

    def mapped(self, of: Callable[[Array], Array]) -> Term:
        """Return this term with every array replaced by a function of it."""
        w = None if self.w is None else of(self.w)
        offset = None if self.offset is None else of(self.offset)
        return Term(self.loss, self.columns, of(self.x), w, offset)


@dataclass(frozen=True, eq=False)
class Data:
    """All terms of a table: L(Z) = sum over observed entries of w f(z; x).

    Attributes
    ----------
    entries_shape : tuple of int
        Shape of an array of entries.
    pieces : tuple of Term
        The terms; a long vector of entries in pieces, whose temporaries stay in the cache.
    complete : bool
        Whether every entry is observed and none is weighted.
    smooth : bool
        Whether every loss has a gradient everywhere.
    quadratic : bool
        Whether every loss is quadratic in the predictor: one Newton step is exact.
    unbounded : bool
        Whether every loss takes predictors on the whole line.
    rowwise : bool
        Whether a loss couples the entries of a row.
    proximable : bool
        Whether every loss has an elementwise prox.
    """

    terms: tuple[Term, ...]
    shape: tuple[int, int]
    layout: Layout
    dtype: Any = field(init=False)
    entries_shape: tuple[int, ...] = field(init=False)
    pieces: tuple[Term, ...] = field(init=False)
    complete: bool = field(init=False)
    smooth: bool = field(init=False)
    quadratic: bool = field(init=False)
    unbounded: bool = field(init=False)
    rowwise: bool = field(init=False)
    proximable: bool = field(init=False)

    def __post_init__(self) -> None:
        first = self.terms[0]
        pieces = self.terms
        if self.layout.sparse and first.x.size > SPARSE_BLOCK_ENTRIES:
            pieces = first.stretches(SPARSE_BLOCK_ENTRIES)
        dtype = first.x.dtype
        if dtype.names is not None:
            dtype = float_type(first.x)
        complete = not self.layout.sparse
        smooth = True
        quadratic = True
        unbounded = True
        rowwise = False
        proximable = True
        for t in self.terms:
            complete = complete and t.w is None
            smooth = smooth and t.loss.smooth
            quadratic = quadratic and isinstance(t.loss, Squared)
            unbounded = unbounded and t.loss.unbounded
            rowwise = rowwise or t.loss.rowwise
            proximable = proximable and t.loss.proximable
        self.__dict__.update(
            dtype=dtype,
            entries_shape=first.x.shape if self.layout.sparse else self.shape,
            pieces=pieces,
            complete=complete,
            smooth=smooth,
            quadratic=quadratic,
            unbounded=unbounded,
            rowwise=rowwise,
            proximable=proximable,
        )

    @staticmethod
    def of(
        X: Any,
        loss: Loss | str,
        weights: Any = None,
        offset: Array | None = None,
        limits: Array | None = None,
    ) -> Data:
        """Return the data of a table with NaN at missing entries; absent ones if it is sparse.

        Weights are those of rows (n,) or of entries (n, d). Limits (2, n, d) are infinite where
        they are open; entries between them are known in the columns of a `Censored` loss.
        """
        if scipy.sparse.issparse(X):
            return Data.of_sparse(X, loss, weights)
        if not isinstance(loss, Loss):
            loss = as_loss(loss)
        observed = ~np.isnan(X)
        numbers = observed
        if limits is not None:
            observed = observed | np.isfinite(limits).any(axis=0)
        if X.ndim != 2 or not observed.any() or np.isinf(X).any():
            check_table(X, observed)
        filled = X
        w = None
        if not observed.all():
            filled = np.where(observed, X, X.dtype.type(FILLER))
            w = observed.astype(X.dtype)
        if weights is not None:
            w = entry_weights(observed, weights, X.dtype)
        if offset is not None:
            offset = np.broadcast_to(np.asarray(offset, X.dtype), X.shape)
        terms = []
        for columns, part in loss.parts(X.shape[1]):
            term = Term(part, columns, filled, w, offset)
            if limits is not None and isinstance(part, Censored):
                known = numbers | ~observed
                low = np.where(known, filled, limits[0])
                high = np.where(known, filled, limits[1])
                term = replace(term, x=as_cells(low, high))
            seen = observed
            if columns is not EVERYTHING:
                term = term.mapped(itemgetter((slice(None), columns)))
                seen = observed[:, columns]
            if part.rowwise or not (part.legal(term.x) | ~seen).all():
                places = np.arange(X.shape[1])[columns].tolist()
                check_term(part, term.x, seen, Dense(term.x.shape), places)
                check_row_weights(part, term.w)
            terms.append(term)
        return Data(tuple(terms), X.shape, Dense(X.shape))

    @staticmethod
    def of_sparse(X: Any, loss: Loss | str, weights: Array | None = None) -> Data:
        """Return the data of a CSR table whose absent entries are unobserved.

        Weights are those of rows (n,) or of entries.
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
        w = None if weights is None else weights[:, 0]
        return Data((Term(loss, EVERYTHING, X.data, w),), X.shape, pattern)

    def compacted(self) -> Data:
        """Return the observed entries of one elementwise loss on all columns as sparse data."""
        observed = self.observed
        term = self.terms[0].mapped(lambda a: np.broadcast_to(a, self.shape)[observed])
        if term.w is not None and np.all(term.w == 1):
            term = replace(term, w=None)
        pattern = Pattern.of(scipy.sparse.csr_array(observed))
        return Data((term,), self.shape, pattern)

    @property
    def observed(self) -> Array:
        """The entries of a dense table that have weight."""
        observed = np.ones(self.shape, bool)
        for t in self.terms:
            if t.w is not None:
                observed[:, t.columns] = t.w > 0
        return observed

    @property
    def T(self) -> Data:
        """The transposed table; only for one loss on all columns."""
        if len(self.terms) > 1 or self.terms[0].loss.rowwise:
            raise ValueError("Only a table with one elementwise loss can be transposed.")
        term = self.terms[0].mapped(lambda a: a.T)
        return Data((term,), self.shape[::-1], self.layout.T)

    def only(self, term: Term) -> Data:
        """Return the data of one term as a table of its own."""
        if term.columns is EVERYTHING:
            return self
        own = replace(term, columns=EVERYTHING)
        shape = term.x.shape
        return Data((own,), shape, Dense(shape))

    def astype(self, dtype: Any) -> Data:
        """Return the same data in another precision."""
        if dtype == self.dtype:
            return self
        return self.mapped(lambda t: t.astype(dtype))

    def mapped(self, of: Callable[[Term], Term]) -> Data:
        """Return the data with every term replaced by a function of it."""
        return replace(self, terms=tuple(map(of, self.terms)))

    def weighted(self, rows: Array) -> Data:
        """Return the data with every row's loss multiplied by its weight."""
        rows = self.layout.spread_rows(rows.astype(self.dtype))

        def weighted(t: Term) -> Term:
            if t.w is None:
                return replace(t, w=np.broadcast_to(rows, t.x.shape))
            return replace(t, w=t.w * rows)

        return self.mapped(weighted)

    def shifted(self, D: Array, B: Array) -> Data:
        """Return the data with D @ B added to the offset of the predictors."""
        by = self.layout.apply(D, B)
        return self.mapped(lambda t: t.shifted(t.part(by)))

    def split(
        self,
        share: float,
        random: np.random.Generator,
        groups: Array | None = None,
        never: Array | None = None,
    ) -> tuple[Data, Data]:
        """Return two tables: a random share of the observed entries is in the second, at least one.

        Entries of a row whose columns have the same group describe one cell, and stay together.
        Those of the mask `never` are in the first.
        """
        if self.rowwise:
            raise UnsupportedProblem(
                "Single entries cannot be held out under a loss of whole rows, so that 'auto' "
                "cannot choose: give alpha (and the rank) a number.",
            )
        if groups is None:
            drawn = random.random(self.entries_shape) < share
        else:
            numbers = random.random((self.shape[0], int(groups.max()) + 1))
            drawn = numbers[:, groups] < share
            if isinstance(self.layout, Pattern):
                drawn = drawn[self.layout.rows, self.layout.indices]
        if never is not None:
            drawn &= ~never
        if self.layout.sparse:
            if drawn.size and not drawn.any():
                drawn[random.integers(drawn.size)] = True
        elif not np.any(drawn & self.observed):
            row, column = random.choice(np.argwhere(self.observed))
            cell = [column] if groups is None else groups == groups[column]
            drawn[row, cell] = True
        return self.kept(~drawn), self.kept(drawn)

    def kept(self, kept: Array) -> Data:
        """Return the data of some of the entries."""
        if isinstance(self.layout, Pattern):
            some = self.mapped(lambda t: t.mapped(itemgetter(kept)))
            return replace(some, layout=self.layout.only(kept))

        def masked(t: Term) -> Term:
            w = np.where(t.part(kept), t.weights, 0)
            return replace(t, w=w.astype(self.dtype))

        return self.mapped(masked)

    def of_rows(self, rows: Any) -> Data:
        """Return the data of some rows, given by their numbers or, of a dense table, by a slice."""
        if isinstance(self.layout, Pattern):
            layout, places = self.layout.of_rows(rows)
            term = self.terms[0].mapped(itemgetter(places))
            return Data((term,), layout.shape, layout)
        assert isinstance(self.layout, Dense)
        terms = tuple(t.mapped(itemgetter(rows)) for t in self.terms)
        shape = len(terms[0].x), self.shape[1]
        return Data(terms, shape, Dense(shape))

    @property
    def curvature(self) -> float:
        """Return an upper bound of the curvature of L, infinite where there is none."""
        largest = 0.0
        for t in self.terms:
            weight = 1.0
            if t.w is not None:
                weight = float(t.w.max(initial=0))
            largest = max(largest, t.loss.curvature * weight)
        return largest

    def smoothed(self, share: float) -> Data:
        """Return the data under losses smoothed over a share of the typical size of their data."""
        return self.mapped(lambda t: replace(t, loss=t.loss.smoothed(share * t.size)))

    @property
    def size(self) -> float:
        """Return the typical size of the data, zero for none."""
        return max(t.size for t in self.terms)

    def value(self, Z: Array | Factors) -> float:
        """L(Z)."""
        Z = self.layout.entries(Z)
        total = 0.0
        for t in self.pieces:
            losses = t.weigh(t.loss.value(t.at(Z), t.x))
            total += float(losses.sum(dtype=np.float64))
        return total

    def smallest_loss(self) -> float:
        """Return the smallest loss that differs from zero: a share of that of predictors of zero.

        A loss of the residual, which includes offsets, can fall to its rounding error; others only
        approach their infimum.
        """
        total = 0.0
        for t in self.pieces:
            share = 1e-9
            z = np.zeros(t.x.shape, self.dtype)
            if t.loss.of_residual:
                share = 1e-24
                if t.offset is not None:
                    z = t.offset
            sizes = np.abs(t.weigh(t.loss.value(z, t.x)))
            total += share * float(sizes.sum(dtype=np.float64))
        return total

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
        whole: Any = None
        for t in self.pieces:
            whole = self._with(whole, t, t.losses(Z))
        return whole

    def gradient(self, Z: Array | Factors) -> Array:
        """dL/dZ, zero at missing entries."""
        Z = self.layout.entries(Z)
        whole: Any = None
        for t in self.pieces:
            gradient = t.loss.gradient(t.at(Z), t.x)
            whole = self._with(whole, t, t.weigh(gradient))
        return whole

    def value_and_gradient(self, Z: Array | Factors) -> tuple[float, Array]:
        """L(Z) and its gradient."""
        Z = self.layout.entries(Z)
        return self.value(Z), self.gradient(Z)

    def hessian(self, Z: Array | Factors) -> Array:
        """Return the second derivative of L in each entry, zero where missing."""
        Z = self.layout.entries(Z)
        whole: Any = None
        for t in self.pieces:
            curvature = t.loss.hessian(t.at(Z), t.x)
            whole = self._with(whole, t, t.weigh(curvature))
        return whole

    def expansion(self, Z: Array | Factors, out: Expansion | None = None) -> Expansion:
        """Return loss (infinite outside a link domain), gradient and second derivative by entries.

        They are written to `out` where it is given: fresh memory costs as much as the arithmetic.
        """
        Z = self.layout.entries(Z)
        out = out or (np.empty_like(Z), np.empty_like(Z), np.empty_like(Z))
        for at, t in self._strips:
            parts = [whole[at] for whole in out]
            z = Z[at]
            if t.offset is not None:
                z = z + t.offset
            if t.loss.unbounded:
                t.loss.expand(z, t.x, *parts)
            else:
                outside = ~t.loss.link_domain.contains(z)
                safe = np.where(outside, z.dtype.type(self.neutral), z)
                t.loss.expand(safe, t.x, *parts)
                if t.w is not None:
                    outside &= t.w > 0
                parts[0][outside] = np.inf
            for whole, part in zip(out, parts, strict=True):
                if t.w is not None:
                    part *= t.w
                if not isinstance(t.columns, slice):  # then a part is a copy
                    whole[at] = part
        return out

    @cached_property
    def infimum(self) -> float:
        """-L*(0), rounded down: the least that L could be with a free predictor in each entry."""
        return -self.conjugate(np.zeros(self.entries_shape, self.dtype))

    @cached_property
    def entropy(self) -> float:
        """Sum of w (x log x - x): the part of the loss kl that no predictor changes."""
        total = 0.0
        for t in self.pieces:
            x = t.numbers
            total += float(t.weigh(xlogy(x, x) - x).sum(dtype=np.float64))
        return total

    @cached_property
    def _strips(self) -> list[tuple[Any, Term]]:
        """The places of the pieces that are expanded at once, and their terms."""
        if self.layout.sparse:
            return [(t.columns, t) for t in self.pieces]
        n, d = self.shape
        height = max(DENSE_BLOCK_ENTRIES // max(d, 1), 1)
        strips: list[tuple[Any, Term]] = []
        for start in range(0, n, height):
            rows = slice(start, start + height)
            strips += [((rows, t.columns), t.mapped(itemgetter(rows))) for t in self.terms]
        return strips

    def newton_displacement(self, P: Array) -> Array:
        """Return the displacement to the best predictor, or a Newton step if there is none."""
        whole: Any = None
        for t in self.pieces:
            z = t.at(P)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                displacement = t.loss.inverse_gradient(np.zeros_like(z), t.x) - z
            found = np.isfinite(displacement)
            if not found.all():
                h = t.loss.hessian(z, t.x)
                curved = (h > 0) & np.isfinite(h)
                newton = -t.loss.gradient(z, t.x) / np.where(curved, h, 1)
                displacement = np.where(found, displacement, newton)
            if t.w is not None:
                displacement = np.where(t.w > 0, displacement, 0)
            whole = self._with(whole, t, displacement)
        return whole

    def majorant(self) -> Array:
        """Return a bound of the second derivative of each entry, infinite where there is none."""
        return self.collect(lambda t: t.weigh(np.full(t.x.shape, t.loss.curvature, self.dtype)))

    def conjugate(self, Y: Array) -> float:
        """L*(Y), infinite for a Y that is not zero at missing entries."""
        total = 0.0
        Y = self.layout.entries(Y)
        for t in self.pieces:
            y = t.part(Y)
            if t.w is not None and np.any(y[t.w == 0]):
                return np.inf
            conjugate = t.loss.conjugate(t.in_units(y), t.x)
            parts = t.weigh(conjugate)
            if t.offset is not None:
                parts = parts - y * t.offset
            # rounded up past the rounding of its own terms, so that no bound lies above the truth
            rounding = SUM_ROUNDING * float(np.abs(parts).sum(dtype=np.float64))
            total += float(parts.sum(dtype=np.float64)) + rounding
        return total

    def feasible(self, Y: Array) -> Array:
        """Return Y moved into the domain of L*."""
        Y = self.layout.entries(Y)
        whole: Any = None
        for t in self.pieces:
            y = t.in_units(t.part(Y))
            legal = t.loss.feasible(y, t.x)
            whole = self._with(whole, t, t.weigh(legal))
        return whole

    def dual_slack(self, Y: Array) -> Array:
        """Return how far each entry of Y can move within the domain of L*.

        That is at most the curvature where L has gradient Y.
        """
        Y = self.layout.entries(Y)
        whole: Any = None
        for t in self.pieces:
            y = t.in_units(t.part(Y))
            low, high = t.loss.dual_domain(t.x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                z = t.loss.inverse_gradient(y, t.x)
                if not t.loss.unbounded:
                    z = t.legal(z)
                curvature = t.loss.hessian(z, t.x)
            to_end = np.minimum(y - low, high - y)
            slack = np.maximum(np.fmin(curvature, to_end), 0)
            whole = self._with(whole, t, t.weigh(slack))
        return whole

    def max_feasible_scale(self, Y: Array, most: float = 1.0) -> float:
        """Return the largest s <= most such that s Y is in the domain of L*."""
        least = float(most)
        if not self.quadratic:
            Y = self.layout.entries(Y)
            for t in self.pieces:
                scales = t.feasible_scales(Y, most)
                least = min(least, float(np.nanmin(scales, initial=most)))
        return max(least, 0.0)

    def infeasible_columns(self, Y: Array) -> Array:
        """Return the columns of which less than half of Y is in the domain of L*."""
        if self.quadratic:
            return np.zeros(self.shape[1], bool)
        Y = self.layout.entries(Y)
        outside = self.collect(lambda t: (t.feasible_scales(Y, 1.0) < 0.5).astype(self.dtype))
        return self.layout.column_sums(outside) > 0

    @property
    def neutral(self) -> float:
        """Return a predictor that every loss can take."""
        if self.unbounded:
            return 0.0
        if all(t.loss.link_domain.contains(np.ones(1))[0] for t in self.terms):
            return 1.0
        return -1.0

    def inside(self, Z: Array) -> Array:
        """Return a mask of the rows with all observed predictors inside the link domains."""
        rows = np.ones(self.shape[0], bool)
        for t in self.terms:
            inside = t.loss.link_domain.contains(t.at(Z))
            if t.w is not None:
                inside = inside | (t.w == 0)
            rows &= inside.all(axis=1)
        return rows

    def prox(self, A: Array, rho: float | Array) -> Array:
        """argmin_Z L(Z) + sum (rho/2) (Z - A)^2 for one rho, one per column or one per entry."""
        rho = np.asarray(rho, A.dtype)
        whole: Any = None
        for t in self.pieces:
            a = t.part(A)
            if t.offset is not None:
                a = a + t.offset
            r = rho
            if rho.ndim > 0 and rho.shape[-1] != 1:
                r = t.part(rho)
            if t.w is None:
                z = t.loss.prox(a, r, t.x)
            else:
                observed = t.w > 0
                z = a if t.loss.unbounded else t.legal(a)
                z = t.loss.prox(z, r / np.where(observed, t.w, 1), t.x)
                z = np.where(observed, z, a)
            if t.offset is not None:
                z = z - t.offset
            whole = self._with(whole, t, z)
        return whole

    def predict(self, Z: Array) -> Array:
        """Return the predictions in the units of the data."""
        return self.collect(lambda t: t.loss.predict(t.at(Z)))

    def collect(self, of: Callable[[Term], Array]) -> Array:
        """Return a function of every term, in the columns of the term."""
        whole: Any = None
        for t in self.pieces:
            whole = self._with(whole, t, of(t))
        return whole

    def _with(self, whole: Array | None, term: Term, part: Array) -> Array:
        """Return an array of all entries with those of a term in their place."""
        if term.columns is EVERYTHING:
            return part
        if whole is None:
            whole = np.empty(self.entries_shape, part.dtype)
        whole[..., term.columns] = part
        return whole
