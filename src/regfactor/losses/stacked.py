"""Different losses on different columns of one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses.base import Loss


def _positions(columns: Any, d: int) -> Array:
    """Return the columns that an index, a list of them or a slice stands for."""
    try:
        return np.atleast_1d(np.arange(d)[columns])
    except IndexError as error:
        raise ValueError(
            f"A loss stands on columns {columns!r}, which a table of {d} columns has not.",
        ) from error


@dataclass
class Stacked(Loss):
    """A loss for each group of columns; it is taken apart by `parts` and never evaluated itself."""

    groups: tuple[tuple[Any, Loss], ...] = ()

    def __post_init__(self) -> None:
        for columns, loss in self.groups:
            if not isinstance(loss, Loss) or isinstance(loss, Stacked):
                raise ValueError(
                    f"Stacked takes pairs (columns, Loss), got {loss!r} for columns {columns!r}.",
                )

    def parts(self, d: int) -> list[tuple[Any, Loss]]:
        """Return the groups as index arrays; every one of d columns must stand in exactly one."""
        found = [(_positions(columns, d), loss) for columns, loss in self.groups]
        counts = np.bincount(
            np.concatenate([c for c, _ in found] or [np.zeros(0, int)]),
            minlength=d,
        )
        bare, twice = (np.flatnonzero(wrong).tolist() for wrong in (counts == 0, counts > 1))
        said = ([f"columns {bare} have none"] if bare else []) + (
            [f"columns {twice} have several"] if twice else []
        )
        if said:
            raise ValueError(f"Each of the {d} columns needs exactly one loss; {', '.join(said)}.")
        return found

    def value(self, z: Array, x: Array) -> NoReturn:
        raise UnsupportedProblem("Stacked is a list of losses; evaluate its parts(d).")

    def gradient(self, z: Array, x: Array) -> NoReturn:
        self.value(z, x)

    def hessian(self, z: Array, x: Array) -> NoReturn:
        self.value(z, x)

    def conjugate(self, y: Array, x: Array) -> NoReturn:
        self.value(y, x)

    def inverse_gradient(self, y: Array, x: Array) -> NoReturn:
        self.value(y, x)

    def dual_domain(self, x: Array) -> NoReturn:
        self.value(x, x)
