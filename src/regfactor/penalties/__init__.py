"""Penalties on one factor, and gauges on their product."""

from regfactor.penalties.factor import (
    AtomNorms,
    Free,
    Lasso,
    Penalty,
    PowerPenalty,
    Proximable,
    Smooth,
    SquaredL2,
)
from regfactor.penalties.gauges import Columns, Gauge, Polar, Rows, Trace
from regfactor.penalties.induced import induced
from regfactor.penalties.sets import Constraint, NonNegative, OneHot, Simplex, UnitBall
from regfactor.penalties.two_view import TwoView

__all__ = [
    "AtomNorms",
    "Columns",
    "Constraint",
    "Free",
    "Gauge",
    "Lasso",
    "NonNegative",
    "OneHot",
    "Penalty",
    "Polar",
    "PowerPenalty",
    "Proximable",
    "Rows",
    "Simplex",
    "Smooth",
    "SquaredL2",
    "Trace",
    "TwoView",
    "UnitBall",
    "induced",
]
