"""Members of the pool by name, and what they leave when they are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.auto_imputer.conditioning import FactoredNormal, Normal
from regfactor.tables.auto_imputer.model import Cascade, base_variances
from regfactor.tables.auto_imputer.stages import (
    CascadeData,
    CopulaStage,
    FittedNormals,
    ForestStage,
    GaussianStage,
    KernelStage,
    LowRankStage,
    MeanStage,
    ResidualForestStage,
    Stage,
)

MEMBERS = ("low rank", "gaussian", "copula", "kernel", "forest", "residual forest")
MAX_VARIABLES = 400  # for each of which a kernel and a forest is fitted
MIN_ROWS = 8  # below which, or with fewer entries, columns are filled by their means
MIN_ENTRIES = 40


def stages(data: CascadeData, names: Sequence[str]) -> list[Stage]:
    """Return the members of these names that suit the table, or the means where none does."""
    Z = data.parts[-1].Z
    few = len(Z) < MIN_ROWS or (~np.isnan(Z)).sum() < MIN_ENTRIES
    if few or len(data.layout.variables) < 2:
        return [MeanStage(data)]
    low_rank = LowRankStage(data)
    gaussian = None
    found: dict[str, Stage] = {"low rank": low_rank}
    if not data.is_wide:
        gaussian = GaussianStage(data, low_rank)
        found["gaussian"] = gaussian
        found["copula"] = CopulaStage(data, gaussian)
    if len(data.layout.variables) <= MAX_VARIABLES:
        kernel = KernelStage(data, low_rank, gaussian)
        forest = ForestStage(data, kernel)
        found["kernel"] = kernel
        found["forest"] = forest
        found["residual forest"] = ResidualForestStage(data, forest)
    suitable = [found[name] for name in dict.fromkeys(names) if name in found]
    return suitable or [low_rank]


def _first(members: Sequence[Any], kind: type) -> Any:
    return next((member for member in members if isinstance(member, kind)), None)


def _forest_stage(members: Sequence[Stage]) -> ForestStage | None:
    found = _first(members, ForestStage)
    if found is None:
        residual = _first(members, ResidualForestStage)
        found = None if residual is None else residual.forest
    return found


def _kernel_stage(members: Sequence[Stage]) -> KernelStage | None:
    forest = _forest_stage(members)
    if forest is not None:
        return forest.kernel
    kernel: KernelStage | None = _first(members, KernelStage)
    return kernel


def _base(members: Sequence[Stage]) -> FittedNormals | None:
    """Return the distributions from which variances are taken; None for means."""
    kernel = _kernel_stage(members)
    if kernel is not None:
        return kernel.base
    copula: CopulaStage | None = _first(members, CopulaStage)
    if copula is not None:
        return copula.gaussian.outcome
    stage = _first(members, GaussianStage) or _first(members, LowRankStage)
    return None if stage is None else stage.outcome


def held_out_measures(members: Sequence[Stage], data: CascadeData) -> Array:
    """Return the variances of held-out entries, as `Cascade.predict` returns them of rows."""
    base = _base(members)
    tables = []
    for t, part in enumerate(data.folds):
        if base is None:
            tables.append(np.ones(part.Z.shape))
        else:
            tables.append(base_variances(base.conditioned[t], part.held_out))
    measures = [data.held_out_of(tables)]
    forest = _forest_stage(members)
    if forest is not None:
        measures.append(forest.outcome.variances)
    return np.array(measures)


def excess_variances(members: Sequence[Stage], data: CascadeData) -> Array:
    """Return variances of held-out entries, by members, that the whole table does not have.

    Forests of folds have fewer trees.
    """
    out = np.zeros((len(data.held_out_cells.truth), len(members)))
    for k, member in enumerate(members):
        if isinstance(member, ForestStage):
            out[:, k] = member.outcome.excess
        elif isinstance(member, ResidualForestStage):
            out[:, k] = member.forest.outcome.excess
    return out


def whole_cascade(members: Sequence[Stage]) -> Cascade:
    """Return the stages as they were fitted to the whole table."""
    normals: dict[str, Normal] = {}
    for member in members:
        if isinstance(member, LowRankStage | GaussianStage):
            normals[member.name] = member.outcome.normals[-1]
    base = _base(members)
    if base is None:
        width = len(members[0].data.layout.scale)
        mean = np.zeros(width)
        independent = FactoredNormal(mean, np.empty((0, width)), np.ones(width))
        normals["mean"] = independent
        normal: Normal = independent
    else:
        normal = base.normals[-1]
    copula = _first(members, CopulaStage)
    kernel = _kernel_stage(members)
    forest = _forest_stage(members)
    return Cascade(
        names=[member.name for member in members],
        normals=normals,
        copula=None if copula is None else copula.outcome[-1],
        base=normal,
        kernels=[] if kernel is None else kernel.outcome[-1].kernels,
        forests=[] if forest is None else forest.outcome.forests,
    )
