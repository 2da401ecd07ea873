"""The data of a problem: terms, each a loss on the observed entries of some columns. Only here are losses summed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regfactor._params import Array
from regfactor.factors import Factors
from regfactor.losses import Loss
from regfactor.losses.base import EVERYTHING

FILLER = 0.5  # stands at holes: inside the domain of every loss, so that nothing there is ever infinite


@dataclass(frozen=True, eq=False)
class Term:
    """A loss on some columns: data x, weights w (None: all one; zero: a hole) and an offset of the predictor."""

    loss: Loss
    columns: Any
    x: Array
    w: Array | None = None
    offset: Array | None = None

    def at(self, Z: Array) -> Array:
        """Return the predictors of this term."""
        z = Z[:, self.columns]
        return z if self.offset is None else z + self.offset

    def weigh(self, values: Array) -> Array:
        """Return the values times their weights; at a hole zero, whatever the value."""
        return values if self.w is None else self.w * np.where(self.w > 0, values, 0)

    def in_units(self, y: Array) -> Array:
        """Return y per unit of weight, zero at holes."""
        return y if self.w is None else np.where(self.w > 0, y / np.where(self.w > 0, self.w, 1), 0)

    def legal(self, z: Array) -> Array:
        """Return z with holes moved into the link domain, so that no loss is evaluated outside it."""
        inside = self.loss.link_domain
        if self.w is None or self.loss.unbounded:
            return z
        safe = inside.low + 1 if np.isfinite(inside.low) else inside.high - 1
        return np.where((self.w > 0) | inside.contains(z), z, safe)

    def transposed(self) -> Term:
        """Return the same entries as a term on all columns of the transposed table."""
        return self.mapped(lambda a: a.T)

    def astype(self, dtype: Any) -> Term:
        """Return the same term in another precision."""
        return self.mapped(lambda a: a.astype(dtype, copy=False))

    def mapped(self, of: Callable[[Array], Array]) -> Term:
        """Return this term with every array replaced by a function of it."""
        w, offset = (None if a is None else of(a) for a in (self.w, self.offset))
        return Term(self.loss, self.columns, of(self.x), w, offset)


@dataclass(frozen=True, eq=False)
class Data:
    """All terms of a table: L(Z) = sum over observed entries of w f(z; x)."""

    terms: tuple[Term, ...]
    shape: tuple[int, int]

    @staticmethod
    def of(X: Array, loss: Loss, weights: Array | None = None, offset: Array | None = None) -> Data:
        """Return the data of a table whose holes are NaN; weights for rows (n,) or entries (n, d)."""
        observed = ~np.isnan(X)
        _check_table(X, observed)
        w = _entry_weights(observed, weights, X.dtype)
        filled = X if observed.all() else np.where(observed, X, X.dtype.type(FILLER))
        terms = []
        for columns, part in loss.parts(X.shape[1]):
            term = Term(
                part,
                columns,
                filled[:, columns],
                None if w is None else w[:, columns],
                None if offset is None else np.asarray(np.broadcast_to(offset, X.shape)[:, columns], X.dtype),
            )
            _check_term(term, observed[:, columns])
            terms.append(term)
        return Data(tuple(terms), X.shape)

    @property
    def dtype(self) -> Any:
        """Return the precision of the data."""
        return self.terms[0].x.dtype

    @property
    def T(self) -> Data:
        """The transposed table; only for one loss on all columns."""
        if len(self.terms) > 1 or self.terms[0].loss.rowwise:
            raise ValueError("Only a table with one elementwise loss can be transposed.")
        return Data((self.terms[0].transposed(),), self.shape[::-1])

    def astype(self, dtype: Any) -> Data:
        """Return the same data in another precision."""
        return Data(tuple(t.astype(dtype) for t in self.terms), self.shape)

    def weighted(self, rows: Array) -> Data:
        """Return the data with every row's loss multiplied by its weight."""
        rows = rows[:, None].astype(self.dtype)
        terms = (replace(t, w=np.broadcast_to(rows, t.x.shape) if t.w is None else t.w * rows) for t in self.terms)
        return Data(tuple(terms), self.shape)

    def rows(self, index: Any) -> Data:
        """Return the data of some rows."""
        terms = tuple(t.mapped(lambda a: a[index]) for t in self.terms)
        return Data(terms, (terms[0].x.shape[0], self.shape[1]))

    @property
    def observed(self) -> Array:
        """Return which entries are observed."""
        return self._collect(lambda t: np.ones(t.x.shape, bool) if t.w is None else t.w > 0)

    @property
    def complete(self) -> bool:
        """Whether every entry is observed and none is weighted."""
        return all(t.w is None for t in self.terms)

    @property
    def smooth(self) -> bool:
        """Whether every loss has a gradient everywhere."""
        return all(t.loss.smooth for t in self.terms)

    @property
    def curvature(self) -> float:
        """Return an upper bound of the curvature of L, infinite where there is none."""
        return max(t.loss.curvature * (1.0 if t.w is None else float(t.w.max(initial=0))) for t in self.terms)

    def smoothed(self, share: float) -> Data:
        """Return the data under losses without kinks, each smoothed over a share of the typical size of its data."""
        sizes = [float(np.median(np.abs(t.x - (0 if t.offset is None else t.offset)))) or 1.0 for t in self.terms]
        terms = (replace(t, loss=t.loss.smoothed(share * size)) for t, size in zip(self.terms, sizes, strict=True))
        return Data(tuple(terms), self.shape)

    def value(self, Z: Array | Factors) -> float:
        """L(Z)."""
        return float(self.column_values(Z).sum())

    def column_values(self, Z: Array | Factors) -> Array:
        """L(Z) by columns, summed in float64."""
        Z = _dense(Z)
        total = np.zeros(self.shape[1])
        for t in self.terms:
            total[t.columns] = t.weigh(t.loss.value(t.legal(t.at(Z)), t.x)).sum(axis=0, dtype=np.float64)
        return total

    def row_values(self, Z: Array) -> Array:
        """L(Z) by rows, summed in float64."""
        return np.asarray(
            sum(t.weigh(t.loss.value(t.legal(t.at(Z)), t.x)).sum(axis=1, dtype=np.float64) for t in self.terms)
        )

    def gradient(self, Z: Array | Factors) -> Array:
        """dL/dZ, zero at holes."""
        Z = _dense(Z)
        return self._collect(lambda t: t.weigh(t.loss.gradient(t.legal(t.at(Z)), t.x)))

    def value_and_gradient(self, Z: Array | Factors) -> tuple[float, Array]:
        """L(Z) and its gradient."""
        Z = _dense(Z)
        return self.value(Z), self.gradient(Z)

    def hessian(self, Z: Array | Factors) -> Array:
        """Return the second derivative of L in each entry, zero at holes."""
        Z = _dense(Z)
        return self._collect(lambda t: t.weigh(t.loss.hessian(t.legal(t.at(Z)), t.x)))

    def majorant(self) -> Array:
        """Return for each entry a bound of its second derivative (infinite for losses without one)."""
        return self._collect(lambda t: t.weigh(np.full(t.x.shape, t.loss.curvature, t.x.dtype)))

    def conjugate(self, Y: Array) -> float:
        """L*(Y), infinite for a Y that is not zero at holes."""
        total = 0.0
        for t in self.terms:
            y = Y[:, t.columns]
            if t.w is not None and np.any(y[t.w == 0]):
                return np.inf
            total += float(t.weigh(t.loss.conjugate(t.in_units(y), t.x)).sum(dtype=np.float64))
            if t.offset is not None:
                total -= float(np.vdot(y, t.offset))
        return total

    def feasible(self, Y: Array) -> Array:
        """Return Y moved into the domain of L*."""
        return self._collect(lambda t: t.weigh(t.loss.feasible(t.in_units(Y[:, t.columns]), t.x)))

    def room(self, Y: Array) -> Array:
        """Return how far each entry of Y can move: the curvature where L has gradient Y, within the domain of L*."""

        def one(t: Term) -> Array:
            y = t.in_units(Y[:, t.columns])
            low, high = t.loss.slopes(t.x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                bend = t.loss.hessian(t.legal(t.loss.inverse_gradient(y, t.x)), t.x)
            inside = np.minimum(y - low, high - y)
            return t.weigh(np.maximum(np.fmin(bend, inside), 0))

        return self._collect(one)

    def reach(self, Y: Array, most: float = 1.0) -> float:
        """Return the largest s <= most such that s Y is in the domain of L*, which contains zero."""
        s = most
        for t in self.terms:
            y = t.in_units(Y[:, t.columns])
            low, high = (np.broadcast_to(end, y.shape) for end in t.loss.slopes(t.x))
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                ends = np.where(most * y > high, high / y, np.where(most * y < low, low / y, most))
                s = min(s, float(np.nanmin(ends, initial=most)))
        return max(float(s), 0.0)

    @property
    def unbounded(self) -> bool:
        """Whether every loss takes predictors on the whole line."""
        return all(t.loss.unbounded for t in self.terms)

    @property
    def neutral(self) -> float:
        """Return a predictor that every loss can take."""
        return 0.0 if self.unbounded else (1.0 if self.terms[0].loss.link_domain.contains(np.ones(1))[0] else -1.0)

    def inside(self, Z: Array) -> Array:
        """Tell which rows have all their observed predictors inside the link domains."""
        legal = [t.loss.link_domain.contains(t.at(Z)) | (False if t.w is None else t.w == 0) for t in self.terms]
        return np.all([part.all(axis=1) for part in legal], axis=0)

    def prox(self, A: Array, rho: float | Array) -> Array:
        """Return argmin_Z L(Z) + sum (rho/2) (Z - A)^2; rho is a number, one per column or one per entry."""
        rho = np.broadcast_to(np.asarray(rho, A.dtype), self.shape)

        def one(t: Term) -> Array:
            a, r = t.at(A), rho[:, t.columns]
            z = t.loss.prox(t.legal(a), r if t.w is None else r / np.where(t.w > 0, t.w, 1), t.x)
            z = z if t.w is None else np.where(t.w > 0, z, a)
            return z if t.offset is None else z - t.offset

        return self._collect(one)

    def predict(self, Z: Array) -> Array:
        """Return the predictions in the units of the data."""
        return self._collect(lambda t: t.loss.predict(t.legal(t.at(Z))))

    def _collect(self, of: Callable[[Term], Array]) -> Array:
        """Lay the arrays of all terms side by side in the columns they stand for."""
        if len(self.terms) == 1 and self.terms[0].columns is EVERYTHING:
            return of(self.terms[0])
        parts = [of(t) for t in self.terms]
        whole = np.empty(self.shape, np.result_type(*parts))
        for t, part in zip(self.terms, parts, strict=True):
            whole[:, t.columns] = part
        return whole


def _dense(Z: Array | Factors) -> Array:
    return Z.dense() if isinstance(Z, Factors) else Z


def _check_table(X: Array, observed: Array) -> None:
    if X.ndim != 2:
        raise ValueError(f"Expected a table with rows and columns, got {X.ndim} dimensions.")
    if not observed.any():
        raise ValueError("Every entry of the table is missing; there is nothing to fit.")
    infinite = np.isinf(X)
    if infinite.any():
        i, j = np.argwhere(infinite)[0]
        raise ValueError(
            f"The table contains infinity in {infinite.sum()} entries, the first in row {i}, column {j}. "
            "Mark missing entries by NaN."
        )


def _entry_weights(observed: Array, weights: Array | None, dtype: Any) -> Array | None:
    """Return weights of entries with zeros at holes, or None where all are one."""
    if weights is None:
        return None if observed.all() else observed.astype(dtype)
    weights = np.asarray(weights, dtype)
    if weights.ndim == 1:
        weights = weights[:, None]
    if weights.shape[0] != observed.shape[0] or weights.shape[1] not in (1, observed.shape[1]):
        raise ValueError(f"Weights of shape {weights.shape} do not fit a table of shape {observed.shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("Weights must be finite and not negative; remove the rows or set their weights to zero.")
    weights = np.where(observed, weights, 0).astype(dtype)
    if not weights.any():
        raise ValueError("All weights are zero; there is nothing to fit.")
    return None if np.all(weights == 1) else weights


def _check_term(term: Term, observed: Array) -> None:
    problems = term.loss.column_problems(term.x, observed)
    if problems:
        more = f" (and {len(problems) - 3} more columns)" if len(problems) > 3 else ""
        raise ValueError(
            f"The loss {term.loss} cannot take these data; {'; '.join(problems[:3])}{more}. {_advice(term, observed)}"
        )
    if term.loss.rowwise and np.any(observed.any(axis=1) != observed.all(axis=1)):
        raise ValueError(f"Under {term.loss} a row must be observed whole or not at all; fill or remove its holes.")


def _advice(term: Term, observed: Array) -> str:
    """Return which loss would take the data instead."""
    values = term.x[observed]
    if np.isin(values, (-1, 1)).all():
        return "Values are -1 and +1: use a hinge loss, or code them 0 and 1 for loss='logistic'."
    if (values >= 0).all() and (values == np.round(values)).all():
        return "Values are counts: use loss='poisson'."
    if (values >= 0).all():
        return "Values are not negative: use loss='poisson', 'gamma_log' or 'kl', or loss='squared'."
    return "Values are real numbers: use loss='squared' or loss='huber'."
