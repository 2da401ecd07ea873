"""Named estimators: one problem each, in scikit-learn's API."""

from regfactor.estimators.arma import RegularizedARMA
from regfactor.estimators.certificate import Certificate
from regfactor.estimators.cluster import BregmanKMeans
from regfactor.estimators.convex_labels import ConvexFactorClassifier, ConvexFactorRegressor
from regfactor.estimators.correlation import CanonicalCorrelation, ReducedRankRegression
from regfactor.estimators.cuts import BregmanNormalizedCut
from regfactor.estimators.embedding import KernelSubspace
from regfactor.estimators.epca import ExponentialFamilyPCA
from regfactor.estimators.expectation import ExpectationSVC
from regfactor.estimators.forward import BregmanRegressor
from regfactor.estimators.generic import FactorModel
from regfactor.estimators.imputer import SubspaceImputer
from regfactor.estimators.mixture import BregmanMixture
from regfactor.estimators.reverse_classifier import ReverseClassifier
from regfactor.estimators.reverse_regression import ReverseRegressor
from regfactor.estimators.robust import RobustSubspace
from regfactor.estimators.snf import SNFRegressor
from regfactor.estimators.snf_cv import SNFRegressorCV
from regfactor.estimators.subspace import ConvexSparseCoding, ConvexSubspace
from regfactor.estimators.views import TwoViewSubspace

__all__ = [
    "BregmanKMeans",
    "BregmanMixture",
    "BregmanNormalizedCut",
    "BregmanRegressor",
    "CanonicalCorrelation",
    "Certificate",
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
]
