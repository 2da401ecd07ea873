"""The role of a problem: frozen data and parameters, and the solvers that can solve it."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import ClassVar, Generic, Self

import numpy as np

from regfactor.core.loop import Iterate, Limits, P, Solution


class Problem(abc.ABC, Generic[P]):
    """What is minimized, over points of one kind; nothing is computed when a problem is stated.

    Attributes
    ----------
    solvers : tuple of str
        Classes of solvers, "package.module:Class", in order of preference. They are imported only
        when one is chosen, since solvers import problems.
    floor : float
        The smallest scale against which gaps and changes are measured.
    smallest_tol : float
        Tolerance below which a change cannot be distinguished from rounding.
    sparse : bool
        Whether only the observed entries of a table are held.
    """

    solvers: ClassVar[tuple[str, ...]]

    @property
    def floor(self) -> float:
        """The smallest scale against which gaps and changes are measured."""
        return 0.0

    @property
    def smallest_tol(self) -> float:
        """Tolerance below which a change cannot be distinguished from rounding."""
        return 0.0

    @property
    def sparse(self) -> bool:
        """Whether only the observed entries of a table are held."""
        return False

    def candidates(self, limits: Limits) -> tuple[str, ...]:
        """Return the solvers to try, in order of preference: by default all."""
        return self.solvers

    def check(self) -> None:  # noqa: B027  # many problems accept every data they can be stated with
        """Raise, before any work, if parts do not fit together."""

    def gap_scale(self, objective: float) -> float:
        """Return a scale relative to which a gap must be small too."""
        return np.inf

    def first_iterates(self) -> Iterable[Iterate[P]]:
        """Return iterates that are known without a solver, such as zero with its certificate."""
        return ()

    def finished(self, solution: Solution[P], tol: float, given: Self) -> Solution[P]:
        """Return a solution as it is handed out; `given` is the problem before it was prepared."""
        return solution
