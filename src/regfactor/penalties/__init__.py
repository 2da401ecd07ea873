"""Penalties on one factor, and gauges on their product."""

from regfactor.penalties.atoms import CodeParts, ComponentParts
from regfactor.penalties.factor import (
    L0,
    AtomNorms,
    Free,
    GroupLasso,
    Lasso,
    Penalty,
    PowerPenalty,
    Proximable,
    Smooth,
    SquaredL2,
)
from regfactor.penalties.gauges import Columns, Gauge, Polar, Rows, Trace, TraceModulo
from regfactor.penalties.graphs import GraphLaplacian
from regfactor.penalties.induced import induced
from regfactor.penalties.sets import (
    Cardinality,
    Constraint,
    NonNegative,
    OneHot,
    Simplex,
    UnitBall,
)
from regfactor.penalties.sums import Sum
from regfactor.penalties.two_view import TwoView

__all__ = [
    "L0",
    "AtomNorms",
    "Cardinality",
    "CodeParts",
    "Columns",
    "ComponentParts",
    "Constraint",
    "Free",
    "Gauge",
    "GraphLaplacian",
    "GroupLasso",
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
    "Sum",
    "Trace",
    "TraceModulo",
    "TwoView",
    "UnitBall",
    "induced",
]
