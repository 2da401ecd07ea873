"""The arguments of a fit as numbers: table, weights, offsets and the kernel of a kernel model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.kernels import Kernel, Precomputed
from regfactor.losses import Gamma, Loss
from regfactor.problems import Data
from regfactor.tables.epca.entries import Entries
from regfactor.tables.epca.families import Reading


@dataclass(frozen=True, eq=False)
class Given:
    """What `fit` was given, as numbers: table, weights of rows and of entries, offsets of the predictors."""

    table: Any
    rows: Array | None
    entries: Any
    offset: Array | None

    @property
    def counted(self) -> Any:
        """Rows that are learned from; those of weight zero are only scored."""
        if self.rows is None:
            return slice(None)
        return self.rows > 0

    @property
    def learned(self) -> Given:
        """The rows that are learned from."""
        if self.rows is None or self.rows.all():
            return self
        parts = (self.table, self.rows, self.entries, self.offset)
        return Given(*(None if a is None else a[self.counted] for a in parts))

    @property
    def held(self) -> Entries:
        """The entries of the table with their weights."""
        return Entries.of(self.table, self.entries)

    @property
    def weights(self) -> Array:
        """The weights of all rows."""
        if self.rows is None:
            return np.ones(self.table.shape[0])
        return self.rows


def as_offset(offset: Any, table: Any, loss: Loss, levels: bool = False) -> Array | None:
    """Return offsets of the predictors as a column or a table; `levels` of rows may be among them."""
    if offset is None:
        return None
    if isinstance(loss, Gamma) and not levels:
        raise ValueError(
            "offset is a log exposure, and the canonical link of family='gamma' is no log: leave it out.",
        )
    values = np.asarray(offset, table.dtype)
    values = values[:, None] if values.ndim == 1 else values
    if (
        values.ndim != 2
        or values.shape[0] != table.shape[0]
        or values.shape[1] not in (1, table.shape[1])
    ):
        raise ValueError(
            f"offset has shape {np.shape(offset)}; a table of shape {table.shape} needs a number for "
            "each row or for each entry.",
        )
    if not np.isfinite(values).all():
        raise ValueError(
            "offset must be finite: leave out rows without exposure, or mark their entries by NaN.",
        )
    return values


@dataclass(frozen=True, eq=False)
class FittedKernel:
    """A kernel and the training rows that new rows are compared with."""

    kernel: Kernel
    training: Any

    def gram(self, table: Any = None) -> Array:
        """Return the kernel of new rows, or of the training rows, against the training rows.

        Only a Gram matrix that is given may have missing entries.
        """
        rows = self.training if table is None else table
        known = isinstance(self.kernel, Precomputed)
        if not known and (is_sparse(rows) or np.isnan(rows).any()):
            raise ValueError(
                "A kernel needs rows without missing entries (NaN): fill them first, or give the "
                "Gram matrix as 'precomputed'."
            )
        reference = None if table is None else self.training
        return np.asarray(self.kernel.gram(rows, reference), rows.dtype)


@dataclass(frozen=True, eq=False)
class EpcaInputs:
    """The arguments of `fit`, and the data of the rows that are learned from."""

    given: Given
    reading: Reading
    data: Data
    kernel: FittedKernel | None
    names: list[Any] | None
