"""The role of a solver: mathematics only, handed to the loop as a stream of iterates."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Iterate
from regfactor.core.params import Params


class Solver(Params, abc.ABC):
    """Yields iterates, for ever or until there is nothing left to do; stops, counts and prints nothing."""

    sparse = False  # whether it takes a table of which only the observed entries are held

    @abc.abstractmethod
    def check(self, problem: Any) -> None:
        """Raise UnsupportedProblem, before any work, for a problem this solver cannot take."""

    @abc.abstractmethod
    def iterates(self, problem: Any, start: FactorPoint | None) -> Iterator[Iterate]:
        """Yield iterates from a start."""
