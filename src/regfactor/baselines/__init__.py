"""Methods that the papers compare with and no well-kept library has."""

from __future__ import annotations

from regfactor.baselines.graph_regression import LaplacianRegression
from regfactor.baselines.hessian import HessianRegression
from regfactor.baselines.keywords import KeywordVote
from regfactor.baselines.labels import AlternatingLabels, MatrixCompletionLabels, StagedLabels
from regfactor.baselines.laplacian import LaplacianRLS, LaplacianSVM
from regfactor.baselines.latent_reconstruction import LinearLatentReconstruction
from regfactor.baselines.least_squares_svm import LeastSquaresSVM
from regfactor.baselines.parallel_field import ParallelFieldRegression
from regfactor.baselines.sparse_labels import SparseCodingLabels
from regfactor.baselines.transductive import TransductiveRegression
from regfactor.baselines.views import LocalTwoView, MultiViewRelaxation, SingleViewSubspace

__all__ = [
    "AlternatingLabels",
    "HessianRegression",
    "KeywordVote",
    "LaplacianRLS",
    "LaplacianRegression",
    "LaplacianSVM",
    "LeastSquaresSVM",
    "LinearLatentReconstruction",
    "LocalTwoView",
    "MatrixCompletionLabels",
    "MultiViewRelaxation",
    "ParallelFieldRegression",
    "SingleViewSubspace",
    "SparseCodingLabels",
    "StagedLabels",
    "TransductiveRegression",
]
