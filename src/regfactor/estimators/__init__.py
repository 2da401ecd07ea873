"""Named estimators: one problem each, in scikit-learn's API."""

from regfactor.estimators.certificate import Certificate
from regfactor.estimators.generic import FactorModel
from regfactor.estimators.imputer import SubspaceImputer
from regfactor.estimators.robust import RobustSubspace
from regfactor.estimators.subspace import ConvexSparseCoding, ConvexSubspace

__all__ = ["Certificate", "ConvexSparseCoding", "ConvexSubspace", "FactorModel", "RobustSubspace", "SubspaceImputer"]
