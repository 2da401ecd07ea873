"""Different losses on different columns of one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from regfactor.core.params import Array, UnsupportedProblem
from regfactor.losses.base import Loss


def _positions(columns: Any, d: int) -> Array:
    """Return the positions of columns given by an index, a list of them or a slice."""
    try:
        return np.atleast_1d(np.arange(d)[columns])
    except IndexError as error:
        raise ValueError(
            f"A loss is given for columns {columns!r}, which a table of {d} columns does not have."
        ) from error


@dataclass
class Stacked(Loss):
    """A loss for each group of columns; `parts` takes it apart, it is never evaluated itself."""

    groups: tuple[tuple[Any, Loss], ...] = ()

    def __post_init__(self) -> None:
        for columns, loss in self.groups:
            if not isinstance(loss, Loss) or isinstance(loss, Stacked):
                raise ValueError(
                    f"Stacked takes pairs (columns, Loss), got {loss!r} for columns {columns!r}."
                )

    def parts(self, d: int) -> list[tuple[Any, Loss]]:
        """Return the groups as index arrays; each of d columns must belong to exactly one."""
        found = [(_positions(columns, d), loss) for columns, loss in self.groups]
        counts = np.zeros(d, int)
        for columns, _ in found:
            np.add.at(counts, columns, 1)
        missing = np.flatnonzero(counts == 0).tolist()
        repeated = np.flatnonzero(counts > 1).tolist()
        problems = []
        if missing:
            problems.append(f"columns {missing} have none")
        if repeated:
            problems.append(f"columns {repeated} have several")
        if problems:
            reason = ", ".join(problems)
            raise ValueError(f"Each of the {d} columns needs exactly one loss; {reason}.")
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
