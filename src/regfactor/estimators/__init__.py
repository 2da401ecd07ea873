"""Named estimators: one problem each, in scikit-learn's API."""

from regfactor.estimators.certificate import Certificate
from regfactor.estimators.generic import FactorModel
from regfactor.estimators.subspace import ConvexSparseCoding, ConvexSubspace, RobustSubspace

__all__ = ["Certificate", "ConvexSparseCoding", "ConvexSubspace", "FactorModel", "RobustSubspace"]
