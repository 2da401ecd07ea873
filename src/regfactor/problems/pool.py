"""A pool of models of the same rows, each fitted and judged; automatic estimators average them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from regfactor.core.params import frozen
from regfactor.problems.base import Problem

Fitted = TypeVar("Fitted")
Result = TypeVar("Result", covariant=True)


class Member(Protocol[Result]):
    """A model of a pool, with its data; nothing is computed before `fit`."""

    @property
    def name(self) -> str:
        """The name by which weights and scores are reported."""
        ...

    def fit(self) -> Result:
        """Return the model with its parameters, and what its weight is found from."""
        ...


@frozen
class Pool(Problem[tuple[Fitted, ...]], abc.ABC, Generic[Fitted]):
    """min over weights of the loss of the average of the members, on what they did not see.

    Attributes
    ----------
    members : sequence of Member
        Models that are fitted one after the other; a run that is cut short averages those that
        have been fitted.
    """

    solvers: ClassVar[tuple[str, ...]] = ("regfactor.solvers.member_fits:MemberFits",)

    members: Sequence[Member[Fitted]]

    def check(self) -> None:
        """Raise if the pool is empty or two members have one name."""
        names = [member.name for member in self.members]
        if not names:
            raise ValueError("The pool has no members; name at least one.")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Two members have the name {name!r}; give each one its own.")

    @abc.abstractmethod
    def loss(self, fitted: Sequence[Fitted]) -> float:
        """Return the loss of the average of fitted members on what they did not see."""
