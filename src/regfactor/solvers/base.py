"""The role of a solver: mathematics only, handed to the loop as a stream of iterates."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Self

from regfactor.core.loop import Iterate, Limits
from regfactor.core.params import Params, UnsupportedProblem


class Solver(Params, abc.ABC):
    """Yields iterates, without end or until nothing is left to do; it neither stops nor prints."""

    sparse = False  # whether it accepts a table of which only the observed entries are held
    ends_itself = False  # whether it ends by itself: small changes of the objective do not end it

    @classmethod
    def for_limits(cls, limits: Limits) -> Self:
        """Return the solver with what it needs to know of the limits of a run."""
        return cls()

    @abc.abstractmethod
    def check(self, problem: Any) -> None:
        """Raise UnsupportedProblem, before any work, if this solver cannot solve a problem."""

    def accepts(self, problem: Any) -> bool:
        """Return whether this solver can solve a problem."""
        try:
            self.check(problem)
        except UnsupportedProblem:
            return False
        return True

    def suits(self, problem: Any, limits: Limits) -> bool:
        """Return whether to take this solver before those that a problem names after it."""
        return self.accepts(problem)

    def prepare(self, problem: Any) -> Any:
        """Return an equal problem in the layout in which this solver is fast."""
        return problem

    @abc.abstractmethod
    def iterates(self, problem: Any, start: Any) -> Iterator[Iterate[Any]]:
        """Yield iterates from a start, a point of the problem or None."""
