"""The gauge that a pair of factor penalties induces, if one is known (thesis, theorems 3 to 7)."""

from __future__ import annotations

import numpy as np

from regfactor.norms import Blocks
from regfactor.penalties.factor import AtomNorms, Lasso, Penalty, PowerPenalty, SquaredL2
from regfactor.penalties.gauges import Columns, Gauge, Rows, Trace
from regfactor.penalties.sets import UnitBall
from regfactor.penalties.two_view import TwoView


def induced(on_codes: Penalty | None, on_components: Penalty | None) -> Gauge | None:
    """Return the gauge that two penalties induce for a free number of atoms; None if unknown.

    Norms without a formula here are those of `regfactor.penalties.numerical`.
    """
    match on_codes, on_components:
        case SquaredL2(), SquaredL2():
            return Trace()
        case SquaredL2(), PowerPenalty(p=2.0, weights=weights):
            if np.ndim(weights):
                return Trace(np.asarray(weights) ** -0.5)
            return Trace(float(weights) ** -0.5)
        case Lasso(), UnitBall(norm=ball):  # the sum of the l1 norms of atoms
            return Rows(ball)
        case AtomNorms(norm=codes), UnitBall(norm=Blocks(first=first, second=second) as ball):
            if codes.p == 1:
                return Rows(ball)
            if codes.p == first.p == second.p == 2:
                return TwoView(ball.n_first, ball.bounds)
            return None
        case AtomNorms(norm=codes), UnitBall(norm=ball):
            if codes.p == ball.p == 2:
                return Trace()
            if codes.p == 1:
                return Rows(ball)
            if ball.p == 1 and not np.isnan(codes.p):
                return Columns(codes)
            return None
        case _:
            return None
