"""Regularized factor models: one objective for incomplete, corrupted and mixed tables, solved with a proof."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

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

ROOMS = ("atlas", "baselines", "constraints", "datasets", "kernels", "losses", "model_selection", "norms", "penalties",
         "plots", "problems")  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a room when it is first asked for, so that `regfactor.atlas` needs no import of its own."""
    if name in ROOMS:
        return import_module(f"regfactor.{name}")
    raise AttributeError(f"module 'regfactor' has no attribute {name!r}")
