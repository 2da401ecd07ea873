"""Pools of members: fitted one by one, cut short by the limits of a run, reported in words."""

from dataclasses import dataclass

import pytest

from regfactor.core.loop import Status
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.problems.pool import Pool
from regfactor.solvers.base import solve


@dataclass(frozen=True)
class Constant:
    """A member that predicts a number."""

    name: str
    value: float

    def fit(self):
        return self.value


class Numbers(Pool):
    """The loss of the mean of the members, for the number 1."""

    def loss(self, fitted):
        return (sum(fitted) / len(fitted) - 1.0) ** 2


MEMBERS = (Constant("a", 1.0), Constant("b", 5.0), Constant("c", -3.0))


def test_all_members_are_fitted_in_order_even_if_the_loss_rises():
    solution = solve(Numbers(MEMBERS))
    assert solution.point == (1.0, 5.0, -3.0)
    assert solution.objective == 0.0
    assert solution.status is Status.FINISHED
    assert solution.solver == "MemberFits"
    assert [record.info["member"] for record in solution.history] == ["a", "b", "c"]
    assert solution.history[1].objective == 4.0


def test_limits_leave_a_smaller_pool():
    assert solve(Numbers(MEMBERS), max_iter=2).point == (1.0, 5.0)
    cut = solve(Numbers(MEMBERS), time_limit=0.0)
    assert cut.point == (1.0,)
    assert cut.status is Status.TIME_LIMIT


def test_a_run_goes_on_from_the_members_that_have_been_fitted():
    assert solve(Numbers(MEMBERS), start=(1.0, 7.0)).point == (1.0, 7.0, -3.0)


@pytest.mark.parametrize(
    ("members", "message"),
    [((), "no members"), ((MEMBERS[0], MEMBERS[0]), "'a'; give each one its own")],
)
def test_pools_that_cannot_be_averaged_are_refused(members, message):
    with pytest.raises(ValueError, match=message):
        solve(Numbers(members))


def test_an_explanation_lists_members_by_weight():
    reports = [MemberReport("low", 0.2, -1.0, "x"), MemberReport("high", 0.8, -2.0, "y")]
    told = Explanation.of(reports, "mean log-likelihood", ["It changed 3 rows."])
    assert [report.member for report in told.members] == ["high", "low"]
    lines = str(told).splitlines()
    assert lines[1].startswith("high")
    assert "mean log-likelihood" in lines[3]
    assert lines[4] == "It changed 3 rows."
    assert told.to_frame()["weight"].tolist() == [0.8, 0.2]
