"""From constraints as users state them to statements about unlabeled rows, and back to a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from regfactor.constraints import ROUNDING, ClassBalance, Constraint
from regfactor.core.params import Array, optional, warn
from regfactor.labels.expectation.problem import Statements

# features with more entries than that, of which few are not zero, are held sparse
LARGE = 1_000_000
THIN = 0.1
MISSED = 0.05  # of the size of its feature: a miss that is told by a warning


class Reported(NamedTuple):
    """A line of the report: what was stated of a label, what came out in expectation, and what is predicted."""

    constraint: str
    label: Any
    target: float
    tolerance: float
    expected: float
    predicted: float
    violation: float
    n_rows: int


class ConstraintReport(tuple[Reported, ...]):
    """How every statement came out; its `str` is a table.

    `expected` is under the distributions of labels, `predicted` under the predictions for the
    unlabeled rows; `violation` is by how much `expected` lies outside target +- tolerance.
    """

    @property
    def max_violation(self) -> float:
        """The largest violation."""
        return max((line.violation for line in self), default=0.0)

    def to_frame(self) -> Any:
        """Return the lines as a pandas frame."""
        pd = optional("pandas", "ConstraintReport.to_frame", "pip install pandas")
        return pd.DataFrame(list(self), columns=list(Reported._fields))

    def __str__(self) -> str:
        head = ("constraint", "label", "target", "expected", "predicted", "violation", "rows")
        rows = [head] + [
            (
                r.constraint,
                str(r.label),
                f"{r.target:.3g} ± {r.tolerance:.3g}",
                f"{r.expected:.3g}",
                f"{r.predicted:.3g}",
                f"{r.violation:.2g}",
                str(r.n_rows),
            )
            for r in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@dataclass(frozen=True, eq=False)
class Stated:
    """Constraints with their features on the unlabeled rows, each divided by its total; None where that is zero."""

    constraints: tuple[Constraint, ...]
    columns: list[Array | None]
    classes: Array
    weights: Array

    def statements(self, strength: float) -> Statements:
        """Return what the p-step takes; missing a target by delta costs (strength/2) delta^2 / sum_j v_j a_j^2.

        For a share among n rows that is strength n delta^2 / 2: it grows with the rows as the other
        terms do.
        """
        used = [a for a in self.columns if a is not None]
        lines = []
        at = 0
        for constraint, a in zip(self.constraints, self.columns, strict=True):
            if a is None:
                continue
            lines += [
                (at, c, t, constraint.tolerance)
                for c, t in _columns_of(constraint, self.classes, a, self)
            ]
            at += 1
        if not lines:
            return Statements.none(len(self.weights))
        A = np.column_stack(used)
        squares = self.weights @ np.square(A)
        where, of, target, tolerance = (np.array(column) for column in zip(*lines, strict=True))
        thin = A.size > LARGE and np.count_nonzero(A) < THIN * A.size
        return Statements(
            scipy.sparse.csr_array(A) if thin else A,
            where,
            of,
            target.astype(float),
            tolerance.astype(float),
            strength / squares[where],
        )

    def report(self, p: Array, predicted: Array) -> ConstraintReport:
        """Return how statements came out under p (rows x classes) and under predicted codes."""
        place = {label: c for c, label in enumerate(self.classes.tolist())}
        hard = predicted[:, None] == np.arange(len(self.classes))
        lines = []
        for constraint, a in zip(self.constraints, self.columns, strict=True):
            for label, target in constraint.targets.items():
                if a is None:
                    lines.append(
                        Reported(
                            str(constraint),
                            label,
                            target,
                            constraint.tolerance,
                            np.nan,
                            np.nan,
                            0.0,
                            0,
                        ),
                    )
                    continue
                c = place[label]
                v = self.weights * a
                expected = float(v @ p[:, c])
                seen = float(v @ hard[:, c])
                miss = max(abs(expected - target) - constraint.tolerance, 0.0)
                rows = int(np.count_nonzero(a))
                lines.append(
                    Reported(
                        str(constraint),
                        label,
                        target,
                        constraint.tolerance,
                        expected,
                        seen,
                        miss,
                        rows,
                    ),
                )
        return ConstraintReport(lines)

    def sizes(self) -> list[float]:
        """Return what each line of the report is large against: 1 for a share."""
        return [
            1.0 if a is None else float(self.weights @ np.abs(a))
            for constraint, a in zip(self.constraints, self.columns, strict=True)
            for _ in constraint.targets
        ]

    def balance(self, otherwise: Array) -> Array:
        """Return the stated shares of all classes, where they are."""
        for constraint in self.constraints:
            if isinstance(constraint, ClassBalance):
                shares = constraint.targets
                if len(self.classes) == 2 and len(shares) == 1:
                    ((label, share),) = shares.items()
                    shares |= {
                        other: 1 - share for other in self.classes.tolist() if other != label
                    }
                if len(shares) == len(self.classes):
                    return np.array([shares[label] for label in self.classes.tolist()])
        return otherwise


def _columns_of(
    constraint: Constraint,
    classes: Array,
    a: Array,
    stated: Stated,
) -> list[tuple[int, float]]:
    """Return (column of scores, target): of two classes only the second has one, and one statement says it all."""
    place = {label: c for c, label in enumerate(classes.tolist())}
    targets = {place[label]: target for label, target in constraint.targets.items()}
    if len(classes) > 2:
        return list(targets.items())
    whole = float(stated.weights @ a)
    return [(0, targets[1] if 1 in targets else whole - targets[0])]


def as_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the constraints that a user gave, one or several."""
    if isinstance(constraints, Constraint):
        return (constraints,)
    if not isinstance(constraints, Iterable) or isinstance(constraints, str | dict):
        raise ValueError(f"constraints must be a list of constraints, got {constraints!r}.")
    found = tuple(constraints)
    for constraint in found:
        if not isinstance(constraint, Constraint):
            raise ValueError(
                f"constraints holds {constraint!r}; make constraints by class_balance, labeled_feature, region or "
                "expectation of regfactor.constraints.",
            )
    return found


