"""What of a printed table holds in ours: each claim decided from the errors in its rows, none typed in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

SURE = 2.0  # standard errors from which on a printed difference is one
LEVEL = 0.05  # of the tests of ours
CONSTANT = "constant"  # the method that uses no inputs
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
COLUMNS = {"paper": "best on the grid", "fresh": "fresh seeds", "honest": "tuned on labels"}
LEGEND = (
    "Differences are of the same splits, and are judged by Wilcoxon's signed-rank test at 5 % in "
    "two tails, since some means are those of a few splits; shown are mean and standard error. A "
    "level, or the size of a difference, holds when the mean is within it. Printed differences "
    "count from twice their standard error on."
)
Row = dict[str, Any]
Rows = Mapping[str, Row]  # of one data set, by method
Decision = tuple[str, str]  # verdict, and the numbers it is read from


@dataclass(frozen=True)
class Claim:
    """A statement about one data set.

    `decide` says from the rows and a kind of tuning whether it holds.
    """

    dataset: str
    text: str
    methods: tuple[str, ...]
    decide: Callable[[Rows, str], Decision]

    def line(self, rows: Rows) -> str:
        """Return the verdict under every tuning that all its methods have."""
        kinds = [c for c in COLUMNS if all(c in rows[m] for m in self.methods)]
        parts = [
            f"{COLUMNS[c]} **{verdict}** ({numbers})"
            for c in kinds
            for verdict, numbers in [self.decide(rows, c)]
        ]
        return (
            f"- {self.dataset}, {self.text}: "
            f"{'; '.join(parts) or f'**{OPEN}**, a fit failed in every setting'}."
        )


def below(dataset: str, method: str, bound: float) -> Claim:
    """Return the claim that a mean error is at most some number."""

    def decide(rows: Rows, column: str) -> Decision:
        mean = rows[method][column]
        return HOLDS if mean["mean"] <= bound else FAILS, _number(mean)

    return Claim(dataset, f"{method} has an error of at most {bound:.3g}", (method,), decide)


def near(dataset: str, method: str, share: float = 0.2) -> Claim:
    """Return the claim that a mean error is within some share of the printed one."""

    def decide(rows: Rows, column: str) -> Decision:
        mean, printed = rows[method][column], parsed(rows[method]["printed"])
        assert printed is not None
        close = abs(mean["mean"] / printed[0] - 1) <= share
        return HOLDS if close else FAILS, f"{_number(mean)}, {mean['mean'] / printed[0] - 1:+.0%}"

    return Claim(dataset, f"{method} is within {share:.0%} of the printed error", (method,), decide)


def ahead(dataset: str, better: str, worse: str, by: float = 0.0) -> Claim:
    """Return the claim that one method has the lower error, by more than some number."""
    margin = f" by more than {by:.3g}" if by else ""

    def decide(rows: Rows, column: str) -> Decision:
        gaps = gains(rows[worse][column], rows[better][column])
        mean, error = (
            float(gaps.mean()),
            gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan,
        )
        mean = mean if abs(mean) > 1e-12 * np.abs(gaps).max() else 0.0  # not what rounding leaves
        verdict = judged(gaps)
        test = f"; a test of more than {by:.3g} {judged(gaps - by)}" if by else ""
        return (
            FAILS if verdict == HOLDS and mean <= by else verdict,
            f"by {mean:.3g} ± {error:.2g}{test}",
        )

    return Claim(dataset, f"{better} is better than {worse}{margin}", (better, worse), decide)


def gains(one: Row, other: Row) -> np.ndarray:
    """Return by how much the error of other is lower, split for split."""
    return np.subtract(one["errors"], other["errors"])


def judged(gaps: np.ndarray) -> str:
    """Return whether gaps are above zero, below it, or cannot be told from it."""
    if not gaps.any():
        return OPEN
    for side, verdict in (("greater", HOLDS), ("less", FAILS)):
        if wilcoxon(gaps, alternative=side).pvalue < LEVEL / 2:
            return verdict
    return OPEN


def parsed(printed: str | None) -> tuple[float, float] | None:
    """Return the mean and standard error of a printed number; None where none is printed."""
    numbers = [float(n) for n in re.findall(r"[\d.]+(?:e[+-]?\d+)?", printed or "")]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def orders(dataset: str, rows: Rows) -> list[str]:
    """Return how many of the printed differences between two methods are found here, too, and the best of both."""
    shown = {
        m: numbers for m, row in rows.items() if (numbers := parsed(row["printed"])) is not None
    }
    lines = []
    for column, title in COLUMNS.items():
        ours = {m: rows[m][column] for m in shown if column in rows[m]}
        if len(ours) < 2:
            continue
        counts = dict.fromkeys((HOLDS, OPEN, FAILS), 0)
        for one, other in itertools.combinations(ours, 2):
            low, high = sorted((one, other), key=lambda m: shown[m][0])
            if shown[high][0] - shown[low][0] <= SURE * np.hypot(shown[high][1], shown[low][1]):
                continue
            counts[judged(gains(ours[high], ours[low]))] += 1
        close = sum(abs(ours[m]["mean"] - shown[m][0]) <= 0.2 * shown[m][0] for m in ours)
        best, theirs = (
            min(ours, key=lambda m: ours[m]["mean"]),
            min(shown, key=lambda m: shown[m][0]),
        )
        lines.append(
            f"- {dataset}, {title}: of {sum(counts.values())} printed differences {counts[HOLDS]} "
            f"hold, {counts[OPEN]} are not decided, {counts[FAILS]} are reversed; {close} of "
            f"{len(ours)} errors within 20 % of the printed; lowest here {best}, in print "
            f"{theirs}{_useful(ours, rows, column)}."
        )
    return lines


def _useful(ours: Mapping[str, Row], rows: Rows, column: str) -> str:
    """Return how many methods use the inputs with success, and whose error that is."""
    constant = rows.get(CONSTANT, {}).get(column)
    if constant is None:
        return ""
    better = sum(judged(gains(constant, row)) == HOLDS for row in ours.values())
    return f"; {better} of {len(ours)} are better than a constant ({_number(constant)})"


def section(claims: Sequence[Claim], summary: list[Row]) -> str:
    """Return the part of a report that says what reproduces."""
    tables: dict[str, dict[str, Row]] = {}
    for row in summary:
        tables.setdefault(row["dataset"], {})[row["method"]] = row
    lines = [claim.line(tables[claim.dataset]) for claim in claims]
    found = [line for dataset, rows in tables.items() for line in orders(dataset, rows)]
    parts = [
        "## What reproduces",
        LEGEND,
        *(["\n".join(lines)] if lines else []),
        *(["\n".join(found)] if found else []),
    ]
    return "\n\n".join(parts)


def _number(mean: Row) -> str:
    spread = "" if mean["standard_error"] is None else f" ± {mean['standard_error']:.2g}"
    return f"{mean['mean']:.3g}{spread}"
