"""Checks of own parts: `check_loss(MyLoss())` tries the laws that solvers and certificates need.

The library's own parts pass the same checks in its tests.
"""

from regfactor.testing.divergences import check_divergence
from regfactor.testing.gauges import check_gauge
from regfactor.testing.laws import BrokenLaw
from regfactor.testing.losses import check_loss
from regfactor.testing.maps import check_map
from regfactor.testing.norms import check_norm
from regfactor.testing.penalties import check_penalty
from regfactor.testing.solvers import check_solver

__all__ = [
    "BrokenLaw",
    "check_divergence",
    "check_gauge",
    "check_loss",
    "check_map",
    "check_norm",
    "check_penalty",
    "check_solver",
]
