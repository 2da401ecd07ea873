"""What a pool of models decided, as a small table and in plain words."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class MemberReport:
    """A member of a pool: its weight in the average, its score, and what it assumes."""

    member: str
    weight: float
    score: float
    assumes: str


@dataclass(frozen=True)
class Explanation:
    """Which members carried a result; its `str` is a table followed by plain sentences.

    Attributes
    ----------
    members : list of MemberReport
        In the order of their weights.
    score_name : str
        What `score` is, and which direction is better.
    sentences : list of str
    """

    members: list[MemberReport]
    score_name: str
    sentences: list[str]

    @classmethod
    def of(
        cls,
        members: Sequence[MemberReport],
        score_name: str,
        sentences: Sequence[str],
    ) -> Explanation:
        """Return an explanation with the members sorted by their weights."""
        ordered = sorted(members, key=lambda report: -report.weight)
        return cls(ordered, score_name, list(sentences))

    def to_frame(self) -> Any:
        """Return the table as a pandas frame, a row for each member."""
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame([asdict(report) for report in self.members])

    def __str__(self) -> str:
        width = max(len(report.member) for report in self.members)
        lines = [f"{'member':<{width}}  weight    score  assumes"]
        for report in self.members:
            lines.append(
                f"{report.member:<{width}}  {report.weight:6.3f}  {report.score:7.3f}  "
                f"{report.assumes}"
            )
        lines.append(f"(score: {self.score_name})")
        lines.extend(self.sentences)
        return "\n".join(lines)
