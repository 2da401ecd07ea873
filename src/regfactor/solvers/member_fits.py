"""Fits of the members of a pool, one iterate each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regfactor.core.loop import Iterate
from regfactor.problems.base import Problem
from regfactor.problems.pool import Pool
from regfactor.solvers.base import Solver


@dataclass(frozen=True)
class MemberFits(Solver):
    """Yields the members fitted so far; a run ends when all are, or at the limit of its time."""

    solves: ClassVar[type[Problem[Any]]] = Pool
    ends_itself: ClassVar[bool] = True

    def iterates(self, problem: Any, start: Any) -> Iterator[Iterate[Any]]:
        """Yield one iterate after the fit of each member.

        Each is a stage of its own: a larger pool is kept even if its loss is larger.
        """
        fitted = tuple(start or ())
        for stage, member in enumerate(problem.members[len(fitted) :]):
            try:
                found = member.fit()
            except np.linalg.LinAlgError as error:  # which would end the run without a word
                raise ValueError(
                    f"The member {member.name!r} failed: {error} Leave it out of the members."
                ) from error
            fitted = (*fitted, found)
            yield Iterate(
                fitted,
                problem.loss(fitted),
                stage=stage,
                info={"member": member.name, "share": len(fitted) / len(problem.members)},
            )
