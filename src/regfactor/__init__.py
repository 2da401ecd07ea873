"""Regularized factor models: one objective for incomplete, corrupted and mixed tables, solved with a proof."""

from importlib.metadata import version

from regfactor.estimators import ConvexSparseCoding, ConvexSubspace, FactorModel, RobustSubspace, SubspaceImputer
from regfactor.solvers import path, solve

__version__ = version("regfactor")

__all__ = ["ConvexSparseCoding", "ConvexSubspace", "FactorModel", "RobustSubspace", "SubspaceImputer", "path", "solve"]
