"""What estimators that average a pool of members have in common."""

from __future__ import annotations

from typing import Any

from regfactor.core.loop import Solution, Status
from regfactor.fitting.base import Estimator


class PoolEstimator(Estimator):
    """An estimator whose problem is a `Pool`; an iteration of its run is the fit of a member."""

    members_: list[str]

    def _complaint(self, solution: Solution[Any]) -> str | None:
        """Return that members were left out, where the time did not suffice."""
        if solution.status is Status.TIME_LIMIT:
            return (
                f"fitted only the members {', '.join(self.members_)}: the time limit was reached "
                "first; raise time_limit, or name fewer members."
            )
        return super()._complaint(solution)
