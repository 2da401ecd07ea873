"""Models of rows of the atlas, solved exactly, and quantities of fitted ones."""

from __future__ import annotations

from typing import Any

from regfactor.atlas import references as textbook
from regfactor.atlas.samples import GROUPS, Sample
from regfactor.core.params import Array
from regfactor.penalties import Free, OneHot
from regfactor.tables.factor_model import FactorModel

RANK = textbook.RANK


def exact_model(loss: Any = "squared", tol: float = 1e-12, **parts: Any) -> FactorModel:
    """Return a model of small tolerance."""
    return FactorModel(loss, **parts, tol=tol, max_iter=20_000, random_state=0)


def free_factors(rank: int = RANK) -> FactorModel:
    """Return the nearest table of a rank."""
    return exact_model(on_codes=Free(), on_components=Free(), rank=rank)


def hard_codes(loss: str = "squared", **parts: Any) -> FactorModel:
    """Return clusters by indicators."""
    return exact_model(loss, on_codes=OneHot(), rank=GROUPS, **parts)


def reconstructed(model: Any, _: Sample) -> Array:
    """Return codes times components."""
    product: Array = model.codes_ @ model.components_
    return product


def objective(model: Any, _: Sample) -> float:
    """Return the objective."""
    return float(model.objective_)


def squares(model: Any, _: Sample) -> float:
    """Return the sum of squares."""
    return 2 * float(model.objective_)
