"""Regularized factor models: one objective for incomplete, corrupted and mixed tables, solved with a proof."""

from importlib.metadata import version

from regfactor.estimators import (
    BregmanKMeans,
    BregmanMixture,
    BregmanNormalizedCut,
    BregmanRegressor,
    CanonicalCorrelation,
    ConvexSparseCoding,
    ConvexSubspace,
    ExponentialFamilyPCA,
    FactorModel,
    KernelSubspace,
    ReducedRankRegression,
    ReverseClassifier,
    ReverseRegressor,
    RobustSubspace,
    SubspaceImputer,
)
from regfactor.solvers import path, solve

__version__ = version("regfactor")

__all__ = [
    "BregmanKMeans",
    "BregmanMixture",
    "BregmanNormalizedCut",
    "BregmanRegressor",
    "CanonicalCorrelation",
    "ConvexSparseCoding",
    "ConvexSubspace",
    "ExponentialFamilyPCA",
    "FactorModel",
    "KernelSubspace",
    "ReducedRankRegression",
    "ReverseClassifier",
    "ReverseRegressor",
    "RobustSubspace",
    "SubspaceImputer",
    "path",
    "solve",
]
