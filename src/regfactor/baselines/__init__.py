"""Methods that the papers compare with and no well-kept library has."""

from __future__ import annotations

from regfactor.comparisons.graph_regression import LaplacianRegression
from regfactor.comparisons.hessian import HessianRegression
from regfactor.comparisons.keywords import KeywordVote
from regfactor.comparisons.labels import AlternatingLabels, MatrixCompletionLabels, StagedLabels
from regfactor.comparisons.laplacian import LaplacianRLS, LaplacianSVM
from regfactor.comparisons.latent_reconstruction import LinearLatentReconstruction
from regfactor.comparisons.least_squares_svm import LeastSquaresSVM
from regfactor.comparisons.parallel_field import ParallelFieldRegression
from regfactor.comparisons.sparse_labels import SparseCodingLabels
from regfactor.comparisons.transductive import TransductiveRegression
from regfactor.comparisons.views import LocalTwoView, MultiViewRelaxation, SingleViewSubspace

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
