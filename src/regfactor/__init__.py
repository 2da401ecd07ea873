"""Regularized factor models: one objective for many kinds of tables, solved with a proof."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regfactor.cli.reading import read_table
    from regfactor.clusters.auto_mixture import AutoMixture
    from regfactor.clusters.kmeans import BregmanKMeans
    from regfactor.clusters.mixture import BregmanMixture
    from regfactor.clusters.normalized_cut import BregmanNormalizedCut
    from regfactor.engine.blocks import BlockTable
    from regfactor.labels.convex.estimator import ConvexFactorClassifier, ConvexFactorRegressor
    from regfactor.labels.expectation.estimator import ExpectationSVC
    from regfactor.labels.latent.cv import SNFRegressorCV
    from regfactor.labels.latent.estimator import SNFRegressor
    from regfactor.labels.reverse.bregman_regressor import BregmanRegressor
    from regfactor.labels.reverse.classifier import ReverseClassifier
    from regfactor.labels.reverse.regressor import ReverseRegressor
    from regfactor.labels.semi_supervised.classifier import SemiSupervisedClassifier
    from regfactor.labels.semi_supervised.regressor import SemiSupervisedRegressor
    from regfactor.saving import load, save
    from regfactor.series.arma.estimator import RegularizedARMA
    from regfactor.series.forecaster import AutoForecaster
    from regfactor.solvers.base import solve
    from regfactor.solvers.paths import path
    from regfactor.tables.auto_imputer.estimator import AutoImputer
    from regfactor.tables.epca.estimator import ExponentialFamilyPCA
    from regfactor.tables.factor_analysis import FactorAnalysis
    from regfactor.tables.factor_model import FactorModel
    from regfactor.tables.imputer import SubspaceImputer
    from regfactor.tables.kernel_subspace import KernelSubspace
    from regfactor.tables.robust import RobustSubspace
    from regfactor.tables.subspace import ConvexSparseCoding, ConvexSubspace
    from regfactor.tables.tensor_subspace import TensorSubspace
    from regfactor.versions import show_versions
    from regfactor.views.correlation import CanonicalCorrelation
    from regfactor.views.multi_view import MultiViewSubspace
    from regfactor.views.reduced_rank import ReducedRankRegression
    from regfactor.views.two_view import TwoViewSubspace

__version__ = version("regfactor")

__all__ = [
    "AutoForecaster",
    "AutoImputer",
    "AutoMixture",
    "BlockTable",
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
    "FactorAnalysis",
    "FactorModel",
    "KernelSubspace",
    "MultiViewSubspace",
    "ReducedRankRegression",
    "RegularizedARMA",
    "ReverseClassifier",
    "ReverseRegressor",
    "RobustSubspace",
    "SNFRegressor",
    "SNFRegressorCV",
    "SemiSupervisedClassifier",
    "SemiSupervisedRegressor",
    "SubspaceImputer",
    "TensorSubspace",
    "TwoViewSubspace",
    "load",
    "path",
    "read_table",
    "save",
    "show_versions",
    "solve",
]

PACKAGES = (
    "atlas",
    "baselines",
    "constraints",
    "datasets",
    "inference",
    "kernels",
    "losses",
    "maps",
    "model_selection",
    "norms",
    "penalties",
    "plots",
    "problems",
    "series",
    "testing",
)

HOMES = {
    "BlockTable": "engine.blocks",
    "AutoForecaster": "series.forecaster",
    "AutoImputer": "tables.auto_imputer.estimator",
    "AutoMixture": "clusters.auto_mixture",
    "BregmanKMeans": "clusters.kmeans",
    "BregmanMixture": "clusters.mixture",
    "BregmanNormalizedCut": "clusters.normalized_cut",
    "BregmanRegressor": "labels.reverse.bregman_regressor",
    "CanonicalCorrelation": "views.correlation",
    "ConvexFactorClassifier": "labels.convex.estimator",
    "ConvexFactorRegressor": "labels.convex.estimator",
    "ConvexSparseCoding": "tables.subspace",
    "ConvexSubspace": "tables.subspace",
    "ExpectationSVC": "labels.expectation.estimator",
    "ExponentialFamilyPCA": "tables.epca.estimator",
    "FactorAnalysis": "tables.factor_analysis",
    "FactorModel": "tables.factor_model",
    "KernelSubspace": "tables.kernel_subspace",
    "MultiViewSubspace": "views.multi_view",
    "ReducedRankRegression": "views.reduced_rank",
    "RegularizedARMA": "series.arma.estimator",
    "ReverseClassifier": "labels.reverse.classifier",
    "ReverseRegressor": "labels.reverse.regressor",
    "RobustSubspace": "tables.robust",
    "SNFRegressor": "labels.latent.estimator",
    "SNFRegressorCV": "labels.latent.cv",
    "SemiSupervisedClassifier": "labels.semi_supervised.classifier",
    "SemiSupervisedRegressor": "labels.semi_supervised.regressor",
    "SubspaceImputer": "tables.imputer",
    "TensorSubspace": "tables.tensor_subspace",
    "TwoViewSubspace": "views.two_view",
    "load": "saving",
    "path": "solvers.paths",
    "read_table": "cli.reading",
    "save": "saving",
    "show_versions": "versions",
    "solve": "solvers.base",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that an estimator loads only its own family."""
    if name in PACKAGES:
        return import_module(f"regfactor.{name}")
    if name not in HOMES:
        raise AttributeError(f"module 'regfactor' has no attribute {name!r}")
    found = getattr(import_module(f"regfactor.{HOMES[name]}"), name)
    globals()[name] = found  # found there from now on, without this function
    return found


def __dir__() -> list[str]:
    return sorted({"__doc__", "__version__", *__all__, *PACKAGES})
