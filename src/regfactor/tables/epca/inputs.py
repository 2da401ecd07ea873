"""The arguments of a fit as numbers: table, weights, offsets, and the kernel of a kernel model."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.fitting.columns import unmasked
from regfactor.kernels import Kernel, Precomputed
from regfactor.losses import Gamma, Loss
from regfactor.problems import Data
from regfactor.tables.epca.entries import WeightedTable
from regfactor.tables.epca.observation import ObservationModel


def as_offset(offset: Any, table: Any, loss: Loss, levels: bool = False) -> Array | None:
    """Return offsets of the predictors as a column or a table; `levels` may be among them."""
    if offset is None:
        return None
    if isinstance(loss, Gamma) and not levels:
        raise ValueError(
            "offset is a log exposure, and the canonical link of family='gamma' is no log: leave "
            "it out."
        )
    values = np.asarray(unmasked(offset), table.dtype)
    if values.ndim == 1:
        values = values[:, None]
    n, d = table.shape
    if values.shape not in ((n, 1), (n, d)):
        raise ValueError(
            f"offset has shape {np.shape(offset)}; a table of shape {table.shape} needs a number "
            "for each row or for each entry."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            "offset must be finite: leave out rows without exposure, or mark their entries by NaN."
        )
    return values


@frozen
class FittedKernel:
    """A kernel and the training rows that rows are compared with."""

    kernel: Kernel
    training: Any

    def gram(self, table: Any = None) -> Array:
        """Return the kernel of new rows, or of the training rows, against the training rows.

        Only a Gram matrix that is given may have missing entries.
        """
        rows = self.training if table is None else table
        reference = None if table is None else self.training
        given = isinstance(self.kernel, Precomputed)
        if not given and (is_sparse(rows) or np.isnan(rows).any()):
            raise ValueError(
                "A kernel needs rows without missing entries (NaN): fill them first, or give the "
                "Gram matrix as 'precomputed'."
            )
        return np.asarray(self.kernel.gram(rows, reference), rows.dtype)


@frozen
class EpcaInputs:
    """The arguments of `fit`, and the data of the rows that are learned from."""

    given: WeightedTable
    learned: WeightedTable
    observation: ObservationModel
    data: Data
    kernel: FittedKernel | None
    names: list[Any] | None

    @property
    def exposure(self) -> Array:
        """The exposures of all rows."""
        return self.observation.exposure(self.given)

    @property
    def offset_given(self) -> bool:
        """Whether predictors have an offset that `fit` was given."""
        return self.given.offset is not None
