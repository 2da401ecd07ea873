"""Exponential-family principal components as a problem, convex or factored, and the numbers of what was fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.params import Array
from regfactor.losses import Multinomial
from regfactor.maps import RowScale
from regfactor.penalties import SquaredL2, Trace
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.tables.epca.deviance import explained, level_constant, loss_at
from regfactor.tables.epca.families import Reading
from regfactor.tables.epca.inputs import Given

# components with which alpha="auto" is chosen where their number is left to held-out entries too
MOST = 20
# how far below the others the intercept of a column without a count stands: a share of e^-50
GONE = 50.0


def stated(estimator: Any, data: Data, reading: Reading, given: Given) -> Convex | Factored:
    """Return the problem that an estimator is; a row of weight w stands for w equal rows."""
    (n, d) = data.shape
    strength = estimator._strength
    if estimator.fit_intercept:
        design = Design.intercept(n, data.dtype)
    else:
        design = None
    if estimator.n_components is None:
        if isinstance(reading.loss, Multinomial):  # rows whole, and no level next to them
            data = _coupled(
                given,
                reading.loss,
                counted_columns(given, reading, design is not None),
            )
        if given.rows is None:
            return Convex(data, Trace(), strength, design=design)
        scale = RowScale((given.rows**-0.5).astype(data.dtype))
        return Convex(data.weighted(given.rows), Trace(), strength, scale, design)
    if isinstance(estimator.n_components, str):
        k = min(MOST, n, d)
    else:
        k = estimator.n_components
    if k > min(n, d):
        raise ValueError(
            f"n_components={k} is more than min(n_samples, n_features): n_samples = {n}, n_features = {d}.",
        )
    levels = estimator.row_offset == "fit" or isinstance(reading.loss, Multinomial)
    extra_components = np.ones((1, d), data.dtype) if levels else None
    return Factored(
        data,
        SquaredL2(),
        SquaredL2(),
        k,
        strength,
        row_weights=given.rows,
        design=design,
        extra_components=extra_components,
    )


def _coupled(given: Given, loss: Multinomial, columns: Any) -> Data:
    """Return some columns of rows of counts under the loss that couples them."""
    held = given.held.whole
    if np.any(held.seen.any(axis=1) != held.seen.all(axis=1)):
        raise ValueError(
            "family='multinomial' with n_components=None learns from rows that are observed whole or not at all: fill "
            "the holes, leave these rows out, or give a number of components, under which holes are allowed.",
        )
    if given.offset is None:
        offset = None
    else:
        offset = np.broadcast_to(given.offset, held.x.shape)[:, columns]
    counts = np.where(held.w > 0, held.x, held.x.dtype.type(np.nan))
    weights = held.w
    return Data.of(
        counts[:, columns],
        loss,
        None if given.entries is None else weights[:, columns],
        offset,
    )


def counted_columns(given: Given, reading: Reading, intercept: bool) -> Any:
    """Return the columns that a convex fit is made of.

    Under intercepts the share of a column without a count is zero, which is reached at minus
    infinity alone.
    """
    if not (intercept and isinstance(reading.loss, Multinomial)):
        return slice(None)
    held = given.held
    some = held.layout.column_sums(held.seen * held.x) > 0
    if some.all() or not some.any():
        return slice(None)
    return some


def restored(point: FactorPoint, given: Given, reading: Reading) -> FactorPoint:
    """Return a point with the columns that were left out: no component, and an intercept that is as good as none."""
    F = point.factors
    B = point.coefficients
    width = given.table.shape[1]
    if B is None or B.shape[1] == width:
        return point
    at = counted_columns(given.learned, reading, True)
    C = np.zeros((F.rank, width), F.C.dtype)
    free = np.full((len(B), width), B.min() - GONE, B.dtype)
    C[:, at] = F.C
    free[:, at] = B
    return FactorPoint(Factors(F.codes, C), free)


@dataclass(frozen=True)
class Values:
    """The objective, the share of the deviance explained, and what the solver counts more than the objective."""

    objective: float
    explained: float
    more: float = 0.0


def fitted_values(
    estimator: Any,
    given: Given,
    data: Data,
    problem: Convex | Factored,
    level: Array,
) -> Values:
    """Return the numbers of what was fitted to the rows that were learned from, in double precision."""
    learned = given.learned
    exact = data.astype(np.float64)
    counted = given.counted
    rows = learned.rows
    codes = estimator.codes_[counted].astype(np.float64)
    C = estimator.components_.astype(np.float64)
    b = estimator.intercept_.astype(np.float64)[None]
    one = np.ones((len(codes), 1))
    Z = Factors(np.hstack([codes, one, level[counted, None]]), np.vstack([C, b, np.ones_like(b)]))
    value = loss_at(exact, Z, rows)
    reading = estimator._reading
    # where predictors are restricted faint observations stand at holes, and explain nothing
    if exact.unbounded:
        observed = exact
    else:
        observed = exact.kept(learned.held.whole.w > 0)
    seen_value = value if exact.unbounded else loss_at(observed, Z, rows)
    share = explained(observed, seen_value, rows, estimator._rows.levels)
    if isinstance(problem, Convex):
        at = counted_columns(learned, reading, estimator.fit_intercept)
        F = Factors(codes / problem.map.diagonal, C[:, at])
        B = b[:, at] if estimator.fit_intercept else None
        return Values(problem.astype(np.float64).objective(F, B), share)
    ridges = learned.weights @ np.square(codes).sum(axis=1) + np.square(C).sum()
    # counts with free levels
    if isinstance(reading.loss, Multinomial):
        more = level_constant(exact, rows)
    else:
        more = 0.0
    return Values(value - more + problem.alpha / 2 * float(ridges), share, more)
