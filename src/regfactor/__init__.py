"""Regularized factor models: one objective for incomplete, corrupted and mixed tables, solved with a proof."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regfactor.estimators import (
        BregmanKMeans,
        BregmanMixture,
        BregmanNormalizedCut,
        BregmanRegressor,
        CanonicalCorrelation,
        ConvexFactorClassifier,
        ConvexFactorRegressor,
        ConvexSparseCoding,
        ConvexSubspace,
        ExpectationSVC,
        ExponentialFamilyPCA,
        FactorModel,
        KernelSubspace,
        ReducedRankRegression,
        RegularizedARMA,
        ReverseClassifier,
        ReverseRegressor,
        RobustSubspace,
        SNFRegressor,
        SNFRegressorCV,
        SubspaceImputer,
        TwoViewSubspace,
    )
    from regfactor.saving import load, save
    from regfactor.solvers import path, solve

__version__ = version("regfactor")

__all__ = [
    "BregmanKMeans",
    "BregmanMixture",
    "BregmanNormalizedCut",
    "BregmanRegressor",
    "CanonicalCorrelation",
    "ConvexFactorClassifier",
    "ConvexFactorRegressor",
    "ConvexSparseCoding",
    "ConvexSubspace",
    "ExpectationSVC",
    "ExponentialFamilyPCA",
    "FactorModel",
    "KernelSubspace",
    "ReducedRankRegression",
    "RegularizedARMA",
    "ReverseClassifier",
    "ReverseRegressor",
    "RobustSubspace",
    "SNFRegressor",
    "SNFRegressorCV",
    "SubspaceImputer",
    "TwoViewSubspace",
    "load",
    "path",
    "save",
    "solve",
]

ROOMS = (
    "atlas",
    "baselines",
    "constraints",
    "datasets",
    "kernels",
    "losses",
    "model_selection",
    "norms",
    "penalties",
    "plots",
    "problems",
)


HOMES = {
    "load": "saving",
    "save": "saving",
    "path": "solvers",
    "solve": "solvers",
}  # all other names: estimators


def __getattr__(name: str) -> Any:
    """Import a name or a room when it is first asked for: the command line starts, and stops, at once."""
    if name in ROOMS:
        return import_module(f"regfactor.{name}")
    if name in __all__:
        return getattr(import_module(f"regfactor.{HOMES.get(name, 'estimators')}"), name)
    raise AttributeError(f"module 'regfactor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *ROOMS})
