"""Displays of fitted models in scikit-learn's convention: `from_estimator`, `plot`, `ax_`.

They need matplotlib (the extra `plot`), which is imported when the first one is drawn.
"""

from regfactor.plots.base import Display
from regfactor.plots.cluster_profiles import ClusterProfileDisplay
from regfactor.plots.clusters import ClusterDisplay
from regfactor.plots.convergence import ConvergenceDisplay
from regfactor.plots.evidence import ConstraintDisplay, EvidenceDisplay
from regfactor.plots.factors import CodesDisplay, ComponentsDisplay
from regfactor.plots.selection import PathDisplay
from regfactor.plots.series import (
    BacktestDisplay,
    ForecastComponentsDisplay,
    ForecastDisplay,
    SeasonDisplay,
)
from regfactor.plots.views import (
    ExplainedVarianceDisplay,
    PredictedViewDisplay,
    TwoViewDisplay,
)

__all__ = [
    "BacktestDisplay",
    "ClusterDisplay",
    "ClusterProfileDisplay",
    "CodesDisplay",
    "ComponentsDisplay",
    "ConstraintDisplay",
    "ConvergenceDisplay",
    "Display",
    "EvidenceDisplay",
    "ExplainedVarianceDisplay",
    "ForecastComponentsDisplay",
    "ForecastDisplay",
    "PathDisplay",
    "PredictedViewDisplay",
    "SeasonDisplay",
    "TwoViewDisplay",
]
