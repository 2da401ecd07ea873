"""Likelihoods without a maximum: some entries are fitted ever better by unbounded predictors.

Only entries at an end of their range (0 or 1, a count of 0) can be such, and only along a direction
that leaves the predictors of all other entries of the row or column as they are: a linear program
decides, with the other factor held.
"""

from __future__ import annotations

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.params import Array, warn
from regfactor.losses import Gamma, Squared
from regfactor.solvers.glm_newton import separable
from regfactor.tables.epca.entries import at_entries
from regfactor.tables.epca.inputs import EpcaInputs
from regfactor.tables.epca.row_scoring import FittedRows

# Share of the range: unbounded predictors have come this near to its end when the solver stops.
NEAR_END = 1e-2
MAX_GROUPS = 8  # rows and columns that are examined, those nearest to an end first
# Components add so much to a predictor only on its way to an end that it never reaches.
UNBOUNDED_PREDICTOR = 100.0


def warn_if_unbounded(fit: FittedRows, inputs: EpcaInputs, fit_intercept: bool) -> None:
    """Warn where alpha = 0 leaves the likelihood of a fitted model without a maximum."""
    observation = inputs.observation
    loss = observation.fitted
    if isinstance(loss, Squared | Gamma):
        return
    learned = inputs.learned
    held = learned.entries
    layout = held.layout
    counted = inputs.given.counted
    codes = fit.codes[counted]
    by_row = fit.level[counted, None]
    offset = observation.offset(learned)
    if offset is not None:
        by_row = by_row + offset
    if fit.scoring.slopes is not None and learned.regressors is not None:
        by_row = by_row + learned.regressors @ fit.scoring.slopes
    product = layout.entries(Factors(codes, fit.components))
    Z = product + layout.spread(fit.intercept) + at_entries(layout, by_row)
    observed = held.w > 0
    rows, columns = held.places
    x = held.x[observed]
    mean = loss.predict(Z[observed])
    high = loss.domain.high
    sign = (x >= high).astype(float) - (x <= loss.domain.low)
    distance = np.full(len(x), np.inf)
    distance = np.where(sign < 0, mean / observation.unit, distance)
    distance = np.where(sign > 0, high - mean, distance)
    of_columns = _with_ones(codes, fit_intercept)
    if learned.regressors is not None:
        of_columns = np.hstack([of_columns, learned.regressors])
    of_rows = _with_ones(fit.components.T, fit.scoring.levels)
    # the first finds both factors growing together, where neither is unbounded alone
    if (
        (sign * product[observed] > UNBOUNDED_PREDICTOR).any()
        or _is_unbounded(columns, of_columns, rows, sign, distance)
        or _is_unbounded(rows, of_rows, columns, sign, distance)
    ):
        warn(
            "The likelihood is unbounded: some entries are fitted perfectly by predictors that "
            "grow indefinitely. Give alpha > 0; the fit is where the solver stopped."
        )


def _with_ones(D: Array, ones: bool) -> Array:
    if ones:
        D = np.hstack([D, np.ones((len(D), 1), D.dtype)])
    return D.astype(np.float64)


def _is_unbounded(
    groups: Array,
    D: Array,
    places: Array,
    sign: Array,
    distance: Array,
) -> bool:
    """Return whether one direction fits all entries of some group no worse, and some ever better.

    The regressors of an entry are those of its place, a row of D.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    nearest = np.full(n_groups, np.inf)
    np.minimum.at(nearest, groups, distance)
    inside = np.bincount(groups, sign == 0, minlength=n_groups)
    order = np.lexsort((nearest, inside > 0))  # groups that lie wholly at the ends first
    for group in order[nearest[order] < NEAR_END][:MAX_GROUPS]:
        members = np.flatnonzero(groups == group)
        if separable(D[places[members]], sign[members]):
            return True
    return False
