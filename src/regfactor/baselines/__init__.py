"""Methods that the papers compare with and no well-kept library has."""

from __future__ import annotations

from regfactor.baselines.labels import AlternatingLabels, MatrixCompletionLabels, StagedLabels
from regfactor.baselines.laplacian import LaplacianRLS, LaplacianSVM
from regfactor.baselines.transductive import TransductiveRegression
from regfactor.baselines.views import LocalTwoView, MultiViewRelaxation, SingleViewSubspace

__all__ = [
    "AlternatingLabels",
    "LaplacianRLS",
    "LaplacianSVM",
    "LocalTwoView",
    "MatrixCompletionLabels",
    "MultiViewRelaxation",
    "SingleViewSubspace",
    "StagedLabels",
    "TransductiveRegression",
]