def check_labels(constraints: tuple[Constraint, ...], classes: Array) -> None:
    """Raise where a constraint names a class that is none, or shares of all classes that do not sum to one."""
    known = set(classes.tolist())
    for constraint in constraints:
        strange = [label for label in constraint.targets if label not in known]
        if strange:
            raise ValueError(
                f"The constraint on {constraint} names {strange}, and the classes are {classes.tolist()}; name all "
                "classes by classes=[...], or correct the label.",
            )
        total = sum(constraint.targets.values())
        if (
            constraint.relative
            and len(constraint.targets) == len(known)
            and abs(total - 1) > ROUNDING
        ):
            raise ValueError(
                f"The constraint on {constraint} gives shares of all classes that sum to {total:g}, not to one.",
            )


def stated(
    constraints: tuple[Constraint, ...],
    X: Any,
    names: Any,
    classes: Array,
    rows: Array,
    weights: Array,
) -> Stated:
    """Return constraints on `rows`, the unlabeled ones of positive weight; one that says nothing of them is told."""
    columns: list[Array | None] = []
    for constraint in constraints:
        phi = constraint.features(X, names)[rows]
        if constraint.relative:
            total = float(weights @ phi)
        else:
            total = float(weights.sum())
        if not phi.any():
            warn(
                f"The constraint on {constraint} says nothing: no unlabeled row belongs to it. It is left out.",
            )
            columns.append(None)
            continue
        columns.append(phi / total)
    return Stated(constraints, columns, classes, weights)


def warn_of_misses(report: ConstraintReport, scale: list[float]) -> None:
    """Warn of statements that do not hold by far: they contradict each other or the penalty is too low."""
    missed = [
        line for line, size in zip(report, scale, strict=True) if line.violation > MISSED * size
    ]
    if missed:
        worst = max(missed, key=lambda line: line.violation)
        warn(
            f"{len(missed)} of {len(report)} stated expectations do not hold; the worst is {worst.label!r} among "
            f"{worst.constraint}: stated {worst.target:.3g} ± {worst.tolerance:.3g}, found {worst.expected:.3g}. They "
            "may contradict each other or the labels; see constraint_report_, widen tolerances, or raise penalty.",
        )
