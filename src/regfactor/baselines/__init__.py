"""Methods that the papers compare with and no well-kept library has."""

from __future__ import annotations

from regfactor.baselines.laplacian import LaplacianRLS, LaplacianSVM
from regfactor.baselines.transductive import TransductiveRegression

__all__ = ["LaplacianRLS", "LaplacianSVM", "TransductiveRegression"]
