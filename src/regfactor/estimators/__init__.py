"""Named estimators: one problem each, in scikit-learn's API."""

from regfactor.estimators.arma.estimator import RegularizedARMA
from regfactor.estimators.certificate import Certificate
from regfactor.estimators.clusters.cuts import BregmanNormalizedCut
from regfactor.estimators.clusters.kmeans import BregmanKMeans
from regfactor.estimators.clusters.mixture import BregmanMixture
from regfactor.estimators.epca.estimator import ExponentialFamilyPCA
from regfactor.estimators.expectation.estimator import ExpectationSVC
from regfactor.estimators.reverse.classifier import ReverseClassifier
from regfactor.estimators.reverse.forward import BregmanRegressor
from regfactor.estimators.reverse.regression import ReverseRegressor
from regfactor.estimators.snf.cv import SNFRegressorCV
from regfactor.estimators.snf.estimator import SNFRegressor
from regfactor.estimators.subspaces.embedding import KernelSubspace
from regfactor.estimators.subspaces.generic import FactorModel
from regfactor.estimators.subspaces.imputer import SubspaceImputer
from regfactor.estimators.subspaces.robust import RobustSubspace
from regfactor.estimators.subspaces.subspace import ConvexSparseCoding, ConvexSubspace
from regfactor.estimators.views.convex_labels import ConvexFactorClassifier, ConvexFactorRegressor
from regfactor.estimators.views.correlation import CanonicalCorrelation
from regfactor.estimators.views.reduced_rank import ReducedRankRegression
from regfactor.estimators.views.two_view import TwoViewSubspace

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
