"""Different penalties for different atoms: shared and private parts, supervised and free ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.core.params import Array, is_count
from regfactor.penalties.factor import Proximable


@dataclass
class _AtomGroups(Proximable):
    """Pairs (number of atoms, penalty), in the order of the atoms."""

    parts: Any = ()

    def __post_init__(self) -> None:
        name = type(self).__name__
        pairs = isinstance(self.parts, tuple | list) and len(self.parts) > 0
        if not pairs or any(not isinstance(p, tuple | list) or len(p) != 2 for p in self.parts):
            raise ValueError(f"{name} needs pairs (number of atoms, penalty), got {self.parts!r}.")
        for count, penalty in self.parts:
            if not is_count(count) or not isinstance(penalty, Proximable):
                raise ValueError(
                    f"{name} needs pairs (number of atoms, penalty with a prox), got "
                    f"({count!r}, {penalty!r})."
                )
        penalties = [penalty for _, penalty in self.parts]
        self.rowwise = all(penalty.rowwise for penalty in penalties)
        self.separable = all(penalty.separable for penalty in penalties)
        self.convex = all(penalty.convex for penalty in penalties)
        self.non_negative = all(penalty.non_negative for penalty in penalties)

    @property
    def n_atoms(self) -> int:
        """The number of atoms of all parts."""
        return sum(count for count, _ in self.parts)

    def _places(self) -> list[tuple[slice, Proximable]]:
        places = []
        start = 0
        for count, penalty in self.parts:
            places.append((slice(start, start + count), penalty))
            start += count
        return places

    def _check(self, n_atoms: int) -> None:
        if self.n_atoms != n_atoms:
            raise ValueError(
                f"{type(self).__name__} has {self.n_atoms} atoms, and the factor {n_atoms}: rank "
                "must be the sum of the parts."
            )


@dataclass
class CodeParts(_AtomGroups):
    """Other penalties for other columns of the codes: pairs (number of columns, penalty)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        ridges = [penalty.ridge for _, penalty in self.parts]
        if all(ridge is not None for ridge in ridges):
            columns = []
            for (count, _), ridge in zip(self.parts, ridges, strict=True):
                columns.append(np.broadcast_to(np.asarray(ridge, np.float64), count))
            self.ridge = np.concatenate(columns)

    def check(self, shape: tuple[int, int]) -> None:
        self._check(shape[1])
        for places, penalty in self._places():
            penalty.check((shape[0], places.stop - places.start))

    def rows(self, A: Array) -> Array:
        costs = np.zeros(len(A))
        for places, penalty in self._places():
            costs = costs + penalty.rows(A[:, places])
        return costs

    def value(self, A: Array) -> float:
        return sum(penalty.value(A[:, places]) for places, penalty in self._places())

    def prox(self, A: Array, t: float | Array) -> Array:
        return np.hstack([penalty.prox(A[:, places], t) for places, penalty in self._places()])


@dataclass
class ComponentParts(_AtomGroups):
    """Other penalties for other components: pairs (number of rows, penalty)."""

    def check(self, shape: tuple[int, int]) -> None:
        self._check(shape[0])
        for places, penalty in self._places():
            penalty.check((places.stop - places.start, shape[1]))

    def rows(self, A: Array) -> Array:
        return np.concatenate([penalty.rows(A[places]) for places, penalty in self._places()])

    def value(self, A: Array) -> float:
        return sum(penalty.value(A[places]) for places, penalty in self._places())

    def prox(self, A: Array, t: float | Array) -> Array:
        parts = []
        for places, penalty in self._places():
            strength = t
            if np.size(t) > 1:
                strength = np.asarray(t)[places]
            parts.append(penalty.prox(A[places], strength))
        return np.vstack(parts)
