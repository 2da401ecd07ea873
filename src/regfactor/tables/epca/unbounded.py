"""Likelihoods without a maximum: rows or columns of which predictors that grow for ever fit some entries ever better.

Only entries at an end of their range (0 or 1, a count of 0) can be such, and only along a direction
that leaves the predictors of all other entries of the row or column as they are: a linear program
tells, with the other factor held.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.params import Array, warn
from regfactor.losses import Gamma, Squared
from regfactor.problems.layout import Dense
from regfactor.solvers.glm_newton import separable
from regfactor.tables.epca.entries import at_entries
from regfactor.tables.epca.inputs import Given

NEAR = 1e-2  # of the range: what runs away has come this near to its end when the solver stops
TRIED = 8  # rows and columns that are looked at, those nearest to an end first
ENDLESS = (
    100.0  # what components add to a predictor only on its way to an end that it never reaches
)


def warn_of_unbounded(model: Any, given: Given, level: Array) -> None:
    """Warn where alpha = 0 leaves the likelihood of a fitted model without a maximum."""
    learned = given.learned
    reading = model._reading
    loss = model._reading.fitted
    if isinstance(loss, Squared | Gamma):
        return
    held = learned.held
    offset = reading.offset(learned.table, learned.entries, learned.offset)
    codes = model.codes_[given.counted]
    C = model.components_
    level = level[given.counted, None]
    inner = held.layout.entries(Factors(codes, C))
    Z = inner + held.layout.spread(model.intercept_)
    Z = Z + at_entries(held.layout, level if offset is None else level + offset)
    seen = held.w > 0
    rows, columns = _places(held.layout, seen)
    x = held.x[seen]
    mean = loss.predict(Z[seen])
    domain = loss.domain
    sign = (x >= domain.high).astype(float) - (x <= domain.low)
    room = np.where(sign < 0, mean / reading.unit, np.where(sign > 0, domain.high - mean, np.inf))
    by_columns = _with_ones(codes, model.fit_intercept)
    by_rows = _with_ones(C.T, model._rows.levels)
    endless = bool(
        (sign * inner[seen] > ENDLESS).any(),
    )  # of both factors together, where neither runs away alone
    if (
        endless
        or _runs_away(columns, by_columns, rows, sign, room)
        or _runs_away(rows, by_rows, columns, sign, room)
    ):
        warn(
            "The likelihood is unbounded: some entries are fitted perfectly by predictors that grow for ever. Give "
            "alpha > 0; the fit is where the solver stopped.",
        )


def _with_ones(D: Array, ones: bool) -> Array:
    return np.hstack([D, np.ones((len(D), int(ones)), D.dtype)]).astype(np.float64)


def _places(layout: Any, seen: Array) -> tuple[Array, Array]:
    """Return the rows and the columns of the entries that count."""
    if isinstance(layout, Dense):
        rows, columns = np.nonzero(seen)
        return rows, columns
    return layout.rows[seen], layout.indices[seen]


def _runs_away(groups: Array, D: Array, places: Array, sign: Array, room: Array) -> bool:
    """Whether the entries of some group can all be fitted no worse, and some ever better, along one direction.

    An entry has the predictors of its place, a row of D.
    """
    n = int(groups.max(initial=-1)) + 1
    least = np.full(n, np.inf)
    np.minimum.at(least, groups, room)
    inside = np.bincount(groups, sign == 0, minlength=n)
    order = np.lexsort((least, inside > 0))  # groups that lie wholly at the ends first
    near = order[least[order] < NEAR][:TRIED]
    return any(
        separable(D[places[at]], sign[at]) for at in (np.flatnonzero(groups == j) for j in near)
    )
