"""The role of a solver: mathematics only, handed to the loop as a stream of iterates."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, ClassVar

from regfactor.core.loop import Iterate
from regfactor.core.params import Params, UnsupportedProblem
from regfactor.problems.base import Problem


class Solver(Params, abc.ABC):
    """Yields iterates, indefinitely or until nothing is left to do; it neither stops nor prints.

    Attributes
    ----------
    solves : type
        The kind of problem that it solves, one of those that name it.
    sparse : bool
        Whether it accepts a table of which only the observed entries are held.
    ends_itself : bool
        Whether small changes of the objective do not end its run.
    from_limits : tuple of str
        Limits of a run that are parameters of the solver, under the same names.
    """

    solves: ClassVar[type[Problem[Any]]]
    sparse: ClassVar[bool] = False
    ends_itself: ClassVar[bool] = False
    from_limits: ClassVar[tuple[str, ...]] = ()

    def check(self, problem: Any) -> None:  # noqa: B027  # many solve all problems of their kind
        """Raise UnsupportedProblem, before any work, if this solver cannot solve a problem.

        It is one of `solves`, in a layout that the solver accepts.
        """

    def accepts(self, problem: Any) -> bool:
        """Return whether this solver can solve a problem."""
        if not isinstance(problem, self.solves) or (problem.sparse and not self.sparse):
            return False
        try:
            self.check(problem)
        except UnsupportedProblem:
            return False
        return True

    def suits(self, problem: Any) -> bool:
        """Return whether to take this solver before the candidates after it."""
        return self.accepts(problem)

    def prepare(self, problem: Any) -> Any:
        """Return an equal problem in the layout in which this solver is fast."""
        return problem

    @abc.abstractmethod
    def iterates(self, problem: Any, start: Any) -> Iterator[Iterate[Any]]:
        """Yield iterates from a start, a point of the problem or None."""
